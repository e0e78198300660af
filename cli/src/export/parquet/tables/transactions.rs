//! `transactions`: a row for each RPC call and its reply.

use crate::export::parquet::Table;
use crate::export::parquet::column::Leaf::{Boolean, Text, Time, U32, U64};
use crate::export::parquet::column::{Column, list, one};
use rdmascope_dissector::transaction::{Seen, Transaction};
use rdmascope_present::names::{self, Failure, Label, Protocol, SecurityName};
use rdmascope_present::phases::Phases;
use rdmascope_present::words;
use rdmascope_wire::Stop;

pub(in super::super) struct Transactions;

impl Table for Transactions {
    type Row<'a> = Transaction;
    const NAME: &'static str = "transactions";
    const COLUMNS: &'static [&'static [Column<Transactions>]] = &[
        &[
            one("number", U64(|row, out| out.put(row.number))),
            one("connection", U32(|row, out| out.put(row.connection.0))),
            one("direction", Text(|row, out| out.put(names::direction(row.direction)))),
            one("xid", U32(|row, out| out.put(row.xid.0))),
            one("program", U32(|row, out| out.put(row.procedure.map(|called| called.program)))),
            one("version", U32(|row, out| out.put(row.procedure.map(|called| called.version)))),
            one("minor_version", U32(|row, out| out.put(row.details.minor_version))),
            one("procedure", U32(|row, out| out.put(row.procedure.map(|called| called.number)))),
            one("name", Text(|row, out| out.put(row.procedure.and_then(names::procedure_name)))),
            one("protocol", Text(|row, out| out.show(Protocol::of(row)))),
            one("operation", Text(|row, out| out.show(Some(Label::of(row))))),
            list(
                "operations",
                Text(|row, out| {
                    row.details.operations.iter().for_each(|operation| out.put(operation.name()));
                }),
            ),
            one("status", U32(|row, out| out.put(row.status))),
            one("status_name", Text(|row, out| out.put(status_name(row)))),
            one("outcome", Text(|row, out| out.put(names::outcome(row.outcome)))),
            one("rpc_status", Text(|row, out| out.show(row.rpc_status))),
            one("error", Text(|row, out| out.show(row.error))),
            one("failed", Boolean(|row, out| out.put(Failure::of(row).is_some()))),
            one("security", Text(|row, out| out.show(row.security.map(SecurityName)))),
            one("capture_gap", Boolean(|row, out| out.put(row.capture_gap))),
            one("latency_ns", U64(|row, out| out.put(row.latency()))),
            one("phases_call_ns", U64(|row, out| out.put(phases(row).map(|[call, ..]| call)))),
            one("phases_reads_ns", U64(|row, out| out.put(phases(row).map(|[_, reads, ..]| reads)))),
            one("phases_server_ns", U64(|row, out| out.put(phases(row).map(|[_, _, server, ..]| server)))),
            one("phases_writes_ns", U64(|row, out| out.put(phases(row).map(|[.., writes, _]| writes)))),
            one("phases_reply_ns", U64(|row, out| out.put(phases(row).map(|[.., reply]| reply)))),
            one("read_bytes", U64(|row, out| out.put(row.timing.read_bytes))),
            one("written_bytes", U64(|row, out| out.put(row.timing.written_bytes))),
            one("reads_first", Time(|row, out| out.put(row.timing.reads.map(|(first, _)| first)))),
            one("reads_last", Time(|row, out| out.put(row.timing.reads.map(|(_, last)| last)))),
            one("writes_first", Time(|row, out| out.put(row.timing.writes.map(|(first, _)| first)))),
            one("writes_last", Time(|row, out| out.put(row.timing.writes.map(|(_, last)| last)))),
            one("call_frame", U64(|row, out| out.put(call(row).map(|seen| seen.frame)))),
            one("call_time", Time(|row, out| out.put(call(row).map(|seen| seen.time)))),
            one("reply_frame", U64(|row, out| out.put(reply(row).map(|seen| seen.frame)))),
            one("reply_time", Time(|row, out| out.put(reply(row).map(|seen| seen.time)))),
            one("done_frame", U64(|row, out| out.put(row.done.map(|seen| seen.frame)))),
            one("done_time", Time(|row, out| out.put(row.done.map(|seen| seen.time)))),
        ],
        stop_columns!("stop", stop),
    ];
}

fn status_name(transaction: &Transaction) -> Option<&'static str> {
    let called = transaction.procedure?;
    names::status_name(called.program, called.version, transaction.status?)
}

fn phases(transaction: &Transaction) -> Option<[u64; 5]> {
    Phases::of(transaction).map(|phases| phases.0)
}

fn call(transaction: &Transaction) -> Option<Seen> {
    transaction.call.as_ref().map(|message| message.seen)
}

fn reply(transaction: &Transaction) -> Option<Seen> {
    transaction.reply.as_ref().map(|message| message.seen)
}

fn stop(transaction: &Transaction) -> Option<Stop> {
    transaction.stop
}
