//! Replies in Read chunks that counted as calls.
//!
//! An RDMA_NOMSG with a Position Zero Read chunk is a Long Call, or a reply by the reliable-reply
//! draft. Without an outstanding call of its XID, it counts as a call. The RPC message that the other
//! end pulls shows its type.

use super::memory::Advertisement;
use super::open::Open;
use super::{CallIdentity, Peers, Slot, Transactions};
use crate::event::Report;
use crate::observation::{Corrected, Observe, Observed};
use crate::transaction::{Outcome, Part, Placed};
use core::mem::{swap, take};
use rdmascope_wire::rpc;
use rdmascope_wire::rpcrdma::Segment;

/// Bytes of an RPC message up to the end of its type.
const SHOWS_TYPE: u64 = 8;

impl Transactions {
    /// Whether the message that was pulled for a call is a reply.
    #[inline]
    pub(super) fn is_pulled_reply(&self, slot: Slot) -> bool {
        self.slots.get(slot.index as usize).is_some_and(Open::is_pulled_reply)
    }

    /// Makes the message that began a transaction the reply of one: of the call with its XID, if that
    /// has been seen since.
    #[cold]
    pub(super) fn correct(&mut self, slot: Slot, peers: &mut Peers, report: &mut Report<'_>) {
        let Some(open) = self.find(slot) else { return };
        let (from, caller, xid) = (open.caller, open.caller.other(), open.transaction.xid);
        for (_, owner, seen, segment) in open.advertised() {
            peers.sides[owner].memory.withdraw(segment, seen.frame, slot);
        }
        open.turn();
        self.provides_replies = true;
        if peers.caller == Some(from) && peers.reported == [0; 2] {
            peers.caller = Some(caller);
        }
        peers.sides[from].calls.remove(&xid);
        if let Some(call) = peers.sides[caller].calls.remove(&xid) {
            self.take_call(call, slot);
        }
        self.advertise_again(slot, peers);
        if let Some(earlier) = peers.sides[caller].pulls.insert(xid, slot) {
            self.end(earlier, (Outcome::Completed, None), peers, report);
        }
        self.reweigh(slot);
        if self.observe != Observe::Nothing {
            peers.observe(Observed::Corrected(Corrected { from, xid }), report);
        }
    }

    /// Moves the call of one transaction to another, which has its reply. The first one ends without
    /// a report.
    fn take_call(&mut self, call: Slot, reply: Slot) {
        let mut of_call = take(&mut self.slots[call.index as usize]);
        self.slots[reply.index as usize].take_call(&mut of_call);
        self.weight -= of_call.weight;
        self.gathered -= of_call.release(true);
        self.slots[call.index as usize].generation = of_call.generation;
        self.open -= 1;
        self.free.push(call.index);
    }

    /// Advertises the memory of a transaction whose segments have changed.
    fn advertise_again(&self, slot: Slot, peers: &mut Peers) {
        for (index, owner, seen, segment) in self.slots[slot.index as usize].advertised() {
            let by = Advertisement { seen, after: None, follows_gap: false };
            peers.sides[owner].memory.advertise(segment, by, slot, index);
        }
        peers.sides.iter_mut().for_each(|side| side.last = None);
    }
}

impl Open {
    /// Whether the captured part of a Long Call begins as a reply does.
    fn is_pulled_reply(&self) -> bool {
        let is_reply = || matches!(rpc::peek(&self.call_stream), Ok((_, rpc::Kind::Reply)));
        if self.call_read || self.transaction.reply.is_some() || !is_reply() {
            return false;
        }
        let mut stream = self.segments.iter().filter(|placed| is_pulled(placed));
        stream.next().is_some_and(|first| first.captured.front() >= SHOWS_TYPE)
    }

    /// Makes the call of a transaction its reply. The call may be in any of the earlier gaps.
    fn turn(&mut self) {
        self.caller = self.caller.other();
        self.missing_before = 0;
        self.transaction.timing.acknowledged = None;
        self.transaction.reply = self.transaction.call.take();
        swap(&mut self.call_stream, &mut self.reply_stream);
        self.segments.retain(is_pulled);
        self.segments.iter_mut().for_each(|placed| placed.of_reply = true);
        let returned = self.transaction.reply.iter().flat_map(|reply| &reply.write_chunks);
        self.write_lengths.extend(returned.map(|chunk| Segment::total(&chunk.segments)));
        self.read_lengths.clear();
        self.identity = CallIdentity::default();
        if let Some(transcript) = &mut self.transcript {
            transcript.turn();
        }
    }

    /// Takes over the call of another transaction.
    fn take_call(&mut self, other: &mut Open) {
        let (own, others) = (&mut self.transaction, &mut other.transaction);
        own.call = others.call.take();
        (own.procedure, own.security, own.user, own.gss) =
            (others.procedure, others.security, others.user, others.gss);
        swap(&mut own.details, &mut others.details);
        own.stop = own.stop.or(others.stop);
        own.timing.acknowledged = others.timing.acknowledged;
        (self.missing_before, self.unseen_before) = (other.missing_before, other.unseen_before);
        self.was_held_in_gap = other.was_held_in_gap;
        self.identity = other.identity;
        self.call_read = other.call_read;
        swap(&mut self.call_stream, &mut other.call_stream);
        swap(&mut self.read_lengths, &mut other.read_lengths);
        other.segments.append(&mut self.segments);
        swap(&mut self.segments, &mut other.segments);
        self.scattered += other.scattered;
        if let (Some(own), Some(other)) = (&mut self.transcript, &mut other.transcript) {
            own.take_call(other);
        }
    }
}

/// Whether a segment is part of the Position Zero Read chunk.
fn is_pulled(placed: &Placed) -> bool {
    placed.is_stream && matches!(placed.part, Part::ReadChunk(_))
}
