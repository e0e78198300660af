//! What a trace says, for people.

use super::calls::Call;
use super::joining::{Disagreement, Witness};
use super::point::Role;
use super::steps::Step;
use crate::fold::Folding;
use crate::grid::{Grid, Group, Row};
use crate::text::{Bytes, Counted, Duration, Maybe, Number, Plain, Style};
use core::fmt::{self, Display};
use rdmascope_wire::Xid;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Disagreements that are told one by one.
const MOST_TOLD: usize = 20;

impl Witness {
    /// Writes the section about the trace. `alone` is for a trace without a capture: then it is all there is.
    pub fn write_text(&self, style: Style, out: &mut impl Write) -> io::Result<()> {
        let out = &mut Folding::new(out, style);
        let heading = format!("Kernel's trace {}", Plain(&self.trace.name));
        writeln!(out, "{}{}", if self.has_capture { "\n" } else { "" }, style.bold(heading))?;
        self.write_summary(style, out)?;
        if !self.has_capture {
            self.write_operations(style, out)?;
        }
        self.write_steps(style, out)?;
        self.write_disagreements(style, out)?;
        out.flush()
    }

    fn write_summary(&self, style: Style, out: &mut impl Write) -> io::Result<()> {
        for Said { name, text, is_warning } in self.summary() {
            match is_warning {
                true => writeln!(out, "  {name:14}{}", style.yellow(text))?,
                false => writeln!(out, "  {name:14}{text}")?,
            }
        }
        Ok(())
    }

    /// What is said of the trace as a whole, line by line.
    pub fn summary(&self) -> Vec<Said> {
        let trace = &self.trace;
        let mut said = Vec::new();
        let mut row = |name, text: String, is_warning| said.push(Said { name, text, is_warning });
        let unknown = match trace.unknown {
            0 => String::new(),
            unknown => format!(", {} of them not known here", Number(unknown)),
        };
        let (events, lines) = (Counted(trace.events, "event"), Counted(trace.lines, "line"));
        row("trace", format!("{events} in {lines}{unknown}"), false);
        if let Some((line, reason)) = trace.unread.first {
            let unread = Counted(trace.unread.lines, "line");
            row("unread", format!("{unread}; the first is line {line}: {reason}"), true);
        }
        if trace.lost.any() {
            let count: &dyn Display = match trace.lost.events {
                0 => &"some events",
                _ => &Counted(trace.lost.events, "event"),
            };
            row("lost", format!("{count} of the trace, as it says; what it lacks may be among them"), true);
        }
        if trace.beyond + self.beyond > 0 {
            let beyond = Counted(trace.beyond + self.beyond, "event");
            row("left out", format!("{beyond} and transactions beyond what is kept"), true);
        }
        if !self.has_capture {
            let calls = Counted(trace.calls.len() as u64, "transaction");
            row("origin", format!("kernel: {calls} as this host saw them; no packet is shown"), false);
            return said;
        }
        let (clock, is_warning) = self.tied();
        row("clock", clock, is_warning);
        let joined = &self.joined;
        let mut parts = vec![format!("{} joined by XID", Number(joined.joined))];
        for (count, what) in [
            (joined.only_in_trace, "that the capture lacks"),
            (joined.only_in_capture, "that the trace lacks"),
            (joined.ambiguous, "whose XID several have"),
            (joined.outside, "of the trace at other times or on other connections"),
        ] {
            if count > 0 {
                parts.push(format!("{} {what}", Number(count)));
            }
        }
        row("transactions", parts.join(", "), false);
        if self.backward_steps > 0 {
            let steps = Counted(self.backward_steps, "step");
            row("left out", format!("{steps} that would end before they begin"), true);
        }
        said
    }

