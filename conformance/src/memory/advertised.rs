//! Memory that transactions advertised, and the Sends and operations that matter for it.

use crate::bounded;
use crate::chunks;
use crate::known::{Known, Memory};
use crate::unmatched::kind_is_guess;
use alloc::collections::VecDeque;
use rdmascope_dissector::observation::{Faulty, Kind, Observed, Sent, Unmatched};
use rdmascope_dissector::rdma::{End, Fault, Operation, Position};
use rdmascope_dissector::record::REORDERING;
use rdmascope_dissector::transaction::{Direction, Message, Outcome, Seen, Transaction};
use rdmascope_wire::rpcrdma::{Procedure, Segment, VERSION};
use rdmascope_wire::{Rkey, Xid};

/// Advertised memory, and the Sends and operations that matter for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct AdvertisedMemory {
    pub(super) senders: [Sender; 2],
    /// Segments of transactions that ended, latest last.
    ended: VecDeque<Ended>,
    /// Transactions whose memory another one also advertised while they were open: the end that
    /// owns the memory, and their XIDs.
    shared: VecDeque<(End, [Xid; 2])>,
}

/// The Sends and operations of one end.
#[derive(Clone, Debug, Default)]
pub(super) struct Sender {
    /// The first packet of its first Send. Missing packets are noticed from there on.
    pub(super) first: Option<Seen>,
    last: Option<Last>,
    /// [`Known::losses`] at its last Send.
    lost: u64,
    /// The first Send after the packets that were last found missing.
    lost_before: Option<Seen>,
    /// Its last operation outside of advertised memory.
    pub(super) last_unmatched: Option<UnmatchedOperation>,
    /// The capture lacks a part of some header, and so any memory listed there.
    pub(super) blind: bool,
}

/// An operation outside of advertised memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnmatchedOperation {
    pub(super) seen: Seen,
    reading: bool,
    /// Bytes that it requested or wrote.
    length: u64,
}

/// The last Send of an end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Last {
    /// The packet that completed it.
    pub(crate) seen: Seen,
    /// Its last PSN.
    pub(super) psn: Position,
    /// The message itself shows its kind.
    is_explicit: bool,
    /// The handle that it invalidates.
    pub(crate) invalidated: Option<Rkey>,
}

/// A segment of a transaction that ended.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    /// The end that owns the memory.
    owner: End,
    segment: Segment,
    pub(super) direction: Direction,
    pub(super) xid: Xid,
    /// [`Transaction::number`].
    pub(super) number: u64,
    pub(super) by: Ender,
    /// The packet that completed the Send that ended it.
    pub(super) seen: Option<Seen>,
}

/// The message that ended a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ender {
    Reply,
    Done,
    /// The transaction ended in another way, so it is unknown whether the other end could still use
    /// the memory.
    Other,
}

impl AdvertisedMemory {
    /// Segments that are kept.
    const MOST: usize = 512;
    /// Segments for which room is reserved at first.
    const INITIAL_CAPACITY: usize = 16;
    /// Pairs of transactions with memory in common that are kept.
    const MOST_SHARED: usize = 64;

    /// The last Send of this end.
    pub(crate) fn last(&self, end: End) -> Option<Last> {
        self.senders[end].last
    }

    /// The latest advertised segment with this address, among transactions that ended.
    pub(super) fn former(&self, owner: End, rkey: Rkey, address: u64) -> Option<&Ended> {
        self.ended.iter().rev().find(|ended| {
            let Segment { handle, length, offset } = ended.segment;
            ended.owner == owner && handle == rkey && address.wrapping_sub(offset) < u64::from(length)
        })
    }

    /// Whether the transaction that ended with the Send in `frame` advertised this handle itself.
    pub(crate) fn ended_with(&self, frame: u64, rkey: Rkey) -> bool {
        let mut ended = self.ended.iter().rev();
        ended.any(|ended| ended.seen.is_some_and(|seen| seen.frame == frame) && ended.segment.handle == rkey)
    }

    /// Whether the call or the reply is in memory that another call offered at the same time. Then its
    /// bytes may be those of the other.
    #[inline]
    pub(crate) fn shares_message(&self, transaction: &Transaction, known: &Known) -> bool {
        let is_long = |message: &Message| message.procedure == Procedure::Nomsg;
        !self.shared.is_empty()
            && transaction.messages().any(is_long)
            && self.is_shared(known.caller(transaction.direction), transaction.xid)
    }

    pub(super) fn is_shared(&self, owner: End, xid: Xid) -> bool {
        self.shared.iter().any(|(end, xids)| *end == owner && xids.contains(&xid))
    }

    fn remember(&mut self, ended: Ended) {
        if self.ended.is_empty() {
            self.ended.reserve(AdvertisedMemory::INITIAL_CAPACITY);
        }
        bounded::push(&mut self.ended, AdvertisedMemory::MOST, ended);
    }

