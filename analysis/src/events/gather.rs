//! The facts gathered while the engine reports.

use super::delayed::Delayed;
use super::facts::{Call, Summary};
use super::history::History;
use super::known::Reached;
use super::listing;
use super::state::StateEvents;
use super::twice::Twice;
use super::{Kind, SILENCE, SessionEvent};
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

/// The open connections and calls of a capture that continues.
#[derive(Clone, Debug, Default)]
pub struct Open {
    /// In the order of their numbers.
    connections: Vec<Connection>,
    /// Calls of requesters without a reply, by connection, in the order in which they began.
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
        let mut calls: Vec<_> = calls.collect();
        calls.sort_by_key(|(id, _)| *id);
        Open { connections: connections.collect(), calls }
    }

    /// The calls of a connection that wait at `now`, if one has waited for [`SILENCE`].
    fn waiting(&self, id: ConnectionId, now: Time) -> Vec<Call> {
        let first = self.calls.partition_point(|(of, _)| *of < id);
        let calls = self.calls[first..].iter().take_while(|(of, _)| *of == id).map(|(_, call)| *call);
        let waiting: Vec<Call> = calls.take(History::MOST_WAITING).collect();
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
    histories: HashMap<ConnectionId, History, FixedState>,
    /// Connections beyond [`Events::MOST_CONNECTIONS`].
    further_connections: u64,
    /// The latest time of all ended connections.
    latest: Time,
    state: StateEvents,
    delayed: Delayed,
    twice: Twice,
    /// How often the clock stepped back.
    steps: u32,
    /// The latest time since its last step back.
    since_step: Time,
    /// Whether the capture has the packets of two clocks that differ.
    clocks_differ: bool,
    /// The connection that the engine is evicting.
    evicted: Option<ConnectionId>,
}

impl Events {
    /// The most connections whose events are kept.
    pub const MOST_CONNECTIONS: usize = 4096;

    /// Connections whose events are not kept.
    pub fn further_connections(&self) -> u64 {
        self.further_connections
    }

    /// The most calls of a connection that were outstanding at once, and the credits that its latest
    /// reply granted. `None` if packets of the connection are missing, or if it has no reply.
    pub fn most_outstanding(&self, connection: ConnectionId) -> Option<(u64, u32)> {
        self.histories.get(&connection)?.credits.most()
    }

    /// The events, in order of time. `end` is the end of the capture, if it is known.
    pub fn list(&self, end: Option<Time>) -> Vec<SessionEvent> {
        let ended =
            self.histories().filter_map(|(id, history)| Some((id, history, history.summary?, Vec::new())));
        let time = if self.steps > 0 { self.since_step } else { end.unwrap_or(self.latest) };
        let reached = Reached { time, is_live: false, steps: self.steps };
        self.with_requests(listing::events(ended, reached), reached)
    }

    /// The events up to `now` while the capture continues. They include those of connections and
    /// calls that are still `open`. An event that depends on an end's silence is reported only for
    /// ended connections, except that a call without a reply may have lost its service.
    pub fn list_now(&self, open: &Open, now: Time) -> Vec<SessionEvent> {
        let known = self.histories().filter_map(|(id, history)| {
            let place = || open.connections.binary_search_by_key(&id, |connection| connection.id).ok();
            let summary = history.summary.or_else(|| Some(Summary::of(&open.connections[place()?])))?;
            Some((id, history, summary, open.waiting(id, now)))
        });
        let reached = Reached { time: now, is_live: true, steps: self.steps };
        self.with_requests(listing::events(known, reached), reached)
    }

    /// Adds the events about NFSv4 state and delayed requests. Between two clocks, a request that is
    /// repeated within a second may be one request.
    fn with_requests(&self, mut events: Vec<SessionEvent>, reached: Reached) -> Vec<SessionEvent> {
        if self.clocks_differ {
            let is_one = |event: &SessionEvent| event.duration.is_some_and(|length| length < SILENCE);
            events.retain(|event| event.kind != Kind::RequestRepeated || !is_one(event));
        }
        let before = events.len();
        self.state.report(reached, &mut events);
        self.delayed.report(reached, &mut events);
        self.twice.report(&mut events);
        if events.len() > before {
            events.sort_by_key(listing::order);
        }
        events
    }

