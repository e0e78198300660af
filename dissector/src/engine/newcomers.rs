//! The first records of flows, held while the table of connections is crowded.
//!
//! A connection takes kilobytes of memory. A held record takes its own length and about 200 bytes.
//! Spoofed packets can open any number of flows with one packet each. So in a crowded table the
//! first record of a flow opens no connection. The record is held until a second record concerns
//! it: the next record of the flow, a packet that may answer it, or a CM message with its
//! communication ID. The engine then handles the held record first, with its own number and time.
//!
//! Records are found by hashes of their flow, hosts or communication IDs. A hash collision
//! releases a record early, which is harmless.

use super::ends::EndRef;
use super::iwarp::TcpFlow;
use super::{Stage, cm};
use crate::connection::FlowKey;
use crate::frame::{Address, Other};
use crate::rc::Packet;
use crate::record::{LinkType, Record, Seen, Tap, Time};
use crate::rpcrdma::BuildHasher;
use crate::transport::Dissected;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::hash::{BuildHasher as _, Hash};
use hashbrown::HashMap;
use rdmascope_wire::cm::{CommunicationId, Message};
use rdmascope_wire::psn::Psn;

/// The held records.
#[derive(Clone, Debug, Default)]
pub(super) struct Newcomers {
    /// The oldest first. A taken record stays without its bytes until it is the oldest.
    held: VecDeque<Held>,
    /// The place of the first one. Places number all records ever held, modulo 2^32.
    first: u32,
    /// The place of the latest record of each name.
    places: HashMap<Name, u32, BuildHasher>,
    /// Bytes of the records.
    bytes: usize,
}

/// The hash of a flow, of two hosts, or of a communication ID.
type Name = u32;

impl Newcomers {
    /// Maximum number of held records. Beyond it the oldest is evicted.
    const MOST: usize = 1 << 16;
    /// Maximum bytes of held records.
    const MOST_BYTES: usize = 24 << 20;
    /// Maximum number of records between two hosts that are searched for one that a packet answers.
    const MOST_CANDIDATES: usize = 64;

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether the latest held record has this number.
    pub(super) fn holds(&self, number: u64) -> bool {
        self.held.back().is_some_and(|held| held.number == number)
    }

    /// The number of held records.
    fn count(&self) -> usize {
        self.held.iter().filter(|held| held.data.is_some()).count()
    }

    /// Whether the first segment of a TCP connection is held.
    #[inline]
    pub(super) fn has_segment_of(&self, flow: TcpFlow) -> bool {
        !self.is_empty() && self.places.contains_key(&tcp(flow))
    }

    /// Holds a record.
    pub(super) fn push(&mut self, held: Held) {
        let place = self.first.wrapping_add(self.held.len() as u32);
        let mut held = held;
        for name in held.names {
            let former = self.places.insert(name, place);
            if held.route() == Some(name) {
                held.to_previous = former.map_or(0, |former| place.wrapping_sub(former));
            }
        }
        self.bytes += held.data.as_ref().map_or(0, |data| data.len());
        if self.held.len() == self.held.capacity() {
            self.held.reserve_exact(self.held.len() / 8 + 16);
        }
        self.held.push_back(held);
    }

    /// Takes the oldest record if the bounds are exceeded.
    pub(super) fn take_excess(&mut self) -> Option<Held> {
        let is_full = self.held.len() > Newcomers::MOST || self.bytes > Newcomers::MOST_BYTES;
        if is_full { self.take_oldest() } else { None }
    }

    /// Takes the oldest record.
    pub(super) fn take_oldest(&mut self) -> Option<Held> {
        self.take(self.first)
    }

    /// Takes the latest record of this name.
    pub(super) fn take_named(&mut self, name: Name) -> Option<Held> {
        self.take(*self.places.get(&name)?)
    }

