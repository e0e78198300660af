//! Kept details of a transaction: its steps, and the bytes of its Sends and chunks.

use crate::report::*;
use rdmascope_dissector::event::Eviction;
use rdmascope_dissector::exchange::{Exchange, Keep, Step, StepKind};
use rdmascope_dissector::rdma::Position;
use rdmascope_dissector::transaction::{Part, Transaction};
use rdmascope_testkit::messages::*;
use rdmascope_testkit::world::*;
use rdmascope_wire::psn::Psn;
use rdmascope_wire::rpcrdma::{Procedure, Segment};
use std::ops::Range;

const CLIENT_PSN: u32 = 1_000;
const SERVER_PSN: u32 = 500_000;

fn kept(transaction: &Transaction) -> &Exchange {
    transaction.exchange.as_ref().unwrap()
}

/// A step: kind, whether the caller sent it, frames, positions, part, offset, length.
type Line = (StepKind, bool, (u64, u64), (u32, u32), Part, u64, u64);

fn lines(transaction: &Transaction) -> Vec<Line> {
    let line = |step: &Step| {
        let Step { kind, from_caller, first, last, position, extent, part, offset, length, .. } = *step;
        (kind, from_caller, (first.frame, last.frame), (position.number(), extent), part, offset, length)
    };
    kept(transaction).steps.iter().map(line).collect()
}

/// The bytes of a part without missing ranges.
#[track_caller]
fn complete(transaction: &Transaction, of_reply: bool, part: Part) -> &[u8] {
    let content = kept(transaction).content(of_reply, part).expect("the part was kept");
    assert_eq!(content.captured.holes(content.bytes.len() as u64).count(), 0);
    &content.bytes
}

/// A WRITE of 1001 bytes in a Read chunk of two segments. Its frames begin at 4; 1 to 3 are the CM
/// exchange.
fn write(world: &mut World) -> (Vec<u8>, Vec<u8>, [Segment; 2]) {
    let segments = [segment(7, 600, 0x1000), segment(8, 401, 0x9000)];
    let mut call = msg(1);
    call.reads = segments.map(|each| read_segment(WRITE_POSITION, each)).to_vec();
    let call = message(&call, &nfs3(1, 7, "'handle' h0 1001 2 1001"));
    let answer = message(&msg(1), &reply(1, "0 0 0 1001 2 #8"));
    world.send(CLIENT, &call);
    (call, answer, segments)
}

#[test]
fn write_has_steps_and_contents() {
    let mut world = World::connected();
    let (call, answer, [a, b]) = write(&mut world);
    // Both requests, then both responses.
    let (first, second) = (world.read_request(SERVER, a, 600), world.read_request(SERVER, b, 401));
    world.read_response(CLIENT, first, &data(1001)[..600]);
    world.read_response(CLIENT, second, &data(1001)[600..]);
    world.send(SERVER, &answer);
    let report = world.run_with_details();
    let write = report.one();
    let (chunk, calls) = (Part::ReadChunk(0), call.len() as u64);
    assert_eq!(
        lines(write),
        [
            (StepKind::Call, true, (4, 4), (CLIENT_PSN, 1), Part::Send, 0, calls),
            (StepKind::ReadRequest, false, (5, 5), (SERVER_PSN, 3), chunk, 0, 600),
            (StepKind::ReadRequest, false, (6, 6), (SERVER_PSN + 3, 2), chunk, 600, 401),
            (StepKind::ReadResponse, true, (7, 9), (SERVER_PSN, 3), chunk, 0, 600),
            (StepKind::ReadResponse, true, (10, 11), (SERVER_PSN + 3, 2), chunk, 600, 401),
            (StepKind::Reply, false, (12, 12), (SERVER_PSN + 5, 1), Part::Send, 0, answer.len() as u64),
        ]
    );
    assert!(kept(write).steps.iter().all(|step| step.of_reply == (step.kind == StepKind::Reply)));
    assert_eq!(complete(write, false, Part::Send), call);
    assert_eq!(complete(write, false, chunk), data(1001));
    assert_eq!(complete(write, true, Part::Send), answer);
    let [caller, other] = kept(write).flows.map(Option::unwrap);
    assert_eq!(caller.destination_qp, world.end(SERVER).qpn);
    assert_eq!(other.destination_qp, world.end(CLIENT).qpn);
}

