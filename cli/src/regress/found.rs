//! The results of a capture in the form of an expectation: its `capture` line, its connections, its
//! transactions and the findings.

use crate::input::{self, Audience, Input};
use crate::paths;
use anyhow::Result;
use rdmascope_analysis::paths::{Paths, TransactionRow};
use rdmascope_conformance::{Finding, Judge};
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::record::Time;
use rdmascope_present::columns::{CAPTURE, CONNECTION, FINDING, FindingRow, TRANSACTION};
use rdmascope_present::json;
use std::io;
use std::path::Path;

/// Maximum size of the lines of a capture, in bytes, since they are compared in memory. This is
/// about 150,000 transactions.
pub(super) const MOST_BYTES: usize = 256 << 20;

/// Reads the capture at `path` and writes its lines in the form of an expectation, with `name` as
/// the file name.
pub(super) fn found(path: &Path, name: &str, port: u16) -> Result<Vec<u8>> {
    let input = Input::file(path.to_owned(), port);
    let mut gathered = Gathered { paths: paths::follow(&input), ..Gathered::default() };
    let read = input::read(&input, &mut gathered);
    let mut ending = read.map_err(|failure| failure.about(path.display().to_string()))?;
    for file in &mut ending.files {
        if let Some(trouble) = file.trouble.take() {
            return Err(trouble.into());
        }
        // The folder and the compression are not part of the results.
        name.clone_into(&mut file.name);
    }
    let mut lines = Vec::new();
    json::write_line(&mut lines, &CAPTURE.of(&ending))?;
    gathered.connections.sort_by_key(|(number, _)| *number);
    gathered.connections.iter().for_each(|(_, line)| lines.extend_from_slice(line));
    lines.append(&mut gathered.transactions);
    lines.append(&mut gathered.findings);
    Ok(lines)
}

/// The lines, written as the engine reports events.
#[derive(Default)]
struct Gathered {
    connections: Vec<(u32, Vec<u8>)>,
    transactions: Vec<u8>,
    /// The paths of files, from the whole capture.
    paths: Paths,
    judge: Judge,
    findings: Vec<u8>,
    bytes: usize,
}

impl Audience for Gathered {
    fn needs(&self) -> Config {
        Judge::needs()
    }

    fn event(&mut self, event: Event<'_>, _: Time) -> io::Result<()> {
        match event {
            Event::Connection(connection) => {
                let mut line = Vec::new();
                json::write_line(&mut line, &CONNECTION.of(connection))?;
                self.bytes += line.len();
                self.connections.push((connection.id.0, line));
            }
            Event::Transaction(transaction) => {
                let before = self.transactions.len();
                json::write_line(
                    &mut self.transactions,
                    &TRANSACTION.of(TransactionRow::follow(transaction, &mut self.paths)),
                )?;
                self.bytes += self.transactions.len() - before;
            }
            // The capture line counts evictions, and observations are only for the judge.
            _ => {}
        }
        let Gathered { judge, findings, bytes, .. } = self;
        let mut written = Ok(());
        let before = findings.len();
        judge.handle(&event, &mut |finding: &Finding| {
            if written.is_ok() {
                written = json::write_line(findings, &FINDING.of(FindingRow::new(finding, false)));
            }
        });
        written?;
        *bytes += findings.len() - before;
        if self.bytes > MOST_BYTES {
            return Err(io::Error::other(
                "the capture is too large for a regression test, which compares in memory",
            ));
        }
        Ok(())
    }
}
