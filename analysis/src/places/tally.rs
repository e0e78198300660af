//! Where each packet was seen, and when.

use super::arrivals::{Arrivals, Lane};
use super::split::Split;
use super::{MOST_PLACES, Places};
use crate::observer::Observer;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use hdrhistogram::Histogram;
use rdmascope_dissector::connection::{FlowKey, Route};
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::{Event, Packet};
use rdmascope_dissector::frame::IcrcVerdict;
use rdmascope_dissector::record::{Seen, Time};
use rdmascope_dissector::transaction::Transaction;
use rdmascope_wire::Qpn;
use rdmascope_wire::psn::Psn;
use std::collections::{BTreeMap, VecDeque};

/// Takes down where packets were seen, for as long as one may be under way. Wants [`Event::Packet`], and of transactions their
/// [steps](rdmascope_dissector::exchange::Keep::steps).
#[derive(Debug)]
pub struct Tally {
    places: Places,
    /// The place of each file.
    files: Vec<usize>,
    apart: u64,
    /// The time of the latest record.
    now: Time,
    /// When each place showed its first packet, and its latest.
    shown: [Option<(Time, Time)>; MOST_PLACES],
    /// The latest packets, by their numbers.
    sightings: VecDeque<Sighting>,
    /// Those of them at the front of which it is decided where they passed.
    decided: usize,
    ways: BTreeMap<(Route, usize, usize), Way>,
    /// The latest packet of each half-flow that came to a place.
    arrived: HashMap<(FlowKey, usize), u64, FixedState>,
    arrivals: Arrivals,
    /// Transactions whose last packets may be under way.
    waiting: VecDeque<(Time, Transaction)>,
    /// Nothing more comes.
    is_over: bool,
}

/// A packet.
#[derive(Clone, Copy, Debug)]
struct Sighting {
    frame: u64,
    route: Route,
    /// Its ICRC is wrong.
    is_damaged: bool,
    /// When each place showed it; `UNSEEN`: it did not.
    at: [i64; MOST_PLACES],
    /// When the place at its receiver's end showed the transmission of it that the receiver took; `UNSEEN`: not yet.
    taken: i64,
    /// Whether that is looked for.
    is_awaited: bool,
}

const UNSEEN: i64 = i64::MIN;
/// Packets that are remembered.
const MOST_SIGHTINGS: usize = 1 << 18;
/// For how long a packet may be sent again until it comes.
const SENT_AGAIN: u64 = 5_000_000_000;
/// Transactions that wait.
const MOST_WAITING: usize = 1 << 14;
/// Ways that are told apart.
const MOST_WAYS: usize = 1 << 10;
/// Half-flows of which the order of packets is looked at.
const MOST_FLOWS: usize = 1 << 12;

/// The way of packets from one place to the next.
#[derive(Debug)]
pub struct Way {
    /// The packets that go it: from where to where.
    pub route: Route,
    /// The place that they pass first, as an index.
    pub from: usize,
    /// The place that they pass next.
    pub to: usize,
    /// Packets that both places show.
    pub packets: u64,
    /// What these took, in nanoseconds.
    times: Histogram<u64>,
    /// Packets that the first place shows and the next one does not.
    pub lost: Located,
    /// Packets with a wrong ICRC that only the next place shows: they were damaged on the way, and what they were counts as lost.
    pub damaged: Located,
    /// Packets that the next place shows twice.
    pub doubled: Located,
    /// Packets that came behind a later one of their half-flow.
    pub reordered: Located,
    /// Packets that the next place shows and the first does not: its capture lacks them.
    pub unseen: Located,
    /// Packets that one place shows before the other begins, or behind its end: whether they were lost cannot be told.
    pub undecided: u64,
    /// Lost and unseen packets behind the latest packet of the place that does not show them.
    pending: [(Located, Time); 2],
}

/// Packets, by their frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Located {
    /// How many.
    pub count: u64,
    /// The frames of the first ones.
    pub frames: Vec<u64>,
}

impl Located {
    /// Frames that are named.
    pub const MOST: usize = 16;

    fn add(&mut self, frame: u64) {
        self.count += 1;
        if self.frames.len() < Located::MOST {
            self.frames.push(frame);
        }
    }

