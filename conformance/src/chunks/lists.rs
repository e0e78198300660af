//! The messages whose chunk lists can be judged, and the contents of the lists.

use rdmascope_dissector::transaction::{Chunk, Message, Transaction};
use rdmascope_wire::rpcrdma::{Procedure, Segment, VERSION};

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
pub(crate) fn lists_chunks(message: &Message) -> bool {
    !message.read_chunks.is_empty() || !message.write_chunks.is_empty() || message.reply_chunk.is_some()
}

/// The Write chunks and the Reply chunk of a message.
#[inline]
pub(crate) fn writable(message: &Message) -> impl Iterator<Item = &Chunk> + Clone {
    message.write_chunks.iter().chain(&message.reply_chunk)
}

/// The segments of all chunks of a message, each with whether it is writable.
#[inline]
pub(crate) fn segments(message: &Message) -> impl Iterator<Item = (&Segment, bool)> + Clone {
    let reads = message.read_chunks.iter().flat_map(|chunk| &chunk.segments).map(|segment| (segment, false));
    reads.chain(writable(message).flat_map(|chunk| &chunk.segments).map(|segment| (segment, true)))
}

/// Bytes in the Read chunks of a message.
pub(crate) fn read_bytes(message: &Message) -> u64 {
    message.read_chunks.iter().map(|chunk| Segment::total(&chunk.segments)).sum()
}
