//! JUnit XML: a test suite for each document, a test case for each scenario.

use super::lines::Ran;
use crate::output::Out;
use crate::xml::escaped;
use rdmascope_peer::scenario::{Side, Verdict};
use std::collections::BTreeMap;
use std::io::{self, Write as _};

/// Writes the report.
pub(super) fn write(side: Side, ran: &[Ran], out: &mut Out) -> io::Result<()> {
    let mut suites: BTreeMap<&str, Vec<&Ran>> = BTreeMap::new();
    for one in ran {
        let document = one.section.split('/').next().unwrap_or_default();
        suites.entry(document).or_default().push(one);
    }
    let command = match side {
        Side::Requester => "inject",
        Side::Responder => "serve",
    };
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(out, "<testsuites name=\"rdmascope peer {command}\">")?;
    for (document, cases) in suites {
        let failures = cases.iter().filter(|one| one.verdict_words == Some(Verdict::Violates)).count();
        let skips = |one: &&&Ran| matches!(one.verdict_words, None | Some(Verdict::NotApplicable));
        writeln!(
            out,
            "  <testsuite name=\"{document}\" tests=\"{}\" failures=\"{failures}\" errors=\"0\" skipped=\"{}\">",
            cases.len(),
            cases.iter().filter(skips).count()
        )?;
        for one in cases {
            case(one, out)?;
        }
        writeln!(out, "  </testsuite>")?;
    }
    writeln!(out, "</testsuites>")
}

fn case(one: &Ran, out: &mut Out) -> io::Result<()> {
    let class = one.section.replace('/', ".");
    let name = match &one.target {
        Some(target) => format!("{} at {target}", one.scenario),
        None => one.scenario.clone(),
    };
    writeln!(out, "    <testcase classname=\"{}\" name=\"{}\">", escaped(&class), escaped(&name))?;
    let came = one.observed.join("; ");
    match one.verdict_words {
        Some(Verdict::Violates) => {
            let what = one.reason.as_deref().unwrap_or(&came);
            writeln!(
                out,
                "      <failure message=\"{}\">{}</failure>",
                escaped(what),
                escaped(&format!("{} {}: {}", one.level, one.section, one.requirement))
            )?;
        }
        Some(Verdict::NotApplicable) => {
            let why = one.reason.as_deref().unwrap_or_default();
            writeln!(out, "      <skipped message=\"{}\"/>", escaped(why))?;
        }
        None => writeln!(out, "      <skipped message=\"destructive\"/>")?,
        Some(_) => {}
    }
    let verdict = one.verdict.unwrap_or("withheld");
    let alive = one.alive.unwrap_or("not-asked");
    let lines = [
        format!("verdict: {verdict}"),
        format!("sent: {}", one.sent.join("; ")),
        format!("came back: {came}"),
        format!("allowed: {}", one.allowed.join("; ")),
        format!("afterwards: {alive}"),
    ];
    writeln!(out, "      <system-out>{}</system-out>", lines.map(|line| escaped(&line)).join("\n"))?;
    writeln!(out, "    </testcase>")
}
