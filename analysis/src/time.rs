//! Points and spans of time, as people write and read them.

use crate::units::HOUR;
use core::fmt;
use jiff::civil::{DateTime, Time as OfDay};
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, ToSpan as _};
use rdmascope_dissector::record::Time;
use std::env;
use std::ffi::OsString;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;

/// A parse error; its text is the expected form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(pub &'static str);

/// A time in RFC 3339 form: UTC, nine decimals, `Z`. It does not allocate, because every output
/// line has times.
pub struct Rfc3339([u8; Rfc3339::LENGTH]);

impl Rfc3339 {
    const LENGTH: usize = "2025-11-21T09:30:00.000000000Z".len();

    /// The bytes of the text.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The time as text, always 30 characters.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.0).expect("digits and punctuation are ASCII")
    }
}

impl From<Time> for Rfc3339 {
    fn from(time: Time) -> Rfc3339 {
        let timestamp = Timestamp::from_nanosecond(i128::from(time.0));
        let timestamp = timestamp.expect("64 bits of nanoseconds reach from 1677 to 2262");
        let civil = Offset::UTC.to_datetime(timestamp);
        let mut text = *b"0000-00-00T00:00:00.000000000Z";
        for (field, value) in [
            (0..4, civil.year().into()),
            (5..7, civil.month().into()),
            (8..10, civil.day().into()),
            (11..13, civil.hour().into()),
            (14..16, civil.minute().into()),
            (17..19, civil.second().into()),
            (20..29, civil.subsec_nanosecond()),
        ] {
            let mut rest: i32 = value;
            for digit in text[field].iter_mut().rev() {
                *digit = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
        }
        Rfc3339(text)
    }
}

impl fmt::Display for Rfc3339 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The time zone of this machine, or of the environment variable `TZ`; `None` if it cannot be
/// loaded. It is read once, because a confined process cannot read it again.
static LOCAL: LazyLock<Option<TimeZone>> = LazyLock::new(|| TimeZone::try_system().ok());

/// Whether UTC was used because [`LOCAL`] could not be loaded.
static USED_UTC: AtomicBool = AtomicBool::new(false);

/// The time zone of this machine, or of the environment variable `TZ`; UTC if it cannot be loaded.
pub fn local() -> &'static TimeZone {
    LOCAL.as_ref().unwrap_or_else(|| {
        USED_UTC.store(true, Ordering::Relaxed);
        const { &TimeZone::UTC }
    })
}

/// The time zones in which times are shown and read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Zone {
    /// UTC.
    #[default]
    Utc,
    /// The time zone of this machine, or of the environment variable `TZ`.
    Local,
}

impl Zone {
    /// Reads the time zone of this machine, before the process is confined.
    pub fn prepare() {
        LazyLock::force(&LOCAL);
    }

    /// The value of `TZ`, if local times were needed and that time zone cannot be loaded.
    pub fn not_loaded() -> Option<OsString> {
        USED_UTC.load(Ordering::Relaxed).then(|| env::var_os("TZ")).flatten()
    }

    /// Date and time of day in this zone.
    pub fn civil(self, time: Time) -> DateTime {
        let timestamp = Timestamp::from_nanosecond(i128::from(time.0));
        let timestamp = timestamp.expect("64 bits of nanoseconds reach from 1677 to 2262");
        match self {
            Zone::Utc => Offset::UTC.to_datetime(timestamp),
            Zone::Local => local().to_datetime(timestamp),
        }
    }

    /// The time with this date and time of day; `None` outside of 1677 to 2262. Of a time that
    /// occurs twice, the first one; a time that is left out is read as if the clock were not set
    /// forward.
    fn time(self, civil: DateTime) -> Option<Time> {
        let timestamp = match self {
            Zone::Utc => Offset::UTC.to_timestamp(civil),
            Zone::Local => local().to_timestamp(civil),
        };
        i64::try_from(timestamp.ok()?.as_nanosecond()).ok().map(Time)
    }
}

/// A point in time in a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// An absolute time.
    At(Time),
    /// Nanoseconds after the first packet of the capture.
    After(u64),
    /// Nanoseconds after another moment; without one, after the first packet.
    Later(u64),
    /// Nanoseconds before another moment; without one, before the first packet.
    Earlier(u64),
    /// A time of day, in nanoseconds since midnight: on the day of the first packet, or on the next
    /// day if that is more than twelve hours before the first packet.
    OfDay(u64, Zone),
}

impl Moment {
    /// The forms that [`Moment::parse`] accepts.
    pub const FORMS: &str = "expected seconds from the start (12.5), a time of day (09:30, 09:30:00.5), a date and time \
        (2025-11-21 09:30, or RFC 3339), or +3s";

