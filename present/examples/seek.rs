//! Measures a timeline over a capture: the time to build it and to seek to any record, and its
//! memory.
//!
//!     cargo run --profile dist -p rdmascope-present --example seek -- FILE [BUDGET-IN-MIB]

use cap::Cap;
use rdmascope_analysis::timeline::{Config, Moment, Timeline};
use rdmascope_capture_agent::Archive;
use rdmascope_conformance::Judge;
use std::alloc::System;
use std::hint::black_box;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// The number of seeks measured.
const SEEKS: usize = 2000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("usage: seek FILE [BUDGET-IN-MIB]")?;
    let mut config = Config::default();
    if let Some(budget) = arguments.next() {
        config.budget = budget.parse::<usize>()? << 20;
    }

    let start = Instant::now();
    let records = Archive::open(&[file.into()], None)?;
    println!("{:>9.3} s  to find {} records", start.elapsed().as_secs_f64(), records.records());

    let before = ALLOCATOR.allocated();
    let start = Instant::now();
    let mut timeline = Timeline::new(config, Judge::default());
    for record in records.walk(1) {
        records.notes(record.number).for_each(|note| timeline.take_note(&note));
        timeline.take(&record);
    }
    timeline.finish();
    println!("{:>9.3} s  to build", start.elapsed().as_secs_f64());
    let latest = timeline.latest();
    println!(
        "{:>9}    connections at the end, {} in all",
        latest.connections().count(),
        latest.totals().connections
    );
    println!("{:>9}    checkpoints, {} records apart", timeline.checkpoints(), timeline.spacing());
    println!(
        "{:>9.1} MiB checkpoints, as counted, within {:.1}",
        mib(timeline.checkpoint_bytes()),
        mib(config.budget)
    );
    println!("{:>9.1} MiB all of the timeline, as allocated", mib(ALLOCATOR.allocated() - before));

    let count = records.records();
    let mut dice = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = || {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        dice % (count + 1)
    };
    report("to any record", SEEKS, || {
        let moment = Moment::Record(random());
        let start = Instant::now();
        let now = timeline.seek(&records, moment).expect("every record is there");
        black_box(now.open_transactions().count());
        start.elapsed()
    });
    timeline.seek(&records, Moment::Record(count / 2))?;
    report("one record back", SEEKS / 10, || {
        let moment = Moment::Record(timeline.shown().record().saturating_sub(1));
        let start = Instant::now();
        black_box(timeline.seek(&records, moment).expect("every record is there").record());
        start.elapsed()
    });
    report("one record on", SEEKS / 10, || {
        let moment = Moment::Record(timeline.shown().record() + 1);
        let start = Instant::now();
        black_box(timeline.seek(&records, moment).expect("every record is there").record());
        start.elapsed()
    });
    Ok(())
}

fn report(label: &str, times: usize, seek: impl FnMut() -> Duration) {
    let mut times: Vec<Duration> = std::iter::repeat_with(seek).take(times).collect();
    times.sort_unstable();
    let at = |hundredths: usize| times[(times.len() - 1) * hundredths / 100].as_secs_f64() * 1e3;
    println!(
        "{:>9.3} ms {label}, median; {:.3} ms 99th percentile; {:.3} ms at most",
        at(50),
        at(99),
        at(100)
    );
}

fn mib(bytes: usize) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
