//! `rdmascope transactions`: one line per RPC transaction.

use crate::filters::{RequestedScope, TransactionArguments};
use crate::input::Input;
use crate::list::list;
use crate::output::{Failure, Out, Status};
use crate::paths;
use crate::table::{FieldName, Rows, Table, condition};
use clap::Args;
use rdmascope_analysis::observer::Observer;
use rdmascope_analysis::paths::TransactionRow;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::exchange::Keep;
use rdmascope_dissector::transaction::Transaction;
use rdmascope_present::columns::TRANSACTION;
use rdmascope_present::text::Style;

/// Examples for `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  rdmascope transactions mount.pcap --operation read --operation write --latency-above 5ms
  rdmascope transactions mount.pcap --status error
  rdmascope transactions mount.pcap --sort latency --reverse --top 10
  rdmascope transactions mount.pcap --where 'op == READ && latency > 5ms && file ~ \"*.dat\"'
  rdmascope transactions client.pcap --with server.pcap --where 'split.there_ns > 5ms'
  rdmascope transactions mount.pcap --format csv --fields number,operation,latency > calls.csv
  tcpdump -i eth0 -U -w - udp port 4791 | rdmascope transactions - --latency-above 5ms
  rdmascope transactions mount.pcap --status NFS4ERR_DELAY --since 2025-11-21T09:30:00Z
  rdmascope transactions mount.pcap --xid 0x1a2b3c4d --format jsonl | jq .call.read_chunks";

/// The arguments of `transactions`.
#[derive(Args, Debug)]
#[command(
    mut_arg("fields", |fields| fields.value_parser(FieldName::any(&TRANSACTION))),
    mut_arg("condition", condition(&TRANSACTION, "op == READ && latency > 5ms && file ~ '*.dat'")),
    mut_arg("sort", |sort| sort.value_parser(FieldName::key(&TRANSACTION))),
)]
pub(crate) struct Transactions {
    #[command(flatten)]
    pub(crate) input: Input,
    #[command(flatten)]
    table: Table,
    #[command(flatten)]
    filter: TransactionArguments,
}

pub(crate) fn run(command: &Transactions, style: Style, out: &mut Out) -> Result<Status, Failure> {
    let filter = command.filter.filter();
    let mut tally = command.input.joint()?.map(|joint| joint.tally());
    let mut paths = match command.table.has("file") {
        true => paths::follow(&command.input),
        false => paths::for_filter(&command.input, &filter),
    };
    let is_joined = tally.is_some();
    let keep = Keep { steps: is_joined, contents: false };
    let config = Config { report_packets: is_joined, keep, ..Config::default() };
    let mut write = |transaction: &Transaction, split, start, rows: &mut Rows<Transaction>, out: &mut Out| {
        let row = TransactionRow { split, ..TransactionRow::follow(transaction, &mut paths) };
        if filter.matches(&row, start) { rows.row(row, start, out) } else { Ok(()) }
    };
    list(
        &command.input,
        (&command.table, &TRANSACTION),
        config,
        RequestedScope::new(&filter.connections, filter.span),
        style,
        out,
        |event, start, rows, out| match (&mut tally, event) {
            (None, Some(Event::Transaction(transaction))) => write(transaction, None, start, rows, out),
            (None, _) => Ok(()),
            // With --with, the capture points of a transaction's last packets are known only some
            // events later.
            (Some(tally), event) => {
                match event {
                    Some(event) => tally.handle(event),
                    None => tally.finish(),
                }
                while let Some((transaction, split)) = tally.ready() {
                    write(&transaction, split, start, rows, out)?;
                }
                Ok(())
            }
        },
    )
}
