//! Open transactions.

use super::transcript::Transcript;
use super::{CallIdentity, Peers};
use crate::connection::ConnectionId;
use crate::exchange::Keep;
use crate::interval::Intervals;
use crate::rdma::{End, Placement, Position, Send};
use crate::record::{REORDERING, Seen, Time};
use crate::roomy::room;
use crate::transaction::{
    Direction, Message, Missing, OpenTransaction, Outcome, Part, Placed, ReadChunk, Timing, Transaction,
};
use crate::ulb::{Details, Entry, Operation, StateFact};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;
use rdmascope_wire::rpcrdma::{Procedure, Segment};
use rdmascope_wire::{Rkey, Xid};

/// The most bytes gathered of one Long Call or Long Reply for parsing.
const LONGEST: u64 = 2 << 20;
/// The most bytes gathered for all open transactions.
pub(super) const BUDGET: usize = 16 << 20;

/// An open transaction. It is reused for later ones, so that its lists need no new memory.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) is_open: bool,
    pub(super) generation: u32,
    /// Index of the connection in the engine.
    pub(super) session: u32,
    /// The end that called.
    pub(super) caller: End,
    /// [`super::Transactions::clock_steps`] when it was opened.
    pub(super) clock_steps: u64,
    /// Number of packets that the capture lacked when it was opened. Later gaps may concern it.
    pub(super) missing_before: u64,
    /// The call was held, and packets were found missing meanwhile. They may concern it too.
    pub(super) was_held_in_gap: bool,
    /// [`Peers::unseen`] when it started.
    pub(super) unseen_before: u64,
    /// Whether the called end sent packets after the call that the capture lacks at its end.
    pub(super) is_answer_hidden: bool,
    pub(super) transaction: Transaction,
    /// [`Peers::waited`] at the call.
    pub(super) waited_before: u64,
    /// The same at its last step: the call, its ACK, or an RDMA operation.
    pub(super) waited: u64,
    /// The frame of its first RDMA operation.
    pub(super) moved_in: Option<u64>,
    /// The last position of the called end that the caller acknowledged before it sent the call.
    pub(super) received_before: Option<Position>,
    /// Identity of the call. Known only if all observations are enabled.
    pub(super) identity: CallIdentity,
    /// Optional contents, if requested.
    pub(super) transcript: Option<Box<Transcript>>,
    /// Some segments of the call begin at the same address.
    pub(super) has_twins: bool,
    /// The segments that the call and the reply advertised.
    pub(super) segments: Vec<Placed>,
    /// Payload stream of a Long Call.
    pub(super) call_stream: Vec<u8>,
    /// Payload stream of a Long Reply.
    pub(super) reply_stream: Vec<u8>,
    /// Position, length and index of each Read chunk of the call, in the order of Positions.
    /// Position zero is left out.
    pub(super) read_lengths: Vec<(u32, u64, u16)>,
    /// Length of each Write chunk of the reply.
    pub(super) write_lengths: Vec<u64>,
    /// Bytes of memory used by its lists, as last counted.
    pub(super) weight: usize,
    /// The part of them used by ranges moved out of order, and by optional contents.
    pub(super) scattered: usize,
    /// The call has been parsed.
    pub(super) call_read: bool,
    /// The reply has been parsed.
    pub(super) reply_read: bool,
}

/// The use of bytes that moved.
pub(super) enum Moved {
    /// Data that is not parsed. Only its length counts.
    Bulk,
    /// A part of a message to be parsed, whose stream grew by this number of bytes.
    Message(usize),
}

/// The reason why bytes were not placed.
pub(super) enum Refusal {
    /// An RDMA Read of memory to be written, or an RDMA Write to memory to be read.
    OtherWay,
    /// Too many bytes are gathered already.
    Budget(Part),
}

