//! Sets of byte ranges.

use crate::roomy::Roomy;
use alloc::vec::Vec;

/// A set of bytes of a region of at most 4 GiB, as disjoint ranges in order.
///
/// Nearly all data moves in address order, which takes no heap memory: only ranges apart from the
/// front are in the list. The list has at most [`Intervals::MOST`] ranges. When it is full, the set
/// may contain fewer bytes than were inserted, but never more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Intervals {
    /// The end of the range that begins at 0.
    front: u64,
    /// Ranges `start..end` after the front, in order, not touching each other.
    rest: Roomy<Vec<(u64, u64)>>,
}

impl Intervals {
    /// Maximum number of ranges apart from the front.
    pub const MOST: usize = 4096;

    /// Inserts `start..end` and returns the number of bytes that are new.
    #[inline]
    pub fn insert(&mut self, start: u64, end: u64) -> u64 {
        if start <= self.front && self.rest.is_empty() {
            let new = end.saturating_sub(self.front);
            self.front += new;
            return new;
        }
        self.insert_apart(start, end)
    }

    fn insert_apart(&mut self, start: u64, end: u64) -> u64 {
        let start = start.max(self.front);
        if start >= end {
            return 0;
        }
        // The ranges that the new one overlaps or touches are merged with it.
        let from = self.rest.partition_point(|range| range.1 < start);
        let to = self.rest.partition_point(|range| range.0 <= end);
        if from == to && self.rest.len() >= Intervals::MOST {
            return 0;
        }
        let met = &self.rest[from..to];
        let old: u64 = met.iter().map(|range| range.1.min(end).saturating_sub(range.0.max(start))).sum();
        let merged = (
            met.first().map_or(start, |range| range.0.min(start)),
            met.last().map_or(end, |range| range.1.max(end)),
        );
        if merged.0 <= self.front {
            self.front = merged.1;
            self.rest.drain(from..to);
        } else {
            self.rest.splice(from..to, [merged]);
        }
        end - start - old
    }

    /// Bytes of memory that the list uses.
    #[inline]
    pub fn memory(&self) -> usize {
        self.rest.capacity() * size_of::<(u64, u64)>()
    }

