//! The requester of a queue pair: sends posted operations and retransmits them until they are
//! acknowledged (IBTA volume 1, sections 9.7.2 to 9.7.4 and 9.9.2).

use super::{Failure, Fault, Operation, QueueEvent, QueuePair, Send, WorkId, packets};
use crate::packet::Packet;
use crate::time::Instant;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use rdmascope_wire::bth::{
    Acknowledgement, Bth, Extensions, NakCode, Opcode, Operation as Kind, Reth, Syndrome, end_to_end_credits,
    rnr_timer,
};
use rdmascope_wire::psn::Psn;

/// The posted operations in order, with their progress.
#[derive(Clone, Debug)]
pub(crate) struct Requester {
    /// The operations that are not completed, oldest first.
    pub(crate) queue: VecDeque<Work>,
    /// The number of bytes that they move.
    pub(super) queued: usize,
    /// How many of them have PSNs.
    begun: usize,
    /// The PSN of the first packet of the next operation to begin.
    pub(crate) next: Psn,
    /// The next packet to send: index of the operation, and number of its packet.
    position: (usize, u32),
    /// The time of the next retransmission.
    pub(crate) deadline: Option<Instant>,
    /// The time before which no request is sent.
    pub(crate) rnr_until: Option<Instant>,
    retries: u8,
    rnr_retries: u8,
    /// Packets sent since the last acknowledge request.
    since_request: u32,
    /// Whether a READ was requested again because its responses were lost. It is not requested once
    /// more before there is progress.
    read_again: bool,
    /// Messages begun, modulo 2^24: the SSN of the next one (section 9.7.2).
    messages: u32,
    /// The last message for which the remote side has a Receive; `None`: unknown, or no end-to-end
    /// flow control.
    limit: Option<u32>,
}

/// An operation and its progress.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub(crate) id: WorkId,
    operation: Operation,
    /// Its first PSN, once it has begun.
    first: Psn,
    /// Number of its PSNs: of its packets, or of the responses to a READ.
    packets: u32,
    /// Number of acknowledged or answered PSNs, from the first on.
    done: u32,
    /// The data that a READ has received so far.
    read: Vec<u8>,
}

impl Work {
    const fn is_read(&self) -> bool {
        matches!(self.operation, Operation::Read { .. })
    }

    const fn last(&self) -> Psn {
        self.first.plus(self.packets - 1)
    }
}

impl Requester {
    pub(super) fn new(first: Psn) -> Requester {
        Requester {
            queue: VecDeque::new(),
            queued: 0,
            begun: 0,
            next: first,
            position: (0, 0),
            deadline: None,
            rnr_until: None,
            retries: 0,
            rnr_retries: 0,
            since_request: 0,
            read_again: false,
            messages: 0,
            limit: None,
        }
    }

    pub(super) fn post(&mut self, id: WorkId, operation: Operation, path_mtu: u16) {
        self.queued += operation.length();
        let packets = packets(operation.length(), path_mtu);
        self.queue.push_back(Work { id, operation, first: self.next, packets, done: 0, read: Vec::new() });
    }

    /// Skips `packets` PSNs before the next operation.
    pub(crate) fn skip(&mut self, packets: u32) {
        self.next = self.next.plus(packets);
    }

    /// Returns the oldest unacknowledged PSN.
    fn oldest(&self) -> Option<Psn> {
        let front = self.queue.front()?;
        (self.begun > 0).then(|| front.first.plus(front.done))
    }

    /// Returns whether the next operation may begin.
    fn may_begin(&self, window: u32, initiator_depth: u8) -> bool {
        let Some(work) = self.queue.get(self.begun) else { return false };
        if work.is_read() {
            let outstanding = self.queue.iter().take(self.begun).filter(|work| work.is_read()).count();
            if outstanding >= usize::from(initiator_depth.max(1)) {
                return false;
            }
        }
        // Without credits one message may be sent; its acknowledgement carries the credits (section
        // 9.7.7.2.5).
        if let Some(limit) = self.limit
            && work.operation.takes_receive()
            && self.begun > 0
            && Psn::new(self.messages).distance(Psn::new(limit)) <= 0
        {
            return false;
        }
        self.oldest().is_none_or(|oldest| (oldest.distance(self.next) as u32) < window.max(1))
    }

