//! An RPC message before reduction, with its chunks marked.

use super::screen::{Screen, heading, rows};
use crate::names::PartName;
use crate::table::{Counted, Number};
use core::ops::Range;
use rdmascope_dissector::layout::{Extent, Piece, Source};
use rdmascope_dissector::transaction::{Message, Part, Transaction};
use std::io::{self, Write};

/// Bytes shown of the front of a long stretch, and of its end.
const FRONT: usize = 128;
const END: usize = 32;

/// A stretch of the message, and what of its bytes is shown.
pub(crate) struct Stretch<'a> {
    pub(crate) extent: Extent,
    /// The Position of the Read chunk that it is in.
    pub(crate) position: Option<u32>,
    /// Its bytes, as far as they were kept; 0 where the capture lacks them.
    pub(crate) bytes: &'a [u8],
    /// Which bytes of the message the capture lacks: ranges in order.
    pub(crate) missing: Vec<(u64, u64)>,
    /// Which of `bytes` are left out.
    pub(crate) left_out: Range<usize>,
}

/// The stretches of the call or the reply. Without `full`, the middle of long ones is left out.
pub(crate) fn stretches<'a>(
    transaction: &Transaction,
    of_reply: bool,
    piece: &'a Piece,
    full: bool,
) -> Vec<Stretch<'a>> {
    let message = if of_reply { &transaction.reply } else { &transaction.call };
    let stretch = |extent: Extent| {
        let end = extent.start.saturating_add(extent.length);
        let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(piece.bytes.len());
        let bytes = &piece.bytes[index(extent.start)..index(end)];
        let holes = piece.captured.holes(end);
        let missing =
            holes.map(|(start, end)| (start.max(extent.start), end)).filter(|(start, end)| start < end);
        let long = !full && bytes.len() > 2 * (FRONT + END);
        Stretch {
            extent,
            position: position(message.as_ref(), extent.source),
            bytes,
            missing: if extent.source == Source::Padding { Vec::new() } else { missing.collect() },
            left_out: if long { FRONT..bytes.len() - END } else { 0..0 },
        }
    };
    transaction.layout(of_reply).into_iter().map(stretch).collect()
}

fn position(message: Option<&Message>, source: Source) -> Option<u32> {
    match source {
        Source::Part(Part::ReadChunk(index), _) => {
            message?.read_chunks.get(usize::from(index)).map(|chunk| chunk.position)
        }
        _ => None,
    }
}

/// Shows the call or the reply before reduction.
pub(super) fn view(
    transaction: &Transaction,
    of_reply: bool,
    piece: &Piece,
    full: bool,
    screen: Screen,
    out: &mut impl Write,
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
            (Source::Padding, _) => write!(out, "padding that nobody conveyed")?,
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

fn bytes(stretch: &Stretch<'_>, screen: Screen, out: &mut impl Write) -> io::Result<()> {
    let start = stretch.extent.start;
    let there = |index: usize| {
        let at = start + index as u64;
        let before = stretch.missing.partition_point(|(start, _)| *start <= at);
        before.checked_sub(1).is_none_or(|last| stretch.missing[last].1 <= at)
    };
    let Range { start: from, end: to } = stretch.left_out.clone();
    if from == to {
        return rows(stretch.bytes, start, there, out);
    }
    rows(&stretch.bytes[..from], start, there, out)?;
    let dots = if screen.unicode { "\u{2026}" } else { "..." };
    writeln!(out, "{dots}     {} bytes left out: --full shows them", Number((to - from) as u64))?;
    rows(&stretch.bytes[to..], start + to as u64, |index| there(to + index), out)
}
