//! Reads a regular file in blocks of records, so that one thread can process a block while another
//! finds the next.

use crate::capture::{Capture, Error, Item};
use crate::note::Note;
use rdmascope_dissector::frame;
use rdmascope_dissector::record::Record;
use rdmascope_dissector::transport::Dissected;
use self_cell::self_cell;

/// Records of a block. Either all of them are dissected or none.
#[derive(Default)]
pub(crate) struct Records<'a> {
    records: Vec<Record<'a>>,
    dissected: Vec<Dissected<'a>>,
    /// Notes, each with the number of records in the block before it.
    notes: Vec<(usize, Note)>,
}

self_cell! {
    /// Bytes of a capture and the records in them.
    pub(crate) struct Block {
        owner: Vec<u8>,
        #[covariant]
        dependent: Records,
    }
}

impl Block {
    /// Returns the records in order, dissected if that was requested.
    pub(crate) fn records(&self) -> impl Iterator<Item = (&Record<'_>, Option<&Dissected<'_>>)> {
        let Records { records, dissected, .. } = self.borrow_dependent();
        records.iter().enumerate().map(|(index, record)| (record, dissected.get(index)))
    }

    /// Returns the notes, each with the number of records in the block before it.
    pub(crate) fn notes(&self) -> &[(usize, Note)] {
        &self.borrow_dependent().notes
    }

    /// Recycles the memory of the block.
    pub(crate) fn into_spare(mut self) -> Spare {
        let records = self.with_dependent_mut(|_, records| core::mem::take(records).emptied());
        Spare { buffer: self.into_owner(), records }
    }
}

/// The memory of a finished block.
#[derive(Default)]
pub(crate) struct Spare {
    buffer: Vec<u8>,
    records: Records<'static>,
}

impl Records<'_> {
    /// Clears the lists so that they can hold records with another lifetime.
    fn emptied<'a>(self) -> Records<'a> {
        /// `collect` reuses the allocation, because the element types differ only in their
        /// lifetime.
        fn emptied<Before, After>(mut list: Vec<Before>) -> Vec<After> {
            list.clear();
            list.into_iter().map(|_| unreachable!("it was cleared")).collect()
        }
        Records { records: emptied(self.records), dissected: emptied(self.dissected), notes: Vec::new() }
    }
}

/// The rest of a capture, in blocks.
pub(crate) struct Blocks<'a> {
    capture: &'a mut Capture,
    /// Number of bytes needed to continue.
    needed: usize,
}

impl<'a> Blocks<'a> {
    /// Reads a capture that never has to wait for its writer.
    pub(crate) fn of(capture: &'a mut Capture) -> Blocks<'a> {
        Blocks { capture, needed: 1 }
    }

    /// Returns the next block, and whether more may follow. Records are dissected if `ahead` is
    /// given. `spare` is reused for the next bytes. An error comes together with the records before
    /// it.
    pub(crate) fn next(
        &mut self,
        spare: Spare,
        ahead: Option<&frame::Config>,
    ) -> (Block, Result<bool, Error>) {
        let Blocks { capture, needed } = self;
        let Spare { buffer, records } = spare;
        let mut end = capture.read(*needed).map(|()| !capture.is_over());
        let (buffer, mut range) = capture.take(buffer);
        let block = Block::new(buffer, |bytes| {
            let mut records: Records<'_> = records;
            if let Ok(true) = end {
                let found = capture.find_in(bytes, &mut range, |item| {
                    let record = match item {
                        Item::Record(record) => record,
                        Item::Note(note) => return records.notes.push((records.records.len(), note)),
                    };
                    if let Some(config) = ahead {
                        records.dissected.push(Dissected::new(&record, config));
                    }
                    records.records.push(record);
                });
                match found {
                    Ok(more) => *needed = more,
                    Err(error) => end = Err(error),
                }
            }
            records
        });
        capture.put_back(&block.borrow_owner()[range]);
        (block, end)
    }

    /// Returns the position of the capture, as [`Capture::position`].
    pub(crate) fn position(&self) -> u64 {
        self.capture.position()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_allocations_are_reused_by_the_next_block() {
        let records = Records {
            records: Vec::with_capacity(100),
            dissected: Vec::with_capacity(10),
            notes: Vec::new(),
        };
        let memory = (records.records.as_ptr().addr(), records.dissected.as_ptr().addr());
        let block = Block::new(Vec::new(), |_| records);
        let Spare { records, .. } = block.into_spare();
        assert_eq!((records.records.as_ptr().addr(), records.dissected.as_ptr().addr()), memory);
        assert_eq!((records.records.capacity(), records.dissected.capacity()), (100, 10));
    }
}
