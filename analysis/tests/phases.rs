//! The phases of transactions, made by hand and in real sessions.

use rdmascope_dissector::connection::CapturePoint;
use rdmascope_dissector::phases::{Phases, grouped};
use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::{Direction, Seen, Transaction};
use rdmascope_dissector::ulb::Procedure;
use rdmascope_tests::mutate::{self, CLIENT, SERVER, opcode};
use rdmascope_tests::pcap::{Capture, Packet};
use rdmascope_tests::session::{self, Session};
use rdmascope_tests::{Differences, samples, values};

/// Checks that the phases after the call's own Send add up to the latency.
fn check_sums(context: &str, session: &Session, differences: &mut Differences) {
    for transaction in &session.transactions {
        let xid = transaction.xid;
        let (Some(Phases { times, acknowledged, .. }), Some(latency)) =
            (Phases::of(transaction), transaction.latency())
        else {
            let lacks = transaction.call.is_none() || transaction.reply.is_none();
            differences.check(lacks, format!("{context}: no phases of {xid}"));
            continue;
        };
        let sum = times[1..].iter().try_fold(0_u64, |sum, time| sum.checked_add(*time));
        let fits = sum == Some(latency) && (acknowledged || times[1] == 0);
        differences.check(fits, format!("{context}: {times:?} of {latency} of {xid}"));
    }
}

#[test]
fn phases_add_up_to_the_latency() {
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

// The expectation comes from the packets alone. The samples contain complete sessions, so a packet
// captured after a call was sent after it.
#[test]
fn the_first_acknowledging_packet_is_recorded() {
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
fn capture_points_are_inferred() {
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

const READ: Procedure = Procedure { program: 100_003, version: 3, number: 6 };

/// A transaction whose reply comes 1 ms after the call and is 100 us long. Times are in
/// microseconds after the call.
fn transaction(
    acknowledged: Option<i64>,
    reads: Option<(i64, i64)>,
    writes: Option<(i64, i64)>,
) -> Transaction {
    let mut transaction = values::transaction(READ, 10, 1_000);
    let start = transaction.call.as_ref().unwrap().seen.time;
    let at = |micros: i64| Time(start.0 + micros * 1_000);
    transaction.call.as_mut().unwrap().first.time = at(-20);
    transaction.reply.as_mut().unwrap().first.time = at(900);
    transaction.timing.acknowledged = acknowledged.map(|micros| Seen { frame: 11, time: at(micros) });
    transaction.timing.reads = reads.map(|(first, last)| (at(first), at(last)));
    transaction.timing.writes = writes.map(|(first, last)| (at(first), at(last)));
    transaction
}

/// The phases in microseconds.
#[track_caller]
fn phases(transaction: &Transaction) -> [u64; Phases::COUNT] {
    let phases = Phases::of(transaction).unwrap();
    assert_eq!(phases.times[1..].iter().sum::<u64>(), transaction.latency().unwrap());
    assert_eq!(phases.acknowledged, transaction.timing.acknowledged.is_some());
    phases.times.map(|time| time / 1_000)
}

#[test]
fn each_phase_has_its_time() {
    let all = transaction(Some(30), Some((100, 300)), Some((450, 850)));
    assert_eq!(phases(&all), [20, 30, 0, 70, 200, 0, 200, 400, 100]);
    let inline = transaction(Some(30), None, None);
    assert_eq!(phases(&inline), [20, 30, 0, 870, 0, 0, 0, 0, 100]);
    let unknown = transaction(None, None, Some((450, 850)));
    assert_eq!(phases(&unknown), [20, 0, 0, 450, 0, 0, 50, 400, 100]);
}

#[test]
fn the_ack_phase_precedes_server_time() {
    // An ACK for several Sends may be later than other signs that the call arrived.
    assert_eq!(phases(&transaction(Some(150), Some((100, 300)), None)), [20, 100, 0, 0, 200, 0, 600, 0, 100]);
    assert_eq!(phases(&transaction(Some(950), None, None)), [20, 900, 0, 0, 0, 0, 0, 0, 100]);
    // The capture shows the ACK before the call, out of order.
    assert_eq!(phases(&transaction(Some(-5), None, None)), [20, 0, 0, 900, 0, 0, 0, 0, 100]);
}

#[test]
fn overlapping_times_count_once_within_the_latency() {
    assert_eq!(
        phases(&transaction(None, Some((100, 500)), Some((400, 600)))),
        [20, 0, 0, 100, 400, 0, 300, 100, 100]
    );
    assert_eq!(
        phases(&transaction(None, Some((100, 500)), Some((200, 400)))),
        [20, 0, 0, 100, 400, 0, 400, 0, 100]
    );
    // The requester pulls a reply with RDMA Reads after it. The capture shows a Write after the
    // reply that was sent before it.
    assert_eq!(phases(&transaction(None, Some((1_100, 1_500)), None)), [20, 0, 0, 900, 0, 0, 0, 0, 100]);
    assert_eq!(phases(&transaction(None, None, Some((850, 950)))), [20, 0, 0, 850, 0, 0, 0, 50, 100]);
    assert_eq!(phases(&transaction(None, Some((-50, 50)), None)), [20, 0, 0, 0, 50, 0, 850, 0, 100]);
}

/// Busy time is part of the time before and after the RDMA operations, and never longer.
#[test]
fn sending_time_is_not_server_time() {
    let busy = |before: u64, after: u64| {
        let mut all = transaction(Some(30), Some((100, 300)), Some((450, 850)));
        (all.timing.busy_before, all.timing.busy_after) = (before * 1_000, after * 1_000);
        let split = Phases::of(&all).unwrap();
        assert_eq!(split.sending() + split.server(), 270_000);
        phases(&all)
    };
    assert_eq!(busy(20, 150), [20, 30, 20, 50, 200, 150, 50, 400, 100]);
    assert_eq!(busy(1_000, 1_000), [20, 30, 70, 0, 200, 200, 0, 400, 100]);
}

/// TCP may wait before it acknowledges, but not for half a second. Then the call was lost.
#[test]
fn a_late_ack_of_tcp_is_no_estimate() {
    let mut transaction = transaction(None, None, None);
    let call = transaction.call.as_ref().expect("it has one").seen.time;
    let reply = transaction.reply.as_mut().expect("it has one");
    (reply.first.time, reply.seen.time) = (call.plus(900_000_000), call.plus(900_000_000));
    (transaction.timing.acknowledges_late, transaction.timing.round_trip) = (true, 40_000);
    let until_ack = |transaction: &mut Transaction, acknowledged: Option<u64>| {
        transaction.timing.acknowledged =
            acknowledged.map(|after| Seen { frame: 11, time: call.plus(after) });
        let phases = Phases::of(transaction).expect("it has call and reply");
        (phases.times[1], phases.estimated)
    };
    assert_eq!(until_ack(&mut transaction, Some(30_000)), (30_000, false));
    assert_eq!(until_ack(&mut transaction, Some(40_000_000)), (40_000, true));
    assert_eq!(until_ack(&mut transaction, Some(499_999_999)), (40_000, true));
    assert_eq!(until_ack(&mut transaction, Some(500_000_000)), (500_000_000, false));
    // The ACK came with the reply.
    assert_eq!(until_ack(&mut transaction, None), (400_000_000, true));
}

#[test]
fn groups_sum_their_phases() {
    assert_eq!(grouped([1, 2, 4, 8, 16, 32, 64, 128, 256]), [3, 16, 36, 72, 128, 256]);
}
