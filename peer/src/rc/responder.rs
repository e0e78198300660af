//! The responder of a queue pair: executes requests in order of their PSNs and answers them (IBTA
//! volume 1, sections 9.7.4 and 9.7.5).
//!
//! | PSN of a request | action |
//! |---|---|
//! | expected | executed, and acknowledged if requested |
//! | earlier | a duplicate: acknowledged or read again |
//! | later | a NAK for a PSN sequence error, once |

use super::{Failure, Fault, QueueEvent, QueuePair, Received, State, packets};
use crate::memory::Refusal;
use crate::packet::Packet;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use rdmascope_wire::bth::{Aeth, Bth, Extensions, Opcode, Operation as Kind, PacketPosition, Reth, Syndrome};
use rdmascope_wire::psn::Psn;

/// Most queued responses. Duplicates beyond that get no answer.
const MOST_RESPONSES: usize = 1024;
/// AETH syndromes of NAKs (table 48).
const NAK: u8 = 0x60;
const RNR_NAK: u8 = 0x20;

#[derive(Clone, Debug)]
pub(crate) struct Responder {
    /// The PSN of the next request.
    pub(crate) expected: Psn,
    /// Number of completed requests, modulo 2^24.
    pub(crate) message_sequence_number: u32,
    /// Whether a NAK for `expected` was sent. No other follows before that request arrives (section
    /// 9.7.5.2.8).
    refused: bool,
    message: Option<Message>,
    /// The maximum length of each posted Receive.
    pub(crate) receives: VecDeque<usize>,
    responses: VecDeque<Response>,
    /// The latest answered READ requests, oldest first. They may be repeated.
    reads: VecDeque<Read>,
    /// Number of READs with unsent responses.
    open_reads: usize,
}

/// A message of several packets in progress.
#[derive(Clone, Debug)]
enum Message {
    Send { bytes: Vec<u8> },
    Write { reth: Reth, written: u32 },
}

/// A READ request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Read {
    first: Psn,
    packets: u32,
    reth: Reth,
}

/// A response to send.
#[derive(Clone, Debug)]
enum Response {
    Acknowledge { psn: Psn, syndrome: u8, message_sequence_number: u32 },
    Read { read: Read, sent: u32, message_sequence_number: u32, again: bool },
}

impl Responder {
    pub(super) fn new(expected: Psn) -> Responder {
        Responder {
            expected,
            message_sequence_number: 0,
            refused: false,
            message: None,
            receives: VecDeque::new(),
            responses: VecDeque::new(),
            reads: VecDeque::new(),
            open_reads: 0,
        }
    }

    /// Drops all READ responses.
    pub(crate) fn end_reads(&mut self) {
        self.responses.retain(|response| !matches!(response, Response::Read { .. }));
        self.open_reads = 0;
    }
}

impl QueuePair {
    /// Handles a request for this queue pair.
    pub(super) fn handle_request(&mut self, packet: &Packet<'_>, kind: Kind) {
        let psn = packet.bth.psn;
        let ahead = self.responder.expected.distance(psn);
        if ahead > 0 {
            if !self.responder.refused {
                self.responder.refused = true;
                self.nak(self.responder.expected, NAK);
            }
            return;
        }
        if ahead < 0 {
            return self.duplicate(packet, kind);
        }
        self.responder.refused = false;
        if kind.is_send() {
            self.take_send(packet, kind);
        } else if kind.is_write() {
            self.take_write(packet, kind);
        } else if kind == Kind::ReadRequest {
            self.take_read(packet);
        } else {
            self.fault(Fault::Opcode(packet.bth.opcode.0));
            self.refuse(psn, 1);
        }
    }

    /// Returns whether opcode and length are valid at this point; otherwise refuses the packet as
    /// an invalid request (section 9.7.4.1).
    fn fits(&mut self, packet: &Packet<'_>, kind: Kind) -> bool {
        let psn = packet.bth.psn;
        let begins = kind.begins_message();
        let in_sequence = match &self.responder.message {
            None => begins,
            Some(Message::Send { .. }) => !begins && kind.is_send(),
            Some(Message::Write { .. }) => !begins && kind.is_write(),
        };
        if !in_sequence {
            self.fault(Fault::OpcodeSequence { opcode: packet.bth.opcode.0, psn });
            self.refuse(psn, 1);
            return false;
        }
        let (length, mtu) = (packet.payload.len(), usize::from(self.config.path_mtu));
        let right = match kind.position() {
            PacketPosition::First | PacketPosition::Middle => length == mtu,
            PacketPosition::Last => (1..=mtu).contains(&length),
            PacketPosition::Only => length <= mtu,
        };
        if !right {
            self.wrong_length(packet);
        }
        right
    }

