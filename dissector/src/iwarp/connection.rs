//! An iWARP connection: consumes the segments of both ends and emits deliveries.

use super::framed::{Framed, Gathered};
use super::framing::{CrcUse, CrcVerdict, Framing, Unit};
use super::messages::{Message, Messages};
use super::start::{Judged, Started};
use super::stream::{Arrival, Next, Stream, Until};
use super::{Contents, INDICATION, Run, SEGMENT, failure, piece};
use crate::connection::{Counts, FirstFrames};
use crate::frame::Segment;
use crate::rdma::{
    Deliver, Delivery, End, Fault, MemoryRange, Part, Placement, Position, ReadRequest, Refusal, Repetition,
};
use crate::record::{Seen, Time};
use crate::waiting::{Held, Waiting};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use rdmascope_wire::Rkey;
use rdmascope_wire::mpa::{ReadDepths, StartFrame};
use rdmascope_wire::rdmap::Opcode;

/// Transport state of a connection: its two streams.
#[derive(Clone, Debug, Default)]
pub(crate) struct IwarpConnection {
    halves: [Half; 2],
    /// An end has reset the connection.
    reset: bool,
    /// The units of both streams, if they are reported.
    gathered: Option<Gathered>,
}

/// The stream that one end sends, and the acknowledgements of it.
#[derive(Clone, Debug, Default)]
struct Half {
    stream: Stream,
    framing: Framing,
    messages: Messages,
    /// RDMA Reads that this end requested and whose responses have not ended, oldest first.
    reads: VecDeque<OutstandingRead>,
    /// The last of them when bytes that may answer them were missing.
    doubtful: Option<Position>,
    /// Read Responses of this end whose request has not been seen yet: the capture may show them
    /// before it.
    early: Waiting<HeldResponse>,
    started: Option<Started>,
    judged: Judged,
    /// Number of RDMA Reads that this end serves at once (IRD: RFC 6581, section 9.1); `None` if
    /// unknown or once exceeded.
    limit: Option<u32>,
    /// Counters of messages. The others stay 0.
    counts: Counts,
    /// Frames of its first messages. The other fields stay `None`.
    first_frames: FirstFrames,
    /// Its last acknowledged byte, and the first packet that acknowledged it.
    acknowledged: Option<(Position, Seen)>,
    /// Frame of the last packet that acknowledged that byte.
    confirmed: u64,
    /// It has sent a FIN.
    finished: bool,
    /// Its last acknowledged byte is a FIN, which the capture did not show before.
    fin_acknowledged: bool,
}

/// The next input from the stream of an end.
#[derive(Clone, Copy, Debug)]
enum Input<'a> {
    /// Bytes.
    Run(Run<'a>),
    /// Bytes that the capture lacks, from this sequence number on.
    Missing { from: u32, bytes: u32 },
    /// The end of the stream.
    End,
}

/// An outstanding RDMA Read.
#[derive(Clone, Copy, Debug)]
struct OutstandingRead {
    seen: Seen,
    position: Position,
    sink: Rkey,
    sink_offset: u64,
    memory: MemoryRange,
    /// Number of pieces of its response so far.
    pieces: u32,
}

impl OutstandingRead {
    /// The offset of a piece of a response in the sink, if it answers this request.
    fn offset(&self, response: &Placement<'_>) -> Option<u64> {
        let ahead = response.address.wrapping_sub(self.sink_offset);
        // If only the CRC is in the last TCP segment, the piece has no data and follows the last byte.
        let is_after_data = response.length == 0 && response.position != response.first;
        let byte = ahead.wrapping_sub(is_after_data.into());
        let is_inside = byte < u64::from(self.memory.length).max(1);
        (self.sink == response.memory.rkey && is_inside).then_some(ahead)
    }
}

/// A piece of a Read Response that is held until its request arrives, with its own copy of the
/// bytes.
#[derive(Clone, Debug)]
struct HeldResponse {
    placement: Placement<'static>,
    ends: bool,
    bytes: Vec<u8>,
}

impl Held for HeldResponse {
    fn seen(&self) -> Option<Seen> {
        Some(self.placement.seen)
    }

    fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

impl IwarpConnection {
    /// Most RDMA Reads remembered. An ORD is at most 2^14 - 1 (RFC 6581, section 9).
    const MOST_READS: usize = 1 << 14;

