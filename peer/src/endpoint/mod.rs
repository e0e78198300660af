//! An endpoint: its connections, their queue pairs, and what it sends and receives.
//!
//! The driver's part:
//!
//! | call | when |
//! |---|---|
//! | [`handle`](Endpoint::handle) | a datagram has come |
//! | [`handle_time`](Endpoint::handle_time) | [`next_deadline`](Endpoint::next_deadline) has come |
//! | [`poll_transmit`](Endpoint::poll_transmit) | after anything else, until there is no more |
//! | [`poll_event`](Endpoint::poll_event) | likewise |

mod command;
mod management;
mod room;

pub use command::{CommandError, Connect};

use crate::cm::{self, Closed, Input, Machine, State};
use crate::interceptor::{Forward, Interceptor};
use crate::packet::{Datagram, Icrc, Packet};
use crate::random::Random;
use crate::rc::{self, Fault, QueueEvent, QueuePair};
use crate::time::{Instant, earlier};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::net::IpAddr;
use rdmascope_wire::Qpn;
use rdmascope_wire::bth::{Bth, Deth, Extensions, Opcode};
use rdmascope_wire::cm::{Reply, ServiceId};
use rdmascope_wire::psn::Psn;

/// Connections that an endpoint can have, those in TimeWait included. Where all places are taken, a REQ takes that of the connection that was silent longest,
/// if that was as long as [`cm::Config::silence`]. If none was, and its sender has no connection yet, it takes one from the remote address that
/// has most: the one that was silent longest. Only connections that remote sides asked for give way. Otherwise the REQ is rejected.
pub const MOST_CONNECTIONS: usize = 1024;
/// Ports that it can listen on.
pub const MOST_LISTENERS: usize = 64;
/// Datagrams that wait to be sent, or whose delay is not over.
pub const MOST_DATAGRAMS: usize = 65_536;
/// Events that nobody polled; beyond that faults are not told.
pub const MOST_EVENTS: usize = 65_536;
/// The Q_Key of queue pair 1 (IBTA volume 1, section 3.5.3).
pub const MANAGEMENT_QUEUE_KEY: u32 = 0x8001_0000;
/// The queue pair of connection management.
const MANAGEMENT: Qpn = Qpn(1);

/// How an endpoint behaves.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The GUID of its channel adapter.
    pub guid: u64,
    /// Connection management.
    pub cm: cm::Config,
    /// Queue pairs.
    pub queue: rc::Config,
    /// The UDP source port; 0: 0xc000.
    pub source_port: u16,
    /// The first PSN that its queue pairs expect; `None`: a random one.
    pub starting_psn: Option<Psn>,
    /// Do not answer a REP with an RTU by itself: [`Endpoint::confirm`] does.
    pub confirm_by_hand: bool,
    /// Keep a connection whose queue pair has failed, instead of sending a DREQ.
    pub keep_failed: bool,
}

/// A connection of an endpoint: its local communication ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u32);

/// What an endpoint tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A REQ has come to a port that is listened on. It waits for `accept`, `acknowledge` or `reject`.
    Requested {
        /// What it is called here.
        connection: ConnectionId,
        /// Who asks.
        remote: IpAddr,
        /// For which port.
        port: u16,
        /// The private data behind the header of the RDMA connection manager.
        private_data: Vec<u8>,
    },
    /// A REP has come.
    Replied {
        /// Which connection.
        connection: ConnectionId,
        /// What it says, without its private data; `None` where a device keeps that to itself.
        reply: Option<Reply<'static>>,
        /// Its private data.
        private_data: Vec<u8>,
    },
    /// The connection is there.
    Connected {
        /// Which.
        connection: ConnectionId,
    },
    /// The connection is over, or did not come about.
    Closed {
        /// Which.
        connection: ConnectionId,
        /// Why.
        why: Closed,
    },
    /// Its queue pair has something to tell.
    Queue {
        /// Which connection.
        connection: ConnectionId,
        /// What.
        event: QueueEvent,
    },
    /// A CM message or a command that the state of the connection does not allow. It was not followed.
    Unexpected {
        /// Which connection, where there is one.
        connection: Option<ConnectionId>,
        /// What came.
        input: Input,
        /// In which state; [`State::Idle`] where there is no such connection.
        state: State,
    },
    /// A datagram was dropped that belongs to no connection.
    Dropped {
        /// Who sent it.
        source: IpAddr,
        /// What was wrong.
        fault: Fault,
    },
}

impl Event {
    /// Whether the network can cause any number of it, and nothing is lost but the tale where it is not told.
    pub const fn is_detail(&self) -> bool {
        match self {
            Event::Dropped { .. } | Event::Unexpected { .. } => true,
            Event::Queue { event, .. } => event.is_detail(),
            _ => false,
        }
    }
}

