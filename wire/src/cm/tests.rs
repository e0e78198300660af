// Digits are grouped by field.
#![allow(clippy::unusual_byte_groupings)]

mod captured;

use super::*;
use crate::psn::Psn;
use crate::rdma_cm_ip::PortSpace;
use crate::{Cause, Qpn};
use proptest::prelude::*;

const TRANSACTION: u64 = 0x0123_4567_89ab_cdef;

/// All attribute IDs, each with the length below which parsing stops: the offset of the opaque
/// fields or, in a REQ, of the primary path.
const ATTRIBUTES: [(u16, usize); 11] = [
    (0x0010, 52),
    (0x0011, 10),
    (0x0012, 12),
    (0x0013, 36),
    (0x0014, 8),
    (0x0015, 12),
    (0x0016, 8),
    (0x0017, 16),
    (0x0018, 24),
    (0x0019, 64),
    (0x001a, 12),
];

fn mad(attribute: u16, data: &[u8]) -> Vec<u8> {
    let mut mad = Vec::new();
    mad::Header::communication_management(attribute, TRANSACTION).build(&mut mad);
    mad.extend_from_slice(data);
    mad
}

/// Parses `front` followed by zeros, compares, builds, compares again.
#[track_caller]
fn both_ways(attribute: u16, name: &str, front: &[u8], expected: Message<'_>) {
    let mut bytes = mad(attribute, front);
    bytes.resize(mad::LENGTH, 0);
    let (header, message) = Message::parse(&bytes).unwrap();
    assert_eq!(header, expected.header(TRANSACTION));
    assert_eq!(message, expected);
    assert_eq!((message.name(), message.attribute()), (name, attribute));
    assert!(!message.is_cut());
    let mut built = vec![0xee];
    message.build(&header, &mut built);
    assert_eq!(built[1..], bytes);
}

/// Pads `front` with zeros to an opaque field of `length` bytes.
fn padded(front: &[u8], length: usize) -> Vec<u8> {
    let mut bytes = front.to_vec();
    bytes.resize(length, 0);
    bytes
}

// Messages written by hand from the tables of chapter 12. Each field has a distinct value.

#[rustfmt::skip]
const REQUEST: [u8; 144] = [
    0x01, 0x02, 0x03, 0x04, 0x00, 0xa1, 0xa2, 0xa3, // local communication ID; reserved, vendor ID
    0x00, 0x00, 0x00, 0x00, 0x01, 0x06, 0x4e, 0x51, // service ID
    0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, // local CA GUID
    0x00, 0x00, 0x00, 0x00, 0x21, 0x22, 0x23, 0x24, // reserved; local Q_Key
    0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, // QPN, responder resources; EECN, initiator depth
    0x41, 0x42, 0x43, 0b10100_01_1,                 // remote EECN; timeout 20, UC, end-to-end flow control
    0x51, 0x52, 0x53, 0b10011_110,                  // starting PSN; timeout 19, retry count 6
    0xff, 0xfe, 0b0101_1_101, 0b1111_1_001,         // P_Key; MTU 5, RDC, RNR retries 5; 15 retries, SRQ, XRC
    0xfa, 0xfb, 0xfc, 0xfd,                         // primary path: LIDs
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, 2,
    0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
    0x7a, 0x3d, 0xf0, 0x2a, 0x61, 0x40,             // flow label, reserved, rate 42; traffic class; hop limit
    0b0011_1_000, 0b10011_000,                      // SL 3, subnet local; local ACK timeout 19
    0x0a, 0x0b, 0x0c, 0x0d,                         // alternate path: LIDs
    0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3,
    0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4,
    0x12, 0x34, 0x50, 0x15, 0x62, 0x41,             // flow label, reserved, rate 21; traffic class; hop limit
    0b1100_0_000, 0b01100_1_00,                     // SL 12, not subnet local; local ACK timeout 12, SAP
    0x71, 0x72, 0x73, 0x74,                         // private data
];

