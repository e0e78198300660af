//! What is captured around, and the captures.

use super::recorder::Recorder;
use crate::filters::nearest;
use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use rdmascope_analysis::events::Kind;
use rdmascope_analysis::filter::operation_names;
use rdmascope_analysis::live::{Captured, Happening};
use rdmascope_analysis::names::{Failure, Label};
use rdmascope_analysis::report::Key;
use rdmascope_analysis::time::{Rfc3339, parse_duration};
use rdmascope_analysis::units::Duration;
use rdmascope_capture_agent::new_file::{self, Unfinished};
use rdmascope_capture_agent::{Description, Note, NoteKind, PcapngWriter};
use rdmascope_conformance::{Finding, Level, Verdict, rules};
use rdmascope_dissector::record::{LinkType, Record, Time};
use rdmascope_dissector::transaction::Transaction;
use rdmascope_present::words;
use std::io::{self, BufWriter, ErrorKind};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// What is captured around, and how much.
#[derive(Args, Debug)]
#[command(next_help_heading = "Captures around what happens")]
pub(super) struct Arguments {
    /// Write a capture around this: a rule, a level of rules, an event, `latency>TIME`, `OPERATION>TIME`, `error`, or `drop`
    ///
    /// Several may be named. A rule: `credit-limit`; all rules of a level: `violation`, `warning`, `advice`; an event of `rdmascope events`:
    /// `service-lost`; a call that took longer: `latency>5ms`, or `write>20ms` of one operation; a reply that reports an error: `error`; packets
    /// that the kernel dropped: `drop`. Findings that are inconclusive or allowed do not count.
    #[arg(long = "trigger", value_name = "CONDITION", value_delimiter = ',')]
    conditions: Vec<Condition>,
    /// Folder for these captures
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    trigger_folder: PathBuf,
    /// How far they reach back
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    trigger_before: u64,
    /// How far they go on
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_duration)]
    trigger_after: u64,
    /// Memory for packets, in MiB
    #[arg(long, value_name = "SIZE", default_value_t = 64, value_parser = clap::value_parser!(u64).range(2..=65_536))]
    trigger_memory: u64,
    /// Write so many captures at most
    #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    trigger_files: u64,
}

/// Something to capture around.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Condition {
    /// A finding of this rule.
    Rule(&'static str),
    /// A finding of a rule of this level.
    Level(Level),
    /// An event of this kind.
    Event(Kind),
    /// A transaction that takes longer than so many nanoseconds: of any operation, or of one.
    Latency(Option<String>, u64),
    /// A reply that reports an error.
    Error,
    /// Packets that were dropped.
    Drop,
}

impl FromStr for Condition {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Condition> {
        if let Some((operation, time)) = text.split_once('>') {
            let time = parse_duration(time.trim()).with_context(|| format!("{time:?} is no time"))?;
            let operation = operation.trim();
            if operation.eq_ignore_ascii_case("latency") {
                return Ok(Condition::Latency(None, time));
            }
            let is_known = operation_names().iter().any(|name| name.eq_ignore_ascii_case(operation));
            ensure!(is_known, "no operation is called {operation:?}{}", near(operation, operation_names()));
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
                bail!(
                    "neither a rule nor an event nor a latency: {text:?}{}",
                    near(text, names.chain(others))
                )
            }
        }
    }
}

/// The names that may have been meant.
fn near(text: &str, names: impl IntoIterator<Item = &'static str>) -> String {
    match nearest(text, names).as_slice() {
        [] => String::new(),
        near => format!("; is it {}?", near.join(" or ")),
    }
}

/// Watches for what is captured around.
#[derive(Debug)]
pub(super) struct Triggers {
    conditions: Vec<Condition>,
    recorder: Recorder,
    before: i64,
    after: i64,
    folder: PathBuf,
    /// Captures that may still be written.
    left: u64,
    /// How often a condition came true and no capture was written: all were used up, or it could
    /// not be written.
    missed: u64,
    interfaces: Vec<Description>,
    /// The connections that the capture told of last: a capture of what comes in the middle knows its pairs by them.
    inventory: Vec<u8>,
    window: Option<Window>,
}

