//! The reactions of a target.

#[cfg(test)]
mod tests;

use crate::rc::Failure;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use rdmascope_wire::bth::NakCode;
use rdmascope_wire::private_data;
use rdmascope_wire::rpc::Status;
use rdmascope_wire::rpcrdma::Error;
use serde::Deserialize;

/// The default inline threshold in bytes (RFC 8166, section 3.3.2). The output shows the length of
/// longer messages.
const DEFAULT_THRESHOLD: usize = 1024;

/// How a connection was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// The target sent a DREQ.
    Disconnected,
    /// The target refused a request with a NAK.
    Refused,
    /// The target's RDMA READ or WRITE was refused: a Remote Access Error (RFC 8166, section
    /// 4.5.3).
    Access,
    /// The target stopped acknowledging.
    Unanswered,
    /// The target had no posted Receive, despite all retries.
    NoReceive,
}

impl How {
    /// Returns how a failed queue pair was lost, with the code of the NAK. `None`: it was closed.
    pub(super) const fn of(failure: &Failure) -> Option<(How, Option<NakCode>)> {
        Some(match failure {
            Failure::Refused(code) => (How::Refused, Some(*code)),
            Failure::RefusedRequest(_) => (How::Access, None),
            Failure::RetriesExceeded => (How::Unanswered, None),
            Failure::RnrRetriesExceeded => (How::NoReceive, None),
            Failure::BadResponse => (How::Refused, None),
            Failure::Flushed => return None,
        })
    }
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            How::Disconnected => "DREQ",
            How::Refused => "NAK",
            How::Access => "its RDMA operation was refused",
            How::Unanswered => "nothing acknowledged",
            How::NoReceive => "no Receive",
        })
    }
}

/// The Write list or Reply chunk of a reply, compared with the call (RFC 8166, sections 3.4.6 and
/// 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplyChunks {
    /// The call had chunks, and the reply has none.
    Missing,
    /// The same number of chunks and segments as in the call. Used in patterns only.
    Returned,
    /// The same number, and all lengths are zero.
    Unused,
    /// The same number, and some length is not zero.
    Used,
    /// Another number of chunks or segments.
    Different,
}

impl ReplyChunks {
    /// Returns its name in a scenario's file.
    pub const fn name(self) -> &'static str {
        match self {
            ReplyChunks::Missing => "missing",
            ReplyChunks::Returned => "returned",
            ReplyChunks::Unused => "unused",
            ReplyChunks::Used => "used",
            ReplyChunks::Different => "different",
        }
    }
}

/// A reply to a call of the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplySeen {
    /// The RPC status; `None` if the Payload stream is unreadable.
    pub status: Option<Status>,
    /// rdma_credit.
    pub credits: u32,
    /// Whether it is an RDMA_NOMSG without a Read chunk.
    pub long: bool,
    /// Whether it is an RDMA_NOMSG with a Position Zero Read chunk (reliable-reply draft, section
    /// 4.1).
    pub read_chunk: bool,
    /// Bytes of the SEND.
    pub length: usize,
    /// Whether the SEND invalidated a handle.
    pub invalidated: bool,
    /// The Write list.
    pub writes: ReplyChunks,
    /// The Reply chunk.
    pub reply_chunk: ReplyChunks,
    /// Whether this side had retransmitted before it.
    pub retransmitted: bool,
}

/// The RPC-over-RDMA private data of a REP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrivateDataSeen {
    /// Absent.
    Absent,
    /// Present but invalid.
    Invalid,
    /// Present and valid.
    Valid(private_data::PrivateData),
}

/// A call in the backward direction (RFC 8167, section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallbackSeen {
    /// Whether its rdma_vers is that of forward calls.
    pub same_version: bool,
    /// Whether header and RPC call have the same XID.
    pub same_xid: bool,
    /// Whether it has a Read list, a Write list or a Reply chunk.
    pub chunks: bool,
    /// rdma_credit.
    pub credits: u32,
}

/// A reaction of the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observed {
    /// Nothing within the time.
    Silence,
    /// A reply.
    Reply(ReplySeen),
    /// An RDMA_ERROR with an XID of the scenario.
    Error {
        /// The error.
        error: Error,
        /// Whether its rdma_vers is that of the message with this XID; `None` if that message was
        /// sent without one.
        same_version: Option<bool>,
        /// rdma_credit.
        credits: u32,
    },
    /// A second reply or error with the same XID.
    Again,
    /// A call of the target in the backward direction (RFC 8167).
    Callback(CallbackSeen),
    /// A call of a client that is served.
    Call {
        /// Whether it has the XID of the scenario's call.
        again: bool,
    },
    /// RDMA_DONE with the XID of the scenario's call.
    Done,
    /// Any other message: with another XID, or unreadable.
    Message(String),
    /// A NAK that does not end the connection.
    Nak(NakCode),
    /// The connection is lost, with the code of the NAK if a request was refused.
    Closed(How, Option<NakCode>),
    /// A REJ with its reason.
    Rejected(u16),
    /// The connection is established, with the private data of the REP.
    Connected(PrivateDataSeen),
    /// An RDMA READ or WRITE of this side was executed.
    Completed,
    /// A DREP answered the DREQ of this side.
    DisconnectAnswered,
    /// No DREP answered it.
    DisconnectUnanswered,
}

