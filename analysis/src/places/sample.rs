//! Packets of a place, to be found again in what another place shows.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use rdmascope_dissector::connection::Route;
use rdmascope_dissector::frame::{Frame, Identity, Segment};
use rdmascope_dissector::record::Time;

/// Some of the packets of a place. Which, their bytes say, so that of another place the same ones are taken.
#[derive(Debug, Default)]
pub struct Sample {
    packets: HashMap<u64, Sighted, FixedState>,
    /// Packets are taken whose identity has none of these bits.
    mask: u64,
    flows: HashMap<Route, u32, FixedState>,
}

/// A packet, as the place showed it.
#[derive(Clone, Copy, Debug)]
struct Sighted {
    at: Time,
    /// From where to where, as a number of the sample.
    flow: u32,
    /// It was seen once. A copy that comes at once, at another interface, does not count.
    is_one: bool,
}

/// A packet that two places show.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    /// From where to where.
    pub(super) route: Route,
    /// When each of them showed it.
    pub(super) at: [Time; 2],
}

/// Packets of a sample. Where there are more, every second one is let go.
const MOST: usize = 1 << 17;
/// Pairs of addresses of a sample. Packets between others are left out.
const MOST_FLOWS: usize = 1 << 12;
/// Nanoseconds within which a place shows a packet a second time without its having been sent again.
const AT_ONCE: u64 = 2_000_000;

impl Sample {
    /// Takes a transport packet.
    pub fn frame(&mut self, frame: &Frame<'_>, at: Time) {
        self.note(frame.identity, Route { source: frame.source, destination: frame.destination }, at);
    }

    /// Takes a segment of TCP.
    pub fn segment(&mut self, segment: &Segment<'_>, at: Time) {
        self.note(segment.identity(), Route { source: segment.source, destination: segment.destination }, at);
    }

    fn note(&mut self, identity: Identity, route: Route, at: Time) {
        let hash = identity.hash();
        if hash & self.mask != 0 {
            return;
        }
        let next = self.flows.len();
        let flow = match self.flows.entry(route) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(_) if next >= MOST_FLOWS => return,
            Entry::Vacant(free) => *free.insert(next as u32),
        };
        match self.packets.entry(hash) {
            Entry::Occupied(mut known) => {
                let known = known.get_mut();
                known.is_one &= at.since(known.at) <= AT_ONCE;
            }
            Entry::Vacant(free) => {
                free.insert(Sighted { at, flow, is_one: true });
            }
        }
        while self.packets.len() > MOST {
            self.mask = self.mask << 1 | 1;
            let mask = self.mask;
            self.packets.retain(|hash, _| hash & mask == 0);
        }
    }

    /// The packets that both places show, in no order.
    pub(super) fn pairs(&self, other: &Sample) -> Vec<Pair> {
        let mask = self.mask | other.mask;
        let flows: HashMap<u32, Route, FixedState> =
            self.flows.iter().map(|(route, number)| (*number, *route)).collect();
        let mut pairs = Vec::new();
        for (hash, one) in self.packets.iter().filter(|(hash, _)| *hash & mask == 0) {
            if let Some(two) = other.packets.get(hash)
                && one.is_one
                && two.is_one
            {
                pairs.push(Pair { route: flows[&one.flow], at: [one.at, two.at] });
            }
        }
        pairs
    }
}
