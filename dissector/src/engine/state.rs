//! The state of the engine between two records: its connections and open transactions.

use super::{Config, Engine};
use crate::connection::{Connection, ConnectionId};
use crate::exchange::Keep;
use crate::transaction::OpenTransaction;
use alloc::vec::Vec;

impl Engine {
    /// The connections that have a number and have not ended, in the order of their numbers. Each is as it would be reported if it ended
    /// now, without the packets that are held back.
    pub fn connections(&self) -> impl Iterator<Item = Connection> {
        let mut sessions: Vec<_> =
            self.sessions.all().filter(|session| session.peers.number().is_some()).collect();
        sessions.sort_by_key(|session| session.peers.number());
        sessions.into_iter().map(|session| session.summary())
    }

    /// How it works.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Reports every record as [`Event::Packet`](crate::event::Event::Packet) from now on, or none. Nothing else depends on it.
    pub fn report_packets(&mut self, reported: bool) {
        self.config.report_packets = reported;
    }

    /// From now on keeps this of each transaction that begins, and reports what each packet is to which step, or not: see [`Config::keep`]
    /// and [`Config::attribute`]. Transactions, connections and what is observed do not depend on it.
    pub fn look_closely(&mut self, keep: Keep, attribute: bool) {
        self.config.keep = keep;
        self.config.attribute = attribute;
        self.transactions.look_closely(keep, attribute);
    }

    /// A connection that has not ended.
    pub fn connection(&self, id: ConnectionId) -> Option<Connection> {
        let session = self.sessions.all().find(|session| session.peers.number() == Some(id))?;
        Some(session.summary())
    }

    /// Bytes of memory that a clone of the engine takes up, counted from how much its tables hold: what an allocator adds is not in it.
    pub fn footprint(&self) -> usize {
        size_of::<Engine>()
            + self.copies.footprint()
            + self.known.footprint()
            + self.sessions.footprint()
            + self.newcomers.footprint()
            + self.transactions.footprint()
    }

    /// The transactions that have begun and not ended, in the order in which they began.
    pub fn open_transactions(&self) -> impl Iterator<Item = OpenTransaction<'_>> {
        self.transactions.all_open(|session| Some(&self.sessions.get(session)?.peers))
    }
}
