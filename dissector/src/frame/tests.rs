use super::*;
use crate::record::{LinkType, Time};
use proptest::prelude::*;
use rdmascope_wire::{Cause, icrc};

/// A RoCEv2 acknowledgement taken off the wire between two Linux 6.1 hosts, from the IPv4 header to the ICRC.
const ACKNOWLEDGE: &[u8; 48] = include_bytes!("../../testdata/acknowledge.bin");

const MACS: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];

fn ethernet(kind: &[u8], packet: &[u8]) -> Vec<u8> {
    [&MACS[..], kind, packet].concat()
}

/// The UDP datagram of [`ACKNOWLEDGE`] behind another IP header; its ICRC is put right.
fn behind(ip: &[u8]) -> Vec<u8> {
    let udp: [u8; 8] = ACKNOWLEDGE[20..28].try_into().unwrap();
    let transport = &ACKNOWLEDGE[28..44];
    let icrc = icrc::roce_v2(ip, &udp, transport).unwrap();
    [ip, &udp, transport, &icrc.to_le_bytes()].concat()
}

/// An IPv6 header from 2001:db8::1 to 2001:db8::2, ECN 3, flow label 0xabcde, written from RFC 8200, section 3.
fn ipv6_header(next_header: u8, payload_length: u16) -> Vec<u8> {
    let mut header = vec![0x60, 0x3a, 0xbc, 0xde];
    header.extend(payload_length.to_be_bytes());
    header.extend([next_header, 64]);
    for last in [1, 2] {
        header.extend([0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    header
}

fn record(link: LinkType, data: &[u8]) -> Record<'_> {
    Record { number: 1, time: Time(0), link, original_length: data.len() as u32, data }
}

fn run(link: LinkType, data: &[u8]) -> Result<Frame<'_>, Other> {
    dissect(&record(link, data), &Config::default())
}

/// Every frame that a test below builds, with its link type.
fn frames() -> Vec<(LinkType, Vec<u8>)> {
    let mut with_options = ACKNOWLEDGE[..20].to_vec();
    with_options[0] = 0x46;
    with_options[3] += 4;
    with_options.extend([1, 1, 1, 0]);
    let v6 = behind(&ipv6_header(17, 28));
    let hop_by_hop = [&ipv6_header(0, 36)[..], &[17, 0, 1, 4, 0, 0, 0, 0], &ACKNOWLEDGE[20..]].concat();
    vec![
        (LinkType::ETHERNET, ethernet(&[8, 0], ACKNOWLEDGE)),
        (LinkType::ETHERNET, ethernet(&[0x81, 0, 0, 5, 8, 0], ACKNOWLEDGE)),
        (LinkType::ETHERNET, ethernet(&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 8, 0], ACKNOWLEDGE)),
        (
            LinkType::ETHERNET,
            ethernet(&[0x91, 0, 0, 1, 0x81, 0, 0, 2, 0x81, 0, 0, 3, 0x81, 0, 0, 4, 8, 0], ACKNOWLEDGE),
        ),
        (LinkType::ETHERNET, ethernet(&[8, 0], &behind(&with_options))),
        (LinkType::ETHERNET, ethernet(&[0x86, 0xdd], &v6)),
        (LinkType::ETHERNET, ethernet(&[0x86, 0xdd], &hop_by_hop)),
        (LinkType::LINUX_SLL, [&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 8, 0][..], ACKNOWLEDGE].concat()),
        (
            LinkType::LINUX_SLL2,
            [&[8, 0, 0, 0, 0, 0, 0, 3, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0][..], ACKNOWLEDGE].concat(),
        ),
        (LinkType::NULL, [&[2, 0, 0, 0][..], ACKNOWLEDGE].concat()),
        (LinkType::LOOP, [&[0, 0, 0, 24][..], &v6].concat()),
        (LinkType::RAW, ACKNOWLEDGE.to_vec()),
        (LinkType::IPV4, ACKNOWLEDGE.to_vec()),
        (LinkType::IPV6, v6.clone()),
    ]
}

#[test]
fn the_same_packet_in_every_wrapping() {
    for (link, data) in frames() {
        let frame = run(link, &data).unwrap_or_else(|other| panic!("{link:?} {data:02x?}: {other:?}"));
        assert_eq!(frame.transport, &ACKNOWLEDGE[28..44], "{link:?}");
        assert_eq!(frame.transport_length, 16);
        assert_eq!(frame.carrier, Carrier::RoceV2 { source_port: 0xeedb, destination_port: 4791 });
        match frame.source {
            Address::V4(source) => {
                assert_eq!(
                    (source, frame.destination),
                    (Ipv4Addr::new(10, 77, 0, 1), Address::V4(Ipv4Addr::new(10, 77, 0, 2)))
                );
                assert_eq!(frame.icrc, IcrcVerdict::Good, "{link:?} {data:02x?}");
            }
            source => {
                assert_eq!(source.to_string(), "2001:db8::1");
                assert_eq!((frame.destination.to_string().as_str(), frame.ecn), ("2001:db8::2", 3));
                // Annex A17 does not say whether the ICRC covers extension headers.
                let expected = if data.len() == 90 { IcrcVerdict::Unverifiable } else { IcrcVerdict::Good };
                assert_eq!(frame.icrc, expected, "{link:?} {}", data.len());
            }
        }
    }
}

