//! Calls that may be retransmitted on a later connection.

use crate::bounded;
use crate::judged::xid_of;
use crate::known::{Known, Memory};
use crate::unmatched::UnmatchedMessages;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use rdmascope_dissector::connection::{Connection, ConnectionId, State};
use rdmascope_dissector::frame::Address;
use rdmascope_dissector::observation::{CallIdentity, Kind, Observed, Outstanding, Sent};
use rdmascope_dissector::transaction::{Direction, Outcome, Seen, Timing, Transaction};
use rdmascope_wire::Xid;

/// Calls of earlier connections that may be retransmitted, and the calls that were answered last.
#[derive(Clone, Debug, Default)]
pub(crate) struct EarlierCalls {
    /// Calls on earlier connections between the same hosts that have not been retransmitted yet.
    before: VecDeque<EarlierCall>,
    /// [`UnansweredCalls::taken`] when the list was last read.
    recalled: u64,
    /// Forward, backward: the calls answered last, in the order of their transactions.
    answered: [AnsweredCalls; 2],
    /// Calls that were retransmitted and are outstanding, with the packet of the first
    /// transmission.
    again: Vec<(Direction, Xid, u64)>,
    /// A call had no reply and the capture contains nothing from the other end, which is reported
    /// once.
    pub(super) lacks_answerer: bool,
    /// By end: a packet of it had a bad ICRC, which packet-icrc reports.
    pub(super) is_spoiled: [bool; 2],
}

/// The calls answered last: the first packet of each, and that of its reply.
#[derive(Clone, Copy, Debug, Default)]
struct AnsweredCalls {
    calls: [Option<(Seen, Seen)>; AnsweredCalls::MOST],
    next: usize,
}

impl AnsweredCalls {
    const MOST: usize = 16;

    #[inline]
    fn note(&mut self, call: Seen, reply: Seen) {
        self.calls[self.next] = Some((call, reply));
        self.next = (self.next + 1) % AnsweredCalls::MOST;
    }

    /// The longest time that one of them waited, in nanoseconds.
    fn longest(&self) -> u64 {
        let waits = self.calls.iter().flatten().map(|(call, reply)| reply.time.since(call.time));
        waits.max().unwrap_or(0)
    }
}

/// A call on an earlier connection.
#[derive(Clone, Copy, Debug)]
struct EarlierCall {
    /// Its direction on the present connection.
    direction: Direction,
    call: UnansweredCall,
}

/// Calls without a reply on closed connections, of all connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnansweredCalls {
    calls: VecDeque<UnansweredCall>,
    /// The total number of such calls.
    taken: u64,
}

/// A call without a reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnansweredCall {
    pub(super) connection: ConnectionId,
    network: u32,
    caller: Address,
    answerer: Address,
    xid: Xid,
    pub(super) identity: CallIdentity,
    pub(super) seen: Seen,
    /// The capture may lack the reply.
    pub(super) lacks: bool,
}

impl UnansweredCalls {
    /// Heap bytes that its list takes up.
    pub(crate) fn footprint(&self) -> usize {
        self.calls.len() * size_of::<UnansweredCall>()
    }

    /// Calls that are kept.
    const MOST: usize = 1024;

    /// Records a call that has no reply when its connection is closed.
    pub(crate) fn note(&mut self, outstanding: &Outstanding, known: &Known, unmatched: &UnmatchedMessages) {
        let Outstanding { caller, route, xid, identity, seen, lacks } = *outstanding;
        // The reply may be among packets whose absence is not certain yet, or before the call.
        let answerer = caller.other();
        let may_lack = known.losses(answerer) > 0 || known.half_flows[answerer].waits;
        let lacks = lacks || may_lack || !known.holds_start() || unmatched.shows_replies_early;
        let (connection, caller, answerer) = (known.connection, route.source, route.destination);
        let network = known.network;
        let call = UnansweredCall { connection, network, caller, answerer, xid, identity, seen, lacks };
        bounded::push(&mut self.calls, UnansweredCalls::MOST, call);
        self.taken += 1;
    }

    /// Records a transaction whose reply is seen after the CM message that closed the connection.
    #[inline]
    pub(crate) fn note_transaction(&mut self, transaction: &Transaction, known: &Known) {
        let is_closed =
            || known.established.as_ref().is_some_and(|connection| connection.state == State::Closed);
        if !self.calls.is_empty() && transaction.reply.is_some() && is_closed() {
            let is_answered =
                |call: &UnansweredCall| call.connection == known.connection && call.xid == transaction.xid;
            self.calls.iter_mut().filter(|call| is_answered(call)).for_each(|call| call.lacks = true);
        }
    }
}