#[test]
fn connect_request() {
    let gid = |address: &str| Gid::from(address.parse::<IpAddr>().unwrap());
    let expected = Request {
        local_communication_id: CommunicationId(0x0102_0304),
        vendor_id: 0xa1_a2a3,
        service_id: ServiceId::rdma_cm(PortSpace::Tcp, 20049),
        local_ca_guid: 0x1112_1314_1516_1718,
        local_queue_key: 0x2122_2324,
        local_qpn: Qpn(0x31_3233),
        responder_resources: 0x34,
        local_eecn: 0x35_3637,
        initiator_depth: 0x38,
        remote_eecn: 0x41_4243,
        remote_cm_response_timeout: 20,
        transport_service_type: TransportServiceType::UnreliableConnection,
        end_to_end_flow_control: true,
        starting_psn: Psn::new(0x51_5253),
        local_cm_response_timeout: 19,
        retry_count: 6,
        partition_key: 0xfffe,
        path_packet_payload_mtu: 5,
        rdc_exists: true,
        rnr_retry_count: 5,
        max_cm_retries: 15,
        srq: true,
        extended_transport_type: 1,
        primary_path: Some(Path {
            local_lid: 0xfafb,
            remote_lid: 0xfcfd,
            local_gid: gid("10.77.0.2"),
            remote_gid: gid("fd00::1"),
            flow_label: 0x7a3df,
            packet_rate: 42,
            traffic_class: 0x61,
            hop_limit: 0x40,
            service_level: 3,
            subnet_local: true,
            local_ack_timeout: 19,
        }),
        alternate_path: Some(Path {
            local_lid: 0x0a0b,
            remote_lid: 0x0c0d,
            local_gid: gid("fe80::3"),
            remote_gid: gid("fe80::4"),
            flow_label: 0x12345,
            packet_rate: 21,
            traffic_class: 0x62,
            hop_limit: 0x41,
            service_level: 12,
            subnet_local: false,
            local_ack_timeout: 12,
        }),
        sap_supported: true,
        private_data: &padded(&[0x71, 0x72, 0x73, 0x74], 92),
    };
    assert_eq!(expected.path_mtu_bytes(), Some(4096));
    both_ways(0x0010, "ConnectRequest", &REQUEST, Message::Request(expected));
}

#[test]
fn message_receipt_acknowledgement() {
    let front = [1, 2, 3, 4, 5, 6, 7, 8, 0b10_000000, 0b10001_000, 0x71];
    let expected = MessageReceiptAcknowledgement {
        local_communication_id: CommunicationId(0x0102_0304),
        remote_communication_id: CommunicationId(0x0506_0708),
        message_acknowledged: Acknowledged::LoadAlternatePath,
        service_timeout: 17,
        private_data: &padded(&[0x71], 222),
    };
    both_ways(0x0011, "MsgRcptAck", &front, Message::MessageReceiptAcknowledgement(expected));
}

#[test]
fn connect_reject() {
    let mut front = vec![1, 2, 3, 4, 5, 6, 7, 8, 0b01_000000, 0b0000101_0, 0x00, 28, 0x61, 0x62];
    front.resize(84, 0);
    front.push(0x71);
    let expected = Reject {
        local_communication_id: CommunicationId(0x0102_0304),
        remote_communication_id: CommunicationId(0x0506_0708),
        message_rejected: Rejected::Reply,
        reject_info_length: 5,
        reason: 28,
        additional_information: &padded(&[0x61, 0x62], 72),
        private_data: &padded(&[0x71], 148),
    };
    assert_eq!(reject_reason_name(expected.reason), Some("consumer reject"));
    both_ways(0x0012, "ConnectReject", &front, Message::Reject(expected));
}

#[rustfmt::skip]
const REPLY: [u8; 37] = [
    0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, // communication IDs
    0x21, 0x22, 0x23, 0x24,                         // local Q_Key
    0x31, 0x32, 0x33, 0xa1,                         // local QPN, vendor ID
    0x35, 0x36, 0x37, 0xa2,                         // local EECN, vendor ID
    0x51, 0x52, 0x53, 0xa3,                         // starting PSN, vendor ID
    0x10, 0x80,                                     // responder resources, initiator depth
    0b01111_10_1, 0b110_1_0000,                     // delay 15, failover 2, flow control; RNR retries 6, SRQ
    0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, // local CA GUID
    0x71,                                           // private data
];

