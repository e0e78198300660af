//! Events: what happened to the connections of a session, in the order of time. Connections that were made, refused and closed, requests that
//! were sent until nobody waited any more, and the seconds in which nobody was served.
//!
//! Here: what an event is. `gather` keeps of each connection what is needed, within bounds; `tell` makes events of it at the end.

mod course;
mod failing;
mod gather;
mod state;
mod tell;

pub use gather::Events;

use crate::filter::{Span, among};
use rdmascope_dissector::connection::ConnectionId;
use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::{Outcome, Transaction};

/// A silence shorter than this is none: nanoseconds. So long nobody was served while somebody waited, so long bursts may pause.
pub const SILENCE: u64 = 1_000_000_000;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A connection was made.
    Connected,
    /// A REQ was sent again before it was answered.
    RequestRepeated,
    /// A REQ or an MPA Request was never answered.
    RequestUnanswered,
    /// A REJ, or an MPA Reply with R set, ended the making of a connection.
    Rejected,
    /// A connection was closed.
    Disconnected,
    /// Somebody waited, and no reply came.
    ServiceLost,
    /// The same request was sent again and again, and never acknowledged.
    RetriesExhausted,
    /// NAKs shortly one after the other.
    Nak,
    /// RNR NAKs shortly one after the other.
    RnrNak,
    /// Calls that a closed connection left without a reply came again on the next one.
    CallsReplayed,
    /// NFSv4 calls that make client ID, session and state anew, behind a reconnect.
    Recovery,
    /// As many calls were under way as the server had granted.
    CreditsExhausted,
    /// A call failed in the same way on one connection after the other.
    CallFailsAgain,
    /// A server raised flags of sr_status_flags.
    StatusFlags,
    /// State of NFSv4 was revoked, lost or abandoned.
    StateLost,
    /// Delegations or layouts were recalled, and nobody gave them back.
    RecallUnanswered,
    /// The end of asynchronous copies was not reported.
    CopyUnreported,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 17] = [
        Kind::Connected,
        Kind::RequestRepeated,
        Kind::RequestUnanswered,
        Kind::Rejected,
        Kind::Disconnected,
        Kind::ServiceLost,
        Kind::RetriesExhausted,
        Kind::Nak,
        Kind::RnrNak,
        Kind::CallsReplayed,
        Kind::Recovery,
        Kind::CreditsExhausted,
        Kind::CallFailsAgain,
        Kind::StatusFlags,
        Kind::StateLost,
        Kind::RecallUnanswered,
        Kind::CopyUnreported,
    ];

    /// Its name for programs.
    pub const fn word(self) -> &'static str {
        match self {
            Kind::Connected => "connected",
            Kind::RequestRepeated => "request-repeated",
            Kind::RequestUnanswered => "request-unanswered",
            Kind::Rejected => "rejected",
            Kind::Disconnected => "disconnected",
            Kind::ServiceLost => "service-lost",
            Kind::RetriesExhausted => "retries-exhausted",
            Kind::Nak => "nak",
            Kind::RnrNak => "rnr-nak",
            Kind::CallsReplayed => "calls-replayed",
            Kind::Recovery => "recovery",
            Kind::CreditsExhausted => "credits-exhausted",
            Kind::CallFailsAgain => "call-fails-again",
            Kind::StatusFlags => "status-flags",
            Kind::StateLost => "state-lost",
            Kind::RecallUnanswered => "recall-unanswered",
            Kind::CopyUnreported => "copy-unreported",
        }
    }

    /// Whether service was lost, or was not to be had.
    pub const fn is_loss(self) -> bool {
        matches!(
            self,
            Kind::RequestRepeated
                | Kind::RequestUnanswered
                | Kind::Rejected
                | Kind::ServiceLost
                | Kind::RetriesExhausted
                | Kind::CallFailsAgain
        )
    }
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionEvent {
    /// When it began.
    pub time: Time,
    /// What happened.
    pub kind: Kind,
    /// To which connection.
    pub connection: ConnectionId,
    /// Of a connection that was made: the one that it follows. Of service lost: the one on which it came back. Of a call that fails again: the
    /// last one on which it did.
    pub other: Option<ConnectionId>,
    /// Of a call that fails again: all connections on which it did, in the order of time; else empty.
    pub through: Vec<ConnectionId>,
    /// The end that did it; `None` where nobody did, or where that is not known.
    pub by_requester: Option<bool>,
    /// How long it took, in nanoseconds.
    pub duration: Option<u64>,
    /// How many packets, calls or times.
    pub count: u64,
    /// The packets that show it: the first and the last.
    pub frames: [Option<u64>; 2],
    /// What happened, in words for people.
    pub text: String,
}

