//! What is counted of findings, and of what was judged.

use super::Allowed;
use foldhash::fast::FixedState;
use rdmascope_conformance::{Finding, Level, Rule, SUBJECTS, Verdict};
use rdmascope_dissector::connection::{Connection, Origin};
use std::collections::HashMap;

/// The counts of one capture.
#[derive(Debug)]
pub(crate) struct Tally {
    /// The rules that are asked, in the order of the table, with what was found.
    pub(crate) rules: Vec<RuleCount>,
    places: HashMap<&'static str, usize, FixedState>,
    /// Connections that ended.
    pub(crate) connections: u64,
    /// Those of them that were open before the capture began.
    pub(crate) inferred: u64,
    /// Those of them of which only one direction is known.
    pub(crate) one_sided: u64,
    /// Transactions that ended.
    pub(crate) transactions: u64,
    /// Request packets that the capture lacks.
    pub(crate) missing_packets: u64,
}

/// A rule, with how often it was broken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuleCount {
    pub(crate) rule: &'static Rule,
    /// Whether it may be broken.
    pub(crate) is_allowed: bool,
    /// Findings that stand.
    pub(crate) stands: u64,
    /// Findings that may not.
    pub(crate) inconclusive: u64,
}

/// The counts of the rules of one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LevelCount {
    /// Findings that stand.
    pub(crate) stands: u64,
    /// Those of them whose rules may be broken.
    pub(crate) allowed: u64,
    /// Findings that may not stand.
    pub(crate) inconclusive: u64,
}

/// Where a finding is among all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Its rule, in the order of [`Tally::rules`].
    pub(crate) rule: usize,
    /// Whether the rule may be broken.
    pub(crate) is_allowed: bool,
    /// How many of its rule and verdict there are with it.
    pub(crate) count: u64,
}

impl Tally {
    /// Nothing is found yet; the rules down to `least` are asked.
    pub(super) fn new(allowed: &Allowed, least: Level) -> Tally {
        let asked = SUBJECTS.iter().flat_map(|subject| subject.rules).filter(|rule| rule.level <= least);
        let count = |rule| RuleCount { rule, is_allowed: allowed.has(rule), stands: 0, inconclusive: 0 };
        let rules: Vec<RuleCount> = asked.map(count).collect();
        let places = rules.iter().enumerate().map(|(place, count)| (count.rule.id, place)).collect();
        Tally {
            rules,
            places,
            connections: 0,
            inferred: 0,
            one_sided: 0,
            transactions: 0,
            missing_packets: 0,
        }
    }

    /// Counts a finding. `None` where it is of no rule that was asked.
    pub(super) fn count(&mut self, finding: &Finding) -> Option<Place> {
        let place = *self.places.get(finding.rule?.id)?;
        let rule = &mut self.rules[place];
        let count = match finding.verdict {
            Verdict::Stands => &mut rule.stands,
            Verdict::Inconclusive => &mut rule.inconclusive,
        };
        *count += 1;
        Some(Place { rule: place, is_allowed: rule.is_allowed, count: *count })
    }

    /// Takes in a connection that ended.
    pub(super) fn connection(&mut self, connection: &Connection) {
        let ends = [&connection.requester, &connection.responder];
        let is_inferred = matches!(connection.origin, Origin::Inferred(_));
        self.connections += 1;
        self.inferred += u64::from(is_inferred);
        self.one_sided += u64::from(is_inferred && ends.iter().any(|end| end.qpn.is_none()));
        self.missing_packets += ends.iter().map(|end| end.sent.missing_packets).sum::<u64>();
    }

    /// The counts of one level.
    pub(crate) fn level(&self, level: Level) -> LevelCount {
        let of_level = self.rules.iter().filter(|count| count.rule.level == level);
        of_level.fold(LevelCount::default(), |sum, count| LevelCount {
            stands: sum.stands + count.stands,
            allowed: sum.allowed + if count.is_allowed { count.stands } else { 0 },
            inconclusive: sum.inconclusive + count.inconclusive,
        })
    }

    /// Whether a violation stands that is not allowed.
    pub(crate) fn is_broken(&self) -> bool {
        let LevelCount { stands, allowed, .. } = self.level(Level::Violation);
        stands > allowed
    }
}
