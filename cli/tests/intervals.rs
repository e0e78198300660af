//! `analyze --interval`: the sums of the rows equal the report on the complete capture.

mod binary;

use binary::{lines, run, sample, text};
use rdmascope_tests::samples;
use serde_json::Value;
use std::collections::BTreeMap;

fn intervals(capture: &str, options: &[&str]) -> Vec<Value> {
    let arguments = [&["analyze", capture, "--format", "jsonl", "--interval"], options].concat();
    lines(&run(&arguments)).into_iter().filter(|line| line["type"] == "course").collect()
}

fn number(line: &Value, field: &str) -> u64 {
    line[field].as_u64().unwrap_or_else(|| panic!("{field} of {line}"))
}

/// Count, errors, bytes and time of each operation.
type Sums = BTreeMap<String, [u64; 4]>;

fn sums<'a>(lines: impl Iterator<Item = &'a Value>) -> Sums {
    let mut sums = Sums::new();
    for line in lines {
        let key =
            ["protocol", "direction", "operation"].map(|field| line[field].as_str().unwrap_or_default());
        let of = sums.entry(key.join(" ")).or_default();
        let total = line["latency"]["total_ns"].as_u64().unwrap_or(0);
        let figures = [number(line, "count"), number(line, "errors"), number(line, "bytes"), total];
        of.iter_mut().zip(figures).for_each(|(sum, figure)| *sum += figure);
    }
    sums
}

#[test]
fn intervals_add_up_to_the_report() {
    for name in samples::ALL {
        let path = sample(&format!("{name}.pcap"));
        let report = lines(&run(&["analyze", &path, "--format", "jsonl"]));
        let expected = sums(report.iter().filter(|line| line["type"] == "operation"));
        for interval in ["100ms", "1s"] {
            let by_operation = intervals(&path, &[interval, "--by", "operation"]);
            assert_eq!(sums(by_operation.iter()), expected, "{path} {interval}");
            let total = |lines: &[Value]| lines.iter().map(|line| number(line, "count")).sum::<u64>();
            let all = intervals(&path, &[interval]);
            assert_eq!(total(&all), total(&by_operation), "{path} {interval}");
            // The intervals have no gaps between them.
            let lengths: u64 = all.iter().map(|line| number(line, "duration_ns")).sum();
            let last = all.last().map_or(0, |line| number(line, "duration_ns"));
            let length = if interval == "1s" { 1_000_000_000 } else { 100_000_000 };
            assert_eq!(lengths, (all.len() as u64 - 1) * length + last, "{path} {interval}");
            for by in ["connection", "client", "server", "connection,client,server,operation"] {
                assert_eq!(total(&intervals(&path, &[interval, "--by", by])), total(&all), "{path} {by}");
            }
        }
    }
}

#[test]
fn latencies_match_the_transactions() {
    let capture = sample("nfs3-basic.pcap");
    let rows = intervals(&capture, &["1s"]);
    let transactions = lines(&run(&["transactions", &capture, "--format", "jsonl"]));
    assert_eq!(rows.len(), 4, "{rows:?}");
    let mut latencies: Vec<u64> =
        transactions.iter().filter_map(|transaction| transaction["latency_ns"].as_u64()).collect();
    latencies.sort_unstable();
    let of = |field: &str| rows.iter().filter_map(|row| row["latency"][field].as_u64()).collect::<Vec<_>>();
    assert_eq!(of("min_ns").into_iter().min(), latencies.first().copied());
    assert_eq!(of("max_ns").into_iter().max(), latencies.last().copied());
    assert!(of("median_ns").iter().all(|median| latencies.contains(median)));
}

#[test]
fn intervals_as_csv_and_text() {
    let capture = sample("nfs3-basic.pcap");
    let table =
        run(&["analyze", &capture, "--interval", "1s", "--by", "client,operation", "--format", "csv"]);
    let table = text(&table.stdout);
    let (heading, rows) = table.split_once('\n').expect("it has lines");
    assert!(
        heading.starts_with("time,duration_ns,connection,client,server,protocol,direction,operation,count,")
    );
    assert!(rows.lines().all(|row| row.contains(",10.77.0.2,")) && rows.lines().count() > 4, "{rows}");
    let report = run(&["analyze", &capture, "--interval", "2s", "--operation", "READ"]);
    let report = text(&report.stdout);
    let (_, intervals) = report.split_once("Intervals of 2s\n").unwrap_or_else(|| panic!("{report}"));
    let counts =
        intervals.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    assert_eq!(counts.sum::<u64>(), 4, "{intervals}");
}

#[test]
fn wrong_usage_is_refused() {
    let capture = sample("nfs3-basic.pcap");
    for (options, expected) in [
        (&["--format", "csv"][..], "need --interval"),
        (&["--interval", "0s"], "longer than 0"),
        (&["--interval", "1ns"], "choose a longer interval"),
        (&["--by", "client"], "--interval"),
        (&["--interval", "1s", "--format", "csv", "--each"], "--each needs"),
    ] {
        let output = run(&[&["analyze", &capture], options].concat());
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        assert!(text(&output.stderr).contains(expected), "{options:?}: {}", text(&output.stderr));
    }
}

/// Rows of queue pairs add up to the rows of intervals, which count packets without RPC.
#[test]
fn queue_pair_rows_add_up_to_the_intervals() {
    let capture = sample("nfs3-basic.pcap");
    let rows = |options: &[&str]| -> Vec<Value> {
        let arguments =
            [&["analyze", &capture, "--format", "jsonl", "--interval", "100ms"], options].concat();
        lines(&run(&arguments)).into_iter().filter(|line| line["type"] == "rdma_interval").collect()
    };
    let (flows, totals): (Vec<_>, Vec<_>) =
        rows(&["--by", "queue-pair"]).into_iter().partition(|row| row["queue_pair"].is_number());
    for field in ["packets", "bytes", "wire_bytes", "congestion_marks", "notifications"] {
        let sum = |rows: &[Value]| rows.iter().map(|row| number(row, field)).sum::<u64>();
        assert_eq!(sum(&flows), sum(&totals), "{field}");
    }
    let packets = lines(&run(&["packets", &capture, "--format", "jsonl"]));
    let roce = packets.iter().filter(|packet| packet["opcode"].is_string()).count() as u64;
    assert_eq!(totals.iter().map(|row| number(row, "packets")).sum::<u64>(), roce);
    assert!(totals.iter().all(|row| row["priority_pauses"] == 0));
    assert!(flows.iter().all(|row| row["dscp"] == 0 && row["priority_pauses"].is_null()));
    assert_eq!(rows(&[]), totals, "a capture with transactions");

    let table = run(&["analyze", &capture, "--interval", "1s", "--by", "queue-pair", "--format", "csv"]);
    let table = text(&table.stdout);
    assert!(
        table.starts_with("time,duration_ns,source,destination,queue_pair,dscp,connection,packets,bytes")
    );
    for wrong in [["--by", "queue-pair,client"], ["--by=queue-pair", "--operation=READ"]] {
        let refused = run(&[&["analyze", &capture, "--interval", "1s"][..], &wrong].concat());
        assert_eq!(refused.status.code(), Some(2), "{wrong:?}");
    }
}
