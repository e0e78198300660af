//! A message before reduction as text: its stretches, with their bytes.

use super::{Screen, heading, rows};
use core::ops::Range;
use rdmascope_analysis::message::{Stretch, stretches};
use rdmascope_analysis::names::PartName;
use rdmascope_analysis::units::{Counted, Number};
use rdmascope_dissector::layout::{Extent, Piece, Source};
use rdmascope_dissector::transaction::{Part, Transaction};
use std::io::{self, Write};

/// Writes the call or the reply before reduction.
pub fn view(
    transaction: &Transaction,
    of_reply: bool,
    piece: &Piece,
    full: bool,
    screen: Screen,
    out: &mut dyn Write,
) -> io::Result<()> {
    let name = if of_reply { "Reply" } else { "Call" };
    let title = format!("{name} before reduction: {}", Counted(piece.length, "byte"));
    heading(&title, screen, out)?;
    let style = screen.style;
    for stretch in stretches(transaction, of_reply, piece, full) {
        let Extent { start, length, source } = stretch.extent;
        write!(out, "{start:04x}  {}: ", style.bold(Counted(length, "byte")))?;
        match (source, stretch.position) {
            (Source::Part(Part::Send, at), _) => write!(out, "inline, from byte {at} of the Send")?,
            (Source::Part(part, _), Some(0)) => write!(out, "{} at Position zero", PartName(part))?,
            (Source::Part(part, _), Some(at)) => write!(out, "{} at Position {at}", PartName(part))?,
            (Source::Part(part, 0), None) => write!(out, "{}", PartName(part))?,
            (Source::Part(part, at), None) => write!(out, "{}, from byte {at}", PartName(part))?,
            (Source::Padding, _) => write!(out, "padding, not conveyed")?,
        }
        let lacking: u64 = stretch.missing.iter().map(|(start, end)| end - start).sum();
        if lacking > 0 {
            let lacking = format!("{} missing from the capture", Counted(lacking, "byte"));
            write!(out, "; {}", style.yellow(lacking))?;
        }
        writeln!(out)?;
        bytes(&stretch, screen, out)?;
    }
    Ok(())
}

fn bytes(stretch: &Stretch<'_>, screen: Screen, out: &mut dyn Write) -> io::Result<()> {
    let start = stretch.extent.start;
    let is_present = |index: usize| {
        let at = start + index as u64;
        let before = stretch.missing.partition_point(|(start, _)| *start <= at);
        before.checked_sub(1).is_none_or(|last| stretch.missing[last].1 <= at)
    };
    let Range { start: from, end: to } = stretch.left_out.clone();
    if from == to {
        return rows(stretch.bytes, start, is_present, out);
    }
    rows(&stretch.bytes[..from], start, is_present, out)?;
    let dots = if screen.unicode { "\u{2026}" } else { "..." };
    writeln!(out, "{dots}     {} bytes left out: --full shows them", Number((to - from) as u64))?;
    rows(&stretch.bytes[to..], start + to as u64, |index| is_present(to + index), out)
}
