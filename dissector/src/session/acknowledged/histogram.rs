//! A histogram of times in bounded memory.

use crate::connection::RoundTrips;

/// A histogram of times in nanoseconds. Each power of two has [`Histogram::STEPS`] counters, so the
/// range of a counter is at most 1/8 of its times.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    least: u64,
    most: u64,
    count: u64,
    counters: [u32; Histogram::COUNTERS],
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { least: u64::MAX, most: 0, count: 0, counters: [0; Histogram::COUNTERS] }
    }
}

impl Histogram {
    /// Counters for each power of two.
    const STEPS: usize = 8;
    /// Powers of two with counters: up to 17 seconds. Longer times use the last counter.
    const POWERS: usize = 32;
    const COUNTERS: usize = Histogram::STEPS * Histogram::POWERS;

    /// Counts a time.
    pub(super) fn record(&mut self, time: u64) {
        self.least = self.least.min(time);
        self.most = self.most.max(time);
        self.count += 1;
        let counter = &mut self.counters[index(time).min(Histogram::COUNTERS - 1)];
        *counter = counter.saturating_add(1);
    }

    /// A summary of the times; `None` if there are none.
    pub(super) fn summary(&self) -> Option<RoundTrips> {
        let middle = self.count.div_ceil(2);
        let mut up_to_here = 0;
        let found = self.counters.iter().position(|counter| {
            up_to_here += u64::from(*counter);
            up_to_here >= middle
        });
        let (first, width) = range(found.unwrap_or(Histogram::COUNTERS - 1));
        let median = (first + (width - 1) / 2).clamp(self.least, self.most.max(self.least));
        (self.count > 0).then_some(RoundTrips { count: self.count, minimum: self.least, median })
    }
}

/// The counter of a time: one for each time below 8, then eight for each power of two.
fn index(time: u64) -> usize {
    let power = time.max(1).ilog2().saturating_sub(Histogram::STEPS.ilog2());
    power as usize * Histogram::STEPS + (time >> power) as usize
}

/// The first time of a counter, and the number of its times.
fn range(index: usize) -> (u64, u64) {
    let power = (index / Histogram::STEPS).saturating_sub(1);
    let first = (index - power * Histogram::STEPS) as u64;
    (first << power, 1 << power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_in_range_of_its_counter() {
        let edges = (0..40).flat_map(|power| [(1_u64 << power) - 1, 1 << power, (1 << power) + 1]);
        for time in (0..5_000).chain(edges) {
            let (first, width) = range(index(time));
            assert!((first..first + width).contains(&time), "{time} in {first}, {width}");
            assert!(width <= (time / 8).max(1), "{time}: the range is {width} wide");
        }
        let mut before = 0;
        for index in 0..Histogram::COUNTERS {
            let (first, width) = range(index);
            assert_eq!(first, before, "a hole before {index}");
            before = first + width;
        }
    }

    #[test]
    fn summary_has_minimum_and_median() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.summary(), None);
        for time in [900, 1_000, 1_000_000_000_000] {
            histogram.record(time);
        }
        // 1000 is in the range from 960 to 1023.
        assert_eq!(histogram.summary(), Some(RoundTrips { count: 3, minimum: 900, median: 991 }));
        let mut one = Histogram::default();
        one.record(1_020);
        assert_eq!(one.summary(), Some(RoundTrips { count: 1, minimum: 1_020, median: 1_020 }));
        let mut long = Histogram::default();
        long.record(u64::MAX);
        assert_eq!(long.summary().map(|times| times.minimum), Some(u64::MAX));
    }
}