impl Default for Open {
    fn default() -> Open {
        Open {
            is_open: false,
            generation: 0,
            session: 0,
            caller: End::First,
            clock_steps: 0,
            missing_before: 0,
            was_held_in_gap: false,
            unseen_before: 0,
            is_answer_hidden: false,
            transaction: Transaction {
                number: 0,
                begun: 0,
                connection: ConnectionId(0),
                route: None,
                direction: Direction::Forward,
                xid: Xid(0),
                procedure: None,
                security: None,
                user: None,
                gss: None,
                outcome: Outcome::CutOff,
                capture_gap: false,
                memory_unseen: false,
                lossy: false,
                call: None,
                reply: None,
                rpc_status: None,
                error: None,
                status: None,
                details: Details::default(),
                stop: None,
                timing: Timing::default(),
                unanswered_until: None,
                clock_stepped: false,
                done: None,
                exchange: None,
            },
            waited_before: 0,
            waited: 0,
            moved_in: None,
            received_before: None,
            identity: CallIdentity::default(),
            transcript: None,
            has_twins: false,
            segments: Vec::new(),
            call_stream: Vec::new(),
            reply_stream: Vec::new(),
            read_lengths: Vec::new(),
            write_lengths: Vec::new(),
            weight: 0,
            scattered: 0,
            call_read: false,
            reply_read: false,
        }
    }
}

impl Open {
    /// Starts a transaction in a new or [released](Open::release) slot.
    pub(super) fn begin(&mut self, xid: Xid, caller: End, begun: u64, keep: Keep, peers: &Peers) {
        self.is_open = true;
        self.generation = self.generation.wrapping_add(1);
        self.session = peers.session;
        self.caller = caller;
        self.missing_before = peers.missing_packets;
        self.was_held_in_gap = false;
        self.unseen_before = peers.unseen;
        self.is_answer_hidden = false;
        self.scattered = 0;
        self.moved_in = None;
        self.received_before = None;
        self.has_twins = false;
        self.identity = CallIdentity::default();
        self.transcript = Transcript::new(keep);
        self.call_read = false;
        self.reply_read = false;
        let transaction = &mut self.transaction;
        transaction.begun = begun;
        transaction.xid = xid;
        transaction.procedure = None;
        transaction.security = None;
        transaction.user = None;
        transaction.gss = None;
        transaction.rpc_status = None;
        transaction.error = None;
        transaction.status = None;
        transaction.stop = None;
        transaction.timing = Timing::default();
        transaction.done = None;
    }

    /// Whether segment `index` is in memory of end `owner` and contains this address.
    #[inline]
    pub(super) fn holds(&self, index: usize, owner: End, rkey: Rkey, address: u64) -> bool {
        self.segments.get(index).is_some_and(|placed| {
            (placed.of_reply == (owner != self.caller))
                && placed.segment.handle == rkey
                && address.wrapping_sub(placed.segment.offset) < u64::from(placed.segment.length)
        })
    }

    /// Whether RDMA READs asked for bytes of its memory that have not moved. A responder need not read
    /// all of it (RFC 8166, section 8.1.4).
    #[inline]
    pub(super) fn is_being_read(&self) -> bool {
        let timing = &self.transaction.timing;
        timing.requested_bytes > timing.read_bytes
    }

    /// The segment that an RDMA Read of a byte in segment `index` concerns: of those that begin at the
    /// same address, the first whose set `of` lacks the byte. A call may name the same memory in
    /// several Read segments.
    #[inline]
    pub(super) fn read_target(&self, index: u32, address: u64, of: impl Fn(&Placed) -> &Intervals) -> u32 {
        if self.has_twins { self.find_twin(index, address, of).unwrap_or(index) } else { index }
    }

    #[cold]
    fn find_twin(&self, index: u32, address: u64, of: impl Fn(&Placed) -> &Intervals) -> Option<u32> {
        let known = self.segments.get(index as usize)?;
        let at = address.wrapping_sub(known.segment.offset);
        let lacks = |placed: &Placed| {
            let Segment { handle, offset, length } = placed.segment;
            matches!(placed.part, Part::ReadChunk(_))
                && placed.of_reply == known.of_reply
                && (handle, offset) == (known.segment.handle, known.segment.offset)
                && at < u64::from(length)
                && of(placed).within(at, at + 1).next().is_none()
        };
        self.segments.iter().position(lacks).map(|found| found as u32)
    }

