//! Scenarios: tests of a live peer's reaction to messages that the specifications forbid or leave
//! open.
//!
//! A [`Scenario`] is parsed from a TOML file (docs/scenarios.md). It holds the requirement under
//! test, the steps, and the reactions that the requirement allows or forbids. [`builtin`] returns
//! the built-in scenarios.
//!
//! A [`Runner`] performs a scenario of the requester's [`Side`] on an
//! [`Endpoint`](crate::endpoint::Endpoint) or another [`Provider`](crate::provider::Provider). A
//! [`Serving`] performs one of the responder's side on a [`Peer`](crate::peer::Peer): it receives
//! each call with its correct reply. Both are driven by events and the time, so they run in a
//! [`Pair`](crate::pair::Pair) as well as over sockets. The [`Outcome`] holds the messages sent,
//! the reactions and the [`Verdict`].

mod builtin;
mod file;
mod message;
mod nfs41;
mod outcome;
mod pattern;
mod payload;
mod reaction;
mod record;
mod response;
mod runner;
mod seen;
mod serving;
mod step;

pub use builtin::{BUILTIN, builtin, builtin_of};
pub use file::{ScenarioError, parse};
pub use outcome::{Alive, Outcome, Verdict};
pub use reaction::{CallbackSeen, How, Observed, PrivateDataSeen, ReplyChunks, ReplySeen};
pub use response::{
    Awaited, Invalidated, OtherXid, ReadChunk, ReplyChunk, Response, Returned, Side, WriteBeyond,
};
pub use runner::{Injector, Runner, Target};
pub use serving::Serving;

use crate::provider::Beyond;
use alloc::string::String;
use alloc::vec::Vec;
pub use pattern::Pattern;
use serde::Deserialize;
pub use step::{
    ChunkList, Connect, Direction, Effect, ErrorFields, Expect, Fill, Fraction, Handle, Kind, MessageError,
    Number, Observe, Offered, Payload, PrivateDataFields, Procedure, Pull, Read, ReadEntry, Register, Rights,
    Rule, Segment, Send, SendRaw, Session, Step, Until, Write,
};

/// The level of a requirement (RFC 2119).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// MUST and MUST NOT.
    Must,
    /// SHOULD and SHOULD NOT.
    Should,
    /// MAY: no reaction of a peer violates it.
    May,
}

impl core::fmt::Display for Level {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(match self {
            Level::Must => "MUST",
            Level::Should => "SHOULD",
            Level::May => "MAY",
        })
    }
}

/// The requirement that a scenario tests.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    /// The document: `rfc8166`, `rfc8167`, `rfc8797`, `rfc8267`, `ibta`, `reliable-reply`.
    pub document: String,
    /// The section, as in `4.5.1`.
    pub section: String,
    /// The level.
    pub level: Level,
    /// The requirement in plain words.
    pub text: String,
}

/// A condition on the target for a scenario to apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    /// The target's private data indicates support for remote invalidation (RFC 8797, section 4.1).
    RemoteInvalidation,
    /// The target's private data does not indicate support for remote invalidation.
    NoRemoteInvalidation,
    /// The target is an NFS server: it answers calls of the NFS program.
    Nfs,
}

/// A scenario. See docs/scenarios.md.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The name: lower case letters, digits and hyphens.
    pub name: String,
    /// The action of the scenario, in one sentence.
    pub title: String,
    /// The end of the connection that the scenario plays.
    #[serde(default)]
    pub side: Side,
    /// The requirement that it tests.
    pub requirement: Requirement,
    /// Whether it may crash or exhaust a peer.
    #[serde(default)]
    pub destructive: bool,
    /// The conditions on the target.
    #[serde(default)]
    pub needs: Vec<Need>,
    /// Whether the verdict `conforms` requires the connection to survive.
    #[serde(default)]
    pub survives: bool,
    /// The rules of `rdmascope check` that report this scenario in a capture.
    #[serde(default)]
    pub check: Vec<String>,
    /// The steps.
    pub steps: Vec<Step>,
    /// The reactions that the requirement allows.
    pub allowed: Vec<Pattern>,
    /// The reactions that violate the requirement. All others are tolerated.
    #[serde(default)]
    pub wrong: Vec<Pattern>,
}

impl Scenario {
    /// Returns document and section, such as `rfc8166/4.5.1`.
    pub fn section(&self) -> String {
        alloc::format!("{}/{}", self.requirement.document, self.requirement.section)
    }

    /// Returns whether it applies only to a target that offers a Read chunk for a long reply
    /// (reliable-reply draft, section 4.1.1).
    pub fn expects_read_chunk(&self) -> bool {
        let expects = |step: &Step| matches!(step, Step::Expect(expect) if expect.reaction.is_read_chunk());
        self.steps.iter().any(expects)
    }

    /// Returns the ability that the scenario needs and an RDMA device lacks.
    pub fn beyond_verbs(&self) -> Option<Beyond> {
        let step = |step: &Step| match step {
            Step::Rules(rules) if !rules.is_empty() => Some(Beyond::Packets),
            Step::SkipPsn(_) => Some(Beyond::Psn),
            Step::Abandon(_) => Some(Beyond::Silence),
            _ => None,
        };
        // The target's use of remote invalidation is visible only if this side sets R.
        let invalidation = |need: &Need| match need {
            Need::RemoteInvalidation | Need::NoRemoteInvalidation => Some(Beyond::RemoteInvalidation),
            Need::Nfs => None,
        };
        self.steps.iter().find_map(step).or_else(|| self.needs.iter().find_map(invalidation))
    }

    /// Returns whether it belongs to a document or section, such as `rfc8166` or `rfc8166/4.5`,
    /// including subsections.
    pub fn is_of(&self, section: &str) -> bool {
        let own = self.section();
        own.strip_prefix(section).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '/']))
    }
}
