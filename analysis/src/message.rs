//! An RPC message before reduction, with its chunks marked.

use core::ops::Range;
use rdmascope_dissector::layout::{Extent, Piece, Source};
use rdmascope_dissector::transaction::{Message, Part, Transaction};

/// Bytes shown of the front of a long stretch, and of its end.
const FRONT: usize = 128;
const END: usize = 32;

/// A stretch of the message, and what of its bytes is shown.
pub struct Stretch<'a> {
    /// Where it is in the message, and where its bytes came from.
    pub extent: Extent,
    /// The Position of the Read chunk that it is in.
    pub position: Option<u32>,
    /// Its bytes, as far as they were kept; 0 where the capture lacks them.
    pub bytes: &'a [u8],
    /// Which bytes of the message the capture lacks: ranges in order.
    pub missing: Vec<(u64, u64)>,
    /// Which of `bytes` are left out.
    pub left_out: Range<usize>,
}

/// The stretches of the call or the reply. Without `full`, the middle of long ones is left out.
pub fn stretches<'a>(
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
