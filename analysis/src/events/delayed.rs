//! Requests that a server puts off: it answers with an error such as NFS3ERR_JUKEBOX or
//! NFS4ERR_DELAY, or denies a lock that the client waits for. The client sends the request again
//! later, under a new XID.

use super::failing::called;
use super::known::{Reached, event};
use super::{Kind, SILENCE, SessionEvent};
use crate::names::{Failure, FailureName, Label, Protocol};
use crate::units::{Counted, Duration, Number};
use core::hash::{BuildHasher, Hash, Hasher};
use foldhash::fast::FixedState;
use rdmascope_dissector::connection::{ConnectionId, Route};
use rdmascope_dissector::record::{Seen, Time};
use rdmascope_dissector::transaction::{Direction, Transaction};
use rdmascope_dissector::ulb::{FactKind, Nfs4, OperationKind, StateFact, Text};
use rdmascope_wire::nfs::nfsstat4;
use std::collections::{HashMap, VecDeque};

/// The longest time after which a client sends a request again, in nanoseconds.
const LATEST: u64 = 30_000_000_000;
/// The same for a lock that was denied. Linux asks again after 30 s at the latest.
const LATEST_LOCK: u64 = 60_000_000_000;
/// The most requests that wait, and the most spells.
const MOST: usize = 1024;

/// The kind of request that a server put off, and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Answer {
    route: Option<Route>,
    protocol: Option<Protocol>,
    label: Label,
    failure: Failure,
    /// Whether another owner holds the lock.
    is_denied: bool,
}

impl Answer {
    /// The answer of a transaction that puts its request off.
    fn of(transaction: &Transaction, failure: Failure) -> Option<Answer> {
        let protocol = Protocol::of(transaction);
        let is_denied =
            failure == Failure::Status(nfsstat4::DENIED) && transaction.details.states.iter().any(waits);
        (is_denied || failure.is_delay(protocol)).then(|| Answer {
            route: transaction.route,
            protocol,
            label: Label::of(transaction),
            failure,
            is_denied,
        })
    }

    /// The longest time after which a client sends the request again, in nanoseconds.
    fn latest(&self) -> u64 {
        if self.is_denied { LATEST_LOCK } else { LATEST }
    }
}

/// Whether a LOCK waits for the lock: READW_LT or WRITEW_LT (RFC 8881, section 18.10.3).
fn waits(fact: &StateFact) -> bool {
    matches!(fact.kind, FactKind::Lock { kind: 3 | 4, .. })
}

/// Requests of one kind that the server put off for [`SILENCE`] at the least, at overlapping times.
#[derive(Clone, Copy, Debug)]
struct Spell {
    answer: Answer,
    first_call: Seen,
    last_reply: Seen,
    /// The connections of these two.
    connections: [ConnectionId; 2],
    requests: u64,
    /// Requests that the server put off to the end.
    left: u64,
    /// Replies that put a request off.
    replies: u64,
    /// The longest wait of a request, in nanoseconds.
    longest: u64,
}

impl Spell {
    /// The spell of one request, put off once.
    fn new(answer: Answer, transaction: &Transaction, [call, reply]: [Seen; 2]) -> Spell {
        Spell {
            answer,
            first_call: call,
            last_reply: reply,
            connections: [transaction.connection; 2],
            requests: 1,
            left: 1,
            replies: 1,
            longest: reply.time.since(call.time),
        }
    }

    /// Adds a later reply to its one request.
    fn answered(&mut self, transaction: &Transaction, reply: Seen, is_put_off: bool) {
        (self.last_reply, self.connections[1]) = (reply, transaction.connection);
        (self.left, self.replies) = (u64::from(is_put_off), self.replies + u64::from(is_put_off));
        self.longest = reply.time.since(self.first_call.time);
    }

    /// Adds a spell of the same kind that overlaps this one.
    fn add(&mut self, other: &Spell) {
        if other.first_call.time < self.first_call.time {
            (self.first_call, self.connections[0]) = (other.first_call, other.connections[0]);
        }
        if other.last_reply.time > self.last_reply.time {
            (self.last_reply, self.connections[1]) = (other.last_reply, other.connections[1]);
        }
        self.requests += other.requests;
        self.left += other.left;
        self.replies += other.replies;
        self.longest = self.longest.max(other.longest);
    }

    fn text(&self, is_live: bool) -> String {
        let Answer { protocol, label, failure, is_denied, .. } = self.answer;
        let (call, longest) = (called(protocol, label), Duration(self.longest));
        let who = match self.requests {
            1 => format!("{call} waited {longest}"),
            several => format!("{} {call} requests waited, the longest {longest}", Number(several)),
        };
        let why = if is_denied { " for a lock of another owner" } else { "" };
        let left = match (self.left, self.requests) {
            (0, _) => String::new(),
            (left, all) => {
                let which = if all == 1 { String::new() } else { format!("{left} ") };
                let when = if is_live { "so far" } else { "before the capture ends" };
                format!("; {which}not carried out {when}")
            }
        };
        let (answer, times) = (FailureName(failure, protocol), Counted(self.replies, "time"));
        format!("{who}{why}: server answered {answer} {times}{left}")
    }

    fn event(&self, reached: Reached) -> SessionEvent {
        let [first, last] = self.connections;
        SessionEvent {
            connection: first,
            other: (first != last).then_some(last),
            duration: Some(self.last_reply.time.since(self.first_call.time)),
            count: self.replies,
            frames: [Some(self.first_call.frame), Some(self.last_reply.frame)],
            ..event(self.first_call.time, Kind::CallDelayed, self.text(reached.is_live))
        }
    }
}

