//! Findings: broken rules, with their evidence.

use super::rule::Rule;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use rdmascope_dissector::connection::ConnectionId;
use rdmascope_dissector::observation::{HalfFlow, Sent};
use rdmascope_dissector::rdma::{End, Position, Send};
use rdmascope_dissector::record::{REORDERING, Seen, Time};
use rdmascope_dissector::transaction::{Direction, Message, Transaction};
use rdmascope_wire::Xid;

/// A place where a rule is broken, or may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule. Set by the judge.
    pub rule: Option<&'static Rule>,
    /// Whether it is certain. Set by the judge.
    pub verdict: Verdict,
    /// The connection. Set by the judge.
    pub connection: Option<ConnectionId>,
    /// The observation, in one sentence without a full stop.
    pub message: String,
    /// The end of the connection that broke the rule.
    pub by: Option<End>,
    /// Whether that end opened the connection; `None` if unknown. Set by the judge.
    pub by_requester: Option<bool>,
    /// The transaction's direction; `None` if it is unknown which end opened the connection, which
    /// the judge ensures.
    pub direction: Option<Direction>,
    /// The end that called the transaction. Set by the judge.
    pub caller: Option<End>,
    /// rdma_xid of the message that it is about.
    pub xid: Option<Xid>,
    /// [`Transaction::number`], if the transaction has ended.
    pub transaction: Option<u64>,
    /// The packets that are the evidence, in capture order; at most [`Finding::MOST_FRAMES`].
    pub frames: Vec<u64>,
    /// The value seen.
    pub observed: Option<Value>,
    /// The value allowed.
    pub allowed: Option<Value>,
    /// The part of the capture that it depends on.
    pub basis: Basis,
}

/// Whether a finding is certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The capture shows the finding.
    Certain,
    /// The capture may lack the packets that would explain it.
    Inconclusive,
}

/// The part of a capture that a finding depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Only packets of the capture.
    Packets,
    /// This end sent nothing else up to the last of the frames.
    Silence(End),
    /// This end had sent no further reply when the other end sent the message that ends at this
    /// position, captured at this time.
    Unanswered(End, Position, Time),
    /// The reply answers its call, so this end, the caller, sent nothing else. If the caller reused
    /// the XID while the call was outstanding, the reply may belong to either call, and nothing is
    /// reported.
    Pairing(End),
    /// Something that the capture lacks.
    Lacking,
}

impl Basis {
    /// Whether a message that the capture shows after the evidence may have been sent before it.
    /// `caller` is the half-flow of the other end.
    ///
    /// An acknowledgement that its sender sent before the message shows their order. Without one,
    /// the capture may have reordered the two ends' packets.
    pub(crate) fn may_follow(&self, message: &Sent<'_>, caller: &HalfFlow) -> bool {
        let Basis::Unanswered(_, call, time) = self else { return false };
        let first = message.send.first;
        let is_before = |seen: Seen| seen.frame <= first.frame && seen.time <= first.time;
        let is_acknowledged =
            caller.acknowledged.is_some_and(|(until, seen)| is_before(seen) && call.distance(until) >= 0);
        !is_acknowledged && first.time.since(*time) <= REORDERING.0
    }
}

/// A value that was seen, or that is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number of things.
    Count(u64),
    /// Bytes.
    Bytes(u64),
    /// Nanoseconds.
    Nanoseconds(u64),
    /// A number usually written in hexadecimal: an XID, a handle, a flag field.
    Hexadecimal(u64),
    /// A name defined by a specification.
    Name(&'static str),
    /// Anything else, as text.
    Words(String),
}

impl Finding {
    /// The most frames that one finding names.
    pub const MOST_FRAMES: usize = 16;

    /// Creates a finding that depends only on packets of the capture and names no transaction yet.
    pub fn new(message: impl Into<String>) -> Finding {
        Finding {
            rule: None,
            verdict: Verdict::Certain,
            connection: None,
            message: message.into(),
            by: None,
            by_requester: None,
            direction: None,
            caller: None,
            xid: None,
            transaction: None,
            frames: Vec::new(),
            observed: None,
            allowed: None,
            basis: Basis::Packets,
        }
    }

    /// Bytes of memory that it takes up, itself included.
    pub(crate) fn footprint(&self) -> usize {
        let words = [&self.observed, &self.allowed].map(|value| match value {
            Some(Value::Words(words)) => words.len(),
            _ => 0,
        });
        size_of::<Finding>()
            + self.message.len()
            + size_of_val(&self.frames[..])
            + words.iter().sum::<usize>()
    }

    /// Sets the end that broke the rule.
    pub fn by(self, end: End) -> Finding {
        Finding { by: Some(end), ..self }
    }

    /// Sets the transaction that it is about.
    pub fn of(self, transaction: &Transaction) -> Finding {
        Finding {
            direction: Some(transaction.direction),
            xid: Some(transaction.xid),
            transaction: Some(transaction.number),
            ..self
        }
    }

    /// Sets the direction and XID of the transaction that it is about, which is still open.
    pub fn about(self, direction: Option<Direction>, xid: impl Into<Option<Xid>>) -> Finding {
        Finding { direction, xid: xid.into(), ..self }
    }

    /// Adds packets to its evidence.
    pub fn frames(mut self, frames: impl IntoIterator<Item = u64>) -> Finding {
        self.frames.extend(frames);
        self.frames.sort_unstable();
        self.frames.dedup();
        self.frames.truncate(Finding::MOST_FRAMES);
        self
    }

    /// Adds the first and the last packet of this Send to its evidence.
    pub fn send(self, send: &Send<'_>) -> Finding {
        self.frames([send.first.frame, send.seen.frame])
    }

    /// Adds the first and the last packet of this message to its evidence.
    pub fn message(self, message: &Message) -> Finding {
        self.frames([message.first.frame, message.seen.frame])
    }

    /// Sets the value seen and the value allowed.
    pub fn values(self, observed: Value, allowed: Value) -> Finding {
        Finding { observed: Some(observed), allowed: Some(allowed), ..self }
    }

    /// Sets the value seen, if no single value is allowed.
    pub fn observed(self, observed: Value) -> Finding {
        Finding { observed: Some(observed), ..self }
    }

    /// Sets the basis, if it is more than packets of the capture.
    pub fn rests_on(self, basis: Basis) -> Finding {
        Finding { basis, ..self }
    }

    /// Makes it inconclusive if the capture `lacks` something that it depends on.
    pub fn unless(self, lacks: bool) -> Finding {
        if lacks { self.rests_on(Basis::Lacking) } else { self }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Count(count) => write!(f, "{count}"),
            Value::Bytes(bytes) => write!(f, "{bytes} byte{}", if *bytes == 1 { "" } else { "s" }),
            Value::Nanoseconds(time) => write!(f, "{time} ns"),
            Value::Hexadecimal(number) => write!(f, "0x{number:08x}"),
            Value::Name(name) => f.write_str(name),
            Value::Words(words) => f.write_str(words),
        }
    }
}

/// The plural "s" after the name of a number of things.
pub(crate) fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Certain => "stands",
            Verdict::Inconclusive => "inconclusive",
        })
    }
}
