//! `rdmascope analyze`: a report on a capture.

mod intervals;

use crate::input::{self, Audience, Each, Input};
use crate::kernel_trace::{self, GatheredTraces};
use crate::output::{Failure, Out, Status, complain_of_troubles, notify, report_failure, warn_of_cuts};
use crate::slice::{Records, Slice, SliceArguments};
use crate::table::Format;
use anyhow::{Result, ensure};
use clap::Args;
use intervals::IntervalArguments;
use rdmascope_analysis::capture_points::EndToEnd;
use rdmascope_analysis::kernel::{KernelTrace, TraceResults};
use rdmascope_analysis::observer::Observer;
use rdmascope_analysis::report::Report;
use rdmascope_capture_agent::Note;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::record::Time;
use rdmascope_present::text::Style;
use rdmascope_present::{json, page};
use std::io::{self, Write as _};
use std::path::PathBuf;

/// Examples for `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  rdmascope analyze mount.pcap
  rdmascope analyze mount.pcap0 mount.pcap1 mount.pcap2.zst
  rdmascope analyze --each captures/
  tcpdump -i eth0 -w - udp port 4791 | rdmascope analyze -
  rdmascope analyze mount.pcap --where 'op in (READ, WRITE) && file ~ \"*.dat\"' --since 10
  rdmascope analyze mount.pcap --interval 1s --by client,operation --format csv > course.csv
  rdmascope analyze client.pcap --with server.pcap
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
    /// Kernel trace of a client or server from the same time: the text of /sys/kernel/tracing/trace
    /// or of `trace-cmd report`
    ///
    /// The events xprtrdma_* and svcrdma_*, and xprt_reserve, rpc_stats_latency and svc_process of
    /// sunrpc, are matched to transactions by XID. They split the time of that host into queue,
    /// handler, marshalling and the path to and from the network, and show where kernel and packets
    /// disagree. Transactions seen by both are used to align the clocks; the output includes the
    /// remaining error. Without FILE, the report covers the trace alone.
    #[arg(long, value_name = "TRACE", conflicts_with = "each")]
    pub(crate) kernel: Vec<PathBuf>,
    /// Output format: text, JSON Lines for programs, or a table of --interval
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    intervals: IntervalArguments,
    #[command(flatten)]
    slice: SliceArguments,
}

pub(crate) fn run(command: &Analyze, style: Style, out: &mut Out) -> Result<Status, Failure> {
    let format = command.format;
    command.has_table()?;
    let traces = kernel_trace::read(&command.kernel)?;
    if command.input.files.is_empty() {
        return Ok(alone(traces, format, style, out)?);
    }
    let mut traces = Some(traces);
    let status = command.each.run(&command.input, |input, index| {
        if index > Some(0) && format == Format::Text {
            writeln!(out)?;
        }
        let reported = report(command, input, traces.take().unwrap_or_default(), style, out);
        report_failure(reported, out)
    })?;
    Ok(status)
}

impl Analyze {
    /// Fails if a table is requested for output that has no table.
    fn has_table(&self) -> Result<()> {
        let is_table = matches!(self.format, Format::Csv | Format::Tsv);
        ensure!(!is_table || self.intervals.is_requested(), "--format csv and tsv need --interval");
        ensure!(
            !is_table || self.kernel.is_empty(),
            "--kernel needs --format text or jsonl: tables have no columns for kernel traces"
        );
        ensure!(
            !is_table || !self.each.is_each(),
            "--each needs --format text or jsonl: tables have no column for the file"
        );
        Ok(())
    }
}

/// Reports on kernel traces without a capture.
fn alone(traces: Vec<KernelTrace>, format: Format, style: Style, out: &mut Out) -> io::Result<Status> {
    for (index, trace) in traces.into_iter().enumerate() {
        if index > 0 && format == Format::Text {
            writeln!(out)?;
        }
        write_trace(&TraceResults::alone(trace), format, style, out)?;
    }
    Ok(Status::Done)
}

