//! `peer replay` against `peer serve --from`: two processes over the loopback interface.
#![cfg(target_os = "linux")]

mod binary;
mod live;

use binary::{command, folder, run, sample, start, text};
use live::{Server, address, described, of_type, parsed};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Output;
use tempfile::TempDir;

fn capture(name: &str) -> String {
    sample(&format!("{name}.pcap"))
}

/// A listening server that answers from a sample. Returns `None`, and reports that, if the port is
/// taken.
fn serving(at: &str, name: &str) -> Option<Server> {
    let mut server = Server::start(&["--from", &capture(name), "--bind", at, "--socket", "udp"])?;
    // A server blocks if its output is not read.
    let mut output = server.stdout.take()?;
    std::thread::spawn(move || output.read_to_string(&mut String::new()));
    Some(server)
}

fn replay(at: &str, name: &str, arguments: &[&str]) -> Output {
    let from = address();
    let given = ["peer", "replay", &capture(name), "--to", at, "--from", &from, "--socket", "udp"];
    run(&[&given[..], arguments].concat())
}

#[test]
fn every_sample_agrees_with_itself() {
    let folder = folder();
    // From samples/MANIFEST.
    let samples = [
        ("connect-rejected", 0),
        ("nfs3-basic", 265),
        ("nfs3-lossy", 19),
        ("nfs4.1-backchannel-recall", 38),
        ("nfs4.1-basic", 239),
        ("nfs4.2-basic", 239),
        ("nfs4.2-mtu4096-large-io", 60),
    ];
    for (name, calls) in samples {
        let at = address();
        let Some(_server) = serving(&at, name) else { return };
        let saved = folder.path().join(format!("{name}.pcapng"));
        let saved = saved.to_str().expect("it is UTF-8");
        let output = replay(&at, name, &["--format", "jsonl", "--save", saved]);
        assert_eq!(
            (output.status.code(), text(&output.stderr)),
            (Some(0), ""),
            "{name}: {}",
            text(&output.stdout)
        );
        let lines = parsed(text(&output.stdout));
        let own = lines
            .iter()
            .filter(|line| line["type"].as_str().is_some_and(|kind| kind.starts_with("peer_replay")));
        described(&own.cloned().collect::<Vec<_>>());
        let end = lines.last().expect("there is one");
        for (field, count) in
            [("calls", calls), ("agree", calls), ("differ", 0), ("not_compared", 0), ("own", 0)]
                .into_iter()
                .chain([("conveyance_differ", 0), ("conveyance_may_differ", 0)])
        {
            assert_eq!(end[field], count, "{name} {field}: {end}");
        }
        if calls == 0 {
            continue;
        }
        // The recorded packets are the same session: another reader of the packets finds the same
        // number of calls of each kind, with replies conveyed in the same way.
        let transactions = |capture: &str| -> Vec<String> {
            let output = run(&["transactions", capture, "--format", "jsonl"]);
            let lines = parsed(text(&output.stdout));
            let mut shown: Vec<String> = lines
                .iter()
                .map(|line| {
                    format!(
                        "{} {} {} {} {}",
                        line["operations"],
                        line["status"],
                        line["direction"],
                        line["outcome"],
                        conveyance(&line["reply"])
                    )
                })
                .collect();
            shown.sort();
            shown
        };
        assert_eq!(transactions(saved), transactions(&capture(name)), "{name}");
    }
}

/// How a reply is conveyed: rdma_proc, the lengths of segments, and whether memory is invalidated.
fn conveyance(reply: &Value) -> String {
    let lengths = |chunk: &Value| -> Vec<Value> {
        let segments = chunk["segments"].as_array().into_iter().flatten();
        segments.map(|segment| segment["length"].clone()).collect()
    };
    let writes: Vec<_> = reply["write_chunks"].as_array().into_iter().flatten().map(lengths).collect();
    let long = lengths(&reply["reply_chunk"]);
    format!("{} {writes:?} {long:?} {}", reply["procedure"], reply["invalidated"].is_null())
}

