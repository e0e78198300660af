//! Messages before reduction: the place of their bytes, and their contents (RFC 8166, sections 3.4
//! and 3.5; RFC 8267, section 6).

use crate::chunks::two_writes;
use crate::exchange::pulled_reply;
use crate::report::*;
use rdmascope_dissector::layout::{Piece, Source};
use rdmascope_dissector::transaction::{Part, Transaction};
use rdmascope_testkit::messages::*;
use rdmascope_testkit::world::*;
use rdmascope_wire::rpcrdma::Segment;

const SEND: Part = Part::Send;

/// Length, part and offset of each extent; `None` for padding.
fn extents(transaction: &Transaction, of_reply: bool) -> Vec<(u64, Option<(Part, u64)>)> {
    let layout = transaction.layout(of_reply);
    let mut at = 0;
    for extent in &layout {
        assert_eq!(extent.start, at, "no gaps");
        at += extent.length;
    }
    let source = |source| match source {
        Source::Part(part, offset) => Some((part, offset)),
        Source::Padding => None,
    };
    layout.iter().map(|extent| (extent.length, source(extent.source))).collect()
}

#[track_caller]
fn assert_is(piece: Option<Piece>, expected: &[u8]) {
    let piece = piece.expect("the piece was kept");
    assert_eq!(piece.missing().collect::<Vec<_>>(), []);
    assert_eq!((piece.length, piece.bytes.as_slice()), (expected.len() as u64, expected));
}

/// A WRITE of 1001 bytes in a Read chunk with these segments.
fn write(segments: &[u32]) -> Transaction {
    let mut world = World::connected();
    let mut call = msg(1);
    let mut moved = data(1001);
    moved.resize(1004, 0);
    for (index, length) in segments.iter().enumerate() {
        call.reads.push(read_segment(WRITE_POSITION, segment(7 + index as u32, *length, 0x1000)));
    }
    world.send(CLIENT, &message(&call, &nfs3(1, 7, "'handle' h0 1001 2 1001")));
    for read in &call.reads {
        let rest = moved.split_off(read.target.length as usize);
        world.read(SERVER, read.target, &moved);
        moved = rest;
    }
    world.send(SERVER, &message(&msg(1), &reply(1, "0 0 0 1001 2 #8")));
    let report = world.run_with_details();
    let write = report.one().clone();
    // The RFC 4506 encoding without reduction.
    assert_is(write.message(false), &nfs3(1, 7, "'handle' h0 1001 2 *1001"));
    assert_is(write.message(true), &reply(1, "0 0 0 1001 2 #8"));
    assert_is(write.item(false, &write.details.operations[0].argument_item.unwrap()), &data(1001));
    write
}

#[test]
fn missing_padding_is_added_after_a_read_chunk() {
    let write = write(&[1001]);
    let header = u64::from(write.call.as_ref().unwrap().header_length);
    assert_eq!(
        extents(&write, false),
        [(WRITE_POSITION.into(), Some((SEND, header))), (1001, Some((Part::ReadChunk(0), 0))), (3, None)]
    );
}

#[test]
fn padding_may_be_part_of_a_read_chunk() {
    assert_eq!(extents(&write(&[600, 404]), false)[1], (1004, Some((Part::ReadChunk(0), 0))));
    assert_eq!(extents(&write(&[600, 401, 3]), false).len(), 2);
}

#[test]
fn read_chunks_are_placed_by_position_in_any_order() {
    let report = two_writes().0.run_with_details();
    let writes = report.one();
    assert_is(writes.message(false), &compound(1, "3 22 'handle' 38 #16 h0 2 *501 38 #16 h501 2 *1000"));
    let sources: Vec<_> =
        extents(writes, false).iter().map(|extent| extent.1.map(|source| source.0)).collect();
    assert_eq!(sources, [Some(SEND), Some(Part::ReadChunk(1)), None, Some(SEND), Some(Part::ReadChunk(0))]);
    for (index, length) in [(1, 501), (2, 1000)] {
        let item = writes.details.operations[index].argument_item.unwrap();
        assert_is(writes.item(false, &item), &data(length));
    }
}

