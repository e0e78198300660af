//! The JSON Lines contract: docs/json.md in types.
//!
//! Views borrow from the dissector's values and are written as they are walked; nothing is collected on the way.

mod exchange;
mod frame;
mod report;

pub use exchange::{ExchangeLine, write_exchange};
pub use frame::FrameLine;
pub use report::write_report;

use crate::time::Rfc3339;
use rdmascope_dissector::record::Time;
use serde::{Serialize, Serializer};
use std::io::{self, Write};

/// Writes one line.
pub fn write_line(out: &mut impl Write, line: &impl Serialize) -> io::Result<()> {
    // Of the errors of serde_json only those of `out` can come up here, and they keep their kind.
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}

/// An RFC 3339 time.
fn time<S: Serializer>(time: &Time, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(Rfc3339::from(*time).as_str())
}

/// What `Display` writes, as a string.
pub struct Shown<T>(pub T);

impl<T: core::fmt::Display> Serialize for Shown<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

#[cfg(test)]
mod tests;