    fn append(&mut self, other: &mut Located) {
        let room = Located::MOST.saturating_sub(self.frames.len()).min(other.frames.len());
        self.count += other.count;
        self.frames.extend(other.frames.drain(..room));
        *other = Located::default();
    }
}

impl Way {
    fn new(route: Route, from: usize, to: usize) -> Way {
        Way {
            route,
            from,
            to,
            packets: 0,
            times: Histogram::new(3).expect("three significant digits are possible"),
            lost: Located::default(),
            damaged: Located::default(),
            doubled: Located::default(),
            reordered: Located::default(),
            unseen: Located::default(),
            undecided: 0,
            pending: [(Located::default(), Time::default()), (Located::default(), Time::default())],
        }
    }

    /// The least that a packet took, the median, what 99 of 100 do not exceed, and the most, in nanoseconds; `None` without packets.
    pub fn times(&self) -> Option<[u64; 4]> {
        let times = &self.times;
        (!times.is_empty()).then(|| {
            let quantile = |part| times.value_at_quantile(part).clamp(times.min(), times.max());
            [times.min(), quantile(0.5), quantile(0.99), times.max()]
        })
    }

    /// Takes in a packet, that the two places showed at these times or not.
    fn count(&mut self, sighting: &Sighting, shown: &[Option<(Time, Time)>; MOST_PLACES]) {
        let [sent, came] = [sighting.at[self.from], sighting.at[self.to]];
        match (sent, came) {
            (UNSEEN, UNSEEN) => {}
            (UNSEEN, _) if sighting.is_damaged => self.damaged.add(sighting.frame),
            (UNSEEN, at) => self.lacks(1, Time(at), sighting.frame, shown[self.from]),
            (at, UNSEEN) => self.lacks(0, Time(at), sighting.frame, shown[self.to]),
            (sent, came) => {
                self.packets += 1;
                // It resizes itself, so that it takes any number.
                let _ = self.times.record(Time(came).since(Time(sent)));
            }
        }
    }

    /// One place showed a packet at this time that the other, which showed others in this span, did not: `0`: the next one, `1`: the first.
    fn lacks(&mut self, which: usize, at: Time, frame: u64, span: Option<(Time, Time)>) {
        self.settle(which, span);
        match span {
            Some((first, last)) if first <= at && at < last => self.found(which).add(frame),
            Some((first, _)) if first <= at => {
                self.pending[which].0.add(frame);
                self.pending[which].1 = at;
            }
            _ => self.undecided += 1,
        }
    }

    /// What was open is decided once the place shows a later packet.
    fn settle(&mut self, which: usize, span: Option<(Time, Time)>) {
        if span.is_some_and(|(_, last)| self.pending[which].1 < last) {
            let mut pending = core::mem::take(&mut self.pending[which].0);
            self.found(which).append(&mut pending);
        }
    }

    fn found(&mut self, which: usize) -> &mut Located {
        if which == 0 { &mut self.lost } else { &mut self.unseen }
    }

    fn finish(&mut self, shown: &[Option<(Time, Time)>; MOST_PLACES]) {
        for (which, place) in [(0, self.to), (1, self.from)] {
            self.settle(which, shown[place]);
            self.undecided += core::mem::take(&mut self.pending[which].0).count;
        }
    }
}

impl Tally {
    /// Of places, with the place of each file that is read.
    pub fn new(places: Places, files: Vec<usize>) -> Tally {
        Tally {
            apart: places.apart(),
            places,
            files,
            now: Time(i64::MIN),
            shown: [None; MOST_PLACES],
            sightings: VecDeque::new(),
            decided: 0,
            ways: BTreeMap::new(),
            arrived: HashMap::default(),
            arrivals: Arrivals::default(),
            waiting: VecDeque::new(),
            is_over: false,
        }
    }

    fn packet(&mut self, packet: &Packet<'_>) {
        let at = packet.record.time;
        self.now = self.now.max(at);
        let Some(&place) = self.files.get(packet.record.tap.file as usize) else { return };
        let (first, last) = self.shown[place].unwrap_or((at, at));
        self.shown[place] = Some((first.min(at), last.max(at)));
        match (packet.copy_of, flow(packet)) {
            (Some(first), Some(flow)) => self.again(first, packet, &flow, place),
            (None, Some(flow)) if packet.of_connection => self.add(packet, &flow, place),
            _ => {}
        }
        while let Some(sighting) = self.sightings.get(self.decided)
            && sighting.first().plus(self.apart) < self.now
        {
            self.decide();
        }
    }

