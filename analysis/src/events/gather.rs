//! The facts gathered while the engine reports.

use super::course::{Call, Course, Summary};
use super::known::Reached;
use super::state::StateEvents;
use super::tell;
use super::{SILENCE, SessionEvent};
use crate::observer::Observer;
use foldhash::fast::FixedState;
use rdmascope_dissector::connection::{Connection, ConnectionId, Counts};
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::{Event, Eviction};
use rdmascope_dissector::observation::Observe;
use rdmascope_dissector::observation::{Observation, Observed};
use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::OpenTransaction;
use std::collections::HashMap;

/// The connections and the calls that are open in a capture that goes on.
#[derive(Clone, Debug, Default)]
pub struct Open {
    /// In the order of their numbers.
    connections: Vec<Connection>,
    /// Calls of requesters without a reply, in the order in which they began.
    calls: Vec<(ConnectionId, Call)>,
}

impl Open {
    /// Creates it from the open connections, in the order of their numbers, and the open
    /// transactions.
    pub fn new<'a>(
        connections: impl Iterator<Item = Connection>,
        transactions: impl Iterator<Item = OpenTransaction<'a>>,
    ) -> Open {
        let calls = transactions.filter_map(|open| Some((open.connection, Call::open(&open)?)));
        Open { connections: connections.collect(), calls: calls.collect() }
    }

    /// The calls of a connection that wait at `now`, if one has waited for [`SILENCE`].
    fn waiting(&self, id: ConnectionId, now: Time) -> Vec<Call> {
        let calls = self.calls.iter().filter(|(of, _)| *of == id).map(|(_, call)| *call);
        let waiting: Vec<Call> = calls.take(Course::MOST_WAITING).collect();
        let has_lost = waiting.iter().any(|call| now.since(call.seen.time) >= SILENCE);
        if has_lost { waiting } else { Vec::new() }
    }
}

/// The events of a capture whose engine [observes](rdmascope_dissector::engine::Config::observe).
///
/// ```
/// use rdmascope_analysis::events::{Events, Kind};
/// use rdmascope_analysis::observer::Observer as _;
/// use rdmascope_capture_agent::Capture;
/// use rdmascope_dissector::engine::{Config, Engine};
/// use rdmascope_dissector::observation::Observe;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut capture = Capture::open("../samples/nfs3-basic.pcap".as_ref())?;
/// let mut engine = Engine::new(Config { observe: Observe::Events, ..Config::default() });
/// let mut events = Events::default();
/// while let Some(record) = capture.next()? {
///     engine.handle(&record, &mut |event| events.handle(&event));
/// }
/// engine.finish(&mut |event| events.handle(&event));
///
/// let last = engine.totals().span.map(|(_, last)| last);
/// assert_eq!(events.list(last)[0].kind, Kind::Connected);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Events {
    courses: HashMap<ConnectionId, Course, FixedState>,
    /// Connections beyond [`Events::MOST_CONNECTIONS`].
    further_connections: u64,
    /// The latest time of all ended connections.
    latest: Time,
    state: StateEvents,
    /// How often the clock stepped back.
    steps: u32,
    /// The latest time since its last step back.
    since_step: Time,
    /// The connection that the engine is evicting.
    given_up: Option<ConnectionId>,
}

impl Events {
    /// The most connections whose events are kept.
    pub const MOST_CONNECTIONS: usize = 4096;

    /// Connections whose events are not kept.
    pub fn further_connections(&self) -> u64 {
        self.further_connections
    }

    /// The events, in order of time. `end` is the end of the capture, if it is known.
    pub fn list(&self, end: Option<Time>) -> Vec<SessionEvent> {
        let ended = self.courses().filter_map(|(id, course)| Some((id, course, course.summary?, Vec::new())));
        let time = if self.steps > 0 { self.since_step } else { end.unwrap_or(self.latest) };
        let reached = Reached { time, goes_on: false, steps: self.steps };
        self.with_state(tell::events(ended, reached), reached)
    }

    /// The events up to `now` while the capture goes on. They include those of connections and calls
    /// that are still `open`. An event that depends on an end's silence is reported only for ended
    /// connections, except that a call without a reply may have lost its service.
    pub fn list_now(&self, open: &Open, now: Time) -> Vec<SessionEvent> {
        let known = self.courses().filter_map(|(id, course)| {
            let place = || open.connections.binary_search_by_key(&id, |connection| connection.id).ok();
            let summary = course.summary.or_else(|| Some(Summary::of(&open.connections[place()?])))?;
            Some((id, course, summary, open.waiting(id, now)))
        });
        let reached = Reached { time: now, goes_on: true, steps: self.steps };
        self.with_state(tell::events(known, reached), reached)
    }

