//! Finds the InfiniBand transport packet in a captured record.

mod headers;
mod identity;
mod infiniband;
mod link;
mod network;
mod segment;
mod tag;
mod tunnel;
mod view;

pub use headers::Header;
pub use identity::{Identity, Numbering};
pub use segment::{Checksum, Segment};

use crate::protocol::Traffic;
use crate::record::Record;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ops::Range;
use headers::Walk;
use rdmascope_wire::Stop;
use rdmascope_wire::compose::ROCE_V2_PORT;
use view::View;

/// The transport packet of a record, or the reason why it has none.
type Parsed<'a> = Result<Frame<'a>, Other<'a>>;

/// Finds the transport packet in `record`, or the reason why it has none.
///
/// Lengths come from the headers, so a snap length or the padding of a short Ethernet frame does
/// not change them. Packets in GRE, ERSPAN, VXLAN, GENEVE, NSH, MPLS, PPPoE and IP tunnels are
/// found too.
pub fn dissect<'a>(record: &Record<'a>, config: &Config) -> Result<Frame<'a>, Other<'a>> {
    link::by_link_type(record.link, View::of(record), &mut Walk::new(config, |_, _| {}))
}

/// Dissects like [`dissect`] and calls `found` for each complete header, in order, with its byte
/// range in the record. The header of a [`Stop`] begins where the last complete one ends. A stop in
/// [`Layer::Network`](rdmascope_wire::Layer::Network) is an exception: after the extension headers
/// of IPv6, its offset counts from the start of the last [`Header::Ipv6`].
pub fn dissect_reporting<'a>(
    record: &Record<'a>,
    config: &Config,
    found: &mut dyn FnMut(Header, Range<usize>),
) -> Result<Frame<'a>, Other<'a>> {
    link::by_link_type(record.link, View::of(record), &mut Walk::new(config, found))
}

/// The source or destination of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// An IPv4 address; also an IPv4-mapped GID.
    V4(Ipv4Addr),
    /// An IPv6 address or a GID.
    V6(Ipv6Addr),
    /// A local identifier, in native InfiniBand packets without a GRH.
    Lid(u16),
}

impl Address {
    /// The address as an IP address. A GID has the form of an IPv6 address.
    pub const fn ip(self) -> Option<IpAddr> {
        match self {
            Address::V4(address) => Some(IpAddr::V4(address)),
            Address::V6(address) => Some(IpAddr::V6(address)),
            Address::Lid(_) => None,
        }
    }
}

impl From<IpAddr> for Address {
    fn from(address: IpAddr) -> Address {
        match address {
            IpAddr::V4(address) => Address::V4(address),
            IpAddr::V6(address) => Address::V6(address),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::V4(address) => address.fmt(f),
            Address::V6(address) => address.fmt(f),
            Address::Lid(lid) => write!(f, "LID {lid}"),
        }
    }
}

/// The encapsulation of the transport packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Carrier {
    /// RoCEv2: IP and UDP.
    RoceV2 {
        /// The UDP source port. It spreads flows over network paths and identifies nothing.
        source_port: u16,
        /// The UDP destination port.
        destination_port: u16,
    },
    /// RoCEv1: a GRH in an Ethernet frame of type 0x8915.
    RoceV1,
    /// Native InfiniBand: an LRH.
    InfiniBand,
}

impl Carrier {
    /// The UDP source and destination port, for RoCEv2.
    pub const fn ports(self) -> Option<(u16, u16)> {
        match self {
            Carrier::RoceV2 { source_port, destination_port } => Some((source_port, destination_port)),
            Carrier::RoceV1 | Carrier::InfiniBand => None,
        }
    }
}

/// The verdict on the invariant CRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IcrcVerdict {
    /// It is correct.
    Good,
    /// It is wrong: a receiver drops the packet.
    Bad,
    /// It cannot be verified: covered bytes were not captured or differ from those on the wire, or
    /// the specification does not define the computation (after IPv6 extension headers).
    Unverifiable,
}

/// A transport packet in its frame.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Its source.
    pub source: Address,
    /// Its destination.
    pub destination: Address,
    /// Its encapsulation.
    pub carrier: Carrier,
    /// The captured bytes from the BTH on, without the ICRC. They contain at least the BTH.
    pub transport: &'a [u8],
    /// The length on the wire in bytes, from the BTH on, without the ICRC. `transport` is shorter
    /// if a snap length cut it.
    pub transport_length: u32,
    /// The verdict on the ICRC.
    pub icrc: IcrcVerdict,
    /// The traffic class of the IP header: [DSCP](Frame::dscp) and [ECN](Frame::ecn). 0 for RoCEv1
    /// and native InfiniBand, which have none.
    pub traffic_class: u8,
    /// A hash of the fields that change between hops and are the same for all packets of a flow at
    /// one hop: MAC addresses, VLANs, identifiers and sources of tunnels, mirroring sessions, and
    /// the time to live.
    pub hop: u32,
    /// A hash of the network that the packet is in: the VLANs, and the network identifier of VXLAN,
    /// GENEVE or NVGRE. 0 for none. Networks may have equal addresses.
    pub context: u32,
    /// Its identity, for comparison with other packets.
    pub identity: Identity,
}

impl Frame<'_> {
    /// The ECN bits of the IP header (RFC 3168, section 5): 3 for "congestion experienced".
    #[inline]
    pub const fn ecn(&self) -> u8 {
        self.traffic_class & 3
    }

    /// The DSCP of the IP header (RFC 2474, section 3).
    pub const fn dscp(&self) -> Option<u8> {
        match self.carrier {
            Carrier::RoceV2 { .. } => Some(self.traffic_class >> 2),
            Carrier::RoceV1 | Carrier::InfiniBand => None,
        }
    }
}

/// The reason why a record has no transport packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Other<'a> {
    /// It is a TCP segment, which may carry iWARP.
    Tcp(Segment<'a>),
    /// It is other traffic than InfiniBand or RoCE.
    Traffic(Traffic),
    /// Its link type is not supported.
    UnknownLinkType,
    /// It is a fragment of an IP packet, which RoCEv2 does not allow (Annex A17.4.5.1).
    Fragment,
    /// It ends before its BTH.
    Stop(Stop),
}

impl Other<'_> {
    /// The reason without borrowed data. A TCP segment becomes its traffic, by ports and first
    /// bytes.
    pub fn named(self) -> Other<'static> {
        match self {
            Other::Tcp(segment) => Other::Traffic(Traffic::of_tcp(segment.ports, segment.payload)),
            Other::Traffic(traffic) => Other::Traffic(traffic),
            Other::UnknownLinkType => Other::UnknownLinkType,
            Other::Fragment => Other::Fragment,
            Other::Stop(stop) => Other::Stop(stop),
        }
    }
}

/// The selection of RoCEv2 frames, and the verification of their ICRCs.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The UDP destination port of RoCEv2.
    pub port: u16,
    /// A UDP destination port of VXLAN, in addition to 4789, 4790 and 8472.
    pub vxlan_port: Option<u16>,
    /// Whether to verify ICRCs. Otherwise each one is [`IcrcVerdict::Unverifiable`].
    pub verify_icrc: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config { port: ROCE_V2_PORT, vxlan_port: None, verify_icrc: true }
    }
}

#[cfg(test)]
mod tests;
