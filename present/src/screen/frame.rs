//! The heading of a frame, as text.

use super::Screen;
use rdmascope_analysis::time::Rfc3339;
use rdmascope_analysis::units::Seconds;
use rdmascope_dissector::event::Packet;
use rdmascope_dissector::record::Time;
use std::io::{self, Write};

/// Writes the heading of a frame. Times are relative to `start`, the start of the capture;
/// `transaction` is the number of the frame's transaction.
pub fn head(
    packet: &Packet<'_>,
    start: Time,
    transaction: Option<u64>,
    screen: Screen,
    out: &mut dyn Write,
) -> io::Result<()> {
    let record = &packet.record;
    let seconds = Seconds(record.time.0.saturating_sub(start.0));
    let title = format!("Frame {}", record.number);
    writeln!(
        out,
        "{}  {}, {seconds} s after the first",
        screen.style.bold(title),
        Rfc3339::from(record.time)
    )?;
    write!(out, "{} bytes on the wire, {} captured", record.wire_length(), record.captured_length())?;
    match packet.connection {
        Some(connection) => writeln!(out, "; connection {}", connection.0)?,
        None => writeln!(out)?,
    }
    if let Some(number) = transaction {
        let dots = if screen.unicode { "\u{2026}" } else { "..." };
        writeln!(out, "part of transaction {number}: rdmascope show {dots} --transaction {number}")?;
    }
    Ok(())
}
