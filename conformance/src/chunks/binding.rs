//! The Upper-Layer Binding of NFS: the items that may be in chunks, and the number of chunks that a
//! call may have (RFC 8267; RFC 8166, sections 3.4.2 and 4.3).

use super::super::bounded;
use super::super::check::{Check, Checked, Findings, View};
use super::super::finding::{Finding, Value, plural};
use super::super::judged::{by_caller, by_sender, paired, xid_of};
use super::super::known::{Known, Memory};
use super::super::rule::{Document, Level, Source, Unseen};
use super::bodies::{MOST_SEGMENTS, is_bound, is_called, is_nfs4, is_read, results};
use super::lists::{both, call, writable};
use super::{read, write};
use alloc::borrow::ToOwned;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::string::ToString;
use alloc::vec::Vec;
use rdmascope_dissector::connection::{Connection, Origin};
use rdmascope_dissector::observation::Kind;
use rdmascope_dissector::observation::Sent;
use rdmascope_dissector::rdma::End;
use rdmascope_dissector::transaction::{Message, Security, Seen, Transaction};
use rdmascope_dissector::ulb::Place;
use rdmascope_wire::rpcrdma::{self, NFS_PORT, Segment};
use rdmascope_wire::xdr::round_up;
use rdmascope_wire::{Cause, Xid, rpc};

const ELIGIBLE: Source = Source { document: Document::Rfc8166, section: "3.4.2" };
const WRITE_LIST: Source = Source { document: Document::Rfc8166, section: "4.3.2" };
const UNUSED: Source = Source { document: Document::Rfc8166, section: "4.3.2.2" };
const READ: Source = Source { document: Document::Rfc8166, section: "3.4.5" };
const VIOLATION: Source = Source { document: Document::Rfc8166, section: "6.1" };
const AUTHENTICATION: Source = Source { document: Document::Rfc8166, section: "8.2.2" };
const SEALED: Source = Source { document: Document::Rfc8166, section: "8.2.2.3" };
const NFS3: Source = Source { document: Document::Rfc8267, section: "4" };
const NFSACL: Source = Source { document: Document::Rfc8267, section: "5.2" };
const NFS4: Source = Source { document: Document::Rfc8267, section: "6.1" };
const PORT: Source = Source { document: Document::Rfc8267, section: "6.3" };
const COMPOUND: Source = Source { document: Document::Rfc8267, section: "6.4.1" };
const COMPLEXITY: Source = Source { document: Document::Rfc8267, section: "6.4.2" };
const CALLBACK_0: Source = Source { document: Document::Rfc8267, section: "6.5.1" };
const CALLBACK: Source = Source { document: Document::Rfc8267, section: "6.5.2" };
const RETRY: Source = Source { document: Document::Rfc8267, section: "3.1" };

