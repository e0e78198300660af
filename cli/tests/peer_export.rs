//! `peer serve --export` and `peer call --export`: files are copied both ways, and their MD5 stays
//! the same.
#![cfg(target_os = "linux")]

mod binary;
mod live;

use binary::{folder, run, text};
use live::{Server, address, described, of_type, parsed};
use md5::{Digest as _, Md5};
use serde_json::Value;
use std::io::BufRead as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::Output;

/// A served export, its address and the port of MOUNT.
struct Exported {
    server: Server,
    at: String,
    mount_port: String,
}

impl Exported {
    fn start(arguments: &[&str]) -> Option<Exported> {
        let at = address();
        let fixed = ["--bind", &at, "--socket", "udp", "--mount-port", "0"];
        let mut server = Server::start(&[&fixed[..], arguments].concat())?;
        let mut line = String::new();
        server.stdout.as_mut().expect("it was not taken").read_line(&mut line).expect("it can be read");
        let export: Value = serde_json::from_str(&line).expect("a line is JSON");
        assert_eq!(export["type"], "peer_export");
        server.first += &line;
        Some(Exported { server, at, mount_port: export["mount_port"].to_string() })
    }

    fn call(&self, arguments: &[&str]) -> Output {
        let from = address();
        let fixed = [
            "peer",
            "call",
            "--socket",
            "udp",
            "--to",
            &self.at,
            "--from",
            &from,
            "--mount-port",
            &self.mount_port,
        ];
        run(&[&fixed[..], arguments].concat())
    }
}

fn name(path: &Path) -> &str {
    path.to_str().expect("it is UTF-8")
}

fn digest(bytes: &[u8]) -> String {
    Md5::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes that differ between any two pages.
fn bytes(length: u32) -> Vec<u8> {
    (0..length).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

fn clean(saved: &Path) {
    let check = run(&["check", name(saved)]);
    assert_eq!(check.status.code(), Some(0), "{}{}", text(&check.stdout), text(&check.stderr));
}

#[test]
fn files_are_written_read_and_listed() {
    let (folder, served) = (folder(), folder());
    std::fs::create_dir_all(served.path().join("below/empty")).expect("it can be made");
    std::fs::write(served.path().join("below/small"), b"some bytes").expect("it can be written");
    std::os::unix::fs::symlink("small", served.path().join("link")).expect("it can be made");
    let [ours, theirs, big, copy] =
        ["call.pcapng", "serve.pcapng", "big", "copy"].map(|name| folder.path().join(name));
    let content = bytes((3 << 20) + 4321);
    std::fs::write(&big, &content).expect("it can be written");
    let arguments = ["--export", name(served.path()), "--export-path", "/data/", "--save", name(&theirs)];
    let Some(exported) = Exported::start(&arguments) else { return };

    let work = [
        "--export",
        "/data",
        "--write",
        name(&big),
        "--read",
        "big",
        "--read-into",
        name(&copy),
        "--list",
        "/",
    ];
    let output = exported.call(&[&work[..], &["--format", "jsonl", "--save", name(&ours)]].concat());
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
    let lines = parsed(text(&output.stdout));
    described(&lines);
    let jobs = of_type(&lines, "peer_job");
    let done: Vec<(&str, &str)> =
        jobs.iter().map(|job| (job["job"].as_str().unwrap(), job["path"].as_str().unwrap())).collect();
    assert_eq!(done, [("write", "big"), ("read", "big"), ("list", "/")]);
    for job in &jobs[..2] {
        assert_eq!((&job["md5"], &job["bytes"]), (&digest(&content).into(), &content.len().into()));
    }
    assert_eq!(std::fs::read(&copy).expect("it is there"), content);
    let entries: Vec<&Value> = of_type(&lines, "peer_entry");
    let names: Vec<&Value> = entries.iter().map(|entry| &entry["path"]).collect();
    assert_eq!(names, [".", "..", "below", "big"]);
    assert_eq!((&entries[3]["size"], &entries[3]["kind"]), (&content.len().into(), &"NF3REG".into()));
    let calls = of_type(&lines, "peer_call");
    assert_eq!(calls.len() as u64, jobs.iter().map(|job| job["calls"].as_u64().unwrap()).sum::<u64>());
    assert!(calls.iter().all(|call| call["nfs_status"] == "NFS3_OK"));

    // Text output has one line per job.
    let output = exported.call(&["--export", "/", "--read", "/below/small", "--list", "below"]);
    let shown = text(&output.stdout);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
    assert!(
        shown.contains(&format!("read /below/small: 10 bytes, MD5 {}, ", digest(b"some bytes"))),
        "{shown}"
    );
    assert!(shown.contains("\n  NF3REG  0666              10  small\n"), "{shown}");
    assert!(shown.contains("  empty\n") && shown.contains("list below: 4 names"), "{shown}");
    assert!(!shown.contains(" call 1 "), "{shown}");

    // A missing file is reported, and the following jobs are done.
    let output = exported.call(&["--export", "/data", "--read", "nothing", "--list"]);
    let shown = text(&output.stdout);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), ""));
    assert!(
        shown.contains("read nothing: LOOKUP answered with NFS3ERR_NOENT")
            && shown.contains("list /: 4 names"),
        "{shown}"
    );

    let lines = exported.server.stop();
    described(&lines);
    let [export] = of_type(&lines, "peer_export")[..] else { panic!("{lines:?}") };
    assert_eq!((&export["files"], &export["bytes"], &export["left_out"]), (&1.into(), &10.into(), &1.into()));
    let [made] = of_type(&lines, "peer_file")[..] else { panic!("{lines:?}") };
    assert_eq!(
        (&made["path"], &made["md5"], &made["is_new"]),
        (&"big".into(), &digest(&content).into(), &true.into())
    );
    assert!(!served.path().join("big").exists(), "the folder stays as it is");
    clean(&ours);
    clean(&theirs);
}