impl Observed {
    /// Returns whether it ends the connection.
    pub const fn is_end(&self) -> bool {
        matches!(
            self,
            Observed::Closed(..)
                | Observed::Rejected(_)
                | Observed::DisconnectAnswered
                | Observed::DisconnectUnanswered
        )
    }
}

fn status(status: &Status) -> String {
    match status {
        Status::Success => "SUCCESS".to_string(),
        Status::ProgramUnavailable => "PROG_UNAVAIL".to_string(),
        Status::ProgramMismatch { low, high } => format!("PROG_MISMATCH {low} to {high}"),
        Status::ProcedureUnavailable => "PROC_UNAVAIL".to_string(),
        Status::GarbageArguments => "GARBAGE_ARGS".to_string(),
        Status::SystemError => "SYSTEM_ERR".to_string(),
        Status::UnknownAccepted(number) => format!("accepted with status {number}"),
        Status::RpcMismatch { low, high } => format!("RPC_MISMATCH {low} to {high}"),
        Status::AuthError(number) => format!("AUTH_ERROR {number}"),
        Status::UnknownDenied(number) => format!("denied with status {number}"),
    }
}

impl fmt::Display for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Observed::Silence => f.write_str("nothing"),
            Observed::Reply(reply) => {
                match &reply.status {
                    // The scenario has not read it.
                    None if reply.read_chunk => f.write_str("reply in a Read chunk")?,
                    None => f.write_str("unreadable reply")?,
                    Some(seen) => write!(f, "reply {}", status(seen))?,
                }
                if reply.length > DEFAULT_THRESHOLD {
                    write!(f, " of {} bytes", reply.length)?;
                }
                write!(f, ", credits {}", reply.credits)?;
                let long = if reply.long { ", in the Reply chunk" } else { "" };
                let invalidated = if reply.invalidated { ", with invalidate" } else { "" };
                f.write_str(long)?;
                f.write_str(invalidated)?;
                if reply.writes != ReplyChunks::Unused {
                    write!(f, ", Write list {}", reply.writes.name())?;
                }
                // A long reply always uses the Reply chunk.
                let long_and_used = reply.long && reply.reply_chunk == ReplyChunks::Used;
                if reply.reply_chunk != ReplyChunks::Unused && !long_and_used {
                    write!(f, ", Reply chunk {}", reply.reply_chunk.name())?;
                }
                Ok(())
            }
            Observed::Error { error, same_version, credits } => {
                write!(f, "RDMA_ERROR {error}, credits {credits}")?;
                f.write_str(if *same_version == Some(false) { ", another rdma_vers" } else { "" })
            }
            Observed::Again => f.write_str("a second answer to one XID"),
            Observed::Callback(seen) => {
                write!(f, "a backward call, credits {}", seen.credits)?;
                let notes = [
                    (!seen.same_version, ", another rdma_vers"),
                    (!seen.same_xid, ", another XID in the RPC call"),
                    (seen.chunks, ", with chunks"),
                ];
                notes.iter().filter(|note| note.0).try_for_each(|note| f.write_str(note.1))
            }
            Observed::Call { again: false } => f.write_str("the next call"),
            Observed::Call { again: true } => f.write_str("the same call again"),
            Observed::Done => f.write_str("RDMA_DONE"),
            Observed::Message(description) => f.write_str(description),
            Observed::Nak(code) => write!(f, "NAK {code}"),
            Observed::Closed(_, Some(code)) => write!(f, "connection closed: NAK {code}"),
            Observed::Closed(how, None) => write!(f, "connection closed: {how}"),
            Observed::Rejected(reason) => write!(f, "REJ {reason}"),
            Observed::Connected(PrivateDataSeen::Absent) => f.write_str("connected, no private data"),
            Observed::Connected(PrivateDataSeen::Invalid) => f.write_str("connected, invalid private data"),
            Observed::Connected(PrivateDataSeen::Valid(data)) => write!(
                f,
                "connected, version {} R {} reserved {} sizes {}/{}",
                data.version,
                u8::from(data.remote_invalidation),
                data.reserved,
                data.send_bytes(),
                data.receive_bytes()
            ),
            Observed::Completed => f.write_str("the RDMA operation was executed"),
            Observed::DisconnectAnswered => f.write_str("DREP"),
            Observed::DisconnectUnanswered => f.write_str("no DREP"),
        }
    }
}
