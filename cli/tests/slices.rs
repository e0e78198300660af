//! `export pcapng` of chosen transactions: what is written says the same of them as the whole capture does.

mod binary;

use binary::{Temporary, lines, run, sample, text};
use serde_json::Value;

/// A line without what a smaller capture counts otherwise, and without paths, which rest on other transactions.
fn without_numbers(line: &Value) -> Value {
    const OTHERS: [&str; 5] = ["number", "connection", "frame", "file", "other_file"];
    match line {
        Value::Object(fields) => {
            let kept = fields
                .iter()
                .filter(|(name, _)| !OTHERS.contains(&name.as_str()) && !name.ends_with("_frame"));
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
fn a_part_says_the_same_of_its_transactions() {
    for name in ["nfs3-basic", "nfs3-lossy", "nfs4.1-backchannel-recall", "nfs4.2-mtu4096-large-io"] {
        let capture = sample(&format!("{name}.pcap"));
        for options in [["--operation", "READ,WRITE"], ["--where", "latency > 3ms"]] {
            let part = Temporary::new(&format!("{name}-{}.pcapng", options[0].trim_start_matches('-')), &[]);
            let arguments = [&["export", "pcapng", &capture, "--output", part.path()], &options[..]].concat();
            let output = run(&arguments);
            assert!(output.status.success(), "{name} {options:?}: {}", text(&output.stderr));
            let (expected, found) = (transactions(&capture, &options), transactions(part.path(), &[]));
            assert!(!found.is_empty() && found == expected, "{name} {options:?}");
            // The CM exchange came with them.
            let connections = lines(&run(&["connections", part.path(), "--format", "jsonl"]));
            assert!(connections.iter().all(|line| line["origin"] == "cm"), "{connections:?}");
        }
    }
}

#[test]
fn nothing_chosen_is_an_error_and_leaves_no_file() {
    let folder = Temporary::new("slices-nothing", &[]);
    let path = format!("{}.pcapng", folder.path());
    let output = run(&["export", "pcapng", &sample("nfs3-basic.pcap"), "--output", &path, "--xid", "1"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no transaction is as asked for"), "{}", text(&output.stderr));
    assert!(!std::path::Path::new(&path).exists());
}
