//! One reliable connection: the packets of both ends in, what they come to out.

use super::fault::{self, Agreed};
use super::{HeldPacket, Packet, Reads, Requests, Response};
use crate::connection::{Counts, FirstFrames};
use crate::rdma::{Deliver, Delivery, End, Failure, Fault, Position, Refusal};
use crate::record::{Seen, Time};
use crate::waiting::Waiting;
use rdmascope_wire::bth::{Acknowledgement, Bth, NakCode, Operation, PacketPosition, rnr_timer};
use rdmascope_wire::psn::Psn;

/// The transport of a connection: both its half-flows.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReliableConnection {
    halves: [Half; 2],
    /// What is wrong with responses is reported too.
    judged: bool,
}

/// What one end sends, and what is known of how it arrived.
#[derive(Clone, Debug, Default)]
struct Half {
    requests: Requests,
    reads: Reads,
    /// READ responses of this end to what the other one was not seen to ask yet.
    early: Waiting<HeldPacket>,
    /// The responses that this end sent; the other counters stay 0.
    counts: Counts,
    /// The first of its NAKs; the other numbers stay empty.
    first_frames: FirstFrames,
    /// The highest PSN of it that was acknowledged, and the first packet that did so.
    acknowledged: Option<(Psn, Seen)>,
    /// The last packet that named this PSN.
    confirmed: u64,
}

impl Half {
    /// Notes that the other end received all up to `psn`, as the packet at `seen` says.
    fn note_acknowledged(&mut self, psn: Psn, seen: Seen) {
        let ahead = self.acknowledged.map_or(1, |(before, _)| before.distance(psn));
        if ahead > 0 {
            self.acknowledged = Some((psn, seen));
        }
        if ahead >= 0 {
            self.confirmed = seen.frame;
        }
    }
}

impl ReliableConnection {
    /// Sets the PSN that the requests of an end begin at, and the path MTU in bytes, as the CM exchange says.
    pub(crate) fn begin(&mut self, end: End, first: Psn, path_mtu: Option<u32>) {
        self.halves[end].requests.begin(first, path_mtu);
    }

    /// Sets how many RDMA READs an end may have outstanding.
    pub(crate) fn limit_reads(&mut self, end: End, resources: u8) {
        self.halves[end].reads.limit(resources);
    }

    /// Sets the path MTU in bytes that a REQ names.
    pub(crate) fn agree_on_path_mtu(&mut self, path_mtu: Option<u32>) {
        self.halves.iter_mut().for_each(|half| half.requests.agree_on_path_mtu(path_mtu));
    }

    /// The path MTU in bytes that the requests of an end go by, as far as it is known.
    pub(crate) fn path_mtu(&self, end: End) -> Option<u32> {
        self.halves[end].requests.path_mtu()
    }

    /// Reports with repetitions and refusals of both ends the packet seen first.
    pub(crate) fn watch(&mut self) {
        self.halves.iter_mut().for_each(|half| half.requests.watch());
    }

    /// Sets whether faults of responses are reported from now on.
    #[inline]
    pub(crate) fn judge(&mut self, judged: bool) {
        self.judged = judged;
    }

    /// Forgets what was sent lately, because the connection is closed.
    pub(crate) fn forget_recent_requests(&mut self) {
        self.halves.iter_mut().for_each(|half| half.requests.forget_recent_requests());
    }

    /// What is wrong with a packet of an end by itself.
    #[inline]
    pub(crate) fn inspect(
        &self,
        from: End,
        bth: &Bth,
        packet: &Packet<'_>,
        partition_key: Option<u16>,
    ) -> Option<Fault> {
        // The path MTU goes with the requests, whoever sends the responses to them.
        let sender = if packet.operation.is_response() { from.other() } else { from };
        fault::of_packet(bth, packet, &Agreed { path_mtu: self.path_mtu(sender), partition_key })
    }

    /// Whether a response of the other end fits what this end was seen to send last; `is_new`: nothing of the other end was seen before this
    /// end's first PSN was announced. Then it fits where it answers what this end is about to send, or was not seen to.
    pub(crate) fn fits(&self, end: End, response: &Packet<'_>, is_new: bool) -> bool {
        /// A responder acknowledges what was just sent.
        const RECENT: core::ops::RangeInclusive<i32> = 1..=512;
        let Half { requests, reads, .. } = &self.halves[end];
        if let Some(announced) = requests.announced().filter(|_| is_new) {
            return RECENT.contains(&(announced.distance(response.psn) + 1));
        }
        if response.operation.is_read_response() {
            return reads.expects(response.psn);
        }
        requests.latest().is_some_and(|next| RECENT.contains(&response.psn.distance(next)))
    }

