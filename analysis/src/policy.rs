//! What a policy asks of a capture beside the rules of the specifications, entry by entry, and what came of it.

mod allow;

pub use allow::{Allow, Allowance, Allowances, Host, Hosts, Scope, Version};

use core::fmt;
use rdmascope_conformance::Value;

/// A policy that was held against a capture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policed {
    /// The name of its file.
    pub file: String,
    /// What came of its entries, in the order in which they stand there.
    pub entries: Vec<PolicyEntry>,
}

/// An entry of a policy, and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyEntry {
    /// Its line in the file, from 1.
    pub line: usize,
    /// What it is.
    pub kind: EntryKind,
    /// What it asks, in words: `p99 of READ`.
    pub subject: String,
    /// Whether the capture keeps to it.
    pub outcome: EntryOutcome,
    /// What came of it, in words: half a sentence.
    pub message: String,
    /// The value seen.
    pub observed: Option<Value>,
    /// The value allowed.
    pub allowed: Option<Value>,
}

/// What an entry of a policy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// Rules that may be broken.
    Allow,
    /// A limit on the latency of an operation.
    Latency,
    /// What must be in the capture.
    Require,
}

/// What came of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryOutcome {
    /// The capture keeps to it, or it allowed something.
    Met,
    /// The capture does not keep to it.
    Failed,
    /// Its last day is over. What it allowed is allowed no more.
    Expired,
    /// It is about nothing in this capture.
    Unused,
}

impl EntryKind {
    /// Its name in lines of JSON, and in the file.
    pub const fn word(self) -> &'static str {
        match self {
            EntryKind::Allow => "allow",
            EntryKind::Latency => "latency",
            EntryKind::Require => "require",
        }
    }
}

impl EntryOutcome {
    /// Its name in lines of JSON.
    pub const fn word(self) -> &'static str {
        match self {
            EntryOutcome::Met => "met",
            EntryOutcome::Failed => "failed",
            EntryOutcome::Expired => "expired",
            EntryOutcome::Unused => "unused",
        }
    }
}

impl PolicyEntry {
    /// Whether it makes the check fail.
    pub fn fails(&self) -> bool {
        matches!(self.outcome, EntryOutcome::Failed | EntryOutcome::Expired)
    }
}

/// `allow credit-limit: expired on 2026-01-01`.
impl fmt::Display for PolicyEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.kind.word(), self.subject, self.message)
    }
}

impl Policed {
    /// Whether an entry makes the check fail.
    pub fn fails(&self) -> bool {
        self.failures() > 0
    }

    /// How many entries make the check fail.
    pub fn failures(&self) -> u64 {
        self.entries.iter().filter(|entry| entry.fails()).count() as u64
    }

    /// The entry, as messages name it: `rdmascope.toml:4: allow credit-limit: expired on 2026-01-01`.
    pub fn named<'a>(&'a self, entry: &'a PolicyEntry) -> impl fmt::Display + 'a {
        fmt::from_fn(move |f| write!(f, "{}:{}: {entry}", self.file, entry.line))
    }
}
