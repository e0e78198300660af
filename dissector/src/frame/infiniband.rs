//! LRH and GRH, and the transport packet inside every encapsulation.

use super::headers::{Found, Header, Walk};
use super::view::{View, malformed};
use super::{Address, Carrier, Frame, IcrcVerdict, Identity, Other, Parsed};
use crate::protocol::Traffic;
use core::net::Ipv6Addr;
use rdmascope_wire::bth::Bth;
use rdmascope_wire::grh::Grh;
use rdmascope_wire::lrh::{Lrh, NextHeader};
use rdmascope_wire::{Layer, icrc};

/// Bytes of a variant CRC, which the packet length of the LRH excludes (IBTA volume 1, section
/// 7.7.5).
const VARIANT_CRC: usize = 2;

/// Parses a GRH in an Ethernet frame (Annex A16).
pub(super) fn roce_v1<'a, F: Found>(view: View<'a>, walk: &mut Walk<'_, F>) -> Parsed<'a> {
    let bytes = view.header::<{ Grh::LENGTH }>(Layer::Grh)?;
    let grh = Grh::parse(bytes).map_err(Other::Stop)?;
    walk.found(Header::Grh, &view, Grh::LENGTH);
    let payload = view.limit(Grh::LENGTH + usize::from(grh.payload_length)).skip(Grh::LENGTH);
    after_grh(Carrier::RoceV1, bytes, &grh, payload, walk)
}

/// Parses a native InfiniBand packet. The capture may contain the variant CRC after the ICRC, or
/// not.
pub(super) fn native<'a, F: Found>(view: View<'a>, walk: &mut Walk<'_, F>) -> Parsed<'a> {
    let bytes = view.header::<{ Lrh::LENGTH }>(Layer::Lrh)?;
    let lrh = Lrh::parse(bytes).map_err(Other::Stop)?;
    let length = usize::from(lrh.packet_length) * 4;
    if length < Lrh::LENGTH {
        return Err(malformed(Layer::Lrh, 4));
    }
    walk.found(Header::Lrh, &view, Lrh::LENGTH);
    let rest = view.skip(length);
    let frame = after_lrh(bytes, &lrh, view.limit(length).skip(Lrh::LENGTH), walk)?;
    if rest.data.len() >= VARIANT_CRC {
        walk.found(Header::VariantCrc, &rest, VARIANT_CRC);
    }
    Ok(frame)
}

fn after_lrh<'a, F: Found>(
    bytes: &[u8; Lrh::LENGTH],
    lrh: &Lrh,
    view: View<'a>,
    walk: &mut Walk<'_, F>,
) -> Parsed<'a> {
    match lrh.next_header {
        NextHeader::RawEthertype | NextHeader::RawIpv6 => Err(Other::Traffic(Traffic::RawInfiniBand)),
        NextHeader::Bth => {
            let packet = transport(view, walk, |transport| icrc::lrh(bytes, transport))?;
            let addresses = [lrh.source, lrh.destination].map(Address::Lid);
            Ok(packet.in_frame(Carrier::InfiniBand, addresses, (0, None), walk))
        }
        NextHeader::Grh => {
            let bytes = view.header::<{ Grh::LENGTH }>(Layer::Grh)?;
            let grh = Grh::parse(bytes).map_err(Other::Stop)?;
            let length = Grh::LENGTH + usize::from(grh.payload_length);
            if length > view.wire {
                return Err(malformed(Layer::Grh, 4));
            }
            walk.found(Header::Grh, &view, Grh::LENGTH);
            walk.pass(grh.hop_limit.into());
            let payload = view.limit(length).skip(Grh::LENGTH);
            after_grh(Carrier::InfiniBand, bytes, &grh, payload, walk)
        }
    }
}

fn after_grh<'a, F: Found>(
    carrier: Carrier,
    bytes: &[u8; Grh::LENGTH],
    grh: &Grh,
    payload: View<'a>,
    walk: &mut Walk<'_, F>,
) -> Parsed<'a> {
    if grh.next_header != Grh::NEXT_HEADER_BTH {
        return Err(Other::Traffic(Traffic::IpProtocol(grh.next_header)));
    }
    let packet = transport(payload, walk, |transport| icrc::grh(bytes, transport))?;
    Ok(packet.in_frame(carrier, [grh.source, grh.destination].map(address), (0, None), walk))
}

/// Converts a GID. RoCE maps IPv4 addresses to GIDs (RFC 4291, section 2.5.5.2).
fn address(gid: [u8; 16]) -> Address {
    let gid = Ipv6Addr::from(gid);
    gid.to_ipv4_mapped().map_or(Address::V6(gid), Address::V4)
}

/// A transport packet and its ICRC.
pub(super) struct Packet<'a> {
    /// The captured bytes from the BTH on, without the ICRC.
    transport: &'a [u8],
    /// The length on the wire, without the ICRC.
    transport_length: u32,
    icrc: IcrcVerdict,
    /// The ICRC on the wire, if it was captured.
    check: Option<u32>,
}

impl<'a> Packet<'a> {
    /// The packet in the frame that `walk` went through, with the traffic class and the
    /// Identification of its IP header.
    #[inline]
    pub(super) fn in_frame<F: Found>(
        self,
        carrier: Carrier,
        addresses: [Address; 2],
        (traffic_class, identification): (u8, Option<u16>),
        walk: &Walk<'_, F>,
    ) -> Frame<'a> {
        let Packet { transport, transport_length, icrc, check } = self;
        let [source, destination] = addresses;
        Frame {
            source,
            destination,
            carrier,
            transport,
            transport_length,
            icrc,
            traffic_class,
            hop: walk.hop,
            context: walk.context,
            identity: Identity::new(transport, addresses, check, icrc, identification),
        }
    }
}

/// Parses the transport packet in `payload`. `expected` computes the ICRC, or returns `None` if
/// that is impossible.
#[inline]
pub(super) fn transport<'a, F: Found>(
    payload: View<'a>,
    walk: &mut Walk<'_, F>,
    expected: impl FnOnce(&'a [u8]) -> Option<u32>,
) -> Result<Packet<'a>, Other<'a>> {
    if payload.wire < Bth::LENGTH + icrc::LENGTH {
        return Err(payload.stop(Layer::Bth, 0, Bth::LENGTH + icrc::LENGTH));
    }
    if payload.data.len() < Bth::LENGTH {
        return Err(payload.stop(Layer::Bth, 0, Bth::LENGTH));
    }
    let length = payload.wire - icrc::LENGTH;
    let (transport, check) = match payload.data.split_at_checked(length) {
        None => (payload.data, None),
        Some((transport, found)) => (transport, found.first_chunk().map(|found| u32::from_le_bytes(*found))),
    };
    let icrc = match check {
        Some(found) if walk.config.verify_icrc => match expected(transport) {
            Some(expected) if expected == found => IcrcVerdict::Good,
            Some(_) => IcrcVerdict::Bad,
            None => IcrcVerdict::Unverifiable,
        },
        _ => IcrcVerdict::Unverifiable,
    };
    walk.found(Header::Transport, &payload, transport.len());
    if payload.data.len() > length {
        let check = payload.skip(length);
        walk.found(Header::Icrc, &check, check.data.len().min(icrc::LENGTH));
    }
    let transport_length = u32::try_from(length).unwrap_or(u32::MAX);
    Ok(Packet { transport, transport_length, icrc, check })
}
