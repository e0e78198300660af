//! Reassembly of chunks (RFC 8166, sections 3.4 and 3.5; RFC 8267, sections 4 and 6).

use crate::report::*;
use rdmascope_dissector::transaction::{Outcome, Transaction};
use rdmascope_dissector::ulb::{Item, Place};
use rdmascope_testkit::messages::*;
use rdmascope_testkit::world::*;
use rdmascope_wire::rpcrdma::Segment;

fn items(transaction: &Transaction) -> Vec<(Option<Item>, Option<Item>)> {
    transaction.details.operations.iter().map(|each| (each.argument_item, each.result_item)).collect()
}

fn in_read_chunk(length: u32, position: u32, chunk: u16) -> Option<Item> {
    Some(Item { length, position, place: Place::ReadChunk(chunk) })
}

/// An NFS version 3 WRITE of 1001 bytes in a Read chunk with these segments.
fn write_1001(segments: &[u32]) -> Transaction {
    let mut world = World::connected();
    let mut call = msg(1);
    let mut offset = 0x1000;
    for (index, length) in segments.iter().enumerate() {
        call.reads.push(read_segment(WRITE_POSITION, segment(7 + index as u32, *length, offset)));
        offset += 0x1_0000;
    }
    // Requester                              Responder
    //   Send: RDMA_MSG, Read chunk              ->
    //                                        <- RDMA READ of each segment, responses ->
    //                                        <- Send: RDMA_MSG
    world.send(CLIENT, &message(&call, &nfs3(1, 7, "'handle' h0 1001 2 1001")));
    world.ack(SERVER);
    for read in &call.reads {
        world.read(SERVER, read.target, &data(read.target.length as usize));
    }
    world.send(SERVER, &message(&msg(1), &reply(1, "0 0 0 1001 2 #8")));
    world.ack(CLIENT);
    let report = world.run();
    let write = report.one().clone();
    assert_complete(&write);
    assert_eq!((write.outcome, write.status), (Outcome::Completed, Some(0)));
    assert_eq!(items(&write), [(in_read_chunk(1001, WRITE_POSITION, 0), None)]);
    let call = write.call.as_ref().unwrap();
    assert_eq!(call.read_chunks.len(), 1);
    // The length before reduction: with the data and three bytes of padding, whether or not the
    // chunk contains the padding.
    assert_eq!(call.message_length, Some(u64::from(WRITE_POSITION) + 1004));
    let reply = write.reply.as_ref().unwrap();
    assert_eq!(reply.message_length, Some(u64::from(REPLY_HEADER) + 28));
    write
}

#[test]
fn read_chunk_may_omit_roundup_padding() {
    let write = write_1001(&[1001]);
    assert_eq!(write.timing.read_bytes, 1001);
}

#[test]
fn read_chunk_may_have_padding_in_last_segment() {
    let write = write_1001(&[600, 404]);
    assert_eq!(write.timing.read_bytes, 1004);
}

#[test]
fn read_chunk_may_have_padding_in_separate_segment() {
    let write = write_1001(&[600, 401, 3]);
    assert_eq!(write.call.unwrap().read_chunks[0].segments.len(), 3);
}

#[test]
fn read_chunk_segments_may_be_unaligned() {
    write_1001(&[1, 2, 3, 995]);
}

