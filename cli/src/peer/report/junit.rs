//! JUnit XML: a test suite for each document, and a test case for each scenario.

use super::lines::Ran;
use crate::junit::{Case, END, Fault, Layout, Outcome, begin, suite};
use crate::output::Out;
use rdmascope_peer::scenario::{Alive, Side, Verdict};
use std::collections::BTreeMap;
use std::io::{self, Write as _};

/// Writes the report.
pub(super) fn write(side: Side, ran: &[Ran], out: &mut Out) -> io::Result<()> {
    let mut suites: BTreeMap<&str, Vec<Case>> = BTreeMap::new();
    for one in ran {
        suites.entry(&one.scenario.requirement.document).or_default().push(case(one));
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
    let Ran { scenario, .. } = one;
    let (section, requirement) = (scenario.section(), &scenario.requirement);
    let came = one.observed().join("; ");
    let outcome = match one.verdict() {
        Some(Verdict::Violates) => Outcome::Failure(Fault {
            class: None,
            message: one.reason().unwrap_or(&came).to_owned(),
            lines: vec![format!("{} {section}: {}", requirement.level, requirement.text)],
        }),
        Some(Verdict::NotApplicable) => Outcome::Skipped(one.reason().unwrap_or_default().to_owned()),
        None => Outcome::Skipped("destructive".to_owned()),
        Some(_) => Outcome::Passed,
    };
    Case {
        class: section.replace('/', "."),
        name: match &one.target {
            Some(target) => format!("{} at {target}", scenario.name),
            None => scenario.name.clone(),
        },
        outcome,
        output: vec![
            format!("verdict: {}", one.verdict().map_or("withheld", Verdict::name)),
            format!("sent: {}", one.sent().join("; ")),
            format!("received: {came}"),
            format!("allowed: {}", one.allowed().join("; ")),
            format!("afterwards: {}", one.alive().map_or("not-asked", Alive::name)),
        ],
    }
}
