//! Tests of tunnels: GRE and ERSPAN, VXLAN, GENEVE, MPLS, PPPoE, IP in IP.

use super::*;

/// `flags` are the first two bytes of the GRE header; `header` has the fields that they announce.
pub(super) fn gre(flags: [u8; 2], protocol: u16, header: &[u8], payload: &[u8]) -> Vec<u8> {
    let gre = [&flags[..], &protocol.to_be_bytes(), header, payload].concat();
    ethernet(0x0800, &ipv4(&[], 47, &gre))
}

/// From the UDP header on, with source port 49152.
fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let length = (8 + payload.len()) as u16;
    [&[0xc0, 0][..], &port.to_be_bytes(), &length.to_be_bytes(), &[0, 0], payload].concat()
}

/// A UDP packet in Ethernet and IPv4.
fn in_udp(port: u16, header: &[u8], inner: &[u8]) -> Vec<u8> {
    ethernet(0x0800, &ipv4(&[], 17, &udp(port, &[header, inner].concat())))
}

pub(super) fn vxlan(inner: &[u8]) -> Vec<u8> {
    in_udp(4789, &VXLAN, inner)
}

/// The I bit, and VNI 42 (RFC 7348, section 5).
const VXLAN: [u8; 8] = [8, 0, 0, 0, 0, 0, 42, 0];

/// The I and P bits, the protocol of the payload, and VNI 42 (draft-ietf-nvo3-vxlan-gpe, section 3).
fn gpe(protocol: u8) -> [u8; 8] {
    [0x0c, 0, 0, protocol, 0, 0, 42, 0]
}

/// The SEND Only with a tag before its EtherType.
fn tagged(ether_type: u16, tag: &[u8]) -> Vec<u8> {
    ethernet(ether_type, &[tag, &SEND_ONLY[12..]].concat())
}

/// A segment routing header with two segments (RFC 8754, section 2).
fn srh(next: u8) -> Vec<u8> {
    [&[next, 4, 4, 1, 1, 0, 0, 0][..], &[0xfd; 16], &[0xfe; 16]].concat()
}

/// TTL 63, metadata of type 2, service path 7 and index 255 (RFC 8300, section 2).
fn nsh(protocol: u8, metadata: &[u8]) -> Vec<u8> {
    let words = 2 + metadata.len() as u8 / 4;
    [&[0x0f, 0xc0 | words, 2, protocol, 0, 0, 7, 255][..], metadata].concat()
}

pub(super) fn geneve(first: u8, protocol: u16, options: &[u8], inner: &[u8]) -> Vec<u8> {
    let [high, low] = protocol.to_be_bytes();
    let geneve = [first, 0, high, low, 0, 0, 42, 0];
    in_udp(6081, &[&geneve[..], options].concat(), inner)
}

/// Two labels, 16 and 17, with TTL 64; S is set in the second.
pub(super) const LABELS: [u8; 8] = [0, 1, 0, 64, 0, 1, 0x11, 64];

/// `length` is the length field: two bytes of PPP and the packet.
pub(super) fn pppoe(length: usize, protocol: u16, inner: &[u8]) -> Vec<u8> {
    let header = [&[0x11, 0, 0, 7][..], &(length as u16).to_be_bytes(), &protocol.to_be_bytes()].concat();
    ethernet(0x8864, &[&header[..], inner].concat())
}

/// IP in IPv6, without the ICRC that the composer would add.
pub(super) fn in_ipv6(next: u8, inner: &[u8]) -> Vec<u8> {
    let mut out = vec![0x60, 0, 0, 0];
    out.extend((inner.len() as u16).to_be_bytes());
    out.extend([next, 64]);
    [&out[..], &V6_SERVER, &V6_CLIENT, inner].concat()
}

