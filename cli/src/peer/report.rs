//! Reports of scenarios and their verdicts, for `peer inject` and `peer serve --scenario`.

mod html;
mod junit;
mod ladder;
pub(super) mod lines;
pub(super) mod text;

use crate::output::{self, Out};
use clap::ValueEnum;
use html::{Cell, Column};
pub(super) use ladder::{Crossing, Drawing, Ladder};
pub(super) use lines::Ran;
use lines::{SCENARIO, Summary};
use rdmascope_peer::scenario::{Scenario, Side};
use rdmascope_present::json::{write_line, write_value};
use std::io::{self, Write as _};

/// The format of a report.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Text: a line when a scenario ends
    Text,
    /// One JSON object per line; docs/peer.md describes them
    Jsonl,
    /// JUnit XML, after all scenarios
    Junit,
    /// An HTML page after all scenarios: verdicts side by side, each with its packets
    Html,
}

impl Format {
    /// Returns the format of a command's other output. `None`: the report is a single document,
    /// without room for other output.
    pub(super) const fn line_format(self) -> Option<output::Format> {
        match self {
            Format::Text => Some(output::Format::Text),
            Format::Jsonl => Some(output::Format::Jsonl),
            Format::Junit | Format::Html => None,
        }
    }
}

/// The scenarios of one run of a command, in the order in which they end.
pub(super) struct Report {
    side: Side,
    format: Format,
    ran: Vec<Ran>,
    /// The rows of the HTML page.
    rows: Vec<Scenario>,
    columns: Vec<Column>,
}

impl Report {
    /// Creates a report. `side` is the side that this end plays.
    pub(super) fn new(side: Side, format: Format, rows: Vec<Scenario>) -> Report {
        Report { side, format, ran: Vec::new(), rows, columns: Vec::new() }
    }

    /// Begins a column for another target. `name` is its heading; `None`: the heading comes from
    /// the targets of its scenarios.
    pub(super) fn begin_column(&mut self, name: Option<String>) {
        self.columns.push(Column { name, cells: Vec::new() });
    }

    /// Adds the next scenario. `ladder` is `None` if packets are not visible.
    pub(super) fn print_run(&mut self, one: Ran, ladder: Option<Ladder>, out: &mut Out) -> io::Result<()> {
        match self.format {
            Format::Text => text::ran(&one, out)?,
            Format::Jsonl => write_line(out, &SCENARIO.of(&one))?,
            Format::Junit | Format::Html => {}
        }
        if let (Format::Html, Some(column)) = (self.format, self.columns.last_mut()) {
            column.cells.push(Cell { ran: one.clone(), ladder });
        }
        self.ran.push(one);
        out.flush()
    }

    /// Prints the summary; `scenarios` were requested. Returns whether there was a violation.
    pub(super) fn finish(&self, scenarios: usize, out: &mut Out) -> io::Result<bool> {
        let summary = Summary::of(&self.ran, scenarios);
        match self.format {
            Format::Text => text::summary(&summary, out)?,
            Format::Jsonl => {
                write_value(out, &summary)?;
                writeln!(out)?;
            }
            Format::Junit => junit::write(self.side, &self.ran, out)?,
            Format::Html => {
                write!(out, "{}", html::page(self.side, &self.rows, &self.columns).into_string())?;
            }
        }
        Ok(summary.is_violation())
    }
}
