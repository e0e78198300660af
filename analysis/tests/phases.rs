//! The phases of transactions in real sessions.

use rdmascope_analysis::phases::Phases;
use rdmascope_dissector::connection::CapturePoint;
use rdmascope_dissector::transaction::{Direction, Seen};
use rdmascope_tests::mutate::{self, CLIENT, SERVER, opcode};
use rdmascope_tests::pcap::{Capture, Packet};
use rdmascope_tests::session::{self, Session};
use rdmascope_tests::{Differences, samples};

/// Checks that the phases after the call's own Send add up to the latency.
fn check_sums(place: &str, session: &Session, differences: &mut Differences) {
    for transaction in &session.transactions {
        let xid = transaction.xid;
        let (Some(Phases { times, acknowledged }), Some(latency)) =
            (Phases::of(transaction), transaction.latency())
        else {
            let lacks = transaction.call.is_none() || transaction.reply.is_none();
            differences.check(lacks, format!("{place}: no phases of {xid}"));
            continue;
        };
        let sum = times[1..].iter().try_fold(0_u64, |sum, time| sum.checked_add(*time));
        let fits = sum == Some(latency) && (acknowledged || times[1] == 0);
        differences.check(fits, format!("{place}: {times:?} of {latency} of {xid}"));
    }
}

#[test]
fn phases_are_the_latency() {
    let mut differences = Differences::of("phases");
    for sample in samples::ALL {
        let capture = samples::capture(sample);
        check_sums(sample, &session::run(&capture), &mut differences);
        // Variants have missing, late and duplicated packets, or packets of one end only, so times
        // overlap and step back.
        for seed in 0..30 {
            let variant = mutate::variant(&capture, seed);
            let mut altered = variant.capture;
            check_sums(
                &format!("{sample}, {:?} {seed}", variant.kind),
                &session::run(&altered),
                &mut differences,
            );
            altered.packets.reverse();
            check_sums(&format!("{sample}, {seed} backwards"), &session::run(&altered), &mut differences);
        }
    }
    differences.end();
}

/// Whether a packet acknowledges all PSNs up to `psn`: an ACK, an RDMA Read response, or a NAK of a
/// later PSN.
fn acknowledges(packet: &Packet, psn: u32) -> bool {
    // Bits 6 and 5 of the syndrome: 0 for an ACK (IBTA volume 1, section 9.7.5.2.1).
    let is_nak = packet.opcode() == opcode::ACKNOWLEDGE && packet.data[mutate::EXTENSION] & 0x60 != 0;
    let ahead = (packet.psn() + mutate::PSNS - psn) % mutate::PSNS;
    let responds = (opcode::READ_RESPONSE_FIRST..=opcode::ACKNOWLEDGE).contains(&packet.opcode());
    responds && ahead < mutate::PSNS / 2 && (ahead > 0 || !is_nak)
}

// The expectation comes from the packets alone. The samples contain whole sessions, so a packet
// captured after a call was sent after it.
#[test]
fn calls_were_acknowledged_by_what_says_so_first() {
    let mut differences = Differences::of("acknowledgements of calls");
    let mut found = 0;
    for sample in samples::MOUNTS {
        let capture = samples::capture(sample);
        for transaction in session::run(&capture).transactions {
            let (Some(call), Some(reply)) = (&transaction.call, &transaction.reply) else { continue };
            let callee = if transaction.direction == Direction::Forward { SERVER } else { CLIENT };
            let (sent, answered) = (call.seen.frame as usize, reply.seen.frame as usize);
            let psn = capture.packets[sent - 1].psn();
            let between = &capture.packets[sent..answered - 1];
            let first = between.iter().find(|packet| packet.source() == callee && acknowledges(packet, psn));
            let expected = first.map(|packet| packet.number);
            let seen = transaction.timing.acknowledged.map(|Seen { frame, .. }| frame);
            found += usize::from(seen.is_some());
            differences.check(
                seen == expected,
                format!("{sample}, {}: {seen:?}, not {expected:?}", transaction.xid),
            );
        }
    }
    differences.end();
    assert!(found > 800, "{found} calls were acknowledged");
}

/// A session of the lab as a capture at one of its ends would show it. Compared with the bridge,
/// packets that this end sends are earlier by the time to the bridge, and packets that it receives
/// are later.
fn moved_to(end: core::net::Ipv4Addr, capture: &Capture, way: i64) -> Capture {
    let mut moved = capture.clone();
    for packet in &mut moved.packets {
        packet.time += if packet.source() == end { -way } else { way };
    }
    moved.packets.sort_by_key(|packet| packet.time);
    moved.renumber();
    moved
}

#[test]
fn where_samples_were_captured() {
    // The samples were captured on the bridge between the two guests (samples/MANIFEST). Deliberate
    // loss and delay make the capture point of nfs3-lossy inconclusive.
    for sample in samples::MOUNTS {
        let session = session::run(&samples::capture(sample));
        let expected = (sample != "nfs3-lossy").then_some(CapturePoint::Between);
        assert_eq!(session.connections[0].capture_point(), expected, "{sample}");
    }
    // The shortest round trip from the bridge is 151 us to the client and 189 us to the server.
    let capture = samples::capture("nfs3-basic");
    for (end, way, point) in
        [(CLIENT, 70_000, CapturePoint::Requester), (SERVER, 90_000, CapturePoint::Responder)]
    {
        let session = session::run(&moved_to(end, &capture, way));
        assert_eq!(session.connections[0].capture_point(), Some(point));
    }
}
