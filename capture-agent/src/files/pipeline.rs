//! Two threads on one capture: one finds records and takes frames apart, the other follows the sessions.
//!
//! Taking a frame apart needs nothing but its record, so it can be done ahead, on another core; mostly it is the ICRC,
//! which reads every byte. Order stays exact: blocks of records pass through one queue. Which thread takes the frames of a
//! block apart depends on which has less to do, and changes nothing in what comes out.

use crate::block::{Block, Blocks, Spare};
use crate::capture::Error;
use crate::source::{Progress, Sink};
use rdmascope_dissector::frame;
use rdmascope_dissector::transport::Dissected;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// Blocks under way.
const QUEUE: usize = 4;

/// Hands on every record with its frame, in order, until the end or until `sink` breaks off.
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
                // Where the other thread is about to have nothing to do, it takes the frames apart itself.
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
        let mut told = 0;
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
            progress.advanced(position - told);
            told = position;
            waiting.fetch_sub(1, Ordering::Relaxed);
            // The finder may have ended; then nobody wants it.
            let _ = empty.send(block.into_spare());
        }
        finder.join().expect("the finder does not panic: it only walks bytes")
    })
}
