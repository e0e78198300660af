//! Service IDs, and SIDR_REQ and SIDR_REP, which resolve them for datagrams.

use super::message;
use crate::Qpn;

crate::newtype! {
    /// A service ID: the service that a ConnectRequest asks for (section 12.7). Service IDs of the
    /// RDMA connection manager contain a port: [`ServiceId::rdma_cm_port`].
    ServiceId, u64, 16
}

/// SIDR_REQ, ServiceIDResReq: asks for the queue pair that serves a service ID (section 12.11.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceIdResolutionRequest<'a> {
    /// Identifies the request; the reply repeats it.
    pub request_id: u32,
    /// The partition key.
    pub partition_key: u16,
    /// The service.
    pub service_id: ServiceId,
    /// Up to [`ServiceIdResolutionRequest::PRIVATE_DATA_LENGTH`] bytes.
    pub private_data: &'a [u8],
}

impl ServiceIdResolutionRequest<'_> {
    /// The attribute ID.
    pub const ATTRIBUTE: u16 = 0x0017;
    /// Length of the private data in bytes.
    pub const PRIVATE_DATA_LENGTH: usize = 216;
}

message! {
    ServiceIdResolutionRequest {
        32 "Request ID" request_id;
        16 "Partition Key" partition_key;
        16 reserved;
        64 "Service ID" service_id;
    }
    "Private Data" private_data: PRIVATE_DATA_LENGTH;
}

/// SIDR_REP, ServiceIDResReqResp: answers a SIDR_REQ (section 12.11.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceIdResolutionReply<'a> {
    /// The request ID of the request.
    pub request_id: u32,
    /// The result; [`service_id_resolution_status_name`] decodes it.
    pub status: u8,
    /// Valid bytes of the additional information, according to the sender.
    pub additional_information_length: u8,
    /// Vendor ID, 24 bits, of the options that the MAD's attribute modifier selects; 0: no vendor.
    pub vendor_id: u32,
    /// The queue pair that serves the service ID.
    pub qpn: Qpn,
    /// The service ID of the request.
    pub service_id: ServiceId,
    /// The Q_Key for packets to that queue pair.
    pub queue_key: u32,
    /// Up to [`ServiceIdResolutionReply::ADDITIONAL_INFORMATION_LENGTH`] bytes. The meaning depends
    /// on the status.
    pub additional_information: &'a [u8],
    /// Up to [`ServiceIdResolutionReply::PRIVATE_DATA_LENGTH`] bytes.
    pub private_data: &'a [u8],
}

impl ServiceIdResolutionReply<'_> {
    /// The attribute ID.
    pub const ATTRIBUTE: u16 = 0x0018;
    /// Length of the additional information in bytes.
    pub const ADDITIONAL_INFORMATION_LENGTH: usize = 72;
    /// Length of the private data in bytes.
    pub const PRIVATE_DATA_LENGTH: usize = 136;
}

message! {
    ServiceIdResolutionReply {
        32 "Request ID" request_id;
        8 "Status" status, 8 "Additional Information Length" additional_information_length,
            16 "Vendor ID 23-8" vendor_id << 8;
        24 "QPN" qpn, 8 "Vendor ID 7-0" vendor_id << 0;
        64 "Service ID" service_id;
        32 "Q_Key" queue_key;
    }
    "Additional Information" additional_information: ADDITIONAL_INFORMATION_LENGTH;
    "Private Data" private_data: PRIVATE_DATA_LENGTH;
}

/// Describes the status of a SIDR_REP (section 12.11.2). `None` for unassigned numbers.
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
