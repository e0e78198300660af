//! An endpoint with its connections and their queue pairs.
//!
//! A driver calls:
//!
//! | method | when |
//! |---|---|
//! | [`handle`](Endpoint::handle) | a datagram was received |
//! | [`handle_time`](Endpoint::handle_time) | [`next_deadline`](Endpoint::next_deadline) has passed
//! |
//! | [`poll_transmit`](Endpoint::poll_transmit) | after any other call, until it returns `None` |
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

/// Most connections of an endpoint, including those in TimeWait.
///
/// When all places are taken, a REQ replaces the connection that has been silent longest, if that
/// is at least [`cm::Config::silence`]. Otherwise, if its sender has no connection, it replaces the
/// longest silent one of the remote address with most connections. Only connections requested by
/// remote sides are replaced. Otherwise the REQ is rejected.
pub const MOST_CONNECTIONS: usize = 1024;
/// Most ports to listen on.
pub const MOST_LISTENERS: usize = 64;
/// Most datagrams that are queued or delayed.
pub const MOST_DATAGRAMS: usize = 65_536;
/// Most pending events; faults beyond that are not reported.
pub const MOST_EVENTS: usize = 65_536;
/// The Q_Key of queue pair 1 (IBTA volume 1, section 3.5.3).
pub const MANAGEMENT_QUEUE_KEY: u32 = 0x8001_0000;
/// The queue pair of connection management.
const MANAGEMENT: Qpn = Qpn(1);

/// The configuration of an endpoint.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The GUID of its channel adapter.
    pub guid: u64,
    /// The configuration of connection management.
    pub cm: cm::Config,
    /// The configuration of queue pairs.
    pub queue: rc::Config,
    /// The UDP source port; 0 means 0xc000.
    pub source_port: u16,
    /// The first PSN that queue pairs expect; `None`: random.
    pub starting_psn: Option<Psn>,
    /// Does not answer a REP with an RTU automatically; [`Endpoint::confirm`] does.
    pub confirm_by_hand: bool,
}

/// The identifier of a connection: its local communication ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u32);

/// An event of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A REQ arrived for an open port. It waits for `accept`, `acknowledge` or `reject`.
    Requested {
        /// The new connection.
        connection: ConnectionId,
        /// The sender.
        remote: IpAddr,
        /// The requested port.
        port: u16,
        /// The private data after the header of the RDMA connection manager.
        private_data: Vec<u8>,
    },
    /// A REP arrived.
    Replied {
        /// The connection.
        connection: ConnectionId,
        /// The REP without its private data; `None` if a device does not expose it.
        reply: Option<Reply<'static>>,
        /// Its private data.
        private_data: Vec<u8>,
    },
    /// The connection is established.
    Connected {
        /// The connection.
        connection: ConnectionId,
    },
    /// The connection ended, or was never established.
    Closed {
        /// The connection.
        connection: ConnectionId,
        /// The reason.
        why: Closed,
    },
    /// An event of a queue pair.
    Queue {
        /// The connection.
        connection: ConnectionId,
        /// The event.
        event: QueueEvent,
    },
    /// A CM message or command that the state of the connection does not allow. It was ignored.
    Unexpected {
        /// The connection, if there is one.
        connection: Option<ConnectionId>,
        /// The message or command.
        input: Input,
        /// The state; [`State::Idle`] without a connection.
        state: State,
    },
    /// A datagram that belongs to no connection was dropped.
    Dropped {
        /// The sender.
        source: IpAddr,
        /// The fault.
        fault: Fault,
    },
}

impl Event {
    /// Returns whether the network can cause any number of such events, which can be dropped
    /// without other consequences.
    pub const fn is_detail(&self) -> bool {
        match self {
            Event::Dropped { .. } | Event::Unexpected { .. } => true,
            Event::Queue { event, .. } => event.is_detail(),
            _ => false,
        }
    }
}

/// A connection in any state.
#[derive(Clone, Debug)]
struct Link {
    machine: Machine,
    /// The local and the remote address.
    local: IpAddr,
    remote: IpAddr,
    /// The number of its queue pair, and the first PSN that it expects.
    qpn: Qpn,
    starting_psn: Psn,
    queue: Option<QueuePair>,
    /// The proposed, later the negotiated configuration.
    config: rc::Config,
    /// The contents of the REQ, on the passive side.
    requested: Option<management::Requested>,
    /// The time of the last packet of the remote side.
    last_received: Instant,
}

