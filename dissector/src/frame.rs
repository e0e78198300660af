//! From a captured record to the InfiniBand transport packet in it.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};
use rdmascope_wire::Stop;

/// Who sent a packet, or for whom it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// An IPv4 address; also an IPv4-mapped GID.
    V4(Ipv4Addr),
    /// An IPv6 address or a GID.
    V6(Ipv6Addr),
    /// A local identifier, in native InfiniBand packets without a GRH.
    Lid(u16),
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
        /// The UDP source port: entropy for the network, not an identity.
        source_port: u16,
        /// The UDP destination port.
        destination_port: u16,
    },
    /// RoCEv1: a GRH in an Ethernet frame of type 0x8915.
    RoceV1,
    /// Native InfiniBand: an LRH.
    InfiniBand,
}

/// What the invariant CRC says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IcrcVerdict {
    /// It is right.
    Good,
    /// It is wrong: a receiver drops the packet.
    Bad,
    /// The capture does not hold all the bytes that it covers.
    Unverifiable,
}

/// A transport packet in its frame.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Who sent it.
    pub source: Address,
    /// For whom it is.
    pub destination: Address,
    /// What carries it.
    pub carrier: Carrier,
    /// The captured bytes from the BTH on, without the ICRC.
    pub transport: &'a [u8],
    /// Bytes on the wire from the BTH on, without the ICRC: `transport` is shorter where the capture was cut.
    pub transport_length: u32,
    /// The verdict on the ICRC.
    pub icrc: IcrcVerdict,
    /// ECN bits of the IP header: 3 where the packet met congestion.
    pub ecn: u8,
}

/// Why a record holds no transport packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Other {
    /// It is something else.
    NotInfiniBand,
    /// Its link type is not one that is understood.
    UnknownLinkType,
    /// It is a fragment of an IP packet, which RoCEv2 does not allow (Annex A17.4.5.1).
    Fragment,
    /// It ends before its BTH.
    Stop(Stop),
}

/// How frames are told apart.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The UDP destination port of RoCEv2.
    pub port: u16,
    /// Whether ICRCs are computed; where not, each is [`IcrcVerdict::Unverifiable`].
    pub verify_icrc: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config { port: 4791, verify_icrc: true }
    }
}

/// The transport packet in an Ethernet frame with an IPv4 header of 20 bytes: enough to run the engine; the rest comes next.
pub fn dissect<'a>(r: &crate::record::Record<'a>, c: &Config) -> Result<Frame<'a>, Other> {
    let d = r.data;
    if d.len() < 58 || d[12] != 8 || d[13] != 0 || d[23] != 17 || u16::from_be_bytes([d[36], d[37]]) != c.port
    {
        return Err(Other::NotInfiniBand);
    }
    let udp = u16::from_be_bytes([d[38], d[39]]) as usize;
    let len = udp - 8 - 4;
    let t = &d[42..d.len().min(42 + len)];
    let a = |o: usize| Address::V4(Ipv4Addr::new(d[o], d[o + 1], d[o + 2], d[o + 3]));
    let icrc = if d.len() >= 42 + len + 4 {
        let want = u32::from_le_bytes(d[42 + len..46 + len].try_into().unwrap());
        if rdmascope_wire::icrc::roce_v2(&d[14..34], d[34..42].try_into().unwrap(), t) == Some(want) {
            IcrcVerdict::Good
        } else {
            IcrcVerdict::Bad
        }
    } else {
        IcrcVerdict::Unverifiable
    };
    Ok(Frame {
        source: a(26),
        destination: a(30),
        carrier: Carrier::InfiniBand,
        transport: t,
        transport_length: len as u32,
        icrc,
        ecn: d[15] & 3,
    })
}
