//! IP and UDP: RoCEv2 (IBTA Annex A17).

use super::{Address, Carrier, Config, Frame, IcrcVerdict, Other, Span};
use etherparse::{IpNumber, Ipv4HeaderSlice, Ipv6ExtensionsSlice, Ipv6HeaderSlice, ip_number};
use rdmascope_wire::bth::Bth;
use rdmascope_wire::{Layer, Stop, icrc};

const UDP_LENGTH: usize = 8;

/// What the IP header says of the packet in it.
struct Header<'a> {
    source: Address,
    destination: Address,
    ecn: u8,
    /// The header as the ICRC covers it; `None` where it has parts that Annex A17 does not speak of.
    covered: Option<&'a [u8]>,
    /// Headers of which the UDP header is not the first thing behind.
    is_fragment: bool,
    protocol: IpNumber,
}

/// The transport packet in an IP packet, by the version that it says it is.
#[inline]
pub(super) fn dissect<'a>(span: Span<'a>, config: &Config) -> Result<Frame<'a>, Other> {
    let Some(first) = span.bytes.first() else { return Err(span.short(Layer::Network, 0, 1).into()) };
    let (header, payload) = match first >> 4 {
        4 => version_4(span)?,
        6 => version_6(span)?,
        _ => return Err(Stop::malformed(Layer::Network, 0).into()),
    };
    if header.protocol != ip_number::UDP {
        return Err(Other::NotInfiniBand);
    }
    if header.is_fragment {
        return Err(Other::Fragment);
    }
    udp(&header, payload, config)
}

#[inline]
fn version_4(span: Span<'_>) -> Result<(Header<'_>, Span<'_>), Stop> {
    let slice = match Ipv4HeaderSlice::from_slice(span.bytes) {
        Ok(slice) => slice,
        Err(_) if span.bytes.len() >= 20 && span.bytes[0] & 0x0f < 5 => {
            return Err(Stop::malformed(Layer::Network, 0));
        }
        Err(_) => {
            let length = usize::from(span.bytes[0] & 0x0f) * 4;
            return Err(span.short(Layer::Network, 0, length.max(20)));
        }
    };
    let length = slice.slice().len();
    // A sender that leaves segmentation to its adapter captures packets of total length 0: the frame tells then.
    let total = match usize::from(slice.total_len()) {
        0 => span.length,
        total if total < length => return Err(Stop::malformed(Layer::Network, 2)),
        total => total,
    };
    let payload = span.limit(total).split(Layer::Network, length)?.1;
    let header = Header {
        source: Address::V4(slice.source_addr()),
        destination: Address::V4(slice.destination_addr()),
        ecn: slice.ecn().value(),
        covered: Some(slice.slice()),
        is_fragment: slice.is_fragmenting_payload(),
        protocol: slice.protocol(),
    };
    Ok((header, payload))
}

fn version_6(span: Span<'_>) -> Result<(Header<'_>, Span<'_>), Stop> {
    let Ok(slice) = Ipv6HeaderSlice::from_slice(span.bytes) else {
        return Err(span.short(Layer::Network, 0, 40));
    };
    let fixed = slice.slice().len();
    let payload = span.limit(fixed + usize::from(slice.payload_length())).split(Layer::Network, fixed)?.1;
    let (extensions, protocol, rest, error) =
        Ipv6ExtensionsSlice::from_slice_lax(slice.next_header(), payload.bytes);
    if error.is_some() {
        let at = fixed + payload.bytes.len() - rest.len();
        return Err(span.short(Layer::Network, at, rest.len() + 1));
    }
    let skipped = payload.bytes.len() - rest.len();
    let header = Header {
        source: Address::from_ipv6(slice.source_addr()),
        destination: Address::from_ipv6(slice.destination_addr()),
        ecn: slice.ecn().value(),
        covered: (skipped == 0).then_some(slice.slice()),
        is_fragment: extensions.is_fragmenting_payload(),
        protocol,
    };
    Ok((header, Span { bytes: rest, length: payload.length - skipped }))
}

#[inline]
fn udp<'a>(ip: &Header<'a>, span: Span<'a>, config: &Config) -> Result<Frame<'a>, Other> {
    let Some(header) = span.bytes.first_chunk::<UDP_LENGTH>() else {
        return Err(span.short(Layer::Udp, 0, UDP_LENGTH).into());
    };
    let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let (source_port, destination_port, length) = (word(0), word(2), usize::from(word(4)));
    if destination_port != config.port {
        return Err(Other::NotInfiniBand);
    }
    if length > span.length || length < UDP_LENGTH {
        return Err(Stop::malformed(Layer::Udp, 4).into());
    }
    let datagram = span.limit(length).split(Layer::Udp, UDP_LENGTH)?.1;
    let Some(transport_length) = datagram.length.checked_sub(icrc::LENGTH).filter(|it| *it >= Bth::LENGTH)
    else {
        return Err(Stop::short(Layer::Bth, 0, Bth::LENGTH + icrc::LENGTH, datagram.length).into());
    };
    let transport = datagram.limit(transport_length).bytes;
    let received = datagram.bytes.get(transport_length..).and_then(<[u8]>::first_chunk::<{ icrc::LENGTH }>);
    let icrc = match (received, ip.covered) {
        (Some(received), Some(covered)) if config.verify_icrc => {
            if icrc::roce_v2(covered, header, transport) == Some(u32::from_le_bytes(*received)) {
                IcrcVerdict::Good
            } else {
                IcrcVerdict::Bad
            }
        }
        _ => IcrcVerdict::Unverifiable,
    };
    Ok(Frame {
        source: ip.source,
        destination: ip.destination,
        carrier: Carrier::RoceV2 { source_port, destination_port },
        transport,
        transport_length: transport_length as u32,
        icrc,
        ecn: ip.ecn,
    })
}
