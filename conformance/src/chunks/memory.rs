//! The memory that the chunks of one call name (RFC 8166, sections 3.4.3, 3.4.6 and 4.4.3).

use super::super::check::{Check, Checked, Findings, View};
use super::super::finding::Value;
use super::super::judged::by_caller;
use super::super::rule::{Document, Level, Source, Unseen};
use super::lists::{call, segments, writable};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use rdmascope_dissector::transaction::{Message, Transaction};
use rdmascope_wire::rpcrdma::Segment;

const SEGMENTS: Source = Source { document: Document::Rfc8166, section: "3.4.3" };
const WRITE: Source = Source { document: Document::Rfc8166, section: "3.4.6" };
const STRATEGIES: Source = Source { document: Document::Rfc8166, section: "4.4.3" };
const PREDICTABLE: Source = Source { document: Document::Rfc8166, section: "8.1.2" };

pub(crate) const RULES: &[Checked] = &[
    Checked {
        id: "chunk-memory-overlap",
        level: Level::Violation,
        sources: &[SEGMENTS, WRITE],
        sentence: "Memory that the peer may write is in only one segment of the call.",
        explanation: "Two results in the same memory overwrite each other, and a result may \
            overwrite an argument that has not been read yet. Two segments overlap if they have \
            the same handle and a byte in common. Read-only segments may overlap.",
        check: Check::Transaction(overlap),
    },
    Checked {
        id: "chunk-memory-handle",
        level: Level::Advice,
        sources: &[STRATEGIES, PREDICTABLE],
        sentence: "Each segment of a call has its own handle.",
        explanation: "Several segments may be parts of one registered region. The whole region \
            then stays accessible to the peer as long as any transaction uses it, and remote \
            invalidation of one segment invalidates the others.",
        check: Check::Transaction(handles),
    },
];

pub(crate) const UNSEEN: &[Unseen] = &[Unseen {
    source: Source { document: Document::Rfc8166, section: "3.4.4" },
    requirement: "A segment is a contiguous region of registered memory.",
    reason: "Registrations are not on the wire. A missing one is visible only if an RDMA \
        operation fails.",
}];

/// Up to this number, segments are compared one by one; more are sorted first.
const FEW: usize = 16;

/// Finds two segments of one handle for which `wanted` holds.
#[inline]
fn pair(
    call: &Message,
    wanted: impl Fn((&Segment, bool), (&Segment, bool)) -> bool,
) -> Option<(Segment, Segment)> {
    // Most calls have at most one segment, and nothing to compare it with.
    let reads = call.read_chunks.iter().map(|chunk| chunk.segments.len());
    let writes = writable(call).map(|chunk| chunk.segments.len());
    if reads.sum::<usize>() + writes.sum::<usize>() < 2 {
        return None;
    }
    let all = segments(call).filter(|(segment, _)| segment.length > 0);
    let is_pair = |first: (&Segment, bool), second: (&Segment, bool)| {
        first.0.handle == second.0.handle && wanted(first, second)
    };
    if all.clone().nth(FEW).is_none() {
        let mut ahead = all.clone();
        for first in all {
            ahead.next();
            if let Some(second) = ahead.clone().find(|second| is_pair(first, *second)) {
                return Some((*first.0, *second.0));
            }
        }
        return None;
    }
    let mut sorted: Vec<(&Segment, bool)> = all.collect();
    sorted.sort_by_key(|(segment, _)| (segment.handle, segment.offset));
    // A later segment can overlap the one that reaches furthest, among the writable ones or among
    // all.
    let mut furthest: [Option<(&Segment, bool)>; 2] = [None; 2];
    for next in sorted {
        if let Some(first) = furthest.into_iter().flatten().find(|first| is_pair(*first, next)) {
            return Some((*first.0, *next.0));
        }
        for (place, is_wanted) in furthest.iter_mut().zip([true, next.1]) {
            let reaches = |(segment, _): (&Segment, bool)| {
                (segment.handle, segment.offset.saturating_add(segment.length.into()))
            };
            if is_wanted && place.is_none_or(|known| reaches(known) < reaches(next)) {
                *place = Some(next);
            }
        }
    }
    None
}

/// Whether each segment has its own handle.
#[inline]
pub(super) fn has_distinct_handles(call: &Message) -> bool {
    pair(call, |_, _| true).is_none()
}

