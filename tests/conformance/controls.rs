//! Unusual sessions that break no rule and must give no violation.

use crate::samples::violations;
use rdmascope_conformance::{Finding, Verdict};
use rdmascope_dissector::transaction::Direction;
use rdmascope_tests::judged::{findings, line, rule};
use rdmascope_tests::mutate::{self, CLIENT, PSNS, SERVER, opcode};
use rdmascope_tests::pcap::{Capture, Packet};
use rdmascope_tests::samples;
use std::collections::BTreeSet;

/// Checks that an altered session has no violation that the original lacks.
fn raises_nothing(sample: &str, what: &str, altered: &Capture) {
    let found = violations(sample, altered);
    assert!(found.is_empty(), "{sample}, {what}: {found:#?}");
}

fn index_of(capture: &Capture, wanted: impl Fn(&Packet) -> bool) -> usize {
    capture.packets.iter().position(wanted).expect("the sample has such a packet")
}

#[test]
fn a_psn_that_wraps() {
    for (sample, kind, sender) in [
        ("nfs4.2-basic", opcode::WRITE_FIRST, SERVER),
        ("nfs4.2-basic", opcode::READ_RESPONSE_FIRST, SERVER),
        ("nfs4.2-basic", opcode::SEND_ONLY, CLIENT),
        ("nfs3-lossy", opcode::WRITE_FIRST, SERVER),
    ] {
        let capture = samples::capture(sample);
        let first = index_of(&capture, |packet| packet.is_rc() && packet.opcode() == kind);
        for into in 0..4 {
            let mut wrapped = capture.clone();
            mutate::shift_psn(&mut wrapped, sender, 2 * PSNS - into - capture.packets[first].psn());
            raises_nothing(sample, &format!("PSN 0 {into} packets into frame {}", first + 1), &wrapped);
        }
    }
}

#[test]
fn a_last_before_its_first() {
    for sample in ["nfs3-basic", "nfs4.2-basic"] {
        let capture = samples::capture(sample);
        for (first, last) in [
            (opcode::WRITE_FIRST, opcode::WRITE_LAST),
            (opcode::READ_RESPONSE_FIRST, opcode::READ_RESPONSE_LAST),
        ] {
            let begins = index_of(&capture, |packet| packet.is_rc() && packet.opcode() == first);
            let mut rest = capture.packets.iter().enumerate().skip(begins);
            let ends = rest.find(|(_, packet)| packet.is_rc() && packet.opcode() == last).expect("it ends").0;
            for (from, to) in [(ends, begins), (begins, ends)] {
                let mut altered = capture.clone();
                mutate::reorder(&mut altered, from, to);
                raises_nothing(sample, &format!("frame {} at the place of {}", from + 1, to + 1), &altered);
            }
        }
    }
}

#[test]
fn an_rkey_that_a_later_call_uses_again() {
    for sample in ["nfs4.1-backchannel-recall", "nfs4.2-basic"] {
        // Linux changes the low byte of an R_Key each time it registers a region again, and puts
        // the XID into the upper half of its addresses.
        let mut altered = samples::capture(sample);
        mutate::rename_memory(&mut altered, |handle, offset| (handle | 0xff, offset & 0xffff_ffff));
        raises_nothing(sample, "one R_Key for each region", &altered);
    }
}

#[test]
fn every_packet_twice() {
    for sample in ["nfs3-basic", "nfs4.2-basic", "nfs4.1-backchannel-recall"] {
        let twice = mutate::repeat(&samples::capture(sample), Packet::is_rc);
        raises_nothing(sample, "every packet twice", &twice);
        let writes = |packet: &Packet| (opcode::WRITE_FIRST..=opcode::WRITE_ONLY).contains(&packet.opcode());
        let twice = mutate::repeat(&samples::capture(sample), |packet| packet.is_rc() && writes(packet));
        raises_nothing(sample, "every RDMA WRITE twice", &twice);
    }
}

#[test]
fn a_capture_without_the_connect() {
    for sample in samples::MOUNTS {
        raises_nothing(sample, "without CM", &mutate::without_cm(&samples::capture(sample)));
    }
}

#[test]
fn a_capture_of_one_direction() {
    for sample in samples::MOUNTS {
        for host in [CLIENT, SERVER] {
            let half = mutate::keep(&samples::capture(sample), |packet| packet.source() == host);
            raises_nothing(sample, &format!("only what {host} sends"), &half);
            let half = mutate::without_cm(&half);
            raises_nothing(sample, &format!("only what {host} sends, without CM"), &half);
            let half = mutate::keep(&samples::capture(sample), |packet| {
                packet.source() == host || packet.cm_attribute().is_some()
            });
            raises_nothing(sample, &format!("what {host} sends, and CM messages of both"), &half);
        }
    }
}

