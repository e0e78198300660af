//! The findings as a table, by severity, with links to their ladders.

use super::Drawing;
use super::gather::Gathered;
use super::ladders::class;
use maud::{Markup, html};
use rdmascope_analysis::findings::{Group, inconclusive, is_about};
use rdmascope_analysis::names;
use rdmascope_analysis::units::{Counted, Number};
use rdmascope_conformance::Finding;
use rdmascope_present::text::Maybe;

/// Maximum number of rows per rule.
const MOST_ROWS: usize = 25;

/// The content of the section.
pub(super) fn section(gathered: &Gathered, drawing: &Drawing<'_>) -> Markup {
    let groups: Vec<&Group> = gathered.findings.groups().collect();
    if groups.is_empty() {
        return html! { p { "None: no violation of the specifications was found." } };
    }
    html! {
        p {
            "Conclusive findings come before inconclusive ones, which packets missing from the capture could explain. "
            code { "rdmascope check --explain RULE" } " explains a rule and how it is decided."
        }
        div class="scroll" {
            table class="findings" {
                thead {
                    tr {
                        th { "level" } th { "rule" } th { "observation" } th class="number" { "connection" } th { "by" }
                        th { "transaction" } th { "frames" }
                    }
                }
                tbody {
                    @for group in groups {
                        @for finding in group.kept.iter().take(MOST_ROWS) { (row(group, finding, drawing)) }
                        @let further = group.count - group.kept.len().min(MOST_ROWS) as u64;
                        @if further > 0 {
                            tr {
                                td class=(class(group.rule, group.verdict)) { (group.rule.level) (inconclusive(group.verdict)) }
                                td { (group.rule.id) }
                                td colspan="5" class="note" { (Counted(further, "further finding")) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn row(group: &Group, finding: &Finding, drawing: &Drawing<'_>) -> Markup {
    let Group { rule, verdict, .. } = group;
    let sources: Vec<String> = rule.sources.iter().map(ToString::to_string).collect();
    let by = finding.by_requester.map(|requester| if requester { "requester" } else { "responder" });
    html! {
        tr data-rule=(rule.id) {
            td class=(class(rule, *verdict)) { (rule.level) (inconclusive(*verdict)) }
            td title=(sources.join("; ")) { (rule.id) }
            td { (finding.message) }
            td class="number" { (Maybe(finding.connection.map(|connection| connection.0))) }
            td { (Maybe(by)) }
            td { (transaction(finding, drawing)) }
            td { (frames(finding)) }
        }
    }
}

/// The transaction of a finding, with a link if that transaction, or one that has a packet among
/// the evidence, is drawn.
fn transaction(finding: &Finding, drawing: &Drawing<'_>) -> Markup {
    let about = drawing.drawn().find(|(transaction, _)| is_about(finding, transaction));
    let shown = about.or_else(|| {
        let mut drawn = drawing.drawn();
        drawn.find(|(_, ladder)| ladder.marked().any(|frame| finding.frames.contains(&frame)))
    });
    html! {
        @match (finding.transaction, finding.xid, finding.direction) {
            (Some(number), ..) => { "#" (Number(number)) " " },
            (None, Some(xid), Some(direction)) => { "XID " (xid) ", " (names::direction(direction)) " " },
            _ => {},
        }
        @if let Some((transaction, _)) = shown {
            a href={ "#transaction-" (transaction.number) } { "drawn" @if about.is_none() { " at #" (transaction.number) } }
        }
    }
}

fn frames(finding: &Finding) -> Markup {
    html! {
        @for (index, frame) in finding.frames.iter().enumerate() { @if index > 0 { ", " } (frame) }
    }
}
