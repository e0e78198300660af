//! JSON Lines: what is written of a line, of a whole transaction, and of a report. docs/json.md describes the lines; they come from
//! [`crate::columns`].

mod exchange;
mod kernel;
mod report;

pub use crate::serialized::{Shown, write_line, write_value};
pub use exchange::write_exchange;
pub use kernel::write_witness;
pub use report::{write_places, write_report};

#[cfg(test)]
mod tests;
