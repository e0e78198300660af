//! What the payload of one segment holds, for whoever shows it: start frame, FPDUs, markers, and their places.

use super::Run;
use super::framing::{CrcUse, CrcVerdict, Framing, Origin, Unit};
use crate::frame::Segment;
use crate::record::{Seen, Time};
use alloc::vec::Vec;
use core::ops::Range;
use rdmascope_wire::ddp::Header;
use rdmascope_wire::mpa::StartFrame;

/// How FPDUs lie where a segment begins. Of a segment that goes on where the stream of its end was, it is known from what came before; in
/// one that came again, or ahead of others, FPDUs are looked for.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    framing: Framing,
    /// The sequence number up to which the bytes were seen before.
    expected: Option<u32>,
}

/// A part of a segment's payload. Places are in bytes from the beginning of the payload, as on the wire: a snap length may have cut what
/// they name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A start frame that begins here (RFC 5044, section 7.1.1), with its private data.
    Start(Range<usize>, StartFrame),
    /// An FPDU, or what the segment has of it.
    Fpdu(Fpdu),
    /// The beginning of an FPDU whose header ends in a later segment.
    Begun(Range<usize>),
    /// Four bytes that are of no FPDU (RFC 5044, section 4.3); fewer where the segment ends, or has begun, within them.
    Marker(Range<usize>),
}

/// An FPDU (RFC 5044, section 4.1), as far as a segment has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fpdu {
    /// Its bytes, and those of markers between them.
    pub place: Range<usize>,
    /// Whether it begins in this segment.
    pub begins: bool,
    /// Whether that it begins where it does is inferred from its headers, its length and its CRC.
    pub is_inferred: bool,
    /// The header of the DDP segment in it. Where the FPDU began in an earlier segment, it stood there.
    pub header: Header,
    /// Bytes of data behind that header, in all segments.
    pub length: u32,
    /// The bytes of data that are here, and those of markers between them.
    pub data: Range<usize>,
    /// How many bytes of data stand in front of these.
    pub data_offset: u32,
    /// The verdict on its CRC, where it ends here.
    pub crc: Option<CrcVerdict>,
}

impl Contents {
    /// Of what comes next in a stream, and goes on from `expected`.
    pub(super) fn new(framing: &Framing, expected: Option<u32>, run: &Run<'_>) -> Contents {
        let before = expected.map_or(0, |expected| expected.wrapping_sub(run.sequence));
        // None of it is ahead of what comes next, and not all of it was seen before.
        let goes_on = before == 0 || before < run.length;
        if goes_on {
            Contents { framing: framing.clone(), expected }
        } else {
            Contents { framing: framing.searching(), expected: None }
        }
    }

    /// Whether FPDUs have CRCs, as far as it is known.
    pub(crate) fn crc(&self) -> CrcUse {
        self.framing.crc
    }

    /// The parts of the payload of `segment`, in their order. What was seen before, and what no FPDU was found in, is of no part.
    pub fn parts(&self, segment: &Segment<'_>) -> Vec<Part> {
        // Only what it holds is asked.
        self.parts_of(Run::of(Seen { frame: 0, time: Time(0) }, segment))
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
            Unit::Start(_, frame, _, behind) => {
                let bytes = StartFrame::LENGTH as u32 + u32::from(frame.private_data_length);
                parts.push(Part::Start(at(behind.wrapping_sub(bytes))..at(behind), frame));
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
            Unit::Lost | Unit::Malformed(..) => {}
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
    /// Its bytes.
    pub fn place(&self) -> &Range<usize> {
        match self {
            Part::Start(place, _) | Part::Begun(place) | Part::Marker(place) => place,
            Part::Fpdu(fpdu) => &fpdu.place,
        }
    }
}

#[cfg(test)]
mod tests;
