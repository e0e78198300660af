//! `rdmascope diff`: real sessions compared, and sessions with times changed by known amounts.

mod binary;
mod planted;

use binary::{Pcap, Temporary, json_lines, lines, refused, run, sample, text, time, with_input};
use serde_json::{Value, json};
use std::process::Output;

/// The lines of a comparison that found differences.
fn compared(arguments: &[&str]) -> Vec<Value> {
    let output = run(&[&["diff", "--format", "jsonl"], arguments].concat());
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), ""));
    json_lines(text(&output.stdout))
}

fn samples(a: &str, b: &str) -> Vec<Value> {
    compared(&[&sample(a), &sample(b)])
}

/// The only line with this name and operation.
fn find<'a>(lines: &'a [Value], name: &str, operation: Option<&str>) -> &'a Value {
    let found: Vec<_> =
        lines.iter().filter(|line| line["name"] == name && line["operation"] == json!(operation)).collect();
    let [line] = found.as_slice() else { panic!("{name} {operation:?}: {found:?}") };
    line
}

fn differing(lines: &[Value]) -> Vec<&Value> {
    lines.iter().filter(|line| line["verdict"] == "differs").collect()
}

fn no_difference(output: &Output) {
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""), "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains("No difference"), "{}", text(&output.stdout));
}

#[test]
fn session_does_not_differ_from_itself() {
    for name in [
        "nfs3-basic.pcap",
        "nfs3-lossy.pcap",
        "nfs4.1-backchannel-recall.pcap",
        "nfs4.1-basic.pcap",
        "nfs4.2-basic.pcap",
        "nfs4.2-mtu4096-large-io.pcap",
    ] {
        no_difference(&run(&["diff", &sample(name), &sample(name)]));
    }
    // This capture has no transactions.
    let rejected = sample("connect-rejected.pcap");
    let output = run(&["diff", &rejected, &rejected]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("neither capture has an RPC transaction"));
    let lines = lines(&run(&["diff", "--format", "jsonl", &rejected, &rejected]));
    assert_eq!((lines.len(), &lines[0]["differences"]), (1, &json!(0)));
}

/// Independent sources: the two clients' tracepoints, mountstats, and `tshark -T fields -e
/// infiniband.bth.opcode`.
#[test]
fn mtu_and_transfer_size_differences_are_found() {
    let lines = samples("nfs4.2-basic.pcap", "nfs4.2-mtu4096-large-io.pcap");
    assert_eq!(lines[0]["same_work"], false);
    assert_eq!(lines[0]["a"]["transactions"], 239);
    assert_eq!(lines[0]["b"]["transactions"], 60);
    let mtu = find(&lines, "path-mtu", None);
    assert_eq!(mtu["a"], json!([{"value": "1024", "count": 1}]));
    assert_eq!(mtu["b"], json!([{"value": "4096", "count": 1}]));
    // MANIFEST: one callback, CB_OFFLOAD, in the second session only.
    let backchannel = find(&lines, "backchannel", None);
    assert_eq!(
        (&backchannel["a"][0]["value"], &backchannel["b"][0]["value"]),
        (&json!("none"), &json!("used"))
    );
    let offload = find(&lines, "count", Some("CB_OFFLOAD"));
    assert_eq!((&offload["direction"], &offload["b"]["count"]), (&json!("backward"), &json!(1)));
    // xprtrdma_marshal has `read list` once and six times; mountstats count 42 WRITEs and 6.
    let by_chunk = find(&lines, "read-chunk", Some("WRITE"));
    assert_eq!(
        (&by_chunk["a"], &by_chunk["b"]),
        (&json!({"count": 1, "of": 42}), &json!({"count": 6, "of": 6}))
    );
    // xprtrdma_chunk_read: 2 segments; and 26, of which 3 were never sent (MANIFEST).
    let segments = find(&lines, "read-chunk-segments", Some("WRITE"));
    assert_eq!((&segments["a"], &segments["b"]), (&json!(2.0), &json!(23.0 / 6.0)));
    // MANIFEST: 3000000 bytes read back; mountstats: by 13 READs.
    let bytes = find(&lines, "bytes", Some("READ"));
    let moved = bytes["b"].as_f64().expect("a number") * 13.0;
    assert!((moved - 3_000_000.0).abs() < 1.0, "{bytes}");
    // SEND Only with Invalidate (opcode 23): 52 and 8 packets; 46 and 4 of these answer OPENs, and
    // 2 and 2 EXCHANGE_IDs.
    let invalidated = find(&lines, "remote-invalidation", Some("READ"));
    assert_eq!(
        (&invalidated["a"]["count"], &invalidated["b"]["count"]),
        (&json!(52 - 46 - 2), &json!(8 - 4 - 2))
    );
    // mountstats: CLONE 1, failed 1; truth.txt has COPY and ALLOCATE once, and never in the first
    // session.
    let clone = find(&lines, "error", Some("CLONE"));
    assert!(clone["what"].as_str().expect("text").contains("NFS4ERR_NOTSUPP"), "{clone}");
    for operation in ["COPY", "ALLOCATE", "SETXATTR", "COMMIT"] {
        let count = find(&lines, "count", Some(operation));
        assert_eq!((&count["a"]["count"], &count["b"]["count"]), (&json!(0), &json!(1)), "{count}");
    }
    // mountstats: 132 ms for 42 WRITEs, 1643 ms for 6.
    let write = find(&lines, "latency", Some("WRITE"));
    assert_eq!(write["verdict"], "differs");
    assert!(write["ratio"].as_f64().expect("a number") > 50.0, "{write}");
}