#[test]
fn long_call_may_have_another_read_chunk() {
    let stream = nfs3(1, 10, "'dir' 'name' 0 0 0 0 0 0 *2001");
    let mut world = World::connected();
    let (front, back) = stream.split_at(777);
    let (a, b) = (segment(7, 777, 0x1000), segment(8, back.len() as u32, 0x1000));
    let mut call = nomsg(1);
    call.reads = vec![read_segment(0, a), read_segment(0, b)];
    world.send(CLIENT, &message(&call, &[]));
    world.read(SERVER, a, front);
    world.read(SERVER, b, back);
    world.send(SERVER, &message(&msg(1), &reply(1, "0 0 0 0 0")));

    let reduced = nfs3(2, 7, "'handle' h0 1001 2 1001");
    let (zero, item) = (segment(9, reduced.len() as u32, 0x1000), segment(10, 1001, 0x1000));
    let mut call = nomsg(2);
    call.reads = vec![read_segment(WRITE_POSITION, item), read_segment(0, zero)];
    world.send(CLIENT, &message(&call, &[]));
    world.read(SERVER, zero, &reduced);
    world.read(SERVER, item, &data(1001));
    world.send(SERVER, &message(&msg(2), &reply(2, "0 0 0 1001 2 #8")));

    let report = world.run_with_details();
    assert_is(report.xid(1).message(false), &stream);
    assert_eq!(extents(report.xid(1), false), [(stream.len() as u64, Some((Part::ReadChunk(0), 0)))]);
    let text = report.xid(1).details.operations[0].argument_item.unwrap();
    assert_is(report.xid(1).item(false, &text), &data(2001));
    assert_is(report.xid(2).message(false), &nfs3(2, 7, "'handle' h0 1001 2 *1001"));
    assert_eq!(
        extents(report.xid(2), false),
        [
            (WRITE_POSITION.into(), Some((Part::ReadChunk(1), 0))),
            (1001, Some((Part::ReadChunk(0), 0))),
            (3, None)
        ]
    );
}

#[test]
fn write_chunks_are_placed_by_the_upper_layer_binding() {
    // RFC 8267, section 6.4.3: three items, the second requested inline.
    let arguments = "9 22 'dir' 15 'a' 25 #16 h0 1000 22 'dir' 15 'b' 27 22 'dir' 15 'c' 25 #16 h0 1000";
    let (a, c1, c2) = (segment(1, 1000, 0x1000), segment(2, 300, 0x2000), segment(3, 700, 0x3000));
    let mut world = World::connected();
    let mut call = msg(1);
    call.writes = vec![vec![a], vec![], vec![c1, c2]];
    world.send(CLIENT, &message(&call, &compound(1, arguments)));
    world.write(SERVER, a, &data(1000));
    world.write(SERVER, c1, &data(399)[..300]);
    world.write(SERVER, c2, &data(399)[300..]);
    let mut answer = msg(1);
    answer.writes = vec![vec![a], vec![], vec![c1, segment(3, 99, 0x3000)]];
    let results = "0 '' 9 22 0 15 0 25 0 0 1000 22 0 15 0 27 0 'target' 22 0 15 0 25 0 1 399";
    world.send(SERVER, &message(&answer, &reply(1, results)));
    let report = world.run_with_details();
    let reads = report.one();
    let unreduced = "0 '' 9 22 0 15 0 25 0 0 *1000 22 0 15 0 27 0 'target' 22 0 15 0 25 0 1 *399";
    assert_is(reads.message(true), &reply(1, unreduced));
    for (index, expected) in [(2, data(1000)), (5, b"target".to_vec()), (8, data(399))] {
        let item = reads.details.operations[index].result_item.unwrap();
        assert_is(reads.item(true, &item), &expected);
    }
    assert_eq!(extents(reads, true).last(), Some(&(1, None)));
}

