//! What `analyze` gathers and shows. Memory does not grow with the length of the capture.

mod loss;
mod operations;
mod problems;

pub use loss::Loss;
pub(crate) use operations::payload_bytes;
pub use operations::{Count, Key, Latency, Operations, Stats};
pub use problems::{ErrorCount, ErrorKey, Group, Problem, Problems};
pub(crate) use problems::{is_sealed, is_spoiled};

use crate::ending::Ending;
use crate::events::{Events, SessionEvent};
use crate::observer::Observer;
use crate::replies::Replies;
use rdmascope_dissector::connection::Connection;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;

/// All that `analyze` has to say.
#[derive(Debug, Default)]
pub struct Report {
    /// Connections to show: those seen first, in that order.
    connections: Vec<Connection>,
    /// Connections beyond [`Report::MOST_CONNECTIONS`].
    further_connections: u64,
    operations: Operations,
    replies: Replies,
    problems: Problems,
    events: Events,
}

impl Report {
    /// Connections that are shown one by one.
    const MOST_CONNECTIONS: usize = 64;
    /// Kinds of errors that are shown one by one.
    pub const MOST_ERRORS: usize = 40;

    /// Takes in what tells of the course of connections. Where only some transactions are counted, it wants to know of all on their connections.
    pub fn follow(&mut self, event: &Event<'_>) {
        self.events.handle(event);
    }

    /// Takes in what is counted and listed.
    pub fn count(&mut self, event: &Event<'_>) {
        match event {
            Event::Transaction(transaction) => {
                self.operations.count(transaction);
                self.replies.count(transaction);
                self.problems.transaction(transaction);
            }
            Event::Connection(connection) => {
                self.problems.connection(connection);
                self.replies.end(connection);
                // They come in the order in which they end.
                let at = self.connections.partition_point(|known| known.id < connection.id);
                self.connections.insert(at, (*connection).clone());
                if self.connections.len() > Report::MOST_CONNECTIONS {
                    self.connections.pop();
                    self.further_connections += 1;
                }
            }
            Event::Eviction(eviction) => self.problems.eviction(eviction),
            _ => {}
        }
    }

    /// Connections to show, and how many there are besides.
    pub fn connections(&self) -> (&[Connection], u64) {
        (&self.connections, self.further_connections)
    }

    /// The operations, protocol by protocol; within one, what took most time comes first.
    pub fn operations(&self) -> Vec<(&Key, &Stats)> {
        self.operations.by_time()
    }

    /// Counts of replies and Reply chunks.
    pub const fn replies(&self) -> &Replies {
        &self.replies
    }

    /// Errors in replies, the most frequent first, as many kinds as are shown one by one; and how many there are of other kinds.
    pub fn errors(&self) -> (Vec<(ErrorKey, ErrorCount)>, u64) {
        let mut errors = self.problems.errors.by_count();
        let further: u64 = errors.iter().skip(Report::MOST_ERRORS).map(|(_, error)| error.count).sum();
        errors.truncate(Report::MOST_ERRORS);
        (errors, further + self.problems.errors.further)
    }

    /// Errors in replies, the most frequent first: all kinds that are told apart.
    pub fn all_errors(&self) -> Vec<(ErrorKey, ErrorCount)> {
        self.problems.errors.by_count()
    }

    /// The problems, group by group.
    pub fn problems(&self, ending: &Ending) -> Vec<Problem> {
        self.problems.list(ending)
    }

    /// What was gathered of events: for whoever shows them before the end.
    pub fn gathered(&self) -> &Events {
        &self.events
    }

    /// What happened to the connections, in the order of time; in the span that was chosen.
    pub fn events(&self, ending: &Ending) -> Vec<SessionEvent> {
        let mut events = self.events.list(ending.totals.span.map(|(_, last)| last));
        if let (Some(chosen), Some((start, _))) = (ending.chosen, ending.totals.span) {
            events.retain(|event| event.is_within(chosen.span, start));
        }
        events
    }

    /// The events in which service was lost, one of each kind and end; what took most time together comes first.
    pub fn losses(&self, ending: &Ending) -> Vec<Loss> {
        let mut losses: Vec<Loss> = Vec::new();
        for event in self.events(ending).into_iter().filter(|event| event.kind.is_loss()) {
            let same =
                |other: &SessionEvent| (other.kind, other.by_requester) == (event.kind, event.by_requester);
            match losses.iter_mut().find(|loss| same(&loss.longest)) {
                Some(loss) => loss.add(event),
                None => losses.push(Loss::new(event)),
            }
        }
        losses.sort_by_key(|loss| core::cmp::Reverse(loss.length));
        losses
    }

    /// What is said where nothing went wrong.
    pub fn nothing_wrong(&self, ending: &Ending) -> Option<String> {
        let nothing = self.problems(ending).is_empty()
            && self.errors().0.is_empty()
            && ending.is_readable()
            && self.losses(ending).is_empty();
        nothing.then(|| match ending.nothing_decoded() {
            Some(why) => format!("Nothing that can be seen: {why}."),
            None if self.operations.is_empty() => {
                "Nothing that can be seen: there is no RPC transaction to look at.".to_owned()
            }
            None => {
                "Nothing: every call has its reply, and there is no error, no NAK, no retransmission, no gap."
                    .to_owned()
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