/// The server grants no credit in one reply, and in all replies.
#[test]
fn violations_of_one_side_are_differences() {
    let clean = sample("nfs3-basic.pcap");
    let once = Temporary::new("once.pcap", &planted::no_credits("nfs3-basic", 0x1b39_6a62).bytes);
    let always = Temporary::new("always.pcap", &planted::never_any_credits("nfs3-basic").bytes);
    let calls = 265; // client.trace
    for (a, b, expected, ratio) in [
        (&*clean, once.path(), [0, 1], Value::Null),
        (once.path(), &*clean, [1, 0], Value::Null),
        (once.path(), always.path(), [1, calls], json!(f64::from(calls))),
    ] {
        let lines = compared(&[a, b]);
        let line = find(&lines, planted::RULE, None);
        assert_eq!((&line["area"], &line["verdict"]), (&json!("conformance"), &json!("differs")));
        let [in_a, in_b] = expected.map(|count| json!({"count": count, "of": calls}));
        assert_eq!((&line["a"], &line["b"], &line["ratio"]), (&in_a, &in_b, &ratio));
    }
    let output = run(&["diff", &clean, once.path()]);
    let printed = text(&output.stdout);
    let (_, section) = printed.split_once("\nFindings ").expect("there is a section");
    let row = section.lines().find(|line| line.contains(planted::RULE)).expect("the rule has a row");
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(words, [planted::RULE, "(violation)", "-", "1", "(0.38%)", "only", "B"]);
    no_difference(&run(&["diff", once.path(), once.path()]));
}

