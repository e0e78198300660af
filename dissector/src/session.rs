//! The state of a connection: two half-flows, their pairing, and their open operations.

mod acknowledged;
mod delivery;
mod ending;
mod flight;
mod hint;
mod iwarp;
mod pairing;
mod reordering;
mod replayed;
mod summary;
mod transport;

use crate::attribution::{Attribution, Room};
use crate::connection::{ConnectionId, Contexts, Counts, Evidence, Files, FirstFrames, Origin, State};
use crate::event::{Event, Eviction, Report};
use crate::frame::Address;
use crate::observation::{HalfFlow, Missing, Observed, Spoiled};
use crate::rc::Packet;
use crate::rdma::{End, Fault, Operation, Part, Piece, Position};
use crate::record::{REORDERING, Time};
use crate::rpcrdma::{Peers, Transactions};
use crate::transaction::Seen;
use acknowledged::Acknowledgements;
use alloc::boxed::Box;
use core::net::IpAddr;
use delivery::{hand_up, observe_fault};
pub(crate) use hint::Hint;
use iwarp::Handshake;
use rdmascope_wire::Qpn;
use rdmascope_wire::bth::{Bth, Opcode};
use rdmascope_wire::cm::CommunicationId;
use rdmascope_wire::private_data;
use rdmascope_wire::psn::Psn;
use reordering::Reordered;
use replayed::Replayed;
pub(crate) use transport::TransportState;

/// A connection with two ends, one of which may be unknown.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    /// The RPC-over-RDMA layer of both ends.
    pub peers: Peers,
    /// Its index in the order in which connections were first seen.
    order: u32,
    /// The transport of both ends.
    transport: TransportState,
    /// The roles of packets in transactions, if requested.
    attribution: Option<Box<Attribution>>,
    /// The ends. [`Peers::requester`] is the one that opened the connection.
    pub ends: [SessionEnd; 2],
    /// How its half-flows were paired.
    pub origin: Origin,
    /// Its state when it was last seen.
    pub state: State,
    /// The port of the service.
    pub port: Option<u16>,
    /// The path MTU from the CM exchange.
    pub path_mtu: Option<u16>,
    /// The partition key that the REQ names.
    pub partition_key: Option<u16>,
    /// The times of the first and last packet.
    pub span: (Time, Time),
    /// When it was closed.
    closed_at: Option<Time>,
    /// The files of the capture that have packets of it.
    pub files: Files,
    /// Whether it was seen since the table last looked for a connection to evict.
    pub recent: bool,
    /// Bytes held back, as of the last count.
    pub buffered: usize,
    /// The capture's drop count that this connection has taken into account.
    dropped: u64,
    /// The TCP port of each end, for iWARP.
    pub tcp_ports: Option<[u16; 2]>,
    /// For iWARP: the handshake, if the connection began with a SYN.
    handshake: Option<Handshake>,
    /// For iWARP: whether the streams ended or the ports were reused.
    over: bool,
    /// The kernel's report of it, for the half-flow that was seen first, until the second has a
    /// packet.
    pub hint: Option<Hint>,
}

/// One end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct SessionEnd {
    /// Its address.
    pub address: Address,
    /// The IP address that the REQ gives it.
    pub ip: Option<IpAddr>,
    /// Its queue pair, if known.
    pub qpn: Option<Qpn>,
    /// The private data that it sent (RFC 8797).
    pub private_data: Option<(usize, private_data::PrivateData)>,
    /// Whether the capture cut bytes that may be private data.
    private_data_cut: bool,
    /// Its ID in CM messages, and the source address of these messages.
    pub communication_id: Option<(Address, CommunicationId)>,
    /// The contexts of its packets.
    pub contexts: Contexts,
    early: Reordered,
    /// The acknowledgements of its Sends, with their times.
    acknowledgements: Acknowledgements,
    /// Whether the queue of early deliveries overflowed while the other half-flow was unseen: the
    /// capture may have one direction only.
    alone: bool,
    counts: Counts,
    /// The last RDMA Write and the last response of this end that are counted as unmatched: the
    /// position of their first packets.
    unmatched: [Option<Position>; 2],
    replayed: Replayed,
    /// First packets of several kinds, except those that the transport notes.
    pub first_frames: FirstFrames,
}

impl SessionEnd {
    fn new(address: Address) -> SessionEnd {
        SessionEnd {
            address,
            ip: None,
            qpn: None,
            private_data: None,
            private_data_cut: false,
            communication_id: None,
            contexts: Contexts::default(),
            early: Reordered::default(),
            acknowledgements: Acknowledgements::default(),
            alone: false,
            counts: Counts::default(),
            unmatched: [None; 2],
            replayed: Replayed::default(),
            first_frames: FirstFrames::default(),
        }
    }

