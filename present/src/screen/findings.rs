//! The findings about a frame or transaction: a text section, and marks on the ladder.

use super::{Screen, heading, wrapped};
use crate::text::{Painted, Style};
use core::fmt::Display;
use rdmascope_analysis::findings::{inconclusive, sign};
use rdmascope_analysis::names;
use rdmascope_analysis::units::{Counted, Plain};
use rdmascope_conformance::{Finding, Level, Rule, Verdict};
use std::io::{self, Write};

/// Indentation of a finding's details.
const INDENT: usize = 6;
/// The most findings shown.
const MOST: usize = 100;

/// Writes the findings, if any.
pub fn section(findings: &[&Finding], screen: Screen, out: &mut dyn Write) -> io::Result<()> {
    if findings.is_empty() {
        return Ok(());
    }
    heading("Findings", screen, out)?;
    findings.iter().take(MOST).try_for_each(|finding| write(finding, screen, out))?;
    match findings.len().saturating_sub(MOST) as u64 {
        0 => Ok(()),
        further => writeln!(out, "  and {}: --format jsonl has all", Counted(further, "further finding")),
    }
}

fn write(finding: &Finding, screen: Screen, out: &mut dyn Write) -> io::Result<()> {
    // The judge sets the rule of every finding.
    let Some(rule) = finding.rule else { return Ok(()) };
    let head =
        format!("{} {}{}  {}", sign(finding.verdict), rule.level, inconclusive(finding.verdict), rule.id);
    writeln!(out, "  {}", painted(rule, finding.verdict, head, screen.style))?;
    let sources: Vec<String> = rule.sources.iter().map(ToString::to_string).collect();
    for text in [finding.message.clone(), evidence(finding), sources.join("; ")] {
        let text = Plain(text).to_string();
        for line in wrapped(&text, screen.width - INDENT) {
            writeln!(out, "{:INDENT$}{line}", "")?;
        }
    }
    Ok(())
}

/// The end and the transaction that a finding concerns, with its evidence.
fn evidence(finding: &Finding) -> String {
    let mut parts = Vec::new();
    if let Some(requester) = finding.by_requester {
        parts.push(format!("by the {}", if requester { "requester" } else { "responder" }));
    }
    if let (Some(direction), Some(xid)) = (finding.direction, finding.xid) {
        parts.push(format!("{} XID {xid}", names::direction(direction)));
    }
    if let Some(number) = finding.transaction {
        parts.push(format!("transaction {number}"));
    }
    let frames: Vec<String> = finding.frames.iter().map(u64::to_string).collect();
    match frames.as_slice() {
        [] => {}
        [frame] => parts.push(format!("frame {frame}")),
        _ => parts.push(format!("frames {}", frames.join(", "))),
    }
    match (&finding.observed, &finding.allowed) {
        (Some(observed), Some(allowed)) => parts.push(format!("seen {observed}, allowed {allowed}")),
        (Some(observed), None) => parts.push(format!("seen {observed}")),
        (None, Some(allowed)) => parts.push(format!("allowed {allowed}")),
        (None, None) => {}
    }
    parts.join("; ")
}

/// The mark at a rung that is evidence of a finding.
pub(super) fn mark(rule: &Rule, verdict: Verdict) -> String {
    format!("{} {}", sign(verdict), rule.id)
}

/// The legend of a mark.
pub(super) fn legend(verdict: Verdict) -> String {
    let meaning = match verdict {
        Verdict::Certain => "evidence of a finding",
        Verdict::Inconclusive => "evidence of a finding that is inconclusive",
    };
    format!("{} {meaning}", sign(verdict))
}

/// Formats text about a finding: in the colour of its rule's level if it is conclusive.
pub(super) fn painted<T: Display>(rule: &Rule, verdict: Verdict, text: T, style: Style) -> Painted<T> {
    match verdict {
        Verdict::Certain => in_colour_of(rule.level, text, style),
        Verdict::Inconclusive => style.plain(text),
    }
}

/// Formats a value in the colour of a level: red for a violation, yellow for a warning.
pub(crate) fn in_colour_of<T: Display>(level: Level, value: T, style: Style) -> Painted<T> {
    match level {
        Level::Violation => style.red(value),
        Level::Warning => style.yellow(value),
        Level::Advice => style.plain(value),
    }
}
