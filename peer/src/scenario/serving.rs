//! Performs a scenario of the responder's side: answers all calls of a client correctly, except
//! one.

mod perform;

use super::Scenario;
use super::message::Message;
use super::outcome::{self, Alive, Outcome, Verdict};
use super::reaction::{How, Observed};
use super::record::Record;
use super::response::{Awaited, Invalidated, ReplyChunk, Side};
use super::seen;
use super::step::{Step, Until};
use crate::cm::Closed;
use crate::endpoint::{self, ConnectionId};
use crate::nfs3;
use crate::peer::{Event, Peer};
use crate::rc::{PostError, QueueEvent, WorkId};
use crate::rpcrdma::{self, Called, Composed, Reply, Sent, SessionError};
use crate::time::Instant;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;
use rdmascope_wire::rpc::{self, Kind, program};
use rdmascope_wire::rpcrdma::{Header, Procedure};
use rdmascope_wire::xdr::Reader;
use rdmascope_wire::{Layer, Rkey, Xid};

/// Most connections with a known handle from an earlier call.
const MOST_EARLIER: usize = endpoint::MOST_CONNECTIONS;

/// The state of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    /// Waits for the call that the scenario acts on.
    Call,
    /// Ready for the next step.
    Nothing,
    /// Waits for the time.
    Time,
    /// Waits for the reactions to judge.
    Observe(Until),
    /// After the steps: waits for the next call.
    NextCall,
    /// Done.
    Over,
}

/// The call that the scenario acts on.
#[derive(Clone, Debug)]
struct Subject {
    connection: ConnectionId,
    remote: IpAddr,
    xid: Xid,
    /// The name of the procedure.
    name: String,
    /// Its correct reply. The first reply writes the data of its chunks; the first correct one
    /// invalidates its handle.
    right: Composed,
    /// Whether the call has a reply that ends it, correct or not, or was repeated and answered.
    is_answered: bool,
    is_repeated: bool,
    /// Whether RDMA_DONE arrived for it, which ends the call.
    is_done: bool,
    /// Whether the connection is open.
    usable: bool,
    /// Whether the client disconnected after it had all its replies.
    is_finished: bool,
    /// Later calls of the client on this connection, and on others.
    calls: u64,
    calls_elsewhere: u64,
}

/// Runs one scenario of the responder's side, driven by the client's calls with their correct
/// replies, events and the time.
pub struct Serving {
    scenario: Scenario,
    /// Longest wait for the next call at the end.
    patience: Duration,
    step: usize,
    waiting: Waiting,
    deadline: Option<Instant>,
    skipped: u32,
    subject: Option<Subject>,
    /// A handle advertised by an earlier call, by connection.
    earlier: BTreeMap<ConnectionId, Rkey>,
    /// Messages of `send` steps, by XID.
    messages: BTreeMap<u32, Message>,
    next_xid: u32,
    /// RDMA WRITEs of the scenario.
    operations: Vec<WorkId>,
    record: Record,
}

impl Serving {
    /// Creates a run that begins with the first matching call. `None`: the scenario is of the other
    /// side.
    pub fn new(scenario: Scenario, patience: Duration) -> Option<Serving> {
        (scenario.side == Side::Responder).then(|| Serving {
            scenario,
            patience,
            step: 1,
            waiting: Waiting::Call,
            deadline: None,
            skipped: 0,
            subject: None,
            earlier: BTreeMap::new(),
            messages: BTreeMap::new(),
            next_xid: 0,
            operations: Vec::new(),
            record: Record::new(None),
        })
    }

    /// Returns the scenario.
    pub const fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Returns whether it is over.
    pub fn is_over(&self) -> bool {
        self.waiting == Waiting::Over
    }

    /// Returns the client once one has made a matching call.
    pub fn client(&self) -> Option<IpAddr> {
        self.subject.as_ref().map(|subject| subject.remote)
    }

    /// Returns the next time at which to call `advance`.
    pub const fn next_deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Returns the outcome once it is over.
    pub fn outcome(&self) -> Option<Outcome> {
        self.is_over().then(|| self.record.outcome(|| self.judge()))
    }

    fn judge(&self) -> (Verdict, String) {
        // A client without further calls proves nothing about the connection.
        let alive = if self.record.alive == Alive::NotAsked { Alive::OnThis } else { self.record.alive };
        let (verdict, reason) = outcome::judge(&self.scenario, &self.record.observed, alive);
        let reason = if reason.is_empty() {
            ""
        } else {
            "the reaction is allowed, but the next call arrived on a new connection"
        };
        (verdict, reason.to_string())
    }

    /// Ends the scenario early.
    pub fn interrupt(&mut self) {
        if !self.is_over() {
            let reason = match self.subject {
                None => "no matching call arrived",
                Some(_) => "interrupted before its end",
            };
            self.stop(Verdict::NotApplicable, reason.to_string());
        }
    }

    fn stop(&mut self, verdict: Verdict, reason: String) {
        self.record.stopped = Some((verdict, reason));
        self.end();
    }

