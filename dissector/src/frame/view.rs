//! The rest of a packet, from some header on.

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
    /// Their number on the wire. It is at least the number of captured bytes, and more if the packet was cut or a length field says so.
    pub(super) wire: usize,
    /// Whether the capture or a mirroring device cut the packet short.
    cut: bool,
}

impl<'a> View<'a> {
    #[inline]
    pub(super) fn of(record: &Record<'a>) -> View<'a> {
        let original = record.original_length as usize;
        let captured = record.data.len();
        View { data: record.data, at: 0, wire: original.max(captured), cut: captured < original }
    }

    /// What follows the next `length` bytes.
    #[inline]
    pub(super) fn skip(self, length: usize) -> View<'a> {
        View {
            data: self.data.get(length..).unwrap_or(&[]),
            at: self.at.saturating_add(length),
            wire: self.wire.saturating_sub(length),
            cut: self.cut,
        }
    }

    /// What a header says that there is: `length` bytes. What was captured behind them is padding or a trailer. A length
    /// beyond the frame is believed: mirroring devices cut packets, and tools that cut captures forget original lengths.
    #[inline]
    pub(super) fn limit(self, length: usize) -> View<'a> {
        View { data: self.data.get(..length).unwrap_or(self.data), wire: length, ..self }
    }

    /// The same, known to have been cut on its way to whoever captured it.
    #[inline]
    pub(super) fn cut_if(self, cut: bool) -> View<'a> {
        View { cut: self.cut || cut, ..self }
    }

    /// The same, where another header tells that there were `length` bytes, if those are more.
    pub(super) fn cut_from(self, length: usize) -> View<'a> {
        View { wire: self.wire.max(length), cut: self.cut || length > self.wire, ..self }
    }

    /// The first `N` bytes, which are all of a header of `layer`.
    #[inline]
    pub(super) fn header<const N: usize>(self, layer: Layer) -> Result<&'a [u8; N], Other<'a>> {
        self.data.first_chunk().ok_or_else(|| self.stop(layer, 0, N))
    }

    /// The stop of a header that begins with these bytes, and at `offset` in it needs `needed` bytes that are not there.
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
