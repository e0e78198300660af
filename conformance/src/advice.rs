//! Allowed behaviour that costs performance.
//!
//! Single cases would be too many findings. They are therefore summed up for each connection and
//! reported when it ends, with their cost, if they were frequent. Only transactions that the
//! capture contains completely are counted, so missing packets make figures smaller, never larger.

mod figures;
mod transfers;

use super::check::{Check, Checked, Findings, View};
use super::chunks::lists_chunks;
use super::finding::{Finding, Value};
use super::known::{Known, Memory};
use super::rule::{Document, Level, Source, Unseen};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use figures::{Size, Span};
use rdmascope_dissector::connection::{CapturePoint, Connection};
use rdmascope_dissector::observation::Observed;
use rdmascope_dissector::phases::Phases;
use rdmascope_dissector::rdma::End;
use rdmascope_dissector::rdma::Refusal;
use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::{Chunk, Direction, Message, Outcome, Transaction};
use rdmascope_dissector::ulb::{self, Nfs3, Nfs4, OperationKind};
use rdmascope_wire::Xid;
use rdmascope_wire::rpcrdma::{Procedure, Segment};
use transfers::Transfers;

const REPLY_SIZE: Source = Source { document: Document::Rfc8166, section: "6.2" };
const LONG: Source = Source { document: Document::Rfc8166, section: "3.5.3" };
const UNUSED: Source = Source { document: Document::Rfc8166, section: "4.3.2.2" };
const ESTIMATE: Source = Source { document: Document::Rfc8267, section: "3" };
const THRESHOLD: Source = Source { document: Document::Rfc8166, section: "3.3.2" };
const RECEIVE: Source = Source { document: Document::Rfc8166, section: "3.3" };
const RETRY: Source = Source { document: Document::Ibta, section: "9.9.2.1.1" };
const READ: Source = Source { document: Document::Rfc8166, section: "3.4.5.1" };
const FSINFO: Source = Source { document: Document::Rfc1813, section: "3.3.19" };
const SIZES: Source = Source { document: Document::Rfc8881, section: "5.8.2" };

