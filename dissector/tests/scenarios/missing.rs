//! Missing bytes are listed exactly; bytes that arrive late are not listed.

use crate::report::*;
use rdmascope_dissector::transaction::{Missing, Outcome, Part};
use rdmascope_testkit::messages::*;
use rdmascope_testkit::world::*;
use rdmascope_wire::rpcrdma::Segment;
use std::ops::Range;

const SEGMENT: Segment = segment(7, 1001, 0x1000);

/// A READ of 1001 bytes in two segments, of 601 and 400. Returns the frames of both RDMA WRITEs.
fn read_call(world: &mut World) -> [Range<usize>; 2] {
    let chunk = [segment(7, 601, 0x1000), segment(8, 400, 0x9000)];
    let mut call = msg(1);
    call.writes = vec![chunk.to_vec()];
    world.send(CLIENT, &message(&call, &nfs3(1, 6, "'handle' h0 1001")));
    world.ack(SERVER);
    chunk.map(|target| world.write(SERVER, target, &data(target.length as usize)))
}

fn read_reply(world: &mut World) {
    let mut answer = msg(1);
    answer.writes = vec![vec![segment(7, 601, 0x1000), segment(8, 400, 0x9000)]];
    world.send(SERVER, &message(&answer, &reply(1, "0 0 1001 1 1001")));
    world.ack(CLIENT);
}

/// A WRITE of 1001 bytes. Returns the frames of the RDMA READ responses.
fn write_call(world: &mut World) -> Range<usize> {
    let mut call = msg(1);
    call.reads = vec![read_segment(WRITE_POSITION, SEGMENT)];
    world.send(CLIENT, &message(&call, &nfs3(1, 7, "'handle' h0 1001 2 1001")));
    world.ack(SERVER);
    world.read(SERVER, SEGMENT, &data(1001))
}

fn write_reply(world: &mut World) {
    world.send(SERVER, &message(&msg(1), &reply(1, "0 0 0 1001 2 #8")));
    world.ack(CLIENT);
}

#[test]
fn missing_rdma_write_packet_leaves_exact_hole() {
    let mut world = World::connected();
    let [first, second] = read_call(&mut world);
    read_reply(&mut world);
    assert_eq!((first.len(), second.len()), (3, 2));
    let part = Part::WriteChunk(0);
    // Without its FIRST, a WRITE has no known address; a missing MIDDLE or LAST leaves a hole of
    // its own size.
    let cases = [
        (first.start, missing(part, 0, 601)),
        (first.start + 1, missing(part, 256, 512)),
        (first.start + 2, missing(part, 512, 601)),
        (second.start, missing(part, 601, 1001)),
        (second.start + 1, missing(part, 601 + 256, 1001)),
    ];
    for (lost, expected) in cases {
        let report = world.run_without([lost]);
        let read = report.one();
        assert_eq!((read.outcome, read.status), (Outcome::Completed, Some(0)), "without frame {lost}");
        assert_eq!(read.reply.as_ref().unwrap().missing, [expected], "without frame {lost}");
        assert!(read.capture_gap, "without frame {lost}");
        assert_eq!(report.connections[0].responder.sent.missing_packets, 1);
    }
}

#[test]
fn missing_read_response_leaves_exact_hole() {
    let mut world = World::connected();
    let responses = write_call(&mut world);
    write_reply(&mut world);
    assert_eq!(responses.len(), 4);
    for (index, lost) in responses.enumerate() {
        let start = index as u64 * 256;
        let expected = missing(Part::ReadChunk(0), start, (start + 256).min(1001));
        let report = world.run_without([lost]);
        let write = report.one();
        assert_eq!((write.outcome, write.status), (Outcome::Completed, Some(0)));
        assert_eq!(write.call.as_ref().unwrap().missing, [expected], "response {index}");
    }
}

#[test]
fn missing_rdma_read_leaves_chunk_missing() {
    let mut world = World::connected();
    let responses = write_call(&mut world);
    write_reply(&mut world);
    let report = world.run_without(responses.start - 1..responses.end);
    assert_eq!(report.one().call.as_ref().unwrap().missing, [missing(Part::ReadChunk(0), 0, 1001)]);
    assert_eq!(report.one().timing.reads, None);
    assert!(report.one().capture_gap);
}

#[test]
fn missing_middle_packet_of_send_leaves_exact_hole() {
    let mut world = World::connected();
    // 28 bytes of header, then the stream: a SYMLINK with 990 bytes of text.
    let call = message(&msg(1), &nfs3(1, 10, "'dir' 'name' 0 0 0 0 0 0 *990"));
    let frames = world.send(CLIENT, &call);
    world.ack(SERVER);
    write_reply(&mut world);
    assert_eq!(frames.len(), 5);
    for index in 1..4 {
        let report = world.run_without([frames.start + index]);
        let symlink = report.one();
        assert_eq!(symlink.outcome, Outcome::Completed);
        assert_eq!(names(symlink), ["SYMLINK"]);
        let call_message = symlink.call.as_ref().unwrap();
        let start = index as u64 * 256;
        assert_eq!(call_message.missing, [missing(Part::Send, start, start + 256)]);
        assert_eq!(call_message.send_length as usize, call.len());
        assert_eq!(call_message.message_length, Some(call.len() as u64 - 28));
        assert!(symlink.capture_gap);
        let stop = symlink.stop.unwrap();
        assert_eq!(stop.cause, rdmascope_wire::Cause::TruncatedCapture, "the sender is not at fault");
    }
}