    /// The point in time, in a capture that starts at `start`.
    pub fn in_capture(self, start: Time) -> Time {
        self.relative_to(start, start)
    }

    /// The point in time, in a capture that starts at `start`; [`Moment::Later`] and
    /// [`Moment::Earlier`] count from `other`.
    pub fn relative_to(self, other: Time, start: Time) -> Time {
        let signed = |nanoseconds: u64| i64::try_from(nanoseconds).unwrap_or(i64::MAX);
        match self {
            Moment::At(time) => time,
            Moment::After(nanoseconds) => Time(start.0.saturating_add(signed(nanoseconds))),
            Moment::Later(nanoseconds) => Time(other.0.saturating_add(signed(nanoseconds))),
            Moment::Earlier(nanoseconds) => Time(other.0.saturating_sub(signed(nanoseconds))),
            Moment::OfDay(nanoseconds, zone) => of_day(nanoseconds, zone, start).unwrap_or(start),
        }
    }

    /// Parses a moment. Dates and times of day without an offset are in local time. See
    /// [`Moment::FORMS`].
    pub fn parse(text: &str) -> Result<Moment, ParseError> {
        Moment::parse_in(text, Zone::Local)
    }

    /// As [`Moment::parse`], with dates and times of day without an offset in `zone`.
    pub fn parse_in(text: &str, zone: Zone) -> Result<Moment, ParseError> {
        const RANGE: ParseError = ParseError("not between 1677 and 2262");
        if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
            return Ok(Moment::After(decimal(text, SECOND)?));
        }
        if let Some(by) = text.strip_prefix('+') {
            return parse_duration(by).map(Moment::Later);
        }
        if let Some(by) = text.strip_prefix('-') {
            return parse_duration(by).map(Moment::Earlier);
        }
        if let Ok(timestamp) = text.parse::<Timestamp>() {
            let nanoseconds = i64::try_from(timestamp.as_nanosecond()).map_err(|_| RANGE)?;
            return Ok(Moment::At(Time(nanoseconds)));
        }
        let is_of_day = text.starts_with(|first: char| first.is_ascii_digit()) && !text.contains('-');
        if is_of_day && let Ok(time) = text.parse::<OfDay>() {
            let units = [(time.hour(), 3600), (time.minute(), 60), (time.second(), 1)];
            let seconds: u64 =
                units.iter().map(|(count, seconds)| u64::from(count.unsigned_abs()) * seconds).sum();
            let nanoseconds = seconds * SECOND + u64::from(time.subsec_nanosecond().unsigned_abs());
            return Ok(Moment::OfDay(nanoseconds, zone));
        }
        match text.parse::<DateTime>() {
            Ok(civil) => zone.time(civil).map(Moment::At).ok_or(RANGE),
            Err(_) => Err(ParseError(Moment::FORMS)),
        }
    }
}

fn of_day(nanoseconds: u64, zone: Zone, start: Time) -> Option<Time> {
    const HALF: i64 = 12 * 3600 * SECOND as i64;
    let midnight = zone.civil(start).date();
    let since = i64::try_from(nanoseconds).ok()?.nanoseconds();
    let on =
        |date: jiff::civil::Date| zone.time(date.to_datetime(OfDay::midnight()).checked_add(since).ok()?);
    let same = on(midnight)?;
    if same.0 < start.0.saturating_sub(HALF) { on(midnight.tomorrow().ok()?) } else { Some(same) }
}

/// Parses a number with a unit (`250ns`, `80us`, `1.5ms`, `2s`, `1h`, `7d`) to nanoseconds.
pub fn parse_duration(text: &str) -> Result<u64, ParseError> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let scale = match unit.trim_start() {
        "ns" => 1,
        "us" | "µs" => 1000,
        "ms" => 1_000_000,
        "s" => SECOND,
        "h" => HOUR,
        "d" => 24 * HOUR,
        _ => return Err(ParseError("expected a number with a unit (ns, us, ms, s, h or d), such as 5ms")),
    };
    decimal(number, scale)
}

