//! Findings as text, written at the end.

use super::{Check, Taker};
use crate::output::Out;
use rdmascope_analysis::ending::{Ending, Heading};
use rdmascope_analysis::tally::{Place, Tally};
use rdmascope_conformance::{Finding, Verdict};
use rdmascope_dissector::connection::Connection;
use rdmascope_dissector::rdma::End;
use rdmascope_present::check::{Kept, Page, Selection};
use rdmascope_present::screen::Screen;
use std::io::{self, Write as _};

/// Keeps the findings to show, and writes them at the end.
pub(super) struct Text<'a> {
    command: &'a Check,
    /// The index of the file with --each.
    index: Option<usize>,
    screen: Screen,
    kept: Kept,
    out: &'a mut Out,
}

impl<'a> Text<'a> {
    pub(super) fn new(
        command: &'a Check,
        index: Option<usize>,
        screen: Screen,
        out: &'a mut Out,
    ) -> Text<'a> {
        Text { command, index, screen, kept: command.kept(), out }
    }
}

impl Taker for Text<'_> {
    const LISTS: bool = false;

    fn finding(&mut self, finding: &Finding, place: Place<'_>) -> io::Result<()> {
        if finding.verdict == Verdict::Certain || self.command.inconclusive {
            self.kept.add(finding, place);
        }
        Ok(())
    }

    fn connection(&mut self, connection: &Connection, requester: Option<End>) {
        self.kept.connection(connection, requester);
    }

    fn end(&mut self, tally: &Tally, ending: &Ending) -> io::Result<()> {
        let Text { command, index, screen, kept, out } = self;
        let selection = Selection {
            inconclusive: command.inconclusive,
            all: command.most == Some(0),
            level: command.level.level(),
        };
        if let Some(index) = index {
            if *index > 0 {
                writeln!(out)?;
            }
            writeln!(out, "{}", screen.style.bold(Heading(ending)))?;
        }
        Page { selection, tally, kept, ending, screen: *screen }.write(out)
    }

    fn out(&mut self) -> &mut Out {
        self.out
    }
}