#[test]
fn another_session_differs() {
    let at = address();
    let Some(_server) = serving(&at, "nfs4.1-basic") else { return };
    let output = replay(&at, "nfs3-basic", &["--connection", "1", "--operation", "fsinfo"]);
    let shown = text(&output.stdout);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), ""), "{shown}");
    for part in
        [" NFSv3 FSINFO: differs", "accept_stat: recorded 0, now 5", "supplied by no reply", "0 agree"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

#[test]
fn unusable_recordings_and_options_are_status_2() {
    let refused = |output: Output, why: &str| {
        let complaint = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""), "{complaint}");
        assert!(complaint.contains(why), "{complaint}");
    };
    let (at, name) = (address(), "nfs3-basic");
    refused(replay(&at, name, &["--connection", "7"]), "no connection 7");
    refused(
        replay(&at, name, &["--operation", "mknod"]),
        "the capture holds no complete call: nothing to replay",
    );
    refused(replay(&at, name, &["--memory", "64K"]), "hold more than 64 KiB");
    refused(replay(&at, name, &["--handle", "01"]), "two file handles");
    refused(replay(&at, "nfs4.1-basic", &["--mount", "/export"]), "no NFSv3 call");
    refused(run(&["peer", "replay", "no-such.pcap", "--to", &at]), "no-such.pcap");
    refused(run(&["peer", "replay", &capture(name)]), "--to");
    let serve = ["peer", "serve", "--bind", &at, "--socket", "udp", "--from", "no-such.pcap"];
    refused(run(&serve), "no-such.pcap");
}

#[test]
fn snap_length_is_named_for_truncated_calls() {
    let folder = folder();
    let cut = folder.path().join("cut.pcap");
    let original = std::fs::read(capture("nfs3-basic")).expect("it can be read");
    // The global header, then records of 16 bytes and their data, each truncated to 200 bytes.
    let mut out = original[..24].to_vec();
    let mut at = 24;
    while at < original.len() {
        let word = |at: usize| u32::from_le_bytes(original[at..at + 4].try_into().expect("four bytes"));
        let length = word(at + 8) as usize;
        let kept = length.min(200);
        out.extend(&original[at..at + 8]);
        out.extend((kept as u32).to_le_bytes());
        out.extend(&original[at + 12..at + 16 + kept]);
        at += 16 + length;
    }
    std::fs::write(&cut, out).expect("it can be written");
    let (to, from) = (address(), address());
    let output = run(&[
        "peer",
        "replay",
        cut.to_str().expect("it is UTF-8"),
        "--to",
        &to,
        "--from",
        &from,
        "--socket",
        "udp",
    ]);
    let complaint = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{complaint}");
    for part in ["cannot be replayed", "a snap length cut", "missing from the capture", "--leave-out"] {
        assert!(complaint.contains(part), "{part}: {complaint}");
    }
}

/// The error output of a server that answers from this capture, and its exit status if it ended by
/// itself.
fn complaint_of_server(capture: &str) -> (Option<i32>, String) {
    let arguments = ["peer", "serve", "--from", capture, "--bind", &address(), "--socket", "udp"];
    let mut child = start(&mut command(&arguments));
    // It reports errors before it listens.
    let mut first = String::new();
    let mut stdout = BufReader::new(child.stdout.take().expect("it was piped"));
    stdout.read_line(&mut first).expect("it can be read");
    if !first.is_empty() {
        child.kill().expect("it runs");
    }
    let output = child.wait_with_output().expect("it ends");
    (output.status.code(), text(&output.stderr).to_owned())
}

