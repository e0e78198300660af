//! Records of a regular file, as many at a time as a buffer holds, so that one thread can look at some while another finds the
//! next.

use crate::capture::{Capture, Error};
use rdmascope_dissector::record::Record;
use rdmascope_dissector::transport::Dissected;
use self_cell::self_cell;

/// Records, each taken apart if that was done ahead.
type Records<'a> = Vec<(Record<'a>, Option<Dissected<'a>>)>;

self_cell! {
    /// Bytes of a capture, and the records that stand in them.
    pub(crate) struct Block {
        owner: Vec<u8>,
        #[covariant]
        dependent: Records,
    }
}

impl Block {
    /// The records, in order.
    pub(crate) fn records(&self) -> &Records<'_> {
        self.borrow_dependent()
    }

    /// The memory of the bytes, for another block.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.into_owner()
    }
}

/// What is left of a capture, block after block.
pub(crate) struct Blocks<'a> {
    capture: &'a mut Capture,
    /// Bytes that are needed to go on.
    needed: usize,
    /// Records of the block before.
    before: usize,
}

impl<'a> Blocks<'a> {
    /// Of a capture that nobody waits for.
    pub(crate) fn of(capture: &'a mut Capture) -> Blocks<'a> {
        Blocks { capture, needed: 1, before: 0 }
    }

    /// The next records, as `take_apart` has them, and whether there may be more. `spare` is memory for what is read next. What
    /// comes before an error is delivered with it.
    pub(crate) fn next(
        &mut self,
        spare: Vec<u8>,
        take_apart: impl for<'b> Fn(&Record<'b>) -> Option<Dissected<'b>>,
    ) -> (Block, Result<bool, Error>) {
        let Blocks { capture, needed, before } = self;
        let mut end = capture.read(*needed).map(|()| !capture.is_over());
        let (buffer, mut range) = capture.take(spare);
        let block = Block::new(buffer, |bytes| {
            let mut records = Vec::with_capacity(*before);
            if let Ok(true) = end {
                match capture.find_in(bytes, &mut range, |record| records.push((record, take_apart(&record))))
                {
                    Ok(more) => *needed = more,
                    Err(error) => end = Err(error),
                }
            }
            records
        });
        *before = block.records().len();
        capture.put_back(&block.borrow_owner()[range]);
        (block, end)
    }

    /// How far the capture was read, as [`Capture::position`] tells it.
    pub(crate) fn position(&self) -> u64 {
        self.capture.position()
    }
}