/// The SEND Only in every encapsulation.
pub(super) fn frames() -> Vec<(&'static str, LinkType, Vec<u8>)> {
    let ether = LinkType::ETHERNET;
    let ip = ip();
    let tag = [0x60, 0x05];
    let one_tag = [&tag[..], &[8, 0], &ip].concat();
    let four_tags = [&tag[..], &[0x81, 0], &tag, &[0x91, 0], &tag, &[0x88, 0xa8], &one_tag].concat();
    let v6 = ipv6(17, &[]);
    let v1 = grh(mapped(2), mapped(1));
    let sll = |protocol: u16, rest: &[u8]| {
        [&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0][..], &protocol.to_be_bytes(), rest].concat()
    };
    let sll2 = |protocol: u16, rest: &[u8]| {
        let fixed = [0, 0, 0, 0, 0, 3, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0];
        [&protocol.to_be_bytes()[..], &fixed, rest].concat()
    };
    let family = |family: [u8; 4], rest: &[u8]| [&family[..], rest].concat();
    let padded = [&[0, 0][..], SEND_ONLY].concat();
    // Version 1, VLAN 0, session 1. Type III has version 2, and the granularity and the O bit at
    // its end.
    let erspan_2 = [0x10, 0, 0, 1, 0, 0, 0, 0];
    let erspan_3 = [0x20, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 0];
    let erspan_3_long = [0x20, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8];
    let sequence = [0, 0, 0, 1];
    vec![
        ("Ethernet", ether, SEND_ONLY.to_vec()),
        ("one VLAN tag", ether, ethernet(0x8100, &one_tag)),
        ("four VLAN tags", ether, ethernet(0x88a8, &four_tags)),
        ("padding after the packet", ether, [SEND_ONLY, &[0; 9]].concat()),
        ("IPv4 options", ether, ethernet(0x0800, &ipv4_with_options())),
        ("IPv6", ether, ethernet(0x86dd, &v6)),
        ("SLL", LinkType::LINUX_SLL, sll(0x0800, &ip)),
        ("SLL, VLAN tag", LinkType::LINUX_SLL, sll(0x8100, &one_tag)),
        ("SLL2", LinkType::LINUX_SLL2, sll2(0x0800, &ip)),
        ("SLL2, IPv6", LinkType::LINUX_SLL2, sll2(0x86dd, &v6)),
        ("raw", LinkType::RAW, ip.clone()),
        ("raw, IPv6", LinkType::RAW, v6.clone()),
        ("raw, 12", LinkType(12), ip.clone()),
        ("raw, 14", LinkType(14), v6.clone()),
        ("raw IPv4", LinkType::IPV4, ip.clone()),
        ("raw IPv6", LinkType::IPV6, v6.clone()),
        ("NULL, little-endian", LinkType::NULL, family([2, 0, 0, 0], &ip)),
        ("NULL, big-endian", LinkType::NULL, family([0, 0, 0, 2], &ip)),
        ("NULL, Darwin's IPv6", LinkType::NULL, family([30, 0, 0, 0], &v6)),
        ("LOOP", LinkType::LOOP, family([0, 0, 0, 2], &ip)),
        ("LOOP, IPv6", LinkType::LOOP, family([0, 0, 0, 24], &v6)),
        ("RoCEv1", ether, ethernet(0x8915, &v1)),
        ("RoCEv1, VLAN tag", ether, ethernet(0x8100, &[&tag[..], &[0x89, 0x15], &v1].concat())),
        ("RoCEv1 in SLL", LinkType::LINUX_SLL, sll(0x8915, &v1)),
        ("native", LinkType::INFINIBAND, native_local()),
        ("native, GRH", LinkType::INFINIBAND, native_global()),
        ("ERF, native", LinkType::ERF, erf(21, &[], &native_local())),
        (
            "ERF, native, extended",
            LinkType::ERF,
            erf(21 | 0x80, &[0x83, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0], &native_local()),
        ),
        ("ERF, Ethernet", LinkType::ERF, erf(2, &[], &padded)),
        ("ERF, IPv4", LinkType::ERF, erf(22, &[], &ip)),
        ("ERSPAN I", ether, gre([0, 0], 0x88be, &[], SEND_ONLY)),
        ("ERSPAN II", ether, gre([0x10, 0], 0x88be, &[&sequence[..], &erspan_2].concat(), SEND_ONLY)),
        ("ERSPAN III", ether, gre([0x10, 0], 0x22eb, &[&sequence[..], &erspan_3].concat(), SEND_ONLY)),
        (
            "ERSPAN III, platform",
            ether,
            gre([0x10, 0], 0x22eb, &[&sequence[..], &erspan_3_long].concat(), SEND_ONLY),
        ),
        ("GRE, Ethernet, all fields", ether, gre([0xb0, 0], 0x6558, &[7; 12], SEND_ONLY)),
        ("GRE, IPv4", ether, gre([0, 0], 0x0800, &[], &ip)),
        ("VXLAN", ether, vxlan(SEND_ONLY)),
        ("VXLAN in VXLAN", ether, vxlan(&vxlan(SEND_ONLY))),
        ("VXLAN on port 8472", ether, in_udp(8472, &VXLAN, SEND_ONLY)),
        ("VXLAN on port 5000", ether, in_udp(5000, &VXLAN, SEND_ONLY)),
        ("VXLAN, group policy", ether, in_udp(4789, &[0x88, 0, 1, 2, 0, 0, 42, 0], SEND_ONLY)),
        ("VXLAN over 6", ether, ethernet(0x86dd, &in_ipv6(17, &udp(8472, &[&VXLAN, SEND_ONLY].concat())))),
        ("VXLAN, VLAN tags", ether, in_udp(8472, &VXLAN, &ethernet(0x88a8, &four_tags))),
        ("VXLAN-GPE, IPv4", ether, in_udp(4790, &gpe(1), &ip)),
        ("VXLAN-GPE, IPv6", ether, in_udp(4790, &gpe(2), &v6)),
        ("VXLAN-GPE, Ethernet", ether, in_udp(4790, &gpe(3), SEND_ONLY)),
        ("VXLAN-GPE, MPLS", ether, in_udp(4790, &gpe(5), &[&LABELS[4..], &ip].concat())),
        ("VXLAN-GPE without an identifier", ether, in_udp(4790, &[4, 0, 0, 1, 0, 0, 0, 0], &ip)),
        ("VXLAN-GPE, NSH", ether, in_udp(4790, &gpe(4), &[&nsh(3, &[]), SEND_ONLY].concat())),
        ("NSH, metadata", ether, ethernet(0x894f, &[&nsh(1, &[9; 8]), &ip[..]].concat())),
        ("GUE, IPv4", ether, in_udp(6080, &[0, 4, 0, 0], &ip)),
        ("GUE, optional fields, IPv6", ether, in_udp(6080, &[1, 41, 0, 0, 9, 9, 9, 9], &v6)),
        ("GUE, Ethernet", ether, in_udp(6080, &[0, 143, 0, 0], SEND_ONLY)),
        ("GUE, MPLS", ether, in_udp(6080, &[0, 137, 0, 0], &[&LABELS[4..], &ip].concat())),
        ("GUE variant 1, IPv4", ether, in_udp(6080, &[], &ip)),
        ("GUE variant 1, IPv6", ether, in_udp(6080, &[], &v6)),
        ("MPLS in UDP", ether, in_udp(6635, &LABELS, &ip)),
        ("GRE in UDP", ether, in_udp(4754, &[0x20, 0, 0x65, 0x58, 0, 0, 42, 0], SEND_ONLY)),
        ("MPLS in IP", ether, ethernet(0x0800, &ipv4(&[], 137, &[&LABELS[..], &ip].concat()))),
        ("EtherIP", ether, ethernet(0x0800, &ipv4(&[], 97, &[&[0x30, 0], SEND_ONLY].concat()))),
        ("EtherIP over 6", ether, ethernet(0x86dd, &in_ipv6(97, &[&[0x30, 0], SEND_ONLY].concat()))),
        ("SRv6, Ethernet", ether, ethernet(0x86dd, &in_ipv6(43, &[&srh(143), SEND_ONLY].concat()))),
        ("SRv6, IPv4", ether, ethernet(0x86dd, &in_ipv6(43, &[&srh(4), &ip[..]].concat()))),
        ("SRv6, reduced, Ethernet", ether, ethernet(0x86dd, &in_ipv6(143, SEND_ONLY))),
        ("Spectrum mirror", ether, gre([0, 0], 0x8949, &[0; 22], SEND_ONLY)),
        ("Spectrum mirror, VLAN tags", ether, gre([0, 0], 0x8949, &[0; 22], &ethernet(0x88a8, &four_tags))),
        (
            "Spectrum mirror over 6",
            ether,
            ethernet(0x86dd, &in_ipv6(47, &[&[0, 0, 0x89, 0x49][..], &[0; 22], SEND_ONLY].concat())),
        ),
        ("VN-Tag", ether, tagged(0x8926, &[0x80, 5, 0, 0])),
        ("E-TAG", ether, tagged(0x893f, &[0, 1, 0, 2, 0, 0])),
        ("R-TAG", ether, tagged(0xf1c1, &[0, 0, 0, 9])),
        ("HSR tag", ether, tagged(0x892f, &[0x10, 60, 0, 9])),
        ("Cisco MetaData", ether, tagged(0x8909, &[1, 1, 0, 1, 0, 7])),
        ("Arista, 64 bits", ether, tagged(0xd28b, &[0, 1, 0, 0x10, 1, 2, 3, 4, 5, 6, 7, 8])),
        ("Arista, 48 bits", ether, tagged(0xd28b, &[0, 1, 1, 0x21, 1, 2, 3, 4, 5, 6])),
        ("MACsec, not encrypted", ether, tagged(0x88e5, &[0, 0, 0, 0, 0, 1])),
        (
            "MACsec, not encrypted, with a channel",
            ether,
            tagged(0x88e5, &[0x20, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0, 1]),
        ),
        ("LLC and SNAP", ether, tagged(88, &[0xaa, 0xaa, 3, 0, 0, 0])),
        ("two tags", ether, ethernet(0x8926, &[&[0, 0, 0, 0][..], &tagged(0xf1c1, &[0; 4])[12..]].concat())),
        ("VLAN tag and R-TAG", ether, ethernet(0x8100, &[&tag[..], &tagged(0xf1c1, &[0; 4])[12..]].concat())),
        ("I-TAG", ether, ethernet(0x88e7, &[&[0, 0, 0, 42], SEND_ONLY].concat())),
        ("FabricPath", ether, ethernet(0x8903, &[&[0, 0x60], SEND_ONLY].concat())),
        ("TRILL", ether, ethernet(0x22f3, &[&[0, 0x3f, 0, 1, 0, 2], SEND_ONLY].concat())),
        // One option word.
        ("TRILL, option", ether, ethernet(0x22f3, &[&[0, 0x7f, 0, 1, 0, 2, 9, 9, 9, 9], SEND_ONLY].concat())),
        ("ERF, Ethernet, color", LinkType::ERF, erf(11, &[], &padded)),
        ("ERF, Ethernet, color and stream", LinkType::ERF, erf(16, &[], &padded)),
        (
            "ERF, Ethernet, color and hash, extended",
            LinkType::ERF,
            erf(20 | 0x80, &[3, 0, 0, 0, 0, 0, 0, 0], &padded),
        ),
        ("GENEVE, Ethernet", ether, geneve(0, 0x6558, &[], SEND_ONLY)),
        // One option with class 0x0102, type 3 and four bytes.
        ("GENEVE, option, Ethernet", ether, geneve(2, 0x6558, &[0x01, 0x02, 3, 1, 9, 9, 9, 9], SEND_ONLY)),
        ("GENEVE, IPv4", ether, geneve(0, 0x0800, &[], &ip)),
        ("GENEVE, IPv6", ether, geneve(0, 0x86dd, &[], &v6)),
        ("MPLS, IPv4", ether, ethernet(0x8847, &[&LABELS[..], &ip].concat())),
        ("MPLS, IPv6", ether, ethernet(0x8848, &[&LABELS[..], &v6].concat())),
        ("MPLS, Ethernet", ether, ethernet(0x8847, &[&LABELS[4..], SEND_ONLY].concat())),
        ("MPLS, control word", ether, ethernet(0x8847, &[&LABELS[4..], &[0, 0, 0, 1], SEND_ONLY].concat())),
        ("MPLS, VLAN tag", ether, ethernet(0x8100, &[&tag[..], &[0x88, 0x47], &LABELS[4..], &ip].concat())),
        ("MPLS in GRE", ether, gre([0, 0], 0x8847, &[], &[&LABELS[4..], &ip].concat())),
        ("PPPoE, IPv4", ether, pppoe(2 + ip.len(), 0x0021, &ip)),
        ("PPPoE, padded", ether, [pppoe(2 + ip.len(), 0x0021, &ip), vec![0; 9]].concat()),
        ("PPPoE, IPv6", ether, pppoe(2 + v6.len(), 0x0057, &v6)),
        ("PPPoE, MPLS", ether, pppoe(6 + ip.len(), 0x0281, &[&LABELS[4..], &ip].concat())),
        ("IP in IP", ether, ethernet(0x0800, &ipv4(&[], 4, &ip))),
        ("IPv6 in IP", LinkType::RAW, ipv4(&[], 41, &v6)),
        ("IP in 6", LinkType::RAW, in_ipv6(4, &ip)),
        ("IPv6 in 6", ether, ethernet(0x86dd, &in_ipv6(41, &v6))),
    ]
}

