//! Outages and waiting calls, in captures of symptoms and in altered sessions.
//! tests/cases/README.md describes the captures.

use rdmascope_analysis::events::{Cause, Events, Kind, SessionEvent};
use rdmascope_analysis::observer::Observer;
use rdmascope_dissector::engine::Engine;
use rdmascope_dissector::record::Time;
use rdmascope_tests::mutate::{self, CLIENT, SERVER, attribute, opcode};
use rdmascope_tests::pcap::{Capture, Packet};
use rdmascope_tests::segments::made_and_closed;
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
    assert_eq!((event.count, event.through.len()), (25, 25));
    assert_eq!((event.connection.0, event.other.map(|id| id.0)), (1, Some(25)));
    assert_eq!(
        event.text,
        "NFSv3 WRITE (XID 0x00000700) under way each time 25 connections ended, in 20.1s: client's NAK (remote \
         access error), then server's DREQ; on connections 1, 2, 3, 4, 5, 6, 7, 8 and 17 more"
    );
    let lost = only(&capture, Kind::ServiceLost);
    assert_times(&capture, &lost, (0.005, 20.1));
    assert_eq!((lost.count, lost.cause), (1, Some(Cause::ClosedBy(false))));
    // On one connection only, it is an ordinary end.
    let one = until(&capture, 0.0055);
    assert!(events(&one).iter().all(|event| event.kind != Kind::CallFailsAgain));
}

#[test]
fn failed_connection_requests_are_an_outage() {
    for case in ["cm-nfs-distinct", "cm-nfs-sameqp"] {
        let capture = samples::case(case);
        let found = events(&capture);
        let count = |kind| found.iter().filter(|event| event.kind == kind).count();
        assert_eq!((count(Kind::Rejected), count(Kind::Connected), count(Kind::Disconnected)), (6, 0, 0));
        let lost = only(&capture, Kind::ServiceLost);
        assert_times(&capture, &lost, (0.0, 51.0));
        assert_eq!(lost.cause, Some(Cause::Rejected));
        assert_eq!(
            lost.text, "no connection for 51.0s, until the capture ends: 6 requests rejected by the server",
            "{case}"
        );
    }
    let capture = samples::case("cm-nfs-prev-same-then");
    let lost = only(&capture, Kind::ServiceLost);
    assert_times(&capture, &lost, (0.005, 61.2));
    assert_eq!(
        lost.text,
        "no reply for 61.2s: connection 1 was closed by the server, 6 requests rejected by the server, the next \
         reply came on connection 8"
    );
    // Over TCP: the server acknowledges the MPA Request and never replies.
    let sample = samples::capture("iwarp-nfs3");
    let mut asked = sample.clone();
    let request = made_and_closed(&sample, false).packets[3].number;
    asked.packets.retain(|packet| packet.number <= request + 1);
    let mut last = asked.packets.last().expect("it has packets").clone();
    last.time += 40 * SECOND;
    asked.packets.push(last);
    let found = events(&asked);
    let kinds: Vec<_> = found.iter().map(|event| event.kind).collect();
    assert!(kinds.contains(&Kind::RequestUnanswered), "{found:#?}");
    assert!(kinds.contains(&Kind::ServiceLost), "{found:#?}");
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
