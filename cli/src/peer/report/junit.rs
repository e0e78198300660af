//! JUnit XML: a test suite for each document, and a test case for each scenario.

use super::lines::Ran;
use crate::junit::{Case, END, Fault, Layout, Outcome, begin, suite};
use crate::output::Out;
use rdmascope_peer::scenario::{Side, Verdict};
use std::collections::BTreeMap;
use std::io::{self, Write as _};

/// Writes the report.
pub(super) fn write(side: Side, ran: &[Ran], out: &mut Out) -> io::Result<()> {
    let mut suites: BTreeMap<&str, Vec<Case>> = BTreeMap::new();
    for one in ran {
        let document = one.section.split('/').next().unwrap_or_default();
        suites.entry(document).or_default().push(case(one));
    }
    let command = match side {
        Side::Requester => "inject",
        Side::Responder => "serve",
    };
    begin(&format!("rdmascope peer {command}"), out)?;
    suites.iter().try_for_each(|(document, cases)| suite(document, cases, Layout::Lines, out))?;
    writeln!(out, "{END}")
}

fn case(one: &Ran) -> Case {
    let came = one.observed.join("; ");
    let outcome = match one.verdict_words {
        Some(Verdict::Violates) => Outcome::Failure(Fault {
            class: None,
            message: one.reason.as_ref().unwrap_or(&came).clone(),
            lines: vec![format!("{} {}: {}", one.level, one.section, one.requirement)],
        }),
        Some(Verdict::NotApplicable) => Outcome::Skipped(one.reason.clone().unwrap_or_default()),
        None => Outcome::Skipped("destructive".to_owned()),
        Some(_) => Outcome::Passed,
    };
    Case {
        class: one.section.replace('/', "."),
        name: match &one.target {
            Some(target) => format!("{} at {target}", one.scenario),
            None => one.scenario.clone(),
        },
        outcome,
        output: vec![
            format!("verdict: {}", one.verdict.unwrap_or("withheld")),
            format!("sent: {}", one.sent.join("; ")),
            format!("received: {came}"),
            format!("allowed: {}", one.allowed.join("; ")),
            format!("afterwards: {}", one.alive.unwrap_or("not-asked")),
        ],
    }
}
