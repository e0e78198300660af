//! Points and spans of time, as people write and read them.

use core::fmt;
use jiff::Timestamp;
use jiff::tz::Offset;
use rdmascope_dissector::record::Time;

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

/// A point in time in a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// An absolute time.
    At(Time),
    /// Nanoseconds after the first packet of the capture.
    After(u64),
}

impl Moment {
    /// The point in time, in a capture that starts at `start`.
    pub fn in_capture(self, start: Time) -> Time {
        match self {
            Moment::At(time) => time,
            Moment::After(nanoseconds) => {
                Time(start.0.saturating_add(i64::try_from(nanoseconds).unwrap_or(i64::MAX)))
            }
        }
    }

    /// Parses seconds from the start of the capture, or an RFC 3339 time.
    pub fn parse(text: &str) -> Result<Moment, ParseError> {
        if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
            return Ok(Moment::After(decimal(text, SECOND)?));
        }
        let Ok(timestamp) = text.parse::<Timestamp>() else {
            return Err(ParseError("neither seconds (12.5) nor an RFC 3339 time (2025-11-21T09:30:00Z)"));
        };
        let nanoseconds =
            i64::try_from(timestamp.as_nanosecond()).map_err(|_| ParseError("not between 1677 and 2262"))?;
        Ok(Moment::At(Time(nanoseconds)))
    }
}

/// Parses a number with a unit (`250ns`, `80us`, `1.5ms`, `2s`) to nanoseconds.
pub fn parse_duration(text: &str) -> Result<u64, ParseError> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let scale = match unit.trim_start() {
        "ns" => 1,
        "us" | "µs" => 1000,
        "ms" => 1_000_000,
        "s" => SECOND,
        _ => return Err(ParseError("expected a number with a unit (ns, us, ms or s), such as 5ms")),
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
    fn times_are_those_that_the_calendar_prints() {
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
        for wrong in ["", ".", "yesterday", "1970-01-01", "9999-01-01T00:00:00Z"] {
            assert!(Moment::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
