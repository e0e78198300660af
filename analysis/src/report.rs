//! The figures of `analyze`. Memory does not grow with the length of the capture.

mod operations;
mod problems;
mod under_way;
mod verdict;

pub(crate) use operations::payload;
pub use operations::payload_bytes;
pub use operations::{Count, Key, Latency, Operations, Stats};
pub use problems::{ErrorCount, ErrorKey, Group, Problem, Problems};
pub(crate) use problems::{is_sealed, is_spoiled};
pub use under_way::UnderWay;
pub use verdict::{Harm, Reach, Statement, Subject, of_events};

use crate::ending::Ending;
use crate::events::{Events, SessionEvent};
use crate::observer::Observer;
use crate::replies::Replies;
use crate::units::Number;
use rdmascope_dissector::connection::{CapturePoint, Connection, State};
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::phases::Phases;

/// The figures of `analyze`.
#[derive(Debug, Default)]
pub struct Report {
    /// The first connections in the capture, in the order in which they were first seen.
    connections: Vec<Connection>,
    /// Connections beyond [`Report::MOST_CONNECTIONS`].
    further_connections: u64,
    operations: Operations,
    under_way: UnderWay,
    replies: Replies,
    problems: Problems,
    events: Events,
}

impl Report {
    /// The most connections that are listed one by one.
    const MOST_CONNECTIONS: usize = 64;
    /// The most kinds of errors that are listed one by one.
    pub const MOST_ERRORS: usize = 40;

    /// Takes an event for the list of connection events. If only some transactions are counted,
    /// this method still needs all events of their connections.
    pub fn follow(&mut self, event: &Event<'_>) {
        self.events.handle(event);
    }

    /// Takes an event to count its problems. With [`Report::follow`], that is enough for
    /// [`Report::verdict`].
    pub fn count_problems(&mut self, event: &Event<'_>) {
        match event {
            Event::Transaction(transaction) => self.problems.transaction(transaction),
            Event::Connection(connection) => self.problems.connection(connection),
            Event::Eviction(eviction) => self.problems.eviction(eviction),
            _ => {}
        }
    }

    /// Takes an event to count and list.
    pub fn count(&mut self, event: &Event<'_>) {
        self.count_problems(event);
        match event {
            Event::Transaction(transaction) => {
                self.operations.count(transaction);
                self.under_way.count(transaction);
                self.replies.count(transaction);
            }
            Event::Connection(connection) => {
                self.replies.end(connection);
                // Connections arrive in the order in which they end.
                let at = self.connections.partition_point(|known| known.id < connection.id);
                self.connections.insert(at, (*connection).clone());
                if self.connections.len() > Report::MOST_CONNECTIONS {
                    self.connections.pop();
                    self.further_connections += 1;
                }
            }
            _ => {}
        }
    }

    /// The listed connections, and the number of further ones.
    pub fn connections(&self) -> (&[Connection], u64) {
        (&self.connections, self.further_connections)
    }

    /// The operations by protocol; within a protocol, by total time, longest first.
    pub fn operations(&self) -> Vec<(&Key, &Stats)> {
        self.operations.by_time()
    }

    /// The share of each phase in the time of all calls of clients, in the order of
    /// [`Phases::NAMES`](rdmascope_dissector::phases::Phases::NAMES). The sum is 1.
    pub fn shares(&self) -> Option<[f64; Phases::COUNT]> {
        Stats::shares_of(self.forward())
    }

    /// The part of the server's share that follows RDMA Reads, if the capture point is not at the
    /// server. Responses to RDMA Reads that wait in the network beyond the capture point look the same.
    pub fn share_after_reads(&self) -> f64 {
        let is_at_server =
            |connection: &Connection| connection.capture_point() == Some(CapturePoint::Responder);
        if self.connections.iter().all(is_at_server) { 0.0 } else { Stats::after_reads(self.forward()) }
    }

    /// The operations of clients.
    fn forward(&self) -> impl Iterator<Item = &Stats> {
        self.operations.iter().filter(|(key, _)| !key.backward).map(|(_, stats)| stats)
    }

    /// The time in which calls were under way.
    pub const fn under_way(&self) -> &UnderWay {
        &self.under_way
    }

    /// Counts of replies and Reply chunks.
    pub const fn replies(&self) -> &Replies {
        &self.replies
    }

    /// Errors in replies that are [no part of normal work](ErrorKey::is_ordinary), most frequent
    /// first, at most [`Report::MOST_ERRORS`] kinds, and the number of errors of further kinds.
    pub fn errors(&self) -> (Vec<(ErrorKey, ErrorCount)>, u64) {
        let mut errors = self.problems.errors.by_count();
        errors.retain(|(key, _)| !key.is_ordinary());
        let further: u64 = errors.iter().skip(Report::MOST_ERRORS).map(|(_, error)| error.count).sum();
        errors.truncate(Report::MOST_ERRORS);
        (errors, further + self.problems.errors.further)
    }

    /// Errors in replies, most frequent first, of all distinguished kinds.
    pub fn all_errors(&self) -> Vec<(ErrorKey, ErrorCount)> {
        self.problems.errors.by_count()
    }

    /// The problems, by group.
    pub fn problems(&self, ending: &Ending) -> Vec<Problem> {
        self.problems.list(ending)
    }

    /// The problems while the capture continues; `open` are the connections that have not ended.
    pub fn problems_now(&self, ending: &Ending, open: &[Connection]) -> Vec<Problem> {
        let mut problems = self.problems.clone();
        // A request without an answer may still get one.
        let open = open.iter().filter(|connection| connection.state != State::Requested);
        open.for_each(|connection| problems.connection(connection));
        problems.list(ending)
    }

    /// The gathered events, for callers that show them before the end.
    pub fn gathered(&self) -> &Events {
        &self.events
    }

    /// The selected events, in order of time.
    pub fn events(&self, ending: &Ending) -> Vec<SessionEvent> {
        let mut events = self.events.list(ending.totals.span.map(|(_, last)| last));
        events.retain(|event| ending.has_event(event));
        events
    }

    /// The text for a capture without problems; `None` if it has any. `verdict` is that of
    /// [`Report::verdict`].
    pub fn nothing_wrong(&self, ending: &Ending, verdict: &[Statement]) -> Option<String> {
        let nothing = self.problems(ending).is_empty()
            && self.errors().0.is_empty()
            && ending.is_readable()
            && verdict.is_empty();
        nothing.then(|| match ending.nothing_decoded() {
            Some(why) => format!("Nothing visible: {why}."),
            None if self.operations.is_empty() => {
                "Nothing visible: the capture contains no RPC transactions.".to_owned()
            }
            None => {
                let ordinary: u64 = self.all_errors().iter().map(|(_, error)| error.count).sum();
                let errors = match ordinary {
                    0 => "no errors".to_owned(),
                    count => format!("no errors except {} of normal work", Number(count)),
                };
                format!(
                    "Nothing: every call has a reply, and there are {errors}, NAKs, retransmissions or gaps."
                )
            }
        })
    }
}

impl Observer for Report {
    fn needs(&self) -> Config {
        self.events.needs()
    }

    fn handle(&mut self, event: &Event<'_>) {
        self.follow(event);
        self.count(event);
    }
}

#[cfg(test)]
mod tests;
