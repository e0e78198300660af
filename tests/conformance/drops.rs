//! Captures that report dropped packets: findings must not rest on packets that were not captured.

use crate::triggers;
use rdmascope_conformance::Verdict;
use rdmascope_tests::judged::{findings_before_end, findings_with_drops, rule};
use rdmascope_tests::pcap::{Capture, Packet};
use std::collections::BTreeSet;

/// Rules that an end breaks by not sending something.
const BY_SILENCE: [&str; 6] = [
    "credit-limit",
    "memory-advertised",
    "memory-segment-end",
    "rpc-call-unanswered",
    "rpc-reply-without-call",
    "header-fault-unanswered",
];

fn conclusive(capture: &Capture, dropped: impl Fn(&Packet) -> u32) -> BTreeSet<(&'static str, Vec<u64>)> {
    let found = findings_with_drops(capture, dropped);
    let conclusive = found.iter().filter(|finding| finding.verdict == Verdict::Certain);
    conclusive.map(|finding| (rule(finding).id, finding.frames.clone())).collect()
}

/// Reported drops add no accusation, and remove those that depend on the absence of a packet.
#[test]
fn drops_make_findings_from_absence_inconclusive() {
    let mut silenced = BTreeSet::new();
    for trigger in triggers() {
        let mut altered = (trigger.control)();
        (trigger.alter)(&mut altered);
        let before = conclusive(&altered, |_| 0);
        let after = conclusive(&altered, |_| 1);
        let more: Vec<_> = after.difference(&before).collect();
        assert!(more.is_empty(), "{}: {more:?}", trigger.rule);
        let is_found = |found: &BTreeSet<(&str, Vec<u64>)>| found.iter().any(|(id, _)| *id == trigger.rule);
        if is_found(&before) && !is_found(&after) {
            silenced.insert(trigger.rule);
        }
    }
    let lacking: Vec<_> = BY_SILENCE.iter().filter(|id| !silenced.contains(*id)).collect();
    assert!(lacking.is_empty(), "{lacking:?} are still conclusive; {silenced:?} are not");
}

/// A drop after a finding was decided does not change the finding.
#[test]
fn drops_do_not_change_earlier_findings() {
    let mut compared = 0;
    for trigger in triggers() {
        let mut altered = (trigger.control)();
        (trigger.alter)(&mut altered);
        let last = altered.packets.last().map_or(0, |packet| packet.number);
        let before = findings_before_end(&altered);
        let decided = before.first().filter(|first| first.verdict == Verdict::Certain);
        let Some(first) = decided else { continue };
        let after = findings_with_drops(&altered, |packet| u32::from(packet.number == last));
        assert_eq!(after.first(), Some(first), "{}", trigger.rule);
        compared += 1;
    }
    assert!(compared > 60, "{compared} were decided early");
}
