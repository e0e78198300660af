//! The global route header (IBTA volume 1, section 8.3): an IPv6 header in all but its next header, and what begins a
//! RoCEv1 packet (Annex A16).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------+---------------+---------------------------------------+
//! | IPVer | Traffic Class |              Flow Label               |
//! +-------+---------------+-------+---------------+---------------+
//! |        Payload Length         |  Next Header  |   Hop Limit   |
//! +-------------------------------+---------------+---------------+
//! |                       Source GID, 16 bytes                    |
//! +---------------------------------------------------------------+
//! |                    Destination GID, 16 bytes                  |
//! +---------------------------------------------------------------+
//! ```

use crate::layout::Layout;
use crate::{Layer, Stop};

/// The global route header. Fields are in host order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grh {
    /// IPVer: 6, in 4 bits.
    pub ip_version: u8,
    /// TClass.
    pub traffic_class: u8,
    /// FlowLabel, 20 bits.
    pub flow_label: u32,
    /// PayLen: bytes behind this header up to and with the ICRC.
    pub payload_length: u16,
    /// NxtHdr: [`Grh::NEXT_HEADER_BTH`] where a BTH follows.
    pub next_header: u8,
    /// HopLmt.
    pub hop_limit: u8,
    /// SGID.
    pub source: [u8; 16],
    /// DGID.
    pub destination: [u8; 16],
}

impl Grh {
    /// Length in bytes.
    pub const LENGTH: usize = 40;
    /// Its fields and where they stand.
    pub const LAYOUT: Layout = Layout(&[
        ("IPVer", 4),
        ("TClass", 8),
        ("FlowLabel", 20),
        ("PayLen", 16),
        ("NxtHdr", 8),
        ("HopLmt", 8),
        ("SGID", 128),
        ("DGID", 128),
    ]);

    /// The next header that says that an IBA transport header follows.
    pub const NEXT_HEADER_BTH: u8 = 0x1b;

    /// Reads the first [`Grh::LENGTH`] of `bytes`.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Grh, Stop> {
        let Some(b) = bytes.first_chunk::<{ Grh::LENGTH }>() else {
            return Err(Stop::short(Layer::Grh, 0, Grh::LENGTH, bytes.len()));
        };
        let word = u32::from_be_bytes([b[0], b[1], b[2], b[3]]);
        let mut grh = Grh {
            ip_version: (word >> 28) as u8,
            traffic_class: (word >> 20) as u8,
            flow_label: word & 0x000f_ffff,
            payload_length: u16::from_be_bytes([b[4], b[5]]),
            next_header: b[6],
            hop_limit: b[7],
            source: [0; 16],
            destination: [0; 16],
        };
        grh.source.copy_from_slice(&b[8..24]);
        grh.destination.copy_from_slice(&b[24..40]);
        Ok(grh)
    }

    /// Appends the header. Bits that do not fit a field are dropped.
    pub fn build(&self, out: &mut Vec<u8>) {
        let word = u32::from(self.ip_version) << 28
            | u32::from(self.traffic_class) << 20
            | self.flow_label & 0x000f_ffff;
        out.extend_from_slice(&word.to_be_bytes());
        out.extend_from_slice(&self.payload_length.to_be_bytes());
        out.push(self.next_header);
        out.push(self.hop_limit);
        out.extend_from_slice(&self.source);
        out.extend_from_slice(&self.destination);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[rustfmt::skip]
    const BYTES: [u8; 40] = [
        0x61, 0x2a, 0xbc, 0xde, // version 6, traffic class 0x12, flow label 0xabcde
        0x01, 0x0c, 0x1b, 0x40, // 268 bytes, BTH, hop limit 64
        0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xff, 0xfe, 0, 0, 1,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2,
    ];

    fn grh() -> Grh {
        Grh {
            ip_version: 6,
            traffic_class: 0x12,
            flow_label: 0xabcde,
            payload_length: 268,
            next_header: Grh::NEXT_HEADER_BTH,
            hop_limit: 64,
            source: [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xff, 0xfe, 0, 0, 1],
            destination: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2],
        }
    }

    #[test]
    fn hand_written_bytes_both_ways() {
        assert_eq!(Grh::parse(&BYTES), Ok(grh()));
        let value = |name| Grh::LAYOUT.field(name).unwrap().value(&BYTES);
        assert_eq!(Grh::LAYOUT.length(), Grh::LENGTH);
        assert_eq!(
            (value("IPVer"), value("TClass"), value("FlowLabel")),
            (Some(6), Some(0x12), Some(0xabcde))
        );
        assert_eq!((value("PayLen"), value("NxtHdr"), value("HopLmt")), (Some(268), Some(0x1b), Some(64)));
        assert_eq!(Grh::LAYOUT.field("DGID").unwrap().bytes(), 24..40);
        let mut out = Vec::new();
        grh().build(&mut out);
        assert_eq!(out, BYTES);
    }

    #[test]
    fn too_short() {
        for length in 0..Grh::LENGTH {
            assert_eq!(Grh::parse(&BYTES[..length]), Err(Stop::short(Layer::Grh, 0, 40, length)));
        }
    }

    proptest! {
        #[test]
        fn bytes_survive_the_round_trip(bytes in proptest::array::uniform::<_, 40>(any::<u8>())) {
            let mut out = Vec::new();
            Grh::parse(&bytes).unwrap().build(&mut out);
            prop_assert_eq!(out, bytes);
        }
    }
}
