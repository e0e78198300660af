//! The facts kept about one connection. Lists are bounded.

use super::arrival::{Arrivals, Late};
use super::credits::Credits;
use super::facts::{Burst, Call, Closed, Gap, Retry, Run, Summary};
use super::failing::{self, Failing};
use super::recovery::Recovery;
use super::setup::Setup;
use super::{SILENCE, TWICE};
use rdmascope_dissector::connection::Connection;
use rdmascope_dissector::observation::{
    Announced, Closes, Closing, Handshake, Kind, Missing, Refused, Repeated, Sent,
};
use rdmascope_dissector::rdma::{End, Failure, Position, Refusal};
use rdmascope_dissector::record::{Seen, Time};
use rdmascope_dissector::transaction::{Direction, Outcome, Transaction};
use rdmascope_wire::rpcrdma::Procedure;
use rdmascope_wire::{Xid, cm};

/// The facts kept about a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// How it was made, or why it was not.
    pub(super) setup: Setup,
    /// The first DREQ, FIN or RST and its sender. A DREP counts as a DREQ of the other end.
    pub(super) disconnected: Option<Closed>,
    pub(super) first_reply: Option<Seen>,
    pub(super) last_reply: Option<Seen>,
    /// The first call whose wait the capture shows completely.
    pub(super) first_call: Option<Seen>,
    /// The latest call that has its reply.
    pub(super) answered: Option<Time>,
    /// Calls that waited while later ones were answered, and callbacks that waited.
    pub(super) passed: Vec<Call>,
    /// The DREQs of the first end that sent one.
    pub(super) disconnect_requests: Option<(End, Run)>,
    /// Whether a DREQ was answered.
    pub(super) is_disconnect_answered: bool,
    pub(super) gaps: Vec<Gap>,
    /// The first calls, to find those that an earlier connection left without a reply.
    pub(super) calls: Vec<Call>,
    /// The first call, and the last one.
    pub(super) first_used: Option<(Seen, Xid)>,
    pub(super) last_used: Option<(Seen, Xid)>,
    /// Calls that have no reply yet.
    pub(super) unanswered: Vec<Call>,
    arrivals: Arrivals,
    pub(super) recovery: Recovery,
    pub(super) bursts: Vec<Burst>,
    pub(super) retries: [Option<Retry>; 2],
    /// The frames of the latest two packets that the requester repeated although the capture shows
    /// them acknowledged.
    unheard: [u64; 2],
    pub(super) credits: Credits,
    pub(super) failing: Vec<Failing>,
    /// Whether each host was seen to send anything to the other, by end.
    pub(super) captured_hosts: [bool; 2],
    /// The time by which each end had sent the last of its packets that are missing.
    lacking: [Option<Time>; 2],
    /// Whether packets of each end were found missing before the first reply.
    lacked: [bool; 2],
    /// How often the clock had stepped back when the connection was first seen, and when it was last
    /// seen.
    pub(super) steps_before: u32,
    pub(super) steps: u32,
    /// The end that opened the connection.
    pub(super) requester: End,
    /// Whether it is known which end that is.
    pub(super) roles_known: bool,
    /// Whether the other end called too, while that was unknown.
    both_call: bool,
    latest: Time,
    pub(super) summary: Option<Summary>,
}

/// The most entries of a list.
const MOST: usize = 128;

/// The number of transmissions of a packet. If more are not acknowledged, none arrived.
pub(super) const RETRIES: u64 = 3;

impl History {
    /// The most calls without a reply that are kept.
    pub(super) const MOST_WAITING: usize = MOST;

    /// Creates the facts of a connection that was first seen after `steps` steps of the clock.
    pub(super) fn new(steps: u32) -> History {
        History { steps_before: steps, steps, ..History::default() }
    }

    /// Forgets the times from which waits are counted, because the clock stepped back.
    pub(super) fn clock_stepped(&mut self, steps: u32) {
        self.steps = steps;
        (self.last_reply, self.answered) = (None, None);
        self.credits.clock_stepped();
        self.retries = [None; 2];
        self.lacked = self.lacked.map(|lacked| lacked || self.first_reply.is_none());
    }

    /// Takes a packet that requests, accepts or rejects the connection.
    pub(super) fn announced(&mut self, announced: &Announced<'_>) {
        self.latest = announced.seen.time;
        self.setup.announced(announced, self.requester);
    }