#[test]
fn erspan_truncation_is_a_truncated_capture() {
    // ERSPAN type II with the T bit; the mirroring device sent 60 bytes of the frame.
    let header = [0, 0, 0, 1, 0x10, 0, 0x04, 1, 0, 0, 0, 0];
    let data = gre([0x10, 0], 0x88be, &header, &SEND_ONLY[..60]);
    let found = dissected(LinkType::ETHERNET, &data).unwrap();
    assert_eq!((found.transport, found.transport_length), (&transport()[..18], 80));
    assert_eq!(found.icrc, IcrcVerdict::Unverifiable);
    let data = gre([0x10, 0], 0x88be, &header, &SEND_ONLY[..50]);
    assert_eq!(stop(LinkType::ETHERNET, &data).cause, Cause::TruncatedCapture);
}

#[test]
fn nesting_is_bounded() {
    let mut data = SEND_ONLY.to_vec();
    for depth in 1..8 {
        data = vxlan(&data);
        assert_eq!(dissected(LinkType::ETHERNET, &data).is_ok(), depth <= 4, "{depth}");
    }
    type Wrap = fn(&[u8]) -> Vec<u8>;
    let wraps: [(&str, Wrap); 4] = [
        ("GENEVE", |inner| geneve(0, 0x6558, &[], &ethernet(0x0800, inner))[14..].to_vec()),
        ("IP", |inner| ipv4(&[], 4, inner)),
        ("MPLS in GRE in IP", |inner| {
            gre([0, 0], 0x8847, &[], &[&LABELS[4..], inner].concat())[14..].to_vec()
        }),
        ("PPPoE in GRE in IP", |inner| {
            gre([0, 0], 0x8864, &[], &pppoe(2 + inner.len(), 0x0021, inner)[14..])[14..].to_vec()
        }),
    ];
    for (name, wrap) in wraps {
        let mut data = ip();
        // The last two add two levels each time.
        let most = if name.contains("GRE") { 2 } else { 4 };
        for times in 1..8 {
            data = wrap(&data);
            assert_eq!(dissected(LinkType::RAW, &data).is_ok(), times <= most, "{name}, {times}");
        }
    }
}

