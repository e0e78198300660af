//! A capture, wherever it comes from.

use crate::decompress::{Compression, Decoded};
use crate::framing::{self, Damage, Fault, Framed, Framer, Interface, Step, erf};
use crate::mapped::Mapped;
use crate::stream::{Over, Stream};
use crate::unsafe_io;
use memmap2::Mmap;
use rdmascope_dissector::record::Record;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A capture, open for reading from its first record to its last.
pub struct Capture {
    name: String,
    framer: Framer,
    source: Source,
    /// The compressed bytes that were read so far.
    compressed: Option<Arc<AtomicU64>>,
    size: Option<u64>,
    over: bool,
    cut: Option<Cut>,
}

enum Source {
    Map { map: Mmap, at: usize },
    Stream(Stream),
}

/// What [`Capture::advance`] comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advance {
    /// A record, for [`Capture::record`].
    Record(Framed),
    /// Bytes that are needed to go on and were not read yet, for [`Capture::read`].
    Short(usize),
    /// There is no further record.
    End,
}

/// How a capture was cut short: by a full disk, or because it was copied while it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cut short: at byte {offset} {needed} bytes needed, {available} there")]
pub struct Cut {
    /// Where the record begins that is not whole, in bytes from the beginning of the (decompressed) capture.
    pub offset: u64,
    /// Bytes that are needed from there on, as far as can be told.
    pub needed: u64,
    /// Bytes that are there.
    pub available: u64,
}

/// Why a capture cannot be read, or not further.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum Error {
    /// The file cannot be opened.
    #[error("{name}: cannot be opened: {error}")]
    Open { name: String, error: io::Error },
    /// It was opened already as another part of the same capture.
    #[error("{name}: given twice; all files together are one capture")]
    GivenTwice { name: String },
    /// There is nothing in it.
    #[error("{name}: empty; a capture has a file header even where it has no packets")]
    Empty { name: String },
    /// It cannot be read. `offset`: in the (decompressed) capture.
    #[error("{name}: byte {offset}: cannot be read further: {error}")]
    Read { name: String, offset: u64, error: io::Error },
    /// Where it has to be read at any place and is not a file that can be, it is kept in a temporary file.
    #[error("{name}: cannot be kept in a temporary file: {error}; TMPDIR names the folder for it")]
    Spool { name: String, error: io::Error },
    /// Its compressed data are damaged. `offset`: in the decompressed capture.
    #[error("{name}: byte {offset} after decompression: cannot be decompressed further: {error}")]
    Decompress { name: String, offset: u64, error: io::Error },
    /// It holds something else than it should; also where it never was a capture.
    #[error("{name}: {damage}")]
    Damaged { name: String, damage: Damage },
}