#[test]
fn failures_are_reported_with_a_remedy() {
    let Some(exported) = Exported::start(&["--export", "memory"]) else { return };
    let elsewhere = address();
    // Longer than anything that is written, and of unusual length.
    let folder = folder();
    let long = folder.path().join("long");
    std::fs::File::create(&long).and_then(|file| file.set_len((256 << 20) + 1)).expect("it can be made");
    for (arguments, status, expected) in [
        (&["--export", "/export"][..], 2, "add --list, --read PATH or --write FILE"),
        (&["--export", "/other", "--list"], 2, "MNT3ERR_NOENT: `showmount -e` lists the server's exports"),
        (&["--export", "/export", "--write", "/"], 2, "--write-as"),
        (&["--export", "/export", "--write", "/dev/null"], 2, "not a regular file"),
        (&["--export", "/export", "--write", name(&long)], 2, "longer than the limit of"),
        (&["--export", "/export", "--list", "--count", "2"], 2, "cannot be used with"),
    ] {
        let output = exported.call(arguments);
        assert_eq!(output.status.code(), Some(status), "{}", text(&output.stdout));
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    }
    let call = ["peer", "call", "--socket", "udp", "--to", &exported.at, "--from", &elsewhere, "--list"];
    // A handle that the export never returned, and an invalid one.
    let output = run(&[&call[..], &["--root-handle", "00112233445566778899aabbccddeeff"]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stdout).contains("list /: FSINFO answered with NFS3ERR_STALE"),
        "{}",
        text(&output.stdout)
    );
    let output = run(&[&call[..], &["--root-handle", "0x1"]].concat());
    assert!(text(&output.stderr).contains("hexadecimal digits"), "{}", text(&output.stderr));
    // The port of MOUNT has no listener.
    let free = TcpListener::bind(("127.0.0.1", 0))
        .and_then(|listener| listener.local_addr())
        .expect("a port is free");
    let port = free.port().to_string();
    let output = run(&[&call[..], &["--export", "/export", "--mount-port", &port]].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--root-handle avoids MOUNT"), "{}", text(&output.stderr));
    // The port is taken.
    let at = address();
    let taken = TcpListener::bind((&*at, 0)).expect("a port is free");
    let port = taken.local_addr().expect("it is bound").port().to_string();
    let output = run(&[
        "peer",
        "serve",
        "--bind",
        &at,
        "--socket",
        "udp",
        "--export",
        "memory",
        "--mount-port",
        &port,
    ]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("choose another port"), "{}", text(&output.stderr));
    exported.server.stop();
}

#[test]
fn files_are_intact_over_a_bad_network() {
    let folder = folder();
    let big = folder.path().join("big");
    let content = bytes(2 << 20);
    std::fs::write(&big, &content).expect("it can be written");
    let faults = ["--loss", "1%", "--duplication", "1", "--reordering", "1.0"];
    let Some(exported) = Exported::start(&[&["--export", "memory"][..], &faults].concat()) else { return };
    let work = [
        "--export",
        "/export",
        "--write",
        name(&big),
        "--read",
        "big",
        "--format",
        "jsonl",
        "--timeout",
        "60s",
    ];
    let output = exported.call(&[&work[..], &faults, &["--seed", "7"]].concat());
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
    let lines = [parsed(text(&output.stdout)), exported.server.stop()];
    let digests: Vec<&Value> = of_type(&lines[0], "peer_job").iter().map(|job| &job["md5"]).collect();
    assert_eq!(digests, [&digest(&content); 2]);
    for lines in &lines {
        described(lines);
        let [end] = of_type(lines, "peer_end")[..] else { panic!("{lines:?}") };
        for fault in ["lost", "repeated", "delayed"] {
            assert!(end["faults"][fault].as_u64().is_some_and(|count| count > 0), "{end}");
        }
    }
}

/// A long list of names is conveyed in a Read chunk of the server. A client without the option
/// offers a Reply chunk, and the server uses that.
#[test]
fn long_replies_use_read_chunks() {
    let (folder, served) = (folder(), folder());
    for number in 0..100 {
        let name = format!("a-name-that-is-not-so-short-{number}");
        std::fs::write(served.path().join(name), b"x").expect("it can be written");
    }
    let saved = folder.path().join("serve.pcapng");
    let arguments = ["--export", name(served.path()), "--reliable-reply", "--save", name(&saved)];
    let Some(exported) = Exported::start(&arguments) else { return };
    for (option, expected) in [(&["--reliable-reply"][..], "read-chunk"), (&[], "reply-chunk")] {
        let list = ["--export", "/export", "--list", "--format", "jsonl"];
        let output = exported.call(&[&list[..], option].concat());
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
        let lines = parsed(text(&output.stdout));
        assert_eq!(of_type(&lines, "peer_entry").len(), 102);
        let calls = of_type(&lines, "peer_call");
        let read: Vec<&Value> = calls.iter().filter(|call| call["procedure"] == 17).copied().collect();
        assert_eq!(read[0]["mechanism"], expected);
    }
    let lines = exported.server.stop();
    described(&lines);
    let [chunk] = of_type(&lines, "peer_chunk")[..] else { panic!("{lines:?}") };
    assert_eq!(chunk["freed"], "invalidated");
    assert!(chunk["bytes"].as_u64().is_some_and(|bytes| bytes > 10_000), "{chunk}");
    clean(&saved);
    let check = run(&["check", name(&saved)]);
    assert!(text(&check.stdout).starts_with("Nothing found: 2 connections"), "{}", text(&check.stdout));
    let output = run(&["peer", "serve", "--bind", "127.0.0.1", "--reply-mechanism", "read-chunk"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("needs --reliable-reply"), "{}", text(&output.stderr));
}

/// The sample of the reliable-reply draft: both ends recorded how each reply was conveyed, and how
/// long each Read chunk was offered.
#[test]
fn analysis_agrees_with_the_records_of_both_ends() {
    /// From the interface of the client to the process of the server, in nanoseconds.
    const SLACK: u64 = 100_000;
    let samples = binary::root().join("samples");
    let truth = std::fs::read_to_string(samples.join("reliable-reply.truth.txt")).expect("it is there");
    let recorded = parsed(&truth);
    let capture = samples.join("reliable-reply.pcap");
    let output = run(&["transactions", "--format", "jsonl", name(&capture)]);
    let lines = parsed(text(&output.stdout));
    let transactions = of_type(&lines, "transaction");
    let of = |xid: &Value| {
        transactions.iter().find(|line| line["xid"] == *xid).unwrap_or_else(|| panic!("no transaction {xid}"))
    };
    // Each call is recorded by the server, and those of `peer call` by the client too.
    let calls = of_type(&recorded, "peer_call");
    assert_eq!(calls.len(), transactions.len() + 4);
    for call in calls {
        assert_eq!(of(&call["xid"])["reply_mechanism"], call["mechanism"], "{call}");
    }
    let chunks = of_type(&recorded, "peer_chunk");
    assert_eq!(chunks.len(), 7);
    for chunk in chunks {
        let transaction = of(&chunk["xid"]);
        let is_done = chunk["freed"] == "done" || chunk["freed"] == "invalidated";
        assert_eq!(!transaction["done"].is_null(), is_done, "{chunk}");
        let offered = chunk["offered_ns"].as_u64().expect("a number");
        let times = ["latency_ns", "pulled_ns", "done_ns"].map(|time| transaction[time].as_u64());
        if let [Some(latency), Some(pulled), Some(done)] = times {
            // The server registers the chunk between the call and the reply.
            let range = pulled + done - SLACK..latency + pulled + done + SLACK;
            assert!(range.contains(&offered), "{chunk}: {transaction}");
        }
    }
}
