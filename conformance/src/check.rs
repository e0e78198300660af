//! The functions that decide rules, and the state that they read.

use super::finding::Finding;
use super::known::{Known, Memory};
use super::pending::PendingFindings;
use super::rule::{About, Level, Rule, Source};
use super::unmatched::UnmatchedMessages;
use core::ops::Deref;
use rdmascope_dissector::connection::Connection;
use rdmascope_dissector::observation::{Announced, Faulty, Managed, Refused, Revoked, Sent, Unmatched};
use rdmascope_dissector::transaction::Transaction;

/// A [`Rule`] with the function that decides it. `S` is the state that this function reads.
pub(crate) struct Checked<S: Reads = ()> {
    pub(crate) id: &'static str,
    pub(crate) level: Level,
    pub(crate) sources: &'static [Source],
    pub(crate) sentence: &'static str,
    pub(crate) explanation: &'static str,
    pub(crate) check: Check<S>,
}

/// Decides a rule on a `T`.
type On<T, S> = fn(&T, &View<'_, S>, &mut Findings<'_>);

/// The function that decides a rule, by the kind of its [cases](About).
pub(crate) enum Check<S: Reads> {
    Sent(fn(&Sent<'_>, &View<'_, S>, &mut Findings<'_>)),
    Transaction(On<Transaction, S>),
    Established(On<Connection, S>),
    Connection(On<Connection, S>),
    Managed(fn(&Managed<'_>, &View<'_, S>, &mut Findings<'_>)),
    Announced(fn(&Announced<'_>, &View<'_, S>, &mut Findings<'_>)),
    Faulty(On<Faulty, S>),
    Refused(On<Refused, S>),
    Unmatched(On<Unmatched, S>),
    Revoked(On<Revoked, S>),
}

/// A Send, a transaction or another event that is judged.
#[derive(Clone, Copy)]
pub(crate) enum Case<'a> {
    Sent(&'a Sent<'a>),
    Transaction(&'a Transaction),
    Established(&'a Connection),
    Connection(&'a Connection),
    Managed(&'a Managed<'a>),
    Announced(&'a Announced<'a>),
    Faulty(&'a Faulty),
    Refused(&'a Refused),
    Unmatched(&'a Unmatched),
    Revoked(&'a Revoked),
}

/// The state that the rules of a subject read: none, that of the subject, or also that of others.
pub(crate) trait Reads: 'static {
    /// The borrowed form.
    type Memory<'a>;
}

impl Reads for () {
    type Memory<'a> = ();
}

impl<M: Memory + 'static> Reads for M {
    type Memory<'a> = &'a M;
}

impl<M: Memory + 'static, N: Memory + 'static> Reads for (M, N) {
    type Memory<'a> = (&'a M, &'a N);
}

impl<M: Memory + 'static, N: Memory + 'static, O: Memory + 'static> Reads for (M, N, O) {
    type Memory<'a> = (&'a M, &'a N, &'a O);
}

/// The part of a connection's state that a rule reads.
pub(crate) struct View<'a, S: Reads = ()> {
    pub(crate) known: &'a Known,
    pub(crate) unmatched: &'a UnmatchedMessages,
    pub(crate) memory: S::Memory<'a>,
}

impl<S: Reads> Deref for View<'_, S> {
    type Target = Known;

    #[inline]
    fn deref(&self) -> &Known {
        self.known
    }
}

/// Collects the findings of one rule.
pub(crate) struct Findings<'a> {
    pub(crate) rule: &'static Rule,
    pub(crate) pending: &'a mut PendingFindings,
    pub(crate) known: &'a Known,
    pub(crate) unmatched: &'a UnmatchedMessages,
    /// The capture does not show that the transaction [is one](super::judged::is_doubtful).
    pub(crate) is_doubtful: bool,
}

impl Findings<'_> {
    /// Reports that the rule is broken, subject to the basis of the finding.
    #[cold]
    pub(crate) fn add(&mut self, finding: Finding) {
        let finding = finding.unless(self.is_doubtful);
        self.pending.take(self.rule, finding, self.known, self.unmatched);
    }
}

impl<S: Reads> Checked<S> {
    /// The rules of a table, without their functions.
    pub(crate) const fn rules<const COUNT: usize>(table: &[Checked<S>]) -> [Rule; COUNT] {
        let mut rules = [table[0].rule(); COUNT];
        let mut at = 1;
        while at < COUNT {
            rules[at] = table[at].rule();
            at += 1;
        }
        rules
    }

    const fn rule(&self) -> Rule {
        let Checked { id, level, sources, sentence, explanation, check } = self;
        Rule { id, level: *level, sources, sentence, explanation, about: check.about() }
    }
}

impl<S: Reads> Check<S> {
    const fn about(&self) -> About {
        match self {
            Check::Sent(_) => About::Sent,
            Check::Transaction(_) => About::Transaction,
            Check::Established(_) => About::Established,
            Check::Connection(_) => About::Connection,
            Check::Managed(_) => About::Managed,
            Check::Announced(_) => About::Announced,
            Check::Faulty(_) => About::Faulty,
            Check::Refused(_) => About::Refused,
            Check::Unmatched(_) => About::Unmatched,
            Check::Revoked(_) => About::Revoked,
        }
    }

    /// Runs the rule if the case is of its kind.
    pub(crate) fn run(&self, case: Case<'_>, view: &View<'_, S>, findings: &mut Findings<'_>) {
        match (self, case) {
            (Check::Sent(check), Case::Sent(sent)) => check(sent, view, findings),
            (Check::Transaction(check), Case::Transaction(transaction)) => check(transaction, view, findings),
            (Check::Established(check), Case::Established(connection))
            | (Check::Connection(check), Case::Connection(connection)) => check(connection, view, findings),
            (Check::Managed(check), Case::Managed(managed)) => check(managed, view, findings),
            (Check::Announced(check), Case::Announced(announced)) => check(announced, view, findings),
            (Check::Faulty(check), Case::Faulty(faulty)) => check(faulty, view, findings),
            (Check::Refused(check), Case::Refused(refused)) => check(refused, view, findings),
            (Check::Unmatched(check), Case::Unmatched(unmatched)) => check(unmatched, view, findings),
            (Check::Revoked(check), Case::Revoked(revoked)) => check(revoked, view, findings),
            _ => {}
        }
    }
}