pub(crate) const RULES: &[Checked<BindingMemory>] = &[
    Checked {
        id: "binding-argument",
        level: Level::Violation,
        sources: &[ELIGIBLE, READ, NFS3, NFSACL, NFS4, CALLBACK_0, CALLBACK],
        sentence: "A Read chunk is at the Position of a DDP-eligible argument.",
        explanation: "In NFS these are the data of WRITE and the text of a symbolic link. NFSACL \
            and callbacks have none. Arguments are read in XDR order. If reading stops early \
            because an item is missing, a chunk is judged only if its Position is before the \
            point where reading stopped. Not covered are other programs, arguments that \
            RPCSEC_GSS protects, and calls that the capture truncated.",
        check: Check::Transaction(argument),
    },
    Checked {
        id: "binding-argument-accepted",
        level: Level::Violation,
        sources: &[VIOLATION, Source { document: Document::Rfc8166, section: "4.5.2" }],
        sentence: "A Responder does not process a call that reduces an item which is not \
            DDP-eligible.",
        explanation: "The answer to such a call is ERR_CHUNK or GARBAGE_ARGS. The rule is broken \
            if binding-argument is, and the RPC reply reports SUCCESS. It depends on the reply \
            belonging to its call, as write-chunk-count does.",
        check: Check::Transaction(argument_accepted),
    },
    Checked {
        id: "binding-result",
        level: Level::Violation,
        sources: &[ELIGIBLE, UNUSED, NFS3, NFSACL, NFS4, COMPOUND],
        sentence: "A Write chunk is returned with data only if it holds a DDP-eligible result.",
        explanation: "In NFS these are the data of READ and the text of READLINK. A failed result \
            has no data, so its chunk is returned with segments of length zero, as are all chunks \
            after the last result. The rule is decided like write-chunk-count.",
        check: Check::Transaction(result),
    },
    Checked {
        id: "binding-write-list",
        level: Level::Warning,
        sources: &[WRITE_LIST, COMPOUND],
        sentence: "A call has no more Write chunks than DDP-eligible results.",
        explanation: "A Requester leaves the Write list empty if no result can be put into it. \
            RFC 8166 requires this, but not with a MUST.",
        check: Check::Transaction(write_list),
    },
    Checked {
        id: "binding-complexity",
        level: Level::Warning,
        sources: &[COMPLEXITY],
        sentence: "A call of NFS version 4 has at most one Read chunk besides the Position Zero Read chunk, one Write chunk, and 16 \
            segments in a chunk.",
        explanation: "Every server supports that much. A client may send more if it knows that \
            its server supports more, which a capture does not show. Calls with invalid Positions \
            are covered by other rules.",
        check: Check::Transaction(complexity),
    },
    Checked {
        id: "binding-sealed",
        level: Level::Violation,
        sources: &[SEALED],
        sentence: "No item is reduced if RPCSEC_GSS protects integrity or privacy.",
        explanation: "RPCSEC_GSS protects the whole stream of arguments or results, including \
            padding. The rule is broken by a Read chunk at a Position other than zero, and by a \
            Write chunk that is returned with data.",
        check: Check::Transaction(sealed),
    },
    Checked {
        id: "binding-gss-control",
        level: Level::Violation,
        sources: &[AUTHENTICATION],
        sentence: "No item is reduced in messages that establish, bind or destroy an RPCSEC_GSS \
            context.",
        explanation: "Data that RPCSEC_GSS puts into a Payload stream stays there. The rule is \
            broken by a Read chunk at a Position other than zero, and by a Write chunk that is \
            returned with data.",
        check: Check::Transaction(gss_control),
    },
    Checked {
        id: "binding-retry",
        level: Level::Warning,
        sources: &[COMPLEXITY, RETRY],
        sentence: "A Requester does not retransmit a request with the same XID after ERR_CHUNK, \
            nor one of NFS version 4 after GARBAGE_ARGS.",
        explanation: "The answer would be the same. The judge keeps the last 16 such answers of a \
            connection.",
        check: Check::Sent(retry),
    },
    Checked {
        id: "binding-port",
        level: Level::Warning,
        sources: &[PORT, Source { document: Document::Rfc8267, section: "9" }],
        sentence: "NFS version 4 over RDMA uses port 20049.",
        explanation: "The REQ contains the port that the client connected to. A server has to \
            listen on port 20049, which section 9 assigns. A capture does not show whether the \
            server also listens there, so the rule is a warning.",
        check: Check::Connection(port),
    },
];

pub(crate) const UNSEEN: &[Unseen] = &[
    Unseen {
        source: COMPLEXITY,
        requirement: "A server accepts and processes calls whose chunk lists are within the \
            simple limits.",
        reason: "An ERR_CHUNK does not name its cause. reply-chunk-too-small, header-error-chunk \
            and rpc-garbage-arguments report that a call with correct chunk lists was refused.",
    },
    Unseen {
        source: COMPOUND,
        requirement: "A READ that returns no data returns an empty Write chunk if the call offers \
            one that is not empty.",
        reason: "RFC 8166, section 4.3.2.2, requires segments of length zero instead. A server \
            cannot do both, so returned-chunk-segments allows either.",
    },
    Unseen {
        source: Source { document: Document::Rfc8166, section: "3.4.4.2" },
        requirement: "In the chunk of optional data, the word that shows whether the data is \
            present stays in the Payload stream.",
        reason: "No DDP-eligible item of NFS is optional data.",
    },
    Unseen {
        source: Source { document: Document::Rfc8166, section: "3.4.4.3" },
        requirement: "A union is not DDP-eligible, but its arms may be.",
        reason: "The bindings of NFS make no union DDP-eligible. binding-argument reports a Read \
            chunk where one begins.",
    },
    Unseen {
        source: Source { document: Document::Rfc8166, section: "8.2.1" },
        requirement: "If integrity or confidentiality is desired and efficiency is required, \
            protection is negotiated below RPC.",
        reason: "The protection that users want is not on the wire.",
    },
    Unseen {
        source: Source { document: Document::Rfc8166, section: "8.2.2.1" },
        requirement: "An NFS server that accepts RPCSEC_GSS over RDMA also serves NFS over TCP at \
            port 2049.",
        reason: "A capture of RDMA contains no TCP connections, and does not show what a server \
            would accept.",
    },
    Unseen {
        source: Source { document: Document::Rfc8267, section: "6.7.1" },
        requirement: "NFS version 4 uses a transport that is reliable, delivers in order and avoids congestion.",
        reason: "A reliable connection is such a transport. The rules of the reliable transport \
            judge whether it works.",
    },
    Unseen {
        source: COMPLEXITY,
        requirement: "A server that cannot process a chunk list because of its complexity answers with ERR_CHUNK or GARBAGE_ARGS.",
        reason: "The limits of a server are not on the wire.",
    },
    Unseen {
        source: Source { document: Document::Rfc8267, section: "5.1" },
        requirement: "A server of NFS version 2 or 3 supports MOUNT, NLM and NSM over TCP.",
        reason: "A capture of RDMA contains no TCP connections.",
    },
    Unseen {
        source: Source { document: Document::Rfc8267, section: "6.6" },
        requirement: "After a transport error a session implementation recovers the slot of the failed request.",
        reason: "A capture does not show whether a later request recovers a slot, or whether the \
            failed request was executed.",
    },
    Unseen {
        source: Source { document: Document::Rfc8267, section: "6.7.2" },
        requirement: "A client reserves one credit to check the health of its server.",
        reason: "The purpose of an unused credit is not on the wire.",
    },
    Unseen {
        source: Source { document: Document::Rfc8267, section: "6.7.2" },
        requirement: "A requester handles a transport error as the transport requires, and retransmits as NFS version 4 requires.",
        reason: "The internal error handling of a client is not on the wire. Its retransmissions \
            with the same XID are judged.",
    },
    Unseen {
        source: Source { document: Document::Rfc8267, section: "6.2.1" },
        requirement: "A GETATTR whose result has no predictable length is not in one COMPOUND with an operation that is not idempotent.",
        reason: "The length of an attribute depends on the object. One that does not fit causes \
            an ERR_CHUNK.",
    },
];

