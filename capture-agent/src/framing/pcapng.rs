//! The pcapng format.
//!
//! ```text
//! block:  type 4 | total length 4 | body, padded to a multiple of 4 | total length 4
//! section (0a0d0d0a): byte-order magic 4 | major 2 | minor 2 | section length 8 | options
//! interface (1):      link type 2 | reserved 2 | snap length 4 | options
//! obsolete (2):       interface 2 | drops 2 | time 8 | captured 4 | original 4 | data | options
//! simple packet (3):  original 4 | data
//! statistics (5):     interface 4 | time 8 | options
//! enhanced (6):       interface 4 | time 8 | captured 4 | original 4 | data | options
//! custom (0bad):      Private Enterprise Number 4 | data; see `note.rs`
//! option: code 2 | length 2 | value, padded to a multiple of 4
//! time:   two words of 4, the upper one first
//! ```

// pcap-parser parses the blocks, except for:
//
// - timestamps, because pcap-parser computes wrong resolutions and offsets for some captures;
// - enhanced packets, because its parser takes 111 ns a packet instead of 26 (`cargo bench -p
//   rdmascope-tests -- framing`, on a busy machine) and collects options in a `Vec`;
// - the fixed fields of interface descriptions and statistics, for the same `Vec`: up to ten bytes
//   of memory for each byte of a block;
// - 64-bit option values, which it reads as little-endian in all sections;
// - the obsolete packet block, which it does not support;
// - blocks that it rejects, to locate the damage.

use super::interfaces::{self, Interfaces, Statistics};
use super::{Fault, Found, Framed, LIMIT, Order, Trouble};
use crate::note::{CUSTOM, ENTERPRISE, Note};
use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{EPB_MAGIC, IDB_MAGIC, ISB_MAGIC, PcapError, SHB_MAGIC, SPB_MAGIC, UnknownBlock};
use rdmascope_dissector::record::{LinkType, Time};
use std::borrow::Cow;
use std::sync::Arc;

/// The obsolete packet block.
const PACKET: u32 = 2;

const OPTION_END: u16 = 0;

/// Block type and both lengths.
const FRAME: usize = 12;
/// Offset of the captured bytes in enhanced and obsolete packet blocks.
const PACKET_DATA: usize = 28;
/// Offset of the captured bytes in a simple packet block.
const SIMPLE_PACKET_DATA: usize = 12;
/// Maximum number of interfaces of a section, so that a capture cannot grow the table without
/// bound.
const INTERFACES: usize = 65_536;

/// The current section.
#[derive(Debug, Default)]
pub(super) struct Section {
    order: Order,
    interfaces: Vec<Interface>,
    /// Number of the section, counted from 1.
    number: u64,
    /// Number of changes to the interfaces.
    changes: u64,
    /// Packets dropped since the last packet block, according to interface statistics.
    dropped: u32,
    /// The last rdmascope note found.
    pub(super) note: Option<Box<Note>>,
    /// shb_os.
    operating_system: Option<String>,
}

/// A position in a section. Marks with equal interface tables share one.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    order: Order,
    interfaces: Arc<[Interface]>,
    number: u64,
    changes: u64,
    /// [`Framed::dropped`] of the record at the mark.
    dropped: u32,
}

