//! Triggers: the conditions for captures.

use super::recorder::Recorder;
use super::window::{Trigger, Window};
use crate::filters::similar;
use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use rdmascope_analysis::events::Kind;
use rdmascope_analysis::filter::operation_names;
use rdmascope_analysis::live::{Captured, Happening};
use rdmascope_analysis::names::{Failure, Label};
use rdmascope_analysis::report::Key;
use rdmascope_analysis::time::{Rfc3339, parse_duration};
use rdmascope_analysis::units::Duration;
use rdmascope_capture_agent::{Description, Note, NoteKind};
use rdmascope_conformance::{Finding, Level, Verdict, rules};
use rdmascope_dissector::record::{LinkType, Record, Time};
use rdmascope_dissector::transaction::Transaction;
use rdmascope_present::words;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The options for triggers.
#[derive(Args, Debug)]
#[command(next_help_heading = "Triggered captures")]
pub(super) struct Arguments {
    /// Write a capture around this condition: a rule, a level of rules, an event, `latency>TIME`,
    /// `OPERATION>TIME`, `error`, or `drop`
    ///
    /// Several conditions may be given. `credit-limit` is a rule; `violation`, `warning` and
    /// `advice` are all rules of a level; `service-lost` is an event of `rdmascope events`;
    /// `latency>5ms` is a call that took longer, and `write>20ms` one of this operation; `error` is
    /// a reply with an error; `drop` is a packet dropped by the kernel. Inconclusive and allowed
    /// findings do not count.
    #[arg(long = "trigger", value_name = "CONDITION", value_delimiter = ',')]
    conditions: Vec<Condition>,
    /// Folder for these captures
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    trigger_folder: PathBuf,
    /// Time covered before the call or event of the condition began
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    trigger_before: u64,
    /// Time covered after the condition
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_duration)]
    trigger_after: u64,
    /// Memory for packets, in MiB
    #[arg(long, value_name = "SIZE", default_value_t = 64, value_parser = clap::value_parser!(u64).range(2..=65_536))]
    trigger_memory: u64,
    /// Maximum number of captures
    #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    trigger_files: u64,
}

/// A condition for a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Condition {
    /// A finding of this rule.
    Rule(&'static str),
    /// A finding of a rule of this level.
    Level(Level),
    /// An event of this kind.
    Event(Kind),
    /// A transaction that takes longer than this, in nanoseconds: of any operation, or of one.
    Latency(Option<String>, u64),
    /// A reply with an error.
    Error,
    /// Dropped packets.
    Drop,
}

impl FromStr for Condition {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Condition> {
        if let Some((operation, time)) = text.split_once('>') {
            let time = parse_duration(time.trim()).with_context(|| format!("invalid time {time:?}"))?;
            let operation = operation.trim();
            if operation.eq_ignore_ascii_case("latency") {
                return Ok(Condition::Latency(None, time));
            }
            let is_known = operation_names().iter().any(|name| name.eq_ignore_ascii_case(operation));
            ensure!(is_known, "unknown operation {operation:?}{}", near(operation, operation_names()));
            return Ok(Condition::Latency(Some(operation.to_ascii_uppercase()), time));
        }
        let levels = [Level::Violation, Level::Warning, Level::Advice];
        if let Some(level) = levels.into_iter().find(|level| words::level(*level) == text) {
            return Ok(Condition::Level(level));
        }
        if let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.word() == text) {
            return Ok(Condition::Event(kind));
        }
        match text {
            "error" => return Ok(Condition::Error),
            "drop" => return Ok(Condition::Drop),
            _ => {}
        }
        match rdmascope_conformance::rule(text) {
            Some(rule) => Ok(Condition::Rule(rule.id)),
            None => {
                let names = rules().map(|rule| rule.id).chain(Kind::ALL.map(Kind::word));
                let others = ["violation", "warning", "advice", "error", "drop"];
                bail!("unknown rule, event or latency condition {text:?}{}", near(text, names.chain(others)))
            }
        }
    }
}

