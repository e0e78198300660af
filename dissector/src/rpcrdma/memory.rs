//! The memory that one end has advertised in open transactions.

use super::Slot;
use crate::rdma::MemoryRange;
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

/// Registered memory by R_Key, address and the frame that completed the message with the segment.
///
/// A later transaction may register the same memory again before the operations of an earlier one are
/// delivered, because they wait for a packet that the capture lacks. Segments may overlap: several
/// calls may offer the same bytes to RDMA Reads, and a call whose reply the capture lacks stays open.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    segments: BTreeMap<Key, (Target, u32)>,
    /// At least the length of the longest one in bytes.
    longest: u32,
}

type Key = (Rkey, u64, u64);

impl Memory {
    /// The most segments examined for one that contains an address.
    const MOST: usize = 64;

    /// Whether this memory was advertised.
    pub(crate) fn advertises(&self, rkey: Rkey, address: u64) -> bool {
        self.containing(rkey, address).next().is_some()
    }

    /// Adds a segment that a message of this frame advertises.
    pub(super) fn advertise(&mut self, segment: &Segment, frame: u64, slot: Slot, index: u32) {
        if segment.length > 0 {
            let start = (segment.handle, segment.offset, frame);
            self.segments.insert(start, (Target { slot, segment: index }, segment.length));
            self.longest = self.longest.max(segment.length);
        }
    }

    /// Merges the memory of the same end from another table.
    pub(super) fn absorb(&mut self, other: Memory) {
        for (start, segment) in other.segments {
            self.segments.entry(start).or_insert(segment);
        }
        self.longest = self.longest.max(other.longest);
    }

