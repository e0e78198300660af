//! Conversion of timestamps between two clocks.

use rdmascope_dissector::record::Time;

/// A conversion between two clocks, piecewise linear.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clock(Vec<Line>);

/// A section of the conversion, with constant drift.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Start of the section by the first clock. The first line also applies to earlier times.
    pub from: Time,
    /// Nanoseconds to add at that time.
    pub offset: i64,
    /// Nanoseconds to add for each nanosecond since then.
    pub rate: f64,
}

impl Clock {
    /// Creates a conversion from lines in order of time. Without lines, times are unchanged.
    pub fn new(lines: Vec<Line>) -> Clock {
        Clock(lines)
    }

    /// Converts a time of the first clock to the second.
    pub fn convert(&self, time: Time) -> Time {
        let started = self.0.partition_point(|line| line.from <= time);
        let Some(line) = self.0.get(started.saturating_sub(1)) else { return time };
        Time(time.0.saturating_add(line.add(time)))
    }
}

impl Line {
    /// Returns the number of nanoseconds to add to `time`.
    pub fn add(&self, time: Time) -> i64 {
        let since = time.0.saturating_sub(self.from.0) as f64;
        self.offset.saturating_add((self.rate * since).round() as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_applies_from_its_start_time() {
        let line = |from, offset, rate| Line { from: Time(from), offset, rate };
        let clock = Clock::new(vec![line(1_000, 50, 0.1), line(2_000, -20, 0.0)]);
        let converted = [0, 1_000, 1_500, 2_000, 9_000].map(|time| clock.convert(Time(time)).0);
        assert_eq!(converted, [-50, 1_050, 1_600, 1_980, 8_980]);
        assert_eq!(Clock::default().convert(Time(7)), Time(7));
    }

    /// The times in a capture are untrusted.
    #[test]
    fn extreme_times_do_not_overflow() {
        let clock = Clock::new(vec![Line { from: Time(i64::MIN), offset: i64::MAX, rate: f64::MAX }]);
        assert_eq!(clock.convert(Time(i64::MAX)), Time(i64::MAX));
        assert_eq!(clock.convert(Time(i64::MIN)), Time(-1));
    }
}