    /// Whether the set may lack bytes that were inserted.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.rest.len() >= Intervals::MOST
    }

    /// The number of contiguous bytes from 0 on.
    #[inline]
    pub fn front(&self) -> u64 {
        self.front
    }

    /// The byte after the last one in the set.
    #[inline]
    pub fn end(&self) -> u64 {
        self.rest.last().map_or(self.front, |range| range.1)
    }

    /// Bytes in the set.
    pub fn length(&self) -> u64 {
        self.front + self.rest.iter().map(|range| range.1 - range.0).sum::<u64>()
    }

    /// The ranges `start..end` in the set, in order, not touching each other.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.within(0, u64::MAX)
    }

    /// The ranges of the set, clipped to `start..end`.
    pub fn within(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let from = self.rest.partition_point(|range| range.1 <= start);
        let rest = self.rest.get(from..).unwrap_or(&[]).iter().copied();
        let ranges = core::iter::once((0, self.front)).chain(rest).take_while(move |range| range.0 < end);
        let within = ranges.map(move |range| (range.0.max(start), range.1.min(end)));
        within.filter(|range| range.0 < range.1)
    }

    /// The ranges of `0..length` that are not in the set, in order.
    pub fn holes(&self, length: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let starts = core::iter::once(self.front).chain(self.rest.iter().map(|range| range.1));
        let ends = self.rest.iter().map(|range| range.0).chain(core::iter::once(u64::MAX));
        starts.zip(ends).map(move |(start, end)| (start, end.min(length))).filter(|(start, end)| start < end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn contiguous_inserts_keep_no_list() {
        let mut set = Intervals::default();
        assert_eq!(set.insert(0, 1024), 1024);
        assert_eq!(set.insert(1024, 2048), 1024);
        assert_eq!(set.insert(512, 1536), 0, "a duplicate adds nothing");
        assert_eq!((set.front(), set.rest.len()), (2048, 0));
    }

    #[test]
    fn hole_is_listed_until_it_is_filled() {
        let mut set = Intervals::default();
        set.insert(0, 10);
        set.insert(20, 30);
        assert_eq!(set.holes(40).collect::<Vec<_>>(), [(10, 20), (30, 40)]);
        assert_eq!(set.end(), 30);
        assert_eq!(set.insert(5, 25), 10);
        assert_eq!(set.holes(30).count(), 0);
        assert_eq!(set.front(), 30);
    }

    #[test]
    fn ranges_are_listed_within_bounds() {
        let mut set = Intervals::default();
        assert_eq!((set.length(), set.memory(), set.ranges().count()), (0, 0, 0));
        for (start, end) in [(0, 10), (20, 30), (40, 50)] {
            set.insert(start, end);
        }
        assert_eq!((set.length(), set.end()), (30, 50));
        // Two ranges apart from the front, with two numbers each.
        assert!((32..=256).contains(&set.memory()), "{}", set.memory());
        let within = |start, end| set.within(start, end).collect::<Vec<_>>();
        assert_eq!(within(0, u64::MAX), [(0, 10), (20, 30), (40, 50)]);
        assert_eq!(within(5, 45), [(5, 10), (20, 30), (40, 45)]);
        assert_eq!(within(10, 20), []);
        assert_eq!(within(30, 41), [(40, 41)]);
    }

    #[test]
    fn covered_range_adds_nothing() {
        let mut set = Intervals::default();
        set.insert(0, 10);
        set.insert(20, 30);
        assert_eq!([set.insert(2, 8), set.insert(10, 10), set.insert(22, 28)], [0; 3]);
        assert_eq!(set.holes(30).collect::<Vec<_>>(), [(10, 20)]);
    }

    /// When the list is full, only ranges that touch another can be inserted.
    #[test]
    fn separate_ranges_are_bounded() {
        let mut set = Intervals::default();
        (1..=4096).for_each(|index| assert_eq!(set.insert(4 * index, 4 * index + 1), 1));
        assert_eq!(set.insert(4 * 4097, 4 * 4097 + 1), 0);
        assert_eq!((set.length(), set.insert(4 * 4096 + 1, 4 * 4096 + 3), set.length()), (4096, 2, 4098));
        assert_eq!((set.insert(0, 4), set.front()), (4, 5), "a range that touches the front");
        assert_eq!(set.insert(4 * 4097, 4 * 4097 + 1), 1, "the merge made room");
    }

    proptest! {
        #[test]
        fn intervals_match_plain_set(ranges in proptest::collection::vec((0u64..64, 0u64..16), 0..24)) {
            let mut set = Intervals::default();
            let mut plain = [false; 96];
            for (start, length) in ranges {
                let new = plain[start as usize..(start + length) as usize].iter().filter(|it| !**it).count();
                plain[start as usize..(start + length) as usize].fill(true);
                prop_assert_eq!(set.insert(start, start + length), new as u64);
            }
            let mut listed = [false; 96];
            for (start, end) in set.within(8, 50) {
                prop_assert!(!listed[start as usize - 1]);
                listed[start as usize..end as usize].fill(true);
            }
            for byte in 0..96 {
                prop_assert_eq!(listed[byte], plain[byte] && (8..50).contains(&byte), "byte {}", byte);
            }
            let mut holes = [false; 96];
            for (start, end) in set.holes(96) {
                holes[start as usize..end as usize].fill(true);
            }
            for (byte, is_in) in plain.iter().enumerate() {
                prop_assert_eq!(holes[byte], !is_in, "byte {}", byte);
            }
            prop_assert_eq!(set.front() as usize, plain.iter().position(|it| !it).unwrap_or(96));
        }
    }
}
