//! The requests of one end, put in the order of their PSNs.
//!
//! The capture may show packets out of order, twice, or not at all; the sender may go back and repeat. A packet at the
//! expected PSN is delivered at once, without a copy. A packet behind it is a repetition, and says nothing new. A packet
//! ahead of it is held until the gap is filled by reordering or retransmission, or until it is clear that the capture
//! lost what is missing: because the receiver acknowledged it, or because nothing came for long.

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
    /// The PSN that comes next; `None` until a packet that begins a message was seen.
    expected: Option<Psn>,
    /// Packets ahead of a gap, in the order of their PSNs.
    held: Roomy<VecDeque<HeldPacket>>,
    /// Payload bytes held.
    held_bytes: usize,
    gap: Option<Gap>,
    /// The messages that the packets in order make up.
    messages: Messages,
    /// The highest PSN that the other end acknowledged.
    acknowledged: Option<Psn>,
    /// The gaps last given up: `(first PSN, packets)`. What turns up in one was only late.
    lost: VecDeque<(Psn, u32)>,
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
    /// The first of them, by its number in the capture.
    pub(super) first_repeated: Option<u64>,
    /// Requests that filled a gap before requests seen earlier.
    pub(super) reordered: u64,
    /// The first of them.
    pub(super) first_reordered: Option<u64>,
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

impl Requests {
    /// Packets held ahead of a gap.
    const MOST_HELD: usize = 1024;
    /// Payload bytes held ahead of a gap.
    const MOST_HELD_BYTES: usize = 2 << 20;
    /// A PSN that is further off than this belongs to another life of the queue pair: no sender has as many outstanding.
    const WINDOW: i32 = 1 << 16;
    /// How long a retransmission may take: the longest that common timeouts and RNR timers add up to.
    const RETRANSMISSION: u64 = 4_000_000_000;

    /// The PSN that comes next, and the path MTU, as the CM exchange says.
    pub(super) fn begin(&mut self, first: Psn, path_mtu: Option<u32>) {
        self.expected = Some(first);
        self.begun = Some(first);
        self.messages.begin();
        self.announced = Some(first);
        self.messages.agree_on_path_mtu(path_mtu);
    }

    /// Remembers what was sent last, so that what is repeated or refused is reported with the packet seen first.
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

    /// The PSN that the first request is to carry, as the CM exchange says, until one comes.
    pub(super) fn announced(&self) -> Option<Psn> {
        self.announced
    }

    /// The path MTU, as the CM exchange says.
    pub(super) fn agree_on_path_mtu(&mut self, path_mtu: Option<u32>) {
        self.messages.agree_on_path_mtu(path_mtu);
    }

    /// Notes the payload of a packet that others of its message follow: the path MTU.
    #[inline]
    pub(super) fn note_path_mtu(&mut self, payload_length: u32) {
        self.messages.note_path_mtu(payload_length);
    }

