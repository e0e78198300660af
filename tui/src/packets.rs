//! Packets as rows, and the filter of their list: the filters of the command line without their
//! dashes, words to find, or an expression as for `--where`.

use crate::filter::is_expression;
use crate::rows::{SEPARATOR, joined};
use rdmascope_analysis::filter::{OpcodeFilter, PacketFilter, PsnRange, parse_24_bits, parse_number};
use rdmascope_analysis::time::{Moment, ParseError, Zone};
use rdmascope_analysis::units::quoted;
use rdmascope_dissector::connection::ConnectionId;
use rdmascope_dissector::event::Packet;
use rdmascope_dissector::record::Time;
use rdmascope_present::column::{TextTable, Tint};
use rdmascope_present::columns::PACKET;
use rdmascope_present::did_you_mean::known;
use rdmascope_present::expression::Where;
use rdmascope_wire::Qpn;

/// The names of filters, and a description of their values.
pub const NAMES: [(&str, &str); 7] = [
    ("connection=", "the number of a connection"),
    ("qp=", "a destination queue pair: decimal, or hexadecimal after 0x"),
    ("opcode=", "part of the name of an opcode: read, acknowledge, send"),
    ("psn=", "a PSN, or a range: 16777210-5"),
    ("since=", "a time: 1.5 (seconds), 09:41, 09:41:06.5, a date"),
    ("until=", "as for since"),
    ("all", "also records without an RDMA packet"),
];

/// A packet of the list.
#[derive(Clone, Debug)]
pub struct PacketRow {
    /// The number of its record.
    pub number: u64,
    /// Its capture time.
    pub time: Time,
    /// Its connection.
    pub connection: Option<ConnectionId>,
    /// Its transaction, if it has a role in one that has ended.
    pub transaction: Option<u64>,
    /// The last colour among its cells.
    pub tint: Tint,
    cells: Box<str>,
}

impl PacketRow {
    /// Its cells, in the order of [`PacketTable::headings`].
    pub fn cells(&self) -> impl Iterator<Item = &str> {
        self.cells.split(SEPARATOR)
    }

    /// Whether it contains `text`, ignoring case. `text` is in lower case.
    pub fn contains(&self, text: &str) -> bool {
        contains(&self.cells.replace(SEPARATOR, " "), text)
    }
}

/// Whether `text` contains `wanted`, which is in lower case, ignoring case.
pub fn contains(text: &str, wanted: &str) -> bool {
    if !wanted.is_ascii() {
        return text.to_lowercase().contains(wanted);
    }
    let (text, wanted) = (text.as_bytes(), wanted.as_bytes());
    let Some(first) = wanted.first() else { return true };
    let is_at =
        |window: &[u8]| window[0].to_ascii_lowercase() == *first && window.eq_ignore_ascii_case(wanted);
    text.windows(wanted.len()).any(is_at)
}

/// Makes rows, and has their headings.
pub struct PacketTable(TextTable<Packet<'static>>);

impl Default for PacketTable {
    fn default() -> PacketTable {
        PacketTable(TextTable::new(&PACKET))
    }
}

impl PacketTable {
    /// The row of a packet of a capture that starts at `start`.
    pub fn row(&self, packet: &Packet<'_>, start: Time) -> PacketRow {
        let (cells, tint) = joined(&self.0, packet, start);
        PacketRow {
            number: packet.record.number,
            time: packet.record.time,
            connection: packet.connection,
            transaction: None,
            tint,
            cells,
        }
    }

    /// The headings of the cells.
    pub fn headings(&self) -> impl Iterator<Item = &'static str> {
        self.0.headings().map(|(heading, _)| heading)
    }
}

/// A filter of packets.
#[derive(Default)]
pub struct PacketTest {
    filter: PacketFilter,
    words: Vec<String>,
    condition: Option<Where<Packet<'static>>>,
}

impl PacketTest {
    /// Parses a filter line; times of day without an offset are in `zone`. The error names the word
    /// that is not valid, and the reason.
    pub fn parse(line: &str, zone: Zone) -> Result<PacketTest, String> {
        let mut test = PacketTest::default();
        if is_expression(line) {
            test.condition = Some(Where::parse(line, &PACKET).map_err(|mistake| mistake.in_a_line())?);
            test.filter.all = true;
            return Ok(test);
        }
        for word in line.split_whitespace() {
            match word.trim_start_matches("--").split_once('=') {
                Some((name, value)) => {
                    let names = NAMES.iter().filter_map(|(name, _)| name.strip_suffix('='));
                    known("filter", name, names).map_err(|why| format!("{word}: {why}"))?;
                    test.set(name, value, zone).map_err(|ParseError(why)| format!("{word}: {why}"))?;
                }
                None if word == "all" => test.filter.all = true,
                None => test.words.push(word.to_lowercase()),
            }
        }
        Ok(test)
    }

    fn set(&mut self, name: &str, value: &str, zone: Zone) -> Result<(), ParseError> {
        let wanted = &mut self.filter;
        match name {
            "connection" => wanted.connections.push(ConnectionId(parse_number(value)?)),
            "qp" => wanted.queue_pairs.push(Qpn(parse_24_bits(value)?)),
            "opcode" => wanted.opcodes.push(OpcodeFilter::parse(value)?),
            "psn" => wanted.psns.push(PsnRange::parse(value)?),
            "since" => wanted.span.since = Some(Moment::parse_in(value, zone)?),
            "until" => wanted.span.until = Some(Moment::parse_in(value, zone)?),
            _ => {}
        }
        Ok(())
    }

