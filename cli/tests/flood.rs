//! Memory use on captures of spoofed packets, each the only packet of its flow.
#![cfg(target_os = "linux")]

mod binary;

use binary::{command, start, text};
use rdmascope_tests::floods::Kind;
use rdmascope_tests::pcap::{self, Capture, Packet};
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

/// A capture of flows of all kinds, a microsecond apart.
fn capture(flows: u32) -> tempfile::NamedTempFile {
    let packets = (0..flows).map(|flow| {
        let data = Kind::ALL[flow as usize % Kind::ALL.len()].frame(flow, 0);
        let (number, original_length) = (u64::from(flow) + 1, data.len() as u32);
        Packet { number, time: i64::from(flow) * 1_000, original_length, data }
    });
    let capture = Capture { link: 1, packets: packets.collect() };
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), pcap::write(&capture)).expect("it is written");
    file
}

/// The peak memory of a process in KiB, read from the kernel until the process ends.
fn peak(child: &mut Child) -> u64 {
    let path = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    while child.try_wait().expect("it is a child").is_none() {
        let status = std::fs::read_to_string(&path).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let now = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        peak = peak.max(now.unwrap_or(0));
        thread::sleep(Duration::from_millis(2));
    }
    peak
}

#[test]
fn live_stays_within_its_memory_limit() {
    /// `--memory`, and 64 MiB for the rest of the program.
    const MOST_KIB: u64 = (128 + 64) << 10;
    let file = capture(200_000);
    let path = file.path().to_str().expect("it is UTF-8");
    let mut child =
        start(&mut command(&["live", path, "--memory", "128", "--interval", "60s", "--format", "jsonl"]));
    let out = child.stdout.take().expect("it is a pipe");
    let lines = thread::spawn(move || std::io::read_to_string(out).expect("it is text"));
    let peak = peak(&mut child);
    let lines = lines.join().expect("it is read");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(peak < MOST_KIB, "{peak} KiB");
    let line = lines.lines().find(|line| line.contains(r#""type":"interval""#)).expect("an interval");
    let line: serde_json::Value = serde_json::from_str(line).expect("it is JSON");
    assert_eq!(line["packets"], 200_000);
    let given_up = line["given_up_connections"].as_u64().expect("it is a number");
    assert!((130_000..=200_000 - 512).contains(&given_up), "{given_up}");
}

#[test]
fn pcapng_export_stays_within_200_mb() {
    const MOST_KIB: u64 = 200_000;
    let file = capture(100_000);
    let path = file.path().to_str().expect("it is UTF-8");
    let mut child = command(&["export", "pcapng", path, "--output", "-"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let peak = peak(&mut child);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(peak < MOST_KIB, "{peak} KiB");
    assert!(text(&output.stderr).contains("warning: comments omit 83,616 connections"));
}