#[test]
fn both_commands_report_a_damaged_capture() {
    let folder = folder();
    let file = folder.path().join("damaged.pcap");
    let path = file.to_str().expect("it is UTF-8");
    let original = std::fs::read(capture("nfs3-basic")).expect("it can be read");
    // A capture truncated in the middle of a record, and one with a record that claims 4 GiB.
    let cut = original[..original.len() / 2].to_vec();
    let mut wild = original.clone();
    let mut at = 24;
    while at < original.len() / 2 {
        at += 16 + u32::from_le_bytes(original[at + 8..at + 12].try_into().expect("four bytes")) as usize;
    }
    wild[at + 8..at + 16].fill(0xff);
    for (bytes, why, is_refused) in [(&cut, "is cut short", false), (&wild, "damaged.pcap", true)] {
        std::fs::write(&file, bytes).expect("it can be written");
        let (to, from) = (address(), address());
        let replayed = run(&[
            "peer",
            "replay",
            path,
            "--leave-out",
            "--to",
            &to,
            "--from",
            &from,
            "--socket",
            "udp",
            "--timeout",
            "10ms",
        ]);
        let (status, complaint) = complaint_of_server(path);
        if complaint.contains("is in use") {
            return eprintln!("SKIPPED: {complaint}");
        }
        let line = text(&replayed.stderr).lines().next().unwrap_or_default();
        assert!(line.contains(why), "{line}");
        assert!(complaint.lines().any(|other| other == line), "{complaint}");
        if is_refused {
            assert_eq!((replayed.status.code(), status), (Some(2), Some(2)), "{complaint}");
        }
    }
    // The control: a complete capture has no errors.
    assert_eq!(complaint_of_server(&capture("nfs3-lossy")).1, "");
}

/// A client that calls with the message of this file, and has a Reply chunk of `reply` bytes.
fn caller(folder: &TempDir, message: &[u8], reply: u32) -> String {
    let hex: String = message[4..].iter().map(|byte| format!("{byte:02x}")).collect();
    let file = folder.path().join(format!("call-{reply}.toml"));
    let scenario = format!(
        "name = \"call\"\ntitle = \"Calls\"\nallowed = [{{ reply = {{ long = true }} }}, {{ error = {{ code = \"chunk\" }} }}]\n\
         requirement = {{ document = \"rfc8166\", section = \"4.5.3\", level = \"may\", text = \"An answer.\" }}\n\
         [[steps]]\nconnect = {{}}\n[[steps]]\nregister = {{ name = \"reply\", length = 65536, access = \"write\" }}\n\
         [[steps]]\nsend.payload = {{ hex = \"xid {hex}\" }}\nsend.reply = [{{ memory = \"reply\", length = {reply} }}]\n\
         [[steps]]\nobserve = {{ within = 10000 }}\n"
    );
    std::fs::write(&file, scenario).expect("it can be written");
    file.to_str().expect("it is UTF-8").to_owned()
}

#[test]
fn oversized_reply_and_recorded_error_are_reported_once() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name).to_str().expect("it is UTF-8").to_owned();
    // READDIRPLUS with some 8000 bytes of results.
    let (message, saved) = (path("call.bin"), path("served.pcapng"));
    let extracted = run(&["extract", &capture("nfs3-basic"), "--transaction", "151", "--output", &message]);
    assert!(extracted.status.success(), "{}", text(&extracted.stderr));
    let message = std::fs::read(message).expect("it can be read");
    let served = |from: &str, calls: &[u32], more: &[&str]| -> Option<Vec<serde_json::Value>> {
        let (at, client) = (address(), address());
        let given = ["--from", from, "--bind", &at, "--socket", "udp"];
        let server = Server::start(&[&given[..], more].concat())?;
        for reply in calls {
            let file = caller(&folder, &message, *reply);
            let output = run(&[
                "peer",
                "inject",
                &file,
                "--to",
                &at,
                "--from",
                &client,
                "--socket",
                "udp",
                "--null-only",
            ]);
            assert!(text(&output.stdout).contains("conforms"), "{}", text(&output.stdout));
        }
        Some(server.stop())
    };
    let answers = |lines: &[serde_json::Value]| {
        let calls = of_type(lines, "peer_call").into_iter().filter(|call| call["procedure"] != 0);
        calls.map(|call| (call["rpc_status"].clone(), call["error"].clone())).collect::<Vec<_>>()
    };
    let Some(lines) = served(&capture("nfs3-basic"), &[65536, 4096], &["--save", &saved]) else { return };
    let calls = answers(&lines);
    let [fits, short] = &calls[..] else { panic!("{calls:?}") };
    assert_eq!((fits.0.as_str(), fits.1.as_str()), (Some("SUCCESS"), None));
    let error = short.1.as_str().expect("there is one");
    assert!(short.0.is_null() && error.starts_with("ERR_CHUNK"), "{error}");
    // The responses of that server are a recording themselves: a reply, and an RDMA_ERROR.
    let Some(lines) = served(&saved, &[65536, 65536], &[]) else { return };
    let calls = answers(&lines);
    let [reply, recorded] = &calls[..] else { panic!("{calls:?}") };
    assert_eq!((reply.0.as_str(), reply.1.as_str()), (Some("SUCCESS"), None));
    assert_eq!(recorded.1.as_str(), Some("as recorded: ERR_CHUNK"), "{recorded:?}");
    let end = lines.last().expect("there is one");
    assert_eq!(end["calls"].as_u64(), Some(of_type(&lines, "peer_call").len() as u64), "{end}");
}

