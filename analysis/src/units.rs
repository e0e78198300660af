//! Quantities as text, and the escaping of strings from a capture.

use core::fmt::{self, Display, Write as _};

/// A duration in nanoseconds with three significant digits, in the units that filters accept:
/// `850ns`, `12.3us`, `4.56s`, `1.25h`, `5.57d`.
pub struct Duration(pub u64);

impl Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u64); 6] =
            [("ns", 1), ("us", 1000), ("ms", 1_000_000), ("s", 1_000_000_000), ("h", HOUR), ("d", 24 * HOUR)];
        significant(f, self.0, &UNITS, "")
    }
}

/// Nanoseconds in an hour.
pub(crate) const HOUR: u64 = 3_600_000_000_000;

/// A duration in nanoseconds for sentences: in seconds with one decimal, `5.1 s`, in hours or days,
/// or, below 0.1 s, as [`Duration`].
pub struct Spoken(pub u64);

impl Display for Spoken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            0..HOUR => (1_000_000_000, "s"),
            HOUR..172_800_000_000_000 => (HOUR, "h"),
            _ => (24 * HOUR, "days"),
        };
        let tenths = self.0.saturating_add(unit / 20) / (unit / 10);
        match (tenths, tenths % 10) {
            (0, _) => Duration(self.0).fmt(f),
            (1000.., _) => write!(f, "{} {name}", (tenths + 5) / 10),
            (_, 0) => write!(f, "{} {name}", tenths / 10),
            (_, decimal) => write!(f, "{}.{decimal} {name}", tenths / 10),
        }
    }
}

/// A number of bytes with three significant digits, in powers of 1024: `512 B`, `64 KiB`, `1.25
/// MiB`.
pub struct Bytes(pub u64);

impl Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u64); 5] =
            [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];
        significant(f, self.0, &UNITS, " ")
    }
}

/// Writes `value` in the largest unit that it reaches, rounded to three significant digits.
fn significant(f: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)], space: &str) -> fmt::Result {
    let mut text = Small::default();
    let mut rest = units.iter().peekable();
    while let Some((name, unit)) = rest.next() {
        let (value, unit) = (u128::from(value), u128::from(*unit));
        let rounded_to = |decimals: u32| (value * 10u128.pow(decimals) + unit / 2) / unit;
        // A whole number of units has no decimals: 64 KiB.
        let decimals = match value % unit {
            0 => 0,
            _ => [2, 1].into_iter().find(|decimals| rounded_to(*decimals) < 1000).unwrap_or(0),
        };
        let rounded = rounded_to(decimals);
        let (power, width) = (10u128.pow(decimals), decimals as usize);
        if rest.peek().is_some_and(|(_, next)| rounded / power * unit >= u128::from(*next)) {
            continue;
        }
        match decimals {
            0 => write!(text, "{rounded}{space}{name}")?,
            _ => write!(text, "{}.{:0width$}{space}{name}", rounded / power, rounded % power)?,
        }
        break;
    }
    f.pad(text.as_str())
}

/// A whole number with commas: `1,234,567`.
pub struct Number(pub u64);

impl Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Small::default();
        let mut unit = 1;
        while self.0 / unit >= 1000 {
            unit *= 1000;
        }
        write!(text, "{}", self.0 / unit)?;
        while unit > 1 {
            unit /= 1000;
            write!(text, ",{:03}", self.0 / unit % 1000)?;
        }
        f.pad(text.as_str())
    }
}

/// A count with its noun: `1 packet`, `2 packets`.
pub struct Counted(pub u64, pub &'static str);

impl Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counted(count, word) = *self;
        match word.strip_suffix('y').filter(|_| count != 1) {
            // As in "reply". No counted word has a vowel before the "y".
            Some(stem) => write!(f, "{} {stem}ies", Number(count)),
            None => write!(f, "{} {word}{}", Number(count), if count == 1 { "" } else { "s" }),
        }
    }
}

/// Seconds since the start of a capture, with six decimals. Times before the start have a minus
/// sign.
pub struct Seconds(pub i64);

impl Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Small::default();
        let sign = if self.0 < 0 { "-" } else { "" };
        let microseconds = self.0.unsigned_abs() / 1000;
        write!(text, "{sign}{}.{:06}", microseconds / 1_000_000, microseconds % 1_000_000)?;
        f.pad(text.as_str())
    }
}

