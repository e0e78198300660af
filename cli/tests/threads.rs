//! A long file is read with two or three threads, a pipe with one. The output is the same.

mod binary;

use binary::{Pcap, Temporary, abandoned, run, text, time, with_input};

/// A capture of more than 4 MB: many sessions, one after the other.
fn long() -> Vec<u8> {
    let pcap = Pcap::read("nfs4.1-backchannel-recall.pcap");
    let mut records = Vec::new();
    for session in 0..160 {
        records.extend(pcap.records.iter().map(|record| {
            let seconds = time(record).0 + 10 * session;
            [&seconds.to_le_bytes(), &record[4..]].concat()
        }));
    }
    let bytes = pcap.with(&records);
    assert!(bytes.len() > 4_500_000);
    bytes
}

/// The lines without those that name the capture.
fn without_names(text: &str) -> Vec<&str> {
    let names = |line: &&str| line.starts_with("Capture ") || line.starts_with("Next: ");
    text.lines().filter(|line| !names(line)).collect()
}

#[test]
fn threads_do_not_change_the_output() {
    let bytes = long();
    let file = Temporary::new("threads.pcap", &bytes);
    for arguments in [
        &["analyze"][..],
        &["analyze", "--format", "jsonl"],
        &["check"],
        &["check", "--format", "jsonl"],
        &["connections"],
        &["events"],
        // The paths of a file are known from its beginning.
        &["transactions", "--format", "jsonl", "--fields", "number,operation,latency,phases,call"],
        &["transactions", "--format", "csv", "--fields", "number,operation,status,latency"],
        &["packets", "--format", "jsonl"],
    ] {
        let of_file = run(&[arguments, &[file.path()]].concat());
        let of_pipe = with_input(&[arguments, &["-"]].concat(), &bytes);
        assert_eq!(of_file.status.code(), of_pipe.status.code(), "{arguments:?}");
        let of_file = text(&of_file.stdout).replace(file.path(), "-");
        let [of_file, of_pipe] = [&of_file, text(&of_pipe.stdout)].map(without_names);
        let differing = of_file.iter().zip(&of_pipe).find(|(one, other)| one != other);
        assert_eq!(differing, None, "{arguments:?}");
        assert_eq!(of_file.len(), of_pipe.len(), "{arguments:?}");
        assert!(of_file.len() > 10, "{arguments:?}");
    }
}

#[test]
fn closed_output_pipe_ends_the_threads() {
    let file = Temporary::new("left.pcap", &long());
    let output = abandoned(&["transactions", file.path()]);
    assert_eq!(text(&output.stderr), "");
}
