//! `rdmascope analyze`: a report on a capture.

mod course;

use crate::input::{self, Audience, Each, Input};
use crate::output::{Out, Status, complain, complain_of_troubles, tell, warn_of_cuts};
use crate::slice::{Records, Slice, SliceArguments};
use crate::table::Format;
use crate::witness::{self, Witnesses};
use anyhow::{Result, ensure};
use clap::Args;
use course::CourseArguments;
use rdmascope_analysis::kernel::{KernelTrace, Witness};
use rdmascope_analysis::observer::Observer;
use rdmascope_analysis::places::EndToEnd;
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
    course: CourseArguments,
    #[command(flatten)]
    slice: SliceArguments,
}

pub(crate) fn run(command: &Analyze, style: Style, out: &mut Out) -> io::Result<Status> {
    let format = command.format;
    if let Err(error) = command.has_table() {
        return complain(&error, out);
    }
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
        report(command, input, traces.take().unwrap_or_default(), style, out)
    })
}

impl Analyze {
    /// Fails if a table is requested for output that has no table.
    fn has_table(&self) -> Result<()> {
        let is_table = matches!(self.format, Format::Csv | Format::Tsv);
        ensure!(!is_table || self.course.is_asked_for(), "--format csv and tsv need --interval");
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
        write_witness(&Witness::alone(trace), format, style, out)?;
    }
    Ok(Status::Done)
}

fn report(
    command: &Analyze,
    input: &Input,
    traces: Vec<KernelTrace>,
    style: Style,
    out: &mut Out,
) -> io::Result<Status> {
    let (slice, captured) = match command.slice.of(input, Records::Unknown) {
        Ok(part) => part,
        Err(error) => return complain(&error, out),
    };
    let course = match command.course.gathering(slice.chosen().is_none()) {
        Ok(course) => course,
        Err(error) => return complain(&error, out),
    };
    let joint = match captured.input().joint() {
        Ok(joint) => joint,
        Err(error) => return complain(&error, out),
    };
    let joined = joint.map(|joint| EndToEnd::new(joint.tally()));
    let mut gathering = Gathering {
        report: Report::default(),
        witnesses: Witnesses::new(traces),
        slice: &slice,
        course,
        joined,
    };
    let mut ending = match input::read(captured.input(), &mut gathering)? {
        Ok(ending) => ending,
        Err(error) => return complain(&error, out),
    };
    ending.chosen = slice.chosen();
    if let Some(joined) = &mut gathering.joined {
        joined.finish();
    }
    let Gathering { report, witnesses, course, joined, .. } = gathering;
    let format = command.format;
    match format {
        Format::Text => {
            let places = |mut out: &mut dyn io::Write| match &joined {
                Some(joined) => page::places::Text(joined).write(style, &mut out),
                None => Ok(()),
            };
            page::report::Text { report: &report, ending: &ending, style }.write_with(places, out)?;
        }
        Format::Jsonl => json::write_report(&report, &ending, out)?,
        Format::Csv | Format::Tsv => {}
    }
    if let (Some(joined), Format::Jsonl) = (&joined, format) {
        json::write_places(joined, out)?;
    }
    if let Some(course) = course
        && let Err(error) = course.write(&ending, format, style, out)?
    {
        return complain(&error, out);
    }
    out.flush()?;
    if matches!(format, Format::Text | Format::Jsonl) {
        for witness in witnesses.join(&input.files[0], &ending) {
            write_witness(&witness, format, style, out)?;
        }
    }
    if format != Format::Text {
        warn_of_cuts(&ending, out)?;
    }
    complain_of_troubles(&ending, out)
}

/// The state gathered while the capture is read.
struct Gathering<'a> {
    report: Report,
    witnesses: Witnesses,
    slice: &'a Slice,
    course: Option<course::Gathering>,
    /// The end-to-end figures, if several capture points are joined.
    joined: Option<EndToEnd>,
}

impl Audience for Gathering<'_> {
    const LISTS: bool = false;

    fn needs(&self) -> Config {
        let course = self.course.as_ref().map(|course| course.needs()).unwrap_or_default();
        self.report.needs().and(self.joined.needs()).and(self.witnesses.needs()).and(course)
    }

    #[inline]
    fn event(&mut self, event: Event<'_>, start: Time) -> io::Result<()> {
        if self.slice.concerns(&event) {
            self.report.follow(&event);
        }
        let is_chosen = self.slice.has(&event);
        if let Some(joined) = &mut self.joined
            && (is_chosen || matches!(event, Event::Packet(_)))
        {
            joined.handle(&event);
        }
        if is_chosen {
            self.report.count(&event);
            self.witnesses.handle(&event);
            if let Some(course) = &mut self.course {
                course.event(&event, start);
            }
        }
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
        return page::kernel::Text(witness).write(style, out);
    }
    json::write_witness(witness, out)?;
    if let Some((line, reason)) = witness.trace.unread.first {
        out.flush()?;
        let (name, lines) = (&witness.trace.name, witness.trace.unread.lines);
        tell(format_args!(
            "warning: {name}: {lines} lines could not be parsed, the first at line {line}: {reason}"
        ));
    }
    Ok(())
}
