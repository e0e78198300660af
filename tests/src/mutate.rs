//! Alters captured sessions, to create cases that are hard to capture.
//!
//! All functions work on Ethernet, IPv4 without options and UDP. They recompute the IPv4 header
//! checksum and the ICRC of changed packets, unless a packet is corrupted on purpose.

mod foreign;
mod loss;
mod messages;
mod sequence;

pub use foreign::{Compose, FOREIGN, carry};
pub use loss::{Kind, Variant, is_from_client, variant, variant_in_form};
pub use messages::*;
pub use sequence::*;

use crate::pcap::{Capture, Packet};
use crate::samples;
use core::net::Ipv4Addr;
use core::ops::Range;
use rdmascope_wire::bth::{Bth, Extensions};
use rdmascope_wire::{compose, icrc};

/// Offsets of the headers in a frame.
const IP: usize = 14;
const UDP: usize = IP + 20;
/// The offset of the BTH.
pub const BTH: usize = UDP + 8;
/// The offset of the first extension header.
pub const EXTENSION: usize = BTH + 12;
/// The offset of a MAD, after BTH and DETH.
const MAD: usize = EXTENSION + 8;
/// The offset of a CM message, after the common MAD header.
const CM: usize = MAD + 24;

/// The modulus of PSNs.
pub const PSNS: u32 = 1 << 24;

/// The server in the samples.
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// The client in the samples.
pub const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

/// BTH opcodes.
#[allow(missing_docs)]
pub mod opcode {
    pub const SEND_FIRST: u8 = 0x00;
    pub const SEND_LAST: u8 = 0x02;
    pub const SEND_ONLY: u8 = 0x04;
    pub const WRITE_FIRST: u8 = 0x06;
    pub const WRITE_MIDDLE: u8 = 0x07;
    pub const WRITE_LAST: u8 = 0x08;
    pub const WRITE_ONLY: u8 = 0x0a;
    pub const READ_REQUEST: u8 = 0x0c;
    pub const READ_RESPONSE_FIRST: u8 = 0x0d;
    pub const READ_RESPONSE_MIDDLE: u8 = 0x0e;
    pub const READ_RESPONSE_LAST: u8 = 0x0f;
    pub const READ_RESPONSE_ONLY: u8 = 0x10;
    pub const ACKNOWLEDGE: u8 = 0x11;
    pub const SEND_LAST_INVALIDATE: u8 = 0x16;
    pub const SEND_ONLY_INVALIDATE: u8 = 0x17;
    pub const UD_SEND_ONLY: u8 = 0x64;
    pub const CNP: u8 = 0x81;
}

/// CM attribute IDs (IBTA volume 1, table 99).
#[allow(missing_docs)]
pub mod attribute {
    pub const REQ: u16 = 0x0010;
    pub const MRA: u16 = 0x0011;
    pub const REJ: u16 = 0x0012;
    pub const REP: u16 = 0x0013;
    pub const RTU: u16 = 0x0014;
    pub const DREQ: u16 = 0x0015;
    pub const DREP: u16 = 0x0016;
    pub const SIDR_REQ: u16 = 0x0017;
    pub const SIDR_REP: u16 = 0x0018;
    pub const LAP: u16 = 0x0019;
    pub const APR: u16 = 0x001a;
}

