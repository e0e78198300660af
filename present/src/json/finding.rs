//! Rules, what they found, and how often.

use super::report::FileView;
use super::{Hex, Shown};
use crate::ending::Ending;
use crate::names;
use crate::tally::{LevelCount, RuleCount, Tally};
use crate::words;
use rdmascope_conformance::{Document, Finding, Level, Rule, Source, Value};
use serde::Serialize;

/// `"type":"finding"`.
#[derive(Serialize)]
pub struct FindingLine<'a> {
    r#type: &'static str,
    rule: Option<&'static str>,
    level: Option<&'static str>,
    verdict: &'static str,
    allowed_rule: bool,
    connection: Option<u32>,
    by: Option<&'static str>,
    direction: Option<&'static str>,
    xid: Option<Hex<8>>,
    transaction: Option<u64>,
    frames: &'a [u64],
    message: &'a str,
    sources: Vec<SourceView>,
    observed: Option<ValueView<'a>>,
    allowed: Option<ValueView<'a>>,
}

impl<'a> FindingLine<'a> {
    /// `allowed_rule`: whether a person said that the rule may be broken.
    pub fn new(finding: &'a Finding, allowed_rule: bool) -> FindingLine<'a> {
        let rule = finding.rule;
        FindingLine {
            r#type: "finding",
            rule: rule.map(|rule| rule.id),
            level: rule.map(|rule| words::level(rule.level)),
            verdict: words::verdict(finding.verdict),
            allowed_rule,
            connection: finding.connection.map(|connection| connection.0),
            by: finding.by_requester.map(words::end),
            direction: finding.direction.map(names::direction),
            xid: finding.xid.map(|xid| Hex(xid.0.into())),
            transaction: finding.transaction,
            frames: &finding.frames,
            message: &finding.message,
            sources: rule.map_or_else(Vec::new, |rule| sources(rule.sources)),
            observed: finding.observed.as_ref().map(ValueView::from),
            allowed: finding.allowed.as_ref().map(ValueView::from),
        }
    }
}

/// Where a requirement stands.
#[derive(Serialize)]
pub struct SourceView {
    document: Shown<Document>,
    section: &'static str,
}

fn sources(sources: &[Source]) -> Vec<SourceView> {
    let view = |source: &Source| SourceView { document: Shown(source.document), section: source.section };
    sources.iter().map(view).collect()
}

/// A value with what it counts.
#[derive(Serialize)]
struct ValueView<'a> {
    value: Quantity<'a>,
    unit: &'static str,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Quantity<'a> {
    Number(u64),
    Hexadecimal(Shown<&'a Value>),
    Text(&'a str),
}

impl<'a> From<&'a Value> for ValueView<'a> {
    fn from(value: &'a Value) -> ValueView<'a> {
        let (quantity, unit) = match value {
            Value::Count(number) => (Quantity::Number(*number), "count"),
            Value::Bytes(number) => (Quantity::Number(*number), "bytes"),
            Value::Nanoseconds(number) => (Quantity::Number(*number), "nanoseconds"),
            // The form is the same for people: 0x and at least 8 digits.
            Value::Hexadecimal(_) => (Quantity::Hexadecimal(Shown(value)), "hexadecimal"),
            Value::Name(name) => (Quantity::Text(name), "text"),
            Value::Words(words) => (Quantity::Text(words), "text"),
        };
        ValueView { value: quantity, unit }
    }
}

/// `"type":"rule"`.
#[derive(Serialize)]
pub struct RuleLine {
    r#type: &'static str,
    rule: &'static str,
    subject: &'static str,
    level: &'static str,
    sources: Vec<SourceView>,
    sentence: &'static str,
    explanation: &'static str,
}

impl RuleLine {
    /// `subject`: what the rule is about.
    pub fn new(subject: &'static str, rule: &'static Rule) -> RuleLine {
        RuleLine {
            r#type: "rule",
            rule: rule.id,
            subject,
            level: words::level(rule.level),
            sources: sources(rule.sources),
            sentence: rule.sentence,
            explanation: rule.explanation,
        }
    }
}

/// `"type":"check"`.
#[derive(Serialize)]
pub struct CheckLine<'a> {
    r#type: &'static str,
    broken: bool,
    violations: LevelView,
    warnings: LevelView,
    advice: LevelView,
    rules: Vec<RuleView>,
    rules_asked: usize,
    connections: u64,
    connections_inferred: u64,
    connections_one_sided: u64,
    transactions: u64,
    missing_packets: u64,
    snapped: u64,
    evictions: u64,
    files: Vec<FileView<'a>>,
}

#[derive(Serialize)]
struct LevelView {
    stands: u64,
    allowed: u64,
    inconclusive: u64,
}

#[derive(Serialize)]
struct RuleView {
    rule: &'static str,
    level: &'static str,
    allowed_rule: bool,
    stands: u64,
    inconclusive: u64,
}

impl<'a> CheckLine<'a> {
    /// The line that ends the findings.
    pub fn new(tally: &Tally, ending: &'a Ending) -> CheckLine<'a> {
        let level = |level| LevelView::from(tally.level(level));
        let found = tally.rules.iter().filter(|count| count.stands + count.inconclusive > 0);
        CheckLine {
            r#type: "check",
            broken: tally.is_broken(),
            violations: level(Level::Violation),
            warnings: level(Level::Warning),
            advice: level(Level::Advice),
            rules: found.map(RuleView::from).collect(),
            rules_asked: tally.rules.len(),
            connections: tally.connections,
            connections_inferred: tally.inferred,
            connections_one_sided: tally.one_sided,
            transactions: tally.transactions,
            missing_packets: tally.missing_packets,
            snapped: ending.totals.cut_records,
            evictions: ending.totals.evictions,
            files: ending.files.iter().map(FileView::from).collect(),
        }
    }
}

impl From<LevelCount> for LevelView {
    fn from(LevelCount { stands, allowed, inconclusive }: LevelCount) -> LevelView {
        LevelView { stands, allowed, inconclusive }
    }
}

impl From<&RuleCount> for RuleView {
    fn from(count: &RuleCount) -> RuleView {
        RuleView {
            rule: count.rule.id,
            level: words::level(count.rule.level),
            allowed_rule: count.is_allowed,
            stands: count.stands,
            inconclusive: count.inconclusive,
        }
    }
}
