//! The stream that each end of an iWARP session sends, its FPDUs, and the transactions that they
//! belong to.
//!
//! Derived from the bytes alone by RFC 5044, RFC 5041 and RFC 5040, without the engine.

use crate::pcap::Capture;
use crate::segments::{Checksum, SERVER_PORT, Segment};
use core::ops::Range;
use rdmascope_wire::Xid;
use std::collections::{BTreeMap, HashSet};

/// The stream of one end of a connection.
#[derive(Clone, Debug, Default)]
pub struct Flow {
    /// Source and destination port.
    pub ports: [u16; 2],
    /// The sequence number of the first byte.
    pub first_sequence: u32,
    /// The bytes, up to the first one that the capture lacks.
    pub bytes: Vec<u8>,
    /// The length of the start frame, if the stream begins with one.
    pub start: Option<usize>,
    /// The FPDUs in stream order.
    pub fpdus: Vec<Fpdu>,
    /// The undamaged segments: frame, and range of the payload in the stream.
    segments: Vec<(u64, Range<usize>)>,
}

/// An FPDU.
#[derive(Clone, Debug)]
pub struct Fpdu {
    /// Its range in the stream.
    pub range: Range<usize>,
    /// The length of its length field and headers.
    header: usize,
    /// Whether its queue matches its opcode. If not, only the preceding FPDU locates it.
    is_regular: bool,
    /// The transactions that it may belong to: for a Read Response, all that read into the same
    /// memory.
    xids: Vec<Xid>,
}

/// A segment: its frame, the sequence number of its first byte of payload, and the payload.
type Payload = (u64, u32, Vec<u8>);

/// The streams between two hosts.
pub fn flows(capture: &Capture) -> Vec<Flow> {
    let mut all: BTreeMap<[u16; 2], Vec<Payload>> = BTreeMap::new();
    for packet in &capture.packets {
        let Some(segment) = Segment::of(packet).filter(|it| it.checksum != Checksum::Wrong) else { continue };
        let part = (packet.number, segment.payload_sequence(), segment.payload);
        all.entry(segment.ports).or_default().push(part);
    }
    let mut flows: Vec<Flow> = all.into_iter().map(|(ports, parts)| Flow::new(ports, &parts)).collect();
    // Sink and length of an RDMA Read identify the request, whose source address in the client's
    // memory contains the XID.
    let mut reads = Vec::new();
    flows.iter_mut().for_each(|flow| flow.assign_xids(&mut reads));
    flows.iter_mut().for_each(|flow| flow.assign_xids(&mut reads));
    flows
}

impl Flow {
    fn new(ports: [u16; 2], parts: &[Payload]) -> Flow {
        let first = parts.iter().map(|(_, sequence, _)| *sequence);
        let first_sequence =
            first.reduce(|least, it| if (it.wrapping_sub(least) as i32) < 0 { it } else { least });
        let first_sequence = first_sequence.unwrap_or_default();
        let mut flow = Flow { ports, first_sequence, ..Flow::default() };
        let mut sorted: Vec<_> = parts.iter().filter(|(_, _, payload)| !payload.is_empty()).collect();
        sorted.sort_by_key(|(_, sequence, _)| sequence.wrapping_sub(first_sequence));
        for (frame, sequence, payload) in sorted {
            let at = sequence.wrapping_sub(first_sequence) as usize;
            if at > flow.bytes.len() {
                // Only a keep-alive may precede the gap.
                if flow.bytes.len() > 1 {
                    break;
                }
                flow.bytes.resize(at, 0);
            }
            let end = at + payload.len();
            if end > flow.bytes.len() {
                let known = flow.bytes.len() - at;
                flow.bytes.extend(&payload[known..]);
            }
            flow.segments.push((*frame, at..end));
        }
        flow.find_fpdus();
        flow
    }

