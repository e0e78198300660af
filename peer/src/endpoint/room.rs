//! Which connection gives way to a new one where all places are taken.
//!
//! A remote side can be silent for ever: nothing that is outstanding need ever be acknowledged (a REQ may ask for no ACK timeout, and for RNR retries
//! without end), and IBTA volume 1 has no keep-alive. That costs a place only, until none is left.

use super::{ConnectionId, Endpoint, Event, Link, link_state};
use crate::cm::{Closed, Input, State};
use alloc::collections::BTreeMap;
use core::net::IpAddr;

impl Endpoint {
    /// Ends a connection in favour of a REQ from `source`, with a DREQ or a REJ that is sent once. Whether there was one to end.
    pub(super) fn make_room(&mut self, source: IpAddr) -> bool {
        let Some(id) = self.longest_silent().or_else(|| self.of_the_greediest(source)) else { return false };
        let connection = ConnectionId(id);
        self.advance(id, Input::Disconnect, None);
        // In the other states its end has been told.
        if link_state(&self.links, id) == Some(State::DisconnectSent) {
            self.tell(Event::Closed { connection, why: Closed::GaveWay });
        }
        self.abandon(connection);
        true
    }

    /// Connections that remote sides asked for.
    fn asked_for(&self) -> impl Iterator<Item = (u32, &Link)> {
        self.links.iter().filter(|(_, link)| link.requested.is_some()).map(|(id, link)| (*id, link))
    }

    /// The one that was silent longest, if that was long enough.
    fn longest_silent(&self) -> Option<u32> {
        let silent = self.asked_for().filter(|(_, link)| link.heard.plus(self.config.cm.silence) <= self.now);
        silent.min_by_key(|(id, link)| (link.heard, *id)).map(|(id, _)| id)
    }

    /// For an address that has no connection: the one that was silent longest of those of the address that has most.
    fn of_the_greediest(&self, source: IpAddr) -> Option<u32> {
        let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
        self.asked_for().for_each(|(_, link)| *counts.entry(link.remote).or_default() += 1);
        let (greediest, most) = counts.iter().max_by_key(|(_, count)| **count)?;
        if *most < 2 || counts.contains_key(&source) {
            return None;
        }
        let its = self.asked_for().filter(|(_, link)| link.remote == *greediest);
        its.min_by_key(|(id, link)| (link.heard, *id)).map(|(id, _)| id)
    }
}
