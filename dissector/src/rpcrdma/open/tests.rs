//! Tests with handmade placements, and the bytes missing from them.

use super::*;
use crate::rdma::{MemoryRange, Position};
use crate::record::Seen;

const WRITE: Part = Part::WriteChunk(0);

/// A transaction whose call advertised these segments as the Reply chunk: R_Key and length of each,
/// all at address 0.
fn with_reply_chunk(segments: &[(u32, u32)]) -> Open {
    let mut open = Open { is_open: true, ..Open::default() };
    let segments: Vec<_> = segments
        .iter()
        .map(|(rkey, length)| Segment { handle: Rkey(*rkey), length: *length, offset: 0 })
        .collect();
    open.advertise(Part::ReplyChunk, false, &segments, true);
    open
}

/// A packet of an RDMA Write to segment `index` of a transaction.
fn write<'a>(open: &Open, index: usize, start: u64, bytes: &'a [u8]) -> Placement<'a> {
    let Segment { handle: rkey, length, offset } = open.segments[index].segment;
    Placement {
        seen: Seen { frame: 1, time: Time(0) },
        position: Position::default(),
        first: Position::default(),
        request: None,
        memory: MemoryRange { rkey, address: offset, length },
        address: offset + start,
        bytes,
        length: bytes.len() as u32,
        repeated: false,
    }
}

#[track_caller]
fn put(open: &mut Open, index: usize, start: u64, bytes: &[u8], budget: usize) -> Result<usize, Part> {
    let placement = write(open, index, start, bytes);
    match open.place(index, &placement, false, 0, budget) {
        Ok(Moved::Message(grown)) => Ok(grown),
        Ok(Moved::Bulk) => panic!("the Reply chunk is a message"),
        Err(Refusal::Budget(part)) => Err(part),
        Err(Refusal::OtherWay) => panic!("the Reply chunk is to be written"),
    }
}

/// The budget may be used up to its last byte. Bytes that the stream has already cost nothing.
#[test]
fn message_may_use_budget_to_last_byte() {
    for (budget, expected) in [(101, Ok(100)), (100, Ok(100)), (99, Err(Part::ReplyChunk))] {
        let mut open = with_reply_chunk(&[(7, 600)]);
        assert_eq!(put(&mut open, 0, 0, &[7; 100], budget), expected, "{budget}");
        assert_eq!(open.reply_stream.len(), expected.unwrap_or(0), "{budget}");
    }
    let mut open = with_reply_chunk(&[(7, 600)]);
    assert_eq!(put(&mut open, 0, 100, &[7; 100], 200), Ok(200));
    assert_eq!(put(&mut open, 0, 0, &[7; 100], 0), Ok(0));
}

/// The lists of ranges that moved out of order, and of captured ranges, count as memory.
#[test]
fn out_of_order_ranges_count_as_memory() {
    let mut open = with_reply_chunk(&[(7, 6000)]);
    assert_eq!(put(&mut open, 0, 0, &[7; 100], BUDGET), Ok(100));
    assert_eq!(open.scattered, 0, "in order it costs nothing");
    for start in [200, 400, 600, 800, 1000, 1200] {
        assert!(put(&mut open, 0, start, &[7; 100], BUDGET).is_ok());
        let lists = open.segments[0].moved.memory() + open.segments[0].captured.memory();
        assert_eq!(open.scattered, lists, "{start}");
    }
    let ranges = 6 * size_of::<(u64, u64)>();
    assert!(open.scattered >= 2 * ranges);
}

/// A message is parsed up to its first gap. Segments used in part leave no gap.
#[test]
fn message_ends_at_first_hole() {
    for (first, used, message) in [
        // Of 8 bytes in the first segment, all arrived, or the 6 that the reply returns, or only 5.
        (&b"abcdefgh"[..], [8, 4], &b"abcdefghijkl"[..]),
        (b"abcdef", [6, 4], b"abcdefijkl"),
        (b"abcde", [8, 4], b"abcde"),
    ] {
        let mut open = with_reply_chunk(&[(7, 8), (8, 4)]);
        assert!(put(&mut open, 0, 0, first, BUDGET).is_ok());
        assert!(put(&mut open, 1, 0, b"ijkl", BUDGET).is_ok());
        let end = open.gather(Part::ReplyChunk, false, used.into_iter());
        assert_eq!(&open.reply_stream[..end], message);
    }
}

/// A message lists at most 1,024 gaps.
#[test]
fn holes_are_bounded() {
    for (holes, listed) in [(1023, 1023), (1024, 1024), (1025, 1024)] {
        let mut open = Open::default();
        let length = 2 * holes as u32;
        open.advertise(WRITE, false, &[Segment { handle: Rkey(7), length, offset: 0 }], false);
        // Every second byte was moved.
        (0..holes as u64).for_each(|hole| {
            open.segments[0].moved.insert(2 * hole + 1, 2 * hole + 2);
        });
        let mut missing = Vec::new();
        missing_of(&open.segments, WRITE, false, [length].into_iter(), &mut missing);
        assert_eq!(missing.len(), listed, "{holes}");
        assert_eq!(
            missing[listed - 1],
            Missing { part: WRITE, start: 2 * listed as u64 - 2, end: Some(2 * listed as u64 - 1) }
        );
    }
}
