//! A framer written by hand, without pcap-parser: the reference for the product's framer.

use rdmascope_capture_agent::framing::{Damage, Fault, Framed, LIMIT, Step};
use rdmascope_dissector::record::{LinkType, Time};

/// Finds the records of a capture.
#[derive(Debug, Default)]
pub struct ReferenceFramer {
    format: Format,
    records: u64,
    offset: u64,
}

#[derive(Debug, Default)]
enum Format {
    #[default]
    Unknown,
    Pcap(File),
    Pcapng(Section),
    Erf,
}

impl ReferenceFramer {
    /// Classifies the bytes at the current offset. The offset moves by the length that the caller
    /// drops after [`Step::Record`] and [`Step::Skip`].
    #[inline(always)] // As in the product, so that benchmarks compare equals.
    pub fn next(&mut self, bytes: &[u8]) -> Step {
        let found = match &mut self.format {
            Format::Pcap(file) => file.next(bytes),
            Format::Pcapng(section) => section.next(bytes),
            Format::Erf => erf_record(bytes),
            Format::Unknown => self.recognise(bytes),
        };
        match found {
            Ok(Found::Record { time, link, original_length, start, end, consumed }) => {
                let own = if link == LinkType::ERF { erf_time(&bytes[start..end]) } else { None };
                let time = match own {
                    Some(own) if time.0 == 0 || (own - time.0).abs() <= 1_000_000_000 => Time(own),
                    _ => time,
                };
                self.records += 1;
                self.offset += consumed as u64;
                Step::Record(Framed {
                    number: self.records,
                    time,
                    link,
                    original_length,
                    // It does not read losses.
                    dropped: 0,
                    interface: 0,
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

    #[cold]
    fn recognise(&mut self, bytes: &[u8]) -> Result<Found, Trouble> {
        let magic = bytes.first_chunk().ok_or(Trouble::Short(4))?;
        let known = recognised(magic);
        if let Err(Fault::Magic { .. }) = known {
            let header = bytes.first_chunk::<16>().ok_or(Trouble::Short(16))?;
            let is_padding = header[8] & 0x7f == 48;
            if (is_padding || matches!(header[8] & 0x7f, 1..=29) && header[4..8] != [0; 4])
                && header[9] & 0xa0 == 0
                && u16::from_be_bytes([header[10], header[11]]) >= 16
            {
                self.format = Format::Erf;
                return Ok(Found::Nothing { consumed: 0 });
            }
        }
        match known.map_err(|fault| Trouble::Fault { at: 0, fault })? {
            Magic::Pcap(order) => {
                let (file, consumed) = File::open(order, bytes)?;
                self.format = Format::Pcap(file);
                Ok(Found::Nothing { consumed })
            }
            Magic::Pcapng => {
                self.format = Format::Pcapng(Section::default());
                Ok(Found::Nothing { consumed: 0 })
            }
        }
    }
}

/// The result of a format's parser.
enum Found {
    Record { time: Time, link: LinkType, original_length: u32, start: usize, end: usize, consumed: usize },
    Nothing { consumed: usize },
}

/// The reason why nothing was found.
enum Trouble {
    /// The number of bytes needed.
    Short(usize),
    /// The fault and its position, counted from the first of the bytes.
    Fault { at: usize, fault: Fault },
}

/// A record of a capture without a file header.
///
/// ```text
/// 2^-32 seconds 4 | seconds 4, both little-endian | extended 1 bit, type 7 bits | flags 1 |
/// record length 2 | loss 2 | wire length 2
/// ```
fn erf_record(bytes: &[u8]) -> Result<Found, Trouble> {
    let header = bytes.first_chunk::<16>().ok_or(Trouble::Short(16))?;
    let kind = header[8] & 0x7f;
    if !(1..=48).contains(&kind) {
        return Err(Trouble::Fault { at: 8, fault: Fault::ErfType { found: kind } });
    }
    let found = u16::from_be_bytes([header[10], header[11]]);
    let length = usize::from(found);
    if length < 16 {
        return Err(Trouble::Fault { at: 10, fault: Fault::ErfLength { found, least: 16 } });
    }
    if bytes.len() < length {
        return Err(Trouble::Short(length));
    }
    if kind == 48 {
        return Ok(Found::Nothing { consumed: length });
    }
    let (mut last, mut end) = (header[8], 16);
    while last & 0x80 != 0 {
        if end + 8 > length {
            return Err(Trouble::Fault { at: 10, fault: Fault::ErfLength { found, least: end + 8 } });
        }
        (last, end) = (bytes[end], end + 8);
    }
    end += if [2, 11, 16, 20].contains(&kind) { 2 } else { 0 };
    if end > length {
        return Err(Trouble::Fault { at: 10, fault: Fault::ErfLength { found, least: end } });
    }
    let on_the_wire = end + usize::from(u16::from_be_bytes([header[14], header[15]]));
    Ok(Found::Record {
        time: Time(erf_nanoseconds(header)),
        link: LinkType::ERF,
        original_length: on_the_wire.max(length) as u32,
        start: 0,
        end: length,
        consumed: length,
    })
}

/// The time in a record, in nanoseconds since 1970; `None` if it has no seconds.
fn erf_time(record: &[u8]) -> Option<i64> {
    let header = record.first_chunk::<16>()?;
    (header[4..8] != [0; 4]).then(|| erf_nanoseconds(header))
}

/// The nanoseconds of a time stamp, with or without seconds.
fn erf_nanoseconds(header: &[u8; 16]) -> i64 {
    let fraction = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    let seconds = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
    let nanoseconds = (u128::from(fraction) * 2_000_000_000 + (1 << 32)) >> 33;
    i64::from(seconds) * 1_000_000_000 + nanoseconds as i64
}

/// The byte order of the host that wrote the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum Order {
    #[default]
    Little,
    Big,
}

impl Order {
    fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Order::Little => u16::from_le_bytes(bytes),
            Order::Big => u16::from_be_bytes(bytes),
        }
    }

    fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Order::Little => u32::from_le_bytes(bytes),
            Order::Big => u32::from_be_bytes(bytes),
        }
    }
}

