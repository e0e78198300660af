//! The problems of a capture as statements, in the order of their harm to the user.

use super::{ErrorCount, ErrorKey, Group, Problem, Report};
use crate::ending::Ending;
use crate::events::{Cause, Kind, SILENCE, SessionEvent};
use crate::names::FailureName;
use crate::units::{Counted, Number, Spoken};
use core::cmp::Reverse;
use rdmascope_dissector::connection::{Connection, ConnectionId};
use rdmascope_dissector::record::Time;
use std::collections::{BTreeMap, BTreeSet};

/// The harm of a problem to the user, the greatest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Harm {
    /// There was no service.
    ServiceLost,
    /// Calls waited, or never had a reply.
    Waits,
    /// The application saw errors.
    Errors,
    /// Data was damaged.
    Corruption,
    /// Packets or a connection were lost, which cost time.
    Loss,
    /// A specification was violated.
    Breach,
    /// A property of the capture, or something that does no harm.
    Note,
}

/// A statement about a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The harm.
    pub harm: Harm,
    /// The statement: a clause, not a sentence.
    pub text: String,
    /// The first packet that shows it.
    pub frame: Option<u64>,
    /// Whether it is about events.
    pub is_of_events: bool,
    /// Whether a client lost its service for some time. A client whose connection was never made had
    /// none to lose: rules judge that.
    pub is_outage: bool,
    /// The subject, by which its places in the capture are found.
    pub subject: Subject,
}

impl Statement {
    /// A statement that is not about events.
    fn new(harm: Harm, text: String, frame: Option<u64>, subject: Subject) -> Statement {
        Statement { harm, text, frame, is_of_events: false, is_outage: false, subject }
    }

    /// A statement about events.
    fn about_events(harm: Harm, text: String, frame: Option<u64>, subject: Subject) -> Statement {
        Statement { is_of_events: true, ..Statement::new(harm, text, frame, subject) }
    }

    /// The most statements that lead a report.
    const MOST_LEADING: usize = 4;

    /// The statements of a [verdict](Report::verdict) that lead a report: the first ones about harm.
    pub fn leading(verdict: &[Statement]) -> &[Statement] {
        let harmful = verdict.partition_point(|statement| statement.harm < Harm::Note);
        &verdict[..harmful.min(Statement::MOST_LEADING)]
    }
}

/// The subject of a [`Statement`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// An event, by its connection, kind and time.
    Event(ConnectionId, Kind, Time),
    /// Several events.
    Events,
    /// The problem with this [name](Problem::name).
    Problem(&'static str),
    /// Replies with this error.
    Failure(ErrorKey),
    /// Replies with errors of further kinds.
    Failures,
    /// Findings that are violations.
    Violations,
}

impl Subject {
    const fn of(event: &SessionEvent) -> Subject {
        Subject::Event(event.connection, event.kind, event.time)
    }
}

/// The most statements of one kind. A further statement counts the rest.
const MOST: usize = 3;

impl Report {
    /// The statements about the capture, the most harmful first. `violations` is the number of
    /// findings that are violations.
    pub fn verdict(&self, ending: &Ending, violations: u64) -> Vec<Statement> {
        let reach = Reach::new(ending, false);
        let problems = certain(self.problems(ending), ending);
        self.statements(&self.events(ending), (&problems, packets(ending)), reach, violations)
    }

    /// The statements while the capture continues. The span of `ending` ends now, `events` are
    /// those so far, and `open` are the connections that have not ended.
    pub fn verdict_now(
        &self,
        ending: &Ending,
        events: &[SessionEvent],
        open: &[Connection],
        violations: u64,
    ) -> Vec<Statement> {
        let reach = Reach::new(ending, true);
        let problems = certain(self.problems_now(ending, open), ending);
        self.statements(events, (&problems, packets(ending)), reach, violations)
    }

    fn statements(
        &self,
        events: &[SessionEvent],
        (problems, packets): (&[Problem], u64),
        reach: Reach,
        violations: u64,
    ) -> Vec<Statement> {
        let mut statements = of_events(events, reach);
        let has_waits = statements.iter().any(|statement| statement.harm <= Harm::Waits);
        let problems = problems.iter().filter(|problem| !has_waits || problem.name != "no-reply");
        statements.extend(problems.map(|problem| of_problem(problem, packets)));
        failed(&self.errors(), &mut statements);
        if violations > 0 {
            let text = format!("{} of the specifications", Counted(violations, "violation"));
            statements.push(Statement::new(Harm::Breach, text, None, Subject::Violations));
        }
        statements.sort_by_key(|statement| statement.harm);
        statements
    }
}

