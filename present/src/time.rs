//! Points in time and spans of time, as people write and read them.

use core::fmt;
use rdmascope_dissector::record::Time;

/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;

/// Why a text is not what was expected; it says what is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(pub &'static str);

/// A time as RFC 3339 has it: UTC, nine decimals, `Z`. No allocation, because every line of output has some.
pub struct Rfc3339([u8; Rfc3339::LENGTH]);

impl Rfc3339 {
    const LENGTH: usize = "2025-11-21T09:30:00.000000000Z".len();

    /// The time as text, always 30 characters.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.0).expect("digits and punctuation are ASCII")
    }
}

impl From<Time> for Rfc3339 {
    fn from(time: Time) -> Rfc3339 {
        let seconds = time.0.div_euclid(SECOND as i64);
        let nanoseconds = time.0.rem_euclid(SECOND as i64);
        let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let (year, month, day) = civil(days);
        let mut text = *b"0000-00-00T00:00:00.000000000Z";
        // 64 bits of nanoseconds reach from 1677 to 2262: four digits are enough for the year.
        for (field, value) in [
            (0..4, year),
            (5..7, month),
            (8..10, day),
            (11..13, second / 3600),
            (14..16, second / 60 % 60),
            (17..19, second % 60),
            (20..29, nanoseconds),
        ] {
            let mut rest = value;
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

/// Year, month and day of the proleptic Gregorian calendar, `days` after 1970-01-01.
///
/// Counts in eras of 400 years (146,097 days) that begin on a first of March, so that the leap day comes last.
fn civil(days: i64) -> (i64, i64, i64) {
    let from_march_0000 = days + 719_468;
    let era = from_march_0000.div_euclid(146_097);
    let day_of_era = from_march_0000.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_based = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_based + 2) / 5 + 1;
    let month = if march_based < 10 { march_based + 3 } else { march_based - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// A point in time as a filter names it.
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

    /// Seconds from the start of the capture, or an RFC 3339 time.
    pub fn parse(text: &str) -> Result<Moment, ParseError> {
        if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
            return Ok(Moment::After(decimal(text, SECOND)?));
        }
        let Ok(timestamp) = text.parse::<jiff::Timestamp>() else {
            return Err(ParseError("neither seconds (12.5) nor an RFC 3339 time (2025-11-21T09:30:00Z)"));
        };
        let nanoseconds =
            i64::try_from(timestamp.as_nanosecond()).map_err(|_| ParseError("not between 1677 and 2262"))?;
        Ok(Moment::At(Time(nanoseconds)))
    }
}

/// A number with a unit: `250ns`, `80us`, `1.5ms`, `2s`. In nanoseconds.
pub fn parse_duration(text: &str) -> Result<u64, ParseError> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let scale = match unit.trim_start() {
        "ns" => 1,
        "us" | "µs" => 1000,
        "ms" => 1_000_000,
        "s" => SECOND,
        _ => return Err(ParseError("a number with a unit is expected: ns, us, ms or s, as in 5ms")),
    };
    decimal(number, scale)
}

/// `text` times `scale`, without a detour through floating point; digits below one are dropped.
fn decimal(text: &str, scale: u64) -> Result<u64, ParseError> {
    const EXPECTED: ParseError = ParseError("a number is expected, as 12 or 1.5");
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
    fn times_agree_with_another_calendar() {
        let day = 86_400 * SECOND as i64;
        let leap_days = [
            0,
            -1,
            1,
            951_782_400 * SECOND as i64,
            951_868_799_999_999_999,
            4_107_542_400 * SECOND as i64,
            i64::MAX,
            i64::MIN,
        ];
        let every_so_often = (-100_000..100_000).step_by(97).map(|days| days * day + days * 1_234_567);
        for nanoseconds in leap_days.into_iter().chain(every_so_often) {
            let expected = jiff::Timestamp::from_nanosecond(i128::from(nanoseconds)).unwrap();
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
