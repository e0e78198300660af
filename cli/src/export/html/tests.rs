use super::*;
use crate::args::Arguments;
use crate::input;
use clap::Parser as _;
use core::fmt::Write as _;
use html5ever::tendril::TendrilSink as _;
use html5ever::{ParseOpts, parse_document};
use markup5ever_rcdom::{Handle, NodeData, RcDom};
use rdmascope_analysis::observer::Observer;
use rdmascope_analysis::paths::Paths;
use rdmascope_conformance::{Finding, Verdict};
use rdmascope_dissector::connection::{Connection, ConnectionId};
use rdmascope_dissector::transaction::{Direction, Outcome};
use rdmascope_dissector::ulb::{Nfs4, Operation, OperationKind, Procedure};
use rdmascope_tests::values::{self as samples, START, after};
use serde_json::Value;

/// An element of a page as parsed by a browser.
#[derive(Debug, Default)]
struct Element {
    name: String,
    attributes: Vec<(String, String)>,
    /// All text in it.
    text: String,
    children: Vec<Element>,
}

impl Element {
    /// Parses the document, which must have no errors.
    fn parse(page: &str) -> Element {
        let dom = parse_document(RcDom::default(), ParseOpts::default()).one(page);
        assert!(dom.errors.borrow().is_empty(), "{:?}", dom.errors.borrow());
        Element::from(&dom.document)
    }

    fn from(handle: &Handle) -> Element {
        let mut element = Element::default();
        if let NodeData::Element { name, attrs, .. } = &handle.data {
            element.name = name.local.to_string();
            let attributes = attrs.borrow();
            element.attributes =
                attributes.iter().map(|a| (a.name.local.to_string(), a.value.to_string())).collect();
        }
        for child in handle.children.borrow().iter() {
            match &child.data {
                NodeData::Text { contents } => element.text.push_str(&contents.borrow()),
                _ => {
                    let child = Element::from(child);
                    element.text.push_str(&child.text);
                    element.children.push(child);
                }
            }
        }
        element
    }

    fn attribute(&self, name: &str) -> Option<&str> {
        let mut attributes = self.attributes.iter();
        attributes.find_map(|(key, value)| (key == name).then_some(value.as_str()))
    }

    /// All elements with this name below this one, in order.
    fn all<'a>(&'a self, name: &'a str) -> Vec<&'a Element> {
        let below = self.children.iter().flat_map(|child| {
            let own = (child.name == name).then_some(child);
            own.into_iter().chain(child.all(name))
        });
        below.collect()
    }

    fn by_id(&self, id: &str) -> Option<&Element> {
        self.children
            .iter()
            .find_map(|child| if child.attribute("id") == Some(id) { Some(child) } else { child.by_id(id) })
    }

    /// The machine-readable values below this element.
    fn values(&self) -> Vec<&str> {
        self.all("data").into_iter().map(|data| data.attribute("value").unwrap()).collect()
    }

    fn every(&self, look: &mut impl FnMut(&Element)) {
        look(self);
        self.children.iter().for_each(|child| child.every(look));
    }
}

fn sample(name: &str) -> Input {
    let path = format!("{}/../samples/{name}.pcap", env!("CARGO_MANIFEST_DIR"));
    Input::file(path.into(), rdmascope_dissector::frame::Config::default().port)
}

fn sample_page(name: &str) -> String {
    report(&sample(name), 10, Vec::new(), Slice::default()).unwrap().0
}

/// The page of hand-made events, drawn as far as that needs no packets.
fn page_of(ending: &Ending, transactions: &[Transaction], connections: &[Connection]) -> String {
    page_with(ending, transactions, connections, &[])
}

/// As [`page_of`], with findings.
fn page_with(
    ending: &Ending,
    transactions: &[Transaction],
    connections: &[Connection],
    findings: &[Finding],
) -> String {
    let mut gathered = Gathered::new(10, Slice::default());
    findings.iter().for_each(|finding| gathered.findings.take(finding));
    for (index, transaction) in transactions.iter().enumerate() {
        let transaction = Transaction { number: index as u64 + 1, ..transaction.clone() };
        gathered.event(Event::Transaction(&transaction), START).unwrap();
    }
    for connection in connections {
        gathered.event(Event::Connection(connection), START).unwrap();
    }
    gathered.finish(ending);
    let drawing = &Drawing::new(&gathered.charts.choice, &gathered.findings, Paths::new());
    let page = Page { gathered: &gathered, ending, drawing, traces: &[] };
    printable(page.render().into_string())
}

