//! Headers below the transport: addresses are replaced, options are cleared, checksums are
//! recomputed.

use super::values::Values;
use core::ops::Range;
use rdmascope_dissector::frame::Header;
use rdmascope_dissector::protocol::Traffic;
use rdmascope_wire::grh::Grh;
use rdmascope_wire::icrc;
use rdmascope_wire::lrh::Lrh;

/// A header and its range in the record.
pub(super) type Place = (Header, Range<usize>);

/// Replaces the addresses in a header, and clears its options.
pub(super) fn replace(values: &mut Values, header: Header, bytes: &mut [u8]) {
    match header {
        Header::Ethernet => {
            replace_at(bytes, 0, |address| values.mac(address));
            replace_at(bytes, 6, |address| values.mac(address));
        }
        Header::LinuxSll => link_layer_address(values, bytes, 5, 6),
        Header::LinuxSll2 => link_layer_address(values, bytes, 11, 12),
        Header::Ipv4 => {
            replace_at(bytes, 12, |address| values.ipv4(address));
            replace_at(bytes, 16, |address| values.ipv4(address));
            clear(bytes, 20);
        }
        Header::Ipv6 | Header::Grh => {
            replace_at(bytes, 8, |address| values.ipv6(address));
            replace_at(bytes, 24, |address| values.ipv6(address));
        }
        // The whole fragment header is needed: offset and Identification.
        Header::Ipv6Extension(FRAGMENT) => {}
        // Keeps the next header and the length. The options become zeros, which is Pad1.
        Header::Ipv6Extension(_) => clear(bytes, 2),
        Header::Geneve | Header::Nsh => clear(bytes, 8),
        // The platform subheader.
        Header::Erspan3 => clear(bytes, 12),
        Header::Erf => clear_extensions(bytes),
        Header::VariantCrc | Header::SpectrumMirror => clear(bytes, 0),
        Header::Gue => clear(bytes, 4),
        Header::Tag(ether_type) => clear_tag(ether_type, bytes),
        Header::VlanTag
        | Header::Loopback
        | Header::Udp
        | Header::Gre
        | Header::EtherIp
        | Header::Erspan2
        | Header::Vxlan
        | Header::Mpls
        | Header::ControlWord
        | Header::Pppoe
        | Header::Lrh
        | Header::Transport
        | Header::Icrc => {}
    }
}

/// The number of the IPv6 fragment header (RFC 8200, section 4.5).
const FRAGMENT: u8 = 44;
const TCP: u8 = 6;
const UDP: u8 = 17;
const GRE: u8 = 47;
const ETHER_IP: u8 = 97;

fn replace_at<const N: usize>(bytes: &mut [u8], at: usize, new: impl FnOnce([u8; N]) -> [u8; N]) {
    if let Some(address) = bytes.get_mut(at..).and_then(|bytes| bytes.first_chunk_mut()) {
        *address = new(*address);
    }
}

fn clear(bytes: &mut [u8], from: usize) {
    bytes.get_mut(from..).unwrap_or_default().fill(0);
}

/// Replaces the address in the eight-byte address field of a Linux cooked capture if it is an
/// Ethernet address, and clears any other address. The byte at `length` holds the length of the
/// address.
fn link_layer_address(values: &mut Values, bytes: &mut [u8], length: usize, at: usize) {
    if bytes.get(length) == Some(&6) {
        replace_at(bytes, at, |address| values.mac(address));
        bytes.get_mut(at + 6..at + 8).unwrap_or_default().fill(0);
    } else {
        bytes.get_mut(at..at + 8).unwrap_or_default().fill(0);
    }
}

/// Clears the time of a time stamp, the options of TRILL, and the channel of MACsec, which has a
/// MAC address. The EtherType at the end stays.
fn clear_tag(ether_type: u16, bytes: &mut [u8]) {
    let end = bytes.len().saturating_sub(2);
    match ether_type {
        0xd28b => clear(&mut bytes[..end], 4),
        0x88e5 => clear(&mut bytes[..end], 6),
        0x22f3 => clear(bytes, 6),
        _ => {}
    }
}

