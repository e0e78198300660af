//! REQ, REP and RTU: connection setup.

use super::{CommunicationId, Fields, Path, ServiceId, message, put_padded};
use crate::layout::{Layout, join};
use crate::psn::Psn;
use crate::table::{enumerations, rows};
use crate::{Qpn, Stop, rdma_cm_ip};
use alloc::vec::Vec;

/// REQ, ConnectRequest: the active side requests a connection to a service (section 12.6.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request<'a> {
    /// The active side's communication ID.
    pub local_communication_id: CommunicationId,
    /// Vendor ID, 24 bits, of the options that the MAD's attribute modifier selects; 0: no vendor.
    pub vendor_id: u32,
    /// The requested service.
    pub service_id: ServiceId,
    /// The channel adapter of the active side.
    pub local_ca_guid: u64,
    /// Q_Key, for datagrams.
    pub local_queue_key: u32,
    /// The queue pair of the active side.
    pub local_qpn: Qpn,
    /// Maximum of outstanding RDMA READ and ATOMIC requests that the active side accepts.
    pub responder_resources: u8,
    /// The end-to-end context of reliable datagrams, 24 bits. With the extended transport type XRC,
    /// the XRC SRQ.
    pub local_eecn: u32,
    /// Maximum of outstanding RDMA READ and ATOMIC requests that the active side intends to send.
    pub initiator_depth: u8,
    /// The passive side's end-to-end context, 24 bits.
    pub remote_eecn: u32,
    /// Time in which the passive side has to answer, encoded in 5 bits: see
    /// [`timeout`](super::timeout).
    pub remote_cm_response_timeout: u8,
    /// The requested transport service.
    pub transport_service_type: TransportServiceType,
    /// True if the active side implements end-to-end flow control.
    pub end_to_end_flow_control: bool,
    /// The first PSN that the active side expects: the PSN of the passive side's first request.
    pub starting_psn: Psn,
    /// Time in which the active side will answer, encoded in 5 bits: see
    /// [`timeout`](super::timeout).
    pub local_cm_response_timeout: u8,
    /// Retries before a request fails, 3 bits.
    pub retry_count: u8,
    /// The partition key.
    pub partition_key: u16,
    /// The path MTU, encoded in 4 bits: [`mtu_bytes`] decodes it.
    pub path_packet_payload_mtu: u8,
    /// True if a reliable datagram channel exists already.
    pub rdc_exists: bool,
    /// Retries after an RNR NAK, 3 bits; 7: unlimited.
    pub rnr_retry_count: u8,
    /// Maximum of retries of a CM message by either side, 4 bits.
    pub max_cm_retries: u8,
    /// True if the active side's queue pair has a shared receive queue.
    pub srq: bool,
    /// The transport type if the service type is [`TransportServiceType::Extended`], 3 bits; 1:
    /// XRC.
    pub extended_transport_type: u8,
    /// The primary path. `None` if the capture ends before the end of the path; built as zeros.
    pub primary_path: Option<Path>,
    /// The alternate path, all zeros if there is none. `None` if the capture ends before the end of
    /// the path; built as zeros.
    pub alternate_path: Option<Path>,
    /// SAP Supported, the bit after the alternate path's local ACK timeout. False if the capture
    /// ends before it.
    pub sap_supported: bool,
    /// Up to [`Request::PRIVATE_DATA_LENGTH`] bytes.
    pub private_data: &'a [u8],
}

impl<'a> Request<'a> {
    /// The fields after the MAD header, in order.
    pub const LAYOUT: Layout = Layout(&join::<
        { Request::FRONT.0.len() + PrimaryPath::LAYOUT.0.len() + AlternatePath::LAYOUT.0.len() + 1 },
    >(&[
        Request::FRONT,
        PrimaryPath::LAYOUT,
        AlternatePath::LAYOUT,
        Layout(&[("Private Data", 8 * Request::PRIVATE_DATA_LENGTH)]),
    ]));
    /// The attribute ID.
    pub const ATTRIBUTE: u16 = 0x0010;
    /// Length of the private data in bytes.
    pub const PRIVATE_DATA_LENGTH: usize = 92;

