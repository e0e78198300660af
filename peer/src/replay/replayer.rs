//! Makes the calls of a recording again and compares the replies.

use super::compare::{self, Comparison, Message};
use super::conveyance::{self, Conveyed, Forms};
use super::directory::{self, Listing, Listings};
use super::fault::Fault;
use super::fields;
use super::outcome::{Outcome, Subject, Verdict};
use super::recording::{Answer, Call, Recording};
use super::slots::{self, Room, Sequence, Slots, Taken};
use super::substitute::{Names, Substituted};
use crate::cm::Closed;
use crate::endpoint::{self, ConnectionId};
use crate::peer::{Event, Peer};
use crate::rpcrdma::{self, Replied};
use crate::time::{Instant, earlier};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;
use rdmascope_wire::Xid;
use rdmascope_wire::private_data::Negotiated;

mod callback;
mod concurrent;
mod returned;
mod steps;

use returned::Return;
use steps::{Step, steps};

/// The most calls on one connection that wait for credits or for their reply.
pub const MOST_CALLS_WAITING: usize = rpcrdma::MOST_CALLS;

/// The times at which calls are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timing {
    /// As soon as the replies that precede the call in the recording have arrived.
    #[default]
    Fastest,
    /// The same, but not earlier after the first call than in the recording.
    Recorded,
}

/// The configuration of a replay.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address of this end.
    pub local: IpAddr,
    /// The address of the target.
    pub remote: IpAddr,
    /// The target's RDMA CM port.
    pub port: u16,
    /// The times at which calls are made.
    pub timing: Timing,
    /// How long to wait for a connection, and for each reply.
    pub timeout: Duration,
    /// How long to wait, before closing a connection, for optional messages: replies to calls that
    /// have none in the recording, and calls of the target.
    pub linger: Duration,
    /// The XID of the first call. Calls get new XIDs, because the target may still have replies of
    /// an earlier run in its reply cache.
    pub first_xid: Xid,
    /// Recorded file handles that no recorded reply introduces, each with the target's handle.
    pub handles: Vec<(Vec<u8>, Vec<u8>)>,
    /// A forward call, as an index of [`Recording::calls`], and the fault to inject into it.
    pub fault: Option<(usize, Fault)>,
}

const INCOMPLETE: &str = "the recording lacks part of the reply";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    None,
    /// With the time at which the attempt is given up.
    Requested(ConnectionId, Instant),
    Open(ConnectionId),
    Over,
}

/// A call that was made.
#[derive(Clone, Debug)]
struct Sent {
    call: usize,
    at: Instant,
    unknown: Vec<(&'static str, String)>,
    /// The slot that it uses.
    taken: Option<Taken>,
}

/// Makes the calls of a recording; see the [module](super).
pub struct Replayer {
    recording: Arc<Recording>,
    options: Options,
    steps: VecDeque<Step>,
    links: Vec<Link>,
    names: Names,
    slots: Slots,
    /// Delegations to return, and the number of calls that returned one.
    returns: Vec<Return>,
    returned: u32,
    listings: Listings,
    /// For each call, whether it changes a file that other outstanding calls use, or uses a file
    /// that another one changes.
    concurrent: Vec<bool>,
    /// Outstanding calls, by connection and XID.
    waiting: BTreeMap<(usize, Xid), Sent>,
    /// For each call, whether it has ended.
    done: Vec<bool>,
    /// The backward calls.
    backward: Vec<usize>,
    outcomes: VecDeque<Outcome>,
    /// The time of the first call, now and in the recording.
    started: Option<(Instant, u64)>,
    /// When to stop waiting for optional messages.
    lingers: Option<Instant>,
}

impl Replayer {
    /// A replayer of the forward calls of `recording`.
    pub fn new(recording: Arc<Recording>, options: Options) -> Replayer {
        let mut names = Names::default();
        for (recorded, live) in &options.handles {
            names.learn(fields::Kind::Handle, recorded, live);
        }
        Replayer {
            steps: steps(&recording),
            links: vec![Link::None; recording.connections.len()],
            done: vec![false; recording.calls.len()],
            backward: (0..recording.calls.len()).filter(|call| recording.calls[*call].backward).collect(),
            concurrent: concurrent::calls(&recording),
            recording,
            options,
            names,
            slots: Slots::default(),
            returns: Vec::new(),
            returned: 0,
            listings: Listings::default(),
            waiting: BTreeMap::new(),
            outcomes: VecDeque::new(),
            started: None,
            lingers: None,
        }
    }

