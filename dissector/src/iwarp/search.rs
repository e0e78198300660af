//! FPDUs that nothing in front of them tells of: in the middle of a connection, and behind a gap.

use super::Run;
use super::framing::CrcUse;
use crate::record::{Seen, Time};
use rdmascope_wire::ddp::{Control, Header, Tagged, Untagged};
use rdmascope_wire::mpa::{CRC_LENGTH, Crc, LENGTH_FIELD, MARKER_INTERVAL, MARKER_LENGTH, fpdu_length};

/// Bytes of the length field and the longest header.
const LONGEST_HEAD: usize = LENGTH_FIELD + Untagged::LENGTH;

/// Whether a segment of TCP begins with an FPDU, or with a marker in front of one.
pub(crate) fn begins_with_fpdu(payload: &[u8], length: u32) -> bool {
    let behind = || payload.strip_prefix(&[0; MARKER_LENGTH]);
    is_fpdu(payload, length) || behind().is_some_and(|it| is_fpdu(it, length - MARKER_LENGTH as u32))
}

/// Whether a segment of TCP begins with an FPDU, as far as the segment tells by itself: headers that RFC 5040 and RFC 5041 allow, and a
/// length that fits.
fn is_fpdu(payload: &[u8], length: u32) -> bool {
    let run = Run { seen: Seen { frame: 0, time: Time(0) }, sequence: 0, bytes: payload, length };
    regular(payload).is_some_and(|(ulpdu_length, header)| match header {
        // Its queue and its number make it unlikely that something else is taken for one.
        Header::Untagged(_) => true,
        Header::Tagged(_) => is_whole_at(&run, 0, ulpdu_length, CrcUse::Unknown),
    })
}

/// The header that an FPDU at the beginning of `bytes` would have, where that is a regular one.
pub(super) fn regular(bytes: &[u8]) -> Option<(u16, Header)> {
    let (length, rest) = bytes.split_first_chunk()?;
    let length = u16::from_be_bytes(*length);
    // Cheap, for this is asked at every byte.
    if rest.first()? & 0x3f != Control::DDP_VERSION || usize::from(length) < Tagged::LENGTH {
        return None;
    }
    let header = Header::parse(rest).ok()?;
    // Numbers begin with 1, and wrap to 0 after 2^32 messages.
    let is_numbered =
        |header: &Header| !matches!(header, Header::Untagged(header) if header.message_number == 0);
    let is_likely = usize::from(length) >= header.length() && header.is_regular() && is_numbered(&header);
    is_likely.then_some((length, header))
}

/// Whether an FPDU lies at `at` in a run, whole, with a right CRC where there are CRCs, and nothing behind it that is no FPDU.
fn is_whole_at(run: &Run<'_>, at: usize, ulpdu_length: u16, crc_use: CrcUse) -> bool {
    let Some(fpdu) = run.bytes[at..].get(..fpdu_length(ulpdu_length)) else { return false };
    let (covered, field) = fpdu.split_at(fpdu.len() - CRC_LENGTH);
    let is_right = || {
        let mut crc = Crc::default();
        crc.update(covered);
        crc.finish() == field
    };
    let fits = match crc_use {
        CrcUse::Off => true,
        CrcUse::On => is_right(),
        CrcUse::Unknown => field == [0; CRC_LENGTH] || is_right(),
    };
    let behind = &run.bytes[at + fpdu.len()..];
    fits && (behind.len() < LONGEST_HEAD || regular(behind).is_some())
}

/// Where the first marker stands in a segment that begins with an FPDU, if there is one: in front of it, or the FPDU ends where no other begins,
/// and does where markers are left out, of which the first one points back to its length field.
pub(super) fn find_marker(bytes: &[u8]) -> Option<u32> {
    const BETWEEN: usize = MARKER_INTERVAL as usize - MARKER_LENGTH;
    let Some((ulpdu_length, _)) = regular(bytes) else {
        let behind = bytes.strip_prefix(&[0; MARKER_LENGTH])?;
        return regular(behind).map(|_| 0);
    };
    let length = fpdu_length(ulpdu_length);
    let fits = |end: usize| end == bytes.len() || bytes.get(end..).is_some_and(|it| regular(it).is_some());
    if fits(length) {
        return None;
    }
    let is_marker = |at: &usize| {
        let is_there = bytes.get(*at..*at + MARKER_LENGTH) == Some(&(*at as u32).to_be_bytes());
        is_there && fits(length + MARKER_LENGTH * (1 + (length - *at - 1) / BETWEEN))
    };
    (MARKER_LENGTH..length.min(MARKER_INTERVAL as usize)).step_by(4).find(is_marker).map(|at| at as u32)
}

/// Where the first FPDU begins in a run. At the beginning of a segment its headers are enough: there senders begin them. Elsewhere it has to
/// be there whole.
pub(super) fn find(run: &Run<'_>, crc_use: CrcUse) -> Option<u32> {
    if is_fpdu(run.bytes, run.length)
        || regular(run.bytes).is_some_and(|(length, _)| fpdu_length(length) > run.bytes.len())
    {
        return Some(0);
    }
    (1..run.bytes.len()).find_map(|at| {
        let (length, _) = regular(&run.bytes[at..])?;
        is_whole_at(run, at, length, crc_use).then_some(at as u32)
    })
}

#[cfg(test)]
mod tests;
