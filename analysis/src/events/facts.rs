//! The parts of a connection's history: calls, runs of packets, silences, and its end.

use super::SILENCE;
use crate::names::{Label, Protocol};
use rdmascope_dissector::connection::{Connection, Contexts, Counts, State};
use rdmascope_dissector::frame::Address;
use rdmascope_dissector::observation::Closing;
use rdmascope_dissector::rdma::{End, Piece, Position, Refusal};
use rdmascope_dissector::record::{Seen, Time};
use rdmascope_dissector::transaction::{Direction, OpenTransaction, Transaction};
use rdmascope_wire::Xid;

/// A run of packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) first: Seen,
    pub(super) last: Seen,
    pub(super) count: u64,
}

impl Run {
    pub(super) fn new(seen: Seen) -> Run {
        Run { first: seen, last: seen, count: 1 }
    }

    /// Adds a packet to a run, or begins one.
    pub(super) fn add(run: &mut Option<Run>, seen: Seen) {
        match run {
            Some(run) => run.extend(seen),
            None => *run = Some(Run::new(seen)),
        }
    }

    /// Adds a packet.
    pub(super) fn extend(&mut self, seen: Seen) {
        self.last = seen;
        self.count += 1;
    }

    /// Nanoseconds from the first to the last.
    pub(super) fn length(&self) -> u64 {
        self.last.time.since(self.first.time)
    }
}

/// A silence between two replies of an established connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    pub(super) start: Seen,
    pub(super) end: Seen,
    /// The start of the longest wait among calls that were under way at the end of the silence.
    pub(super) waiting: Option<Time>,
    pub(super) calls: u64,
    /// The latest call that had its reply when the silence began.
    pub(super) answered: Option<Time>,
    /// The call whose reply ended the silence.
    pub(super) ended_by: Option<Time>,
    /// The parts of the silence in which chunks of waiting calls moved: a bit for each 64th.
    pub(super) moved: u64,
}

impl Gap {
    /// Whether a call waited during the silence and after it, although a much later call ended it.
    /// Then the silence is no loss of service.
    pub(super) fn passes(&self, call: &Call) -> bool {
        if call.acknowledged.is_some_and(|at| self.ends_with(call, at)) {
            return false;
        }
        let is_left = call.reply.is_none_or(|reply| reply.time.since(self.end.time) >= SILENCE);
        call.is_passed(self.answered) || is_left && call.is_passed(self.ended_by)
    }

    /// Whether the server acknowledged a call so late that it received nothing during the silence.
    fn ends_with(&self, call: &Call, acknowledged: Time) -> bool {
        acknowledged.since(call.seen.time) >= SILENCE && self.end.time.since(acknowledged) < SILENCE
    }

    /// Counts a call that waited at its end.
    pub(super) fn count(&mut self, call: &Call) {
        let is_open = call.reply.is_none_or(|reply| reply.frame >= self.end.frame);
        let is_long = self.end.time.since(call.seen.time) >= SILENCE;
        if is_open && is_long && !self.passes(call) {
            self.waiting = Some(self.waiting.map_or(call.seen.time, |waiting| waiting.min(call.seen.time)));
            self.calls += 1;
            call.moved.into_iter().flatten().for_each(|span| self.note_moved(span));
        }
    }

    /// Moves its start, and forgets what moved in its parts.
    pub(super) fn begin_at(&mut self, start: Seen) {
        (self.start, self.moved) = (start, 0);
    }

    /// The length of a part in `moved`, in nanoseconds.
    fn part(&self) -> u64 {
        self.end.time.since(self.start.time) / u64::from(u64::BITS) + 1
    }

    /// Notes RDMA operations of a waiting call. Between two that are far apart, nothing may have moved.
    fn note_moved(&mut self, (first, last): (Time, Time)) {
        let part = self.part();
        let place = |time: Time| {
            (self.start.time <= time && time <= self.end.time).then(|| time.since(self.start.time) / part)
        };
        let (first, last) = match (place(first), place(last)) {
            (Some(first), Some(to)) if first <= to && (to - first) * part < SILENCE => (first, to),
            (Some(only), _) | (None, Some(only)) => (only, only),
            (None, None) => return,
        };
        (first..=last).for_each(|bit| self.moved |= 1 << bit);
    }

    /// Whether chunks of waiting calls moved at least once in each [`SILENCE`] from this time on.
    fn is_busy(&self, from: Time) -> bool {
        let mut quiet = 0;
        let first = from.since(self.start.time) / self.part();
        let mut rest = !self.moved & u64::MAX << first;
        while rest != 0 {
            rest &= rest << 1;
            quiet += 1;
        }
        (quiet + 2) * self.part() < SILENCE
    }

    /// The start and the length of the wait for service; `None` if it is shorter than [`SILENCE`], or if
    /// the calls only waited for their data.
    pub(super) fn lost(&self) -> Option<(Time, u64)> {
        let from = self.waiting?.max(self.start.time);
        let length = self.end.time.since(from);
        (length >= SILENCE && !self.is_busy(from)).then_some((from, length))
    }
}

/// A call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) xid: Xid,
    pub(super) seen: Seen,
    /// Whether the capture is complete from the call on.
    pub(super) is_complete: bool,
    pub(super) protocol: Option<Protocol>,
    pub(super) label: Label,
    pub(super) direction: Direction,
    /// The reply.
    pub(super) reply: Option<Seen>,
    /// For a call without a reply: the time up to which the capture shows that none came.
    pub(super) until: Option<Time>,
    /// Whether it offered Read chunks, and the responder read nothing of them.
    pub(super) is_unread: bool,
    /// The ACK of the call.
    pub(super) acknowledged: Option<Time>,
    /// The times of its first and last RDMA Read, and of its RDMA Writes.
    pub(super) moved: [Option<(Time, Time)>; 2],
}

