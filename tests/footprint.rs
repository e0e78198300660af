//! What engine and judge say of the memory that a clone of them takes up, beside what an allocator counts. One test, so that nothing
//! else allocates meanwhile.

use cap::Cap;
use rdmascope_conformance::Judge;
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::exchange::Keep;
use rdmascope_dissector::observation::Observe;
use rdmascope_tests::{Differences, samples, session};
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Bytes that a clone of `what` takes up, itself included.
fn measured<T: Clone>(what: &T) -> usize {
    let before = ALLOCATOR.allocated();
    let clone = Box::new(what.clone());
    let after = ALLOCATOR.allocated();
    drop(clone);
    after - before
}

#[test]
fn a_clone_takes_up_what_is_said() {
    /// In hundredths of what was measured.
    const ALLOWED: std::ops::RangeInclusive<usize> = 90..=115;
    let mut differences = Differences::of("footprints");
    for (steps, contents) in [(false, false), (true, true)] {
        let config = Config { observe: Observe::All, keep: Keep { steps, contents }, ..Config::default() };
        for sample in samples::MOUNTS {
            let capture = samples::capture(sample);
            let (mut engine, mut judge) = (Engine::new(config), Judge::default());
            for record in session::records(&capture) {
                engine.handle(&record, &mut |event| judge.handle(&event, &mut |_| {}));
                if record.number % 100 == 0 {
                    let (said, measured) = (engine.footprint(), measured(&engine));
                    let place = format!("{sample}, record {}: {said} of {measured}", record.number);
                    differences.check(ALLOWED.contains(&(said * 100 / measured)), place);
                    let (said, measured) = (judge.footprint(), self::measured(&judge));
                    let place = format!("{sample}, record {}, judge: {said} of {measured}", record.number);
                    // The sizes of what the judge keeps are known to the byte.
                    differences.check(said == measured, place);
                }
            }
        }
    }
    differences.end();
}
