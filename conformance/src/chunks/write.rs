//! Write chunks, and how replies return chunks (RFC 8166, sections 3.4.6, 4.3.2 and 4.3.3).

use super::super::check::{Check, Checked, Findings, View};
use super::super::finding::{Value, plural};
use super::super::judged::{by_caller, paired};
use super::super::rule::{Document, Level, Source, Unseen};
use super::bodies;
use super::lists::{both, call, writable};
use alloc::format;
use alloc::string::ToString;
use rdmascope_dissector::transaction::{Chunk, Message, Transaction};
use rdmascope_dissector::ulb::{Item, Place};
use rdmascope_wire::rpcrdma::Segment;
use rdmascope_wire::xdr::round_up;

const WRITE: Source = Source { document: Document::Rfc8166, section: "3.4.6" };
const ROUNDUP: Source = Source { document: Document::Rfc8166, section: "3.4.6.2" };
const COUNTED: Source = Source { document: Document::Rfc8166, section: "3.4.4.1" };
const LIST: Source = Source { document: Document::Rfc8166, section: "4.3.2" };
const MATCHING: Source = Source { document: Document::Rfc8166, section: "4.3.2.1" };
const UNUSED: Source = Source { document: Document::Rfc8166, section: "4.3.2.2" };
const EMPTY: Source = Source { document: Document::Rfc8166, section: "4.3.2.3" };
const REPLY: Source = Source { document: Document::Rfc8166, section: "4.3.3" };
const ITEMS: Source = Source { document: Document::Rfc8267, section: "6.4.1" };
const PROVIDED: Source = Source { document: Document::ReliableReply, section: "4.1" };

