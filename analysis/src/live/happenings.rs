//! Events as they happen.

use crate::events::{Events, Kind, SessionEvent};
use crate::observer::Observer;
use foldhash::fast::FixedState;
use rdmascope_dissector::connection::{Connection, ConnectionId};
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::record::Time;
use std::collections::HashMap;

/// An event that is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happening {
    /// The event.
    pub event: SessionEvent,
    /// It was told before, and went on.
    pub is_again: bool,
}

/// Tells each event when it is known, and once more when it is over if it went on after that.
#[derive(Clone, Debug, Default)]
pub struct Happenings {
    events: Events,
    told: HashMap<Key, Told, FixedState>,
}

/// What tells events apart, whatever became of them.
type Key = (ConnectionId, Kind, Time, Option<bool>);

/// What was told of an event, and what is known of it now.
#[derive(Clone, Copy, Debug)]
struct Told {
    told: Extent,
    known: Extent,
    /// It was listed the last time.
    is_listed: bool,
}

/// What grows while an event goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    duration: Option<u64>,
    count: u64,
    other: Option<ConnectionId>,
}

impl Happenings {
    /// What was over for so long is forgotten: nanoseconds. A connection that takes longer to come back is a new one.
    pub const KEPT: i64 = 600_000_000_000;

    /// The events that are to be told at `now`, in the order of time. `open` are the connections that have not ended, in the order of their numbers.
    pub fn take(&mut self, open: &[Connection], now: Time) -> Vec<Happening> {
        self.told.values_mut().for_each(|told| told.is_listed = false);
        let mut happenings = Vec::new();
        for event in self.events.list_now(open, now) {
            let extent = Extent { duration: event.duration, count: event.count, other: event.other };
            let key = (event.connection, event.kind, event.time, event.by_requester);
            let new = Told { told: extent, known: extent, is_listed: true };
            match self.told.get_mut(&key) {
                None => {
                    self.told.insert(key, new);
                    happenings.push(Happening { event, is_again: false });
                }
                // It grows still.
                Some(known) if known.known != extent => *known = Told { told: known.told, ..new },
                Some(known) if known.told != extent => {
                    *known = new;
                    happenings.push(Happening { event, is_again: true });
                }
                Some(known) => known.is_listed = true,
            }
        }
        self.told.retain(|_, told| told.is_listed);
        self.events.forget(Time(now.0.saturating_sub(Happenings::KEPT)));
        happenings
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