/// The state of a connection that the rules of the binding read.
#[derive(Clone, Debug, Default)]
pub(crate) struct BindingMemory {
    /// The first call of NFS version 4 in the forward direction.
    nfs4: Option<Seen>,
    /// The latest calls that were refused.
    refused: VecDeque<RefusedCall>,
}

/// A call that was answered with ERR_CHUNK, or one of NFS version 4 with GARBAGE_ARGS.
#[derive(Clone, Copy, Debug)]
struct RefusedCall {
    caller: End,
    xid: Xid,
    with: &'static str,
    call: Seen,
    answer: Seen,
}

/// The name of an answer that refuses the call for good.
fn refusal(transaction: &Transaction) -> Option<&'static str> {
    if transaction.error == Some(rpcrdma::Error::Chunk) {
        return Some("ERR_CHUNK");
    }
    let is_garbage = transaction.rpc_status == Some(rpc::Status::GarbageArguments);
    (is_garbage && is_nfs4(transaction) == Some(true)).then_some("GARBAGE_ARGS")
}

impl BindingMemory {
    /// Refused calls that are kept.
    const MOST: usize = 16;

    /// Whether calls were refused and may be retransmitted.
    #[inline]
    pub(crate) fn expects_retries(&self) -> bool {
        !self.refused.is_empty()
    }
}

impl Memory for BindingMemory {
    fn footprint(&self) -> usize {
        self.refused.len() * size_of::<RefusedCall>()
    }

    fn transaction(&mut self, transaction: &Transaction, known: &Known) {
        if self.nfs4.is_none() && is_nfs4(transaction) == Some(true) {
            self.nfs4 = transaction.call.as_ref().map(|call| call.seen);
        }
        if let Some(with) = refusal(transaction)
            && let (Some(call), Some(reply)) = (&transaction.call, &transaction.reply)
        {
            let caller = known.caller(transaction.direction);
            let xid = transaction.xid;
            let refused = RefusedCall { caller, xid, with, call: call.seen, answer: reply.seen };
            bounded::push(&mut self.refused, BindingMemory::MOST, refused);
        }
    }

    fn joined(&mut self) {
        *self = Self::default();
    }
}

