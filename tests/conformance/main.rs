//! Every rule of `rdmascope check` has a capture that triggers it and a clean control, and packets
//! that a capture lacks give no violation.

mod accused;
mod advice;
mod body;
mod chunks;
mod compounds;
mod controls;
mod credits;
mod doubt;
mod drops;
mod establishment;
mod exhaustive;
mod gss;
mod header;
mod inline;
mod invalidation;
mod iwarp;
mod memory;
mod one_fault;
mod page;
mod retries;
mod reverse;
mod rpc;
mod samples;
mod sessions;
mod state;
mod statuses;
mod transport;

use core::fmt::Write as _;
use rdmascope_conformance::{Finding, Value, Verdict};
use rdmascope_tests::judged::{findings, line, rule};
use rdmascope_tests::pcap::Capture;

/// A capture that breaks one rule, and the clean one that it is made from.
struct Trigger {
    /// The ID of the rule.
    rule: &'static str,
    /// The difference from the control, in words for the documents.
    alteration: &'static str,
    /// The clean session.
    control: fn() -> Capture,
    /// The alteration that breaks the rule.
    alter: fn(&mut Capture),
    /// Other violations that it causes; a comment at the trigger has the reason.
    also: &'static [&'static str],
    /// The expected finding.
    shows: Option<Shown>,
}

/// The expected contents of a conclusive finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shown {
    /// The accused end.
    by: By,
    /// The frames that are the evidence.
    frames: &'static [u64],
    /// The observed value; empty if there is none.
    observed: &'static str,
    /// The allowed value; empty if there is none.
    allowed: &'static str,
}

/// One finding with this accused end, these frames and values.
const fn shown(
    by: By,
    frames: &'static [u64],
    observed: &'static str,
    allowed: &'static str,
) -> Option<Shown> {
    Some(Shown { by, frames, observed, allowed })
}

/// The accused end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Requester,
    Responder,
    /// An end that may or may not have opened the connection.
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

/// Whether a finding has exactly these contents.
fn has_contents(finding: &Finding, shown: &Shown) -> bool {
    let words = |value: &Option<Value>| value.as_ref().map(ToString::to_string).unwrap_or_default();
    By::of(finding) == shown.by
        && finding.frames == shown.frames
        && words(&finding.observed) == shown.observed
        && words(&finding.allowed) == shown.allowed
}

/// The introduction of the text files.
const TEXTS: &str = "\
What each trigger finds: by whom, frames, [transaction], (seen; allowed), and the text. At most two findings each.
RDMASCOPE_BLESS=1 cargo test -p rdmascope-tests --test conformance every_trigger writes this file; read what changes.
";

/// The triggers of all subjects, and a test for each subject.
macro_rules! subjects {
    ($($name:ident: $($path:ident)::+,)*) => {
        const SUBJECTS: &[&[Trigger]] = &[$($($path::)+TRIGGERS),*];

        mod every_trigger {
            $(
                #[test]
                fn $name() {
                    super::check_triggers(stringify!($name), super::$($path::)+TRIGGERS);
                }
            )*
        }
    };
}

subjects! {
    credits: credits,
    inline: inline,
    header: header,
    read_chunks: chunks::read,
    write_chunks: chunks::write,
    reply_chunks: chunks::reply,
    chunk_memory: chunks::memory,
    binding: chunks::binding,
    memory: memory,
    invalidation: invalidation,
    reverse: reverse,
    sessions: sessions,
    state: state,
    statuses: statuses,
    rpc: rpc,
    gss: gss,
    retries: retries,
    body: body,
    establishment: establishment,
    transport: transport,
    iwarp: iwarp,
    advice: advice,
}

/// The triggers of all subjects in order.
fn triggers() -> impl Iterator<Item = &'static Trigger> {
    SUBJECTS.iter().copied().flatten()
}

/// The contents of a finding in the form of a trigger.
fn as_trigger(finding: &Finding) -> String {
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

/// Writes the conclusive findings of a trigger: their number, and the first ones in full.
fn write_texts(trigger: &Trigger, conclusive: &[&Finding], texts: &mut String) {
    const MOST: usize = 2;
    let _ = writeln!(texts, "\n{} ({}), {} times", trigger.rule, trigger.alteration, conclusive.len());
    for finding in conclusive.iter().take(MOST) {
        let words = |value: &Option<Value>| value.as_ref().map(ToString::to_string).unwrap_or_default();
        let xid = finding.xid.map(|xid| xid.to_string()).unwrap_or_default();
        let direction = finding.direction.map(|direction| format!("{direction:?}")).unwrap_or_default();
        let transaction = finding.transaction.map(|number| format!("#{number}")).unwrap_or_default();
        let of =
            [direction, xid, transaction].into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>();
        let _ = writeln!(
            texts,
            "    {:?} {:?} [{}] ({}; {}) {}",
            By::of(finding),
            finding.frames,
            of.join(" "),
            words(&finding.observed),
            words(&finding.allowed),
            finding.message
        );
    }
}

fn check_triggers(subject: &str, triggers: &[Trigger]) {
    let (mut wrong, mut texts) = (Vec::new(), String::from(TEXTS));
    for trigger in triggers {
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
        let conclusive: Vec<&Finding> =
            after.iter().filter(of_rule).filter(|finding| finding.verdict == Verdict::Certain).collect();
        write_texts(trigger, &conclusive, &mut texts);
        if conclusive.is_empty() {
            let lines: Vec<String> = after.iter().map(line).collect();
            wrong.push(format!("{}: not found ({}); but {lines:#?}", trigger.rule, trigger.alteration));
        } else if let Some(shown) = trigger.shows {
            // One fault, one finding.
            if conclusive.len() != 1 || !has_contents(conclusive[0], &shown) {
                let lines: Vec<String> = conclusive.iter().map(|finding| as_trigger(finding)).collect();
                wrong.push(format!("{} ({}): {shown:?}, but {lines:#?}", trigger.rule, trigger.alteration));
            }
        }
        let others = after.iter().filter(|finding| samples::is_new_violation(finding) && !of_rule(finding));
        let unexpected = others.filter(|finding| !trigger.also.contains(&rule(finding).id));
        wrong.extend(unexpected.map(|finding| format!("{}: beside it: {}", trigger.rule, line(finding))));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let path = format!("{}/conformance/texts/{subject}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("RDMASCOPE_BLESS").is_some() {
        return std::fs::write(&path, texts).expect("the texts can be written");
    }
    let written = std::fs::read_to_string(&path).expect("the text file exists");
    let differing: Vec<_> =
        texts.lines().zip(written.lines()).filter(|(found, expected)| found != expected).take(5).collect();
    assert!(texts == written, "findings differ from {path}: {differing:#?}");
}

#[test]
fn rules_are_well_formed() {
    let mut ids = std::collections::HashSet::new();
    for rule in rdmascope_conformance::rules() {
        assert!(ids.insert(rule.id), "{} is listed twice", rule.id);
        let plain = rule
            .id
            .chars()
            .all(|letter| letter.is_ascii_lowercase() || letter == '-' || letter.is_ascii_digit());
        assert!(plain && !rule.id.starts_with('-') && !rule.id.ends_with('-'), "{}", rule.id);
        assert!(!rule.sources.is_empty(), "{} has no source", rule.id);
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
