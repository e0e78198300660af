//! Splits pcap, pcapng and ERF captures into records.
//!
//! This module is sans-I/O: [`Framer::next`] gets the bytes from the current offset on, either the
//! whole rest of a mapped file or the part of a pipe that has arrived. It never allocates by a
//! length in the input.
//!
//! pcap: draft-ietf-opsawg-pcap; pcapng: draft-ietf-opsawg-pcapng.
//!
//! The crate pcap-parser parses headers, records, blocks and options. The exceptions are listed in
//! `pcapng.rs`. This module adds the length limit, timestamps, and the location of damage. It does
//! not use the readers of pcap-parser, which own their buffer; `framing/tests/pcap_parser.rs` tests
//! what they cannot do. The fuzz target and the benchmark compare it with a hand-written framer.

pub(crate) mod erf;
mod interfaces;
mod pcap;
mod pcapng;

pub(crate) use interfaces::beginning;
pub use interfaces::{Interface, Statistics};

use crate::note::Note;
use core::fmt;
use interfaces::Interfaces;
use rdmascope_dissector::record::{LinkType, Record, Tap, Time};

/// Maximum captured length of a pcap record, and maximum length of a pcapng block: 16 MiB. A longer
/// one is damage. No link has packets of that size, and a reader must not buffer without bound
/// because of four bytes.
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

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A record. The caller reads it with [`Framed::record`] and drops [`Framed::consumed`] bytes.
    Record(Framed),
    /// Bytes without a record. The caller drops this number of bytes.
    Skip(usize),
    /// More bytes are needed: this number, counted from the current offset. If no more exist, the
    /// capture ends here; if some bytes are left, it was cut short.
    Need(usize),
    /// Invalid bytes. The framer cannot continue.
    Damaged(Damage),
}

/// A record in the bytes given to [`Framer::next`].
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
    /// Start of the captured bytes.
    pub start: usize,
    /// End of the captured bytes.
    pub end: usize,
    /// Length of the record including headers and padding.
    pub consumed: usize,
}

impl Framed {
    /// Returns the record. `bytes` must be those given to [`Framer::next`]; panics if they are
    /// shorter.
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
    /// Starts at the beginning of a capture.
    pub fn new() -> Framer {
        Framer::default()
    }

