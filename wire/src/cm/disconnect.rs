//! DREQ and DREP: connection teardown.

use super::{CommunicationId, message};
use crate::Qpn;

/// DREQ, DisconnectRequest: either side closes the connection (section 12.6.10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DisconnectRequest<'a> {
    /// The sender's communication ID.
    pub local_communication_id: CommunicationId,
    /// The receiver's communication ID.
    pub remote_communication_id: CommunicationId,
    /// The receiver's queue pair, or its end-to-end context for reliable datagrams.
    pub remote_qpn: Qpn,
    /// Up to [`DisconnectRequest::PRIVATE_DATA_LENGTH`] bytes.
    pub private_data: &'a [u8],
}

impl DisconnectRequest<'_> {
    /// The attribute ID.
    pub const ATTRIBUTE: u16 = 0x0015;
    /// Length of the private data in bytes.
    pub const PRIVATE_DATA_LENGTH: usize = 220;
}

message! {
    DisconnectRequest {
        32 "Local Communication ID" local_communication_id;
        32 "Remote Communication ID" remote_communication_id;
        24 "Remote QPN/EECN" remote_qpn, 8 reserved;
    }
    "Private Data" private_data: PRIVATE_DATA_LENGTH;
}

/// DREP, DisconnectReply: answers a DREQ (section 12.6.11).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DisconnectReply<'a> {
    /// The sender's communication ID.
    pub local_communication_id: CommunicationId,
    /// The receiver's communication ID.
    pub remote_communication_id: CommunicationId,
    /// Up to [`DisconnectReply::PRIVATE_DATA_LENGTH`] bytes.
    pub private_data: &'a [u8],
}

impl DisconnectReply<'_> {
    /// The attribute ID.
    pub const ATTRIBUTE: u16 = 0x0016;
    /// Length of the private data in bytes.
    pub const PRIVATE_DATA_LENGTH: usize = 224;
}

message! {
    DisconnectReply {
        32 "Local Communication ID" local_communication_id;
        32 "Remote Communication ID" remote_communication_id;
    }
    "Private Data" private_data: PRIVATE_DATA_LENGTH;
}
