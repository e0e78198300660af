//! What the capture shows before what it answers.
//!
//! A host answers nothing that it has not received. But a capture may show the two half-flows of a connection shifted against each
//! other, and it may lack part of a request, so that the request is not put together yet when its answer comes by. Such an answer
//! waits, for as long as captures reorder.

use crate::record::{REORDERING, Seen, Time};
use crate::roomy::Roomy;
use alloc::collections::VecDeque;

/// Something that can wait.
pub(crate) trait Held {
    /// Where the capture shows it; `None` where it is nothing that was captured.
    fn seen(&self) -> Option<Seen>;

    /// Bytes of memory that it takes up beside itself.
    fn bytes(&self) -> usize;
}

/// What waits of one end, in the order in which it came. Bounded: beyond the bounds, what came first is due.
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
    /// Entries that wait at once.
    const MOST: usize = 64;
    /// Their bytes.
    const MOST_BYTES: usize = 2 << 20;

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of memory that it takes up beside itself; a clone takes up as many.
    #[inline]
    pub(crate) fn footprint(&self) -> usize {
        self.entries.capacity() * size_of::<T>() + self.bytes
    }

    /// Adds an entry behind the others.
    pub(crate) fn keep(&mut self, entry: T) {
        self.bytes += entry.bytes();
        self.entries.push_back(entry);
    }

    /// All that wait.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter()
    }

    /// Where the capture shows what has waited longest.
    pub(crate) fn first(&self) -> Option<Seen> {
        self.entries.front()?.seen()
    }

    /// Whether more waits than there is room for.
    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() > Waiting::<T>::MOST || self.bytes > Waiting::<T>::MOST_BYTES
    }

    /// Whether what came first has waited for longer than captures reorder.
    pub(crate) fn is_overdue(&self, now: Seen) -> bool {
        let (nanoseconds, packets) = REORDERING;
        self.first().is_some_and(|first| {
            now.time.since(first.time) > nanoseconds
                || now.frame.saturating_sub(first.frame) > u64::from(packets)
        })
    }

    /// When what came first has waited long enough.
    pub(crate) fn deadline(&self) -> Option<Time> {
        Some(self.first()?.time.plus(REORDERING.0 + 1))
    }

    /// Takes what has waited longest.
    pub(crate) fn take_first(&mut self) -> Option<T> {
        self.take(0)
    }

    /// Takes the entry at `index`. The memory of the list goes with the last one.
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

    /// Bytes, and where it was seen.
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

    /// 64 entries, and 2 MiB.
    #[test]
    fn its_bounds() {
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

    /// Longer than 2 ms, or more than 64 packets.
    #[test]
    fn when_it_is_overdue() {
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
