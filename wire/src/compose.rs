//! Composes whole frames: Ethernet, IP or GRH, UDP, BTH, extension headers, payload, ICRC.
//!
//! A [`Frame`] has the fields that a sender chooses. The composer computes the rest: lengths, next
//! headers, padding, the IPv4 header checksum and the ICRC. [`Frame::compose`] writes into the
//! caller's buffer and allocates nothing. [`Frame::to_vec`] and [`Frame::append`] allocate.
//!
//! No input makes it panic. A frame that does not fit the buffer or the length fields of its
//! headers is an [`Error`]. The composer checks neither the path MTU nor whether the extension
//! headers belong to the opcode. To get a frame with a bad ICRC or a false length, compose a
//! correct one and change a byte.

use crate::bth::{Bth, Extensions};
use crate::grh::Grh;
use crate::icrc;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr};

/// The UDP destination port of RoCEv2 (Annex A17).
pub const ROCE_V2_PORT: u16 = 4791;

/// A frame with one InfiniBand transport packet. All fields are in host order.
///
/// ```
/// use core::net::Ipv4Addr;
/// use rdmascope_wire::bth::{Bth, Extensions, Opcode};
/// use rdmascope_wire::compose::{Carrier, Ethernet, Frame, Ipv4, Udp};
/// use rdmascope_wire::{Qpn, psn::Psn};
///
/// let ip = Ipv4::new(Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2));
/// let frame = Frame {
///     ethernet: Some(Ethernet::default()),
///     carrier: Carrier::Ipv4(ip, Udp::from_port(50_000)),
///     bth: Bth {
///         opcode: Opcode::RC_SEND_ONLY,
///         partition_key: 0xffff,
///         destination_qp: Qpn(0x16),
///         psn: Psn::new(42),
///         ..Bth::default()
///     },
///     extensions: Extensions::default(),
///     payload: b"five.",
/// };
/// let mut buffer = [0; 128];
/// let length = frame.compose(&mut buffer)?;
/// // Ethernet, IPv4, UDP, BTH, payload with three bytes of padding, ICRC.
/// assert_eq!(length, 14 + 20 + 8 + 12 + 8 + 4);
/// # Ok::<(), rdmascope_wire::compose::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The Ethernet header; `None` for a frame that begins with its IP header or GRH.
    pub ethernet: Option<Ethernet>,
    /// The headers below the transport packet.
    pub carrier: Carrier,
    /// The base transport header. Its pad count is ignored and computed from the payload length.
    pub bth: Bth,
    /// The extension headers. They are written whether or not the opcode has them.
    pub extensions: Extensions,
    /// The payload, without padding.
    pub payload: &'a [u8],
}

/// An Ethernet header. The EtherType follows from the carrier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ethernet {
    /// Destination MAC address.
    pub destination: [u8; 6],
    /// Source MAC address.
    pub source: [u8; 6],
    /// The tag control information of a VLAN tag (IEEE 802.1Q): priority, 3 bits; drop eligible, 1;
    /// VLAN, 12. `None`: untagged.
    pub vlan: Option<u16>,
}

impl Ethernet {
    /// Length in bytes, including the VLAN tag.
    const fn length(&self) -> usize {
        if self.vlan.is_some() { 18 } else { 14 }
    }
}

/// The headers that carry the transport packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Carrier {
    /// RoCEv2 in IPv4.
    Ipv4(Ipv4, Udp),
    /// RoCEv2 in IPv6.
    Ipv6(Ipv6, Udp),
    /// RoCEv1: a GRH, which has the fields of an IPv6 header. Its addresses are GIDs.
    Grh(Ipv6),
}

impl Carrier {
    /// Length in bytes of the headers before the BTH.
    const fn length(&self) -> usize {
        match self {
            Carrier::Ipv4(..) => Ipv4::LENGTH + Udp::LENGTH,
            Carrier::Ipv6(..) => Grh::LENGTH + Udp::LENGTH,
            Carrier::Grh(_) => Grh::LENGTH,
        }
    }

    /// The part of [`Carrier::length`] that the length field of the IP header or GRH counts. The
    /// length field of IPv4 includes its own header.
    const fn counted(&self) -> usize {
        match self {
            Carrier::Ipv4(..) => Ipv4::LENGTH + Udp::LENGTH,
            Carrier::Ipv6(..) => Udp::LENGTH,
            Carrier::Grh(_) => 0,
        }
    }

    /// Appends the carrier's headers, `transport` unchanged, and the ICRC.
    ///
    /// `transport` begins at the BTH but need not be a valid packet: if it is shorter than a BTH,
    /// the ICRC is zero. On error, nothing is appended.
    pub fn enclose(&self, transport: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let counted = self.counted() + icrc::LENGTH;
        let maximum = usize::from(u16::MAX) - counted;
        if transport.len() > maximum {
            return Err(Error::PayloadTooLong { length: transport.len(), maximum });
        }
        let length = (counted + transport.len()) as u16;
        let start = out.len();
        out.resize(start + self.length() + transport.len() + icrc::LENGTH, 0);
        let mut writer = Writer { bytes: &mut out[start..], at: 0 };
        self.write(length, &mut writer, |writer| writer.put(transport));
        Ok(())
    }

