//! The facts of the overview: the state of a session at a glance. Memory does not grow with the
//! length of the capture.

use foldhash::fast::FixedState;
use rdmascope_analysis::charts::{AllCredits, Interval, Intervals, Latencies};
use rdmascope_analysis::ending::Ending;
use rdmascope_analysis::events::{Cause, Kind, SILENCE, SessionEvent};
use rdmascope_analysis::live;
use rdmascope_analysis::names::Label;
use rdmascope_analysis::paths;
use rdmascope_analysis::report::{Harm, Key, Latency, Problem, Report, Statement, Stats, Subject};
use rdmascope_analysis::units::{Counted, Spoken};
use rdmascope_conformance::{Finding, Level, Verdict};
use rdmascope_dissector::connection::{Connection, ConnectionId, State};
use rdmascope_dissector::frame::Address;
use rdmascope_dissector::phases::{Phases, grouped};
use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::{Direction, Transaction};
use std::borrow::Borrow;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

/// The state of a session at a glance.
#[derive(Clone, Debug, Default)]
pub struct Overview {
    /// The statements of `analyze` about the capture, the most harmful first.
    pub statements: Vec<Statement>,
    /// The text of `analyze` for a capture without problems. `None` if there are problems, or if the
    /// capture has not ended.
    pub nothing: Option<String>,
    /// The files that were not read to their end, and how each ended; at most four.
    pub incomplete: Vec<String>,
    /// The most important figures.
    pub tiles: Tiles,
    /// Figures over time.
    pub over_time: OverTime,
    /// The operations with the most total time, that first.
    pub operations: Vec<Operation>,
    /// The files, the clients and the servers with the most calls, if there are several.
    pub busiest: [Vec<Busy>; 3],
}

impl Overview {
    /// The most operations that are listed.
    pub const MOST_OPERATIONS: usize = 12;
    /// The most files, clients or servers that are listed.
    pub const MOST_BUSY: usize = 5;
    /// The most incomplete files that are listed.
    const MOST_FILES: usize = 4;

    /// The statements about harm.
    pub fn harm(&self) -> impl Iterator<Item = &Statement> {
        self.statements.iter().filter(|statement| statement.harm < Harm::Note)
    }
}

/// The most important figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tiles {
    /// Connections.
    pub connections: u64,
    /// Connections that are open.
    pub up: u64,
    /// Connections whose client lost its service.
    pub lost: u64,
    /// Ended calls.
    pub calls: u64,
    /// Errors in replies that are no part of normal work.
    pub errors: u64,
    /// Packets that were sent again.
    pub resent: u64,
    /// Packets that were dropped while capturing.
    pub dropped: u64,
    /// The findings.
    pub found: FoundCounts,
}

/// Findings that are not allowed, by level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FoundCounts {
    /// Violations.
    pub violations: u64,
    /// Warnings.
    pub warnings: u64,
    /// Advice.
    pub advice: u64,
    /// Inconclusive ones of any level.
    pub inconclusive: u64,
}

impl FoundCounts {
    /// Counts a finding.
    pub fn count(&mut self, finding: &Finding) {
        let level = finding.rule.map(|rule| rule.level);
        let count = match (finding.verdict, level) {
            (Verdict::Inconclusive, _) => &mut self.inconclusive,
            (Verdict::Certain, Some(Level::Violation) | None) => &mut self.violations,
            (Verdict::Certain, Some(Level::Warning)) => &mut self.warnings,
            (Verdict::Certain, Some(Level::Advice)) => &mut self.advice,
        };
        *count += 1;
    }
}

/// Values in equal intervals from the start of the capture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Over<T> {
    /// The length of an interval, in nanoseconds.
    pub width: u64,
    /// The values, from the start.
    pub values: Vec<T>,
}

impl<T> Over<T> {
    fn of<S: Interval>(intervals: &Intervals<S>, value: impl FnMut(&S) -> T) -> Over<T> {
        Over { width: intervals.width(), values: intervals.intervals().iter().map(value).collect() }
    }
}

/// Figures over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OverTime {
    /// The start of the capture, and the latest time.
    pub span: Option<(Time, Time)>,
    /// The median and the 99th percentile of the latencies, in nanoseconds, at the time of the
    /// replies.
    pub latencies: Over<Option<[f64; 2]>>,
    /// Payload bytes written and read.
    pub moved: Over<[u64; 2]>,
    /// The most calls in flight on one connection, and the credits that it was granted.
    pub flight: Over<(u64, Option<u32>)>,
}

