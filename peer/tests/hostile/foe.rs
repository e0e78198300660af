//! A peer under test, and the packets of a hostile remote side, which has no state machine.

use rdmascope_peer::cm::State;
use rdmascope_peer::endpoint::{self, ConnectionId, MANAGEMENT_QUEUE_KEY};
use rdmascope_peer::packet::{Datagram, Icrc, Packet};
use rdmascope_peer::pair::End as _;
use rdmascope_peer::peer::{Config, Event, Peer};
use rdmascope_peer::rc::{self, QueuePair};
use rdmascope_peer::rpcrdma::{self, Called, Reply};
use rdmascope_peer::time::Instant;
use rdmascope_wire::bth::{Aeth, Bth, Deth, Extensions, Opcode, Operation as Kind, Syndrome};
use rdmascope_wire::cm::{self, CommunicationId, Message, ServiceId};
use rdmascope_wire::psn::Psn;
use rdmascope_wire::rdma_cm_ip::{self, PortSpace};
use rdmascope_wire::{Qpn, Xid};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

pub(crate) const PORT: u16 = 20049;
pub(crate) const OURS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
pub(crate) const THEIRS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));
/// The communication ID and queue pair of the remote side.
pub(crate) const NAME: CommunicationId = CommunicationId(0x0707);
pub(crate) const QUEUE_PAIR: Qpn = Qpn(0x99);

/// The peer under test.
pub(crate) struct Victim {
    pub(crate) peer: Peer,
    pub(crate) now: Instant,
    /// All events so far.
    pub(crate) events: Vec<Event>,
    /// The datagrams sent since the last check.
    pub(crate) sent: Vec<Datagram>,
    /// Most packets sent for one received packet or one timer call.
    pub(crate) most_sent: usize,
}

impl Victim {
    /// Creates a peer with a path MTU of 256. `psn` is the starting PSN of both sides.
    pub(crate) fn new(psn: Option<Psn>, queue: rc::Config, seed: u64) -> Victim {
        let queue = rc::Config { path_mtu: 256, ..queue };
        let endpoint = endpoint::Config { queue, starting_psn: psn, ..endpoint::Config::default() };
        let mut peer = Peer::new(Config { endpoint, ..Config::default() }, seed);
        assert!(peer.listen(PORT));
        Victim { peer, now: Instant(5), events: Vec::new(), sent: Vec::new(), most_sent: 0 }
    }

    /// Creates a peer on the active side; the remote side accepts the connection.
    pub(crate) fn active(psn: Option<Psn>, queue: rc::Config, seed: u64) -> (Victim, ConnectionId) {
        let mut victim = Victim::new(psn, queue, seed);
        let connection = victim.peer.connect(OURS, THEIRS, PORT).unwrap();
        victim.settle();
        victim.manage(&reply(connection, QUEUE_PAIR, psn.unwrap_or_default()));
        assert_eq!(victim.state(connection), Some(State::Established));
        victim.sent.clear();
        (victim, connection)
    }

    /// Creates a peer on the passive side of an established connection.
    pub(crate) fn passive(psn: Option<Psn>, queue: rc::Config, seed: u64) -> (Victim, ConnectionId) {
        let mut victim = Victim::new(psn, queue, seed);
        let mut private_data = Vec::new();
        victim.manage(&request(psn.unwrap_or_default(), &mut private_data));
        let connection = victim.peer.endpoint().connections().next().unwrap();
        victim.manage(&ready_to_use(connection));
        assert_eq!(victim.state(connection), Some(State::Established));
        victim.sent.clear();
        (victim, connection)
    }

    pub(crate) fn state(&self, connection: ConnectionId) -> Option<State> {
        self.peer.endpoint().state(connection)
    }

    pub(crate) fn queue(&self, connection: ConnectionId) -> Option<&QueuePair> {
        self.peer.endpoint().queue_pair(connection)
    }

    /// Passes a datagram of the remote side to the peer.
    pub(crate) fn receive(&mut self, datagram: &Datagram) {
        self.peer.handle(self.now, datagram);
        self.settle();
    }

    pub(crate) fn manage(&mut self, message: &Message<'_>) {
        self.receive(&mad(message));
    }

