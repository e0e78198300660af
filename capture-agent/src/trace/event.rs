//! The known trace events and their relevant fields.

use super::fields::{Fields, hex};
use super::line::LineError;

/// An RPC task of sunrpc and its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Task {
    /// Number of the task.
    pub task: i64,
    /// Number of the RPC client.
    pub client: i64,
}

/// A completion queue and a completion ID. Together they identify a message from its receipt or
/// post to its release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Completion {
    /// Number of the completion queue. Each connection of svcrdma and xprtrdma has its own.
    pub queue: u32,
    /// Number of the context in that queue. Numbers are reused.
    pub id: i32,
}

/// A segment of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Segment {
    /// Bytes.
    pub length: u32,
    /// Offset.
    pub offset: u64,
    /// Handle.
    pub handle: u32,
}

/// The chunk list of a segment in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChunkKind {
    /// The Read list, at this Position.
    Read(u32),
    /// The Write list.
    Write,
    /// The Reply chunk.
    Reply,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// `xprt_reserve`: an RPC got an XID and a slot.
    Reserve {
        /// The task.
        task: Task,
        /// Its XID.
        xid: u32,
    },
    /// `xprtrdma_chunk_read`, `_write`, `_wp`, `_reply`: a segment is added to the call that is
    /// being marshalled.
    ChunkSegment {
        /// The task.
        task: Task,
        /// The list.
        kind: ChunkKind,
        /// The segment.
        segment: Segment,
    },
    /// `xprtrdma_marshal`: a call is marshalled.
    Marshal {
        /// The task.
        task: Task,
        /// Its XID.
        xid: u32,
        /// Length of the RPC-over-RDMA header in bytes.
        header_length: u32,
        /// Lengths in bytes of the parts of the RPC message: head, pages, tail.
        message: [u32; 3],
    },
    /// `xprtrdma_post_send`: a call is posted to the device.
    PostSend {
        /// The task.
        task: Task,
    },
    /// `xprtrdma_wc_receive`: the device has received a message.
    WcReceive {
        /// Length of the message in bytes; `None` if the receive failed.
        received: Option<u32>,
    },
    /// `xprtrdma_reply`: a reply is matched with its call.
    Reply {
        /// The task.
        task: Task,
        /// Its XID.
        xid: u32,
        /// Credits granted.
        credits: u32,
    },
    /// `xprtrdma_err_chunk`, `_vers`, `_unrecognized`: the reply is an RDMA_ERROR.
    ReplyError {
        /// The task.
        task: Task,
        /// Its XID.
        xid: u32,
    },
    /// `xprtrdma_cb_call`: a callback was received.
    CallbackCall {
        /// Address of the server.
        peer: &'a str,
        /// Its XID.
        xid: u32,
    },
    /// `xprtrdma_cb_reply`: a callback is being answered.
    CallbackReply {
        /// Address of the server.
        peer: &'a str,
        /// Its XID.
        xid: u32,
    },
    /// `rpc_stats_latency`: an RPC of a client has ended.
    RpcLatency {
        /// Its XID.
        xid: u32,
        /// Name of the program with its version, for example `nfsv3`.
        program: &'a str,
        /// Name of the procedure, for example `READ`.
        procedure: &'a str,
        /// Microseconds since its task began.
        execute: Option<u64>,
    },
    /// `svcrdma_wc_recv`, before Linux 5.18 `svcrdma_wc_receive`: the device has received a
    /// message.
    SvcReceive {
        /// The completion.
        completion: Completion,
        /// Length of the message in bytes; `None` if the receive failed, or before Linux 5.13.
        received: Option<u32>,
    },
    /// `svcrdma_decode_rseg`, `svcrdma_decode_wseg`: a segment was found in a received message.
    DecodeSegment {
        /// The received message.
        completion: Completion,
        /// Position of a Read list segment; `None` for a segment of a Write chunk or the Reply
        /// chunk.
        position: Option<u32>,
        /// The segment.
        segment: Segment,
    },
    /// `svcrdma_decode_rqst`: a thread decodes the header of a received message.
    Decode {
        /// The received message.
        completion: Completion,
        /// Its XID.
        xid: u32,
        /// rdma_credit.
        credits: u32,
        /// Length of the RPC-over-RDMA header in bytes.
        header_length: u32,
    },
    /// `svcrdma_read_finished`: a thread continues a call after its RDMA Reads.
    ReadFinished {
        /// The received message.
        completion: Completion,
    },
    /// `svc_process`: a thread starts to process a call.
    Process {
        /// Its XID.
        xid: u32,
        /// Name of the service, for example `nfsd`.
        service: &'a str,
        /// Version of its program.
        version: u32,
        /// The procedure, by name since Linux 5.10.
        procedure: &'a str,
    },
    /// `svcrdma_encode_wseg`: a segment is returned in a reply, with the length written.
    EncodeSegment {
        /// The segment.
        segment: Segment,
    },
    /// `svcrdma_post_send`: a reply is posted to the device.
    SvcPostSend,
    /// A mark written by `rdmascope capture --kernel`. Every second mark repeats the number of the
    /// one before and adds the time of day around it.
    Mark {
        /// Number of the mark.
        number: u64,
        /// The time of day before and after the mark with this number, in nanoseconds.
        realtime: Option<(i64, i64)>,
    },
    /// Another event with the prefix `xprtrdma_` or `svcrdma_`.
    Other,
    /// An unknown event.
    Unknown,
}

