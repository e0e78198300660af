//! Connection numbers have no gaps, for any missing packets and any requested events.

use rdmascope_conformance::Judge;
use rdmascope_dissector::connection::{Connection, FlowKey};
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::observation::Observe;
use rdmascope_tests::mutate::{self, CLIENT, SERVER};
use rdmascope_tests::pcap::Capture;
use rdmascope_tests::{samples, session};
use rdmascope_wire::bth::Transport;
use std::collections::HashMap;

/// The events that name a connection, in the order in which they were reported.
#[derive(Debug, Default)]
struct Numbered {
    connections: Vec<Connection>,
    /// Connection numbers of transactions.
    transactions: Vec<u32>,
    /// Connection numbers of findings.
    findings: Vec<u32>,
    /// Connection numbers of packets, with their half-flows.
    packets: Vec<(FlowKey, Option<u32>)>,
}

impl Numbered {
    fn of(capture: &Capture, config: Config) -> Numbered {
        let (mut found, mut judge) = (Numbered::default(), Judge::default());
        let mut engine = Engine::new(config);
        let mut report = |event: Event<'_>| {
            judge.handle(&event, &mut |finding| found.findings.extend(finding.connection.map(|id| id.0)));
            match event {
                Event::Connection(connection) => found.connections.push(connection.clone()),
                Event::Transaction(transaction) => found.transactions.push(transaction.connection.0),
                Event::Packet(packet) if packet.of_connection => {
                    let is_rc = |headers: &&_| is_reliable(headers);
                    if packet.readable_headers().filter(is_rc).is_some() {
                        let flow = packet.flow().expect("its headers are readable");
                        found.packets.push((flow, packet.connection.map(|id| id.0)));
                    }
                }
                _ => {}
            }
        };
        session::records(capture).for_each(|record| engine.handle(&record, &mut report));
        engine.finish(&mut report);
        found
    }

    fn numbers(&self) -> Vec<u32> {
        self.connections.iter().map(|connection| connection.id.0).collect()
    }

    /// The connection with this number.
    fn connection(&self, number: u32) -> Option<&Connection> {
        self.connections.iter().find(|connection| connection.id.0 == number)
    }
}

fn is_reliable(headers: &rdmascope_dissector::event::Headers<'_>) -> bool {
    headers.bth.opcode.transport() == Transport::ReliableConnection
}

/// Requests all events.
fn all() -> Config {
    Config { observe: Observe::All, report_packets: true, attribute: true, ..Config::default() }
}

/// Two sessions side by side, captured from several points on.
fn from_the_middle(session: &Capture) -> impl Iterator<Item = (usize, Capture)> {
    let capture = mutate::side_by_side(session, MILLISECOND);
    let starts = (0..capture.packets.len()).step_by(capture.packets.len() / 24);
    starts.map(move |start| (start, mutate::from(&capture, start)))
}

/// In nanoseconds.
const MILLISECOND: i64 = 1_000_000;

/// Checks that every number from 1 on belongs to one connection, and that every number in an event
/// is one of these.
#[track_caller]
fn assert_no_gap(found: &Numbered, label: &str) {
    let mut numbers = found.numbers();
    numbers.sort_unstable();
    let expected: Vec<u32> = (1..=found.connections.len() as u32).collect();
    assert_eq!(numbers, expected, "{label}");
    let of_packets = found.packets.iter().filter_map(|(_, number)| number.as_ref());
    for number in found.transactions.iter().chain(&found.findings).chain(of_packets) {
        assert!(found.connection(*number).is_some(), "{label}: {number}");
    }
}

#[test]
fn connection_numbers_have_no_gaps() {
    for name in samples::ALL {
        let original = samples::capture(name);
        let starts = (0..original.packets.len()).step_by(original.packets.len() / 48 + 1);
        for start in (1..16.min(original.packets.len())).chain(starts) {
            let found = Numbered::of(&mutate::from(&original, start), all());
            assert_no_gap(&found, &format!("{name} from {start} on"));
        }
    }
}

