//! `rdmascope live` on captures, whose time stamps are its clock. tests/live_veth has it on interfaces.

mod binary;

use binary::{command, root, run, sample, text};
use rdmascope_tests::samples::MOUNTS;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;

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

/// What the client's kernel counted: READs and WRITEs, and the bytes that it asked the server for and gave it (`bytes:` and the statistics of each
/// operation in mountstats).
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
fn operations_and_bytes_are_those_that_the_client_counted() {
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
fn a_capture_has_no_use_for_how_interfaces_are_captured() {
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
fn events_and_findings_are_those_of_the_other_commands() {
    for name in ["connect-rejected", "nfs3-lossy", "nfs4.1-backchannel-recall"] {
        let path = sample(&format!("{name}.pcap"));
        let live = lines(&["live", &path, "--format", "jsonl", "--level", "advice"]);
        let check = lines(&["check", &path, "--format", "jsonl", "--allow-empty"]);
        let findings = |lines: &[Value]| of_type(lines, "finding").cloned().collect::<Vec<_>>();
        assert_eq!(findings(&live), findings(&check), "{name}");
        let known = lines(&["events", &path, "--format", "jsonl"]);
        for event in &known {
            assert!(live.contains(event), "{name}: {event}");
        }
        let told = of_type(&live, "event").filter(|event| !known.contains(event));
        // What went on when it was told was told once more.
        for event in told {
            let same = |other: &&Value| {
                ["event", "time", "connection"].iter().all(|field| other[field] == event[field])
            };
            assert!(known.iter().any(|other| same(&other)), "{name}: {event}");
        }
    }
}

#[test]
fn people_see_a_row_for_each_interval() {
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

/// The WRITE of nfs3-lossy that took 106 ms.
#[test]
fn a_capture_is_written_around_a_slow_call() {
    let folder = tempfile::TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder can be made");
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
    let told = lines(&[&["live", &path, "--format", "jsonl"][..], &trigger].concat());
    let [captured] = of_type(&told, "captured").collect::<Vec<_>>()[..] else { panic!("{told:#?}") };
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
    // The reason stands beside the packet that completed the reply.
    let bytes = std::fs::read(file).expect("it was written");
    let reason = captured["reason"].as_str().expect("there is one");
    assert!(reason.contains("NFSv3 WRITE took 106ms"), "{reason}");
    assert!(bytes.windows(reason.len()).any(|window| window == reason.as_bytes()));
    // A second run writes over nothing.
    let again = lines(&[&["live", &path, "--format", "jsonl"][..], &trigger].concat());
    let captured = of_type(&again, "captured").next().expect("it is told");
    assert_eq!(captured["trouble"], "there is a file of this name");
    assert_eq!(std::fs::read(file).expect("it is there"), bytes);
}

/// What one GET brings.
fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("somebody listens");
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").expect("it can be sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

/// The figures of a pipe that goes on, over HTTP.
#[test]
fn figures_are_served_while_it_goes_on() {
    let port =
        TcpListener::bind("127.0.0.1:0").and_then(|one| one.local_addr()).expect("a port is free").port();
    let port = port.to_string();
    let mut child = command(&["live", "-", "--format", "jsonl", "--metrics", &port])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut input = child.stdin.take().expect("it was piped");
    let capture = std::fs::read(sample("nfs3-basic.pcap")).expect("it is there");
    input.write_all(&capture).and_then(|()| input.flush()).expect("it is read");
    // The session lasts 4.6 s, from one second to the fifth behind it. The last one is not over before the pipe ends.
    let mut told = BufReader::new(child.stdout.take().expect("it was piped")).lines();
    for _ in 0..4 {
        let is_interval = |line: &io::Result<String>| {
            line.as_ref().is_ok_and(|line| line.contains(r#""type":"interval","#))
        };
        assert!(told.any(|line| is_interval(&line)), "four intervals are over");
    }
    let address = format!("127.0.0.1:{port}");
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
    told.for_each(drop);
    assert!(child.wait().expect("it ends").success());
    // Where the port is taken, one line says so.
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = taken.local_addr().expect("it has one").to_string();
    let output = run(&["live", &sample("nfs3-basic.pcap"), "--metrics", &address]);
    assert_eq!((output.status.code(), text(&output.stderr).lines().count()), (Some(2), 1));
    assert!(text(&output.stderr).contains(&address), "{}", text(&output.stderr));
}

#[test]
fn bad_usage_gets_one_line() {
    let path = sample("nfs3-basic.pcap");
    for (arguments, expected) in [
        (vec!["live", &path, "--trigger", "credit-limt"], "is it credit-limit?"),
        (vec!["live", &path, "--trigger", "error", "--trigger-folder", "/nonexistent"], "no such folder"),
        (vec!["live", &path, "--interval", "1ms"], "not between 10ms and a day"),
        (vec!["live", &path, "--metrics", "localhost:1"], "neither a port"),
        (vec!["live"], "required"),
        (vec!["live", &path, "-i", "lo"], "cannot be used with"),
        #[cfg(not(feature = "verbs"))]
        (vec!["live", "--verbs", "none"], "unexpected argument '--verbs'"),
        #[cfg(feature = "verbs")]
        (vec!["live", &path, "--verbs", "none"], "cannot be used with"),
        #[cfg(feature = "verbs")]
        (vec!["live", "-i", "lo", "--verbs", "none"], "cannot be used with"),
        #[cfg(feature = "verbs")]
        (vec!["live", "--verbs", "none", "--filter", "udp"], "--filter cannot be had with a device by verbs"),
        #[cfg(feature = "verbs")]
        (vec!["capture", "--verbs", "none", "--threads", "2", "-w", "-"], "--threads cannot be had with"),
        // Where there is no library, or no device.
        #[cfg(feature = "verbs")]
        (vec!["live", "--verbs", "none"], "RDMA device"),
    ] {
        let output = run(&arguments);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""), "{arguments:?}");
        assert!(text(&output.stderr).contains(expected), "{arguments:?}: {}", text(&output.stderr));
    }
}

#[test]
fn it_ends_after_the_time_that_was_given() {
    let path = sample("nfs3-basic.pcap");
    let lines = lines(&["live", &path, "--format", "jsonl", "--duration", "1500ms"]);
    let spans = of_type(&lines, "interval").map(|line| line["duration_ns"].as_u64().expect("it is a number"));
    assert_eq!(spans.sum::<u64>(), 1_500_000_000);
}
