//! RPC transactions as the engine reports them: plain data.

use crate::connection::{ConnectionId, Route};
use crate::exchange::Exchange;
use crate::interval::Intervals;
pub use crate::record::Seen;
use crate::record::{REORDERING, Time};
use crate::reuse::clone_in_place;
use crate::ulb::{Details, Procedure, Text};
use alloc::boxed::Box;
use alloc::vec::Vec;
use rdmascope_wire::rpc::GssProcedure;
use rdmascope_wire::rpcrdma::{self, Segment};
use rdmascope_wire::{Rkey, Stop, Xid, rpc};

/// The direction of a transaction on its connection (RFC 8167, section 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the end that opened the connection.
    Forward,
    /// From the end that accepted the connection.
    Backward,
}

/// The outcome of a transaction, as far as the capture shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The capture has the call and the reply.
    Completed,
    /// No reply was seen before the connection ended or the XID was reused, or before the capture
    /// ended long after the call.
    NoReply,
    /// A reply to a call that was not captured.
    NoCall,
    /// The responder answered RDMA_ERROR.
    TransportError,
    /// The capture ended while the call was outstanding, no longer after the call than
    /// [`Transaction::PATIENCE`] or the longest latency of its connection.
    CutOff,
}

/// An RPC call and its reply.
#[derive(Debug)]
pub struct Transaction {
    /// Its number in the order of reports, from 1.
    pub number: u64,
    /// Its number in the order in which transactions began, from 1. It also identifies an open
    /// transaction.
    pub begun: u64,
    /// The connection.
    pub connection: ConnectionId,
    /// The caller's host and the called host. `None` while it is open.
    pub route: Option<Route>,
    /// Its direction.
    pub direction: Direction,
    /// rdma_xid.
    pub xid: Xid,
    /// The procedure. `None` if the capture has too little of the call.
    pub procedure: Option<Procedure>,
    /// The authentication of the call.
    pub security: Option<Security>,
    /// The user of an AUTH_SYS credential. `None` for other flavors and unreadable credentials.
    pub user: Option<User>,
    /// The RPCSEC_GSS context and sequence number of the call. `None` for other flavors.
    pub gss: Option<GssCall>,
    /// Its outcome.
    pub outcome: Outcome,
    /// Whether packets are missing from the capture that may contain the parts that this
    /// transaction lacks.
    pub capture_gap: bool,
    /// Whether the capture has no RDMA operation of its connection, because its messages come from
    /// the kernel's transport ([`Origin::Snoop`](crate::connection::Origin::Snoop)). If bytes of
    /// chunks are missing for this reason, [`Transaction::capture_gap`] is set too.
    pub memory_unseen: bool,
    /// Whether any packet of the connection is missing between the call and the end of the
    /// transaction. Set only if [`crate::engine::Config::observe`] is.
    pub lossy: bool,
    /// The call.
    pub call: Option<Message>,
    /// The reply, or the RDMA_ERROR that replaced it.
    pub reply: Option<Message>,
    /// The RPC status of the reply.
    pub rpc_status: Option<rpc::Status>,
    /// The error of an RDMA_ERROR.
    pub error: Option<rpcrdma::Error>,
    /// The status of the procedure as a whole: nfsstat3, or the status of a COMPOUND.
    pub status: Option<u32>,
    /// The operations.
    pub details: Details,
    /// The place where parsing of the arguments or results stopped, or else the first word with a
    /// value that its definition does not allow.
    pub stop: Option<Stop>,
    /// The times of its parts.
    pub timing: Timing,
    /// For a call without a reply: the time up to which the capture shows that no reply came. `None`
    /// if there is a reply, or if the capture may lack it.
    pub unanswered_until: Option<Time>,
    /// Whether its times cannot be compared, because the clock stepped back while it was open, or
    /// because its packets have no time stamps.
    pub clock_stepped: bool,
    /// The RDMA_DONE by which the requester reported that it had pulled a responder-provided Read
    /// chunk (reliable-reply draft, section 4.1.3).
    pub done: Option<Seen>,
    /// Its steps and contents, if [`crate::engine::Config::keep`] requests them.
    pub exchange: Option<Box<Exchange>>,
}

clone_in_place!(Transaction {
    number,
    begun,
    connection,
    route,
    direction,
    xid,
    procedure,
    security,
    user,
    gss,
    outcome,
    capture_gap,
    memory_unseen,
    lossy,
    call,
    reply,
    rpc_status,
    error,
    status,
    details,
    stop,
    timing,
    unanswered_until,
    clock_stepped,
    done,
    exchange
});

impl Transaction {
    /// The age in nanoseconds up to which a call may be outstanding at the end of a capture, even if
    /// its connection has had faster replies only.
    pub const PATIENCE: u64 = 1_000_000_000;

    /// The call and the reply, as far as they were seen.
    #[inline]
    pub fn messages(&self) -> impl Iterator<Item = &Message> + Clone {
        self.call.iter().chain(&self.reply)
    }

