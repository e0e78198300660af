//! Where captures come from: all that this crate knows of the crate that reads them.

mod pipeline;

use core::ops::ControlFlow;
use rdmascope_capture_agent::Capture;
use rdmascope_dissector::frame::{self, Frame, Other};
use rdmascope_dissector::record::Record;
use std::path::Path;

/// Bytes of a file from which on a second thread saves more than it costs.
const WORTH_A_THREAD: u64 = 4 << 20;

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
    pub(crate) fn open(path: &Path) -> anyhow::Result<Source> {
        let capture = match path.to_str() {
            Some("-") => Capture::from_reader("standard input", std::io::stdin())?,
            _ => Capture::open(path)?,
        };
        Ok(Source { capture })
    }

    /// Hands on every packet with its frame, in order, until the end or until `handle` breaks off.
    pub(crate) fn for_each(
        &mut self,
        config: &frame::Config,
        mut handle: impl FnMut(&Record<'_>, Result<Frame<'_>, Other>) -> ControlFlow<()>,
    ) -> anyhow::Result<()> {
        let worth_it = self.capture.size().is_some_and(|size| size >= WORTH_A_THREAD)
            && std::thread::available_parallelism().is_ok_and(|threads| threads.get() > 1);
        if worth_it && let Some(records) = self.capture.mapped() {
            return Ok(pipeline::for_each(records, config, handle)?);
        }
        while let Some(record) = self.capture.next()? {
            let frame = frame::dissect(&record, config);
            if handle(&record, frame).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Whether the file ends in the middle of something.
    pub(crate) fn cut(&self) -> Option<Cut> {
        self.capture.end().map(|cut| Cut { offset: cut.offset, needed: cut.needed, available: cut.available })
    }
}
