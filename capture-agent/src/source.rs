//! What every source of records has in common, whether it is a file, a pipe or an interface.

use crate::capture::Error;
use crate::note::Note;
use core::ops::ControlFlow;
use rdmascope_dissector::frame;
use rdmascope_dissector::record::{Record, Time};
use rdmascope_dissector::transport::Dissected;

/// Records after which progress is told of.
pub(crate) const STRIDE: u64 = 1024;

/// Where records come from.
pub trait Source {
    /// What comes next. A source that has to wait says so first, with [`Next::Idle`], and waits when it is asked again.
    ///
    /// An error means that nothing can be read at all, and then no record was given. What cannot be read on after its
    /// first record ends there; how it ended is told apart from this, by [`Files::endings`](crate::Files::endings) for
    /// one.
    fn next(&mut self) -> Result<Next<'_>, Error>;

    /// How far was read, in the bytes that [`Source::size`] counts.
    fn position(&self) -> u64;

    /// Packets that are known by now to have been dropped before they reached this source, over all interfaces.
    fn dropped(&self) -> u64;

    /// Bytes that there are to read; `None` where nobody knows.
    fn size(&self) -> Option<u64>;
}

/// What a source answers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Next<'a> {
    /// A record.
    Record(Record<'a>),
    /// There is none now, and the next answer may be long in coming. A time means that no later record is older than this:
    /// the clock of the source has come so far. A pipe does not know, and says `None`.
    Idle(Option<Time>),
    /// What the capture says beside packets, where it stands among them.
    Note(Note),
    /// There is no further record.
    End,
}

/// Who takes what a source gives, and may break off.
pub trait Sink {
    /// The next record, taken apart.
    fn record(&mut self, record: &Record<'_>, dissected: &Dissected<'_>) -> ControlFlow<()>;

    /// What the capture says beside packets; it is of the records that come next.
    fn note(&mut self, _: &Note) {}

    /// What comes next may be long in coming; see [`Next::Idle`].
    fn idle(&mut self, until: Option<Time>) -> ControlFlow<()>;
}

/// Who shows how far a reading has come. `()` shows nothing.
pub trait Progress {
    /// So many more bytes were read. Called every few hundred records.
    fn advanced(&mut self, bytes: u64);
}

impl Progress for () {
    fn advanced(&mut self, _: u64) {}
}

/// Hands on every record, taken apart, in order, until the end or until `sink` breaks off. Errors: as [`Source::next`].
pub fn for_each(
    source: &mut (impl Source + ?Sized),
    config: &frame::Config,
    progress: &mut impl Progress,
    sink: &mut impl Sink,
) -> Result<(), Error> {
    let mut told = 0;
    let mut tell = |position: u64| {
        progress.advanced(position.saturating_sub(told));
        told = position;
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
                tell(source.position());
                sink.idle(until)
            }
            Next::End => return Ok(()),
        };
        if taken.is_break() {
            return Ok(());
        }
        records += 1;
        if records.is_multiple_of(STRIDE) {
            tell(source.position());
        }
    }
}
