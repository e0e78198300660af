//! Gates: a subject's rules are asked only where its gate says that they may find something. A judge that ignores all gates must find the
//! same. `findings` compares the two on every event, so each test of this folder does; these are the ones that are there for nothing else.

use crate::triggers;
use rdmascope_tests::judged::findings;
use rdmascope_tests::samples;

#[test]
fn gates_hide_nothing_in_samples() {
    for sample in samples::ALL {
        findings(&samples::capture(sample));
    }
}

#[test]
fn gates_hide_nothing_in_altered_sessions() {
    for trigger in triggers() {
        let mut altered = (trigger.control)();
        (trigger.alter)(&mut altered);
        findings(&altered);
    }
}
