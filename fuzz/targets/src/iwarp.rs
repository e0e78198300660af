//! Plausible sessions over TCP: the bytes select the writes of two ends, and how the network
//! splits, loses, repeats and reorders them.

use crate::bytes::Bytes;
use crate::judge::judge;
use rdmascope_dissector::record::{LinkType, Record, Time};
use rdmascope_wire::Rkey;
use rdmascope_wire::ddp::{Control, Tagged, Untagged};
use rdmascope_wire::mpa::{CRC_LENGTH, Crc, StartFrame, padding};
use rdmascope_wire::rdmap::{Opcode, ReadRequest};

/// Reads the bytes as choices: every few bytes are a write of an end, or segments of its data.
pub fn iwarp(data: &[u8]) {
    let mut session = Session { bytes: Bytes(data), ends: Default::default(), time: 0, frames: Vec::new() };
    session.ends[1].sequence = u32::MAX - 2000;
    while !session.bytes.is_empty() && session.frames.len() < 1024 {
        session.act();
    }
    let frames = session.frames;
    judge((1..).zip(&frames).map(|(number, (time, frame))| Record {
        number,
        time: Time(*time),
        link: LinkType::IPV4,
        original_length: frame.len() as u32,
        dropped: 0,
        tap: Default::default(),
        data: frame,
    }));
}

struct Session<'a> {
    bytes: Bytes<'a>,
    ends: [End; 2],
    time: i64,
    /// With the time of each.
    frames: Vec<(i64, Vec<u8>)>,
}

/// The data of an end.
#[derive(Default)]
struct End {
    /// Data not sent yet.
    written: Vec<u8>,
    /// The sequence number of its first byte.
    sequence: u32,
    /// By queue: messages so far.
    messages: [u32; 4],
}

/// Nanoseconds between packets.
const STEPS: [i64; 4] = [1_000, 100_000, 3_000_000, 5_000_000_000];
/// A few STags and XIDs, so that they match.
const FEW: [u32; 4] = [1, 2, 0x100, 0xcafe_0001];

