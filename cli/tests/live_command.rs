//! `rdmascope live` on captures, with their time stamps as its clock. tests/live_veth tests it on
//! interfaces.

mod binary;

use binary::{Temporary, command, folder, root, run, sample, text};
use rdmascope_tests::samples::MOUNTS;
use rdmascope_tests::{mutate, pcap, samples};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};

/// The lines of a command that succeeds.
fn lines(arguments: &[&str]) -> Vec<Value> {
    let output = run(arguments);
    assert_eq!(
        (output.status.code().is_some_and(|code| code < 2), text(&output.stderr)),
        (true, ""),
        "{arguments:?}"
    );
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect()
}

fn of_type<'a>(lines: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    lines.iter().filter(move |line| line["type"] == kind)
}

/// The counters of the client's kernel for READs and WRITEs: the bytes requested from and sent to
/// the server (`bytes:` and the statistics of each operation in mountstats).
fn mountstats(name: &str) -> [(u64, u64); 2] {
    let truth =
        std::fs::read_to_string(root().join(format!("samples/{name}.truth.txt"))).expect("it is there");
    let numbers = |head: &str| -> Vec<u64> {
        let line =
            truth.lines().find_map(|line| line.trim().strip_prefix(head)).expect("mountstats have the line");
        line.split_whitespace().map(|word| word.parse().expect("it is a number")).collect()
    };
    let bytes = numbers("bytes:");
    [(numbers("READ:")[0], bytes[4]), (numbers("WRITE:")[0], bytes[5])]
}

#[test]
fn operations_and_bytes_match_mountstats() {
    for name in MOUNTS {
        for interval in ["100ms", "1s", "60s"] {
            let lines = lines(&[
                "live",
                &sample(&format!("{name}.pcap")),
                "--format",
                "jsonl",
                "--interval",
                interval,
            ]);
            let mut found = BTreeMap::from([("READ", (0, 0)), ("WRITE", (0, 0))]);
            for line in of_type(&lines, "interval_operation") {
                let number = |field: &str| line["transactions"][field].as_u64().expect("it is a number");
                if let Some((count, bytes)) =
                    found.get_mut(line["operation"].as_str().expect("it has a name"))
                {
                    *count += number("count");
                    *bytes += number("bytes_to_requester") + number("bytes_to_responder");
                }
            }
            let [read, write] = mountstats(name);
            assert_eq!((found["READ"], found["WRITE"]), (read, write), "{name}, {interval}");
        }
    }
}

#[test]
fn interface_options_are_refused_for_a_file() {
    for arguments in [
        &["--promiscuous"][..],
        &["--incoming-only"],
        &["--tunnels"],
        &["--buffer", "64"],
        &["--threads", "2"],
        &["--filter", "udp"],
        &["--user", "nobody"],
    ] {
        let found = run(&[&["live", &sample("nfs3-basic.pcap")], arguments].concat());
        assert_eq!(found.status.code(), Some(2), "{arguments:?}");
        assert!(
            text(&found.stderr).contains("cannot be used with"),
            "{arguments:?}: {}",
            text(&found.stderr)
        );
    }
}

#[test]
fn events_and_findings_match_other_commands() {
    for name in ["connect-rejected", "nfs3-lossy", "nfs4.1-backchannel-recall"] {
        let path = sample(&format!("{name}.pcap"));
        let live = lines(&["live", &path, "--format", "jsonl", "--level", "advice"]);
        let check = lines(&["check", &path, "--format", "jsonl", "--allow-empty"]);
        let findings = |lines: &[Value]| of_type(lines, "finding").cloned().collect::<Vec<_>>();
        assert_eq!(findings(&live), findings(&check), "{name}");
        let known = lines(&["events", &path, "--format", "jsonl"]);
        let same = |one: &Value, other: &Value| {
            ["event", "time", "connection"].iter().all(|field| one[field] == other[field])
        };
        for event in &known {
            // An outage that no packet ends lasts until now for `live`, until the end for `events`.
            let goes_on = event["last_frame"].is_null();
            let found = live.iter().any(|other| other == event || goes_on && same(other, event));
            assert!(found, "{name}: {event}");
        }
        // An event reported while it lasted was reported once more at its end.
        for event in of_type(&live, "event").filter(|event| !known.contains(event)) {
            assert!(known.iter().any(|other| same(other, event)), "{name}: {event}");
        }
    }
}

