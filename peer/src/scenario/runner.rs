//! Performs a scenario of the requester's side.

mod injector;
mod perform;
mod session;

pub use injector::Injector;

use super::message::{Message, Registered};
use super::nfs41::{Nfs41, Request};
use super::outcome::{self, Alive, Outcome, Verdict};
use super::pattern::Pattern;
use super::payload;
use super::reaction::{How, Observed, PrivateDataSeen};
use super::record::Record;
use super::seen;
use super::step::{Offered, Until};
use super::{Need, Scenario};
use crate::cm::Closed;
use crate::endpoint::{self, ConnectionId, Event};
use crate::provider::Provider;
use crate::rc::{Operation, QueueEvent, WorkId};
use crate::time::Instant;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;
use rdmascope_wire::Rkey;
use rdmascope_wire::bth::NakCode;
use rdmascope_wire::rpcrdma::{Builder, Header, NFS_PORT, Procedure, Segment};

/// Most Read chunks of replies that are kept.
const MOST_OFFERS: usize = 4096;
/// Number and length of posted Receives. They are longer than advertised, to receive replies that
/// exceed the threshold.
const RECEIVES: usize = 256;
const RECEIVE_LENGTH: usize = 1 << 18;

/// The target of a scenario.
#[derive(Clone, Debug)]
pub struct Target {
    /// The local address.
    pub local: IpAddr,
    /// The target's address.
    pub remote: IpAddr,
    /// The target's port; 20049 is NFS/RDMA.
    pub port: u16,
    /// Longest wait for a connection and for the reply to a NULL.
    pub patience: Duration,
    /// Whether the target answers NFS calls other than NULL.
    pub nfs: bool,
    /// The first XID. Runs against one target should not share XIDs, because it may cache replies.
    pub first_xid: u32,
}

impl Target {
    /// Creates an NFS server as target, at port 20049 with two seconds of patience.
    pub const fn new(local: IpAddr, remote: IpAddr) -> Target {
        Target {
            local,
            remote,
            port: NFS_PORT,
            patience: Duration::from_secs(2),
            nfs: true,
            first_xid: 0x5ce0_0000,
        }
    }
}

/// The state of the runner.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Waiting {
    /// Ready for the next step.
    Nothing,
    /// Waits for the time.
    Time,
    /// Waits for a step's connection; `observe`: the reaction is judged.
    Connection { observe: bool },
    /// Waits for a required reaction.
    Expect(Pattern),
    /// Waits for the reactions to judge.
    Observe(Until),
    /// Waits for the reply to a NULL of the scenario.
    Probe(u32),
    /// Waits for the reply to a call of the NFSv4.1 session.
    Request(Request, u32),
    /// After the steps: waits for a new connection.
    LastConnection,
    /// After the steps: waits for the reply to NULL; `true`: on a new connection.
    LastProbe(u32, bool),
    /// Ready for the next call of the session.
    Planned,
    /// At the end, even of a stopped scenario: removes its state on the target.
    Leaving,
    /// At the end: waits for the end of the connection.
    End,
    /// Done.
    Over,
}

/// The first reply on a connection, which grants the credits for further calls (RFC 8166, section
/// 3.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FirstReply {
    /// No call was sent.
    NotCalled,
    /// A call was sent, and no message has arrived since.
    Awaited,
    /// A message arrived.
    Arrived,
}

/// Runs one scenario on a provider, driven by events and the time.
pub struct Runner {
    scenario: Scenario,
    target: Target,
    step: usize,
    waiting: Waiting,
    deadline: Option<Instant>,
    connection: Option<ConnectionId>,
    /// Whether the connection is established and not lost.
    usable: bool,
    first_reply: FirstReply,
    private_data: PrivateDataSeen,
    memory: BTreeMap<String, Registered>,
    /// Memory written by the target, by handle: the endpoint drops it when a SEND invalidates it.
    written: BTreeMap<Rkey, (u64, Vec<u8>)>,
    messages: BTreeMap<u32, Message>,
    answered: BTreeSet<u32>,
    /// RDMA READs and WRITEs of the scenario.
    operations: Vec<WorkId>,
    /// RDMA READs of a Read chunk that have not completed.
    pulled: BTreeSet<WorkId>,
    /// The Read chunks of replies, in order.
    offers: Vec<Vec<Segment>>,
    /// All connections of the scenario in order, and the lost ones.
    connections: Vec<ConnectionId>,
    lost: BTreeSet<ConnectionId>,
    next_xid: u32,
    retransmitted: bool,
    nfs41: Option<Nfs41>,
    /// The XID of the call that causes a recall. Its reply is no reaction.
    removal: Option<u32>,
    /// Whether the scenario is judged or stopped. Later calls of the session only clean up.
    leaving: bool,
    /// The last backward call: its XID, and its message from the RPC header on.
    callback: Option<(u32, Vec<u8>)>,
    record: Record,
}