#[test]
fn interleaved_segments_form_two_read_chunks() {
    // COMPOUND: tag, minor version, count; PUTFH; WRITE; WRITE. Each WRITE: code, stateid, offset,
    // stable, count.
    let first = CALL_HEADER + 12 + (4 + 12) + (4 + 16 + 8 + 4 + 4);
    let second = first + 504 + (4 + 16 + 8 + 4 + 4);
    let mut world = World::connected();
    let mut call = msg(1);
    let [a, b, c, d] =
        [segment(1, 300, 0x1000), segment(2, 700, 0x2000), segment(1, 201, 0x5000), segment(2, 300, 0x9000)];
    call.reads = vec![
        read_segment(first, a),
        read_segment(second, b),
        read_segment(first, c),
        read_segment(second, d),
    ];
    let arguments = "3 22 'handle' 38 #16 h0 2 501 38 #16 h501 2 1000";
    world.send(CLIENT, &message(&call, &compound(1, arguments)));
    for target in [a, c, b, d] {
        world.read(SERVER, target, &data(target.length as usize));
    }
    world.send(SERVER, &message(&msg(1), &reply(1, "0 '' 3 22 0 38 0 501 2 #8 38 0 1000 2 #8")));
    let report = world.run();
    let writes = report.one();
    assert_complete(writes);
    assert_eq!(names(writes), ["PUTFH", "WRITE", "WRITE"]);
    let expected = [None, in_read_chunk(501, first, 0), in_read_chunk(1000, second, 1)];
    assert_eq!(items(writes).iter().map(|item| item.0).collect::<Vec<_>>(), expected);
    let call = writes.call.as_ref().unwrap();
    assert_eq!(call.read_chunks[0].segments, [a, c], "segments with one Position form one Read chunk");
    assert_eq!(call.read_chunks[1].segments, [b, d]);
    assert_eq!(call.message_length, Some(u64::from(second) + 1000));
    assert_eq!(writes.timing.read_bytes, 1501);
}

/// A COMPOUND with WRITEs of 501 and 1000 bytes. Its Read list begins with the chunk of the second
/// one. Returns the Positions of both.
pub(crate) fn two_writes() -> (World, [u32; 2]) {
    let first = CALL_HEADER + 12 + (4 + 12) + (4 + 16 + 8 + 4 + 4);
    let second = first + 504 + (4 + 16 + 8 + 4 + 4);
    let mut world = World::connected();
    let mut call = msg(1);
    let (a, b) = (segment(1, 501, 0x1000), segment(2, 1000, 0x2000));
    call.reads = vec![read_segment(second, b), read_segment(first, a)];
    let arguments = "3 22 'handle' 38 #16 h0 2 501 38 #16 h501 2 1000";
    world.send(CLIENT, &message(&call, &compound(1, arguments)));
    world.read(SERVER, a, &data(501));
    world.read(SERVER, b, &data(1000));
    world.send(SERVER, &message(&msg(1), &reply(1, "0 '' 3 22 0 38 0 501 2 #8 38 0 1000 2 #8")));
    (world, [first, second])
}

#[test]
fn read_list_positions_may_decrease() {
    let (world, [first, second]) = two_writes();
    let report = world.run();
    assert_complete(report.one());
    let expected = [None, in_read_chunk(501, first, 1), in_read_chunk(1000, second, 0)];
    assert_eq!(items(report.one()).iter().map(|item| item.0).collect::<Vec<_>>(), expected);
}

#[test]
fn long_call_is_read_from_position_zero_read_chunk() {
    // A SYMLINK whose text exceeds the inline threshold and is not reduced.
    let stream = nfs3(1, 10, "'dir' 'name' 0 0 0 0 0 0 *2001");
    let (front, back) = stream.split_at(777);
    let (a, b) = (segment(7, 777, 0x1000), segment(8, back.len() as u32, 0x1000));
    let mut world = World::connected();
    let mut call = nomsg(1);
    call.reads = vec![read_segment(0, a), read_segment(0, b)];
    world.send(CLIENT, &message(&call, &[]));
    world.read(SERVER, a, front);
    world.read(SERVER, b, back);
    world.send(SERVER, &message(&msg(1), &reply(1, "0 0 0 0 0")));
    let report = world.run();
    let symlink = report.one();
    assert_complete(symlink);
    assert_eq!(names(symlink), ["SYMLINK"]);
    let call = symlink.call.as_ref().unwrap();
    assert_eq!(call.message_length, Some(stream.len() as u64));
    assert_eq!(call.rpc_xid.map(|xid| xid.0), Some(1));
    let item = symlink.details.operations[0].argument_item.unwrap();
    assert_eq!((item.length, item.place), (2001, Place::Inline(stream.len() as u32 - 2004)));
}

