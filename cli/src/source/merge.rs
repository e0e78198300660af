//! Several files as one capture: rotated files, or what was captured at several places.
//!
//! Of each file one record is looked at ahead. It stays where it is, in the mapping or in the buffer of the file's reader,
//! until it is its turn, so nothing is copied and nothing is allocated for a packet.

use super::{File, Sink};
use crate::progress::Progress;
use core::cmp::Reverse;
use core::ops::ControlFlow;
use rdmascope_capture_agent::framing::Framed;
use rdmascope_dissector::frame;
use rdmascope_dissector::record::{Record, Time};
use rdmascope_dissector::transport::Dissected;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// A file's next record, ordered by time, then by the file's place on the command line. Nothing reorders the records of one
/// file: where their times step back, the late one follows at once.
type Head = Reverse<(Time, usize)>;

/// Hands on the records of all files, the earliest first, numbered as they come. An error is one of a file of which
/// nothing can be read, and then nothing was handed on.
pub(super) fn for_each(
    files: &mut [File],
    config: &frame::Config,
    progress: &mut Progress,
    sink: &mut impl Sink,
) -> anyhow::Result<()> {
    let mut ahead: Vec<Option<Framed>> = Vec::with_capacity(files.len());
    for file in files.iter_mut() {
        match file.advance(progress, sink)? {
            ControlFlow::Continue(framed) => ahead.push(framed),
            ControlFlow::Break(()) => return Ok(()),
        }
    }
    let head = |(index, framed): (usize, &Option<Framed>)| framed.map(|framed| Reverse((framed.time, index)));
    let mut heads: BinaryHeap<Head> = ahead.iter().enumerate().filter_map(head).collect();
    let mut number = 0;
    while let Some(mut first) = heads.peek_mut() {
        let Reverse((time, index)) = &mut *first;
        let framed = ahead[*index].as_ref().expect("a file with a head has a record ahead");
        number += 1;
        let record = Record { number, ..files[*index].capture.record(framed) };
        if sink.packet(&record, &Dissected::new(&record, config)).is_break() {
            return Ok(());
        }
        match files[*index].advance(progress, sink)? {
            ControlFlow::Continue(next) => {
                ahead[*index] = next;
                match next {
                    Some(next) => *time = next.time,
                    None => drop(PeekMut::pop(first)),
                }
            }
            ControlFlow::Break(()) => return Ok(()),
        }
    }
    Ok(())
}
