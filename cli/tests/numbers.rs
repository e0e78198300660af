//! A connection has the same number in every command, tested on a capture of two sessions that
//! starts in the middle of both.

mod binary;

use binary::{Temporary, json_lines, lines, run, text};
use rdmascope_tests::{mutate, pcap, samples};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The queue pairs of both ends.
type Ends = (String, String);

fn number(line: &Value) -> u64 {
    line["connection"].as_u64().unwrap_or_else(|| panic!("no number: {line}"))
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no string: {value}"))
}

#[test]
fn connection_numbers_agree_across_commands() {
    let session = samples::capture("nfs3-lossy");
    let two = mutate::side_by_side(&session, 1_000_000);
    for start in [1, 300, 1111, 2000] {
        let file = Temporary::new(&format!("middle-{start}.pcap"), &pcap::write(&mutate::from(&two, start)));
        let jsonl = |command: &str| lines(&run(&[command, file.path(), "--format", "jsonl"]));

        let connections = jsonl("connections");
        let ends = |line: &Value| -> Ends {
            let qpn = |end: &str| word(&line[end]["qpn"]).to_owned();
            (qpn("requester"), qpn("responder"))
        };
        let known: BTreeMap<u64, Ends> = connections.iter().map(|line| (number(line), ends(line))).collect();
        assert!(known.keys().copied().eq(1..=2), "from {start} on: {known:?}");

        let report = jsonl("analyze");
        let reported = report.iter().filter(|line| line["type"] == "connection");
        assert!(
            reported.map(|line| (number(line), ends(line))).eq(known.clone()),
            "from {start} on: analyze"
        );

        // Each packet names a queue pair of its connection. The first ones arrive before that is
        // known.
        let packets = jsonl("packets");
        let mut of_frame = BTreeMap::new();
        for packet in packets.iter().filter(|packet| !packet["connection"].is_null()) {
            let (requester, responder) = &known[&number(packet)];
            let qpn = word(&packet["qpn"]);
            assert!(qpn == requester || qpn == responder, "from {start} on: {packet}");
            of_frame.insert(packet["frame"].as_u64().expect("a number"), number(packet));
        }
        assert!(of_frame.len() + 500 > packets.len(), "from {start} on: {}", of_frame.len());

        // The sessions have different XIDs.
        let transactions = jsonl("transactions");
        let mut of_xid = BTreeMap::new();
        for packet in packets.iter().filter(|packet| packet["rpcrdma"].is_object()) {
            if let Some(number) = packet["connection"].as_u64() {
                of_xid.insert(word(&packet["rpcrdma"]["xid"]), number);
            }
        }
        let numbers: BTreeSet<u64> = transactions.iter().map(number).collect();
        assert!(numbers.into_iter().eq(1..=2), "from {start} on: both have transactions");
        for transaction in &transactions {
            let expected = of_xid.get(word(&transaction["xid"])).copied();
            assert!(expected.is_none_or(|it| it == number(transaction)), "from {start} on: {transaction}");
        }
        for asked in 1..=2 {
            let only = ["transactions", file.path(), "--connection", &asked.to_string(), "--format", "jsonl"];
            let expected = transactions.iter().filter(|line| number(line) == asked);
            assert!(lines(&run(&only)).iter().eq(expected), "from {start} on: --connection {asked}");
        }

        let check = run(&["check", file.path(), "--format", "jsonl"]);
        let findings = json_lines(text(&check.stdout));
        let findings = findings.iter().filter(|line| line["type"] == "finding");
        let mut named = BTreeSet::new();
        for finding in findings {
            for frame in finding["frames"].as_array().expect("a list") {
                let expected = of_frame.get(&frame.as_u64().expect("a number")).copied();
                assert!(expected.is_none_or(|it| it == number(finding)), "from {start} on: {finding}");
            }
            named.insert(number(finding));
        }
        let events = jsonl("events");
        assert!(!events.is_empty(), "from {start} on");
        named.extend(events.iter().map(number));
        assert!(named.iter().all(|number| known.contains_key(number)), "from {start} on: {named:?}");
    }
}
