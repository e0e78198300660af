//! REQ, REP and RTU: how a connection comes about.

use super::{CommunicationId, Fields, Path, ServiceId, flag, put_padded, put_u24_u8};
use crate::layout::Layout;
use crate::psn::Psn;
use crate::{Qpn, Stop, rdma_cm_ip};
use alloc::vec::Vec;

/// REQ, ConnectRequest: the active side asks for a connection to a service (section 12.6.5).
///
/// ```text
///   0 Local Communication ID 32            48 Partition Key 16
///   4 reserved 8, Vendor ID 24             50 Path Packet Payload MTU 4, RDC Exists 1, RNR Retry Count 3
///   8 Service ID 64                        51 Max CM Retries 4, SRQ 1, Extended Transport Type 3
///  16 Local CA GUID 64                     52 primary path, 44 bytes
///  24 reserved 32                          96 alternate path, 44 bytes, its last byte: Local ACK Timeout 5,
///  28 Local Q_Key 32                           SAP Supported 1, reserved 2
///  32 Local QPN 24, Responder Resources 8 140 Private Data, 92 bytes
///  36 Local EECN 24, Initiator Depth 8
///  40 Remote EECN 24, Remote CM Response Timeout 5, Transport Service Type 2, End-to-End Flow Control 1
///  44 Starting PSN 24, Local CM Response Timeout 5, Retry Count 3
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// What the active side calls the connection.
    pub local_communication_id: CommunicationId,
    /// Vendor ID, 24 bits: whose options the MAD's attribute modifier selects; 0: nobody's.
    pub vendor_id: u32,
    /// The service that is asked for.
    pub service_id: ServiceId,
    /// The channel adapter of the active side.
    pub local_ca_guid: u64,
    /// Q_Key, for datagrams.
    pub local_queue_key: u32,
    /// The queue pair of the active side.
    pub local_qpn: Qpn,
    /// RDMA READ and ATOMIC requests that the active side can have outstanding towards it.
    pub responder_resources: u8,
    /// The end-to-end context of reliable datagrams, 24 bits. With the extended transport type XRC: the XRC SRQ.
    pub local_eecn: u32,
    /// RDMA READ and ATOMIC requests that the active side means to have outstanding.
    pub initiator_depth: u8,
    /// The passive side's end-to-end context, 24 bits.
    pub remote_eecn: u32,
    /// Time for the passive side to answer, encoded in 5 bits: see [`timeout`](super::timeout).
    pub remote_cm_response_timeout: u8,
    /// The service that the queue pairs are to have.
    pub transport_service_type: TransportServiceType,
    /// Whether the active side implements end-to-end flow control.
    pub end_to_end_flow_control: bool,
    /// The PSN at which the active side expects to receive: the first request of the passive side carries it.
    pub starting_psn: Psn,
    /// Time for the active side to answer, encoded in 5 bits: see [`timeout`](super::timeout).
    pub local_cm_response_timeout: u8,
    /// Times to retry before a request fails, 3 bits.
    pub retry_count: u8,
    /// The partition key.
    pub partition_key: u16,
    /// The path MTU, encoded in 4 bits: [`mtu_bytes`] decodes it.
    pub path_packet_payload_mtu: u8,
    /// Whether a reliable datagram channel is there already.
    pub rdc_exists: bool,
    /// Times to retry after an RNR NAK, 3 bits; 7: without end.
    pub rnr_retry_count: u8,
    /// Times that either side may resend a CM message, 4 bits.
    pub max_cm_retries: u8,
    /// Whether the active side's queue pair has a shared receive queue.
    pub srq: bool,
    /// What a [`TransportServiceType::Extended`] stands for, 3 bits; 1: XRC.
    pub extended_transport_type: u8,
    /// The primary path; `None` where the capture ends in it. Built as zeros then.
    pub primary_path: Option<Path>,
    /// The alternate path, all zeros where there is none; `None` where the capture ends in it. Built as zeros then.
    pub alternate_path: Option<Path>,
    /// SAP Supported, the bit behind the alternate path's local ACK timeout; false where the capture ends before it.
    pub sap_supported: bool,
    /// Up to [`Request::PRIVATE_DATA_LENGTH`] bytes.
    pub private_data: &'a [u8],
}

