//! Compresses output with gzip or zstd.

use flate2::write::GzEncoder;
use std::io::{self, Write};
use std::path::Path;

/// A compression format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
}

impl Compression {
    /// Recognizes a format by the first four bytes (RFC 1952, section 2.3.1; RFC 8878, sections
    /// 3.1.1 and 3.1.2).
    pub(crate) fn of(magic: &[u8; 4]) -> Option<Compression> {
        match magic {
            [0x1f, 0x8b, ..] => Some(Compression::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => Some(Compression::Zstd),
            _ => None,
        }
    }

    /// Recognizes a format by the file extension, `.gz` or `.zst`.
    pub fn of_name(path: &Path) -> Option<Compression> {
        match path.extension()?.to_str()? {
            "gz" => Some(Compression::Gzip),
            "zst" => Some(Compression::Zstd),
            _ => None,
        }
    }
}

/// Compresses the bytes written to it, or passes them on. Flushed data can be decoded even if the
/// end is missing.
#[derive(Debug)]
pub struct Compressor<W: Write>(Encoder<W>);

enum Encoder<W: Write> {
    None(W),
    Gzip(GzEncoder<W>),
    Zstd(zstd::stream::write::Encoder<'static, W>),
}

impl<W: Write> std::fmt::Debug for Encoder<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Encoder::None(_) => "None",
            Encoder::Gzip(_) => "Gzip",
            Encoder::Zstd(_) => "Zstd",
        })
    }
}

impl<W: Write> Compressor<W> {
    /// Creates a compressor that writes to `out`. `None` passes bytes on unchanged. It uses the
    /// fastest level, because live packets do not wait.
    pub fn new(compression: Option<Compression>, out: W) -> io::Result<Compressor<W>> {
        Ok(Compressor(match compression {
            None => Encoder::None(out),
            Some(Compression::Gzip) => Encoder::Gzip(GzEncoder::new(out, flate2::Compression::fast())),
            Some(Compression::Zstd) => Encoder::Zstd(zstd::stream::write::Encoder::new(out, 1)?),
        }))
    }

    /// Returns the underlying writer.
    pub fn get_ref(&self) -> &W {
        match &self.0 {
            Encoder::None(out) => out,
            Encoder::Gzip(encoder) => encoder.get_ref(),
            Encoder::Zstd(encoder) => encoder.get_ref(),
        }
    }

    /// Writes the end of the compressed data.
    pub fn finish(self) -> io::Result<W> {
        match self.0 {
            Encoder::None(out) => Ok(out),
            Encoder::Gzip(encoder) => encoder.finish(),
            Encoder::Zstd(encoder) => encoder.finish(),
        }
    }
}

impl<W: Write> Write for Compressor<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Encoder::None(out) => out.write(bytes),
            Encoder::Gzip(encoder) => encoder.write(bytes),
            Encoder::Zstd(encoder) => encoder.write(bytes),
        }
    }

    /// Ends a compressed block (RFC 1951, section 3.2.4, an empty stored one; RFC 8878, section
    /// 3.1.1.2), so that everything before it can be decoded.
    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Encoder::None(out) => out.flush(),
            Encoder::Gzip(encoder) => encoder.flush(),
            Encoder::Zstd(encoder) => encoder.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Capture;
    use crate::PcapngWriter;
    use rdmascope_dissector::record::{LinkType, Record, Time};
    use std::io::Cursor;

    fn packet<W: Write>(writer: &mut PcapngWriter<W>, number: u64) {
        let record = Record {
            number,
            time: Time(number as i64),
            link: LinkType::ETHERNET,
            original_length: 100,
            dropped: 0,
            tap: Default::default(),
            data: &[number as u8; 100],
        };
        writer.packet(&record, "").unwrap();
    }

    /// The packets of a capture, up to its end.
    fn read(bytes: Vec<u8>) -> u64 {
        let mut capture = Capture::from_reader("compressed", Cursor::new(bytes)).unwrap();
        let mut packets = 0;
        while let Ok(Some(record)) = capture.next() {
            assert_eq!(record.data, [record.number as u8; 100]);
            packets += 1;
        }
        packets
    }

    #[test]
    fn flushed_packets_are_readable_before_the_end() {
        for compression in [None, Some(Compression::Gzip), Some(Compression::Zstd)] {
            let mut writer =
                PcapngWriter::new(Compressor::new(compression, Vec::new()).unwrap(), "rdmascope").unwrap();
            for number in 1..=1000 {
                packet(&mut writer, number);
            }
            writer.flush().unwrap();
            let flushed = writer.get_ref().get_ref().clone();
            assert_eq!(read(flushed), 1000, "{compression:?}");
            packet(&mut writer, 1001);
            let finished = writer.finish().unwrap().finish().unwrap();
            assert_eq!(read(finished), 1001, "{compression:?}");
        }
    }

    #[test]
    fn compression_follows_the_file_name() {
        for (name, expected) in [
            ("a.pcapng.gz", Some(Compression::Gzip)),
            ("a.pcapng.zst", Some(Compression::Zstd)),
            ("gz", None),
            ("a.pcapng", None),
        ] {
            assert_eq!(Compression::of_name(Path::new(name)), expected);
        }
    }
}