    /// Creates a connection without packets.
    ///
    /// `verify` reports wrong CRCs, and `gathers` collects units for
    /// [`IwarpConnection::take_framed`].
    pub(crate) fn new(verify: bool, gathers: bool) -> IwarpConnection {
        let gathered = gathers.then(Gathered::default);
        let mut connection = IwarpConnection { gathered, ..IwarpConnection::default() };
        connection.halves.iter_mut().for_each(|half| half.framing.overlooks_crc = !verify);
        connection
    }

    /// Processes a segment of end `from`.
    pub(crate) fn handle(&mut self, from: End, seen: Seen, segment: &Segment<'_>, deliver: &mut Deliver<'_>) {
        if let Some(number) = segment.acknowledgement {
            self.halves[from].counts.acknowledgements += u64::from(segment.payload_length == 0);
            self.halves[from.other()].note_acknowledged(number, seen);
        }
        let run = Run::of(seen, segment);
        self.judge_first(from, &run, segment.acknowledgement, deliver);
        match self.halves[from].stream.take(run) {
            Arrival::Next(run) => self.process(from, Input::Run(run), deliver),
            Arrival::Repeated => deliver(
                from,
                Delivery::Repeated(Repetition {
                    seen,
                    first: None,
                    piece: SEGMENT,
                    position: Position::of_sequence(run.sequence),
                    bytes: run.length,
                    read_length: 0,
                }),
            ),
            Arrival::Held | Arrival::Nothing => {}
        }
        self.halves[from].finished |= segment.fin;
        self.reset |= segment.rst && self.halves[from].is_in_window(segment.sequence);
        self.settle(Until::Packet(seen), deliver);
    }

    /// Processes the held segments and responses that need not wait any longer.
    fn settle(&mut self, until: Until, deliver: &mut Deliver<'_>) {
        for from in End::BOTH {
            self.settle_end(from, until, deliver);
        }
        self.settle_early(until, deliver);
    }

    fn settle_end(&mut self, from: End, until: Until, deliver: &mut Deliver<'_>) {
        while self.halves[from].stream.waits() {
            let expected = self.halves[from].stream.expected().unwrap_or_default();
            match self.halves[from].stream.next(until) {
                Some(Next::Segment(held, seen_before)) => {
                    let run = held.run().skip(seen_before);
                    if run.length > 0 {
                        self.process(from, Input::Run(run), deliver);
                    }
                }
                Some(Next::Missing(bytes)) => {
                    let packets = self.halves[from].stream.packets(bytes);
                    let last = Some(Position::of_sequence(expected.wrapping_add(bytes).wrapping_sub(1)));
                    deliver(from, Delivery::Missing { packets, last });
                    let requester = &mut self.halves[from.other()];
                    requester.doubtful = requester.reads.back().map(|read| read.position);
                    self.process(from, Input::Missing { from: expected, bytes }, deliver);
                }
                None => return,
            }
        }
    }

    /// Processes the next input of an end's stream.
    fn process(&mut self, from: End, input: Input<'_>, deliver: &mut Deliver<'_>) {
        let IwarpConnection { halves, gathered, .. } = self;
        let (sender, requester) = from.split(halves);
        let Half { framing, messages, started, reads, limit, counts, first_frames, early, .. } = sender;
        let mut has_started = false;
        let mut responses = Responses { from, reads, limit, counts, first_frames, early, requester };
        if let (Input::End, Some(gathered), Some((_, Some(of)))) =
            (input, &mut *gathered, framing.unfinished())
        {
            gathered.begin(from, &of);
        }
        let mut found = |unit: Unit<'_>| {
            if let Some(gathered) = gathered {
                gathered.take(from, &unit);
            }
            match unit {
                Unit::Start(seen, frame, data, end) => {
                    has_started = true;
                    messages.begin_numbers();
                    *started = Some(Started { seen, frame, data: data.to_vec(), end });
                }
                Unit::Piece(piece) => {
                    messages.take(&piece, &mut |message| responses.take(message, deliver));
                }
                Unit::Indication(seen, sequence, _, end) => {
                    if end.crc == CrcVerdict::Bad {
                        let (position, fault) = (Position::of_sequence(sequence), Fault::Crc);
                        deliver(from, Delivery::Faulty { seen, piece: INDICATION, position, fault });
                        deliver(from, Delivery::Damaged { seen });
                    }
                }
                Unit::Lost => messages.lose(&mut |message| responses.take(message, deliver)),
                Unit::Cut => {
                    messages.lose(&mut |message| responses.take(message, deliver));
                    deliver(from, Delivery::Missing { packets: 1, last: None });
                }
                Unit::Malformed(seen, sequence, _) => {
                    messages.lose(&mut |message| responses.take(message, deliver));
                    let (position, fault) = (Position::of_sequence(sequence), Fault::Segment);
                    deliver(from, Delivery::Faulty { seen, piece: SEGMENT, position, fault });
                }
            }
        };
        match input {
            Input::Run(run) => framing.take(run, &mut found),
            Input::Missing { from, bytes } => framing.skip(from, bytes, &mut found),
            Input::End => found(Unit::Lost),
        }
        if has_started {
            self.agree();
            let started = self.halves[from].started.as_ref();
            if let Some((started, fault)) = started.and_then(|it| Some((it, it.fault()?))) {
                deliver(from, started.faulty(fault));
            }
        }
        for end in End::BOTH {
            let (half, other) = end.split(&mut self.halves);
            if !half.judged.is_over()
                && let (Some(own), Some(other)) = (&half.started, &other.started)
                && let Some(faulty) = half.judged.find(own, other, half.framing.shown)
            {
                deliver(end, faulty);
            }
        }
    }