    /// Number of bytes from `address`, which is in segment `index`, to the end of the segment.
    #[inline]
    pub(super) fn inside(&self, index: usize, address: u64) -> u32 {
        self.segments.get(index).map_or(0, |placed| {
            let before = address.wrapping_sub(placed.segment.offset);
            u64::from(placed.segment.length).saturating_sub(before) as u32
        })
    }

    /// Whether segment `index` is to be read or, if `reading` is false, to be written.
    pub(super) fn is_for(&self, index: usize, reading: bool) -> bool {
        self.segments.get(index).is_some_and(|placed| reading == matches!(placed.part, Part::ReadChunk(_)))
    }

    /// Notes the frame of the first RDMA operation. A TCP segment with it also acknowledges the call,
    /// which shows nothing about the arrival of the call.
    #[cold]
    fn begin_moving(&mut self, frame: u64) {
        self.moved_in = Some(frame);
        let acknowledged = &mut self.transaction.timing.acknowledged;
        if acknowledged.is_some_and(|seen| seen.frame == frame) {
            *acknowledged = None;
            self.waited = self.waited_before;
        }
    }

    /// Notes an RDMA READ request for `bytes` of segment `index` from `address` on. They are within
    /// the segment.
    pub(super) fn note_read(&mut self, index: usize, (seen, waited): (Seen, u64), address: u64, bytes: u32) {
        if self.moved_in.is_none() {
            self.begin_moving(seen.frame);
        }
        let Some(placed) = self.segments.get_mut(index) else { return };
        let time = seen.time;
        let before = core::mem::replace(&mut self.waited, waited);
        if self.transaction.timing.reads.is_none() && self.transaction.reply.is_none() {
            self.transaction.timing.note_busy(waited.saturating_sub(before));
        }
        let timing = &mut self.transaction.timing;
        timing.reads = Some(timing.reads.map_or((time, time), |(first, last)| (first, last.max(time))));
        let start = address.wrapping_sub(placed.segment.offset);
        let list = placed.requested.memory();
        let new = placed.requested.insert(start, start + u64::from(bytes));
        self.scattered += placed.requested.memory() - list;
        // If the list of ranges is full, all bytes count as requested.
        timing.requested_bytes += if placed.requested.is_full() { bytes.into() } else { new };
    }

    /// Notes that bytes moved, and gathers those to be parsed. `waited` is [`Peers::waited`]. The
    /// streams grow by at most `budget` bytes.
    #[inline]
    pub(super) fn place(
        &mut self,
        index: usize,
        placement: &Placement<'_>,
        reading: bool,
        waited: u64,
        budget: usize,
    ) -> Result<Moved, Refusal> {
        let Some(placed) = self.segments.get_mut(index) else { return Err(Refusal::OtherWay) };
        if reading != matches!(placed.part, Part::ReadChunk(_)) {
            return Err(Refusal::OtherWay);
        }
        if self.moved_in.is_none() {
            self.begin_moving(placement.seen.frame);
        }
        let Some(placed) = self.segments.get_mut(index) else { return Err(Refusal::OtherWay) };
        let start = placement.address.wrapping_sub(placed.segment.offset);
        let end = start.saturating_add(u64::from(placement.length)).min(u64::from(placed.segment.length));
        let list = placed.moved.memory();
        let new = placed.moved.insert(start, end);
        self.scattered += placed.moved.memory() - list;
        let timing = &mut self.transaction.timing;
        let time = placement.seen.time;
        let before = core::mem::replace(&mut self.waited, waited);
        let is_first = if reading { timing.reads.is_none() } else { timing.writes.is_none() };
        if is_first && self.transaction.reply.is_none() {
            timing.note_busy(waited.saturating_sub(before));
        }
        let (span, bytes) = if reading {
            (&mut timing.reads, &mut timing.read_bytes)
        } else {
            (&mut timing.writes, &mut timing.written_bytes)
        };
        *span = Some(span.map_or((time, time), |(first, last)| (first, last.max(time))));
        *bytes += new;
        if !placed.is_stream {
            return Ok(Moved::Bulk);
        }
        if new == 0 {
            return Ok(Moved::Message(0));
        }

        let stream = if placed.part == Part::ReplyChunk || placed.of_reply {
            &mut self.reply_stream
        } else {
            &mut self.call_stream
        };
        let captured = (placement.bytes.len() as u64).min(end - start);
        let (from, to) = (placed.base + start, placed.base + start + captured);
        if to > LONGEST {
            return Err(Refusal::Budget(placed.part));
        }
        let grow = (to as usize).saturating_sub(stream.len());
        if grow > budget {
            return Err(Refusal::Budget(placed.part));
        }
        if grow > 0 {
            stream.resize(to as usize, 0);
        }
        stream[from as usize..to as usize].copy_from_slice(&placement.bytes[..captured as usize]);
        let list = placed.captured.memory();
        placed.captured.insert(start, start + captured);
        self.scattered += placed.captured.memory() - list;
        Ok(Moved::Message(grow))
    }

