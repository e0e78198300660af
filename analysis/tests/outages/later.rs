//! Connections that follow a wait.

use super::{Cause, Kind, SECOND, events, events_of, lost, testkit, with_repeated_reply, with_waiting_call};
use rdmascope_analysis::report::{Reach, of_events};
use rdmascope_testkit::messages::{data, getattr, message, msg, nfs3, read_segment, reply, segment};
use rdmascope_testkit::world::World;
use rdmascope_tests::pcap::Capture;
use rdmascope_tests::{mutate, samples};
use rdmascope_wire::rpcrdma::Builder;

/// Adds a connection whose queue pairs and PSNs have numbers from `number` on.
fn connect(world: &mut World, number: u32) {
    world.add([number, number + 1], [number, number]);
    world.connect();
}

/// No acknowledgement reaches the client, whose queue pair fails. Its next connection has other work.
#[test]
fn a_connection_follows_one_that_failed() {
    let mut world = World::connected();
    world.getattr(1);
    let since = world.now;
    let call = world.send(testkit::CLIENT, &getattr(2).0);
    for _ in 0..7 {
        world.wait(SECOND / 2);
        world.again(call.clone());
    }
    world.wait(SECOND);
    connect(&mut world, 0x1000);
    world.wait(4 * SECOND);
    world.getattr(0x70_0000);
    world.wait(60 * SECOND);
    world.getattr(0x70_0001);
    assert_eq!(lost(&world, since), [(0.0, 8.5)], "{:#?}", events_of(&world));
}

/// Two connections wait, and one that follows has the replies to the calls of both.
#[test]
fn a_reply_on_any_connection_ends_the_wait_of_its_call() {
    let mut world = World::connected();
    world.getattr(1);
    connect(&mut world, 0x1000);
    let since = world.now;
    for (on, xid) in [(0, 2), (1, 3)] {
        world.on = on;
        world.send(testkit::CLIENT, &getattr(xid).0);
        world.ack(testkit::SERVER);
    }
    world.wait(20 * SECOND);
    connect(&mut world, 0x2000);
    world.getattr(2);
    world.getattr(3);
    world.wait(60 * SECOND);
    world.getattr(4);
    assert_eq!(lost(&world, since), [(0.0, 20.0); 2], "{:#?}", events_of(&world));
}

/// The connection between that of the call and that of its reply is never used.
#[test]
fn a_connection_without_calls_ends_no_wait() {
    let (mut world, since) = with_waiting_call();
    world.disconnect(testkit::SERVER);
    for number in [0x1000, 0x2000] {
        world.wait(5 * SECOND);
        connect(&mut world, number);
    }
    world.getattr(2);
    world.wait(20 * SECOND);
    world.getattr(3);
    assert_eq!(lost(&world, since), [(0.0, 10.0)], "{:#?}", events_of(&world));
    let replayed = events_of(&world).iter().filter(|event| event.kind == Kind::CallsReplayed).count();
    assert_eq!(replayed, 1);
}

/// The capture lacks the first reply of the next connection.
#[test]
fn a_wait_lasts_at_least_until_the_next_connection() {
    let (mut world, since) = with_waiting_call();
    world.disconnect(testkit::SERVER);
    world.wait(40 * SECOND);
    connect(&mut world, 0x1000);
    let reply = world.frames.len() + 2;
    world.getattr(2);
    world.wait(SECOND / 2);
    world.getattr(3);
    world.frames.remove(reply);
    assert_eq!(lost(&world, since), [(0.0, 40.0)], "{:#?}", events_of(&world));
    let all = events_of(&world);
    let lost = all.iter().find(|event| event.kind == Kind::ServiceLost).expect("an outage");
    assert_eq!(
        lost.text,
        "no reply for 40.0s or more: connection 1 was closed by the server, then connection 2 was made"
    );
}