/// A capture that is to be written.
#[derive(Debug)]
struct Window {
    /// When the first thing came.
    time: Time,
    /// Until when it goes on.
    until: Time,
    /// What came: packets that show it, and words.
    reasons: Vec<(Option<u64>, String)>,
    further: u64,
    /// What the file is called by.
    name: String,
}

/// What a capture says beside its packets at most.
const MOST_REASONS: usize = 256;
/// A capture goes on while more comes, but no longer than so many times what was asked for.
const LONGEST: i64 = 5;

impl Triggers {
    /// Where nothing is to be captured around, there are none. `interfaces` are those that packets come from.
    pub(super) fn new(arguments: &Arguments, interfaces: &[String]) -> Result<Option<Triggers>> {
        let Arguments { conditions, trigger_folder: folder, .. } = arguments;
        if conditions.is_empty() {
            return Ok(None);
        }
        ensure!(folder.is_dir(), "{}: no such folder; --trigger-folder names one", folder.display());
        let describe = |name: &String| Description {
            link: LinkType::ETHERNET,
            name: name.clone(),
            filter: String::new(),
            snap_length: 0,
        };
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

    /// Where captures are written.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether packets that are dropped are captured around.
    pub(super) fn wait_for_drops(&self) -> bool {
        self.has(|condition| *condition == Condition::Drop)
    }

    /// How often something to capture around came by now, and no capture was written.
    pub(super) fn missed(&self) -> u64 {
        self.missed
    }

    /// Takes in what the capture says beside packets.
    pub(super) fn note(&mut self, note: &Note) {
        if note.kind == NoteKind::Inventory {
            self.inventory.clone_from(&note.bytes);
        }
    }

    /// Keeps a packet.
    pub(super) fn record(&mut self, record: &Record<'_>) {
        self.recorder.push(record);
        if record.dropped > 0 && self.wait_for_drops() {
            let reason = format!("{} packets dropped before this one", record.dropped);
            self.fire(record.time, Some(record.number), "drop", reason);
        }
    }

    /// Takes in what the judge found.
    pub(super) fn finding(&mut self, finding: &Finding, now: Time) {
        let (Verdict::Stands, Some(rule)) = (finding.verdict, finding.rule) else { return };
        if self.has(|condition| {
            *condition == Condition::Rule(rule.id) || *condition == Condition::Level(rule.level)
        }) {
            let reason = format!("{} {}: {}", words::level(rule.level), rule.id, finding.message);
            self.fire(now, finding.frames.last().copied(), rule.id, reason);
        }
    }

    /// Takes in what happened to a connection.
    pub(super) fn happening(&mut self, happening: &Happening) {
        let event = &happening.event;
        if !happening.is_again && self.has(|condition| *condition == Condition::Event(event.kind)) {
            let time = event.time.plus(event.duration.unwrap_or(0));
            let reason = format!("connection {}: {}", event.connection.0, event.text);
            self.fire(time, event.frames[1].or(event.frames[0]), event.kind.word(), reason);
        }
    }

    /// Takes in a transaction that ended.
    pub(super) fn transaction(&mut self, transaction: &Transaction) {
        let latency = transaction.latency();
        let label = Label::of(transaction);
        let is_slow = |condition: &Condition| match condition {
            Condition::Latency(operation, above) => {
                latency.is_some_and(|latency| latency > *above)
                    && operation.as_ref().is_none_or(|name| label.to_string().eq_ignore_ascii_case(name))
            }
            _ => false,
        };
        let Some(reply) = &transaction.reply else { return };
        let seen = reply.seen;
        if self.has(is_slow) {
            let took = Duration(latency.unwrap_or_default());
            let reason = format!("XID {:#010x}: {} took {took}", transaction.xid.0, Key::of(transaction));
            self.fire(seen.time, Some(seen.frame), "latency", reason);
        }
        if Failure::of(transaction).is_some() && self.has(|condition| *condition == Condition::Error) {
            let reason = format!("XID {:#010x}: {} failed", transaction.xid.0, Key::of(transaction));
            self.fire(seen.time, Some(seen.frame), "error", reason);
        }
    }

    fn has(&self, is_it: impl Fn(&Condition) -> bool) -> bool {
        self.conditions.iter().any(is_it)
    }

    /// Something came that is captured around.
    fn fire(&mut self, time: Time, frame: Option<u64>, name: &str, reason: String) {
        if self.left == 0 {
            self.missed += 1;
            return;
        }
        let until = Time(time.0.saturating_add(self.after));
        match &mut self.window {
            Some(window) => {
                let longest = window.time.0.saturating_add(self.after.saturating_mul(LONGEST));
                window.until = window.until.max(until).min(Time(longest));
                if window.reasons.len() < MOST_REASONS {
                    window.reasons.push((frame, reason));
                } else {
                    window.further += 1;
                }
            }
            None => {
                self.window = Some(Window {
                    time,
                    until,
                    reasons: vec![(frame, reason)],
                    further: 0,
                    name: name.to_owned(),
                });
            }
        }
    }

    /// Whether a capture is to be written at `now`.
    #[inline]
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.window.as_ref().is_some_and(|window| now > window.until)
    }

