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