impl Mark {
    /// Size in bytes of its contents that are not shared with the mark `before`.
    pub(super) fn own_bytes(&self, before: Option<&Mark>) -> usize {
        match before {
            Some(before) if Arc::ptr_eq(&self.interfaces, &before.interfaces) => 0,
            _ => size_of_val(&*self.interfaces),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link: LinkType,
    /// 0: unlimited.
    snap_length: u32,
    clock: Clock,
    /// Index of its public description.
    kept: Option<u32>,
    /// Packets dropped so far, according to its statistics and its packets.
    dropped: u64,
}

/// The timestamp format of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Clock {
    resolution: Resolution,
    /// Offset in nanoseconds.
    offset: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resolution {
    /// Nanoseconds per tick.
    Multiple(u64),
    /// Ticks per nanosecond.
    Fraction(u64),
    /// A second has two to this power ticks.
    PowerOfTwo(u8),
}

impl Clock {
    /// The default of the format: microseconds.
    const DEFAULT: Clock = Clock { resolution: Resolution::Multiple(1000), offset: 0 };

    /// Converts a timestamp. Values beyond the range of `i64` nanoseconds are clamped.
    #[inline]
    fn time(self, ticks: u64) -> Time {
        let nanoseconds = match self.resolution {
            Resolution::Multiple(by) => ticks.saturating_mul(by),
            Resolution::Fraction(by) => ticks / by,
            Resolution::PowerOfTwo(exponent) => {
                let nanoseconds = (u128::from(ticks) * 1_000_000_000) >> exponent;
                u64::try_from(nanoseconds).unwrap_or(u64::MAX)
            }
        };
        Time(self.offset.saturating_add_unsigned(nanoseconds))
    }
}

impl Resolution {
    /// Decodes `if_tsresol`: the high bit selects base 2 or 10, the other bits are the negative
    /// exponent.
    fn from_option(value: u8) -> Resolution {
        let exponent = value & 0x7f;
        if value & 0x80 != 0 {
            return Resolution::PowerOfTwo(exponent);
        }
        match exponent {
            0..=9 => Resolution::Multiple(10u64.pow(u32::from(9 - exponent))),
            // With more than 10^19 ticks a nanosecond, a 64-bit count stays below one nanosecond.
            _ => 10u64
                .checked_pow(u32::from(exponent - 9))
                .map_or(Resolution::Multiple(0), Resolution::Fraction),
        }
    }
}

impl Section {
    /// Returns the position of the last record, before which `dropped` packets were dropped.
    /// `before` is an earlier mark.
    pub(super) fn mark(&self, dropped: u32, before: Option<&Mark>) -> Mark {
        let shared = before.filter(|mark| (mark.number, mark.changes) == (self.number, self.changes));
        let interfaces =
            shared.map_or_else(|| Arc::from(&*self.interfaces), |mark| Arc::clone(&mark.interfaces));
        Mark { order: self.order, interfaces, number: self.number, changes: self.changes, dropped }
    }

    /// Continues at a mark.
    pub(super) fn resume(mark: &Mark) -> Section {
        Section {
            order: mark.order,
            interfaces: mark.interfaces.to_vec(),
            number: mark.number,
            changes: mark.changes,
            dropped: mark.dropped,
            note: None,
            // The descriptions of interfaces were reported before.
            operating_system: None,
        }
    }

    /// Finds the next item. Descriptions of interfaces are added to `listed`.
    #[inline]
    pub(super) fn next(&mut self, bytes: &[u8], listed: &mut Interfaces) -> Result<Found, Trouble> {
        let Some(&[t0, t1, t2, t3, l0, l1, l2, l3, _, _, _, _]) = bytes.first_chunk::<FRAME>() else {
            return Err(Trouble::Short(FRAME));
        };
        let kind = self.order.u32([t0, t1, t2, t3]);
        let total = self.order.u32([l0, l1, l2, l3]);
        let fits = total as usize <= LIMIT && total.is_multiple_of(4);
        let found = match kind {
            // A section header uses the byte order of its own section.
            SHB_MAGIC => self.section_header(bytes),
            _ if !fits => None,
            EPB_MAGIC | PACKET => self.packet(kind, bytes, total as usize, listed),
            SPB_MAGIC => self.simple_packet(bytes),
            IDB_MAGIC => self.interface_description(bytes, listed),
            ISB_MAGIC => self.interface_statistics(bytes, listed),
            CUSTOM => self.custom(bytes),
            _ => self.framed(bytes).map(|block| nothing(block.block_len1)),
        };
        found.unwrap_or_else(|| self.refused(bytes))
    }

    /// Parses an enhanced or obsolete packet block of `total` bytes.
    #[inline]
    fn packet(
        &mut self,
        kind: u32,
        bytes: &[u8],
        total: usize,
        listed: &mut Interfaces,
    ) -> Option<Result<Found, Trouble>> {
        let block = bytes.get(..total)?;
        let room = total.checked_sub(PACKET_DATA + 4)?;
        let captured_length = self.word(block, 20) as usize;
        if captured_length > room || self.word(block, total - 4) as usize != total {
            return None;
        }
        let obsolete = kind == PACKET;
        let number = if obsolete { self.half(block, 8).into() } else { self.word(block, 8) };
        let interface = match self.interface(number, 8) {
            Ok(interface) => *interface,
            Err(trouble) => return Some(Err(trouble)),
        };
        let mut dropped_before = core::mem::take(&mut self.dropped);
        // The block length is a multiple of four, so `room` is too.
        let padded = captured_length.next_multiple_of(4);
        if obsolete || padded < room {
            let dropped = match obsolete {
                // All ones: the number of drops is unknown.
                true => Some(self.half(block, 10)).filter(|drops| *drops != u16::MAX).map_or(0, u64::from),
                false => self.dropped(&block[PACKET_DATA + padded..total - 4]),
            };
            // Statistics and packets count the same drops.
            let more = dropped.saturating_sub(dropped_before.into());
            if more > 0 {
                let known = &mut self.interfaces[number as usize].dropped;
                *known = known.saturating_add(more);
                self.changes += 1;
                dropped_before = dropped_before.saturating_add(saturate(more));
            }
            if let Some(kept) = listed.get_mut(interface.kept) {
                kept.dropped_before_packets = kept.dropped_before_packets.saturating_add(dropped);
            }
        }
        Some(Ok(Found::Record(Framed {
            number: 0,
            time: interface
                .clock
                .time(u64::from(self.word(block, 12)) << 32 | u64::from(self.word(block, 16))),
            link: interface.link,
            original_length: self.word(block, 24),
            dropped: dropped_before,
            interface: number,
            start: PACKET_DATA,
            end: PACKET_DATA + captured_length,
            consumed: total,
        })))
    }

    /// Returns epb_dropcount from the options of a packet. Options after a damaged one are ignored;
    /// the packet itself is usable.
    fn dropped(&self, options: &[u8]) -> u64 {
        const DROP_COUNT: u16 = 4;
        let mut options = Options::new(self.order, options);
        let count = options.find(|option| option.code == DROP_COUNT);
        count.and_then(|option| self.long(option.value?)).unwrap_or(0)
    }

    /// Parses a simple packet block. It belongs to the first interface and has neither a captured
    /// length nor a time, so its time is the beginning of 1970.
    fn simple_packet(&mut self, bytes: &[u8]) -> Option<Result<Found, Trouble>> {
        let parsed = match self.order {
            Order::Little => pcap_parser::parse_simplepacketblock_le(bytes),
            Order::Big => pcap_parser::parse_simplepacketblock_be(bytes),
        };
        let (_, block) = parsed.ok().filter(|(_, block)| block.block_len1 == block.block_len2)?;
        let dropped = core::mem::take(&mut self.dropped);
        Some(self.interface(0, 0).map(|interface| {
            let snap_length = match interface.snap_length {
                0 => usize::MAX,
                limit => limit as usize,
            };
            Found::Record(Framed {
                number: 0,
                time: Time(0),
                link: interface.link,
                original_length: block.origlen,
                dropped,
                interface: 0,
                start: SIMPLE_PACKET_DATA,
                end: SIMPLE_PACKET_DATA + block.packet_data().len().min(snap_length),
                consumed: block.block_len1 as usize,
            })
        }))
    }

    #[inline]
    fn interface(&self, number: u32, at: usize) -> Result<&Interface, Trouble> {
        self.interfaces.get(number as usize).ok_or(Trouble::Fault {
            at,
            fault: Fault::Interface { found: number, described: self.interfaces.len() },
        })
    }

    #[cold]
    fn section_header(&mut self, bytes: &[u8]) -> Option<Result<Found, Trouble>> {
        const OPERATING_SYSTEM: u16 = 3;
        // A section header uses the byte order of its own section.
        let mut section = Section {
            order: self.own_order(bytes).ok()?,
            number: self.number + 1,
            dropped: self.dropped,
            ..Section::default()
        };
        let UnknownBlock { block_len1, data, .. } = section.framed(bytes)?;
        let (header, options) = data.split_at_checked(16)?;
        let found = (section.half(header, 4), section.half(header, 6));
        // Unreadable options are ignored: no packet depends on them.
        let listed = Options::new(section.order, options).find(|option| option.code == OPERATING_SYSTEM);
        section.operating_system = listed.and_then(|option| interfaces::text(option.value?));
        *self = section;
        if found.0 != 1 {
            return Some(Err(Trouble::Fault { at: 12, fault: Fault::Version { expected: 1, found } }));
        }
        Some(nothing(block_len1))
    }

    #[cold]
    fn interface_description(
        &mut self,
        bytes: &[u8],
        listed: &mut Interfaces,
    ) -> Option<Result<Found, Trouble>> {
        let UnknownBlock { block_len1, data, .. } = self.framed(bytes)?;
        let (header, options) = data.split_at_checked(8)?;
        Some(self.describe(header, options, listed).and_then(|()| nothing(block_len1)))
    }

    /// Adds an interface to the section.
    fn describe(&mut self, header: &[u8], options: &[u8], listed: &mut Interfaces) -> Result<(), Trouble> {
        const NAME: u16 = 2;
        const DESCRIPTION: u16 = 3;
        const TIME_RESOLUTION: u16 = 9;
        const FILTER: u16 = 11;
        const OPERATING_SYSTEM: u16 = 12;
        const TIME_OFFSET: u16 = 14;
        /// Offset of the options in the block.
        const OPTIONS: usize = 16;
        if self.interfaces.len() == INTERFACES {
            return Err(Trouble::Fault { at: 0, fault: Fault::Interfaces { limit: INTERFACES } });
        }
        let link = LinkType(self.half(header, 0));
        let mut shown = interfaces::Interface::new(self.number, self.interfaces.len() as u32, link);
        shown.operating_system.clone_from(&self.operating_system);
        let mut clock = Clock::DEFAULT;
        for option in Options::new(self.order, options) {
            let Opt { at, code, length, value } = option;
            let fault = Trouble::Fault { at: OPTIONS + at, fault: Fault::Option { code, length } };
            let Some(value) = value else { return Err(fault) };
            match code {
                TIME_RESOLUTION => match *value {
                    [value] => clock.resolution = Resolution::from_option(value),
                    _ => return Err(fault),
                },
                TIME_OFFSET => match self.long(value) {
                    Some(seconds) => clock.offset = (seconds as i64).saturating_mul(1_000_000_000),
                    None => return Err(fault),
                },
                NAME => shown.name = interfaces::text(value),
                DESCRIPTION => shown.description = interfaces::text(value),
                FILTER => shown.filter = interfaces::filter(value),
                OPERATING_SYSTEM => shown.operating_system = interfaces::text(value),
                _ => {}
            }
        }
        let kept = listed.describe(shown);
        self.changes += 1;
        self.interfaces.push(Interface { link, snap_length: self.word(header, 4), clock, kept, dropped: 0 });
        Ok(())
    }

    /// Parses interface statistics. Unreadable ones are ignored: no packet depends on them.
    #[cold]
    fn interface_statistics(
        &mut self,
        bytes: &[u8],
        listed: &mut Interfaces,
    ) -> Option<Result<Found, Trouble>> {
        let UnknownBlock { block_len1, data, .. } = self.framed(bytes)?;
        if let Some((header, options)) = data.split_at_checked(12)
            && let number = self.word(header, 0) as usize
            && let Some(&interface) = self.interfaces.get(number)
        {
            let mut statistics = Statistics::default();
            let mut kept = listed.get_mut(interface.kept);
            for option in Options::new(self.order, options) {
                if let Some(value) = option.value.and_then(|value| self.long(value)) {
                    self.count(option.code, value, interface.clock, &mut statistics);
                    if let Some(kept) = &mut kept {
                        self.count(option.code, value, interface.clock, &mut kept.statistics);
                    }
                }
            }
            let more = statistics.dropped().saturating_sub(interface.dropped);
            if more > 0 {
                self.interfaces[number].dropped += more;
                self.changes += 1;
                self.dropped = self.dropped.saturating_add(saturate(more));
            }
        }
        Some(nothing(block_len1))
    }

    /// Stores an option of interface statistics.
    fn count(&self, code: u16, value: u64, clock: Clock, statistics: &mut interfaces::Statistics) {
        // Timestamps have their upper half first, in both byte orders.
        let time = match self.order {
            Order::Little => clock.time(value.rotate_left(32)),
            Order::Big => clock.time(value),
        };
        match code {
            2 => statistics.start = Some(time),
            3 => statistics.end = Some(time),
            4 => statistics.received = Some(value),
            5 => statistics.dropped_by_interface = Some(value),
            6 => statistics.accepted = Some(value),
            7 => statistics.dropped_by_system = Some(value),
            8 => statistics.delivered = Some(value),
            _ => {}
        }
    }

    /// Parses a custom block, which may be an rdmascope note.
    #[cold]
    fn custom(&mut self, bytes: &[u8]) -> Option<Result<Found, Trouble>> {
        let UnknownBlock { block_len1, data, .. } = self.framed(bytes)?;
        if let Some((_, data)) =
            data.split_at_checked(4).filter(|(number, _)| self.word(number, 0) == ENTERPRISE)
        {
            self.note = Note::read(data).map(Box::new);
        }
        Some(nothing(block_len1))
    }

    /// Parses a block of any type. Only the lengths are checked.
    fn framed<'b>(&self, bytes: &'b [u8]) -> Option<UnknownBlock<'b>> {
        let parsed = match self.order {
            Order::Little => pcap_parser::parse_unknownblock_le(bytes),
            Order::Big => pcap_parser::parse_unknownblock_be(bytes),
        };
        let (_, block) = parsed.ok()?;
        // pcap-parser checks neither.
        let fits = block.block_len1 as usize <= LIMIT && block.block_len1.is_multiple_of(4);
        (fits && block.block_len1 == block.block_len2).then_some(block)
    }

