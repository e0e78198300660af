//! Correct sessions whose captures lack something that the other tests do not leave out: bytes,
//! repeated requests, the last packets. None gives a certain finding.

use rdmascope_conformance::{Level, Verdict};
use rdmascope_testkit::messages::{
    WRITE_POSITION, data, getattr, message, msg, nfs3, read_segment, reply, segment,
};
use rdmascope_testkit::world::{CLIENT, Frame, SERVER, World};
use rdmascope_tests::judged::{findings, line, rule};
use rdmascope_tests::pcap::{Capture, Packet};
use rdmascope_wire::rpcrdma::{Builder, Segment};

/// A capture of the frames for which `keep` returns a length, cut to that length.
fn capture(world: &World, keep: impl Fn(usize, &Frame) -> Option<usize>) -> Capture {
    let packet = |(index, frame): (usize, &Frame)| {
        let length = keep(index, frame)?.min(frame.data.len());
        Some(Packet {
            number: 0,
            time: frame.time,
            original_length: frame.data.len() as u32,
            data: frame.data[..length].to_vec(),
        })
    };
    let packets = world.frames.iter().enumerate().filter_map(packet).collect();
    let mut capture = Capture { link: 1, packets };
    capture.renumber();
    capture
}

/// All frames of a session.
fn whole(world: &World) -> Capture {
    capture(world, |_, frame| Some(frame.data.len()))
}

/// The certain violations and warnings in a capture.
fn certain(capture: &Capture) -> Vec<String> {
    let accuses = |finding: &&rdmascope_conformance::Finding| {
        finding.verdict == Verdict::Certain && rule(finding).level != Level::Advice
    };
    findings(capture).iter().filter(accuses).map(line).collect()
}

/// The names of the rules that these findings belong to.
fn rules(found: &[String]) -> Vec<&str> {
    found.iter().map(|line| line.split([' ', ':']).nth(2).expect("level, verdict, rule")).collect()
}

const LENGTH: usize = 1000;
const MEMORY: Segment = segment(7, LENGTH as u32, 0x1000);

/// A WRITE of NFS version 3 with its data in a Read chunk.
fn write_call(xid: u32) -> Vec<u8> {
    let reads = vec![read_segment(WRITE_POSITION, MEMORY)];
    message(&Builder { reads, ..msg(xid) }, &nfs3(xid, 7, &format!("'handle' h0 {LENGTH} 2 {LENGTH}")))
}

/// A result of it that counts this number of bytes.
fn written(xid: u32, count: usize) -> Vec<u8> {
    message(&msg(xid), &reply(xid, &format!("0 0 0 {count} 2 h0")))
}

/// A session with one WRITE, whose data moves as in `transfer`.
fn write(count: usize, transfer: impl FnOnce(&mut World)) -> World {
    let mut world = World::connected();
    world.getattr(1);
    world.send(CLIENT, &write_call(2));
    world.ack(SERVER);
    transfer(&mut world);
    world.send(SERVER, &written(2, count));
    world.ack(CLIENT);
    world.getattr(3);
    world.disconnect(CLIENT);
    world
}

/// A duplicate RDMA READ may ask for a part of the data (IBTA volume 1, section 9.7.5). The response
/// to one that the capture lacks has fewer bytes than are left.
#[test]
fn short_response_may_answer_a_repeated_request() {
    let bytes = data(LENGTH);
    let session = |again: bool, until: usize| {
        write(LENGTH, |world| {
            let psn = world.read_request(SERVER, MEMORY, LENGTH);
            let first = world.read_response(CLIENT, psn, &bytes).start;
            world.frames.truncate(first + 1);
            let part = segment(7, LENGTH as u32 - 256, 0x1100);
            if again {
                world.ask_again(SERVER, psn.plus(1), part, until - 256);
            }
            world.read_response(CLIENT, psn.plus(1), &bytes[256..until]);
            world.ask_again(SERVER, psn.plus(1), part, LENGTH - 256);
            world.read_response(CLIENT, psn.plus(1), &bytes[256..]);
        })
    };
    for until in [512, 768] {
        assert_eq!(certain(&whole(&session(true, until))), [""; 0], "{until}");
        assert_eq!(
            certain(&whole(&session(false, until))),
            [""; 0],
            "{until}, the second request is missing"
        );
    }
}

/// A response with more bytes than are left answers no part of the request.
#[test]
fn long_response_is_certain() {
    let bytes = data(1024);
    let world = write(LENGTH, |world| {
        let psn = world.read_request(SERVER, MEMORY, LENGTH);
        world.read_response(CLIENT, psn, &bytes);
    });
    assert_eq!(rules(&certain(&whole(&world))), ["read-response"]);
}
