//! Sessions in a flood of spoofed flows: their transactions are the same as without the flood, and
//! evictions are counted.

use rdmascope_dissector::connection::{Connection, State};
use rdmascope_dissector::engine::{Config, Engine, Totals};
use rdmascope_dissector::event::{Event, Eviction};
use rdmascope_dissector::frame::Address;
use rdmascope_dissector::record::Record;
use rdmascope_dissector::transaction::Transaction;
use rdmascope_tests::floods::Kind;
use rdmascope_tests::pcap::{Capture, Packet};
use rdmascope_tests::session::Session;
use rdmascope_tests::{Differences, samples, session};

/// The compared part of a transaction. Numbers depend on the other packets.
fn essence(transaction: &Transaction) -> String {
    let Transaction { direction, xid, outcome, status, rpc_status, call, reply, timing, .. } = transaction;
    let message = |message: &Option<rdmascope_dissector::transaction::Message>| {
        message.as_ref().map(|message| (message.first.time, message.seen.time, message.missing.clone()))
    };
    let (call, reply) = (message(call), message(reply));
    format!("{direction:?} {xid:?} {outcome:?} {status:?} {rpc_status:?} {call:?} {reply:?} {timing:?}")
}

/// The transactions in the order of their calls, without frame numbers.
fn essences<'a>(transactions: impl Iterator<Item = &'a Transaction>) -> Vec<String> {
    let mut essences: Vec<String> = transactions
        .map(|transaction| {
            let text = essence(transaction);
            // The flood shifts the numbers of frames.
            let mut parts = text.split("frame: ");
            let first = parts.next().unwrap_or_default().to_owned();
            parts.fold(first, |text, part| {
                text + part.trim_start_matches(|digit: char| digit.is_ascii_digit())
            })
        })
        .collect();
    essences.sort_unstable();
    essences
}

fn is_stranger(connection: &Connection) -> bool {
    let is_of_flood = |address| matches!(address, Address::V4(address) if address.octets()[0] == 100);
    is_of_flood(connection.requester.address) && is_of_flood(connection.responder.address)
}

/// The packets of a capture, with `packets` between each two.
fn among(capture: &Capture, mut packets: impl Iterator<Item = Vec<u8>>, between: usize) -> Capture {
    let mut flooded = Capture { link: capture.link, packets: Vec::new() };
    for packet in &capture.packets {
        flooded.packets.push(packet.clone());
        let strangers = packets.by_ref().take(between);
        flooded.packets.extend(strangers.map(|data| Packet {
            number: 0,
            time: packet.time,
            original_length: data.len() as u32,
            data,
        }));
    }
    assert!(packets.next().is_none(), "all are inserted");
    flooded.renumber();
    flooded
}

/// Two packets of each of 12,000 flows, more than the table has room for; then one packet of each
/// of 70,000 flows.
fn flood() -> Vec<Vec<u8>> {
    let kind = |flow: u32| Kind::ALL[flow as usize % Kind::ALL.len()];
    let twice = (0..12_000).flat_map(|flow| [0, 1].map(|packet| kind(flow).frame(flow, packet)));
    let once = (12_000..82_000).map(|flow| kind(flow).frame(flow, 0));
    twice.chain(once).collect()
}

#[test]
fn session_keeps_its_transactions_in_a_flood() {
    let flood = flood();
    let mut differences = Differences::of("sessions in a flood");
    for sample in ["nfs3-basic", "iwarp-nfs3"] {
        let capture = samples::capture(sample);
        let alone = session::run(&capture);
        let between = flood.len().div_ceil(capture.packets.len() - 1);
        let flooded = session::run(&among(&capture, flood.iter().cloned(), between));
        let strangers: Vec<_> =
            flooded.connections.iter().filter(|one| is_stranger(one)).map(|one| one.id).collect();
        let own = flooded.transactions.iter().filter(|one| !strangers.contains(&one.connection));
        differences.equal(sample, essences(alone.transactions.iter()), essences(own));
        differences.equal(format!("{sample}: strangers"), 82_000, strangers.len());
        differences.equal(
            format!("{sample}: connections"),
            alone.connections.len() + 82_000,
            flooded.connections.len(),
        );
        let evicted = |eviction: &Eviction| match eviction {
            Eviction::Connection(id) => strangers.contains(id),
            _ => false,
        };
        differences.check(
            flooded.evictions.iter().all(evicted),
            format!("{sample}: only flood connections are evicted"),
        );
        let evictions = flooded.evictions.len();
        differences.check(evictions > 5_000, format!("{sample}: {evictions} evictions"));
        differences.equal(sample, evictions as u64, flooded.totals.evictions);
    }
    differences.end();
}

