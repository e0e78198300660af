//! The requests of one end, put in the order of their PSNs.
//!
//! The capture may show packets out of order, twice, or not at all; the sender may go back and repeat. A packet at the
//! expected PSN is delivered at once, without a copy. A packet behind it is a repetition, and says nothing new. A packet
//! ahead of it is held until the gap is filled by reordering or retransmission, or until it is clear that the capture
//! lost what is missing: because the receiver acknowledged it, or because nothing came for long.

use super::fault::LONGEST_MESSAGE;
use super::{HeldPacket, Packet, RecentRequests, memory};
use crate::rdma::{Delivery, Fault, Placement, ReadRequest, Repetition, Send};
use crate::record::{REORDERING, Seen, Time};
use crate::roomy::Roomy;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use rdmascope_wire::bth::{Operation, PacketPosition, Reth};
use rdmascope_wire::psn::Psn;

/// The requests of one end of a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests {
    /// The PSN that comes next; `None` until a packet that begins a message was seen.
    expected: Option<Psn>,
    /// Packets ahead of a gap, in the order of their PSNs.
    held: Roomy<VecDeque<HeldPacket>>,
    /// Payload bytes held.
    held_bytes: usize,
    gap: Option<Gap>,
    open: Open,
    /// The bytes of the Send that is open, from its first on without a hole.
    send: Roomy<Vec<u8>>,
    /// The highest PSN that the other end acknowledged.
    acknowledged: Option<Psn>,
    /// The gaps last given up: `(first PSN, packets)`. What turns up in one was only late.
    lost: VecDeque<(Psn, u32)>,
    path_mtu: Option<u32>,
    /// It is known what the next packet follows: what came before it was seen, or there is nothing.
    follows: bool,
    /// The PSN from which on all was seen but what is lost.
    begun: Option<Psn>,
    /// Gaps given up.
    given_up: u64,
    /// The PSN that the first request is to carry, as the CM exchange says, until one comes.
    announced: Option<Psn>,
    /// What was sent last, where somebody watches.
    recent: Option<RecentRequests>,
    /// How often it was not known which PSN comes next, so that what is missing there would not be noticed.
    pub(super) unsure: u32,
    /// Requests seen before.
    pub(super) repeated: u64,
    /// Requests seen out of order.
    pub(super) reordered: u64,
}

/// Packets are missing before the first one held.
#[derive(Clone, Copy, Debug)]
struct Gap {
    since: Time,
    /// When the other end was first seen to have received what is missing here.
    confirmed: Option<Time>,
    /// Packets looked at since then.
    packets: u32,
}

/// The message that has begun and not ended.
#[derive(Clone, Copy, Debug, Default)]
enum Open {
    #[default]
    None,
    Send {
        first: Seen,
        psn: Psn,
        /// Bytes on the wire so far.
        length: u32,
        /// Payload of the FIRST packet: that of every one but the last.
        step: u32,
        /// Bytes of packets that the capture lacks.
        missing: Option<(u32, u32)>,
        /// Nothing more can be appended: a packet is missing or was cut.
        closed: bool,
    },
    Write {
        first: Psn,
        reth: Reth,
        step: u32,
        /// No packet of it is missing so far.
        whole: bool,
    },
}

impl Requests {
    /// Packets held ahead of a gap.
    const MOST_HELD: usize = 1024;
    /// Payload bytes held ahead of a gap.
    const MOST_HELD_BYTES: usize = 2 << 20;
    /// Bytes of one Send that are kept: inline thresholds end at 256 KiB (RFC 8797, section 4.2).
    const LONGEST_SEND: usize = 512 << 10;
    /// A PSN that is further off than this belongs to another life of the queue pair: no sender has as many outstanding.
    const WINDOW: i32 = 1 << 16;
    /// How long a retransmission may take: the longest that common timeouts and RNR timers add up to.
    const RETRANSMISSION: u64 = 4_000_000_000;

    /// The PSN that comes next, and the path MTU, as the CM exchange says.
    pub(super) fn begin(&mut self, first: Psn, path_mtu: Option<u32>) {
        self.expected = Some(first);
        (self.follows, self.begun) = (true, Some(first));
        self.announced = Some(first);
        self.agree_on_path_mtu(path_mtu);
    }

