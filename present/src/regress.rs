//! What is expected of a capture, and what was found in it: compared, and told for people and for programs.
//!
//! An expectation is the lines of docs/json.md. docs/regress.md says what is compared.

mod compare;
mod lines;
mod outcome;
mod pairs;
mod subject;
mod text;

pub use compare::{Change, Comparison, Difference, compare};
pub use lines::{Broken, Line, Lines, Object};
pub use outcome::{Blessed, Outcome, Verdict};
pub(crate) use subject::Subject;
pub use text::Counts;

#[cfg(test)]
mod tests;
