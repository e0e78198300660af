//! Scenarios and verdicts as text.

use super::lines::{Counts, Ran, Summary};
use crate::output::Out;
use rdmascope_analysis::units::Plain;
use rdmascope_peer::scenario::{Scenario, Side, Verdict};
use std::io::{self, Write as _};

/// Writes a line of the list.
pub(in crate::peer) fn list(scenario: &Scenario, out: &mut Out) -> io::Result<()> {
    let side = if scenario.side == Side::Responder { " (peer serve)" } else { "" };
    let destructive = if scenario.destructive { " (destructive)" } else { "" };
    writeln!(
        out,
        "{:<29} {:<16} {:<6} {}{side}{destructive}",
        Plain(&scenario.name).to_string(),
        scenario.section(),
        scenario.requirement.level,
        Plain(&scenario.title)
    )
}

/// Describes a scenario in full; `text` is the text of its file.
pub(in crate::peer) fn explain(scenario: &Scenario, text: &str, out: &mut impl io::Write) -> io::Result<()> {
    writeln!(out, "{}: {}", Plain(&scenario.name), Plain(&scenario.title))?;
    let requirement = &scenario.requirement;
    writeln!(out, "\n{} {}: {}", requirement.level, scenario.section(), Plain(&requirement.text))?;
    let notes = [
        (scenario.side == Side::Responder, "runs against a client of `rdmascope peer serve --scenario`"),
        (
            scenario.destructive,
            "may crash or exhaust the remote side, or creates a file on it: needs --allow-destructive",
        ),
        (scenario.survives, "the connection must survive"),
    ];
    notes.iter().filter(|note| note.0).try_for_each(|note| writeln!(out, "  {}", note.1))?;
    writeln!(out, "\nallowed:")?;
    scenario.allowed.iter().try_for_each(|pattern| writeln!(out, "  {pattern}"))?;
    if !scenario.wrong.is_empty() {
        writeln!(out, "wrong:")?;
        scenario.wrong.iter().try_for_each(|pattern| writeln!(out, "  {pattern}"))?;
    }
    writeln!(out, "anything else is tolerated")?;
    if !scenario.check.is_empty() {
        writeln!(out, "\n`rdmascope check` reports it as {}", Plain(&scenario.check.join(", ")))?;
    }
    let steps = steps(text);
    if !steps.is_empty() {
        writeln!(out)?;
    }
    steps.iter().try_for_each(|line| writeln!(out, "{}", Plain(line)))
}

/// Returns the lines from the first step on, without empty lines at the end.
fn steps(text: &str) -> Vec<&str> {
    let is_step = |line: &&str| line.trim_start().starts_with("[[steps]]");
    text.trim_end().lines().skip_while(|line| !is_step(line)).collect()
}

/// Writes the result of a scenario.
pub(in crate::peer) fn ran(one: &Ran, out: &mut impl io::Write) -> io::Result<()> {
    let Ran { scenario, .. } = one;
    let requirement = &scenario.requirement;
    let observed = one.observed().join("; ");
    let summary = match (one.verdict(), one.reason()) {
        (None, _) => "destructive: needs --allow-destructive",
        (Some(_), Some(reason)) => reason,
        (Some(_), None) => &observed,
    };
    let alive = one.alive().map(|alive| format!("; {alive}")).unwrap_or_default();
    writeln!(
        out,
        "{:<16} {:<29} {:<16} {:<6} {}{alive}",
        one.verdict_text(),
        Plain(&scenario.name).to_string(),
        scenario.section(),
        requirement.level,
        Plain(summary)
    )?;
    if matches!(
        one.verdict(),
        Some(Verdict::Violates | Verdict::Tolerated | Verdict::LostConnection | Verdict::NoAnswer)
    ) {
        writeln!(out, "    {}", Plain(&requirement.text))?;
        for sent in one.sent() {
            writeln!(out, "    sent       {}", Plain(sent))?;
        }
        writeln!(out, "    received{}", Plain(&observed))?;
        writeln!(out, "    allowed    {}", Plain(&one.allowed().join("; ")))?;
    }
    Ok(())
}

fn row(name: &str, counts: &Counts, out: &mut Out) -> io::Result<()> {
    writeln!(
        out,
        "{name:<18} {:>8} {:>8} {:>9} {:>15} {:>9} {:>14} {:>8}",
        counts.conforms,
        counts.violates,
        counts.tolerated,
        counts.lost_connection,
        counts.no_answer,
        counts.not_applicable,
        counts.withheld
    )
}

/// Writes the summary by section.
pub(super) fn summary(summary: &Summary, out: &mut Out) -> io::Result<()> {
    writeln!(
        out,
        "\n{:<18} {:>8} {:>8} {:>9} {:>15} {:>9} {:>14} {:>8}",
        "section",
        "conforms",
        "violates",
        "tolerated",
        "lost connection",
        "no answer",
        "not applicable",
        "withheld"
    )?;
    summary.sections.iter().try_for_each(|(section, counts)| row(section, counts, out))?;
    row("all", &summary.counts, out)
}