    /// How the clock is tied, and whether that is less than it should be.
    fn tied(&self) -> (String, bool) {
        let clock = &self.clock;
        let agreeing: u64 = clock.windows.iter().map(|window| u64::from(window.agreeing)).sum();
        let disagreeing: u64 = clock.windows.iter().map(|window| u64::from(window.disagreeing)).sum();
        let Some(first) = clock.windows.first() else {
            let none = "not tied to the capture's: no transaction of both bounds the offset; steps between packets and trace are not known";
            return (none.to_owned(), true);
        };
        let offset = Offset(first.offset);
        let mut text = match clock.windows.as_slice() {
            [_] => format!("trace + {offset} = capture"),
            windows => format!(
                "trace + {offset} = capture at first, + {} at last; {} parts, as the clocks drift",
                Offset(windows[windows.len() - 1].offset),
                windows.len()
            ),
        };
        let uncertainty = clock.uncertainty();
        text += &match uncertainty {
            Some(uncertainty) => format!(", give or take {}", Duration(uncertainty)),
            None => ", bounded from one side only: the shortest way counts as no time".to_owned(),
        };
        text += &format!(" ({} agree", Counted(agreeing, "transaction"));
        if disagreeing + u64::from(clock.untied) > 0 {
            text += &format!(", {} do not", Number(disagreeing + u64::from(clock.untied)));
        }
        (text + ")", uncertainty.is_none())
    }

    /// The steps of one operation after the other: of each role, the operation first that took most time.
    pub fn by_operation(&self) -> Vec<&[Step]> {
        let mut of_operation: Vec<&[Step]> = self
            .steps
            .chunk_by(|one, other| (one.role, one.operation) == (other.role, other.operation))
            .collect();
        of_operation.sort_by_key(|steps| (steps[0].role, core::cmp::Reverse(total(steps))));
        of_operation
    }

    /// Operations as the trace alone tells them.
    fn write_operations(&self, style: Style, out: &mut impl Write) -> io::Result<()> {
        /// How many, how many of them failed, bytes in chunks, and latencies.
        type Sums = (u64, u64, u64, Vec<u64>);
        let mut by_name: BTreeMap<(Role, &str), Sums> = BTreeMap::new();
        for call in &self.trace.calls {
            let name = self.trace.name_of(call).unwrap_or(if call.backward { "callback" } else { "RPC" });
            let (count, errors, bytes, latencies) = by_name.entry((call.role, name)).or_default();
            *count += 1;
            *errors += u64::from(call.has_error);
            *bytes = bytes.saturating_add(advertised(call));
            latencies.extend(call.latency());
        }
        let groups = vec![
            Group { heading: "", gap: 1, columns: vec![("count", 7), ("errors", 6), ("in chunks", 9)] },
            Group {
                heading: "latency in the kernel",
                gap: 1,
                columns: ["min", "median", "p99", "max"].map(|name| (name, 8)).to_vec(),
            },
        ];
        let mut rows = Vec::new();
        let mut titled = None;
        for ((role, name), (count, errors, bytes, mut latencies)) in by_name {
            if titled != Some(role) {
                titled = Some(role);
                rows.push(Row::Title(role.title().to_owned()));
            }
            latencies.sort_unstable();
            let at = |percent: usize| {
                let rank = (latencies.len() * percent).div_ceil(100).max(1);
                latencies.get(rank - 1).copied()
            };
            let mut cells = vec![
                (Number(count).to_string(), false),
                (Number(errors).to_string(), errors > 0),
                (Maybe(Some(Bytes(bytes)).filter(|bytes| bytes.0 > 0)).to_string(), false),
            ];
            let latencies = [latencies.first().copied(), at(50), at(99), latencies.last().copied()];
            cells.extend(latencies.map(|time| (Maybe(time.map(Duration)).to_string(), false)));
            rows.push(Row::Cells(Plain(name).to_string(), cells));
        }
        if rows.is_empty() {
            return Ok(());
        }
        Grid { title: "Operations", names: 24, groups, rows }.write(style, out)
    }

