//! What is expected of a capture, or found in it: the lines of its `capture`, its connections, its transactions and the findings.

use core::fmt;
use serde_json::{Map, Value};
use std::sync::Arc;

/// The fields of a JSON object.
pub type Object = Map<String, Value>;

/// A line. Many differences may be about it.
pub type Line = Arc<Object>;

/// The lines, by what they are of.
#[derive(Debug, Default)]
pub struct Lines {
    /// `capture`: one.
    pub capture: Vec<Line>,
    /// `connection`.
    pub connections: Vec<Line>,
    /// `transaction`.
    pub transactions: Vec<Line>,
    /// `finding`.
    pub findings: Vec<Line>,
    /// Lines of types that this version does not write.
    pub others: Vec<Line>,
}

/// Why an expectation cannot be taken for one.
#[derive(Debug, PartialEq, Eq)]
pub struct Broken {
    /// The number of the line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub cause: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.cause)
    }
}

impl Lines {
    /// Reads what `regress --bless` wrote, or what somebody made of it.
    ///
    /// # Errors
    /// The first line that is not as docs/json.md says.
    pub fn parse(bytes: &[u8]) -> Result<Lines, Broken> {
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
