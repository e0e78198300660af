//! The header of an Endace Extensible Record Format (ERF) record, written by Endace cards and by
//! ibdump.

use crate::layout::Layout;
use crate::{Layer, Stop};
use alloc::vec::Vec;

/// The header of an ERF record. Fields are in host order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Erf {
    /// Arrival time of the packet.
    pub timestamp: Timestamp,
    /// True if extension headers follow: see [`Erf::headers_length`].
    pub is_extended: bool,
    /// The type of the record, 7 bits.
    pub record_type: RecordType,
    /// Flags: interface number, variable-length records, errors.
    pub flags: u8,
    /// Length of the record in bytes, including this header and the padding.
    pub record_length: u16,
    /// Number of packets lost before this one, or a color, depending on the record type.
    pub loss_or_color: u16,
    /// Length of the packet on the wire in bytes.
    pub wire_length: u16,
}

/// A time since 1970 in units of 2^-32 seconds. The only little-endian field of the header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Returns the whole seconds.
    pub const fn seconds(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Returns nanoseconds since 1970, rounded to the nearest.
    pub const fn nanoseconds(self) -> u64 {
        const SECOND: u64 = 1_000_000_000;
        let fraction = (self.0 & 0xffff_ffff) * SECOND;
        (self.0 >> 32) * SECOND + ((fraction + (1 << 31)) >> 32)
    }
}

/// The type of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordType(pub u8);

impl RecordType {
    /// Ethernet.
    pub const ETH: RecordType = RecordType(2);
    /// Ethernet, with a color in place of the loss counter.
    pub const COLOR_ETH: RecordType = RecordType(11);
    /// Ethernet, with a color and a stream number.
    pub const DSM_COLOR_ETH: RecordType = RecordType(16);
    /// Ethernet, with a color and a hash.
    pub const COLOR_HASH_ETH: RecordType = RecordType(20);
    /// InfiniBand, starting with the LRH.
    pub const INFINIBAND: RecordType = RecordType(21);
    /// IPv4.
    pub const IPV4: RecordType = RecordType(22);
    /// IPv6.
    pub const IPV6: RecordType = RecordType(23);
    /// InfiniBand link packets: flow control.
    pub const INFINIBAND_LINK: RecordType = RecordType(25);
    /// Metadata of the capture card.
    pub const META: RecordType = RecordType(27);
    /// Padding between records.
    pub const PAD: RecordType = RecordType(48);

    /// Returns true for Ethernet records, which have one byte of offset and one of padding before
    /// the frame.
    pub const fn is_ethernet(self) -> bool {
        matches!(
            self,
            RecordType::ETH | RecordType::COLOR_ETH | RecordType::DSM_COLOR_ETH | RecordType::COLOR_HASH_ETH
        )
    }

    /// Returns a name for the record types listed above.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            RecordType::ETH => "Ethernet",
            RecordType::COLOR_ETH => "Ethernet, color",
            RecordType::DSM_COLOR_ETH => "Ethernet, color and stream",
            RecordType::COLOR_HASH_ETH => "Ethernet, color and hash",
            RecordType::INFINIBAND => "InfiniBand",
            RecordType::IPV4 => "IPv4",
            RecordType::IPV6 => "IPv6",
            RecordType::INFINIBAND_LINK => "InfiniBand link packet",
            RecordType::META => "metadata",
            RecordType::PAD => "padding",
            _ => return None,
        })
    }
}

impl Erf {
    /// Length of the header in bytes, without extension headers.
    pub const LENGTH: usize = 16;
    /// Length of each extension header in bytes.
    pub const EXTENSION_LENGTH: usize = 8;
    /// Number of bytes between the headers and an Ethernet frame.
    pub const ETHERNET_OFFSET: usize = 2;

    /// The fields of the header, in order.
    pub const LAYOUT: Layout = Layout(&[
        ("Timestamp", 64),
        ("Extension headers follow", 1),
        ("Record type", 7),
        ("Flags", 8),
        ("Record length", 16),
        ("Loss or color", 16),
        ("Wire length", 16),
    ]);

    /// The fields of an extension header.
    pub const EXTENSION: Layout = Layout(&[("Another follows", 1), ("Type", 7), ("Content", 56)]);

    /// Parses the header.
    pub fn parse(bytes: &[u8]) -> Result<Erf, Stop> {
        let Some(&[t0, t1, t2, t3, t4, t5, t6, t7, kind, flags, r0, r1, c0, c1, w0, w1]) =
            bytes.first_chunk()
        else {
            return Err(Stop::short(Layer::Link, 0, Erf::LENGTH, bytes.len()));
        };
        Ok(Erf {
            timestamp: Timestamp(u64::from_le_bytes([t0, t1, t2, t3, t4, t5, t6, t7])),
            is_extended: kind & 0x80 != 0,
            record_type: RecordType(kind & 0x7f),
            flags,
            record_length: u16::from_be_bytes([r0, r1]),
            loss_or_color: u16::from_be_bytes([c0, c1]),
            wire_length: u16::from_be_bytes([w0, w1]),
        })
    }

