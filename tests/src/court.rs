//! A judge at work on a capture, with what it found kept.

use crate::pcap::Capture;
use rdmascope_conformance::{Finding, Judge, Level, Rule, Verdict};
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::record::{LinkType, Record, Time};

/// What the judge finds in a capture.
///
/// # Panics
/// Where a finding lacks its rule or its connection, or its frames are not in order: the judge sees to that.
pub fn findings(capture: &Capture) -> Vec<Finding> {
    let mut engine = Engine::new(Config { observe: true, ..Config::default() });
    let mut judge = Judge::default();
    let mut findings: Vec<Finding> = Vec::new();
    let mut keep = |finding: &Finding| {
        assert!(finding.rule.is_some() && finding.connection.is_some(), "{finding:?}");
        assert!(finding.frames.is_sorted(), "{finding:?}");
        findings.push(finding.clone());
    };
    for packet in &capture.packets {
        let record = Record {
            number: packet.number,
            time: Time(packet.time),
            link: LinkType(capture.link),
            original_length: packet.original_length,
            data: &packet.data,
        };
        engine.handle(&record, &mut |event| judge.handle(&event, &mut keep));
    }
    engine.finish(&mut |event| judge.handle(&event, &mut keep));
    findings
}

/// The rule of a finding.
///
/// # Panics
/// Where there is none: the judge sets it.
pub fn rule(finding: &Finding) -> &'static Rule {
    finding.rule.expect("the judge sets it")
}

/// Whether it is a violation that stands: what makes `rdmascope check` exit with 1.
pub fn is_violation(finding: &Finding) -> bool {
    finding.verdict == Verdict::Stands && rule(finding).level == Level::Violation
}

/// One line about a finding.
pub fn line(finding: &Finding) -> String {
    let rule = rule(finding);
    format!(
        "{} {} {}: {} (frames {:?}, {:?} {:?}, by end {:?})",
        rule.level,
        finding.verdict,
        rule.id,
        finding.message,
        finding.frames,
        finding.direction,
        finding.xid,
        finding.by
    )
}
