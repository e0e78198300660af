//! Pairing of half-flows, by CM (IBTA volume 1, section 12.9; RFC 8797) or by inference.

use crate::report::*;
use rdmascope_dissector::connection::{Connection, Evidence, Origin, State};
use rdmascope_dissector::transaction::Outcome;
use rdmascope_testkit::messages::*;
use rdmascope_testkit::world::*;
use rdmascope_wire::Rkey;
use rdmascope_wire::cm::CommunicationId;
use rdmascope_wire::psn::Psn;
use rdmascope_wire::rpcrdma::{Procedure, Segment};

const NONE: Evidence = Evidence { acknowledged_psn: false, xid: false, rkey: false };

#[test]
fn cm_connection_is_tracked_from_req_to_drep() {
    let mut world = World::connected();
    world.getattr(1);
    world.disconnect(CLIENT);
    let report = world.run();
    let [connection] = &report.connections[..] else { panic!("one connection") };
    assert_eq!((connection.origin, connection.state), (Origin::Cm, State::Closed));
    assert!(connection.roles_known);
    assert_eq!((connection.port, connection.path_mtu), (Some(20049), Some(256)));
    assert_eq!(connection.requester.qpn, Some(world.end(CLIENT).qpn));
    assert_eq!(connection.responder.qpn, Some(world.end(SERVER).qpn));
    let thresholds = (connection.call_inline_threshold, connection.reply_inline_threshold);
    assert_eq!(thresholds, (Some(4096), Some(4096)));
    assert_eq!(connection.remote_invalidation, Some(false));
    assert_eq!(connection.requester.sent.sends, 1);
    assert_eq!(report.totals.cm_messages, 5);
}

#[test]
fn each_direction_has_its_own_inline_threshold() {
    // RFC 8797, section 4.2: the smaller of one end's send size and the other's receive size.
    let mut world = World::new();
    world.private_data = [private_data(8192, 2048), private_data(4096, 16384)];
    world.connect();
    let connection = &world.run().connections[0];
    assert_eq!(connection.call_inline_threshold, Some(8192));
    assert_eq!(connection.reply_inline_threshold, Some(2048));
    let data = connection.requester.private_data.unwrap();
    assert_eq!((data.send_size, data.receive_size, data.offset), (8192, 2048, 0));
}

#[test]
fn default_thresholds_apply_without_private_data() {
    // RFC 8166, section 3.3.3: 1024 bytes, each way.
    for silent in [CLIENT, SERVER] {
        let mut world = World::new();
        world.private_data[silent].clear();
        world.connect();
        let connection = &world.run().connections[0];
        assert_eq!(connection.call_inline_threshold, Some(1024));
        assert_eq!(connection.reply_inline_threshold, Some(1024));
        assert_eq!(connection.requester.private_data.is_none(), silent == CLIENT);
        assert_eq!(connection.responder.private_data.is_none(), silent == SERVER);
    }
}

#[test]
fn private_data_is_found_at_an_odd_offset() {
    // RFC 8797, section 5.2: other layers may put their data before it.
    let mut world = World::new();
    for side in [CLIENT, SERVER] {
        world.private_data[side].splice(0..0, [1, 2, 3]);
    }
    world.connect();
    let connection = &world.run().connections[0];
    assert_eq!(connection.requester.private_data.unwrap().offset, 3);
    assert_eq!(connection.responder.private_data.unwrap().offset, 3);
    assert_eq!(connection.call_inline_threshold, Some(4096));
}

#[test]
fn private_data_of_another_version_is_ignored() {
    let mut world = World::new();
    world.private_data[SERVER][4] = 2;
    world.connect();
    let connection = &world.run().connections[0];
    assert_eq!(connection.responder.private_data.unwrap().version, 2, "the version is kept as sent");
    assert_eq!(connection.call_inline_threshold, Some(1024));
}

#[test]
fn rej_gives_connection_the_rejected_state() {
    let mut world = World::new();
    world.req();
    world.rej(28);
    let report = world.run();
    assert_eq!(report.connections.len(), 1);
    let connection = &report.connections[0];
    assert_eq!(connection.state, State::Rejected(28));
    let (requester, responder) = (connection.requester.first_frames, connection.responder.first_frames);
    assert_eq!((requester.cm_message, requester.reject), (Some(1), None));
    assert_eq!((responder.cm_message, responder.reject), (Some(2), Some(2)));
    assert_eq!(report.connections[0].call_inline_threshold, None);
    assert!(report.transactions.is_empty());
}

