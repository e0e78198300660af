//! The two ends of a connection at the RPC-over-RDMA level.

use super::memory::{Advertisement, Found};
use super::{BuildHasher, Memory, Slot};
use crate::connection::{ConnectionId, FlowKey, Route};
use crate::observation::{HalfFlow, Revoked};
use crate::protocol::Protocol;
use crate::rdma::{End, Flight, Position, Send};
use crate::record::{REORDERING, Seen, Time};
use crate::transaction::{Direction, Placed};
use alloc::collections::VecDeque;
use core::net::IpAddr;
use core::num::NonZeroU32;
use hashbrown::HashMap;
use rdmascope_wire::Xid;

/// The open transactions and the memory of one end of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Side {
    /// Its calls without a reply, by XID.
    pub(super) calls: HashMap<Xid, Slot, BuildHasher>,
    /// Its calls whose reply is a Read chunk of the other end, until it sends RDMA_DONE.
    pub(super) pulls: HashMap<Xid, Slot, BuildHasher>,
    /// The memory that it advertised.
    pub(super) memory: Memory,
    /// Segment of the last placement. The packets of one message mostly go to one segment.
    pub(super) last: Option<Found>,
}

impl Side {
    /// The slot of its call with this XID, if the call has no reply yet.
    #[inline]
    pub(crate) fn call(&self, xid: Xid) -> Option<Slot> {
        self.calls.get(&xid).copied()
    }

    /// Whether a call with this XID has no reply yet.
    #[inline]
    pub(crate) fn awaits(&self, xid: Xid) -> bool {
        self.call(xid).is_some()
    }

    /// Merges the state of the same end, after two half-flows became one connection.
    pub(crate) fn absorb(&mut self, other: Side) {
        for (xid, slot) in other.calls {
            self.calls.entry(xid).or_insert(slot);
        }
        for (xid, slot) in other.pulls {
            self.pulls.entry(xid).or_insert(slot);
        }
        self.memory.absorb(other.memory);
        self.last = None;
    }

    /// Bytes of heap memory that a clone needs.
    fn footprint(&self) -> usize {
        self.calls.allocation_size() + self.pulls.allocation_size() + self.memory.footprint()
    }

    /// The memory that it advertised in open transactions.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }
}

/// The two ends of a connection at the RPC-over-RDMA level.
#[derive(Clone, Debug)]
pub(crate) struct Peers {
    /// State of each end.
    pub sides: [Side; 2],
    /// Flow key of the packets that each end sends, once known.
    pub flows: [Option<FlowKey>; 2],
    /// IP address of each end in the REQ.
    pub ips: [Option<IpAddr>; 2],
    /// Number of the connection, once it was mentioned in an event: see
    /// [`Transactions::number`](super::Transactions::number).
    pub(super) number: Option<NonZeroU32>,
    /// Index of the connection in the engine.
    pub session: u32,
    /// The end that opened the connection, if known or inferred.
    pub requester: Option<End>,
    /// The end first seen to call or to be answered. It serves as the requester if that is unknown.
    pub caller: Option<End>,
    /// Whether Sends are RPC-over-RDMA messages; `None` if unknown.
    pub speaks_rpc: Option<bool>,
    /// A Send was no RPC-over-RDMA message, while it was unknown whether Sends are.
    pub saw_other: bool,
    /// Other protocol that the connection carries, once known.
    pub protocol: Option<Protocol>,
    /// Whether both half-flows are known.
    pub paired: bool,
    /// Whether the capture has Sends only: see [`Origin::Snoop`](crate::connection::Origin::Snoop).
    pub is_snooped: bool,
    /// When data of each end was in flight.
    pub flights: [Flight; 2],
    /// Number of packets of both ends that the capture lacks.
    pub missing_packets: u64,
    /// When packets were last found missing, or a Send was seen whose header the capture lacks.
    pub(super) missing_since: Time,
    /// Number of responses to packets of an end from before its first packet in the capture, and of
    /// Sends whose header the capture lacks.
    pub unseen: u64,
    /// The longest latency so far, in nanoseconds.
    pub(super) slowest: u64,
    /// How far the capture covers the packets of each end. Without observations, it has only the
    /// acknowledged positions.
    pub half_flows: [HalfFlow; 2],
    /// Whether packets of each end wait after a gap that the other end acknowledged.
    pub gaps: [bool; 2],
    /// The latest acknowledged positions of each end, and the packets that acknowledged them. Kept only
    /// while messages wait.
    pub(super) acknowledged: [VecDeque<(Position, Seen)>; 2],
    /// Open transactions whose memory another transaction invalidated by a Send with Invalidate.
    /// Kept only if all observations are enabled.
    pub(super) revoked: VecDeque<(Slot, Revoked)>,
    /// The latest RDMA operations: the frame of each. If its memory was advertised: the packet that
    /// completed the advertising message, and whether that may be a reply. Kept only if all observations
    /// are enabled.
    pub(super) operations: VecDeque<(u64, Option<(Seen, bool)>)>,
    /// Number of transactions reported: forward, backward.
    pub reported: [u64; 2],
}

impl Peers {
    /// The last position of an end that was acknowledged before a packet, and the packet that
    /// acknowledged it.
    fn acknowledged_before(&self, end: End, packet: Seen) -> Option<(Position, Seen)> {
        let is_before = |(_, seen): &(Position, Seen)| seen.frame < packet.frame;
        let now = self.half_flows[end].acknowledged.filter(is_before);
        now.or_else(|| self.acknowledged[end].iter().rev().copied().find(is_before))
    }

