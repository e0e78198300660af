//! Service IDs, and SIDR_REQ and SIDR_REP, which resolve them for datagrams.

use super::{Fields, put_padded, put_u24_u8};
use crate::layout::Layout;
use crate::{Qpn, Stop};
use alloc::vec::Vec;

crate::newtype! {
    /// A service ID: what a ConnectRequest asks for (section 12.7). Those of the RDMA connection manager hold a port:
    /// [`ServiceId::rdma_cm_port`].
    ServiceId, u64, 16
}

/// SIDR_REQ, ServiceIDResReq: asks which queue pair serves a service ID (section 12.11.1).
///
/// ```text
///   0 Request ID 32
///   4 Partition Key 16, reserved 16
///   8 Service ID 64
///  16 Private Data, 216 bytes
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceIdResolutionRequest<'a> {
    /// What the reply repeats.
    pub request_id: u32,
    /// The partition key.
    pub partition_key: u16,
    /// The service.
    pub service_id: ServiceId,
    /// Up to [`ServiceIdResolutionRequest::PRIVATE_DATA_LENGTH`] bytes.
    pub private_data: &'a [u8],
}

impl<'a> ServiceIdResolutionRequest<'a> {
    /// Its fields behind the MAD header and where they stand.
    pub const LAYOUT: Layout = Layout(&[
        ("Request ID", 32),
        ("Partition Key", 16),
        ("reserved", 16),
        ("Service ID", 64),
        ("Private Data", 1728),
    ]);
    /// The attribute ID.
    pub const ATTRIBUTE: u16 = 0x0017;
    /// Bytes of private data.
    pub const PRIVATE_DATA_LENGTH: usize = 216;

    pub(super) fn parse(fields: &mut Fields<'a>) -> Result<ServiceIdResolutionRequest<'a>, Stop> {
        let request_id = fields.u32()?;
        let partition_key = fields.u16()?;
        fields.u16()?;
        Ok(ServiceIdResolutionRequest {
            request_id,
            partition_key,
            service_id: ServiceId(fields.u64()?),
            private_data: fields.opaque(ServiceIdResolutionRequest::PRIVATE_DATA_LENGTH),
        })
    }

    pub(super) fn build(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.request_id.to_be_bytes());
        out.extend_from_slice(&self.partition_key.to_be_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&self.service_id.0.to_be_bytes());
        put_padded(out, self.private_data, ServiceIdResolutionRequest::PRIVATE_DATA_LENGTH);
    }
}

/// SIDR_REP, ServiceIDResReqResp: answers a SIDR_REQ (section 12.11.2).
///
/// ```text
///   0 Request ID 32
///   4 Status 8
///   5 Additional Information Length 8
///   6 Vendor ID 23-8
///   8 QPN 24, Vendor ID 7-0
///  12 Service ID 64
///  20 Q_Key 32
///  24 Additional Information, 72 bytes
///  96 Private Data, 136 bytes
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceIdResolutionReply<'a> {
    /// The request's.
    pub request_id: u32,
    /// How it went: [`service_id_resolution_status_name`] knows the numbers.
    pub status: u8,
    /// Bytes of the additional information that mean something, as the sender says.
    pub additional_information_length: u8,
    /// Vendor ID, 24 bits: whose options the MAD's attribute modifier selects; 0: nobody's.
    pub vendor_id: u32,
    /// The queue pair that serves the service ID.
    pub qpn: Qpn,
    /// The request's.
    pub service_id: ServiceId,
    /// The Q_Key with which to send to that queue pair.
    pub queue_key: u32,
    /// Up to [`ServiceIdResolutionReply::ADDITIONAL_INFORMATION_LENGTH`] bytes, whose meaning depends on the status.
    pub additional_information: &'a [u8],
    /// Up to [`ServiceIdResolutionReply::PRIVATE_DATA_LENGTH`] bytes.
    pub private_data: &'a [u8],
}

impl<'a> ServiceIdResolutionReply<'a> {
    /// Its fields behind the MAD header and where they stand.
    pub const LAYOUT: Layout = Layout(&[
        ("Request ID", 32),
        ("Status", 8),
        ("Additional Information Length", 8),
        ("Vendor ID 23-8", 16),
        ("QPN", 24),
        ("Vendor ID 7-0", 8),
        ("Service ID", 64),
        ("Q_Key", 32),
        ("Additional Information", 576),
        ("Private Data", 1088),
    ]);
    /// The attribute ID.
    pub const ATTRIBUTE: u16 = 0x0018;
    /// Bytes of additional information.
    pub const ADDITIONAL_INFORMATION_LENGTH: usize = 72;
    /// Bytes of private data.
    pub const PRIVATE_DATA_LENGTH: usize = 136;

    pub(super) fn parse(fields: &mut Fields<'a>) -> Result<ServiceIdResolutionReply<'a>, Stop> {
        let request_id = fields.u32()?;
        let [status, additional_information_length, vendor_high, vendor_middle] = fields.take()?;
        let (qpn, vendor_low) = fields.u24_u8()?;
        Ok(ServiceIdResolutionReply {
            request_id,
            status,
            additional_information_length,
            vendor_id: u32::from_be_bytes([0, vendor_high, vendor_middle, vendor_low]),
            qpn: Qpn(qpn),
            service_id: ServiceId(fields.u64()?),
            queue_key: fields.u32()?,
            additional_information: fields.opaque(ServiceIdResolutionReply::ADDITIONAL_INFORMATION_LENGTH),
            private_data: fields.opaque(ServiceIdResolutionReply::PRIVATE_DATA_LENGTH),
        })
    }

    pub(super) fn build(&self, out: &mut Vec<u8>) {
        let [_, vendor_high, vendor_middle, vendor_low] = self.vendor_id.to_be_bytes();
        out.extend_from_slice(&self.request_id.to_be_bytes());
        out.extend_from_slice(&[self.status, self.additional_information_length, vendor_high, vendor_middle]);
        put_u24_u8(out, self.qpn.0, vendor_low);
        out.extend_from_slice(&self.service_id.0.to_be_bytes());
        out.extend_from_slice(&self.queue_key.to_be_bytes());
        put_padded(out, self.additional_information, ServiceIdResolutionReply::ADDITIONAL_INFORMATION_LENGTH);
        put_padded(out, self.private_data, ServiceIdResolutionReply::PRIVATE_DATA_LENGTH);
    }
}

/// What the status of a SIDR_REP means (section 12.11.2), or `None` for a number that is not assigned.
pub const fn service_id_resolution_status_name(status: u8) -> Option<&'static str> {
    Some(match status {
        0 => "QPN valid",
        1 => "service ID not supported",
        2 => "rejected by the service provider",
        3 => "no QP available",
        4 => "redirected",
        5 => "version not supported",
        _ => return None,
    })
}
