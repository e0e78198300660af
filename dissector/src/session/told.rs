//! What the kernel of a host told of a connection, whether its packets are those that were meant, and what a session makes of it.

use super::Session;
use crate::connection::{Evidence, FlowKey, KnownConnection, KnownEnd, Origin};
use crate::rc::Packet;
use crate::rdma::End;
use rdmascope_wire::psn::Psn;

/// A connection, and which half-flow of it is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) connection: KnownConnection,
    /// The half-flow that the local end sends.
    pub(crate) from_local: bool,
}

impl Told {
    fn ends(&self) -> (KnownEnd, KnownEnd) {
        let KnownConnection { local, remote, .. } = self.connection;
        if self.from_local { (local, remote) } else { (remote, local) }
    }

    /// The half-flow.
    pub(crate) fn flow(&self) -> FlowKey {
        let (from, to) = self.ends();
        FlowKey { source: from.address, destination: to.address, destination_qp: to.qpn }
    }

    /// The other half-flow.
    pub(crate) fn other(&self) -> Told {
        Told { from_local: !self.from_local, ..*self }
    }

    /// Whether a packet of the half-flow may be one of those that the kernel meant.
    pub(crate) fn fits(&self, packet: &Packet<'_>) -> bool {
        let (from, to) = self.ends();
        // A response has the PSN of a request of the other end.
        let expected = if packet.operation.is_response() { to.next_psn } else { from.next_psn };
        expected.is_none_or(|expected| is_near(expected, packet.psn))
    }
}

/// Whether a packet with this PSN may be seen where `expected` was to be sent next: a little before, where it is sent again, or as far behind as
/// a fast link comes while a capture starts: 1 GiB at a path MTU of 4096. Of queue pairs that were used again, one in 51 begins there.
fn is_near(expected: Psn, psn: Psn) -> bool {
    const BEFORE: i32 = 1 << 16;
    const BEHIND: i32 = 1 << 18;
    (-BEFORE..BEHIND).contains(&expected.distance(psn))
}

impl Session {
    /// Takes in what the kernel told of it.
    pub(crate) fn know(&mut self, told: Told) {
        let KnownConnection { local_is_requester, port, speaks_rpc, .. } = told.connection;
        self.origin = Origin::Kernel;
        self.port = port;
        let requester = |local| if local == told.from_local { End::First } else { End::Second };
        self.peers.requester = local_is_requester.map(requester);
        self.peers.speaks_rpc = self.peers.speaks_rpc.or(speaks_rpc.then_some(true));
        self.told = Some(told);
    }

    /// Takes it back; returns the half-flows that there were, of which only the first stays.
    pub(crate) fn unknow(&mut self) -> [Option<FlowKey>; 2] {
        let flows = self.peers.flows;
        let was_told = self.told.take().is_some_and(|told| told.connection.local_is_requester.is_some());
        if was_told {
            self.peers.requester = None;
        }
        self.origin = Origin::Inferred(Evidence::default());
        self.port = None;
        self.peers.flows[End::Second] = None;
        self.peers.paired = false;
        self.ends[End::First].qpn = None;
        flows
    }
}