    /// Writes the headers, the packet that `transport` writes and returns, and its ICRC. `length` is
    /// the value of the length field of the IP header or GRH.
    fn write(
        &self,
        length: u16,
        writer: &mut Writer<'_>,
        transport: impl for<'w> FnOnce(&'w mut Writer<'_>) -> &'w [u8],
    ) {
        let icrc = match self {
            Carrier::Ipv4(ip, udp) => {
                let (ip, udp) = (ip.to_bytes(length), udp.to_bytes(length - Ipv4::LENGTH as u16));
                writer.put(&ip);
                writer.put(&udp);
                icrc::roce_v2(&ip, &udp, transport(writer))
            }
            Carrier::Ipv6(ip, udp) => {
                let (ip, udp) = (ip.to_bytes(Udp::PROTOCOL, length), udp.to_bytes(length));
                writer.put(&ip);
                writer.put(&udp);
                icrc::roce_v2(&ip, &udp, transport(writer))
            }
            Carrier::Grh(grh) => {
                let grh = grh.to_bytes(Grh::NEXT_HEADER_BTH, length);
                writer.put(&grh);
                icrc::grh(&grh, transport(writer))
            }
        };
        writer.put(&icrc.unwrap_or_default().to_le_bytes());
    }

    const fn ether_type(&self) -> u16 {
        match self {
            Carrier::Ipv4(..) => 0x0800,
            Carrier::Ipv6(..) => 0x86dd,
            Carrier::Grh(_) => 0x8915,
        }
    }
}

/// An IPv4 header without options (RFC 791).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4 {
    /// Type of service: DSCP, 6 bits, and ECN, 2 bits.
    pub type_of_service: u8,
    /// Identification.
    pub identification: u16,
    /// DF.
    pub dont_fragment: bool,
    /// Time to live.
    pub time_to_live: u8,
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
}

impl Ipv4 {
    const LENGTH: usize = 20;

    /// Creates a header with the values that Linux starts with: type of service and identification
    /// 0, DF set, time to live 64.
    pub const fn new(source: Ipv4Addr, destination: Ipv4Addr) -> Ipv4 {
        Ipv4 {
            type_of_service: 0,
            identification: 0,
            dont_fragment: true,
            time_to_live: 64,
            source,
            destination,
        }
    }

    /// Builds the header of a packet of `total_length` bytes.
    fn to_bytes(self, total_length: u16) -> [u8; Ipv4::LENGTH] {
        let mut header = [0; Ipv4::LENGTH];
        header[0] = 0x45;
        header[1] = self.type_of_service;
        header[2..4].copy_from_slice(&total_length.to_be_bytes());
        header[4..6].copy_from_slice(&self.identification.to_be_bytes());
        header[6] = u8::from(self.dont_fragment) << 6;
        header[8] = self.time_to_live;
        header[9] = Udp::PROTOCOL;
        header[12..16].copy_from_slice(&self.source.octets());
        header[16..].copy_from_slice(&self.destination.octets());
        // The checksum is the ones' complement of the ones' complement sum of all words.
        let words = header.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
        let sum: u32 = words.sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        header[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        header
    }
}

/// An IPv6 header without extension headers (RFC 8200), or a GRH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6 {
    /// Traffic class: DSCP, 6 bits, and ECN, 2 bits.
    pub traffic_class: u8,
    /// Flow label, 20 bits. Bits that do not fit are dropped.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
}

impl Ipv6 {
    /// Creates a header with traffic class and flow label 0 and hop limit 64.
    pub const fn new(source: Ipv6Addr, destination: Ipv6Addr) -> Ipv6 {
        Ipv6 { traffic_class: 0, flow_label: 0, hop_limit: 64, source, destination }
    }

    /// Builds the header of a packet in which `length` bytes follow it.
    fn to_bytes(self, next_header: u8, length: u16) -> [u8; Grh::LENGTH] {
        Grh {
            ip_version: 6,
            traffic_class: self.traffic_class,
            flow_label: self.flow_label,
            payload_length: length,
            next_header,
            hop_limit: self.hop_limit,
            source: self.source.octets(),
            destination: self.destination.octets(),
        }
        .to_bytes()
    }
}

/// A UDP header (RFC 768).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Udp {
    /// Source port. It is the same for all packets of a queue pair and spreads flows over network
    /// paths (Annex A17).
    pub source_port: u16,
    /// Destination port, usually [`ROCE_V2_PORT`].
    pub destination_port: u16,
    /// The checksum to send. 0 means no checksum, as is usual for RoCEv2.
    pub checksum: u16,
}

impl Udp {
    const LENGTH: usize = 8;
    /// The protocol number of UDP.
    const PROTOCOL: u8 = 17;