/// An operation.
#[derive(Clone, Debug)]
pub struct Operation {
    /// The protocol and the principal operation, as text.
    pub name: String,
    /// The principal operation.
    pub label: Label,
    /// Whether it runs backward.
    pub backward: bool,
    /// Its transactions.
    pub count: u64,
    /// Its latencies.
    pub latency: Option<Latency>,
    /// The sum of the latencies, in nanoseconds.
    pub total: u64,
    /// The share of each of [`Phases::GROUPS`] in its time.
    pub shares: Option<[f64; Phases::GROUPS.len()]>,
}

/// A file, a client or a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Busy {
    /// Its path or address.
    pub name: Vec<u8>,
    /// Its calls.
    pub calls: u64,
    /// The payload bytes that these moved.
    pub bytes: u64,
}

/// The facts so far.
#[derive(Debug, Default)]
pub struct Gathering {
    latencies: Intervals<Latencies>,
    moved: Intervals<[u64; 2]>,
    credits: AllCredits,
    found: FoundCounts,
    files: Ranking<Box<[u8]>>,
    clients: Ranking<Address>,
    servers: Ranking<Address>,
}

/// The facts about the session that [`Gathering`] does not collect.
pub(crate) struct SessionFacts<'a> {
    /// The report of `analyze`.
    pub(crate) report: &'a Report,
    /// The totals, with a span up to now.
    pub(crate) ending: &'a Ending,
    /// The events.
    pub(crate) events: &'a [SessionEvent],
    /// The connections that have not ended.
    pub(crate) open: &'a [Connection],
    /// The connections of forward calls without a reply so far, and the start of each call.
    pub(crate) waiting: Vec<(ConnectionId, Time)>,
    /// The capture has ended.
    pub(crate) has_ended: bool,
    /// Packets that were dropped, according to the records.
    pub(crate) dropped: u64,
}

impl Gathering {
    /// Connections whose calls in flight are compared.
    const MOST_CREDITS: usize = 8;

    /// Takes a transaction of a capture that begins at `start`, with the path of its file.
    pub fn transaction(&mut self, transaction: &Transaction, file: Option<&[u8]>, start: Time) {
        self.credits.transaction(transaction, start);
        let moved = live::moved(transaction);
        let bytes = moved[0].saturating_add(moved[1]);
        if let Some(file) = file {
            self.files.count(file, bytes, || file.into());
        }
        if let Some(client) = paths::client(transaction) {
            self.clients.count(&client, bytes, || client);
        }
        if let Some(server) = paths::server(transaction) {
            self.servers.count(&server, bytes, || server);
        }
        let Some(reply) = &transaction.reply else { return };
        let at = reply.seen.time.since(start);
        self.moved.at(at).iter_mut().zip(moved).for_each(|(sum, more)| *sum = sum.saturating_add(more));
        if let (Some(latency), Direction::Forward) = (transaction.latency(), transaction.direction) {
            self.latencies.at(at).add(latency, 1);
        }
    }

    /// Counts a finding that is not allowed.
    pub fn finding(&mut self, finding: &Finding) {
        self.found.count(finding);
    }

    /// The overview now.
    pub(crate) fn overview(&mut self, facts: &SessionFacts<'_>) -> Overview {
        let SessionFacts { report, ending, events, open, has_ended, .. } = *facts;
        let violations = self.found.violations;
        let (mut statements, problems) = match has_ended {
            true => (report.verdict(ending, violations), report.problems(ending)),
            false => {
                let statements = report.verdict_now(ending, events, open, violations);
                (statements, report.problems_now(ending, open))
            }
        };
        let is_lost = statements.iter().any(|statement| statement.harm == Harm::ServiceLost);
        if let Some(waits) = waits(facts).filter(|_| !has_ended && !is_lost) {
            statements.push(waits);
            statements.sort_by_key(|statement| statement.harm);
        }
        Overview {
            statements,
            nothing: has_ended.then(|| report.nothing_wrong(ending, &report.verdict(ending, 0))).flatten(),
            incomplete: ending.incomplete_files().take(Overview::MOST_FILES).collect(),
            tiles: self.tiles(facts, &problems),
            over_time: self.over_time(facts),
            operations: operations(report),
            busiest: [
                self.files.busiest(|path| path.to_vec()),
                self.clients.busiest(|address| address.to_string().into_bytes()),
                self.servers.busiest(|address| address.to_string().into_bytes()),
            ],
        }
    }

