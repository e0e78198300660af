//! Outages and waiting calls, in captures of symptoms and in altered sessions.
//! tests/cases/README.md describes the captures.

mod delayed;
mod handshakes;
mod later;
mod live;
mod requests;
mod snapped;
mod twice;

use rdmascope_analysis::events::{Cause, Events, Kind, SessionEvent};
use rdmascope_analysis::observer::Observer;
use rdmascope_dissector::engine::{Engine, Totals};
use rdmascope_dissector::record::{LinkType, Record, Tap, Time};
use rdmascope_testkit::messages::getattr;
use rdmascope_testkit::world::{self as testkit, World};
use rdmascope_tests::mutate::{self, CLIENT, EXTENSION, SERVER, attribute, opcode};
use rdmascope_tests::pcap::{Capture, Packet};
use rdmascope_tests::{samples, session};

const SECOND: i64 = 1_000_000_000;

fn events(capture: &Capture) -> Vec<SessionEvent> {
    let mut events = Events::default();
    let mut engine = Engine::new(events.needs());
    session::records(capture).for_each(|record| engine.handle(&record, &mut |event| events.handle(&event)));
    engine.finish(&mut |event| events.handle(&event));
    events.list(engine.totals().span.map(|(_, last)| last))
}

#[track_caller]
fn only(capture: &Capture, kind: Kind) -> SessionEvent {
    let all = events(capture);
    let found: Vec<_> = all.iter().filter(|event| event.kind == kind).collect();
    let [one] = found.as_slice() else { panic!("{all:#?}") };
    (*one).clone()
}

/// Seconds from the start of the capture, and the length in seconds.
fn times(capture: &Capture, event: &SessionEvent) -> (f64, f64) {
    let start = capture.packets.iter().map(|packet| packet.time).min().expect("it has packets");
    ((event.time.0 - start) as f64 / 1e9, event.duration.expect("it is known") as f64 / 1e9)
}

#[track_caller]
fn assert_times(capture: &Capture, event: &SessionEvent, (from, length): (f64, f64)) {
    let (since, lasted) = times(capture, event);
    assert!((since - from).abs() < 0.01 && (lasted - length).abs() < 0.05, "{since} {lasted}: {event:#?}");
}

fn is_message(packet: &Packet, attribute: u16) -> bool {
    packet.cm_attribute() == Some(attribute)
}

/// The packets in the first `seconds` of a capture.
fn until(capture: &Capture, seconds: f64) -> Capture {
    let start = capture.packets[0].time;
    mutate::keep(capture, |packet| ((packet.time - start) as f64) < seconds * 1e9)
}

#[test]
fn an_outage_spans_connections_without_a_reply() {
    let capture = samples::case("c02-reconnect");
    let lost = only(&capture, Kind::ServiceLost);
    assert_times(&capture, &lost, (0.005, 210.0));
    assert_eq!((lost.count, lost.through.len(), lost.cause), (8, 4, Some(Cause::NoReply)));
    assert_eq!(
        lost.text,
        "no reply for 210s, until the capture ends: 8 calls unanswered on 4 connections in turn, connections \
         1, 2, 3 were closed by the client"
    );
    // Two rounds are an outage as well, and so is the end right after the close of a connection.
    for (seconds, connections) in [(100.0, 2), (60.006, 1), (119.0, 2)] {
        let part = until(&capture, seconds);
        let lost = only(&part, Kind::ServiceLost);
        let reached = part.packets.last().expect("it has packets").time - part.packets[0].time;
        let (since, lasted) = times(&part, &lost);
        assert!(since < 0.006 && (lasted - reached as f64 / 1e9).abs() < 0.01, "{lost:#?}");
        assert_eq!(lost.through.len().max(1), connections, "{lost:#?}");
    }
}