/// Multiplies the decimal number `text` by `scale` without floating point; drops digits below one.
fn decimal(text: &str, scale: u64) -> Result<u64, ParseError> {
    const EXPECTED: ParseError = ParseError("expected a number such as 12 or 1.5");
    const TOO_LARGE: ParseError = ParseError("too large");
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return Err(EXPECTED);
    }
    let mut value = match whole {
        "" => 0,
        digits => digits.parse::<u64>().map_err(|_| EXPECTED)?,
    };
    value = value.checked_mul(scale).ok_or(TOO_LARGE)?;
    let mut unit = scale;
    for digit in fraction.bytes() {
        unit /= 10;
        value = value.checked_add(u64::from(digit - b'0') * unit).ok_or(TOO_LARGE)?;
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (nanoseconds, text) in [
            (0, "1970-01-01T00:00:00.000000000Z"),
            (-1, "1969-12-31T23:59:59.999999999Z"),
            (1, "1970-01-01T00:00:00.000000001Z"),
            (951_782_400_000_000_000, "2000-02-29T00:00:00.000000000Z"),
            (951_868_799_999_999_999, "2000-02-29T23:59:59.999999999Z"),
            (4_107_542_400_000_000_000, "2100-03-01T00:00:00.000000000Z"),
            (1_763_717_400_012_345_678, "2025-11-21T09:30:00.012345678Z"),
            (i64::MAX, "2262-04-11T23:47:16.854775807Z"),
            (i64::MIN, "1677-09-21T00:12:43.145224192Z"),
        ] {
            assert_eq!(Rfc3339::from(Time(nanoseconds)).as_str(), text);
        }
    }

    #[test]
    fn times_match_the_calendar_library() {
        let day = 86_400 * SECOND as i64;
        for nanoseconds in (-100_000..100_000).step_by(97).map(|days| days * day + days * 1_234_567) {
            let expected = Timestamp::from_nanosecond(i128::from(nanoseconds)).unwrap();
            assert_eq!(Rfc3339::from(Time(nanoseconds)).as_str(), format!("{expected:.9}"));
        }
    }

    #[test]
    fn durations() {
        assert_eq!(parse_duration("5ms").unwrap(), 5_000_000);
        assert_eq!(parse_duration("1.5us").unwrap(), 1500);
        assert_eq!(parse_duration(".25s").unwrap(), 250_000_000);
        assert_eq!(parse_duration("2 s").unwrap(), 2_000_000_000);
        assert_eq!(parse_duration("250ns").unwrap(), 250);
        assert_eq!(parse_duration("1.5h").unwrap(), 5_400 * SECOND);
        assert_eq!(parse_duration("2d").unwrap(), 172_800 * SECOND);
        for wrong in ["", "5", "ms", "5 minutes", "1.2.3s", "-1s", "99999999999999s", "٣s"] {
            assert!(parse_duration(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn moments() {
        assert_eq!(Moment::parse("12.5").unwrap(), Moment::After(12_500_000_000));
        assert_eq!(Moment::parse("1970-01-01T00:00:01Z").unwrap(), Moment::At(Time(1_000_000_000)));
        assert_eq!(Moment::parse("1970-01-01T01:00:00+01:00").unwrap(), Moment::At(Time(0)));
        assert_eq!(Moment::After(5).in_capture(Time(7)), Time(12));
        assert_eq!(Moment::parse("+3s").unwrap(), Moment::Later(3 * SECOND));
        assert_eq!(Moment::parse("-1.5ms").unwrap(), Moment::Earlier(1_500_000));
        assert_eq!(Moment::Later(5).relative_to(Time(9), Time(7)), Time(14));
        assert_eq!(Moment::Earlier(5).in_capture(Time(7)), Time(2));
        for wrong in
            ["", ".", "yesterday", "9999-01-01T00:00:00Z", "25:00", "09:61", "+3", "3s", "2025-13-01"]
        {
            assert!(Moment::parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn times_of_day_and_dates() {
        let at = |text: &str| Time(text.parse::<Timestamp>().unwrap().as_nanosecond() as i64);
        let start = at("2025-11-21T09:30:00.25Z");
        for (text, expected) in [
            ("09:41", "2025-11-21T09:41:00Z"),
            ("09:41:06.5", "2025-11-21T09:41:06.5Z"),
            ("09:00", "2025-11-21T09:00:00Z"),
            ("00:00", "2025-11-21T00:00:00Z"),
            ("2025-11-22", "2025-11-22T00:00:00Z"),
            ("2025-11-21 09:41", "2025-11-21T09:41:00Z"),
            ("2025-11-21T09:41:06.5", "2025-11-21T09:41:06.5Z"),
        ] {
            let moment = Moment::parse_in(text, Zone::Utc).unwrap();
            assert_eq!(moment.in_capture(start), at(expected), "{text}");
        }
        // A capture that goes on after midnight.
        let evening = at("2025-11-21T23:50:00Z");
        let moment = |text| Moment::parse_in(text, Zone::Utc).unwrap().in_capture(evening);
        assert_eq!(moment("00:10"), at("2025-11-22T00:10:00Z"));
        assert_eq!(moment("23:40"), at("2025-11-21T23:40:00Z"));
    }
}
