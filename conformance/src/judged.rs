//! Findings about the Sends and transactions that the engine reports.

use super::finding::{Basis, Finding};
use super::known::Known;
use alloc::string::String;
use rdmascope_dissector::observation::Sent;
use rdmascope_dissector::transaction::{Chunk, Message, Timing, Transaction};
use rdmascope_wire::rpcrdma::Procedure;
use rdmascope_wire::{Cause, Stop, Xid};

/// rdma_xid of a Send; `None` if it is too short to have one.
pub(crate) fn xid_of(sent: &Sent<'_>) -> Option<Xid> {
    sent.header.map(|header| header.xid)
}

/// Whether the capture shows neither that the reply of a transaction is one nor that it belongs to the
/// call. The XIDs of the two directions are independent, so the "reply" may be a call of the other
/// direction with the same XID, or the "call" a reply.
pub(crate) fn is_doubtful(transaction: &Transaction) -> bool {
    let (Some(call), Some(reply)) = (&transaction.call, &transaction.reply) else { return false };
    let Timing { reads, writes, .. } = transaction.timing;
    let is_used = reads.is_some() || writes.is_some();
    let is_guess = lacks_type(call) && !is_used
        || lacks_type(reply)
        || reply.procedure == Procedure::Nomsg
            && !reply.read_chunks.is_empty()
            && !shows_reply(transaction, reply);
    is_guess && !returns_chunks(call, reply)
}

/// Whether the capture cut a message before its msg_type.
fn lacks_type(message: &Message) -> bool {
    let is_cut = |stop: &Stop| stop.cause == Cause::TruncatedCapture;
    message.procedure != Procedure::Nomsg
        && message.procedure != Procedure::Error
        && message.rpc_xid.is_none()
        && [message.stop, message.unread].iter().flatten().any(is_cut)
}

/// Whether the bytes that were pulled from a Read chunk have the msg_type of a reply, or an RDMA_DONE
/// shows that they are one.
fn shows_reply(transaction: &Transaction, reply: &Message) -> bool {
    /// The offset of the word after msg_type.
    const AFTER_TYPE: usize = 8;
    transaction.rpc_status.is_some()
        || transaction.done.is_some()
        || reply.unread.is_some_and(|stop| stop.offset >= AFTER_TYPE)
}

/// Whether a reply returns a chunk that the call offered, as a message of another transaction does
/// not.
fn returns_chunks(call: &Message, reply: &Message) -> bool {
    let is_same = |(offered, returned): (&Chunk, &Chunk)| {
        let first = |chunk: &Chunk| chunk.segments.first().map(|segment| (segment.handle, segment.offset));
        first(offered).is_some() && first(offered) == first(returned)
    };
    call.write_chunks.iter().zip(&reply.write_chunks).any(is_same)
        || call.reply_chunk.iter().zip(&reply.reply_chunk).any(is_same)
}

/// A finding against the sender of a Send, with its packets as evidence.
pub(crate) fn by_sender(sent: &Sent<'_>, known: &Known, message: impl Into<String>) -> Finding {
    Finding::new(message).by(sent.from).about(known.direction_of(sent), xid_of(sent)).send(sent.send)
}

/// A finding about a transaction, with call and reply as evidence.
pub(crate) fn about(transaction: &Transaction, message: impl Into<String>) -> Finding {
    transaction.messages().fold(Finding::new(message).of(transaction), Finding::message)
}

/// A finding against the caller, with the call as evidence.
pub(crate) fn by_caller(transaction: &Transaction, known: &Known, message: impl Into<String>) -> Finding {
    let finding = Finding::new(message).by(known.caller(transaction.direction)).of(transaction);
    transaction.call.iter().fold(finding, Finding::message)
}

/// A finding against the answerer, with the reply as evidence.
pub(crate) fn by_answerer(transaction: &Transaction, known: &Known, message: impl Into<String>) -> Finding {
    let finding = Finding::new(message).by(known.answerer(transaction.direction)).of(transaction);
    transaction.reply.iter().fold(finding, Finding::message)
}

/// A finding against the answerer, with call and reply as evidence.
pub(crate) fn on_answer(transaction: &Transaction, known: &Known, message: impl Into<String>) -> Finding {
    about(transaction, message).by(known.answerer(transaction.direction))
}

/// A finding against the answerer that depends on the reply answering its call.
pub(crate) fn paired(transaction: &Transaction, known: &Known, message: impl Into<String>) -> Finding {
    on_answer(transaction, known, message)
        .rests_on(Basis::Pairing(known.caller(transaction.direction)))
        .unless(transaction.lossy)
}

/// A finding against the answerer, with the last packets of call and reply as evidence.
pub(crate) fn about_reply(transaction: &Transaction, known: &Known, message: impl Into<String>) -> Finding {
    Finding::new(message)
        .by(known.answerer(transaction.direction))
        .of(transaction)
        .frames(transaction.messages().map(|message| message.seen.frame))
}
