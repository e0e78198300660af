//! Settings that the same two ends negotiated on an earlier connection, and the keys for a pair of
//! ends.

use super::bounded;
use super::known::Known;
use rdmascope_dissector::connection::{Connection, ConnectionId, Networks};
use rdmascope_dissector::frame::Address;
use rdmascope_dissector::transaction::Direction;
use rdmascope_wire::private_data::Negotiated;

/// The last connection of each pair of ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reconnections(bounded::Map<Ends, Settings>);

/// The networks of the connections to each address.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostNetworks(bounded::Map<Address, Networks>);

impl HostNetworks {
    /// Addresses that are kept.
    const MOST: usize = 1024;

    /// The number of the network of a connection, among those to the same address.
    pub(crate) fn note(&mut self, connection: &Connection) -> u32 {
        self.0.or_default(HostNetworks::MOST, connection.responder.address).note(connection.contexts())
    }

    /// Heap bytes that its lists take up.
    pub(crate) fn footprint(&self) -> usize {
        self.0.footprint() + self.0.values().map(Networks::footprint).sum::<usize>()
    }
}

/// The address of the end that opened the connection, that of the other end, the number of their
/// network, and the port.
type Ends = (Address, Address, u32, Option<u16>);

/// The two ends of the calls of one direction: addresses and network if known, else the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Hosts(Address, Address, u32, Direction),
    Connection(ConnectionId, Direction),
}

impl Known {
    /// The two ends of the calls of this direction.
    pub(crate) fn place(&self, direction: Direction) -> Place {
        match &self.established {
            Some(known) => {
                Place::Hosts(known.requester.address, known.responder.address, self.network, direction)
            }
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
        network: u32,
        (frame, negotiated): (u64, Negotiated),
    ) -> Option<Settings> {
        let ends = (connection.requester.address, connection.responder.address, network, connection.port);
        let settings = Settings { connection: connection.id, frame, negotiated };
        if self.0.get(&ends).is_some_and(|last| last.connection == connection.id) {
            return None;
        }
        self.0.insert(Reconnections::MOST, ends, settings)
    }
}
