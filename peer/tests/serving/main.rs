//! Scenarios of the responder's side in memory: a correct client conforms, one that is wrong in one way gets the verdict that it deserves.
#![cfg(feature = "scenario")]

mod client;

use client::{Wrong, run};
use rdmascope_peer::scenario::{Alive, Side, Verdict, builtin_of};

#[test]
fn this_crates_requester_conforms() {
    let wrong: Vec<String> = builtin_of(Side::Responder)
        .iter()
        .map(|scenario| (scenario, run(scenario, Wrong::Nothing).0))
        .filter(|(_, outcome)| outcome.verdict != Verdict::Conforms || outcome.alive == Alive::Gone)
        .map(|(scenario, outcome)| format!("{}: {outcome:#?}", scenario.name))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Clients that are wrong in one way, and the verdict that each gets.
const WRONG: &[(&str, Wrong, Verdict, Alive)] = &[
    ("reply-version-2", Wrong::Errors, Verdict::Violates, Alive::OnThis),
    ("reply-version-2", Wrong::Disconnects, Verdict::LostConnection, Alive::OnNew),
    ("reply-version-2", Wrong::Leaves, Verdict::LostConnection, Alive::NotAsked),
    ("reply-version-2", Wrong::Repeats, Verdict::Conforms, Alive::OnThis),
    ("reply-procedure-5", Wrong::Errors, Verdict::Violates, Alive::OnThis),
    ("reply-header-20-bytes", Wrong::Errors, Verdict::Violates, Alive::OnThis),
    ("reply-xid-unknown", Wrong::Errors, Verdict::Violates, Alive::OnThis),
    ("reply-twice", Wrong::Errors, Verdict::Violates, Alive::OnThis),
    ("reply-twice", Wrong::Disconnects, Verdict::LostConnection, Alive::OnNew),
    ("backward-program-unknown", Wrong::SameXid, Verdict::Conforms, Alive::OnThis),
];

#[test]
fn a_wrong_client_is_named() {
    let scenarios = builtin_of(Side::Responder);
    for (name, wrong, verdict, alive) in WRONG {
        let scenario = scenarios.iter().find(|scenario| scenario.name == *name).expect("it is there");
        let (outcome, _) = run(scenario, *wrong);
        assert_eq!((outcome.verdict, outcome.alive), (*verdict, *alive), "{name} {wrong:?}: {outcome:#?}");
    }
}
