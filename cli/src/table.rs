//! How commands that list write their lines: as text, as JSON Lines, or as a table for other programs; with which fields, in which order, and with
//! which clock.

mod aligned;
mod delimited;

use crate::filters::nearest;
use aligned::Aligned;
use anyhow::{Context as _, Result, bail};
use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Args, Command, ValueEnum};
use core::cmp::Ordering;
use delimited::Delimited;
use rdmascope_dissector::record::Time;
use rdmascope_present::column::{
    CellReader, Cells, Clock, Columns, Flat, Key, List, Picked, Setting, Subject, TextTable, find, flat,
};
use rdmascope_present::expression::{self, Mistake, Where};
use rdmascope_present::json;
use rdmascope_present::text::Style;
use std::collections::BinaryHeap;
use std::ffi::OsStr;
use std::io::{self, Write};

/// How lines are written.
#[derive(Args, Debug)]
pub(crate) struct Table {
    /// Output format: text, JSON Lines for programs, or a table for spreadsheets and scripts
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    shape: Shape,
    /// How text, CSV and TSV show times [default: relative in text, absolute in CSV and TSV]
    #[arg(long, value_enum, value_name = "CLOCK", help_heading = "Table")]
    time: Option<ClockArgument>,
}

/// Which fields lines have, and in which order they come.
#[derive(Args, Debug)]
pub(crate) struct Shape {
    /// Show these fields: names of docs/json.md, with dots for what is in objects, as `call.frame`
    ///
    /// CSV, TSV and text have them in the order given; an object stands for all its fields. JSON Lines have objects that hold only
    /// these. The `_ns` at the end of a name may be left out. docs/tables.md describes which fields there are.
    #[arg(
        long,
        value_name = "FIELD",
        value_delimiter = ',',
        hide_possible_values = true,
        help_heading = "Table"
    )]
    fields: Vec<String>,
    /// Show only the lines for which this holds: `op == READ && latency > 5ms && file ~ '*.dat'`
    ///
    /// Fields are compared with ==, !=, <, <=, > and >=, with `~` and `!~` for patterns, and with `in (A, B)`; `&&`, `||`, `!` and parentheses join comparisons.
    /// docs/tables.md describes expressions.
    #[arg(long = "where", value_name = "EXPRESSION", help_heading = "Table")]
    condition: Option<String>,
    /// Sort the lines by this field, smallest first; lines without a value come last
    ///
    /// All lines are kept in memory until the capture ends, unless --top says how many are wanted.
    #[arg(long, value_name = "FIELD", hide_possible_values = true, help_heading = "Table")]
    sort: Option<String>,
    /// Sort in the other direction, largest first; lines without a value still come last
    #[arg(long, requires = "sort", help_heading = "Table")]
    reverse: bool,
    /// Show only the first N lines, in that order if they are sorted; no others are kept in memory
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Table")]
    top: Option<u64>,
}

impl Shape {
    /// These fields, of all lines as they come.
    pub(crate) fn of_fields(fields: &[&str]) -> Shape {
        let fields = fields.iter().map(|field| (*field).to_owned()).collect();
        Shape { fields, condition: None, sort: None, reverse: false, top: None }
    }

    /// What has to hold of a line of `columns`.
    pub(crate) fn condition<S: Subject>(&self, columns: &'static Columns<S>) -> Result<Option<Where<S>>> {
        let condition = self.condition.as_deref().map(|text| Where::parse(text, columns)).transpose();
        condition.context("--where")
    }

    /// Whether lines have only some of their fields.
    pub(crate) fn has_fields(&self) -> bool {
        !self.fields.is_empty()
    }

    /// Whether it asks for anything.
    pub(crate) fn is_asked_for(&self) -> bool {
        let Shape { fields, condition, sort, reverse, top } = self;
        !fields.is_empty() || condition.is_some() || sort.is_some() || *reverse || top.is_some()
    }
}

impl Table {
    /// Whether lines show fields with this in their names, are sorted or chosen by them.
    pub(crate) fn has(&self, part: &str) -> bool {
        let Shape { fields, condition, sort, .. } = &self.shape;
        let mut names = fields.iter().chain(condition).chain(sort);
        // An object that is named has all its fields.
        fields.is_empty() || names.any(|name| name.contains(part) || name == "operation_details")
    }

