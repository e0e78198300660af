//! The pcap format.
//!
//! ```text
//! file:   magic 4 | major 2 | minor 2 | reserved 8 | snap length 4 | link type 4, in its upper half other flags
//! record: seconds 4 | microseconds or nanoseconds 4 | captured length 4 | original length 4 | captured bytes
//! ```

use super::{Fault, Found, LIMIT, Order, Trouble};
use rdmascope_dissector::record::{LinkType, Time};

const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;

/// What the magic number tells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Variant {
    pub(super) order: Order,
    pub(super) nanoseconds: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct File {
    order: Order,
    /// Nanoseconds in one unit of the second word of a record.
    unit: u32,
    link: LinkType,
}

impl File {
    /// Reads the file header.
    pub(super) fn open(variant: Variant, bytes: &[u8]) -> Result<(File, usize), Trouble> {
        let header = bytes.first_chunk::<FILE_HEADER>().ok_or(Trouble::Short(FILE_HEADER))?;
        let order = variant.order;
        let major = order.u16([header[4], header[5]]);
        let minor = order.u16([header[6], header[7]]);
        if major != 2 {
            let fault = Fault::Version { expected: 2, found: (major, minor) };
            return Err(Trouble::Fault { at: 4, fault });
        }
        let link = order.u32([header[20], header[21], header[22], header[23]]);
        let unit = if variant.nanoseconds { 1 } else { 1000 };
        Ok((File { order, unit, link: LinkType(link as u16) }, FILE_HEADER))
    }

    #[inline]
    pub(super) fn next(&self, bytes: &[u8]) -> Result<Found, Trouble> {
        let Some(&[s0, s1, s2, s3, f0, f1, f2, f3, c0, c1, c2, c3, o0, o1, o2, o3]) =
            bytes.first_chunk::<RECORD_HEADER>()
        else {
            return Err(Trouble::Short(RECORD_HEADER));
        };
        let order = self.order;
        let captured_length = order.u32([c0, c1, c2, c3]);
        if captured_length as usize > LIMIT {
            let fault = Fault::RecordLength { found: captured_length };
            return Err(Trouble::Fault { at: 8, fault });
        }
        let end = RECORD_HEADER + captured_length as usize;
        if bytes.len() < end {
            return Err(Trouble::Short(end));
        }
        // 2^32 seconds and 2^32 milliseconds are less than 2^63 nanoseconds.
        let seconds = i64::from(order.u32([s0, s1, s2, s3]));
        let fraction = i64::from(order.u32([f0, f1, f2, f3]));
        Ok(Found::Record {
            time: Time(seconds * 1_000_000_000 + fraction * i64::from(self.unit)),
            link: self.link,
            original_length: order.u32([o0, o1, o2, o3]),
            start: RECORD_HEADER,
            end,
            consumed: end,
        })
    }
}