    /// Notes the private data of a CM message from this end. `is_cut`: the capture may lack some of
    /// it.
    pub(crate) fn note_private_data(&mut self, bytes: &[u8], is_cut: bool) {
        let found = private_data::find(bytes).and_then(|found| Some((found.offset, found.fields.ok()?)));
        self.private_data = found;
        self.private_data_cut = is_cut && found.is_none();
    }
}

impl Session {
    /// Creates a connection between two addresses. `dropped` is the capture's drop count so far.
    pub(crate) fn new(order: u32, index: u32, addresses: [Address; 2], now: Time, dropped: u64) -> Session {
        Session {
            peers: Peers::new(index),
            order,
            transport: TransportState::default(),
            attribution: None,
            ends: addresses.map(SessionEnd::new),
            origin: Origin::Inferred(Evidence::default()),
            state: State::Open,
            port: None,
            path_mtu: None,
            partition_key: None,
            span: (now, now),
            closed_at: None,
            files: Files::default(),
            recent: true,
            buffered: 0,
            dropped,
            tcp_ports: None,
            handshake: None,
            over: false,
            hint: None,
        }
    }

    /// A sort key: by number; connections without one come last, in the order in which they were
    /// first seen.
    pub(crate) fn rank(&self) -> (bool, Option<ConnectionId>, u32) {
        (self.peers.number().is_none(), self.peers.number(), self.order)
    }

    /// Its index in the order in which connections were first seen.
    pub(crate) fn order(&self) -> u32 {
        self.order
    }

    /// Whether it has [few packets](Counts::are_few).
    pub(crate) fn has_few_packets(&self) -> bool {
        Counts::are_few(End::BOTH.map(|end| &self.ends[end].counts))
    }

    /// Counts the bytes that are held back.
    #[inline]
    pub(crate) fn count_buffered(&mut self) -> usize {
        let early = self.ends.iter().map(|end| end.early.footprint());
        self.buffered = self.transport.buffered() + early.sum::<usize>();
        self.buffered
    }

    /// Bytes of memory that a clone uses, itself included.
    pub(crate) fn footprint(&self) -> usize {
        let of = |end: &SessionEnd| end.early.footprint() + end.acknowledgements.footprint();
        let attribution =
            self.attribution.as_deref().map_or(0, |kept| size_of::<Attribution>() + kept.footprint());
        size_of::<Session>()
            + self.peers.footprint()
            + self.transport.footprint()
            + attribution
            + self.ends.iter().map(of).sum::<usize>()
    }

    /// Releases all held packets, because all connections together hold too much.
    pub(crate) fn release_buffered(&mut self, transactions: &mut Transactions, report: &mut Report<'_>) {
        transactions.number(&mut self.peers);
        report(Event::Eviction(Eviction::HeldPackets { connection: self.peers.connection() }));
        let Session { peers, transport, ends, .. } = self;
        transport.release_buffered(&mut |from, delivery| {
            hand_up(from, &delivery, ends, peers, transactions, report);
        });
        self.settle_early(None, transactions, report);
        self.attribute(0, transactions, report);
    }

    /// The end whose packets are known, if only one is.
    pub(crate) fn known_side(&self) -> End {
        if self.peers.flows[0].is_none() { End::Second } else { End::First }
    }

    /// Sets the first PSN of the requests of end `side`, from the CM exchange.
    pub(crate) fn begin(&mut self, side: End, first: Psn) {
        self.transport.begin(side, first, self.path_mtu.map(u32::from));
    }

    /// Sets the number of RDMA READs that end `side` may have outstanding.
    pub(crate) fn limit_reads(&mut self, side: End, resources: u8) {
        self.transport.limit_reads(side, resources);
    }

    /// Sets the path MTU from a REQ.
    pub(crate) fn agree_on_path_mtu(&mut self, path_mtu: Option<u16>) {
        self.path_mtu = path_mtu;
        self.transport.agree_on_path_mtu(path_mtu.map(u32::from));
    }

    /// From now on, reports of repetitions and NAKs name the packet that was seen first.
    pub(crate) fn watch(&mut self) {
        self.transport.watch();
    }

    /// Notes that the capture dropped packets since the last packet of this connection. Each of
    /// them may have come from either end.
    #[inline]
    pub(crate) fn note_dropped(&mut self, transactions: &mut Transactions, report: &mut Report<'_>) {
        if self.dropped < transactions.dropped {
            self.lose(transactions, report);
        }
    }

