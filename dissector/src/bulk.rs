//! Which packets a capture may leave out the payload of.
//!
//! Most bytes of a session are data that RDMA Writes and RDMA Read responses move between memories. Of those only their number
//! matters to transactions, findings and latencies. But Long Calls, Long Replies and what comes with RDMA_DONE move the same way, and their
//! bytes are read. No packet tells which of both it is: Read responses name no memory, and of an RDMA Write only the first packet does. The chunk
//! lists of calls say it, and what was seen of the connection says which packet goes where. That is what an [`Engine`] follows, so an
//! engine decides here: a payload may be left out where handling its record needed nothing of it.
//!
//! An engine that is handed the shortened records then goes through the same states as one that is handed the whole ones, and reports the same.
//! Of iWARP, a segment is shortened to what stands in front of the data that it ends with: `segments` says which.
//!
//! What may not be certain yet stays whole: what waits behind a gap, what was sent again, what goes to memory that nobody was seen to
//! advertise, and packets with a bad ICRC, because a shortened one has none that could be verified.
//!
//! A shortened packet loses its ICRC, which distinguishes it from another packet with the same
//! headers. So a packet stays whole if one with the same headers was shortened and is still in the
//! table of copies. The table then recognizes the same copies in the whole and in the shortened
//! capture.

mod segments;

use crate::engine::{Config, Copies, Engine, Need, Sighting};
use crate::frame::{self, Frame, IcrcVerdict, Other, Segment};
use crate::iwarp::Contents;
use crate::record::{Record, Seen};
use crate::transport::{Dissected, Transport};
use alloc::boxed::Box;
use alloc::vec;
use segments::Segments;

/// Records in, how many bytes of each to keep out. It takes the memory of an engine: bounded, and small for few connections.
#[derive(Clone, Debug)]
pub struct BulkCut {
    config: frame::Config,
    engine: Engine,
    /// The packets as they were kept, as an engine that is handed them notes them.
    copies: Copies,
    /// A bit for each of the last records, by its number: whether it was shortened.
    shortened: Box<[u64]>,
    /// A packet with a good ICRC was kept whole.
    is_sound: bool,
    segments: Segments,
}

/// Records of which it is remembered whether they were shortened. A copy of a packet comes within a few hundred.
const REMEMBERED: u64 = 1 << 16;

impl BulkCut {
    /// Of a capture of which nothing was seen yet. The packets of RoCEv2 are told apart as `config` says; where it does not ask for
    /// ICRCs, packets with a bad one are shortened too.
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

    /// What is kept from now on goes to another file, which may be read by itself.
    ///
    /// An engine takes a bad ICRC for a damaged packet only behind a good one. So each file needs one of these that is whole.
    pub fn begin_file(&mut self) {
        self.is_sound = false;
        self.segments.begin_file();
    }

    /// How many bytes of the next record to keep: all, or those in front of the payload. Numbers of records grow.
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
            // The first segment of an iWARP connection.
            if let Err(Other::Tcp(segment)) = &dissected.frame
                && self.engine.follows(segment)
            {
                self.copies.note(Sighting::of_segment(segment, seen, record.tap()));
            }
            return record.data.len();
        };
        let sighting = |frame: &Frame<'_>| Sighting::new(frame.identity, &transport.bth, seen, record.tap());
        let length = headers_length(record, transport);
        let in_short = || {
            let record = Record { data: &record.data[..length], ..*record };
            frame::dissect(&record, &self.config).ok().map(|frame| sighting(&frame))
        };
        let shortened = match need {
            Need::Nothing if self.may_lack_icrc(frame) => {
                in_short().filter(|sighting| !self.copies.holds(*sighting))
            }
            // Both are recognized as the same packet only if they are alike.
            Need::OfCopy(first) if self.was_shortened(first, record.number) => in_short(),
            _ => None,
        };
        self.copies.note(shortened.unwrap_or_else(|| sighting(frame)));
        self.remember(record.number, shortened.is_some());
        self.is_sound |= frame.icrc == IcrcVerdict::Good && shortened.is_none();
        if shortened.is_some() { length } else { record.data.len() }
    }

    /// The same of a segment of an iWARP connection that was known before.
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
        let whole = || Sighting::of_segment(segment, seen, record.tap());
        self.copies.note(shortened.map_or_else(whole, |(_, sighting)| sighting));
        let kept = shortened.map(|(kept, _)| kept);
        self.segments.note(record.number, segment, contents, kept);
        kept.map_or(record.data.len(), length)
    }

    /// The engine that decides, with what it knows of the capture by now.
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

/// Bytes of a record in front of the payload.
fn headers_length(record: &Record<'_>, transport: &Transport<'_>) -> usize {
    let before = transport.payload.as_ptr().addr().wrapping_sub(record.data.as_ptr().addr());
    debug_assert!(before <= record.data.len(), "the payload is a part of the record");
    before.min(record.data.len())
}

#[cfg(test)]
mod tests;
