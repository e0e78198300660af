//! What each subcommand does: records from the source to the engine, events from the engine to the output.

use crate::args::{Analyze, Command, Connections, Format, Input, Output, Packets, Transactions};
use crate::check;
use crate::completions;
use crate::diff;
use crate::export;
use crate::extract;
use crate::man;
use crate::progress::Progress;
use crate::regress;
use crate::show;
use crate::source::{Sink, Source};
use crate::terminal;
use anyhow::Result;
use core::fmt;
use core::ops::ControlFlow;
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::frame;
use rdmascope_dissector::record::{Record, Time};
use rdmascope_dissector::transport::Dissected;
use rdmascope_present::ending::Ending;
use rdmascope_present::findings::Findings;
use rdmascope_present::json::{self, ConnectionLine, PacketLine, TransactionLine};
use rdmascope_present::report::Report;
use rdmascope_present::tables;
use rdmascope_present::text::{Plain, Style};
use std::io::{self, BufWriter, StdoutLock, Write};

/// Output is gathered to this many bytes before it is handed on.
const BUFFER: usize = 128 << 10;

/// Standard output with a buffer.
pub(crate) type Out = BufWriter<StdoutLock<'static>>;

/// How a command ended: the exit statuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Status {
    /// All was done.
    Done = 0,
    /// A comparison found a difference, or a judge a violation.
    Differs = 1,
    /// Wrong usage, no capture, or output that cannot be written. Clap exits with the same.
    Failed = 2,
}

/// Runs a subcommand; what could not be read is told of on standard error.
pub(crate) fn run(command: &mut Command) -> io::Result<Status> {
    let mut out = BufWriter::with_capacity(BUFFER, io::stdout().lock());
    let style = terminal::style();
    let status = match command {
        Command::Analyze(command) => analyze(command, style, &mut out)?,
        Command::Connections(command) => connections(command, style, &mut out)?,
        Command::Transactions(command) => transactions(command, style, &mut out)?,
        Command::Packets(command) => packets(command, style, &mut out)?,
        Command::Export(command) => export::run(command, &mut out)?,
        Command::Extract(command) => extract::run(command, style, &mut out)?,
        Command::Show(command) => show::run(command, style, &mut out)?,
        Command::Check(command) => check::run(command, style, &mut out)?,
        Command::Diff(command) => diff::run(command, style, &mut out)?,
        Command::Regress(command) => regress::run(command, style, &mut out)?,
        Command::Completions(command) => completions::run(command, &mut out)?,
        Command::Man(command) => man::run(command, &mut out)?,
    };
    out.flush()?;
    Ok(status)
}