#[test]
fn text_output_has_a_row_for_each_interval() {
    let output = run(&["live", &sample("nfs3-lossy.pcap")]);
    let rows: Vec<&str> = text(&output.stdout).lines().collect();
    assert_eq!(rows[0], "09:37:31 connection 1: connected, in 9.33ms");
    assert_eq!(rows[1], "time UTC calls/s errors  write/s   read/s median    p99 wait oldest resent  lost");
    assert!(rows[2].starts_with("09:37:31      17      1      0 B    187 B"), "{}", rows[2]);
    assert!(rows.iter().any(|row| row.contains("293 KiB  293 KiB 4.72ms  106ms")), "{rows:#?}");
    assert!(rows.iter().all(|row| row.trim_end() == *row), "{rows:#?}");
    let output = run(&["live", &sample("nfs3-lossy.pcap"), "--by", "operation"]);
    assert!(text(&output.stdout).lines().any(|row| row.ends_with("NFSv3 WRITE")), "{}", text(&output.stdout));
}

#[test]
fn long_lines_continue_below() {
    let shown = |width: Option<&str>| {
        let mut live = command(&["live", &sample("reliable-reply.pcap")]);
        width.map(|width| live.env("COLUMNS", width));
        text(&live.output().expect("the binary runs").stdout).to_owned()
    };
    let narrow = shown(Some("80"));
    assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    let words = |text: &str| text.split_whitespace().map(ToOwned::to_owned).collect::<Vec<_>>();
    assert_eq!(words(&narrow), words(&shown(None)));
}

#[test]
fn closed_connections_have_no_rows() {
    let output = run(&["live", &sample("iwarp-reconnect.pcap"), "--by", "connection"]);
    let shown = text(&output.stdout);
    let (before, after) = shown.split_once("connected again after connection 1").expect("it reconnects");
    let row = |number: u32| format!("{number}: 10.77.0.2:");
    // The server refuses connection 2.
    assert!(before.contains(&row(1)) && !before.contains(&row(2)), "{before}");
    assert!(after.contains(&row(3)) && !after.contains(&row(1)) && !after.contains(&row(2)), "{after}");
}

/// The WRITE of nfs3-lossy that took 106 ms.
#[test]
fn slow_call_triggers_a_capture() {
    let folder = folder();
    let to = folder.path().to_str().expect("it is UTF-8");
    let path = sample("nfs3-lossy.pcap");
    let trigger = [
        "--trigger",
        "write>100ms",
        "--trigger-folder",
        to,
        "--trigger-before",
        "200ms",
        "--trigger-after",
        "1ms",
    ];
    let reported = lines(&[&["live", &path, "--format", "jsonl"][..], &trigger].concat());
    let [captured] = of_type(&reported, "captured").collect::<Vec<_>>()[..] else { panic!("{reported:#?}") };
    assert_eq!(
        (&captured["trouble"], &captured["further"], &captured["cut"]),
        (&Value::Null, &0.into(), &false.into())
    );
    let file = captured["file"].as_str().expect("it has a name");
    assert!(file.ends_with("-latency.pcapng"), "{file}");
    let slow = |file: &str| {
        let found = lines(&["transactions", file, "--operation", "write", "--format", "jsonl"]);
        let [one] = &found[..] else { panic!("{found:#?}") };
        (one["xid"].clone(), one["latency_ns"].clone(), one["call"]["time"].clone())
    };
    assert_eq!(slow(file), slow(&path));
    let packets = |file: &str| lines(&["packets", file, "--all", "--format", "jsonl"]).len() as u64;
    assert_eq!(captured["packets"], packets(file));
    assert!(packets(file) < packets(&path) && packets(file) > 100);
    // The reason is a comment on the packet that completed the reply.
    let bytes = std::fs::read(file).expect("it was written");
    let reason = captured["reason"].as_str().expect("there is one");
    assert!(reason.contains("NFSv3 WRITE took 106ms"), "{reason}");
    assert!(bytes.windows(reason.len()).any(|window| window == reason.as_bytes()));
    // The capture covers the call, however long it took.
    let at_once = [&trigger[..5], &["0s"], &trigger[6..]].concat();
    std::fs::remove_file(file).expect("it is there");
    lines(&[&["live", &path, "--format", "jsonl"][..], &at_once].concat());
    assert_eq!(slow(file), slow(&path));
    std::fs::write(file, &bytes).expect("it can be written");
    // A second run overwrites nothing.
    let again = lines(&[&["live", &path, "--format", "jsonl"][..], &trigger].concat());
    let captured = of_type(&again, "captured").next().expect("it is reported");
    assert_eq!(captured["trouble"], "the file exists");
    assert_eq!(std::fs::read(file).expect("it is there"), bytes);
}

