//! `rdmascope packets`: one line per packet.

use crate::filters::{PacketArguments, RequestedScope};
use crate::input::Input;
use crate::list::list;
use crate::output::{Failure, Out, Status};
use crate::table::{FieldName, Table, condition};
use clap::Args;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_present::columns::PACKET;
use rdmascope_present::text::Style;

/// Examples for `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  rdmascope packets mount.pcap --connection 1 --since 2.5 --until 3
  rdmascope packets mount.pcap --opcode 'read response' --qp 0x12
  rdmascope packets mount.pcap --psn 16777210-5
  rdmascope packets mount.pcap --connection 1 --time delta
  rdmascope packets mount.pcap --format tsv --fields frame,time,rpcrdma.xid | cut -f 1,3";

/// The arguments of `packets`.
#[derive(Args, Debug)]
#[command(
    mut_arg("fields", |fields| fields.value_parser(FieldName::any(&PACKET))),
    mut_arg("condition", condition(&PACKET, "opcode ~ 'RDMA READ*' && connection == 1")),
    mut_arg("sort", |sort| sort.value_parser(FieldName::key(&PACKET))),
)]
pub(crate) struct Packets {
    #[command(flatten)]
    pub(crate) input: Input,
    #[command(flatten)]
    table: Table,
    #[command(flatten)]
    filter: PacketArguments,
}

pub(crate) fn run(command: &Packets, style: Style, out: &mut Out) -> Result<Status, Failure> {
    let filter = command.filter.filter();
    list(
        &command.input,
        (&command.table, &PACKET),
        Config { report_packets: true, ..Config::default() },
        RequestedScope::new(&filter.connections, filter.span),
        style,
        out,
        |event, start, rows, out| match event {
            Some(Event::Packet(packet)) if filter.matches(packet, start) => rows.row(packet, start, out),
            _ => Ok(()),
        },
    )
}
