//! The page: the report of `analyze` as tables, between the summary and the drawings.
//!
//! All text is escaped by maud; neither this module nor the drawings use `PreEscaped`.

use super::Drawing;
use super::capture_points;
use super::charts;
use super::connections;
use super::findings;
use super::gather::Gathered;
use super::kernel;
use super::ladders;
use super::plot::{Sample, block, legend};
use super::values::{bytes, duration, number};
use crate::html::head;
use maud::{DOCTYPE, Markup, html};
use rdmascope_analysis::ending::{Ending, FileEnd};
use rdmascope_analysis::kernel::TraceResults;
use rdmascope_analysis::names::FailureName;
use rdmascope_analysis::report::{Group, Key, Statement, Stats};
use rdmascope_analysis::time::Rfc3339;
use rdmascope_analysis::units::{Counted, Duration, Number};
use rdmascope_dissector::phases::Phases;
use rdmascope_present::text::{Maybe, OtherTraffic};
use rdmascope_present::words;

/// The content of the page.
pub(super) struct Page<'a> {
    pub(super) gathered: &'a Gathered,
    pub(super) ending: &'a Ending,
    pub(super) drawing: &'a Drawing<'a>,
    /// The kernel traces.
    pub(super) traces: &'a [TraceResults],
}

impl Page<'_> {
    /// The complete document.
    pub(super) fn render(&self) -> Markup {
        let title = match self.ending.files.as_slice() {
            [file] => format!("Capture {}", file.title()),
            files => format!("Capture of {} files", files.len()),
        };
        html! {
            (DOCTYPE)
            html lang="en" {
                (head(&title, include_str!("style.css")))
                body {
                    header {
                        p class="kind" { "NFS over RDMA, as captured" }
                        h1 { (title) }
                        (self.summary())
                        nav {
                            a href="#problems" { "Problems" }
                            a href="#findings" { "Findings" }
                            a href="#capture" { "Capture" }
                            a href="#connections" { "Connections" }
                            a href="#operations" { "Operations" }
                            @if self.gathered.end_to_end.is_some() { a href="#places" { "Capture points" } }
                            @if !self.traces.is_empty() { a href="#kernel" { "Kernel" } }
                            a href="#time" { "Over time" }
                            a href="#broken" { "Broken" }
                            a href="#slowest" { "Slowest" }
                        }
                    }
                    main {
                        section id="problems" { h2 { "Problems" } (self.problems()) }
                        section id="findings" {
                            h2 { "Findings" }
                            @match self.ending.nothing_decoded() {
                                Some(why) => { p { "Nothing to judge: " (why) "." } }
                                None => { (findings::section(self.gathered, self.drawing)) }
                            }
                        }
                        section id="capture" { h2 { "Capture" } (self.capture()) }
                        section id="connections" { h2 { "Connections" } (self.connections()) }
                        section id="operations" { h2 { "Operations" } (self.operations()) }
                        @if let Some(end_to_end) = &self.gathered.end_to_end {
                            section id="places" { h2 { "Capture points" } (capture_points::section(end_to_end)) }
                        }
                        @if !self.traces.is_empty() {
                            section id="kernel" { h2 { "Kernel traces" } (kernel::section(self.traces)) }
                        }
                        section id="time" { h2 { "Over time" } (self.over_time()) }
                        section id="broken" {
                            h2 { "Broken transactions" }
                            (self.broken())
                        }
                        section id="slowest" {
                            h2 { "Slowest transactions" }
                            (self.slowest())
                        }
                    }
                    footer {
                        p {
                            "Made by rdmascope " (env!("CARGO_PKG_VERSION"))
                            ". Frame numbers are those of other tools; connection and transaction numbers are those of rdmascope: "
                            code { "rdmascope show FILE --transaction N" }
                            " shows one in full."
                        }
                    }
                }
            }
        }
    }

    /// Number of transactions with both call and reply.
    fn answered(&self) -> u64 {
        self.gathered
            .charts
            .latencies
            .iter()
            .flat_map(|timeline| timeline.intervals())
            .fold(0u64, |sum, interval| {
                sum.saturating_add(interval.0.iter().map(|count| u64::from(*count)).sum())
            })
    }

    /// Number of findings that are violations.
    fn violations(&self) -> u64 {
        let groups = self.gathered.findings.groups().filter(|group| group.is_violation());
        groups.map(|group| group.count).sum()
    }

    /// The statements that lead the report, and the most important figures.
    fn summary(&self) -> Markup {
        let totals = &self.ending.totals;
        let length = totals.span.map(|(first, last)| last.since(first));
        let (transactions, connections) = match &self.ending.chosen {
            Some(chosen) => (chosen.transactions, chosen.connections),
            None => (totals.transactions.iter().sum(), totals.connections),
        };
        let (errors, further) = self.gathered.report.errors();
        let errors = errors.iter().map(|(_, error)| error.count).sum::<u64>() + further;
        let verdict = self.gathered.report.verdict(self.ending, self.violations());
        let leading = Statement::leading(&verdict);
        let problems = self.gathered.report.problems(self.ending);
        let of = |group| -> u64 {
            problems.iter().filter(|problem| problem.group == group).map(|p| p.count).sum()
        };
        let (violations, broken) = (self.violations(), self.gathered.charts.choice.broken_count());
        let tile = |name: &str, value: Markup, bad: bool| {
            html! { div { dt { (name) } dd class=[bad.then_some("bad")] { (value) } } }
        };
        html! {
            @if !leading.is_empty() {
                ul class="verdict" {
                    @for statement in leading { li class="bad" { (statement.text) } }
                }
            }
            dl class="tiles" {
                (tile("time", html! { (Maybe(length.map(Duration))) }, false))
                (tile("packets", number(totals.records), false))
                (tile("connections", number(connections), false))
                (tile("transactions", number(transactions), false))
                (tile("violations", number(violations), violations > 0))
                (tile("errors in replies", number(errors), errors > 0))
                (tile("broken transactions", number(broken), broken > 0))
                (tile("transport problems", number(of(Group::Transport)), of(Group::Transport) > 0))
                (tile("missing from the capture", number(of(Group::Capture)), of(Group::Capture) > 0))
            }
        }
    }

    fn problems(&self) -> Markup {
        let report = &self.gathered.report;
        let verdict = report.verdict(self.ending, 0);
        if let Some(nothing) = report.nothing_wrong(self.ending, &verdict) {
            let class = if report.operations().is_empty() { "note" } else { "good" };
            return html! { p class=(class) { (nothing) } };
        }
        let (errors, further) = report.errors();
        let problems = report.problems(self.ending);
        let events: Vec<_> = verdict.iter().filter(|statement| statement.is_of_events).collect();
        html! {
            @for file in self.ending.listed_files().listed.into_iter().filter(|file| !file.is_complete()) {
                p class="bad" { (file.title()) ": " (FileEnd(file)) }
            }
            @if !events.is_empty() {
                h3 { "Service" }
                div class="scroll" {
                    table id="losses" {
                        thead { tr { th { "problem" } th class="number" { "frame" } } }
                        tbody {
                            @for statement in events {
                                tr {
                                    td class="bad" { (statement.text) }
                                    td class="number" { (Maybe(statement.frame)) }
                                }
                            }
                        }
                    }
                }
            }
            @if !errors.is_empty() {
                h3 { "Errors in replies" }
                div class="scroll" {
                    table id="errors" {
                        thead {
                            tr {
                                th class="number" { "count" } th { "protocol" } th { "operation" } th { "error" }
                                th class="number" { "first in frame" }
                            }
                        }
                        tbody {
                            @for (key, error) in &errors {
                                tr {
                                    td class="number" { (number(error.count)) }
                                    td { (Maybe(key.protocol)) }
                                    td { (key.label) }
                                    td class="bad" { (FailureName(key.failure, key.protocol)) }
                                    td class="number" { (Maybe(error.first_frame)) }
                                }
                            }
                        }
                    }
                }
                @if further > 0 { p class="note" { (Counted(further, "error")) " of other kinds" } }
            }
            @for group in Group::ALL {
                @let problems: Vec<_> = problems.iter().filter(|problem| problem.group == group).collect();
                @if !problems.is_empty() {
                    h3 { (group.heading()) }
                    div class="scroll" {
                        table class="problems" {
                            thead { tr { th class="number" { "count" } th { "problem" } th class="number" { "first in frame" } } }
                            tbody {
                                @for problem in problems {
                                    tr data-problem=(problem.name) {
                                        td class={ "number " (if group == Group::Capture { "doubt" } else { "bad" }) } { (number(problem.count)) }
                                        td { (problem.description()) }
                                        td class="number" { (Maybe(problem.first_frame)) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    /// The captured files and packets, and the missing ones.
    fn capture(&self) -> Markup {
        let Ending { totals, port, .. } = self.ending;
        let files = self.ending.listed_files();
        let [good, bad, unverifiable] = totals.icrc;
        let row = |name: &str, value: Markup| html! { div { dt { (name) } dd { (value) } } };
        html! {
            dl class="facts" {
                @for file in &files.listed {
                    (row("file", html! { (file.title()) ": " span class=[(!file.is_complete()).then_some("bad")] { (FileEnd(file)) } }))
                }
                @for text in files.others_text() { (row("files", html! { (text) })) }
                @if let Some(apart) = self.ending.apart() {
                    (row("note", html! { span class="doubt" { (apart.to_string()) ": they are read as one capture" } }))
                }
                (row("packets", html! {
                    (number(totals.records)) " (" (bytes(totals.bytes)) " on the wire)"
                    @if totals.cut_records > 0 {
                        ", " span class="doubt" { (number(totals.cut_records)) " truncated by a snap length" }
                    }
                    @if totals.records_without_payload > 0 {
                        ", " (number(totals.records_without_payload)) " without RDMA payload"
                    }
                }))
                @if let Some((first, last)) = totals.span {
                    (row("span", html! { (Rfc3339::from(first)) " to " (Rfc3339::from(last)) " (" (duration(last.since(first))) ")" }))
                }
                @if let Some(chosen) = &self.ending.chosen {
                    (row("chosen", html! { (chosen.to_string()) ": operations, errors, drawings and findings are limited to these" }))
                }
                @if totals.segments > 0 {
                    (row("iWARP", html! { (Counted(totals.segments, "TCP segment")) }))
                }
                @if totals.packets == 0 {
                    @if totals.segments == 0 {
                        (row("RoCE", html! { "none; RoCEv2 is expected on UDP port " (port) }))
                    }
                } @else {
                    (row(words::fabric(totals), html! {
                        (Counted(totals.packets, "packet")) ", with " (Counted(totals.cm_messages, "CM message"))
                        @if totals.other_transports > 0 { " and " (Number(totals.other_transports)) " of transports other than RC" }
                    }))
                    (row("ICRC", html! {
                        (number(good)) " good, "
                        span class=[(bad > 0).then_some("bad")] { (number(bad)) " bad" }
                        ", " (number(unverifiable)) " not verifiable"
                    }))
                }
                @if totals.copies > 0 {
                    (row("copies", html! {
                        (Counted(totals.copies, "packet")) " captured twice (" (self.ending.reason_for_copies()) "). Counted once below"
                    }))
                }
                @if totals.others + totals.unknown_link > 0 {
                    (row("other traffic", html! {
                        (Counted(totals.others + totals.unknown_link, "packet")) (OtherTraffic(totals))
                    }))
                }
            }
        }
    }

    fn connections(&self) -> Markup {
        let (connections, further) = self.gathered.report.connections();
        html! {
            @if connections.is_empty() { p { "None." } }
            @for connection in connections { (connections::article(connection)) }
            @if further > 0 {
                p class="note" { (Counted(further, "further connection")) ": " code { "rdmascope connections" } " lists all." }
            }
        }
    }

    fn operations(&self) -> Markup {
        let operations = self.gathered.report.operations();
        if operations.is_empty() {
            return html! { p { "No RPC transactions." } };
        }
        html! {
            div class="scroll" {
                table id="operation-table" {
                    thead {
                        tr {
                            th rowspan="2" { "operation" }
                            th rowspan="2" class="number" { "count" }
                            th rowspan="2" class="number" { "errors" }
                            th rowspan="2" class="number" { "bytes" }
                            th colspan="4" class="group" { "latency" }
                            th colspan=(Phases::COUNT + 1) class="group" { "share of the time, %" }
                        }
                        tr {
                            @for name in ["min", "median", "p99", "max"] { th class="number" { (name) } }
                            @for (index, name) in Phases::NAMES.into_iter().enumerate() {
                                th class="number" { span class={ "key f" (index) } {} (name) }
                            }
                            th {}
                        }
                    }
                    @for group in operations.chunk_by(|(a, _), (b, _)| (a.protocol, a.backward) == (b.protocol, b.backward)) {
                        tbody {
                            @if let Some((key, _)) = group.first() {
                                tr { th colspan=(Phases::COUNT + 9) class="protocol" {
                                    @match key.protocol { Some(protocol) => (protocol), None => "call unknown" }
                                    @if key.backward { ", backward" }
                                } }
                            }
                            @for (key, stats) in group { (operation(key, stats)) }
                        }
                    }
                }
            }
            p class="note" {
                "Errors include those that normal work brings, such as NOENT of a LOOKUP, which are no problem. "
                "Bytes are those of DDP-eligible items, or, if a message has none, those moved by RDMA. Latency is from the packet "
                "that completes the call to the one that completes the reply. The time of a transaction consists of the call's Send; the time "
                "to its ACK (network and server queue pair); the time before the first RDMA operation or the reply; RDMA Reads; the "
                "time between and after; RDMA Writes; the reply's Send. Time before and after RDMA operations is \u{201c}sending\u{201d} "
                "while data of the responder was in flight, mostly of other transactions, or data of the requester had to be sent again. "
                "The rest is \u{201c}server\u{201d}. If the capture has neither the ACK nor a round trip before it, its time counts as \u{201c}before\u{201d}."
            }
            @if let Some(chart) = charts::latencies(&operations) { (chart) }
        }
    }

    fn over_time(&self) -> Markup {
        const MOST_CREDITS: usize = 4;
        let gathered = self.gathered;
        if let Some(why) = self.ending.nothing_decoded() {
            return html! { p { "Nothing to draw: " (why) "." } };
        }
        let credits = gathered.charts.credits.busiest(MOST_CREDITS);
        let further = gathered.charts.credits.count() - credits.len();
        let [forward, backward] = &gathered.charts.latencies;
        let drawn: Vec<Markup> = [
            charts::throughput(gathered),
            charts::operations(gathered),
            charts::heat(forward, "Latency of transactions by the time they ended"),
            charts::heat(backward, "Latency of backward transactions by the time they ended"),
        ]
        .into_iter()
        .flatten()
        .chain(credits.into_iter().map(charts::credits))
        .collect();
        html! {
            @if drawn.is_empty() { p { "None." } }
            div class="charts" { @for chart in drawn { (chart) } }
            @if further > 0 { p class="note" { "Only the busiest are shown; " (further) " more are omitted." } }
        }
    }

    fn broken(&self) -> Markup {
        let choice = &self.gathered.charts.choice;
        let figures = choice.broken().into_iter().filter_map(|(transaction, reason)| {
            let ladder = self.drawing.ladder(transaction)?;
            Some(ladders::broken(transaction, reason, ladder, self.drawing))
        });
        let order = "one of each kind first, then the others, worst first";
        html! {
            (ladders(choice.broken_count(), "broken transaction", order, figures.collect()))
            p class="note" {
                "A transaction is broken if it has no reply, if its reply has an error that normal work does not bring, if it "
                "is malformed, if its packets were sent again, or if bytes of it were not moved or are missing."
            }
        }
    }

    fn slowest(&self) -> Markup {
        let choice = &self.gathered.charts.choice;
        let broken: Vec<_> = choice.broken().into_iter().map(|(transaction, _)| transaction.number).collect();
        let figures = choice.slowest().into_iter().filter_map(|transaction| {
            let is_broken = broken.contains(&transaction.number);
            let ladder = self.drawing.ladder(transaction)?;
            Some(ladders::slow(transaction, is_broken, ladder, self.drawing))
        });
        ladders(self.answered(), "answered transaction", "slowest first", figures.collect())
    }
}

/// The ladders of transactions of a kind. The capture has `count` such transactions.
fn ladders(count: u64, kind: &'static str, order: &str, figures: Vec<Markup>) -> Markup {
    if count == 0 {
        return html! { p { "None." } };
    }
    html! {
        p {
            @if (figures.len() as u64) < count { (figures.len()) " of " }
            (Counted(count, kind)) ", " (order)
            ". Time runs downwards, to scale. An arrow starts at the time of its first packet, and its band "
            "ends at the time of its last."
        }
        (legend([
            (Sample::Across("shaft send"), "Send".to_owned()),
            (Sample::Across("shaft read"), "RDMA Read".to_owned()),
            (Sample::Across("shaft write"), "RDMA Write".to_owned()),
            (Sample::Across("shaft ack"), "acknowledgement".to_owned()),
            (Sample::Across("shaft nak"), "NAK".to_owned()),
            (Sample::Across("shaft again"), "sent again".to_owned()),
        ]))
        div class="ladders" { @for figure in figures { (figure) } }
    }
}

/// A row of the table of operations.
fn operation(key: &Key, stats: &Stats) -> Markup {
    let latency = stats.latency();
    let shares = stats.shares();
    html! {
        tr {
            th { (key.label) }
            td class="number" { (number(stats.count)) }
            td class="number" { (number(stats.errors)) }
            td class="number" { @if stats.bytes == 0 { data value="0" { "-" } } @else { (bytes(stats.bytes)) } }
            @for value in [
                latency.map(|latency| latency.minimum),
                latency.map(|latency| latency.median),
                latency.map(|latency| latency.p99),
                latency.map(|latency| latency.maximum),
            ] {
                td class="number" { @match value { Some(value) => (duration(value)), None => "-" } }
            }
            @for index in 0..Phases::NAMES.len() {
                td class="number" {
                    @match shares.map(|shares| shares[index]).filter(|share| *share > 0.0) {
                        Some(share) => data value=(format!("{share:.4}")) { (format!("{:.1}", share * 100.0)) },
                        None => "-",
                    }
                }
            }
            td { @if let Some(shares) = shares { (share_bar(shares)) } }
        }
    }
}

/// A bar of shares.
fn share_bar(shares: [f64; Phases::COUNT]) -> Markup {
    const WIDTH: f64 = 100.0;
    let ends = shares.iter().scan(0.0, |end, share| {
        *end += share * WIDTH;
        Some(*end)
    });
    let pieces: Vec<_> = ends.zip(shares).enumerate().collect();
    html! {
        svg class="shares" width="100" height="10" viewBox="0 0 100 10" aria-hidden="true" {
            @for (index, (end, share)) in pieces {
                (block(&format!("f{index}"), (end - share * WIDTH, end), (0.0, 10.0), html! {
                    (Phases::NAMES[index]) ": " (format!("{:.1}", share * 100.0)) " %"
                }))
            }
        }
    }
}
