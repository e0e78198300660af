//! Records of a regular file, as many at a time as a buffer holds, so that one thread can look at some while another finds the
//! next.

use crate::capture::{Capture, Error, Item};
use crate::note::Note;
use rdmascope_dissector::frame;
use rdmascope_dissector::record::Record;
use rdmascope_dissector::transport::Dissected;
use self_cell::self_cell;

/// Records, and all of them taken apart or none.
#[derive(Default)]
pub(crate) struct Records<'a> {
    records: Vec<Record<'a>>,
    dissected: Vec<Dissected<'a>>,
    /// What is no packet, each with the number of records of the block before it.
    notes: Vec<(usize, Note)>,
}

self_cell! {
    /// Bytes of a capture, and the records that stand in them.
    pub(crate) struct Block {
        owner: Vec<u8>,
        #[covariant]
        dependent: Records,
    }
}

impl Block {
    /// The records, in order, each taken apart if that was done ahead.
    pub(crate) fn records(&self) -> impl Iterator<Item = (&Record<'_>, Option<&Dissected<'_>>)> {
        let Records { records, dissected, .. } = self.borrow_dependent();
        records.iter().enumerate().map(|(index, record)| (record, dissected.get(index)))
    }

    /// What is no packet, each with the number of records of the block before it.
    pub(crate) fn notes(&self) -> &[(usize, Note)] {
        &self.borrow_dependent().notes
    }

    /// The memory of the block, for another one.
    pub(crate) fn into_spare(mut self) -> Spare {
        let records = self.with_dependent_mut(|_, records| core::mem::take(records).emptied());
        Spare { buffer: self.into_owner(), records }
    }
}

/// The memory of a block that is done with.
#[derive(Default)]
pub(crate) struct Spare {
    buffer: Vec<u8>,
    records: Records<'static>,
}

impl Records<'_> {
    /// The lists without their entries, for those of other bytes.
    fn emptied<'a>(self) -> Records<'a> {
        /// `collect` keeps the memory: entries before and after differ in nothing but the lifetime.
        fn emptied<Before, After>(mut list: Vec<Before>) -> Vec<After> {
            list.clear();
            list.into_iter().map(|_| unreachable!("it was cleared")).collect()
        }
        Records { records: emptied(self.records), dissected: emptied(self.dissected), notes: Vec::new() }
    }
}

/// What is left of a capture, block after block.
pub(crate) struct Blocks<'a> {
    capture: &'a mut Capture,
    /// Bytes that are needed to go on.
    needed: usize,
}

impl<'a> Blocks<'a> {
    /// Of a capture that nobody waits for.
    pub(crate) fn of(capture: &'a mut Capture) -> Blocks<'a> {
        Blocks { capture, needed: 1 }
    }

    /// The next records, and whether there may be more. They are taken apart where `ahead` says how. `spare` is memory for what is
    /// read next. What comes before an error is delivered with it.
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

    /// How far the capture was read, as [`Capture::position`] tells it.
    pub(crate) fn position(&self) -> u64 {
        self.capture.position()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_their_memory_for_the_next_block() {
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