/// A suggestion of similar names.
fn near(text: &str, names: impl IntoIterator<Item = &'static str>) -> String {
    match similar(text, names).as_slice() {
        [] => String::new(),
        near => format!("; did you mean {}?", near.join(" or ")),
    }
}

/// Watches for the conditions.
#[derive(Debug)]
pub(super) struct Triggers {
    conditions: Vec<Condition>,
    recorder: Recorder,
    before: i64,
    after: i64,
    folder: PathBuf,
    /// Number of captures that may still be written.
    left: u64,
    /// Number of times that a condition came true without a capture: the limit was reached, or
    /// writing failed.
    missed: u64,
    interfaces: Vec<Description>,
    /// The latest inventory of connections, which pairs half-flows in a capture that starts later.
    inventory: Vec<u8>,
    window: Option<Window>,
}

impl Triggers {
    /// Returns `None` without conditions. `interfaces` are the sources of the packets, with this link
    /// type.
    pub(super) fn new(
        arguments: &Arguments,
        interfaces: &[String],
        link: LinkType,
    ) -> Result<Option<Triggers>> {
        let Arguments { conditions, trigger_folder: folder, .. } = arguments;
        if conditions.is_empty() {
            return Ok(None);
        }
        ensure!(
            folder.is_dir(),
            "{}: no such folder; use --trigger-folder with an existing one",
            folder.display()
        );
        let describe =
            |name: &String| Description { link, name: name.clone(), filter: String::new(), snap_length: 0 };
        let nanoseconds = |time: u64| i64::try_from(time).unwrap_or(i64::MAX);
        Ok(Some(Triggers {
            conditions: conditions.clone(),
            recorder: Recorder::new(usize::try_from(arguments.trigger_memory << 20).unwrap_or(usize::MAX)),
            before: nanoseconds(arguments.trigger_before),
            after: nanoseconds(arguments.trigger_after),
            folder: folder.clone(),
            left: arguments.trigger_files,
            missed: 0,
            interfaces: interfaces.iter().map(describe).collect(),
            inventory: Vec::new(),
            window: None,
        }))
    }

    /// The folder of the captures.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether dropped packets are a condition.
    pub(super) fn wait_for_drops(&self) -> bool {
        self.has(|condition| *condition == Condition::Drop)
    }

    /// Number of times that a condition came true without a capture.
    pub(super) fn missed(&self) -> u64 {
        self.missed
    }

    /// Takes a note of the capture.
    pub(super) fn note(&mut self, note: &Note) {
        if note.kind == NoteKind::Inventory {
            self.inventory.extend_from_slice(&note.bytes);
            if let Some(window) = &mut self.window {
                window.inventory(&note.bytes);
            }
        }
    }

    /// Keeps a packet.
    pub(super) fn record(&mut self, record: &Record<'_>) {
        self.recorder.push(record, |dropped| {
            if let Some(window) = &mut self.window {
                window.write(dropped.records());
            }
        });
        if record.dropped > 0 && self.wait_for_drops() {
            let reason = format!("{} packets dropped before this one", record.dropped);
            self.fire([record.time; 2], Some(record.number), "drop", reason);
        }
    }

    /// Takes a finding.
    pub(super) fn finding(&mut self, finding: &Finding, now: Time) {
        let (Verdict::Certain, Some(rule)) = (finding.verdict, finding.rule) else { return };
        if self.has(|condition| {
            *condition == Condition::Rule(rule.id) || *condition == Condition::Level(rule.level)
        }) {
            let reason = format!("{} {}: {}", words::level(rule.level), rule.id, finding.message);
            self.fire([now; 2], finding.frames.last().copied(), rule.id, reason);
        }
    }

    /// Takes note of a step back of the clock.
    pub(super) fn clock_stepped(&mut self) {
        if let Some(window) = &mut self.window {
            window.clock_stepped();
        }
    }

    /// Takes an event of a connection.
    pub(super) fn happening(&mut self, happening: &Happening) {
        let event = &happening.event;
        if !happening.is_again && self.has(|condition| *condition == Condition::Event(event.kind)) {
            let span = [event.time, event.time.plus(event.duration.unwrap_or(0))];
            let reason = format!("connection {}: {}", event.connection.0, event.text);
            self.fire(span, event.frames[1].or(event.frames[0]), event.kind.word(), reason);
        }
    }

