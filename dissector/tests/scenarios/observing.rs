//! Observations, which are reported only if enabled.

use crate::report::*;
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::exchange::Keep;
use rdmascope_dissector::observation::{Observation, Observe, Observed};
use rdmascope_dissector::rdma::Fault;
use rdmascope_testkit::messages::*;
use rdmascope_testkit::world::*;
use rdmascope_wire::Xid;
use rdmascope_wire::bth::Extensions;

/// The result of `select` for each observation, with the record that caused it.
fn observe<T>(
    frames: &[Frame],
    observe: Observe,
    select: impl Fn(&Observed<'_>) -> Option<T>,
) -> Vec<(u64, T)> {
    let mut engine = Engine::new(Config { observe, ..Config::default() });
    let mut seen = Vec::new();
    for number in 1..=frames.len() as u64 + 1 {
        let mut take = |event: Event<'_>| {
            if let Event::Observation(Observation { kind, .. }) = event {
                seen.extend(select(kind).map(|selected| (number, selected)));
            }
        };
        match frames.get(number as usize - 1) {
            Some(frame) => engine.handle(&record(frame, number), &mut take),
            None => engine.finish(&mut take),
        }
    }
    seen
}

/// [`Ending::captured`](rdmascope_dissector::observation::Ending::captured) of each connection.
fn heard_ends(frames: &[Frame]) -> Vec<[bool; 2]> {
    let seen = observe(frames, Observe::All, |it| match it {
        Observed::Ending(ending) => Some(ending.captured),
        _ => None,
    });
    seen.into_iter().map(|(_, ends)| ends).collect()
}

#[test]
fn cm_message_counts_as_packet_of_its_end() {
    let mut world = World::connected();
    world.send(CLIENT, &getattr(1).0);
    assert_eq!(heard_ends(&world.frames), [[true, true]], "the server sent a REP");
    // Without the REP, the calls and the REQ are separate connections: nothing pairs them.
    world.frames.retain(|frame| frame.from == CLIENT);
    assert_eq!(heard_ends(&world.frames), [[true, false]; 2]);
}

/// With [`Observe::All`], outstanding calls are reported with the first CM message that closes the
/// connection: frame 5, after REQ, REP, RTU and the call.
#[test]
fn outstanding_calls_are_reported_once() {
    let mut world = World::connected();
    world.send(CLIENT, &getattr(1).0);
    world.disconnect(SERVER);
    for (observed, expected) in [(Observe::All, vec![(5, Xid(1))]), (Observe::Events, vec![])] {
        let seen = observe(&world.frames, observed, |it| match it {
            Observed::Outstanding(it) => Some(it.xid),
            _ => None,
        });
        assert_eq!(seen, expected, "{observed:?}");
    }
}

/// The parameters of a connection are reported with each CM message that changes them, so not with
/// the RTU.
#[test]
fn cm_messages_report_connection_parameters() {
    let mut world = World::connected();
    world.disconnect(CLIENT);
    for (observed, expected) in [(Observe::All, &[1, 2, 4, 5][..]), (Observe::Events, &[])] {
        let seen = observe(&world.frames, observed, |it| match it {
            Observed::Established(_) => Some(()),
            _ => None,
        });
        assert_eq!(seen.iter().map(|(frame, _)| *frame).collect::<Vec<_>>(), expected, "{observed:?}");
    }
}

/// A SEND Middle without a message to continue (IBTA volume 1, section 9.7.3.3): frame 6.
#[test]
fn faulty_request_is_reported() {
    let mut world = World::connected();
    world.send(CLIENT, &getattr(1).0);
    world.send(SERVER, &getattr(1).1);
    let psn = world.end(CLIENT).psn;
    world.packet(CLIENT, 0x01, psn, Extensions::default(), &data(MTU));
    world.end(CLIENT).psn = psn.plus(1);
    for (observed, expected) in [(Observe::All, vec![(6, Fault::Order)]), (Observe::Events, vec![])] {
        let seen = observe(&world.frames, observed, |it| match it {
            Observed::Faulty(it) => Some(it.fault),
            _ => None,
        });
        assert_eq!(seen, expected, "{observed:?}");
    }
    assert_eq!(world.run().transactions.len(), 1, "without observations, the result is the same");
}

/// A retransmitted call is reported with the packet seen first, until a CM message closes the
/// connection: a later packet may belong to a new connection of the queue pair.
#[test]
fn retransmission_after_close_has_no_first_packet() {
    let mut world = World::connected();
    let call = world.send(CLIENT, &getattr(1).0);
    world.again(call.clone());
    world.disconnect(CLIENT);
    // Too late for a copy of the one before.
    world.wait(3_000_000);
    world.again(call);
    let seen = observe(&world.frames, Observe::All, |it| match it {
        Observed::Repeated(it) => Some(it.first.map(|first| first.frame)),
        _ => None,
    });
    assert_eq!(seen, [(5, Some(4)), (8, None)]);
}

/// The reporting options may change between two records, without an effect on other events.
#[test]
fn reporting_options_may_change_between_records() {
    let mut world = World::connected();
    for xid in 1..=2 {
        world.send(CLIENT, &getattr(xid).0);
        world.send(SERVER, &getattr(xid).1);
    }
    let mut engine = Engine::new(Config::default());
    let (mut packets, mut attributed, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    for (number, frame) in (1..).zip(&world.frames) {
        if number == 6 {
            engine.report_packets(true);
            engine.look_closely(Keep { steps: true, contents: true }, true);
            assert_eq!(engine.config().keep, Keep { steps: true, contents: true });
            assert!(engine.config().attribute && engine.config().report_packets);
            let [connection] = &engine.connections().collect::<Vec<_>>()[..] else { panic!("one") };
            assert_eq!(connection.transactions, [1, 0]);
            let found = engine.connection(connection.id).expect("the connection is open");
            assert_eq!(format!("{found:?}"), format!("{connection:?}"));
            let mut other = connection.id;
            other.0 += 1;
            assert!(engine.connection(other).is_none());
        }
        engine.handle(&record(frame, number), &mut |event| match event {
            Event::Packet(_) => packets.push(number),
            Event::Attributed(it) => attributed.push(it.seen.frame),
            Event::Transaction(it) => kept.push((number, it.xid, it.exchange.is_some())),
            _ => {}
        });
    }
    assert_eq!((packets, attributed), (vec![6, 7], vec![6, 7]));
    assert_eq!(kept, [(5, Xid(1), false), (7, Xid(2), true)]);
    engine.report_packets(false);
    engine.handle(&record(&world.frames[6].sent_again(world.now + 1_000), 8), &mut |event| {
        assert!(!matches!(event, Event::Packet(_)), "packets are no longer reported");
    });
}