    /// Whether all calls have ended.
    pub fn is_over(&self) -> bool {
        self.steps.is_empty()
    }

    /// The next outcome of a connection or call, in order of occurrence.
    pub fn poll_outcome(&mut self) -> Option<Outcome> {
        self.outcomes.pop_front()
    }

    /// The recorded connection of a live one.
    pub fn recorded(&self, connection: ConnectionId) -> Option<usize> {
        let is_it = |link: &Link| match link {
            Link::Requested(id, _) | Link::Open(id) => *id == connection,
            Link::None | Link::Over => false,
        };
        self.links.iter().position(is_it)
    }

    /// Handles an event of the peer.
    pub fn handle(&mut self, peer: &mut Peer, now: Instant, event: &Event) {
        match event {
            Event::Endpoint(endpoint::Event::Connected { connection }) => {
                let Some(index) = self.recorded(*connection) else { return };
                self.links[index] = Link::Open(*connection);
                let verdict = match self.recording.connections[index].rejected {
                    None => Verdict::Agrees(Comparison::equal()),
                    Some(reason) => {
                        Verdict::Otherwise { recorded: rejected(reason), live: "accepted".to_string() }
                    }
                };
                self.record(Subject::Connection(index), verdict);
            }
            Event::Endpoint(endpoint::Event::Closed { connection, why }) => {
                if let Some(index) = self.recorded(*connection) {
                    self.closed(index, why);
                }
            }
            Event::Endpoint(_) => {}
            Event::Rpc { connection, event } => {
                let Some(index) = self.recorded(*connection) else { return };
                match event {
                    rpcrdma::Event::Replied(replied) => {
                        let session = peer.session(*connection);
                        self.replied(index, now, replied, session.map(rpcrdma::Session::negotiated));
                    }
                    rpcrdma::Event::Error { xid, error, .. } => {
                        self.ended(index, *xid, now, |answer| match answer {
                            Answer::Error { error: recorded, .. } if recorded == error => {
                                Verdict::Agrees(Comparison::equal())
                            }
                            Answer::Error { error: recorded, .. } => {
                                conveyed(conveyance::instead(Err(*recorded), Err(*error)))
                            }
                            Answer::Reply { conveyance, .. } => {
                                conveyed(conveyance::instead(Ok(conveyance), Err(*error)))
                            }
                            _ => Verdict::Otherwise { recorded: answer.name(), live: error.to_string() },
                        });
                    }
                    rpcrdma::Event::Lost { xid } => {
                        let live = "the connection is lost".to_string();
                        self.ended(index, *xid, now, |answer| match answer {
                            Answer::Nothing => Verdict::Unanswered,
                            _ => Verdict::Otherwise { recorded: answer.name(), live },
                        });
                    }
                    rpcrdma::Event::Discarded { xid: Some(xid), why, .. }
                        if self.waiting.contains_key(&(index, *xid)) =>
                    {
                        if let Some((session, endpoint)) = peer.session_mut(*connection) {
                            session.cancel(endpoint, *xid);
                        }
                        let live = format!("an invalid reply: {why}");
                        self.ended(index, *xid, now, |answer| Verdict::Otherwise {
                            recorded: answer.name(),
                            live,
                        });
                    }
                    rpcrdma::Event::Called(called) => self.called(peer, index, *connection, called),
                    _ => {}
                }
            }
        }
    }

    /// Takes all steps that are due. Call it after each event, and at
    /// [`next_deadline`](Replayer::next_deadline).
    pub fn advance(&mut self, peer: &mut Peer, now: Instant) {
        self.expire(peer, now);
        if !self.all_returned(peer, now) {
            return;
        }
        while let Some(step) = self.steps.front().copied() {
            let is_done = match step {
                Step::Connect(index) => self.connect(peer, now, index),
                Step::Call(index) => self.call(peer, now, index),
                Step::Answer(index) => self.done[index],
                Step::Close(index) => self.close(peer, now, index),
            };
            if !is_done {
                return;
            }
            self.steps.pop_front();
        }
    }

    /// The next time at which [`advance`](Replayer::advance) must be called.
    pub fn next_deadline(&self) -> Option<Instant> {
        let requested = self.links.iter().filter_map(|link| match link {
            Link::Requested(_, until) => Some(*until),
            _ => None,
        });
        let calls = self.waiting.values().filter(|sent| self.is_due(sent)).map(|sent| self.until(sent));
        let due = match self.steps.front() {
            Some(Step::Call(index)) => self.due(*index),
            _ => None,
        };
        let returned = self.returns_until();
        earlier(earlier(earlier(requested.chain(calls).min(), due), self.lingers), returned)
    }

