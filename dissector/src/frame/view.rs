//! A view of the rest of a packet, from some header on.

use super::Other;
use crate::record::Record;
use rdmascope_wire::{Cause, Layer, Stop};

/// The captured bytes from some header on, and their number on the wire.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    /// The captured bytes.
    pub(super) data: &'a [u8],
    /// Their offset in the record.
    pub(super) at: usize,
    /// Their number on the wire: at least the number of captured bytes, and more if the packet was
    /// cut or a length field exceeds it.
    pub(super) wire: usize,
    /// Whether the capture or a mirroring device cut the packet.
    cut: bool,
}

impl<'a> View<'a> {
    #[inline]
    pub(super) fn of(record: &Record<'a>) -> View<'a> {
        let original = record.original_length as usize;
        let captured = record.data.len();
        View { data: record.data, at: 0, wire: original.max(captured), cut: captured < original }
    }

    /// The rest after the next `length` bytes.
    #[inline]
    pub(super) fn skip(self, length: usize) -> View<'a> {
        View {
            data: self.data.get(length..).unwrap_or(&[]),
            at: self.at.saturating_add(length),
            wire: self.wire.saturating_sub(length),
            cut: self.cut,
        }
    }

    /// The first `length` bytes, as a header gives it. Captured bytes after them are padding or a
    /// trailer. A length beyond the frame is accepted: mirroring devices cut packets, and some
    /// tools that cut captures lose the original length.
    #[inline]
    pub(super) fn limit(self, length: usize) -> View<'a> {
        View { data: self.data.get(..length).unwrap_or(self.data), wire: length, ..self }
    }

    /// Marks the packet as cut before the capture point, if `cut` is set.
    #[inline]
    pub(super) fn cut_if(self, cut: bool) -> View<'a> {
        View { cut: self.cut || cut, ..self }
    }

    /// Marks the packet as cut if `length`, from another header, exceeds its length on the wire.
    pub(super) fn cut_from(self, length: usize) -> View<'a> {
        View { wire: self.wire.max(length), cut: self.cut || length > self.wire, ..self }
    }

    /// The first `N` bytes: a complete header of `layer`.
    #[inline]
    pub(super) fn header<const N: usize>(self, layer: Layer) -> Result<&'a [u8; N], Other<'a>> {
        self.data.first_chunk().ok_or_else(|| self.stop(layer, 0, N))
    }

    /// Stops unless the first `length` bytes were captured: a complete header of `layer`.
    #[inline]
    pub(super) fn require(self, layer: Layer, length: usize) -> Result<(), Other<'a>> {
        if self.data.len() < length { Err(self.stop(layer, 0, length)) } else { Ok(()) }
    }

    /// The stop in a header that begins here and lacks `needed` bytes at `offset`.
    #[cold]
    pub(super) fn stop(self, layer: Layer, offset: usize, needed: usize) -> Other<'static> {
        let cause = if self.cut && self.wire >= offset.saturating_add(needed) {
            Cause::TruncatedCapture
        } else {
            Cause::TruncatedPacket
        };
        Other::Stop(Stop { layer, offset, needed, available: self.data.len().saturating_sub(offset), cause })
    }
}

#[cold]
pub(super) fn malformed(layer: Layer, offset: usize) -> Other<'static> {
    Other::Stop(Stop::malformed(layer, offset))
}
