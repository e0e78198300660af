//! The HTML page: a column for each target, a row for each scenario. A cell opens what crossed the wire.
//!
//! All text goes through maud's escaping; nothing here is `PreEscaped`.

use super::lines::Ran;
use super::{Scenario, Verdict};
use crate::html::head;
use core::net::IpAddr;
use core::time::Duration;
use maud::{DOCTYPE, Markup, html};
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::record::{LinkType, Record, Tap, Time};
use rdmascope_present::tables::packets::Carried;
use rdmascope_present::text;
use std::net::SocketAddr;

/// Packets that are drawn of one run: the first of them, and the last.
const FIRST: usize = 120;
const LAST: usize = 40;

/// A packet that crossed, from its IP header on, and when.
pub(crate) struct Crossing {
    pub(crate) time: Time,
    pub(crate) bytes: Vec<u8>,
}

/// A packet in the ladder.
#[derive(Debug, PartialEq, Eq)]
struct Arrow {
    since: Duration,
    /// This side sent it.
    out: bool,
    text: String,
}

/// What is drawn of a run.
#[derive(Debug, Default)]
pub(super) struct Ladder {
    arrows: Vec<Arrow>,
    /// Packets between the first and the last of these.
    left_out: usize,
}

impl Ladder {
    /// The ladder of what crossed between this side and `remote`.
    pub(super) fn of(crossings: &[Crossing], remote: IpAddr) -> Ladder {
        let mut engine = Engine::new(Config { report_packets: true, ..Config::default() });
        let start = crossings.first().map_or(Time(0), |first| first.time);
        let left_out = crossings.len().saturating_sub(FIRST + LAST);
        let mut arrows = Vec::new();
        for (at, crossing) in crossings.iter().enumerate() {
            let record = Record {
                number: at as u64 + 1,
                time: crossing.time,
                link: LinkType::RAW,
                original_length: u32::try_from(crossing.bytes.len()).unwrap_or(u32::MAX),
                dropped: 0,
                tap: Tap::default(),
                data: &crossing.bytes,
            };
            let shown = left_out == 0 || at < FIRST || at >= FIRST + left_out;
            engine.handle(&record, &mut |event| {
                let Event::Packet(packet) = event else { return };
                let Ok(frame) = &packet.frame else { return };
                if !shown {
                    return;
                }
                let text = match packet.readable_headers() {
                    Some(headers) => {
                        format!("{} PSN {}{}", headers.bth.opcode, headers.bth.psn, Carried(headers))
                    }
                    None => "a packet that cannot be read".to_owned(),
                };
                let since = Duration::from_nanos(crossing.time.since(start));
                let out = frame.source.to_string() != remote.to_string();
                arrows.push(Arrow { since, out, text });
            });
        }
        Ladder { arrows, left_out }
    }
}

/// A scenario against a target.
pub(super) struct Cell {
    pub(super) ran: Ran,
    /// `None`: by verbs, where packets are not seen.
    pub(super) ladder: Option<Ladder>,
}

/// The scenarios that ran against one target, in their order.
pub(super) struct Column {
    pub(super) target: SocketAddr,
    pub(super) cells: Vec<Cell>,
}

/// The whole document. Rows are the scenarios, in their order; a column may have fewer, where the run was ended.
pub(super) fn page(scenarios: &[&Scenario], columns: &[Column]) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head("What NFS over RDMA servers do", include_str!("style.css")))
            body {
                header {
                    h1 { "What NFS over RDMA servers do" }
                    p {
                        "A row is a scenario: something that a specification forbids or leaves open was sent. The word in a column is the verdict "
                        "on that server; it opens what was sent, what came back, and the packets that crossed."
                    }
                }
                main {
                    section id="verdicts" { h2 { "Verdicts" } (counts(columns)) (table(scenarios, columns)) }
                    section id="runs" {
                        h2 { "What crossed" }
                        p class="note hint" { "A verdict in the table opens its run here." }
                        @for (number, column) in columns.iter().enumerate() {
                            @for (row, cell) in column.cells.iter().enumerate() { (run(&id(number, row), column, cell)) }
                        }
                    }
                }
                footer { p { "Made by rdmascope " (env!("CARGO_PKG_VERSION")) "." } }
            }
        }
    }
}

