//! IPv4, IPv6 and UDP.

use super::headers::{Found, Header, Walk};
use super::infiniband;
use super::tunnel::InUdp;
use super::view::{View, malformed};
use super::{Address, Carrier, Other, Parsed, Segment, tunnel};
use crate::protocol::Traffic;
use etherparse::{Ipv4HeaderSlice, Ipv6HeaderSlice, err};
use rdmascope_wire::{Layer, icrc};

/// The fields of the IP header that parsing of UDP and TCP needs.
#[derive(Clone, Copy)]
struct Below<'a> {
    /// The IP header, for the ICRC.
    header: &'a [u8],
    /// Whether all fields of `header` that the ICRC covers are the same as on the wire.
    verifiable: bool,
    /// Whether the IP header has a packet length.
    length_known: bool,
    source: Address,
    destination: Address,
    traffic_class: u8,
    /// The Identification, for IPv4.
    identification: Option<u16>,
    fragment: Fragment,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fragment {
    None,
    First,
    Later,
}

impl Fragment {
    #[inline]
    fn from_fields(offset: u16, more: bool) -> Fragment {
        match (offset, more) {
            (0, false) => Fragment::None,
            (0, true) => Fragment::First,
            _ => Fragment::Later,
        }
    }
}

pub(super) fn ipv4<'a, F: Found>(view: View<'a>, walk: &mut Walk<'_, F>) -> Parsed<'a> {
    let header = Ipv4HeaderSlice::from_slice(view.data).map_err(|error| match error {
        err::ipv4::HeaderSliceError::Len(error) => view.stop(Layer::Network, 0, error.required_len),
        err::ipv4::HeaderSliceError::Content(_) => malformed(Layer::Network, 0),
    })?;
    let length = header.slice().len();
    let total_length = usize::from(header.total_len());
    // A length of 0 occurs in packets captured before the network adapter segmented them. The
    // length then comes from the frame, and the ICRC was computed over another header.
    let length_known = total_length != 0;
    let view = match total_length {
        0 => view,
        short if short < length => return Err(malformed(Layer::Network, 2)),
        _ => view.limit(total_length),
    };
    walk.found(Header::Ipv4, &view, length);
    walk.pass(u32::from_be_bytes(header.source()));
    walk.pass(header.ttl().into());
    let below = Below {
        header: header.slice(),
        verifiable: length_known,
        length_known,
        source: Address::V4(header.source_addr()),
        destination: Address::V4(header.destination_addr()),
        traffic_class: header.slice()[1],
        identification: Some(header.identification()),
        fragment: Fragment::from_fields(header.fragments_offset().value(), header.more_fragments()),
    };
    upper(header.protocol().0, view.skip(length), &below, walk)
}

pub(super) fn ipv6<'a, F: Found>(view: View<'a>, walk: &mut Walk<'_, F>) -> Parsed<'a> {
    let header = Ipv6HeaderSlice::from_slice(view.data).map_err(|error| match error {
        err::ipv6::HeaderSliceError::Len(error) => view.stop(Layer::Network, 0, error.required_len),
        err::ipv6::HeaderSliceError::Content(_) => malformed(Layer::Network, 0),
    })?;
    let payload_length = usize::from(header.payload_length());
    let length_known = payload_length != 0;
    let view = if length_known { view.limit(40 + payload_length) } else { view };
    walk.found(Header::Ipv6, &view, 40);
    let [.., a, b, c, d] = header.source();
    walk.pass(u32::from_be_bytes([a, b, c, d]));
    walk.pass(header.hop_limit().into());
    let mut next_header = header.next_header().0;
    let mut at = 40;
    let mut fragment = Fragment::None;
    loop {
        let extension = view.skip(at);
        let length = match next_header {
            // Hop-by-hop options, routing, destination options; fragment; authentication.
            0 | 43 | 44 | 51 | 60 => {
                let Some(&[next, length]) = extension.data.first_chunk() else {
                    return Err(view.stop(Layer::Network, at, 8));
                };
                let length = match next_header {
                    44 => 8,
                    51 => (usize::from(length) + 2) * 4,
                    _ => (usize::from(length) + 1) * 8,
                };
                if extension.data.len() < length {
                    return Err(view.stop(Layer::Network, at, length));
                }
                if next_header == 44 {
                    let field = u16::from_be_bytes([extension.data[2], extension.data[3]]);
                    fragment = Fragment::from_fields(field >> 3, field & 1 != 0);
                }
                walk.found(Header::Ipv6Extension(next_header), &extension, length);
                next_header = next;
                length
            }
            _ => break,
        };
        at += length;
        if fragment == Fragment::Later {
            break;
        }
    }
    let below = Below {
        header: header.slice(),
        // Annex A17 does not define which fields of an extension header the ICRC masks.
        verifiable: length_known && at == 40,
        length_known,
        source: Address::V6(header.source_addr()),
        destination: Address::V6(header.destination_addr()),
        traffic_class: header.traffic_class(),
        identification: None,
        fragment,
    };
    upper(next_header, view.skip(at), &below, walk)
}