#[test]
fn long_call_may_have_write_data_in_another_read_chunk() {
    // RFC 8166, section 3.5.3: the Position Zero Read chunk holds the reduced stream.
    let stream = nfs3(1, 7, "'handle' h0 1001 2 1001");
    let (zero, item) = (segment(7, stream.len() as u32, 0x1000), segment(8, 1001, 0x1000));
    let orders = [(1, [(0, zero), (WRITE_POSITION, item)]), (0, [(WRITE_POSITION, item), (0, zero)])];
    for (index, reads) in orders {
        let mut world = World::connected();
        let mut call = nomsg(1);
        call.reads = reads.map(|(position, target)| read_segment(position, target)).to_vec();
        world.send(CLIENT, &message(&call, &[]));
        world.read(SERVER, zero, &stream);
        world.read(SERVER, item, &data(1001));
        world.send(SERVER, &message(&msg(1), &reply(1, "0 0 0 1001 2 #8")));
        let report = world.run();
        assert_complete(report.one());
        assert_eq!(items(report.one()), [(in_read_chunk(1001, WRITE_POSITION, index), None)]);
        let length = report.one().call.as_ref().unwrap().message_length;
        assert_eq!(length, Some(u64::from(WRITE_POSITION) + 1004));
    }
}

/// PUTFH LOOKUP READ PUTFH LOOKUP READLINK PUTFH LOOKUP READ: RFC 8267, section 6.4.3.
const THREE_ITEMS: &str =
    "9 22 'dir' 15 'a' 25 #16 h0 1000 22 'dir' 15 'b' 27 22 'dir' 15 'c' 25 #16 h0 1000";

#[test]
fn item_of_empty_write_chunk_is_inline() {
    let (a, c1, c2) = (segment(1, 1000, 0x1000), segment(2, 300, 0x2000), segment(3, 700, 0x3000));
    let mut world = World::connected();
    let mut call = msg(1);
    call.writes = vec![vec![a], vec![], vec![c1, c2]];
    world.send(CLIENT, &message(&call, &compound(1, THREE_ITEMS)));
    world.write(SERVER, a, &data(1000));
    world.write(SERVER, c1, &data(300));
    world.write(SERVER, c2, &data(99));
    let mut answer = msg(1);
    answer.writes = vec![vec![a], vec![], vec![c1, segment(3, 99, 0x3000)]];
    let results = "0 '' 9 22 0 15 0 25 0 0 1000 22 0 15 0 27 0 'target' 22 0 15 0 25 0 1 399";
    world.send(SERVER, &message(&answer, &reply(1, results)));
    let report = world.run();
    let compound = report.one();
    assert_complete(compound);
    let found = items(compound);
    assert_eq!(found[2].1.map(|item| (item.length, item.place)), Some((1000, Place::WriteChunk(0))));
    let inline = found[5].1.unwrap();
    assert_eq!(inline.length, 6);
    assert!(matches!(inline.place, Place::Inline(_)));
    assert_eq!(found[8].1.map(|item| (item.length, item.place)), Some((399, Place::WriteChunk(2))));
    let reply = compound.reply.as_ref().unwrap();
    // The stream as sent, plus 1000 bytes for A, and 399 and one of padding for C.
    let stream = u64::from(reply.send_length - reply.header_length);
    assert_eq!(reply.message_length, Some(stream + 1000 + 400));
    assert_eq!(reply.write_chunks[1].segments, []);
    assert_eq!(compound.timing.written_bytes, 1399);
}

#[test]
fn failed_read_leaves_its_write_chunk_unused() {
    let chunk = segment(7, 1000, 0x1000);
    let mut world = World::connected();
    let mut call = msg(1);
    call.writes = vec![vec![chunk]];
    world.send(CLIENT, &message(&call, &nfs3(1, 6, "'handle' h0 1000")));
    let mut answer = msg(1);
    answer.writes = vec![vec![segment(7, 0, 0x1000)]];
    world.send(SERVER, &message(&answer, &reply(1, "70 0")));
    let report = world.run();
    let read = report.one();
    assert_complete(read);
    assert_eq!(read.status, Some(70));
    assert_eq!(items(read), [(None, None)]);
    assert_eq!(read.reply.as_ref().unwrap().message_length, Some(u64::from(REPLY_HEADER) + 8));
}

