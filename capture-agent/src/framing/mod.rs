//! From bytes to records: pcap, pcapng and ERF.
//!
//! Sans-I/O: [`Framer::next`] looks at the bytes from the current offset on and says what is there, whether these bytes are
//! all of a memory-mapped file or the few that a pipe has given so far. Nothing is allocated by a length that the
//! bytes name.
//!
//! pcap: draft-ietf-opsawg-pcap; pcapng: draft-ietf-opsawg-pcapng.
//!
//! The parsers of the crate pcap-parser take headers, records, blocks and options apart, on whatever bytes there are; the head of `pcapng.rs`
//! lists what is done by hand, and why. On top of them stand the cap on lengths, time stamps, and where damage is. Its readers, which own a
//! buffer, are not used: `framing/tests/pcap_parser.rs` has a test for what they cannot do. A framer that was written by hand is the witness in
//! the fuzz target and the benchmark.

pub(crate) mod erf;
mod interfaces;
mod pcap;
mod pcapng;

pub use interfaces::{Interface, Statistics};

use crate::note::Note;
use core::fmt;
use interfaces::Interfaces;
use rdmascope_dissector::record::{LinkType, Record, Tap, Time};

/// The most bytes that a pcap record may have captured, or a pcapng block may have: 16 MiB. A longer one is damage: no
/// link has packets near that length, and a reader must not gather without bound because four bytes say so.
pub const LIMIT: usize = 16 << 20;

/// Finds the records of a capture.
#[derive(Debug, Default)]
pub struct Framer {
    format: Format,
    records: u64,
    offset: u64,
    interfaces: Interfaces,
}

#[derive(Debug, Default)]
enum Format {
    #[default]
    Unknown,
    Pcap(pcap::File),
    Pcapng(pcapng::Section),
    Erf,
}

/// What the next bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A record. The caller takes it with [`Framed::record`] and drops [`Framed::consumed`] bytes.
    Record(Framed),
    /// So many bytes that are no record. The caller drops them.
    Skip(usize),
    /// Not enough of them: so many are needed, counted from the current offset. Where there are no more, the capture
    /// ends; if there were any at all, it was cut short.
    Need(usize),
    /// Not what they should be. There is no way to go on.
    Damaged(Damage),
}

/// A record in the bytes that [`Framer::next`] was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framed {
    /// See [`Record::number`].
    pub number: u64,
    /// See [`Record::time`].
    pub time: Time,
    /// See [`Record::link`].
    pub link: LinkType,
    /// See [`Record::original_length`].
    pub original_length: u32,
    /// See [`Record::dropped`].
    pub dropped: u32,
    /// See [`Tap::interface`].
    pub interface: u32,
    /// Where the captured bytes begin.
    pub start: usize,
    /// Where they end.
    pub end: usize,
    /// Bytes of the record with its headers and padding.
    pub consumed: usize,
}

impl Framed {
    /// The record, of the same bytes that [`Framer::next`] was given. Panics where they are fewer.
    #[inline]
    pub fn record<'a>(&self, bytes: &'a [u8]) -> Record<'a> {
        Record {
            number: self.number,
            time: self.time,
            link: self.link,
            original_length: self.original_length,
            dropped: self.dropped,
            tap: Tap { file: 0, interface: self.interface },
            data: &bytes[self.start..self.end],
        }
    }
}

impl Framer {
    /// At the beginning of a capture.
    pub fn new() -> Framer {
        Framer::default()
    }

    /// What the bytes from the current offset on are. The offset moves by what [`Step::Record`] and [`Step::Skip`] tell
    /// the caller to drop.
    #[inline(always)] // Else what it returns goes through memory, once a packet.
    pub fn next(&mut self, bytes: &[u8]) -> Step {
        let found = match &mut self.format {
            Format::Pcap(file) => file.next(bytes),
            Format::Pcapng(section) => section.next(bytes, &mut self.interfaces),
            Format::Erf => erf::next(bytes),
            Format::Unknown => self.recognise(bytes),
        };
        match found {
            Ok(Found::Record {
                mut time,
                link,
                original_length,
                dropped,
                interface,
                start,
                end,
                consumed,
            }) => {
                if link == LinkType::ERF {
                    time = erf::own_time(&bytes[start..end], time);
                }
                self.records += 1;
                self.offset += consumed as u64;
                Step::Record(Framed {
                    number: self.records,
                    time,
                    link,
                    original_length,
                    dropped,
                    interface,
                    start,
                    end,
                    consumed,
                })
            }
            Ok(Found::Nothing { consumed }) => {
                self.offset += consumed as u64;
                Step::Skip(consumed)
            }
            Err(Trouble::Short(needed)) => Step::Need(needed),
            Err(Trouble::Fault { at, fault }) => {
                Step::Damaged(Damage { offset: self.offset + at as u64, fault })
            }
        }
    }