/// A client may send another REQ from the same queue pair. A REQ that was rejected or never
/// answered made no connection, so the next REQ closes none.
#[test]
fn each_new_req_from_a_queue_pair_is_a_connection() {
    let mut world = World::new();
    for id in 0..3 {
        world.end(CLIENT).communication_id = CommunicationId(0x100 + id);
        world.req();
        if id < 2 {
            world.rej(8);
        }
    }
    world.end(CLIENT).communication_id = CommunicationId(0x200);
    world.connect();
    world.end(CLIENT).communication_id = CommunicationId(0x300);
    world.connect();
    let states: Vec<State> = world.run().connections.iter().map(|connection| connection.state).collect();
    let rejected = State::Rejected(8);
    assert_eq!(states, [rejected, rejected, State::Requested, State::Closed, State::Open]);
}

#[test]
fn repeated_cm_messages_make_one_connection() {
    let mut world = World::new();
    world.req();
    world.req();
    world.rep();
    world.rep();
    world.rtu();
    world.req();
    world.rep();
    world.getattr_without_acks(1);
    world.rep();
    let report = world.run();
    assert_eq!(report.connections.len(), 1);
    assert_eq!(report.connections[0].state, State::Open);
    assert_complete(report.one());
}

/// The connections of a capture that has one direction only, from before the connection is made.
/// The CM message has the first PSN of the other end, which the first ACK acknowledges.
fn one_direction(from: usize, between: impl FnOnce(&mut World)) -> Vec<Connection> {
    let mut world = World::new();
    world.connect();
    between(&mut world);
    world.on = 0;
    world.getattr(1);
    world.disconnect(from);
    world.frames.retain(|frame| frame.from == from);
    world.run().connections
}

#[test]
fn packets_of_one_direction_make_one_connection() {
    for (from, private_data) in [(CLIENT, [true, false]), (SERVER, [false, true])] {
        let connections = one_direction(from, |_| ());
        let [connection] = &connections[..] else { panic!("{from}: one connection, not {connections:?}") };
        let ends = [&connection.requester, &connection.responder];
        assert_eq!(ends.map(|end| end.private_data.is_some()), private_data);
        let absent = [ends[0].is_absent(ends[1]), ends[1].is_absent(ends[0])];
        assert_eq!(absent, [from == SERVER, from == CLIENT]);
        assert!(ends.iter().all(|end| end.qpn.is_some()));
        assert_eq!(connection.state, State::Closed);
        // The REQ or the REP, seen before the half-flow with the ACK.
        assert_eq!(ends[from].first_frames.cm_message, Some(1));
        // Another connection between the same hosts does not matter if its PSNs are elsewhere; with
        // the same PSNs, the pairing stays open.
        let elsewhere = one_direction(from, |world| {
            world.add([0x33, 0x44], [7_000_000, 8_000_000]);
            world.connect();
        });
        assert_eq!(elsewhere.len(), 2);
        let alike = one_direction(from, |world| {
            world.add([0x33, 0x44], [1_000, 500_000]);
            world.connect();
        });
        assert_eq!(alike.len(), 3);
    }
}

/// Packets of both ends show that a REQ was accepted, even if the capture has no REP.
#[test]
fn traffic_opens_a_connection_without_rep() {
    let mut world = World::new();
    world.req();
    world.send(CLIENT, &getattr(1).0);
    let requested = world.run().connections;
    assert_eq!(
        requested.iter().map(|connection| connection.state).collect::<Vec<_>>(),
        [State::Requested, State::Open]
    );
    world.send(SERVER, &getattr(1).1);
    world.ack(CLIENT);
    let [connection] = &world.run().connections[..] else { panic!("one connection") };
    assert_eq!((connection.origin, connection.state), (Origin::Cm, State::Open));
    assert_eq!((connection.requester.sent.sends, connection.responder.sent.sends), (1, 1));
}

