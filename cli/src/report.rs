//! What `analyze` gathers and shows. Memory does not grow with the length of the capture.

mod operations;
mod problems;
mod text;

pub(crate) use operations::{Count, Key, Latency, Operations, Stats};
pub(crate) use problems::{ErrorCount, ErrorKey, Group, Problem, Problems};

use crate::json;
use crate::source::FileEnding;
use rdmascope_dissector::connection::Connection;
use rdmascope_dissector::engine::Totals;
use rdmascope_dissector::event::Event;
use std::io::{self, Write};

/// What was read, besides what the dissector made of it.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    /// What the engine counted.
    pub(crate) totals: Totals,
    /// How each file ended, in the order in which they were given.
    pub(crate) files: Vec<FileEnding>,
    /// The UDP port at which RoCEv2 was looked for.
    pub(crate) port: u16,
}

impl Ending {
    /// Whether every file could be read on to its end.
    fn is_readable(&self) -> bool {
        self.files.iter().all(|file| file.trouble.is_none())
    }
}

/// All that `analyze` has to say.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Connections to show, in the order in which they were reported.
    connections: Vec<Connection>,
    /// Connections beyond [`Report::MOST_CONNECTIONS`].
    further_connections: u64,
    operations: Operations,
    problems: Problems,
}

impl Report {
    /// Connections that are shown one by one.
    const MOST_CONNECTIONS: usize = 64;

    /// Takes in what the engine reports.
    pub(crate) fn handle(&mut self, event: &Event<'_>) {
        match event {
            Event::Transaction(transaction) => {
                self.operations.count(transaction);
                self.problems.transaction(transaction);
            }
            Event::Connection(connection) => {
                self.problems.connection(connection);
                if self.connections.len() < Report::MOST_CONNECTIONS {
                    self.connections.push((*connection).clone());
                } else {
                    self.further_connections += 1;
                }
            }
            Event::Eviction(eviction) => self.problems.eviction(eviction),
            Event::Packet(_) => {}
        }
    }

    /// Orders what is shown, once all is in.
    pub(crate) fn finish(&mut self) {
        self.connections.sort_by_key(|connection| connection.id);
    }

    /// Writes the report for programs.
    pub(crate) fn write_jsonl(&self, ending: &Ending, out: &mut impl Write) -> io::Result<()> {
        json::write_line(out, &json::CaptureLine::new(ending))?;
        for connection in &self.connections {
            json::write_line(out, &json::ConnectionLine::from(connection))?;
        }
        for (key, stats) in self.operations.by_time() {
            json::write_line(out, &json::OperationLine::new(key, stats))?;
        }
        for (key, error) in self.problems.errors.by_count() {
            json::write_line(out, &json::ErrorLine::new(key, error))?;
        }
        for problem in self.problems.list(ending) {
            json::write_line(out, &json::ProblemLine::new(&problem))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