/// Adds a spell to those of its kind, if it is long enough.
fn add(spells: &mut VecDeque<Spell>, spell: &Spell) {
    if spell.longest < SILENCE {
        return;
    }
    let overlaps = |known: &Spell| {
        known.answer == spell.answer
            && known.first_call.time <= spell.last_reply.time
            && spell.first_call.time <= known.last_reply.time
    };
    match spells.iter_mut().rev().find(|known| overlaps(known)) {
        Some(known) => known.add(spell),
        None => {
            if spells.len() >= MOST {
                spells.pop_front();
            }
            spells.push_back(*spell);
        }
    }
}

/// The requests that servers put off.
#[derive(Clone, Debug, Default)]
pub(super) struct Delayed {
    /// Requests that wait, by their arguments.
    waiting: HashMap<u64, Spell, FixedState>,
    spells: VecDeque<Spell>,
}

impl Delayed {
    #[inline]
    pub(super) fn handle(&mut self, transaction: &Transaction) {
        let failure = Failure::of(transaction);
        if (failure.is_none() && self.waiting.is_empty())
            || transaction.direction != Direction::Forward
            || transaction.clock_stepped
        {
            return;
        }
        // Without all arguments, two requests look equal.
        let call = transaction.call.as_ref().filter(|call| call.unread.is_none());
        if let (Some(call), Some(reply)) = (call, &transaction.reply) {
            self.answered(transaction, failure, [call.seen, reply.seen]);
        }
    }

    fn answered(&mut self, transaction: &Transaction, failure: Option<Failure>, seen: [Seen; 2]) {
        let answer = failure.and_then(|failure| Answer::of(transaction, failure));
        if answer.is_none() && self.waiting.is_empty() {
            return;
        }
        let request = request(transaction);
        let [call, reply] = seen;
        if let Some(spell) = self.waiting.get_mut(&request) {
            if call.time.since(spell.last_reply.time) <= spell.answer.latest() {
                spell.answered(transaction, reply, answer.is_some());
                if answer.is_some() {
                    return;
                }
            }
            add(&mut self.spells, spell);
            self.waiting.remove(&request);
        }
        let Some(answer) = answer else { return };
        if self.waiting.len() >= MOST {
            self.give_up(call.time);
        }
        if self.waiting.len() < MOST {
            self.waiting.insert(request, Spell::new(answer, transaction, seen));
        }
    }

    /// Ends the waits of requests that were not sent again.
    fn give_up(&mut self, now: Time) {
        let Delayed { waiting, spells } = self;
        waiting.retain(|_, spell| {
            let waits = now.since(spell.last_reply.time) <= spell.answer.latest();
            if !waits {
                add(spells, spell);
            }
            waits
        });
    }

    /// Forgets the requests that wait: the clock stepped back.
    pub(super) fn clock_stepped(&mut self) {
        self.waiting.values().for_each(|spell| add(&mut self.spells, spell));
        self.waiting.clear();
    }

    /// Forgets everything that ended before this time.
    pub(super) fn forget(&mut self, before: Time) {
        self.waiting.retain(|_, spell| spell.last_reply.time >= before);
        self.spells.retain(|spell| spell.last_reply.time >= before);
    }

    /// Adds the events up to `reached`.
    pub(super) fn report(&self, reached: Reached, events: &mut Vec<SessionEvent>) {
        let mut spells = self.spells.clone();
        let mut waiting: Vec<&Spell> = self.waiting.values().collect();
        waiting.sort_unstable_by_key(|spell| (spell.first_call.time, spell.first_call.frame));
        waiting.into_iter().for_each(|spell| add(&mut spells, spell));
        events.extend(spells.iter().map(|spell| spell.event(reached)));
    }
}

/// A hash of the client, the server, and the arguments that a repetition of the request has too.
/// SEQUENCE differs in each.
pub(super) fn request(transaction: &Transaction) -> u64 {
    let details = &transaction.details;
    let mut hasher = FixedState::default().build_hasher();
    (transaction.route.map(|route| (route.source, route.destination)), transaction.procedure)
        .hash(&mut hasher);
    let sequence = OperationKind::Nfs4(Nfs4::Sequence);
    for operation in details.operations.iter().filter(|operation| operation.kind != sequence) {
        (operation.kind.code(), operation.offset, operation.count, operation.size).hash(&mut hasher);
        let texts =
            [operation.file_handle, operation.other_file_handle, operation.file_name, operation.other_name];
        texts.map(|text: Option<Text>| text.map(|text| details.bytes(text))).hash(&mut hasher);
    }
    lock(&details.states).hash(&mut hasher);
    hasher.finish()
}

/// The type of a lock and its owner: a hash of a new one, else the identity of the lock stateid.
fn lock(facts: &[StateFact]) -> Option<(u32, Result<u64, &[u8]>)> {
    let (operation, kind, owner) = facts.iter().find_map(|fact| match fact.kind {
        FactKind::Lock { kind, owner, .. } => Some((fact.operation, kind, owner)),
        _ => None,
    })?;
    let stateid = facts.iter().find_map(|fact| match &fact.kind {
        FactKind::ArgumentStateId(id) if fact.operation == operation => Some(&id[4..]),
        _ => None,
    });
    Some((kind, owner.ok_or(stateid.unwrap_or_default())))
}