    /// The highest number of a connection that it names.
    pub(crate) fn highest_connection(&self) -> Option<u32> {
        self.filter.connections.iter().map(|id| id.0).max()
    }

    /// The options of the command line that select the same packets; `None` if it has words to
    /// find, which the command line does not have.
    pub fn options(&self, line: &str) -> Option<String> {
        if self.condition.is_some() {
            return Some(format!(" --all --where {}", quoted(line)));
        }
        let option = |word: &str| quoted(&format!("--{}", word.trim_start_matches("--")));
        let options = line.split_whitespace().map(|word| format!(" {}", option(word))).collect();
        self.words.is_empty().then_some(options)
    }

    /// Whether a packet matches but for the words to find, in a capture that starts at `start`.
    pub(crate) fn may_match(&self, packet: &Packet<'_>, start: Time) -> bool {
        self.filter.matches(packet, start)
            && self.condition.as_ref().is_none_or(|condition| condition.matches(packet, start))
    }

    /// Whether the row of a packet has the words to find.
    pub(crate) fn has_words(&self, row: &PacketRow) -> bool {
        self.words.iter().all(|word| row.contains(word))
    }
}

/// Consecutive packets, or those of them that pass a filter.
#[derive(Debug, Default)]
pub struct Page {
    /// The filter.
    pub line: String,
    /// The first record that was looked at.
    pub first: u64,
    /// The last one.
    pub last: u64,
    /// The packets, in the order of their numbers. Records that are no longer kept are missing.
    pub rows: Vec<PacketRow>,
}

/// The list of packets.
#[derive(Debug, Default)]
pub struct Packets {
    /// The filter line; empty for all packets.
    pub line: String,
    /// Without a filter: the packets around the cursor.
    pub page: Page,
    /// With a filter: the packets that pass it so far.
    pub matched: Vec<PacketRow>,
    /// With a filter: the last record that was looked at.
    pub scanned: u64,
    /// A request failed, and is not repeated before something changes.
    pub has_failed: bool,
    /// The record whose fields cannot be shown, and are not requested again.
    pub without_fields: Option<u64>,
    /// The running search.
    pub search: Option<Finding>,
}

/// A search in all packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The text, in lower case.
    pub text: String,
    /// Towards the end.
    pub on: bool,
    /// The record where it began.
    pub origin: u64,
    /// Whether it passed the end of the capture.
    pub is_around: bool,
}

impl Packets {
    /// The most packets that a filtered list has.
    pub const MOST: usize = 1 << 16;

    /// The number of entries, in a capture with this number of records.
    pub fn count(&self, records: u64) -> usize {
        if self.line.is_empty() { records as usize } else { self.matched.len() }
    }

    /// Whether the filtered list has no room for further packets.
    pub fn is_full(&self) -> bool {
        self.matched.len() >= Packets::MOST
    }

    /// The entry with this index, if it is loaded.
    pub fn row(&self, index: usize) -> Option<&PacketRow> {
        if !self.line.is_empty() {
            return self.matched.get(index);
        }
        let number = index as u64 + 1;
        let place = self.page.rows.binary_search_by_key(&number, |row| row.number);
        self.page.rows.get(place.ok()?)
    }

    /// The number of the record of an entry.
    pub fn number(&self, index: usize) -> Option<u64> {
        if self.line.is_empty() {
            Some(index as u64 + 1)
        } else {
            self.matched.get(index).map(|row| row.number)
        }
    }

    /// The index of a record, or of the next one that is listed.
    pub fn index(&self, number: u64) -> usize {
        match self.line.is_empty() {
            true => number.saturating_sub(1) as usize,
            false => self.matched.partition_point(|row| row.number < number),
        }
    }

    /// Takes a page.
    pub fn take(&mut self, page: Page) {
        self.has_failed = false;
        if page.line != self.line {
            return;
        }
        if self.line.is_empty() {
            self.page = page;
        } else if page.first == self.scanned + 1 || self.scanned == 0 {
            self.scanned = page.last;
            self.matched.extend(page.rows);
            self.matched.truncate(Packets::MOST);
        }
    }

    /// Sets another filter, or none.
    pub fn set(&mut self, line: String) {
        *self = Packets { line, ..Packets::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_is_ignored() {
        for (text, wanted, is_contained) in [
            ("NFSv3 WRITE", "write", true),
            ("WRIT", "write", false),
            ("wWRITE", "write", true),
            ("", "", true),
            ("ÄRGER", "ärger", true),
            ("x", "ä", false),
        ] {
            assert_eq!(contains(text, wanted), is_contained, "{text} {wanted}");
        }
    }

    #[test]
    fn lines_are_parsed() {
        let parse = |line: &str| PacketTest::parse(line, Zone::Utc).map(|test| test.options(line));
        assert_eq!(
            parse("connection=1 opcode=read").unwrap().as_deref(),
            Some(" --connection=1 --opcode=read")
        );
        assert_eq!(parse("frame > 5").unwrap().as_deref(), Some(" --all --where 'frame > 5'"));
        assert_eq!(parse("credits").unwrap(), None);
        for (line, part) in
            [("opcod=read", "did you mean opcode?"), ("psn=99999999", "24 bits"), ("fram > 5", "frame")]
        {
            let error = parse(line).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