/// Parsing stops at depth 4 in any kind of encapsulation: here in GRE, followed by another kind.
#[test]
fn nesting_bound_applies_to_every_encapsulation() {
    let in_gre = |times: usize, ether_type: u16, inner: &[u8]| {
        (0..times).fold((ether_type, inner.to_vec()), |(ether_type, inner), _| {
            (0x0800, gre([0, 0], ether_type, &[], &inner)[14..].to_vec())
        })
    };
    let ip = ip();
    let mpls = [&LABELS[4..], &ip].concat();
    let labelled = |inner: &[u8]| {
        let mpls = [&LABELS[4..], inner].concat();
        pppoe(2 + mpls.len(), 0x0281, &mpls)[14..].to_vec()
    };
    let (once, twice) = (ipv4(&[], 4, &ip), ipv4(&[], 4, &ipv4(&[], 4, &ip)));
    // The maximum number of GRE headers around it.
    for (name, ether_type, inner, most) in [
        ("IP", 0x0800, ip.clone(), 4),
        ("MPLS", 0x8847, mpls.clone(), 3),
        ("MPLS multicast", 0x8848, mpls, 3),
        ("PPPoE", 0x8864, pppoe(2 + ip.len(), 0x0021, &ip)[14..].to_vec(), 3),
        ("MPLS in PPPoE", 0x8864, labelled(&ip), 2),
        ("IP in IP in MPLS in PPPoE", 0x8864, labelled(&once), 1),
        ("IP in IP in IP in MPLS in PPPoE", 0x8864, labelled(&twice), 0),
        ("VXLAN", 0x0800, vxlan(SEND_ONLY)[14..].to_vec(), 3),
        ("GENEVE", 0x0800, geneve(0, 0x0800, &[], &ip)[14..].to_vec(), 3),
        ("IP in IP", 0x0800, ipv4(&[], 4, &ip), 3),
    ] {
        for times in 0..=6 {
            let (ether_type, inner) = in_gre(times, ether_type, &inner);
            let data = ethernet(ether_type, &inner);
            let found = dissected(LinkType::ETHERNET, &data);
            assert_eq!(found.is_ok(), times <= most, "{name} {times}");
        }
    }
}

