//! The footprints that engine and judge compute, compared with an allocator's count, and the memory
//! of a flow. One test, so that nothing else allocates meanwhile.

use cap::Cap;
use rdmascope_conformance::Judge;
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::exchange::Keep;
use rdmascope_dissector::observation::Observe;
use rdmascope_dissector::record::{LinkType, Record, Time};
use rdmascope_tests::floods::Kind;
use rdmascope_tests::{Differences, samples, session};
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// The memory that a clone of `value` takes, in bytes, including itself.
fn measured<T: Clone>(value: &T) -> usize {
    let before = ALLOCATOR.allocated();
    let clone = Box::new(value.clone());
    let after = ALLOCATOR.allocated();
    drop(clone);
    after - before
}

#[test]
fn footprints_match_the_allocator() {
    computed_footprint_equals_the_size_of_a_clone();
    flow_of_one_packet_is_small();
}

/// A flow with one packet takes at most 512 bytes, for each kind of packet and at any number of
/// flows.
fn flow_of_one_packet_is_small() {
    const MOST: usize = 512;
    // The tables double at different numbers of flows.
    const STEPS: [u32; 4] = [20_000, 29_000, 33_000, 60_000];
    let config = Config { observe: Observe::All, ..Config::default() };
    let mut differences = Differences::of("flows of one packet");
    for kind in Kind::ALL {
        let (mut engine, mut judge) = (Engine::new(config), Judge::default());
        let mut take = |flows: core::ops::Range<u32>| {
            for flow in flows {
                let data = kind.frame(flow, 0);
                let record = record(flow, &data);
                engine.handle(&record, &mut |event| judge.handle(&event, &mut |_| {}));
            }
            (ALLOCATOR.allocated(), engine.footprint())
        };
        let few = 2_000;
        let (before, computed_before) = take(0..few);
        let mut first = few;
        for last in STEPS {
            let (after, computed) = take(first..last);
            let flows = (last - few) as usize;
            let (each, computed) = ((after - before) / flows, (computed - computed_before) / flows);
            differences.check(each <= MOST, format!("{kind:?}, {last} flows: {each} bytes each"));
            differences.check(
                computed.abs_diff(each) <= 64,
                format!("{kind:?}, {last}: {computed} of {each} bytes"),
            );
            first = last;
        }
        engine.finish(&mut |event| judge.handle(&event, &mut |_| {}));
        differences.equal(format!("{kind:?}, evictions"), 0, engine.totals().evictions);
        differences.equal(format!("{kind:?}, connections"), 60_000, engine.totals().connections);
    }
    differences.end();
}

/// A packet of each flow, a microsecond after that of the one before.
fn record(flow: u32, data: &[u8]) -> Record<'_> {
    Record {
        number: u64::from(flow) + 1,
        time: Time(i64::from(flow) * 1_000),
        link: LinkType::ETHERNET,
        original_length: data.len() as u32,
        dropped: 0,
        tap: Default::default(),
        data,
    }
}

fn computed_footprint_equals_the_size_of_a_clone() {
    /// In percent of the measured size.
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
                    let (computed, measured) = (engine.footprint(), measured(&engine));
                    let place = format!("{sample}, record {}: {computed} of {measured}", record.number);
                    differences.check(ALLOWED.contains(&(computed * 100 / measured)), place);
                    let (computed, measured) = (judge.footprint(), self::measured(&judge));
                    let place =
                        format!("{sample}, record {}, judge: {computed} of {measured}", record.number);
                    // The sizes of the judge's tables are exact.
                    differences.check(computed == measured, place);
                }
            }
        }
    }
    differences.end();
}
