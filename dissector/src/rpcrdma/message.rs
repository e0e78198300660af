//! Calls and replies: the start and the end of a transaction.

use super::open::{Open, saturate};
use super::{CallIdentity, Peers, Slot, Transactions};
use crate::event::Report;
use crate::exchange::StepKind;
use crate::observation::{Observe, Observed, Offered};
use crate::rdma::{End, Send};
use crate::transaction::{Chunk, Message, Missing, Outcome, Part, ReadChunk};
use alloc::vec;
use alloc::vec::Vec;
use rdmascope_wire::rpcrdma::{Header, Procedure, Segment, VERSION};
use rdmascope_wire::xdr::round_up;

impl Transactions {
    pub(super) fn handle_call(
        &mut self,
        send: &Send<'_>,
        header: &Header<'_>,
        payload: Option<&[u8]>,
        from: End,
        peers: &mut Peers,
        report: &mut Report<'_>,
    ) -> Slot {
        if let Some(earlier) = peers.sides[from].calls.get(&header.xid).copied() {
            // Without its reply, the caller sends a call again with the same XID.
            self.end(earlier, (Outcome::NoReply, Some(send.seen.time)), peers, report);
        }
        let slot = self.begin(header.xid, from, peers);
        let open = &mut self.slots[slot.index as usize];
        if send.missing.is_some() {
            // The packets missing from this Send are counted already, but concern this transaction.
            open.missing_before = 0;
        }
        open.was_held_in_gap = send.seen.time < peers.missing_since;
        open.waited_before = peers.waited(from.other(), send.seen.time);
        open.waited = open.waited_before;
        open.received_before = peers.received_before(from, send);
        let mut message = Message::new(send, header);
        let reduced = message.read_chunks.iter().enumerate().filter(|(_, chunk)| chunk.position != 0);
        let lengths =
            reduced.map(|(index, chunk)| (chunk.position, Segment::total(&chunk.segments), saturate(index)));
        open.read_lengths.extend(lengths);
        open.read_lengths.sort_unstable();
        let moved = open.read_lengths.iter().map(|(_, length, _)| round_up(*length)).sum();
        message.message_length = message_length(&message, None, header, send, moved);

        for (index, chunk) in message.read_chunks.iter().enumerate() {
            let part = Part::ReadChunk(saturate(index));
            open.advertise(part, false, &chunk.segments, chunk.position == 0);
        }
        for (index, chunk) in message.write_chunks.iter().enumerate() {
            open.advertise(Part::WriteChunk(saturate(index)), false, &chunk.segments, false);
        }
        if let Some(chunk) = &message.reply_chunk {
            open.advertise(Part::ReplyChunk, false, &chunk.segments, true);
        }
        if !open.segments.is_empty() {
            if self.observe == Observe::All {
                self.observe_shared(slot, from, peers, report);
            }
            let open = &mut self.slots[slot.index as usize];
            open.has_twins = peers.advertise(from, send, (slot, 0), &open.segments);
        }

        let open = &mut self.slots[slot.index as usize];
        open.transaction.call = Some(message);
        if let Some(payload) = payload {
            open.read_call(payload, is_complete(send));
            infer_requester(open, from, peers);
            if self.observe == Observe::All {
                open.identity = CallIdentity::of_payload(open.transaction.procedure, payload, header, send);
            }
        } else if self.observe == Observe::All {
            open.identity = CallIdentity::of(header, send);
        }
        let backchannel = open.transaction.details.backchannel;
        peers.sides[from].calls.insert(header.xid, slot);
        if self.observe != Observe::Nothing
            && backchannel.is_some_and(|backchannel| backchannel.offered == Some(true))
        {
            peers.observe(Observed::Offered(Offered { from, seen: send.seen }), report);
        }
        self.keep_send(slot, StepKind::Call, send, report);
        self.reweigh(slot);
        slot
    }

    pub(super) fn handle_reply(
        &mut self,
        send: &Send<'_>,
        header: &Header<'_>,
        payload: Option<&[u8]>,
        from: End,
        peers: &mut Peers,
        report: &mut Report<'_>,
    ) {
        let caller = from.other();
        let is_earlier =
            |slot: &Slot| self.begins_after(*slot, send.seen) || self.is_received_before(send, *slot);
        let called = peers.sides[caller].call(header.xid).filter(|slot| !is_earlier(slot));
        if called.is_some() {
            peers.sides[caller].calls.remove(&header.xid);
        }
        let slot = called.unwrap_or_else(|| self.begin(header.xid, caller, peers));
        let open = &mut self.slots[slot.index as usize];
        if called.is_none() {
            // The call may be in any of the earlier gaps.
            open.missing_before = 0;
        }
        let mut message = Message::new(send, header);
        open.write_lengths.extend(message.write_chunks.iter().map(|chunk| Segment::total(&chunk.segments)));
        let moved = open.write_lengths.iter().map(|length| round_up(*length)).sum();
        let long_reply = message.reply_chunk.as_ref();
        message.message_length = message_length(&message, long_reply, header, send, moved);

        let claims = called.is_none() && !self.unclaimed.is_empty();
        if claims {
            self.claim(slot, &message, caller, peers, report);
        }
        let open = &mut self.slots[slot.index as usize];

        // Responder-provided: the requester must still read the reply and send RDMA_DONE
        // (reliable-reply draft, section 4.1). A requester may overlook a wrong Position.
        let provided = message.provided().filter(|_| header.procedure == Procedure::Nomsg);
        if let Some(index) = provided {
            self.provides_replies = true;
            let first = open.segments.len();
            open.advertise(
                Part::ReadChunk(saturate(index)),
                true,
                &message.read_chunks[index].segments,
                true,
            );
            peers.advertise(from, send, (slot, first), &open.segments);
        }

        open.transaction.error = header.error;
        open.transaction.reply = Some(message);
        // If the reply was held because of a gap, the acknowledgement of the call may be the reply
        // itself. It does not count then.
        let timing = &mut open.transaction.timing;
        timing.acknowledged = timing.acknowledged.filter(|seen| seen.frame < send.seen.frame);
        if let Some(call) = &open.transaction.call {
            peers.flights[from].note_latency(send.first.time.since(call.seen.time));
        }
        let timing = &mut open.transaction.timing;
        timing.round_trip = peers.flights[from].round_trip();
        timing.acknowledges_late = send.position.counts_bytes();
        let is_answered = timing.acknowledged.is_some() || timing.moved();
        let before = if is_answered { open.waited } else { open.waited_before };
        // The packets of the reply itself are no wait.
        let sending = send.seen.time.since(send.first.time);
        let waited = peers.waited(from, send.seen.time).saturating_sub(sending);
        timing.note_busy(waited.saturating_sub(before));
        if let Some(payload) = payload {
            open.read_long_call();
            open.read_reply(payload, is_complete(send));
        }

        self.keep_send(slot, StepKind::Reply, send, report);

        let outcome = match (called, header.procedure) {
            (Some(_), Procedure::Error) => Outcome::TransportError,
            (Some(_), _) => Outcome::Completed,
            (None, _) => Outcome::NoCall,
        };
        if provided.is_some() {
            self.reweigh(slot);
            if let Some(earlier) = peers.sides[caller].pulls.insert(header.xid, slot) {
                self.end(earlier, (Outcome::Completed, None), peers, report);
            }
        } else {
            self.end(slot, (outcome, None), peers, report);
        }
    }
}