    /// Creates a header with destination port 4791 and no checksum.
    pub const fn from_port(source_port: u16) -> Udp {
        Udp { source_port, destination_port: ROCE_V2_PORT, checksum: 0 }
    }

    /// Builds the header of a datagram of `length` bytes.
    fn to_bytes(self, length: u16) -> [u8; Udp::LENGTH] {
        let mut header = [0; Udp::LENGTH];
        let words = [self.source_port, self.destination_port, length, self.checksum];
        for (bytes, word) in header.chunks_exact_mut(2).zip(words) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
        header
    }
}

/// Source port 49152, the lowest that RoCEv2 senders choose, destination port 4791, no checksum.
impl Default for Udp {
    fn default() -> Udp {
        Udp::from_port(0xc000)
    }
}

/// The reason why a frame cannot be composed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The packet exceeds the length fields of its headers.
    #[error("a payload of {length} bytes is too long: at most {maximum} fit these headers")]
    PayloadTooLong {
        /// Length of the payload in bytes.
        length: usize,
        /// Maximum payload for this carrier and these extension headers.
        maximum: usize,
    },
    /// The buffer is too short.
    #[error("a frame of {needed} bytes does not fit a buffer of {available} bytes")]
    BufferTooShort {
        /// Length of the frame in bytes.
        needed: usize,
        /// Length of the buffer in bytes.
        available: usize,
    },
}

impl Frame<'_> {
    /// Returns the length in bytes, from the first header through the ICRC.
    pub fn length(&self) -> usize {
        self.ethernet.map_or(0, |ethernet| ethernet.length())
            + self.carrier.length()
            + self.transport_length()
    }

    /// Writes the frame to the start of `buffer`. Returns its length.
    pub fn compose(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        let length = self.length_field()?;
        let (needed, available) = (self.length(), buffer.len());
        let Some(bytes) = buffer.get_mut(..needed) else {
            return Err(Error::BufferTooShort { needed, available });
        };
        let mut writer = Writer { bytes, at: 0 };
        if let Some(ethernet) = &self.ethernet {
            writer.ethernet(ethernet, self.carrier.ether_type());
        }
        self.carrier.write(length, &mut writer, |writer| writer.transport(self));
        Ok(needed)
    }

    /// Appends the frame. On error, nothing is appended.
    pub fn append(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        self.length_field()?;
        let start = out.len();
        out.resize(start + self.length(), 0);
        self.compose(&mut out[start..]).map(|_| ())
    }

    /// Returns the frame in a new vector.
    pub fn to_vec(&self) -> Result<Vec<u8>, Error> {
        let mut out = Vec::new();
        self.append(&mut out)?;
        Ok(out)
    }

    /// Length in bytes from the BTH through the ICRC.
    fn transport_length(&self) -> usize {
        Bth::LENGTH + self.extensions.present() + self.payload.len() + self.padding() + icrc::LENGTH
    }

    /// Number of bytes that pad the payload to a multiple of four.
    fn padding(&self) -> usize {
        self.payload.len().wrapping_neg() & 3
    }

    /// Returns the value of the length field of the IP header or GRH.
    fn length_field(&self) -> Result<u16, Error> {
        let headers = self.carrier.counted() + self.transport_length() - self.payload.len() - self.padding();
        let maximum = usize::from(u16::MAX) - headers;
        let padded = self.payload.len() + self.padding();
        if padded > maximum {
            // The longest payload needs no padding.
            return Err(Error::PayloadTooLong { length: self.payload.len(), maximum: maximum & !3 });
        }
        Ok((headers + padded) as u16)
    }
}

/// A cursor over a buffer that the caller has made long enough.
struct Writer<'b> {
    bytes: &'b mut [u8],
    at: usize,
}

impl Writer<'_> {
    /// Writes bytes and returns them.
    fn put(&mut self, bytes: &[u8]) -> &[u8] {
        let place = &mut self.bytes[self.at..][..bytes.len()];
        place.copy_from_slice(bytes);
        self.at += bytes.len();
        place
    }

    fn ethernet(&mut self, header: &Ethernet, ether_type: u16) {
        self.put(&header.destination);
        self.put(&header.source);
        if let Some(tag) = header.vlan {
            self.put(&0x8100u16.to_be_bytes());
            self.put(&tag.to_be_bytes());
        }
        self.put(&ether_type.to_be_bytes());
    }

    /// Writes the transport packet without its ICRC, and returns it.
    fn transport(&mut self, frame: &Frame<'_>) -> &[u8] {
        let start = self.at;
        let padding = frame.padding();
        self.put(&Bth { pad_count: padding as u8, ..frame.bth }.to_bytes());
        frame.extensions.each(|header| _ = self.put(header));
        self.put(frame.payload);
        self.put(&[0; 3][..padding]);
        &self.bytes[start..self.at]
    }
}

#[cfg(test)]
mod tests;
