//! The conveyance of messages (RFC 8166, section 3.5): inline, reduced by chunks, or as a whole in
//! a chunk.

use rdmascope_dissector::transaction::{Chunk, Message, Transaction};
use rdmascope_wire::rpcrdma::Procedure;

/// A way of conveying a call or a reply, or a related fact about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The call is in its Send.
    InlineCall,
    /// Read chunks carry the DDP-eligible items of the call.
    ReadChunk,
    /// The call is in a Position Zero Read chunk.
    LongCall,
    /// The call is in a Position Zero Read chunk, except for items in other Read chunks.
    ReducedLongCall,
    /// The reply is in its Send.
    InlineReply,
    /// Write chunks carry the DDP-eligible items of the reply.
    WriteChunk,
    /// The reply is in the Reply chunk.
    LongReply,
    /// The reply is in the Reply chunk, except for items in Write chunks.
    ReducedLongReply,
    /// The reply is in a Read chunk of the responder, which the requester pulls (reliable-reply
    /// draft, section 4.1).
    ResponderProvided,
    /// An RDMA_ERROR replaces the reply.
    Error,
    /// The call offered Write chunks, and the reply used none.
    UnusedWriteChunk,
    /// The call offered a Reply chunk, and the reply did not use it.
    UnusedReplyChunk,
    /// The reply's Send invalidated a handle.
    RemoteInvalidation,
}

impl Way {
    /// All ways, each with its name in machine-readable output and its name for people.
    pub(super) const ALL: [(Way, &str, &str); 13] = [
        (Way::InlineCall, "inline-call", "call inline"),
        (Way::ReadChunk, "read-chunk", "call with Read chunk"),
        (Way::LongCall, "long-call", "Long Call"),
        (Way::ReducedLongCall, "reduced-long-call", "Long Call with Read chunk"),
        (Way::InlineReply, "inline-reply", "reply inline"),
        (Way::WriteChunk, "write-chunk", "reply by Write chunk"),
        (Way::LongReply, "long-reply", "Long Reply"),
        (Way::ReducedLongReply, "reduced-long-reply", "Long Reply with Write chunk"),
        (Way::ResponderProvided, "responder-provided", "reply in a Read chunk of the responder"),
        (Way::Error, "rdma-error", "RDMA_ERROR"),
        (Way::UnusedWriteChunk, "unused-write-chunk", "Write chunk offered, not used"),
        (Way::UnusedReplyChunk, "unused-reply-chunk", "Reply chunk offered, not used"),
        (Way::RemoteInvalidation, "remote-invalidation", "reply with remote invalidation"),
    ];

    fn of_call(call: &Message) -> Way {
        let reduced = call.read_chunks.iter().any(|chunk| chunk.position != 0);
        match (call.procedure == Procedure::Nomsg, reduced) {
            (false, false) => Way::InlineCall,
            (false, true) => Way::ReadChunk,
            (true, false) => Way::LongCall,
            (true, true) => Way::ReducedLongCall,
        }
    }

    fn of_reply(reply: &Message) -> Way {
        let reduced = reply.write_chunks.iter().any(is_used);
        match (reply.procedure, reduced) {
            (Procedure::Error, _) => Way::Error,
            (Procedure::Nomsg, _) if !reply.read_chunks.is_empty() => Way::ResponderProvided,
            (Procedure::Nomsg, false) => Way::LongReply,
            (Procedure::Nomsg, true) => Way::ReducedLongReply,
            (_, false) => Way::InlineReply,
            (_, true) => Way::WriteChunk,
        }
    }
}

/// Whether anything was written to a chunk that a reply returns.
fn is_used(chunk: &Chunk) -> bool {
    chunk.segments.iter().any(|segment| segment.length > 0)
}

/// The conveyance of the messages of one operation.
#[derive(Debug, Default)]
pub(super) struct Conveyance {
    /// Calls captured.
    pub(super) calls: u64,
    /// Replies captured.
    pub(super) replies: u64,
    ways: [u64; Way::ALL.len()],
    /// The numbers of chunks and of their segments, by [`ChunkKind`].
    chunks: [[u64; 2]; ChunkKind::ALL.len()],
}

/// The kinds of chunks that a call offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkKind {
    Read,
    Write,
    Reply,
}

impl ChunkKind {
    pub(super) const ALL: [ChunkKind; 3] = [ChunkKind::Read, ChunkKind::Write, ChunkKind::Reply];

    /// The names of the figure for its segments, in machine-readable output and for people.
    pub(super) const fn segments(self) -> (&'static str, &'static str) {
        match self {
            ChunkKind::Read => ("read-chunk-segments", "segments per Read chunk"),
            ChunkKind::Write => ("write-chunk-segments", "segments per Write chunk"),
            ChunkKind::Reply => ("reply-chunk-segments", "segments per Reply chunk"),
        }
    }
}

impl Conveyance {
    /// Adds a transaction.
    pub(super) fn count(&mut self, transaction: &Transaction) {
        let (call, reply) = (transaction.call.as_ref(), transaction.reply.as_ref());
        if let Some(call) = call {
            self.calls += 1;
            self.add(Way::of_call(call));
            let reads = call.read_chunks.iter().map(|chunk| chunk.segments.len());
            reads.for_each(|segments| self.add_chunk(ChunkKind::Read, segments));
            let writes = call.write_chunks.iter().map(|chunk| chunk.segments.len());
            writes.for_each(|segments| self.add_chunk(ChunkKind::Write, segments));
            if let Some(chunk) = &call.reply_chunk {
                self.add_chunk(ChunkKind::Reply, chunk.segments.len());
            }
        }
        if let Some(reply) = reply {
            self.replies += 1;
            self.add(Way::of_reply(reply));
            if reply.invalidated.is_some() {
                self.add(Way::RemoteInvalidation);
            }
        }
        if let (Some(call), Some(reply)) = (call, reply) {
            if !call.write_chunks.is_empty() && !reply.write_chunks.iter().any(is_used) {
                self.add(Way::UnusedWriteChunk);
            }
            if call.reply_chunk.is_some() && !reply.reply_chunk.as_ref().is_some_and(is_used) {
                self.add(Way::UnusedReplyChunk);
            }
        }
    }

    fn add(&mut self, way: Way) {
        self.ways[way as usize] += 1;
    }

    fn add_chunk(&mut self, kind: ChunkKind, segments: usize) {
        let [chunks, sum] = &mut self.chunks[kind as usize];
        *chunks += 1;
        *sum += segments as u64;
    }

    /// The number of messages that were conveyed this way, and of those that could have been.
    pub(super) fn way(&self, way: Way) -> (u64, u64) {
        let of = match way {
            Way::InlineCall | Way::ReadChunk | Way::LongCall | Way::ReducedLongCall => self.calls,
            _ => self.replies,
        };
        (self.ways[way as usize], of)
    }

    /// The mean number of segments in a chunk; `None` if there are no chunks.
    pub(super) fn segments(&self, kind: ChunkKind) -> Option<f64> {
        let [chunks, segments] = self.chunks[kind as usize];
        (chunks > 0).then(|| segments as f64 / chunks as f64)
    }
}

#[cfg(test)]
mod tests;
