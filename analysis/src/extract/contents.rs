//! The contents of one file, assembled from written and read pieces.

use rdmascope_dissector::interval::Intervals;
use rdmascope_dissector::layout::Piece;
use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom, Write};

/// The storage of a [`Log`]: a temporary file, or memory.
pub trait Storage: Read + Write + Seek {}

impl<F: Read + Write + Seek> Storage for F {}

/// The bytes of pieces in order of arrival. A log is needed because file names are often known only
/// later.
#[derive(Debug)]
pub struct Log<F> {
    file: F,
    length: u64,
}

impl<F: Storage> Log<F> {
    /// Creates an empty log in `file`, which must be empty.
    pub fn new(file: F) -> Log<F> {
        Log { file, length: 0 }
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<u64> {
        let at = self.length;
        self.file.seek(SeekFrom::Start(at))?;
        self.file.write_all(bytes)?;
        self.length += bytes.len() as u64;
        Ok(at)
    }

    /// Reads `length` bytes from offset `at`, in portions.
    fn read(
        &mut self,
        at: u64,
        length: u64,
        mut take: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(at))?;
        let mut buffer = vec![0; (64 << 10).min(usize::try_from(length).unwrap_or(usize::MAX))];
        let mut left = length;
        while left > 0 {
            let count = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            self.file.read_exact(&mut buffer[..count])?;
            take(&buffer[..count])?;
            left -= count as u64;
        }
        Ok(())
    }
}

/// The contents of a file.
#[derive(Debug, Default)]
pub struct Contents {
    /// Disjoint stretches by their first byte.
    stretches: BTreeMap<u64, Stretch>,
    /// The size that the file was last given, if any. Bytes beyond it are zeros until data moves
    /// there.
    given: Option<u64>,
    /// Ranges with data that was cut off.
    cut_off: Intervals,
}

/// Bytes of a file up to `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    end: u64,
    bytes: Source,
}

/// The source of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// In the log, from this offset on.
    Logged(u64),
    /// Moved, but missing from the capture.
    Missing,
    /// Zeros from a punched hole, or from a truncated file that became longer.
    Zeros,
}

impl Source {
    /// The source without the first `bytes` bytes.
    fn skip(self, bytes: u64) -> Source {
        match self {
            Source::Logged(at) => Source::Logged(at + bytes),
            other => other,
        }
    }
}

/// A run of available bytes.
#[derive(Clone, Copy, Debug)]
pub enum Run<'a> {
    /// Bytes from the capture.
    Bytes(&'a [u8]),
    /// This many zeros, from a punched hole or a file that became longer.
    Zeros(u64),
}

/// Ranges of a file that have no bytes from the capture.
#[derive(Debug, Default)]
pub struct Lacking {
    /// Ranges that no READ or WRITE moved.
    pub holes: Vec<(u64, u64)>,
    /// Ranges that moved, but are missing from the capture.
    pub missing: Vec<(u64, u64)>,
    /// Ranges that read as zeros because a hole was punched (DEALLOCATE) or a file of known size
    /// became longer, without data since.
    pub punched: Vec<(u64, u64)>,
    /// Ranges with data that the file lost when it was truncated.
    pub cut: Vec<(u64, u64)>,
}

impl Lacking {
    /// Bytes in holes.
    pub fn hole_bytes(&self) -> u64 {
        self.holes.iter().map(|(start, end)| end - start).sum()
    }

    /// Bytes that read as zeros.
    pub fn punched_bytes(&self) -> u64 {
        self.punched.iter().map(|(start, end)| end - start).sum()
    }

    /// Bytes that were cut off.
    pub fn cut_bytes(&self) -> u64 {
        self.cut.iter().map(|(start, end)| end - start).sum()
    }

    /// Bytes that are missing.
    pub fn missing_bytes(&self) -> u64 {
        self.missing.iter().map(|(start, end)| end - start).sum()
    }
}

impl Contents {
    /// The number of stretches, including those that were cut off.
    pub(super) fn stretches(&self) -> usize {
        self.stretches.len() + self.cut_off.memory() / size_of::<(u64, u64)>()
    }

    /// The size: the end of the last stretch, or the size that the file was given if that is
    /// larger.
    pub fn size(&self) -> u64 {
        let last = self.stretches.last_key_value().map_or(0, |(_, stretch)| stretch.end);
        last.max(self.given.unwrap_or(0))
    }