    /// Adds the events about NFSv4 state.
    fn with_state(&self, mut events: Vec<SessionEvent>, reached: Reached) -> Vec<SessionEvent> {
        let before = events.len();
        self.state.tell(reached, &mut events);
        if events.len() > before {
            events.sort_by_key(tell::order);
        }
        events
    }

    /// Forgets everything that ended before this time. This bounds memory and the cost of a list in
    /// an endless capture.
    pub fn forget(&mut self, before: Time) {
        self.courses.retain(|_, course| course.summary.is_none_or(|summary| summary.last >= before));
        self.courses.values_mut().for_each(|course| course.forget(before));
        self.state.forget(before);
    }

    fn courses(&self) -> impl Iterator<Item = (ConnectionId, &Course)> {
        let mut courses: Vec<_> = self.courses.iter().map(|(id, course)| (*id, course)).collect();
        courses.sort_unstable_by_key(|(id, _)| *id);
        courses.into_iter()
    }

    #[inline]
    fn course(&mut self, id: ConnectionId) -> Option<&mut Course> {
        let steps = self.steps;
        let course = if self.courses.len() >= Events::MOST_CONNECTIONS {
            self.courses.get_mut(&id)?
        } else {
            self.courses.entry(id).or_insert_with(|| Course::new(steps))
        };
        if course.steps != steps {
            course.clock_stepped(steps);
        }
        Some(course)
    }

    fn observation(&mut self, observation: &Observation<'_>) {
        let Observation { connection, requester, roles_known, half_flows, what, .. } = observation;
        // Most observations concern no event.
        if !matches!(
            what,
            Observed::Announced(_)
                | Observed::Managed(_)
                | Observed::Closes(_)
                | Observed::Sent(_)
                | Observed::Repeated(_)
                | Observed::Refused(_)
                | Observed::Missing(_)
                | Observed::Joined(_)
                | Observed::Ending(_)
        ) {
            return;
        }
        let joined = match what {
            Observed::Joined(Some(other)) => self.courses.remove(other),
            _ => None,
        };
        let acknowledged = || half_flows.map(|flow| flow.acknowledged.map(|(position, _)| position));
        let Some(course) = self.course(*connection) else { return };
        (course.requester, course.roles_known) = (*requester, *roles_known);
        match what {
            Observed::Announced(announced) => course.announced(announced),
            Observed::Closes(closes) => course.closed(closes),
            Observed::Managed(managed) => course.message(managed.from, managed.seen, managed.message),
            Observed::Sent(sent) => course.sent(sent),
            Observed::Repeated(repeated) => {
                course.repeated(repeated, acknowledged()[repeated.from as usize]);
            }
            Observed::Refused(refused) => course.refused(refused),
            Observed::Missing(missing) => course.missing(missing.from),
            Observed::Ending(ending) => course.ending(ending.heard, acknowledged()),
            _ => {}
        }
        if let Some(other) = joined {
            course.join(other);
        }
    }
}

impl Observer for Events {
    fn needs(&self) -> Config {
        Config { observe: Observe::Events, ..Config::default() }
    }

    #[inline]
    fn handle(&mut self, event: &Event<'_>) {
        self.state.handle(event);
        match event {
            Event::Observation(observation) => self.observation(observation),
            Event::ClockStep(seen) => (self.steps, self.since_step) = (self.steps + 1, seen.time),
            Event::Transaction(transaction) => {
                let reply = transaction.reply.as_ref().map(|reply| reply.seen.time);
                self.since_step =
                    self.since_step.max(reply.or(transaction.unanswered_until).unwrap_or_default());
                if let Some(course) = self.course(transaction.connection) {
                    course.transaction(transaction);
                }
            }
            Event::Connection(connection) => {
                self.latest = self.latest.max(connection.last);
                if self.given_up.take() == Some(connection.id)
                    && Counts::are_few([&connection.requester.sent, &connection.responder.sent])
                {
                    self.courses.remove(&connection.id);
                    self.further_connections += 1;
                    return;
                }
                match self.course(connection.id) {
                    Some(course) => course.ended(connection),
                    None => self.further_connections += 1,
                }
            }
            Event::Eviction(Eviction::Connection(id)) => self.given_up = Some(*id),
            _ => {}
        }
    }
}
