//! A reliable connection: consumes the packets of both ends and emits deliveries.

use super::fault::{self, Agreed};
use super::{HeldPacket, Packet, Reads, Requests, Response};
use crate::connection::{Counts, FirstFrames};
use crate::rdma::{Deliver, Delivery, End, Failure, Fault, Position, Refusal};
use crate::record::{Seen, Time};
use crate::waiting::Waiting;
use rdmascope_wire::bth::{Acknowledgement, Bth, NakCode, Operation, rnr_timer};
use rdmascope_wire::psn::Psn;

/// Transport state of a connection: its two half-flows.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReliableConnection {
    halves: [Half; 2],
    /// Report faults of responses too.
    judged: bool,
}

/// The packets that one end sends, and the acknowledgements of them.
#[derive(Clone, Debug, Default)]
struct Half {
    requests: Requests,
    reads: Reads,
    /// READ responses of this end whose request has not been seen yet.
    early: Waiting<HeldPacket>,
    /// Counters of the responses that this end sent. Those of requests stay 0.
    counts: Counts,
    /// The last READ response that answers no known request.
    unmatched: Option<Psn>,
    /// Those that belong to the same request as the one before: PSNs of the other end's requests that
    /// are no packets.
    continued: u64,
    /// Frames of its first NAKs. The other fields stay `None`.
    first_frames: FirstFrames,
    /// Its highest acknowledged PSN, and the first packet that acknowledged it.
    acknowledged: Option<(Psn, Seen)>,
    /// Frame of the last packet that acknowledged that PSN.
    confirmed: u64,
}

impl Half {
    /// Notes that the other end acknowledged everything up to `psn` in the packet `seen`.
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
    /// Sets an end's first PSN and the path MTU in bytes, as announced in the CM exchange.
    pub(crate) fn begin(&mut self, end: End, first: Psn, path_mtu: Option<u32>) {
        self.halves[end].requests.begin(first, path_mtu);
    }

    /// Sets the number of RDMA READs that an end may have outstanding.
    pub(crate) fn limit_reads(&mut self, end: End, resources: u8) {
        self.halves[end].reads.limit(resources);
    }

    /// Sets the path MTU in bytes, as named by a REQ.
    pub(crate) fn agree_on_path_mtu(&mut self, path_mtu: Option<u32>) {
        self.halves.iter_mut().for_each(|half| half.requests.agree_on_path_mtu(path_mtu));
    }

    /// Path MTU in bytes of an end's requests, if known.
    pub(crate) fn path_mtu(&self, end: End) -> Option<u32> {
        self.halves[end].requests.path_mtu()
    }

    /// Records the first sighting of each request, to be reported with its repetitions and
    /// refusals.
    pub(crate) fn watch(&mut self) {
        self.halves.iter_mut().for_each(|half| half.requests.watch());
    }

    /// Sets whether faults of responses are reported from now on.
    #[inline]
    pub(crate) fn judge(&mut self, judged: bool) {
        self.judged = judged;
    }

    /// Drops the recorded sightings of requests, because the connection is closed.
    pub(crate) fn forget_recent_requests(&mut self) {
        self.halves.iter_mut().for_each(|half| half.requests.forget_recent_requests());
    }

    /// Finds the fault of a single packet.
    #[inline]
    pub(crate) fn inspect(
        &self,
        from: End,
        bth: &Bth,
        packet: &Packet<'_>,
        partition_key: Option<u16>,
    ) -> Option<Fault> {
        // Responses use the path MTU of the requests that they answer.
        let sender = if packet.operation.is_response() { from.other() } else { from };
        fault::of_packet(bth, packet, &Agreed { path_mtu: self.path_mtu(sender), partition_key })
    }

