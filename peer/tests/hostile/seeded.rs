//! Random sessions with a hostile remote side. Every call of this side ends once, each received
//! packet causes a bounded number of sent packets, no loop occurs, and no state is left at the end.

use crate::foe::{
    NAME, OURS, PORT, QUEUE_PAIR, THEIRS, Victim, aeth, call, datagram, disconnect_reply, disconnect_request,
    ready_to_use, receipt, reject, reply, request, words,
};
use rdmascope_peer::cm::State;
use rdmascope_peer::endpoint::{self, ConnectionId};
use rdmascope_peer::memory::Access;
use rdmascope_peer::packet::Datagram;
use rdmascope_peer::peer::Event;
use rdmascope_peer::random::Random;
use rdmascope_peer::rc::{self, Failure, QueueEvent};
use rdmascope_peer::rpcrdma::{self, Call};
use rdmascope_wire::bth::{Extensions, Operation as Kind, Reth};
use rdmascope_wire::cm::{self, Acknowledged, CommunicationId, Message};
use rdmascope_wire::psn::Psn;
use rdmascope_wire::rpcrdma::{Builder, Procedure, ReadSegment, Segment};
use rdmascope_wire::{Qpn, Rkey, Xid};
use std::collections::BTreeSet;
use std::time::Duration;

const SEEDS: u64 = 10_000;
/// Bytes of the memory that the remote side may access.
const MEMORY: usize = 6000;
/// Most packets sent for one received: a window of 64, the responses to a READ of all memory, and
/// CM messages; or 64 responses with a DREQ.
const MOST_SENT: usize = 64 + MEMORY.div_ceil(256) + 8;
/// Longer than any wait for a silent remote side, in virtual time.
const LONG: Duration = Duration::from_secs(20 * 60);

struct Attack {
    random: Random,
    victim: Victim,
    connection: ConnectionId,
    memory: (Rkey, u64),
    calls: BTreeSet<Xid>,
    /// Received datagrams, which are repeated in any order.
    received: Vec<Datagram>,
}

impl Attack {
    fn new(seed: u64) -> Attack {
        let mut random = Random::new(seed);
        let psn = random.chance(600).then(|| Psn::new(Psn::MODULUS - 1 - random.below(8) as u32));
        let queue = rc::Config {
            timeout: Some(Duration::from_millis(1 + random.below(100))),
            acknowledge_every: 1 + random.below(8) as u32,
            end_to_end_credits: random.chance(300),
            retry_count: random.below(8) as u8,
            ..rc::Config::default()
        };
        let (victim, connection) = match random.below(5) {
            0 => {
                // The connection is not established yet.
                let mut victim = Victim::new(psn, queue, seed);
                let connection = victim.peer.connect(OURS, THEIRS, PORT).unwrap();
                victim.settle();
                (victim, connection)
            }
            1 | 2 => Victim::active(psn, queue, seed),
            3 => {
                let mut victim = Victim::new(psn, queue, seed);
                let mut room = Vec::new();
                let Message::Request(right) = request(psn.unwrap_or_default(), &mut room) else {
                    unreachable!()
                };
                let mut path = right.primary_path.unwrap_or_default();
                // Not 0, which would disable retransmission.
                path.local_ack_timeout = 1 + random.below(20) as u8;
                victim.manage(&Message::Request(cm::Request {
                    local_cm_response_timeout: random.below(32) as u8,
                    max_cm_retries: random.below(16) as u8,
                    retry_count: random.below(8) as u8,
                    rnr_retry_count: random.below(8) as u8,
                    initiator_depth: random.below(256) as u8,
                    responder_resources: random.below(256) as u8,
                    primary_path: Some(path),
                    ..right
                }));
                let connection = victim.peer.endpoint().connections().next().unwrap();
                (victim, connection)
            }
            _ => Victim::passive(psn, queue, seed),
        };
        let mut attack = Attack {
            random,
            victim,
            connection,
            memory: (Rkey(0), 0),
            calls: BTreeSet::new(),
            received: Vec::new(),
        };
        attack.register();
        attack
    }

