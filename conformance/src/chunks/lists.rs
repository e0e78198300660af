//! The messages whose chunk lists can be judged.

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
