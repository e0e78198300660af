//! Every rule of `rdmascope check` has a capture that triggers it and a clean control, and what a capture lacks is no violation.

mod advice;
mod chunks;
mod controls;
mod credits;
mod establishment;
mod exhaustive;
mod header;
mod inline;
mod invalidation;
mod memory;
mod page;
mod reverse;
mod rpc;
mod samples;
mod transport;

use rdmascope_conformance::Verdict;
use rdmascope_tests::judged::{findings, line, rule};
use rdmascope_tests::pcap::Capture;

/// A capture that breaks one rule, and the clean one that it was made from.
struct Trigger {
    /// The rule's id.
    rule: &'static str,
    /// What differs from the control, in words for the documents.
    alteration: &'static str,
    /// The clean session.
    control: fn() -> Capture,
    /// Makes it break the rule.
    alter: fn(&mut Capture),
    /// Other violations that this brings with it, each for a reason that stands beside the trigger.
    also: &'static [&'static str],
}

/// All of them, subject by subject.
fn triggers() -> impl Iterator<Item = &'static Trigger> {
    [
        credits::TRIGGERS,
        inline::TRIGGERS,
        header::TRIGGERS,
        chunks::read::TRIGGERS,
        chunks::write::TRIGGERS,
        chunks::reply::TRIGGERS,
        chunks::memory::TRIGGERS,
        chunks::binding::TRIGGERS,
        memory::TRIGGERS,
        invalidation::TRIGGERS,
        reverse::TRIGGERS,
        rpc::TRIGGERS,
        establishment::TRIGGERS,
        transport::TRIGGERS,
        advice::TRIGGERS,
    ]
    .into_iter()
    .flatten()
}

#[test]
fn every_rule_has_a_trigger() {
    for rule in rdmascope_conformance::rules() {
        assert!(triggers().any(|trigger| trigger.rule == rule.id), "{} has no trigger", rule.id);
    }
    for trigger in triggers() {
        let known = |id: &&str| rdmascope_conformance::rule(id).is_some();
        assert!(known(&trigger.rule), "{}: no such rule", trigger.rule);
        assert!(trigger.also.iter().all(known), "{}: {:?}", trigger.rule, trigger.also);
    }
}

#[test]
fn every_trigger_is_found_and_its_control_is_clean() {
    let mut wrong = Vec::new();
    for trigger in triggers() {
        let control = (trigger.control)();
        let mut altered = control.clone();
        (trigger.alter)(&mut altered);
        assert_ne!(control, altered, "{}: nothing was altered", trigger.rule);
        let of_rule = |finding: &&rdmascope_conformance::Finding| rule(finding).id == trigger.rule;

        let before = findings(&control);
        wrong.extend(
            before.iter().filter(of_rule).map(|finding| format!("in the control: {}", line(finding))),
        );
        let unclean = before.iter().filter(|finding| samples::is_new_violation(finding));
        wrong.extend(unclean.map(|finding| format!("{}: in its control: {}", trigger.rule, line(finding))));

        let after = findings(&altered);
        if !after.iter().filter(of_rule).any(|finding| finding.verdict == Verdict::Stands) {
            let lines: Vec<String> = after.iter().map(line).collect();
            wrong.push(format!("{}: not found ({}); but {lines:#?}", trigger.rule, trigger.alteration));
        }
        let others = after.iter().filter(|finding| samples::is_new_violation(finding) && !of_rule(finding));
        let unexpected = others.filter(|finding| !trigger.also.contains(&rule(finding).id));
        wrong.extend(unexpected.map(|finding| format!("{}: beside it: {}", trigger.rule, line(finding))));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn rules_are_well_formed() {
    let mut ids = std::collections::HashSet::new();
    for rule in rdmascope_conformance::rules() {
        assert!(ids.insert(rule.id), "{} is there twice", rule.id);
        let plain = rule
            .id
            .chars()
            .all(|letter| letter.is_ascii_lowercase() || letter == '-' || letter.is_ascii_digit());
        assert!(plain && !rule.id.starts_with('-') && !rule.id.ends_with('-'), "{}", rule.id);
        assert!(!rule.sources.is_empty(), "{} rests on nothing", rule.id);
        for text in [rule.sentence, rule.explanation] {
            assert!(text.ends_with('.') && !text.contains("  "), "{}: {text:?}", rule.id);
        }
        assert_eq!(rule.sentence.matches(". ").count(), 0, "{}: one sentence", rule.id);
    }
    for unseen in rdmascope_conformance::SUBJECTS.iter().flat_map(|subject| subject.unseen) {
        for text in [unseen.requirement, unseen.reason] {
            assert!(text.ends_with('.') && !text.contains("  "), "{text:?}");
        }
    }
}