/// The capture lacks packets from the reply to the start of the next connection, which works.
#[test]
fn a_connection_without_its_start_shows_that_packets_are_missing() {
    let (mut world, since) = with_waiting_call();
    let lost_from = world.frames.len();
    world.send(testkit::SERVER, &getattr(2).1);
    world.ack(testkit::CLIENT);
    world.disconnect(testkit::CLIENT);
    world.wait(SECOND);
    connect(&mut world, 0x1000);
    world.getattr(3);
    world.frames.drain(lost_from..);
    world.wait(10 * SECOND);
    let silent = world.clone();
    for xid in 4..10 {
        world.getattr(xid);
        world.wait(SECOND / 2);
    }
    assert_eq!(lost(&world, since), [], "{:#?}", events_of(&world));
    // Control: the client calls, and the server sends nothing.
    let mut dead = silent;
    dead.send(testkit::CLIENT, &getattr(4).0);
    assert_eq!(lost(&dead, since), [(0.0, 11.0)], "{:#?}", events_of(&dead));
}

/// A capture of the client's packets that has nothing but REQs.
#[test]
fn requests_show_an_outage_in_one_direction() {
    let mut world = World::new();
    let since = world.now;
    for number in 1..11 {
        world.req();
        world.wait(5 * SECOND);
        world.add([number << 8, 0], [number, 0]);
    }
    assert_eq!(lost(&world, since), [(0.0, 45.0)], "{:#?}", events_of(&world));
    // The client confirms an answer that the capture lacks.
    let mut answered = World::new();
    for number in 1..11 {
        answered.req();
        answered.rtu();
        answered.wait(5 * SECOND);
        answered.add([number << 8, 0], [number, 0]);
    }
    assert_eq!(lost(&answered, since), [], "{:#?}", events_of(&answered));
}

/// The client neither confirms the replies to its requests nor uses the connections.
#[test]
fn replies_that_are_never_confirmed_make_no_connection() {
    let mut world = World::new();
    let since = world.now;
    for number in 1..4 {
        world.req();
        for _ in 0..4 {
            world.rep();
            world.wait(2 * SECOND);
        }
        world.add([number << 8, 1 + (number << 8)], [number, number]);
    }
    let all = events_of(&world);
    assert_eq!(lost(&world, since), [(0.0, 22.0)], "{all:#?}");
    assert_eq!(all[0].cause, Some(Cause::Unconfirmed));
    assert_eq!(
        all[0].text,
        "no connection for 22.0s, until the capture ends: 3 replies never confirmed by the client"
    );
    // The capture lacks the RTU of the last one, which the client uses.
    let mut used = World::new();
    used.req();
    used.rep();
    used.wait(2 * SECOND);
    used.rep();
    used.getattr(1);
    assert_eq!(lost(&used, since), [], "{:#?}", events_of(&used));
}

/// The FIN or RST of an end is missing. The acknowledgement of a FIN shows which end sent it.
#[test]
fn a_missing_fin_changes_neither_closes_nor_outages() {
    const FIN_OR_RST: u8 = 0x05;
    let closes = |capture: &Capture| -> Vec<_> {
        let all = events(capture).into_iter();
        let about = |kind| kind == Kind::Disconnected || kind == Kind::ServiceLost;
        all.filter(|event| about(event.kind))
            .map(|event| (event.connection, event.kind, event.by_requester))
            .collect()
    };
    for sample in ["iwarp-reconnect", "iwarp-scripted"] {
        let whole = samples::capture(sample);
        let expected = closes(&whole);
        // TCP flags after headers of Ethernet and IPv4 without options.
        let ends = (0..whole.packets.len()).filter(|at| {
            let data = &whole.packets[*at].data;
            data[23] == 6 && data[47] & FIN_OR_RST != 0
        });
        let ends: Vec<usize> = ends.collect();
        assert!(ends.len() >= 3, "{sample}");
        for at in ends {
            let mut lacking = whole.clone();
            lacking.packets.remove(at);
            assert_eq!(closes(&lacking), expected, "{sample} without frame {}", at + 1);
        }
    }
}

