//! Calls in both directions on one connection (RFC 8167).

use crate::report::*;
use rdmascope_dissector::transaction::{Direction, Outcome};
use rdmascope_testkit::messages::*;
use rdmascope_testkit::world::*;

/// CB_COMPOUND with a CB_SEQUENCE: tag, minor version, callback_ident, count; RFC 5662, section
/// 20.9.
fn callback(xid: u32) -> (Vec<u8>, Vec<u8>) {
    let call = call_to(xid, [0x4000_0000, 1, 1], "'' 1 0 1 11 #16 1 0 0 1 0");
    let answer = reply(xid, "0 '' 1 11 0 #16 1 0 0 0");
    (message(&msg(xid), &call), message(&msg(xid), &answer))
}

#[test]
fn callback_may_have_xid_of_outstanding_call() {
    let ((call, answer), (callback, callback_answer)) = (getattr(7), callback(7));
    let forward_first = [(CLIENT, &call), (SERVER, &callback), (SERVER, &answer), (CLIENT, &callback_answer)];
    let backward_first =
        [(CLIENT, &call), (SERVER, &callback), (CLIENT, &callback_answer), (SERVER, &answer)];
    for script in [forward_first, backward_first] {
        let mut world = World::connected();
        for (from, bytes) in script {
            world.send(from, bytes);
            world.ack(1 - from);
        }
        let report = world.run();
        assert_eq!(report.transactions.len(), 2);
        for transaction in &report.transactions {
            assert_complete(transaction);
            assert_eq!(transaction.outcome, Outcome::Completed);
            let forward = names(transaction) == ["GETATTR"];
            assert!(forward || names(transaction) == ["CB_SEQUENCE"]);
            let direction = if forward { Direction::Forward } else { Direction::Backward };
            assert_eq!(transaction.direction, direction);
        }
        assert_eq!(report.connections[0].transactions, [1, 1]);
    }
}

#[test]
fn capture_may_start_with_callback() {
    let (callback, callback_answer) = callback(7);
    let (call, answer) = getattr(7);
    for paired_by in ["acknowledgement", "reply"] {
        let mut world = World::new();
        world.send(SERVER, &callback);
        if paired_by == "acknowledgement" {
            world.ack(CLIENT);
        }
        world.send(CLIENT, &callback_answer);
        world.send(CLIENT, &call);
        world.send(SERVER, &answer);
        let report = world.run();
        assert_eq!(report.transactions[0].direction, Direction::Backward);
        assert_eq!(report.transactions[1].direction, Direction::Forward);
        assert!(report.transactions.iter().all(|each| each.outcome == Outcome::Completed));
        let connection = &report.connections[0];
        assert!(connection.roles_known);
        assert_eq!(connection.requester.qpn, Some(world.end(CLIENT).qpn));
        assert_eq!(connection.transactions, [1, 1]);
    }
}

#[test]
fn lone_callback_is_a_backward_call() {
    let mut world = World::new();
    world.send(SERVER, &callback(7).0);
    let report = world.run();
    assert_eq!(report.one().direction, Direction::Backward);
    assert_eq!(report.connections[0].responder.address.to_string(), "192.0.2.2");
}

#[test]
fn lone_reply_belongs_to_forward_call() {
    // Without other evidence, the end that replies counts as the responder.
    let mut world = World::new();
    world.send(SERVER, &getattr(7).1);
    let report = world.run();
    assert_eq!((report.one().direction, report.one().outcome), (Direction::Forward, Outcome::NoCall));
    let connection = &report.connections[0];
    assert!(!connection.roles_known);
    assert_eq!(connection.responder.address.to_string(), "192.0.2.2");
}

#[test]
fn backward_error_ends_backward_call() {
    let mut world = World::connected();
    world.send(CLIENT, &getattr(7).0);
    world.send(SERVER, &callback(7).0);
    let mut refusal = header(7, rdmascope_wire::rpcrdma::Procedure::Error);
    refusal.error = Some(rdmascope_wire::rpcrdma::Error::Chunk);
    world.send(CLIENT, &message(&refusal, &[]));
    world.send(SERVER, &getattr(7).1);
    let report = world.run();
    let [first, second] = &report.transactions[..] else { panic!("two transactions") };
    assert_eq!((first.direction, first.outcome), (Direction::Backward, Outcome::TransportError));
    assert_eq!((second.direction, second.outcome), (Direction::Forward, Outcome::Completed));
}

#[test]
fn backward_long_call_is_read_from_server() {
    // RFC 8167 leaves chunks in the backward direction to the upper layer; RFC 8267, section 6.5.2,
    // allows Long Calls.
    let stream = call_to(7, [0x4000_0000, 1, 1], "'' 1 0 1 11 #16 1 0 0 1 0");
    let zero = segment(5, stream.len() as u32, 0x1000);
    let mut world = World::connected();
    let mut call = nomsg(7);
    call.reads = vec![read_segment(0, zero)];
    world.send(SERVER, &message(&call, &[]));
    world.read(CLIENT, zero, &stream);
    world.send(CLIENT, &callback(7).1);
    let report = world.run();
    assert_complete(report.one());
    assert_eq!((report.one().direction, names(report.one())), (Direction::Backward, vec!["CB_SEQUENCE"]));
}
