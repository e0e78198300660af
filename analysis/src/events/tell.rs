//! Makes events of the gathered facts.

use super::course::{Burst, Closed, Course, RECOVERY, Summary};
use super::{Kind, SILENCE, SessionEvent, failing};
use crate::names::Rejection;
use crate::units::{Bytes, Counted, Duration};
use foldhash::fast::FixedState;
use rdmascope_dissector::connection::{ConnectionId, State};
use rdmascope_dissector::frame::Address;
use rdmascope_dissector::rdma::{End, Failure, Operation, Refusal};
use rdmascope_dissector::record::Time;
use std::collections::HashMap;

/// A connection with its gathered facts.
struct Known<'a> {
    id: ConnectionId,
    course: &'a Course,
    summary: Summary,
    /// The index of the connection before it.
    before: Option<usize>,
    /// The index of the connection after it.
    after: Option<usize>,
}

/// The address that opened the connection, and the address that accepted it.
type Ends = (Address, Address);

/// The longest time that a client with work waits before it sends a REQ after it lost its
/// connection, in nanoseconds.
const RECONNECT: u64 = 30_000_000_000;

/// The least number of transmissions after which the sender of a request may have given up.
const RETRIES: u64 = 3;

/// The time that the capture has reached.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reached {
    pub(super) time: Time,
    /// Whether the capture goes on.
    pub(super) goes_on: bool,
}

/// The events of these connections, in a capture that has come to `reached`.
pub(super) fn events<'a>(
    courses: impl Iterator<Item = (ConnectionId, &'a Course, Summary)>,
    reached: Reached,
) -> Vec<SessionEvent> {
    let end = reached.time;
    let mut known: Vec<Known<'_>> = courses
        .map(|(id, course, summary)| Known { id, course, summary, before: None, after: None })
        .collect();
    known.sort_by_key(|known| (known.summary.first, known.id));
    let requests = link(&mut known);
    let mut found = Vec::new();
    for (index, one) in known.iter().enumerate() {
        let Known { id, course, before, .. } = *one;
        let mut tell = |event: SessionEvent| found.push(SessionEvent { connection: id, ..event });
        let asked = requests.get(&one.ends()).map_or(&[][..], Vec::as_slice);
        established(one, before.map(|at| known[at].id), asked, &mut tell);
        refused(course, &mut tell);
        retried(one, end, &mut tell);
        course.gaps.iter().for_each(|gap| {
            let Some((from, length)) = gap.lost() else { return };
            tell(SessionEvent {
                duration: Some(length),
                count: gap.calls,
                frames: [Some(gap.start.frame), Some(gap.end.frame)],
                ..event(
                    from,
                    Kind::ServiceLost,
                    format!("no reply for {} while {} waited", Duration(length), Counted(gap.calls, "call")),
                )
            });
        });
        match one.after {
            Some(after) => between(one, &known[after], asked, &mut tell),
            None => at_the_end(one, asked, reached, &mut tell),
        }
        if let Some(before) = before {
            replayed(&known[before], one, &mut tell);
            recovered(course, &mut tell);
        }
        for spell in &course.exhausted {
            let times = Counted(spell.run.count, "time");
            let text =
                format!("all {} credits in use {times}, {} in total", spell.granted, Duration(spell.length));
            tell(SessionEvent {
                by_requester: Some(true),
                duration: Some(spell.length),
                count: spell.run.count,
                frames: [Some(spell.run.first.frame), Some(spell.run.last.frame)],
                ..event(spell.run.first.time, Kind::CreditsExhausted, text)
            });
        }
        debug_assert!(before.is_none_or(|before| before < index), "a connection follows an earlier one");
    }
    failed_again(&known, &mut |event| found.push(event));
    found.sort_by_key(order);
    found
}

/// The sort key of events.
pub(super) fn order(event: &SessionEvent) -> (Time, ConnectionId, Kind) {
    (event.time, event.connection, event.kind)
}

