//! Tests with handmade steps and bytes.

use super::*;
use crate::rdma::MemoryRange;
use crate::record::{Seen, Time};
use alloc::vec;
use rdmascope_wire::Rkey;
use rdmascope_wire::rpcrdma::Segment;

const EVERYTHING: Keep = Keep { steps: true, contents: true };
/// The memory of all operations.
const MEMORY: MemoryRange = MemoryRange { rkey: Rkey(7), address: 0x1000, length: 600 };
const READ: Part = Part::ReadChunk(0);
const WRITE: Part = Part::WriteChunk(0);

fn seen(frame: u64) -> Seen {
    Seen { frame, time: Time(frame as i64) }
}

/// A position that counts packets.
fn packet_at(number: u32) -> Position {
    Position::default().plus(number)
}

fn placed(part: Part, length: u32) -> Placed {
    let segment = Segment { handle: MEMORY.rkey, length, offset: MEMORY.address };
    let (of_reply, base, is_stream) = (false, 0, false);
    let (requested, moved, captured) = Default::default();
    Placed { part, of_reply, segment, base, is_stream, requested, moved, captured }
}

/// A packet or DDP segment of an operation on [`MEMORY`]: frame, own and first position, offset of
/// its first byte, and length.
fn placement(
    frame: u64,
    [position, first]: [Position; 2],
    request: Option<Position>,
    start: u64,
    length: u32,
) -> Placement<'static> {
    Placement {
        seen: seen(frame),
        position,
        first,
        request,
        memory: MEMORY,
        address: MEMORY.address + start,
        bytes: &[],
        length,
        repeated: false,
    }
}

