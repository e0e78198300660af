//! The subject of a line, in words.

use super::lines::Object;
use core::fmt;
use rdmascope_analysis::units::Plain;
use serde_json::Value;
use std::borrow::Cow;

/// The subject of a line, in words that help to find it in the capture.
pub(crate) struct Subject<'a>(pub(crate) &'a Object);

impl Subject<'_> {
    fn text(&self, field: &str) -> Option<&str> {
        self.0.get(field)?.as_str()
    }

    fn number(&self, field: &str) -> Option<u64> {
        self.0.get(field)?.as_u64()
    }

    /// The operations, or the procedure.
    fn operations(&self) -> Option<Cow<'_, str>> {
        let names = self.0.get("operations").and_then(Value::as_array);
        let names: Vec<&str> = names.into_iter().flatten().filter_map(Value::as_str).collect();
        match names.is_empty() {
            true => self.text("name").map(Cow::Borrowed),
            false => Some(Cow::Owned(names.join(" "))),
        }
    }

    /// The first frame to look at.
    pub(crate) fn frame(&self) -> Option<u64> {
        let messages = ["call", "reply"].into_iter().filter_map(|message| self.0.get(message));
        let of_message = messages.filter_map(|message| message.get("frame")?.as_u64()).next();
        of_message.or_else(|| self.0.get("frames")?.get(0)?.as_u64())
    }

    /// A finding: rule, level, verdict, transaction, frames and message.
    fn finding(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |field| Plain(self.text(field).unwrap_or("?"));
        write!(f, "finding {} ({}, {})", word("rule"), word("level"), word("verdict"))?;
        if let Some(xid) = self.text("xid") {
            write!(f, ", XID {}", Plain(xid))?;
        }
        if let Some(connection) = self.number("connection") {
            write!(f, ", connection {connection}")?;
        }
        if let Some(direction) = self.text("direction") {
            write!(f, " {}", Plain(direction))?;
        }
        let frames = self.0.get("frames").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for (index, frame) in frames.iter().enumerate() {
            let separator = match (index, frames.len()) {
                (0, 1) => ", frame ",
                (0, _) => ", frames ",
                _ => " ",
            };
            write!(f, "{separator}{}", Shown(frame))?;
        }
        match self.text("message") {
            Some(message) => write!(f, ": {}", Plain(message)),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unknown = || Cow::Borrowed("?");
        match self.text("type") {
            Some("capture") => f.write_str("the capture"),
            Some("connection") => {
                write!(f, "connection {}", self.number("connection").unwrap_or_default())?;
                for (separator, end) in [(" from", "requester"), (" to", "responder")] {
                    let end = self.0.get(end);
                    let part = |field: &str| end.and_then(|end| end.get(field)?.as_str()).unwrap_or("?");
                    write!(f, "{separator} {} QP {}", Plain(part("address")), Plain(part("qpn")))?;
                }
                Ok(())
            }
            Some("transaction") => {
                let xid = self.text("xid").unwrap_or("?");
                write!(f, "transaction {} {}", Plain(xid), Plain(self.operations().unwrap_or_else(unknown)))?;
                let direction = Plain(self.text("direction").unwrap_or("?"));
                write!(f, ", connection {} {direction}", self.number("connection").unwrap_or_default())?;
                match self.frame() {
                    Some(frame) => write!(f, ", frame {frame}"),
                    None => Ok(()),
                }
            }
            Some("finding") => self.finding(f),
            _ => write!(f, "{}", Shown(&Value::Object(self.0.clone()))),
        }
    }
}

/// A value as JSON, truncated if it is long.
pub(super) struct Shown<'a>(pub(super) &'a Value);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 400;
        let text = Plain(self.0).to_string();
        match text.char_indices().nth(MOST) {
            Some((end, _)) => write!(f, "{}… ({} characters)", &text[..end], text.chars().count()),
            None => f.write_str(&text),
        }
    }
}
