//! The output device of text views, with the views of field trees and bytes.

pub mod events;
pub mod findings;
pub mod frame;
pub mod ladder;
pub mod message;
pub mod transaction;

use crate::fields::Field;
use crate::text::Style;
use core::fmt::Write as _;
use std::io::{self, Write};

/// The output device of a text view.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    /// The width in columns.
    pub width: usize,
    /// Whether the device shows characters beyond ASCII.
    pub unicode: bool,
    /// The colours.
    pub style: Style,
}

impl Screen {
    /// The number of bytes shown per field.
    fn bytes_shown(self) -> usize {
        if self.width >= 110 { 16 } else { 8 }
    }
}

/// Writes a heading.
pub fn heading(text: &str, screen: Screen, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n{}", screen.style.bold(text))
}

/// Writes a field tree: offset, bytes, name and value of each field of `bytes`.
pub fn tree(fields: &[Field], bytes: &[u8], screen: Screen, out: &mut dyn Write) -> io::Result<()> {
    fields.iter().try_for_each(|field| branch(field, bytes, 0, screen, out))
}

fn branch(field: &Field, bytes: &[u8], depth: usize, screen: Screen, out: &mut dyn Write) -> io::Result<()> {
    let shown = screen.bytes_shown();
    let column = 3 * shown - 1;
    let start = field.range.as_ref().map_or(String::new(), |range| format!("{:04x}", range.start));
    let digits = match &field.range {
        Some(range) if field.children.is_empty() => {
            digits(bytes.get(range.clone()).unwrap_or_default(), shown, field.mask)
        }
        Some(range) => format!("{} bytes", range.len()),
        None => String::new(),
    };
    let indent = 2 * depth;
    let left = 4 + 2 + column + 2 + indent;
    let name = &field.name;
    write!(out, "{start:4}  {digits:column$}  {:indent$}", "")?;
    let value = field.shown();
    let separator = if value.is_empty() { "" } else { ": " };
    // A value takes the rest of the line and continues below, indented. If its first word does not
    // fit, the whole value goes below.
    let mut room = screen.width.saturating_sub(left + name.chars().count() + separator.len());
    let mut pieces = Vec::new();
    let mut rest = &*value;
    if room < rest.split(' ').next().unwrap_or_default().chars().count().max(8).min(rest.chars().count()) {
        pieces.push("");
        room = screen.width.saturating_sub(left + 2).max(8);
    }
    while let Some((at, _)) = rest.char_indices().nth(room) {
        let at = rest[..at].rfind(' ').filter(|at| *at > 0).unwrap_or(at);
        pieces.push(&rest[..at]);
        rest = rest[at..].trim_start_matches(' ');
        room = screen.width.saturating_sub(left + 2).max(8);
    }
    pieces.push(rest);
    // No trailing space after the colon if the whole value goes below.
    let separator = if pieces[0].is_empty() { separator.trim_end() } else { separator };
    let style = screen.style;
    if field.stop.is_some() {
        write!(out, "{}{separator}", style.red(name))?;
    } else if field.children.is_empty() {
        write!(out, "{name}{separator}")?;
    } else {
        write!(out, "{}{separator}", style.bold(name))?;
    }
    for (index, piece) in pieces.iter().enumerate() {
        if index > 0 {
            write!(out, "\n{:1$}", "", left + 2)?;
        }
        write!(out, "{}", style.red_if(field.stop.is_some(), piece))?;
    }
    writeln!(out)?;
    field.children.iter().try_for_each(|child| branch(child, bytes, depth + 1, screen, out))
}

/// The bytes of a field in hexadecimal. Of a long field, the first bytes and the number of the
/// rest.
fn digits(bytes: &[u8], most: usize, mask: Option<u64>) -> String {
    let mut text = String::new();
    let (shown, more) =
        if bytes.len() > most { (&bytes[..most - 2], bytes.len() - (most - 2)) } else { (bytes, 0) };
    for byte in shown {
        let space = if text.is_empty() { "" } else { " " };
        write!(text, "{space}{byte:02x}").expect("a string takes all");
    }
    match mask {
        Some(mask) => write!(text, " & {mask:0width$x}", width = 2 * bytes.len()),
        None if more > 0 => write!(text, " +{more}"),
        None => Ok(()),
    }
    .expect("a string takes all");
    text
}

/// Writes `bytes` in rows of sixteen: offset, hexadecimal, characters. A byte for which
/// `is_present` is false is missing and shown as `--`.
pub fn rows(
    bytes: &[u8],
    first: u64,
    is_present: impl Fn(usize) -> bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    const ROW: usize = 16;
    // Rows begin at multiples of sixteen, so that offsets are easy to find.
    let mut at = 0;
    while at < bytes.len() {
        let offset = first.saturating_add(at as u64);
        let skipped = (offset % ROW as u64) as usize;
        let end = bytes.len().min(at + ROW - skipped);
        let mut row = String::new();
        let mut text = String::new();
        for column in 0..ROW {
            if column == ROW / 2 {
                row.push(' ');
            }
            let index = (at + column).checked_sub(skipped).filter(|index| (at..end).contains(index));
            match index {
                Some(index) if is_present(index) => {
                    let byte = bytes[index];
                    write!(row, " {byte:02x}").expect("a string takes all");
                    text.push(if (0x20..0x7f).contains(&byte) { byte.into() } else { '.' });
                }
                Some(_) => {
                    row.push_str(" --");
                    text.push(' ');
                }
                None => {
                    row.push_str("   ");
                    text.push(' ');
                }
            }
        }
        writeln!(out, "{:04x} {row}  {}", offset - skipped as u64, text.trim_end_matches(' '))?;
        at = end;
    }
    Ok(())
}

/// Breaks `text` into lines of at most `width` characters, at spaces where possible.
pub fn wrapped(text: &str, width: usize) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some((end, _)) = rest.char_indices().nth(width) {
        let at = rest[..end].rfind(' ').filter(|at| *at > 0).unwrap_or(end);
        lines.push(&rest[..at]);
        rest = rest[at..].trim_start_matches(' ');
    }
    lines.push(rest);
    lines
}