impl Runner {
    /// Creates a runner. [`advance`](Runner::advance) starts it.
    pub fn new(scenario: Scenario, target: Target) -> Runner {
        let needs_nfs = scenario.needs.contains(&Need::Nfs) && !target.nfs;
        let why = (Verdict::NotApplicable, "the target is not an NFS server".to_string());
        Runner {
            step: 0,
            waiting: if needs_nfs { Waiting::Over } else { Waiting::Nothing },
            deadline: None,
            connection: None,
            usable: false,
            first_reply: FirstReply::NotCalled,
            private_data: PrivateDataSeen::Absent,
            memory: BTreeMap::new(),
            written: BTreeMap::new(),
            messages: BTreeMap::new(),
            answered: BTreeSet::new(),
            operations: Vec::new(),
            pulled: BTreeSet::new(),
            offers: Vec::new(),
            connections: Vec::new(),
            lost: BTreeSet::new(),
            next_xid: 0,
            retransmitted: false,
            nfs41: None,
            removal: None,
            leaving: false,
            callback: None,
            record: Record::new(needs_nfs.then_some(why)),
            scenario,
            target,
        }
    }

    /// Returns the scenario.
    pub const fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Returns whether it is over.
    pub fn is_over(&self) -> bool {
        self.waiting == Waiting::Over
    }

    /// Returns the outcome once it is over.
    pub fn outcome(&self) -> Option<Outcome> {
        self.is_over().then(|| {
            let mut outcome = self.record.outcome(|| {
                let Record { observed, alive, .. } = &self.record;
                let (verdict, reason) = outcome::judge(&self.scenario, observed, *alive);
                (verdict, reason.to_string())
            });
            if let Some(file) = self.nfs41.as_ref().and_then(Nfs41::left) {
                let parted = if outcome.reason.is_empty() { "" } else { "; " };
                outcome.reason += &format!("{parted}the file {file} may be left in the root of the export");
            }
            outcome
        })
    }

    /// Returns the next time at which to call `advance`.
    pub const fn next_deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Handles an event of the endpoint.
    pub fn handle(&mut self, endpoint: &mut dyn Provider, event: &Event) {
        self.note_loss(event);
        let ours = |connection: &ConnectionId| self.connection == Some(*connection);
        match event {
            Event::Replied { connection, private_data, .. } if ours(connection) => {
                self.private_data = seen::private_data(private_data);
                for _ in 0..RECEIVES {
                    // Without room the connection is about to end, and that has its own event.
                    let _ = endpoint.post_receive(*connection, RECEIVE_LENGTH);
                }
            }
            Event::Connected { connection } if ours(connection) => {
                self.usable = true;
                self.record.react(Observed::Connected(self.private_data));
            }
            Event::Closed { connection, why } if ours(connection) => {
                let was_usable = core::mem::replace(&mut self.usable, false);
                let reaction = match why {
                    Closed::Remote if was_usable => Observed::Closed(How::Disconnected, None),
                    Closed::Rejected { reason, .. } => Observed::Rejected(*reason),
                    Closed::Local => Observed::DisconnectAnswered,
                    Closed::LocalUnanswered => Observed::DisconnectUnanswered,
                    Closed::NoAnswer => Observed::Silence,
                    _ => return,
                };
                self.record.react(reaction);
            }
            Event::Queue { connection, event } if ours(connection) => {
                self.queue_event(endpoint, *connection, event);
            }
            _ => {}
        }
    }