#[test]
fn packet_loss_is_a_difference() {
    let lines = samples("nfs3-basic.pcap", "nfs3-lossy.pcap");
    // tshark -Y infiniband.aeth.syndrome.opcode==3: none, and frame 2053.
    let naks = find(&lines, "sequence-nak", None);
    assert_eq!((&naks["a"]["count"], &naks["b"]["count"]), (&json!(0), &json!(1)));
    let again = find(&lines, "retransmission", None);
    assert_eq!(again["a"]["count"], 0);
    assert!(again["b"]["count"].as_u64().expect("a number") > 0);
    assert_eq!(again["verdict"], "differs");
    // mountstats: a round trip of 108 ms for the one WRITE, against 109 ms for 42. One value proves
    // nothing.
    let write = find(&lines, "latency", Some("WRITE"));
    assert_eq!(write["verdict"], "too-few");
    assert_eq!((&write["a"]["count"], &write["b"]["count"]), (&json!(42), &json!(1)));
    let median = write["b"]["median_ns"].as_u64().expect("a number");
    assert!((100_000_000..109_000_000).contains(&median), "{write}");
    assert!(lines[1]["area"] == "transport", "transport differences come first: {}", lines[1]);
    let output = run(&["diff", &sample("nfs3-basic.pcap"), &sample("nfs3-lossy.pcap")]);
    let text = text(&output.stdout);
    for part in ["different numbers of transactions", "packets sent again", "NFSv3 WRITE", "too few"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

/// The same commands with two minor versions: mountstats of both count 42 WRITEs, 45 CLOSEs and so
/// on.
#[test]
fn minor_versions_are_compared_by_operation() {
    let lines = samples("nfs4.1-basic.pcap", "nfs4.2-basic.pcap");
    assert_eq!(lines[0]["same_work"], true);
    let protocols = find(&lines, "protocols", None);
    assert_eq!(protocols["a"][0]["value"], "NFSv4.1");
    assert_eq!(protocols["b"][0]["value"], "NFSv4.2");
    // Operations are paired, so neither side has any of its own.
    assert!(lines.iter().all(|line| line["name"] != "count"), "{lines:?}");
    let differing = differing(&lines);
    assert!(
        differing
            .iter()
            .all(|line| ["connections", "latency"].contains(&line["area"].as_str().unwrap_or("")))
    );
}

/// The sample with the time of each record changed.
fn retimed(name: &str, change: impl Fn(usize, i64) -> i64) -> Vec<u8> {
    let file = Pcap::read(name);
    let mut records = file.records.clone();
    let nanoseconds = |record: &[u8]| {
        let (seconds, microseconds) = time(record);
        i64::from(seconds) * 1_000_000 + i64::from(microseconds)
    };
    let start = nanoseconds(&records[0]);
    for (index, record) in records.iter_mut().enumerate() {
        let at = start + change(index, nanoseconds(record) - start);
        record[..4].copy_from_slice(&((at / 1_000_000) as u32).to_le_bytes());
        record[4..8].copy_from_slice(&((at % 1_000_000) as u32).to_le_bytes());
    }
    file.with(&records)
}

#[test]
fn slower_session_differs_in_latency_only() {
    let original = sample("nfs3-basic.pcap");
    let slower = Temporary::new("slower.pcap", &retimed("nfs3-basic.pcap", |_, time| time * 3 / 2));
    let lines = compared(&[&original, slower.path()]);
    assert!(differing(&lines).iter().all(|line| line["area"] == "latency"), "{lines:?}");
    // The operations with enough transactions: 41 small WRITEs (one large WRITE is too few), 42
    // CREATEs, 48 LOOKUPs, 44 REMOVEs, 45 GETACLs.
    let (large, lines): (Vec<Value>, Vec<Value>) =
        lines.into_iter().partition(|line| line["operation"] == "WRITE" && line["above_bytes"].is_u64());
    assert_eq!(large.len(), 1, "{large:?}");
    assert_eq!((&large[0]["verdict"], &large[0]["a"]["count"]), (&json!("too-few"), &json!(1)));
    assert_eq!(find(&lines, "latency", Some("WRITE"))["most_bytes"], 4096);
    for operation in ["WRITE", "CREATE", "LOOKUP", "REMOVE", "GETACL"] {
        let line = find(&lines, "latency", Some(operation));
        assert_eq!(line["verdict"], "differs");
        let ratio = line["ratio"].as_f64().expect("a number");
        assert!((ratio - 1.5).abs() < 0.01, "{line}");
    }
    let slightly = Temporary::new("slightly.pcap", &retimed("nfs3-basic.pcap", |_, time| time * 21 / 20));
    no_difference(&run(&["diff", &original, slightly.path()]));
    // A finer threshold does not make the difference significant: the latencies overlap too much.
    let output = run(&["diff", "--latency-ratio", "1.01", "--format", "jsonl", &original, slightly.path()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains("\"too-few\""));
}

/// A server that takes 3 ms longer for each WRITE, and for nothing else.
#[test]
fn slower_operation_is_the_only_difference() {
    let original = sample("nfs4.2-basic.pcap");
    let writes = lines(&run(&["transactions", &original, "--operation", "write", "--format", "jsonl"]));
    assert_eq!(writes.len(), 42);
    let replies: Vec<u64> =
        writes.iter().map(|one| one["reply"]["first_frame"].as_u64().expect("a frame")).collect();
    let delayed = retimed("nfs4.2-basic.pcap", |index, time| {
        let before = replies.iter().filter(|frame| **frame <= index as u64 + 1).count();
        time + 3000 * before as i64
    });
    // Also from standard input.
    let output = with_input(&["diff", &original, "-", "--format", "jsonl"], &delayed);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), ""));
    let found: Vec<Value> = json_lines(text(&output.stdout));
    let differing = differing(&found);
    let [write] = differing.as_slice() else { panic!("{differing:?}") };
    assert_eq!((&write["name"], &write["operation"]), (&json!("latency"), &json!("WRITE")));
    let median = |side: &str| write[side]["median_ns"].as_i64().expect("a number");
    assert!((median("b") - median("a") - 3_000_000).abs() < 10_000, "{write}");
    let server = |side: &str| write[side]["mean_phases"]["server_ns"].as_i64().expect("a number");
    assert!((server("b") - server("a") - 3_000_000).abs() < 10_000, "{write}");
    let output = with_input(&["diff", "-", &original], &delayed);
    assert!(text(&output.stdout).starts_with("A  standard input\n"), "{}", text(&output.stdout));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn half_a_session_has_fewer_transactions() {
    let file = Pcap::read("nfs3-basic.pcap");
    let half = Temporary::new("half.pcap", &file.with(&file.records[..file.records.len() / 2]));
    let lines = compared(&[&sample("nfs3-basic.pcap"), half.path()]);
    assert_eq!(lines[0]["same_work"], false);
    assert_eq!(find(&lines, "transactions", None)["verdict"], "differs");
    // The measurements of the first half are the same in both.
    assert!(differing(&lines).iter().all(|line| line["area"] != "latency"), "{lines:?}");
}

#[test]
fn captures_that_cannot_be_compared_are_refused() {
    let file = sample("nfs3-basic.pcap");
    refused(&run(&["diff", "-", "-"]), &["only one", "standard input"]);
    refused(&run(&["diff", &file, "no-such-file.pcap"]), &["no-such-file.pcap", "No such file"]);
    refused(&run(&["diff", "README.md", &file]), &["README.md", "byte 0"]);
    for arguments in
        [&[&file][..], &[&file, &file, &file], &[&file, &file, &"--latency-ratio=0.5".to_owned()]]
    {
        let arguments: Vec<&str> = arguments.iter().map(|argument| argument.as_str()).collect();
        let output = run(&[&["diff"], arguments.as_slice()].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
    // Readable data is compared, and the exit status reports the failure.
    let bytes = std::fs::read(&file).expect("the sample is there");
    let cut = Temporary::new("cut.pcap", &bytes[..bytes.len() / 2]);
    let output = run(&["diff", &file, cut.path(), "--format", "jsonl"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("cut short"), "{}", text(&output.stderr));
    let output = run(&["diff", &file, cut.path()]);
    assert!(text(&output.stdout).contains("cut short at byte"), "{}", text(&output.stdout));
    assert!(!output.stdout.contains(&0x1b));
}