    /// Checks whether the first FPDU of an end is too early.
    fn judge_first(
        &mut self,
        from: End,
        run: &Run<'_>,
        acknowledged: Option<u32>,
        deliver: &mut Deliver<'_>,
    ) {
        let (half, other) = from.split(&mut self.halves);
        if run.length > 0
            && let (Some(own), Some(other)) = (&half.started, &other.started)
            && half.judged.is_early(own, other, run.sequence, acknowledged)
        {
            let (seen, position) = (run.seen, Position::of_sequence(run.sequence));
            deliver(from, Delivery::Faulty { seen, piece: SEGMENT, position, fault: Fault::Early });
        }
    }

    /// Applies the use of CRCs and markers from the start frames (RFC 5044, section 7.1.1).
    fn agree(&mut self) {
        let frames = [0, 1].map(|end: usize| self.halves[end].started.as_ref().map(|it| it.frame));
        let wanted = frames.iter().flatten().any(|frame| frame.crc);
        if wanted || frames.iter().all(Option::is_some) {
            let crc = if wanted { CrcUse::On } else { CrcUse::Off };
            self.halves.iter_mut().for_each(|half| half.framing.crc = crc);
        }
        for end in End::BOTH {
            let (half, other) = end.split(&mut self.halves);
            half.agree_on_indication(other.started.as_ref());
            // Each end requests markers for the direction that it receives.
            let wants = self.halves[end.other()].started.as_ref().map(|it| it.frame.markers);
            let Half { framing, started, limit, .. } = &mut self.halves[end];
            match (wants, &started) {
                (Some(false), _) => framing.insert_markers(None),
                (Some(true), Some(started)) => framing.insert_markers(Some(started.end)),
                _ => {}
            }
            let depths = started.as_ref().and_then(Started::depths);
            let is_agreed = |inbound: &u16| *inbound != ReadDepths::NOT_NEGOTIATED;
            *limit = depths.map(|depths| depths.inbound).filter(is_agreed).map(u32::from);
        }
    }

    /// Delivers held Read Responses whose requests have arrived, and counts those that waited too
    /// long.
    fn settle_early(&mut self, until: Until, deliver: &mut Deliver<'_>) {
        for from in End::BOTH {
            loop {
                let (sender, requester) = from.split(&mut self.halves);
                if sender.early.is_empty() {
                    break;
                }
                let is_answer = |held: &HeldResponse| requester.find_read(&held.placement).is_some();
                let ready = sender.early.iter().position(is_answer);
                let is_over = || match until {
                    Until::End | Until::Received => true,
                    Until::Packet(now) => sender.early.is_overdue(now),
                    Until::Time(now) => sender.early.deadline().is_some_and(|deadline| deadline <= now),
                };
                let held = match ready {
                    Some(index) => sender.early.take(index),
                    None if sender.early.is_full() || is_over() => sender.early.take_first(),
                    None => None,
                };
                let Some(held) = held else { break };
                let placement = Placement { bytes: &held.bytes, ..held.placement };
                let Half { reads, limit, counts, first_frames, early, .. } = sender;
                let mut responses = Responses { from, reads, limit, counts, first_frames, early, requester };
                responses.place(placement, held.ends, false, deliver);
            }
        }
    }

