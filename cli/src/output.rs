//! Standard output, and messages on standard error.

use crate::pager::{self, Sink};
use crate::queue::Queue;
use clap::{Args, ValueEnum};
use core::fmt;
use rdmascope_analysis::ending::{CutShort, Ending};
use rdmascope_analysis::findings::Findings;
use rdmascope_analysis::units::{Counted, Number, Plain};
use std::io::{self, BufWriter, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The output format option.
#[derive(Args, Debug)]
pub(crate) struct Output {
    /// Output format: text, or JSON Lines for programs
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Text in columns
    Text,
    /// One JSON object per line; docs/json.md describes them, and docs/peer.md those of `peer`
    Jsonl,
}

/// Size of the output buffer, in bytes.
const BUFFER: usize = 128 << 10;

/// Standard output with a buffer.
pub(crate) type Out = BufWriter<Destination>;

/// Where output goes.
pub(crate) enum Destination {
    /// Standard output or a pager. Writing waits for the reader.
    Direct(Sink),
    /// Standard output through a queue. Writing does not wait.
    Queued(Queue),
}

impl Destination {
    /// Lines that were dropped because the reader was too slow.
    pub(crate) fn dropped_lines(&self) -> u64 {
        match self {
            Destination::Direct(_) => 0,
            Destination::Queued(queue) => queue.dropped(),
        }
    }
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Destination::Direct(sink) => sink.write(bytes),
            Destination::Queued(queue) => queue.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Destination::Direct(sink) => sink.flush(),
            Destination::Queued(queue) => queue.flush(),
        }
    }
}

/// The exit status of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Status {
    /// All was done.
    Done = 0,
    /// A comparison found a difference, or a check found a violation.
    Differs = 1,
    /// Wrong usage, no capture, or output that cannot be written. Clap exits with the same status.
    Failed = 2,
}

/// Why a command ended early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The output cannot be written.
    Output(io::Error),
    /// Any other error.
    Command(anyhow::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Output(error)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Failure {
        Failure::Command(error)
    }
}

/// For steps of a command that write nothing to standard output.
impl From<Failure> for anyhow::Error {
    fn from(failure: Failure) -> anyhow::Error {
        match failure {
            Failure::Output(error) => error.into(),
            Failure::Command(error) => error,
        }
    }
}

impl Failure {
    /// The error of a command whose output is a file. An error of the output is put in this context.
    pub(crate) fn about(self, output: impl Into<String>) -> anyhow::Error {
        match self {
            Failure::Output(error) => anyhow::Error::new(error).context(output.into()),
            Failure::Command(error) => error,
        }
    }
}

/// Buffered standard output. `is_paged` puts a pager before a terminal.
pub(crate) fn stdout(is_paged: bool) -> Out {
    BufWriter::with_capacity(BUFFER, Destination::Direct(Sink::new(is_paged)))
}

/// The queue of standard error, if there is one.
static MESSAGES: Mutex<Option<Queue>> = Mutex::new(None);

fn messages() -> MutexGuard<'static, Option<Queue>> {
    MESSAGES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Puts queues before standard output and standard error, so that a blocked reader does not block
/// the analysis of packets. Starts a thread for each.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))] // Interfaces are watched on Linux only.
pub(crate) fn queue(out: &mut Out) -> io::Result<()> {
    out.flush()?;
    *messages() = Some(Queue::start("messages", io::stderr(), |_| ())?);
    let queue = Queue::start("output", io::stdout(), |lines| {
        let lines = Counted(lines, "line");
        notify(format_args!("warning: the reader of standard output is too slow: {lines} dropped so far"));
    })?;
    // This releases the lock of standard output, which the thread takes.
    *out.get_mut() = Destination::Queued(queue);
    Ok(())
}

/// Writes the rest of the output. A queue waits for its reader for a few seconds at most.
pub(crate) fn close(out: &mut Out) -> io::Result<()> {
    out.flush()?;
    match out.get_mut() {
        Destination::Direct(_) => Ok(()),
        Destination::Queued(queue) => queue.close(),
    }
}