    #[cold]
    fn lose(&mut self, transactions: &mut Transactions, report: &mut Report<'_>) {
        transactions.number(&mut self.peers);
        let packets = transactions.dropped - core::mem::replace(&mut self.dropped, transactions.dropped);
        transactions.lack(packets, None, &mut self.peers);
        if transactions.observes() {
            for from in End::BOTH {
                let packets = u32::try_from(packets).unwrap_or(u32::MAX);
                let missing = Missing { from, packets, acknowledged: None };
                self.peers.observe(Observed::Missing(missing), report);
            }
        }
    }

    /// Counts a packet that its receiver would drop. It is ignored otherwise. `has_data`: it has a
    /// position among the packets of this end, and must be sent again.
    pub(crate) fn count_bad_icrc(
        &mut self,
        side: End,
        (seen, has_data): (Seen, bool),
        transactions: &mut Transactions,
        report: &mut Report<'_>,
    ) {
        transactions.number(&mut self.peers);
        if has_data {
            self.peers.flights[side].damage(seen.time);
        }
        self.ends[side].counts.bad_icrc += 1;
        self.ends[side].first_frames.bad_icrc.get_or_insert(seen.frame);
        if transactions.observes() {
            self.peers.observe(Observed::Spoiled(Spoiled { from: side, seen }), report);
        }
    }

    /// Checks a packet of end `side` by itself for faults.
    #[inline]
    pub(crate) fn inspect(
        &mut self,
        side: End,
        bth: &Bth,
        packet: &Packet<'_>,
        transactions: &mut Transactions,
        report: &mut Report<'_>,
    ) {
        // Its frames are composed, so nothing in them is the sender's doing.
        if self.peers.is_snooped {
            return;
        }
        if let Some(fault) = self.transport.inspect(side, bth, packet, self.partition_key) {
            let observed = (packet.seen, packet.piece(), packet.psn.into(), fault);
            transactions.number(&mut self.peers);
            if transactions.is_judged() {
                observe_fault(side, observed, &self.peers, report);
            }
        }
    }

    /// Whether a packet that another context shows continues the packets of end `side`, or answers
    /// the other end. Copies of packets sent before the capture began come at its beginning.
    pub(crate) fn continues(&self, side: End, packet: &Packet<'_>) -> bool {
        let answers = !packet.operation.is_response()
            && self.evidence(side.other(), packet, packet.seen.time).is_some();
        answers || self.transport.continues(side, packet, self.is_young(packet.seen))
    }

    /// Whether a copy of a packet from before the first one may still come.
    fn is_young(&self, seen: Seen) -> bool {
        seen.time.since(self.span.0) <= REORDERING.0
    }

    /// Reports a packet whose opcode is reserved, or belongs to an operation that RPC-over-RDMA does
    /// not use (IBTA volume 1, release 1.7, section 9.2).
    #[cold]
    pub(crate) fn note_opcode(
        &self,
        side: End,
        opcode: Opcode,
        psn: Psn,
        seen: Seen,
        report: &mut Report<'_>,
    ) {
        let (name, fault) = match opcode.0 {
            0x1c => ("FLUSH", Fault::Foreign),
            0x1d => ("ATOMIC WRITE", Fault::Foreign),
            reserved => ("packet", Fault::Opcode(reserved)),
        };
        let piece = Piece { operation: Operation::Other, part: Part::Only, name };
        if self.peers.number().is_some() {
            observe_fault(side, (seen, piece, psn.into(), fault), &self.peers, report);
        }
    }

    /// The number of packets of an end.
    pub(crate) fn packets(&self, side: End) -> u64 {
        self.ends[side].counts.packets
    }

    /// Counts a packet with a congestion mark.
    pub(crate) fn count_congestion(&mut self, side: End) {
        self.ends[side].counts.congestion_marks += 1;
    }

    /// Handles a packet of end `side`.
    #[inline]
    pub(crate) fn handle(
        &mut self,
        side: End,
        packet: &Packet<'_>,
        transactions: &mut Transactions,
        report: &mut Report<'_>,
    ) {
        self.span.1 = self.span.1.max(packet.seen.time);
        self.recent = true;
        // A response delivers only its own contents, unless requests wait.
        let delivers = !packet.operation.is_response() || End::BOTH.into_iter().any(|end| self.waits(end));
        if delivers {
            self.note_half_flows(transactions);
        }
        let counts = &mut self.ends[side].counts;
        counts.packets += 1;
        counts.bytes += u64::from(packet.payload_length);
        if transactions.attributes() {
            self.attribution.get_or_insert_default().take(side, packet);
        }
        // The end that it answers has sent packets, and the capture lacks them.
        let answers_unseen = packet.operation.is_response() && self.transport.is_unseen(side.other());
        self.peers.unseen += u64::from(answers_unseen);
        let Session { peers, transport, ends, .. } = self;
        // A fault gives the connection a number, and numbers must not depend on whether a judge is
        // present.
        let judged = transactions.is_judged() || peers.number().is_none();
        transport.handle(side, packet, judged, &mut |from, delivery| {
            hand_up(from, &delivery, ends, peers, transactions, report);
        });
        self.note_flight(side, packet);
        self.note_acknowledged(side, packet, transactions);
        if self.ends.iter().any(|end| !end.early.is_empty()) {
            self.settle_early(Some(packet.seen), transactions, report);
        }
        if transactions.attributes() {
            let frame = if transactions.is_late { 0 } else { packet.seen.frame };
            self.attribute(frame, transactions, report);
        }
    }

