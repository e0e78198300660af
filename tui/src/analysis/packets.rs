//! Pages of packets, filters of packets, and searches in them.

use super::{Analysis, Answer, BEHIND};
use crate::packets::{PacketRow, PacketTable, PacketTest, Page};
use core::ops::RangeInclusive;
use foldhash::fast::FixedState;
use rdmascope_analysis::time::Zone;
use rdmascope_analysis::timeline::Happening;
use rdmascope_dissector::event::Event;
use std::collections::HashMap;

/// Records that one request looks at, so that other requests do not wait long.
const SLICE: u64 = 1 << 14;

/// Records before a page that are replayed, for packets of transactions that began there.
const EARLIER: u64 = 4096;

impl Analysis {
    /// The packets from this record on, without a filter at most `SLICE` of them. With a filter,
    /// those of them that pass it.
    pub(super) fn packets(&self, line: String, zone: Zone, first: u64) -> Result<Answer, String> {
        let test = PacketTest::parse(&line, zone)?;
        let is_all = line.is_empty();
        let last =
            first.saturating_add(if is_all { Analysis::PAGE } else { SLICE } - 1).min(self.timeline.taken());
        let mut rows = Vec::new();
        let start = self.start.unwrap_or_default();
        self.walk(first..=last, |packet, row| {
            if is_all || test.matches(packet, &row, start) {
                rows.push(row);
            }
        })?;
        Ok(Answer::Packets(Box::new(Page { line, first, last, rows })))
    }

    /// Packets of a page of the list without a filter.
    pub const PAGE: u64 = 512;

    /// The nearest packet after the record `from`, or before it, that contains `text`, among
    /// [`SLICE`] records. The answer has the last record that was looked at.
    pub(super) fn find_packet(&self, text: &str, from: u64, on: bool) -> Result<Answer, String> {
        let taken = self.timeline.taken();
        let range = match on {
            true => from + 1..=from.saturating_add(SLICE).min(taken),
            false => from.saturating_sub(SLICE).max(1)..=from.saturating_sub(1),
        };
        let mut found = None;
        self.walk(range.clone(), |_, row| {
            if (found.is_none() || !on) && row.contains(text) {
                found = Some(row.number);
            }
        })?;
        let last = if on { *range.end() } else { *range.start() };
        Ok(Answer::Found { number: found, last })
    }

    /// The number of the transaction that began as this one.
    fn numbered(&self, begun: u64) -> Option<u64> {
        let number = self.numbers.get(usize::try_from(begun.checked_sub(1)?).ok()?)?;
        (*number > 0).then_some(u64::from(*number))
    }

    /// Passes the packets of these records on, as far as they are kept, each with its row.
    fn walk(
        &self,
        range: RangeInclusive<u64>,
        mut see: impl FnMut(&rdmascope_dissector::event::Packet<'_>, PacketRow),
    ) -> Result<(), String> {
        let (first, last) = (*range.start(), *range.end());
        let oldest = self.first();
        let begin = first.saturating_sub(EARLIER).max(oldest);
        let end = last.saturating_add(BEHIND).min(self.timeline.taken());
        if first > last || begin > end {
            return Ok(());
        }
        // Some roles are known only after their packets, so roles are collected first.
        let mut roles: HashMap<u64, u64, FixedState> = HashMap::default();
        let mut hear = |happening: Happening<'_>| {
            if let Happening::Event(Event::Attributed(attributed)) = happening
                && let Some(role) = attributed.role
                && (first..=last).contains(&attributed.seen.frame)
            {
                roles.insert(attributed.seen.frame, role.of().begun);
            }
        };
        self.timeline
            .replay_attributed(&self.store, begin..=end, &mut hear)
            .map_err(|error| error.to_string())?;
        let (table, start) = (PacketTable::default(), self.start.unwrap_or_default());
        let mut hear = |happening: Happening<'_>| {
            if let Happening::Event(Event::Packet(packet)) = happening {
                let mut row = table.row(packet, start);
                row.transaction = roles.get(&row.number).and_then(|begun| self.numbered(*begun));
                see(packet, row);
            }
        };
        let range = first.max(oldest)..=last;
        self.timeline.replay(&self.store, range, true, &mut hear).map_err(|error| error.to_string())
    }
}
