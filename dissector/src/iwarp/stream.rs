//! The bytes that one end sends, in the order of their sequence numbers.
//!
//! A capture may have segments out of order, repeated, overlapping, or not at all. Bytes at the
//! expected sequence number are passed on at once, without a copy. Segments after a gap are held
//! until it is filled, or until the capture has evidently lost the missing bytes: the receiver
//! acknowledged them, or nothing arrived for a long time.

use super::Run;
use crate::record::{REORDERING, Seen, Time};
use crate::roomy::Roomy;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// The stream of one end.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    /// The next sequence number; `None` until a segment was seen.
    expected: Option<u32>,
    /// Until then: the sequence number that the other end acknowledged when the capture began, and
    /// the first packet with it. Bytes from it on were sent during the capture.
    begun: Option<(u32, Seen)>,
    /// Segments after a gap, in the order of their sequence numbers.
    held: Roomy<VecDeque<HeldSegment>>,
    /// Payload bytes held.
    held_bytes: usize,
    gap: Option<Gap>,
    /// The sequence number up to which the other end acknowledged everything, and the first packet
    /// with it.
    acknowledged: Option<(u32, Seen)>,
    /// Longest payload of a segment so far.
    longest: u32,
    /// Segments whose bytes were all seen before.
    pub(super) repeated: u64,
    /// Frame of the first repeated segment.
    pub(super) first_repeated: Option<u64>,
    /// Segments that filled a gap before segments seen earlier.
    pub(super) reordered: u64,
    /// Frame of the first reordered segment.
    pub(super) first_reordered: Option<u64>,
}

/// A gap before the first held segment.
#[derive(Clone, Copy, Debug)]
struct Gap {
    /// The held segment with which the wait started.
    since: Seen,
    /// The first packet by which the other end acknowledged the missing bytes.
    confirmed: Option<Seen>,
}

/// A held segment, with its own copy of the payload.
#[derive(Clone, Debug)]
pub(super) struct HeldSegment {
    seen: Seen,
    sequence: u32,
    bytes: Vec<u8>,
    length: u32,
}

impl HeldSegment {
    /// Borrows its bytes.
    pub(super) fn run(&self) -> Run<'_> {
        Run { seen: self.seen, sequence: self.sequence, bytes: &self.bytes, length: self.length }
    }
}

/// The classification of a segment.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arrival<'a> {
    /// It continues the stream.
    Next(Run<'a>),
    /// It is held because of a gap.
    Held,
    /// All of its bytes were seen before.
    Repeated,
    /// It has no payload, or is a keep-alive.
    Nothing,
}

/// The next item released from the held segments.
#[derive(Clone, Debug)]
pub(super) enum Next {
    /// A segment, and the number of its first bytes that were seen before.
    Segment(HeldSegment, u32),
    /// The number of bytes that the capture lacks.
    Missing(u32),
}

/// The time until which gaps are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// Up to this packet, by its time and its number.
    Packet(Seen),
    /// Up to this time.
    Time(Time),
    /// Gaps that were acknowledged are given up now.
    Received,
    /// No more packets follow, so all gaps are given up.
    End,
}

impl Stream {
    /// Most segments held after a gap.
    const MOST_HELD: usize = 1024;
    /// Most payload bytes held after a gap.
    const MOST_HELD_BYTES: usize = 2 << 20;
    /// No sender has more bytes in flight: a TCP window has less than 2^30 bytes (RFC 7323, section
    /// 2.3).
    const WINDOW: i32 = 1 << 30;
    /// The longest wait for a retransmission in nanoseconds.
    const RETRANSMISSION: u64 = 4_000_000_000;

    /// The sequence number after the bytes passed on.
    pub(super) fn expected(&self) -> Option<u32> {
        self.expected
    }

    /// Whether segments are held because of a gap.
    pub(super) fn waits(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether the other end acknowledged all bytes missing before the first held segment.
    pub(super) fn has_acknowledged_gap(&self) -> bool {
        self.gap.is_some_and(|gap| gap.confirmed.is_some())
    }

    /// Bytes of heap memory used.
    pub(super) fn footprint(&self) -> usize {
        self.held.capacity() * size_of::<HeldSegment>() + self.held_bytes
    }

    /// The least number of packets for this number of bytes.
    pub(super) fn packets(&self, bytes: u32) -> u32 {
        bytes.div_ceil(self.longest.max(1)).max(1)
    }

    /// Processes a segment. `run.sequence` is that of its payload, after a SYN.
    pub(super) fn take<'a>(&mut self, run: Run<'a>) -> Arrival<'a> {
        self.longest = self.longest.max(run.length);
        let expected = *self.expected.get_or_insert_with(|| first_expected(self.begun, &run));
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
            // A keep-alive has at most one byte, just before the expected one (RFC 9293, section
            // 3.8.4).
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

    /// Notes that the other end has received everything before this sequence number.
    pub(super) fn acknowledge(&mut self, number: u32, seen: Seen) {
        let ahead = |from: u32| number.wrapping_sub(from) as i32;
        let is_new = self.acknowledged.is_none_or(|(before, _)| ahead(before) > 0);
        let expected = match (self.expected, &mut self.begun) {
            (Some(expected), _) => expected,
            (None, Some((begun, since))) => {
                // The acknowledged bytes may have passed just before the capture began.
                if is_new && seen.time.since(since.time) <= REORDERING.0 {
                    *begun = number;
                }
                *begun
            }
            (None, begun) => begun.insert((number, seen)).0,
        };
        if is_new && (1..Stream::WINDOW).contains(&ahead(expected)) {
            self.acknowledged = Some((number, seen));
            self.confirm();
        }
    }

    /// Notes whether the other end has acknowledged all bytes missing before the first held
    /// segment.
    fn confirm(&mut self) {
        if let (Some(gap), Some(first), Some((number, seen))) =
            (&mut self.gap, self.held.front(), self.acknowledged)
            && number.wrapping_sub(first.sequence) as i32 >= 0
        {
            // Bytes that were acknowledged before the gap was noticed may be only reordered.
            let later = if seen.frame < gap.since.frame { gap.since } else { seen };
            gap.confirmed.get_or_insert(later);
        }
    }

    /// Releases the next held segment that continues the stream, or a gap that is given up.
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

    /// The next time at which [`Stream::next`] may release something without a packet.
    pub(super) fn deadline(&self) -> Option<Time> {
        let gap = self.gap?;
        Some(match gap.confirmed {
            Some(confirmed) => confirmed.time.plus(REORDERING.0 + 1),
            None => gap.since.time.plus(Stream::RETRANSMISSION + 1),
        })
    }
}

/// The first sequence number of a stream whose first captured segment is `run`. A segment soon after
/// the beginning of the capture may follow others that passed before it.
fn first_expected(begun: Option<(u32, Seen)>, run: &Run<'_>) -> u32 {
    let is_sent_since = |&(number, since): &(u32, Seen)| {
        let ahead = run.sequence.wrapping_sub(number) as i32;
        run.seen.time.since(since.time) > REORDERING.0 && (0..Stream::WINDOW).contains(&ahead)
    };
    begun.filter(is_sent_since).map_or(run.sequence, |(number, _)| number)
}

impl Gap {
    /// Whether to stop waiting for the missing bytes.
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
