//! The patterns that a scenario uses to describe reactions.

use super::reaction::{CallbackSeen, How, Observed, PrivateDataSeen, ReplyChunks, ReplySeen};
use super::step::{MessageError, NamedError};
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use rdmascope_wire::bth::NakCode;
use rdmascope_wire::rpc::Status;
use rdmascope_wire::rpcrdma::Error;
use serde::Deserialize;

/// A reaction as described by a scenario. Fields that are absent match anything.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Pattern {
    /// Nothing until the time of `observe` is over.
    Silence,
    /// A reply.
    Reply(ReplyPattern),
    /// An RDMA_ERROR.
    Error(ErrorPattern),
    /// A second answer to the same XID.
    Again,
    /// A call in the backward direction.
    Callback(CallbackPattern),
    /// A call of a client that is served.
    Call(CallPattern),
    /// RDMA_DONE with the XID of the scenario's call.
    Done,
    /// Any other message: neither an answer to the scenario nor a backward call.
    Message,
    /// A NAK with this code, even if it does not end the connection.
    Nak(Code),
    /// The connection is lost.
    Closed(ClosedPattern),
    /// A REJ.
    Rejected(RejectedPattern),
    /// The connection is established.
    Connected(ConnectedPattern),
    /// An RDMA READ or WRITE of this side was executed.
    Completed,
    /// A DREP.
    DisconnectAnswered,
    /// No DREP.
    DisconnectUnanswered,
}

/// See [`Pattern::Reply`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ReplyPattern {
    /// The RPC status.
    pub status: Option<RpcStatus>,
    /// The minimum of rdma_credit.
    pub credits_from: Option<u32>,
    /// The maximum of rdma_credit.
    pub credits_to: Option<u32>,
    /// Whether it is an RDMA_NOMSG without a Read chunk.
    pub long: Option<bool>,
    /// Whether it is an RDMA_NOMSG with a Position Zero Read chunk.
    pub read_chunk: Option<bool>,
    /// The minimum length of the SEND.
    pub length_from: Option<usize>,
    /// Whether it invalidates a handle.
    pub invalidated: Option<bool>,
    /// The state of the Write list.
    pub writes: Option<ReplyChunks>,
    /// The state of the Reply chunk.
    pub reply_chunk: Option<ReplyChunks>,
    /// Whether this side had retransmitted.
    pub retransmitted: Option<bool>,
}

/// See [`Pattern::Call`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct CallPattern {
    /// Whether it has the XID of the scenario's call.
    pub again: Option<bool>,
}

/// See [`Pattern::Callback`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct CallbackPattern {
    /// Whether rdma_vers is that of forward calls.
    pub same_version: Option<bool>,
    /// Whether header and RPC call have the same XID.
    pub same_xid: Option<bool>,
    /// Whether it has chunks.
    pub chunks: Option<bool>,
    /// The minimum of rdma_credit.
    pub credits_from: Option<u32>,
}

/// The status of an RPC reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RpcStatus {
    /// MSG_ACCEPTED, SUCCESS.
    Success,
    /// MSG_ACCEPTED, GARBAGE_ARGS.
    GarbageArgs,
    /// MSG_ACCEPTED with another status.
    Refused,
    /// MSG_DENIED.
    Denied,
    /// The Payload stream cannot be read.
    Unreadable,
}

impl RpcStatus {
    /// Returns its name in a scenario's file.
    pub const fn name(self) -> &'static str {
        match self {
            RpcStatus::Success => "success",
            RpcStatus::GarbageArgs => "garbage-args",
            RpcStatus::Refused => "refused",
            RpcStatus::Denied => "denied",
            RpcStatus::Unreadable => "unreadable",
        }
    }

    const fn of(status: Option<&Status>) -> RpcStatus {
        match status {
            None => RpcStatus::Unreadable,
            Some(Status::Success) => RpcStatus::Success,
            Some(Status::GarbageArguments) => RpcStatus::GarbageArgs,
            Some(Status::RpcMismatch { .. } | Status::AuthError(_) | Status::UnknownDenied(_)) => {
                RpcStatus::Denied
            }
            Some(_) => RpcStatus::Refused,
        }
    }
}

/// See [`Pattern::Error`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ErrorPattern {
    /// `vers`, `chunk` or a number.
    pub code: Option<MessageError>,
    /// Whether the range of an ERR_VERS includes version 1.
    pub has_version_1: Option<bool>,
    /// Whether rdma_vers is that of the message that it answers.
    pub same_version: Option<bool>,
}

/// The code of a NAK (IBTA volume 1, table 48).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// 0.
    PsnSequence,
    /// 1.
    InvalidRequest,
    /// 2.
    RemoteAccess,
    /// 3.
    RemoteOperational,
}

