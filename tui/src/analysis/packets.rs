//! Pages of packets, filters of packets, and searches in them.

use super::{Analysis, Answer, TRAILING};
use crate::packets::{PacketRow, PacketTable, PacketTest, Page};
use core::ops::RangeInclusive;
use rdmascope_analysis::time::Zone;
use rdmascope_analysis::timeline::Happening;
use rdmascope_dissector::event::{Event, Packet};

/// The least number of records that one request looks at, so that other requests do not wait long.
const SLICE: u64 = 1 << 14;

/// Records before packets that are replayed for their roles, in transactions that began there.
const EARLIER: u64 = 4096;

impl Analysis {
    /// Packets of a page of the list without a filter.
    pub const PAGE: u64 = 512;

    /// The packets from this record on: a page of them, or, with a filter, those of a slice that
    /// pass it.
    pub(super) fn packets(&self, line: String, zone: Zone, first: u64) -> Result<Answer, String> {
        let test = PacketTest::parse(&line, zone)?;
        let is_all = line.is_empty();
        let last = if is_all { first.saturating_add(Analysis::PAGE - 1) } else { self.end_of_slice(first) };
        let last = last.min(self.timeline.taken());
        let (table, start) = (PacketTable::default(), self.start.unwrap_or_default());
        let mut rows = Vec::new();
        self.walk(first..=last, |packet| {
            if is_all || test.may_match(packet, start) {
                let row = table.row(packet, start);
                if is_all || test.has_words(&row) {
                    rows.push(row);
                }
            }
        })?;
        self.attribute(&mut rows)?;
        Ok(Answer::Packets(Box::new(Page { line, first, last, rows })))
    }

    /// The nearest packet after the record `from`, or before it, that contains `text`, in a slice.
    /// The answer has the last record that was looked at.
    pub(super) fn find_packet(&self, text: &str, from: u64, on: bool) -> Result<Answer, String> {
        let range = match on {
            true => from + 1..=self.end_of_slice(from + 1).min(self.timeline.taken()),
            false => self.start_of_slice(from.saturating_sub(1).max(1))..=from.saturating_sub(1),
        };
        let (table, start) = (PacketTable::default(), self.start.unwrap_or_default());
        let mut found = None;
        self.walk(range.clone(), |packet| {
            if (found.is_none() || !on) && table.row(packet, start).contains(text) {
                found = Some(packet.record.number);
            }
        })?;
        let last = if on { *range.end() } else { *range.start() };
        Ok(Answer::Found { number: found, last })
    }

    /// The last record of the slice of this record. A slice begins after a checkpoint.
    fn end_of_slice(&self, record: u64) -> u64 {
        self.start_of_slice(record).saturating_add(self.slice() - 1)
    }

    /// The first record of the slice of this record.
    fn start_of_slice(&self, record: u64) -> u64 {
        (record.max(1) - 1) / self.slice() * self.slice() + 1
    }

    fn slice(&self) -> u64 {
        SLICE.next_multiple_of(self.timeline.spacing().max(1))
    }

    /// Passes the packets of these records on, as far as they are kept.
    fn walk(&self, range: RangeInclusive<u64>, mut see: impl FnMut(&Packet<'_>)) -> Result<(), String> {
        let range = (*range.start()).max(self.first())..=*range.end();
        if range.is_empty() {
            return Ok(());
        }
        let mut visit = |happening: Happening<'_>| {
            if let Happening::Event(Event::Packet(packet)) = happening {
                see(packet);
            }
        };
        self.timeline.replay(&self.store, range, true, &mut visit).map_err(|error| error.to_string())
    }

    /// Finds the transactions of packets.
    fn attribute(&self, rows: &mut [PacketRow]) -> Result<(), String> {
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Ok(()) };
        let begin = first.number.saturating_sub(EARLIER).max(self.first());
        // Some roles are known only after their packets.
        let end = last.number.saturating_add(TRAILING).min(self.timeline.taken());
        let mut visit = |happening: Happening<'_>| {
            if let Happening::Event(Event::Attributed(attributed)) = happening
                && let Some(role) = attributed.role
                && let Ok(place) = rows.binary_search_by_key(&attributed.seen.frame, |row| row.number)
            {
                rows[place].transaction = self.numbered(role.of().begun);
            }
        };
        self.timeline
            .replay_attributed(&self.store, begin..=end, &mut visit)
            .map_err(|error| error.to_string())
    }

    /// The number of the transaction that began as this one.
    fn numbered(&self, begun: u64) -> Option<u64> {
        let number = self.numbers.get(usize::try_from(begun.checked_sub(1)?).ok()?)?;
        (*number > 0).then_some(u64::from(*number))
    }
}
