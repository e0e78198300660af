//! Reads kernel trace events of RPC-over-RDMA: the text of `/sys/kernel/tracing/trace` or of
//! `trace-cmd report`.
//!
//! ```text
//! mount.nfs-238  [000] .....  39.875957: xprtrdma_marshal: task:00000001@00000000 xid=0x0c396a62 …
//! ------+------  --+-- --+--  ----+----  -------+-------   ------------------+------------------
//!     task        CPU  flags    time          event                        fields
//! ```
//!
//! Each line is parsed independently, and any bytes are accepted. A line that is not part of a
//! trace, or a known event with unexpected fields, is an error of that line only. The events and
//! fields are those of Linux 5.12 to 6.16; other events become [`Event::Unknown`].

mod event;
mod fields;
mod line;
#[cfg(test)]
mod tests;

pub use event::{ChunkKind, Completion, Event, Segment, Task};
pub use line::{Line, LineContent, LineError, read};

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Maximum length of a line in bytes. The kernel writes at most a page.
const LONGEST: u64 = 16 << 10;

/// The first bytes of a `trace.dat` file of trace-cmd.
const TRACE_DAT: &[u8] = b"\x17\x08\x44tracing";

/// The reason why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be opened or read.
    #[error("{name}: {error}")]
    Io {
        /// Name of the file.
        name: String,
        /// The system's error.
        error: io::Error,
    },
    /// The file is a binary recording of trace-cmd.
    #[error("{name}: a binary trace.dat; convert it to text with `trace-cmd report -i {name} >trace.txt`")]
    Binary {
        /// Name of the file.
        name: String,
    },
    /// The file contains no line of a trace.
    #[error(
        "{name}: not a trace: {reason} (line {line}); expected the text of /sys/kernel/tracing/trace or of `trace-cmd report`"
    )]
    NoTrace {
        /// Name of the file.
        name: String,
        /// The first invalid line, counted from 1.
        line: u64,
        /// The reason why it is invalid.
        reason: LineError,
    },
}

/// An open trace.
pub struct Trace<R = BufReader<File>> {
    name: String,
    input: R,
    line: u64,
    buffer: Vec<u8>,
    lost: Lost,
    unread: Unread,
    events: u64,
}

/// Events that are missing from the trace, according to the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Number of events that were overwritten or dropped, as far as counted.
    pub events: u64,
    /// The trace reports lost events without a number.
    pub uncounted: bool,
}

impl Lost {
    /// Returns true if any event was lost.
    pub fn any(&self) -> bool {
        self.events > 0 || self.uncounted
    }
}

/// Lines that could not be parsed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    /// Number of lines.
    pub lines: u64,
    /// The first of them, counted from 1, and the reason.
    pub first: Option<(u64, LineError)>,
}

impl Trace {
    /// Opens the trace at `path`.
    pub fn open(path: &Path) -> Result<Trace, TraceError> {
        let name = path.to_string_lossy().into_owned();
        let input = File::open(path).map_err(|error| TraceError::Io { name: name.clone(), error })?;
        Trace::new(name, BufReader::with_capacity(128 << 10, input))
    }
}

impl<R: BufRead> Trace<R> {
    /// Reads a trace from `input`. `name` is used in messages.
    pub fn new(name: String, mut input: R) -> Result<Trace<R>, TraceError> {
        let start = input.fill_buf().map_err(|error| TraceError::Io { name: name.clone(), error })?;
        if start.starts_with(TRACE_DAT) {
            return Err(TraceError::Binary { name });
        }
        Ok(Trace {
            name,
            input,
            line: 0,
            buffer: Vec::new(),
            lost: Lost::default(),
            unread: Unread::default(),
            events: 0,
        })
    }

    /// Calls `see` with the next event and its line number, counted from 1. Returns false at the
    /// end.
    pub fn next(&mut self, see: &mut impl FnMut(u64, &Line<'_>)) -> Result<bool, TraceError> {
        loop {
            self.buffer.clear();
            let io = |error| TraceError::Io { name: self.name.clone(), error };
            let read = (&mut self.input).take(LONGEST).read_until(b'\n', &mut self.buffer).map_err(io)?;
            if read == 0 {
                return self.end();
            }
            self.line += 1;
            if self.buffer.last() != Some(&b'\n') && read as u64 == LONGEST {
                self.skip_rest_of_line()?;
            }
            match line::read(&self.buffer) {
                Ok(LineContent::Event(line)) => {
                    self.events += 1;
                    see(self.line, &line);
                    return Ok(true);
                }
                Ok(LineContent::Lost(count)) => match count {
                    Some(count) => self.lost.events = self.lost.events.saturating_add(count),
                    None => self.lost.uncounted = true,
                },
                Ok(LineContent::Nothing) => {}
                Err(error) => {
                    self.unread.lines += 1;
                    self.unread.first.get_or_insert((self.line, error));
                }
            }
        }
    }

    fn skip_rest_of_line(&mut self) -> Result<(), TraceError> {
        loop {
            let io = |error| TraceError::Io { name: self.name.clone(), error };
            let available = self.input.fill_buf().map_err(io)?;
            if available.is_empty() {
                return Ok(());
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let length = end.map_or(available.len(), |end| end + 1);
            self.input.consume(length);
            if end.is_some() {
                return Ok(());
            }
        }
    }

    /// Handles the end. Fails if no line was an event and some could not be parsed.
    fn end(&self) -> Result<bool, TraceError> {
        match self.unread.first {
            Some((line, reason)) if self.events == 0 => {
                Err(TraceError::NoTrace { name: self.name.clone(), line, reason })
            }
            _ => Ok(false),
        }
    }

    /// Returns the name used in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of lines read so far.
    pub fn lines(&self) -> u64 {
        self.line
    }

    /// Returns the lost events reported so far.
    pub fn lost(&self) -> Lost {
        self.lost
    }

    /// Returns the lines that could not be parsed so far.
    pub fn unread(&self) -> Unread {
        self.unread
    }
}
