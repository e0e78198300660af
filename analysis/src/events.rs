//! Events of a session's connections, in order of time: connections made, refused and closed,
//! requests sent until the sender gave up, and periods without service.
//!
//! This module defines the event. `gather` collects bounded facts for each connection, and
//! `listing` creates events from them at the end.

mod arrival;
mod credits;
mod delayed;
mod facts;
mod failing;
mod gather;
mod history;
mod known;
mod listing;
mod lost;
mod outages;
mod recovery;
mod setup;
mod state;
mod twice;

pub use gather::{Events, Open};

use crate::filter::{Span, among};
use rdmascope_dissector::connection::ConnectionId;
use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::{Outcome, Transaction};

/// The shortest silence that counts as lost service, in nanoseconds. Shorter pauses occur between
/// bursts.
pub const SILENCE: u64 = 1_000_000_000;

/// A REQ or other packet within this time after itself was captured twice, in nanoseconds.
const TWICE: u64 = 1_000_000;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A connection was made.
    Connected,
    /// A REQ, or the SYN of an iWARP connection, was sent again, because it was not answered, or because
    /// the answer was lost.
    RequestRepeated,
    /// A REQ, an MPA Request or a SYN was never answered.
    RequestUnanswered,
    /// A REJ, an MPA Reply with R set, or a RST in answer to a SYN rejected a connection.
    Rejected,
    /// A connection was closed.
    Disconnected,
    /// A call or a connection request waited, and no reply came.
    ServiceLost,
    /// A request was sent again several times and never acknowledged.
    RetriesExhausted,
    /// NAKs in quick succession.
    Nak,
    /// RNR NAKs in quick succession.
    RnrNak,
    /// Calls that a closed connection left without a reply were sent again on the next connection.
    CallsReplayed,
    /// NFSv4 calls that set up client ID, session and state again after a reconnect.
    Recovery,
    /// A call waited while later calls were answered, or a callback waited.
    CallWaited,
    /// A DREQ was sent again and never answered.
    DisconnectUnanswered,
    /// The calls under way reached the number of granted credits.
    CreditsExhausted,
    /// A call failed in the same way on several successive connections.
    CallFailsAgain,
    /// A server put a request off or denied a lock, and the client asked again later.
    CallDelayed,
    /// A request without a reply was sent again, and failed as if it had been carried out.
    CarriedOutTwice,
    /// A server raised flags in sr_status_flags.
    StatusFlags,
    /// NFSv4 state was revoked, lost or abandoned.
    StateLost,
    /// Delegations or layouts were recalled and not returned.
    RecallUnanswered,
    /// No CB_OFFLOAD reported the end of asynchronous copies.
    CopyUnreported,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 21] = [
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
        Kind::CallWaited,
        Kind::DisconnectUnanswered,
        Kind::CreditsExhausted,
        Kind::CallFailsAgain,
        Kind::CallDelayed,
        Kind::CarriedOutTwice,
        Kind::StatusFlags,
        Kind::StateLost,
        Kind::RecallUnanswered,
        Kind::CopyUnreported,
    ];

    /// The kind's name in machine-readable output.
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
            Kind::CallWaited => "call-waited",
            Kind::DisconnectUnanswered => "disconnect-unanswered",
            Kind::CreditsExhausted => "credits-exhausted",
            Kind::CallFailsAgain => "call-fails-again",
            Kind::CallDelayed => "call-delayed",
            Kind::CarriedOutTwice => "carried-out-twice",
            Kind::StatusFlags => "status-flags",
            Kind::StateLost => "state-lost",
            Kind::RecallUnanswered => "recall-unanswered",
            Kind::CopyUnreported => "copy-unreported",
        }
    }

    /// Whether the event is a loss of service, or a failed attempt to get service.
    pub const fn is_loss(self) -> bool {
        matches!(
            self,
            Kind::RequestRepeated
                | Kind::RequestUnanswered
                | Kind::Rejected
                | Kind::ServiceLost
                | Kind::CallWaited
                | Kind::RetriesExhausted
                | Kind::CallFailsAgain
                | Kind::CallDelayed
        )
    }
}

