//! Comparison of the analysis of a capture with its expectation, and output of the result as text
//! or JSON.
//!
//! An expectation has the lines of docs/json.md. docs/regress.md describes the comparison.

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