    fn until(&self, sent: &Sent) -> Instant {
        sent.at.plus(self.options.timeout)
    }

    /// Whether the recording has an answer to it.
    fn is_due(&self, sent: &Sent) -> bool {
        self.recording.calls[sent.call].answer.order().is_some()
    }

    /// The earliest time for a call.
    fn due(&self, index: usize) -> Option<Instant> {
        let (started, first) = self.started?;
        let since = Duration::from_nanos(self.recording.calls[index].time.saturating_sub(first));
        (self.options.timing == Timing::Recorded).then(|| started.plus(since))
    }

    fn record(&mut self, subject: Subject, verdict: Verdict) {
        self.outcomes.push_back(Outcome { subject, verdict, latency: None, unknown: Vec::new() });
    }

    /// Gives up connection attempts and calls whose time is over.
    fn expire(&mut self, peer: &mut Peer, now: Instant) {
        for index in 0..self.links.len() {
            if let Link::Requested(id, until) = self.links[index]
                && until <= now
            {
                // The connection may be closed already.
                let _ = peer.disconnect(id);
                self.closed(index, &Closed::NoAnswer);
            }
        }
        let late = self.waiting.iter().filter(|(_, sent)| self.is_due(sent) && self.until(sent) <= now);
        let late: Vec<(usize, Xid)> = late.map(|(key, _)| *key).collect();
        for (index, xid) in late {
            self.cancel(peer, index, xid);
            self.ended(index, xid, now, |answer| match answer {
                Answer::Unknown { .. } => Verdict::NotCompared(INCOMPLETE),
                _ => Verdict::Otherwise { recorded: answer.name(), live: "no reply in time".to_string() },
            });
        }
    }

    fn cancel(&self, peer: &mut Peer, index: usize, xid: Xid) {
        if let Link::Open(id) = self.links[index]
            && let Some((session, endpoint)) = peer.session_mut(id)
        {
            session.cancel(endpoint, xid);
        }
    }

    fn connect(&mut self, peer: &mut Peer, now: Instant, index: usize) -> bool {
        match self.links[index] {
            Link::None => {
                let Options { local, remote, port, timeout, .. } = self.options;
                match peer.connect(local, remote, port) {
                    Ok(id) => self.links[index] = Link::Requested(id, now.plus(timeout)),
                    Err(error) => {
                        self.links[index] = Link::Over;
                        self.record(Subject::Connection(index), Verdict::NotSent(error.to_string()));
                    }
                }
                false
            }
            Link::Requested(..) => false,
            Link::Open(_) | Link::Over => true,
        }
    }

    fn closed(&mut self, index: usize, why: &Closed) {
        let was = core::mem::replace(&mut self.links[index], Link::Over);
        let recorded = self.recording.connections[index].rejected;
        if let Link::Requested(..) = was {
            let verdict = match (why, recorded) {
                (Closed::Rejected { reason, .. }, Some(recorded)) if *reason == recorded => {
                    Verdict::Agrees(Comparison::equal())
                }
                _ => Verdict::Otherwise {
                    recorded: recorded.map_or_else(|| "accepted".to_string(), rejected),
                    live: match why {
                        Closed::Rejected { reason, .. } => rejected(*reason),
                        _ => "no answer".to_string(),
                    },
                },
            };
            self.record(Subject::Connection(index), verdict);
        }
    }

