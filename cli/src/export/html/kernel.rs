//! The kernel traces compared with the packets, as in `analyze`.

use super::page::{duration, number};
use maud::{Markup, html};
use rdmascope_analysis::kernel::{Step, Witness};
use rdmascope_present::page::kernel::Text;
use rdmascope_present::text::Maybe;
use rdmascope_wire::Xid;

/// Maximum number of operations per trace whose steps are shown.
const MOST_OPERATIONS: usize = 32;
/// Maximum number of disagreements listed per trace.
const MOST_TOLD: usize = 20;

/// The content of the section.
pub(super) fn section(witnesses: &[Witness]) -> Markup {
    html! { @for witness in witnesses { (of_trace(witness)) } }
}

fn of_trace(witness: &Witness) -> Markup {
    html! {
        article class="kernel" {
            h3 { "Trace " (witness.trace.name) }
            dl class="facts" {
                @for said in Text(witness).summary() {
                    div { dt { (said.name) } dd class=[said.is_warning.then_some("bad")] { (said.text) } }
                }
            }
            @if !witness.steps.is_empty() { (steps(witness)) }
            (disagreements(witness))
        }
    }
}

/// The time that the host spent in each step.
fn steps(witness: &Witness) -> Markup {
    let operations = witness.by_operation();
    let further = operations.len().saturating_sub(MOST_OPERATIONS);
    html! {
        div class="scroll" {
            table class="steps" {
                thead {
                    tr {
                        th { "host time" } th { "from" } th { "to" } th class="number" { "count" }
                        @for name in ["min", "median", "p99", "max"] { th class="number" { (name) } }
                        th class="number" { "%" }
                    }
                }
                @for steps in operations.into_iter().take(MOST_OPERATIONS) {
                    tbody {
                        @if let Some(first) = steps.first() {
                            tr { th colspan="9" class="protocol" {
                                (first.role.title()) ": " (witness.operation(first))
                            } }
                        }
                        @for step in steps { (row(witness, step)) }
                    }
                }
            }
        }
        @if further > 0 { p class="note" { (further) " further operations took less time: " code { "analyze" } " shows all." } }
    }
}

fn row(witness: &Witness, step: &Step) -> Markup {
    let share = witness.share(step);
    html! {
        tr {
            th { (step.holds()) }
            td { (step.from.word()) }
            td { (step.to.word()) }
            td class="number" { (number(step.count())) }
            @for time in [step.minimum(), step.percentile(50), step.percentile(99), step.maximum()] {
                td class="number" { (duration(time)) }
            }
            td class="number" { data value=(format!("{share:.4}")) { (format!("{:.1}", share * 100.0)) } }
        }
    }
}

/// Disagreements between kernel and packets.
fn disagreements(witness: &Witness) -> Markup {
    if witness.joined.joined == 0 {
        return html! { p { "The trace and the capture have no transaction in common." } };
    }
    if witness.counts.is_empty() {
        return html! { p class="good" { "Kernel and packets agree on every transaction." } };
    }
    let all: u64 = witness.counts.values().sum();
    let further = all.saturating_sub(MOST_TOLD as u64);
    html! {
        p {
            "Kernel and packets disagree: "
            @for (index, (about, count)) in witness.counts.iter().enumerate() {
                @if index > 0 { ", " }
                span class="bad" { (number(*count)) " " (about.word()) }
            }
            "."
        }
        div class="scroll" {
            table class="disagreements" {
                thead {
                    tr {
                        th { "XID" } th { "about" } th { "kernel" } th class="number" { "line" }
                        th { "wire" } th class="number" { "frame" }
                    }
                }
                tbody {
                    @for one in witness.disagreements.iter().take(MOST_TOLD) {
                        tr data-about=(one.difference.about.word()) {
                            td { (Xid(one.xid)) }
                            td { (one.difference.about.word()) }
                            td { (one.difference.kernel) }
                            td class="number" { (Maybe(one.line)) }
                            td { (one.difference.wire) }
                            td class="number" { (Maybe(one.frame)) }
                        }
                    }
                }
            }
        }
        @if further > 0 {
            p class="note" { (number(further)) " more: " code { "analyze --format jsonl" } " has up to " (Witness::MOST_DISAGREEMENTS) "." }
        }
    }
}