    pub(super) fn parse(fields: &mut Fields<'a>) -> Result<Request<'a>, Stop> {
        let mut request = Request::default();
        request.read(fields)?;
        // A capture with a snap length of 160 bytes ends in a path. Keep the fields before it,
        // which include queue pair and PSN.
        let (mut primary, mut alternate) = (PrimaryPath::default(), AlternatePath::default());
        if primary.read(fields).is_ok() {
            request.primary_path = Some(primary.path);
            if alternate.read(fields).is_ok() {
                request.alternate_path = Some(alternate.path);
                request.sap_supported = alternate.sap_supported;
                request.private_data = fields.opaque(Request::PRIVATE_DATA_LENGTH);
            }
        }
        Ok(request)
    }

    pub(super) fn build(&self, out: &mut Vec<u8>) {
        self.write(out);
        PrimaryPath { path: self.primary_path.unwrap_or_default() }.write(out);
        let path = self.alternate_path.unwrap_or_default();
        AlternatePath { path, sap_supported: self.sap_supported }.write(out);
        put_padded(out, self.private_data, Request::PRIVATE_DATA_LENGTH);
    }

    /// Returns the path MTU in bytes, 256 to 4096; `None` if its encoding is reserved.
    #[inline]
    pub const fn path_mtu_bytes(&self) -> Option<u16> {
        mtu_bytes(self.path_packet_payload_mtu)
    }

    /// Parses the header of the RDMA connection manager at the start of the private data. Also
    /// returns the consumer's private data after it.
    ///
    /// Returns `None` if the service ID does not belong to the RDMA connection manager, and an
    /// error if the capture ends within the header.
    #[inline]
    pub fn rdma_cm_ip(&self) -> Option<Result<(rdma_cm_ip::Header, &'a [u8]), Stop>> {
        self.service_id.rdma_cm_port().map(|_| rdma_cm_ip::Header::parse(self.private_data))
    }

    /// Returns the captured private data without the header of the RDMA connection manager.
    #[inline]
    pub fn consumer_private_data(&self) -> &'a [u8] {
        match self.rdma_cm_ip() {
            None => self.private_data,
            Some(Ok((_, consumer))) => consumer,
            Some(Err(_)) => &[],
        }
    }
}

rows! {
    const FRONT for Request<'_> {
        32 "Local Communication ID" local_communication_id;
        8 reserved, 24 "Vendor ID" vendor_id;
        64 "Service ID" service_id;
        64 "Local CA GUID" local_ca_guid;
        32 reserved;
        32 "Local Q_Key" local_queue_key;
        24 "Local QPN" local_qpn, 8 "Responder Resources" responder_resources;
        24 "Local EECN" local_eecn, 8 "Initiator Depth" initiator_depth;
        24 "Remote EECN" remote_eecn, 5 "Remote CM Response Timeout" remote_cm_response_timeout,
            2 "Transport Service Type" transport_service_type, 1 "End-to-End Flow Control" end_to_end_flow_control;
        24 "Starting PSN" starting_psn, 5 "Local CM Response Timeout" local_cm_response_timeout,
            3 "Retry Count" retry_count;
        16 "Partition Key" partition_key;
        4 "Path Packet Payload MTU" path_packet_payload_mtu, 1 "RDC Exists" rdc_exists,
            3 "RNR Retry Count" rnr_retry_count, 4 "Max CM Retries" max_cm_retries, 1 "SRQ" srq,
            3 "Extended Transport Type" extended_transport_type;
    }
}

/// The primary path in the layout of a REQ.
#[derive(Default)]
struct PrimaryPath {
    path: Path,
}

rows! {
    const LAYOUT for PrimaryPath {
        16 "Primary Local Port LID" path.local_lid;
        16 "Primary Remote Port LID" path.remote_lid;
        128 "Primary Local Port GID" path.local_gid;
        128 "Primary Remote Port GID" path.remote_gid;
        20 "Primary Flow Label" path.flow_label, 6 reserved, 6 "Primary Packet Rate" path.packet_rate;
        8 "Primary Traffic Class" path.traffic_class;
        8 "Primary Hop Limit" path.hop_limit;
        4 "Primary SL" path.service_level, 1 "Primary Subnet Local" path.subnet_local, 3 reserved;
        5 "Primary Local ACK Timeout" path.local_ack_timeout, 3 reserved;
    }
}

/// The alternate path in the layout of a REQ, and the bit after its last field.
#[derive(Default)]
struct AlternatePath {
    path: Path,
    sap_supported: bool,
}

rows! {
    const LAYOUT for AlternatePath {
        16 "Alternate Local Port LID" path.local_lid;
        16 "Alternate Remote Port LID" path.remote_lid;
        128 "Alternate Local Port GID" path.local_gid;
        128 "Alternate Remote Port GID" path.remote_gid;
        20 "Alternate Flow Label" path.flow_label, 6 reserved, 6 "Alternate Packet Rate" path.packet_rate;
        8 "Alternate Traffic Class" path.traffic_class;
        8 "Alternate Hop Limit" path.hop_limit;
        4 "Alternate SL" path.service_level, 1 "Alternate Subnet Local" path.subnet_local, 3 reserved;
        5 "Alternate Local ACK Timeout" path.local_ack_timeout, 1 "SAP Supported" sap_supported, 2 reserved;
    }
}

/// Decodes a path MTU to bytes: 1 is 256, 5 is 4096. `None` for reserved encodings.
pub const fn mtu_bytes(encoded: u8) -> Option<u16> {
    match encoded {
        1..=5 => Some(128 << encoded),
        _ => None,
    }
}

/// Encodes a path MTU of 256, 512, 1024, 2048 or 4096 bytes. `None` for other sizes.
pub const fn mtu_encoding(bytes: u16) -> Option<u8> {
    match bytes {
        256 => Some(1),
        512 => Some(2),
        1024 => Some(3),
        2048 => Some(4),
        4096 => Some(5),
        _ => None,
    }
}

