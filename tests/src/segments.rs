//! Parses and rebuilds TCP segments in a capture of Ethernet, and shows a session as another
//! network or host would.

use crate::pcap::{Capture, Packet};
use crate::streams::{self, Flow, Fpdu};
use core::ops::Range;
use rdmascope_wire::mpa::{CRC_LENGTH, Crc, MARKER_INTERVAL, MARKER_LENGTH};
use std::collections::HashMap;

/// The NFS/RDMA port, on which the server of each sample listens.
pub const SERVER_PORT: u16 = 20_049;

/// The state of a segment's checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// Correct.
    Right,
    /// The sum of the pseudo-header, which the host leaves to its adapter to complete.
    Unfinished,
    /// Incorrect: the segment was damaged.
    Wrong,
}

/// A complete TCP segment over IPv4 or IPv6.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Segment {
    /// The IP header.
    network: Vec<u8>,
    /// The TCP header with its options.
    header: Vec<u8>,
    pub checksum: Checksum,
    pub ports: [u16; 2],
    pub sequence: u32,
    pub acknowledgement: u32,
    pub syn: bool,
    pub payload: Vec<u8>,
}

impl Segment {
    /// Parses a packet of Ethernet without VLAN tag; `None` if it has no complete segment.
    pub fn of(packet: &Packet) -> Option<Segment> {
        let data = &packet.data;
        let half = |at: usize| Some(u16::from_be_bytes(data.get(at..at + 2)?.try_into().ok()?));
        let (network, end) = match half(12)? {
            0x0800 if data.get(23) == Some(&6) => (20, 14 + usize::from(half(16)?)),
            0x86dd if data.get(20) == Some(&6) => (40, 54 + usize::from(half(18)?)),
            _ => return None,
        };
        let (network, rest) = data.get(14..end)?.split_at(network);
        let (header, payload) = rest.split_at_checked(usize::from(rest.get(12)? >> 4) * 4)?;
        let word =
            |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let mut segment = Segment {
            network: network.to_vec(),
            header: header.to_vec(),
            checksum: Checksum::Right,
            ports: [(word(0) >> 16) as u16, word(0) as u16],
            sequence: word(4),
            acknowledgement: word(8),
            syn: header[13] & 2 != 0,
            payload: payload.to_vec(),
        };
        let found = [header[16], header[17]];
        let is = |checksum: Checksum, segment: &mut Segment| {
            segment.checksum = checksum;
            segment.bytes()[network.len() + 16..network.len() + 18] == found
        };
        let known = [Checksum::Right, Checksum::Unfinished].into_iter().find(|it| is(*it, &mut segment));
        segment.checksum = known.unwrap_or(Checksum::Wrong);
        Some(segment)
    }

    /// Whether the client of a sample sent it.
    pub fn is_from_client(&self) -> bool {
        self.ports[1] == SERVER_PORT
    }

    /// The sequence number of its first byte of payload.
    pub fn payload_sequence(&self) -> u32 {
        self.sequence.wrapping_add(self.syn.into())
    }

    /// The IP packet.
    pub fn bytes(&self) -> Vec<u8> {
        let mut network = self.network.clone();
        let mut segment = [&self.header[..], &self.payload].concat();
        segment[0..2].copy_from_slice(&self.ports[0].to_be_bytes());
        segment[2..4].copy_from_slice(&self.ports[1].to_be_bytes());
        segment[4..8].copy_from_slice(&self.sequence.to_be_bytes());
        segment[8..12].copy_from_slice(&self.acknowledgement.to_be_bytes());
        segment[16..18].fill(0);
        let length = segment.len() as u16;
        let addresses = if network.len() == 40 {
            network[4..6].copy_from_slice(&length.to_be_bytes());
            network[8..40].to_vec()
        } else {
            network[2..4].copy_from_slice(&(length + 20).to_be_bytes());
            network[10..12].fill(0);
            let sum = !sum(&network);
            network[10..12].copy_from_slice(&sum.to_be_bytes());
            network[12..20].to_vec()
        };
        let pseudo = [&addresses[..], &[0, 6], &length.to_be_bytes()].concat();
        let checksum = match self.checksum {
            Checksum::Unfinished => sum(&pseudo),
            Checksum::Right => !sum(&[&pseudo[..], &segment].concat()),
            Checksum::Wrong => !sum(&[&pseudo[..], &segment].concat()) ^ 0x5a5a,
        };
        segment[16..18].copy_from_slice(&checksum.to_be_bytes());
        network.extend(segment);
        network
    }

    /// Writes it into a packet of Ethernet.
    pub fn put(&self, packet: &mut Packet) {
        packet.data.truncate(14);
        let kind: u16 = if self.network.len() == 40 { 0x86dd } else { 0x0800 };
        packet.data[12..14].copy_from_slice(&kind.to_be_bytes());
        packet.data.extend(self.bytes());
        packet.original_length = packet.data.len() as u32;
    }