pub(crate) const RULES: &[Checked] = &[
    Checked {
        id: "write-chunk-count",
        level: Level::Violation,
        sources: &[WRITE, UNUSED],
        sentence: "The Write list of a reply has the same number of Write chunks as that of its \
            call.",
        explanation: "A Responder returns each chunk, including those that it did not use. An \
            RDMA_ERROR has no Write list and is not covered. Like every rule that compares a \
            reply with its call, this one waits until it is certain that the caller did not reuse \
            the XID in between. The finding is inconclusive if the capture lacks packets between \
            the two.",
        check: Check::Transaction(count),
    },
    Checked {
        id: "returned-chunk-segments",
        level: Level::Violation,
        sources: &[WRITE, EMPTY, REPLY, ITEMS],
        sentence: "A Responder returns a Write chunk or Reply chunk with the segments that the call offered.",
        explanation: "The number of segments, and the handle and offset of each, are copied from \
            the call. Only the lengths change. An empty Write chunk is returned empty. In a reply \
            of NFS version 4, a chunk without a result may also be returned empty: RFC 8267, \
            section 6.4.1, requires that (MUST), whereas RFC 8166, section 4.3.2.2, requires \
            segments of length zero (MUST). A server cannot do both, so the rule allows either.",
        check: Check::Transaction(segments),
    },
    Checked {
        id: "returned-chunk-length",
        level: Level::Violation,
        sources: &[WRITE, REPLY],
        sentence: "No returned segment is longer than the segment offered.",
        explanation: "The length of a returned segment is the number of bytes that the Responder wrote into it.",
        check: Check::Transaction(growth),
    },
    Checked {
        id: "returned-chunk-filling",
        level: Level::Violation,
        sources: &[WRITE, REPLY],
        sentence: "A segment is used only when all segments before it in the chunk are full.",
        explanation: "A chunk is filled contiguously and in the order of its segments. The rule \
            judges the lengths in the reply. memory-written judges whether that much was written.",
        check: Check::Transaction(filling),
    },
    Checked {
        id: "write-chunk-length",
        level: Level::Violation,
        sources: &[ROUNDUP, COUNTED],
        sentence: "A Write chunk is returned with the length of the data item in it.",
        explanation: "The count of the item stays in the Payload stream of the reply, and the \
            lengths of the returned segments add up to it. The rule is also broken by a chunk \
            that is returned unused although its result has data, if the data is not in the \
            stream either. The rule covers results of programs whose Upper-Layer Binding \
            rdmascope knows.",
        check: Check::Transaction(item_length),
    },
    Checked {
        id: "write-chunk-padding",
        level: Level::Violation,
        sources: &[ROUNDUP],
        sentence: "A Responder does not write the roundup padding of an item into a Write chunk.",
        explanation: "The padding was written if the chunk is returned with the item's count \
            rounded up to a multiple of four, or if the RDMA Writes to the chunks exceed the \
            returned lengths by exactly the padding.",
        check: Check::Transaction(padding),
    },
    Checked {
        id: "write-chunk-space",
        level: Level::Warning,
        sources: &[ROUNDUP],
        sentence: "A Requester leaves no room for roundup padding in a Write chunk.",
        explanation: "The rule covers READ, if its count is not a multiple of four and the chunk \
            is as long as that count rounded up. The specification says SHOULD NOT.",
        check: Check::Transaction(space),
    },
    Checked {
        id: "write-chunk-order",
        level: Level::Violation,
        sources: &[MATCHING, UNUSED, ITEMS],
        sentence: "DDP-eligible results use the Write chunks in the order of the list.",
        explanation: "The first result is in the first chunk, the second in the next. The rule is \
            broken if a chunk is returned unused and a later one is used, and the data of a \
            successful result is neither in the stream nor in its own chunk.",
        check: Check::Transaction(order),
    },
    Checked {
        id: "write-chunk-ignored",
        level: Level::Violation,
        sources: &[LIST, ITEMS, PROVIDED],
        sentence: "A Responder puts a DDP-eligible result into the Write chunk that the call offers for it.",
        explanation: "The nth such result belongs to the nth Write chunk. The rule is broken if \
            the result is in the Payload stream although its chunk is not empty and is long \
            enough.",
        check: Check::Transaction(ignored),
    },
    Checked {
        id: "write-chunk-too-small",
        level: Level::Violation,
        sources: &[WRITE, MATCHING],
        sentence: "A Write chunk has room for the largest result that can be put into it.",
        explanation: "The rule is broken if a result is longer than the chunk offered for it and \
            is therefore in the Payload stream.",
        check: Check::Transaction(too_small),
    },
    Checked {
        id: "write-chunk-room",
        level: Level::Warning,
        sources: &[WRITE, MATCHING],
        sentence: "A Write chunk for the data of a READ is at least as long as the count of the \
            READ.",
        explanation: "The count of a READ is the maximum length of its result. RFC 8166 requires \
            room for the largest item that can be put into the chunk (MUST). A Requester that \
            knows the file to be shorter can offer less, until the file grows, and a capture does \
            not show such knowledge. The finding is therefore a warning. write-chunk-too-small is \
            the violation for a result that did not fit.",
        check: Check::Transaction(room),
    },
    Checked {
        id: "write-chunk-only-empty",
        level: Level::Warning,
        sources: &[EMPTY],
        sentence: "A Requester that wants all results inline leaves the Write list empty.",
        explanation: "An empty Write chunk keeps the place of an item that is wanted inline among \
            items that are not. A list of empty chunks alone is equivalent to an empty list.",
        check: Check::Transaction(only_empty),
    },
];

pub(crate) const UNSEEN: &[Unseen] = &[
    Unseen {
        source: UNUSED,
        requirement: "A Requester does not assume that the memory of an unused Write chunk is unmodified.",
        reason: "A Requester's assumptions about its own memory are not on the wire.",
    },
    Unseen {
        source: Source { document: Document::Rfc8166, section: "4.4.1" },
        requirement: "A Requester ends the Responder's access to the memory of a transaction \
            before its upper layer uses that memory, and does not access it itself until then.",
        reason: "Local access to memory is not on the wire. memory-after-reply judges remote access after the reply.",
    },
];

/// The first difference between a returned chunk and the chunk offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The number of segments differs.
    Count,
    /// This segment has another handle or offset.
    Other(usize),
    /// This segment is longer.
    Longer(usize),
    /// This segment is not full, but a later one is used.
    Gap(usize),
}

#[inline]
pub(super) fn fault(offered: &[Segment], returned: &[Segment]) -> Option<Fault> {
    if offered.len() != returned.len() {
        return Some(Fault::Count);
    }
    let mut gap = None;
    let mut used_after_gap = false;
    for (index, (was, is)) in offered.iter().zip(returned).enumerate() {
        if (was.handle, was.offset) != (is.handle, is.offset) {
            return Some(Fault::Other(index));
        }
        if is.length > was.length {
            return Some(Fault::Longer(index));
        }
        used_after_gap |= gap.is_some() && is.length > 0;
        if is.length < was.length {
            gap.get_or_insert(index);
        }
    }
    gap.filter(|_| used_after_gap).map(Fault::Gap)
}

