//! The local route header, the first header of a native InfiniBand packet (IBTA volume 1, section
//! 7.7).

use crate::table::{enumerations, header};

/// The local route header. Fields are in host order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lrh {
    /// VL: the virtual lane, 4 bits. Each link may change it.
    pub virtual_lane: u8,
    /// LVer: version of the link header, 4 bits, 0.
    pub link_version: u8,
    /// SL: the service level, 4 bits.
    pub service_level: u8,
    /// LNH: the type of the next header.
    pub next_header: NextHeader,
    /// DLID: the destination port.
    pub destination: u16,
    /// PktLen: packet length in four-byte words, 11 bits, from the first byte of this header
    /// through the ICRC.
    pub packet_length: u16,
    /// SLID: the source port.
    pub source: u16,
}

/// The header that follows the LRH (section 7.7.5, table 15), in the order of the numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NextHeader {
    /// 0: a raw packet with an Ethertype.
    #[default]
    RawEthertype,
    /// 1: a raw IPv6 packet.
    RawIpv6,
    /// 2: a BTH. The packet stays in its subnet.
    Bth,
    /// 3: a GRH, then a BTH.
    Grh,
}

impl NextHeader {
    pub(crate) const fn from_bits(bits: u8) -> NextHeader {
        match bits & 3 {
            0 => NextHeader::RawEthertype,
            1 => NextHeader::RawIpv6,
            2 => NextHeader::Bth,
            _ => NextHeader::Grh,
        }
    }

    /// Returns the number on the wire.
    pub const fn bits(self) -> u8 {
        self as u8
    }
}

header! {
    Lrh in Layer::Lrh {
        4 "VL" virtual_lane, 4 "LVer" link_version, 4 "SL" service_level, 2 reserved, 2 "LNH" next_header,
            16 "DLID" destination;
        5 reserved, 11 "PktLen" packet_length, 16 "SLID" source;
    }
}
enumerations! { NextHeader }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Layer, Stop};
    use proptest::prelude::*;

    // VL 7, LVer 0 | SL 1, LNH 2 | DLID 0x375c | 14 words | SLID 0x17d2
    const BYTES: [u8; 8] = [0x70, 0x12, 0x37, 0x5c, 0x00, 0x0e, 0x17, 0xd2];

    fn lrh() -> Lrh {
        Lrh {
            virtual_lane: 7,
            link_version: 0,
            service_level: 1,
            next_header: NextHeader::Bth,
            destination: 0x375c,
            packet_length: 14,
            source: 0x17d2,
        }
    }

    #[test]
    fn hand_written_bytes_parse_and_build() {
        assert_eq!(Lrh::parse(&BYTES), Ok(lrh()));
        let value = |name| Lrh::LAYOUT.field(name).and_then(|field| field.value(&BYTES)).unwrap();
        assert_eq!(Lrh::LAYOUT.length(), Lrh::LENGTH);
        assert_eq!(["VL", "LVer", "SL", "LNH"].map(value), [7, 0, 1, 2]);
        assert_eq!(["DLID", "PktLen", "SLID"].map(value), [0x375c, 14, 0x17d2]);
        let mut out = Vec::new();
        lrh().build(&mut out);
        assert_eq!(out, BYTES);
    }

    #[test]
    fn reserved_bits_are_ignored() {
        let mut bytes = BYTES;
        bytes[1] |= 0x0c;
        bytes[4] |= 0xf8;
        assert_eq!(Lrh::parse(&bytes), Ok(lrh()));
    }

    #[test]
    fn every_truncation_is_located() {
        for length in 0..Lrh::LENGTH {
            assert_eq!(Lrh::parse(&BYTES[..length]), Err(Stop::short(Layer::Lrh, 0, 8, length)));
        }
    }

    proptest! {
        #[test]
        fn headers_round_trip(mut bytes: [u8; 8]) {
            bytes[1] &= 0xf3;
            bytes[4] &= 0x07;
            let mut out = Vec::new();
            Lrh::parse(&bytes).unwrap().build(&mut out);
            prop_assert_eq!(out, bytes);
        }
    }
}