    fn tiles(&self, facts: &SessionFacts<'_>, problems: &[Problem]) -> Tiles {
        let count =
            |name: &str| problems.iter().filter(|problem| problem.name == name).map(|it| it.count).sum();
        let (errors, further) = facts.report.errors();
        let is_up = |connection: &&Connection| connection.state == State::Open && !connection.is_foreign;
        Tiles {
            connections: facts.ending.totals.connections.max(facts.open.len() as u64),
            up: facts.open.iter().filter(is_up).count() as u64,
            lost: lost(facts.events),
            calls: facts.ending.totals.transactions.iter().sum(),
            errors: errors.iter().map(|(_, error)| error.count).sum::<u64>() + further,
            resent: count("retransmission"),
            dropped: facts.dropped.max(count("dropped-packet")),
            found: self.found,
        }
    }

    fn over_time(&mut self, facts: &SessionFacts<'_>) -> OverTime {
        let Some((start, end)) = facts.ending.totals.span else { return OverTime::default() };
        let now = end.since(start);
        self.latencies.at(now);
        self.moved.at(now);
        let waiting = facts.waiting.iter().map(|(connection, since)| (*connection, since.since(start)));
        let waiting: Vec<(ConnectionId, u64)> = waiting.collect();
        let percentiles = |latencies: &Latencies| Some([latencies.quantile(0.5)?, latencies.quantile(0.99)?]);
        OverTime {
            span: Some((start, end)),
            latencies: Over::of(&self.latencies, percentiles),
            moved: Over::of(&self.moved, |moved| *moved),
            flight: flight(&self.credits, now, &waiting),
        }
    }
}

/// The name of the waiting calls of a running capture, as the subject of a statement.
pub const WAITING: &str = "waiting";

/// The calls that have waited for long so far, on connections whose two ends are captured.
fn waits(facts: &SessionFacts<'_>) -> Option<Statement> {
    let (_, now) = facts.ending.totals.span?;
    let has_both_ends = |id: &ConnectionId| {
        let place = facts.open.binary_search_by_key(id, |connection| connection.id);
        place.is_ok_and(|place| {
            let Connection { state, requester, responder, .. } = &facts.open[place];
            *state == State::Open && requester.sent.packets > 0 && responder.sent.packets > 0
        })
    };
    let ages = facts.waiting.iter().filter(|(connection, _)| has_both_ends(connection));
    let ages: Vec<u64> = ages.map(|(_, since)| now.since(*since)).filter(|age| *age >= SILENCE).collect();
    let oldest = *ages.iter().max()?;
    let calls = Counted(ages.len() as u64, "call");
    Some(Statement {
        harm: Harm::Waits,
        text: format!("{calls} without a reply so far, the oldest for {}", Spoken(oldest)),
        frame: None,
        is_of_events: false,
        is_outage: false,
        subject: Subject::Problem(WAITING),
    })
}

/// The number of connections whose client lost its service.
fn lost(events: &[SessionEvent]) -> u64 {
    let is_lost =
        |event: &&SessionEvent| event.kind == Kind::ServiceLost && event.cause.is_none_or(Cause::was_made);
    let lost: BTreeSet<ConnectionId> = events.iter().filter(is_lost).map(|event| event.connection).collect();
    lost.len() as u64
}

/// The most calls in flight on one connection in each interval, and its grant.
fn flight(credits: &AllCredits, now: u64, waiting: &[(ConnectionId, u64)]) -> Over<(u64, Option<u32>)> {
    let all = credits.forward_now(Gathering::MOST_CREDITS, now, waiting);
    let mut flight = Over::default();
    for credits in &all {
        let timeline = credits.timeline();
        flight.width = timeline.width();
        flight.values.resize(flight.values.len().max(timeline.intervals().len()), (0, None));
        let mut granted = None;
        for (most, interval) in flight.values.iter_mut().zip(timeline.intervals()) {
            // A grant is valid until the next one.
            granted = interval.granted.map(|(_, highest)| highest).or(granted);
            if interval.peak > most.0 || most.1.is_none() {
                *most = (interval.peak.max(most.0), granted);
            }
        }
    }
    flight
}

