//! Text tables: a line of headings, and a line of cells for each subject.

use super::clock::{Clock, Clocked};
use super::{Column, Columns, Reader, Subject, Value};
use crate::fold::{columns, folded};
use crate::text::{Left, Maybe, Style};
use core::fmt::{self, Write as _};
use core::iter::repeat_n;
use rdmascope_analysis::units::Duration;
use rdmascope_dissector::record::Time;
use std::io::{self, Write};

/// The column of a text table.
pub struct Text<S: Subject> {
    /// The position in the table.
    place: u8,
    heading: &'static str,
    align: Align,
    cell: Cell<S>,
    /// Spaces before it.
    gap: usize,
    tint: Option<fn(S::Of<'_>) -> Tint>,
    ends: Option<fn(S::Of<'_>) -> bool>,
}

/// The alignment and the least width of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Left-aligned.
    Left(usize),
    /// Right-aligned.
    Right(usize),
}

/// A function that lends the content of a cell to a closure.
pub type LendCell<S> = for<'a, 'b> fn(<S as Subject>::Of<'a>, Setting, &'b mut dyn FnMut(&dyn fmt::Display));

/// The content of a cell.
pub enum Cell<S: Subject> {
    /// The value of the column; `-` if absent.
    Value,
    /// The value that the function lends; empty if it lends none.
    Shown(LendCell<S>),
    /// An instant in the format of the table's clock; `-` if unknown. It is the instant of the
    /// line: a table has at most one such column.
    Instant(Reader<S, Time>),
}

/// The settings that cells depend on.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The origin of relative times: the start of the capture, or the instant of the previous line.
    pub start: Time,
    /// The colours.
    pub style: Style,
}

/// The colour of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tint {
    /// The terminal's default.
    Plain,
    /// Failures.
    Red,
    /// Things that need attention.
    Yellow,
}

impl<S: Subject> Text<S> {
    /// The width that a cell requests on a line. A cell of open width requests enough to show a
    /// little of it.
    fn wanted(&self, width: usize) -> usize {
        if self.align == Align::Left(0) { OPEN } else { width }
    }
}

impl<S: Subject> Column<S> {
    /// Adds the column to the text table, with its value, at `place` and below `heading`.
    pub const fn text(self, place: u8, heading: &'static str, align: Align) -> Column<S> {
        self.cell(place, heading, align, Cell::Value)
    }

    /// Adds the column to the text table, with the content of `cell`.
    pub const fn cell(mut self, place: u8, heading: &'static str, align: Align, cell: Cell<S>) -> Column<S> {
        self.text = Some(Text { place, heading, align, cell, gap: 1, tint: None, ends: None });
        self
    }

    /// Sets the number of spaces before the column; the default is one.
    pub const fn gap(mut self, spaces: usize) -> Column<S> {
        if let Some(text) = &mut self.text {
            text.gap = spaces;
        }
        self
    }