impl Call {
    pub(super) fn of(transaction: &Transaction) -> Option<Call> {
        let call = transaction.call.as_ref()?;
        Some(Call {
            xid: transaction.xid,
            seen: call.seen,
            is_complete: !transaction.lossy
                && (!transaction.capture_gap || transaction.memory_unseen)
                && !transaction.clock_stepped,
            protocol: Protocol::of(transaction),
            label: Label::of(transaction),
            direction: transaction.direction,
            reply: transaction.reply.as_ref().map(|reply| reply.seen),
            until: transaction.unanswered_until,
            acknowledged: transaction.timing.acknowledged.map(|seen| seen.time),
            moved: [transaction.timing.reads, transaction.timing.writes],
            is_unread: !call.read_chunks.is_empty()
                && transaction.timing.reads.is_none()
                && !transaction.memory_unseen,
        })
    }

    /// A call of the requester that has no reply so far. Packets that are missing from its connection
    /// count there.
    pub(super) fn open(open: &OpenTransaction<'_>) -> Option<Call> {
        let call = open.call.filter(|_| open.reply.is_none() && open.direction == Direction::Forward)?;
        Some(Call {
            xid: open.xid,
            seen: call.seen,
            is_complete: call.missing.is_empty(),
            protocol: None,
            label: Label::Unknown,
            direction: open.direction,
            reply: None,
            until: None,
            acknowledged: open.timing.acknowledged.map(|seen| seen.time),
            moved: [open.timing.reads, open.timing.writes],
            is_unread: !call.read_chunks.is_empty() && open.timing.reads.is_none(),
        })
    }

    /// Whether its reply was not sent before this packet.
    pub(super) fn is_answered_since(&self, packet: Seen) -> bool {
        self.reply.is_some_and(|reply| reply.frame >= packet.frame)
    }

    /// Notes an earlier transmission of this call. A call of another operation has the same XID only
    /// by chance.
    pub(super) fn sent_before(&mut self, earlier: &Call) {
        if (self.protocol, self.label) == (earlier.protocol, earlier.label) {
            self.seen = earlier.seen;
            self.is_complete &= earlier.is_complete;
        }
    }

    /// Nanoseconds that it waited, at least.
    pub(super) fn waited(&self) -> u64 {
        let end = self.reply.map(|reply| reply.time).or(self.until);
        end.map_or(0, |end| end.since(self.seen.time))
    }

    /// Whether it may be the other call, sent again on a later connection.
    pub(super) fn may_repeat(&self, other: &Call) -> bool {
        let is_known = |call: &Call| !matches!(call.label, Label::Unknown | Label::CutAfter(_));
        self.xid == other.xid
            && (!is_known(self)
                || !is_known(other)
                || (self.protocol, self.label) == (other.protocol, other.label))
    }

    /// Whether it waited although a call that was sent much later has its reply. Such a wait is no
    /// loss of service.
    pub(super) fn is_passed(&self, answered: Option<Time>) -> bool {
        answered.is_some_and(|answered| answered.since(self.seen.time) >= SILENCE)
    }
}

/// A request that was sent again and is not acknowledged yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retry {
    pub(super) position: Position,
    pub(super) piece: Piece,
    /// The length of the requested RDMA Read, in bytes.
    pub(super) read_length: u32,
    pub(super) run: Run,
}

impl Retry {
    /// Whether it arrived, if its sender knows that this position did.
    pub(super) fn is_answered(&self, acknowledged: Option<Position>) -> bool {
        acknowledged.is_some_and(|acknowledged| self.position.distance(acknowledged) >= 0)
    }
}

/// NAKs of one end in quick succession.
#[derive(Clone, Copy, Debug)]
pub(super) struct Burst {
    pub(super) from: End,
    pub(super) refusal: Refusal,
    pub(super) run: Run,
}

/// Times at which all granted credits were in use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exhaustion {
    pub(super) granted: u32,
    pub(super) run: Run,
    pub(super) length: u64,
}

/// The facts of an ended connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Summary {
    pub(super) requester: Address,
    pub(super) responder: Address,
    /// The contexts of both ends.
    pub(super) contexts: [Contexts; 2],
    pub(super) port: Option<u16>,
    pub(super) state: State,
    pub(super) first: Time,
    pub(super) last: Time,
    /// Whether the capture contains packets from each end, requester first.
    pub(super) captured_ends: [bool; 2],
    pub(super) is_iwarp: bool,
    /// Whether it is known to carry another protocol than RPC-over-RDMA.
    pub(super) is_foreign: bool,
}

impl Summary {
    pub(super) fn of(connection: &Connection) -> Summary {
        let Connection { requester, responder, port, state, first, last, is_iwarp, is_foreign, .. } =
            connection;
        let sent = |counts: &Counts| counts.packets > 0;
        Summary {
            requester: requester.address,
            responder: responder.address,
            contexts: connection.contexts(),
            port: *port,
            state: *state,
            first: *first,
            last: *last,
            captured_ends: [sent(&requester.sent), sent(&responder.sent)],
            is_iwarp: *is_iwarp,
            is_foreign: *is_foreign,
        }
    }
}

/// How a connection was closed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Closed {
    pub(super) seen: Seen,
    /// Whether the requester closed it; `None` if it is unknown which end opened the connection.
    pub(super) by_requester: Option<bool>,
    pub(super) how: Closing,
    /// Whether it shows that a request for the connection over TCP was never answered.
    pub(super) shows_silence: bool,
}
