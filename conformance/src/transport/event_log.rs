//! The events that led to the end of a connection, in order.

use super::Read;
use super::problems::{Retransmission, is_fatal};
use crate::bounded;
use crate::check::{Findings, View};
use crate::finding::Finding;
use alloc::borrow::ToOwned;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use core::fmt::Write;
use rdmascope_dissector::connection::{Connection, State};
use rdmascope_dissector::observation::{Announced, Closes, Closing, Managed, Meaning, Observed};
use rdmascope_dissector::rdma::{End, Failure, Position, Refusal};
use rdmascope_dissector::transaction::{Outcome, Seen, Transaction};
use rdmascope_wire::cm::{Message, reject_reason_name};

/// Events of a connection other than Sends and RDMA operations.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventLog {
    /// The last events, in capture order.
    events: VecDeque<LoggedEvent>,
    /// A request was refused with a fatal NAK.
    is_fatal: bool,
    /// The connection has ended: transactions that end now were outstanding.
    is_over: bool,
    /// Outstanding calls whose replies the capture is not known to lack.
    outstanding: u64,
    /// Outstanding calls whose replies the capture may lack.
    uncertain: u64,
    /// Replies without a call in the capture. One of them may answer a call that seems outstanding.
    orphans: u64,
    /// The first of the outstanding calls.
    first_call: Option<u64>,
}