/// Parses the fields of the event `name`.
pub(super) fn read<'a>(name: &str, fields: Fields<'a>) -> Result<Event<'a>, LineError> {
    // Requires a field.
    macro_rules! need {
        ($event:literal, $field:literal, $value:expr) => {
            $value.ok_or(LineError::Field { event: $event, field: $field })?
        };
    }
    Ok(match name {
        "xprt_reserve" => Event::Reserve {
            task: need!("xprt_reserve", "task:", fields.task()),
            xid: need!("xprt_reserve", "xid=", fields.xid()),
        },
        "xprtrdma_chunk_read" => Event::ChunkSegment {
            task: need!("xprtrdma_chunk_read", "task:", fields.task()),
            kind: ChunkKind::Read(need!("xprtrdma_chunk_read", "pos=", fields.number("pos="))),
            segment: need!("xprtrdma_chunk_read", "length@offset:handle", fields.segment()),
        },
        "xprtrdma_chunk_write" | "xprtrdma_chunk_wp" => Event::ChunkSegment {
            task: need!("xprtrdma_chunk_write", "task:", fields.task()),
            kind: ChunkKind::Write,
            segment: need!("xprtrdma_chunk_write", "length@offset:handle", fields.segment()),
        },
        "xprtrdma_chunk_reply" => Event::ChunkSegment {
            task: need!("xprtrdma_chunk_reply", "task:", fields.task()),
            kind: ChunkKind::Reply,
            segment: need!("xprtrdma_chunk_reply", "length@offset:handle", fields.segment()),
        },
        "xprtrdma_marshal" => Event::Marshal {
            task: need!("xprtrdma_marshal", "task:", fields.task()),
            xid: need!("xprtrdma_marshal", "xid=", fields.xid()),
            header_length: need!("xprtrdma_marshal", "hdr=", fields.number("hdr=")),
            message: need!("xprtrdma_marshal", "xdr=", message(fields)),
        },
        "xprtrdma_post_send" => Event::PostSend { task: need!("xprtrdma_post_send", "task:", fields.task()) },
        "xprtrdma_wc_receive" => Event::WcReceive { received: received(fields) },
        "xprtrdma_reply" => Event::Reply {
            task: need!("xprtrdma_reply", "task:", fields.task()),
            xid: need!("xprtrdma_reply", "xid=", fields.xid()),
            credits: need!("xprtrdma_reply", "credits=", credits(fields)),
        },
        "xprtrdma_err_chunk" | "xprtrdma_err_vers" | "xprtrdma_err_unrecognized" => Event::ReplyError {
            task: need!("xprtrdma_err_*", "task:", fields.task()),
            xid: need!("xprtrdma_err_*", "xid=", fields.xid()),
        },
        "xprtrdma_cb_call" => Event::CallbackCall {
            peer: fields.peer().unwrap_or(""),
            xid: need!("xprtrdma_cb_call", "xid=", fields.xid()),
        },
        "xprtrdma_cb_reply" => Event::CallbackReply {
            peer: fields.peer().unwrap_or(""),
            xid: need!("xprtrdma_cb_reply", "xid=", fields.xid()),
        },
        "rpc_stats_latency" => latency(fields)
            .ok_or(LineError::Field { event: "rpc_stats_latency", field: "xid= program procedure" })?,
        "svcrdma_wc_recv" | "svcrdma_wc_receive" => Event::SvcReceive {
            completion: need!("svcrdma_wc_recv", "cq.id= cid=", fields.completion()),
            received: received(fields),
        },
        "svcrdma_decode_rseg" => Event::DecodeSegment {
            completion: need!("svcrdma_decode_rseg", "cq.id= cid=", fields.completion()),
            position: Some(need!("svcrdma_decode_rseg", "position=", fields.number("position="))),
            segment: need!("svcrdma_decode_rseg", "length@offset:handle", fields.segment()),
        },
        "svcrdma_decode_wseg" => Event::DecodeSegment {
            completion: need!("svcrdma_decode_wseg", "cq.id= cid=", fields.completion()),
            position: None,
            segment: need!("svcrdma_decode_wseg", "length@offset:handle", fields.segment()),
        },
        "svcrdma_decode_rqst" => Event::Decode {
            completion: need!("svcrdma_decode_rqst", "cq.id= cid=", fields.completion()),
            xid: need!("svcrdma_decode_rqst", "xid=", fields.xid()),
            credits: need!("svcrdma_decode_rqst", "credits=", fields.number("credits=")),
            header_length: need!("svcrdma_decode_rqst", "hdrlen=", fields.number("hdrlen=")),
        },
        "svcrdma_read_finished" => Event::ReadFinished {
            completion: need!("svcrdma_read_finished", "cq.id= cid=", fields.completion()),
        },
        "svc_process" => Event::Process {
            xid: need!("svc_process", "xid=", fields.xid()),
            service: need!("svc_process", "service=", fields.word("service=")),
            version: need!("svc_process", "vers=", fields.number("vers=")),
            procedure: need!("svc_process", "proc=", fields.word("proc=")),
        },
        "svcrdma_encode_wseg" => Event::EncodeSegment {
            segment: need!("svcrdma_encode_wseg", "length@offset:handle", fields.segment()),
        },
        "svcrdma_post_send" => Event::SvcPostSend,
        "tracing_mark_write" => mark(fields).unwrap_or(Event::Unknown),
        _ if name.starts_with("xprtrdma_") || name.starts_with("svcrdma_") => Event::Other,
        _ => Event::Unknown,
    })
}

