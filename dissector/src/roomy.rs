//! Lists whose memory counts towards a bound.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

/// A list whose clone has the same capacity. Memory bounds count capacities, so a clone of the
/// engine reaches them at the same point and reports the same events.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Roomy<L>(L);

impl<T: Clone> Clone for Roomy<Vec<T>> {
    fn clone(&self) -> Self {
        let mut clone = Vec::with_capacity(self.0.capacity());
        clone.extend_from_slice(&self.0);
        Roomy(clone)
    }
}

impl<T: Clone> Clone for Roomy<VecDeque<T>> {
    fn clone(&self) -> Self {
        let mut clone = VecDeque::with_capacity(self.0.capacity());
        clone.extend(self.0.iter().cloned());
        Roomy(clone)
    }
}

impl<L> Roomy<L> {
    pub(crate) fn into_inner(self) -> L {
        self.0
    }
}

impl<L> Deref for Roomy<L> {
    type Target = L;

    fn deref(&self) -> &L {
        &self.0
    }
}

impl<L> DerefMut for Roomy<L> {
    fn deref_mut(&mut self) -> &mut L {
        &mut self.0
    }
}

/// The capacity of a list that has grown to `entries` by pushes.
pub(crate) fn room(entries: usize) -> usize {
    if entries == 0 { 0 } else { entries.next_power_of_two().max(4) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clone_keeps_capacity() {
        let mut list: Roomy<Vec<u32>> = Roomy::default();
        let mut queue: Roomy<VecDeque<u32>> = Roomy::default();
        list.extend(0..1000);
        queue.extend(0..1000);
        list.truncate(3);
        queue.drain(2..999);
        assert!(list.capacity() >= 1000 && queue.capacity() >= 1000);
        assert_eq!((list.clone(), list.clone().capacity()), (list.clone(), list.capacity()));
        assert_eq!((queue.clone(), queue.clone().capacity()), (queue.clone(), queue.capacity()));
    }

    #[test]
    fn room_matches_capacity_of_growing_list() {
        let mut list: Vec<u64> = Vec::new();
        for entries in 0..300 {
            assert_eq!(room(entries), list.capacity());
            list.push(0);
        }
    }
}
