//! Connection requests that fail.

use super::{
    Cause, Kind, SECOND, SERVER_OF_CASES, assert_times, events, events_of, lost, only, testkit,
    with_waiting_call,
};
use rdmascope_testkit::messages::{getattr, message, msg, nfs3};
use rdmascope_testkit::world::World;
use rdmascope_tests::segments::made_and_closed;
use rdmascope_tests::{mutate, samples};
use rdmascope_wire::cm::{self, CommunicationId};

#[test]
fn failed_connection_requests_are_an_outage() {
    for case in ["cm-nfs-distinct", "cm-nfs-sameqp"] {
        let capture = samples::case(case);
        let found = events(&capture);
        let count = |kind| found.iter().filter(|event| event.kind == kind).count();
        assert_eq!((count(Kind::Rejected), count(Kind::Connected), count(Kind::Disconnected)), (6, 0, 0));
        let lost = only(&capture, Kind::ServiceLost);
        assert_times(&capture, &lost, (0.0, 51.0));
        assert_eq!(lost.cause, Some(Cause::RejectedBy(false)));
        assert_eq!(
            lost.text, "no connection for 51.0s, until the capture ends: 6 requests rejected by the server",
            "{case}"
        );
    }
    let capture = samples::case("cm-nfs-prev-same-then");
    let lost = only(&capture, Kind::ServiceLost);
    assert_times(&capture, &lost, (0.005, 61.2));
    assert_eq!(
        lost.text,
        "no reply for 61.2s: connection 1 was closed by the server, 6 requests rejected by the server, the next \
         reply came on connection 8"
    );
    // Over TCP: the server acknowledges the MPA Request and never replies.
    let sample = samples::capture("iwarp-nfs3");
    let mut asked = sample.clone();
    let request = made_and_closed(&sample, false).packets[3].number;
    asked.packets.retain(|packet| packet.number <= request + 1);
    let mut last = asked.packets.last().expect("it has packets").clone();
    last.time += 40 * SECOND;
    asked.packets.push(last);
    let found = events(&asked);
    let kinds: Vec<_> = found.iter().map(|event| event.kind).collect();
    assert!(kinds.contains(&Kind::RequestUnanswered), "{found:#?}");
    assert!(kinds.contains(&Kind::ServiceLost), "{found:#?}");
}

/// The server rejects one more connection of a client that it serves.
#[test]
fn rejections_beside_working_service_are_no_outage() {
    let mut world = World::connected();
    let since = world.now;
    for attempt in 0..6_u32 {
        world.on = 0;
        world.getattr(attempt + 1);
        world.add([0x31 + attempt, 0], [7_000, 0]);
        world.req();
        world.rej(10);
        world.wait(10 * SECOND);
    }
    world.on = 0;
    world.getattr(9);
    assert_eq!(lost(&world, since), [], "{:#?}", events_of(&world));
}

/// The client's RTU shows that the server answered.
#[test]
fn a_request_whose_answer_was_not_captured_is_not_unanswered() {
    let capture = samples::case("c02-reconnect");
    let lacking = mutate::keep(&capture, |packet| packet.number < 28 || packet.source() != SERVER_OF_CASES);
    let all = events(&lacking);
    assert!(all.iter().all(|event| event.kind != Kind::RequestUnanswered), "{all:#?}");
}

/// A world whose server closed the connection of its client, and the time since when the client has
/// none.
fn closed_by_the_server() -> (World, i64) {
    let mut world = World::connected();
    world.getattr(1);
    let since = world.now;
    world.disconnect(testkit::SERVER);
    (world, since)
}

/// Requests the connection of this attempt.
fn request(world: &mut World, attempt: u32) {
    world.add([0x31 + attempt, 0x41 + attempt], [7_000, 900_000]);
    world.req();
}

/// The REJ of a client: of a REP, or because none came.
fn reject(world: &mut World, message_rejected: cm::Rejected, reason: u16) {
    let [client, server] = world.connections[world.on];
    let is_known = message_rejected == cm::Rejected::Reply;
    let rejection = cm::Reject {
        local_communication_id: client.communication_id,
        remote_communication_id: if is_known { server.communication_id } else { CommunicationId(0) },
        message_rejected,
        reject_info_length: 0,
        reason,
        additional_information: &[],
        private_data: &[],
    };
    world.cm(testkit::CLIENT, &cm::Message::Reject(rejection));
}

