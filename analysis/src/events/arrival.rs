//! The latest replies of a connection, and whether they arrived with their first transmission.

use super::facts::Call;
use rdmascope_dissector::rdma::Position;
use rdmascope_dissector::record::{Seen, Time};
use std::collections::VecDeque;

/// The most calls in [`Arrivals::recent`].
const MOST_RECENT: usize = 32;

/// The latest replies.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrivals {
    /// The latest calls that have a reply.
    recent: VecDeque<Answered>,
    /// The packet that completed the latest reply, and its last position.
    replied_at: Option<(u64, Position)>,
    /// The position from which on the requester asked for packets again, and the frame in which it last
    /// did.
    last_refused: Option<(Position, u64)>,
    /// Whether one of the latest replies may not have arrived so far.
    has_pending: bool,
}

/// A call that has a reply.
#[derive(Clone, Copy, Debug)]
struct Answered {
    call: Call,
    /// The last position of its reply, if known.
    at: Option<Position>,
    /// The last repetition of that packet, until the packet is acknowledged.
    again: Option<Seen>,
    /// Whether the requester asked for its reply, or a packet before it, again.
    is_refused: bool,
    /// Whether its reply is known to have arrived when it was repeated. Then the reply is that packet.
    is_late: bool,
}

impl Answered {
    /// Whether its reply may not have arrived so far.
    fn is_pending(&self) -> bool {
        !self.is_late && (self.again.is_some() || self.is_refused)
    }
}

/// A reply that arrived with a repetition.
pub(super) struct Late {
    /// The repetition.
    pub(super) arrived: Seen,
    /// The call, with the first transmission of its reply.
    pub(super) call: Call,
}

impl Arrivals {
    /// Takes the packet that completes a reply, and its last position.
    pub(super) fn sent(&mut self, frame: u64, position: Position) {
        self.replied_at = Some((frame, position));
    }

    /// Takes the repetition of a packet of the responder that is not acknowledged.
    pub(super) fn repeated(&mut self, seen: Seen, position: Position) {
        let reply = self.recent.iter_mut().rfind(|one| one.at == Some(position));
        self.has_pending |= reply.is_some();
        reply.into_iter().for_each(|one| one.again = Some(seen));
    }

    /// Takes a request for the packets from a position on again.
    pub(super) fn refused(&mut self, seen: Seen, position: Position) {
        self.last_refused = Some((position, seen.frame));
        let is_after = |one: &&mut Answered| one.at.is_some_and(|at| position.distance(at) >= 0);
        for one in self.recent.iter_mut().filter(is_after) {
            (one.is_refused, self.has_pending) = (true, true);
        }
    }

    /// Takes a call with its reply.
    pub(super) fn answered(&mut self, call: Call, reply: Seen) {
        if self.recent.len() == MOST_RECENT {
            self.recent.pop_front();
        }
        let at = self.replied_at.filter(|(frame, _)| *frame == reply.frame).map(|(_, position)| position);
        let is_refused = self.refused_since(reply, at);
        self.has_pending |= is_refused;
        self.recent.push_back(Answered { call, at, again: None, is_refused, is_late: false });
    }

    /// Whether the requester asked for a reply that ends at this position again, after it was sent.
    fn refused_since(&self, reply: Seen, at: Option<Position>) -> bool {
        let (Some((position, frame)), Some(at)) = (self.last_refused, at) else { return false };
        frame > reply.frame && position.distance(at) >= 0
    }

    /// Whether one of the replies may not have arrived so far.
    pub(super) fn has_pending(&self) -> bool {
        self.has_pending
    }

    /// Takes the acknowledgement of the responder's packets up to a position. A repeated reply arrived
    /// with its last repetition if the requester shows that it lacked the reply before: it asked for
    /// it again, or `is_unheard`. Returns these replies, in the order of their arrival.
    pub(super) fn acknowledged(&mut self, position: Position, is_unheard: bool) -> Vec<Late> {
        let mut late = Vec::new();
        let is_covered = |one: &&mut Answered| one.at.is_some_and(|at| at.distance(position) >= 0);
        for one in self.recent.iter_mut().filter(is_covered) {
            let is_lost = core::mem::take(&mut one.is_refused) || is_unheard;
            if let Some(arrived) = one.again.take().filter(|_| is_lost && !one.is_late) {
                late.push(Late { arrived, call: one.call });
                one.is_late = true;
                one.call.reply = Some(arrived);
            }
        }
        self.has_pending = self.recent.iter().any(Answered::is_pending);
        late.sort_by_key(|late| late.arrived.frame);
        late
    }

    /// The calls whose replies arrived before a packet.
    pub(super) fn arrived_before(&self, seen: Seen) -> impl Iterator<Item = &Call> {
        let calls = self.recent.iter().filter(|one| !one.is_pending()).map(|one| &one.call);
        calls.filter(move |call| !call.is_answered_since(seen))
    }

    /// The calls whose replies were sent in vain if no packet of the responder arrived since `first`.
    pub(super) fn lost_since(&self, first: Seen) -> impl Iterator<Item = &Call> {
        let is_lost = move |one: &&Answered| !one.is_late && one.call.is_answered_since(first);
        self.recent.iter().filter(is_lost).map(|one| &one.call)
    }

    /// Forgets the calls with replies in this packet or later.
    pub(super) fn forget_since(&mut self, first: Seen) {
        self.recent.retain(|one| one.call.reply.is_some_and(|reply| reply.frame < first.frame));
    }

    /// The last of the replies.
    pub(super) fn last_reply(&self) -> Option<Seen> {
        self.recent.iter().filter_map(|one| one.call.reply).max_by_key(|reply| reply.frame)
    }

    /// When the last of the calls was sent.
    pub(super) fn last_call(&self) -> Option<Time> {
        self.recent.iter().map(|one| one.call.seen.time).max()
    }
}