fn analyze(command: &Analyze, style: Style, out: &mut Out) -> io::Result<Status> {
    let mut report = Report::default();
    let ending = match read(&command.input, Config::default(), &mut report)? {
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

impl Audience for Report {
    const LISTS: bool = false;

    fn event(&mut self, event: Event<'_>, _: Time) -> io::Result<()> {
        self.handle(&event);
        Ok(())
    }

    /// Nothing is shown before the end.
    fn wait(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn connections(command: &Connections, style: Style, out: &mut Out) -> io::Result<Status> {
    let filter = command.filter.filter();
    list(
        &command.input,
        &command.output,
        style,
        out,
        false,
        tables::connections::write_heading,
        |shown, out| {
            let Event::Connection(connection) = shown.event else { return Ok(()) };
            if !filter.matches(connection, shown.start) {
                return Ok(());
            }
            match shown.format {
                Format::Text => tables::connections::write_row(connection, style, out),
                Format::Jsonl => json::write_line(out, &ConnectionLine::from(connection)),
            }
        },
    )
}

fn transactions(command: &Transactions, style: Style, out: &mut Out) -> io::Result<Status> {
    let filter = command.filter.filter();
    list(
        &command.input,
        &command.output,
        style,
        out,
        false,
        tables::transactions::write_heading,
        |shown, out| {
            let Event::Transaction(transaction) = shown.event else { return Ok(()) };
            if !filter.matches(transaction, shown.start) {
                return Ok(());
            }
            match shown.format {
                Format::Text => tables::transactions::write_row(transaction, shown.start, style, out),
                Format::Jsonl => json::write_line(out, &TransactionLine::from(transaction)),
            }
        },
    )
}

fn packets(command: &Packets, style: Style, out: &mut Out) -> io::Result<Status> {
    let filter = command.filter.filter();
    list(&command.input, &command.output, style, out, true, tables::packets::write_heading, |shown, out| {
        let Event::Packet(packet) = shown.event else { return Ok(()) };
        if !filter.matches(packet, shown.start) {
            return Ok(());
        }
        match shown.format {
            Format::Text => tables::packets::write_row(packet, shown.start, style, out),
            Format::Jsonl => json::write_line(out, &PacketLine::from(packet)),
        }
    })
}

/// An event on its way to the output.
struct Shown<'a> {
    event: Event<'a>,
    /// When the capture starts.
    start: Time,
    format: Format,
}

/// Reads the capture and writes its events as they come.
fn list(
    input: &Input,
    output: &Output,
    style: Style,
    out: &mut Out,
    report_packets: bool,
    write_heading: impl Fn(Style, &mut Out) -> io::Result<()>,
    write: impl FnMut(Shown<'_>, &mut Out) -> io::Result<()>,
) -> io::Result<Status> {
    let headed = output.format != Format::Text;
    let mut listing = Listing { format: output.format, style, out, headed, write_heading, write };
    match read(input, Config { report_packets, ..Config::default() }, &mut listing)? {
        Ok(ending) => {
            listing.head()?;
            tell_of_ending(&ending, out)
        }
        Err(error) => complain(&error, out),
    }
}

/// Lines on their way to the output, below a heading that waits for the first: what is no capture gets none.
struct Listing<'a, H, W> {
    format: Format,
    style: Style,
    out: &'a mut Out,
    headed: bool,
    write_heading: H,
    write: W,
}

impl<H: Fn(Style, &mut Out) -> io::Result<()>, W> Listing<'_, H, W> {
    fn head(&mut self) -> io::Result<()> {
        if core::mem::replace(&mut self.headed, true) {
            return Ok(());
        }
        (self.write_heading)(self.style, self.out)
    }
}

impl<H, W> Audience for Listing<'_, H, W>
where
    H: Fn(Style, &mut Out) -> io::Result<()>,
    W: FnMut(Shown<'_>, &mut Out) -> io::Result<()>,
{
    const LISTS: bool = true;

    fn event(&mut self, event: Event<'_>, start: Time) -> io::Result<()> {
        self.head()?;
        (self.write)(Shown { event, start, format: self.format }, self.out)
    }

    /// Whoever watches a growing pipe sees all that was read before anybody waits for more.
    fn wait(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Who takes the events of a capture.
pub(crate) trait Audience {
    /// Whether events are written as they come.
    const LISTS: bool;

    /// The next event, of a capture that starts at `start`.
    fn event(&mut self, event: Event<'_>, start: Time) -> io::Result<()>;

    /// The next packet may be long in coming.
    fn wait(&mut self) -> io::Result<()>;
}

/// Reads the capture through the engine. The outer error is one of the output, the inner one says what is no capture.
///
/// A file that cannot be read on after its first packet counts up to there.
///
/// What `config` says of frames is overruled by `input`.
pub(crate) fn read<A: Audience>(
    input: &Input,
    config: Config,
    audience: &mut A,
) -> io::Result<Result<Ending>> {
    let mut source = match Source::open(&input.files, input.spool.as_ref()) {
        Ok(source) => source,
        Err(error) => return Ok(Err(error)),
    };
    let frame = frame::Config { port: input.port, verify_icrc: !input.no_icrc };
    let engine = Engine::new(Config { frame, ..config });
    let mut reading = Reading { engine, start: None, written: Ok(()), audience };
    let mut progress = Progress::on_terminal(source.size(), A::LISTS, input.quiet);
    let read = source.for_each(&frame, &mut progress, &mut reading);
    drop(progress);
    reading.written?;
    if let Err(error) = read {
        return Ok(Err(error));
    }
    let Reading { mut engine, start, audience, .. } = reading;
    let mut written = Ok(());
    engine.finish(&mut |event| {
        if written.is_ok() {
            written = audience.event(event, start.unwrap_or_default());
        }
    });
    written?;
    Ok(Ok(Ending { totals: *engine.totals(), files: source.endings(), port: input.port }))
}

/// Records on their way through the engine.
struct Reading<'a, A> {
    engine: Engine,
    /// When the capture starts.
    start: Option<Time>,
    /// What became of the output.
    written: io::Result<()>,
    audience: &'a mut A,
}

impl<A: Audience> Sink for Reading<'_, A> {
    #[inline]
    fn packet(&mut self, record: &Record<'_>, dissected: &Dissected<'_>) -> ControlFlow<()> {
        let Reading { engine, start, written, audience } = self;
        let start = *start.get_or_insert(record.time);
        engine.handle_dissected(record, dissected, &mut |event| {
            if written.is_ok()
                && let Err(error) = audience.event(event, start)
            {
                *written = Err(error);
            }
        });
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    fn wait(&mut self) -> ControlFlow<()> {
        self.written = self.audience.wait();
        if self.written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

/// Says how many findings are not kept, where not all are.
pub(crate) fn tell_of_left_out(findings: &Findings) {
    if let Some(warning) = findings.warning_of_left_out() {
        tell(format_args!("{warning}"));
    }
}

/// Says what went wrong, after all that was written so far. The command has failed, then.
pub(crate) fn complain(error: &anyhow::Error, out: &mut Out) -> io::Result<Status> {
    out.flush()?;
    tell(format_args!("{error:#}"));
    Ok(Status::Failed)
}

/// Says which files are cut short, and which could not be read on.
pub(crate) fn tell_of_ending(ending: &Ending, out: &mut Out) -> io::Result<Status> {
    warn_of_cuts(ending, out)?;
    complain_of_troubles(ending, out)
}

/// Says which files could not be read on.
pub(crate) fn complain_of_troubles(ending: &Ending, out: &mut Out) -> io::Result<Status> {
    let mut status = Status::Done;
    for trouble in ending.files.iter().filter_map(|file| file.trouble.as_ref()) {
        out.flush()?;
        tell(format_args!("{trouble}"));
        status = Status::Failed;
    }
    Ok(status)
}

pub(crate) fn warn_of_cuts(ending: &Ending, out: &mut Out) -> io::Result<()> {
    for file in &ending.files {
        let Some(cut) = file.cut else { continue };
        out.flush()?;
        tell(format_args!(
            "warning: {} is cut short at byte {}: {} bytes needed, {} there",
            file.title(),
            cut.offset,
            cut.needed,
            cut.available
        ));
    }
    Ok(())
}

/// One line on standard error, whatever the names of files in it. Where nobody listens there, nobody can be told.
pub(crate) fn tell(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "rdmascope: {}", Plain(line));
}