impl<'a> Request<'a> {
    /// Its fields behind the MAD header and where they stand.
    pub const LAYOUT: Layout = Layout(&[
        ("Local Communication ID", 32),
        ("reserved", 8),
        ("Vendor ID", 24),
        ("Service ID", 64),
        ("Local CA GUID", 64),
        ("reserved", 32),
        ("Local Q_Key", 32),
        ("Local QPN", 24),
        ("Responder Resources", 8),
        ("Local EECN", 24),
        ("Initiator Depth", 8),
        ("Remote EECN", 24),
        ("Remote CM Response Timeout", 5),
        ("Transport Service Type", 2),
        ("End-to-End Flow Control", 1),
        ("Starting PSN", 24),
        ("Local CM Response Timeout", 5),
        ("Retry Count", 3),
        ("Partition Key", 16),
        ("Path Packet Payload MTU", 4),
        ("RDC Exists", 1),
        ("RNR Retry Count", 3),
        ("Max CM Retries", 4),
        ("SRQ", 1),
        ("Extended Transport Type", 3),
        ("Primary Local Port LID", 16),
        ("Primary Remote Port LID", 16),
        ("Primary Local Port GID", 128),
        ("Primary Remote Port GID", 128),
        ("Primary Flow Label", 20),
        ("reserved", 6),
        ("Primary Packet Rate", 6),
        ("Primary Traffic Class", 8),
        ("Primary Hop Limit", 8),
        ("Primary SL", 4),
        ("Primary Subnet Local", 1),
        ("reserved", 3),
        ("Primary Local ACK Timeout", 5),
        ("reserved", 3),
        ("Alternate Local Port LID", 16),
        ("Alternate Remote Port LID", 16),
        ("Alternate Local Port GID", 128),
        ("Alternate Remote Port GID", 128),
        ("Alternate Flow Label", 20),
        ("reserved", 6),
        ("Alternate Packet Rate", 6),
        ("Alternate Traffic Class", 8),
        ("Alternate Hop Limit", 8),
        ("Alternate SL", 4),
        ("Alternate Subnet Local", 1),
        ("reserved", 3),
        ("Alternate Local ACK Timeout", 5),
        ("SAP Supported", 1),
        ("reserved", 2),
        ("Private Data", 736),
    ]);
    /// The attribute ID.
    pub const ATTRIBUTE: u16 = 0x0010;
    /// Bytes of private data.
    pub const PRIVATE_DATA_LENGTH: usize = 92;

