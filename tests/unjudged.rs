//! The engine without a judge leaves out observations for rules, and nothing else.

use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::observation::{Observation, Observe, Observed, Refused, Sent};
use rdmascope_tests::{mutate, pcap, samples, session};

/// All events as text, and the number of observations for rules, which are left out of it.
fn run(capture: &pcap::Capture, observe: Observe) -> (Vec<String>, usize) {
    let mut engine = Engine::new(Config { observe, ..Config::default() });
    let (mut told, mut left_out) = (Vec::new(), 0);
    let mut report = |event: Event<'_>| match event {
        Event::Observation(Observation { what, .. }) if is_for_rules(what) => left_out += 1,
        Event::Observation(Observation { what: Observed::Sent(sent), .. }) => {
            told.push(format!("{:?}", Sent { earlier: None, ..**sent }));
        }
        Event::Observation(Observation { what: Observed::Refused(refused), .. }) => {
            told.push(format!("{:?}", Refused { advertised: None, ..*refused }));
        }
        event => told.push(format!("{event:?}")),
    };
    session::records(capture).for_each(|record| engine.handle(&record, &mut report));
    engine.finish(&mut report);
    (told, left_out)
}

/// Whether only rules use an observation.
fn is_for_rules(what: &Observed<'_>) -> bool {
    matches!(
        what,
        Observed::Established(_)
            | Observed::Faulty(_)
            | Observed::Stray(_)
            | Observed::Shared(_)
            | Observed::Revoked(_)
            | Observed::Outstanding(_)
    )
}

#[test]
fn only_that_on_which_rules_rest_is_left_out() {
    let mut left_out = 0;
    for sample in samples::ALL {
        let whole = samples::capture(sample);
        // As captured, and with packets missing, delayed or duplicated.
        let variants = (0..20).map(|seed| mutate::variant(&whole, seed).capture);
        for (index, capture) in core::iter::once(whole.clone()).chain(variants).enumerate() {
            let (judged, unjudged) = (run(&capture, Observe::All), run(&capture, Observe::Events));
            assert!(judged.0 == unjudged.0, "{sample}, variant {index}");
            assert_eq!(unjudged.1, 0, "{sample}, variant {index}");
            left_out += judged.1;
        }
    }
    assert!(left_out > 1_000, "{left_out} observations were left out");
}
