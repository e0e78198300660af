//! What commands write to, and what is said beside it on standard error.

use crate::pager::{self, Sink};
use clap::{Args, ValueEnum};
use core::fmt;
use rdmascope_present::ending::Ending;
use rdmascope_present::findings::Findings;
use rdmascope_present::text::{Counted, Plain};
use std::io::{self, BufWriter, Write};

/// How it is written.
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
    /// One JSON object per line; docs/json.md describes them
    Jsonl,
}

/// Output is gathered to this many bytes before it is handed on.
const BUFFER: usize = 128 << 10;

/// Standard output with a buffer.
pub(crate) type Out = BufWriter<Sink>;

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

/// Standard output, behind a buffer; `is_paged`: and behind a pager, if it is a terminal.
pub(crate) fn stdout(is_paged: bool) -> Out {
    BufWriter::with_capacity(BUFFER, Sink::new(is_paged))
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

/// Says which files are cut short, and which could not be read on; and where there is nothing to show, why.
pub(crate) fn tell_of_ending(ending: &Ending, out: &mut Out) -> io::Result<Status> {
    warn_of_cuts(ending, out)?;
    warn_of_nothing(ending, out)?;
    complain_of_troubles(ending, out)
}

/// Says which files could not be read on, and why several may be no one capture.
pub(crate) fn complain_of_troubles(ending: &Ending, out: &mut Out) -> io::Result<Status> {
    if let Some(apart) = ending.apart() {
        out.flush()?;
        tell(format_args!(
            "warning: {apart}: they are read as one capture; `analyze` and `check` take each by itself with --each"
        ));
    }
    let mut status = Status::Done;
    for trouble in ending.files.iter().filter_map(|file| file.trouble.as_ref()) {
        out.flush()?;
        tell(format_args!("{trouble}"));
        status = Status::Failed;
    }
    Ok(status)
}

/// Says why nothing is shown, where the capture holds nothing that is decoded.
pub(crate) fn warn_of_nothing(ending: &Ending, out: &mut Out) -> io::Result<()> {
    if let Some(why) = ending.nothing_decoded() {
        out.flush()?;
        tell(format_args!("warning: {why}"));
    }
    Ok(())
}

/// Says that the data of files was left out of the capture, for what shows such data.
pub(crate) fn warn_of_left_out_data(ending: &Ending, out: &mut Out) -> io::Result<()> {
    let packets = ending.totals.records_without_payload;
    if packets > 0 {
        out.flush()?;
        tell(format_args!(
            "warning: {} without the data that RDMA moved: the capture was made or shortened with --cut-bulk, and lacks what was read and written",
            Counted(packets, "packet")
        ));
    }
    Ok(())
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

/// One line on standard error, whatever the names of files in it; once the pager has ended, where there is one. Where nobody listens there, nobody can be told.
pub(crate) fn tell(line: fmt::Arguments<'_>) {
    let line = format!("rdmascope: {}\n", Plain(line));
    if !pager::hold(&line) {
        let _ = io::stderr().write_all(line.as_bytes());
    }
}
