//! From a captured record to the InfiniBand transport packet in it.

mod ip;
mod link;

use crate::record::Record;
use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};
use rdmascope_wire::{Layer, Stop};

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

impl Address {
    /// An IPv6 address or a GID; an IPv4-mapped one stands for the IPv4 address.
    pub fn from_ipv6(address: Ipv6Addr) -> Address {
        match address.to_ipv4_mapped() {
            Some(mapped) => Address::V4(mapped),
            None => Address::V6(address),
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

impl From<Stop> for Other {
    fn from(stop: Stop) -> Other {
        Other::Stop(stop)
    }
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

/// The transport packet in a record.
///
/// Its length comes from the headers; what of it was captured may be less.
#[inline]
pub fn dissect<'a>(record: &Record<'a>, config: &Config) -> Result<Frame<'a>, Other> {
    let span = Span { bytes: record.data, length: (record.original_length as usize).max(record.data.len()) };
    link::dissect(record.link, span, config)
}

/// Bytes of a packet: those captured, and how many there were on the wire.
#[derive(Clone, Copy, Debug)]
struct Span<'a> {
    bytes: &'a [u8],
    length: usize,
}

impl<'a> Span<'a> {
    /// The first `length` bytes, which a header needs, and what follows them.
    #[inline]
    fn split(self, layer: Layer, length: usize) -> Result<(&'a [u8], Span<'a>), Stop> {
        match self.bytes.split_at_checked(length) {
            Some((header, bytes)) => Ok((header, Span { bytes, length: self.length - length })),
            None => Err(self.short(layer, 0, length)),
        }
    }

    /// A stop at byte `offset`, where `needed` bytes should be.
    fn short(self, layer: Layer, offset: usize, needed: usize) -> Stop {
        let stop = Stop::short(layer, offset, needed, self.bytes.len());
        if self.length > self.bytes.len() && self.length >= offset + needed {
            stop.in_cut_capture()
        } else {
            stop
        }
    }

    /// No more than the first `length` bytes: what follows belongs to a lower layer.
    #[inline]
    fn limit(self, length: usize) -> Span<'a> {
        let length = length.min(self.length);
        Span { bytes: &self.bytes[..self.bytes.len().min(length)], length }
    }
}

#[cfg(test)]
mod tests;