#[test]
fn reordered_and_repeated_packets_add_no_steps() {
    let mut world = World::connected();
    let (call, answer, [a, b]) = write(&mut world);
    let first = world.read_request(SERVER, a, 600);
    let responses = world.read_response(CLIENT, first, &data(1001)[..600]);
    // The responses are reordered; one is lost on the way, and the rest is requested again.
    world.frames.swap(responses.start, responses.start + 2);
    world.again(responses.start..responses.start + 1);
    world.ask_again(SERVER, first.plus(1), Segment { length: 344, offset: 0x1100, ..a }, 344);
    world.read_response(CLIENT, first.plus(1), &data(1001)[256..600]);
    world.read(SERVER, b, &data(1001)[600..]);
    world.send(SERVER, &answer);
    let report = world.run_with_details();
    let write = report.one();
    let kinds: Vec<_> =
        kept(write).steps.iter().map(|step| (step.kind, step.position.number(), step.extent)).collect();
    assert_eq!(
        kinds,
        [
            (StepKind::Call, CLIENT_PSN, 1),
            (StepKind::ReadRequest, SERVER_PSN, 3),
            (StepKind::ReadResponse, SERVER_PSN, 3),
            (StepKind::ReadRequest, SERVER_PSN + 3, 2),
            (StepKind::ReadResponse, SERVER_PSN + 3, 2),
            (StepKind::Reply, SERVER_PSN + 5, 1),
        ]
    );
    assert_eq!(complete(write, false, Part::Send), call);
    assert_eq!(complete(write, false, Part::ReadChunk(0)), data(1001));
}

#[test]
fn write_chunk_has_only_used_part_of_each_segment() {
    let chunk = [segment(7, 600, 0x1000), segment(8, 600, 0x9000)];
    let mut world = World::connected();
    let mut call = msg(1);
    call.writes = vec![chunk.to_vec()];
    world.send(CLIENT, &message(&call, &nfs3(1, 6, "'handle' h0 1200")));
    world.write(SERVER, chunk[0], &data(605)[..500]);
    let last = world.write(SERVER, chunk[1], &data(605)[500..]);
    let mut answer = msg(1);
    answer.writes = vec![vec![segment(7, 500, 0x1000), segment(8, 105, 0x9000)]];
    world.send(SERVER, &message(&answer, &reply(1, "0 1 1 #80 605 1 605")));
    let report = world.run_with_details();
    let read = report.one();
    assert_eq!(complete(read, true, Part::WriteChunk(0)), data(605));
    assert_eq!(kept(read).content(false, Part::WriteChunk(0)), None, "a returned chunk belongs to the reply");
    let chunk = Part::WriteChunk(0);
    assert_eq!(lines(read)[1], (StepKind::Write, false, (5, 6), (SERVER_PSN, 2), chunk, 0, 500));
    let frame = last.end as u64;
    assert_eq!(
        lines(read)[2],
        (StepKind::Write, false, (frame, frame), (SERVER_PSN + 2, 1), chunk, 500, 105)
    );
    assert!(kept(read).steps[1].of_reply);
}

/// A READ of 600 bytes with a Write chunk. Also returns the frames of the RDMA Write.
fn read_of_600_bytes() -> (World, Range<usize>) {
    let chunk = segment(7, 600, 0x1000);
    let mut world = World::connected();
    let mut call = msg(1);
    call.writes = vec![vec![chunk]];
    world.send(CLIENT, &message(&call, &nfs3(1, 6, "'handle' h0 600")));
    let written = world.write(SERVER, chunk, &data(600));
    let mut answer = msg(1);
    answer.writes = vec![vec![chunk]];
    world.send(SERVER, &message(&answer, &reply(1, "0 1 1 #80 600 1 600")));
    (world, written)
}

#[test]
fn missing_bytes_of_chunk_are_zeros() {
    let (mut world, written) = read_of_600_bytes();
    world.ack(CLIENT);
    world.frames.remove(written.start + 1);
    let report = world.run_with_details();
    let read = report.one();
    let content = kept(read).content(true, Part::WriteChunk(0)).unwrap();
    let mut expected = data(600);
    expected[256..512].fill(0);
    assert_eq!(content.bytes, expected);
    assert_eq!(content.captured.holes(600).collect::<Vec<_>>(), [(256, 512)]);
    assert_eq!(lines(read)[1].3, (SERVER_PSN, 3), "the step covers the missing PSN");
}

