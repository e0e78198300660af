//! The sessions of real kernels: what they break is known, case by case, and what a capture of them lacks is no violation.

use rdmascope_conformance::Finding;
use rdmascope_tests::judged::{findings, is_violation, line, rule};
use rdmascope_tests::pcap::Capture;
use rdmascope_tests::{mutate, samples};

/// What real kernels break: sample, rule, frames that are evidence, and why it is so.
const KNOWN: &[(&str, &str, &[u64], &str)] = &[
    ("nfs3-basic", "invalidation-sender-flag", &[1156], SERVER_CLEARS_R),
    ("nfs3-lossy", "invalidation-sender-flag", &[1805], SERVER_CLEARS_R),
    ("nfs4.1-backchannel-recall", "invalidation-sender-flag", &[11], SERVER_CLEARS_R),
    ("nfs4.1-basic", "invalidation-sender-flag", &[11], SERVER_CLEARS_R),
    ("nfs4.2-basic", "invalidation-sender-flag", &[12], SERVER_CLEARS_R),
    ("nfs4.2-mtu4096-large-io", "invalidation-sender-flag", &[12], SERVER_CLEARS_R),
];

/// Linux's server keeps of the private data only whether the client set R, and sends its own with R clear; then it invalidates one handle of
/// each call that has only one. RFC 8797, section 4.1 lets it do so only when both peers set R, and asks for plain Sends when either did not.
/// The client takes no harm: its trace shows each as xprtrdma_mr_reminv.
const SERVER_CLEARS_R: &str = "the server invalidates remotely although its own R is clear";

/// Whether real kernels break the rule of this finding: then sessions that they are altered from do, too.
pub(crate) fn is_known(finding: &Finding) -> bool {
    KNOWN.iter().any(|(_, id, _, _)| *id == rule(finding).id)
}

/// Whether it is a violation that stands, and none that real kernels bring with them.
pub(crate) fn is_new_violation(finding: &Finding) -> bool {
    is_violation(finding) && !is_known(finding)
}

/// The violations in a sample, altered or not, but for those that are known. A real fault that the alteration leaves in is one of its
/// rule whose frames, by their place in the unaltered capture, are those known: where places change, any of its rule is taken for it.
pub(crate) fn violations(sample: &str, capture: &Capture) -> Vec<String> {
    let known =
        |finding: &Finding| KNOWN.iter().any(|(known, id, _, _)| *known == sample && *id == rule(finding).id);
    let found = findings(capture);
    found.iter().filter(|finding| is_violation(finding) && !known(finding)).map(line).collect()
}

#[test]
fn real_sessions_break_nothing_but_what_is_known() {
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
fn what_is_known_is_found() {
    for (sample, id, frames, _) in KNOWN {
        let found = findings(&samples::capture(sample))
            .into_iter()
            .any(|finding| is_violation(&finding) && rule(&finding).id == *id && finding.frames == *frames);
        assert!(found, "{sample}: {id} at {frames:?}");
    }
}

/// No violation in `capture` without one of its packets, for those of them that `chosen` chooses.
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
fn a_lost_packet_is_no_violation() {
    lost_packets_are_no_violation("nfs4.1-backchannel-recall", |_| true);
}

#[test]
fn a_lost_packet_among_bulk_is_no_violation() {
    lost_packets_are_no_violation("nfs4.2-basic", |index| index % 5 == 0);
}

#[test]
fn a_lost_packet_among_large_transfers_is_no_violation() {
    lost_packets_are_no_violation("nfs4.2-mtu4096-large-io", |index| index % 7 == 0);
}

#[test]
fn a_capture_that_starts_in_the_middle_shows_no_violation() {
    let mut wrong = Vec::new();
    for sample in samples::MOUNTS {
        let whole = samples::capture(sample);
        for start in (0..whole.packets.len()).step_by(97) {
            let later = Capture { link: whole.link, packets: whole.packets[start..].to_vec() };
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