    /// Takes a record that this packet from the other direction may answer.
    pub(super) fn take_answered(&mut self, key: &FlowKey, packet: &Packet<'_>) -> Option<Held> {
        let latest = self.places.get(&route(key.destination, key.source)).copied();
        let chain = core::iter::successors(latest, |place| self.at(*place)?.former(*place));
        let mut answered = chain
            .take(Newcomers::MOST_CANDIDATES)
            .filter(|place| self.at(*place).is_some_and(|held| held.may_be_answered_by(packet)));
        let place = answered.next()?;
        self.take(place)
    }

    /// Bytes of memory on the heap that a clone uses.
    pub(super) fn footprint(&self) -> usize {
        self.held.len() * size_of::<Held>() + self.places.allocation_size() + self.bytes
    }

    fn at(&self, place: u32) -> Option<&Held> {
        self.held.get(place.wrapping_sub(self.first) as usize)
    }

    /// Takes the record at a place and removes its names.
    fn take(&mut self, place: u32) -> Option<Held> {
        let held = self.held.get_mut(place.wrapping_sub(self.first) as usize)?;
        let taken = Held { data: Some(held.data.take()?), ..*held };
        self.bytes -= taken.data.as_ref().map_or(0, |data| data.len());
        while self.held.front().is_some_and(|held| held.data.is_none()) {
            self.held.pop_front();
            self.first = self.first.wrapping_add(1);
        }
        for name in taken.names {
            if self.places.get(&name) != Some(&place) {
                continue;
            }
            let former = taken.former(place).filter(|former| self.at(*former).is_some());
            match former.filter(|_| taken.route() == Some(name)) {
                Some(former) => self.places.insert(name, former),
                None => self.places.remove(&name),
            };
        }
        Some(taken)
    }
}

/// A held record.
#[derive(Clone, Debug)]
pub(super) struct Held {
    /// A record with fewer names repeats one.
    names: [Name; 3],
    /// The distance in places to the previous record between the same hosts in the same direction;
    /// 0 for none.
    to_previous: u32,
    /// The PSN, for a packet of a reliable connection.
    psn: Option<Psn>,
    number: u64,
    time: Time,
    link: LinkType,
    original_length: u32,
    tap: Tap,
    /// `None` once taken.
    data: Option<Box<[u8]>>,
    /// The capture's drop count when the record came.
    pub(super) dropped: u64,
    /// Whether a valid TCP checksum had been seen when the record came.
    pub(super) any_sound: bool,
}

impl Held {
    fn new(record: &Record<'_>, dropped: u64, names: [Name; 3]) -> Held {
        Held {
            names,
            to_previous: 0,
            psn: None,
            number: record.number,
            time: record.time,
            link: record.link,
            original_length: record.original_length,
            tap: record.tap,
            data: Some(record.data.into()),
            dropped,
            any_sound: false,
        }
    }

    /// The first packet of a half-flow.
    pub(super) fn packet(record: &Record<'_>, dropped: u64, key: &FlowKey, psn: Psn) -> Held {
        let (flow, route) = (flow(key), route(key.source, key.destination));
        Held { psn: Some(psn), ..Held::new(record, dropped, [flow, route, flow]) }
    }

    /// A CM message that opens a connection: the flow towards its sender, and its communication
    /// IDs.
    pub(super) fn message(
        record: &Record<'_>,
        dropped: u64,
        key: &FlowKey,
        ids: [Option<(Address, CommunicationId)>; 2],
    ) -> Held {
        let flow = flow(key);
        let [first, second] = ids.map(|id| id.map_or(flow, |(address, id)| exchange(address, id)));
        Held::new(record, dropped, [flow, first, second])
    }

    /// The first segment of a TCP connection. `any_sound`: a valid TCP checksum has been seen.
    pub(super) fn segment(record: &Record<'_>, dropped: u64, flow: TcpFlow, any_sound: bool) -> Held {
        Held { any_sound, ..Held::new(record, dropped, [tcp(flow); 3]) }
    }

