//! The sessions of real kernels: their violations are listed, and packets that a capture lacks give
//! no further ones.

use rdmascope_conformance::Finding;
use rdmascope_tests::judged::{findings, is_violation, line, rule};
use rdmascope_tests::pcap::Capture;
use rdmascope_tests::{mutate, samples};

/// Violations by real kernels: sample, rule, frames of the evidence, and reason.
const KNOWN: &[(&str, &str, &[u64], &str)] = &[
    ("nfs3-basic", "invalidation-sender-flag", &[1156], SERVER_CLEARS_R),
    ("nfs3-lossy", "invalidation-sender-flag", &[1805], SERVER_CLEARS_R),
    ("nfs4.1-backchannel-recall", "invalidation-sender-flag", &[11], SERVER_CLEARS_R),
    ("nfs4.1-basic", "invalidation-sender-flag", &[11], SERVER_CLEARS_R),
    ("nfs4.2-basic", "invalidation-sender-flag", &[12], SERVER_CLEARS_R),
    ("nfs4.2-mtu4096-large-io", "invalidation-sender-flag", &[12], SERVER_CLEARS_R),
];

/// Linux's server only stores whether the client set R, and sends its own private data with R
/// clear. Then it invalidates one handle of each call that has only one. RFC 8797, section 4.1
/// allows that only if both peers set R, and requires plain Sends otherwise. The client accepts
/// these: its trace shows each as xprtrdma_mr_reminv.
const SERVER_CLEARS_R: &str = "the server invalidates remotely although its own R is clear";

/// Whether real kernels break the rule of this finding. Sessions altered from theirs do as well.
pub(crate) fn is_known(finding: &Finding) -> bool {
    KNOWN.iter().any(|(_, id, _, _)| *id == rule(finding).id)
}

/// Whether it is a conclusive violation that real kernels do not cause.
pub(crate) fn is_new_violation(finding: &Finding) -> bool {
    is_violation(finding) && !is_known(finding)
}

/// The violations in a sample, altered or not, without the known ones. Every finding of a known
/// rule counts as known, because alterations change frame numbers.
pub(crate) fn violations(sample: &str, capture: &Capture) -> Vec<String> {
    let known =
        |finding: &Finding| KNOWN.iter().any(|(known, id, _, _)| *known == sample && *id == rule(finding).id);
    let found = findings(capture);
    found.iter().filter(|finding| is_violation(finding) && !known(finding)).map(line).collect()
}

#[test]
fn real_sessions_have_only_known_violations() {
    let mut wrong = Vec::new();
    for sample in samples::ALL {
        for finding in findings(&samples::capture(sample)) {
            let is_known = KNOWN.iter().any(|(known, id, frames, _)| {
                *known == sample
                    && *id == rule(&finding).id
                    && frames.iter().all(|frame| finding.frames.contains(frame))
            });
            if is_violation(&finding) && !is_known {
                wrong.push(format!("{sample}: {}", line(&finding)));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn known_violations_are_found() {
    for (sample, id, frames, _) in KNOWN {
        let found = findings(&samples::capture(sample))
            .into_iter()
            .any(|finding| is_violation(&finding) && rule(&finding).id == *id && finding.frames == *frames);
        assert!(found, "{sample}: {id} at {frames:?}");
    }
}

/// Checks that the capture without any one of the chosen packets has no violation.
fn lost_packets_are_no_violation(sample: &str, chosen: impl Fn(usize) -> bool) {
    let capture: Capture = samples::capture(sample);
    let mut wrong = Vec::new();
    for (index, lost) in capture.packets.iter().enumerate().filter(|(index, _)| chosen(*index)) {
        let rest = mutate::keep(&capture, |packet| packet.number != lost.number);
        let found = violations(sample, &rest);
        wrong.extend(
            found
                .iter()
                .map(|line| format!("{sample} without packet {index}, frame {}: {line}", lost.number)),
        );
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn lost_packet_is_no_violation() {
    lost_packets_are_no_violation("nfs4.1-backchannel-recall", |_| true);
}

#[test]
fn lost_packet_among_bulk_is_no_violation() {
    lost_packets_are_no_violation("nfs4.2-basic", |index| index % 5 == 0);
}

#[test]
fn lost_packet_among_large_transfers_is_no_violation() {
    lost_packets_are_no_violation("nfs4.2-mtu4096-large-io", |index| index % 7 == 0);
}

#[test]
fn capture_from_the_middle_shows_no_violation() {
    let mut wrong = Vec::new();
    for sample in samples::MOUNTS {
        let original = samples::capture(sample);
        for start in (0..original.packets.len()).step_by(97) {
            let later = Capture { link: original.link, packets: original.packets[start..].to_vec() };
            let found = findings(&later);
            let broken = found.iter().filter(|finding| is_violation(finding)).filter(|finding| {
                !KNOWN.iter().any(|(known, id, frames, _)| {
                    *known == sample
                        && *id == rule(finding).id
                        && finding.frames.iter().any(|frame| frames.contains(frame))
                })
            });
            wrong.extend(broken.map(|finding| format!("{sample} from {start} on: {}", line(finding))));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