/// ERSPAN type III has the type of the mirrored frame in FT, the five bits after P: 0 for Ethernet,
/// 2 for IP (draft-foschiano-erspan-03, section 4.3).
#[test]
fn erspan_frame_type_selects_ethernet_or_ip() {
    let mirrored = |bits: u8, inner: &[u8]| {
        let header = [0x20, 0, 0, 1, 0, 0, 0, 9, 0, 0, bits, 0];
        gre([0x10, 0], 0x22eb, &[&[0, 0, 0, 1][..], &header].concat(), inner)
    };
    let is_found = |bits, inner: &[u8]| dissected(LinkType::ETHERNET, &mirrored(bits, inner)).is_ok();
    for (bits, of_ethernet, of_ip) in [
        (0x00, true, false),
        (0x80, true, false),
        (0x03, true, false),
        (0x08, false, true),
        (0x04, false, false),
        (0x7c, false, false),
    ] {
        let found = (is_found(bits, SEND_ONLY), is_found(bits, &ip()));
        assert_eq!(found, (of_ethernet, of_ip), "{bits:#x}");
    }
}

/// Four zero bits after the labels belong to a MAC address if an Ethertype follows in its place.
#[test]
fn mac_address_is_not_a_control_word() {
    let inner = ethernet(0x0800, &ip());
    assert_eq!(inner[0] >> 4, 0);
    for control_word in [&[][..], &[0, 0, 0, 0], &[0, 0, 0, 1]] {
        let data = ethernet(0x8847, &[&LABELS[4..], control_word, &inner].concat());
        assert!(dissected(LinkType::ETHERNET, &data).is_ok(), "{control_word:?}");
    }
}

