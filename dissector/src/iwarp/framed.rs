//! What the stream of an end consists of, for whoever writes it anew: start frames and FPDUs with all that does not belong to the memory that
//! they move.

use super::framing::{CrcVerdict, Origin, Piece, Unit};
use crate::rdma::End;
use crate::record::Seen;
use alloc::vec::Vec;
use rdmascope_wire::ddp::Header;
use rdmascope_wire::mpa::StartFrame;

/// A piece of what an end sends, told of once it has ended, or is followed no further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Framed {
    /// The packet that has its first byte.
    pub first: Seen,
    /// The sequence number of that byte.
    pub sequence: u32,
    /// What it is.
    pub kind: FramedKind,
}

/// What a piece of the stream is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FramedKind {
    /// A start frame, with the captured bytes of its private data.
    Start(StartFrame, Vec<u8>),
    /// An FPDU.
    Fpdu(FramedFpdu),
    /// The length and the control fields of an FPDU that cannot stand: how long it is is not known.
    Malformed([u8; 4]),
}

/// An FPDU in the stream of an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FramedFpdu {
    /// The header of the DDP segment in it.
    pub header: Header,
    /// Bytes of data behind that header.
    pub length: u32,
    /// Of an untagged message the captured bytes of the data up to the first that is not there; at most [`FramedFpdu::LONGEST_FRONT`].
    pub front: Vec<u8>,
    /// The sequence number of a marker, where there are markers: the others are multiples of 512 away.
    pub marker: Option<u32>,
    /// The verdict on its CRC, where its end has come, and by which bits it differs from that of the bytes that it covers, as far as all
    /// of these are there.
    pub crc: Option<(CrcVerdict, u32)>,
}

impl FramedFpdu {
    /// The inline threshold where nothing else was agreed (RFC 8166, section 3.3.3).
    pub const LONGEST_FRONT: usize = 1024;
}

/// Gathers them.
#[derive(Clone, Debug, Default)]
pub(super) struct Gathered {
    /// By end: the FPDU that has begun.
    open: [Option<Framed>; 2],
    told: Vec<(End, Framed)>,
}

impl Gathered {
    /// Pieces that wait to be asked for. Further ones are left out.
    const MOST: usize = 1 << 16;

    /// Takes what was found in the stream of an end.
    pub(super) fn take(&mut self, from: End, unit: &Unit<'_>) {
        match *unit {
            Unit::Start(first, frame, data, behind) => {
                let length = StartFrame::LENGTH as u32 + u32::from(frame.private_data_length);
                let kind = FramedKind::Start(frame, data.to_vec());
                self.tell(from, Framed { first, sequence: behind.wrapping_sub(length), kind });
            }
            Unit::Piece(piece) => self.take_piece(from, &piece),
            Unit::Lost => self.close(from),
            Unit::Malformed(first, sequence, fields) => {
                self.close(from);
                self.tell(from, Framed { first, sequence, kind: FramedKind::Malformed(fields) });
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

    /// An FPDU has begun, unless it is the one that had.
    pub(super) fn begin(&mut self, from: End, of: &Origin) {
        let Origin { first, sequence, header, length, marker, .. } = *of;
        if self.open[from].as_ref().is_none_or(|open| open.sequence != sequence) {
            self.close(from);
            let fpdu = FramedFpdu { header, length, front: Vec::new(), marker, crc: None };
            self.open[from] = Some(Framed { first, sequence, kind: FramedKind::Fpdu(fpdu) });
        }
    }

    /// What has begun is followed no further.
    fn close(&mut self, from: End) {
        if let Some(open) = self.open[from].take() {
            self.tell(from, open);
        }
    }

    fn tell(&mut self, from: End, framed: Framed) {
        if self.told.len() < Gathered::MOST {
            self.told.push((from, framed));
        }
    }

    /// What was gathered since this was last asked.
    pub(super) fn told(&mut self) -> Vec<(End, Framed)> {
        core::mem::take(&mut self.told)
    }
}

#[cfg(test)]
mod tests;