    fn wrong_length(&mut self, packet: &Packet<'_>) {
        let psn = packet.bth.psn;
        self.fault(Fault::Length { length: packet.payload.len(), psn });
        self.refuse(psn, 1);
    }

    fn take_send(&mut self, packet: &Packet<'_>, kind: Kind) {
        if !self.fits(packet, kind) {
            return;
        }
        let psn = packet.bth.psn;
        let Some(room) = self.receive_for(psn) else { return };
        let mut bytes = match self.responder.message.take() {
            Some(Message::Send { bytes }) => bytes,
            _ => Vec::new(),
        };
        if bytes.len() + packet.payload.len() > room {
            return self.wrong_length(packet);
        }
        bytes.extend_from_slice(packet.payload);
        if !kind.ends_message() {
            self.responder.message = Some(Message::Send { bytes });
            return self.taken(packet, false);
        }
        let invalidated = packet.extensions.ieth;
        if let Some(rkey) = invalidated
            && !self.memory.revoke(rkey)
        {
            self.no_access(Reth { rkey, ..Reth::default() }, Refusal::UnknownKey);
            return self.refuse(psn, 2);
        }
        self.responder.receives.pop_front();
        self.events.push_back(QueueEvent::Received(Received {
            bytes,
            immediate: packet.extensions.immediate,
            invalidated,
            solicited: packet.bth.solicited_event,
        }));
        self.taken(packet, true);
    }

    /// Returns the length of the Receive for the message. Without a Receive, sends an RNR NAK.
    fn receive_for(&mut self, psn: Psn) -> Option<usize> {
        let room = self.responder.receives.front().copied();
        if room.is_none() {
            self.responder.refused = true;
            self.nak(psn, RNR_NAK | self.config.rnr_timer & 0x1f);
        }
        room
    }

    fn take_write(&mut self, packet: &Packet<'_>, kind: Kind) {
        if !self.fits(packet, kind) {
            return;
        }
        let psn = packet.bth.psn;
        let (reth, written) = match (&self.responder.message, packet.extensions.reth) {
            (Some(Message::Write { reth, written }), _) => (*reth, *written),
            (_, Some(reth)) => (reth, 0),
            // The parser ensures that a first packet has a RETH.
            _ => return,
        };
        let length = packet.payload.len() as u32;
        let ends = kind.ends_message();
        let end = written.saturating_add(length);
        if if ends { end != reth.dma_length } else { end >= reth.dma_length } {
            return self.wrong_length(packet);
        }
        if kind.has_immediate() && self.receive_for(psn).is_none() {
            return;
        }
        // The whole range of the WRITE must be accessible at every packet.
        if let Err(refusal) = self.memory.write(reth.rkey, reth.virtual_address, reth.dma_length) {
            self.no_access(reth, refusal);
            return self.refuse(psn, 2);
        }
        let at = reth.virtual_address.wrapping_add(u64::from(written));
        if let Ok(bytes) = self.memory.write(reth.rkey, at, length) {
            bytes.copy_from_slice(packet.payload);
        }
        if !ends {
            self.responder.message = Some(Message::Write { reth, written: end });
            return self.taken(packet, false);
        }
        if kind.has_immediate() {
            self.responder.receives.pop_front();
        }
        self.responder.message = None;
        self.emit(QueueEvent::Written {
            rkey: reth.rkey,
            address: reth.virtual_address,
            length: reth.dma_length,
            immediate: packet.extensions.immediate,
        });
        self.taken(packet, true);
    }

