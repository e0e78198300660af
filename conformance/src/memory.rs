//! Advertised memory, and the RDMA operations on it (RFC 8166, sections 3.4, 4.4 and 8).
//!
//! The engine looks up every RDMA operation in the memory that open transactions advertise, and
//! reports operations outside of it. Not all of these are faults: a call that the capture lacks may
//! have advertised the memory. Recently advertised memory is therefore kept, together with the
//! message that ended its transaction. An operation that the capture shows late, after a Send that
//! followed it, is no fault.
//!
//! Bytes that are written but not returned are no fault (RFC 8166, section 4.3.2.2).

use super::bounded;
use super::check::{Check, Checked, Findings, View};
use super::chunks;
use super::finding::{Basis, Finding, Value};
use super::judged::on_answer;
use super::known::{Known, Memory, is_close};
use super::rule::{Document, Level, Source, Unseen};
use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;
use rdmascope_dissector::observation::{Advertiser, Faulty, Mismatch, Observed, Sent, Unmatched};
use rdmascope_dissector::rdma::{End, Fault, Operation, Position};
use rdmascope_dissector::record::REORDERING;
use rdmascope_dissector::transaction::{Direction, Outcome, Part, Seen, Transaction};
use rdmascope_wire::rpc;
use rdmascope_wire::rpcrdma::{Segment, VERSION};
use rdmascope_wire::{Rkey, Xid};

const SEGMENTS: Source = Source { document: Document::Rfc8166, section: "3.4.3" };
const READS: Source = Source { document: Document::Rfc8166, section: "3.4.5" };
const READ_TO_THE_END: Source = Source { document: Document::Rfc8166, section: "3.4.5.1" };
const WRITES: Source = Source { document: Document::Rfc8166, section: "3.4.6" };
const CHUNKED: Source = Source { document: Document::Rfc8166, section: "3.5.2" };
const UNUSED: Source = Source { document: Document::Rfc8166, section: "4.3.2.2" };
const REPLY_CHUNK: Source = Source { document: Document::Rfc8166, section: "4.3.3" };
const LONGEVITY: Source = Source { document: Document::Rfc8166, section: "4.4.1" };
const OPERATIONS: Source = Source { document: Document::Rfc8166, section: "4.5.3" };
const ERRORS: Source = Source { document: Document::Rfc8166, section: "4.5.4" };
const DOMAINS: Source = Source { document: Document::Rfc8166, section: "8.1.1" };
const PROTECTION: Source = Source { document: Document::Rfc8166, section: "8.1.3" };
const INVALIDATION: Source = Source { document: Document::Rfc8797, section: "3.2" };
const PULL: Source = Source { document: Document::ReliableReply, section: "4.1.2" };
const PULLED: Source = Source { document: Document::ReliableReply, section: "4.1.3" };

