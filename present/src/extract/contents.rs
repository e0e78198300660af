//! The contents of one file, put together from pieces that were written and read.

use rdmascope_dissector::layout::Piece;
use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom, Write};

/// What a [`Log`] is kept in: a temporary file, or memory.
pub trait Storage: Read + Write + Seek {}

impl<F: Read + Write + Seek> Storage for F {}

/// Bytes of pieces in the order in which they came: the names of files are often known only later.
#[derive(Debug)]
pub struct Log<F> {
    file: F,
    length: u64,
}

impl<F: Storage> Log<F> {
    /// An empty log in `file`, which is empty.
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

    /// Reads `length` bytes from `at` on, in portions.
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
    /// By their first bytes; none overlaps another.
    stretches: BTreeMap<u64, Stretch>,
}

/// Bytes of a file up to `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    end: u64,
    /// Where in the log they are; `None`: they moved, and the capture lacks them.
    logged: Option<u64>,
}

/// Bytes that are not there.
#[derive(Debug, Default)]
pub struct Lacking {
    /// What neither READ nor WRITE moved.
    pub holes: Vec<(u64, u64)>,
    /// What moved, and the capture does not hold.
    pub missing: Vec<(u64, u64)>,
}

impl Lacking {
    /// How many bytes are in holes.
    pub fn hole_bytes(&self) -> u64 {
        self.holes.iter().map(|(start, end)| end - start).sum()
    }

    /// How many bytes are missing.
    pub fn missing_bytes(&self) -> u64 {
        self.missing.iter().map(|(start, end)| end - start).sum()
    }
}

impl Contents {
    /// How many stretches there are.
    pub(super) fn stretches(&self) -> usize {
        self.stretches.len()
    }

    /// The byte behind the last one.
    pub fn size(&self) -> u64 {
        self.stretches.last_key_value().map_or(0, |(_, stretch)| stretch.end)
    }

    /// Puts in the first `length` bytes of what was written at `offset`, in place of what was there.
    pub(super) fn write(
        &mut self,
        offset: u64,
        length: u64,
        piece: &Piece,
        log: &mut Log<impl Storage>,
    ) -> io::Result<()> {
        self.cut(offset, offset + length);
        for (start, end) in piece.captured.within(0, length) {
            let logged = log.append(&piece.bytes[start as usize..end as usize])?;
            self.put(offset + start, Stretch { end: offset + end, logged: Some(logged) });
        }
        for (start, end) in piece.captured.holes(length) {
            self.put(offset + start, Stretch { end: offset + end, logged: None });
        }
        Ok(())
    }

    /// Fills what is not there with the first `length` bytes of what was read at `offset`. Returns whether what is there is
    /// the same.
    pub(super) fn read(
        &mut self,
        offset: u64,
        length: u64,
        piece: &Piece,
        log: &mut Log<impl Storage>,
    ) -> io::Result<bool> {
        let mut same = true;
        for (start, end) in piece.captured.within(0, length) {
            let mut rest = &piece.bytes[start as usize..end as usize];
            for (from, to, there) in self.portions(offset + start, offset + end) {
                let (bytes, behind) = rest.split_at((to - from) as usize);
                rest = behind;
                if let There::Logged(at) = there {
                    let mut read = bytes;
                    log.read(at, to - from, |known| {
                        let (front, behind) = read.split_at(known.len());
                        same &= front == known;
                        read = behind;
                        Ok(())
                    })?;
                } else {
                    let logged = log.append(bytes)?;
                    self.cut(from, to);
                    self.put(from, Stretch { end: to, logged: Some(logged) });
                }
            }
        }
        for (start, end) in piece.captured.holes(length) {
            for (from, to, there) in self.portions(offset + start, offset + end) {
                if there == There::Hole {
                    self.put(from, Stretch { end: to, logged: None });
                }
            }
        }
        Ok(same)
    }

    /// What is not there.
    pub fn lacking(&self) -> Lacking {
        let mut lacking = Lacking::default();
        for (from, to, there) in self.portions(0, self.size()) {
            let list = match there {
                There::Hole => &mut lacking.holes,
                There::Missing => &mut lacking.missing,
                There::Logged(_) => continue,
            };
            match list.last_mut() {
                Some(last) if last.1 == from => last.1 = to,
                _ => list.push((from, to)),
            }
        }
        lacking
    }