impl Capture {
    /// Opens a file, a FIFO or a device. Finished files are memory-mapped; one that is truncated while it is read ends
    /// the process.
    ///
    /// An error is returned if this is no capture. For a FIFO this waits for the first four bytes; for the first two records, where it
    /// has no magic number because it is ERF.
    pub fn open(path: &Path) -> Result<Capture, Error> {
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) => Capture::from_file(name, file),
            Err(error) => Err(Error::Open { name, error }),
        }
    }

    /// Reads a file that is open, from its beginning. `name` is what messages call it.
    pub(crate) fn from_file(name: String, file: File) -> Result<Capture, Error> {
        let cannot_open = |error| Error::Open { name: name.clone(), error };
        let metadata = file.metadata().map_err(cannot_open)?;
        if metadata.is_dir() {
            return Err(cannot_open(io::ErrorKind::IsADirectory.into()));
        }
        // Files in /proc have no length and can only be read.
        let map = if metadata.is_file() && metadata.len() > 0 { unsafe_io::map(&file).ok() } else { None };
        let size = (metadata.is_file() && metadata.len() > 0).then_some(metadata.len());
        let compressed = |map: &Mmap| map.first_chunk().and_then(Compression::of).is_some();
        let source = match map {
            Some(map) if !compressed(&map) => {
                // Only advice: the kernel reads ahead without it, if not as far.
                #[cfg(unix)]
                let _ = map.advise(memmap2::Advice::Sequential);
                Source::Map { map, at: 0 }
            }
            _ => Source::Stream(Stream::new(Box::new(file))),
        };
        Capture::new(name, source, size)
    }

    /// Reads from anything, for instance standard input. `name` is what messages call it.
    pub fn from_reader(
        name: impl Into<String>,
        reader: impl Read + Send + 'static,
    ) -> Result<Capture, Error> {
        Capture::new(name.into(), Source::Stream(Stream::new(Box::new(reader))), None)
    }

    fn new(name: String, source: Source, size: Option<u64>) -> Result<Capture, Error> {
        let mut capture =
            Capture { name, framer: Framer::new(), source, compressed: None, size, over: false, cut: None };
        let mut magic = capture.first_bytes()?;
        if let Some(compression) = magic.as_ref().and_then(Compression::of) {
            capture.decompress(compression)?;
            magic = capture.first_bytes()?;
        }
        match magic.as_ref().map(framing::recognised) {
            // The only format without a magic number.
            Some(Err(Fault::Magic { .. })) if capture.begins_with_erf()? => Ok(capture),
            Some(Err(fault)) => {
                let damage = Damage { offset: 0, fault };
                Err(Error::Damaged { name: capture.name_of_content(), damage })
            }
            _ => Ok(capture),
        }
    }

    fn begins_with_erf(&mut self) -> Result<bool, Error> {
        let mut are_all = false;
        loop {
            match erf::begins(self.source.bytes(), are_all) {
                Ok(begins) => return Ok(begins),
                Err(needed) => are_all = self.fill(needed)?.is_err(),
            }
        }
    }

    /// The first four bytes; `None` where they are fewer because compressed data end before.
    fn first_bytes(&mut self) -> Result<Option<[u8; 4]>, Error> {
        let over = self.fill(4)?.err();
        let bytes = self.source.bytes();
        match (over, bytes.first_chunk()) {
            (_, Some(magic)) => Ok(Some(*magic)),
            (Some(Over::Cut), None) => Ok(None),
            (_, None) if bytes.is_empty() => Err(Error::Empty { name: self.name.clone() }),
            (_, None) => {
                let mut found = [0; 4];
                let there = bytes.len();
                found[..there].copy_from_slice(bytes);
                let damage = Damage { offset: 0, fault: Fault::Magic { found, there } };
                Err(Error::Damaged { name: self.name_of_content(), damage })
            }
        }
    }

    fn decompress(&mut self, compression: Compression) -> Result<(), Error> {
        let empty = Source::Stream(Stream::new(Box::new(io::empty())));
        let reader: Box<dyn Read + Send> = match std::mem::replace(&mut self.source, empty) {
            Source::Map { map, at } => {
                let mut whole = io::Cursor::new(map);
                whole.set_position(at as u64);
                Box::new(whole)
            }
            Source::Stream(stream) => stream.into_reader(),
        };
        let decoded = Decoded::new(compression, reader)
            .map_err(|error| Error::Open { name: self.name.clone(), error })?;
        self.compressed = Some(decoded.compressed_bytes_read());
        self.source = Source::Stream(Stream::new(Box::new(decoded)));
        Ok(())
    }

    /// The next record; `None` after the last one. [`Capture::end`] says whether the capture was cut short there. Records in front of damage
    /// are returned before the error, and none after it.
    #[inline]
    #[allow(clippy::should_implement_trait)] // The record borrows from the capture.
    pub fn next(&mut self) -> Result<Option<Record<'_>>, Error> {
        let framed = loop {
            match self.advance()? {
                Advance::Record(framed) => break framed,
                Advance::Short(needed) => self.read(needed)?,
                Advance::End => return Ok(None),
            }
        };
        Ok(Some(self.record(&framed)))
    }

    /// Finds the next record in what was read so far, and reads nothing. This is a step of [`Capture::next`], for a caller that does
    /// something before it waits, or that looks at the next records of several captures.
    #[inline(always)] // Else what it returns goes through memory, once a packet.
    pub fn advance(&mut self) -> Result<Advance, Error> {
        while !self.over {
            match self.framer.next(self.source.bytes()) {
                Step::Record(framed) => {
                    self.source.consume(framed.consumed);
                    return Ok(Advance::Record(framed));
                }
                Step::Skip(length) => self.source.consume(length),
                Step::Need(needed) => return Ok(Advance::Short(needed)),
                Step::Damaged(damage) => {
                    self.over = true;
                    return Err(Error::Damaged { name: self.name_of_content(), damage });
                }
            }
        }
        Ok(Advance::End)
    }

    /// The record that [`Capture::advance`] found last. After any other call that needs `&mut self` it is gone.
    #[inline]
    pub fn record(&self, framed: &Framed) -> Record<'_> {
        framed.record(self.source.consumed(framed.consumed))
    }

    /// Reads, and waits, until there are the bytes that [`Capture::advance`] asked for, or the capture is over.
    #[cold]
    pub fn read(&mut self, needed: usize) -> Result<(), Error> {
        let Err(over) = self.fill(needed)? else {
            return Ok(());
        };
        self.over = true;
        let available = self.source.bytes().len() as u64;
        if available > 0 || over == Over::Cut {
            self.cut = Some(Cut { offset: self.framer.offset(), needed: needed as u64, available });
        }
        Ok(())
    }

    /// What is left of the capture, where it is memory-mapped: records that can be held on to.
    pub fn mapped(&mut self) -> Option<Mapped<'_>> {
        let Capture { name, framer, source, over, cut, .. } = self;
        match source {
            Source::Map { map, at } => Some(Mapped { name, framer, bytes: map, at, over, cut }),
            Source::Stream(_) => None,
        }
    }

    /// All of it, from its beginning: the mapping of the file, or what is left to read in a temporary file.
    pub(crate) fn into_stored(self) -> Result<Stored, Error> {
        let name = self.name_of_content();
        match self.source {
            Source::Map { map, .. } => {
                // It was advised to be read from one end to the other.
                #[cfg(unix)]
                let _ = map.advise(memmap2::Advice::Normal);
                Ok(Stored { name, map, over: Over::Whole, trouble: None })
            }
            Source::Stream(mut stream) => {
                let cannot_keep = |error| Error::Spool { name: self.name.clone(), error };
                let mut file = tempfile::tempfile().map_err(cannot_keep)?;
                let mut offset = 0;
                let (over, trouble) = loop {
                    let length = stream.bytes().len();
                    file.write_all(stream.bytes()).map_err(cannot_keep)?;
                    stream.consume(length);
                    offset += length as u64;
                    match stream.fill(1) {
                        Ok(Ok(())) => {}
                        Ok(Err(over)) => break (over, None),
                        Err(error) => {
                            let compressed = self.compressed.is_some();
                            break (
                                Over::Whole,
                                Some(unreadable(self.name.clone(), compressed, offset, error)),
                            );
                        }
                    }
                };
                let map = unsafe_io::map(&file).map_err(cannot_keep)?;
                Ok(Stored { name, map, over, trouble })
            }
        }
    }

    /// After the last record: how the capture was cut short, if it was.
    pub fn end(&self) -> Option<&Cut> {
        self.cut.as_ref()
    }

    /// The interfaces that it described so far, and what it says that it lost there; none where it is no pcapng capture.
    pub fn interfaces(&self) -> &[Interface] {
        self.framer.interfaces()
    }

    /// What messages call the capture.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How far it was read, in the bytes that [`Capture::size`] counts: those of the file, compressed or not.
    pub fn position(&self) -> u64 {
        match &self.compressed {
            Some(read) => read.load(Ordering::Relaxed),
            None => self.framer.offset(),
        }
    }

    /// Records that were found so far.
    pub fn records(&self) -> u64 {
        self.framer.records()
    }

    /// Bytes in the file, where it is one that has an end.
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// What a message calls the capture where it goes on with an offset in what may have been compressed.
    fn name_of_content(&self) -> String {
        let note = if self.compressed.is_some() { " (decompressed)" } else { "" };
        format!("{}{note}", self.name)
    }

    fn fill(&mut self, needed: usize) -> Result<Result<(), Over>, Error> {
        self.source.fill(needed).map_err(|error| {
            self.over = true;
            let offset = self.framer.offset() + self.source.bytes().len() as u64;
            unreadable(self.name.clone(), self.compressed.is_some(), offset, error)
        })
    }
}