#[test]
fn req_or_rep_alone_identifies_a_connection() {
    for captured in ["REQ", "REP"] {
        let mut world = World::new();
        if captured == "REQ" {
            world.req()
        } else {
            world.rep()
        }
        world.rtu();
        world.getattr(1);
        world.disconnect(SERVER);
        let report = world.run();
        assert_complete(report.one());
        let [connection] = &report.connections[..] else { panic!("one connection") };
        assert_eq!(connection.state, State::Closed);
        assert!(connection.roles_known);
        assert_eq!(connection.requester.qpn, Some(world.end(CLIENT).qpn));
        assert_eq!(connection.responder.qpn, Some(world.end(SERVER).qpn));
        assert_eq!(connection.requester.private_data.is_some(), captured == "REQ");
        assert_eq!(connection.responder.private_data.is_some(), captured == "REP");
        // One side's private data is unknown, so the negotiated values are too.
        assert_eq!(connection.call_inline_threshold, None, "{captured} alone");
        assert_eq!(connection.remote_invalidation, None, "{captured} alone");
    }
}

#[test]
fn rep_before_req_makes_one_connection() {
    let mut world = World::new();
    world.rep();
    world.req();
    world.rtu();
    world.getattr_without_acks(1);
    let report = world.run();
    assert_complete(report.one());
    let [connection] = &report.connections[..] else { panic!("one connection") };
    assert_eq!((connection.origin, connection.path_mtu), (Origin::Cm, Some(256)));
    assert_eq!(connection.call_inline_threshold, Some(4096));
}

/// Two taps may show the client's first packets up to 2 ms before the REP that they follow. Packets
/// of another PSN belong to an earlier connection.
#[test]
fn calls_up_to_2_ms_before_rep_join_its_connection() {
    for (has_req, waits, skips, is_one) in [
        (true, 2_000_000, 0, true),
        (true, 2_000_001, 0, false),
        (true, 1_000_000, 64, true),
        (true, 1_000_000, 65, false),
        // The REP alone does not show the other half-flow.
        (false, 1_000_000, 0, false),
    ] {
        let mut world = World::new();
        let first = world.end(CLIENT).psn;
        world.end(CLIENT).psn = first.plus(skips);
        if has_req {
            world.req();
        }
        let (call, answer) = getattr(1);
        let sent = world.send(CLIENT, &call);
        let next = core::mem::replace(&mut world.end(CLIENT).psn, first);
        world.rep();
        let rep = world.frames.last().unwrap().time;
        world.frames[sent.start].time = rep - waits;
        world.end(CLIENT).psn = next;
        world.rtu();
        world.send(SERVER, &answer);
        world.ack(CLIENT);
        let report = world.run();
        let at = format!("{has_req} {waits} ns, {skips} packets");
        assert_eq!(report.connections.len() == 1, is_one, "{at}");
        if is_one {
            assert_complete(report.one());
            let connection = &report.connections[0];
            assert_eq!((connection.origin, connection.state), (Origin::Cm, State::Open), "{at}");
            assert_eq!(connection.call_inline_threshold, Some(4096), "{at}");
        }
    }
}

#[test]
fn communication_ids_are_reused_after_inferred_pairing() {
    // The REP is not captured, and traffic pairs the half-flows; then the same IDs and queue pairs
    // connect twice more.
    let mut world = World::new();
    world.req();
    for round in 1..4 {
        world.getattr(round);
        world.disconnect(CLIENT);
        let first = world.end(CLIENT).psn;
        world.end(CLIENT).psn = first.plus(77_777);
        world.end(CLIENT).qpn.0 += u32::from(round == 1);
        world.connect();
    }
    let report = world.run();
    assert_eq!(report.transactions.len(), 3);
    report.transactions.iter().for_each(assert_complete);
    assert_eq!(report.connections.len(), 4);
}

#[test]
fn second_rep_with_other_ids_replaces_the_first() {
    // The capture has no REQ, and a second REP with another queue pair and another ID. Then both
    // ends connect again, and late messages for the first ID and queue pair follow.
    let mut world = World::new();
    world.rep();
    let first = world.connections[0];
    world.end(SERVER).qpn.0 = 0x99;
    world.end(SERVER).communication_id.0 += 9;
    world.rep();
    for side in [CLIENT, SERVER] {
        world.end(side).communication_id.0 += 0x100;
    }
    world.connect();
    world.getattr_without_acks(1);
    world.connections.push(first);
    world.on = 1;
    world.rtu();
    world.send(CLIENT, &getattr(2).0);
    world.disconnect(CLIENT);
    let report = world.run();
    assert_complete(report.xid(1));
    assert_eq!(report.xid(2).outcome, Outcome::NoReply);
}

