//! The table of lifetimes, bounded: what lives, and what ended lately.

use super::{At, End, Identity, Lifetime, Summary};
use foldhash::fast::FixedState;
use std::collections::{BTreeMap, HashMap};

/// Whose state it is, and what names it: the same bytes from two clients are two things.
pub(super) type Key = (u64, Identity);

/// Who takes what ended.
pub(super) type Sink<'a> = &'a mut dyn FnMut(&Lifetime);

#[derive(Clone, Copy, Debug)]
enum Place {
    /// In [`Table::live`], below its scope and this number.
    Live(u64),
    /// In [`Table::settled`].
    Settled(u64),
}

/// The lifetimes.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    /// What lives, by scope and number.
    live: BTreeMap<(u64, u64), Lifetime>,
    /// What ended last, in that order: a message that was captured late may yet say something of it.
    settled: BTreeMap<u64, Lifetime>,
    places: HashMap<Key, Place, FixedState>,
    numbers: u64,
    endings: u64,
    pub(super) summary: Summary,
}

impl Table {
    /// What lives at once.
    pub(super) const MOST_LIVE: usize = 1 << 16;
    /// What is remembered of what ended.
    pub(super) const MOST_SETTLED: usize = 1 << 12;

    /// What lives under this name.
    pub(super) fn live(&mut self, key: &Key) -> Option<&mut Lifetime> {
        match self.places.get(key)? {
            Place::Live(number) => self.live.get_mut(&(key.0, *number)),
            Place::Settled(_) => None,
        }
    }

    /// What ended under this name lately.
    pub(super) fn settled(&mut self, key: &Key) -> Option<&mut Lifetime> {
        match self.places.get(key)? {
            Place::Settled(ending) => self.settled.get_mut(ending),
            Place::Live(_) => None,
        }
    }

    /// What lives under this number.
    pub(super) fn numbered(&mut self, scope: u64, number: u64) -> Option<&mut Lifetime> {
        self.live.get_mut(&(scope, number))
    }

    /// All that lives of a scope.
    pub(super) fn of_scope(&mut self, scope: u64) -> impl Iterator<Item = &mut Lifetime> {
        self.live.range_mut((scope, 0)..=(scope, u64::MAX)).map(|(_, lifetime)| lifetime)
    }

    /// What ended and was not handed out yet, in that order.
    pub(super) fn ended(&self) -> impl Iterator<Item = &Lifetime> {
        self.settled.values()
    }

    /// What lives.
    pub(super) fn open(&self) -> impl Iterator<Item = &Lifetime> {
        self.live.values()
    }

    /// The number that the next one gets.
    pub(super) fn next_number(&self) -> u64 {
        self.numbers + 1
    }

    /// Adds what begins, which has [`Table::next_number`], and returns it. Of a full table, what belongs to the oldest client ID is given up, oldest
    /// first.
    pub(super) fn add(&mut self, lifetime: Lifetime, sink: Sink<'_>) -> &mut Lifetime {
        let number = lifetime.number;
        debug_assert_eq!(number, self.next_number());
        self.numbers = number;
        if self.live.len() >= Table::MOST_LIVE {
            let oldest = self.live.iter().next().map(|(place, old)| ((place.0, old.id), old.last));
            if let Some((key, last)) = oldest {
                self.end(&key, End::NotFollowed, last, sink);
            }
        }
        let key = (lifetime.scope, lifetime.id);
        self.places.insert(key, Place::Live(number));
        self.live.entry((key.0, number)).or_insert(lifetime)
    }

    /// Ends what lives under this name, and returns whether there was something.
    pub(super) fn end(&mut self, key: &Key, end: End, at: At, sink: Sink<'_>) -> bool {
        let Some(Place::Live(number)) = self.places.get(key).copied() else { return false };
        let Some(mut lifetime) = self.live.remove(&(key.0, number)) else { return false };
        (lifetime.end, lifetime.ended) = (end, Some(at));
        if end != End::NotFollowed {
            lifetime.last = at;
        }
        if let Some(open) = lifetime.open
            && let Some(open) = self.live.get_mut(&(key.0, open))
        {
            open.locks = open.locks.saturating_sub(1);
        }
        if self.settled.len() >= Table::MOST_SETTLED
            && let Some((ending, old)) = self.settled.pop_first()
        {
            let key = (old.scope, old.id);
            if matches!(self.places.get(&key), Some(Place::Settled(place)) if *place == ending) {
                self.places.remove(&key);
            }
            self.summary.count(&old);
            sink(&old);
        }
        self.endings += 1;
        self.places.insert(*key, Place::Settled(self.endings));
        self.settled.insert(self.endings, lifetime);
        true
    }

    /// Takes back that it ended: it was used again.
    pub(super) fn revive(&mut self, key: &Key) -> Option<&mut Lifetime> {
        let Some(Place::Settled(ending)) = self.places.get(key).copied() else { return None };
        let mut lifetime = self.settled.remove(&ending)?;
        (lifetime.end, lifetime.ended) = (End::Open, None);
        let number = lifetime.number;
        self.places.insert(*key, Place::Live(number));
        Some(self.live.entry((key.0, number)).or_insert(lifetime))
    }

    /// Hands out all that is left, at the end of the capture: what ended, then what lives, which `last` looks at first.
    pub(super) fn finish(&mut self, mut last: impl FnMut(&mut Lifetime), sink: Sink<'_>) {
        for old in core::mem::take(&mut self.settled).into_values() {
            self.summary.count(&old);
            sink(&old);
        }
        let mut left: Vec<Lifetime> = core::mem::take(&mut self.live).into_values().collect();
        left.sort_unstable_by_key(|lifetime| lifetime.number);
        for mut lifetime in left {
            last(&mut lifetime);
            self.summary.count(&lifetime);
            sink(&lifetime);
        }
        self.places.clear();
    }
}
