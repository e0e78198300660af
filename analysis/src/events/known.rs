//! The connections of a capture, with the facts that all reporters of events need.

use super::facts::{Call, Run, Summary};
use super::history::{History, RETRIES};
use super::{Kind, SILENCE, SessionEvent};
use crate::names::Label;
use foldhash::fast::FixedState;
use rdmascope_dissector::connection::{ConnectionId, Networks, State};
use rdmascope_dissector::frame::Address;
use rdmascope_dissector::observation::HandshakeStep;
use rdmascope_dissector::rdma::End;
use rdmascope_dissector::record::{Seen, Time};
use rdmascope_wire::Xid;
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

/// A connection with its gathered facts.
pub(super) struct Known<'a> {
    pub(super) id: ConnectionId,
    pub(super) history: Cow<'a, History>,
    pub(super) summary: Summary,
    /// Its network, among those of connections between the same addresses.
    pub(super) network: u32,
    /// Calls that wait at the moment, if the capture continues.
    pub(super) waiting: Vec<Call>,
    /// The index of the connection before it.
    pub(super) before: Option<usize>,
    /// The index of the connection after it.
    pub(super) after: Option<usize>,
}

/// The address that opened the connection, the address that accepted it, and the number of their
/// network.
pub(super) type Ends = (Address, Address, u32);

/// The longest time that a client with work waits before it sends a REQ after it lost its
/// connection, in nanoseconds.
pub(super) const RECONNECT: u64 = 30_000_000_000;

/// The longest time in nanoseconds until a client with work asks for a connection in place of one that
/// the server closed. A client without outstanding calls that asks later had no work. Linux asked after
/// 0.1 to 0.3 s in two sessions of the lab.
pub(super) const AT_ONCE: u64 = 1_000_000_000;

/// The time that the capture has reached.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reached {
    pub(super) time: Time,
    /// Whether the capture continues.
    pub(super) is_live: bool,
    /// How often its clock has stepped back.
    pub(super) steps: u32,
}

/// An event with default values for the other fields.
pub(super) fn event(time: Time, kind: Kind, text: String) -> SessionEvent {
    SessionEvent {
        time,
        kind,
        connection: ConnectionId(0),
        other: None,
        through: Vec::new(),
        by_requester: None,
        cause: None,
        duration: None,
        count: 1,
        frames: [None, None],
        does_harm: true,
        text,
    }
}

/// An event of one end, with the packets of a run.
pub(super) fn event_of_run(run: Run, by_requester: bool, kind: Kind, text: String) -> SessionEvent {
    SessionEvent {
        by_requester: Some(by_requester),
        duration: Some(run.length()),
        count: run.count,
        frames: [Some(run.first.frame), Some(run.last.frame)],
        ..event(run.first.time, kind, text)
    }
}

