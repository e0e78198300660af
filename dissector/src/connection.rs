//! Connections as the engine reports them: plain data.

use crate::frame::Address;
use crate::protocol::Protocol;
use crate::record::Time;
use core::net::IpAddr;
use rdmascope_wire::{Qpn, private_data};

/// Number of a connection, from 1 in the order in which they were first seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u32);

/// From which host to which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Who sends.
    pub source: Address,
    /// Who receives.
    pub destination: Address,
}

/// The key of a half-flow. A BTH names only the destination queue pair, so source and destination address are part of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// Who sends.
    pub source: Address,
    /// Who receives.
    pub destination: Address,
    /// The receiver's queue pair.
    pub destination_qp: Qpn,
}

/// How it is known that two half-flows are one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The CM exchange was captured.
    Cm,
    /// The CM exchange was not captured. The addresses match, and the traffic shows the rest: see [`Evidence`].
    Inferred(Evidence),
}

/// What shows that two half-flows are one connection where no CM exchange was captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Evidence {
    /// A response of one carried the PSN of a request of the other.
    pub acknowledged_psn: bool,
    /// A reply of one carried the XID of a call of the other.
    pub xid: bool,
    /// An RDMA operation of one named memory that the other had advertised.
    pub rkey: bool,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// A REQ was seen, and no answer.
    Requested,
    /// A REP or traffic was seen.
    Open,
    /// A REJ with this reason (IBTA volume 1, section 12.6.7.2) answered the REQ.
    Rejected(u16),
    /// A DREQ was seen, or the queue pair was used for a new connection.
    Closed,
}

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Its address.
    pub address: Address,
    /// The IP address that the REQ gives it, where that is another one: packets carry a LID or a GID (IBTA volume 1, annex A11).
    pub ip: Option<IpAddr>,
    /// Its queue pair; `None` where only packets *from* it were captured.
    pub qpn: Option<Qpn>,
    /// The RFC 8797 private data that it sent.
    pub private_data: Option<PrivateData>,
    /// What it sent.
    pub sent: Counts,
    /// Where some of it was seen first.
    pub first_frames: FirstFrames,
}

/// RPC-over-RDMA private data (RFC 8797, section 4) as it stood in a CM message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrivateData {
    /// Bytes in front of the format identifier.
    pub offset: u8,
    /// Version of the format, 1.
    pub version: u8,
    /// The reserved bits of the flags byte, 0.
    pub reserved: u8,
    /// R: the sender supports remote invalidation.
    pub remote_invalidation: bool,
    /// Send Size, decoded: bytes.
    pub send_size: u32,
    /// Receive Size, decoded: bytes.
    pub receive_size: u32,
}

impl PrivateData {
    /// The private data among what a CM message carries for its consumer, where there is any that is whole.
    pub fn find(bytes: &[u8]) -> Option<PrivateData> {
        let found = private_data::find(bytes)?;
        Some(PrivateData::new(found.offset, &found.fields.ok()?))
    }

    /// What stood behind `offset` bytes of something else.
    pub fn new(offset: usize, data: &private_data::PrivateData) -> PrivateData {
        PrivateData {
            offset: u8::try_from(offset).unwrap_or(u8::MAX),
            version: data.version,
            reserved: data.reserved,
            remote_invalidation: data.remote_invalidation,
            send_size: data.send_bytes(),
            receive_size: data.receive_bytes(),
        }
    }
}

/// A connection: two half-flows, or one where the capture holds no more.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Its number.
    pub id: ConnectionId,
    /// How it is known.
    pub origin: Origin,
    /// How far its life is known.
    pub state: State,
    /// Whether it is known which end opened it. If not, the end that was first seen to call counts as the requester.
    pub roles_known: bool,
    /// The end that opened it: the Requester of the forward direction.
    pub requester: Endpoint,
    /// The end that accepted it.
    pub responder: Endpoint,
    /// What it carries, where that is known to be another protocol than RPC-over-RDMA.
    pub protocol: Option<Protocol>,
    /// The TCP port space port that the REQ names, for NFS/RDMA 20049.
    pub port: Option<u16>,
    /// Path MTU in bytes: from CM, else the largest payload seen in a packet that others follow.
    pub path_mtu: Option<u16>,
    /// Bytes that a Send towards the responder may have: as negotiated (RFC 8797), or 1024 by default (RFC 8166, section 3.3.3);
    /// `None` where the CM exchange was not captured, or the capture cut off its private data.
    pub call_inline_threshold: Option<u32>,
    /// The same towards the requester.
    pub reply_inline_threshold: Option<u32>,
    /// Whether both ends set R; `None` where the CM exchange was not captured.
    pub remote_invalidation: Option<bool>,
    /// When the first packet was seen.
    pub first: Time,
    /// When the last packet was seen.
    pub last: Time,
    /// Transactions reported, in each direction: forward, backward.
    pub transactions: [u64; 2],
}

/// Packets that an end sent, by their numbers in the capture: the first of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FirstFrames {
    /// A CM message.
    pub cm_message: Option<u64>,
    /// The REJ.
    pub reject: Option<u64>,
    /// A NAK for a PSN sequence error.
    pub sequence_nak: Option<u64>,
    /// A NAK that ends a connection.
    pub fatal_nak: Option<u64>,
    /// An RNR NAK.
    pub rnr_nak: Option<u64>,
    /// See [`Counts::repeated_packets`].
    pub repeated_packet: Option<u64>,
    /// See [`Counts::reordered_packets`].
    pub reordered_packet: Option<u64>,
    /// A packet with a bad ICRC.
    pub bad_icrc: Option<u64>,
    /// A packet other than a CM message whose ICRC is not bad.
    pub sound: Option<u64>,
}

/// What one end of a connection sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets.
    pub packets: u64,
    /// Payload bytes behind the transport headers, on the wire.
    pub bytes: u64,
    /// Sends completed.
    pub sends: u64,
    /// RDMA READ requests, without repetitions.
    pub read_requests: u64,
    /// RDMA Writes, however many packets each takes.
    pub writes: u64,
    /// Bytes of RDMA WRITE payload, without repetitions of PSNs.
    pub written_bytes: u64,
    /// Bytes of RDMA READ responses.
    pub read_response_bytes: u64,
    /// Acknowledgements.
    pub acknowledgements: u64,
    /// NAKs by cause: PSN sequence error, and every other.
    pub sequence_naks: u64,
    /// NAKs that end a connection.
    pub fatal_naks: u64,
    /// RNR NAKs.
    pub rnr_naks: u64,
    /// Request packets whose PSN was seen before.
    pub repeated_packets: u64,
    /// Request packets that filled a gap before packets seen earlier: the capture shows them out of order, or they were lost before it and
    /// sent again.
    pub reordered_packets: u64,
    /// Request packets that the capture lacks.
    pub missing_packets: u64,
    /// Response packets that belong to no RDMA READ seen.
    pub unmatched_responses: u64,
    /// RDMA Writes and Reads of memory that no open transaction advertised.
    pub unmatched_placements: u64,
    /// Sends that are no RPC-over-RDMA message.
    pub other_sends: u64,
    /// Packets with a bad ICRC: left out of everything else.
    pub bad_icrc: u64,
    /// Packets with the FECN or BECN bit, or ECN "congestion experienced".
    pub congestion_marks: u64,
}