#[test]
fn connect_reply() {
    let expected = Reply {
        local_communication_id: CommunicationId(0x0102_0304),
        remote_communication_id: CommunicationId(0x0506_0708),
        local_queue_key: 0x2122_2324,
        local_qpn: Qpn(0x31_3233),
        local_eecn: 0x35_3637,
        starting_psn: Psn::new(0x51_5253),
        vendor_id: 0xa1_a2a3,
        responder_resources: 16,
        initiator_depth: 128,
        target_ack_delay: 15,
        failover_accepted: 2,
        end_to_end_flow_control: true,
        rnr_retry_count: 6,
        srq: true,
        local_ca_guid: 0x1112_1314_1516_1718,
        private_data: &padded(&[0x71], 196),
    };
    both_ways(0x0013, "ConnectReply", &REPLY, Message::Reply(expected));
}

#[test]
fn ready_to_use_and_disconnection() {
    let (local_communication_id, remote_communication_id) =
        (CommunicationId(0x0102_0304), CommunicationId(0x0506_0708));
    let private_data = &padded(&[0x71, 0x72], 224)[..];
    let front = [1, 2, 3, 4, 5, 6, 7, 8, 0x71, 0x72];
    let ready = ReadyToUse { local_communication_id, remote_communication_id, private_data };
    both_ways(0x0014, "ReadyToUse", &front, Message::ReadyToUse(ready));
    let reply = DisconnectReply { local_communication_id, remote_communication_id, private_data };
    both_ways(0x0016, "DisconnectReply", &front, Message::DisconnectReply(reply));

    let front = [1, 2, 3, 4, 5, 6, 7, 8, 0x31, 0x32, 0x33, 0x00, 0x71, 0x72];
    let request = DisconnectRequest {
        local_communication_id,
        remote_communication_id,
        remote_qpn: Qpn(0x31_3233),
        private_data: &private_data[..220],
    };
    both_ways(0x0015, "DisconnectRequest", &front, Message::DisconnectRequest(request));
}

#[test]
fn service_id_resolution() {
    #[rustfmt::skip]
    let front = [
        0x01, 0x02, 0x03, 0x04, 0xff, 0xfe, 0x00, 0x00, // request ID; P_Key, reserved
        0x00, 0x00, 0x00, 0x00, 0x01, 0x11, 0x00, 0x07, // service ID
        0x71,
    ];
    let request = ServiceIdResolutionRequest {
        request_id: 0x0102_0304,
        partition_key: 0xfffe,
        service_id: ServiceId::rdma_cm(PortSpace::Udp, 7),
        private_data: &padded(&[0x71], 216),
    };
    both_ways(0x0017, "ServiceIDResReq", &front, Message::ServiceIdResolutionRequest(request));

    #[rustfmt::skip]
    let mut front = vec![
        0x01, 0x02, 0x03, 0x04, 0x03, 0x48, 0xa1, 0xa2, // request ID; status, length, vendor ID
        0x31, 0x32, 0x33, 0xa3,                         // QPN, vendor ID
        0x00, 0x00, 0x00, 0x00, 0x01, 0x11, 0x00, 0x07, // service ID
        0x80, 0x01, 0x00, 0x00,                         // Q_Key
        0x61,
    ];
    front.resize(96, 0);
    front.push(0x71);
    let reply = ServiceIdResolutionReply {
        request_id: 0x0102_0304,
        status: 3,
        additional_information_length: 72,
        vendor_id: 0xa1_a2a3,
        qpn: Qpn(0x31_3233),
        service_id: ServiceId::rdma_cm(PortSpace::Udp, 7),
        queue_key: 0x8001_0000,
        additional_information: &padded(&[0x61], 72),
        private_data: &padded(&[0x71], 136),
    };
    assert_eq!(service_id_resolution_status_name(reply.status), Some("no QP available"));
    both_ways(0x0018, "ServiceIDResReqResp", &front, Message::ServiceIdResolutionReply(reply));
}