/// Without CM messages, only the Sends show which protocol a connection carries. If they do not
/// look like RPC-over-RDMA, no rule is broken, even with losses and for one direction only.
#[test]
fn what_carries_no_rpc_is_not_accused() {
    for sample in ["nfs3-basic", "nfs4.2-mtu4096-large-io"] {
        for (what, message) in mutate::FOREIGN {
            let mut capture = mutate::without_cm(&samples::capture(sample));
            mutate::carry(&mut capture, message);
            let later = Capture { link: capture.link, packets: capture.packets[40..].to_vec() };
            let half = mutate::keep(&capture, |packet| packet.source() == CLIENT);
            let lossy = mutate::keep(&capture, |packet| packet.number % 17 != 0);
            for (how, capture) in
                [("whole", &capture), ("later", &later), ("one direction", &half), ("with losses", &lossy)]
            {
                // If packets are missing, findings about the transport may be inconclusive.
                let found = findings(capture);
                let found = found.iter().filter(|it| how != "with losses" || it.verdict == Verdict::Stands);
                let found: Vec<String> = found.map(line).collect();
                assert!(found.is_empty(), "{sample}, {what}, {how}: {found:#?}");
            }
        }
    }
}

#[test]
fn a_capture_with_a_snap_length() {
    for sample in samples::MOUNTS {
        for length in [96, 128, 160, 200, 300] {
            let cut = mutate::cut(&samples::capture(sample), length);
            raises_nothing(sample, &format!("cut to {length} bytes"), &cut);
        }
    }
}

#[test]
fn a_capture_that_lost_many_packets() {
    for (sample, rounds) in [("nfs4.2-basic", 60), ("nfs3-lossy", 30), ("nfs4.1-backchannel-recall", 200)] {
        let capture = samples::capture(sample);
        for seed in 0..rounds {
            // One in `one_in` packets is lost; the same ones in every run.
            let mut state: u64 = seed * 2 + 1;
            let one_in = [10, 30, 100][seed as usize % 3];
            let lost: Vec<bool> = (0..=capture.packets.len())
                .map(|_| {
                    state =
                        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (state >> 33).is_multiple_of(one_in)
                })
                .collect();
            let rest = mutate::keep(&capture, |packet| !lost[packet.number as usize]);
            raises_nothing(sample, &format!("one packet in {one_in} lost, seed {seed}"), &rest);
        }
    }
}

#[test]
fn packets_that_a_capture_shows_in_another_order() {
    for sample in ["nfs4.2-basic", "nfs4.1-backchannel-recall", "nfs3-basic"] {
        let capture = samples::capture(sample);
        // Swaps packets that hosts sent within 200 microseconds and eight packets of each other.
        for from in (8..capture.packets.len()).step_by(11) {
            for back in [1, 3, 8] {
                let (packet, other) = (&capture.packets[from], &capture.packets[from - back]);
                if packet.time - other.time > 200_000 || !packet.is_rc() || !other.is_rc() {
                    continue;
                }
                let mut altered = capture.clone();
                mutate::reorder(&mut altered, from, from - back);
                raises_nothing(sample, &format!("frame {} {back} packets earlier", from + 1), &altered);
            }
        }
    }
}

#[test]
fn a_queue_pair_that_is_used_again() {
    let capture = samples::capture("nfs4.1-backchannel-recall");
    let mut second = capture.clone();
    mutate::change_communication_ids(&mut second, 0x0f0f_0f0f);
    second.packets.iter_mut().for_each(|packet| packet.time += 60_000_000_000);
    raises_nothing("nfs4.1-backchannel-recall", "twice", &mutate::merge(&capture, &second));
}

/// The rules, of any level, with a conclusive finding.
fn standing(capture: &Capture) -> BTreeSet<&'static str> {
    let stands = |finding: &&Finding| finding.verdict == Verdict::Stands;
    findings(capture).iter().filter(stands).map(|finding| rule(finding).id).collect()
}