/// The capture is larger than the memory.
#[test]
fn memory_does_not_cut_the_packets_after_a_trigger() {
    let folder = folder();
    let to = folder.path().to_str().expect("it is UTF-8");
    let path = sample("nfs4.2-mtu4096-large-io.pcap");
    let first = ["live", &path, "--trigger", "latency>1ns", "--trigger-memory", "2", "--format", "jsonl"];
    let reported = lines(&[&first[..], &["--trigger-after", "10s", "--trigger-folder", to]].concat());
    let [captured] = of_type(&reported, "captured").collect::<Vec<_>>()[..] else { panic!("{reported:#?}") };
    assert_eq!(captured["cut"], false);
    let frames = |file: &str| {
        let packets = lines(&["packets", file, "--all", "--format", "jsonl"]);
        packets.iter().map(|packet| ["time", "psn"].map(|name| packet[name].clone())).collect::<Vec<_>>()
    };
    let (all, kept) = (frames(&path), frames(captured["file"].as_str().expect("it has a name")));
    assert!(kept.len() > all.len() / 2, "{} of {}", kept.len(), all.len());
    assert!(all.starts_with(&kept));
}

/// The clock steps back by an hour while a capture is written.
#[test]
fn step_back_of_the_clock_ends_a_capture() {
    const HOUR: i64 = 3_600_000_000_000;
    let folder = folder();
    let path = folder.path().join("stepped.pcap");
    let mut capture = samples::capture("nfs3-basic");
    let half = capture.packets.len() / 2;
    capture.packets[half..].iter_mut().for_each(|packet| packet.time -= HOUR);
    std::fs::write(&path, pcap::write(&capture)).expect("it can be written");
    let [path, to] = [&path, folder.path()].map(|path| path.to_str().expect("it is UTF-8"));
    let trigger = ["--trigger", "latency>1ns", "--trigger-after", "100s", "--trigger-folder", to];
    let reported = lines(&[&["live", path, "--format", "jsonl"][..], &trigger].concat());
    let packets = of_type(&reported, "captured").map(|one| one["packets"].as_u64().expect("a number"));
    let [before, after] = packets.collect::<Vec<_>>()[..] else { panic!("{reported:#?}") };
    assert_eq!(before, half as u64);
    assert!(after > 0 && before + after <= capture.packets.len() as u64, "{before} + {after}");
}

/// The response to a GET.
fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("somebody listens");
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").expect("it can be sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

