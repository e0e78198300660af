//! Where the time of transactions went, over real sessions.

use rdmascope_analysis::phases::Phases;
use rdmascope_dissector::connection::CapturePoint;
use rdmascope_dissector::transaction::{Direction, Seen};
use rdmascope_tests::mutate::{self, CLIENT, SERVER, opcode};
use rdmascope_tests::pcap::{Capture, Packet};
use rdmascope_tests::session::{self, Session};
use rdmascope_tests::{Differences, samples};

/// That the phases behind the call's own Send are the latency, and each within it.
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
        // Packets are missing, late, twice, of one end alone: times overlap and step back.
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

/// Whether a packet says that all up to a PSN was received: an ACK or an RDMA Read response, or a NAK of what comes behind it.
fn acknowledges(packet: &Packet, psn: u32) -> bool {
    // Bits 6 and 5 of the syndrome: 0 for an ACK (IBTA volume 1, section 9.7.5.2.1).
    let is_nak = packet.opcode() == opcode::ACKNOWLEDGE && packet.data[mutate::EXTENSION] & 0x60 != 0;
    let ahead = (packet.psn() + mutate::PSNS - psn) % mutate::PSNS;
    let responds = (opcode::READ_RESPONSE_FIRST..=opcode::ACKNOWLEDGE).contains(&packet.opcode());
    responds && ahead < mutate::PSNS / 2 && (ahead > 0 || !is_nak)
}

// By reading the packets alone. The samples hold whole sessions, so that what follows a call in the capture follows it.
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

/// A session of the lab as a capture at one of its ends would show it: what that end sends is seen earlier than on the bridge by the time that
/// it takes to there, what it receives is seen later.
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
    // The manifest: on the bridge between the two guests. What was lost and delayed on purpose leaves it open.
    for sample in samples::MOUNTS {
        let session = session::run(&samples::capture(sample));
        let expected = (sample != "nfs3-lossy").then_some(CapturePoint::Between);
        assert_eq!(session.connections[0].capture_point(), expected, "{sample}");
    }
    // The shortest way to the client and back takes 151 us, to the server and back 189 us.
    let capture = samples::capture("nfs3-basic");
    for (end, way, point) in
        [(CLIENT, 70_000, CapturePoint::Requester), (SERVER, 90_000, CapturePoint::Responder)]
    {
        let session = session::run(&moved_to(end, &capture, way));
        assert_eq!(session.connections[0].capture_point(), Some(point));
    }
}