    /// Appends the header.
    pub fn build(&self, out: &mut Vec<u8>) {
        out.extend(self.timestamp.0.to_le_bytes());
        out.push(u8::from(self.is_extended) << 7 | self.record_type.0 & 0x7f);
        out.push(self.flags);
        out.extend(self.record_length.to_be_bytes());
        out.extend(self.loss_or_color.to_be_bytes());
        out.extend(self.wire_length.to_be_bytes());
    }

    /// Returns the length in bytes of the header at the start of `bytes`, with its extension
    /// headers and the bytes before an Ethernet frame. Each extension header has a bit that marks
    /// another one.
    pub fn headers_length(&self, bytes: &[u8]) -> Result<usize, Stop> {
        let needs = |at: usize, needed: usize| {
            let available = bytes.len().saturating_sub(at);
            if available < needed { Err(Stop::short(Layer::Link, at, needed, available)) } else { Ok(()) }
        };
        let mut at = Erf::LENGTH;
        let mut more = self.is_extended;
        while more {
            needs(at, Erf::EXTENSION_LENGTH)?;
            more = bytes[at] & 0x80 != 0;
            at += Erf::EXTENSION_LENGTH;
        }
        if self.record_type.is_ethernet() {
            needs(at, Erf::ETHERNET_OFFSET)?;
            at += Erf::ETHERNET_OFFSET;
        }
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // 1 700 000 000.75 s | extended, type 21 | interface 1, variable length | 88 bytes | loss 0 |
    // 62 bytes on the wire
    const BYTES: [u8; 16] =
        [0x00, 0x00, 0x00, 0xc0, 0x00, 0xf1, 0x53, 0x65, 0x95, 0x05, 0x00, 0x58, 0x00, 0x00, 0x00, 0x3e];

    fn erf() -> Erf {
        Erf {
            timestamp: Timestamp(1_700_000_000 << 32 | 0xc000_0000),
            is_extended: true,
            record_type: RecordType::INFINIBAND,
            flags: 5,
            record_length: 88,
            loss_or_color: 0,
            wire_length: 62,
        }
    }

    #[test]
    fn fields_from_bytes() {
        assert_eq!(Erf::parse(&BYTES), Ok(erf()));
        assert_eq!(erf().timestamp.seconds(), 1_700_000_000);
        assert_eq!(erf().timestamp.nanoseconds(), 1_700_000_000_750_000_000);
        let mut out = Vec::new();
        erf().build(&mut out);
        assert_eq!(out, BYTES);
        assert_eq!(Erf::LAYOUT.length(), Erf::LENGTH);
        assert_eq!(Erf::EXTENSION.length(), Erf::EXTENSION_LENGTH);
    }

    /// Rounds as Wireshark does: half a nanosecond up, carrying into the seconds.
    #[test]
    fn nanoseconds_are_rounded() {
        assert_eq!(Timestamp(2).nanoseconds(), 0);
        assert_eq!(Timestamp(3).nanoseconds(), 1);
        assert_eq!(Timestamp(0xffff_ffff).nanoseconds(), 1_000_000_000);
        assert_eq!(Timestamp(u64::MAX).nanoseconds(), (1 << 32) * 1_000_000_000);
    }

    #[test]
    fn every_truncation_is_located() {
        for length in 0..Erf::LENGTH {
            let stop = Stop::short(Layer::Link, 0, Erf::LENGTH, length);
            assert_eq!(Erf::parse(&BYTES[..length]), Err(stop));
        }
        let extended = [&BYTES[..], &[0x83, 0, 0, 0, 0, 0, 0, 1], &[0x03, 0, 0, 0, 0, 0, 0, 2]].concat();
        for length in 16..32 {
            let at = if length < 24 { 16 } else { 24 };
            let stop = Stop::short(Layer::Link, at, 8, length - at);
            assert_eq!(erf().headers_length(&extended[..length]), Err(stop));
        }
        assert_eq!(erf().headers_length(&extended), Ok(32));
        let ethernet = Erf { record_type: RecordType::ETH, is_extended: false, ..erf() };
        assert_eq!(ethernet.headers_length(&extended[..17]), Err(Stop::short(Layer::Link, 16, 2, 1)));
        assert_eq!(ethernet.headers_length(&extended), Ok(18));
    }

    proptest! {
        #[test]
        fn headers_round_trip(bytes: [u8; 16]) {
            let parsed = Erf::parse(&bytes).unwrap();
            let mut out = Vec::new();
            parsed.build(&mut out);
            prop_assert_eq!(&out[..], &bytes[..]);
        }
    }
}
