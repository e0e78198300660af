//! Where captures come from: all that this crate knows of the crate that reads them.

mod identity;
mod merge;
mod pipeline;
mod spool;

pub(crate) use spool::Spool;

use crate::progress::Progress;
use core::ops::ControlFlow;
use rdmascope_capture_agent::framing::Framed;
use rdmascope_capture_agent::{Advance, Capture, Error};
use rdmascope_dissector::frame;
use rdmascope_dissector::record::Record;
use rdmascope_dissector::transport::Dissected;
use rdmascope_present::ending::FileEnding;
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// Bytes of a file from which on a second thread saves more than it costs.
const WORTH_A_THREAD: u64 = 4 << 20;

/// Records of a file after which progress is told of it.
const STRIDE: u64 = 1024;

/// An opened capture, in one file or in several.
pub(crate) struct Source {
    files: Vec<File>,
}

/// One of the files.
struct File {
    name: String,
    capture: Capture,
    /// How much of it progress was told of.
    told: u64,
    trouble: Option<Error>,
}

/// Who takes what a source hands on, and may break off.
pub(crate) trait Sink {
    /// The next record, taken apart.
    fn packet(&mut self, record: &Record<'_>, dissected: &Dissected<'_>) -> ControlFlow<()>;

    /// What comes next may have to be waited for.
    fn wait(&mut self) -> ControlFlow<()>;
}

impl Source {
    /// Opens files that are one capture; standard input where a path is `-`. The first that cannot be opened, that is no
    /// capture, or that was given before, is an error.
    /// What `spool` holds stands for standard input.
    pub(crate) fn open(paths: &[PathBuf], spool: Option<&Spool>) -> anyhow::Result<Source> {
        identity::all_different(paths)?;
        let files = paths.iter().map(|path| File::open(path, spool)).collect::<anyhow::Result<_>>()?;
        Ok(Source { files })
    }

    /// Bytes in all files, where all have an end.
    pub(crate) fn size(&self) -> Option<u64> {
        self.files.iter().map(|file| file.capture.size()).sum()
    }

    /// Hands on every record, taken apart, in order, until the end or until `sink` breaks off. The records of several files
    /// come in the order of time and are numbered in that order.
    ///
    /// An error is one of a file of which nothing can be read, and then nothing was handed on. One that cannot be read on
    /// later ends there, and [`Source::endings`] says so.
    pub(crate) fn for_each(
        &mut self,
        config: &frame::Config,
        progress: &mut Progress,
        sink: &mut impl Sink,
    ) -> anyhow::Result<()> {
        match self.files.as_mut_slice() {
            [file] => file.for_each(config, progress, sink),
            files => merge::for_each(files, config, progress, sink),
        }
    }

    /// How the files ended, in the order in which they were given.
    pub(crate) fn endings(self) -> Vec<FileEnding> {
        let ending = |file: File| {
            let cut = file.capture.end().copied();
            FileEnding { name: file.name, cut, trouble: file.trouble }
        };
        self.files.into_iter().map(ending).collect()
    }
}

impl File {
    fn open(path: &Path, spool: Option<&Spool>) -> anyhow::Result<File> {
        let capture = match (is_standard_input(path), spool) {
            (true, Some(spool)) => Capture::from_reader(title(path), spool.reader()?)?,
            (true, None) => Capture::from_reader(title(path), std::io::stdin())?,
            (false, _) => Capture::open(path)?,
        };
        Ok(File { name: path.to_string_lossy().into_owned(), capture, told: 0, trouble: None })
    }

    /// Hands on the packets of a capture that is one file.
    fn for_each(
        &mut self,
        config: &frame::Config,
        progress: &mut Progress,
        sink: &mut impl Sink,
    ) -> anyhow::Result<()> {
        let worth_it = self.capture.size().is_some_and(|size| size >= WORTH_A_THREAD)
            && std::thread::available_parallelism().is_ok_and(|threads| threads.get() > 1);
        if worth_it && let Some(records) = self.capture.mapped() {
            let read = pipeline::for_each(records, config, progress, sink);
            return read.or_else(|error| self.ends_with(error));
        }
        while let ControlFlow::Continue(Some(framed)) = self.advance(progress, sink)? {
            let record = self.capture.record(&framed);
            if sink.packet(&record, &Dissected::new(&record, config)).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Finds the next record, and tells `sink` before it waits for one; breaks off where that does.
    #[inline]
    fn advance(
        &mut self,
        progress: &mut Progress,
        sink: &mut impl Sink,
    ) -> anyhow::Result<ControlFlow<(), Option<Framed>>> {
        loop {
            let read = match self.capture.advance() {
                Ok(Advance::Record(framed)) => {
                    if framed.number.is_multiple_of(STRIDE) {
                        self.tell(progress);
                    }
                    return Ok(ControlFlow::Continue(Some(framed)));
                }
                Ok(Advance::End) => return Ok(ControlFlow::Continue(None)),
                Ok(Advance::Short(needed)) => {
                    // What has a length is a regular file, for which nobody waits.
                    if self.capture.size().is_none() {
                        self.tell(progress);
                        if sink.wait().is_break() {
                            return Ok(ControlFlow::Break(()));
                        }
                    }
                    self.capture.read(needed)
                }
                Err(error) => Err(error),
            };
            if let Err(error) = read {
                self.ends_with(error)?;
            }
        }
    }

    #[cold]
    fn tell(&mut self, progress: &mut Progress) {
        let position = self.capture.position();
        progress.advanced(position - self.told);
        self.told = position;
    }

    /// Keeps the error that ends the file. One before the first record is not kept but returned: this is no capture.
    #[cold]
    fn ends_with(&mut self, error: Error) -> anyhow::Result<()> {
        if self.capture.records() == 0 {
            return Err(error.into());
        }
        self.trouble = Some(error);
        Ok(())
    }
}

fn is_standard_input(path: &Path) -> bool {
    path == Path::new("-")
}

/// What a person calls the file at `path`.
fn title(path: &Path) -> Cow<'_, str> {
    if is_standard_input(path) { Cow::Borrowed("standard input") } else { path.to_string_lossy() }
}