    /// Registers memory for the remote side unless there is some.
    fn register(&mut self) {
        if self.memory.1 == 0 {
            let access = Access { remote_read: true, remote_write: true };
            let endpoint = self.victim.peer.endpoint_mut();
            self.memory = endpoint.register(self.connection, vec![1; MEMORY], access).unwrap_or_default();
        }
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.random.below(of.len() as u64) as usize]
    }

    fn receive(&mut self, datagram: Datagram) {
        self.victim.receive(&datagram);
        if self.received.len() < 64 {
            self.received.push(datagram);
        }
    }

    fn packet(&mut self, kind: Kind, psn: Psn, extensions: Extensions, payload: &[u8]) {
        if let Some(datagram) = self.victim.datagram(self.connection, kind, psn, (extensions, payload)) {
            self.receive(datagram);
        }
    }

    /// Returns the PSN that this side sends next and the one that it expects, or values nearby.
    fn psns(&mut self) -> (Psn, Psn) {
        let queue = self.victim.queue(self.connection);
        let (next, expected) =
            queue.map_or_else(Default::default, |queue| (queue.next_psn(), queue.expected_psn()));
        let near = |random: &mut Random, psn: Psn| match random.below(10) {
            0..5 => psn,
            5..9 => psn.plus(random.below(12) as u32).minus(6),
            _ => Psn::new(random.word()),
        };
        let next = next.minus(1 + self.random.below(6) as u32);
        (near(&mut self.random, next), near(&mut self.random, expected))
    }

    /// Sends a CM message of any kind in any state.
    fn manage(&mut self) {
        let psn = self.psns().0;
        let (to, qpn) = (self.connection, self.pick(&[QUEUE_PAIR, Qpn(0x55), Qpn(0), Qpn(1)]));
        let of = self.pick(&[Acknowledged::Request, Acknowledged::Reply, Acknowledged::LoadAlternatePath]);
        let service_timeout = self.random.below(32) as u8;
        let mut room = Vec::new();
        let message = match self.random.below(20) {
            0..2 => request(psn, &mut room),
            2..6 => reply(to, qpn, psn),
            6..10 => ready_to_use(to),
            10..14 => receipt(to, of, service_timeout),
            14..16 => disconnect_reply(to),
            16 => reject(to),
            17 => disconnect_request(to),
            18 => Message::Reply(cm::Reply {
                local_communication_id: CommunicationId(NAME.0 + 1),
                remote_communication_id: CommunicationId(to.0),
                ..cm::Reply::default()
            }),
            _ => ready_to_use(ConnectionId(!to.0)),
        };
        let received = crate::foe::mad(&message);
        self.receive(received);
    }

    /// Sends an acknowledgement or NAK of any kind.
    fn acknowledge(&mut self) {
        let psn = self.psns().0;
        let syndrome = match self.random.below(10) {
            0..4 => self.random.below(32) as u8,
            4..6 => 0x20 | self.random.below(32) as u8,
            6..9 => 0x60,
            _ => self.random.number() as u8,
        };
        let number = self.random.below(20) as u32;
        self.packet(Kind::Acknowledge, psn, aeth(syndrome, number), &[]);
    }

    /// Sends a READ response of any opcode and length.
    fn respond(&mut self) {
        let psn = self.psns().0;
        let kind = self.pick(&[
            Kind::ReadResponseFirst,
            Kind::ReadResponseMiddle,
            Kind::ReadResponseLast,
            Kind::ReadResponseOnly,
            Kind::AtomicAcknowledge,
        ]);
        let length = self.pick(&[0, 1, 88, 255, 256, 256, 256, 257]);
        let extensions = match kind {
            Kind::ReadResponseMiddle => Extensions::default(),
            Kind::AtomicAcknowledge => Extensions { atomic_ack_eth: Some(7), ..aeth(0, 1) },
            _ => aeth(self.random.number() as u8, 1),
        };
        self.packet(kind, psn, extensions, &vec![3; length]);
    }

    /// Sends a request of any kind, usually for existing memory.
    fn send_request(&mut self) {
        let psn = self.psns().1;
        let kind = self.pick(&[
            Kind::SendFirst,
            Kind::SendMiddle,
            Kind::SendLast,
            Kind::SendOnly,
            Kind::SendOnlyWithInvalidate,
            Kind::WriteFirst,
            Kind::WriteMiddle,
            Kind::WriteLast,
            Kind::WriteOnly,
            Kind::WriteOnlyWithImmediate,
            Kind::ReadRequest,
            Kind::ReadRequest,
            Kind::ReadRequest,
            Kind::FetchAdd,
        ]);
        let (rkey, address) = self.memory;
        let at = self.random.below(300) * 20;
        let length = self.random.below(MEMORY as u64 + 10 - at.min(MEMORY as u64)) as u32;
        let reth = Reth { rkey, virtual_address: address.wrapping_add(at), dma_length: length };
        let extensions = Extensions {
            reth: Some(reth),
            ieth: Some(rkey),
            immediate: Some(1),
            atomic_eth: Some(Default::default()),
            ..Extensions::default()
        };
        let length = self.pick(&[0, 20, 256, 256, 256, 255]);
        let payload = if kind == Kind::ReadRequest { Vec::new() } else { vec![5; length] };
        let only = only_those_of(kind, extensions);
        self.packet(kind, psn, only, &payload);
    }

    /// Sends an RPC-over-RDMA message in a valid SEND: a call with or without chunks, or a reply to
    /// a call of this side.
    fn send_message(&mut self) {
        let Some(queue) = self.victim.queue(self.connection) else { return };
        let expected = queue.expected_psn();
        let is_call = self.random.chance(500);
        let known = self.calls.iter().next_back().copied().filter(|_| !is_call);
        let xid = known.unwrap_or(Xid(self.random.below(5) as u32));
        let mut header = Builder::new(xid, self.random.below(5) as u32, Procedure::Msg);
        let segment = |random: &mut Random| Segment {
            handle: Rkey(random.word()),
            length: random.below(2000) as u32,
            offset: random.number() >> 20,
        };
        if is_call && self.random.chance(600) {
            for _ in 0..1 + self.random.below(3) {
                header.reads.push(ReadSegment { position: 40, target: segment(&mut self.random) });
            }
        }
        if is_call && self.random.chance(400) {
            header.writes.push(vec![segment(&mut self.random)]);
        }
        let mut bytes = Vec::new();
        header.build(&mut bytes);
        bytes.extend(if is_call { call(xid, 0) } else { words(&[xid.0, 1, 0, 0, 0, 0]) });
        bytes.truncate(256);
        self.packet(Kind::SendOnly, expected, Extensions::default(), &bytes);
    }

    /// Lets the program of this side act.
    fn act(&mut self) {
        self.register();
        if self.random.chance(30) {
            let _ = self.victim.peer.disconnect(self.connection);
        } else {
            let xid = Xid(self.random.word());
            let mut made = Call::inline(call(xid, self.random.below(3000) as usize));
            made.most_reply = self.random.below(6000) as u32;
            if self.victim.peer.call(self.connection, made).is_ok() {
                self.calls.insert(xid);
            }
        }
        self.victim.settle();
    }

    /// Advances the time: to the deadline, less, or much more.
    fn wait(&mut self) {
        match self.random.below(4) {
            0 => self.victim.wait(Duration::from_micros(self.random.below(100_000))),
            1 => self.victim.wait(Duration::from_secs(self.random.below(100_000))),
            _ => {
                self.victim.next();
            }
        }
    }

    fn step(&mut self) {
        match self.random.below(24) {
            0..3 => self.manage(),
            3..7 => self.acknowledge(),
            7..10 => self.respond(),
            10..13 => self.send_request(),
            13..16 => self.send_message(),
            16..18 => self.act(),
            18..20 => self.wait(),
            20 => {
                let mut transport: Vec<u8> =
                    (0..self.random.below(80)).map(|_| self.random.number() as u8).collect();
                if let Some(qpn) = self.victim.peer.endpoint().queue_pair_number(self.connection)
                    && transport.len() > 12
                {
                    transport[0] &= 0x1f;
                    transport[1] &= 0xf0;
                    transport[4..8].copy_from_slice(&qpn.0.to_be_bytes());
                }
                self.receive(datagram(transport));
            }
            _ if self.received.is_empty() => {}
            _ => {
                let again = self.random.below(self.received.len() as u64) as usize;
                let again = self.received[again].clone();
                self.victim.receive(&again);
            }
        }
    }
}