/// A capture of one direction shows which end closed a stream first.
#[test]
fn one_direction_shows_who_closed_the_connection() {
    let closed_by = |capture: &Capture| -> Vec<_> {
        let all = events(capture).into_iter();
        all.filter(|event| event.kind == Kind::Disconnected).map(|event| event.by_requester).collect()
    };
    for sample in ["iwarp-nfs3", "iwarp-reconnect", "iwarp-scripted"] {
        let whole = samples::capture(sample);
        let expected = closed_by(&whole);
        let first = whole.packets[0].source();
        for is_first in [false, true] {
            let half = mutate::keep(&whole, |packet| (packet.source() == first) == is_first);
            assert_eq!(closed_by(&half), expected, "{sample} {is_first}");
        }
    }
}

const LENGTH: usize = 10_000;

fn read(world: &mut World) {
    let memory = segment(7, LENGTH as u32, 0x1_0000);
    let header = Builder { writes: vec![vec![memory]], ..msg(2) };
    world.send(testkit::CLIENT, &message(&header, &nfs3(2, 6, &format!("'handle' h0 {LENGTH}"))));
    world.ack(testkit::SERVER);
    world.write(testkit::SERVER, memory, &data(LENGTH));
    world.send(testkit::SERVER, &message(&header, &reply(2, &format!("0 0 {LENGTH} 1 {LENGTH}"))));
    world.ack(testkit::CLIENT);
}

fn write(world: &mut World) {
    let memory = segment(8, LENGTH as u32, 0x1_0000);
    let header = Builder { reads: vec![read_segment(84, memory)], ..msg(3) };
    world.send(testkit::CLIENT, &message(&header, &nfs3(3, 7, &format!("'handle' h0 {LENGTH} 2 {LENGTH}"))));
    world.ack(testkit::SERVER);
    world.read(testkit::SERVER, memory, &data(LENGTH));
    world.send(testkit::SERVER, &message(&msg(3), &reply(3, &format!("0 0 0 {LENGTH} 2 h0"))));
    world.ack(testkit::CLIENT);
}

/// A packet of the work before an outage is missing. The client acknowledged it before its next call.
#[test]
fn a_missing_packet_hides_no_outage() {
    let small = |world: &mut World| world.getattr(4);
    for work in [read, write, small] {
        for pause in [10_000, SECOND / 10] {
            let mut world = World::connected();
            world.getattr(1);
            let from = world.frames.len();
            work(&mut world);
            let to = world.frames.len();
            world.wait(pause);
            let since = world.now;
            world.send(testkit::CLIENT, &getattr(9).0);
            world.ack(testkit::SERVER);
            world.wait(30 * SECOND);
            world.disconnect(testkit::CLIENT);
            connect(&mut world, 0x1000);
            world.getattr(9);
            for at in from..to {
                let mut lacking = world.clone();
                lacking.frames.remove(at);
                assert_eq!(lost(&lacking, since), [(0.0, 30.0)], "without {at} of {from}..{to}");
            }
        }
    }
}

/// The server closes the connection of a client that has no work for a while.
#[test]
fn a_client_without_work_has_no_outage() {
    for (pause, expected) in [(SECOND / 5, Some(10.2)), (20 * SECOND, None)] {
        let mut world = World::connected();
        world.getattr(1);
        let since = world.now;
        world.disconnect(testkit::SERVER);
        world.wait(pause);
        world.add([0x1000, 0x1001], [0x1000; 2]);
        world.req();
        world.wait(10 * SECOND);
        world.rep();
        world.rtu();
        world.getattr(2);
        let lengths: Vec<f64> = lost(&world, since).iter().map(|(_, length)| *length).collect();
        // A client without work waits since its REQ.
        assert_eq!(lengths, [expected.unwrap_or(10.0)], "{:#?}", events_of(&world));
    }
    let mut idle = World::connected();
    idle.getattr(1);
    let since = idle.now;
    idle.disconnect(testkit::SERVER);
    idle.wait(20 * SECOND);
    connect(&mut idle, 0x1000);
    idle.getattr(2);
    assert_eq!(lost(&idle, since), [], "{:#?}", events_of(&idle));
}