/// The problems without those that clocks that differ explain.
fn certain(mut problems: Vec<Problem>, ending: &Ending) -> Vec<Problem> {
    let is_order = |problem: &Problem| ["retransmission", "reordered-packet"].contains(&problem.name);
    problems.retain(|problem| ending.totals.clocks_differ.is_none() || !is_order(problem));
    problems
}

/// The times of the capture that statements are about.
#[derive(Clone, Copy, Debug)]
pub struct Reach {
    /// The first packet, and the last one or now.
    pub span: Option<(Time, Time)>,
    /// Whether the capture continues.
    pub is_live: bool,
}

impl Reach {
    fn new(ending: &Ending, is_live: bool) -> Reach {
        let last = ending.totals.span.map(|(_, last)| last);
        Reach { span: ending.start().zip(last), is_live }
    }

    /// Whether a duration is at least a second, and a tenth of the span.
    fn is_much(self, duration: Option<u64>) -> bool {
        let whole = self.span.map_or(0, |(first, last)| last.since(first));
        duration.is_some_and(|duration| duration >= SILENCE.max(whole / 10))
    }
}

/// The statements about events, in the order of time.
pub fn of_events(events: &[SessionEvent], reach: Reach) -> Vec<Statement> {
    let outages = Outage::all(events);
    let mut statements = Vec::new();
    lost(&outages, reach, &mut statements);
    harmful(events, &outages, reach, &mut statements);
    statements.sort_by_key(|statement| statement.harm);
    statements
}

/// A time without service: outages that overlap.
#[derive(Debug)]
struct Outage<'a> {
    from: Time,
    to: Time,
    events: Vec<&'a SessionEvent>,
}

