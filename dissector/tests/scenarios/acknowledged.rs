//! Acknowledgements of calls, round-trip times, and the estimated capture point.

use crate::report::*;
use rdmascope_dissector::connection::{CapturePoint, RoundTrips};
use rdmascope_dissector::record::{Seen, Time};
use rdmascope_dissector::transaction::Transaction;
use rdmascope_testkit::messages::*;
use rdmascope_testkit::world::*;
use rdmascope_wire::rpcrdma::Segment;

const ARGUMENTS: Segment = segment(7, 100, 0x1000);

/// The packet with this index among the frames.
fn seen(world: &World, index: usize) -> Seen {
    Seen { frame: index as u64 + 1, time: Time(world.frames[index].time) }
}

fn acknowledged(transaction: &Transaction) -> Option<Seen> {
    transaction.timing.acknowledged
}

/// A call and its reply, each with an ACK after the given nanoseconds. Returns the index of the
/// call's ACK.
fn exchange(world: &mut World, xid: u32, to_responder: i64, to_requester: i64) -> usize {
    let (call, reply) = getattr(xid);
    world.send(CLIENT, &call);
    // Each frame advances the clock by 1 us.
    world.wait(to_responder - 1_000);
    let ack = world.frames.len();
    world.ack(SERVER);
    world.wait(50_000);
    world.send(SERVER, &reply);
    world.wait(to_requester - 1_000);
    world.ack(CLIENT);
    ack
}

/// A NAK for a later packet proves that a Send arrived, but not when: a receiver that lacks a
/// packet sends the NAK with the next packet.
#[test]
fn nak_does_not_measure_round_trip_time() {
    let mut world = World::connected();
    world.send(CLIENT, &getattr(1).0);
    let next = world.end(CLIENT).psn;
    let mut by_ack =
        World { frames: world.frames.clone(), connections: world.connections.clone(), ..World::new() };
    by_ack.ack(SERVER);
    world.nak(SERVER, next);
    let trips = |world: &World| {
        let report = world.run();
        let frame = report.one().timing.acknowledged.map(|seen| seen.frame);
        (frame, report.connections[0].requester.round_trips.map(|trips| trips.count))
    };
    assert_eq!(trips(&by_ack), (Some(5), Some(1)));
    assert_eq!(trips(&world), (Some(5), None));
}

#[test]
fn acks_give_round_trip_times_of_both_ends() {
    // Across the wrap of the PSNs, and in a capture from the middle of a connection: the ACK pairs
    // the half-flows.
    let mut wrapping = World::new();
    wrapping.connections.clear();
    wrapping.add([0x11, 0x22], [0xff_ffff, 0xff_fffe]);
    for mut world in [World::connected(), World::new(), wrapping] {
        let acks = [1, 2, 3].map(|xid| (xid, exchange(&mut world, xid, 30_000, 7_000)));
        let report = world.run();
        for (xid, ack) in acks {
            assert_eq!(acknowledged(report.xid(xid)), Some(seen(&world, ack)));
        }
        let [connection] = report.connections.as_slice() else { panic!("one connection") };
        let [to_responder, to_requester] =
            [connection.requester.round_trips, connection.responder.round_trips];
        assert_eq!(to_responder, Some(RoundTrips { count: 3, minimum: 30_000, median: 30_000 }));
        assert_eq!(to_requester, Some(RoundTrips { count: 3, minimum: 7_000, median: 7_000 }));
    }
}