    /// Notes the loss of any connection, because a step may return to it.
    fn note_loss(&mut self, event: &Event) {
        if let Event::Closed { connection, .. } | Event::Queue { connection, event: QueueEvent::Failed(_) } =
            event
        {
            self.lost.insert(*connection);
        }
    }

    fn queue_event(&mut self, endpoint: &mut dyn Provider, connection: ConnectionId, event: &QueueEvent) {
        match event {
            QueueEvent::Received(received) => {
                let _ = endpoint.post_receive(connection, RECEIVE_LENGTH);
                self.first_reply = FirstReply::Arrived;
                if self.answered_in_session(&received.bytes) {
                    return;
                }
                let written = &self.written;
                let memory = |rkey: Rkey, address: u64, length: u32| {
                    let (start, bytes) =
                        endpoint.region(connection, rkey).or_else(|| written.get(&rkey).cloned())?;
                    let from = usize::try_from(address.checked_sub(start)?).ok()?;
                    bytes.get(from..from.checked_add(length as usize)?).map(<[u8]>::to_vec)
                };
                let invalidated = received.invalidated.is_some();
                let (xid, reaction) =
                    seen::message(&received.bytes, invalidated, self.retransmitted, &self.messages, memory);
                if let (Some(xid), Waiting::Probe(probe) | Waiting::LastProbe(probe, _)) =
                    (xid, &self.waiting)
                    && xid == *probe
                {
                    return self.probed(matches!(reaction, Observed::Reply(_)));
                }
                self.remember_callback(&reaction, &received.bytes);
                self.remember_offer(&reaction, &received.bytes);
                match xid {
                    Some(xid) if !self.answered.insert(xid) => self.record.react(Observed::Again),
                    _ => self.record.react(reaction),
                }
            }
            QueueEvent::Written { rkey, .. } => {
                if let Some(region) = endpoint.region(connection, *rkey) {
                    self.written.insert(*rkey, region);
                }
            }
            QueueEvent::Completed { work, outcome: Ok(_) } if self.operations.contains(work) => {
                self.record.react(Observed::Completed);
            }
            QueueEvent::Completed { work, outcome: Ok(_) }
                if self.pulled.remove(work) && self.pulled.is_empty() =>
            {
                self.record.react(Observed::Completed);
            }
            QueueEvent::NakReceived { syndrome, .. } if is_sequence_nak(*syndrome) => {
                let named = |pattern: &Pattern| pattern.matches(&Observed::Nak(NakCode::PsnSequenceError));
                if self.scenario.allowed.iter().chain(&self.scenario.wrong).any(named) {
                    self.record.react(Observed::Nak(NakCode::PsnSequenceError));
                }
            }
            QueueEvent::Retransmission { .. } => self.retransmitted = true,
            QueueEvent::Failed(failure) => {
                self.usable = false;
                if let Some((how, code)) = How::of(failure) {
                    self.record.react(Observed::Closed(how, code));
                }
            }
            _ => {}
        }
    }

    /// Keeps the Read chunk of a reply.
    fn remember_offer(&mut self, reaction: &Observed, bytes: &[u8]) {
        if let (Observed::Reply(reply), Ok(header)) = (reaction, Header::parse(bytes))
            && reply.read_chunk
            && self.offers.len() < MOST_OFFERS
        {
            self.offers.push(header.reads.map(|read| read.target).collect());
        }
    }

    /// Returns the Read chunk of the last reply that has one, or of the reply with one before it.
    fn offer(&self, which: Offered) -> Option<&[Segment]> {
        let mut newest = self.offers.iter().rev();
        let offer = match which {
            Offered::Offered => newest.next(),
            Offered::Earlier => newest.nth(1),
        };
        offer.map(Vec::as_slice)
    }

    /// Handles the answer to the NULL that is waited for.
    fn probed(&mut self, replied: bool) {
        match self.waiting {
            Waiting::LastProbe(_, new) if replied => {
                self.record.alive = if new { Alive::OnNew } else { Alive::OnThis };
                self.go_on(Waiting::Leaving);
            }
            Waiting::Probe(_) if replied => self.proceed(),
            Waiting::Probe(_) => {
                self.stop(Verdict::NotApplicable, "NULL was answered with an error".to_string())
            }
            _ => {}
        }
    }