    /// Reports repetitions and faults too.
    pub(super) fn watch(&mut self) {
        self.recent.get_or_insert_default();
    }

    /// Forgets what was sent, because the connection is closed.
    pub(super) fn forget_recent_requests(&mut self) {
        self.recent.iter_mut().for_each(RecentRequests::clear);
    }

    /// When the request that takes up this PSN was seen first, as far as that is remembered.
    pub(super) fn find_request(&self, psn: Psn) -> Option<Seen> {
        self.recent.as_ref()?.find_request(psn)
    }

    /// The path MTU, as the CM exchange says.
    pub(super) fn agree_on_path_mtu(&mut self, path_mtu: Option<u32>) {
        self.path_mtu = path_mtu.or(self.path_mtu);
    }

    /// The PSN after the last one delivered.
    pub(super) fn expected(&self) -> Option<Psn> {
        self.expected
    }

    /// Whether the capture shows what was sent with this PSN.
    pub(super) fn shows(&self, psn: Psn) -> bool {
        let (Some(begun), Some(expected)) = (self.begun, self.expected) else { return false };
        let within = |first: Psn, packets: u32| (0..packets as i32).contains(&first.distance(psn));
        let is_lost = self.lost.iter().any(|(first, packets)| within(*first, *packets));
        begun.distance(psn) >= 0
            && expected.distance(psn) < 0
            && !is_lost
            && self.given_up <= self.lost.len() as u64
    }

    /// Whether the request that takes up this PSN may yet come by: it is missing, or the capture shows it late.
    pub(super) fn may_yet_show(&self, psn: Psn) -> bool {
        match self.expected {
            Some(expected) => (0..Requests::WINDOW).contains(&expected.distance(psn)),
            None => self.begun.is_some() || !self.held.is_empty(),
        }
    }

    /// The PSN after the last one that was seen, delivered or held.
    pub(super) fn latest(&self) -> Option<Psn> {
        self.held.back().map(|held| held.psn.plus(1)).or(self.expected)
    }

    /// Whether no packet with this PSN can have been sent: it is further off than any sender gets ahead of what is acknowledged.
    #[inline]
    pub(super) fn cannot_have_sent(&self, psn: Psn) -> bool {
        self.expected.is_some_and(|expected| expected.distance(psn).abs() > Requests::WINDOW)
    }

    /// Whether packets wait behind a gap.
    pub(super) fn waits(&self) -> bool {
        !self.held.is_empty()
    }

    /// How many PSNs an RDMA READ of `length` bytes takes up (section 9.7.4.1.1); `None` where the path MTU is not known.
    pub(super) fn read_packets(&self, length: u32) -> Option<u32> {
        // 256 bytes is the smallest path MTU.
        match self.path_mtu {
            Some(mtu) => Some(length.div_ceil(mtu).max(1)),
            None if length <= 256 => Some(1),
            None => None,
        }
    }

    /// Notes the payload of a packet that others of its message follow: the path MTU.
    #[inline]
    pub(super) fn note_path_mtu(&mut self, payload_length: u32) {
        if self.path_mtu.is_none() && payload_length.is_power_of_two() && payload_length >= 256 {
            self.path_mtu = Some(payload_length);
        }
    }

    /// The path MTU, as far as it is known.
    pub(super) fn path_mtu(&self) -> Option<u32> {
        self.path_mtu
    }