impl Code {
    const fn is(self, code: NakCode) -> bool {
        matches!(
            (self, code),
            (Code::PsnSequence, NakCode::PsnSequenceError)
                | (Code::InvalidRequest, NakCode::InvalidRequest)
                | (Code::RemoteAccess, NakCode::RemoteAccessError)
                | (Code::RemoteOperational, NakCode::RemoteOperationalError)
        )
    }
}

/// See [`Pattern::Closed`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ClosedPattern {
    /// How the connection was lost.
    pub how: Option<How>,
}

/// See [`Pattern::Rejected`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct RejectedPattern {
    /// The reason (IBTA volume 1, section 12.6.7.2): 8 no such service, 28 rejected by the
    /// consumer.
    pub reason: Option<u16>,
}

/// See [`Pattern::Connected`]. Fields other than `present` require valid private data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ConnectedPattern {
    /// Whether a Format Identifier is present.
    pub present: Option<bool>,
    /// Whether the private data are complete and of version 1.
    pub valid: Option<bool>,
    /// Whether the Reserved bits are clear.
    pub reserved_clear: Option<bool>,
}

fn is<T: PartialEq>(wanted: Option<T>, seen: T) -> bool {
    wanted.is_none_or(|wanted| wanted == seen)
}

impl ReplyPattern {
    fn matches(&self, seen: &ReplySeen) -> bool {
        // An unused chunk counts as returned too.
        let chunks = |wanted: Option<ReplyChunks>, seen: ReplyChunks| match wanted {
            Some(ReplyChunks::Returned) => matches!(seen, ReplyChunks::Unused | ReplyChunks::Used),
            wanted => is(wanted, seen),
        };
        is(self.status, RpcStatus::of(seen.status.as_ref()))
            && self.credits_from.is_none_or(|from| seen.credits >= from)
            && self.credits_to.is_none_or(|to| seen.credits <= to)
            && is(self.long, seen.long)
            && is(self.read_chunk, seen.read_chunk)
            && self.length_from.is_none_or(|from| seen.length >= from)
            && is(self.invalidated, seen.invalidated)
            && chunks(self.writes, seen.writes)
            && chunks(self.reply_chunk, seen.reply_chunk)
            && is(self.retransmitted, seen.retransmitted)
    }
}

impl CallbackPattern {
    fn matches(&self, seen: &CallbackSeen) -> bool {
        is(self.same_version, seen.same_version)
            && is(self.same_xid, seen.same_xid)
            && is(self.chunks, seen.chunks)
            && self.credits_from.is_none_or(|from| seen.credits >= from)
    }
}

impl ErrorPattern {
    fn matches(&self, error: &Error, same_version: Option<bool>) -> bool {
        let code = self.code.is_none_or(|code| match (code, error) {
            (MessageError::Named(NamedError::Vers) | MessageError::Number(1), Error::Version { .. })
            | (MessageError::Named(NamedError::Chunk) | MessageError::Number(2), Error::Chunk) => true,
            (MessageError::Number(wanted), Error::Unknown(number)) => wanted == *number,
            _ => false,
        });
        let holds = matches!(error, Error::Version { low, high } if (*low..=*high).contains(&1));
        code && is(self.has_version_1, holds)
            && self.same_version.is_none_or(|wanted| same_version == Some(wanted))
    }
}

impl ConnectedPattern {
    fn matches(&self, seen: &PrivateDataSeen) -> bool {
        let valid = match seen {
            PrivateDataSeen::Valid(data) => Some(data),
            _ => None,
        };
        is(self.present, *seen != PrivateDataSeen::Absent)
            && is(self.valid, valid.is_some())
            && self.reserved_clear.is_none_or(|clear| valid.is_some_and(|data| (data.reserved == 0) == clear))
    }
}

impl Pattern {
    /// Returns whether it requires a reply in a Read chunk of the target.
    pub(super) fn is_read_chunk(&self) -> bool {
        matches!(self, Pattern::Reply(ReplyPattern { read_chunk: Some(true), .. }))
    }

    /// Returns whether it matches the observed reaction.
    pub fn matches(&self, observed: &Observed) -> bool {
        match (self, observed) {
            (Pattern::Silence, Observed::Silence)
            | (Pattern::Again, Observed::Again)
            | (Pattern::Done, Observed::Done)
            | (Pattern::Message, Observed::Message(_))
            | (Pattern::Completed, Observed::Completed)
            | (Pattern::DisconnectAnswered, Observed::DisconnectAnswered)
            | (Pattern::DisconnectUnanswered, Observed::DisconnectUnanswered) => true,
            (Pattern::Reply(pattern), Observed::Reply(seen)) => pattern.matches(seen),
            (Pattern::Callback(pattern), Observed::Callback(seen)) => pattern.matches(seen),
            (Pattern::Call(pattern), Observed::Call { again }) => is(pattern.again, *again),
            (Pattern::Error(pattern), Observed::Error { error, same_version, .. }) => {
                pattern.matches(error, *same_version)
            }
            (Pattern::Nak(code), Observed::Nak(seen) | Observed::Closed(How::Refused, Some(seen))) => {
                code.is(*seen)
            }
            (Pattern::Closed(pattern), Observed::Closed(how, _)) => is(pattern.how, *how),
            (Pattern::Rejected(pattern), Observed::Rejected(reason)) => is(pattern.reason, *reason),
            (Pattern::Connected(pattern), Observed::Connected(seen)) => pattern.matches(seen),
            _ => false,
        }
    }
}