/// The format given by the first four bytes of a capture.
enum Magic {
    Pcap(Variant),
    Pcapng,
}

fn recognised(magic: &[u8; 4]) -> Result<Magic, Fault> {
    let pcap = |order, nanoseconds| Ok(Magic::Pcap(Variant { order, nanoseconds }));
    match magic {
        [0xd4, 0xc3, 0xb2, 0xa1] => pcap(Order::Little, false),
        [0xa1, 0xb2, 0xc3, 0xd4] => pcap(Order::Big, false),
        [0x4d, 0x3c, 0xb2, 0xa1] => pcap(Order::Little, true),
        [0xa1, 0xb2, 0x3c, 0x4d] => pcap(Order::Big, true),
        [0x0a, 0x0d, 0x0d, 0x0a] => Ok(Magic::Pcapng),
        [0x34, 0xcd, 0xb2, 0xa1] | [0xa1, 0xb2, 0xcd, 0x34] => Err(Fault::ModifiedPcap),
        [0xfd, b'7', b'z', b'X'] => Err(Fault::Compressed { with: "xz", tool: "xz -d" }),
        [b'B', b'Z', b'h', _] => Err(Fault::Compressed { with: "bzip2", tool: "bzip2 -d" }),
        [0x04, 0x22, 0x4d, 0x18] => Err(Fault::Compressed { with: "lz4", tool: "lz4 -d" }),
        [b's', b'n', b'o', b'o'] => Err(Fault::Snoop),
        found => Err(Fault::Magic { found: *found, available: 4 }),
    }
}

const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;

/// The byte order and the resolution given by the magic number.
#[derive(Clone, Copy, Debug)]
struct Variant {
    order: Order,
    nanoseconds: bool,
}

#[derive(Clone, Copy, Debug)]
struct File {
    order: Order,
    /// Nanoseconds in one unit of the second word of a record.
    unit: u32,
    link: LinkType,
}

impl File {
    /// Reads the file header.
    fn open(variant: Variant, bytes: &[u8]) -> Result<(File, usize), Trouble> {
        let header = bytes.first_chunk::<FILE_HEADER>().ok_or(Trouble::Short(FILE_HEADER))?;
        let order = variant.order;
        let major = order.u16([header[4], header[5]]);
        let minor = order.u16([header[6], header[7]]);
        if major != 2 {
            let fault = Fault::Version { expected: 2, found: (major, minor) };
            return Err(Trouble::Fault { at: 4, fault });
        }
        let link = order.u32([header[20], header[21], header[22], header[23]]);
        let unit = if variant.nanoseconds { 1 } else { 1000 };
        Ok((File { order, unit, link: LinkType(link as u16) }, FILE_HEADER))
    }

