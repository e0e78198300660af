//! Mirrored and tunnelled traffic: frames and packets in IP, UDP, GRE, MPLS and PPPoE.

use super::headers::{Found, Header, Walk};
use super::view::{View, malformed};
use super::{Config, Other, Parsed, link, network};
use crate::protocol::Traffic;
use rdmascope_wire::Layer;

/// A tunnel in UDP.
#[derive(Clone, Copy)]
pub(super) enum InUdp {
    Vxlan,
    Geneve,
    Gue,
    Gre,
    Mpls,
}

impl InUdp {
    /// The tunnel on a UDP destination port.
    pub(super) fn of_port(port: u16, config: &Config) -> Option<InUdp> {
        match port {
            // RFC 7348, section 5; Linux before that assignment, and its users; VXLAN-GPE.
            4789 | 8472 | 4790 => Some(InUdp::Vxlan),
            // RFC 8926, section 3.3.
            6081 => Some(InUdp::Geneve),
            6080 => Some(InUdp::Gue),
            // RFC 8086, section 8; RFC 7510, section 6.
            4754 => Some(InUdp::Gre),
            6635 => Some(InUdp::Mpls),
            _ => (config.vxlan_port == Some(port)).then_some(InUdp::Vxlan),
        }
    }

    /// Parses the payload of the UDP packet to `port`.
    pub(super) fn parse<'a, F: Found>(self, port: u16, view: View<'a>, walk: &mut Walk<'_, F>) -> Parsed<'a> {
        walk.enter_tunnel();
        match self {
            InUdp::Vxlan => vxlan(port, view, walk),
            InUdp::Geneve => geneve(port, view, walk),
            InUdp::Gue => gue(port, view, walk),
            InUdp::Gre => gre(view, walk),
            InUdp::Mpls => mpls(view, walk),
        }
    }
}

/// Parses the payload of an IP packet by its protocol number.
pub(super) fn in_ip<'a, F: Found>(protocol: u8, view: View<'a>, walk: &mut Walk<'_, F>) -> Parsed<'a> {
    walk.enter_tunnel();
    match protocol {
        // IPv4 in IP (RFC 2003), IPv6 in IP (RFC 2473 and 4213).
        4 | 41 => link::by_ip_version(view, walk),
        47 => gre(view, walk),
        97 => ether_ip(view, walk),
        // RFC 4023, section 3.
        137 => mpls(view, walk),
        // RFC 8986, section 10.1: segment routing over IPv6.
        143 => link::ethernet(view, walk),
        _ => Err(Other::Traffic(Traffic::IpProtocol(protocol))),
    }
}

/// Parses EtherIP (RFC 3378, section 3): version 3 in four bits, 12 reserved bits, an Ethernet
/// frame.
fn ether_ip<'a, F: Found>(view: View<'a>, walk: &mut Walk<'_, F>) -> Parsed<'a> {
    let header = view.header::<2>(Layer::Link)?;
    if header[0] >> 4 != 3 {
        return Err(Other::Traffic(Traffic::IpProtocol(97)));
    }
    walk.found(Header::EtherIp, &view, 2);
    link::ethernet(view.skip(2), walk)
}

/// Parses generic UDP encapsulation (draft-ietf-intarea-gue-09, sections 3 and 4). Version 0 has a
/// control bit, the length of the optional fields in four-byte words, and an IP protocol number. In
/// version 1, an IP packet follows UDP: its own version begins with the bits of that number.
fn gue<'a, F: Found>(port: u16, view: View<'a>, walk: &mut Walk<'_, F>) -> Parsed<'a> {
    let header = view.header::<4>(Layer::Link)?;
    match header[0] >> 6 {
        0 if header[0] & 0x20 == 0 => {}
        1 => return link::by_ip_version(view, walk),
        _ => return Err(Other::Traffic(Traffic::Udp(port))),
    }
    let length = 4 + usize::from(header[0] & 0x1f) * 4;
    view.require(Layer::Link, length)?;
    walk.found(Header::Gue, &view, length);
    if !walk.may_enter() {
        return Err(Other::Traffic(Traffic::Udp(port)));
    }
    in_ip(header[1], view.skip(length), walk)
}

/// The Ethertype of transparent Ethernet bridging: a whole Ethernet frame.
const ETHERNET: u16 = 0x6558;