    fn write_steps(&self, style: Style, out: &mut impl Write) -> io::Result<()> {
        if self.steps.is_empty() {
            return Ok(());
        }
        let mut rows = Vec::new();
        for steps in self.by_operation() {
            let whole = total(steps).max(1) as f64;
            let operation = self.operation(&steps[0]);
            rows.push(Row::Title(format!("{}: {}", steps[0].role.title(), Plain(operation))));
            for step in steps {
                let mut cells = vec![
                    step.from.word().to_owned(),
                    step.to.word().to_owned(),
                    Number(step.count()).to_string(),
                ];
                let times = [step.minimum(), step.percentile(50), step.percentile(99), step.maximum()];
                cells.extend(times.map(|time| Duration(time).to_string()));
                cells.push(format!("{:.1}", step.total() as f64 * 100.0 / whole));
                rows.push(Row::Cells(step.holds(), cells.into_iter().map(|cell| (cell, false)).collect()));
            }
        }
        let times = ["min", "median", "p99", "max"].map(|name| (name, 8));
        let groups = vec![
            Group { heading: "", gap: 1, columns: vec![("from", 14), ("to", 14), ("count", 7)] },
            Group { heading: "time", gap: 1, columns: times.to_vec() },
            Group { heading: "", gap: 1, columns: vec![("%", 5)] },
        ];
        Grid { title: "Where the time of the host went", names: 52, groups, rows }.write(style, out)
    }

    fn write_disagreements(&self, style: Style, out: &mut impl Write) -> io::Result<()> {
        if !self.has_capture {
            return Ok(());
        }
        writeln!(out, "\n{}", style.bold("Where kernel and wire disagree"))?;
        if self.joined.joined == 0 {
            return writeln!(out, "  Not known: the trace and the capture have no transaction in common.");
        }
        if self.counts.is_empty() {
            return writeln!(out, "  Nowhere: what both tell of a transaction is the same.");
        }
        for (about, count) in &self.counts {
            writeln!(out, "  {}  {}", style.red(format_args!("{:>10}", Number(*count))), about.word())?;
        }
        for one in self.disagreements.iter().take(MOST_TOLD) {
            writeln!(out, "    {}", Told(one))?;
        }
        let all: u64 = self.counts.values().sum();
        match all.checked_sub(MOST_TOLD as u64) {
            Some(further) if further > 0 => {
                writeln!(
                    out,
                    "    and {} more: --format jsonl has up to {}",
                    Number(further),
                    Witness::MOST_DISAGREEMENTS
                )
            }
            _ => Ok(()),
        }
    }
}

/// Bytes of memory that a call advertised.
pub(crate) fn advertised(call: &Call) -> u64 {
    let Some(chunks) = call.chunks.as_deref() else { return 0 };
    let reads = chunks.reads.iter().map(|(_, segment)| segment.length);
    let others = chunks.writes.iter().chain(&chunks.reply).map(|segment| segment.length);
    reads.chain(others).map(u64::from).sum()
}

/// The time of all of them.
fn total(steps: &[Step]) -> u64 {
    steps.iter().fold(0, |sum, step| sum.saturating_add(step.total()))
}

/// What is said of a trace under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// What it is about.
    pub name: &'static str,
    /// What is said.
    pub text: String,
    /// Something may be wrong, or lacking.
    pub is_warning: bool,
}

/// A disagreement as a line.
struct Told<'a>(&'a Disagreement);

impl Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Told(one) = *self;
        write!(
            f,
            "xid {} {}: kernel {}",
            Xid(one.xid),
            one.difference.about.word(),
            Plain(&one.difference.kernel)
        )?;
        if let Some(line) = one.line {
            write!(f, " (line {line})")?;
        }
        write!(f, ", wire {}", Plain(&one.difference.wire))?;
        one.frame.map_or(Ok(()), |frame| write!(f, " (frame {frame})"))
    }
}

/// Nanoseconds as seconds with all digits.
struct Offset(i64);

impl Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let nanoseconds = self.0.unsigned_abs();
        write!(f, "{sign}{}.{:09} s", nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000)
    }
}
