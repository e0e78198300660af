//! A packet captured twice counts once; a retransmission counts as a packet.

use rdmascope_conformance::{Finding, Judge, Verdict};
use rdmascope_dissector::connection::Connection;
use rdmascope_dissector::engine::{Config, Engine, Totals};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::observation::Observe;
use rdmascope_dissector::record::{LinkType, Record, Tap, Time};
use rdmascope_dissector::transaction::Direction;
use rdmascope_tests::mutate::{self, CLIENT, SERVER, opcode};
use rdmascope_tests::pcap::{Capture, Packet};
use rdmascope_tests::{judged, samples, session};
use std::collections::BTreeSet;

/// The session captured on two interfaces: each packet appears again after `later` nanoseconds.
fn captured_twice(session: &Capture, later: i64) -> Capture {
    let mut second = session.clone();
    second.packets.iter_mut().for_each(|packet| packet.time += later);
    mutate::merge(session, &second)
}

/// Clears the Identification of all packets, as senders do for packets that must not be fragmented.
fn without_identification(capture: &mut Capture) {
    mutate::each(capture, |packet| packet.data[18..20].fill(0));
}

#[test]
fn session_captured_twice_gives_the_same_results() {
    for name in samples::MOUNTS {
        let once = samples::capture(name);
        // More than one other packet is between a packet and its copy.
        let twice = captured_twice(&once, 40_000);
        let (expected, found) = (session::run(&once), session::run(&twice));
        // One sender in nfs4.2-basic increments the Identification through 0, the value that means
        // "none" elsewhere.
        assert_eq!(found.totals.copies, expected.totals.packets, "{name}");
        assert_eq!(found.totals.cm_messages, expected.totals.cm_messages, "{name}");
        assert_eq!(found.transactions.len(), expected.transactions.len(), "{name}");
        for (expected, found) in expected.transactions.iter().zip(&found.transactions) {
            assert_eq!(session::content(found), session::content(expected), "{name}");
        }
        for (expected, found) in expected.connections.iter().zip(&found.connections) {
            // Frame numbers differ.
            assert_eq!(found.requester.sent, expected.requester.sent, "{name}");
            assert_eq!(found.responder.sent, expected.responder.sent, "{name}");
        }
    }
}

#[test]
fn copy_refers_to_its_original_packet() {
    let once = samples::capture("nfs4.1-backchannel-recall");
    let twice = mutate::copy(&once, |_| true);
    let found = session::run_with_packets(&twice);
    for (first, copy) in found.packets.chunks(2).map(|pair| (&pair[0], &pair[1])) {
        assert_eq!((first.copy_of, copy.copy_of), (None, Some(first.number)));
        // A CM message that is a copy is not parsed, so its connection is unknown.
        assert!(copy.connection == first.connection || copy.connection.is_none(), "frame {}", copy.number);
    }
}

#[test]
fn retransmission_is_not_a_copy() {
    // The session was lossy, so it has many retransmissions: same PSN and payload, other
    // Identification.
    let found = session::run(&samples::capture("nfs3-lossy"));
    assert_eq!(found.totals.copies, 0);
    let repeated = |connection: &Connection| connection.responder.sent.repeated_packets;
    assert_eq!(found.connections.iter().map(repeated).sum::<u64>(), 127);
}

#[test]
fn without_identification_time_separates_copies_and_resends() {
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

/// A sender that transmits a packet again changes neither its MAC addresses nor its VLAN or time to
/// live. A mirror of two ports shows them before and after a router.
#[test]
fn without_identification_another_hop_means_a_copy() {
    let mut session = samples::capture("nfs4.1-backchannel-recall");
    without_identification(&mut session);
    let packets = session.packets.len() as u64;
    let hops: [fn(&mut Packet); 3] = [
        |packet| packet.data[22] -= 1,
        |packet| packet.data[..6].fill(2),
        |packet| drop(packet.data.splice(12..12, [0x81, 0, 0, 7])),
    ];
    for change in hops {
        let mut second = session.clone();
        second.packets.iter_mut().for_each(|packet| {
            change(packet);
            packet.original_length = packet.data.len() as u32;
            packet.time += 1_500_000;
        });
        assert_eq!(session::run(&mutate::merge(&session, &second)).totals.copies, packets);
    }
}

/// The totals of packets captured by two interfaces with these pcapng interface IDs. The second
/// interface captures each packet later by `later`.
fn at_two_interfaces(session: &Capture, later: i64, interfaces: [u32; 2]) -> Totals {
    let mut records: Vec<Record<'_>> = Vec::new();
    for (index, interface) in interfaces.into_iter().enumerate() {
        records.extend(session::records(session).map(|record| Record {
            time: Time(record.time.0 + later * index as i64),
            tap: Tap { file: 0, interface },
            ..record
        }));
    }
    records.sort_by_key(|record| record.time);
    totals((1..).zip(records).map(|(number, record)| Record { number, ..record }))
}

fn totals<'a>(records: impl Iterator<Item = Record<'a>>) -> Totals {
    let mut engine = Engine::new(Config::default());
    records.for_each(|record| engine.handle(&record, &mut |_| {}));
    engine.finish(&mut |_| {});
    *engine.totals()
}