/// The indexes of a call's Read chunks that are certainly not DDP-eligible arguments.
#[inline]
fn misplaced<'a>(transaction: &'a Transaction, call: &'a Message) -> impl Iterator<Item = usize> {
    let is_decided = !call.read_chunks.is_empty()
        && is_bound(transaction)
        && call.unread.is_none_or(|stop| stop.cause != Cause::TruncatedCapture)
        && read::has_sound_positions(call);
    let chunks = if is_decided { &call.read_chunks[..] } else { &[] };
    chunks.iter().enumerate().filter_map(move |(index, chunk)| {
        let operations = &transaction.details.operations;
        let items = || operations.iter().filter_map(|operation| operation.argument_item);
        let is_own = |place: Place| matches!(place, Place::ReadChunk(own) if usize::from(own) == index);
        if chunk.position == 0 || items().any(|item| is_own(item.place)) {
            return None;
        }
        let Some(stop) = call.unread else { return Some(index) };
        // The point where reading stopped, in the unreduced stream.
        let taken = items().filter(|item| matches!(item.place, Place::ReadChunk(_)));
        let removed: u64 = taken.map(|item| round_up(item.length.into())).sum();
        let stopped = stop.offset as u64 + removed;
        let is_short = stop.cause == Cause::TruncatedPacket;
        let certain = if is_short { stopped.saturating_add(stop.needed as u64) } else { stopped + 1 };
        (u64::from(chunk.position) < certain).then_some(index)
    })
}

/// Whether the call reduces an item that is not DDP-eligible.
pub(super) fn is_reduced_wrongly(transaction: &Transaction, call: &Message) -> bool {
    misplaced(transaction, call).next().is_some()
}

fn argument(transaction: &Transaction, view: &View<'_, BindingMemory>, findings: &mut Findings<'_>) {
    let Some(call) = call(transaction) else { return };
    for index in misplaced(transaction, call) {
        let chunk = &call.read_chunks[index];
        let message = format!(
            "a Read chunk of {} bytes at Position {}, where no DDP-eligible argument begins",
            Segment::total(&chunk.segments),
            chunk.position
        );
        let items = transaction.details.operations.iter().filter_map(|operation| operation.argument_item);
        let eligible: Vec<String> = items.take(8).map(|item| item.position.to_string()).collect();
        let allowed = if eligible.is_empty() { "none known".to_owned() } else { eligible.join(", ") };
        findings.add(
            by_caller(transaction, view, message)
                .values(Value::Bytes(chunk.position.into()), Value::Words(allowed)),
        );
    }
}

fn argument_accepted(transaction: &Transaction, view: &View<'_, BindingMemory>, findings: &mut Findings<'_>) {
    let (Some(call), Some(rpc::Status::Success)) = (call(transaction), transaction.rpc_status) else {
        return;
    };
    let Some(index) = misplaced(transaction, call).next() else { return };
    let message = format!(
        "SUCCESS in answer to a call with a Read chunk at Position {}, where no DDP-eligible argument begins",
        call.read_chunks[index].position
    );
    findings.add(
        paired(transaction, view, message)
            .values(Value::Name("SUCCESS"), Value::Words("ERR_CHUNK or GARBAGE_ARGS".to_owned())),
    );
}

fn result(transaction: &Transaction, view: &View<'_, BindingMemory>, findings: &mut Findings<'_>) {
    let Some((call, reply)) = both(transaction) else { return };
    let own = |index: usize| {
        transaction.details.operations.iter().any(|operation| {
            operation
                .result_item
                .is_some_and(|item| matches!(item.place, Place::WriteChunk(own) if usize::from(own) == index))
        })
    };
    // A chunk after the last possible result holds none, even if the reply cannot be read.
    let possible = if is_called(transaction, call) { results(transaction).count() } else { usize::MAX };
    for (index, chunk) in reply.write_chunks.iter().enumerate() {
        let bytes = Segment::total(&chunk.segments);
        // A chunk with the result of another chunk is out of order, which write-chunk-order
        // reports.
        let is_known = |index| own(index) || write::out_of_order(transaction, call, reply).is_some();
        if bytes == 0 || is_known(index) || (index < possible && !is_read(transaction, reply)) {
            continue;
        }
        let message =
            format!("Write chunk {} was returned with {bytes} bytes, but holds no result", index + 1);
        findings.add(paired(transaction, view, message).values(Value::Bytes(bytes), Value::Bytes(0)));
    }
}

fn write_list(transaction: &Transaction, view: &View<'_, BindingMemory>, findings: &mut Findings<'_>) {
    let Some(call) = call(transaction).filter(|call| !call.write_chunks.is_empty()) else { return };
    let offered = call.write_chunks.iter().filter(|chunk| !chunk.segments.is_empty()).count();
    if !is_called(transaction, call) {
        return;
    }
    let possible = results(transaction).count();
    if offered > possible {
        let message = format!(
            "{offered} Write chunk{} in a call with {possible} DDP-eligible result{}",
            plural(offered),
            plural(possible)
        );
        findings.add(
            by_caller(transaction, view, message)
                .values(Value::Count(offered as u64), Value::Count(possible as u64)),
        );
    }
}