/// Reports calls that failed in the same way on a connection and on later ones of its chain.
fn failed_again(known: &[Known<'_>], tell: &mut dyn FnMut(SessionEvent)) {
    // A connection always follows an earlier one, so its root is known already.
    let mut roots: Vec<usize> = Vec::with_capacity(known.len());
    for (index, one) in known.iter().enumerate() {
        roots.push(one.before.map_or(index, |before| roots[before]));
    }
    let connections =
        known.iter().zip(&roots).map(|(one, root)| (one.id, known[*root].id, one.course.failing.as_slice()));
    for story in failing::stories(connections) {
        let [first, .., last] = story.connections.as_slice() else { continue };
        tell(SessionEvent {
            connection: *first,
            other: Some(*last),
            through: story.connections.clone(),
            by_requester: Some(true),
            duration: Some(story.length()),
            count: story.calls,
            frames: [Some(story.first_call.frame), Some(story.last_reply.frame)],
            ..event(story.first_call.time, Kind::CallFailsAgain, story.text())
        });
    }
}

/// An event with default values for the other fields.
pub(super) fn event(time: Time, kind: Kind, text: String) -> SessionEvent {
    SessionEvent {
        time,
        kind,
        connection: ConnectionId(0),
        other: None,
        through: Vec::new(),
        by_requester: None,
        duration: None,
        count: 1,
        frames: [None, None],
        text,
    }
}

impl Known<'_> {
    fn ends(&self) -> Ends {
        (self.summary.requester, self.summary.responder)
    }

    /// Whether it was established, not only requested.
    fn stood(&self) -> bool {
        matches!(self.summary.state, State::Open | State::Closed)
    }

    /// The time at which it ended, if it did.
    fn over(&self) -> Option<Time> {
        match self.course.disconnected {
            Some(closed) => Some(closed.seen.time),
            None => (self.summary.state == State::Closed || !self.course.unanswered.is_empty())
                .then_some(self.summary.last),
        }
    }

    fn responder(&self) -> End {
        self.course.requester.other()
    }
}

/// Links each connection to the one it follows: the same two addresses, and the same port if both
/// ports are known. Returns the times of the REQs by addresses.
fn link(known: &mut [Known<'_>]) -> HashMap<Ends, Vec<Time>, FixedState> {
    let mut requests: HashMap<Ends, Vec<Time>, FixedState> = HashMap::default();
    let mut over: HashMap<Ends, Vec<usize>, FixedState> = HashMap::default();
    for index in 0..known.len() {
        let one = &known[index];
        let ends = one.ends();
        if let Some(run) = one.course.requests {
            requests.entry(ends).or_default().extend([run.first.time, run.last.time]);
        }
        if !one.stood() {
            continue;
        }
        let port = one.summary.port;
        let first = one.summary.first;
        let waiting = over.entry(ends).or_default();
        let is_port = |other: Option<u16>| port.is_none() || other.is_none() || port == other;
        let found = waiting.iter().position(|at| {
            let other = &known[*at];
            is_port(other.summary.port) && other.over().is_some_and(|over| over <= first)
        });
        let before = found.map(|at| waiting.remove(at));
        if one.over().is_some() {
            waiting.push(index);
        }
        if let Some(before) = before {
            known[index].before = Some(before);
            known[before].after = Some(index);
        }
    }
    requests.values_mut().for_each(|times| times.sort_unstable());
    requests
}

const fn end_name(requester: bool) -> &'static str {
    if requester { "client" } else { "server" }
}

/// Reports how the connection was made or why it was not, and how it ended.
fn established(
    one: &Known<'_>,
    before: Option<ConnectionId>,
    asked: &[Time],
    tell: &mut dyn FnMut(SessionEvent),
) {
    let Known { course, summary, .. } = one;
    let begun = course.requests.map(|run| run.first);
    if let Some((seen, by_requester, reason, data)) = course.rejected {
        tell(SessionEvent {
            by_requester: Some(by_requester),
            duration: begun.map(|begun| seen.time.since(begun.time)),
            frames: [begun.map(|begun| begun.frame), Some(seen.frame)],
            ..event(
                seen.time,
                Kind::Rejected,
                format!(
                    "{} rejected the connection, {}",
                    end_name(by_requester),
                    Rejection(reason, data, summary.port)
                ),
            )
        });
    }
    if let Some(run) = course.requests {
        let frames = [Some(run.first.frame), Some(run.last.frame)];
        let again = asked.iter().any(|time| *time > run.last.time);
        let is_alone = summary.state == State::Requested && course.reply.is_none();
        // TCP sequence numbers show whether there was an answer that is missing from the capture.
        let is_in_vain = match summary.is_iwarp {
            true => course.disconnected.is_some_and(|closed| closed.shows_silence),
            false => course.heard[one.responder()] && (run.count > 1 || again),
        };
        let kind = match is_alone {
            true if is_in_vain => Some(Kind::RequestUnanswered),
            false if run.count > 1 => Some(Kind::RequestRepeated),
            _ => None,
        };
        if let Some(kind) = kind {
            let times = match run.count {
                1 => "once".to_owned(),
                count => format!("{count} times in {}", Duration(run.length())),
            };
            let then = if is_alone { "never answered" } else { "then answered" };
            let request = if summary.is_iwarp { "MPA Request" } else { "REQ" };
            tell(SessionEvent {
                by_requester: Some(true),
                duration: Some(run.length()),
                count: run.count,
                frames,
                ..event(run.first.time, kind, format!("client sent its {request} {times}, {then}"))
            });
        }
    }
    let made = course.ready.or(course.reply);
    if one.stood()
        && let Some(first) = begun.or(made)
    {
        let duration = begun.zip(made).map(|(begun, made)| made.time.since(begun.time));
        let again = before.map_or(String::new(), |id| format!(" again after connection {}", id.0));
        let how_long = duration.map_or(String::new(), |duration| format!(", in {}", Duration(duration)));
        tell(SessionEvent {
            other: before,
            by_requester: begun.map(|_| true),
            duration,
            frames: [Some(first.frame), Some(made.unwrap_or(first).frame)],
            ..event(first.time, Kind::Connected, format!("connected{again}{how_long}"))
        });
    }
    // A capture of one direction lacks the replies.
    let is_heard = one.summary.heard == [true; 2];
    let left = match course.unanswered.len() as u64 {
        waiting @ 1.. if is_heard => format!("; {} had no reply", Counted(waiting, "call")),
        _ => String::new(),
    };
    match course.disconnected {
        // The end that rejects a connection over TCP also closes it.
        Some(_) if course.rejected.is_some() => {}
        Some(Closed { seen, by_requester, how, .. }) => tell(SessionEvent {
            by_requester: Some(by_requester),
            frames: [Some(seen.frame), Some(seen.frame)],
            ..event(
                seen.time,
                Kind::Disconnected,
                format!("{} closed the connection ({}){left}", end_name(by_requester), how.name()),
            )
        }),
        None if summary.state == State::Closed => {
            let how = match summary.is_iwarp {
                true => "its TCP ports were reused by another connection; the capture has no FIN",
                false => "its queue pair was reused by another connection; the capture has no DREQ",
            };
            tell(event(summary.last, Kind::Disconnected, format!("{how}{left}")));
        }
        None => {}
    }
}

