//! Time alone ends what it ends, and nothing else.

use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::record::{Record, Time};
use rdmascope_dissector::transaction::Transaction;
use rdmascope_fuzz_targets::frames;
use rdmascope_tests::{samples, session};
use std::fs;

/// When the engine is told the time.
#[derive(Clone, Copy, PartialEq)]
enum Telling {
    Never,
    /// The time of each record, before it.
    BeforeRecords,
    /// After the last record, until nothing waits any more.
    AtTheEnd,
}

/// The transactions of a capture in the order in which they began, without the numbers that say in which order they ended.
fn run(records: &[Record<'_>], telling: Telling) -> Vec<Transaction> {
    let mut engine = Engine::new(Config::default());
    let mut found = Vec::new();
    let mut report = |event: Event<'_>| {
        if let Event::Transaction(transaction) = event {
            found.push(Transaction { number: 0, ..transaction.clone() });
        }
    };
    let mut now = Time(i64::MIN);
    for record in records {
        // Records may step back in time; a clock does not.
        now = now.max(record.time);
        if telling == Telling::BeforeRecords {
            engine.handle_time(now, &mut report);
            let next = engine.next_deadline();
            assert!(next.is_none_or(|next| next > now), "record {}: {next:?} after {now:?}", record.number);
        }
        engine.handle(record, &mut report);
    }
    if telling == Telling::AtTheEnd {
        while let Some(deadline) = engine.next_deadline() {
            engine.handle_time(deadline, &mut report);
            let next = engine.next_deadline();
            assert!(next.is_none_or(|next| next > deadline), "{next:?} after {deadline:?}");
        }
    }
    engine.finish(&mut report);
    found.sort_by_key(|transaction| transaction.begun);
    found
}

#[test]
fn samples_give_the_same_transactions() {
    for sample in samples::ALL {
        let capture = samples::capture(sample);
        let records: Vec<Record<'_>> = session::records(&capture).collect();
        let expected = format!("{:?}", run(&records, Telling::Never));
        assert_eq!(format!("{:?}", run(&records, Telling::BeforeRecords)), expected, "{sample}");
        assert_eq!(format!("{:?}", run(&records, Telling::AtTheEnd)), expected, "{sample}, at the end");
    }
}

/// Here packets come later than anybody waits who is told the time, and what answers them waits for less than they do: so the transactions
/// need not be the same. Whatever began ends once, and nothing waits for a time that has passed.
#[test]
fn fuzz_sessions_are_waited_out() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus/engine");
    let mut sessions = 0;
    for entry in fs::read_dir(corpus).expect("the corpus is there") {
        let path = entry.expect("a readable folder").path();
        let frames = frames(&fs::read(&path).expect("a corpus file"));
        let records: Vec<Record<'_>> =
            (1..).zip(&frames).map(|(number, frame)| frame.record(number)).collect();
        for telling in [Telling::BeforeRecords, Telling::AtTheEnd] {
            let mut begun: Vec<u64> =
                run(&records, telling).iter().map(|transaction| transaction.begun).collect();
            begun.sort_unstable();
            assert!(
                (1..).zip(&begun).all(|(number, begun)| number == *begun),
                "{}: {begun:?}",
                path.display()
            );
        }
        sessions += 1;
    }
    assert!(sessions > 100, "{sessions}");
}
