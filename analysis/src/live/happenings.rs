//! Events as they happen.

use crate::events::{Events, Kind, Open, SessionEvent};
use crate::observer::Observer;
use crate::report::{Harm, Reach, Statement, of_events};
use foldhash::fast::FixedState;
use rdmascope_dissector::connection::ConnectionId;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::record::Time;
use std::collections::HashMap;

/// A reported event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happening {
    /// The event.
    pub event: SessionEvent,
    /// Whether it was reported before, and has continued since.
    pub is_again: bool,
}

/// Reports each event when it is known. An event that continues after that is reported again when
/// it is over.
#[derive(Clone, Debug, Default)]
pub struct Happenings {
    events: Events,
    reported: HashMap<Key, Reported, FixedState>,
}

/// The identity of an event, whatever its extent.
type Key = (ConnectionId, Kind, Time, Option<bool>);

/// The extent of an event when it was last reported, and its extent now.
#[derive(Clone, Copy, Debug)]
struct Reported {
    reported: Extent,
    known: Extent,
}

/// The values that grow while an event continues. Later packets can also show that it began earlier or
/// later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    time: Time,
    duration: Option<u64>,
    count: u64,
    other: Option<ConnectionId>,
}

fn key(event: &SessionEvent) -> Key {
    (event.connection, event.kind, event.time, event.by_requester)
}

impl Extent {
    fn of(event: &SessionEvent) -> Extent {
        let SessionEvent { time, duration, count, other, .. } = *event;
        Extent { time, duration, count, other }
    }

    fn end(&self) -> Time {
        self.time.plus(self.duration.unwrap_or(0))
    }
}

impl Reported {
    /// Whether the event with this key is `event` with another start: they overlap.
    fn is_part_of(&self, key: &Key, event: &SessionEvent) -> bool {
        let (connection, kind, _, by_requester) = *key;
        let is_same = (event.connection, event.kind, event.by_requester) == (connection, kind, by_requester);
        let now = Extent::of(event);
        is_same && self.known.time < now.end() && now.time < self.known.end()
    }
}

impl Happenings {
    /// The time after which an ended event is forgotten, in nanoseconds. A connection that comes
    /// back later is a new one.
    pub const KEPT: i64 = 600_000_000_000;

    /// The events to report at `now`, in order of time. `open` are the connections and calls that
    /// have not ended. The last time, they include events that ended since they were last listed.
    pub fn take(&mut self, open: &Open, now: Time, is_last: bool) -> Vec<Happening> {
        let listed = self.events.list_now(open, now);
        let mut before = core::mem::take(&mut self.reported);
        let same: Vec<Option<Reported>> = listed.iter().map(|event| before.remove(&key(event))).collect();
        let mut happenings = Vec::new();
        for (event, same) in listed.into_iter().zip(same) {
            let known = Extent::of(&event);
            let same = same.or_else(|| {
                let moved = before.iter().find(|(other, reported)| reported.is_part_of(other, &event));
                let moved = moved.map(|(key, _)| *key)?;
                before.remove(&moved)
            });
            let is_over = |same: Reported| same.known == known || is_last && known.end() < now;
            let is_due = same.is_none_or(|same| same.reported != known && is_over(same));
            let reported = same.filter(|_| !is_due).map_or(known, |same| same.reported);
            self.reported.insert(key(&event), Reported { reported, known });
            if is_due {
                happenings.push(Happening { event, is_again: same.is_some() });
            }
        }
        self.events.forget(Time(now.0.saturating_sub(Happenings::KEPT)));
        happenings
    }
}

impl Happenings {
    /// The statements about harm, at `now`, of events that are not forgotten. `start` is the start of
    /// the capture, and `open` are the connections and calls that have not ended.
    pub fn leading(&self, open: &Open, start: Time, now: Time) -> Vec<Statement> {
        let mut statements =
            of_events(&self.events.list_now(open, now), Reach { span: Some((start, now)), is_live: true });
        statements.retain(|statement| statement.harm < Harm::Note);
        statements
    }
}

impl Observer for Happenings {
    fn needs(&self) -> Config {
        self.events.needs()
    }

    #[inline]
    fn handle(&mut self, event: &Event<'_>) {
        self.events.handle(event);
    }
}
