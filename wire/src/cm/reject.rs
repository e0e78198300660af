//! MRA and REJ: messages that delay or refuse an answer.

use super::{CommunicationId, message};
use crate::table::enumerations;

/// MRA, MsgRcptAck: a message was received, but the answer will take longer (section 12.6.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageReceiptAcknowledgement<'a> {
    /// The sender's communication ID.
    pub local_communication_id: CommunicationId,
    /// The receiver's communication ID.
    pub remote_communication_id: CommunicationId,
    /// The message that was received.
    pub message_acknowledged: Acknowledged,
    /// Maximum time until the answer, encoded in 5 bits: see [`timeout`](super::timeout).
    pub service_timeout: u8,
    /// Up to [`MessageReceiptAcknowledgement::PRIVATE_DATA_LENGTH`] bytes.
    pub private_data: &'a [u8],
}

impl MessageReceiptAcknowledgement<'_> {
    /// The attribute ID.
    pub const ATTRIBUTE: u16 = 0x0011;
    /// Length of the private data in bytes.
    pub const PRIVATE_DATA_LENGTH: usize = 222;
}

message! {
    MessageReceiptAcknowledgement {
        32 "Local Communication ID" local_communication_id;
        32 "Remote Communication ID" remote_communication_id;
        2 "Message MRAed" message_acknowledged, 6 reserved;
        5 "Service Timeout" service_timeout, 3 reserved;
    }
    "Private Data" private_data: PRIVATE_DATA_LENGTH;
}

/// The message that an MRA acknowledges, 2 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Acknowledged {
    /// 0: a REQ.
    #[default]
    Request,
    /// 1: a REP.
    Reply,
    /// 2: a LAP.
    LoadAlternatePath,
    /// 3.
    Reserved,
}

impl Acknowledged {
    const fn from_bits(bits: u8) -> Acknowledged {
        match bits & 3 {
            0 => Acknowledged::Request,
            1 => Acknowledged::Reply,
            2 => Acknowledged::LoadAlternatePath,
            _ => Acknowledged::Reserved,
        }
    }

    /// Returns the number on the wire.
    pub const fn bits(self) -> u8 {
        match self {
            Acknowledged::Request => 0,
            Acknowledged::Reply => 1,
            Acknowledged::LoadAlternatePath => 2,
            Acknowledged::Reserved => 3,
        }
    }
}

/// REJ, ConnectReject: the sender refuses or abandons a connection (section 12.6.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reject<'a> {
    /// The sender's communication ID; 0 if it has not assigned one.
    pub local_communication_id: CommunicationId,
    /// The receiver's communication ID.
    pub remote_communication_id: CommunicationId,
    /// The message that is rejected.
    pub message_rejected: Rejected,
    /// Valid bytes of the additional information, according to the sender. The field has 7 bits, so
    /// the value may exceed the length of the information.
    pub reject_info_length: u8,
    /// The reason; [`reject_reason_name`] decodes it.
    pub reason: u16,
    /// Up to [`Reject::ADDITIONAL_INFORMATION_LENGTH`] bytes. The meaning depends on the reason.
    pub additional_information: &'a [u8],
    /// Up to [`Reject::PRIVATE_DATA_LENGTH`] bytes.
    pub private_data: &'a [u8],
}

impl Reject<'_> {
    /// The attribute ID.
    pub const ATTRIBUTE: u16 = 0x0012;
    /// Length of the additional information in bytes.
    pub const ADDITIONAL_INFORMATION_LENGTH: usize = 72;
    /// Length of the private data in bytes.
    pub const PRIVATE_DATA_LENGTH: usize = 148;
}

message! {
    Reject {
        32 "Local Communication ID" local_communication_id;
        32 "Remote Communication ID" remote_communication_id;
        2 "Message REJected" message_rejected, 6 reserved;
        7 "Reject Info Length" reject_info_length, 1 reserved;
        16 "Reason" reason;
    }
    "Additional Reject Information" additional_information: ADDITIONAL_INFORMATION_LENGTH;
    "Private Data" private_data: PRIVATE_DATA_LENGTH;
}

/// The message that a REJ rejects, 2 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rejected {
    /// 0: a REQ.
    #[default]
    Request,
    /// 1: a REP.
    Reply,
    /// 2: no message, or another one.
    Other,
    /// 3.
    Reserved,
}

impl Rejected {
    const fn from_bits(bits: u8) -> Rejected {
        match bits & 3 {
            0 => Rejected::Request,
            1 => Rejected::Reply,
            2 => Rejected::Other,
            _ => Rejected::Reserved,
        }
    }

