//! Reads one capture from a file, a pipe or any reader.

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
///
/// ```
/// use rdmascope_capture_agent::Capture;
/// use rdmascope_dissector::engine::{Config, Engine};
/// use rdmascope_dissector::event::Event;
///
/// # let path = std::path::Path::new("../samples/nfs3-basic.pcap");
/// # let mut transactions = 0;
/// let mut capture = Capture::open(path)?;
/// let mut engine = Engine::new(Config::default());
/// let mut print = |event: Event<'_>| {
///     if let Event::Transaction(transaction) = event {
///         let latency = transaction.latency();
///         println!("{:?}: {:?} in {latency:?} ns", transaction.xid, transaction.outcome);
/// #       transactions += 1;
///     }
/// };
/// while let Some(record) = capture.next()? {
///     engine.handle(&record, &mut print);
/// }
/// engine.finish(&mut print);
/// # assert_eq!(transactions, 265);
/// # Ok::<(), rdmascope_capture_agent::Error>(())
/// ```
pub struct Capture {
    name: String,
    framer: Framer,
    stream: Stream,
    /// Number of compressed bytes read so far.
    compressed: Option<Arc<AtomicU64>>,
    size: Option<u64>,
    over: bool,
    cut: Option<Cut>,
    note: Option<Note>,
}

/// The result of [`Capture::advance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advance {
    /// A record was found; [`Capture::record`] returns it.
    Record(Framed),
    /// More bytes are needed; [`Capture::read`] reads them.
    Short(usize),
    /// A note was found; [`Capture::take_note`] returns it.
    Note,
    /// The capture has ended.
    End,
}

/// An item found by [`Capture::find_in`].
pub(crate) enum Item<'a> {
    /// A record.
    Record(Record<'a>),
    /// A note.
    Note(Note),
}

/// The truncated end of a capture, due to a full disk or a copy made during the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cut short at byte {offset}: {needed} bytes needed, {available} there")]
pub struct Cut {
    /// Offset of the incomplete record in the (decompressed) capture.
    pub offset: u64,
    /// Number of bytes needed from there on, as far as known.
    pub needed: u64,
    /// Number of bytes available from there on.
    pub available: u64,
}

/// The reason why a capture cannot be read at all or to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum Error {
    /// The file cannot be opened.
    #[error("{name}: cannot be opened: {error}")]
    Open { name: String, error: io::Error },
    /// The file was given already as another part of the same capture.
    #[error("{name}: given twice; all files together are one capture")]
    Duplicate { name: String },
    /// The file has no bytes.
    #[error("{name}: empty; even a capture without packets has a file header")]
    Empty { name: String },
    /// The file ends within its header. `offset`: in the (decompressed) capture.
    #[error("{name}: cut short at byte {offset}, within the file header")]
    Header { name: String, offset: u64 },
    /// Reading failed. `offset`: in the (decompressed) capture.
    #[error("{name}: byte {offset}: cannot be read further: {error}")]
    Read { name: String, offset: u64, error: io::Error },
    /// The file became shorter during reading, for example because a ring was reused. `offset`:
    /// number of bytes of the file read before that.
    #[error("{name}: shrank while it was read: it had {had} bytes, now {has}; read up to byte {offset}")]
    Shrank { name: String, offset: u64, had: u64, has: u64 },
    /// The capture could not be copied to a temporary file, which random access requires.
    #[error("{name}: cannot be copied to a temporary file in {}: {error}; TMPDIR selects another folder", folder.display())]
    Spool { name: String, folder: PathBuf, error: io::Error },
    /// The compressed data are damaged. `offset`: in the decompressed capture.
    #[error("{name}: byte {offset} after decompression: cannot be decompressed further: {error}")]
    Decompress { name: String, offset: u64, error: io::Error },
    /// A live capture failed.
    #[error("{name}: capture failed: {error}")]
    Live { name: String, error: io::Error },
    /// The contents are invalid, or the file is no capture at all.
    #[error("{name}: {damage}")]
    Damaged { name: String, damage: Damage },
}

