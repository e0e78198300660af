//! `rdmascope analyze`: the report of a capture.

use crate::input::{Each, Input, listen};
use crate::output::{Format, Out, Output, Status, complain, complain_of_troubles, warn_of_cuts};
use clap::Args;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::observation::Observe;
use rdmascope_present::json;
use rdmascope_present::report::Report;
use rdmascope_present::text::Style;
use std::io::{self, Write as _};

/// Examples for `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  rdmascope analyze mount.pcap
  rdmascope analyze mount.pcap0 mount.pcap1 mount.pcap2.zst
  rdmascope analyze --each captures/
  tcpdump -i eth0 -w - udp port 4791 | rdmascope analyze -
  rdmascope analyze mount.pcap --format jsonl | jq 'select(.type == \"operation\")'";

/// The arguments of `analyze`.
#[derive(Args, Debug)]
pub(crate) struct Analyze {
    #[command(flatten)]
    pub(crate) input: Input,
    #[command(flatten)]
    each: Each,
    #[command(flatten)]
    output: Output,
}

/// Runs the command.
pub(crate) fn run(command: &Analyze, style: Style, out: &mut Out) -> io::Result<Status> {
    let format = command.output.format;
    command.each.run(&command.input, |input, index| {
        if index > Some(0) && format == Format::Text {
            writeln!(out)?;
        }
        report(input, format, style, out)
    })
}

fn report(input: &Input, format: Format, style: Style, out: &mut Out) -> io::Result<Status> {
    let mut report = Report::default();
    let read = listen(input, Config { observe: Observe::Events, ..Config::default() }, |event, _| {
        report.handle(&event);
        Ok(())
    })?;
    let ending = match read {
        Ok(ending) => ending,
        Err(error) => return complain(&error, out),
    };
    if format == Format::Text {
        report.write_text(&ending, style, out)?;
    } else {
        json::write_report(&report, &ending, out)?;
        warn_of_cuts(&ending, out)?;
    }
    complain_of_troubles(&ending, out)
}
