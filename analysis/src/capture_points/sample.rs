//! A sample of a place's packets, to find them in the capture of another place.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use rdmascope_dissector::connection::Route;
use rdmascope_dissector::frame::{Frame, Identity, Segment};
use rdmascope_dissector::record::Time;

/// A sample of a place's packets. A hash of each packet selects the sample, so all places select
/// the same packets.
#[derive(Debug, Default)]
pub struct Sample {
    packets: HashMap<u64, Sighted, FixedState>,
    /// A packet is in the sample if its identity's hash has none of these bits set.
    mask: u64,
    flows: HashMap<Route, u32, FixedState>,
}

/// A packet at one place.
#[derive(Clone, Copy, Debug)]
struct Sighted {
    at: Time,
    /// The number of its route in the sample.
    flow: u32,
    /// Whether it was captured once. A copy at another interface at about the same time does not
    /// count.
    is_one: bool,
}

/// A packet that two places captured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    /// Its route.
    pub(super) route: Route,
    /// Its time at each place.
    pub(super) at: [Time; 2],
}

/// The most packets of a sample. When it has more, half of them are dropped.
const MOST: usize = 1 << 17;
/// The most routes of a sample. Packets of further routes are left out.
const MOST_FLOWS: usize = 1 << 12;
/// The time within which a second capture of a packet is a copy rather than a retransmission, in
/// nanoseconds.
const AT_ONCE: u64 = 2_000_000;

impl Sample {
    /// Adds a transport packet.
    pub fn frame(&mut self, frame: &Frame<'_>, at: Time) {
        self.note(frame.identity, Route { source: frame.source, destination: frame.destination }, at);
    }

    /// Adds a TCP segment.
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

    /// The packets in both samples, in no order.
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