/// Names a chunk: the Reply chunk, or the Write chunk of this index.
#[derive(Clone, Copy, Debug)]
struct ChunkName(Option<usize>);

impl core::fmt::Display for ChunkName {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0 {
            Some(index) => write!(f, "Write chunk {}", index + 1),
            None => f.write_str("the Reply chunk"),
        }
    }
}

/// The chunks that the call offered and the reply returned, in pairs.
#[inline]
fn returned<'a>(
    call: &'a Message,
    reply: &'a Message,
) -> impl Iterator<Item = (ChunkName, &'a Chunk, &'a Chunk)> {
    let writes = call.write_chunks.iter().zip(&reply.write_chunks).enumerate();
    let writes = writes.map(|(index, (offered, returned))| (ChunkName(Some(index)), offered, returned));
    let pair = call.reply_chunk.as_ref().zip(reply.reply_chunk.as_ref());
    writes.chain(pair.map(|(offered, returned)| (ChunkName(None), offered, returned)))
}

/// The faults of the chunks that a reply returns.
#[inline]
fn faults<'a>(
    call: &'a Message,
    reply: &'a Message,
) -> impl Iterator<Item = (ChunkName, &'a Chunk, &'a Chunk, Fault)> {
    returned(call, reply).filter_map(|(name, offered, returned)| {
        Some((name, offered, returned, fault(&offered.segments, &returned.segments)?))
    })
}

/// Whether the chunks that a reply returns are those of the call, with other lengths. A chunk that
/// is returned empty counts as one.
pub(in super::super) fn returns_as_offered(call: &Message, reply: &Message) -> bool {
    faults(call, reply).all(|(_, _, returned, _)| returned.segments.is_empty())
}

fn count(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let Some((call, reply)) = both(transaction) else { return };
    let (offered, returned) = (call.write_chunks.len(), reply.write_chunks.len());
    if offered == returned {
        return;
    }
    let message = format!("a reply with {returned} Write chunk{} to a call with {offered}", plural(returned));
    findings.add(
        paired(transaction, view, message)
            .values(Value::Count(returned as u64), Value::Count(offered as u64)),
    );
}

fn segments(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let Some((call, reply)) = both(transaction) else { return };
    for (name, offered, returned, fault) in faults(call, reply) {
        let (was, is) = (&offered.segments, &returned.segments);
        let finding = match fault {
            Fault::Count => {
                let may_be_empty = is.is_empty() && name.0.is_some();
                if may_be_empty && bodies::is_nfs4(transaction) != Some(false) {
                    if bodies::is_nfs4(transaction) == Some(true) {
                        continue;
                    }
                    let message = format!("{name} was returned empty");
                    findings.add(paired(transaction, view, message).unless(true));
                    continue;
                }
                let message = format!(
                    "{name} was returned with {} segment{} of {}",
                    is.len(),
                    plural(is.len()),
                    was.len()
                );
                paired(transaction, view, message)
                    .values(Value::Count(is.len() as u64), Value::Count(was.len() as u64))
            }
            Fault::Other(index) => {
                let words = |segment: &Segment| format!("{} at 0x{:x}", segment.handle, segment.offset);
                let message = format!(
                    "segment {} of {name} was returned as {}, but offered as {}",
                    index + 1,
                    words(&is[index]),
                    words(&was[index])
                );
                paired(transaction, view, message)
                    .values(Value::Words(words(&is[index])), Value::Words(words(&was[index])))
            }
            Fault::Longer(_) | Fault::Gap(_) => continue,
        };
        findings.add(finding);
    }
}

fn growth(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let Some((call, reply)) = both(transaction) else { return };
    for (name, offered, returned, fault) in faults(call, reply) {
        let Fault::Longer(index) = fault else { continue };
        let (is, was) = (returned.segments[index].length, offered.segments[index].length);
        let message = format!("segment {} of {name} was returned with {is} bytes, but has {was}", index + 1);
        findings.add(
            paired(transaction, view, message).values(Value::Bytes(is.into()), Value::Bytes(was.into())),
        );
    }
}

