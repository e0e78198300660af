//! Values over time in a bounded number of intervals, for captures of any length.

/// The value of an interval.
pub trait Interval: Default {
    /// Merges the value of the next interval into this one.
    fn join(&mut self, next: Self);
}

impl Interval for u64 {
    fn join(&mut self, next: u64) {
        *self = self.saturating_add(next);
    }
}

impl<const N: usize> Interval for [u64; N]
where
    [u64; N]: Default,
{
    fn join(&mut self, next: [u64; N]) {
        self.iter_mut().zip(next).for_each(|(sum, more)| sum.join(more));
    }
}

/// Equal intervals from the start of a capture. When time exceeds the last interval, neighbours are
/// merged, so there are at most [`Intervals::MOST`]. The width is a microsecond times a power of
/// two.
#[derive(Clone, Debug)]
pub struct Intervals<T> {
    width: u64,
    intervals: Vec<T>,
}

impl<T> Default for Intervals<T> {
    fn default() -> Intervals<T> {
        Intervals { width: 1000, intervals: Vec::new() }
    }
}

impl<T: Interval> Intervals<T> {
    /// The most intervals. A capture that is long enough has at least half as many.
    pub const MOST: usize = 192;

    /// The interval at this many nanoseconds from the start.
    pub fn at(&mut self, offset: u64) -> &mut T {
        let index = self.index(offset);
        &mut self.intervals[index]
    }

    /// The intervals from the one at offset `first` to the one at offset `last`.
    pub fn between(&mut self, first: u64, last: u64) -> &mut [T] {
        let last = self.index(last);
        let first = self.index(first).min(last);
        &mut self.intervals[first..=last]
    }

    /// The intervals after the one at offset `first`, up to the one at offset `last`.
    pub fn after(&mut self, first: u64, last: u64) -> &mut [T] {
        self.between(first, last).get_mut(1..).unwrap_or_default()
    }

    /// The index of the interval at this many nanoseconds from the start. Missing intervals are
    /// created.
    fn index(&mut self, offset: u64) -> usize {
        while offset / self.width >= Self::MOST as u64 {
            self.coarsen();
        }
        let index = (offset / self.width) as usize;
        if index >= self.intervals.len() {
            self.intervals.resize_with(index + 1, T::default);
        }
        index
    }

    fn coarsen(&mut self) {
        self.width = self.width.saturating_mul(2);
        let mut fine = core::mem::take(&mut self.intervals).into_iter();
        while let Some(mut interval) = fine.next() {
            if let Some(next) = fine.next() {
                interval.join(next);
            }
            self.intervals.push(interval);
        }
    }

    /// The length of an interval, in nanoseconds.
    pub fn width(&self) -> u64 {
        self.width
    }

    /// The intervals, from the start.
    pub fn intervals(&self) -> &[T] {
        &self.intervals
    }
}

/// Classes of latencies for logarithmic axes. Each class is wider than the one before by the same
/// factor.
pub struct Classes;

impl Classes {
    /// Classes per decade.
    pub const PER_DECADE: u32 = 8;
    /// The number of classes: from a nanosecond to a thousand seconds.
    pub const COUNT: usize = 12 * Classes::PER_DECADE as usize;

    /// The class of a latency in nanoseconds.
    pub fn of(latency: u64) -> usize {
        let class = (latency.max(1) as f64).log10() * f64::from(Classes::PER_DECADE);
        (class as usize).min(Classes::COUNT - 1)
    }

    /// The start of a class, in nanoseconds.
    pub fn start(class: usize) -> f64 {
        10f64.powf(class as f64 / f64::from(Classes::PER_DECADE))
    }
}

/// The number of transactions in each class of latency.
#[derive(Clone, Debug)]
pub struct Latencies(pub [u32; Classes::COUNT]);

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies([0; Classes::COUNT])
    }
}

impl Latencies {
    /// Adds `count` transactions with this latency in nanoseconds.
    pub fn add(&mut self, latency: u64, count: u64) {
        let sum = &mut self.0[Classes::of(latency)];
        *sum = sum.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
    }

    /// The latency that this share of the transactions does not exceed, in nanoseconds: the middle of
    /// its class on a logarithmic axis. `None` if there are no transactions.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let all: u64 = self.0.iter().map(|count| u64::from(*count)).sum();
        let rank = ((all as f64 * share).ceil() as u64).max(1);
        let mut passed = 0u64;
        let class = self.0.iter().position(|count| {
            passed += u64::from(*count);
            passed >= rank
        })?;
        Some((Classes::start(class) * Classes::start(class + 1)).sqrt())
    }

    /// The first class with transactions, and the end of the last one; `None` if there are none.
    pub fn range(&self) -> Option<(usize, usize)> {
        let first = self.0.iter().position(|count| *count > 0)?;
        let last = self.0.iter().rposition(|count| *count > 0)?;
        Some((first, last + 1))
    }
}

impl Interval for Latencies {
    fn join(&mut self, next: Latencies) {
        self.0.iter_mut().zip(next.0).for_each(|(sum, more)| *sum = sum.saturating_add(more));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeline_keeps_its_sum_and_its_bound() {
        let mut timeline = Intervals::<u64>::default();
        let mut offset = 1u64;
        let mut expected = 0;
        while let Some(next) = offset.checked_mul(3) {
            *timeline.at(offset) += 1;
            *timeline.at(0) += 1;
            expected += 2;
            offset = next;
            assert!(timeline.intervals().len() <= Intervals::<u64>::MOST);
            assert!(timeline.width().is_multiple_of(1000));
        }
        *timeline.at(u64::MAX) += 1;
        assert_eq!(timeline.intervals().iter().sum::<u64>(), expected + 1);
    }

    #[test]
    fn intervals_between() {
        let mut timeline = Intervals::<u64>::default();
        timeline.between(1500, 4999).iter_mut().for_each(|count| *count += 1);
        timeline.after(1500, 3000).iter_mut().for_each(|count| *count += 1);
        timeline.after(4000, 4100).iter_mut().for_each(|count| *count += 1);
        assert_eq!(timeline.intervals(), [0, 1, 2, 2, 1]);
        assert_eq!(timeline.width(), 1000);
    }

    #[test]
    fn quantiles_are_in_the_class_of_their_rank() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.quantile(0.5), None);
        latencies.add(1_000, 98);
        latencies.add(1_000_000, 2);
        let class = |share| Classes::of(latencies.quantile(share).expect("it has latencies") as u64);
        assert_eq!(class(0.5), Classes::of(1_000));
        assert_eq!(class(0.98), Classes::of(1_000));
        assert_eq!(class(0.99), Classes::of(1_000_000));
        assert_eq!(class(1.0), Classes::of(1_000_000));
    }

    #[test]
    fn classes_hold_their_latencies() {
        for latency in [0, 1, 2, 999, 1001, 123_456, 50_000_000, 7_000_000_000] {
            let class = Classes::of(latency);
            assert!(Classes::start(class) <= latency.max(1) as f64);
            assert!((latency as f64) < Classes::start(class + 1));
        }
        assert_eq!(Classes::of(u64::MAX), Classes::COUNT - 1);
    }
}
