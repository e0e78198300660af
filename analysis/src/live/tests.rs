use super::*;
use crate::events::{Kind, Open};
use crate::observer::Observer;
use rdmascope_conformance::Rule;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::observation::Observe;
use rdmascope_tests::pcap::{Capture, Packet};
use rdmascope_tests::{floods, mutate, samples, session, values};

const SECOND: i64 = 1_000_000_000;

/// The packets of the client or of the server of a sample.
fn one_direction(capture: &Capture, of_client: bool) -> Capture {
    mutate::keep(capture, |packet| mutate::is_from_client(packet) == of_client)
}

/// The results of watching a capture.
struct Watched {
    intervals: Vec<Interval>,
    happenings: Vec<Happening>,
}

fn watch(capture: &Capture, length: i64) -> Watched {
    let mut engine = Engine::new(Config { observe: Observe::All, ..Config::default() });
    let mut judge = Judge::new(|_: &Rule| true);
    let (mut meter, mut happenings) = (None, Happenings::default());
    let mut watched = Watched { intervals: Vec::new(), happenings: Vec::new() };
    let mut last = Time(0);
    for record in session::records(capture) {
        let meter = meter.get_or_insert_with(|| Meter::new(record.time));
        while record.time.0 >= meter.start().0 + length {
            let end = Time(meter.start().0 + length);
            watched.happenings.extend(happenings.take(
                &Open::new(engine.connections(), engine.open_transactions()),
                end,
                false,
            ));
            watched.intervals.push(meter.take(end, &engine, &judge));
        }
        meter.record(&record);
        engine.handle(&record, &mut |event| {
            meter.event(&event);
            happenings.handle(&event);
            judge.handle(&event, &mut |finding| meter.finding(finding, false));
        });
        last = record.time;
    }
    let Some(mut meter) = meter else { return watched };
    engine.finish(&mut |event| {
        meter.event(&event);
        happenings.handle(&event);
        judge.handle(&event, &mut |finding| meter.finding(finding, false));
    });
    watched.happenings.extend(happenings.take(&Open::default(), last, true));
    watched.intervals.push(meter.take(last, &engine, &judge));
    watched
}

#[test]
fn intervals_add_up_to_the_session() {
    for sample in samples::ALL {
        let capture = samples::capture(sample);
        let full = session::run(&capture);
        for length in [SECOND / 50, SECOND, 100 * SECOND] {
            let watched = watch(&capture, length);
            let sum = |read: fn(&Interval) -> u64| watched.intervals.iter().map(read).sum::<u64>();
            assert_eq!(sum(|one| one.packets), capture.packets.len() as u64, "{sample}");
            assert_eq!(sum(|one| one.figures.stats.count), full.transactions.len() as u64, "{sample}");
            let by_operation = |one: &Interval| one.operations.iter().map(|(_, of)| of.stats.count).sum();
            assert_eq!(sum(by_operation), full.transactions.len() as u64, "{sample}");
            let by_connection =
                |one: &Interval| one.connections.iter().map(|of| of.figures.stats.count).sum();
            assert_eq!(sum(by_connection), full.transactions.len() as u64, "{sample}");
            let expected =
                full.connections.iter().map(Transport::of).fold(Transport::default(), Transport::plus);
            let sent =
                watched.intervals.iter().fold(Transport::default(), |sum, one| sum.plus(one.transport));
            assert_eq!(sent, expected, "{sample}, intervals of {length} ns");
        }
    }
}