    /// Writes the capture that is due at `now`; where all is over, also one that is not.
    pub(super) fn write(&mut self, now: Time, is_over: bool) -> Option<Captured> {
        let window = self.window.take_if(|window| is_over || now > window.until)?;
        self.left -= 1;
        let from = Time(window.time.0.saturating_sub(self.before));
        let at: String =
            Rfc3339::from(window.time).as_str()[..23].chars().filter(|c| !"-:".contains(*c)).collect();
        let path = self.folder.join(format!("rdmascope-{at}-{}.pcapng", window.name));
        let written = write(&path, &self.interfaces, &self.inventory, self.recorder.records(), from, &window);
        let (packets, trouble) = match written {
            Ok(packets) => (packets, None),
            Err(error) => (0, Some(error.to_string())),
        };
        let Window { time, mut reasons, further, .. } = window;
        let further = further + reasons.len() as u64 - 1;
        if trouble.is_some() {
            self.missed += 1 + further;
        }
        Some(Captured {
            time,
            further,
            reason: reasons.swap_remove(0).1,
            file: path.display().to_string(),
            packets,
            is_cut: self.recorder.lost_before().is_some_and(|before| before > from),
            trouble,
            is_last: self.left == 0,
        })
    }
}

/// Writes the packets of a window, and why they are there beside those that show it. A file that is there already stays.
fn write<'a>(
    path: &Path,
    interfaces: &[Description],
    inventory: &[u8],
    records: impl Iterator<Item = Record<'a>>,
    from: Time,
    window: &Window,
) -> io::Result<u64> {
    let file = new_file::make(path).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => io::Error::new(error.kind(), "there is a file of this name"),
        _ => error,
    })?;
    let unfinished = Unfinished::new(path, &file);
    let out = BufWriter::with_capacity(1 << 20, file);
    let mut writer = PcapngWriter::new(out, concat!("rdmascope ", env!("CARGO_PKG_VERSION")))?;
    if !interfaces.is_empty() {
        writer.describe(interfaces)?;
    }
    writer.note(NoteKind::Inventory, inventory)?;
    let mut packets = 0;
    for record in records.filter(|record| record.time >= from && record.time <= window.until) {
        let beside = window.reasons.iter().filter(|(frame, _)| *frame == Some(record.number));
        let comment: Vec<&str> = beside.map(|(_, reason)| reason.as_str()).collect();
        writer.packet(&record, &comment.join("\n"))?;
        packets += 1;
    }
    writer.finish()?;
    unfinished.keep();
    Ok(packets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions() {
        let parse = |text: &str| text.parse::<Condition>().map_err(|error| error.to_string());
        assert_eq!(parse("credit-limit"), Ok(Condition::Rule("credit-limit")));
        assert_eq!(parse("violation"), Ok(Condition::Level(Level::Violation)));
        assert_eq!(parse("service-lost"), Ok(Condition::Event(Kind::ServiceLost)));
        assert_eq!(parse("latency>5ms"), Ok(Condition::Latency(None, 5_000_000)));
        assert_eq!(parse("write > 1.5s"), Ok(Condition::Latency(Some("WRITE".into()), 1_500_000_000)));
        assert_eq!((parse("error"), parse("drop")), (Ok(Condition::Error), Ok(Condition::Drop)));
        assert_eq!(
            parse("credit-limt"),
            Err("neither a rule nor an event nor a latency: \"credit-limt\"; is it credit-limit?".into())
        );
        for wrong in ["", "latency>", "latency>5", "latency>-1ms", "wrte>5ms", "latency<5ms"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
