//! Times without service: from the first call or connection request that waits to the next reply, on
//! the connection or on one that follows it, or to the end of the capture.

mod words;

use super::facts::{Call, Closed};
use super::history::History;
use super::known::{AT_ONCE, Ends, Known, RECONNECT, Reached, Requests, event};
use super::{Cause, Kind, SILENCE, SessionEvent};
use crate::units::Duration;
use foldhash::fast::FixedState;
use rdmascope_dissector::record::{Seen, Time};
use rdmascope_wire::Xid;
use std::cell::OnceCell;
use std::collections::HashMap;
use words::answered_late;

/// A wait for service that no reply has ended so far.
#[derive(Clone, Debug)]
struct Wait {
    since: Time,
    /// The last reply before it, or the first call of it.
    frame: Option<u64>,
    /// The most calls that waited on one connection.
    calls: u64,
    /// Of these, the calls whose Read chunks the server never read.
    unread: u64,
    /// The number of connections in `through` whose calls waited.
    connections: u64,
    /// Indexes of the connections through which it lasted.
    through: Vec<usize>,
}

/// The end of a wait.
#[derive(Clone, Copy, Debug)]
enum Until {
    /// The reply on the connection at this index.
    Reply(Seen, usize),
    /// The packet that accepted the connection at this index. The capture may lack its first reply.
    Made(Seen, usize),
    /// The time that the capture has reached.
    Reached(Reached),
}

impl Until {
    /// The index of the connection that ended it.
    fn connection(self) -> Option<usize> {
        match self {
            Until::Reply(_, at) | Until::Made(_, at) => Some(at),
            Until::Reached(_) => None,
        }
    }

    fn time(self) -> Time {
        match self {
            Until::Reply(seen, _) | Until::Made(seen, _) => seen.time,
            Until::Reached(reached) => reached.time,
        }
    }
}

/// The calls that have replies, by ends and XID, each with the index of its connection.
type Answered = HashMap<(Ends, Xid), Vec<(usize, Call)>, FixedState>;

/// The connections of a capture, and the times of connection requests.
struct Story<'a> {
    known: &'a [Known<'a>],
    /// Indexes of the connections that were never made, by ends.
    failed: HashMap<Ends, Vec<usize>, FixedState>,
    /// The connections that were or may have been made, by ends, and the packet that shows it.
    made: HashMap<Ends, Vec<(usize, Seen)>, FixedState>,
    /// The times of the requests for connections that were never made, by ends, in order.
    vain: HashMap<Ends, Vec<Time>, FixedState>,
    answered: OnceCell<Answered>,
    /// Whether the capture shows how a connection was made.
    shows_starts: bool,
    reached: Reached,
}

