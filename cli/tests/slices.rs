//! `export pcapng` of selected transactions: the output gives the same results for them as the
//! complete capture.

mod binary;

use binary::{Temporary, json_lines, lines, run, sample, text};
use serde_json::Value;

/// A line without the numbers that differ in a smaller capture, and without the fields that depend
/// on other transactions: paths, and the parts of the server's time in which their data was in
/// flight.
fn without_numbers(line: &Value) -> Value {
    const OTHERS: [&str; 5] = ["number", "connection", "frame", "file", "other_file"];
    const PARTS: [&str; 2] = ["sending", "idle"];
    match line {
        Value::Object(fields) => {
            let is_kept = |name: &str| {
                !OTHERS.contains(&name)
                    && !name.ends_with("_frame")
                    && !PARTS.iter().any(|part| name.starts_with(part))
            };
            let kept = fields.iter().filter(|(name, _)| is_kept(name));
            Value::Object(kept.map(|(name, value)| (name.clone(), without_numbers(value))).collect())
        }
        Value::Array(values) => Value::Array(values.iter().map(without_numbers).collect()),
        value => value.clone(),
    }
}

fn transactions(capture: &str, options: &[&str]) -> Vec<Value> {
    let arguments = [&["transactions", capture, "--format", "jsonl"], options].concat();
    lines(&run(&arguments)).iter().map(without_numbers).collect()
}

#[test]
fn slice_gives_the_same_transactions() {
    for name in ["nfs3-basic", "nfs3-lossy", "nfs4.1-backchannel-recall", "nfs4.2-mtu4096-large-io"] {
        let capture = sample(&format!("{name}.pcap"));
        for options in [["--operation", "READ,WRITE"], ["--where", "latency > 3ms"]] {
            let part = Temporary::new(&format!("{name}-{}.pcapng", options[0].trim_start_matches('-')), &[]);
            let arguments = [&["export", "pcapng", &capture, "--output", part.path()], &options[..]].concat();
            let output = run(&arguments);
            assert!(output.status.success(), "{name} {options:?}: {}", text(&output.stderr));
            let (expected, found) = (transactions(&capture, &options), transactions(part.path(), &[]));
            assert!(!found.is_empty() && found == expected, "{name} {options:?}");
            // The CM exchange is included.
            let connections = lines(&run(&["connections", part.path(), "--format", "jsonl"]));
            assert!(connections.iter().all(|line| line["origin"] == "cm"), "{connections:?}");
        }
    }
}

/// A TCP segment may contain messages of several transactions. The selected ones are complete, on a
/// connection with its start and end.
#[test]
fn iwarp_slice_contains_its_transactions() {
    let in_order = |mut lines: Vec<Value>| {
        // Transactions are listed when they end, and a part may lack the segment that ends one.
        lines.sort_by_key(|line| line["xid"].to_string());
        // Phases depend on the round trips so far, and the part lacks some.
        lines.iter_mut().for_each(|line| _ = line["phases"].take());
        lines
    };
    for name in ["iwarp-nfs3", "iwarp-reconnect", "iwarp-nfs4.2-nconnect"] {
        let capture = sample(&format!("{name}.pcap"));
        let options = ["--operation", "READ,WRITE"];
        let part = Temporary::new(&format!("{name}.pcapng"), &[]);
        let arguments = [&["export", "pcapng", &capture, "--output", part.path()], &options[..]].concat();
        assert!(run(&arguments).status.success(), "{name}");
        let [expected, found] =
            [capture.as_str(), part.path()].map(|capture| in_order(transactions(capture, &options)));
        assert!(!found.is_empty() && found == expected, "{name}");
        // The first connection of iwarp-reconnect was open when the capture started. The server refused
        // another one, which has no transaction.
        let [original, part] = [capture.as_str(), part.path()].map(|capture| {
            let connections = lines(&run(&["connections", capture, "--format", "jsonl"]));
            let used = connections.iter().filter(|line| line["state"] != "rejected");
            used.map(|line| (line["origin"].clone(), line["state"].clone())).collect::<Vec<_>>()
        });
        assert_eq!(part, original, "{name}");
        assert!(part.contains(&("cm".into(), "closed".into())), "{name}: {part:?}");
    }
}