impl Error {
    /// Creates the error for a failure of the temporary folder.
    pub(crate) fn spool(name: String, error: io::Error) -> Error {
        Error::Spool { name, folder: std::env::temp_dir(), error }
    }
}

impl Capture {
    /// Opens a file, a FIFO or a device.
    ///
    /// A file is read up to its size at this moment. If it becomes shorter during reading, reading
    /// fails with [`Error::Shrank`].
    ///
    /// Returns an error if the file is no capture. On a FIFO this waits for the first four bytes.
    /// ERF has no magic number, so for ERF it waits for the first two records.
    pub fn open(path: &Path) -> Result<Capture, Error> {
        Capture::open_pipe(path, &Interrupt::default())
    }

    /// Opens a capture that `interrupt` can end, unless it is a regular file.
    pub(crate) fn open_pipe(path: &Path, interrupt: &Interrupt) -> Result<Capture, Error> {
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) => Capture::from_file(name, file, interrupt),
            Err(error) => Err(Error::Open { name, error }),
        }
    }

    /// Reads an open file from its current position. `name` is used in messages.
    pub(crate) fn from_file(name: String, mut file: File, interrupt: &Interrupt) -> Result<Capture, Error> {
        let cannot_open = |error| Error::Open { name: name.clone(), error };
        let metadata = file.metadata().map_err(cannot_open)?;
        if metadata.is_dir() {
            return Err(cannot_open(io::ErrorKind::IsADirectory.into()));
        }
        // Files in /proc report length 0 and can only be read sequentially.
        let size = (metadata.is_file() && metadata.len() > 0).then_some(metadata.len());
        // An earlier reader may have moved the position of standard input.
        let start = if size.is_some() { file.stream_position().map_err(cannot_open)? } else { 0 };
        let reader: Box<dyn Read + Send> = match size {
            Some(size) => Box::new(Regular::new(file, start..size)),
            None if metadata.is_file() => Box::new(file),
            None => Box::new(Pipe::new(file, interrupt).map_err(cannot_open)?),
        };
        Capture::new(name, Stream::new(reader), size.map(|size| size.saturating_sub(start)))
    }

    /// Reads from any reader. `name` is used in messages.
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
            // ERF is the only format without a magic number.
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

    /// Returns the first four bytes, or `None` if compressed data are cut before that.
    fn first_bytes(&mut self) -> Result<Option<[u8; 4]>, Error> {
        let over = self.fill(4)?.err();
        let bytes = self.stream.bytes();
        match (over, bytes.first_chunk()) {
            (_, Some(magic)) => Ok(Some(*magic)),
            (Some(Over::Cut), None) => Ok(None),
            (_, None) if bytes.is_empty() => Err(Error::Empty { name: self.name.clone() }),
            (_, None) => {
                let mut found = [0; 4];
                let available = bytes.len();
                found[..available].copy_from_slice(bytes);
                let damage = Damage { offset: 0, fault: Fault::Magic { found, available } };
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

    /// Returns the next record, or `None` at the end. [`Capture::end`] then reports whether the
    /// capture was cut short. Records before damage are returned first, then the error, and nothing
    /// after it.
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

    /// Finds the next record in the bytes read so far, without reading more.
    ///
    /// [`Capture::next`] consists of such steps. Use this to act before waiting, or to look at the
    /// next records of several captures.
    #[inline(always)] // Otherwise the result goes through memory, once per packet.
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

    /// Returns the record that [`Capture::advance`] found last. Any other call with `&mut self`
    /// invalidates it.
    #[inline]
    pub fn record(&self, framed: &Framed) -> Record<'_> {
        framed.record(self.stream.consumed(framed.consumed))
    }

    /// Returns the note that [`Capture::advance`] found last.
    pub fn take_note(&mut self) -> Option<Note> {
        self.note.take()
    }

    /// Blocks until the bytes that [`Capture::advance`] requested are read, or the capture ends.
    #[cold]
    pub fn read(&mut self, needed: usize) -> Result<(), Error> {
        let Err(over) = self.fill(needed)? else {
            return Ok(());
        };
        self.over = true;
        let available = self.stream.bytes().len() as u64;
        self.cut = cut(&self.framer, needed, available, over)
            .map_err(|offset| Error::Header { name: self.name_of_content(), offset })?;
        Ok(())
    }

    /// Takes the buffer, with the range of bytes that are not yet split into records. `spare`
    /// replaces it.
    pub(crate) fn take(&mut self, spare: Vec<u8>) -> (Vec<u8>, Range<usize>) {
        self.stream.take(spare)
    }

    /// Calls `found` for the complete records in a range of `bytes`, which were
    /// [taken](Capture::take). Leaves the unread rest in `range`. Returns the number of bytes
    /// needed to continue. Errors are those of [`Capture::advance`].
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

    /// Returns the unread rest of a buffer that was taken.
    pub(crate) fn put_back(&mut self, rest: &[u8]) {
        self.stream.put_back(rest);
    }

    /// Copies the whole capture to a temporary file, which no other process can truncate.
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
                Err(error) => break (Over::Complete, Some(self.unreadable(offset, error))),
            }
        };
        let map = unsafe_io::map(&file).map_err(cannot_keep)?;
        Ok(Stored { name: self.name_of_content(), is_compressed: self.is_compressed(), map, over, trouble })
    }

    /// Returns true if the capture is compressed.
    pub(crate) fn is_compressed(&self) -> bool {
        self.compressed.is_some()
    }

    /// Returns true if no further record follows.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// Returns where the capture was cut short, if it was. Call it after the last record.
    pub fn end(&self) -> Option<&Cut> {
        self.cut.as_ref()
    }

    /// Returns the interfaces described so far, with their drop counts. Empty for formats other
    /// than pcapng.
    pub fn interfaces(&self) -> &[Interface] {
        self.framer.interfaces()
    }

    /// Returns the name used in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the read position, in the unit of [`Capture::size`]: bytes of the file, compressed
    /// or not.
    pub fn position(&self) -> u64 {
        match &self.compressed {
            Some(read) => read.load(Ordering::Relaxed),
            None => self.framer.offset(),
        }
    }

    /// Returns the number of records found so far.
    pub fn records(&self) -> u64 {
        self.framer.records()
    }

    /// Returns the size in bytes of a regular file.
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// Returns the name for messages with an offset, which mark compressed captures.
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

    /// Creates the error for a read failure at `offset`.
    fn unreadable(&self, offset: u64, error: io::Error) -> Error {
        let name = self.name.clone();
        match error.get_ref().and_then(|error| error.downcast_ref()) {
            Some(&Shrank { had, has }) => Error::Shrank { name, offset: self.position(), had, has },
            None if self.is_compressed() => Error::Decompress { name, offset, error },
            None => Error::Read { name, offset, error },
        }
    }
}

/// Returns where a capture was cut short, if it was. `needed` bytes were needed for the next record,
/// and `available` there. `Err` is the offset of a cut within the file header.
pub(crate) fn cut(framer: &Framer, needed: usize, available: u64, over: Over) -> Result<Option<Cut>, u64> {
    let is_cut = available > 0 || over == Over::Cut;
    if is_cut && framer.is_in_file_header() {
        return Err(available);
    }
    Ok(is_cut.then(|| Cut { offset: framer.offset(), needed: needed as u64, available }))
}

/// A complete capture, decompressed, with random access.
pub(crate) struct Stored {
    /// Name used in messages.
    pub(crate) name: String,
    /// Whether the capture was compressed.
    pub(crate) is_compressed: bool,
    map: Mmap,
    /// How the reader ended.
    pub(crate) over: Over,
    /// The read error that ended it early, if any.
    pub(crate) trouble: Option<Error>,
}

impl Stored {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map
    }
}

#[cfg(test)]
mod tests;