fn filling(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let Some((call, reply)) = both(transaction) else { return };
    for (name, offered, returned, fault) in faults(call, reply) {
        let Fault::Gap(index) = fault else { continue };
        let (is, was) = (returned.segments[index].length, offered.segments[index].length);
        let message = format!(
            "segment {} of {name} was returned with {is} of {was} bytes, but segments after it \
                are used",
            index + 1
        );
        findings.add(
            paired(transaction, view, message).values(Value::Bytes(is.into()), Value::Bytes(was.into())),
        );
    }
}

/// The results in Write chunks, with the index of each chunk and its length as returned.
#[inline]
fn moved<'a>(
    transaction: &'a Transaction,
    call: &'a Message,
    reply: &'a Message,
) -> impl Iterator<Item = (Item, usize, u64)> {
    let none = reply.write_chunks.is_empty();
    let operations = if none { &[][..] } else { &transaction.details.operations };
    operations.iter().filter_map(move |operation| {
        let item = operation.result_item?;
        let Place::WriteChunk(index) = item.place else { return None };
        let index = usize::from(index);
        let returned = reply.write_chunks.get(index)?;
        // A chunk returned longer than offered, or with a gap, has no length to compare with.
        let offered = call.write_chunks.get(index);
        let fault = offered.and_then(|offered| fault(&offered.segments, &returned.segments));
        (!matches!(fault, Some(Fault::Longer(_) | Fault::Gap(_))))
            .then(|| (item, index, Segment::total(&returned.segments)))
    })
}

/// The Write chunk that was returned unused although its result has data that is not in the stream
/// either, and the number of bytes of that data.
fn lost_item(transaction: &Transaction, call: &Message, reply: &Message) -> Option<(usize, u64)> {
    let own = bodies::unread_result(transaction)?;
    let (offered, returned) = (call.write_chunks.get(own)?, reply.write_chunks.get(own)?);
    let is_lost = Segment::total(&offered.segments) > 0
        && Segment::total(&returned.segments) == 0
        && call.write_chunks.len() == reply.write_chunks.len()
        && out_of_order(transaction, call, reply).is_none();
    let bytes = reply.unread?.needed;
    is_lost.then_some((own, bytes as u64))
}

/// Whether the Write chunks of a reply hold results correctly, so that any fault of its results is
/// in the stream.
pub(in super::super) fn holds_results(transaction: &Transaction, call: &Message, reply: &Message) -> bool {
    let is_own = |index: usize| {
        moved(transaction, call, reply).any(|(item, own, bytes)| {
            own == index && (bytes == u64::from(item.length) || bytes == round_up(item.length.into()))
        })
    };
    // Misplaced data of a result is missing from the stream only if its chunk has no room.
    let has_room =
        |own: usize| call.write_chunks.get(own).is_some_and(|chunk| Segment::total(&chunk.segments) > 0);
    let mut returned = reply.write_chunks.iter().enumerate();
    call.write_chunks.len() == reply.write_chunks.len()
        && !bodies::unread_result(transaction).is_some_and(has_room)
        && returned.all(|(index, chunk)| Segment::total(&chunk.segments) == 0 || is_own(index))
}

fn item_length(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let Some((call, reply)) = both(transaction) else { return };
    if let Some((index, needed)) = lost_item(transaction, call, reply) {
        let name = ChunkName(Some(index));
        let message = format!(
            "{name} was returned unused for a result of {needed} bytes with its padding, which \
                are not in the stream either"
        );
        let allowed = Value::Words(format!("{} to {needed} bytes", needed.saturating_sub(3)));
        findings.add(paired(transaction, view, message).values(Value::Bytes(0), allowed));
    }
    for (item, index, bytes) in moved(transaction, call, reply) {
        let count = u64::from(item.length);
        if bytes != count && bytes != round_up(count) && !bodies::is_sealed(transaction) {
            let message =
                format!("{} was returned with {bytes} bytes for an item of {count}", ChunkName(Some(index)));
            findings.add(paired(transaction, view, message).values(Value::Bytes(bytes), Value::Bytes(count)));
        }
    }
}

fn padding(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    item_padding(transaction, view, findings);
    written_padding(transaction, view, findings);
}

