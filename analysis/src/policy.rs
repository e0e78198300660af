//! The entries of a policy and their outcomes. A policy adds requirements to the rules of the
//! specifications.

mod allow;

pub use allow::{Allow, Allowance, Allowances, Host, Hosts, Scope, Version};

use core::fmt;
use rdmascope_conformance::Value;

/// A policy that was applied to a capture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policed {
    /// The name of its file.
    pub file: String,
    /// The outcomes of its entries, in the order of the file.
    pub entries: Vec<PolicyEntry>,
}

/// An entry of a policy with its outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyEntry {
    /// Its line in the file, from 1.
    pub line: usize,
    /// Its kind.
    pub kind: EntryKind,
    /// Its subject as text: `p99 of READ`.
    pub subject: String,
    /// Whether the capture satisfies it.
    pub outcome: EntryOutcome,
    /// The outcome as text: a clause, not a sentence.
    pub message: String,
    /// The observed value.
    pub observed: Option<Value>,
    /// The allowed value.
    pub allowed: Option<Value>,
}

/// The kind of a policy entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// Rules that may be broken.
    Allow,
    /// A limit on the latency of an operation.
    Latency,
    /// Something that must be in the capture.
    Require,
}

/// The outcome of a policy entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryOutcome {
    /// The capture satisfies it, or it allowed something.
    Met,
    /// The capture does not satisfy it.
    Failed,
    /// Its last day is over, so it allows nothing.
    Expired,
    /// Nothing in this capture concerns it.
    Unused,
}

impl EntryKind {
    /// Its name in JSON and in the policy file.
    pub const fn word(self) -> &'static str {
        match self {
            EntryKind::Allow => "allow",
            EntryKind::Latency => "latency",
            EntryKind::Require => "require",
        }
    }
}

impl EntryOutcome {
    /// Its name in JSON.
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

/// The text `allow credit-limit: expired on 2026-01-01`.
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

    /// The number of entries that make the check fail.
    pub fn failures(&self) -> u64 {
        self.entries.iter().filter(|entry| entry.fails()).count() as u64
    }

    /// The entry with its place, for messages: `rdmascope.toml:4: allow credit-limit: expired on
    /// 2026-01-01`.
    pub fn named(&self, entry: &PolicyEntry) -> String {
        format!("{}:{}: {entry}", self.file, entry.line)
    }
}