/// A connection, or what is to become one.
#[derive(Clone, Debug)]
struct Link {
    machine: Machine,
    /// The addresses of this side and of the remote one.
    local: IpAddr,
    remote: IpAddr,
    /// Its queue pair's number, and the first PSN that it expects.
    qpn: Qpn,
    starting_psn: Psn,
    queue: Option<QueuePair>,
    /// As proposed, and then as negotiated.
    config: rc::Config,
    /// What the REQ says, on the passive side.
    requested: Option<management::Requested>,
    /// When the remote side sent something that belongs to it.
    heard: Instant,
}

/// See the [module](self).
pub struct Endpoint {
    config: Config,
    random: Random,
    links: BTreeMap<u32, Link>,
    queue_pairs: BTreeMap<u32, u32>,
    listeners: BTreeSet<ServiceId>,
    events: VecDeque<Event>,
    /// Datagrams that the interceptor has not seen yet; the connection whose timer starts when one goes out.
    outgoing: VecDeque<(Option<u32>, Datagram)>,
    /// Those that it has.
    ready: VecDeque<Datagram>,
    /// Those that it delays, in and out, by the time at which they go on.
    delayed_out: BTreeMap<(Instant, u64), Datagram>,
    delayed_in: BTreeMap<(Instant, u64), Datagram>,
    delayed: u64,
    interceptor: Option<Box<dyn Interceptor>>,
    /// The PSN of the next datagram of queue pair 1.
    management_psn: Psn,
    /// The queue pair of this connection, or the next one behind it, sends next.
    turn: u32,
    works: u64,
    /// The latest time that the driver told.
    now: Instant,
}

impl Endpoint {
    /// An endpoint without connections. The same seed and the same calls give the same datagrams.
    pub fn new(config: Config, seed: u64) -> Endpoint {
        Endpoint {
            config,
            random: Random::new(seed),
            links: BTreeMap::new(),
            queue_pairs: BTreeMap::new(),
            listeners: BTreeSet::new(),
            events: VecDeque::new(),
            outgoing: VecDeque::new(),
            ready: VecDeque::new(),
            delayed_out: BTreeMap::new(),
            delayed_in: BTreeMap::new(),
            delayed: 0,
            interceptor: None,
            management_psn: Psn::default(),
            turn: 0,
            works: 0,
            now: Instant::default(),
        }
    }

    /// Lets `interceptor` see everything from now on.
    pub fn intercept(&mut self, interceptor: Option<Box<dyn Interceptor>>) {
        self.interceptor = interceptor;
    }

    /// Takes a datagram.
    pub fn handle(&mut self, now: Instant, datagram: &Datagram) {
        self.now = self.now.max(now);
        let Some(interceptor) = &mut self.interceptor else { return self.take(now, datagram) };
        let mut forward = Forward::default();
        interceptor.receive(now, datagram.clone(), &mut forward);
        for (delay, datagram) in forward.passed {
            match delay {
                None => self.take(now, &datagram),
                Some(delay) if self.delayed_in.len() < MOST_DATAGRAMS => {
                    self.delayed += 1;
                    self.delayed_in.insert((now.plus(delay), self.delayed), datagram);
                }
                Some(_) => {}
            }
        }
    }

    /// Does what is due at `now`: sends again, gives up, lets go on what was delayed.
    pub fn handle_time(&mut self, now: Instant) {
        self.now = self.now.max(now);
        while let Some(entry) = self.delayed_in.first_entry().filter(|entry| entry.key().0 <= now) {
            let datagram = entry.remove();
            self.take(now, &datagram);
        }
        let ids: Vec<u32> = self.links.keys().copied().collect();
        for id in ids {
            if let Some(queue) = self.links.get_mut(&id).and_then(|link| link.queue.as_mut()) {
                queue.handle_time(now);
                self.collect(id);
            }
            self.management_time(now, id);
        }
    }

    /// When [`handle_time`](Endpoint::handle_time) has something to do, or [`poll_transmit`](Endpoint::poll_transmit) will.
    pub fn next_deadline(&self) -> Option<Instant> {
        let due =
            |delayed: &BTreeMap<(Instant, u64), Datagram>| delayed.first_key_value().map(|(key, _)| key.0);
        let queues = self.links.values().filter_map(|link| link.queue.as_ref()?.next_deadline());
        let machines = self.links.values().filter_map(|link| link.machine.deadline);
        let first = queues.chain(machines).min();
        earlier(first, earlier(due(&self.delayed_in), due(&self.delayed_out)))
    }

