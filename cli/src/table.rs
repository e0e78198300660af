//! Output of the list commands: text, JSON Lines, CSV or TSV, with the options for fields, order
//! and clock.

mod aligned;
mod delimited;

use crate::filters::similar;
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

/// The output options of list commands.
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

/// The options that select fields and lines.
#[derive(Args, Debug)]
pub(crate) struct Shape {
    /// Fields to show: names from docs/json.md, with dots for fields of objects, such as
    /// `call.frame`
    ///
    /// CSV, TSV and text show the fields in the given order; an object stands for all its fields.
    /// JSON Lines contain objects with only these fields. The suffix `_ns` of a name may be
    /// omitted. docs/tables.md describes the fields.
    #[arg(
        long,
        value_name = "FIELD",
        value_delimiter = ',',
        hide_possible_values = true,
        help_heading = "Table"
    )]
    fields: Vec<String>,
    /// Only lines that match this expression
    #[arg(long = "where", value_name = "EXPRESSION", help_heading = "Table")]
    condition: Option<String>,
    /// Field to sort the lines by, smallest first; lines without a value come last
    ///
    /// All lines are kept in memory until the capture ends. With --top, only that number of lines
    /// is kept.
    #[arg(long, value_name = "FIELD", hide_possible_values = true, help_heading = "Table")]
    sort: Option<String>,
    /// Reverse the sort order: largest first; lines without a value still come last
    #[arg(long, requires = "sort", help_heading = "Table")]
    reverse: bool,
    /// Show only the first N lines, after sorting if --sort is given; only N are kept in memory
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Table")]
    top: Option<u64>,
}

impl Shape {
    /// The given fields of all lines, unsorted.
    pub(crate) fn of_fields(fields: &[&str]) -> Shape {
        let fields = fields.iter().map(|field| (*field).to_owned()).collect();
        Shape { fields, condition: None, sort: None, reverse: false, top: None }
    }

    /// Parses --where for lines of `columns`.
    pub(crate) fn condition<S: Subject>(&self, columns: &'static Columns<S>) -> Result<Option<Where<S>>> {
        let condition = self.condition.as_deref().map(|text| Where::parse(text, columns)).transpose();
        condition.context("--where")
    }

    /// Whether --fields is given.
    pub(crate) fn has_fields(&self) -> bool {
        !self.fields.is_empty()
    }

    /// Whether any option is given.
    pub(crate) fn is_requested(&self) -> bool {
        let Shape { fields, condition, sort, reverse, top } = self;
        !fields.is_empty() || condition.is_some() || sort.is_some() || *reverse || top.is_some()
    }
}

impl Table {
    /// Whether a name in the output, filter or sort key contains `part`.
    pub(crate) fn has(&self, part: &str) -> bool {
        let Shape { fields, condition, sort, .. } = &self.shape;
        let mut names = fields.iter().chain(condition).chain(sort);
        // The name of an object selects all its fields.
        fields.is_empty() || names.any(|name| name.contains(part) || name == "operation_details")
    }

