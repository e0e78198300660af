//! The events around a frame or transaction, as a text section.

use super::{Screen, heading, wrapped};
use rdmascope_analysis::events::SessionEvent;
use rdmascope_analysis::units::{Counted, Plain, Seconds};
use rdmascope_dissector::record::Time;
use std::io::{self, Write};

/// Indentation of an event's description.
const INDENT: usize = 6;
/// The most events shown.
const MOST: usize = 20;

/// Writes the events, if any. Times are relative to `start`, the start of the capture.
pub fn section(events: &[&SessionEvent], start: Time, screen: Screen, out: &mut dyn Write) -> io::Result<()> {
    if events.is_empty() {
        return Ok(());
    }
    heading("Events", screen, out)?;
    for event in events.iter().take(MOST) {
        let kind = screen.style.red_if(event.kind.is_loss(), event.kind.word());
        let seconds = Seconds(event.time.0.saturating_sub(start.0));
        write!(out, "  {kind}  {seconds} s, connection {}", event.connection.0)?;
        match event.frames {
            [Some(first), Some(last)] if first != last => writeln!(out, ", frames {first} to {last}")?,
            [Some(frame), _] | [None, Some(frame)] => writeln!(out, ", frame {frame}")?,
            [None, None] => writeln!(out)?,
        }
        for line in wrapped(&Plain(&event.text).to_string(), screen.width - INDENT) {
            writeln!(out, "{:INDENT$}{line}", "")?;
        }
    }
    match events.len().saturating_sub(MOST) as u64 {
        0 => Ok(()),
        further => writeln!(out, "  and {}: `rdmascope events` has all", Counted(further, "further event")),
    }
}
