//! The layout of an RPC message: the ranges in the Send and in chunks.

use crate::exchange::Exchange;
use crate::interval::Intervals;
use crate::transaction::{Message, Part, Transaction};
use crate::ulb::{Item, Place};
use alloc::vec::Vec;
use core::ops::Range;
use rdmascope_wire::rpcrdma::{Procedure, Segment, VERSION};
use rdmascope_wire::xdr::padded;

/// A range of an RPC message before reduction (RFC 8166, section 3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its first byte, counted from the XID of the RPC message.
    pub start: u64,
    /// Length in bytes.
    pub length: u64,
    /// The place of the bytes.
    pub source: Source,
}

/// The place of the bytes of an [`Extent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// In a part of the message, from this byte on.
    Part(Part, u64),
    /// Roundup padding that was not sent. It is zeros (RFC 8166, section 3.4.4.4).
    Padding,
}

/// The captured bytes of an RPC message before reduction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// The number of bytes.
    pub length: u64,
    /// The bytes up to the last captured one. Missing bytes before it are 0.
    pub bytes: Vec<u8>,
    /// The ranges that were captured.
    pub captured: Intervals,
}

impl Transaction {
    /// The extents of the call (`of_reply` false) or of the reply, in order and without gaps, as
    /// far as the headers show. Empty if the message is absent, is not an RPC message, or has a
    /// header that could not be parsed completely.
    ///
    /// In a call, the Position of each Read chunk gives its place (RFC 8166, section 4.3.1). In a
    /// reply, the upper layer does (RFC 8267), and a Write chunk without a recognized item is
    /// omitted.
    pub fn layout(&self, of_reply: bool) -> Vec<Extent> {
        let message = if of_reply { &self.reply } else { &self.call };
        let Some(message) = message else { return Vec::new() };
        let Some(stream) = stream(message, of_reply) else { return Vec::new() };
        let mut reduced = if of_reply { self.reduced_in_reply(message) } else { reduced_in_call(message) };
        reduced.sort_by_key(|item| item.position);
        lay_out(stream, &reduced)
    }

    /// The call or the reply before reduction. `None` if none of it was kept, or if its layout is
    /// unknown.
    ///
    /// Bytes beyond [`Exchange::MOST_CONTENTS`], or with more than [`Piece::MOST_MISSING`] missing
    /// before them, are omitted.
    pub fn message(&self, of_reply: bool) -> Option<Piece> {
        self.piece(of_reply, 0..u64::MAX)
    }

    /// A DDP-eligible item of the call or the reply, without its padding, whether it is inline or
    /// in a chunk.
    pub fn item(&self, of_reply: bool, item: &Item) -> Option<Piece> {
        let start = u64::from(item.position);
        let end = start + u64::from(item.length);
        self.piece(of_reply, start..end).map(|piece| Piece { length: item.length.into(), ..piece })
    }

    /// A Send or a chunk of the call or the reply, with the length that the headers give.
    pub fn part(&self, of_reply: bool, part: Part) -> Option<Piece> {
        let message = if of_reply { &self.reply } else { &self.call };
        let message = message.as_ref()?;
        let length = match part {
            Part::Send => message.send_length.into(),
            Part::ReadChunk(index) => Segment::total(&message.read_chunks.get(usize::from(index))?.segments),
            Part::WriteChunk(index) => {
                Segment::total(&message.write_chunks.get(usize::from(index))?.segments)
            }
            Part::ReplyChunk => Segment::total(&message.reply_chunk.as_ref()?.segments),
        };
        let mut piece = Piece { length, ..Piece::default() };
        piece.copy(0, self.exchange.as_deref()?, of_reply, part, 0..length);
        Some(piece)
    }

    fn piece(&self, of_reply: bool, range: Range<u64>) -> Option<Piece> {
        let kept = self.exchange.as_deref().filter(|kept| !kept.contents.is_empty())?;
        let layout = self.layout(of_reply);
        let length = layout.last()?.end().min(range.end).saturating_sub(range.start);
        let mut piece = Piece { length, ..Piece::default() };
        let first = layout.partition_point(|extent| extent.end() <= range.start);
        for extent in &layout[first..] {
            let (from, to) = (extent.start.max(range.start), extent.end().min(range.end));
            if from >= to {
                break;
            }
            let at = from - range.start;
            match extent.source {
                Source::Part(part, offset) => {
                    let offset = offset + (from - extent.start);
                    piece.copy(at, kept, of_reply, part, offset..offset + (to - from));
                }
                Source::Padding => piece.pad(at, to - from),
            }
        }
        Some(piece)
    }

    /// The items of Write chunks in a reply, with the positions that the upper layer gives.
    fn reduced_in_reply(&self, message: &Message) -> Vec<Reduced> {
        let items = self.details.operations.iter().filter_map(|operation| operation.result_item);
        let reduced = items.filter_map(|item| {
            let Place::WriteChunk(index) = item.place else { return None };
            let returned = Segment::total(&message.write_chunks.get(usize::from(index))?.segments);
            let (length, with_padding) = (u64::from(item.length), padded(item.length));
            Some(Reduced {
                position: item.position.into(),
                part: Part::WriteChunk(index),
                // A Write chunk should not contain roundup padding, but some do (RFC 8166, section
                // 3.4.6.2).
                length: returned.clamp(length, with_padding),
                with_padding,
            })
        });
        reduced.collect()
    }
}