#[test]
fn empty_selection_is_an_error_and_leaves_no_file() {
    let folder = Temporary::new("slices-nothing", &[]);
    let path = format!("{}.pcapng", folder.path());
    let output = run(&["export", "pcapng", &sample("nfs3-basic.pcap"), "--output", &path, "--xid", "1"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no transaction matches the filter"), "{}", text(&output.stderr));
    assert!(!std::path::Path::new(&path).exists());
}

/// The outage of iwarp-reconnect lasts from 2.1 s to 5.4 s.
#[test]
fn an_outage_is_shown_if_the_selection_is_within_it() {
    let path = sample("iwarp-reconnect.pcap");
    let outage = "3.3 s without service on 1 connection, from 2.096";
    for options in [&["--since", "3", "--until", "5"][..], &["--connection", "1"], &["--connection", "3"]] {
        let report = run(&[&["analyze", &path], options].concat());
        assert_eq!(report.status.code(), Some(0), "{options:?}");
        assert!(text(&report.stdout).contains(outage), "{options:?}: {}", text(&report.stdout));
        let check = [&["check", &path, "--allow", "invalidation-sender-flag"], options].concat();
        assert_eq!(run(&check).status.code(), Some(1), "{options:?}");
    }
    let before = run(&["analyze", &path, "--until", "2"]);
    assert!(!text(&before.stdout).contains("without service"), "{}", text(&before.stdout));
    // No transaction, and nothing but the event that the connection was made.
    for (sample, span) in [(&path, ["2.05", "2.06"]), (&self::sample("nfs3-basic.pcap"), ["0", "0.01"])] {
        for command in ["analyze", "check"] {
            let idle = run(&[command, sample, "--since", span[0], "--until", span[1]]);
            assert_eq!(idle.status.code(), Some(2), "{command} {span:?}: {}", text(&idle.stdout));
            assert!(text(&idle.stderr).contains("no transaction matches the filter"));
        }
    }
}

/// The lines of this type.
fn of_kind(output: &[Value], kind: &str) -> Vec<Value> {
    output.iter().filter(|line| line["type"] == kind).cloned().collect()
}

#[test]
fn filtered_report_matches_the_report_on_a_slice() {
    let capture = sample("nfs4.1-basic.pcap");
    for options in [["--operation", "READ,WRITE"], ["--where", "bytes > 4KiB"], ["--file", "big*"]] {
        let part = Temporary::new(&format!("report-{}.pcapng", options[0].trim_start_matches('-')), &[]);
        let written = run(&[&["export", "pcapng", &capture, "--output", part.path()], &options[..]].concat());
        assert!(written.status.success(), "{options:?}: {}", text(&written.stderr));
        let report = |path: &str, options: &[&str]| {
            of_kind(&lines(&run(&[&["analyze", path, "--format", "jsonl"], options].concat())), "operation")
        };
        let (found, expected) = (report(&capture, &options), report(part.path(), &[]));
        // The ACK of a call may be that of another call that was not selected; then the part lacks
        // the arrival time of the call.
        let without_phases = |line: &Value| -> Value {
            let line = without_numbers(line);
            let fields = line.as_object().expect("a line is an object").iter();
            fields
                .filter(|(name, _)| !name.contains("phase"))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        let [found, expected] =
            [found, expected].map(|lines| lines.iter().map(without_phases).collect::<Vec<_>>());
        assert!(!found.is_empty(), "{options:?}");
        assert_eq!(found, expected, "{options:?}");
    }
}

#[test]
fn unselected_transactions_cause_no_problems() {
    let capture = sample("nfs3-basic.pcap");
    let shown = run(&["analyze", &capture, "--operation", "FSINFO"]);
    let shown = text(&shown.stdout);
    assert!(shown.contains("chosen        2 of 265 transactions, on 1 connection"), "{shown}");
    assert!(shown.contains("Nothing: every call has a reply"), "{shown}");
}

#[test]
fn findings_are_those_of_selected_transactions() {
    let capture = sample("nfs3-lossy.pcap");
    let findings = |options: &[&str]| {
        let output = run(&[&["check", &capture, "--format", "jsonl"], options].concat());
        of_kind(&json_lines(text(&output.stdout)), "finding")
    };
    let (all, of_reads) = (findings(&[]), findings(&["--operation", "READ"]));
    let (early, late) = (findings(&["--until", "1"]), findings(&["--since", "1"]));
    assert!(!of_reads.is_empty() && of_reads.len() < all.len());
    assert!(!early.is_empty() && !late.is_empty());
    for finding in of_reads.iter().chain(&early).chain(&late) {
        assert!(all.contains(finding), "{finding}");
    }
    for finding in &all {
        assert!(early.contains(finding) || late.contains(finding), "neither has {finding}");
    }
    // A filter for the only connection selects everything.
    assert_eq!(findings(&["--connection", "1"]), all);
}

#[test]
fn every_export_accepts_a_filter() {
    let capture = sample("nfs3-basic.pcap");
    let folder = Temporary::new("slices-exports", &[]);
    let path = |end: &str| format!("{}-{end}", folder.path());
    for (form, output) in
        [("html", path("page.html")), ("rpc", path("rpc.pcapng")), ("parquet", path("tables"))]
    {
        let export =
            |options: &[&str]| run(&[&["export", form, &capture, "--output", &output], options].concat());
        let written = export(&["--where", "op == READ"]);
        assert!(written.status.success(), "{form}: {}", text(&written.stderr));
        let refused = export(&["--xid", "1"]);
        assert_eq!(refused.status.code(), Some(2), "{form}");
        assert!(text(&refused.stderr).contains("no transaction matches the filter"), "{form}");
    }
    let page = std::fs::read_to_string(path("page.html")).expect("it was written");
    assert!(page.contains("4 of 265 transactions, on 1 connection"));
    // RPC over TCP: a call and a reply each; rdmascope finds no RDMA in it.
    let messages = std::fs::read(path("rpc.pcapng")).expect("it was written");
    let all = path("all.pcapng");
    assert!(run(&["export", "rpc", &capture, "--output", &all]).status.success());
    assert!(messages.len() < std::fs::read(&all).expect("it was written").len());
}

#[test]
fn comparison_is_limited_to_selected_transactions() {
    let sides = [sample("nfs3-basic.pcap"), sample("nfs3-lossy.pcap")];
    let output = run(&["diff", &sides[0], &sides[1], "--operation", "READ", "--format", "jsonl"]);
    let lines = json_lines(text(&output.stdout));
    assert_eq!(of_kind(&lines, "comparison").len(), 1);
    let operations = lines.iter().filter_map(|line| line["operation"].as_str());
    assert!(operations.clone().count() > 0 && operations.clone().all(|name| name == "READ"));
    let refused = run(&["diff", &sides[0], &sides[1], "--connection", "2"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("nfs3-basic.pcap: no connection 2"), "{}", text(&refused.stderr));
}