/// Writes the rest of the queue of standard error, and removes it.
pub(crate) fn close_messages() {
    let queue = messages().take();
    // Not under the lock: other threads can have lines.
    drop(queue);
}

/// Puts a line into the queue of standard error. Returns whether there is one.
fn enqueue(line: &str) -> bool {
    messages().as_mut().is_some_and(|queue| queue.write_all(line.as_bytes()).is_ok())
}

/// Reports the number of findings that were not kept, if any.
pub(crate) fn report_left_out(findings: &Findings) {
    if let Some(warning) = findings.warning_of_left_out() {
        notify(format_args!("{warning}"));
    }
}

/// Reports an error after all previous output. Returns [`Status::Failed`].
pub(crate) fn complain(error: &anyhow::Error, out: &mut Out) -> io::Result<Status> {
    out.flush()?;
    notify(format_args!("{error:#}"));
    Ok(Status::Failed)
}

/// Reports why a command ended early, unless standard output cannot be written.
pub(crate) fn report_failure(ended: Result<Status, Failure>, out: &mut Out) -> io::Result<Status> {
    match ended {
        Ok(status) => Ok(status),
        Err(Failure::Command(error)) => complain(&error, out),
        Err(Failure::Output(error)) => Err(error),
    }
}

/// Reports truncated files, read errors, and why the output is empty.
pub(crate) fn report_ending(ending: &Ending, out: &mut Out) -> io::Result<Status> {
    warn_of_cuts(ending, out)?;
    warn_of_nothing(ending, out)?;
    complain_of_troubles(ending, out)
}

/// Reports read errors, and files that share no connection.
pub(crate) fn complain_of_troubles(ending: &Ending, out: &mut Out) -> io::Result<Status> {
    if let Some(apart) = ending.apart() {
        out.flush()?;
        notify(format_args!(
            "warning: {apart}: they are read as one capture; with --each, `analyze` and `check` read each file separately"
        ));
    }
    let mut status = Status::Done;
    for trouble in ending.files.iter().filter_map(|file| file.trouble.as_ref()) {
        out.flush()?;
        notify(format_args!("{trouble}"));
        status = Status::Failed;
    }
    Ok(status)
}

/// Explains an empty output if the capture contains nothing that can be decoded.
pub(crate) fn warn_of_nothing(ending: &Ending, out: &mut Out) -> io::Result<()> {
    if let Some(why) = ending.nothing_decoded() {
        out.flush()?;
        notify(format_args!("warning: {why}"));
    }
    Ok(())
}

/// Reports packets captured without payload, for commands that show file data.
pub(crate) fn warn_of_left_out_data(ending: &Ending, out: &mut Out) -> io::Result<()> {
    let packets = ending.totals.records_without_payload;
    if packets > 0 {
        out.flush()?;
        notify(format_args!(
            "warning: {} without RDMA payload: the capture was made or shortened with --cut-bulk and lacks the data read and written",
            Counted(packets, "packet")
        ));
    }
    Ok(())
}

pub(crate) fn warn_of_cuts(ending: &Ending, out: &mut Out) -> io::Result<()> {
    for file in &ending.files {
        let Some(cut) = file.cut else { continue };
        out.flush()?;
        notify(format_args!(
            "warning: {} is {}: {} needed, {} available",
            file.title(),
            CutShort(file, cut),
            Counted(cut.needed, "byte"),
            Number(cut.available)
        ));
    }
    Ok(())
}

/// Writes one line to standard error, with control characters of file names escaped. While a pager
/// runs, the line waits for its end. Write errors are ignored.
pub(crate) fn notify(line: fmt::Arguments<'_>) {
    let line = format!("rdmascope: {}\n", Plain(line));
    if !pager::hold(&line) && !enqueue(&line) {
        let _ = io::stderr().write_all(line.as_bytes());
    }
}