    fn call(&mut self, peer: &mut Peer, now: Instant, index: usize) -> bool {
        if self.due(index).is_some_and(|due| now < due) {
            return false;
        }
        let recording = Arc::clone(&self.recording);
        let call = &recording.calls[index];
        self.started.get_or_insert((now, call.time));
        let Link::Open(id) = self.links[call.connection] else {
            return self.not_made(index, Verdict::NotSent("the connection is not open".to_string()));
        };
        let fault = self.options.fault.filter(|(at, _)| *at == index).map(|(_, fault)| fault);
        if call.long && fault == Some(Fault::Short) {
            let why = "its Payload stream is in a chunk; the fault needs one in the Send";
            return self.not_made(index, Verdict::NotSent(why.to_string()));
        }
        let (call_fields, _) = fields::of_call(&call.message);
        let mut put = self.names.substitute(&call.message, &call.items, &call_fields);
        let sequence = Sequence::of(&call_fields, &call.message);
        if let Some((name, bytes)) = put.stateids.first() {
            let why = format!("{name} {bytes}: the target gave none in its place");
            sequence.inspect(|sequence| self.slots.pass(sequence));
            return self.not_made(index, Verdict::Skipped(why));
        }
        let mut taken = None;
        match sequence.map(|sequence| (sequence, self.slots.take(&sequence))) {
            Some((sequence, Room::Slot(slot))) => {
                let (number, id) = slot.live;
                sequence.put(&[number, id, slot.highest], &mut put.message);
                taken = Some(slot);
            }
            // The call is made when an outstanding one has ended.
            Some((_, Room::None)) if self.waiting.values().any(|sent| self.is_due(sent)) => return false,
            Some((_, Room::None)) => {
                let why = "all slots of its session are in use";
                return self.not_made(index, Verdict::NotSent(why.to_string()));
            }
            Some((_, Room::NoSession)) | None => {}
        }
        let xid = Xid(self.options.first_xid.0.wrapping_add(index as u32));
        set_xid(&mut put.message, xid);
        let sent = Sent { call: index, at: now, unknown: core::mem::take(&mut put.unknown), taken };
        match peer.call(id, made(call, put, fault)) {
            Ok(_) => {
                self.waiting.insert((call.connection, xid), sent);
                true
            }
            Err(error) => {
                taken.inspect(|taken| self.slots.end(taken, [true, false], None));
                self.not_made(index, Verdict::NotSent(error.to_string()))
            }
        }
    }

    /// Ends a call that is not made. Returns that its step is done.
    fn not_made(&mut self, index: usize, verdict: Verdict) -> bool {
        self.done[index] = true;
        self.record(Subject::Call(index), verdict);
        true
    }

    fn close(&mut self, peer: &mut Peer, now: Instant, index: usize) -> bool {
        let Link::Open(id) = self.links[index] else {
            // The target may have closed it while this end lingered.
            self.lingers = None;
            self.missing(index);
            return true;
        };
        let here = |(key, sent): (&(usize, Xid), &Sent)| (key.0 == index).then(|| (key.1, self.is_due(sent)));
        let open: Vec<(Xid, bool)> = self.waiting.iter().filter_map(here).collect();
        if open.iter().any(|(_, is_due)| *is_due) {
            return false;
        }
        let is_missing = self.expected(index).next().is_some();
        if !open.is_empty() || is_missing {
            let until = *self.lingers.get_or_insert(now.plus(self.options.linger));
            if now < until {
                return false;
            }
        }
        self.lingers = None;
        for (xid, _) in open {
            self.cancel(peer, index, xid);
            self.ended(index, xid, now, |answer| match answer {
                Answer::Unknown { .. } => Verdict::NotCompared(INCOMPLETE),
                _ => Verdict::Unanswered,
            });
        }
        self.missing(index);
        // The connection may be closed already.
        let _ = peer.disconnect(id);
        self.links[index] = Link::Over;
        true
    }

    /// Recorded calls of the target that have not arrived yet.
    fn expected(&self, index: usize) -> impl Iterator<Item = usize> {
        let is_of = move |call: &usize| self.recording.calls[*call].connection == index && !self.done[*call];
        self.backward.iter().copied().filter(is_of)
    }

    fn missing(&mut self, index: usize) {
        let missing: Vec<usize> = self.expected(index).collect();
        for call in missing {
            self.done[call] = true;
            self.record(Subject::Call(call), Verdict::NotCompared("the target did not make this call"));
        }
    }

    fn replied(&mut self, index: usize, now: Instant, replied: &Replied, agreed: Option<&Negotiated>) {
        if self.is_returned(index, replied.xid, Some(&replied.message)) {
            return;
        }
        let Some(sent) = self.waiting.get_mut(&(index, replied.xid)) else { return };
        let (number, taken) = (sent.call, sent.taken.take());
        let recording = Arc::clone(&self.recording);
        let call = &recording.calls[number];
        let mut stream = replied.message.clone();
        if let Some(taken) = taken {
            self.release_slot(call, &taken, &mut stream, &replied.items);
        }
        let verdict = match &call.answer {
            Answer::Reply { conveyance, .. } => {
                let forms = Forms {
                    offered: &call.shape,
                    conveyances: [conveyance, &replied.conveyance],
                    thresholds: [
                        recording.connections[call.connection].reply_inline_threshold(),
                        agreed.map(|agreed| agreed.reply_inline_threshold),
                    ],
                    agreed: agreed.is_none_or(|agreed| agreed.remote_invalidation),
                };
                let found = self.compare(number, call, (&stream, &replied.items), forms);
                if found.agrees() { Verdict::Agrees(found) } else { Verdict::Differs(found) }
            }
            Answer::Error { error, .. } => {
                conveyed(conveyance::instead(Err(*error), Ok(&replied.conveyance)))
            }
            Answer::Nothing => Verdict::NotCompared("the recording has no reply to this call"),
            Answer::Unknown { .. } => Verdict::NotCompared(INCOMPLETE),
        };
        self.ended(index, replied.xid, now, |_| verdict);
    }

