//! The parts of one segment's payload, for display: start frame, FPDUs and markers.

use super::Run;
use super::framing::{CrcUse, CrcVerdict, Framing, Origin, Unit};
use crate::frame::Segment;
use crate::record::{Seen, Time};
use alloc::vec::Vec;
use core::cell::OnceCell;
use core::ops::Range;
use rdmascope_wire::ddp::Header;
use rdmascope_wire::mpa::StartFrame;

/// The framing state at the start of one segment, and the parts of the segment once they were found.
///
/// For a segment that continues the stream it is known. In a repeated segment, or one after a gap,
/// FPDUs are searched for.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    framing: Framing,
    /// The sequence number up to which bytes were seen before.
    expected: Option<u32>,
    parts: OnceCell<Vec<Part>>,
}

/// A part of a segment's payload.
///
/// Ranges are in bytes from the start of the payload on the wire. A snap length may have cut them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A start frame and its private data (RFC 5044, section 7.1.1).
    Start(Range<usize>, StartFrame),
    /// An FPDU, or the part of it in this segment.
    Fpdu(Fpdu),
    /// An FPDU without a ULPDU, which is a ready-to-receive indication (RFC 6581, section 9), in the
    /// segment with its end, and the verdict on its CRC.
    Indication(Range<usize>, CrcVerdict),
    /// The start of an FPDU whose header ends in a later segment.
    Begun(Range<usize>),
    /// A marker of four bytes that is in no FPDU (RFC 5044, section 4.3). It is shorter if the
    /// segment starts or ends within it.
    Marker(Range<usize>),
}

/// The part of an FPDU that is in a segment (RFC 5044, section 4.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fpdu {
    /// Its bytes, including markers between them.
    pub place: Range<usize>,
    /// Whether it starts in this segment.
    pub begins: bool,
    /// Whether its start was inferred from its headers, length and CRC.
    pub is_inferred: bool,
    /// Header of its DDP segment. It may be in an earlier segment.
    pub header: Header,
    /// Length of the data after that header in bytes, in all segments.
    pub length: u32,
    /// The bytes of its data in this segment, including markers between them.
    pub data: Range<usize>,
    /// Offset of these bytes in the data.
    pub data_offset: u32,
    /// The verdict on its CRC, if it ends in this segment.
    pub crc: Option<CrcVerdict>,
}

impl Contents {
    /// Creates the state for the next segment of a stream that continues at `expected`.
    pub(super) fn new(framing: &Framing, expected: Option<u32>, run: &Run<'_>) -> Contents {
        let before = expected.map_or(0, |expected| expected.wrapping_sub(run.sequence));
        // It starts at or before the expected byte, and some of it is new.
        let continues = before == 0 || before < run.length;
        if continues {
            Contents { framing: framing.clone(), expected, ..Contents::default() }
        } else {
            Contents { framing: framing.searching(), ..Contents::default() }
        }
    }

    /// Whether FPDUs have CRCs.
    pub(crate) fn crc(&self) -> CrcUse {
        self.framing.crc
    }

    /// The parts of the payload of the segment, in their order. The first call finds them.
    ///
    /// Bytes that were seen before, and bytes in which no FPDU was found, are in no part.
    pub fn parts(&self, segment: &Segment<'_>) -> &[Part] {
        // Only the contents are used, so the frame number and the time do not matter.
        self.parts.get_or_init(|| self.parts_of(Run::of(Seen { frame: 0, time: Time(0) }, segment)))
    }

    fn parts_of(&self, run: Run<'_>) -> Vec<Part> {
        let Run { sequence: begin, length, .. } = run;
        let run = run.skip(self.expected.map_or(0, |expected| expected.wrapping_sub(begin)));
        let at = |sequence: u32| (sequence.wrapping_sub(begin) as i32).max(0).unsigned_abs() as usize;
        let markers = self.framing.markers(run.sequence, run.length);
        let markers = markers.map(|(sequence, length)| at(sequence)..at(sequence) + length as usize);
        let mut parts: Vec<Part> = markers.map(Part::Marker).collect();
        let (markers, end) = (parts.len(), length as usize);
        let open = |of: &Origin| Fpdu {
            place: at(of.sequence)..end,
            begins: of.sequence.wrapping_sub(begin) as i32 >= 0,
            is_inferred: !of.is_certain,
            header: of.header,
            length: of.length,
            data: end..end,
            data_offset: 0,
            crc: None,
        };
        let mut last = None;
        let mut framing = self.framing.clone();
        framing.take(run, &mut |unit| match unit {
            Unit::Start(_, frame, _, frame_end) => {
                let bytes = StartFrame::LENGTH as u32 + u32::from(frame.private_data_length);
                parts.push(Part::Start(at(frame_end.wrapping_sub(bytes))..at(frame_end), frame));
            }
            Unit::Piece(piece) => {
                let begins = at(piece.sequence);
                let data = begins..begins + piece.length as usize;
                if last != Some(piece.of.sequence) {
                    last = Some(piece.of.sequence);
                    let fpdu = Fpdu { data: data.clone(), data_offset: piece.offset, ..open(&piece.of) };
                    parts.push(Part::Fpdu(fpdu));
                }
                let Some(Part::Fpdu(fpdu)) = parts.last_mut() else { return };
                if !data.is_empty() {
                    fpdu.data.end = data.end;
                }
                if let Some(ended) = piece.end {
                    fpdu.place.end = at(ended.sequence);
                    fpdu.crc = Some(ended.crc);
                }
            }
            Unit::Indication(_, sequence, _, end) => {
                parts.push(Part::Indication(at(sequence)..at(end.sequence), end.crc));
            }
            Unit::Lost | Unit::Cut | Unit::Malformed(..) => {}
        });
        match framing.unfinished() {
            Some((sequence, _)) if last == Some(sequence) => {}
            Some((_, Some(of))) => parts.push(Part::Fpdu(open(&of))),
            Some((sequence, None)) => parts.push(Part::Begun(at(sequence)..end)),
            None => {}
        }
        if markers > 0 {
            parts.sort_by_key(|part| part.place().start);
        }
        parts
    }
}

impl Part {
    /// The range of its bytes.
    pub fn place(&self) -> &Range<usize> {
        match self {
            Part::Start(place, _) | Part::Indication(place, _) | Part::Begun(place) | Part::Marker(place) => {
                place
            }
            Part::Fpdu(fpdu) => &fpdu.place,
        }
    }
}

#[cfg(test)]
mod tests;