/// An endpoint. See the [module](self).
pub struct Endpoint {
    config: Config,
    random: Random,
    links: BTreeMap<u32, Link>,
    queue_pairs: BTreeMap<u32, u32>,
    listeners: BTreeSet<ServiceId>,
    events: VecDeque<Event>,
    /// Datagrams before the interceptor, with the connection whose timer starts when one is sent.
    outgoing: VecDeque<(Option<u32>, Datagram)>,
    /// Datagrams after the interceptor.
    ready: VecDeque<Datagram>,
    /// Datagrams that the interceptor delays, sent and received, by the time at which they
    /// continue.
    delayed_out: BTreeMap<(Instant, u64), Datagram>,
    delayed_in: BTreeMap<(Instant, u64), Datagram>,
    delayed: u64,
    interceptor: Option<Box<dyn Interceptor>>,
    /// The PSN of the next datagram of queue pair 1.
    management_psn: Psn,
    /// The connection from which the search for the next sender starts.
    turn: u32,
    works: u64,
    /// The latest time from the driver.
    now: Instant,
}

impl Endpoint {
    /// Creates an endpoint without connections. The same seed and calls give the same datagrams.
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

    /// Sets the interceptor of all datagrams from now on.
    pub fn intercept(&mut self, interceptor: Option<Box<dyn Interceptor>>) {
        self.interceptor = interceptor;
    }

    /// Handles a received datagram.
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

    /// Handles everything that is due at `now`: retransmissions, timeouts, and delayed datagrams.
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

    /// Returns the next time at which [`handle_time`](Endpoint::handle_time) or
    /// [`poll_transmit`](Endpoint::poll_transmit) has work.
    pub fn next_deadline(&self) -> Option<Instant> {
        let due =
            |delayed: &BTreeMap<(Instant, u64), Datagram>| delayed.first_key_value().map(|(key, _)| key.0);
        let queues = self.links.values().filter_map(|link| link.queue.as_ref()?.next_deadline());
        let machines = self.links.values().filter_map(|link| link.machine.deadline);
        let first = queues.chain(machines).min();
        earlier(first, earlier(due(&self.delayed_in), due(&self.delayed_out)))
    }

    /// Returns the next datagram to send at `now`. `None`: nothing to send before the next event or
    /// deadline.
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

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn report(&mut self, event: Event) {
        if !event.is_detail() || self.events.len() < MOST_EVENTS {
            self.events.push_back(event);
        }
    }

    /// Returns a datagram from a state machine.
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

    /// Processes a datagram that the interceptor passed.
    fn take(&mut self, now: Instant, datagram: &Datagram) {
        let source = datagram.source;
        let drop = |fault| Event::Dropped { source, fault };
        if datagram.icrc == Icrc::Bad {
            return self.report(drop(Fault::BadIcrc));
        }
        let packet = match Packet::parse(&datagram.transport) {
            Ok(packet) => packet,
            Err(stop) => return self.report(drop(Fault::Malformed(stop))),
        };
        let destination = packet.bth.destination_qp;
        if destination == MANAGEMENT {
            return self.take_mad(datagram, &packet);
        }
        let link = self.queue_pairs.get(&destination.0).and_then(|id| Some((*id, self.links.get(id)?)));
        let Some((id, _)) =
            link.filter(|(_, link)| link.remote == source && link.local == datagram.destination)
        else {
            return self.report(drop(Fault::UnknownQueuePair(destination)));
        };
        if matches!(link_state(&self.links, id), Some(State::ReplySent | State::ReplyAcknowledged)) {
            self.advance(id, Input::Packet, None);
        }
        let Some(link) = self.links.get_mut(&id) else { return };
        link.last_received = now;
        if let Some(queue) = &mut link.queue {
            queue.handle(now, &packet);
            self.collect(id);
        }
    }

    /// Takes the events of a queue pair.
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
        if failed {
            self.advance(id, Input::Disconnect, None);
        }
    }

    /// Builds a datagram of queue pair 1 for a MAD.
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
