//! What is told of scenarios and their verdicts, in each format: by `peer inject`, and by `peer serve --scenario`.

mod html;
mod junit;
mod ladder;
pub(super) mod lines;
pub(super) mod text;

use crate::output::{self, Out};
use clap::ValueEnum;
use html::{Cell, Column};
pub(super) use ladder::{Arrow, Crossing, Drawing, Ladder};
pub(super) use lines::Ran;
use lines::{Line, Summary};
use rdmascope_peer::scenario::{Scenario, Side};
use rdmascope_present::json::write_line;
use std::io::{self, Write as _};

/// How verdicts are told.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Text, a line for each scenario as it ends
    Text,
    /// One JSON object per line; docs/peer.md describes them
    Jsonl,
    /// JUnit XML, when all have ended
    Junit,
    /// An HTML page, when all have ended: verdicts side by side, and the packets behind each
    Html,
}

impl Format {
    /// The format of what else a command tells on the way; `None`: the output is one document, and has no room for it.
    pub(super) const fn on_the_way(self) -> Option<output::Format> {
        match self {
            Format::Text => Some(output::Format::Text),
            Format::Jsonl => Some(output::Format::Jsonl),
            Format::Junit | Format::Html => None,
        }
    }
}

/// The scenarios of one run of a command, as they end.
pub(super) struct Report {
    side: Side,
    format: Format,
    ran: Vec<Ran>,
    /// For the HTML page: a row for each scenario.
    rows: Vec<Scenario>,
    columns: Vec<Column>,
}

impl Report {
    /// `side`: whose scenarios they are, that is what this side is.
    pub(super) fn new(side: Side, format: Format, rows: Vec<Scenario>) -> Report {
        Report { side, format, ran: Vec::new(), rows, columns: Vec::new() }
    }

    /// Begins with the first scenario again, for another target. `name`: what the column is headed with; `None`: those whom its scenarios
    /// were about.
    pub(super) fn begin_column(&mut self, name: Option<String>) {
        self.columns.push(Column { name, cells: Vec::new() });
    }

    /// Tells the next scenario. `ladder`: `None` where packets are not seen.
    pub(super) fn tell(&mut self, one: Ran, ladder: Option<Ladder>, out: &mut Out) -> io::Result<()> {
        match self.format {
            Format::Text => text::ran(&one, out)?,
            Format::Jsonl => write_line(out, &Line::PeerScenario(&one))?,
            Format::Junit | Format::Html => {}
        }
        if let (Format::Html, Some(column)) = (self.format, self.columns.last_mut()) {
            column.cells.push(Cell { ran: one.clone(), ladder });
        }
        self.ran.push(one);
        out.flush()
    }

    /// Tells all of them, where so many were asked for. Whether there was a violation.
    pub(super) fn finish(&self, scenarios: usize, out: &mut Out) -> io::Result<bool> {
        let summary = Summary::of(&self.ran, scenarios);
        match self.format {
            Format::Text => text::summary(&summary, out)?,
            Format::Jsonl => write_line(out, &Line::PeerInjected(&summary))?,
            Format::Junit => junit::write(self.side, &self.ran, out)?,
            Format::Html => {
                write!(out, "{}", html::page(self.side, &self.rows, &self.columns).into_string())?;
            }
        }
        Ok(summary.is_violation())
    }
}