/// How a loss of service began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Calls had no replies on a connection that was open.
    NoReply,
    /// An end closed a connection that had served; `true` for the requester.
    ClosedBy(bool),
    /// An end rejected the connection; `true` for the requester.
    RejectedBy(bool),
    /// The requests for the connection were never answered.
    Unanswered,
    /// The requester never confirmed that the connection was accepted.
    Unconfirmed,
    /// The connection was made late: its requests were lost, or answered late.
    AnsweredLate,
}

impl Cause {
    /// Whether the connection was made before.
    pub const fn was_made(self) -> bool {
        matches!(self, Cause::NoReply | Cause::ClosedBy(_))
    }
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionEvent {
    /// The time at which it began.
    pub time: Time,
    /// Its kind.
    pub kind: Kind,
    /// The connection to which it happened.
    pub connection: ConnectionId,
    /// A second connection. For a new connection: the one that it follows. For a closed connection: the
    /// one for which a client with work asked at once. For lost service: the one on which service came
    /// back, or the last one on which a call waited. For a call that fails again or is delayed: the last
    /// one with the call. For a request that was carried out twice: the first one.
    pub other: Option<ConnectionId>,
    /// For lost service and for a call that fails again: all connections concerned, in order of time,
    /// if there are several. Otherwise empty.
    pub through: Vec<ConnectionId>,
    /// The end that caused it; `None` if neither did, or if it is unknown.
    pub by_requester: Option<bool>,
    /// For lost service: how it began.
    pub cause: Option<Cause>,
    /// The duration, in nanoseconds.
    pub duration: Option<u64>,
    /// The number of packets, calls or occurrences.
    pub count: u64,
    /// The packets that show it: the first and the last.
    pub frames: [Option<u64>; 2],
    /// For lost state: whether an application may notice it. Otherwise true.
    pub does_harm: bool,
    /// The description for people.
    pub text: String,
}

impl SessionEvent {
    /// Whether it overlaps this span, in a capture that starts at `start`.
    pub fn is_within(&self, span: Span, start: Time) -> bool {
        span.overlaps(self.time, self.time.plus(self.duration.unwrap_or(0)), start)
    }

    /// Whether the packet with this number shows it.
    pub fn is_shown_by(&self, frame: u64) -> bool {
        self.frames.contains(&Some(frame))
    }

    /// Whether it concerns this connection.
    fn is_of(&self, connection: ConnectionId) -> bool {
        self.connection == connection || self.other == Some(connection) || self.through.contains(&connection)
    }

    /// Whether it happened to the connection of `transaction`, between the transaction's first and
    /// last packet. A call without a reply waits until the end of the capture.
    pub fn is_during(&self, transaction: &Transaction) -> bool {
        let Some(first) = transaction.messages().map(|message| message.first.time).min() else {
            return false;
        };
        let last = match (&transaction.reply, transaction.outcome) {
            (None, Outcome::NoReply) => Time(i64::MAX),
            _ => transaction.messages().map(|message| message.seen.time).max().unwrap_or(first),
        };
        let end = self.time.plus(self.duration.unwrap_or(0));
        self.is_of(transaction.connection) && self.time <= last && end >= first
    }
}

/// A selection of events. An empty list selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// Events of connections with these numbers.
    pub connections: Vec<ConnectionId>,
    /// Events of these kinds.
    pub kinds: Vec<Kind>,
    /// Events that overlap this span.
    pub span: Span,
}

impl EventFilter {
    /// Whether the filter selects `event`, in a capture that starts at `start`.
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
            cause: None,
            duration,
            count: 1,
            frames: [Some(7), None],
            does_harm: true,
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
