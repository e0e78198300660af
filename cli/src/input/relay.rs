//! Reads a capture with a thread that follows the sessions, while this one hands the events to the
//! command.
//!
//! Batches of copied events pass through one queue, so the order is exact and the output is the
//! same. A copy costs less than writing a line. For commands that do less per event, it saves time
//! only if the thread has a core of its own.

use super::{Audience, Reader};
use crate::output::Failure;
use rdmascope_analysis::ending::Ending;
use rdmascope_capture_agent::Note;
use rdmascope_dissector::batch::Batch;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::record::Time;
use std::io;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};

/// Number of parcels in the queue.
const QUEUE: usize = 4;
/// Minimum size of a capture in bytes for which the thread saves time.
const WORTH_A_THREAD: u64 = 4_000_000;

/// Whether the events of an engine with this configuration can be copied, and a capture of `size`
/// bytes is worth a thread, for a command that `lists` lines or not. Records are framed on another
/// thread.
pub(super) fn is_worthwhile(config: &Config, size: Option<u64>, lists: bool) -> bool {
    let has_lasting_events = !config.report_packets && !config.attribute && !config.report_framed;
    let cores = if lists { 2 } else { 3 };
    has_lasting_events
        && !config.keep.contents
        && size.is_some_and(|size| size >= WORTH_A_THREAD)
        && std::thread::available_parallelism().is_ok_and(|available| available.get() >= cores)
}

/// An entry of the queue.
enum Parcel {
    /// Events of a capture that starts at this time.
    Events(Batch, Time),
    Note(Note),
}

/// Reads with `reader` on another thread, and hands events to `audience` on this one. Errors are
/// those of [`Reader::read`].
pub(super) fn read(reader: Reader, audience: &mut dyn Audience) -> Result<Ending, Failure> {
    std::thread::scope(|scope| {
        let (full, filled) = mpsc::sync_channel(QUEUE);
        let (empty, emptied) = mpsc::channel();
        let engine = scope.spawn(move || {
            let mut relay = Relay { batch: Batch::default(), start: Time::default(), full, emptied };
            let read = reader.read(&mut relay);
            relay.send_batch()?;
            read
        });
        let written = deliver(&filled, &empty, audience);
        // Without a receiver the engine stops.
        drop(filled);
        let read = engine.join().expect("the engine does not panic");
        written?;
        read
    })
}

/// Hands all events to the audience.
fn deliver(filled: &Receiver<Parcel>, empty: &Sender<Batch>, audience: &mut dyn Audience) -> io::Result<()> {
    for parcel in filled {
        match parcel {
            Parcel::Events(mut batch, start) => {
                let mut written = Ok(());
                batch.each(&mut |event| {
                    if written.is_ok() {
                        written = audience.event(event, start);
                    }
                });
                written?;
                batch.clear();
                // The engine may have ended.
                let _ = empty.send(batch);
            }
            Parcel::Note(note) => audience.note(&note),
        }
    }
    Ok(())
}

/// The audience of the engine: copies events for the other thread.
struct Relay {
    batch: Batch,
    start: Time,
    full: SyncSender<Parcel>,
    emptied: Receiver<Batch>,
}

impl Relay {
    /// Sends the batch. Fails if the command takes no more.
    fn send_batch(&mut self) -> io::Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let next = self.emptied.try_recv().unwrap_or_default();
        let batch = core::mem::replace(&mut self.batch, next);
        self.send(Parcel::Events(batch, self.start))
    }

    fn send(&self, parcel: Parcel) -> io::Result<()> {
        self.full.send(parcel).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Audience for Relay {
    fn needs(&self) -> Config {
        Config::default()
    }

    fn event(&mut self, event: Event<'_>, start: Time) -> io::Result<()> {
        self.start = start;
        let is_kept = self.batch.push(&event);
        debug_assert!(is_kept, "the configuration has events that last");
        if self.batch.is_large() { self.send_batch() } else { Ok(()) }
    }

    fn note(&mut self, note: &Note) {
        // If the command takes no more, the next event reports it.
        let _ = self.send_batch().and_then(|()| self.send(Parcel::Note(note.clone())));
    }

    /// A capture whose size is known has nothing to wait for.
    fn wait(&mut self) -> io::Result<()> {
        self.send_batch()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Input, Opened};
    use super::*;
    use crate::progress::Progress;
    use rdmascope_conformance::Judge;
    use rdmascope_dissector::frame;
    use std::path::Path;

    /// All events and notes as text.
    #[derive(Default)]
    struct Texts(Vec<String>);

    impl Audience for Texts {
        fn needs(&self) -> Config {
            Judge::needs()
        }

        fn event(&mut self, event: Event<'_>, start: Time) -> io::Result<()> {
            self.0.push(format!("{start:?} {event:?}"));
            Ok(())
        }

        fn note(&mut self, note: &Note) {
            self.0.push(format!("{note:?}"));
        }
    }

    type Read = fn(Reader, &mut dyn Audience) -> Result<Ending, Failure>;

    fn texts(sample: &str, read: Read) -> Vec<String> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../samples").join(sample);
        let input = Input::file(path, frame::Config::default().port);
        let source = Opened::new(&input, None).expect("the sample can be opened");
        let mut texts = Texts::default();
        let progress = Progress::on_terminal(None, true, true);
        let ending = read(Reader { source, config: texts.needs(), progress }, &mut texts);
        texts.0.push(format!("{:?}", ending.expect("the sample can be read").totals));
        texts.0
    }

    #[test]
    fn other_thread_does_not_change_the_events() {
        for sample in ["nfs4.1-backchannel-recall.pcap", "nfs3-lossy.pcap", "iwarp-nfs3.pcap"] {
            let [direct, relayed] = [Reader::read as Read, super::read].map(|read| texts(sample, read));
            assert!(direct.len() > 100, "{sample}");
            assert!(direct == relayed, "{sample}");
        }
    }
}