/// The command reading from a pipe, and the address of its metrics.
fn serving_metrics(options: &[&str]) -> (Child, String) {
    let address = TcpListener::bind("127.0.0.1:0").and_then(|one| one.local_addr()).expect("a port is free");
    let port = address.port().to_string();
    let child = command(&[&["live", "-", "--format", "jsonl", "--metrics", &port][..], options].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    (child, address.to_string())
}

/// The metrics of a growing pipe, over HTTP.
#[test]
fn metrics_are_served_while_running() {
    let (mut child, address) = serving_metrics(&[]);
    let mut input = child.stdin.take().expect("it was piped");
    let capture = std::fs::read(sample("nfs3-basic.pcap")).expect("it is there");
    input.write_all(&capture).and_then(|()| input.flush()).expect("it is read");
    // The session lasts 4.6 s, from one second to the fifth after it. The last interval ends only
    // when the pipe does.
    let mut reported = BufReader::new(child.stdout.take().expect("it was piped")).lines();
    for _ in 0..4 {
        let is_interval = |line: &io::Result<String>| {
            line.as_ref().is_ok_and(|line| line.contains(r#""type":"interval","#))
        };
        assert!(reported.any(|line| is_interval(&line)), "four intervals are over");
    }
    let answer = get(&address, "/metrics");
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains("application/openmetrics-text"),
        "{answer}"
    );
    let [_, (writes, _)] = mountstats("nfs3-basic");
    let line = |head: &str| {
        answer.lines().find(|line| line.starts_with(head)).unwrap_or_else(|| panic!("no {head}: {answer}"))
    };
    let operation = r#"{protocol="NFSv3",direction="forward",operation="WRITE"}"#;
    assert_eq!(
        line("rdmascope_operations_total{protocol=\"NFSv3\",direction=\"forward\",operation=\"WRITE\"}"),
        format!("rdmascope_operations_total{operation} {writes}")
    );
    assert!(line("rdmascope_operation_latency_seconds_count{protocol=\"NFSv3\",direction=\"forward\",operation=\"WRITE\"}").ends_with(&format!(" {writes}")));
    let all = r#"rdmascope_operation_latency_seconds_bucket{le="+Inf",protocol="NFSv3",direction="forward",operation="WRITE"}"#;
    assert_eq!(line(all), format!("{all} {writes}"));
    assert_eq!(
        line("rdmascope_credits_granted"),
        r#"rdmascope_credits_granted{requester="10.77.0.2",responder="10.77.0.1"} 64"#
    );
    assert!(answer.trim_end().ends_with("# EOF"), "{answer}");
    assert!(get(&address, "/nothing").starts_with("HTTP/1.1 404"));
    drop(input);
    reported.for_each(drop);
    assert!(child.wait().expect("it ends").success());
    // If the port is taken, the error is one line.
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = taken.local_addr().expect("it has one").to_string();
    let output = run(&["live", &sample("nfs3-basic.pcap"), "--metrics", &address]);
    assert_eq!((output.status.code(), text(&output.stderr).lines().count()), (Some(2), 1));
    assert!(text(&output.stderr).contains(&address), "{}", text(&output.stderr));
}

#[test]
fn bad_usage_is_refused() {
    let path = sample("nfs3-basic.pcap");
    for (arguments, expected) in [
        (vec!["live", &path, "--trigger", "credit-limt"], "did you mean credit-limit?"),
        (vec!["live", &path, "--trigger", "error", "--trigger-folder", "/nonexistent"], "no such folder"),
        (vec!["live", &path, "--interval", "1ms"], "expected 10ms to 1 day"),
        (vec!["live", &path, "--metrics", "localhost:1"], "expected a port"),
        (vec!["live"], "<--interface <NAME>|FILE|--snoop"),
        (vec!["live", &path, "-i", "lo"], "cannot be used with"),
        #[cfg(not(feature = "verbs"))]
        (vec!["live", "--verbs", "none"], "unexpected argument '--verbs'"),
        #[cfg(feature = "verbs")]
        (vec!["live", &path, "--verbs", "none"], "cannot be used with"),
        #[cfg(feature = "verbs")]
        (vec!["live", "-i", "lo", "--verbs", "none"], "cannot be used with"),
        #[cfg(feature = "verbs")]
        (vec!["live", "--verbs", "none", "--filter", "udp"], "--filter is not supported with --verbs"),
        #[cfg(feature = "verbs")]
        (vec!["capture", "--verbs", "none", "--threads", "2", "-w", "-"], "--threads is not supported with"),
        // Without the library or a device.
        #[cfg(feature = "verbs")]
        (vec!["live", "--verbs", "none"], "RDMA device"),
    ] {
        let output = run(&arguments);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""), "{arguments:?}");
        assert!(text(&output.stderr).contains(expected), "{arguments:?}: {}", text(&output.stderr));
    }
}