pub(crate) const RULES: &[Checked<AdvertisedMemory>] = &[
    Checked {
        id: "memory-advertised",
        level: Level::Violation,
        sources: &[SEGMENTS, OPERATIONS, DOMAINS],
        sentence: "RDMA Reads and RDMA Writes name memory that the peer advertised on this \
            connection in an open transaction.",
        explanation: "The rule looks at the start of an operation: its R_Key and address belong \
            to a segment. The finding is certain if the capture contains the connection from its \
            CM exchange on and lacks no packet of the end that owns the memory, because a missing \
            call may have advertised it. memory-after-reply and memory-after-done cover memory \
            that was advertised before.",
        check: Check::Unmatched(unadvertised),
    },
    Checked {
        id: "memory-segment-end",
        level: Level::Violation,
        sources: &[SEGMENTS, OPERATIONS],
        sentence: "An RDMA Read or RDMA Write does not pass the end of the segment that it begins in.",
        explanation: "The address and DMA length in the RETH are compared with the advertised \
            segment. An operation may continue in another segment that follows directly under the \
            same handle and has the same use. The finding is inconclusive if packets of the \
            sender are missing, because the reply that ended the transaction may be among them, \
            or if a header that lists memory could not be read.",
        check: Check::Unmatched(past_end),
    },
    Checked {
        id: "memory-direction",
        level: Level::Violation,
        sources: &[READS, WRITES],
        sentence: "Read chunks are moved by RDMA Read, and Write chunks and Reply chunks by RDMA \
            Write.",
        explanation: "The rule looks at the segment in which an operation begins. The finding is \
            inconclusive if packets of the sender are missing, because the reply that ended the \
            transaction may be among them, if a header that lists memory could not be read, or if \
            two open calls advertise the same memory.",
        check: Check::Unmatched(other_way),
    },
    Checked {
        id: "memory-after-reply",
        level: Level::Violation,
        sources: &[READ_TO_THE_END, CHUNKED, PROTECTION],
        sentence: "A Responder does not access the memory of a call after it sent the reply.",
        explanation: "The PSN decides the order: the PSN of the operation follows those of the \
            reply, whatever the order in the capture. RDMA_ERROR counts as a reply here. The \
            finding is reported once it is certain that the Requester did not advertise the \
            memory again in between. The judge keeps the last 512 segments of answered calls.",
        check: Check::Unmatched(after_reply),
    },
    Checked {
        id: "memory-after-done",
        level: Level::Violation,
        sources: &[PULL, PULLED],
        sentence: "A Requester does not read a Read chunk of the Responder after it sent RDMA_DONE.",
        explanation: "The rule is decided like memory-after-reply, with RDMA_DONE in place of the reply.",
        check: Check::Unmatched(after_done),
    },
    Checked {
        id: "memory-after-invalidation",
        level: Level::Violation,
        sources: &[INVALIDATION],
        sentence: "An end does not access memory after it invalidated the handle.",
        explanation: "A reply ends the use of all memory that its call advertised, whether \
            invalidated or not. This rule is about the memory of another open transaction whose \
            handle a Send with Invalidate named. The finding is inconclusive if that transaction \
            advertised the memory so shortly before that the capture may show the two in the \
            wrong order.",
        check: Check::Unmatched(after_invalidation),
    },
    Checked {
        id: "memory-written",
        level: Level::Violation,
        sources: &[WRITES, CHUNKED, REPLY_CHUNK],
        sentence: "A Responder writes all bytes that its reply returns in chunks before it sends the reply.",
        explanation: "The lengths in the reply are compared with the bytes that RDMA Writes put \
            into each segment, up to the PSN of the reply. The finding is inconclusive if packets \
            of the Responder are missing since the call, if one of its operations just before \
            named memory that was not advertised, or if two open calls advertise the same memory. \
            Nothing is reported if an operation between call and reply named memory that was not \
            advertised, which memory-advertised reports, or if a segment of iWARP was at a wrong \
            offset (iwarp-message-offset). returned-chunk-length covers lengths greater than the \
            call allows.",
        check: Check::Transaction(unwritten),
    },
    Checked {
        id: "memory-read",
        level: Level::Warning,
        sources: &[READ_TO_THE_END, CHUNKED],
        sentence: "A Responder that reports success has read the Read chunks of the call.",
        explanation: "The specifications do not require this, and a reply from a duplicate \
            request cache needs no arguments. The bytes that RDMA Read requests asked for, each \
            counted once, are compared with the length of the Read chunks. Up to three bytes of \
            each chunk may be roundup padding that need not be read. The rule covers only calls \
            whose status is success, because a call may fail before its arguments are needed. It \
            does not look at READ responses, so missing ones do not matter. Nothing is reported \
            if a request between call and reply named memory that was not advertised, which \
            memory-advertised reports.",
        check: Check::Transaction(unread),
    },
];

