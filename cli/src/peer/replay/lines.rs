//! Output lines of a replay: one for each call, and a summary.

mod columns;

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(in crate::peer) use columns::LISTS;
pub(in crate::peer::replay) use columns::{REPLAY_END, REPLAYED};

use crate::output::Format;
use crate::peer::recording::Read;
use core::fmt;
use rdmascope_analysis::units::{Counted, Duration, Plain};
use rdmascope_peer::driver::Counts;
use rdmascope_peer::replay::{self, Aspect, Comparison, Conveyed, Outcome, Subject, Verdict, procedure_name};
use rdmascope_present::json::write_line;
use rdmascope_present::text::Style;
use rdmascope_tui::inject::{self, SentCall};
use rdmascope_wire::Xid;
use std::io::{self, Write};

/// A repeated call or a connection.
#[derive(Debug)]
pub(super) struct Replayed {
    connection: u32,
    transaction: Option<u64>,
    direction: Option<&'static str>,
    xid: Option<Xid>,
    name: Option<String>,
    verdict: &'static str,
    own: usize,
    understood: bool,
    differences: Vec<Difference>,
    may_differ: Vec<Difference>,
    reason: Option<String>,
    unknown: Vec<Unknown>,
    latency_ns: Option<u64>,
}

#[derive(Debug)]
struct Difference {
    /// `content`, `granted` or `conveyance`.
    kind: &'static str,
    operation: Option<String>,
    field: String,
    recorded: String,
    live: String,
    section: Option<&'static str>,
}

impl Difference {
    fn of(kind: &'static str, difference: &replay::Difference) -> Difference {
        Difference {
            kind,
            operation: difference.operation.map(|(_, name)| name.to_owned()),
            field: difference.field.to_owned(),
            recorded: difference.recorded.clone(),
            live: difference.live.clone(),
            section: None,
        }
    }

    fn conveyed(conveyed: &Conveyed) -> Difference {
        let operation = match conveyed.aspect {
            Aspect::Item(operation, _) => operation.map(|(_, name)| name.to_owned()),
            _ => None,
        };
        Difference {
            kind: "conveyance",
            operation,
            field: conveyed.aspect.to_string(),
            recorded: conveyed.recorded.clone(),
            live: conveyed.live.clone(),
            section: Some(conveyed.section),
        }
    }
}

/// A name in a call that no reply supplied.
#[derive(Debug)]
struct Unknown {
    field: &'static str,
    bytes: String,
}

impl Replayed {
    pub(super) fn new(outcome: &Outcome, read: &Read) -> Replayed {
        let recording = &read.recording;
        let number = |index: usize| recording.connections.get(index).map_or(0, |known| known.number);
        let mut line = Replayed {
            connection: 0,
            transaction: None,
            direction: None,
            xid: None,
            name: None,
            verdict: "agrees",
            own: 0,
            understood: true,
            differences: Vec::new(),
            may_differ: Vec::new(),
            reason: None,
            unknown: Vec::new(),
            latency_ns: outcome.latency.and_then(|latency| u64::try_from(latency.as_nanos()).ok()),
        };
        match outcome.subject {
            Subject::Connection(index) => line.connection = number(index),
            Subject::Call(index) => {
                let call = &recording.calls[index];
                line.connection = number(call.connection);
                (line.transaction, line.xid) = (Some(call.number), Some(call.xid));
                line.direction = Some(if call.backward { "backward" } else { "forward" });
                line.name = read.names.get(&call.number).cloned();
            }
            Subject::Extra(index, called) => {
                line.connection = number(index);
                line.direction = Some("backward");
                line.name = called.and_then(procedure_name).map(ToOwned::to_owned);
            }
        }
        let mut compared = |comparison: &Comparison| {
            (line.own, line.understood) = (comparison.own, comparison.understood);
            let content = comparison.differences.iter();
            line.differences.extend(content.map(|difference| Difference::of("content", difference)));
            let granted = comparison.granted.iter();
            line.may_differ.extend(granted.map(|difference| Difference::of("granted", difference)));
            for conveyed in &comparison.conveyance {
                let list = if conveyed.counts { &mut line.differences } else { &mut line.may_differ };
                list.push(Difference::conveyed(conveyed));
            }
        };
        match &outcome.verdict {
            Verdict::Agrees(comparison) => compared(comparison),
            Verdict::Differs(comparison) => {
                compared(comparison);
                line.verdict = "differs";
            }
            Verdict::Unanswered => line.verdict = "unanswered",
            Verdict::NotCompared(why) => {
                (line.verdict, line.reason) = ("not-compared", Some((*why).to_owned()));
            }
            Verdict::Otherwise { recorded, live } => {
                (line.verdict, line.reason) = ("differs", Some(format!("recorded: {recorded}; now: {live}")));
            }
            Verdict::NotSent(why) => (line.verdict, line.reason) = ("not-sent", Some(why.clone())),
            Verdict::Skipped(why) => (line.verdict, line.reason) = ("skipped", Some(why.clone())),
        }
        let unknown = outcome.unknown.iter();
        line.unknown = unknown.map(|(field, bytes)| Unknown { field, bytes: bytes.clone() }).collect();
        line
    }