/// Tunnels in fragments of IP packets are not parsed, because the fragments are not reassembled.
#[test]
fn tunnels_in_fragments_are_not_parsed() {
    for data in [
        gre([0, 0], 0x6558, &[], SEND_ONLY),
        vxlan(SEND_ONLY),
        geneve(0, 0x6558, &[], SEND_ONLY),
        ethernet(0x0800, &ipv4(&[], 4, &ip())),
    ] {
        for (more, is_found) in [(0, true), (0x20, false)] {
            let mut data = data.clone();
            data[20] = more;
            assert_eq!(dissected(LinkType::ETHERNET, &data).is_ok(), is_found, "{data:?}");
        }
    }
}

/// A length of 2 covers only the protocol number, so the rest is padding. A PPPoE packet may be
/// shorter than the captured bytes.
#[test]
fn pppoe_length_limits_payload() {
    let stop_of = |length| stop(LinkType::ETHERNET, &pppoe(length, 0x0021, &ip()));
    for length in [0, 1] {
        assert_eq!(stop_of(length), Stop::malformed(Layer::Link, 4));
    }
    let found = stop_of(2);
    assert_eq!((found.layer, found.available, found.cause), (Layer::Network, 0, Cause::TruncatedPacket));
    let found = stop_of(2 + 19);
    assert_eq!((found.layer, found.available, found.cause), (Layer::Network, 19, Cause::TruncatedPacket));
}