    /// Returns the framing state at a segment of an end that has not been processed yet.
    pub(crate) fn contents(&self, end: End, seen: Seen, segment: &Segment<'_>) -> Contents {
        let Half { stream, framing, .. } = &self.halves[end];
        Contents::new(framing, stream.expected(), &Run::of(seen, segment))
    }

    /// Whether a segment with a start frame belongs to a new connection.
    ///
    /// It does unless it repeats the known start frame. Without a known one, only a Request that is
    /// not the first segment of its end starts a new connection.
    pub(crate) fn begins_new_connection(&self, end: End, segment: &Segment<'_>) -> bool {
        let Half { started, stream, .. } = &self.halves[end];
        match started {
            Some(started) => started.begins() != segment.sequence,
            None => {
                let is_request = segment.payload.starts_with(&StartFrame::REQUEST);
                is_request && stream.expected().is_some_and(|expected| expected != segment.sequence)
            }
        }
    }

    /// Whether a SYN of an end is the one that opened this connection: its start frame follows.
    pub(crate) fn was_opened_by(&self, end: End, syn: &Segment<'_>) -> bool {
        let started = self.halves[end].started.as_ref();
        started.is_some_and(|started| started.begins() == syn.sequence.wrapping_add(1))
    }

    /// Whether an acknowledgement number covers further bytes of an end without a captured segment.
    pub(crate) fn acknowledges_unseen(&self, end: End, number: u32) -> bool {
        let Half { stream, acknowledged, .. } = &self.halves[end];
        let last = Position::of_sequence(number.wrapping_sub(1));
        stream.expected().is_none() && acknowledged.is_some_and(|(before, _)| before.distance(last) > 0)
    }

    /// Whether a segment of an end begins where its stream ends, or a little later.
    pub(crate) fn continues(&self, end: End, segment: &Segment<'_>) -> bool {
        const AHEAD: u32 = 1 << 20;
        let expected = self.halves[end].stream.expected();
        expected.is_some_and(|expected| segment.sequence.wrapping_sub(expected) < AHEAD)
    }

    /// Removes and returns the units collected from the streams so far.
    pub(crate) fn take_framed(&mut self) -> Vec<(End, Framed)> {
        self.gathered.as_mut().map(Gathered::take_pieces).unwrap_or_default()
    }

    /// The start frame of an end.
    pub(crate) fn started(&self, end: End) -> Option<&Started> {
        self.halves[end].started.as_ref()
    }

    /// Whether FPDUs have CRCs, if known.
    pub(crate) fn has_crc(&self) -> Option<bool> {
        self.halves.iter().find_map(|half| match half.framing.crc {
            CrcUse::On => Some(true),
            CrcUse::Off => Some(false),
            CrcUse::Unknown => None,
        })
    }

    /// Whether an end has sent a FIN, or the connection was reset.
    pub(crate) fn has_ended(&self, end: End) -> bool {
        self.reset || self.halves[end].finished
    }

    /// Whether a FIN of an end was acknowledged, but not captured so far.
    pub(crate) fn lacks_fin(&self, end: End) -> bool {
        self.halves[end].fin_acknowledged && !self.has_ended(end)
    }

    /// Whether both ends have sent a FIN, or the connection was reset.
    ///
    /// If the capture has no segment of an end, the FIN of the other end is enough.
    pub(crate) fn is_finished(&self) -> bool {
        let is_over = |half: &Half| half.finished || half.stream.expected().is_none();
        self.reset || (self.halves.iter().any(|half| half.finished) && self.halves.iter().all(is_over))
    }

    /// Gives up gaps and held responses that have expired by `now`.
    pub(crate) fn handle_time(&mut self, now: Time, deliver: &mut Deliver<'_>) {
        self.settle(Until::Time(now), deliver);
    }