    /// Whether all was handed up that an end sent before a position, and with it.
    #[inline]
    pub(crate) fn is_settled(&self, end: End, position: Position) -> bool {
        self.halves[end].requests.is_settled(Psn::new(position.number()))
    }

    /// Whether requests of an end wait behind a gap.
    #[inline]
    pub(crate) fn waits(&self, end: End) -> bool {
        self.halves[end].requests.waits()
    }

    /// How often it was not known which PSN of an end comes next.
    pub(crate) fn unsure(&self, end: End) -> u32 {
        self.halves[end].requests.unsure
    }

    /// The last of what an end sent that was acknowledged, and the first packet that did so.
    #[inline]
    pub(crate) fn acknowledged(&self, end: End) -> Option<(Position, Seen)> {
        self.halves[end].acknowledged.map(|(psn, seen)| (psn.into(), seen))
    }

    /// How many requests of an end came again, or filled a gap before others seen earlier.
    pub(crate) fn disturbed(&self, end: End) -> u64 {
        let requests = &self.halves[end].requests;
        requests.repeated + requests.reordered
    }

    /// How many packets of an end were acknowledged and have not come by: behind all that did.
    pub(crate) fn missing_at_the_end(&self, end: End) -> Option<i32> {
        let Half { requests, acknowledged, .. } = &self.halves[end];
        let ((acknowledged, _), expected) = ((*acknowledged)?, requests.expected()?);
        Some(expected.distance(acknowledged) + 1)
    }

    /// Up to which frame nothing that an end sent is missing.
    pub(crate) fn complete(&self, end: End) -> Option<u64> {
        (self.missing_at_the_end(end) == Some(0)).then_some(self.halves[end].confirmed)
    }

    /// Adds to `counts` what was counted of an end here.
    pub(crate) fn count(&self, end: End, counts: Counts) -> Counts {
        let Half { requests, counts: of_responses, .. } = &self.halves[end];
        Counts {
            repeated_packets: requests.repeated,
            reordered_packets: requests.reordered,
            acknowledgements: of_responses.acknowledgements,
            rnr_naks: of_responses.rnr_naks,
            sequence_naks: of_responses.sequence_naks,
            fatal_naks: of_responses.fatal_naks,
            read_response_bytes: of_responses.read_response_bytes,
            unmatched_responses: of_responses.unmatched_responses,
            ..counts
        }
    }

    /// Adds to `first_frames` what was seen first of an end here.
    pub(crate) fn first_frames(&self, end: End, first_frames: FirstFrames) -> FirstFrames {
        let Half { requests, first_frames: of_responses, .. } = &self.halves[end];
        FirstFrames {
            sequence_nak: of_responses.sequence_nak,
            fatal_nak: of_responses.fatal_nak,
            rnr_nak: of_responses.rnr_nak,
            repeated_packet: requests.first_repeated,
            reordered_packet: requests.first_reordered,
            ..first_frames
        }
    }

    /// Takes over what end `from` of another connection sends as what `end` does.
    pub(crate) fn take(&mut self, end: End, other: &mut ReliableConnection, from: End) {
        self.halves[end] = core::mem::take(&mut other.halves[from]);
    }

    /// Bytes of memory that are held back.
    #[inline]
    pub(crate) fn buffered(&self) -> usize {
        let of = |half: &Half| half.requests.buffered() + half.reads.buffered() + half.early.footprint();
        self.halves.iter().map(of).sum()
    }

    /// Bytes of memory that a clone takes up beside itself.
    pub(crate) fn footprint(&self) -> usize {
        let of = |half: &Half| half.requests.footprint() + half.reads.footprint() + half.early.footprint();
        self.halves.iter().map(of).sum()
    }

    /// Takes a packet of end `from`.
    #[inline]
    pub(crate) fn handle(&mut self, from: End, packet: &Packet<'_>, deliver: &mut Deliver<'_>) {
        if packet.operation.is_response() {
            self.handle_response(from, packet, deliver);
        } else {
            let Half { requests, reads, .. } = &mut self.halves[from];
            requests.handle(packet, &mut |delivery| hand_up(from, delivery, reads, deliver));
        }
        if self.halves.iter().any(|half| !half.early.is_empty()) {
            self.settle_early(Some(packet.seen), deliver);
        }
    }

