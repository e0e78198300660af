//! LAP and APR, which set the alternate path of a connection, and the fields of a path.

use super::{CommunicationId, Gid, message};
use crate::Qpn;

/// A path between two ports. REQ and LAP have the same fields in different layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Path {
    /// The sender's LID; 0xffff on Ethernet.
    pub local_lid: u16,
    /// The receiver's LID; 0xffff on Ethernet.
    pub remote_lid: u16,
    /// The sender's GID; on RoCEv2, its IP address.
    pub local_gid: Gid,
    /// The receiver's GID; on RoCEv2, its IP address.
    pub remote_gid: Gid,
    /// The flow label of a GRH, 20 bits.
    pub flow_label: u32,
    /// The rate at which the receiver may send, encoded in 6 bits.
    pub packet_rate: u8,
    /// The traffic class of a GRH.
    pub traffic_class: u8,
    /// The hop limit of a GRH.
    pub hop_limit: u8,
    /// SL, the service level, 4 bits.
    pub service_level: u8,
    /// True if both ports are in one subnet.
    pub subnet_local: bool,
    /// Time to wait for an acknowledgement, encoded in 5 bits: see [`timeout`](super::timeout); 0:
    /// forever.
    pub local_ack_timeout: u8,
}

/// LAP, LoadAlternatePath: the active side proposes an alternate path (section 12.8.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadAlternatePath<'a> {
    /// The sender's communication ID.
    pub local_communication_id: CommunicationId,
    /// The receiver's communication ID.
    pub remote_communication_id: CommunicationId,
    /// The receiver's queue pair, or its end-to-end context for reliable datagrams.
    pub remote_qpn: Qpn,
    /// Time in which the receiver has to answer, encoded in 5 bits: see
    /// [`timeout`](super::timeout).
    pub remote_cm_response_timeout: u8,
    /// The proposed path.
    pub alternate_path: Path,
    /// Up to [`LoadAlternatePath::PRIVATE_DATA_LENGTH`] bytes.
    pub private_data: &'a [u8],
}

impl LoadAlternatePath<'_> {
    /// The attribute ID.
    pub const ATTRIBUTE: u16 = 0x0019;
    /// Length of the private data in bytes.
    pub const PRIVATE_DATA_LENGTH: usize = 168;
}

message! {
    LoadAlternatePath {
        32 "Local Communication ID" local_communication_id;
        32 "Remote Communication ID" remote_communication_id;
        32 reserved;
        24 "Remote QPN/EECN" remote_qpn, 5 "Remote CM Response Timeout" remote_cm_response_timeout, 3 reserved;
        32 reserved;
        16 "Alternate Local Port LID" alternate_path.local_lid;
        16 "Alternate Remote Port LID" alternate_path.remote_lid;
        128 "Alternate Local Port GID" alternate_path.local_gid;
        128 "Alternate Remote Port GID" alternate_path.remote_gid;
        20 "Alternate Flow Label" alternate_path.flow_label, 4 reserved, 8 "Alternate Traffic Class" alternate_path.traffic_class;
        8 "Alternate Hop Limit" alternate_path.hop_limit;
        2 reserved, 6 "Alternate Packet Rate" alternate_path.packet_rate;
        4 "Alternate SL" alternate_path.service_level, 1 "Alternate Subnet Local" alternate_path.subnet_local, 3 reserved;
        5 "Alternate Local ACK Timeout" alternate_path.local_ack_timeout, 3 reserved;
    }
    "Private Data" private_data: PRIVATE_DATA_LENGTH;
}

/// APR, AlternatePathResponse: answers a LAP (section 12.8.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AlternatePathResponse<'a> {
    /// The sender's communication ID.
    pub local_communication_id: CommunicationId,
    /// The receiver's communication ID.
    pub remote_communication_id: CommunicationId,
    /// Valid bytes of the additional information, according to the sender.
    pub additional_information_length: u8,
    /// The result; [`alternate_path_status_name`] decodes it.
    pub status: u8,
    /// Up to [`AlternatePathResponse::ADDITIONAL_INFORMATION_LENGTH`] bytes. The meaning depends on
    /// the status.
    pub additional_information: &'a [u8],
    /// Up to [`AlternatePathResponse::PRIVATE_DATA_LENGTH`] bytes.
    pub private_data: &'a [u8],
}

impl AlternatePathResponse<'_> {
    /// The attribute ID.
    pub const ATTRIBUTE: u16 = 0x001a;
    /// Length of the additional information in bytes.
    pub const ADDITIONAL_INFORMATION_LENGTH: usize = 72;
    /// Length of the private data in bytes.
    pub const PRIVATE_DATA_LENGTH: usize = 148;
}

message! {
    AlternatePathResponse {
        32 "Local Communication ID" local_communication_id;
        32 "Remote Communication ID" remote_communication_id;
        8 "Additional Information Length" additional_information_length, 8 "AP Status" status, 16 reserved;
    }
    "Additional Information" additional_information: ADDITIONAL_INFORMATION_LENGTH;
    "Private Data" private_data: PRIVATE_DATA_LENGTH;
}

/// Describes the AP Status of an APR (section 12.8.2). `None` for unassigned numbers.
pub const fn alternate_path_status_name(status: u8) -> Option<&'static str> {
    Some(match status {
        0 => "alternate path loaded",
        1 => "invalid communication instance",
        2 => "alternate paths not supported",
        3 => "rejected",
        4 => "rejected with redirection",
        5 => "alternate path is the current one",
        6 => "QPN or EECN mismatch",
        7 => "remote port LID rejected",
        8 => "remote port GID rejected",
        9 => "flow label rejected",
        10 => "traffic class rejected",
        11 => "hop limit rejected",
        12 => "packet rate rejected",
        13 => "SL rejected",
        _ => return None,
    })
}
