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
    /// Whether the latest list contains it.
    is_listed: bool,
}

/// The values that grow while an event continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    duration: Option<u64>,
    count: u64,
    other: Option<ConnectionId>,
}

impl Happenings {
    /// The time after which an ended event is forgotten, in nanoseconds. A connection that comes
    /// back later is a new one.
    pub const KEPT: i64 = 600_000_000_000;

    /// The events to report at `now`, in order of time. `open` are the connections and calls that
    /// have not ended.
    pub fn take(&mut self, open: &Open, now: Time) -> Vec<Happening> {
        self.reported.values_mut().for_each(|reported| reported.is_listed = false);
        let mut happenings = Vec::new();
        for event in self.events.list_now(open, now) {
            let extent = Extent { duration: event.duration, count: event.count, other: event.other };
            let key = (event.connection, event.kind, event.time, event.by_requester);
            let new = Reported { reported: extent, known: extent, is_listed: true };
            match self.reported.get_mut(&key) {
                None => {
                    self.reported.insert(key, new);
                    happenings.push(Happening { event, is_again: false });
                }
                // It is still growing.
                Some(known) if known.known != extent => *known = Reported { reported: known.reported, ..new },
                Some(known) if known.reported != extent => {
                    *known = new;
                    happenings.push(Happening { event, is_again: true });
                }
                Some(known) => known.is_listed = true,
            }
        }
        self.reported.retain(|_, reported| reported.is_listed);
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
