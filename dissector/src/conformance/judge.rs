//! The judge: keeps what is remembered of each connection, and asks the rules.

use super::finding::{Basis, Finding, Verdict};
use super::rule::{Check, Findings, On, OnObserved, OnSent, Rule};
use super::rules;
use super::view::View;
use crate::connection::{Connection, ConnectionId};
use crate::event::{Event, Eviction};
use crate::observation::{Ending, Observation, Observed};
use crate::rpcrdma::BuildHasher;
use crate::transaction::Transaction;
use hashbrown::HashMap;

/// Takes the events of an engine that [observes](crate::engine::Config::observe), and reports what breaks a rule.
#[derive(Debug)]
pub struct Judge {
    asked: Asked,
    cases: HashMap<ConnectionId, Box<Case>, BuildHasher>,
}

/// The rules by what they look at.
#[derive(Debug, Default)]
struct Asked {
    sent: Vec<(&'static Rule, OnSent)>,
    transaction: Vec<(&'static Rule, On<Transaction>)>,
    chunks: Vec<(&'static Rule, On<Transaction>)>,
    established: Vec<(&'static Rule, On<Connection>)>,
    connection: Vec<(&'static Rule, On<Connection>)>,
    observed: Vec<(&'static Rule, OnObserved)>,
}

/// A connection, and the findings on it.
#[derive(Debug)]
struct Case {
    view: View,
    court: Court,
}

/// Findings on one connection on their way to a verdict.
#[derive(Debug)]
pub(super) struct Court {
    connection: ConnectionId,
    requester: usize,
    /// Which end has packets waiting behind a gap.
    waits: [bool; 2],
    /// Those that rest on an end's silence, until it is certain that it was silent.
    pending: [Vec<Finding>; 2],
    ready: Vec<Finding>,
}

impl Default for Judge {
    /// One that asks all rules.
    fn default() -> Judge {
        Judge::new(|_| true)
    }
}

impl Judge {
    /// One that asks those rules for which `asks` holds.
    pub fn new(asks: impl Fn(&Rule) -> bool) -> Judge {
        let mut asked = Asked::default();
        for rule in rules().filter(|rule| asks(rule)) {
            match rule.check {
                Check::Sent(check) => asked.sent.push((rule, check)),
                Check::Transaction(check) => asked.transaction.push((rule, check)),
                Check::Chunks(check) => asked.chunks.push((rule, check)),
                Check::Established(check) => asked.established.push((rule, check)),
                Check::Connection(check) => asked.connection.push((rule, check)),
                Check::Observed(check) => asked.observed.push((rule, check)),
            }
        }
        Judge { asked, cases: HashMap::default() }
    }

    /// Takes the next event of the engine.
    pub fn handle(&mut self, event: &Event<'_>, report: &mut impl FnMut(&Finding)) {
        match event {
            Event::Observation(observation) => self.observe(observation, report),
            Event::Transaction(transaction) => {
                let Judge { asked, cases } = self;
                let Some(case) = cases.get_mut(&transaction.connection) else { return };
                case.ask(&asked.transaction, transaction);
                if lists_chunks(transaction) {
                    case.ask(&asked.chunks, transaction);
                }
                case.view.note_transaction(transaction);
                case.court.deliver(report);
            }
            Event::Connection(connection) => {
                let Some(mut case) = self.cases.remove(&connection.id) else { return };
                case.ask(&self.asked.connection, connection);
                case.court.close(report);
            }
            Event::Eviction(Eviction::Transaction { connection, direction, .. }) => {
                if let Some(case) = self.cases.get_mut(connection) {
                    case.view.note_eviction(*direction);
                }
            }
            Event::Eviction(_) | Event::Packet(_) => {}
        }
    }

    fn observe(&mut self, observation: &Observation<'_>, report: &mut impl FnMut(&Finding)) {
        let Judge { asked, cases } = self;
        let id = observation.connection;
        if let Observed::Joined(known_as) = &observation.what
            && let Some(mut gone) = cases.remove(known_as)
        {
            gone.court.close(report);
        }
        let case = cases.entry(id).or_insert_with(|| Box::new(Case::new(id)));
        let Case { view, court } = &mut **case;
        view.note(observation);
        court.requester = observation.requester;
        court.waits = observation.half_flows.map(|flow| flow.waits);
        match &observation.what {
            Observed::Sent(sent) => {
                court.settle(sent.from, Verdict::Stands);
                case.ask(&asked.sent, sent);
                case.view.note_sent(sent);
            }
            Observed::Established(connection) => {
                view.established = Some(Box::new((*connection).clone()));
                case.ask(&asked.established, connection);
            }
            Observed::Joined(_) => {
                (0..2).for_each(|end| court.settle(end, Verdict::Inconclusive));
                view.note_joined();
            }
            Observed::Missing(missing) => {
                court.settle(missing.from, Verdict::Inconclusive);
                view.note_missing(missing);
            }
            Observed::Ending(ending) => court.settle_at_the_end(ending),
            Observed::Stray(_) => {}
        }
        if !matches!(observation.what, Observed::Sent(_)) {
            case.ask(&asked.observed, &observation.what);
        }
        case.court.deliver(report);
    }
}

impl Case {
    fn new(connection: ConnectionId) -> Case {
        let court = Court {
            connection,
            requester: 0,
            waits: [false; 2],
            pending: Default::default(),
            ready: Vec::new(),
        };
        Case { view: View::new(connection), court }
    }

    #[inline]
    fn ask<T>(&mut self, rules: &[(&'static Rule, On<T>)], what: &T) {
        for (rule, check) in rules {
            check(what, &self.view, &mut Findings { rule, court: &mut self.court });
        }
    }
}

impl Court {
    /// Findings of one end that wait for certainty.
    const MOST_PENDING: usize = 256;

    /// Takes what a rule found.
    pub(super) fn take(&mut self, rule: &'static Rule, finding: Finding) {
        let mut finding = Finding {
            rule: Some(rule),
            connection: Some(self.connection),
            by_requester: finding.by.map(|end| end == self.requester),
            ..finding
        };
        match finding.basis {
            Basis::Packets => self.ready.push(finding),
            // A packet that the capture shows late could have been among those that wait.
            Basis::Silence(end) if !self.waits[end] && self.pending[end].len() < Court::MOST_PENDING => {
                self.pending[end].push(finding);
            }
            Basis::Silence(_) | Basis::Lacking => {
                finding.verdict = Verdict::Inconclusive;
                self.ready.push(finding);
            }
        }
    }

    /// It is certain now what this end sent up to here, or that it is not.
    fn settle(&mut self, end: usize, verdict: Verdict) {
        for finding in self.pending[end].drain(..) {
            self.ready.push(Finding { verdict, ..finding });
        }
    }

    fn settle_at_the_end(&mut self, ending: &Ending) {
        for end in 0..2 {
            for finding in self.pending[end].drain(..) {
                let complete = ending.complete[end] >= finding.frames.last().copied();
                let verdict = if complete { Verdict::Stands } else { Verdict::Inconclusive };
                self.ready.push(Finding { verdict, ..finding });
            }
        }
    }

    #[inline]
    fn deliver(&mut self, report: &mut impl FnMut(&Finding)) {
        self.ready.drain(..).for_each(|finding| report(&finding));
    }

    fn close(&mut self, report: &mut impl FnMut(&Finding)) {
        (0..2).for_each(|end| self.settle(end, Verdict::Inconclusive));
        self.deliver(report);
    }
}

fn lists_chunks(transaction: &Transaction) -> bool {
    [&transaction.call, &transaction.reply].into_iter().flatten().any(|message| {
        !message.read_chunks.is_empty() || !message.write_chunks.is_empty() || message.reply_chunk.is_some()
    })
}
