//! The state of a connection that all subjects share, and the trait of their memories.

use alloc::boxed::Box;
use rdmascope_dissector::connection::{Connection, ConnectionId, Origin};
use rdmascope_dissector::observation::{Ending, Faulty, HalfFlow, Missing, Observation, Observed, Sent};
use rdmascope_dissector::rdma::{End, Fault};
use rdmascope_dissector::transaction::{Direction, Transaction};

/// What every subject needs to know of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    /// Its number.
    pub(crate) connection: ConnectionId,
    /// The end that opened it; if that is not known, the end that was first seen to call.
    pub(crate) requester: End,
    /// Whether that is known.
    pub(crate) roles_known: bool,
    /// How far the capture shows what each end sends.
    pub(crate) half_flows: [HalfFlow; 2],
    /// The connection as the last CM message or MPA start frame left it; `None` where none was captured.
    pub(crate) established: Option<Box<Connection>>,
    /// Packets that each end sent and the capture lacks, as far as is known by now.
    pub(crate) lost: [u64; 2],
    /// Both half-flows are known.
    pub(crate) paired: bool,
    /// The connection was joined from two half-flows. What each end sent before is not taken into account.
    pub(crate) joined: bool,
    /// What is known at the end, once it has come.
    pub(crate) ending: Option<Ending>,
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

    /// Bytes of memory that its lists take up.
    fn footprint(&self) -> usize {
        0
    }

    /// Two half-flows became this connection. What a memory counts from Sends has to be forgotten: what each end sent before is not known to be
    /// complete.
    fn joined(&mut self);
}

impl Known {
    /// Whether the capture holds the connection from its beginning. A CM message says where what both ends send begins, an MPA start frame
    /// says so of its sender alone.
    pub(crate) fn holds_start(&self) -> bool {
        let is_known = |connection: &Connection| {
            let ends = [&connection.requester, &connection.responder];
            connection.origin == Origin::Cm
                && (!connection.is_iwarp || ends.iter().all(|end| end.start.is_some()))
        };
        !self.joined && self.established.as_deref().is_some_and(is_known)
    }

    /// Packets of this end that are missing, plus the number of times when missing packets would not have been noticed.
    pub(crate) fn losses(&self, end: End) -> u64 {
        self.lost[end] + u64::from(self.half_flows[end].unsure)
    }

    /// Whether the capture holds all that this end sent, as far as is known by now.
    pub(crate) fn is_whole(&self, end: End) -> bool {
        self.holds_start() && self.losses(end) == 0 && !self.half_flows[end].waits
    }

    /// The direction of the transactions that this end calls.
    pub(crate) fn direction(&self, caller: End) -> Direction {
        if caller == self.requester { Direction::Forward } else { Direction::Backward }
    }

    /// The end that calls in this direction.
    pub(crate) fn caller(&self, direction: Direction) -> End {
        match direction {
            Direction::Forward => self.requester,
            Direction::Backward => self.requester.other(),
        }
    }

    /// The end that answers in this direction.
    pub(crate) fn answerer(&self, direction: Direction) -> End {
        self.caller(direction).other()
    }

    /// Bytes that a Send of this end may have; `None` where the capture does not hold what was negotiated.
    pub(crate) fn inline_threshold(&self, from: End) -> Option<u32> {
        let connection = self.established.as_ref()?;
        if from == self.requester {
            connection.call_inline_threshold
        } else {
            connection.reply_inline_threshold
        }
    }

    /// Whether the capture holds anything that the host of this end sent to that of the other one; at the end of the connection only. Where not,
    /// its silence is no evidence.
    pub(crate) fn is_heard(&self, end: End) -> bool {
        self.ending.is_some_and(|ending| ending.heard[end])
    }

    /// Whether the capture holds all that this end sent up to this frame; at the end of the connection only.
    pub(crate) fn is_complete(&self, end: End, frame: u64) -> bool {
        self.losses(end) == 0 && self.ending.is_some_and(|ending| ending.complete[end] >= Some(frame))
    }

    pub(crate) fn new(connection: ConnectionId) -> Known {
        Known {
            connection,
            requester: End::First,
            roles_known: false,
            half_flows: Default::default(),
            established: None,
            lost: [0; 2],
            paired: false,
            joined: false,
            ending: None,
        }
    }

    pub(crate) fn note(&mut self, observation: &Observation<'_>) {
        self.requester = observation.requester;
        self.roles_known = observation.roles_known;
        self.half_flows = *observation.half_flows;
    }

    pub(crate) fn note_missing(&mut self, missing: &Missing) {
        self.lost[missing.from] += u64::from(missing.packets);
    }

    /// Takes the connection as a CM message or MPA start frame changed it.
    pub(crate) fn note_established(&mut self, connection: &Connection) {
        match &mut self.established {
            Some(known) => (**known).clone_from(connection),
            none => *none = Some(Box::new(connection.clone())),
        }
    }

    /// Takes an observation other than a Send, after the rules saw it.
    pub(crate) fn note_observed(&mut self, observed: &Observed<'_>) {
        // Where the first request has another PSN than was announced, it is not known whether it is the first.
        if let Observed::Faulty(Faulty { from, fault: Fault::Start { .. }, .. }) = observed {
            self.lost[*from] += 1;
        }
    }

    /// Joins two half-flows. Their Sends before that may be incomplete.
    pub(crate) fn note_joined(&mut self) {
        (self.lost, self.ending) = ([0; 2], None);
        (self.paired, self.joined) = (true, true);
    }
}