/// The word and the look of a verdict.
fn verdict(ran: &Ran) -> (String, &'static str) {
    let look = match ran.verdict_words {
        Some(Verdict::Conforms) => "good",
        Some(Verdict::Violates) => "bad",
        Some(Verdict::Tolerated | Verdict::LostConnection | Verdict::NoAnswer) => "doubt",
        Some(Verdict::NotApplicable) | None => "soft",
    };
    (ran.verdict_words.map_or_else(|| "withheld".to_owned(), |verdict| verdict.to_string()), look)
}

/// By its place, as two rows may have scenarios of one name: a built-in one, and one of a file.
fn id(column: usize, row: usize) -> String {
    format!("run-{}-{}", column + 1, row + 1)
}

/// How often each verdict was given to each target.
fn counts(columns: &[Column]) -> Markup {
    let count = |column: &Column, wanted| {
        column.cells.iter().filter(|cell| cell.ran.verdict_words == Some(wanted)).count()
    };
    html! {
        dl class="counts" {
            @for column in columns {
                div {
                    dt { (column.target) }
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

fn table(scenarios: &[&Scenario], columns: &[Column]) -> Markup {
    html! {
        div class="scroll" {
            table {
                thead {
                    tr {
                        th { "scenario" }
                        th { "section" }
                        @for column in columns { th { (column.target) } }
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
                                        @let (word, look) = verdict(&cell.ran);
                                        a class=(look) href={ "#" (id(number, row)) } { (word) }
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
            div { dt { (name) } dd { @for text in texts { p { (text::Plain(text)) } } } }
        }
    }
}

/// A run: what was sent, what came back, and the ladder.
fn run(id: &str, column: &Column, cell: &Cell) -> Markup {
    let ran = &cell.ran;
    let (word, look) = verdict(ran);
    let reason: Vec<String> = ran.reason.iter().cloned().collect();
    let alive: Vec<String> = ran.alive_words.iter().map(ToString::to_string).collect();
    html! {
        article class="run" id=(id) {
            h3 { code { (ran.scenario) } " " (column.target) ": " span class=(look) { (word) } }
            dl {
                (fact("requirement", &[format!("{}, {}: {}", ran.section, ran.level, ran.requirement)]))
                (fact("sent", &ran.sent))
                (fact("came back", &ran.observed))
                (fact("why", &reason))
                (fact("afterwards", &alive))
                (fact("allowed", &ran.allowed))
                (fact("wrong", &ran.wrong))
            }
            @match &cell.ladder {
                None if ran.verdict_words.is_some() => p class="note" { "The packets of a device are not seen with --verbs." },
                Some(shown) if !shown.arrows.is_empty() => (ladder(shown, column.target)),
                _ => p class="note" { "Nothing crossed." },
            }
            p { a href="#verdicts" { "Back to the verdicts" } }
        }
    }
}

fn ladder(ladder: &Ladder, target: SocketAddr) -> Markup {
    html! {
        div class="scroll" {
            table class="ladder" {
                thead { tr { th { "after" } th { "this side" } th class="remote" { (target.ip()) } th { "packet" } } }
                tbody {
                    @for (at, arrow) in ladder.arrows.iter().enumerate() {
                        @if ladder.left_out > 0 && at == FIRST {
                            tr { td {} td class="arrow" colspan="2" {} td { span class="note" { (ladder.left_out) " packets more" } } }
                        }
                        tr {
                            td class="number" { (format!("{:.3} ms", arrow.since.as_secs_f64() * 1e3)) }
                            td class=(if arrow.out { "arrow out" } else { "arrow in" }) colspan="2" {
                                span class="hidden" { (if arrow.out { "to the server" } else { "from the server" }) }
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
    use super::*;
    use rdmascope_peer::endpoint::{Config as Settings, Connect, Endpoint};
    use rdmascope_peer::frame::enclose;
    use rdmascope_peer::scenario::builtin;
    use rdmascope_peer::time::Instant;

    /// The REQ of an endpoint, as it crosses, one each millisecond.
    fn request(times: usize) -> Vec<Crossing> {
        let (local, remote) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let mut endpoint = Endpoint::new(Settings::default(), 1);
        endpoint.connect(Connect::new(local, remote, 20049)).unwrap();
        let datagram = endpoint.poll_transmit(Instant::default()).unwrap();
        let bytes = enclose(&datagram).unwrap();
        (0..times).map(|at| Crossing { time: Time(1_000_000 * at as i64), bytes: bytes.clone() }).collect()
    }

    #[test]
    fn packets_are_arrows_with_a_side_and_a_time() {
        let ladder = Ladder::of(&request(2), "192.0.2.2".parse().unwrap());
        assert_eq!(ladder.left_out, 0);
        assert_eq!(ladder.arrows.len(), 2);
        assert!(ladder.arrows[0].out && ladder.arrows[0].text.contains("ConnectRequest"), "{ladder:?}");
        assert_eq!(ladder.arrows[1].since, Duration::from_millis(1));
        assert!(!Ladder::of(&request(1), "192.0.2.1".parse().unwrap()).arrows[0].out);
    }

    #[test]
    fn a_long_run_is_drawn_at_its_ends() {
        let ladder = Ladder::of(&request(1000), "192.0.2.2".parse().unwrap());
        assert_eq!((ladder.arrows.len(), ladder.left_out), (FIRST + LAST, 1000 - FIRST - LAST));
        assert_eq!(ladder.arrows[FIRST].since, Duration::from_millis(1000 - LAST as u64));
    }

    #[test]
    fn each_cell_leads_to_its_run_and_text_is_escaped() {
        let mut scenarios = builtin();
        scenarios.truncate(2);
        // A file may have the name of a built-in one.
        scenarios.push(scenarios[0].clone());
        scenarios[0].title = "<script>alert(1)</script>".into();
        let chosen: Vec<&Scenario> = scenarios.iter().collect();
        let column = |target: &str, count: usize| {
            let cell = |scenario: &&Scenario| Cell {
                ran: Ran::withheld(scenario, target.parse().unwrap()),
                ladder: Some(Ladder::of(&request(1), "192.0.2.2".parse().unwrap())),
            };
            Column { target: target.parse().unwrap(), cells: chosen[..count].iter().map(cell).collect() }
        };
        // The second target was not asked everything.
        let columns = [column("192.0.2.2:20049", 3), column("192.0.2.3:20049", 1)];
        let page = page(&chosen, &columns).into_string();
        assert!(page.contains("&lt;script&gt;alert(1)") && !page.contains("<script>"));
        let links: Vec<&str> =
            page.split("href=\"#run-").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
        assert_eq!(links.len(), 4);
        for link in links {
            assert_eq!(page.matches(&format!("id=\"run-{link}\"")).count(), 1, "{link}");
        }
        assert_eq!(page.matches("ConnectRequest").count(), 4);
        assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("src="));
    }

    #[test]
    fn packets_that_are_not_seen_are_not_said_to_be_none() {
        let scenario = &builtin()[0];
        let target: SocketAddr = "192.0.2.2:20049".parse().unwrap();
        let told = |verdict: Option<Verdict>, ladder: Option<Ladder>| {
            let ran = Ran { verdict_words: verdict, ..Ran::withheld(scenario, target) };
            let column = Column { target, cells: vec![Cell { ran, ladder }] };
            page(&[scenario], &[column]).into_string()
        };
        let seen = told(Some(Verdict::Conforms), Some(Ladder::default()));
        let not_seen = told(Some(Verdict::Conforms), None);
        assert!(seen.contains("Nothing crossed.") && !seen.contains("--verbs"));
        assert!(not_seen.contains("--verbs") && !not_seen.contains("Nothing crossed."));
        // What was not run sent nothing, by sockets or by verbs.
        assert!(told(None, None).contains("Nothing crossed."));
    }
}