    fn proceed(&mut self) {
        self.go_on(Waiting::Nothing);
    }

    /// Changes the state, without a time limit.
    fn go_on(&mut self, waiting: Waiting) {
        self.waiting = waiting;
        self.deadline = None;
    }

    /// Changes the state, for at most the target's patience.
    fn wait(&mut self, now: Instant, waiting: Waiting) {
        self.wait_until(now.plus(self.target.patience), waiting);
    }

    fn wait_until(&mut self, deadline: Instant, waiting: Waiting) {
        self.waiting = waiting;
        self.deadline = Some(deadline);
    }

    /// Ends a run whose target no longer answers.
    fn gone(&mut self) {
        self.record.alive = Alive::Gone;
        self.go_on(Waiting::End);
    }

    /// Stops without judging. State on the target is removed if the connection still works.
    fn stop(&mut self, verdict: Verdict, reason: String) {
        self.record.stopped = Some((verdict, reason));
        self.go_on(if self.usable { Waiting::Leaving } else { Waiting::End });
    }

    /// Advances as far as possible at `now`.
    pub fn advance(&mut self, now: Instant, endpoint: &mut dyn Provider) {
        loop {
            let due = self.deadline.is_some_and(|deadline| deadline <= now);
            let beyond = self.scenario.beyond_verbs().filter(|_| !endpoint.makes_packets());
            match self.waiting.clone() {
                Waiting::Nothing if self.step == 0 && beyond.is_some() => {
                    let missing = beyond.map(|beyond| beyond.to_string()).unwrap_or_default();
                    self.stop(Verdict::NotApplicable, format!("not possible by verbs: {missing}"));
                }
                Waiting::Nothing => match self.scenario.steps.get(self.step).cloned() {
                    Some(step) => {
                        self.step += 1;
                        self.perform(now, endpoint, &step);
                    }
                    None => self.check_alive(now, endpoint),
                },
                Waiting::Time if due => self.proceed(),
                Waiting::Connection { observe } => match self.record.pending.pop_front() {
                    Some(Observed::Connected(_)) if !observe => self.connected(),
                    Some(reaction) if observe => {
                        self.record.observed.push(reaction);
                        self.proceed();
                    }
                    Some(Observed::Silence) => self.unreachable(),
                    Some(reaction) => {
                        self.stop(Verdict::NotApplicable, format!("no connection: {reaction}"));
                    }
                    None if due && observe => {
                        self.record.observed.push(Observed::Silence);
                        self.proceed();
                    }
                    None if due => self.unreachable(),
                    None => return,
                },
                Waiting::Expect(pattern) => match self.record.pending.pop_front() {
                    Some(reaction) if pattern.matches(&reaction) => self.proceed(),
                    Some(reaction) if reaction.is_end() || pattern == Pattern::Silence => {
                        self.stop(Verdict::NotApplicable, format!("expected {pattern}, but got {reaction}"));
                    }
                    Some(_) => {}
                    None if due && pattern == Pattern::Silence => self.proceed(),
                    None if due => {
                        self.stop(
                            Verdict::NotApplicable,
                            format!("expected {pattern}, which did not arrive"),
                        );
                    }
                    None => return,
                },
                Waiting::Observe(until) => {
                    if !self.record.observe(until, due) {
                        return;
                    }
                    self.proceed();
                }
                Waiting::Request(request, _) if due || !self.usable => self.unanswered(request),
                Waiting::Probe(_) if !self.usable => {
                    self.stop(
                        Verdict::NotApplicable,
                        "the connection was lost before NULL was answered".to_string(),
                    );
                }
                Waiting::Probe(_) if due => {
                    self.stop(Verdict::NoAnswer, "NULL was not answered".to_string());
                }
                Waiting::LastConnection if self.usable => self.last_probe(now, endpoint, true),
                Waiting::LastConnection if due || self.record.pending.iter().any(Observed::is_end) => {
                    self.gone();
                }
                Waiting::LastProbe(_, new) if due || !self.usable => {
                    if new {
                        self.gone()
                    } else {
                        self.connect_again(now, endpoint)
                    }
                }
                Waiting::Planned => self.send_planned(now, endpoint),
                Waiting::Leaving => self.leave(now, endpoint),
                Waiting::End => {
                    self.disconnect_others(endpoint);
                    let open = self.connection.filter(|_| self.usable);
                    match (open, self.deadline) {
                        (Some(connection), None) if endpoint.disconnect(connection).is_ok() => {
                            self.deadline = Some(now.plus(self.target.patience));
                        }
                        (Some(_), Some(_)) if !due => return,
                        _ => self.go_on(Waiting::Over),
                    }
                }
                _ => return,
            }
        }
    }

