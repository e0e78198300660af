//! Rules: requirements with their level, their source and their explanation.

use core::fmt;

/// A requirement that a capture can show to be broken.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The name used by programs and command lines: lower-case words joined by hyphens, the subject
    /// first.
    pub id: &'static str,
    /// The severity.
    pub level: Level,
    /// The sections that the requirement comes from.
    pub sources: &'static [Source],
    /// The requirement, in one sentence.
    pub sentence: &'static str,
    /// How the rule is decided: what counts as evidence, and when a finding is inconclusive.
    pub explanation: &'static str,
    /// The kind of case that the rule applies to.
    pub about: About,
}

/// Rules are equal if their ids are: ids are unique.
impl PartialEq for Rule {
    fn eq(&self, other: &Rule) -> bool {
        self.id == other.id
    }
}

impl Eq for Rule {}

/// The kind of case that a rule applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum About {
    /// Every Send, before it updates the state.
    Sent,
    /// Every finished transaction, before it updates the state.
    Transaction,
    /// A connection after a CM message or an MPA start frame with new information about it.
    Established,
    /// A connection that ended.
    Connection,
    /// Every CM message, before it updates the state.
    Managed,
    /// Every message that requests a connection, accepts it or rejects it, before it updates the
    /// state.
    Announced,
    /// Every faulty packet.
    Faulty,
    /// Every NAK.
    Refused,
    /// Every RDMA operation on memory that no open transaction advertised for it.
    Unmatched,
    /// Every Send with Invalidate that invalidated memory of another open transaction.
    Revoked,
}

/// The severity of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Breaks a MUST of the specification, or something that the transport cannot work without.
    Violation,
    /// Breaks a SHOULD of the specification, or is likely to be a mistake.
    Warning,
    /// Is allowed, and costs performance.
    Advice,
}

/// The section that a requirement comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The document.
    pub document: Document,
    /// The section number in the document.
    pub section: &'static str,
}

/// The documents that rules cite.
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
    /// The draft "Improving the Performance and Reliability of RPC Replies on RPC-over-RDMA
    /// Transports".
    ReliableReply,
    /// InfiniBand Architecture Specification, volume 1.
    Ibta,
    /// Annex A17 (RoCEv2) of the InfiniBand Architecture Specification, volume 1.
    RoceV2,
}

/// A requirement that no capture can show to be broken.
#[derive(Clone, Copy, Debug)]
pub struct Unseen {
    /// The section that states it.
    pub source: Source,
    /// The requirement.
    pub requirement: &'static str,
    /// The reason why a capture cannot show it.
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