    /// Removes a segment of a transaction that a message of this frame advertised.
    pub(super) fn withdraw(&mut self, segment: &Segment, frame: u64, slot: Slot) {
        if let Entry::Occupied(found) = self.segments.entry((segment.handle, segment.offset, frame))
            && found.get().0.slot == slot
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
            let (&(_, address, _), &(mut last, _)) = segments.next()?;
            while let Some((_, (next, _))) = segments.next_if(|((_, next, _), _)| *next == address) {
                last = *next;
            }
            Some(last.slot)
        })
    }

    /// A transaction other than `slot` with a segment that overlaps this one.
    pub(super) fn overlapping(&self, segment: &Segment, slot: Slot) -> Option<Slot> {
        let (rkey, first) = (segment.handle, segment.offset);
        let last = first.saturating_add(u64::from(segment.length.checked_sub(1)?));
        let before = self.containing(rkey, first).map(|(_, target, _)| target);
        let within =
            self.segments.range((rkey, first, 0)..=(rkey, last, u64::MAX)).map(|(_, (target, _))| *target);
        before.chain(within.take(Self::MOST)).map(|target| target.slot).find(|found| *found != slot)
    }

    /// Bytes of heap memory that a clone needs, if the nodes of the tree are three quarters full.
    pub(super) fn footprint(&self) -> usize {
        self.segments.len() * size_of::<(Key, (Target, u32))>() * 4 / 3
    }

    /// The segments that contain an address, each with the frame that advertised it and its end.
    fn containing(&self, rkey: Rkey, address: u64) -> impl Iterator<Item = (u64, Target, u128)> {
        let before = self.segments.range((rkey, 0, 0)..=(rkey, address, u64::MAX)).rev().take(Self::MOST);
        let near = before.take_while(move |((_, start, _), _)| address - start < u64::from(self.longest));
        near.filter(move |((_, start, _), (_, length))| address - start < u64::from(*length)).map(
            |((_, start, since), (target, length))| {
                (*since, *target, u128::from(*start) + u128::from(*length))
            },
        )
    }

    /// The segment that contains `address`, for an operation of this frame on `memory`: one that
    /// contains the rest of the operation before another, then the last one that was advertised before
    /// it, or else the first one.
    pub(super) fn find(&self, memory: MemoryRange, address: u64, frame: u64) -> Option<Found> {
        let end = u128::from(memory.address) + u128::from(memory.length);
        let containing = || self.containing(memory.rkey, address);
        let rank = |(since, _, segment_end): &(u64, Target, u128)| {
            let recency = if *since > frame { u64::MAX - since } else { *since };
            (*segment_end >= end, *since <= frame, recency)
        };
        let (since, target, _) = containing().max_by_key(rank)?;
        let next = containing().map(|(next, ..)| next).filter(|next| *next > frame.max(since)).min();
        let from = if since > frame { 0 } else { since };
        Some(Found { target, frames: from..next.unwrap_or(u64::MAX) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(handle: u32, offset: u64, length: u32) -> Segment {
        Segment { handle: Rkey(handle), length, offset }
    }

    #[test]
    fn reused_rkey_belongs_to_later_transaction() {
        let (first, second) = (Slot { index: 0, generation: 1 }, Slot { index: 1, generation: 1 });
        let region = segment(7, 0x1000, 0x100);
        let mut memory = Memory::default();
        memory.advertise(&region, 10, first, 0);
        memory.advertise(&region, 20, second, 3);
        let find = |memory: &Memory, rkey, address, frame| {
            let range = MemoryRange { rkey: Rkey(rkey), address, length: 1 };
            let Found { target, frames } = memory.find(range, address, frame)?;
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

    /// A call offers a part of the memory of another. An operation belongs to the segment that contains
    /// all of it, and to the later call if both do.
    #[test]
    fn overlapping_segments_are_found_by_extent() {
        let [whole, part] = [0, 1].map(|index| Slot { index, generation: 1 });
        let mut memory = Memory::default();
        memory.advertise(&segment(7, 0x1000, 0x1000), 10, whole, 0);
        memory.advertise(&segment(7, 0x1100, 0x100), 20, part, 0);
        for (address, length, frame, found) in [
            (0x1000, 0x100, 30, Some(whole)),
            (0x1100, 0x100, 30, Some(part)),
            (0x1100, 0x100, 15, Some(whole)),
            (0x1100, 0x101, 30, Some(whole)),
            (0x1200, 0x100, 30, Some(whole)),
            (0x1f00, 0x200, 30, Some(whole)),
            (0x2000, 1, 30, None),
        ] {
            let range = MemoryRange { rkey: Rkey(7), address, length };
            let slot = memory.find(range, address, frame).map(|found| found.target.slot);
            assert_eq!(slot, found, "{address:#x} {length:#x} {frame}");
        }
        assert_eq!(memory.overlapping(&segment(7, 0x1300, 1), part), Some(whole));
    }

    /// An empty segment is not memory, so one at the same address stays.
    #[test]
    fn empty_segment_is_not_memory() {
        let (first, second) = (Slot { index: 0, generation: 1 }, Slot { index: 1, generation: 1 });
        let mut memory = Memory::default();
        memory.advertise(&segment(7, 0x1000, 0x100), 1, first, 0);
        memory.advertise(&segment(7, 0x1000, 0), 2, second, 0);
        let range = MemoryRange { rkey: Rkey(7), address: 0x1000, length: 1 };
        assert_eq!(memory.find(range, 0x1000, 2).map(|found| found.target.slot), Some(first));
        assert_eq!(memory.holders(Rkey(7)).collect::<Vec<_>>(), [first]);
    }

    #[test]
    fn overlap_with_other_transaction_is_found() {
        let (first, second) = (Slot { index: 0, generation: 1 }, Slot { index: 1, generation: 1 });
        let mut memory = Memory::default();
        memory.advertise(&segment(7, 0x1000, 0x100), 1, first, 0);
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
        memory.advertise(&segment(1, u64::MAX - 1, 100), 1, slot, 0);
        assert!(memory.advertises(Rkey(1), u64::MAX));
    }
}
