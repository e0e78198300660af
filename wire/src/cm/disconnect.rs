//! DREQ and DREP: how a connection ends.

use super::{CommunicationId, Fields, put_padded, put_u24_u8};
use crate::layout::Layout;
use crate::{Qpn, Stop};
use alloc::vec::Vec;

/// DREQ, DisconnectRequest: either side ends the connection (section 12.6.10).
///
/// ```text
///   0 Local Communication ID 32
///   4 Remote Communication ID 32
///   8 Remote QPN/EECN 24, reserved 8
///  12 Private Data, 220 bytes
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DisconnectRequest<'a> {
    /// What the sender calls the connection.
    pub local_communication_id: CommunicationId,
    /// What the receiver calls it.
    pub remote_communication_id: CommunicationId,
    /// The receiver's queue pair, or its end-to-end context where the service is reliable datagram.
    pub remote_qpn: Qpn,
    /// Up to [`DisconnectRequest::PRIVATE_DATA_LENGTH`] bytes.
    pub private_data: &'a [u8],
}

impl<'a> DisconnectRequest<'a> {
    /// Its fields behind the MAD header and where they stand.
    pub const LAYOUT: Layout = Layout(&[
        ("Local Communication ID", 32),
        ("Remote Communication ID", 32),
        ("Remote QPN/EECN", 24),
        ("reserved", 8),
        ("Private Data", 1760),
    ]);
    /// The attribute ID.
    pub const ATTRIBUTE: u16 = 0x0015;
    /// Bytes of private data.
    pub const PRIVATE_DATA_LENGTH: usize = 220;

    pub(super) fn parse(fields: &mut Fields<'a>) -> Result<DisconnectRequest<'a>, Stop> {
        Ok(DisconnectRequest {
            local_communication_id: fields.communication_id()?,
            remote_communication_id: fields.communication_id()?,
            remote_qpn: Qpn(fields.u24_u8()?.0),
            private_data: fields.opaque(DisconnectRequest::PRIVATE_DATA_LENGTH),
        })
    }

    pub(super) fn build(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.local_communication_id.0.to_be_bytes());
        out.extend_from_slice(&self.remote_communication_id.0.to_be_bytes());
        put_u24_u8(out, self.remote_qpn.0, 0);
        put_padded(out, self.private_data, DisconnectRequest::PRIVATE_DATA_LENGTH);
    }
}

/// DREP, DisconnectReply: answers a DREQ (section 12.6.11).
///
/// ```text
///   0 Local Communication ID 32
///   4 Remote Communication ID 32
///   8 Private Data, 224 bytes
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DisconnectReply<'a> {
    /// What the sender calls the connection.
    pub local_communication_id: CommunicationId,
    /// What the receiver calls it.
    pub remote_communication_id: CommunicationId,
    /// Up to [`DisconnectReply::PRIVATE_DATA_LENGTH`] bytes.
    pub private_data: &'a [u8],
}

impl<'a> DisconnectReply<'a> {
    /// Its fields behind the MAD header and where they stand.
    pub const LAYOUT: Layout =
        Layout(&[("Local Communication ID", 32), ("Remote Communication ID", 32), ("Private Data", 1792)]);
    /// The attribute ID.
    pub const ATTRIBUTE: u16 = 0x0016;
    /// Bytes of private data.
    pub const PRIVATE_DATA_LENGTH: usize = 224;

    pub(super) fn parse(fields: &mut Fields<'a>) -> Result<DisconnectReply<'a>, Stop> {
        Ok(DisconnectReply {
            local_communication_id: fields.communication_id()?,
            remote_communication_id: fields.communication_id()?,
            private_data: fields.opaque(DisconnectReply::PRIVATE_DATA_LENGTH),
        })
    }

    pub(super) fn build(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.local_communication_id.0.to_be_bytes());
        out.extend_from_slice(&self.remote_communication_id.0.to_be_bytes());
        put_padded(out, self.private_data, DisconnectReply::PRIVATE_DATA_LENGTH);
    }
}
