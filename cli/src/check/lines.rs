//! Findings for programs, written as they arrive: JSON Lines or a table.

use super::{Check, Taker};
use crate::output::{Out, notify, warn_of_cuts};
use crate::table::{Format, Rows};
use rdmascope_analysis::ending::Ending;
use rdmascope_analysis::tally::{Place, Tally};
use rdmascope_conformance::Finding;
use rdmascope_dissector::record::Time;
use rdmascope_present::column::Clock;
use rdmascope_present::columns::{CHECK, FINDING, FindingRow, POLICY};
use rdmascope_present::json;
use rdmascope_present::text::Style;
use std::io::{self, Write as _};

/// Writes one line per finding.
pub(super) struct Lines<'a> {
    rows: Rows<FindingRow<'static>>,
    out: &'a mut Out,
    /// Maximum number of findings per rule.
    most: u64,
    /// Whether a summary line follows the findings.
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

    fn finding(&mut self, finding: &Finding, place: Place<'_>) -> io::Result<()> {
        if place.count > self.most {
            return Ok(());
        }
        // A finding has frames but no time.
        let row = FindingRow::new(finding, place.is_allowed).because(place.reason.map(|reason| &**reason));
        self.rows.row(row, Time::default(), self.out)
    }

    fn end(&mut self, tally: &Tally, ending: &Ending) -> io::Result<()> {
        self.rows.end(self.out)?;
        for (policy, entry) in
            tally.policy.iter().flat_map(|policy| policy.entries.iter().map(move |entry| (policy, entry)))
        {
            if self.has_summary {
                json::write_line(self.out, &POLICY.of((policy, entry)))?;
            } else if entry.fails() {
                // A table contains findings only, so policy failures go to standard error.
                self.out.flush()?;
                notify(format_args!("{}", policy.named(entry)));
            }
        }
        if self.has_summary {
            json::write_line(self.out, &CHECK.of((tally, ending)))?;
        }
        warn_of_cuts(ending, self.out)
    }

    fn out(&mut self) -> &mut Out {
        self.out
    }
}