    /// Takes a segment of the TCP handshake.
    pub(super) fn handshake(&mut self, handshake: &Handshake) {
        self.latest = handshake.seen.time;
        self.setup.handshake(handshake, self.requester);
    }

    /// The latest segment of its TCP handshake, if the capture lacks its data.
    pub(super) fn only_handshake(&self) -> Option<Handshake> {
        self.setup.handshake.filter(|_| self.setup.expects.is_none() && self.first_used.is_none())
    }

    /// Takes a CM message.
    pub(super) fn message(&mut self, from: End, seen: Seen, message: &cm::Message<'_>) {
        self.latest = seen.time;
        match message {
            cm::Message::ReadyToUse(_) => _ = self.setup.ready.get_or_insert(seen),
            cm::Message::DisconnectRequest(_) => self.disconnect_request(from, seen),
            // A DREP answers a DREQ of the other end.
            cm::Message::DisconnectReply(_) => {
                self.is_disconnect_answered = true;
                let how = Closing::DisconnectRequest;
                self.closed(&Closes { from: from.other(), seen, how, numbers: None });
            }
            _ => {}
        }
    }

    /// Takes a DREQ. Two ends that send one each do not wait for an answer.
    fn disconnect_request(&mut self, from: End, seen: Seen) {
        match &mut self.disconnect_requests {
            Some((first, _)) if *first != from => self.is_disconnect_answered = true,
            Some((_, run)) if seen.time.since(run.last.time) <= TWICE => {}
            Some((_, run)) => run.extend(seen),
            None => self.disconnect_requests = Some((from, Run::new(seen))),
        }
    }

    /// Takes a packet by which an end closes the connection.
    pub(super) fn closed(&mut self, closes: &Closes) {
        let Closes { from, seen, how, .. } = *closes;
        self.latest = seen.time;
        let by_requester = self.roles_known.then_some(from == self.requester);
        let shows_silence = closes.shows_silence(self.requester, self.setup.expects);
        self.disconnected.get_or_insert(Closed { seen, by_requester, how, shows_silence });
    }

    /// Takes a Send.
    pub(super) fn sent(&mut self, sent: &Sent<'_>) {
        self.latest = sent.send.seen.time;
        // It may be a reply if the capture has too little of it.
        if sent.header.is_none() && sent.send.length != Some(sent.send.bytes.len() as u32) {
            self.lack(sent.from, self.latest);
        }
        let by_requester = sent.from == self.requester;
        if by_requester && sent.kind == Kind::Call {
            self.called(sent.send.seen);
        }
        if !by_requester && matches!(sent.kind, Kind::Reply | Kind::Error) {
            self.arrivals.sent(sent.send.seen.frame, sent.send.last());
        }
        self.credits.sent(sent, by_requester);
    }

    /// Takes a call of the requester.
    fn called(&mut self, seen: Seen) {
        let late = self.arrivals.called(seen);
        let is_whole =
            |late: &Late| late.call.reply.is_some_and(|reply| !self.lacks(self.requester, reply.time));
        if late.iter().all(is_whole) {
            self.arrived_late(&late);
        }
    }

    /// Takes a request that was sent again. `acknowledged` is the last position that its sender
    /// knows to have arrived.
    pub(super) fn repeated(&mut self, repeated: &Repeated, acknowledged: Option<Position>) {
        let Repeated { from, seen, first, piece, position, read_length, .. } = *repeated;
        self.latest = seen.time;
        let is_acknowledged = acknowledged.is_some_and(|known| repeated.is_acknowledged(known));
        if from == self.requester {
            self.setup.repeated(repeated);
        }
        if from == self.requester && is_acknowledged {
            self.unheard = [self.unheard[1], seen.frame];
        }
        if from != self.requester && !is_acknowledged {
            self.arrivals.repeated(repeated);
        }
        let retry = &mut self.retries[from as usize];
        match retry {
            Some(retry) if retry.position == position => {
                if seen.time.since(retry.run.last.time) >= TWICE {
                    retry.run.extend(seen);
                    retry.read_length = read_length;
                }
            }
            // Packets after an unacknowledged one are sent again with it.
            Some(retry) if retry.position.distance(position) > 0 => {}
            // It has arrived before.
            _ if is_acknowledged => {}
            _ => {
                let first = first.unwrap_or(seen);
                if seen.time.since(first.time) >= TWICE {
                    let run = Run { first, last: seen, count: 2 };
                    *retry = Some(Retry { position, piece, read_length, run });
                }
            }
        }
    }