/// Access to the fields of a packet. Setters do not update the ICRC; call [`Packet::seal`]
/// afterwards.
#[allow(missing_docs)]
impl Packet {
    /// Whether it is RoCEv2 in the form that the lab sends.
    pub fn is_roce(&self) -> bool {
        self.data.len() >= EXTENSION
            && self.data[12..14] == [0x08, 0x00]
            && self.data[IP] == 0x45
            && self.data[IP + 9] == 17
            && self.data[UDP + 2..UDP + 4] == 4791u16.to_be_bytes()
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.data[at], self.data[at + 1]])
    }

    fn u24(&self, at: usize) -> u32 {
        u32::from_be_bytes([0, self.data[at], self.data[at + 1], self.data[at + 2]])
    }

    fn set_u24(&mut self, at: usize, value: u32) {
        self.data[at..at + 3].copy_from_slice(&value.to_be_bytes()[1..]);
    }

    pub fn u32(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.data[at..at + 4].try_into().expect("four bytes"))
    }

    pub fn set_u32(&mut self, at: usize, value: u32) {
        self.data[at..at + 4].copy_from_slice(&value.to_be_bytes());
    }

    pub fn u64(&self, at: usize) -> u64 {
        u64::from_be_bytes(self.data[at..at + 8].try_into().expect("eight bytes"))
    }

    fn set_u64(&mut self, at: usize, value: u64) {
        self.data[at..at + 8].copy_from_slice(&value.to_be_bytes());
    }

    pub fn source(&self) -> Ipv4Addr {
        Ipv4Addr::from(self.u32(IP + 12))
    }

    pub fn destination(&self) -> Ipv4Addr {
        Ipv4Addr::from(self.u32(IP + 16))
    }

    pub fn set_udp_source_port(&mut self, port: u16) {
        self.data[UDP..UDP + 2].copy_from_slice(&port.to_be_bytes());
    }

    pub fn opcode(&self) -> u8 {
        self.data[BTH]
    }

    pub fn set_opcode(&mut self, opcode: u8) {
        self.data[BTH] = opcode;
    }

    /// Whether it belongs to a reliable connection.
    pub fn is_rc(&self) -> bool {
        self.is_roce() && self.opcode() >> 5 == 0
    }

    /// Whether its PSN is one of the other end's requests, as in READ responses and
    /// acknowledgements.
    pub fn is_response(&self) -> bool {
        (opcode::READ_RESPONSE_FIRST..=0x12).contains(&self.opcode())
    }

    pub fn destination_qp(&self) -> u32 {
        self.u24(BTH + 5)
    }

    pub fn set_destination_qp(&mut self, qp: u32) {
        self.set_u24(BTH + 5, qp);
    }

    pub fn psn(&self) -> u32 {
        self.u24(BTH + 9)
    }

    pub fn set_psn(&mut self, psn: u32) {
        self.set_u24(BTH + 9, psn % PSNS);
    }

    /// Virtual address, R_Key and DMA length, if the opcode has a RETH.
    pub fn reth(&self) -> Option<(u64, u32, u32)> {
        let has_reth =
            matches!(self.opcode(), opcode::WRITE_FIRST | opcode::WRITE_ONLY | opcode::READ_REQUEST)
                && self.data.len() >= EXTENSION + 16;
        has_reth.then(|| (self.u64(EXTENSION), self.u32(EXTENSION + 8), self.u32(EXTENSION + 12)))
    }

    pub fn set_reth(&mut self, address: u64, rkey: u32, length: u32) {
        self.set_u64(EXTENSION, address);
        self.set_u32(EXTENSION + 8, rkey);
        self.set_u32(EXTENSION + 12, length);
    }

    /// The invalidated R_Key, if the opcode has an IETH.
    pub fn ieth(&self) -> Option<u32> {
        let has_ieth = matches!(self.opcode(), opcode::SEND_LAST_INVALIDATE | opcode::SEND_ONLY_INVALIDATE);
        has_ieth.then(|| self.u32(EXTENSION))
    }

    pub fn set_ieth(&mut self, rkey: u32) {
        self.set_u32(EXTENSION, rkey);
    }

    /// The range of the payload without padding and ICRC, for the RC opcodes that occur in the
    /// samples.
    pub fn payload(&self) -> Range<usize> {
        let extensions = match self.opcode() {
            opcode::WRITE_FIRST | opcode::WRITE_ONLY | opcode::READ_REQUEST => 16,
            opcode::READ_RESPONSE_FIRST
            | opcode::READ_RESPONSE_LAST
            | opcode::READ_RESPONSE_ONLY
            | opcode::ACKNOWLEDGE
            | opcode::SEND_LAST_INVALIDATE
            | opcode::SEND_ONLY_INVALIDATE => 4,
            opcode::UD_SEND_ONLY => 8,
            _ => 0,
        };
        let pad = usize::from(self.data[BTH + 1] >> 4 & 3);
        let start = EXTENSION + extensions;
        let end = self.ip_end() - icrc::LENGTH - pad;
        start..end.max(start)
    }

    /// Whether the payload begins with an RPC-over-RDMA header.
    pub fn starts_message(&self) -> bool {
        self.is_rc()
            && matches!(self.opcode(), opcode::SEND_FIRST | opcode::SEND_ONLY | opcode::SEND_ONLY_INVALIDATE)
            && self.payload().len() >= 16
    }

    /// The rdma_xid.
    pub fn xid(&self) -> Option<u32> {
        self.starts_message().then(|| self.u32(self.payload().start))
    }

    /// The attribute ID of its CM message.
    pub fn cm_attribute(&self) -> Option<u16> {
        let has_mad = self.is_roce() && self.opcode() == opcode::UD_SEND_ONLY && self.data.len() >= CM + 232;
        has_mad.then(|| self.u16(MAD + 16))
    }

    pub fn set_cm_attribute(&mut self, attribute: u16) {
        self.data[MAD + 16..MAD + 18].copy_from_slice(&attribute.to_be_bytes());
    }

    /// The CM message after the MAD header.
    pub fn cm_body(&mut self) -> &mut [u8] {
        &mut self.data[CM..CM + 232]
    }

    /// Parses a complete packet into the fields of [`Frame::compose`](compose::Frame::compose).
    pub fn to_frame(&self) -> compose::Frame<'_> {
        let ethernet = self.data[..12].split_at(6);
        let bth = Bth::parse(&self.data[BTH..]).expect("a BTH");
        let rest = &self.data[EXTENSION..self.ip_end() - icrc::LENGTH - usize::from(bth.pad_count)];
        let (extensions, length) = Extensions::parse(bth.opcode, rest).expect("the opcode's headers");
        compose::Frame {
            ethernet: Some(compose::Ethernet {
                destination: ethernet.0.try_into().expect("six bytes"),
                source: ethernet.1.try_into().expect("six bytes"),
                vlan: None,
            }),
            carrier: compose::Carrier::Ipv4(
                compose::Ipv4 {
                    type_of_service: self.data[IP + 1],
                    identification: self.u16(IP + 4),
                    dont_fragment: self.u16(IP + 6) == 0x4000,
                    time_to_live: self.data[IP + 8],
                    source: self.source(),
                    destination: self.destination(),
                },
                compose::Udp {
                    source_port: self.u16(UDP),
                    destination_port: self.u16(UDP + 2),
                    checksum: self.u16(UDP + 6),
                },
            ),
            bth,
            extensions,
            payload: &rest[length..],
        }
    }

    /// The offset of the end of the IP packet.
    fn ip_end(&self) -> usize {
        IP + usize::from(self.u16(IP + 2))
    }

    /// Replaces the bytes after the BTH and updates all lengths.
    pub fn set_after_bth(&mut self, bytes: &[u8]) {
        let frame = compose::Frame { extensions: Extensions::default(), payload: bytes, ..self.to_frame() };
        self.data = frame.to_vec().expect("it fits a packet");
        self.original_length = self.data.len() as u32;
    }

    /// Recomputes the IPv4 checksum and the ICRC.
    pub fn seal(&mut self) {
        if !self.is_roce() {
            return;
        }
        self.data[IP + 10..IP + 12].fill(0);
        let sum: u32 = (IP..UDP).step_by(2).map(|at| u32::from(self.u16(at))).sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        let checksum = !(sum as u16);
        self.data[IP + 10..IP + 12].copy_from_slice(&checksum.to_be_bytes());
        let end = self.ip_end() - icrc::LENGTH;
        if self.data.len() >= end + icrc::LENGTH {
            let value = self.icrc();
            self.data[end..end + icrc::LENGTH].copy_from_slice(&value.to_le_bytes());
        }
    }

    /// The correct ICRC.
    pub fn icrc(&self) -> u32 {
        let end = self.ip_end() - icrc::LENGTH;
        let udp = self.data[UDP..BTH].try_into().expect("eight bytes");
        icrc::roce_v2(&self.data[IP..UDP], udp, &self.data[BTH..end]).expect("an IPv4 header")
    }

    /// The ICRC in the packet.
    pub fn icrc_found(&self) -> u32 {
        let end = self.ip_end() - icrc::LENGTH;
        u32::from_le_bytes(self.data[end..end + icrc::LENGTH].try_into().expect("four bytes"))
    }
}