/// Clears ERF extension headers except for the type and the more-extensions bit, because they may
/// contain names of hosts and adapters.
fn clear_extensions(bytes: &mut [u8]) {
    let mut at = 16;
    let mut follows = bytes.get(8).is_some_and(|kind| kind & 0x80 != 0);
    while let Some(extension) = bytes.get_mut(at..at + 8).filter(|_| follows) {
        follows = extension[0] & 0x80 != 0;
        extension[1..].fill(0);
        at += 8;
    }
}

/// Clears everything after the last header of a record without a transport packet, except for the
/// TCP or UDP ports and the bytes that identify its `Traffic`.
pub(super) fn clear_others(headers: &[Place], data: &mut [u8]) {
    let end = headers.last().map_or(0, |(_, range)| range.end.min(data.len()));
    let protocol = next_protocol(headers, data);
    let rest = &mut data[end..];
    let kept = match protocol {
        Some(UDP) if rest.len() >= 8 => {
            rest[6..8].fill(0);
            8
        }
        Some(TCP) if rest.len() >= 20 => {
            // The checksum and the urgent pointer.
            rest[16..20].fill(0);
            let payload = usize::from(rest[12] >> 4) * 4;
            clear_segment(rest, payload.max(20));
            return;
        }
        Some(GRE | ETHER_IP) => 4,
        _ if decides(headers, data) => 4,
        _ => 0,
    };
    clear(&mut data[end..], kept);
}

/// Whether the first four bytes after the last header, such as a version or an opcode, decide how
/// the dissector reads or names the rest.
fn decides(headers: &[Place], data: &[u8]) -> bool {
    let Some((header, range)) = headers.last() else { return false };
    let ether_type = match header {
        Header::Ethernet | Header::VlanTag | Header::Tag(_) | Header::LinuxSll => {
            data.get(range.end - 2..range.end)
        }
        Header::LinuxSll2 => data.get(range.start..range.start + 2),
        // A tunnel that was not read.
        Header::Udp => return true,
        _ => None,
    };
    // MAC control, PPPoE, NSH, and tags; LLC.
    ether_type.and_then(|bytes| bytes.first_chunk()).is_some_and(|bytes| {
        let ether_type = u16::from_be_bytes(*bytes);
        matches!(ether_type, 0..=1500 | 0x8808 | 0x8864 | 0x894f | 0x22f3 | 0x8909 | 0x88e5 | 0xd28b)
    })
}

/// Clears the urgent pointer of a TCP header, and the contents of its options except for known
/// numbers: segment size (RFC 9293, section 3.7.1), window scale and timestamps (RFC 7323),
/// selective acknowledgements (RFC 2018). Timestamps and selective acknowledgements can distinguish
/// otherwise equal acknowledgements.
pub(super) fn clear_options(header: &mut [u8]) {
    header[18..20].fill(0);
    let mut at = 20;
    while let Some([kind, rest @ ..]) = header.get(at..) {
        let length = match (kind, rest) {
            (0, _) | (_, []) => break,
            (1, _) => 1,
            (_, [length, ..]) => usize::from(*length),
        };
        let is_known =
            matches!((kind, length), (1, _) | (2, 4) | (3, 3) | (4, 2) | (5, 10 | 18 | 26 | 34) | (8, 10));
        let Some(option) = header.get_mut(at..at + length).filter(|_| length > 0) else { break };
        if !is_known {
            clear(option, 2);
        }
        at += length;
    }
    clear(header, at);
}

/// The expected checksums of a TCP segment (RFC 9293, section 3.1).
pub(super) struct TcpChecksum {
    right: u16,
    /// The partial checksum that a host leaves to its adapter: the sum of the pseudo-header, with
    /// and without the length.
    unfinished: [u16; 2],
}