fn ending(name: &str) -> Ending {
    let files = vec![rdmascope_analysis::ending::FileEnding { name: name.to_owned(), ..Default::default() }];
    let mut ending = Ending { port: 4791, files, ..Ending::default() };
    ending.totals.records = 100;
    ending.totals.packets = 100;
    ending.totals.span = Some((START, after(12_345_678)));
    ending
}

/// Checks everything that a browser would fetch, run or follow.
fn is_harmless(page: &str) -> Element {
    let document = Element::parse(page);
    document.every(&mut |element| {
        const KNOWN: &str = "html head meta title style body header footer main nav section article figure figcaption h1 h2 h3 p a dl \
                             div dt dd span strong code br data table thead tbody tr th td svg g rect path line text tspan details \
                             summary b i ul li";
        let name = element.name.as_str();
        assert!(name.is_empty() || KNOWN.split_whitespace().any(|known| known == name), "{name}");
        for (key, value) in &element.attributes {
            assert!(!key.starts_with("on"), "{key}={value}");
            assert!(!["src", "srcset", "action", "style", "data"].contains(&key.as_str()), "{key}={value}");
            assert!(key != "href" || value.starts_with('#'), "{key}={value}");
        }
    });
    let style = document.all("style");
    assert_eq!(style.len(), 1);
    assert!(!style[0].text.contains("url(") && !style[0].text.contains("@import"));
    let policy =
        document.all("meta").into_iter().find(|meta| meta.attribute("http-equiv").is_some()).unwrap();
    assert!(policy.attribute("content").unwrap().starts_with("default-src 'none';"));
    let mut targets = document.all("a").into_iter().map(|a| &a.attribute("href").unwrap()[1..]);
    assert!(targets.all(|target| document.by_id(target).is_some()));
    document
}

#[test]
fn help_examples_are_valid() {
    for line in EXAMPLES.lines().filter(|line| line.starts_with("  ")) {
        let command = line.split('|').next_back().unwrap();
        Arguments::try_parse_from(command.split_whitespace())
            .unwrap_or_else(|error| panic!("{line}: {error}"));
    }
}

#[test]
fn pages_are_well_formed_and_self_contained() {
    for name in rdmascope_tests::samples::ALL {
        let page = sample_page(name);
        is_harmless(&page);
        assert!(page.len() < 1 << 20, "{name}: {}", page.len());
        assert_eq!(page, sample_page(name), "{name}");
    }
}

