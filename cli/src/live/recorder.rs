//! The latest packets, for captures that include the time before a trigger.

use rdmascope_dissector::record::{LinkType, Record, Tap, Time};
use std::collections::VecDeque;

/// Keeps the latest packets within a memory limit.
#[derive(Debug)]
pub(super) struct Recorder {
    /// The blocks, oldest first. Never empty.
    blocks: VecDeque<Block>,
    /// Maximum number of blocks.
    most: usize,
    /// Whether packets were dropped.
    has_lost: bool,
}

/// Consecutive packets.
#[derive(Debug, Default)]
pub(super) struct Block {
    bytes: Vec<u8>,
    records: Vec<Kept>,
}

/// The metadata of a packet.
#[derive(Clone, Copy, Debug)]
struct Kept {
    number: u64,
    time: Time,
    link: LinkType,
    original_length: u32,
    dropped: u32,
    tap: Tap,
    at: usize,
    length: usize,
}

impl Block {
    /// The packets, oldest first.
    pub(super) fn records(&self) -> impl Iterator<Item = Record<'_>> {
        self.records.iter().map(|kept| Record {
            number: kept.number,
            time: kept.time,
            link: kept.link,
            original_length: kept.original_length,
            dropped: kept.dropped,
            tap: kept.tap,
            data: &self.bytes[kept.at..kept.at + kept.length],
        })
    }
}

/// Size of a block in bytes, unless a packet is larger.
const BLOCK: usize = 1 << 20;

impl Recorder {
    /// Creates a recorder limited to `memory` bytes, at least two blocks.
    pub(super) fn new(memory: usize) -> Recorder {
        Recorder {
            blocks: VecDeque::from([Block::default()]),
            most: (memory / BLOCK).max(2),
            has_lost: false,
        }
    }

    /// Keeps a packet. If memory is short, `take_dropped` gets the oldest packets, which are dropped.
    pub(super) fn push(&mut self, record: &Record<'_>, take_dropped: impl FnOnce(&Block)) {
        let cost = |block: &Block| block.bytes.len() + block.records.len() * size_of::<Kept>();
        let is_full = self.blocks.back().is_none_or(|block| {
            cost(block) > 0 && cost(block) + record.data.len() + size_of::<Kept>() > BLOCK
        });
        if is_full {
            let block = if self.blocks.len() >= self.most { self.blocks.pop_front() } else { None };
            if let Some(dropped) = &block {
                take_dropped(dropped);
                self.has_lost = true;
            }
            let mut block = block.unwrap_or_default();
            block.bytes.clear();
            block.records.clear();
            self.blocks.push_back(block);
        }
        let Some(block) = self.blocks.back_mut() else { return };
        let Record { number, time, link, original_length, dropped, tap, data } = *record;
        let at = block.bytes.len();
        block.bytes.extend_from_slice(data);
        block.records.push(Kept {
            number,
            time,
            link,
            original_length,
            dropped,
            tap,
            at,
            length: data.len(),
        });
    }

    /// The kept packets, oldest first.
    pub(super) fn records(&self) -> impl Iterator<Item = Record<'_>> {
        self.blocks.iter().flat_map(Block::records)
    }

    /// The time of the oldest kept packet, if older ones were dropped.
    pub(super) fn lost_before(&self) -> Option<Time> {
        self.records().next().filter(|_| self.has_lost).map(|record| record.time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u64, data: &[u8]) -> Record<'_> {
        Record {
            number,
            time: Time(number as i64),
            link: LinkType::ETHERNET,
            original_length: data.len() as u32 + 7,
            dropped: 3,
            tap: Tap { file: 0, interface: 2 },
            data,
        }
    }

    #[test]
    fn latest_packets_are_kept_unchanged() {
        let mut recorder = Recorder::new(4 * BLOCK);
        let packets: Vec<Vec<u8>> =
            (0..8000u32).map(|number| vec![number as u8; 900 + number as usize % 9]).collect();
        let mut dropped = 0;
        for (number, packet) in packets.iter().enumerate() {
            recorder.push(&record(number as u64, packet), |block| dropped += block.records().count());
            if number == 100 {
                assert_eq!((recorder.records().count(), recorder.lost_before()), (101, None));
            }
        }
        let kept: Vec<Record<'_>> = recorder.records().collect();
        let first = kept[0].number;
        assert_eq!(dropped as u64, first);
        // Only complete blocks are dropped, so at least three of four are full.
        assert!(kept.len() * 1000 > 3 * BLOCK && kept.len() * 900 < 4 * BLOCK, "{}", kept.len());
        assert_eq!(recorder.lost_before(), Some(Time(first as i64)));
        for (number, kept) in (first..8000).zip(&kept) {
            let expected = record(number, &packets[number as usize]);
            assert_eq!(
                (kept.number, kept.time, kept.original_length, kept.dropped, kept.tap, kept.data),
                (number, expected.time, expected.original_length, 3, expected.tap, expected.data)
            );
        }
        assert_eq!(kept.last().map(|kept| kept.number), Some(7999));
    }

    #[test]
    fn packet_larger_than_a_block_has_its_own_block() {
        let mut recorder = Recorder::new(0);
        let large = vec![1; 2 * BLOCK];
        for number in 0..5 {
            recorder.push(&record(number, &large), |_| {});
        }
        assert_eq!(recorder.records().map(|record| record.number).collect::<Vec<_>>(), [3, 4]);
    }
}
