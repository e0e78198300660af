//! What the kernel's tracepoints tell of RPC-over-RDMA: the text of `/sys/kernel/tracing/trace`, or of `trace-cmd report`, line by line.
//!
//! ```text
//! mount.nfs-238     [000] .....    39.875957: xprtrdma_marshal: task:00000001@00000000 xid=0x0c396a62 hdr=28 xdr=40/0/0 pullup/inline
//! ---------+---     --+--  --+-    ----+----  -------+-------   -----------------------------+-----------------------------------------
//!        task        CPU   flags     time          event                                  fields
//! ```
//!
//! A line is read by itself, and any bytes are taken: what is no line of a trace, or a known event whose fields are not as known, is an error
//! of that line. The events and their fields are those of Linux 5.12 to 6.16; an event that is not known here is [`Event::Unknown`].

mod event;
mod fields;
mod line;
#[cfg(test)]
mod tests;

pub use event::{ChunkKind, Completion, Event, Segment, Task};
pub use line::{Line, LineError, Said, read};

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Bytes that a line may have. The longest that the kernel writes is a page.
const LONGEST: u64 = 16 << 10;

/// What `trace.dat` of trace-cmd begins with.
const TRACE_DAT: &[u8] = b"\x17\x08\x44tracing";

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be opened or read.
    #[error("{name}: {error}")]
    Io {
        /// The file's name.
        name: String,
        /// What the system says.
        error: io::Error,
    },
    /// It is what trace-cmd records, not what it reports.
    #[error(
        "{name}: a binary trace.dat; `trace-cmd report -i {name} >trace.txt` writes it as text, which can be read here"
    )]
    Binary {
        /// The file's name.
        name: String,
    },
    /// No line of it is one of a trace.
    #[error(
        "{name}: no trace: {reason} (line {line}); the text of /sys/kernel/tracing/trace or of `trace-cmd report` is read"
    )]
    NoTrace {
        /// The file's name.
        name: String,
        /// The first line that is none, from 1.
        line: u64,
        /// Why it is none.
        reason: LineError,
    },
}

/// A trace that is being read.
pub struct Trace<R = BufReader<File>> {
    name: String,
    input: R,
    line: u64,
    buffer: Vec<u8>,
    lost: Lost,
    unread: Unread,
    events: u64,
}

/// What the trace says it lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Events that were overwritten in the buffer or dropped, as far as they are counted.
    pub events: u64,
    /// It says that some were lost and not how many.
    pub uncounted: bool,
}

impl Lost {
    /// Whether any was lost.
    pub fn any(&self) -> bool {
        self.events > 0 || self.uncounted
    }
}

/// Lines that could not be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    /// How many.
    pub lines: u64,
    /// The first one, from 1, and why.
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
    /// Reads from `input`; `name` is for errors.
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

    /// Hands the next event to `see`, with the number of its line, from 1. Returns whether there was one.
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
                Ok(Said::Event(line)) => {
                    self.events += 1;
                    see(self.line, &line);
                    return Ok(true);
                }
                Ok(Said::Lost(count)) => match count {
                    Some(count) => self.lost.events = self.lost.events.saturating_add(count),
                    None => self.lost.uncounted = true,
                },
                Ok(Said::Nothing) => {}
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

    /// A file of which no line could be read is no trace.
    fn end(&self) -> Result<bool, TraceError> {
        match self.unread.first {
            Some((line, reason)) if self.events == 0 => {
                Err(TraceError::NoTrace { name: self.name.clone(), line, reason })
            }
            _ => Ok(false),
        }
    }

    /// The name that it was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Lines read so far.
    pub fn lines(&self) -> u64 {
        self.line
    }

    /// What it says it lacks, so far.
    pub fn lost(&self) -> Lost {
        self.lost
    }

    /// What could not be read so far.
    pub fn unread(&self) -> Unread {
        self.unread
    }
}