/// Three rounds without a reply, and a session with replies: the outage ends with its first reply.
#[test]
fn an_outage_ends_with_the_first_reply() {
    let rounds = until(&samples::case("c02-reconnect"), 180.02);
    let mut served = until(&samples::case("c02-late"), 0.0052);
    mutate::change_communication_ids(&mut served, 0x0707_0000);
    for packet in &mut served.packets {
        packet.time += 185 * SECOND;
    }
    let replies = |packet: &&Packet| packet.source() == SERVER_OF_CASES && packet.xid().is_some();
    let reply = served.packets.iter().find(replies).expect("it has a reply").time;
    let capture = mutate::merge(&rounds, &served);
    let lost = only(&capture, Kind::ServiceLost);
    assert_times(&capture, &lost, (0.005, (reply - rounds.packets[0].time) as f64 / 1e9 - 0.005));
    assert_eq!(lost.other.map(|id| id.0), Some(4));
    assert!(lost.text.ends_with("the next reply came on connection 4"), "{}", lost.text);
}

/// The addresses of the captures of symptoms.
const SERVER_OF_CASES: core::net::Ipv4Addr = core::net::Ipv4Addr::new(10, 9, 0, 1);

#[test]
fn an_unanswered_first_call_is_an_outage() {
    for (case, from) in [("c28-first", 0.0037), ("c28-641", 0.0042)] {
        let capture = samples::case(case);
        let lost = only(&capture, Kind::ServiceLost);
        assert_times(&capture, &lost, (from, 60.0));
        assert_eq!(lost.text, "no reply for 60.0s, until the capture ends: 1 call unanswered", "{case}");
        // With only the client's direction captured, no loss is reported.
        let half = mutate::keep(&capture, |packet| packet.source() != SERVER_OF_CASES);
        assert!(events(&half).iter().all(|event| !event.kind.is_loss()), "{:#?}", events(&half));
    }
    // The first reply comes late.
    let mut capture = samples::capture("nfs4.1-basic");
    let reply = capture
        .packets
        .iter()
        .position(|packet| packet.source() == SERVER && packet.xid().is_some())
        .expect("it has a reply");
    capture.packets[reply..].iter_mut().for_each(|packet| packet.time += 7 * SECOND);
    let lost = only(&capture, Kind::ServiceLost);
    assert!(
        lost.text.starts_with("no reply for 7") && lost.text.ends_with(" while 1 call waited"),
        "{}",
        lost.text
    );
    assert_eq!((lost.count, lost.frames[1]), (1, Some(capture.packets[reply].number)));
}

#[test]
fn a_call_overtaken_by_others_is_no_outage() {
    let capture = samples::case("c25-one-stuck");
    assert!(events(&capture).iter().all(|event| event.kind != Kind::ServiceLost));
    let waited = only(&capture, Kind::CallWaited);
    assert_times(&capture, &waited, (0.005, 119.3));
    assert_eq!((waited.count, waited.frames), (1, [Some(12), None]));
    assert_eq!(
        waited.text,
        "NFSv3 WRITE (XID 0x00000700) had no reply for 119s, until the capture ended: the server did not \
         begin with it and never read its Read chunk; later calls were answered"
    );
    // Nor are pauses of the other calls.
    let mut sparse = capture.clone();
    let start = capture.packets[0].time;
    sparse.packets.retain(|packet| {
        let at = packet.time - start;
        at < SECOND || at % (10 * SECOND) < SECOND || at > 119 * SECOND
    });
    let found = events(&sparse);
    assert!(found.iter().all(|event| event.kind != Kind::ServiceLost), "{found:#?}");
    // If packets are missing from the capture, the reply may be among them.
    let lacking = mutate::keep(&capture, |packet| packet.number != 200);
    assert!(events(&lacking).iter().all(|event| event.kind != Kind::CallWaited));
}