/// Applies `change` to every packet and seals it.
pub fn each(capture: &mut Capture, mut change: impl FnMut(&mut Packet)) {
    for packet in &mut capture.packets {
        if packet.is_roce() {
            change(packet);
            packet.seal();
        }
    }
}

/// Shifts the PSNs of the requests that `sender` sends, with those of the responses, and the
/// Starting PSN that its peer announced in a REQ or REP. (The Starting PSN is the one that the
/// sender *of the CM message* expects to receive.)
pub fn shift_psn(capture: &mut Capture, sender: Ipv4Addr, by: u32) {
    each(capture, |packet| {
        if packet.is_rc() {
            let whose = if packet.is_response() { packet.destination() } else { packet.source() };
            if whose == sender {
                packet.set_psn(packet.psn() + by % PSNS);
            }
        } else if packet.destination() == sender {
            let at = match packet.cm_attribute() {
                Some(attribute::REQ) => CM + 44,
                Some(attribute::REP) => CM + 20,
                _ => return,
            };
            let shifted = (packet.u24(at) + by) % PSNS;
            packet.set_u24(at, shifted);
        }
    });
}

/// Changes the QPN of `owner`, in the packets to it and in the CM messages that name it.
pub fn renumber_qp(capture: &mut Capture, owner: Ipv4Addr, qp: u32) {
    each(capture, |packet| {
        if packet.is_rc() && packet.destination() == owner {
            packet.set_destination_qp(qp);
        }
        match packet.cm_attribute() {
            Some(attribute::REQ) if packet.source() == owner => packet.set_u24(CM + 32, qp),
            Some(attribute::REP) if packet.source() == owner => packet.set_u24(CM + 12, qp),
            Some(attribute::DREQ) if packet.destination() == owner => packet.set_u24(CM + 8, qp),
            _ => {}
        }
    });
}

