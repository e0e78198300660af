//! The report of `analyze`.

use super::{Shown, optional_time, write_line};
use crate::columns::CONNECTION;
use crate::ending::{Cut, Ending, FileEnding};
use crate::names::{self, Failure, Label, Protocol};
use crate::report::{ErrorCount, ErrorKey, Group, Key, Problem, Report, Stats};
use rdmascope_capture_agent::Interface;
use rdmascope_dissector::record::Time;
use serde::Serialize;
use std::io::{self, Write};

/// Writes the lines of a report: the capture, its connections, operations, errors and problems.
pub fn write_report(report: &Report, ending: &Ending, out: &mut impl Write) -> io::Result<()> {
    write_line(out, &CaptureLine::new(ending))?;
    for connection in report.connections().0 {
        write_line(out, &CONNECTION.of(connection))?;
    }
    for (key, stats) in report.operations() {
        write_line(out, &OperationLine::new(key, stats))?;
    }
    for (key, error) in report.all_errors() {
        write_line(out, &ErrorLine::new(key, error))?;
    }
    for problem in report.problems(ending) {
        write_line(out, &ProblemLine::new(&problem))?;
    }
    Ok(())
}

/// `"type":"capture"`.
#[derive(Serialize)]
pub struct CaptureLine<'a> {
    r#type: &'static str,
    records: u64,
    bytes: u64,
    #[serde(serialize_with = "optional_time")]
    first: Option<Time>,
    #[serde(serialize_with = "optional_time")]
    last: Option<Time>,
    packets: u64,
    others: u64,
    unknown_link: u64,
    fragments: u64,
    unreadable: u64,
    snapped: u64,
    icrc: IcrcView,
    congestion_notifications: u64,
    other_transports: u64,
    cm_messages: u64,
    connections: u64,
    transactions: OutcomesView,
    evictions: u64,
    files: Vec<FileView<'a>>,
}

#[derive(Serialize)]
pub(super) struct FileView<'a> {
    name: &'a str,
    cut_short: Option<CutView>,
    trouble: Option<Shown<&'a rdmascope_capture_agent::Error>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    interfaces: Vec<InterfaceView<'a>>,
}

/// An interface of a pcapng file.
#[derive(Serialize)]
struct InterfaceView<'a> {
    section: u64,
    number: u32,
    name: Option<&'a str>,
    description: Option<&'a str>,
    filter: Option<&'a str>,
    link_type: u16,
    #[serde(serialize_with = "optional_time")]
    start: Option<Time>,
    #[serde(serialize_with = "optional_time")]
    end: Option<Time>,
    received: Option<u64>,
    accepted: Option<u64>,
    delivered: Option<u64>,
    dropped_by_interface: Option<u64>,
    dropped_by_system: Option<u64>,
    dropped_before_packets: u64,
    dropped: u64,
}

#[derive(Serialize)]
struct IcrcView {
    good: u64,
    bad: u64,
    unverifiable: u64,
}

#[derive(Serialize)]
struct OutcomesView {
    completed: u64,
    no_reply: u64,
    no_call: u64,
    transport_error: u64,
    cut_off: u64,
}

#[derive(Serialize)]
struct CutView {
    offset: u64,
    needed: u64,
    available: u64,
}

