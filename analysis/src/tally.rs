//! Counts of findings and of the judged traffic.

use crate::ending::Ending;
use crate::policy::Policed;
use crate::report::{Statement, is_spoiled};
use foldhash::fast::FixedState;
use rdmascope_conformance::{About, Finding, Level, Rule, SUBJECTS, Verdict};
use rdmascope_dissector::connection::{Connection, Origin};
use rdmascope_dissector::transaction::{Security, Transaction};
use std::collections::HashMap;
use std::sync::Arc;

/// The counts of one capture.
#[derive(Debug)]
pub struct Tally {
    /// The checked rules, in the order of the table, with their counts.
    pub rules: Vec<RuleCount>,
    places: HashMap<&'static str, usize, FixedState>,
    /// Connections that ended.
    pub connections: u64,
    /// Connections that carry [something else](Connection::is_foreign) than RPC-over-RDMA.
    pub foreign: u64,
    /// Connections whose Sends belong to no transaction, and connections without Sends whose
    /// beginning the capture lacks. [`Tally::foreign`] is not included.
    pub unread: u64,
    /// Connections that were open before the capture began.
    pub inferred: u64,
    /// Connections whose messages come from the kernel's transport. [`Tally::inferred`] includes them.
    pub snooped: u64,
    /// Connections for which the capture shows only one direction.
    pub one_sided: u64,
    /// Connections with an end that sent only packets with a bad ICRC, which were ignored.
    pub spoiled: u64,
    /// Transactions that ended.
    pub transactions: u64,
    /// Transactions whose arguments and results are encrypted (krb5p).
    pub sealed: u64,
    /// Request packets that are missing from the capture.
    pub missing_packets: u64,
    /// The outcome of the policy, if there is one. It is set at the end.
    pub policy: Option<Policed>,
    /// The statements about harm that lead the output. They are set at the end.
    pub leading: Vec<Statement>,
    /// Whether there was no service for some time. It is set at the end.
    pub has_outages: bool,
}

/// A rule with the counts of its findings.
#[derive(Clone, Copy, Debug)]
pub struct RuleCount {
    /// The rule.
    pub rule: &'static Rule,
    /// Whether the rule is allowed to be broken everywhere.
    pub is_allowed: bool,
    /// Conclusive findings.
    pub conclusive: u64,
    /// Conclusive findings that are allowed.
    pub allowed: u64,
    /// Inconclusive findings.
    pub inconclusive: u64,
}

impl RuleCount {
    /// Whether there are conclusive findings, or none at all.
    fn is_conclusive(&self) -> bool {
        self.conclusive > 0 || self.inconclusive == 0
    }
}

/// The counts of the rules of one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelCount {
    /// Conclusive findings.
    pub conclusive: u64,
    /// Conclusive findings that are allowed.
    pub allowed: u64,
    /// Inconclusive findings.
    pub inconclusive: u64,
}

/// The place of a finding in the counts.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The index of its rule in [`Tally::rules`].
    pub rule: usize,
    /// Whether it is allowed, because its rule may be broken or a policy allows it.
    pub is_allowed: bool,
    /// The policy's reason for allowing it.
    pub reason: Option<&'a Arc<str>>,
    /// The number of findings of its rule and verdict, including this one.
    pub count: u64,
}

impl Tally {
    /// Creates a tally without findings. The rules from the highest level down to `least` are
    /// checked, and `allowed` returns whether a rule may be broken.
    pub fn new(allowed: impl Fn(&Rule) -> bool, least: Level) -> Tally {
        let checked = SUBJECTS.iter().flat_map(|subject| subject.rules).filter(|rule| rule.level <= least);
        let count =
            |rule| RuleCount { rule, is_allowed: allowed(rule), conclusive: 0, allowed: 0, inconclusive: 0 };
        let rules: Vec<RuleCount> = checked.map(count).collect();
        let places = rules.iter().enumerate().map(|(place, count)| (count.rule.id, place)).collect();
        Tally {
            rules,
            places,
            connections: 0,
            foreign: 0,
            unread: 0,
            inferred: 0,
            snooped: 0,
            one_sided: 0,
            spoiled: 0,
            transactions: 0,
            sealed: 0,
            missing_packets: 0,
            policy: None,
            leading: Vec::new(),
            has_outages: false,
        }
    }

