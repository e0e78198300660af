//! The bytes that one end sends, put in the order of their sequence numbers.
//!
//! The capture may show segments out of order, again, overlapping, or not at all. What goes on where the stream was is handed on at once,
//! without a copy. What lies ahead of a gap is held until the gap is filled, or until it is clear that the capture lacks what is missing: the
//! receiver acknowledged it, or nothing came for long.

use super::Run;
use crate::record::{REORDERING, Seen, Time};
use crate::roomy::Roomy;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// The stream of one end.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    /// The sequence number that comes next; `None` until a segment was seen.
    expected: Option<u32>,
    /// Segments ahead of a gap, in the order of their sequence numbers.
    held: Roomy<VecDeque<HeldSegment>>,
    /// Payload bytes held.
    held_bytes: usize,
    gap: Option<Gap>,
    /// The sequence number up to which the other end was seen to have received all, and the packet that showed it first.
    acknowledged: Option<(u32, Seen)>,
    /// The longest payload of a segment so far.
    longest: u32,
    /// Segments of which all was seen before.
    pub(super) repeated: u64,
    /// The first of them, by its number in the capture.
    pub(super) first_repeated: Option<u64>,
    /// Segments that filled a gap before segments seen earlier.
    pub(super) reordered: u64,
    /// The first of them.
    pub(super) first_reordered: Option<u64>,
}

/// Bytes are missing before the first segment held.
#[derive(Clone, Copy, Debug)]
struct Gap {
    /// The first segment that waits.
    since: Seen,
    /// When the other end was first seen to have received what is missing.
    confirmed: Option<Seen>,
}

/// A segment that waits, with its own copy of the payload.
#[derive(Clone, Debug)]
pub(super) struct HeldSegment {
    seen: Seen,
    sequence: u32,
    bytes: Vec<u8>,
    length: u32,
}

impl HeldSegment {
    /// What it brings.
    pub(super) fn run(&self) -> Run<'_> {
        Run { seen: self.seen, sequence: self.sequence, bytes: &self.bytes, length: self.length }
    }
}

/// What a segment is to the stream.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arrival<'a> {
    /// It goes on where the stream was.
    Next(Run<'a>),
    /// It waits behind a gap.
    Held,
    /// All of it was seen before.
    Repeated,
    /// It brings nothing: it has no payload, or it asks whether the other end is alive.
    Nothing,
}

/// What comes next of what is held.
#[derive(Clone, Debug)]
pub(super) enum Next {
    /// A segment, of which so many bytes in front were seen before.
    Segment(HeldSegment, u32),
    /// So many bytes that the capture lacks.
    Missing(u32),
}

/// What waits longer than it is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// As this packet shows: its time and its number.
    Packet(Seen),
    /// As time alone shows.
    Time(Time),
    /// What the other end has received is given up now.
    Received,
    /// Nothing comes any more.
    End,
}

impl Stream {
    /// Segments held ahead of a gap.
    const MOST_HELD: usize = 1024;
    /// Payload bytes held ahead of a gap.
    const MOST_HELD_BYTES: usize = 2 << 20;
    /// No sender has as much under way: windows end below 2^30 bytes (RFC 7323, section 2.3).
    const WINDOW: i32 = 1 << 30;
    /// How long a retransmission may take in nanoseconds.
    const RETRANSMISSION: u64 = 4_000_000_000;

    /// The sequence number behind all that was handed on.
    pub(super) fn expected(&self) -> Option<u32> {
        self.expected
    }

    /// Whether segments wait behind a gap.
    pub(super) fn waits(&self) -> bool {
        !self.held.is_empty()
    }

    /// Bytes of memory that it takes up beside itself.
    pub(super) fn footprint(&self) -> usize {
        self.held.capacity() * size_of::<HeldSegment>() + self.held_bytes
    }

    /// How many packets so many bytes are at least.
    pub(super) fn packets(&self, bytes: u32) -> u32 {
        bytes.div_ceil(self.longest.max(1)).max(1)
    }

