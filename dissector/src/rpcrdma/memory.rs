//! The memory that one end has advertised in open transactions.

use super::Slot;
use crate::rdma::{MemoryRange, Placement, Position, ReadRequest};
use crate::record::{REORDERING, Seen};
use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use core::ops::Range;
use rdmascope_wire::Rkey;
use rdmascope_wire::rpcrdma::Segment;

/// The transaction and the segment to which a piece of memory belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) slot: Slot,
    /// Index among the transaction's segments.
    pub(super) segment: u32,
}

/// A piece of memory, and the frames in which an operation on it concerns its transaction: from the
/// message that advertised it to the next one that advertised the same address.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) target: Target,
    pub(super) frames: Range<u64>,
}

/// An operation on a byte of memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    /// The memory that the operation names.
    pub(crate) memory: MemoryRange,
    /// The byte.
    pub(crate) address: u64,
    /// A packet of the operation.
    pub(crate) seen: Seen,
    /// Its position among the packets of the end that requested it, if known.
    pub(crate) position: Option<Position>,
}

impl Access {
    /// The first byte of an RDMA Write, or of the response to an RDMA Read (`reading`).
    #[inline]
    pub(super) fn of(placement: &Placement<'_>, reading: bool) -> Access {
        let Placement { memory, address, seen, first, request, .. } = *placement;
        Access { memory, address, seen, position: if reading { request } else { Some(first) } }
    }

    /// The first byte that an RDMA Read requests.
    pub(super) fn requested(request: &ReadRequest) -> Access {
        let ReadRequest { memory, seen, position, .. } = *request;
        Access { memory, address: memory.address, seen, position: Some(position) }
    }

    /// The same operation on another byte.
    pub(super) fn at(self, address: u64) -> Access {
        Access { address, ..self }
    }
}

/// The message that advertises memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Advertisement {
    /// The packet that completes it.
    pub(super) seen: Seen,
    /// The last position of the other end that its sender acknowledged before. Nothing up to it is an
    /// operation on the memory, unless the capture shows the acknowledgement too early.
    pub(super) after: Option<Position>,
    /// The capture may lack a message just before it, with the same memory.
    pub(super) follows_gap: bool,
}

impl Advertisement {
    /// Whether the operation was acknowledged before the message. Positions cannot be compared after a
    /// long time.
    #[inline]
    fn is_later_than(&self, access: &Access) -> bool {
        self.after.zip(access.position).is_some_and(|(after, position)| {
            after.distance(position) <= 0 && access.seen.time.since(self.seen.time) <= REORDERING.0
        })
    }
}

/// Registered memory by R_Key, address and the frame that completed the message with the segment.
///
/// A later transaction may register the same memory again before the operations of an earlier one are
/// delivered, because they wait for a packet that the capture lacks. Segments may overlap: several
/// calls may offer the same bytes to RDMA Reads, and a call whose reply the capture lacks stays open.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    segments: BTreeMap<Key, Advertised>,
    /// At least the length of the longest one in bytes.
    longest: u32,
    /// Whether a message advertised memory.
    is_used: bool,
}

type Key = (Rkey, u64, u64);

/// A segment that is advertised.
#[derive(Clone, Copy, Debug)]
struct Advertised {
    target: Target,
    /// Length in bytes.
    length: u32,
    by: Advertisement,
}

impl Memory {
    /// The most segments examined for one that contains an address.
    const MOST: usize = 64;

    /// Whether this memory was advertised.
    pub(crate) fn advertises(&self, rkey: Rkey, address: u64) -> bool {
        self.containing(rkey, address).next().is_some()
    }

    /// Adds a segment that a message advertises. Returns whether the message has advertised memory at
    /// its address before. Then the longest of these segments is known.
    pub(super) fn advertise(&mut self, segment: &Segment, by: Advertisement, slot: Slot, index: u32) -> bool {
        if segment.length == 0 {
            return false;
        }
        let start = (segment.handle, segment.offset, by.seen.frame);
        let new = Advertised { target: Target { slot, segment: index }, length: segment.length, by };
        self.longest = self.longest.max(segment.length);
        self.is_used = true;
        match self.segments.entry(start) {
            Entry::Vacant(entry) => {
                entry.insert(new);
                false
            }
            Entry::Occupied(mut known) => {
                let is_of_message = known.get().target.slot == slot;
                if !is_of_message || known.get().length < new.length {
                    known.insert(new);
                }
                is_of_message
            }
        }
    }