    pub(super) fn parse(fields: &mut Fields<'a>) -> Result<Request<'a>, Stop> {
        let local_communication_id = fields.communication_id()?;
        let vendor_id = fields.u32()? & 0x00ff_ffff;
        let service_id = ServiceId(fields.u64()?);
        let local_ca_guid = fields.u64()?;
        fields.u32()?;
        let local_queue_key = fields.u32()?;
        let (local_qpn, responder_resources) = fields.u24_u8()?;
        let (local_eecn, initiator_depth) = fields.u24_u8()?;
        let (remote_eecn, remote) = fields.u24_u8()?;
        let (starting_psn, local) = fields.u24_u8()?;
        let partition_key = fields.u16()?;
        let [path, retries] = fields.take()?;
        // A capture that keeps 160 bytes of a frame ends in a path. What is in front, queue pair and PSN above all, is too
        // good to be given up for that.
        let primary_path = Path::parse_in_request(fields).ok();
        let alternate_path = primary_path.and_then(|_| Path::parse_in_request(fields).ok());
        Ok(Request {
            local_communication_id,
            vendor_id,
            service_id,
            local_ca_guid,
            local_queue_key,
            local_qpn: Qpn(local_qpn),
            responder_resources,
            local_eecn,
            initiator_depth,
            remote_eecn,
            remote_cm_response_timeout: remote >> 3,
            transport_service_type: TransportServiceType::from_bits(remote >> 1),
            end_to_end_flow_control: remote & 1 != 0,
            starting_psn: Psn::new(starting_psn),
            local_cm_response_timeout: local >> 3,
            retry_count: local & 7,
            partition_key,
            path_packet_payload_mtu: path >> 4,
            rdc_exists: path & 0x08 != 0,
            rnr_retry_count: path & 7,
            max_cm_retries: retries >> 4,
            srq: retries & 0x08 != 0,
            extended_transport_type: retries & 7,
            primary_path: primary_path.map(|(path, _)| path),
            alternate_path: alternate_path.map(|(path, _)| path),
            sap_supported: alternate_path.is_some_and(|(_, rest)| rest & 0x04 != 0),
            private_data: match alternate_path {
                Some(_) => fields.opaque(Request::PRIVATE_DATA_LENGTH),
                None => &[],
            },
        })
    }

    pub(super) fn build(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.local_communication_id.0.to_be_bytes());
        out.extend_from_slice(&(self.vendor_id & 0x00ff_ffff).to_be_bytes());
        out.extend_from_slice(&self.service_id.0.to_be_bytes());
        out.extend_from_slice(&self.local_ca_guid.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.local_queue_key.to_be_bytes());
        put_u24_u8(out, self.local_qpn.0, self.responder_resources);
        put_u24_u8(out, self.local_eecn, self.initiator_depth);
        put_u24_u8(
            out,
            self.remote_eecn,
            self.remote_cm_response_timeout << 3
                | self.transport_service_type.bits() << 1
                | flag(self.end_to_end_flow_control, 0x01),
        );
        put_u24_u8(
            out,
            self.starting_psn.value(),
            self.local_cm_response_timeout << 3 | self.retry_count & 7,
        );
        out.extend_from_slice(&self.partition_key.to_be_bytes());
        out.push(self.path_packet_payload_mtu << 4 | flag(self.rdc_exists, 0x08) | self.rnr_retry_count & 7);
        out.push(self.max_cm_retries << 4 | flag(self.srq, 0x08) | self.extended_transport_type & 7);
        self.primary_path.unwrap_or_default().build_in_request(0, out);
        self.alternate_path.unwrap_or_default().build_in_request(flag(self.sap_supported, 0x04), out);
        put_padded(out, self.private_data, Request::PRIVATE_DATA_LENGTH);
    }

    /// The path MTU in bytes, 256 to 4096; `None` where its encoding is reserved.
    #[inline]
    pub const fn path_mtu_bytes(&self) -> Option<u16> {
        mtu_bytes(self.path_packet_payload_mtu)
    }

    /// The header of the RDMA connection manager at the front of the private data and the consumer's private data behind it,
    /// where the service ID says that there is one. An error where the capture ends in it.
    #[inline]
    pub fn rdma_cm_ip(&self) -> Option<Result<(rdma_cm_ip::Header, &'a [u8]), Stop>> {
        self.service_id.rdma_cm_port().map(|_| rdma_cm_ip::Header::parse(self.private_data))
    }

    /// The private data without the header of the RDMA connection manager, as far as it is there.
    #[inline]
    pub fn consumer_private_data(&self) -> &'a [u8] {
        match self.rdma_cm_ip() {
            None => self.private_data,
            Some(Ok((_, consumer))) => consumer,
            Some(Err(_)) => &[],
        }
    }
}

/// The path MTU that an encoding stands for, in bytes: 1 is 256, 5 is 4096; `None` for the reserved ones.
pub const fn mtu_bytes(encoded: u8) -> Option<u16> {
    match encoded {
        1..=5 => Some(128 << encoded),
        _ => None,
    }
}

/// The encoding of a path MTU of `bytes`, which has to be one of 256, 512, 1024, 2048 and 4096.
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