    /// Sets the colour of the column's cells.
    pub const fn tint(mut self, tint: fn(S::Of<'_>) -> Tint) -> Column<S> {
        if let Some(text) = &mut self.text {
            text.tint = Some(tint);
        }
        self
    }

    /// Makes the cell the last of its line if `ends` returns true.
    pub const fn ends(mut self, ends: fn(S::Of<'_>) -> bool) -> Column<S> {
        if let Some(text) = &mut self.text {
            text.ends = Some(ends);
        }
        self
    }
}

/// The text table of a list of columns.
pub struct TextTable<S: Subject> {
    columns: Vec<(&'static Column<S>, &'static Text<S>)>,
    clock: Clock,
}

impl<S: Subject> TextTable<S> {
    /// Creates the table from the columns that appear in text tables.
    pub fn new(columns: &'static Columns<S>) -> TextTable<S> {
        let columns = columns.columns.iter().filter_map(|column| Some((column, column.text.as_ref()?)));
        let mut columns: Vec<_> = columns.collect();
        columns.sort_by_key(|(_, text)| text.place);
        TextTable { columns, clock: Clock::Relative }
    }

    /// Sets the clock; the default is seconds since the start of the capture.
    pub fn with_clock(self, clock: Clock) -> TextTable<S> {
        TextTable { clock, ..self }
    }

    /// The instant of the line of `subject`, if the table has one.
    pub fn instant(&self, subject: S::Of<'_>) -> Option<Time> {
        self.columns.iter().find_map(|(_, text)| match text.cell {
            Cell::Instant(read) => read(subject),
            Cell::Value | Cell::Shown(_) => None,
        })
    }

    /// The heading of a column, and its alignment.
    fn heading(&self, text: &'static Text<S>) -> (&'static str, Align) {
        match (&text.cell, &self.clock) {
            (Cell::Instant(_), Clock::Absolute | Clock::Local(_)) => {
                ("time", Align::Left(self.clock.width()))
            }
            (Cell::Instant(_), Clock::Delta) => ("delta", text.align),
            _ => (text.heading, text.align),
        }
    }

    /// Writes the headings, folded if they are wider than the terminal.
    pub fn write_heading(&self, style: Style, out: &mut dyn Write) -> io::Result<()> {
        let mut line = String::new();
        let mut limit = Limit::new(style);
        for (index, (_, text)) in self.columns.iter().enumerate() {
            let (heading, align) = self.heading(text);
            let heading = Aligned(&heading, align).to_string();
            let space = limit.space(index, text, text.wanted(heading.chars().count()));
            write!(line, "{space}{heading}").expect("a string takes all");
        }
        line.lines().try_for_each(|line| writeln!(out, "{}", style.bold(line.trim_end())))
    }

    /// Writes the line of `subject`, folded if it is wider than the terminal.
    pub fn write_row(&self, subject: S::Of<'_>, setting: Setting, out: &mut dyn Write) -> io::Result<()> {
        if setting.style.width().is_some() {
            return self.write_folded(subject, setting, out);
        }
        let mut line = String::with_capacity(256);
        for (index, (column, text)) in self.columns.iter().enumerate() {
            let gap = if index == 0 { 0 } else { text.gap };
            line.extend(repeat_n(' ', gap));
            self.show(column, text, subject, setting, &mut line);
            if text.ends.is_some_and(|ends| ends(subject)) {
                break;
            }
        }
        line.push('\n');
        out.write_all(line.as_bytes())
    }

    /// Writes the line for a terminal: a cell that does not fit starts a new line, and the last
    /// cell wraps within its own column.
    fn write_folded(&self, subject: S::Of<'_>, setting: Setting, out: &mut dyn Write) -> io::Result<()> {
        let mut limit = Limit::new(setting.style);
        let mut shown = String::new();
        for (index, (column, text)) in self.columns.iter().enumerate() {
            let mut cell = String::new();
            self.show(column, text, subject, setting, &mut cell);
            let is_last = index + 1 == self.columns.len() || text.ends.is_some_and(|ends| ends(subject));
            let width = columns(&cell);
            if !is_last {
                shown += &limit.space(index, text, width);
                shown += &cell;
                continue;
            }
            // A cell that would wrap into many short lines starts on a new line.
            let cell = cell.trim_end();
            let room = limit.width.saturating_sub(limit.column + text.gap);
            if index > 0 && columns(cell) > room && room < NARROW {
                limit.column = limit.width;
            }
            let wanted = text.wanted(width);
            shown += &limit.space(index, text, wanted);
            let begin = limit.column - wanted;
            let cell = format!("{:begin$}{cell}", "");
            shown += folded(&cell, limit.width, Some(begin)).get(begin..).unwrap_or_default();
            break;
        }
        shown.lines().try_for_each(|line| writeln!(out, "{}", line.trim_end_matches(' ')))
    }

    /// The headings, with the alignment of their cells.
    pub fn headings(&self) -> impl Iterator<Item = (&'static str, Align)> {
        self.columns.iter().map(|(_, text)| self.heading(text))
    }

    /// The cells of `subject` without padding, for callers with a layout of their own. The text has
    /// no colours; each cell's colour is returned separately.
    pub fn cells(&self, subject: S::Of<'_>, setting: Setting) -> impl Iterator<Item = (String, Tint)> {
        self.columns.iter().map(move |(column, text)| {
            let tint = text.tint.map_or(Tint::Plain, |tint| tint(subject));
            let mut cell = String::new();
            let mut put = |shown: &dyn fmt::Display| {
                write!(cell, "{shown}").expect("a string takes all");
            };
            match text.cell {
                Cell::Value => column.see(subject, &mut |_, value| put(&Shown(value))),
                Cell::Shown(show) => show(subject, Setting { style: Style::default(), ..setting }, &mut put),
                Cell::Instant(read) => {
                    put(&Maybe(read(subject).map(|time| self.clocked(time, setting.start))))
                }
            }
            (cell, tint)
        })
    }

    /// Appends a cell of `subject` to `line`.
    fn show(
        &self,
        column: &'static Column<S>,
        text: &'static Text<S>,
        subject: S::Of<'_>,
        setting: Setting,
        line: &mut String,
    ) {
        let tint = text.tint.map_or(Tint::Plain, |tint| tint(subject));
        let align = self.heading(text).1;
        let mut put = |shown: &dyn fmt::Display| {
            let written = match tint {
                Tint::Plain => write_aligned(shown, align, line),
                Tint::Red => write!(line, "{}", setting.style.red(Aligned(shown, align))),
                Tint::Yellow => write!(line, "{}", setting.style.yellow(Aligned(shown, align))),
            };
            written.expect("a string takes all");
        };
        match text.cell {
            Cell::Value => column.see(subject, &mut |_, value| put(&Shown(value))),
            Cell::Shown(show) => show(subject, setting, &mut put),
            Cell::Instant(read) => put(&Maybe(read(subject).map(|time| self.clocked(time, setting.start)))),
        }
    }

    fn clocked(&self, time: Time, since: Time) -> Clocked<'_> {
        Clocked { clock: &self.clock, time, since }
    }
}

/// The width that a cell of open width requests.
const OPEN: usize = 24;
/// The least width for wrapping a cell within its column.
const NARROW: usize = 40;
/// Indentation of continuation lines.
const BELOW: usize = 8;

/// The current column of a line, and its limit.
struct Limit {
    width: usize,
    column: usize,
}

impl Limit {
    fn new(style: Style) -> Limit {
        Limit { width: style.width().unwrap_or(usize::MAX), column: 0 }
    }

