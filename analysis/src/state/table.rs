//! The bounded table of lifetimes: live ones, and recently ended ones.

use super::index::{Group, Index, Live};
use super::{At, End, Identity, Kind, Lifetime, Summary};
use core::ops::RangeInclusive;
use foldhash::fast::FixedState;
use rdmascope_dissector::record::Time;
use std::collections::{BTreeMap, HashMap};

/// A scope and an identity. Two clients may use the same bytes.
pub(super) type Key = (u64, Identity);

/// The receiver of ended lifetimes.
pub(super) type Sink<'a> = &'a mut dyn FnMut(&Lifetime);

#[derive(Clone, Copy, Debug)]
enum Place {
    /// In [`Table::live`], with its scope and this number.
    Live(u64),
    /// In [`Table::settled`].
    Settled(u64),
}

/// The lifetimes.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    /// Live lifetimes by scope and number.
    live: BTreeMap<(u64, u64), Lifetime>,
    /// Recently ended lifetimes in the order of their ends. A message that was captured late may
    /// still concern them.
    settled: BTreeMap<u64, Lifetime>,
    places: HashMap<Key, Place, FixedState>,
    /// The groups of live and of ended lifetimes.
    index: Index,
    numbers: u64,
    endings: u64,
    pub(super) summary: Summary,
}

impl Table {
    /// The most live lifetimes.
    pub(super) const MOST_LIVE: usize = 1 << 16;
    /// The most ended lifetimes that are kept.
    pub(super) const MOST_SETTLED: usize = 1 << 12;