    /// The record.
    pub(super) fn record(&self) -> Record<'_> {
        Record {
            number: self.number,
            time: self.time,
            link: self.link,
            original_length: self.original_length,
            // The engine counted these when the record came.
            dropped: 0,
            tap: self.tap,
            data: self.data.as_deref().unwrap_or_default(),
        }
    }

    /// The name of the two hosts of a packet of a reliable connection.
    fn route(&self) -> Option<Name> {
        self.psn.map(|_| self.names[1])
    }

    /// The place of the previous record between the same hosts. `place` is its own.
    fn former(&self, place: u32) -> Option<u32> {
        (self.to_previous > 0).then(|| place.wrapping_sub(self.to_previous))
    }

    /// Whether a packet may answer this record: a response has a PSN close to it, a reply has an
    /// XID that occurs in it, and an RDMA operation has an R_Key that occurs in it.
    fn may_be_answered_by(&self, packet: &Packet<'_>) -> bool {
        /// From 512 PSNs before the record to the last response to an RDMA READ of 16 MiB at a path
        /// MTU of 4096 bytes.
        const NEAR: core::ops::RangeInclusive<i32> = -512..=4096;
        /// The number of bytes of the record that are searched: the headers, and the chunk lists of
        /// most messages. Searching whole records let one sender cause a cost of 80 us per small
        /// packet.
        const SEARCHED: usize = 512;
        let (Some(data), Some(psn)) = (self.data.as_deref(), self.psn) else { return false };
        let data = &data[..data.len().min(SEARCHED)];
        let has = |word: &[u8]| data.windows(word.len()).any(|window| window == word);
        if packet.operation.is_response() {
            NEAR.contains(&psn.distance(packet.psn))
        } else if let Some(reth) = packet.extension.reth() {
            has(&reth.rkey.0.to_be_bytes())
        } else {
            packet.operation.begins_message() && packet.payload.first_chunk::<4>().is_some_and(|xid| has(xid))
        }
    }
}

/// The name of a half-flow.
pub(super) fn flow(key: &FlowKey) -> Name {
    name(0, key)
}

/// The name of two hosts, in one direction.
fn route(source: Address, destination: Address) -> Name {
    name(1, (source, destination))
}

/// The name of the end of a connection with this communication ID.
pub(super) fn exchange(address: Address, id: CommunicationId) -> Name {
    name(2, (address, id))
}

/// The name of both directions of a TCP connection.
pub(super) fn tcp(flow: TcpFlow) -> Name {
    name(3, flow).wrapping_add(name(3, flow.reversed()))
}

fn name(kind: u8, value: impl Hash) -> Name {
    BuildHasher::default().hash_one((kind, value)) as Name
}