/// The figures of a page equal those that `analyze` writes for programs.
#[test]
fn figures_match_json_lines() {
    for name in ["nfs3-lossy", "nfs4.1-backchannel-recall", "nfs4.2-mtu4096-large-io"] {
        let mut analyzed = rdmascope_analysis::report::Report::default();
        let read = input::listen(&sample(name), Config::default(), |event, _| {
            analyzed.handle(&event);
            Ok(())
        });
        let ending = read.unwrap();
        let mut lines = Vec::new();
        rdmascope_present::json::write_report(&analyzed, &ending, &mut lines).unwrap();
        let lines: Vec<Value> = String::from_utf8(lines)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let of_type = |kind: &str| lines.iter().filter(|line| line["type"] == kind).collect::<Vec<_>>();

        let document = is_harmless(&sample_page(name));
        let table = document.by_id("operation-table").unwrap();
        let rows: Vec<_> = table.all("tr").into_iter().filter(|row| !row.all("data").is_empty()).collect();
        let operations = of_type("operation");
        assert_eq!(rows.len(), operations.len());
        for (row, line) in rows.into_iter().zip(operations) {
            assert_eq!(row.all("th")[0].text, line["operation"].as_str().unwrap());
            let mut expected: Vec<String> =
                ["count", "errors", "bytes"].iter().map(|key| line[key].to_string()).collect();
            let latency = ["min_ns", "median_ns", "p99_ns", "max_ns"].iter();
            expected.extend(latency.map(|key| line["latency"][key].to_string()));
            let shares = [
                "call",
                "ack",
                "sending_before",
                "idle_before",
                "reads",
                "sending_after",
                "idle_after",
                "writes",
                "reply",
            ]
            .iter();
            let shares = shares.map(|key| line["shares"][key].as_f64().unwrap()).filter(|share| *share > 0.0);
            expected.extend(shares.map(|share| format!("{share:.4}")));
            let found: Vec<_> = row.values().into_iter().filter(|value| *value != "0.0000").collect();
            assert_eq!(found, expected, "{name}");
        }

        let capture = of_type("capture")[0];
        let values = document.by_id("capture").unwrap().values();
        let expected = [
            &capture["records"],
            &capture["bytes"],
            &capture["icrc"]["good"],
            &capture["icrc"]["bad"],
            &capture["icrc"]["unverifiable"],
        ];
        let span = values[2];
        assert_eq!([&values[..2], &values[3..]].concat(), expected.map(|value| value.to_string()));
        let (first, last) = ending.totals.span.unwrap();
        assert_eq!(span, last.since(first).to_string());

        let problems: Vec<_> = document
            .all("tr")
            .into_iter()
            .filter_map(|row| Some((row.attribute("data-problem")?.to_owned(), row.values()[0].to_owned())))
            .collect();
        let expected: Vec<_> = of_type("problem")
            .into_iter()
            .map(|line| (line["problem"].as_str().unwrap().to_owned(), line["count"].to_string()))
            .collect();
        assert_eq!(problems, expected);
        let errors = document.by_id("errors").map_or(Vec::new(), |table| table.values());
        let others = of_type("error").into_iter().filter(|line| line["ordinary"] == false);
        let expected: Vec<_> = others.map(|line| line["count"].to_string()).collect();
        assert_eq!(errors, expected);
    }
}

/// The section about a trace shows the same as `analyze`: the steps with their figures, and the
/// disagreements between kernel and packets.
#[test]
fn kernel_trace_has_a_section() {
    let trace = rdmascope_tests::samples::text("nfs3-basic", "client.trace");
    // Plant a disagreement: different credits in one reply of the trace.
    let line = trace.lines().find(|line| line.contains("xprtrdma_reply:")).unwrap();
    let (before, credits) = line.split_once("credits=").unwrap();
    let wrong = trace.replace(line, &format!("{before}credits=9{credits}"));
    let folder = tempfile::tempdir().unwrap();
    for (name, text, differ) in [("<b>client", &trace, 0), ("wrong", &wrong, 1)] {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let read = || kernel_trace::read(core::slice::from_ref(&path)).unwrap();
        let page = report(&sample("nfs3-basic"), 10, read(), Slice::default()).unwrap().0;
        let document = is_harmless(&page);
        let section = document.by_id("kernel").unwrap();
        assert!(section.text.contains(path.to_str().unwrap()));
        let mut joined = GatheredTraces::new(read());
        let listened = input::listen(&sample("nfs3-basic"), Config::default(), |event, _| {
            joined.handle(&event);
            Ok(())
        });
        let ending = listened.unwrap();
        let witness = joined.join(Path::new("capture"), &ending).next().unwrap();
        let mut lines = Vec::new();
        rdmascope_present::json::write_witness(&witness, &mut lines).unwrap();
        let lines = String::from_utf8(lines).unwrap();
        let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let mut expected: Vec<Vec<String>> = lines
            .iter()
            .filter(|line| line["type"] == "kernel_step")
            .map(|line| {
                let figures = ["count", "min_ns", "median_ns", "p99_ns", "max_ns"];
                let share = format!("{:.4}", line["share"].as_f64().unwrap());
                figures.iter().map(|key| line[key].to_string()).chain([share]).collect()
            })
            .collect();
        let steps = section.all("table")[0].all("tr");
        let rows = steps.iter().map(|row| row.values()).filter(|row| !row.is_empty());
        let mut found: Vec<Vec<&str>> = rows.collect();
        expected.sort();
        found.sort();
        assert!(found == expected && expected.len() > 30, "{found:?}\n{expected:?}");
        let rows = section.all("tr").into_iter().filter(|row| row.attribute("data-about").is_some());
        assert_eq!(
            rows.map(|row| row.attribute("data-about").unwrap()).collect::<Vec<_>>(),
            vec!["credits"; differ]
        );
        assert_eq!(section.text.contains("agree on every transaction"), differ == 0);
        assert_eq!(document.all("a").iter().filter(|a| a.attribute("href") == Some("#kernel")).count(), 1);
    }
    assert!(is_harmless(&sample_page("nfs3-basic")).by_id("kernel").is_none());
}