    /// The segments that a message advertised: the index of each, its owner, and the packet that
    /// completed the message.
    pub(super) fn advertised(&self) -> impl Iterator<Item = (u32, End, Seen, &Segment)> {
        let Transaction { call, reply, .. } = &self.transaction;
        self.segments.iter().zip(0..).filter_map(move |(placed, index)| {
            let (owner, message) =
                if placed.of_reply { (self.caller.other(), reply) } else { (self.caller, call) };
            Some((index, owner, message.as_ref()?.seen, &placed.segment))
        })
    }

    /// Adds the segments of a chunk to the memory that may be accessed.
    pub(super) fn advertise(&mut self, part: Part, of_reply: bool, segments: &[Segment], is_stream: bool) {
        let mut base = 0;
        for segment in segments {
            let (requested, moved, captured) = Default::default();
            self.segments.push(Placed {
                part,
                of_reply,
                segment: *segment,
                base,
                is_stream,
                requested,
                moved,
                captured,
            });
            base += u64::from(segment.length);
        }
    }

    /// Closes the gaps in the stream of a chunk, because segments may be used in part (RFC 8166,
    /// section 3.4.6).
    ///
    /// `used` is the used length of each segment, in order. Returns the number of bytes before the
    /// first missing one.
    pub(super) fn gather(&mut self, part: Part, of_reply: bool, used: impl Iterator<Item = u32>) -> usize {
        let is_reply = part == Part::ReplyChunk || of_reply;
        let stream = if is_reply { &mut self.reply_stream } else { &mut self.call_stream };
        let mut end = 0;
        for (placed, used) in chunk(&self.segments, part, of_reply).zip(used) {
            let available = placed.captured.front().min(u64::from(used)) as usize;
            let base = placed.base as usize;
            if base != end && available > 0 {
                stream.copy_within(base..base + available, end);
            }
            end += available;
            if available < used as usize {
                break;
            }
        }
        end
    }

    /// Whether the caller acknowledged this Send before it sent the call, so it is not the reply.
    /// Positions cannot be compared after a long time.
    pub(super) fn is_called_after_send(&self, send: &Send<'_>) -> bool {
        let is_near = |call: &Message| send.seen.time.since(call.seen.time) <= REORDERING.0;
        self.received_before.is_some_and(|received| send.last().is_covered_by(received))
            && self.transaction.call.as_ref().is_some_and(is_near)
    }

    /// Whether its call follows this packet.
    pub(super) fn is_called_after(&self, packet: Seen) -> bool {
        self.transaction.call.as_ref().is_some_and(|call| call.seen.frame > packet.frame)
    }