#[test]
fn one_ack_acknowledges_several_sends() {
    let mut world = World::connected();
    let [(first, first_reply), (second, second_reply)] = [1, 2].map(getattr);
    world.send(CLIENT, &first);
    world.send(CLIENT, &second);
    world.wait(20_000);
    world.ack(SERVER);
    let ack = seen(&world, world.frames.len() - 1);
    world.send(SERVER, &first_reply);
    world.send(SERVER, &second_reply);
    let report = world.run();
    assert_eq!([1, 2].map(|xid| acknowledged(report.xid(xid))), [Some(ack); 2]);
    // Only the second one has an ACK of its own. The replies have none.
    let [connection] = report.connections.as_slice() else { panic!("one connection") };
    let once = RoundTrips { count: 1, minimum: 21_000, median: 21_000 };
    assert_eq!(connection.requester.round_trips, Some(once));
    assert_eq!(connection.responder.round_trips, None);
    assert_eq!(connection.capture_point(), None);
}

#[test]
fn reply_does_not_acknowledge_its_call() {
    let mut world = World::connected();
    world.getattr_without_acks(1);
    world.ack(SERVER);
    let report = world.run();
    assert_eq!(acknowledged(report.one()), None, "its ACK came after its end");
    assert!(report.connections[0].requester.round_trips.is_some());
    assert_eq!(acknowledged(world.run_without([world.frames.len() - 1]).one()), None);
    assert_eq!(acknowledged(world.run_only(CLIENT).one()), None);
}

#[test]
fn read_response_acknowledges_earlier_sends() {
    let mut world = World::connected();
    let mut write = msg(1);
    write.reads = vec![read_segment(CALL_HEADER + 32, ARGUMENTS)];
    world.send(CLIENT, &message(&write, &nfs3(1, 7, "'handle' h0 100 2 100")));
    world.ack(SERVER);
    // The server calls back, and then reads the data that the client wants to write.
    let none = message(&msg(9), &call_to(9, [0x4000_0000, 1, 0], ""));
    world.send(SERVER, &none);
    let response = world.read(SERVER, ARGUMENTS, &data(100));
    world.send(CLIENT, &message(&msg(9), &reply(9, "")));
    let report = world.run();
    assert_eq!(acknowledged(report.xid(9)), Some(seen(&world, response.start)));
    // The response came when the READ was done, later than an ACK would have come.
    assert_eq!(report.connections[0].responder.round_trips, None);
}

#[test]
fn retransmitted_send_has_no_round_trip_time() {
    let mut world = World::connected();
    let (call, reply) = getattr(1);
    let sent = world.send(CLIENT, &call);
    let psn = world.end(CLIENT).psn.minus(1);
    world.rnr_nak(SERVER, psn);
    world.wait(500_000);
    world.again(sent);
    world.ack(SERVER);
    let ack = seen(&world, world.frames.len() - 1);
    world.send(SERVER, &reply);
    world.ack(CLIENT);
    let report = world.run();
    assert_eq!(acknowledged(report.one()), Some(ack), "the RNR NAK rejected the first transmission");
    assert_eq!(report.connections[0].requester.round_trips, None, "the ACK may answer either transmission");
    assert!(report.connections[0].responder.round_trips.is_some());
    // Later Sends have round-trip times again.
    exchange(&mut world, 2, 5_000, 5_000);
    assert_eq!(world.run().connections[0].requester.round_trips.map(|times| times.count), Some(1));
}

#[test]
fn ack_may_be_captured_before_its_send() {
    let mut world = World::connected();
    let ack = exchange(&mut world, 1, 5_000, 5_000);
    let (call, answer) = (world.frames[ack - 1].clone(), world.frames[ack].clone());
    (world.frames[ack - 1].data, world.frames[ack - 1].from) = (answer.data, answer.from);
    (world.frames[ack].data, world.frames[ack].from) = (call.data, call.from);
    let report = world.run();
    assert_eq!(acknowledged(report.one()), Some(seen(&world, ack - 1)));
    assert_eq!(report.connections[0].requester.round_trips, None);
}

