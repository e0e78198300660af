//! Where captures come from: all that this crate knows of the crate that reads them.

use anyhow::Result;
use rdmascope_capture_agent::Capture;
use rdmascope_dissector::record::Record;
use std::path::Path;

/// An opened capture.
pub(crate) struct Source {
    capture: Capture,
}

/// Where a capture that was cut short ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// The byte of the file at which the piece that is not whole begins.
    pub(crate) offset: u64,
    /// Bytes that it should have.
    pub(crate) needed: u64,
    /// Bytes that are there.
    pub(crate) available: u64,
}

impl Source {
    /// Opens a capture file, or standard input where the path is `-`.
    pub(crate) fn open(path: &Path) -> Result<Source> {
        let capture = match path.to_str() {
            Some("-") => Capture::from_reader("standard input", std::io::stdin())?,
            _ => Capture::open(path)?,
        };
        Ok(Source { capture })
    }

    /// The next packet, or `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Record<'_>>> {
        Ok(self.capture.next()?)
    }

    /// Whether the file ends in the middle of something.
    pub(crate) fn cut(&self) -> Option<Cut> {
        self.capture.end().map(|cut| Cut { offset: cut.offset, needed: cut.needed, available: cut.available })
    }
}
