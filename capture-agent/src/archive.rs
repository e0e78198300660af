//! Random access to records by number.
//!
//! The capture is decompressed into a temporary file without a name, and that file is mapped. A
//! mapped file must not shrink, and a file of a ring may. One walk over all records stores a mark
//! every `stride` records. A record is found by walking from the mark before it.

use crate::capture::{self, Cut, Error, Stored};
use crate::files::{self, FileEnding, Merge, Spool};
use crate::framing::{Damage, Framed, Framer, Mark, Step};
use crate::note::Note;
use crate::pipe::Interrupt;
use rdmascope_dissector::record::{Record, Tap};
use std::path::PathBuf;

/// Initial number of records between two marks.
const STRIDE: u64 = 256;
/// Maximum size of the marks in bytes. Above it every second mark is dropped, repeatedly if needed.
const BUDGET: usize = 8 << 20;
/// Maximum number of notes that are indexed. Later notes are ignored.
const MOST_NOTES: usize = 1 << 20;

/// A capture in one or several files, whose records can be read in any order.
///
/// Records are numbered as by [`Files`](crate::Files). [`Archive::notes`] returns the other
/// contents of the capture.
pub struct Archive {
    files: Vec<Stored>,
    endings: Vec<FileEnding>,
    index: Index,
    notes: Vec<NotePlace>,
    records: u64,
}

/// The position of a note.
#[derive(Clone, Copy)]
struct NotePlace {
    /// Number of the record after the note, in the order of [`Files`](crate::Files).
    before: u64,
    file: u32,
    /// Offset of the block in that file.
    start: u64,
    length: u32,
}

/// The records of an [`Archive`] in order, from a given one on.
pub struct Walk<'a> {
    cursors: Vec<Cursor<'a>>,
    merge: Merge,
}

/// The positions of records.
struct Index {
    /// For every `stride` records, one mark for each file: the position of its next record.
    marks: Vec<Option<Mark>>,
    files: usize,
    stride: u64,
    budget: usize,
    /// Size of the marks in bytes.
    weight: usize,
}

/// The position of a walk in one file.
struct Cursor<'a> {
    bytes: &'a [u8],
    framer: Framer,
    end: Option<End>,
    /// Start and length of the blocks of notes that were found but not yet reported. `None`
    /// disables the search: only the first walk looks for notes.
    notes: Option<Vec<(u64, u32)>>,
}

/// The reason why a file has no further record.
#[derive(Clone, Copy)]
enum End {
    /// This number of bytes is needed and not available.
    Short(usize),
    Damaged(Damage),
}

impl Archive {
    /// Opens files as one capture and walks through them once. The path `-` is standard input, or
    /// `spool` if given. Errors are those of [`Files::open`](crate::Files::open) and
    /// [`Source::next`](crate::Source::next), and [`Error::Spool`].
    pub fn open(paths: &[PathBuf], spool: Option<&Spool>) -> Result<Archive, Error> {
        let captures = files::open_all(paths, spool, &Interrupt::default())?;
        let stored = captures.into_iter().map(|(name, capture)| Ok((name, capture.into_stored()?)));
        Archive::of(stored.collect::<Result<_, Error>>()?, STRIDE, BUDGET)
    }

    fn of(named: Vec<(String, Stored)>, stride: u64, budget: usize) -> Result<Archive, Error> {
        let (names, files): (Vec<String>, Vec<Stored>) = named.into_iter().unzip();
        let mut walk = Walk {
            cursors: files.iter().map(|file| Cursor::with_notes(file.bytes())).collect(),
            merge: Merge::new(files.len()),
        };
        let mut index = Index { marks: Vec::new(), files: files.len(), stride, budget, weight: 0 };
        let mut records = 0u64;
        let mut notes = Vec::new();
        let mut spans = vec![None; files.len()];
        loop {
            walk.find_with(|file, (start, length)| {
                if notes.len() < MOST_NOTES {
                    notes.push(NotePlace { before: records + 1, file: file as u32, start, length });
                }
            });
            if records.is_multiple_of(index.stride) {
                index.mark(&walk);
            }
            let Some(record) = walk.next() else { break };
            // As in `Files`, spans are kept only for several files.
            if files.len() > 1 {
                files::extend(&mut spans[record.tap.file as usize], record.time);
            }
            records += 1;
        }
        let ends: Vec<(Framer, Option<End>)> =
            walk.cursors.into_iter().map(|cursor| (cursor.framer, cursor.end)).collect();
        let mut files = files;
        let mut endings = Vec::with_capacity(files.len());
        for (((name, file), (framer, end)), span) in names.into_iter().zip(&mut files).zip(ends).zip(spans) {
            let (cut, trouble) = ending(file, &framer, end);
            match trouble {
                Some(error) if framer.records() == 0 => return Err(error),
                trouble => {
                    let interfaces = framer.interfaces().to_vec();
                    let is_compressed = file.is_compressed;
                    endings.push(FileEnding { name, is_compressed, cut, trouble, interfaces, span });
                }
            }
        }
        Ok(Archive { files, endings, index, notes, records })
    }

    /// Returns the number of records.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Returns how each file ended, in the order of the paths.
    pub fn endings(&self) -> &[FileEnding] {
        &self.endings
    }