/// The events reported on the way are those at the end. Each is reported once, or once more if it
/// continued.
#[test]
fn events_are_reported_as_they_happen() {
    for sample in samples::ALL {
        let capture = samples::capture(sample);
        let mut events = crate::events::Events::default();
        let mut engine = Engine::new(Config { observe: Observe::Events, ..Config::default() });
        session::records(&capture)
            .for_each(|record| engine.handle(&record, &mut |event| events.handle(&event)));
        engine.finish(&mut |event| events.handle(&event));
        // An outage without a reply grows until the last interval, and is reported before that.
        let key = |event: &crate::events::SessionEvent| {
            let goes_on = event.kind == crate::events::Kind::ServiceLost && event.frames[1].is_none();
            let text = if goes_on { String::new() } else { event.text.clone() };
            (event.time, event.kind, event.connection, text)
        };
        let expected: Vec<_> = events.list(None).iter().map(key).collect();
        for length in [SECOND / 10, SECOND] {
            let watched = watch(&capture, length);
            let mut reported: Vec<_> =
                watched.happenings.iter().map(|happening| key(&happening.event)).collect();
            reported.sort();
            for event in &expected {
                assert!(reported.contains(event), "{sample}: {event:?} was not reported: {reported:#?}");
            }
            let first: Vec<_> = watched.happenings.iter().filter(|one| !one.is_again).collect();
            for (index, one) in first.iter().enumerate() {
                let same = |other: &&&Happening| {
                    (other.event.kind, other.event.time) == (one.event.kind, one.event.time)
                };
                assert!(
                    !first[..index].iter().any(|other| same(&other)),
                    "{sample}: {one:?} was reported twice"
                );
            }
        }
    }
}

/// An outage is reported as soon as a call has waited for a second, and again when a reply ends it.
#[test]
fn an_outage_is_reported_while_it_lasts() {
    // The last packet comes again 3 s later, so that two more intervals end.
    let lost = |case: &str| -> Vec<(bool, i64)> {
        let mut capture = samples::case(case);
        let last = capture.packets.last().expect("the case has packets").clone();
        capture.packets.push(Packet { number: last.number + 1, time: last.time + 3 * SECOND, ..last });
        let watched = watch(&capture, SECOND);
        let lost = watched.happenings.into_iter().filter(|one| one.event.kind == Kind::ServiceLost);
        lost.map(|one| (one.is_again, one.event.duration.unwrap_or(0) as i64 / SECOND)).collect()
    };
    // The intervals end at whole seconds, and the calls begin between two of them.
    assert_eq!(lost("c02-arp"), [(false, 1)]);
    assert_eq!(lost("c28-first"), [(false, 1)]);
    assert_eq!(lost("c02-late"), [(false, 1), (true, 61)]);
}

/// The WRITE of nfs3-lossy waits for 106 ms. A capture that ends before its reply shows a waiting
/// call, as long as no missing packet may explain it.
#[test]
fn calls_wait_unless_packets_are_missing() {
    let mut capture = samples::capture("nfs3-lossy");
    let full = session::run(&capture);
    let slow = full.transactions.iter().max_by_key(|transaction| transaction.latency()).unwrap();
    let (call, reply) = (slow.call.as_ref().unwrap().seen, slow.reply.as_ref().unwrap().seen);
    assert!(reply.time.since(call.time) > 100_000_000);
    capture.packets.retain(|packet| packet.number < reply.frame);
    // The waiting calls at the end, if the record with this number reports that a packet was
    // dropped before it (0: none does).
    let waiting = |dropped_before: u64| {
        let mut engine = Engine::new(Config { observe: Observe::All, ..Config::default() });
        let judge = Judge::new(|_: &Rule| true);
        let mut meter = Meter::new(Time(0));
        for record in session::records(&capture) {
            let dropped = u32::from(record.number == dropped_before);
            meter.record(&Record { dropped, ..record });
            engine.handle(&record, &mut |event| meter.event(&event));
        }
        meter.take(reply.time, &engine, &judge).waiting
    };
    assert_eq!(waiting(0), Waiting { calls: 1, oldest: Some(reply.time.since(call.time)) });
    assert_eq!(waiting(call.frame + 1), Waiting::default(), "its reply may have been dropped");
}