/// Reports NAKs and RNR NAKs.
fn refused(course: &Course, tell: &mut dyn FnMut(SessionEvent)) {
    for Burst { from, refusal, run } in &course.bursts {
        let by_requester = *from == course.requester;
        let who = end_name(by_requester);
        let (kind, what) = match refusal {
            Refusal::ReceiverNotReady(_) => {
                (Kind::RnrNak, format!("{}: {who} had no Receive posted", Counted(run.count, "RNR NAK")))
            }
            Refusal::OutOfSequence => {
                (Kind::Nak, format!("{} from the {who}: PSN sequence error", Counted(run.count, "NAK")))
            }
            Refusal::Failed(failure @ Failure::Terminated { .. }) => {
                (Kind::Nak, format!("{} from the {who}: {failure}", Counted(run.count, "Terminate")))
            }
            Refusal::Failed(failure) => {
                (Kind::Nak, format!("{} from the {who}: {failure}", Counted(run.count, "NAK")))
            }
        };
        let how_long = if run.count > 1 { format!(", in {}", Duration(run.length())) } else { String::new() };
        tell(SessionEvent {
            by_requester: Some(by_requester),
            duration: Some(run.length()),
            count: run.count,
            frames: [Some(run.first.frame), Some(run.last.frame)],
            ..event(run.first.time, kind, format!("{what}{how_long}"))
        });
    }
}

/// Reports requests that were sent until their sender gave up.
fn retried(one: &Known<'_>, end: Time, tell: &mut dyn FnMut(SessionEvent)) {
    let Known { course, .. } = one;
    for from in End::BOTH {
        let Some(retry) = course.retries[from] else { continue };
        let run = retry.run;
        let is_over = course.disconnected.is_some_and(|closed| closed.seen.time >= run.last.time);
        let is_known = course.heard[from.other()] && !course.lacks(from.other(), run.first.time);
        if run.count < RETRIES || !is_known || !(is_over || end.since(run.last.time) >= SILENCE) {
            continue;
        }
        let by_requester = from == course.requester;
        let what = match retry.piece.operation {
            Operation::ReadRequest => format!("RDMA Read of {}", Bytes(u64::from(retry.asked))),
            Operation::Write => "RDMA Write".to_owned(),
            Operation::Send => "Send".to_owned(),
            _ => retry.piece.name.to_owned(),
        };
        let then = if is_over { "DREQ" } else { "silence" };
        tell(SessionEvent {
            by_requester: Some(by_requester),
            duration: Some(run.length()),
            count: run.count,
            frames: [Some(run.first.frame), Some(run.last.frame)],
            ..event(
                run.first.time,
                Kind::RetriesExhausted,
                format!(
                    "{}'s {what} sent {} times in {}, never answered; then {then}",
                    end_name(by_requester),
                    run.count,
                    Duration(run.length())
                ),
            )
        });
    }
}

