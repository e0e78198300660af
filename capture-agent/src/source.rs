//! The common trait of all sources of records: files, pipes and interfaces.

use crate::capture::Error;
use crate::note::Note;
use core::ops::ControlFlow;
use rdmascope_dissector::frame;
use rdmascope_dissector::record::{Record, Time};
use rdmascope_dissector::transport::Dissected;

/// Number of records between progress reports.
pub(crate) const STRIDE: u64 = 1024;

/// A source of records.
pub trait Source {
    /// Returns the next item. A source that has to wait returns [`Next::Idle`] first and waits in
    /// the next call.
    ///
    /// An error means that nothing could be read, and no record was returned before. A source that
    /// fails after its first record ends there. How it ended is reported separately, for example by
    /// [`Files::endings`](crate::Files::endings).
    fn next(&mut self) -> Result<Next<'_>, Error>;

    /// Returns the read position, in the unit of [`Source::size`].
    fn position(&self) -> u64;

    /// Returns the number of packets known to have been dropped before they reached this source,
    /// over all interfaces.
    fn dropped(&self) -> u64;

    /// Returns the total size in bytes; `None` if unknown, as for live sources.
    fn size(&self) -> Option<u64> {
        None
    }
}

/// The next item of a source.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Next<'a> {
    /// A record.
    Record(Record<'a>),
    /// No record is available at present, and the next call may block. A time means that the
    /// source's clock has reached it: no later record is older. Pipes return `None`.
    Idle(Option<Time>),
    /// A note, at its position among the records.
    Note(Note),
    /// The source has ended.
    End,
}

/// Receives the items of a source and may stop it.
pub trait Sink {
    /// Takes the next record with its dissection.
    fn record(&mut self, record: &Record<'_>, dissected: &Dissected<'_>) -> ControlFlow<()>;

    /// Takes a note. It applies to the records that follow.
    fn note(&mut self, _: &Note) {}

    /// Called before a wait; see [`Next::Idle`].
    fn idle(&mut self, until: Option<Time>) -> ControlFlow<()>;
}

/// Displays the progress of reading. `()` displays nothing.
pub trait Progress {
    /// Called every few hundred records with the number of bytes read since the last call.
    fn advanced(&mut self, bytes: u64);
}

impl Progress for () {
    fn advanced(&mut self, _: u64) {}
}

/// Calls `sink` for each dissected record, in order, until the end or until `sink` stops. Errors
/// are those of [`Source::next`].
pub fn for_each(
    source: &mut (impl Source + ?Sized),
    config: &frame::Config,
    progress: &mut impl Progress,
    sink: &mut impl Sink,
) -> Result<(), Error> {
    let mut reported = 0;
    let mut report = |position: u64| {
        progress.advanced(position.saturating_sub(reported));
        reported = position;
    };
    let mut records = 0u64;
    loop {
        let taken = match source.next()? {
            Next::Record(record) => sink.record(&record, &Dissected::new(&record, config)),
            Next::Note(note) => {
                sink.note(&note);
                continue;
            }
            Next::Idle(until) => {
                report(source.position());
                sink.idle(until)
            }
            Next::End => return Ok(()),
        };
        if taken.is_break() {
            return Ok(());
        }
        records += 1;
        if records.is_multiple_of(STRIDE) {
            report(source.position());
        }
    }
}