/// Reports the times without service.
pub(super) fn report(
    known: &[Known<'_>],
    requests: &Requests,
    reached: Reached,
    report: &mut dyn FnMut(SessionEvent),
) {
    let mut failed: HashMap<Ends, Vec<usize>, FixedState> = HashMap::default();
    let mut made: HashMap<Ends, Vec<(usize, Seen)>, FixedState> = HashMap::default();
    for (index, one) in known.iter().enumerate() {
        if has_failed(one, requests, reached.time) {
            failed.entry(one.ends()).or_default().push(index);
        }
        let used = one.history.first_used.map(|(seen, _)| seen);
        let made_at = one.history.setup.reply.or(one.history.first_reply).or(used);
        let made_at = made_at.filter(|_| one.was_established());
        if let Some(seen) = made_at.or(one.accepted_unseen()) {
            made.entry(one.ends()).or_default().push((index, seen));
        }
    }
    let story = Story {
        known,
        failed,
        made,
        vain: vain(known, requests),
        answered: OnceCell::new(),
        shows_starts: known.iter().any(has_start),
        reached,
    };
    // The times without service on the connections between two ends.
    let mut covered: HashMap<Ends, Vec<(Time, Time)>, FixedState> = HashMap::default();
    for (index, one) in
        known.iter().enumerate().filter(|(_, one)| one.before.is_none() && one.was_established())
    {
        story.chain(index, &mut |event| {
            covered.entry(one.ends()).or_default().push(span(&event));
            report(event);
        });
    }
    let mut attempts: Vec<(&Ends, &Vec<usize>)> = story.failed.iter().collect();
    attempts.sort_unstable_by_key(|(_, indexes)| indexes[0]);
    // Times of requests cannot be compared with each other if the clock stepped back.
    for (ends, indexes) in attempts.into_iter().filter(|_| reached.steps == 0) {
        let covered = covered.entry(*ends).or_default();
        let mut found = Vec::new();
        story.never_made(indexes, covered, &mut |event| found.push(event));
        covered.extend(found.iter().map(span));
        found.into_iter().for_each(&mut *report);
    }
    for one in known.iter().filter(|one| one.before.is_none() && reached.steps == 0) {
        let covered = covered.get(&one.ends()).map_or(&[][..], Vec::as_slice);
        story.made_late(one, covered, report);
    }
}

/// The time at which an event began, and that at which it ended.
fn span(event: &SessionEvent) -> (Time, Time) {
    (event.time, event.time.plus(event.duration.unwrap_or(0)))
}

/// The times of those requests, by ends, whose connections were never made.
fn vain(known: &[Known<'_>], requests: &Requests) -> HashMap<Ends, Vec<Time>, FixedState> {
    let is_vain = |(_, at): &&(Time, usize)| !known[*at].was_established();
    let times = |times: &[(Time, usize)]| times.iter().filter(is_vain).map(|(time, _)| *time).collect();
    requests.iter().map(|(ends, all)| (*ends, times(all))).collect()
}

/// Whether the capture shows how a connection was made.
fn has_start(one: &Known<'_>) -> bool {
    one.history.setup.requests.is_some() || one.history.setup.reply.is_some()
}

fn by_frame((seen, _): &(Seen, usize)) -> u64 {
    seen.frame
}

fn answered(known: &[Known<'_>]) -> Answered {
    let mut answered = Answered::default();
    for (index, one) in known.iter().enumerate() {
        for call in one.history.calls.iter().filter(|call| call.reply.is_some()) {
            answered.entry((one.ends(), call.xid)).or_default().push((index, *call));
        }
    }
    answered
}

/// Whether a connection was requested and never made.
fn has_failed(one: &Known<'_>, requests: &Requests, end: Time) -> bool {
    let request_times = requests.get(&one.ends()).map_or(&[][..], Vec::as_slice);
    !one.was_established()
        && !one.summary.is_foreign
        && (one.rejected_by().is_some()
            || one.is_unconfirmed()
            || one.has_unanswered_requests(request_times, end))
}

impl Story<'_> {
    /// Follows a connection and those after it.
    fn chain(&self, first: usize, report: &mut dyn FnMut(SessionEvent)) {
        let mut wait: Option<Wait> = None;
        let mut next = Some(first);
        while let Some(at) = next {
            let one = &self.known[at];
            let history = &*one.history;
            if let Some(reply) = history.first_reply {
                let first = first_call(history, reply);
                match &mut wait {
                    Some(wait) => wait.absorb(first),
                    None => add(&mut wait, first, at),
                }
                if let Some(wait) = wait.take() {
                    let until = self.first_service(one, at, reply);
                    until.into_iter().for_each(|until| self.report(&wait, until, report));
                }
            }
            for gap in &history.gaps {
                let Some((since, _)) = gap.lost() else { continue };
                let wait = Wait {
                    since,
                    frame: Some(gap.start.frame),
                    calls: gap.calls,
                    unread: 0,
                    connections: 1,
                    through: vec![at],
                };
                self.report(&wait, Until::Reply(gap.end, at), report);
            }
            add(&mut wait, self.waiting(one), at);
            next = one.after;
            if let Some(next) = next
                && let Some(asked) = wait.as_ref().and_then(|wait| self.gave_up(wait, one, &self.known[next]))
                && let Some(wait) = wait.take()
            {
                self.report(
                    &wait,
                    Until::Reached(Reached { time: asked, is_live: false, ..self.reached }),
                    report,
                );
            }
            let steps = next.map_or(self.reached.steps, |next| self.known[next].history.steps_before);
            let is_doubtful =
                |wait: &Wait| !shows_silence(one, wait.since) || self.continues_unseen(one, next);
            if steps != history.steps || wait.as_ref().is_some_and(is_doubtful) {
                wait = None;
            }
        }
        if let Some(wait) = wait {
            let until = self.answered_elsewhere(&wait).unwrap_or_else(|| self.asked_until(&wait));
            self.report(&wait, until, report);
        }
    }

    /// The end of a wait for the first reply of a connection. If the capture may lack replies before it,
    /// the wait lasted until the connection was made, at an unknown time if the capture lacks its start.
    fn first_service(&self, one: &Known<'_>, at: usize, reply: Seen) -> Option<Until> {
        if one.before.is_some() && self.lacks_start(one) {
            return None;
        }
        if !one.history.lacked(one.responder()) {
            return Some(Until::Reply(reply, at));
        }
        let made = one.history.setup.reply.filter(|_| one.before.is_some())?;
        Some(Until::Made(made, at))
    }

    /// The first reply to a call of a wait that the client sent again on a connection that does not
    /// follow.
    fn answered_elsewhere(&self, wait: &Wait) -> Option<Until> {
        let last = &self.known[*wait.through.last()?];
        let answered = self.answered.get_or_init(|| answered(self.known));
        let again = |call: &Call| {
            let known = answered.get(&(last.ends(), call.xid)).map_or(&[][..], Vec::as_slice);
            let is_again =
                |(_, other): &&(usize, Call)| other.may_repeat(call) && call.seen.frame < other.seen.frame;
            known
                .iter()
                .filter(is_again)
                .filter_map(|(at, other)| Some((other.reply?, *at)))
                .min_by_key(by_frame)
        };
        let (reply, at) = last.unanswered().filter_map(again).min_by_key(by_frame)?;
        Some(Until::Reply(reply, at))
    }

    /// Whether the capture lacks the start or the data of a connection that may have followed one, before
    /// the one at index `next` did, and on which the server sent packets.
    fn continues_unseen(&self, one: &Known<'_>, next: Option<usize>) -> bool {
        let until = next.map_or(Time(i64::MAX), |next| self.known[next].summary.first);
        let may_follow = |other: &&Known<'_>| {
            other.ends() == one.ends()
                && other.may_be_to_port_of(one)
                && (one.summary.last..until).contains(&other.summary.first)
        };
        let followers = self.known.iter().filter(may_follow);
        let is_unseen = |other: &Known<'_>| {
            other.accepted_unseen().is_some() || self.lacks_start(other) && other.summary.captured_ends[1]
        };
        followers.into_iter().any(is_unseen)
    }

    /// Whether the capture lacks the start of a connection, although it shows that of others. MPA start
    /// frames are part of the stream.
    fn lacks_start(&self, one: &Known<'_>) -> bool {
        !has_start(one) && (one.summary.is_iwarp || self.shows_starts)
    }

    /// The time at which the client last asked for service, if it came back much later, for other work.
    /// A client that waits repeats its calls, even if the capture has none of its requests meanwhile.
    fn gave_up(&self, wait: &Wait, one: &Known<'_>, next: &Known<'_>) -> Option<Time> {
        let ended_at = one.ended_at()?;
        let back = next.history.setup.requests.map_or(next.summary.first, |run| run.first.time);
        let failed = self.failed_during(wait, back);
        let asked = failed.iter().map(|at| self.known[*at].summary.last).fold(ended_at, Time::max);
        (back.since(asked) > RECONNECT && next.repeats(one).next().is_none()).then_some(asked)
    }

    /// The end of a wait that no reply ended: the end of the capture, or the last packet of a client
    /// that closed its connection, or asked for another one in vain, and did not ask again.
    fn asked_until(&self, wait: &Wait) -> Until {
        let last = &self.known[*wait.through.last().expect("it has a connection")];
        let asked = self.asked_since(last, wait.since);
        match (last.history.disconnected, asked.last()) {
            (Some(Closed { seen, by_requester: Some(true), .. }), _)
            | (Some(Closed { seen, .. }), Some(_)) => self.stopped_at(seen.time, asked),
            _ => Until::Reached(self.reached),
        }
    }

    /// The times since `since` at which the client of a connection asked in vain for another one.
    fn asked_since(&self, one: &Known<'_>, since: Time) -> &[Time] {
        let times = self.vain.get(&one.ends()).map_or(&[][..], Vec::as_slice);
        &times[times.partition_point(|time| *time < since)..]
    }

    /// The end of a wait whose client asked last at `since`, or at the last of the times in `asked`: that
    /// time, if it would have asked again before the end of the capture. Clients double the time between
    /// their requests.
    fn stopped_at(&self, since: Time, asked: &[Time]) -> Until {
        /// Nanoseconds. A client may ask again after this time even if it was faster before.
        const SHORTEST: u64 = 10_000_000_000;
        let longest = asked.windows(2).map(|pair| pair[1].since(pair[0])).max();
        let again = longest.map_or(RECONNECT, |longest| (2 * longest).clamp(SHORTEST, RECONNECT));
        let last = asked.last().map_or(since, |asked| since.max(*asked));
        if self.reached.time.since(last) <= again {
            return Until::Reached(self.reached);
        }
        Until::Reached(Reached { time: last, is_live: false, ..self.reached })
    }

    /// Whether another connection to the same port had replies meanwhile.
    fn is_served(&self, one: &Known<'_>, since: Time, until: Time) -> bool {
        self.known.iter().any(|other| {
            let (first, last) = (other.history.first_reply, other.history.last_reply);
            other.id != one.id
                && other.ends() == one.ends()
                && other.summary.port == one.summary.port
                && first.zip(last).is_some_and(|(first, last)| first.time < until && since < last.time)
        })
    }

    /// The wait that begins after the last reply of a connection: of its calls without a reply, of
    /// the next connection request, or of a client with work whose connection the server closed.
    fn waiting(&self, one: &Known<'_>) -> Option<Wait> {
        let history = &*one.history;
        let last = match history.last_reply {
            Some(seen) => seen.time,
            // Its first packet was seen before the clock stepped back.
            None if history.steps_before != history.steps => Time(i64::MIN),
            None => one.summary.first,
        };
        let calls = || one.unanswered().filter(|call| call.is_complete && !call.is_passed(history.answered));
        let ended_at = one.ended_at()?;
        let request = self.next_request(one, ended_at).filter(|_| self.reached.steps == 0);
        let closed = match (history.disconnected, request) {
            (Some(Closed { seen, by_requester: Some(false), .. }), Some(request))
                if request.since(seen.time) <= AT_ONCE =>
            {
                Some(seen.time)
            }
            _ => None,
        };
        let first = calls().map(|call| call.seen).min_by_key(|seen| (seen.time, seen.frame));
        let since = first.map(|seen| seen.time).into_iter().chain(closed).chain(request).min()?;
        let frame = history.last_reply.or(first).map(|seen| seen.frame);
        let unread = calls().filter(|call| call.is_unread).count() as u64;
        Some(Wait {
            since: since.max(last),
            frame,
            calls: calls().count() as u64,
            unread,
            connections: 0,
            through: Vec::new(),
        })
    }

    /// The first REQ for another connection after one ended: for the one that followed it, or for one
    /// that was never made. Other connections between the same ends may be those of another mount.
    fn next_request(&self, one: &Known<'_>, ended_at: Time) -> Option<Time> {
        let followed = one.after.and_then(|after| self.known[after].history.setup.requests);
        let followed = followed.map(|run| run.first.time.min(run.last.time));
        let next = self.asked_since(one, ended_at).first().copied();
        followed.into_iter().chain(next).min()
    }

    /// Reports connection requests that all failed, outside the times in `covered`.
    fn never_made(&self, indexes: &[usize], covered: &[(Time, Time)], report: &mut dyn FnMut(SessionEvent)) {
        let is_covered = |time: Time| covered.iter().any(|(from, to)| *from <= time && time <= *to);
        let mut wait: Option<Wait> = None;
        let made = self.made.get(&self.known[indexes[0]].ends()).map_or(&[][..], Vec::as_slice);
        let mut end = |wait: Wait| {
            let last = &self.known[*wait.through.last().expect("a connection was requested")];
            let made = made.iter().find(|(_, seen)| seen.time >= last.summary.first);
            let last_attempt = last.summary.last;
            let until = match made {
                Some((at, seen)) if seen.time.since(last_attempt) <= RECONNECT => {
                    let is_unseen = self.known[*at].accepted_unseen().is_some();
                    if is_unseen { Until::Made(*seen, *at) } else { Until::Reply(*seen, *at) }
                }
                Some(_) => Until::Reached(Reached { time: last_attempt, is_live: false, ..self.reached }),
                None => self.stopped_at(last_attempt, self.asked_since(last, wait.since)),
            };
            if !self.is_served(last, wait.since, until.time()) {
                self.report(&wait, until, report);
            }
        };
        for at in indexes {
            let one = &self.known[*at];
            let Some(run) = one.history.setup.requests else { continue };
            if is_covered(run.first.time) {
                continue;
            }
            let is_new = wait.as_ref().is_some_and(|wait| {
                let last = self.known[*wait.through.last().expect("it has one")].summary.last;
                let is_between = |(_, seen): &(usize, Seen)| last <= seen.time && seen.time <= run.first.time;
                run.first.time.since(last) > RECONNECT || made.iter().any(is_between)
            });
            if is_new && let Some(wait) = wait.take() {
                end(wait);
            }
            let request_wait = Wait {
                since: run.first.time,
                frame: Some(run.first.frame),
                calls: 0,
                unread: 0,
                connections: 0,
                through: Vec::new(),
            };
            add(&mut wait, Some(request_wait), *at);
        }
        if let Some(wait) = wait {
            end(wait);
        }
    }

    /// Reports that the request for a first connection was answered late, outside the times in `covered`.
    fn made_late(&self, one: &Known<'_>, covered: &[(Time, Time)], report: &mut dyn FnMut(SessionEvent)) {
        let Some((run, made)) = one.history.setup.late().filter(|_| one.was_established()) else { return };
        let (since, length) = (run.first.time, made.time.since(run.first.time));
        let is_covered = covered.iter().any(|(from, to)| *from <= since && since <= *to);
        if is_covered || self.is_served(one, since, made.time) {
            return;
        }
        let text = format!("no connection for {}: {}", Duration(length), answered_late(one, run, made));
        report(SessionEvent {
            connection: one.id,
            cause: Some(Cause::AnsweredLate),
            duration: Some(length),
            count: 0,
            frames: [Some(run.first.frame), Some(made.frame)],
            ..event(since, Kind::ServiceLost, text)
        });
    }

    /// Reports a wait, unless it is too short.
    fn report(&self, wait: &Wait, until: Until, report: &mut dyn FnMut(SessionEvent)) {
        let length = until.time().since(wait.since);
        if length < SILENCE {
            return;
        }
        let first = &self.known[wait.through[0]];
        let (reply, after) = match until {
            Until::Reply(seen, at) => (Some(seen.frame), Some(self.known[at].id)),
            Until::Made(_, at) => (None, Some(self.known[at].id)),
            Until::Reached(_) => (None, None),
        };
        let last = wait.through.last().map(|at| self.known[*at].id);
        report(SessionEvent {
            connection: first.id,
            other: after.or(last).filter(|id| *id != first.id),
            through: match wait.through.as_slice() {
                [_] => Vec::new(),
                several => several.iter().map(|at| self.known[*at].id).collect(),
            },
            cause: self.cause(wait, until),
            duration: Some(length),
            count: wait.calls,
            frames: [wait.frame, reply],
            ..event(wait.since, Kind::ServiceLost, self.text(wait, until, length))
        });
    }

    /// The failed connection requests between the ends of a wait, while it lasted.
    fn failed_during(&self, wait: &Wait, until: Time) -> Vec<usize> {
        let failed = self.failed.get(&self.known[wait.through[0]].ends());
        let is_during = |at: &&usize| {
            let first = self.known[**at].summary.first;
            wait.since <= first && first <= until
        };
        failed.map_or(Vec::new(), |failed| failed.iter().filter(is_during).copied().collect())
    }
}

