//! A batch reports the events that were put into it.

use rdmascope_dissector::batch::Batch;
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::observation::Observe;
use rdmascope_tests::{mutate, pcap, samples, session};

/// All events as text, as the engine reports them, and as batches report them.
fn run(capture: &pcap::Capture, observe: Observe) -> [Vec<String>; 2] {
    let mut engine = Engine::new(Config { observe, ..Config::default() });
    let (mut direct, mut batched) = (Vec::new(), Vec::new());
    let mut batch = Batch::default();
    let mut pass_on = |batch: &mut Batch| {
        batch.each(&mut |event| batched.push(format!("{event:?}")));
        batch.clear();
        assert!(batch.is_empty());
    };
    let mut take = |event: Event<'_>| {
        direct.push(format!("{event:?}"));
        assert!(batch.push(&event));
        if batch.is_large() {
            pass_on(&mut batch);
        }
    };
    session::records(capture).for_each(|record| engine.handle(&record, &mut take));
    engine.finish(&mut take);
    pass_on(&mut batch);
    [direct, batched]
}

#[test]
fn batch_reports_the_pushed_events() {
    for sample in samples::ALL {
        let original = samples::capture(sample);
        // As captured, and with packets missing, delayed or duplicated.
        let variants = (0..3).map(|seed| mutate::variant(&original, seed).capture);
        for (index, capture) in core::iter::once(original.clone()).chain(variants).enumerate() {
            for observe in [Observe::Nothing, Observe::Events, Observe::All] {
                let [direct, batched] = run(&capture, observe);
                assert!(direct == batched, "{sample}, variant {index}, {observe:?}");
                assert!(index > 0 || !direct.is_empty(), "{sample}");
            }
        }
    }
}

#[test]
fn batch_excludes_packets() {
    let capture = samples::capture("connect-rejected");
    let mut engine = Engine::new(Config { report_packets: true, ..Config::default() });
    let mut batch = Batch::default();
    let mut kept = [0, 0];
    session::records(&capture).for_each(|record| {
        engine.handle(&record, &mut |event| {
            let is_packet = matches!(event, Event::Packet(_));
            assert_eq!(batch.push(&event), !is_packet);
            kept[usize::from(is_packet)] += 1;
        });
    });
    assert!(kept[1] > 0);
    let mut reported = 0;
    batch.each(&mut |_| reported += 1);
    assert_eq!(reported, kept[0]);
}