    fn end(&mut self) {
        self.waiting = Waiting::Over;
        self.deadline = None;
    }

    /// Answers a call with its correct reply. Returns `None` if the scenario acts on the call
    /// instead.
    pub fn answer(
        &mut self,
        peer: &mut Peer,
        now: Instant,
        connection: ConnectionId,
        called: &Called,
        mut reply: Reply,
    ) -> Result<Option<Sent>, SessionError> {
        let edit = reply.edit.take();
        let remote = peer.endpoint().remote(connection);
        let not_ready = SessionError::Post(PostError::NotReady);
        let (session, endpoint) = peer.session_mut(connection).ok_or(not_ready)?;
        let Some(mut composed) = session.compose(endpoint, called.xid, &reply)? else {
            return Ok(Some(Sent::ErrorChunk));
        };
        if let Some(edit) = edit {
            edit(&mut composed.header, &mut composed.payload);
        }
        let first = composed.offered_writes.iter().chain(&composed.offered_reply).flatten().next().copied();
        let name = name(&called.message);
        match (remote, self.acts_on(connection, name.as_deref(), &composed)) {
            (Some(remote), true) => {
                let name = name.unwrap_or_else(|| "a call".to_string());
                let xid = called.xid;
                self.subject = Some(Subject {
                    connection,
                    remote,
                    xid,
                    name,
                    right: composed,
                    is_answered: false,
                    is_repeated: false,
                    is_done: false,
                    usable: true,
                    is_finished: false,
                    calls: 0,
                    calls_elsewhere: 0,
                });
                self.waiting = Waiting::Nothing;
                self.advance(peer, now);
                Ok(None)
            }
            _ => {
                if let Some(segment) = first
                    && (self.earlier.len() < MOST_EARLIER || self.earlier.contains_key(&connection))
                {
                    self.earlier.insert(connection, segment.handle);
                }
                session.send_composed(endpoint, composed).map(Some)
            }
        }
    }

    /// Returns whether the scenario acts on this call.
    fn acts_on(&mut self, connection: ConnectionId, name: Option<&str>, right: &Composed) -> bool {
        let Some(Step::Call(awaited)) = self.scenario.steps.first() else { return false };
        let Awaited { procedure, chunk, long, skip } = awaited;
        let has = |chunk: &ReplyChunk| match chunk {
            ReplyChunk::Write => right.header.writes.iter().any(|chunk| !chunk.is_empty()),
            ReplyChunk::Reply => right.header.reply.as_ref().is_some_and(|chunk| !chunk.is_empty()),
        };
        let fits = self.waiting == Waiting::Call
            && procedure
                .as_ref()
                .is_none_or(|wanted| name.is_some_and(|name| name.eq_ignore_ascii_case(wanted)))
            && chunk.as_ref().is_none_or(has)
            && long.is_none_or(|long| long == (right.header.procedure == Procedure::Nomsg))
            && (self.earlier.contains_key(&connection) || !self.wants_earlier());
        if fits && self.skipped < *skip {
            self.skipped += 1;
            return false;
        }
        fits
    }

    /// Returns whether the scenario invalidates a handle of an earlier call on the connection.
    fn wants_earlier(&self) -> bool {
        let mut steps = self.scenario.steps.iter();
        steps.any(|step| matches!(step, Step::Reply(reply) if reply.invalidate == Some(Invalidated::Earlier)))
    }

    /// Handles an event of the peer. A call goes to [`answer`](Serving::answer) afterwards.
    pub fn handle(&mut self, peer: &Peer, event: &Event) {
        if let Event::Endpoint(endpoint::Event::Closed { connection, .. }) = event {
            self.earlier.remove(connection);
        }
        let Some(subject) = &mut self.subject else { return };
        match event {
            Event::Endpoint(endpoint::Event::Queue { connection, event })
                if *connection == subject.connection =>
            {
                self.queue_event(event);
            }
            Event::Endpoint(endpoint::Event::Closed { connection, why })
                if *connection == subject.connection =>
            {
                let was_usable = core::mem::replace(&mut subject.usable, false);
                // A client that has all its replies, and made another call if that is observed, has
                // finished its work.
                let has_continued = subject.calls > 0 || self.waiting == Waiting::NextCall;
                subject.is_finished =
                    *why == Closed::Remote && was_usable && subject.is_answered && has_continued;
                let reaction = match why {
                    Closed::Remote if was_usable && !subject.is_finished => {
                        Observed::Closed(How::Disconnected, None)
                    }
                    Closed::Local if was_usable => Observed::DisconnectAnswered,
                    Closed::LocalUnanswered if was_usable => Observed::DisconnectUnanswered,
                    _ => return,
                };
                self.record.react(reaction);
            }
            Event::Rpc { connection, event: rpcrdma::Event::Called(called) } => {
                if *connection == subject.connection {
                    subject.calls += 1;
                    let again = called.xid == subject.xid;
                    // The repeated call goes to `answer`, like any other.
                    subject.is_answered |= again;
                    subject.is_repeated |= again;
                    // After the repeated call the client has its reply, so later calls prove
                    // nothing.
                    if again || !subject.is_repeated {
                        self.record.react(Observed::Call { again });
                    }
                } else if peer.endpoint().remote(*connection) == Some(subject.remote) {
                    subject.calls_elsewhere += 1;
                }
            }
            _ => {}
        }
    }

