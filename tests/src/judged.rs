//! Runs the judge over a capture and keeps its findings.

use crate::pcap::{Capture, Packet};
use crate::session::records;
use rdmascope_conformance::{Finding, Judge, Level, Rule, Verdict};
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::observation::Observe;
use rdmascope_dissector::record::Record;

/// The judge as shipped, together with one that ignores all gates. Both must report the same
/// findings for each event.
#[derive(Clone, Debug)]
pub struct Compared {
    gated: Judge,
    exhaustive: Judge,
}

impl Default for Compared {
    fn default() -> Compared {
        Compared { gated: Judge::default(), exhaustive: Judge::exhaustive() }
    }
}

impl Compared {
    /// Passes an event to both judges and returns their findings.
    ///
    /// # Panics
    /// If the findings differ: a gate then hides an event that a rule needs.
    pub fn handle(&mut self, event: &Event<'_>) -> Vec<Finding> {
        let mut found: [Vec<Finding>; 2] = Default::default();
        self.gated.handle(event, &mut |finding| found[0].push(finding.clone()));
        self.exhaustive.handle(event, &mut |finding| found[1].push(finding.clone()));
        let [gated, exhaustive] = found;
        assert_eq!(gated, exhaustive, "the judge without gates reports other findings");
        gated
    }
}

/// The findings in a capture, with gates and without.
///
/// # Panics
/// As [`Compared::handle`], and if a finding lacks its rule or connection or has frames out of
/// order; the judge must prevent both.
pub fn findings(capture: &Capture) -> Vec<Finding> {
    findings_with_drops(capture, |_| 0)
}

/// The same for a capture that names, for each packet, the number of packets dropped before it.
///
/// # Panics
/// As [`findings`].
pub fn findings_with_drops(capture: &Capture, dropped: impl Fn(&Packet) -> u32) -> Vec<Finding> {
    let mut engine = Engine::new(Config { observe: Observe::All, ..Config::default() });
    let mut judge = Compared::default();
    let mut findings: Vec<Finding> = Vec::new();
    for (packet, record) in capture.packets.iter().zip(records(capture)) {
        let record = Record { dropped: dropped(packet), ..record };
        engine.handle(&record, &mut |event| findings.extend(judge.handle(&event)));
    }
    engine.finish(&mut |event| findings.extend(judge.handle(&event)));
    for finding in &findings {
        assert!(finding.rule.is_some() && finding.connection.is_some(), "{finding:?}");
        assert!(finding.frames.is_sorted(), "{finding:?}");
    }
    findings
}

/// The findings before the last packet of a capture.
pub fn findings_before_end(capture: &Capture) -> Vec<Finding> {
    let mut engine = Engine::new(Config { observe: Observe::All, ..Config::default() });
    let (mut judge, mut findings) = (Judge::default(), Vec::new());
    for record in records(capture).take(capture.packets.len().saturating_sub(1)) {
        engine.handle(&record, &mut |event| {
            judge.handle(&event, &mut |finding| findings.push(finding.clone()))
        });
    }
    findings
}

/// The rule of a finding.
///
/// # Panics
/// If the finding has no rule; the judge must set it.
pub fn rule(finding: &Finding) -> &'static Rule {
    finding.rule.expect("the judge sets it")
}

/// Whether a finding is a conclusive violation, which makes `rdmascope check` exit with 1.
pub fn is_violation(finding: &Finding) -> bool {
    finding.verdict == Verdict::Certain && rule(finding).level == Level::Violation
}

/// A finding on one line.
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
