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
fn assert_no_violation(sample: &str, label: &str, altered: &Capture) {
    let found = violations(sample, altered);
    assert!(found.is_empty(), "{sample}, {label}: {found:#?}");
}

fn index_of(capture: &Capture, wanted: impl Fn(&Packet) -> bool) -> usize {
    capture.packets.iter().position(wanted).expect("the sample has such a packet")
}

#[test]
fn psn_wrap_gives_no_violation() {
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
            assert_no_violation(sample, &format!("PSN 0 {into} packets into frame {}", first + 1), &wrapped);
        }
    }
}

#[test]
fn last_packet_before_its_first_gives_no_violation() {
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
                assert_no_violation(
                    sample,
                    &format!("frame {} at the place of {}", from + 1, to + 1),
                    &altered,
                );
            }
        }
    }
}

#[test]
fn reused_rkey_gives_no_violation() {
    for sample in ["nfs4.1-backchannel-recall", "nfs4.2-basic"] {
        // Linux changes the low byte of an R_Key each time it registers a region again, and puts
        // the XID into the upper half of its addresses.
        let mut altered = samples::capture(sample);
        mutate::rename_memory(&mut altered, |handle, offset| (handle | 0xff, offset & 0xffff_ffff));
        assert_no_violation(sample, "one R_Key for each region", &altered);
    }
}

#[test]
fn duplicate_packets_give_no_violation() {
    for sample in ["nfs3-basic", "nfs4.2-basic", "nfs4.1-backchannel-recall"] {
        let twice = mutate::repeat(&samples::capture(sample), Packet::is_rc);
        assert_no_violation(sample, "every packet twice", &twice);
        let writes = |packet: &Packet| (opcode::WRITE_FIRST..=opcode::WRITE_ONLY).contains(&packet.opcode());
        let twice = mutate::repeat(&samples::capture(sample), |packet| packet.is_rc() && writes(packet));
        assert_no_violation(sample, "every RDMA WRITE twice", &twice);
    }
}

#[test]
fn capture_without_the_connect_gives_no_violation() {
    for sample in samples::MOUNTS {
        assert_no_violation(sample, "without CM", &mutate::without_cm(&samples::capture(sample)));
    }
}

#[test]
fn capture_of_one_direction_gives_no_violation() {
    for sample in samples::MOUNTS {
        for host in [CLIENT, SERVER] {
            let half = mutate::keep(&samples::capture(sample), |packet| packet.source() == host);
            assert_no_violation(sample, &format!("only packets of {host}"), &half);
            let half = mutate::without_cm(&half);
            assert_no_violation(sample, &format!("only packets of {host}, without CM"), &half);
            let half = mutate::keep(&samples::capture(sample), |packet| {
                packet.source() == host || packet.cm_attribute().is_some()
            });
            assert_no_violation(sample, &format!("packets of {host}, and CM messages of both"), &half);
        }
    }
}

/// Without CM messages, only the Sends show which protocol a connection carries. If they do not
/// look like RPC-over-RDMA, no rule is broken, even with losses and for one direction only.
#[test]
fn other_protocols_give_no_finding() {
    for sample in ["nfs3-basic", "nfs4.2-mtu4096-large-io"] {
        for (protocol, message) in mutate::FOREIGN {
            let mut capture = mutate::without_cm(&samples::capture(sample));
            mutate::carry(&mut capture, message);
            let later = Capture { link: capture.link, packets: capture.packets[40..].to_vec() };
            let half = mutate::keep(&capture, |packet| packet.source() == CLIENT);
            let lossy = mutate::keep(&capture, |packet| packet.number % 17 != 0);
            for (how, capture) in
                [("complete", &capture), ("later", &later), ("one direction", &half), ("with losses", &lossy)]
            {
                // If packets are missing, findings about the transport may be inconclusive.
                let found = findings(capture);
                let found = found.iter().filter(|it| how != "with losses" || it.verdict == Verdict::Certain);
                let found: Vec<String> = found.map(line).collect();
                assert!(found.is_empty(), "{sample}, {protocol}, {how}: {found:#?}");
            }
        }
    }
}

#[test]
fn snap_length_gives_no_violation() {
    for sample in samples::MOUNTS {
        for length in [96, 128, 160, 200, 300] {
            let cut = mutate::cut(&samples::capture(sample), length);
            assert_no_violation(sample, &format!("cut to {length} bytes"), &cut);
        }
    }
}

