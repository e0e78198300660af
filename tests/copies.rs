//! A packet that the capture shows twice counts once. A packet that was sent twice counts twice.

use rdmascope_dissector::connection::Connection;
use rdmascope_dissector::transaction::Direction;
use rdmascope_tests::mutate::{self, CLIENT};
use rdmascope_tests::pcap::Capture;
use rdmascope_tests::{samples, session};

/// The session as it is captured on two interfaces: each packet once more, so many nanoseconds behind itself.
fn captured_twice(session: &Capture, later: i64) -> Capture {
    let mut second = session.clone();
    second.packets.iter_mut().for_each(|packet| packet.time += later);
    mutate::merge(session, &second)
}

/// Has all packets carry no Identification, as systems send what is not to be fragmented.
fn without_identification(capture: &mut Capture) {
    mutate::each(capture, |packet| packet.data[18..20].fill(0));
}

#[test]
fn a_session_captured_twice_is_the_same_session() {
    for name in samples::MOUNTS {
        let once = samples::capture(name);
        // More than one packet lies between a packet and its copy.
        let twice = captured_twice(&once, 40_000);
        let (expected, found) = (session::run(&once), session::run(&twice));
        // A sender of nfs4.2-basic counts through the Identification 0, which others use for none.
        assert_eq!(found.totals.copies, expected.totals.packets, "{name}");
        assert_eq!(found.totals.cm_messages, expected.totals.cm_messages, "{name}");
        assert_eq!(found.transactions.len(), expected.transactions.len(), "{name}");
        for (expected, found) in expected.transactions.iter().zip(&found.transactions) {
            assert_eq!(session::content(found), session::content(expected), "{name}");
        }
        for (expected, found) in expected.connections.iter().zip(&found.connections) {
            // Frames have other numbers.
            assert_eq!(found.requester.sent, expected.requester.sent, "{name}");
            assert_eq!(found.responder.sent, expected.responder.sent, "{name}");
        }
    }
}

#[test]
fn a_copy_is_named_with_the_packet_that_it_shows_again() {
    let once = samples::capture("nfs4.1-backchannel-recall");
    let twice = mutate::copy(&once, |_| true);
    let found = session::run_with_packets(&twice);
    for (first, copy) in found.packets.chunks(2).map(|pair| (&pair[0], &pair[1])) {
        assert_eq!((first.copy_of, copy.copy_of), (None, Some(first.number)));
        // The connection is told for CM messages only where they are looked at.
        assert!(copy.connection == first.connection || copy.connection.is_none(), "frame {}", copy.number);
    }
}

#[test]
fn what_was_sent_again_is_no_copy() {
    // The sample lost packets on the way, so that many were sent again: with the same PSN and payload, under other Identifications.
    let found = session::run(&samples::capture("nfs3-lossy"));
    assert_eq!(found.totals.copies, 0);
    let repeated = |connection: &Connection| connection.responder.sent.repeated_packets;
    assert_eq!(found.connections.iter().map(repeated).sum::<u64>(), 127);
}

#[test]
fn without_identification_time_tells_a_copy_from_what_was_sent_again() {
    let mut session = samples::capture("nfs4.1-backchannel-recall");
    without_identification(&mut session);
    let packets = session.packets.len() as u64;
    assert_eq!(session::run(&captured_twice(&session, 10_000)).totals.copies, packets);
    let again = session::run(&captured_twice(&session, 11_000));
    assert_eq!(again.totals.copies, 0);
    let client = again
        .connections
        .iter()
        .find(|connection| connection.requester.address == session::address(CLIENT.octets()[3]));
    assert!(client.is_some_and(|connection| connection.requester.sent.repeated_packets > 0));
}

#[test]
fn a_snap_length_hides_no_copy() {
    let once = mutate::cut(&samples::capture("nfs4.1-basic"), 96);
    let found = session::run(&captured_twice(&once, 40_000));
    assert_eq!(found.totals.copies, session::run(&once).totals.packets);
    let expected = session::run(&once).of(Direction::Forward).len();
    assert_eq!(found.of(Direction::Forward).len(), expected);
}
