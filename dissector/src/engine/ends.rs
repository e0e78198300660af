//! Tables of ends by keys that several networks may use at once.

use crate::rdma::End;
use crate::rpcrdma::BuildHasher;
use alloc::vec::Vec;
use core::hash::Hash;
use hashbrown::HashMap;

/// The place of a connection in the table, and one of its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EndRef {
    pub(super) session: u32,
    pub(super) end: End,
}

impl EndRef {
    /// The other end of the connection.
    pub(super) fn other(self) -> EndRef {
        EndRef { end: self.end.other(), ..self }
    }
}

/// The sender of a CM message that names a communication ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaker {
    /// The end with this ID.
    Named,
    /// The other end.
    Other,
}

/// The most ends of one key besides the first. Each packet in a new context looks at all of them, and
/// contexts can be forged.
const MOST_OTHERS: usize = 31;

/// Ends by a key. Almost every key has one end; the ends of another network with equal addresses
/// and numbers are kept apart from it.
#[derive(Clone, Debug)]
pub(super) struct Ends<K> {
    first: HashMap<K, EndRef, BuildHasher>,
    others: HashMap<K, Vec<EndRef>, BuildHasher>,
}

impl<K> Default for Ends<K> {
    fn default() -> Ends<K> {
        Ends { first: HashMap::default(), others: HashMap::default() }
    }
}

impl<K: Copy + Eq + Hash> Ends<K> {
    /// The first end with this key.
    #[inline]
    pub(super) fn get(&self, key: &K) -> Option<EndRef> {
        self.first.get(key).copied()
    }

    /// All ends with this key.
    pub(super) fn all<'a>(&'a self, key: &K) -> impl Iterator<Item = EndRef> + Clone + use<'a, K> {
        let others = if self.has_others() { self.others.get(key) } else { None };
        self.get(key).into_iter().chain(others.into_iter().flatten().copied())
    }

    /// Whether a key has more than one end.
    #[inline]
    pub(super) fn has_others(&self) -> bool {
        !self.others.is_empty()
    }

    /// Adds an end. The entry of its own session with this key is replaced. Beyond [`MOST_OTHERS`],
    /// the oldest of the others is dropped: its session has no further packets with this key.
    pub(super) fn insert(&mut self, key: K, place: EndRef) {
        self.remove(&key, place.session);
        if self.first.contains_key(&key) {
            let others = self.others.entry(key).or_default();
            if others.len() == MOST_OTHERS {
                others.remove(0);
            }
            others.push(place);
        } else {
            self.first.insert(key, place);
        }
    }

    /// Removes the entry of a session with this key.
    pub(super) fn remove(&mut self, key: &K, session: u32) {
        if self.get(key).is_some_and(|place| place.session == session) {
            self.first.remove(key);
        }
        if self.has_others()
            && let Some(others) = self.others.get_mut(key)
        {
            others.retain(|place| place.session != session);
            if others.is_empty() {
                self.others.remove(key);
            }
        }
    }

    /// Bytes of memory on the heap that a clone uses.
    pub(super) fn footprint(&self) -> usize {
        let others = self.others.values().map(|others| others.len() * size_of::<EndRef>());
        self.first.allocation_size() + self.others.allocation_size() + others.sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(session: u32) -> EndRef {
        EndRef { session, end: End::First }
    }

    fn sessions(ends: &Ends<u8>) -> Vec<u32> {
        ends.all(&7).map(|place| place.session).collect()
    }

    #[test]
    fn ends_per_key_are_bounded() {
        let mut ends = Ends::default();
        (0..1000).for_each(|session| ends.insert(7, end(session)));
        let latest = 1000 - MOST_OTHERS as u32..1000;
        assert_eq!(sessions(&ends), [0].into_iter().chain(latest.clone()).collect::<Vec<_>>());
        // A session that was dropped can end.
        ends.remove(&7, 1);
        ends.remove(&7, 0);
        assert_eq!(sessions(&ends), latest.clone().collect::<Vec<_>>());
        latest.for_each(|session| ends.remove(&7, session));
        assert!(sessions(&ends).is_empty() && !ends.has_others());
    }
}
