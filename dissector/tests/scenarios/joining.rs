//! Pairing of half-flows: the connection has the facts of both.

use crate::report::*;
use rdmascope_dissector::connection::{Connection, Evidence, Origin, State};
use rdmascope_dissector::transaction::{Direction, Outcome};
use rdmascope_testkit::messages::*;
use rdmascope_testkit::world::*;
use std::net::Ipv4Addr;

#[track_caller]
fn only(report: &Report) -> &Connection {
    let [connection] = &report.connections[..] else {
        panic!("one connection, not {:?}", report.connections)
    };
    // Each half-flow may have had a number of its own.
    assert_eq!(report.totals.connections, 1);
    connection
}

/// A call of the callback program: CB_NULL, with which a server probes a backchannel, or another
/// procedure.
fn cb(xid: u32, procedure: u32) -> Vec<u8> {
    call_to(xid, [0x4000_0000, 1, procedure], "")
}

fn cb_null(xid: u32) -> Vec<u8> {
    message(&msg(xid), &cb(xid, 0))
}

#[test]
fn transactions_of_both_half_flows_are_counted_once() {
    // Each end reuses an XID for another call, so its first transaction ends before the half-flows
    // are paired.
    for from in [[CLIENT, SERVER], [SERVER, CLIENT]] {
        let mut world = World::new();
        for from in from {
            for round in 0..=2 {
                let call = if from == CLIENT { nfs3(7, 1 + round, "'handle'") } else { cb(40, round) };
                world.send(from, &message(&msg(if from == CLIENT { 7 } else { 40 }), &call));
            }
        }
        world.ack(SERVER);
        world.ack(CLIENT);
        let report = world.run();
        let of = |direction| report.transactions.iter().filter(|it| it.direction == direction).count() as u64;
        let connection = only(&report);
        assert_eq!(connection.transactions, [3, 3]);
        assert_eq!(connection.transactions, [of(Direction::Forward), of(Direction::Backward)]);
        assert_eq!(
            connection.requester.qpn,
            Some(world.end(CLIENT).qpn),
            "the NFS caller opened the connection"
        );
        assert!(connection.roles_known);
    }
}

#[test]
fn counts_of_half_flows_go_to_their_ends() {
    for first in [CLIENT, SERVER] {
        let mut world = World::new();
        for from in [first, 1 - first] {
            // A call of each end, retransmitted.
            let call = if from == CLIENT { getattr(1).0 } else { cb_null(9) };
            let call = world.send(from, &call);
            world.again(call);
        }
        world.ack(SERVER);
        world.ack(CLIENT);
        let connection = only(&world.run()).clone();
        let ends = [connection.requester, connection.responder];
        assert_eq!(ends.map(|end| end.sent.repeated_packets), [1, 1], "{first}");
        let again = if first == CLIENT { [2, 4] } else { [4, 2] };
        assert_eq!(ends.map(|end| end.first_frames.repeated_packet), again.map(Some));
        assert_eq!(ends.map(|end| (end.sent.sends, end.sent.acknowledgements)), [(1, 1), (1, 1)]);
    }
}

/// If a half-flow carries something other than RPC-over-RDMA, so does its connection.
#[test]
fn foreign_half_flow_makes_connection_foreign() {
    for carry in [&[CLIENT][..], &[SERVER], &[CLIENT, SERVER], &[]] {
        let mut world = World::new();
        for from in carry {
            // 64 bytes of an unknown protocol.
            world.send(*from, &[0xaa; 64]);
        }
        if carry.is_empty() {
            world.write(CLIENT, segment(7, 8, 0), &data(8));
        }
        world.ack(SERVER);
        world.ack(CLIENT);
        let connection = only(&world.run()).clone();
        assert_eq!((connection.protocol, connection.is_foreign), (None, !carry.is_empty()), "{carry:?}");
    }
}

#[test]
fn capture_gap_of_half_flow_applies_to_connection() {
    // The server's reply is lost before any packet shows that the server's half-flow belongs to the
    // call.
    for gaps in [1, 2] {
        let mut world = World::new();
        let mut lost = Vec::new();
        for xid in 1..=gaps {
            world.send(CLIENT, &getattr(xid).0);
            world.send(SERVER, &cb_null(50 + xid));
            lost.extend(world.send(SERVER, &getattr(xid).1));
        }
        // Enough packets after a gap to give it up.
        for xid in 100..300 {
            world.send(SERVER, &cb_null(xid));
        }
        world.ack(SERVER);
        let report = world.run_without(lost);
        let connection = only(&report);
        assert_eq!(connection.responder.sent.missing_packets, u64::from(gaps));
        for xid in 1..=gaps {
            let call = report.xid(xid);
            assert_eq!((call.outcome, call.capture_gap), (Outcome::CutOff, true), "{call:?}");
        }
    }
}

#[test]
fn facts_of_lone_req_survive_pairing() {
    let mut world = World::new();
    let named = [Ipv4Addr::new(198, 51, 100, 1), Ipv4Addr::new(198, 51, 100, 2)];
    world.named = Some(named);
    world.req();
    world.getattr(1);
    let connection = only(&world.run()).clone();
    assert_eq!((connection.origin, connection.state), (Origin::Cm, State::Open));
    let ends = [connection.requester, connection.responder];
    assert_eq!(ends.map(|end| end.ip), named.map(|ip| Some(ip.into())));
    assert_eq!(ends.map(|end| end.first_frames.cm_message), [Some(1), None]);
    assert_eq!(ends.map(|end| end.private_data.is_some()), [true, false]);
    assert_eq!(ends.map(|end| end.qpn), [CLIENT, SERVER].map(|side| Some(world.end(side).qpn)));
    assert_eq!(ends.map(|end| end.first_frames.sound), [Some(2), Some(3)]);
}

