//! Start frames and FPDUs of a stream, without the data that they place in memory.
//!
//! A program that rewrites a capture needs them.

use super::framing::{CrcVerdict, Origin, Piece, Unit};
use crate::rdma::End;
use crate::record::Seen;
use alloc::vec::Vec;
use rdmascope_wire::ddp::Header;
use rdmascope_wire::mpa::StartFrame;

/// A start frame or FPDU, reported when it ends or can no longer be followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Framed {
    /// The packet with its first byte.
    pub first: Seen,
    /// Sequence number of its first byte.
    pub sequence: u32,
    /// Its contents.
    pub kind: FramedKind,
}

/// The kind and contents of a unit of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FramedKind {
    /// A start frame, with the captured bytes of its private data.
    Start(StartFrame, Vec<u8>),
    /// An FPDU.
    Fpdu(FramedFpdu),
    /// An FPDU without a ULPDU, which is a ready-to-receive indication (RFC 6581, section 9): its
    /// length field, padding and CRC.
    Indication([u8; 8]),
    /// Length field and control fields of an invalid FPDU. Its real length is unknown.
    Malformed([u8; 4]),
}

/// An FPDU in the stream of an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FramedFpdu {
    /// Header of its DDP segment.
    pub header: Header,
    /// Length of the data after that header in bytes.
    pub length: u32,
    /// The first captured bytes of an untagged message's data, up to the first gap; at most
    /// [`FramedFpdu::LONGEST_FRONT`].
    pub front: Vec<u8>,
    /// Sequence number of a marker, if the stream has markers. The others are multiples of 512
    /// away.
    pub marker: Option<u32>,
    /// The verdict on its CRC, if its end has arrived, and the bits in which the CRC differs from
    /// the computed one. They are 0 if bytes are missing.
    pub crc: Option<(CrcVerdict, u32)>,
}

impl FramedFpdu {
    /// The default inline threshold in bytes (RFC 8166, section 3.3.3).
    pub const LONGEST_FRONT: usize = 1024;
}

/// Collects the units of both streams.
#[derive(Clone, Debug, Default)]
pub(super) struct Gathered {
    /// For each end, the current FPDU.
    open: [Option<Framed>; 2],
    pieces: Vec<(End, Framed)>,
}

impl Gathered {
    /// Most units held until they are taken. Further ones are dropped.
    const MOST: usize = 1 << 16;

    /// Processes a unit found in the stream of an end.
    pub(super) fn take(&mut self, from: End, unit: &Unit<'_>) {
        match *unit {
            Unit::Start(first, frame, data, end) => {
                let length = StartFrame::LENGTH as u32 + u32::from(frame.private_data_length);
                let kind = FramedKind::Start(frame, data.to_vec());
                self.note(from, Framed { first, sequence: end.wrapping_sub(length), kind });
            }
            Unit::Piece(piece) => self.take_piece(from, &piece),
            Unit::Indication(first, sequence, bytes, _) => {
                self.note(from, Framed { first, sequence, kind: FramedKind::Indication(bytes) });
            }
            Unit::Lost | Unit::Cut => self.close(from),
            Unit::Malformed(first, sequence, fields) => {
                self.close(from);
                self.note(from, Framed { first, sequence, kind: FramedKind::Malformed(fields) });
            }
        }
    }

    fn take_piece(&mut self, from: End, piece: &Piece<'_>) {
        self.begin(from, &piece.of);
        let Some(Framed { kind: FramedKind::Fpdu(fpdu), .. }) = &mut self.open[from] else { return };
        let is_next = piece.offset as usize == fpdu.front.len() && !piece.is_missing;
        if is_next && matches!(fpdu.header, Header::Untagged(_)) {
            let room = FramedFpdu::LONGEST_FRONT - fpdu.front.len();
            fpdu.front.extend_from_slice(&piece.bytes[..piece.bytes.len().min(room)]);
        }
        if let Some(end) = piece.end {
            fpdu.crc = Some((end.crc, end.difference));
            self.close(from);
        }
    }

    /// Starts an FPDU, unless it is the current one.
    pub(super) fn begin(&mut self, from: End, of: &Origin) {
        let Origin { first, sequence, header, length, marker, .. } = *of;
        if self.open[from].as_ref().is_none_or(|open| open.sequence != sequence) {
            self.close(from);
            let fpdu = FramedFpdu { header, length, front: Vec::new(), marker, crc: None };
            self.open[from] = Some(Framed { first, sequence, kind: FramedKind::Fpdu(fpdu) });
        }
    }

    /// Ends the current FPDU.
    fn close(&mut self, from: End) {
        if let Some(open) = self.open[from].take() {
            self.note(from, open);
        }
    }

    fn note(&mut self, from: End, framed: Framed) {
        if self.pieces.len() < Gathered::MOST {
            self.pieces.push((from, framed));
        }
    }

    /// Removes and returns the units collected so far.
    pub(super) fn take_pieces(&mut self) -> Vec<(End, Framed)> {
        core::mem::take(&mut self.pieces)
    }
}

#[cfg(test)]
mod tests;