impl<'a> CaptureLine<'a> {
    /// The capture's line.
    pub fn new(ending: &'a Ending) -> CaptureLine<'a> {
        let totals = &ending.totals;
        let [good, bad, unverifiable] = totals.icrc;
        let [completed, no_reply, no_call, transport_error, cut_off] = totals.transactions;
        CaptureLine {
            r#type: "capture",
            records: totals.records,
            bytes: totals.bytes,
            first: totals.span.map(|(first, _)| first),
            last: totals.span.map(|(_, last)| last),
            packets: totals.packets,
            others: totals.others,
            unknown_link: totals.unknown_link,
            fragments: totals.fragments,
            unreadable: totals.stops,
            snapped: totals.cut_records,
            icrc: IcrcView { good, bad, unverifiable },
            congestion_notifications: totals.congestion_notifications,
            other_transports: totals.other_transports,
            cm_messages: totals.cm_messages,
            connections: totals.connections,
            transactions: OutcomesView { completed, no_reply, no_call, transport_error, cut_off },
            evictions: totals.evictions,
            files: ending.files.iter().map(FileView::from).collect(),
        }
    }
}

impl<'a> From<&'a FileEnding> for FileView<'a> {
    fn from(file: &'a FileEnding) -> FileView<'a> {
        let cut = |cut: Cut| CutView { offset: cut.offset, needed: cut.needed, available: cut.available };
        FileView {
            name: &file.name,
            cut_short: file.cut.map(cut),
            trouble: file.trouble.as_ref().map(Shown),
            interfaces: file.interfaces.iter().map(InterfaceView::from).collect(),
        }
    }
}

impl<'a> From<&'a Interface> for InterfaceView<'a> {
    fn from(interface: &'a Interface) -> InterfaceView<'a> {
        let statistics = &interface.statistics;
        InterfaceView {
            section: interface.section,
            number: interface.number,
            name: interface.name.as_deref(),
            description: interface.description.as_deref(),
            filter: interface.filter.as_deref(),
            link_type: interface.link.0,
            start: statistics.start,
            end: statistics.end,
            received: statistics.received,
            accepted: statistics.accepted,
            delivered: statistics.delivered,
            dropped_by_interface: statistics.dropped_by_interface,
            dropped_by_system: statistics.dropped_by_system,
            dropped_before_packets: interface.dropped_before_packets,
            dropped: interface.dropped(),
        }
    }
}

/// `"type":"operation"`.
#[derive(Serialize)]
pub struct OperationLine {
    r#type: &'static str,
    protocol: Option<Shown<Protocol>>,
    program: Option<u32>,
    version: Option<u32>,
    minor_version: Option<u32>,
    direction: &'static str,
    operation: Shown<Label>,
    count: u64,
    errors: u64,
    bytes: u64,
    latency: Option<LatencyView>,
    shares: Option<SharesView>,
}

#[derive(Serialize)]
struct LatencyView {
    min_ns: u64,
    median_ns: u64,
    p99_ns: u64,
    max_ns: u64,
    total_ns: u64,
}

#[derive(Serialize)]
struct SharesView {
    call: f64,
    reads: f64,
    server: f64,
    writes: f64,
    reply: f64,
}

impl OperationLine {
    /// The line of one operation.
    pub fn new(key: &Key, stats: &Stats) -> OperationLine {
        OperationLine {
            r#type: "operation",
            protocol: key.protocol.map(Shown),
            program: key.protocol.map(|protocol| protocol.program),
            version: key.protocol.map(|protocol| protocol.version),
            minor_version: key.protocol.and_then(|protocol| protocol.minor),
            direction: if key.backward { "backward" } else { "forward" },
            operation: Shown(key.label),
            count: stats.count,
            errors: stats.errors,
            bytes: stats.bytes,
            latency: stats.latency().map(|latency| LatencyView {
                min_ns: latency.minimum,
                median_ns: latency.median,
                p99_ns: latency.p99,
                max_ns: latency.maximum,
                total_ns: stats.total_latency,
            }),
            shares: stats.shares().map(|shares| {
                let [call, reads, server, writes, reply] =
                    shares.map(|share| (share * 10_000.0).round() / 10_000.0);
                SharesView { call, reads, server, writes, reply }
            }),
        }
    }
}

/// `"type":"error"`.
#[derive(Serialize)]
pub struct ErrorLine {
    r#type: &'static str,
    protocol: Option<Shown<Protocol>>,
    program: Option<u32>,
    version: Option<u32>,
    minor_version: Option<u32>,
    operation: Shown<Label>,
    layer: &'static str,
    status: Option<u32>,
    status_name: Option<Shown<FailureName>>,
    count: u64,
    first_frame: Option<u64>,
}

impl ErrorLine {
    /// The line of one kind of error.
    pub fn new(key: ErrorKey, error: ErrorCount) -> ErrorLine {
        let protocol = key.protocol;
        let (layer, status, name) = match key.failure {
            Failure::Transport(error) => ("rpc-over-rdma", None, error.map(FailureName::Transport)),
            Failure::Rpc(status) => ("rpc", None, Some(FailureName::Rpc(status))),
            Failure::Status(status) => {
                let name = protocol.and_then(|p| names::status_name(p.program, p.version, status));
                ("procedure", Some(status), name.map(FailureName::Status))
            }
        };
        ErrorLine {
            r#type: "error",
            protocol: protocol.map(Shown),
            program: protocol.map(|protocol| protocol.program),
            version: protocol.map(|protocol| protocol.version),
            minor_version: protocol.and_then(|protocol| protocol.minor),
            operation: Shown(key.label),
            layer,
            status,
            status_name: name.map(Shown),
            count: error.count,
            first_frame: error.first_frame,
        }
    }
}

/// The name of an error, in whatever layer it is one.
enum FailureName {
    Transport(rdmascope_wire::rpcrdma::Error),
    Rpc(rdmascope_wire::rpc::Status),
    Status(&'static str),
}

impl core::fmt::Display for FailureName {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            FailureName::Transport(error) => error.fmt(f),
            FailureName::Rpc(status) => status.fmt(f),
            FailureName::Status(name) => f.write_str(name),
        }
    }
}

/// `"type":"problem"`.
#[derive(Serialize)]
pub struct ProblemLine {
    r#type: &'static str,
    problem: &'static str,
    group: &'static str,
    count: u64,
    what: &'static str,
    first_frame: Option<u64>,
}

impl ProblemLine {
    /// The line of one kind of problem.
    pub fn new(problem: &Problem) -> ProblemLine {
        ProblemLine {
            r#type: "problem",
            problem: problem.name,
            group: match problem.group {
                Group::Transactions => "transactions",
                Group::Transport => "transport",
                Group::Capture => "capture",
            },
            count: problem.count,
            what: problem.what,
            first_frame: problem.first_frame,
        }
    }
}