    /// Finds the next item in the bytes from the current offset on. The offset advances by the
    /// bytes that [`Step::Record`] and [`Step::Skip`] tell the caller to drop.
    #[inline(always)] // Otherwise the result goes through memory, once per packet.
    pub fn next(&mut self, bytes: &[u8]) -> Step {
        let found = match &mut self.format {
            Format::Pcap(file) => file.next(bytes),
            Format::Pcapng(section) => section.next(bytes, &mut self.interfaces),
            Format::Erf => erf::next(bytes),
            Format::Unknown => self.recognise(bytes),
        };
        match found {
            Ok(Found::Record(mut framed)) => {
                if framed.link == LinkType::ERF {
                    framed.time = erf::own_time(&bytes[framed.start..framed.end], framed.time);
                }
                self.records += 1;
                self.offset += framed.consumed as u64;
                Step::Record(Framed { number: self.records, ..framed })
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

    /// Returns the position of the record found last, from which another framer can continue.
    /// `before` is an earlier mark of the same capture; unchanged contents are shared with it.
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

    /// Returns the note in the bytes skipped last, if any.
    pub(crate) fn take_note(&mut self) -> Option<Note> {
        match &mut self.format {
            Format::Pcapng(section) => section.note.take().map(|note| *note),
            _ => None,
        }
    }

    /// Returns the interfaces of a pcapng capture described so far, in order, at most 1024.
    pub fn interfaces(&self) -> &[Interface] {
        self.interfaces.all()
    }

    /// Continues at a mark. Interfaces are not collected from there on.
    pub(crate) fn resume(mark: &Mark) -> Framer {
        let format = match &mark.format {
            MarkedFormat::Unknown => Format::Unknown,
            MarkedFormat::Pcap(file) => Format::Pcap(*file),
            MarkedFormat::Pcapng(mark) => Format::Pcapng(pcapng::Section::resume(mark)),
            MarkedFormat::Erf => Format::Erf,
        };
        Framer { format, records: mark.records, offset: mark.offset, interfaces: Interfaces::default() }
    }

    /// Returns true if the file header is not complete. ERF has none.
    pub(crate) fn is_in_file_header(&self) -> bool {
        self.offset == 0 && !matches!(self.format, Format::Erf)
    }

    /// Returns the number of records found so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Returns the offset of the next record in the capture.
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

/// A position in a capture, with the state needed to continue there.
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
    /// Size in bytes of its contents that are not shared with the mark `before`.
    pub(crate) fn own_bytes(&self, before: Option<&Mark>) -> usize {
        match (&self.format, before.map(|before| &before.format)) {
            (MarkedFormat::Pcapng(mark), Some(MarkedFormat::Pcapng(before))) => mark.own_bytes(Some(before)),
            (MarkedFormat::Pcapng(mark), _) => mark.own_bytes(None),
            _ => 0,
        }
    }
}

/// An item found by a format.
enum Found {
    /// A record. The framer numbers it.
    Record(Framed),
    Nothing {
        consumed: usize,
    },
}

/// The reason why a format finds no item.
enum Trouble {
    /// This number of bytes is needed.
    Short(usize),
    /// A fault, at this offset in the bytes.
    Fault { at: usize, fault: Fault },
}

/// The byte order of the host that wrote the capture.
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

/// The format that the first bytes of a capture indicate.
pub(crate) enum Magic {
    Pcap,
    Pcapng,
    Erf,
}

pub(crate) fn recognised(magic: &[u8; 4]) -> Result<Magic, Fault> {
    match magic {
        // Both byte orders; microseconds, then nanoseconds.
        [0xd4, 0xc3, 0xb2, 0xa1] | [0xa1, 0xb2, 0xc3, 0xd4] => Ok(Magic::Pcap),
        [0x4d, 0x3c, 0xb2, 0xa1] | [0xa1, 0xb2, 0x3c, 0x4d] => Ok(Magic::Pcap),
        [0x0a, 0x0d, 0x0d, 0x0a] => Ok(Magic::Pcapng),
        [0x34, 0xcd, 0xb2, 0xa1] | [0xa1, 0xb2, 0xcd, 0x34] => Err(Fault::ModifiedPcap),
        [0xfd, b'7', b'z', b'X'] => Err(Fault::Compressed { with: "xz", tool: "xz -d" }),
        [b'B', b'Z', b'h', _] => Err(Fault::Compressed { with: "bzip2", tool: "bzip2 -d" }),
        [0x04, 0x22, 0x4d, 0x18] => Err(Fault::Compressed { with: "lz4", tool: "lz4 -d" }),
        [b's', b'n', b'o', b'o'] => Err(Fault::Snoop),
        found => Err(Fault::Magic { found: *found, available: 4 }),
    }
}

/// Invalid bytes in a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset}: {fault}")]
pub struct Damage {
    /// Offset from the beginning of the capture.
    pub offset: u64,
    /// The expected and the actual content.
    pub fault: Fault,
}

/// The kind of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum Fault {
    /// No magic number of a supported format. `available`: number of bytes in the capture.
    Magic { found: [u8; 4], available: usize },
    /// A pcap variant with longer record headers, written by some Linux systems around 1999.
    ModifiedPcap,
    /// A snoop file.
    Snoop,
    /// An unsupported compression.
    Compressed { with: &'static str, tool: &'static str },
    /// An unsupported version of the format.
    Version { expected: u16, found: (u16, u16) },
    /// A pcap record longer than [`LIMIT`].
    RecordLength { found: u32 },
    /// An unassigned type of ERF record.
    ErfType { found: u8 },
    /// An ERF record too short for its headers.
    ErfLength { found: u16, least: usize },
    /// An invalid byte-order magic of a pcapng section.
    ByteOrder { found: [u8; 4] },
    /// A pcapng block that is too short for its type, longer than [`LIMIT`], or not a multiple of
    /// four.
    BlockLength { found: u32, least: u32 },
    /// A pcapng block whose lengths at start and end differ.
    BlockTrailer { expected: u32, found: u32 },
    /// A captured length beyond the end of its pcapng block.
    CapturedLength { found: u32, room: u32 },
    /// An interface number that the pcapng section does not describe.
    Interface { found: u32, described: usize },
    /// More interfaces than a section may describe.
    Interfaces { limit: usize },
    /// A pcapng block that pcap-parser rejects.
    Block { kind: u32 },
    /// An option that exceeds its pcapng block or has a wrong length for its type.
    Option { code: u16, length: u16 },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Fault::Magic { found, available } => {
                f.write_str("expected the magic number of a pcap or pcapng file, gzip or zstd, or ERF records, found")?;
                found.iter().take(available).try_for_each(|byte| write!(f, " {byte:02x}"))?;
                if available < found.len() { f.write_str(" and no more: the file is cut short") } else { Ok(()) }
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
