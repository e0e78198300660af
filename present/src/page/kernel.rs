//! The text section about a kernel trace.

use crate::fold::Folding;
use crate::grid::{Grid, Group, Row};
use crate::text::{Maybe, Style};
use core::fmt::{self, Display};
use rdmascope_analysis::kernel::{Disagreement, Role, Step, TraceResults};
use rdmascope_analysis::units::{Bytes, Counted, Duration, Number, Plain};
use rdmascope_wire::Xid;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The most disagreements that are listed individually.
const MOST_LISTED: usize = 20;

/// The section about a kernel trace.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a>(pub &'a TraceResults);

impl Text<'_> {
    /// Writes the section. Without a capture, it is the whole output.
    pub fn write(self, style: Style, out: &mut dyn Write) -> io::Result<()> {
        let out = &mut Folding::new(out, style);
        let heading = format!("Kernel trace {}", Plain(&self.0.trace.name));
        writeln!(out, "{}{}", if self.0.has_capture { "\n" } else { "" }, style.bold(heading))?;
        self.write_summary(style, out)?;
        if !self.0.has_capture {
            self.write_operations(style, out)?;
        }
        self.write_steps(style, out)?;
        self.write_disagreements(style, out)?;
        out.flush()
    }

    fn write_summary(self, style: Style, out: &mut dyn Write) -> io::Result<()> {
        for Property { name, text, is_warning } in self.summary() {
            match is_warning {
                true => writeln!(out, "  {name:14}{}", style.yellow(text))?,
                false => writeln!(out, "  {name:14}{text}")?,
            }
        }
        Ok(())
    }

    /// The properties of the trace as a whole, one per line.
    pub fn summary(self) -> Vec<Property> {
        let trace = &self.0.trace;
        let mut properties = Vec::new();
        let mut row = |name, text: String, is_warning| properties.push(Property { name, text, is_warning });
        let unknown = match trace.unknown {
            0 => String::new(),
            unknown => format!(", {} of unknown types", Number(unknown)),
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
            row("lost", format!("{count} lost while tracing; missing data may be among them"), true);
        }
        if trace.beyond + self.0.beyond > 0 {
            let beyond = Counted(trace.beyond + self.0.beyond, "event");
            row("left out", format!("{beyond} and transactions beyond the limits"), true);
        }
        if !self.0.has_capture {
            let calls = Counted(trace.calls.len() as u64, "transaction");
            row("origin", format!("kernel: {calls} as seen by this host; no packets"), false);
            return properties;
        }
        let (clock, is_warning) = self.tied();
        row("clock", clock, is_warning);
        let joined = &self.0.joined;
        let mut parts = vec![format!("{} matched by XID", Number(joined.joined))];
        for (count, description) in [
            (joined.only_in_trace, "missing from the capture"),
            (joined.only_in_capture, "missing from the trace"),
            (joined.ambiguous, "with an ambiguous XID"),
            (joined.outside, "at other times or on other connections"),
        ] {
            if count > 0 {
                parts.push(format!("{} {description}", Number(count)));
            }
        }
        row("transactions", parts.join(", "), false);
        if joined.without_segments > 0 {
            let calls = Counted(joined.without_segments, "transaction");
            row(
                "not compared",
                format!("chunk lists of {calls}: the trace lacks events of their segments"),
                true,
            );
        }
        if self.0.backward_steps > 0 {
            let steps = Counted(self.0.backward_steps, "step");
            row("left out", format!("{steps} that would end before they begin"), true);
        }
        properties
    }

    /// Describes the clock offset, and whether this is a warning.
    fn tied(self) -> (String, bool) {
        let clock = &self.0.clock;
        let agreeing: u64 = clock.windows.iter().map(|window| u64::from(window.agreeing)).sum();
        let disagreeing: u64 = clock.windows.iter().map(|window| u64::from(window.disagreeing)).sum();
        let Some(first) = clock.windows.first() else {
            let none = "offset to the capture unknown: no common transaction bounds it; steps between packets and trace are unknown";
            return (none.to_owned(), true);
        };
        let offset = Offset(first.offset);
        let mut text = match clock.windows.as_slice() {
            [_] => format!("trace + {offset} = capture"),
            windows => format!(
                "trace + {offset} = capture at the start, + {} at the end; {} parts, because the clocks \
                 drift",
                Offset(windows[windows.len() - 1].offset),
                windows.len()
            ),
        };
        let uncertainty = clock.uncertainty();
        text += &match uncertainty {
            Some(uncertainty) => format!(", +/- {}", Duration(uncertainty)),
            None => ", bounded on one side only: the shortest transit is assumed to take no time".to_owned(),
        };
        text += &format!(" ({} agree", Counted(agreeing, "transaction"));
        if disagreeing + u64::from(clock.untied) > 0 {
            text += &format!(", {} do not", Number(disagreeing + u64::from(clock.untied)));
        }
        (text + ")", uncertainty.is_none())
    }

    /// Writes the operations according to the trace alone.
    fn write_operations(self, style: Style, out: &mut dyn Write) -> io::Result<()> {
        /// The number of calls, the number that failed, bytes in chunks, and latencies.
        type Sums = (u64, u64, u64, Vec<u64>);
        let mut by_name: BTreeMap<(Role, &str), Sums> = BTreeMap::new();
        for call in &self.0.trace.calls {
            let name = self.0.trace.name_of(call).unwrap_or(if call.backward { "callback" } else { "RPC" });
            let (count, errors, bytes, latencies) = by_name.entry((call.role, name)).or_default();
            *count += 1;
            *errors += u64::from(call.has_error);
            *bytes = bytes.saturating_add(call.advertised());
            latencies.extend(call.latency());
        }
        let groups = vec![
            Group { heading: "", gap: 1, columns: vec![("count", 7), ("errors", 6), ("in chunks", 9)] },
            Group::of_times("latency in the kernel", 8),
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

    fn write_steps(self, style: Style, out: &mut dyn Write) -> io::Result<()> {
        if self.0.steps.is_empty() {
            return Ok(());
        }
        let mut rows = Vec::new();
        for steps in self.0.by_operation() {
            let total = Step::total_of(steps).max(1) as f64;
            let operation = self.0.operation(&steps[0]);
            rows.push(Row::Title(format!("{}: {}", steps[0].role.title(), Plain(operation))));
            for step in steps {
                let mut cells = vec![
                    step.from.word().to_owned(),
                    step.to.word().to_owned(),
                    Number(step.count()).to_string(),
                ];
                let times = [step.minimum(), step.percentile(50), step.percentile(99), step.maximum()];
                cells.extend(times.map(|time| Duration(time).to_string()));
                cells.push(format!("{:.1}", step.total() as f64 * 100.0 / total));
                rows.push(Row::Cells(step.holds(), cells.into_iter().map(|cell| (cell, false)).collect()));
            }
        }
        let groups = vec![
            Group { heading: "", gap: 1, columns: vec![("from", 14), ("to", 14), ("count", 7)] },
            Group::of_times("time", 8),
            Group { heading: "", gap: 1, columns: vec![("%", 5)] },
        ];
        Grid { title: "Host time by step", names: 52, groups, rows }.write(style, out)
    }

    fn write_disagreements(self, style: Style, out: &mut dyn Write) -> io::Result<()> {
        if !self.0.has_capture {
            return Ok(());
        }
        writeln!(out, "\n{}", style.bold("Disagreements between kernel and wire"))?;
        if self.0.joined.joined == 0 {
            return writeln!(out, "  Unknown: the trace and the capture have no transaction in common.");
        }
        if self.0.counts.is_empty() {
            return writeln!(out, "  None: trace and capture agree on every common transaction.");
        }
        for (about, count) in &self.0.counts {
            writeln!(out, "  {}  {}", style.red(format_args!("{:>10}", Number(*count))), about.word())?;
        }
        for one in self.0.disagreements.iter().take(MOST_LISTED) {
            writeln!(out, "    {}", Line(one))?;
        }
        let all: u64 = self.0.counts.values().sum();
        match all.checked_sub(MOST_LISTED as u64) {
            Some(further) if further > 0 => {
                writeln!(
                    out,
                    "    and {} more: --format jsonl has up to {}",
                    Number(further),
                    TraceResults::MOST_DISAGREEMENTS
                )
            }
            _ => Ok(()),
        }
    }
}

/// A named property of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    /// The name of the property.
    pub name: &'static str,
    /// The text of the property.
    pub text: String,
    /// Whether something may be wrong or missing.
    pub is_warning: bool,
}

/// A disagreement as one line.
struct Line<'a>(&'a Disagreement);

impl Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Line(one) = *self;
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

/// Nanoseconds as seconds, with all digits.
struct Offset(i64);

impl Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let nanoseconds = self.0.unsigned_abs();
        write!(f, "{sign}{}.{:09} s", nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000)
    }
}