    /// The format of the lines.
    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// Lines of `columns`, written in this way.
    pub(crate) fn rows<S: Subject>(&self, columns: &'static Columns<S>, style: Style) -> Result<Rows<S>> {
        let Table { format, shape, time } = self;
        if *format == Format::Jsonl && time.is_some() {
            bail!("--time is for text, csv and tsv: the times of JSON Lines are absolute");
        }
        let usual = if *format == Format::Text { ClockArgument::Relative } else { ClockArgument::Absolute };
        Rows::new(*format, shape, time.unwrap_or(usual).clock(), columns, style)
    }
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Text in columns
    Text,
    /// One JSON object per line; docs/json.md describes them
    Jsonl,
    /// Comma-separated values with a line of names; docs/tables.md describes them
    Csv,
    /// Tab-separated values with a line of names
    Tsv,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum ClockArgument {
    /// RFC 3339, UTC
    Absolute,
    /// Seconds since the first packet
    Relative,
    /// RFC 3339 in the time zone of this machine, or of TZ
    Local,
    /// Seconds since the line before
    Delta,
}

impl ClockArgument {
    fn clock(self) -> Clock {
        match self {
            ClockArgument::Absolute => Clock::Absolute,
            ClockArgument::Relative => Clock::Relative,
            ClockArgument::Local => Clock::local(),
            ClockArgument::Delta => Clock::Delta,
        }
    }
}

/// The name of a field of a line.
#[derive(Clone, Copy)]
pub(crate) struct FieldName {
    list: &'static dyn List,
    /// Whether lines are to be sorted by it.
    is_key: bool,
}

impl FieldName {
    /// Any field of `list`.
    pub(crate) fn any(list: &'static dyn List) -> FieldName {
        FieldName { list, is_key: false }
    }

    /// A field of `list` by which lines can be sorted.
    pub(crate) fn key(list: &'static dyn List) -> FieldName {
        FieldName { list, is_key: true }
    }

    fn known(self, name: &str) -> Result<String, String> {
        let columns = flat(self.list);
        let Some(column) = find(&columns, name) else {
            let names =
                columns.iter().filter(|column| self.is_welcome(column)).map(|column| column.name.as_str());
            return Err(match nearest(name, names).as_slice() {
                [] => format!("a {} has no field of this name", self.list.name()),
                near => {
                    format!("a {} has no field of this name: is it {}?", self.list.name(), near.join(" or "))
                }
            });
        };
        match self.is_welcome(column) {
            true => Ok(column.name.clone()),
            false => Err("a line may have several values of it, and cannot be sorted by them".to_owned()),
        }
    }

