//! JSON Lines: the output of a line, of a complete transaction, and of a report. docs/json.md
//! describes the lines; [`crate::columns`] defines them.

mod exchange;
mod kernel;
mod report;

pub use crate::serialized::{Json, Shown, write_line, write_value};
pub use exchange::write_exchange;
pub use kernel::write_witness;
pub use report::{write_places, write_report};

#[cfg(test)]
mod tests;