/// The transport service that a connection is asked to have: two bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransportServiceType {
    /// 0: RC.
    ReliableConnection,
    /// 1: UC.
    UnreliableConnection,
    /// 2: RD.
    ReliableDatagram,
    /// 3: the extended transport type says which.
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

    /// The number on the wire.
    pub const fn bits(self) -> u8 {
        match self {
            TransportServiceType::ReliableConnection => 0,
            TransportServiceType::UnreliableConnection => 1,
            TransportServiceType::ReliableDatagram => 2,
            TransportServiceType::Extended => 3,
        }
    }
}

/// REP, ConnectReply: the passive side accepts (section 12.6.8).
///
/// ```text
///   0 Local Communication ID 32            24 Responder Resources 8
///   4 Remote Communication ID 32           25 Initiator Depth 8
///   8 Local Q_Key 32                       26 Target ACK Delay 5, Failover Accepted 2, End-to-End Flow Control 1
///  12 Local QPN 24, Vendor ID 23-16        27 RNR Retry Count 3, SRQ 1, reserved 4
///  16 Local EECN 24, Vendor ID 15-8        28 Local CA GUID 64
///  20 Starting PSN 24, Vendor ID 7-0       36 Private Data, 196 bytes
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// What the passive side calls the connection.
    pub local_communication_id: CommunicationId,
    /// What the active side calls it.
    pub remote_communication_id: CommunicationId,
    /// Q_Key, for datagrams.
    pub local_queue_key: u32,
    /// The queue pair of the passive side.
    pub local_qpn: Qpn,
    /// The end-to-end context of reliable datagrams, 24 bits.
    pub local_eecn: u32,
    /// The PSN at which the passive side expects to receive: the first request of the active side carries it.
    pub starting_psn: Psn,
    /// Vendor ID, 24 bits: whose options the MAD's attribute modifier selects; 0: nobody's.
    pub vendor_id: u32,
    /// RDMA READ and ATOMIC requests that the passive side can have outstanding towards it.
    pub responder_resources: u8,
    /// RDMA READ and ATOMIC requests that the passive side means to have outstanding.
    pub initiator_depth: u8,
    /// The longest time from a message to its acknowledgement, encoded in 5 bits: see [`timeout`](super::timeout).
    pub target_ack_delay: u8,
    /// What became of the alternate path, 2 bits; 0: accepted.
    pub failover_accepted: u8,
    /// Whether the passive side implements end-to-end flow control.
    pub end_to_end_flow_control: bool,
    /// Times to retry after an RNR NAK, 3 bits; 7: without end.
    pub rnr_retry_count: u8,
    /// Whether the passive side's queue pair has a shared receive queue.
    pub srq: bool,
    /// The channel adapter of the passive side.
    pub local_ca_guid: u64,
    /// Up to [`Reply::PRIVATE_DATA_LENGTH`] bytes.
    pub private_data: &'a [u8],
}

impl<'a> Reply<'a> {
    /// Its fields behind the MAD header and where they stand.
    pub const LAYOUT: Layout = Layout(&[
        ("Local Communication ID", 32),
        ("Remote Communication ID", 32),
        ("Local Q_Key", 32),
        ("Local QPN", 24),
        ("Vendor ID 23-16", 8),
        ("Local EECN", 24),
        ("Vendor ID 15-8", 8),
        ("Starting PSN", 24),
        ("Vendor ID 7-0", 8),
        ("Responder Resources", 8),
        ("Initiator Depth", 8),
        ("Target ACK Delay", 5),
        ("Failover Accepted", 2),
        ("End-to-End Flow Control", 1),
        ("RNR Retry Count", 3),
        ("SRQ", 1),
        ("reserved", 4),
        ("Local CA GUID", 64),
        ("Private Data", 1568),
    ]);
    /// The attribute ID.
    pub const ATTRIBUTE: u16 = 0x0013;
    /// Bytes of private data.
    pub const PRIVATE_DATA_LENGTH: usize = 196;

