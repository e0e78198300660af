//! A file that becomes shorter while it is read, like a file of a ring that is overwritten.

mod binary;

use binary::{Pcap, Temporary, command, start, text};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

/// More packets than a command can have read while it waits.
const RECORDS: usize = 20_000;

/// A capture of a session, repeated.
fn ring(name: &str) -> (Pcap, Temporary) {
    let pcap = Pcap::read("nfs3-basic.pcap");
    let ring = Temporary::new(name, &pcap.with(pcap.records.iter().cycle().take(RECORDS)));
    (pcap, ring)
}

fn cut(file: &Temporary) {
    let file = File::options().write(true).open(file.path()).expect("it is there");
    file.set_len(4096).expect("it can be cut");
}

/// The file is read on two threads while the command waits for the reader of its lines.
#[test]
fn shrinking_file_is_reported_with_two_threads() {
    let (_, ring) = ring("two-threads-ring.pcap");
    let had = std::fs::metadata(ring.path()).expect("it is there").len();
    let mut child = start(&mut command(&["packets", ring.path(), "--format", "jsonl"]));
    let mut output = BufReader::new(child.stdout.take().expect("it was piped"));
    output.read_line(&mut String::new()).expect("there is a line");
    cut(&ring);
    let lines = 1 + output.lines().map_while(Result::ok).filter(|line| line.ends_with('}')).count();
    let ended = child.wait_with_output().expect("the binary ends");
    let complaint = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(2), "{}: {complaint}", ended.status);
    let expected =
        format!("ring.pcap: shrank while it was read: it had {had} bytes, now 4096; read up to byte ");
    assert!(complaint.contains(&expected), "{complaint}");
    assert!((2..RECORDS).contains(&lines), "{lines}");
}

/// A file as standard input is read like a file, from its current position: another program may
/// have read its beginning.
#[test]
fn shrinking_standard_input_is_reported() {
    let pcap = Pcap::read("nfs3-basic.pcap");
    let capture = pcap.with(&pcap.records);
    let file = Temporary::new("after-a-preface.bin", &[b"preface", &capture[..]].concat());
    let mut input = File::open(file.path()).expect("it is there");
    input.read_exact(&mut [0; 7]).expect("it has a preface");
    let of_rest = command(&["analyze", "-"]).stdin(input).output().expect("the binary runs");
    let mut child = command(&["analyze", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    child.stdin.take().expect("it was piped").write_all(&capture).expect("the command reads it");
    let of_pipe = child.wait_with_output().expect("the binary ends");
    assert!(of_rest.status.success() && of_pipe.status.success());
    assert_eq!(text(&of_rest.stdout), text(&of_pipe.stdout));

    let (_, ring) = ring("ring-as-input.pcap");
    let mut child = command(&["packets", "-", "--format", "jsonl"])
        .stdin(File::open(ring.path()).expect("it is there"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut output = BufReader::new(child.stdout.take().expect("it was piped"));
    output.read_line(&mut String::new()).expect("there is a line");
    cut(&ring);
    std::io::copy(&mut output, &mut std::io::sink()).expect("it can be read");
    let ended = child.wait_with_output().expect("the binary ends");
    let complaint = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(2), "{}: {complaint}", ended.status);
    assert!(complaint.contains("standard input: shrank while it was read"), "{complaint}");
}

/// The file is read together with a slow pipe.
#[test]
fn every_streaming_command_reports_a_shrinking_file() {
    for arguments in [
        &["analyze"][..],
        &["connections"],
        &["transactions"],
        &["packets"],
        &["check"],
        &["check", "--format", "sarif"],
    ] {
        let (pcap, ring) = ring("ring.pcap");
        let mut child = start(command(&[arguments, &[ring.path(), "-"]].concat()).stdin(Stdio::piped()));
        let mut output = child.stdout.take().expect("it was piped");
        let reader = std::thread::spawn(move || {
            let mut printed = String::new();
            output.read_to_string(&mut printed).map(|_| printed)
        });
        // More than a pipe holds: when all is written, the command has opened both.
        let early: Vec<Vec<u8>> =
            pcap.records.iter().map(|record| [&[0; 8], &record[8..]].concat()).collect();
        let mut input = child.stdin.take().expect("it was piped");
        input.write_all(&pcap.with(&early)).expect("the command reads it");
        cut(&ring);
        drop(input);
        let ended = child.wait_with_output().expect("the binary ends");
        let complaint = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{arguments:?}: {}: {complaint}", ended.status);
        assert!(
            complaint.contains("ring.pcap: shrank while it was read: it had"),
            "{arguments:?}: {complaint}"
        );
        let printed = reader.join().expect("it does not panic").expect("UTF-8");
        assert!(!printed.is_empty(), "{arguments:?}");
    }
}
