//! An RPC message before reduction, with its chunks marked.

use core::ops::Range;
use rdmascope_dissector::layout::{Extent, Piece, Source};
use rdmascope_dissector::transaction::{Message, Part, Transaction};

/// Bytes shown at the start and at the end of a long stretch.
const FRONT: usize = 128;
const END: usize = 32;

/// A stretch of the message, and the part of its bytes that is shown.
pub struct Stretch<'a> {
    /// Its position in the message, and the source of its bytes.
    pub extent: Extent,
    /// The Position of the Read chunk that contains it.
    pub position: Option<u32>,
    /// The bytes that were kept, with zeros for bytes that are missing from the capture.
    pub bytes: &'a [u8],
    /// Ranges of the message that are missing from the capture, in order.
    pub missing: Vec<(u64, u64)>,
    /// The range of `bytes` that is left out.
    pub left_out: Range<usize>,
}

/// The stretches of the call or the reply. Unless `full` is set, the middle of long stretches is
/// left out.
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
