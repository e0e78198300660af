//! `rdmascope transactions`: the RPC transactions, one line each.

use crate::filters::TransactionArguments;
use crate::input::Input;
use crate::list::list;
use crate::output::{Format, Out, Output, Status};
use clap::Args;
use rdmascope_dissector::event::Event;
use rdmascope_present::column::TextTable;
use rdmascope_present::columns::TRANSACTION;
use rdmascope_present::json;
use rdmascope_present::text::Style;
use std::io;

/// Examples for `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  rdmascope transactions mount.pcap --operation read --operation write --latency-above 5ms
  rdmascope transactions mount.pcap --status error
  tcpdump -i eth0 -U -w - udp port 4791 | rdmascope transactions - --latency-above 5ms
  rdmascope transactions mount.pcap --status NFS4ERR_DELAY --since 2025-11-21T09:30:00Z
  rdmascope transactions mount.pcap --xid 0x1a2b3c4d --format jsonl | jq .call.read_chunks";

/// The arguments of `transactions`.
#[derive(Args, Debug)]
pub(crate) struct Transactions {
    #[command(flatten)]
    pub(crate) input: Input,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    filter: TransactionArguments,
}

/// Runs the command.
pub(crate) fn run(command: &Transactions, style: Style, out: &mut Out) -> io::Result<Status> {
    let filter = command.filter.filter();
    let table = TextTable::new(&TRANSACTION);
    let write_heading = |style, out: &mut Out| table.write_heading(style, out);
    list(
        &command.input,
        &command.output,
        style,
        out,
        (false, command.filter.asked()),
        write_heading,
        |shown, out| {
            let Event::Transaction(transaction) = shown.event else { return Ok(()) };
            if !filter.matches(transaction, shown.start) {
                return Ok(());
            }
            match shown.format {
                Format::Text => table.write_row(transaction, shown.setting(style), out),
                Format::Jsonl => json::write_line(out, &TRANSACTION.of(transaction)),
            }
        },
    )
}