#[test]
fn acknowledged_psn_alone_pairs_half_flows() {
    // The call is acknowledged; its reply is not captured.
    let mut world = World::new();
    world.send(CLIENT, &getattr(1).0);
    world.ack(SERVER);
    let report = world.run();
    let [connection] = &report.connections[..] else { panic!("one connection") };
    assert_eq!(connection.origin, Origin::Inferred(Evidence { acknowledged_psn: true, ..NONE }));
    assert_eq!(connection.requester.qpn, Some(world.end(CLIENT).qpn));
    assert_eq!(connection.responder.qpn, Some(world.end(SERVER).qpn));
    assert_eq!(connection.call_inline_threshold, None);
    assert_eq!(report.one().outcome, Outcome::CutOff);
}

/// Every packet of a message except the last is as long as the path MTU (IBTA volume 1, section
/// 9.7.2.1), so packets show it without a REQ.
#[test]
fn path_mtu_is_inferred_from_packets() {
    for (bytes, shown) in [(400, Some(256)), (0, None)] {
        let mut world = World::new();
        let mut call = nfs3(1, 1, "'handle'");
        call.resize(call.len() + bytes, 0);
        world.send(CLIENT, &message(&msg(1), &call));
        world.ack(SERVER);
        let report = world.run();
        let [connection] = &report.connections[..] else { panic!("one connection") };
        assert_eq!(connection.path_mtu, shown);
    }
}

/// A half-flow with only RDMA WRITEs has no events, and no number while another half-flow waits
/// that it may be paired with.
#[test]
fn writes_alone_assign_no_connection_number() {
    let mut world = World::new();
    // A Send of another connection, which waits for its other half-flow.
    world.send(CLIENT, &[0xaa; 8]);
    world.add([0x33, 0x44], [7_000, 800_000]);
    for _ in 0..100 {
        world.write(SERVER, segment(7, 8, 0x1000), &data(8));
    }
    world.add([0x55, 0x66], [90_000, 950_000]);
    world.send(CLIENT, &getattr(1).0);
    world.send(SERVER, &getattr(1).1);
    let report = world.run();
    let mut ids: Vec<_> = report
        .connections
        .iter()
        .map(|it| (it.id.0, it.requester.sent.writes + it.responder.sent.writes, it.transactions))
        .collect();
    ids.sort();
    assert_eq!(ids, [(1, 0, [0, 0]), (2, 0, [1, 0]), (3, 100, [0, 0])]);
}

#[test]
fn xid_alone_pairs_half_flows() {
    let mut world = World::new();
    world.send(CLIENT, &getattr(1).0);
    world.send(SERVER, &getattr(1).1);
    let report = world.run();
    let [connection] = &report.connections[..] else { panic!("one connection") };
    assert_eq!(connection.origin, Origin::Inferred(Evidence { xid: true, ..NONE }));
    assert_complete(report.one());
}

#[test]
fn rkey_alone_pairs_half_flows() {
    for reading in [false, true] {
        let chunk = segment(7, 200, 0x1000);
        let mut world = World::new();
        let mut call = msg(1);
        if reading {
            call.reads = vec![read_segment(CALL_HEADER + 32, chunk)];
            world.send(CLIENT, &message(&call, &nfs3(1, 7, "'handle' h0 200 2 200")));
            world.read(SERVER, chunk, &data(200));
        } else {
            call.writes = vec![vec![chunk]];
            world.send(CLIENT, &message(&call, &nfs3(1, 6, "'handle' h0 200")));
            world.write(SERVER, chunk, &data(200));
        }
        let report = world.run();
        let [connection] = &report.connections[..] else { panic!("one connection") };
        assert_eq!(connection.origin, Origin::Inferred(Evidence { rkey: true, ..NONE }));
        let timing = report.one().timing;
        assert_eq!(timing.read_bytes + timing.written_bytes, 200);
    }
}

