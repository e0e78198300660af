//! The judge at work on a capture, with what it found kept.

use crate::pcap::{Capture, Packet};
use crate::session::records;
use rdmascope_conformance::{Finding, Judge, Level, Rule, Verdict};
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::observation::Observe;
use rdmascope_dissector::record::Record;

/// The judge as it is used, beside one that ignores all gates. Both must find the same of every event.
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
    /// Hands an event to both, and returns what they found.
    ///
    /// # Panics
    /// Where they found different things: then a gate is closed to something that a rule behind it finds.
    pub fn handle(&mut self, event: &Event<'_>) -> Vec<Finding> {
        let mut found: [Vec<Finding>; 2] = Default::default();
        self.gated.handle(event, &mut |finding| found[0].push(finding.clone()));
        self.exhaustive.handle(event, &mut |finding| found[1].push(finding.clone()));
        let [gated, exhaustive] = found;
        assert_eq!(gated, exhaustive, "the judge that ignores gates finds something else");
        gated
    }
}

/// What the judge finds in a capture, with gates and without.
///
/// # Panics
/// As [`Compared::handle`], and where a finding lacks its rule or its connection, or its frames are not in order: the judge sees to that.
pub fn findings(capture: &Capture) -> Vec<Finding> {
    findings_where(capture, |_| 0)
}

/// The same where the capture says of each packet how many were dropped before it.
///
/// # Panics
/// As [`findings`].
pub fn findings_where(capture: &Capture, dropped: impl Fn(&Packet) -> u32) -> Vec<Finding> {
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

/// What the judge finds before the last packet of a capture comes.
pub fn findings_on_the_way(capture: &Capture) -> Vec<Finding> {
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