impl TcpChecksum {
    /// Computes the checksums of the segment at `begins` with `length` bytes on the wire. `None` if
    /// some of them were not captured.
    pub(super) fn new(headers: &[Place], data: &[u8], begins: usize, length: usize) -> Option<TcpChecksum> {
        let (header, ip) =
            headers.iter().rev().find(|(header, _)| matches!(header, Header::Ipv4 | Header::Ipv6))?;
        let addresses = if *header == Header::Ipv4 { 12..20 } else { 8..40 };
        let addresses = data.get(ip.start + addresses.start..ip.start + addresses.end)?;
        let segment = data.get(begins..begins + length)?;
        let without_length = ones(addresses) + u64::from(TCP);
        let pseudo_header = without_length + length as u64;
        let all = pseudo_header + ones(&segment[..16]) + ones(&segment[18..]);
        Some(TcpChecksum { right: !folded(all), unfinished: [pseudo_header, without_length].map(folded) })
    }

    /// Returns the checksum that relates to this segment as `found` relates to the `original` one:
    /// correct, unfinished or wrong. `differing` replaces the bits in which a wrong checksum
    /// differs.
    pub(super) fn equivalent(
        &self,
        original: &TcpChecksum,
        found: u16,
        differing: impl Fn(u32) -> u32,
    ) -> u16 {
        let is_other = |checksum: &u16| !self.unfinished.contains(checksum) && *checksum != self.right;
        match original.unfinished.iter().position(|unfinished| *unfinished == found) {
            _ if is_same(found, original.right) => self.right,
            Some(index) => self.unfinished[index],
            None => {
                let difference = differing(u32::from(found ^ original.right)) as u16;
                let wrong = (1..=u16::MAX).map(|bits| self.right ^ (difference.wrapping_add(bits)));
                wrong.into_iter().find(|it| is_other(it) && !is_same(*it, self.right)).unwrap_or(!self.right)
            }
        }
    }
}

/// Whether two checksums are equal: 0x0000 and 0xffff both represent 0 (RFC 1071).
fn is_same(one: u16, other: u16) -> bool {
    one == other || [one, other].iter().all(|it| matches!(*it, 0 | u16::MAX))
}

/// Clears options and payload of a TCP segment, but keeps the first 16 bytes of an MPA connection
/// or of an RPC record: a constant key, or XIDs.
fn clear_segment(segment: &mut [u8], payload: usize) {
    const KNOWN_BY: usize = 16;
    let ports = [0, 2].map(|at| u16::from_be_bytes([segment[at], segment[at + 1]]));
    let (headers, payload) = segment.split_at_mut(payload.min(segment.len()));
    clear(headers, 20);
    let traffic = Traffic::of(ports, payload);
    clear(payload, KNOWN_BY);
    let mut cleared = payload.to_vec();
    clear(&mut cleared, 0);
    if Traffic::of(ports, &cleared) == traffic {
        clear(payload, 0);
    }
}

/// The IP protocol after the last header, unless the packet is a later fragment.
fn next_protocol(headers: &[Place], data: &[u8]) -> Option<u8> {
    let (header, range) = headers.last()?;
    let bytes = data.get(range.clone())?;
    match header {
        Header::Ipv4 => (u16::from_be_bytes([bytes[6], bytes[7]]) & 0x1fff == 0).then_some(bytes[9]),
        Header::Ipv6 => Some(bytes[6]),
        Header::Ipv6Extension(FRAGMENT) => {
            (u16::from_be_bytes([bytes[2], bytes[3]]) >> 3 == 0).then_some(bytes[0])
        }
        Header::Ipv6Extension(_) => Some(bytes[0]),
        _ => None,
    }
}