impl Extent {
    /// The position after its last byte.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.length)
    }
}

impl Piece {
    /// Maximum number of missing bytes before a captured one.
    pub const MOST_MISSING: u64 = 8 << 20;

    /// The ranges that were not captured.
    pub fn missing(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.captured.holes(self.length)
    }

    /// Copies bytes of a part to byte `at`.
    fn copy(&mut self, at: u64, kept: &Exchange, of_reply: bool, part: Part, range: Range<u64>) {
        let Some(content) = kept.content(of_reply, part) else { return };
        for (start, end) in content.captured.within(range.start, range.end) {
            let Some(bytes) = content.bytes.get(start as usize..end as usize) else { return };
            let to = at + (start - range.start);
            // Missing bytes before captured ones use memory too.
            let missing = to.saturating_sub(self.captured.length());
            if missing > Piece::MOST_MISSING || to + bytes.len() as u64 > Exchange::MOST_CONTENTS as u64 {
                return;
            }
            let to = to as usize;
            if self.bytes.len() < to + bytes.len() {
                self.bytes.resize(to + bytes.len(), 0);
            }
            self.bytes[to..to + bytes.len()].copy_from_slice(bytes);
            self.captured.insert(to as u64, (to + bytes.len()) as u64);
        }
    }

    /// Appends zeros, if the last byte was captured.
    fn pad(&mut self, at: u64, length: u64) {
        if self.bytes.len() as u64 == at {
            self.bytes.resize((at + length) as usize, 0);
            self.captured.insert(at, at + length);
        }
    }
}

/// A range of a Payload stream: the part, its first byte in that part, and its length.
struct Stream {
    part: Part,
    start: u64,
    length: u64,
}

/// A reduced item: one that is in a chunk.
struct Reduced {
    /// Its first byte in the message before reduction.
    position: u64,
    part: Part,
    /// Its length in the chunk, in bytes, from the first byte of the chunk on.
    length: u64,
    /// Its length in the message before reduction, in bytes.
    with_padding: u64,
}

/// Finds the Payload stream of a message after reduction.
fn stream(message: &Message, of_reply: bool) -> Option<Stream> {
    if message.version != VERSION || message.stop.is_some() {
        return None;
    }
    let zero = message.read_chunks.iter().position(|chunk| chunk.position == 0);
    match (message.procedure, zero, &message.reply_chunk) {
        (Procedure::Msg | Procedure::Msgp, ..) => {
            let start = u64::from(message.header_length);
            let length = u64::from(message.send_length).checked_sub(start)?;
            Some(Stream { part: Part::Send, start, length })
        }
        // A Long Call, or a reply from a responder-provided Read chunk (reliable-reply draft,
        // section 4.1).
        (Procedure::Nomsg, Some(index), _) => {
            let length = Segment::total(&message.read_chunks[index].segments);
            Some(Stream { part: Part::ReadChunk(u16::try_from(index).ok()?), start: 0, length })
        }
        (Procedure::Nomsg, None, Some(chunk)) if of_reply => {
            Some(Stream { part: Part::ReplyChunk, start: 0, length: Segment::total(&chunk.segments) })
        }
        _ => None,
    }
}

/// The items of Read chunks in a call, with their Positions. A chunk may contain the padding of its
/// item or omit it.
fn reduced_in_call(message: &Message) -> Vec<Reduced> {
    let chunks = message.read_chunks.iter().enumerate().filter(|(_, chunk)| chunk.position != 0);
    let reduced = chunks.filter_map(|(index, chunk)| {
        let length = Segment::total(&chunk.segments);
        Some(Reduced {
            position: chunk.position.into(),
            part: Part::ReadChunk(u16::try_from(index).ok()?),
            length,
            with_padding: length.next_multiple_of(4),
        })
    });
    reduced.collect()
}

/// Inserts items, in the order of their positions, into the stream.
fn lay_out(stream: Stream, reduced: &[Reduced]) -> Vec<Extent> {
    let mut extents = Vec::with_capacity(2 * reduced.len() + 1);
    let mut at = 0;
    let mut put = |length: u64, source: Source| {
        if length > 0 {
            extents.push(Extent { start: at, length, source });
            at += length;
        }
        at
    };
    let (mut next, mut taken) = (0, 0);
    for item in reduced {
        // An item that begins within the one before it has no place in the message.
        let Some(inline) = item.position.checked_sub(next) else { continue };
        if inline > stream.length - taken {
            break;
        }
        put(inline, Source::Part(stream.part, stream.start + taken));
        taken += inline;
        put(item.length, Source::Part(item.part, 0));
        next = put(item.with_padding - item.length, Source::Padding);
    }
    put(stream.length - taken, Source::Part(stream.part, stream.start + taken));
    extents
}