impl<'a> Outage<'a> {
    /// All of them, in order of time, as the events are.
    fn all(events: &'a [SessionEvent]) -> Vec<Outage<'a>> {
        let mut outages: Vec<Outage<'a>> = Vec::new();
        for event in events.iter().filter(|event| event.kind == Kind::ServiceLost) {
            let end = event.time.plus(event.duration.unwrap_or(0));
            match outages.last_mut().filter(|outage| event.time <= outage.to) {
                Some(outage) => {
                    outage.to = outage.to.max(end);
                    outage.events.push(event);
                }
                None => outages.push(Outage { from: event.time, to: end, events: vec![event] }),
            }
        }
        outages
    }

    /// Whether a connection was made before.
    fn is_loss(&self) -> bool {
        self.events.iter().any(|event| event.cause.is_none_or(Cause::was_made))
    }

    fn length(&self) -> u64 {
        self.to.since(self.from)
    }

    fn connections(&self) -> u64 {
        let of = |event: &&SessionEvent| match event.through.as_slice() {
            [] => vec![event.connection],
            through => through.to_vec(),
        };
        let all: BTreeSet<ConnectionId> = self.events.iter().flat_map(of).collect();
        all.len() as u64
    }

    /// The number of calls that waited. On one connection, a later event may be about the same calls.
    fn calls(&self) -> u64 {
        let mut most: BTreeMap<ConnectionId, u64> = BTreeMap::new();
        for event in &self.events {
            let calls = most.entry(event.connection).or_default();
            *calls = event.count.max(*calls);
        }
        most.values().sum()
    }

    /// Who ended the service, if all connections lost it in the same way.
    fn cause(&self, reach: Reach) -> Option<String> {
        let cause = self.events[0].cause?;
        if self.events.iter().any(|event| event.cause != Some(cause)) {
            return None;
        }
        let connections = self.connections();
        let (pronoun, were_made) =
            if connections == 1 { ("it", "it was made") } else { ("them", "they were made") };
        let calls = || {
            let outcome = match self.events.iter().any(|event| event.frames[1].is_none()) {
                true if reach.is_live => "without a reply",
                true => "had no reply",
                false => "waited",
            };
            format!("{} {outcome}", Counted(self.calls(), "call"))
        };
        Some(match cause {
            Cause::ClosedBy(true) => format!("the client closed {pronoun}"),
            Cause::ClosedBy(false) => format!("the server closed {pronoun}"),
            Cause::RejectedBy(true) => format!("the client rejected {pronoun}"),
            Cause::RejectedBy(false) => format!("the server rejected {pronoun}"),
            Cause::Unanswered => "the requests were never answered".to_owned(),
            Cause::Unconfirmed => "the replies were never confirmed".to_owned(),
            Cause::AnsweredLate => format!("{were_made} late"),
            Cause::NoReply => calls(),
        })
    }

    fn text(&self, reach: Reach) -> String {
        let start = reach.span.map_or(self.from, |(start, _)| start);
        let from = self.from.since(start).saturating_add(500_000) / 1_000_000;
        let ends = self.events.iter().any(|event| event.frames[1].is_none());
        let until = match reach.span {
            Some((_, end)) if ends && self.to >= end && reach.is_live => " until now",
            Some((_, end)) if ends && self.to >= end => " until the capture ends",
            _ => "",
        };
        let cause = self.cause(reach).map_or(String::new(), |cause| format!("; {cause}"));
        format!(
            "{} without service on {}, from {}.{:03}{until}{cause}",
            Spoken(self.length()),
            Counted(self.connections(), "connection"),
            from / 1000,
            from % 1000,
        )
    }
}

/// Adds the times without service, the longest first.
fn lost(outages: &[Outage<'_>], reach: Reach, statements: &mut Vec<Statement>) {
    let mut longest: Vec<&Outage<'_>> = outages.iter().collect();
    longest.sort_by_key(|outage| Reverse(outage.length()));
    let (shown, rest) = longest.split_at(longest.len().min(MOST));
    let of_first = |outage: &Outage<'_>, text: String| {
        let first = outage.events[0];
        Statement::about_events(Harm::ServiceLost, text, first.frames[0], Subject::of(first))
    };
    statements.extend(
        shown
            .iter()
            .map(|outage| Statement { is_outage: outage.is_loss(), ..of_first(outage, outage.text(reach)) }),
    );
    if let Some(first) = rest.iter().min_by_key(|outage| outage.from) {
        let length = rest.iter().map(|outage| outage.length()).sum();
        let times = Counted(rest.len() as u64, "further time");
        let text = format!("{} without service in {times}", Spoken(length));
        let is_outage = rest.iter().any(|outage| outage.is_loss());
        statements.push(Statement { is_outage, ..of_first(first, text) });
    }
}

/// The harm of an event other than an outage; `None` if it does none.
fn harm_of(event: &SessionEvent, reach: Reach) -> Option<Harm> {
    match event.kind {
        Kind::Rejected | Kind::RequestUnanswered => Some(Harm::ServiceLost),
        Kind::CallWaited
        | Kind::CallFailsAgain
        | Kind::CallDelayed
        | Kind::RecallUnanswered
        | Kind::CopyUnreported => Some(Harm::Waits),
        Kind::CarriedOutTwice => Some(Harm::Errors),
        Kind::StateLost if event.does_harm => Some(Harm::Errors),
        Kind::StateLost => Some(Harm::Note),
        Kind::RequestRepeated | Kind::RetriesExhausted => Some(Harm::Loss),
        // Its client had work.
        Kind::Disconnected if event.other.is_some() => Some(Harm::Loss),
        Kind::DisconnectUnanswered => Some(Harm::Note),
        // The server grants at most one credit, or the credits bound the work of the client.
        Kind::CreditsExhausted if event.by_requester == Some(false) || reach.is_much(event.duration) => {
            Some(Harm::Note)
        }
        _ => None,
    }
}

/// Adds the other harmful events: for each kind and end, one statement about the longest event, or the
/// first one without a duration.
fn harmful(events: &[SessionEvent], outages: &[Outage<'_>], reach: Reach, statements: &mut Vec<Statement>) {
    let is_part = |event: &&SessionEvent| {
        let may_be_part = matches!(
            event.kind,
            Kind::Rejected | Kind::RequestUnanswered | Kind::RequestRepeated | Kind::Disconnected
        );
        may_be_part && outages.iter().any(|outage| outage.from <= event.time && event.time <= outage.to)
    };
    let mut groups: Vec<(Harm, &SessionEvent, u64)> = Vec::new();
    for event in events.iter().filter(|event| !is_part(event)) {
        let Some(harm) = harm_of(event, reach) else { continue };
        let is_same = |other: &SessionEvent| {
            (other.kind, other.by_requester, other.does_harm)
                == (event.kind, event.by_requester, event.does_harm)
                && (!matches!(event.kind, Kind::CallWaited | Kind::CallFailsAgain)
                    || other.connection == event.connection && other.time == event.time)
        };
        match groups.iter_mut().find(|(_, longest, _)| is_same(longest)) {
            Some((_, longest, count)) => {
                *count += 1;
                if extent(longest) < extent(event) {
                    *longest = event;
                }
            }
            None => groups.push((harm, event, 1)),
        }
    }
    groups.sort_by_key(|(_, event, _)| Reverse(event.duration));
    let mut waits = 0;
    for (harm, event, count) in groups {
        if event.kind == Kind::CallWaited {
            waits += 1;
            if waits > MOST {
                continue;
            }
        }
        let which = match event.kind {
            Kind::StateLost => "largest",
            _ if event.duration.is_some() => "longest",
            _ => "first",
        };
        let more = if count > 1 { format!(" (the {which} of {})", Number(count)) } else { String::new() };
        let text = format!("{}{more}", event.text);
        statements.push(Statement::about_events(harm, text, event.frames[0], Subject::of(event)));
    }
    if waits > MOST {
        let text = format!(
            "{} waited",
            Counted((waits - MOST) as u64, "further kind of call").to_string().replace("calls", "call")
        );
        statements.push(Statement::about_events(Harm::Waits, text, None, Subject::Events));
    }
}

/// The extent of an event, to compare it with events of the same kind: its duration, or how much state
/// was lost.
fn extent(event: &SessionEvent) -> u64 {
    match event.kind {
        Kind::StateLost => event.count,
        _ => event.duration.unwrap_or(0),
    }
}

/// The packets and segments of RDMA in a capture.
fn packets(ending: &Ending) -> u64 {
    ending.totals.packets + ending.totals.segments
}

/// The statement about a problem of a capture with this number of packets.
fn of_problem(problem: &Problem, packets: u64) -> Statement {
    /// One retransmission in this many packets, or fewer, costs no time that matters.
    const RARE: u64 = 1_000;
    let harm = match (problem.group, problem.name) {
        (_, "retransmission" | "reordered-packet") if problem.count.saturating_mul(RARE) <= packets => {
            Harm::Note
        }
        (Group::Capture, _) | (_, "cut-off" | "no-call" | "congestion-mark" | "congestion-notification") => {
            Harm::Note
        }
        (_, "no-reply") => Harm::Waits,
        (_, "rejected-connection" | "unanswered-connection") => Harm::Note,
        (_, "transport-error" | "empty-reply") => Harm::Errors,
        (_, "bad-icrc" | "bad-checksum") => Harm::Corruption,
        (Group::Transport, _) => Harm::Loss,
        (Group::Transactions, _) => Harm::Note,
    };
    let text = format!("{} {}", Number(problem.count), problem.description());
    Statement::new(harm, text, problem.first_frame, Subject::Problem(problem.name))
}

/// Adds the errors of replies. The application does not see those after which the client sends the
/// request again.
fn failed((errors, further): &(Vec<(ErrorKey, ErrorCount)>, u64), statements: &mut Vec<Statement>) {
    let mut errors = errors.clone();
    errors.sort_by_key(|(key, _)| key.is_handled());
    let (shown, rest) = errors.split_at(errors.len().min(MOST));
    statements.extend(shown.iter().map(|(key, error)| {
        let protocol = key.protocol.map_or(String::new(), |protocol| format!("{protocol} "));
        let failure = FailureName(key.failure, key.protocol);
        let text = format!("{protocol}{} failed with {failure}, {}", key.label, Counted(error.count, "time"));
        let is_wait = key.failure.is_delay(key.protocol) || key.is_denied_lock();
        let harm = if is_wait { Harm::Note } else { Harm::Errors };
        Statement::new(harm, text, error.first_frame, Subject::Failure(*key))
    }));
    let rest = rest.iter().map(|(_, error)| error.count).sum::<u64>() + further;
    if rest > 0 {
        let text = format!("{} of other kinds", Counted(rest, "error"));
        statements.push(Statement::new(Harm::Errors, text, None, Subject::Failures));
    }
}