    /// Whether a response of the other end fits the latest packets of this end.
    ///
    /// `is_new` means that the other end had sent nothing before this end's first PSN was
    /// announced. Then the response fits if it answers one of the first requests from that PSN on,
    /// seen or not.
    pub(crate) fn fits(&self, end: End, response: &Packet<'_>, is_new: bool) -> bool {
        /// The distance from a response to the next PSN.
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

    /// Whether a packet continues the packets of an end: a request that follows its latest one, or a
    /// response that follows its latest acknowledgement. `is_young`: or precedes these a little.
    pub(crate) fn continues(&self, end: End, packet: &Packet<'_>, is_young: bool) -> bool {
        /// More than are lost at once, and few among all PSNs.
        const AHEAD: i32 = 4096;
        const BEFORE: i32 = 512;
        let latest = if !packet.operation.is_response() {
            self.halves[end].requests.latest()
        } else if let Some((psn, _)) = self.halves[end.other()].acknowledged {
            Some(psn)
        } else {
            return self.fits(end.other(), packet, true);
        };
        let before = if is_young { BEFORE } else { 0 };
        latest.is_some_and(|latest| (-before..AHEAD).contains(&latest.distance(packet.psn)))
    }

    /// Whether everything that an end sent up to and including a position has been delivered.
    #[inline]
    pub(crate) fn is_settled(&self, end: End, position: Position) -> bool {
        self.halves[end].requests.is_settled(Psn::new(position.number()))
    }

    /// Whether no request of an end was seen or announced.
    #[inline]
    pub(crate) fn is_unseen(&self, end: End) -> bool {
        self.halves[end].requests.is_unseen()
    }

    /// Whether the first request seen of an end has the PSN `first`, or follows it closely.
    pub(crate) fn begins_at(&self, end: End, first: Psn) -> bool {
        self.halves[end].requests.begin_at(first)
    }

    /// Whether requests of an end are held because of a gap.
    #[inline]
    pub(crate) fn waits(&self, end: End) -> bool {
        self.halves[end].requests.waits()
    }

    /// How often an end's next PSN was unknown.
    pub(crate) fn unsure(&self, end: End) -> u32 {
        self.halves[end].requests.unsure
    }

    /// Position of an end's last acknowledged packet, and the first packet that acknowledged it.
    #[inline]
    pub(crate) fn acknowledged(&self, end: End) -> Option<(Position, Seen)> {
        self.halves[end].acknowledged.map(|(psn, seen)| (psn.into(), seen))
    }

    /// Whether requests of an end are not acknowledged, or a message of it has not ended.
    #[inline]
    pub(crate) fn is_in_flight(&self, end: End) -> bool {
        self.halves[end].requests.is_midway()
            || self.missing_at_the_end(end).is_none_or(|missing| missing < 0)
    }

    /// Number of an end's requests that were repeated or reordered.
    #[inline]
    pub(crate) fn disturbed(&self, end: End) -> u64 {
        let requests = &self.halves[end].requests;
        requests.repeated + requests.reordered
    }

    /// Number of an end's acknowledged packets after the last one in the capture. It is 0 or less
    /// if the capture has all of them.
    #[inline]
    pub(crate) fn missing_at_the_end(&self, end: End) -> Option<i32> {
        let Half { requests, acknowledged, .. } = &self.halves[end];
        let ((acknowledged, _), expected) = ((*acknowledged)?, requests.expected()?);
        Some(expected.distance(acknowledged) + 1)
    }

    /// Frame up to which the capture has everything that an end sent.
    pub(crate) fn complete(&self, end: End) -> Option<u64> {
        (self.missing_at_the_end(end) == Some(0)).then_some(self.halves[end].confirmed)
    }

    /// Returns `counts` with the counters of an end's transport filled in.
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
            missing_packets: counts.missing_packets.saturating_sub(self.halves[end.other()].continued),
            ..counts
        }
    }

    /// Returns `first_frames` with the frames of an end's transport filled in.
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

    /// Moves the half-flow of end `from` of another connection to `end`.
    pub(crate) fn take(&mut self, end: End, other: &mut ReliableConnection, from: End) {
        self.halves[end] = core::mem::take(&mut other.halves[from]);
    }

    /// Bytes of memory used by held packets and outstanding READs.
    #[inline]
    pub(crate) fn buffered(&self) -> usize {
        let of = |half: &Half| half.requests.buffered() + half.reads.buffered() + half.early.footprint();
        self.halves.iter().map(of).sum()
    }

    /// Bytes of heap memory that a clone needs.
    pub(crate) fn footprint(&self) -> usize {
        let of = |half: &Half| half.requests.footprint() + half.reads.buffered() + half.early.footprint();
        self.halves.iter().map(of).sum()
    }

    /// Processes a packet of end `from`.
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
        let (sender, requester) = from.split(&mut self.halves);
        let Half { counts, first_frames, .. } = &mut *sender;
        let Packet { seen, operation, psn, .. } = *packet;
        let position = psn.into();
        if self.judged && requester.requests.cannot_have_sent(psn) {
            deliver(from, faulty(packet, Fault::Unsent));
        }
        let received = match packet.response() {
            Response::Acknowledged => {
                counts.acknowledgements += u64::from(operation == Operation::Acknowledge);
                psn
            }
            // A NAK acknowledges everything before its PSN.
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
            let request = requester.requests.find_request(psn);
            deliver(from, Delivery::Refused { seen, position, refusal, request, operation: None });
        }
        if operation.is_read_response() {
            counts.read_response_bytes += u64::from(packet.payload_length);
            if !operation.ends_message() {
                requester.requests.note_path_mtu(packet.payload_length);
            }
            if !take_read_response(from, packet, requester, self.judged, deliver) {
                if requester.requests.may_yet_show(psn) {
                    sender.early.keep(HeldPacket::new(packet));
                } else {
                    note_unmatched(from, packet, (sender, requester), self.judged, deliver);
                }
            }
        }
        requester.note_acknowledged(received, seen);
        let Half { requests, reads, .. } = requester;
        requests.acknowledge(received, seen.time, &mut |delivery| {
            hand_up(from.other(), delivery, reads, deliver);
        });
    }

    /// Delivers the held READ responses whose requests have arrived or that have waited long
    /// enough.
    ///
    /// If `now` is `None`, no more packets follow and all responses are released. The request of an
    /// overdue response may be held because of a gap; that gap is skipped first.
    #[cold]
    fn settle_early(&mut self, now: Option<Seen>, deliver: &mut Deliver<'_>) {
        for from in End::BOTH {
            while let Some(held) = self.take_early(from, now, deliver) {
                let (sender, requester) = from.split(&mut self.halves);
                let packet = held.packet();
                if !take_read_response(from, &packet, requester, self.judged, deliver) {
                    note_unmatched(from, &packet, (sender, requester), self.judged, deliver);
                }
            }
        }
    }

    /// Removes a READ response of end `from` that need not wait any longer.
    fn take_early(&mut self, from: End, now: Option<Seen>, deliver: &mut Deliver<'_>) -> Option<HeldPacket> {
        loop {
            let (sender, requester) = from.split(&mut self.halves);
            let Half { requests, reads, .. } = requester;
            let is_ready = |held: &HeldPacket| reads.expects(held.psn) || !requests.may_yet_show(held.psn);
            let ready = sender.early.iter().position(is_ready);
            if let Some(ready) = ready {
                return sender.early.take(ready);
            }
            let is_due = sender.early.is_full() || now.is_none_or(|now| sender.early.is_overdue(now));
            if !is_due {
                return None;
            }
            if !self.skip_acknowledged_gaps(from.other(), deliver) {
                return self.halves[from].early.take_first();
            }
        }
    }

    /// Gives up gaps and held READ responses that have expired by `now`.
    pub(crate) fn handle_time(&mut self, now: Time, deliver: &mut Deliver<'_>) {
        for end in End::BOTH {
            let Half { requests, reads, .. } = &mut self.halves[end];
            requests.handle_time(now, &mut |delivery| hand_up(end, delivery, reads, deliver));
        }
        // Without a frame number, only the time counts.
        self.settle_early(Some(Seen { frame: 0, time: now }), deliver);
    }

    /// The next time at which [`ReliableConnection::handle_time`] must be called.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let of = |half: &Half| half.requests.deadline().into_iter().chain(half.early.deadline()).min();
        self.halves.iter().filter_map(of).min()
    }

    /// Whether packets of an end are held after a gap whose packets the receiver acknowledged.
    pub(crate) fn has_acknowledged_gap(&self, end: End) -> bool {
        self.halves[end].requests.has_acknowledged_gap()
    }

    /// Skips a gap whose packets the receiver acknowledged, without waiting for reordering.
    ///
    /// Returns whether there was such a gap.
    pub(crate) fn skip_acknowledged_gaps(&mut self, end: End, deliver: &mut Deliver<'_>) -> bool {
        let Half { requests, reads, .. } = &mut self.halves[end];
        requests.skip_acknowledged_gap(&mut |delivery| hand_up(end, delivery, reads, deliver))
    }

    /// The PSN of the last held Send of an end whose first packet satisfies `is_it`.
    pub(crate) fn find_held_send(&self, end: End, is_it: impl Fn(&[u8]) -> bool) -> Option<Psn> {
        self.halves[end].requests.find_held_send(is_it)
    }

    /// Skips the gaps of an end before a held packet that the other end is known to have
    /// received.
    ///
    /// Packets are received in order (IBTA volume 1, section 9.7.5), so the packets of the gaps
    /// were received too.
    pub(crate) fn skip_gaps_before(&mut self, end: End, psn: Psn, deliver: &mut Deliver<'_>) {
        let Half { requests, reads, .. } = &mut self.halves[end];
        requests.skip_gaps_before(psn, &mut |delivery| hand_up(end, delivery, reads, deliver));
    }

    /// Releases everything that is held for both ends and frees its memory.
    pub(crate) fn release_buffered(&mut self, deliver: &mut Deliver<'_>) {
        for end in End::BOTH {
            let Half { requests, reads, .. } = &mut self.halves[end];
            requests.release_buffered(&mut |delivery| hand_up(end, delivery, reads, deliver));
        }
        self.settle_early(None, deliver);
        self.halves.iter_mut().for_each(|half| half.reads = Reads::default());
    }

    /// Ends both half-flows: delivers held packets and open messages, with their gaps.
    pub(crate) fn finish(&mut self, deliver: &mut Deliver<'_>) {
        for end in End::BOTH {
            let Half { requests, reads, .. } = &mut self.halves[end];
            requests.finish(&mut |delivery| hand_up(end, delivery, reads, deliver));
        }
        self.settle_early(None, deliver);
    }
}

