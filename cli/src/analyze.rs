//! `rdmascope analyze`: the report of a capture.

use crate::input::{self, Audience, Each, Input};
use crate::output::{Format, Out, Output, Status, complain, complain_of_troubles, tell, warn_of_cuts};
use crate::witness::{self, Witnesses};
use clap::Args;
use rdmascope_capture_agent::Note;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::observation::Observe;
use rdmascope_dissector::record::Time;
use rdmascope_present::json;
use rdmascope_present::kernel::{KernelTrace, Witness};
use rdmascope_present::report::Report;
use rdmascope_present::text::Style;
use std::io::{self, Write as _};
use std::path::PathBuf;

/// Examples for `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  rdmascope analyze mount.pcap
  rdmascope analyze mount.pcap0 mount.pcap1 mount.pcap2.zst
  rdmascope analyze --each captures/
  tcpdump -i eth0 -w - udp port 4791 | rdmascope analyze -
  rdmascope analyze mount.pcap --kernel client.trace --kernel server.trace
  rdmascope analyze mount.pcap --format jsonl | jq 'select(.type == \"operation\")'";

/// The arguments of `analyze`.
#[derive(Args, Debug)]
#[command(mut_arg("files", |files| files.required(false).required_unless_present("kernel")))]
pub(crate) struct Analyze {
    #[command(flatten)]
    pub(crate) input: Input,
    #[command(flatten)]
    each: Each,
    /// What the kernel of a client or server traced meanwhile: the text of /sys/kernel/tracing/trace or of `trace-cmd report`
    ///
    /// The events xprtrdma_* and svcrdma_*, and with them xprt_reserve, rpc_stats_latency and svc_process of sunrpc, are joined to the transactions
    /// by XID. They split the time of that host into queue, handler, marshalling and the way to and from the network, and show where
    /// kernel and packets disagree. The clocks are tied by what both show; how well is told. Without FILE, the trace tells by itself what it can.
    #[arg(long, value_name = "TRACE", conflicts_with = "each")]
    kernel: Vec<PathBuf>,
    #[command(flatten)]
    output: Output,
}

/// Runs the command.
pub(crate) fn run(command: &Analyze, style: Style, out: &mut Out) -> io::Result<Status> {
    let format = command.output.format;
    let traces = match witness::read(&command.kernel) {
        Ok(traces) => traces,
        Err(error) => return complain(&error.into(), out),
    };
    if command.input.files.is_empty() {
        return alone(traces, format, style, out);
    }
    let mut traces = Some(traces);
    command.each.run(&command.input, |input, index| {
        if index > Some(0) && format == Format::Text {
            writeln!(out)?;
        }
        report(input, traces.take().unwrap_or_default(), format, style, out)
    })
}

/// Reports on traces without a capture.
fn alone(traces: Vec<KernelTrace>, format: Format, style: Style, out: &mut Out) -> io::Result<Status> {
    for (index, trace) in traces.into_iter().enumerate() {
        if index > 0 && format == Format::Text {
            writeln!(out)?;
        }
        write_witness(&Witness::alone(trace), format, style, out)?;
    }
    Ok(Status::Done)
}

fn report(
    input: &Input,
    traces: Vec<KernelTrace>,
    format: Format,
    style: Style,
    out: &mut Out,
) -> io::Result<Status> {
    let mut gathering = Gathering { report: Report::default(), witnesses: Witnesses::new(traces) };
    let config = Config { observe: Observe::Events, ..Config::default() };
    let read = input::read(input, config, &mut gathering)?;
    let ending = match read {
        Ok(ending) => ending,
        Err(error) => return complain(&error, out),
    };
    let Gathering { report, witnesses } = gathering;
    if format == Format::Text {
        report.write_text(&ending, style, out)?;
    } else {
        json::write_report(&report, &ending, out)?;
    }
    out.flush()?;
    for witness in witnesses.join(&input.files[0], &ending) {
        write_witness(&witness, format, style, out)?;
    }
    if format != Format::Text {
        warn_of_cuts(&ending, out)?;
    }
    complain_of_troubles(&ending, out)
}

/// What is gathered while a capture is read.
struct Gathering {
    report: Report,
    witnesses: Witnesses,
}

impl Audience for Gathering {
    const LISTS: bool = false;

    #[inline]
    fn event(&mut self, event: Event<'_>, _: Time) -> io::Result<()> {
        self.report.handle(&event);
        self.witnesses.event(&event);
        Ok(())
    }

    fn note(&mut self, note: &Note) {
        self.witnesses.note(note);
    }

    fn wait(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_witness(witness: &Witness, format: Format, style: Style, out: &mut Out) -> io::Result<()> {
    if format == Format::Text {
        return witness.write_text(style, out);
    }
    json::write_witness(witness, out)?;
    if let Some((line, reason)) = witness.trace.unread.first {
        out.flush()?;
        let (name, lines) = (&witness.trace.name, witness.trace.unread.lines);
        tell(format_args!(
            "warning: {name}: {lines} lines cannot be read; the first is line {line}: {reason}"
        ));
    }
    Ok(())
}