/// Packets of one end give no figures that need both ends, with and without the CM messages of both
/// ends.
#[test]
fn one_direction_gives_no_call_figures() {
    for sample in samples::MOUNTS.into_iter().chain(samples::IWARP_MOUNTS).chain(samples::IWARP_MIDSTREAM) {
        let full = samples::capture(sample);
        for of_client in [true, false] {
            let half = one_direction(&full, of_client);
            let is_kept = |packet: &Packet| {
                mutate::is_from_client(packet) == of_client || packet.cm_attribute().is_some()
            };
            let managed = mutate::keep(&full, is_kept);
            for capture in [&half, &managed, &mutate::without_cm(&half)] {
                for length in [SECOND / 5, SECOND, 100 * SECOND] {
                    let watched = watch(capture, length);
                    let context = format!("{sample}, of the client: {of_client}, {length} ns");
                    let calls =
                        |one: &Interval| one.figures.stats.count + one.operations.iter().count() as u64;
                    assert_eq!(watched.intervals.iter().map(calls).sum::<u64>(), 0, "{context}");
                    let senders: Vec<bool> = watched
                        .intervals
                        .iter()
                        .flat_map(|one| one.connections.iter().filter_map(OfConnection::only_sender))
                        .collect();
                    assert!(!senders.is_empty(), "{context}");
                    for one in watched.intervals.iter().flat_map(|one| &one.connections) {
                        let is_marked = one.one_direction || !one.has_ended || !has_answered(one);
                        assert!(is_marked, "{context}: {one:?}");
                        assert!(one.credits.is_none() || !one.one_direction, "{context}");
                    }
                    let last = watched.intervals.last().expect("at least one");
                    assert_eq!(last.waiting.calls, 0, "{context}");
                }
            }
        }
    }
}

fn has_answered(one: &OfConnection) -> bool {
    [&one.connection.requester, &one.connection.responder].into_iter().any(|end| end.sent.has_answered())
}

/// Every sample contains both directions, so no interval reports a missing one, however short it
/// is.
#[test]
fn complete_samples_are_not_one_direction() {
    for sample in samples::ALL.into_iter().chain(samples::IWARP) {
        for capture in [samples::capture(sample), mutate::without_cm(&samples::capture(sample))] {
            for length in [SECOND / 100, SECOND] {
                for one in watch(&capture, length).intervals.iter().flat_map(|one| &one.connections) {
                    assert!(!one.one_direction, "{sample}, {length} ns: {:?}", one.connection);
                }
            }
        }
    }
}

/// The last call of nfs3-basic gets no reply before the CM messages that close the connection. It
/// waits until the connection is closed.
#[test]
fn closed_connections_have_no_waiting_calls() {
    let mut capture = samples::capture("nfs3-basic");
    let full = session::run(&capture);
    let last =
        full.transactions.iter().filter_map(|it| it.reply.as_ref()).map(|it| it.seen.frame).max().unwrap();
    capture.packets.retain(|packet| packet.number < last || packet.cm_attribute().is_some());
    let closing = capture.packets.iter().find(|packet| packet.number >= last).expect("a DREQ comes last");
    let waiting = |until: Time| {
        let mut engine = Engine::new(Config { observe: Observe::All, ..Config::default() });
        let (mut judge, mut meter) = (Judge::new(|_: &Rule| true), Meter::new(Time(0)));
        for record in session::records(&capture).filter(|record| record.time < until) {
            engine.handle(&record, &mut |event| {
                meter.event(&event);
                judge.handle(&event, &mut |_| {});
            });
        }
        let interval = meter.take(until, &engine, &judge);
        let [one] = &interval.connections[..] else { panic!("{:?}", interval.connections) };
        assert_eq!(one.waiting, interval.waiting);
        (one.waiting.calls, one.credits.is_some())
    };
    assert_eq!(waiting(Time(closing.time)), (1, true));
    assert_eq!(waiting(Time(closing.time + SECOND)), (0, false));
}

/// In an iWARP capture of one direction, the FIN of the captured end closes the connection, and
/// a timeout ends it.
#[test]
fn one_fin_closes_a_connection_of_one_direction() {
    for of_client in [true, false] {
        let capture = one_direction(&samples::capture("iwarp-nfs3"), of_client);
        let mut engine = Engine::new(Config { observe: Observe::All, ..Config::default() });
        session::records(&capture).for_each(|record| engine.handle(&record, &mut |_| {}));
        let states: Vec<State> = engine.connections().map(|one| one.state).collect();
        assert_eq!(states, [State::Closed], "of the client: {of_client}");
        let last = capture.packets.last().expect("at least one").time;
        engine.handle_time(Time(last + 11 * SECOND), &mut |_| {});
        assert_eq!((engine.connections().count(), engine.open_transactions().count()), (0, 0));
    }
}

#[test]
fn uncounted_drops_are_not_zero() {
    let (engine, judge) = (Engine::new(Config::default()), Judge::default());
    let dropped = |mut meter: Meter| [1, 2].map(|end| meter.take(Time(end), &engine, &judge).dropped);
    assert_eq!(dropped(Meter::new(Time(0))), [Some(0); 2]);
    assert_eq!(dropped(Meter::new(Time(0)).without_drops()), [None; 2]);
}