/// Recomputes the checksums of IPv4, UDP and GRE, from the innermost header outwards. A checksum of
/// 0 means none and stays; it becomes 0 if it covers bytes that were not captured.
pub(super) fn sum(headers: &[Place], data: &mut [u8]) {
    for (index, (header, range)) in headers.iter().enumerate().rev() {
        match header {
            Header::Ipv4 => {
                let bytes = &mut data[range.clone()];
                if bytes[10..12] != [0, 0] {
                    bytes[10..12].fill(0);
                    let checksum = !folded(ones(bytes));
                    bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
                }
            }
            Header::Udp => {
                let below = &headers[..index];
                let checksum = udp_checksum(below, range, data).unwrap_or(0);
                let field = &mut data[range.start + 6..range.start + 8];
                if field != [0, 0] {
                    field.copy_from_slice(&checksum.to_be_bytes());
                }
            }
            Header::Gre if data[range.start] & 0x80 != 0 => {
                let end = end_of_packet(&headers[..index], data).filter(|end| *end >= range.end);
                data[range.start + 4..range.start + 6].fill(0);
                let covered = end.and_then(|end| data.get(range.start..end));
                let checksum = covered.map_or(0, |covered| !folded(ones(covered)));
                data[range.start + 4..range.start + 6].copy_from_slice(&checksum.to_be_bytes());
            }
            _ => {}
        }
    }
}

/// The checksum of the UDP packet with the given header (RFC 768). It is never 0, which means none.
fn udp_checksum(below: &[Place], header: &Range<usize>, data: &[u8]) -> Option<u16> {
    let (_, ip) = below.iter().rev().find(|(header, _)| matches!(header, Header::Ipv4 | Header::Ipv6))?;
    let length = u16::from_be_bytes([data[header.start + 4], data[header.start + 5]]);
    let packet =
        data.get(header.start..header.start + usize::from(length)).filter(|packet| packet.len() >= 8)?;
    let addresses = if data[ip.start] >> 4 == 4 { 12..20 } else { 8..40 };
    let addresses = data.get(ip.start + addresses.start..ip.start + addresses.end)?;
    let all = ones(addresses) + u64::from(UDP) + u64::from(length) + ones(&packet[..6]) + ones(&packet[8..]);
    Some(match !folded(all) {
        0 => u16::MAX,
        checksum => checksum,
    })
}

/// The end of the innermost IP packet, according to its header.
fn end_of_packet(headers: &[Place], data: &[u8]) -> Option<usize> {
    let (header, ip) =
        headers.iter().rev().find(|(header, _)| matches!(header, Header::Ipv4 | Header::Ipv6))?;
    let length = |at: usize| usize::from(u16::from_be_bytes([data[ip.start + at], data[ip.start + at + 1]]));
    let length = if *header == Header::Ipv4 { length(2) } else { length(4) + 40 };
    Some(ip.start + length)
}

/// The sum of 16-bit words (RFC 1071).
fn ones(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<2>();
    let rest = rest.first().map_or(0, |byte| u64::from(*byte) << 8);
    words.iter().map(|word| u64::from(u16::from_be_bytes(*word))).sum::<u64>() + rest
}

fn folded(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The expected ICRC of the transport packet.
pub(super) fn icrc(headers: &[Place], data: &[u8]) -> Option<u32> {
    let last = |of: fn(Header) -> bool| headers.iter().rev().find(|(header, _)| of(*header));
    let (_, transport) = last(|header| header == Header::Transport)?;
    let transport = data.get(transport.clone())?;
    // The header that carries the packet: the last one of a type that can.
    let (header, range) = last(|header| matches!(header, Header::Udp | Header::Grh | Header::Lrh))?;
    let bytes = data.get(range.clone())?;
    match header {
        Header::Udp => {
            let (_, ip) = last(|header| matches!(header, Header::Ipv4 | Header::Ipv6))?;
            icrc::roce_v2(data.get(ip.clone())?, bytes.first_chunk()?, transport)
        }
        Header::Grh => icrc::grh(bytes.first_chunk::<{ Grh::LENGTH }>()?, transport),
        _ => icrc::lrh(bytes.first_chunk::<{ Lrh::LENGTH }>()?, transport),
    }
}