    /// The next time at which [`IwarpConnection::handle_time`] must be called.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let of = |half: &Half| half.stream.deadline().into_iter().chain(half.early.deadline()).min();
        self.halves.iter().filter_map(of).min()
    }

    /// Whether segments of an end are held after a gap whose bytes the other end acknowledged.
    pub(crate) fn has_acknowledged_gap(&self, end: End) -> bool {
        self.halves[end].stream.has_acknowledged_gap()
    }

    /// Skips the gaps of an end whose bytes were acknowledged. Returns whether there was one.
    pub(crate) fn skip_acknowledged_gaps(&mut self, end: End, deliver: &mut Deliver<'_>) -> bool {
        let before = self.halves[end].stream.expected();
        self.settle_end(end, Until::Received, deliver);
        self.halves[end].stream.expected() != before
    }

    /// Delivers everything that is held, because no more segments follow or no room is left.
    pub(crate) fn finish(&mut self, deliver: &mut Deliver<'_>) {
        self.settle(Until::End, deliver);
        for from in End::BOTH {
            self.process(from, Input::End, deliver);
        }
    }

    /// Releases everything that is held, because all connections together hold too much.
    pub(crate) fn release_buffered(&mut self, deliver: &mut Deliver<'_>) {
        self.settle(Until::End, deliver);
        self.halves.iter_mut().for_each(|half| half.messages.forget());
    }

    /// Bytes of memory used by held data.
    pub(crate) fn buffered(&self) -> usize {
        let of = |half: &Half| {
            half.stream.footprint()
                + half.framing.footprint()
                + half.messages.buffered()
                + half.early.footprint()
                + half.reads.len() * size_of::<OutstandingRead>()
        };
        self.halves.iter().map(of).sum()
    }

    /// Bytes of memory that a clone needs, including itself.
    pub(crate) fn footprint(&self) -> usize {
        let started = |half: &Half| half.started.as_ref().map_or(0, |started| started.data.len());
        size_of::<IwarpConnection>() + self.buffered() + self.halves.iter().map(started).sum::<usize>()
    }

    /// Whether everything that an end sent up to and including a position has been delivered.
    pub(crate) fn is_settled(&self, end: End, position: Position) -> bool {
        let Half { stream, framing, messages, .. } = &self.halves[end];
        let waiting = messages.open().or(framing.begun()).or(stream.expected());
        waiting.is_none_or(|waiting| Position::of_sequence(waiting).distance(position) < 0)
    }

    /// Whether segments of an end are held because of a gap, or an untagged message is incomplete.
    pub(crate) fn waits(&self, end: End) -> bool {
        let Half { stream, messages, .. } = &self.halves[end];
        stream.waits() || messages.open().is_some()
    }

    /// How often the start of an end's next FPDU was unknown.
    pub(crate) fn unsure(&self, end: End) -> u32 {
        self.halves[end].framing.inferred
    }

    /// Position of an end's last acknowledged byte, and the first packet that acknowledged it.
    pub(crate) fn acknowledged(&self, end: End) -> Option<(Position, Seen)> {
        self.halves[end].acknowledged
    }

    /// Whether bytes of an end are not acknowledged, a message of it has not ended, or an RDMA Read
    /// that it requested is not answered.
    pub(crate) fn is_in_flight(&self, end: End) -> bool {
        let Half { stream, messages, reads, doubtful, .. } = &self.halves[end];
        messages.is_midway()
            || stream.waits()
            || self.missing_at_the_end(end).is_none_or(|missing| missing < 0)
            || reads.back().is_some_and(|read| *doubtful != Some(read.position))
    }

    /// Number of an end's segments that were repeated or reordered.
    pub(crate) fn disturbed(&self, end: End) -> u64 {
        let stream = &self.halves[end].stream;
        stream.repeated + stream.reordered
    }

    /// Number of an end's acknowledged packets after the last one in the capture. It is 0 or less
    /// if the capture has all of them.
    pub(crate) fn missing_at_the_end(&self, end: End) -> Option<i32> {
        let Half { stream, acknowledged, finished, fin_acknowledged, .. } = &self.halves[end];
        let ((acknowledged, _), expected) = ((*acknowledged)?, stream.expected()?);
        let bytes = Position::of_sequence(expected).distance(acknowledged).saturating_add(1);
        // A FIN has a sequence number of its own.
        Some(match bytes - i32::from((*finished || *fin_acknowledged) && bytes == 1) {
            bytes @ 1.. => stream.packets(bytes.unsigned_abs()).min(i32::MAX as u32) as i32,
            bytes => bytes,
        })
    }

    /// Frame up to which the capture has everything that an end sent.
    pub(crate) fn complete(&self, end: End) -> Option<u64> {
        (self.missing_at_the_end(end) == Some(0)).then_some(self.halves[end].confirmed)
    }

    /// Returns `counts` with the counters of an end's transport filled in.
    pub(crate) fn count(&self, end: End, counts: Counts) -> Counts {
        let Half { stream, counts: of_messages, .. } = &self.halves[end];
        Counts {
            repeated_packets: stream.repeated,
            reordered_packets: stream.reordered,
            acknowledgements: of_messages.acknowledgements,
            fatal_naks: of_messages.fatal_naks,
            read_response_bytes: of_messages.read_response_bytes,
            unmatched_responses: of_messages.unmatched_responses,
            ..counts
        }
    }

    /// Returns `first_frames` with the frames of an end's transport filled in.
    pub(crate) fn first_frames(&self, end: End, first_frames: FirstFrames) -> FirstFrames {
        let Half { stream, first_frames: of_messages, .. } = &self.halves[end];
        FirstFrames {
            fatal_nak: of_messages.fatal_nak,
            repeated_packet: stream.first_repeated,
            reordered_packet: stream.first_reordered,
            ..first_frames
        }
    }
}

