//! Merges several files into one capture: rotated files, or files from several capture points.
//!
//! It looks one record ahead in each file. That record stays in the mapping or buffer of the file's
//! reader until its turn, so no packet is copied or allocated.

use crate::framing::Framed;
use core::cmp::Reverse;
use rdmascope_dissector::record::Time;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// The next record of a file, ordered by time, then by the position of the file in the arguments.
/// Records of one file are never reordered: a record whose time steps back follows at once.
type Head = Reverse<(Time, usize)>;

/// The next record of each file, and which of them is first.
#[derive(Clone, Debug)]
pub(crate) struct Merge {
    heads: BinaryHeap<Head>,
    ahead: Vec<Option<Framed>>,
    /// Number of files whose first record was requested.
    requested: usize,
    /// The first record was returned, so the next one of its file is needed.
    given: bool,
    /// Number of records returned.
    number: u64,
}

impl Merge {
    /// Merges `files` files, with no record returned yet.
    pub(crate) fn new(files: usize) -> Merge {
        Merge::starting_after(files, 0)
    }

    /// Merges `files` files, with `number` records returned before.
    pub(crate) fn starting_after(files: usize, number: u64) -> Merge {
        Merge {
            heads: BinaryHeap::with_capacity(files),
            ahead: vec![None; files],
            requested: 0,
            given: false,
            number,
        }
    }

    /// Returns the file whose next record is needed to determine the first one. The caller answers
    /// with [`Merge::found`] or [`Merge::ended`].
    #[inline]
    pub(crate) fn lacking(&self) -> Option<usize> {
        match self.heads.peek() {
            _ if self.requested < self.ahead.len() => Some(self.requested),
            Some(Reverse((_, index))) if self.given => Some(*index),
            _ => None,
        }
    }

    /// Sets the next record of the file that [`Merge::lacking`] returned.
    #[inline]
    pub(crate) fn found(&mut self, index: usize, framed: Framed) {
        self.ahead[index] = Some(framed);
        if self.requested < self.ahead.len() {
            self.requested += 1;
            self.heads.push(Reverse((framed.time, index)));
        } else if let Some(mut first) = self.heads.peek_mut() {
            self.given = false;
            *first = Reverse((framed.time, index));
        }
    }

    /// Marks the end of the file that [`Merge::lacking`] returned.
    pub(crate) fn ended(&mut self, index: usize) {
        self.ahead[index] = None;
        if self.requested < self.ahead.len() {
            self.requested += 1;
        } else if let Some(first) = self.heads.peek_mut() {
            self.given = false;
            PeekMut::pop(first);
        }
    }

    /// Returns the next record of a file, if any.
    pub(crate) fn ahead(&self, index: usize) -> Option<&Framed> {
        self.ahead[index].as_ref()
    }

    /// Returns the first record: its number, its file, and its position.
    #[inline]
    pub(crate) fn first(&mut self) -> Option<(u64, usize, &Framed)> {
        let &Reverse((_, index)) = self.heads.peek()?;
        self.given = true;
        self.number += 1;
        let framed = self.ahead[index].as_ref().expect("a file with a head has a record ahead");
        Some((self.number, index, framed))
    }
}
