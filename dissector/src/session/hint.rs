//! A kernel's report of a connection: whether packets fit it, and how a session uses it.

use super::Session;
use crate::connection::{Evidence, FlowKey, KnownConnection, KnownEnd, Origin};
use crate::rc::Packet;
use crate::rdma::End;
use rdmascope_wire::psn::Psn;

/// A reported connection, and one of its half-flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hint {
    pub(crate) connection: KnownConnection,
    /// Whether the half-flow is the one that the local end sends.
    pub(crate) from_local: bool,
}

impl Hint {
    fn ends(&self) -> (KnownEnd, KnownEnd) {
        let KnownConnection { local, remote, .. } = self.connection;
        if self.from_local { (local, remote) } else { (remote, local) }
    }

    /// The key of the half-flow.
    pub(crate) fn flow(&self) -> FlowKey {
        let (from, to) = self.ends();
        FlowKey { source: from.address, destination: to.address, destination_qp: to.qpn }
    }

    /// The other half-flow of the connection.
    pub(crate) fn other(&self) -> Hint {
        Hint { from_local: !self.from_local, ..*self }
    }

    /// Whether a packet of the half-flow may belong to the reported connection.
    pub(crate) fn fits(&self, packet: &Packet<'_>) -> bool {
        let (from, to) = self.ends();
        // A response carries the PSN of a request of the other end.
        let expected = if packet.operation.is_response() { to.next_psn } else { from.next_psn };
        expected.is_none_or(|expected| is_near(expected, packet.psn))
    }
}

/// Whether a PSN is plausible if `expected` was the next PSN to send: slightly lower for a
/// retransmission, or higher by the packets that a fast link sends while a capture starts (1 GiB at
/// a path MTU of 4096). A reused queue pair starts in this range with a probability of 1 in 51.
fn is_near(expected: Psn, psn: Psn) -> bool {
    const BEFORE: i32 = 1 << 16;
    const AFTER: i32 = 1 << 18;
    (-BEFORE..AFTER).contains(&expected.distance(psn))
}

impl Session {
    /// Adopts a kernel's report.
    pub(crate) fn adopt_hint(&mut self, hint: Hint) {
        let KnownConnection { local_is_requester, port, speaks_rpc, is_snooped, .. } = hint.connection;
        self.origin = if is_snooped { Origin::Snoop } else { Origin::Kernel };
        self.peers.is_snooped = is_snooped;
        self.port = port;
        let requester = |local| if local == hint.from_local { End::First } else { End::Second };
        self.peers.requester = local_is_requester.map(requester);
        self.peers.speaks_rpc = self.peers.speaks_rpc.or(speaks_rpc.then_some(true));
        self.hint = Some(hint);
    }

    /// Withdraws the report. Only the first half-flow stays. Returns both.
    pub(crate) fn withdraw_hint(&mut self) -> [Option<FlowKey>; 2] {
        let flows = self.peers.flows;
        let had_hint = self.hint.take().is_some_and(|hint| hint.connection.local_is_requester.is_some());
        if had_hint {
            self.peers.requester = None;
        }
        self.origin = Origin::Inferred(Evidence::default());
        self.peers.is_snooped = false;
        self.port = None;
        self.peers.flows[End::Second] = None;
        self.peers.paired = false;
        self.ends[End::First].qpn = None;
        flows
    }
}