/// Without an Identification, a packet that another interface shows within the time in flight is a
/// copy. A packet that the same interface shows again is a retransmission.
#[test]
fn packet_from_another_interface_is_a_copy() {
    let mut session = samples::capture("nfs4.1-backchannel-recall");
    without_identification(&mut session);
    let packets = session.packets.len() as u64;
    assert_eq!(at_two_interfaces(&session, 40_000, [0, 1]).copies, packets);
    assert_eq!(at_two_interfaces(&session, 2_000_000, [0, 1]).copies, packets);
    assert_eq!(at_two_interfaces(&session, 2_000_001, [0, 1]).copies, 0);
    assert_eq!(at_two_interfaces(&session, 40_000, [1, 1]).copies, 0);
    assert_eq!(at_two_interfaces(&session, 10_000, [1, 1]).copies, packets);
    // The packet is retransmitted after 500 microseconds, and both interfaces capture it each time:
    // two of four are copies, in either order.
    for order in [[0, 1, 0, 1], [0, 1, 1, 0]] {
        let mut again = Vec::new();
        for (index, interface) in order.into_iter().enumerate() {
            let time = Time([0, 40_000, 500_000, 540_000][index]);
            let record = session::records(&session).nth(20).expect("there are more");
            again.push(Record { number: index as u64 + 1, time, tap: Tap { file: 0, interface }, ..record });
        }
        assert_eq!(totals(again.into_iter()).copies, 2, "{order:?}");
    }
}

/// The totals of [`two_files`].
fn in_two_files(session: &Capture, apart: i64, keep: impl Fn(usize, u64) -> bool) -> Totals {
    totals(two_files(session, apart, keep).into_iter())
}

/// The session in two files, of hosts whose clocks differ by `apart` nanoseconds. `keep` has the packets
/// of each file.
fn two_files(session: &Capture, apart: i64, keep: impl Fn(usize, u64) -> bool) -> Vec<Record<'_>> {
    let mut records: Vec<Record<'_>> = Vec::new();
    for file in 0..2 {
        let of_file = session::records(session).filter(|record| keep(file, record.number));
        records.extend(of_file.map(|record| Record {
            time: Time(record.time.0 + apart * file as i64),
            tap: Tap { file: file as u32, interface: 0 },
            ..record
        }));
    }
    records.sort_by_key(|record| record.time);
    (1..).zip(records).map(|(number, record)| Record { number, ..record }).collect()
}

/// The clocks of two hosts may differ. A packet in the files of both is one packet, not a retransmission.
#[test]
fn packet_in_two_files_is_a_copy() {
    let session = samples::capture("nfs4.1-backchannel-recall");
    let mut without = session.clone();
    without_identification(&mut without);
    let packets = session.packets.len() as u64;
    for session in [&session, &without] {
        for apart in [3_000_000, 40_000_000, -40_000_000] {
            let found = in_two_files(session, apart, |_, _| true);
            assert_eq!((found.copies, found.clocks_differ.is_some()), (packets, true), "{apart}");
        }
        assert_eq!(in_two_files(session, 1_000, |_, _| true).clocks_differ, None);
        assert_eq!(in_two_files(session, 30_000_000_000, |_, _| true).copies, 0, "more than the time");
    }
    // A rotated capture: the second file begins where the first one ends, and repeats the last packets.
    let rotated = in_two_files(&without, 3_000_000, |file, number| match file {
        0 => number <= packets - 10,
        _ => number > packets - 10,
    });
    assert_eq!((rotated.copies, rotated.clocks_differ), (0, None));
}

/// The captures of two hosts were merged into one file. Only an Identification of its own shows that a
/// packet is not a retransmission.
#[test]
fn late_copies_in_one_file_need_an_identification() {
    let session = samples::capture("nfs4.1-backchannel-recall");
    let packets = session.packets.len() as u64;
    let merged = |session: &Capture, apart: i64| {
        let records = two_files(session, apart, |_, _| true).into_iter();
        totals(records.map(|record| Record { tap: Tap { file: 0, ..record.tap }, ..record }))
    };
    // The first packets of each queue pair do not show yet that the Identification changes.
    for apart in [3_000_000, 40_000_000, -40_000_000] {
        let found = merged(&session, apart);
        assert!(found.copies > packets - 16, "{apart}: {} of {packets}", found.copies);
        assert!(found.clocks_differ.is_some(), "{apart}");
    }
    let mut constant = session.clone();
    mutate::each(&mut constant, |packet| packet.data[18..20].copy_from_slice(&[0, 1]));
    let mut none = session;
    without_identification(&mut none);
    for session in [&constant, &none] {
        let found = merged(session, 3_000_000);
        assert_eq!((found.copies, found.clocks_differ), (0, None));
    }
}

