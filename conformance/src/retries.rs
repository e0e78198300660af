//! Retried calls: without more room after ERR_CHUNK (RFC 8166, section 4.5), and on the next
//! connection, where the server may already have executed them (RFC 1813, section 4.5; RFC 8881,
//! section 2.10.6).

use super::bounded;
use super::check::{Check, Checked, Findings, View};
use super::chunks::{self, bodies};
use super::finding::{Finding, Value};
use super::judged::about_reply;
use super::known::{Known, Memory};
use super::reconnection::Place;
use super::rpc::EarlierCalls;
use super::rule::{Document, Level, Source, Unseen};
use alloc::collections::VecDeque;
use alloc::format;
use core::hash::BuildHasher as _;
use rdmascope_dissector::BuildHasher;
use rdmascope_dissector::transaction::{Message, Transaction};
use rdmascope_dissector::ulb;
use rdmascope_wire::rpcrdma::{Error, Segment};

pub(crate) const RULES: &[Checked<Read>] = &[
    Checked {
        id: "retry-without-room",
        level: Level::Advice,
        sources: &[
            Source { document: Document::Rfc8166, section: "4.5.2" },
            Source { document: Document::Rfc8166, section: "4.5.3" },
        ],
        sentence: "After ERR_CHUNK, a Requester gives a call more room before it sends the same \
            call again.",
        explanation: "The Responder answers with ERR_CHUNK to end a loop of retransmissions. No \
            specification forbids another try with another XID, so the rule is advice; \
            binding-retry covers the same XID. Two calls are the same if their procedure, \
            operations, file handles, names, offsets and counts are. The room is that of the \
            Write chunks and the Reply chunk. The rule applies if the second call is answered \
            with ERR_CHUNK too, on the same connection or a later one between the same two hosts. \
            Calls that RPCSEC_GSS protects are not compared.",
        check: Check::Transaction(without_room),
    },
    Checked {
        id: "retry-executed-twice",
        level: Level::Advice,
        sources: &[
            Source { document: Document::Rfc1813, section: "4.5" },
            Source { document: Document::Rfc8881, section: "2.10.6" },
        ],
        sentence: "A server that remembers its replies answers a retransmitted call with the \
            first reply.",
        explanation: "The rule looks at calls that rpc-replay reports. If a call creates an \
            object and the answer is that it exists, or removes or renames one and the answer is \
            that it does not exist, the server has executed the call twice: the first reply was \
            not in its duplicate request cache, or in the slot of the session. The object may \
            also have existed, or not, before the first call, so the rule is advice.",
        check: Check::Transaction(executed_twice),
    },
];

pub(crate) const UNSEEN: &[Unseen] = &[Unseen {
    source: Source { document: Document::Rfc1813, section: "4.5" },
    requirement: "A server does not execute a call that is not idempotent a second time.",
    reason: "Only an answer that differs from that of the first execution shows it. \
        retry-executed-twice covers that case.",
}];

/// The state that its rules read.
pub(crate) type Read = (Retry, EarlierCalls);

/// The latest calls answered with ERR_CHUNK, of all connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct RefusedCalls(VecDeque<RefusedCall>);

#[derive(Clone, Copy, Debug)]
struct RefusedCall {
    signature: u64,
    place: Place,
    /// Bytes of its Write chunks and its Reply chunk.
    room: u64,
    frames: [u64; 2],
}

/// The fault of the transaction that ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Retry {
    /// Room and frames of the earlier call, and the room of this one.
    refused: Option<(u64, [u64; 2], u64)>,
}

impl RefusedCalls {
    /// Calls that are kept.
    const MOST: usize = 64;

    /// Heap bytes that its list takes up.
    pub(crate) fn footprint(&self) -> usize {
        self.0.len() * size_of::<RefusedCall>()
    }

