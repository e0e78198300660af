//! The pages of the kernel's trace ring, and the fields of its events.
//!
//! ```text
//! page:   time 8 | bytes of events, and flags of lost events, one word | events
//! event:  type, 5 bits; time since the event before, 27 bits | data
//!
//! type 0        length 4 (itself included), data
//!      1 to 28  data: 4 bytes times the type
//!      29       padding: length 4, or the end of the page
//!      30       high bits of the time since the event before, 4
//!      31       high bits of the time, 4
//! ```
//!
//! Numbers are in host byte order. The format is that of Linux, `include/linux/ring_buffer.h` and
//! `kernel/trace/ring_buffer.c`. Any bytes are accepted; a page ends at the first event that it
//! cannot hold.

use std::collections::HashMap;
use std::ops::Range;

/// Bytes of the header of a page.
const HEADER: usize = 8 + size_of::<usize>();
const MISSED: usize = 1 << 31;
const MISSED_STORED: usize = 1 << 30;
const LENGTH: usize = (1 << 20) - 1;

/// Calls `see` with the time in nanoseconds and the data of each event of a page. Returns the time of
/// the page, and the number of events lost before it; 1 if the kernel does not say how many.
pub(super) fn events(page: &[u8], mut see: impl FnMut(u64, &[u8])) -> (u64, u64) {
    let Some((head, rest)) = page.split_first_chunk::<HEADER>() else { return (0, 0) };
    let Some((began, commit)) = head.split_first_chunk::<8>() else { return (0, 0) };
    let began = u64::from_ne_bytes(*began);
    let mut time = began;
    let commit = commit.first_chunk().map_or(0, |commit| usize::from_ne_bytes(*commit));
    let (mut events, trailer) = rest.split_at(rest.len().min(commit & LENGTH));
    while let Some((word, data)) = events.split_first_chunk::<4>() {
        let word = u32::from_ne_bytes(*word);
        let (kind, delta) = (word & 0x1f, u64::from(word >> 5));
        let first = data.first_chunk().map(|word| u32::from_ne_bytes(*word));
        let high = u64::from(first.unwrap_or_default()) << 27;
        let (data, length) = match kind {
            0 => (4..first.unwrap_or_default() as usize, first.unwrap_or_default() as usize),
            29 if delta == 0 => break,
            29 => (0..0, first.unwrap_or_default() as usize),
            30 | 31 => (0..0, 4),
            words => (0..4 * words as usize, 4 * words as usize),
        };
        let Some((own, next)) = events[4..].split_at_checked(length) else { break };
        match kind {
            30 => time = time.wrapping_add(high | delta),
            // The highest five bits are those of the previous time.
            31 => time = time & 0x1f << 59 | high | delta,
            29 => {}
            _ => {
                time = time.wrapping_add(delta);
                see(time, own.get(data).unwrap_or_default());
            }
        }
        events = next;
    }
    let lost = match commit {
        commit if commit & MISSED == 0 => 0,
        commit if commit & MISSED_STORED == 0 => 1,
        _ => trailer.first_chunk().map_or(1, |count| usize::from_ne_bytes(*count) as u64),
    };
    (began, lost)
}

/// The fields of an event.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    fields: HashMap<String, Range<usize>>,
}

impl Layout {
    /// Parses the file `format` of an event. Returns its ID too.
    ///
    /// ```text
    /// ID: 1862
    /// <tab>field:u64 b0[];<tab>offset:152;<tab>size:512;<tab>signed:0;
    /// ```
    pub(super) fn parse(format: &str) -> Option<(u16, Layout)> {
        let id = format.lines().find_map(|line| line.strip_prefix("ID: "))?.trim().parse().ok()?;
        let field = |line: &str| {
            let mut words = line.trim().split(';').map(str::trim);
            let name = words.next()?.strip_prefix("field:")?.rsplit(' ').next()?;
            let name = name.split('[').next()?.to_owned();
            let offset: usize = words.next()?.strip_prefix("offset:")?.parse().ok()?;
            let size: usize = words.next()?.strip_prefix("size:")?.parse().ok()?;
            Some((name, offset..offset.checked_add(size)?))
        };
        Some((id, Layout { fields: format.lines().filter_map(field).collect() }))
    }

    /// The bytes of a field. Empty if the event does not have it.
    pub(super) fn bytes<'a>(&self, name: &str, data: &'a [u8]) -> &'a [u8] {
        self.fields.get(name).and_then(|range| data.get(range.clone())).unwrap_or_default()
    }

    /// A number of 4 or 8 bytes. 0 if the event does not have it.
    pub(super) fn number(&self, name: &str, data: &[u8]) -> u64 {
        match self.bytes(name, data) {
            bytes if bytes.len() == 4 => {
                bytes.first_chunk().map_or(0, |word| u32::from_ne_bytes(*word).into())
            }
            bytes => bytes.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word)),
        }
    }
}

#[cfg(test)]
mod tests;