/// Whether two segments have a byte in common and at least one of them is writable.
#[inline]
fn collide((first, written): (&Segment, bool), (second, written_too): (&Segment, bool)) -> bool {
    (written || written_too)
        && first.offset < second.offset.saturating_add(second.length.into())
        && second.offset < first.offset.saturating_add(first.length.into())
}

/// Whether writable memory of the call is in two segments.
pub(super) fn overlaps(call: &Message) -> bool {
    pair(call, collide).is_some()
}

fn words(segment: &Segment) -> String {
    format!("{} bytes at 0x{:x}", segment.length, segment.offset)
}

fn overlap(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let Some(call) =
        call(transaction).filter(|call| call.reply_chunk.is_some() || !call.write_chunks.is_empty())
    else {
        return;
    };
    if let Some((first, second)) = pair(call, collide) {
        let message = format!("{} and {} of handle {} overlap", words(&first), words(&second), first.handle);
        findings
            .add(by_caller(transaction, view, message).observed(Value::Hexadecimal(first.handle.0.into())));
    }
}

fn handles(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let Some(call) = call(transaction) else { return };
    if let Some((first, second)) = pair(call, |first, second| !collide(first, second)) {
        let message = format!("{} and {} share handle {}", words(&first), words(&second), first.handle);
        findings
            .add(by_caller(transaction, view, message).observed(Value::Hexadecimal(first.handle.0.into())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_dissector::record::Time;
    use rdmascope_dissector::transaction::{Chunk, ReadChunk, Seen};
    use rdmascope_wire::Rkey;
    use rdmascope_wire::rpcrdma::Procedure;

    fn segment(handle: u32, offset: u64, length: u32) -> Segment {
        Segment { handle: Rkey(handle), length, offset }
    }

    #[test]
    fn ranges_collide_if_they_share_a_written_byte() {
        let first = segment(1, 0x1000, 0x100);
        for (offset, length, shares) in
            [(0x1100, 8, false), (0x10ff, 8, true), (0xff8, 8, false), (0xff8, 9, true), (0x1080, 1, true)]
        {
            let second = segment(1, offset, length);
            assert_eq!(collide((&first, true), (&second, false)), shares, "{offset:x}");
            assert_eq!(collide((&first, false), (&second, true)), shares, "{offset:x}");
            assert!(!collide((&first, false), (&second, false)));
        }
    }

    #[test]
    fn overlaps_are_found_for_any_number_of_segments() {
        // Adjacent Read segments, and a writable one that lies in some of them.
        for count in [FEW - 1, FEW, 100] {
            for (offset, handle, found) in
                [(0x1008, 7, true), (0x1008, 8, false), (0x10_0000, 7, false), (0, 7, false)]
            {
                let reads = (0..count).map(|index| segment(7, 0x1000 + 0x10 * index as u64, 0x10)).collect();
                let call = Call { reads, writes: vec![segment(handle, offset, 8), segment(9, 0, 0)] };
                assert_eq!(overlaps(&call.message()), found, "{count} segments, offset 0x{offset:x}");
            }
        }
        let long = segment(7, 0, u32::MAX);
        let reads: Vec<Segment> = (0..50).map(|index| segment(7, 0x100 * index, 4)).collect();
        let call = Call { reads: reads.clone(), writes: vec![long] };
        assert!(overlaps(&call.message()));
        let call = Call { reads: [vec![long], reads].concat(), writes: vec![segment(6, 0, 4)] };
        let call = call.message();
        assert!(!overlaps(&call), "memory that is only read may overlap");
        assert!(!has_distinct_handles(&call));
    }

    #[test]
    fn empty_segments_do_not_overlap() {
        let call =
            Call { reads: vec![segment(7, 0x1000, 16)], writes: vec![segment(7, 0x1008, 0)] }.message();
        assert!(!overlaps(&call) && has_distinct_handles(&call));
    }

    struct Call {
        reads: Vec<Segment>,
        writes: Vec<Segment>,
    }

    impl Call {
        fn message(self) -> Message {
            let seen = Seen { frame: 1, time: Time(0) };
            Message {
                seen,
                first: seen,
                version: 1,
                procedure: Procedure::Msg,
                credits: 1,
                header_length: 28,
                send_length: 28,
                message_length: None,
                rpc_xid: None,
                invalidated: None,
                read_chunks: vec![ReadChunk { position: 8, segments: self.reads }],
                interleaved: false,
                write_chunks: vec![Chunk { segments: self.writes }],
                reply_chunk: None,
                missing: Vec::new(),
                stop: None,
                unread: None,
                unused: 0,
                auth_fault: None,
            }
        }
    }
}
