//! The interfaces of a pcapng capture and their drop counts.

use rdmascope_dissector::record::{LinkType, Time};

/// Maximum number of interfaces that are reported. Captures have a handful.
const MOST: usize = 1024;
/// Maximum length in bytes of a name, a description or a filter.
const LONGEST: usize = 256;

/// An interface of a pcapng capture, with its counts of dropped packets.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Interface {
    /// Number of the section that describes it, counted from 1.
    pub section: u64,
    /// Number in the section, counted from 0, as used by packets.
    pub number: u32,
    /// Its link type.
    pub link: LinkType,
    /// if_name, such as `eth0`. This and the other texts are cut to 256 bytes.
    pub name: Option<String>,
    /// if_description.
    pub description: Option<String>,
    /// if_filter, if it is in the syntax of libpcap.
    pub filter: Option<String>,
    /// if_os, or shb_os of its section: the operating system of the capture.
    pub operating_system: Option<String>,
    /// The counts of its interface statistics blocks.
    pub statistics: Statistics,
    /// Sum of epb_dropcount over its packets, and of the drop counts of obsolete packet blocks:
    /// packets dropped just before a captured one.
    pub dropped_before_packets: u64,
}

/// The counts of interface statistics blocks (draft-ietf-opsawg-pcapng, section 4.6). Counts are
/// cumulative, so the last block is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// isb_starttime: start of the capture.
    pub start: Option<Time>,
    /// isb_endtime: end of the capture.
    pub end: Option<Time>,
    /// isb_ifrecv: packets received by the interface.
    pub received: Option<u64>,
    /// isb_ifdrop: packets dropped by the interface. dumpcap puts the kernel's drops here.
    pub dropped_by_interface: Option<u64>,
    /// isb_filteraccept: packets accepted by the filter.
    pub accepted: Option<u64>,
    /// isb_osdrop: packets dropped by the operating system.
    pub dropped_by_system: Option<u64>,
    /// isb_usrdeliv: packets delivered to the capturing program.
    pub delivered: Option<u64>,
}

impl Interface {
    /// Creates an interface without further information.
    pub fn new(section: u64, number: u32, link: LinkType) -> Interface {
        Interface {
            section,
            number,
            link,
            name: None,
            description: None,
            filter: None,
            operating_system: None,
            statistics: Statistics::default(),
            dropped_before_packets: 0,
        }
    }

    /// Returns the number of packets dropped at this interface, according to the capture.
    /// Statistics and packets count the same drops, so this is the larger of both.
    pub fn dropped(&self) -> u64 {
        self.statistics.dropped().max(self.dropped_before_packets)
    }
}

impl Statistics {
    /// Returns the number of packets dropped by the interface and the operating system.
    pub fn dropped(&self) -> u64 {
        self.dropped_by_interface.unwrap_or(0).saturating_add(self.dropped_by_system.unwrap_or(0))
    }
}

/// The interfaces described so far.
#[derive(Debug, Default)]
pub(super) struct Interfaces(Vec<Interface>);

impl Interfaces {
    pub(super) fn all(&self) -> &[Interface] {
        &self.0
    }

    /// Stores an interface and returns its index. `None` if there are too many.
    pub(super) fn describe(&mut self, interface: Interface) -> Option<u32> {
        if self.0.len() == MOST {
            return None;
        }
        self.0.push(interface);
        Some(self.0.len() as u32 - 1)
    }

    /// Returns the interface with this index.
    pub(super) fn get_mut(&mut self, at: Option<u32>) -> Option<&mut Interface> {
        self.0.get_mut(at? as usize)
    }
}

/// The beginning of a text, at most `most` bytes long.
pub(crate) fn beginning(text: &str, most: usize) -> &str {
    let ends = (0..=most.min(text.len())).rev();
    text.split_at(ends.into_iter().find(|end| text.is_char_boundary(*end)).unwrap_or(0)).0
}

/// Decodes a text option. Invalid UTF-8 is replaced.
pub(super) fn text(value: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(value);
    Some(beginning(&text, LONGEST).to_owned())
}

/// Decodes if_filter: a format byte, 0 for libpcap syntax, then the filter.
pub(super) fn filter(value: &[u8]) -> Option<String> {
    match value {
        [0, filter @ ..] => text(filter),
        _ => None,
    }
}
