//! Reassembly of messages from request packets in order.

use super::fault::LONGEST_MESSAGE;
use super::{HeldPacket, Packet, memory};
use crate::rdma::{Delivery, Fault, Placement, ReadRequest, Send};
use crate::record::Seen;
use crate::roomy::Roomy;
use alloc::vec::Vec;
use rdmascope_wire::bth::{Operation, PacketPosition, Reth};
use rdmascope_wire::psn::Psn;

/// The messages of one end.
#[derive(Clone, Debug, Default)]
pub(super) struct Messages {
    open: Open,
    /// The bytes of the open Send, from its start to the first gap.
    send: Roomy<Vec<u8>>,
    path_mtu: Option<u32>,
    /// The packet before the next one was seen, or the next one is the first of all.
    follows: bool,
}

/// The message whose last packet has not been seen.
#[derive(Clone, Copy, Debug, Default)]
enum Open {
    #[default]
    None,
    Send {
        first: Seen,
        psn: Psn,
        /// Bytes on the wire so far.
        length: u32,
        /// Payload length of the FIRST packet. All packets but the last have it.
        step: u32,
        /// Byte range of the packets that the capture lacks.
        missing: Option<(u32, u32)>,
        /// No more bytes can be appended, because a packet is missing or truncated.
        closed: bool,
    },
    Write {
        first: Psn,
        reth: Reth,
        step: u32,
        /// No packet is missing so far, and all have the same payload length.
        complete: bool,
    },
}

impl Messages {
    /// The most bytes kept of one Send. Inline thresholds are at most 256 KiB (RFC 8797, section
    /// 4.2).
    const LONGEST_SEND: usize = 512 << 10;

    /// Marks the next packet as the first of all.
    pub(super) fn begin(&mut self) {
        self.follows = true;
    }

    /// Marks the predecessor of the next packet as unknown.
    pub(super) fn lose_track(&mut self) {
        self.follows = false;
    }

    /// Sets the path MTU in bytes from the CM exchange.
    pub(super) fn agree_on_path_mtu(&mut self, path_mtu: Option<u32>) {
        self.path_mtu = path_mtu.or(self.path_mtu);
    }

    /// The number of PSNs that an RDMA READ of `length` bytes uses (section 9.7.4.1.1); `None` if
    /// the path MTU is unknown.
    pub(super) fn read_packets(&self, length: u32) -> Option<u32> {
        // The smallest path MTU is 256 bytes.
        match self.path_mtu {
            Some(mtu) => Some(length.div_ceil(mtu).max(1)),
            None if length <= 256 => Some(1),
            None => None,
        }
    }

    /// Derives the path MTU from the payload length of a packet that is not the last of its
    /// message.
    #[inline]
    pub(super) fn note_path_mtu(&mut self, payload_length: u32) {
        if self.path_mtu.is_none() && payload_length.is_power_of_two() && payload_length >= 256 {
            self.path_mtu = Some(payload_length);
        }
    }

    /// Whether a message has started and not ended.
    pub(super) fn is_midway(&self) -> bool {
        !matches!(self.open, Open::None)
    }

    /// The PSN of the first packet of the open Send.
    pub(super) fn open_send(&self) -> Option<Psn> {
        if let Open::Send { psn, .. } = self.open { Some(psn) } else { None }
    }

    /// The path MTU in bytes, if known.
    pub(super) fn path_mtu(&self) -> Option<u32> {
        self.path_mtu
    }

    /// Bytes of memory used by the open Send.
    #[inline]
    pub(super) fn buffered(&self) -> usize {
        self.send.capacity()
    }

    /// Drops the bytes of the open Send and frees their memory.
    pub(super) fn forget_send(&mut self) {
        self.send = Roomy::default();
    }