impl Session<'_> {
    fn act(&mut self) {
        let choice = self.bytes.u8();
        let end = usize::from(choice & 1);
        self.time += STEPS[usize::from(choice >> 1 & 3)];
        match choice >> 3 & 15 {
            0 => self.start(end),
            1..=4 => self.message(end),
            5 => self.read_request(end),
            6 => self.tagged(end),
            7 => {
                let length = usize::from(self.bytes.u8() & 0x3f);
                let bytes = self.bytes.take(length).to_vec();
                self.ends[end].written.extend(bytes);
            }
            8..=12 => self.send(end),
            13 => self.lose_or_repeat(),
            14 => self.segment(end, &[], 0x10),
            _ => {
                let flags = self.bytes.choose(&[0x02, 0x11, 0x14, 0x12]);
                self.segment(end, &[], flags);
            }
        }
    }

    fn start(&mut self, end: usize) {
        let flags = self.bytes.u8();
        let data = [0, 0x10, 0, 0x10, 0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3];
        let frame = StartFrame {
            key: if end == 0 { StartFrame::REQUEST } else { StartFrame::REPLY },
            markers: flags & 1 != 0,
            crc: flags & 2 != 0,
            rejected: flags & 4 != 0,
            enhanced: flags & 8 != 0,
            reserved: 0,
            revision: flags >> 4 & 3,
            private_data_length: data.len() as u16,
        };
        frame.build(&mut self.ends[end].written);
        self.ends[end].written.extend(data);
    }

    /// A Send, or another untagged message, of one or two segments.
    fn message(&mut self, end: usize) {
        let how = self.bytes.u8();
        let opcode = Opcode::from_bits(if how & 0x80 == 0 { 3 + (how & 1) } else { how });
        let mut message = Vec::new();
        // rdma_xid, rdma_vers, rdma_credit, rdma_proc, and the rest.
        let (xid, credits) = (self.bytes.choose(&FEW), 32u32);
        let procedure = u32::from(how >> 2 & 3);
        for word in [xid, 1, credits, procedure] {
            message.extend(word.to_be_bytes());
        }
        let length = usize::from(self.bytes.u8());
        message.extend(self.bytes.take(length));
        let queue = opcode.queue().unwrap_or(0);
        let messages = &mut self.ends[end].messages[queue as usize & 3];
        *messages += 1;
        let number = *messages;
        let middle = if how & 0x10 != 0 { message.len() / 2 } else { message.len() };
        let stag = if opcode.invalidates() { self.bytes.choose(&FEW) } else { 0 };
        for (offset, part, last) in
            [(0, &message[..middle], middle == message.len()), (middle, &message[middle..], true)]
        {
            if part.is_empty() && offset > 0 {
                continue;
            }
            let mut ulpdu = Untagged {
                control: control(opcode, false, last),
                invalidate_stag: Rkey(stag),
                queue,
                message_number: number,
                message_offset: offset as u32,
            }
            .to_bytes()
            .to_vec();
            ulpdu.extend(part);
            self.fpdu(end, &ulpdu, how & 0x20 != 0);
        }
    }

    fn read_request(&mut self, end: usize) {
        let request = ReadRequest {
            sink_stag: Rkey(self.bytes.choose(&FEW)),
            sink_offset: u64::from(self.bytes.u8()),
            size: u32::from(self.bytes.u16()),
            source_stag: Rkey(self.bytes.choose(&FEW)),
            source_offset: u64::from(self.bytes.u8()),
        };
        self.ends[end].messages[1] += 1;
        let mut ulpdu = Untagged {
            control: control(Opcode::ReadRequest, false, true),
            invalidate_stag: Rkey(0),
            queue: 1,
            message_number: self.ends[end].messages[1],
            message_offset: 0,
        }
        .to_bytes()
        .to_vec();
        ulpdu.extend(request.to_bytes());
        self.fpdu(end, &ulpdu, false);
    }

    fn tagged(&mut self, end: usize) {
        let how = self.bytes.u8();
        let opcode = if how & 1 == 0 { Opcode::Write } else { Opcode::ReadResponse };
        let mut ulpdu = Tagged {
            control: control(opcode, true, how & 2 != 0),
            stag: Rkey(self.bytes.choose(&FEW)),
            offset: u64::from(self.bytes.u8()),
        }
        .to_bytes()
        .to_vec();
        let length = usize::from(self.bytes.u8());
        ulpdu.extend(self.bytes.take(length));
        self.fpdu(end, &ulpdu, how & 4 != 0);
    }

    fn fpdu(&mut self, end: usize, ulpdu: &[u8], without_crc: bool) {
        let length = ulpdu.len() as u16;
        let mut fpdu = length.to_be_bytes().to_vec();
        fpdu.extend(ulpdu);
        fpdu.extend(&[0; 3][..padding(length)]);
        let mut crc = Crc::default();
        crc.update(&fpdu);
        fpdu.extend(if without_crc { [0; CRC_LENGTH] } else { crc.finish() });
        self.ends[end].written.extend(fpdu);
    }

    /// Sends some of an end's data in one segment.
    fn send(&mut self, end: usize) {
        let most = usize::from(self.bytes.u8()) * 4 + 1;
        let written = &mut self.ends[end].written;
        let payload: Vec<u8> = written.drain(..most.min(written.len())).collect();
        self.segment(end, &payload, 0x18);
        self.ends[end].sequence = self.ends[end].sequence.wrapping_add(payload.len() as u32);
    }

    /// The network loses the last packet, repeats it, reorders it, or changes a byte.
    fn lose_or_repeat(&mut self) {
        let how = self.bytes.u8();
        let Some(last) = self.frames.last().cloned() else { return };
        let count = self.frames.len();
        match how & 3 {
            0 => drop(self.frames.pop()),
            1 => self.frames.push(last),
            2 if count > 1 => self.frames.swap(count - 1, count - 2),
            _ => {
                let frame = &mut self.frames[count - 1].1;
                let at = usize::from(how >> 2) % frame.len();
                frame[at] ^= 1;
            }
        }
    }

    fn segment(&mut self, end: usize, payload: &[u8], flags: u8) {
        let [source, destination] = [[192, 0, 2, 1 + end as u8], [192, 0, 2, 2 - end as u8]];
        let ports = if end == 0 { [700u16, 20_049] } else { [20_049, 700] };
        let mut frame = vec![0x45, 0];
        frame.extend((40 + payload.len() as u16).to_be_bytes());
        frame.extend([0, 1, 0x40, 0, 64, 6, 0, 0]);
        frame.extend(source);
        frame.extend(destination);
        frame.extend(ports[0].to_be_bytes());
        frame.extend(ports[1].to_be_bytes());
        frame.extend(self.ends[end].sequence.to_be_bytes());
        frame.extend(self.ends[1 - end].sequence.to_be_bytes());
        frame.extend([0x50, flags, 0x20, 0, 0, 0, 0, 0]);
        frame.extend(payload);
        self.frames.push((self.time, frame));
    }
}

fn control(opcode: Opcode, tagged: bool, last: bool) -> Control {
    let (ddp_version, rdmap_version) = (Control::DDP_VERSION, Control::RDMAP_VERSION);
    Control { tagged, last, reserved: 0, ddp_version, rdmap_version, rdmap_reserved: 0, opcode }
}
