//! `rdmascope events`: what happened to the connections, in the order of time.

use crate::filters::EventArguments;
use crate::input::{Input, listen};
use crate::output::{Format, Out, Output, Status, complain, tell, tell_of_ending};
use clap::Args;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::observation::Observe;
use rdmascope_present::column::{Setting, TextTable};
use rdmascope_present::columns::EVENT;
use rdmascope_present::events::Events as Gathered;
use rdmascope_present::json;
use rdmascope_present::text::{Counted, Style};
use std::io;

/// Examples for `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  rdmascope events mount.pcap
  rdmascope events mount.pcap --kind service-lost,retries-exhausted
  rdmascope events mount.pcap --format jsonl | jq 'select(.event == \"service-lost\") | .duration_ns'";

/// The arguments of `events`.
#[derive(Args, Debug)]
pub(crate) struct Events {
    #[command(flatten)]
    pub(crate) input: Input,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    filter: EventArguments,
}

/// Runs the command.
pub(crate) fn run(command: &Events, style: Style, out: &mut Out) -> io::Result<Status> {
    let (filter, mut asked) = (command.filter.filter(), command.filter.asked());
    let mut events = Gathered::default();
    let config = Config { observe: Observe::Events, ..Config::default() };
    let read = listen(&command.input, config, |event, _| {
        asked.handle(&event);
        events.handle(&event);
        Ok(())
    })?;
    let ending = match read {
        Ok(ending) => ending,
        Err(error) => return complain(&error, out),
    };
    let (start, end) = ending.totals.span.unzip();
    let start = start.unwrap_or_default();
    let table = TextTable::new(&EVENT);
    if command.output.format == Format::Text {
        table.write_heading(style, out)?;
    }
    for event in events.list(end).iter().filter(|event| filter.matches(event, start)) {
        match command.output.format {
            Format::Text => table.write_row(event, Setting { start, style }, out)?,
            Format::Jsonl => json::write_line(out, &EVENT.of(event))?,
        }
    }
    let status = tell_of_ending(&ending, out)?;
    if events.further_connections() > 0 {
        let further = Counted(events.further_connections(), "further connection");
        tell(format_args!("warning: events of {further} are not kept"));
    }
    match asked.check(&ending) {
        Ok(()) => Ok(status),
        Err(error) => complain(&error, out),
    }
}