#[test]
fn transaction_exchange_is_drawn() {
    let document = Element::parse(&sample_page("nfs3-lossy"));
    let slowest = document.by_id("slowest").unwrap().all("figure");
    assert_eq!(slowest.len(), 10);
    // The session has one WRITE, whose data the server pulled by RDMA Read at 1 % packet loss.
    assert!(slowest[0].text.starts_with("#13 NFSv3 WRITE"), "{}", slowest[0].text);
    let link = slowest[0].all("a")[0].attribute("href").unwrap();
    let drawn = document.by_id(link.strip_prefix('#').unwrap()).unwrap();
    for part in ["packets sent again", "Send, RDMA_MSG call", "again: RDMA Read", "Send, RDMA_MSG reply"] {
        assert!(drawn.text.contains(part), "{part}: {}", drawn.text);
    }
    let arrows = |class: &str| drawn.all("g").iter().filter(|g| g.attribute("class") == Some(class)).count();
    assert_eq!(arrows("send"), 2);
    assert!(arrows("read") > 0 && arrows("again") > 0 && arrows("ack") > 0);
    assert_eq!(arrows("write"), 0);
}

/// Each ladder is followed by all fields of the Sends, as in `show`.
#[test]
fn transaction_fields_follow_its_ladder() {
    let input = sample("nfs4.1-basic");
    let mut trees = std::collections::BTreeMap::new();
    let keep = Keep { steps: false, contents: true };
    let read = input::listen(&input, Config { keep, ..Config::default() }, |event, _| {
        if let Event::Transaction(transaction) = event {
            let names = [false, true].map(|of_reply| {
                let (fields, _) = rdmascope_present::fields::rpc::of_send(transaction, of_reply);
                let mut names = Vec::new();
                fields.iter().for_each(|field| collect(field, &mut names));
                names
            });
            trees.insert(format!("transaction-{}", transaction.number), names);
        }
        Ok(())
    });
    read.unwrap();
    let document = is_harmless(&sample_page("nfs4.1-basic"));
    let (mut compared, mut deep) = (0, 0);
    for figure in document.all("figure") {
        let Some(names) = figure.attribute("id").and_then(|id| trees.get(id)) else { continue };
        let lists = figure.all("details");
        let sends = lists.iter().filter(|list| list.all("summary")[0].text.ends_with("Send"));
        for (list, names) in sends.zip(names) {
            let found: Vec<_> = list.all("b").into_iter().map(|name| name.text.clone()).collect();
            assert_eq!(found, names[..names.len().min(500)], "{:?}", figure.attribute("id"));
            compared += 1;
            deep += list.all("div").iter().filter(|row| row.attribute("class") == Some("d3")).count();
        }
    }
    assert!(compared >= 20 && deep > 100, "{compared} {deep}");
}

fn collect(field: &rdmascope_present::fields::Field, names: &mut Vec<String>) {
    names.push(field.name.to_string());
    field.children.iter().for_each(|child| collect(child, names));
}

#[test]
fn hostile_names_are_escaped() {
    let hostile = [
        "<script>alert(1)</script>",
        "\"onload=\"alert(1)",
        "'><img src=http://example.net/x onerror=alert(1)>",
        "</title></style></svg><script>alert(1)</script>",
        "<!--",
        "]]>",
        "&lt;script&gt;&#x3c;",
        "javascript:alert(1)",
    ];
    for name in hostile {
        let mut lookup = samples::compound(&[Nfs4::Sequence, Nfs4::Lookup], 13, 5, 10);
        let text = lookup.details.keep(name.as_bytes());
        lookup.details.operations[1].file_name = Some(text);
        let mut ending = ending(name);
        ending.files[0].trouble = Some(rdmascope_capture_agent::Error::Empty { name: name.to_owned() });
        let page = page_of(&ending, &[lookup], &[samples::connection(), samples::inferred()]);
        let document = is_harmless(&page);
        assert_eq!(document.all("title")[0].text, format!("Capture {name}"));
        // Quotes in names are shown after a backslash.
        let shown = name.replace('"', "\\\"");
        assert!(document.by_id("broken").unwrap().text.contains(&shown), "{name}");
        assert!(document.by_id("problems").unwrap().text.contains(name), "{name}");
    }
}