/// Both ends send acknowledged packets again, as a capture that is replayed shows them.
#[test]
fn a_repetition_of_acknowledged_replies_is_no_outage() {
    let mut world = World::connected();
    let from = world.frames.len();
    for xid in 1..20 {
        world.getattr(xid);
    }
    let to = world.frames.len();
    let since = world.now;
    for _ in 0..3 {
        world.wait(3 * SECOND / 2);
        world.again(from..to);
    }
    assert_eq!(lost(&world, since), [], "{:#?}", events_of(&world));
}

/// Replies arrive late. The wait counts once, with the calls that waited.
#[test]
fn late_replies_end_one_outage() {
    let mut world = World::connected();
    world.getattr(1);
    let since = world.now;
    let send = |world: &mut World, xid| {
        let call = world.send(testkit::CLIENT, &getattr(xid).0);
        world.ack(testkit::SERVER);
        (call, world.send(testkit::SERVER, &getattr(xid).1))
    };
    let exchanged = [2, 3].map(|xid| send(&mut world, xid));
    // The client has received nothing, so it sends its calls again.
    for _ in 0..2 {
        world.wait(SECOND);
        exchanged.iter().for_each(|(call, _)| world.again(call.clone()));
        exchanged.iter().for_each(|(_, reply)| world.again(reply.clone()));
    }
    world.ack(testkit::CLIENT);
    // The next replies are late again.
    let (call, reply) = send(&mut world, 4);
    for _ in 0..2 {
        world.wait(SECOND);
        world.again(call.clone());
        world.again(reply.clone());
    }
    world.ack(testkit::CLIENT);
    world.getattr(5);
    let all = events_of(&world);
    assert_eq!(lost(&world, since), [(0.0, 2.0), (2.0, 2.0)], "{all:#?}");
    let counts = all.iter().filter(|event| event.kind == Kind::ServiceLost).map(|event| event.count);
    assert_eq!(counts.collect::<Vec<_>>(), [2, 1]);
}

/// The server repeats its only reply, and the client has nothing to repeat.
#[test]
fn a_call_soon_after_a_repeated_reply_shows_that_its_client_waited() {
    for (pause, expected) in [(SECOND / 5, vec![(0.0, 3.0)]), (SECOND, vec![])] {
        let (mut world, since) = with_repeated_reply(6, SECOND / 2);
        world.ack(testkit::CLIENT);
        world.wait(pause);
        world.getattr(3);
        assert_eq!(lost(&world, since), expected, "{:#?}", events_of(&world));
    }
}

/// The client asks for the replies again until the server closes the connection.
#[test]
fn replies_that_are_refused_to_the_end_are_lost() {
    let mut world = World::connected();
    world.getattr(1);
    let since = world.now;
    world.send(testkit::CLIENT, &getattr(2).0);
    world.ack(testkit::SERVER);
    let missing = world.end(testkit::SERVER).psn;
    world.send(testkit::SERVER, &getattr(2).1);
    world.nak(testkit::CLIENT, missing);
    world.wait(3 * SECOND);
    world.disconnect(testkit::SERVER);
    connect(&mut world, 0x1000);
    world.getattr(2);
    assert_eq!(lost(&world, since), [(0.0, 3.0)], "{:#?}", events_of(&world));
}