/// With the first record of every flow held, sessions stay the same.
#[test]
fn held_first_records_do_not_change_sessions() {
    let mut differences = Differences::of("sessions in a crowd");
    for sample in samples::ALL.into_iter().chain(samples::IWARP) {
        let capture = samples::capture(sample);
        let alone = session::run(&capture);
        let crowd = session::run_with(&capture, Config { crowd: Some(0), ..Config::default() });
        differences.equal(sample, essences(alone.transactions.iter()), essences(crowd.transactions.iter()));
        let connections = |session: &Session| {
            let summary = |connection: &Connection| {
                let Connection { origin, state, requester, responder, port, first, last, .. } = connection;
                format!("{origin:?} {state:?} {requester:?} {responder:?} {port:?} {first:?} {last:?}")
            };
            session.connections.iter().map(summary).collect::<Vec<_>>()
        };
        differences.equal(sample, connections(&alone), connections(&crowd));
        differences.equal(sample, Totals { ..alone.totals }, crowd.totals);
    }
    differences.end();
}

/// A held REQ without an answer is reported when the capture ends.
#[test]
fn unanswered_requests_are_reported_at_the_end() {
    let mut engine = Engine::new(Config { crowd: Some(0), ..Config::default() });
    let mut states = Vec::new();
    let frames: Vec<Vec<u8>> = (0..3).map(|flow| Kind::Request.frame(flow, 0)).collect();
    let capture = Capture {
        link: 1,
        packets: (1..)
            .zip(frames)
            .map(|(number, data)| Packet { number, time: 7, original_length: data.len() as u32, data })
            .collect(),
    };
    let records: Vec<Record<'_>> = session::records(&capture).collect();
    records.iter().for_each(|record| engine.handle(record, &mut |_| panic!("nothing is reported yet")));
    assert_eq!((engine.connections().count(), engine.totals().cm_messages), (0, 3));
    engine.finish(&mut |event| {
        if let Event::Connection(connection) = event {
            states.push((connection.state, connection.requester.first_frames.cm_message));
        }
    });
    assert_eq!(states, [1, 2, 3].map(|frame| (State::Requested, Some(frame))));
}

/// Held records are evicted before connections, the oldest first.
#[test]
fn held_records_are_evicted_before_connections() {
    let capture = samples::capture("nfs3-basic");
    let mut engine = Engine::new(Config { crowd: Some(1), ..Config::default() });
    let half = capture.packets.len() / 2;
    let mut open = 0;
    for (record, flow) in session::records(&capture).take(half).zip(0..) {
        engine.handle(&record, &mut |_| {});
        open = open.max(engine.connections().count());
        let data = Kind::Call.frame(flow, 0);
        let stranger = Record { data: &data, original_length: data.len() as u32, ..record };
        engine.handle(&stranger, &mut |event| assert!(!matches!(event, Event::Eviction(_))));
    }
    let mut evicted = Vec::new();
    let mut rounds = 0;
    while engine.connections().count() == open {
        rounds += 1;
        let has_evicted = engine.give_up_some(&mut |event| {
            if let Event::Connection(connection) = event {
                evicted.push((is_stranger(connection), connection.first));
            }
        });
        assert!(has_evicted);
    }
    let strangers = evicted.iter().take_while(|(is_stranger, _)| *is_stranger).count();
    assert!(rounds > 8 && strangers >= half - 1, "{strangers} of {half}, in {rounds} rounds");
    assert!(evicted[..strangers].is_sorted(), "the oldest first");
    assert_eq!(engine.totals().evictions, evicted.len() as u64);
    while engine.give_up_some(&mut |_| {}) {}
    assert_eq!((engine.connections().count(), engine.open_transactions().count()), (0, 0));
}
