//! Connections.

use super::{Shown, time};
use crate::words;
use rdmascope_dissector::connection::{Connection, Counts, Endpoint, Evidence, Origin, PrivateData, State};
use rdmascope_dissector::frame::Address;
use rdmascope_dissector::record::Time;
use rdmascope_wire::Qpn;
use serde::{Serialize, Serializer};

/// `"type":"connection"`.
#[derive(Serialize)]
pub struct ConnectionLine {
    r#type: &'static str,
    connection: u32,
    origin: &'static str,
    evidence: Option<EvidenceView>,
    roles_known: bool,
    state: &'static str,
    reject_reason: Option<u16>,
    requester: EndpointView,
    responder: EndpointView,
    port: Option<u16>,
    path_mtu: Option<u16>,
    call_inline_threshold: Option<u32>,
    reply_inline_threshold: Option<u32>,
    remote_invalidation: Option<bool>,
    #[serde(serialize_with = "time")]
    first: Time,
    #[serde(serialize_with = "time")]
    last: Time,
    transactions: Transactions,
}

impl From<&Connection> for ConnectionLine {
    fn from(connection: &Connection) -> ConnectionLine {
        let evidence = match connection.origin {
            Origin::Cm => None,
            Origin::Inferred(evidence) => Some(EvidenceView(evidence)),
        };
        let [forward, backward] = connection.transactions;
        ConnectionLine {
            r#type: "connection",
            connection: connection.id.0,
            origin: words::origin(connection.origin),
            evidence,
            roles_known: connection.roles_known,
            state: words::state(connection.state),
            reject_reason: match connection.state {
                State::Rejected(reason) => Some(reason),
                _ => None,
            },
            requester: EndpointView::from(&connection.requester),
            responder: EndpointView::from(&connection.responder),
            port: connection.port,
            path_mtu: connection.path_mtu,
            call_inline_threshold: connection.call_inline_threshold,
            reply_inline_threshold: connection.reply_inline_threshold,
            remote_invalidation: connection.remote_invalidation,
            first: connection.first,
            last: connection.last,
            transactions: Transactions { forward, backward },
        }
    }
}

#[derive(Serialize)]
struct Transactions {
    forward: u64,
    backward: u64,
}

#[derive(Serialize)]
struct EndpointView {
    address: Shown<Address>,
    qpn: Option<Shown<Qpn>>,
    private_data: Option<PrivateDataView>,
    #[serde(with = "CountsDef")]
    counts: Counts,
}

impl From<&Endpoint> for EndpointView {
    fn from(end: &Endpoint) -> EndpointView {
        EndpointView {
            address: Shown(end.address),
            qpn: end.qpn.map(Shown),
            private_data: end.private_data.map(PrivateDataView),
            counts: end.sent,
        }
    }
}

struct EvidenceView(Evidence);

impl Serialize for EvidenceView {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        EvidenceDef::serialize(&self.0, serializer)
    }
}

#[derive(Serialize)]
#[serde(remote = "Evidence")]
struct EvidenceDef {
    acknowledged_psn: bool,
    xid: bool,
    rkey: bool,
}

pub(super) struct PrivateDataView(pub(super) PrivateData);

impl Serialize for PrivateDataView {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        PrivateDataDef::serialize(&self.0, serializer)
    }
}

#[derive(Serialize)]
#[serde(remote = "PrivateData")]
struct PrivateDataDef {
    offset: u8,
    version: u8,
    reserved: u8,
    remote_invalidation: bool,
    send_size: u32,
    receive_size: u32,
}

#[derive(Serialize)]
#[serde(remote = "Counts")]
struct CountsDef {
    packets: u64,
    bytes: u64,
    sends: u64,
    read_requests: u64,
    written_bytes: u64,
    read_response_bytes: u64,
    acknowledgements: u64,
    sequence_naks: u64,
    fatal_naks: u64,
    rnr_naks: u64,
    repeated_packets: u64,
    reordered_packets: u64,
    missing_packets: u64,
    unmatched_responses: u64,
    unmatched_placements: u64,
    other_sends: u64,
    bad_icrc: u64,
    congestion_marks: u64,
}