    /// Replaces the IP header by one of the other version, with addresses derived from the old
    /// ones.
    fn over_the_other_ip(&mut self) {
        self.network = if self.network.len() == 40 {
            let host = |at: usize| [10, 9, self.network[at], self.network[at + 1]];
            let mut header = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0];
            header.extend([host(22), host(38)].concat());
            header
        } else {
            let mut header = vec![0x60, 0, 0, 0, 0, 0, 6, 64];
            for at in [12, 16] {
                header.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
                header.extend(&self.network[at..at + 4]);
            }
            header
        };
    }
}

/// The start and the end of a session of one connection without loss: the request, its answer if
/// `is_answered`, and the close.
pub fn made_and_closed(capture: &Capture, is_answered: bool) -> Capture {
    let segments: Vec<_> = capture.packets.iter().map(|packet| (packet, Segment::of(packet))).collect();
    let is_start = |segment: &Segment| segment.payload.starts_with(b"MPA ID Re");
    let is_fpdu = |segment: &Segment| !segment.payload.is_empty() && !is_start(segment);
    let ends = |segment: &Segment| segment.header[13] & 1 != 0;
    let first = segments.iter().position(|(_, it)| it.as_ref().is_some_and(is_fpdu)).expect("a session");
    let last = segments.iter().position(|(_, it)| it.as_ref().is_some_and(ends)).expect("it is closed");
    let kept = segments[..first].iter().chain(&segments[last..]);
    let mut next = [0; 2];
    let packets = kept.filter_map(|(packet, segment)| {
        let mut segment = segment.clone()?;
        if !is_answered && segment.payload.starts_with(b"MPA ID Rep") {
            return None;
        }
        let from = usize::from(!segment.is_from_client());
        if segment.syn {
            next[from] = segment.sequence;
        }
        segment.sequence = next[from];
        segment.acknowledgement = next[1 - from];
        next[from] = next[from]
            .wrapping_add(segment.payload.len() as u32 + u32::from(segment.syn) + u32::from(ends(&segment)));
        let mut packet = (*packet).clone();
        segment.put(&mut packet);
        Some(packet)
    });
    let mut made = Capture { packets: packets.collect(), ..capture.clone() };
    made.renumber();
    made
}

/// The one's complement sum of 16-bit words (RFC 1071).
fn sum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

/// The form of a session over TCP. All forms have the same packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// As captured.
    Plain,
    /// The sequence numbers of each end wrap in the middle of its stream.
    Wrapped,
    /// The host leaves each checksum to its adapter.
    Unfinished,
    /// Each checksum is complete, and correct unless the segment was damaged.
    Sealed,
    /// With a VLAN tag.
    Vlan,
    /// Over IPv6 instead of IPv4, or IPv4 instead of IPv6.
    OtherIp,
    /// As Linux captures it on all interfaces at once (LINKTYPE_LINUX_SLL2).
    Sll2,
    /// Without a link layer.
    Raw,
    /// The server listens on another port.
    OtherPort,
    /// Both ends ask for markers (RFC 5044, section 4.3). A stream without a start frame stays
    /// unchanged.
    Markers,
}

impl Form {
    /// All forms.
    pub const ALL: [Form; 10] = [
        Form::Plain,
        Form::Wrapped,
        Form::Unfinished,
        Form::Sealed,
        Form::Vlan,
        Form::OtherIp,
        Form::Sll2,
        Form::Raw,
        Form::OtherPort,
        Form::Markers,
    ];

    /// Returns an Ethernet session in this form. The packets keep their count, numbers and times.
    pub fn apply(self, capture: &Capture) -> Capture {
        let mut changed = capture.clone();
        let mut change = |change: &dyn Fn(&mut Segment)| {
            for packet in &mut changed.packets {
                if let Some(mut segment) = Segment::of(packet) {
                    change(&mut segment);
                    segment.put(packet);
                }
            }
        };
        match self {
            Form::Plain => {}
            Form::Wrapped => {
                let shifts: HashMap<[u16; 2], u32> = streams::flows(capture)
                    .iter()
                    .map(|flow| {
                        let middle = flow.first_sequence.wrapping_add(flow.bytes.len() as u32 / 2);
                        (flow.ports, middle.wrapping_neg())
                    })
                    .collect();
                change(&|segment| {
                    let [from, to] = segment.ports;
                    let shift = |ports| shifts.get(&ports).copied().unwrap_or(0);
                    segment.sequence = segment.sequence.wrapping_add(shift([from, to]));
                    segment.acknowledgement = segment.acknowledgement.wrapping_add(shift([to, from]));
                });
            }
            Form::Unfinished => change(&|segment| {
                if segment.checksum == Checksum::Right {
                    segment.checksum = Checksum::Unfinished;
                }
            }),
            Form::Sealed => change(&|segment| {
                if segment.checksum == Checksum::Unfinished {
                    segment.checksum = Checksum::Right;
                }
            }),
            Form::OtherIp => change(&|segment| segment.over_the_other_ip()),
            Form::OtherPort => change(&|segment| {
                let other = |port: u16| if port == SERVER_PORT { 4420 } else { port };
                segment.ports = segment.ports.map(other);
            }),
            Form::Markers => {
                let marked: Vec<Marked> = streams::flows(capture).iter().filter_map(Marked::new).collect();
                change(&|segment| {
                    let [from, to] = segment.ports;
                    let of = |ports: [u16; 2]| marked.iter().find(|it| it.ports == ports);
                    if let Some(of_other) = of([to, from]) {
                        segment.acknowledgement = of_other.place(segment.acknowledgement);
                    }
                    if let Some(own) = of([from, to]) {
                        own.mark(segment);
                    }
                });
            }
            Form::Vlan => each(&mut changed, |data| {
                data.splice(12..12, [0x81, 0x00, 0x20, 0x07]);
            }),
            Form::Raw => {
                changed.link = 101;
                each(&mut changed, |data| drop(data.drain(..14)));
            }
            Form::Sll2 => {
                changed.link = 276;
                each(&mut changed, |data| {
                    let header = [data[12], data[13], 0, 0, 0, 0, 0, 2, 0, 1, 0, 6];
                    let address: Vec<u8> = data[6..12].iter().copied().chain([0, 0]).collect();
                    data.splice(..14, header.into_iter().chain(address));
                });
            }
        }
        changed
    }
}