impl SessionEvent {
    /// Whether it reaches into this span, in a capture that starts at `start`.
    pub fn is_within(&self, span: Span, start: Time) -> bool {
        span.overlaps(self.time, self.time.plus(self.duration.unwrap_or(0)), start)
    }

    /// Whether the packet of this number shows it.
    pub fn is_shown_by(&self, frame: u64) -> bool {
        self.frames.contains(&Some(frame))
    }

    /// Whether it is about this connection.
    fn is_of(&self, connection: ConnectionId) -> bool {
        self.connection == connection || self.other == Some(connection) || self.through.contains(&connection)
    }

    /// Whether it happened to the connection of `transaction`, between its first packet and its last. A call without a reply waits until the
    /// end of the capture.
    pub fn is_during(&self, transaction: &Transaction) -> bool {
        let messages = || [&transaction.call, &transaction.reply].into_iter().flatten();
        let Some(first) = messages().map(|message| message.first.time).min() else { return false };
        let last = match (&transaction.reply, transaction.outcome) {
            (None, Outcome::NoReply) => Time(i64::MAX),
            _ => messages().map(|message| message.seen.time).max().unwrap_or(first),
        };
        let end = self.time.plus(self.duration.unwrap_or(0));
        self.is_of(transaction.connection) && self.time <= last && end >= first
    }
}

/// Which events are wanted.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    /// Those of connections of these numbers.
    pub connections: Vec<ConnectionId>,
    /// Those of these kinds.
    pub kinds: Vec<Kind>,
    /// Those that reach into this span.
    pub span: Span,
}

impl EventFilter {
    /// Whether `event` is wanted, in a capture that starts at `start`.
    pub fn matches(&self, event: &SessionEvent, start: Time) -> bool {
        among(&self.connections, |id| event.is_of(*id))
            && among(&self.kinds, |kind| *kind == event.kind)
            && event.is_within(self.span, start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_tests::values;

    #[test]
    fn an_event_is_during_a_transaction_of_its_connection() {
        let transaction = values::read(7, 100);
        let (call, reply) = (transaction.call.as_ref().unwrap(), transaction.reply.as_ref().unwrap());
        let (first, last) = (call.first.time, reply.seen.time);
        let event = |time: i64, duration, connection, other| SessionEvent {
            time: Time(time),
            kind: Kind::Nak,
            connection,
            other,
            through: Vec::new(),
            by_requester: None,
            duration,
            count: 1,
            frames: [Some(7), None],
            text: String::new(),
        };
        let (here, there) = (transaction.connection, ConnectionId(transaction.connection.0 + 1));
        for (time, duration, during) in [
            (first.0 - 1, None, false),
            (first.0 - 1, Some(1), true),
            (first.0, None, true),
            (last.0, Some(5), true),
            (last.0 + 1, None, false),
        ] {
            assert_eq!(event(time, duration, here, None).is_during(&transaction), during, "{time}");
            assert_eq!(event(time, duration, there, Some(here)).is_during(&transaction), during, "{time}");
            assert!(!event(time, duration, there, None).is_during(&transaction), "{time}");
        }
        let waits = Transaction { reply: None, outcome: Outcome::NoReply, ..transaction };
        assert!(event(last.0 + 1, None, here, None).is_during(&waits));
        assert!(!event(first.0 - 1, None, here, None).is_during(&waits));
        assert!(event(0, None, here, None).is_shown_by(7) && !event(0, None, here, None).is_shown_by(8));
    }

    #[test]
    fn kinds_have_different_words() {
        let mut words = Kind::ALL.map(Kind::word);
        words.sort_unstable();
        assert!(words.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
