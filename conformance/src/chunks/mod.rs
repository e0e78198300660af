//! Chunk lists (RFC 8166, sections 3.4, 3.5, 4.3 and 4.4; RFC 8267).
//!
//! A list is in one Send, so a finding on a call alone depends only on packets of the capture. What a reply returns is compared with the call
//! of the same XID. That is right only if the caller did not use the XID again in between. So such a finding waits until it is certain what the
//! caller sent, and is inconclusive where the capture lacks packets between the two.

pub(super) mod binding;
pub(super) mod memory;
pub(super) mod read;
pub(super) mod reply;
pub(super) mod room;
pub(super) mod unoffered;
pub(super) mod write;

use super::finding::{Basis, Finding};
use super::rule::Gate;
use super::view::View;
use alloc::string::String;
use rdmascope_dissector::transaction::{Message, Transaction};
use rdmascope_dissector::ulb::Place;
use rdmascope_wire::rpcrdma::{Procedure, Segment, VERSION};

pub(super) use reply::is_in_order;

/// A message whose chunk lists can be judged: they were read to their end.
#[inline]
fn listed(message: Option<&Message>) -> Option<&Message> {
    message.filter(|message| {
        message.stop.is_none()
            && message.version == VERSION
            && matches!(message.procedure, Procedure::Msg | Procedure::Nomsg)
    })
}

/// The call, where its chunk lists can be judged.
#[inline]
fn call(transaction: &Transaction) -> Option<&Message> {
    listed(transaction.call.as_ref())
}

/// The reply, where its chunk lists can be judged.
#[inline]
fn reply(transaction: &Transaction) -> Option<&Message> {
    listed(transaction.reply.as_ref())
}

/// Call and reply, where the chunk lists of both can be judged.
#[inline]
fn both(transaction: &Transaction) -> Option<(&Message, &Message)> {
    Some((call(transaction)?, reply(transaction)?))
}

/// The gate of all subjects about chunks.
pub(super) static GATE: Gate = Gate { sent: binding::may_break, transaction: may_break };

/// True unless the transaction has no chunks, or has chunks that are used correctly. Most transactions are one of the two.
fn may_break(transaction: &Transaction, _: &View) -> bool {
    let Some((call, reply)) = both(transaction) else { return true };
    let is_plain = call.procedure == Procedure::Msg
        && call.unread.is_none()
        && reply.unread.is_none()
        && call.send_length.wrapping_sub(call.header_length) % 4 == 0
        && reply.send_length.wrapping_sub(reply.header_length) % 4 == 0
        && !binding::is_sealed(transaction)
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

/// Whether a message lists any chunk.
#[inline]
pub(super) fn lists_chunks(message: &Message) -> bool {
    !message.read_chunks.is_empty() || !message.write_chunks.is_empty() || message.reply_chunk.is_some()
}

/// No Read chunk, or one that is an item.
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

/// No Write chunk, or one that holds an item.
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

/// No Reply chunk, or one that is returned as the reply uses it.
#[inline]
fn has_plain_reply_chunks(call: &Message, reply: &Message) -> bool {
    match (&call.reply_chunk, &reply.reply_chunk) {
        (None, None) => reply.procedure == Procedure::Msg,
        (Some(offered), Some(returned)) => {
            let bytes = Segment::total(&returned.segments);
            let is_used_right = match reply.procedure {
                Procedure::Nomsg => {
                    bytes > 0 && bytes.is_multiple_of(4) && reply.send_length == reply.header_length
                }
                _ => bytes == 0 && Segment::total(&offered.segments) > 0,
            };
            is_used_right
                && is_short(&offered.segments)
                && write::fault(&offered.segments, &returned.segments).is_none()
        }
        _ => false,
    }
}

/// Whether a chunk has segments, and no more than every server takes (RFC 8267, section 6.4.2).
#[inline]
fn is_short(segments: &[Segment]) -> bool {
    (1..=binding::MOST_SEGMENTS).contains(&segments.len())
}

/// The caller breaks a rule with its call.
fn by_caller(transaction: &Transaction, view: &View, message: String) -> Finding {
    let finding = Finding::new(message).by(view.caller(transaction.direction)).of(transaction);
    with_frames(finding, transaction.call.as_ref())
}

/// The other end breaks a rule with what its reply says by itself.
pub(super) fn by_answerer(transaction: &Transaction, view: &View, message: String) -> Finding {
    let finding = Finding::new(message).by(view.answerer(transaction.direction)).of(transaction);
    with_frames(finding, transaction.reply.as_ref())
}

/// A finding that compares a reply with its call.
pub(super) fn paired(transaction: &Transaction, view: &View, finding: Finding) -> Finding {
    let finding = with_frames(finding, transaction.call.as_ref());
    with_frames(finding, transaction.reply.as_ref())
        .rests_on(Basis::Pairing(view.caller(transaction.direction)))
        .unless(transaction.lossy)
}

fn with_frames(finding: Finding, message: Option<&Message>) -> Finding {
    match message {
        Some(message) => finding.message(message),
        None => finding,
    }
}
