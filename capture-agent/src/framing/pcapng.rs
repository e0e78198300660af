//! The pcapng format.
//!
//! ```text
//! block:  type 4 | total length 4 | body, padded to a multiple of 4 | total length 4
//! section header (0a0d0d0a):      byte-order magic 4 | major 2 | minor 2 | section length 8 | options
//! interface description (1):      link type 2 | reserved 2 | snap length 4 | options
//! packet (2), obsolete:           interface 2 | drops 2 | time stamp 4 + 4 | captured 4 | original 4 | bytes, options
//! simple packet (3):              original 4 | bytes
//! enhanced packet (6):            interface 4 | time stamp 4 + 4 | captured 4 | original 4 | bytes, options
//! option: code 2 | length 2 | value, padded to a multiple of 4
//! ```

use super::{Fault, Found, LIMIT, Order, Trouble};
use rdmascope_dissector::record::{LinkType, Time};
use std::sync::Arc;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

const OPTION_END: u16 = 0;
const OPTION_TIME_RESOLUTION: u16 = 9;
const OPTION_TIME_OFFSET: u16 = 14;

/// Type, and both lengths.
const FRAME: usize = 12;
/// Where the captured bytes of both packet blocks with a time stamp begin.
const PACKET_DATA: usize = 28;
/// Interfaces that one section may describe. A machine has fewer, and the table must not grow with the capture.
const INTERFACES: usize = 65_536;

/// The section that the next block is in.
#[derive(Debug, Default)]
pub(super) struct Section {
    order: Order,
    interfaces: Vec<Interface>,
    /// Sections before this one.
    number: u64,
}

/// A place in a section. Marks share a table of interfaces that is the same.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    order: Order,
    interfaces: Arc<[Interface]>,
    number: u64,
}

impl Mark {
    /// Bytes that it refers to and does not share with the mark `before`.
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
    /// 0: no limit.
    snap_length: u32,
    clock: Clock,
}

/// How an interface's time stamps count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Clock {
    resolution: Resolution,
    /// Nanoseconds to add.
    offset: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resolution {
    /// A tick is so many nanoseconds.
    Multiple(u64),
    /// A nanosecond is so many ticks.
    Fraction(u64),
    /// A second is two to this power ticks.
    PowerOfTwo(u8),
}

impl Clock {
    /// Microseconds, where nothing is said.
    const DEFAULT: Clock = Clock { resolution: Resolution::Multiple(1000), offset: 0 };

    /// Time stamps that no `i64` of nanoseconds holds become the last or the first that it does.
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
    /// `if_tsresol`: the high bit tells the base, 2 or 10, the rest the negative exponent.
    fn from_option(value: u8) -> Resolution {
        let exponent = value & 0x7f;
        if value & 0x80 != 0 {
            return Resolution::PowerOfTwo(exponent);
        }
        match exponent {
            0..=9 => Resolution::Multiple(10u64.pow(u32::from(9 - exponent))),
            // Beyond 10^19 ticks a nanosecond, no 64-bit count reaches one.
            _ => 10u64
                .checked_pow(u32::from(exponent - 9))
                .map_or(Resolution::Multiple(0), Resolution::Fraction),
        }
    }
}

impl Section {
    /// This place. `before` is an earlier one.
    pub(super) fn mark(&self, before: Option<&Mark>) -> Mark {
        let shared = before.filter(|mark| {
            // Within a section the table only grows.
            mark.number == self.number && mark.interfaces.len() == self.interfaces.len()
        });
        let interfaces =
            shared.map_or_else(|| Arc::from(&*self.interfaces), |mark| Arc::clone(&mark.interfaces));
        Mark { order: self.order, interfaces, number: self.number }
    }

    /// At the place of a mark.
    pub(super) fn resume(mark: &Mark) -> Section {
        Section { order: mark.order, interfaces: mark.interfaces.to_vec(), number: mark.number }
    }

    #[inline]
    pub(super) fn next(&mut self, bytes: &[u8]) -> Result<Found, Trouble> {
        let Some(&[t0, t1, t2, t3, l0, l1, l2, l3, b0, b1, b2, b3]) = bytes.first_chunk::<FRAME>() else {
            return Err(Trouble::Short(FRAME));
        };
        let kind = self.order.u32([t0, t1, t2, t3]);
        if kind == SECTION_HEADER {
            // The same in both orders; the order of this section is told behind the length.
            self.order = match [b0, b1, b2, b3] {
                [0x4d, 0x3c, 0x2b, 0x1a] => Order::Little,
                [0x1a, 0x2b, 0x3c, 0x4d] => Order::Big,
                found => return Err(Trouble::Fault { at: 8, fault: Fault::ByteOrder { found } }),
            };
        }
        let total = self.order.u32([l0, l1, l2, l3]);
        let length = total as usize;
        let least = FRAME
            + match kind {
                SECTION_HEADER => 16,
                INTERFACE_DESCRIPTION => 8,
                PACKET | ENHANCED_PACKET => 20,
                SIMPLE_PACKET => 4,
                _ => 0,
            };
        if length < least || length > LIMIT || !length.is_multiple_of(4) {
            let fault = Fault::BlockLength { found: total, least: least as u32 };
            return Err(Trouble::Fault { at: 4, fault });
        }
        let Some(block) = bytes.get(..length) else {
            return Err(Trouble::Short(length));
        };
        let trailer = self.word(block, length - 4);
        if trailer != total {
            let fault = Fault::BlockTrailer { expected: total, found: trailer };
            return Err(Trouble::Fault { at: length - 4, fault });
        }
        match kind {
            ENHANCED_PACKET => self.packet(block, self.word(block, 8)),
            PACKET => self.packet(block, self.order.u16([block[8], block[9]]).into()),
            SIMPLE_PACKET => self.simple_packet(block),
            INTERFACE_DESCRIPTION => self.interface_description(block),
            SECTION_HEADER => self.section_header(block),
            _ => Ok(Found::Nothing { consumed: length }),
        }
    }

