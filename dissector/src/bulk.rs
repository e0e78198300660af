//! Decides which packets may be stored without their payload.
//!
//! Most bytes of a session move by RDMA Writes and RDMA Read responses, and transactions, findings
//! and latencies need only their number. But Long Calls, Long Replies and the replies that
//! RDMA_DONE concludes move in the same way, and their bytes are parsed. A packet alone does not
//! show the difference: Read responses name no memory, and only the first packet of an RDMA Write
//! does. The chunk lists of calls and the state of the connection show it, and an [`Engine`] tracks
//! both. So an engine decides: a payload may be omitted if the engine did not need it.
//!
//! An engine that reads the shortened records has the same states and reports the same events. An
//! iWARP segment is cut before the data at its end: see `segments`.
//!
//! Packets whose use is uncertain stay complete: those after a gap, retransmissions, accesses to
//! memory that no call advertised, and packets with a bad ICRC, because a shortened packet has no
//! ICRC to verify.
//!
//! Without its ICRC, a packet looks like another with the same headers. So a packet stays complete
//! if one with the same headers was shortened and is still in the table of copies. The table then
//! finds the same copies in the complete and in the shortened capture.

mod segments;

use crate::engine::{Config, Copies, Engine, Need, Sighting};
use crate::frame::{self, Frame, IcrcVerdict, Other, Segment};
use crate::iwarp::Contents;
use crate::record::{Record, Seen};
use crate::transport::{Dissected, Transport};
use alloc::boxed::Box;
use alloc::vec;
use segments::Segments;

/// Computes the number of bytes to keep of each record. It uses as much memory as an engine:
/// bounded, and small for few connections.
#[derive(Clone, Debug)]
pub struct BulkCut {
    config: frame::Config,
    engine: Engine,
    /// The kept packets, in the state that an engine would note from them.
    copies: Copies,
    /// One bit for each recent record, by its number: whether it was shortened.
    shortened: Box<[u64]>,
    /// Whether a packet with a good ICRC was kept complete.
    is_sound: bool,
    segments: Segments,
}

/// The number of records with such a bit. Copies of a packet follow within a few hundred records.
const REMEMBERED: u64 = 1 << 16;

impl BulkCut {
    /// Starts at the beginning of a capture. `config` selects the RoCEv2 packets. If it disables
    /// ICRC checks, packets with a bad ICRC are shortened too.
    pub fn new(config: frame::Config) -> BulkCut {
        BulkCut {
            config,
            engine: Engine::new(Config { frame: config, ..Config::default() }),
            copies: Copies::default(),
            shortened: vec![0; (REMEMBERED / 64) as usize].into_boxed_slice(),
            is_sound: false,
            segments: Segments::default(),
        }
    }

    /// Starts a new output file, which may be read alone.
    ///
    /// An engine treats a bad ICRC as damage only after it has seen a good one. So each file needs
    /// a complete packet with a good ICRC.
    pub fn begin_file(&mut self) {
        self.is_sound = false;
        self.segments.begin_file();
    }

    /// The number of bytes to keep of the next record: all, or those before the payload. Record
    /// numbers must increase.
    pub fn kept(&mut self, record: &Record<'_>) -> usize {
        let dissected = Dissected::new(record, &self.config);
        if let Err(Other::Tcp(segment)) = &dissected.frame
            && let Some(contents) = self.engine.contents(record, segment)
        {
            return self.kept_of_segment(record, &dissected, segment, &contents);
        }
        let need = self.engine.handle_dissected(record, &dissected, &mut |_| {});
        let seen = Seen { frame: record.number, time: record.time };
        let (Ok(frame), Some(Ok(transport))) = (&dissected.frame, &dissected.transport) else {
            // This may be the first segment of an iWARP connection.
            if let Err(Other::Tcp(segment)) = &dissected.frame
                && self.engine.follows(segment)
            {
                self.copies.note(Sighting::of_segment(segment, seen, record.tap()));
            }
            return record.data.len();
        };
        let sighting = |frame: &Frame<'_>| Sighting::new(frame, &transport.bth, seen, record.tap());
        let length = headers_length(record, transport);
        let in_short = || {
            let record = Record { data: &record.data[..length], ..*record };
            frame::dissect(&record, &self.config).ok().map(|frame| sighting(&frame))
        };
        let shortened = match need {
            Need::Nothing if self.may_lack_icrc(frame) => {
                in_short().filter(|sighting| !self.copies.holds(*sighting))
            }
            // A copy is recognized only if both packets are shortened or both complete.
            Need::OfCopy(first) if self.was_shortened(first, record.number) => in_short(),
            _ => None,
        };
        self.copies.note(shortened.unwrap_or_else(|| sighting(frame)));
        self.remember(record.number, shortened.is_some());
        self.is_sound |= frame.icrc == IcrcVerdict::Good && shortened.is_none();
        if shortened.is_some() { length } else { record.data.len() }
    }

    /// The same for a segment of a known iWARP connection.
    fn kept_of_segment(
        &mut self,
        record: &Record<'_>,
        dissected: &Dissected<'_>,
        segment: &Segment<'_>,
        contents: &Contents,
    ) -> usize {
        let need = self.engine.handle_dissected(record, dissected, &mut |_| {});
        let seen = Seen { frame: record.number, time: record.time };
        let length = |kept: usize| record.data.len().min(segment.payload_offset.saturating_add(kept));
        let in_short = |kept: usize| {
            let record = Record { data: &record.data[..length(kept)], ..*record };
            match frame::dissect(&record, &self.config) {
                Err(Other::Tcp(segment)) => Some((kept, Sighting::of_segment(&segment, seen, record.tap()))),
                _ => None,
            }
        };
        let shortened = match need {
            Need::OfCopy(first) => self.segments.kept_of(first).and_then(in_short),
            _ => {
                let bulk = self.engine.bulk_of(record.number);
                let kept = self.segments.kept(segment, contents, bulk).and_then(in_short);
                kept.filter(|(_, sighting)| !self.copies.holds(*sighting))
            }
        };
        let complete = || Sighting::of_segment(segment, seen, record.tap());
        self.copies.note(shortened.map_or_else(complete, |(_, sighting)| sighting));
        let kept = shortened.map(|(kept, _)| kept);
        self.segments.note(record.number, segment, contents, kept);
        kept.map_or(record.data.len(), length)
    }

    /// The engine that decides, in its current state.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    fn may_lack_icrc(&self, frame: &Frame<'_>) -> bool {
        match frame.icrc {
            IcrcVerdict::Good => self.is_sound,
            IcrcVerdict::Bad => false,
            IcrcVerdict::Unverifiable => true,
        }
    }

    fn was_shortened(&self, earlier: u64, now: u64) -> bool {
        let bit = earlier % REMEMBERED;
        now.wrapping_sub(earlier) < REMEMBERED && self.shortened[(bit / 64) as usize] >> (bit % 64) & 1 != 0
    }

    fn remember(&mut self, number: u64, is_shortened: bool) {
        let bit = number % REMEMBERED;
        let word = &mut self.shortened[(bit / 64) as usize];
        *word = *word & !(1 << (bit % 64)) | u64::from(is_shortened) << (bit % 64);
    }
}

/// Bytes of a record before the payload.
fn headers_length(record: &Record<'_>, transport: &Transport<'_>) -> usize {
    let before = transport.payload.as_ptr().addr().wrapping_sub(record.data.as_ptr().addr());
    debug_assert!(before <= record.data.len(), "the payload is a part of the record");
    before.min(record.data.len())
}

#[cfg(test)]
mod tests;