/// A short text on the stack, to format a field without an allocation. A text that is too long is an
/// error.
pub struct Small {
    bytes: [u8; Small::CAPACITY],
    length: usize,
}

impl Default for Small {
    fn default() -> Small {
        Small { bytes: [0; Small::CAPACITY], length: 0 }
    }
}

impl Small {
    const CAPACITY: usize = 48;

    /// The text so far.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.length]).expect("only whole strings were written")
    }
}

impl fmt::Write for Small {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// Whether a character is invisible and affects the text around it: it controls a terminal or the
/// writing direction.
pub fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// A value with its [hidden](is_hidden) characters escaped, safe for a terminal.
pub struct Plain<T>(pub T);

impl<T: Display> Display for Plain<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.width().is_none() {
            return write!(Escaping(f), "{}", self.0);
        }
        let mut text = String::new();
        write!(Escaping(&mut text), "{}", self.0)?;
        f.pad(&text)
    }
}

struct Escaping<'a>(&'a mut dyn fmt::Write);

impl fmt::Write for Escaping<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|character| match is_hidden(character) {
            true => write!(self.0, "{}", character.escape_unicode()),
            false => self.0.write_char(character),
        })
    }
}

/// A word as a POSIX shell reads it.
pub fn quoted(word: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_=.,:/@%+".contains(character);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (nanoseconds, text) in [
            (0, "0ns"),
            (850, "850ns"),
            (999, "999ns"),
            (1000, "1us"),
            (12_345, "12.3us"),
            (123_456, "123us"),
            (999_499, "999us"),
            (999_500, "1.00ms"),
            (1_234_567, "1.23ms"),
            (9_996_000, "10.0ms"),
            (4_560_000_000, "4.56s"),
            (999_600_000_000, "1000s"),
            (3_599_000_000_000, "3599s"),
            (3_600_000_000_000, "1h"),
            (4_500_000_000_000, "1.25h"),
            (480_967_000_000_000, "5.57d"),
            (u64::MAX, "213504d"),
        ] {
            assert_eq!(Duration(nanoseconds).to_string(), text);
        }
        assert_eq!(format!("{:>8}|{:<8}|", Duration(850), Duration(850)), "   850ns|850ns   |");
    }

    #[test]
    fn durations_in_sentences() {
        for (nanoseconds, text) in [
            (0, "0ns"),
            (5_070_000_000, "5.1 s"),
            (60_000_045_000, "60 s"),
            (210_019_715_000, "210 s"),
            (3_599_000_000_000, "3599 s"),
            (3_600_000_000_000, "1 h"),
            (7_300_000_000_000, "2 h"),
            (429_411_000_000_000, "5 days"),
            (480_967_000_000_000, "5.6 days"),
            (u64::MAX, "213504 days"),
        ] {
            assert_eq!(Spoken(nanoseconds).to_string(), text);
        }
    }

    #[test]
    fn bytes() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (65_536, "64 KiB"),
            (1500, "1.46 KiB"),
            (3_145_728, "3 MiB"),
            (u64::MAX, "16777216 TiB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }

    #[test]
    fn numbers_and_seconds() {
        assert_eq!(Number(0).to_string(), "0");
        assert_eq!(Number(1000).to_string(), "1,000");
        assert_eq!(Number(u64::MAX).to_string(), "18,446,744,073,709,551,615");
        assert_eq!(Counted(1, "packet").to_string(), "1 packet");
        assert_eq!(Counted(1002, "packet").to_string(), "1,002 packets");
        assert_eq!(Counted(1, "reply").to_string(), "1 reply");
        assert_eq!(Counted(0, "reply").to_string(), "0 replies");
        assert_eq!(Seconds(1_234_567_890).to_string(), "1.234567");
        assert_eq!(Seconds(-5_000).to_string(), "-0.000005");
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(Plain("caf\u{e9} \x1b[31m\u{9b}2J\n").to_string(), "caf\u{e9} \\u{1b}[31m\\u{9b}2J\\u{a}");
        assert_eq!(format!("{:<9}|", Plain("lo\n")), "lo\\u{a}  |");
        assert_eq!(Plain("pcap.\u{202e}exe\u{2069}").to_string(), "pcap.\\u{202e}exe\\u{2069}");
    }
}