    /// Determines why a block was rejected: missing bytes, or damage. An undamaged block is
    /// skipped, because no packet depends on it.
    #[cold]
    fn refused(&self, bytes: &[u8]) -> Result<Found, Trouble> {
        let fault = |at, fault| Err(Trouble::Fault { at, fault });
        let Some(frame) = bytes.first_chunk::<FRAME>() else {
            return Err(Trouble::Short(FRAME));
        };
        let kind = self.word(frame, 0);
        let order = if kind == SHB_MAGIC { self.own_order(bytes)? } else { self.order };
        let word =
            |block: &[u8], at: usize| order.u32([block[at], block[at + 1], block[at + 2], block[at + 3]]);
        let total = word(frame, 4);
        let length = total as usize;
        let least = FRAME
            + match kind {
                SHB_MAGIC => 16,
                IDB_MAGIC => 8,
                EPB_MAGIC | PACKET => 20,
                SPB_MAGIC => 4,
                _ => 0,
            };
        if length < least || length > LIMIT || !length.is_multiple_of(4) {
            return fault(4, Fault::BlockLength { found: total, least: least as u32 });
        }
        let Some(block) = bytes.get(..length) else {
            return Err(Trouble::Short(length));
        };
        let trailer = word(block, length - 4);
        if trailer != total {
            return fault(length - 4, Fault::BlockTrailer { expected: total, found: trailer });
        }
        match kind {
            EPB_MAGIC | PACKET => {
                let number = if kind == PACKET { self.half(block, 8).into() } else { word(block, 8) };
                self.interface(number, 8)?;
                let room = total - PACKET_DATA as u32 - 4;
                fault(20, Fault::CapturedLength { found: word(block, 20), room })
            }
            SHB_MAGIC | IDB_MAGIC | SPB_MAGIC => fault(0, Fault::Block { kind }),
            _ => Ok(Found::Nothing { consumed: length }),
        }
    }

