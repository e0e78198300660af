use super::*;
use crate::bth::{Aeth, AtomicEth, Deth, Opcode, Reth};
use crate::psn::Psn;
use crate::{Qpn, Rkey};
use proptest::prelude::*;

// Written by hand from the diagrams of RFC 791, RFC 8200, RFC 768 and IBTA volume 1. The checksum
// and the ICRCs were computed independently in Python, the ICRCs with zlib.crc32 over the masked
// bytes.

#[rustfmt::skip]
const ETHERNET: [u8; 12] = [
    2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2,
];

#[rustfmt::skip]
const IPV4: [u8; 20] = [
    0x45, 0x02, 0x00, 68,   0xab, 0xcd, 0x40, 0x00, // ECT(0), 68 bytes; identification, DF
    63,   17,   0x0b, 0xd6, 192, 0, 2, 2,           // time to live, UDP, checksum; source
    192, 0, 2, 1,                                   // destination
];

#[rustfmt::skip]
const IPV6: [u8; 40] = [
    0x61, 0x2a, 0xbc, 0xde, 0x00, 48,   17,   63,   // class 0x12, flow label 0xabcde; 48 bytes, UDP, hop limit 63
    0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2,
    0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
];

#[rustfmt::skip]
const GRH: [u8; 40] = [
    0x61, 0x2a, 0xbc, 0xde, 0x00, 40,   0x1b, 63,   // the same; 40 bytes, a BTH follows
    0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2,
    0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
];

const UDP: [u8; 8] = [0xc1, 0x23, 0x12, 0xb7, 0x00, 48, 0x00, 0x00];

#[rustfmt::skip]
const TRANSPORT: [u8; 36] = [
    0x0a, 0xe0, 0xff, 0xff, 0x40, 0x00, 0x00, 0x16, // RC RDMA WRITE Only, SE, M, pad 2; P_Key; BECN; QP 0x16
    0x80, 0x12, 0x34, 0x56,                         // A, PSN
    0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, // virtual address
    0x0a, 0x0b, 0x0c, 0x0d, 0x00, 0x00, 0x00, 0x06, // R_Key, DMA length
    0xd0, 0xd1, 0xd2, 0xd3, 0xd4, 0xd5, 0x00, 0x00, // payload, padding
];

fn frame(carrier: Carrier, vlan: Option<u16>) -> Frame<'static> {
    Frame {
        ethernet: Some(Ethernet { destination: [2, 0, 0, 0, 0, 1], source: [2, 0, 0, 0, 0, 2], vlan }),
        carrier,
        bth: Bth {
            opcode: Opcode(0x0a),
            solicited_event: true,
            migration_request: true,
            // Ignored: the composer computes it.
            pad_count: 1,
            transport_version: 0,
            partition_key: 0xffff,
            fecn: false,
            becn: true,
            destination_qp: Qpn(0x16),
            acknowledge_request: true,
            psn: Psn::new(0x12_3456),
        },
        extensions: Extensions {
            reth: Some(Reth {
                virtual_address: 0x0102_0304_0506_0708,
                rkey: Rkey(0x0a0b_0c0d),
                dma_length: 6,
            }),
            ..Extensions::default()
        },
        payload: &[0xd0, 0xd1, 0xd2, 0xd3, 0xd4, 0xd5],
    }
}

fn ipv4_carrier() -> Carrier {
    let ip = Ipv4::new(Ipv4Addr::new(192, 0, 2, 2), Ipv4Addr::new(192, 0, 2, 1));
    let ip = Ipv4 { type_of_service: 2, identification: 0xabcd, time_to_live: 63, ..ip };
    Carrier::Ipv4(ip, Udp::from_port(0xc123))
}

fn ipv6() -> Ipv6 {
    let address = |last| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last);
    Ipv6 { traffic_class: 0x12, flow_label: 0xabcde, hop_limit: 63, ..Ipv6::new(address(2), address(1)) }
}

fn ipv6_carrier() -> Carrier {
    Carrier::Ipv6(ipv6(), Udp::from_port(0xc123))
}

