//! The results of a replay.

use super::compare::Comparison;
use super::fields::Called;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

/// The result for a connection or a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The connection or call.
    pub subject: Subject,
    /// The verdict.
    pub verdict: Verdict,
    /// From the call to its reply.
    pub latency: Option<Duration>,
    /// Names in the call that no reply brought, so that they were sent as recorded: the field, and
    /// its bytes.
    pub unknown: Vec<(&'static str, String)>,
}

/// The subject of an [`Outcome`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A connection, as an index of [`Recording::connections`](super::Recording::connections).
    Connection(usize),
    /// A call, of either direction, as an index of [`Recording::calls`](super::Recording::calls).
    Call(usize),
    /// A call of the target that the recording does not have: its connection, and what it calls.
    Extra(usize, Option<Called>),
}

/// The verdict on a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The reply is the recorded one, up to what may differ.
    Agrees(Comparison),
    /// It is another one.
    Differs(Comparison),
    /// There is no reply, as in the recording.
    Unanswered,
    /// It is not compared, because of this.
    NotCompared(&'static str),
    /// It differs in another way than by fields.
    Otherwise {
        /// The recorded one.
        recorded: String,
        /// The one that came now.
        live: String,
    },
    /// It was not sent, because of this.
    NotSent(String),
    /// It was not sent, because it names a stateid that the target never gave. The reason is an
    /// earlier reply, so this is no difference.
    Skipped(String),
}

impl Verdict {
    /// Whether the target did something else than the recorded one, or could not be asked.
    pub const fn is_difference(&self) -> bool {
        matches!(self, Verdict::Differs(_) | Verdict::Otherwise { .. } | Verdict::NotSent(_))
    }
}
