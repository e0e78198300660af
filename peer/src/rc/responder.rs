//! The responder of a queue pair: takes requests in order of their PSNs and answers them (IBTA volume 1, sections 9.7.4 and
//! 9.7.5).
//!
//! | PSN of a request | answer |
//! |---|---|
//! | expected | executed; acknowledged where it asks for it |
//! | earlier | a duplicate: acknowledged again, or read again |
//! | later | NAK of a PSN sequence error, once |

use super::{Failure, Fault, QueueEvent, QueuePair, Received, State, packets};
use crate::memory::Refusal;
use crate::packet::Packet;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use rdmascope_wire::bth::{Aeth, Bth, Extensions, Opcode, Operation as Kind, PacketPosition, Reth, Syndrome};
use rdmascope_wire::psn::Psn;

/// Responses that wait to be sent. Beyond that duplicates are not answered.
const MOST_RESPONSES: usize = 1024;
/// NAK codes as an AETH syndrome has them (table 48).
const NAK: u8 = 0x60;
const RNR_NAK: u8 = 0x20;

#[derive(Clone, Debug)]
pub(crate) struct Responder {
    /// The PSN of the next request.
    pub(crate) expected: Psn,
    /// Requests completed, modulo 2^24.
    pub(crate) message_sequence_number: u32,
    /// A NAK went out for `expected`; no other before it comes (section 9.7.5.2.8).
    refused: bool,
    message: Option<Message>,
    /// The longest message that each Receive takes.
    pub(crate) receives: VecDeque<usize>,
    responses: VecDeque<Response>,
    /// READ requests that were answered, latest last: they may come again.
    reads: VecDeque<Read>,
    /// READs whose responses are not all sent.
    open_reads: usize,
}

/// A message of several packets that has begun.
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

/// What is to be sent, in order.
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

    /// Sends no READ response any more.
    pub(crate) fn end_reads(&mut self) {
        self.responses.retain(|response| !matches!(response, Response::Read { .. }));
        self.open_reads = 0;
    }
}

impl QueuePair {
    /// A request that is for this queue pair.
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

    /// The opcode is one that may come now, and the length one that it may have; otherwise it is refused as an invalid request
    /// (section 9.7.4.1).
    fn fits(&mut self, packet: &Packet<'_>, kind: Kind) -> bool {
        let psn = packet.bth.psn;
        let begins = matches!(kind.position(), PacketPosition::First | PacketPosition::Only);
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
        if matches!(kind.position(), PacketPosition::First | PacketPosition::Middle) {
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

    /// The length of the Receive that the message takes. Without one the requester is told to wait.
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
            // A first packet has a RETH, or it was not parsed.
            _ => return,
        };
        let length = packet.payload.len() as u32;
        let ends = matches!(kind.position(), PacketPosition::Last | PacketPosition::Only);
        let behind = written.saturating_add(length);
        if if ends { behind != reth.dma_length } else { behind >= reth.dma_length } {
            return self.wrong_length(packet);
        }
        if kind.has_immediate() && self.receive_for(psn).is_none() {
            return;
        }
        // All of it has to be there from the beginning on, and still.
        if let Err(refusal) = self.memory.write(reth.rkey, reth.virtual_address, reth.dma_length) {
            self.no_access(reth, refusal);
            return self.refuse(psn, 2);
        }
        let at = reth.virtual_address.wrapping_add(u64::from(written));
        if let Ok(bytes) = self.memory.write(reth.rkey, at, length) {
            bytes.copy_from_slice(packet.payload);
        }
        if !ends {
            self.responder.message = Some(Message::Write { reth, written: behind });
            return self.taken(packet, false);
        }
        if kind.has_immediate() {
            self.responder.receives.pop_front();
        }
        self.responder.message = None;
        self.tell(QueueEvent::Written {
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
        self.tell(QueueEvent::ReadServed {
            rkey: reth.rkey,
            address: reth.virtual_address,
            length: reth.dma_length,
        });
    }

    /// What came before. A READ is answered again from memory; all else is acknowledged again (section 9.7.5.1.4).
    fn duplicate(&mut self, packet: &Packet<'_>, kind: Kind) {
        let psn = packet.bth.psn;
        if kind != Kind::ReadRequest {
            return self.acknowledge_received();
        }
        let Some(reth) = packet.extensions.reth else { return };
        let mtu = u64::from(self.config.path_mtu);
        let original = self.responder.reads.iter().rev().find(|read| {
            let ahead = read.first.distance(psn);
            // It may ask for the rest only.
            let there = ahead.max(0) as u64 * mtu;
            (0..read.packets as i32).contains(&ahead)
                && read.reth.rkey == reth.rkey
                && read.reth.virtual_address.wrapping_add(there) == reth.virtual_address
                && u64::from(reth.dma_length) + there <= u64::from(read.reth.dma_length)
        });
        if original.is_none() || self.memory.read(reth.rkey, reth.virtual_address, reth.dma_length).is_err() {
            return;
        }
        let packets = packets(reth.dma_length as usize, self.config.path_mtu);
        let read = Read { first: psn, packets, reth };
        let waits = |other: &Response| matches!(other, Response::Read { read, .. } if read.first.distance(psn).unsigned_abs() < read.packets && read.first.distance(psn) >= 0);
        // What waits to be sent from there on is sent from there on once.
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

    /// The packet was executed.
    fn taken(&mut self, packet: &Packet<'_>, ends: bool) {
        self.responder.expected = packet.bth.psn.plus(1);
        if ends {
            self.complete();
        }
        if packet.bth.acknowledge_request {
            self.acknowledge_received();
        }
    }

    /// Acknowledges all that was received. Of acknowledgements that wait one behind the other the latest says it all.
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
        self.tell(QueueEvent::NakSent { psn, syndrome });
    }

    fn no_access(&mut self, reth: Reth, refusal: Refusal) {
        self.fault(Fault::Access {
            rkey: reth.rkey,
            address: reth.virtual_address,
            length: reth.dma_length,
            refusal,
        });
    }

    /// Refuses a request for good: the queue pair fails (section 9.9.3).
    pub(crate) fn refuse(&mut self, psn: Psn, code: u8) {
        self.nak(psn, NAK | code);
        if let rdmascope_wire::bth::Acknowledgement::Nak(code) = Syndrome(NAK | code).kind() {
            self.fail(Failure::RefusedRequest(code));
        }
    }

    /// The next packet of the responses.
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
                            // The local side ended the registration while it was read.
                            if !is_last {
                                self.responder.responses.pop_front();
                                self.responder.open_reads -= usize::from(!again);
                            }
                            // A duplicate has no answer then, as where it comes later: the requester has had it, or it would not have ended it.
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

/// The encoding of end-to-end credits (table 46): the most that can be said and is not more than there are.
fn encode_credits(receives: u32) -> u8 {
    (0..31)
        .rev()
        .find(|encoded| {
            rdmascope_wire::bth::end_to_end_credits(*encoded).is_some_and(|credits| credits <= receives)
        })
        .unwrap_or(0)
}

impl QueuePair {
    /// Posts a Receive for a message of `length` bytes at most.
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