#[test]
fn live_ends_after_the_given_duration() {
    let path = sample("nfs3-basic.pcap");
    let lines = lines(&["live", &path, "--format", "jsonl", "--duration", "1500ms"]);
    let spans = of_type(&lines, "interval").map(|line| line["duration_ns"].as_u64().expect("it is a number"));
    assert_eq!(spans.sum::<u64>(), 1_500_000_000);
}

/// The packets sent by one end of a sample, as captured by a mirror of one side.
fn one_direction(name: &str, of_client: bool) -> Vec<u8> {
    pcap::write(&mutate::keep(&samples::capture(name), |packet| mutate::is_from_client(packet) == of_client))
}

#[test]
fn one_direction_is_reported_once_without_call_figures() {
    for name in ["nfs3-basic", "nfs4.1-basic", "iwarp-nfs3"] {
        for (of_client, sender) in [(true, "requester"), (false, "responder")] {
            let file = Temporary::new("one.pcap", &one_direction(name, of_client));
            let context = format!("{name}, of the client: {of_client}");
            let output = run(&["live", file.path()]);
            let rows: Vec<&str> = text(&output.stdout).lines().collect();
            let notes: Vec<_> = rows.iter().filter(|row| row.contains("are captured")).collect();
            let [note] = notes[..] else { panic!("{context}: {rows:#?}") };
            assert!(note.contains("connection 1: only packets from 10.77."), "{context}: {note}");
            assert!(!text(&output.stdout).contains("had no reply"), "{context}: {rows:#?}");
            let row = rows.iter().rfind(|row| row.ends_with(" 0")).expect("there is a row");
            let cells: Vec<&str> = row.split_whitespace().skip(1).collect();
            assert_eq!(cells, ["-", "-", "-", "-", "-", "-", "-", "-", "0", "0"], "{context}: {rows:#?}");
            let lines = lines(&["live", file.path(), "--format", "jsonl", "--interval", "60s"]);
            let last = of_type(&lines, "interval").last().expect("there is one");
            assert_eq!(
                (&last["transactions"], &last["waiting"], &last["one_direction"]),
                (&Value::Null, &Value::Null, &1.into()),
                "{context}"
            );
            let last = of_type(&lines, "interval_connection").last().expect("there is one");
            assert_eq!(
                (&last["transactions"], &last["waiting"], &last["one_direction"]),
                (&Value::Null, &Value::Null, &sender.into()),
                "{context}"
            );
            assert_eq!(of_type(&lines, "interval_operation").count(), 0, "{context}");
        }
    }
}