    /// Takes a NAK.
    pub(super) fn refused(&mut self, refused: &Refused) {
        let Refused { from, seen, refusal, position, .. } = *refused;
        self.latest = seen.time;
        if from == self.requester && !matches!(refusal, Refusal::Failed(_)) {
            self.arrivals.refused(seen, position);
        }
        let is_same = |burst: &Burst| burst.from == from && is_like(burst.refusal, refusal);
        let is_full = self.bursts.len() >= MOST;
        match self.bursts.iter_mut().rfind(|burst| is_same(burst)) {
            Some(burst) if is_full || seen.time.since(burst.run.last.time) < SILENCE => {
                burst.run.extend(seen);
            }
            _ if is_full => {}
            _ => self.bursts.push(Burst { from, refusal, run: Run::new(seen) }),
        }
    }

    /// Notes packets that are missing from the capture.
    pub(super) fn missing(&mut self, missing: &Missing) {
        let sent_by = missing.acknowledged.map_or(self.latest, |seen| seen.time.min(self.latest));
        self.lack(missing.from, sent_by);
    }

    /// Notes that packets which an end sent by this time are missing from the capture.
    fn lack(&mut self, from: End, sent_by: Time) {
        self.lacking[from] = self.lacking[from].max(Some(sent_by));
        self.lacked[from] |= self.first_reply.is_none();
        self.credits.become_blind();
    }

    /// Notes that a Send that counted as a call is a reply.
    pub(super) fn corrected(&mut self) {
        self.credits.become_blind();
    }

    /// Takes a transaction that ended.
    pub(super) fn transaction(&mut self, transaction: &Transaction) {
        let is_backward = transaction.direction == Direction::Backward;
        let is_cut = transaction.call.is_some() && transaction.procedure.is_none();
        if is_backward && is_cut && !self.roles_known {
            self.note_other_caller();
        }
        let call = Call::of(transaction).filter(|_| self.is_call(transaction));
        if is_backward {
            self.passed(call.filter(|call| call.waited() >= SILENCE));
            return;
        }
        let is_lossy = self.lacking.iter().any(Option::is_some);
        failing::add(&mut self.failing, transaction, is_lossy);
        let reply = transaction.reply.as_ref().map(|message| message.seen);
        let reply = reply.filter(|reply| !self.is_deaf_at(*reply));
        if let Some(reply) = reply {
            self.replied(reply, transaction.call.as_ref().map(|call| call.seen.time));
        }
        let Some(mut call) = call else { return };
        if let (None, Some(vain)) = (reply, call.reply.take()) {
            call.until = Some(vain.time);
        } else {
            call.reply = reply;
        }
        // A call that was sent again has waited since its first transmission.
        if let Some(at) = self.unanswered.iter().position(|other| other.xid == call.xid) {
            call.sent_before(&self.unanswered.remove(at));
        }
        self.used(call.seen, call.xid);
        if self.calls.len() < MOST {
            self.calls.push(call);
        }
        if call.is_complete {
            if self.first_call.is_none_or(|first| call.seen.frame < first.frame) {
                self.first_call = Some(call.seen);
            }
            self.waited(&call);
            self.passed(Some(call).filter(|call| call.waited() >= SILENCE && call.is_passed(self.answered)));
        }
        if let Some(reply) = reply.filter(|_| !transaction.clock_stepped) {
            self.answered = self.answered.max(Some(call.seen.time));
            self.arrivals.answered(call, reply);
        }
        let is_open = matches!(transaction.outcome, Outcome::NoReply | Outcome::CutOff);
        if (is_open || call.reply.is_none() && transaction.reply.is_some()) && self.unanswered.len() < MOST {
            self.unanswered.push(call);
        }
        self.recovery.add(transaction, call.seen, reply);
    }