#[test]
fn half_flows_are_paired_in_mid_message() {
    // The capture begins between two packets of a reply; everything from the next call on is
    // normal.
    let mut world = World::new();
    let frames = world.send(SERVER, &message(&msg(1), &reply(1, "0 1 1 #80 600 1 *600")));
    world.frames.remove(frames.start);
    world.ack(CLIENT);
    world.getattr(2);
    let report = world.run();
    assert_eq!(report.connections.len(), 1);
    assert_complete(report.xid(2));
}

#[test]
fn capture_of_calls_alone_yields_unanswered_transactions() {
    let mut world = World::connected();
    for xid in 0..200 {
        world.getattr_without_acks(xid);
        world.ack(CLIENT);
    }
    let report = world.run_only(CLIENT);
    assert_eq!(report.transactions.len(), 200);
    assert!(
        report.transactions.iter().all(|each| each.outcome == Outcome::CutOff && names(each) == ["GETATTR"])
    );

    // In the middle of the connection, which then ends.
    world.frames.drain(..3);
    world.disconnect(CLIENT);
    let report = world.run_only(CLIENT);
    assert_eq!(report.transactions.len(), 200);
    assert_eq!(report.connections.len(), 1);
    assert!(report.transactions.iter().all(|each| each.outcome == Outcome::NoReply));
}

#[test]
fn capture_of_replies_alone_yields_no_call_outcomes() {
    for connected in [true, false] {
        let mut world = if connected { World::connected() } else { World::new() };
        for xid in 0..200 {
            world.getattr_without_acks(xid);
        }
        let report = world.run_only(SERVER);
        assert_eq!(report.transactions.len(), 200);
        for (xid, transaction) in report.transactions.iter().enumerate() {
            assert_eq!((transaction.outcome, transaction.xid.0), (Outcome::NoCall, xid as u32));
            assert_eq!(transaction.rpc_status, Some(rdmascope_wire::rpc::Status::Success));
        }
        // No evidence pairs a REP with a half-flow that was never acknowledged.
        assert_eq!(report.connections.len(), 1 + usize::from(connected));
    }
}

/// Two connections between the same hosts, without their setup in the capture, and with the same
/// XIDs in flight on both.
fn two_connections(order: [usize; 2], acked: bool, psns: [[u32; 2]; 2], xids: [u32; 2]) -> Report {
    let mut world = World::new();
    world.connections.clear();
    world.add([0x11, 0x22], psns[0]);
    world.add([0x33, 0x44], psns[1]);
    for on in [0, 1] {
        world.on = on;
        world.send(CLIENT, &getattr(xids[on]).0);
    }
    for on in order {
        world.on = on;
        if acked {
            world.ack(SERVER);
        }
        world.send(SERVER, &getattr(xids[on]).1);
    }
    for on in [0, 1] {
        world.on = on;
        world.ack(CLIENT);
        let (call, answer) = getattr(xids[on] + 1 + on as u32);
        world.send(CLIENT, &call);
        world.ack(SERVER);
        world.send(SERVER, &answer);
    }
    world.run()
}

#[track_caller]
fn assert_kept_apart(report: &Report) {
    assert_eq!(report.connections.len(), 2);
    for connection in &report.connections {
        let pair = (connection.requester.qpn.unwrap().0, connection.responder.qpn.unwrap().0);
        assert!([(0x11, 0x22), (0x33, 0x44)].contains(&pair), "{pair:x?}");
        assert_eq!(connection.transactions, [2, 0]);
    }
    assert_eq!(report.transactions.len(), 4);
    report.transactions.iter().for_each(assert_complete);
}

#[test]
fn concurrent_connections_are_kept_apart() {
    for (order, acked) in [([0, 1], true), ([1, 0], true), ([0, 1], false), ([1, 0], false)] {
        assert_kept_apart(&two_connections(order, acked, [[1_000, 500_000], [9_000_000, 80_000]], [10, 20]));
    }
}

#[test]
fn connections_with_equal_xids_are_kept_apart() {
    for (order, acked) in [([0, 1], true), ([1, 0], true), ([0, 1], false), ([1, 0], false)] {
        assert_kept_apart(&two_connections(order, acked, [[1_000, 500_000], [9_000_000, 80_000]], [10, 10]));
    }
}

#[test]
fn connections_with_close_psns_are_kept_apart() {
    for (order, acked) in [([0, 1], true), ([1, 0], true), ([0, 1], false), ([1, 0], false)] {
        assert_kept_apart(&two_connections(order, acked, [[1_000, 500_000], [1_003, 500_002]], [10, 20]));
    }
}

