//! The sums as metrics. docs/live.md lists them.

use super::{BOUNDS, Key, OfHosts, Operation, Shared, Sums};
use core::fmt;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use rdmascope_present::words;

/// Reads a figure of the connections between two hosts.
type OfHost = fn(&OfHosts) -> u64;

/// Counters of the connections between two hosts: name, help, value. `_total` is appended to the
/// names.
const COUNTERS: [(&str, &str, OfHost); 11] = [
    ("transactions", "Transactions that ended", |hosts| hosts.count),
    ("transaction_errors", "Transactions that failed", |hosts| hosts.errors),
    ("to_responder_bytes", "Payload bytes to the responder: data of WRITEs", |hosts| hosts.to_responder),
    ("to_requester_bytes", "Payload bytes to the requester: data of READs", |hosts| hosts.to_requester),
    ("transport_packets", "Packets of connections", |hosts| hosts.transport.packets),
    ("repeated_packets", "Retransmitted request packets", |hosts| hosts.transport.resent),
    ("naks", "NAKs other than RNR NAKs", |hosts| hosts.transport.naks),
    ("rnr_naks", "RNR NAKs", |hosts| hosts.transport.rnr_naks),
    ("missing_packets", "Request packets missing from the capture", |hosts| hosts.transport.missing),
    ("bad_icrc_packets", "Packets with a bad ICRC", |hosts| hosts.transport.bad_icrc),
    ("congestion_marks", "Packets with FECN, BECN or ECN congestion experienced", |hosts| {
        hosts.transport.congestion_marks
    }),
];

/// Gauges of the connections between two hosts.
const GAUGES: [(&str, &str, OfHost); 2] = [
    ("connections", "Connections", |hosts| hosts.connections),
    ("one_direction_connections", "Connections seen in one direction only", |hosts| hosts.one_direction),
];

/// Gauges that need both directions.
const GAUGES_OF_CALLS: [(&str, &str, OfHost); 3] = [
    ("waiting_calls", "Calls without a reply", |hosts| hosts.waiting),
    ("credits_in_flight", "Forward calls in flight", |hosts| hosts.in_flight),
    ("credits_granted", "Credits granted by the latest replies", |hosts| hosts.granted),
];

impl Collector for Shared {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let sums = self.sums();
        let Sums { packets, bytes, dropped, evicted, operations, hosts, findings, events, captures, .. } =
            &*sums;
        let Sums { last_packet, last_interval, dropped_lines, missed, .. } = &*sums;
        for (name, help, value) in [
            ("packets", "Packets captured", Some(packets)),
            ("packet_bytes", "Bytes of captured packets on the wire", Some(bytes)),
            ("dropped_packets", "Packets dropped before they could be captured", dropped.as_ref()),
            ("triggered_captures", "Captures written by --trigger", Some(captures)),
            (
                "output_dropped_lines",
                "Lines of output dropped because the reader was too slow",
                Some(dropped_lines),
            ),
            (
                "missed_triggers",
                "Number of times that a --trigger condition came true without a capture",
                Some(missed),
            ),
            ("given_up_connections", "Connections evicted to limit memory use", Some(evicted)),
        ] {
            let Some(value) = value else { continue };
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            metric.encode_counter::<NoLabelSet, _, u64>(value, None)?;
        }
        for (name, help, time) in [
            ("last_packet_timestamp_seconds", "Time of the latest packet", last_packet),
            ("last_interval_timestamp_seconds", "End of the latest interval", last_interval),
        ] {
            let Some(time) = time else { continue };
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            metric.encode_gauge(&(time.0 as f64 / 1e9))?;
        }
        of_operations(operations.iter(), &mut encoder)?;
        for (name, help, read) in COUNTERS {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (hosts, of) in hosts {
                let labels = [("requester", hosts.0.as_str()), ("responder", hosts.1.as_str())];
                metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&read(of), None)?;
            }
        }
        for (name, help, read) in GAUGES.into_iter().chain(GAUGES_OF_CALLS) {
            let is_of_calls = GAUGES_OF_CALLS.iter().any(|(of_calls, ..)| *of_calls == name);
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (hosts, of) in hosts.iter().filter(|(_, of)| !is_of_calls || of.has_both_directions()) {
                let labels = [("requester", hosts.0.as_str()), ("responder", hosts.1.as_str())];
                metric.encode_family(&labels)?.encode_gauge(&read(of))?;
            }
        }
        let help = "Age of the oldest call without a reply";
        let mut metric =
            encoder.encode_descriptor("oldest_waiting_call_seconds", help, None, MetricType::Gauge)?;
        for (hosts, of) in hosts.iter().filter(|(_, of)| of.has_both_directions()) {
            let labels = [("requester", hosts.0.as_str()), ("responder", hosts.1.as_str())];
            metric.encode_family(&labels)?.encode_gauge(&seconds(of.oldest))?;
        }
        let mut metric =
            encoder.encode_descriptor("findings", "Findings of rules", None, MetricType::Counter)?;
        let mut found: Vec<_> = findings.iter().collect();
        found.sort_unstable_by_key(|((rule, _, verdict), _)| (*rule, *verdict));
        for ((rule, level, verdict), count) in found {
            let labels = [("rule", *rule), ("level", words::level(*level)), ("verdict", *verdict)];
            metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(count, None)?;
        }
        let mut metric =
            encoder.encode_descriptor("events", "Events of connections", None, MetricType::Counter)?;
        let mut happened: Vec<_> = events.iter().collect();
        happened.sort_unstable();
        for (kind, count) in happened {
            metric
                .encode_family(&[("event", kind.word())])?
                .encode_counter::<NoLabelSet, _, u64>(count, None)?;
        }
        Ok(())
    }
}

/// The metrics of operations.
fn of_operations<'a>(
    operations: impl Iterator<Item = (&'a Key, &'a Operation)> + Clone,
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    type Figure = fn(&Operation) -> u64;
    let labels = |key: &Key| {
        [
            ("protocol", key.protocol.map_or_else(String::new, |protocol| protocol.to_string())),
            ("direction", if key.backward { "backward" } else { "forward" }.to_owned()),
            ("operation", key.label.to_string()),
        ]
    };
    let counters: [(&str, &str, Figure); 4] = [
        ("operations", "Transactions that ended, by operation", |operation| operation.count),
        ("operation_errors", "Transactions that failed, by operation", |operation| operation.errors),
        ("operation_to_responder_bytes", "Payload bytes to the responder", |operation| {
            operation.to_responder
        }),
        ("operation_to_requester_bytes", "Payload bytes to the requester", |operation| {
            operation.to_requester
        }),
    ];
    for (name, help, read) in counters {
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (key, operation) in operations.clone() {
            metric
                .encode_family(&labels(key))?
                .encode_counter::<NoLabelSet, _, u64>(&read(operation), None)?;
        }
    }
    let help = "Time from the Send of a call to the Send of its reply";
    let mut metric =
        encoder.encode_descriptor("operation_latency_seconds", help, None, MetricType::Histogram)?;
    for (key, operation) in operations {
        let bounds = BOUNDS.into_iter().map(seconds).chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(operation.latencies).collect();
        let count = operation.latencies.iter().sum();
        metric.encode_family(&labels(key))?.encode_histogram::<NoLabelSet>(
            seconds(operation.total),
            count,
            &buckets,
            None,
        )?;
    }
    Ok(())
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}
