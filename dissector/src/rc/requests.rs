//! The requests of one end, in PSN order.
//!
//! A capture may have packets out of order, twice, or not at all, and a sender may go back and
//! retransmit. A packet with the expected PSN is delivered at once, without a copy. A packet with a
//! lower PSN is a repetition. A packet with a higher PSN is held until reordering or retransmission
//! fills the gap, or until the capture has evidently lost the missing packets: the receiver
//! acknowledged them, or nothing arrived for a long time.

use super::messages::{Messages, fault};
use super::{HeldPacket, Packet, RecentRequests, memory};
use crate::rdma::{Delivery, Fault, ReadRequest, Repetition};
use crate::record::{REORDERING, Seen, Time};
use crate::roomy::Roomy;
use alloc::collections::VecDeque;
use rdmascope_wire::bth::{Operation, PacketPosition};
use rdmascope_wire::psn::Psn;

/// The requests of one end of a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests {
    /// The next PSN; `None` until the first packet of a message was seen.
    expected: Option<Psn>,
    /// Packets after a gap, in PSN order.
    held: Roomy<VecDeque<HeldPacket>>,
    /// Payload bytes held.
    held_bytes: usize,
    gap: Option<Gap>,
    /// The messages that the ordered packets form.
    messages: Messages,
    /// Highest PSN that the other end acknowledged.
    acknowledged: Option<Psn>,
    /// The latest skipped gaps: `(first PSN, packets)`. A packet in one of them is late, not
    /// repeated.
    lost: VecDeque<(Psn, u32)>,
    /// The first PSN seen. From there on, only the lost gaps are missing.
    begun: Option<Psn>,
    /// Number of skipped gaps.
    skipped_gaps: u64,
    /// The first PSN, as announced in the CM exchange, until a request arrives.
    announced: Option<Psn>,
    /// The latest request packets, if observations are enabled.
    recent: Option<RecentRequests>,
    /// The PSN and the length in bytes of the RDMA READ request after which the next PSN is unknown,
    /// because the path MTU is.
    open_read: Option<(Psn, u32)>,
    /// How often the next PSN was unknown, so that a gap there would not be noticed.
    pub(super) unsure: u32,
    /// Requests seen before.
    pub(super) repeated: u64,
    /// Frame of the first repeated request.
    pub(super) first_repeated: Option<u64>,
    /// Requests that filled a gap before requests seen earlier.
    pub(super) reordered: u64,
    /// Frame of the first reordered request.
    pub(super) first_reordered: Option<u64>,
}

/// A gap before the first held packet.
#[derive(Clone, Copy, Debug)]
struct Gap {
    since: Time,
    /// When the other end first acknowledged the missing packets.
    confirmed: Option<Time>,
    /// Packets seen since then.
    packets: u32,
}

impl Requests {
    /// Most packets held after a gap.
    const MOST_HELD: usize = 1024;
    /// Most payload bytes held after a gap.
    const MOST_HELD_BYTES: usize = 2 << 20;
    /// The most PSNs that a sender has outstanding. A PSN further away belongs to a new use of the
    /// queue pair.
    const WINDOW: i32 = 1 << 16;
    /// The longest wait for a retransmission in nanoseconds: the sum of common timeouts and RNR
    /// timers.
    const RETRANSMISSION: u64 = 4_000_000_000;

    /// Sets the first PSN and the path MTU in bytes, from the CM exchange.
    pub(super) fn begin(&mut self, first: Psn, path_mtu: Option<u32>) {
        self.expected = Some(first);
        self.begun = Some(first);
        self.messages.begin();
        self.announced = Some(first);
        self.messages.agree_on_path_mtu(path_mtu);
    }

    /// Records the latest requests, so that repetitions and refusals are reported with the first
    /// sighting.
    pub(super) fn watch(&mut self) {
        self.recent.get_or_insert_default();
    }

    /// Drops the recorded requests, because the connection is closed.
    pub(super) fn forget_recent_requests(&mut self) {
        self.recent.iter_mut().for_each(RecentRequests::clear);
    }