impl Half {
    /// Notes whether this end may begin with a ready-to-receive indication, as far as its own start
    /// frame and that of the other end show it.
    fn agree_on_indication(&mut self, other: Option<&Started>) {
        let own = self.started.as_ref();
        let is_open = own.is_none_or(|own| own.may_agree_on_send(true))
            && other.is_none_or(|other| other.may_agree_on_send(false));
        if own.is_some() && other.is_some() || !is_open {
            self.framing.know_indication();
        }
        if own.zip(other).is_some_and(|(own, other)| own.agrees_on_send(other)) {
            self.framing.expect_indication();
        }
    }

    /// Whether the other end takes a RST with this sequence number: it has not received the byte so far
    /// (RFC 9293, section 3.10.7.4).
    fn is_in_window(&self, number: u32) -> bool {
        let number = Position::of_sequence(number);
        self.acknowledged.is_none_or(|(last, _)| last.distance(number) > 0)
    }

    /// Notes that the other end acknowledged everything before a sequence number in the packet
    /// `seen`.
    fn note_acknowledged(&mut self, number: u32, seen: Seen) {
        let last = Position::of_sequence(number.wrapping_sub(1));
        let ahead = self.acknowledged.map_or(1, |(before, _)| before.distance(last));
        if ahead >= 0 {
            self.note_fin(number, ahead);
            self.confirmed = seen.frame;
        }
        if ahead > 0 {
            self.acknowledged = Some((last, seen));
        }
        let has_fin = ahead >= 0 && self.fin_acknowledged;
        self.stream.acknowledge(number.wrapping_sub(has_fin.into()), seen);
    }

    /// Notes whether the last of the `ahead` bytes that are acknowledged before this number is a FIN.
    /// FPDUs have a multiple of four bytes, so one more byte is a FIN (RFC 9293, section 3.4).
    fn note_fin(&mut self, number: u32, ahead: i32) {
        match self.stream.expected() {
            Some(expected) => self.fin_acknowledged = number == expected.wrapping_add(1),
            None if ahead > 0 => self.fin_acknowledged = ahead % 4 == 1 && self.acknowledged.is_some(),
            None => {}
        }
    }

    /// Finds the RDMA Read request that this response answers: its index, and the offset in its
    /// memory.
    fn find_read(&self, response: &Placement<'_>) -> Option<(usize, u64)> {
        self.reads.iter().enumerate().find_map(|(index, read)| Some((index, read.offset(response)?)))
    }
}

/// The state that the messages of an end change.
struct Responses<'h> {
    from: End,
    reads: &'h mut VecDeque<OutstandingRead>,
    limit: &'h mut Option<u32>,
    counts: &'h mut Counts,
    first_frames: &'h mut FirstFrames,
    early: &'h mut Waiting<HeldResponse>,
    requester: &'h mut Half,
}