/// One call has a fault: it alone differs, in the way that the specification describes.
#[test]
fn injected_fault_is_one_difference() {
    let at = address();
    let Some(_server) = serving(&at, "nfs3-lossy") else { return };
    // A call that is not in the sample is answered with SYSTEM_ERR, accept_stat 5 (RFC 5531,
    // section 9).
    let faults = [
        ("version", "rdma_proc", "RDMA_ERROR, ERR_VERS 1 to 1"),
        ("procedure", "rdma_proc", "RDMA_ERROR, ERR_CHUNK"),
        ("short", "accept_stat", "5"),
    ];
    for (fault, field, live) in faults {
        let output = replay(&at, "nfs3-lossy", &["--fault", &format!("{fault}@1"), "--format", "jsonl"]);
        assert_eq!(output.status.code(), Some(1), "{fault}: {}", text(&output.stderr));
        let lines = parsed(text(&output.stdout));
        let differs: Vec<&Value> = lines.iter().filter(|line| line["verdict"] == "differs").collect();
        let [line] = differs[..] else { panic!("{fault}: {differs:?}") };
        assert_eq!(line["transaction"], 1, "{fault}");
        let difference = &line["differences"][0];
        assert_eq!((&difference["field"], &difference["live"]), (&json!(field), &json!(live)), "{line}");
    }
}

/// Starting at a later call: earlier calls are omitted, but an NFSv4 session cannot start in its
/// middle.
#[test]
fn replay_starts_at_the_given_transaction() {
    let at = address();
    let Some(_server) = serving(&at, "nfs3-lossy") else { return };
    // The name that transaction 15 looks up did not exist at its first lookup, in transaction 9: a
    // server that answers from the sample confuses the two.
    for (start, status, differ) in [(16, 0, &[][..]), (13, 1, &[15][..])] {
        let output = replay(&at, "nfs3-lossy", &["--starting-at", &start.to_string(), "--format", "jsonl"]);
        assert_eq!(output.status.code(), Some(status), "{}", text(&output.stdout));
        let lines = parsed(text(&output.stdout));
        let numbers = |verdict: &str| -> Vec<u64> {
            let lines = lines.iter().filter(|line| verdict.is_empty() || line["verdict"] == verdict);
            let mut numbers: Vec<u64> = lines.filter_map(|line| line["transaction"].as_u64()).collect();
            numbers.sort_unstable();
            numbers
        };
        assert_eq!(numbers(""), (start..=19).collect::<Vec<u64>>());
        assert_eq!(numbers("differs"), differ);
    }
    for (name, arguments, why) in [
        ("nfs4.1-basic", ["--starting-at", "20"], "established its state"),
        ("nfs3-lossy", ["--starting-at", "99"], "transaction 99"),
        ("nfs3-lossy", ["--fault", "version@99"], "transaction 99"),
    ] {
        let output = replay(&at, name, &arguments);
        assert_eq!(output.status.code(), Some(2), "{name}");
        assert!(text(&output.stderr).contains(why), "{}", text(&output.stderr));
    }
}