/// Header lengths by hand, from RFC 2784 and 2890 and draft-foschiano-erspan-03, section 4.2.
#[test]
fn erspan_headers_have_byte_ranges() {
    let mut inner = vec![0; 12];
    inner.extend_from_slice(&[0x81, 0x00, 0x00, 0x05, 0x08, 0x00]);
    let mut ip = vec![0x45, 0, 0, 20 + 8 + 12 + 4, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    ip.extend_from_slice(&[0xc0, 0x00, 0x12, 0xb7, 0, 8 + 12 + 4, 0, 0]);
    ip.extend_from_slice(&[0; 16]);
    inner.extend_from_slice(&ip);
    let mut outer = vec![0; 12];
    outer.extend_from_slice(&[0x08, 0x00]);
    let length = (20 + 8 + 8 + inner.len()) as u8;
    outer.extend_from_slice(&[0x45, 0, 0, length, 0, 0, 0, 0, 64, 47, 0, 0, 10, 0, 0, 3, 10, 0, 0, 4]);
    outer.extend_from_slice(&[0x10, 0x00, 0x88, 0xbe, 0, 0, 0, 1]);
    outer.extend_from_slice(&[0x10, 0, 0, 0, 0, 0, 0, 0]);
    outer.extend_from_slice(&inner);
    let record = Record {
        number: 1,
        time: Time(0),
        link: LinkType::ETHERNET,
        original_length: outer.len() as u32,
        dropped: 0,
        tap: Default::default(),
        data: &outer,
    };
    let mut found = Vec::new();
    let frame =
        dissect_reporting(&record, &Config::default(), &mut |header, place| found.push((header, place)));
    assert_eq!(frame.unwrap().transport.len(), 12);
    let expected = [
        (Header::Ethernet, 0..14),
        (Header::Ipv4, 14..34),
        (Header::Gre, 34..42),
        (Header::Erspan2, 42..50),
        (Header::Ethernet, 50..64),
        (Header::VlanTag, 64..68),
        (Header::Ipv4, 68..88),
        (Header::Udp, 88..96),
        (Header::Transport, 96..108),
        (Header::Icrc, 108..112),
    ];
    assert_eq!(found, expected);
}

pub(super) fn headers_of(link: LinkType, data: &[u8]) -> Vec<(Header, Range<usize>)> {
    let mut found = Vec::new();
    let frame =
        dissect_reporting(&record(link, data), &CONFIG, &mut |header, place| found.push((header, place)));
    assert_eq!(frame.unwrap().transport, transport());
    found
}

/// Header lengths by hand, from RFC 8926, 3032, 4448, 2516 and 2003. Each frame has 80 bytes of
/// transport packet.
#[test]
fn tunnel_headers_have_byte_ranges() {
    let ether = LinkType::ETHERNET;
    let geneve = geneve(2, 0x6558, &[1, 2, 3, 1, 9, 9, 9, 9], SEND_ONLY);
    let expected = [
        (Header::Ethernet, 0..14),
        (Header::Ipv4, 14..34),
        (Header::Udp, 34..42),
        (Header::Geneve, 42..58),
        (Header::Ethernet, 58..72),
        (Header::Ipv4, 72..92),
        (Header::Udp, 92..100),
        (Header::Transport, 100..180),
        (Header::Icrc, 180..184),
    ];
    assert_eq!(headers_of(ether, &geneve), expected);

    let mpls = ethernet(0x8847, &[&LABELS[..], &[0, 0, 0, 1], SEND_ONLY].concat());
    let expected = [
        (Header::Ethernet, 0..14),
        (Header::Mpls, 14..18),
        (Header::Mpls, 18..22),
        (Header::ControlWord, 22..26),
        (Header::Ethernet, 26..40),
        (Header::Ipv4, 40..60),
        (Header::Udp, 60..68),
        (Header::Transport, 68..148),
        (Header::Icrc, 148..152),
    ];
    assert_eq!(headers_of(ether, &mpls), expected);

    let inner = ipv4(&[], 4, &ip());
    let pppoe = pppoe(2 + inner.len(), 0x0021, &inner);
    let expected = [
        (Header::Ethernet, 0..14),
        (Header::Pppoe, 14..22),
        (Header::Ipv4, 22..42),
        (Header::Ipv4, 42..62),
        (Header::Udp, 62..70),
        (Header::Transport, 70..150),
        (Header::Icrc, 150..154),
    ];
    assert_eq!(headers_of(ether, &pppoe), expected);
}

/// Tags whose contents cannot be read are other traffic: an encrypted or changed frame (IEEE
/// 802.1AE, section 9.5), another version, an unknown format, another organization.
#[test]
fn unreadable_tags_are_other_traffic() {
    for (ether_type, tag) in [
        (0x88e5, &[0x08, 0, 0, 0, 0, 1][..]),
        (0x88e5, &[0x04, 0, 0, 0, 0, 1]),
        (0x88e5, &[0x80, 0, 0, 0, 0, 1]),
        (0x8909, &[2, 1, 0, 1, 0, 7]),
        (0x8909, &[1, 2, 0, 1, 0, 7]),
        (0xd28b, &[0, 2, 0, 0x10, 1, 2, 3, 4, 5, 6, 7, 8]),
        (0xd28b, &[0, 1, 2, 0x10, 1, 2, 3, 4, 5, 6, 7, 8]),
        (0xd28b, &[0, 1, 0, 0x30, 1, 2, 3, 4, 5, 6, 7, 8]),
        (0x22f3, &[0x40, 0x3f, 0, 1, 0, 2]),
        (88, &[0xaa, 0xaa, 3, 0, 0, 1]),
        (38, &[0x42, 0x42, 3, 0, 0, 0]),
    ] {
        let data = tagged(ether_type, tag);
        let found = dissected(LinkType::ETHERNET, &data).map(|_| ()).unwrap_err();
        let expected = if ether_type > 1500 { Traffic::EtherType(ether_type) } else { Traffic::Llc(tag[0]) };
        assert_eq!(found, Other::Traffic(expected), "{tag:?}");
    }
}

/// Outer frames count as encapsulation; tags do not.
#[test]
fn tags_do_not_count_as_nesting() {
    let mut data = SEND_ONLY.to_vec();
    for depth in 1..8 {
        data = ethernet(0x88e7, &[&[0, 0, 0, 42][..], &data].concat());
        assert_eq!(dissected(LinkType::ETHERNET, &data).is_ok(), depth <= 4, "{depth}");
    }
    let many = [&0xf1c1u16.to_be_bytes()[..], &[0; 4]].concat().repeat(10_000);
    let data = [&SEND_ONLY[..12], &many, &SEND_ONLY[12..]].concat();
    assert!(dissected(LinkType::ETHERNET, &data).is_ok());
}

/// Lengths of tags by hand. Each ends with the next EtherType, unless Ethernet follows.
#[test]
fn tags_have_byte_ranges() {
    let headers = headers_of(LinkType::ETHERNET, &tagged(0xd28b, &[0, 1, 0, 0x10, 1, 2, 3, 4, 5, 6, 7, 8]));
    assert_eq!(
        headers[..3],
        [(Header::Ethernet, 0..14), (Header::Tag(0xd28b), 14..28), (Header::Ipv4, 28..48)]
    );
    let headers = headers_of(LinkType::ETHERNET, &ethernet(0x8903, &[&[0, 0x60], SEND_ONLY].concat()));
    assert_eq!(
        headers[..3],
        [(Header::Ethernet, 0..14), (Header::Tag(0x8903), 14..16), (Header::Ethernet, 16..30)]
    );
    let headers = headers_of(LinkType::ETHERNET, &gre([0, 0], 0x8949, &[0; 22], SEND_ONLY));
    assert_eq!(
        headers[2..5],
        [(Header::Gre, 34..38), (Header::SpectrumMirror, 38..60), (Header::Ethernet, 60..74)]
    );
}

/// The context of a frame that carries the SEND Only.
fn context(frame: &[u8]) -> u32 {
    dissect(&record(LinkType::ETHERNET, frame), &Config::default()).expect("a RoCE packet").context
}

/// A frame with VLAN tags that have these identifiers.
fn with_vlans(vlans: &[u16], frame: &[u8]) -> Vec<u8> {
    let tags: Vec<u8> =
        vlans.iter().flat_map(|vlan| [[0x81, 0], (0xe000 | vlan).to_be_bytes()].concat()).collect();
    [&frame[..12], &tags, &frame[12..]].concat()
}

/// VLANs and network identifiers distinguish networks. Priorities, the VLANs outside of a tunnel,
/// the byte of an NVGRE key that differs between flows, labels and mirroring sessions do not.
#[test]
fn context_distinguishes_vlans_and_network_identifiers() {
    let vxlan = |identifier: u8, inner: &[u8]| in_udp(4789, &[8, 0, 0, 0, 0, 0, identifier, 0], inner);
    let nvgre = |identifier: u8, flow: u8| gre([0x20, 0], 0x6558, &[0, 0, identifier, flow], SEND_ONLY);
    let erspan = |session: u8| {
        gre([0x10, 0], 0x88be, &[&[0; 4][..], &[0x10, 0, 0, session, 0, 0, 0, 0]].concat(), SEND_ONLY)
    };
    let mpls = |label: u8| ethernet(0x8847, &[&[0, label, 1, 64][..], &SEND_ONLY[14..]].concat());
    assert_eq!(context(SEND_ONLY), 0);
    let same: [(Vec<u8>, Vec<u8>); 6] = [
        (with_vlans(&[0], SEND_ONLY), SEND_ONLY.to_vec()),
        (with_vlans(&[0, 7], SEND_ONLY), with_vlans(&[7], SEND_ONLY)),
        (with_vlans(&[7], &vxlan(1, SEND_ONLY)), vxlan(1, SEND_ONLY)),
        (nvgre(1, 1), nvgre(1, 2)),
        (erspan(1), erspan(2)),
        (mpls(1), mpls(2)),
    ];
    for (one, other) in &same {
        assert_eq!(context(one), context(other), "{one:?}");
    }
    let networks = [
        SEND_ONLY.to_vec(),
        with_vlans(&[7], SEND_ONLY),
        with_vlans(&[8], SEND_ONLY),
        with_vlans(&[7, 8], SEND_ONLY),
        with_vlans(&[8, 7], SEND_ONLY),
        vxlan(7, SEND_ONLY),
        vxlan(8, SEND_ONLY),
        vxlan(8, &with_vlans(&[7], SEND_ONLY)),
        nvgre(9, 1),
        nvgre(10, 1),
    ];
    let mut contexts: Vec<u32> = networks.iter().map(|frame| context(frame)).collect();
    contexts.sort_unstable();
    contexts.dedup();
    assert_eq!(contexts.len(), networks.len());
}
