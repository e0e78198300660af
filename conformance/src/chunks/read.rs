//! Read chunks (RFC 8166, sections 3.4.5 and 4.3.1).

use super::super::check::{Check, Checked, Findings, View};
use super::super::finding::{Basis, Finding, Value, plural};
use super::super::judged::{by_answerer, by_caller};
use super::super::rule::{Document, Level, Source, Unseen};
use super::bodies;
use super::lists::{call, reply};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::string::ToString;
use alloc::vec::Vec;
use rdmascope_dissector::transaction::{Message, ReadChunk, Transaction};
use rdmascope_dissector::ulb::{Item, Place};
use rdmascope_wire::rpcrdma::{Procedure, Segment};
use rdmascope_wire::xdr::round_up;

const READ: Source = Source { document: Document::Rfc8166, section: "3.4.5" };
const ROUNDUP: Source = Source { document: Document::Rfc8166, section: "3.4.5.2" };
const ONE_ITEM: Source = Source { document: Document::Rfc8166, section: "3.4.4.4" };
const COUNTED: Source = Source { document: Document::Rfc8166, section: "3.4.4.1" };
const LIST: Source = Source { document: Document::Rfc8166, section: "4.3.1" };
const LONG: Source = Source { document: Document::Rfc8166, section: "3.5.3" };
const PROCEDURE: Source = Source { document: Document::Rfc8166, section: "4.2.4" };
const PROVIDED: Source = Source { document: Document::ReliableReply, section: "4.1" };

pub(crate) const RULES: &[Checked] = &[
    Checked {
        id: "read-chunk-alignment",
        level: Level::Violation,
        sources: &[READ],
        sentence: "The Position of a Read chunk is a multiple of four.",
        explanation: "Every item of an XDR stream begins at a multiple of four bytes.",
        check: Check::Transaction(alignment),
    },
    Checked {
        id: "read-chunk-overlap",
        level: Level::Violation,
        sources: &[ONE_ITEM, READ],
        sentence: "A Read chunk ends before the Position of the next one.",
        explanation: "A chunk is one data item, and items follow each other in the unreduced \
            Payload stream. A chunk covers the sum of its segments' lengths, starting at its \
            Position. The Position Zero Read chunk holds the stream itself and is not covered.",
        check: Check::Transaction(overlap),
    },
    Checked {
        id: "read-chunk-inside",
        level: Level::Violation,
        sources: &[READ],
        sentence: "The Position of a Read chunk is inside the Payload stream that it belongs to.",
        explanation: "The rest of the stream follows the header of an RDMA_MSG, or is in the \
            Position Zero Read chunk of an RDMA_NOMSG. A Position counts the chunks before it \
            with their padding. Without them, it may be equal to the length of the rest, but not \
            greater. Nothing is reported if the capture does not show the length of the Send.",
        check: Check::Transaction(outside),
    },
    Checked {
        id: "read-chunk-order",
        level: Level::Warning,
        sources: &[READ],
        sentence: "Read segments are listed in the order of their Positions, with the segments of one Position together.",
        explanation: "A Responder assembles the segments of one Position in list order. The \
            specification does not forbid other segments in between, nor require rising \
            Positions. But a Responder that reads the list once from the front fails if they do \
            not rise. Invalid Positions are covered by other rules.",
        check: Check::Transaction(order),
    },
    Checked {
        id: "read-chunk-length",
        level: Level::Violation,
        sources: &[ROUNDUP, COUNTED],
        sentence: "A Read chunk is as long as the data item in it, with or without the roundup padding.",
        explanation: "The count of the item stays in the Payload stream, and the segments' \
            lengths add up to it. The rule covers items of programs whose Upper-Layer Binding \
            rdmascope knows.",
        check: Check::Transaction(item_length),
    },
    Checked {
        id: "read-chunk-padding",
        level: Level::Warning,
        sources: &[ROUNDUP],
        sentence: "A Read chunk does not include the roundup padding of its data item.",
        explanation: "A Requester may send the padding, but should not. The padding is present if \
            the chunk is as long as the item's count rounded up to a multiple of four.",
        check: Check::Transaction(item_padding),
    },
    Checked {
        id: "read-chunk-position-zero",
        level: Level::Violation,
        sources: &[LONG, PROCEDURE],
        sentence: "A Position Zero Read chunk is sent only with RDMA_NOMSG.",
        explanation: "Such a chunk holds the Payload stream, but an RDMA_MSG has its Payload \
            stream after the header.",
        check: Check::Transaction(position_zero),
    },
    Checked {
        id: "read-chunk-in-reply",
        level: Level::Violation,
        sources: &[LIST, PROVIDED],
        sentence: "The Read list of a reply is empty, except for a Position Zero Read chunk that the Responder provides.",
        explanation: "The reliable-reply draft lets a Responder offer a Long Reply as a Position \
            Zero Read chunk, with RDMA_NOMSG only. RFC 8166 alone requires an empty Read list in \
            a reply (MUST). A capture does not show which of the two documents an end follows, so \
            the rule allows what either allows. An RDMA_NOMSG whose RPC message was not captured \
            is inconclusive: it may be a call with an XID for which the other end also awaits a \
            reply.",
        check: Check::Transaction(in_reply),
    },
];

