//! Replacement of connections when all places are taken.
//!
//! A remote side may be silent forever: it may request no ACK timeout and unlimited RNR retries,
//! and IBTA volume 1 has no keep-alive. Such a connection costs only a place, which matters once
//! all places are taken.

use super::{ConnectionId, Endpoint, Event, Link, link_state};
use crate::cm::{Closed, Input, State};
use alloc::collections::BTreeMap;
use core::net::IpAddr;

impl Endpoint {
    /// Ends a connection in favor of a REQ from `source`, with a single DREQ or REJ. Returns
    /// whether there was one to end.
    pub(super) fn make_room(&mut self, source: IpAddr) -> bool {
        let Some(id) = self.longest_silent().or_else(|| self.longest_silent_of_busiest(source)) else {
            return false;
        };
        let connection = ConnectionId(id);
        self.advance(id, Input::Disconnect, None);
        // In the other states the end was already reported.
        if link_state(&self.links, id) == Some(State::DisconnectSent) {
            self.report(Event::Closed { connection, why: Closed::GaveWay });
        }
        self.abandon(connection);
        true
    }

    /// Returns the connections that remote sides requested.
    fn requested_remotely(&self) -> impl Iterator<Item = (u32, &Link)> {
        self.links.iter().filter(|(_, link)| link.requested.is_some()).map(|(id, link)| (*id, link))
    }

    /// Returns the connection that has been silent longest, if that is long enough.
    fn longest_silent(&self) -> Option<u32> {
        let silent = self
            .requested_remotely()
            .filter(|(_, link)| link.last_received.plus(self.config.cm.silence) <= self.now);
        silent.min_by_key(|(id, link)| (link.last_received, *id)).map(|(id, _)| id)
    }

    /// Returns the longest silent connection of the address with most connections, if `source` has
    /// none.
    fn longest_silent_of_busiest(&self, source: IpAddr) -> Option<u32> {
        let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
        self.requested_remotely().for_each(|(_, link)| *counts.entry(link.remote).or_default() += 1);
        let (busiest, most) = counts.iter().max_by_key(|(_, count)| **count)?;
        if *most < 2 || counts.contains_key(&source) {
            return None;
        }
        let its = self.requested_remotely().filter(|(_, link)| link.remote == *busiest);
        its.min_by_key(|(id, link)| (link.last_received, *id)).map(|(id, _)| id)
    }
}
