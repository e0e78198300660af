//! What a rule is.

use core::fmt;

/// A requirement that a capture can show to be broken.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its name for programs and command lines: lower-case words joined by hyphens, the subject first.
    pub id: &'static str,
    /// How much it weighs.
    pub level: Level,
    /// Where it stands.
    pub sources: &'static [Source],
    /// What it requires, in one sentence.
    pub sentence: &'static str,
    /// How it is decided: what counts as evidence, and when the answer is inconclusive.
    pub explanation: &'static str,
    /// The kind of its cases.
    pub about: About,
}

/// Rules are equal where their ids are: no two rules have the same.
impl PartialEq for Rule {
    fn eq(&self, other: &Rule) -> bool {
        self.id == other.id
    }
}

impl Eq for Rule {}

/// The kind of the cases that a rule is asked of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum About {
    /// Every Send, before it is taken into account.
    Sent,
    /// Every transaction that ended, before it is taken into account.
    Transaction,
    /// A connection about which a CM message or an MPA start frame said something new.
    Established,
    /// A connection that ended.
    Connection,
    /// Every CM message, before it is taken into account.
    Managed,
    /// Every message that asks for a connection, accepts it or rejects it, before it is taken
    /// into account.
    Announced,
    /// Every packet at fault.
    Faulty,
    /// Every NAK.
    Refused,
    /// Every RDMA operation on memory that no open transaction advertised for it.
    Stray,
    /// Every Send with Invalidate that took memory from a transaction that goes on.
    Revoked,
}

/// How much a rule weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// It breaks what the specification says MUST be, or what the transport cannot work without.
    Violation,
    /// It breaks what the specification says SHOULD be, or is likely to be a mistake.
    Warning,
    /// It is allowed, and costs performance.
    Advice,
}

/// Where a requirement stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The document.
    pub document: Document,
    /// The section as the document numbers it.
    pub section: &'static str,
}

/// The documents that rules rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum Document {
    Rfc1813,
    Rfc2203,
    Rfc4506,
    Rfc5040,
    Rfc5041,
    Rfc5044,
    Rfc5531,
    Rfc6581,
    Rfc7530,
    Rfc7862,
    Rfc8166,
    Rfc8167,
    Rfc8267,
    Rfc8276,
    Rfc8797,
    Rfc8881,
    Rfc9293,
    /// The draft "Improving the Performance and Reliability of RPC Replies on RPC-over-RDMA Transports".
    ReliableReply,
    /// InfiniBand Architecture Specification, volume 1.
    Ibta,
    /// Annex A17 of the same, RoCEv2.
    RoceV2,
}

/// A requirement that no capture can show to be broken.
#[derive(Clone, Copy, Debug)]
pub struct Unseen {
    /// Where it stands.
    pub source: Source,
    /// What it requires.
    pub requirement: &'static str,
    /// Why a capture cannot show it.
    pub reason: &'static str,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Violation => "violation",
            Level::Warning => "warning",
            Level::Advice => "advice",
        })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, section {}", self.document, self.section)
    }
}

impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Document::Rfc1813 => "RFC 1813",
            Document::Rfc2203 => "RFC 2203",
            Document::Rfc4506 => "RFC 4506",
            Document::Rfc5040 => "RFC 5040",
            Document::Rfc5041 => "RFC 5041",
            Document::Rfc5044 => "RFC 5044",
            Document::Rfc5531 => "RFC 5531",
            Document::Rfc6581 => "RFC 6581",
            Document::Rfc7530 => "RFC 7530",
            Document::Rfc7862 => "RFC 7862",
            Document::Rfc8166 => "RFC 8166",
            Document::Rfc8167 => "RFC 8167",
            Document::Rfc8267 => "RFC 8267",
            Document::Rfc8276 => "RFC 8276",
            Document::Rfc8797 => "RFC 8797",
            Document::Rfc8881 => "RFC 8881",
            Document::Rfc9293 => "RFC 9293",
            Document::ReliableReply => "reliable-reply draft",
            Document::Ibta => "IBTA volume 1",
            Document::RoceV2 => "IBTA volume 1, annex A17",
        })
    }
}
