//! RPC transactions as the engine reports them: plain data.

use crate::connection::{ConnectionId, Route};
use crate::exchange::Exchange;
use crate::interval::Intervals;
pub use crate::record::Seen;
use crate::record::Time;
use crate::ulb::{Details, Procedure, Text};
use alloc::boxed::Box;
use alloc::vec::Vec;
use rdmascope_wire::rpcrdma::{self, Segment};
use rdmascope_wire::{Rkey, Stop, Xid, rpc};

/// Which way a transaction runs on its connection (RFC 8167, section 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The side that opened the connection calls.
    Forward,
    /// The side that accepted the connection calls.
    Backward,
}

/// How a transaction ended, as far as the capture shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Call and reply are both there.
    Completed,
    /// The connection ended, or the XID was used again, and no reply was seen.
    NoReply,
    /// A reply to a call that was not captured.
    NoCall,
    /// The responder answered with RDMA_ERROR.
    TransportError,
    /// The capture ended while the call was outstanding.
    CutOff,
}

/// An RPC call and its reply.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// Number in the order in which transactions are reported, from 1.
    pub number: u64,
    /// Number in the order in which transactions began, from 1: what names it while it is open, too.
    pub begun: u64,
    /// The connection.
    pub connection: ConnectionId,
    /// From the end that calls to the one that answers; `None` while it is open.
    pub route: Option<Route>,
    /// Which way it runs.
    pub direction: Direction,
    /// rdma_xid.
    pub xid: Xid,
    /// What is called; `None` where no call was captured, or not enough of it.
    pub procedure: Option<Procedure>,
    /// How the call was authenticated.
    pub security: Option<Security>,
    /// For whom an AUTH_SYS credential speaks; `None` of another flavor, and of a credential that could not be read.
    pub user: Option<User>,
    /// Which RPCSEC_GSS context the call is of, and its sequence number there; `None` of another flavor.
    pub gss: Option<GssCall>,
    /// How it ended.
    pub outcome: Outcome,
    /// Whether packets are missing from the capture that could have held what this transaction lacks.
    pub capture_gap: bool,
    /// Whether the capture lacks any packet of the connection between the call and the end of this transaction. Set only if
    /// [`crate::engine::Config::observe`] is.
    pub lossy: bool,
    /// The call.
    pub call: Option<Message>,
    /// The reply, or the RDMA_ERROR in its place.
    pub reply: Option<Message>,
    /// What the reply says at the RPC level.
    pub rpc_status: Option<rpc::Status>,
    /// The error of an RDMA_ERROR.
    pub error: Option<rpcrdma::Error>,
    /// The status of the procedure as a whole: nfsstat3, or the status of a COMPOUND.
    pub status: Option<u32>,
    /// The operations.
    pub details: Details,
    /// Where the arguments or the results could not be read further.
    pub stop: Option<Stop>,
    /// When its parts were on the wire.
    pub timing: Timing,
    /// RDMA_DONE: the requester has pulled a responder-provided Read chunk (reliable-reply draft, section 4.1.3).
    pub done: Option<Seen>,
    /// Its steps and contents, if [`crate::engine::Config::keep`] asks for them.
    pub exchange: Option<Box<Exchange>>,
}

impl Transaction {
    /// Nanoseconds from the packet that completed the call's Send to the one that completed the reply's.
    pub fn latency(&self) -> Option<u64> {
        Some(self.reply.as_ref()?.seen.time.since(self.call.as_ref()?.seen.time))
    }
}

/// A transaction that has begun and not ended, as far as the records up to now show it.
#[derive(Clone, Copy, Debug)]
pub struct OpenTransaction<'a> {
    /// [`Transaction::begun`], which it keeps when it ends.
    pub begun: u64,
    /// The connection.
    pub connection: ConnectionId,
    /// Which way it runs, as far as is known by now.
    pub direction: Direction,
    /// rdma_xid.
    pub xid: Xid,
    /// The packet that completed the Send with which it began.
    pub since: Seen,
    /// What is called; `None` where that stands in a chunk that has not been read to its end.
    pub procedure: Option<Procedure>,
    /// The call.
    pub call: Option<&'a Message>,
    /// The reply, where the requester has yet to pull a Read chunk of it.
    pub reply: Option<&'a Message>,
    /// The operations, as far as call and reply were read.
    pub details: &'a Details,
    /// When its RDMA operations were on the wire so far, and how many bytes they moved.
    pub timing: Timing,
    pub(crate) segments: &'a [Placed],
}

/// A segment, and what of it has moved.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) part: Part,
    /// Advertised by the reply, not the call.
    pub(crate) of_reply: bool,
    pub(crate) segment: Segment,
    /// Bytes of its chunk in front of it.
    pub(crate) base: u64,
    /// It holds a Payload stream, which has to be parsed.
    pub(crate) is_stream: bool,
    /// What RDMA Read requests asked for.
    pub(crate) asked: Intervals,
    /// What moved.
    pub(crate) moved: Intervals,
    /// What of that the capture holds; kept for streams only.
    pub(crate) captured: Intervals,
}

/// How much of a chunk has moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Which chunk.
    pub part: Part,
    /// Whether the reply advertised it; else the call did.
    pub of_reply: bool,
    /// Bytes of memory that were advertised.
    pub advertised: u64,
    /// Bytes that moved, without what was moved twice.
    pub moved: u64,
}