pub(crate) const RULES: &[Checked<Costs>] = &[
    Checked {
        id: "advice-reply-chunk",
        level: Level::Advice,
        sources: &[REPLY_SIZE, LONG, ESTIMATE],
        sentence: "A Reply chunk costs a registration even if the reply would have fitted inline.",
        explanation: "The rule counts, for each operation, the replies that were sent inline \
            although there was a Reply chunk, and those that used it although they would have \
            fitted inline. It reports them if there are at least 16, and if they are at least \
            half of the operation's replies with a Reply chunk. A tighter estimate of the reply's \
            size, or larger inline thresholds, save the registrations.",
        check: Check::Connection(reply_chunks),
    },
    Checked {
        id: "advice-write-chunk",
        level: Level::Advice,
        sources: &[REPLY_SIZE, UNUSED],
        sentence: "Write chunks that stay mostly empty cost registrations of memory that is never \
            written.",
        explanation: "The rule counts, for each operation, the replies that left half or more of \
            their Write chunks unused. It reports them if there are at least 16, if they are at \
            least half of the operation's replies with Write chunks, and if half or more of the \
            registered bytes stayed unused. Typical causes are reads beyond the end of a file, \
            and a read size that is much larger than the files.",
        check: Check::Connection(write_chunks),
    },
    Checked {
        id: "advice-call-over-threshold",
        level: Level::Advice,
        sources: &[THRESHOLD, READ],
        sentence: "A call just over the inline threshold costs a registration and an RDMA Read \
            that a slightly larger threshold saves.",
        explanation: "The rule counts calls with Read chunks that would exceed the inline \
            threshold by at most a quarter if they were sent inline, and would not exceed the 256 \
            KiB that can be negotiated. It reports them if there are at least 16. The time is \
            that from the first RDMA READ request to the last response, during which such a call \
            waits. Nothing is reported if `advice-small-transfers` reports the WRITEs of the \
            connection, because larger ones need fewer calls.",
        check: Check::Connection(calls_over),
    },
    Checked {
        id: "advice-small-transfers",
        level: Level::Advice,
        sources: &[FSINFO, SIZES],
        sentence: "Data that moves in many small READs or WRITEs costs a call for each.",
        explanation: "The rule counts the READs and the WRITEs of a connection. It reports either \
            kind if at least 64 of them have the largest size, which is at most 32 KiB, if \
            these are nine tenths of all, and if half or more of them are next to another one in \
            a file. The cause may be the mount options rsize and wsize, or an application that \
            does direct I/O of this size. Servers offer larger sizes in FSINFO, or in the \
            attributes maxread and maxwrite.",
        check: Check::Connection(small_transfers),
    },
    Checked {
        id: "advice-retransmission",
        level: Level::Advice,
        sources: &[RETRY, RECEIVE],
        sentence: "A retransmission costs the payload of its packets once more, and the time \
            until the sender noticed the loss.",
        explanation: "The rule counts request packets that are seen again after a NAK, or after a \
            millisecond or more. Copies that follow at once may be artefacts of the capture. It \
            reports each end that retransmitted at least 16 packets or received at least 16 RNR \
            NAKs. The time is that between the first transmission of a packet and its \
            retransmission, counted once if several packets wait together. If the packet was \
            acknowledged in between, the time starts at the last acknowledgement, because nothing \
            waited before that. Packets lost before the capture point are seen only once, and are \
            not counted.",
        check: Check::Connection(retransmissions),
    },
    Checked {
        id: "advice-slow-server",
        level: Level::Advice,
        sources: &[READ],
        sentence: "If replies take long although nothing is being transferred, the server is \
            slow.",
        explanation: "The rule looks at transactions that took more than 5 ms. The time until the \
            ACK of the call, and the time during which data of the server was in flight, count for \
            the wire, even if the data belongs to other transactions. So do RDMA Reads and Writes \
            and the packets of the reply. The rest counts for the server. The time after RDMA Reads \
            is left out unless the capture point is at the server, because responses may wait in \
            the network beyond the capture point. It is reported if there \
            are at least 16 such transactions, the server's share is at least three quarters, and \
            it adds up to a tenth of the connection's lifetime. Transactions with retransmitted, \
            refused or missing packets count entirely for the wire. A reply that was lost before \
            the capture point looks like a slow server. So nothing is reported if packets of the \
            server arrived after later ones, and their share in its packets is more than a quarter \
            of the share of the slow transactions.",
        check: Check::Connection(slow_server),
    },
];

pub(crate) const UNSEEN: &[Unseen] = &[
    Unseen {
        source: ESTIMATE,
        requirement: "A client estimates the size of a reply from the procedure, its arguments and the object.",
        reason: "The client's knowledge is not on the wire. An estimate is visible only if it was \
            too small, or far too large.",
    },
    Unseen {
        source: REPLY_SIZE,
        requirement: "A Requester allocates the resources for the largest possible reply.",
        reason: "Receive buffers are not on the wire, and the reply that was sent does not show \
            the largest possible one.",
    },
];

/// The number of occurrences from which on something is reported.
const ENOUGH: u64 = 16;
/// Nanoseconds from which on a transaction is slow.
const SLOW: u64 = 5_000_000;
/// Nanoseconds after which a packet that is seen again counts as retransmitted.
const REPEATED: u64 = 1_000_000;

/// The performance costs of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Costs {
    reply_chunks: ByOperation<ReplyChunks>,
    write_chunks: ByOperation<WriteChunks>,
    over: Over,
    /// READs, and WRITEs.
    transfers: [Transfers; 2],
    repeated: [Repeated; 2],
    slow: Slow,
    /// Latency of slow transactions with an unknown cause, and the number of transactions without a
    /// latency because call or reply is missing.
    unclear: (u64, u64),
    slow_by: ByOperation<Slow>,
}

