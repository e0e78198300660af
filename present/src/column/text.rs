//! Columns as a table in text: a line of headings, and a line of cells for each subject.

use super::{Column, Columns, Subject, Value};
use crate::text::{Duration, Left, Style};
use core::fmt;
use rdmascope_dissector::record::Time;
use std::io::{self, Write};

/// How a column appears in the table in text.
pub struct Text<S: Subject> {
    /// Cells stand in this order.
    place: u8,
    heading: &'static str,
    align: Align,
    cell: Cell<S>,
    /// Spaces in front of it.
    gap: usize,
    tint: Option<fn(S::Of<'_>) -> Tint>,
    ends: Option<fn(S::Of<'_>) -> bool>,
}

/// Where the text of a cell stands, and how wide the cell is at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// At the left.
    Left(usize),
    /// At the right.
    Right(usize),
}

/// A function that lends what a cell shows to a closure.
pub type LendCell<S> = for<'a, 'b> fn(<S as Subject>::Of<'a>, Setting, &'b mut dyn FnMut(&dyn fmt::Display));

/// What a cell shows.
pub enum Cell<S: Subject> {
    /// The value of the column; `-` where there is none.
    Value,
    /// What a closure lends for the subject; nothing where it lends nothing.
    Shown(LendCell<S>),
}

/// What cells rest on besides the subject of the line.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// When the capture starts.
    pub start: Time,
    /// Whether there are colours.
    pub style: Style,
}

/// The colour of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tint {
    /// That of the terminal.
    Plain,
    /// What failed.
    Red,
    /// What deserves a look.
    Yellow,
}

impl<S: Subject> Column<S> {
    /// It stands in the table in text, with its value: at `place` among the columns there, below `heading`.
    pub const fn text(self, place: u8, heading: &'static str, align: Align) -> Column<S> {
        self.cell(place, heading, align, Cell::Value)
    }

    /// It stands in the table in text, with what `cell` shows.
    pub const fn cell(mut self, place: u8, heading: &'static str, align: Align, cell: Cell<S>) -> Column<S> {
        self.text = Some(Text { place, heading, align, cell, gap: 1, tint: None, ends: None });
        self
    }

    /// So many spaces stand in front of its cells, not one.
    pub const fn gap(mut self, spaces: usize) -> Column<S> {
        if let Some(text) = &mut self.text {
            text.gap = spaces;
        }
        self
    }

    /// Its cells have colours.
    pub const fn tint(mut self, tint: fn(S::Of<'_>) -> Tint) -> Column<S> {
        if let Some(text) = &mut self.text {
            text.tint = Some(tint);
        }
        self
    }

    /// Where `ends` says so, the cell is the last of its line.
    pub const fn ends(mut self, ends: fn(S::Of<'_>) -> bool) -> Column<S> {
        if let Some(text) = &mut self.text {
            text.ends = Some(ends);
        }
        self
    }
}

/// The table in text of a list of columns.
pub struct TextTable<S: Subject> {
    columns: Vec<(&'static Column<S>, &'static Text<S>)>,
}

impl<S: Subject> TextTable<S> {
    /// The table of those of `columns` that stand in it.
    pub fn new(columns: &'static Columns<S>) -> TextTable<S> {
        let columns = columns.columns.iter().filter_map(|column| Some((column, column.text.as_ref()?)));
        let mut columns: Vec<_> = columns.collect();
        columns.sort_by_key(|(_, text)| text.place);
        TextTable { columns }
    }

    /// Writes the line of headings.
    pub fn write_heading(&self, style: Style, out: &mut impl Write) -> io::Result<()> {
        let mut line = String::new();
        for (index, (_, text)) in self.columns.iter().enumerate() {
            let gap = if index == 0 { 0 } else { text.gap };
            let heading = Aligned(&text.heading, text.align);
            fmt::Write::write_fmt(&mut line, format_args!("{:gap$}{heading}", ""))
                .expect("a string takes all");
        }
        writeln!(out, "{}", style.bold(line))
    }

    /// Writes the line of `subject`.
    pub fn write_row(&self, subject: S::Of<'_>, setting: Setting, out: &mut impl Write) -> io::Result<()> {
        for (index, (column, text)) in self.columns.iter().enumerate() {
            let gap = if index == 0 { 0 } else { text.gap };
            let tint = text.tint.map_or(Tint::Plain, |tint| tint(subject));
            let mut written = write!(out, "{:gap$}", "");
            let mut put = |shown: &dyn fmt::Display| {
                let cell = Aligned(shown, text.align);
                let put = match tint {
                    Tint::Plain => write!(out, "{cell}"),
                    Tint::Red => write!(out, "{}", setting.style.red(cell)),
                    Tint::Yellow => write!(out, "{}", setting.style.yellow(cell)),
                };
                if written.is_ok() {
                    written = put;
                }
            };
            match text.cell {
                Cell::Value => column.see(subject, &mut |_, value| put(&Shown(value))),
                Cell::Shown(show) => show(subject, setting, &mut put),
            }
            written?;
            if text.ends.is_some_and(|ends| ends(subject)) {
                break;
            }
        }
        writeln!(out)
    }
}

/// A value in its place.
struct Aligned<'a>(&'a dyn fmt::Display, Align);

impl fmt::Display for Aligned<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Align::Left(width) => Left(self.0, width).fmt(f),
            Align::Right(width) => write!(f, "{:>width$}", self.0),
        }
    }
}

/// A value for people.
struct Shown<'a>(Value<'a>);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Missing => f.pad("-"),
            Value::Boolean(value) => f.pad(if value { "yes" } else { "no" }),
            Value::Number(number) => number.fmt(f),
            Value::Fraction(number) => number.fmt(f),
            Value::Nanoseconds(duration) => Duration(duration).fmt(f),
            Value::Time(time) => crate::time::Rfc3339::from(time).fmt(f),
            Value::Key(key) => write!(f, "0x{key:08x}"),
            Value::Qpn(qpn) => write!(f, "0x{qpn:06x}"),
            Value::Offset(offset) => write!(f, "0x{offset:016x}"),
            Value::Text(text) => f.pad(text),
            Value::Shown(shown) => shown.fmt(f),
            Value::Lossy(bytes) => crate::names::Quoted(bytes).fmt(f),
            Value::Bytes(bytes) => crate::text::HexBytes(bytes).fmt(f),
            Value::Json(json) => json.fmt(f),
            Value::Object(_) | Value::List(_) => f.pad("…"),
        }
    }
}