pub(crate) const UNSEEN: &[Unseen] = &[
    Unseen {
        source: LONGEVITY,
        requirement: "A Requester ends the Responder's access to memory before its upper layer uses the data.",
        reason: "A local invalidation is not on the wire.",
    },
    Unseen {
        source: LONGEVITY,
        requirement: "A Requester does not access memory while its Responder may.",
        reason: "Local access to memory is not on the wire.",
    },
    Unseen {
        source: WRITES,
        requirement: "Memory that is written twice is written with the same bytes.",
        reason: "The specifications do not require this: a Responder may write bytes that it does \
            not return, and the last bytes written count. Payload is not kept for comparison.",
    },
    Unseen {
        source: UNUSED,
        requirement: "A Requester does not assume that the memory of an unused Write chunk is unmodified.",
        reason: "A Requester's assumptions about its own memory are not on the wire.",
    },
    Unseen {
        source: ERRORS,
        requirement: "A Requester that cannot invalidate memory closes the connection before the transaction is complete.",
        reason: "A local invalidation that fails is not on the wire.",
    },
    Unseen {
        source: ERRORS,
        requirement: "A Responder that can send neither a reply nor an error closes the connection.",
        reason: "The abilities of a Responder are not on the wire. A call without a reply has \
            other causes too.",
    },
    Unseen {
        source: Source { document: Document::Rfc8166, section: "8.1" },
        requirement: "The transport makes no memory vulnerable, and its RDMA provider conforms to RFC 5042.",
        reason: "The protection of memory by an adapter is visible only under attack.",
    },
    Unseen {
        source: DOMAINS,
        requirement: "A Protection Domain limits each memory region to one connection.",
        reason: "Protection Domains are not on the wire. memory-advertised reports an operation \
            that names memory of another connection.",
    },
    Unseen {
        source: Source { document: Document::Rfc8166, section: "8.1.2" },
        requirement: "Handles are unpredictable, and memory that stays registered is not advertised.",
        reason: "Registrations are not on the wire, and a capture does not show whether a handle could be predicted.",
    },
    Unseen {
        source: PROTECTION,
        requirement: "Memory is registered only shortly before its use, and invalidated as soon \
            as the operation is complete or given up.",
        reason: "Neither is on the wire, except for an invalidation by a Send.",
    },
    Unseen {
        source: Source { document: Document::Rfc8166, section: "2.3.2" },
        requirement: "Registered memory is named by a steering tag of up to 32 bits and an address of up to 64 bits.",
        reason: "The fields have no room for more.",
    },
    Unseen {
        source: PULL,
        requirement: "A Requester pulls the reply from a responder-provided Read chunk.",
        reason: "A Requester may also give up the reply. It sends RDMA_DONE in either case.",
    },
    Unseen {
        source: PULL,
        requirement: "A Requester sends RDMA_DONE as soon as it has pulled a reply.",
        reason: "There is no time limit. header-done-missing reports connections that were closed \
            without an RDMA_DONE.",
    },
    Unseen {
        source: PULLED,
        requirement: "A Responder that receives no RDMA_DONE can invalidate its Read chunk after \
            a while.",
        reason: "A local invalidation is not on the wire.",
    },
    Unseen {
        source: Source { document: Document::ReliableReply, section: "5.1.4" },
        requirement: "A Responder has registered its Read chunk before it sends the RDMA_NOMSG that names it.",
        reason: "Registrations are not on the wire. A READ that arrives too early is refused, \
            which has other causes too.",
    },
];

/// Advertised memory, and the Sends and operations that matter for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct AdvertisedMemory {
    senders: [Sender; 2],
    /// Segments of transactions that ended, latest last.
    ended: VecDeque<Ended>,
    /// Transactions whose memory another one also advertised while they were open: the end that
    /// owns the memory, and their XIDs.
    shared: VecDeque<(End, [Xid; 2])>,
}