    /// Whether a message has advertised memory.
    pub(super) fn is_used(&self) -> bool {
        self.is_used
    }

    /// Merges the memory of the same end from another table.
    pub(super) fn absorb(&mut self, other: Memory) {
        for (start, segment) in other.segments {
            self.segments.entry(start).or_insert(segment);
        }
        self.longest = self.longest.max(other.longest);
        self.is_used |= other.is_used;
    }

    /// Removes a segment of a transaction that a message of this frame advertised.
    pub(super) fn withdraw(&mut self, segment: &Segment, frame: u64, slot: Slot) {
        if let Entry::Occupied(found) = self.segments.entry((segment.handle, segment.offset, frame))
            && found.get().target.slot == slot
        {
            found.remove();
        }
        if self.segments.is_empty() {
            self.longest = 0;
        }
    }

    /// The transactions that advertised memory under this R_Key, once for each segment: of those at
    /// one address, the last.
    pub(super) fn holders(&self, rkey: Rkey) -> impl Iterator<Item = Slot> {
        let mut segments = self.segments.range((rkey, 0, 0)..=(rkey, u64::MAX, u64::MAX)).peekable();
        core::iter::from_fn(move || {
            let (&(_, address, _), &Advertised { target: mut last, .. }) = segments.next()?;
            while let Some((_, next)) = segments.next_if(|((_, next, _), _)| *next == address) {
                last = next.target;
            }
            Some(last.slot)
        })
    }

    /// A transaction other than `slot` with a segment that overlaps this one.
    pub(super) fn overlapping(&self, segment: &Segment, slot: Slot) -> Option<Slot> {
        let (rkey, first) = (segment.handle, segment.offset);
        let last = first.saturating_add(u64::from(segment.length.checked_sub(1)?));
        let before = self.containing(rkey, first).map(|(found, _)| found.target);
        let within =
            self.segments.range((rkey, first, 0)..=(rkey, last, u64::MAX)).map(|(_, found)| found.target);
        before.chain(within.take(Self::MOST)).map(|target| target.slot).find(|found| *found != slot)
    }

    /// Bytes of heap memory that a clone needs, if the nodes of the tree are three quarters full.
    pub(super) fn footprint(&self) -> usize {
        self.segments.len() * size_of::<(Key, Advertised)>() * 4 / 3
    }

    /// The segments that contain an address, each with its end.
    fn containing(&self, rkey: Rkey, address: u64) -> impl Iterator<Item = (&Advertised, u128)> {
        let before = self.segments.range((rkey, 0, 0)..=(rkey, address, u64::MAX)).rev().take(Self::MOST);
        let near = before.take_while(move |((_, start, _), _)| address - start < u64::from(self.longest));
        near.filter(move |((_, start, _), found)| address - start < u64::from(found.length))
            .map(|((_, start, _), found)| (found, u128::from(*start) + u128::from(found.length)))
    }

    /// Whether all segments that contain the byte of an operation are too late for it, because the
    /// capture lacks the call that advertised the same memory before.
    pub(super) fn is_uncertain(&self, access: &Access) -> bool {
        self.advertises(access.memory.rkey, access.address) && self.find(access).is_none()
    }

