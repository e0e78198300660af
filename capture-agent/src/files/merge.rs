//! Several files as one capture: rotated files, or what was captured at several places.
//!
//! Of each file one record is looked at ahead. It stays where it is, in the mapping or in the buffer of the file's reader,
//! until it is its turn, so nothing is copied and nothing is allocated for a packet.

use crate::framing::Framed;
use core::cmp::Reverse;
use rdmascope_dissector::record::Time;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// A file's next record, ordered by time, then by the file's place on the command line. Nothing reorders the records of one
/// file: where their times step back, the late one follows at once.
type Head = Reverse<(Time, usize)>;

/// The next record of each file, and which of them comes first.
#[derive(Clone, Debug)]
pub(crate) struct Merge {
    heads: BinaryHeap<Head>,
    ahead: Vec<Option<Framed>>,
    /// Files that were asked for their first record.
    asked: usize,
    /// The record of the first head was given, so its file is asked for its next one.
    given: bool,
    /// Records that were given.
    number: u64,
}

impl Merge {
    /// Of so many files, with nothing given yet.
    pub(crate) fn new(files: usize) -> Merge {
        Merge::behind(files, 0)
    }

    /// The same where `number` records were given before.
    pub(crate) fn behind(files: usize, number: u64) -> Merge {
        Merge {
            heads: BinaryHeap::with_capacity(files),
            ahead: vec![None; files],
            asked: 0,
            given: false,
            number,
        }
    }

    /// The file that has to say what it has next, with [`Merge::found`] or [`Merge::ended`], before it is known what comes
    /// first.
    #[inline]
    pub(crate) fn lacking(&self) -> Option<usize> {
        match self.heads.peek() {
            _ if self.asked < self.ahead.len() => Some(self.asked),
            Some(Reverse((_, index))) if self.given => Some(*index),
            _ => None,
        }
    }

    /// The file that is lacking has this record next.
    #[inline]
    pub(crate) fn found(&mut self, index: usize, framed: Framed) {
        self.ahead[index] = Some(framed);
        if self.asked < self.ahead.len() {
            self.asked += 1;
            self.heads.push(Reverse((framed.time, index)));
        } else if let Some(mut first) = self.heads.peek_mut() {
            self.given = false;
            *first = Reverse((framed.time, index));
        }
    }

    /// The file that is lacking has no further record.
    pub(crate) fn ended(&mut self, index: usize) {
        self.ahead[index] = None;
        if self.asked < self.ahead.len() {
            self.asked += 1;
        } else if let Some(first) = self.heads.peek_mut() {
            self.given = false;
            PeekMut::pop(first);
        }
    }

    /// The next record of a file, where it has one.
    pub(crate) fn ahead(&self, index: usize) -> Option<&Framed> {
        self.ahead[index].as_ref()
    }

    /// Gives the record that comes first: its number, its file, and where it stands.
    #[inline]
    pub(crate) fn first(&mut self) -> Option<(u64, usize, &Framed)> {
        let &Reverse((_, index)) = self.heads.peek()?;
        self.given = true;
        self.number += 1;
        let framed = self.ahead[index].as_ref().expect("a file with a head has a record ahead");
        Some((self.number, index, framed))
    }
}
