//! The latest records of a live stream or interface, within a bound. The user can step back in them
//! while the capture continues.

use rdmascope_dissector::record::{LinkType, Record, Tap, Time};
use std::collections::VecDeque;

/// Bytes of a block. Blocks are discarded as a whole.
const BLOCK: usize = 1 << 20;

/// The kept records.
#[derive(Debug)]
pub struct Ring {
    blocks: VecDeque<Block>,
    /// The most bytes that blocks may hold.
    most: usize,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Block {
    /// The number of its first record.
    first: u64,
    heads: Vec<Head>,
    bytes: Vec<u8>,
}

/// A record without its bytes.
#[derive(Clone, Copy, Debug)]
struct Head {
    time: Time,
    link: LinkType,
    original_length: u32,
    dropped: u32,
    tap: Tap,
    /// The end of its bytes in the block.
    end: usize,
}

impl Block {
    /// Its size in the accounting of the ring.
    fn weight(&self) -> usize {
        self.bytes.len() + self.heads.len() * size_of::<Head>()
    }
}

impl Ring {
    /// Creates a ring for this many bytes of records. The latest block is kept whatever its size.
    pub fn new(most: usize) -> Ring {
        Ring { blocks: VecDeque::new(), most, bytes: 0 }
    }

    /// Adds a record, and discards the oldest ones if there is no room.
    pub fn push(&mut self, record: &Record<'_>) {
        let is_full = self.blocks.back().is_none_or(|block| block.weight() + record.data.len() > BLOCK);
        if is_full {
            self.blocks.push_back(Block { first: record.number, ..Block::default() });
        }
        let Some(block) = self.blocks.back_mut() else { return };
        let before = block.weight();
        block.bytes.extend_from_slice(record.data);
        block.heads.push(Head {
            time: record.time,
            link: record.link,
            original_length: record.original_length,
            dropped: record.dropped,
            tap: record.tap,
            end: block.bytes.len(),
        });
        self.bytes += block.weight() - before;
        while self.bytes > self.most && self.blocks.len() > 1 {
            self.bytes -= self.blocks.pop_front().map_or(0, |block| block.weight());
        }
    }

    /// The number of the oldest kept record; `None` if there is none.
    pub fn first(&self) -> Option<u64> {
        self.blocks.front().map(|block| block.first)
    }

    /// The records from this number on. Empty if that record is no longer kept.
    pub fn walk(&self, number: u64) -> impl Iterator<Item = Record<'_>> {
        let after = self.blocks.partition_point(|block| block.first <= number);
        let index = after.checked_sub(1).unwrap_or(self.blocks.len());
        self.blocks
            .iter()
            .skip(index)
            .flat_map(Block::records)
            .skip_while(move |record| record.number < number)
    }
}

impl Block {
    fn records(&self) -> impl Iterator<Item = Record<'_>> {
        let starts = core::iter::once(0).chain(self.heads.iter().map(|head| head.end));
        self.heads.iter().zip(starts).zip(self.first..).map(|((head, start), number)| Record {
            number,
            time: head.time,
            link: head.link,
            original_length: head.original_length,
            dropped: head.dropped,
            tap: head.tap,
            data: &self.bytes[start..head.end],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u64, data: &[u8]) -> Record<'_> {
        Record {
            number,
            time: Time(number as i64 * 10),
            link: LinkType::ETHERNET,
            original_length: data.len() as u32 + 4,
            dropped: u32::from(number == 2),
            tap: Tap { file: 0, interface: 3 },
            data,
        }
    }

    #[test]
    fn the_latest_records_are_kept() {
        let mut ring = Ring::new(3 * BLOCK);
        let long = vec![7; BLOCK / 4];
        assert!(ring.first().is_none() && ring.walk(1).next().is_none());
        for number in 1..=40 {
            ring.push(&record(number, &long[..long.len() - number as usize]));
            assert!(ring.bytes <= 3 * BLOCK, "{}", ring.bytes);
        }
        let first = ring.first().unwrap();
        assert!((25..=35).contains(&first), "{first}");
        assert_eq!(
            ring.walk(first).map(|record| record.number).collect::<Vec<_>>(),
            Vec::from_iter(first..=40)
        );
        let one = ring.walk(38).next().unwrap();
        assert_eq!((one.number, one.time, one.data.len()), (38, Time(380), long.len() - 38));
        assert_eq!((one.original_length, one.tap.interface), (one.data.len() as u32 + 4, 3));
        // Discarded, or not recorded yet.
        assert!(ring.walk(first - 1).next().is_none() && ring.walk(41).next().is_none());
    }
}
