//! First sightings of an end's latest request packets.

use crate::record::Seen;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use rdmascope_wire::psn::Psn;

/// The latest request packets of an end, by PSN. They show when a repeated or refused packet was
/// first sent.
#[derive(Clone, Debug, Default)]
pub(super) struct RecentRequests {
    packets: Vec<Option<(Psn, Seen)>>,
    /// The latest RDMA READ requests. Each takes up the PSNs of its responses, so they displace
    /// each other in the table.
    reads: VecDeque<(Psn, Seen)>,
}

impl RecentRequests {
    /// Slots at most. A packet is overwritten by the one whose PSN is higher by this number.
    const MOST: usize = 128;
    /// Slots of the first table. Sizes are powers of two, so that no packets collide when the table
    /// doubles.
    const LEAST: usize = 8;

    /// RDMA READ requests that are kept.
    const MOST_READS: usize = 32;

    /// Notes an RDMA READ request.
    pub(super) fn note_read(&mut self, psn: Psn, seen: Seen) {
        if self.reads.iter().any(|(noted, _)| *noted == psn) {
            return;
        }
        if self.reads.len() == RecentRequests::MOST_READS {
            self.reads.pop_front();
        }
        self.reads.push_back((psn, seen));
    }

    /// Notes a packet. A repeated one keeps its first sighting.
    #[inline]
    pub(super) fn note(&mut self, psn: Psn, seen: Seen) {
        loop {
            let most = self.packets.len();
            match self.packets.get_mut(place(psn, most)) {
                Some(Some((noted, _))) if *noted == psn => return,
                Some(free @ None) => return *free = Some((psn, seen)),
                Some(taken) if most == RecentRequests::MOST => return *taken = Some((psn, seen)),
                _ => self.enlarge(),
            }
        }
    }

    /// Doubles the table. It starts small because most flows are short.
    #[cold]
    fn enlarge(&mut self) {
        let most = (2 * self.packets.len()).max(RecentRequests::LEAST);
        let mut places = vec![None; most];
        for noted in self.packets.iter().flatten() {
            places[place(noted.0, most)] = Some(*noted);
        }
        self.packets = places;
    }

    /// The first sighting of the packet with this PSN.
    pub(super) fn find(&self, psn: Psn) -> Option<Seen> {
        let noted = self.packets.get(place(psn, self.packets.len()))?;
        noted.filter(|(noted, _)| *noted == psn).map(|(_, seen)| seen)
    }

    /// Bytes of memory used.
    pub(super) fn memory(&self) -> usize {
        self.packets.len() * size_of::<Option<(Psn, Seen)>>() + self.reads.len() * size_of::<(Psn, Seen)>()
    }

    /// Removes all packets and frees the memory.
    pub(super) fn clear(&mut self) {
        *self = RecentRequests::default();
    }

    /// The first sighting of the request that covers this PSN: the packet that has it, or the RDMA
    /// READ request before it.
    pub(super) fn find_request(&self, psn: Psn) -> Option<Seen> {
        let ahead = |(noted, _): &&(Psn, Seen)| noted.distance(psn);
        let packets = self.packets.iter().flatten().chain(&self.reads);
        let (noted, seen) = packets.filter(|noted| ahead(noted) >= 0).min_by_key(ahead)?;
        // Another request than an RDMA READ covers one PSN.
        let covers = *noted == psn || self.reads.iter().any(|(read, _)| read == noted);
        covers.then_some(*seen)
    }
}

/// The slot of a packet in a table of `most` slots.
fn place(psn: Psn, most: usize) -> usize {
    psn.value() as usize & most.wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Time;

    fn seen(frame: u64) -> Seen {
        Seen { frame, time: Time(0) }
    }

    #[test]
    fn packets_are_found_by_psn_until_replaced() {
        let mut recent = RecentRequests::default();
        for index in 0..200 {
            recent.note(Psn::new(0xff_ffff).plus(index), seen(u64::from(index)));
        }
        assert_eq!(recent.find(Psn::new(0xff_ffff).plus(199)), Some(seen(199)));
        assert_eq!(recent.find(Psn::new(0xff_ffff).plus(72)), Some(seen(72)));
        assert_eq!(recent.find(Psn::new(0xff_ffff).plus(71)), None);
        recent.note(Psn::new(0xff_ffff).plus(199), seen(500));
        assert_eq!(recent.find(Psn::new(0xff_ffff).plus(199)), Some(seen(199)), "a repetition");
    }

    #[test]
    fn table_grows_with_the_flow_up_to_128_entries() {
        let mut recent = RecentRequests::default();
        let taken: [usize; 4] = [8, 9, 100, 1000].map(|packets| {
            (0..packets).for_each(|index| recent.note(Psn::new(index), seen(u64::from(index))));
            let first = packets.saturating_sub(128);
            assert!(
                (first..packets).all(|index| recent.find(Psn::new(index)) == Some(seen(u64::from(index))))
            );
            recent.memory() / size_of::<Option<(Psn, Seen)>>()
        });
        assert_eq!(taken, [8, 16, 128, 128]);
        assert_eq!(RecentRequests::default().find(Psn::new(7)), None, "no table yet");
    }

    #[test]
    fn psn_within_a_read_finds_its_request() {
        let mut recent = RecentRequests::default();
        recent.note(Psn::new(0xff_fffe), seen(7));
        recent.note_read(Psn::new(0xff_fffe), seen(7));
        recent.note(Psn::new(4), seen(9));
        assert_eq!(recent.find_request(Psn::new(3)), Some(seen(7)));
        assert_eq!(recent.find_request(Psn::new(4)), Some(seen(9)));
        assert_eq!(recent.find_request(Psn::new(0xff_fffd)), None);
    }

    /// RDMA READ requests may displace each other in the table of packets.
    #[test]
    fn request_is_found_by_any_psn_it_covers() {
        let mut recent = RecentRequests::default();
        recent.note(Psn::new(9), seen(1));
        for index in 0..8 {
            recent.note(Psn::new(10 + 20 * index), seen(u64::from(index) + 2));
            recent.note_read(Psn::new(10 + 20 * index), seen(u64::from(index) + 2));
        }
        recent.note(Psn::new(138), seen(10));
        for (psn, frame) in [(8, None), (9, Some(1)), (10, Some(2)), (29, Some(2)), (138, Some(10))] {
            assert_eq!(recent.find_request(Psn::new(psn)), frame.map(seen), "{psn}");
        }
        assert_eq!(recent.find_request(Psn::new(139)), None, "a Send covers one PSN");
    }
}
