//! Every rule of `rdmascope check` has a capture that triggers it and a clean control, and what a capture lacks is no violation.

mod advice;
mod body;
mod chunks;
mod controls;
mod credits;
mod drops;
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

use rdmascope_conformance::{Finding, Value, Verdict};
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
    /// What the finding says.
    shows: Option<Shown>,
}

/// What a finding that stands says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shown {
    /// Who is accused.
    by: By,
    /// The packets that are the evidence.
    frames: &'static [u64],
    /// The value seen; empty where there is none.
    observed: &'static str,
    /// The value allowed; empty where there is none.
    allowed: &'static str,
}

/// One finding, by whom, with these frames and values.
const fn shown(
    by: By,
    frames: &'static [u64],
    observed: &'static str,
    allowed: &'static str,
) -> Option<Shown> {
    Some(Shown { by, frames, observed, allowed })
}

/// Who is accused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Requester,
    Responder,
    /// An end of which nobody knows whether it opened the connection.
    End,
    Nobody,
}

impl By {
    fn of(finding: &Finding) -> By {
        match (finding.by, finding.by_requester) {
            (None, _) => By::Nobody,
            (Some(_), None) => By::End,
            (Some(_), Some(true)) => By::Requester,
            (Some(_), Some(false)) => By::Responder,
        }
    }
}

/// Whether the finding says just this.
fn says(finding: &Finding, shown: &Shown) -> bool {
    let words = |value: &Option<Value>| value.as_ref().map(ToString::to_string).unwrap_or_default();
    By::of(finding) == shown.by
        && finding.frames == shown.frames
        && words(&finding.observed) == shown.observed
        && words(&finding.allowed) == shown.allowed
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
        body::TRIGGERS,
        establishment::TRIGGERS,
        transport::TRIGGERS,
        advice::TRIGGERS,
    ]
    .into_iter()
    .flatten()
}

/// What a finding says, as a trigger writes it.
fn said(finding: &Finding) -> String {
    let words = |value: &Option<Value>| value.as_ref().map(ToString::to_string).unwrap_or_default();
    let (observed, allowed) = (words(&finding.observed), words(&finding.allowed));
    format!(
        "shown(By::{:?}, &{:?}, {observed:?}, {allowed:?}): {}",
        By::of(finding),
        finding.frames,
        finding.message
    )
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
        let of_rule = |finding: &&Finding| rule(finding).id == trigger.rule;

        let before = findings(&control);
        wrong.extend(
            before.iter().filter(of_rule).map(|finding| format!("in the control: {}", line(finding))),
        );
        let unclean = before.iter().filter(|finding| samples::is_new_violation(finding));
        wrong.extend(unclean.map(|finding| format!("{}: in its control: {}", trigger.rule, line(finding))));

        let after = findings(&altered);
        let mut standing =
            after.iter().filter(of_rule).filter(|finding| finding.verdict == Verdict::Stands).peekable();
        if standing.peek().is_none() {
            let lines: Vec<String> = after.iter().map(line).collect();
            wrong.push(format!("{}: not found ({}); but {lines:#?}", trigger.rule, trigger.alteration));
        } else if let Some(shown) = trigger.shows {
            // One fault, one finding.
            let found: Vec<&Finding> = standing.collect();
            if found.len() != 1 || !says(found[0], &shown) {
                let lines: Vec<String> = found.iter().map(|finding| said(finding)).collect();
                wrong.push(format!("{} ({}): {shown:?}, but {lines:#?}", trigger.rule, trigger.alteration));
            }
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
