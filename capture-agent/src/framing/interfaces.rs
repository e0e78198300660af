//! What a pcapng capture says of its interfaces, and of packets that were dropped.

use rdmascope_dissector::record::{LinkType, Time};

/// Interfaces of one capture that are followed. Captures have a handful; of further ones nothing is told.
const MOST: usize = 1024;
/// Bytes that are kept of a name, a description or a filter.
const LONGEST: usize = 256;

/// An interface of a pcapng capture, with its counts of dropped packets.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Interface {
    /// The section that describes it; the first is 1.
    pub section: u64,
    /// Its number in the section, from 0, as packets name it.
    pub number: u32,
    /// Its link type.
    pub link: LinkType,
    /// if_name, such as `eth0`. Of this and the other texts at most 256 bytes are kept.
    pub name: Option<String>,
    /// if_description.
    pub description: Option<String>,
    /// if_filter, where it is the text that libpcap takes.
    pub filter: Option<String>,
    /// if_os, or shb_os of its section: the system on which it was captured.
    pub operating_system: Option<String>,
    /// The counts of its interface statistics blocks.
    pub statistics: Statistics,
    /// The sum of epb_dropcount over its packets, and of the drop counts of obsolete packet blocks: packets that were lost just
    /// before one that was captured.
    pub dropped_before_packets: u64,
}

/// The counts of interface statistics blocks (draft-ietf-opsawg-pcapng, section 4.6). They begin with the capture, so of several
/// blocks the last one counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// isb_starttime: when the capture began.
    pub start: Option<Time>,
    /// isb_endtime: when it ended.
    pub end: Option<Time>,
    /// isb_ifrecv: packets that the interface received.
    pub received: Option<u64>,
    /// isb_ifdrop: packets that the interface dropped. dumpcap counts here what the kernel dropped.
    pub dropped_by_interface: Option<u64>,
    /// isb_filteraccept: packets that the filter let through.
    pub accepted: Option<u64>,
    /// isb_osdrop: packets that the operating system dropped.
    pub dropped_by_system: Option<u64>,
    /// isb_usrdeliv: packets that reached the program that captured.
    pub delivered: Option<u64>,
}

impl Interface {
    /// One of which nothing more is said.
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

    /// Packets that the capture says it lost here: those of the statistics, or those told of beside packets, whichever are
    /// more, because both count the same ones.
    pub fn dropped(&self) -> u64 {
        self.statistics.dropped().max(self.dropped_before_packets)
    }
}

impl Statistics {
    /// Packets that the interface and the operating system dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped_by_interface.unwrap_or(0).saturating_add(self.dropped_by_system.unwrap_or(0))
    }
}

/// The interfaces that were described so far.
#[derive(Debug, Default)]
pub(super) struct Interfaces(Vec<Interface>);

impl Interfaces {
    pub(super) fn all(&self) -> &[Interface] {
        &self.0
    }

    /// Takes in a new one, and returns where it is kept; `None` where there are too many.
    pub(super) fn describe(&mut self, interface: Interface) -> Option<u32> {
        if self.0.len() == MOST {
            return None;
        }
        self.0.push(interface);
        Some(self.0.len() as u32 - 1)
    }

    /// The one that is kept there.
    pub(super) fn get_mut(&mut self, at: Option<u32>) -> Option<&mut Interface> {
        self.0.get_mut(at? as usize)
    }
}

/// An option that is text. Bytes that are no UTF-8 are replaced.
pub(super) fn text(value: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(value);
    Some(text[..text.floor_char_boundary(LONGEST)].to_owned())
}

/// if_filter: a byte that tells its form, 0 for the text that libpcap takes, and the filter.
pub(super) fn filter(value: &[u8]) -> Option<String> {
    match value {
        [0, filter @ ..] => text(filter),
        _ => None,
    }
}
