//! What each subcommand does: records from the source to the engine, events from the engine to the output.

use crate::args::{Analyze, Command, Connections, Format, Input, Output, Packets, Transactions};
use crate::json::{self, ConnectionLine, PacketLine, TransactionLine};
use crate::report::{Ending, Report};
use crate::source::Source;
use crate::table::Style;
use crate::tables;
use anyhow::Result;
use core::fmt;
use core::ops::ControlFlow;
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::frame;
use rdmascope_dissector::record::Time;
use std::borrow::Cow;
use std::io::{self, BufWriter, StdoutLock, Write};
use std::path::Path;

/// Output is gathered to this many bytes before it is handed on.
const BUFFER: usize = 128 << 10;

/// Standard output with a buffer.
type Out = BufWriter<StdoutLock<'static>>;

/// Runs a subcommand; every file that could not be read is told of on standard error, and makes this false.
pub(crate) fn run(command: &Command) -> io::Result<bool> {
    let mut out = BufWriter::with_capacity(BUFFER, io::stdout().lock());
    let style = Style::of_stdout();
    let success = match command {
        Command::Analyze(command) => analyze(command, style, &mut out)?,
        Command::Connections(command) => connections(command, style, &mut out)?,
        Command::Transactions(command) => transactions(command, style, &mut out)?,
        Command::Packets(command) => packets(command, style, &mut out)?,
    };
    out.flush()?;
    Ok(success)
}

fn analyze(command: &Analyze, style: Style, out: &mut Out) -> io::Result<bool> {
    let text = command.output.format == Format::Text;
    let mut success = true;
    let mut first = true;
    for path in &command.input.files {
        let name = path.to_string_lossy();
        let mut report = Report::default();
        let read = read(&command.input, path, false, |event, _| {
            report.handle(&event);
            Ok(())
        })?;
        let ending = match read {
            Ok(ending) => ending,
            Err(error) => {
                success = false;
                complain(&error, out)?;
                continue;
            }
        };
        report.finish();
        if text {
            if !core::mem::take(&mut first) {
                writeln!(out)?;
            }
            report.write_text(&title(path), &ending, style, out)?;
        } else {
            report.write_jsonl(&name, &ending, out)?;
            warn_of_cut(path, &ending, out)?;
        }
        if let Some(trouble) = &ending.trouble {
            success = false;
            complain(trouble, out)?;
        }
    }
    Ok(success)
}

fn connections(command: &Connections, style: Style, out: &mut Out) -> io::Result<bool> {
    list(
        &command.input,
        &command.output,
        style,
        out,
        false,
        tables::connections::write_heading,
        |shown, out| {
            let Event::Connection(connection) = shown.event else { return Ok(()) };
            if !command.filter.matches(connection, shown.start) {
                return Ok(());
            }
            match shown.format {
                Format::Text => tables::connections::write_row(connection, style, out),
                Format::Jsonl => json::write_line(out, &ConnectionLine::new(connection, shown.file)),
            }
        },
    )
}

fn transactions(command: &Transactions, style: Style, out: &mut Out) -> io::Result<bool> {
    list(
        &command.input,
        &command.output,
        style,
        out,
        false,
        tables::transactions::write_heading,
        |shown, out| {
            let Event::Transaction(transaction) = shown.event else { return Ok(()) };
            if !command.filter.matches(transaction, shown.start) {
                return Ok(());
            }
            match shown.format {
                Format::Text => tables::transactions::write_row(transaction, shown.start, style, out),
                Format::Jsonl => json::write_line(out, &TransactionLine::new(transaction, shown.file)),
            }
        },
    )
}

fn packets(command: &Packets, style: Style, out: &mut Out) -> io::Result<bool> {
    list(&command.input, &command.output, style, out, true, tables::packets::write_heading, |shown, out| {
        let Event::Packet(packet) = shown.event else { return Ok(()) };
        if !command.filter.matches(packet, shown.start) {
            return Ok(());
        }
        match shown.format {
            Format::Text => tables::packets::write_row(packet, shown.start, style, out),
            Format::Jsonl => json::write_line(out, &PacketLine::new(packet, shown.file)),
        }
    })
}