    /// Sets the size and cuts off everything beyond it. If an earlier size is known and the file
    /// becomes longer, the bytes between read as zeros.
    pub(super) fn resize(&mut self, size: u64) {
        self.lengthen(size);
        let first = self.stretches.range(..size).next_back().map_or(size, |(first, _)| *first);
        for (from, stretch) in self.stretches.range(first..).filter(|(_, stretch)| stretch.end > size) {
            // Zeros are not data that moved.
            if matches!(stretch.bytes, Source::Zeros) {
                continue;
            }
            self.cut_off.insert((*from).max(size), stretch.end);
        }
        self.cut(size, u64::MAX);
        self.given = Some(size);
    }

    /// Puts zeros from the end of the file up to `to`, if the size is known.
    fn lengthen(&mut self, to: u64) {
        let end = self.size();
        if self.given.is_some() && end < to {
            self.put(end, Stretch { end: to, bytes: Source::Zeros });
        }
    }

    /// The size that the file was last given.
    pub(super) fn given(&self) -> Option<u64> {
        self.given
    }

    /// Writes the first `length` bytes of `piece` at `offset`, in place of earlier bytes.
    pub(super) fn write(
        &mut self,
        offset: u64,
        length: u64,
        piece: &Piece,
        log: &mut Log<impl Storage>,
    ) -> io::Result<()> {
        if length > 0 {
            self.lengthen(offset);
        }
        self.cut(offset, offset + length);
        for (start, end) in piece.captured.within(0, length) {
            let logged = log.append(&piece.bytes[start as usize..end as usize])?;
            self.put(offset + start, Stretch { end: offset + end, bytes: Source::Logged(logged) });
        }
        for (start, end) in piece.captured.holes(length) {
            self.put(offset + start, Stretch { end: offset + end, bytes: Source::Missing });
        }
        Ok(())
    }

    /// Punches a hole at `offset`, which reads as zeros. It changes nothing beyond the known end of
    /// the file.
    pub(super) fn punch(&mut self, offset: u64, length: u64) {
        let end = offset.saturating_add(length).min(self.size());
        if offset < end {
            self.cut(offset, end);
            self.put(offset, Stretch { end, bytes: Source::Zeros });
        }
    }

    /// Fills gaps with the first `length` bytes of `piece`, which was read at `offset`. Bytes that
    /// differ from known ones replace them if they are `later`. Returns whether all known bytes are
    /// the same.
    pub(super) fn read(
        &mut self,
        offset: u64,
        length: u64,
        piece: &Piece,
        later: bool,
        log: &mut Log<impl Storage>,
    ) -> io::Result<bool> {
        if length > 0 && offset + length > self.size() {
            // The file was made longer by others, so the contents beyond its end are unknown.
            self.given = None;
        }
        let mut same = true;
        for (start, end) in piece.captured.within(0, length) {
            let mut rest = &piece.bytes[start as usize..end as usize];
            for (from, to, portion) in self.portions(offset + start, offset + end) {
                let (bytes, remaining) = rest.split_at((to - from) as usize);
                rest = remaining;
                let is_known = match portion {
                    Portion::Data(Source::Logged(at)) => {
                        let (mut read, mut agrees) = (bytes, true);
                        log.read(at, to - from, |known| {
                            let (front, remaining) = read.split_at(known.len());
                            agrees &= front == known;
                            read = remaining;
                            Ok(())
                        })?;
                        same &= agrees;
                        agrees || !later
                    }
                    Portion::Data(Source::Zeros) => {
                        let agrees = bytes.iter().all(|byte| *byte == 0);
                        same &= agrees;
                        agrees || !later
                    }
                    Portion::Data(Source::Missing) | Portion::Hole => false,
                };
                if !is_known {
                    let logged = log.append(bytes)?;
                    self.cut(from, to);
                    self.put(from, Stretch { end: to, bytes: Source::Logged(logged) });
                }
            }
        }
        for (start, end) in piece.captured.holes(length) {
            for (from, to, portion) in self.portions(offset + start, offset + end) {
                if portion == Portion::Hole {
                    self.put(from, Stretch { end: to, bytes: Source::Missing });
                }
            }
        }
        Ok(same)
    }

