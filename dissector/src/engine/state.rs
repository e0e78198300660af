//! The state of the engine between two records: connections and open transactions.

use super::{Config, Engine};
use crate::connection::{Connection, ConnectionId};
use crate::exchange::Keep;
use crate::transaction::OpenTransaction;
use alloc::vec::Vec;

impl Engine {
    /// The open connections that have a number, in the order of their numbers. Each is as it would
    /// be reported if it ended now, without the packets that are held back.
    pub fn connections(&self) -> impl Iterator<Item = Connection> {
        let mut sessions: Vec<_> =
            self.sessions.all().filter(|session| session.peers.number().is_some()).collect();
        sessions.sort_by_key(|session| session.peers.number());
        sessions.into_iter().map(|session| session.summary())
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Turns [`Event::Packet`](crate::event::Event::Packet) on or off. Other events do not depend
    /// on it.
    pub fn report_packets(&mut self, reported: bool) {
        self.config.report_packets = reported;
    }

    /// Changes [`Config::keep`], for the transactions that begin from now on, and
    /// [`Config::attribute`]. Transactions, connections and observations do not depend on them.
    pub fn look_closely(&mut self, keep: Keep, attribute: bool) {
        self.config.keep = keep;
        self.config.attribute = attribute;
        self.transactions.look_closely(keep, attribute);
    }

    /// The open connection with this number.
    pub fn connection(&self, id: ConnectionId) -> Option<Connection> {
        let session = self.sessions.all().find(|session| session.peers.number() == Some(id))?;
        Some(session.summary())
    }

    /// Bytes of memory that a clone of the engine uses, from the sizes of its tables, without the
    /// overhead of an allocator.
    pub fn footprint(&self) -> usize {
        size_of::<Engine>()
            + self.copies.footprint()
            + self.known.footprint()
            + self.sessions.footprint()
            + self.newcomers.footprint()
            + self.transactions.footprint()
    }

    /// The open transactions, in the order in which they began.
    pub fn open_transactions(&self) -> impl Iterator<Item = OpenTransaction<'_>> {
        self.transactions.all_open(|session| Some(&self.sessions.get(session)?.peers))
    }
}