fn item_padding(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let Some((call, reply)) = both(transaction) else { return };
    for (item, index, bytes) in moved(transaction, call, reply) {
        let count = u64::from(item.length);
        if bytes != count && bytes == round_up(count) && !bodies::is_sealed(transaction) {
            let message = format!(
                "{} was returned with {bytes} bytes for an item of {count} and its padding",
                ChunkName(Some(index))
            );
            findings.add(paired(transaction, view, message).values(Value::Bytes(bytes), Value::Bytes(count)));
        }
    }
}

fn written_padding(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let Some((call, reply)) = both(transaction).filter(|_| !bodies::is_sealed(transaction)) else { return };
    let returned: u64 = writable(reply).map(|chunk| Segment::total(&chunk.segments)).sum();
    let items = moved(transaction, call, reply).filter(|(item, _, bytes)| *bytes == u64::from(item.length));
    let padding: u64 = items.map(|(_, _, bytes)| round_up(bytes) - bytes).sum();
    let written = transaction.timing.written_bytes;
    if padding > 0 && written == returned + padding {
        let message = format!(
            "{written} bytes written for {returned} that the reply returns: the padding \
                was written too"
        );
        findings
            .add(paired(transaction, view, message).values(Value::Bytes(written), Value::Bytes(returned)));
    }
}

/// Whether a Write chunk has exactly the room for a result of this length and its roundup padding.
#[inline]
pub(super) fn has_space_for_padding(count: u64, room: u64) -> bool {
    room > count && room == round_up(count)
}

fn space(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let Some(call) = call(transaction).filter(|call| !call.write_chunks.is_empty()) else { return };
    let results = bodies::results(transaction).zip(&call.write_chunks).enumerate();
    for (index, (operation, offered)) in results {
        let room = Segment::total(&offered.segments);
        let Some(count) = operation.count.filter(|count| has_space_for_padding(*count, room)) else {
            continue;
        };
        if !bodies::is_sealed(transaction) {
            let message = format!("{} of {room} bytes for a READ of {count}", ChunkName(Some(index)));
            let finding = by_caller(transaction, view, message);
            findings.add(finding.values(Value::Bytes(room), Value::Bytes(count)));
        }
    }
}

/// The Write chunk that was returned unused although a result with data belongs to it, and the
/// first used one after it.
pub(super) fn out_of_order(
    transaction: &Transaction,
    call: &Message,
    reply: &Message,
) -> Option<(usize, usize)> {
    if call.write_chunks.len() != reply.write_chunks.len() {
        return None;
    }
    let own = bodies::unread_result(transaction)?;
    let is_unused = |chunk: &Chunk| Segment::total(&chunk.segments) == 0;
    // A chunk that is empty in the call keeps its place: its result is inline (RFC 8166, section
    // 4.3.2.3).
    if !is_unused(reply.write_chunks.get(own)?) {
        return None;
    }
    let later = reply.write_chunks[own + 1..].iter().position(|chunk| !is_unused(chunk))?;
    Some((own, own + 1 + later))
}

fn order(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let Some((call, reply)) = both(transaction) else { return };
    if let Some((own, later)) = out_of_order(transaction, call, reply) {
        let (own, later) = (ChunkName(Some(own)), ChunkName(Some(later)));
        let message = format!(
            "{own} was returned unused and {later} with data, although the result that belongs to \
                the former succeeded"
        );
        findings.add(
            paired(transaction, view, message)
                .values(Value::Words(later.to_string()), Value::Words(own.to_string())),
        );
    }
}

/// The results in the Payload stream for which there is a Write chunk that is not empty, with its
/// index and length.
#[inline]
fn inline_results<'a>(
    transaction: &'a Transaction,
    call: &'a Message,
    reply: &'a Message,
) -> impl Iterator<Item = (Item, usize, u64)> {
    let is_comparable = !call.write_chunks.is_empty()
        && call.write_chunks.len() == reply.write_chunks.len()
        && bodies::is_read(transaction, reply);
    let operations = if is_comparable { &transaction.details.operations[..] } else { &[] };
    let items = operations.iter().filter_map(|operation| operation.result_item);
    items.zip(&call.write_chunks).enumerate().filter_map(|(index, (item, offered))| {
        let is_inline = matches!(item.place, Place::Inline(_)) && item.length > 0;
        (is_inline && !offered.segments.is_empty()).then(|| (item, index, Segment::total(&offered.segments)))
    })
}

