//! `rdmascope packets`: the packets, one line each.

use crate::filters::PacketArguments;
use crate::input::Input;
use crate::list::list;
use crate::output::{Format, Out, Output, Status};
use clap::Args;
use rdmascope_dissector::event::Event;
use rdmascope_present::column::TextTable;
use rdmascope_present::columns::PACKET;
use rdmascope_present::json;
use rdmascope_present::text::Style;
use std::io;

/// Examples for `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  rdmascope packets mount.pcap --connection 1 --since 2.5 --until 3
  rdmascope packets mount.pcap --opcode 'read response' --qp 0x12
  rdmascope packets mount.pcap --psn 16777210-5";

/// The arguments of `packets`.
#[derive(Args, Debug)]
pub(crate) struct Packets {
    #[command(flatten)]
    pub(crate) input: Input,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    filter: PacketArguments,
}

/// Runs the command.
pub(crate) fn run(command: &Packets, style: Style, out: &mut Out) -> io::Result<Status> {
    let filter = command.filter.filter();
    let table = TextTable::new(&PACKET);
    let write_heading = |style, out: &mut Out| table.write_heading(style, out);
    list(
        &command.input,
        &command.output,
        style,
        out,
        (true, command.filter.asked()),
        write_heading,
        |shown, out| {
            let Event::Packet(packet) = shown.event else { return Ok(()) };
            if !filter.matches(packet, shown.start) {
                return Ok(());
            }
            match shown.format {
                Format::Text => table.write_row(packet, shown.setting(style), out),
                Format::Jsonl => json::write_line(out, &PACKET.of(packet)),
            }
        },
    )
}
