//! Steps of the clock by which records have their times.

use crate::record::Time;

/// The least step back, in nanoseconds. Records of several queues are out of order by less.
const LEAST: u64 = 250_000_000;

/// The least time after the beginning of 1970 by which a record differs from one without a time
/// stamp, in nanoseconds.
const DATED: u64 = 86_400_000_000_000;

/// A reason why times cannot be compared across a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The clock stepped back.
    Back,
    /// The record, or the one before it, has no time stamp.
    Untimed,
}

/// The clock of a capture, as its records show it.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    /// The latest time since the last step.
    latest: Option<Time>,
}

impl Clock {
    /// Takes the time of a record. Records without a time stamp have the time 0.
    pub(super) fn take(&mut self, time: Time) -> Option<Step> {
        let before = self.latest.replace(time)?;
        let is_untimed =
            |one: Time, other: Time| one == Time(0) && (other == Time(0) || other.since(Time(0)) > DATED);
        if is_untimed(time, before) || is_untimed(before, time) {
            return Some(Step::Untimed);
        }
        if before.since(time) > LEAST {
            return Some(Step::Back);
        }
        self.latest = Some(time.max(before));
        None
    }

    /// The latest time since the last step.
    pub(super) fn latest(&self) -> Option<Time> {
        self.latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_reports_steps_back_and_untimed_records() {
        const SECOND: i64 = 1_000_000_000;
        const DAY: i64 = 86_400 * SECOND;
        let mut clock = Clock::default();
        let mut take = |time: i64| clock.take(Time(time));
        assert_eq!([DAY * 2, DAY * 2 + SECOND].map(&mut take), [None; 2]);
        // Out of order by less.
        assert_eq!(take(DAY * 2 + SECOND - 200_000_000), None);
        assert_eq!(take(DAY * 2), Some(Step::Back));
        assert_eq!(take(DAY * 2 + SECOND), None);
        assert_eq!([0, 0].map(&mut take), [Some(Step::Untimed); 2]);
        assert_eq!(take(DAY * 2), Some(Step::Untimed));
        assert_eq!(take(DAY * 2 + 1), None);
        // A test's clock may begin with 1970.
        let mut clock = Clock::default();
        assert_eq!([0, 1, 2].map(|time| clock.take(Time(time))), [None; 3]);
    }
}
