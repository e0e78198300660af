//! The places and times of each packet.

use super::arrivals::{Arrivals, Lane};
use super::split::Split;
use super::{CapturePoints, MOST_CAPTURE_POINTS};
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

/// Notes the places and times of packets for as long as they may be in transit. It needs
/// [`Event::Packet`], and the [steps](rdmascope_dissector::exchange::Keep::steps) of transactions.
#[derive(Debug)]
pub struct Tally {
    places: CapturePoints,
    /// The place of each file.
    files: Vec<usize>,
    apart: u64,
    /// The time of the latest record.
    now: Time,
    /// The times of the first and the latest packet of each place.
    shown: [Option<(Time, Time)>; MOST_CAPTURE_POINTS],
    /// The latest packets, by their numbers.
    sightings: VecDeque<Sighting>,
    /// The number of sightings, from the front, whose places are final.
    decided: usize,
    ways: BTreeMap<(Route, usize, usize), Way>,
    /// The latest packet of each half-flow that arrived at each place.
    arrived: HashMap<(FlowKey, usize), u64, FixedState>,
    arrivals: Arrivals,
    /// Transactions whose last packets may still be in transit.
    waiting: VecDeque<(Time, Transaction)>,
    /// Whether the capture has ended.
    is_over: bool,
}

/// A packet.
#[derive(Clone, Copy, Debug)]
struct Sighting {
    frame: u64,
    route: Route,
    /// Whether its ICRC is wrong.
    is_damaged: bool,
    /// The time of its first capture at each place, or `UNSEEN`.
    at: [i64; MOST_CAPTURE_POINTS],
    /// The time at which the receiver's place captured the transmission that the receiver took, or
    /// `UNSEEN`.
    taken: i64,
    /// Whether `taken` is expected.
    is_awaited: bool,
}

const UNSEEN: i64 = i64::MIN;
/// The most packets that are kept.
const MOST_SIGHTINGS: usize = 1 << 18;
/// The time within which a lost packet is expected to be sent again, in nanoseconds.
const SENT_AGAIN: u64 = 5_000_000_000;
/// The most waiting transactions.
const MOST_WAITING: usize = 1 << 14;
/// The most ways that are distinguished.
const MOST_WAYS: usize = 1 << 10;
/// The most half-flows whose packet order is checked.
const MOST_FLOWS: usize = 1 << 12;

/// The packets of a route between two successive places.
#[derive(Debug)]
pub struct Way {
    /// The route of the packets.
    pub route: Route,
    /// The index of the place that they pass first.
    pub from: usize,
    /// The index of the place that they pass next.
    pub to: usize,
    /// Packets captured at both places.
    pub packets: u64,
    /// The transit times of these packets, in nanoseconds.
    times: Histogram<u64>,
    /// Packets captured at the first place only.
    pub lost: Located,
    /// Packets with a wrong ICRC that only the next place captured. They were damaged in transit;
    /// the original packets count as lost.
    pub damaged: Located,
    /// Packets that the next place captured twice.
    pub doubled: Located,
    /// Packets that arrived after a later one of their half-flow.
    pub reordered: Located,
    /// Packets captured at the next place only: the first place's capture lacks them.
    pub unseen: Located,
    /// Packets captured at one place before the other capture began or after it ended, so that loss
    /// cannot be determined.
    pub undecided: u64,
    /// Lost and unseen packets after the latest packet of the place that lacks them.
    pending: [(Located, Time); 2],
}

/// Packets, by their frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Located {
    /// The number of packets.
    pub count: u64,
    /// The frames of the first packets.
    pub frames: Vec<u64>,
}

impl Located {
    /// The most frames that are listed.
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

    /// The least transit time, the median, the 99th percentile and the greatest, in nanoseconds;
    /// `None` without packets.
    pub fn times(&self) -> Option<[u64; 4]> {
        let times = &self.times;
        (!times.is_empty()).then(|| {
            let quantile = |part| times.value_at_quantile(part).clamp(times.min(), times.max());
            [times.min(), quantile(0.5), quantile(0.99), times.max()]
        })
    }