    /// The ranges without bytes from the capture.
    pub fn lacking(&self) -> Lacking {
        let mut lacking = Lacking::default();
        for (from, to, portion) in self.portions(0, self.size()) {
            let list = match portion {
                Portion::Hole => &mut lacking.holes,
                Portion::Data(Source::Missing) => &mut lacking.missing,
                Portion::Data(Source::Zeros) => &mut lacking.punched,
                Portion::Data(Source::Logged(_)) => continue,
            };
            match list.last_mut() {
                Some(last) if last.1 == from => last.1 = to,
                _ => list.push((from, to)),
            }
        }
        let size = self.size();
        for (from, to) in self.cut_off.ranges() {
            let inside = self.portions(from, to.min(size).max(from)).into_iter();
            let inside = inside.filter(|(.., portion)| is_lost(*portion));
            let beyond = (from.max(size) < to).then_some((from.max(size), to));
            for (from, to) in inside.map(|(from, to, _)| (from, to)).chain(beyond) {
                match lacking.cut.last_mut() {
                    Some(last) if last.1 == from => last.1 = to,
                    _ => lacking.cut.push((from, to)),
                }
            }
        }
        lacking
    }

    /// Passes the available bytes to `take` in order, each run with its offset in the file.
    pub fn each(
        &self,
        log: &mut Log<impl Storage>,
        mut take: impl FnMut(u64, Run<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        for (start, stretch) in &self.stretches {
            let mut at = *start;
            match stretch.bytes {
                Source::Missing => {}
                Source::Zeros => take(at, Run::Zeros(stretch.end - at))?,
                Source::Logged(logged) => log.read(logged, stretch.end - start, |bytes| {
                    take(at, Run::Bytes(bytes))?;
                    at += bytes.len() as u64;
                    Ok(())
                })?,
            }
        }
        Ok(())
    }

    /// The portions of `start..end` in order and without gaps: start, end, contents.
    fn portions(&self, start: u64, end: u64) -> Vec<(u64, u64, Portion)> {
        let mut portions = Vec::new();
        let mut at = start;
        let first = self.stretches.range(..=start).next_back().map_or(start, |(first, _)| *first);
        for (from, stretch) in self.stretches.range(first..end) {
            let (inside, to) = ((*from).max(start), stretch.end.min(end));
            if inside >= to {
                continue;
            }
            if at < inside {
                portions.push((at, inside, Portion::Hole));
            }
            portions.push((inside, to, Portion::Data(stretch.bytes.skip(inside - from))));
            at = to;
        }
        if at < end {
            portions.push((at, end, Portion::Hole));
        }
        portions
    }

    /// Removes `start..end`.
    fn cut(&mut self, start: u64, end: u64) {
        let first = self.stretches.range(..=start).next_back().map_or(start, |(first, _)| *first);
        let overlapping: Vec<(u64, Stretch)> =
            self.stretches.range(first..end).map(|(from, stretch)| (*from, *stretch)).collect();
        for (from, stretch) in overlapping {
            if stretch.end <= start {
                continue;
            }
            self.stretches.remove(&from);
            if from < start {
                self.stretches.insert(from, Stretch { end: start, ..stretch });
            }
            if stretch.end > end {
                self.stretches.insert(end, Stretch { bytes: stretch.bytes.skip(end - from), ..stretch });
            }
        }
    }

    /// Inserts a stretch where there is none. If it continues the previous stretch in the file and
    /// in the log, the two are merged.
    fn put(&mut self, start: u64, stretch: Stretch) {
        if let Some((from, before)) = self.stretches.range_mut(..start).next_back()
            && before.end == start
            && before.bytes.skip(start - from) == stretch.bytes
        {
            before.end = stretch.end;
            return;
        }
        self.stretches.insert(start, stretch);
    }
}

/// Whether a portion that was cut off has no new data.
fn is_lost(portion: Portion) -> bool {
    matches!(portion, Portion::Hole | Portion::Data(Source::Zeros))
}

/// The contents of a portion of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Portion {
    /// Known bytes, or bytes known to be missing.
    Data(Source),
    /// No data.
    Hole,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rdmascope_dissector::interval::Intervals;
    use std::io::Cursor;

