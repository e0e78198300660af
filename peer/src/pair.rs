//! Two ends in memory, with a simulated network and clock.

use crate::endpoint::Endpoint;
use crate::packet::{Datagram, Icrc};
use crate::random::Random;
use crate::time::{Instant, earlier};
use alloc::collections::BTreeMap;
use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

/// The interface between a driver and an end of any layer.
pub trait End {
    /// Handles a received datagram.
    fn handle(&mut self, now: Instant, datagram: &Datagram);
    /// Handles the passing of a deadline.
    fn handle_time(&mut self, now: Instant);
    /// Returns the next time at which to call [`handle_time`](End::handle_time).
    fn next_deadline(&self) -> Option<Instant>;
    /// Returns the next datagram to send.
    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram>;
}

impl End for Endpoint {
    fn handle(&mut self, now: Instant, datagram: &Datagram) {
        Endpoint::handle(self, now, datagram);
    }

    fn handle_time(&mut self, now: Instant) {
        Endpoint::handle_time(self, now);
    }

    fn next_deadline(&self) -> Option<Instant> {
        Endpoint::next_deadline(self)
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram> {
        Endpoint::poll_transmit(self, now)
    }
}

/// The behavior of a network: probabilities per thousand, and delays.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    /// Datagrams lost.
    pub loss: u32,
    /// Datagrams delivered twice.
    pub duplication: u32,
    /// Datagrams with a changed byte, and therefore a bad ICRC.
    pub corruption: u32,
    /// Datagrams delayed by up to `jitter`, so that later ones overtake them.
    pub reordering: u32,
    /// The delay of every datagram.
    pub delay: Duration,
    /// The longest additional delay.
    pub jitter: Duration,
}

impl Network {
    /// No loss or change, and a delay of 10 microseconds.
    pub const GOOD: Network = Network {
        loss: 0,
        duplication: 0,
        corruption: 0,
        reordering: 0,
        delay: Duration::from_micros(10),
        jitter: Duration::from_micros(200),
    };
}

/// Two ends and their network. Runs with the same seed are identical.
///
/// ```
/// use core::net::IpAddr;
/// use rdmascope_peer::endpoint::{Config, Connect, Endpoint, Event};
/// use rdmascope_peer::pair::Pair;
/// use rdmascope_peer::rc::Send;
///
/// // Two endpoints in memory. A driver does the same with sockets.
/// let (a, b) = (Endpoint::new(Config::default(), 1), Endpoint::new(Config::default(), 2));
/// let mut pair = Pair::new(a, b, 3);
/// pair.b.listen(20049);
/// let to: IpAddr = pair.address_b;
/// let connection = pair.a.connect(Connect::new(pair.address_a, to, 20049)).unwrap();
/// pair.run();
/// let Some(Event::Requested { connection: theirs, .. }) = pair.b.poll_event() else { panic!() };
/// pair.b.accept(theirs, b"").unwrap();
/// pair.b.post_receive(theirs, 4096).unwrap();
/// pair.run();
/// assert!(matches!(pair.a.poll_event(), Some(Event::Replied { .. })));
/// assert!(matches!(pair.a.poll_event(), Some(Event::Connected { .. })));
/// pair.a.send(connection, Send { bytes: b"hello".to_vec(), ..Send::default() }).unwrap();
/// pair.run();
/// ```
pub struct Pair<E = Endpoint> {
    /// One end.
    pub a: E,
    /// The other end.
    pub b: E,
    /// The address of `a`: 192.0.2.1.
    pub address_a: IpAddr,
    /// The address of `b`: 192.0.2.2.
    pub address_b: IpAddr,
    /// The network.
    pub network: Network,
    /// The current time.
    pub now: Instant,
    /// Number of datagrams sent.
    pub sent: u64,
    random: Random,
    in_flight: BTreeMap<(Instant, u64), (bool, Datagram)>,
    number: u64,
}

impl<E: End> Pair<E> {
    /// Connects two ends by a good network.
    pub fn new(a: E, b: E, seed: u64) -> Pair<E> {
        Pair {
            a,
            b,
            address_a: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
            address_b: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)),
            network: Network::GOOD,
            now: Instant(0),
            sent: 0,
            random: Random::new(seed),
            in_flight: BTreeMap::new(),
            number: 0,
        }
    }

    /// Sends all pending datagrams, then delivers the next datagram or advances to the next
    /// deadline. Returns false if no datagram is in flight and no deadline is set.
    pub fn step(&mut self) -> bool {
        self.transmit();
        let arrival = self.in_flight.first_key_value().map(|(key, _)| key.0);
        let deadline = earlier(self.a.next_deadline(), self.b.next_deadline());
        let Some(next) = earlier(arrival, deadline) else { return false };
        self.now = self.now.max(next);
        if deadline.is_some_and(|deadline| deadline <= self.now) {
            self.a.handle_time(self.now);
            self.b.handle_time(self.now);
        }
        while let Some(entry) = self.in_flight.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let (to_b, datagram) = entry.remove();
            if to_b { self.b.handle(self.now, &datagram) } else { self.a.handle(self.now, &datagram) }
        }
        true
    }

    /// Runs until no datagram is in flight and the next deadline is at least a second away. By then
    /// all retransmissions are done, and only TimeWait is left.
    pub fn run(&mut self) {
        loop {
            self.transmit();
            let deadline = earlier(self.a.next_deadline(), self.b.next_deadline());
            let soon = deadline.is_some_and(|deadline| deadline.since(self.now) < Duration::from_secs(1));
            let busy = soon || !self.in_flight.is_empty();
            if !busy || !self.step() {
                return;
            }
        }
    }

    /// Runs until no datagram is in flight and no deadline is set.
    pub fn run_to_end(&mut self) {
        while self.step() {}
    }

    fn transmit(&mut self) {
        while let Some(datagram) = self.a.poll_transmit(self.now) {
            self.carry(true, datagram);
        }
        while let Some(datagram) = self.b.poll_transmit(self.now) {
            self.carry(false, datagram);
        }
    }

    fn carry(&mut self, to_b: bool, mut datagram: Datagram) {
        self.sent += 1;
        let (network, random) = (self.network, &mut self.random);
        if random.chance(network.loss) {
            return;
        }
        if random.chance(network.corruption) && !datagram.transport.is_empty() {
            let at = random.below(datagram.transport.len() as u64) as usize;
            datagram.transport[at] ^= 1 << random.below(8);
            datagram.icrc = Icrc::Bad;
        }
        let copies = if random.chance(network.duplication) { 2 } else { 1 };
        for _ in 0..copies {
            let jitter = u64::try_from(network.jitter.as_nanos()).unwrap_or(u64::MAX);
            let held = if random.chance(network.reordering) { random.below(jitter) } else { 0 };
            self.number += 1;
            let at = self.now.plus(network.delay).plus(Duration::from_nanos(held));
            self.in_flight.insert((at, self.number), (to_b, datagram.clone()));
        }
    }
}
