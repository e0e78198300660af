//! Outcomes, for people and for programs.

use super::Regress;
use super::compare::{Change, Difference};
use super::json::{DeviationLine, VerdictLine};
use super::lines::{Line, Object};
use super::perform::{Blessed, Outcome, Verdict};
use crate::output::{self, Format, Out, Status};
use core::fmt;
use rdmascope_present::json::write_line;
use rdmascope_present::text::{Counted, Plain, Style};
use serde_json::Value;
use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::Arc;

/// Writes outcomes as they come.
pub(super) struct Show<'a> {
    command: &'a Regress,
    style: Style,
    out: &'a mut Out,
    counts: Counts,
    status: Status,
}

/// How many files had which verdict.
#[derive(Default)]
struct Counts {
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

impl<'a> Show<'a> {
    pub(super) fn new(command: &'a Regress, style: Style, out: &'a mut Out) -> Show<'a> {
        Show { command, style, out, counts: Counts::default(), status: Status::Done }
    }

    /// Writes one outcome.
    pub(super) fn outcome(&mut self, outcome: &Outcome) -> io::Result<()> {
        self.count(outcome);
        match self.command.output.format {
            Format::Text => self.text(outcome)?,
            Format::Jsonl => self.lines(outcome)?,
        }
        if let Some(trouble) = trouble(outcome) {
            self.out.flush()?;
            output::tell(format_args!("{trouble}"));
        }
        Ok(())
    }

    fn count(&mut self, outcome: &Outcome) {
        let counts = &mut self.counts;
        counts.captures += u64::from(outcome.is_capture);
        counts.unlisted += u64::from(outcome.listed == Some(false));
        let (count, status) = match &outcome.verdict {
            Verdict::Same => (&mut counts.same, Status::Done),
            Verdict::Blessed(_) => (&mut counts.blessed, Status::Done),
            Verdict::Different { .. } => (&mut counts.different, Status::Differs),
            Verdict::NoExpectation => (&mut counts.no_expectation, Status::Differs),
            Verdict::NoCapture => (&mut counts.no_capture, Status::Differs),
            Verdict::Absent => (&mut counts.absent, Status::Failed),
            Verdict::OtherFile(_) => (&mut counts.other_files, Status::Failed),
            Verdict::Unreadable(_) => (&mut counts.unreadable, Status::Failed),
            Verdict::BrokenExpectation(_) => (&mut counts.broken, Status::Failed),
        };
        // Another file of a manifest is only told of where something is wrong with it.
        *count += u64::from(outcome.is_capture || status != Status::Done);
        self.status = self.status.max(status);
    }

    fn text(&mut self, outcome: &Outcome) -> io::Result<()> {
        let (style, out) = (self.style, &mut *self.out);
        let path = Plain(outcome.path.display());
        match &outcome.verdict {
            Verdict::Same if self.command.verbose && outcome.is_capture => writeln!(out, "{path}: same")?,
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
                        "  no findings were expected: an expectation of a version that did not judge has none; read them, \
                         then --bless"
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
                writeln!(out, "{path}: {}", style.yellow("an expectation, and no capture beside it"))?;
            }
            // Said on standard error; so here nothing needs to be.
            Verdict::Same
            | Verdict::Absent
            | Verdict::OtherFile(_)
            | Verdict::Unreadable(_)
            | Verdict::BrokenExpectation(_) => {}
        }
        if outcome.listed == Some(false) {
            writeln!(out, "{path}: {}", style.yellow("not listed in MANIFEST"))?;
        }
        Ok(())
    }

    fn lines(&mut self, outcome: &Outcome) -> io::Result<()> {
        let capture = outcome.path.to_string_lossy();
        if let Verdict::Different { differences, .. } = &outcome.verdict {
            for difference in differences {
                write_line(self.out, &DeviationLine::new(&capture, difference))?;
            }
        }
        if !outcome.is_capture && matches!(outcome.verdict, Verdict::Same) {
            return Ok(());
        }
        write_line(self.out, &VerdictLine::new(&capture, outcome))
    }

    /// Writes the summary; `others` are files that were left alone.
    pub(super) fn finish(self, others: u64) -> io::Result<Status> {
        if self.command.output.format == Format::Jsonl {
            return Ok(self.status);
        }
        let Counts { captures, same, different, .. } = self.counts;
        let counts = &self.counts;
        write!(self.out, "{}: {same} same", Counted(captures, "capture"))?;
        match self.command.bless {
            true => write!(self.out, ", {} blessed", counts.blessed)?,
            false => {
                write!(self.out, ", {different} different, {} without expectation", counts.no_expectation)?
            }
        }
        write!(self.out, ", {} unreadable", counts.unreadable)?;
        for (count, what) in [
            (counts.broken, "with a broken expectation"),
            (counts.other_files, "not the file that MANIFEST lists"),
            (counts.absent, "listed and not there"),
            (counts.unlisted, "not listed"),
        ] {
            if count > 0 {
                write!(self.out, ", {count} {what}")?;
            }
        }
        if counts.no_capture > 0 {
            write!(self.out, "; {} without a capture", Counted(counts.no_capture, "expectation"))?;
        }
        writeln!(self.out)?;
        if self.command.verbose {
            writeln!(
                self.out,
                "{} left alone: neither captures nor listed in a MANIFEST",
                Counted(others, "other file")
            )?;
        }
        Ok(self.status)
    }
}