#[test]
fn alternate_paths() {
    #[rustfmt::skip]
    let front = [
        0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, // communication IDs
        0x00, 0x00, 0x00, 0x00,                         // reserved
        0x31, 0x32, 0x33, 0b10100_000,                  // remote QPN, timeout 20
        0x00, 0x00, 0x00, 0x00,                         // reserved
        0x0a, 0x0b, 0x0c, 0x0d,                         // LIDs
        0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3,
        0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4,
        0x12, 0x34, 0x50, 0x62,                         // flow label, reserved, traffic class
        0x41, 0x15, 0b1100_1_000, 0b01100_000,          // hop limit; rate 21; SL 12, subnet local; timeout 12
        0x71,
    ];
    let load = LoadAlternatePath {
        local_communication_id: CommunicationId(0x0102_0304),
        remote_communication_id: CommunicationId(0x0506_0708),
        remote_qpn: Qpn(0x31_3233),
        remote_cm_response_timeout: 20,
        alternate_path: Path {
            local_lid: 0x0a0b,
            remote_lid: 0x0c0d,
            local_gid: Gid([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3]),
            remote_gid: Gid([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4]),
            flow_label: 0x12345,
            packet_rate: 21,
            traffic_class: 0x62,
            hop_limit: 0x41,
            service_level: 12,
            subnet_local: true,
            local_ack_timeout: 12,
        },
        private_data: &padded(&[0x71], 168),
    };
    both_ways(0x0019, "LoadAlternatePath", &front, Message::LoadAlternatePath(load));

    let mut front = vec![1, 2, 3, 4, 5, 6, 7, 8, 0x02, 0x05, 0x00, 0x00, 0x61, 0x62];
    front.resize(84, 0);
    front.push(0x71);
    let response = AlternatePathResponse {
        local_communication_id: CommunicationId(0x0102_0304),
        remote_communication_id: CommunicationId(0x0506_0708),
        additional_information_length: 2,
        status: 5,
        additional_information: &padded(&[0x61, 0x62], 72),
        private_data: &padded(&[0x71], 148),
    };
    assert_eq!(alternate_path_status_name(response.status), Some("alternate path is the current one"));
    both_ways(0x001a, "AlternatePathResponse", &front, Message::AlternatePathResponse(response));
}

#[test]
fn unknown_messages_are_kept() {
    let data = [0xab; mad::DATA_LENGTH];
    let bytes = mad(0x0001, &data);
    let (_, message) = Message::parse(&bytes).unwrap();
    let management_class = ManagementClass::COMMUNICATION_MANAGEMENT;
    assert_eq!(message, Message::Unknown { management_class, attribute: 0x0001, data: &data });

    // Attribute 0x0012 also exists in subnet administration.
    let mut bytes = mad(0x0012, &data);
    bytes[1] = 0x03;
    let (header, message) = Message::parse(&bytes).unwrap();
    let management_class = ManagementClass::SUBNET_ADMINISTRATION;
    assert_eq!(message, Message::Unknown { management_class, attribute: 0x0012, data: &data });
    assert_eq!((message.name(), message.header(TRANSACTION)), ("Unknown", header));
    assert_eq!((message.local_communication_id(), message.is_cut()), (None, false));
    let mut built = Vec::new();
    message.build(&header, &mut built);
    assert_eq!(built, bytes);
}

#[test]
fn bytes_after_the_mad_are_ignored() {
    let bytes = mad(0x0014, &[0xff; mad::DATA_LENGTH + 4]);
    let (_, message) = Message::parse(&bytes).unwrap();
    assert_eq!(message.private_data().len(), 224);
}