    /// Returns the record with this number, counted from 1. It walks over a few hundred records at
    /// most, except in captures of many million records, whose marks are farther apart.
    pub fn record(&self, number: u64) -> Option<Record<'_>> {
        self.walk(number).next().filter(|record| record.number == number)
    }

    /// Returns the notes directly before the record with this number, in the order of
    /// [`Files`](crate::Files). Notes after the last record belong to the next number.
    pub fn notes(&self, number: u64) -> impl Iterator<Item = Note> {
        let first = self.notes.partition_point(|place| place.before < number);
        let these = self.notes[first..].iter().take_while(move |place| place.before == number);
        these.filter_map(|place| {
            let block = self.files[place.file as usize].bytes().get(place.start as usize..)?;
            Note::of_block(block.get(..place.length as usize)?)
        })
    }

    /// Returns the records from this number on. 0 and 1 return all records.
    pub fn walk(&self, number: u64) -> Walk<'_> {
        let before = number.saturating_sub(1).min(self.records);
        let (given, marks) = self.index.last_mark(before);
        let cursors = self.files.iter().zip(marks).map(|(file, mark)| match mark {
            Some(mark) => Cursor::new(file.bytes(), Framer::resume(mark)),
            None => Cursor::ended(),
        });
        let mut walk =
            Walk { cursors: cursors.collect(), merge: Merge::starting_after(self.files.len(), given) };
        for _ in given..before {
            walk.next();
        }
        walk
    }
}

impl Walk<'_> {
    /// Finds the next record of each file that lacks one.
    fn find(&mut self) {
        self.find_with(|_, _| {});
    }

    /// Does the same and calls `note` for each note on the way, with its file, start and length.
    fn find_with(&mut self, mut note: impl FnMut(usize, (u64, u32))) {
        while let Some(index) = self.merge.lacking() {
            let cursor = &mut self.cursors[index];
            let found = cursor.advance();
            cursor.notes.iter_mut().flat_map(|notes| notes.drain(..)).for_each(|place| note(index, place));
            match found {
                Some(framed) => self.merge.found(index, framed),
                None => self.merge.ended(index),
            }
        }
    }
}

impl<'a> Iterator for Walk<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        self.find();
        let (number, index, framed) = self.merge.first()?;
        let record = self.cursors[index].record(framed);
        Some(Record { number, tap: Tap { file: index as u32, ..record.tap }, ..record })
    }
}

impl Index {
    /// Stores the position of each file's next record.
    fn mark(&mut self, walk: &Walk<'_>) {
        for (index, cursor) in walk.cursors.iter().enumerate() {
            let before = self.marks.len().checked_sub(self.files).and_then(|at| self.marks[at].as_ref());
            let mark = walk.merge.ahead(index).map(|framed| cursor.framer.mark(framed, before));
            self.weight += weight(mark.as_ref(), before);
            self.marks.push(mark);
        }
        while self.weight > self.budget && self.marks.len() > self.files {
            let mut at = 0;
            let files = self.files;
            self.marks.retain(|_| {
                at += 1;
                ((at - 1) / files).is_multiple_of(2)
            });
            self.stride *= 2;
            let before = |at: usize| at.checked_sub(files).and_then(|at| self.marks[at].as_ref());
            let weights = self.marks.iter().enumerate().map(|(at, mark)| weight(mark.as_ref(), before(at)));
            self.weight = weights.sum();
        }
    }

    /// Returns the last mark with at most `records` records before it, and the number of these.
    fn last_mark(&self, records: u64) -> (u64, &[Option<Mark>]) {
        let last = self.marks.len() / self.files.max(1);
        let at = usize::try_from(records / self.stride).unwrap_or(usize::MAX).min(last.saturating_sub(1));
        (at as u64 * self.stride, &self.marks[at * self.files..][..self.files])
    }
}

/// Size of a mark in bytes. Contents shared with the mark `before` it do not count.
fn weight(mark: Option<&Mark>, before: Option<&Mark>) -> usize {
    size_of::<Option<Mark>>() + mark.map_or(0, |mark| mark.own_bytes(before))
}

/// Describes how a file ended, in the same way as [`Capture`](crate::Capture).
fn ending(file: &mut Stored, framer: &Framer, end: Option<End>) -> (Option<Cut>, Option<Error>) {
    match end {
        Some(End::Damaged(damage)) => (None, Some(Error::Damaged { name: file.name.clone(), damage })),
        _ if file.trouble.is_some() => (None, file.trouble.take()),
        Some(End::Short(needed)) => {
            let available = file.bytes().len() as u64 - framer.offset();
            match capture::cut(framer, needed, available, file.over) {
                Ok(cut) => (cut, None),
                Err(offset) => (None, Some(Error::Header { name: file.name.clone(), offset })),
            }
        }
        None => (None, None),
    }
}

impl<'a> Cursor<'a> {
    fn new(bytes: &'a [u8], framer: Framer) -> Cursor<'a> {
        Cursor { bytes, framer, end: None, notes: None }
    }

    /// Starts at the beginning and looks for notes.
    fn with_notes(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { notes: Some(Vec::new()), ..Cursor::new(bytes, Framer::new()) }
    }

    fn ended() -> Cursor<'a> {
        Cursor { bytes: &[], framer: Framer::new(), end: Some(End::Short(0)), notes: None }
    }

    fn advance(&mut self) -> Option<Framed> {
        while self.end.is_none() {
            match self.framer.next(&self.bytes[self.framer.offset() as usize..]) {
                Step::Record(framed) => return Some(framed),
                Step::Skip(length) => {
                    if let Some(notes) = &mut self.notes
                        && self.framer.take_note().is_some()
                    {
                        // The limit of the framer keeps block lengths within 32 bits.
                        notes.push((self.framer.offset() - length as u64, length as u32));
                    }
                }
                Step::Need(needed) => self.end = Some(End::Short(needed)),
                Step::Damaged(damage) => self.end = Some(End::Damaged(damage)),
            }
        }
        None
    }

    /// Returns the record that was found last.
    fn record(&self, framed: &Framed) -> Record<'a> {
        framed.record(&self.bytes[self.framer.offset() as usize - framed.consumed..])
    }
}

#[cfg(test)]
mod tests;