impl Stage<'_> {
    /// Finds or opens the connection of a packet with an unknown flow. `None` if the record is
    /// held.
    #[cold]
    pub(super) fn admit(&mut self, key: FlowKey, packet: &Packet<'_>) -> Option<EndRef> {
        let is_released = self.release(|| flow(&key)) | self.release_answered(&key, packet);
        if is_released && let Some(place) = self.sessions.find_in(&key, self.context, packet) {
            return Some(place);
        }
        if self.holds_newcomers() && !self.known.has(&key) && !self.sessions.is_answer(&key, packet) {
            self.hold(|record, dropped| Held::packet(record, dropped, &key, packet.psn));
            return None;
        }
        Some(self.begin(key, packet))
    }

    /// Whether the first records of flows are held at the moment.
    pub(super) fn holds_newcomers(&self) -> bool {
        !self.transactions.is_late && self.sessions.is_crowded(self.config.crowd)
    }

    /// Holds the current record, and evicts the oldest records beyond the bounds.
    pub(super) fn hold(&mut self, held: impl FnOnce(&Record<'_>, u64) -> Held) {
        let Some(record) = self.record else { return };
        self.newcomers.push(held(record, self.transactions.dropped));
        while let Some(excess) = self.newcomers.take_excess() {
            self.end_held(&excess, true);
        }
    }

    /// Handles the held record of this name, if there is one. Returns whether there was.
    pub(super) fn release(&mut self, name: impl FnOnce() -> Name) -> bool {
        if self.newcomers.is_empty() || self.transactions.is_late {
            return false;
        }
        let Some(held) = self.newcomers.take_named(name()) else { return false };
        self.make_room_and_handle(&held);
        true
    }

    /// Handles the held records that a CM message names by communication ID or queue pair.
    pub(super) fn release_named(&mut self, from: Address, to: Address, message: &Message<'_>) {
        if let Some(id) = message.local_communication_id() {
            self.release(|| exchange(from, id));
        }
        if let Some(id) = message.remote_communication_id() {
            self.release(|| exchange(to, id));
        }
        let (source, destination, destination_qp) = match message {
            Message::Request(request) => (to, from, request.local_qpn),
            Message::Reply(reply) => (to, from, reply.local_qpn),
            Message::DisconnectRequest(request) => (from, to, request.remote_qpn),
            _ => return,
        };
        self.release(|| flow(&FlowKey { source, destination, destination_qp }));
    }

    /// Handles the held records that a packet may answer. Returns whether there were any.
    pub(super) fn release_answered(&mut self, key: &FlowKey, packet: &Packet<'_>) -> bool {
        if self.newcomers.is_empty() || self.transactions.is_late {
            return false;
        }
        let mut is_released = false;
        while let Some(held) = self.newcomers.take_answered(key, packet) {
            self.make_room_and_handle(&held);
            is_released = true;
        }
        is_released
    }

    /// Handles a held record and ends its connection. If `is_eviction` is set, it reports an
    /// eviction.
    pub(super) fn end_held(&mut self, held: &Held, is_eviction: bool) {
        let Some(EndRef { session, .. }) = self.handle_held(held) else { return };
        if !self.sessions.is_new(session) {
            return;
        }
        if is_eviction {
            self.sessions.evict(session, self.transactions, self.report);
        } else {
            self.sessions.end(session, self.transactions, self.report);
        }
    }

    /// Evicts an eighth of the held records, or else of the connections. Returns whether there were
    /// any.
    pub(super) fn evict_some(&mut self) -> bool {
        let (held, connections) = (self.newcomers.count(), self.sessions.len());
        if held > 0 {
            for _ in 0..held.div_ceil(8) {
                let Some(held) = self.newcomers.take_oldest() else { break };
                self.end_held(&held, true);
            }
        } else {
            (0..connections.div_ceil(8))
                .for_each(|_| self.sessions.evict_one(self.transactions, self.report));
        }
        held + connections > 0
    }

    fn make_room_and_handle(&mut self, held: &Held) {
        self.sessions.make_room(held.time, self.transactions, self.report);
        self.handle_held(held);
    }

    /// Handles a held record. Its connection notes only the drops reported before the record.
    /// Returns the end that sent the record.
    fn handle_held(&mut self, held: &Held) -> Option<EndRef> {
        let record = held.record();
        let Dissected { frame, transport } = Dissected::new(&record, &self.config.frame);
        let seen = Seen { frame: record.number, time: record.time };
        let dropped = core::mem::replace(&mut self.transactions.dropped, held.dropped);
        let context = self.context;
        self.transactions.is_late = true;
        let place = match (&frame, &transport) {
            (Ok(frame), Some(Ok(transport))) => match transport.cm_message() {
                Some(message) => cm::handle(self, frame, (&message, transport.payload), seen),
                None => self.handle(frame, transport, seen, false),
            },
            (Err(Other::Tcp(segment)), _) => {
                self.handle_segment(segment, seen, held.any_sound).and_then(|(place, _)| place)
            }
            _ => None,
        };
        self.transactions.is_late = false;
        self.transactions.dropped = dropped;
        self.context = context;
        if let Some(place) = place {
            self.sessions.session(place.session).files.add(record.tap.file);
        }
        place
    }
}
