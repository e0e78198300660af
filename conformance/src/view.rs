//! What is known of a connection when rules are asked about it.

use super::header;
use super::subjects::{Lasting, Memories};
use alloc::boxed::Box;
use core::ops::Deref;
use rdmascope_dissector::connection::{Connection, ConnectionId, Origin};
use rdmascope_dissector::observation::{Ending, Faulty, HalfFlow, Missing, Observation, Observed, Sent};
use rdmascope_dissector::rdma::{End, Fault};
use rdmascope_dissector::transaction::{Direction, Outcome, Transaction};

/// What is known of a connection when something happens on it: what every subject needs, and what each subject remembers.
#[derive(Clone, Debug)]
pub struct View {
    known: Known,
    pub(crate) memories: Memories,
}

/// What every subject needs to know of a connection.
#[derive(Clone, Debug)]
pub struct Known {
    /// Its number.
    pub connection: ConnectionId,
    /// The end that opened it; if that is not known, the end that was first seen to call.
    pub requester: End,
    /// Whether that is known.
    pub roles_known: bool,
    /// How far the capture shows what each end sends.
    pub half_flows: [HalfFlow; 2],
    /// The connection as the last CM message or MPA start frame left it; `None` where none was captured.
    pub established: Option<Box<Connection>>,
    /// Packets that each end sent and the capture lacks, as far as is known by now.
    pub lost: [u64; 2],
    /// Both half-flows are known.
    pub paired: bool,
    /// The connection was joined from two half-flows. What each end sent before is not taken into account.
    pub joined: bool,
    /// What is known at the end, once it has come.
    pub ending: Option<Ending>,
}