    fn find_fpdus(&mut self) {
        let bytes = &self.bytes;
        let half = |at: usize| Some(usize::from(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?)));
        let mut at = if bytes.starts_with(b"MPA ID Re") {
            self.start = half(18).map(|private_data| 20 + private_data);
            self.start.unwrap_or_default()
        } else {
            // DDP version 1, an opcode below 8, RDMAP version 0 or 1, a queue below 3.
            let is_fpdu = |at: usize| {
                bytes.get(at + 2..at + 12).is_some_and(|it| {
                    it[0] & 0x3f == 1
                        && it[1] & 0xbf < 8
                        && (it[0] & 0x80 != 0 || it[6..9] == [0; 3] && it[9] < 3)
                })
            };
            let starts = self.segments.iter().map(|(_, range)| range.start);
            starts.filter(|at| is_fpdu(*at)).min().unwrap_or(bytes.len())
        };
        while let (Some(length), Some(control)) = (half(at), bytes.get(at + 2)) {
            let end = at + (2 + length).next_multiple_of(4) + 4;
            if end > bytes.len() || length < 14 {
                break;
            }
            let header = if control & 0x80 != 0 { 16 } else { 20 };
            let is_regular = match bytes[at + 3] & 0x0f {
                0 | 2 => header == 16,
                opcode => header == 20 && bytes[at + 11] == [0, 1, 0, 0, 0, 0, 0, 2][usize::from(opcode & 7)],
            };
            self.fpdus.push(Fpdu { range: at..end, header, is_regular, xids: Vec::new() });
            at = end;
        }
    }

    /// Finds the transactions of each FPDU. `reads` has the STag and the range of the sink of each
    /// RDMA Read, and its transaction.
    fn assign_xids(&mut self, reads: &mut Vec<(u32, Range<u64>, Xid)>) {
        let Flow { bytes, fpdus, .. } = self;
        let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let long = |at: usize| u64::from(word(at)) << 32 | u64::from(word(at + 4));
        let in_address = |address: u64| Xid((address >> 32) as u32);
        let mut send = Vec::new();
        for fpdu in fpdus {
            let at = fpdu.range.start;
            let is_short = fpdu.range.len() < 20 + 28 + 4;
            fpdu.xids = match bytes[at + 3] & 0x0f {
                0 => vec![in_address(long(at + 8))],
                1 if !is_short => {
                    let (sink, offset, size) = (word(at + 20), long(at + 24), word(at + 32));
                    let xid = in_address(long(at + 40));
                    let read = (sink, offset..offset + u64::from(size), xid);
                    if !reads.contains(&read) {
                        reads.push(read);
                    }
                    vec![xid]
                }
                2 => {
                    let (sink, offset) = (word(at + 4), long(at + 8));
                    let into =
                        reads.iter().filter(|(stag, range, _)| *stag == sink && range.contains(&offset));
                    into.map(|(_, _, xid)| *xid).collect()
                }
                3..=6 => {
                    if word(at + 16) == 0 && fpdu.range.len() >= 24 + 4 {
                        send = vec![Xid(word(at + 20))];
                    }
                    send.clone()
                }
                _ => Vec::new(),
            };
        }
    }

    /// The transactions affected if the capture lacks some frames: those with an incomplete FPDU,
    /// and those with an FPDU whose start cannot be found. A start is found by the preceding FPDU,
    /// by the start of a segment, or by a complete FPDU within one segment.
    pub fn affected(&self, lost: &HashSet<u64>) -> HashSet<Xid> {
        let mut kept: Vec<&Range<usize>> =
            self.segments.iter().filter(|(frame, _)| !lost.contains(frame)).map(|(_, range)| range).collect();
        kept.sort_by_key(|range| (range.start, range.end));
        let has = |wanted: Range<usize>| {
            let mut at = wanted.start;
            for range in &kept {
                if range.start <= at {
                    at = at.max(range.end);
                }
            }
            at >= wanted.end
        };
        let mut affected = HashSet::new();
        let mut is_known = self.start.is_some_and(|start| has(0..start));
        for Fpdu { range, header, is_regular, xids } in &self.fpdus {
            let is_located = kept.iter().any(|it| {
                it.start == range.start && it.end >= range.start + header
                    || it.start < range.start && it.end >= range.end
            });
            is_known |= is_located;
            // An irregular one may be something else until it is known whether the stream has
            // markers.
            if !is_known || !has(range.clone()) || !is_regular && !lost.is_empty() {
                affected.extend(xids);
            }
            is_known &= has(range.start..range.start + header);
        }
        affected
    }

    /// Whether the client sends it.
    pub fn is_from_client(&self) -> bool {
        self.ports[1] == SERVER_PORT
    }
}