/// The parts of a call's chunk lists that exceed the limits every server supports for NFS version
/// 4: their count, the limit and their name.
fn beyond(transaction: &Transaction, call: &Message) -> impl Iterator<Item = (usize, usize, &'static str)> {
    let reads = call.read_chunks.iter().filter(|chunk| chunk.position != 0).count();
    let of_reads = call.read_chunks.iter().map(|chunk| chunk.segments.len());
    let segments = of_reads.chain(writable(call).map(|chunk| chunk.segments.len())).max().unwrap_or(0);
    let counts = [
        (reads, 1, "Read chunks besides the Position Zero one"),
        (call.write_chunks.len(), 1, "Write chunks"),
        (segments, MOST_SEGMENTS, "segments in a chunk"),
    ];
    let is_judged = is_nfs4(transaction) == Some(true);
    counts.into_iter().filter(move |(count, most, _)| is_judged && count > most)
}

/// Whether the chunk lists of a call of NFS version 4 exceed the limits that every server supports.
pub(super) fn is_complex(transaction: &Transaction, call: &Message) -> bool {
    beyond(transaction, call).next().is_some()
}

fn complexity(transaction: &Transaction, view: &View<'_, BindingMemory>, findings: &mut Findings<'_>) {
    let Some(call) = call(transaction).filter(|call| read::has_sound_positions(call)) else { return };
    for (count, most, name) in beyond(transaction, call) {
        findings.add(
            by_caller(transaction, view, format!("a call with {count} {name}"))
                .values(Value::Count(count as u64), Value::Count(most as u64)),
        );
    }
}

fn sealed(transaction: &Transaction, view: &View<'_, BindingMemory>, findings: &mut Findings<'_>) {
    if matches!(transaction.security, Some(Security::GssIntegrity | Security::GssPrivacy)) {
        reduced(transaction, view, ["a sealed call", "a sealed reply"], findings);
    }
}

fn gss_control(transaction: &Transaction, view: &View<'_, BindingMemory>, findings: &mut Findings<'_>) {
    if matches!(transaction.security, Some(Security::GssControl(_))) {
        let names = ["a call that controls an RPCSEC_GSS context", "the reply to a call that does so"];
        reduced(transaction, view, names, findings);
    }
}

/// Reports reduced items in a call and a reply that may have none. `names` names the two messages.
fn reduced(
    transaction: &Transaction,
    view: &View<'_, BindingMemory>,
    names: [&str; 2],
    findings: &mut Findings<'_>,
) {
    let Some(call) = call(transaction) else { return };
    if let Some(chunk) = call.read_chunks.iter().find(|chunk| chunk.position != 0) {
        let message = format!("a Read chunk at Position {} in {}", chunk.position, names[0]);
        findings.add(
            by_caller(transaction, view, message)
                .values(Value::Bytes(chunk.position.into()), Value::Bytes(0)),
        );
    }
    let Some((_, reply)) = both(transaction) else { return };
    let bytes: u64 = reply.write_chunks.iter().map(|chunk| Segment::total(&chunk.segments)).sum();
    if bytes > 0 {
        let message = format!("{bytes} bytes in Write chunks of {}", names[1]);
        findings.add(paired(transaction, view, message).values(Value::Bytes(bytes), Value::Bytes(0)));
    }
}

fn retry(sent: &Sent<'_>, view: &View<'_, BindingMemory>, findings: &mut Findings<'_>) {
    if view.memory.refused.is_empty() || sent.kind != Kind::Call || !sent.is_explicit {
        return;
    }
    let Some(xid) = xid_of(sent) else { return };
    let mut refused = view.memory.refused.iter().rev();
    if let Some(earlier) = refused.find(|earlier| (earlier.caller, earlier.xid) == (sent.from, xid)) {
        let words = format!("a call with the XID of one that was answered with {}", earlier.with);
        let finding = by_sender(sent, view, words).observed(Value::Hexadecimal(xid.0.into()));
        findings.add(finding.frames([earlier.call.frame, earlier.answer.frame]));
    }
}

fn port(connection: &Connection, view: &View<'_, BindingMemory>, findings: &mut Findings<'_>) {
    let Some(port) = connection.port.filter(|port| *port != NFS_PORT && connection.origin == Origin::Cm)
    else {
        return;
    };
    let Some(call) = view.memory.nfs4 else { return };
    findings.add(
        Finding::new(format!("NFS version 4 at port {port}"))
            .by(view.requester.other())
            .frames([call.frame])
            .values(Value::Count(port.into()), Value::Count(NFS_PORT.into())),
    );
}