    pub(super) fn parse(fields: &mut Fields<'a>) -> Result<Reply<'a>, Stop> {
        let local_communication_id = fields.communication_id()?;
        let remote_communication_id = fields.communication_id()?;
        let local_queue_key = fields.u32()?;
        let (local_qpn, vendor_high) = fields.u24_u8()?;
        let (local_eecn, vendor_middle) = fields.u24_u8()?;
        let (starting_psn, vendor_low) = fields.u24_u8()?;
        let [responder_resources, initiator_depth, delay, retries] = fields.take()?;
        Ok(Reply {
            local_communication_id,
            remote_communication_id,
            local_queue_key,
            local_qpn: Qpn(local_qpn),
            local_eecn,
            starting_psn: Psn::new(starting_psn),
            vendor_id: u32::from_be_bytes([0, vendor_high, vendor_middle, vendor_low]),
            responder_resources,
            initiator_depth,
            target_ack_delay: delay >> 3,
            failover_accepted: delay >> 1 & 3,
            end_to_end_flow_control: delay & 1 != 0,
            rnr_retry_count: retries >> 5,
            srq: retries & 0x10 != 0,
            local_ca_guid: fields.u64()?,
            private_data: fields.opaque(Reply::PRIVATE_DATA_LENGTH),
        })
    }

    pub(super) fn build(&self, out: &mut Vec<u8>) {
        let [_, vendor_high, vendor_middle, vendor_low] = self.vendor_id.to_be_bytes();
        out.extend_from_slice(&self.local_communication_id.0.to_be_bytes());
        out.extend_from_slice(&self.remote_communication_id.0.to_be_bytes());
        out.extend_from_slice(&self.local_queue_key.to_be_bytes());
        put_u24_u8(out, self.local_qpn.0, vendor_high);
        put_u24_u8(out, self.local_eecn, vendor_middle);
        put_u24_u8(out, self.starting_psn.value(), vendor_low);
        out.push(self.responder_resources);
        out.push(self.initiator_depth);
        out.push(
            self.target_ack_delay << 3
                | (self.failover_accepted & 3) << 1
                | flag(self.end_to_end_flow_control, 0x01),
        );
        out.push(self.rnr_retry_count << 5 | flag(self.srq, 0x10));
        out.extend_from_slice(&self.local_ca_guid.to_be_bytes());
        put_padded(out, self.private_data, Reply::PRIVATE_DATA_LENGTH);
    }
}

/// RTU, ReadyToUse: the active side has its queue pair ready (section 12.6.9).
///
/// ```text
///   0 Local Communication ID 32
///   4 Remote Communication ID 32
///   8 Private Data, 224 bytes
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyToUse<'a> {
    /// What the active side calls the connection.
    pub local_communication_id: CommunicationId,
    /// What the passive side calls it.
    pub remote_communication_id: CommunicationId,
    /// Up to [`ReadyToUse::PRIVATE_DATA_LENGTH`] bytes.
    pub private_data: &'a [u8],
}

impl<'a> ReadyToUse<'a> {
    /// Its fields behind the MAD header and where they stand.
    pub const LAYOUT: Layout =
        Layout(&[("Local Communication ID", 32), ("Remote Communication ID", 32), ("Private Data", 1792)]);
    /// The attribute ID.
    pub const ATTRIBUTE: u16 = 0x0014;
    /// Bytes of private data.
    pub const PRIVATE_DATA_LENGTH: usize = 224;

    pub(super) fn parse(fields: &mut Fields<'a>) -> Result<ReadyToUse<'a>, Stop> {
        Ok(ReadyToUse {
            local_communication_id: fields.communication_id()?,
            remote_communication_id: fields.communication_id()?,
            private_data: fields.opaque(ReadyToUse::PRIVATE_DATA_LENGTH),
        })
    }

    pub(super) fn build(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.local_communication_id.0.to_be_bytes());
        out.extend_from_slice(&self.remote_communication_id.0.to_be_bytes());
        put_padded(out, self.private_data, ReadyToUse::PRIVATE_DATA_LENGTH);
    }
}