    /// A packet that no place showed before.
    fn add(&mut self, packet: &Packet<'_>, flow: &FlowKey, place: usize) {
        let mut at = [UNSEEN; MOST_PLACES];
        at[place] = packet.record.time.0;
        let is_damaged = packet.frame.is_ok_and(|frame| frame.icrc == IcrcVerdict::Bad);
        let route = Route { source: flow.source, destination: flow.destination };
        let frame = packet.record.number;
        let receiver = self.places.order(&route).last().copied();
        // What was sent before the receiver's place shows anything came unseen.
        let lane =
            lane(packet, flow).filter(|_| !is_damaged && receiver.is_some_and(|it| self.shown[it].is_some()));
        let is_awaited = lane.is_some_and(|(lane, psn)| self.arrivals.sent(lane, psn, frame));
        self.sightings.push_back(Sighting { frame, route, is_damaged, at, taken: UNSEEN, is_awaited });
        if self.sightings.len() > MOST_SIGHTINGS {
            if self.decided == 0 {
                self.decide();
            }
            self.sightings.pop_front();
            self.decided -= 1;
        }
        if receiver == Some(place) && lane.is_some() {
            self.take(packet, flow);
        }
        self.arrive(flow, place, frame);
    }

    /// A packet has come to the place at its receiver's end.
    fn take(&mut self, packet: &Packet<'_>, flow: &FlowKey) {
        let taken = lane(packet, flow).and_then(|(lane, psn)| self.arrivals.came(lane, psn));
        if let Some(index) = taken.and_then(|first| self.find(first)) {
            self.sightings[index].taken = packet.record.time.0;
        }
    }

    /// A packet that was shown first in another record.
    fn again(&mut self, first: Seen, packet: &Packet<'_>, flow: &FlowKey, place: usize) {
        let Some(index) = self.find(first.frame) else { return };
        if self.places.order(&self.sightings[index].route).last() == Some(&place) {
            self.take(packet, flow);
        }
        let sighting = &mut self.sightings[index];
        if sighting.at[place] == UNSEEN {
            sighting.at[place] = packet.record.time.0;
            self.arrive(flow, place, first.frame);
        } else {
            let route = sighting.route;
            if let Some(way) = self.way_to(route, place) {
                way.doubled.add(packet.record.number);
            }
        }
    }

    /// A packet, by the number of the record that showed it first, has come to a place.
    fn arrive(&mut self, flow: &FlowKey, place: usize, frame: u64) {
        let room = self.arrived.len() < MOST_FLOWS;
        let latest = match self.arrived.get_mut(&(*flow, place)) {
            Some(latest) => latest,
            None if room => self.arrived.entry((*flow, place)).or_default(),
            None => return,
        };
        let is_behind = frame < *latest;
        *latest = frame.max(*latest);
        if is_behind {
            let route = Route { source: flow.source, destination: flow.destination };
            if let Some(way) = self.way_to(route, place) {
                way.reordered.add(frame);
            }
        }
    }

    /// The way on which packets come to a place.
    fn way_to(&mut self, route: Route, place: usize) -> Option<&mut Way> {
        let order = self.places.order(&route);
        let index = order.iter().position(|one| *one == place)?;
        let from = order[index.checked_sub(1)?];
        way(&mut self.ways, route, from, place)
    }

    /// Decides where the next packet passed.
    fn decide(&mut self) {
        let Some(&sighting) = self.sightings.get(self.decided) else { return };
        self.decided += 1;
        for pair in self.places.order(&sighting.route).windows(2) {
            if let Some(way) = way(&mut self.ways, sighting.route, pair[0], pair[1]) {
                way.count(&sighting, &self.shown);
            }
        }
    }

    fn find(&self, frame: u64) -> Option<usize> {
        self.sightings.binary_search_by_key(&frame, |sighting| sighting.frame).ok()
    }