    /// Takes a segment: `run.sequence` is that of its payload, after a SYN.
    pub(super) fn take<'a>(&mut self, run: Run<'a>) -> Arrival<'a> {
        self.longest = self.longest.max(run.length);
        let expected = *self.expected.get_or_insert(run.sequence);
        let ahead = run.sequence.wrapping_sub(expected) as i32;
        if run.length == 0 || !(-Stream::WINDOW..Stream::WINDOW).contains(&ahead) {
            return Arrival::Nothing;
        }
        if ahead > 0 {
            self.hold(run);
            return Arrival::Held;
        }
        let before = ahead.unsigned_abs();
        if before >= run.length {
            // A keep-alive has one byte at most, right before what comes next (RFC 9293, section 3.8.4).
            if before == 1 && run.length == 1 {
                return Arrival::Nothing;
            }
            self.repeated += 1;
            self.first_repeated.get_or_insert(run.seen.frame);
            return Arrival::Repeated;
        }
        if !self.held.is_empty() {
            self.reordered += 1;
            self.first_reordered.get_or_insert(run.seen.frame);
        }
        let run = run.skip(before);
        self.expected = Some(run.sequence.wrapping_add(run.length));
        Arrival::Next(run)
    }

    fn hold(&mut self, run: Run<'_>) {
        let Some(expected) = self.expected else { return };
        let distance = |sequence: u32| sequence.wrapping_sub(expected);
        let index = self.held.partition_point(|held| distance(held.sequence) <= distance(run.sequence));
        self.gap.get_or_insert(Gap { since: run.seen, confirmed: None });
        self.held_bytes += run.bytes.len();
        let Run { seen, sequence, bytes, length } = run;
        self.held.insert(index, HeldSegment { seen, sequence, bytes: bytes.to_vec(), length });
        self.confirm();
    }

    /// Notes that the other end has received all before this sequence number.
    pub(super) fn acknowledge(&mut self, number: u32, seen: Seen) {
        let Some(expected) = self.expected else { return };
        let ahead = |from: u32| number.wrapping_sub(from) as i32;
        let is_new = self.acknowledged.is_none_or(|(before, _)| ahead(before) > 0);
        if is_new && (1..Stream::WINDOW).contains(&ahead(expected)) {
            self.acknowledged = Some((number, seen));
            self.confirm();
        }
    }

    /// Notes whether the other end has received all that is missing before what is held.
    fn confirm(&mut self) {
        if let (Some(gap), Some(first), Some((number, seen))) =
            (&mut self.gap, self.held.front(), self.acknowledged)
            && number.wrapping_sub(first.sequence) as i32 >= 0
        {
            // What was acknowledged before it came by may be about to come by, too.
            let later = if seen.frame < gap.since.frame { gap.since } else { seen };
            gap.confirmed.get_or_insert(later);
        }
    }

    /// What can be handed on of what is held: what goes on where the stream is, and what the capture lacks where that is clear.
    pub(super) fn next(&mut self, until: Until) -> Option<Next> {
        let expected = self.expected?;
        let first = self.held.front()?;
        let ahead = first.sequence.wrapping_sub(expected) as i32;
        if ahead <= 0 {
            let held = self.held.pop_front()?;
            self.held_bytes -= held.bytes.len();
            self.gap = self.held.front().map(|held| Gap { since: held.seen, confirmed: None });
            self.confirm();
            if self.held.is_empty() {
                self.held = Roomy::default();
            }
            let before = ahead.unsigned_abs().min(held.length);
            if before < held.length {
                self.expected = Some(held.sequence.wrapping_add(held.length));
            }
            return Some(Next::Segment(held, before));
        }
        let is_full = self.held.len() > Stream::MOST_HELD || self.held_bytes > Stream::MOST_HELD_BYTES;
        if !is_full && !self.gap?.is_over(until) {
            return None;
        }
        self.expected = Some(first.sequence);
        Some(Next::Missing(ahead.unsigned_abs()))
    }

    /// When [`Stream::next`] has something by time alone.
    pub(super) fn deadline(&self) -> Option<Time> {
        let gap = self.gap?;
        Some(match gap.confirmed {
            Some(confirmed) => confirmed.time.plus(REORDERING.0 + 1),
            None => gap.since.time.plus(Stream::RETRANSMISSION + 1),
        })
    }
}

impl Gap {
    /// Whether what is missing is not waited for any longer.
    fn is_over(&self, until: Until) -> bool {
        let (nanoseconds, packets) = REORDERING;
        let by_time = |now: Time| {
            now.since(self.since.time) > Stream::RETRANSMISSION
                || self.confirmed.is_some_and(|confirmed| now.since(confirmed.time) > nanoseconds)
        };
        match until {
            Until::End => true,
            Until::Received => self.confirmed.is_some(),
            Until::Time(now) => by_time(now),
            Until::Packet(seen) => {
                let count = |since: Seen| seen.frame.saturating_sub(since.frame);
                by_time(seen.time) || self.confirmed.is_some_and(|since| count(since) > u64::from(packets))
            }
        }
    }
}

#[cfg(test)]
mod tests;