    /// Whether the reply has an earlier time than the call by more than [`REORDERING`].
    pub(crate) fn is_answered_earlier(&self) -> bool {
        let (Some(call), Some(reply)) = (&self.call, &self.reply) else { return false };
        call.first.time.since(reply.seen.time) > REORDERING.0
    }

    /// Nanoseconds from the packet that completed the call's Send to the one that completed the
    /// reply's. `None` without one of them, or if the clock stepped between them.
    pub fn latency(&self) -> Option<u64> {
        if self.clock_stepped {
            return None;
        }
        Some(self.reply.as_ref()?.seen.time.since(self.call.as_ref()?.seen.time))
    }

    /// Nanoseconds that the caller waited: the latency, or, without a reply, the least time that the
    /// call waited for one. `None` if the capture does not show it.
    pub fn waited(&self) -> Option<u64> {
        self.latency().or_else(|| Some(self.unanswered_until?.since(self.call.as_ref()?.seen.time)))
    }
}

/// An open transaction, as far as the records so far show it.
#[derive(Clone, Copy, Debug)]
pub struct OpenTransaction<'a> {
    /// [`Transaction::begun`], unchanged when the transaction ends.
    pub begun: u64,
    /// The connection.
    pub connection: ConnectionId,
    /// Its direction, as known so far.
    pub direction: Direction,
    /// rdma_xid.
    pub xid: Xid,
    /// The packet that completed its first Send.
    pub since: Seen,
    /// The procedure. `None` while it is in a chunk that is not complete.
    pub procedure: Option<Procedure>,
    /// The call.
    pub call: Option<&'a Message>,
    /// The reply, if the requester has yet to pull a Read chunk of it.
    pub reply: Option<&'a Message>,
    /// The operations parsed so far.
    pub details: &'a Details,
    /// The times and byte counts of its RDMA operations so far.
    pub timing: Timing,
    pub(crate) segments: &'a [Placed],
}

/// A segment, and the parts of it that have moved.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) part: Part,
    /// Advertised by the reply, not the call.
    pub(crate) of_reply: bool,
    pub(crate) segment: Segment,
    /// Bytes of the chunk before this segment.
    pub(crate) base: u64,
    /// Whether it holds a Payload stream, which must be parsed.
    pub(crate) is_stream: bool,
    /// Ranges that RDMA Read requests asked for.
    pub(crate) requested: Intervals,
    /// Ranges that moved.
    pub(crate) moved: Intervals,
    /// The moved ranges that the capture has; kept for streams only.
    pub(crate) captured: Intervals,
}

/// The progress of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The chunk.
    pub part: Part,
    /// Whether the reply advertised it; otherwise the call did.
    pub of_reply: bool,
    /// Bytes of memory advertised.
    pub advertised: u64,
    /// Bytes moved, without repetitions.
    pub moved: u64,
}

impl OpenTransaction<'_> {
    /// The advertised chunks, those of the call first, in the order of [`Part`].
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

/// The authentication of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Security {
    /// AUTH_NONE.
    None,
    /// AUTH_SYS.
    Sys,
    /// RPCSEC_GSS with authentication only (krb5), or with protection by the channel below it (RFC
    /// 5403, section 3.4): arguments and results are in the clear.
    Gss,
    /// RPCSEC_GSS with integrity (krb5i).
    GssIntegrity,
    /// RPCSEC_GSS with privacy (krb5p): arguments and results are encrypted.
    GssPrivacy,
    /// RPCSEC_GSS, establishing, binding or destroying a context.
    GssControl(GssProcedure),
    /// RPCSEC_GSS with an unknown gss_proc or service, or with a credential that was not captured or
    /// cannot be parsed.
    GssUnknown,
    /// Another flavor.
    Other(u32),
}

/// The contents of an AUTH_SYS credential (RFC 5531, appendix A). They are unverified claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// machinename: the name that the host gives itself. [`Details::bytes`] has its bytes.
    pub machine: Text,
    /// uid.
    pub uid: u32,
    /// gid.
    pub gid: u32,
}

/// The context and sequence number of an RPCSEC_GSS call (RFC 2203, section 5.3.1), or the window
/// that a reply grants for a new context (section 5.2.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GssCall {
    /// A hash of the context handle, from the call or from a reply that established the context.
    pub context: u64,
    /// seq_num. `None` for a call that establishes a context.
    pub sequence: Option<u32>,
    /// seq_window, from the reply.
    pub window: Option<u32>,
}