    /// The next transaction whose packets are where they go, with what the places say of it, if they show enough.
    pub fn ready(&mut self) -> Option<(Transaction, Option<Split>)> {
        let (told, transaction) = self.waiting.front()?;
        let is_under_way = told.plus(self.apart) >= self.now || self.is_awaited(transaction, *told);
        if is_under_way && !self.is_over && self.waiting.len() <= MOST_WAITING {
            return None;
        }
        let (_, transaction) = self.waiting.pop_front()?;
        let split = Split::of(&transaction, |seen| self.sent(seen), |seen| self.came(seen));
        Some((transaction, split))
    }

    /// Whether the reply may be sent again before its receiver takes it. No longer than the packets of the transaction are remembered.
    fn is_awaited(&self, transaction: &Transaction, told: Time) -> bool {
        let reply = transaction.reply.as_ref().and_then(|reply| self.find(reply.seen.frame));
        reply.is_some_and(|index| {
            let sighting = &self.sightings[index];
            let is_recent = self.sightings.len() - index < MOST_SIGHTINGS / 2;
            sighting.is_awaited && sighting.taken == UNSEEN && is_recent && told.plus(SENT_AGAIN) >= self.now
        })
    }

    /// When the place at the sender's end showed a packet.
    fn sent(&self, seen: Seen) -> Option<Time> {
        let sighting = &self.sightings[self.find(seen.frame)?];
        time(sighting.at[*self.places.order(&sighting.route).first()?])
    }

    /// When the place at the receiver's end showed the transmission of a packet that the receiver took; or, where that is not known, the first one.
    fn came(&self, seen: Seen) -> Option<Time> {
        let sighting = &self.sightings[self.find(seen.frame)?];
        time(sighting.taken).or_else(|| time(sighting.at[*self.places.order(&sighting.route).last()?]))
    }

    /// Nothing more comes.
    pub fn finish(&mut self) {
        while self.decided < self.sightings.len() {
            self.decide();
        }
        self.ways.values_mut().for_each(|way| way.finish(&self.shown));
        self.is_over = true;
    }

    /// The places.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// The ways between places.
    pub fn ways(&self) -> impl Iterator<Item = &Way> {
        self.ways.values()
    }
}

impl Observer for Tally {
    fn needs(&self) -> Config {
        Config { report_packets: true, ..Config::default() }
    }

    fn handle(&mut self, event: &Event<'_>) {
        match event {
            Event::Packet(packet) => self.packet(packet),
            // It is told before the packet that completes it.
            Event::Transaction(transaction) => {
                let reply = transaction.reply.as_ref().map_or(self.now, |reply| reply.seen.time);
                self.waiting.push_back((self.now.max(reply), (*transaction).clone()));
            }
            _ => {}
        }
    }
}

impl Sighting {
    /// When a place showed it first.
    fn first(&self) -> Time {
        Time(self.at.into_iter().filter(|at| *at != UNSEEN).min().unwrap_or(UNSEEN))
    }
}

fn way(
    ways: &mut BTreeMap<(Route, usize, usize), Way>,
    route: Route,
    from: usize,
    to: usize,
) -> Option<&mut Way> {
    let key = (route, from, to);
    if ways.len() >= MOST_WAYS && !ways.contains_key(&key) {
        return None;
    }
    Some(ways.entry(key).or_insert_with(|| Way::new(route, from, to)))
}

fn time(at: i64) -> Option<Time> {
    (at != UNSEEN).then_some(Time(at))
}

/// In which order a packet of a reliable connection is sent, and where it stands in it. Of acknowledgements nothing is awaited.
fn lane(packet: &Packet<'_>, flow: &FlowKey) -> Option<(Lane, Psn)> {
    let bth = packet.readable_headers()?.bth;
    let operation = bth.opcode.operation()?;
    let is_response = operation.is_response();
    (!is_response || operation.is_read_response()).then_some((Lane { flow: *flow, is_response }, bth.psn))
}

/// The half-flow of a packet; of a TCP segment the port stands for the queue pair.
fn flow(packet: &Packet<'_>) -> Option<FlowKey> {
    let of_segment = || {
        let segment = packet.segment()?;
        let (source, destination) = (segment.source, segment.destination);
        Some(FlowKey { source, destination, destination_qp: Qpn(segment.ports[1].into()) })
    };
    packet.flow().or_else(of_segment)
}