/// What a subject remembers of a connection for its rules.
///
/// Each event is given to all memories, after the rules were asked about it. A memory takes what it needs.
pub(crate) trait Memory {
    /// A Send.
    fn sent(&mut self, _sent: &Sent<'_>, _known: &Known) {}

    /// A transaction that ended.
    fn transaction(&mut self, _transaction: &Transaction, _known: &Known) {}

    /// A call that has no reply. `lacks_reply`: the capture may lack the reply. [`Memory::transaction`] follows.
    fn unanswered(&mut self, _call: &Transaction, _lacks_reply: bool) {}

    /// Anything but a Send.
    fn observed(&mut self, _observed: &Observed<'_>, _known: &Known) {}

    /// A call of this end was given up although no reply was seen.
    fn evicted(&mut self, _caller: End) {}

    /// A CM message or an MPA start frame added to what is known of the connection. The memory takes what [`Lasting`] has of earlier connections, before the rules
    /// are asked.
    fn recall(&mut self, _connection: &Connection, _lasting: &mut Lasting) {}

    /// Bytes of memory that its lists take up.
    fn footprint(&self) -> usize {
        0
    }

    /// Two half-flows became this connection. What a memory counts from Sends has to be forgotten: what each end sent before is not known to be
    /// complete.
    fn joined(&mut self);
}

impl Deref for View {
    type Target = Known;

    #[inline]
    fn deref(&self) -> &Known {
        &self.known
    }
}

impl Known {
    /// Whether the capture holds the connection from its beginning. A CM message says where what both ends send begins, an MPA start frame
    /// says so of its sender alone.
    pub fn from_start(&self) -> bool {
        let is_known = |connection: &Connection| {
            let ends = [&connection.requester, &connection.responder];
            connection.origin == Origin::Cm
                && (!connection.is_iwarp || ends.iter().all(|end| end.start.is_some()))
        };
        !self.joined && self.established.as_deref().is_some_and(is_known)
    }

    /// Packets of this end that are missing, plus the number of times when missing packets would not have been noticed.
    pub fn losses(&self, end: End) -> u64 {
        self.lost[end] + u64::from(self.half_flows[end].unsure)
    }

    /// Whether the capture holds all that this end sent, as far as is known by now.
    pub fn is_whole(&self, end: End) -> bool {
        self.from_start() && self.losses(end) == 0 && !self.half_flows[end].waits
    }

    /// The direction of the transactions that this end calls.
    pub fn direction(&self, caller: End) -> Direction {
        if caller == self.requester { Direction::Forward } else { Direction::Backward }
    }

    /// The end that calls in this direction.
    pub fn caller(&self, direction: Direction) -> End {
        match direction {
            Direction::Forward => self.requester,
            Direction::Backward => self.requester.other(),
        }
    }

    /// The end that answers in this direction.
    pub fn answerer(&self, direction: Direction) -> End {
        self.caller(direction).other()
    }

    /// Bytes that a Send of this end may have; `None` where the capture does not hold what was negotiated.
    pub fn inline_threshold(&self, from: End) -> Option<u32> {
        let connection = self.established.as_ref()?;
        if from == self.requester {
            connection.call_inline_threshold
        } else {
            connection.reply_inline_threshold
        }
    }

    /// Whether the capture holds anything that the host of this end sent to that of the other one; at the end of the connection only. Where not,
    /// its silence is no evidence.
    pub fn is_heard(&self, end: End) -> bool {
        self.ending.is_some_and(|ending| ending.heard[end])
    }

    /// Whether the capture holds all that this end sent up to this frame; at the end of the connection only.
    pub fn is_complete(&self, end: End, frame: u64) -> bool {
        self.losses(end) == 0 && self.ending.is_some_and(|ending| ending.complete[end] >= Some(frame))
    }
}

impl View {
    pub(crate) fn new(connection: ConnectionId) -> View {
        View {
            known: Known {
                connection,
                requester: End::First,
                roles_known: false,
                half_flows: Default::default(),
                established: None,
                lost: [0; 2],
                paired: false,
                joined: false,
                ending: None,
            },
            memories: Memories::default(),
        }
    }

    pub(crate) fn note(&mut self, observation: &Observation<'_>) {
        self.known.requester = observation.requester;
        self.known.roles_known = observation.roles_known;
        self.known.half_flows = *observation.half_flows;
    }

    pub(crate) fn note_sent(&mut self, sent: &Sent<'_>) {
        let View { known, memories } = self;
        known.paired = sent.paired;
        memories.each(|memory| memory.sent(sent, known));
    }

    pub(crate) fn note_missing(&mut self, missing: &Missing) {
        self.known.lost[missing.from] += u64::from(missing.packets);
    }

    pub(crate) fn note_transaction(&mut self, transaction: &Transaction) {
        // What is too short is discarded: nobody waits for an answer to it.
        let is_call = || {
            transaction
                .call
                .as_ref()
                .is_none_or(|call| header::fault_of(call, transaction.xid) != Some(header::Fault::Short))
        };
        if transaction.outcome == Outcome::NoReply && transaction.reply.is_none() && is_call() {
            let lacks_reply = self.lacks_answer(transaction);
            self.memories.each(|memory| memory.unanswered(transaction, lacks_reply));
        }
        let View { known, memories } = self;
        memories.each(|memory| memory.transaction(transaction, known));
    }

    /// Whatever is no Send, after the rules saw it.
    pub(crate) fn note_observed(&mut self, observed: &Observed<'_>) {
        let View { known, memories } = self;
        // Where the first request has another PSN than was announced, it is not known whether it is the first.
        if let Observed::Faulty(Faulty { from, fault: Fault::Start { .. }, .. }) = observed {
            known.lost[*from] += 1;
        }
        memories.each(|memory| memory.observed(observed, known));
    }

    /// A CM message or an MPA start frame said something new of the connection.
    pub(crate) fn note_established(&mut self, connection: &Connection, lasting: &mut Lasting) {
        match &mut self.known.established {
            Some(known) => (**known).clone_from(connection),
            none => *none = Some(Box::new(connection.clone())),
        }
        self.memories.each(|memory| memory.recall(connection, lasting));
    }

    pub(crate) fn note_ending(&mut self, ending: &Ending) {
        self.known.ending = Some(*ending);
    }

    /// A call was given up although no reply was seen.
    pub(crate) fn note_eviction(&mut self, direction: Direction) {
        let caller = self.caller(direction);
        self.memories.each(|memory| memory.evicted(caller));
    }

    /// Two half-flows became this connection: what each said before that is not known to be complete.
    pub(crate) fn note_joined(&mut self) {
        self.memories.each(|memory| memory.joined());
        let known = &mut self.known;
        (known.lost, known.ending) = ([0; 2], None);
        (known.paired, known.joined) = (true, true);
    }
}