#[test]
fn a_call_that_ends_every_connection_is_one_event() {
    let capture = samples::case("c04");
    let event = only(&capture, Kind::CallFailsAgain);
    assert_eq!((event.count, event.through.len(), event.by_requester), (25, 25, Some(true)));
    assert_eq!((event.connection.0, event.other.map(|id| id.0)), (1, Some(25)));
    assert_eq!(
        event.text,
        "NFSv3 WRITE (XID 0x00000700) under way each time 25 connections ended, in 20.1s: client's NAK (remote \
         access error), then server's DREQ; on connections 1, 2, 3, 4, 5, 6, 7, 8 and 17 more"
    );
    let lost = only(&capture, Kind::ServiceLost);
    assert_times(&capture, &lost, (0.005, 20.1));
    assert_eq!((lost.count, lost.cause), (1, Some(Cause::ClosedBy(false))));
    // Without the NAKs, only the server's DREQs end the connections.
    let is_nak = |packet: &Packet| {
        packet.is_rc() && packet.opcode() == opcode::ACKNOWLEDGE && packet.data[EXTENSION] >> 5 == 3
    };
    let closed = mutate::keep(&capture, |packet| !is_nak(packet));
    assert_eq!(only(&closed, Kind::CallFailsAgain).by_requester, Some(false));
    // On one connection only, it is an ordinary end.
    let one = until(&capture, 0.0055);
    assert!(events(&one).iter().all(|event| event.kind != Kind::CallFailsAgain));
}

#[test]
fn credits_never_freed_are_reported() {
    let capture = samples::case("c02-arp");
    let used = only(&capture, Kind::CreditsExhausted);
    assert_times(&capture, &used, (0.0055, 90.0));
    assert_eq!(used.text, "all 8 credits in use for 90.0s, never freed");
    assert_eq!(only(&capture, Kind::ServiceLost).duration, Some(90_000_600_000));
    // Until the last reply shows that credits were free, nothing is known of the reason.
    let late = samples::case("c02-late");
    assert_eq!(only(&late, Kind::CreditsExhausted).text, "all 8 credits in use 1 time, 61.0s in total");
}

#[test]
fn an_unanswered_dreq_is_reported() {
    let mut capture =
        mutate::keep(&samples::capture("nfs4.1-basic"), |packet| !is_message(packet, attribute::DREP));
    let request = capture
        .packets
        .iter()
        .find(|packet| is_message(packet, attribute::DREQ))
        .expect("it has one")
        .clone();
    assert!(events(&capture).iter().all(|event| event.kind != Kind::DisconnectUnanswered), "sent once");
    for nth in 1..4 {
        let mut packet = request.clone();
        packet.time += nth * 4 * SECOND;
        capture.packets.push(packet);
    }
    capture.renumber();
    let event = only(&capture, Kind::DisconnectUnanswered);
    assert_eq!((event.time, event.count, event.by_requester), (Time(request.time), 4, Some(true)));
    assert_eq!(event.text, "client sent its DREQ 4 times in 12s, never answered");
}

/// The capture goes on for 30 s after a callback.
#[test]
fn a_waiting_callback_is_reported() {
    let capture = samples::capture("nfs4.1-backchannel-recall");
    let recall = capture
        .packets
        .iter()
        .rposition(|packet| {
            packet.source() == SERVER
                && packet.is_rc()
                && packet.opcode() == opcode::SEND_ONLY
                && packet.xid().is_some_and(|xid| {
                    !capture.packets[..packet.number as usize - 1]
                        .iter()
                        .any(|other| other.source() == CLIENT && other.xid() == Some(xid))
                })
        })
        .expect("the server calls back");
    let xid = capture.packets[recall].xid();
    let mut silent = mutate::keep(&capture, |_| true);
    silent.packets.truncate(recall + 2);
    let mut last = silent.packets[0].clone();
    last.time = silent.packets[recall].time + 30 * SECOND;
    silent.packets.push(last);
    silent.renumber();
    let waited = only(&silent, Kind::CallWaited);
    assert_eq!(waited.frames[0], Some(recall as u64 + 1), "{xid:?}");
    assert!(waited.text.starts_with("callback NFSv4.1 CB_"), "{}", waited.text);
}

/// The events of a scripted capture.
fn events_of(world: &World) -> Vec<SessionEvent> {
    events_within(world, usize::MAX)
}