    /// The next datagram to send at `now`; `None`: nothing before the next event or deadline.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Datagram> {
        self.now = self.now.max(now);
        loop {
            if let Some(entry) = self.delayed_out.first_entry().filter(|entry| entry.key().0 <= now) {
                return Some(entry.remove());
            }
            if let Some(datagram) = self.ready.pop_front() {
                return Some(datagram);
            }
            let datagram = self.produce(now)?;
            let Some(interceptor) = &mut self.interceptor else { return Some(datagram) };
            let mut forward = Forward::default();
            interceptor.transmit(now, datagram, &mut forward);
            for (delay, datagram) in forward.passed {
                match delay {
                    None if self.ready.len() < MOST_DATAGRAMS => self.ready.push_back(datagram),
                    Some(delay) if self.delayed_out.len() < MOST_DATAGRAMS => {
                        self.delayed += 1;
                        self.delayed_out.insert((now.plus(delay), self.delayed), datagram);
                    }
                    _ => {}
                }
            }
        }
    }

    /// What has happened, in order.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn tell(&mut self, event: Event) {
        if !event.is_detail() || self.events.len() < MOST_EVENTS {
            self.events.push_back(event);
        }
    }

    /// A datagram from a state machine of this endpoint.
    fn produce(&mut self, now: Instant) -> Option<Datagram> {
        if let Some((id, datagram)) = self.outgoing.pop_front() {
            if let Some(machine) = id.and_then(|id| self.links.get_mut(&id)).map(|link| &mut link.machine)
                && let Some(wait) = machine.arm.take()
            {
                machine.deadline = Some(now.plus(wait));
            }
            return Some(datagram);
        }
        let mut from = self.turn;
        for _ in 0..self.links.len() {
            let next = self.links.range(from..).next().or_else(|| self.links.first_key_value());
            let id = *next?.0;
            from = id.wrapping_add(1);
            let Some(link) = self.links.get_mut(&id) else { continue };
            let Some(transport) = link.queue.as_mut().and_then(|queue| queue.poll_transmit(now)) else {
                continue;
            };
            let datagram = Datagram {
                source: link.local,
                destination: link.remote,
                source_port: source_port(&self.config),
                transport,
                icrc: Icrc::Good,
            };
            self.turn = from;
            self.collect(id);
            return Some(datagram);
        }
        None
    }

    /// Looks at a datagram that the interceptor let go on.
    fn take(&mut self, now: Instant, datagram: &Datagram) {
        let source = datagram.source;
        let drop = |fault| Event::Dropped { source, fault };
        if datagram.icrc == Icrc::Bad {
            return self.tell(drop(Fault::BadIcrc));
        }
        let packet = match Packet::parse(&datagram.transport) {
            Ok(packet) => packet,
            Err(stop) => return self.tell(drop(Fault::Malformed(stop))),
        };
        let destination = packet.bth.destination_qp;
        if destination == MANAGEMENT {
            return self.take_mad(datagram, &packet);
        }
        let link = self.queue_pairs.get(&destination.0).and_then(|id| Some((*id, self.links.get(id)?)));
        let Some((id, _)) =
            link.filter(|(_, link)| link.remote == source && link.local == datagram.destination)
        else {
            return self.tell(drop(Fault::UnknownQueuePair(destination)));
        };
        if matches!(link_state(&self.links, id), Some(State::ReplySent | State::ReplyAcknowledged)) {
            self.advance(id, Input::Packet, None);
        }
        let Some(link) = self.links.get_mut(&id) else { return };
        link.heard = now;
        if let Some(queue) = &mut link.queue {
            queue.handle(now, &packet);
            self.collect(id);
        }
    }

    /// Hands up what a queue pair tells.
    fn collect(&mut self, id: u32) {
        let connection = ConnectionId(id);
        let mut failed = false;
        if let Some(queue) = self.links.get_mut(&id).and_then(|link| link.queue.as_mut()) {
            while let Some(event) = queue.events.pop_front() {
                failed |= matches!(event, QueueEvent::Failed(_));
                let event = Event::Queue { connection, event };
                if !event.is_detail() || self.events.len() < MOST_EVENTS {
                    self.events.push_back(event);
                }
            }
        }
        if failed && !self.config.keep_failed {
            self.advance(id, Input::Disconnect, None);
        }
    }

    /// Puts a MAD into a datagram of queue pair 1.
    fn management_datagram(&mut self, local: IpAddr, remote: IpAddr, mad: &[u8]) -> Datagram {
        let bth = Bth {
            opcode: Opcode::UD_SEND_ONLY,
            partition_key: self.config.queue.partition_key,
            destination_qp: MANAGEMENT,
            acknowledge_request: true,
            psn: self.management_psn,
            ..Bth::default()
        };
        self.management_psn = self.management_psn.plus(1);
        let deth = Deth { queue_key: MANAGEMENT_QUEUE_KEY, source_qp: MANAGEMENT };
        let extensions = Extensions { deth: Some(deth), ..Extensions::default() };
        Datagram {
            source: local,
            destination: remote,
            source_port: source_port(&self.config),
            transport: Packet { bth, extensions, payload: mad }.build(),
            icrc: Icrc::Good,
        }
    }
}

fn link_state(links: &BTreeMap<u32, Link>, id: u32) -> Option<State> {
    links.get(&id).map(|link| link.machine.state)
}

fn source_port(config: &Config) -> u16 {
    if config.source_port == 0 { 0xc000 } else { config.source_port }
}
