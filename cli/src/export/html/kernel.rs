//! The kernel traces compared with the packets, as in `analyze`.

use super::values::{duration, number};
use maud::{Markup, html};
use rdmascope_analysis::kernel::{Step, TraceResults};
use rdmascope_present::page::kernel::Text;
use rdmascope_present::text::Maybe;
use rdmascope_wire::Xid;

/// Maximum number of operations per trace whose steps are shown.
const MOST_OPERATIONS: usize = 32;
/// Maximum number of disagreements listed per trace.
const MOST_LISTED: usize = 20;

/// The content of the section.
pub(super) fn section(traces: &[TraceResults]) -> Markup {
    html! { @for results in traces { (of_trace(results)) } }
}

fn of_trace(results: &TraceResults) -> Markup {
    html! {
        article class="kernel" {
            h3 { "Trace " (results.trace.name) }
            dl class="facts" {
                @for fact in Text(results).summary() {
                    div { dt { (fact.name) } dd class=[fact.is_warning.then_some("bad")] { (fact.text) } }
                }
            }
            @if !results.steps.is_empty() { (steps(results)) }
            (disagreements(results))
        }
    }
}

/// The time that the host spent in each step.
fn steps(results: &TraceResults) -> Markup {
    let operations = results.by_operation();
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
                                (first.role.title()) ": " (results.operation(first))
                            } }
                        }
                        @for step in steps { (row(results, step)) }
                    }
                }
            }
        }
        @if further > 0 { p class="note" { (further) " further operations took less time: " code { "analyze" } " shows all." } }
    }
}

fn row(results: &TraceResults, step: &Step) -> Markup {
    let share = results.share(step);
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
fn disagreements(results: &TraceResults) -> Markup {
    if results.joined.joined == 0 {
        return html! { p { "The trace and the capture have no transaction in common." } };
    }
    if results.counts.is_empty() {
        return html! { p class="good" { "Kernel and packets agree on every transaction." } };
    }
    let all: u64 = results.counts.values().sum();
    let further = all.saturating_sub(MOST_LISTED as u64);
    html! {
        p {
            "Kernel and packets disagree: "
            @for (index, (about, count)) in results.counts.iter().enumerate() {
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
                    @for one in results.disagreements.iter().take(MOST_LISTED) {
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
            p class="note" { (number(further)) " more: " code { "analyze --format jsonl" } " has up to " (TraceResults::MOST_DISAGREEMENTS) "." }
        }
    }
}
