//! The pairing of two half-flows into one connection.

use super::{Session, SessionEnd};
use crate::connection::{Evidence, FirstFrames, Origin, State};
use crate::rc::Packet;
use crate::rdma::End;
use crate::record::{REORDERING, Time};
use crate::rpcrdma::{Peers, reply_xid};
use rdmascope_wire::psn::Psn;

impl Session {
    /// The evidence in a packet that it comes from the unknown end of this connection. `side` is
    /// the known end; `since` is the time of the first packet of the other half-flow.
    pub(crate) fn evidence(&self, side: End, packet: &Packet<'_>, since: Time) -> Option<Evidence> {
        let none = Evidence::default();
        if packet.operation.is_response() {
            let is_new = self.span.0 <= since;
            let matches = self.transport.fits(side, packet, is_new);
            return matches.then_some(Evidence { acknowledged_psn: true, ..none });
        }
        let side = &self.peers.sides[side];
        if let Some(reth) = packet.extension.reth() {
            let matches = side.memory().advertises(reth.rkey, reth.virtual_address);
            return matches.then_some(Evidence { rkey: true, ..none });
        }
        let begins = packet.operation.is_send() && packet.operation.begins_message();
        let matches = begins && reply_xid(packet.payload).is_some_and(|xid| side.awaits(xid));
        matches.then_some(Evidence { xid: true, ..none })
    }

    /// Whether this is the half-flow that a REP announces `now`: the capture shows its first packets,
    /// from the PSN `first` on, shortly before the REP.
    pub(crate) fn is_announced(&self, first: Psn, now: Time) -> bool {
        !self.peers.paired
            && matches!(self.origin, Origin::Inferred(_))
            && now.since(self.span.0) <= REORDERING.0
            && self.transport.begins_at(self.known_side(), first)
    }

    /// Takes over the known end of `other` as the unknown end of this connection.
    pub(crate) fn join(&mut self, mut other: Session, evidence: Evidence) {
        let (side, from) = (self.known_side().other(), other.known_side());
        let requester = other.peers.requester.map(|end| if end == from { side } else { side.other() });
        let caller = other.peers.caller.map(|end| if end == from { side } else { side.other() });
        let Peers {
            sides,
            flows,
            flights,
            missing_packets,
            unseen,
            reported,
            speaks_rpc,
            saw_other,
            protocol,
            ..
        } = other.peers;
        self.peers.flights[side] = flights[from].clone();
        let [first, second] = sides;
        let [end, far_end] = other.ends;
        let (end, far_end, joined, far_joined) =
            if from == End::First { (end, far_end, first, second) } else { (far_end, end, second, first) };
        self.transport.take(side, &mut other.transport, from);
        if let Some(attribution) = other.attribution {
            self.attribution.get_or_insert_default().join(side, *attribution, from);
        }
        // CM messages also name the other end, so each connection may have parameters of both ends.
        self.ends[side].absorb(&end);
        self.ends[side.other()].absorb(&far_end);
        let hint = &self.ends[side];
        self.ends[side] = SessionEnd {
            private_data: hint.private_data,
            private_data_cut: hint.private_data_cut,
            communication_id: hint.communication_id,
            ip: hint.ip,
            first_frames: FirstFrames {
                cm_message: hint.first_frames.cm_message,
                reject: hint.first_frames.reject,
                ..end.first_frames
            },
            ..end
        };
        self.peers.flows[side] = flows[from];
        self.peers.ips = End::BOTH.map(|end| self.ends[end].ip);
        self.ends[side.other()].qpn = self.peers.flows[side].map(|flow| flow.destination_qp);
        self.ends[side].qpn = self.peers.flows[side.other()].map(|flow| flow.destination_qp);
        // Open operations of an end may be noted before any packet of it was seen: replies that it
        // has to pull.
        let noted = core::mem::replace(&mut self.peers.sides[side], joined);
        self.peers.sides[side].absorb(noted);
        self.peers.sides[side.other()].absorb(far_joined);
        self.peers.missing_packets += missing_packets;
        self.peers.unseen += unseen;
        self.peers.reported[0] += reported[0];
        self.peers.reported[1] += reported[1];
        self.peers.speaks_rpc = self.peers.speaks_rpc.or(speaks_rpc);
        self.peers.saw_other |= saw_other;
        self.peers.protocol = self.peers.protocol.or(protocol);
        self.peers.requester = self.peers.requester.or(requester);
        self.peers.caller = self.peers.caller.or(caller);
        self.peers.paired = true;
        self.files.add_all(other.files);
        // Drops that only one of them has noted are noted again.
        self.dropped = self.dropped.min(other.dropped);
        self.span = (self.span.0.min(other.span.0), self.span.1.max(other.span.1));
        self.closed_at = self.closed_at.or(other.closed_at);
        if let Origin::Inferred(_) = self.origin {
            self.origin = Origin::Inferred(evidence);
        }
        if self.state == State::Requested {
            self.state = State::Open;
        }
    }
}

impl SessionEnd {
    /// Takes over the parameters from CM messages that only `other` has. Both are the same end.
    fn absorb(&mut self, other: &SessionEnd) {
        self.private_data = self.private_data.or(other.private_data);
        self.private_data_cut =
            self.private_data.is_none() && (self.private_data_cut || other.private_data_cut);
        self.communication_id = self.communication_id.or(other.communication_id);
        self.ip = self.ip.or(other.ip);
        let (first, others) = (&mut self.first_frames, &other.first_frames);
        first.cm_message = first.cm_message.or(others.cm_message);
        first.reject = first.reject.or(others.reject);
    }
}
