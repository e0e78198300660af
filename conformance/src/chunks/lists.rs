//! The messages whose chunk lists can be judged, and findings about them.

use super::super::finding::{Basis, Finding};
use super::super::known::Known;
use alloc::string::String;
use rdmascope_dissector::transaction::{Message, Transaction};
use rdmascope_wire::rpcrdma::{Procedure, VERSION};

/// Returns the message if its chunk lists can be judged: they were read to their end.
#[inline]
pub(super) fn listed(message: Option<&Message>) -> Option<&Message> {
    message.filter(|message| {
        message.stop.is_none()
            && message.version == VERSION
            && matches!(message.procedure, Procedure::Msg | Procedure::Nomsg)
    })
}

/// The call, if its chunk lists can be judged.
#[inline]
pub(super) fn call(transaction: &Transaction) -> Option<&Message> {
    listed(transaction.call.as_ref())
}

/// The reply, if its chunk lists can be judged.
#[inline]
pub(super) fn reply(transaction: &Transaction) -> Option<&Message> {
    listed(transaction.reply.as_ref())
}

/// Call and reply, if the chunk lists of both can be judged.
#[inline]
pub(super) fn both(transaction: &Transaction) -> Option<(&Message, &Message)> {
    Some((call(transaction)?, reply(transaction)?))
}

/// Whether a message lists any chunk.
#[inline]
pub(in super::super) fn lists_chunks(message: &Message) -> bool {
    !message.read_chunks.is_empty() || !message.write_chunks.is_empty() || message.reply_chunk.is_some()
}

/// A finding against the caller, with its call as evidence.
pub(super) fn by_caller(transaction: &Transaction, known: &Known, message: String) -> Finding {
    let finding = Finding::new(message).by(known.caller(transaction.direction)).of(transaction);
    with_frames(finding, transaction.call.as_ref())
}

/// A finding against the other end, with its reply as evidence.
pub(in super::super) fn by_answerer(transaction: &Transaction, known: &Known, message: String) -> Finding {
    let finding = Finding::new(message).by(known.answerer(transaction.direction)).of(transaction);
    with_frames(finding, transaction.reply.as_ref())
}

/// A finding that compares a reply with its call.
pub(in super::super) fn paired(transaction: &Transaction, known: &Known, finding: Finding) -> Finding {
    let finding = with_frames(finding, transaction.call.as_ref());
    with_frames(finding, transaction.reply.as_ref())
        .rests_on(Basis::Pairing(known.caller(transaction.direction)))
        .unless(transaction.lossy)
}

fn with_frames(finding: Finding, message: Option<&Message>) -> Finding {
    match message {
        Some(message) => finding.message(message),
        None => finding,
    }
}
