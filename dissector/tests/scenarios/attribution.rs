//! The role of each packet in the transactions.

use crate::report::*;
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::exchange::StepKind;
use rdmascope_dissector::role::{Attributed, Role, StepOf};
use rdmascope_dissector::transaction::Transaction;
use rdmascope_testkit::messages::*;
use rdmascope_testkit::world::*;
use rdmascope_wire::Xid;
use rdmascope_wire::psn::Psn;
use rdmascope_wire::rpcrdma::Segment;
use std::collections::BTreeMap;

/// The role of a packet: a word for it, the XID of the transaction, the kind of step.
type PacketRole = (&'static str, u32, Option<StepKind>);

/// Feeds the frames to an engine. Calls `take_role` with the role of each packet, and returns the
/// transactions.
fn feed(frames: &[Frame], mut take_role: impl FnMut(&Attributed<'_>)) -> Vec<Transaction> {
    let mut engine = Engine::new(Config { attribute: true, ..Config::default() });
    let mut transactions = Vec::new();
    let mut take = |event: Event<'_>| match event {
        Event::Attributed(attributed) => take_role(attributed),
        Event::Transaction(transaction) => transactions.push(transaction.clone()),
        _ => {}
    };
    for (number, frame) in (1..).zip(frames) {
        let record = record(frame, number);
        engine.handle(&record, &mut take);
    }
    engine.finish(&mut take);
    transactions
}

/// Returns the role of each packet, and the steps that it acknowledges.
fn attribute(frames: &[Frame]) -> Vec<(PacketRole, Vec<(u32, StepKind)>)> {
    let mut attributed = BTreeMap::new();
    let transactions = feed(frames, |Attributed { seen, role, acknowledged, only_acknowledges, .. }| {
        assert!(attributed.insert(seen.frame, (*role, acknowledged.to_vec())).is_none(), "reported once");
        let is_part = matches!(role, Some(Role::Part(_) | Role::Repetition(_)));
        assert_ne!(is_part, *only_acknowledges, "{seen:?}");
    });
    let role = |frame: u64| {
        let (role, acknowledged) = attributed.remove(&frame).unwrap_or_default();
        let word = match role {
            Some(Role::Part(_)) => "part",
            Some(Role::Repetition(_)) => "again",
            Some(Role::Acknowledgement(_)) => "ack",
            Some(Role::Refusal(_)) => "nak",
            _ => "nothing",
        };
        let of = role.map(|role| name(&transactions, &role.of()));
        let acknowledged = acknowledged.iter().map(|of| name(&transactions, of)).collect();
        ((word, of.map_or(0, |(xid, _)| xid), of.map(|(_, kind)| kind)), acknowledged)
    };
    (1..=frames.len() as u64).map(role).collect()
}

fn name(transactions: &[Transaction], of: &StepOf) -> (u32, StepKind) {
    let transaction = transactions.iter().find(|transaction| transaction.begun == of.begun).unwrap();
    let Xid(xid) = transaction.xid;
    (xid, transaction.exchange.as_ref().unwrap().steps[of.step as usize].kind)
}

fn roles(frames: &[Frame]) -> Vec<PacketRole> {
    attribute(frames).into_iter().map(|(role, _)| role).collect()
}

fn write_call(world: &mut World, segment: Segment) {
    let mut call = msg(1);
    call.reads = vec![read_segment(WRITE_POSITION, segment)];
    world.send(CLIENT, &message(&call, &nfs3(1, 7, "'handle' h0 600 2 600")));
}

fn write_reply(world: &mut World) {
    world.send(SERVER, &message(&msg(1), &reply(1, "0 0 0 600 2 #8")));
}

#[test]
fn packets_of_a_write_have_roles() {
    let segment = segment(7, 600, 0x1000);
    let mut world = World::connected();
    write_call(&mut world, segment);
    world.ack(SERVER);
    world.read(SERVER, segment, &data(600));
    write_reply(&mut world);
    world.ack(CLIENT);
    world.disconnect(CLIENT);
    let (call, request, response, answer) = (
        Some(StepKind::Call),
        Some(StepKind::ReadRequest),
        Some(StepKind::ReadResponse),
        Some(StepKind::Reply),
    );
    let found = attribute(&world.frames);
    let roles: Vec<_> = found.iter().map(|(role, _)| *role).collect();
    assert_eq!(
        roles,
        [
            ("nothing", 0, None),
            ("nothing", 0, None),
            ("nothing", 0, None),
            ("part", 1, call),
            ("ack", 1, call),
            ("part", 1, request),
            ("part", 1, response),
            ("part", 1, response),
            ("part", 1, response),
            ("part", 1, answer),
            ("ack", 1, answer),
            ("nothing", 0, None),
            ("nothing", 0, None),
        ]
    );
    let acknowledged: Vec<_> = found
        .iter()
        .enumerate()
        .filter(|(_, (_, steps))| !steps.is_empty())
        .map(|(at, (_, steps))| (at, steps.clone()))
        .collect();
    // The last response acknowledges the request.
    assert_eq!(
        acknowledged,
        [
            (4, vec![(1, StepKind::Call)]),
            (8, vec![(1, StepKind::ReadRequest)]),
            (10, vec![(1, StepKind::Reply)])
        ]
    );
}

/// The packets of a Send are reported when its last one has arrived.
#[test]
fn packets_of_unfinished_send_are_reported_late() {
    let mut world = World::connected();
    let (call, answer) = getattr(1);
    let long = message(&msg(2), &nfs3(2, 6, &format!("'{}' h0 1", "handle_".repeat(9))));
    world.send(CLIENT, &call);
    assert_eq!(world.send(CLIENT, &[long, data(MTU)].concat()).len(), 2);
    world.ack(SERVER);
    world.send(SERVER, &answer);
    let mut late = Vec::new();
    feed(&world.frames, |it| late.push((it.seen.frame, it.late)));
    assert_eq!(late, [(4, false), (5, true), (6, false), (7, false), (8, false)]);
}

#[test]
fn retransmissions_after_naks_are_repetitions() {
    let segment = segment(7, 600, 0x1000);
    let mut world = World::connected();
    let first = world.end(CLIENT).psn;
    write_call(&mut world, segment);
    world.rnr_nak(SERVER, first);
    world.again(3..4);
    world.ack(SERVER);
    // The second response is lost before the capture point, and the rest is requested again.
    let psn = world.read_request(SERVER, segment, 600);
    let responses = world.read_response(CLIENT, psn, &data(600));
    world.frames.remove(responses.start + 1);
    world.ask_again(SERVER, psn.plus(1), Segment { length: 344, offset: 0x1100, ..segment }, 344);
    world.read_response(CLIENT, psn.plus(1), &data(600)[256..]);
    write_reply(&mut world);
    world.nak(CLIENT, psn.plus(3));
    let frame = world.frames.len() - 2;
    world.again(frame..frame + 1);
    let (call, request, response, answer) = (
        Some(StepKind::Call),
        Some(StepKind::ReadRequest),
        Some(StepKind::ReadResponse),
        Some(StepKind::Reply),
    );
    assert_eq!(
        roles(&world.frames)[3..],
        [
            ("part", 1, call),
            ("nak", 1, call),
            ("again", 1, call),
            ("ack", 1, call),
            ("part", 1, request),
            ("part", 1, response),
            ("part", 1, response),
            ("again", 1, request),
            ("part", 1, response),
            ("again", 1, response),
            ("part", 1, answer),
            ("nak", 1, answer),
            ("again", 1, answer),
        ]
    );
}

#[test]
fn one_ack_acknowledges_several_transactions_or_none() {
    let mut world = World::connected();
    let mut calls = Vec::new();
    for xid in [1, 2, 3] {
        calls.push(getattr(xid));
        world.send(CLIENT, &calls.last().unwrap().0);
    }
    world.ack(SERVER);
    // A Send that is not an RPC-over-RDMA message, and its acknowledgement.
    world.send(CLIENT, b"hello");
    world.ack(SERVER);
    for (_, answer) in &calls {
        world.send(SERVER, answer);
    }
    let found = attribute(&world.frames);
    let call = StepKind::Call;
    assert_eq!(found[6], (("ack", 3, Some(call)), vec![(1, call), (2, call), (3, call)]));
    assert_eq!(found[7].0, ("nothing", 0, None));
    assert_eq!(found[8], (("ack", 3, Some(call)), vec![]), "its PSN is after the call and in no step");
}

#[test]
fn attribution_survives_psn_wrap() {
    // 300 times 60,000 PSNs exceed the PSN space.
    let long = 60_000 * MTU as u32;
    let mut world = World::connected();
    let start = world.end(SERVER).psn;
    let mut wrapped = false;
    for xid in 1..=300 {
        let segment = segment(xid, long, 0x1000);
        let mut call = msg(xid);
        call.reads = vec![read_segment(WRITE_POSITION, segment)];
        world.send(CLIENT, &message(&call, &nfs3(xid, 7, &format!("'handle' h0 {long} 2 {long}"))));
        world.read_request(SERVER, segment, long as usize);
        world.send(SERVER, &message(&msg(xid), &reply(xid, &format!("0 0 0 {long} 2 #8"))));
        world.ack(CLIENT);
        wrapped |= start.distance(world.end(SERVER).psn) < 0;
    }
    assert!(wrapped);
    let found = roles(&world.frames);
    for xid in 1..=300 {
        let at = 3 + 4 * (xid as usize - 1);
        assert_eq!(
            found[at..at + 4],
            [
                ("part", xid, Some(StepKind::Call)),
                ("part", xid, Some(StepKind::ReadRequest)),
                ("part", xid, Some(StepKind::Reply)),
                ("ack", xid, Some(StepKind::Reply)),
            ]
        );
    }
}

#[test]
fn reused_queue_pair_has_separate_transactions() {
    let mut world = World::connected();
    let mut frames = Vec::new();
    for (life, psns) in [(0, [1_000, 500_000]), (1, [70_000_000, 500_001]), (2, [1_000, 500_000])] {
        if life > 0 {
            world.add([0x11, 0x22], psns);
            world.connect();
        }
        world.getattr(7);
        let from = frames.len();
        frames.extend_from_slice(&world.frames[from..]);
    }
    let found = attribute(&frames);
    let life: Vec<PacketRole> = ["part", "ack", "part", "ack"]
        .into_iter()
        .zip([StepKind::Call, StepKind::Call, StepKind::Reply, StepKind::Reply])
        .map(|(word, kind)| (word, 7, Some(kind)))
        .collect();
    for start in [3, 10, 17] {
        let roles: Vec<_> = found[start..start + 4].iter().map(|(role, _)| *role).collect();
        assert_eq!(roles, life, "from frame {}", start + 1);
    }
    let parts = found.iter().filter(|((word, ..), _)| *word == "part").count();
    assert_eq!(parts, 6, "each connection has its own transaction");
}

#[test]
fn packets_are_attributed_before_roles_are_known() {
    let mut world = World::new();
    world.end(SERVER).psn = Psn::new(0xff_ffff);
    let callback = call_to(9, [0x4000_0000, 1, 1], "'' 1 0 1 11 #16 1 0 0 1 0");
    let (call, answer) = getattr(9);
    world.send(SERVER, &message(&msg(9), &callback));
    world.ack(CLIENT);
    world.send(CLIENT, &message(&msg(9), &reply(9, "0 '' 1 11 0 #16 1 0 0 0")));
    world.send(CLIENT, &call);
    world.send(SERVER, &answer);
    world.ack(CLIENT);
    let (call, answer) = (Some(StepKind::Call), Some(StepKind::Reply));
    assert_eq!(
        roles(&world.frames),
        [
            ("part", 9, call),
            ("ack", 9, call),
            ("part", 9, answer),
            ("part", 9, call),
            ("part", 9, answer),
            ("ack", 9, answer)
        ]
    );
}