    /// Compares a reply with the recorded one, and learns the target's names from it.
    fn compare(&mut self, number: usize, call: &Call, live: Message<'_>, forms: Forms<'_>) -> Comparison {
        let Answer::Reply { stream, items, .. } = &call.answer else { return Comparison::equal() };
        let (call_fields, called) = fields::of_call(&call.message);
        let mut other = Listing::default();
        let replies = [(&stream[..], &items[..]), live];
        let [recorded, now] = replies.map(|(stream, items)| fields::of_reply(called, stream, items));
        self.return_delegation(call, &recorded, &now, [stream, live.0]);
        let granted = slots::granted(&now, live.0);
        let listing = match directory::listed(&call_fields, &call.message) {
            Some((directory, from_beginning)) => self.listings.of(directory, from_beginning),
            None => &mut other,
        };
        let (names, slots) = (&mut self.names, &mut self.slots);
        let learn = |kind, recorded: &[u8], live: &[u8]| {
            if let (fields::Kind::Session, Some(granted)) = (kind, granted) {
                slots.created(recorded, granted);
            }
            names.learn(kind, recorded, live);
        };
        let concurrent = self.concurrent[number];
        compare::replies(called, (stream, items), live, (Some(forms), concurrent), listing, learn)
    }

    /// Releases the slot of an answered call. Sequence ID and slot ID in the reply become those of
    /// the recorded call, if they are those of the call that was sent.
    fn release_slot(&mut self, call: &Call, taken: &Taken, stream: &mut [u8], items: &[Vec<u8>]) {
        let (_, called) = fields::of_call(&call.message);
        let sequence =
            |stream: &[u8], items: &[Vec<u8>]| Sequence::of(&fields::of_reply(called, stream, items), stream);
        let live = sequence(stream, items);
        let was_accepted = match &call.answer {
            Answer::Reply { stream, items, .. } => sequence(stream, items).is_some(),
            _ => true,
        };
        self.slots.end(taken, [was_accepted, live.is_some()], live.as_ref());
        if let Some(live) = live.filter(|live| live.turn == taken.live) {
            let (number, id) = taken.recorded;
            live.put(&[number, id], stream);
        }
    }

    fn ended(&mut self, index: usize, xid: Xid, now: Instant, verdict: impl FnOnce(&Answer) -> Verdict) {
        if self.is_returned(index, xid, None) {
            return;
        }
        let Some(sent) = self.waiting.remove(&(index, xid)) else { return };
        self.done[sent.call] = true;
        // Without a reply, it is unknown whether the target executed the call; assume that it did.
        sent.taken.inspect(|taken| self.slots.end(taken, [true; 2], None));
        let verdict = verdict(&self.recording.calls[sent.call].answer);
        let came = !matches!(verdict, Verdict::Unanswered);
        self.outcomes.push_back(Outcome {
            subject: Subject::Call(sent.call),
            verdict,
            latency: came.then(|| now.since(sent.at)),
            unknown: sent.unknown,
        });
    }
}

fn rejected(reason: u16) -> String {
    format!("rejected, reason {reason}")
}

/// The call to send for a recorded one.
fn made(call: &Call, put: Substituted, fault: Option<Fault>) -> rpcrdma::Call {
    let most_reply = match &call.answer {
        Answer::Reply { stream, .. } => u32::try_from(stream.len()).unwrap_or(u32::MAX),
        _ => 0,
    };
    rpcrdma::Call {
        message: put.message,
        reduce: put.items,
        shape: Some(call.shape.clone()),
        most_reply,
        long: call.long,
        edit: fault.map(Fault::edit),
        ..rpcrdma::Call::default()
    }
}

/// The verdict for an answer with another RDMA procedure: nothing else can be compared.
fn conveyed(how: Conveyed) -> Verdict {
    Verdict::Differs(Comparison { conveyance: vec![how], ..Comparison::equal() })
}

/// Puts an XID into a message.
pub(super) fn set_xid(message: &mut [u8], xid: Xid) {
    if let Some(word) = message.first_chunk_mut() {
        *word = xid.0.to_be_bytes();
    }
}
