//! What `analyze` gathers and shows. Memory does not grow with the length of the capture.

mod operations;
mod problems;
mod text;

pub(crate) use operations::{Count, Key, Latency, Operations, Stats};
pub(crate) use problems::{ErrorCount, ErrorKey, Group, Problem, Problems};

use crate::json;
use crate::source::FileEnding;
use crate::table::Counted;
use core::fmt;
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

/// How a file ended, in words.
pub(crate) struct FileEnd<'a>(pub(crate) &'a FileEnding);

impl fmt::Display for FileEnd<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.0.trouble, self.0.cut) {
            (Some(trouble), _) => write!(f, "unreadable from here on: {trouble:#}"),
            (None, Some(cut)) => write!(
                f,
                "cut short at byte {}: {} needed, {} there; analyzed up to here",
                cut.offset,
                Counted(cut.needed, "byte"),
                cut.available
            ),
            (None, None) => f.write_str("whole: the file ends where a packet ends"),
        }
    }
}

/// All that `analyze` has to say.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Connections to show: those seen first, in that order.
    connections: Vec<Connection>,
    /// Connections beyond [`Report::MOST_CONNECTIONS`].
    further_connections: u64,
    operations: Operations,
    problems: Problems,
}

impl Report {
    /// Connections that are shown one by one.
    const MOST_CONNECTIONS: usize = 64;
    /// Kinds of errors that are shown one by one.
    pub(crate) const MOST_ERRORS: usize = 40;

    /// Takes in what the engine reports.
    pub(crate) fn handle(&mut self, event: &Event<'_>) {
        match event {
            Event::Transaction(transaction) => {
                self.operations.count(transaction);
                self.problems.transaction(transaction);
            }
            Event::Connection(connection) => {
                self.problems.connection(connection);
                // They come in the order in which they end.
                let at = self.connections.partition_point(|known| known.id < connection.id);
                self.connections.insert(at, (*connection).clone());
                if self.connections.len() > Report::MOST_CONNECTIONS {
                    self.connections.pop();
                    self.further_connections += 1;
                }
            }
            Event::Eviction(eviction) => self.problems.eviction(eviction),
            Event::Packet(_) | Event::Observation(_) => {}
        }
    }

    /// Connections to show, and how many there are besides.
    pub(crate) fn connections(&self) -> (&[Connection], u64) {
        (&self.connections, self.further_connections)
    }

    /// The operations, protocol by protocol; within one, what took most time comes first.
    pub(crate) fn operations(&self) -> Vec<(&Key, &Stats)> {
        self.operations.by_time()
    }

    /// Errors in replies, the most frequent first, as many kinds as are shown one by one; and how many there are of other kinds.
    pub(crate) fn errors(&self) -> (Vec<(ErrorKey, ErrorCount)>, u64) {
        let mut errors = self.problems.errors.by_count();
        let further: u64 = errors.iter().skip(Report::MOST_ERRORS).map(|(_, error)| error.count).sum();
        errors.truncate(Report::MOST_ERRORS);
        (errors, further + self.problems.errors.further)
    }

    /// The problems, group by group.
    pub(crate) fn problems(&self, ending: &Ending) -> Vec<Problem> {
        self.problems.list(ending)
    }

    /// What is said where nothing went wrong.
    pub(crate) fn nothing_wrong(&self, ending: &Ending) -> Option<&'static str> {
        let nothing = self.problems(ending).is_empty() && self.errors().0.is_empty() && ending.is_readable();
        nothing.then(|| match ending.totals.packets {
            0 => "Nothing that can be seen: there is no RoCE packet to look at.",
            _ if self.operations.is_empty() => {
                "Nothing that can be seen: there is no RPC transaction to look at."
            }
            _ => {
                "Nothing: every call has its reply, and there is no error, no NAK, no retransmission, no gap."
            }
        })
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