fn each(capture: &mut Capture, change: impl Fn(&mut Vec<u8>)) {
    for packet in &mut capture.packets {
        change(&mut packet.data);
        packet.original_length = packet.data.len() as u32;
    }
}

/// A stream with markers inserted.
struct Marked {
    ports: [u16; 2],
    /// The sequence numbers of the first byte, and of the first byte after the start frame.
    first_sequence: u32,
    after_start: u32,
    /// The length of the stream without markers.
    length: u32,
    bytes: Vec<u8>,
}

impl Marked {
    /// Bytes of FPDUs between two markers.
    const BETWEEN: u32 = MARKER_INTERVAL - MARKER_LENGTH as u32;

    /// Inserts markers into a stream that begins with a start frame.
    fn new(flow: &Flow) -> Option<Marked> {
        let start = flow.start.filter(|_| !flow.fpdus.is_empty())?;
        let mut bytes = flow.bytes[..start].to_vec();
        // The M flag.
        bytes[16] |= 0x80;
        let mut marked = Marked {
            ports: flow.ports,
            first_sequence: flow.first_sequence,
            after_start: flow.first_sequence.wrapping_add(start as u32),
            length: flow.bytes.len() as u32,
            bytes: Vec::new(),
        };
        let put = |bytes: &mut Vec<u8>, range: Range<usize>, fpdu: usize| {
            for at in range {
                if ((at - start) as u32).is_multiple_of(Marked::BETWEEN) {
                    // A marker points to the length field of its FPDU. One right before that field
                    // has 0.
                    let pointer = if fpdu == bytes.len() { 0 } else { bytes.len() - fpdu };
                    bytes.extend([0, 0]);
                    bytes.extend((pointer as u16).to_be_bytes());
                }
                bytes.push(flow.bytes[at]);
            }
        };
        let mut end = start;
        for Fpdu { range, .. } in &flow.fpdus {
            let from = bytes.len();
            // The CRC also covers a marker right before the length field. Later markers point to
            // the field.
            put(&mut bytes, range.start..range.start + 1, from);
            let field = bytes.len() - 1;
            put(&mut bytes, range.start + 1..range.end, field);
            // FPDUs are multiples of four bytes long, so no marker is within a CRC.
            let crc = bytes.len() - CRC_LENGTH;
            if bytes[crc..] != [0; CRC_LENGTH] {
                let mut sum = Crc::default();
                sum.update(&bytes[from..crc]);
                bytes[crc..].copy_from_slice(&sum.finish());
            }
            end = range.end;
        }
        put(&mut bytes, end..flow.bytes.len(), end);
        marked.bytes = bytes;
        Some(marked)
    }

    /// The sequence number with markers. If a marker precedes the byte, the number of the marker.
    fn place(&self, sequence: u32) -> u32 {
        let offset = sequence.wrapping_sub(self.after_start) as i32;
        // A FIN comes after all bytes.
        let offset = offset
            .min((self.length - self.after_start.wrapping_sub(self.first_sequence)) as i32)
            .max(0) as u32;
        sequence.wrapping_add(offset.div_ceil(Marked::BETWEEN) * MARKER_LENGTH as u32)
    }

    fn mark(&self, segment: &mut Segment) {
        let begins = self.place(segment.payload_sequence());
        let ends = self.place(segment.payload_sequence().wrapping_add(segment.payload.len() as u32));
        let at = |sequence: u32| sequence.wrapping_sub(self.first_sequence) as usize;
        if !segment.payload.is_empty() && at(ends) <= self.bytes.len() && begins != ends {
            segment.payload = self.bytes[at(begins)..at(ends)].to_vec();
        }
        segment.sequence = begins.wrapping_sub(segment.syn.into());
    }
}