/// `rdmascope-mark=3 realtime=1795253808015464000..1795253808015466000`.
fn mark(fields: Fields<'_>) -> Option<Event<'static>> {
    let number = fields.number("rdmascope-mark=")?;
    let realtime = fields.word("realtime=").and_then(|times| {
        let (before, after) = times.split_once("..")?;
        Some((before.parse().ok()?, after.parse().ok()?))
    });
    Some(Event::Mark { number, realtime })
}

/// `xdr=108/262144/0`.
fn message(fields: Fields<'_>) -> Option<[u32; 3]> {
    let mut parts = fields.word("xdr=")?.split('/').map(|part| part.parse().ok());
    let message = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(message)
}

/// Parses `credits=64`, or `64 credits` before Linux 5.15.
fn credits(fields: Fields<'_>) -> Option<u32> {
    fields.number("credits=").or_else(|| {
        let mut words = fields.0.split_ascii_whitespace().peekable();
        while let Some(word) = words.next() {
            if words.peek().is_some_and(|next| next.trim_end_matches(',') == "credits") {
                return word.parse().ok();
            }
        }
        None
    })
}

/// Parses `status=SUCCESS (0/0x0) received=128`. No status means success.
fn received(fields: Fields<'_>) -> Option<u32> {
    let failed = fields.word("status=").is_some_and(|status| status != "SUCCESS");
    fields.number("received=").filter(|_| !failed)
}

/// `task:00000001@00000005 xid=0x0c396a62 nfsv3 READ backlog=…`.
fn latency(fields: Fields<'_>) -> Option<Event<'_>> {
    let mut words = fields.0.split_ascii_whitespace().skip_while(|word| !word.starts_with("xid="));
    let xid = u32::try_from(hex(words.next()?.strip_prefix("xid=")?)?).ok()?;
    let (program, procedure) = (words.next()?, words.next()?);
    (!program.contains('=') && !procedure.contains('=')).then_some(Event::RpcLatency {
        xid,
        program,
        procedure,
        execute: fields.word("execute=").and_then(|execute| execute.parse().ok()),
    })
}