    /// The segment that contains the byte of an operation: one whose message was sent before it, then
    /// one that contains the rest of the operation, then the last one that was advertised before it, or
    /// else the first one.
    pub(super) fn find(&self, access: &Access) -> Option<Found> {
        let Access { memory, address, seen, .. } = *access;
        let end = u128::from(memory.address) + u128::from(memory.length);
        let since = |found: &Advertised| found.by.seen.frame;
        let may_be = |found: &Advertised| !found.by.follows_gap || !found.by.is_later_than(access);
        let containing = || self.containing(memory.rkey, address).filter(move |(found, _)| may_be(found));
        let rank = |(found, segment_end): &(&Advertised, u128)| {
            let is_before = since(found) <= seen.frame;
            let recency = if is_before { since(found) } else { u64::MAX - since(found) };
            (!found.by.is_later_than(access), *segment_end >= end, is_before, recency)
        };
        let (found, _) = containing().max_by_key(rank)?;
        let since_found = since(found);
        let others = || containing().map(|(other, _)| since(other));
        if others().any(|other| (since_found + 1..=seen.frame).contains(&other)) {
            // The next operation may belong to the later one.
            return Some(Found { target: found.target, frames: seen.frame..seen.frame + 1 });
        }
        let next = others().filter(|next| *next > seen.frame.max(since_found)).min();
        let from = if since_found > seen.frame { 0 } else { since_found };
        Some(Found { target: found.target, frames: from..next.unwrap_or(u64::MAX) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Time;
    use rdmascope_wire::psn::Psn;

    fn segment(handle: u32, offset: u64, length: u32) -> Segment {
        Segment { handle: Rkey(handle), length, offset }
    }

    /// A message that this packet completes.
    fn by(frame: u64) -> Advertisement {
        Advertisement { seen: Seen { frame, time: Time(0) }, after: None, follows_gap: false }
    }

    /// An operation in this packet on some bytes.
    fn access(rkey: u32, (address, length): (u64, u32), frame: u64) -> Access {
        let memory = MemoryRange { rkey: Rkey(rkey), address, length };
        Access { memory, address, seen: Seen { frame, time: Time(0) }, position: None }
    }

    #[test]
    fn reused_rkey_belongs_to_later_transaction() {
        let (first, second) = (Slot { index: 0, generation: 1 }, Slot { index: 1, generation: 1 });
        let region = segment(7, 0x1000, 0x100);
        let mut memory = Memory::default();
        memory.advertise(&region, by(10), first, 0);
        memory.advertise(&region, by(20), second, 3);
        let find = |memory: &Memory, rkey, address, frame| {
            let Found { target, frames } = memory.find(&access(rkey, (address, 1), frame))?;
            Some((target.slot, target.segment, frames))
        };
        for (frame, found) in [
            (9, (first, 0, 0..20)),
            (10, (first, 0, 10..20)),
            (19, (first, 0, 10..20)),
            (20, (second, 3, 20..u64::MAX)),
        ] {
            assert_eq!(find(&memory, 7, 0x10ff, frame), Some(found), "{frame}");
        }
        assert_eq!(memory.holders(Rkey(7)).collect::<Vec<_>>(), [second]);
        memory.withdraw(&region, 10, first);
        assert_eq!(find(&memory, 7, 0x10ff, 9), Some((second, 3, 0..u64::MAX)));
        for (rkey, address) in [(7, 0x1100), (7, 0xfff), (8, 0x1000)] {
            assert_eq!(find(&memory, rkey, address, 20), None);
        }
        memory.withdraw(&region, 20, second);
        assert_eq!(find(&memory, 7, 0x1000, 20), None);
    }

    /// The caller acknowledged operations before its next call, but the capture shows them after it.
    #[test]
    fn operation_acknowledged_before_a_call_is_not_for_it() {
        let (first, second) = (Slot { index: 0, generation: 1 }, Slot { index: 1, generation: 1 });
        let region = segment(7, 0x1000, 0x100);
        let of = |memory: &Memory, psn, nanoseconds| {
            let seen = Seen { frame: 21, time: Time(nanoseconds) };
            let position = Some(Position::new(Psn::new(psn)));
            let access = Access { seen, position, ..access(7, (0x1000, 4), 21) };
            (memory.find(&access).map(|found| found.target.slot), memory.is_uncertain(&access))
        };
        for follows_gap in [false, true] {
            let after = Some(Position::new(Psn::new(500)));
            let mut memory = Memory::default();
            memory.advertise(&region, by(10), first, 0);
            memory.advertise(&region, Advertisement { after, follows_gap, ..by(20) }, second, 0);
            for (psn, nanoseconds, found) in
                [(499, 0, first), (500, 2_000_000, first), (500, 2_000_001, second), (501, 0, second)]
            {
                assert_eq!(of(&memory, psn, nanoseconds), (Some(found), false), "{psn} {nanoseconds}");
            }
            memory.withdraw(&region, 10, first);
            assert_eq!(of(&memory, 500, 0), (Some(second).filter(|_| !follows_gap), follows_gap));
            assert_eq!(of(&memory, 501, 0), (Some(second), false));
        }
    }

    /// A call offers a part of the memory of another. An operation belongs to the segment that contains
    /// all of it, and to the later call if both do.
    #[test]
    fn overlapping_segments_are_found_by_extent() {
        let [whole, part] = [0, 1].map(|index| Slot { index, generation: 1 });
        let mut memory = Memory::default();
        memory.advertise(&segment(7, 0x1000, 0x1000), by(10), whole, 0);
        memory.advertise(&segment(7, 0x1100, 0x100), by(20), part, 0);
        for (address, length, frame, found) in [
            (0x1000, 0x100, 30, Some(whole)),
            (0x1100, 0x100, 30, Some(part)),
            (0x1100, 0x100, 15, Some(whole)),
            (0x1100, 0x101, 30, Some(whole)),
            (0x1200, 0x100, 30, Some(whole)),
            (0x1f00, 0x200, 30, Some(whole)),
            (0x2000, 1, 30, None),
        ] {
            let slot = memory.find(&access(7, (address, length), frame)).map(|found| found.target.slot);
            assert_eq!(slot, found, "{address:#x} {length:#x} {frame}");
        }
        assert_eq!(memory.overlapping(&segment(7, 0x1300, 1), part), Some(whole));
    }

    /// An empty segment is not memory, so one at the same address stays.
    #[test]
    fn empty_segment_is_not_memory() {
        let (first, second) = (Slot { index: 0, generation: 1 }, Slot { index: 1, generation: 1 });
        let mut memory = Memory::default();
        memory.advertise(&segment(7, 0x1000, 0x100), by(1), first, 0);
        memory.advertise(&segment(7, 0x1000, 0), by(2), second, 0);
        let found = memory.find(&access(7, (0x1000, 1), 2));
        assert_eq!(found.map(|found| found.target.slot), Some(first));
        assert_eq!(memory.holders(Rkey(7)).collect::<Vec<_>>(), [first]);
    }

    #[test]
    fn overlap_with_other_transaction_is_found() {
        let (first, second) = (Slot { index: 0, generation: 1 }, Slot { index: 1, generation: 1 });
        let mut memory = Memory::default();
        memory.advertise(&segment(7, 0x1000, 0x100), by(1), first, 0);
        for (handle, offset, length, found) in [
            (7, 0x1000, 0x100, true),
            (7, 0x10ff, 1, true),
            (7, 0x1100, 1, false),
            (7, 0xfff, 1, false),
            (7, 0xfff, 2, true),
            (7, 0x800, 0x1000, true),
            (7, 0x1080, 0, false),
            (8, 0x1000, 0x100, false),
        ] {
            let expected = found.then_some(first);
            let segment = segment(handle, offset, length);
            assert_eq!(memory.overlapping(&segment, second), expected, "{segment:?}");
            assert_eq!(memory.overlapping(&segment, first), None, "its own: {segment:?}");
        }
        assert_eq!(memory.holders(Rkey(7)).collect::<Vec<_>>(), [first]);
        assert_eq!(memory.holders(Rkey(8)).count(), 0);
    }

    #[test]
    fn region_past_end_of_address_space_is_advertised() {
        let slot = Slot { index: 0, generation: 1 };
        let mut memory = Memory::default();
        memory.advertise(&segment(1, u64::MAX - 1, 100), by(1), slot, 0);
        assert!(memory.advertises(Rkey(1), u64::MAX));
    }
}
