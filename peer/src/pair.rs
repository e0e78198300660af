//! Two endpoints in memory, a network between them, and a clock that goes as fast as they do.

use crate::endpoint::Endpoint;
use crate::packet::{Datagram, Icrc};
use crate::random::Random;
use crate::time::{Instant, earlier};
use alloc::collections::BTreeMap;
use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

/// What a driver does with an end, whatever stands on it.
pub trait End {
    /// A datagram has come.
    fn handle(&mut self, now: Instant, datagram: &Datagram);
    /// Its deadline has come.
    fn handle_time(&mut self, now: Instant);
    /// When it wants to be told the time.
    fn next_deadline(&self) -> Option<Instant>;
    /// What it sends.
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

/// What a network does to datagrams: chances in a thousand, and the time that they are under way.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    /// Lost.
    pub loss: u32,
    /// Delivered twice.
    pub duplication: u32,
    /// A byte changed, so that the ICRC is wrong.
    pub corruption: u32,
    /// Held back for up to `jitter`, so that what comes later overtakes it.
    pub reordering: u32,
    /// The time that a datagram is under way.
    pub delay: Duration,
    /// The most that one of them is held back.
    pub jitter: Duration,
}

impl Network {
    /// Nothing is lost or changed, and everything takes 10 microseconds.
    pub const GOOD: Network = Network {
        loss: 0,
        duplication: 0,
        corruption: 0,
        reordering: 0,
        delay: Duration::from_micros(10),
        jitter: Duration::from_micros(200),
    };
}

/// Two ends and their network. Every run with the same seed is the same.
pub struct Pair<E = Endpoint> {
    /// One end.
    pub a: E,
    /// The other.
    pub b: E,
    /// The address of `a`: 192.0.2.1, and of `b`: 192.0.2.2.
    pub address_a: IpAddr,
    /// See `address_a`.
    pub address_b: IpAddr,
    /// What happens on the way.
    pub network: Network,
    /// The time.
    pub now: Instant,
    /// Datagrams that were sent.
    pub sent: u64,
    random: Random,
    under_way: BTreeMap<(Instant, u64), (bool, Datagram)>,
    number: u64,
}

impl<E: End> Pair<E> {
    /// The two with a good network between them.
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
            under_way: BTreeMap::new(),
            number: 0,
        }
    }

    /// Lets both ends send what they have, and delivers the next datagram or tells the next time. False where nothing is under
    /// way and nobody waits for anything.
    pub fn step(&mut self) -> bool {
        self.transmit();
        let arrival = self.under_way.first_key_value().map(|(key, _)| key.0);
        let deadline = earlier(self.a.next_deadline(), self.b.next_deadline());
        let Some(next) = earlier(arrival, deadline) else { return false };
        self.now = self.now.max(next);
        if deadline.is_some_and(|deadline| deadline <= self.now) {
            self.a.handle_time(self.now);
            self.b.handle_time(self.now);
        }
        while let Some(entry) = self.under_way.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let (to_b, datagram) = entry.remove();
            if to_b { self.b.handle(self.now, &datagram) } else { self.a.handle(self.now, &datagram) }
        }
        true
    }

    /// Goes on until nothing is under way and the next thing that anybody waits for is a second away: retransmissions are over
    /// by then, and what is left is the end of TimeWait.
    pub fn run(&mut self) {
        loop {
            self.transmit();
            let deadline = earlier(self.a.next_deadline(), self.b.next_deadline());
            let soon = deadline.is_some_and(|deadline| deadline.since(self.now) < Duration::from_secs(1));
            let busy = soon || !self.under_way.is_empty();
            if !busy || !self.step() {
                return;
            }
        }
    }

    /// Goes on until nobody waits for anything.
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
            self.under_way.insert((at, self.number), (to_b, datagram.clone()));
        }
    }
}
