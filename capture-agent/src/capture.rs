//! A capture, wherever it comes from.

use crate::compress::Compression;
use crate::decompress::Decoded;
use crate::framing::{self, Damage, Fault, Framed, Framer, Interface, Step, erf};
use crate::note::Note;
use crate::pipe::{Interrupt, Pipe};
use crate::regular::{Regular, Shrank};
use crate::stream::{Over, Stream};
use crate::temporary;
use crate::unsafe_io;
use core::ops::Range;
use memmap2::Mmap;
use rdmascope_dissector::record::Record;
use std::fs::File;
use std::io::{self, Read, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A capture, open for reading from its first record to its last.
pub struct Capture {
    name: String,
    framer: Framer,
    stream: Stream,
    /// The compressed bytes that were read so far.
    compressed: Option<Arc<AtomicU64>>,
    size: Option<u64>,
    over: bool,
    cut: Option<Cut>,
    note: Option<Note>,
}

/// What [`Capture::advance`] comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advance {
    /// A record, for [`Capture::record`].
    Record(Framed),
    /// Bytes that are needed to go on and were not read yet, for [`Capture::read`].
    Short(usize),
    /// What is no packet, for [`Capture::take_note`].
    Note,
    /// There is no further record.
    End,
}

/// What [`Capture::find_in`] finds.
pub(crate) enum Item<'a> {
    /// A record.
    Record(Record<'a>),
    /// What is no packet.
    Note(Note),
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
    /// It lost bytes while it was read: a file of a ring whose turn has come again. `offset`: bytes of the file that were read before.
    #[error("{name}: shrank while it was read: it had {had} bytes, now {has}; read up to byte {offset}")]
    Shrank { name: String, offset: u64, had: u64, has: u64 },
    /// Where it has to be read at any place, it is kept in a temporary file.
    #[error("{name}: cannot be kept in a temporary file in {}: {error}; TMPDIR names the folder for it", folder.display())]
    Spool { name: String, folder: PathBuf, error: io::Error },
    /// Its compressed data are damaged. `offset`: in the decompressed capture.
    #[error("{name}: byte {offset} after decompression: cannot be decompressed further: {error}")]
    Decompress { name: String, offset: u64, error: io::Error },
    /// An interface cannot be captured any further.
    #[error("{name}: cannot be captured further: {error}")]
    Live { name: String, error: io::Error },
    /// It holds something else than it should; also where it never was a capture.
    #[error("{name}: {damage}")]
    Damaged { name: String, damage: Damage },
}

impl Error {
    /// The folder for temporary files cannot take what is read.
    pub(crate) fn spool(name: String, error: io::Error) -> Error {
        Error::Spool { name, folder: std::env::temp_dir(), error }
    }
}

impl Capture {
    /// Opens a file, a FIFO or a device. A file is read to the end that it has now; if it becomes shorter meanwhile, that is an
    /// error where the reading has come to ([`Error::Shrank`]).
    ///
    /// An error is returned if this is no capture. For a FIFO this waits for the first four bytes; for the first two records, where it
    /// has no magic number because it is ERF.
    pub fn open(path: &Path) -> Result<Capture, Error> {
        Capture::open_pipe(path, &Interrupt::default())
    }

