//! Waits that end by time, without another packet, as in a live capture.

use crate::loss;
use crate::report::*;
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::observation::Observe;
use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::Transaction;
use rdmascope_testkit::messages::*;
use rdmascope_testkit::world::*;

const MILLISECOND: i64 = 1_000_000;
const SECOND: i64 = 1_000_000_000;

/// An engine and its events.
struct Live {
    engine: Engine,
    transactions: Vec<Transaction>,
    connections: usize,
}

impl Live {
    /// Handles the frames of a world, except those that the capture lacks.
    fn follow(world: &World, lost: &[usize]) -> Live {
        let engine = Engine::new(Config { observe: Observe::All, ..Config::default() });
        let mut live = Live { engine, transactions: Vec::new(), connections: 0 };
        for (index, frame) in world.frames.iter().enumerate().filter(|(index, _)| !lost.contains(index)) {
            let record = record(frame, index as u64 + 1);
            live.step(|engine, mut report| engine.handle(&record, &mut report));
        }
        live
    }

    fn step(&mut self, step: impl FnOnce(&mut Engine, &mut dyn FnMut(Event<'_>))) {
        let Live { engine, transactions, connections } = self;
        step(engine, &mut |event| match event {
            Event::Transaction(transaction) => transactions.push(transaction.clone()),
            Event::Connection(_) => *connections += 1,
            _ => {}
        });
    }

    /// Advances time from deadline to deadline until nothing waits. Returns the last deadline.
    fn wait(&mut self) -> Option<Time> {
        let mut last = None;
        while let Some(deadline) = self.engine.next_deadline() {
            self.step(|engine, mut report| engine.handle_time(deadline, &mut report));
            assert!(
                self.engine.next_deadline().is_none_or(|next| next > deadline),
                "the deadline was handled"
            );
            last = Some(deadline);
        }
        last
    }
}

/// A call and its reply of five packets, both acknowledged.
fn long_reply(world: &mut World) -> std::ops::Range<usize> {
    let mut call = msg(1);
    call.writes = vec![];
    world.send(CLIENT, &message(&call, &nfs3(1, 6, "'handle' h0 1000")));
    world.ack(SERVER);
    let frames = world.send(SERVER, &message(&msg(1), &reply(1, "0 0 1000 1 1000 *1000")));
    world.ack(CLIENT);
    frames
}

#[test]
fn acknowledged_gap_is_given_up_without_another_packet() {
    let mut world = World::new();
    let frames = long_reply(&mut world);
    let last = world.frames.last().unwrap().time;
    let mut live = Live::follow(&world, &[frames.start + 2]);
    assert_eq!(live.transactions.len(), 0, "the reply waits for its third packet");
    let ended = live.wait().expect("a deadline");
    assert!((last..last + 3 * MILLISECOND).contains(&ended.0), "{ended:?} after {last}");
    let [transaction] = &live.transactions[..] else { panic!("one transaction") };
    assert!(!transaction.reply.as_ref().unwrap().missing.is_empty());
}

#[test]
fn unacknowledged_gap_waits_for_retransmission() {
    let mut world = World::new();
    loss::session(&mut world);
    let call = world.send(CLIENT, &message(&msg(9), &nfs3(9, 10, "'dir' 'name' 0 0 0 0 0 0 *990")));
    let last = world.frames.last().unwrap().time;
    let mut live = Live::follow(&world, &[call.start + 1]);
    let ended = live.wait().expect("a deadline");
    assert!(
        (last + 4 * SECOND - MILLISECOND..last + 5 * SECOND).contains(&ended.0),
        "{ended:?} after {last}"
    );
    assert_eq!(live.engine.open_transactions().count(), 1, "the call, as far as it was captured");
}

#[test]
fn reply_without_call_waits_for_reordering() {
    let mut world = World::new();
    loss::session(&mut world);
    let call = world.send(CLIENT, &message(&msg(9), &nfs3(9, 1, "'handle'")));
    world.send(SERVER, &message(&msg(9), &reply(9, "0 0")));
    let last = world.frames.last().unwrap().time;
    let mut live = Live::follow(&world, &call.clone().collect::<Vec<_>>());
    assert_eq!(live.transactions.len(), 3, "the reply without a call waits");
    let ended = live.wait().expect("a deadline");
    assert_eq!(ended, Time(last + 2 * MILLISECOND + 1));
    assert_eq!(live.transactions.len(), 4);
}

/// Up to 64 replies wait for calls that the capture lacks. If the capture has no packet of the
/// other end, it may have one direction only, and then no reply waits any more. If both ends are
/// known, the oldest reply is delivered.
#[test]
fn replies_waiting_for_calls_are_bounded() {
    let ended = |world: &mut World, replies: u32| {
        let mut world =
            World { frames: world.frames.clone(), connections: world.connections.clone(), ..World::new() };
        for xid in 1..=replies {
            world.send(SERVER, &getattr(xid).1);
        }
        Live::follow(&world, &[]).transactions.len()
    };
    // The half-flow alone, and after the REQ of its connection.
    for has_req in [false, true] {
        let mut world = World::new();
        if has_req {
            world.req();
        }
        assert_eq!([64, 65, 70].map(|replies| ended(&mut world, replies)), [0, 65, 70], "{has_req}");
    }
    assert_eq!([64, 65, 70].map(|replies| ended(&mut World::connected(), replies)), [0, 1, 6]);
}

#[test]
fn closed_connection_ends_after_10_seconds() {
    let mut world = World::connected();
    loss::session(&mut world);
    world.disconnect(CLIENT);
    let last = world.frames.last().unwrap().time;
    let mut live = Live::follow(&world, &[]);
    let just_before = Time(last + 10 * SECOND - 1);
    live.step(|engine, mut report| engine.handle_time(just_before, &mut report));
    assert_eq!(live.connections, 0);
    assert_eq!(live.wait(), Some(Time(last + 10 * SECOND)));
    assert_eq!((live.connections, live.engine.connections().count()), (1, 0));
    assert_eq!(live.engine.next_deadline(), None);
}

#[test]
fn idle_open_connection_has_no_deadline() {
    let mut world = World::connected();
    loss::session(&mut world);
    let mut live = Live::follow(&world, &[]);
    assert_eq!(live.engine.next_deadline(), None);
    live.step(|engine, mut report| engine.handle_time(Time(i64::MAX), &mut report));
    assert_eq!((live.connections, live.engine.connections().count()), (0, 1));
}