fn operations(report: &Report) -> Vec<Operation> {
    let mut all = report.operations();
    all.sort_by_key(|(key, stats)| (Reverse(stats.total_latency), **key));
    let operation = |(key, stats): (&Key, &Stats)| Operation {
        name: key.to_string(),
        label: key.label,
        backward: key.backward,
        count: stats.count,
        latency: stats.latency(),
        total: stats.total_latency,
        shares: stats.shares().map(grouped),
    };
    all.into_iter().take(Overview::MOST_OPERATIONS).map(operation).collect()
}

/// Calls and bytes by key, in bounded memory. When there are too many keys, the half with the
/// fewest calls is forgotten; one that comes back is counted from then on.
#[derive(Debug)]
struct Ranking<K>(HashMap<K, [u64; 2], FixedState>);

impl<K> Default for Ranking<K> {
    fn default() -> Ranking<K> {
        Ranking(HashMap::default())
    }
}

impl<K: Eq + Hash + Ord> Ranking<K> {
    /// The most keys that are kept.
    const MOST: usize = 4096;

    /// Counts a call of `key`; `own` is the key to keep if it is new.
    fn count<Q: Eq + Hash + ?Sized>(&mut self, key: &Q, bytes: u64, own: impl FnOnce() -> K)
    where
        K: Borrow<Q>,
    {
        if let Some([calls, sum]) = self.0.get_mut(key) {
            (*calls, *sum) = (*calls + 1, sum.saturating_add(bytes));
            return;
        }
        self.0.insert(own(), [1, bytes]);
        if self.0.len() > Ranking::<K>::MOST {
            let mut all: Vec<(K, [u64; 2])> = self.0.drain().collect();
            all.sort_by(|(a, [a_calls, _]), (b, [b_calls, _])| (b_calls, a).cmp(&(a_calls, b)));
            all.truncate(Ranking::<K>::MOST / 2);
            self.0.extend(all);
        }
    }

    /// The keys with the most calls, if there are several.
    fn busiest(&self, name: impl Fn(&K) -> Vec<u8>) -> Vec<Busy> {
        if self.0.len() < 2 {
            return Vec::new();
        }
        let mut all: Vec<_> = self.0.iter().collect();
        all.sort_by(|(a, a_counts), (b, b_counts)| (b_counts, a).cmp(&(a_counts, b)));
        all.into_iter()
            .take(Overview::MOST_BUSY)
            .map(|(key, [calls, bytes])| Busy { name: name(key), calls: *calls, bytes: *bytes })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_tests::values;

    /// However many files there are, the busiest remain and the table is bounded.
    #[test]
    fn the_busiest_files_remain() {
        let mut files = Ranking::<Vec<u8>>::default();
        for number in 0..50_000u32 {
            let name = number.to_string().into_bytes();
            files.count(&*name, 1, || name.clone());
            files.count(&b"busy"[..], 10, || b"busy".to_vec());
            if number % 3 == 0 {
                files.count(&b"second"[..], 0, || b"second".to_vec());
            }
            assert!(files.0.len() <= Ranking::<Vec<u8>>::MOST);
        }
        let busiest = files.busiest(Clone::clone);
        assert_eq!(busiest.len(), Overview::MOST_BUSY);
        assert_eq!(busiest[0], Busy { name: b"busy".to_vec(), calls: 50_000, bytes: 500_000 });
        assert_eq!((&*busiest[1].name, busiest[1].calls), (&b"second"[..], 16_667));
        assert!(Ranking::<Vec<u8>>::default().busiest(Clone::clone).is_empty());
    }

    /// A call that waits now is in flight up to now.
    #[test]
    fn a_waiting_call_is_in_flight() {
        let mut gathering = Gathering::default();
        let read = values::read(7, 10);
        gathering.transaction(&read, Some(b"/a"), values::START);
        let flight = flight(&gathering.credits, 300_000_000, &[(read.connection, 200_000_000)]);
        let last = flight.values.last().expect("there are intervals");
        assert_eq!(last.0, 1);
        assert_eq!(last.1, read.reply.map(|reply| reply.credits), "the grant is valid until the next one");
        assert!(flight.values.len() <= Intervals::<u64>::MOST);
    }
}