/// The metrics of a capture read from a pipe, after this number of lines of a type.
fn metrics_of(capture: &[u8], kind: &str, count: usize, options: &[&str]) -> String {
    let (mut child, address) = serving_metrics(options);
    let mut input = child.stdin.take().expect("it was piped");
    input.write_all(capture).and_then(|()| input.flush()).expect("it is read");
    let mut reported = BufReader::new(child.stdout.take().expect("it was piped")).lines();
    let kind = format!(r#""type":"{kind}","#);
    let is_of_kind = |line: &io::Result<String>| line.as_ref().is_ok_and(|line| line.contains(&kind));
    assert_eq!(reported.by_ref().filter(is_of_kind).take(count).count(), count);
    let answer = get(&address, "/metrics");
    drop(input);
    reported.for_each(drop);
    assert!(child.wait().expect("it ends").success());
    answer
}

#[test]
fn one_direction_metric_replaces_waiting_calls() {
    let answer = metrics_of(&one_direction("nfs3-basic", true), "interval", 3, &[]);
    let hosts = r#"{requester="10.77.0.2",responder="10.77.0.1"}"#;
    for expected in ["connections", "one_direction_connections"] {
        assert!(answer.contains(&format!("rdmascope_{expected}{hosts} 1\n")), "{expected}: {answer}");
    }
    for absent in ["waiting_calls", "oldest_waiting_call_seconds", "credits_in_flight", "credits_granted"] {
        assert!(!answer.contains(&format!("rdmascope_{absent}{{")), "{absent}: {answer}");
    }
}

/// Sessions over iWARP without a disturbance, or with one that the transport repaired. All of
/// [`MOUNTS`] are such sessions.
const HEALTHY_IWARP: [&str; 5] =
    ["iwarp-nfs3", "iwarp-nfs4.1-midstream", "iwarp-nfs4.2-nconnect", "iwarp-recall", "iwarp-crc-lossy"];

/// The triggers in the examples of a text.
fn examples(text: &str) -> Vec<String> {
    let commands = text.lines().filter(|line| line.trim_start().starts_with("rdmascope live "));
    let triggers = commands.filter_map(|line| line.split_once("--trigger ").map(|(_, after)| after));
    triggers.map(|after| after.replace('\'', "")).collect()
}

fn captures_with(name: &str, options: &str) -> usize {
    let folder = folder();
    let options = options.split(" --trigger-folder").next().expect("there is a first part");
    let path = sample(&format!("{name}.pcap"));
    let to = folder.path().to_str().expect("it is UTF-8");
    let arguments = ["live", &path, "--format", "jsonl", "--trigger-folder", to, "--trigger"];
    let reported = lines(&arguments.into_iter().chain(options.split_whitespace()).collect::<Vec<_>>());
    let files = std::fs::read_dir(folder.path()).expect("it is there").count();
    assert_eq!(of_type(&reported, "captured").count(), files, "{name}");
    files
}

#[test]
fn example_triggers_do_not_fire_on_healthy_sessions() {
    let page = std::fs::read_to_string(root().join("docs/live.md")).expect("it is there");
    let help = run(&["live", "--help"]);
    let examples = [examples(&page), examples(text(&help.stdout))].concat();
    assert_eq!(examples.len(), 4, "{examples:?}");
    for name in MOUNTS.into_iter().chain(HEALTHY_IWARP) {
        for example in &examples {
            assert_eq!(captures_with(name, example), 0, "{name}: {example}");
        }
    }
    // Linux servers invalidate remotely without an agreement: without --allow that is a violation.
    assert_eq!(captures_with("nfs4.1-basic", "violation"), 1);
}

#[test]
fn policy_allows_findings_in_its_scope() {
    let folder = folder();
    let path = folder.path().join("nfs.pcap");
    std::fs::copy(sample("nfs4.1-basic.pcap"), &path).expect("it can be copied");
    let path = path.to_str().expect("it is UTF-8");
    let to = folder.path().join("captures");
    std::fs::create_dir(&to).expect("a folder can be made");
    let to = to.to_str().expect("it is UTF-8");
    let watch = |scope: &str| {
        let policy = format!("[[allow]]\nrule = \"invalidation-sender-flag\"\nreason = \"known\"\n{scope}\n");
        std::fs::write(folder.path().join("rdmascope.toml"), policy).expect("it can be written");
        run(&[
            "live",
            path,
            "--format",
            "jsonl",
            "--interval",
            "60s",
            "--trigger",
            "violation",
            "--trigger-folder",
            to,
        ])
    };
    for scope in ["", "server = \"10.77.0.1\"", "client = \"10.77.0.*\"\nversion = 4.1", "connection = 1"] {
        let output = watch(scope);
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""), "{scope}");
        let reported: Vec<Value> =
            text(&output.stdout).lines().map(|line| line.parse().expect("it is JSON")).collect();
        let found: Vec<_> =
            of_type(&reported, "finding").map(|one| (&one["allowed_rule"], &one["reason"])).collect();
        assert!(
            !found.is_empty() && found.iter().all(|one| *one == (&true.into(), &"known".into())),
            "{scope}: {found:?}"
        );
        let count = |field: &str| {
            let intervals = of_type(&reported, "interval");
            intervals.map(|one| one[field].as_u64().expect("it is a number")).sum::<u64>()
        };
        assert_eq!((count("findings"), count("allowed")), (0, found.len() as u64), "{scope}");
        assert_eq!(of_type(&reported, "captured").count(), 0, "{scope}");
    }
    for (scope, expected) in [
        ("server = \"10.77.0.2\"", ""),
        ("version = 3", ""),
        ("connection = 2", ""),
        ("expires = 2020-12-31", "rdmascope.toml:1: allow invalidation-sender-flag expired after 2020-12-31"),
    ] {
        let output = watch(scope);
        assert!(text(&output.stderr).contains(expected), "{scope}: {}", text(&output.stderr));
        assert!(text(&output.stdout).contains(r#""allowed_rule":false"#), "{scope}");
        assert!(text(&output.stdout).contains(r#""type":"captured""#), "{scope}");
    }
    let output = watch("[require]\nconnections = 1");
    assert!(text(&output.stderr).contains("[require] apply to whole captures"), "{}", text(&output.stderr));
    let output = watch("servr = 1");
    assert_eq!((output.status.code(), text(&output.stderr).lines().count()), (Some(2), 1));
    // Text output has neither the finding nor a mark.
    let output = run(&["live", path, "--no-policy", "--allow", "invalidation-sender-flag"]);
    assert!(!text(&output.stdout).contains("invalidation-sender-flag"), "{}", text(&output.stdout));
}

#[test]
fn allowed_findings_have_their_own_metric_verdict() {
    let mut capture = samples::capture("nfs4.1-basic");
    // A packet one minute later ends the connection, which makes the finding.
    let mut later = capture.packets[0].clone();
    later.time = capture.packets.last().expect("it has packets").time + 60_000_000_000;
    capture.packets.push(later);
    let capture = pcap::write(&capture);
    let labels = r#"rule="invalidation-sender-flag",level="violation""#;
    for (options, verdict) in [(&[][..], "stands"), (&["--allow", "invalidation-sender-flag"][..], "allowed")]
    {
        let answer = metrics_of(&capture, "finding", 1, options);
        let found = answer.lines().filter(|line| line.contains(labels)).collect::<Vec<_>>();
        assert!(found.len() == 1 && found[0].contains(&format!("verdict=\"{verdict}\"")), "{found:?}");
    }
}

/// Every call of nfs3-basic takes longer than 1 ns.
#[test]
fn last_capture_is_marked_and_later_triggers_are_counted() {
    let folder = folder();
    let to = folder.path().to_str().expect("it is UTF-8");
    let triggers = [
        "--trigger",
        "latency>1ns",
        "--trigger-after",
        "1ms",
        "--trigger-files",
        "2",
        "--trigger-folder",
        to,
    ];
    let capture = pcap::write(&samples::capture("nfs3-basic"));
    let answer = metrics_of(&capture, "interval", 4, &triggers);
    let value = |name: &str| -> u64 {
        let found =
            answer.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{answer}"));
        found.trim().parse().expect("it is a number")
    };
    assert_eq!(value("rdmascope_triggered_captures_total "), 2);
    assert!(value("rdmascope_missed_triggers_total ") > 100, "{answer}");
    std::fs::remove_dir_all(to).and_then(|()| std::fs::create_dir(to)).expect("it can be emptied");
    let reported =
        lines(&[&["live", &sample("nfs3-basic.pcap"), "--format", "jsonl"][..], &triggers].concat());
    let last: Vec<_> = of_type(&reported, "captured").map(|one| one["last"].as_bool()).collect();
    assert_eq!(last, [Some(false), Some(true)]);
    std::fs::remove_dir_all(to).and_then(|()| std::fs::create_dir(to)).expect("it can be emptied");
    let output = run(&[&["live", &sample("nfs3-basic.pcap")][..], &triggers].concat());
    let marks = text(&output.stdout)
        .lines()
        .filter(|line| line.ends_with("this is the last file: increase --trigger-files"))
        .count();
    assert_eq!(marks, 1, "{}", text(&output.stdout));
}