    /// The state of one byte of a file: hole, missing, zero without data, or a value that moved. A
    /// zero that was `read` later may count as moved, depending on its neighbours.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Byte {
        Hole,
        Missing,
        Zero { read: bool },
        Is(u8),
    }

    fn piece(bytes: &[u8], captured: &[bool]) -> Piece {
        let mut intervals = Intervals::default();
        for (at, is_captured) in captured.iter().enumerate() {
            if *is_captured {
                intervals.insert(at as u64, at as u64 + 1);
            }
        }
        let end = intervals.end() as usize;
        Piece { length: bytes.len() as u64, bytes: bytes[..end].to_vec(), captured: intervals }
    }

    proptest! {
        /// Compares with an array in which every byte is handled separately.
        #[test]
        fn contents_match_a_byte_array(
            operations in proptest::collection::vec(
                (0u8..5, 0usize..40, proptest::collection::vec((0u8..3, any::<bool>()), 0..24)), 0..24),
        ) {
            let mut log = Log::new(Cursor::new(Vec::new()));
            let mut contents = Contents::default();
            let mut plain = [Byte::Hole; 64];
            // The size that the file was given, the bytes that were cut off, and those that may
            // count as cut off.
            let (mut given, mut cut, mut maybe_cut) = (None, [false; 64], [false; 64]);
            let size = |plain: &[Byte], given: Option<usize>| {
                let last = plain.iter().rposition(|byte| *byte != Byte::Hole).map_or(0, |last| last + 1);
                last.max(given.unwrap_or(0))
            };
            for (operation, offset, data) in operations {
                let (writes, later) = (operation == 0, operation == 1);
                let (bytes, captured): (Vec<u8>, Vec<bool>) = data.into_iter().unzip();
                let (piece, length) = (piece(&bytes, &captured), bytes.len() as u64);
                if operation == 3 {
                    contents.punch(offset as u64, length);
                    let size = size(&plain, given);
                    plain[..size].iter_mut().skip(offset).take(bytes.len()).for_each(|byte| *byte = Byte::Zero { read: false });
                    continue;
                }
                let end = size(&plain, given);
                if given.is_some() && end < offset && (operation == 4 || writes && length > 0) {
                    plain[end..offset].fill(Byte::Zero { read: false });
                }
                if (1..=2).contains(&operation) && length > 0 && offset + bytes.len() > end {
                    given = None;
                }
                if operation == 4 {
                    contents.resize(offset as u64);
                    for (at, byte) in plain.iter_mut().enumerate().skip(offset) {
                        cut[at] |= matches!(byte, Byte::Is(_) | Byte::Missing);
                        maybe_cut[at] |= matches!(byte, Byte::Is(_) | Byte::Missing | Byte::Zero { read: true });
                        *byte = Byte::Hole;
                    }
                    given = Some(offset);
                    continue;
                }
                let mut expected = true;
                for (at, byte) in plain[offset..offset + bytes.len()].iter_mut().enumerate() {
                    let new = if captured[at] { Byte::Is(bytes[at]) } else { Byte::Missing };
                    match (writes, *byte, new) {
                        (false, Byte::Is(known), Byte::Is(read)) => {
                            expected &= known == read;
                            if later {
                                *byte = new;
                            }
                        }
                        (false, Byte::Zero { .. }, Byte::Is(read)) => {
                            expected &= read == 0;
                            if later {
                                *byte = if read == 0 { Byte::Zero { read: true } } else { new };
                            }
                        }
                        (false, Byte::Is(_) | Byte::Missing | Byte::Zero { .. }, Byte::Missing) => {}
                        _ => *byte = new,
                    }
                }
                if writes {
                    contents.write(offset as u64, length, &piece, &mut log).unwrap();
                } else {
                    let same = contents.read(offset as u64, length, &piece, later, &mut log).unwrap();
                    prop_assert_eq!(same, expected);
                }
            }
            let mut actual = [Byte::Hole; 64];
            contents.each(&mut log, |at, run| {
                let zeros = [0; 64];
                let bytes = match run {
                    Run::Bytes(bytes) => bytes,
                    Run::Zeros(length) => &zeros[..length as usize],
                };
                bytes.iter().enumerate().for_each(|(index, byte)| actual[at as usize + index] = Byte::Is(*byte));
                Ok(())
            }).unwrap();
            let lacking = contents.lacking();
            for (start, end) in &lacking.missing {
                actual[*start as usize..*end as usize].fill(Byte::Missing);
            }
            let shown = plain.map(|byte| if matches!(byte, Byte::Zero { .. }) { Byte::Is(0) } else { byte });
            prop_assert_eq!(actual, shown);
            let size = size(&plain, given);
            prop_assert!(lacking.cut.iter().all(|(start, end)| start < end && (*start..*end).all(|at| maybe_cut[at as usize])));
            let lost = cut.iter().zip(&plain).filter(|(cut, byte)| **cut && **byte == Byte::Hole);
            prop_assert!(lacking.cut_bytes() >= lost.count() as u64);
            prop_assert_eq!(contents.size(), size as u64);
            let holes: u64 = lacking.holes.iter().map(|(start, end)| end - start).sum();
            prop_assert_eq!(holes, plain[..size].iter().filter(|byte| **byte == Byte::Hole).count() as u64);
        }
    }
}
