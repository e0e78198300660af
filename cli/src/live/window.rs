//! A capture around a trigger, while it is written.

use super::recorder::Recorder;
use rdmascope_analysis::live::Captured;
use rdmascope_capture_agent::new_file::{self, Unfinished};
use rdmascope_capture_agent::{Description, NoteKind, PcapngWriter};
use rdmascope_dissector::record::{Record, Time};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// A capture around a trigger.
#[derive(Debug)]
pub(super) struct Window {
    /// The time of the first trigger.
    time: Time,
    from: Time,
    until: Time,
    /// The triggers: the frame that shows each, and a description.
    reasons: Vec<(Option<u64>, String)>,
    further: u64,
    path: PathBuf,
    file: io::Result<Output>,
    /// Whether packets of the time before the trigger are no longer in memory.
    is_cut: bool,
    /// Whether the clock stepped back after the trigger.
    is_over: bool,
}

/// The file of a capture.
#[derive(Debug)]
struct Output {
    writer: PcapngWriter<File>,
    unfinished: Unfinished,
    packets: u64,
}

/// Maximum number of triggers described in a capture.
const MOST_REASONS: usize = 256;
/// Further triggers extend a capture up to this multiple of the time after the first.
const LONGEST: i64 = 5;

impl Window {
    /// Starts a capture of the time from `before` nanoseconds before the beginning of a trigger to
    /// `after` nanoseconds after it. An existing file is kept.
    pub(super) fn start(
        trigger: Trigger,
        (before, after): (i64, i64),
        path: PathBuf,
        (interfaces, inventory): (&[Description], &[u8]),
        recorder: &Recorder,
    ) -> Window {
        let Trigger { since, time, frame, reason } = trigger;
        let from = Time(since.0.saturating_sub(before));
        Window {
            time,
            from,
            until: Time(time.0.saturating_add(after)),
            reasons: vec![(frame, reason)],
            further: 0,
            file: Output::create(&path, interfaces, inventory),
            path,
            is_cut: recorder.lost_before().is_some_and(|lost| lost > from),
            is_over: false,
        }
    }

    /// Takes a further trigger, which extends the capture to `after` nanoseconds after it.
    pub(super) fn extend(&mut self, trigger: Trigger, after: i64) {
        let Trigger { time, frame, reason, .. } = trigger;
        let longest = self.time.0.saturating_add(after.saturating_mul(LONGEST));
        self.until = self.until.max(Time(time.0.saturating_add(after))).min(Time(longest));
        if self.reasons.len() < MOST_REASONS {
            self.reasons.push((frame, reason));
        } else {
            self.further += 1;
        }
    }

    /// Takes a part of the inventory of connections.
    pub(super) fn inventory(&mut self, part: &[u8]) {
        if let Ok(output) = &mut self.file
            && let Err(error) = output.writer.note(NoteKind::Inventory, part)
        {
            self.file = Err(error);
        }
    }

    /// Takes note of a step back of the clock: later records do not belong to the capture.
    pub(super) fn clock_stepped(&mut self) {
        self.is_over = true;
    }

    /// Whether the capture is complete at `now`.
    #[inline]
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.is_over || now > self.until
    }

    /// Writes those of these records that belong to the capture, with the triggers as comments.
    pub(super) fn write<'a>(&mut self, records: impl Iterator<Item = Record<'a>>) {
        let Window { from, until, reasons, file, .. } = self;
        let Ok(output) = file else { return };
        for record in records.filter(|record| record.time >= *from && record.time <= *until) {
            let reasons = reasons.iter().filter(|(frame, _)| *frame == Some(record.number));
            let comment: Vec<&str> = reasons.map(|(_, reason)| reason.as_str()).collect();
            if let Err(error) = output.writer.packet(&record, &comment.join("\n")) {
                *file = Err(error);
                return;
            }
            output.packets += 1;
        }
    }

    /// Ends the file.
    pub(super) fn finish(self, is_last: bool) -> Captured {
        let Window { time, mut reasons, further, path, file, is_cut, .. } = self;
        let (packets, trouble) = match file.and_then(Output::finish) {
            Ok(packets) => (packets, None),
            Err(error) => (0, Some(error.to_string())),
        };
        let further = further + reasons.len() as u64 - 1;
        let (reason, file) = (reasons.swap_remove(0).1, path.display().to_string());
        Captured { time, further, reason, file, packets, is_cut, trouble, is_last }
    }
}

/// A condition that came true.
#[derive(Debug)]
pub(super) struct Trigger {
    /// The beginning of the call or event.
    pub(super) since: Time,
    /// When it came true.
    pub(super) time: Time,
    /// The frame that shows it.
    pub(super) frame: Option<u64>,
    pub(super) reason: String,
}

impl Output {
    fn create(path: &Path, interfaces: &[Description], inventory: &[u8]) -> io::Result<Output> {
        let file = new_file::make(path).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => io::Error::new(error.kind(), "the file exists"),
            _ => error,
        })?;
        let unfinished = Unfinished::new(path, &file);
        let mut writer = PcapngWriter::new(file, concat!("rdmascope ", env!("CARGO_PKG_VERSION")))?;
        if !interfaces.is_empty() {
            writer.describe(interfaces)?;
        }
        writer.note(NoteKind::Inventory, inventory)?;
        Ok(Output { writer, unfinished, packets: 0 })
    }

    /// Ends the file, and returns the number of its packets.
    fn finish(self) -> io::Result<u64> {
        self.writer.finish()?;
        self.unfinished.keep();
        Ok(self.packets)
    }
}
