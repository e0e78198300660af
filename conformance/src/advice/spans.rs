//! The times at which data was on the wire.

use alloc::collections::VecDeque;
use rdmascope_dissector::record::Time;

/// The latest non-overlapping spans of time, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Spans(VecDeque<(Time, Time)>);

impl Spans {
    /// Spans that are kept.
    const MOST: usize = 64;
    /// Spans for which room is reserved at first.
    const MANY: usize = 32;

    /// Heap bytes that they take up.
    pub(super) fn footprint(&self) -> usize {
        self.0.len() * size_of::<(Time, Time)>()
    }

    pub(super) fn insert(&mut self, (mut first, mut last): (Time, Time)) {
        if self.0.is_empty() {
            self.0.reserve(Spans::MANY);
        }
        let mut at = self.0.len();
        // Most spans are the latest, or touch the latest.
        while let Some((start, end)) = at.checked_sub(1).and_then(|before| self.0.get(before)).copied() {
            if end < first {
                break;
            }
            at -= 1;
            if start <= last {
                (first, last) = (first.min(start), last.max(end));
                self.0.remove(at);
            }
        }
        self.0.insert(at, (first, last));
        if self.0.len() > Spans::MOST {
            self.0.pop_front();
        }
    }

    /// Nanoseconds of the spans within the given span.
    pub(super) fn within(&self, (first, last): (Time, Time)) -> u64 {
        let newest = self.0.iter().rev().take_while(|(_, end)| *end >= first);
        newest.map(|(start, end)| (*end).min(last).since((*start).max(first))).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within(spans: &[(i64, i64)], (first, last): (i64, i64)) -> u64 {
        let mut union = Spans::default();
        spans.iter().for_each(|(first, last)| union.insert((Time(*first), Time(*last))));
        assert!(
            union.0.iter().zip(union.0.iter().skip(1)).all(|(before, after)| before.1 < after.0),
            "{union:?}"
        );
        union.within((Time(first), Time(last)))
    }

    #[test]
    fn time_on_the_wire_counts_once() {
        assert_eq!(within(&[], (0, 100)), 0);
        assert_eq!(within(&[(10, 20), (30, 40)], (0, 100)), 20);
        assert_eq!(within(&[(30, 40), (10, 20)], (0, 100)), 20);
        assert_eq!(within(&[(10, 20), (30, 40), (15, 35)], (0, 100)), 30);
        assert_eq!(within(&[(10, 20), (12, 14), (20, 22)], (0, 100)), 12);
        assert_eq!(within(&[(10, 20), (50, 60), (30, 40)], (0, 100)), 30);
        assert_eq!(within(&[(10, 20), (30, 40), (50, 60)], (15, 55)), 20);
        let many: Vec<(i64, i64)> = (0..1000).map(|at| (10 * at, 10 * at + 1)).collect();
        assert_eq!(within(&many, (0, 10_000)), Spans::MOST as u64);
    }
}