/// The Sends and operations of one end.
#[derive(Clone, Debug, Default)]
struct Sender {
    /// The first frame of its first Send. Missing packets are noticed from there on.
    first: Option<u64>,
    last: Option<Last>,
    /// [`Known::losses`] at its last Send.
    lost: u64,
    /// The first Send after the packets that were last found missing.
    lost_before: Option<Seen>,
    /// Its last operation outside of advertised memory.
    last_unmatched: Option<UnmatchedOperation>,
    /// The capture lacks a part of some header, and so any memory listed there.
    blind: bool,
}

/// An operation outside of advertised memory.
#[derive(Clone, Copy, Debug)]
struct UnmatchedOperation {
    seen: Seen,
    reading: bool,
    /// Bytes that it requested or wrote.
    length: u64,
}

/// The last Send of an end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Last {
    /// The packet that completed it.
    pub(crate) seen: Seen,
    /// Its last PSN.
    psn: Position,
    /// The message itself shows its kind.
    is_explicit: bool,
    /// The handle that it invalidates.
    pub(crate) invalidated: Option<Rkey>,
}

/// A segment of a transaction that ended.
#[derive(Clone, Debug)]
struct Ended {
    /// The end that owns the memory.
    owner: End,
    segment: Segment,
    direction: Direction,
    xid: Xid,
    /// [`Transaction::number`].
    number: u64,
    by: Ender,
    /// The packet that completed the Send that ended it.
    seen: Option<Seen>,
}

/// The message that ended a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ender {
    Reply,
    Done,
    /// The transaction ended in another way, so it is unknown whether the other end could still use
    /// the memory.
    Other,
}

impl AdvertisedMemory {
    /// Segments that are kept.
    const MOST: usize = 512;
    /// Segments for which room is reserved at first.
    const INITIAL_CAPACITY: usize = 16;
    /// Pairs of transactions with memory in common that are kept.
    const MOST_SHARED: usize = 64;

    /// The last Send of this end.
    pub(crate) fn last(&self, end: End) -> Option<Last> {
        self.senders[end].last
    }

    /// The latest advertised segment with this address, among transactions that ended.
    fn former(&self, owner: End, rkey: Rkey, address: u64) -> Option<&Ended> {
        self.ended.iter().rev().find(|ended| {
            let Segment { handle, length, offset } = ended.segment;
            ended.owner == owner && handle == rkey && address.wrapping_sub(offset) < u64::from(length)
        })
    }

    /// Whether the transaction that ended with the Send in `frame` advertised this handle itself.
    pub(crate) fn ended_with(&self, frame: u64, rkey: Rkey) -> bool {
        let mut ended = self.ended.iter().rev();
        ended.any(|ended| ended.seen.is_some_and(|seen| seen.frame == frame) && ended.segment.handle == rkey)
    }

    fn is_shared(&self, owner: End, xid: Xid) -> bool {
        self.shared.iter().any(|(end, xids)| *end == owner && xids.contains(&xid))
    }

    fn remember(&mut self, ended: Ended) {
        if self.ended.is_empty() {
            self.ended.reserve(AdvertisedMemory::INITIAL_CAPACITY);
        }
        bounded::push(&mut self.ended, AdvertisedMemory::MOST, ended);
    }

    /// Keeps the memory of a transaction that ended.
    fn remember_all(&mut self, transaction: &Transaction, known: &Known) {
        let Transaction { call, reply, direction, xid, number, .. } = transaction;
        let (caller, answerer) = (known.caller(*direction), known.answerer(*direction));
        let sent =
            |end: End, seen: &Seen| self.last(end).is_some_and(|last| last.seen == *seen && last.is_explicit);
        let replied = reply.as_ref().map(|reply| reply.seen).filter(|seen| sent(answerer, seen));
        let done = transaction.done.filter(|seen| sent(caller, seen));
        let (by, seen) = match (replied, done) {
            (_, Some(seen)) => (Ender::Done, Some(seen)),
            (Some(seen), None) if transaction.outcome != Outcome::NoCall => (Ender::Reply, Some(seen)),
            _ => (Ender::Other, None),
        };
        let of_call = call.iter().flat_map(chunks::segments).map(|(segment, _)| segment);
        let of_reply =
            reply.iter().flat_map(|reply| reply.read_chunks.iter().flat_map(|chunk| &chunk.segments));
        // The reply ended the use of the call's memory. RDMA_DONE ends only the use of the reply's
        // memory.
        let of_call_by = if by == Ender::Done { Ender::Other } else { by };
        let segments = of_call.map(|segment| (caller, segment, of_call_by));
        for (owner, segment, by) in segments.chain(of_reply.map(|segment| (answerer, segment, by))) {
            self.remember(Ended {
                owner,
                segment: *segment,
                direction: *direction,
                xid: *xid,
                number: *number,
                by,
                seen,
            });
        }
    }
}