/// The contents after these packets of an RDMA Write, or of the response to an RDMA Read.
fn take(reading: bool, packets: &[Placement<'_>]) -> Box<Transcript> {
    let mut transcript = Transcript::new(EVERYTHING).unwrap();
    let placed = placed(if reading { READ } else { WRITE }, MEMORY.length);
    for packet in packets {
        assert!(transcript.take_placement(&placed, packet, reading, usize::MAX).is_ok());
    }
    transcript
}

/// Frames of the first and last packet of each step, its first position and its extent.
fn steps(transcript: &Transcript) -> Vec<(u64, u64, u32, u32)> {
    let line = |step: &Step| (step.first.frame, step.last.frame, step.position.number(), step.extent);
    transcript.steps.iter().map(line).collect()
}

/// Every packet of an RDMA WRITE but the last has the length of the path MTU. One with shorter
/// packets has more PSNs than its first packet suggests. It is still one operation, because each
/// packet has its first position.
#[test]
fn write_with_short_packets_is_one_step() {
    let packets = [(1, 10, 0, 256), (2, 11, 256, 100), (3, 12, 356, 100), (4, 13, 456, 144)].map(
        |(frame, number, start, length)| {
            placement(frame, [packet_at(number), packet_at(10)], None, start, length)
        },
    );
    let transcript = take(false, &packets);
    assert_eq!(steps(&transcript), [(1, 4, 10, 4)]);
    // It is new, and then grows with the unexpected packet.
    assert_eq!(transcript.changed, [(0, true), (0, false)]);
    assert_eq!(steps(&take(false, &packets[..3])), [(1, 3, 10, 3)]);
}

/// A capture may have reordered packets.
#[test]
fn reordered_step_has_first_and_last_captured_frame() {
    let packet =
        |frame, number, start| placement(frame, [packet_at(number), packet_at(10)], None, start, 200);
    let transcript = take(false, &[packet(6, 10, 0), packet(4, 11, 200), packet(5, 12, 400)]);
    assert_eq!(steps(&transcript), [(4, 6, 10, 3)]);
    assert_eq!(transcript.changed, [(0, true), (0, false)], "an earlier packet was found");
}

/// Responses have the PSNs of their request. If the rest was requested again and those responses
/// come first, a late response of the first request has another first position. Its own position
/// decides (IBTA volume 1, section 9.7.5.1.9).
#[test]
fn late_response_belongs_to_step_at_its_position() {
    let rest = MemoryRange { address: MEMORY.address + 256, length: 344, ..MEMORY };
    let again = Placement { memory: rest, ..placement(5, [packet_at(11); 2], Some(packet_at(11)), 256, 256) };
    let late = placement(6, [packet_at(12), packet_at(10)], Some(packet_at(10)), 512, 88);
    assert_eq!(steps(&take(true, &[again, late])), [(5, 6, 11, 2)]);
}

/// TCP numbers count bytes. An operation grows with each segment, and its first position identifies
/// it.
#[test]
fn ddp_segments_of_one_message_are_one_step() {
    let at = Position::of_sequence;
    for reading in [false, true] {
        let request = reading.then(|| at(77));
        let packets = [(1, 1000, 0, 256), (2, 1270, 256, 256), (3, 1540, 512, 88)].map(
            |(frame, position, start, length)| {
                placement(frame, [at(position), at(1000)], request, start, length)
            },
        );
        assert_eq!(steps(&take(reading, &packets)), [(1, 3, 1000, 540 + 88)]);
    }
}

/// Without a path MTU, the first response shows the number of PSNs of an RDMA READ. On TCP, the
/// extent of a request is its own length.
#[test]
fn read_request_covers_positions_of_its_responses() {
    let at = Position::of_sequence;
    for (position, extent, expected, changed) in [
        (packet_at(10), 1, 3, vec![(0, true), (0, false), (1, true)]),
        (packet_at(10), 3, 3, vec![(0, true), (1, true)]),
        (packet_at(10), 5, 5, vec![(0, true), (1, true)]),
        (at(10), 1, 1, vec![(0, true), (1, true)]),
    ] {
        let mut transcript = Transcript::new(EVERYTHING).unwrap();
        transcript.note(Step {
            kind: StepKind::ReadRequest,
            from_caller: false,
            first: seen(1),
            last: seen(1),
            position,
            extent,
            of_reply: false,
            part: READ,
            offset: 0,
            length: 600,
        });
        let response = placement(2, [position, position], Some(position), 0, 256);
        assert!(transcript.take_placement(&placed(READ, 600), &response, true, usize::MAX).is_ok());
        let extents: Vec<_> = transcript.steps.iter().map(|step| step.extent).collect();
        let of_response = if position.counts_bytes() { 256 } else { 3 };
        assert_eq!(extents, [expected, of_response], "{position:?} {extent}");
        assert_eq!(transcript.changed, changed, "{position:?} {extent}");
    }
}

/// The budget may be used up to its last byte.
#[test]
fn send_may_use_budget_to_last_byte() {
    let bytes = [7; 100];
    let send = Send {
        first: seen(1),
        seen: seen(1),
        position: packet_at(10),
        extent: 1,
        bytes: &bytes,
        length: Some(100),
        missing: None,
        invalidated: None,
    };
    for (budget, kept) in [(101, true), (100, true), (99, false)] {
        let mut transcript = Transcript::new(EVERYTHING).unwrap();
        let outcome = transcript.take_send(StepKind::Call, &send, budget);
        assert_eq!(matches!(outcome, Err(Full(Part::Send))), !kept, "{budget}");
        let found = (transcript.bytes(), transcript.sends[0].as_deref());
        assert_eq!(found, if kept { (100, Some(&bytes[..])) } else { (0, None) }, "{budget}");
        assert_eq!(steps(&transcript), [(1, 1, 10, 1)], "the step is still kept");
    }
}

#[test]
fn chunk_is_limited_by_budget_and_longest_content() {
    let bytes = [7; 100];
    let packet =
        |start: u64| Placement { bytes: &bytes, ..placement(1, [packet_at(10); 2], None, start, 100) };
    for (budget, kept) in [(101, true), (100, true), (99, false)] {
        let mut transcript = Transcript::new(EVERYTHING).unwrap();
        let outcome = transcript.take_placement(&placed(WRITE, 600), &packet(0), false, budget);
        assert_eq!(matches!(outcome, Err(Full(WRITE))), !kept, "{budget}");
        assert_eq!(transcript.bytes(), if kept { 100 } else { 0 }, "{budget}");
    }
    // The longest content has 64 MiB.
    let longest = Exchange::LONGEST_CONTENT;
    let placed = placed(WRITE, u32::MAX);
    for (start, kept) in [(longest - 100, longest), (longest - 99, 0)] {
        let mut transcript = Transcript::new(EVERYTHING).unwrap();
        let outcome = transcript.take_placement(&placed, &packet(start), false, usize::MAX);
        assert_eq!(matches!(outcome, Err(Full(WRITE))), kept == 0, "{start}");
        assert_eq!(transcript.bytes() as u64, kept, "{start}");
    }
}

/// The number of separate ranges is limited. Bytes in a further range are not kept and use no
/// memory.
#[test]
fn bytes_beyond_range_limit_are_not_kept() {
    let placed = placed(WRITE, u32::MAX);
    let mut transcript = Transcript::new(Keep { steps: false, contents: true }).unwrap();
    let most = Intervals::MOST as u64;
    for range in 0..=most {
        let packet = Placement { bytes: &[7], ..placement(1, [packet_at(10); 2], None, 2 * range + 1, 1) };
        assert!(transcript.take_placement(&placed, &packet, false, usize::MAX).is_ok());
    }
    // The last range kept ends before that of the last packet.
    assert_eq!(transcript.bytes() as u64, 2 * most);
    assert_eq!(transcript.chunks[&(false, WRITE)].bytes.len() as u64, 2 * most);
}

/// The memory of its lists: the steps, each chunk, and the ranges of a chunk that arrived out of
/// order.
#[test]
fn memory_of_lists_is_counted() {
    let bytes = [7; 20];
    let packet = |frame: u64, number: u32, start: u64| Placement {
        bytes: &bytes,
        ..placement(frame, [packet_at(number), packet_at(10)], None, start, 20)
    };
    // In order, ahead, between the two, and further ahead.
    let packets = [packet(1, 10, 0), packet(2, 13, 60), packet(3, 11, 30), packet(4, 15, 100)];
    let transcript = take(false, &packets);
    let ranges = transcript.chunks[&(false, WRITE)].captured.memory();
    assert!(ranges >= 3 * size_of::<(u64, u64)>(), "three ranges are separate from the first");
    let steps = transcript.steps.capacity() * size_of::<Step>();
    assert_eq!(transcript.lists, steps + size_of::<((bool, Part), Gathered)>() + ranges);
    assert_eq!(transcript.bytes(), 120);
}

/// Segments may be used in part. The bytes moved are then adjacent (RFC 8166, section 3.4.6).
#[test]
fn close_up_joins_used_parts_of_segments() {
    // Three segments of 10 bytes. 4, none and 6 bytes of them were used. Of the last one, the
    // capture lacks the first two. Bytes that an RDMA WRITE placed after the used ones do not
    // count.
    let segments: Vec<Placed> =
        [0, 10, 20].map(|base| Placed { base, ..placed(WRITE, 10) }).into_iter().collect();
    let uses = [(4, 0), (0, 4), (6, 4)].map(|(used, base)| Usage { used, base });
    let mut gathered = Gathered { bytes: (0..30).collect(), captured: Intervals::default() };
    for (start, end) in [(0, 7), (12, 15), (22, 30)] {
        gathered.captured.insert(start, end);
    }
    let (bytes, captured) = gathered.close_up(&segments, &uses);
    assert_eq!(bytes, [0, 1, 2, 3, 20, 21, 22, 23, 24, 25]);
    assert_eq!(captured.ranges().collect::<Vec<_>>(), [(0, 4), (6, 10)]);
}