    /// The format of the lines.
    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// A writer for lines of `columns`.
    pub(crate) fn rows<S: Subject>(&self, columns: &'static Columns<S>, style: Style) -> Result<Rows<S>> {
        let Table { format, shape, time } = self;
        if *format == Format::Jsonl && time.is_some() {
            bail!("--time applies to text, csv and tsv; JSON Lines have absolute times");
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
    /// Comma-separated values with a header line; docs/tables.md describes them
    Csv,
    /// Tab-separated values with a header line
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
    /// Seconds since the previous line
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

/// A value parser for the name of a field.
#[derive(Clone, Copy)]
pub(crate) struct FieldName {
    list: &'static dyn List,
    /// Whether the field is a sort key.
    is_key: bool,
}

impl FieldName {
    /// Accepts any field of `list`.
    pub(crate) fn any(list: &'static dyn List) -> FieldName {
        FieldName { list, is_key: false }
    }

    /// Accepts the fields of `list` that can be sort keys.
    pub(crate) fn key(list: &'static dyn List) -> FieldName {
        FieldName { list, is_key: true }
    }

    fn known(self, name: &str) -> Result<String, String> {
        let columns = flat(self.list);
        let Some(column) = find(&columns, name) else {
            let names =
                columns.iter().filter(|column| self.accepts(column)).map(|column| column.name.as_str());
            return Err(match similar(name, names).as_slice() {
                [] => format!("a {} has no field with this name", self.list.name()),
                near => {
                    format!(
                        "a {} has no field with this name: did you mean {}?",
                        self.list.name(),
                        near.join(" or ")
                    )
                }
            });
        };
        match self.accepts(column) {
            true => Ok(column.name.clone()),
            false => Err("a line may have several values of it, so it cannot be a sort key".to_owned()),
        }
    }

    fn accepts(self, column: &Flat) -> bool {
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
        let columns = flat(self.list).into_iter().filter(|column| self.accepts(column));
        Some(Box::new(columns.map(|column| PossibleValue::new(column.name))))
    }
}

/// Returns a value parser that reports errors in an expression before the capture is read.
pub(crate) fn expression_about(list: &'static dyn List) -> impl Fn(&str) -> Result<String, Mistake> + Clone {
    move |text| expression::parse(text, list).map(|_| text.to_owned())
}

/// Returns a change of the argument of `--where`: its parser, and its help with an example.
pub(crate) fn condition(list: &'static dyn List, example: &'static str) -> impl FnOnce(Arg) -> Arg {
    move |argument| {
        debug_assert!(expression::parse(example, list).is_ok(), "{example}");
        let help = format!("Only lines that match this expression: `{example}`");
        let more = "The comparisons are ==, !=, <, <=, > and >=, `~` and `!~` for patterns, and `in (A, B)`. \
            `&&`, `||`, `!` and parentheses combine them. docs/tables.md describes expressions.";
        let long = format!("{help}\n\n{more}");
        argument.value_parser(expression_about(list)).help(help).long_help(long)
    }
}

/// A writer of output lines.
pub(crate) struct Rows<S: Subject> {
    columns: &'static Columns<S>,
    form: Form<S>,
    style: Style,
    /// `Some` if seconds count from the previous line, with the time of that line once one was
    /// written.
    before: Option<Option<Time>>,
    is_headed: bool,
    /// The filter from --where.
    condition: Option<Where<S>>,
    order: Order<S>,
}

/// The state of the output format.
enum Form<S: Subject> {
    Text(TextTable<S>),
    Aligned(Cells<S>, Aligned),
    Delimited(Cells<S>, Delimited),
    Lines,
    PickedLines(Picked<S>),
}

/// The order and the selection of lines.
enum Order<S: Subject> {
    /// In the order of the input; at most this number of further lines.
    AsTheyCome(u64),
    /// Sorted by a field.
    Sorted { by: Picked<S>, is_reversed: bool, most: Option<u64>, kept: BinaryHeap<Kept>, count: u64 },
}

/// A line kept for sorting. The greatest is the last in the output order.
struct Kept {
    key: Key,
    is_reversed: bool,
    /// Its position in the input.
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
    /// Creates a writer for lines of `columns`.
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
            Format::Jsonl => Form::PickedLines(Picked::nested(columns, fields)),
        };
        let order = match sort {
            Some(field) => Order::Sorted {
                by: Picked::cells(columns, &[columns.sort_key(field).to_owned()]),
                is_reversed: *reverse,
                most: *top,
                kept: BinaryHeap::new(),
                count: 0,
            },
            None => Order::AsTheyCome(top.unwrap_or(u64::MAX)),
        };
        Ok(Rows { columns, form, style, before, is_headed: false, condition, order })
    }

    /// Writes the heading if the format has one, before the first line. Sorted output writes it at
    /// the end.
    pub(crate) fn head(&mut self, out: &mut impl Write) -> io::Result<()> {
        match self.order {
            Order::AsTheyCome(_) => self.write_heading(out),
            Order::Sorted { .. } => Ok(()),
        }
    }

    /// Writes the heading once.
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
                // Lines with equal keys keep their input order.
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

    /// Writes the lines that were kept.
    pub(crate) fn end(&mut self, out: &mut impl Write) -> io::Result<()> {
        self.write_heading(out)?;
        let Order::Sorted { kept, .. } = &mut self.order else { return Ok(()) };
        core::mem::take(kept).into_sorted_vec().iter().try_for_each(|kept| out.write_all(&kept.line))
    }
}

/// A line and the state that it is formatted with.
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

    /// Skips a line that is not shown: the next line may count its seconds from this one.
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

/// The time from which the seconds of a line count, if that is not the start of the capture. The
/// first line counts from its own time.
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
