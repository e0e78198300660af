//! Connections reported by a host's kernel: correct, outdated and wrong.

use crate::report::*;
use rdmascope_dissector::connection::{Evidence, KnownConnection, KnownEnd, Origin};
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::frame::Address;
use rdmascope_dissector::observation::{Observation, Observe, Observed};
use rdmascope_dissector::phases::Phases;
use rdmascope_testkit::messages::*;
use rdmascope_testkit::world::*;
use rdmascope_wire::Qpn;
use rdmascope_wire::bth::Extensions;
use rdmascope_wire::psn::Psn;

/// The report of the client's kernel before the first packet.
fn hint(world: &mut World) -> KnownConnection {
    let mut end = |side: usize| {
        let End { address, qpn, psn, .. } = *world.end(side);
        KnownEnd { address: Address::V4(address), qpn, next_psn: Some(psn) }
    };
    KnownConnection {
        local: end(CLIENT),
        remote: end(SERVER),
        local_is_requester: Some(true),
        port: Some(20049),
        speaks_rpc: true,
        is_snooped: false,
    }
}

#[test]
fn first_packet_confirms_a_reported_pair() {
    for first in [CLIENT, SERVER] {
        let mut world = World::new();
        let hint = hint(&mut world);
        world.send(first, &getattr(1).0);
        let report = run_knowing(&world.frames, &[hint]);
        let [connection] = &report.connections[..] else { panic!("one connection") };
        assert_eq!((connection.origin, connection.port), (Origin::Kernel, Some(20049)));
        assert!(connection.roles_known);
        assert_eq!(connection.requester.qpn, Some(world.end(CLIENT).qpn));
        assert_eq!(connection.responder.qpn, Some(world.end(SERVER).qpn));
        assert_eq!(connection.call_inline_threshold, None, "the negotiated values are unknown");
        assert_eq!((report.totals.known_connections, report.totals.contradicted_connections), (1, 0));
    }
}

#[test]
fn hint_and_inference_yield_equal_results() {
    let mut world = World::new();
    let hint = hint(&mut world);
    world.getattr(1);
    let (hinted, inferred) = (run_knowing(&world.frames, &[hint]), world.run());
    assert_eq!(hinted.connections[0].origin, Origin::Kernel);
    assert_eq!(hinted.connections.len(), 1);
    assert_eq!(format!("{:?}", hinted.transactions), format!("{:?}", inferred.transactions));
    assert_eq!(hinted.connections[0].requester.sent, inferred.connections[0].requester.sent);
}

/// The kernel reported queue pairs that were reused since: their PSNs are elsewhere.
#[test]
fn outdated_hint_is_rejected() {
    for (local, remote) in [(3_000_000, 0), (0, 3_000_000)] {
        let mut world = World::new();
        let mut hint = hint(&mut world);
        let far = |end: &mut KnownEnd, by: u32| end.next_psn = end.next_psn.map(|psn| psn.plus(by));
        far(&mut hint.local, local);
        far(&mut hint.remote, remote);
        // No ACK comes first: an ACK of a packet just sent would confirm the pair.
        world.getattr_without_acks(1);
        let report = run_knowing(&world.frames, &[hint]);
        let [connection] = &report.connections[..] else { panic!("one connection") };
        assert!(matches!(connection.origin, Origin::Inferred(_)), "{:?}", connection.origin);
        assert_eq!(report.totals.contradicted_connections, 1);
        assert!(report.totals.first_contradiction.is_some());
        assert_complete(report.one());
    }
}

/// A PSN may be slightly lower, for a retransmission, or higher by the packets sent while the
/// capture started.
#[test]
fn hint_psn_may_differ_slightly() {
    for by in [-100i32, 100_000] {
        let mut world = World::new();
        let mut hint = hint(&mut world);
        for end in [&mut hint.local, &mut hint.remote] {
            let psn = end.next_psn.unwrap().value();
            end.next_psn = Some(Psn::new(psn.wrapping_add_signed(-by)));
        }
        world.getattr(1);
        assert_eq!(run_knowing(&world.frames, &[hint]).connections[0].origin, Origin::Kernel);
    }
}

/// The queue pair of one end was reused, so the other half-flow differs from the report. Only
/// evidence shows this.
#[test]
fn evidence_overrides_a_hint() {
    let mut world = World::new();
    let mut hint = hint(&mut world);
    hint.local.qpn = Qpn(0x55);
    world.getattr_without_acks(1);
    let report = run_knowing(&world.frames, &[hint]);
    let [connection] = &report.connections[..] else { panic!("one connection: {:?}", report.connections) };
    assert_eq!(connection.origin, Origin::Inferred(Evidence { xid: true, ..Evidence::default() }));
    assert_eq!(connection.requester.qpn, Some(world.end(CLIENT).qpn));
    assert_eq!((report.totals.contradicted_connections, report.totals.first_contradiction), (1, Some(2)));
    assert_complete(report.one());
}

/// Once both half-flows have confirmed the reported PSNs, another half-flow with evidence is a
/// separate connection.
#[test]
fn confirmed_hint_overrides_evidence() {
    for shown in [false, true] {
        let mut world = World::new();
        let hint = hint(&mut world);
        world.send(CLIENT, &getattr(1).0);
        if shown {
            world.ack(SERVER);
            world.send(SERVER, &getattr(1).1);
        }
        world.send(CLIENT, &getattr(2).0);
        // A reply to it, for another queue pair of the client.
        world.end(CLIENT).qpn = Qpn(0x55);
        let unmatched = world.send(SERVER, &getattr(2).1).start as u64 + 1;
        let report = run_knowing(&world.frames, &[hint]);
        let origins: Vec<_> = report.connections.iter().map(|connection| connection.origin).collect();
        let contradiction = (report.totals.contradicted_connections, report.totals.first_contradiction);
        if shown {
            assert_eq!(origins, [Origin::Kernel, Origin::Inferred(Evidence::default())]);
            assert_eq!(contradiction, (0, None));
        } else {
            assert_eq!(origins, [Origin::Inferred(Evidence { xid: true, ..Evidence::default() })]);
            assert_eq!(contradiction, (1, Some(unmatched)));
        }
    }
}