    /// Adds a packet, captured or missing at the two places.
    fn count(&mut self, sighting: &Sighting, shown: &[Option<(Time, Time)>; MOST_CAPTURE_POINTS]) {
        let [sent, received] = [sighting.at[self.from], sighting.at[self.to]];
        match (sent, received) {
            (UNSEEN, UNSEEN) => {}
            (UNSEEN, _) if sighting.is_damaged => self.damaged.add(sighting.frame),
            (UNSEEN, at) => self.lacks(1, Time(at), sighting.frame, shown[self.from]),
            (at, UNSEEN) => self.lacks(0, Time(at), sighting.frame, shown[self.to]),
            (sent, received) => {
                self.packets += 1;
                // The histogram resizes itself, so recording cannot fail.
                let _ = self.times.record(Time(received).since(Time(sent)));
            }
        }
    }

    /// Adds a packet that one place captured at this time and the other did not. `side` is 0 if
    /// the next place lacks it, 1 if the first place does. `span` is the captured span of the place
    /// that lacks it.
    fn lacks(&mut self, side: usize, at: Time, frame: u64, span: Option<(Time, Time)>) {
        self.settle(side, span);
        match span {
            Some((first, last)) if first <= at && at < last => self.found(side).add(frame),
            Some((first, _)) if first <= at => {
                self.pending[side].0.add(frame);
                self.pending[side].1 = at;
            }
            _ => self.undecided += 1,
        }
    }

    /// Settles pending packets once the place has captured a later packet.
    fn settle(&mut self, side: usize, span: Option<(Time, Time)>) {
        if span.is_some_and(|(_, last)| self.pending[side].1 < last) {
            let mut pending = core::mem::take(&mut self.pending[side].0);
            self.found(side).append(&mut pending);
        }
    }

    fn found(&mut self, side: usize) -> &mut Located {
        if side == 0 { &mut self.lost } else { &mut self.unseen }
    }

    fn finish(&mut self, shown: &[Option<(Time, Time)>; MOST_CAPTURE_POINTS]) {
        for (side, place) in [(0, self.to), (1, self.from)] {
            self.settle(side, shown[place]);
            self.undecided += core::mem::take(&mut self.pending[side].0).count;
        }
    }
}

