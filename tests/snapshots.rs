//! A snapshot of the engine goes on as the engine itself does, from wherever it was taken.

use core::fmt::Write;
use core::hash::Hasher;
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::kept::Keep;
use rdmascope_dissector::record::Record;
use rdmascope_fuzz_targets::frames;
use rdmascope_tests::{samples, session};
use std::fs;
use std::hash::DefaultHasher;

/// Snapshots taken of each session.
const SNAPSHOTS: usize = 40;

/// What the events say, as one number.
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

/// An engine and what it reported up to now.
#[derive(Clone)]
struct Run {
    engine: Engine,
    digest: Digest,
}

impl Run {
    fn new() -> Run {
        let keep = Keep { steps: true, contents: true };
        let config = Config { observe: true, keep, ..Config::default() };
        Run { engine: Engine::new(config), digest: Digest::default() }
    }

    fn handle(&mut self, record: &Record<'_>) {
        let Run { engine, digest } = self;
        engine.handle(record, &mut |event| digest.take(&event));
    }

    /// Goes on to the end; returns what all events say.
    fn finish(mut self, records: &[Record<'_>]) -> (u64, String) {
        records.iter().for_each(|record| self.handle(record));
        let Run { mut engine, mut digest } = self;
        engine.finish(&mut |event| digest.take(&event));
        (digest.0.finish(), format!("{:?}", engine.totals()))
    }
}

/// Snapshots at places spread over the records, each continued to the end.
fn compare(what: &str, records: &[Record<'_>]) {
    let expected = Run::new().finish(records);
    let places: Vec<usize> = (0..SNAPSHOTS).map(|index| index * records.len() / SNAPSHOTS).collect();
    let mut original = Run::new();
    for (index, record) in records.iter().enumerate() {
        if places.contains(&index) {
            let snapshot = original.clone().finish(&records[index..]);
            assert_eq!(snapshot, expected, "{what}: the snapshot before record {}", index + 1);
        }
        original.handle(record);
    }
    assert_eq!(original.finish(&[]), expected, "{what}: the engine that snapshots were taken of");
}

#[test]
fn snapshots_of_samples_go_on_as_the_engine_does() {
    for sample in samples::MOUNTS.into_iter().chain([samples::REJECTED]) {
        let capture = samples::capture(sample);
        let records: Vec<Record<'_>> = session::records(&capture).collect();
        compare(sample, &records);
    }
}

#[test]
fn snapshots_of_fuzz_sessions_go_on_as_the_engine_does() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus/engine");
    let mut paths: Vec<_> = fs::read_dir(corpus)
        .expect("the corpus is there")
        .map(|entry| entry.expect("a readable folder").path())
        .collect();
    paths.sort();
    for path in paths.iter().step_by(4) {
        let frames = frames(&fs::read(path).expect("a corpus file"));
        let records: Vec<Record<'_>> =
            (1..).zip(&frames).map(|(number, frame)| frame.record(number)).collect();
        compare(&path.display().to_string(), &records);
    }
}