impl Memory for AdvertisedMemory {
    fn footprint(&self) -> usize {
        self.ended.len() * size_of::<Ended>() + self.shared.len() * size_of::<(End, [Xid; 2])>()
    }

    fn sent(&mut self, sent: &Sent<'_>, known: &Known) {
        let lost = known.losses(sent.from);
        let sender = &mut self.senders[sent.from];
        sender.first.get_or_insert(sent.send.first.frame);
        if sender.lost != lost {
            sender.lost = lost;
            sender.lost_before = Some(sent.send.seen);
        }
        sender.blind |= sent.header.is_none_or(|header| header.stop.is_some() || header.version != VERSION);
        sender.last = Some(Last {
            seen: sent.send.seen,
            psn: sent.send.last(),
            is_explicit: sent.is_explicit,
            invalidated: sent.send.invalidated,
        });
    }

    fn transaction(&mut self, transaction: &Transaction, known: &Known) {
        let (call, reply) = (&transaction.call, &transaction.reply);
        if call.as_ref().is_some_and(chunks::lists_chunks)
            || reply.as_ref().is_some_and(|reply| !reply.read_chunks.is_empty())
        {
            self.remember_all(transaction, known);
        }
    }

    fn observed(&mut self, observed: &Observed<'_>, _: &Known) {
        match observed {
            Observed::Unmatched(Unmatched { from, seen, reading, memory, .. }) => {
                let length = memory.length.into();
                let operation = UnmatchedOperation { seen: *seen, reading: *reading, length };
                self.senders[*from].last_unmatched = Some(operation);
            }
            // The bytes of the segment are not where they should be.
            Observed::Faulty(Faulty {
                from,
                seen,
                piece,
                fault: Fault::MessageOffset { .. } | Fault::Length { .. },
                ..
            }) if piece.operation == Operation::Write => {
                let operation = UnmatchedOperation { seen: *seen, reading: false, length: u64::MAX };
                self.senders[*from].last_unmatched = Some(operation);
            }
            Observed::Shared(shared) => {
                let owned = (shared.owner, shared.xids);
                bounded::push(&mut self.shared, AdvertisedMemory::MOST_SHARED, owned);
            }
            _ => {}
        }
    }

    /// Records that the engine evicted a call, so the memory that it advertised is unknown.
    fn evicted(&mut self, _: End) {
        self.senders.iter_mut().for_each(|sender| sender.blind = true);
    }

    fn joined(&mut self) {
        *self = Self::default();
    }
}

impl AdvertisedMemory {
    /// Whether the capture may lack packets that this end sent between the call and the end of this
    /// transaction.
    pub(crate) fn may_lack(&self, known: &Known, end: End, transaction: &Transaction) -> bool {
        let Some(call) = &transaction.call else { return true };
        let sender = &self.senders[end];
        // Missing packets are noticed from the PSN announced by the CM messages on, or else from
        // the first Send on.
        let is_followed = known.holds_start() && known.inline_threshold(end).is_some()
            || sender.first.is_some_and(|first| first <= call.first.frame);
        transaction.capture_gap || !is_followed || self.may_lack_since(known, end, call.first)
    }

