//! `rdmascope connections`: one line per connection.

use crate::filters::{ConnectionArguments, RequestedScope};
use crate::input::Input;
use crate::list::list;
use crate::output::{Failure, Out, Status};
use crate::table::{FieldName, Table, condition};
use clap::Args;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_present::columns::CONNECTION;
use rdmascope_present::text::Style;

/// Examples for `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  rdmascope connections mount.pcap
  rdmascope connections mount.pcap --fields connection,port,first,last --time local
  rdmascope connections mount.pcap --format jsonl | jq '.requester.private_data'";

/// The arguments of `connections`.
#[derive(Args, Debug)]
#[command(
    mut_arg("fields", |fields| fields.value_parser(FieldName::any(&CONNECTION))),
    mut_arg("condition", condition(&CONNECTION, "state != open || port == 20049")),
    mut_arg("sort", |sort| sort.value_parser(FieldName::key(&CONNECTION))),
)]
pub(crate) struct Connections {
    #[command(flatten)]
    pub(crate) input: Input,
    #[command(flatten)]
    table: Table,
    #[command(flatten)]
    filter: ConnectionArguments,
}

pub(crate) fn run(command: &Connections, style: Style, out: &mut Out) -> Result<Status, Failure> {
    let filter = command.filter.filter();
    list(
        &command.input,
        (&command.table, &CONNECTION),
        Config::default(),
        RequestedScope::new(&filter.connections, filter.span),
        style,
        out,
        |event, start, rows, out| match event {
            Some(Event::Connection(connection)) if filter.matches(connection, start) => {
                rows.row(connection, start, out)
            }
            _ => Ok(()),
        },
    )
}
