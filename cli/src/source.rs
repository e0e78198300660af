//! Where captures come from: all that this crate knows of the crate that reads them.

use anyhow::Result;
use rdmascope_dissector::record::Record;
use std::path::Path;

/// An opened capture.
pub(crate) struct Source {
    capture: stand_in::Capture,
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
    pub(crate) fn open(path: &Path) -> Result<Source> {
        let capture = match path.to_str() {
            Some("-") => stand_in::Capture::from_reader("standard input", std::io::stdin())?,
            _ => stand_in::Capture::open(path)?,
        };
        Ok(Source { capture })
    }

    /// The next packet, or `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Record<'_>>> {
        Ok(self.capture.next()?)
    }

    /// Whether the file ends in the middle of something.
    pub(crate) fn cut(&self) -> Option<Cut> {
        self.capture.end().map(|cut| Cut { offset: cut.offset, needed: cut.needed, available: cut.available })
    }
}

/// Reads the plain case, a little-endian pcap file, until the capture reader lands.
mod stand_in {
    use rdmascope_dissector::record::{LinkType, Record, Time};
    use std::io::{Error, ErrorKind, Read, Result};
    use std::path::Path;

    pub(super) struct Capture {
        bytes: Vec<u8>,
        at: usize,
        number: u64,
        nanoseconds: bool,
        link: LinkType,
        end: Option<Cut>,
    }

    pub(super) struct Cut {
        pub(super) offset: u64,
        pub(super) needed: u64,
        pub(super) available: u64,
    }

    impl Capture {
        pub(super) fn open(path: &Path) -> Result<Capture> {
            let name = path.display().to_string();
            let file = std::fs::File::open(path)
                .map_err(|error| Error::new(error.kind(), format!("{name}: {error}")))?;
            Capture::from_reader(&name, file)
        }

        pub(super) fn from_reader(name: &str, mut reader: impl Read + Send + 'static) -> Result<Capture> {
            let mut bytes = Vec::new();
            let error = |what: &dyn std::fmt::Display| {
                Error::new(ErrorKind::InvalidData, format!("{name}: at byte 0: {what}"))
            };
            reader.read_to_end(&mut bytes).map_err(|cause| error(&cause))?;
            let nanoseconds = match bytes.first_chunk() {
                Some([0xd4, 0xc3, 0xb2, 0xa1]) => false,
                Some([0x4d, 0x3c, 0xb2, 0xa1]) => true,
                _ => return Err(error(&"no pcap or pcapng header")),
            };
            if bytes.len() < 24 {
                return Err(error(&"a pcap header has 24 bytes"));
            }
            let link = LinkType(u16::from_le_bytes([bytes[20], bytes[21]]));
            Ok(Capture { bytes, at: 24, number: 0, nanoseconds, link, end: None })
        }

        pub(super) fn next(&mut self) -> Result<Option<Record<'_>>> {
            let rest = &self.bytes[self.at..];
            let word = |at: usize| u32::from_le_bytes([rest[at], rest[at + 1], rest[at + 2], rest[at + 3]]);
            let needed = if rest.len() < 16 { 16 } else { 16 + word(8) as usize };
            if rest.len() < needed {
                self.end = (!rest.is_empty()).then_some(Cut {
                    offset: self.at as u64,
                    needed: needed as u64,
                    available: rest.len() as u64,
                });
                return Ok(None);
            }
            let fraction = i64::from(word(4)) * if self.nanoseconds { 1 } else { 1000 };
            let record = Record {
                number: self.number + 1,
                time: Time(i64::from(word(0)) * 1_000_000_000 + fraction),
                link: self.link,
                original_length: word(12),
                data: &rest[16..needed],
            };
            self.at += needed;
            self.number += 1;
            Ok(Some(record))
        }

        pub(super) fn end(&self) -> Option<&Cut> {
            self.end.as_ref()
        }
    }
}
