//! Parses and rebuilds RPC-over-RDMA messages.

use super::{EXTENSION, opcode, shift_psn_from};
use crate::pcap::{Capture, Packet};

/// A segment in a chunk list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Segment {
    pub handle: u32,
    pub length: u32,
    pub offset: u64,
}

/// An RDMA_MSG or RDMA_NOMSG of version 1 in one packet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Message {
    pub xid: u32,
    pub credits: u32,
    pub procedure: u32,
    pub reads: Vec<(u32, Segment)>,
    pub writes: Vec<Vec<Segment>>,
    pub reply: Option<Vec<Segment>>,
    /// The bytes after the chunk lists.
    pub payload: Vec<u8>,
}

impl Message {
    /// Parses the message of a packet, whose header must be complete and valid.
    pub fn of(packet: &Packet) -> Message {
        let segment = |at: usize| Segment {
            handle: packet.u32(at),
            length: packet.u32(at + 4),
            offset: packet.u64(at + 8),
        };
        let start = packet.payload().start;
        let mut at = start + 16;
        let word = |at: &mut usize| {
            *at += 4;
            packet.u32(*at - 4)
        };
        let array = |at: &mut usize| {
            let count = word(at) as usize;
            *at += 16 * count;
            (0..count).map(|index| segment(*at - 16 * (count - index))).collect::<Vec<_>>()
        };
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        while word(&mut at) == 1 {
            reads.push((word(&mut at), segment(at)));
            at += 16;
        }
        while word(&mut at) == 1 {
            writes.push(array(&mut at));
        }
        let reply = (word(&mut at) == 1).then(|| array(&mut at));
        Message {
            xid: packet.u32(start),
            credits: packet.u32(start + 8),
            procedure: packet.u32(start + 12),
            reads,
            writes,
            reply,
            payload: packet.data[at..packet.payload().end].to_vec(),
        }
    }

    /// Its bytes.
    pub fn build(&self) -> Vec<u8> {
        let mut words = vec![self.xid, 1, self.credits, self.procedure];
        let segment = |words: &mut Vec<u32>, segment: &Segment| {
            words.extend([segment.handle, segment.length]);
            words.extend([(segment.offset >> 32) as u32, segment.offset as u32]);
        };
        for (position, target) in &self.reads {
            words.extend([1, *position]);
            segment(&mut words, target);
        }
        words.push(0);
        for chunk in &self.writes {
            words.extend([1, chunk.len() as u32]);
            chunk.iter().for_each(|one| segment(&mut words, one));
        }
        words.push(0);
        words.push(self.reply.is_some().into());
        if let Some(chunk) = &self.reply {
            words.push(chunk.len() as u32);
            chunk.iter().for_each(|one| segment(&mut words, one));
        }
        let mut bytes: Vec<u8> = words.into_iter().flat_map(u32::to_be_bytes).collect();
        bytes.extend_from_slice(&self.payload);
        bytes
    }

    /// The word at byte `at` of the payload.
    pub fn word(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.payload[at..at + 4].try_into().expect("four bytes"))
    }

    /// Sets the word at byte `at` of the payload.
    pub fn set_word(&mut self, at: usize, value: u32) {
        self.payload[at..at + 4].copy_from_slice(&value.to_be_bytes());
    }
}

/// Changes the message of a packet.
pub fn change_message(packet: &mut Packet, change: impl FnOnce(&mut Message)) {
    let mut message = Message::of(packet);
    change(&mut message);
    let extension = packet.data[EXTENSION..packet.payload().start].to_vec();
    packet.set_after_bth(&[extension, message.build()].concat());
}

/// Turns a Send with Invalidate into a plain Send, and leaves other packets unchanged.
pub fn invalidate_nothing(packet: &mut Packet) {
    if packet.is_rc() && packet.ieth().is_some() {
        let plain = if packet.opcode() == opcode::SEND_ONLY_INVALIDATE {
            opcode::SEND_ONLY
        } else {
            opcode::SEND_LAST
        };
        packet.set_opcode(plain);
        let message = packet.data[EXTENSION + 4..packet.payload().end].to_vec();
        packet.set_after_bth(&message);
    }
}

/// Turns the call at index `at`, which has no chunks and fits one packet, into a Long Call. With
/// `read`, the other end reads it.
///
/// # Panics
/// If the other end does not answer the call.
pub fn make_long_call(capture: &mut Capture, at: usize, read: bool) {
    const HANDLE: u32 = 0x0bad_cafe;
    const ADDRESS: u64 = 0x1_0000;
    let call = &mut capture.packets[at];
    let (payload, to) = (call.payload(), call.destination());
    let rpc = call.data[payload.start + 28..payload.end].to_vec();
    let mut header = call.data[payload.start..payload.start + 12].to_vec();
    for word in [1, 1, 0, HANDLE, rpc.len() as u32] {
        header.extend(u32::to_be_bytes(word));
    }
    header.extend(ADDRESS.to_be_bytes());
    header.extend([0; 12]);
    call.set_after_bth(&header);
    if !read {
        return;
    }
    // The READ request takes the PSN of the next request of the answering end. One packet responds.
    let answers = |packet: &Packet| packet.is_rc() && packet.source() == to && !packet.is_response();
    let answer = capture.packets[at..].iter().find(|packet| answers(packet)).expect("it is answered");
    let (mut request, mut response) = (answer.clone(), capture.packets[at].clone());
    let psn = request.psn();
    shift_psn_from(capture, to, psn, 1);
    (request.time, response.time) = (capture.packets[at].time, capture.packets[at].time);
    request.set_opcode(opcode::READ_REQUEST);
    let mut reth = ADDRESS.to_be_bytes().to_vec();
    reth.extend(HANDLE.to_be_bytes());
    reth.extend((rpc.len() as u32).to_be_bytes());
    request.set_after_bth(&reth);
    response.set_opcode(opcode::READ_RESPONSE_ONLY);
    response.set_psn(psn);
    response.set_after_bth(&[&[0, 0, 0, 1], &rpc[..]].concat());
    capture.packets.splice(at + 1..at + 1, [request, response]);
    capture.renumber();
}
