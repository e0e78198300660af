//! The vocabulary of a responder's steps. docs/scenarios.md describes it for authors of scenarios.

use super::step::{ErrorFields, Fraction, Procedure};
use alloc::string::String;
use alloc::vec::Vec;
use serde::Deserialize;

/// The end of the connection that a scenario plays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The scenario calls a server.
    #[default]
    Requester,
    /// The scenario answers a client.
    Responder,
}

/// The call of the client that a scenario acts on. See [`Step::Call`](super::Step::Call).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Awaited {
    /// The NFSv3 procedure in lower case; by default any call.
    pub procedure: Option<String>,
    /// The correct reply returns a chunk of this kind, with segments.
    pub chunk: Option<ReplyChunk>,
    /// Whether the correct reply is an RDMA_NOMSG.
    pub long: Option<bool>,
    /// Number of matching calls to answer correctly first.
    pub skip: u32,
}

/// A chunk that a reply returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplyChunk {
    /// A Write chunk.
    Write,
    /// The Reply chunk.
    Reply,
}

/// The place of an XID that belongs to no outstanding call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OtherXid {
    /// In the header and in the RPC reply.
    Both,
    /// In the header only.
    Header,
    /// In the RPC reply only.
    Payload,
}

/// The handle that the SEND of a reply invalidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Invalidated {
    /// A handle that the client never advertised.
    Unknown,
    /// A handle from an earlier call of the client on this connection.
    Earlier,
}

/// Errors in the returned chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Returned {
    /// Each segment gets a handle other than the one in the call.
    pub other_handle: bool,
    /// Each segment gets the length in the call plus this many bytes.
    pub longer: Option<u32>,
    /// Number of segments omitted at the end of each chunk.
    pub without: usize,
    /// Number of extra copies of the last segment of each chunk.
    pub more: usize,
    /// Whether all chunks are omitted.
    pub absent: bool,
}

/// A Read chunk of the Responder. See [`Response::read_chunk`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ReadChunk {
    /// Its Position.
    pub position: u32,
    /// Bytes in each segment; by default one segment holds all. The last segment that fits the
    /// inline threshold holds the rest.
    pub bytes_each: Option<u32>,
    /// Whether it is one segment of zero bytes.
    pub empty: bool,
    /// Whether the Payload stream also follows the header, in an RDMA_MSG.
    pub beside_message: bool,
}

/// A reply, correct except for the given fields. See [`Step::Reply`](super::Step::Reply).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Response {
    /// The place of an XID that belongs to no outstanding call.
    pub xid: Option<OtherXid>,
    /// rdma_vers.
    pub vers: Option<u32>,
    /// rdma_credit.
    pub credits: Option<u32>,
    /// rdma_proc.
    pub proc: Option<Procedure>,
    /// The error of an RDMA_ERROR.
    pub error: Option<ErrorFields>,
    /// Number of entries in its Read list, which is empty in correct replies.
    pub reads: usize,
    /// Conveys the Payload stream in a Read chunk.
    pub read_chunk: Option<ReadChunk>,
    /// The Write list.
    pub writes: Returned,
    /// The Reply chunk.
    pub reply_chunk: Returned,
    /// Whether the Payload stream is omitted.
    pub without_payload: bool,
    /// Replacements in the message.
    pub patch: Vec<Fraction>,
    /// Number of bytes of the message that are sent.
    pub truncate: Option<usize>,
    /// Hex digits appended to the message.
    pub append: Option<String>,
    /// Length up to which zeros are appended.
    pub pad_to: Option<usize>,
    /// The handle that the SEND invalidates.
    pub invalidate: Option<Invalidated>,
    /// How often the reply is sent.
    pub times: Option<u32>,
}

impl Response {
    /// Returns whether it is the correct reply.
    pub fn is_right(&self) -> bool {
        *self == Response::default()
    }

    /// Returns whether header and XID make it the reply to the call, or an error in its place.
    pub(super) fn completes(&self) -> bool {
        let Response { xid, vers, proc, truncate, patch, read_chunk, .. } = self;
        let is_error = self.error.is_some();
        xid.is_none()
            && vers.is_none()
            && (proc.is_none() || is_error)
            && truncate.is_none()
            && read_chunk.is_none()
            && patch.is_empty()
    }
}

/// RDMA WRITE past the end of a chunk's memory. See
/// [`Step::WriteBeyond`](super::Step::WriteBeyond).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct WriteBeyond {
    /// The chunk.
    pub chunk: ReplyChunk,
    /// Number of zeros to write from the end of the last segment on.
    pub length: u32,
}