    /// Reports the roles of packets that are final by now. `frame` is the current record, or 0.
    #[cold]
    pub(crate) fn attribute(&mut self, frame: u64, transactions: &mut Transactions, report: &mut Report<'_>) {
        /// Bytes of memory up to which connections have the larger limits.
        const AMPLE: usize = 16 << 20;
        let Session { attribution: Some(attribution), peers, transport, ends, .. } = self else { return };
        let room = if transactions.attributed > AMPLE { Room::SCARCE } else { Room::AMPLE };
        transactions.take_noted().for_each(|step| attribution.note(&step, room));
        let early = ends.iter().filter_map(|end| end.early.since()).min();
        let is_settled = |seen: Seen, end: End, position: Position| {
            peers.paired
                && early.is_none_or(|early| seen.frame < early)
                && transport.is_settled(end, position)
        };
        attribution.report(frame, room, is_settled, &mut |attributed| report(Event::Attributed(attributed)));
        let now = attribution.footprint();
        let before = core::mem::replace(&mut attribution.counted, now);
        transactions.attributed = transactions.attributed + now - before;
    }

    /// Reports the roles of all packets that still wait, because the connection ends.
    fn attribute_all(&mut self, transactions: &mut Transactions, report: &mut Report<'_>) {
        let Some(attribution) = &mut self.attribution else { return };
        transactions.take_noted().for_each(|step| attribution.note(&step, Room::AMPLE));
        attribution
            .report(0, Room::AMPLE, |_, _, _| true, &mut |attributed| report(Event::Attributed(attributed)));
        transactions.attributed -= attribution.counted;
    }

    /// Ends the waits that expire by `now`: for packets missing in a gap, and for the messages that
    /// early deliveries answer.
    pub(crate) fn handle_time(
        &mut self,
        now: Time,
        transactions: &mut Transactions,
        report: &mut Report<'_>,
    ) {
        self.note_dropped(transactions, report);
        while self.deadline().is_some_and(|deadline| deadline <= now) {
            self.note_half_flows(transactions);
            let Session { peers, transport, ends, .. } = self;
            transport.handle_time(now, &mut |from, delivery| {
                hand_up(from, &delivery, ends, peers, transactions, report);
            });
            // Frame 0 excludes waits that are bounded in frames.
            self.settle_early(Some(Seen { frame: 0, time: now }), transactions, report);
            self.attribute(0, transactions, report);
        }
    }

    /// The next time at which [`Session::handle_time`] has an effect.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let early = self.ends.iter().filter(|_| self.peers.paired).filter_map(|end| end.early.deadline());
        early.chain(self.transport.deadline()).min()
    }

    /// Notes the completeness of both half-flows. Only observers need more than the acknowledgements.
    #[inline]
    fn note_half_flows(&mut self, transactions: &Transactions) {
        self.peers.half_flows = End::BOTH.map(|side| match transactions.observes() {
            true => self.half_flow(side),
            false => HalfFlow { acknowledged: self.transport.acknowledged(side), ..HalfFlow::default() },
        });
        if End::BOTH.into_iter().any(|end| self.waits(end)) {
            self.peers.gaps = End::BOTH.map(|side| self.transport.has_acknowledged_gap(side));
            self.peers.note_acknowledged();
        } else {
            self.peers.gaps = [false; 2];
            self.peers.forget_acknowledged();
        }
    }

    /// Whether requests of an end wait for a gap to be filled, or for the message that they answer.
    #[inline]
    fn waits(&self, side: End) -> bool {
        self.transport.waits(side) || self.ends[side].early.has_requests()
    }

    /// The completeness of an end's packets in the capture.
    fn half_flow(&self, side: End) -> HalfFlow {
        HalfFlow {
            waits: self.waits(side),
            lags: self.transport.missing_at_the_end(side).is_some_and(|missing| missing > 0),
            unsure: self.transport.unsure(side),
            acknowledged: self.transport.acknowledged(side),
        }
    }
}

#[cfg(test)]
mod tests;
