//! The summary of a connection, as events report it.

use super::replayed::Replayed;
use super::{Session, SessionEnd};
use crate::connection::{Connection, Endpoint, Origin, PrivateData};
use crate::iwarp::IwarpConnection;
use crate::rdma::End;
use rdmascope_wire::private_data::Negotiated;

impl Session {
    fn endpoint(&self, side: End) -> Endpoint {
        let end = &self.ends[side];
        let private_data = end.private_data.map(|(offset, data)| PrivateData::new(offset, &data));
        let mut sent = self.transport.count(side, end.counts);
        // Only RPC-over-RDMA shows which memory may be accessed.
        if self.peers.speaks_rpc != Some(true) {
            sent.unmatched_placements = 0;
        }
        let Replayed { packets, bytes, first } = end.replayed;
        sent.repeated_packets += packets;
        sent.read_response_bytes = sent.read_response_bytes.saturating_sub(bytes);
        let ip = end.ip.filter(|ip| end.address.ip() != Some(*ip));
        let mut first_frames = self.transport.first_frames(side, end.first_frames);
        first_frames.repeated_packet = first_frames.repeated_packet.into_iter().chain(first).min();
        let round_trips = end.acknowledgements.round_trips();
        let tcp_port = self.tcp_ports.map(|ports| ports[side]);
        let start = self.start(side);
        Endpoint {
            address: end.address,
            ip,
            qpn: end.qpn,
            tcp_port,
            contexts: end.contexts,
            start,
            private_data,
            sent,
            first_frames,
            round_trips,
        }
    }

    /// The current state of the connection.
    pub(crate) fn summary(&self) -> Connection {
        let caller = self.peers.forward_caller();
        let (requester, responder) = (&self.ends[caller], &self.ends[caller.other()]);
        // REQ and REP each name their sender's ID. A rejection negotiates nothing.
        let has_negotiated = |side: End| match self.transport.iwarp() {
            Some(iwarp) => iwarp.started(side).is_some_and(|started| !started.frame.rejected),
            None => self.ends[side].communication_id.is_some(),
        };
        let exchanged =
            End::BOTH.into_iter().all(|side| has_negotiated(side) && !self.ends[side].private_data_cut);
        let speaks_rpc = self.peers.speaks_rpc == Some(true);
        // The inline thresholds of RFC 8166 do not apply to other protocols.
        let has_no_packets = self.ends.iter().all(|end| end.counts.packets == 0);
        let may_speak_rpc = speaks_rpc || self.peers.protocol.is_none() && has_no_packets;
        let agreed = (self.origin == Origin::Cm && exchanged && may_speak_rpc).then(|| {
            let data = |end: &SessionEnd| end.private_data.map(|(_, data)| data);
            Negotiated::new(data(requester), data(responder))
        });
        let seen = End::BOTH.into_iter().filter_map(|end| self.transport.path_mtu(end)).max();
        Connection {
            id: self.peers.connection(),
            origin: self.origin,
            state: self.state,
            roles_known: self.peers.requester.is_some(),
            requester: self.endpoint(caller),
            responder: self.endpoint(caller.other()),
            protocol: if speaks_rpc { None } else { self.peers.protocol },
            is_foreign: !speaks_rpc && (self.peers.saw_other || self.peers.protocol.is_some()),
            is_iwarp: self.tcp_ports.is_some(),
            has_crc: self.transport.iwarp().and_then(IwarpConnection::has_crc),
            port: self.port,
            path_mtu: self.path_mtu.or(seen.and_then(|mtu| u16::try_from(mtu).ok())),
            call_inline_threshold: agreed.map(|agreed| agreed.call_inline_threshold),
            reply_inline_threshold: agreed.map(|agreed| agreed.reply_inline_threshold),
            remote_invalidation: agreed.map(|agreed| agreed.remote_invalidation),
            first: self.span.0,
            last: self.span.1,
            transactions: self.peers.reported,
            files: self.files,
        }
    }
}
