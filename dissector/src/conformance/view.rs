//! What is remembered of a connection, for rules to look at.

use super::credits;
use crate::connection::{Connection, ConnectionId, Origin};
use crate::observation::{HalfFlow, Missing, Observation, Sent};
use crate::transaction::{Direction, Transaction};

/// What is known of a connection when something happens on it. Ends are named by their index.
#[derive(Debug)]
pub struct View {
    /// Its number.
    pub connection: ConnectionId,
    /// The end that opened it, or that stands as the one that did.
    pub requester: usize,
    /// How far the capture shows what each end sends.
    pub half_flows: [HalfFlow; 2],
    /// The connection as the last CM message left it; `None` where no CM message was captured.
    pub established: Option<Box<Connection>>,
    /// Packets that each end sent and the capture lacks, as far as is known by now.
    pub lost: [u64; 2],
    /// Both half-flows are known.
    pub paired: bool,
    /// The connection was put together from two halves: what each said before is not taken into account.
    pub joined: bool,
    /// Credits of the requests that each end sends.
    pub credits: [credits::Ledger; 2],
}

impl View {
    pub(super) fn new(connection: ConnectionId) -> View {
        View {
            connection,
            requester: 0,
            half_flows: Default::default(),
            established: None,
            lost: [0; 2],
            paired: false,
            joined: false,
            credits: Default::default(),
        }
    }

    /// Whether the capture holds the connection from its beginning.
    pub fn from_start(&self) -> bool {
        !self.joined && self.established.as_ref().is_some_and(|connection| connection.origin == Origin::Cm)
    }

    /// Whether the capture holds all that this end sent, as far as is known by now.
    pub fn is_whole(&self, end: usize) -> bool {
        self.from_start() && self.lost[end] == 0 && !self.half_flows[end].waits
    }

    /// The direction of the transactions that this end calls.
    pub fn direction(&self, caller: usize) -> Direction {
        if caller == self.requester { Direction::Forward } else { Direction::Backward }
    }

    /// The end that calls in this direction.
    pub fn caller(&self, direction: Direction) -> usize {
        match direction {
            Direction::Forward => self.requester,
            Direction::Backward => 1 - self.requester,
        }
    }

    /// The end that answers in this direction.
    pub fn answerer(&self, direction: Direction) -> usize {
        1 - self.caller(direction)
    }

    /// Bytes that a Send of this end may have; `None` where the capture does not hold what was negotiated.
    pub fn inline_threshold(&self, from: usize) -> Option<u32> {
        let connection = self.established.as_ref()?;
        if from == self.requester {
            connection.call_inline_threshold
        } else {
            connection.reply_inline_threshold
        }
    }

    pub(super) fn note(&mut self, observation: &Observation<'_>) {
        self.requester = observation.requester;
        self.half_flows = *observation.half_flows;
    }

    pub(super) fn note_sent(&mut self, sent: &Sent<'_>) {
        self.paired = sent.paired;
        self.note_credits(sent);
    }

    pub(super) fn note_missing(&mut self, missing: &Missing) {
        self.lost[missing.from] += u64::from(missing.packets);
    }

    pub(super) fn note_transaction(&mut self, _: &Transaction) {}

    /// A call was given up although no reply was seen.
    pub(super) fn note_eviction(&mut self, direction: Direction) {
        self.credits[self.caller(direction)].forget_calls();
    }

    /// Two half-flows became this connection: what each said before that is not known to be complete.
    pub(super) fn note_joined(&mut self) {
        let connection = View { established: self.established.take(), ..View::new(self.connection) };
        *self = View { requester: self.requester, half_flows: self.half_flows, ..connection };
        (self.paired, self.joined) = (true, true);
    }
}
