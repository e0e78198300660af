//! Findings for programs, as they come.

use super::{Check, Taker};
use crate::output::{Out, warn_of_cuts};
use rdmascope_conformance::Finding;
use rdmascope_present::columns::{CHECK, FINDING, FindingRow};
use rdmascope_present::ending::Ending;
use rdmascope_present::json;
use rdmascope_present::tally::{Place, Tally};
use std::io;

/// Writes a line for each.
pub(super) struct Lines<'a> {
    out: &'a mut Out,
    /// Findings of one rule that are written.
    most: u64,
}

impl<'a> Lines<'a> {
    pub(super) fn new(command: &Check, out: &'a mut Out) -> Lines<'a> {
        Lines { out, most: command.most() }
    }
}

impl Taker for Lines<'_> {
    const LISTS: bool = true;

    fn finding(&mut self, finding: &Finding, place: Place) -> io::Result<()> {
        if place.count > self.most {
            return Ok(());
        }
        json::write_line(self.out, &FINDING.of(FindingRow::new(finding, place.is_allowed)))
    }

    fn end(&mut self, tally: &Tally, ending: &Ending) -> io::Result<()> {
        json::write_line(self.out, &CHECK.of((tally, ending)))?;
        warn_of_cuts(ending, self.out)
    }

    fn out(&mut self) -> &mut Out {
        self.out
    }
}
