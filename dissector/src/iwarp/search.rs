//! Search for FPDUs with an unknown start: in mid-connection, and after a gap.

use super::Run;
use super::framing::CrcUse;
use crate::record::{Seen, Time};
use alloc::vec::Vec;
use rdmascope_wire::ddp::{Control, Header, Tagged, Untagged};
use rdmascope_wire::mpa::{CRC_LENGTH, Crc, LENGTH_FIELD, MARKER_INTERVAL, MARKER_LENGTH, fpdu_length};

/// Length of the length field and the longest header in bytes.
const LONGEST_HEAD: usize = LENGTH_FIELD + Untagged::LENGTH;

/// Whether a TCP segment starts with an FPDU, or with a marker and an FPDU.
pub(crate) fn begins_with_fpdu(payload: &[u8], length: u32) -> bool {
    let after_marker = || payload.strip_prefix(&[0; MARKER_LENGTH]);
    is_fpdu(payload, length) || after_marker().is_some_and(|it| is_fpdu(it, length - MARKER_LENGTH as u32))
}

/// Whether a TCP segment alone suggests that it starts with an FPDU: its headers are valid by RFC
/// 5040 and RFC 5041, and its length fits.
fn is_fpdu(payload: &[u8], length: u32) -> bool {
    let run = Run { seen: Seen { frame: 0, time: Time(0) }, sequence: 0, bytes: payload, length };
    regular(payload).is_some_and(|(ulpdu_length, header)| match header {
        // The queue and message number make a false match unlikely.
        Header::Untagged(_) => true,
        Header::Tagged(_) => is_complete_at(&run, 0, ulpdu_length, CrcUse::Unknown),
    })
}

/// Parses the header of an FPDU at the start of `bytes`; `None` if it is not regular.
pub(super) fn regular(bytes: &[u8]) -> Option<(u16, Header)> {
    let (length, rest) = bytes.split_first_chunk()?;
    let length = u16::from_be_bytes(*length);
    // A cheap check first, because this runs at every byte.
    if rest.first()? & 0x3f != Control::DDP_VERSION || usize::from(length) < Tagged::LENGTH {
        return None;
    }
    let header = Header::parse(rest).ok()?;
    // Message numbers start at 1, and wrap to 0 after 2^32 messages.
    let is_numbered =
        |header: &Header| !matches!(header, Header::Untagged(header) if header.message_number == 0);
    let is_likely = usize::from(length) >= header.length() && header.is_regular() && is_numbered(&header);
    is_likely.then_some((length, header))
}

/// Whether a run has a whole FPDU at `at`, with a correct CRC if CRCs are used, and only an FPDU
/// after it.
fn is_complete_at(run: &Run<'_>, at: usize, ulpdu_length: u16, crc_use: CrcUse) -> bool {
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
    let rest = &run.bytes[at + fpdu.len()..];
    fits && (rest.len() < LONGEST_HEAD || regular(rest).is_some())
}

/// Finds the first marker in a segment that starts with an FPDU or a marker.
///
/// A marker at the start is followed by an FPDU. A later one holds its distance from the length
/// field. The FPDU then ends before another one, or with the segment, only if markers are skipped.
pub(super) fn find_marker(bytes: &[u8]) -> Option<u32> {
    if let Some(rest) = bytes.strip_prefix(&[0; MARKER_LENGTH]) {
        return regular(rest).map(|_| 0);
    }
    if regular(bytes).is_some_and(|(length, _)| ends_at(bytes, fpdu_length(length))) {
        return None;
    }
    (MARKER_LENGTH as u32..MARKER_INTERVAL).step_by(4).find(|at| has_marker(bytes, *at))
}

/// Whether the FPDU at the start of `bytes` has its first marker at `at`, which may be within the
/// header.
fn has_marker(bytes: &[u8], at: u32) -> bool {
    const BETWEEN: usize = MARKER_INTERVAL as usize - MARKER_LENGTH;
    let Some((before, rest)) = bytes.split_at_checked(at as usize) else { return false };
    let Some(after) = rest.strip_prefix(&at.to_be_bytes()) else { return false };
    let head: Vec<u8> = before.iter().chain(after).take(LONGEST_HEAD).copied().collect();
    regular(&head).is_some_and(|(length, _)| {
        let length = fpdu_length(length);
        let markers = |remaining: usize| 1 + (remaining - 1) / BETWEEN;
        length > before.len() && ends_at(bytes, length + MARKER_LENGTH * markers(length - before.len()))
    })
}

/// Whether `end` is the end of `bytes`, or the start of an FPDU.
fn ends_at(bytes: &[u8], end: usize) -> bool {
    end == bytes.len() || bytes.get(end..).is_some_and(|rest| regular(rest).is_some())
}

/// Finds the start of the first FPDU in a run.
///
/// Senders start FPDUs at the start of a segment, so the headers are enough there. Elsewhere the
/// whole FPDU must be present.
pub(super) fn find(run: &Run<'_>, crc_use: CrcUse) -> Option<u32> {
    if is_fpdu(run.bytes, run.length)
        || regular(run.bytes).is_some_and(|(length, _)| fpdu_length(length) > run.bytes.len())
    {
        return Some(0);
    }
    (1..run.bytes.len()).find_map(|at| {
        let (length, _) = regular(&run.bytes[at..])?;
        is_complete_at(run, at, length, crc_use).then_some(at as u32)
    })
}

#[cfg(test)]
mod tests;
