//! Checks the gates. The rules of a subject are evaluated only if its gate is open; a judge that
//! ignores all gates must report the same findings. `findings` compares both judges on every event,
//! so every test in this folder checks this. These tests do nothing else.

use crate::triggers;
use rdmascope_tests::judged::findings;
use rdmascope_tests::samples;

#[test]
fn gates_hide_no_finding_in_samples() {
    for sample in samples::ALL {
        findings(&samples::capture(sample));
    }
}

#[test]
fn gates_hide_no_finding_in_altered_sessions() {
    for trigger in triggers() {
        let mut altered = (trigger.control)();
        (trigger.alter)(&mut altered);
        findings(&altered);
    }
}
