//! The same of iWARP: which TCP segments may lack the data that they move.
//!
//! A segment is cut behind its own headers, or behind those of the FPDU whose data it ends with. It stays whole where more than that
//! is lost: data of a second FPDU, a marker, a CRC that is wrong or whose FPDU goes on in other segments.

use crate::engine::TcpFlow;
use crate::frame::{Checksum, Segment};
use crate::iwarp::{Contents, CrcUse, CrcVerdict, Fpdu, Part};
use alloc::collections::VecDeque;
use hashbrown::HashSet;
use rdmascope_wire::ddp::Header;

/// What is known of the segments that were kept.
#[derive(Clone, Debug, Default)]
pub(super) struct Segments {
    /// One with a right checksum, or one that was left to an adapter, was kept whole in this file.
    is_sound: bool,
    /// What ends send of which an untagged FPDU was kept whole in this file: who reads that file alone finds FPDUs from there on.
    found: HashSet<TcpFlow, foldhash::fast::FixedState>,
    /// The last that were shortened: by number, with the bytes of payload that were kept.
    shortened: VecDeque<(u64, usize)>,
}

impl Segments {
    /// Flows and segments that are remembered.
    const MOST: usize = 1 << 12;

    /// What is kept from now on goes to another file.
    pub(super) fn begin_file(&mut self) {
        self.is_sound = false;
        self.found.clear();
    }

    /// How many bytes of the payload of a segment are needed, where that is not all; `bulk`: how many of them it moved of which only the
    /// number is.
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

    /// How many bytes of the payload of an earlier segment were kept, where it was shortened.
    pub(super) fn kept_of(&self, number: u64) -> Option<usize> {
        self.shortened.iter().rev().find(|(earlier, _)| *earlier == number).map(|(_, kept)| *kept)
    }

    /// Notes how many bytes of the payload of a segment are kept; `None`: all.
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