fn report(
    command: &Analyze,
    input: &Input,
    traces: Vec<KernelTrace>,
    style: Style,
    out: &mut Out,
) -> Result<Status, Failure> {
    let (slice, captured) = command.slice.of(input, Records::Unknown)?;
    let intervals = command.intervals.gathering(slice.chosen().is_none())?;
    let end_to_end = captured.input().joint()?.map(|joint| EndToEnd::new(joint.tally()));
    let mut gathering = Gathering {
        report: Report::default(),
        traces: GatheredTraces::new(traces),
        slice: &slice,
        intervals,
        end_to_end,
    };
    let mut ending = input::read(captured.input(), &mut gathering)?;
    ending.chosen = slice.chosen();
    if let Some(end_to_end) = &mut gathering.end_to_end {
        end_to_end.finish();
    }
    let Gathering { report, traces, intervals, end_to_end, .. } = gathering;
    let format = command.format;
    match format {
        Format::Text => {
            let places = |mut out: &mut dyn io::Write| match &end_to_end {
                Some(end_to_end) => page::capture_points::Text(end_to_end).write(style, &mut out),
                None => Ok(()),
            };
            page::report::Text { report: &report, ending: &ending, style }.write_with(places, out)?;
        }
        Format::Jsonl => json::write_report(&report, &ending, out)?,
        Format::Csv | Format::Tsv => {}
    }
    if let (Some(end_to_end), Format::Jsonl) = (&end_to_end, format) {
        json::write_places(end_to_end, out)?;
    }
    if let Some(intervals) = intervals {
        intervals.write(&ending, format, style, out)?;
    }
    out.flush()?;
    if matches!(format, Format::Text | Format::Jsonl) {
        for results in traces.join(&input.files[0], &ending) {
            write_trace(&results, format, style, out)?;
        }
    }
    if format != Format::Text {
        warn_of_cuts(&ending, out)?;
    }
    Ok(complain_of_troubles(&ending, out)?)
}

/// The state gathered while the capture is read.
struct Gathering<'a> {
    report: Report,
    traces: GatheredTraces,
    slice: &'a Slice,
    intervals: Option<intervals::Gathering>,
    /// The end-to-end figures, if several capture points are joined.
    end_to_end: Option<EndToEnd>,
}

impl Audience for Gathering<'_> {
    fn needs(&self) -> Config {
        let intervals = self.intervals.as_ref().map(|intervals| intervals.needs()).unwrap_or_default();
        self.report.needs().and(self.end_to_end.needs()).and(self.traces.needs()).and(intervals)
    }

    #[inline]
    fn event(&mut self, event: Event<'_>, start: Time) -> io::Result<()> {
        if self.slice.concerns(&event) {
            self.report.follow(&event);
        }
        let is_chosen = self.slice.has(&event);
        if let Some(end_to_end) = &mut self.end_to_end
            && (is_chosen || matches!(event, Event::Packet(_)))
        {
            end_to_end.handle(&event);
        }
        if is_chosen {
            self.report.count(&event);
            self.traces.handle(&event);
            if let Some(intervals) = &mut self.intervals {
                intervals.event(&event, start);
            }
        }
        Ok(())
    }

    fn note(&mut self, note: &Note) {
        self.traces.note(note);
    }
}

fn write_trace(results: &TraceResults, format: Format, style: Style, out: &mut Out) -> io::Result<()> {
    if format == Format::Text {
        return page::kernel::Text(results).write(style, out);
    }
    json::write_witness(results, out)?;
    if let Some((line, reason)) = results.trace.unread.first {
        out.flush()?;
        let (name, lines) = (&results.trace.name, results.trace.unread.lines);
        notify(format_args!(
            "warning: {name}: {lines} lines could not be parsed, the first at line {line}: {reason}"
        ));
    }
    Ok(())
}
