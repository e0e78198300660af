//! The lines of an expectation or of an analysis: `capture`, connections, transactions and
//! findings.

use core::fmt;
use serde_json::{Map, Value};
use std::sync::Arc;

/// The fields of a JSON object.
pub type Object = Map<String, Value>;

/// A line. It is shared because many differences may refer to it.
pub type Line = Arc<Object>;

/// The lines, by type.
#[derive(Debug, Default)]
pub struct Lines {
    /// The line `capture`; exactly one.
    pub capture: Vec<Line>,
    /// The lines `connection`.
    pub connections: Vec<Line>,
    /// The lines `transaction`.
    pub transactions: Vec<Line>,
    /// The lines `finding`.
    pub findings: Vec<Line>,
    /// Lines of types that this version does not write.
    pub others: Vec<Line>,
}

/// Why an expectation is invalid.
#[derive(Debug, PartialEq, Eq)]
pub struct Broken {
    /// The number of the line, from 1.
    pub line: usize,
    /// The error in that line.
    pub cause: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.cause)
    }
}

impl Lines {
    /// Parses an expectation that `regress --bless` wrote, possibly edited.
    ///
    /// # Errors
    /// The first line that does not conform to docs/json.md.
    pub fn parse(bytes: &[u8]) -> Result<Lines, Broken> {
        let mut lines = Lines::default();
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        for (line, bytes) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
            let broken = |cause: String| Broken { line, cause };
            if bytes.is_empty() {
                return Err(broken("empty line; each line is a JSON object".into()));
            }
            let fields: Object = serde_json::from_slice(bytes).map_err(|error| {
                broken(format!("not a JSON object: column {}: {}", error.column(), cause(&error)))
            })?;
            let lacks = |field: &str| broken(format!("{field:?} is absent or not as in docs/json.md"));
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

/// The message of serde_json without its position, because serde_json sees one line only.
fn cause(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((cause, _)) => cause.to_owned(),
        None => text,
    }
}