#[test]
fn cm_exchange_overrides_a_hint() {
    let mut world = World::new();
    let hint = hint(&mut world);
    world.connect();
    world.getattr(1);
    let report = run_knowing(&world.frames, &[hint]);
    let [connection] = &report.connections[..] else { panic!("one connection") };
    assert_eq!((connection.origin, connection.call_inline_threshold), (Origin::Cm, Some(4096)));
    assert_complete(report.one());

    // The reported connection ends, and its queue pairs are reused.
    let mut world = World::new();
    let hint = self::hint(&mut world);
    world.getattr(1);
    world.add([0x11, 0x22], [7_000_000, 9_000_000]);
    world.connect();
    world.send(CLIENT, &getattr(2).0);
    world.ack(SERVER);
    world.send(SERVER, &getattr(2).1);
    let report = run_knowing(&world.frames, &[hint]);
    let origins: Vec<_> = report.connections.iter().map(|connection| connection.origin).collect();
    assert_eq!(origins, [Origin::Kernel, Origin::Cm]);
    assert_complete(report.xid(1));
    assert_complete(report.xid(2));
}

/// An ACK for an impossible PSN is a fault. It gives the connection a number whether or not
/// observations are enabled.
#[test]
fn fault_assigns_a_connection_number() {
    let mut world = World::new();
    let hint = KnownConnection { speaks_rpc: false, ..hint(&mut world) };
    world.write(CLIENT, segment(7, 8, 0x1000), b"no RPCs");
    world.end(CLIENT).psn = world.end(CLIENT).psn.plus(70_000);
    world.ack(SERVER);
    for observe in [Observe::Nothing, Observe::Events, Observe::All] {
        let mut engine = Engine::new(Config { observe, ..Config::default() });
        engine.know(hint);
        for (number, frame) in (1..).zip(&world.frames) {
            engine.handle(&record(frame, number), &mut |_| {});
        }
        assert_eq!(engine.totals().connections, 1, "{observe:?}");
    }
}

#[test]
fn hint_without_packets_is_no_connection() {
    let mut world = World::new();
    let mut other = hint(&mut world);
    let hint = other;
    (other.local.qpn, other.remote.qpn) = (Qpn(0x77), Qpn(0x88));
    world.getattr(1);
    let report = run_knowing(&world.frames, &[other, hint]);
    assert_eq!((report.connections.len(), report.totals.known_connections), (1, 2));
}

/// A session of Sends only: a READ with a Write chunk and a WRITE with a Read chunk, whose data no
/// packet moves.
fn sends_only(world: &mut World) {
    let chunk = || vec![segment(7, 300, 0x1000)];
    let mut call = msg(1);
    call.writes = vec![chunk()];
    world.send(CLIENT, &message(&call, &nfs3(1, 6, "'handle' h0 300")));
    let mut answer = msg(1);
    answer.writes = vec![chunk()];
    world.send(SERVER, &message(&answer, &reply(1, "0 0 300 1 300")));
    world.getattr_without_acks(2);
}

/// Messages from a kernel's transport come without RDMA data, so missing data is a limit of the
/// capture. If packets were captured, it is not.
#[test]
fn data_of_a_snooped_connection_is_unseen() {
    for is_snooped in [true, false] {
        let mut world = World::new();
        let hint = KnownConnection { is_snooped, ..hint(&mut world) };
        sends_only(&mut world);
        let report = run_knowing(&world.frames, &[hint]);
        let [read, getattr] = &report.transactions[..] else { panic!("two transactions") };
        assert_eq!(read.reply.as_ref().unwrap().missing.len(), 1);
        assert_eq!((read.capture_gap, getattr.capture_gap), (is_snooped, false));
        assert_eq!((read.memory_unseen, getattr.memory_unseen), (is_snooped, is_snooped));
        assert_eq!(Phases::of(getattr).is_none(), is_snooped);
        let origin = if is_snooped { Origin::Snoop } else { Origin::Kernel };
        assert_eq!((report.connections.len(), report.connections[0].origin), (1, origin));
        // The ICRC of a composed frame does not count.
        assert_eq!(report.totals.icrc.iter().sum::<u64>(), if is_snooped { 0 } else { 4 });
    }
}

/// A composed frame has a complete message, whatever the path MTU.
#[test]
fn long_packet_of_a_snooped_connection_is_no_fault() {
    for is_snooped in [true, false] {
        let mut world = World::new();
        let hint = KnownConnection { is_snooped, ..hint(&mut world) };
        let psn = world.end(CLIENT).psn;
        let only = 0x04;
        world.packet(CLIENT, only, psn, Extensions::default(), &[getattr(1).0, vec![0; 5000]].concat());
        let mut engine = Engine::new(Config { observe: Observe::All, ..Config::default() });
        engine.know(hint);
        let mut faults = 0;
        for (index, frame) in world.frames.iter().enumerate() {
            engine.handle(&record(frame, index as u64 + 1), &mut |event| {
                faults += u64::from(matches!(
                    event,
                    Event::Observation(Observation { kind: Observed::Faulty(_), .. })
                ));
            });
        }
        assert_eq!(faults, u64::from(!is_snooped));
    }
}
