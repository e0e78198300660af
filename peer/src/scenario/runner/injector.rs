//! A runner on an endpoint.

use super::Runner;
use crate::endpoint::Endpoint;
use crate::packet::Datagram;
use crate::pair::End;
use crate::time::{Instant, earlier};

/// An endpoint and its runner, as one end of a [`Pair`](crate::pair::Pair) or a driver.
pub struct Injector {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// The runner.
    pub runner: Runner,
}

impl Injector {
    fn pump(&mut self, now: Instant) {
        while let Some(event) = self.endpoint.poll_event() {
            self.runner.handle(&mut self.endpoint, &event);
            self.runner.advance(now, &mut self.endpoint);
        }
        self.runner.advance(now, &mut self.endpoint);
    }
}

impl End for Injector {
    fn handle(&mut self, now: Instant, datagram: &Datagram) {
        self.endpoint.handle(now, datagram);
        self.pump(now);
    }

    fn handle_time(&mut self, now: Instant) {
        self.endpoint.handle_time(now);
        self.pump(now);
    }

    fn next_deadline(&self) -> Option<Instant> {
        earlier(self.endpoint.next_deadline(), self.runner.next_deadline())
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram> {
        self.pump(now);
        let datagram = self.endpoint.poll_transmit(now);
        self.pump(now);
        datagram
    }
}