/// The transport service requested for a connection, 2 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TransportServiceType {
    /// 0: RC.
    #[default]
    ReliableConnection,
    /// 1: UC.
    UnreliableConnection,
    /// 2: RD.
    ReliableDatagram,
    /// 3: the service that the extended transport type names.
    Extended,
}

impl TransportServiceType {
    pub(super) const fn from_bits(bits: u8) -> TransportServiceType {
        match bits & 3 {
            0 => TransportServiceType::ReliableConnection,
            1 => TransportServiceType::UnreliableConnection,
            2 => TransportServiceType::ReliableDatagram,
            _ => TransportServiceType::Extended,
        }
    }

    /// Returns the number on the wire.
    pub const fn bits(self) -> u8 {
        match self {
            TransportServiceType::ReliableConnection => 0,
            TransportServiceType::UnreliableConnection => 1,
            TransportServiceType::ReliableDatagram => 2,
            TransportServiceType::Extended => 3,
        }
    }
}

enumerations! { TransportServiceType }

/// REP, ConnectReply: the passive side accepts (section 12.6.8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reply<'a> {
    /// The passive side's communication ID.
    pub local_communication_id: CommunicationId,
    /// The active side's communication ID.
    pub remote_communication_id: CommunicationId,
    /// Q_Key, for datagrams.
    pub local_queue_key: u32,
    /// The queue pair of the passive side.
    pub local_qpn: Qpn,
    /// The end-to-end context of reliable datagrams, 24 bits.
    pub local_eecn: u32,
    /// The first PSN that the passive side expects: the PSN of the active side's first request.
    pub starting_psn: Psn,
    /// Vendor ID, 24 bits, of the options that the MAD's attribute modifier selects; 0: no vendor.
    pub vendor_id: u32,
    /// Maximum of outstanding RDMA READ and ATOMIC requests that the passive side accepts.
    pub responder_resources: u8,
    /// Maximum of outstanding RDMA READ and ATOMIC requests that the passive side intends to send.
    pub initiator_depth: u8,
    /// Maximum time from a message to its acknowledgement, encoded in 5 bits: see
    /// [`timeout`](super::timeout).
    pub target_ack_delay: u8,
    /// Result for the alternate path, 2 bits; 0: accepted.
    pub failover_accepted: u8,
    /// True if the passive side implements end-to-end flow control.
    pub end_to_end_flow_control: bool,
    /// Retries after an RNR NAK, 3 bits; 7: unlimited.
    pub rnr_retry_count: u8,
    /// True if the passive side's queue pair has a shared receive queue.
    pub srq: bool,
    /// The channel adapter of the passive side.
    pub local_ca_guid: u64,
    /// Up to [`Reply::PRIVATE_DATA_LENGTH`] bytes.
    pub private_data: &'a [u8],
}

impl Reply<'_> {
    /// The attribute ID.
    pub const ATTRIBUTE: u16 = 0x0013;
    /// Length of the private data in bytes.
    pub const PRIVATE_DATA_LENGTH: usize = 196;
}

message! {
    Reply {
        32 "Local Communication ID" local_communication_id;
        32 "Remote Communication ID" remote_communication_id;
        32 "Local Q_Key" local_queue_key;
        24 "Local QPN" local_qpn, 8 "Vendor ID 23-16" vendor_id << 16;
        24 "Local EECN" local_eecn, 8 "Vendor ID 15-8" vendor_id << 8;
        24 "Starting PSN" starting_psn, 8 "Vendor ID 7-0" vendor_id << 0;
        8 "Responder Resources" responder_resources, 8 "Initiator Depth" initiator_depth,
            5 "Target ACK Delay" target_ack_delay, 2 "Failover Accepted" failover_accepted,
            1 "End-to-End Flow Control" end_to_end_flow_control, 3 "RNR Retry Count" rnr_retry_count, 1 "SRQ" srq,
            4 reserved;
        64 "Local CA GUID" local_ca_guid;
    }
    "Private Data" private_data: PRIVATE_DATA_LENGTH;
}

/// RTU, ReadyToUse: the queue pair of the active side is ready (section 12.6.9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadyToUse<'a> {
    /// The active side's communication ID.
    pub local_communication_id: CommunicationId,
    /// The passive side's communication ID.
    pub remote_communication_id: CommunicationId,
    /// Up to [`ReadyToUse::PRIVATE_DATA_LENGTH`] bytes.
    pub private_data: &'a [u8],
}

impl ReadyToUse<'_> {
    /// The attribute ID.
    pub const ATTRIBUTE: u16 = 0x0014;
    /// Length of the private data in bytes.
    pub const PRIVATE_DATA_LENGTH: usize = 224;
}

message! {
    ReadyToUse {
        32 "Local Communication ID" local_communication_id;
        32 "Remote Communication ID" remote_communication_id;
    }
    "Private Data" private_data: PRIVATE_DATA_LENGTH;
}
