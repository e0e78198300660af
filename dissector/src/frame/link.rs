//! Link headers: from the link type of a record to what its network layer is.

use super::{Config, Frame, Other, Span, ip};
use crate::record::LinkType;
use etherparse::{EtherType, ether_type};
use rdmascope_wire::Layer;

/// The transport packet in a frame of this link type.
#[inline]
pub(super) fn dissect<'a>(link: LinkType, span: Span<'a>, config: &Config) -> Result<Frame<'a>, Other> {
    match link {
        LinkType::ETHERNET => ethernet(span, config),
        LinkType::LINUX_SLL => {
            // Packet type, ARPHRD type, address length, address, protocol.
            let (header, rest) = span.split(Layer::Link, 16)?;
            network(word(header, 14), rest, config)
        }
        LinkType::LINUX_SLL2 => {
            // Protocol, reserved, interface index, ARPHRD type, packet type, address length, address.
            let (header, rest) = span.split(Layer::Link, 20)?;
            network(word(header, 0), rest, config)
        }
        // The address family, whose numbers differ from system to system: the packet itself says what it is.
        LinkType::NULL | LinkType::LOOP => ip::dissect(span.split(Layer::Link, 4)?.1, config),
        LinkType::RAW | LinkType::IPV4 | LinkType::IPV6 => ip::dissect(span, config),
        _ => Err(Other::UnknownLinkType),
    }
}

/// Destination, source, any number of VLAN tags, type.
#[inline]
fn ethernet<'a>(span: Span<'a>, config: &Config) -> Result<Frame<'a>, Other> {
    let (header, rest) = span.split(Layer::Link, 14)?;
    network(word(header, 12), rest, config)
}

#[inline]
fn network<'a>(mut kind: EtherType, mut span: Span<'a>, config: &Config) -> Result<Frame<'a>, Other> {
    // IEEE 802.1Q, 802.1ad, and the number that QinQ used before it.
    while let ether_type::VLAN_TAGGED_FRAME
    | ether_type::PROVIDER_BRIDGING
    | ether_type::VLAN_DOUBLE_TAGGED_FRAME = kind
    {
        let (tag, rest) = span.split(Layer::Link, 4)?;
        (kind, span) = (word(tag, 2), rest);
    }
    match kind {
        ether_type::IPV4 | ether_type::IPV6 => ip::dissect(span, config),
        _ => Err(Other::NotInfiniBand),
    }
}

fn word(header: &[u8], at: usize) -> EtherType {
    EtherType(u16::from_be_bytes([header[at], header[at + 1]]))
}
