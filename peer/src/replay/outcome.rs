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
    /// The time from the call to its reply.
    pub latency: Option<Duration>,
    /// Names in the call that no reply had introduced and that were therefore sent as recorded: the
    /// field, and its bytes.
    pub unknown: Vec<(&'static str, String)>,
}

/// The subject of an [`Outcome`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A connection, as an index of [`Recording::connections`](super::Recording::connections).
    Connection(usize),
    /// A call, of either direction, as an index of [`Recording::calls`](super::Recording::calls).
    Call(usize),
    /// A call of the target that the recording lacks: its connection, and the procedure.
    Extra(usize, Option<Called>),
}

/// The verdict on a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The reply is the recorded one, apart from fields that may differ.
    Agrees(Comparison),
    /// The reply differs from the recorded one.
    Differs(Comparison),
    /// No reply came, as in the recording.
    Unanswered,
    /// The reply was not compared, for this reason.
    NotCompared(&'static str),
    /// The answer is of another kind, so its fields were not compared.
    Otherwise {
        /// The recorded answer.
        recorded: String,
        /// The live answer.
        live: String,
    },
    /// The call was not sent, for this reason.
    NotSent(String),
    /// The call was not sent, because it names a stateid that the target never returned. An earlier
    /// reply is the cause, so this is no difference.
    Skipped(String),
}

impl Verdict {
    /// Whether the target behaved differently than the recorded server, or the call could not be
    /// made.
    pub const fn is_difference(&self) -> bool {
        matches!(self, Verdict::Differs(_) | Verdict::Otherwise { .. } | Verdict::NotSent(_))
    }
}