    #[inline]
    fn next(&self, bytes: &[u8]) -> Result<Found, Trouble> {
        let Some(&[s0, s1, s2, s3, f0, f1, f2, f3, c0, c1, c2, c3, o0, o1, o2, o3]) =
            bytes.first_chunk::<RECORD_HEADER>()
        else {
            return Err(Trouble::Short(RECORD_HEADER));
        };
        let order = self.order;
        let captured_length = order.u32([c0, c1, c2, c3]);
        if captured_length as usize > LIMIT {
            let fault = Fault::RecordLength { found: captured_length };
            return Err(Trouble::Fault { at: 8, fault });
        }
        let end = RECORD_HEADER + captured_length as usize;
        if bytes.len() < end {
            return Err(Trouble::Short(end));
        }
        // 2^32 seconds and 2^32 milliseconds are less than 2^63 nanoseconds.
        let seconds = i64::from(order.u32([s0, s1, s2, s3]));
        let fraction = i64::from(order.u32([f0, f1, f2, f3]));
        Ok(Found::Record {
            time: Time(seconds * 1_000_000_000 + fraction * i64::from(self.unit)),
            link: self.link,
            original_length: order.u32([o0, o1, o2, o3]),
            start: RECORD_HEADER,
            end,
            consumed: end,
        })
    }
}

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
/// The offset of the captured bytes in both packet blocks with a time stamp.
const PACKET_DATA: usize = 28;
/// The most interfaces that one section may describe. A machine has fewer, and the table must not
/// grow with the capture.
const INTERFACES: usize = 65_536;

/// The section of the next block.
#[derive(Debug, Default)]
struct Section {
    order: Order,
    interfaces: Vec<Interface>,
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link: LinkType,
    /// 0: no limit.
    snap_length: u32,
    clock: Clock,
}

/// The unit and the offset of an interface's time stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Clock {
    resolution: Resolution,
    /// Nanoseconds to add.
    offset: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resolution {
    /// Nanoseconds in a tick.
    Multiple(u64),
    /// Ticks in a nanosecond.
    Fraction(u64),
    /// A second has two to this power ticks.
    PowerOfTwo(u8),
}

impl Clock {
    /// Microseconds, if the capture does not specify them.
    const DEFAULT: Clock = Clock { resolution: Resolution::Multiple(1000), offset: 0 };

    /// Time stamps beyond the range of an `i64` of nanoseconds become its limits.
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
    /// Parses `if_tsresol`: the high bit gives the base, 2 or 10, the rest the negative exponent.
    fn from_option(value: u8) -> Resolution {
        let exponent = value & 0x7f;
        if value & 0x80 != 0 {
            return Resolution::PowerOfTwo(exponent);
        }
        match exponent {
            0..=9 => Resolution::Multiple(10u64.pow(u32::from(9 - exponent))),
            // With more than 10^19 ticks in a nanosecond, no 64-bit count reaches one.
            _ => 10u64
                .checked_pow(u32::from(exponent - 9))
                .map_or(Resolution::Multiple(0), Resolution::Fraction),
        }
    }
}

impl Section {
    #[inline]
    fn next(&mut self, bytes: &[u8]) -> Result<Found, Trouble> {
        let Some(&[t0, t1, t2, t3, l0, l1, l2, l3, b0, b1, b2, b3]) = bytes.first_chunk::<FRAME>() else {
            return Err(Trouble::Short(FRAME));
        };
        let kind = self.order.u32([t0, t1, t2, t3]);
        if kind == SECTION_HEADER {
            // The type is the same in both orders; the order of this section follows the length.
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

    /// A simple packet block has no interface (the first one is implied), no captured length, and
    /// no time, for which the beginning of 1970 is used.
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

    fn interface(&self, number: u32, at: usize) -> Result<&Interface, Trouble> {
        self.interfaces.get(number as usize).ok_or(Trouble::Fault {
            at,
            fault: Fault::Interface { found: number, described: self.interfaces.len() },
        })
    }

    fn section_header(&mut self, block: &[u8]) -> Result<Found, Trouble> {
        let major = self.order.u16([block[12], block[13]]);
        let minor = self.order.u16([block[14], block[15]]);
        if major != 1 {
            let fault = Fault::Version { expected: 1, found: (major, minor) };
            return Err(Trouble::Fault { at: 12, fault });
        }
        self.interfaces.clear();
        Ok(Found::Nothing { consumed: block.len() })
    }

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

    /// The clock given by the options of an interface description, which start at byte `at` of its
    /// block.
    fn clock(&self, block: &[u8], mut at: usize) -> Result<Clock, Trouble> {
        let mut clock = Clock::DEFAULT;
        let end = block.len() - 4;
        while at < end {
            // Blocks and options are multiples of four, so there are at least four bytes.
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

    /// The word at `at`. The length check for the block's type guarantees that it exists.
    fn word(&self, block: &[u8], at: usize) -> u32 {
        self.order.u32([block[at], block[at + 1], block[at + 2], block[at + 3]])
    }
}