    fn handle_response(&mut self, from: End, packet: &Packet<'_>, deliver: &mut Deliver<'_>) {
        let (sender, asker) = ends(&mut self.halves, from);
        let Half { counts, first_frames, .. } = &mut *sender;
        let Packet { seen, operation, psn, .. } = *packet;
        let position = psn.into();
        if self.judged && asker.requests.cannot_have_sent(psn) {
            deliver(from, faulty(packet, Fault::Unsent));
        }
        let received = match packet.response() {
            Response::Acknowledged => {
                counts.acknowledgements += u64::from(operation == Operation::Acknowledge);
                psn
            }
            // A refusal acknowledges what was before it.
            Response::ReceiverNotReady => {
                counts.rnr_naks += 1;
                first_frames.rnr_nak.get_or_insert(seen.frame);
                psn.minus(1)
            }
            Response::Failed(NakCode::PsnSequenceError) => {
                counts.sequence_naks += 1;
                first_frames.sequence_nak.get_or_insert(seen.frame);
                psn.minus(1)
            }
            Response::Failed(_) => {
                counts.fatal_naks += 1;
                first_frames.fatal_nak.get_or_insert(seen.frame);
                psn.minus(1)
            }
        };
        if received != psn
            && let Some(refusal) = refusal(packet)
        {
            let request = asker.requests.find_request(psn);
            deliver(from, Delivery::Refused { seen, position, refusal, request });
        }
        if operation.is_read_response() {
            counts.read_response_bytes += u64::from(packet.payload_length);
            if matches!(operation.position(), PacketPosition::First | PacketPosition::Middle) {
                asker.requests.note_path_mtu(packet.payload_length);
            }
            if !take_read_response(from, packet, asker, self.judged, deliver) {
                if asker.requests.may_yet_show(psn) {
                    sender.early.keep(HeldPacket::new(packet));
                } else {
                    note_unmatched(from, packet, (sender, asker), self.judged, deliver);
                }
            }
        }
        asker.note_acknowledged(received, seen);
        let Half { requests, reads, .. } = asker;
        requests.acknowledge(received, seen.time, &mut |delivery| {
            hand_up(from.other(), delivery, reads, deliver);
        });
    }

    /// Takes the READ responses that were kept whose requests have come by, and those that have waited long enough by `now` (`None`: nothing
    /// comes any more). What these answer may be behind a gap: that is not waited for any longer.
    #[cold]
    fn settle_early(&mut self, now: Option<Seen>, deliver: &mut Deliver<'_>) {
        for from in End::BOTH {
            while let Some(held) = self.take_early(from, now, deliver) {
                let (sender, asker) = ends(&mut self.halves, from);
                let packet = held.packet();
                if !take_read_response(from, &packet, asker, self.judged, deliver) {
                    note_unmatched(from, &packet, (sender, asker), self.judged, deliver);
                }
            }
        }
    }

    /// A READ response of end `from` that needs to wait no longer.
    fn take_early(&mut self, from: End, now: Option<Seen>, deliver: &mut Deliver<'_>) -> Option<HeldPacket> {
        loop {
            let (sender, asker) = ends(&mut self.halves, from);
            let Half { requests, reads, .. } = asker;
            let is_ready = |held: &HeldPacket| reads.expects(held.psn) || !requests.may_yet_show(held.psn);
            let ready = sender.early.iter().position(is_ready);
            if let Some(ready) = ready {
                return sender.early.take(ready);
            }
            let is_due = sender.early.is_full() || now.is_none_or(|now| sender.early.is_overdue(now));
            if !is_due {
                return None;
            }
            if !self.give_up_received(from.other(), deliver) {
                return self.halves[from].early.take_first();
            }
        }
    }

    /// Gives up what is missing where time alone shows by `now` that it will not come, and READ responses that have waited long enough.
    pub(crate) fn handle_time(&mut self, now: Time, deliver: &mut Deliver<'_>) {
        for end in End::BOTH {
            let Half { requests, reads, .. } = &mut self.halves[end];
            requests.handle_time(now, &mut |delivery| hand_up(end, delivery, reads, deliver));
        }
        // No frame has come by, so that nothing is too far behind one.
        self.settle_early(Some(Seen { frame: 0, time: now }), deliver);
    }

