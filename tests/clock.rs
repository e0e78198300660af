//! Calls of `handle_time` end expired waits and have no other effect.

use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::record::{Record, Time};
use rdmascope_dissector::transaction::Transaction;
use rdmascope_fuzz_targets::frames;
use rdmascope_tests::{samples, session};
use std::fs;

/// The points at which the test calls `handle_time`.
#[derive(Clone, Copy, PartialEq)]
enum TimeCalls {
    Never,
    /// Before each record, with its time.
    BeforeRecords,
    /// After the last record, until no deadline is left.
    AtTheEnd,
}

/// The transactions of a capture in the order in which they began, without their numbers, which
/// depend on the order in which they ended.
fn run(records: &[Record<'_>], calls: TimeCalls) -> Vec<Transaction> {
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
        if calls == TimeCalls::BeforeRecords {
            engine.handle_time(now, &mut report);
            let next = engine.next_deadline();
            assert!(next.is_none_or(|next| next > now), "record {}: {next:?} after {now:?}", record.number);
        }
        engine.handle(record, &mut report);
    }
    if calls == TimeCalls::AtTheEnd {
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
fn time_calls_do_not_change_the_transactions_of_samples() {
    for sample in samples::ALL {
        let capture = samples::capture(sample);
        let records: Vec<Record<'_>> = session::records(&capture).collect();
        let expected = format!("{:?}", run(&records, TimeCalls::Never));
        assert_eq!(format!("{:?}", run(&records, TimeCalls::BeforeRecords)), expected, "{sample}");
        assert_eq!(format!("{:?}", run(&records, TimeCalls::AtTheEnd)), expected, "{sample}, at the end");
    }
}

/// In these sessions packets arrive after the waits for them are over, so the transactions may
/// differ. Each one that began must end once, and no deadline may be in the past.
#[test]
fn transactions_of_fuzz_sessions_end_once() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus/engine");
    let mut sessions = 0;
    for entry in fs::read_dir(corpus).expect("the corpus exists") {
        let path = entry.expect("a readable folder").path();
        let frames = frames(&fs::read(&path).expect("a corpus file"));
        let records: Vec<Record<'_>> =
            (1..).zip(&frames).map(|(number, frame)| frame.record(number)).collect();
        for calls in [TimeCalls::BeforeRecords, TimeCalls::AtTheEnd] {
            let mut begun: Vec<u64> =
                run(&records, calls).iter().map(|transaction| transaction.begun).collect();
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