/// Changes the address of a host in IP headers, GIDs and the RDMA-CM IP header.
pub fn readdress(capture: &mut Capture, old: Ipv4Addr, new: Ipv4Addr) {
    each(capture, |packet| {
        let mut places = vec![IP + 12, IP + 16];
        if packet.cm_attribute() == Some(attribute::REQ) {
            // Primary local and remote port GID (at 56 and 72, ::ffff:a.b.c.d); source and
            // destination of the RDMA-CM IP header (at 4 and 20 of the private data, which is at
            // 140), right-aligned in 16 bytes.
            places.extend([CM + 56 + 12, CM + 72 + 12, CM + 140 + 4 + 12, CM + 140 + 20 + 12]);
        }
        for at in places {
            if packet.u32(at) == u32::from(old) {
                packet.set_u32(at, u32::from(new));
            }
        }
    });
}

/// Changes the address of a host in the IP headers of TCP segments.
pub fn readdress_segments(capture: &mut Capture, old: Ipv4Addr, new: Ipv4Addr) {
    const PROTOCOL: usize = IP + 9;
    const TCP: u8 = 6;
    for packet in capture.packets.iter_mut().filter(|packet| packet.data.get(PROTOCOL) == Some(&TCP)) {
        for at in [IP + 12, IP + 16] {
            if packet.u32(at) == u32::from(old) {
                packet.set_u32(at, u32::from(new));
            }
        }
        seal_segment(&mut packet.data);
    }
}

/// Sets the IP length and the TCP checksum of a frame of Ethernet, IPv4 and TCP.
pub fn seal_segment(data: &mut [u8]) {
    let length = (data.len() - 14) as u16;
    data[16..18].copy_from_slice(&length.to_be_bytes());
    data[UDP + 16..UDP + 18].fill(0);
    let pseudo = [&data[26..34], &[0, 6], &(length - 20).to_be_bytes()].concat();
    let words = |bytes: &[u8]| -> u32 {
        let word = |pair: &[u8]| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low));
        bytes.chunks(2).map(word).sum()
    };
    let mut sum = words(&pseudo) + words(&data[UDP..]);
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    data[UDP + 16..UDP + 18].copy_from_slice(&(!sum as u16).to_be_bytes());
}

/// Changes the communication IDs and MAD transaction IDs of all CM exchanges.
pub fn change_communication_ids(capture: &mut Capture, mask: u32) {
    each(capture, |packet| {
        let Some(attribute) = packet.cm_attribute() else { return };
        packet.set_u32(MAD + 12, packet.u32(MAD + 12) ^ mask);
        packet.set_u32(CM, packet.u32(CM) ^ mask);
        if attribute != attribute::REQ {
            packet.set_u32(CM + 4, packet.u32(CM + 4) ^ mask);
        }
    });
}