    /// Takes a transaction that ended.
    pub(super) fn transaction(&mut self, transaction: &Transaction) {
        let latency = transaction.waited();
        let label = Label::of(transaction);
        let is_slow = |condition: &Condition| match condition {
            Condition::Latency(operation, above) => {
                latency.is_some_and(|latency| latency > *above)
                    && operation.as_ref().is_none_or(|name| label.to_string().eq_ignore_ascii_case(name))
            }
            _ => false,
        };
        let mut messages = transaction.messages();
        let Some((first, last)) = messages.next().map(|first| (first, messages.last().unwrap_or(first)))
        else {
            return;
        };
        let (span, frame) = ([first.first.time, last.seen.time], Some(last.seen.frame));
        if self.has(is_slow) {
            let took = Duration(latency.unwrap_or_default());
            let reason = format!("XID {:#010x}: {} took {took}", transaction.xid.0, Key::of(transaction));
            self.fire(span, frame, "latency", reason);
        }
        if Failure::of(transaction).is_some() && self.has(|condition| *condition == Condition::Error) {
            let reason = format!("XID {:#010x}: {} failed", transaction.xid.0, Key::of(transaction));
            self.fire(span, frame, "error", reason);
        }
    }

    fn has(&self, is_it: impl Fn(&Condition) -> bool) -> bool {
        self.conditions.iter().any(is_it)
    }

    /// Starts or extends a capture. The call or event lasted from `since` to `time`. `name` is the
    /// condition, for the name of the file.
    fn fire(&mut self, [since, time]: [Time; 2], frame: Option<u64>, name: &str, reason: String) {
        if self.left == 0 {
            self.missed += 1;
            return;
        }
        let trigger = Trigger { since, time, frame, reason };
        match &mut self.window {
            Some(window) => window.extend(trigger, self.after),
            None => self.window = Some(self.start(trigger, name)),
        }
    }

    fn start(&self, trigger: Trigger, name: &str) -> Window {
        let at: String =
            Rfc3339::from(trigger.time).as_str()[..23].chars().filter(|c| !"-:".contains(*c)).collect();
        let path = self.folder.join(format!("rdmascope-{at}-{name}.pcapng"));
        let notes = (self.interfaces.as_slice(), self.inventory.as_slice());
        Window::start(trigger, (self.before, self.after), path, notes, &self.recorder)
    }

    /// Whether a capture is complete at `now`.
    #[inline]
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.window.as_ref().is_some_and(|window| window.is_due(now))
    }

    /// Ends the capture that is due at `now`; at the end, also one that is not due yet.
    pub(super) fn write(&mut self, now: Time, is_over: bool) -> Option<Captured> {
        let mut window = self.window.take_if(|window| is_over || window.is_due(now))?;
        window.write(self.recorder.records());
        self.left -= 1;
        let captured = window.finish(self.left == 0);
        if captured.trouble.is_some() {
            self.missed += 1 + captured.further;
        }
        Some(captured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_parsed() {
        let parse = |text: &str| text.parse::<Condition>().map_err(|error| error.to_string());
        assert_eq!(parse("credit-limit"), Ok(Condition::Rule("credit-limit")));
        assert_eq!(parse("violation"), Ok(Condition::Level(Level::Violation)));
        assert_eq!(parse("service-lost"), Ok(Condition::Event(Kind::ServiceLost)));
        assert_eq!(parse("latency>5ms"), Ok(Condition::Latency(None, 5_000_000)));
        assert_eq!(parse("write > 1.5s"), Ok(Condition::Latency(Some("WRITE".into()), 1_500_000_000)));
        assert_eq!((parse("error"), parse("drop")), (Ok(Condition::Error), Ok(Condition::Drop)));
        assert_eq!(
            parse("credit-limt"),
            Err("unknown rule, event or latency condition \"credit-limt\"; did you mean credit-limit?".into())
        );
        for wrong in ["", "latency>", "latency>5", "latency>-1ms", "wrte>5ms", "latency<5ms"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