/// One RPC-over-RDMA message: a Send with the contents of its chunks.
#[derive(Debug, PartialEq, Eq)]
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
    /// Bytes of the whole Send, with its header.
    pub send_length: u32,
    /// Bytes of the RPC message before reduction, with the padding of reduced items. `None` if the
    /// capture does not show it.
    pub message_length: Option<u64>,
    /// The XID of the RPC message, which should equal rdma_xid (RFC 8166, section 4.2.1). `None` if
    /// it could not be read.
    pub rpc_xid: Option<Xid>,
    /// The R_Key that the Send invalidated.
    pub invalidated: Option<Rkey>,
    /// Read chunks in the order of the Read list. Segments with the same Position form one chunk.
    pub read_chunks: Vec<ReadChunk>,
    /// Whether segments with the same Position are not adjacent in the Read list.
    pub interleaved: bool,
    /// Write chunks in the order of the Write list.
    pub write_chunks: Vec<Chunk>,
    /// The Reply chunk.
    pub reply_chunk: Option<Chunk>,
    /// The parts of the message that the capture lacks.
    pub missing: Vec<Missing>,
    /// The place where parsing of the RPC-over-RDMA or RPC header stopped.
    pub stop: Option<Stop>,
    /// The place where parsing of the RPC message stopped, or else the first word with a value that
    /// its definition does not allow.
    pub unread: Option<Stop>,
    /// Bytes of the RPC message after complete arguments or results, or after a status without
    /// results. 0 if RPCSEC_GSS protects the message, or if the procedure is unknown.
    pub unused: u32,
    /// A credential or verifier that RFC 5531 does not allow.
    pub auth_fault: Option<AuthFault>,
}

/// A credential or verifier that RFC 5531 does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthFault {
    /// The body of the credential has this number of bytes, more than 400 (section 8.2).
    LongCredential(u32),
    /// The body of the verifier has this number of bytes, more than 400 (section 8.2).
    LongVerifier(u32),
    /// The AUTH_SYS credential has this number of groups, more than 16 (appendix A).
    Groups(u32),
    /// The machine name in the AUTH_SYS credential has this number of bytes, more than 255 (appendix
    /// A).
    MachineName(u32),
}

clone_in_place!(Message {
    seen,
    first,
    version,
    procedure,
    credits,
    header_length,
    send_length,
    message_length,
    rpc_xid,
    invalidated,
    read_chunks,
    interleaved,
    write_chunks,
    reply_chunk,
    missing,
    stop,
    unread,
    unused,
    auth_fault
});

/// A Read chunk: the read segments with one Position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadChunk {
    /// Byte offset in the unreduced Payload stream; 0 for a Position Zero Read chunk.
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

/// The part of a message that a byte range belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The Send itself, from the first byte of the RPC-over-RDMA header.
    Send,
    /// The Read chunk with this index in [`Message::read_chunks`].
    ReadChunk(u16),
    /// The Write chunk with this index in [`Message::write_chunks`].
    WriteChunk(u16),
    /// The Reply chunk.
    ReplyChunk,
}

/// A byte range that is missing from the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The part of the message.
    pub part: Part,
    /// The first byte.
    pub start: u64,
    /// The byte after the last. `None` if the length of the part is unknown.
    pub end: Option<u64>,
}

/// The times of the parts of a transaction. Spans run from the first captured packet to the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// The first packet that acknowledges the Send of the call: an ACK, or a response to a later
    /// request. One ACK may acknowledge several Sends, so the call arrived no later than this
    /// packet was sent. `None` if none was seen before the transaction ended.
    pub acknowledged: Option<Seen>,
    /// Nanoseconds of the shortest round trip from the capture point to the end that replies, on the
    /// connection until then. 0 if unknown.
    pub round_trip: u64,
    /// Whether that end may wait before it acknowledges, as TCP does.
    pub acknowledges_late: bool,
    /// First RDMA Read request and last RDMA Read response.
    pub reads: Option<(Time, Time)>,
    /// First and last packet of the RDMA Writes.
    pub writes: Option<(Time, Time)>,
    /// Nanoseconds after the ACK of the call, or after the call if no ACK was seen, and before the
    /// first RDMA operation or else the reply, in which data of the responder was in flight or data
    /// of the requester had to be sent again. Then the responder may have worked, or have waited.
    pub busy_before: u64,
    /// The same between RDMA Reads and RDMA Writes, and after them until the reply. If Reads and
    /// Writes alternate, it contains some of their time.
    pub busy_after: u64,
    /// Bytes of Read chunks that RDMA Read requests asked for, without repetitions.
    pub requested_bytes: u64,
    /// Bytes moved by RDMA Read, without repetitions.
    pub read_bytes: u64,
    /// Bytes moved by RDMA Write, without repetitions.
    pub written_bytes: u64,
}

impl Timing {
    /// Whether RDMA operations were seen.
    #[inline]
    pub(crate) fn moved(&self) -> bool {
        self.reads.is_some() || self.writes.is_some()
    }

    /// Counts busy time before the next RDMA operation or the reply.
    pub(crate) fn note_busy(&mut self, time: u64) {
        let sum = if self.moved() { &mut self.busy_after } else { &mut self.busy_before };
        *sum = sum.saturating_add(time);
    }
}
