//! Paths, and LAP and APR, which give a connection another one.

use super::{CommunicationId, Fields, Gid, flag, put_padded, put_u24_u8};
use crate::layout::Layout;
use crate::{Qpn, Stop};
use alloc::vec::Vec;

/// A path between two ports. REQ and LAP have the same fields in two layouts.
///
/// ```text
/// in REQ                                   in LAP
///   0 Local Port LID 16                      0 Local Port LID 16
///   2 Remote Port LID 16                     2 Remote Port LID 16
///   4 Local Port GID 128                     4 Local Port GID 128
///  20 Remote Port GID 128                   20 Remote Port GID 128
///  36 Flow Label 20, reserved 6,            36 Flow Label 20, reserved 4, Traffic Class 8
///     Packet Rate 6                         40 Hop Limit 8
///  40 Traffic Class 8                       41 reserved 2, Packet Rate 6
///  41 Hop Limit 8                           42 SL 4, Subnet Local 1, reserved 3
///  42 SL 4, Subnet Local 1, reserved 3      43 Local ACK Timeout 5, reserved 3
///  43 Local ACK Timeout 5, reserved 3
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Path {
    /// The sender's LID; 0xffff on an Ethernet.
    pub local_lid: u16,
    /// The receiver's LID; 0xffff on an Ethernet.
    pub remote_lid: u16,
    /// The sender's GID: on RoCEv2 its IP address.
    pub local_gid: Gid,
    /// The receiver's GID: on RoCEv2 its IP address.
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
    /// Whether both ports are in one subnet.
    pub subnet_local: bool,
    /// Time to wait for an acknowledgement, encoded in 5 bits: see [`timeout`](super::timeout); 0: for ever.
    pub local_ack_timeout: u8,
}

impl Path {
    /// Also returns the three bits behind the local ACK timeout, where the alternate path of a REQ has SAP Supported.
    pub(super) fn parse_in_request(fields: &mut Fields<'_>) -> Result<(Path, u8), Stop> {
        let mut path = Path::parse_ports(fields)?;
        let label_and_rate = fields.u32()?;
        path.flow_label = label_and_rate >> 12;
        path.packet_rate = label_and_rate as u8 & 0x3f;
        path.traffic_class = fields.u8()?;
        path.hop_limit = fields.u8()?;
        let rest = path.parse_end(fields)?;
        Ok((path, rest))
    }

    /// `rest`: the three bits behind the local ACK timeout.
    pub(super) fn build_in_request(&self, rest: u8, out: &mut Vec<u8>) {
        self.build_ports(out);
        let label_and_rate = self.flow_label << 12 | u32::from(self.packet_rate & 0x3f);
        out.extend_from_slice(&label_and_rate.to_be_bytes());
        out.push(self.traffic_class);
        out.push(self.hop_limit);
        self.build_end(rest, out);
    }

    fn parse_in_load_alternate_path(fields: &mut Fields<'_>) -> Result<Path, Stop> {
        let mut path = Path::parse_ports(fields)?;
        let (label, traffic_class) = fields.u24_u8()?;
        path.flow_label = label >> 4;
        path.traffic_class = traffic_class;
        path.hop_limit = fields.u8()?;
        path.packet_rate = fields.u8()? & 0x3f;
        path.parse_end(fields)?;
        Ok(path)
    }

    fn build_in_load_alternate_path(&self, out: &mut Vec<u8>) {
        self.build_ports(out);
        put_u24_u8(out, self.flow_label << 4, self.traffic_class);
        out.push(self.hop_limit);
        out.push(self.packet_rate & 0x3f);
        self.build_end(0, out);
    }

    fn parse_ports(fields: &mut Fields<'_>) -> Result<Path, Stop> {
        Ok(Path {
            local_lid: fields.u16()?,
            remote_lid: fields.u16()?,
            local_gid: Gid(fields.take()?),
            remote_gid: Gid(fields.take()?),
            ..Path::default()
        })
    }

    fn build_ports(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.local_lid.to_be_bytes());
        out.extend_from_slice(&self.remote_lid.to_be_bytes());
        out.extend_from_slice(&self.local_gid.0);
        out.extend_from_slice(&self.remote_gid.0);
    }

    fn parse_end(&mut self, fields: &mut Fields<'_>) -> Result<u8, Stop> {
        let level = fields.u8()?;
        self.service_level = level >> 4;
        self.subnet_local = level & 0x08 != 0;
        let timeout = fields.u8()?;
        self.local_ack_timeout = timeout >> 3;
        Ok(timeout & 7)
    }

    fn build_end(&self, rest: u8, out: &mut Vec<u8>) {
        out.push(self.service_level << 4 | flag(self.subnet_local, 0x08));
        out.push(self.local_ack_timeout << 3 | rest & 7);
    }
}

/// LAP, LoadAlternatePath: the active side names another path (section 12.8.1).
///
/// ```text
///   0 Local Communication ID 32
///   4 Remote Communication ID 32
///   8 reserved 32
///  12 Remote QPN/EECN 24, Remote CM Response Timeout 5, reserved 3
///  16 reserved 32
///  20 alternate path, 44 bytes
///  64 Private Data, 168 bytes
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadAlternatePath<'a> {
    /// What the sender calls the connection.
    pub local_communication_id: CommunicationId,
    /// What the receiver calls it.
    pub remote_communication_id: CommunicationId,
    /// The receiver's queue pair, or its end-to-end context where the service is reliable datagram.
    pub remote_qpn: Qpn,
    /// Time for the receiver to answer, encoded in 5 bits: see [`timeout`](super::timeout).
    pub remote_cm_response_timeout: u8,
    /// The path.
    pub alternate_path: Path,
    /// Up to [`LoadAlternatePath::PRIVATE_DATA_LENGTH`] bytes.
    pub private_data: &'a [u8],
}