/// The path MTU is unknown, so a READ has at most one response for each 256 bytes.
#[test]
fn response_beyond_a_read_is_of_another_connection() {
    let mut world = World::new();
    world.connections.clear();
    world.add([0x11, 0x22], [1_000, 500_000]);
    world.add([0x33, 0x44], [9_000_000, 504_000]);
    world.on = 0;
    world.read_request(SERVER, Segment { handle: Rkey(7), length: 8192, offset: 0x1000 }, 8192);
    world.on = 1;
    world.read_response(CLIENT, Psn::new(503_900), &[0; 4]);
    for on in [1, 0] {
        world.on = on;
        let (call, answer) = getattr(20 + on as u32);
        world.send(CLIENT, &call);
        world.ack(SERVER);
        world.send(SERVER, &answer);
    }
    let report = world.run();
    let ends = |it: &Connection| (it.requester.qpn.unwrap().0, it.responder.qpn.unwrap().0);
    let mut found: Vec<_> = report.connections.iter().map(ends).collect();
    found.sort_unstable();
    assert_eq!(found, [(0x11, 0x22), (0x33, 0x44)]);
}

#[test]
fn done_without_a_connection_is_no_transaction() {
    let mut world = World::new();
    world.send(CLIENT, &message(&header(1, Procedure::Done), &[]));
    let report = world.run();
    assert!(report.transactions.is_empty());
}

/// The connection numbers of a capture in which the server first answers requests from before the
/// capture, on the first connection.
fn numbers(earlier: impl Fn(&mut World, Psn)) -> Vec<u32> {
    let mut world = World::new();
    let before = world.end(CLIENT).psn.minus(9);
    world.send(CLIENT, &getattr(1).0);
    earlier(&mut world, before);
    world.ack(SERVER);
    world.add([0x33, 0x44], [700_000, 9_000]);
    world.send(CLIENT, &getattr(2).0);
    world.ack(SERVER);
    let mut numbers: Vec<u32> = world.run().connections.iter().map(|connection| connection.id.0).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn paired_half_flows_share_one_number() {
    assert_eq!(numbers(|_, _| {}), [1, 2], "the second half-flow is paired by its first packet");
    // READ responses to requests from before the capture cause no events, and match no half-flow.
    let responses = |count: u32| {
        numbers(move |world, before| {
            (0..count).for_each(|_| _ = world.read_response(SERVER, before, &[0; 4]));
        })
    };
    assert_eq!(responses(1), [1, 2]);
    assert_eq!(responses(1024), [1, 2], "its 1025th packet pairs it");
    assert_eq!(responses(1025), [1, 3], "its 1025th packet gives it a number");
}

#[test]
fn number_is_skipped_if_both_half_flows_had_events() {
    // A call of each end, before an acknowledgement pairs the half-flows.
    let calls_back = |world: &mut World, _| _ = world.send(SERVER, &getattr(9).0);
    assert_eq!(numbers(calls_back), [1, 3]);
}

#[test]
fn connection_numbers_follow_pairing_order() {
    let mut world = World::new();
    world.connections.clear();
    world.add([0x11, 0x22], [1_000, 500_000]);
    world.add([0x33, 0x44], [9_000_000, 80_000]);
    // Replies to calls from before the capture wait: they cause no events by themselves.
    for on in [0, 1] {
        world.on = on;
        world.send(SERVER, &getattr(7 + on as u32).1);
    }
    for on in [1, 0] {
        world.on = on;
        world.ack(CLIENT);
        world.getattr_without_acks(20 + on as u32);
    }
    let report = world.run();
    let mut found: Vec<_> = report
        .connections
        .iter()
        .map(|it| (it.id.0, it.requester.qpn.unwrap().0, it.responder.qpn.unwrap().0))
        .collect();
    found.sort_unstable();
    assert_eq!(found, [(1, 0x33, 0x44), (2, 0x11, 0x22)]);
    let of = |xid: u32| report.transactions.iter().find(|it| it.xid.0 == xid).unwrap().connection.0;
    assert_eq!([7, 20, 8, 21].map(of), [2, 2, 1, 1], "including replies from before the pairing");
}
