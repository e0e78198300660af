//! Writes pcapng files: one section, an interface for each capture point, packets with comments.
//!
//! `framing/pcapng.rs`, which reads the blocks, shows their layout. Everything is little-endian
//! here.

use crate::framing::{Statistics, beginning};
use crate::note::{CUSTOM, Note, NoteKind};
use rdmascope_dissector::record::{LinkType, Record, Tap, Time};
use std::collections::HashMap;
use std::io::{self, Write};

/// The description of an interface.
#[derive(Clone, Debug)]
pub struct Description {
    /// Link type.
    pub link: LinkType,
    /// if_name.
    pub name: String,
    /// if_filter: the capture filter, in libpcap syntax.
    pub filter: String,
    /// Maximum number of bytes captured of a packet; 0: unlimited.
    pub snap_length: u32,
}

/// The description of a capture. Empty fields are omitted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Section<'a> {
    /// shb_userappl: the program that writes the file.
    pub application: &'a str,
    /// shb_os: the operating system.
    pub system: &'a str,
    /// opt_comment: any number of comments.
    pub comments: &'a [String],
}

/// Writes a capture in the pcapng format, with timestamps in nanoseconds.
#[derive(Debug)]
pub struct PcapngWriter<W> {
    out: W,
    /// Number of interfaces described so far.
    described: u32,
    /// Packets name the interfaces that were described. If false, each tap and link type gets an
    /// interface.
    are_named: bool,
    /// The interface of each tap and link type.
    interfaces: HashMap<(LinkType, Tap), u32>,
    /// The tap, link type and interface of the last packet.
    latest: Option<(LinkType, Tap, u32)>,
    /// Blocks not yet passed to `out`, and the block being written.
    held: Vec<u8>,
    /// Offset of the block being written.
    begun: usize,
    /// Number of bytes passed to `out`.
    handed: u64,
    /// Number of packets in `held`.
    held_packets: u64,
    /// Number of packets passed to `out`.
    handed_packets: u64,
}

/// Number of bytes to collect before passing blocks on. More would not stay in the CPU cache until
/// the system copies them.
const HOLD: usize = 256 << 10;

impl<W: Write> PcapngWriter<W> {
    /// Maximum length of a comment in bytes. Longer comments are cut.
    pub const LONGEST_COMMENT: usize = u16::MAX as usize;
    /// Maximum size of a note in one block, in bytes.
    pub const LONGEST_NOTE: usize = 1 << 20;

    /// Starts a capture. `application` is the program that writes it.
    pub fn new(out: W, application: &str) -> io::Result<PcapngWriter<W>> {
        PcapngWriter::begin_section(out, &Section { application, ..Section::default() })
    }

    /// Starts a capture with a full description.
    pub fn begin_section(out: W, section: &Section<'_>) -> io::Result<PcapngWriter<W>> {
        const UNKNOWN_LENGTH: u64 = u64::MAX;
        const COMMENT: u16 = 1;
        const SYSTEM: u16 = 3;
        const APPLICATION: u16 = 4;
        let held = Vec::with_capacity(HOLD + (HOLD >> 2));
        let mut writer = PcapngWriter {
            out,
            described: 0,
            are_named: false,
            interfaces: HashMap::new(),
            latest: None,
            held,
            begun: 0,
            handed: 0,
            held_packets: 0,
            handed_packets: 0,
        };
        writer.begin(0x0a0d_0d0a);
        writer.held.extend([0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0]);
        writer.held.extend(UNKNOWN_LENGTH.to_le_bytes());
        for (code, text) in section
            .comments
            .iter()
            .map(|comment| (COMMENT, comment.as_str()))
            .chain([(SYSTEM, section.system), (APPLICATION, section.application)])
            .filter(|(_, text)| !text.is_empty())
        {
            let text = beginning(text, Self::LONGEST_COMMENT);
            writer.option(code, text.as_bytes());
        }
        writer.end_of_options();
        writer.end()?;
        Ok(writer)
    }