    /// Whether the misplaced `bytes` of a transaction are explained by the Responder's last
    /// operation between call and reply, which was outside of the memory that the call advertised.
    /// That is one fault, and a finding of its own.
    fn is_explained_by_unmatched(
        &self,
        known: &Known,
        transaction: &Transaction,
        reading: bool,
        bytes: u64,
    ) -> bool {
        let (Some(call), Some(reply)) = (&transaction.call, &transaction.reply) else { return false };
        let unmatched = self.senders[known.answerer(transaction.direction)].last_unmatched;
        unmatched.is_some_and(|unmatched| {
            let between = call.first.frame..reply.seen.frame;
            unmatched.reading == reading
                && unmatched.length >= bytes
                && between.contains(&unmatched.seen.frame)
        })
    }

    /// Whether this end may have sent something after `seen` that the capture lacks.
    fn may_lack_since(&self, known: &Known, end: End, seen: Seen) -> bool {
        let sender = &self.senders[end];
        sender.lost != known.losses(end)
            || sender.lost_before.is_some_and(|later| seen.time.since(later.time) <= REORDERING.0)
    }
}

/// True if the call or the reply lists chunks.
pub(crate) fn may_break(transaction: &Transaction) -> bool {
    [&transaction.call, &transaction.reply].into_iter().flatten().any(chunks::lists_chunks)
}

/// The fault of an operation. `None` if the capture shows it after a Send that followed it: the
/// transaction of its memory may have been open when it was sent.
fn mismatch(unmatched: &Unmatched, view: &View<'_, AdvertisedMemory>) -> Option<Mismatch> {
    let is_late =
        view.memory.last(unmatched.from).is_some_and(|last| last.psn.distance(unmatched.position) <= 0);
    (!is_late).then_some(unmatched.mismatch)
}

/// A finding about an operation.
fn about(unmatched: &Unmatched, problem: &str) -> Finding {
    let name = if unmatched.reading { "an RDMA Read" } else { "an RDMA Write" };
    let (length, address) = (unmatched.memory.length, unmatched.memory.address);
    Finding::new(format!(
        "{name} of {length} bytes at 0x{address:016x}, handle {}: {problem}",
        unmatched.memory.rkey
    ))
    .by(unmatched.from)
    .frames([unmatched.seen.frame])
}

fn unadvertised(unmatched: &Unmatched, view: &View<'_, AdvertisedMemory>, findings: &mut Findings<'_>) {
    if mismatch(unmatched, view) != Some(Mismatch::Unadvertised) {
        return;
    }
    let owner = unmatched.from.other();
    // Missing packets of the owner are not noticed before its first Send.
    let first = view.memory.senders[owner].first;
    let is_known = view.paired && first.is_some_and(|first| first < unmatched.seen.frame);
    if !is_known || view.memory.former(owner, unmatched.memory.rkey, unmatched.address).is_some() {
        return;
    }
    let lacks = !view.is_fully_captured(owner) || view.memory.senders[owner].blind;
    findings.add(
        about(unmatched, "no open transaction advertised it")
            .observed(Value::Hexadecimal(unmatched.memory.rkey.0.into()))
            .rests_on(Basis::Silence(owner))
            .unless(lacks),
    );
}

/// Whether the transaction may have ended, or may not be the intended one.
fn is_doubtful(unmatched: &Unmatched, advertiser: Advertiser, view: &View<'_, AdvertisedMemory>) -> bool {
    let owner = unmatched.from.other();
    view.losses(unmatched.from) > 0
        || view.losses(owner) > 0
        || view.memory.senders[owner].blind
        || view.memory.is_shared(owner, advertiser.xid)
}

