//! Link headers, up to the network layer.

use super::headers::{Found, Header, Walk};
use super::tag::{self, Tag, TagPayload};
use super::view::View;
use super::{Other, Parsed, infiniband, network, tunnel};
use crate::protocol::Traffic;
use crate::record::LinkType;
use etherparse::{Ethernet2HeaderSlice, SingleVlanHeaderSlice};
use rdmascope_wire::erf::{Erf, RecordType};
use rdmascope_wire::{Layer, Stop};

/// The link type of raw IP is 101; some systems write these values instead.
const RAW_AS_WRITTEN_BY_BSD: LinkType = LinkType(12);
const RAW_AS_WRITTEN_BY_OPENBSD: LinkType = LinkType(14);

#[inline]
pub(super) fn by_link_type<'a, F: Found>(
    link: LinkType,
    view: View<'a>,
    walk: &mut Walk<'_, F>,
) -> Parsed<'a> {
    match link {
        LinkType::ETHERNET => ethernet(view, walk),
        LinkType::LINUX_SLL => {
            let header = view.header::<16>(Layer::Link)?;
            walk.found(Header::LinuxSll, &view, 16);
            by_ether_type([header[14], header[15]], view.skip(16), walk)
        }
        LinkType::LINUX_SLL2 => {
            let header = view.header::<20>(Layer::Link)?;
            walk.found(Header::LinuxSll2, &view, 20);
            by_ether_type([header[0], header[1]], view.skip(20), walk)
        }
        LinkType::RAW
        | LinkType::IPV4
        | LinkType::IPV6
        | RAW_AS_WRITTEN_BY_BSD
        | RAW_AS_WRITTEN_BY_OPENBSD => by_ip_version(view, walk),
        LinkType::NULL | LinkType::LOOP => loopback(view, walk),
        LinkType::INFINIBAND => infiniband::native(view, walk),
        LinkType::ERF => erf(view, walk),
        _ => Err(Other::UnknownLinkType),
    }
}

pub(super) fn ethernet<'a, F: Found>(view: View<'a>, walk: &mut Walk<'_, F>) -> Parsed<'a> {
    let header = Ethernet2HeaderSlice::from_slice(view.data).map_err(|_| view.stop(Layer::Link, 0, 14))?;
    walk.found(Header::Ethernet, &view, 14);
    let word =
        |at: usize| u32::from_be_bytes(*header.slice()[at..].first_chunk().expect("14 bytes hold 3 words"));
    [0, 4, 8].into_iter().for_each(|at| walk.pass(word(at)));
    by_ether_type(header.ether_type().0.to_be_bytes(), view.skip(14), walk)
}

/// Parses the payload of an Ethertype, after any number of tags.
#[inline]
pub(super) fn by_ether_type<'a, F: Found>(
    ether_type: [u8; 2],
    mut view: View<'a>,
    walk: &mut Walk<'_, F>,
) -> Parsed<'a> {
    let mut ether_type = u16::from_be_bytes(ether_type);
    loop {
        match ether_type {
            0x0800 => return network::ipv4(view, walk),
            0x86dd => return network::ipv6(view, walk),
            0x8915 => return infiniband::roce_v1(view, walk),
            0x8847 | 0x8848 if walk.may_enter() => return tunnel::mpls(view, walk.enter()),
            0x8864 if walk.may_enter() => return tunnel::pppoe(view, walk.enter()),
            // RFC 8300, section 10.1.1.
            0x894f if walk.may_enter() => return tunnel::nsh(view, walk.enter()),
            // IEEE 802.1Q, 802.1ad, and the Ethertype of stacked tags before 802.1ad.
            0x8100 | 0x88a8 | 0x9100 => {
                let tag =
                    SingleVlanHeaderSlice::from_slice(view.data).map_err(|_| view.stop(Layer::Link, 0, 4))?;
                ether_type = tag.ether_type().0;
                walk.found(Header::VlanTag, &view, 4);
                walk.pass_vlan(tag.vlan_identifier().value());
                view = view.skip(4);
            }
            _ => {
                let other = Other::Traffic(Traffic::of_ether_type(ether_type, view.data));
                let Some(Tag { length, payload }) = Tag::parse(ether_type, &view)? else { return Err(other) };
                let tag = view;
                walk.found(Header::Tag(ether_type), &tag, length);
                view = view.skip(length);
                ether_type = match payload {
                    TagPayload::EtherType => u16::from_be_bytes([tag.data[length - 2], tag.data[length - 1]]),
                    TagPayload::Ethernet if walk.may_enter() => return ethernet(view, walk.enter()),
                    TagPayload::Ethernet => return Err(other),
                };
            }
        }
    }
}

pub(super) fn by_ip_version<'a, F: Found>(view: View<'a>, walk: &mut Walk<'_, F>) -> Parsed<'a> {
    let [first] = view.header(Layer::Network)?;
    match first >> 4 {
        4 => network::ipv4(view, walk),
        6 => network::ipv6(view, walk),
        _ => Err(Other::Traffic(Traffic::Unknown)),
    }
}

/// Parses four bytes of address family, in the capturing host's order for [`LinkType::NULL`] and in
/// network order for [`LinkType::LOOP`]. No family is valid in both orders, so both are tried for
/// both link types.
fn loopback<'a, F: Found>(view: View<'a>, walk: &mut Walk<'_, F>) -> Parsed<'a> {
    let family = u32::from_be_bytes(*view.header(Layer::Link)?);
    walk.found(Header::Loopback, &view, 4);
    let family = if family > 0xffff { family.swap_bytes() } else { family };
    match family {
        2 => network::ipv4(view.skip(4), walk),
        // Linux, Windows, BSD, FreeBSD, Darwin.
        10 | 23 | 24 | 28 | 30 => network::ipv6(view.skip(4), walk),
        _ => Err(Other::Traffic(Traffic::Unknown)),
    }
}

/// Whether [`by_ether_type`] parses the payload of this Ethertype.
pub(super) fn is_understood(ether_type: u16) -> bool {
    matches!(
        ether_type,
        0x0800 | 0x86dd | 0x8915 | 0x8847 | 0x8848 | 0x8864 | 0x894f | 0x8100 | 0x88a8 | 0x9100
    ) || tag::is_tag(ether_type)
}

/// Parses an Endace Extensible Record Format record. Offsets of stops in its extension headers
/// count from its first byte.
fn erf<'a, F: Found>(view: View<'a>, walk: &mut Walk<'_, F>) -> Parsed<'a> {
    let short = |stop: Stop| view.stop(Layer::Link, stop.offset, stop.needed);
    let header = Erf::parse(view.data).map_err(short)?;
    let length = header.headers_length(view.data).map_err(short)?;
    walk.found(Header::Erf, &view, length);
    // The wire length starts at the first byte of the packet and excludes the padding after it.
    let wire_length = usize::from(header.wire_length);
    let packet = view.skip(length).cut_from(wire_length);
    match header.record_type {
        kind if kind.is_ethernet() => ethernet(packet, walk),
        // The wire length excludes the variant CRC, so padding must not be mistaken for one.
        RecordType::INFINIBAND if wire_length > 0 => infiniband::native(packet.limit(wire_length), walk),
        RecordType::INFINIBAND => infiniband::native(packet, walk),
        RecordType::IPV4 | RecordType::IPV6 => by_ip_version(packet, walk),
        _ => Err(Other::Traffic(Traffic::Unknown)),
    }
}