impl Known<'_> {
    pub(super) fn ends(&self) -> Ends {
        (self.summary.requester, self.summary.responder, self.network)
    }

    /// The calls that an earlier connection left without a reply, and that were sent again on this one.
    pub(super) fn repeats<'a>(&'a self, before: &'a Known<'_>) -> impl Iterator<Item = &'a Call> {
        // The capture may lack the replies to others.
        let left = || before.history.unanswered.iter().filter(|call| call.until.is_some());
        self.history.calls.iter().filter(move |call| left().any(|other| call.may_repeat(other)))
    }

    /// Whether it was established, not only requested.
    pub(super) fn was_established(&self) -> bool {
        matches!(self.summary.state, State::Open | State::Closed) && !self.is_unconfirmed()
    }

    /// Whether the responder repeated its REP, because the requester neither confirmed it nor used the
    /// connection.
    pub(super) fn is_unconfirmed(&self) -> bool {
        let History { setup, first_used, .. } = &*self.history;
        setup.accepted_again
            && setup.rejected.is_none()
            && setup.ready.is_none()
            && first_used.is_none()
            && !self.summary.captured_ends[0]
    }

    /// The message that requested it.
    pub(super) fn request_name(&self) -> &'static str {
        match (self.summary.is_iwarp, self.history.setup.handshake) {
            (false, _) => "REQ",
            (true, None) => "MPA Request",
            (true, Some(_)) => "SYN",
        }
    }

    /// The end that rejected it: `true` for the requester, which rejects a REP.
    pub(super) fn rejected_by(&self) -> Option<bool> {
        self.history.setup.rejected.map(|(_, by_requester, ..)| by_requester)
    }

    /// Whether its requests were never answered. `request_times` are the times of all requests
    /// between its ends, and `end` is the end of the capture.
    pub(super) fn has_unanswered_requests(&self, request_times: &[(Time, usize)], end: Time) -> bool {
        let Known { history, summary, .. } = self;
        let Some(run) = history.setup.requests else { return false };
        if summary.state != State::Requested || history.setup.reply.is_some() {
            return false;
        }
        if let Some(handshake) = history.only_handshake() {
            // The client repeats its SYN until it has an answer.
            return handshake.step == HandshakeStep::Syn && run.count > 1;
        }
        let is_captured = history.captured_hosts[self.responder()];
        match (summary.is_iwarp, history.disconnected) {
            // TCP sequence numbers show whether the capture lacks an answer.
            (true, Some(closed)) => closed.shows_silence,
            (true, None) => {
                is_captured && !history.lacked(self.responder()) && end.since(run.last.time) >= SILENCE
            }
            (false, _) if history.setup.has_given_up => true,
            (false, _) => {
                let next = request_times.partition_point(|(time, _)| *time <= run.last.time);
                let next = request_times.get(next).map(|(time, _)| *time);
                // A client that received an answer confirms or rejects it.
                let asks_again = next.is_some_and(|next| next.since(run.last.time) <= RECONNECT);
                let is_vain = history.setup.ready.is_none() && (asks_again || run.count > RETRIES);
                is_vain || is_captured && (run.count > 1 || next.is_some())
            }
        }
    }

    /// The time at which it ended, if it did.
    pub(super) fn ended_at(&self) -> Option<Time> {
        match self.history.disconnected {
            Some(closed) => Some(closed.seen.time),
            None => (self.summary.state == State::Closed || self.unanswered().next().is_some())
                .then_some(self.summary.last),
        }
    }

    /// The moment at which it ended, if it did. One that was never used ends with its last packet.
    fn ended(&self) -> Option<Moment> {
        let is_unused = self.history.first_used.is_none();
        let ended_at = self.ended_at().or_else(|| is_unused.then_some(self.summary.last));
        Some((self.history.steps, ended_at?))
    }

    /// The moment of its first use.
    fn used(&self) -> Moment {
        let used = self.history.first_used.map_or(self.summary.first, |(seen, _)| seen.time);
        (self.history.steps_before, used)
    }

    /// Whether it was first used after `other` ended, to the same port. A client may send its REQ
    /// before the DREQ of the connection that it replaces.
    fn may_follow(&self, other: &Known<'_>) -> bool {
        self.may_be_to_port_of(other) && other.ended().is_some_and(|ended| ended <= self.used())
    }

    /// Whether both may be connections to one port.
    pub(super) fn may_be_to_port_of(&self, other: &Known<'_>) -> bool {
        let (one, other) = (self.summary.port, other.summary.port);
        one.is_none() || other.is_none() || one == other
    }

    /// The distance of its first XID from the last one of `other`; `None` if it is large. Most clients
    /// number the calls of a mount consecutively, over several connections. Linux counts in the byte
    /// order of its processor.
    fn distance(&self, other: &Known<'_>) -> Option<u32> {
        /// Larger than the number of calls that wait on a connection.
        const NEAR: u32 = 1024;
        let ((_, first), (_, last)) = (self.history.first_used?, other.history.last_used?);
        let distance = |one: u32, other: u32| (one.wrapping_sub(other) as i32).unsigned_abs();
        let swapped = distance(first.0.swap_bytes(), last.0.swap_bytes());
        Some(distance(first.0, last.0).min(swapped)).filter(|distance| *distance <= NEAR)
    }

    /// Whether the client asked for it because it had work for `other`, which was closed at this time:
    /// at once, with the XIDs that follow. A client begins with NULL when it mounts.
    pub(super) fn replaces(&self, other: &Known<'_>, closed: Time) -> bool {
        let History { setup, first_used, calls, .. } = &*self.history;
        let is_first = |call: &&Call| first_used.is_some_and(|(seen, _)| seen == call.seen);
        let mounts = calls.iter().find(is_first).is_some_and(|call| call.label == Label::Named("NULL"));
        let asked = setup.requests.map(|run| run.first.time);
        asked.is_some_and(|asked| asked.since(closed) <= AT_ONCE) && self.distance(other).is_some() && !mounts
    }

    /// Whether it was closed, or its queue pairs have failed. If not, it may still wait for replies.
    fn is_closed(&self) -> bool {
        self.history.disconnected.is_some()
            || self.summary.state == State::Closed
            || self.history.has_failed()
    }

    /// Notes that the replies to its unconfirmed calls did not arrive.
    fn lose_replies(&mut self) {
        if self.history.unconfirmed().next().is_some() {
            self.history = Cow::Owned(self.history.without_unconfirmed());
        }
    }

    /// The packet by which the client confirmed the TCP connection, if the capture lacks its data.
    pub(super) fn accepted_unseen(&self) -> Option<Seen> {
        let handshake = self.history.only_handshake().filter(|it| it.step == HandshakeStep::Ack)?;
        Some(handshake.seen)
    }

    /// Its calls without a reply.
    pub(super) fn unanswered(&self) -> impl Iterator<Item = &Call> {
        self.history.unanswered.iter().chain(&self.waiting)
    }

    pub(super) fn responder(&self) -> End {
        self.history.requester.other()
    }
}

