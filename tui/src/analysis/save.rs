//! Writes packets to a file.

use super::{Analysis, Answer, PacketSet};
use rdmascope_analysis::timeline::{Happening, Records as _};
use rdmascope_capture_agent::PcapngWriter;
use rdmascope_capture_agent::new_file::{self, Unfinished};
use rdmascope_dissector::connection::ConnectionId;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::record::Record;
use std::collections::BTreeMap;
use std::io::{self, BufWriter};
use std::path::PathBuf;

impl Analysis {
    /// Writes packets as pcapng. An existing file is not overwritten.
    pub(super) fn save(
        &self,
        selection: PacketSet,
        path: PathBuf,
        comments: &[(u64, String)],
    ) -> Result<Answer, String> {
        let Analysis { timeline, store, .. } = self;
        let error = |error: io::Error| format!("{}: {error}", path.display());
        let file = new_file::make(&path).map_err(|failed| match failed.kind() {
            io::ErrorKind::AlreadyExists => {
                format!("{}: that file exists; choose another name", path.display())
            }
            _ => error(failed),
        })?;
        let unfinished = Unfinished::new(&path, &file);
        let out = BufWriter::with_capacity(1 << 20, file);
        let mut writer =
            PcapngWriter::new(out, concat!("rdmascope ", env!("CARGO_PKG_VERSION"))).map_err(error)?;
        let (mut packets, mut written) = (0, Ok(()));
        let mut write = |record: &Record<'_>| {
            if written.is_ok() {
                let texts = comments.iter().filter(|(number, _)| *number == record.number);
                let texts: Vec<&str> = texts.map(|(_, text)| text.as_str()).collect();
                written = writer.packet_with(record, &texts);
                packets += 1;
            }
        };
        if let PacketSet::Frames(numbers) = &selection {
            let first = numbers.first().copied().unwrap_or(0).max(self.oldest());
            let last = numbers.last().copied().unwrap_or(0);
            let records = store.walk(first).take_while(|record| record.number <= last);
            let wanted = |record: &Record<'_>| numbers.binary_search(&record.number).is_ok();
            records.filter(wanted).for_each(|record| write(&record));
        } else if selection == PacketSet::All {
            store.walk(self.oldest()).for_each(|record| write(&record));
        } else {
            let wanted = Wanted::new(selection);
            let (first, last) = wanted.span();
            let range = first.max(self.first())..=last.min(timeline.taken());
            let mut report = |happening: Happening<'_>| {
                if let Happening::Event(Event::Packet(packet)) = happening
                    && packet.connection.is_some_and(|id| wanted.has(id, packet.record.number))
                {
                    write(&packet.record);
                }
            };
            timeline.replay(store, range, true, &mut report).map_err(|error| error.to_string())?;
        }
        written.and_then(|()| writer.finish().map(drop)).map_err(error)?;
        unfinished.keep();
        Ok(Answer::Saved(path, packets))
    }
}

/// Ranges of records by connection, sorted and without overlaps.
struct Wanted(BTreeMap<ConnectionId, Vec<(u64, u64)>>);

impl Wanted {
    fn new(selection: PacketSet) -> Wanted {
        let mut all = match selection {
            PacketSet::All | PacketSet::Frames(_) => Vec::new(),
            PacketSet::Connection(id) => vec![(id, 1, u64::MAX)],
            PacketSet::Between(id, first, last) => vec![(id, first, last)],
            PacketSet::Rows(rows) => rows,
        };
        all.sort_unstable();
        let mut ranges: BTreeMap<ConnectionId, Vec<(u64, u64)>> = BTreeMap::new();
        for (id, first, last) in all {
            let of_connection = ranges.entry(id).or_default();
            match of_connection.last_mut() {
                Some(before) if first <= before.1 => before.1 = before.1.max(last),
                _ => of_connection.push((first, last)),
            }
        }
        Wanted(ranges)
    }

    /// The first and the last record.
    fn span(&self) -> (u64, u64) {
        let ranges = || self.0.values().flatten();
        let first = ranges().map(|(first, _)| *first).min().unwrap_or(1);
        (first, ranges().map(|(_, last)| *last).max().unwrap_or(0))
    }

    fn has(&self, id: ConnectionId, record: u64) -> bool {
        let Some(ranges) = self.0.get(&id) else { return false };
        let after = ranges.partition_point(|(first, _)| *first <= record);
        after.checked_sub(1).is_some_and(|index| record <= ranges[index].1)
    }
}