    /// Whether the capture lacks packets that may concern it.
    pub(super) fn lacks_packets(&self, peers: &Peers) -> bool {
        peers.missing_packets > self.missing_before || self.was_held_in_gap
    }

    /// Whether the called end sent something that the capture lacks, maybe the reply.
    pub(super) fn may_have_reply(&self, peers: &Peers) -> bool {
        self.lacks_packets(peers) || peers.unseen > self.unseen_before || self.is_answer_hidden
    }

    /// The state of the transaction so far.
    pub(super) fn so_far(&self, peers: &Peers) -> Option<OpenTransaction<'_>> {
        let Transaction { begun, xid, procedure, call, reply, details, timing, .. } = &self.transaction;
        Some(OpenTransaction {
            begun: *begun,
            connection: peers.connection(),
            direction: peers.direction(self.caller),
            xid: *xid,
            since: call.as_ref().or(reply.as_ref())?.seen,
            procedure: *procedure,
            call: call.as_ref(),
            reply: reply.as_ref(),
            details,
            timing: *timing,
            segments: &self.segments,
        })
    }

    /// Sets the fields that are known only at the end. `gap`: packets are missing. `may_have_reply`:
    /// the reply may be missing. `no_memory`: the capture has no RDMA operations. `until` is the time
    /// up to which the capture shows the answers of the other end.
    pub(super) fn conclude(
        &mut self,
        outcome: Outcome,
        (gap, may_have_reply, no_memory): (bool, bool, bool),
        until: Option<Time>,
    ) {
        self.read_long_call();
        self.read_long_reply();
        self.list_missing(outcome);
        let transaction = &mut self.transaction;
        transaction.outcome = outcome;
        let lacks_reply = matches!(outcome, Outcome::NoReply | Outcome::NoCall | Outcome::CutOff);
        let lacks_bytes = transaction.messages().any(|message| !message.missing.is_empty());
        transaction.memory_unseen = no_memory;
        transaction.capture_gap = may_have_reply && lacks_reply || (gap || no_memory) && lacks_bytes;
        transaction.unanswered_until =
            until.filter(|_| transaction.reply.is_none() && !may_have_reply && !transaction.clock_stepped);
    }

    /// Lists the bytes of chunks that should have moved and did not.
    fn list_missing(&mut self, outcome: Outcome) {
        if self.segments.is_empty() {
            return;
        }
        let Transaction { call, reply, .. } = &mut self.transaction;
        let has_call = call.is_some();
        if let Some(call) = call {
            for (index, read) in call.read_chunks.iter().enumerate() {
                let part = Part::ReadChunk(saturate(index));
                // Without a reply, the responder may have stopped reading. Only gaps before the
                // last byte read are certain.
                let reached = chunk(&self.segments, part, false).map(|placed| match outcome {
                    Outcome::Completed => placed.segment.length,
                    _ => placed.moved.end() as u32,
                });
                debug_assert_eq!(chunk(&self.segments, part, false).count(), read.segments.len());
                missing_of(&self.segments, part, false, reached, &mut call.missing);
            }
        }
        // Without a call, only segments claimed by a reply exist.
        let Some(reply) = reply else { return };
        for (index, write) in reply.write_chunks.iter().enumerate() {
            let part = Part::WriteChunk(saturate(index));
            let lengths = write.segments.iter().map(|segment| segment.length);
            missing_of(&self.segments, part, false, lengths, &mut reply.missing);
        }
        if let (Procedure::Nomsg, Some(written)) = (reply.procedure, &reply.reply_chunk) {
            let lengths = written.segments.iter().map(|segment| segment.length);
            missing_of(&self.segments, Part::ReplyChunk, false, lengths, &mut reply.missing);
        }
        for (index, read) in reply.read_chunks.iter().enumerate().filter(|_| has_call) {
            let part = Part::ReadChunk(saturate(index));
            let lengths = read.segments.iter().map(|segment| segment.length);
            missing_of(&self.segments, part, true, lengths, &mut reply.missing);
        }
    }

    /// Bytes of memory used by its lists. Based on their lengths, which a clone has too.
    pub(super) fn weigh(&self) -> usize {
        let Transaction { call, reply, details, .. } = &self.transaction;
        let segments = |chunk: &[Segment]| room(chunk.len()) * size_of::<Segment>();
        let chunks = [call, reply].into_iter().flatten().map(|message| {
            let reads = message.read_chunks.iter().map(|chunk| segments(&chunk.segments));
            let writes = message.write_chunks.iter().map(|chunk| segments(&chunk.segments));
            (room(message.read_chunks.len()) + room(message.write_chunks.len())) * size_of::<ReadChunk>()
                + reads.chain(writes).sum::<usize>()
        });
        chunks.sum::<usize>()
            + room(self.segments.len()) * size_of::<Placed>()
            + room(self.read_lengths.len()) * size_of::<(u32, u64, u16)>()
            + room(self.write_lengths.len()) * size_of::<u64>()
            + room(details.operations.len()) * size_of::<Operation>()
            + room(details.entries.len()) * size_of::<Entry>()
            + room(details.states.len()) * size_of::<StateFact>()
            + room(details.arena.len())
    }

    /// Empties the streams and returns the number of their bytes.
    ///
    /// Some memory is kept for the next transaction, but none if `many` slots keep some.
    pub(super) fn release(&mut self, many: bool) -> usize {
        let bytes = self.call_stream.len() + self.reply_stream.len();
        let most = |kept: usize| if many { 0 } else { kept };
        for stream in [&mut self.call_stream, &mut self.reply_stream] {
            stream.clear();
            stream.shrink_to(most(64 << 10));
        }
        self.segments.clear();
        self.segments.shrink_to(most(64));
        self.read_lengths.clear();
        self.read_lengths.shrink_to(most(64));
        self.write_lengths.clear();
        self.write_lengths.shrink_to(most(64));
        self.transaction.call = None;
        self.transaction.reply = None;
        self.transaction.exchange = None;
        let details = &mut self.transaction.details;
        details.clear();
        details.operations.shrink_to(most(64));
        details.entries.shrink_to(most(64));
        details.states.shrink_to(most(64));
        details.arena.shrink_to(most(4 << 10));
        bytes
    }
}