    /// Processes the next packet. Returns the PSN that follows it; `None` if that is unknown.
    #[inline]
    pub(super) fn accept(
        &mut self,
        packet: &Packet<'_>,
        deliver: &mut dyn FnMut(Delivery<'_>),
    ) -> Option<Psn> {
        let mut next = Some(packet.psn.plus(1));
        let place = packet.operation.position();
        if !packet.operation.ends_message() {
            self.note_path_mtu(packet.payload_length);
        }
        let begins = packet.operation.begins_message();
        let (follows, fits) = (self.follows, begins == matches!(self.open, Open::None));
        // After a middle packet of a message whose start is unknown, the state remains unknown.
        self.follows = place != PacketPosition::Middle || follows && fits;
        if !fits {
            if follows {
                fault(packet, Fault::Order, deliver);
            }
            if begins {
                self.close(deliver);
            }
        }
        if packet.operation.is_send() {
            self.accept_send(packet, place, deliver);
        } else if packet.operation.is_write() {
            self.accept_write(packet, place, deliver);
        } else if let (Operation::ReadRequest, Some(reth)) = (packet.operation, packet.extension.reth()) {
            // Without a path MTU the number of responses is unknown, so the next request sets the
            // PSN.
            let packets = self.read_packets(reth.dma_length);
            next = packets.map(|packets| packet.psn.plus(packets));
            self.follows = packets.is_some();
            let request = ReadRequest {
                seen: packet.seen,
                position: packet.psn.into(),
                extent: packets,
                memory: memory(reth),
                repeated: false,
                is_new: follows,
            };
            deliver(Delivery::ReadRequest(request));
        } else if packet.operation == Operation::ReadRequest {
            // The capture truncated the length of the request.
            next = None;
            self.follows = false;
        }
        next
    }

    /// Processes a late message of one packet, without changing the open message.
    pub(super) fn accept_apart(
        &mut self,
        packet: &Packet<'_>,
        deliver: &mut dyn FnMut(Delivery<'_>),
    ) -> Option<Psn> {
        let (open, follows) = (core::mem::take(&mut self.open), core::mem::take(&mut self.follows));
        let next = self.accept(packet, deliver);
        (self.open, self.follows) = (open, follows);
        next
    }

    /// Continues with `next` after a gap of `packets` packets.
    pub(super) fn skip(&mut self, packets: u32, next: &HeldPacket, deliver: &mut dyn FnMut(Delivery<'_>)) {
        self.follows = false;
        let continues = !next.operation.begins_message();
        match &mut self.open {
            // Exactly one packet of a Send is missing, so it was a middle packet. Several packets
            // could also have been the end of this Send and the start of another one.
            Open::Send { length, step, missing, closed, .. }
                if packets == 1 && continues && next.operation.is_send() && missing.is_none() =>
            {
                *missing = Some((*length, *length + *step));
                *length += *step;
                *closed = true;
            }
            // The RETH of an RDMA WRITE has its whole length.
            Open::Write { first, reth, step, complete }
                if continues
                    && next.operation.is_write()
                    && (first.distance(next.psn) as u32) < reth.dma_length.div_ceil((*step).max(1)) =>
            {
                *complete = false;
            }
            _ => self.close(deliver),
        }
    }

    /// Delivers the open Send although its end was not captured.
    pub(super) fn close(&mut self, deliver: &mut dyn FnMut(Delivery<'_>)) {
        if let Open::Send { first, psn, length, step, missing, .. } = core::mem::take(&mut self.open) {
            deliver(Delivery::Send(Send {
                first,
                seen: first,
                position: psn.into(),
                extent: length.div_ceil(step.max(1)).max(1),
                bytes: &self.send,
                length: None,
                missing: Some((missing.map_or(length, |range| range.0), None)),
                invalidated: None,
            }));
        }
    }

    fn accept_send(
        &mut self,
        packet: &Packet<'_>,
        place: PacketPosition,
        deliver: &mut dyn FnMut(Delivery<'_>),
    ) {
        let invalidated = packet.extension.ieth();
        match place {
            PacketPosition::Only => deliver(Delivery::Send(Send {
                first: packet.seen,
                seen: packet.seen,
                position: packet.psn.into(),
                extent: 1,
                bytes: packet.payload,
                length: Some(packet.payload_length),
                missing: None,
                invalidated,
            })),
            PacketPosition::First => {
                self.send.clear();
                self.send.extend_from_slice(packet.payload);
                self.open = Open::Send {
                    first: packet.seen,
                    psn: packet.psn,
                    length: packet.payload_length,
                    step: packet.payload_length,
                    missing: None,
                    closed: packet.payload.len() < packet.payload_length as usize,
                };
            }
            PacketPosition::Middle | PacketPosition::Last => {
                let Open::Send { first, psn, length, missing, closed, .. } = &mut self.open else {
                    self.note_other(packet, deliver);
                    self.close(deliver);
                    deliver(Delivery::Unplaced { bytes: packet.payload_length });
                    return;
                };
                if !*closed && self.send.len() + packet.payload.len() <= Messages::LONGEST_SEND {
                    self.send.extend_from_slice(packet.payload);
                    *closed = packet.payload.len() < packet.payload_length as usize;
                } else {
                    *closed = true;
                }
                *length = length.saturating_add(packet.payload_length);
                if place == PacketPosition::Last {
                    let send = Send {
                        first: *first,
                        seen: packet.seen,
                        position: (*psn).into(),
                        extent: psn.distance(packet.psn).unsigned_abs() + 1,
                        bytes: &self.send,
                        length: Some(*length),
                        missing: missing.map(|(start, end)| (start, Some(end))),
                        invalidated,
                    };
                    deliver(Delivery::Send(send));
                    self.open = Open::None;
                }
            }
        }
    }

    fn accept_write(
        &mut self,
        packet: &Packet<'_>,
        place: PacketPosition,
        deliver: &mut dyn FnMut(Delivery<'_>),
    ) {
        if let Some(reth) = packet.extension.reth() {
            self.open = if place == PacketPosition::First {
                Open::Write { first: packet.psn, reth, step: packet.payload_length, complete: true }
            } else {
                self.note_written(packet, packet.payload_length.into(), reth, deliver);
                Open::None
            };
            if packet.payload_length > 0 {
                deliver(Delivery::Write(placement(packet, packet.psn, reth, 0)));
            }
            return;
        }
        let Open::Write { first, reth, step, complete } = &mut self.open else {
            self.note_other(packet, deliver);
            self.close(deliver);
            deliver(Delivery::Unplaced { bytes: packet.payload_length });
            return;
        };
        let index = u64::from(first.distance(packet.psn).unsigned_abs());
        let longer = step_of(packet, place, index, reth).filter(|longer| longer > step);
        let is_as_long = place == PacketPosition::Last || packet.payload_length == *step;
        *complete &= longer.is_none() && is_as_long;
        *step = longer.unwrap_or(*step);
        let (first, reth, step, complete) = (*first, *reth, *step, *complete);
        deliver(Delivery::Write(placement(packet, first, reth, index * u64::from(step))));
        if place == PacketPosition::Last {
            // A packet of another length than the path MTU is a fault by itself.
            if complete && self.path_mtu == Some(step) {
                let bytes = index * u64::from(step) + u64::from(packet.payload_length);
                self.note_written(packet, bytes, reth, deliver);
            }
            self.open = Open::None;
        }
    }

    /// Reports a packet that continues a message of another operation than the open one.
    fn note_other(&mut self, packet: &Packet<'_>, deliver: &mut dyn FnMut(Delivery<'_>)) {
        if !matches!(self.open, Open::None) {
            fault(packet, Fault::Order, deliver);
            self.follows = packet.operation.position() == PacketPosition::Last;
        }
    }

    /// Reports an RDMA WRITE that ended with `packet` and whose length differs from that in its
    /// RETH.
    #[inline]
    fn note_written(
        &self,
        packet: &Packet<'_>,
        bytes: u64,
        reth: Reth,
        deliver: &mut dyn FnMut(Delivery<'_>),
    ) {
        let announced = reth.dma_length;
        if bytes != u64::from(announced) && announced <= LONGEST_MESSAGE {
            fault(packet, Fault::Written { bytes, announced }, deliver);
        }
    }
}

/// The payload length of the packets of an RDMA WRITE but the last, as a later packet shows it. The
/// First may be too short.
#[inline]
fn step_of(packet: &Packet<'_>, place: PacketPosition, index: u64, reth: &Reth) -> Option<u32> {
    let step = if place == PacketPosition::Last {
        let before = u64::from(reth.dma_length.checked_sub(packet.payload_length)?);
        before.checked_div(index).filter(|step| step * index == before)? as u32
    } else {
        packet.payload_length
    };
    is_path_mtu(step).then_some(step)
}

/// Whether a connection can have this path MTU.
fn is_path_mtu(bytes: u32) -> bool {
    bytes.is_power_of_two() && (256..=4096).contains(&bytes)
}

#[cold]
pub(super) fn fault(packet: &Packet<'_>, fault: Fault, deliver: &mut dyn FnMut(Delivery<'_>)) {
    let (seen, position) = (packet.seen, packet.psn.into());
    deliver(Delivery::Faulty { seen, piece: packet.piece(), position, fault });
}

fn placement<'a>(packet: &Packet<'a>, first: Psn, reth: Reth, offset: u64) -> Placement<'a> {
    Placement {
        seen: packet.seen,
        position: packet.psn.into(),
        first: first.into(),
        request: None,
        memory: memory(reth),
        address: reth.virtual_address.wrapping_add(offset),
        bytes: packet.payload,
        length: packet.payload_length,
        repeated: false,
    }
}

#[cfg(test)]
mod tests;