    /// Whether a reply in this packet reaches no requester: it has closed the connection, or an end has
    /// reset it.
    fn is_deaf_at(&self, reply: Seen) -> bool {
        let is_over = |closed: &Closed| closed.by_requester == Some(true) || closed.how == Closing::Reset;
        self.disconnected
            .as_ref()
            .filter(|closed| is_over(closed))
            .is_some_and(|closed| closed.seen.frame < reply.frame)
    }

    /// Whether a transaction without a reply certainly has a call of its direction.
    ///
    /// A message in a Read chunk that was not read is a call only if the requester sent it. It may also
    /// be the reply to a call that the capture lacks. If a snap length cut the program, the end that
    /// called first is the requester only if the other end does not call.
    fn is_call(&self, transaction: &Transaction) -> bool {
        let Some(call) = transaction.call.as_ref().filter(|_| transaction.procedure.is_none()) else {
            return true;
        };
        let shows_type = call.rpc_xid.is_some() && call.procedure != Procedure::Nomsg;
        transaction.direction == Direction::Forward && (self.roles_known || shows_type && !self.both_call)
    }

    /// Notes that both ends call. The calls so far may be callbacks.
    fn note_other_caller(&mut self) {
        if !core::mem::replace(&mut self.both_call, true) {
            self.unanswered.clear();
            self.gaps.clear();
            self.passed.clear();
        }
    }

    /// Notes a call.
    fn used(&mut self, seen: Seen, xid: Xid) {
        if self.first_used.is_none_or(|(first, _)| seen.frame < first.frame) {
            self.first_used = Some((seen, xid));
        }
        if self.last_used.is_none_or(|(last, _)| last.frame < seen.frame) {
            self.last_used = Some((seen, xid));
        }
    }

    /// Adds a call that waited although others were answered.
    fn passed(&mut self, call: Option<Call>) {
        if self.passed.len() < MOST {
            self.passed.extend(call.filter(|call| call.is_complete));
        }
    }

    /// Takes a reply to a call that was sent at `called`.
    fn replied(&mut self, reply: Seen, called: Option<Time>) {
        self.first_reply.get_or_insert(reply);
        let last = self.last_reply.replace(reply).unwrap_or(reply);
        if reply.time < last.time {
            self.last_reply = Some(last);
        }
        if reply.time.since(last.time) >= SILENCE {
            self.add_gap(Gap {
                start: last,
                end: reply,
                waiting: None,
                calls: 0,
                answered: self.answered,
                ended_by: called,
                moved: 0,
            });
        }
    }

    /// Adds a gap, in the order of their ends. If there are too many, the shortest is removed.
    fn add_gap(&mut self, gap: Gap) {
        if self.gaps.len() >= MOST {
            let shortest = (0..self.gaps.len()).min_by_key(|at| {
                let gap = &self.gaps[*at];
                (gap.lost().map_or(0, |(_, length)| length), *at)
            });
            if let Some(shortest) = shortest {
                self.gaps.remove(shortest);
            }
        }
        let at = self.gaps.partition_point(|other| other.end.frame < gap.end.frame);
        self.gaps.insert(at, gap);
    }

    /// Counts a call in each silence during which it waited. A call without a reply waits until the
    /// connection ends.
    fn waited(&mut self, call: &Call) {
        let later = self.gaps.iter_mut().rev().take_while(|gap| call.seen.frame < gap.end.frame);
        later.for_each(|gap| gap.count(call));
    }

    /// Whether an end repeated a packet that was not acknowledged so far.
    pub(super) fn is_repeating(&self) -> bool {
        self.arrivals.has_pending() || self.retries.iter().any(Option::is_some)
    }

    /// Takes the acknowledged positions, before the next observation. A repeated packet at or before
    /// them has arrived.
    pub(super) fn acknowledged(&mut self, acknowledged: [Option<Position>; 2]) {
        if let Some(known) = acknowledged[self.requester.other()].filter(|_| self.arrivals.has_pending()) {
            let late = self.arrivals.acknowledged(known, self.is_unheard());
            self.arrived_late(&late);
        }
        // An acknowledgement after the connection was closed comes too late.
        for end in End::BOTH.into_iter().filter(|_| self.disconnected.is_none()) {
            if self.retries[end].is_some_and(|retry| retry.is_answered(acknowledged[end])) {
                self.retries[end] = None;
            }
        }
    }