    /// Describes the interfaces. Call it before the first packet. The [tap](Record::tap) of a
    /// packet then selects its interface.
    pub fn describe(&mut self, interfaces: &[Description]) -> io::Result<()> {
        for Description { link, name, filter, snap_length } in interfaces {
            self.new_interface(
                *link,
                *snap_length,
                &[(2, name.as_bytes()), (11, &[&[0], filter.as_bytes()].concat())],
            )?;
        }
        self.are_named = true;
        Ok(())
    }

    /// Writes the counts of an interface as of `time`, with an optional comment.
    pub fn statistics(
        &mut self,
        interface: u32,
        time: Time,
        counts: &Statistics,
        comment: &str,
    ) -> io::Result<()> {
        const COMMENT: u16 = 1;
        let time = Self::time(time);
        self.begin(5);
        for word in [interface, (time >> 32) as u32, time as u32] {
            self.held.extend(word.to_le_bytes());
        }
        if !comment.is_empty() {
            let comment = beginning(comment, Self::LONGEST_COMMENT);
            self.option(COMMENT, comment.as_bytes());
        }
        for (code, at) in [(2, counts.start), (3, counts.end)] {
            let Some(at) = at.map(Self::time) else { continue };
            self.option(code, &[(at >> 32) as u32, at as u32].map(u32::to_le_bytes).concat());
        }
        for (code, count) in [
            (4, counts.received),
            (5, counts.dropped_by_interface),
            (6, counts.accepted),
            (7, counts.dropped_by_system),
            (8, counts.delivered),
        ] {
            if let Some(count) = count {
                self.option(code, &count.to_le_bytes());
            }
        }
        self.end_of_options();
        self.end()
    }

    /// Writes a note, as custom blocks that other programs may copy. Notes longer than
    /// [`Self::LONGEST_NOTE`] bytes are split into several blocks.
    pub fn note(&mut self, kind: NoteKind, bytes: &[u8]) -> io::Result<()> {
        for part in bytes.chunks(Self::LONGEST_NOTE) {
            self.begin(CUSTOM);
            self.held.extend(Note::head(kind, part.len() as u32));
            self.padded(part);
            self.end()?;
        }
        Ok(())
    }

    /// Passes everything written so far to the system.
    pub fn flush(&mut self) -> io::Result<()> {
        self.hand_on()?;
        self.out.flush()
    }

    /// Returns the underlying writer.
    pub fn get_ref(&self) -> &W {
        &self.out
    }

    /// Returns the number of bytes passed to the writer, in whole blocks. Failed writes do not
    /// count.
    pub fn handed_on(&self) -> u64 {
        self.handed
    }

    /// Returns the number of packets in the bytes that were [passed on](PcapngWriter::handed_on).
    pub fn packets_handed_on(&self) -> u64 {
        self.handed_packets
    }

    /// Returns the number of bytes written so far, passed on or not.
    pub fn written(&self) -> u64 {
        self.handed + self.held.len() as u64
    }

    fn time(time: Time) -> u64 {
        u64::try_from(time.0).unwrap_or(0)
    }

    /// Writes a packet, with an optional comment. The format has no times before 1970; they become
    /// the beginning of 1970.
    pub fn packet(&mut self, record: &Record<'_>, comment: &str) -> io::Result<()> {
        self.packet_with(record, &[comment])
    }

