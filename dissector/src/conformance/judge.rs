//! The judge: keeps what is remembered of each connection, and asks the rules.

use super::chunks::{self, binding};
use super::finding::{Basis, Finding, Verdict};
use super::reconnection::Reconnections;
use super::rpc::Left;
use super::rule::{Check, Findings, On, OnObserved, OnSent, Rule};
use super::view::View;
use super::{credits, header, inline, invalidation, reverse, rules};
use crate::connection::{Connection, ConnectionId};
use crate::event::{Event, Eviction};
use crate::observation::{Ending, Observation, Observed, Sent};
use crate::rpcrdma::BuildHasher;
use crate::transaction::{Direction, Transaction};
use hashbrown::HashMap;

/// Takes the events of an engine that [observes](crate::engine::Config::observe), and reports what breaks a rule.
#[derive(Debug)]
pub struct Judge {
    asked: Asked,
    cases: Cases,
    reconnections: Reconnections,
    /// Calls without a reply on connections that were closed.
    left: Left,
}

/// The rules by what they look at.
#[derive(Debug, Default)]
struct Asked {
    sent: Vec<(&'static Rule, OnSent)>,
    irregular: Vec<(&'static Rule, OnSent)>,
    transaction: Vec<(&'static Rule, On<Transaction>)>,
    amiss: Vec<(&'static Rule, On<Transaction>)>,
    chunks: Vec<(&'static Rule, On<Transaction>)>,
    lists: Vec<(&'static Rule, On<Transaction>)>,
    established: Vec<(&'static Rule, On<Connection>)>,
    connection: Vec<(&'static Rule, On<Connection>)>,
    observed: Vec<(&'static Rule, OnObserved)>,
}

/// The connections that have not ended, each where the engine keeps it too.
#[derive(Debug, Default)]
struct Cases {
    cases: Vec<Option<Box<Case>>>,
    places: HashMap<ConnectionId, u32, BuildHasher>,
    /// The one that was asked for last: events of one packet are of one connection.
    last: u32,
}

impl Cases {
    #[inline]
    fn find_or_add(&mut self, id: ConnectionId, place: u32) -> &mut Case {
        self.last = place;
        let is_there = self.cases.get(place as usize).is_some_and(|case| is(case, id));
        if !is_there {
            self.add(id, place);
        }
        self.cases[place as usize].as_deref_mut().expect("it is there, or was added")
    }

    #[cold]
    fn add(&mut self, id: ConnectionId, place: u32) {
        if self.cases.len() <= place as usize {
            self.cases.resize_with(place as usize + 1, || None);
        }
        if let Some(former) = self.cases[place as usize].replace(Box::new(Case::new(id))) {
            self.places.remove(&former.view.connection);
        }
        self.places.insert(id, place);
    }

    #[inline]
    fn find(&mut self, id: ConnectionId) -> Option<&mut Case> {
        let is_last = self.cases.get(self.last as usize).is_some_and(|case| is(case, id));
        let place = if is_last { self.last } else { *self.places.get(&id)? };
        self.cases[place as usize].as_deref_mut()
    }

    fn remove(&mut self, id: ConnectionId) -> Option<Box<Case>> {
        let place = self.places.remove(&id)?;
        self.cases[place as usize].take()
    }
}

#[inline]
fn is(case: &Option<Box<Case>>, id: ConnectionId) -> bool {
    case.as_ref().is_some_and(|case| case.view.connection == id)
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
    /// The end that opened it, or that stands as the one that did.
    requester: usize,
    /// Whether that is known.
    roles_known: bool,
    /// Which end has packets waiting behind a gap.
    waits: [bool; 2],
    /// Of which end packets may be missing without its having been noticed.
    unsure: [bool; 2],
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
                Check::Irregular(check) => asked.irregular.push((rule, check)),
                Check::Transaction(check) => asked.transaction.push((rule, check)),
                Check::Amiss(check) => asked.amiss.push((rule, check)),
                Check::Chunks(check) => asked.chunks.push((rule, check)),
                Check::Lists(check) => asked.lists.push((rule, check)),
                Check::Established(check) => asked.established.push((rule, check)),
                Check::Connection(check) => asked.connection.push((rule, check)),
                Check::Observed(check) => asked.observed.push((rule, check)),
            }
        }
        Judge {
            asked,
            cases: Cases::default(),
            reconnections: Reconnections::default(),
            left: Left::default(),
        }
    }

    /// Takes the next event of the engine.
    pub fn handle(&mut self, event: &Event<'_>, report: &mut impl FnMut(&Finding)) {
        match event {
            Event::Observation(observation) => self.observe(observation, report),
            Event::Transaction(transaction) => {
                let Judge { asked, cases, left, .. } = self;
                let Some(case) = cases.find(transaction.connection) else { return };
                if !reverse::is_plain(transaction) || !invalidation::is_plain_in(transaction) {
                    case.ask(&asked.transaction, transaction);
                }
                if !header::is_plain(transaction) {
                    case.ask(&asked.amiss, transaction);
                }
                if lists_chunks(transaction) {
                    case.ask(&asked.chunks, transaction);
                }
                if !chunks::is_plain(transaction, &case.view) {
                    case.ask(&asked.lists, transaction);
                }
                case.view.note_transaction(transaction);
                left.note_transaction(transaction, &case.view);
                case.court.deliver(report);
            }
            Event::Connection(connection) => {
                let Some(mut case) = self.cases.remove(connection.id) else { return };
                case.ask(&self.asked.connection, connection);
                case.court.close(report);
            }
            Event::Eviction(Eviction::Transaction { connection, direction, .. }) => {
                if let Some(case) = self.cases.find(*connection) {
                    case.view.note_eviction(*direction);
                }
            }
            Event::Eviction(_) | Event::Packet(_) => {}
        }
    }

    fn observe(&mut self, observation: &Observation<'_>, report: &mut impl FnMut(&Finding)) {
        let Judge { asked, cases, reconnections, left } = self;
        let id = observation.connection;
        if let Observed::Joined(known_as) = &observation.what
            && let Some(mut gone) = cases.remove(*known_as)
        {
            gone.court.close(report);
        }
        let case = cases.find_or_add(id, observation.place);
        let Case { view, court } = case;
        view.note(observation);
        (court.requester, court.roles_known) = (observation.requester, observation.roles_known);
        court.waits = observation.half_flows.map(|flow| flow.waits);
        court.unsure = observation.half_flows.map(|flow| flow.unsure > 0);
        match &observation.what {
            Observed::Sent(sent) => {
                court.settle(sent.from, Verdict::Stands);
                if !is_plain(sent, &case.view) {
                    case.ask(&asked.sent, sent);
                }
                if !header::is_regular(sent) || case.view.rpc.expects_replays() {
                    case.ask(&asked.irregular, sent);
                }
                case.view.note_sent(sent);
            }
            Observed::Established(connection) => {
                view.established = Some(Box::new((*connection).clone()));
                view.exchange.before = reconnections.note(connection, &view.exchange);
                view.rpc.recall(left, connection);
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
            Observed::Ending(ending) => {
                court.settle_at_the_end(ending);
                view.ending = Some(*ending);
            }
            Observed::Outstanding(outstanding) => left.note(outstanding, view),
            Observed::Stray(stray) => view.note_stray(stray),
            Observed::Shared(shared) => view.note_shared(shared),
            Observed::Revoked(_)
            | Observed::RolesKnown
            | Observed::Managed(_)
            | Observed::Repeated(_)
            | Observed::Refused(_)
            | Observed::Spoiled(_)
            | Observed::Faulty(_)
            | Observed::Offered(_) => {}
        }
        if !matches!(observation.what, Observed::Sent(_)) {
            case.ask(&asked.observed, &observation.what);
            case.view.note_observed(&observation.what);
        }
        case.court.deliver(report);
    }
}

impl Case {
    fn new(connection: ConnectionId) -> Case {
        let court = Court {
            connection,
            requester: 0,
            roles_known: false,
            waits: [false; 2],
            unsure: [false; 2],
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
            caller: finding.direction.map(|direction| match direction {
                Direction::Forward => self.requester,
                Direction::Backward => 1 - self.requester,
            }),
            ..finding
        };
        match finding.basis {
            Basis::Packets => self.ready.push(finding),
            // A packet that the capture shows late could have been among those that wait.
            Basis::Silence(end) if !self.is_unsure(end) => {
                self.pending[end].push(finding);
            }
            Basis::Silence(_) | Basis::Lacking => {
                finding.verdict = Verdict::Inconclusive;
                self.ready.push(finding);
            }
        }
    }

    /// Whether nothing that comes can make it certain what this end sent up to now.
    fn is_unsure(&self, end: usize) -> bool {
        self.waits[end] || self.unsure[end] || self.pending[end].len() == Court::MOST_PENDING
    }

    /// It is certain now what this end sent up to here, or that it is not.
    #[inline]
    fn settle(&mut self, end: usize, verdict: Verdict) {
        if self.pending[end].is_empty() {
            return;
        }
        let verdict = if self.unsure[end] { Verdict::Inconclusive } else { verdict };
        for finding in self.pending[end].drain(..) {
            self.ready.push(Finding { verdict, ..finding });
        }
    }

    fn settle_at_the_end(&mut self, ending: &Ending) {
        for end in 0..2 {
            for finding in self.pending[end].drain(..) {
                let complete = !self.unsure[end] && ending.complete[end] >= finding.frames.last().copied();
                let verdict = if complete { Verdict::Stands } else { Verdict::Inconclusive };
                self.ready.push(Finding { verdict, ..finding });
            }
        }
    }

    #[inline]
    fn deliver(&mut self, report: &mut impl FnMut(&Finding)) {
        // Who opened the connection may have turned out since the rule was asked.
        let requester = self.roles_known.then_some(self.requester);
        for finding in self.ready.drain(..) {
            let is_requester = |end: usize| requester.map(|requester| requester == end);
            let direction = finding.caller.and_then(is_requester).map(|forward| match forward {
                true => Direction::Forward,
                false => Direction::Backward,
            });
            let by_requester = finding.by.and_then(is_requester);
            report(&Finding { direction, by_requester, ..finding });
        }
    }

    fn close(&mut self, report: &mut impl FnMut(&Finding)) {
        (0..2).for_each(|end| self.settle(end, Verdict::Inconclusive));
        self.deliver(report);
    }
}

/// Whether a look tells that no [`Check::Sent`] has anything to find.
#[inline]
fn is_plain(sent: &Sent<'_>, view: &View) -> bool {
    inline::is_plain(sent)
        && credits::is_plain(sent, view)
        && invalidation::is_plain(sent, view)
        && binding::is_plain(view)
}

fn lists_chunks(transaction: &Transaction) -> bool {
    [&transaction.call, &transaction.reply].into_iter().flatten().any(|message| {
        !message.read_chunks.is_empty() || !message.write_chunks.is_empty() || message.reply_chunk.is_some()
    })
}
