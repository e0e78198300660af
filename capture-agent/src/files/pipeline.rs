//! Two threads on one capture: one finds records and takes frames apart, the other follows the sessions.
//!
//! Taking a frame apart needs nothing but its record, so it can be done ahead, on another core; mostly it is the ICRC,
//! which reads every byte. Order stays exact: batches of records pass through one queue. Which thread takes the frames of a
//! batch apart depends on which has less to do, and changes nothing in what comes out.

use crate::capture::Error;
use crate::mapped::Mapped;
use crate::source::{Progress, Sink};
use rdmascope_dissector::frame;
use rdmascope_dissector::record::Record;
use rdmascope_dissector::transport::Dissected;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// Records that change hands at once.
const BATCH: usize = 1024;
/// Batches under way.
const QUEUE: usize = 4;

#[derive(Default)]
struct Batch<'a> {
    records: Vec<(Record<'a>, Option<Dissected<'a>>)>,
    /// How far the file was read when the batch was full.
    position: u64,
}

/// Hands on every record with its frame, in order, until the end or until `sink` breaks off.
pub(super) fn for_each(
    mut records: Mapped<'_>,
    config: &frame::Config,
    progress: &mut impl Progress,
    sink: &mut impl Sink,
) -> Result<(), Error> {
    let waiting = AtomicUsize::new(0);
    let waiting = &waiting;
    std::thread::scope(|scope| {
        let (full, filled) = mpsc::sync_channel::<Batch<'_>>(QUEUE);
        let (empty, emptied) = mpsc::channel::<Batch<'_>>();
        let finder = scope.spawn(move || {
            loop {
                let mut batch = emptied.try_recv().unwrap_or_default();
                batch.records.reserve_exact(BATCH);
                // Where the other thread has nothing to do, it takes the frames apart itself.
                let ahead = waiting.load(Ordering::Relaxed) > 0;
                let end = loop {
                    match records.next() {
                        Ok(Some(record)) => {
                            let dissected = ahead.then(|| Dissected::new(&record, config));
                            batch.records.push((record, dissected));
                        }
                        Ok(None) => break Some(Ok(())),
                        Err(error) => break Some(Err(error)),
                    }
                    if batch.records.len() == BATCH {
                        break None;
                    }
                };
                batch.position = records.position();
                waiting.fetch_add(1, Ordering::Relaxed);
                let left = full.send(batch).is_err();
                match end {
                    Some(end) => return end,
                    None if left => return Ok(()),
                    None => {}
                }
            }
        });
        let mut told = 0;
        'batches: for mut batch in filled {
            for (record, dissected) in &batch.records {
                let handed_on = match dissected {
                    Some(dissected) => sink.record(record, dissected),
                    None => sink.record(record, &Dissected::new(record, config)),
                };
                if handed_on.is_break() {
                    break 'batches;
                }
            }
            batch.records.clear();
            progress.advanced(batch.position - told);
            told = batch.position;
            waiting.fetch_sub(1, Ordering::Relaxed);
            // The finder may have ended; then nobody wants it.
            let _ = empty.send(batch);
        }
        finder.join().expect("the finder does not panic: it only walks bytes")
    })
}