#[test]
fn failed_second_read_leaves_its_write_chunk_unused() {
    let chunks = [segment(1, 1000, 0x1000), segment(2, 1000, 0x2000)];
    let mut world = World::connected();
    let mut call = msg(1);
    call.writes = vec![vec![chunks[0]], vec![chunks[1]]];
    let arguments = "3 22 'handle' 25 #16 h0 1000 25 #16 h0 1000";
    world.send(CLIENT, &message(&call, &compound(1, arguments)));
    world.write(SERVER, chunks[0], &data(600));
    let mut answer = msg(1);
    answer.writes = vec![vec![segment(1, 600, 0x1000)], vec![segment(2, 0, 0x2000)]];
    world.send(SERVER, &message(&answer, &reply(1, "5 '' 3 22 0 25 0 1 600 25 5")));
    let report = world.run();
    assert_complete(report.one());
    assert_eq!(report.one().status, Some(5));
    let found = items(report.one());
    assert_eq!(found[1].1.map(|item| (item.length, item.place)), Some((600, Place::WriteChunk(0))));
    assert_eq!(found[2].1, None);
}

#[test]
fn read_may_be_shorter_than_its_write_chunk() {
    let chunk = [segment(7, 600, 0x1000), segment(8, 600, 0x9000)];
    let mut world = World::connected();
    let mut call = msg(1);
    call.writes = vec![chunk.to_vec()];
    world.send(CLIENT, &message(&call, &nfs3(1, 6, "'handle' h0 1200")));
    world.write(SERVER, chunk[0], &data(600));
    world.write(SERVER, chunk[1], &data(5));
    let mut answer = msg(1);
    answer.writes = vec![vec![chunk[0], segment(8, 5, 0x9000)]];
    world.send(SERVER, &message(&answer, &reply(1, "0 1 1 #80 605 1 605")));
    let report = world.run();
    let read = report.one();
    assert_complete(read);
    let operation = read.details.operations[0];
    assert_eq!((operation.result_count, operation.end_of_file), (Some(605), Some(true)));
    let position = REPLY_HEADER + 4 + 88 + 12;
    let item = Some(Item { length: 605, position, place: Place::WriteChunk(0) });
    assert_eq!(items(read), [(None, item)]);
    assert_eq!(read.reply.as_ref().unwrap().message_length, Some(u64::from(position) + 608));
    assert_eq!(read.timing.written_bytes, 605);
}

#[test]
fn reply_chunk_segments_may_be_partly_filled() {
    let stream = reply(1, "0 1 1 #80 #8 1 h5 'name' h1 1 h6 'other' h2 1 h7 *255 h3 0 1");
    let offered = [segment(7, 200, 0x1000), segment(8, 300, 0x2000), segment(9, 4000, 0x3000)];
    let used = [100, 256, stream.len() as u32 - 356];
    let mut world = World::connected();
    let mut call = msg(1);
    call.reply = Some(offered.to_vec());
    world.send(CLIENT, &message(&call, &nfs3(1, 16, "'dir' h0 #8 4096")));
    let mut answer = nomsg(1);
    answer.reply = Some(offered.iter().zip(used).map(|(each, length)| Segment { length, ..*each }).collect());
    let mut at = 0;
    for (each, length) in offered.iter().zip(used) {
        world.write(SERVER, *each, &stream[at..at + length as usize]);
        at += length as usize;
    }
    world.send(SERVER, &message(&answer, &[]));
    let report = world.run();
    let readdir = report.one();
    assert_complete(readdir);
    assert_eq!(names(readdir), ["READDIR"]);
    assert_eq!((readdir.status, readdir.details.operations[0].end_of_file), (Some(0), Some(true)));
    let reply = readdir.reply.as_ref().unwrap();
    assert_eq!(reply.message_length, Some(stream.len() as u64));
    assert_eq!(reply.rpc_xid.map(|xid| xid.0), Some(1));
}