    /// The place of the record that was found last: there another framer can go on. `before` is an earlier mark of the same
    /// capture, with which this one shares what has not changed.
    pub(crate) fn mark(&self, framed: &Framed, before: Option<&Mark>) -> Mark {
        let format = match &self.format {
            Format::Unknown => MarkedFormat::Unknown,
            Format::Pcap(file) => MarkedFormat::Pcap(*file),
            Format::Pcapng(section) => {
                let before = before.and_then(|mark| match &mark.format {
                    MarkedFormat::Pcapng(mark) => Some(mark),
                    _ => None,
                });
                MarkedFormat::Pcapng(section.mark(framed.dropped, before))
            }
            Format::Erf => MarkedFormat::Erf,
        };
        Mark { format, records: self.records - 1, offset: self.offset - framed.consumed as u64 }
    }

    /// What the bytes that [`Framer::next`] skipped last say beside packets.
    pub(crate) fn take_note(&mut self) -> Option<Note> {
        match &mut self.format {
            Format::Pcapng(section) => section.note.take().map(|note| *note),
            _ => None,
        }
    }

    /// The interfaces that a pcapng capture described so far, in that order; of more than 1024 the first ones.
    pub fn interfaces(&self) -> &[Interface] {
        self.interfaces.all()
    }

    /// At the place of a mark, from which on nothing is gathered of interfaces.
    pub(crate) fn resume(mark: &Mark) -> Framer {
        let format = match &mark.format {
            MarkedFormat::Unknown => Format::Unknown,
            MarkedFormat::Pcap(file) => Format::Pcap(*file),
            MarkedFormat::Pcapng(mark) => Format::Pcapng(pcapng::Section::resume(mark)),
            MarkedFormat::Erf => Format::Erf,
        };
        Framer { format, records: mark.records, offset: mark.offset, interfaces: Interfaces::default() }
    }

    /// Records that were found so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Bytes from the beginning of the capture to the next record.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    #[cold]
    fn recognise(&mut self, bytes: &[u8]) -> Result<Found, Trouble> {
        let magic = bytes.first_chunk().ok_or(Trouble::Short(4))?;
        let known = match recognised(magic) {
            Err(Fault::Magic { .. }) if erf::may_begin(bytes)? => Ok(Magic::Erf),
            known => known,
        };
        match known.map_err(|fault| Trouble::Fault { at: 0, fault })? {
            Magic::Erf => {
                self.format = Format::Erf;
                Ok(Found::Nothing { consumed: 0 })
            }
            Magic::Pcap => {
                let (file, consumed) = pcap::File::open(bytes)?;
                self.format = Format::Pcap(file);
                Ok(Found::Nothing { consumed })
            }
            Magic::Pcapng => {
                self.format = Format::Pcapng(pcapng::Section::default());
                Ok(Found::Nothing { consumed: 0 })
            }
        }
    }
}

/// A place in a capture, with what has to be known of what stands before it.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    format: MarkedFormat,
    records: u64,
    offset: u64,
}

#[derive(Clone, Debug)]
enum MarkedFormat {
    Unknown,
    Pcap(pcap::File),
    Pcapng(pcapng::Mark),
    Erf,
}

impl Mark {
    /// Bytes that it refers to and does not share with the mark `before`.
    pub(crate) fn own_bytes(&self, before: Option<&Mark>) -> usize {
        match (&self.format, before.map(|before| &before.format)) {
            (MarkedFormat::Pcapng(mark), Some(MarkedFormat::Pcapng(before))) => mark.own_bytes(Some(before)),
            (MarkedFormat::Pcapng(mark), _) => mark.own_bytes(None),
            _ => 0,
        }
    }
}

/// What a format finds.
enum Found {
    Record {
        time: Time,
        link: LinkType,
        original_length: u32,
        dropped: u32,
        interface: u32,
        start: usize,
        end: usize,
        consumed: usize,
    },
    Nothing {
        consumed: usize,
    },
}

/// Why it finds nothing.
enum Trouble {
    /// So many bytes are needed.
    Short(usize),
    /// What is wrong, and where, counted from the first of the bytes.
    Fault { at: usize, fault: Fault },
}

/// The two byte orders of the host that wrote the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum Order {
    #[default]
    Little,
    Big,
}

impl Order {
    #[inline]
    fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Order::Little => u16::from_le_bytes(bytes),
            Order::Big => u16::from_be_bytes(bytes),
        }
    }

    #[inline]
    fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Order::Little => u32::from_le_bytes(bytes),
            Order::Big => u32::from_be_bytes(bytes),
        }
    }
}

/// What the first bytes of a capture say.
pub(crate) enum Magic {
    Pcap,
    Pcapng,
    Erf,
}