    /// Sends a packet to the queue pair of this connection.
    pub(crate) fn packet(
        &mut self,
        connection: ConnectionId,
        kind: Kind,
        psn: Psn,
        rest: (Extensions, &[u8]),
    ) {
        let Some(datagram) = self.datagram(connection, kind, psn, rest) else { return };
        self.receive(&datagram);
    }

    pub(crate) fn datagram(
        &self,
        connection: ConnectionId,
        kind: Kind,
        psn: Psn,
        (extensions, payload): (Extensions, &[u8]),
    ) -> Option<Datagram> {
        let destination_qp = self.peer.endpoint().queue_pair_number(connection)?;
        let bth = Bth {
            opcode: Opcode(kind as u8),
            partition_key: 0xffff,
            destination_qp,
            acknowledge_request: true,
            psn,
            ..Bth::default()
        };
        Some(datagram(Packet { bth, extensions, payload }.build()))
    }

    pub(crate) fn acknowledge(&mut self, connection: ConnectionId, psn: Psn, syndrome: u8) {
        self.packet(connection, Kind::Acknowledge, psn, (aeth(syndrome, 1), &[]));
    }

    /// Advances the time by `later`.
    pub(crate) fn wait(&mut self, later: Duration) {
        self.now = self.now.plus(later);
        self.peer.handle_time(self.now);
        self.settle();
    }

    /// Advances the time to the next deadline. Returns false if there is none.
    pub(crate) fn next(&mut self) -> bool {
        let Some(deadline) = self.peer.next_deadline() else { return false };
        self.now = self.now.max(deadline);
        self.peer.handle_time(self.now);
        self.settle();
        // A deadline that stays the same would loop forever.
        assert!(self.peer.next_deadline().is_none_or(|next| next > self.now), "the deadline has passed");
        true
    }

    /// Lets the remote side be silent until no deadline is left.
    pub(crate) fn silence(&mut self) {
        self.settle();
        for _ in 0..2000 {
            if !self.next() {
                return;
            }
        }
        panic!("deadlines without end");
    }

    /// Takes datagrams and events, and answers calls with replies of the largest possible size.
    pub(crate) fn settle(&mut self) {
        let mut count = 0;
        loop {
            let events: Vec<Event> = std::iter::from_fn(|| self.peer.poll_event()).collect();
            for event in &events {
                if let Event::Rpc { connection, event: rpcrdma::Event::Called(called) } = event {
                    let _ = self.peer.reply(*connection, called.xid, answer(called));
                }
            }
            self.events.extend(events);
            let Some(datagram) = self.peer.poll_transmit(self.now) else { break };
            self.sent.push(datagram);
            count += 1;
            assert!(count < 10_000, "packets without end");
        }
        self.most_sent = self.most_sent.max(count);
    }

    /// Returns how often a call was answered, refused or lost.
    pub(crate) fn ends(&self, xid: Xid) -> usize {
        let is_end = |event: &&Event| match event {
            Event::Rpc { event: rpcrdma::Event::Replied(replied), .. } => replied.xid == xid,
            Event::Rpc {
                event: rpcrdma::Event::Lost { xid: other } | rpcrdma::Event::Error { xid: other, .. },
                ..
            } => *other == xid,
            _ => false,
        };
        self.events.iter().filter(is_end).count()
    }

    /// Returns the opcodes sent since the last check.
    pub(crate) fn opcodes(&mut self) -> Vec<u8> {
        self.sent.drain(..).map(|datagram| datagram.transport[0]).collect()
    }
}

fn answer(called: &Called) -> Reply {
    let mut message = words(&[called.xid.0, 1, 0, 0, 0, 0]);
    let mut reduce = Vec::new();
    for room in called.write_chunks.iter().take(4) {
        let start = message.len();
        message.resize(start + (*room).min(2000) as usize, 7);
        reduce.push(start..message.len());
        message.resize(message.len().next_multiple_of(4), 0);
    }
    Reply { message, reduce, edit: None }
}

