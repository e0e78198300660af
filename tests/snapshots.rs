//! The engine between two records: a clone continues as the original does, and open transactions
//! can be read.

use core::fmt::Write;
use core::hash::Hasher;
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::exchange::Keep;
use rdmascope_dissector::observation::Observe;
use rdmascope_dissector::record::Record;
use rdmascope_fuzz_targets::frames;
use rdmascope_tests::{samples, session};
use std::fs;
use std::hash::DefaultHasher;

/// The number of snapshots of each session.
const SNAPSHOTS: usize = 40;

/// A hash of all events.
#[derive(Clone, Default)]
struct Digest(DefaultHasher);

impl Digest {
    fn take(&mut self, event: &Event<'_>) {
        write!(self, "{event:?}").expect("a hasher takes everything");
    }
}

impl Write for Digest {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

/// An engine and the hash of its events so far.
#[derive(Clone)]
struct Run {
    engine: Engine,
    digest: Digest,
}

impl Run {
    fn new() -> Run {
        let keep = Keep { steps: true, contents: true };
        let config = Config { observe: Observe::All, keep, ..Config::default() };
        Run { engine: Engine::new(config), digest: Digest::default() }
    }

    fn handle(&mut self, record: &Record<'_>) {
        let Run { engine, digest } = self;
        engine.handle(record, &mut |event| digest.take(&event));
    }

    /// Continues to the end. Returns the hash of all events, and the totals.
    fn finish(mut self, records: &[Record<'_>]) -> (u64, String) {
        records.iter().for_each(|record| self.handle(record));
        let Run { mut engine, mut digest } = self;
        // The debug text includes the engine's memory counts, which must match too.
        write!(digest, "{engine:?}").expect("a hasher takes everything");
        engine.finish(&mut |event| digest.take(&event));
        (digest.0.finish(), format!("{:?}", engine.totals()))
    }
}

/// Takes snapshots at evenly spaced records, and continues each to the end.
fn compare(label: &str, records: &[Record<'_>]) {
    let expected = Run::new().finish(records);
    let places: Vec<usize> = (0..SNAPSHOTS).map(|index| index * records.len() / SNAPSHOTS).collect();
    let mut original = Run::new();
    for (index, record) in records.iter().enumerate() {
        if places.contains(&index) {
            let snapshot = original.clone().finish(&records[index..]);
            assert_eq!(snapshot, expected, "{label}: the snapshot before record {}", index + 1);
        }
        original.handle(record);
    }
    assert_eq!(original.finish(&[]), expected, "{label}: the engine after all snapshots");
}

#[test]
fn snapshots_of_samples_continue_like_the_engine() {
    for sample in samples::ALL {
        let capture = samples::capture(sample);
        let records: Vec<Record<'_>> = session::records(&capture).collect();
        compare(sample, &records);
    }
}

#[test]
fn snapshots_of_fuzz_sessions_continue_like_the_engine() {
    each_fuzz_session(4, compare);
}

/// Calls `compare` on every `step`-th session of the fuzz corpus.
fn each_fuzz_session(step: usize, compare: impl Fn(&str, &[Record<'_>])) {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus/engine");
    let mut paths: Vec<_> = fs::read_dir(corpus)
        .expect("the corpus exists")
        .map(|entry| entry.expect("a readable folder").path())
        .collect();
    paths.sort();
    for path in paths.iter().step_by(step) {
        let frames = frames(&fs::read(path).expect("a corpus file"));
        let records: Vec<Record<'_>> =
            (1..).zip(&frames).map(|(number, frame)| frame.record(number)).collect();
        compare(&path.display().to_string(), &records);
    }
}

/// Checks that each transaction and connection that began is either open or reported, after every
/// record.
fn compare_state(label: &str, records: &[Record<'_>]) {
    let mut engine = Engine::new(Config::default());
    let (mut ended, mut ended_connections, mut begun) = (Vec::new(), Vec::new(), 0);
    for record in records {
        engine.handle(record, &mut |event| match event {
            Event::Transaction(transaction) => ended.push(transaction.begun),
            Event::Connection(connection) => ended_connections.push(connection.id),
            _ => {}
        });
        let open: Vec<u64> = engine.open_transactions().map(|open| open.begun).collect();
        assert!(open.is_sorted(), "{label}, record {}: in the order in which they began", record.number);
        let mut all = ended.clone();
        all.extend(open);
        all.sort_unstable();
        begun = begun.max(all.len() as u64);
        assert!(all.iter().copied().eq(1..=begun), "{label}, record {}: {all:?}", record.number);
        let connections = engine.connections().map(|connection| connection.id);
        assert!(connections.is_sorted(), "{label}, record {}", record.number);
        let count = engine.connections().count() + ended_connections.len();
        assert_eq!(engine.totals().connections, count as u64, "{label}, record {}", record.number);
        for open in engine.open_transactions() {
            assert!(engine.connection(open.connection).is_some(), "{label}, record {}", record.number);
            assert!(open.since.frame <= record.number && open.call.or(open.reply).is_some());
            assert!(open.progress().all(|chunk| chunk.moved <= chunk.advertised), "{label}: {open:?}");
        }
    }
}

#[test]
fn begun_transactions_are_open_or_ended() {
    for sample in samples::ALL {
        let capture = samples::capture(sample);
        let records: Vec<Record<'_>> = session::records(&capture).take(3000).collect();
        compare_state(sample, &records);
    }
    each_fuzz_session(4, compare_state);
}