/// The same with this snap length.
fn events_within(world: &World, snap_length: usize) -> Vec<SessionEvent> {
    let mut events = Events::default();
    let totals = follow(world, snap_length, &mut events);
    events.list(totals.span.map(|(_, last)| last))
}

/// Shows a scripted capture with this snap length to an observer.
fn follow(world: &World, snap_length: usize, observer: &mut impl Observer) -> Totals {
    let mut engine = Engine::new(observer.needs());
    for (number, frame) in (1..).zip(&world.frames) {
        let record = Record {
            number,
            time: Time(frame.time),
            link: LinkType::ETHERNET,
            original_length: frame.data.len() as u32,
            dropped: 0,
            tap: Tap::default(),
            data: &frame.data[..frame.data.len().min(snap_length)],
        };
        engine.handle(&record, &mut |event| observer.handle(&event));
    }
    engine.finish(&mut |event| observer.handle(&event));
    *engine.totals()
}

/// The times without service: seconds after `since`, and the length in seconds.
fn lost(world: &World, since: i64) -> Vec<(f64, f64)> {
    let all = events_of(world);
    let lost = all.iter().filter(|event| event.kind == Kind::ServiceLost);
    let seconds = |nanoseconds: f64| (nanoseconds / 1e7).round() / 100.0;
    let times = lost.map(|event| {
        let duration = event.duration.expect("an outage has a length");
        (seconds((event.time.0 - since) as f64), seconds(duration as f64))
    });
    times.collect()
}

/// A client that waits for a reply sends its call again, with the same XID.
#[test]
fn a_call_sent_again_waits_since_its_first_transmission() {
    let mut world = World::connected();
    world.getattr(1);
    let (call, reply) = getattr(2);
    let since = world.now;
    for _ in 0..6 {
        world.send(testkit::CLIENT, &call);
        world.ack(testkit::SERVER);
        world.wait(15 * SECOND);
    }
    let mut silent = world.clone();
    silent.disconnect(testkit::CLIENT);
    assert_eq!(lost(&silent, since), [(0.0, 90.0)], "{:#?}", events_of(&silent));
    world.send(testkit::SERVER, &reply);
    world.ack(testkit::CLIENT);
    world.getattr(3);
    assert_eq!(lost(&world, since), [(0.0, 90.0)], "{:#?}", events_of(&world));
}

/// A session whose second call waits, and the time at which the wait begins.
fn with_waiting_call() -> (World, i64) {
    let mut world = World::connected();
    world.getattr(1);
    world.send(testkit::CLIENT, &getattr(2).0);
    world.ack(testkit::SERVER);
    let since = world.now;
    (world, since)
}

/// A session whose server repeats its second reply at this interval, and the time of its call.
fn with_repeated_reply(times: u32, interval: i64) -> (World, i64) {
    let mut world = World::connected();
    world.getattr(1);
    let since = world.now;
    world.send(testkit::CLIENT, &getattr(2).0);
    world.ack(testkit::SERVER);
    let reply = world.send(testkit::SERVER, &getattr(2).1);
    for _ in 0..times {
        world.wait(interval);
        world.again(reply.clone());
    }
    (world, since)
}

/// A second mount of the same server works while the first one waits.
#[test]
fn a_new_connection_does_not_end_the_wait_of_another() {
    let (mut world, since) = with_waiting_call();
    world.wait(SECOND);
    let replayed = world.clone();
    let add = |world: &mut World| {
        world.add([0x31, 0x42], [7_000, 900_000]);
        world.connect();
    };
    add(&mut world);
    for xid in 100..130 {
        world.getattr(xid);
        world.wait(2 * SECOND);
    }
    let [(from, length)] = lost(&world, since)[..] else { panic!("{:#?}", events_of(&world)) };
    assert!(from == 0.0 && length > 58.0, "{from} {length}");
    // A connection that repeats the call follows the one where it waits.
    let mut world = replayed;
    add(&mut world);
    world.wait(2 * SECOND);
    world.getattr(2);
    assert_eq!(lost(&world, since), [(0.0, 3.0)], "{:#?}", events_of(&world));
}

