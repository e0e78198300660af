//! The common header of a management datagram, a MAD (IBTA volume 1, section 13.4).

use crate::table::{header, wrappers};
use crate::{Layer, Stop};

/// Length of a MAD in bytes, header and data (section 13.4).
pub const LENGTH: usize = 256;

/// Length of the data after the common header in bytes.
pub const DATA_LENGTH: usize = LENGTH - Header::LENGTH;

/// The common MAD header. Fields are in host order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Version of the MAD format: 1.
    pub base_version: u8,
    /// The management class.
    pub management_class: ManagementClass,
    /// Version of the format of the class.
    pub class_version: u8,
    /// The method. Its upper bit, R, marks a response.
    pub method: Method,
    /// The result of the request; 0 in a request.
    pub status: u16,
    /// 16 bits defined by the class.
    pub class_specific: u16,
    /// Transaction ID, the same in a request and its response.
    pub transaction_id: u64,
    /// The attribute ID, defined by the class. It determines the format of the data.
    pub attribute: u16,
    /// Attribute modifier: the object that the attribute applies to.
    pub attribute_modifier: u32,
}

header! {
    Header in Layer::Mad {
        8 "BaseVersion" base_version, 8 "MgmtClass" management_class, 8 "ClassVersion" class_version,
            1 "R" method.0 << 7, 7 "Method" method.0 << 0;
        16 "Status" status, 16 "ClassSpecific" class_specific;
        64 "TransactionID" transaction_id;
        16 "AttributeID" attribute, 16 reserved;
        32 "AttributeModifier" attribute_modifier;
    }
}
wrappers! { ManagementClass }

impl Header {
    /// Creates the header of a CM message (section 12.6): class version 2, method Send.
    pub const fn communication_management(attribute: u16, transaction_id: u64) -> Header {
        Header {
            base_version: 1,
            management_class: ManagementClass::COMMUNICATION_MANAGEMENT,
            class_version: 2,
            method: Method::SEND,
            status: 0,
            class_specific: 0,
            transaction_id,
            attribute,
            attribute_modifier: 0,
        }
    }
}

/// Returns the stop of a MAD shorter than [`LENGTH`], or `None` for a complete one.
///
/// The data parsers accept a MAD that is cut, but fields may be incomplete: private data that is
/// empty may have had bytes.
#[inline]
pub fn cut(bytes: &[u8]) -> Option<Stop> {
    (bytes.len() < LENGTH).then(|| Stop::short(Layer::Mad, bytes.len(), LENGTH - bytes.len(), bytes.len()))
}

/// A management class (section 13.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ManagementClass(pub u8);

impl ManagementClass {
    /// Subnet administration.
    pub const SUBNET_ADMINISTRATION: ManagementClass = ManagementClass(0x03);
    /// Communication management, the class of the messages in [`cm`](crate::cm).
    pub const COMMUNICATION_MANAGEMENT: ManagementClass = ManagementClass(0x07);
}

/// A method (section 13.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Method(pub u8);

impl Method {
    /// Get: requests an attribute.
    pub const GET: Method = Method(0x01);
    /// Set: changes an attribute.
    pub const SET: Method = Method(0x02);
    /// Send: a datagram that the class answers in its own way, or not at all. All CM messages use
    /// it.
    pub const SEND: Method = Method(0x03);
    /// GetResp: answers Get and Set.
    pub const GET_RESPONSE: Method = Method(0x81);

    /// R: returns true for a response.
    #[inline]
    pub const fn is_response(self) -> bool {
        self.0 & 0x80 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Each field has a distinct value. Written by hand from section 13.4.
    const BYTES: [u8; 24] = [
        0x01, 0x07, 0x02, 0x81, // base version, class, class version, method
        0x12, 0x34, 0x56, 0x78, // status, class specific
        0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, // transaction ID
        0x00, 0x10, 0x00, 0x00, // attribute ID, reserved
        0xfe, 0xdc, 0xba, 0x98, // attribute modifier
    ];

    #[test]
    fn fields_of_a_header() {
        let header = Header::parse(&BYTES).unwrap();
        let expected = Header {
            base_version: 1,
            management_class: ManagementClass::COMMUNICATION_MANAGEMENT,
            class_version: 2,
            method: Method::GET_RESPONSE,
            status: 0x1234,
            class_specific: 0x5678,
            transaction_id: 0x0123_4567_89ab_cdef,
            attribute: 0x0010,
            attribute_modifier: 0xfedc_ba98,
        };
        assert_eq!(header, expected);
        let value = |name| Header::LAYOUT.field(name).and_then(|field| field.value(&BYTES)).unwrap();
        assert_eq!(Header::LAYOUT.length(), Header::LENGTH);
        assert_eq!(["BaseVersion", "MgmtClass", "ClassVersion", "R", "Method"].map(value), [1, 7, 2, 1, 1]);
        assert_eq!(["Status", "ClassSpecific", "AttributeID"].map(value), [0x1234, 0x5678, 0x10]);
        assert_eq!(["TransactionID", "AttributeModifier"].map(value), [0x0123_4567_89ab_cdef, 0xfedc_ba98]);
        assert!(header.method.is_response() && !Method::SEND.is_response());
        let mut built = Vec::new();
        header.build(&mut built);
        assert_eq!(built, BYTES);
    }

    #[test]
    fn every_truncation_is_located() {
        for length in 0..Header::LENGTH {
            let stop = Header::parse(&BYTES[..length]).unwrap_err();
            assert_eq!(stop, Stop::short(Layer::Mad, 0, 24, length));
        }
        assert_eq!(cut(&[0; LENGTH]), None);
        let stop = cut(&[0; 100]).unwrap();
        assert_eq!((stop.layer, stop.offset, stop.needed, stop.available), (Layer::Mad, 100, 156, 0));
    }

    proptest! {
        #[test]
        fn headers_round_trip(bytes: [u8; 24]) {
            let header = Header::parse(&bytes).unwrap();
            let mut built = Vec::new();
            header.build(&mut built);
            prop_assert_eq!(Header::parse(&built).unwrap(), header);
        }
    }
}
