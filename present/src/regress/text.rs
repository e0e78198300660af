//! Outcomes as text.

use super::compare::{Change, Difference};
use super::lines::Line;
use super::outcome::{Blessed, Outcome, Verdict};
use super::subject::{Shown, Subject};
use crate::text::Style;
use rdmascope_analysis::units::{Counted, Plain};
use serde_json::Value;
use std::io::{self, Write};
use std::sync::Arc;

impl Outcome {
    /// Writes the outcome. `verbose`: also if nothing differs.
    pub fn write(&self, verbose: bool, style: Style, out: &mut dyn Write) -> io::Result<()> {
        let path = Plain(self.path.display());
        match &self.verdict {
            Verdict::Same if verbose && self.is_capture => writeln!(out, "{path}: same")?,
            Verdict::Different { differences, count, first_findings } => {
                writeln!(out, "{path}: {}", style.red(Counted(*count, "difference")))?;
                write_differences(differences, style, out)?;
                let further = count - differences.len() as u64;
                if further > 0 {
                    writeln!(out, "  … {} not shown: --limit", Counted(further, "further difference"))?;
                }
                if *first_findings {
                    writeln!(
                        out,
                        "the expectation has no findings: it may come from a version without the judge; \
                         read the findings, then --bless"
                    )?;
                }
            }
            Verdict::NoExpectation => {
                let remedy = "write one with --bless, and read it before you rely on it";
                writeln!(out, "{path}: {}; {remedy}", style.yellow("no expectation"))?;
            }
            Verdict::Blessed(Blessed { added, removed }) => {
                let added = Counted(*added, "line");
                writeln!(out, "{path}: expectation written: {added} added, {removed} removed")?;
            }
            Verdict::NoCapture => {
                writeln!(out, "{path}: {}", style.yellow("expectation without a capture"))?;
            }
            // Errors are reported on standard error.
            Verdict::Same
            | Verdict::Absent
            | Verdict::OtherFile(_)
            | Verdict::Unreadable(_)
            | Verdict::BrokenExpectation(_) => {}
        }
        if self.listed == Some(false) {
            writeln!(out, "{path}: {}", style.yellow("not listed in MANIFEST"))?;
        }
        Ok(())
    }
}

/// The number of files by verdict.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    captures: u64,
    same: u64,
    different: u64,
    no_expectation: u64,
    blessed: u64,
    unreadable: u64,
    broken: u64,
    other_files: u64,
    absent: u64,
    no_capture: u64,
    unlisted: u64,
}

impl Counts {
    /// Counts an outcome.
    pub fn count(&mut self, outcome: &Outcome) {
        self.captures += u64::from(outcome.is_capture);
        self.unlisted += u64::from(outcome.listed == Some(false));
        let (count, is_done) = match &outcome.verdict {
            Verdict::Same => (&mut self.same, true),
            Verdict::Blessed(_) => (&mut self.blessed, true),
            Verdict::Different { .. } => (&mut self.different, false),
            Verdict::NoExpectation => (&mut self.no_expectation, false),
            Verdict::NoCapture => (&mut self.no_capture, false),
            Verdict::Absent => (&mut self.absent, false),
            Verdict::OtherFile(_) => (&mut self.other_files, false),
            Verdict::Unreadable(_) => (&mut self.unreadable, false),
            Verdict::BrokenExpectation(_) => (&mut self.broken, false),
        };
        // Other files of a manifest count only if something is wrong with them.
        *count += u64::from(outcome.is_capture || !is_done);
    }

    /// Writes the summary. `bless`: expectations were written.
    pub fn write(&self, bless: bool, out: &mut dyn Write) -> io::Result<()> {
        let Counts { captures, same, different, .. } = self;
        write!(out, "{}: {same} same", Counted(*captures, "capture"))?;
        match bless {
            true => write!(out, ", {} blessed", self.blessed)?,
            false => write!(out, ", {different} different, {} without expectation", self.no_expectation)?,
        }
        write!(out, ", {} unreadable", self.unreadable)?;
        for (count, description) in [
            (self.broken, "with a broken expectation"),
            (self.other_files, "not the file that MANIFEST lists"),
            (self.absent, "listed but absent"),
            (self.unlisted, "not listed"),
        ] {
            if count > 0 {
                write!(out, ", {count} {description}")?;
            }
        }
        if self.no_capture > 0 {
            write!(out, "; {} without a capture", Counted(self.no_capture, "expectation"))?;
        }
        writeln!(out)
    }
}

/// Width of a difference above which its values get a line each.
const WIDTH: usize = 116;

fn write_differences(differences: &[Difference], style: Style, out: &mut dyn Write) -> io::Result<()> {
    let nothing = || String::from("nothing");
    let shown = |value: &Value| Shown(value).to_string();
    let mut before: Option<&Line> = None;
    for Difference { of, change } in differences {
        let subject = Subject(of);
        let values = match change {
            Change::Missing => {
                writeln!(out, "  {} {subject}", style.red("missing:"))?;
                None
            }
            Change::New => {
                writeln!(out, "  {} {subject}", style.red("new:"))?;
                None
            }
            Change::LostField { field, expected, lines: lines @ 2.. } => {
                let field = style.bold(Plain(field));
                writeln!(
                    out,
                    "  field {field} is gone from {lines} lines, first from {subject}: expected {}",
                    Shown(expected)
                )?;
                None
            }
            Change::NewField { field, found, lines: lines @ 2.. } => {
                let field = style.bold(Plain(field));
                writeln!(
                    out,
                    "  field {field} is new in {lines} lines, first in {subject}: found {}",
                    Shown(found)
                )?;
                None
            }
            Change::Moved { expected, found } => {
                Some(("index among lines of its type", expected.to_string(), found.to_string()))
            }
            Change::Changed { field, expected, found } => {
                Some((field.as_str(), shown(expected), shown(found)))
            }
            Change::LostField { field, expected, .. } => Some((field.as_str(), shown(expected), nothing())),
            Change::NewField { field, found, .. } => Some((field.as_str(), nothing(), shown(found))),
        };
        let Some((field, expected, found)) = values else {
            before = None;
            continue;
        };
        if !before.is_some_and(|before| Arc::ptr_eq(before, of)) {
            writeln!(out, "  {subject}")?;
            before = Some(of);
        }
        write_values(field, &expected, &found, style, out)?;
    }
    Ok(())
}

fn write_values(
    field: &str,
    expected: &str,
    found: &str,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let field = Plain(field).to_string();
    let columns: usize = [&field, expected, found].iter().map(|part| part.chars().count()).sum();
    let (field, found) = (style.bold(field), style.red(found));
    if columns + "    : expected , found ".len() <= WIDTH {
        return writeln!(out, "    {field}: expected {expected}, found {found}");
    }
    writeln!(out, "    {field}:\n      expected {expected}\n      found    {found}")
}