    /// The separator before a cell of the given width: spaces, or a new line.
    fn space<S: Subject>(&mut self, index: usize, text: &Text<S>, width: usize) -> String {
        let gap = if index == 0 { 0 } else { text.gap };
        if index > 0 && self.column + gap + width > self.width {
            self.column = BELOW + width;
            return format!("\n{:BELOW$}", "");
        }
        self.column += gap + width;
        " ".repeat(gap)
    }
}

/// An aligned value.
struct Aligned<'a>(&'a dyn fmt::Display, Align);

impl fmt::Display for Aligned<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Align::Left(width) => Left(self.0, width).fmt(f),
            Align::Right(width) => write!(f, "{:>width$}", self.0),
        }
    }
}

/// Appends an aligned value: as [`Aligned`], without the cost of nested formatters.
fn write_aligned(shown: &dyn fmt::Display, align: Align, line: &mut String) -> fmt::Result {
    match align {
        Align::Left(width) => {
            let begin = line.len();
            write!(line, "{shown}")?;
            let written = line[begin..].chars().count();
            line.extend(repeat_n(' ', width.saturating_sub(written)));
            Ok(())
        }
        Align::Right(width) => write!(line, "{shown:>width$}"),
    }
}

/// A value in text output.
pub(super) struct Shown<'a>(pub(super) Value<'a>);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Missing => f.pad("-"),
            Value::Boolean(value) => f.pad(if value { "yes" } else { "no" }),
            Value::Number(number) => number.fmt(f),
            Value::Fraction(number) => number.fmt(f),
            Value::Nanoseconds(duration) => Duration(duration).fmt(f),
            Value::Time(time) => rdmascope_analysis::time::Rfc3339::from(time).fmt(f),
            Value::Key(key) => write!(f, "0x{key:08x}"),
            Value::Qpn(qpn) => write!(f, "0x{qpn:06x}"),
            Value::Offset(offset) => write!(f, "0x{offset:016x}"),
            Value::Text(text) => f.pad(text),
            Value::Shown(shown) => shown.fmt(f),
            Value::Lossy(bytes) => rdmascope_analysis::names::Quoted(bytes).fmt(f),
            Value::Bytes(bytes) => crate::text::HexBytes(bytes).fmt(f),
            Value::Json(json) => json.fmt(f),
            Value::Object(_) | Value::List(_) => f.pad("…"),
        }
    }
}
