//! The format of instants in tables.

use core::fmt;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rdmascope_analysis::time::{self, Rfc3339};
use rdmascope_analysis::units::Seconds;
use rdmascope_dissector::record::Time;

/// The format of instants in tables.
#[derive(Clone, Debug)]
pub enum Clock {
    /// RFC 3339, UTC.
    Absolute,
    /// Seconds since the capture started.
    Relative,
    /// RFC 3339 in this time zone, with its offset from UTC.
    Local(TimeZone),
    /// Seconds since the same column's instant in the previous line.
    Delta,
}

impl Clock {
    /// The time zone of this machine, or of the environment variable `TZ`.
    pub fn local() -> Clock {
        Clock::Local(time::local().clone())
    }

    /// The width of an instant in text.
    pub(super) fn width(&self) -> usize {
        match self {
            Clock::Absolute => "2025-11-21T09:30:00.000000000Z".len(),
            Clock::Local(_) => "2025-11-21T10:30:00.000000000+01:00".len(),
            Clock::Relative | Clock::Delta => 11,
        }
    }

    /// Writes `time` with nanoseconds; for relative clocks, the time since `since`.
    pub(super) fn write(&self, time: Time, since: Time, out: &mut dyn fmt::Write) -> fmt::Result {
        match self {
            Clock::Absolute => out.write_str(Rfc3339::from(time).as_str()),
            Clock::Local(zone) => {
                let timestamp = Timestamp::from_nanosecond(i128::from(time.0));
                let timestamp = timestamp.expect("64 bits of nanoseconds reach from 1677 to 2262");
                write!(out, "{:.9}", timestamp.display_with_offset(zone.to_offset(timestamp)))
            }
            Clock::Relative | Clock::Delta => {
                let nanoseconds = i128::from(time.0) - i128::from(since.0);
                let sign = if nanoseconds < 0 { "-" } else { "" };
                let nanoseconds = nanoseconds.unsigned_abs();
                write!(out, "{sign}{}.{:09}", nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000)
            }
        }
    }
}

/// An instant for text output: seconds with six decimals.
pub(super) struct Clocked<'a> {
    pub(super) clock: &'a Clock,
    pub(super) time: Time,
    pub(super) since: Time,
}

impl fmt::Display for Clocked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.clock {
            Clock::Relative | Clock::Delta => Seconds(self.time.0.saturating_sub(self.since.0)).fmt(f),
            Clock::Absolute | Clock::Local(_) => self.clock.write(self.time, self.since, f),
        }
    }
}
