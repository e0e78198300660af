//! RDMA Writes to memory that no call in the capture advertised.
//!
//! If the capture lacks a call, the responder's RDMA Writes for it precede the reply that returns
//! the chunks. They are kept for that reply, which names the memory.

use crate::connection::ConnectionId;
use crate::rdma::{End, Placement};
use alloc::vec::Vec;

/// The latest RDMA Writes of all connections: at least the last [`Half::MOST_BYTES`] bytes, or the
/// last [`Half::MOST`] packets.
#[derive(Clone, Debug, Default)]
pub(super) struct Unclaimed {
    latest: Half,
    before: Half,
    /// Some of them were dropped.
    pub(super) forgot: bool,
}

#[derive(Clone, Debug, Default)]
struct Half {
    entries: Vec<Entry>,
    bytes: Vec<u8>,
}

/// A packet of an RDMA Write.
#[derive(Clone, Copy, Debug)]
struct Entry {
    connection: ConnectionId,
    /// The end whose memory was written.
    owner: End,
    placement: Placement<'static>,
    /// Offset and number of its bytes.
    bytes: (u32, u32),
}

impl Half {
    const MOST: usize = 1024;
    const MOST_BYTES: usize = 1 << 20;

    fn clear(&mut self) {
        self.entries.clear();
        self.bytes.clear();
    }

    fn get(&self, entry: &Entry) -> Placement<'_> {
        let (start, length) = entry.bytes;
        Placement { bytes: &self.bytes[start as usize..][..length as usize], ..entry.placement }
    }
}

impl Unclaimed {
    pub(super) fn is_empty(&self) -> bool {
        self.latest.entries.is_empty() && self.before.entries.is_empty()
    }

    /// Keeps an RDMA Write to memory of end `owner`.
    #[cold]
    pub(super) fn keep(&mut self, connection: ConnectionId, owner: End, placement: &Placement<'_>) {
        let captured = placement.bytes;
        if self.latest.entries.len() == Half::MOST
            || self.latest.bytes.len() + captured.len() > Half::MOST_BYTES
        {
            self.forgot |= !self.before.entries.is_empty();
            core::mem::swap(&mut self.latest, &mut self.before);
            self.latest.clear();
        }
        let Half { entries, bytes } = &mut self.latest;
        let start = bytes.len() as u32;
        bytes.extend_from_slice(captured);
        let bytes = (start, captured.len() as u32);
        entries.push(Entry { connection, owner, placement: placement.without_bytes(), bytes });
    }

    /// The RDMA Writes to memory of end `owner` that satisfy `is_wanted`, in the order of arrival.
    pub(super) fn of(
        &self,
        connection: ConnectionId,
        owner: End,
        is_wanted: impl Fn(&Placement<'_>) -> bool,
    ) -> impl Iterator<Item = Placement<'_>> {
        [&self.before, &self.latest]
            .into_iter()
            .flat_map(move |half| {
                let entries =
                    half.entries.iter().filter(move |it| it.connection == connection && it.owner == owner);
                entries.map(|entry| half.get(entry))
            })
            .filter(move |placement| is_wanted(placement))
    }

    /// Removes these RDMA Writes.
    pub(super) fn remove(
        &mut self,
        connection: ConnectionId,
        owner: End,
        is_wanted: impl Fn(&Placement<'_>) -> bool,
    ) {
        for half in [&mut self.before, &mut self.latest] {
            half.entries
                .retain(|it| it.connection != connection || it.owner != owner || !is_wanted(&it.placement));
            if half.entries.is_empty() {
                half.clear();
            }
        }
    }

    /// Bytes of heap memory that a clone needs.
    pub(super) fn footprint(&self) -> usize {
        let half = |half: &Half| half.entries.len() * size_of::<Entry>() + half.bytes.len();
        half(&self.latest) + half(&self.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdma::{MemoryRange, Position};
    use crate::record::{Seen, Time};
    use rdmascope_wire::Rkey;

    fn placement(number: u32, bytes: &[u8]) -> Placement<'_> {
        let length = bytes.len() as u32;
        Placement {
            seen: Seen { frame: number.into(), time: Time::default() },
            position: Position::default(),
            first: Position::default(),
            request: None,
            memory: MemoryRange { rkey: Rkey(number), address: 0, length },
            address: 0,
            bytes,
            length,
            repeated: false,
        }
    }

    /// Endless RDMA Writes, each with a handle of its own: large, small and empty ones.
    #[test]
    fn unclaimed_writes_are_bounded() {
        const MOST: usize = 2 * (Half::MOST_BYTES + Half::MOST * size_of::<Entry>());
        let owner = End::First;
        for size in [4096, 1500, 1024, 1, 0] {
            let mut unclaimed = Unclaimed::default();
            let bytes = alloc::vec![7; size];
            for number in 0..5000 {
                unclaimed.keep(ConnectionId(1 + number % 3), owner, &placement(number, &bytes));
                assert!(unclaimed.footprint() <= MOST, "{number} of {size} bytes");
                let held = [&unclaimed.latest, &unclaimed.before].map(|half| half.bytes.len());
                assert!(held.into_iter().all(|bytes| bytes <= Half::MOST_BYTES), "{held:?}");
                // Two halves hold all of them until now. A half is used up to its last byte.
                let half = Half::MOST.min(Half::MOST_BYTES.checked_div(size).unwrap_or(Half::MOST)) as u32;
                assert_eq!(unclaimed.forgot, number >= 2 * half, "{number} of {size} bytes");
            }
            assert!(unclaimed.forgot);
            // The last ones are kept in order, and at least the promised number.
            let kept: Vec<u64> = (1..=3)
                .flat_map(|id| {
                    unclaimed
                        .of(ConnectionId(id), owner, |_| true)
                        .map(|it| it.seen.frame)
                        .collect::<Vec<_>>()
                })
                .collect();
            let least = Half::MOST.min(Half::MOST_BYTES.checked_div(size).unwrap_or(Half::MOST));
            assert!(kept.len() >= least && kept.contains(&4999), "{} of {size} bytes", kept.len());
            assert!(*kept.iter().min().expect("some are kept") == 5000 - kept.len() as u64);
            // Claimed writes free memory.
            (1..=3).for_each(|id| unclaimed.remove(ConnectionId(id), owner, |_| true));
            assert!(unclaimed.is_empty() && unclaimed.footprint() == 0);
        }
    }

    /// Only writes of the given connection, end and memory are removed.
    #[test]
    fn only_claimed_writes_are_removed() {
        let (first, second) = (ConnectionId(1), ConnectionId(2));
        let all = [
            (first, End::First, 1),
            (first, End::First, 2),
            (first, End::Second, 1),
            (second, End::First, 1),
        ];
        let mut unclaimed = Unclaimed::default();
        for (connection, owner, number) in all {
            unclaimed.keep(connection, owner, &placement(number, &[7; 100]));
        }
        assert_eq!(unclaimed.footprint(), all.len() * (size_of::<Entry>() + 100));
        let is_wanted = |it: &Placement<'_>| it.memory.rkey == Rkey(1);
        assert_eq!(unclaimed.of(first, End::First, is_wanted).count(), 1);
        unclaimed.remove(first, End::First, is_wanted);
        let left = all.map(|(connection, owner, number)| {
            unclaimed.of(connection, owner, |it| it.memory.rkey == Rkey(number)).count()
        });
        assert_eq!(left, [0, 1, 1, 1]);
        assert!(!unclaimed.is_empty());
    }
}