    /// Moves replies to the packets with which they arrived.
    fn arrived_late(&mut self, late: &[Late]) {
        late.iter().for_each(|late| self.move_reply(late));
        for Late { arrived, call } in late {
            let first = call.reply.map_or(0, |reply| reply.frame);
            let after = self.gaps.iter_mut().filter(|gap| gap.end.frame > first);
            after.for_each(|gap| gap.count(&Call { reply: Some(*arrived), ..*call }));
        }
    }

    /// Moves the reply to a call to the packet with which it arrived.
    fn move_reply(&mut self, late: &Late) {
        let Late { arrived, call } = *late;
        self.gaps.retain(|gap| call.reply != Some(gap.end));
        let later = self.last_reply.filter(|last| last.frame > arrived.frame);
        if self.first_reply == call.reply {
            self.first_reply = Some(arrived);
        }
        let before = self.arrivals.arrived_before(arrived);
        self.last_reply = before.filter_map(|other| other.reply).max_by_key(|reply| reply.frame);
        let called = self.arrivals.arrived_before(arrived).map(|other| other.seen.time).max();
        let answered = core::mem::replace(&mut self.answered, called);
        self.replied(arrived, Some(call.seen.time));
        (self.answered, self.last_reply) = (answered, later.or(self.last_reply));
        let overlapping = |gap: &&mut Gap| gap.start.frame < arrived.frame && gap.end.frame > arrived.frame;
        self.gaps.iter_mut().filter(overlapping).for_each(|gap| gap.begin_at(arrived));
    }

    /// Takes the hosts that sent anything and the acknowledged positions, when the connection ends.
    pub(super) fn ending(&mut self, captured_hosts: [bool; 2], acknowledged: [Option<Position>; 2]) {
        self.captured_hosts = captured_hosts;
        if let Some(acknowledged) = acknowledged[self.requester.other()] {
            self.arrivals.ended(acknowledged);
        }
    }

    /// Whether packets were lost right before it was closed: an end asked for packets again.
    pub(super) fn lost_packets_at_end(&self) -> bool {
        let Some(closed) = self.disconnected else { return false };
        let is_last = |burst: &Burst| {
            burst.refusal == Refusal::OutOfSequence && closed.seen.time.since(burst.run.last.time) < SILENCE
        };
        self.bursts.iter().any(is_last)
    }

    /// Whether its queue pairs have failed: the requester repeated a packet to the end in vain, or an
    /// end refused an operation.
    pub(super) fn has_failed(&self) -> bool {
        self.retries[self.requester].is_some_and(|retry| retry.run.count > RETRIES) || self.fatal().is_some()
    }

    /// Whether the requester repeated a packet to the end, for longer than [`SILENCE`]. It stops when the
    /// packet is acknowledged, whether the capture has the acknowledgement or not.
    pub(super) fn is_retrying(&self) -> bool {
        self.retries[self.requester]
            .is_some_and(|retry| retry.run.count > RETRIES && retry.run.length() >= SILENCE)
    }

    /// Whether the requester received nothing while the responder repeated a packet, although packets
    /// of it arrived: it repeated packets that the responder acknowledged, had no Receive posted, or
    /// asked for packets again.
    pub(super) fn is_unheard(&self) -> bool {
        let retry = self.retries[self.requester.other()];
        let first = retry.map(|retry| retry.run.first.frame);
        let Some(first) = first.into_iter().chain(self.arrivals.first_repeated()).min() else { return false };
        let is_after = |frame: &u64| *frame > first;
        let is_refused = |burst: &&Burst| {
            burst.from == self.requester
                && !matches!(burst.refusal, Refusal::Failed(_))
                && is_after(&burst.run.last.frame)
        };
        let refused: u64 = self.bursts.iter().filter(is_refused).map(|burst| burst.run.count).sum();
        // It would have acknowledged one of several repetitions.
        let is_enough =
            if retry.is_some_and(|retry| retry.run.count > RETRIES) { refused > 0 } else { refused > 1 };
        self.unheard.iter().all(is_after) || is_enough
    }

    /// The calls whose reply may not have arrived: the responder repeated a packet at or before the
    /// reply to the end, or the requester asked for it again, and no acknowledgement came.
    pub(super) fn unconfirmed(&self) -> impl Iterator<Item = &Call> {
        self.summary.iter().flat_map(|_| self.arrivals.lost(self.repeated_since()))
    }