/// What stands in the way of a verdict.
pub(super) fn trouble(outcome: &Outcome) -> Option<String> {
    match &outcome.verdict {
        Verdict::OtherFile(error) | Verdict::Unreadable(error) | Verdict::BrokenExpectation(error) => {
            Some(format!("{error:#}"))
        }
        Verdict::Absent => Some(format!("{}: listed in MANIFEST, and not there", outcome.path.display())),
        _ => None,
    }
}

/// Columns that a difference may have before its values get a line each.
const WIDTH: usize = 116;

fn write_differences(differences: &[Difference], style: Style, out: &mut Out) -> io::Result<()> {
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
                Some(("place among the others", expected.to_string(), found.to_string()))
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

fn write_values(field: &str, expected: &str, found: &str, style: Style, out: &mut Out) -> io::Result<()> {
    let field = Plain(field).to_string();
    let columns: usize = [&field, expected, found].iter().map(|part| part.chars().count()).sum();
    let (field, found) = (style.bold(field), style.red(found));
    if columns + "    : expected , found ".len() <= WIDTH {
        return writeln!(out, "    {field}: expected {expected}, found {found}");
    }
    writeln!(out, "    {field}:\n      expected {expected}\n      found    {found}")
}

/// A value as JSON, if not too long.
struct Shown<'a>(&'a Value);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 400;
        let text = Plain(self.0).to_string();
        match text.char_indices().nth(MOST) {
            Some((end, _)) => write!(f, "{}… ({} characters)", &text[..end], text.chars().count()),
            None => f.write_str(&text),
        }
    }
}

/// What a line is of, so that a person finds it in the capture.
pub(super) struct Subject<'a>(pub(super) &'a Object);

impl Subject<'_> {
    fn text(&self, field: &str) -> Option<&str> {
        self.0.get(field)?.as_str()
    }

    fn number(&self, field: &str) -> Option<u64> {
        self.0.get(field)?.as_u64()
    }

    /// The operations, or the procedure.
    fn operations(&self) -> Option<Cow<'_, str>> {
        let names = self.0.get("operations").and_then(Value::as_array);
        let names: Vec<&str> = names.into_iter().flatten().filter_map(Value::as_str).collect();
        match names.is_empty() {
            true => self.text("name").map(Cow::Borrowed),
            false => Some(Cow::Owned(names.join(" "))),
        }
    }

    /// Where to look first.
    pub(super) fn frame(&self) -> Option<u64> {
        let messages = ["call", "reply"].into_iter().filter_map(|message| self.0.get(message));
        let of_message = messages.filter_map(|message| message.get("frame")?.as_u64()).next();
        of_message.or_else(|| self.0.get("frames")?.get(0)?.as_u64())
    }

    /// The rule of a finding, how much it weighs and whether it stands, what it is about, its frames, and what it says.
    fn finding(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |field| Plain(self.text(field).unwrap_or("?"));
        write!(f, "finding {} ({}, {})", word("rule"), word("level"), word("verdict"))?;
        if let Some(xid) = self.text("xid") {
            write!(f, ", XID {}", Plain(xid))?;
        }
        if let Some(connection) = self.number("connection") {
            write!(f, ", connection {connection}")?;
        }
        if let Some(direction) = self.text("direction") {
            write!(f, " {}", Plain(direction))?;
        }
        let frames = self.0.get("frames").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for (index, frame) in frames.iter().enumerate() {
            let separator = match (index, frames.len()) {
                (0, 1) => ", frame ",
                (0, _) => ", frames ",
                _ => " ",
            };
            write!(f, "{separator}{}", Shown(frame))?;
        }
        match self.text("message") {
            Some(message) => write!(f, ": {}", Plain(message)),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unknown = || Cow::Borrowed("?");
        match self.text("type") {
            Some("capture") => f.write_str("the capture"),
            Some("connection") => {
                write!(f, "connection {}", self.number("connection").unwrap_or_default())?;
                for (separator, end) in [(" from", "requester"), (" to", "responder")] {
                    let end = self.0.get(end);
                    let part = |field: &str| end.and_then(|end| end.get(field)?.as_str()).unwrap_or("?");
                    write!(f, "{separator} {} QP {}", Plain(part("address")), Plain(part("qpn")))?;
                }
                Ok(())
            }
            Some("transaction") => {
                let xid = self.text("xid").unwrap_or("?");
                write!(f, "transaction {} {}", Plain(xid), Plain(self.operations().unwrap_or_else(unknown)))?;
                let direction = Plain(self.text("direction").unwrap_or("?"));
                write!(f, ", connection {} {direction}", self.number("connection").unwrap_or_default())?;
                match self.frame() {
                    Some(frame) => write!(f, ", frame {frame}"),
                    None => Ok(()),
                }
            }
            Some("finding") => self.finding(f),
            _ => write!(f, "{}", Shown(&Value::Object(self.0.clone()))),
        }
    }
}