#[test]
fn snap_length_keeps_start_of_each_packet() {
    let (world, _) = read_of_600_bytes();
    // Headers before the data: Ethernet, IPv4, UDP, BTH and, in the first packet, RETH.
    let report = run_with(&world.frames, 14 + 20 + 8 + 12 + 16 + 100, Keep { steps: true, contents: true });
    let read = report.one();
    let content = kept(read).content(true, Part::WriteChunk(0)).unwrap();
    assert_eq!(content.captured.ranges().collect::<Vec<_>>(), [(0, 100), (256, 372), (512, 600)]);
    assert_eq!(content.bytes[256..372], data(600)[256..372]);
    assert_eq!(content.bytes[372..512], [0; 140]);
}

/// A reply in a Read chunk of the server, until the client has read it. Also returns the message
/// with the Read list, and the reply.
pub(crate) fn pulled_reply() -> (World, Vec<u8>, Vec<u8>) {
    let stream = reply(1, "0 1 1 #80 #8 1 h5 'name' h1 0 1 *255");
    let target = segment(9, stream.len() as u32, 0x1000);
    let mut world = World::connected();
    world.send(CLIENT, &message(&msg(1), &nfs3(1, 16, "'dir' h0 #8 4096")));
    let mut answer = nomsg(1);
    answer.reads = vec![read_segment(0, target)];
    let answer = message(&answer, &[]);
    world.send(SERVER, &answer);
    world.read(CLIENT, target, &stream);
    (world, answer, stream)
}

#[test]
fn pulled_reply_has_read_and_done_steps() {
    let (mut world, answer, stream) = pulled_reply();
    world.send(CLIENT, &message(&header(1, Procedure::Done), &[]));
    let report = world.run_with_details();
    let steps: Vec<_> =
        kept(report.one()).steps.iter().map(|step| (step.kind, step.from_caller, step.of_reply)).collect();
    assert_eq!(
        steps,
        [
            (StepKind::Call, true, false),
            (StepKind::Reply, false, true),
            (StepKind::ReadRequest, true, true),
            (StepKind::ReadResponse, false, true),
            (StepKind::Done, true, true),
        ]
    );
    assert_eq!(complete(report.one(), true, Part::ReadChunk(0)), stream);
    assert_eq!(complete(report.one(), true, Part::Send), answer);
}

/// The REQ gives the path MTU, which determines the number of PSNs that an RDMA READ covers, even
/// if the capture has the REQ after the REP.
#[test]
fn path_mtu_of_req_applies_to_both_ends() {
    for req_first in [true, false] {
        let target = segment(9, 600, 0x1000);
        let mut world = World::new();
        if req_first {
            world.req();
        }
        world.rep();
        if !req_first {
            world.req();
        }
        world.rtu();
        world.send(CLIENT, &message(&msg(1), &nfs3(1, 16, "'dir' h0 #8 4096")));
        let mut answer = nomsg(1);
        answer.reads = vec![read_segment(0, target)];
        world.send(SERVER, &message(&answer, &[]));
        world.read_request(CLIENT, target, 600);
        let report = world.run_with_details();
        let steps = lines(report.one());
        assert_eq!((steps[2].0, steps[2].3), (StepKind::ReadRequest, (CLIENT_PSN + 1, 3)), "{req_first}");
    }
}

#[test]
fn backward_call_is_sent_by_server() {
    let call = message(&msg(7), &call_to(7, [0x4000_0000, 1, 1], "'' 1 0 1 11 #16 1 0 0 1 0"));
    let answer = message(&msg(7), &reply(7, "0 '' 1 11 0 #16 1 0 0 0"));
    let mut world = World::connected();
    world.send(SERVER, &call);
    world.send(CLIENT, &answer);
    let report = world.run_with_details();
    let psns = [SERVER_PSN, CLIENT_PSN].map(Psn::new);
    let steps = &kept(report.one()).steps;
    assert_eq!([steps[0].position, steps[1].position], psns.map(Position::from));
    assert_eq!([steps[0].from_caller, steps[1].from_caller], [true, false]);
    assert_eq!(kept(report.one()).flows[0].unwrap().destination_qp, world.end(CLIENT).qpn);
    assert_eq!(complete(report.one(), false, Part::Send), call);
}