pub(crate) const UNSEEN: &[Unseen] = &[
    Unseen {
        source: READ,
        requirement: "The Responder assembles the contents of the segments in list order.",
        reason: "The assembly of bytes in the Responder's own memory is not on the wire.",
    },
    Unseen {
        source: Source { document: Document::ReliableReply, section: "6" },
        requirement: "Responder-provided Read chunks are used only when both peers support them.",
        reason: "RPC-over-RDMA version 1 has no field that announces the support. The peers may \
            have agreed on it in another way.",
    },
    Unseen {
        source: Source { document: Document::ReliableReply, section: "4.1.1" },
        requirement: "A Responder provides a Position Zero Read chunk, or an error, if a reply \
            exceeds all resources that the Requester provided.",
        reason: "The length of a reply that was not sent is not on the wire.",
    },
];

/// The first fault in the Positions of a call: one fault often causes others.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The Position of this chunk is not a multiple of four.
    Unaligned(usize),
    /// The first of these chunks extends past the Position of the second one.
    Overlap(usize, usize),
    /// The Position of this chunk is after the last possible one.
    Outside(usize, u64),
}

/// Whether the Positions of a call are valid, so that items can be looked up at them.
pub(in super::super) fn has_sound_positions(call: &Message) -> bool {
    fault(call).is_none()
}

/// Whether a call has one Payload stream after its header and another in a Position Zero Read
/// chunk.
pub(in super::super) fn has_two_streams(call: &Message) -> bool {
    call.procedure == Procedure::Msg && call.read_chunks.iter().any(|chunk| chunk.position == 0)
}

#[inline]
fn fault(call: &Message) -> Option<Fault> {
    let chunks = &call.read_chunks;
    if chunks.is_empty() {
        return None;
    }
    if let Some(index) = chunks.iter().position(|chunk| chunk.position % 4 != 0) {
        return Some(Fault::Unaligned(index));
    }
    if chunks.is_sorted_by_key(|chunk| chunk.position) {
        return fault_in_order(call, chunks.iter().enumerate());
    }
    let mut sorted: Vec<(usize, &ReadChunk)> = chunks.iter().enumerate().collect();
    sorted.sort_by_key(|(_, chunk)| chunk.position);
    fault_in_order(call, sorted.into_iter())
}

/// The fault in the chunks of a call, given in the order of their Positions.
#[inline]
fn fault_in_order<'a>(call: &Message, chunks: impl Iterator<Item = (usize, &'a ReadChunk)>) -> Option<Fault> {
    let stream = stream_length(call);
    let (mut removed, mut end, mut previous) = (0, 0, 0);
    for (index, chunk) in chunks {
        let position = u64::from(chunk.position);
        if position == 0 {
            continue;
        }
        if position < end {
            return Some(Fault::Overlap(previous, index));
        }
        if let Some(stream) = stream.filter(|stream| position > stream + removed) {
            return Some(Fault::Outside(index, stream + removed));
        }
        let length = Segment::total(&chunk.segments);
        (end, removed, previous) = (position + length, removed + round_up(length), index);
    }
    None
}

/// Bytes of the reduced Payload stream of a call; `None` if unknown.
fn stream_length(call: &Message) -> Option<u64> {
    let reduced = call.read_chunks.iter().filter(|chunk| chunk.position != 0);
    let moved: u64 = reduced.map(|chunk| round_up(Segment::total(&chunk.segments))).sum();
    call.message_length?.checked_sub(moved)
}

fn alignment(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let Some(call) = call(transaction) else { return };
    let Some(Fault::Unaligned(index)) = fault(call) else { return };
    let position = call.read_chunks[index].position;
    findings.add(
        by_caller(transaction, view, format!("a Read chunk at Position {position}"))
            .values(Value::Bytes(position.into()), Value::Words("a multiple of 4".to_owned())),
    );
}

fn overlap(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let Some(call) = call(transaction) else { return };
    let Some(Fault::Overlap(first, second)) = fault(call) else { return };
    let (first, second) = (&call.read_chunks[first], &call.read_chunks[second]);
    let bytes = Segment::total(&first.segments);
    let end = u64::from(first.position) + bytes;
    let message = format!(
        "a Read chunk at Position {}, but the one of {bytes} bytes at Position {} extends to \
            {end}",
        second.position, first.position
    );
    findings.add(
        by_caller(transaction, view, message)
            .values(Value::Bytes(second.position.into()), Value::Words(format!("{end} or more"))),
    );
}

fn outside(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let Some(call) = call(transaction) else { return };
    let Some(Fault::Outside(index, most)) = fault(call) else { return };
    let position = call.read_chunks[index].position;
    let message = format!(
        "a Read chunk at Position {position} in a Payload stream that ends at {most} \
            there"
    );
    findings.add(
        by_caller(transaction, view, message)
            .values(Value::Bytes(position.into()), Value::Words(format!("{most} or less"))),
    );
}