/// Parses VXLAN (RFC 7348, section 5): a byte of flags, whose I bit announces a network identifier;
/// 7 more bytes; an Ethernet frame. In VXLAN-GPE (draft-ietf-nvo3-vxlan-gpe, section 3), the P bit
/// announces the protocol of the payload in the last byte of the first word.
fn vxlan<'a, F: Found>(port: u16, view: View<'a>, walk: &mut Walk<'_, F>) -> Parsed<'a> {
    let header = view.header::<8>(Layer::Link)?;
    let (has_identifier, has_protocol) = (header[0] & 0x08 != 0, header[0] & 0x04 != 0);
    if !has_identifier && !has_protocol {
        return Err(Other::Traffic(Traffic::Udp(port)));
    }
    walk.found(Header::Vxlan, &view, 8);
    walk.pass_network([header[4], header[5], header[6]]);
    match has_protocol {
        true => by_next_protocol(header[3], view.skip(8), walk),
        false => link::ethernet(view.skip(8), walk),
    }
}

/// Parses the payload of VXLAN-GPE or NSH by its protocol (RFC 8300, section 2.2).
fn by_next_protocol<'a, F: Found>(protocol: u8, view: View<'a>, walk: &mut Walk<'_, F>) -> Parsed<'a> {
    match protocol {
        1 => network::ipv4(view, walk),
        2 => network::ipv6(view, walk),
        3 => link::ethernet(view, walk),
        4 if walk.may_enter() => nsh(view, walk.enter()),
        5 if walk.may_enter() => mpls(view, walk.enter()),
        _ => Err(Other::Traffic(Traffic::Unknown)),
    }
}

/// Parses the network service header (RFC 8300, section 2): the version, flags, a time to live, the
/// length in four-byte words, the metadata type, the protocol of the payload, the service path, and
/// metadata.
pub(super) fn nsh<'a, F: Found>(view: View<'a>, walk: &mut Walk<'_, F>) -> Parsed<'a> {
    let header = view.header::<8>(Layer::Link)?;
    let length = usize::from(header[1] & 0x3f) * 4;
    if header[0] >> 6 != 0 {
        return Err(Other::Traffic(Traffic::EtherType(0x894f)));
    }
    if length < 8 {
        return Err(malformed(Layer::Link, 1));
    }
    view.require(Layer::Link, length)?;
    walk.found(Header::Nsh, &view, length);
    by_next_protocol(header[3], view.skip(length), walk)
}

/// Parses GENEVE (RFC 8926, section 3.4): the version, the length of the options in four-byte
/// words, flags, the Ethertype of the payload, and a network identifier.
fn geneve<'a, F: Found>(port: u16, view: View<'a>, walk: &mut Walk<'_, F>) -> Parsed<'a> {
    let header = view.header::<8>(Layer::Link)?;
    if header[0] >> 6 != 0 {
        return Err(Other::Traffic(Traffic::Udp(port)));
    }
    let length = 8 + usize::from(header[0] & 0x3f) * 4;
    view.require(Layer::Link, length)?;
    walk.found(Header::Geneve, &view, length);
    walk.pass_network([header[4], header[5], header[6]]);
    let inner = view.skip(length);
    match u16::from_be_bytes([header[2], header[3]]) {
        ETHERNET => link::ethernet(inner, walk),
        _ => link::by_ether_type([header[2], header[3]], inner, walk),
    }
}

/// Parses an MPLS label stack, whose last entry has the S bit (RFC 3032, section 2.1). The stack
/// does not name its payload. IP packets begin with their version in four bits, and other payloads
/// should avoid these values (RFC 4928, section 3), so any other value is taken for Ethernet.
pub(super) fn mpls<'a, F: Found>(mut view: View<'a>, walk: &mut Walk<'_, F>) -> Parsed<'a> {
    loop {
        let entry = view.header::<4>(Layer::Link)?;
        walk.found(Header::Mpls, &view, 4);
        walk.pass_label([entry[0], entry[1], entry[2]]);
        view = view.skip(4);
        if entry[2] & 1 != 0 {
            break;
        }
    }
    let [first] = view.header(Layer::Link)?;
    match first >> 4 {
        4 => network::ipv4(view, walk),
        6 => network::ipv6(view, walk),
        0 => pseudowire(view, walk),
        _ => link::ethernet(view, walk),
    }
}

/// Parses Ethernet over MPLS that begins with four zero bits. They belong to a control word (RFC
/// 4448, section 4.6) or to a MAC address; the Ethertype shows which.
fn pseudowire<'a, F: Found>(view: View<'a>, walk: &mut Walk<'_, F>) -> Parsed<'a> {
    let header = view.header::<14>(Layer::Link)?;
    if link::is_understood(u16::from_be_bytes([header[12], header[13]])) {
        return link::ethernet(view, walk);
    }
    walk.found(Header::ControlWord, &view, 4);
    link::ethernet(view.skip(4), walk)
}

