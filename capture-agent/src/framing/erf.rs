//! ERF captures, and the timestamps of ERF records in other captures.
//!
//! An ERF capture is a sequence of records without file header or magic number. It is recognized by
//! plausible values in its first records.

use super::{Fault, Found, Framed, Trouble};
use rdmascope_dissector::record::{LinkType, Time};
use rdmascope_wire::erf::{Erf, RecordType, Timestamp};

/// Maximum number of seconds between the first two records of a capture: a week, as in Wireshark. A
/// longer interval means that the file has another format.
const WEEK: u32 = 7 * 24 * 3600;

/// Finds the next record.
#[inline]
pub(super) fn next(bytes: &[u8]) -> Result<Found, Trouble> {
    let header = Erf::parse(bytes).map_err(|_| Trouble::Short(Erf::LENGTH))?;
    // 0 belongs to an older format; numbers above padding are unassigned.
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
    Ok(Found::Record(Framed {
        number: 0,
        time: time(header.timestamp),
        link: LinkType::ERF,
        // The padding of a record counts as captured although it was not on the wire.
        original_length: original_length.max(length) as u32,
        dropped: match header.record_type {
            RecordType::ETH | RecordType::INFINIBAND => header.loss_or_color.into(),
            // Other types have a color there, or more information about the port.
            _ => 0,
        },
        // The interface is in the two low bits of the flags.
        interface: (header.flags & 3).into(),
        start: 0,
        end: length,
        consumed: length,
    }))
}

/// Cannot overflow: 2^32 seconds are less than 2^63 nanoseconds.
fn time(timestamp: Timestamp) -> Time {
    Time(timestamp.nanoseconds() as i64)
}

/// Returns the time of an [`LinkType::ERF`] record in a pcap or pcapng capture.
///
/// The record's own timestamp is finer than that of pcap. It is used if the capture's time is zero
/// or at most a second away. If the difference is larger, a program has changed the capture's
/// times, and these are used.
#[cold]
pub(super) fn own_time(record: &[u8], given: Time) -> Time {
    let Ok(header) = Erf::parse(record) else { return given };
    let own = time(header.timestamp);
    let is_near = own.0.abs_diff(given.0) <= 1_000_000_000;
    if header.timestamp.seconds() != 0 && (is_near || given.0 == 0) { own } else { given }
}

/// Returns true if the first header is plausible, so that the capture may be ERF.
pub(super) fn may_begin(bytes: &[u8]) -> Result<bool, Trouble> {
    Erf::parse(bytes).map(|header| is_likely(&header)).map_err(|_| Trouble::Short(Erf::LENGTH))
}

/// Returns true if the first two headers are plausible. `bytes` is the start of the capture, or all
/// of it. `Err` is the number of bytes needed.
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
        // With a single or incomplete record, require a record type that is relevant here.
        Err(_) => Ok(first.record_type.name().is_some()),
    }
}

/// Returns true for a plausible header: an assigned type, room for the header, no data stream error
/// of the card.
fn is_likely(header: &Erf) -> bool {
    const DATA_STREAM_ERROR: u8 = 0x20;
    const RESERVED: u8 = 0x80;
    let is_assigned = matches!(header.record_type.0, 1..=29) || header.record_type == RecordType::PAD;
    is_assigned
        && usize::from(header.record_length) >= Erf::LENGTH
        && header.flags & (DATA_STREAM_ERROR | RESERVED) == 0
        && (header.timestamp.seconds() != 0 || header.record_type == RecordType::PAD)
}