/// The wait of the first call of a connection for its first reply.
fn first_call(history: &History, reply: Seen) -> Option<Wait> {
    let call = history.first_call.filter(|call| call.frame <= reply.frame)?;
    let calls = history.calls.iter().filter(|call| call.is_complete && call.seen.frame <= reply.frame);
    Some(Wait {
        since: call.time,
        frame: Some(call.frame),
        calls: calls.count() as u64,
        unread: 0,
        connections: 0,
        through: Vec::new(),
    })
}

impl Wait {
    /// Merges another wait into this one.
    fn absorb(&mut self, more: Option<Wait>) {
        let Some(more) = more else { return };
        if more.since < self.since {
            (self.since, self.frame) = (more.since, more.frame);
        }
        self.calls = self.calls.max(more.calls);
        self.unread = self.unread.max(more.unread);
    }
}

/// Adds the wait on the connection at index `at`.
fn add(wait: &mut Option<Wait>, more: Option<Wait>, at: usize) {
    let has_calls = more.as_ref().is_some_and(|more| more.calls > 0);
    match wait {
        Some(wait) => wait.absorb(more),
        None => *wait = more,
    }
    let Some(wait) = wait else { return };
    wait.connections += u64::from(has_calls);
    if wait.through.last() != Some(&at) {
        wait.through.push(at);
    }
}

/// Whether the capture would show the replies of a connection from this time on, or retransmissions
/// show that none arrived. If it lacks all calls, it may lack their replies.
fn shows_silence(one: &Known<'_>, since: Time) -> bool {
    let responder = one.responder();
    if one.history.first_used.is_none() && one.history.lacks(responder.other(), since) {
        return false;
    }
    one.history.is_retrying()
        || one.history.is_unheard()
        || (one.summary.captured_ends[1] || one.history.captured_hosts[responder])
            && !one.history.lacks(responder, since)
}
