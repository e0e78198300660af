//! The HTML page: a column for each target and a row for each scenario. A cell links to its
//! packets.
//!
//! maud escapes all text; this module uses no `PreEscaped`.

use super::ladder::Ladder;
use super::lines::Ran;
use crate::html::head;
use core::time::Duration;
use maud::{DOCTYPE, Markup, html};
use rdmascope_analysis::units::Plain;
use rdmascope_peer::scenario::{Scenario, Side, Verdict};

/// The result of a scenario against one target.
pub(super) struct Cell {
    pub(super) ran: Ran,
    /// `None` for verbs, where packets are not visible.
    pub(super) ladder: Option<Ladder>,
}

/// The scenarios of one target, or of one run of a server, in order.
pub(super) struct Column {
    /// The heading; `None`: the only client, or a generic name for several clients.
    pub(super) name: Option<String>,
    pub(super) cells: Vec<Cell>,
}

impl Column {
    /// Returns the heading.
    fn name(&self) -> &str {
        let mut targets = self.cells.iter().filter_map(|cell| cell.ran.target.as_deref());
        let first = targets.next();
        let only = first.filter(|first| targets.all(|other| other == *first));
        self.name.as_deref().or(only).unwrap_or("clients")
    }
}

/// Texts that differ between servers and clients as targets.
struct Words {
    title: &'static str,
    introduction: &'static str,
    to: &'static str,
    from: &'static str,
}

const SERVERS: Words = Words {
    title: "Behavior of NFS over RDMA servers",
    introduction: "Each row is a scenario, which sends something that a specification forbids or leaves open. The word in a column is the verdict \
                   on that server. It links to the messages sent, the reactions, and the packets.",
    to: "to the server",
    from: "from the server",
};

const CLIENTS: Words = Words {
    title: "Behavior of NFS over RDMA clients",
    introduction: "Each row is a scenario, which answers a client's call in a way that a specification forbids or leaves open. The word is \
                   the verdict on that client. It links to the messages sent, the reactions, and the packets.",
    to: "to the client",
    from: "from the client",
};

/// Returns the texts for scenarios of this side.
const fn words(side: Side) -> &'static Words {
    match side {
        Side::Requester => &SERVERS,
        Side::Responder => &CLIENTS,
    }
}

/// Builds the document. An interrupted run may have fewer cells than there are scenarios.
pub(super) fn page(side: Side, scenarios: &[Scenario], columns: &[Column]) -> Markup {
    let words = words(side);
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(words.title, include_str!("style.css")))
            body {
                header {
                    h1 { (words.title) }
                    p { (words.introduction) }
                }
                main {
                    section id="verdicts" { h2 { "Verdicts" } (counts(columns)) (table(scenarios, columns)) }
                    section id="runs" {
                        h2 { "Runs" }
                        p class="note hint" { "Click a verdict in the table to see its run here." }
                        @for (number, column) in columns.iter().enumerate() {
                            @for (row, cell) in column.cells.iter().enumerate() { (run(words, &id(number, row), cell)) }
                        }
                    }
                }
                footer { p { "Made by rdmascope " (env!("CARGO_PKG_VERSION")) "." } }
            }
        }
    }
}

/// Returns the CSS class of a verdict.
fn look(ran: &Ran) -> &'static str {
    match ran.verdict() {
        Some(Verdict::Conforms) => "good",
        Some(Verdict::Violates) => "bad",
        Some(Verdict::Tolerated | Verdict::LostConnection | Verdict::NoAnswer) => "doubt",
        Some(Verdict::NotApplicable) | None => "soft",
    }
}

/// Builds an ID from the position, because a built-in scenario and one from a file may share a
/// name.
fn id(column: usize, row: usize) -> String {
    format!("run-{}-{}", column + 1, row + 1)
}

/// Builds the counts of each verdict by target.
fn counts(columns: &[Column]) -> Markup {
    let count = |column: &Column, wanted| {
        column.cells.iter().filter(|cell| cell.ran.verdict() == Some(wanted)).count()
    };
    html! {
        dl class="counts" {
            @for column in columns {
                div {
                    dt { (column.name()) }
                    dd {
                        @for (index, wanted) in Verdict::ALL.into_iter().enumerate() {
                            @if index > 0 { ", " }
                            (count(column, wanted)) " " (wanted)
                        }
                    }
                }
            }
        }
    }
}

