//! The clock that the times of a file are of, told by another clock.

use rdmascope_dissector::record::Time;

/// How one clock is told by another: by straight lines, each for a part of the time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clock(Vec<Line>);

/// A part of the time in which one clock gains on the other at one rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// From this time of the first clock on. The first line counts for what is before it, too.
    pub from: Time,
    /// Nanoseconds to add to that time.
    pub offset: i64,
    /// Nanoseconds to add besides, for each nanosecond since.
    pub rate: f64,
}

impl Clock {
    /// Of lines in the order of time. Without one, both clocks are the same.
    pub fn new(lines: Vec<Line>) -> Clock {
        Clock(lines)
    }

    /// A time of the first clock by the second one.
    pub fn tell(&self, time: Time) -> Time {
        let behind = self.0.partition_point(|line| line.from <= time);
        let Some(line) = self.0.get(behind.saturating_sub(1)) else { return time };
        Time(time.0.saturating_add(line.add(time)))
    }
}

impl Line {
    /// Nanoseconds to add to a time.
    pub fn add(&self, time: Time) -> i64 {
        let since = time.0.saturating_sub(self.from.0) as f64;
        self.offset.saturating_add((self.rate * since).round() as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_counts_from_its_time_on() {
        let line = |from, offset, rate| Line { from: Time(from), offset, rate };
        let clock = Clock::new(vec![line(1_000, 50, 0.1), line(2_000, -20, 0.0)]);
        let told = [0, 1_000, 1_500, 2_000, 9_000].map(|time| clock.tell(Time(time)).0);
        assert_eq!(told, [-50, 1_050, 1_600, 1_980, 8_980]);
        assert_eq!(Clock::default().tell(Time(7)), Time(7));
    }

    /// Times of a capture are whatever somebody wrote.
    #[test]
    fn no_time_is_too_far_away() {
        let clock = Clock::new(vec![Line { from: Time(i64::MIN), offset: i64::MAX, rate: f64::MAX }]);
        assert_eq!(clock.tell(Time(i64::MAX)), Time(i64::MAX));
        assert_eq!(clock.tell(Time(i64::MIN)), Time(-1));
    }
}
