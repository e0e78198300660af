//! Compares the packets of an endpoint with bytes written by hand from IBTA volume 1 and from
//! packets of Linux 6.1 over rxe (samples/nfs3-basic.pcap). The test does not use the parsers of
//! `wire/`, whose errors would cancel out.

use rdmascope_peer::endpoint::{Config, Connect, Endpoint, Event};
use rdmascope_peer::memory::Access;
use rdmascope_peer::packet::Datagram;
use rdmascope_peer::pair::Pair;
use rdmascope_peer::rc::{Operation, Send};
use rdmascope_peer::time::Instant;
use rdmascope_wire::cm::{CommunicationId, Reply};
use rdmascope_wire::psn::Psn;
use rdmascope_wire::{Qpn, Rkey};
use std::net::IpAddr;

fn config(starting_psn: u32) -> Config {
    Config { guid: 0x5054_00ff_fe77_0001, starting_psn: Some(Psn::new(starting_psn)), ..Config::default() }
}

fn addresses() -> (IpAddr, IpAddr) {
    ("10.77.0.2".parse().unwrap(), "10.77.0.1".parse().unwrap())
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| byte.is_ascii_hexdigit()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// The headers before a CM message: BTH and DETH of queue pair 1, and the MAD header.
fn front(psn: u32, transaction: u64, attribute: u16) -> Vec<u8> {
    hex(&format!(
        "64 00 ffff 00 000001 80 {psn:06x}  80010000 00 000001 \
         01 07 02 03 0000 0000 {transaction:016x} {attribute:04x} 0000 00000000"
    ))
}

/// Returns an endpoint without listeners, its REQ, its communication ID and its queue pair number.
fn request() -> (Endpoint, Datagram, u32, u32) {
    let (local, remote) = addresses();
    let mut endpoint = Endpoint::new(config(0x6b_a183), 7);
    let private_data = hex("f6ab0e18 01 01 03 03");
    let connect = Connect { local_port: 0xbe8d, private_data, ..Connect::new(local, remote, 20049) };
    let connection = endpoint.connect(connect).unwrap();
    let datagram = endpoint.poll_transmit(Instant(0)).unwrap();
    assert!(endpoint.poll_transmit(Instant(0)).is_none());
    let qpn = endpoint.queue_pair_number(connection).unwrap().0;
    (endpoint, datagram, connection.0, qpn)
}

#[test]
fn request_has_the_bytes_of_a_linux_request() {
    let (_, datagram, id, qpn) = request();
    assert_eq!((datagram.source, datagram.destination), addresses());
    let mut expected = front(0, u64::from(id), 0x0010);
    expected.extend(hex(&format!(
        "{id:08x} 00 000000          Local Communication ID, Vendor ID
         0000000001064e51            Service ID: TCP port 20049
         505400fffe770001 00000000   Local CA GUID
         00000000                    Local Q_Key
         {qpn:06x} 80                Local QPN, Responder Resources
         000000 80                   Local EECN, Initiator Depth
         000000 a0                   Remote EECN, Remote CM Response Timeout 20, RC
         6ba183 a7                   Starting PSN, Local CM Response Timeout 20, Retry Count 7
         ffff 37 f0                  P_Key, MTU 1024, RNR Retry Count 7, Max CM Retries 15
         ffff ffff                   LIDs
         00000000000000000000ffff0a4d0002 00000000000000000000ffff0a4d0001
         00000000 00 40 00 70        Flow Label, Traffic Class, Hop Limit, SL, Local ACK Timeout 14"
    )
    .lines()
    .map(|line| line.trim_start().split("  ").next().unwrap())
    .collect::<String>()));
    expected.resize(expected.len() + 44, 0);
    expected.extend(hex("0040be8d 0000000000000000000000000a4d0002 0000000000000000000000000a4d0001"));
    expected.extend(hex("f6ab0e1801010303"));
    expected.resize(12 + 8 + 256, 0);
    assert_eq!(datagram.transport, expected);
}

/// A REP of Linux 6.1 with this side's communication ID: the fields after the MAD header.
fn reply(id: u32) -> Vec<u8> {
    let mut bytes = front(0, u64::from(id), 0x0013);
    bytes.extend(hex(&format!(
        "93b56d72 {id:08x} 00000000 000011 00 000000 00 7f74e6 00 00 80 78 00 505400fffe770000 f6ab0e1801000303"
    )));
    bytes.resize(12 + 8 + 256, 0);
    bytes
}

#[test]
fn established_connection_sends_the_expected_bytes() {
    let (mut endpoint, request, id, _) = request();
    let answer = |transport| Datagram {
        source: request.destination,
        destination: request.source,
        transport,
        ..request.clone()
    };
    endpoint.handle(Instant(1), &answer(reply(id)));
    let mut rtu = front(1, u64::from(id), 0x0014);
    rtu.extend(hex(&format!("{id:08x} 93b56d72")));
    rtu.resize(12 + 8 + 256, 0);
    assert_eq!(endpoint.poll_transmit(Instant(1)).unwrap().transport, rtu);
    // The RTU is lost and the REP is repeated: the endpoint sends the same RTU in a new datagram.
    endpoint.handle(Instant(2), &answer(reply(id)));
    let again = endpoint.poll_transmit(Instant(2)).unwrap().transport;
    assert_eq!((again[11], &again[12..]), (2, &rtu[12..]));

    let Some(Event::Replied { connection, reply, private_data }) = endpoint.poll_event() else { panic!() };
    assert_eq!(private_data[..8], hex("f6ab0e1801000303"));
    let expected_reply = Reply {
        local_communication_id: CommunicationId(0x93b5_6d72),
        remote_communication_id: CommunicationId(id),
        local_qpn: Qpn(0x11),
        starting_psn: Psn::new(0x7f_74e6),
        initiator_depth: 0x80,
        target_ack_delay: 15,
        local_ca_guid: 0x5054_00ff_fe77_0000,
        ..Reply::default()
    };
    assert_eq!(reply, Some(expected_reply));
    assert_eq!(endpoint.poll_event(), Some(Event::Connected { connection }));

    // The first request has the PSN of the REP.
    let null = b"NULL".to_vec();
    endpoint.send(connection, Send { bytes: null, ..Send::default() }).unwrap();
    let sent = endpoint.poll_transmit(Instant(3)).unwrap().transport;
    assert_eq!(sent, hex("04 00 ffff 00 000011 80 7f74e6 4e554c4c"));
    endpoint
        .send(
            connection,
            Send {
                bytes: b"abcde".to_vec(),
                invalidate: Some(Rkey(0x0102_0304)),
                solicited: true,
                immediate: None,
            },
        )
        .unwrap();
    let sent = endpoint.poll_transmit(Instant(3)).unwrap().transport;
    assert_eq!(sent, hex("17 b0 ffff 00 000011 80 7f74e7 01020304 6162636465 000000"));
    endpoint.write(connection, Rkey(0xa0b0_c0d0), 0x1122_3344_5566_7788, b"ab".to_vec()).unwrap();
    let sent = endpoint.poll_transmit(Instant(3)).unwrap().transport;
    assert_eq!(sent, hex("0a 20 ffff 00 000011 80 7f74e8 1122334455667788 a0b0c0d0 00000002 6162 0000"));
    // The acknowledgement covers everything up to the WRITE. A READ of 3000 bytes takes three PSNs;
    // the next operation follows them.
    endpoint.handle(Instant(4), &answer(hex("11 00 ffff 00 00 0000 00 7f74e8 1f000003")));
    assert!(matches!(endpoint.poll_event(), Some(Event::Dropped { .. })), "a wrong queue pair");
    let qpn = endpoint.queue_pair_number(connection).unwrap().0;
    endpoint.handle(Instant(4), &answer(hex(&format!("11 00 ffff 00 {qpn:06x} 00 7f74e8 1f000003"))));
    let completed = std::iter::from_fn(|| endpoint.poll_event()).count();
    assert_eq!(completed, 3);
    // The remote side offers no responder resources, but one READ is tried nevertheless.
    endpoint.read(connection, Rkey(9), 0x1000, 3000).unwrap();
    let write =
        Operation::Write { rkey: Rkey(9), address: 8, bytes: vec![7; 1500], immediate: Some(0xfeed_beef) };
    endpoint.post(connection, write).unwrap();
    let sent: Vec<Vec<u8>> = std::iter::from_fn(|| endpoint.poll_transmit(Instant(5)))
        .map(|datagram| datagram.transport)
        .collect();
    assert_eq!(sent.len(), 3);
    assert_eq!(sent[0], hex("0c 00 ffff 00 000011 00 7f74e9 0000000000001000 00000009 00000bb8"));
    assert_eq!(sent[1][..28], hex("06 00 ffff 00 000011 00 7f74ec 0000000000000008 00000009 000005dc"));
    assert_eq!(sent[1].len(), 28 + 1024);
    assert_eq!(sent[2][..17], hex("09 00 ffff 00 000011 80 7f74ed feedbeef 07"));
}

#[test]
fn responder_answers_have_the_expected_bytes() {
    let (mut endpoint, request, id, _) = request();
    let answer = |transport| Datagram {
        source: request.destination,
        destination: request.source,
        transport,
        ..request.clone()
    };
    endpoint.handle(Instant(1), &answer(reply(id)));
    while endpoint.poll_transmit(Instant(1)).is_some() {}
    let Some(Event::Replied { connection, .. }) = endpoint.poll_event() else { panic!() };
    let qpn = endpoint.queue_pair_number(connection).unwrap().0;
    let (rkey, address) = endpoint.register(connection, (0..=255).collect(), Access::READ).unwrap();
    let mut exchange = |text: &str| -> Vec<Vec<u8>> {
        endpoint.handle(Instant(2), &answer(hex(text)));
        std::iter::from_fn(|| endpoint.poll_transmit(Instant(2))).map(|datagram| datagram.transport).collect()
    };
    // No Receive is posted: RNR NAK with timer 12 at the PSN of the SEND.
    let send = format!("04 00 ffff 00 {qpn:06x} 80 6ba183 61626364");
    assert_eq!(exchange(&send), [hex("11 00 ffff 00 000011 00 6ba183 2c000000")]);
    // A later PSN gets no further answer, because the requester already has the NAK.
    assert_eq!(exchange(&format!("04 00 ffff 00 {qpn:06x} 80 6ba184 61626364")), [[0u8; 0]; 0]);
    // A READ of the last 4 bytes gets one response with an AETH.
    let read = format!("0c 00 ffff 00 {qpn:06x} 00 6ba183 {:016x} {:08x} 00000004", address + 252, rkey.0);
    let response = hex("10 00 ffff 00 000011 00 6ba183 1f000001 fcfdfeff");
    assert_eq!(exchange(&read), std::slice::from_ref(&response));
    // A repetition gets the same answer.
    assert_eq!(exchange(&read), [response]);
    // A gap causes one NAK for a PSN sequence error at the expected PSN.
    let ahead = format!("04 00 ffff 00 {qpn:06x} 80 6ba186 61626364");
    assert_eq!(exchange(&ahead), [hex("11 00 ffff 00 000011 00 6ba184 60000001")]);
    assert_eq!(exchange(&ahead), [[0u8; 0]; 0]);
    // One byte too many causes a NAK for a remote access error, and a DREQ.
    let read = format!("0c 00 ffff 00 {qpn:06x} 00 6ba184 {:016x} {:08x} 00000005", address + 252, rkey.0);
    let sent = exchange(&read);
    assert_eq!(sent[0], hex("11 00 ffff 00 000011 00 6ba184 62000001"));
    assert_eq!((sent.len(), &sent[1][36..38]), (2, &[0x00, 0x15][..]));
    assert_eq!(sent[1][44..55], hex(&format!("{id:08x} 93b56d72 000011")));
}

#[test]
fn request_without_a_listener_is_rejected() {
    let (_, request, id, _) = request();
    let mut server = Endpoint::new(config(1), 9);
    server.handle(Instant(0), &request);
    let mut expected = front(0, u64::from(id), 0x0012);
    // Like the answer of Linux: no local ID, REQ rejected, reason 8 (invalid service ID).
    expected.extend(hex(&format!("00000000 {id:08x} 00 00 0008")));
    expected.resize(12 + 8 + 256, 0);
    assert_eq!(server.poll_transmit(Instant(0)).unwrap().transport, expected);
}

#[test]
fn reply_and_disconnection_have_the_expected_bytes() {
    let mut pair = Pair::new(Endpoint::new(config(0x10), 1), Endpoint::new(config(0xff_ffff), 2), 3);
    pair.b.listen(20049);
    let connection = pair.a.connect(Connect::new(pair.address_a, pair.address_b, 20049)).unwrap();
    let qpn = pair.a.queue_pair_number(connection).unwrap().0;
    let request = pair.a.poll_transmit(Instant(0)).unwrap();
    pair.b.handle(Instant(0), &request);
    let Some(Event::Requested { connection: theirs, port, .. }) = pair.b.poll_event() else { panic!() };
    assert_eq!(port, 20049);
    // An MRA for the REQ comes first; 24 means 69 s.
    pair.b.acknowledge(theirs).unwrap();
    let mut mra = front(0, u64::from(connection.0), 0x0011);
    mra.extend(hex(&format!("{:08x} {:08x} 00 c0", theirs.0, connection.0)));
    mra.resize(12 + 8 + 256, 0);
    assert_eq!(pair.b.poll_transmit(Instant(0)).unwrap().transport, mra);
    pair.b.accept(theirs, &[0xab, 0xcd]).unwrap();
    let reply = pair.b.poll_transmit(Instant(0)).unwrap();
    let their_qpn = pair.b.queue_pair_number(theirs).unwrap().0;
    let mut expected = front(1, u64::from(connection.0), 0x0013);
    expected.extend(hex(&format!(
        "{:08x} {:08x} 00000000 {their_qpn:06x} 00 000000 00 ffffff 00 80 80 78 e0 505400fffe770001 abcd",
        theirs.0, connection.0
    )));
    expected.resize(12 + 8 + 256, 0);
    assert_eq!(reply.transport, expected);
    pair.a.handle(Instant(1), &reply);
    let rtu = pair.a.poll_transmit(Instant(1)).unwrap();
    pair.b.handle(Instant(2), &rtu);

    pair.b.disconnect(theirs).unwrap();
    let request = pair.b.poll_transmit(Instant(3)).unwrap();
    let transaction = u64::from(connection.0) | 1 << 32;
    let mut expected = front(2, transaction, 0x0015);
    expected.extend(hex(&format!("{:08x} {:08x} {qpn:06x}", theirs.0, connection.0)));
    expected.resize(12 + 8 + 256, 0);
    assert_eq!(request.transport, expected);
    pair.a.handle(Instant(4), &request);
    let mut expected = front(2, transaction, 0x0016);
    expected.extend(hex(&format!("{:08x} {:08x}", connection.0, theirs.0)));
    expected.resize(12 + 8 + 256, 0);
    assert_eq!(pair.a.poll_transmit(Instant(4)).unwrap().transport, expected);
}

#[test]
fn request_over_ipv6_has_ipv6_addresses() {
    let (local, remote): (IpAddr, IpAddr) = ("fd77::2".parse().unwrap(), "fd77::1".parse().unwrap());
    let mut endpoint = Endpoint::new(config(1), 7);
    endpoint.connect(Connect { local_port: 0x1234, ..Connect::new(local, remote, 20049) }).unwrap();
    let sent = endpoint.poll_transmit(Instant(0)).unwrap();
    let addresses = hex("fd770000000000000000000000000002 fd770000000000000000000000000001");
    // The GIDs of the primary path are at 56 of the message; the header of the RDMA connection
    // manager follows the alternate path.
    let message = &sent.transport[44..];
    assert_eq!(message[56..88], addresses);
    assert_eq!(message[140..144], hex("00 60 1234"));
    assert_eq!(message[144..176], addresses);
}
