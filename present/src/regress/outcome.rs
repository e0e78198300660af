//! The outcome of a capture, or of another file in a manifest.

use super::compare::Difference;
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::PathBuf;

/// The outcome of a file.
#[derive(Debug)]
pub struct Outcome {
    /// The file.
    pub path: PathBuf,
    /// Whether it is a capture, as opposed to another file in a manifest or an expectation alone.
    pub is_capture: bool,
    /// Whether a manifest lists it. `None` without a manifest.
    pub listed: Option<bool>,
    /// The verdict on it.
    pub verdict: Verdict,
}

/// The verdict on a file.
#[derive(Debug)]
pub enum Verdict {
    /// The analysis equals the expectation.
    Same,
    /// The analysis differs.
    Different {
        /// The differences, up to the limit.
        differences: Vec<Difference>,
        /// The total number of differences.
        count: u64,
        /// Whether there are findings although the expectation has none.
        first_findings: bool,
    },
    /// The capture has no expectation.
    NoExpectation,
    /// The expectation was written.
    Blessed(Blessed),
    /// The expectation has no capture.
    NoCapture,
    /// A manifest lists the file, but it is absent.
    Absent,
    /// The file is not the one in the manifest, with the error.
    OtherFile(String),
    /// The file could not be read, with the error.
    Unreadable(String),
    /// The expectation is invalid, or could not be read or written, with the error.
    BrokenExpectation(String),
}

/// The changes of a written expectation, in lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blessed {
    /// Lines added.
    pub added: u64,
    /// Lines removed.
    pub removed: u64,
}

impl Outcome {
    /// The changes of the expectation, if it was written.
    pub fn blessed(&self) -> Option<Blessed> {
        match self.verdict {
            Verdict::Blessed(blessed) => Some(blessed),
            _ => None,
        }
    }

    /// The error that prevented a verdict.
    pub fn trouble(&self) -> Option<Cow<'_, str>> {
        match &self.verdict {
            Verdict::OtherFile(error) | Verdict::Unreadable(error) | Verdict::BrokenExpectation(error) => {
                Some(error.into())
            }
            Verdict::Absent => {
                Some(format!("{}: listed in the MANIFEST, but absent", self.path.display()).into())
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