/// The client never acknowledges a reply, and sends its call again on the next connection.
#[test]
fn a_reply_to_a_call_that_is_sent_again_is_lost() {
    for (is_acknowledged, xid) in [(false, 2), (true, 2), (false, 3)] {
        let (mut world, since) = with_waiting_call();
        world.send(testkit::SERVER, &getattr(2).1);
        if is_acknowledged {
            world.ack(testkit::CLIENT);
        }
        world.wait(3 * SECOND);
        world.disconnect(testkit::CLIENT);
        connect(&mut world, 0x1000);
        world.getattr(xid);
        let events = events_of(&world);
        let replayed = events.iter().filter(|event| event.kind == Kind::CallsReplayed).count();
        let is_lost = !is_acknowledged && xid == 2;
        assert_eq!(replayed, usize::from(is_lost), "{events:#?}");
        let expected: &[_] = if is_lost { &[(0.0, 3.0)] } else { &[] };
        assert_eq!(lost(&world, since), expected, "{events:#?}");
    }
}

/// A client that asks for another connection at once has work, although the capture shows none.
#[test]
fn a_client_with_work_asks_at_once_after_a_close() {
    let null = (message(&msg(5), &nfs3(5, 0, "")), message(&msg(5), &reply(5, "")));
    for (pause, (call, answer), is_work) in [
        (0, getattr(5), true),
        (2 * SECOND, getattr(5), false),
        (0, getattr(0x70_0000), false),
        (0, null, false),
    ] {
        let mut world = World::connected();
        world.getattr(1);
        world.wait(14 * SECOND);
        world.disconnect(testkit::CLIENT);
        world.wait(pause);
        connect(&mut world, 0x1000);
        world.send(testkit::CLIENT, &call);
        world.send(testkit::SERVER, &answer);
        let found = events_of(&world);
        let closed = found.iter().find(|event| event.kind == Kind::Disconnected).expect("it was closed");
        let expected = match is_work {
            true => {
                "client closed the connection (DREQ) after 14.0s without calls; the client asked for connection 2 at once"
            }
            false => "client closed the connection (DREQ)",
        };
        assert_eq!(closed.text, expected);
        let harmful = of_events(&found, Reach { span: None, is_live: false });
        assert_eq!(harmful.len(), usize::from(is_work), "{harmful:#?}");
    }
}

/// A reply that follows the DREQ of the client does not arrive.
#[test]
fn a_reply_on_a_closed_connection_is_none() {
    let (mut world, since) = with_waiting_call();
    world.wait(2 * SECOND);
    world.disconnect(testkit::CLIENT);
    let answered = world.send(testkit::SERVER, &getattr(2).1);
    world.wait(2 * SECOND);
    connect(&mut world, 0x1000);
    world.getattr(2);
    assert_eq!(lost(&world, since).len(), 1, "{:#?}", events_of(&world));
    let whole = lost(&world, since);
    world.frames.drain(answered);
    assert_eq!(lost(&world, since), whole, "{:#?}", events_of(&world));
}

/// An acknowledgement after the DREQ comes too late.
#[test]
fn retries_are_exhausted_if_the_connection_was_closed() {
    let mut world = World::connected();
    world.getattr(1);
    let call = world.send(testkit::CLIENT, &getattr(2).0);
    for _ in 0..6 {
        world.wait(SECOND / 2);
        world.again(call.clone());
    }
    world.disconnect(testkit::CLIENT);
    world.wait(SECOND);
    world.ack(testkit::SERVER);
    let all = events_of(&world);
    assert!(all.iter().any(|event| event.kind == Kind::RetriesExhausted), "{all:#?}");
}