    fn is_welcome(self, column: &Flat) -> bool {
        !self.is_key || column.is_single()
    }
}

impl TypedValueParser for FieldName {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        option: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        let this = *self;
        (move |name: &str| this.known(name)).parse_ref(command, option, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let columns = flat(self.list).into_iter().filter(|column| self.is_welcome(column));
        Some(Box::new(columns.map(|column| PossibleValue::new(column.name))))
    }
}

/// Reads an expression about lines of a list, to say early what is wrong with it.
pub(crate) fn expression_about(list: &'static dyn List) -> impl Fn(&str) -> Result<String, Mistake> + Clone {
    move |text| expression::parse(text, list).map(|_| text.to_owned())
}

/// Lines on their way to the output.
pub(crate) struct Rows<S: Subject> {
    columns: &'static Columns<S>,
    form: Form<S>,
    style: Style,
    /// Where seconds count from the line before: its instant, once there is one.
    before: Option<Option<Time>>,
    is_headed: bool,
    /// What has to hold of a line.
    condition: Option<Where<S>>,
    order: Order<S>,
}

/// How a line is written.
enum Form<S: Subject> {
    Text(TextTable<S>),
    Aligned(Cells<S>, Aligned),
    Delimited(Cells<S>, Delimited),
    Lines,
    PickedLines(Picked<S>),
}

/// Which lines are written, and in which order.
enum Order<S: Subject> {
    /// As they come; at most so many more.
    AsTheyCome(u64),
    /// By a field.
    Sorted { by: Picked<S>, is_reversed: bool, most: Option<u64>, kept: BinaryHeap<Kept>, count: u64 },
}

/// A line that waits for the end. The greatest is the last of the order.
struct Kept {
    key: Key,
    is_reversed: bool,
    /// In the order in which they came.
    number: u64,
    line: Box<[u8]>,
}

impl Ord for Kept {
    fn cmp(&self, other: &Kept) -> Ordering {
        self.key.compare(&other.key, self.is_reversed).then(self.number.cmp(&other.number))
    }
}

impl PartialOrd for Kept {
    fn partial_cmp(&self, other: &Kept) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Kept {
    fn eq(&self, other: &Kept) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Kept {}

impl<S: Subject> Rows<S> {
    /// Lines of `columns`.
    pub(crate) fn new(
        format: Format,
        shape: &Shape,
        clock: Clock,
        columns: &'static Columns<S>,
        style: Style,
    ) -> Result<Rows<S>> {
        let condition = shape.condition(columns)?;
        let Shape { fields, sort, reverse, top, .. } = shape;
        let cells = |reader| Cells::new(Picked::cells(columns, fields), reader, clock.clone());
        let before = matches!(clock, Clock::Delta).then_some(None);
        let form = match format {
            Format::Text if fields.is_empty() => Form::Text(TextTable::new(columns).with_clock(clock)),
            Format::Text => {
                let cells = cells(CellReader::Person);
                let aligned = Aligned::new(&cells, style);
                Form::Aligned(cells, aligned)
            }
            Format::Csv => Form::Delimited(cells(CellReader::Program), Delimited::csv()),
            Format::Tsv => Form::Delimited(cells(CellReader::Program), Delimited::tsv()),
            Format::Jsonl if fields.is_empty() => Form::Lines,
            Format::Jsonl => Form::PickedLines(Picked::whole(columns, fields)),
        };
        let order = match sort {
            Some(field) => Order::Sorted {
                by: Picked::cells(columns, core::slice::from_ref(field)),
                is_reversed: *reverse,
                most: *top,
                kept: BinaryHeap::new(),
                count: 0,
            },
            None => Order::AsTheyCome(top.unwrap_or(u64::MAX)),
        };
        Ok(Rows { columns, form, style, before, is_headed: false, condition, order })
    }

    /// Writes the line of headings, where the format has one, before any line; unless all wait for the end.
    pub(crate) fn head(&mut self, out: &mut impl Write) -> io::Result<()> {
        match self.order {
            Order::AsTheyCome(_) => self.write_heading(out),
            Order::Sorted { .. } => Ok(()),
        }
    }

    /// Writes the line of headings once.
    fn write_heading(&mut self, out: &mut impl Write) -> io::Result<()> {
        if core::mem::replace(&mut self.is_headed, true) {
            return Ok(());
        }
        match &mut self.form {
            Form::Text(table) => table.write_heading(self.style, out),
            Form::Aligned(cells, aligned) => aligned.write_heading(cells.columns(), out),
            Form::Delimited(cells, delimited) => {
                delimited.write(cells.columns().iter().map(|column| column.name.as_str()), out)
            }
            Form::Lines | Form::PickedLines(_) => Ok(()),
        }
    }

    /// Writes the line of `subject`, or keeps it until the end. The capture starts at `start`.
    pub(crate) fn row(&mut self, subject: S::Of<'_>, start: Time, out: &mut impl Write) -> io::Result<()> {
        self.head(out)?;
        if self.condition.as_ref().is_some_and(|condition| !condition.matches(subject, start)) {
            return Ok(());
        }
        let Rows { columns, form, style, before, order, .. } = self;
        let mut line = Line { columns, form, style: *style, before, start };
        match order {
            Order::AsTheyCome(0) => Ok(()),
            Order::AsTheyCome(more) => {
                *more -= 1;
                line.write(subject, out)
            }
            Order::Sorted { by, is_reversed, most, kept, count } => {
                *count += 1;
                let key = Key::of(by, subject);
                let is_full = most.is_some_and(|most| kept.len() as u64 >= most);
                // Of lines with equal keys, the one that came first stands first.
                let is_wanted = !is_full
                    || kept.peek().is_some_and(|last| key.compare(&last.key, *is_reversed) == Ordering::Less);
                if !is_wanted {
                    line.pass(subject);
                    return Ok(());
                }
                if is_full {
                    kept.pop();
                }
                let mut written = Vec::new();
                line.write(subject, &mut written)?;
                let line = written.into_boxed_slice();
                kept.push(Kept { key, is_reversed: *is_reversed, number: *count, line });
                Ok(())
            }
        }
    }

    /// Writes what was kept.
    pub(crate) fn end(&mut self, out: &mut impl Write) -> io::Result<()> {
        self.write_heading(out)?;
        let Order::Sorted { kept, .. } = &mut self.order else { return Ok(()) };
        core::mem::take(kept).into_sorted_vec().iter().try_for_each(|kept| out.write_all(&kept.line))
    }
}

/// A line, and what it rests on.
struct Line<'a, S: Subject> {
    columns: &'static Columns<S>,
    form: &'a mut Form<S>,
    style: Style,
    before: &'a mut Option<Option<Time>>,
    start: Time,
}

impl<S: Subject> Line<'_, S> {
    fn write(&mut self, subject: S::Of<'_>, out: &mut impl Write) -> io::Result<()> {
        match self.form {
            Form::Text(table) => {
                let start = since(table, self.before, subject).unwrap_or(self.start);
                table.write_row(subject, Setting { start, style: self.style }, out)
            }
            Form::Aligned(cells, aligned) => {
                cells.fill(subject, self.start);
                aligned.write(cells.texts(), out)
            }
            Form::Delimited(cells, delimited) => {
                cells.fill(subject, self.start);
                delimited.write(cells.texts(), out)
            }
            Form::Lines => json::write_line(out, &self.columns.of(subject)),
            Form::PickedLines(picked) => json::write_line(out, &picked.line(subject)),
        }
    }

    /// What is not shown may be what the next line counts from.
    fn pass(&mut self, subject: S::Of<'_>) {
        if self.before.is_none() {
            return;
        }
        match self.form {
            Form::Text(table) => {
                since(table, self.before, subject);
            }
            Form::Aligned(cells, _) | Form::Delimited(cells, _) => cells.fill(subject, self.start),
            Form::Lines | Form::PickedLines(_) => {}
        }
    }
}

/// From when on the seconds of a line count, where that is not the start of the capture: the first counts from itself.
fn since<S: Subject>(
    table: &TextTable<S>,
    before: &mut Option<Option<Time>>,
    subject: S::Of<'_>,
) -> Option<Time> {
    let before = before.as_mut()?;
    let instant = table.instant(subject)?;
    Some(before.replace(instant).unwrap_or(instant))
}

#[cfg(test)]
mod tests;