    /// Returns the number on the wire.
    pub const fn bits(self) -> u8 {
        match self {
            Rejected::Request => 0,
            Rejected::Reply => 1,
            Rejected::Other => 2,
            Rejected::Reserved => 3,
        }
    }
}

enumerations! { Acknowledged, Rejected }

/// The name of the reason that an upper-layer protocol gives in the private data of a REJ with
/// reason 28. `port` is the port in the service ID of the REQ. `None` if the protocol or the reason
/// is unknown.
///
/// Lustre (o2iblnd): the magic number 0x0be91b91, a version of two bytes, and the reason, in the
/// byte order of the sender. NVMe over RDMA: a record format of 0 and a status, of two bytes each,
/// little-endian.
pub fn consumer_reason_name(private_data: &[u8], port: Option<u16>) -> Option<&'static str> {
    const NVME: [&str; 9] = [
        "NVMe: invalid length",
        "NVMe: invalid record format",
        "NVMe: invalid queue ID",
        "NVMe: invalid host send queue size",
        "NVMe: invalid host receive queue size",
        "NVMe: no resources",
        "NVMe: invalid IRD",
        "NVMe: invalid ORD",
        "NVMe: invalid controller ID",
    ];
    const LUSTRE: [&str; 9] = [
        "Lustre: lost a connection race",
        "Lustre: no resources",
        "Lustre: fatal error",
        "Lustre: incompatible version",
        "Lustre: stale connection",
        "Lustre: different number of RDMA fragments",
        "Lustre: different message queue size",
        "Lustre: invalid service ID",
        "Lustre: not ready yet",
    ];
    let (names, number) = match *private_data.first_chunk::<8>()? {
        [0x0b, 0xe9, 0x1b, 0x91, _, _, why, _] | [0x91, 0x1b, 0xe9, 0x0b, _, _, why, _] => (&LUSTRE, why),
        [0, 0, status, 0, ..] if port == Some(4420) => (&NVME, status),
        _ => return None,
    };
    names.get(usize::from(number).checked_sub(1)?).copied()
}

/// Describes the reason of a REJ (section 12.6.7.2). `None` for unassigned numbers.
pub const fn reject_reason_name(reason: u16) -> Option<&'static str> {
    Some(match reason {
        1 => "no QP available",
        2 => "no EEC available",
        3 => "no resources available",
        4 => "timeout",
        5 => "unsupported request",
        6 => "invalid communication ID",
        7 => "invalid communication instance",
        8 => "invalid service ID",
        9 => "invalid transport service type",
        10 => "stale connection",
        11 => "RDC does not exist",
        12 => "primary remote port GID rejected",
        13 => "primary remote port LID rejected",
        14 => "invalid primary SL",
        15 => "invalid primary traffic class",
        16 => "invalid primary hop limit",
        17 => "invalid primary packet rate",
        18 => "alternate remote port GID rejected",
        19 => "alternate remote port LID rejected",
        20 => "invalid alternate SL",
        21 => "invalid alternate traffic class",
        22 => "invalid alternate hop limit",
        23 => "invalid alternate packet rate",
        24 => "port and CM redirection",
        25 => "port redirection",
        26 => "invalid path MTU",
        27 => "insufficient responder resources",
        28 => "consumer reject",
        29 => "RNR retry count reject",
        30 => "duplicate local communication ID",
        31 => "unsupported class version",
        32 => "invalid primary flow label",
        33 => "invalid alternate flow label",
        35 => "vendor option not supported",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::consumer_reason_name;

    /// From the headers of Linux and Lustre: nvme-rdma.h, o2iblnd-idl.h.
    #[test]
    fn consumer_reject_reasons_are_named() {
        let nvme = |status: u8| [0, 0, status, 0, 0, 0, 0, 0];
        assert_eq!(consumer_reason_name(&nvme(6), Some(4420)), Some("NVMe: no resources"));
        assert_eq!(consumer_reason_name(&nvme(9), Some(4420)), Some("NVMe: invalid controller ID"));
        for (bytes, port) in [(nvme(0), 4420), (nvme(10), 4420), (nvme(6), 20_049)] {
            assert_eq!(consumer_reason_name(&bytes, Some(port)), None);
        }
        assert_eq!(consumer_reason_name(&nvme(6), None), None);
        let little = [0x91, 0x1b, 0xe9, 0x0b, 0x12, 0, 7, 0];
        let big = [0x0b, 0xe9, 0x1b, 0x91, 0, 0x12, 5, 0];
        assert_eq!(consumer_reason_name(&little, Some(987)), Some("Lustre: different message queue size"));
        assert_eq!(consumer_reason_name(&big, None), Some("Lustre: stale connection"));
        for length in 0..8 {
            assert_eq!(consumer_reason_name(&little[..length], Some(987)), None);
        }
    }
}
