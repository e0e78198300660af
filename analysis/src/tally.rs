//! What is counted of findings, and of what was judged.

use crate::policy::Policed;
use crate::report::is_spoiled;
use foldhash::fast::FixedState;
use rdmascope_conformance::{About, Finding, Level, Rule, SUBJECTS, Verdict};
use rdmascope_dissector::connection::{Connection, Origin};
use rdmascope_dissector::transaction::{Security, Transaction};
use std::collections::HashMap;
use std::sync::Arc;

/// The counts of one capture.
#[derive(Debug)]
pub struct Tally {
    /// The rules that are asked, in the order of the table, with what was found.
    pub rules: Vec<RuleCount>,
    places: HashMap<&'static str, usize, FixedState>,
    /// Connections that ended.
    pub connections: u64,
    /// Those of them that carry [something else](Connection::is_foreign) than RPC-over-RDMA.
    pub foreign: u64,
    /// Those of them that were open before the capture began.
    pub inferred: u64,
    /// Those of which the capture shows one direction only.
    pub one_sided: u64,
    /// Those of which all that an end sent has a bad ICRC, so that it was left out.
    pub spoiled: u64,
    /// Transactions that ended.
    pub transactions: u64,
    /// Those of them whose arguments and results are encrypted (krb5p).
    pub sealed: u64,
    /// Request packets that the capture lacks.
    pub missing_packets: u64,
    /// What came of the policy, where there is one, when all is counted.
    pub policy: Option<Policed>,
}

/// A rule, with how often it was broken.
#[derive(Clone, Copy, Debug)]
pub struct RuleCount {
    /// The rule.
    pub rule: &'static Rule,
    /// Whether it may be broken, wherever that is.
    pub is_allowed: bool,
    /// Findings that stand.
    pub stands: u64,
    /// Those of them that are allowed.
    pub allowed: u64,
    /// Findings that may not.
    pub inconclusive: u64,
}

impl RuleCount {
    /// Whether something was found for certain, or nothing was found.
    fn is_conclusive(&self) -> bool {
        self.stands > 0 || self.inconclusive == 0
    }
}

/// The counts of the rules of one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelCount {
    /// Findings that stand.
    pub stands: u64,
    /// Those of them that are allowed.
    pub allowed: u64,
    /// Findings that may not stand.
    pub inconclusive: u64,
}

/// Where a finding is among all.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Its rule, in the order of [`Tally::rules`].
    pub rule: usize,
    /// Whether it is allowed: its rule may be broken, or a policy has a reason.
    pub is_allowed: bool,
    /// Why a policy allows it.
    pub reason: Option<&'a Arc<str>>,
    /// How many of its rule and verdict there are with it.
    pub count: u64,
}

impl Tally {
    /// Nothing is found yet; the rules down to `least` are asked, and `allowed` says which of them may be broken.
    pub fn new(allowed: impl Fn(&Rule) -> bool, least: Level) -> Tally {
        let asked = SUBJECTS.iter().flat_map(|subject| subject.rules).filter(|rule| rule.level <= least);
        let count =
            |rule| RuleCount { rule, is_allowed: allowed(rule), stands: 0, allowed: 0, inconclusive: 0 };
        let rules: Vec<RuleCount> = asked.map(count).collect();
        let places = rules.iter().enumerate().map(|(place, count)| (count.rule.id, place)).collect();
        Tally {
            rules,
            places,
            connections: 0,
            foreign: 0,
            inferred: 0,
            one_sided: 0,
            spoiled: 0,
            transactions: 0,
            sealed: 0,
            missing_packets: 0,
            policy: None,
        }
    }

    /// Counts a finding, which a policy may allow for a `reason`. `None` where it is of no rule that was asked.
    pub fn count<'a>(&mut self, finding: &Finding, reason: Option<&'a Arc<str>>) -> Option<Place<'a>> {
        let place = *self.places.get(finding.rule?.id)?;
        let rule = &mut self.rules[place];
        let is_allowed = rule.is_allowed || reason.is_some();
        let count = match finding.verdict {
            Verdict::Stands => {
                rule.allowed += u64::from(is_allowed);
                &mut rule.stands
            }
            Verdict::Inconclusive => &mut rule.inconclusive,
        };
        *count += 1;
        Some(Place { rule: place, is_allowed, reason, count: *count })
    }

    /// Takes in a transaction that ended.
    pub fn transaction(&mut self, transaction: &Transaction) {
        self.transactions += 1;
        self.sealed += u64::from(transaction.security == Some(Security::GssPrivacy));
    }

    /// Whether there are connections, and none may carry RPC-over-RDMA.
    pub fn is_foreign(&self) -> bool {
        self.connections > 0 && self.connections == self.foreign
    }

    /// Takes in a connection that ended.
    pub fn connection(&mut self, connection: &Connection) {
        let ends = [&connection.requester, &connection.responder];
        self.connections += 1;
        self.foreign += u64::from(connection.is_foreign);
        self.inferred += u64::from(connection.origin != Origin::Cm);
        let [requester, responder] = ends;
        let absent = requester.is_absent(responder) || responder.is_absent(requester);
        // A REQ that nobody answers is not of one direction: silence may be the answer.
        self.one_sided += u64::from(absent && ends.iter().any(|end| end.sent.packets > 0));
        self.spoiled += u64::from(ends.iter().any(|end| is_spoiled(end)));
        self.missing_packets += ends.iter().map(|end| end.sent.missing_packets).sum::<u64>();
    }

    /// The counts of one level.
    pub fn level(&self, level: Level) -> LevelCount {
        let of_level = self.rules.iter().filter(|count| count.rule.level == level);
        of_level.fold(LevelCount::default(), |sum, count| LevelCount {
            stands: sum.stands + count.stands,
            allowed: sum.allowed + count.allowed,
            inconclusive: sum.inconclusive + count.inconclusive,
        })
    }

    /// Whether a violation stands that is not allowed.
    pub fn is_broken(&self) -> bool {
        let LevelCount { stands, allowed, .. } = self.level(Level::Violation);
        stands > allowed
    }

    /// Whether a violation stands that is not allowed, or the policy is not kept.
    pub fn fails(&self) -> bool {
        self.is_broken() || self.policy.as_ref().is_some_and(Policed::fails)
    }

    /// Whether this rule was asked, has a conclusive verdict, and the capture shows something that it is about: transactions, connections, or how
    /// a connection was established.
    pub fn has_judged(&self, id: &str) -> bool {
        let Some(place) = self.places.get(id) else { return false };
        let count = &self.rules[*place];
        let there = match count.rule.about {
            About::Sent | About::Transaction => self.transactions,
            About::Established | About::Managed | About::Announced => self.connections - self.inferred,
            _ => self.connections,
        };
        there > 0 && count.is_conclusive()
    }

    /// The rules of which something was found for certain or nothing was found, and how many were asked.
    pub fn conclusive(&self) -> (usize, usize) {
        (self.rules.iter().filter(|count| count.is_conclusive()).count(), self.rules.len())
    }
}