impl<'a> LoadAlternatePath<'a> {
    /// Its fields behind the MAD header and where they stand.
    pub const LAYOUT: Layout = Layout(&[
        ("Local Communication ID", 32),
        ("Remote Communication ID", 32),
        ("reserved", 32),
        ("Remote QPN/EECN", 24),
        ("Remote CM Response Timeout", 5),
        ("reserved", 3),
        ("reserved", 32),
        ("Alternate Local Port LID", 16),
        ("Alternate Remote Port LID", 16),
        ("Alternate Local Port GID", 128),
        ("Alternate Remote Port GID", 128),
        ("Alternate Flow Label", 20),
        ("reserved", 4),
        ("Alternate Traffic Class", 8),
        ("Alternate Hop Limit", 8),
        ("reserved", 2),
        ("Alternate Packet Rate", 6),
        ("Alternate SL", 4),
        ("Alternate Subnet Local", 1),
        ("reserved", 3),
        ("Alternate Local ACK Timeout", 5),
        ("reserved", 3),
        ("Private Data", 1344),
    ]);
    /// The attribute ID.
    pub const ATTRIBUTE: u16 = 0x0019;
    /// Bytes of private data.
    pub const PRIVATE_DATA_LENGTH: usize = 168;

    pub(super) fn parse(fields: &mut Fields<'a>) -> Result<LoadAlternatePath<'a>, Stop> {
        let local_communication_id = fields.communication_id()?;
        let remote_communication_id = fields.communication_id()?;
        fields.u32()?;
        let (remote_qpn, timeout) = fields.u24_u8()?;
        fields.u32()?;
        Ok(LoadAlternatePath {
            local_communication_id,
            remote_communication_id,
            remote_qpn: Qpn(remote_qpn),
            remote_cm_response_timeout: timeout >> 3,
            alternate_path: Path::parse_in_load_alternate_path(fields)?,
            private_data: fields.opaque(LoadAlternatePath::PRIVATE_DATA_LENGTH),
        })
    }

    pub(super) fn build(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.local_communication_id.0.to_be_bytes());
        out.extend_from_slice(&self.remote_communication_id.0.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        put_u24_u8(out, self.remote_qpn.0, self.remote_cm_response_timeout << 3);
        out.extend_from_slice(&[0; 4]);
        self.alternate_path.build_in_load_alternate_path(out);
        put_padded(out, self.private_data, LoadAlternatePath::PRIVATE_DATA_LENGTH);
    }
}

/// APR, AlternatePathResponse: answers a LAP (section 12.8.2).
///
/// ```text
///   0 Local Communication ID 32
///   4 Remote Communication ID 32
///   8 Additional Information Length 8
///   9 AP Status 8
///  10 reserved 16
///  12 Additional Information, 72 bytes
///  84 Private Data, 148 bytes
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlternatePathResponse<'a> {
    /// What the sender calls the connection.
    pub local_communication_id: CommunicationId,
    /// What the receiver calls it.
    pub remote_communication_id: CommunicationId,
    /// Bytes of the additional information that mean something, as the sender says.
    pub additional_information_length: u8,
    /// What became of the path: [`alternate_path_status_name`] knows the numbers.
    pub status: u8,
    /// Up to [`AlternatePathResponse::ADDITIONAL_INFORMATION_LENGTH`] bytes, whose meaning depends on the status.
    pub additional_information: &'a [u8],
    /// Up to [`AlternatePathResponse::PRIVATE_DATA_LENGTH`] bytes.
    pub private_data: &'a [u8],
}

impl<'a> AlternatePathResponse<'a> {
    /// Its fields behind the MAD header and where they stand.
    pub const LAYOUT: Layout = Layout(&[
        ("Local Communication ID", 32),
        ("Remote Communication ID", 32),
        ("Additional Information Length", 8),
        ("AP Status", 8),
        ("reserved", 16),
        ("Additional Information", 576),
        ("Private Data", 1184),
    ]);
    /// The attribute ID.
    pub const ATTRIBUTE: u16 = 0x001a;
    /// Bytes of additional information.
    pub const ADDITIONAL_INFORMATION_LENGTH: usize = 72;
    /// Bytes of private data.
    pub const PRIVATE_DATA_LENGTH: usize = 148;

    pub(super) fn parse(fields: &mut Fields<'a>) -> Result<AlternatePathResponse<'a>, Stop> {
        let local_communication_id = fields.communication_id()?;
        let remote_communication_id = fields.communication_id()?;
        let [additional_information_length, status, _, _] = fields.take()?;
        Ok(AlternatePathResponse {
            local_communication_id,
            remote_communication_id,
            additional_information_length,
            status,
            additional_information: fields.opaque(AlternatePathResponse::ADDITIONAL_INFORMATION_LENGTH),
            private_data: fields.opaque(AlternatePathResponse::PRIVATE_DATA_LENGTH),
        })
    }

    pub(super) fn build(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.local_communication_id.0.to_be_bytes());
        out.extend_from_slice(&self.remote_communication_id.0.to_be_bytes());
        out.extend_from_slice(&[self.additional_information_length, self.status, 0, 0]);
        put_padded(out, self.additional_information, AlternatePathResponse::ADDITIONAL_INFORMATION_LENGTH);
        put_padded(out, self.private_data, AlternatePathResponse::PRIVATE_DATA_LENGTH);
    }
}

/// What the AP Status of an APR means (section 12.8.2), or `None` for a number that is not assigned.
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
