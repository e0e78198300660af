//! `rdmascope connections`: the connections, one line each.

use crate::filters::ConnectionArguments;
use crate::input::Input;
use crate::list::list;
use crate::output::{Format, Out, Output, Status};
use clap::Args;
use rdmascope_dissector::event::Event;
use rdmascope_present::column::TextTable;
use rdmascope_present::columns::CONNECTION;
use rdmascope_present::json;
use rdmascope_present::text::Style;
use std::io;

/// Examples for `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  rdmascope connections mount.pcap
  rdmascope connections mount.pcap --format jsonl | jq '.requester.private_data'";

/// The arguments of `connections`.
#[derive(Args, Debug)]
pub(crate) struct Connections {
    #[command(flatten)]
    pub(crate) input: Input,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    filter: ConnectionArguments,
}

/// Runs the command.
pub(crate) fn run(command: &Connections, style: Style, out: &mut Out) -> io::Result<Status> {
    let filter = command.filter.filter();
    let table = TextTable::new(&CONNECTION);
    let write_heading = |style, out: &mut Out| table.write_heading(style, out);
    list(
        &command.input,
        &command.output,
        style,
        out,
        (false, command.filter.asked()),
        write_heading,
        |shown, out| {
            let Event::Connection(connection) = shown.event else { return Ok(()) };
            if !filter.matches(connection, shown.start) {
                return Ok(());
            }
            match shown.format {
                Format::Text => table.write_row(connection, shown.setting(style), out),
                Format::Jsonl => json::write_line(out, &CONNECTION.of(connection)),
            }
        },
    )
}
