//! Writes outcomes as text or JSON Lines.

use super::Regress;
use crate::output::{self, Format, Out, Status};
use rdmascope_analysis::units::Counted;
use rdmascope_present::columns::{DEVIATION, VERDICT};
use rdmascope_present::json::write_line;
use rdmascope_present::regress::{Counts, Outcome, Verdict};
use rdmascope_present::text::Style;
use std::io::{self, Write};

/// Writes outcomes as they arrive.
pub(super) struct Show<'a> {
    command: &'a Regress,
    style: Style,
    out: &'a mut Out,
    counts: Counts,
    status: Status,
}

impl<'a> Show<'a> {
    pub(super) fn new(command: &'a Regress, style: Style, out: &'a mut Out) -> Show<'a> {
        Show { command, style, out, counts: Counts::default(), status: Status::Done }
    }

    /// Writes one outcome.
    pub(super) fn outcome(&mut self, outcome: &Outcome) -> io::Result<()> {
        self.counts.count(outcome);
        self.status = self.status.max(status(&outcome.verdict));
        match self.command.output.format {
            Format::Text => outcome.write(self.command.verbose, self.style, self.out)?,
            Format::Jsonl => self.lines(outcome)?,
        }
        if let Some(trouble) = outcome.trouble() {
            self.out.flush()?;
            output::notify(format_args!("{trouble}"));
        }
        Ok(())
    }

    fn lines(&mut self, outcome: &Outcome) -> io::Result<()> {
        let capture = outcome.path.to_string_lossy();
        if let Verdict::Different { differences, .. } = &outcome.verdict {
            for difference in differences {
                write_line(self.out, &DEVIATION.of((&capture, difference)))?;
            }
        }
        if !outcome.is_capture && matches!(outcome.verdict, Verdict::Same) {
            return Ok(());
        }
        write_line(self.out, &VERDICT.of((&capture, outcome)))
    }

    /// Writes the summary; `others` is the number of ignored files.
    pub(super) fn finish(self, others: u64) -> io::Result<Status> {
        if self.command.output.format == Format::Jsonl {
            return Ok(self.status);
        }
        self.counts.write(self.command.bless, self.out)?;
        if self.command.verbose {
            writeln!(
                self.out,
                "{} ignored: neither captures nor listed in a MANIFEST",
                Counted(others, "other file")
            )?;
        }
        Ok(self.status)
    }
}

fn status(verdict: &Verdict) -> Status {
    match verdict {
        Verdict::Same | Verdict::Blessed(_) => Status::Done,
        Verdict::Different { .. } | Verdict::NoExpectation | Verdict::NoCapture => Status::Differs,
        Verdict::Absent | Verdict::OtherFile(_) | Verdict::Unreadable(_) | Verdict::BrokenExpectation(_) => {
            Status::Failed
        }
    }
}