/// Renames memory in chunk lists, RETHs and IETHs. `map` takes a handle and an offset to the new
/// ones; it must keep distances within a region.
pub fn rename_memory(capture: &mut Capture, map: impl Fn(u32, u64) -> (u32, u64)) {
    each(capture, |packet| {
        if !packet.is_rc() {
            return;
        }
        if let Some((address, rkey, length)) = packet.reth() {
            let (rkey, address) = map(rkey, address);
            packet.set_reth(address, rkey, length);
        }
        if let Some(rkey) = packet.ieth() {
            packet.set_ieth(map(rkey, 0).0);
        }
        for at in segments(packet) {
            let (handle, offset) = map(packet.u32(at), packet.u64(at + 8));
            packet.set_u32(at, handle);
            packet.set_u64(at + 8, offset);
        }
    });
}

/// Changes the XIDs in RPC-over-RDMA headers, in the RPC messages after them, and in Long Replies.
pub fn change_xids(capture: &mut Capture, map: impl Fn(u32) -> u32) {
    let mut long_replies: Vec<(u32, u64)> = Vec::new();
    each(capture, |packet| {
        if packet.starts_message() {
            let start = packet.payload().start;
            packet.set_u32(start, map(packet.u32(start)));
            match packet.u32(start + 12) {
                0 => {
                    let at = start + header_length(packet);
                    packet.set_u32(at, map(packet.u32(at)));
                    if let Some(first) = reply_chunk(packet) {
                        long_replies.push((packet.u32(first), packet.u64(first + 8)));
                    }
                }
                1 => {}
                other => panic!("rdma_proc {other} in frame {}", packet.number),
            }
        } else if let Some((address, rkey, _)) =
            packet.reth().filter(|_| packet.opcode() != opcode::READ_REQUEST)
            && long_replies.contains(&(rkey, address))
        {
            let at = packet.payload().start;
            packet.set_u32(at, map(packet.u32(at)));
        }
    });
}

/// Offsets of the chunk lists in a Send.
#[derive(Debug, Default)]
struct Lists {
    /// The handle of each segment.
    segments: Vec<usize>,
    /// The first segment of the Reply chunk.
    reply: Option<usize>,
    /// The first byte after the lists.
    end: usize,
}

/// Parses the chunk lists of an RDMA_MSG or RDMA_NOMSG of version 1, which must be complete and
/// valid.
fn lists(packet: &Packet) -> Lists {
    let mut lists = Lists::default();
    let mut at = packet.payload().start + 16;
    let word = |at: &mut usize| {
        *at += 4;
        packet.u32(*at - 4)
    };
    while word(&mut at) == 1 {
        lists.segments.push(at + 4);
        at += 20;
    }
    while word(&mut at) == 1 {
        for _ in 0..word(&mut at) {
            lists.segments.push(at);
            at += 16;
        }
    }
    if word(&mut at) == 1 {
        let count = word(&mut at) as usize;
        lists.reply = (count > 0).then_some(at);
        lists.segments.extend((0..count).map(|index| at + 16 * index));
        at += 16 * count;
    }
    lists.end = at;
    lists
}

fn has_lists(packet: &Packet) -> bool {
    packet.starts_message() && packet.u32(packet.payload().start + 12) <= 1
}

/// The offset of the handle of each segment in a Send's header.
pub fn segments(packet: &Packet) -> Vec<usize> {
    if has_lists(packet) { lists(packet).segments } else { Vec::new() }
}

/// The offset of the first segment of the Reply chunk.
pub fn reply_chunk(packet: &Packet) -> Option<usize> {
    has_lists(packet).then(|| lists(packet))?.reply
}

/// The length of the RPC-over-RDMA header of an RDMA_MSG or RDMA_NOMSG.
pub fn header_length(packet: &Packet) -> usize {
    lists(packet).end - packet.payload().start
}

/// The capture without its CM packets, as if it had begun after the connect and ended before the
/// disconnect.
pub fn without_cm(capture: &Capture) -> Capture {
    keep(capture, |packet| packet.cm_attribute().is_none())
}

/// The packets for which `wanted` holds, with their old numbers.
pub fn keep(capture: &Capture, wanted: impl Fn(&Packet) -> bool) -> Capture {
    let packets = capture.packets.iter().filter(|packet| wanted(packet)).cloned().collect();
    Capture { link: capture.link, packets }
}

