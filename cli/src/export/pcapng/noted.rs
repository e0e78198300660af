//! Notes of `--notes`, by the packets whose comments they become.

use crate::input::{Input, listen};
use crate::output::notify;
use anyhow::{Context as _, Result, ensure};
use foldhash::fast::FixedState;
use rdmascope_analysis::units::Counted;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_present::notes::{self, Note, Subject};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// The text of the notes on each packet.
#[derive(Debug, Default)]
pub(super) struct Noted(HashMap<u64, String, FixedState>);

impl Noted {
    /// Reads the file, and the capture once more if it has notes on transactions.
    pub(super) fn read(path: &Path, input: &Input) -> Result<Noted> {
        let named = || path.display().to_string();
        let mut text = String::new();
        let file = File::open(path).with_context(named)?;
        file.take(notes::MOST_BYTES + 1).read_to_string(&mut text).with_context(named)?;
        ensure!(text.len() as u64 <= notes::MOST_BYTES, "{}: longer than 1 MiB", named());
        let notes = notes::parse(&text).map_err(|error| anyhow::anyhow!("{}: {error}", named()))?;
        let frames = frames(&notes, input)?;
        let mut noted: HashMap<u64, String, FixedState> = HashMap::default();
        for Note { on, text } in notes {
            let frame = match on {
                Subject::Frame(frame) => frame,
                Subject::Transaction(number) => {
                    let frame = frames.get(&number).copied().flatten();
                    frame.with_context(|| {
                        format!("{}: the capture has no packet of transaction {number}", named())
                    })?
                }
            };
            let entry = noted.entry(frame).or_default();
            let separator = if entry.is_empty() { "" } else { "; " };
            // A mark without a text.
            let text = if text.is_empty() { "marked" } else { &text };
            entry.push_str(separator);
            entry.push_str(text);
        }
        Ok(Noted(noted))
    }

    /// Takes the notes on a packet.
    pub(super) fn take(&mut self, frame: u64) -> Option<String> {
        if self.0.is_empty() { None } else { self.0.remove(&frame) }
    }

    /// Warns about notes on packets that were not written.
    pub(super) fn report_rest(&self) {
        if !self.0.is_empty() {
            let packets = Counted(self.0.len() as u64, "packet");
            notify(format_args!("warning: --notes: notes on {packets} that the output does not have"));
        }
    }
}

/// The first packet of each transaction that has a note.
fn frames(notes: &[Note], input: &Input) -> Result<BTreeMap<u64, Option<u64>>> {
    let number = |note: &Note| match note.on {
        Subject::Transaction(number) => Some((number, None)),
        Subject::Frame(_) => None,
    };
    let mut frames: BTreeMap<u64, Option<u64>> = notes.iter().filter_map(number).collect();
    if frames.is_empty() {
        return Ok(frames);
    }
    listen(input, Config::default(), |event, _| {
        if let Event::Transaction(transaction) = event
            && let Some(frame) = frames.get_mut(&transaction.number)
        {
            *frame = transaction.messages().map(|message| message.first.frame).min();
        }
        Ok(())
    })?;
    Ok(frames)
}