    /// Disconnects all connections except the current one.
    fn disconnect_others(&mut self, endpoint: &mut dyn Provider) {
        for connection in core::mem::take(&mut self.connections) {
            if self.connection != Some(connection) && !self.lost.contains(&connection) {
                // An error means that the connection is already closed.
                let _ = endpoint.disconnect(connection);
            }
        }
    }

    fn unreachable(&mut self) {
        self.stop(Verdict::NoAnswer, "the REQ was not answered".to_string());
    }

    /// Handles the connection of a step, and checks the conditions on the target.
    fn connected(&mut self) {
        let theirs = match self.private_data {
            PrivateDataSeen::Valid(data) => data.remote_invalidation,
            _ => false,
        };
        let lacks = self.scenario.needs.iter().find_map(|need| match need {
            Need::RemoteInvalidation if !theirs => Some("the target does not set R in its private data"),
            Need::NoRemoteInvalidation if theirs => Some("the target sets R in its private data"),
            _ => None,
        });
        match lacks {
            Some(reason) => self.stop(Verdict::NotApplicable, reason.to_string()),
            None => self.proceed(),
        }
    }

    /// After the steps, checks whether the target is alive. A connection that awaits its first
    /// reply has no credit for a NULL.
    fn check_alive(&mut self, now: Instant, endpoint: &mut dyn Provider) {
        endpoint.intercept(None);
        self.record.pending.clear();
        if self.usable && self.first_reply != FirstReply::Awaited {
            self.last_probe(now, endpoint, false);
        } else {
            self.connect_again(now, endpoint);
        }
    }

    fn last_probe(&mut self, now: Instant, endpoint: &mut dyn Provider, new: bool) {
        let xid = self.send_null(endpoint);
        self.wait(now, Waiting::LastProbe(xid, new));
    }

    fn connect_again(&mut self, now: Instant, endpoint: &mut dyn Provider) {
        if let Some(connection) = self.connection.filter(|_| self.usable) {
            // An error means that the connection is already closed.
            let _ = endpoint.disconnect(connection);
        }
        self.record.pending.clear();
        self.usable = false;
        let private_data =
            perform::private_data(&perform::supported(endpoint, super::PrivateDataFields::default()));
        let connect = endpoint::Connect {
            private_data,
            ..endpoint::Connect::new(self.target.local, self.target.remote, self.target.port)
        };
        self.connection = endpoint.connect(connect).ok();
        self.wait(now, Waiting::LastConnection);
    }

    /// Sends a call of NULL.
    fn send_null(&mut self, endpoint: &mut dyn Provider) -> u32 {
        let xid = self.take_xid(None);
        let mut bytes = Vec::new();
        Builder::new(rdmascope_wire::Xid(xid), 32, Procedure::Msg).build(&mut bytes);
        bytes.extend(payload::null(xid));
        self.messages.insert(xid, Message { xid, vers: Some(1), ..Message::default() });
        if let Some(connection) = self.connection {
            // If it cannot be sent, the missing reply is reported.
            let send = crate::rc::Send { bytes, ..crate::rc::Send::default() };
            let _ = endpoint.post(connection, Operation::Send(send));
        }
        xid
    }

    /// Returns the XID of a message: the one given by the scenario, or the next one.
    fn take_xid(&mut self, given: Option<u32>) -> u32 {
        let number = given.unwrap_or(self.next_xid);
        self.next_xid = self.next_xid.max(number.wrapping_add(1));
        self.target.first_xid.wrapping_add(number)
    }
}

/// Returns whether an AETH syndrome is a NAK for a PSN sequence error (IBTA volume 1, tables 46 and
/// 48).
const fn is_sequence_nak(syndrome: u8) -> bool {
    syndrome == 0x60
}