    fn take_read(&mut self, packet: &Packet<'_>) {
        let psn = packet.bth.psn;
        let Some(reth) = packet.extensions.reth else { return };
        if self.responder.message.is_some() {
            self.fault(Fault::OpcodeSequence { opcode: packet.bth.opcode.0, psn });
            return self.refuse(psn, 1);
        }
        if !packet.payload.is_empty() || reth.dma_length > 1 << 31 {
            return self.wrong_length(packet);
        }
        if self.responder.open_reads >= usize::from(self.config.responder_resources) {
            self.fault(Fault::TooManyReads(psn));
            return self.refuse(psn, 1);
        }
        if let Err(refusal) = self.memory.read(reth.rkey, reth.virtual_address, reth.dma_length) {
            self.no_access(reth, refusal);
            return self.refuse(psn, 2);
        }
        let packets = packets(reth.dma_length as usize, self.config.path_mtu);
        let read = Read { first: psn, packets, reth };
        if self.responder.reads.len() >= usize::from(self.config.responder_resources.max(1)) {
            self.responder.reads.pop_front();
        }
        self.responder.reads.push_back(read);
        self.responder.open_reads += 1;
        self.complete();
        self.responder.expected = psn.plus(packets);
        let message_sequence_number = self.responder.message_sequence_number;
        self.responder.responses.push_back(Response::Read {
            read,
            sent: 0,
            message_sequence_number,
            again: false,
        });
        self.emit(QueueEvent::ReadServed {
            rkey: reth.rkey,
            address: reth.virtual_address,
            length: reth.dma_length,
        });
    }

    /// Handles a duplicate request. A READ is answered again from memory; all others are
    /// acknowledged again (section 9.7.5.1.4).
    fn duplicate(&mut self, packet: &Packet<'_>, kind: Kind) {
        let psn = packet.bth.psn;
        if kind != Kind::ReadRequest {
            return self.acknowledge_received();
        }
        let Some(reth) = packet.extensions.reth else { return };
        let mtu = u64::from(self.config.path_mtu);
        let original = self.responder.reads.iter().rev().find(|read| {
            let ahead = read.first.distance(psn);
            // The duplicate may request only the rest.
            let skipped = ahead.max(0) as u64 * mtu;
            (0..read.packets as i32).contains(&ahead)
                && read.reth.rkey == reth.rkey
                && read.reth.virtual_address.wrapping_add(skipped) == reth.virtual_address
                && u64::from(reth.dma_length) + skipped <= u64::from(read.reth.dma_length)
        });
        if original.is_none() || self.memory.read(reth.rkey, reth.virtual_address, reth.dma_length).is_err() {
            return;
        }
        let packets = packets(reth.dma_length as usize, self.config.path_mtu);
        let read = Read { first: psn, packets, reth };
        let waits = |other: &Response| matches!(other, Response::Read { read, .. } if read.first.distance(psn).unsigned_abs() < read.packets && read.first.distance(psn) >= 0);
        // Queued responses from this PSN on are replaced, not repeated.
        let mut closed = 0;
        self.responder.responses.retain(|other| {
            let drop = waits(other);
            closed += usize::from(drop && matches!(other, Response::Read { again: false, .. }));
            !drop
        });
        self.responder.open_reads -= closed;
        if self.responder.responses.len() < MOST_RESPONSES {
            let message_sequence_number = self.responder.message_sequence_number;
            self.responder.responses.push_back(Response::Read {
                read,
                sent: 0,
                message_sequence_number,
                again: true,
            });
        }
    }

    fn complete(&mut self) {
        self.responder.message_sequence_number = (self.responder.message_sequence_number + 1) & 0x00ff_ffff;
    }

    /// Advances past an executed packet.
    fn taken(&mut self, packet: &Packet<'_>, ends: bool) {
        self.responder.expected = packet.bth.psn.plus(1);
        if ends {
            self.complete();
        }
        if packet.bth.acknowledge_request {
            self.acknowledge_received();
        }
    }

    /// Acknowledges everything received. Consecutive queued acknowledgements are merged.
    fn acknowledge_received(&mut self) {
        let syndrome = if self.config.end_to_end_credits {
            encode_credits(self.responder.receives.len() as u32)
        } else {
            31
        };
        let response = Response::Acknowledge {
            psn: self.responder.expected.minus(1),
            syndrome,
            message_sequence_number: self.responder.message_sequence_number,
        };
        let responses = &mut self.responder.responses;
        if let Some(Response::Acknowledge { syndrome: 0..=31, .. }) = responses.back() {
            responses.pop_back();
        }
        if responses.len() < MOST_RESPONSES {
            responses.push_back(response);
        }
    }

    fn nak(&mut self, psn: Psn, syndrome: u8) {
        if self.responder.responses.len() < MOST_RESPONSES {
            let message_sequence_number = self.responder.message_sequence_number;
            self.responder.responses.push_back(Response::Acknowledge {
                psn,
                syndrome,
                message_sequence_number,
            });
        }
        self.emit(QueueEvent::NakSent { psn, syndrome });
    }

