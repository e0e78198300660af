//! The fields of a CM message that distinguish it from others.

use rdmascope_dissector::connection::PrivateData;
use rdmascope_wire::{Qpn, cm, psn::Psn};

/// The distinguishing fields that a message has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CmFields {
    /// The kind of message: `ConnectRequest`.
    pub name: &'static str,
    /// The sender's communication ID.
    pub local_communication_id: Option<cm::CommunicationId>,
    /// The receiver's communication ID.
    pub remote_communication_id: Option<cm::CommunicationId>,
    /// The sender's QPN; in a DisconnectRequest, the receiver's.
    pub qpn: Option<Qpn>,
    /// The first PSN that the sender will use.
    pub starting_psn: Option<Psn>,
    /// The port in an RDMA IP CM service ID.
    pub port: Option<u16>,
    /// The path MTU, in bytes.
    pub path_mtu: Option<u16>,
    /// The reason of a REJ (InfiniBand Architecture Specification, section 12.6.7.2).
    pub reject_reason: Option<u16>,
    /// The private data of RPC-over-RDMA (RFC 8797).
    pub private_data: Option<PrivateData>,
}

impl CmFields {
    /// The text for the reason of a REJ.
    pub fn reject_reason_name(&self) -> Option<&'static str> {
        self.reject_reason.and_then(cm::reject_reason_name)
    }
}

impl From<&cm::Message<'_>> for CmFields {
    fn from(message: &cm::Message<'_>) -> CmFields {
        let fields = CmFields {
            name: message.name(),
            local_communication_id: message.local_communication_id(),
            remote_communication_id: message.remote_communication_id(),
            ..CmFields::default()
        };
        match message {
            cm::Message::Request(request) => CmFields {
                qpn: Some(request.local_qpn),
                starting_psn: Some(request.starting_psn),
                port: request.service_id.rdma_cm_port().map(|(_, port)| port),
                path_mtu: request.path_mtu_bytes(),
                private_data: PrivateData::find(request.consumer_private_data()),
                ..fields
            },
            cm::Message::Reply(reply) => CmFields {
                qpn: Some(reply.local_qpn),
                starting_psn: Some(reply.starting_psn),
                private_data: PrivateData::find(reply.private_data),
                ..fields
            },
            cm::Message::Reject(reject) => CmFields { reject_reason: Some(reject.reason), ..fields },
            cm::Message::DisconnectRequest(request) => CmFields { qpn: Some(request.remote_qpn), ..fields },
            cm::Message::ServiceIdResolutionReply(reply) => CmFields { qpn: Some(reply.qpn), ..fields },
            _ => fields,
        }
    }
}