    /// The path MTU, as far as it is known.
    pub(super) fn path_mtu(&self) -> Option<u32> {
        self.messages.path_mtu()
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

    /// Whether all was handed up that was sent before this PSN, and with it.
    pub(super) fn is_settled(&self, psn: Psn) -> bool {
        let waiting = self.messages.open_send().or(self.expected);
        // What is further off than any sender gets ahead is not waited for.
        let is_ahead = |waiting: Psn| (0..=Requests::WINDOW).contains(&waiting.distance(psn));
        waiting.map_or(self.held.is_empty(), |waiting| !is_ahead(waiting))
    }

    /// Whether packets wait behind a gap.
    pub(super) fn waits(&self) -> bool {
        !self.held.is_empty()
    }

    /// Takes a request packet.
    #[inline]
    pub(super) fn handle(&mut self, packet: &Packet<'_>, deliver: &mut dyn FnMut(Delivery<'_>)) {
        if let Some(announced) = self.announced.take() {
            self.compare_start(announced, packet, deliver);
        }
        if let Some(recent) = &mut self.recent {
            recent.note(packet.psn, packet.seen);
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

    /// Compares the first packet with the announced PSN. One before it is no repetition: nothing was sent before. So the requests begin
    /// with it, and it was announced wrongly, or sent wrongly.
    fn compare_start(&mut self, announced: Psn, packet: &Packet<'_>, deliver: &mut dyn FnMut(Delivery<'_>)) {
        let ahead = announced.distance(packet.psn);
        if (0..=Requests::WINDOW).contains(&ahead) {
            return;
        }
        fault(packet, Fault::Start { announced: announced.into() }, deliver);
        let begins = matches!(packet.operation.position(), PacketPosition::First | PacketPosition::Only);
        if begins && (-Requests::WINDOW..0).contains(&ahead) {
            (self.expected, self.begun) = (Some(packet.psn), Some(packet.psn));
        }
    }

    fn handle_out_of_order(&mut self, packet: &Packet<'_>, deliver: &mut dyn FnMut(Delivery<'_>)) {
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
            self.messages.close(deliver);
            self.lost.clear();
            (self.given_up, self.begun) = (0, None);
            deliver(Delivery::Restarted);
            self.acknowledged = None;
            self.expected = None;
            self.unsure += 1;
            self.handle_out_of_order(packet, deliver);
        } else if ahead > 0 {
            if !self.hold(packet) {
                self.note_repeated(packet, deliver);
            }
            self.settle(packet.seen.time, true, deliver);
        } else {
            self.handle_behind(packet, deliver);
        }
    }

    /// A packet before the expected one: a repetition, or the late filling of a gap that was given up.
    fn handle_behind(&mut self, packet: &Packet<'_>, deliver: &mut dyn FnMut(Delivery<'_>)) {
        let late = self.lost.iter().any(|(first, packets)| {
            let index = first.distance(packet.psn);
            index >= 0 && (index as u32) < *packets
        });
        if late {
            self.note_reordered(packet.seen);
            // A message of one packet stands for itself, however late.
            if packet.operation.position() == PacketPosition::Only {
                let next = self.messages.accept_apart(packet, deliver);
                self.unsure += u32::from(next.is_none());
            }
        } else {
            self.note_repeated(packet, deliver);
            // An RDMA READ is asked for again, from where its responses broke off: they will answer to this one.
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

    /// Goes on with this packet, where it is not known what was before.
    fn start(&mut self, psn: Psn) {
        self.expected = Some(psn);
        self.begun.get_or_insert(psn);
        self.messages.lose_track();
    }

    /// Notes a packet that fills a gap before packets seen earlier.
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
        let asked = packet.extension.reth().filter(|_| is_read).map_or(0, |reth| reth.dma_length);
        deliver(Delivery::Repeated(Repetition { seen, first, piece, position: psn.into(), bytes, asked }));
    }

    /// Takes what the other end acknowledged: all up to `psn` was received there.
    #[inline]
    pub(super) fn acknowledge(&mut self, psn: Psn, now: Time, deliver: &mut dyn FnMut(Delivery<'_>)) {
        if self.acknowledged.is_none_or(|before| before.distance(psn) > 0) {
            self.acknowledged = Some(psn);
        }
        if !self.held.is_empty() {
            self.settle(now, false, deliver);
        }
    }

    /// Gives up what is missing once it is clear that it will not come.
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
    pub(super) fn handle_time(&mut self, now: Time, deliver: &mut dyn FnMut(Delivery<'_>)) {
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
    pub(super) fn give_up_received(&mut self, deliver: &mut dyn FnMut(Delivery<'_>)) -> bool {
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

    /// The last Send that begins among the packets that wait behind a gap, of those whose first packet `is_it` likes.
    pub(super) fn find_held_send(&self, is_it: impl Fn(&[u8]) -> bool) -> Option<Psn> {
        let begins = |held: &&HeldPacket| {
            let position = held.operation.position();
            held.operation.is_send() && matches!(position, PacketPosition::First | PacketPosition::Only)
        };
        let mut sends = self.held.iter().rev().filter(begins);
        sends.find(|held| is_it(&held.payload)).map(|held| held.psn)
    }

    /// Gives up what is missing before a packet that waits.
    pub(super) fn give_up_before(&mut self, psn: Psn, deliver: &mut dyn FnMut(Delivery<'_>)) {
        while self.held.iter().any(|held| held.psn == psn) && self.expected.is_some() {
            self.give_up(deliver);
        }
    }

    /// Ends the half-flow: delivers what is held and what is open, with its gaps.
    pub(super) fn finish(&mut self, deliver: &mut dyn FnMut(Delivery<'_>)) {
        if self.expected.is_none() {
            self.forget_held();
        }
        self.give_up_all(deliver);
        self.messages.close(deliver);
    }

    /// Bytes of memory that held packets and the open Send take up.
    #[inline]
    pub(super) fn buffered(&self) -> usize {
        self.held_bytes + self.held.capacity() * size_of::<HeldPacket>() + self.messages.buffered()
    }

    /// Bytes of memory that a clone takes up beside itself.
    pub(super) fn footprint(&self) -> usize {
        self.held_bytes
            + self.held.capacity() * size_of::<HeldPacket>()
            + self.messages.buffered()
            + self.lost.len() * size_of::<(Psn, u32)>()
            + self.recent.as_ref().map_or(0, RecentRequests::memory)
    }

    /// Gives up what is held and what is open, and the memory of both.
    pub(super) fn give_up_buffered(&mut self, deliver: &mut dyn FnMut(Delivery<'_>)) {
        self.give_up_all(deliver);
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

    fn give_up_all(&mut self, deliver: &mut dyn FnMut(Delivery<'_>)) {
        while !self.held.is_empty() && self.expected.is_some() {
            self.give_up(deliver);
        }
    }

    /// Goes on behind the gap before the first packet held.
    fn give_up(&mut self, deliver: &mut dyn FnMut(Delivery<'_>)) {
        let (Some(expected), Some(next)) = (self.expected, self.held.front()) else { return };
        let packets = expected.distance(next.psn).unsigned_abs();
        deliver(Delivery::Missing { packets });
        if self.lost.len() == 16 {
            self.lost.pop_front();
        }
        self.lost.push_back((expected, packets));
        self.given_up += 1;
        self.expected = Some(next.psn);
        self.messages.skip(packets, next, deliver);
        self.drain(deliver);
    }

    /// Takes the packet at the expected PSN.
    #[inline]
    fn accept(&mut self, packet: &Packet<'_>, deliver: &mut dyn FnMut(Delivery<'_>)) {
        self.expected = self.messages.accept(packet, deliver);
        self.unsure += u32::from(self.expected.is_none());
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
        // What is still held waits for another gap, which began no earlier than its first packet was seen.
        self.gap = self.held.front().map(|held| Gap { since: held.seen.time, confirmed: None, packets: 0 });
        if self.expected.is_none() {
            self.forget_held();
        }
    }
}

#[cfg(test)]
mod tests;