    /// The first transmission of the packet that the responder repeats.
    fn repeated_since(&self) -> Option<Seen> {
        self.retries[self.requester.other()].map(|retry| retry.run.first)
    }

    /// The same connection if the replies to the [unconfirmed](History::unconfirmed) calls were lost.
    pub(super) fn without_unconfirmed(&self) -> History {
        let mut new = self.clone();
        let is_lost = |seen: Seen| self.unconfirmed().any(|call| call.reply == Some(seen));
        let until = Some(self.latest);
        new.unanswered.extend(self.unconfirmed().map(|call| Call {
            reply: None,
            until,
            is_complete: true,
            ..*call
        }));
        new.arrivals.forget_lost(self.repeated_since());
        new.gaps.retain(|gap| !is_lost(gap.end));
        for gap in new.gaps.iter_mut().filter(|gap| is_lost(gap.start)) {
            let before = new.arrivals.arrived_before(gap.end);
            let last = before.filter_map(|call| call.reply).max_by_key(|reply| reply.frame);
            gap.start = last.unwrap_or(gap.start);
        }
        new.first_reply = new.first_reply.filter(|reply| !is_lost(*reply));
        new.last_reply = new.arrivals.last_reply();
        new.answered = new.arrivals.last_call();
        new
    }

    /// Takes the connection when it has ended.
    pub(super) fn ended(&mut self, connection: &Connection) {
        self.summary = Some(Summary::of(connection));
    }

    /// Takes the facts of the same connection under another number.
    pub(super) fn join(&mut self, other: History) {
        self.calls.extend(other.calls);
        self.calls.truncate(MOST);
        other.first_used.into_iter().chain(other.last_used).for_each(|(seen, xid)| self.used(seen, xid));
        self.unanswered.extend(other.unanswered);
        self.unanswered.truncate(MOST);
        self.bursts.extend(other.bursts);
        self.bursts.truncate(MOST);
        self.credits.become_blind();
    }

    /// Forgets everything that ended before this time.
    pub(super) fn forget(&mut self, before: Time) {
        self.gaps.retain(|gap| gap.end.time >= before);
        self.bursts.retain(|burst| burst.run.last.time >= before);
        self.credits.forget(before);
        self.failing.retain(|failing| failing.last().time >= before);
        self.passed.retain(|call| call.seen.time.plus(call.waited()) >= before);
        // A call that no reply followed is part of an ongoing outage.
        let last = self.last_reply.map(|reply| reply.time);
        self.unanswered
            .retain(|call| call.seen.time >= before || last.is_none_or(|last| last <= call.seen.time));
    }

    /// Whether it is over, or both ends know that it was made. Until then, requests and answers may be
    /// repeated.
    pub(super) fn is_settled(&self) -> bool {
        let is_made = self.setup.ready.or(self.first_reply).is_some() || self.first_used.is_some();
        // An MPA Reply arrives, or TCP repeats it.
        let is_answered = self.setup.expects.is_some() && self.setup.reply.is_some();
        self.summary.is_some() || is_made || is_answered
    }

    /// The NAK or Terminate that ends the connection: whether the requester sent it, and its cause.
    pub(super) fn fatal(&self) -> Option<(Seen, bool, Failure)> {
        self.bursts.iter().find_map(|burst| match burst.refusal {
            Refusal::Failed(failure) => Some((burst.run.last, burst.from == self.requester, failure)),
            _ => None,
        })
    }

    /// Whether packets that `end` sent at `since` or later may be missing from the capture.
    pub(super) fn lacks(&self, end: End, since: Time) -> bool {
        self.lacking[end].is_some_and(|at| at >= since)
    }

    /// Whether packets that `end` sent before the first captured reply may be missing from the
    /// capture.
    pub(super) fn lacked(&self, end: End) -> bool {
        self.lacked[end]
    }
}

/// Whether two NAKs are of the same kind. The delay in an RNR NAK is ignored.
fn is_like(one: Refusal, other: Refusal) -> bool {
    match (one, other) {
        (Refusal::ReceiverNotReady(_), Refusal::ReceiverNotReady(_)) => true,
        _ => one == other,
    }
}