    fn no_access(&mut self, reth: Reth, refusal: Refusal) {
        self.fault(Fault::Access {
            rkey: reth.rkey,
            address: reth.virtual_address,
            length: reth.dma_length,
            refusal,
        });
    }

    /// Refuses a request, which fails the queue pair (section 9.9.3).
    pub(crate) fn refuse(&mut self, psn: Psn, code: u8) {
        self.nak(psn, NAK | code);
        if let rdmascope_wire::bth::Acknowledgement::Nak(code) = Syndrome(NAK | code).kind() {
            self.fail(Failure::RefusedRequest(code));
        }
    }

    /// Returns the next response packet.
    pub(crate) fn next_response(&mut self) -> Option<Vec<u8>> {
        let path_mtu = self.config.path_mtu;
        let header = self.header();
        let packet = |kind: Kind, psn, extensions, payload: &[u8]| {
            Some(
                Packet { bth: Bth { opcode: Opcode(kind as u8), psn, ..header }, extensions, payload }
                    .build(),
            )
        };
        let acknowledge = |syndrome, message_sequence_number| Extensions {
            aeth: Some(Aeth { syndrome: Syndrome(syndrome), message_sequence_number }),
            ..Extensions::default()
        };
        loop {
            match self.responder.responses.front_mut()? {
                Response::Acknowledge { psn, syndrome, message_sequence_number } => {
                    let (psn, extensions) = (*psn, acknowledge(*syndrome, *message_sequence_number));
                    self.responder.responses.pop_front();
                    return packet(Kind::Acknowledge, psn, extensions, &[]);
                }
                Response::Read { read, sent, message_sequence_number, again } => {
                    let (read, index, again) = (*read, *sent, *again);
                    let message_sequence_number = *message_sequence_number;
                    *sent += 1;
                    let (is_first, is_last) = (index == 0, index + 1 == read.packets);
                    if is_last {
                        self.responder.responses.pop_front();
                        self.responder.open_reads -= usize::from(!again);
                    }
                    let start = index * u32::from(path_mtu);
                    let length = (read.reth.dma_length - start).min(u32::from(path_mtu));
                    let address = read.reth.virtual_address.wrapping_add(u64::from(start));
                    let psn = read.first.plus(index);
                    let opcode = match (is_first, is_last) {
                        (true, true) => Kind::ReadResponseOnly,
                        (true, false) => Kind::ReadResponseFirst,
                        (false, true) => Kind::ReadResponseLast,
                        (false, false) => Kind::ReadResponseMiddle,
                    };
                    let extensions = match opcode {
                        Kind::ReadResponseMiddle => Extensions::default(),
                        _ => acknowledge(31, message_sequence_number),
                    };
                    let payload = match self.memory.read(read.reth.rkey, address, length) {
                        Ok(bytes) => bytes.to_vec(),
                        Err(refusal) => {
                            // The local side ended the registration during the READ.
                            if !is_last {
                                self.responder.responses.pop_front();
                                self.responder.open_reads -= usize::from(!again);
                            }
                            // A duplicate then gets no answer: a requester that still needed the
                            // data would not have let the registration end.
                            if self.state == State::Error || again {
                                continue;
                            }
                            self.no_access(read.reth, refusal);
                            self.refuse(psn, 2);
                            continue;
                        }
                    };
                    return packet(opcode, psn, extensions, &payload);
                }
            }
        }
    }
}

/// Returns the encoding of end-to-end credits (table 46): the largest value that does not exceed
/// `receives`.
fn encode_credits(receives: u32) -> u8 {
    (0..31)
        .rev()
        .find(|encoded| {
            rdmascope_wire::bth::end_to_end_credits(*encoded).is_some_and(|credits| credits <= receives)
        })
        .unwrap_or(0)
}

impl QueuePair {
    /// Posts a Receive for a message of at most `length` bytes.
    pub(crate) fn post_receive(&mut self, length: usize) -> Result<(), super::PostError> {
        if self.state == State::Error {
            return Err(super::PostError::NotReady);
        }
        if self.responder.receives.len() >= super::MOST_RECEIVES {
            return Err(super::PostError::QueueFull);
        }
        self.responder.receives.push_back(length.min(super::MOST_RECEIVE));
        Ok(())
    }
}
