//! Two half-flows become one connection.

use super::{Session, SessionEnd};
use crate::connection::{Evidence, Origin, State};
use crate::rc::Packet;
use crate::rdma::End;
use crate::rpcrdma::{Peers, reply_xid};
use rdmascope_wire::bth::PacketPosition;

impl Session {
    /// What of a packet from the other end shows that it belongs to this connection, of which end `side` is known.
    pub(crate) fn evidence(&self, side: End, packet: &Packet<'_>) -> Option<Evidence> {
        let none = Evidence::default();
        if packet.operation.is_response() {
            let matches = self.rc.fits(side, packet);
            return matches.then_some(Evidence { acknowledged_psn: true, ..none });
        }
        let side = &self.peers.sides[side];
        if let Some(reth) = packet.extension.reth() {
            let matches = side.memory().advertises(reth.rkey, reth.virtual_address);
            return matches.then_some(Evidence { rkey: true, ..none });
        }
        let begins = packet.operation.is_send()
            && matches!(packet.operation.position(), PacketPosition::First | PacketPosition::Only);
        let matches = begins && reply_xid(packet.payload).is_some_and(|xid| side.awaits(xid));
        matches.then_some(Evidence { xid: true, ..none })
    }

    /// Takes over the known end of `other` as the end that was unknown here.
    pub(crate) fn join(&mut self, mut other: Session, evidence: Evidence) {
        let (side, from) = (self.known_side().other(), other.known_side());
        let requester = other.peers.requester.map(|end| if end == from { side } else { side.other() });
        let caller = other.peers.caller.map(|end| if end == from { side } else { side.other() });
        let Peers { sides, flows, missing_packets, reported, speaks_rpc, protocol, .. } = other.peers;
        let [first, second] = sides;
        let [end, far_end] = other.ends;
        let (end, far_end, joined, far_joined) =
            if from == End::First { (end, far_end, first, second) } else { (far_end, end, second, first) };
        let (known, name) = (self.ends[side].private_data, self.ends[side].communication_id);
        self.rc.take(side, &mut other.rc, from);
        if let Some(attribution) = other.attribution {
            self.attribution.get_or_insert_default().join(side, *attribution, from);
        }
        self.ends[side] = SessionEnd {
            private_data: end.private_data.or(known),
            communication_id: name.or(end.communication_id),
            ip: self.ends[side].ip.or(end.ip),
            ..end
        };
        self.peers.flows[side] = flows[from];
        let name = self.ends[side.other()].communication_id;
        self.ends[side.other()].communication_id = name.or(far_end.communication_id);
        self.ends[side.other()].private_data = self.ends[side.other()].private_data.or(far_end.private_data);
        self.ends[side.other()].qpn = self.peers.flows[side].map(|flow| flow.destination_qp);
        self.ends[side].qpn = self.peers.flows[side.other()].map(|flow| flow.destination_qp);
        // What an end has open may have been noted before any packet of it was seen: replies that it is to pull.
        let noted = core::mem::replace(&mut self.peers.sides[side], joined);
        self.peers.sides[side].absorb(noted);
        self.peers.sides[side.other()].absorb(far_joined);
        self.peers.missing_packets += missing_packets;
        self.peers.reported[0] += reported[0];
        self.peers.reported[1] += reported[1];
        self.peers.speaks_rpc = self.peers.speaks_rpc.or(speaks_rpc);
        self.peers.protocol = self.peers.protocol.or(protocol);
        self.peers.requester = self.peers.requester.or(requester);
        self.peers.caller = self.peers.caller.or(caller);
        self.peers.paired = true;
        // What one of them was not told of is told to both again.
        self.dropped = self.dropped.min(other.dropped);
        self.span = (self.span.0.min(other.span.0), self.span.1.max(other.span.1));
        if let Origin::Inferred(_) = self.origin {
            self.origin = Origin::Inferred(evidence);
        }
        if self.state == State::Requested {
            self.state = State::Open;
        }
    }
}