pub(crate) fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// Builds an RPC call of at least this length.
pub(crate) fn call(xid: Xid, length: usize) -> Vec<u8> {
    let mut message = words(&[xid.0, 0, 2, 100_003, 3, 0, 0, 0, 0, 0]);
    message.resize(message.len().max(length.next_multiple_of(4)), 9);
    message
}

pub(crate) fn datagram(transport: Vec<u8>) -> Datagram {
    Datagram { source: THEIRS, destination: OURS, source_port: 0xc000, transport, icrc: Icrc::Good }
}

pub(crate) fn aeth(syndrome: u8, message_sequence_number: u32) -> Extensions {
    let aeth = Aeth { syndrome: Syndrome(syndrome), message_sequence_number };
    Extensions { aeth: Some(aeth), ..Extensions::default() }
}

pub(crate) fn mad(message: &Message<'_>) -> Datagram {
    let mut mad = Vec::new();
    message.build(&message.header(1), &mut mad);
    let bth =
        Bth { opcode: Opcode::UD_SEND_ONLY, partition_key: 0xffff, destination_qp: Qpn(1), ..Bth::default() };
    let deth = Deth { queue_key: MANAGEMENT_QUEUE_KEY, source_qp: Qpn(1) };
    let extensions = Extensions { deth: Some(deth), ..Extensions::default() };
    datagram(Packet { bth, extensions, payload: &mad }.build())
}

/// Builds a valid REQ; `room` receives its private data.
pub(crate) fn request(psn: Psn, room: &mut Vec<u8>) -> Message<'_> {
    let (IpAddr::V4(source), IpAddr::V4(destination)) = (THEIRS, OURS) else { unreachable!() };
    rdma_cm_ip::Header::ipv4(source, 700, destination).build(room);
    let path = cm::Path { local_ack_timeout: 14, ..cm::Path::default() };
    Message::Request(cm::Request {
        local_communication_id: NAME,
        service_id: ServiceId::rdma_cm(PortSpace::Tcp, PORT),
        local_qpn: QUEUE_PAIR,
        responder_resources: 16,
        initiator_depth: 16,
        starting_psn: psn,
        local_cm_response_timeout: 20,
        retry_count: 7,
        rnr_retry_count: 6,
        max_cm_retries: 15,
        path_packet_payload_mtu: 1,
        primary_path: Some(path),
        private_data: room,
        ..cm::Request::default()
    })
}

pub(crate) fn reply(to: ConnectionId, local_qpn: Qpn, starting_psn: Psn) -> Message<'static> {
    Message::Reply(cm::Reply {
        local_communication_id: NAME,
        remote_communication_id: CommunicationId(to.0),
        local_qpn,
        starting_psn,
        responder_resources: 16,
        initiator_depth: 16,
        rnr_retry_count: 6,
        ..cm::Reply::default()
    })
}

pub(crate) fn ready_to_use(to: ConnectionId) -> Message<'static> {
    Message::ReadyToUse(cm::ReadyToUse {
        local_communication_id: NAME,
        remote_communication_id: CommunicationId(to.0),
        private_data: &[],
    })
}

pub(crate) fn disconnect_request(to: ConnectionId) -> Message<'static> {
    Message::DisconnectRequest(cm::DisconnectRequest {
        local_communication_id: NAME,
        remote_communication_id: CommunicationId(to.0),
        ..cm::DisconnectRequest::default()
    })
}

pub(crate) fn disconnect_reply(to: ConnectionId) -> Message<'static> {
    Message::DisconnectReply(cm::DisconnectReply {
        local_communication_id: NAME,
        remote_communication_id: CommunicationId(to.0),
        private_data: &[],
    })
}

pub(crate) fn receipt(to: ConnectionId, of: cm::Acknowledged, service_timeout: u8) -> Message<'static> {
    Message::MessageReceiptAcknowledgement(cm::MessageReceiptAcknowledgement {
        local_communication_id: NAME,
        remote_communication_id: CommunicationId(to.0),
        message_acknowledged: of,
        service_timeout,
        private_data: &[],
    })
}

pub(crate) fn reject(to: ConnectionId) -> Message<'static> {
    Message::Reject(cm::Reject {
        local_communication_id: NAME,
        remote_communication_id: CommunicationId(to.0),
        reason: 28,
        ..cm::Reject::default()
    })
}