impl Message {
    /// The index of the Read chunk that holds the Payload stream of a reply: that at Position zero,
    /// or else the first, if no Reply chunk holds the stream.
    pub(super) fn provided(&self) -> Option<usize> {
        let zero = self.read_chunks.iter().position(|chunk| chunk.position == 0);
        let is_misplaced = !self.read_chunks.is_empty() && self.reply_chunk.is_none();
        zero.or_else(|| is_misplaced.then_some(0))
    }

    fn new(send: &Send<'_>, header: &Header<'_>) -> Message {
        let missing = send.missing.map(|(start, end)| Missing {
            part: Part::Send,
            start: u64::from(start),
            end: end.map(u64::from),
        });
        let (read_chunks, interleaved) = read_chunks(header);
        Message {
            seen: send.seen,
            first: send.first,
            version: header.version,
            procedure: header.procedure,
            credits: header.credits,
            header_length: header.length as u32,
            send_length: send.length.unwrap_or(send.bytes.len() as u32),
            message_length: None,
            rpc_xid: None,
            invalidated: send.invalidated,
            read_chunks,
            interleaved,
            write_chunks: header.writes.map(|chunk| Chunk { segments: chunk.segments().collect() }).collect(),
            reply_chunk: header.reply.map(|chunk| Chunk { segments: chunk.segments().collect() }),
            missing: missing.into_iter().collect(),
            stop: header.stop.map(|stop| if is_complete(send) { stop } else { stop.in_cut_capture() }),
            unread: None,
            unused: 0,
            auth_fault: None,
        }
    }
}

/// Groups the read segments by Position: those of one Position are one Read chunk (RFC 8166,
/// section 4.3.1). Also returns whether chunks are interleaved.
fn read_chunks(header: &Header<'_>) -> (Vec<ReadChunk>, bool) {
    let mut chunks: Vec<ReadChunk> = Vec::new();
    let mut interleaved = false;
    for read in header.reads {
        // Segments of one chunk are mostly adjacent. A list that interleaves more than 64 chunks is
        // not reassembled.
        let last = chunks.len().checked_sub(1);
        let mut known = chunks.iter_mut().enumerate().rev().take(64);
        match known.find(|(_, chunk)| chunk.position == read.position) {
            Some((index, chunk)) => {
                interleaved |= Some(index) != last;
                chunk.segments.push(read.target);
            }
            None => chunks.push(ReadChunk { position: read.position, segments: vec![read.target] }),
        }
    }
    (chunks, interleaved)
}

/// Length of the RPC message before reduction.
///
/// `long_reply` is the chunk of a Long Reply, and `moved` the length of the reduced items with
/// padding.
fn message_length(
    message: &Message,
    long_reply: Option<&Chunk>,
    header: &Header<'_>,
    send: &Send<'_>,
    moved: u64,
) -> Option<u64> {
    if header.stop.is_some() || header.version != VERSION {
        return None;
    }
    let stream = match header.procedure {
        Procedure::Msg | Procedure::Msgp => u64::from(send.length?).checked_sub(header.length as u64)?,
        Procedure::Nomsg => match message.read_chunks.iter().find(|chunk| chunk.position == 0) {
            Some(chunk) => Segment::total(&chunk.segments),
            None => Segment::total(&long_reply?.segments),
        },
        _ => return None,
    };
    Some(stream + moved)
}

/// Whether every byte of a Send was captured.
fn is_complete(send: &Send<'_>) -> bool {
    send.length == Some(send.bytes.len() as u32)
}

/// Infers the requester if the CM exchange was not captured: the caller of NFS, or the receiver of
/// a callback (RFC 8167, section 3.2). Callbacks of NFSv4.0 have a connection of their own (RFC 8267,
/// section 6.5.1).
pub(super) fn infer_requester(open: &Open, caller: End, peers: &mut Peers) {
    if peers.requester.is_none()
        && let Some(procedure) = open.transaction.procedure
    {
        let is_backward = procedure.is_callback() && open.transaction.details.minor_version != Some(0);
        peers.requester = Some(if is_backward { caller.other() } else { caller });
    }
}
