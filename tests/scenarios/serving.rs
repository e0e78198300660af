//! Scenarios of the responder's side in memory: a correct client conforms, and a client with one
//! error gets the expected verdict. `rdmascope check` finds the fault that the scenario injects into
//! a session with a client, and nothing else.

mod client;

use super::rules;
use client::{Wrong, run, run_with};
use rdmascope_peer::rpcrdma::OfferLimits;
use rdmascope_peer::scenario::{Alive, Observed, Scenario, Side, Verdict, builtin_of};
use rdmascope_tests::judged;
use rdmascope_tests::pcap::{Capture, Packet, RAW};
use std::collections::BTreeSet;

#[test]
fn peers_requester_conforms() {
    let wrong: Vec<String> = builtin_of(Side::Responder)
        .iter()
        .map(|scenario| (scenario, run(scenario, Wrong::Nothing).0))
        .filter(|(_, outcome)| outcome.verdict != Verdict::Conforms || outcome.alive == Alive::Gone)
        .map(|(scenario, outcome)| format!("{}: {outcome:#?}", scenario.name))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn is_of_draft(scenario: &Scenario) -> bool {
    scenario.is_of("reliable-reply")
}

/// A client that supports the reliable-reply draft.
#[test]
fn requester_with_reliable_reply_conforms() {
    // It provides no Reply chunks, so other scenarios may find no matching call.
    let is_about = |scenario: &&Scenario| {
        is_of_draft(scenario) || ["reply-done", "reply-read-list"].contains(&&*scenario.name)
    };
    let wrong: Vec<String> = builtin_of(Side::Responder)
        .iter()
        .filter(is_about)
        .map(|scenario| (scenario, run_with(scenario, Wrong::Nothing, Some(OfferLimits::default())).0))
        .filter(|(_, outcome)| outcome.verdict != Verdict::Conforms || outcome.alive == Alive::Gone)
        .map(|(scenario, outcome)| format!("{}: {outcome:#?}", scenario.name))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A client of RFC 8166 answers nothing, a client of the draft sends RDMA_DONE.
#[test]
fn only_a_draft_client_answers_a_read_chunk_with_done() {
    let scenarios = builtin_of(Side::Responder);
    let of_draft: Vec<&Scenario> = scenarios.iter().filter(|scenario| is_of_draft(scenario)).collect();
    assert_eq!(of_draft.len(), 4);
    for scenario in of_draft {
        let (plain, _) = run(scenario, Wrong::Nothing);
        assert_eq!(plain.observed, [Observed::Silence], "{}: {plain:#?}", scenario.name);
        let (draft, _) = run_with(scenario, Wrong::Nothing, Some(OfferLimits::default()));
        assert_eq!(draft.observed[0], Observed::Done, "{}: {draft:#?}", scenario.name);
        assert_eq!(draft.sent.last().unwrap(), "no reply: RDMA_DONE ended the call");
    }
}

/// Clients with one error, and their verdicts.
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
    ("reply-read-chunk", Wrong::Disconnects, Verdict::LostConnection, Alive::OnNew),
    ("reply-read-chunk", Wrong::Disconnects, Verdict::LostConnection, Alive::OnNew),
    ("reply-read-chunk", Wrong::Errors, Verdict::Tolerated, Alive::OnThis),
    ("reply-read-chunk", Wrong::ErrorsOfVersion, Verdict::Violates, Alive::OnThis),
    ("reply-read-position", Wrong::ErrorsOfVersion, Verdict::Violates, Alive::OnThis),
    ("reply-read-empty", Wrong::ErrorsOfVersion, Verdict::Violates, Alive::OnThis),
    ("reply-read-one-byte", Wrong::ErrorsOfVersion, Verdict::Violates, Alive::OnThis),
    ("reply-read-list", Wrong::Errors, Verdict::Violates, Alive::OnThis),
    ("backward-program-unknown", Wrong::SameXid, Verdict::Conforms, Alive::OnThis),
];

#[test]
fn faulty_clients_get_the_expected_verdict() {
    let scenarios = builtin_of(Side::Responder);
    for (name, wrong, verdict, alive) in WRONG {
        let scenario = scenarios.iter().find(|scenario| scenario.name == *name).expect("it is there");
        let (outcome, _) = run(scenario, *wrong);
        assert_eq!((outcome.verdict, outcome.alive), (*verdict, *alive), "{name} {wrong:?}: {outcome:#?}");
    }
}

#[test]
fn check_reports_exactly_the_fault_injected_into_a_client() {
    let mut wrong = Vec::new();
    for scenario in builtin_of(Side::Responder) {
        let (_, crossed) = run(&scenario, Wrong::Nothing);
        let packets = (1..).zip(&crossed);
        let packets = packets.map(|(number, (now, datagram))| Packet::of_peer(number, *now, datagram));
        let findings = judged::findings(&Capture { link: RAW, packets: packets.collect() });
        // Call durations in virtual time are no fault.
        let mut found = rules(&findings);
        found.remove("advice-slow-server");
        let expected: BTreeSet<&str> = scenario.check.iter().map(String::as_str).collect();
        if found != expected {
            let lines: Vec<String> = findings.iter().map(judged::line).collect();
            wrong.push(format!("{} {expected:?}:\n    {}", scenario.name, lines.join("\n    ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