#[test]
fn connection_numbers_of_two_sessions_have_no_gaps() {
    let mut pairs = 0;
    for name in samples::MOUNTS {
        let original = samples::capture(name);
        for (start, capture) in from_the_middle(&original) {
            let found = Numbered::of(&capture, all());
            assert_no_gap(&found, &format!("{name} from {start} on"));
            pairs += u32::from(found.connections.len() == 2);
        }
        for seed in 0..8 {
            let capture = mutate::variant(&mutate::side_by_side(&original, 50 * MILLISECOND), seed).capture;
            let capture = mutate::from(&capture, seed as usize % 4 * capture.packets.len() / 4);
            assert_no_gap(&Numbered::of(&capture, all()), &format!("{name}, variant {seed}"));
        }
    }
    assert!(pairs > 100, "captures in which both sessions were assembled: {pairs}");
}

#[test]
fn requested_events_do_not_change_numbers() {
    for name in samples::MOUNTS {
        let original = samples::capture(name);
        let two = mutate::side_by_side(&original, MILLISECOND);
        let lossy = (0..12).map(|seed| mutate::variant(&two, seed).capture);
        let captures = from_the_middle(&original).map(|(_, capture)| capture).step_by(3).chain(lossy);
        for (index, capture) in captures.enumerate() {
            let (expected, found) =
                (Numbered::of(&capture, all()), Numbered::of(&capture, Config::default()));
            let flows = |found: &Numbered| -> Vec<_> {
                let ends =
                    |it: &Connection| (it.id, it.requester.address, it.requester.qpn, it.responder.qpn);
                found.connections.iter().map(ends).collect()
            };
            assert_eq!(flows(&found), flows(&expected), "{name}, capture {index}");
            assert_eq!(found.transactions, expected.transactions, "{name}, capture {index}");
        }
    }
}

#[test]
fn packets_have_the_number_of_their_connection_or_none() {
    for name in samples::MOUNTS {
        let original = samples::capture(name);
        for start in (0..original.packets.len()).step_by(original.packets.len() / 24) {
            let found = Numbered::of(&mutate::without_cm(&mutate::from(&original, start)), all());
            let most = packets_without(&found, &format!("{name} from {start} on"));
            assert!(most <= 1024, "{name} from {start} on: {most} packets of a half-flow without a number");
        }
    }
}

#[test]
fn single_direction_gets_a_number_soon() {
    for name in samples::MOUNTS {
        let original = mutate::without_cm(&samples::capture(name));
        for host in [CLIENT, SERVER] {
            let one = mutate::keep(&original, |packet| packet.source() == host);
            for start in (0..one.packets.len()).step_by(one.packets.len() / 12) {
                let found = Numbered::of(&mutate::from(&one, start), all());
                let label = format!("{name}, {host} from {start} on");
                assert_no_gap(&found, &label);
                let most = packets_without(&found, &label);
                assert!(most <= 64, "{label}: {most} packets without a number");
            }
        }
    }
}

/// The most packets of a half-flow without a number. All later packets must have the number of
/// their connection.
#[track_caller]
fn packets_without(found: &Numbered, label: &str) -> u32 {
    let (mut without, mut with) = (HashMap::<FlowKey, u32>::new(), HashMap::new());
    for (flow, number) in &found.packets {
        let Some(number) = number else {
            *without.entry(*flow).or_default() += 1;
            assert!(!with.contains_key(flow), "{label}: a flow never loses its number");
            continue;
        };
        let connection = found.connection(*number).expect("a connection has this number");
        let ends = [&connection.requester, &connection.responder];
        let is_end = ends.iter().any(|end| end.qpn == Some(flow.destination_qp));
        assert!(is_end, "{label}: {flow:?} does not belong to connection {number}");
        assert_eq!(*with.entry(*flow).or_insert(*number), *number, "{label}");
    }
    without.values().max().copied().unwrap_or_default()
}

#[test]
fn packets_after_a_captured_connect_have_a_number() {
    for name in samples::MOUNTS {
        let found = Numbered::of(&samples::capture(name), all());
        assert!(found.packets.iter().all(|(_, number)| number.is_some()), "{name}");
    }
}
