//! Rotated files: what one program wrote at one place, one file behind the other.
//!
//! They are read as what would have been written had nothing rotated: one behind the other, so that whatever follows the records goes on
//! from file to file, and with one tap. [`Files`](super::Files) would do the same where times never step back; but it opens all files at once, and of those there
//! may be more than a process can have open.

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

/// Rotated files in the order in which they were written. One at a time is open.
pub struct Ring {
    paths: Vec<PathBuf>,
    endings: Vec<FileEnding>,
}

impl Ring {
    /// Looks at the files, and puts them in the order of their first packets. Names tell no order: where a ring is full, its first name has the
    /// latest packets. Files whose first packets have one time keep their order. A file without a packet comes behind the others.
    ///
    /// A file that was given before is an error. A file that cannot be read is one of its [`FileEnding`].
    pub fn open(paths: &[PathBuf]) -> Result<Ring, Error> {
        identity::all_different(paths)?;
        let mut found: Vec<_> = paths.iter().map(|path| (first_time(path), path)).collect();
        // `None` would come before all times.
        found.sort_by_key(|(time, _)| (time.is_none(), *time));
        let paths = found.into_iter().map(|(_, path)| path.clone()).collect();
        Ok(Ring { paths, endings: Vec::new() })
    }

    /// Bytes in all files.
    pub fn size(&self) -> Option<u64> {
        self.paths.iter().map(|path| fs::metadata(path).ok().map(|metadata| metadata.len())).sum()
    }

    /// Hands on every record of every file, taken apart, in order, until the end or until `sink` breaks off. An error is the first one, where no file
    /// has a record.
    pub fn for_each(
        &mut self,
        config: &frame::Config,
        progress: &mut impl Progress,
        sink: &mut impl Sink,
    ) -> Result<(), Error> {
        let mut records = 0;
        for path in &self.paths {
            let mut behind = Behind { before: records, records, span: None, is_over: false, sink };
            let read =
                Files::open(core::slice::from_ref(path), None, &Interrupt::default()).and_then(|mut file| {
                    file.for_each(config, progress, &mut behind)?;
                    Ok(file.endings().remove(0))
                });
            let ending = read.unwrap_or_else(|trouble| FileEnding {
                name: path.to_string_lossy().into_owned(),
                trouble: Some(trouble),
                ..FileEnding::default()
            });
            let Behind { records: reached, span, is_over, .. } = behind;
            records = reached;
            self.endings.push(FileEnding { span, ..ending });
            if is_over {
                break;
            }
        }
        let trouble = self.endings.iter_mut().find_map(|ending| ending.trouble.take_if(|_| records == 0));
        trouble.map_or(Ok(()), Err)
    }

    /// How the files ended, in the order in which they were read.
    pub fn endings(self) -> Vec<FileEnding> {
        self.endings
    }
}

/// When the first packet of a file was captured, if it can be told.
fn first_time(path: &Path) -> Option<Time> {
    let mut capture = Capture::open(path).ok()?;
    capture.next().ok()?.map(|record| record.time)
}

/// The records of a file behind those of other files.
struct Behind<'a, S> {
    /// Records of the files before.
    before: u64,
    /// Records up to now.
    records: u64,
    /// The earliest and the latest time of this file's.
    span: Option<(Time, Time)>,
    /// The sink wants no more.
    is_over: bool,
    sink: &'a mut S,
}

impl<S: Sink> Sink for Behind<'_, S> {
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