/// The segments of one chunk, in order. Calls and replies advertise theirs chunk by chunk.
pub(super) fn chunk(segments: &[Placed], part: Part, of_reply: bool) -> impl Iterator<Item = &Placed> {
    segments[chunk_range(segments, part, of_reply)].iter()
}

/// The index range of the segments of one chunk.
pub(super) fn chunk_range(segments: &[Placed], part: Part, of_reply: bool) -> Range<usize> {
    let key = |placed: &Placed| (placed.of_reply, placed.part);
    let start = segments.partition_point(|placed| key(placed) < (of_reply, part));
    let end = segments.partition_point(|placed| key(placed) <= (of_reply, part));
    start..end
}

/// Converts an index for [`Part`]. A message with more chunks lists the rest under the last one.
pub(super) fn saturate(index: usize) -> u16 {
    u16::try_from(index).unwrap_or(u16::MAX)
}

/// The most ranges listed for one message.
const MOST_MISSING: usize = 1024;

fn missing_of(
    segments: &[Placed],
    part: Part,
    of_reply: bool,
    lengths: impl Iterator<Item = u32>,
    missing: &mut Vec<Missing>,
) {
    let mut base = 0;
    for (placed, used) in chunk(segments, part, of_reply).zip(lengths) {
        for (start, end) in placed.moved.holes(u64::from(used)) {
            let (start, end) = (base + start, base + end);
            if let Some(last) = missing.last_mut().filter(|last| last.part == part && last.end == Some(start))
            {
                last.end = Some(end);
            } else if missing.len() < MOST_MISSING {
                missing.push(Missing { part, start, end: Some(end) });
            }
        }
        base += u64::from(used);
    }
}

#[cfg(test)]
mod tests;