    /// Converts the line for the terminal UI.
    pub(super) fn on_screen(self, outcome: &Outcome) -> SentCall {
        let convert = |difference: Difference, is_allowed| {
            let operation = difference.operation.map(|operation| format!("{operation} "));
            inject::Difference {
                field: format!("{}{}", operation.unwrap_or_default(), difference.field),
                recorded: difference.recorded,
                live: difference.live,
                is_allowed,
            }
        };
        let unknown = |Unknown { field, bytes }: Unknown| {
            format!("{field} {bytes}: supplied by no reply, sent as recorded")
        };
        let (instead, reason) = match &outcome.verdict {
            Verdict::Otherwise { recorded, live } => (Some((recorded.clone(), live.clone())), None),
            _ => (None, self.reason),
        };
        let instead = instead.map(|(recorded, live)| inject::Difference {
            field: "event".into(),
            recorded,
            live,
            is_allowed: false,
        });
        let differences = self.differences.into_iter().map(|difference| convert(difference, false));
        let may_differ = self.may_differ.into_iter().map(|difference| convert(difference, true));
        let name = self.name.unwrap_or_else(|| format!("connection {}", self.connection));
        SentCall {
            transaction: self.transaction,
            name: match self.direction {
                Some("backward") => format!("backward {name}"),
                _ => name,
            },
            is_difference: matches!(self.verdict, "differs" | "not-sent"),
            verdict: self.verdict,
            latency: self.latency_ns,
            differences: instead.into_iter().chain(differences).chain(may_differ).collect(),
            notes: reason.into_iter().chain(self.unknown.into_iter().map(unknown)).collect(),
        }
    }

    /// Returns whether the line is worth printing without `--all`.
    pub(super) fn is_noteworthy(&self) -> bool {
        self.verdict != "agrees" || !self.unknown.is_empty()
    }
}

/// The summary of all calls.
#[derive(Debug, Default)]
pub(super) struct Summary {
    calls: u64,
    agree: u64,
    differ: u64,
    unanswered: u64,
    not_compared: u64,
    not_sent: u64,
    skipped: u64,
    not_understood: u64,
    own: usize,
    granted_differ: u64,
    conveyance_differ: u64,
    conveyance_may_differ: u64,
    connections_differ: u64,
    pub(super) counts: Counts,
}

impl Summary {
    pub(super) fn add(&mut self, outcome: &Outcome) {
        if let Subject::Connection(_) = outcome.subject {
            self.connections_differ += u64::from(outcome.verdict.is_difference());
            return;
        }
        self.calls += 1;
        if let Verdict::Agrees(comparison) | Verdict::Differs(comparison) = &outcome.verdict {
            self.own += comparison.own;
            self.not_understood += u64::from(!comparison.understood);
            self.granted_differ += u64::from(!comparison.granted.is_empty());
            self.conveyance_differ += u64::from(comparison.is_conveyed_otherwise());
            self.conveyance_may_differ +=
                u64::from(comparison.conveyance.iter().any(|conveyed| !conveyed.counts));
        }
        let count = match &outcome.verdict {
            Verdict::Agrees(_) => &mut self.agree,
            Verdict::Differs(_) | Verdict::Otherwise { .. } => &mut self.differ,
            Verdict::Unanswered => &mut self.unanswered,
            Verdict::NotCompared(_) => &mut self.not_compared,
            Verdict::NotSent(_) => &mut self.not_sent,
            Verdict::Skipped(_) => &mut self.skipped,
        };
        *count += 1;
    }

    pub(super) fn is_agreement(&self) -> bool {
        self.differ + self.not_sent + self.connections_differ == 0
    }
}

