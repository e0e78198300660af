//! Lines of values separated by a character.

use csv_core::{WriteResult, Writer};
use rdmascope_analysis::units::is_hidden;
use std::io::{self, Write};

/// Writes such lines.
pub(super) struct Delimited {
    kind: Kind,
    /// Buffer for a value with escapes.
    escaped: String,
}

enum Kind {
    /// RFC 4180: values with a comma, a quote or a line break are quoted. Lines end with a line
    /// feed, which most programs write and all accept.
    Csv(Box<Writer>),
    /// Without quotes: a tab, a line feed, a carriage return and a backslash within a value are
    /// `\t`, `\n`, `\r` and `\\`.
    Tsv,
}

impl Delimited {
    pub(super) fn csv() -> Delimited {
        Delimited { kind: Kind::Csv(Box::default()), escaped: String::new() }
    }

    pub(super) fn tsv() -> Delimited {
        Delimited { kind: Kind::Tsv, escaped: String::new() }
    }

    /// Writes a line of these values.
    pub(super) fn write<'a>(
        &mut self,
        values: impl Iterator<Item = &'a str>,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let Delimited { kind, escaped } = self;
        match kind {
            Kind::Csv(writer) => {
                for (index, value) in values.enumerate() {
                    if index > 0 {
                        pump(out, |buffer| writer.delimiter(buffer))?;
                    }
                    let mut rest = shown(value, escaped, |character| match character {
                        // These are harmless within quotes.
                        '\n' | '\t' => Escape::Not,
                        _ if is_hidden(character) => Escape::Number,
                        _ => Escape::Not,
                    })
                    .as_bytes();
                    pump(out, |buffer| {
                        let (result, taken, written) = writer.field(rest, buffer);
                        rest = &rest[taken..];
                        (result, written)
                    })?;
                }
                pump(out, |buffer| writer.terminator(buffer))
            }
            Kind::Tsv => {
                for (index, value) in values.enumerate() {
                    if index > 0 {
                        out.write_all(b"\t")?;
                    }
                    let value = shown(value, escaped, |character| match character {
                        '\t' => Escape::As("\\t"),
                        '\n' => Escape::As("\\n"),
                        '\r' => Escape::As("\\r"),
                        '\\' => Escape::As("\\\\"),
                        _ if is_hidden(character) => Escape::Number,
                        _ => Escape::Not,
                    });
                    out.write_all(value.as_bytes())?;
                }
                out.write_all(b"\n")
            }
        }
    }
}

/// Writes the output of `next` until it is exhausted.
fn pump(out: &mut impl Write, mut next: impl FnMut(&mut [u8]) -> (WriteResult, usize)) -> io::Result<()> {
    let mut buffer = [0; 512];
    loop {
        let (result, written) = next(&mut buffer);
        out.write_all(&buffer[..written])?;
        if let WriteResult::InputEmpty = result {
            return Ok(());
        }
    }
}

/// How a character is written.
enum Escape {
    Not,
    As(&'static str),
    /// `\u{1b}`, as in text output.
    Number,
}

/// The value with escapes. Most values need none.
fn shown<'a>(value: &'a str, escaped: &'a mut String, escape: impl Fn(char) -> Escape) -> &'a str {
    if value.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'\\') {
        return value;
    }
    escaped.clear();
    for character in value.chars() {
        match escape(character) {
            Escape::Not => escaped.push(character),
            Escape::As(text) => escaped.push_str(text),
            Escape::Number => escaped.extend(character.escape_unicode()),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(mut delimited: Delimited, lines: &[&[&str]]) -> String {
        let mut out = Vec::new();
        for line in lines {
            delimited.write(line.iter().copied(), &mut out).unwrap();
        }
        String::from_utf8(out).unwrap()
    }

    // RFC 4180, section 2, rules 5 to 7.
    #[test]
    fn csv_is_quoted_only_where_needed() {
        let lines: &[&[&str]] =
            &[&["a", "b c", ""], &["1,5", "say \"no\"", "two\nlines"], &["caf\u{e9}", "a;b", "=1+1"]];
        let expected = "a,b c,\n\"1,5\",\"say \"\"no\"\"\",\"two\nlines\"\ncaf\u{e9},a;b,=1+1\n";
        assert_eq!(written(Delimited::csv(), lines), expected);
        // A line with one empty value is not an empty line.
        assert_eq!(written(Delimited::csv(), &[&[""], &["x"]]), "\"\"\nx\n");
    }

    #[test]
    fn values_longer_than_the_buffer_are_complete() {
        let long = "x,\"".repeat(1000);
        let expected = format!("\"{}\",y\n", long.replace('"', "\"\""));
        assert_eq!(written(Delimited::csv(), &[&[&long, "y"]]), expected);
    }

    #[test]
    fn tsv_escapes_tabs_and_line_breaks() {
        let lines: &[&[&str]] = &[&["a\tb", "c\nd\re", "C:\\x"], &["1,5", "\"", ""]];
        assert_eq!(written(Delimited::tsv(), lines), "a\\tb\tc\\nd\\re\tC:\\\\x\n1,5\t\"\t\n");
    }

    #[test]
    fn hidden_characters_are_escaped() {
        let hostile = "\u{1b}[2J\u{9b}31m\r\u{202e}gpj.exe\u{7f}";
        for delimited in [Delimited::csv(), Delimited::tsv()] {
            let line = written(delimited, &[&[hostile]]);
            assert!(line.trim_end_matches('\n').chars().all(|character| !is_hidden(character)), "{line:?}");
        }
        assert_eq!(written(Delimited::csv(), &[&["\u{1b}[2J"]]), "\\u{1b}[2J\n");
    }
}
