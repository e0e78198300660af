//! The state of a connection that all subjects share, and the trait for the state of one subject.

use alloc::boxed::Box;
use rdmascope_dissector::connection::{Connection, ConnectionId, Origin};
use rdmascope_dissector::observation::{
    Ending, Faulty, HalfFlow, Kind, Missing, Observation, Observed, Sent,
};
use rdmascope_dissector::rdma::{End, Fault};
use rdmascope_dissector::record::REORDERING;
use rdmascope_dissector::transaction::{Direction, Seen, Transaction};

/// The state of a connection that every subject needs.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    /// The number of the connection.
    pub(crate) connection: ConnectionId,
    /// The end that opened it; if that is not known, the end that was first seen to call.
    pub(crate) requester: End,
    /// Whether it is known which end opened the connection.
    pub(crate) roles_known: bool,
    /// How completely the capture shows the Sends of each end.
    pub(crate) half_flows: [HalfFlow; 2],
    /// The connection as of the last CM message or MPA start frame; `None` if none was captured.
    pub(crate) established: Option<Box<Connection>>,
    /// The number of its network among those of connections to the same address.
    pub(crate) network: u32,
    /// Packets that each end sent and the capture lacks, as far as known so far.
    pub(crate) lost: [u64; 2],
    /// By end: the capture showed one of its messages after the acknowledgement of that message.
    /// The two half-flows are shifted against each other, so the silence of this end is no
    /// evidence.
    pub(crate) is_shown_late: [bool; 2],
    /// Both half-flows are known.
    pub(crate) paired: bool,
    /// The connection was joined from two half-flows. Earlier Sends of the ends are not taken into
    /// account.
    pub(crate) joined: bool,
    /// The state at the end of the connection, once it has ended.
    pub(crate) ending: Option<Ending>,
}

/// The state of a connection that one subject keeps for its rules.
///
/// Every event is passed to the state of every subject, after the rules ran on it.
pub(crate) trait Memory {
    /// Records a Send.
    fn sent(&mut self, _sent: &Sent<'_>, _known: &Known) {}

    /// Records a finished transaction.
    fn transaction(&mut self, _transaction: &Transaction, _known: &Known) {}

    /// Records a call that has no reply. `lacks_reply`: the capture may lack the reply.
    /// [`Memory::transaction`] follows.
    fn unanswered(&mut self, _call: &Transaction, _lacks_reply: bool) {}

    /// Records an observation other than a Send.
    fn observed(&mut self, _observed: &Observed<'_>, _known: &Known) {}

    /// Records that the engine evicted a call of this end before a reply was seen.
    fn evicted(&mut self, _caller: End) {}

    /// Heap bytes that its lists take up.
    fn footprint(&self) -> usize {
        0
    }

    /// Records that two half-flows were joined to this connection. Counts of Sends have to be
    /// reset, because the earlier Sends of both ends may be incomplete.
    fn joined(&mut self);
}

/// Whether two packets are so close together that the capture may show them in the wrong order.
pub(crate) fn is_close(earlier: Seen, later: Seen) -> bool {
    let (nanoseconds, packets) = REORDERING;
    later.time.since(earlier.time) <= nanoseconds
        || later.frame.saturating_sub(earlier.frame) <= u64::from(packets)
}

impl Known {
    /// Whether the capture contains the connection from its beginning. A CM message gives the start
    /// of both ends' streams, an MPA start frame only that of its sender.
    pub(crate) fn holds_start(&self) -> bool {
        let is_known = |connection: &Connection| {
            let ends = [&connection.requester, &connection.responder];
            connection.origin == Origin::Cm
                && (!connection.is_iwarp || ends.iter().all(|end| end.start.is_some()))
        };
        !self.joined && self.established.as_deref().is_some_and(is_known)
    }

    /// Packets of this end that are missing, plus the number of times that missing packets could
    /// have gone unnoticed.
    pub(crate) fn losses(&self, end: End) -> u64 {
        self.lost[end] + u64::from(self.half_flows[end].unsure)
    }

    /// Whether the capture contains everything that this end sent, as far as known so far.
    pub(crate) fn is_fully_captured(&self, end: End) -> bool {
        let HalfFlow { waits, lags, .. } = self.half_flows[end];
        self.holds_start() && self.losses(end) == 0 && !waits && !lags
    }

    /// The direction of the transactions that this end calls.
    pub(crate) fn direction(&self, caller: End) -> Direction {
        if caller == self.requester { Direction::Forward } else { Direction::Backward }
    }

    /// The direction of the transaction that a Send belongs to; `None` if unknown.
    pub(crate) fn direction_of(&self, sent: &Sent<'_>) -> Option<Direction> {
        match sent.kind {
            Kind::Call | Kind::Done => Some(self.direction(sent.from)),
            Kind::Reply | Kind::Error => Some(self.direction(sent.from.other())),
            Kind::Other => None,
        }
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

    /// The most bytes that a Send of this end may have; `None` if the capture lacks the
    /// negotiation.
    pub(crate) fn inline_threshold(&self, from: End) -> Option<u32> {
        let connection = self.established.as_ref()?;
        if from == self.requester {
            connection.call_inline_threshold
        } else {
            connection.reply_inline_threshold
        }
    }

    /// Whether the capture contains anything that the host of this end sent to the host of the
    /// other end. If not, silence of this end is no evidence. Valid only at the end of the
    /// connection.
    pub(crate) fn has_packets_from(&self, end: End) -> bool {
        self.ending.is_some_and(|ending| ending.captured[end])
    }

    /// Whether the connection was closed. Valid only at its end. Otherwise a call may have waited for
    /// its reply until the capture ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.ending.is_some_and(|ending| ending.is_closed)
    }

    /// Whether the capture contains everything that this end sent up to this frame. Valid only at
    /// the end of the connection.
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
            network: 0,
            lost: [0; 2],
            is_shown_late: [false; 2],
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

    /// Records whether the capture shows a message after its acknowledgement.
    #[inline]
    pub(crate) fn note_order(&mut self, sent: &Sent<'_>) {
        let Some((until, seen)) = self.half_flows[sent.from].acknowledged else { return };
        let last = sent.send.last();
        let covers = (0..last.window()).contains(&last.distance(until));
        self.is_shown_late[sent.from] |= covers && seen.frame < sent.send.seen.frame;
    }

    pub(crate) fn note_missing(&mut self, missing: &Missing) {
        self.lost[missing.from] += u64::from(missing.packets);
    }

    /// Records the connection as changed by a CM message or MPA start frame.
    pub(crate) fn note_established(&mut self, connection: &Connection) {
        match &mut self.established {
            Some(known) => (**known).clone_from(connection),
            none => *none = Some(Box::new(connection.clone())),
        }
    }

    /// Records an observation other than a Send, after the rules ran on it.
    pub(crate) fn note_observed(&mut self, observed: &Observed<'_>) {
        // If the first request does not have the announced PSN, it may not be the first.
        if let Observed::Faulty(Faulty { from, fault: Fault::Start { .. }, .. }) = observed {
            self.lost[*from] += 1;
        }
    }

    /// Joins two half-flows. Their earlier Sends may be incomplete.
    pub(crate) fn note_joined(&mut self) {
        (self.lost, self.is_shown_late, self.ending) = ([0; 2], [false; 2], None);
        (self.paired, self.joined) = (true, true);
    }
}
