//! Tests with frames captured between two Linux 6.1 hosts (`testdata/`), and with the same packets
//! in every encapsulation.

mod tunnels;

use super::*;
use crate::record::{LinkType, Time};
use proptest::prelude::*;
use rdmascope_wire::bth::{Bth, Extensions};
use rdmascope_wire::lrh::{Lrh, NextHeader};
use rdmascope_wire::{Cause, Layer, compose, icrc};
use tunnels::{LABELS, frames, geneve, gre, headers_of, pppoe};

/// Ethernet, IPv4, UDP, BTH, AETH, ICRC.
const ACKNOWLEDGE: &[u8] = include_bytes!("../../testdata/acknowledge.bin");
/// The same with a NULL call of NFSv3 in a SEND Only.
const SEND_ONLY: &[u8] = include_bytes!("../../testdata/send-only.bin");
/// The same with a CM REQ in a UD SEND Only.
const CONNECT_REQUEST: &[u8] = include_bytes!("../../testdata/connect-request.bin");

const CLIENT: Address = Address::V4(Ipv4Addr::new(10, 77, 0, 2));
const SERVER: Address = Address::V4(Ipv4Addr::new(10, 77, 0, 1));
const CONFIG: Config = Config { port: 4791, vxlan_port: Some(5000), verify_icrc: true };

fn record(link: LinkType, data: &[u8]) -> Record<'_> {
    Record {
        number: 1,
        time: Time(0),
        link,
        original_length: data.len() as u32,
        dropped: 0,
        tap: Default::default(),
        data,
    }
}

fn dissected(link: LinkType, data: &[u8]) -> Result<Frame<'_>, Other<'_>> {
    dissect(&record(link, data), &CONFIG)
}

fn other(link: u16, data: &[u8]) -> Other<'static> {
    dissected(LinkType(link), data).map(|_| ()).unwrap_err().named()
}

fn stop(link: LinkType, data: &[u8]) -> Stop {
    match dissected(link, data) {
        Err(Other::Stop(stop)) => stop,
        other => panic!("{other:?}"),
    }
}

/// From the BTH on, without the ICRC.
fn transport() -> &'static [u8] {
    &SEND_ONLY[42..122]
}

/// From the IPv4 header on.
fn ip() -> Vec<u8> {
    SEND_ONLY[14..].to_vec()
}

fn with_icrc(mut headers: Vec<u8>, icrc: Option<u32>) -> Vec<u8> {
    headers.extend_from_slice(transport());
    headers.extend_from_slice(&icrc.unwrap().to_le_bytes());
    headers
}

fn ethernet(ether_type: u16, payload: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &ether_type.to_be_bytes(), payload].concat()
}

fn ipv4(options: &[u8], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = ip()[..20].to_vec();
    out[0] = 0x45 + (options.len() / 4) as u8;
    let total = (20 + options.len() + payload.len()) as u16;
    out[2..4].copy_from_slice(&total.to_be_bytes());
    out[9] = protocol;
    out.extend_from_slice(options);
    out.extend_from_slice(payload);
    out
}

fn ipv4_with_options() -> Vec<u8> {
    let packet = ipv4(&[1; 8], 17, &ip()[20..]);
    let icrc = icrc::roce_v2(&packet[..28], packet[28..36].try_into().unwrap(), transport());
    with_icrc(packet[..36].to_vec(), icrc)
}

const V6_CLIENT: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
const V6_SERVER: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

/// The SEND Only in this encapsulation.
fn composed(carrier: compose::Carrier) -> Vec<u8> {
    let (bth, payload) = transport().split_at(Bth::LENGTH);
    let bth = Bth::parse(bth).unwrap();
    let extensions = Extensions::default();
    compose::Frame { ethernet: None, carrier, bth, extensions, payload }.to_vec().unwrap()
}

/// The SEND Only over IPv6, with these extension headers before UDP.
fn ipv6(next: u8, extensions: &[u8]) -> Vec<u8> {
    let header = compose::Ipv6 { traffic_class: 2, ..compose::Ipv6::new(V6_CLIENT.into(), V6_SERVER.into()) };
    let mut out = composed(compose::Carrier::Ipv6(header, compose::Udp::from_port(0xe179)));
    let length = (out.len() - 40 + extensions.len()) as u16;
    out[4..6].copy_from_slice(&length.to_be_bytes());
    out[6] = next;
    out.splice(40..40, extensions.iter().copied());
    out
}