    /// Forgets everything that ended before this time. This bounds memory and the cost of a list in
    /// an endless capture.
    pub fn forget(&mut self, before: Time) {
        self.histories.retain(|_, history| history.summary.is_none_or(|summary| summary.last >= before));
        self.histories.values_mut().for_each(|history| history.forget(before));
        self.state.forget(before);
        self.delayed.forget(before);
        self.twice.forget(before);
    }

    fn histories(&self) -> impl Iterator<Item = (ConnectionId, &History)> {
        let mut histories: Vec<_> = self.histories.iter().map(|(id, history)| (*id, history)).collect();
        histories.sort_unstable_by_key(|(id, _)| *id);
        histories.into_iter()
    }

    #[inline]
    fn history(&mut self, id: ConnectionId) -> Option<&mut History> {
        let steps = self.steps;
        let history = if self.histories.len() >= Events::MOST_CONNECTIONS {
            self.histories.get_mut(&id)?
        } else {
            self.histories.entry(id).or_insert_with(|| History::new(steps))
        };
        if history.steps != steps {
            history.clock_stepped(steps);
        }
        Some(history)
    }

    fn observation(&mut self, observation: &Observation<'_>) {
        let Observation { connection, requester, roles_known, half_flows, kind, .. } = observation;
        // Most observations concern no event.
        if !matches!(
            kind,
            Observed::Announced(_)
                | Observed::Managed(_)
                | Observed::Handshake(_)
                | Observed::Closes(_)
                | Observed::Sent(_)
                | Observed::Repeated(_)
                | Observed::Refused(_)
                | Observed::Missing(_)
                | Observed::Corrected(_)
                | Observed::Joined(_)
                | Observed::Ending(_)
        ) {
            return;
        }
        let joined = match kind {
            Observed::Joined(Some(other)) => self.histories.remove(other),
            _ => None,
        };
        let acknowledged = || half_flows.map(|flow| flow.acknowledged.map(|(position, _)| position));
        let Some(history) = self.history(*connection) else { return };
        (history.requester, history.roles_known) = (*requester, *roles_known);
        if history.is_repeating() {
            history.acknowledged(acknowledged());
        }
        match kind {
            Observed::Announced(announced) => history.announced(announced),
            Observed::Handshake(handshake) => history.handshake(handshake),
            Observed::Closes(closes) => history.closed(closes),
            Observed::Managed(managed) => history.message(managed.from, managed.seen, managed.message),
            Observed::Sent(sent) => history.sent(sent),
            Observed::Repeated(repeated) => {
                history.repeated(repeated, acknowledged()[repeated.from as usize]);
            }
            Observed::Refused(refused) => history.refused(refused),
            Observed::Missing(missing) => history.missing(missing),
            Observed::Corrected(_) => history.corrected(),
            Observed::Ending(ending) => history.ending(ending.captured, acknowledged()),
            _ => {}
        }
        if let Some(other) = joined {
            history.join(other);
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
            Event::ClocksDiffer(_) => self.clocks_differ = true,
            Event::ClockStep(seen) => {
                (self.steps, self.since_step) = (self.steps + 1, seen.time);
                self.delayed.clock_stepped();
                self.twice.clock_stepped();
            }
            Event::Transaction(transaction) => {
                self.delayed.handle(transaction);
                self.twice.handle(transaction);
                let reply = transaction.reply.as_ref().map(|reply| reply.seen.time);
                self.since_step =
                    self.since_step.max(reply.or(transaction.unanswered_until).unwrap_or_default());
                if let Some(history) = self.history(transaction.connection) {
                    history.transaction(transaction);
                }
            }
            Event::Connection(connection) => {
                self.latest = self.latest.max(connection.last);
                if self.evicted.take() == Some(connection.id)
                    && Counts::are_few([&connection.requester.sent, &connection.responder.sent])
                {
                    self.histories.remove(&connection.id);
                    self.further_connections += 1;
                    return;
                }
                match self.history(connection.id) {
                    Some(history) => history.ended(connection),
                    None => self.further_connections += 1,
                }
            }
            Event::Eviction(Eviction::Connection(id)) => self.evicted = Some(*id),
            _ => {}
        }
    }
}