// Packets held after a gap are delivered after their ACKs.
#[test]
fn gap_before_call_does_not_hide_its_ack() {
    let mut world = World::connected();
    exchange(&mut world, 1, 5_000, 5_000);
    let lost = world.frames.len();
    let acks = [2, 3].map(|xid| {
        let ack = world.frames.len() + 1;
        world.send(CLIENT, &getattr(xid).0);
        world.ack(SERVER);
        ack
    });
    let third = world.frames.len() + 1;
    world.send(CLIENT, &getattr(4).0);
    world.ack(SERVER);
    for xid in [3, 4] {
        world.send(SERVER, &getattr(xid).1);
        world.ack(CLIENT);
    }
    let complete = world.run();
    let rest = world.run_without([lost]);
    let frame = |seen: Option<Seen>| seen.map(|seen| seen.frame);
    for (xid, ack) in [(3, acks[1]), (4, third)] {
        assert_eq!(acknowledged(complete.xid(xid)), Some(seen(&world, ack)));
        // Frame numbers exclude the missing frame.
        assert_eq!(frame(acknowledged(rest.xid(xid))), Some(ack as u64));
    }
}

#[test]
fn sends_waiting_for_acks_are_bounded() {
    let mut world = World::connected();
    let pairs: Vec<_> = (1..=100).map(getattr).collect();
    for (call, _) in &pairs {
        world.send(CLIENT, call);
    }
    world.ack(SERVER);
    for (_, reply) in &pairs {
        world.send(SERVER, reply);
    }
    let report = world.run();
    let noted: Vec<u32> = (1..=100).filter(|xid| acknowledged(report.xid(*xid)).is_some()).collect();
    assert_eq!(noted, (37..=100).collect::<Vec<_>>(), "at most 64 Sends wait");
}

/// The estimated capture point for these times from Sends to ACKs, in nanoseconds.
#[track_caller]
fn captured(exchanges: u32, to_responder: i64, to_requester: i64) -> Option<CapturePoint> {
    let mut world = World::connected();
    for xid in 1..=exchanges {
        exchange(&mut world, xid, to_responder, to_requester);
    }
    let report = world.run();
    assert_eq!(report.transactions.len(), exchanges as usize);
    report.connections[0].capture_point()
}

#[test]
fn capture_point_follows_ack_times() {
    assert_eq!(captured(32, 40_000, 3_000), Some(CapturePoint::Requester));
    assert_eq!(captured(32, 3_000, 40_000), Some(CapturePoint::Responder));
    assert_eq!(captured(32, 1_000, 3_000_000), Some(CapturePoint::Responder));
    assert_eq!(captured(32, 30_000, 40_000), Some(CapturePoint::Between));
    assert_eq!(captured(32, 40_000, 27_000), Some(CapturePoint::Between));
    // Neither near nor equally far; shorter than the time that adapters need themselves; too few
    // Sends.
    assert_eq!(captured(32, 40_000, 15_000), None);
    assert_eq!(captured(32, 4_000, 3_000), None);
    assert_eq!(captured(32, 1_000, 2_500), None);
    assert_eq!(captured(31, 40_000, 3_000), None);
}

#[test]
fn capture_point_requires_minimum_and_median_to_agree() {
    let mut world = World::connected();
    for xid in 1..=40 {
        // The requester's ACKs are mostly slow, but some came at once.
        exchange(&mut world, xid, 40_000, if xid > 30 { 2_000 } else { 35_000 });
    }
    assert_eq!(world.run().connections[0].capture_point(), None);
}

#[test]
fn retransmissions_leave_capture_point_unknown() {
    let mut world = World::connected();
    for xid in 1..=32 {
        exchange(&mut world, xid, 40_000, 3_000);
    }
    assert_eq!(world.run().connections[0].capture_point(), Some(CapturePoint::Requester));
    let (call, _) = getattr(33);
    let sent = world.send(CLIENT, &call);
    world.again(sent.clone());
    // Too late for a copy.
    world.wait(3_000_000);
    world.again(sent);
    world.ack(SERVER);
    assert_eq!(world.run().connections[0].capture_point(), None, "2 of about 130 packets");
}