impl Tally {
    /// Creates a tally for places, with the place of each file.
    pub fn new(places: CapturePoints, files: Vec<usize>) -> Tally {
        Tally {
            apart: places.apart(),
            places,
            files,
            now: Time(i64::MIN),
            shown: [None; MOST_CAPTURE_POINTS],
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

    /// Adds a packet that no place captured before.
    fn add(&mut self, packet: &Packet<'_>, flow: &FlowKey, place: usize) {
        let mut at = [UNSEEN; MOST_CAPTURE_POINTS];
        at[place] = packet.record.time.0;
        let is_damaged = packet.frame.is_ok_and(|frame| frame.icrc == IcrcVerdict::Bad);
        let route = Route { source: flow.source, destination: flow.destination };
        let frame = packet.record.number;
        let receiver = self.places.order(&route).last().copied();
        // A packet sent before the receiver's place captured anything arrived unseen.
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

    /// Takes a packet at the receiver's place.
    fn take(&mut self, packet: &Packet<'_>, flow: &FlowKey) {
        let taken = lane(packet, flow).and_then(|(lane, psn)| self.arrivals.arrived(lane, psn));
        if let Some(index) = taken.and_then(|first| self.find(first)) {
            self.sightings[index].taken = packet.record.time.0;
        }
    }

    /// Adds a copy of a packet from an earlier record.
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

    /// Notes that a packet arrived at a place. `frame` is the number of its first record.
    fn arrive(&mut self, flow: &FlowKey, place: usize, frame: u64) {
        let room = self.arrived.len() < MOST_FLOWS;
        let latest = match self.arrived.get_mut(&(*flow, place)) {
            Some(latest) => latest,
            None if room => self.arrived.entry((*flow, place)).or_default(),
            None => return,
        };
        let is_reordered = frame < *latest;
        *latest = frame.max(*latest);
        if is_reordered {
            let route = Route { source: flow.source, destination: flow.destination };
            if let Some(way) = self.way_to(route, place) {
                way.reordered.add(frame);
            }
        }
    }

    /// The way on which packets arrive at a place.
    fn way_to(&mut self, route: Route, place: usize) -> Option<&mut Way> {
        let order = self.places.order(&route);
        let index = order.iter().position(|one| *one == place)?;
        let from = order[index.checked_sub(1)?];
        way(&mut self.ways, route, from, place)
    }

    /// Settles the places of the next packet.
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

    /// The next transaction with all packets at their destinations, and its split if the captures
    /// suffice for one.
    pub fn ready(&mut self) -> Option<(Transaction, Option<Split>)> {
        let (reported, transaction) = self.waiting.front()?;
        let is_pending = reported.plus(self.apart) >= self.now || self.is_awaited(transaction, *reported);
        if is_pending && !self.is_over && self.waiting.len() <= MOST_WAITING {
            return None;
        }
        let (_, transaction) = self.waiting.pop_front()?;
        let split = Split::of(&transaction, |seen| self.sent(seen), |seen| self.received(seen));
        Some((transaction, split))
    }

    /// Whether the reply may be sent again before its receiver takes it. This ends when the packets
    /// of the transaction are no longer kept.
    fn is_awaited(&self, transaction: &Transaction, reported: Time) -> bool {
        let reply = transaction.reply.as_ref().and_then(|reply| self.find(reply.seen.frame));
        reply.is_some_and(|index| {
            let sighting = &self.sightings[index];
            let is_recent = self.sightings.len() - index < MOST_SIGHTINGS / 2;
            sighting.is_awaited
                && sighting.taken == UNSEEN
                && is_recent
                && reported.plus(SENT_AGAIN) >= self.now
        })
    }

    /// The time of a packet at the sender's place.
    fn sent(&self, seen: Seen) -> Option<Time> {
        let sighting = &self.sightings[self.find(seen.frame)?];
        time(sighting.at[*self.places.order(&sighting.route).first()?])
    }

    /// The time at the receiver's place of the transmission that the receiver took; if that is
    /// unknown, of the first one.
    fn received(&self, seen: Seen) -> Option<Time> {
        let sighting = &self.sightings[self.find(seen.frame)?];
        time(sighting.taken).or_else(|| time(sighting.at[*self.places.order(&sighting.route).last()?]))
    }

    /// Ends the capture.
    pub fn finish(&mut self) {
        while self.decided < self.sightings.len() {
            self.decide();
        }
        self.ways.values_mut().for_each(|way| way.finish(&self.shown));
        self.is_over = true;
    }

    /// The places.
    pub fn places(&self) -> &CapturePoints {
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
            // The engine reports the transaction before the packet that completes it.
            Event::Transaction(transaction) => {
                let reply = transaction.reply.as_ref().map_or(self.now, |reply| reply.seen.time);
                self.waiting.push_back((self.now.max(reply), (*transaction).clone()));
            }
            _ => {}
        }
    }
}

impl Sighting {
    /// The time of its first capture at any place.
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

/// The sequence of a packet of a reliable connection, and its PSN. Acknowledgements have no
/// sequence.
fn lane(packet: &Packet<'_>, flow: &FlowKey) -> Option<(Lane, Psn)> {
    let bth = packet.readable_headers()?.bth;
    let operation = bth.opcode.operation()?;
    let is_response = operation.is_response();
    (!is_response || operation.is_read_response()).then_some((Lane { flow: *flow, is_response }, bth.psn))
}

/// The half-flow of a packet. For a TCP segment, the destination port takes the place of the QPN.
fn flow(packet: &Packet<'_>) -> Option<FlowKey> {
    let of_segment = || {
        let segment = packet.segment()?;
        let (source, destination) = (segment.source, segment.destination);
        Some(FlowKey { source, destination, destination_qp: Qpn(segment.ports[1].into()) })
    };
    packet.flow().or_else(of_segment)
}