/// Delivers a READ response of end `from`. Returns false if its request is unknown.
#[inline]
fn take_read_response(
    from: End,
    packet: &Packet<'_>,
    requester: &mut Half,
    judged: bool,
    deliver: &mut Deliver<'_>,
) -> bool {
    let Half { requests, reads, .. } = requester;
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

/// Counts a READ response that answers no known request.
#[cold]
fn note_unmatched(
    from: End,
    packet: &Packet<'_>,
    (sender, requester): (&mut Half, &Half),
    judged: bool,
    deliver: &mut Deliver<'_>,
) {
    sender.counts.unmatched_responses += 1;
    let before = sender.unmatched.replace(packet.psn);
    if !packet.operation.begins_message() && before == Some(packet.psn.minus(1)) {
        sender.continued += 1;
    }
    if judged && requester.requests.shows(packet.psn) {
        deliver(from, faulty(packet, Fault::Unasked));
    }
}

fn faulty(packet: &Packet<'_>, fault: Fault) -> Delivery<'static> {
    Delivery::Faulty { seen: packet.seen, piece: packet.piece(), position: packet.psn.into(), fault }
}

/// Delivers the request of an end; an RDMA READ is noted in `reads`.
#[inline]
fn hand_up(from: End, delivery: Delivery<'_>, reads: &mut Reads, deliver: &mut Deliver<'_>) {
    if let Delivery::ReadRequest(request) = &delivery {
        reads.add(request);
    }
    deliver(from, delivery);
}

/// The reason for the refusal that a response carries, if it does.
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