#[test]
fn long_reply_may_have_a_write_chunk() {
    let long = reply(1, "0 1 1 #80 #8 1 h5 'name' h1 1 h6 *255 h2 0 1");
    let offered = [segment(7, 200, 0x1000), segment(8, 4000, 0x3000)];
    let mut world = World::connected();
    let mut call = msg(1);
    call.reply = Some(offered.to_vec());
    world.send(CLIENT, &message(&call, &nfs3(1, 16, "'dir' h0 #8 4096")));
    world.write(SERVER, offered[0], &long[..100]);
    world.write(SERVER, offered[1], &long[100..]);
    let mut answer = nomsg(1);
    let used = [100, long.len() as u32 - 100];
    answer.reply = Some(offered.iter().zip(used).map(|(each, length)| Segment { length, ..*each }).collect());
    world.send(SERVER, &message(&answer, &[]));

    let reduced = reply(2, "0 '' 3 22 0 9 0 1 7 *400 25 0 1 901");
    let (write, rest) = (segment(9, 1000, 0x1000), segment(10, 4096, 0x2000));
    let mut call = msg(2);
    call.writes = vec![vec![write]];
    call.reply = Some(vec![rest]);
    world.send(CLIENT, &message(&call, &compound(2, "3 22 'handle' 9 1 7 25 #16 h0 1000")));
    // This server also writes the roundup padding, whose contents are undefined.
    let mut padded = data(901);
    padded.extend([9, 9, 9]);
    world.write(SERVER, write, &padded);
    world.write(SERVER, rest, &reduced);
    let mut answer = nomsg(2);
    answer.writes = vec![vec![segment(9, 904, 0x1000)]];
    answer.reply = Some(vec![segment(10, reduced.len() as u32, 0x2000)]);
    world.send(SERVER, &message(&answer, &[]));

    let report = world.run_with_details();
    assert_is(report.xid(1).message(true), &long);
    assert_eq!(extents(report.xid(1), true), [(long.len() as u64, Some((Part::ReplyChunk, 0)))]);
    let mut unreduced = reply(2, "0 '' 3 22 0 9 0 1 7 *400 25 0 1 *901");
    let end = unreduced.len() - 3;
    unreduced[end..].fill(9);
    assert_is(report.xid(2).message(true), &unreduced);
    let item = report.xid(2).details.operations[2].result_item.unwrap();
    assert_is(report.xid(2).item(true, &item), &data(901));
}

#[test]
fn reply_in_read_chunk_is_reassembled() {
    let (world, _, stream) = pulled_reply();
    assert_is(world.run_with_details().one().message(true), &stream);
}

#[test]
fn missing_ranges_are_reported() {
    let segment = segment(7, 1001, 0x1000);
    let mut world = World::connected();
    let mut call = msg(1);
    call.reads = vec![read_segment(WRITE_POSITION, segment)];
    world.send(CLIENT, &message(&call, &nfs3(1, 7, "'handle' h0 1001 2 1001")));
    let responses = world.read(SERVER, segment, &data(1001));
    world.send(SERVER, &message(&msg(1), &reply(1, "0 0 0 1001 2 #8")));
    // The second packet and the last one.
    for index in [responses.end - 1, responses.start + 1] {
        world.frames.remove(index);
    }
    let report = world.run_with_details();
    let write = report.one();
    let piece = write.message(false).unwrap();
    let at = u64::from(WRITE_POSITION);
    assert_eq!(piece.length, at + 1004);
    assert_eq!(piece.missing().collect::<Vec<_>>(), [(at + 256, at + 512), (at + 768, at + 1004)]);
    let item = write.item(false, &write.details.operations[0].argument_item.unwrap()).unwrap();
    assert_eq!(item.missing().collect::<Vec<_>>(), [(256, 512), (768, 1001)]);
    assert_eq!(item.bytes[512..768], data(1001)[512..768]);
    let part = write.part(false, Part::ReadChunk(0)).unwrap();
    assert_eq!((part.length, part.missing().collect::<Vec<_>>()), (1001, vec![(256, 512), (768, 1001)]));
    assert_eq!(write.part(false, Part::ReadChunk(1)), None);
}

#[test]
fn impossible_chunk_positions_are_ignored() {
    // One position is within the previous item, the other past the end of the stream.
    let stream = nfs3(1, 7, "'handle' h0 1001 2 1001");
    let chunk = |position, handle| read_segment(position, segment(handle, 1001, 0x1000));
    let mut world = World::connected();
    let mut call = msg(1);
    call.reads = vec![chunk(WRITE_POSITION, 7), chunk(WRITE_POSITION + 4, 8), chunk(u32::MAX, 9)];
    let call = message(&call, &stream);
    world.send(CLIENT, &call);
    world.send(SERVER, &message(&msg(1), &reply(1, "0 0 0 1001 2 #8")));
    let report = world.run_with_details();
    let header = (call.len() - stream.len()) as u64;
    assert_eq!(
        extents(report.one(), false),
        [(WRITE_POSITION.into(), Some((SEND, header))), (1001, Some((Part::ReadChunk(0), 0))), (3, None)]
    );
}

#[test]
fn missing_reply_has_no_layout() {
    let mut world = World::connected();
    let (call, _) = getattr(1);
    world.send(CLIENT, &call);
    let report = world.run_with_details();
    assert!(report.one().layout(true).is_empty());
    assert_eq!(report.one().message(true), None);
    assert_eq!(world.run().one().message(false), None, "nothing was kept");
}
