//! What is expected of a capture, or found in it: the lines of its `capture`, its connections, its transactions and the findings.

use crate::input::{self, Audience, Input};
use anyhow::{Result, anyhow};
use core::fmt;
use rdmascope_conformance::{Finding, Judge};
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::record::Time;
use rdmascope_present::columns::{CAPTURE, CONNECTION, FINDING, FindingRow, TRANSACTION};
use rdmascope_present::json;
use serde_json::{Map, Value};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The most bytes of lines that a capture may come to: they are compared in memory. Some 150,000 transactions.
pub(super) const MOST_BYTES: usize = 256 << 20;

/// The fields of a JSON object.
pub(super) type Object = Map<String, Value>;

/// A line. Many differences may be about it.
pub(super) type Line = Arc<Object>;

/// Reads the capture at `path` and writes its lines as an expectation has them; `name` stands for the file's.
pub(super) fn found(path: &Path, name: &str, port: u16) -> Result<Vec<u8>> {
    let input = Input::file(path.to_owned(), port);
    let mut gathered = Gathered::default();
    let config = Config { observe: true, ..Config::default() };
    let mut ending = match input::read(&input, config, &mut gathered) {
        Ok(read) => read?,
        Err(error) => return Err(anyhow!("{}: {error}", path.display())),
    };
    for file in &mut ending.files {
        if let Some(trouble) = file.trouble.take() {
            return Err(trouble.into());
        }
        // Neither the folder nor the compression is a matter of the session.
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

/// Lines, as the engine reports what they are of.
#[derive(Default)]
struct Gathered {
    connections: Vec<(u32, Vec<u8>)>,
    transactions: Vec<u8>,
    judge: Judge,
    findings: Vec<u8>,
    bytes: usize,
}

impl Audience for Gathered {
    const LISTS: bool = false;

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
                json::write_line(&mut self.transactions, &TRANSACTION.of(transaction))?;
                self.bytes += self.transactions.len() - before;
            }
            // Evictions are counted in the line of the capture; what is observed is for the judge.
            Event::Packet(_) | Event::Eviction(_) | Event::Observation(_) => {}
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
            return Err(io::Error::other("too much in it for a regression test, which compares in memory"));
        }
        Ok(())
    }

    fn wait(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The lines, by what they are of.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// `capture`: one.
    pub(super) capture: Vec<Line>,
    pub(super) connections: Vec<Line>,
    pub(super) transactions: Vec<Line>,
    pub(super) findings: Vec<Line>,
    /// Lines of types that this version does not write.
    pub(super) others: Vec<Line>,
}

/// Why an expectation cannot be taken for one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Broken {
    /// From 1.
    pub(super) line: usize,
    pub(super) cause: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.cause)
    }
}

impl Lines {
    /// Reads what [`found`] wrote, or what somebody made of it.
    pub(super) fn parse(bytes: &[u8]) -> Result<Lines, Broken> {
        let mut lines = Lines::default();
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        for (line, bytes) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
            let broken = |cause: String| Broken { line, cause };
            if bytes.is_empty() {
                return Err(broken("it is empty; a line is a JSON object".into()));
            }
            let fields: Object = serde_json::from_slice(bytes).map_err(|error| {
                broken(format!("no JSON object: column {}: {}", error.column(), cause(&error)))
            })?;
            let lacks = |field: &str| broken(format!("it has no {field:?}, or not as docs/json.md says"));
            let number = |field: &str| fields.get(field).and_then(Value::as_u64).ok_or(lacks(field));
            let text = |field: &str| fields.get(field).and_then(Value::as_str).ok_or(lacks(field));
            match text("type")? {
                "capture" if lines.capture.is_empty() => lines.capture.push(fields.into()),
                "capture" => return Err(broken("a second line of type \"capture\"".into())),
                "connection" => {
                    number("connection")?;
                    lines.connections.push(fields.into());
                }
                "transaction" => {
                    number("number")?;
                    number("connection")?;
                    text("direction")?;
                    text("xid")?;
                    lines.transactions.push(fields.into());
                }
                "finding" => {
                    text("rule")?;
                    lines.findings.push(fields.into());
                }
                _ => lines.others.push(fields.into()),
            }
        }
        match lines.capture.is_empty() {
            true => {
                Err(Broken { line: 1, cause: "there is no line of type \"capture\" in this file".into() })
            }
            false => Ok(lines),
        }
    }
}

/// What serde_json says without the place, which it knows only within the line.
fn cause(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((cause, _)) => cause.to_owned(),
        None => text,
    }
}