const TCP: u8 = 6;

#[inline]
fn upper<'a, F: Found>(
    protocol: u8,
    view: View<'a>,
    below: &Below<'a>,
    walk: &mut Walk<'_, F>,
) -> Parsed<'a> {
    match (protocol, below.fragment) {
        (TCP, Fragment::None) => Err(tcp(view, below, walk.context)),
        (17, Fragment::Later) => Err(Other::Fragment),
        (17, _) => udp(view, below, walk),
        (_, Fragment::None) if walk.may_enter() => tunnel::in_ip(protocol, view, walk),
        _ => Err(Other::Traffic(Traffic::IpProtocol(protocol))),
    }
}

/// Parses a TCP segment. If its header is incomplete, its ports may still identify the traffic.
fn tcp<'a>(view: View<'a>, below: &Below<'a>, context: u32) -> Other<'a> {
    let addresses = (below.source, below.destination);
    match Segment::parse(addresses, below.identification, view.data, view.at, view.wire) {
        Ok(mut segment) => {
            segment.context = context;
            Other::Tcp(segment)
        }
        Err(_) => {
            let traffic = view.data.first_chunk().map(|&[s0, s1, d0, d1]| {
                Traffic::of_tcp([u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1])], &[])
            });
            Other::Traffic(traffic.unwrap_or(Traffic::IpProtocol(TCP)))
        }
    }
}

/// Parses a UDP packet whose destination port is not that of RoCEv2. The destination port of a
/// tunnel identifies it; its source port is arbitrary.
fn other_udp<'a, F: Found>(
    ports: [u16; 2],
    view: View<'a>,
    fragment: Fragment,
    walk: &mut Walk<'_, F>,
) -> Parsed<'a> {
    let tunnel = InUdp::of_port(ports[1], walk.config);
    match tunnel.filter(|_| fragment == Fragment::None && walk.may_enter()) {
        Some(tunnel) => {
            view.header::<8>(Layer::Udp)?;
            walk.found(Header::Udp, &view, 8);
            tunnel.parse(ports[1], view.skip(8), walk)
        }
        None => Err(Other::Traffic(Traffic::of_udp(ports))),
    }
}

/// Only the destination port identifies RoCEv2. The source port spreads flows over paths, and may
/// be the port of another protocol.
#[inline]
fn udp<'a, F: Found>(view: View<'a>, below: &Below<'a>, walk: &mut Walk<'_, F>) -> Parsed<'a> {
    let Some(&[s0, s1, d0, d1]) = view.data.first_chunk() else {
        return Err(view.stop(Layer::Udp, 0, 8));
    };
    let destination_port = u16::from_be_bytes([d0, d1]);
    if destination_port != walk.config.port {
        let ports = [u16::from_be_bytes([s0, s1]), destination_port];
        return other_udp(ports, view, below.fragment, walk);
    }
    if below.fragment == Fragment::First {
        return Err(Other::Fragment);
    }
    let header = view.header::<8>(Layer::Udp)?;
    let payload = match usize::from(u16::from_be_bytes([header[4], header[5]])) {
        0 if !below.length_known => view.skip(8),
        length if length < 8 || length > view.wire => return Err(malformed(Layer::Udp, 4)),
        length => view.limit(length).skip(8),
    };
    walk.found(Header::Udp, &view, 8);
    let packet = infiniband::transport(payload, walk, |transport| {
        if below.verifiable { icrc::roce_v2(below.header, header, transport) } else { None }
    })?;
    let carrier = Carrier::RoceV2 { source_port: u16::from_be_bytes([s0, s1]), destination_port };
    let of_ip = (below.traffic_class, below.identification);
    Ok(packet.in_frame(carrier, [below.source, below.destination], of_ip, walk))
}