/// Parses a PPPoE session (RFC 2516, section 4): version 1 and type 1, code 0, the session, the
/// payload length. The PPP protocol number has two bytes, because section 7 advises against
/// compressing it.
pub(super) fn pppoe<'a, F: Found>(view: View<'a>, walk: &mut Walk<'_, F>) -> Parsed<'a> {
    let header = view.header::<8>(Layer::Link)?;
    if header[..2] != [0x11, 0] {
        return Err(Other::Traffic(Traffic::EtherType(0x8864)));
    }
    let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
    if length < 2 {
        return Err(malformed(Layer::Link, 4));
    }
    walk.found(Header::Pppoe, &view, 8);
    let inner = view.limit(6 + length).skip(8);
    match u16::from_be_bytes([header[6], header[7]]) {
        0x0021 => network::ipv4(inner, walk),
        0x0057 => network::ipv6(inner, walk),
        // MPLS (RFC 3032, section 4.3).
        0x0281 | 0x0283 if walk.may_enter() => mpls(inner, walk.enter()),
        _ => Err(Other::Traffic(Traffic::Unknown)),
    }
}

/// Parses GRE (RFC 2784 and 2890): four bytes, and four each for the checksum, key and sequence
/// number that the bits C, K and S announce.
fn gre<'a, F: Found>(view: View<'a>, walk: &mut Walk<'_, F>) -> Parsed<'a> {
    let header = view.header::<4>(Layer::Link)?;
    let checksum = header[0] & 0x80 != 0;
    let routing = header[0] & 0x40 != 0;
    let key = header[0] & 0x20 != 0;
    let sequence = header[0] & 0x10 != 0;
    let version = header[1] & 0x07;
    if routing || version != 0 {
        return Err(Other::Traffic(Traffic::IpProtocol(47)));
    }
    let length = 4 + [checksum, key, sequence].into_iter().filter(|&is_present| is_present).count() * 4;
    view.require(Layer::Link, length)?;
    walk.found(Header::Gre, &view, length);
    let protocol = u16::from_be_bytes([header[2], header[3]]);
    // NVGRE (RFC 7637, section 3.2): the key is the network identifier and a byte that differs
    // between flows.
    if key && protocol == ETHERNET {
        let [a, b, c, _] = key_of(&view, checksum);
        walk.pass_network([a, b, c]);
    }
    let inner = view.skip(length);
    match protocol {
        // ERSPAN type I has neither a sequence number nor a header of its own.
        0x88be if !sequence => link::ethernet(inner, walk),
        0x88be => {
            let header = inner.header::<8>(Layer::Link)?;
            walk.found(Header::Erspan2, &inner, 8);
            walk.pass(session(header));
            link::ethernet(inner.skip(8).cut_if(truncated(header)), walk)
        }
        0x22eb => erspan_3(inner, walk),
        // Mirrored by a Spectrum switch: the header has 22 bytes, whose layout is not published.
        0x8949 => {
            let header = inner.header::<22>(Layer::Link)?;
            walk.found(Header::SpectrumMirror, &inner, header.len());
            link::ethernet(inner.skip(header.len()), walk)
        }
        ETHERNET => link::ethernet(inner, walk),
        _ => link::by_ether_type([header[2], header[3]], inner, walk),
    }
}

/// The key of a GRE header, which the caller found complete.
fn key_of(view: &View<'_>, has_checksum: bool) -> [u8; 4] {
    let at = if has_checksum { 8 } else { 4 };
    view.data.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default()
}

/// Parses ERSPAN type III (draft-foschiano-erspan-03, section 4.3): 12 bytes, and 8 more if the
/// last bit is set.
fn erspan_3<'a, F: Found>(view: View<'a>, walk: &mut Walk<'_, F>) -> Parsed<'a> {
    let header = view.header::<12>(Layer::Link)?;
    let length = if header[11] & 1 == 0 { 12 } else { 20 };
    view.require(Layer::Link, length)?;
    walk.found(Header::Erspan3, &view, length);
    walk.pass(session(header.first_chunk().expect("12 bytes hold 8")));
    let inner = view.skip(length).cut_if(truncated(header.first_chunk().expect("12 bytes hold 8")));
    // FT: the type of the mirrored frame.
    match header[10] >> 2 & 0x1f {
        0 => link::ethernet(inner, walk),
        2 => link::by_ip_version(inner, walk),
        _ => Err(Other::Traffic(Traffic::EtherType(0x22eb))),
    }
}

/// The number of the mirroring session, in types II and III.
fn session(header: &[u8; 8]) -> u32 {
    u32::from(header[2] & 0x03) << 8 | u32::from(header[3])
}

/// T, in types II and III: the mirroring device truncated the frame.
fn truncated(header: &[u8; 8]) -> bool {
    header[2] & 0x04 != 0
}