#[test]
fn only_the_destination_port_decides() {
    let mut data = ethernet(&[8, 0], ACKNOWLEDGE);
    data[34..36].copy_from_slice(&69u16.to_be_bytes());
    let frame = run(LinkType::ETHERNET, &data).unwrap();
    assert_eq!(frame.carrier, Carrier::RoceV2 { source_port: 69, destination_port: 4791 });
    assert_eq!(frame.icrc, IcrcVerdict::Bad, "the ICRC covers the port");
    data[36..38].copy_from_slice(&4790u16.to_be_bytes());
    assert_eq!(run(LinkType::ETHERNET, &data).unwrap_err(), Other::NotInfiniBand);
    let other_port = Config { port: 4790, ..Config::default() };
    assert!(dissect(&record(LinkType::ETHERNET, &data), &other_port).is_ok());
}

#[test]
fn ethernet_padding_is_no_part_of_the_packet() {
    let mut data = ethernet(&[8, 0], ACKNOWLEDGE);
    data.extend([0xaa; 20]);
    let frame = run(LinkType::ETHERNET, &data).unwrap();
    assert_eq!((frame.transport.len(), frame.icrc), (16, IcrcVerdict::Good));
}

#[test]
fn a_total_length_of_zero_is_that_of_the_frame() {
    let mut data = ethernet(&[8, 0], ACKNOWLEDGE);
    data[16..18].fill(0);
    assert_eq!(run(LinkType::ETHERNET, &data).unwrap().transport_length, 16);
}

#[test]
fn fragments_are_told_apart() {
    for flags_and_offset in [0x2000u16, 0x0001] {
        let mut data = ethernet(&[8, 0], ACKNOWLEDGE);
        data[20..22].copy_from_slice(&flags_and_offset.to_be_bytes());
        assert_eq!(run(LinkType::ETHERNET, &data).unwrap_err(), Other::Fragment);
    }
    // RFC 8200, section 4.5: next header, reserved, offset and M flag, identification.
    let packet = [&ipv6_header(44, 36)[..], &[17, 0, 0, 1, 0, 0, 0, 9], &ACKNOWLEDGE[20..]].concat();
    assert_eq!(run(LinkType::RAW, &packet).unwrap_err(), Other::Fragment);
}

#[test]
fn a_udp_length_beyond_the_packet_is_malformed() {
    let mut data = ethernet(&[8, 0], ACKNOWLEDGE);
    data[39] += 1;
    assert_eq!(run(LinkType::ETHERNET, &data).unwrap_err(), Other::Stop(Stop::malformed(Layer::Udp, 4)));
}

#[test]
fn what_is_something_else() {
    assert_eq!(run(LinkType::ETHERNET, &ethernet(&[8, 6], &[0; 28])).unwrap_err(), Other::NotInfiniBand);
    let mut tcp = ethernet(&[8, 0], ACKNOWLEDGE);
    tcp[23] = 6;
    assert_eq!(run(LinkType::ETHERNET, &tcp).unwrap_err(), Other::NotInfiniBand);
    assert_eq!(run(LinkType(999), &tcp).unwrap_err(), Other::UnknownLinkType);
}

#[test]
fn a_snap_length_anywhere_leaves_a_shorter_packet_or_a_located_stop() {
    for (link, data) in frames() {
        let udp_at = data.len() - 28;
        for length in 0..data.len() {
            let cut = Record { data: &data[..length], ..record(link, &data) };
            match dissect(&cut, &Config::default()) {
                Ok(frame) => {
                    assert!(length >= udp_at + 8);
                    assert_eq!(frame.transport.len(), (length - udp_at - 8).min(16));
                    assert_eq!((frame.transport_length, frame.icrc), (16, IcrcVerdict::Unverifiable));
                }
                Err(Other::Stop(stop)) => {
                    assert!(length < udp_at + 8, "{link:?} {length}: {stop}");
                    assert_eq!(stop.cause, Cause::TruncatedCapture, "{link:?} {length}: {stop}");
                    assert!(stop.needed > stop.available);
                }
                Err(other) => panic!("{link:?} {length}: {other:?}"),
            }
            // The same bytes as a whole packet: it is the packet then that is too short.
            match run(link, &data[..length]) {
                Err(Other::Stop(stop)) => {
                    assert_ne!(stop.cause, Cause::TruncatedCapture, "{link:?} {length}")
                }
                other => panic!("{link:?} {length}: {other:?}"),
            }
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_at_all(frame in 0usize..14, at: prop::sample::Index, value: u8, length: prop::sample::Index) {
        let (link, mut data) = frames().swap_remove(frame);
        let at = at.index(data.len());
        data[at] = value;
        let cut = Record { data: &data[..length.index(data.len() + 1)], ..record(link, &data) };
        if let Ok(frame) = dissect(&cut, &Config::default()) {
            prop_assert!(frame.transport.len() <= frame.transport_length as usize);
        }
    }
}