/// Sums by direction and operation.
#[derive(Clone, Debug)]
struct ByOperation<T>(Vec<(Direction, &'static str, T)>);

impl<T> Default for ByOperation<T> {
    fn default() -> Self {
        ByOperation(Vec::new())
    }
}

impl<T: Default> ByOperation<T> {
    /// Operations that are counted separately. Further ones are not counted.
    const MOST: usize = 32;

    fn of(&mut self, transaction: &Transaction) -> Option<&mut T> {
        let (direction, name) = (transaction.direction, operation_name(transaction));
        let known = self.0.iter().position(|(other, known, _)| (*other, *known) == (direction, name));
        let at = known.unwrap_or(self.0.len());
        if known.is_none() && at < ByOperation::<T>::MOST {
            self.0.push((direction, name, T::default()));
        }
        self.0.get_mut(at).map(|(_, _, sums)| sums)
    }

    /// Heap bytes that the lists take up. `examples` returns the examples in the sums of an
    /// operation.
    fn footprint(&self, examples: impl Fn(&T) -> &Examples) -> usize {
        let listed = self.0.iter().map(|(_, _, sums)| examples(sums).footprint());
        size_of_val(&self.0[..]) + listed.sum::<usize>()
    }
}

/// Some of the transactions in a sum.
#[derive(Clone, Debug, Default)]
struct Examples {
    first: Option<(Direction, Xid, u64)>,
    frames: Vec<u64>,
}

impl Examples {
    fn footprint(&self) -> usize {
        size_of_val(&self.frames[..])
    }

    fn note(&mut self, transaction: &Transaction, message: &Message) {
        self.first.get_or_insert((transaction.direction, transaction.xid, transaction.number));
        if self.frames.len() < Finding::MOST_FRAMES {
            self.frames.push(message.seen.frame);
        }
    }

    fn finding(&self, message: String) -> Finding {
        let finding = Finding::new(message).frames(self.frames.iter().copied());
        let Some((direction, xid, number)) = self.first else { return finding };
        Finding { direction: Some(direction), xid: Some(xid), transaction: Some(number), ..finding }
    }
}

/// Reply chunks of one operation.
#[derive(Clone, Debug, Default)]
struct ReplyChunks {
    replies: u64,
    /// The replies that did not need it, then those of them that still used it, and their
    /// registered bytes and segments.
    needless: u64,
    written: u64,
    bytes: u64,
    segments: u64,
    examples: Examples,
}

/// Write chunks of one operation.
#[derive(Clone, Debug, Default)]
struct WriteChunks {
    replies: u64,
    /// The replies that left half or more unused.
    idle: u64,
    registered: u64,
    unused: u64,
    examples: Examples,
}

/// Calls just over the inline threshold.
#[derive(Clone, Debug, Default)]
struct Over {
    calls: u64,
    bytes: u64,
    longest: u64,
    /// Nanoseconds of RDMA Reads.
    waited: u64,
    examples: Examples,
}

/// Retransmissions of one end.
#[derive(Clone, Debug, Default)]
struct Repeated {
    packets: u64,
    bytes: u64,
    /// Nanoseconds between first transmission and retransmission.
    waited: u64,
    /// The end of the time counted so far.
    until: Option<Time>,
    /// When the other end last sent a NAK.
    refused: Option<Time>,
    /// NAKs of the other end; RNR NAKs, for which no Receive was posted, separately.
    naks: u64,
    rnr_naks: u64,
    frames: Vec<u64>,
}

/// Transactions that took long.
#[derive(Clone, Debug, Default)]
struct Slow {
    count: u64,
    /// All of their time.
    whole: Waits,
    /// Without the time after RDMA Reads. Unless the capture point is at the server, responses may wait
    /// in the network then.
    without_after: Waits,
    examples: Examples,
}

/// Nanoseconds that transactions took.
#[derive(Clone, Copy, Debug, Default)]
struct Waits {
    latency: u64,
    /// The part of it on the server.
    server: u64,
    /// The longest such part.
    longest: u64,
}

impl Waits {
    fn add(&mut self, latency: u64, server: u64) {
        self.latency = self.latency.saturating_add(latency);
        self.server = self.server.saturating_add(server);
        self.longest = self.longest.max(server);
    }
}

impl Slow {
    fn note(&mut self, transaction: &Transaction, reply: &Message, latency: u64) {
        let phases = Phases::of(transaction).unwrap_or_default();
        let after = transaction.timing.reads.map_or(0, |_| phases.server_after());
        self.count += 1;
        self.whole.add(latency, phases.server());
        self.without_after.add(latency.saturating_sub(after), phases.server() - after);
        self.examples.note(transaction, reply);
    }
}

impl Costs {
    /// Whether packets were retransmitted or refused since `time`.
    fn was_disturbed(&self, time: Time) -> bool {
        let since = |then: Option<Time>| then.is_some_and(|then| then >= time);
        self.repeated.iter().any(|sums| since(sums.until) || since(sums.refused))
    }

    fn note_latency(&mut self, transaction: &Transaction, call: &Message, reply: &Message) {
        let latency = reply.seen.time.since(call.seen.time);
        if latency < SLOW || transaction.direction == Direction::Backward {
            return;
        }
        let is_complete =
            [call, reply].iter().all(|message| message.missing.is_empty() && message.stop.is_none());
        if !is_complete || self.was_disturbed(call.first.time) {
            self.unclear.0 = self.unclear.0.saturating_add(latency);
            return;
        }
        self.slow.note(transaction, reply, latency);
        if let Some(sums) = self.slow_by.of(transaction) {
            sums.note(transaction, reply, latency);
        }
    }

    fn note_transfer(&mut self, transaction: &Transaction, call: &Message) {
        let Some(operation) = ulb::principal_operation(&transaction.details) else { return };
        let place = match operation.kind {
            OperationKind::Nfs3(Nfs3::Read) | OperationKind::Nfs4(Nfs4::Read) => 0,
            OperationKind::Nfs3(Nfs3::Write) | OperationKind::Nfs4(Nfs4::Write) => 1,
            _ => return,
        };
        self.transfers[place].note(operation, transaction, call);
    }

    /// Records the chunks of a transaction. `thresholds` are those of its call and of its reply.
    #[inline(never)]
    fn note_chunks(
        &mut self,
        transaction: &Transaction,
        (call, reply): (&Message, &Message),
        thresholds: [Option<u32>; 2],
    ) {
        if let Some(chunk) = &call.reply_chunk
            && let Some(sums) = self.reply_chunks.of(transaction)
        {
            sums.replies += 1;
            let is_written = reply.procedure == Procedure::Nomsg;
            if !is_written || fits(reply, thresholds[1]) {
                sums.needless += 1;
                sums.written += u64::from(is_written);
                sums.bytes = sums.bytes.saturating_add(length(chunk));
                sums.segments += chunk.segments.len() as u64;
                sums.examples.note(transaction, reply);
            }
        }
        let registered: u64 = call.write_chunks.iter().map(length).sum();
        if registered > 0
            && let Some(sums) = self.write_chunks.of(transaction)
        {
            let used: u64 = reply.write_chunks.iter().map(length).sum();
            let unused = registered.saturating_sub(used);
            sums.replies += 1;
            sums.registered = sums.registered.saturating_add(registered);
            sums.unused = sums.unused.saturating_add(unused);
            if unused >= registered.div_ceil(2) {
                sums.idle += 1;
                sums.examples.note(transaction, reply);
            }
        }
        if let (Some(threshold), Some(length), false) =
            (thresholds[0].map(u64::from), call.message_length, call.read_chunks.is_empty())
        {
            let inline = length + EMPTY_HEADER;
            let is_over = inline > threshold && inline <= (threshold + threshold / 4).min(LARGEST_THRESHOLD);
            if is_over && transaction.direction == Direction::Forward {
                self.over.calls += 1;
                self.over.bytes += inline;
                self.over.longest = self.over.longest.max(inline);
                let waited = transaction.timing.reads.map_or(0, |(first, last)| last.since(first));
                self.over.waited = self.over.waited.saturating_add(waited);
                self.over.examples.note(transaction, call);
            }
        }
    }
}

/// The largest inline threshold that private data can express (RFC 8797, section 4.2).
const LARGEST_THRESHOLD: u64 = 256 << 10;
/// Bytes of an RPC-over-RDMA header whose chunk lists are empty.
const EMPTY_HEADER: u64 = 28;

impl Memory for Costs {
    fn footprint(&self) -> usize {
        let repeated = self.repeated.iter().map(|sums| size_of_val(&sums.frames[..]));
        self.reply_chunks.footprint(|sums| &sums.examples)
            + self.write_chunks.footprint(|sums| &sums.examples)
            + self.over.examples.footprint()
            + self.transfers.iter().map(Transfers::footprint).sum::<usize>()
            + repeated.sum::<usize>()
            + self.slow.examples.footprint()
            + self.slow_by.footprint(|sums| &sums.examples)
    }

    fn transaction(&mut self, transaction: &Transaction, known: &Known) {
        let (Some(call), Some(reply), Outcome::Completed) =
            (&transaction.call, &transaction.reply, transaction.outcome)
        else {
            self.unclear.1 += u64::from(transaction.call.is_none() || transaction.reply.is_none());
            return;
        };
        self.note_latency(transaction, call, reply);
        self.note_transfer(transaction, call);
        // A chunk list whose end the capture lacks would seem unused.
        if lists_chunks(call) && call.stop.is_none() && reply.stop.is_none() {
            let (caller, answerer) =
                (known.caller(transaction.direction), known.answerer(transaction.direction));
            let thresholds = [known.inline_threshold(caller), known.inline_threshold(answerer)];
            self.note_chunks(transaction, (call, reply), thresholds);
        }
    }

    fn observed(&mut self, observed: &Observed<'_>, known: &Known) {
        match observed {
            Observed::Repeated(repeated) => {
                let sums = &mut self.repeated[repeated.from];
                let Some(first) = repeated.first else { return };
                let waited = repeated.seen.time.since(first.time);
                if waited < REPEATED && sums.refused.is_none_or(|refused| refused < first.time) {
                    return;
                }
                sums.packets += 1;
                sums.bytes += u64::from(repeated.bytes);
                // An acknowledged packet did not wait. Its sender did, starting at the last
                // acknowledgement that it missed.
                let acknowledged = known.half_flows[repeated.from].acknowledged;
                let acknowledged = acknowledged.filter(|(until, _)| repeated.position.distance(*until) >= 0);
                let since = acknowledged.map_or(first.time, |(_, seen)| seen.time.max(first.time));
                let counted = sums.until.map_or(since, |until| until.max(since)).min(repeated.seen.time);
                sums.waited = sums.waited.saturating_add(repeated.seen.time.since(counted));
                sums.until = Some(repeated.seen.time);
                if sums.frames.len() < Finding::MOST_FRAMES {
                    sums.frames.push(repeated.seen.frame);
                }
            }
            Observed::Refused(refused) => {
                let sums = &mut self.repeated[refused.from.other()];
                sums.refused = Some(refused.seen.time);
                match refused.refusal {
                    Refusal::ReceiverNotReady(_) => sums.rnr_naks += 1,
                    Refusal::OutOfSequence | Refusal::Failed(_) => sums.naks += 1,
                }
                if sums.frames.len() < Finding::MOST_FRAMES {
                    sums.frames.push(refused.seen.frame);
                }
            }
            _ => {}
        }
    }

    fn joined(&mut self) {
        *self = Self::default();
    }
}

fn operation_name(transaction: &Transaction) -> &'static str {
    ulb::principal_operation(&transaction.details)
        .map(|operation| operation.name())
        .or_else(|| transaction.procedure.and_then(ulb::procedure_name))
        .unwrap_or("other")
}

fn length(chunk: &Chunk) -> u64 {
    Segment::total(&chunk.segments)
}

/// Bytes of the Send that a reply in the Reply chunk would have had inline; `None` if nothing is in
/// a Reply chunk.
pub fn inline_length(reply: &Message) -> Option<u64> {
    let chunk = reply.reply_chunk.as_ref().filter(|_| reply.procedure == Procedure::Nomsg)?;
    let stream = length(chunk);
    // Without the segments of the Reply chunk and their count.
    let header = u64::from(reply.header_length).saturating_sub(4 + 16 * chunk.segments.len() as u64);
    (stream > 0).then_some(header + stream)
}

/// Whether a Long Reply would have fitted inline.
fn fits(reply: &Message, threshold: Option<u32>) -> bool {
    let length = inline_length(reply).zip(threshold);
    length.is_some_and(|(length, threshold)| length <= u64::from(threshold))
}

/// Whether `part` is frequent enough to report, and at least half of `all`.
fn is_most(part: u64, all: u64) -> bool {
    part >= ENOUGH && part * 2 >= all
}

fn reply_chunks(_: &Connection, view: &View<'_, Costs>, findings: &mut Findings<'_>) {
    for (direction, name, sums) in &view.memory.reply_chunks.0 {
        let ReplyChunks { replies, needless, written, bytes, segments, examples } = sums;
        if !is_most(*needless, *replies) {
            continue;
        }
        let detour = match written {
            0 => String::new(),
            written => format!(", and {written} of them still used RDMA Write"),
        };
        let message = format!(
            "{needless} of {replies} {name} replies did not need their Reply chunk of {} on \
                average{detour}: {segments} registrations of {} in total",
            Size(bytes / needless),
            Size(*bytes)
        );
        findings.add(examples.finding(message).by(view.caller(*direction)).observed(Value::Bytes(*bytes)));
    }
}

fn write_chunks(_: &Connection, view: &View<'_, Costs>, findings: &mut Findings<'_>) {
    for (direction, name, sums) in &view.memory.write_chunks.0 {
        let WriteChunks { replies, idle, registered, unused, examples } = sums;
        if !is_most(*idle, *replies) || *unused < registered.div_ceil(2) {
            continue;
        }
        let message = format!(
            "{idle} of {replies} {name} replies left half or more of their Write chunks unused: {} of {} registered",
            Size(*unused),
            Size(*registered)
        );
        findings.add(examples.finding(message).by(view.caller(*direction)).observed(Value::Bytes(*unused)));
    }
}

fn calls_over(_: &Connection, view: &View<'_, Costs>, findings: &mut Findings<'_>) {
    let Over { calls, bytes, longest, waited, examples } = &view.memory.over;
    let threshold = view.inline_threshold(view.requester);
    let [_, writes] = &view.memory.transfers;
    let Some(threshold) = threshold.filter(|_| *calls >= ENOUGH && !writes.are_parts()) else { return };
    let message = format!(
        "{calls} calls of {} bytes on average used RDMA Read, which took {}: an inline threshold \
            of {} bytes instead of {threshold} avoids that",
        bytes / calls,
        Span(*waited),
        longest.next_multiple_of(1024)
    );
    findings
        .add(examples.finding(message).values(Value::Bytes(bytes / calls), Value::Bytes(threshold.into())));
}

fn small_transfers(_: &Connection, view: &View<'_, Costs>, findings: &mut Findings<'_>) {
    for (transfers, (name, option)) in
        view.memory.transfers.iter().zip([("READ", "rsize"), ("WRITE", "wsize")])
    {
        if !transfers.are_parts() {
            continue;
        }
        let Transfers { count, size, largest, adjacent, examples, .. } = transfers;
        let message = format!(
            "{largest} of {count} {name}s have {size} bytes, which none exceeds, and {adjacent} of them are \
                next to another one: {option} of the mount may be this small, or the application may do \
                direct I/O of this size"
        );
        findings.add(examples.finding(message).by(view.requester).observed(Value::Bytes(*size)));
    }
}

fn retransmissions(connection: &Connection, view: &View<'_, Costs>, findings: &mut Findings<'_>) {
    for (end, sums) in End::BOTH.into_iter().zip(&view.memory.repeated) {
        let Repeated { packets, bytes, waited, naks, rnr_naks, .. } = sums;
        if *packets < ENOUGH && *rnr_naks < ENOUGH {
            continue;
        }
        let (role, sent) = if end == view.requester {
            ("client", &connection.requester.sent)
        } else {
            ("server", &connection.responder.sent)
        };
        let message = format!(
            "the {role} retransmitted {packets} packets with {} of payload, and waited {} before \
                that (of {} packets that it sent, acknowledgements included; NAKs: {naks}, RNR \
                NAKs: {rnr_naks})",
            Size(*bytes),
            Span(*waited),
            sent.packets
        );
        findings.add(
            Finding::new(message)
                .by(end)
                .frames(sums.frames.iter().copied())
                .observed(Value::Nanoseconds(*waited)),
        );
    }
}

/// Whether this number of slow replies may have been lost before the capture point, judging by the
/// late packets of the responder.
fn may_be_lost(slow: u64, connection: &Connection) -> bool {
    let sent = &connection.responder.sent;
    let late = u128::from(sent.reordered_packets) * u128::from(connection.transactions[0]);
    late * 4 > u128::from(slow) * u128::from(sent.packets)
}

fn slow_server(connection: &Connection, view: &View<'_, Costs>, findings: &mut Findings<'_>) {
    let is_at_server = connection.capture_point() == Some(CapturePoint::Responder);
    let waits = |slow: &Slow| if is_at_server { slow.whole } else { slow.without_after };
    let Slow { count, examples, .. } = &view.memory.slow;
    let Waits { latency, server, longest } = waits(&view.memory.slow);
    let life = connection.last.since(connection.first);
    // Missing packets may have been on the wire and kept it busy while other transactions waited.
    let (unclear, lacking) = view.memory.unclear;
    let lacking = lacking.saturating_mul(longest).saturating_mul(ENOUGH);
    let wire = (latency - server).saturating_add(unclear).saturating_add(lacking);
    if *count < ENOUGH || server / 3 < wire || server < life / 10 || may_be_lost(*count, connection) {
        return;
    }
    let all = view.memory.slow_by.0.iter().map(|(_, name, slow)| (*name, slow.count, waits(slow)));
    let mut by: Vec<_> = all.filter(|(.., waits)| waits.server > 0).collect();
    by.sort_by_key(|(.., waits)| core::cmp::Reverse(waits.server));
    let worst: Vec<String> = by
        .iter()
        .take(3)
        .map(|(name, count, waits)| {
            let mean = Span(waits.server / (*count).max(1));
            match count {
                1 => format!("1 {name} {mean}"),
                count => format!("{count} {name} {mean} on average and {} at most", Span(waits.longest)),
            }
        })
        .collect();
    let message = format!(
        "{count} of {} transactions took more than {}, {} % of that on the server while none of its data was in flight: {}",
        connection.transactions[0],
        Span(SLOW),
        u128::from(server) * 100 / u128::from(latency).max(1),
        worst.join(", ")
    );
    findings.add(examples.finding(message).by(view.requester.other()).observed(Value::Nanoseconds(server)));
}