/// An event on its way to the output.
struct Shown<'a> {
    event: Event<'a>,
    /// When the capture starts.
    start: Time,
    format: Format,
    /// The capture's name, where there are several.
    file: Option<&'a str>,
}

/// Reads all files and hands on their events.
fn list(
    input: &Input,
    output: &Output,
    style: Style,
    out: &mut Out,
    report_packets: bool,
    write_heading: impl Fn(Style, &mut Out) -> io::Result<()>,
    mut write: impl FnMut(Shown<'_>, &mut Out) -> io::Result<()>,
) -> io::Result<bool> {
    let mut success = true;
    for (index, path) in input.files.iter().enumerate() {
        let name = path.to_string_lossy();
        let file = (input.files.len() > 1).then_some(&*name);
        let mut headed = output.format != Format::Text;
        let mut head = |out: &mut Out| -> io::Result<()> {
            if core::mem::replace(&mut headed, true) {
                return Ok(());
            }
            if file.is_some() {
                let gap = if index > 0 { "\n" } else { "" };
                writeln!(out, "{gap}{}", style.bold(title(path)))?;
            }
            write_heading(style, out)
        };
        let read = read(input, path, report_packets, |event, start| {
            head(out)?;
            write(Shown { event, start, format: output.format, file }, out)
        })?;
        match read {
            Ok(ending) => {
                head(out)?;
                warn_of_cut(path, &ending, out)?;
                if let Some(trouble) = &ending.trouble {
                    success = false;
                    complain(trouble, out)?;
                }
            }
            Err(error) => {
                success = false;
                complain(&error, out)?;
            }
        }
    }
    Ok(success)
}

/// Reads one capture through the engine. The outer error is one of the output, the inner one says that `path` is no capture.
///
/// A capture that cannot be read on after its first packet counts up to there.
fn read(
    input: &Input,
    path: &Path,
    report_packets: bool,
    mut handle: impl FnMut(Event<'_>, Time) -> io::Result<()>,
) -> io::Result<Result<Ending>> {
    let mut source = match Source::open(path) {
        Ok(source) => source,
        Err(error) => return Ok(Err(error)),
    };
    let frame = frame::Config { port: input.port, verify_icrc: !input.no_icrc };
    let mut engine = Engine::new(Config { frame, report_packets });
    let mut start = None;
    let mut written = Ok(());
    let read = source.for_each(&frame, |record, frame| {
        let start = *start.get_or_insert(record.time);
        engine.handle_frame(record, frame, &mut |event| {
            if written.is_ok() {
                written = handle(event, start);
            }
        });
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    written?;
    let mut written = Ok(());
    let trouble = read.err();
    if start.is_none()
        && let Some(error) = trouble
    {
        return Ok(Err(error));
    }
    engine.finish(&mut |event| {
        if written.is_ok() {
            written = handle(event, start.unwrap_or_default());
        }
    });
    written?;
    Ok(Ok(Ending { totals: *engine.totals(), cut: source.cut(), trouble, port: input.port }))
}

/// What a person calls the capture at `path`.
fn title(path: &Path) -> Cow<'_, str> {
    if path == Path::new("-") { Cow::Borrowed("standard input") } else { path.to_string_lossy() }
}

/// Says what went wrong, after all that was written so far.
fn complain(error: &anyhow::Error, out: &mut Out) -> io::Result<()> {
    out.flush()?;
    tell(format_args!("{error:#}"));
    Ok(())
}

fn warn_of_cut(path: &Path, ending: &Ending, out: &mut Out) -> io::Result<()> {
    let Some(cut) = ending.cut else { return Ok(()) };
    out.flush()?;
    tell(format_args!(
        "warning: {} is cut short at byte {}: {} bytes needed, {} there",
        title(path),
        cut.offset,
        cut.needed,
        cut.available
    ));
    Ok(())
}

/// One line on standard error. Where nobody listens there, nobody can be told.
pub(crate) fn tell(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "rdmascope: {line}");
}
