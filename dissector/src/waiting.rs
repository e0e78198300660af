//! A queue for answers that the capture shows before their requests.
//!
//! A host answers only requests that it received. But in the capture the two half-flows of a
//! connection may be shifted against each other, or part of a request may be missing, so that the
//! request is incomplete when its answer arrives. Such an answer waits for as long as captures
//! reorder packets.

use crate::record::{REORDERING, Seen, Time};
use crate::roomy::Roomy;
use alloc::collections::VecDeque;

/// An entry that can wait.
pub(crate) trait Held {
    /// Its packet; `None` if it does not come from a captured packet.
    fn seen(&self) -> Option<Seen>;

    /// Bytes of memory that it uses on the heap.
    fn bytes(&self) -> usize;
}

/// The waiting entries of one end, in order of arrival. When there are too many, the oldest is due.
#[derive(Clone, Debug)]
pub(crate) struct Waiting<T> {
    entries: Roomy<VecDeque<T>>,
    bytes: usize,
}

impl<T> Default for Waiting<T> {
    fn default() -> Waiting<T> {
        Waiting { entries: Roomy::default(), bytes: 0 }
    }
}

impl<T: Held> Waiting<T> {
    /// Maximum number of waiting entries.
    const MOST: usize = 64;
    /// Maximum number of their bytes.
    const MOST_BYTES: usize = 2 << 20;

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of memory on the heap; a clone uses the same amount.
    #[inline]
    pub(crate) fn footprint(&self) -> usize {
        self.entries.capacity() * size_of::<T>() + self.bytes
    }

    /// Appends an entry.
    pub(crate) fn keep(&mut self, entry: T) {
        self.bytes += entry.bytes();
        self.entries.push_back(entry);
    }

    /// All waiting entries.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter()
    }

    /// The packet of the oldest entry.
    pub(crate) fn first(&self) -> Option<Seen> {
        self.entries.front()?.seen()
    }

    /// Whether the queue exceeds its bounds.
    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() > Waiting::<T>::MOST || self.bytes > Waiting::<T>::MOST_BYTES
    }

    /// Whether the oldest entry has waited for longer than captures reorder packets.
    pub(crate) fn is_overdue(&self, now: Seen) -> bool {
        let (nanoseconds, packets) = REORDERING;
        self.first().is_some_and(|first| {
            now.time.since(first.time) > nanoseconds
                || now.frame.saturating_sub(first.frame) > u64::from(packets)
        })
    }

    /// The time at which the oldest entry becomes overdue.
    pub(crate) fn deadline(&self) -> Option<Time> {
        Some(self.first()?.time.plus(REORDERING.0 + 1))
    }

    /// Removes the oldest entry.
    pub(crate) fn take_first(&mut self) -> Option<T> {
        self.take(0)
    }

    /// Removes the entry at `index`. The last removal frees the memory of the list.
    pub(crate) fn take(&mut self, index: usize) -> Option<T> {
        let entry = self.entries.remove(index)?;
        self.bytes -= entry.bytes();
        if self.entries.is_empty() {
            self.entries = Roomy::default();
        }
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its bytes and its packet.
    struct Entry(usize, Option<Seen>);

    impl Held for Entry {
        fn seen(&self) -> Option<Seen> {
            self.1
        }

        fn bytes(&self) -> usize {
            self.0
        }
    }

    fn waiting(bytes: &[usize]) -> Waiting<Entry> {
        let mut waiting = Waiting::default();
        let seen = Some(Seen { frame: 100, time: Time(1_000) });
        bytes.iter().for_each(|bytes| waiting.keep(Entry(*bytes, seen)));
        waiting
    }

    /// The bounds are 64 entries and 2 MiB.
    #[test]
    fn entries_and_bytes_are_bounded() {
        for (bytes, is_full) in [
            (vec![1; 64], false),
            (vec![1; 65], true),
            (vec![2 << 20], false),
            (vec![(2 << 20) + 1], true),
            (vec![1 << 20; 2], false),
            (vec![1 << 20; 3], true),
        ] {
            let mut waiting = waiting(&bytes);
            assert_eq!(waiting.is_full(), is_full, "{} entries", bytes.len());
            assert!(waiting.footprint() > bytes.iter().sum());
            waiting.take_first();
            assert!(!waiting.is_full());
            while waiting.take_first().is_some() {}
            assert_eq!(waiting.footprint(), 0);
        }
    }

    /// An entry is overdue after 2 ms or after 64 packets.
    #[test]
    fn entry_is_overdue_after_2_ms_or_64_packets() {
        let waiting = waiting(&[1]);
        for (frame, time, is_overdue) in [
            (164, 2_001_000, false),
            (165, 1_000, true),
            (100, 2_001_001, true),
            (0, 2_001_000, false),
            (0, 0, false),
        ] {
            assert_eq!(waiting.is_overdue(Seen { frame, time: Time(time) }), is_overdue, "{frame} {time}");
        }
        assert_eq!(waiting.deadline(), Some(Time(2_001_001)));
        assert!(!Waiting::<Entry>::default().is_overdue(Seen { frame: 1_000, time: Time(i64::MAX) }));
    }
}