#[test]
fn frames_match_hand_written_bytes() {
    let tag = [0x81, 0x00, 0x60, 0x05];
    for (carrier, ether_type, headers, icrc) in [
        (ipv4_carrier(), [0x08, 0x00], [&IPV4[..], &UDP].concat(), [0x49, 0x76, 0xb5, 0x0c]),
        (ipv6_carrier(), [0x86, 0xdd], [&IPV6[..], &UDP].concat(), [0x7f, 0x2f, 0x72, 0xe1]),
        (Carrier::Grh(ipv6()), [0x89, 0x15], GRH.to_vec(), [0x9f, 0xd8, 0x25, 0x01]),
    ] {
        let packet = [&headers[..], &TRANSPORT, &icrc].concat();
        let plain = frame(carrier, None);
        assert_eq!(plain.to_vec().unwrap(), [&ETHERNET[..], &ether_type, &packet].concat());
        let tagged = frame(carrier, Some(0x6005));
        assert_eq!(tagged.to_vec().unwrap(), [&ETHERNET[..], &tag, &ether_type, &packet].concat());
        let bare = Frame { ethernet: None, ..plain };
        let mut out = vec![0xee];
        bare.append(&mut out).unwrap();
        assert_eq!(out[1..], packet);
    }
}

#[test]
fn short_buffers_are_errors_and_stay_unchanged() {
    for carrier in [ipv4_carrier(), ipv6_carrier(), Carrier::Grh(ipv6())] {
        let frame = frame(carrier, Some(1));
        let expected = frame.to_vec().unwrap();
        assert_eq!(frame.length(), expected.len());
        for available in 0..expected.len() + 3 {
            let mut buffer = vec![0xee; available];
            let result = frame.compose(&mut buffer);
            if available < expected.len() {
                assert_eq!(result, Err(Error::BufferTooShort { needed: expected.len(), available }));
                assert!(buffer.iter().all(|byte| *byte == 0xee));
            } else {
                assert_eq!(result, Ok(expected.len()));
                assert_eq!(buffer[..expected.len()], expected);
                assert!(buffer[expected.len()..].iter().all(|byte| *byte == 0xee));
            }
        }
    }
}

#[test]
fn payload_beyond_the_maximum_is_an_error() {
    // 65535 bytes minus BTH, RETH and ICRC, and minus the headers that the length field counts,
    // rounded down to a multiple of four.
    for (carrier, maximum) in
        [(ipv4_carrier(), 65_472), (ipv6_carrier(), 65_492), (Carrier::Grh(ipv6()), 65_500)]
    {
        let payload = vec![0; maximum + 1];
        let longest = Frame { payload: &payload[..maximum], ..frame(carrier, None) };
        assert_eq!(longest.to_vec().unwrap().len(), longest.length());
        let mut out = vec![1, 2, 3];
        let error = Frame { payload: &payload, ..longest }.append(&mut out);
        assert_eq!(error, Err(Error::PayloadTooLong { length: maximum + 1, maximum }));
        assert_eq!(out, [1, 2, 3]);
    }
}

#[test]
fn every_extension_header_is_composed() {
    let extensions = Extensions {
        rdeth: Some(1),
        deth: Some(Deth { queue_key: 2, source_qp: Qpn(3) }),
        xrceth: Some(4),
        reth: Some(Reth { virtual_address: 5, rkey: Rkey(6), dma_length: 7 }),
        atomic_eth: Some(AtomicEth { virtual_address: 8, rkey: Rkey(9), swap_or_add: 10, compare: 11 }),
        aeth: Some(Aeth::default()),
        atomic_ack_eth: Some(12),
        immediate: Some(13),
        ieth: Some(Rkey(14)),
    };
    let mut all = Vec::new();
    extensions.build(&mut all);
    assert_eq!((all.len(), extensions.present()), (80, 80));
    let frame = Frame { extensions, ..frame(Carrier::Grh(ipv6()), None) }.to_vec().unwrap();
    assert_eq!(frame[14 + 40 + 12..][..80], all);
}