    /// Hands on the bytes that are there, in order, each run with its place in the file.
    pub fn each(
        &self,
        log: &mut Log<impl Storage>,
        mut take: impl FnMut(u64, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        for (start, stretch) in &self.stretches {
            let Some(logged) = stretch.logged else { continue };
            let mut at = *start;
            log.read(logged, stretch.end - start, |bytes| {
                take(at, bytes)?;
                at += bytes.len() as u64;
                Ok(())
            })?;
        }
        Ok(())
    }

    /// What there is of `start..end`, portion by portion and without gaps: from, to, and what.
    fn portions(&self, start: u64, end: u64) -> Vec<(u64, u64, There)> {
        let mut portions = Vec::new();
        let mut at = start;
        let first = self.stretches.range(..=start).next_back().map_or(start, |(first, _)| *first);
        for (from, stretch) in self.stretches.range(first..end) {
            let (inside, to) = ((*from).max(start), stretch.end.min(end));
            if inside >= to {
                continue;
            }
            if at < inside {
                portions.push((at, inside, There::Hole));
            }
            let there = stretch.logged.map(|logged| There::Logged(logged + (inside - from)));
            portions.push((inside, to, there.unwrap_or(There::Missing)));
            at = to;
        }
        if at < end {
            portions.push((at, end, There::Hole));
        }
        portions
    }

    /// Takes out `start..end`.
    fn cut(&mut self, start: u64, end: u64) {
        let first = self.stretches.range(..=start).next_back().map_or(start, |(first, _)| *first);
        let met: Vec<(u64, Stretch)> =
            self.stretches.range(first..end).map(|(from, stretch)| (*from, *stretch)).collect();
        for (from, stretch) in met {
            if stretch.end <= start {
                continue;
            }
            self.stretches.remove(&from);
            if from < start {
                self.stretches.insert(from, Stretch { end: start, ..stretch });
            }
            if stretch.end > end {
                let logged = stretch.logged.map(|logged| logged + (end - from));
                self.stretches.insert(end, Stretch { logged, ..stretch });
            }
        }
    }

    /// Puts in a stretch where there is none. One that goes on where the one before it ends, in the log too, becomes part of that.
    fn put(&mut self, start: u64, stretch: Stretch) {
        if let Some((from, before)) = self.stretches.range_mut(..start).next_back()
            && before.end == start
        {
            let goes_on = match (before.logged, stretch.logged) {
                (Some(before), Some(logged)) => before + (start - from) == logged,
                (None, None) => true,
                _ => false,
            };
            if goes_on {
                before.end = stretch.end;
                return;
            }
        }
        self.stretches.insert(start, stretch);
    }
}

/// What there is of a portion of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum There {
    /// Bytes, in the log.
    Logged(u64),
    /// Bytes that moved, and that the capture lacks.
    Missing,
    /// Nothing.
    Hole,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rdmascope_dissector::interval::Intervals;
    use std::io::Cursor;

    /// What one byte of a file is: hole, missing, or a value.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Byte {
        Hole,
        Missing,
        Is(u8),
    }

    fn piece(bytes: &[u8], captured: &[bool]) -> Piece {
        let mut intervals = Intervals::default();
        for (at, there) in captured.iter().enumerate() {
            if *there {
                intervals.insert(at as u64, at as u64 + 1);
            }
        }
        let end = intervals.end() as usize;
        Piece { length: bytes.len() as u64, bytes: bytes[..end].to_vec(), captured: intervals }
    }

    proptest! {
        /// Against an array in which every byte is looked at by itself.
        #[test]
        fn it_agrees_with_a_plain_file(
            operations in proptest::collection::vec(
                (any::<bool>(), 0usize..40, proptest::collection::vec((0u8..3, any::<bool>()), 0..24)), 0..24),
        ) {
            let mut log = Log::new(Cursor::new(Vec::new()));
            let mut contents = Contents::default();
            let mut plain = [Byte::Hole; 64];
            for (writes, offset, data) in operations {
                let (bytes, captured): (Vec<u8>, Vec<bool>) = data.into_iter().unzip();
                let (piece, length) = (piece(&bytes, &captured), bytes.len() as u64);
                let mut expected = true;
                for (at, byte) in plain[offset..offset + bytes.len()].iter_mut().enumerate() {
                    let new = if captured[at] { Byte::Is(bytes[at]) } else { Byte::Missing };
                    match (writes, *byte, new) {
                        (false, Byte::Is(known), Byte::Is(read)) => expected &= known == read,
                        (false, Byte::Is(_) | Byte::Missing, Byte::Missing) => {}
                        _ => *byte = new,
                    }
                }
                if writes {
                    contents.write(offset as u64, length, &piece, &mut log).unwrap();
                } else {
                    let same = contents.read(offset as u64, length, &piece, &mut log).unwrap();
                    prop_assert_eq!(same, expected);
                }
            }
            let mut actual = [Byte::Hole; 64];
            contents.each(&mut log, |at, bytes| {
                bytes.iter().enumerate().for_each(|(index, byte)| actual[at as usize + index] = Byte::Is(*byte));
                Ok(())
            }).unwrap();
            let lacking = contents.lacking();
            for (start, end) in lacking.missing {
                actual[start as usize..end as usize].fill(Byte::Missing);
            }
            prop_assert_eq!(actual, plain);
            let size = plain.iter().rposition(|byte| *byte != Byte::Hole).map_or(0, |last| last + 1);
            prop_assert_eq!(contents.size(), size as u64);
            let holes: u64 = lacking.holes.iter().map(|(start, end)| end - start).sum();
            prop_assert_eq!(holes, plain[..size].iter().filter(|byte| **byte == Byte::Hole).count() as u64);
        }
    }
}
