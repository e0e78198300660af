//! `state` on the samples, compared with an independent count of their operations.

mod binary;

use binary::{run, sample, text};
use serde_json::Value;
use std::collections::BTreeMap;

fn lines(arguments: &[&str]) -> Vec<Value> {
    let output = run(&[arguments, &["--format", "jsonl"]].concat());
    assert_eq!(output.status.code(), Some(0), "{arguments:?} {}", text(&output.stderr));
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

fn count(lines: &[Value], wanted: &[(&str, &str)]) -> usize {
    let is_wanted = |line: &&Value| wanted.iter().all(|(field, word)| line[*field] == *word);
    lines.iter().filter(is_wanted).count()
}

const NFS4: [&str; 4] =
    ["nfs4.1-backchannel-recall", "nfs4.1-basic", "nfs4.2-basic", "nfs4.2-mtu4096-large-io"];

/// Each mount is unmounted: every open was closed and every delegation was returned, as often as
/// the capture has the operations.
#[test]
fn state_matches_the_operations_of_the_samples() {
    for name in NFS4 {
        let path = sample(&format!("{name}.pcap"));
        let mut operations: BTreeMap<String, usize> = BTreeMap::new();
        for transaction in lines(&["transactions", &path]) {
            for operation in transaction["operation_details"].as_array().expect("operations") {
                if operation["status"] == 0 {
                    *operations.entry(operation["name"].as_str().expect("a name").to_owned()).or_default() +=
                        1;
                }
            }
        }
        let done = |name: &str| operations.get(name).copied().unwrap_or(0);
        let state = lines(&["state", &path]);
        for (kind, end, ended_by) in [
            ("open", "closed", "CLOSE"),
            ("delegation", "returned", "DELEGRETURN"),
            ("session", "destroyed", "DESTROY_SESSION"),
            ("client", "destroyed", "DESTROY_CLIENTID"),
            ("copy", "completed", "CB_OFFLOAD"),
        ] {
            assert_eq!(count(&state, &[("kind", kind), ("end", end)]), done(ended_by), "{name} {kind}");
        }
        assert_eq!(count(&state, &[("kind", "open")]), done("CLOSE"), "{name}");
        assert_eq!(count(&state, &[("kind", "session")]), done("CREATE_SESSION"), "{name}");
        // Linux requests a client ID twice, and the server returns a different one each time.
        assert_eq!(count(&state, &[("kind", "client")]), done("EXCHANGE_ID"), "{name}");
        assert_eq!(count(&state, &[("end", "replaced")]), done("EXCHANGE_ID") - 1, "{name}");
        assert_eq!(count(&state, &[("end", "open")]), 0, "{name}");
        let recalled = state.iter().filter(|line| !line["recalled"].is_null()).count();
        assert_eq!(recalled, done("CB_RECALL"), "{name}");
        let [reads, writes] = ["reads", "writes"]
            .map(|field| state.iter().map(|line| line[field].as_u64().expect("a number")).sum::<u64>());
        assert_eq!((reads, writes), (done("READ") as u64, done("WRITE") as u64), "{name}");
    }
}

#[test]
fn filters_select_lines_and_the_summary_counts_all() {
    let path = sample("nfs4.1-backchannel-recall.pcap");
    let all = lines(&["state", &path]);
    let some = |arguments: &[&str]| lines(&[&["state", &path], arguments].concat());
    assert_eq!(some(&["--kind", "delegation"]).len(), count(&all, &[("kind", "delegation")]));
    assert_eq!(some(&["--kind", "Delegation,session"]).len(), count(&all, &[("kind", "delegation")]) + 1);
    assert_eq!(some(&["--recalled"]).len(), 2);
    assert_eq!(some(&["--open"]).len(), 0);
    assert_eq!(some(&["--end", "closed"]).len(), count(&all, &[("end", "closed")]));
    assert_eq!(some(&["--until", "0.1"]).len(), 3, "two client IDs and a session");
    assert_eq!(some(&["--since", "5.1"]).len(), 1, "the client ID");
    let output = run(&["state", &path, "--recalled"]);
    let shown = text(&output.stdout);
    assert!(shown.starts_with("total     2 client IDs, 1 session, 5 opens, 4 delegations\n"), "{shown}");
    assert!(shown.contains("\nrecalled  2 delegations\n\n"), "{shown}");
    assert_eq!(shown.matches("recalled, returned").count(), 2);
    let output = run(&["state", &path, "--connection", "7"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no connection 7: the highest number is 1"));
    let output = run(&["state", &path, "--kind", "opens"]);
    assert_eq!(output.status.code(), Some(2));
    let output = run(&["state", &sample("nfs3-basic.pcap")]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "no NFSv4 state\n"));
}

/// An open has the same file as its OPEN in `transactions`.
#[test]
fn opens_have_the_paths_of_their_files() {
    for name in NFS4 {
        let path = sample(&format!("{name}.pcap"));
        let transactions = lines(&["transactions", &path]);
        let opened: BTreeMap<u64, &Value> = transactions
            .iter()
            .map(|line| (line["number"].as_u64().expect("a number"), &line["file"]))
            .collect();
        let state = lines(&["state", &path, "--kind", "open"]);
        assert!(!state.is_empty());
        for line in &state {
            let file = opened[&line["first_transaction"].as_u64().expect("a number")];
            assert!(!file.is_null(), "{name}: {line}");
            // The path of a file renamed after its CLOSE may be the new one when its line is
            // written.
            let renamed = transactions.iter().any(|rename| {
                rename["file"] == *file && rename["other_file"] == line["file"] && !line["file"].is_null()
            });
            assert!(line["file"] == *file || renamed, "{name}: {line} {file}");
        }
    }
    let path = sample("nfs4.1-basic.pcap");
    let output = run(&["state", &path, "--kind", "open"]);
    let file = &lines(&["state", &path, "--kind", "open", "--top", "1"])[0]["file"];
    assert!(text(&output.stdout).contains(file.as_str().expect("a path")), "{file}");
    let all = lines(&["state", &path, "--kind", "open"]).len();
    let some = lines(&["state", &path, "--where", "kind == open && file ~ \"*\""]).len();
    assert_eq!(some, all);
}