/// Moves the frames of some connections, from `since` on, into a VLAN.
fn tag(world: &mut World, since: usize, vlan: u8) {
    for frame in &mut world.frames[since..] {
        drop(frame.data.splice(12..12, [0x81, 0, 0, vlan]));
    }
}

/// The server of one tenant does not answer. A connection of another tenant with equal addresses
/// neither follows it nor counts as its service.
#[test]
fn tenants_with_equal_addresses_have_their_own_outages() {
    let (mut world, since) = with_waiting_call();
    world.wait(SECOND);
    world.disconnect(testkit::CLIENT);
    for port in 0..3 {
        world.add([0x200 + port, 0], [port, port]);
        world.req();
        world.wait(10 * SECOND);
    }
    tag(&mut world, 0, 10);
    let mut one_network = world.clone();
    for (world, vlan) in [(&mut world, 20), (&mut one_network, 10)] {
        let other = world.frames.len();
        world.add([0x31, 0x42], [7_000, 900_000]);
        world.connect();
        for xid in 2..10 {
            world.getattr(xid);
            world.wait(SECOND);
        }
        tag(world, other, vlan);
    }
    // The capture goes on for 7 s after the last request.
    assert_eq!(lost(&world, since), [(0.0, 38.0)], "{:#?}", events_of(&world));
    assert_eq!(lost(&one_network, since), [(0.0, 31.0)], "{:#?}", events_of(&one_network));
    let all = events_of(&world);
    assert!(all.iter().all(|event| event.kind != Kind::CallsReplayed && event.other.is_none()), "{all:#?}");
}

/// A mirror shows some packets of one connection in two VLANs, and the connections before and after it
/// in one of them each.
#[test]
fn connections_seen_in_several_vlans_follow_each_other() {
    let mut world = World::connected();
    world.getattr(1);
    world.disconnect(testkit::CLIENT);
    tag(&mut world, 0, 10);
    let start = world.frames.len();
    world.wait(2 * SECOND);
    world.add([0x31, 0x42], [7_000, 900_000]);
    world.connect();
    world.getattr(2);
    let copies: Vec<_> = world.frames[start..].to_vec();
    tag(&mut world, start, 10);
    let copied = world.frames.len();
    world.frames.extend(copies);
    tag(&mut world, copied, 20);
    world.frames[start..].sort_by_key(|frame| frame.time);
    let start = world.frames.len();
    world.disconnect(testkit::CLIENT);
    world.wait(3 * SECOND);
    world.add([0x51, 0x62], [8_000, 600_000]);
    world.connect();
    world.getattr(3);
    tag(&mut world, start, 20);
    let all = events_of(&world);
    let connected = all.iter().filter(|event| event.kind == Kind::Connected);
    let before: Vec<_> = connected.map(|event| event.other.map(|id| id.0)).collect();
    assert_eq!(before, [None, Some(1), Some(2)], "{all:#?}");
}

/// The client sends its REQ before the DREQ of the connection that it replaces. A second mount of the
/// same server reconnects later.
#[test]
fn reconnect_of_a_second_mount_is_no_outage_of_the_first() {
    let mut world = World::connected();
    world.getattr(1);
    world.add([0x31, 0x42], [7_000, 900_000]);
    world.connect();
    world.getattr(1001);
    let since = world.now;
    world.add([0x51, 0x62], [8_000, 600_000]);
    world.req();
    world.on = 0;
    world.disconnect(testkit::CLIENT);
    world.on = 2;
    world.rep();
    world.rtu();
    world.getattr(2);
    world.wait(2 * SECOND);
    world.on = 1;
    world.disconnect(testkit::CLIENT);
    world.add([0x71, 0x82], [9_000, 700_000]);
    world.connect();
    world.getattr(1002);
    world.wait(5 * SECOND);
    world.getattr(1003);
    assert_eq!(lost(&world, since), [], "{:#?}", events_of(&world));
}