/// Pseudorandom numbers, the same for equal seeds.
fn chances(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

/// A capture without its first packets and without some of the others.
fn remainder(capture: &Capture, seed: u64) -> (String, Capture) {
    let mut chance = chances(seed);
    let last = capture.packets.last().map_or(0, |packet| packet.number);
    let one_in = [100, 33, 10][seed as usize % 3];
    let start = if seed.is_multiple_of(4) { 0 } else { chance(last) };
    let lost: Vec<bool> = (0..=last).map(|_| chance(one_in) == 0).collect();
    let rest = mutate::keep(capture, |packet| packet.number > start && !lost[packet.number as usize]);
    (format!("from {start} on, one packet in {one_in} lost, seed {seed}"), rest)
}

/// Warnings and advice do not rest on missing packets either.
#[test]
fn lost_evidence_raises_no_warning_and_no_advice() {
    let mut wrong = Vec::new();
    for (sample, step, rounds) in [
        ("nfs3-basic", 19, 30),
        ("nfs3-lossy", 97, 15),
        ("nfs4.1-backchannel-recall", 1, 400),
        ("nfs4.1-basic", 19, 30),
        ("nfs4.2-basic", 23, 30),
        ("nfs4.2-mtu4096-large-io", 29, 30),
    ] {
        let whole = samples::capture(sample);
        let seen = standing(&whole);
        let mut compare = |what: String, capture: &Capture| {
            wrong.extend(standing(capture).difference(&seen).map(|id| format!("{sample}, {what}: {id}")));
        };
        for index in (0..whole.packets.len()).step_by(step) {
            let rest = mutate::keep(&whole, |packet| packet.number != index as u64 + 1);
            compare(format!("without frame {}", index + 1), &rest);
            let later = Capture { link: whole.link, packets: whole.packets[index..].to_vec() };
            compare(format!("from frame {} on", index + 1), &later);
        }
        for seed in 0..rounds {
            let (what, rest) = remainder(&whole, seed);
            compare(what, &rest);
            let (what, rest) = remainder(&mutate::without_cm(&whole), seed);
            compare(format!("without CM, {what}"), &rest);
        }
        for length in [96, 128, 160, 200, 300] {
            compare(format!("cut to {length} bytes"), &mutate::cut(&whole, length));
        }
        for host in [CLIENT, SERVER] {
            let half = mutate::keep(&whole, |packet| packet.source() == host);
            compare(format!("only what {host} sends"), &half);
            compare(format!("only what {host} sends, without CM"), &mutate::without_cm(&half));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A session at its limits, with one request in flight and one credit granted, exceeds none if
/// packets are missing.
#[test]
fn lost_evidence_does_not_exceed_a_limit_that_is_kept() {
    let mut capture = samples::capture("nfs4.1-basic");
    mutate::each(&mut capture, |packet| {
        if packet.starts_message() {
            let credits = packet.payload().start + 8;
            packet.set_u32(credits, 1);
            packet.seal();
        }
    });
    let seen = standing(&capture);
    for seed in 0..60 {
        let (what, rest) = remainder(&capture, seed);
        let found = standing(&rest);
        assert!(found.is_subset(&seen), "{what}: {found:?}");
    }
}

/// NFSv3 has no callbacks: wherever its capture begins, no finding names the backward direction.
#[test]
fn a_direction_that_is_not_known_is_not_said() {
    let whole = samples::capture("nfs3-basic");
    let mut said = 0;
    for start in (0..whole.packets.len()).step_by(20) {
        let later = Capture { link: whole.link, packets: whole.packets[start..].to_vec() };
        for finding in findings(&later) {
            assert_ne!(
                finding.direction,
                Some(Direction::Backward),
                "from frame {}: {}",
                start + 1,
                line(&finding)
            );
            said += u32::from(finding.direction.is_some());
        }
    }
    assert!(said > 0);
}

/// A capture of one direction gives one finding, not one for each call.
#[test]
fn a_capture_of_one_direction_is_one_finding() {
    for sample in samples::MOUNTS {
        let capture = samples::capture(sample);
        let (unanswered, flag) = ("rpc-call-unanswered", "invalidation-receiver-flag");
        // In these samples the server makes callbacks, CB_RECALL and CB_OFFLOAD; the clients'
        // traces have xprtrdma_cb_call.
        let calls_back = matches!(sample, "nfs4.1-backchannel-recall" | "nfs4.2-mtu4096-large-io");
        let of_server = if calls_back { vec![unanswered, flag] } else { vec![flag] };
        // With both sides of the CM exchange, the R flags are known, and the connection was
        // captured from its start; but the call that offered it for callbacks is missing.
        let managed_by_server = if calls_back { vec![unanswered, "reverse-before-offer"] } else { vec![] };
        // Without a DREQ, the calls are still open.
        for (host, expected, managed, open) in [
            (CLIENT, vec![unanswered], vec![unanswered], vec![]),
            (SERVER, of_server, managed_by_server, vec![flag]),
        ] {
            let half = mutate::keep(&capture, |packet| packet.source() == host);
            let with_cm =
                mutate::keep(&capture, |packet| packet.source() == host || packet.cm_attribute().is_some());
            for (half, expected) in
                [(&half, expected), (&with_cm, managed), (&mutate::without_cm(&half), open)]
            {
                let found = findings(half);
                let doubtful = found.iter().filter(|finding| finding.verdict == Verdict::Inconclusive);
                let ids: Vec<_> = doubtful.map(|finding| rule(finding).id).collect();
                assert_eq!(ids, expected, "{sample}, {host}");
            }
        }
    }
}