    /// When [`ReliableConnection::handle_time`] has something to do.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let of = |half: &Half| half.requests.deadline().into_iter().chain(half.early.deadline()).min();
        self.halves.iter().filter_map(of).min()
    }

    /// Gives up what is missing of an end although it was received, without waiting longer for it to turn up. False where nothing is.
    pub(crate) fn give_up_received(&mut self, end: End, deliver: &mut Deliver<'_>) -> bool {
        let Half { requests, reads, .. } = &mut self.halves[end];
        requests.give_up_received(&mut |delivery| hand_up(end, delivery, reads, deliver))
    }

    /// The PSN of the last Send of an end that waits behind a gap, of those whose first packet `is_it` likes.
    pub(crate) fn find_held_send(&self, end: End, is_it: impl Fn(&[u8]) -> bool) -> Option<Psn> {
        self.halves[end].requests.find_held_send(is_it)
    }

    /// Gives up what is missing of an end before a packet that waits behind it, because the other end is seen to have received that packet:
    /// so it has received all that was sent before (IBTA volume 1, section 9.7.5: in order).
    pub(crate) fn give_up_before(&mut self, end: End, psn: Psn, deliver: &mut Deliver<'_>) {
        let Half { requests, reads, .. } = &mut self.halves[end];
        requests.give_up_before(psn, &mut |delivery| hand_up(end, delivery, reads, deliver));
    }

    /// Gives up what is held back of both ends, and the memory that it takes up.
    pub(crate) fn give_up_buffered(&mut self, deliver: &mut Deliver<'_>) {
        for end in End::BOTH {
            let Half { requests, reads, .. } = &mut self.halves[end];
            requests.give_up_buffered(&mut |delivery| hand_up(end, delivery, reads, deliver));
        }
        self.settle_early(None, deliver);
        self.halves.iter_mut().for_each(|half| half.reads = Reads::default());
    }

    /// Ends both half-flows: delivers what is held and what is open, with its gaps.
    pub(crate) fn finish(&mut self, deliver: &mut Deliver<'_>) {
        for end in End::BOTH {
            let Half { requests, reads, .. } = &mut self.halves[end];
            requests.finish(&mut |delivery| hand_up(end, delivery, reads, deliver));
        }
        self.settle_early(None, deliver);
    }
}

/// The end that sends responses, and the one that asked for them.
#[inline]
fn ends(halves: &mut [Half; 2], from: End) -> (&mut Half, &mut Half) {
    let [first, second] = halves;
    if from == End::First { (first, second) } else { (second, first) }
}

/// Hands up where the data of a READ response of end `from` belongs. False where no request is known that it answers.
#[inline]
fn take_read_response(
    from: End,
    packet: &Packet<'_>,
    asker: &mut Half,
    judged: bool,
    deliver: &mut Deliver<'_>,
) -> bool {
    let Half { requests, reads, .. } = asker;
    let Some(placement) = reads.answer(packet) else { return false };
    if judged {
        let wrong = requests.path_mtu().and_then(|path_mtu| reads.fault(packet, &placement, path_mtu));
        for fault in wrong.into_iter().chain(reads.excess(packet.seen)) {
            deliver(from, faulty(packet, fault));
        }
    }
    deliver(from, Delivery::ReadResponse(placement));
    true
}

/// Notes a READ response that answers no request that is known.
#[cold]
fn note_unmatched(
    from: End,
    packet: &Packet<'_>,
    (sender, asker): (&mut Half, &Half),
    judged: bool,
    deliver: &mut Deliver<'_>,
) {
    sender.counts.unmatched_responses += 1;
    if judged && asker.requests.shows(packet.psn) {
        deliver(from, faulty(packet, Fault::Unasked));
    }
}

fn faulty(packet: &Packet<'_>, fault: Fault) -> Delivery<'static> {
    Delivery::Faulty { seen: packet.seen, piece: packet.piece(), position: packet.psn.into(), fault }
}

/// Hands up what the requests of an end came to, and notes the READs among it.
#[inline]
fn hand_up(from: End, delivery: Delivery<'_>, reads: &mut Reads, deliver: &mut Deliver<'_>) {
    if let Delivery::ReadRequest(request) = &delivery {
        reads.ask(request);
    }
    deliver(from, delivery);
}

/// Why a receiver did not take a request, where its response says so.
#[inline]
fn refusal(packet: &Packet<'_>) -> Option<Refusal> {
    let aeth = packet.extension.aeth().filter(|_| packet.operation == Operation::Acknowledge)?;
    match aeth.syndrome.kind() {
        Acknowledgement::RnrNak { timer } => Some(Refusal::ReceiverNotReady(rnr_timer(timer))),
        Acknowledgement::Nak(code) => Some(match code {
            NakCode::PsnSequenceError => Refusal::OutOfSequence,
            NakCode::InvalidRequest => Refusal::Failed(Failure::InvalidRequest),
            NakCode::RemoteAccessError => Refusal::Failed(Failure::RemoteAccess),
            NakCode::RemoteOperationalError => Refusal::Failed(Failure::RemoteOperation),
            NakCode::InvalidRdRequest => {
                Refusal::Failed(Failure::Other { name: "invalid RD request", code: None })
            }
            NakCode::Reserved(code) => {
                Refusal::Failed(Failure::Other { name: "reserved NAK code", code: Some(code) })
            }
        }),
        Acknowledgement::Ack { .. } | Acknowledgement::Reserved(_) => None,
    }
}

#[cfg(test)]
mod tests;