/// Clients number the calls of a mount consecutively. Linux does it in the byte order of its processor.
#[test]
fn a_connection_follows_the_one_whose_xids_it_continues() {
    for order in [|xid: u32| xid, u32::swap_bytes] {
        let mut world = World::connected();
        world.getattr(order(0x1001));
        world.add([0x31, 0x42], [7_000, 900_000]);
        world.connect();
        world.getattr(order(0x0050_2001));
        for on in [0, 1] {
            world.on = on;
            world.disconnect(testkit::CLIENT);
        }
        for (xid, psn) in [(0x0050_2002, 1_000), (0x1002, 2_000)] {
            world.add([psn, psn + 1], [psn, psn]);
            world.connect();
            world.getattr(order(xid));
        }
        let all = events_of(&world);
        let connected = all.iter().filter(|event| event.kind == Kind::Connected);
        let before: Vec<_> = connected.map(|event| event.other.map(|id| id.0)).collect();
        assert_eq!(before, [None, None, Some(2), Some(1)], "{all:#?}");
    }
}

/// Of connections that were open at the same time, the one that a later one follows is among the 64
/// that ended last.
#[test]
fn a_connection_follows_one_of_those_that_ended_last() {
    let mut world = World::connected();
    world.getattr(0x1_0001);
    let add = |world: &mut World, number: u32, xid: u32| {
        world.add([number << 8, (number << 8) + 1], [number, number]);
        world.connect();
        world.getattr(xid);
    };
    (2..=70).for_each(|number| add(&mut world, number, (number << 16) + 1));
    for on in 0..70 {
        world.on = on;
        world.disconnect(testkit::CLIENT);
    }
    // The calls of two continue those of others, then those of one do not.
    for (number, xid) in [(71, 0x46_0002), (72, 0x1e_0002), (73, 0x7000_0000)] {
        add(&mut world, number, xid);
    }
    let all = events_of(&world);
    let connected = all.iter().filter(|event| event.kind == Kind::Connected);
    let before: Vec<_> = connected.map(|event| event.other.map(|id| id.0)).collect();
    assert_eq!(before[..70], [None; 70]);
    assert_eq!(before[70..], [Some(70), Some(30), Some(5)]);
}

/// The network loses all packets to the client. The capture has the reply and its repetitions.
#[test]
fn a_reply_that_did_not_arrive_ends_no_wait() {
    let mut world = World::connected();
    world.getattr(1);
    let (call, reply) = getattr(2);
    let since = world.now;
    let call = world.send(testkit::CLIENT, &call);
    world.ack(testkit::SERVER);
    let reply = world.send(testkit::SERVER, &reply);
    for _ in 0..4 {
        world.wait(SECOND);
        world.again(reply.clone());
    }
    let reconnect = |world: &mut World, xid: u32| {
        world.disconnect(testkit::CLIENT);
        world.add([0x31, 0x42], [7_000, 900_000]);
        world.connect();
        world.getattr(xid);
    };
    // The client repeats the call, or a packet that the server acknowledged.
    let mut repeats_call = world.clone();
    reconnect(&mut repeats_call, 2);
    let mut repeats_packet = world.clone();
    for _ in 0..2 {
        repeats_packet.wait(SECOND / 100);
        repeats_packet.again(call.clone());
        repeats_packet.ack(testkit::SERVER);
    }
    let mut recovers = repeats_packet.clone();
    let mut forever = repeats_packet.clone();
    reconnect(&mut repeats_packet, 3);
    forever.wait(6 * SECOND);
    forever.req();
    // The connection recovers, and the last repetition arrives.
    recovers.again(reply);
    recovers.ack(testkit::CLIENT);
    recovers.getattr(3);
    for (world, length) in
        [(&repeats_call, 4.0), (&repeats_packet, 4.02), (&forever, 10.02), (&recovers, 4.02)]
    {
        assert_eq!(lost(world, since), [(0.0, length)], "{:#?}", events_of(world));
    }
    // Without either, the client may have the reply.
    reconnect(&mut world, 3);
    assert_eq!(lost(&world, since), [], "{:#?}", events_of(&world));
}