#[test]
fn reply_may_use_reply_chunk_and_write_chunk() {
    // RFC 8166, section 3.5.3: the Reply chunk holds the reduced stream.
    let stream = reply(1, "0 '' 3 22 0 9 0 1 7 *400 25 0 1 900");
    let (write, long) = (segment(7, 1000, 0x1000), segment(8, 4096, 0x2000));
    let mut world = World::connected();
    let mut call = msg(1);
    call.writes = vec![vec![write]];
    call.reply = Some(vec![long]);
    let arguments = "3 22 'handle' 9 1 7 25 #16 h0 1000";
    world.send(CLIENT, &message(&call, &compound(1, arguments)));
    world.write(SERVER, write, &data(900));
    world.write(SERVER, long, &stream);
    let mut answer = nomsg(1);
    answer.writes = vec![vec![segment(7, 900, 0x1000)]];
    answer.reply = Some(vec![segment(8, stream.len() as u32, 0x2000)]);
    world.send(SERVER, &message(&answer, &[]));
    let report = world.run();
    let compound = report.one();
    assert_complete(compound);
    assert_eq!(names(compound), ["PUTFH", "GETATTR", "READ"]);
    let position = stream.len() as u32;
    let item = Some(Item { length: 900, position, place: Place::WriteChunk(0) });
    assert_eq!(items(compound)[2].1, item);
    assert_eq!(compound.reply.as_ref().unwrap().message_length, Some(stream.len() as u64 + 900));
}

#[test]
fn small_reply_may_leave_reply_chunk_unused() {
    let offered = segment(8, 4096, 0x2000);
    let mut world = World::connected();
    let mut call = msg(1);
    call.reply = Some(vec![offered]);
    world.send(CLIENT, &message(&call, &nfs3(1, 16, "'dir' h0 #8 4096")));
    let mut answer = msg(1);
    answer.reply = Some(vec![segment(8, 0, 0x2000)]);
    world.send(SERVER, &message(&answer, &reply(1, "0 1 1 #80 #8 0 1")));
    let report = world.run();
    assert_complete(report.one());
    let length = u64::from(REPLY_HEADER) + 4 + 88 + 8 + 8;
    assert_eq!(report.one().reply.as_ref().unwrap().message_length, Some(length));
    assert_eq!(report.one().details.operations[0].end_of_file, Some(true));
}

#[test]
fn empty_items_use_their_chunks() {
    // A WRITE without data, whose Read chunk is one empty segment, then a READ at the end of the
    // file.
    let mut world = World::connected();
    let mut call = msg(1);
    call.reads = vec![read_segment(WRITE_POSITION, segment(7, 0, 0x1000))];
    world.send(CLIENT, &message(&call, &nfs3(1, 7, "'handle' h0 0 2 0")));
    world.send(SERVER, &message(&msg(1), &reply(1, "0 0 0 0 2 #8")));
    let mut call = msg(2);
    call.writes = vec![vec![segment(8, 100, 0x1000)]];
    world.send(CLIENT, &message(&call, &nfs3(2, 6, "'handle' h0 100")));
    let mut answer = msg(2);
    answer.writes = vec![vec![segment(8, 0, 0x1000)]];
    world.send(SERVER, &message(&answer, &reply(2, "0 0 0 1 0")));
    let report = world.run();
    let (write, read) = (report.xid(1), report.xid(2));
    assert_complete(write);
    assert_complete(read);
    assert_eq!(items(write)[0].0.unwrap().length, 0);
    assert_eq!(write.call.as_ref().unwrap().message_length, Some(u64::from(WRITE_POSITION)));
    let item = items(read)[0].1.unwrap();
    assert_eq!((item.length, item.place), (0, Place::WriteChunk(0)));
    assert_eq!(read.reply.as_ref().unwrap().message_length, Some(u64::from(REPLY_HEADER) + 20));
}

#[test]
fn send_with_invalidate_reports_its_handle() {
    let chunk = segment(7, 100, 0x1000);
    let mut world = World::connected();
    let mut call = msg(1);
    call.writes = vec![vec![chunk]];
    world.send(CLIENT, &message(&call, &nfs3(1, 6, "'handle' h0 100")));
    world.write(SERVER, chunk, &data(100));
    let mut answer = msg(1);
    answer.writes = vec![vec![chunk]];
    world.send_invalidate(SERVER, &message(&answer, &reply(1, "0 1 1 #80 100 1 100")), 7);
    let report = world.run();
    assert_complete(report.one());
    assert_eq!(report.one().reply.as_ref().unwrap().invalidated, Some(chunk.handle));
}