fn acknowledge_receipt(world: &mut World) {
    let [client, server] = world.connections[world.on];
    let receipt = cm::MessageReceiptAcknowledgement {
        local_communication_id: server.communication_id,
        remote_communication_id: client.communication_id,
        message_acknowledged: cm::Acknowledged::Request,
        service_timeout: 20,
        private_data: &[],
    };
    world.cm(testkit::SERVER, &cm::Message::MessageReceiptAcknowledgement(receipt));
}

#[test]
fn requests_that_fail_in_any_way_are_an_outage() {
    let unanswered: &dyn Fn(&mut World) = &|_| {};
    let rejected = |world: &mut World| {
        world.rep();
        reject(world, cm::Rejected::Reply, 28);
    };
    let timed_out = |world: &mut World| reject(world, cm::Rejected::Other, 4);
    for (fail, how) in [
        (unanswered, "5 requests never answered"),
        (&timed_out, "5 requests never answered"),
        (&acknowledge_receipt, "5 requests never answered"),
        (&rejected, "5 replies rejected by the client"),
    ] {
        let (mut world, since) = closed_by_the_server();
        world.wait(SECOND / 5);
        for attempt in 0..5 {
            request(&mut world, attempt);
            fail(&mut world);
            world.wait(10 * SECOND);
        }
        let end = world.now;
        request(&mut world, 5);
        world.connect();
        world.getattr(2);
        let all = events_of(&world);
        assert_eq!(lost(&world, since), [(0.0, ((end - since) / 10_000_000) as f64 / 100.0)], "{all:#?}");
        let lost = all.iter().find(|event| event.kind == Kind::ServiceLost).expect("an outage");
        assert!(lost.text.contains(how), "{}", lost.text);
    }
}

/// The same without a connection before, and until the capture ends.
#[test]
fn first_requests_that_fail_in_any_way_are_an_outage() {
    let rejected = |world: &mut World| {
        world.rep();
        reject(world, cm::Rejected::Reply, 28);
    };
    let timed_out = |world: &mut World| reject(world, cm::Rejected::Other, 4);
    let receipt: &dyn Fn(&mut World) = &acknowledge_receipt;
    for (fail, how) in [
        // The last request may still be answered.
        (receipt, "no connection for 40.0s, until the capture ends: 4 requests never answered"),
        (&timed_out, "no connection for 40.0s, until the capture ends: 5 requests never answered"),
        (&rejected, "no connection for 40.0s, until the capture ends: 5 replies rejected by the client"),
    ] {
        let mut world = World::new();
        for attempt in 0..5 {
            request(&mut world, attempt);
            fail(&mut world);
            world.wait(10 * SECOND);
        }
        let all = events_of(&world);
        let lost = all.iter().find(|event| event.kind == Kind::ServiceLost).expect("an outage");
        assert_eq!(lost.text, how);
    }
}

/// A client closes its connection while a call waits, and comes back much later for other work.
#[test]
fn a_client_that_comes_back_for_other_work_did_not_wait() {
    for (by, waits) in
        [(testkit::CLIENT, 20), (testkit::SERVER, 20), (testkit::CLIENT, 600), (testkit::SERVER, 600)]
    {
        for repeats in [false, true] {
            let (mut world, since) = with_waiting_call();
            world.wait(3 * SECOND);
            world.disconnect(by);
            world.wait(waits * SECOND);
            world.add([0x31, 0x42], [7_000, 900_000]);
            world.connect();
            world.getattr(if repeats { 2 } else { 3 });
            let length = if waits > 30 && !repeats { 3 } else { 3 + waits };
            assert_eq!(
                lost(&world, since),
                [(0.0, length as f64)],
                "{waits} {repeats}: {:#?}",
                events_of(&world)
            );
        }
    }
}

/// The next connection uses the XID of a waiting call for another one.
#[test]
fn another_call_with_the_same_xid_is_not_sent_again() {
    for (procedure, count) in [(1, 1), (6, 0)] {
        let mut world = World::connected();
        world.getattr(1);
        world.send(testkit::CLIENT, &getattr(2).0);
        world.ack(testkit::SERVER);
        world.wait(SECOND);
        world.disconnect(testkit::SERVER);
        world.add([0x31, 0x42], [7_000, 900_000]);
        world.connect();
        world.send(testkit::CLIENT, &message(&msg(2), &nfs3(2, procedure, "'handle' h0 5")));
        world.ack(testkit::SERVER);
        let events = events_of(&world);
        let again = events.iter().filter(|event| event.kind == Kind::CallsReplayed).count();
        assert_eq!(again, count, "{events:#?}");
    }
}