#[test]
fn every_truncation_is_located() {
    for (attribute, fixed) in ATTRIBUTES {
        let bytes = mad(attribute, &[0xff; mad::DATA_LENGTH]);
        let (_, complete) = Message::parse(&bytes).unwrap();
        for length in 0..mad::LENGTH {
            let cut = Message::parse(&bytes[..length]);
            if length < mad::Header::LENGTH {
                assert_eq!(cut, Err(Stop::short(Layer::Mad, 0, 24, length)));
                continue;
            }
            let length = length - mad::Header::LENGTH;
            if length < fixed {
                let stop = cut.unwrap_err();
                assert_eq!((stop.layer, stop.cause), (Layer::Cm, Cause::TruncatedPacket));
                assert!(stop.offset <= length && stop.offset + stop.needed > length);
                assert_eq!(stop.available, length - stop.offset);
                continue;
            }
            let (_, message) = cut.unwrap();
            assert!(message.is_cut());
            assert_eq!(message.local_communication_id(), complete.local_communication_id());
            let missing = mad::DATA_LENGTH - length;
            let nominal = complete.private_data().len();
            assert_eq!(message.private_data().len(), nominal.saturating_sub(missing));
        }
    }
}

#[test]
fn request_cut_in_its_paths_keeps_qpn_and_psn() {
    let bytes = mad(0x0010, &REQUEST);
    // A snap length of 160 bytes on IPv4: 14 Ethernet, 20 IP, 8 UDP, 12 BTH and 8 DETH leave 98
    // bytes of the MAD, 74 of the message.
    for (length, primary, alternate) in [(74, false, false), (96, true, false), (140, true, true)] {
        let (_, message) = Message::parse(&bytes[..24 + length]).unwrap();
        let Message::Request(request) = message else { panic!("{}", message.name()) };
        assert_eq!((request.local_qpn, request.starting_psn), (Qpn(0x31_3233), Psn::new(0x51_5253)));
        assert_eq!((request.primary_path.is_some(), request.alternate_path.is_some()), (primary, alternate));
        assert_eq!((request.sap_supported, request.private_data), (alternate, &[][..]));
        assert_eq!(request.rdma_cm_ip(), Some(Err(Stop::short(Layer::PrivateData, 0, 36, 0))));
        assert!(message.is_cut());
    }
}

#[test]
fn bits_that_do_not_fit_are_dropped() {
    let bytes = mad(0x0013, &[0; mad::DATA_LENGTH]);
    let Ok((header, Message::Reply(zeros))) = Message::parse(&bytes) else { panic!("no reply") };
    let wide = Reply {
        local_qpn: Qpn(0xff00_0000),
        local_eecn: 0xff00_0000,
        vendor_id: 0xff00_0000,
        target_ack_delay: 0xe0,
        failover_accepted: 0xfc,
        rnr_retry_count: 0xf8,
        ..zeros
    };
    let mut built = Vec::new();
    Message::Reply(wide).build(&header, &mut built);
    assert_eq!(built, bytes);
}

#[test]
#[should_panic(expected = "225 bytes for a field of 224")]
fn oversized_private_data_panics() {
    let message = Message::ReadyToUse(ReadyToUse {
        local_communication_id: CommunicationId(1),
        remote_communication_id: CommunicationId(2),
        private_data: &[0; 225],
    });
    message.build(&message.header(0), &mut Vec::new());
}

#[test]
fn encodings() {
    assert_eq!([0, 1, 2, 3, 4, 5, 6, 15].map(mtu_bytes), {
        [None, Some(256), Some(512), Some(1024), Some(2048), Some(4096), None, None]
    });
    for encoded in 1..=5 {
        assert_eq!(mtu_bytes(encoded).and_then(mtu_encoding), Some(encoded));
    }
    assert_eq!((mtu_encoding(0), mtu_encoding(1500)), (None, None));
    assert_eq!(timeout(0), Duration::from_nanos(4096));
    assert_eq!(timeout(20), Duration::from_nanos(4_294_967_296));
    assert_eq!(timeout(31).as_secs(), 8796);
    assert_eq!([0, 8, 33, 34, 35, 36].map(reject_reason_name), {
        let (service, label) = ("invalid service ID", "invalid alternate flow label");
        [None, Some(service), Some(label), None, Some("vendor option not supported"), None]
    });
    assert_eq!(CommunicationId(0x7601_ff5a).to_string(), "0x7601ff5a");
    assert_eq!(ServiceId(0x0106_4e51).to_string(), "0x0000000001064e51");
    let gid = Gid::from(IpAddr::from([10, 77, 0, 2]));
    assert_eq!((gid.to_string(), gid.ip().to_string()), ("::ffff:10.77.0.2".into(), "10.77.0.2".into()));
}