/// Each file lacks packets that the other one has. The times of the two do not accuse an end.
#[test]
fn files_with_different_clocks_accuse_no_end() {
    for name in ["nfs3-basic", "nfs4.1-backchannel-recall", "nfs4.2-basic"] {
        let session = samples::capture(name);
        let certain = |found: &[Finding]| -> BTreeSet<&'static str> {
            let is_certain = |finding: &&Finding| finding.verdict == Verdict::Certain;
            found.iter().filter(is_certain).map(|finding| judged::rule(finding).id).collect()
        };
        let expected = certain(&judged::findings(&session));
        for apart in [5_000_000, 40_000_000, -40_000_000] {
            for (step, from) in [(7, 3), (13, 5), (29, 11)] {
                let records = two_files(&session, apart, |file, number| {
                    number % step != if file == 0 { from } else { from - 1 }
                });
                let mut engine = Engine::new(Config { observe: Observe::All, ..Config::default() });
                let (mut judge, mut found) = (Judge::default(), Vec::new());
                let mut handle =
                    |event: &Event<'_>| judge.handle(event, &mut |finding| found.push(finding.clone()));
                records.iter().for_each(|record| engine.handle(record, &mut |event| handle(&event)));
                engine.finish(&mut |event| handle(&event));
                let more: Vec<_> = certain(&found).difference(&expected).copied().collect();
                assert_eq!(more, [""; 0], "{name} {apart} {step}");
            }
        }
    }
}

/// The SLL2 header names the interface, for a capture on all interfaces of a host.
#[test]
fn sll2_interface_index_identifies_the_interface() {
    let mut session = samples::capture("nfs4.1-backchannel-recall");
    without_identification(&mut session);
    let cooked = |index: u32| {
        let mut cooked = session.clone();
        cooked.link = LinkType::LINUX_SLL2.0;
        for packet in &mut cooked.packets {
            // Protocol, reserved, interface index, ARPHRD type, packet type, address length,
            // address.
            let mut data = packet.data[12..14].to_vec();
            data.extend([0; 2]);
            data.extend(index.to_be_bytes());
            data.extend([0, 1, 0, 6]);
            data.extend([0; 8]);
            data.extend(&packet.data[14..]);
            packet.original_length += 6;
            packet.data = data;
        }
        cooked
    };
    let packets = session.packets.len() as u64;
    let at = |first: u32, second: u32| {
        let mut second = cooked(second);
        second.packets.iter_mut().for_each(|packet| packet.time += 40_000);
        session::run(&mutate::merge(&cooked(first), &second)).totals
    };
    assert_eq!(at(2, 3).packets, 2 * packets);
    assert_eq!(at(2, 3).copies, packets);
    assert_eq!(at(2, 2).copies, 0);
}

#[test]
fn copies_are_found_with_a_snap_length() {
    let once = mutate::cut(&samples::capture("nfs4.1-basic"), 96);
    let found = session::run(&captured_twice(&once, 40_000));
    assert_eq!(found.totals.copies, session::run(&once).totals.packets);
    let expected = session::run(&once).of(Direction::Forward).len();
    assert_eq!(found.of(Direction::Forward).len(), expected);
}

/// Repeated RDMA Read responses place nothing, and are no RDMA operation outside of advertised
/// memory, before or after the reply.
#[test]
fn repeated_read_responses_are_retransmissions() {
    let original = samples::capture("nfs3-basic");
    let responses: Vec<usize> = (0..original.packets.len())
        .filter(|at| original.packets[*at].is_rc() && original.packets[*at].is_response())
        .filter(|at| original.packets[*at].opcode() != opcode::ACKNOWLEDGE)
        .take(5)
        .collect();
    let is_reply = |packet: &Packet| packet.source() == SERVER && packet.starts_message();
    let reply =
        responses[4] + original.packets[responses[4]..].iter().position(is_reply).expect("it is answered");
    let expected = session::run(&original);
    // After the reply; and before it, after the last response.
    for at in [reply, responses[4]] {
        let mut again = original.clone();
        for response in responses.iter().rev() {
            let mut packet = original.packets[*response].clone();
            // Another Identification: a retransmission, not a copy.
            packet.data[18..20].copy_from_slice(&0x7777u16.to_be_bytes());
            packet.time = original.packets[at].time;
            packet.seal();
            again.packets.insert(at + 1, packet);
        }
        again.renumber();
        let found = session::run(&again);
        assert_eq!(found.totals.copies, 0);
        let [before, after] = [&expected, &found].map(|session| &session.connections[0].requester);
        assert_eq!(after.sent.repeated_packets, before.sent.repeated_packets + 5);
        assert_eq!(after.first_frames.repeated_packet, Some(at as u64 + 2));
        let counts = rdmascope_dissector::connection::Counts { repeated_packets: 0, ..after.sent };
        assert_eq!(
            counts,
            rdmascope_dissector::connection::Counts {
                packets: before.sent.packets + 5,
                bytes: after.sent.bytes,
                ..before.sent
            }
        );
    }
    // The first response to a request that was not captured is no retransmission.
    let request =
        original.packets[..responses[0]].iter().rposition(|packet| packet.opcode() == opcode::READ_REQUEST);
    let number = original.packets[request.expect("it was asked")].number;
    let unasked = session::run(&mutate::keep(&original, |packet| packet.number != number));
    assert_eq!(unasked.connections[0].requester.sent.repeated_packets, 0);
}