#[test]
fn findings_are_escaped_and_bounded() {
    let name = "</td><script>alert(1)</script>";
    // Each rule is bounded separately, so a few of them are enough.
    let rules: Vec<_> = rdmascope_conformance::rules().step_by(16).collect();
    let mut findings = Vec::new();
    for rule in &rules {
        for index in 0..2000 {
            let verdict = if index % 2 == 0 { Verdict::Certain } else { Verdict::Inconclusive };
            let finding = Finding { rule: Some(rule), verdict, ..Finding::new(name) };
            findings.push(finding.of(&samples::read(7, 10)).frames((index..).take(Finding::MOST_FRAMES)));
        }
    }
    let page = page_with(&ending("findings.pcap"), &[samples::read(7, 10)], &[], &findings);
    let document = is_harmless(&page);
    let section = document.by_id("findings").unwrap();
    assert!(section.text.contains(name));
    let rows = section.all("tr").into_iter().filter(|row| row.attribute("data-rule").is_some()).count();
    assert_eq!(rows, rules.len() * 2 * 25);
    assert_eq!(section.text.matches("975 further findings").count(), rules.len() * 2);
    assert!(page.len() < 60_000 + 600 * rows, "{} for {rows} rows", page.len());
}

#[test]
fn control_characters_are_replaced() {
    let name = "a\0b\x1b[31m\u{202e}gpj.exe\u{7f}\u{85}\u{feff}\r\nz";
    let mut read = samples::read(1, 1);
    let text = read.details.keep(b"\x00\xff\x1b\n");
    read.details.operations[0].file_name = Some(text);
    let page = page_of(&ending(name), &[read], &[]);
    let document = is_harmless(&page);
    assert!(!page.chars().any(|c| c.is_control() && c != '\n' || c == '\u{202e}'));
    assert!(document.all("h1")[0].text.contains("a\u{fffd}b\u{fffd}[31m\u{fffd}gpj.exe"));
}

#[test]
fn empty_capture_has_a_page() {
    let empty = Ending { port: 4791, files: vec![Default::default()], ..Ending::default() };
    let document = is_harmless(&page_of(&empty, &[], &[]));
    assert!(document.text.contains("Nothing visible: no RoCE packets."));
    assert!(document.text.contains("RoCEv2 is expected on UDP port 4791"));
}

#[test]
fn page_size_is_bounded_for_hostile_capture() {
    let mut transactions = Vec::new();
    let mut connections = Vec::new();
    let mut random = 1u64;
    for number in 0..20_000u32 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let procedure = Procedure { program: 500_000 + number % 400, version: number % 7, number };
        let latency = 10i64.pow((random >> 60) as u32 / 2) + (random >> 50) as i64;
        let mut transaction = samples::transaction(procedure, u64::from(number), latency);
        transaction.connection = ConnectionId(number % 300);
        transaction.status = Some(number + 1);
        transaction.direction = if number % 2 == 0 { Direction::Forward } else { Direction::Backward };
        let mut long = String::new();
        (0..100).for_each(|index| write!(long, "{index}<>&\"").unwrap());
        let text = transaction.details.keep(long.as_bytes());
        transaction.details.operations =
            vec![Operation { file_name: Some(text), ..Operation::new(OperationKind::Unknown(number)) }; 200];
        if number % 5 == 0 {
            transaction.outcome = Outcome::NoReply;
            transaction.reply = None;
        }
        transactions.push(transaction);
        connections.push(Connection { id: ConnectionId(number), ..samples::connection() });
    }
    let mut ending = ending("hostile.pcap");
    ending.totals.span = Some((START, after(250_000_000)));
    let page = page_of(&ending, &transactions, &connections);
    is_harmless(&page);
    assert!(page.len() < 4 << 20, "{}", page.len());
}