proptest! {
    #[test]
    fn composed_frames_have_the_stated_length_and_parse_back(
        carrier in prop::sample::select(vec![ipv4_carrier(), ipv6_carrier(), Carrier::Grh(ipv6())]),
        opcode: u8, ethernet: bool, vlan: Option<u16>,
        headers in prop::collection::vec(any::<u8>(), 64..80),
        payload in prop::collection::vec(any::<u8>(), 0..70),
    ) {
        let (extensions, length) = Extensions::parse(Opcode(opcode), &headers).unwrap();
        let mut frame = Frame { extensions, payload: &payload, ..frame(carrier, vlan) };
        frame.ethernet = frame.ethernet.filter(|_| ethernet);
        let bytes = frame.to_vec().unwrap();
        let transport = 12 + length + payload.len().next_multiple_of(4) + 4;
        prop_assert_eq!(frame.length(), bytes.len());
        let start = bytes.len() - transport;
        let bth = Bth::parse(&bytes[start..]).unwrap();
        prop_assert_eq!(usize::from(bth.pad_count), payload.len().next_multiple_of(4) - payload.len());
        prop_assert_eq!(Extensions::parse(Opcode(opcode), &bytes[start + 12..]).unwrap(), (extensions, length));
        prop_assert_eq!(&bytes[start + 12 + length..][..payload.len()], &payload[..]);
    }
}

/// The sum of all words of a header is all ones (RFC 1071), even if adding the carries produces
/// another carry.
#[test]
fn ipv4_checksums_are_valid() {
    for identification in 0..=u16::MAX {
        let ip = Ipv4 { identification, ..Ipv4::new([255, 255, 255, 255].into(), [255, 255, 0, 0].into()) };
        let header = ip.to_bytes(0x4321);
        let words = header.chunks(2).map(|word| u64::from(u16::from_be_bytes([word[0], word[1]])));
        assert_eq!(words.sum::<u64>() % 0xffff, 0, "{identification}");
    }
}

/// 65535 bytes including the IP header, the UDP header and the ICRC.
#[test]
fn transport_packet_beyond_the_maximum_is_an_error() {
    let (ip, udp) = (Ipv4::new([192, 0, 2, 1].into(), [192, 0, 2, 2].into()), Udp::from_port(50_000));
    let carrier = Carrier::Ipv4(ip, udp);
    let transport = vec![0; 65_504];
    let mut out = Vec::new();
    let error = carrier.enclose(&transport, &mut out).unwrap_err();
    assert_eq!(error, Error::PayloadTooLong { length: 65_504, maximum: 65_503 });
    assert_eq!(out, []);
    carrier.enclose(&transport[1..], &mut out).unwrap();
    assert_eq!(out.len(), 65_535);
}

#[test]
fn enclosed_transport_packet_is_unchanged() {
    let (ip, udp) = (Ipv4::new([192, 0, 2, 1].into(), [192, 0, 2, 2].into()), Udp::from_port(50_000));
    let grh = Ipv6::new("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
    for carrier in [Carrier::Ipv4(ip, udp), Carrier::Ipv6(grh, udp), Carrier::Grh(grh)] {
        let bth = Bth { opcode: Opcode::RC_SEND_ONLY, pad_count: 3, ..Bth::default() };
        let frame =
            Frame { ethernet: None, carrier, bth, extensions: Extensions::default(), payload: b"five." };
        let expected = frame.to_vec().unwrap();
        let transport = &expected[carrier.length()..expected.len() - icrc::LENGTH];
        let mut out = b"before".to_vec();
        carrier.enclose(transport, &mut out).unwrap();
        assert_eq!(out, [&b"before"[..], &expected].concat());
        // Bytes that are not a packet are enclosed too. A packet longer than the length field
        // allows is an error.
        carrier.enclose(b"x", &mut out).unwrap();
        assert_eq!(out[out.len() - 5..], *b"x\0\0\0\0");
        let length = out.len();
        assert!(carrier.enclose(&[0; 65_536], &mut out).is_err());
        assert_eq!(out.len(), length);
    }
}