    /// Records a transaction that ended with ERR_CHUNK, and returns the same call before it.
    #[cold]
    pub(crate) fn note(&mut self, transaction: &Transaction, known: &Known) -> Retry {
        let (Some(Error::Chunk), Some(call), Some(reply)) =
            (transaction.error, &transaction.call, &transaction.reply)
        else {
            return Retry::default();
        };
        let (Some(signature), room) = (signature(transaction, call), room(call)) else {
            return Retry::default();
        };
        let place = known.place(transaction.direction);
        let same =
            self.0.iter().rposition(|refused| (refused.signature, refused.place) == (signature, place));
        let before = same.and_then(|at| self.0.remove(at));
        let frames = [call.seen.frame, reply.seen.frame];
        bounded::push(&mut self.0, RefusedCalls::MOST, RefusedCall { signature, place, room, frames });
        let before = before.filter(|before| room <= before.room && before.frames[0] < call.seen.frame);
        Retry { refused: before.map(|before| (before.room, before.frames, room)) }
    }
}

/// A hash of the procedure and its arguments, as far as they were read.
fn signature(transaction: &Transaction, call: &Message) -> Option<u64> {
    let procedure = transaction.procedure?;
    let is_read = call.unread.is_none() && transaction.security.is_some() && !bodies::is_sealed(transaction);
    if !is_read || !ulb::has_binding(procedure.program, procedure.version) {
        return None;
    }
    let details = &transaction.details;
    let hasher = BuildHasher::default();
    Some(details.operations.iter().fold(hasher.hash_one(procedure), |hash, operation| {
        let text = |text: Option<ulb::Text>| text.map(|text| details.bytes(text));
        let names = (text(operation.file_handle), text(operation.file_name), text(operation.other_name));
        hasher.hash_one((hash, operation.code(), names, operation.offset, operation.count))
    }))
}

fn room(call: &Message) -> u64 {
    chunks::writable(call).map(|chunk| Segment::total(&chunk.segments)).sum()
}

impl Memory for Retry {
    fn transaction(&mut self, _: &Transaction, _: &Known) {
        *self = Retry::default();
    }

    fn joined(&mut self) {
        *self = Retry::default();
    }
}

/// True if the same call was refused before, or if the call is a retransmission.
pub(crate) fn may_break(transaction: &Transaction, retry: &Retry, calls: &EarlierCalls) -> bool {
    retry.refused.is_some() || calls.first_of(transaction).is_some()
}

fn without_room(transaction: &Transaction, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    let (Some((before, frames, room)), Some(call)) = (view.memory.0.refused, &transaction.call) else {
        return;
    };
    let reply = transaction.reply.as_ref().map(|reply| reply.seen.frame);
    let message = format!(
        "the same call is answered with ERR_CHUNK again: it has room for {room} bytes, and had \
            {before}"
    );
    findings.add(
        Finding::new(message)
            .by(view.caller(transaction.direction))
            .of(transaction)
            .frames(frames.into_iter().chain([call.seen.frame]).chain(reply))
            .values(Value::Bytes(room), Value::Words(format!("more than {before} bytes"))),
    );
}

/// The evidence that a call was executed before: the operation, and its status.
fn executed_before(transaction: &Transaction) -> Option<(&'static str, u32)> {
    // The numbers are the same in all versions.
    use rdmascope_wire::nfs::nfsstat4::{EXIST, NOENT};
    let failed = transaction
        .details
        .operations
        .iter()
        .find(|operation| operation.status.is_some_and(|status| status != 0))?;
    let status = failed.status?;
    let is_evidence = match failed.name() {
        "CREATE" | "MKDIR" | "SYMLINK" | "MKNOD" | "LINK" | "OPEN" => status == EXIST,
        "REMOVE" | "RMDIR" | "RENAME" => status == NOENT,
        _ => false,
    };
    is_evidence.then_some((failed.name(), status))
}

fn executed_twice(transaction: &Transaction, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    let (Some(first), Some((name, status))) =
        (view.memory.1.first_of(transaction), executed_before(transaction))
    else {
        return;
    };
    let status = transaction.procedure.and_then(|called| called.status_name(status)).unwrap_or("");
    let message = format!(
        "{name} that was sent again gives {status}: the server did not remember its first \
                reply"
    );
    findings.add(about_reply(transaction, view, message).frames([first]).observed(Value::Name(status)));
}