    /// Counts a finding, which a policy may allow for a `reason`. Returns `None` if its rule is not
    /// checked.
    pub fn count<'a>(&mut self, finding: &Finding, reason: Option<&'a Arc<str>>) -> Option<Place<'a>> {
        let place = *self.places.get(finding.rule?.id)?;
        let rule = &mut self.rules[place];
        let is_allowed = rule.is_allowed || reason.is_some();
        let count = match finding.verdict {
            Verdict::Certain => {
                rule.allowed += u64::from(is_allowed);
                &mut rule.conclusive
            }
            Verdict::Inconclusive => &mut rule.inconclusive,
        };
        *count += 1;
        Some(Place { rule: place, is_allowed, reason, count: *count })
    }

    /// Counts a transaction that ended.
    pub fn transaction(&mut self, transaction: &Transaction) {
        self.transactions += 1;
        self.sealed += u64::from(transaction.security == Some(Security::GssPrivacy));
    }

    /// The reason why nothing was judged: a clause. `None` if anything was.
    pub fn nothing_judged(&self, ending: &Ending) -> Option<&'static str> {
        match self {
            Tally { connections: 0, .. } if ending.chosen.is_some() => {
                Some("no transaction matches the filter")
            }
            Tally { connections: 0, .. } => Some("the capture has no connections"),
            _ if self.connections == self.foreign => Some("no connection carries RPC-over-RDMA"),
            _ if self.connections == self.foreign + self.unread => {
                Some("no message of RPC-over-RDMA could be read")
            }
            _ => None,
        }
    }

    /// Counts a connection that ended.
    pub fn connection(&mut self, connection: &Connection) {
        let ends = [&connection.requester, &connection.responder];
        self.connections += 1;
        self.foreign += u64::from(connection.is_foreign);
        let has_only_handshake = connection.is_iwarp && ends.iter().all(|end| end.sent.packets == 0);
        let may_have_messages = connection.origin != Origin::Cm || ends.iter().any(|end| end.sent.sends > 0);
        let is_unread = connection.transactions == [0, 0] && (may_have_messages || has_only_handshake);
        self.unread += u64::from(is_unread && !connection.is_foreign);
        self.inferred += u64::from(connection.origin != Origin::Cm);
        self.snooped += u64::from(connection.origin == Origin::Snoop);
        let [requester, responder] = ends;
        let absent = requester.is_absent(responder) || responder.is_absent(requester);
        // An unanswered REQ does not make a connection one-sided: the other end may have stayed
        // silent.
        self.one_sided += u64::from(absent && ends.iter().any(|end| end.sent.packets > 0));
        self.spoiled += u64::from(ends.iter().any(|end| is_spoiled(end)));
        self.missing_packets += ends.iter().map(|end| end.sent.missing_packets).sum::<u64>();
    }

    /// The counts of one level.
    pub fn level(&self, level: Level) -> LevelCount {
        let of_level = self.rules.iter().filter(|count| count.rule.level == level);
        of_level.fold(LevelCount::default(), |sum, count| LevelCount {
            conclusive: sum.conclusive + count.conclusive,
            allowed: sum.allowed + count.allowed,
            inconclusive: sum.inconclusive + count.inconclusive,
        })
    }

    /// Whether there is a conclusive violation that is not allowed.
    pub fn is_broken(&self) -> bool {
        let LevelCount { conclusive, allowed, .. } = self.level(Level::Violation);
        conclusive > allowed
    }

    /// Whether there is a conclusive violation that is not allowed, a time without service, or a policy that
    /// fails.
    pub fn fails(&self) -> bool {
        self.is_broken() || self.has_outages || self.policy.as_ref().is_some_and(Policed::fails)
    }

    /// Whether this rule was checked, has a conclusive verdict, and applies to something in the
    /// capture: transactions, connections, or the establishment of a connection.
    pub fn has_judged(&self, id: &str) -> bool {
        let Some(place) = self.places.get(id) else { return false };
        let count = &self.rules[*place];
        let applicable = match count.rule.about {
            About::Sent | About::Transaction => self.transactions,
            About::Established | About::Managed | About::Announced => self.connections - self.inferred,
            _ => self.connections,
        };
        applicable > 0 && count.is_conclusive()
    }

    /// The number of rules with a conclusive result, and the number of checked rules.
    pub fn conclusive(&self) -> (usize, usize) {
        (self.rules.iter().filter(|count| count.is_conclusive()).count(), self.rules.len())
    }
}
