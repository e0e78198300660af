//! What is gathered while the engine reports.

use super::course::Course;
use super::{SessionEvent, tell};
use foldhash::fast::FixedState;
use rdmascope_dissector::connection::ConnectionId;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::observation::{Observation, Observed};
use rdmascope_dissector::record::Time;
use std::collections::HashMap;

/// The events of a capture, whose engine [observes](rdmascope_dissector::engine::Config::observe).
#[derive(Clone, Debug, Default)]
pub struct Events {
    courses: HashMap<ConnectionId, Course, FixedState>,
    /// Connections beyond [`Events::MOST_CONNECTIONS`].
    further_connections: u64,
    /// The latest time of all connections that ended.
    latest: Time,
}

impl Events {
    /// Connections whose events are kept.
    pub const MOST_CONNECTIONS: usize = 4096;

    /// Takes in what the engine reports.
    #[inline]
    pub fn handle(&mut self, event: &Event<'_>) {
        match event {
            Event::Observation(observation) => self.observation(observation),
            Event::Transaction(transaction) => {
                if let Some(course) = self.course(transaction.connection) {
                    course.transaction(transaction);
                }
            }
            Event::Connection(connection) => {
                self.latest = self.latest.max(connection.last);
                match self.course(connection.id) {
                    Some(course) => course.ended(connection),
                    None => self.further_connections += 1,
                }
            }
            _ => {}
        }
    }

    /// Connections of which nothing is kept.
    pub fn further_connections(&self) -> u64 {
        self.further_connections
    }

    /// The events, in the order of time. `end`: of the capture, where that is known.
    pub fn list(&self, end: Option<Time>) -> Vec<SessionEvent> {
        let mut courses: Vec<_> = self.courses.iter().map(|(id, course)| (*id, course)).collect();
        courses.sort_unstable_by_key(|(id, _)| *id);
        tell::events(&courses, end.unwrap_or(self.latest))
    }

    #[inline]
    fn course(&mut self, id: ConnectionId) -> Option<&mut Course> {
        if self.courses.len() >= Events::MOST_CONNECTIONS {
            return self.courses.get_mut(&id);
        }
        Some(self.courses.entry(id).or_default())
    }

    fn observation(&mut self, observation: &Observation<'_>) {
        let Observation { connection, requester, half_flows, what, .. } = observation;
        // Of the many, those that say nothing of events.
        if !matches!(
            what,
            Observed::Managed(_)
                | Observed::Sent(_)
                | Observed::Repeated(_)
                | Observed::Refused(_)
                | Observed::Missing(_)
                | Observed::Joined(_)
                | Observed::Ending(_)
        ) {
            return;
        }
        let joined = match what {
            Observed::Joined(Some(other)) => self.courses.remove(other),
            _ => None,
        };
        let acknowledged = || half_flows.map(|flow| flow.acknowledged.map(|(position, _)| position));
        let Some(course) = self.course(*connection) else { return };
        course.requester = *requester;
        match what {
            Observed::Managed(managed) => course.message(managed.from, managed.seen, managed.message),
            Observed::Sent(sent) => course.sent(sent),
            Observed::Repeated(repeated) => {
                course.repeated(repeated, acknowledged()[repeated.from as usize]);
            }
            Observed::Refused(refused) => course.refused(refused),
            Observed::Missing(missing) => course.missing(missing.from),
            Observed::Ending(ending) => course.ending(ending.heard, acknowledged()),
            _ => {}
        }
        if let Some(other) = joined {
            course.join(other);
        }
    }
}
