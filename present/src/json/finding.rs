//! What was judged, and how often what was found.

use super::report::FileView;
use crate::ending::Ending;
use crate::tally::{LevelCount, RuleCount, Tally};
use crate::words;
use rdmascope_conformance::Level;
use serde::Serialize;

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
