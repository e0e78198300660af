//! Findings for programs, as they come: as JSON Lines, or as a table.

use super::{Check, Taker};
use crate::output::{Out, warn_of_cuts};
use crate::table::{Format, Rows};
use rdmascope_conformance::Finding;
use rdmascope_dissector::record::Time;
use rdmascope_present::column::Clock;
use rdmascope_present::columns::{CHECK, FINDING, FindingRow};
use rdmascope_present::ending::Ending;
use rdmascope_present::json;
use rdmascope_present::tally::{Place, Tally};
use rdmascope_present::text::Style;
use std::io;

/// Writes a line for each.
pub(super) struct Lines<'a> {
    rows: Rows<FindingRow<'static>>,
    out: &'a mut Out,
    /// Findings of one rule that are written.
    most: u64,
    /// Whether a line of another kind, about the whole, ends them.
    has_summary: bool,
}

impl<'a> Lines<'a> {
    pub(super) fn new(command: &Check, out: &'a mut Out) -> Lines<'a> {
        let format = command.table().unwrap_or(Format::Jsonl);
        let rows = Rows::new(format, &command.shape, Clock::Absolute, &FINDING, Style::default())
            .expect("the options of tables were looked at before");
        let has_summary = format == Format::Jsonl && !command.shape.has_fields();
        Lines { rows, out, most: command.most(), has_summary }
    }
}

impl Taker for Lines<'_> {
    const LISTS: bool = true;

    fn finding(&mut self, finding: &Finding, place: Place) -> io::Result<()> {
        if place.count > self.most {
            return Ok(());
        }
        // A finding has frames, and no time.
        self.rows.row(FindingRow::new(finding, place.is_allowed), Time::default(), self.out)
    }

    fn end(&mut self, tally: &Tally, ending: &Ending) -> io::Result<()> {
        self.rows.end(self.out)?;
        if self.has_summary {
            json::write_line(self.out, &CHECK.of((tally, ending)))?;
        }
        warn_of_cuts(ending, self.out)
    }

    fn out(&mut self) -> &mut Out {
        self.out
    }
}