/// The reserved bits of the data, as offset and mask.
fn reserved_bits(attribute: u16) -> &'static [(usize, u8)] {
    match attribute {
        0x0010 => &[
            (4, 0xff),
            (24, 0xff),
            (25, 0xff),
            (26, 0xff),
            (27, 0xff),
            (90, 0x0f),
            (91, 0xc0),
            (94, 0x07),
            (95, 0x07),
            (134, 0x0f),
            (135, 0xc0),
            (138, 0x07),
            (139, 0x03),
        ],
        0x0011 => &[(8, 0x3f), (9, 0x07)],
        0x0012 => &[(8, 0x3f), (9, 0x01)],
        0x0013 => &[(27, 0x0f)],
        0x0015 => &[(11, 0xff)],
        0x0017 => &[(6, 0xff), (7, 0xff)],
        0x0019 => &[
            (8, 0xff),
            (9, 0xff),
            (10, 0xff),
            (11, 0xff),
            (15, 0x07),
            (16, 0xff),
            (17, 0xff),
            (18, 0xff),
            (19, 0xff),
            (58, 0x0f),
            (61, 0xc0),
            (62, 0x07),
            (63, 0x07),
        ],
        0x001a => &[(10, 0xff), (11, 0xff)],
        _ => &[],
    }
}

proptest! {
    #[test]
    fn every_unreserved_bit_has_a_field(
        data in proptest::collection::vec(any::<u8>(), mad::DATA_LENGTH),
    ) {
        for (attribute, _) in ATTRIBUTES {
            let bytes = mad(attribute, &data);
            let (header, message) = Message::parse(&bytes).unwrap();
            let mut built = Vec::new();
            message.build(&header, &mut built);
            prop_assert_eq!(Message::parse(&built), Ok((header, message)));
            let mut expected = bytes.clone();
            for (offset, mask) in reserved_bits(attribute) {
                expected[mad::Header::LENGTH + offset] &= !mask;
            }
            prop_assert_eq!(built, expected, "{}", message.name());
        }
    }

    #[test]
    fn arbitrary_bytes_parse_or_stop(
        attribute in 0u16..0x20, bytes in proptest::collection::vec(any::<u8>(), 0..300), class: bool,
    ) {
        let mut bytes = bytes;
        if let (true, Some(header)) = (class, bytes.first_chunk_mut::<18>()) {
            header[1] = 0x07;
            header[16..].copy_from_slice(&attribute.to_be_bytes());
        }
        match Message::parse(&bytes) {
            Ok((header, message)) => {
                prop_assert_eq!(mad::cut(&bytes).is_some(), message.is_cut());
                prop_assert_eq!(message.attribute(), header.attribute);
                let mut built = Vec::new();
                message.build(&header, &mut built);
                prop_assert_eq!(built.len(), mad::LENGTH);
                if let Message::Request(request) = message {
                    let consumer = request.consumer_private_data();
                    prop_assert!(request.private_data.ends_with(consumer));
                }
                // Building fills missing bytes with zeros. A complete message does not change.
                let (_, complete) = Message::parse(&built).unwrap();
                let mut again = Vec::new();
                complete.build(&header, &mut again);
                prop_assert_eq!(again, built);
            }
            Err(stop) => prop_assert!(stop.offset + stop.needed > stop.offset + stop.available),
        }
    }
}

/// The layouts and the parsers agree on the position of each field.
mod layouts {
    use super::*;