pub(super) fn print(line: &Replayed, format: Format, style: Style, out: &mut impl Write) -> io::Result<()> {
    match format {
        Format::Jsonl => write_line(out, &REPLAYED.of(line))?,
        Format::Text => writeln!(out, "{}", Shown(line, style))?,
    }
    out.flush()
}

pub(super) fn print_summary(
    summary: &Summary,
    format: Format,
    style: Style,
    out: &mut impl Write,
) -> io::Result<()> {
    if format == Format::Jsonl {
        return write_line(out, &REPLAY_END.of(summary));
    }
    let Summary { calls, agree, differ, unanswered, not_compared, not_sent, own, .. } = summary;
    let red = |count: &u64, word: &str| style.red_if(*count > 0, format!("{count} {word}")).to_string();
    write!(out, "{}: {agree} agree, {}", Counted(*calls, "call"), red(differ, "differ"))?;
    let others = [
        (unanswered, "without a reply, as recorded"),
        (not_compared, "not compared"),
        (&summary.skipped, "skipped"),
    ];
    for (count, word) in others {
        if *count > 0 {
            write!(out, ", {count} {word}")?;
        }
    }
    if *not_sent > 0 {
        write!(out, ", {}", red(not_sent, "not sent"))?;
    }
    if summary.connections_differ > 0 {
        let differ =
            if summary.connections_differ == 1 { "connection differs" } else { "connections differ" };
        write!(out, "; {}", red(&summary.connections_differ, differ))?;
    }
    writeln!(out)?;
    if summary.conveyance_differ > 0 {
        let calls = Counted(summary.conveyance_differ, "call");
        writeln!(out, "{}", style.red(format!("{calls}: the reply is conveyed differently than recorded")))?;
    }
    if summary.granted_differ > 0 {
        let calls = Counted(summary.granted_differ, "call");
        writeln!(out, "{calls}: the reply has other grants, which is allowed: --all shows them")?;
    }
    if summary.conveyance_may_differ > 0 {
        let calls = Counted(summary.conveyance_may_differ, "call");
        writeln!(out, "{calls}: the reply is conveyed differently, which is allowed: --all shows them")?;
    }
    if *own > 0 {
        writeln!(out, "{own} differences in fields that may differ: handles, times, verifiers and the like")?;
    }
    if summary.not_understood > 0 {
        writeln!(
            out,
            "{} replies could not be decoded completely: compared as bytes",
            summary.not_understood
        )?;
    }
    let Counts { sent, good, bad, unverified, .. } = summary.counts;
    let bad = style.red_if(bad > 0, format!("{bad} bad"));
    writeln!(out, "{sent} packets sent; ICRCs received: {good} good, {bad}, {unverified} unverified")
}

pub(super) struct Shown<'a>(pub(super) &'a Replayed, pub(super) Style);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shown(line, style) = self;
        write!(f, "connection {}", line.connection)?;
        if let Some(number) = line.transaction {
            write!(f, ", transaction {number}")?;
        }
        if line.direction == Some("backward") {
            f.write_str(", backward")?;
        }
        if let Some(name) = &line.name {
            write!(f, " {}", Plain(name))?;
        }
        f.write_str(": ")?;
        match (line.verdict, &line.reason) {
            ("differs" | "not-sent", _) => write!(f, "{}", style.red(line.verdict))?,
            (verdict, _) => f.write_str(verdict)?,
        }
        if let Some(reason) = &line.reason {
            write!(f, ": {}", Plain(reason))?;
        }
        if let Some(latency) = line.latency_ns {
            write!(f, " after {}", Duration(latency))?;
        }
        let differences = line.differences.iter().map(|difference| (difference, ""));
        let notes = line.may_differ.iter().map(|difference| (difference, "; may differ"));
        for (difference, note) in differences.chain(notes) {
            let Difference { kind, operation, field, recorded, live, section } = difference;
            f.write_str("\n  ")?;
            if *kind != "content" {
                write!(f, "{kind}: ")?;
            }
            if let Some(operation) = operation {
                write!(f, "{operation} ")?;
            }
            write!(f, "{field}: recorded {}, now {}", Plain(recorded), Plain(live))?;
            if let Some(section) = section {
                write!(f, " ({section}{note})")?;
            }
        }
        for Unknown { field, bytes } in &line.unknown {
            write!(f, "\n  {field} {bytes}: supplied by no reply, sent as recorded")?;
        }
        Ok(())
    }
}
