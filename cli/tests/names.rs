//! Files, clients and users of transactions: how they are shown, and filters by them.

mod binary;

use binary::{Temporary, lines, run, sample, text, with_input};
use rdmascope_tests::pcap;
use serde_json::Value;
use std::fs;

fn transactions(capture: &str, options: &[&str]) -> Vec<Value> {
    let arguments = ["transactions", capture, "--format", "jsonl"];
    lines(&run(&arguments.into_iter().chain(options.iter().copied()).collect::<Vec<_>>()))
}

#[test]
fn file_filter_selects_transactions() {
    let capture = sample("nfs4.1-basic.pcap");
    let all = transactions(&capture, &[]);
    let chosen = |options: &[&str]| {
        transactions(&capture, options)
            .iter()
            .map(|line| line["number"].as_u64().unwrap())
            .collect::<Vec<_>>()
    };
    let with = |wanted: &dyn Fn(&str) -> bool| {
        let is_wanted =
            |line: &&Value| ["file", "other_file"].iter().any(|name| line[name].as_str().is_some_and(wanted));
        all.iter().filter(is_wanted).map(|line| line["number"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    let big = with(&|path| path == "/w/big");
    assert!(big.len() > 3, "{big:?}");
    for pattern in ["/w/big", "w/big", "big", "b?g"] {
        assert_eq!(chosen(&["--file", pattern]), big, "{pattern}");
    }
    assert_eq!(chosen(&["--file", "/w/d/*"]), with(&|path| path.starts_with("/w/d/")));
    assert_eq!(
        chosen(&["--file", "/w/**/*-1"]),
        with(&|path| path.starts_with("/w/") && path.ends_with("-1"))
    );
    assert_eq!(chosen(&["--file", "/big"]), [] as [u64; 0]);
    assert_eq!(
        chosen(&["--file", "big", "--file", "small"]).len(),
        big.len() + chosen(&["--file", "small"]).len()
    );
}

#[test]
fn client_server_and_user_filters_select_transactions() {
    let capture = sample("nfs4.1-backchannel-recall.pcap");
    let all = transactions(&capture, &[]);
    let count = |options: &[&str]| transactions(&capture, options).len();
    assert_eq!(count(&["--client", "10.77.0.2"]), all.len());
    assert_eq!(count(&["--server", "10.77.0.*"]), all.len());
    assert_eq!(count(&["--client", "10.77.0.1"]), 0);
    let of_root = all.iter().filter(|line| line["uid"] == 0 && line["machine"] == "client").count();
    assert!(of_root > 10 && of_root < all.len());
    assert_eq!(count(&["--user", "0@client"]), of_root);
    assert_eq!(count(&["--user", "client"]), of_root);
    assert_eq!(count(&["--user", "1000"]), 0);
    // A callback has the same client and server, although the server calls.
    let recalls: Vec<_> = all.iter().filter(|line| line["direction"] == "backward").collect();
    assert!(!recalls.is_empty());
    assert!(recalls.iter().all(|line| line["client"] == "10.77.0.2" && line["server"] == "10.77.0.1"));
}

#[test]
fn invalid_filter_values_are_refused() {
    let capture = sample("nfs3-basic.pcap");
    for (option, value, part) in [
        ("--file", "a[", "invalid path pattern"),
        ("--file", "", "expected a path or a pattern"),
        ("--client", "server.example", "expected an address"),
        ("--user", "@client", "32-bit number"),
    ] {
        let output = run(&["transactions", &capture, option, value]);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(part), "{option} {value}: {}", text(&output.stderr));
    }
}

/// The capture starts after the LOOKUPs and OPENs of files that it accesses again later.
#[test]
fn file_input_resolves_names_that_appear_later() {
    let mut capture = pcap::read(&fs::read(sample("nfs4.1-basic.pcap")).unwrap()).unwrap();
    capture.packets.drain(..300);
    let bytes = pcap::write(&capture);
    let file = Temporary::new("names.pcap", &bytes);
    let of_file = transactions(file.path(), &[]);
    let of_pipe = lines(&with_input(&["transactions", "-", "--format", "jsonl"], &bytes));
    assert_eq!(of_file.len(), of_pipe.len());
    let mut late = 0;
    for (of_file, of_pipe) in of_file.iter().zip(&of_pipe) {
        let is_new = of_file["file"] != of_pipe["file"];
        // A pipe has fewer paths, or a path relative to a directory whose name appears later.
        let part = of_pipe["file"].as_str().unwrap_or_default();
        let is_extended = of_file["file"].as_str().is_some_and(|file| file.ends_with(part));
        assert!(is_extended || !is_new, "{of_file} {of_pipe}");
        late += usize::from(is_new);
    }
    assert!(late > 0);
}