#[test]
fn many_lost_packets_give_no_violation() {
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
            assert_no_violation(sample, &format!("one packet in {one_in} lost, seed {seed}"), &rest);
        }
    }
}

#[test]
fn reordered_packets_give_no_violation() {
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
                assert_no_violation(sample, &format!("frame {} {back} packets earlier", from + 1), &altered);
            }
        }
    }
}

#[test]
fn reused_queue_pair_gives_no_violation() {
    let capture = samples::capture("nfs4.1-backchannel-recall");
    let mut second = capture.clone();
    mutate::change_communication_ids(&mut second, 0x0f0f_0f0f);
    second.packets.iter_mut().for_each(|packet| packet.time += 60_000_000_000);
    assert_no_violation("nfs4.1-backchannel-recall", "twice", &mutate::merge(&capture, &second));
}

/// The rules, of any level, with a conclusive finding.
fn conclusive(capture: &Capture) -> BTreeSet<&'static str> {
    let is_conclusive = |finding: &&Finding| finding.verdict == Verdict::Certain;
    findings(capture).iter().filter(is_conclusive).map(|finding| rule(finding).id).collect()
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
fn lost_packets_give_no_warning_or_advice() {
    let mut wrong = Vec::new();
    for (sample, step, rounds) in [
        ("nfs3-basic", 19, 30),
        ("nfs3-lossy", 97, 15),
        ("nfs4.1-backchannel-recall", 1, 400),
        ("nfs4.1-basic", 19, 30),
        ("nfs4.2-basic", 23, 30),
        ("nfs4.2-mtu4096-large-io", 29, 30),
    ] {
        let original = samples::capture(sample);
        let seen = conclusive(&original);
        let mut compare = |label: String, capture: &Capture| {
            wrong.extend(conclusive(capture).difference(&seen).map(|id| format!("{sample}, {label}: {id}")));
        };
        for index in (0..original.packets.len()).step_by(step) {
            let rest = mutate::keep(&original, |packet| packet.number != index as u64 + 1);
            compare(format!("without frame {}", index + 1), &rest);
            let later = Capture { link: original.link, packets: original.packets[index..].to_vec() };
            compare(format!("from frame {} on", index + 1), &later);
        }
        for seed in 0..rounds {
            let (label, rest) = remainder(&original, seed);
            compare(label, &rest);
            let (label, rest) = remainder(&mutate::without_cm(&original), seed);
            compare(format!("without CM, {label}"), &rest);
        }
        for length in [96, 128, 160, 200, 300] {
            compare(format!("cut to {length} bytes"), &mutate::cut(&original, length));
        }
        for host in [CLIENT, SERVER] {
            let half = mutate::keep(&original, |packet| packet.source() == host);
            compare(format!("only packets of {host}"), &half);
            compare(format!("only packets of {host}, without CM"), &mutate::without_cm(&half));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A session at its limits, with one request in flight and one credit granted, exceeds none if
/// packets are missing.
#[test]
fn lost_packets_do_not_exceed_a_respected_limit() {
    let mut capture = samples::capture("nfs4.1-basic");
    mutate::each(&mut capture, |packet| {
        if packet.starts_message() {
            let credits = packet.payload().start + 8;
            packet.set_u32(credits, 1);
            packet.seal();
        }
    });
    let seen = conclusive(&capture);
    for seed in 0..60 {
        let (label, rest) = remainder(&capture, seed);
        let found = conclusive(&rest);
        assert!(found.is_subset(&seen), "{label}: {found:?}");
    }
}

/// NFSv3 has no callbacks: wherever its capture begins, no finding names the backward direction.
#[test]
fn unknown_direction_is_not_reported() {
    let original = samples::capture("nfs3-basic");
    let mut with_direction = 0;
    for start in (0..original.packets.len()).step_by(20) {
        let later = Capture { link: original.link, packets: original.packets[start..].to_vec() };
        for finding in findings(&later) {
            assert_ne!(
                finding.direction,
                Some(Direction::Backward),
                "from frame {}: {}",
                start + 1,
                line(&finding)
            );
            with_direction += u32::from(finding.direction.is_some());
        }
    }
    assert!(with_direction > 0);
}

/// A capture of one direction gives one finding, not one for each call.
#[test]
fn capture_of_one_direction_is_one_finding() {
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
