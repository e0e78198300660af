//! pcapng files written: one section, an interface for each link type, packets with comments.
//!
//! The blocks are drawn in `framing/pcapng.rs`, which reads them. Everything is little-endian here.

use crate::framing::Statistics;
use rdmascope_dissector::record::{LinkType, Record, Time};
use std::io::{self, Write};

/// What a capture says of one of its interfaces.
#[derive(Clone, Debug)]
pub struct Description {
    /// Its link type.
    pub link: LinkType,
    /// if_name.
    pub name: String,
    /// if_filter: what passed, in the syntax of libpcap.
    pub filter: String,
    /// The bytes of a packet that are captured at most; 0: all.
    pub snap_length: u32,
}

/// Writes a capture in the pcapng format, with time stamps in nanoseconds.
#[derive(Debug)]
pub struct PcapngWriter<W> {
    out: W,
    /// The link types of the interfaces described so far, in their order.
    interfaces: Vec<LinkType>,
    /// The interfaces are those of a capture, which packets name; else there is one for each link type.
    are_named: bool,
    /// The body of the block that is being written.
    body: Vec<u8>,
}

impl<W: Write> PcapngWriter<W> {
    /// The longest comment of a packet in bytes; of a longer one the rest is left out.
    pub const LONGEST_COMMENT: usize = u16::MAX as usize;

    /// Begins a capture. `application` is who writes it.
    pub fn new(out: W, application: &str) -> io::Result<PcapngWriter<W>> {
        const UNKNOWN_LENGTH: u64 = u64::MAX;
        const APPLICATION: u16 = 4;
        let mut writer = PcapngWriter { out, interfaces: Vec::new(), are_named: false, body: Vec::new() };
        writer.body.extend([0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0]);
        writer.body.extend(UNKNOWN_LENGTH.to_le_bytes());
        writer.option(APPLICATION, application.as_bytes());
        writer.end_of_options();
        writer.block(0x0a0d_0d0a)?;
        Ok(writer)
    }

    /// Describes the interfaces, before the first packet. Each packet is then of the interface that its [tap](Record::tap) names.
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

    /// Writes the counts of an interface, by its number, as of `time`.
    pub fn statistics(&mut self, interface: u32, time: Time, counts: &Statistics) -> io::Result<()> {
        let time = Self::time(time);
        for word in [interface, (time >> 32) as u32, time as u32] {
            self.body.extend(word.to_le_bytes());
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
        self.block(5)
    }

    /// What was written so far is handed to the system.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Where it is written to.
    pub fn get_ref(&self) -> &W {
        &self.out
    }

    fn time(time: Time) -> u64 {
        u64::try_from(time.0).unwrap_or(0)
    }

    /// Writes a packet, with a comment where there is one to make. A time before 1970, which the format cannot express, becomes
    /// the beginning of 1970.
    pub fn packet(&mut self, record: &Record<'_>, comment: &str) -> io::Result<()> {
        const COMMENT: u16 = 1;
        const DROPPED: u16 = 4;
        let interface = if self.are_named { record.tap.interface } else { self.interface(record.link)? };
        let time = Self::time(record.time);
        let captured = u32::try_from(record.data.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        for word in [interface, (time >> 32) as u32, time as u32, captured, record.original_length] {
            self.body.extend(word.to_le_bytes());
        }
        self.padded(record.data);
        if !comment.is_empty() {
            let comment = &comment[..comment.floor_char_boundary(Self::LONGEST_COMMENT)];
            self.option(COMMENT, comment.as_bytes());
        }
        if self.are_named && record.dropped > 0 {
            self.option(DROPPED, &u64::from(record.dropped).to_le_bytes());
        }
        if !comment.is_empty() || self.are_named && record.dropped > 0 {
            self.end_of_options();
        }
        self.block(6)
    }

    /// Ends the capture; what it was written to is flushed.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    /// The number of the interface of this link type. One that is new is described first.
    fn interface(&mut self, link: LinkType) -> io::Result<u32> {
        if let Some(known) = self.interfaces.iter().position(|known| *known == link) {
            return Ok(known as u32);
        }
        self.new_interface(link, 0, &[])
    }

    /// Describes an interface, with these options. Time stamps are in nanoseconds.
    fn new_interface(
        &mut self,
        link: LinkType,
        snap_length: u32,
        options: &[(u16, &[u8])],
    ) -> io::Result<u32> {
        const TIME_RESOLUTION: u16 = 9;
        // Link type and reserved bytes.
        self.body.extend(u32::from(link.0).to_le_bytes());
        self.body.extend(snap_length.to_le_bytes());
        options.iter().for_each(|(code, value)| self.option(*code, value));
        self.option(TIME_RESOLUTION, &[9]);
        self.end_of_options();
        self.block(1)?;
        self.interfaces.push(link);
        Ok(self.interfaces.len() as u32 - 1)
    }

    /// Appends an option. `value` has at most 65,535 bytes.
    fn option(&mut self, code: u16, value: &[u8]) {
        self.body.extend(code.to_le_bytes());
        self.body.extend((value.len() as u16).to_le_bytes());
        self.padded(value);
    }

    fn end_of_options(&mut self) {
        self.body.extend([0; 4]);
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.body.extend(bytes);
        self.body.resize(self.body.len().next_multiple_of(4), 0);
    }

    /// Writes the body as a block of this type, and empties it.
    fn block(&mut self, kind: u32) -> io::Result<()> {
        let length = u32::try_from(self.body.len() + 12).map_err(|_| io::ErrorKind::InvalidInput)?;
        self.out.write_all(&kind.to_le_bytes())?;
        self.out.write_all(&length.to_le_bytes())?;
        self.out.write_all(&self.body)?;
        self.out.write_all(&length.to_le_bytes())?;
        self.body.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