impl OpenTransaction<'_> {
    /// The chunks that were advertised, those of the call first, in the order of [`Part`].
    pub fn progress(&self) -> impl Iterator<Item = Progress> {
        let key = |placed: &Placed| (placed.of_reply, placed.part);
        self.segments.chunk_by(move |one, other| key(one) == key(other)).map(|segments| Progress {
            part: segments[0].part,
            of_reply: segments[0].of_reply,
            advertised: segments.iter().map(|placed| u64::from(placed.segment.length)).sum(),
            moved: segments.iter().map(|placed| placed.moved.length()).sum(),
        })
    }
}

/// How a call was authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Security {
    /// AUTH_NONE.
    None,
    /// AUTH_SYS.
    Sys,
    /// RPCSEC_GSS with authentication only (krb5).
    Gss,
    /// RPCSEC_GSS with integrity (krb5i).
    GssIntegrity,
    /// RPCSEC_GSS with privacy (krb5p): arguments and results are encrypted.
    GssPrivacy,
    /// RPCSEC_GSS establishing or destroying a context.
    GssControl,
    /// Another flavor.
    Other(u32),
}

/// What an AUTH_SYS credential claims (RFC 5531, appendix A). Nothing proves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// machinename: what the host calls itself. [`Details::bytes`] has its bytes.
    pub machine: Text,
    /// uid.
    pub uid: u32,
    /// gid.
    pub gid: u32,
}

/// The sequence number of a call that RPCSEC_GSS authenticates (RFC 2203, section 5.3.1), or the window that a reply grants a new context
/// (section 5.2.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GssCall {
    /// A hash of the context handle: that of the call, or of a context that the reply established.
    pub context: u64,
    /// seq_num; `None` of a call that establishes a context.
    pub sequence: Option<u32>,
    /// seq_window that the reply grants.
    pub window: Option<u32>,
}

/// One RPC-over-RDMA message: a Send with what its chunks moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The packet that completed the Send.
    pub seen: Seen,
    /// The first packet of the Send.
    pub first: Seen,
    /// rdma_vers.
    pub version: u32,
    /// rdma_proc.
    pub procedure: rpcrdma::Procedure,
    /// rdma_credit.
    pub credits: u32,
    /// Bytes of the RPC-over-RDMA header.
    pub header_length: u32,
    /// Bytes of the whole Send, header included.
    pub send_length: u32,
    /// Bytes of the RPC message before reduction, with the padding of reduced items; `None` where the capture does not tell.
    pub message_length: Option<u64>,
    /// The XID of the RPC message itself, which should equal rdma_xid (RFC 8166, section 4.2.1); `None` where it could not be read.
    pub rpc_xid: Option<Xid>,
    /// The R_Key that the Send invalidated.
    pub invalidated: Option<Rkey>,
    /// Read chunks in the order of the Read list, segments of one Position together.
    pub read_chunks: Vec<ReadChunk>,
    /// Segments of one Position do not stand together in the Read list.
    pub interleaved: bool,
    /// Write chunks in the order of the Write list.
    pub write_chunks: Vec<Chunk>,
    /// The Reply chunk.
    pub reply_chunk: Option<Chunk>,
    /// What of the message the capture does not hold.
    pub missing: Vec<Missing>,
    /// Where the RPC-over-RDMA or RPC header could not be read on.
    pub stop: Option<Stop>,
    /// Where the RPC message that it conveys could not be read on.
    pub unread: Option<Stop>,
    /// Bytes of the RPC message behind arguments or results that were read to their end, or behind a status without results; 0 where these are
    /// protected by RPCSEC_GSS, or of a procedure that is not known.
    pub unused: u32,
}

/// A Read chunk: the read segments that share a Position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadChunk {
    /// Byte offset in the unreduced Payload stream; 0: a Position Zero Read chunk.
    pub position: u32,
    /// Its segments.
    pub segments: Vec<Segment>,
}

/// A Write chunk or a Reply chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// Its segments.
    pub segments: Vec<Segment>,
}

/// Which part of a message a byte range is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The Send itself, from the first byte of the RPC-over-RDMA header.
    Send,
    /// The Read chunk of this index in [`Message::read_chunks`].
    ReadChunk(u16),
    /// The Write chunk of this index in [`Message::write_chunks`].
    WriteChunk(u16),
    /// The Reply chunk.
    ReplyChunk,
}

/// A byte range that should have moved, and whose packets the capture lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Of which part.
    pub part: Part,
    /// Its first byte.
    pub start: u64,
    /// The byte after its last; `None` where it is not known how long the part was.
    pub end: Option<u64>,
}

/// When the parts of a transaction were on the wire. Spans are of packets captured, first to last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// The first packet seen that acknowledges the Send of the call: an ACK, or a response to what was sent after it. One may acknowledge
    /// several Sends, so the call had arrived at the latest when this was sent. `None` where none was seen before the transaction ended.
    pub acknowledged: Option<Seen>,
    /// First RDMA Read request and last RDMA Read response.
    pub reads: Option<(Time, Time)>,
    /// First and last packet of the RDMA Writes.
    pub writes: Option<(Time, Time)>,
    /// Bytes of Read chunks that RDMA Read requests asked for, without what was asked for twice.
    pub asked_bytes: u64,
    /// Bytes moved by RDMA Read, without what was moved twice.
    pub read_bytes: u64,
    /// Bytes moved by RDMA Write, without what was moved twice.
    pub written_bytes: u64,
}
