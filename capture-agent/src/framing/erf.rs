//! Captures that are nothing but records in the Extensible Record Format (ERF), and the time stamps of such records in other captures.
//!
//! There is no file header and no magic number. What the first records say has to tell that they are records.

use super::{Fault, Found, Trouble};
use rdmascope_dissector::record::{LinkType, Time};
use rdmascope_wire::erf::{Erf, RecordType, Timestamp};

/// Seconds between the first two records of a capture, at most: a week, as Wireshark has it. Anything else is taken for another format.
const WEEK: u32 = 7 * 24 * 3600;

/// Finds the next record.
#[inline]
pub(super) fn next(bytes: &[u8]) -> Result<Found, Trouble> {
    let header = Erf::parse(bytes).map_err(|_| Trouble::Short(Erf::LENGTH))?;
    // 0 stood in a format before this one; numbers above padding are not given out.
    if header.record_type.0 == 0 || header.record_type > RecordType::PAD {
        return Err(Trouble::Fault { at: 8, fault: Fault::ErfType { found: header.record_type.0 } });
    }
    let length = usize::from(header.record_length);
    let too_short = |least: usize| {
        let fault = Fault::ErfLength { found: header.record_length, least };
        Trouble::Fault { at: 10, fault }
    };
    if length < Erf::LENGTH {
        return Err(too_short(Erf::LENGTH));
    }
    if header.record_type == RecordType::PAD {
        return if bytes.len() < length {
            Err(Trouble::Short(length))
        } else {
            Ok(Found::Nothing { consumed: length })
        };
    }
    let record = bytes.get(..length).ok_or(Trouble::Short(length))?;
    let headers = header.headers_length(record).map_err(|stop| too_short(stop.offset + stop.needed))?;
    let original_length = headers + usize::from(header.wire_length);
    Ok(Found::Record {
        time: time(header.timestamp),
        link: LinkType::ERF,
        // The padding of a record counts as captured, and was not on the wire.
        original_length: original_length.max(length) as u32,
        dropped: match header.record_type {
            RecordType::ETH | RecordType::INFINIBAND => header.loss_or_color.into(),
            // Other types have a color there, or more about the port.
            _ => 0,
        },
        // The two low bits of the flags.
        interface: (header.flags & 3).into(),
        start: 0,
        end: length,
        consumed: length,
    })
}

/// 2^32 seconds are less than 2^63 nanoseconds.
fn time(timestamp: Timestamp) -> Time {
    Time(timestamp.nanoseconds() as i64)
}

/// The time of a record of [`LinkType::ERF`] that stands in a pcap or pcapng capture: its own, which is finer than what pcap's header has,
/// if both are of the same moment to a second, or the capture's is zero. Whatever changed the capture's time changed only that.
#[cold]
pub(super) fn own_time(record: &[u8], given: Time) -> Time {
    let Ok(header) = Erf::parse(record) else { return given };
    let own = time(header.timestamp);
    let is_near = own.0.abs_diff(given.0) <= 1_000_000_000;
    if header.timestamp.seconds() != 0 && (is_near || given.0 == 0) { own } else { given }
}

/// Whether a capture without a known magic number may begin with an ERF record: what its first header says.
pub(super) fn may_begin(bytes: &[u8]) -> Result<bool, Trouble> {
    Erf::parse(bytes).map(|header| is_likely(&header)).map_err(|_| Trouble::Short(Erf::LENGTH))
}

/// Whether it does: what its first two headers say. `bytes` are those that are there so far, or all of them; `Err` tells how many are needed.
pub(crate) fn begins(bytes: &[u8], are_all: bool) -> Result<bool, usize> {
    let Ok(first) = Erf::parse(bytes) else {
        return if are_all { Ok(false) } else { Err(Erf::LENGTH) };
    };
    if !is_likely(&first) {
        return Ok(false);
    }
    let length = usize::from(first.record_length);
    match Erf::parse(bytes.get(length..).unwrap_or_default()) {
        Ok(second) => {
            let [one, other] = [first, second].map(|header| header.timestamp.seconds());
            let is_padding = [first, second].iter().any(|header| header.record_type == RecordType::PAD);
            Ok(is_likely(&second) && (is_padding || one.abs_diff(other) <= WEEK))
        }
        Err(_) if !are_all => Err(length + Erf::LENGTH),
        // One record, or a part of one: that it holds what is looked for here has to be enough.
        Err(_) => Ok(first.record_type.name().is_some()),
    }
}

/// Whether a header may be one: a type that is given out, room for the header, no error of the card's own data stream.
fn is_likely(header: &Erf) -> bool {
    const DATA_STREAM_ERROR: u8 = 0x20;
    const RESERVED: u8 = 0x80;
    let is_given_out = matches!(header.record_type.0, 1..=29) || header.record_type == RecordType::PAD;
    is_given_out
        && usize::from(header.record_length) >= Erf::LENGTH
        && header.flags & (DATA_STREAM_ERROR | RESERVED) == 0
        && (header.timestamp.seconds() != 0 || header.record_type == RecordType::PAD)
}