fn grh(source: [u8; 16], destination: [u8; 16]) -> Vec<u8> {
    let header = compose::Ipv6::new(source.into(), destination.into());
    composed(compose::Carrier::Grh(compose::Ipv6 { flow_label: 7, hop_limit: 1, ..header }))
}

fn mapped(last: u8) -> [u8; 16] {
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, last]
}

/// A native packet. `rest` follows the LRH and ends with the ICRC; the variant CRC comes after it.
fn native(next_header: NextHeader, rest: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let lrh = Lrh {
        virtual_lane: 3,
        link_version: 0,
        service_level: 1,
        next_header,
        destination: 1,
        packet_length: ((8 + rest.len()) / 4) as u16,
        source: 2,
    };
    lrh.build(&mut out);
    out.extend_from_slice(rest);
    if next_header == NextHeader::Bth {
        let icrc = icrc::lrh(out[..8].try_into().unwrap(), transport()).unwrap();
        let at = out.len() - 4;
        out[at..].copy_from_slice(&icrc.to_le_bytes());
    }
    out.extend_from_slice(&[0xbe, 0xef]);
    out
}

fn native_local() -> Vec<u8> {
    native(NextHeader::Bth, &[transport(), &[0; 4]].concat())
}

fn native_global() -> Vec<u8> {
    native(NextHeader::Grh, &grh(mapped(2), mapped(1)))
}

fn erf(kind: u8, extensions: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 8];
    out.extend_from_slice(&[kind, 4]);
    out.extend_from_slice(&((16 + extensions.len() + payload.len()) as u16).to_be_bytes());
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&(payload.len() as u16).to_be_bytes());
    [&out[..], extensions, payload].concat()
}

/// The lengths that tshark shows (frame.len, frame.cap_len) leave out the 18 bytes before an Ethernet
/// frame.
#[test]
fn lengths_of_erf_records_leave_out_the_header() {
    let whole = erf(2, &[], &[&[0; 2][..], SEND_ONLY].concat());
    let wire = SEND_ONLY.len() as u32;
    let mut padded = [&whole[..], &[0; 3]].concat();
    padded[14..16].copy_from_slice(&(wire as u16).to_be_bytes());
    let mut cut = padded[..60].to_vec();
    let lengths = |data: &[u8], original_length| {
        let record = Record { original_length, ..record(LinkType::ERF, data) };
        (record.wire_length(), record.captured_length())
    };
    assert_eq!(lengths(&padded, padded.len() as u32), (wire, wire));
    assert_eq!(lengths(&cut, wire + 18), (wire, 42));
    cut[14..16].fill(0);
    assert_eq!(lengths(&cut, 60), (42, 42));
}

#[test]
fn real_frames_are_dissected() {
    for (frame, source, destination, source_port) in [
        (ACKNOWLEDGE, SERVER, CLIENT, 0xe179),
        (SEND_ONLY, CLIENT, SERVER, 0xe179),
        (CONNECT_REQUEST, CLIENT, SERVER, 0xd872),
    ] {
        let found = dissected(LinkType::ETHERNET, frame).unwrap();
        assert_eq!((found.source, found.destination), (source, destination));
        assert_eq!(found.carrier, Carrier::RoceV2 { source_port, destination_port: 4791 });
        assert_eq!(found.transport, &frame[42..frame.len() - 4]);
        assert_eq!(found.transport_length as usize, frame.len() - 46);
        assert_eq!((found.icrc, found.ecn()), (IcrcVerdict::Good, 0));
    }
}

