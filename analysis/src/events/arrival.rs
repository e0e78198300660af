//! The latest replies of a connection, and whether they arrived with their first transmission.

use super::facts::Call;
use rdmascope_dissector::observation::Repeated;
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
    /// The frame of the latest call.
    last_call: u64,
    /// Whether it is unknown so far if one of the latest replies arrived with a repetition.
    has_pending: bool,
}

/// A call that has a reply.
#[derive(Clone, Copy, Debug)]
struct Answered {
    call: Call,
    /// The last position of its reply, if known.
    at: Option<Position>,
    /// The last repetition of that packet, until it is known which one arrived.
    again: Option<Seen>,
    /// Whether the packet was acknowledged after that.
    is_acknowledged: bool,
    /// Whether the requester sent a call between the reply and its acknowledgement.
    is_followed: bool,
    /// Whether the requester asked for its reply, or a packet before it, again.
    is_refused: bool,
    /// Whether its reply is known to have arrived when it was repeated. Then the reply is that packet.
    is_late: bool,
    /// Whether the requester had not acknowledged its reply when the connection ended.
    is_unacknowledged: bool,
}

impl Answered {
    fn new(call: Call, at: Option<Position>) -> Answered {
        Answered {
            call,
            at,
            again: None,
            is_acknowledged: false,
            is_followed: false,
            is_refused: false,
            is_late: false,
            is_unacknowledged: false,
        }
    }

    /// Whether it is unknown so far if its reply arrived with a repetition.
    fn is_pending(&self) -> bool {
        !self.is_late && (self.again.is_some() || self.is_refused)
    }

    /// Whether its reply may have been sent in vain: no packet of the responder may have arrived since
    /// `first`, the requester has not received the packets that it asked for again, or it did not
    /// acknowledge the reply.
    fn is_lost(&self, first: Option<Seen>) -> bool {
        !self.is_late
            && (self.is_refused
                || self.is_unacknowledged
                || first.is_some_and(|first| self.call.is_answered_since(first)))
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
    pub(super) fn repeated(&mut self, repeated: &Repeated) {
        let is_needed = |one: &&mut Answered| one.at.is_some_and(|at| repeated.is_needed_for(at));
        for one in self.recent.iter_mut().filter(is_needed) {
            one.again = Some(repeated.seen);
            one.is_followed |= one.call.reply.is_some_and(|reply| reply.frame < self.last_call);
            self.has_pending = true;
        }
    }

    /// Takes the last position that the requester acknowledged, when the connection ends.
    pub(super) fn ended(&mut self, acknowledged: Position) {
        for one in &mut self.recent {
            one.is_unacknowledged = one.at.is_some_and(|at| at.distance(acknowledged) < 0);
        }
    }

    /// The frame of the first reply that was repeated and not acknowledged.
    pub(super) fn first_repeated(&self) -> Option<u64> {
        let is_open = |one: &&Answered| !one.is_late && !one.is_acknowledged && one.again.is_some();
        let replies = self.recent.iter().filter(is_open).filter_map(|one| one.call.reply);
        replies.map(|reply| reply.frame).min()
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
        self.recent.push_back(Answered { is_refused, ..Answered::new(call, at) });
    }

    /// Whether the requester asked for a reply that ends at this position again, after it was sent.
    fn refused_since(&self, reply: Seen, at: Option<Position>) -> bool {
        let (Some((position, frame)), Some(at)) = (self.last_refused, at) else { return false };
        frame > reply.frame && position.distance(at) >= 0
    }

    /// Whether it is unknown so far if one of the replies arrived with a repetition.
    pub(super) fn has_pending(&self) -> bool {
        self.has_pending
    }

    /// Takes the acknowledgement of the responder's packets up to a position. A repeated reply arrived
    /// with its last repetition if the requester shows that it lacked the reply before: it asked for
    /// it again, or `is_unheard`. Returns these replies, in the order of their arrival.
    pub(super) fn acknowledged(&mut self, position: Position, is_unheard: bool) -> Vec<Late> {
        self.late(|one| {
            if one.at.is_none_or(|at| at.distance(position) < 0) {
                return None;
            }
            if core::mem::take(&mut one.is_refused) || is_unheard {
                return one.again.take();
            }
            one.is_acknowledged = one.again.is_some();
            one.again.take_if(|_| one.is_followed)?;
            None
        })
    }

    /// Takes a call of the requester. If it is the first one since a reply, and follows soon after the
    /// acknowledged repetition, the requester waited: for that reply, or because a call after it was
    /// lost.
    pub(super) fn called(&mut self, seen: Seen) -> Vec<Late> {
        /// The part of the time of the repetitions within which a requester with work calls.
        const SOON: u64 = 10;
        self.last_call = seen.frame;
        self.late(|one| {
            one.is_followed |= one.again.is_some();
            let arrived = one.again.take_if(|_| one.is_acknowledged)?;
            let lasted = arrived.time.since(one.call.reply?.time);
            Some(arrived).filter(|arrived| seen.time.since(arrived.time) <= lasted / SOON)
        })
    }

    /// Moves replies to the packets that `find` returns.
    fn late(&mut self, find: impl Fn(&mut Answered) -> Option<Seen>) -> Vec<Late> {
        let mut late = Vec::new();
        if !self.has_pending {
            return late;
        }
        for one in self.recent.iter_mut().filter(|one| !one.is_late) {
            if let Some(arrived) = find(one) {
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

    /// The calls whose replies were sent in vain if no packet of the responder arrived since `first`,
    /// and those whose replies the requester asked for again until the connection ended.
    pub(super) fn lost(&self, first: Option<Seen>) -> impl Iterator<Item = &Call> {
        self.recent.iter().filter(move |one| one.is_lost(first)).map(|one| &one.call)
    }

    /// Forgets these calls.
    pub(super) fn forget_lost(&mut self, first: Option<Seen>) {
        self.recent.retain(|one| !one.is_lost(first));
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