#[test]
fn facts_of_lone_rep_survive_pairing() {
    // The capture has packets of the server before its REP, or after it.
    for traffic_first in [false, true] {
        let mut world = World::new();
        if traffic_first {
            world.send(SERVER, &cb_null(9));
        }
        world.rep();
        let rep = world.frames.len() as u64;
        world.getattr(1);
        let connection = only(&world.run()).clone();
        assert!(connection.roles_known);
        let ends = [connection.requester, connection.responder];
        assert_eq!(
            ends.map(|end| end.qpn),
            [CLIENT, SERVER].map(|side| Some(world.end(side).qpn)),
            "{traffic_first}"
        );
        assert_eq!(ends.map(|end| end.first_frames.cm_message), [None, Some(rep)], "{traffic_first}");
        assert_eq!(ends.map(|end| end.private_data.is_some()), [false, true], "{traffic_first}");
    }
}

/// Private data (RFC 8797) that the capture cut is unknown, not absent. Only absent data means the
/// default (RFC 8166, section 3.3.3).
#[test]
fn truncated_private_data_is_unknown_not_absent() {
    let mut world = World::new();
    // After 160 bytes of another layer, so the snap length keeps the private data of the REQ but
    // not that of the REP.
    world.private_data[SERVER].splice(0..0, [0; 160]);
    let snap = 14 + 20 + 8 + 12 + 8 + 212;
    world.rep();
    world.getattr(1);
    world.req();
    let thresholds =
        |report: Report| (only(&report).call_inline_threshold, only(&report).reply_inline_threshold);
    assert_eq!(thresholds(run_cut(&world.frames, snap)), (None, None));
    assert_eq!(thresholds(world.run()), (Some(4096), Some(4096)));
    // Complete messages without private data prove that it is absent.
    world.private_data[SERVER].clear();
    world.frames.clear();
    world.rep();
    world.getattr(1);
    world.req();
    assert_eq!(thresholds(world.run()), (Some(1024), Some(1024)));
}

#[test]
fn rejected_connection_with_traffic_stays_rejected() {
    let mut world = World::new();
    world.rep();
    world.rej(28);
    world.getattr(1);
    let connection = only(&world.run()).clone();
    assert_eq!(connection.state, State::Rejected(28), "traffic answers a REQ, not a REJ");
    let ends = [connection.requester, connection.responder];
    assert_eq!(ends.map(|end| end.first_frames.reject), [None, Some(2)]);
}

#[test]
fn communication_ids_end_with_paired_connection() {
    // A REQ, traffic, DREQ. Long after the connection has ended, its communication IDs are reused.
    for captured in ["REQ", "REP"] {
        let mut world = World::new();
        if captured == "REQ" {
            world.req()
        } else {
            world.rep()
        }
        world.getattr(1);
        world.disconnect(SERVER);
        world.wait(3_600_000_000_000);
        world.add([0x33, 0x44], [700_000, 9_000]);
        world.connect();
        world.on = 0;
        world.connect();
        world.getattr(2);
        let report = world.run();
        assert_eq!(
            report.connections.iter().map(|it| it.state).collect::<Vec<_>>(),
            [State::Closed, State::Open, State::Open]
        );
        report.transactions.iter().for_each(assert_complete);
    }
}

#[test]
fn caller_counts_as_requester_if_its_call_is_unknown() {
    // A Long Call that the responder does not read. The server's half-flow is seen first and has
    // the first number.
    let mut world = World::new();
    let before = world.end(CLIENT).psn.minus(9);
    world.nak(SERVER, before);
    let mut call = nomsg(1);
    call.reads = vec![read_segment(0, segment(7, 200, 0x1000))];
    world.send(CLIENT, &message(&call, &[]));
    world.ack(SERVER);
    let report = world.run();
    let connection = only(&report);
    assert!(!connection.roles_known);
    assert_eq!(connection.requester.qpn, Some(world.end(CLIENT).qpn));
    assert_eq!(connection.responder.sent.sequence_naks, 1);
    assert_eq!(report.one().direction, Direction::Forward);
}

#[test]
fn roles_shown_by_call_survive_pairing() {
    // The XID is reused, so a call ends before the half-flows are paired. The server's half-flow
    // has the first number.
    let mut world = World::new();
    let before = world.end(CLIENT).psn.minus(9);
    world.nak(SERVER, before);
    for procedure in [1, 3] {
        world.send(CLIENT, &message(&msg(1), &nfs3(1, procedure, "'handle'")));
    }
    world.ack(SERVER);
    let report = world.run();
    let connection = only(&report);
    assert!(connection.roles_known);
    assert_eq!(connection.requester.qpn, Some(world.end(CLIENT).qpn));
    assert_eq!(connection.transactions, [2, 0]);
}

#[test]
fn only_first_packet_of_message_has_an_xid() {
    // The second packet of the server's message would be a reply if it were the first.
    let mut world = World::new();
    world.send(CLIENT, &getattr(1).0);
    let mut bytes = cb_null(9);
    bytes.resize(MTU, 0);
    bytes.extend(getattr(1).1);
    world.send(SERVER, &bytes);
    assert_eq!(world.run().connections.len(), 2);
    world.send(SERVER, &getattr(1).1);
    assert_eq!(world.run().connections.len(), 1);
}

#[test]
fn first_pairing_evidence_is_reported() {
    let mut world = World::new();
    world.send(CLIENT, &getattr(1).0);
    world.ack(SERVER);
    world.send(SERVER, &getattr(1).1);
    let evidence = Evidence { acknowledged_psn: true, ..Evidence::default() };
    assert_eq!(only(&world.run()).origin, Origin::Inferred(evidence), "only the first evidence counts");
}
