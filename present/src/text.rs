//! Elements of text output: aligned fields, names of ends, colour.

use core::fmt::{self, Display, Write as _};
use rdmascope_analysis::ending::IWARP;
use rdmascope_analysis::units::Number;
use rdmascope_dissector::connection::Endpoint;
use rdmascope_dissector::engine::Totals;
use rdmascope_dissector::frame::Address;
use rdmascope_dissector::protocol::Traffic;

/// The colours and the line width of the output. By default, output has no colours and unlimited
/// lines.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    colour: bool,
    width: Option<usize>,
}

impl Style {
    /// Creates a style with or without colours (ANSI escape sequences).
    pub const fn new(colour: bool) -> Style {
        Style { colour, width: None }
    }

    /// Limits lines to `width` columns where possible. `None` means no limit.
    pub const fn with_width(self, width: Option<usize>) -> Style {
        Style { width, ..self }
    }

    /// Whether the output is coloured.
    pub const fn has_colour(self) -> bool {
        self.colour
    }

    /// The width of the terminal, if lines are limited.
    pub const fn width(self) -> Option<usize> {
        self.width
    }

    /// Formats a heading.
    pub fn bold<T: Display>(self, value: T) -> Painted<T> {
        self.paint("1", value)
    }

    /// Formats a failure.
    pub fn red<T: Display>(self, value: T) -> Painted<T> {
        self.paint("31", value)
    }

    /// Formats something that needs attention.
    pub fn yellow<T: Display>(self, value: T) -> Painted<T> {
        self.paint("33", value)
    }

    /// Formats something in the default colour.
    pub(crate) fn plain<T: Display>(self, value: T) -> Painted<T> {
        Painted { code: None, value }
    }

    fn paint<T: Display>(self, code: &'static str, value: T) -> Painted<T> {
        Painted { code: self.colour.then_some(code), value }
    }

    /// Formats `value` in red if `wanted`.
    pub fn red_if<T: Display>(self, wanted: bool, value: T) -> Painted<T> {
        if wanted { self.red(value) } else { self.plain(value) }
    }
}

/// A value with its colour.
pub struct Painted<T> {
    code: Option<&'static str>,
    value: T,
}

impl<T: Display> Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            Some(code) => write!(f, "\x1b[{code}m{}\x1b[0m", self.value),
            None => self.value.fmt(f),
        }
    }
}

/// A left-aligned value, padded to a width even if its `Display` ignores widths. A longer value
/// shifts the rest of the line.
pub struct Left<T>(pub T, pub usize);

impl<T: Display> Display for Left<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut counter = Counter { out: f, count: 0 };
        write!(counter, "{}", self.0)?;
        let count = counter.count;
        write!(f, "{:1$}", "", self.1.saturating_sub(count))
    }
}

struct Counter<'a, 'b> {
    out: &'a mut fmt::Formatter<'b>,
    count: usize,
}

impl fmt::Write for Counter<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.count += text.chars().count();
        self.out.write_str(text)
    }
}

/// An optional value; `-` if absent.
pub struct Maybe<T>(pub Option<T>);

impl<T: Display> Display for Maybe<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.pad("-"),
        }
    }
}

/// The address of an end, followed by the IP address from the REQ in parentheses: `LID 2
/// (10.77.0.2)`. For iWARP, the address and the TCP port: `10.77.0.2:20049`.
pub struct Named<'a>(pub &'a Endpoint);

impl Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.ip {
            Some(ip) => f.pad(&format!("{} ({ip})", self.0.address)),
            None => match (self.0.address, self.0.tcp_port) {
                (Address::V6(address), Some(port)) => f.pad(&format!("[{address}]:{port}")),
                (address, Some(port)) => f.pad(&format!("{address}:{port}")),
                (address, None) => address.fmt(f),
            },
        }
    }
}

/// The protocols of other traffic, to follow its total: `: 12 of NFS over TCP or UDP, 3 of ARP
/// (EtherType 0x0806)`. The most frequent ones come first.
pub struct OtherTraffic<'a>(pub &'a Totals);

impl Display for OtherTraffic<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 12;
        let mut kinds: Vec<_> = self.0.traffic.iter().collect();
        kinds.sort_by_key(|(_, count)| core::cmp::Reverse(*count));
        for (at, (traffic, count)) in kinds.iter().take(MOST).enumerate() {
            let separator = if at == 0 { ": " } else { ", " };
            write!(f, "{separator}{} of {traffic}", Number(*count))?;
            if *traffic == Traffic::Iwarp {
                write!(f, " ({IWARP})")?;
            }
        }
        let named = kinds.iter().take(MOST).map(|(_, count)| count).sum();
        match self.0.others.saturating_sub(named) {
            rest if rest > 0 && !kinds.is_empty() => write!(f, ", {} of other protocols", Number(rest)),
            _ => Ok(()),
        }
    }
}

/// Bytes as hexadecimal digits.
pub struct HexBytes<'a>(pub &'a [u8]);

impl fmt::Display for HexBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        const PIECE: usize = 64;
        let mut text = [0; 2 * PIECE];
        for piece in self.0.chunks(PIECE) {
            for (pair, byte) in text.chunks_exact_mut(2).zip(piece) {
                pair[0] = DIGITS[usize::from(byte >> 4)];
                pair[1] = DIGITS[usize::from(byte & 15)];
            }
            f.write_str(core::str::from_utf8(&text[..2 * piece.len()]).expect("digits are ASCII"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_pad_any_content() {
        assert_eq!(format!("{}|", Left(format_args!("{}", "ab"), 5)), "ab   |");
        assert_eq!(format!("{}|", Left("abcdef", 5)), "abcdef|");
        assert_eq!(format!("{:>3}|{:<3}|", Maybe::<u8>(None), Maybe(Some(7))), "  -|7  |");
        let style = Style::new(true);
        assert_eq!(Left(style.red("x"), 1).to_string().len(), "\x1b[31mx\x1b[0m".len());
        assert_eq!(style.red(Left("x", 3)).to_string(), "\x1b[31mx  \x1b[0m");
    }
}
