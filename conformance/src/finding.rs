//! What a rule finds.

use super::rule::Rule;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use rdmascope_dissector::connection::ConnectionId;
use rdmascope_dissector::rdma::End;
use rdmascope_dissector::rdma::Send;
use rdmascope_dissector::transaction::{Direction, Message, Transaction};
use rdmascope_wire::Xid;

/// A place where a rule is broken, or may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule. Set by the judge.
    pub rule: Option<&'static Rule>,
    /// Whether it stands. Set by the judge.
    pub verdict: Verdict,
    /// The connection. Set by the judge.
    pub connection: Option<ConnectionId>,
    /// What was seen, in one sentence without a full stop.
    pub message: String,
    /// The end of the connection that broke the rule.
    pub by: Option<End>,
    /// Whether that end opened the connection; `None` where nobody knows which one did. Set by the judge.
    pub by_requester: Option<bool>,
    /// The transaction's direction; `None` where nobody knows which end opened the connection. The judge sees to that.
    pub direction: Option<Direction>,
    /// The end that called the transaction. Set by the judge.
    pub caller: Option<End>,
    /// rdma_xid of what it is about.
    pub xid: Option<Xid>,
    /// [`Transaction::number`], where the transaction has ended.
    pub transaction: Option<u64>,
    /// The packets that are the evidence, in the order of the capture; at most [`Finding::MOST_FRAMES`].
    pub frames: Vec<u64>,
    /// The value seen.
    pub observed: Option<Value>,
    /// The value allowed.
    pub allowed: Option<Value>,
    /// What it depends on.
    pub basis: Basis,
}

/// Whether a finding stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The capture shows it.
    Stands,
    /// The capture may lack the packets that would explain it.
    Inconclusive,
}

/// What a finding depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Only on packets that are in the capture.
    Packets,
    /// On this end not having sent anything else up to the last of the frames.
    Silence(End),
    /// On a reply answering its call: on this end, the caller, not having sent anything else either. Where it used the XID again while the
    /// call was outstanding, it is not known which of its calls the reply is for, and nothing is found.
    Pairing(End),
    /// On something that the capture lacks.
    Lacking,
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
    /// A number that people write in hexadecimal: an XID, a handle, a flag field.
    Hexadecimal(u64),
    /// A name out of a specification.
    Name(&'static str),
    /// Anything else, in words.
    Words(String),
}

impl Finding {
    /// Frames that one finding names.
    pub const MOST_FRAMES: usize = 16;

    /// A finding that depends only on packets of the capture, and that does not name a transaction yet.
    pub fn new(message: impl Into<String>) -> Finding {
        Finding {
            rule: None,
            verdict: Verdict::Stands,
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

    /// Sets which end broke the rule.
    pub fn by(self, end: End) -> Finding {
        Finding { by: Some(end), ..self }
    }

    /// Says that it is about this transaction.
    pub fn of(self, transaction: &Transaction) -> Finding {
        Finding {
            direction: Some(transaction.direction),
            xid: Some(transaction.xid),
            transaction: Some(transaction.number),
            ..self
        }
    }

    /// Says that it is about the transaction of this direction and XID, which is still open.
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

    /// Adds the last packets of the call and the reply to its evidence.
    pub fn ends(self, transaction: &Transaction) -> Finding {
        let messages = [&transaction.call, &transaction.reply].into_iter().flatten();
        self.frames(messages.map(|message| message.seen.frame))
    }

    /// Adds the first and the last packet of this message to its evidence.
    pub fn message(self, message: &Message) -> Finding {
        self.frames([message.first.frame, message.seen.frame])
    }

    /// Sets the value seen and the value allowed.
    pub fn values(self, observed: Value, allowed: Value) -> Finding {
        Finding { observed: Some(observed), allowed: Some(allowed), ..self }
    }

    /// Sets the value seen, where there is no single value that is allowed.
    pub fn observed(self, observed: Value) -> Finding {
        Finding { observed: Some(observed), ..self }
    }

    /// Sets what it depends on, where that is more than packets of the capture.
    pub fn rests_on(self, basis: Basis) -> Finding {
        Finding { basis, ..self }
    }

    /// Makes it inconclusive where the capture `lacks` something that it depends on.
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

/// "s" behind the name of a number of things.
pub(crate) fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Stands => "stands",
            Verdict::Inconclusive => "inconclusive",
        })
    }
}
