//! The cells of a line: the values of selected columns as text.

use super::clock::{Clock, Clocked};
use super::flat::Flat;
use super::picked::Picked;
use super::text::Shown as ForPeople;
use super::{Kind, Lossy, Subject, Value};
use crate::serialized::Json as _;
use crate::text::HexBytes;
use core::cmp::Ordering;
use core::fmt::{self, Write as _};
use rdmascope_dissector::record::Time;

/// The separator of several values in a cell.
pub const SEPARATOR: char = ';';

/// The reader of the cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// A program: numbers without units, words as in JSON, empty for an absent value.
    Program,
    /// A person: durations with units, `-` for an absent value.
    Person,
}

/// The cells of a line. Their buffers are reused for the next line, so that writing a line
/// allocates nothing.
pub struct Cells<S: Subject> {
    picked: Picked<S>,
    reader: Reader,
    clock: Clock,
    cells: Vec<Cell>,
}

#[derive(Default)]
struct Cell {
    text: String,
    /// Whether the current line has a value for it.
    has_value: bool,
    /// The instant in the last line that had one.
    previous: Option<Time>,
}

impl<S: Subject> Cells<S> {
    /// Creates cells for the selected columns.
    pub fn new(picked: Picked<S>, reader: Reader, clock: Clock) -> Cells<S> {
        let cells = picked.columns().iter().map(|_| Cell::default()).collect();
        Cells { picked, reader, clock, cells }
    }

    /// The columns, in order.
    pub fn columns(&self) -> &[Flat] {
        self.picked.columns()
    }

    /// The width of a cell in text, without its heading, and whether it is right-aligned.
    pub fn width(&self, column: &Flat) -> (usize, bool) {
        if column.is_repeated {
            return (12, false);
        }
        match column.kind {
            Kind::Boolean | Kind::U8 => (3, true),
            Kind::U16 => (5, true),
            Kind::U32 => (6, true),
            Kind::Frame => (7, true),
            Kind::U64 | Kind::Fraction | Kind::Nanoseconds => (8, true),
            Kind::Time => (self.clock.width(), matches!(self.clock, Clock::Relative | Clock::Delta)),
            Kind::Xid | Kind::Key => (10, false),
            Kind::Qpn => (8, false),
            Kind::Offset => (18, false),
            Kind::Word(words) => (words.iter().map(|word| word.word.len()).max().unwrap_or(14), false),
            Kind::Text => (15, false),
            Kind::Bytes | Kind::Texts | Kind::Frames | Kind::Object(_) | Kind::Objects(_) | Kind::Any(..) => {
                (12, false)
            }
        }
    }

    /// Fills the cells with the values of `subject`. `start` is the start of the capture.
    pub fn fill(&mut self, subject: S::Of<'_>, start: Time) {
        for cell in &mut self.cells {
            cell.text.clear();
            cell.has_value = false;
        }
        let Cells { picked, reader, clock, cells } = self;
        picked.each(subject, &mut |place, value| {
            let cell = &mut cells[place];
            if core::mem::replace(&mut cell.has_value, true) {
                cell.text.push(SEPARATOR);
            }
            // Writing to a string cannot fail.
            let _ = match value {
                Value::Time(time) => {
                    let before = cell.previous.replace(time);
                    let since = if matches!(clock, Clock::Delta) { before.unwrap_or(time) } else { start };
                    match reader {
                        Reader::Program => clock.write(time, since, &mut cell.text),
                        Reader::Person => write!(cell.text, "{}", Clocked { clock, time, since }),
                    }
                }
                value => match reader {
                    Reader::Program => write_value(value, &mut cell.text),
                    Reader::Person => write!(cell.text, "{}", ForPeople(value)),
                },
            };
        });
    }

    /// The texts of the cells, in order.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.cells.iter().map(|cell| match (self.reader, cell.has_value) {
            // An empty list.
            (Reader::Person, false) => "-",
            _ => cell.text.as_str(),
        })
    }
}

/// Writes a value as in JSON, without the quotes of a string. An absent value is empty.
fn write_value(value: Value<'_>, out: &mut String) -> fmt::Result {
    match value {
        Value::Missing => Ok(()),
        Value::Boolean(value) => write!(out, "{value}"),
        Value::Number(number) | Value::Nanoseconds(number) => write!(out, "{number}"),
        Value::Fraction(number) => write!(out, "{number}"),
        Value::Time(time) => write!(out, "{}", rdmascope_analysis::time::Rfc3339::from(time)),
        Value::Key(key) => write!(out, "0x{key:08x}"),
        Value::Qpn(qpn) => write!(out, "0x{qpn:06x}"),
        Value::Offset(offset) => write!(out, "0x{offset:016x}"),
        Value::Text(text) => out.write_str(text),
        Value::Shown(shown) => write!(out, "{shown}"),
        Value::Lossy(bytes) => write!(out, "{}", Lossy(bytes)),
        Value::Bytes(bytes) => write!(out, "{}", HexBytes(bytes)),
        Value::Json(serde_json::Value::String(text)) => out.write_str(text),
        Value::Json(json) => write!(out, "{json}"),
        value @ (Value::Object(_) | Value::List(_)) => out.write_str(&value.to_json()),
    }
}

/// A sort key of lines.
#[derive(Clone, Debug, PartialEq)]
pub enum Key {
    /// A number, an instant or a truth value; false sorts before true.
    Number(i128),
    /// A number with decimals.
    Fraction(f64),
    /// Text, sorted by its UTF-8 bytes.
    Text(String),
    /// No value.
    Missing,
}

impl Key {
    /// The key of `subject` from the single column of `picked`.
    pub fn of<S: Subject>(picked: &Picked<S>, subject: S::Of<'_>) -> Key {
        let mut key = Key::Missing;
        picked.each(subject, &mut |_, value| {
            key = match value {
                Value::Missing => Key::Missing,
                Value::Boolean(value) => Key::Number(value.into()),
                Value::Number(number) | Value::Nanoseconds(number) | Value::Offset(number) => {
                    Key::Number(number.into())
                }
                Value::Key(number) | Value::Qpn(number) => Key::Number(number.into()),
                Value::Time(time) => Key::Number(time.0.into()),
                Value::Fraction(number) => Key::Fraction(number),
                value => {
                    let mut text = String::new();
                    let _ = write_value(value, &mut text);
                    Key::Text(text)
                }
            };
        });
        key
    }

    /// Compares two keys. Absent values sort last in both directions.
    pub fn compare(&self, other: &Key, is_reversed: bool) -> Ordering {
        let missing = matches!(self, Key::Missing).cmp(&matches!(other, Key::Missing));
        let rank = |key: &Key| match key {
            Key::Number(_) => 0,
            Key::Fraction(_) => 1,
            Key::Text(_) => 2,
            Key::Missing => 3,
        };
        let order = match (self, other) {
            (Key::Number(a), Key::Number(b)) => a.cmp(b),
            (Key::Fraction(a), Key::Fraction(b)) => a.total_cmp(b),
            (Key::Text(a), Key::Text(b)) => a.cmp(b),
            (a, b) => rank(a).cmp(&rank(b)),
        };
        missing.then(if is_reversed { order.reverse() } else { order })
    }
}
