//! Scenarios: what happens if a remote side is sent this? They are data, and this is what runs them.
//!
//! A [`Scenario`] is a TOML file (docs/scenarios.md): what it does, the requirement that it is about, the steps, the reactions that the
//! requirement allows, and those that it forbids. [`builtin`] lists those that come with the program. A [`Runner`] performs one on an
//! [`Endpoint`](crate::endpoint::Endpoint), or another [`Provider`](crate::provider::Provider), driven by its events and the time, so that it runs in a [`Pair`](crate::pair::Pair) as over
//! sockets, and its [`Outcome`] says what was sent, what came back, and the [`Verdict`]. A [`Serving`] performs one of the responder's [`Side`] on a
//! [`Peer`](crate::peer::Peer) whose calls somebody answers: it takes each call with its right reply.

mod builtin;
mod file;
mod message;
mod nfs41;
mod outcome;
mod pattern;
mod payload;
mod reaction;
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
    ChunkList, Connect, Direction, Effect, ErrorFields, Expect, Fill, Fraction, Handle, Kind, Message,
    MessageError, Number, Observe, Offered, Payload, PrivateDataFields, Procedure, Pull, Read, ReadEntry,
    Register, Rights, Rule, Segment, Send, SendRaw, Session, Step, Until, Write,
};

/// How binding a requirement is (RFC 2119).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// MUST and MUST NOT.
    Must,
    /// SHOULD and SHOULD NOT.
    Should,
    /// MAY: no reaction of a live peer breaks it.
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

/// What a scenario is about.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    /// The document: `rfc8166`, `rfc8167`, `rfc8797`, `rfc8267`, `ibta`, `reliable-reply`.
    pub document: String,
    /// The section, as in `4.5.1`.
    pub section: String,
    /// How binding it is.
    pub level: Level,
    /// What it says, in our words.
    pub text: String,
}

/// What has to be so for a scenario to apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    /// The target's private data says that it supports remote invalidation (RFC 8797, section 4.1).
    RemoteInvalidation,
    /// It does not say so.
    NoRemoteInvalidation,
    /// The target is an NFS server: it answers calls of the NFS program.
    Nfs,
}

/// A scenario. See docs/scenarios.md.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name: lower case, digits and hyphens.
    pub name: String,
    /// What it does, in a sentence.
    pub title: String,
    /// Which end of the connection it plays.
    #[serde(default)]
    pub side: Side,
    /// What the requirement is.
    pub requirement: Requirement,
    /// Whether it is known to crash or exhaust some peer.
    #[serde(default)]
    pub destructive: bool,
    /// What has to be so for it to apply.
    #[serde(default)]
    pub needs: Vec<Need>,
    /// Whether the connection must live on afterwards for the verdict `conforms`.
    #[serde(default)]
    pub survives: bool,
    /// The rules of `rdmascope check` that find in a capture what this scenario does.
    #[serde(default)]
    pub check: Vec<String>,
    /// What is done.
    pub steps: Vec<Step>,
    /// The reactions that the requirement allows.
    pub allowed: Vec<Pattern>,
    /// Those that break it. What is neither is tolerated.
    #[serde(default)]
    pub wrong: Vec<Pattern>,
}

impl Scenario {
    /// Document and section, as in `rfc8166/4.5.1`.
    pub fn section(&self) -> String {
        alloc::format!("{}/{}", self.requirement.document, self.requirement.section)
    }

    /// Whether it applies only to a target that offers a Read chunk for a long reply (reliable-reply
    /// draft, section 4.1.1).
    pub fn expects_read_chunk(&self) -> bool {
        let expects = |step: &Step| matches!(step, Step::Expect(expect) if expect.reaction.is_read_chunk());
        self.steps.iter().any(expects)
    }

    /// What it asks of a device by verbs that no device does.
    pub fn beyond_verbs(&self) -> Option<Beyond> {
        let step = |step: &Step| match step {
            Step::Rules(rules) if !rules.is_empty() => Some(Beyond::Packets),
            Step::SkipPsn(_) => Some(Beyond::Psn),
            Step::Abandon(_) => Some(Beyond::Silence),
            _ => None,
        };
        // What the target does about R shows only where this side sets it.
        let invalidation = |need: &Need| match need {
            Need::RemoteInvalidation | Need::NoRemoteInvalidation => Some(Beyond::RemoteInvalidation),
            Need::Nfs => None,
        };
        self.steps.iter().find_map(step).or_else(|| self.needs.iter().find_map(invalidation))
    }

    /// Whether it belongs to a section: `rfc8166` or `rfc8166/4.5`, with all that is below it.
    pub fn is_of(&self, section: &str) -> bool {
        let own = self.section();
        own.strip_prefix(section).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '/']))
    }
}
