//! Folding of long lines for narrow terminals, without breaking values.

use crate::text::Style;
use std::io::{self, Write};

/// The least width of a continuation line. A line that would be narrower is indented less.
const LEAST: usize = 20;

/// A writer that folds lines longer than the width of the style, as [`folded`] does.
#[derive(Debug)]
pub struct Folding<W> {
    out: W,
    width: Option<usize>,
    line: Vec<u8>,
}

impl<W: Write> Folding<W> {
    /// Creates a writer for `out` with the width of `style`.
    pub fn new(out: W, style: Style) -> Folding<W> {
        Folding { out, width: style.width(), line: Vec::new() }
    }

    /// The underlying writer, for lines that must not be folded, such as commands to copy.
    pub(crate) fn unfolded(&mut self) -> &mut W {
        &mut self.out
    }
}

impl<W: Write> Write for Folding<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(width) = self.width else { return self.out.write(bytes) };
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
            self.line.extend_from_slice(bytes);
            return Ok(bytes.len());
        };
        self.line.extend_from_slice(&bytes[..end]);
        writeln!(self.out, "{}", folded(&String::from_utf8_lossy(&self.line), width, None))?;
        self.line.clear();
        Ok(end + 1)
    }

    /// Writes the text after the last line end unfolded.
    fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&self.line)?;
        self.line.clear();
        self.out.flush()
    }
}

/// The number of columns of `text`: its characters without escape sequences.
pub fn columns(text: &str) -> usize {
    pieces(text).filter(|(_, is_escape)| !is_escape).map(|(piece, _)| piece.chars().count()).sum()
}

/// Folds `line` if it is wider than `width`. Continuation lines begin at column `below`; by default
/// below the first word after two or more spaces, or two columns to the right of the line's
/// beginning. A number stays with its unit or noun, and a name with its number.
pub fn folded(line: &str, width: usize, below: Option<usize>) -> String {
    if columns(line) <= width {
        return line.to_owned();
    }
    let words = words(line);
    let indent = words.first().map_or(0, |word| word.gap);
    let below = below.or_else(|| hanging(&words).filter(|below| *below <= width / 2)).unwrap_or(indent + 2);
    let below = if below + LEAST > width { indent + 2 } else { below };
    let mut text = String::with_capacity(line.len() + 32);
    let mut column = 0;
    let mut rest = words.as_slice();
    while !rest.is_empty() {
        // A pair of words if it fits on a line, otherwise one word.
        let is_pair = matches!(rest, [word, next, ..] if next.gap == 1 && is_one(word, next));
        let mut together = 1 + usize::from(is_pair);
        let sum = |words: &[Word]| {
            words.iter().map(|word| word.columns).sum::<usize>()
                + words[1..].iter().map(|word| word.gap).sum::<usize>()
        };
        if below + sum(&rest[..together]) > width {
            together = 1;
        }
        let (unit, after) = rest.split_at(together);
        let gap = unit[0].gap;
        if text.is_empty() || column + gap + sum(unit) <= width {
            text.extend(std::iter::repeat_n(' ', gap));
            column += gap;
        } else {
            text.push('\n');
            text.extend(std::iter::repeat_n(' ', below));
            column = below;
        }
        for (index, word) in unit.iter().enumerate() {
            if index > 0 {
                text.extend(std::iter::repeat_n(' ', word.gap));
            }
            text.push_str(&word.text);
        }
        column += sum(unit);
        rest = after;
    }
    text
}

/// A word with its escape sequences.
#[derive(Default)]
struct Word {
    /// Spaces before the word.
    gap: usize,
    text: String,
    columns: usize,
}

impl Word {
    /// The word without escape sequences.
    fn plain(&self) -> String {
        pieces(&self.text).filter(|(_, is_escape)| !is_escape).map(|(piece, _)| piece).collect()
    }
}

fn words(line: &str) -> Vec<Word> {
    let mut words = vec![Word::default()];
    for (piece, is_escape) in pieces(line) {
        if is_escape {
            let word = words.last_mut().expect("there is one from the start");
            word.text.push_str(piece);
            continue;
        }
        for character in piece.chars() {
            let word = words.last_mut().expect("there is one from the start");
            match character {
                ' ' if word.columns == 0 => word.gap += 1,
                ' ' => words.push(Word { gap: 1, ..Word::default() }),
                _ => {
                    word.text.push(character);
                    word.columns += 1;
                }
            }
        }
    }
    // Trailing spaces belong to the last word, so that no line break precedes them.
    if words.len() > 1 && words.last().is_some_and(|word| word.columns == 0) {
        let last = words.pop().expect("there are two");
        words.last_mut().expect("there is another").text.push_str(&last.text);
    }
    words
}

