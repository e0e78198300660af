//! Lists and maps of a limited length.

use alloc::collections::VecDeque;
use core::hash::Hash;
use hashbrown::HashMap;
use rdmascope_dissector::BuildHasher;

/// Appends an item to a list of at most `most` items. If the list is full, removes and returns the
/// oldest item.
pub(crate) fn push<T>(list: &mut VecDeque<T>, most: usize, item: T) -> Option<T> {
    let oldest = if list.len() == most { list.pop_front() } else { None };
    list.push_back(item);
    oldest
}

/// A map that keeps the entries added last.
#[derive(Clone, Debug)]
pub(crate) struct Map<K, V> {
    values: HashMap<K, V, BuildHasher>,
    /// The keys, oldest first.
    order: VecDeque<K>,
}

impl<K, V> Default for Map<K, V> {
    fn default() -> Map<K, V> {
        Map { values: HashMap::default(), order: VecDeque::new() }
    }
}

impl<K: Copy + Eq + Hash, V> Map<K, V> {
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.values.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.values.get_mut(key)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.values.values()
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.values.values_mut()
    }

    /// Removes an entry. The time this takes grows with the length of the map.
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let value = self.values.remove(key)?;
        self.order.retain(|other| other != key);
        Some(value)
    }

    /// Sets a value and returns the one before. A new entry removes the oldest one if there are
    /// `most`.
    pub(crate) fn insert(&mut self, most: usize, key: K, value: V) -> Option<V> {
        let before = self.values.insert(key, value);
        if before.is_none()
            && let Some(oldest) = push(&mut self.order, most, key)
        {
            self.values.remove(&oldest);
        }
        before
    }

    /// The value of a key. A new entry has the default value.
    pub(crate) fn or_default(&mut self, most: usize, key: K) -> &mut V
    where
        V: Default,
    {
        if !self.values.contains_key(&key) {
            self.insert(most, key, V::default());
        }
        self.values.entry(key).or_default()
    }

    /// Heap bytes that it takes up, without those of its values.
    pub(crate) fn footprint(&self) -> usize {
        self.values.allocation_size() + self.order.len() * size_of::<K>()
    }
}
