//! Chunk lists (RFC 8166, sections 3.4, 3.5, 4.3 and 4.4; RFC 8267).
//!
//! A list is in one Send, so a finding on a call alone depends only on packets of the capture. The
//! chunks that a reply returns are compared with the call of the same XID, which is valid only if
//! the caller did not reuse the XID in between. Such a finding waits until the caller's Sends are
//! certain, and is inconclusive if the capture lacks packets between the two.

pub(super) mod binding;
pub(super) mod bodies;
mod lists;
pub(super) mod memory;
pub(super) mod read;
pub(super) mod reply;
pub(super) mod room;
pub(super) mod unoffered;
pub(super) mod write;

use rdmascope_dissector::transaction::{Message, Transaction};
use rdmascope_dissector::ulb::Place;
use rdmascope_wire::rpcrdma::{Procedure, Segment};

use lists::both;
pub(super) use lists::{lists_chunks, read_bytes, segments, writable};
pub(super) use reply::is_in_order;

/// True unless the transaction has no chunks, or uses its chunks correctly. Most transactions do.
pub(super) fn may_break(transaction: &Transaction) -> bool {
    let Some((call, reply)) = both(transaction) else { return true };
    let is_plain = call.procedure == Procedure::Msg
        && call.unread.is_none()
        && reply.unread.is_none()
        && call.send_length.wrapping_sub(call.header_length) % 4 == 0
        && reply.send_length.wrapping_sub(reply.header_length) % 4 == 0
        && !bodies::is_sealed(transaction)
        && match lists_chunks(call) || lists_chunks(reply) {
            true => {
                has_plain_read_lists(transaction, call, reply)
                    && has_plain_write_lists(transaction, call, reply)
                    && has_plain_reply_chunks(call, reply)
                    && memory::has_distinct_handles(call)
            }
            false => reply.procedure == Procedure::Msg,
        };
    !is_plain
}

/// Whether there is no Read chunk, or one that is an item.
#[inline]
fn has_plain_read_lists(transaction: &Transaction, call: &Message, reply: &Message) -> bool {
    reply.read_chunks.is_empty()
        && match &call.read_chunks[..] {
            [] => true,
            [chunk] => {
                let bytes = Segment::total(&chunk.segments);
                is_short(&chunk.segments)
                    && chunk.position % 4 == 0
                    && transaction.details.operations.iter().any(|operation| {
                        operation.argument_item.is_some_and(|item| {
                            item.place == Place::ReadChunk(0) && u64::from(item.length) == bytes
                        })
                    })
            }
            _ => false,
        }
}

/// Whether there is no Write chunk, or one that holds an item.
#[inline]
fn has_plain_write_lists(transaction: &Transaction, call: &Message, reply: &Message) -> bool {
    match (&call.write_chunks[..], &reply.write_chunks[..]) {
        ([], []) => true,
        ([offered], [returned]) => {
            let (room, bytes) = (Segment::total(&offered.segments), Segment::total(&returned.segments));
            is_short(&offered.segments)
                && write::fault(&offered.segments, &returned.segments).is_none()
                && (bytes.is_multiple_of(4) || transaction.timing.written_bytes <= bytes)
                && transaction.details.operations.iter().any(|operation| {
                    operation
                        .count
                        .is_none_or(|count| count <= room && !write::has_space_for_padding(count, room))
                        && operation.result_item.is_some_and(|item| {
                            item.place == Place::WriteChunk(0) && u64::from(item.length) == bytes
                        })
                })
        }
        _ => false,
    }
}

/// Whether there is no Reply chunk, or one that is returned as the reply uses it.
#[inline]
fn has_plain_reply_chunks(call: &Message, reply: &Message) -> bool {
    match (&call.reply_chunk, &reply.reply_chunk) {
        (None, None) => reply.procedure == Procedure::Msg,
        (Some(offered), Some(returned)) => {
            let bytes = Segment::total(&returned.segments);
            let is_used_correctly = match reply.procedure {
                Procedure::Nomsg => {
                    bytes > 0 && bytes.is_multiple_of(4) && reply.send_length == reply.header_length
                }
                _ => bytes == 0 && Segment::total(&offered.segments) > 0,
            };
            is_used_correctly
                && is_short(&offered.segments)
                && write::fault(&offered.segments, &returned.segments).is_none()
        }
        _ => false,
    }
}

/// Whether a chunk has segments, but no more than every server supports (RFC 8267, section 6.4.2).
#[inline]
fn is_short(segments: &[Segment]) -> bool {
    (1..=bodies::MOST_SEGMENTS).contains(&segments.len())
}