impl Responses<'_> {
    fn take(&mut self, message: Message<'_>, deliver: &mut Deliver<'_>) {
        match message {
            Message::Delivery(delivery) => deliver(self.from, delivery),
            Message::ReadRequest(seen, position, extent, request) => {
                let rdmascope_wire::rdmap::ReadRequest { size, source_stag, source_offset, .. } = request;
                let memory = MemoryRange { rkey: source_stag, address: source_offset, length: size };
                if self.reads.len() >= IwarpConnection::MOST_READS {
                    self.reads.pop_front();
                }
                let (sink, sink_offset) = (request.sink_stag, request.sink_offset);
                self.reads.push_back(OutstandingRead {
                    seen,
                    position,
                    sink,
                    sink_offset,
                    memory,
                    pieces: 0,
                });
                let extent = Some(extent);
                let request = ReadRequest { seen, position, extent, memory, repeated: false, is_new: true };
                deliver(self.from, Delivery::ReadRequest(request));
            }
            Message::ReadResponse(placement, ends) => {
                self.counts.read_response_bytes += u64::from(placement.length);
                self.place(placement, ends, true, deliver);
            }
            Message::Terminate(seen, terminate, operation) => {
                self.counts.fatal_naks += 1;
                self.first_frames.fatal_nak.get_or_insert(seen.frame);
                let refusal = Refusal::Failed(failure(terminate));
                // It has no position in the stream. Everything acknowledged was sent before it.
                let position = self.requester.acknowledged.map(|(position, _)| position);
                let position = position.unwrap_or(Position::of_sequence(0));
                deliver(self.from, Delivery::Refused { seen, position, refusal, request: None, operation });
            }
        }
    }

    /// Detects more outstanding READs than this end serves at once, when it starts to answer the
    /// first.
    ///
    /// It reports once.
    fn excess(&mut self, now: Seen) -> Option<Fault> {
        let allowed = (*self.limit)?;
        let reads = &self.requester.reads;
        if reads.len() <= allowed as usize {
            return None;
        }
        let fault = Fault::of_reads(reads.iter().map(|read| read.seen), allowed, now)?;
        *self.limit = None;
        Some(fault)
    }

    fn fault(&self, of: &Placement<'_>, part: Part, fault: Fault, deliver: &mut Deliver<'_>) {
        let Placement { seen, position, .. } = *of;
        deliver(
            self.from,
            Delivery::Faulty { seen, piece: piece(Opcode::ReadResponse, part), position, fault },
        );
    }

    /// Delivers a piece of a Read Response as a placement in the memory that was read. It is held
    /// if its request may still arrive.
    fn place(&mut self, placement: Placement<'_>, ends: bool, may_wait: bool, deliver: &mut Deliver<'_>) {
        let Some((index, offset)) = self.requester.find_read(&placement) else {
            if may_wait {
                let bytes = placement.bytes.to_vec();
                return self.early.keep(HeldResponse { placement: placement.without_bytes(), ends, bytes });
            }
            let is_first = placement.position == placement.first;
            self.counts.unmatched_responses += u64::from(is_first);
            if is_first {
                self.fault(&placement, Part::First, Fault::Unasked, deliver);
            }
            if placement.length > 0 {
                deliver(self.from, Delivery::Unplaced { bytes: placement.length });
            }
            return;
        };
        // Responses come in the order of their requests (RFC 5040, section 5.5), so earlier
        // requests have been answered.
        self.requester.reads.drain(..index);
        if placement.position == placement.first
            && let Some(fault) = self.excess(placement.seen)
        {
            self.fault(&placement, Part::First, fault, deliver);
        }
        let read = &mut self.requester.reads[0];
        let index = read.pieces;
        read.pieces += 1;
        let read = *read;
        let left = u64::from(read.memory.length).saturating_sub(offset);
        // Bytes that the capture lacks may have answered the request.
        let doubtful = self.requester.doubtful;
        let is_doubtful = doubtful.is_some_and(|last| read.position.distance(last) >= 0);
        let is_wrong = u64::from(placement.length) > left || ends && u64::from(placement.length) < left;
        if is_wrong && !is_doubtful {
            let fault = Fault::Response { left: left as u32, index, length: placement.length };
            self.fault(&placement, Part::Last, fault, deliver);
        }
        if placement.length > 0 {
            deliver(
                self.from,
                Delivery::ReadResponse(Placement {
                    request: Some(read.position),
                    memory: read.memory,
                    address: read.memory.address.wrapping_add(offset),
                    ..placement
                }),
            );
        }
        if ends {
            self.requester.reads.pop_front();
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