    fn complete_front(&mut self) -> Option<Work> {
        let work = self.queue.pop_front()?;
        self.queued -= work.operation.length();
        self.begun -= 1;
        self.position = match self.position {
            (0, _) => (0, 0),
            (index, packet) => (index - 1, packet),
        };
        Some(work)
    }

    /// Empties the queue. Returns the incomplete operations, oldest first.
    pub(super) fn flush(&mut self) -> VecDeque<Work> {
        self.begun = 0;
        self.queued = 0;
        self.position = (0, 0);
        self.deadline = None;
        self.rnr_until = None;
        core::mem::take(&mut self.queue)
    }

    /// Continues sending with the packet of this PSN, which was sent before.
    fn go_back(&mut self, psn: Psn) {
        for (index, work) in self.queue.iter().take(self.begun).enumerate() {
            let ahead = work.first.distance(psn);
            if (0..work.packets as i32).contains(&ahead) {
                self.position = (index, if work.is_read() { 0 } else { ahead as u32 });
                return;
            }
        }
    }
}

impl QueuePair {
    /// Returns the next packet of the send queue.
    pub(super) fn next_request(&mut self, now: Instant) -> Option<Vec<u8>> {
        if self.requester.rnr_until.is_some_and(|until| until > now) {
            return None;
        }
        let header = self.header();
        let config = &self.config;
        let requester = &mut self.requester;
        requester.rnr_until = None;
        let (index, packet) = requester.position;
        if index >= requester.begun {
            if !requester.may_begin(config.window, config.initiator_depth) {
                return None;
            }
            let work = &mut requester.queue[index];
            work.first = requester.next;
            requester.next = requester.next.plus(work.packets);
            requester.begun += 1;
            requester.messages = requester.messages.wrapping_add(1);
        }
        let work = &requester.queue[index];
        // The window limits a long message too.
        let oldest = requester.oldest()?;
        if !work.is_read()
            && oldest.distance(work.first.plus(packet)) >= config.window.clamp(1, 1 << 22) as i32
        {
            return None;
        }
        requester.deadline = requester.deadline.or_else(|| config.timeout.map(|timeout| now.plus(timeout)));
        let mtu = usize::from(config.path_mtu);
        let (mut opcode, mut extensions) = (Kind::ReadRequest as u8, Extensions::default());
        let reth = |rkey, virtual_address, length: usize| {
            Some(Reth { rkey, virtual_address, dma_length: length as u32 })
        };
        let is_first = packet == 0;
        let is_last = work.is_read() || packet + 1 == work.packets;
        let part = |bytes: &'_ [u8]| {
            let start = packet as usize * mtu;
            start..bytes.len().min(start + mtu)
        };
        let (mut psn, mut solicited, mut payload) = (work.first.plus(packet), false, &[][..]);
        match &work.operation {
            Operation::Read { rkey, address, length } => {
                // Request only the missing responses: the responder's PSNs continue there.
                let received = work.done as usize * mtu;
                psn = work.first.plus(work.done);
                extensions.reth =
                    reth(*rkey, address.wrapping_add(received as u64), *length as usize - received);
            }
            Operation::Send(Send { bytes, immediate, invalidate, solicited: event }) => {
                payload = &bytes[part(bytes)];
                opcode = match (is_first, is_last, invalidate.is_some(), immediate.is_some()) {
                    (true, true, true, _) => Kind::SendOnlyWithInvalidate,
                    (true, true, false, true) => Kind::SendOnlyWithImmediate,
                    (true, true, ..) => Kind::SendOnly,
                    (true, ..) => Kind::SendFirst,
                    (_, true, true, _) => Kind::SendLastWithInvalidate,
                    (_, true, false, true) => Kind::SendLastWithImmediate,
                    (_, true, ..) => Kind::SendLast,
                    _ => Kind::SendMiddle,
                } as u8;
                if is_last {
                    extensions.ieth = *invalidate;
                    extensions.immediate = immediate.filter(|_| invalidate.is_none());
                    solicited = *event;
                }
            }
            Operation::Write { rkey, address, bytes, immediate } => {
                payload = &bytes[part(bytes)];
                opcode = match (is_first, is_last, immediate.is_some()) {
                    (true, true, true) => Kind::WriteOnlyWithImmediate,
                    (true, true, _) => Kind::WriteOnly,
                    (true, ..) => Kind::WriteFirst,
                    (_, true, true) => Kind::WriteLastWithImmediate,
                    (_, true, _) => Kind::WriteLast,
                    _ => Kind::WriteMiddle,
                } as u8;
                if is_first {
                    extensions.reth = reth(*rkey, *address, bytes.len());
                }
                if is_last {
                    extensions.immediate = *immediate;
                }
            }
        }
        let acknowledge_request =
            is_last || requester.since_request + 1 >= config.acknowledge_every.min(config.window);
        requester.since_request = if acknowledge_request { 0 } else { requester.since_request + 1 };
        requester.position = if is_last { (index + 1, 0) } else { (index, packet + 1) };
        // The responses to a READ acknowledge it.
        let bth = Bth {
            opcode: Opcode(opcode),
            solicited_event: solicited,
            acknowledge_request: acknowledge_request && !work.is_read(),
            psn,
            ..header
        };
        Some(Packet { bth, extensions, payload }.build())
    }

    /// Handles an acknowledgement, a NAK or a READ response.
    pub(super) fn handle_response(&mut self, now: Instant, packet: &Packet<'_>, kind: Kind) {
        let psn = packet.bth.psn;
        let Some(oldest) = self.requester.oldest() else {
            // A duplicate acknowledgement is not a fault.
            if self.requester.next.distance(psn) >= 0 {
                self.fault(Fault::UnexpectedAcknowledgement(psn));
            }
            return;
        };
        if self.requester.next.distance(psn) >= 0 {
            return self.fault(Fault::UnexpectedAcknowledgement(psn));
        }
        let aeth = packet.extensions.aeth;
        if kind.is_read_response() {
            return self.read_response(now, packet, kind);
        }
        let Some(aeth) = aeth.filter(|_| kind == Kind::Acknowledge) else {
            return self.fault(Fault::Opcode(packet.bth.opcode.0));
        };
        if oldest.distance(psn) < 0 && !matches!(aeth.syndrome.kind(), Acknowledgement::Ack { .. }) {
            // A retransmission from there is impossible: the PSN is already acknowledged, or was
            // skipped.
            return self.nak_received(psn, aeth.syndrome);
        }
        match aeth.syndrome.kind() {
            Acknowledgement::Ack { credits } => {
                self.requester.limit = end_to_end_credits(credits)
                    .map(|credits| aeth.message_sequence_number.wrapping_add(credits));
                self.acknowledge(now, psn);
            }
            Acknowledgement::RnrNak { timer } => {
                self.nak_received(psn, aeth.syndrome);
                self.received_before(now, psn);
                let limit = self.config.rnr_retry_count;
                if limit < 7 && self.requester.rnr_retries >= limit {
                    return self.fail(Failure::RnrRetriesExceeded);
                }
                self.requester.rnr_retries = self.requester.rnr_retries.saturating_add(1);
                self.requester.rnr_until = Some(now.plus(rnr_timer(timer)));
                // The remote side is alive; the acknowledgement timer starts with the next packet.
                self.requester.retries = 0;
                self.requester.deadline = None;
                let from = self.requester.oldest().unwrap_or(psn);
                self.requester.go_back(from);
                self.emit(QueueEvent::Retransmission { from, timeout: false });
            }
            Acknowledgement::Nak(NakCode::PsnSequenceError) => {
                self.nak_received(psn, aeth.syndrome);
                self.received_before(now, psn);
                // Earlier READs without responses are requested again too: their responses preceded
                // the NAK.
                let from = self.requester.oldest().unwrap_or(psn);
                self.requester.read_again = true;
                self.again(from);
            }
            Acknowledgement::Nak(code) => {
                self.nak_received(psn, aeth.syndrome);
                self.received_before(now, psn);
                self.fail(Failure::Refused(code));
            }
            Acknowledgement::Reserved(_) => self.fault(Fault::Syndrome(aeth.syndrome.0)),
        }
    }

    fn nak_received(&mut self, psn: Psn, syndrome: Syndrome) {
        self.emit(QueueEvent::NakReceived { psn, syndrome: syndrome.0 });
    }

    /// Handles an acknowledgement of everything up to and including `psn`.
    fn acknowledge(&mut self, now: Instant, psn: Psn) {
        self.received_before(now, psn.plus(1));
        // The remote side received a request after a READ, so it sent the READ responses, which are
        // lost (section 9.7.5.1.3).
        if self.requester.begun > 0
            && let Some(work) = self.requester.queue.front()
            && work.is_read()
            && work.last().distance(psn) >= 0
            && !self.requester.read_again
        {
            let from = work.first.plus(work.done);
            self.requester.read_again = true;
            self.again(from);
        }
    }

    /// Completes everything before `psn`. Only responses complete READs.
    fn received_before(&mut self, now: Instant, psn: Psn) {
        let psn = psn.minus(1);
        let mut progress = false;
        while self.requester.begun > 0
            && let Some(work) = self.requester.queue.front_mut()
        {
            let ahead = work.first.distance(psn);
            if ahead < 0 {
                break;
            }
            if work.is_read() {
                break;
            }
            if work.last().distance(psn) < 0 {
                progress |= ahead as u32 + 1 > work.done;
                work.done = work.done.max(ahead as u32 + 1);
                let done = work.done;
                if self.requester.position.0 == 0 {
                    self.requester.position.1 = self.requester.position.1.max(done);
                }
                break;
            }
            if let Some(work) = self.requester.complete_front() {
                progress = true;
                self.events.push_back(QueueEvent::Completed { work: work.id, outcome: Ok(Vec::new()) });
            }
        }
        if progress {
            self.progressed(now);
        }
    }

    fn progressed(&mut self, now: Instant) {
        self.requester.retries = 0;
        self.requester.rnr_retries = 0;
        self.requester.read_again = false;
        let outstanding = self.requester.begun > 0;
        self.requester.deadline =
            self.config.timeout.filter(|_| outstanding).map(|timeout| now.plus(timeout));
    }

    /// Retransmits from `psn` on, because the remote side lacks it.
    fn again(&mut self, psn: Psn) {
        if self.requester.retries >= self.config.retry_count {
            return self.fail(Failure::RetriesExceeded);
        }
        self.requester.retries += 1;
        self.requester.go_back(psn);
        self.emit(QueueEvent::Retransmission { from: psn, timeout: false });
    }

    fn read_response(&mut self, now: Instant, packet: &Packet<'_>, kind: Kind) {
        let psn = packet.bth.psn;
        let begun = self.requester.begun;
        let Some(index) = self.requester.queue.iter().take(begun).position(Work::is_read) else {
            // A duplicate response.
            return;
        };
        let work = &self.requester.queue[index];
        let ahead = work.first.plus(work.done).distance(psn);
        if ahead < 0 {
            return;
        }
        // A response to this READ or a later one proves that all earlier requests were received.
        let first = work.first;
        if index > 0 {
            self.received_before(now, first);
        }
        let work = match self.requester.queue.front_mut() {
            Some(work) if work.is_read() => work,
            _ => return,
        };
        if ahead > 0 {
            let from = work.first.plus(work.done);
            if !self.requester.read_again {
                self.requester.read_again = true;
                self.again(from);
            }
            return;
        }
        let mtu = usize::from(self.config.path_mtu);
        let is_last = work.done + 1 == work.packets;
        let length = match work.operation.length() - work.done as usize * mtu {
            rest if is_last => rest,
            _ => mtu,
        };
        let ends = kind.ends_message();
        if ends != is_last || packet.payload.len() != length {
            self.fault(Fault::Length { length: packet.payload.len(), psn });
            return self.fail(Failure::BadResponse);
        }
        work.read.extend_from_slice(packet.payload);
        work.done += 1;
        if is_last && let Some(work) = self.requester.complete_front() {
            self.events.push_back(QueueEvent::Completed { work: work.id, outcome: Ok(work.read) });
        }
        self.progressed(now);
    }

    /// Handles the retransmission timeout.
    pub(crate) fn handle_time(&mut self, now: Instant) {
        if self.requester.rnr_until.is_some_and(|until| until <= now) {
            self.requester.rnr_until = None;
        }
        if self.requester.deadline.is_none_or(|deadline| deadline > now) {
            return;
        }
        self.requester.deadline = None;
        let Some(oldest) = self.requester.oldest() else { return };
        if self.requester.retries >= self.config.retry_count {
            return self.fail(Failure::RetriesExceeded);
        }
        self.requester.retries += 1;
        self.requester.read_again = false;
        self.requester.go_back(oldest);
        self.emit(QueueEvent::Retransmission { from: oldest, timeout: true });
    }
}
