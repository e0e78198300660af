//! The memory that one end has advertised in open transactions.

use super::Slot;
use alloc::collections::BTreeMap;
use rdmascope_wire::Rkey;
use rdmascope_wire::rpcrdma::Segment;

/// The transaction and the segment to which a piece of memory belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) slot: Slot,
    /// Index among the transaction's segments.
    pub(super) segment: u32,
}

/// Registered memory by R_Key and address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory(BTreeMap<(Rkey, u64), (Target, u32)>);

impl Memory {
    /// Whether this memory was advertised.
    pub(crate) fn advertises(&self, rkey: Rkey, address: u64) -> bool {
        self.find(rkey, address).is_some()
    }

    /// Adds a segment. It replaces one at the same address of the same region, which was registered
    /// again.
    pub(super) fn advertise(&mut self, segment: &Segment, slot: Slot, index: u32) {
        if segment.length > 0 {
            let start = (segment.handle, segment.offset);
            self.0.insert(start, (Target { slot, segment: index }, segment.length));
        }
    }

    /// Merges the memory of the same end from another table.
    pub(super) fn absorb(&mut self, other: Memory) {
        for (start, segment) in other.0 {
            self.0.entry(start).or_insert(segment);
        }
    }

    /// Removes a segment, unless a later transaction owns it.
    pub(super) fn withdraw(&mut self, segment: &Segment, slot: Slot) {
        let start = (segment.handle, segment.offset);
        if self.0.get(&start).is_some_and(|(target, _)| target.slot == slot) {
            self.0.remove(&start);
        }
    }

    /// The transactions that advertised memory under this R_Key, once for each segment.
    pub(super) fn holders(&self, rkey: Rkey) -> impl Iterator<Item = Slot> {
        self.0.range((rkey, 0)..=(rkey, u64::MAX)).map(|(_, (target, _))| target.slot)
    }

    /// A transaction other than `slot` with a segment that overlaps this one.
    pub(super) fn overlapping(&self, segment: &Segment, slot: Slot) -> Option<Slot> {
        let (rkey, first) = (segment.handle, segment.offset);
        let last = first.saturating_add(u64::from(segment.length.checked_sub(1)?));
        let before = self
            .0
            .range(..=(rkey, first))
            .next_back()
            .filter(|(start, (_, length))| start.0 == rkey && first - start.1 < u64::from(*length));
        let after = self.0.range((rkey, first)..=(rkey, last)).next();
        let found = before.into_iter().chain(after).map(|(_, (target, _))| target.slot);
        found.into_iter().find(|found| *found != slot)
    }

    /// Bytes of heap memory that a clone needs, if the nodes of the tree are three quarters full.
    pub(super) fn footprint(&self) -> usize {
        self.0.len() * size_of::<((Rkey, u64), (Target, u32))>() * 4 / 3
    }

    /// The segment that contains `address`.
    pub(super) fn find(&self, rkey: Rkey, address: u64) -> Option<Target> {
        let (start, (target, length)) = self.0.range(..=(rkey, address)).next_back()?;
        (start.0 == rkey && address - start.1 < u64::from(*length)).then_some(*target)
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
        memory.advertise(&region, first, 0);
        memory.advertise(&region, second, 3);
        memory.withdraw(&region, first);
        let target = memory.find(Rkey(7), 0x10ff).unwrap();
        assert_eq!((target.slot, target.segment), (second, 3));
        assert_eq!(memory.find(Rkey(7), 0x1100), None);
        assert_eq!(memory.find(Rkey(7), 0xfff), None);
        assert_eq!(memory.find(Rkey(8), 0x1000), None);
        memory.withdraw(&region, second);
        assert_eq!(memory.find(Rkey(7), 0x1000), None);
    }

    /// An empty segment is not memory, so one at the same address stays.
    #[test]
    fn empty_segment_is_not_memory() {
        let (first, second) = (Slot { index: 0, generation: 1 }, Slot { index: 1, generation: 1 });
        let mut memory = Memory::default();
        memory.advertise(&segment(7, 0x1000, 0x100), first, 0);
        memory.advertise(&segment(7, 0x1000, 0), second, 0);
        assert_eq!(memory.find(Rkey(7), 0x1000).map(|target| target.slot), Some(first));
        assert_eq!(memory.holders(Rkey(7)).collect::<Vec<_>>(), [first]);
    }

    #[test]
    fn overlap_with_other_transaction_is_found() {
        let (first, second) = (Slot { index: 0, generation: 1 }, Slot { index: 1, generation: 1 });
        let mut memory = Memory::default();
        memory.advertise(&segment(7, 0x1000, 0x100), first, 0);
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
        memory.advertise(&segment(1, u64::MAX - 1, 100), slot, 0);
        assert!(memory.advertises(Rkey(1), u64::MAX));
    }
}