/// The capture with this snap length.
pub fn cut(capture: &Capture, snap_length: usize) -> Capture {
    let mut capture = capture.clone();
    capture.packets.iter_mut().for_each(|packet| packet.data.truncate(snap_length));
    capture
}

/// Merges two captures by time and renumbers the packets. At equal times, packets of the first
/// capture come first.
pub fn merge(first: &Capture, second: &Capture) -> Capture {
    let mut merged = first.clone();
    merged.packets.extend(second.packets.iter().cloned());
    merged.packets.sort_by_key(|packet| packet.time);
    merged.renumber();
    merged
}

/// The session twice without CM messages, the second time on other queue pairs and `later`
/// nanoseconds later.
pub fn side_by_side(session: &Capture, later: i64) -> Capture {
    let first = without_cm(session);
    let mut second = first.clone();
    renumber_qp(&mut second, CLIENT, 0x333);
    renumber_qp(&mut second, SERVER, 0x444);
    change_xids(&mut second, |xid| xid ^ 0x55_0000);
    rename_memory(&mut second, |rkey, address| (rkey ^ 0x5500_0000, address));
    shift_psn(&mut second, CLIENT, 0x1234);
    shift_psn(&mut second, SERVER, 0x4321);
    second.packets.iter_mut().for_each(|packet| packet.time += later);
    merge(&first, &second)
}

/// The session on another connection between the same ends, `later` nanoseconds later. XIDs, PSNs
/// and memory are the same.
#[must_use]
pub fn on_another_connection(session: &Capture, later: i64) -> Capture {
    let mut other = session.clone();
    renumber_qp(&mut other, SERVER, 0x31);
    renumber_qp(&mut other, CLIENT, 0x32);
    change_communication_ids(&mut other, 0x0f0f_0f0f);
    other.packets.iter_mut().for_each(|packet| packet.time += later);
    other
}

/// The capture from the packet at this index on.
pub fn from(capture: &Capture, index: usize) -> Capture {
    let mut rest = Capture { link: capture.link, packets: capture.packets[index..].to_vec() };
    rest.renumber();
    rest
}

/// Moves a packet from index `from` to index `to`, as a capture shows reordered packets: numbers
/// and times stay at their indices.
pub fn reorder(capture: &mut Capture, from: usize, to: usize) {
    let places: Vec<(u64, i64)> = capture.packets.iter().map(|packet| (packet.number, packet.time)).collect();
    let packet = capture.packets.remove(from);
    capture.packets.insert(to, packet);
    for (packet, (number, time)) in capture.packets.iter_mut().zip(places) {
        packet.number = number;
        packet.time = time;
    }
}

/// Sends every packet for which `wanted` holds twice in a row, the second time with another
/// Identification in the IP header.
pub fn repeat(capture: &Capture, wanted: impl Fn(&Packet) -> bool) -> Capture {
    twice(capture, wanted, |packet| {
        if packet.is_roce() {
            packet.data[IP + 4] ^= 0x80;
            packet.seal();
        }
    })
}

/// Captures every packet for which `wanted` holds twice in a row.
pub fn copy(capture: &Capture, wanted: impl Fn(&Packet) -> bool) -> Capture {
    twice(capture, wanted, |_| {})
}

fn twice(capture: &Capture, wanted: impl Fn(&Packet) -> bool, change: impl Fn(&mut Packet)) -> Capture {
    let mut packets = Vec::new();
    for packet in &capture.packets {
        packets.push(packet.clone());
        if wanted(packet) {
            let mut second = packet.clone();
            change(&mut second);
            packets.push(second);
        }
    }
    let mut capture = Capture { link: capture.link, packets };
    capture.renumber();
    capture
}

/// A session of large reads and writes without its CM exchange, whose first call is 1028 bytes
/// long, which exceeds the default inline threshold.
pub fn long_call() -> Capture {
    let mut capture = without_cm(&samples::capture("nfs4.2-mtu4096-large-io"));
    let is_call = |packet: &&mut Packet| {
        packet.is_rc() && packet.opcode() == opcode::SEND_ONLY && packet.source() == CLIENT
    };
    let call = capture.packets.iter_mut().find(is_call).expect("the client calls");
    let payload = call.payload();
    let mut longer = call.data[EXTENSION..payload.end].to_vec();
    longer.resize(1028, 0);
    call.set_after_bth(&longer);
    capture
}