impl EarlierCalls {
    /// Calls of earlier connections that one connection keeps.
    const MOST_BEFORE: usize = 256;

    /// Whether calls that were outstanding on an earlier connection may be retransmitted.
    #[inline]
    pub(crate) fn expects_replays(&self) -> bool {
        !self.before.is_empty()
    }

    /// Takes over the unanswered calls of earlier connections between the ends of this one.
    pub(crate) fn recall(&mut self, connection: &Connection, network: u32, left: &UnansweredCalls) {
        let new = left.taken - core::mem::replace(&mut self.recalled, left.taken);
        let new = usize::try_from(new).unwrap_or(usize::MAX).min(left.calls.len());
        let ends = [connection.requester.address, connection.responder.address];
        if connection.state == State::Closed {
            return;
        }
        let is_earlier = |call: &&UnansweredCall| call.connection != connection.id && call.network == network;
        for call in left.calls.range(left.calls.len() - new..).filter(is_earlier) {
            let direction = if [call.caller, call.answerer] == ends {
                Direction::Forward
            } else if [call.answerer, call.caller] == ends {
                Direction::Backward
            } else {
                continue;
            };
            let call = EarlierCall { direction, call: *call };
            bounded::push(&mut self.before, EarlierCalls::MOST_BEFORE, call);
        }
    }

    /// The unanswered call with this XID on an earlier connection.
    pub(super) fn left(&self, direction: Direction, xid: Xid) -> Option<&UnansweredCall> {
        let mut left = self.before.iter().rev();
        left.find(|before| before.direction == direction && before.call.xid == xid).map(|before| &before.call)
    }

    /// The packet of the call on an earlier connection that this transaction retransmits.
    pub(crate) fn first_of(&self, transaction: &Transaction) -> Option<u64> {
        let has_xid = |(direction, xid, _): &&(Direction, Xid, u64)| {
            (*direction, *xid) == (transaction.direction, transaction.xid)
        };
        self.again.iter().find(has_xid).map(|(_, _, frame)| *frame)
    }

    /// Whether a call was answered that was sent after this one had waited longer than any answered
    /// call. It shows that the Responder worked on this call no longer, unless it is answered before
    /// the last RDMA operation for this call. Replies to concurrent calls may come in any order.
    pub(crate) fn passed_over(&self, transaction: &Transaction) -> bool {
        let Some(call) = &transaction.call else { return false };
        let Timing { reads, writes, .. } = transaction.timing;
        let worked = [reads, writes].into_iter().flatten().map(|(_, last)| last).max();
        let answered = &self.answered[transaction.direction as usize];
        let longest = answered.longest();
        let mut calls = answered.calls.iter().flatten();
        calls.any(|(later, reply)| {
            later.frame > call.seen.frame
                && later.time.since(call.seen.time) > longest
                && worked.is_none_or(|last| reply.time > last)
        })
    }
}

impl Memory for EarlierCalls {
    fn footprint(&self) -> usize {
        self.before.len() * size_of::<EarlierCall>() + size_of_val(&self.again[..])
    }

    /// Removes a call that was retransmitted.
    fn sent(&mut self, sent: &Sent<'_>, known: &Known) {
        if !self.before.is_empty() && sent.kind == Kind::Call {
            let (xid, direction) = (xid_of(sent), known.direction(sent.from));
            let identity = sent.header.map(|header| CallIdentity::of(header, sent.send));
            let again = &mut self.again;
            self.before.retain(|before| {
                let has_xid = before.direction == direction && Some(before.call.xid) == xid;
                let is_same = identity.and_then(|identity| identity.is_same(&before.call.identity));
                if has_xid && is_same != Some(false) && again.len() < EarlierCalls::MOST_BEFORE {
                    again.push((direction, before.call.xid, before.call.seen.frame));
                }
                !has_xid
            });
        }
    }

    fn transaction(&mut self, transaction: &Transaction, known: &Known) {
        if !self.again.is_empty() {
            let ended = (transaction.direction, transaction.xid);
            self.again.retain(|(direction, xid, _)| (*direction, *xid) != ended);
        }
        self.lacks_answerer |= transaction.outcome == Outcome::NoReply
            && transaction.call.is_some()
            && known.is_closed()
            && !known.has_packets_from(known.answerer(transaction.direction));
        if let (Some(call), Some(reply)) = (&transaction.call, &transaction.reply) {
            self.answered[transaction.direction as usize].note(call.first, reply.first);
        }
    }

    fn observed(&mut self, observed: &Observed<'_>, _: &Known) {
        if let Observed::Spoiled(spoiled) = observed {
            self.is_spoiled[spoiled.from] = true;
        }
    }

    fn joined(&mut self) {
        *self = Self::default();
    }
}