    /// As [`PcapngWriter::packet`], with several comments. Empty ones are omitted.
    pub fn packet_with(&mut self, record: &Record<'_>, comments: &[&str]) -> io::Result<()> {
        let interface = if self.are_named { record.tap.interface } else { self.interface(record)? };
        let time = Self::time(record.time);
        let captured = u32::try_from(record.data.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        self.begin(6);
        let fixed = [interface, (time >> 32) as u32, time as u32, captured, record.original_length];
        self.held.extend_from_slice(fixed.map(u32::to_le_bytes).as_flattened());
        self.padded(record.data);
        if record.dropped > 0 || comments.iter().any(|comment| !comment.is_empty()) {
            self.options_of_packet(comments, record.dropped);
        }
        self.held_packets += 1;
        self.end()
    }

    #[cold]
    fn options_of_packet(&mut self, comments: &[&str], dropped: u32) {
        const COMMENT: u16 = 1;
        const DROPPED: u16 = 4;
        for comment in comments.iter().filter(|comment| !comment.is_empty()) {
            let comment = beginning(comment, Self::LONGEST_COMMENT);
            self.option(COMMENT, comment.as_bytes());
        }
        if dropped > 0 {
            self.option(DROPPED, &u64::from(dropped).to_le_bytes());
        }
        self.end_of_options();
    }

    /// Ends the capture and flushes the underlying writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        Ok(self.out)
    }

    /// Returns the interface number of a packet. A new interface is described first.
    fn interface(&mut self, record: &Record<'_>) -> io::Result<u32> {
        let (link, tap) = (record.link, record.tap);
        if let Some((_, _, number)) = self.latest.filter(|(of, at, _)| (*of, *at) == (link, tap)) {
            return Ok(number);
        }
        let number = match self.interfaces.get(&(link, tap)) {
            Some(number) => *number,
            None => {
                let number = self.new_interface(link, 0, &[])?;
                self.interfaces.insert((link, tap), number);
                number
            }
        };
        self.latest = Some((link, tap, number));
        Ok(number)
    }

    /// Describes an interface with these options and timestamps in nanoseconds.
    fn new_interface(
        &mut self,
        link: LinkType,
        snap_length: u32,
        options: &[(u16, &[u8])],
    ) -> io::Result<u32> {
        const TIME_RESOLUTION: u16 = 9;
        self.begin(1);
        // Link type and reserved bytes.
        self.held.extend(u32::from(link.0).to_le_bytes());
        self.held.extend(snap_length.to_le_bytes());
        options.iter().for_each(|(code, value)| self.option(*code, value));
        self.option(TIME_RESOLUTION, &[9]);
        self.end_of_options();
        self.end()?;
        let number = self.described;
        self.described += 1;
        Ok(number)
    }

    /// Appends an option. `value` has at most 65,535 bytes.
    fn option(&mut self, code: u16, value: &[u8]) {
        self.held.extend(code.to_le_bytes());
        self.held.extend((value.len() as u16).to_le_bytes());
        self.padded(value);
    }

    fn end_of_options(&mut self) {
        self.held.extend([0; 4]);
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
        self.held.extend_from_slice(&[0; 3][..bytes.len().wrapping_neg() % 4]);
    }

    /// Starts a block of this type. Its length is filled in at its end.
    fn begin(&mut self, kind: u32) {
        self.begun = self.held.len();
        self.held.extend_from_slice([kind, 0].map(u32::to_le_bytes).as_flattened());
    }

    /// Ends the block. Blocks are passed on when enough bytes are collected.
    fn end(&mut self) -> io::Result<()> {
        let length =
            u32::try_from(self.held.len() - self.begun + 4).map_err(|_| io::ErrorKind::InvalidInput)?;
        let length = length.to_le_bytes();
        self.held.extend_from_slice(&length);
        self.held[self.begun + 4..self.begun + 8].copy_from_slice(&length);
        if self.held.len() >= HOLD { self.hand_on() } else { Ok(()) }
    }

    /// Passes the collected blocks to `out`. After an error they are not retried, because parts of
    /// them may have been written already.
    fn hand_on(&mut self) -> io::Result<()> {
        let length = self.held.len() as u64;
        let written = self.out.write_all(&self.held);
        self.held.clear();
        let packets = core::mem::take(&mut self.held_packets);
        written?;
        self.handed += length;
        self.handed_packets += packets;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
