//! From a captured record to the InfiniBand transport packet in it.

mod headers;
mod identity;
mod infiniband;
mod link;
mod network;
mod segment;
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

/// The transport packet in `record`, or the reason why there is none.
///
/// Lengths are those that the headers tell, so that neither a snap length nor the padding of a short Ethernet frame
/// changes them. Packets within GRE, ERSPAN, VXLAN, GENEVE, MPLS, PPPoE and IP are found too.
pub fn dissect<'a>(record: &Record<'a>, config: &Config) -> Result<Frame<'a>, Other<'a>> {
    link::by_link_type(record.link, View::of(record), &mut Walk { config, tell: |_, _| {} })
}

/// Like [`dissect`], and calls `found` for each complete header in its order, with its byte range in the record. The header in which a
/// [`Stop`] is begins where the last one ends. A stop in [`Layer::Network`](rdmascope_wire::Layer::Network) is an exception: it counts
/// from the beginning of the last [`Header::Ipv6`], if only extension headers of that followed.
pub fn dissect_telling<'a>(
    record: &Record<'a>,
    config: &Config,
    found: &mut dyn FnMut(Header, Range<usize>),
) -> Result<Frame<'a>, Other<'a>> {
    link::by_link_type(record.link, View::of(record), &mut Walk { config, tell: found })
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
    /// The address as one of IP; a GID has the form of one.
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

/// What carries the transport packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Carrier {
    /// RoCEv2: UDP.
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
    /// The UDP source and destination port, where there is UDP.
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
    /// Bytes that it covers were not captured, or not as they were on the wire, or the specification does not say how it is
    /// computed (behind IPv6 extension headers).
    Unverifiable,
}

/// A transport packet in its frame.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Its source.
    pub source: Address,
    /// Its destination.
    pub destination: Address,
    /// What carries it.
    pub carrier: Carrier,
    /// The captured bytes from the BTH on, without the ICRC: the BTH at least.
    pub transport: &'a [u8],
    /// The length on the wire from the BTH on, without the ICRC, in bytes. `transport` is shorter if a snap length cut it.
    pub transport_length: u32,
    /// The verdict on the ICRC.
    pub icrc: IcrcVerdict,
    /// The ECN bits of the IP header: 3 if the packet met congestion. 0 for RoCEv1 and native InfiniBand, which have none.
    pub ecn: u8,
    /// What tells it from other packets.
    pub identity: Identity,
}

/// The reason why a record has no transport packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Other<'a> {
    /// It is something else.
    NotInfiniBand,
    /// It is a TCP segment, which carries iWARP or something else.
    Tcp(Segment<'a>),
    /// It is something else that has a name.
    Traffic(Traffic),
    /// Its link type is not supported.
    UnknownLinkType,
    /// It is a fragment of an IP packet, which RoCEv2 does not allow (Annex A17.4.5.1).
    Fragment,
    /// It ends before its BTH.
    Stop(Stop),
}

impl Other<'_> {
    /// The same without what it borrows: of a TCP segment is left which traffic it is by its ports and first bytes.
    pub fn named(self) -> Other<'static> {
        match self {
            Other::Tcp(segment) => segment.traffic().map_or(Other::NotInfiniBand, Other::Traffic),
            Other::NotInfiniBand => Other::NotInfiniBand,
            Other::Traffic(traffic) => Other::Traffic(traffic),
            Other::UnknownLinkType => Other::UnknownLinkType,
            Other::Fragment => Other::Fragment,
            Other::Stop(stop) => Other::Stop(stop),
        }
    }
}

/// Which frames are taken for RoCEv2, and whether their ICRCs are verified.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The UDP destination port of RoCEv2.
    pub port: u16,
    /// Whether ICRCs are computed. If not, each is [`IcrcVerdict::Unverifiable`].
    pub verify_icrc: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config { port: ROCE_V2_PORT, verify_icrc: true }
    }
}

#[cfg(test)]
mod tests;