/// A burst that continues is reported when it begins and again when it is over. A single NAK is
/// reported once.
#[test]
fn continued_events_are_reported_again_at_their_end() {
    let mut capture = samples::capture("nfs3-lossy");
    let naks = |capture: &Capture| -> Vec<(bool, u64, Option<u64>)> {
        let watched = watch(capture, SECOND / 200);
        assert!(watched.intervals.iter().any(|one| one.transport.resent > 0));
        let naks = watched.happenings.iter().filter(|one| one.event.kind == Kind::Nak);
        naks.map(|one| (one.is_again, one.event.count, one.event.duration)).collect()
    };
    assert_eq!(naks(&capture), [(false, 1, Some(0))]);
    // The NAK is repeated 300 ms later and joins the burst of the first one.
    const LATER: i64 = 300_000_000;
    let is_nak =
        |packet: &&Packet| packet.opcode() == 0x11 && packet.data[packet.payload().start - 4] >> 5 == 3;
    let nak = capture.packets.iter().find(is_nak).expect("the server refused a packet").clone();
    let mut twice = mutate::repeat(&Capture { link: capture.link, packets: vec![nak] }, |_| true);
    let mut again = twice.packets.pop().expect("it was repeated");
    again.time += LATER;
    let at = capture.packets.partition_point(|packet| packet.time <= again.time);
    capture.packets.insert(at, again);
    capture.renumber();
    assert_eq!(naks(&capture), [(false, 1, Some(0)), (true, 2, Some(LATER as u64))]);
}

/// 6,000 connections within one interval. The latencies of single connections stay within their
/// bound, and every transaction is counted.
#[test]
fn latencies_of_many_connections_are_bounded() {
    let mut meter = Meter::new(Time(0));
    let mut transaction = values::read(7, 100);
    for number in 1..=6_000 {
        transaction.connection = ConnectionId(number);
        meter.event(&Event::Transaction(&transaction));
        assert!(meter.latencies <= Meter::MOST_LATENCIES);
    }
    assert!(meter.footprint() < Meter::MOST_LATENCIES + (8 << 20), "{}", meter.footprint());
    let has_latencies = meter.by_connection.values().filter(|figures| figures.stats.latency().is_some());
    assert!((100..6_000).contains(&has_latencies.count()));
    let interval = meter.take(Time(SECOND), &Engine::new(Config::default()), &Judge::default());
    assert_eq!(interval.figures.stats.count, 6_000);
    assert_eq!(interval.figures.stats.latencies().map(|latencies| latencies.len()), Some(6_000));
}

/// A session among 80,000 spoofed calls. The interval counts the evicted connections, and the
/// session keeps all its events.
#[test]
fn flood_connections_are_counted_and_evicted() {
    const FLOWS: u32 = 80_000;
    let sample = samples::capture("nfs3-lossy");
    let alone = watch(&sample, SECOND);
    let mut capture = sample.clone();
    let strangers = (0..FLOWS).map(|flow| {
        let data = floods::Kind::Call.frame(flow, 0);
        Packet { number: 0, time: sample.packets[0].time, original_length: data.len() as u32, data }
    });
    capture.packets.splice(1..1, strangers);
    capture.renumber();
    let watched = watch(&capture, SECOND);
    let sum = |read: fn(&Interval) -> u64| watched.intervals.iter().map(read).sum::<u64>();
    // A flow whose 32-bit name equals that of a held one goes directly to the table.
    let most = u64::from(FLOWS) - 511 - 65_536;
    assert!((most - 8..=most).contains(&sum(|one| one.evicted)), "{}", sum(|one| one.evicted));
    let transactions: u64 = alone.intervals.iter().map(|one| one.figures.stats.count).sum();
    assert_eq!(sum(|one| one.figures.stats.count), transactions + u64::from(FLOWS));
    let reported = |watched: &Watched| -> Vec<_> {
        let own = watched.happenings.iter().filter(|one| one.event.connection == ConnectionId(1));
        own.map(|one| (one.event.kind, one.event.time, one.event.text.clone())).collect()
    };
    assert!(!reported(&alone).is_empty());
    assert_eq!(reported(&watched), reported(&alone));
}