/// A call without a reply, a later call with one, and a client without work.
#[test]
fn idle_client_with_a_waiting_call_is_no_outage() {
    let mut world = World::connected();
    world.getattr(1);
    let since = world.now;
    world.send(testkit::CLIENT, &getattr(2).0);
    world.ack(testkit::SERVER);
    for xid in 3..6 {
        world.getattr(xid);
        world.wait(600 * SECOND);
    }
    world.getattr(6);
    let all = events_of(&world);
    assert_eq!(lost(&world, since), [], "{all:#?}");
    assert_eq!(all.iter().filter(|event| event.kind == Kind::CallWaited).count(), 1, "{all:#?}");
    // Both calls wait until the server answers one of them.
    let mut world = World::connected();
    world.getattr(1);
    let since = world.now;
    for xid in [2, 3] {
        world.send(testkit::CLIENT, &getattr(xid).0);
        world.ack(testkit::SERVER);
        world.wait(30 * SECOND);
    }
    for xid in [3, 2] {
        world.send(testkit::SERVER, &getattr(xid).1);
        world.ack(testkit::CLIENT);
    }
    assert_eq!(lost(&world, since), [(0.0, 60.0)], "{:#?}", events_of(&world));
}

/// A client that closes its connection while a call waits, and does not ask for another one.
#[test]
fn a_wait_ends_when_the_client_stops_asking() {
    for (waits, expected) in [(SECOND / 2, vec![]), (5 * SECOND, vec![(0.0, 5.0)])] {
        let mut world = World::connected();
        world.getattr(1);
        let since = world.now;
        world.send(testkit::CLIENT, &getattr(2).0);
        world.ack(testkit::SERVER);
        world.wait(waits);
        world.disconnect(testkit::CLIENT);
        world.add([0x31, 0x42], [7_000, 900_000]);
        world.named = None;
        world.wait(100 * SECOND);
        world.connections[1].iter_mut().for_each(|end| end.address = [203, 0, 113, end.qpn.0 as u8].into());
        world.getattr(1001);
        assert_eq!(lost(&world, since), expected, "{:#?}", events_of(&world));
    }
}

/// A capture of the client's packets that begins after the server has died.
#[test]
fn retransmissions_show_an_outage_in_one_direction() {
    let mut world = World::new();
    let since = world.now;
    let call = world.send(testkit::CLIENT, &getattr(2).0);
    let mut working = world.clone();
    for _ in 0..8 {
        world.wait(2 * SECOND);
        world.again(call.clone());
    }
    assert_eq!(lost(&world, since), [(0.0, 16.0)], "{:#?}", events_of(&world));
    // Replies are not in the capture either.
    for xid in 3..11 {
        working.wait(2 * SECOND);
        working.send(testkit::CLIENT, &getattr(xid).0);
    }
    assert_eq!(lost(&working, since), [], "{:#?}", events_of(&working));
}

/// A client without a Receive for the reply refuses all its repetitions.
#[test]
fn a_reply_that_was_refused_ends_no_wait() {
    let mut world = World::connected();
    world.getattr(1);
    let (call, reply) = getattr(2);
    let since = world.now;
    world.send(testkit::CLIENT, &call);
    world.ack(testkit::SERVER);
    let psn = world.end(testkit::SERVER).psn;
    let reply = world.send(testkit::SERVER, &reply);
    for _ in 0..20 {
        world.rnr_nak(testkit::CLIENT, psn);
        world.wait(SECOND);
        world.again(reply.clone());
    }
    world.rnr_nak(testkit::CLIENT, psn);
    assert_eq!(lost(&world, since), [(0.0, 20.0)], "{:#?}", events_of(&world));
}

