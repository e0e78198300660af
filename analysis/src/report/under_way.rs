//! The time in which calls were under way.

use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::{Direction, Transaction};
use std::collections::VecDeque;

/// The time in which at least one call of a client was under way.
#[derive(Clone, Debug, Default)]
pub struct UnderWay {
    /// Spans that do not touch, in order of time.
    spans: VecDeque<(Time, Time)>,
    /// The length of earlier spans, in nanoseconds, and their end.
    earlier: u64,
    earlier_end: Option<Time>,
    /// The sum of the waits of all calls, in nanoseconds.
    waited: u64,
}

impl UnderWay {
    /// The most spans that may still grow. Calls end almost in order.
    const MOST: usize = 1024;

    /// Adds a call.
    pub(super) fn count(&mut self, transaction: &Transaction) {
        let call = transaction.call.as_ref().filter(|_| transaction.direction == Direction::Forward);
        if let Some((call, waited)) = call.zip(transaction.waited()) {
            self.waited = self.waited.saturating_add(waited);
            self.add(call.seen.time, call.seen.time.plus(waited));
        }
    }

    fn add(&mut self, start: Time, end: Time) {
        let start = self.earlier_end.map_or(start, |earlier| start.max(earlier));
        if end <= start {
            return;
        }
        match self.spans.back_mut() {
            Some(last) if start < last.0 => self.insert(start, end),
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => self.spans.push_back((start, end)),
        }
        if self.spans.len() > UnderWay::MOST
            && let Some((from, to)) = self.spans.pop_front()
        {
            self.earlier += to.since(from);
            self.earlier_end = Some(to);
        }
    }

    /// Inserts a span that begins before the last one.
    #[cold]
    fn insert(&mut self, start: Time, end: Time) {
        let first = self.spans.partition_point(|span| span.1 < start);
        let after = self.spans.partition_point(|span| span.0 <= end);
        let touched = || self.spans.range(first..after);
        let start = touched().next().map_or(start, |span| span.0.min(start));
        let end = touched().next_back().map_or(end, |span| span.1.max(end));
        self.spans.drain(first..after);
        self.spans.insert(first, (start, end));
    }

    /// The time in which at least one call was under way, in nanoseconds.
    pub fn length(&self) -> u64 {
        self.earlier + self.spans.iter().map(|(from, to)| to.since(*from)).sum::<u64>()
    }

    /// The mean number of calls under way in that time; `None` if there were none.
    pub fn mean_calls(&self) -> Option<f64> {
        let length = self.length();
        (length > 0).then(|| self.waited as f64 / length as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(calls: &[(i64, i64)]) -> UnderWay {
        let mut under_way = UnderWay::default();
        for (start, end) in calls {
            under_way.add(Time(*start), Time(*end));
        }
        under_way
    }

    #[test]
    fn spans_that_overlap_or_touch_count_once() {
        assert_eq!(of(&[]).length(), 0);
        assert_eq!(of(&[(10, 20), (30, 35)]).length(), 15);
        assert_eq!(of(&[(10, 20), (15, 25), (25, 26), (40, 40)]).length(), 16);
        // A long call ends last, and calls may end out of order.
        assert_eq!(of(&[(10, 20), (30, 35), (40, 45), (12, 42)]).length(), 35);
        assert_eq!(of(&[(40, 45), (10, 20), (18, 19), (19, 41)]).length(), 35);
    }

    #[test]
    fn many_spans_are_bounded() {
        let calls: Vec<_> = (0..5000).map(|at| (at * 10, at * 10 + 3)).collect();
        let mut under_way = of(&calls);
        assert_eq!((under_way.length(), under_way.spans.len()), (15_000, UnderWay::MOST));
        // A span before those that may still grow is not counted.
        under_way.add(Time(0), Time(9));
        assert_eq!(under_way.length(), 15_000);
    }
}
