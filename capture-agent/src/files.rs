//! Reads a capture from one or several files or from standard input.

mod identity;
mod merge;
mod pipeline;
mod ring;
mod spool;

pub(crate) use merge::Merge;
pub use ring::Ring;
pub use spool::Spool;

use crate::block::Blocks;
use crate::capture::{Advance, Capture, Cut, Error};
use crate::clock::Clock;
use crate::framing::{Framed, Interface};
use crate::note::Note;
use crate::pipe::Interrupt;
use crate::source::{self, Next, Progress, Sink, Source};
use rdmascope_dissector::frame;
use rdmascope_dissector::record::{Record, Tap, Time};
use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

/// Minimum size in bytes of a file for which a second thread is worth its cost.
const MIN_THREADED_SIZE: u64 = 4 << 20;

/// An open capture in one or several files. Records of several files are ordered by time and
/// numbered in that order.
pub struct Files {
    files: Vec<File>,
    merge: Merge,
}

/// One of the files.
struct File {
    name: String,
    capture: Capture,
    /// Converts its times to the clock of the capture. `None`: they are used unchanged.
    clock: Option<Clock>,
    /// The earliest and latest time of its records so far, if it is one of several files.
    span: Option<(Time, Time)>,
    /// Number of bytes needed for the next record, after [`Next::Idle`] was returned.
    awaited: Option<usize>,
    trouble: Option<Error>,
}

/// The next item of a file.
enum Found {
    Record(Framed),
    Note(Note),
    Idle,
    End,
}

/// The end of one file of a capture.
#[derive(Debug, Default)]
pub struct FileEnding {
    /// Name of the file as given.
    pub name: String,
    /// Whether the file is compressed. Offsets are then those after decompression.
    pub is_compressed: bool,
    /// Where the file was cut short, if it was.
    pub cut: Option<Cut>,
    /// The error that ended reading, if any.
    pub trouble: Option<Error>,
    /// The interfaces in the file; empty for formats other than pcapng.
    pub interfaces: Vec<Interface>,
    /// The earliest and latest time of its packets, if it is one of several files.
    pub span: Option<(Time, Time)>,
}

impl FileEnding {
    /// Returns the number of packets dropped during the capture, according to the file.
    pub fn dropped(&self) -> u64 {
        self.interfaces.iter().fold(0, |sum, interface| sum.saturating_add(interface.dropped()))
    }

    /// Returns true if the file was read to its end without errors and does not end within a
    /// record.
    pub fn is_complete(&self) -> bool {
        self.trouble.is_none() && self.cut.is_none()
    }

    /// Returns the name to display.
    pub fn title(&self) -> Cow<'_, str> {
        title(Path::new(&self.name))
    }
}

impl Files {
    /// Opens files as one capture. The path `-` is standard input, or `spool` if given. `interrupt`
    /// ends pipes.
    ///
    /// Fails at the first file that cannot be opened, is no capture, or was given before.
    pub fn open(paths: &[PathBuf], spool: Option<&Spool>, interrupt: &Interrupt) -> Result<Files, Error> {
        let files = open_all(paths, spool, interrupt)?;
        Ok(Files {
            merge: Merge::new(files.len()),
            files: files.into_iter().map(|(name, capture)| File::new(name, capture)).collect(),
        })
    }

    /// Takes captures that are open and not yet read.
    pub fn of(captures: Vec<Capture>) -> Files {
        let file = |capture: Capture| File::new(capture.name().to_owned(), capture);
        Files { merge: Merge::new(captures.len()), files: captures.into_iter().map(file).collect() }
    }

    /// Converts the times of a file with `clock` from here on. Files are numbered from 0, as given.
    pub fn set_clock(&mut self, file: usize, clock: Clock) {
        self.files[file].clock = Some(clock);
    }

    /// Calls `sink` for each dissected record, in order, until the end or until `sink` stops. Uses
    /// a second thread if that saves time. Errors are those of [`Source::next`].
    pub fn for_each(
        &mut self,
        config: &frame::Config,
        progress: &mut impl Progress,
        sink: &mut impl Sink,
    ) -> Result<(), Error> {
        if let [file] = self.files.as_mut_slice()
            && file.benefits_from_thread()
        {
            let read = pipeline::for_each(Blocks::of(&mut file.capture), config, progress, sink);
            return read.or_else(|error| file.ends_with(error));
        }
        source::for_each(self, config, progress, sink)
    }

    /// Returns how the files ended, in the order given.
    pub fn endings(self) -> Vec<FileEnding> {
        let ending = |file: File| FileEnding {
            is_compressed: file.capture.is_compressed(),
            cut: file.capture.end().copied(),
            interfaces: file.capture.interfaces().to_vec(),
            name: file.name,
            trouble: file.trouble,
            span: file.span,
        };
        self.files.into_iter().map(ending).collect()
    }
}