fn table(scenarios: &[Scenario], columns: &[Column]) -> Markup {
    html! {
        div class="scroll" {
            table {
                thead {
                    tr {
                        th { "scenario" }
                        th { "section" }
                        @for column in columns { th { (column.name()) } }
                    }
                }
                tbody {
                    @for (row, scenario) in scenarios.iter().enumerate() {
                        tr {
                            th scope="row" { code { (scenario.name) } span class="note" { (scenario.title) } }
                            td { (scenario.section()) span class="note" { (scenario.requirement.level) } }
                            @for (number, column) in columns.iter().enumerate() {
                                td {
                                    @if let Some(cell) = column.cells.get(row) {
                                        a class=(look(&cell.ran)) href={ "#" (id(number, row)) } { (cell.ran.verdict_text()) }
                                        @if let Some(target) = cell.ran.target.as_deref().filter(|it| *it != column.name()) {
                                            span class="note" { (target) }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn fact(name: &str, texts: &[String]) -> Markup {
    html! {
        @if !texts.is_empty() {
            div { dt { (name) } dd { @for text in texts { p { (Plain(text)) } } } }
        }
    }
}

/// Builds a run: the messages sent, the reactions, and the ladder.
fn run(words: &Words, id: &str, cell: &Cell) -> Markup {
    let ran = &cell.ran;
    let Ran { scenario, target, .. } = ran;
    let requirement = &scenario.requirement;
    let reason: Vec<String> = ran.reason().map(str::to_owned).into_iter().collect();
    let alive: Vec<String> = ran.alive().iter().map(ToString::to_string).collect();
    html! {
        article class="run" id=(id) {
            h3 { code { (scenario.name) } @if let Some(target) = target { " " (target) } ": " span class=(look(ran)) { (ran.verdict_text()) } }
            dl {
                (fact("requirement", &[format!("{}, {}: {}", scenario.section(), requirement.level, requirement.text)]))
                (fact("sent", ran.sent()))
                (fact("received", &ran.observed()))
                (fact("reason", &reason))
                (fact("afterwards", &alive))
                (fact("allowed", &ran.allowed()))
                (fact("wrong", &ran.wrong()))
            }
            @match &cell.ladder {
                None if ran.outcome.is_some() => p class="note" { "Packets are not visible with --verbs." },
                Some(shown) if !shown.arrows.is_empty() => (ladder(words, shown)),
                _ => p class="note" { "No packets crossed." },
            }
            p { a href="#verdicts" { "Back to the verdicts" } }
        }
    }
}

fn ladder(words: &Words, ladder: &Ladder) -> Markup {
    html! {
        div class="scroll" {
            table class="ladder" {
                thead { tr { th { "after" } th { "this side" } th class="remote" { (ladder.remote) } th { "packet" } } }
                tbody {
                    @for (at, arrow) in ladder.arrows.iter().enumerate() {
                        @if ladder.left_out > 0 && at == ladder.first {
                            tr { td {} td class="arrow" colspan="2" {} td { span class="note" { (ladder.left_out) "  more packets" } } }
                        }
                        tr {
                            td class="number" { (format!("{:.3} ms", Duration::from_nanos(arrow.since).as_secs_f64() * 1e3)) }
                            td class=(if arrow.out { "arrow out" } else { "arrow in" }) colspan="2" {
                                span class="hidden" { (if arrow.out { words.to } else { words.from }) }
                            }
                            td class="what" { (arrow.text) }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ladder::tests::request;
    use super::*;
    use rdmascope_peer::scenario::{Alive, Outcome, builtin, builtin_of};

    fn drawn(remote: &str) -> Option<Ladder> {
        Some(Ladder::of(&request(1, remote), remote.parse().unwrap()))
    }

    fn withheld(scenario: &Scenario, target: Option<&str>) -> Ran {
        Ran { target: target.map(str::to_owned), scenario: scenario.clone(), outcome: None }
    }

    #[test]
    fn each_cell_links_to_its_run_and_text_is_escaped() {
        let mut scenarios = builtin();
        scenarios.truncate(2);
        // A file may have the name of a built-in scenario.
        scenarios.push(scenarios[0].clone());
        scenarios[0].title = "<script>alert(1)</script>".into();
        let column = |target: &str, count: usize| {
            let cell = |scenario: &Scenario| Cell {
                ran: withheld(scenario, Some(target)),
                ladder: drawn("192.0.2.2"),
            };
            Column { name: Some(target.to_owned()), cells: scenarios[..count].iter().map(cell).collect() }
        };
        // The second target did not run everything.
        let columns = [column("192.0.2.2:20049", 3), column("192.0.2.3:20049", 1)];
        let page = page(Side::Requester, &scenarios, &columns).into_string();
        assert!(page.contains("&lt;script&gt;alert(1)") && !page.contains("<script>"));
        let links: Vec<&str> =
            page.split("href=\"#run-").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
        assert_eq!(links.len(), 4);
        for link in links {
            assert_eq!(page.matches(&format!("id=\"run-{link}\"")).count(), 1, "{link}");
        }
        assert_eq!(page.matches("ConnectRequest").count(), 4);
        assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("src="));
        assert!(page.contains("to the server") && !page.contains("client"));
    }

    #[test]
    fn unobserved_packets_are_not_reported_as_none() {
        let scenario = &builtin()[0];
        let rendered = |verdict: Option<Verdict>, ladder: Option<Ladder>| {
            let outcome = verdict.map(|verdict| Outcome {
                verdict,
                reason: String::new(),
                sent: Vec::new(),
                observed: Vec::new(),
                alive: Alive::OnThis,
            });
            let ran = Ran { outcome, ..withheld(scenario, Some("192.0.2.2:20049")) };
            let column = Column { name: Some("192.0.2.2:20049".into()), cells: vec![Cell { ran, ladder }] };
            page(Side::Requester, std::slice::from_ref(scenario), &[column]).into_string()
        };
        let seen = rendered(Some(Verdict::Conforms), Some(Ladder::default()));
        let not_seen = rendered(Some(Verdict::Conforms), None);
        assert!(seen.contains("No packets crossed.") && !seen.contains("--verbs"));
        assert!(not_seen.contains("--verbs") && !not_seen.contains("No packets crossed."));
        // A scenario that did not run sent nothing, by sockets or by verbs.
        assert!(rendered(None, None).contains("No packets crossed."));
    }

    #[test]
    fn rows_name_the_clients_if_there_are_several() {
        let scenarios: Vec<Scenario> = builtin_of(Side::Responder).into_iter().take(3).collect();
        let shown = |targets: [Option<&str>; 3]| {
            let cells = scenarios.iter().zip(targets).map(|(scenario, target)| Cell {
                ran: withheld(scenario, target),
                ladder: target.and_then(drawn),
            });
            let column = Column { name: None, cells: cells.collect() };
            page(Side::Responder, &scenarios, &[column]).into_string()
        };
        // A single client is the heading of the column. No client came for the third scenario.
        let one = shown([Some("192.0.2.2"), Some("192.0.2.2"), None]);
        assert!(one.contains("<th>192.0.2.2</th>") && !one.contains("<th>clients</th>"));
        assert!(one.contains("to the client") && !one.contains("server;"));
        assert!(!one.contains("<span class=\"note\">192.0.2.2</span>"));
        let two = shown([Some("192.0.2.2"), Some("192.0.2.3"), None]);
        assert!(two.contains("<th>clients</th>"));
        for client in ["192.0.2.2", "192.0.2.3"] {
            assert_eq!(two.matches(&format!("<span class=\"note\">{client}</span>")).count(), 1, "{client}");
            assert!(two.contains(&format!("<th class=\"remote\">{client}</th>")), "{client}");
        }
        assert!(shown([None; 3]).contains("<th>clients</th>"));
    }
}
