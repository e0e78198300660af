//! `rdmascope analyze`: the report of a capture.

use crate::input::{Input, listen};
use crate::output::{Format, Out, Output, Status, complain, complain_of_troubles, warn_of_cuts};
use clap::Args;
use rdmascope_dissector::engine::Config;
use rdmascope_present::json;
use rdmascope_present::report::Report;
use rdmascope_present::text::Style;
use std::io;

/// Examples for `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  rdmascope analyze mount.pcap
  rdmascope analyze mount.pcap0 mount.pcap1 mount.pcap2.zst
  tcpdump -i eth0 -w - udp port 4791 | rdmascope analyze -
  rdmascope analyze mount.pcap --format jsonl | jq 'select(.type == \"operation\")'";

/// The arguments of `analyze`.
#[derive(Args, Debug)]
pub(crate) struct Analyze {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    output: Output,
}

/// Runs the command.
pub(crate) fn run(command: &Analyze, style: Style, out: &mut Out) -> io::Result<Status> {
    let mut report = Report::default();
    let read = listen(&command.input, Config { observe: true, ..Config::default() }, |event, _| {
        report.handle(&event);
        Ok(())
    })?;
    let ending = match read {
        Ok(ending) => ending,
        Err(error) => return complain(&error, out),
    };
    if command.output.format == Format::Text {
        report.write_text(&ending, style, out)?;
    } else {
        json::write_report(&report, &ending, out)?;
        warn_of_cuts(&ending, out)?;
    }
    complain_of_troubles(&ending, out)
}