/// The start of the wait for service after a connection: of its calls without a reply, or of the
/// next connection request.
fn waiting(one: &Known<'_>, asked: &[Time], until: Time) -> Option<Time> {
    let Known { course, summary, .. } = one;
    let last = course.last_reply.map_or(summary.first, |seen| seen.time);
    let calls = course.unanswered.iter().filter(|call| call.is_whole).map(|call| call.seen.time);
    let over = one.over()?;
    let request = asked.iter().copied().find(|time| *time >= over && *time <= until);
    let closed = match (course.disconnected, request) {
        // The server closed it although the client had work.
        (Some(Closed { seen, by_requester: false, .. }), Some(request))
            if request.since(seen.time) <= RECONNECT =>
        {
            Some(seen.time)
        }
        _ => None,
    };
    let earliest = calls.chain(closed).chain(request).min()?;
    Some(earliest.max(last))
}

/// Reports service lost between the last reply of a connection and the first reply of the next one.
fn between(one: &Known<'_>, after: &Known<'_>, asked: &[Time], tell: &mut dyn FnMut(SessionEvent)) {
    let Some(reply) = after.course.first_reply else { return };
    // The capture may lack replies before it.
    if after.course.lacked(after.responder()) {
        return;
    }
    let call = after.course.first_call.map(|seen| seen.time);
    let from = waiting(one, asked, reply.time).into_iter().chain(call).min();
    let Some(from) = from else { return };
    let from = from.max(one.course.last_reply.map_or(one.summary.first, |seen| seen.time));
    let length = reply.time.since(from);
    if length < SILENCE {
        return;
    }
    let closed = match one.course.disconnected {
        Some(closed) => format!("closed by the {}", end_name(closed.by_requester)),
        None => "lost".to_owned(),
    };
    let text = format!(
        "no reply for {}: connection {} was {closed}, the next reply came on connection {}",
        Duration(length),
        one.id.0,
        after.id.0
    );
    tell(SessionEvent {
        other: Some(after.id),
        duration: Some(length),
        count: one.course.unanswered.len() as u64,
        frames: [one.course.last_reply.map(|seen| seen.frame), Some(reply.frame)],
        ..event(from, Kind::ServiceLost, text)
    });
}

/// Reports lost service that did not come back.
fn at_the_end(one: &Known<'_>, asked: &[Time], reached: Reached, tell: &mut dyn FnMut(SessionEvent)) {
    let end = reached.time;
    let until = if reached.goes_on { "until now" } else { "until the capture ends" };
    let course = one.course;
    let Some(last) = course.last_reply else { return };
    if !one.summary.heard[1] || course.lacks(one.responder(), last.time) {
        return;
    }
    let Some(from) = waiting(one, asked, end) else { return };
    let length = end.since(from);
    if length < SILENCE {
        return;
    }
    let waiting = course.unanswered.len() as u64;
    let why = match waiting {
        0 => "the connection was closed and not reopened".to_owned(),
        calls => format!("{} unanswered", Counted(calls, "call")),
    };
    tell(SessionEvent {
        duration: Some(length),
        count: waiting,
        frames: [Some(last.frame), None],
        ..event(from, Kind::ServiceLost, format!("no reply for {}, {until}: {why}", Duration(length)))
    });
}

/// Reports calls that were sent again on the next connection.
fn replayed(before: &Known<'_>, one: &Known<'_>, tell: &mut dyn FnMut(SessionEvent)) {
    let left = &before.course.unanswered;
    let mut calls: Vec<_> = one
        .course
        .calls
        .iter()
        .filter(|call| left.iter().any(|other| other.xid == call.xid))
        .map(|call| call.seen)
        .collect();
    calls.sort_unstable_by_key(|seen| (seen.time, seen.frame));
    let (Some(first), Some(last)) = (calls.first(), calls.last()) else { return };
    let count = calls.len() as u64;
    let text =
        format!("{} that had no reply on connection {} sent again", Counted(count, "call"), before.id.0);
    tell(SessionEvent {
        other: Some(before.id),
        by_requester: Some(true),
        duration: Some(last.time.since(first.time)),
        count,
        frames: [Some(first.frame), Some(last.frame)],
        ..event(first.time, Kind::CallsReplayed, text)
    });
}

/// Reports calls that set up client ID, session and state again.
fn recovered(course: &Course, tell: &mut dyn FnMut(SessionEvent)) {
    let Some(run) = course.recovering else { return };
    let named = RECOVERY.iter().zip(course.recovery).filter(|(_, count)| *count > 0);
    let named: Vec<String> = named.map(|((_, name), count)| format!("{count} {name}")).collect();
    tell(SessionEvent {
        by_requester: Some(true),
        duration: Some(run.length()),
        count: course.recovery.iter().sum(),
        frames: [Some(run.first.frame), Some(run.last.frame)],
        ..event(run.first.time, Kind::Recovery, format!("recovery: {}", named.join(", ")))
    });
}