    fn queue_event(&mut self, event: &QueueEvent) {
        match event {
            QueueEvent::Received(received) => {
                if let Some(reaction) = self.message(&received.bytes) {
                    if let (Observed::Done, Some(subject)) = (&reaction, &mut self.subject) {
                        subject.is_done = true;
                        subject.is_answered = true;
                    }
                    self.record.react(reaction);
                }
            }
            QueueEvent::Completed { work, outcome: Ok(_) } if self.operations.contains(work) => {
                self.record.react(Observed::Completed);
            }
            QueueEvent::Failed(failure) => {
                let Some(subject) = &mut self.subject else { return };
                subject.usable = false;
                if let Some((how, code)) = How::of(failure) {
                    self.record.react(Observed::Closed(how, code));
                }
            }
            _ => {}
        }
    }

    /// Classifies a message of the client. Returns `None` for a call, which the session reports.
    fn message(&self, bytes: &[u8]) -> Option<Observed> {
        let Some(subject) = &self.subject else { return None };
        let header = match Header::parse(bytes) {
            Ok(header) => header,
            Err(_) => return Some(Observed::Message(format!("a message of {} bytes", bytes.len()))),
        };
        let is_ours = self.messages.contains_key(&header.xid.0);
        let stream = bytes.get(header.length..).unwrap_or_default();
        // XIDs of the two directions are independent (RFC 8167, section 2.4.1): the client may use
        // one that this side has used.
        let is_call = match header.procedure {
            Procedure::Msg => matches!(rpc::peek(stream), Ok((_, Kind::Call))),
            Procedure::Nomsg => !header.reads.is_empty() && !is_ours,
            _ => false,
        };
        if is_call {
            return None;
        }
        if header.procedure == Procedure::Done && header.xid == subject.xid {
            return Some(Observed::Done);
        }
        if is_ours {
            return Some(seen::message(bytes, false, false, &self.messages, |_, _, _| None).1);
        }
        if let Some(error) = header.error {
            let same_version =
                (header.xid == subject.xid).then_some(header.version == rdmascope_wire::rpcrdma::VERSION);
            return Some(Observed::Error { error, same_version, credits: header.credits });
        }
        Some(Observed::Message(format!("{} that is not a call", header.procedure)))
    }

    /// Advances as far as possible at `now`.
    pub fn advance(&mut self, peer: &mut Peer, now: Instant) {
        loop {
            let due = self.deadline.is_some_and(|deadline| deadline <= now);
            match self.waiting {
                Waiting::Nothing => match self.scenario.steps.get(self.step).cloned() {
                    Some(step) => {
                        self.step += 1;
                        self.perform(peer, now, &step);
                    }
                    None => {
                        if let Some(subject) = &mut self.subject {
                            subject.calls = 0;
                        }
                        self.waiting = Waiting::NextCall;
                        self.deadline = Some(now.plus(self.patience));
                    }
                },
                Waiting::Time if due => self.proceed(),
                Waiting::Observe(until) => {
                    let is_over = due || self.is_finished();
                    if !self.record.observe(until, is_over) {
                        return;
                    }
                    self.proceed();
                }
                Waiting::NextCall => {
                    let Some(subject) = &self.subject else { return self.end() };
                    let found = match subject {
                        Subject { usable: true, calls: 1.., .. } => Alive::OnThis,
                        Subject { usable: false, calls_elsewhere: 1.., .. } => Alive::OnNew,
                        // It made another call, and has finished its work.
                        Subject { is_finished: true, .. } if self.observed_next_call() => Alive::OnThis,
                        Subject { is_finished: true, .. } => Alive::NotAsked,
                        _ if due => Alive::NotAsked,
                        _ => return,
                    };
                    self.record.alive = found;
                    self.end();
                }
                _ => return,
            }
        }
    }

    fn proceed(&mut self) {
        self.waiting = Waiting::Nothing;
        self.deadline = None;
    }

    /// Returns whether the client disconnected with all its replies.
    fn is_finished(&self) -> bool {
        self.subject.as_ref().is_some_and(|subject| subject.is_finished)
    }

    /// Returns whether another call on this connection was observed.
    fn observed_next_call(&self) -> bool {
        self.record.observed.iter().any(|one| matches!(one, Observed::Call { again: false }))
    }
}

/// Returns the procedure of an NFS call.
fn name(message: &[u8]) -> Option<String> {
    let call = rpc::Call::parse(&mut Reader::new(message, Layer::Rpc)).ok()?;
    match (call.program, call.version, call.procedure) {
        (program::NFS, nfs3::VERSION, number) => Some(nfs3::Procedure::from_number(number)?.to_string()),
        (program::NFS, _, 0) => Some(nfs3::Procedure::Null.to_string()),
        _ => None,
    }
}