    proptest! {
        #[test]
        fn message_layouts_match_the_parsers(
            data in proptest::array::uniform32(any::<u8>()).prop_map(|part| part.repeat(8)),
        ) {
            for (attribute, _) in ATTRIBUTES {
                let layout = layout(attribute).expect("every attribute has a layout");
                prop_assert_eq!(layout.length(), mad::DATA_LENGTH);
                let bytes = mad(attribute, &data[..mad::DATA_LENGTH]);
                let data = &bytes[mad::Header::LENGTH..];
                let value = |name| layout.field(name).and_then(|field| field.value(data));
                let (_, message) = Message::parse(&bytes).unwrap();
                let id = |id: Option<CommunicationId>| id.map(|id| u64::from(id.0));
                prop_assert_eq!(value("Local Communication ID"), id(message.local_communication_id()));
                prop_assert_eq!(value("Remote Communication ID"), id(message.remote_communication_id()));
                let opaque = layout.field("Private Data").unwrap();
                prop_assert_eq!(&data[opaque.bytes()], message.private_data());
                match message {
                    Message::Request(request) => {
                        let primary = request.primary_path.unwrap();
                        let alternate = request.alternate_path.unwrap();
                        for (name, expected) in [
                            ("Service ID", request.service_id.0),
                            ("Local QPN", request.local_qpn.0.into()),
                            ("Responder Resources", request.responder_resources.into()),
                            ("Transport Service Type", request.transport_service_type.bits().into()),
                            ("Starting PSN", request.starting_psn.value().into()),
                            ("Retry Count", request.retry_count.into()),
                            ("Path Packet Payload MTU", request.path_packet_payload_mtu.into()),
                            ("RNR Retry Count", request.rnr_retry_count.into()),
                            ("SRQ", request.srq.into()),
                            ("Extended Transport Type", request.extended_transport_type.into()),
                            ("Primary Flow Label", primary.flow_label.into()),
                            ("Primary Packet Rate", primary.packet_rate.into()),
                            ("Primary SL", primary.service_level.into()),
                            ("Primary Local ACK Timeout", primary.local_ack_timeout.into()),
                            ("Alternate Local Port LID", alternate.local_lid.into()),
                            ("Alternate Hop Limit", alternate.hop_limit.into()),
                            ("SAP Supported", request.sap_supported.into()),
                        ] {
                            prop_assert_eq!(value(name), Some(expected), "{}", name);
                        }
                    }
                    Message::Reply(reply) => {
                        for (name, expected) in [
                            ("Local QPN", reply.local_qpn.0.into()),
                            ("Starting PSN", reply.starting_psn.value().into()),
                            ("Target ACK Delay", reply.target_ack_delay.into()),
                            ("Failover Accepted", reply.failover_accepted.into()),
                            ("RNR Retry Count", reply.rnr_retry_count.into()),
                            ("SRQ", reply.srq.into()),
                            ("Local CA GUID", reply.local_ca_guid),
                        ] {
                            prop_assert_eq!(value(name), Some(expected), "{}", name);
                        }
                    }
                    Message::Reject(reject) => {
                        prop_assert_eq!(value("Message REJected"), Some(reject.message_rejected.bits().into()));
                        prop_assert_eq!(value("Reject Info Length"), Some(reject.reject_info_length.into()));
                        prop_assert_eq!(value("Reason"), Some(reject.reason.into()));
                    }
                    Message::LoadAlternatePath(load) => {
                        let path = load.alternate_path;
                        prop_assert_eq!(value("Alternate Flow Label"), Some(path.flow_label.into()));
                        prop_assert_eq!(value("Alternate Packet Rate"), Some(path.packet_rate.into()));
                        prop_assert_eq!(value("Alternate SL"), Some(path.service_level.into()));
                    }
                    Message::AlternatePathResponse(response) => {
                        prop_assert_eq!(value("AP Status"), Some(response.status.into()));
                    }
                    Message::ServiceIdResolutionReply(reply) => {
                        prop_assert_eq!(value("QPN"), Some(reply.qpn.0.into()));
                        prop_assert_eq!(value("Q_Key"), Some(reply.queue_key.into()));
                    }
                    _ => {}
                }
            }
        }
    }
}