/// The capture lacks a packet before the reply, as the client does, which asks for it.
#[test]
fn a_refused_reply_arrives_when_it_is_repeated() {
    let mut world = World::connected();
    world.getattr(1);
    let since = world.now;
    let memory = segment(7, 8, 0x1000);
    let header = Builder { writes: vec![vec![memory]], ..msg(2) };
    world.send(testkit::CLIENT, &message(&header, &nfs3(2, 6, "'handle' h0 8")));
    world.ack(testkit::SERVER);
    let missing = world.end(testkit::SERVER).psn;
    let lost = world.write(testkit::SERVER, memory, &data(8));
    let reply = world.send(testkit::SERVER, &message(&header, &reply(2, "0 0 8 1 8")));
    world.nak(testkit::CLIENT, missing);
    world.wait(2 * SECOND);
    world.again(lost.start..reply.end);
    world.ack(testkit::CLIENT);
    world.getattr(3);
    for is_captured in [true, false] {
        let mut world = world.clone();
        if !is_captured {
            world.frames.drain(lost.clone());
        }
        assert_eq!(super::lost(&world, since), [(0.0, 2.0)], "{is_captured}: {:#?}", events_of(&world));
    }
}

/// The client acknowledges the repetition of one reply, and later that of the next one.
#[test]
fn a_reply_that_is_not_acknowledged_is_still_missing() {
    let mut world = World::connected();
    world.getattr(1);
    let since = world.now;
    let [first, next] = [2, 3].map(|xid| {
        let call = world.send(testkit::CLIENT, &getattr(xid).0);
        world.ack(testkit::SERVER);
        (call, world.send(testkit::SERVER, &getattr(xid).1))
    });
    for _ in 0..2 {
        world.wait(SECOND);
        [&first, &next].into_iter().for_each(|(call, _)| world.again(call.clone()));
        [&first, &next].into_iter().for_each(|(_, reply)| world.again(reply.clone()));
    }
    // An ACK for the first reply only.
    let psn = world.end(testkit::SERVER).psn.minus(2);
    world.respond(testkit::CLIENT, psn, 0x1f);
    for _ in 0..2 {
        world.wait(SECOND);
        world.again(next.0.clone());
        world.again(next.1.clone());
    }
    world.ack(testkit::CLIENT);
    world.getattr(4);
    assert_eq!(lost(&world, since), [(0.0, 2.0), (2.0, 2.0)], "{:#?}", events_of(&world));
}

/// A call is under way each time a connection ends. After a loss, it was there by chance.
#[test]
fn losses_end_connections_not_the_calls_under_way() {
    for is_lost in [false, true] {
        let mut world = World::connected();
        for number in [0x1000, 0x2000, 0x3000] {
            let next = world.end(testkit::CLIENT).psn;
            world.send(testkit::CLIENT, &getattr(number).0);
            if is_lost {
                world.nak(testkit::SERVER, next);
            }
            world.wait(SECOND / 10);
            world.disconnect(testkit::CLIENT);
            connect(&mut world, number);
        }
        let found = events_of(&world);
        let again = found.iter().filter(|event| event.kind == Kind::CallFailsAgain).count();
        assert_eq!(again, usize::from(!is_lost), "{found:#?}");
    }
}

/// The server receives nothing for 9 s. Then it answers the later call at once, and the earlier one after
/// 2 s.
#[test]
fn a_call_that_arrives_late_waits_with_the_others() {
    let lost_from = |acknowledges: bool| {
        let mut world = World::connected();
        world.getattr(1);
        let since = world.now;
        world.send(testkit::CLIENT, &getattr(2).0);
        if acknowledges {
            world.ack(testkit::SERVER);
        }
        world.wait(4 * SECOND);
        world.send(testkit::CLIENT, &getattr(3).0);
        world.wait(5 * SECOND);
        world.ack(testkit::SERVER);
        world.send(testkit::SERVER, &getattr(3).1);
        world.wait(2 * SECOND);
        world.send(testkit::SERVER, &getattr(2).1);
        world.ack(testkit::CLIENT);
        lost(&world, since)[0]
    };
    assert_eq!(lost_from(false), (0.0, 9.0));
    // The server had the call, and the client did nothing else at first.
    assert_eq!(lost_from(true), (4.0, 5.0));
}