fn past_end(unmatched: &Unmatched, view: &View<'_, AdvertisedMemory>, findings: &mut Findings<'_>) {
    let Some(Mismatch::PastEnd(advertiser)) = mismatch(unmatched, view) else { return };
    let inside = unmatched.address.wrapping_sub(unmatched.memory.address);
    findings.add(
        about(unmatched, &format!("the memory that was advertised ends after {inside} of them"))
            .about(Some(view.direction(advertiser.caller)), advertiser.xid)
            .values(Value::Bytes(unmatched.memory.length.into()), Value::Bytes(inside))
            .rests_on(Basis::Silence(unmatched.from.other()))
            .unless(is_doubtful(unmatched, advertiser, view)),
    );
}

fn other_way(unmatched: &Unmatched, view: &View<'_, AdvertisedMemory>, findings: &mut Findings<'_>) {
    let Some(Mismatch::OtherWay(advertiser)) = mismatch(unmatched, view) else { return };
    let problem = if unmatched.reading {
        "it was advertised for writing"
    } else {
        "it was advertised \
        for reading"
    };
    let [read, write] = ["RDMA Read", "RDMA Write"];
    let (observed, allowed) = if unmatched.reading { (read, write) } else { (write, read) };
    findings.add(
        about(unmatched, problem)
            .about(Some(view.direction(advertiser.caller)), advertiser.xid)
            .values(Value::Name(observed), Value::Name(allowed))
            .rests_on(Basis::Silence(unmatched.from.other()))
            .unless(is_doubtful(unmatched, advertiser, view)),
    );
}

fn after_reply(unmatched: &Unmatched, view: &View<'_, AdvertisedMemory>, findings: &mut Findings<'_>) {
    after(unmatched, view, Ender::Reply, "the transaction ended with the reply", findings);
}

fn after_done(unmatched: &Unmatched, view: &View<'_, AdvertisedMemory>, findings: &mut Findings<'_>) {
    after(unmatched, view, Ender::Done, "the transaction ended with RDMA_DONE", findings);
}

fn after(
    unmatched: &Unmatched,
    view: &View<'_, AdvertisedMemory>,
    by: Ender,
    problem: &str,
    findings: &mut Findings<'_>,
) {
    if mismatch(unmatched, view) != Some(Mismatch::Unadvertised) {
        return;
    }
    let owner = unmatched.from.other();
    let former = view.memory.former(owner, unmatched.memory.rkey, unmatched.address);
    let Some(ended) = former.filter(|ended| ended.by == by) else { return };
    let Some(end) = ended.seen else { return };
    let finding = Finding { transaction: Some(ended.number), ..about(unmatched, problem) };
    // The capture shows it before the end of that transaction, so it may also show it before its
    // own call.
    let overtook = unmatched.seen.frame < end.frame;
    findings.add(
        finding
            .about(Some(ended.direction), ended.xid)
            .frames([end.frame])
            .rests_on(Basis::Silence(owner))
            .unless(
                overtook || view.memory.may_lack_since(view, owner, end) || view.memory.senders[owner].blind,
            ),
    );
}

fn after_invalidation(unmatched: &Unmatched, view: &View<'_, AdvertisedMemory>, findings: &mut Findings<'_>) {
    let Some(Mismatch::Invalidated(revoked)) = mismatch(unmatched, view) else { return };
    let lacks = is_close(revoked.since, revoked.seen) || is_doubtful(unmatched, revoked.advertiser, view);
    findings.add(
        about(unmatched, "its handle had been invalidated")
            .about(Some(view.direction(revoked.advertiser.caller)), revoked.advertiser.xid)
            .frames([revoked.seen.frame, revoked.since.frame])
            .rests_on(Basis::Silence(unmatched.from.other()))
            .unless(lacks),
    );
}

