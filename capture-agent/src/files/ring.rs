//! Rotated files, written one after the other by one program at one capture point.
//!
//! They are read one after the other, as if nothing had rotated, with one tap, so that all analysis
//! continues from file to file. [`Files`](super::Files) would give the same result if times never
//! step back, but it opens all files at once, which may exceed the limit of open files.

use super::{FileEnding, Files, extend, identity};
use crate::capture::{Capture, Error};
use crate::note::Note;
use crate::pipe::Interrupt;
use crate::source::{Progress, Sink};
use core::ops::ControlFlow;
use rdmascope_dissector::frame;
use rdmascope_dissector::record::{Record, Time};
use rdmascope_dissector::transport::Dissected;
use std::fs;
use std::path::{Path, PathBuf};

/// Rotated files in the order in which they were written. Only one is open at a time.
pub struct Ring {
    paths: Vec<PathBuf>,
    endings: Vec<FileEnding>,
}

impl Ring {
    /// Orders the files by the time of their first packets.
    ///
    /// Names do not give the order: in a full ring the first name has the latest packets. Files
    /// whose first packets have the same time keep their order. Files without packets are last.
    ///
    /// A file that was given before is an error. A file that cannot be read is reported in its
    /// [`FileEnding`].
    pub fn open(paths: &[PathBuf]) -> Result<Ring, Error> {
        identity::all_different(paths)?;
        let mut found: Vec<_> = paths.iter().map(|path| (first_time(path), path)).collect();
        // `None` sorts before all times.
        found.sort_by_key(|(time, _)| (time.is_none(), *time));
        let paths = found.into_iter().map(|(_, path)| path.clone()).collect();
        Ok(Ring { paths, endings: Vec::new() })
    }

    /// Returns the total size in bytes.
    pub fn size(&self) -> Option<u64> {
        self.paths.iter().map(|path| fs::metadata(path).ok().map(|metadata| metadata.len())).sum()
    }

    /// Calls `sink` for each dissected record of every file, in order, until the end or until
    /// `sink` stops. If no file has a record, the first error is returned.
    pub fn for_each(
        &mut self,
        config: &frame::Config,
        progress: &mut impl Progress,
        sink: &mut impl Sink,
    ) -> Result<(), Error> {
        let mut records = 0;
        for path in &self.paths {
            let mut continued = ContinuedSink { before: records, records, span: None, is_over: false, sink };
            let read =
                Files::open(core::slice::from_ref(path), None, &Interrupt::default()).and_then(|mut file| {
                    file.for_each(config, progress, &mut continued)?;
                    Ok(file.endings().remove(0))
                });
            let ending = read.unwrap_or_else(|trouble| FileEnding {
                name: path.to_string_lossy().into_owned(),
                trouble: Some(trouble),
                ..FileEnding::default()
            });
            let ContinuedSink { records: reached, span, is_over, .. } = continued;
            records = reached;
            self.endings.push(FileEnding { span, ..ending });
            if is_over {
                break;
            }
        }
        let trouble = self.endings.iter_mut().find_map(|ending| ending.trouble.take_if(|_| records == 0));
        trouble.map_or(Ok(()), Err)
    }

    /// Returns how the files ended, in the order in which they were read.
    pub fn endings(self) -> Vec<FileEnding> {
        self.endings
    }
}

/// Returns the time of the first packet of a file, if it can be read.
fn first_time(path: &Path) -> Option<Time> {
    let mut capture = Capture::open(path).ok()?;
    capture.next().ok()?.map(|record| record.time)
}

/// A sink that continues the record numbers of the files before.
struct ContinuedSink<'a, S> {
    /// Number of records in the files before.
    before: u64,
    /// Number of records so far.
    records: u64,
    /// The earliest and latest time of this file's records.
    span: Option<(Time, Time)>,
    /// The sink has stopped.
    is_over: bool,
    sink: &'a mut S,
}

impl<S: Sink> Sink for ContinuedSink<'_, S> {
    #[inline]
    fn record(&mut self, record: &Record<'_>, dissected: &Dissected<'_>) -> ControlFlow<()> {
        let record = Record { number: self.before + record.number, ..*record };
        self.records = record.number;
        extend(&mut self.span, record.time);
        let taken = self.sink.record(&record, dissected);
        self.is_over = taken.is_break();
        taken
    }

    fn note(&mut self, note: &Note) {
        self.sink.note(note);
    }

    fn idle(&mut self, until: Option<Time>) -> ControlFlow<()> {
        let taken = self.sink.idle(until);
        self.is_over = taken.is_break();
        taken
    }
}
