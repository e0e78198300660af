//! The engine without a judge leaves out observations for rules, and nothing else.

use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::observation::{Observation, Observe, Observed, Refused, Sent};
use rdmascope_tests::{mutate, pcap, samples, session};

/// All events as text, and the number of observations for rules, which are left out of it.
fn run(capture: &pcap::Capture, observe: Observe) -> (Vec<String>, usize) {
    let mut engine = Engine::new(Config { observe, ..Config::default() });
    let (mut events, mut left_out) = (Vec::new(), 0);
    let mut report = |event: Event<'_>| match event {
        Event::Observation(Observation { kind, .. }) if is_for_rules(kind) => left_out += 1,
        Event::Observation(Observation { kind: Observed::Sent(sent), .. }) => {
            events.push(format!("{:?}", Sent { earlier: None, ..**sent }));
        }
        Event::Observation(Observation { kind: Observed::Refused(refused), .. }) => {
            events.push(format!("{:?}", Refused { advertised: None, is_operation: false, ..*refused }));
        }
        event => events.push(format!("{event:?}")),
    };
    session::records(capture).for_each(|record| engine.handle(&record, &mut report));
    engine.finish(&mut report);
    (events, left_out)
}

/// Whether only rules use an observation.
fn is_for_rules(observed: &Observed<'_>) -> bool {
    matches!(
        observed,
        Observed::Established(_)
            | Observed::Faulty(_)
            | Observed::Unmatched(_)
            | Observed::Shared(_)
            | Observed::Revoked(_)
            | Observed::Outstanding(_)
    )
}

#[test]
fn engine_without_a_judge_omits_only_observations_for_rules() {
    let mut left_out = 0;
    for sample in samples::ALL {
        let original = samples::capture(sample);
        // As captured, and with packets missing, delayed or duplicated.
        let variants = (0..20).map(|seed| mutate::variant(&original, seed).capture);
        for (index, capture) in core::iter::once(original.clone()).chain(variants).enumerate() {
            let (judged, unjudged) = (run(&capture, Observe::All), run(&capture, Observe::Events));
            assert!(judged.0 == unjudged.0, "{sample}, variant {index}");
            assert_eq!(unjudged.1, 0, "{sample}, variant {index}");
            left_out += judged.1;
        }
    }
    assert!(left_out > 1_000, "{left_out} observations were left out");
}