    #[inline]
    fn packet(&self, block: &[u8], interface: u32) -> Result<Found, Trouble> {
        let interface = self.interface(interface, 8)?;
        let ticks = u64::from(self.word(block, 12)) << 32 | u64::from(self.word(block, 16));
        let captured_length = self.word(block, 20);
        let room = block.len() - PACKET_DATA - 4;
        if captured_length as usize > room {
            let fault = Fault::CapturedLength { found: captured_length, room: room as u32 };
            return Err(Trouble::Fault { at: 20, fault });
        }
        Ok(Found::Record {
            time: interface.clock.time(ticks),
            link: interface.link,
            original_length: self.word(block, 24),
            start: PACKET_DATA,
            end: PACKET_DATA + captured_length as usize,
            consumed: block.len(),
        })
    }

    /// A simple packet block names neither an interface, it is the first, nor a captured length, nor a time: it is given
    /// the beginning of 1970.
    fn simple_packet(&self, block: &[u8]) -> Result<Found, Trouble> {
        let interface = self.interface(0, 0)?;
        let original_length = self.word(block, 8);
        let snap_length = match interface.snap_length {
            0 => usize::MAX,
            limit => limit as usize,
        };
        let captured_length = (block.len() - 16).min(original_length as usize).min(snap_length);
        Ok(Found::Record {
            time: Time(0),
            link: interface.link,
            original_length,
            start: 12,
            end: 12 + captured_length,
            consumed: block.len(),
        })
    }

    #[inline]
    fn interface(&self, number: u32, at: usize) -> Result<&Interface, Trouble> {
        self.interfaces.get(number as usize).ok_or(Trouble::Fault {
            at,
            fault: Fault::Interface { found: number, described: self.interfaces.len() },
        })
    }

    #[cold]
    fn section_header(&mut self, block: &[u8]) -> Result<Found, Trouble> {
        let major = self.order.u16([block[12], block[13]]);
        let minor = self.order.u16([block[14], block[15]]);
        if major != 1 {
            let fault = Fault::Version { expected: 1, found: (major, minor) };
            return Err(Trouble::Fault { at: 12, fault });
        }
        self.interfaces.clear();
        self.number += 1;
        Ok(Found::Nothing { consumed: block.len() })
    }

    #[cold]
    fn interface_description(&mut self, block: &[u8]) -> Result<Found, Trouble> {
        if self.interfaces.len() == INTERFACES {
            return Err(Trouble::Fault { at: 0, fault: Fault::Interfaces { limit: INTERFACES } });
        }
        let clock = self.clock(block, 16)?;
        self.interfaces.push(Interface {
            link: LinkType(self.order.u16([block[8], block[9]])),
            snap_length: self.word(block, 12),
            clock,
        });
        Ok(Found::Nothing { consumed: block.len() })
    }

    /// What the options of an interface description, from byte `at` of its block on, say of its clock.
    fn clock(&self, block: &[u8], mut at: usize) -> Result<Clock, Trouble> {
        let mut clock = Clock::DEFAULT;
        let end = block.len() - 4;
        while at < end {
            // Blocks and options are multiples of four, so four bytes are there.
            let code = self.order.u16([block[at], block[at + 1]]);
            let length = self.order.u16([block[at + 2], block[at + 3]]);
            if code == OPTION_END {
                break;
            }
            let fault = Trouble::Fault { at, fault: Fault::Option { code, length } };
            let value = at + 4;
            let Some(value) = block[..end].get(value..value + usize::from(length)) else {
                return Err(fault);
            };
            match (code, value) {
                (OPTION_TIME_RESOLUTION, &[value]) => clock.resolution = Resolution::from_option(value),
                (OPTION_TIME_OFFSET, &[a, b, c, d, e, f, g, h]) => {
                    let (first, second) = (self.order.u32([a, b, c, d]), self.order.u32([e, f, g, h]));
                    let (high, low) = match self.order {
                        Order::Little => (second, first),
                        Order::Big => (first, second),
                    };
                    let seconds = (u64::from(high) << 32 | u64::from(low)) as i64;
                    clock.offset = seconds.saturating_mul(1_000_000_000);
                }
                (OPTION_TIME_RESOLUTION | OPTION_TIME_OFFSET, _) => return Err(fault),
                _ => {}
            }
            at += 4 + usize::from(length).next_multiple_of(4);
        }
        Ok(clock)
    }

    /// The word at `at`, which the length check of the block's type has found to be there.
    #[inline]
    fn word(&self, block: &[u8], at: usize) -> u32 {
        self.order.u32([block[at], block[at + 1], block[at + 2], block[at + 3]])
    }
}
