//! Settings that the same two ends negotiated on an earlier connection, and the key for a pair of
//! ends.

use super::bounded;
use super::known::Known;
use rdmascope_dissector::connection::{Connection, ConnectionId};
use rdmascope_dissector::frame::Address;
use rdmascope_dissector::transaction::Direction;
use rdmascope_wire::private_data::Negotiated;

/// The last connection of each pair of ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reconnections(bounded::Map<Ends, Settings>);

/// The address of the end that opened the connection, that of the other end, and the port.
type Ends = (Address, Address, Option<u16>);

/// The two ends of the calls of one direction: addresses if known, else the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Hosts(Address, Address, Direction),
    Connection(ConnectionId, Direction),
}

impl Known {
    /// The two ends of the calls of this direction.
    pub(crate) fn place(&self, direction: Direction) -> Place {
        match &self.established {
            Some(known) => Place::Hosts(known.requester.address, known.responder.address, direction),
            None => Place::Connection(self.connection, direction),
        }
    }
}

/// Settings that two ends negotiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Their connection.
    pub connection: ConnectionId,
    /// The frame of its REP.
    pub frame: u64,
    /// The result of the private data of both.
    pub negotiated: Negotiated,
}

impl Reconnections {
    /// Pairs of ends that are kept.
    const MOST: usize = 1024;

    /// Heap bytes that its lists take up.
    pub(crate) fn footprint(&self) -> usize {
        self.0.footprint()
    }

    /// Records the settings of two ends once they are known, and returns those of their last
    /// connection.
    pub(crate) fn note(
        &mut self,
        connection: &Connection,
        (frame, negotiated): (u64, Negotiated),
    ) -> Option<Settings> {
        let ends = (connection.requester.address, connection.responder.address, connection.port);
        let settings = Settings { connection: connection.id, frame, negotiated };
        if self.0.get(&ends).is_some_and(|last| last.connection == connection.id) {
            return None;
        }
        self.0.insert(Reconnections::MOST, ends, settings)
    }
}