fn order(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let Some(call) = call(transaction) else { return };
    if !has_sound_positions(call) {
        return;
    }
    let reduced = call.read_chunks.iter().filter(|chunk| chunk.position != 0);
    let falls = !reduced.is_sorted_by_key(|chunk| chunk.position);
    if !call.interleaved && !falls {
        return;
    }
    let message = if call.interleaved {
        "the segments of a Read chunk are interleaved with those of others"
    } else {
        "the Positions of the Read list do not rise"
    };
    let positions: Vec<String> =
        call.read_chunks.iter().take(8).map(|chunk| chunk.position.to_string()).collect();
    findings
        .add(by_caller(transaction, view, message.to_owned()).observed(Value::Words(positions.join(", "))));
}

/// The items in Read chunks, with those chunks. Empty if a Position is invalid, because the chunks
/// cannot be assigned to items then.
#[inline]
fn reduced<'a>(
    transaction: &'a Transaction,
    call: &'a Message,
) -> impl Iterator<Item = (Item, &'a ReadChunk)> {
    let is_sound = !call.read_chunks.is_empty() && has_sound_positions(call) && !has_two_streams(call);
    let operations = if is_sound { &transaction.details.operations } else { &[][..] };
    operations.iter().filter_map(|operation| {
        let item = operation.argument_item?;
        let Place::ReadChunk(index) = item.place else { return None };
        Some((item, call.read_chunks.get(usize::from(index)).filter(|_| index != u16::MAX)?))
    })
}

/// Whether no Read chunk has another length than its item.
pub(in super::super) fn has_own_lengths(transaction: &Transaction, call: &Message) -> bool {
    reduced(transaction, call).all(|(item, chunk)| is_as_long(item, chunk)) || bodies::is_sealed(transaction)
}

/// Whether a Read chunk is as long as its item, with or without the roundup padding.
fn is_as_long(item: Item, chunk: &ReadChunk) -> bool {
    let (count, bytes) = (u64::from(item.length), Segment::total(&chunk.segments));
    bytes == count || bytes == round_up(count)
}

fn item_length(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let Some(call) = call(transaction) else { return };
    for (item, chunk) in reduced(transaction, call) {
        if !is_as_long(item, chunk) && !bodies::is_sealed(transaction) {
            let (count, bytes) = (u64::from(item.length), Segment::total(&chunk.segments));
            let message = format!(
                "a Read chunk of {bytes} bytes at Position {} for an item of {count}",
                chunk.position
            );
            findings
                .add(by_caller(transaction, view, message).values(Value::Bytes(bytes), Value::Bytes(count)));
        }
    }
}

fn item_padding(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let Some(call) = call(transaction) else { return };
    for (item, chunk) in reduced(transaction, call) {
        let (count, bytes) = (u64::from(item.length), Segment::total(&chunk.segments));
        if bytes != count && bytes == round_up(count) && !bodies::is_sealed(transaction) {
            let message = format!(
                "a Read chunk of {bytes} bytes at Position {} for an item of {count} and its padding",
                chunk.position
            );
            findings
                .add(by_caller(transaction, view, message).values(Value::Bytes(bytes), Value::Bytes(count)));
        }
    }
}

/// Whether a call has its Payload stream in one place: after the header, or in a Position Zero Read
/// chunk.
pub(super) fn has_one_stream(call: &Message) -> bool {
    match call.procedure {
        Procedure::Msg => call.read_chunks.iter().all(|chunk| chunk.position != 0),
        Procedure::Nomsg => call.send_length == call.header_length,
        _ => true,
    }
}

fn position_zero(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let Some(call) = call(transaction).filter(|call| call.procedure == Procedure::Msg) else { return };
    if let Some(chunk) = call.read_chunks.iter().find(|chunk| chunk.position == 0) {
        let bytes = Segment::total(&chunk.segments);
        let message = format!("a Position Zero Read chunk of {bytes} bytes with RDMA_MSG");
        findings.add(
            by_caller(transaction, view, message).values(Value::Name("RDMA_MSG"), Value::Name("RDMA_NOMSG")),
        );
    }
}

fn in_reply(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let Some(reply) = reply(transaction).filter(|reply| !reply.read_chunks.is_empty()) else { return };
    let is_nomsg = reply.procedure == Procedure::Nomsg;
    let positions = reply.read_chunks.iter().map(|chunk| chunk.position);
    if is_nomsg && positions.clone().all(|position| position == 0) {
        return;
    }
    let count = reply.read_chunks.len();
    let message = format!("a reply by {} with {count} Read chunk{}", reply.procedure, plural(count));
    let known = if is_nomsg { transaction.rpc_status.is_some() } else { reply.rpc_xid.is_some() };
    findings.add(Finding {
        basis: if known { Basis::Packets } else { Basis::Lacking },
        ..by_answerer(transaction, view, message).values(Value::Count(count as u64), Value::Count(0))
    });
}
