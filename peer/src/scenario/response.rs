//! The vocabulary of a responder's steps. docs/scenarios.md describes it for those who write scenarios.

use super::step::{ErrorFields, Fraction, Procedure};
use alloc::string::String;
use alloc::vec::Vec;
use serde::Deserialize;

/// Which end of the connection a scenario plays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// It calls a server.
    #[default]
    Requester,
    /// It answers a client.
    Responder,
}

/// Which call of the client a scenario is about. See [`Step::Call`](super::Step::Call).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Awaited {
    /// The procedure of NFSv3, in lower case. Where it is not said, any call.
    pub procedure: Option<String>,
    /// The right reply returns a chunk of this kind, with segments.
    pub chunk: Option<ReplyChunk>,
    /// The right reply is an RDMA_NOMSG, or not.
    pub long: Option<bool>,
    /// Of those, the first ones answered rightly.
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

/// Where a reply has an XID that nobody asked with.
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

/// What the SEND of a reply invalidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Invalidated {
    /// A handle that the client never offered.
    Unknown,
    /// A handle that an earlier call of the client on this connection offered.
    Earlier,
}

/// How chunks come back, other than they should.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Returned {
    /// Each segment has another handle than it was offered with.
    pub other_handle: bool,
    /// Each segment has the length that it was offered with, and so many bytes more.
    pub longer: Option<u32>,
    /// So many segments of each chunk are left out, from its last one on.
    pub without: usize,
    /// The last segment of each chunk comes so many times more.
    pub more: usize,
    /// There is none of them at all.
    pub absent: bool,
}

/// A Read chunk of the Responder. See [`Response::read_chunk`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ReadChunk {
    /// Its Position.
    pub position: u32,
    /// Bytes of each segment; all in one where it is not said. The last segment for which the inline
    /// threshold has room takes the rest.
    pub bytes_each: Option<u32>,
    /// It is one segment without bytes.
    pub empty: bool,
    /// The Payload stream is after the header, too, in an RDMA_MSG.
    pub beside_message: bool,
}

/// A reply, right but for what is said. See [`Step::Reply`](super::Step::Reply).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Response {
    /// Where it has an XID that nobody asked with.
    pub xid: Option<OtherXid>,
    /// rdma_vers.
    pub vers: Option<u32>,
    /// rdma_credit.
    pub credits: Option<u32>,
    /// rdma_proc.
    pub proc: Option<Procedure>,
    /// The error of an RDMA_ERROR.
    pub error: Option<ErrorFields>,
    /// So many entries in its Read list, which is empty in replies.
    pub reads: usize,
    /// The Payload stream is in a Read chunk.
    pub read_chunk: Option<ReadChunk>,
    /// The Write list.
    pub writes: Returned,
    /// The Reply chunk.
    pub reply_chunk: Returned,
    /// Nothing stands behind the header.
    pub without_payload: bool,
    /// Changes to the message.
    pub patch: Vec<Fraction>,
    /// Bytes of the message that are sent.
    pub truncate: Option<usize>,
    /// Hex digits that are put behind it.
    pub append: Option<String>,
    /// Zeros are put behind it up to this length.
    pub pad_to: Option<usize>,
    /// What the SEND invalidates.
    pub invalidate: Option<Invalidated>,
    /// How often it is sent.
    pub times: Option<u32>,
}

impl Response {
    /// Whether it is the right one.
    pub fn is_right(&self) -> bool {
        *self == Response::default()
    }

    /// Whether header and XID say that it is the reply, or an error in its place.
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

/// RDMA WRITE behind the memory that the call offers for a chunk. See [`Step::WriteBeyond`](super::Step::WriteBeyond).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct WriteBeyond {
    /// The chunk.
    pub chunk: ReplyChunk,
    /// Zeros to be written, from the end of its last segment on.
    pub length: u32,
}