    /// The last position of the other end that end `from` acknowledged before it sent this Send.
    ///
    /// `None` if the capture shows the Send too late to compare them: its own ACK precedes it.
    pub(super) fn received_before(&self, from: End, send: &Send<'_>) -> Option<Position> {
        let [sent, received] = [from, from.other()].map(|end| self.acknowledged_before(end, send.first));
        let is_late = sent.is_some_and(|(position, _)| send.last().distance(position) >= 0);
        received.filter(|_| !is_late).map(|(position, _)| position)
    }

    /// Notes what is acknowledged, because messages wait.
    #[cold]
    pub(crate) fn note_acknowledged(&mut self) {
        /// Limit for each end.
        const MOST: usize = 256;
        for (known, half_flow) in self.acknowledged.iter_mut().zip(&self.half_flows) {
            if let Some(new) = half_flow.acknowledged.filter(|new| known.back() != Some(new)) {
                if known.len() == MOST {
                    known.pop_front();
                }
                known.push_back(new);
            }
        }
    }

    /// Forgets what was acknowledged, because no message waits.
    #[inline]
    pub(crate) fn forget_acknowledged(&mut self) {
        for known in self.acknowledged.iter_mut().filter(|known| !known.is_empty()) {
            *known = VecDeque::new();
        }
    }

    /// Adds the segments of a transaction from the index `first` on, which a Send of end `from`
    /// advertises. Returns whether some begin at the same address.
    pub(super) fn advertise(
        &mut self,
        from: End,
        send: &Send<'_>,
        (slot, first): (Slot, usize),
        segments: &[Placed],
    ) -> bool {
        let after = self.received_before(from, send);
        let side = &mut self.sides[from];
        let follows_gap = !side.memory.is_used() || send.seen.time.since(self.missing_since) <= REORDERING.0;
        let by = Advertisement { seen: send.seen, after, follows_gap };
        let mut has_twins = false;
        for (index, placed) in segments.iter().enumerate().skip(first) {
            has_twins |= side.memory.advertise(&placed.segment, by, slot, index as u32);
        }
        side.last = None;
        has_twins
    }

    /// Creates the state of a connection without messages.
    pub(crate) fn new(session: u32) -> Peers {
        Peers {
            sides: Default::default(),
            flows: [None; 2],
            ips: [None; 2],
            number: None,
            session,
            requester: None,
            caller: None,
            speaks_rpc: None,
            saw_other: false,
            protocol: None,
            paired: false,
            is_snooped: false,
            flights: Default::default(),
            missing_packets: 0,
            missing_since: Time(i64::MIN),
            unseen: 0,
            slowest: 0,
            half_flows: Default::default(),
            gaps: [false; 2],
            acknowledged: Default::default(),
            revoked: VecDeque::new(),
            operations: VecDeque::new(),
            reported: [0; 2],
        }
    }

    /// The first known packet that acknowledged this position of an end.
    pub(crate) fn acknowledged_at(&self, from: End, position: Position) -> Option<Seen> {
        let mut known = self.acknowledged[from].iter().copied().chain(self.half_flows[from].acknowledged);
        known.find(|(acknowledged, _)| position.is_covered_by(*acknowledged)).map(|(_, seen)| seen)
    }

    /// The number of the connection, if it has one.
    #[inline]
    pub(crate) fn number(&self) -> Option<ConnectionId> {
        self.number.map(|number| ConnectionId(number.get()))
    }

    /// The number of the connection, for an event.
    #[inline]
    pub(crate) fn connection(&self) -> ConnectionId {
        self.number().expect("a connection in an event has a number")
    }

    /// The end that opened the connection, or the one that serves as it.
    pub(crate) fn forward_caller(&self) -> End {
        self.requester.or(self.caller).unwrap_or_default()
    }

    /// Bytes of heap memory that a clone needs.
    pub(crate) fn footprint(&self) -> usize {
        let revoked = self.revoked.len() * size_of::<(Slot, Revoked)>();
        let operations = self.operations.len() * size_of::<(u64, Option<(Seen, bool)>)>();
        let acknowledged = self.acknowledged.iter().map(VecDeque::len).sum::<usize>();
        let acknowledged = acknowledged * size_of::<(Position, Seen)>();
        self.sides.iter().map(Side::footprint).sum::<usize>() + revoked + operations + acknowledged
    }

    /// The time up to `now` in which end `responder` may have waited for the network instead of
    /// working on a call: data of it was in flight, or data of the other end had to be sent again.
    /// Only differences have a meaning.
    #[inline]
    pub(super) fn waited(&self, responder: End, now: Time) -> u64 {
        self.flights[responder].until(now).saturating_add(self.flights[responder.other()].resent())
    }

    /// The route from one end to the other, as far as packets show it.
    ///
    /// Packets may have LIDs or GIDs. The IP addresses of the REQ replace them, because users know
    /// hosts by IP address.
    pub(super) fn route(&self, from: End) -> Option<Route> {
        let route = |flow: &FlowKey| Route { source: flow.source, destination: flow.destination };
        let back = |flow: &FlowKey| Route { source: flow.destination, destination: flow.source };
        let seen =
            self.flows[from].as_ref().map(route).or_else(|| self.flows[from.other()].as_ref().map(back))?;
        Some(seen.with_ips(self.ips[from], self.ips[from.other()]))
    }

    pub(super) fn direction(&self, caller: End) -> Direction {
        if caller == self.forward_caller() { Direction::Forward } else { Direction::Backward }
    }
}