    /// The same, where `interrupt` may end what is no regular file.
    pub(crate) fn open_pipe(path: &Path, interrupt: &Interrupt) -> Result<Capture, Error> {
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) => Capture::from_file(name, file, interrupt),
            Err(error) => Err(Error::Open { name, error }),
        }
    }

    /// Reads a file that is open, from where it stands. `name` is what messages call it.
    pub(crate) fn from_file(name: String, mut file: File, interrupt: &Interrupt) -> Result<Capture, Error> {
        let cannot_open = |error| Error::Open { name: name.clone(), error };
        let metadata = file.metadata().map_err(cannot_open)?;
        if metadata.is_dir() {
            return Err(cannot_open(io::ErrorKind::IsADirectory.into()));
        }
        // Files in /proc have no length and can only be read.
        let size = (metadata.is_file() && metadata.len() > 0).then_some(metadata.len());
        // Standard input may have been read before, up to here.
        let start = if size.is_some() { file.stream_position().map_err(cannot_open)? } else { 0 };
        let reader: Box<dyn Read + Send> = match size {
            Some(size) => Box::new(Regular::new(file, start..size)),
            None if metadata.is_file() => Box::new(file),
            None => Box::new(Pipe::new(file, interrupt).map_err(cannot_open)?),
        };
        Capture::new(name, Stream::new(reader), size.map(|size| size.saturating_sub(start)))
    }

    /// Reads from anything, for instance standard input. `name` is what messages call it.
    pub fn from_reader(
        name: impl Into<String>,
        reader: impl Read + Send + 'static,
    ) -> Result<Capture, Error> {
        Capture::new(name.into(), Stream::new(Box::new(reader)), None)
    }

    fn new(name: String, stream: Stream, size: Option<u64>) -> Result<Capture, Error> {
        let mut capture = Capture {
            name,
            framer: Framer::new(),
            stream,
            compressed: None,
            size,
            over: false,
            cut: None,
            note: None,
        };
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
            match erf::begins(self.stream.bytes(), are_all) {
                Ok(begins) => return Ok(begins),
                Err(needed) => are_all = self.fill(needed)?.is_err(),
            }
        }
    }

    /// The first four bytes; `None` where they are fewer because compressed data end before.
    fn first_bytes(&mut self) -> Result<Option<[u8; 4]>, Error> {
        let over = self.fill(4)?.err();
        let bytes = self.stream.bytes();
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
        let empty = Stream::new(Box::new(io::empty()));
        let reader = core::mem::replace(&mut self.stream, empty).into_reader();
        let decoded = Decoded::new(compression, reader)
            .map_err(|error| Error::Open { name: self.name.clone(), error })?;
        self.compressed = Some(decoded.compressed_bytes_read());
        self.stream = Stream::new(Box::new(decoded));
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
                Advance::Note => {}
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
            match self.framer.next(self.stream.bytes()) {
                Step::Record(framed) => {
                    self.stream.consume(framed.consumed);
                    return Ok(Advance::Record(framed));
                }
                Step::Skip(length) => {
                    self.stream.consume(length);
                    self.note = self.framer.take_note();
                    if self.note.is_some() {
                        return Ok(Advance::Note);
                    }
                }
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
        framed.record(self.stream.consumed(framed.consumed))
    }

    /// What [`Capture::advance`] found last beside packets.
    pub fn take_note(&mut self) -> Option<Note> {
        self.note.take()
    }

    /// Reads, and waits, until there are the bytes that [`Capture::advance`] asked for, or the capture is over.
    #[cold]
    pub fn read(&mut self, needed: usize) -> Result<(), Error> {
        let Err(over) = self.fill(needed)? else {
            return Ok(());
        };
        self.over = true;
        let available = self.stream.bytes().len() as u64;
        if available > 0 || over == Over::Cut {
            self.cut = Some(Cut { offset: self.framer.offset(), needed: needed as u64, available });
        }
        Ok(())
    }

    /// What was read and not found to be records yet: the buffer, and where in it that stands. `spare` takes its place.
    pub(crate) fn take(&mut self, spare: Vec<u8>) -> (Vec<u8>, Range<usize>) {
        self.stream.take(spare)
    }

    /// Hands on the records that stand in a part of `bytes`, which was [taken](Capture::take), and leaves of `range` what is
    /// behind them. Returns how many bytes are needed to go on. Errors: as [`Capture::advance`].
    #[inline]
    pub(crate) fn find_in<'a>(
        &mut self,
        bytes: &'a [u8],
        range: &mut Range<usize>,
        mut found: impl FnMut(Item<'a>),
    ) -> Result<usize, Error> {
        loop {
            let rest = &bytes[range.clone()];
            match self.framer.next(rest) {
                Step::Record(framed) => {
                    range.start += framed.consumed;
                    found(Item::Record(framed.record(rest)));
                }
                Step::Skip(length) => {
                    range.start += length;
                    if let Some(note) = self.framer.take_note() {
                        found(Item::Note(note));
                    }
                }
                Step::Need(needed) => return Ok(needed),
                Step::Damaged(damage) => {
                    self.over = true;
                    return Err(Error::Damaged { name: self.name_of_content(), damage });
                }
            }
        }
    }

    /// Gives back what is left of what was taken.
    pub(crate) fn put_back(&mut self, rest: &[u8]) {
        self.stream.put_back(rest);
    }

    /// All of it, from its beginning, in a file of its own that nobody can cut.
    pub(crate) fn into_stored(mut self) -> Result<Stored, Error> {
        let cannot_keep = |error| Error::spool(self.name.clone(), error);
        let mut file = temporary::file().map_err(cannot_keep)?;
        let mut offset = 0;
        let (over, trouble) = loop {
            let length = self.stream.bytes().len();
            file.write_all(self.stream.bytes()).map_err(cannot_keep)?;
            self.stream.consume(length);
            offset += length as u64;
            match self.stream.fill(1) {
                Ok(Ok(())) => {}
                Ok(Err(over)) => break (over, None),
                Err(error) => break (Over::Whole, Some(self.unreadable(offset, error))),
            }
        };
        let map = unsafe_io::map(&file).map_err(cannot_keep)?;
        Ok(Stored { name: self.name_of_content(), map, over, trouble })
    }

    /// Whether it is decompressed while it is read.
    pub(crate) fn is_compressed(&self) -> bool {
        self.compressed.is_some()
    }

    /// Whether no further record is to come.
    pub(crate) fn is_over(&self) -> bool {
        self.over
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
        let note = if self.is_compressed() { " (decompressed)" } else { "" };
        format!("{}{note}", self.name)
    }

    fn fill(&mut self, needed: usize) -> Result<Result<(), Over>, Error> {
        self.stream.fill(needed).map_err(|error| {
            self.over = true;
            self.unreadable(self.framer.offset() + self.stream.bytes().len() as u64, error)
        })
    }

    /// What ends the reading at `offset`.
    fn unreadable(&self, offset: u64, error: io::Error) -> Error {
        let name = self.name.clone();
        match error.get_ref().and_then(|error| error.downcast_ref()) {
            Some(&Shrank { had, has }) => Error::Shrank { name, offset: self.position(), had, has },
            None if self.is_compressed() => Error::Decompress { name, offset, error },
            None => Error::Read { name, offset, error },
        }
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

#[cfg(test)]
mod tests;