    /// Returns the byte order of the section that begins here.
    fn own_order(&self, bytes: &[u8]) -> Result<Order, Trouble> {
        match bytes.get(8..12) {
            Some([0x4d, 0x3c, 0x2b, 0x1a]) => Ok(Order::Little),
            Some([0x1a, 0x2b, 0x3c, 0x4d]) => Ok(Order::Big),
            Some(&[a, b, c, d]) => {
                Err(Trouble::Fault { at: 8, fault: Fault::ByteOrder { found: [a, b, c, d] } })
            }
            _ => Err(Trouble::Short(FRAME)),
        }
    }

    /// Reads 16 bits at `at`. The caller has checked the length.
    #[inline]
    fn half(&self, bytes: &[u8], at: usize) -> u16 {
        self.order.u16([bytes[at], bytes[at + 1]])
    }

    /// Reads 32 bits at `at`. The caller has checked the length.
    #[inline]
    fn word(&self, bytes: &[u8], at: usize) -> u32 {
        self.order.u32([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
    }

    /// Reads a 64-bit value. `None` if `value` has another length.
    fn long(&self, value: &[u8]) -> Option<u64> {
        let &value = <&[u8; 8]>::try_from(value).ok()?;
        Some(match self.order {
            Order::Little => u64::from_le_bytes(value),
            Order::Big => u64::from_be_bytes(value),
        })
    }
}

/// Clamps a packet count to 32 bits.
fn saturate(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Skips a block without a packet.
fn nothing(length: u32) -> Result<Found, Trouble> {
    Ok(Found::Nothing { consumed: length as usize })
}

/// Iterates over the options of a block, up to opt_endofopt.
struct Options<'a> {
    order: Order,
    all: &'a [u8],
    rest: &'a [u8],
}

/// An option of a block.
struct Opt<'a> {
    /// Offset from the first option.
    at: usize,
    code: u16,
    length: u16,
    /// The value without padding. `None` if the option exceeds its block; it is then the last one.
    value: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn new(order: Order, options: &'a [u8]) -> Options<'a> {
        Options { order, all: options, rest: options }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Opt<'a>;

    fn next(&mut self) -> Option<Opt<'a>> {
        let at = self.all.len() - self.rest.len();
        let &[c0, c1, l0, l1] = self.rest.first_chunk()?;
        let (code, length) = (self.order.u16([c0, c1]), self.order.u16([l0, l1]));
        if code == OPTION_END {
            return None;
        }
        let parsed = match self.order {
            Order::Little => pcap_parser::parse_option_le::<PcapError<&[u8]>>(self.rest),
            Order::Big => pcap_parser::parse_option_be(self.rest),
        };
        let (rest, padded) = match parsed {
            Ok((rest, option)) => match option.value {
                Cow::Borrowed(value) => (rest, Some(value)),
                Cow::Owned(_) => (rest, None),
            },
            Err(_) => (&[][..], None),
        };
        self.rest = rest;
        Some(Opt { at, code, length, value: padded.and_then(|value| value.get(..usize::from(length))) })
    }
}