#[test]
fn missing_last_packet_of_send_leaves_length_unknown() {
    let mut world = World::connected();
    let frames = world.send(CLIENT, &message(&msg(1), &nfs3(1, 10, "'dir' 'name' 0 0 0 0 0 0 *990")));
    world.ack(SERVER);
    let (call, answer) = getattr(2);
    world.send(CLIENT, &call);
    world.ack(SERVER);
    world.send(SERVER, &message(&msg(1), &reply(1, "0 0 0 0 0")));
    world.send(SERVER, &answer);
    let report = world.run_without([frames.end - 1]);
    let symlink = report.xid(1);
    assert_eq!((symlink.outcome, names(symlink)), (Outcome::Completed, vec!["SYMLINK"]));
    let call = symlink.call.as_ref().unwrap();
    assert_eq!(call.missing, [Missing { part: Part::Send, start: 1024, end: None }]);
    assert_eq!(call.message_length, None, "its end is unknown");
    assert_complete(report.xid(2));
}

#[test]
fn missing_reply_chunk_packet_leaves_exact_hole() {
    let stream = reply(1, "0 1 1 #80 #8 1 h5 'name' h1 1 h6 *700 h2 0 1");
    let chunk = segment(7, 2000, 0x1000);
    let mut world = World::connected();
    let mut call = msg(1);
    call.reply = Some(vec![chunk]);
    world.send(CLIENT, &message(&call, &nfs3(1, 16, "'dir' h0 #8 4096")));
    let frames = world.write(SERVER, chunk, &stream);
    let mut answer = nomsg(1);
    answer.reply = Some(vec![segment(7, stream.len() as u32, 0x1000)]);
    world.send(SERVER, &message(&answer, &[]));
    let report = world.run_without([frames.start + 1]);
    let readdir = report.one();
    assert_eq!(readdir.reply.as_ref().unwrap().missing, [missing(Part::ReplyChunk, 256, 512)]);
    assert_eq!(readdir.status, Some(0), "the status comes before the hole");
    assert_eq!(readdir.stop.unwrap().cause, rdmascope_wire::Cause::TruncatedCapture);
}

#[test]
fn retransmitted_bytes_are_not_missing() {
    let lose = |world: &mut World, lost: usize, from: usize, psn| {
        // The receiver sends a NAK, and the sender goes back.
        world.frames.remove(lost);
        world.nak(1 - from, psn);
    };
    // An RDMA WRITE packet.
    for index in 0..3 {
        let mut world = World::connected();
        let first_psn = world.end(SERVER).psn;
        let [first, second] = read_call(&mut world);
        let rest: Vec<Frame> = world.frames[first.start + index..second.end].to_vec();
        lose(&mut world, first.start + index, SERVER, first_psn.plus(index as u32));
        world.frames.extend(rest.iter().map(|frame| frame.sent_again(world.now + 10)));
        world.wait(20);
        read_reply(&mut world);
        let report = world.run();
        assert_complete(report.one());
        assert_eq!(report.one().timing.written_bytes, 1001);
    }
    // A READ response: the requester requests the missing part again.
    for index in 0..4usize {
        let mut world = World::connected();
        let psn = world.end(SERVER).psn;
        let responses = write_call(&mut world);
        world.frames.truncate(responses.start + index);
        let at = index * 256;
        let rest = segment(7, (1001 - at) as u32, 0x1000 + at as u64);
        let psn = psn.plus(index as u32);
        world.ask_again(SERVER, psn, rest, 1001 - at);
        world.read_response(CLIENT, psn, &data(1001)[at..]);
        write_reply(&mut world);
        let report = world.run();
        assert_complete(report.one());
        assert_eq!(report.one().timing.read_bytes, 1001);
        assert_eq!(report.connections[0].responder.sent.read_requests, 1);
    }
}

#[test]
fn unread_data_of_failed_write_is_missing() {
    // The transport cannot know that the upper layer did not need the data. There is no sign of a
    // capture gap.
    let mut world = World::connected();
    let mut call = msg(1);
    call.reads = vec![read_segment(WRITE_POSITION, SEGMENT)];
    world.send(CLIENT, &message(&call, &nfs3(1, 7, "'handle' h0 1001 2 1001")));
    world.send(SERVER, &message(&msg(1), &reply(1, "70 0 0")));
    let report = world.run();
    assert_eq!(report.one().call.as_ref().unwrap().missing, [missing(Part::ReadChunk(0), 0, 1001)]);
    assert!(!report.one().capture_gap);
}