    /// Keeps the memory of a transaction that ended.
    fn remember_all(&mut self, transaction: &Transaction, known: &Known) {
        let Transaction { call, reply, direction, xid, number, .. } = transaction;
        let (caller, answerer) = (known.caller(*direction), known.answerer(*direction));
        let sent =
            |end: End, seen: &Seen| self.last(end).is_some_and(|last| last.seen == *seen && last.is_explicit);
        let replied = reply.as_ref().map(|reply| reply.seen).filter(|seen| sent(answerer, seen));
        let done = transaction.done.filter(|seen| sent(caller, seen));
        let (by, seen) = match (replied, done) {
            (_, Some(seen)) => (Ender::Done, Some(seen)),
            (Some(seen), None) if transaction.outcome != Outcome::NoCall => (Ender::Reply, Some(seen)),
            _ => (Ender::Other, None),
        };
        let of_call = call.iter().flat_map(chunks::segments).map(|(segment, _)| segment);
        let of_reply =
            reply.iter().flat_map(|reply| reply.read_chunks.iter().flat_map(|chunk| &chunk.segments));
        // The reply ended the use of the call's memory. RDMA_DONE ends only the use of the reply's
        // memory.
        let of_call_by = if by == Ender::Done { Ender::Other } else { by };
        let segments = of_call.map(|segment| (caller, segment, of_call_by));
        for (owner, segment, by) in segments.chain(of_reply.map(|segment| (answerer, segment, by))) {
            self.remember(Ended {
                owner,
                segment: *segment,
                direction: *direction,
                xid: *xid,
                number: *number,
                by,
                seen,
            });
        }
    }
}

impl Memory for AdvertisedMemory {
    fn footprint(&self) -> usize {
        self.ended.len() * size_of::<Ended>() + self.shared.len() * size_of::<(End, [Xid; 2])>()
    }

    fn sent(&mut self, sent: &Sent<'_>, known: &Known) {
        let lost = known.losses(sent.from);
        let sender = &mut self.senders[sent.from];
        sender.first.get_or_insert(sent.send.first);
        if sender.lost != lost {
            sender.lost = lost;
            sender.lost_before = Some(sent.send.seen);
        }
        sender.blind |= sent.header.is_none_or(|header| header.stop.is_some() || header.version != VERSION)
            || may_advertise(sent);
        sender.last = Some(Last {
            seen: sent.send.seen,
            psn: sent.send.last(),
            is_explicit: sent.is_explicit,
            invalidated: sent.send.invalidated,
        });
    }

    fn transaction(&mut self, transaction: &Transaction, known: &Known) {
        let (call, reply) = (&transaction.call, &transaction.reply);
        if call.as_ref().is_some_and(chunks::lists_chunks)
            || reply.as_ref().is_some_and(|reply| !reply.read_chunks.is_empty())
        {
            self.remember_all(transaction, known);
        }
    }

    fn observed(&mut self, observed: &Observed<'_>, _: &Known) {
        match observed {
            Observed::Unmatched(Unmatched { from, seen, reading, memory, .. }) => {
                let length = memory.length.into();
                let operation = UnmatchedOperation { seen: *seen, reading: *reading, length };
                self.senders[*from].last_unmatched = Some(operation);
            }
            // The bytes of the segment are not where they should be.
            Observed::Faulty(Faulty {
                from,
                seen,
                piece,
                fault: Fault::MessageOffset { .. } | Fault::Length { .. },
                ..
            }) if piece.operation == Operation::Write => {
                let operation = UnmatchedOperation { seen: *seen, reading: false, length: u64::MAX };
                self.senders[*from].last_unmatched = Some(operation);
            }
            Observed::Shared(shared) => {
                let owned = (shared.owner, shared.xids);
                bounded::push(&mut self.shared, AdvertisedMemory::MOST_SHARED, owned);
            }
            _ => {}
        }
    }

    /// Records that the engine evicted a call, so the memory that it advertised is unknown.
    fn evicted(&mut self, _: End) {
        self.senders.iter_mut().for_each(|sender| sender.blind = true);
    }

    fn joined(&mut self) {
        *self = Self::default();
    }
}

/// Whether a Send that counts as a reply may be a call, whose chunks advertise memory to be written.
fn may_advertise(sent: &Sent<'_>) -> bool {
    sent.kind == Kind::Reply
        && kind_is_guess(sent)
        && sent.header.is_some_and(|header| header.writes.chain(header.reply).any(|chunk| chunk.length() > 0))
}

impl AdvertisedMemory {
    /// Whether the capture may lack packets that this end sent between the call and the end of this
    /// transaction.
    pub(crate) fn may_lack(&self, known: &Known, end: End, transaction: &Transaction) -> bool {
        let Some(call) = &transaction.call else { return true };
        let sender = &self.senders[end];
        // Missing packets are noticed from the PSN announced by the CM messages on, or else from
        // the first Send on. That Send may be the reply, captured before its call.
        let is_followed = known.holds_start() && known.inline_threshold(end).is_some()
            || sender.first.is_some_and(|first| call.first.time.since(first.time) > REORDERING.0);
        transaction.capture_gap || !is_followed || self.may_lack_since(known, end, call.first)
    }

    /// Whether the misplaced `bytes` of a transaction are explained by the Responder's last
    /// operation before the reply, which was outside of the memory that the call advertised.
    /// That is one fault, and a finding of its own.
    pub(super) fn is_explained_by_unmatched(
        &self,
        known: &Known,
        transaction: &Transaction,
        reading: bool,
        bytes: u64,
    ) -> bool {
        let (Some(call), Some(reply)) = (&transaction.call, &transaction.reply) else { return false };
        let unmatched = self.senders[known.answerer(transaction.direction)].last_unmatched;
        unmatched.is_some_and(|unmatched| {
            // The capture may have the operation before the call.
            let is_too_early = call.first.time.since(unmatched.seen.time) > REORDERING.0;
            unmatched.reading == reading
                && unmatched.length >= bytes
                && unmatched.seen.frame < reply.seen.frame
                && !is_too_early
        })
    }

    /// Whether this end may have sent something after `seen` that the capture lacks.
    pub(super) fn may_lack_since(&self, known: &Known, end: End, seen: Seen) -> bool {
        let sender = &self.senders[end];
        sender.lost != known.losses(end)
            || sender.lost_before.is_some_and(|later| seen.time.since(later.time) <= REORDERING.0)
    }
}

#[cfg(test)]
mod tests;