#[test]
fn steps_are_bounded() {
    let chunk = segment(7, 1 << 20, 0x1000);
    let mut world = World::connected();
    let mut call = msg(1);
    call.writes = vec![vec![chunk]];
    world.send(CLIENT, &message(&call, &nfs3(1, 6, "'handle' h0 1048576")));
    let most = Exchange::MOST_STEPS as u64;
    for offset in 0..most + 10 {
        world.write(SERVER, segment(7, 4, 0x1000 + 4 * offset), &[1; 4]);
    }
    let report = world.run_with_details();
    let kept = kept(report.one());
    assert_eq!((kept.steps.len(), kept.steps_left_out), (Exchange::MOST_STEPS, 11));
    assert_eq!(kept.contents[1].bytes.len() as u64, 4 * (most + 10));
}

/// A call with `chunks` Write chunks of this length.
fn call_with_chunks(chunks: u32, length: u32) -> World {
    let mut world = World::connected();
    let mut call = msg(1);
    call.writes = (0..chunks).map(|index| vec![segment(10 + index, length, 0)]).collect();
    world.send(CLIENT, &message(&call, &compound(1, "1 22 'handle'")));
    world
}

/// The length of each kept part, and the number of placements that were not kept.
fn lengths(world: &World) -> (Vec<usize>, usize) {
    let report = world.run_with_details();
    let gathered = |eviction: &&Eviction| matches!(eviction, Eviction::Gathered { .. });
    let left_out = report.evictions.iter().filter(gathered).count();
    (kept(report.one()).contents.iter().map(|content| content.bytes.len()).collect(), left_out)
}

#[test]
fn sparse_chunks_stay_within_content_limit() {
    // Four bytes every 128 KiB of five chunks: four fit, but for the last bytes.
    let length = Exchange::LONGEST_CONTENT as u32;
    let mut world = call_with_chunks(5, length + 4);
    for index in 0..5 {
        for end in (128 << 10..=length).step_by(128 << 10) {
            world.write(SERVER, segment(10 + index, 4, u64::from(end) - 4), &[1; 4]);
        }
    }
    world.write(SERVER, segment(10, 4, u64::from(length)), &[1; 4]);
    let (lengths, left_out) = lengths(&world);
    assert!(lengths.iter().sum::<usize>() <= Exchange::MOST_CONTENTS, "{lengths:?}");
    let full = length as usize;
    assert_eq!(lengths[1..], [full, full, full, full - (128 << 10)]);
    assert_eq!(left_out, 1 + 512 + 1);
}

/// A hostile capture writes only the last bytes of each chunk.
#[test]
fn bytes_after_a_long_gap_are_kept_if_others_were() {
    let length: u32 = 48 << 20;
    let mut world = call_with_chunks(3, length);
    let last = |index: u32| segment(10 + index, 4, u64::from(length) - 4);
    world.write(SERVER, last(0), &[1; 4]);
    world.write(SERVER, last(1), &[1; 4]);
    let (mut expected, left_out) = lengths(&world);
    assert_eq!((expected[1..].to_vec(), left_out), (vec![length as usize], 1));
    for offset in 0..256 {
        world.write(SERVER, segment(10, 4, 4 * offset), &[1; 4]);
    }
    world.write(SERVER, last(1), &[1; 4]);
    expected.push(length as usize);
    assert_eq!(lengths(&world), (expected, 1));
}

/// A message has at most 8 MiB of missing bytes before captured ones.
#[test]
fn message_ends_before_a_long_gap() {
    for (missing, length) in [(8 << 20, (8 << 20) + 8), ((8 << 20) + 1, 4)] {
        let chunk = segment(7, missing + 8, 0);
        let mut world = World::connected();
        let mut call = msg(1);
        call.reply = Some(vec![chunk]);
        world.send(CLIENT, &message(&call, &nfs3(1, 6, "'handle' h0 8")));
        world.write(SERVER, segment(7, 4, 0), &[1; 4]);
        world.write(SERVER, segment(7, 4, u64::from(missing) + 4), &[1; 4]);
        let mut answer = nomsg(1);
        answer.reply = Some(vec![chunk]);
        world.send(SERVER, &message(&answer, &[]));
        let report = world.run_with_details();
        let piece = report.one().message(true).expect("it is kept");
        assert_eq!((piece.length, piece.bytes.len()), (u64::from(missing) + 8, length), "{missing}");
    }
}