    /// The first sighting of the request that covers this PSN, if it is recorded.
    pub(super) fn find_request(&self, psn: Psn) -> Option<Seen> {
        self.recent.as_ref()?.find_request(psn)
    }

    /// The first PSN, as announced in the CM exchange, until a request arrives.
    pub(super) fn announced(&self) -> Option<Psn> {
        self.announced
    }

    /// Sets the path MTU in bytes from the CM exchange.
    pub(super) fn agree_on_path_mtu(&mut self, path_mtu: Option<u32>) {
        self.messages.agree_on_path_mtu(path_mtu);
    }

    /// Derives the path MTU from the payload length of a packet that is not the last of its
    /// message.
    #[inline]
    pub(super) fn note_path_mtu(&mut self, payload_length: u32) {
        self.messages.note_path_mtu(payload_length);
        if self.open_read.is_some() && self.expected.is_none() && self.held.is_empty() {
            self.resume();
        }
    }

    /// Sets the next PSN after an RDMA READ request, now that the path MTU may be known.
    #[cold]
    fn resume(&mut self) {
        let Some((psn, length)) = self.open_read.take() else { return };
        self.expected = self.messages.read_packets(length).map(|packets| psn.plus(packets));
    }

    /// The path MTU in bytes, if known.
    pub(super) fn path_mtu(&self) -> Option<u32> {
        self.messages.path_mtu()
    }

    /// Whether no packet of this end was seen or announced.
    #[inline]
    pub(super) fn is_unseen(&self) -> bool {
        self.begun.is_none()
    }

    /// Whether the first packet seen has the PSN `first`, or follows it closely.
    pub(super) fn begin_at(&self, first: Psn) -> bool {
        self.begun.is_some_and(|begun| (0..=REORDERING.1 as i32).contains(&first.distance(begun)))
    }

    /// The PSN after the last one delivered.
    pub(super) fn expected(&self) -> Option<Psn> {
        self.expected
    }

    /// Whether the capture has the packet with this PSN.
    pub(super) fn shows(&self, psn: Psn) -> bool {
        let (Some(begun), Some(expected)) = (self.begun, self.expected) else { return false };
        let within = |first: Psn, packets: u32| (0..packets as i32).contains(&first.distance(psn));
        let is_lost = self.lost.iter().any(|(first, packets)| within(*first, *packets));
        begun.distance(psn) >= 0
            && expected.distance(psn) < 0
            && !is_lost
            && self.skipped_gaps <= self.lost.len() as u64
    }

    /// Whether the request that covers this PSN may still arrive, because it is missing or late.
    pub(super) fn may_yet_show(&self, psn: Psn) -> bool {
        match self.expected {
            Some(expected) => (0..Requests::WINDOW).contains(&expected.distance(psn)),
            None => self.begun.is_some() || !self.held.is_empty(),
        }
    }

    /// The PSN after the last one seen, whether delivered or held.
    pub(super) fn latest(&self) -> Option<Psn> {
        self.held.back().map(|held| held.psn.plus(1)).or(self.expected)
    }

    /// Whether this PSN is too far from the expected one to have been sent.
    #[inline]
    pub(super) fn cannot_have_sent(&self, psn: Psn) -> bool {
        self.expected.is_some_and(|expected| expected.distance(psn).abs() > Requests::WINDOW)
    }

    /// Whether everything up to and including this PSN has been delivered.
    pub(super) fn is_settled(&self, psn: Psn) -> bool {
        let waiting = self.messages.open_send().or(self.expected);
        // A PSN outside the window is not waited for.
        let is_ahead = |waiting: Psn| (0..=Requests::WINDOW).contains(&waiting.distance(psn));
        waiting.map_or(self.held.is_empty(), |waiting| !is_ahead(waiting))
    }

    /// Whether packets of a message are still to come, or are held because of a gap.
    pub(super) fn is_midway(&self) -> bool {
        self.messages.is_midway() || self.waits()
    }