    /// Takes a request packet.
    #[inline]
    pub(super) fn handle(&mut self, packet: &Packet<'_>, deliver: &mut impl FnMut(Delivery<'_>)) {
        if self.recent.is_some() {
            self.follow(packet, deliver);
        }
        match self.expected {
            Some(expected) if expected == packet.psn => {
                self.accept(packet, deliver);
                if !self.held.is_empty() {
                    self.drain(deliver);
                }
            }
            _ => self.handle_out_of_order(packet, deliver),
        }
    }

    /// Notes a packet for those who watch.
    fn follow(&mut self, packet: &Packet<'_>, deliver: &mut impl FnMut(Delivery<'_>)) {
        if let Some(announced) = self.announced.take()
            && !(0..=Requests::WINDOW).contains(&announced.distance(packet.psn))
        {
            fault(packet, Fault::Start { announced: announced.into() }, deliver);
        }
        if let Some(recent) = &mut self.recent {
            recent.note(packet.psn, packet.seen);
        }
    }

    fn handle_out_of_order(&mut self, packet: &Packet<'_>, deliver: &mut impl FnMut(Delivery<'_>)) {
        let begins = matches!(packet.operation.position(), PacketPosition::First | PacketPosition::Only);
        let Some(expected) = self.expected else {
            // The capture starts in the middle: with a packet that begins a message all is clear. One that does not may
            // have been overtaken by it.
            if begins {
                self.held.retain(|held| packet.psn.distance(held.psn) > 0);
                self.held_bytes = self.held.iter().map(|held| held.payload.len()).sum();
                self.start(packet.psn);
                self.handle(packet, deliver);
            } else if self.held.len() < 64 {
                if !self.hold(packet) {
                    self.note_repeated(packet, deliver);
                }
            } else {
                self.start(packet.psn);
                self.forget_held();
                self.handle(packet, deliver);
            }
            return;
        };
        let ahead = expected.distance(packet.psn);
        if ahead.abs() > Requests::WINDOW {
            // The queue pair was given a new life that the capture does not show beginning.
            self.give_up_all(deliver);
            self.close_message(deliver);
            self.lost.clear();
            (self.given_up, self.begun) = (0, None);
            if self.recent.is_some() {
                deliver(Delivery::Restarted);
            }
            self.acknowledged = None;
            self.expected = None;
            self.unsure += 1;
            self.handle_out_of_order(packet, deliver);
        } else if ahead > 0 {
            self.reordered += 1;
            if !self.hold(packet) {
                self.note_repeated(packet, deliver);
            }
            self.settle(packet.seen.time, true, deliver);
        } else {
            self.handle_behind(packet, deliver);
        }
    }

    /// A packet before the expected one: a repetition, or the late filling of a gap that was given up.
    fn handle_behind(&mut self, packet: &Packet<'_>, deliver: &mut impl FnMut(Delivery<'_>)) {
        let late = self.lost.iter().any(|(first, packets)| {
            let index = first.distance(packet.psn);
            index >= 0 && (index as u32) < *packets
        });
        if !late {
            self.note_repeated(packet, deliver);
            // An RDMA READ is asked for again, from where its responses broke off: they will answer to this one.
            if let (Operation::ReadRequest, Some(reth)) = (packet.operation, packet.extension.reth()) {
                let packets = self.read_packets(reth.dma_length);
                let request = ReadRequest {
                    seen: packet.seen,
                    position: packet.psn.into(),
                    extent: packets,
                    memory: memory(reth),
                    repeated: true,
                    is_new: false,
                };
                deliver(Delivery::ReadRequest(request));
            }
        } else if packet.operation.position() == PacketPosition::Only {
            // A message of one packet stands for itself, however late.
            let (expected, follows) = (self.expected, core::mem::take(&mut self.follows));
            let open = core::mem::take(&mut self.open);
            self.accept(packet, deliver);
            self.open = open;
            (self.expected, self.follows) = (expected, follows);
        }
    }

    /// Goes on with this packet, where it is not known what was before.
    fn start(&mut self, psn: Psn) {
        self.expected = Some(psn);
        self.begun.get_or_insert(psn);
        self.follows = false;
    }

    fn note_repeated(&mut self, packet: &Packet<'_>, deliver: &mut impl FnMut(Delivery<'_>)) {
        self.repeated += 1;
        let Some(recent) = &self.recent else { return };
        let first = recent.find(packet.psn).filter(|first| *first != packet.seen);
        let Packet { seen, operation, psn, payload_length, .. } = *packet;
        let asked = packet.extension.reth().filter(|_| operation == Operation::ReadRequest);
        let bytes = asked.map_or(payload_length, |reth| reth.dma_length);
        deliver(Delivery::Repeated(Repetition { seen, first, operation, position: psn.into(), bytes }));
    }

    /// Takes what the other end acknowledged: all up to `psn` was received there.
    #[inline]
    pub(super) fn acknowledge(&mut self, psn: Psn, now: Time, deliver: &mut impl FnMut(Delivery<'_>)) {
        if self.acknowledged.is_none_or(|before| before.distance(psn) > 0) {
            self.acknowledged = Some(psn);
        }
        if !self.held.is_empty() {
            self.settle(now, false, deliver);
        }
    }

    /// Gives up what is missing once it is clear that it will not come.
    fn settle(&mut self, now: Time, count: bool, deliver: &mut impl FnMut(Delivery<'_>)) {
        let (Some(expected), Some(gap)) = (self.expected, &mut self.gap) else { return };
        gap.packets += u32::from(count);
        let received =
            self.acknowledged.is_some_and(|psn| (0..Requests::WINDOW).contains(&expected.distance(psn)));
        if received && gap.confirmed.is_none() {
            gap.confirmed = Some(now);
            gap.packets = 0;
        }
        let overflow = self.held.len() >= Requests::MOST_HELD || self.held_bytes >= Requests::MOST_HELD_BYTES;
        let patience = match gap.confirmed {
            Some(since) => now.since(since) > REORDERING.0 || gap.packets >= REORDERING.1,
            // Nobody is seen to acknowledge anything: this direction is all that the capture holds.
            None if self.acknowledged.is_none() => gap.packets >= REORDERING.1,
            None => now.since(gap.since) > Requests::RETRANSMISSION,
        };
        if overflow && !patience {
            deliver(Delivery::Overflow);
        }
        if overflow || patience {
            self.give_up(deliver);
        }
    }

    /// Gives up what is missing where time alone shows by `now` that it will not come.
    pub(super) fn handle_time(&mut self, now: Time, deliver: &mut impl FnMut(Delivery<'_>)) {
        while self.deadline().is_some_and(|deadline| deadline <= now) {
            self.settle(now, false, deliver);
        }
    }

    /// When to look for what time gives up: at once where it was not noted yet that the other end has what is missing.
    pub(super) fn deadline(&self) -> Option<Time> {
        let (expected, gap) = (self.expected?, self.gap.filter(|_| !self.held.is_empty())?);
        let acknowledged = self.acknowledged?;
        match gap.confirmed {
            Some(since) => Some(since.plus(REORDERING.0 + 1)),
            None if (0..Requests::WINDOW).contains(&expected.distance(acknowledged)) => Some(gap.since),
            None => Some(gap.since.plus(Requests::RETRANSMISSION + 1)),
        }
    }

    /// Gives up what is missing although it was received, without waiting longer for it to turn up. False where nothing is.
    pub(super) fn give_up_received(&mut self, deliver: &mut impl FnMut(Delivery<'_>)) -> bool {
        let received = match (self.expected, self.acknowledged) {
            (Some(expected), Some(psn)) => (0..Requests::WINDOW).contains(&expected.distance(psn)),
            _ => false,
        };
        if !received || self.held.is_empty() {
            return false;
        }
        self.give_up(deliver);
        true
    }

    /// Ends the half-flow: delivers what is held and what is open, with its gaps.
    pub(super) fn finish(&mut self, deliver: &mut impl FnMut(Delivery<'_>)) {
        if self.expected.is_none() {
            self.forget_held();
        }
        self.give_up_all(deliver);
        self.close_message(deliver);
    }

    /// Bytes of memory that held packets and the open Send take up.
    #[inline]
    pub(super) fn buffered(&self) -> usize {
        self.held_bytes + self.held.capacity() * size_of::<HeldPacket>() + self.send.capacity()
    }

    /// Bytes of memory that a clone takes up beside itself.
    pub(super) fn footprint(&self) -> usize {
        self.held_bytes
            + self.held.capacity() * size_of::<HeldPacket>()
            + self.send.capacity()
            + self.lost.len() * size_of::<(Psn, u32)>()
            + self.recent.as_ref().map_or(0, RecentRequests::memory)
    }

    /// Gives up what is held and what is open, and the memory of both.
    pub(super) fn give_up_buffered(&mut self, deliver: &mut impl FnMut(Delivery<'_>)) {
        self.give_up_all(deliver);
        self.close_message(deliver);
        self.forget_held();
        self.held = Roomy::default();
        self.send = Roomy::default();
        self.begun = None;
    }

    fn forget_held(&mut self) {
        self.held.clear();
        self.held_bytes = 0;
        self.gap = None;
    }

    fn give_up_all(&mut self, deliver: &mut impl FnMut(Delivery<'_>)) {
        while !self.held.is_empty() && self.expected.is_some() {
            self.give_up(deliver);
        }
    }

    /// Goes on behind the gap before the first packet held.
    fn give_up(&mut self, deliver: &mut impl FnMut(Delivery<'_>)) {
        let (Some(expected), Some(next)) = (self.expected, self.held.front()) else { return };
        let packets = expected.distance(next.psn).unsigned_abs();
        deliver(Delivery::Missing { packets });
        if self.lost.len() == 16 {
            self.lost.pop_front();
        }
        self.lost.push_back((expected, packets));
        self.given_up += 1;
        self.expected = Some(next.psn);
        self.follows = false;
        let continues = matches!(next.operation.position(), PacketPosition::Middle | PacketPosition::Last);
        match &mut self.open {
            // One packet is missing between two of a Send: it was one of its middle. More could also have been the end of
            // this Send and the beginning of another one.
            Open::Send { length, step, missing, closed, .. }
                if packets == 1 && continues && next.operation.is_send() && missing.is_none() =>
            {
                *missing = Some((*length, *length + *step));
                *length += *step;
                *closed = true;
            }
            // An RDMA WRITE says in front how long it is.
            Open::Write { first, reth, step, whole }
                if continues
                    && next.operation.is_write()
                    && (first.distance(next.psn) as u32) < reth.dma_length.div_ceil((*step).max(1)) =>
            {
                *whole = false;
            }
            _ => self.close_message(deliver),
        }
        self.drain(deliver);
    }

    /// Delivers what is open although its end is not in the capture.
    fn close_message(&mut self, deliver: &mut impl FnMut(Delivery<'_>)) {
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

    /// Keeps a packet until those before it have come. False where one with its PSN is kept already.
    fn hold(&mut self, packet: &Packet<'_>) -> bool {
        let Err(at) = self.held.binary_search_by(|held| packet.psn.distance(held.psn).cmp(&0)) else {
            return false;
        };
        self.held_bytes += packet.payload.len();
        self.held.insert(at, HeldPacket::new(packet));
        self.gap.get_or_insert(Gap { since: packet.seen.time, confirmed: None, packets: 0 });
        true
    }

    /// Delivers the packets held that are now in order.
    fn drain(&mut self, deliver: &mut impl FnMut(Delivery<'_>)) {
        while let (Some(expected), Some(next)) = (self.expected, self.held.front()) {
            let ahead = expected.distance(next.psn);
            if ahead > 0 {
                break;
            }
            let Some(held) = self.held.pop_front() else { break };
            self.held_bytes -= held.payload.len();
            let packet = held.packet();
            if ahead < 0 {
                self.note_repeated(&packet, deliver);
                continue;
            }
            self.accept(&packet, deliver);
        }
        // What is still held waits for another gap, which began no earlier than its first packet was seen.
        self.gap = self.held.front().map(|held| Gap { since: held.seen.time, confirmed: None, packets: 0 });
        if self.expected.is_none() {
            self.forget_held();
        }
    }

    /// Takes the packet at the expected PSN.
    #[inline]
    fn accept(&mut self, packet: &Packet<'_>, deliver: &mut impl FnMut(Delivery<'_>)) {
        let mut next = Some(packet.psn.plus(1));
        let place = packet.operation.position();
        if matches!(place, PacketPosition::First | PacketPosition::Middle) {
            self.note_path_mtu(packet.payload_length);
        }
        let begins = matches!(place, PacketPosition::First | PacketPosition::Only);
        let (follows, fits) = (self.follows, begins == matches!(self.open, Open::None));
        // In the middle of a message whose beginning is not known, nothing more is.
        self.follows = place != PacketPosition::Middle || follows && fits;
        if !fits {
            if follows && self.recent.is_some() {
                fault(packet, Fault::Order, deliver);
            }
            if begins {
                self.close_message(deliver);
            }
        }
        if packet.operation.is_send() {
            self.accept_send(packet, place, deliver);
        } else if packet.operation.is_write() {
            self.accept_write(packet, place, deliver);
        } else if let (Operation::ReadRequest, Some(reth)) = (packet.operation, packet.extension.reth()) {
            // Without a path MTU it is not known which PSN follows: the next request says.
            let packets = self.read_packets(reth.dma_length);
            self.unsure += u32::from(packets.is_none());
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
        }
        self.expected = next;
    }

    fn accept_send(
        &mut self,
        packet: &Packet<'_>,
        place: PacketPosition,
        deliver: &mut impl FnMut(Delivery<'_>),
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
                    self.close_message(deliver);
                    deliver(Delivery::Unplaced { bytes: packet.payload_length });
                    return;
                };
                if !*closed && self.send.len() + packet.payload.len() <= Requests::LONGEST_SEND {
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
        deliver: &mut impl FnMut(Delivery<'_>),
    ) {
        if let Some(reth) = packet.extension.reth() {
            self.open = if place == PacketPosition::First {
                Open::Write { first: packet.psn, reth, step: packet.payload_length, whole: true }
            } else {
                self.note_written(packet, packet.payload_length.into(), reth, deliver);
                Open::None
            };
            if packet.payload_length > 0 {
                deliver(Delivery::Write(placement(packet, packet.psn, reth, 0)));
            }
            return;
        }
        let Open::Write { first, reth, step, whole } = self.open else {
            self.note_other(packet, deliver);
            self.close_message(deliver);
            deliver(Delivery::Unplaced { bytes: packet.payload_length });
            return;
        };
        let index = u64::from(first.distance(packet.psn).unsigned_abs());
        deliver(Delivery::Write(placement(packet, first, reth, index * u64::from(step))));
        if place == PacketPosition::Last {
            if whole && self.path_mtu == Some(step) {
                let bytes = index * u64::from(step) + u64::from(packet.payload_length);
                self.note_written(packet, bytes, reth, deliver);
            }
            self.open = Open::None;
        }
    }

    /// Notes for those who watch a packet that goes on with a message of another operation than the one that is open.
    fn note_other(&mut self, packet: &Packet<'_>, deliver: &mut impl FnMut(Delivery<'_>)) {
        if self.recent.is_some() && !matches!(self.open, Open::None) {
            fault(packet, Fault::Order, deliver);
            self.follows = packet.operation.position() == PacketPosition::Last;
        }
    }

    /// Notes for those who watch an RDMA WRITE that ended with `packet` and did not bring what it announced.
    #[inline]
    fn note_written(
        &self,
        packet: &Packet<'_>,
        bytes: u64,
        reth: Reth,
        deliver: &mut impl FnMut(Delivery<'_>),
    ) {
        let announced = reth.dma_length;
        if bytes != u64::from(announced) && announced <= LONGEST_MESSAGE && self.recent.is_some() {
            fault(packet, Fault::Written { bytes, announced }, deliver);
        }
    }
}

#[cold]
fn fault(packet: &Packet<'_>, fault: Fault, deliver: &mut impl FnMut(Delivery<'_>)) {
    let Packet { seen, operation, psn, .. } = *packet;
    deliver(Delivery::Faulty { seen, operation, position: psn.into(), fault });
}

fn placement<'a>(packet: &Packet<'a>, first: Psn, reth: Reth, offset: u64) -> Placement<'a> {
    Placement {
        seen: packet.seen,
        position: packet.psn.into(),
        first: first.into(),
        memory: memory(reth),
        address: reth.virtual_address.wrapping_add(offset),
        bytes: packet.payload,
        length: packet.payload_length,
    }
}

#[cfg(test)]
mod tests;