/// The same event, once or several times in a row.
#[derive(Clone, Copy, Debug)]
struct LoggedEvent {
    kind: EventKind,
    /// The end that caused it.
    from: End,
    times: u32,
    first: Seen,
    last: Seen,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum EventKind {
    Message(&'static str),
    Rejected(u16),
    Repeated(Position),
    NotReady(Position),
    OutOfSequence(Position),
    /// The frame of the request, if known.
    Fatal(Failure, Option<u64>),
}

impl EventLog {
    /// Heap bytes that it takes up.
    pub(super) fn footprint(&self) -> usize {
        self.events.len() * size_of::<LoggedEvent>()
    }

    /// Events that are kept: the last ones.
    const MOST: usize = 12;

    fn note(&mut self, kind: EventKind, from: End, seen: Seen) {
        if let Some(last) = self.events.back_mut().filter(|last| last.from == from && last.kind == kind) {
            last.times += 1;
            last.last = seen;
            return;
        }
        let event = LoggedEvent { kind, from, times: 1, first: seen, last: seen };
        bounded::push(&mut self.events, EventLog::MOST, event);
    }

    /// Describes the events that led to the end.
    pub(crate) fn describe(&self, requester: End) -> String {
        let mut words = String::new();
        for event in &self.events {
            let separator = if words.is_empty() { "" } else { ", " };
            // Writing to a String never fails.
            let _ = write!(words, "{separator}{}", event.words(requester));
        }
        words
    }

    pub(crate) fn frames(&self) -> impl Iterator<Item = u64> {
        // A finding names at most 16 frames. The last ones are closest to the end of the
        // connection.
        let later = self.events.iter().rev().take(Finding::MOST_FRAMES / 2 - 1);
        later.flat_map(|event| [event.first.frame, event.last.frame])
    }
}

impl LoggedEvent {
    fn words(&self, requester: End) -> String {
        let name = |end: End| if end == requester { "the Requester" } else { "the Responder" };
        let description = match self.kind {
            EventKind::Message(message) => format!("{message} by {}", name(self.from)),
            EventKind::Rejected(reason) => {
                let reason = reject_reason_name(reason).map_or(format!("reason {reason}"), str::to_owned);
                format!("ConnectReject by {}: {reason}", name(self.from))
            }
            EventKind::Repeated(at) => format!("{} {at} retransmitted by {}", at.unit(), name(self.from)),
            EventKind::NotReady(at) => format!("{} has no Receive for {} {at}", name(self.from), at.unit()),
            EventKind::OutOfSequence(at) => format!("{} waits for {} {at}", name(self.from), at.unit()),
            EventKind::Fatal(code, Some(request)) => {
                format!("{} refuses the request of frame {request}: {code}", name(self.from))
            }
            EventKind::Fatal(code, None) => format!("{} refuses a request: {code}", name(self.from)),
        };
        match self.times {
            1 => format!("{description} (frame {})", self.first.frame),
            times => {
                format!("{description} {times} times (frames {} to {})", self.first.frame, self.last.frame)
            }
        }
    }
}

impl EventLog {
    /// Records an observation other than a Send. `again` returns the PSN that an end is
    /// retransmitting.
    pub(super) fn observe(&mut self, observed: &Observed<'_>, again: impl Fn(End) -> Option<Position>) {
        match observed {
            Observed::Announced(Announced { from, seen, meaning, name, .. }) => {
                let kind = match meaning {
                    Meaning::Rejects(Some(reason)) => EventKind::Rejected(*reason),
                    _ => EventKind::Message(name),
                };
                self.note(kind, *from, *seen);
            }
            Observed::Closes(Closes { from, seen, how: how @ (Closing::Fin | Closing::Reset), .. }) => {
                self.note(EventKind::Message(how.name()), *from, *seen);
            }
            Observed::Managed(Managed { from, seen, message, .. }) => match message {
                // These are also reported as announcements.
                Message::Request(_) | Message::Reply(_) | Message::Reject(_) => {}
                message => self.note(EventKind::Message(message.name()), *from, *seen),
            },
            Observed::Refused(refused) => {
                let kind = match (refused.refusal, is_fatal(refused.refusal)) {
                    (_, Some(code)) => {
                        self.is_fatal = true;
                        EventKind::Fatal(code, refused.request.map(|request| request.frame))
                    }
                    (Refusal::ReceiverNotReady(_), None) => EventKind::NotReady(refused.position),
                    (_, None) => EventKind::OutOfSequence(refused.position),
                };
                self.note(kind, refused.from, refused.seen);
            }
            // A sender that goes back retransmits all packets from there on. Only the first of them
            // is logged.
            Observed::Repeated(repeated) if again(repeated.from) == Some(repeated.position) => {
                self.note(EventKind::Repeated(repeated.position), repeated.from, repeated.seen);
            }
            Observed::Ending(_) => self.is_over = true,
            _ => {}
        }
    }

    /// Records a reply without a call.
    pub(super) fn note_transaction(&mut self, transaction: &Transaction) {
        self.orphans += u64::from(transaction.outcome == Outcome::NoCall);
    }

    /// Records a call that had no reply when the connection ended.
    pub(super) fn note_unanswered(&mut self, transaction: &Transaction, lacks_reply: bool) {
        if !self.is_over {
            return;
        }
        if lacks_reply {
            self.uncertain += 1;
        } else {
            self.outstanding += 1;
        }
        if self.first_call.is_none() {
            self.first_call = transaction.call.as_ref().map(|call| call.seen.frame);
        }
    }
}

/// Reports how a connection broke.
pub(super) fn broken(connection: &Connection, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    let log = &view.memory.0.events;
    let calls = log.outstanding + log.uncertain;
    let unacknowledged =
        End::BOTH.into_iter().find_map(|from| Some((from, view.unacknowledged_request(from)?)));
    let unready = End::BOTH.into_iter().find(|end| {
        let unready = view.memory.0.problems[*end].unready;
        unready.is_some_and(|unready| !view.is_acknowledged(end.other(), unready.psn))
    });
    let outstanding = log.outstanding > 0 && log.orphans == 0;
    let is_certain = log.is_fatal
        || unacknowledged.is_some_and(|(from, again)| {
            again.times >= Retransmission::CERTAIN && view.has_packets_from(from.other())
        })
        || unready.is_some()
        || outstanding;
    // If only the reply to a call may be missing from the capture, nothing broke.
    if !is_certain && unacknowledged.is_none() {
        return;
    }
    let mut words = match connection.state {
        State::Closed => "the connection ended".to_owned(),
        _ => "the connection came to a standstill".to_owned(),
    };
    if calls > 0 {
        let _ = write!(words, " with {calls} {} outstanding", if calls == 1 { "call" } else { "calls" });
    }
    let _ = write!(words, ": {}", log.describe(view.requester));
    findings.add(Finding::new(words).frames(log.first_call).frames(log.frames()).unless(!is_certain));
}