    /// Whether packets are held because of a gap.
    pub(super) fn waits(&self) -> bool {
        !self.held.is_empty()
    }

    /// Processes a request packet.
    #[inline]
    pub(super) fn handle(&mut self, packet: &Packet<'_>, deliver: &mut dyn FnMut(Delivery<'_>)) {
        if let Some(announced) = self.announced.take() {
            self.compare_start(announced, packet, deliver);
        }
        if let Some(recent) = &mut self.recent {
            recent.note(packet.psn, packet.seen);
            if packet.operation == Operation::ReadRequest {
                recent.note_read(packet.psn, packet.seen);
            }
        }
        match self.expected {
            Some(expected) if expected == packet.psn => {
                self.accept(packet, deliver);
                if !self.held.is_empty() {
                    self.note_reordered(packet.seen);
                    self.drain(deliver);
                }
            }
            _ => self.handle_out_of_order(packet, deliver),
        }
    }

    /// Compares the first packet's PSN with the announced one.
    ///
    /// A packet shortly before the announced PSN is not a repetition, because nothing was sent
    /// before. The requests then begin with it: either the announcement or the packet is wrong.
    fn compare_start(&mut self, announced: Psn, packet: &Packet<'_>, deliver: &mut dyn FnMut(Delivery<'_>)) {
        let ahead = announced.distance(packet.psn);
        if (0..=Requests::WINDOW).contains(&ahead) {
            return;
        }
        fault(packet, Fault::Start { announced: announced.into() }, deliver);
        let begins = packet.operation.begins_message();
        if begins && (-Requests::WINDOW..0).contains(&ahead) {
            (self.expected, self.begun) = (Some(packet.psn), Some(packet.psn));
        }
    }

    fn handle_out_of_order(&mut self, packet: &Packet<'_>, deliver: &mut dyn FnMut(Delivery<'_>)) {
        let begins = packet.operation.begins_message();
        let Some(expected) = self.expected else {
            // The capture starts in mid-connection. The first packet of a message is a safe start.
            // Other packets are held, because the first packet may only be late.
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
            // The queue pair is reused, and the capture lacks its setup.
            self.skip_gaps(deliver);
            self.messages.close(deliver);
            self.lost.clear();
            (self.skipped_gaps, self.begun) = (0, None);
            deliver(Delivery::Restarted);
            self.acknowledged = None;
            (self.expected, self.open_read) = (None, None);
            self.unsure += 1;
            self.handle_out_of_order(packet, deliver);
        } else if ahead > 0 {
            if !self.hold(packet) {
                self.note_repeated(packet, deliver);
            }
            self.settle(packet.seen.time, true, deliver);
        } else {
            self.handle_before_expected(packet, deliver);
        }
    }

    /// Processes a packet before the expected one: a repetition, or a late packet of a skipped gap.
    fn handle_before_expected(&mut self, packet: &Packet<'_>, deliver: &mut dyn FnMut(Delivery<'_>)) {
        let late = self.lost.iter().any(|(first, packets)| {
            let index = first.distance(packet.psn);
            index >= 0 && (index as u32) < *packets
        });
        if late {
            self.note_reordered(packet.seen);
            // A message of one packet is independent of the others, however late it is.
            if packet.operation.position() == PacketPosition::Only {
                let next = self.messages.accept_apart(packet, deliver);
                self.unsure += u32::from(next.is_none());
            }
        } else {
            self.note_repeated(packet, deliver);
            // An RDMA READ is requested again, from the first missing response on. The responses
            // that follow answer this request.
            if let (Operation::ReadRequest, Some(reth)) = (packet.operation, packet.extension.reth()) {
                let packets = self.messages.read_packets(reth.dma_length);
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
        }
    }

    /// Starts at this packet, with an unknown predecessor.
    fn start(&mut self, psn: Psn) {
        self.expected = Some(psn);
        self.begun.get_or_insert(psn);
        self.messages.lose_track();
    }

    /// Counts a packet that fills a gap before packets seen earlier.
    fn note_reordered(&mut self, seen: Seen) {
        self.reordered += 1;
        self.first_reordered.get_or_insert(seen.frame);
    }

    fn note_repeated(&mut self, packet: &Packet<'_>, deliver: &mut dyn FnMut(Delivery<'_>)) {
        self.repeated += 1;
        self.first_repeated.get_or_insert(packet.seen.frame);
        let first = self.recent.as_ref().and_then(|recent| recent.find(packet.psn));
        let first = first.filter(|first| *first != packet.seen);
        let Packet { seen, psn, payload_length: bytes, .. } = *packet;
        let piece = packet.piece();
        let is_read = packet.operation == Operation::ReadRequest;
        let read_length = packet.extension.reth().filter(|_| is_read).map_or(0, |reth| reth.dma_length);
        let position = psn.into();
        deliver(Delivery::Repeated(Repetition { seen, first, piece, position, bytes, read_length }));
    }

    /// Processes an acknowledgement: the other end received everything up to `psn`.
    #[inline]
    pub(super) fn acknowledge(&mut self, psn: Psn, now: Time, deliver: &mut dyn FnMut(Delivery<'_>)) {
        if self.acknowledged.is_none_or(|before| before.distance(psn) > 0) {
            self.acknowledged = Some(psn);
        }
        if !self.held.is_empty() {
            self.settle(now, false, deliver);
        }
    }

    /// Skips the gap once its packets can no longer be expected.
    fn settle(&mut self, now: Time, count: bool, deliver: &mut dyn FnMut(Delivery<'_>)) {
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
            // Nothing was ever acknowledged, so the capture has this direction only.
            None if self.acknowledged.is_none() => gap.packets >= REORDERING.1,
            None => now.since(gap.since) > Requests::RETRANSMISSION,
        };
        if overflow && !patience {
            deliver(Delivery::Overflow);
        }
        if overflow || patience {
            self.skip_gap(deliver);
        }
    }

    /// Skips the gaps whose time has run out by `now`.
    pub(super) fn handle_time(&mut self, now: Time, deliver: &mut dyn FnMut(Delivery<'_>)) {
        while self.deadline().is_some_and(|deadline| deadline <= now) {
            self.settle(now, false, deliver);
        }
    }

    /// When the gap's time runs out. A gap whose packets were acknowledged, but not yet checked, is
    /// due at once.
    pub(super) fn deadline(&self) -> Option<Time> {
        let (expected, gap) = (self.expected?, self.gap.filter(|_| !self.held.is_empty())?);
        let acknowledged = self.acknowledged?;
        match gap.confirmed {
            Some(since) => Some(since.plus(REORDERING.0 + 1)),
            None if (0..Requests::WINDOW).contains(&expected.distance(acknowledged)) => Some(gap.since),
            None => Some(gap.since.plus(Requests::RETRANSMISSION + 1)),
        }
    }

    /// Whether packets are held after a gap whose packets the receiver acknowledged.
    pub(super) fn has_acknowledged_gap(&self) -> bool {
        let received = match (self.expected, self.acknowledged) {
            (Some(expected), Some(psn)) => (0..Requests::WINDOW).contains(&expected.distance(psn)),
            _ => false,
        };
        received && !self.held.is_empty()
    }

    /// Skips a gap whose packets the receiver acknowledged, without waiting for reordering.
    ///
    /// Returns whether there was such a gap.
    pub(super) fn skip_acknowledged_gap(&mut self, deliver: &mut dyn FnMut(Delivery<'_>)) -> bool {
        if !self.has_acknowledged_gap() {
            return false;
        }
        self.skip_gap(deliver);
        true
    }

    /// The PSN of the last held Send whose first packet satisfies `is_it`.
    pub(super) fn find_held_send(&self, is_it: impl Fn(&[u8]) -> bool) -> Option<Psn> {
        let begins = |held: &HeldPacket| held.operation.is_send() && held.operation.begins_message();
        self.held.iter().rev().find(|held| begins(held) && is_it(&held.payload)).map(|held| held.psn)
    }

    /// Skips the gaps before a held packet.
    pub(super) fn skip_gaps_before(&mut self, psn: Psn, deliver: &mut dyn FnMut(Delivery<'_>)) {
        while self.held.iter().any(|held| held.psn == psn) && self.expected.is_some() {
            self.skip_gap(deliver);
        }
    }

    /// Ends the half-flow: delivers held packets and the open message, with their gaps.
    pub(super) fn finish(&mut self, deliver: &mut dyn FnMut(Delivery<'_>)) {
        if self.expected.is_none() {
            self.forget_held();
        }
        self.skip_gaps(deliver);
        self.messages.close(deliver);
    }

    /// Bytes of memory used by held packets and the open Send.
    #[inline]
    pub(super) fn buffered(&self) -> usize {
        self.held_bytes + self.held.capacity() * size_of::<HeldPacket>() + self.messages.buffered()
    }

    /// Bytes of heap memory that a clone needs.
    pub(super) fn footprint(&self) -> usize {
        self.buffered()
            + self.lost.len() * size_of::<(Psn, u32)>()
            + self.recent.as_ref().map_or(0, RecentRequests::memory)
    }

    /// Releases all held packets and the open message, and frees their memory.
    pub(super) fn release_buffered(&mut self, deliver: &mut dyn FnMut(Delivery<'_>)) {
        self.skip_gaps(deliver);
        self.messages.close(deliver);
        self.forget_held();
        self.held = Roomy::default();
        self.messages.forget_send();
        self.begun = None;
    }

    fn forget_held(&mut self) {
        self.held.clear();
        self.held_bytes = 0;
        self.gap = None;
    }

    fn skip_gaps(&mut self, deliver: &mut dyn FnMut(Delivery<'_>)) {
        while !self.held.is_empty() && self.expected.is_some() {
            self.skip_gap(deliver);
        }
    }

    /// Skips the gap before the first held packet.
    fn skip_gap(&mut self, deliver: &mut dyn FnMut(Delivery<'_>)) {
        let (Some(expected), Some(next)) = (self.expected, self.held.front()) else { return };
        let packets = expected.distance(next.psn).unsigned_abs();
        deliver(Delivery::Missing { packets, last: Some(next.psn.minus(1).into()) });
        if self.lost.len() == 16 {
            self.lost.pop_front();
        }
        self.lost.push_back((expected, packets));
        self.skipped_gaps += 1;
        self.expected = Some(next.psn);
        self.messages.skip(packets, next, deliver);
        self.drain(deliver);
    }

    /// Processes the packet at the expected PSN.
    #[inline]
    fn accept(&mut self, packet: &Packet<'_>, deliver: &mut dyn FnMut(Delivery<'_>)) {
        self.expected = self.messages.accept(packet, deliver);
        if self.expected.is_none() {
            self.unsure += 1;
            let read = packet.extension.reth().filter(|_| packet.operation == Operation::ReadRequest);
            self.open_read = read.map(|reth| (packet.psn, reth.dma_length));
        }
    }

    /// Holds a packet until those before it arrive. Returns false if its PSN is held already.
    fn hold(&mut self, packet: &Packet<'_>) -> bool {
        let Err(at) = self.held.binary_search_by(|held| packet.psn.distance(held.psn).cmp(&0)) else {
            return false;
        };
        self.held_bytes += packet.payload.len();
        self.held.insert(at, HeldPacket::new(packet));
        self.gap.get_or_insert(Gap { since: packet.seen.time, confirmed: None, packets: 0 });
        true
    }

    /// Delivers the held packets that are now in order.
    fn drain(&mut self, deliver: &mut dyn FnMut(Delivery<'_>)) {
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
        // Packets still held wait for another gap, which is no older than the first of them.
        self.gap = self.held.front().map(|held| Gap { since: held.seen.time, confirmed: None, packets: 0 });
        if self.expected.is_none() {
            self.forget_held();
        }
    }
}

#[cfg(test)]
mod tests;