/// The column of the first word after a gap of two or more spaces.
fn hanging(words: &[Word]) -> Option<usize> {
    let mut column = 0;
    for (index, word) in words.iter().enumerate() {
        column += word.gap;
        if index > 0 && word.gap > 1 {
            return Some(column);
        }
        column += word.columns;
    }
    None
}

/// Words that a number follows.
const NUMBERED: &[&str] = &[
    "call",
    "connection",
    "frame",
    "frames",
    "LID",
    "local",
    "MTU",
    "port",
    "PSN",
    "QP",
    "reason",
    "receive",
    "remote",
    "reply",
    "section",
    "sections",
    "send",
    "size",
    "transaction",
    "version",
    "XID",
];

/// Whether two words form one value: `1.54 MiB`, `19 Sends`, `QP 0x000017`, `frame 12`.
fn is_one(word: &Word, next: &Word) -> bool {
    let (word, next) = (word.plain(), next.plain());
    let is_number = |text: &str| {
        text.starts_with(|first: char| first.is_ascii_digit())
            && text.ends_with(|last: char| last.is_ascii_alphanumeric())
    };
    let is_name = |text: &str| text.starts_with(char::is_alphabetic) && !NUMBERED.contains(&text);
    let next = next.trim_end_matches([',', ';', ':', '.', ')']);
    let word = word.trim_start_matches('(');
    (is_number(word) && is_name(next)) || (NUMBERED.contains(&word) && is_number(next))
}

/// Splits `text` into escape sequences (ECMA-48, CSI ... m) and other text.
fn pieces(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let is_escape = rest.starts_with("\x1b[");
        let end = match is_escape {
            true => rest.find('m').map_or(rest.len(), |at| at + 1),
            false => rest.find("\x1b[").unwrap_or(rest.len()),
        };
        let (piece, after) = rest.split_at(end);
        rest = after;
        Some((piece, is_escape))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_fit_are_unchanged() {
        let line = "  span          2026 to  2027 (1s)";
        assert_eq!(folded(line, 34, None), line);
        assert_eq!(folded("", 0, None), "");
    }

    #[test]
    fn folded_lines_are_indented_to_the_second_part() {
        let line = "  127  packets that came behind later ones: reordered, or lost";
        assert_eq!(
            folded(line, 40, None),
            "  127  packets that came behind later\n       ones: reordered, or lost"
        );
        assert_eq!(folded("  one two three four five six", 20, None), "  one two three four\n    five six");
        assert_eq!(folded("a  bbb ccc ddd eee fff ggg hhh iii jjj", 31, Some(5)).lines().count(), 2);
    }

    #[test]
    fn values_are_not_split() {
        let line = "requester sent 1,628 packets, 1.54 MiB: 19 Sends from QP 0x000017, first in frame 191";
        for width in 20..columns(line) {
            let text = folded(line, width, None);
            assert!(text.lines().all(|line| columns(line) <= width), "{width}: {text}");
            for value in ["1,628 packets", "1.54 MiB", "19 Sends", "QP 0x000017", "frame 191"] {
                assert!(text.contains(value), "{width}: {text}");
            }
            let words: Vec<&str> = text.split_whitespace().collect();
            assert_eq!(words.join(" "), line);
        }
    }

    #[test]
    fn colours_have_no_width() {
        let style = Style::new(true);
        let line = format!("{} {} bad", style.bold("Capture"), style.red("one two three four five"));
        assert_eq!(columns(&line), 35);
        assert_eq!(folded(&line, 35, None), line);
        let text = folded(&line, 30, None);
        assert_eq!(text.lines().map(columns).collect::<Vec<_>>(), [26, 10]);
        assert_eq!(text.matches("\x1b[").count(), 4);
    }

    #[test]
    fn partial_writes_are_folded_by_line() {
        let style = Style::default().with_width(Some(24));
        let mut out = Vec::new();
        let mut folding = Folding::new(&mut out, style);
        write!(folding, "  name          one").unwrap();
        write!(folding, " two three\nshort\nrest").unwrap();
        folding.flush().unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "  name          one two\n    three\nshort\nrest");
    }
}