/// How often the clock had stepped back, and its time.
type Moment = (u32, Time);

/// The connections between two ends that a later one may follow.
#[derive(Default)]
struct Earlier {
    /// The closed ones that none follows, by their ends: their indexes.
    closed: BTreeSet<(Moment, usize)>,
    /// The index of the latest one that has no reply to a call.
    waiting: HashMap<Xid, usize, FixedState>,
}

impl Earlier {
    /// The most closed connections that are compared with a later one: those that ended last. More
    /// than one is left only by connections that were open at the same time.
    const MOST_CLOSED: usize = 64;

    /// The connections that ended until a moment, latest first.
    fn closed_until(&self, moment: Moment) -> impl Iterator<Item = usize> {
        let closed = self.closed.range(..=(moment, usize::MAX)).rev();
        closed.take(Earlier::MOST_CLOSED).map(|(_, index)| *index)
    }
}

/// The times of the REQs by addresses, in order, each with the index of its connection.
pub(super) type Requests = HashMap<Ends, Vec<(Time, usize)>, FixedState>;

/// Numbers the networks of connections between equal addresses.
pub(super) fn number_networks(known: &mut [Known<'_>]) {
    let mut networks: HashMap<(Address, Address), Networks, FixedState> = HashMap::default();
    // A later connection may show that two networks are one.
    for _ in 0..2 {
        for one in &mut *known {
            let Summary { requester, responder, contexts, .. } = one.summary;
            one.network = networks.entry((requester, responder)).or_default().note(contexts);
        }
    }
}

/// Links each connection to the one it follows: the same two ends, and the same port if both
/// ports are known. Hosts may have several mounts. So the one whose calls it repeats comes first, then
/// the closed one whose XIDs it continues, then the closed one that was opened first. Returns the
/// times of the REQs.
pub(super) fn link(known: &mut [Known<'_>]) -> Requests {
    let mut requests = Requests::default();
    let mut earlier: HashMap<Ends, Earlier, FixedState> = HashMap::default();
    for index in 0..known.len() {
        if known[index].history.is_unheard() {
            known[index].lose_replies();
        }
        let one = &known[index];
        let ends = one.ends();
        if let Some(run) = one.history.setup.requests {
            requests.entry(ends).or_default().extend([(run.first.time, index), (run.last.time, index)]);
        }
        if !one.was_established() {
            continue;
        }
        let earlier = earlier.entry(ends).or_default();
        let is_before = |at: &usize| known[*at].after.is_none() && one.may_follow(&known[*at]);
        let waiting = one.history.calls.iter().filter_map(|call| earlier.waiting.get(&call.xid).copied());
        let repeats = waiting.map(|at| last_without_reply(known, at));
        let before = repeats.filter(is_before).min().or_else(|| {
            let closed = earlier.closed_until(one.used()).filter(is_before);
            closed.min_by_key(|at| (one.distance(&known[*at]).unwrap_or(u32::MAX), *at))
        });
        if let Some(at) = before
            && let Some(ended) = known[at].ended()
        {
            earlier.closed.remove(&(ended, at));
        }
        if one.is_closed() {
            earlier.closed.extend(one.ended().map(|ended| (ended, index)));
        }
        let unconfirmed = one.history.unconfirmed();
        earlier.waiting.extend(one.unanswered().chain(unconfirmed).map(|call| (call.xid, index)));
        let Some(before) = before else { continue };
        let is_repeated = |call: &Call| one.history.calls.iter().any(|again| again.xid == call.xid);
        let is_lost = known[before].history.unconfirmed().any(is_repeated);
        if is_lost {
            known[before].lose_replies();
        }
        known[index].before = Some(before);
        known[before].after = Some(index);
    }
    requests.values_mut().for_each(|times| times.sort_unstable());
    requests
}

/// The last of the connections that follow one in turn without a reply.
fn last_without_reply(known: &[Known<'_>], mut at: usize) -> usize {
    while let Some(after) = known[at].after.filter(|after| known[*after].history.first_reply.is_none()) {
        at = after;
    }
    at
}

pub(super) const fn end_name(requester: bool) -> &'static str {
    if requester { "client" } else { "server" }
}
