//! The pcap format.
//!
//! ```text
//! file:   magic 4 | major 2 | minor 2 | reserved 8 | snap length 4 | link type 4, upper half flags
//! record: seconds 4 | micro- or nanoseconds 4 | captured length 4 | original length 4 | bytes
//! ```

use super::{Fault, Found, Framed, LIMIT, Order, Trouble};
use pcap_parser::{LegacyPcapBlock, parse_pcap_frame, parse_pcap_frame_be, parse_pcap_header};
use rdmascope_dissector::record::{LinkType, Time};

const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;

#[derive(Clone, Copy, Debug)]
pub(super) struct File {
    order: Order,
    /// Nanoseconds per unit of the second word of a record.
    unit: u32,
    link: LinkType,
}

impl File {
    /// Parses the file header. Its magic number was checked before.
    pub(super) fn open(bytes: &[u8]) -> Result<(File, usize), Trouble> {
        let Ok((_, header)) = parse_pcap_header(bytes) else {
            return Err(Trouble::Short(FILE_HEADER));
        };
        if header.version_major != 2 {
            let found = (header.version_major, header.version_minor);
            return Err(Trouble::Fault { at: 4, fault: Fault::Version { expected: 2, found } });
        }
        let order = if header.is_bigendian() { Order::Big } else { Order::Little };
        let unit = if header.is_nanosecond_precision() { 1 } else { 1000 };
        Ok((File { order, unit, link: LinkType(header.network.0 as u16) }, FILE_HEADER))
    }

    #[inline]
    pub(super) fn next(&self, bytes: &[u8]) -> Result<Found, Trouble> {
        let parsed = match self.order {
            Order::Little => parse_pcap_frame(bytes),
            Order::Big => parse_pcap_frame_be(bytes),
        };
        let Ok((_, LegacyPcapBlock { ts_sec, ts_usec, caplen, origlen, data })) = parsed else {
            return Err(self.trouble(bytes));
        };
        if caplen as usize > LIMIT {
            return Err(self.trouble(bytes));
        }
        // Cannot overflow: 2^32 seconds and 2^32 milliseconds are less than 2^63 nanoseconds. The
        // field that pcap-parser calls microseconds has nanoseconds if the magic number says so.
        let time = i64::from(ts_sec) * 1_000_000_000 + i64::from(ts_usec) * i64::from(self.unit);
        let end = RECORD_HEADER + data.len();
        Ok(Found::Record(Framed {
            number: 0,
            time: Time(time),
            link: self.link,
            original_length: origlen,
            dropped: 0,
            interface: 0,
            start: RECORD_HEADER,
            end,
            consumed: end,
        }))
    }

    /// Determines why there is no record: missing bytes, or a length that exceeds the limit.
    #[cold]
    fn trouble(&self, bytes: &[u8]) -> Trouble {
        let Some(&[.., c0, c1, c2, c3, _, _, _, _]) = bytes.first_chunk::<RECORD_HEADER>() else {
            return Trouble::Short(RECORD_HEADER);
        };
        let captured_length = self.order.u32([c0, c1, c2, c3]);
        if captured_length as usize > LIMIT {
            return Trouble::Fault { at: 8, fault: Fault::RecordLength { found: captured_length } };
        }
        Trouble::Short(RECORD_HEADER + captured_length as usize)
    }
}