pub(crate) fn recognised(magic: &[u8; 4]) -> Result<Magic, Fault> {
    match magic {
        // In either byte order; microseconds, and nanoseconds.
        [0xd4, 0xc3, 0xb2, 0xa1] | [0xa1, 0xb2, 0xc3, 0xd4] => Ok(Magic::Pcap),
        [0x4d, 0x3c, 0xb2, 0xa1] | [0xa1, 0xb2, 0x3c, 0x4d] => Ok(Magic::Pcap),
        [0x0a, 0x0d, 0x0d, 0x0a] => Ok(Magic::Pcapng),
        [0x34, 0xcd, 0xb2, 0xa1] | [0xa1, 0xb2, 0xcd, 0x34] => Err(Fault::ModifiedPcap),
        [0xfd, b'7', b'z', b'X'] => Err(Fault::Compressed { with: "xz", tool: "xz -d" }),
        [b'B', b'Z', b'h', _] => Err(Fault::Compressed { with: "bzip2", tool: "bzip2 -d" }),
        [0x04, 0x22, 0x4d, 0x18] => Err(Fault::Compressed { with: "lz4", tool: "lz4 -d" }),
        [b's', b'n', b'o', b'o'] => Err(Fault::Snoop),
        found => Err(Fault::Magic { found: *found, there: 4 }),
    }
}

/// Bytes that are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset}: {fault}")]
pub struct Damage {
    /// Where, in bytes from the beginning of the capture.
    pub offset: u64,
    /// What was expected there, and what was found.
    pub fault: Fault,
}

/// What is wrong with damaged bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum Fault {
    /// No magic number of a format that is understood. `there`: how many of the bytes there are.
    Magic { found: [u8; 4], there: usize },
    /// The pcap variant with longer record headers that some Linux systems wrote around 1999.
    ModifiedPcap,
    /// A snoop file.
    Snoop,
    /// A compression that is not understood.
    Compressed { with: &'static str, tool: &'static str },
    /// A version of the format that is not understood.
    Version { expected: u16, found: (u16, u16) },
    /// A pcap record longer than [`LIMIT`].
    RecordLength { found: u32 },
    /// A type of ERF record that there is not.
    ErfType { found: u8 },
    /// An ERF record too short for its headers.
    ErfLength { found: u16, least: usize },
    /// The field of a pcapng section that tells its byte order.
    ByteOrder { found: [u8; 4] },
    /// A pcapng block too short for its type, longer than [`LIMIT`], or not a multiple of four.
    BlockLength { found: u32, least: u32 },
    /// The length at the end of a pcapng block is not the one at its beginning.
    BlockTrailer { expected: u32, found: u32 },
    /// A captured length beyond the end of its pcapng block.
    CapturedLength { found: u32, room: u32 },
    /// An interface that the pcapng section does not describe.
    Interface { found: u32, described: usize },
    /// More interfaces than a section may describe.
    Interfaces { limit: usize },
    /// A pcapng block that its parser does not take.
    Block { kind: u32 },
    /// An option that runs past the end of its pcapng block, or has not the length that its type has.
    Option { code: u16, length: u16 },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Fault::Magic { found, there } => {
                f.write_str("expected the magic number of a pcap or pcapng file, gzip or zstd, or ERF records, found")?;
                found.iter().take(there).try_for_each(|byte| write!(f, " {byte:02x}"))
            }
            Fault::ModifiedPcap => f.write_str(
                "found the magic number of the modified pcap format of 1999; convert the file with `editcap -F pcap`",
            ),
            Fault::Snoop => f.write_str(
                "expected the magic number of a pcap or pcapng file, found that of snoop; convert the file with `editcap -F pcap`",
            ),
            Fault::Compressed { with, tool } => write!(
                f,
                "expected the magic number of a pcap or pcapng file, gzip or zstd, or ERF records, found that of {with}; decompress the file with `{tool}`"
            ),
            Fault::Version { expected, found: (major, minor) } => {
                write!(f, "expected version {expected} of the format, found {major}.{minor}")
            }
            Fault::RecordLength { found } => {
                write!(f, "expected a record of at most {LIMIT} bytes, found a captured length of {found}")
            }
            Fault::ErfType { found } => {
                write!(f, "expected the type of an ERF record, from 1 to 48, found {found}")
            }
            Fault::ErfLength { found, least } => {
                write!(f, "expected an ERF record of at least {least} bytes, found a record length of {found}")
            }
            Fault::ByteOrder { found: [a, b, c, d] } => write!(
                f,
                "expected the byte-order magic 1a2b3c4d of a pcapng section, found {a:02x}{b:02x}{c:02x}{d:02x}"
            ),
            Fault::BlockLength { found, least } => write!(
                f,
                "expected the length of a pcapng block, a multiple of 4 from {least} to {LIMIT}, found {found}"
            ),
            Fault::Block { kind } => write!(f, "expected a pcapng block of type {kind:#010x}, found something else"),
            Fault::BlockTrailer { expected, found } => {
                write!(f, "expected the length {expected} again at the end of its pcapng block, found {found}")
            }
            Fault::CapturedLength { found, room } => {
                write!(f, "expected a captured length of at most {room}, the rest of the block, found {found}")
            }
            Fault::Interface { found, described } => {
                write!(f, "expected one of the {described} interfaces that the section describes, found number {found}")
            }
            Fault::Interfaces { limit } => {
                write!(f, "expected a section of at most {limit} interfaces, found another")
            }
            Fault::Option { code, length } => {
                write!(f, "expected an option within its pcapng block, found option {code} with a length of {length}")
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