#[test]
fn every_encapsulation_is_dissected() {
    for (name, link, data) in frames() {
        let found = dissected(link, &data).unwrap_or_else(|other| panic!("{name}: {other:?}"));
        assert_eq!(found.transport, transport(), "{name}");
        assert_eq!(found.transport_length as usize, transport().len(), "{name}");
        assert_eq!(found.icrc, IcrcVerdict::Good, "{name}");
        let expected = match found.carrier {
            Carrier::InfiniBand if name.ends_with("GRH") => (CLIENT, SERVER),
            Carrier::InfiniBand => (Address::Lid(2), Address::Lid(1)),
            _ if name.contains("IPv6") || name == "raw, 14" => {
                (Address::V6(V6_CLIENT.into()), Address::V6(V6_SERVER.into()))
            }
            _ => (CLIENT, SERVER),
        };
        assert_eq!((found.source, found.destination), expected, "{name}");
        assert_eq!(found.carrier == Carrier::RoceV1, name.starts_with("RoCEv1"), "{name}");
        assert_eq!(found.carrier == Carrier::InfiniBand, name.contains("native"), "{name}");
    }
}

#[test]
fn snap_length_yields_prefix_or_truncated_capture() {
    for (name, link, frame) in frames() {
        for length in 0..frame.len() {
            let cut = Record { data: &frame[..length], ..record(link, &frame) };
            match dissect(&cut, &CONFIG) {
                Ok(found) => {
                    assert!((12..=80).contains(&found.transport.len()), "{name}, {length}");
                    assert_eq!(found.transport, &transport()[..found.transport.len()], "{name}, {length}");
                    assert_eq!(found.transport_length, 80, "{name}, {length}");
                    if found.icrc != IcrcVerdict::Unverifiable {
                        // Only padding and the variant CRC were cut.
                        assert_eq!(found.icrc, IcrcVerdict::Good, "{name}, {length}");
                        assert!(length + 9 >= frame.len(), "{name}, {length}");
                    }
                }
                Err(Other::Stop(stop)) => {
                    assert_eq!(stop.cause, Cause::TruncatedCapture, "{name}, {length}: {stop}");
                    assert!(stop.available < stop.needed, "{name}, {length}: {stop}");
                }
                Err(other) => panic!("{name}, {length}: {other:?}"),
            }
        }
    }
}

#[test]
fn short_packet_is_a_truncated_packet() {
    for (name, link, frame) in frames() {
        for length in 0..frame.len() {
            match dissected(link, &frame[..length]) {
                Ok(found) => assert!(found.transport.len() >= 12, "{name}, {length}"),
                // The ERF header has the original length.
                Err(Other::Stop(_)) if link == LinkType::ERF => {}
                Err(Other::Stop(stop)) => assert_eq!(stop.cause, Cause::TruncatedPacket, "{name}, {length}"),
                Err(other) => panic!("{name}, {length}: {other:?}"),
            }
        }
    }
}