    /// The live lifetime with this key.
    pub(super) fn live(&mut self, key: &Key) -> Option<Live<'_>> {
        match *self.places.get(key)? {
            Place::Live(number) => self.numbered(key.0, number),
            Place::Settled(_) => None,
        }
    }

    /// The recently ended lifetime with this key.
    pub(super) fn settled(&mut self, key: &Key) -> Option<&mut Lifetime> {
        match self.places.get(key)? {
            Place::Settled(ending) => self.settled.get_mut(ending),
            Place::Live(_) => None,
        }
    }

    /// The live lifetime with this number.
    pub(super) fn numbered(&mut self, scope: u64, number: u64) -> Option<Live<'_>> {
        let Table { live, index, .. } = self;
        live.get_mut(&(scope, number)).map(|lifetime| Live::new(lifetime, index))
    }

    /// The keys of those live lifetimes of a scope that `is_meant` selects.
    pub(super) fn keys_of_scope(&self, scope: u64, is_meant: impl Fn(&Lifetime) -> bool) -> Vec<Key> {
        let live = self.live.range((scope, 0)..=(scope, u64::MAX)).map(|(_, lifetime)| lifetime);
        live.filter(|lifetime| is_meant(lifetime)).map(|lifetime| (scope, lifetime.id)).collect()
    }

    /// The keys of the live lifetimes of a scope that are in one of these groups.
    pub(super) fn keys_of(&self, scope: u64, groups: RangeInclusive<Group>) -> Vec<Key> {
        let places = self.index.places(scope, groups);
        places.filter_map(|number| Some((scope, self.live.get(&(scope, number))?.id))).collect()
    }

    /// Ended lifetimes that were not reported yet, in the order of their ends.
    pub(super) fn ended(&self) -> impl Iterator<Item = &Lifetime> {
        self.settled.values()
    }

    /// All live lifetimes.
    pub(super) fn open(&self) -> impl Iterator<Item = &Lifetime> {
        self.live.values()
    }

    /// The number of the next lifetime.
    pub(super) fn next_number(&self) -> u64 {
        self.numbers + 1
    }

    /// Adds a lifetime, which must have [`Table::next_number`]. If the table is full, the first
    /// lifetime of the oldest client ID is dropped.
    pub(super) fn add(&mut self, lifetime: Lifetime, sink: Sink<'_>) {
        let number = lifetime.number;
        debug_assert_eq!(number, self.next_number());
        self.numbers = number;
        if self.live.len() >= Table::MOST_LIVE {
            let oldest = self.live.iter().next().map(|(place, old)| ((place.0, old.id), old.last));
            if let Some((key, last)) = oldest {
                self.end(&key, End::NotFollowed, last, sink);
            }
        }
        self.place(lifetime);
    }

    fn place(&mut self, lifetime: Lifetime) {
        let Lifetime { scope, number, id, .. } = lifetime;
        self.index.add(number, &lifetime);
        self.places.insert((scope, id), Place::Live(number));
        self.live.insert((scope, number), lifetime);
    }

    /// Ends the live lifetime with this key, and returns whether there was one.
    pub(super) fn end(&mut self, key: &Key, end: End, at: At, sink: Sink<'_>) -> bool {
        let Some(Place::Live(number)) = self.places.get(key).copied() else { return false };
        let Some(mut lifetime) = self.live.remove(&(key.0, number)) else { return false };
        self.index.remove(number, &lifetime);
        (lifetime.end, lifetime.ended) = (end, Some(at));
        if end != End::NotFollowed {
            lifetime.last = at;
        }
        if self.settled.len() >= Table::MOST_SETTLED
            && let Some((ending, old)) = self.settled.pop_first()
        {
            self.index.remove(ending, &old);
            let key = (old.scope, old.id);
            if matches!(self.places.get(&key), Some(Place::Settled(place)) if *place == ending) {
                self.places.remove(&key);
            }
            self.summary.count(&old);
            sink(&old);
        }
        self.endings += 1;
        self.places.insert(*key, Place::Settled(self.endings));
        self.index.add(self.endings, &lifetime);
        self.settled.insert(self.endings, lifetime);
        true
    }

    /// Makes those ends of a scope unknown that an unseen message from this time on may precede.
    pub(super) fn doubt_ended(&mut self, scope: u64, since: Time) {
        let lost = Group::Lost(since)..=Group::Lost(Time(i64::MAX));
        let endings: Vec<u64> = self.index.places(scope, lost).collect();
        for ending in endings {
            let Some(lifetime) = self.settled.get_mut(&ending) else { continue };
            self.index.remove(ending, lifetime);
            lifetime.end = End::Unknown;
        }
    }

    /// Notes for locks of a scope whose LOCK the capture lacks that a later CLOSE of their file may
    /// have ended them.
    pub(super) fn doubt_locks(&mut self, scope: u64) {
        let Table { live, settled, .. } = self;
        let in_scope = live.range_mut((scope, 0)..=(scope, u64::MAX)).map(|(_, lifetime)| lifetime);
        let is_meant = |lifetime: &&mut Lifetime| lifetime.kind == Kind::Lock && lifetime.open.is_none();
        let mut locks = in_scope.filter(is_meant).peekable();
        if locks.peek().is_none() {
            return;
        }
        let is_closed =
            |old: &&Lifetime| old.scope == scope && (old.kind, old.end) == (Kind::Open, End::Closed);
        let closed = settled.values().filter(is_closed);
        let closed: HashMap<&[u8], At> =
            closed.filter_map(|old| Some((&old.file_handle[..], old.ended?))).collect();
        for lock in locks {
            let at = closed.get(&lock.file_handle[..]).filter(|at| lock.last.time <= at.time);
            lock.unsure = lock.unsure.or(at.copied());
        }
    }

    /// Makes an ended lifetime live again, because it was used.
    pub(super) fn revive(&mut self, key: &Key) {
        let Some(Place::Settled(ending)) = self.places.get(key).copied() else { return };
        let Some(mut lifetime) = self.settled.remove(&ending) else { return };
        self.index.remove(ending, &lifetime);
        (lifetime.end, lifetime.ended) = (End::Open, None);
        self.place(lifetime);
    }

    /// Checks that the index has the groups of all lifetimes.
    #[cfg(test)]
    pub(super) fn check_index(&self) {
        let mut index = Index::default();
        self.live.values().for_each(|lifetime| index.add(lifetime.number, lifetime));
        self.settled.iter().for_each(|(ending, lifetime)| index.add(*ending, lifetime));
        assert_eq!(self.index, index);
    }

    /// Reports all remaining lifetimes at the end of the capture: first the ended ones, then the
    /// live ones, which `last` can change before.
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
        self.index = Index::default();
    }
}