fn unwritten(transaction: &Transaction, view: &View<'_, AdvertisedMemory>, findings: &mut Findings<'_>) {
    let (Some(call), Some(reply)) = (&transaction.call, &transaction.reply) else { return };
    let of_chunks = |part: Part| matches!(part, Part::WriteChunk(_) | Part::ReplyChunk);
    let missing = reply.missing.iter().filter(|missing| of_chunks(missing.part));
    let is_unknown = transaction.memory_unseen || transaction.outcome != Outcome::Completed;
    if missing.clone().next().is_none() || is_unknown {
        return;
    }
    // Other rules report chunks that are returned in another way than they were offered.
    if !chunks::write::returns_as_offered(call, reply) {
        return;
    }
    let bytes: u64 =
        missing.clone().map(|missing| missing.end.unwrap_or(missing.start) - missing.start).sum();
    let claimed: u64 = chunks::writable(reply).map(|chunk| Segment::total(&chunk.segments)).sum();
    let provided = chunks::writable(call).flat_map(|chunk| &chunk.segments);
    let mut provided: Vec<&Segment> = provided.filter(|segment| segment.length > 0).collect();
    provided.sort_unstable_by_key(|segment| (segment.handle, segment.offset));
    let overlaps = provided.windows(2).any(|pair| {
        let (first, second) = (pair[0], pair[1]);
        first.handle == second.handle && second.offset - first.offset < u64::from(first.length)
    });
    let (caller, answerer) = (view.caller(transaction.direction), view.answerer(transaction.direction));
    if view.unmatched.is_reused(caller, transaction.xid)
        || view.memory.is_explained_by_unmatched(view, transaction, false, bytes)
    {
        return;
    }
    // If the capture shows an operation outside of advertised memory before the call, it may have
    // been meant for this segment.
    let unmatched = view.memory.senders[answerer].last_unmatched;
    let lacks = view.memory.may_lack(view, answerer, transaction)
        || call.stop.is_some()
        || unmatched.is_some_and(|unmatched| call.first.time.since(unmatched.seen.time) <= REORDERING.0)
        || overlaps
        || view.memory.is_shared(caller, transaction.xid);
    let place = if missing.clone().all(|missing| missing.part == Part::ReplyChunk) {
        "the Reply chunk"
    } else {
        "its chunks"
    };
    let message = format!(
        "the reply returns {claimed} bytes in {place}, but {bytes} of them were not \
            written"
    );
    findings.add(
        on_answer(transaction, view, message)
            .values(Value::Bytes(claimed - bytes.min(claimed)), Value::Bytes(claimed))
            .unless(lacks),
    );
}

fn unread(transaction: &Transaction, view: &View<'_, AdvertisedMemory>, findings: &mut Findings<'_>) {
    /// The most roundup padding of a chunk.
    const PADDING: u64 = 3;
    let (Some(call), Some(_)) = (&transaction.call, &transaction.reply) else { return };
    let succeeded = transaction.rpc_status == Some(rpc::Status::Success) && transaction.status == Some(0);
    if transaction.memory_unseen
        || call.read_chunks.is_empty()
        || !succeeded
        || transaction.outcome != Outcome::Completed
    {
        return;
    }
    let length = chunks::read_bytes(call);
    let requested = transaction.timing.requested_bytes;
    if requested + PADDING * call.read_chunks.len() as u64 >= length {
        return;
    }
    let (caller, answerer) = (view.caller(transaction.direction), view.answerer(transaction.direction));
    // read-chunk-length reports a chunk that is longer than its item.
    if view.unmatched.is_reused(caller, transaction.xid)
        || view.memory.is_explained_by_unmatched(view, transaction, true, length - requested)
        || !chunks::read::has_own_lengths(transaction, call)
    {
        return;
    }
    let lacks = view.memory.may_lack(view, answerer, transaction)
        || call.stop.is_some()
        || view.memory.is_shared(caller, transaction.xid);
    let message = format!(
        "success, but only {requested} of {length} bytes in Read chunks were \
            requested"
    );
    findings.add(
        on_answer(transaction, view, message)
            .values(Value::Bytes(requested), Value::Bytes(length))
            .unless(lacks),
    );
}

#[cfg(test)]
mod tests;
