//! The input of the dissector: captured packets.

use rdmascope_wire::erf::Erf;

/// One captured packet.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Number of the packet in its capture, from 1, as other tools count frames.
    pub number: u64,
    /// When it was captured.
    pub time: Time,
    /// The type of the header that `data` begins with.
    pub link: LinkType,
    /// The length of `data` on the wire, in bytes. `data` is shorter if a snap length cut the packet.
    pub original_length: u32,
    /// The number of packets that the capture reports as dropped since the record before, or since
    /// its last report of drops. 0 without a report.
    pub dropped: u32,
    /// The capture point.
    pub tap: Tap,
    /// The captured bytes.
    pub data: &'a [u8],
}

/// The capture point of a packet, as far as the capture names it. Records of different taps may
/// show the same packet on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tap {
    /// The number of the file with the packet, from 0 in the order in which the files of a capture
    /// were given.
    pub file: u32,
    /// The interface in that file: the interface ID of pcapng, or the capture interface of ERF. 0
    /// if the format has none.
    pub interface: u32,
}

impl Record<'_> {
    /// The capture point, with the interface index of a [`LinkType::LINUX_SLL2`] header (bytes 4 to
    /// 7).
    #[inline]
    pub(crate) fn tap(&self) -> Tap {
        let index = match self.link {
            LinkType::LINUX_SLL2 => self.data.get(4..8).and_then(|bytes| bytes.try_into().ok()),
            _ => None,
        };
        Tap { interface: index.map_or(self.tap.interface, u32::from_be_bytes), ..self.tap }
    }
}

impl Record<'_> {
    /// The length of the packet on the wire, in bytes. The header that ERF puts before a packet is
    /// not part of it, although [`Record::original_length`] has it.
    #[inline]
    pub fn wire_length(&self) -> u32 {
        if self.link == LinkType::ERF { self.erf_lengths().0 } else { self.original_length }
    }

    /// The number of captured bytes of the packet, in the same sense.
    #[inline]
    pub fn captured_length(&self) -> u32 {
        if self.link == LinkType::ERF { self.erf_lengths().1 } else { self.data.len() as u32 }
    }

    /// Both lengths of an ERF record. The record may be padded, and its wire length may be unknown
    /// (0).
    #[cold]
    fn erf_lengths(&self) -> (u32, u32) {
        let header = Erf::parse(self.data).ok();
        let before = header.and_then(|header| header.headers_length(self.data).ok()).unwrap_or(0);
        let captured = self.data.len().saturating_sub(before) as u32;
        match header.map_or(0, |header| u32::from(header.wire_length)) {
            0 => (self.original_length.saturating_sub(before as u32), captured),
            wire => (wire, captured.min(wire)),
        }
    }
}

/// Nanoseconds since 1970-01-01T00:00:00Z; negative before that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub i64);

impl Time {
    /// Nanoseconds from `earlier` to this time; 0 if `earlier` is later (time stamps in captures do
    /// step back).
    #[inline]
    pub fn since(self, earlier: Time) -> u64 {
        u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0)
    }

    /// Adds nanoseconds, saturating at the last representable time.
    #[inline]
    #[must_use]
    pub fn plus(self, nanoseconds: u64) -> Time {
        Time(self.0.saturating_add_unsigned(nanoseconds))
    }
}

/// The maximum reordering of a packet in a capture, in nanoseconds and in packets.
pub const REORDERING: (u64, u32) = (2_000_000, 64);

/// A packet in the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its number, from 1.
    pub frame: u64,
    /// When it was captured.
    pub time: Time,
}

/// A link type with the number of pcap and pcapng (the tcpdump.org registry, LINKTYPE_…).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    /// BSD loopback encapsulation: four bytes of address family in the capturing host's order.
    pub const NULL: LinkType = LinkType(0);
    /// Ethernet.
    pub const ETHERNET: LinkType = LinkType(1);
    /// IPv4 or IPv6 without a link header.
    pub const RAW: LinkType = LinkType(101);
    /// OpenBSD loopback encapsulation: the address family in network order.
    pub const LOOP: LinkType = LinkType(108);
    /// Linux "cooked" capture, version 1.
    pub const LINUX_SLL: LinkType = LinkType(113);
    /// Endace ERF records.
    pub const ERF: LinkType = LinkType(197);
    /// IPv4 without a link header.
    pub const IPV4: LinkType = LinkType(228);
    /// IPv6 without a link header.
    pub const IPV6: LinkType = LinkType(229);
    /// Native InfiniBand, from the LRH on.
    pub const INFINIBAND: LinkType = LinkType(247);
    /// Linux "cooked" capture, version 2.
    pub const LINUX_SLL2: LinkType = LinkType(276);
}
