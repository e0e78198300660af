//! Reads a capture with two threads: one finds records and dissects frames, the other follows the
//! sessions.
//!
//! Dissecting a frame depends only on its record, so another core can do it ahead. Most of the work
//! is the ICRC, which covers every byte. Blocks of records pass through one queue, so the order is
//! exact. The less busy thread dissects the frames of a block; the output is the same in either
//! case.

use crate::block::{Block, Blocks, Spare};
use crate::capture::Error;
use crate::source::{Progress, Sink};
use rdmascope_dissector::frame;
use rdmascope_dissector::transport::Dissected;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// Number of blocks in the queue.
const QUEUE: usize = 4;

/// Calls `sink` for each dissected record, in order, until the end or until `sink` stops.
pub(super) fn for_each(
    mut blocks: Blocks<'_>,
    config: &frame::Config,
    progress: &mut impl Progress,
    sink: &mut impl Sink,
) -> Result<(), Error> {
    let waiting = AtomicUsize::new(0);
    let waiting = &waiting;
    std::thread::scope(|scope| {
        let (full, filled) = mpsc::sync_channel::<(Block, u64)>(QUEUE);
        let (empty, emptied) = mpsc::channel::<Spare>();
        let finder = scope.spawn(move || {
            loop {
                let spare = emptied.try_recv().unwrap_or_default();
                // If the other thread is about to run out of work, it dissects the frames itself.
                let ahead = waiting.load(Ordering::Relaxed) > 1;
                let (block, end) = blocks.next(spare, ahead.then_some(config));
                waiting.fetch_add(1, Ordering::Relaxed);
                let left = full.send((block, blocks.position())).is_err();
                match end {
                    Ok(true) if !left => {}
                    end => return end.map(|_| ()),
                }
            }
        });
        let mut reported = 0;
        'blocks: for (block, position) in filled {
            let mut notes = block.notes().iter().peekable();
            for (index, (record, dissected)) in block.records().enumerate() {
                while let Some((_, note)) = notes.next_if(|(before, _)| *before <= index) {
                    sink.note(note);
                }
                let handed_on = match dissected {
                    Some(dissected) => sink.record(record, dissected),
                    None => sink.record(record, &Dissected::new(record, config)),
                };
                if handed_on.is_break() {
                    break 'blocks;
                }
            }
            notes.for_each(|(_, note)| sink.note(note));
            progress.advanced(position - reported);
            reported = position;
            waiting.fetch_sub(1, Ordering::Relaxed);
            // The finder may have ended and need no more memory.
            let _ = empty.send(block.into_spare());
        }
        finder.join().expect("the finder does not panic: it only walks bytes")
    })
}
