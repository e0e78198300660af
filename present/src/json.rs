//! JSON Lines: what is written of a line, of a whole transaction, and of a report. docs/json.md describes the lines; they come from
//! [`crate::columns`].

mod exchange;
mod report;

pub use exchange::write_exchange;
pub use report::write_report;

use serde::{Serialize, Serializer};
use std::io::{self, Write};

/// Writes one line.
pub fn write_line(out: &mut impl Write, line: &impl Serialize) -> io::Result<()> {
    // Of the errors of serde_json only those of `out` can come up here, and they keep their kind.
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
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