fn fields(f: &mut fmt::Formatter<'_>, fields: &[Option<String>]) -> fmt::Result {
    fields.iter().flatten().try_for_each(|field| write!(f, " {field}"))
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pattern::Silence => f.write_str("silence"),
            Pattern::Again => f.write_str("a second answer to one XID"),
            Pattern::Call(CallPattern { again: None }) => f.write_str("a call"),
            Pattern::Call(CallPattern { again: Some(false) }) => f.write_str("the next call"),
            Pattern::Call(CallPattern { again: Some(true) }) => f.write_str("the same call again"),
            Pattern::Done => f.write_str("RDMA_DONE"),
            Pattern::Message => f.write_str("an unrelated message"),
            Pattern::Completed => f.write_str("the RDMA operation is executed"),
            Pattern::DisconnectAnswered => f.write_str("DREP"),
            Pattern::DisconnectUnanswered => f.write_str("no DREP"),
            Pattern::Nak(code) => f.write_str(match code {
                Code::PsnSequence => "NAK PSN sequence error",
                Code::InvalidRequest => "NAK invalid request",
                Code::RemoteAccess => "NAK remote access error",
                Code::RemoteOperational => "NAK remote operational error",
            }),
            Pattern::Closed(ClosedPattern { how: None }) => f.write_str("connection closed"),
            Pattern::Closed(ClosedPattern { how: Some(how) }) => write!(f, "connection closed: {how}"),
            Pattern::Rejected(RejectedPattern { reason: None }) => f.write_str("REJ"),
            Pattern::Rejected(RejectedPattern { reason: Some(reason) }) => write!(f, "REJ {reason}"),
            Pattern::Connected(pattern) => {
                f.write_str("connected")?;
                let no = |wanted: Option<bool>, name| {
                    wanted.map(|wanted| format!("{}{name}", if wanted { "" } else { "no " }))
                };
                fields(
                    f,
                    &[
                        no(pattern.present, "private data"),
                        no(pattern.valid, "valid private data"),
                        no(pattern.reserved_clear, "clear Reserved bits"),
                    ],
                )
            }
            Pattern::Error(pattern) => {
                f.write_str(match pattern.code {
                    None => "RDMA_ERROR",
                    Some(MessageError::Named(NamedError::Vers)) => "ERR_VERS",
                    Some(MessageError::Named(NamedError::Chunk)) => "ERR_CHUNK",
                    Some(MessageError::Number(_)) => "RDMA_ERROR of a number",
                })?;
                let range = |wanted| {
                    if wanted { "with version 1 in its range" } else { "without version 1 in its range" }
                };
                let same =
                    |wanted| if wanted { "with the call's rdma_vers" } else { "with another rdma_vers" };
                fields(
                    f,
                    &[
                        pattern.has_version_1.map(|wanted| range(wanted).to_string()),
                        pattern.same_version.map(|wanted| same(wanted).to_string()),
                    ],
                )
            }
            Pattern::Callback(pattern) => {
                f.write_str("a backward call")?;
                let of = |wanted: Option<bool>, texts: [&str; 2]| {
                    wanted.map(|wanted| texts[usize::from(!wanted)].to_string())
                };
                fields(
                    f,
                    &[
                        of(pattern.same_version, ["with our rdma_vers", "with another rdma_vers"]),
                        of(pattern.same_xid, ["with one XID", "with another XID in the RPC call"]),
                        of(pattern.chunks, ["with chunks", "without chunks"]),
                        pattern.credits_from.map(|credits| format!("credits from {credits}")),
                    ],
                )
            }
            Pattern::Reply(pattern) => {
                f.write_str("reply")?;
                let with = |wanted: Option<bool>, feature: &str| {
                    wanted.map(|wanted| format!("{}{feature}", if wanted { "" } else { "not " }))
                };
                fields(
                    f,
                    &[
                        pattern.status.map(|status| status.name().to_string()),
                        pattern.credits_from.map(|credits| format!("credits from {credits}")),
                        pattern.credits_to.map(|credits| format!("credits to {credits}")),
                        with(pattern.long, "in the Reply chunk"),
                        with(pattern.read_chunk, "in a Read chunk"),
                        pattern.length_from.map(|length| format!("inline from {length} bytes")),
                        with(pattern.invalidated, "with invalidate"),
                        pattern.writes.map(|chunks| format!("Write list {}", chunks.name())),
                        pattern.reply_chunk.map(|chunks| format!("Reply chunk {}", chunks.name())),
                        with(pattern.retransmitted, "after a retransmission"),
                    ],
                )
            }
        }
    }
}