fn ignored(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let Some((call, reply)) = both(transaction) else { return };
    for (item, index, room) in inline_results(transaction, call, reply) {
        if room >= item.length.into() {
            let message = format!(
                "a result of {} bytes is in the Payload stream, and {} of {room} bytes is not \
                    used for it",
                item.length,
                ChunkName(Some(index))
            );
            findings.add(
                paired(transaction, view, message)
                    .values(Value::Name("inline"), Value::Words(ChunkName(Some(index)).to_string())),
            );
        }
    }
}

fn too_small(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let Some((call, reply)) = both(transaction) else { return };
    for (item, index, room) in inline_results(transaction, call, reply) {
        if room < item.length.into() {
            let message =
                format!("{} of {room} bytes for a result of {}", ChunkName(Some(index)), item.length);
            let finding = paired(transaction, view, message).by(view.caller(transaction.direction));
            findings.add(finding.values(Value::Bytes(room), Value::Bytes(item.length.into())));
        }
    }
}

fn room(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let Some(call) = call(transaction).filter(|call| !call.write_chunks.is_empty()) else { return };
    let results = bodies::results(transaction).zip(&call.write_chunks).enumerate();
    for (index, (operation, offered)) in results {
        let room = Segment::total(&offered.segments);
        let Some(count) = operation.count.filter(|count| *count > room) else { continue };
        if offered.segments.is_empty() || bodies::is_sealed(transaction) {
            continue;
        }
        if operation.result_item.is_some_and(|item| u64::from(item.length) > room) {
            continue;
        }
        let message = format!("{} of {room} bytes for a READ of {count}", ChunkName(Some(index)));
        findings.add(by_caller(transaction, view, message).values(Value::Bytes(room), Value::Bytes(count)));
    }
}

/// Whether the Write list of a call has only empty chunks.
pub(super) fn lists_only_empty(call: &Message) -> bool {
    !call.write_chunks.is_empty() && call.write_chunks.iter().all(|chunk| chunk.segments.is_empty())
}

fn only_empty(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let Some(call) = call(transaction).filter(|call| lists_only_empty(call)) else { return };
    let count = call.write_chunks.len();
    let message = format!("a Write list of {count} empty Write chunk{}", plural(count));
    findings.add(by_caller(transaction, view, message).values(Value::Count(count as u64), Value::Count(0)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_wire::Rkey;

    fn segments(lengths: &[u32]) -> Vec<Segment> {
        let segment = |(index, length): (usize, &u32)| Segment {
            handle: Rkey(index as u32 + 1),
            length: *length,
            offset: 0x1000,
        };
        lengths.iter().enumerate().map(segment).collect()
    }

    #[test]
    fn segments_are_filled_in_order() {
        let offered = segments(&[10, 20, 30]);
        for right in [[0, 0, 0], [9, 0, 0], [10, 0, 0], [10, 20, 1], [10, 20, 30]] {
            assert_eq!(fault(&offered, &segments(&right)), None, "{right:?}");
        }
        for (wrong, at) in [
            ([9, 1, 0], 0),
            ([9, 1, 1], 0),
            ([0, 20, 0], 0),
            ([10, 0, 1], 1),
            ([10, 19, 30], 1),
            ([0, 0, 30], 0),
        ] {
            assert_eq!(fault(&offered, &segments(&wrong)), Some(Fault::Gap(at)), "{wrong:?}");
        }
    }

    #[test]
    fn empty_segment_between_others_counts_as_full() {
        assert_eq!(fault(&segments(&[10, 0, 30]), &segments(&[10, 0, 30])), None);
    }

    #[test]
    fn longer_or_different_segments_are_reported_before_gaps() {
        let offered = segments(&[10, 20]);
        assert_eq!(fault(&offered, &segments(&[0, 21])), Some(Fault::Longer(1)));
        assert_eq!(fault(&offered, &segments(&[10])), Some(Fault::Count));
        let mut other = segments(&[10, 20]);
        other[1].offset += 1;
        assert_eq!(fault(&offered, &other), Some(Fault::Other(1)));
        let mut other = segments(&[10, 20]);
        other[0].handle = Rkey(9);
        assert_eq!(fault(&offered, &other), Some(Fault::Other(0)));
    }
}