#[test]
fn flipped_bytes_keep_length_invariants() {
    for (name, link, frame) in frames() {
        for at in 0..frame.len() {
            for flip in [0x01, 0x10, 0x80, 0xff] {
                let mut data = frame.clone();
                data[at] ^= flip;
                if let Ok(found) = dissected(link, &data) {
                    assert!(found.transport.len() >= 12, "{name}, byte {at}");
                    assert!(found.transport.len() <= found.transport_length as usize, "{name}, byte {at}");
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_keep_length_invariants(
        link in prop::sample::select(vec![0u16, 1, 12, 14, 101, 108, 113, 197, 228, 229, 247, 276, 147]),
        frame: prop::sample::Index,
        noise in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        tail in prop::collection::vec(any::<u8>(), 0..40),
        original_length: u32,
    ) {
        let mut data = [&frame.get(&frames()).2[..], &tail].concat();
        for (at, byte) in noise {
            let at = at.index(data.len());
            data[at] = byte;
        }
        let record = Record { original_length, ..record(LinkType(link), &data) };
        if let Ok(found) = dissect(&record, &CONFIG) {
            prop_assert!(found.transport.len() >= 12);
            prop_assert!(found.transport.len() <= found.transport_length as usize);
        }
    }
}

#[test]
fn changed_payload_has_bad_icrc() {
    for (name, link, mut data) in frames() {
        let at = data.windows(80).position(|window| window == transport()).unwrap();
        data[at + 20] ^= 1;
        assert_eq!(dissected(link, &data).unwrap().icrc, IcrcVerdict::Bad, "{name}");
    }
}

#[test]
fn destination_port_identifies_roce() {
    for source_port in [69, 4791, 4789, 53] {
        let mut data = SEND_ONLY.to_vec();
        data[34..36].copy_from_slice(&u16::to_be_bytes(source_port));
        let found = dissected(LinkType::ETHERNET, &data).unwrap();
        assert_eq!(found.carrier, Carrier::RoceV2 { source_port, destination_port: 4791 });
        data[36..38].copy_from_slice(&[0x12, 0xb4]);
        let lower = source_port.min(0x12b4);
        assert_eq!(other(1, &data), Other::Traffic(Traffic::Udp(lower)));
    }
    let other_port = Config { port: 4792, ..CONFIG };
    let mut data = SEND_ONLY.to_vec();
    let found = dissect(&record(LinkType::ETHERNET, &data), &other_port).map(|_| ()).unwrap_err();
    assert_eq!(found.named(), Other::Traffic(Traffic::Udp(4791)));
    data[37] += 1;
    assert!(dissect(&record(LinkType::ETHERNET, &data), &other_port).is_ok());
}

#[test]
fn icrc_is_unverifiable_if_verification_is_disabled() {
    let config = Config { verify_icrc: false, ..CONFIG };
    let found = dissect(&record(LinkType::ETHERNET, SEND_ONLY), &config).unwrap();
    assert_eq!(found.icrc, IcrcVerdict::Unverifiable);
    assert_eq!(found.transport, transport());
}

#[test]
fn ecn_and_dscp_are_read() {
    let mut data = SEND_ONLY.to_vec();
    data[15] = 0xff;
    let found = dissected(LinkType::ETHERNET, &data).unwrap();
    assert_eq!((found.ecn(), found.dscp(), found.icrc), (3, Some(63), IcrcVerdict::Good));
    let mut data = ipv6(17, &[]);
    data[1] |= 0x10;
    assert_eq!(dissected(LinkType::RAW, &data).unwrap().ecn(), 3);
    // A traffic class of 0xb9: expedited forwarding, ECT(1).
    data[..2].copy_from_slice(&[0x6b, 0x90]);
    let found = dissected(LinkType::RAW, &data).unwrap();
    assert_eq!((found.ecn(), found.dscp()), (1, Some(46)));
    let roce_v1 = ethernet(0x8915, &grh(mapped(2), mapped(1)));
    assert_eq!(dissected(LinkType::ETHERNET, &roce_v1).unwrap().dscp(), None);
}

#[test]
fn ipv4_fragments_are_recognized() {
    let fragment = |offset_field: u16, edit: fn(&mut Vec<u8>)| {
        let mut data = SEND_ONLY.to_vec();
        data[20..22].copy_from_slice(&offset_field.to_be_bytes());
        edit(&mut data);
        dissected(LinkType::ETHERNET, &data).map(|_| ()).unwrap_err().named()
    };
    assert_eq!(fragment(0x2000, |_| ()), Other::Fragment);
    assert_eq!(fragment(0x2001, |_| ()), Other::Fragment);
    assert_eq!(fragment(0x0001, |_| ()), Other::Fragment);
    assert_eq!(fragment(0x2000, |data| data[37] ^= 1), Other::Traffic(Traffic::Udp(4790)));
    assert_eq!(fragment(0x0001, |data| data[37] ^= 1), Other::Fragment);
    assert_eq!(fragment(0x2000, |data| data[23] = 6), Other::Traffic(Traffic::IpProtocol(6)));
    assert_eq!(fragment(0x0001, |data| data[23] = 47), Other::Traffic(Traffic::IpProtocol(47)));
}

#[test]
fn ipv6_extension_headers_are_skipped() {
    let hop_by_hop = [43, 0, 1, 4, 0, 0, 0, 0];
    let routing = [60, 0, 4, 0, 0, 0, 0, 0];
    let options = [51, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut authentication = [0xee; 24];
    authentication[..2].copy_from_slice(&[44, 4]);
    // The second byte of a fragment header is reserved, and receivers ignore it (RFC 8200, section
    // 4.5).
    let atomic = [17, 9, 0, 0, 0, 0, 0, 1];
    let chain = [&hop_by_hop[..], &routing, &options, &authentication, &atomic].concat();
    let data = ipv6(0, &chain);
    let found = dissected(LinkType::RAW, &data).unwrap();
    assert_eq!((found.transport, found.transport_length), (transport(), 80));
    assert_eq!(found.icrc, IcrcVerdict::Unverifiable);
    for length in 0..data.len() {
        let cut = Record { data: &data[..length], ..record(LinkType::RAW, &data) };
        match dissect(&cut, &CONFIG) {
            Ok(found) => assert_eq!(found.transport, &transport()[..length.min(192) - 112]),
            Err(Other::Stop(stop)) => assert_eq!(stop.cause, Cause::TruncatedCapture),
            Err(other) => panic!("{length}: {other:?}"),
        }
    }

    let fragment = |next: u8, field: u16, port: u8| {
        let [high, low] = field.to_be_bytes();
        let mut data = ipv6(44, &[next, 0, high, low, 0, 0, 0, 1]);
        data[51] = port;
        dissected(LinkType::RAW, &data).map(|_| ()).unwrap_err().named()
    };
    assert_eq!(fragment(17, 0x0001, 0xb7), Other::Fragment);
    assert_eq!(fragment(17, 0x0009, 0xb7), Other::Fragment);
    assert_eq!(fragment(17, 0x0008, 0), Other::Fragment);
    assert_eq!(fragment(17, 0x0001, 0), Other::Traffic(Traffic::Udp(0x1200)));
    assert_eq!(fragment(6, 0x0008, 0), Other::Traffic(Traffic::IpProtocol(6)));

    // Cut after an extension header: the UDP header is missing.
    let data = ipv6(60, &[17, 0, 1, 4, 0, 0, 0, 0]);
    let cut = Record { data: &data[..48], ..record(LinkType::RAW, &data) };
    let Err(Other::Stop(found)) = dissect(&cut, &CONFIG) else { panic!("a stop") };
    assert_eq!((found.layer, found.offset, found.needed, found.available), (Layer::Udp, 0, 8, 0));
    // An extension header that is longer than the packet.
    let stop = stop(LinkType::RAW, &ipv6(60, &[17, 255, 1, 4, 0, 0, 0, 0]));
    assert_eq!((stop.layer, stop.offset, stop.needed), (Layer::Network, 40, 2048));
    assert_eq!(stop.cause, Cause::TruncatedPacket);
}

#[test]
fn ip_and_udp_lengths_are_checked() {
    let changed = |at: usize, value: u16| {
        let mut data = SEND_ONLY.to_vec();
        data[at..at + 2].copy_from_slice(&value.to_be_bytes());
        data
    };
    let ether = LinkType::ETHERNET;
    // UDP has 92 bytes. These lengths exceed the IP packet or are less than a UDP header.
    for length in [93, 0xffff, 7, 0] {
        assert_eq!(stop(ether, &changed(38, length)), Stop::malformed(Layer::Udp, 4));
    }
    // The same in IPv6, whose length excludes the 40-byte header.
    let mut data = ipv6(17, &[]);
    assert_eq!(data[44..46], [0, 92]);
    data[45] += 1;
    assert_eq!(stop(LinkType::RAW, &data), Stop::malformed(Layer::Udp, 4));
    data[5] += 1;
    assert_eq!(dissected(LinkType::RAW, &data).unwrap().transport_length, 81);
    // A UDP length below that of the IP packet: the rest is not part of the datagram.
    let data = changed(38, 88);
    assert_eq!(dissected(ether, &data).unwrap().transport, &transport()[..76]);
    // Too short for a BTH and an ICRC.
    for length in 8..24 {
        let stop = stop(ether, &changed(38, length));
        assert_eq!((stop.layer, stop.needed, stop.available), (Layer::Bth, 16, usize::from(length) - 8));
        assert_eq!(stop.cause, Cause::TruncatedPacket);
    }
    // IPv4: a total length below the header length.
    assert_eq!(stop(ether, &changed(16, 19)), Stop::malformed(Layer::Network, 2));
    let empty = stop(ether, &changed(16, 20));
    assert_eq!((empty.layer, empty.available, empty.cause), (Layer::Udp, 0, Cause::TruncatedPacket));
    // A total length of 0, in a capture on the sender before its adapter sets the field.
    let data = changed(16, 0);
    let found = dissected(ether, &data).unwrap();
    assert_eq!((found.transport, found.icrc), (transport(), IcrcVerdict::Unverifiable));
    let cut = Record { data: &data[..100], ..record(ether, &data) };
    assert_eq!(dissect(&cut, &CONFIG).unwrap().transport_length, 80);
    // A total length beyond the frame, consistent with that of UDP: the frame was cut, and its
    // original length was lost.
    let mut data = changed(16, 1112);
    data[38..40].copy_from_slice(&1092u16.to_be_bytes());
    let found = dissected(ether, &data).unwrap();
    assert_eq!((found.transport.len(), found.transport_length), (84, 1080));
    assert_eq!(found.icrc, IcrcVerdict::Unverifiable);
    // More bytes captured than the original length.
    let record = Record { original_length: 10, ..record(ether, SEND_ONLY) };
    assert_eq!(dissect(&record, &CONFIG).unwrap().icrc, IcrcVerdict::Good);
}

#[test]
fn native_packet_lengths_are_checked() {
    let link = LinkType::INFINIBAND;
    let mut data = native_global();
    data[5] = 1;
    assert_eq!(stop(link, &data), Stop::malformed(Layer::Lrh, 4));
    let mut data = native_global();
    data[8 + 5] += 4;
    assert_eq!(stop(link, &data), Stop::malformed(Layer::Grh, 4));
    // The LRH is two words; the BTH without its ICRC is three more.
    for words in [2, 5] {
        let mut data = native_local();
        data[5] = words;
        let stop = stop(link, &data);
        assert_eq!((stop.layer, stop.needed, stop.cause), (Layer::Bth, 16, Cause::TruncatedPacket));
    }
    for raw in [0x10, 0x11] {
        let mut data = native_local();
        data[1] = raw;
        assert_eq!(other(link.0, &data), Other::Traffic(Traffic::RawInfiniBand));
    }
}

/// If the wire length of an ERF record is 0, the length comes from the LRH.
#[test]
fn erf_record_without_wire_length_uses_lrh_length() {
    let mut data = erf(21, &[], &native_local());
    data[14..16].copy_from_slice(&[0, 0]);
    let found = dissected(LinkType::ERF, &data).unwrap();
    assert_eq!((found.transport, found.icrc), (transport(), IcrcVerdict::Good));
}

/// A capture card may cut a packet even if the file has no snap length. The ERF header shows
/// whether it did.
#[test]
fn erf_wire_length_shows_capture_truncation() {
    for (length, wire, cause) in [
        (24, 104, Cause::TruncatedCapture),
        (24, 25, Cause::TruncatedCapture),
        (24, 24, Cause::TruncatedPacket),
    ] {
        let mut data = erf(22, &[], &ip()[..length]);
        data[15] = wire;
        let stop = stop(LinkType::ERF, &data);
        assert_eq!(
            (stop.layer, stop.needed, stop.available, stop.cause),
            (Layer::Udp, 8, 4, cause),
            "{wire}"
        );
    }
}

/// A missing ICRC has no byte range.
#[test]
fn missing_icrc_has_no_byte_range() {
    for (length, icrc) in [(126, Some(122..126)), (123, Some(122..123)), (122, None)] {
        let cut = Record { data: &SEND_ONLY[..length], ..record(LinkType::ETHERNET, SEND_ONLY) };
        let mut found = Vec::new();
        let frame = dissect_reporting(&cut, &CONFIG, &mut |header, place| found.push((header, place)));
        assert!(frame.is_ok());
        let icrc = icrc.map(|place| (Header::Icrc, place));
        let expected: Vec<_> = [(Header::Transport, 42..122)].into_iter().chain(icrc).collect();
        assert_eq!(found[3..], expected, "{length}");
    }
}

/// If the IP length is 0, the length comes from the frame, and the UDP length may also be 0.
#[test]
fn zero_lengths_are_replaced_by_frame_length() {
    let mut data = SEND_ONLY.to_vec();
    data[16..18].copy_from_slice(&[0, 0]);
    data[38..40].copy_from_slice(&[0, 0]);
    let found = dissected(LinkType::ETHERNET, &data).unwrap();
    assert_eq!((found.transport, found.icrc), (transport(), IcrcVerdict::Unverifiable));
    let mut data = ipv6(17, &[]);
    data[4..6].copy_from_slice(&[0, 0]);
    let found = dissected(LinkType::RAW, &data).unwrap();
    assert_eq!((found.transport, found.icrc), (transport(), IcrcVerdict::Unverifiable));
    data[44..46].copy_from_slice(&[0, 0]);
    assert_eq!(dissected(LinkType::RAW, &data).unwrap().transport, transport());
}

#[test]
fn other_traffic_is_named() {
    let ether_type = |number| Other::Traffic(Traffic::EtherType(number));
    let protocol = |number| Other::Traffic(Traffic::IpProtocol(number));
    let udp_port = |number| Other::Traffic(Traffic::Udp(number));
    assert_eq!(other(147, SEND_ONLY), Other::UnknownLinkType);
    assert_eq!(other(1, &ethernet(0x0806, &[0; 46])), ether_type(0x0806));
    assert_eq!(other(1, &ethernet(0x0026, &[0x42; 46])), Other::Traffic(Traffic::Llc(0x42)));
    // IEEE 802.1Q, section 36.2, and IEEE 802.3, annex 31B: opcodes of MAC control.
    assert_eq!(other(1, &ethernet(0x8808, &[1, 1, 0, 8, 0, 0])), Other::Traffic(Traffic::PriorityPause));
    assert_eq!(other(1, &ethernet(0x8808, &[0, 1, 0xff, 0xff])), Other::Traffic(Traffic::Pause));
    assert_eq!(other(1, &ethernet(0x0800, &ipv4(&[], 6, &[0; 40]))), Other::Traffic(Traffic::Tcp(0)));
    assert_eq!(other(1, &ethernet(0x0800, &ipv4(&[], 1, &[0; 40]))), protocol(1));
    assert_eq!(other(0, &[7, 0, 0, 0, 0x45]), Other::Traffic(Traffic::Unknown));
    assert_eq!(other(101, &[0x50; 40]), Other::Traffic(Traffic::Unknown));
    assert_eq!(other(197, &erf(1, &[], SEND_ONLY)), Other::Traffic(Traffic::Unknown));
    // Named by a port, or by the first bytes of the TCP payload.
    let tcp = |ports: [u8; 4], payload: &[u8]| {
        let header = [&ports[..], &[0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 0, 0, 0, 0, 0, 0]].concat();
        ethernet(0x0800, &ipv4(&[], 6, &[&header[..], payload].concat()))
    };
    assert_eq!(other(1, &tcp([0xc0, 0, 0x08, 0x01], b"")), Other::Traffic(Traffic::Nfs));
    assert_eq!(other(1, &tcp([0, 111, 0xc0, 0], b"")), Other::Traffic(Traffic::Portmap));
    let request = tcp([0xc0, 0, 0xc0, 1], b"MPA ID Req Frame\x40\x01\0\0");
    assert_eq!(other(1, &request), Other::Traffic(Traffic::Iwarp));
    assert_eq!(other(1, &tcp([0xc0, 0, 0xc0, 1], b"GET / HTTP/1.1")), Other::Traffic(Traffic::Tcp(0xc000)));
    let mut udp = SEND_ONLY.to_vec();
    udp[36..38].copy_from_slice(&20_048u16.to_be_bytes());
    assert_eq!(other(1, &udp), Other::Traffic(Traffic::Mount));
    // Cut at any length, with or without a name.
    for length in 34..request.len() {
        let cut = Record { data: &request[..length], ..record(LinkType::ETHERNET, &request) };
        let found = dissect(&cut, &CONFIG).map(|_| ()).unwrap_err().named();
        assert_eq!(found == Other::Traffic(Traffic::Iwarp), length >= 34 + 20 + 16, "{length}");
    }
    // VXLAN without a network identifier; VXLAN-GPE with an unknown protocol; NSH of another
    // version; GENEVE on another port.
    let mut no_identifier = tunnels::vxlan(SEND_ONLY);
    no_identifier[42] = 0;
    assert_eq!(other(1, &no_identifier), udp_port(4789));
    let mut unknown_protocol = tunnels::vxlan(SEND_ONLY);
    unknown_protocol[42..46].copy_from_slice(&[0x0c, 0, 0, 6]);
    assert_eq!(other(1, &unknown_protocol), Other::Traffic(Traffic::Unknown));
    let mut nsh = ethernet(0x894f, &[&[0x0f, 0xc2, 2, 1, 0, 0, 7, 255][..], &ip()].concat());
    nsh[14] |= 0x40;
    assert_eq!(other(1, &nsh), ether_type(0x894f));
    nsh[14..16].copy_from_slice(&[0x0f, 0xc1]);
    assert_eq!(stop(LinkType::ETHERNET, &nsh), Stop::malformed(Layer::Link, 1));
    let mut other_port = geneve(0, 0x6558, &[], SEND_ONLY);
    other_port[37] += 1;
    assert_eq!(other(1, &other_port), udp_port(6082));
    // GRE version 1 (PPTP); source routing in GRE, which is deprecated.
    assert_eq!(other(1, &gre([0, 1], 0x6558, &[], SEND_ONLY)), protocol(47));
    assert_eq!(other(1, &gre([0x40, 0], 0x6558, &[], SEND_ONLY)), protocol(47));
    // GENEVE of another version, MPLS with an unknown payload, PPPoE of another version, with a
    // code, with LCP.
    assert_eq!(other(1, &geneve(0x40, 0x6558, &[], SEND_ONLY)), udp_port(6081));
    assert_eq!(other(1, &geneve(0, 0x8809, &[], SEND_ONLY)), ether_type(0x8809));
    assert_eq!(other(1, &ethernet(0x8847, &[&LABELS[..], &[0x10; 60]].concat())), ether_type(0x1010));
    for (at, value) in [(14, 0x21), (15, 0xa7), (20, 0xc0)] {
        let mut data = pppoe(2 + ip().len(), 0x0021, &ip());
        data[at] = value;
        let name = if at == 20 { Traffic::Unknown } else { Traffic::EtherType(0x8864) };
        assert_eq!(other(1, &data), Other::Traffic(name));
    }
    assert_eq!(stop(LinkType::ETHERNET, &pppoe(1, 0x0021, &ip())), Stop::malformed(Layer::Link, 4));
    // A fragment of an IP-in-IP packet.
    let mut fragment = ethernet(0x0800, &ipv4(&[], 4, &ip()));
    fragment[20] = 0x20;
    assert_eq!(other(1, &fragment), protocol(4));
    // A GRH with another next header.
    let mut v1 = grh(mapped(2), mapped(1));
    v1[6] = 17;
    assert_eq!(other(1, &ethernet(0x8915, &v1)), protocol(17));
    // Impossible versions and header lengths.
    assert_eq!(stop(LinkType::ETHERNET, &ethernet(0x0800, &[0x65; 60])), Stop::malformed(Layer::Network, 0));
    assert_eq!(stop(LinkType::ETHERNET, &ethernet(0x0800, &[0x44; 60])), Stop::malformed(Layer::Network, 0));
    assert_eq!(stop(LinkType::ETHERNET, &ethernet(0x86dd, &[0x45; 60])), Stop::malformed(Layer::Network, 0));
}

/// The variant CRC is reported if captured. Padding of an ERF record is not taken for one.
#[test]
fn variant_crc_is_reported_if_captured() {
    let native = native_local();
    let expected = [
        (Header::Lrh, 0..8),
        (Header::Transport, 8..88),
        (Header::Icrc, 88..92),
        (Header::VariantCrc, 92..94),
    ];
    assert_eq!(headers_of(LinkType::INFINIBAND, &native), expected);
    for length in [92, 93] {
        assert_eq!(headers_of(LinkType::INFINIBAND, &native[..length]), expected[..3]);
    }
    let shifted = expected.map(|(header, place)| (header, place.start + 16..place.end + 16));
    let record = erf(21, &[], &native);
    let expected = [&[(Header::Erf, 0..16)][..], &shifted].concat();
    assert_eq!(headers_of(LinkType::ERF, &record), expected);
    // 92 bytes on the wire, and two bytes of padding.
    let mut padded = record;
    padded[15] = 92;
    assert_eq!(headers_of(LinkType::ERF, &padded), expected[..4]);
    let ethernet = erf(0x82, &[3, 0, 0, 0, 0, 0, 0, 0], &[&[0, 0][..], SEND_ONLY].concat());
    assert_eq!(headers_of(LinkType::ERF, &ethernet)[..2], [(Header::Erf, 0..26), (Header::Ethernet, 26..40)]);
}
