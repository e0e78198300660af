//! `rdmascope events`: events of connections, in time order.

use crate::filters::{EventArguments, RequestedScope};
use crate::input::{Input, observe};
use crate::output::{Failure, Out, Status, notify, report_ending};
use crate::table::{FieldName, Table, condition};
use clap::Args;
use rdmascope_analysis::events::Events as Gathered;
use rdmascope_analysis::units::Counted;
use rdmascope_present::columns::EVENT;
use rdmascope_present::text::Style;

/// Examples for `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  rdmascope events mount.pcap
  rdmascope events mount.pcap --time absolute
  rdmascope events mount.pcap --format csv --sort duration --reverse
  rdmascope events mount.pcap --kind service-lost,retries-exhausted
  rdmascope events mount.pcap --format jsonl | jq 'select(.event == \"service-lost\")'";

/// The arguments of `events`.
#[derive(Args, Debug)]
#[command(
    mut_arg("fields", |fields| fields.value_parser(FieldName::any(&EVENT))),
    mut_arg("condition", condition(&EVENT, "event == service-lost && duration > 1s")),
    mut_arg("sort", |sort| sort.value_parser(FieldName::key(&EVENT))),
)]
pub(crate) struct Events {
    #[command(flatten)]
    pub(crate) input: Input,
    #[command(flatten)]
    table: Table,
    #[command(flatten)]
    filter: EventArguments,
}

pub(crate) fn run(command: &Events, style: Style, out: &mut Out) -> Result<Status, Failure> {
    let mut rows = command.table.rows(&EVENT, style)?;
    let filter = command.filter.filter();
    let mut scope = RequestedScope::new(&filter.connections, filter.span);
    let mut events = Gathered::default();
    let ending = observe(&command.input, &mut (&mut scope, &mut events))?;
    let start = ending.start().unwrap_or_default();
    let end = ending.totals.span.map(|(_, last)| last);
    rows.head(out)?;
    for event in events.list(end).iter().filter(|event| filter.matches(event, start)) {
        rows.row(event, start, out)?;
    }
    rows.end(out)?;
    let status = report_ending(&ending, out)?;
    if events.further_connections() > 0 {
        let further = Counted(events.further_connections(), "further connection");
        notify(format_args!("warning: too many connections: events of {further} are not listed"));
    }
    scope.check(&ending)?;
    Ok(status)
}
