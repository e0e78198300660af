//! The global route header (IBTA volume 1, section 8.3).
//!
//! It has the layout of an IPv6 header. A RoCEv1 packet begins with it (Annex A16).

use crate::table::header;

/// The global route header. Fields are in host order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grh {
    /// IPVer: 6, in 4 bits.
    pub ip_version: u8,
    /// TClass.
    pub traffic_class: u8,
    /// FlowLabel, 20 bits.
    pub flow_label: u32,
    /// PayLen: length in bytes after this header, including the ICRC.
    pub payload_length: u16,
    /// NxtHdr: [`Grh::NEXT_HEADER_BTH`] if a BTH follows.
    pub next_header: u8,
    /// HopLmt.
    pub hop_limit: u8,
    /// SGID.
    pub source: [u8; 16],
    /// DGID.
    pub destination: [u8; 16],
}

header! {
    Grh in Layer::Grh {
        4 "IPVer" ip_version, 8 "TClass" traffic_class, 20 "FlowLabel" flow_label;
        16 "PayLen" payload_length, 8 "NxtHdr" next_header, 8 "HopLmt" hop_limit;
        128 "SGID" source;
        128 "DGID" destination;
    }
}

impl Grh {
    /// The next header value of an IBA transport header.
    pub const NEXT_HEADER_BTH: u8 = 0x1b;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Layer, Stop};
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
    fn hand_written_bytes_parse_and_build() {
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
    fn every_truncation_is_located() {
        for length in 0..Grh::LENGTH {
            assert_eq!(Grh::parse(&BYTES[..length]), Err(Stop::short(Layer::Grh, 0, 40, length)));
        }
    }

    proptest! {
        #[test]
        fn headers_round_trip(bytes in proptest::array::uniform::<_, 40>(any::<u8>())) {
            let mut out = Vec::new();
            Grh::parse(&bytes).unwrap().build(&mut out);
            prop_assert_eq!(out, bytes);
        }
    }
}
