//! Decides which TCP segments of iWARP may be stored without their data.
//!
//! A segment is cut after its own headers, or after the headers of the FPDU whose data it ends
//! with. It stays complete if the cut would lose more: data of a second FPDU, a marker, a wrong
//! CRC, or a CRC of an FPDU that continues in other segments.

use crate::engine::TcpFlow;
use crate::frame::{Checksum, Segment};
use crate::iwarp::{Contents, CrcUse, CrcVerdict, Fpdu, Part};
use alloc::collections::VecDeque;
use hashbrown::HashSet;
use rdmascope_wire::ddp::Header;

/// The state of the segments kept so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Segments {
    /// Whether this file has a complete segment with a good checksum, or with one left to the
    /// adapter.
    is_sound: bool,
    /// Flows with a complete untagged FPDU in this file. From there on, a reader of this file alone
    /// finds the FPDUs.
    found: HashSet<TcpFlow, foldhash::fast::FixedState>,
    /// The segments shortened last: number and kept bytes of payload.
    shortened: VecDeque<(u64, usize)>,
}

impl Segments {
    /// Maximum number of flows, and of segments.
    const MOST: usize = 1 << 12;

    /// Starts a new output file.
    pub(super) fn begin_file(&mut self) {
        self.is_sound = false;
        self.found.clear();
    }

    /// The number of payload bytes to keep of a segment, or `None` for all. `bulk` is the number of
    /// bytes that it moved and whose contents are not needed.
    pub(super) fn kept(&self, segment: &Segment<'_>, contents: &Contents, bulk: u32) -> Option<usize> {
        let may_lack_checksum = match segment.checksum() {
            Checksum::Good | Checksum::Unfinished => self.is_sound,
            Checksum::Bad => false,
            Checksum::Unverifiable => true,
        };
        if bulk == 0 || !may_lack_checksum || !self.found.contains(&TcpFlow::of(segment)) {
            return None;
        }
        let parts = contents.parts(segment);
        let (Part::Fpdu(last), before) = parts.split_last()? else { return None };
        let is_alone = !before.iter().any(|part| is_tagged(part) || matches!(part, Part::Marker(_)));
        let is_last = last.place.end == segment.payload_length as usize;
        let crc_is_no_loss = match (last.crc, contents.crc()) {
            (Some(CrcVerdict::Bad), _) | (_, CrcUse::Unknown) => false,
            (Some(_), _) => true,
            (None, crc) => crc == CrcUse::Off,
        };
        (is_alone && is_last && crc_is_no_loss && last.data.len() == bulk as usize).then_some(last.data.start)
    }

    /// The kept payload bytes of an earlier segment, if it was shortened.
    pub(super) fn kept_of(&self, number: u64) -> Option<usize> {
        self.shortened.iter().rev().find(|(earlier, _)| *earlier == number).map(|(_, kept)| *kept)
    }

    /// Notes the kept payload bytes of a segment; `None` for all.
    pub(super) fn note(
        &mut self,
        number: u64,
        segment: &Segment<'_>,
        contents: &Contents,
        kept: Option<usize>,
    ) {
        if let Some(kept) = kept {
            if self.shortened.len() == Segments::MOST {
                self.shortened.pop_front();
            }
            return self.shortened.push_back((number, kept));
        }
        self.is_sound |= segment.checksum().is_sound();
        let flow = TcpFlow::of(segment);
        if !self.found.contains(&flow) && contents.parts(segment).iter().any(begins_untagged) {
            if self.found.len() == Segments::MOST {
                self.found.clear();
            }
            self.found.insert(flow);
        }
    }
}

fn is_tagged(part: &Part) -> bool {
    matches!(part, Part::Fpdu(Fpdu { header: Header::Tagged(_), .. }))
}

fn begins_untagged(part: &Part) -> bool {
    matches!(part, Part::Fpdu(Fpdu { header: Header::Untagged(_), begins: true, .. }))
}