impl Source for Files {
    #[inline(always)] // As for Capture::advance.
    fn next(&mut self) -> Result<Next<'_>, Error> {
        match self.files.as_mut_slice() {
            [file] => Ok(match file.advance()? {
                Found::Record(framed) => Next::Record(file.capture.record(&framed)),
                Found::Note(note) => Next::Note(note),
                Found::Idle => Next::Idle(None),
                Found::End => Next::End,
            }),
            files => next_of_several(files, &mut self.merge),
        }
    }

    fn position(&self) -> u64 {
        self.files.iter().map(|file| file.capture.position()).sum()
    }

    /// The drop counts in pcapng files.
    fn dropped(&self) -> u64 {
        let interfaces = self.files.iter().flat_map(|file| file.capture.interfaces());
        interfaces.fold(0, |sum, interface| sum.saturating_add(interface.dropped()))
    }

    /// Total size in bytes, if all files have one.
    fn size(&self) -> Option<u64> {
        self.files.iter().map(|file| file.capture.size()).sum()
    }
}

/// Returns the next item in order of time.
#[inline(never)]
fn next_of_several<'a>(files: &'a mut [File], merge: &mut Merge) -> Result<Next<'a>, Error> {
    while let Some(index) = merge.lacking() {
        match files[index].advance()? {
            Found::Record(framed) => {
                let time =
                    files[index].clock.as_ref().map_or(framed.time, |clock| clock.convert(framed.time));
                merge.found(index, Framed { time, ..framed });
            }
            Found::Note(note) => return Ok(Next::Note(note)),
            Found::Idle => return Ok(Next::Idle(None)),
            Found::End => merge.ended(index),
        }
    }
    Ok(match merge.first() {
        Some((number, index, framed)) => {
            let file = &mut files[index];
            extend(&mut file.span, framed.time);
            let record = file.capture.record(framed);
            Next::Record(Record { number, tap: Tap { file: index as u32, ..record.tap }, ..record })
        }
        None => Next::End,
    })
}

/// Extends a time span to include `time`.
pub(crate) fn extend(span: &mut Option<(Time, Time)>, time: Time) {
    let (first, last) = span.unwrap_or((time, time));
    *span = Some((first.min(time), last.max(time)));
}

impl File {
    fn new(name: String, capture: Capture) -> File {
        File { name, capture, clock: None, span: None, awaited: None, trouble: None }
    }

    fn benefits_from_thread(&self) -> bool {
        self.capture.size().is_some_and(|size| size >= MIN_THREADED_SIZE)
            // Decompression already runs on a thread.
            && !self.capture.is_compressed()
            && std::thread::available_parallelism().is_ok_and(|threads| threads.get() > 1)
    }

    /// Finds the next record. Returns [`Found::Idle`] before it waits.
    #[inline(always)] // As for Capture::advance.
    fn advance(&mut self) -> Result<Found, Error> {
        loop {
            let read = match self.awaited.take() {
                Some(needed) => self.capture.read(needed),
                None => match self.capture.advance() {
                    Ok(Advance::Record(framed)) => return Ok(Found::Record(framed)),
                    Ok(Advance::End) => return Ok(Found::End),
                    // Always present after Advance::Note.
                    Ok(Advance::Note) => match self.capture.take_note() {
                        Some(note) => return Ok(Found::Note(note)),
                        None => continue,
                    },
                    // A capture with a size is a regular file, which never blocks.
                    Ok(Advance::Short(needed)) if self.capture.size().is_some() => self.capture.read(needed),
                    Ok(Advance::Short(needed)) => {
                        self.awaited = Some(needed);
                        return Ok(Found::Idle);
                    }
                    Err(error) => Err(error),
                },
            };
            if let Err(error) = read {
                self.ends_with(error)?;
            }
        }
    }

    /// Stores the error that ends the file. An error before the first record is returned instead:
    /// the file is no capture.
    #[cold]
    fn ends_with(&mut self, error: Error) -> Result<(), Error> {
        if self.capture.records() == 0 {
            return Err(error);
        }
        self.trouble = Some(error);
        Ok(())
    }
}

/// Opens files for [`Files::open`] and pairs each with its name as given.
pub(crate) fn open_all(
    paths: &[PathBuf],
    spool: Option<&Spool>,
    interrupt: &Interrupt,
) -> Result<Vec<(String, Capture)>, Error> {
    identity::all_different(paths)?;
    let open = |path: &PathBuf| {
        let capture = if is_standard_input(path) {
            let name = title(path).into_owned();
            match spool.map_or_else(standard_input, Spool::file) {
                Ok(file) => Capture::from_file(name, file, interrupt)?,
                Err(error) => return Err(Error::Open { name, error }),
            }
        } else {
            Capture::open_pipe(path, interrupt)?
        };
        Ok((path.to_string_lossy().into_owned(), capture))
    };
    paths.iter().map(open).collect()
}

/// Returns standard input as a file, so that a regular file is read as one.
#[cfg(unix)]
fn standard_input() -> io::Result<std::fs::File> {
    use std::os::fd::AsFd as _;
    Ok(io::stdin().as_fd().try_clone_to_owned()?.into())
}

/// Returns standard input as a file.
#[cfg(windows)]
fn standard_input() -> io::Result<std::fs::File> {
    use std::os::windows::io::AsHandle as _;
    Ok(io::stdin().as_handle().try_clone_to_owned()?.into())
}

fn is_standard_input(path: &Path) -> bool {
    path == Path::new("-")
}

/// Returns the name of `path` to display.
fn title(path: &Path) -> Cow<'_, str> {
    if is_standard_input(path) { Cow::Borrowed("standard input") } else { path.to_string_lossy() }
}

#[cfg(test)]
mod tests;