fn unreadable(name: String, compressed: bool, offset: u64, error: io::Error) -> Error {
    match compressed {
        true => Error::Decompress { name, offset, error },
        false => Error::Read { name, offset, error },
    }
}

/// All bytes of a capture, decompressed, of which any can be read at any time.
pub(crate) struct Stored {
    /// What messages call it.
    pub(crate) name: String,
    map: Mmap,
    /// How the reader that it comes from ended.
    pub(crate) over: Over,
    /// Why it ends where it does, if that is not its end.
    pub(crate) trouble: Option<Error>,
}

impl Stored {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map
    }
}

impl Source {
    /// What is at hand and not yet consumed.
    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            Source::Map { map, at } => &map[*at..],
            Source::Stream(stream) => stream.bytes(),
        }
    }

    /// Drops the first `length` bytes, which [`Source::consumed`] gives until more are asked for.
    #[inline]
    fn consume(&mut self, length: usize) {
        match self {
            Source::Map { at, .. } => *at += length,
            Source::Stream(stream) => stream.consume(length),
        }
    }

    /// The last `length` bytes that were consumed.
    #[inline]
    fn consumed(&self, length: usize) -> &[u8] {
        match self {
            Source::Map { map, at } => &map[*at - length..*at],
            Source::Stream(stream) => stream.consumed(length),
        }
    }

    /// Has `needed` bytes at hand, or tells that there are no more.
    fn fill(&mut self, needed: usize) -> io::Result<Result<(), Over>> {
        match self {
            Source::Map { map, at } if map.len() - *at < needed => Ok(Err(Over::Whole)),
            Source::Map { .. } => Ok(Ok(())),
            Source::Stream(stream) => stream.fill(needed),
        }
    }
}

#[cfg(test)]
mod tests;