/// The network loses the large packets of the server. A capture at the client has only the small ones,
/// which the client refuses, on each connection in turn.
#[test]
fn a_reply_after_a_lost_packet_ends_no_wait() {
    let mut world = World::connected();
    world.getattr(1);
    let since = world.now;
    for attempt in 0..3 {
        let (call, reply) = getattr(2);
        world.send(testkit::CLIENT, &call);
        world.ack(testkit::SERVER);
        let psn = world.end(testkit::SERVER).psn;
        let large = world.send(testkit::SERVER, &[0; 900]);
        world.frames.truncate(large.start);
        let reply = world.send(testkit::SERVER, &reply);
        world.nak(testkit::CLIENT, psn);
        for _ in 0..5 {
            world.wait(2 * SECOND);
            world.again(reply.clone());
        }
        world.disconnect(testkit::CLIENT);
        world.add([0x31 + attempt, 0x42 + attempt], [7_000, 900_000]);
        world.connect();
    }
    assert_eq!(lost(&world, since), [(0.0, 30.0)], "{:#?}", events_of(&world));
}

/// A reply after a step of the clock does not show that a call before it was overtaken.
#[test]
fn calls_before_a_step_of_the_clock_overtake_none_after_it() {
    let mut world = World::connected();
    let [(first, answer), (slow, late)] = [getattr(1), getattr(2)];
    world.send(testkit::CLIENT, &first);
    world.ack(testkit::SERVER);
    world.now -= 37 * SECOND;
    world.send(testkit::SERVER, &answer);
    world.ack(testkit::CLIENT);
    let since = world.now;
    world.send(testkit::CLIENT, &slow);
    world.ack(testkit::SERVER);
    world.wait(5 * SECOND / 2);
    world.send(testkit::SERVER, &late);
    world.ack(testkit::CLIENT);
    let all = events_of(&world);
    assert!(all.iter().all(|event| event.kind != Kind::CallWaited), "{all:#?}");
    assert_eq!(lost(&world, since), [(0.0, 2.5)], "{all:#?}");
}

#[test]
fn a_callback_may_have_a_reply_that_was_not_captured() {
    let capture = samples::capture("nfs4.1-backchannel-recall");
    let lacking = mutate::keep(&capture, |packet| packet.number <= 100 || packet.source() != CLIENT);
    let all = events(&lacking);
    assert!(all.iter().all(|event| event.kind != Kind::CallWaited), "{all:#?}");
}

/// The client's TCP acknowledgements show that the server sent something.
#[test]
fn replies_before_the_first_captured_segment_are_missing() {
    for sample in ["iwarp-nfs3", "iwarp-recall"] {
        let capture = samples::capture(sample);
        let server = capture.packets[1].source();
        assert_ne!(server, capture.packets[0].source(), "the server answers the SYN");
        let late = mutate::keep(&capture, |packet| packet.number > 60 || packet.source() != server);
        let all = events(&late);
        assert!(all.iter().all(|event| !event.kind.is_loss()), "{sample}: {all:#?}");
    }
}

/// A server that grants one credit, or none, lets a client send one call at a time.
#[test]
fn a_grant_of_one_credit_is_the_servers() {
    for credits in [0, 1] {
        let mut capture = samples::case("c02-late");
        for packet in capture.packets.iter_mut().filter(|packet| packet.source() == SERVER_OF_CASES) {
            if packet.is_rc() && packet.xid().is_some() {
                let at = packet.payload().start + 8;
                packet.set_u32(at, credits);
                packet.seal();
            }
        }
        let used: Vec<_> =
            events(&capture).into_iter().filter(|event| event.kind == Kind::CreditsExhausted).collect();
        let [used] = used.as_slice() else { panic!("{used:#?}") };
        assert_eq!(used.by_requester, Some(false));
        let words = format!("server grants {credits} credit");
        assert!(used.text.starts_with(&words) && used.text.contains("one call at a time"), "{}", used.text);
    }
}