/// Keeps the extension headers of this kind of packet.
fn only_those_of(kind: Kind, all: Extensions) -> Extensions {
    let reth =
        matches!(kind, Kind::WriteFirst | Kind::WriteOnly | Kind::WriteOnlyWithImmediate | Kind::ReadRequest);
    Extensions {
        reth: all.reth.filter(|_| reth),
        ieth: all.ieth.filter(|_| kind == Kind::SendOnlyWithInvalidate),
        immediate: all.immediate.filter(|_| kind == Kind::WriteOnlyWithImmediate),
        atomic_eth: all.atomic_eth.filter(|_| kind == Kind::FetchAdd),
        ..Extensions::default()
    }
}

#[test]
fn random_attacks_leave_no_state() {
    let (mut calls, mut answered, mut most_sent) = (0, 0, 0);
    let mut failures: BTreeSet<String> = BTreeSet::new();
    for seed in 0..SEEDS {
        let mut attack = Attack::new(seed);
        for _ in 0..40 + attack.random.below(120) {
            attack.step();
            let victim = &attack.victim;
            assert!(victim.most_sent <= MOST_SENT, "seed {seed}: {} packets at once", victim.most_sent);
            assert!(victim.peer.endpoint().connections().count() <= 40, "seed {seed}");
        }
        // The remote side is silent: unacknowledged operations fail; acknowledged but unanswered
        // calls are left to the program.
        let Attack { mut victim, connection, calls: made, .. } = attack;
        let began = victim.now;
        victim.silence();
        if let Some(queue) = victim.queue(connection) {
            assert_eq!(queue.outstanding(), 0, "seed {seed} {:?} {queue:?}", victim.state(connection));
        }
        let all: Vec<ConnectionId> = victim.peer.endpoint().connections().collect();
        for connection in all {
            assert_eq!(victim.state(connection), Some(State::Established), "seed {seed}");
            victim.peer.disconnect(connection).unwrap();
        }
        victim.silence();
        assert!(victim.now.since(began) < 2 * LONG, "seed {seed}: {:?}", victim.now.since(began));
        assert!(victim.most_sent <= MOST_SENT, "seed {seed}: {} packets at once", victim.most_sent);
        assert_eq!(victim.peer.endpoint().connections().count(), 0, "seed {seed}");
        assert!(victim.peer.session(connection).is_none(), "seed {seed}");
        for xid in &made {
            assert_eq!(victim.ends(*xid), 1, "seed {seed}, {xid}");
        }
        // Totals that prove the coverage of the runs.
        calls += made.len();
        most_sent = most_sent.max(victim.most_sent);
        for event in &victim.events {
            match event {
                Event::Rpc { event: rpcrdma::Event::Replied(_), .. } => answered += 1,
                Event::Endpoint(endpoint::Event::Queue { event: QueueEvent::Failed(failure), .. }) => {
                    failures.insert(format!("{failure:?}"));
                }
                _ => {}
            }
        }
    }
    assert!(calls > 10_000 && answered > 1000 && most_sent > 24, "{calls} {answered} {most_sent}");
    for failure in [Failure::RetriesExceeded, Failure::RnrRetriesExceeded, Failure::BadResponse] {
        assert!(failures.contains(&format!("{failure:?}")), "{failures:?}");
    }
    assert!(failures.len() >= 8, "{failures:?}");
}
