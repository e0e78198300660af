//! MADs of the captured sessions nfs4.1-basic and connect-rejected (Linux 6.1, rxe). The expected
//! values are from the output of tshark 4.0.17, unless noted otherwise.

use super::padded;
use crate::cm::*;
use crate::psn::Psn;
use crate::{Qpn, private_data, rdma_cm_ip};

const TRANSACTION: u64 = 0x0000_0002_5aff_0176;

#[track_caller]
fn captured(bytes: &[u8], attribute: u16, transaction_id: u64) -> Message<'_> {
    let (header, message) = Message::parse(bytes).unwrap();
    assert_eq!(header, mad::Header::communication_management(attribute, transaction_id));
    assert!(!message.is_cut());
    let mut built = Vec::new();
    message.build(&header, &mut built);
    assert_eq!(built, bytes, "every bit that Linux sends has a field");
    message
}

#[test]
fn captured_request_is_parsed() {
    let message = captured(include_bytes!("../../../testdata/req.bin"), 0x0010, TRANSACTION);
    let Message::Request(request) = message else { panic!("{}", message.name()) };
    assert_eq!(request.private_data.len(), 92);
    let expected = Request {
        local_communication_id: CommunicationId(0x7601_ff5a),
        vendor_id: 0,
        service_id: ServiceId(0x0000_0000_0106_4e51),
        local_ca_guid: 0x5054_00ff_fe77_0001,
        local_queue_key: 0,
        local_qpn: Qpn(0x12),
        responder_resources: 0x80,
        local_eecn: 0,
        initiator_depth: 0,
        remote_eecn: 0,
        remote_cm_response_timeout: 0x14,
        transport_service_type: TransportServiceType::ReliableConnection,
        end_to_end_flow_control: false,
        starting_psn: Psn::new(0x0c_a529),
        local_cm_response_timeout: 0x14,
        retry_count: 6,
        partition_key: 0xffff,
        path_packet_payload_mtu: 3,
        rdc_exists: false,
        rnr_retry_count: 0,
        max_cm_retries: 15,
        srq: false,
        extended_transport_type: 0,
        primary_path: Some(Path {
            local_lid: 65535,
            remote_lid: 65535,
            local_gid: Gid::from(IpAddr::from([10, 77, 0, 2])),
            remote_gid: Gid::from(IpAddr::from([10, 77, 0, 1])),
            // The bytes are 7a 3d f0 00. tshark reads the label from three of them as 0x007a3 and a
            // rate of 0x3a, which is wrong: see the UDP source port below.
            flow_label: 0x7a3df,
            packet_rate: 0,
            traffic_class: 0,
            hop_limit: 0x40,
            service_level: 0,
            subnet_local: false,
            local_ack_timeout: 0x13,
        }),
        alternate_path: Some(Path::default()),
        sap_supported: false,
        private_data: request.private_data,
    };
    assert_eq!(request, expected);
    assert_eq!(request.path_mtu_bytes(), Some(1024));

    // Linux folds the flow label into the UDP source port of the connection's packets, 58305 in
    // this capture.
    let label = request.primary_path.unwrap().flow_label;
    assert_eq!((label & 0x3fff) ^ (label >> 14) | 0xc000, 58305);

    let (ip, consumer) = request.rdma_cm_ip().unwrap().unwrap();
    let (client, server) = ([10, 77, 0, 2].into(), [10, 77, 0, 1].into());
    assert_eq!(ip, rdma_cm_ip::Header::ipv4(client, 0xc0b2, server));
    assert_eq!((consumer.len(), request.consumer_private_data()), (56, consumer));
    let found = private_data::find(request.private_data).unwrap();
    assert_eq!(found.offset, 36);
    let fields = found.valid().unwrap();
    assert!(fields.remote_invalidation);
    assert_eq!((fields.send_bytes(), fields.receive_bytes()), (4096, 4096));
}

#[test]
fn captured_reply_is_parsed() {
    let message = captured(include_bytes!("../../../testdata/rep.bin"), 0x0013, TRANSACTION);
    let expected = Reply {
        local_communication_id: CommunicationId(0x92b5_6d72),
        remote_communication_id: CommunicationId(0x7601_ff5a),
        local_queue_key: 0,
        local_qpn: Qpn(0x12),
        local_eecn: 0,
        starting_psn: Psn::new(0x9b_09f3),
        vendor_id: 0,
        responder_resources: 0,
        initiator_depth: 0x80,
        target_ack_delay: 0x0f,
        failover_accepted: 0,
        end_to_end_flow_control: false,
        rnr_retry_count: 0,
        srq: false,
        local_ca_guid: 0x5054_00ff_fe77_0000,
        private_data: &padded(&[0xf6, 0xab, 0x0e, 0x18, 0x01, 0x00, 0x03, 0x03], 196),
    };
    assert_eq!(message, Message::Reply(expected));
    let found = private_data::find(message.private_data()).unwrap();
    assert_eq!((found.offset, found.valid().unwrap().remote_invalidation), (0, false));
}

#[test]
fn captured_ready_to_use_and_disconnection_are_parsed() {
    let (active, passive) = (CommunicationId(0x7601_ff5a), CommunicationId(0x92b5_6d72));
    let message = captured(include_bytes!("../../../testdata/rtu.bin"), 0x0014, TRANSACTION);
    let expected = ReadyToUse {
        local_communication_id: active,
        remote_communication_id: passive,
        private_data: &[0; 224],
    };
    assert_eq!(message, Message::ReadyToUse(expected));

    let message = captured(include_bytes!("../../../testdata/dreq.bin"), 0x0015, TRANSACTION);
    let expected = DisconnectRequest {
        local_communication_id: active,
        remote_communication_id: passive,
        remote_qpn: Qpn(0x12),
        private_data: &[0; 220],
    };
    assert_eq!(message, Message::DisconnectRequest(expected));

    let message = captured(include_bytes!("../../../testdata/drep.bin"), 0x0016, TRANSACTION);
    let expected = DisconnectReply {
        local_communication_id: passive,
        remote_communication_id: active,
        private_data: &[0; 224],
    };
    assert_eq!(message, Message::DisconnectReply(expected));
    assert_eq!(message.local_communication_id(), Some(passive));
    assert_eq!(message.remote_communication_id(), Some(active));
}

#[test]
fn captured_reject_is_parsed() {
    let message = captured(include_bytes!("../../../testdata/rej.bin"), 0x0012, 0x0000_0002_5aff_0174);
    let expected = Reject {
        local_communication_id: CommunicationId(0),
        remote_communication_id: CommunicationId(0x7401_ff5a),
        message_rejected: Rejected::Request,
        reject_info_length: 0,
        reason: 8,
        additional_information: &[0; 72],
        private_data: &[0; 148],
    };
    assert_eq!(message, Message::Reject(expected));
    assert_eq!(reject_reason_name(8), Some("invalid service ID"));
}
