//! How lists show times: the time of day in local time or in UTC, seconds from the start of the
//! capture, or seconds since the previous line.

use rdmascope_analysis::time::{SECOND, Zone};
use rdmascope_analysis::units::Seconds;
use rdmascope_dissector::record::Time;

/// The form of times in lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Times {
    /// The time of day in the time zone of this machine.
    #[default]
    Local,
    /// The time of day in UTC.
    Utc,
    /// Seconds from the start of the capture.
    Relative,
    /// Seconds since the line before.
    Delta,
}

impl Times {
    /// The next form of the cycle.
    pub fn next(self) -> Times {
        match self {
            Times::Local => Times::Utc,
            Times::Utc => Times::Relative,
            Times::Relative => Times::Delta,
            Times::Delta => Times::Local,
        }
    }

    /// A description.
    pub const fn name(self) -> &'static str {
        match self {
            Times::Local => "local time",
            Times::Utc => "UTC",
            Times::Relative => "seconds from the start",
            Times::Delta => "seconds since the line before",
        }
    }

    /// The zone in which times of day are shown and read.
    pub const fn zone(self) -> Zone {
        match self {
            Times::Utc => Zone::Utc,
            Times::Local | Times::Relative | Times::Delta => Zone::Local,
        }
    }

    /// Whether the time of day is shown.
    pub(crate) const fn has_wall(self) -> bool {
        matches!(self, Times::Local | Times::Utc)
    }
}

/// The time of day with this number of decimals.
pub(crate) fn wall(time: Time, zone: Zone, decimals: usize) -> String {
    let civil = zone.civil(time);
    let fraction = format!("{:09}", time.0.rem_euclid(SECOND as i64));
    let point = if decimals > 0 { "." } else { "" };
    format!(
        "{:02}:{:02}:{:02}{point}{}",
        civil.hour(),
        civil.minute(),
        civil.second(),
        &fraction[..decimals.min(9)]
    )
}

/// The columns of a list that show times. A wide list has the time of day and the
/// seconds from the start.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    times: Times,
    is_wide: bool,
    start: Time,
}

/// Columns of seconds.
const SECONDS: usize = 11;

impl Column {
    /// The columns in a list of this width, for a capture that starts at `start`.
    pub fn new(times: Times, width: u16, start: Time) -> Column {
        Column { times, is_wide: width >= 100, start }
    }

    /// Whether there are two: a narrow list has one.
    fn has_both(self) -> bool {
        self.is_wide && self.times != Times::Relative
    }

    /// The decimals of a time of day.
    fn decimals(self) -> usize {
        if self.is_wide { 6 } else { 3 }
    }

    /// The width of all of them.
    pub fn width(self) -> usize {
        self.first() + if self.has_both() { SECONDS + 1 } else { 0 }
    }

    /// The width of the first one.
    fn first(self) -> usize {
        if self.times.has_wall() { "09:30:00.".len() + self.decimals() } else { SECONDS }
    }

    /// Their headings.
    pub fn heading(self) -> String {
        let name = match self.times {
            Times::Local => "local time",
            Times::Utc => "UTC",
            Times::Relative => "seconds",
            Times::Delta => "delta",
        };
        let first = format!("{name:>0$}", self.first());
        if self.has_both() { format!("{first} {:>SECONDS$}", "seconds") } else { first }
    }

    /// A time, and that of the line before it.
    pub fn cell(self, time: Option<Time>, before: Option<Time>) -> String {
        let Some(time) = time else { return format!("{:>1$}", "-", self.width()) };
        let seconds =
            |from: Time| format!("{:>SECONDS$}", Seconds(time.0.saturating_sub(from.0)).to_string());
        let first = match self.times {
            Times::Local | Times::Utc => wall(time, self.times.zone(), self.decimals()),
            Times::Relative => seconds(self.start),
            Times::Delta => seconds(before.unwrap_or(time)),
        };
        if self.has_both() { format!("{first} {}", seconds(self.start)) } else { first }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cycle_covers_all_formats() {
        let start = Time(1_763_717_400_000_000_000);
        let time = Time(start.0 + 1_500_000_000);
        let cell = |times| Column::new(times, 80, start).cell(Some(time), Some(Time(time.0 - 2_000)));
        assert_eq!(cell(Times::Utc), "09:30:01.500");
        assert_eq!(cell(Times::Relative), "   1.500000");
        assert_eq!(cell(Times::Delta), "   0.000002");
        let wide = Column::new(Times::Utc, 100, start);
        assert_eq!(wide.cell(Some(time), None), "09:30:01.500000    1.500000");
        assert_eq!(wide.heading().len(), wide.width());
        let mut times = Times::Local;
        for _ in 0..4 {
            times = times.next();
        }
        assert_eq!(times, Times::Local);
        // Before 1970, the fraction still counts up.
        assert_eq!(wall(Time(-1), Zone::Utc, 3), "23:59:59.999");
    }
}
