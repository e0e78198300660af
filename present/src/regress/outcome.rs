//! What came of a capture, or of another file that a manifest lists.

use super::compare::Difference;
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::PathBuf;

/// What came of a file.
#[derive(Debug)]
pub struct Outcome {
    /// The file.
    pub path: PathBuf,
    /// Whether it is a capture, and not another file that a manifest lists, or an expectation alone.
    pub is_capture: bool,
    /// Whether a manifest lists it; `None` where there is no manifest.
    pub listed: Option<bool>,
    /// What is to be said of it.
    pub verdict: Verdict,
}

/// What is to be said of a file.
#[derive(Debug)]
pub enum Verdict {
    /// It is as expected.
    Same,
    /// It is not.
    Different {
        /// Some of the differences.
        differences: Vec<Difference>,
        /// How many there are.
        count: u64,
        /// Whether there are findings where none were expected.
        first_findings: bool,
    },
    /// Nothing is expected of it.
    NoExpectation,
    /// What is expected of it was written.
    Blessed(Blessed),
    /// An expectation stands there without its capture.
    NoCapture,
    /// A manifest lists it, and it is not there.
    Absent,
    /// It is not the file that a manifest lists, as the text says.
    OtherFile(String),
    /// It could not be read; the text says why.
    Unreadable(String),
    /// Its expectation is none, or could not be read or written; the text says why.
    BrokenExpectation(String),
}

/// What was written, in lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blessed {
    /// Lines that were not there before.
    pub added: u64,
    /// Lines that are no longer there.
    pub removed: u64,
}

impl Outcome {
    /// What was written, where an expectation was.
    pub fn blessed(&self) -> Option<Blessed> {
        match self.verdict {
            Verdict::Blessed(blessed) => Some(blessed),
            _ => None,
        }
    }

    /// What stands in the way of a verdict.
    pub fn trouble(&self) -> Option<Cow<'_, str>> {
        match &self.verdict {
            Verdict::OtherFile(error) | Verdict::Unreadable(error) | Verdict::BrokenExpectation(error) => {
                Some(error.into())
            }
            Verdict::Absent => {
                Some(format!("{}: listed in MANIFEST, and not there", self.path.display()).into())
            }
            _ => None,
        }
    }
}

impl Blessed {
    /// Counts the lines that only one of two files has.
    pub fn between(before: &[u8], after: &[u8]) -> Blessed {
        let mut balance: HashMap<&[u8], i64> = HashMap::new();
        for (bytes, count) in [(before, -1), (after, 1)] {
            let lines = bytes.split_inclusive(|byte| *byte == b'\n');
            lines.for_each(|line| *balance.entry(line).or_default() += count);
        }
        let sum = |sign: i64| balance.values().map(|count| (count * sign).max(0) as u64).sum();
        Blessed { added: sum(1), removed: sum(-1) }
    }
}
