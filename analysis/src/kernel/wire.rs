//! The facts of the captured transactions that a trace may contain too.

use crate::report::Key;
use foldhash::fast::FixedState;
use rdmascope_capture_agent::trace::Segment;
use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::{Chunk, Direction, Message, Transaction};
use rdmascope_wire::rpcrdma;
use std::collections::HashMap;

/// A transaction of the capture.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) connection: u32,
    pub(super) backward: bool,
    pub(super) xid: u32,
    /// The index of its operation in [`Wires::names`].
    pub(super) operation: u32,
    /// Whether the reply is an RDMA_ERROR.
    pub(super) has_error: bool,
    pub(super) call: Option<Shown>,
    pub(super) reply: Option<Shown>,
}

impl Wire {
    /// The time of its call, or else of its reply.
    pub(super) fn began(&self) -> Option<Time> {
        self.call.as_ref().or(self.reply.as_ref()).map(|message| message.span.0)
    }
}

/// A message according to its packets.
#[derive(Debug)]
pub(super) struct Shown {
    /// The packet that completes its Send.
    pub(super) frame: u64,
    /// The times of the first and the last packet of its Send.
    pub(super) span: (Time, Time),
    /// Whether the capture contains the whole message, and it was decoded.
    pub(super) is_complete: bool,
    pub(super) header_length: u32,
    pub(super) send_length: u32,
    pub(super) message_length: Option<u64>,
    pub(super) credits: u32,
    pub(super) reads: Vec<(u32, Segment)>,
    pub(super) write_chunks: usize,
    /// The segments of all Write chunks.
    pub(super) writes: Vec<Segment>,
    pub(super) has_reply_chunk: bool,
    pub(super) reply_chunk: Vec<Segment>,
}

impl Shown {
    fn new(message: &Message) -> Shown {
        let segments = |chunk: &Chunk| chunk.segments.iter().map(segment).collect::<Vec<_>>();
        let reads = message.read_chunks.iter();
        Shown {
            frame: message.seen.frame,
            span: (message.first.time, message.seen.time),
            is_complete: message.stop.is_none() && message.missing.is_empty(),
            header_length: message.header_length,
            send_length: message.send_length,
            message_length: message.message_length,
            credits: message.credits,
            reads: reads
                .flat_map(|chunk| chunk.segments.iter().map(|one| (chunk.position, segment(one))))
                .collect(),
            write_chunks: message.write_chunks.len(),
            writes: message.write_chunks.iter().flat_map(segments).collect(),
            has_reply_chunk: message.reply_chunk.is_some(),
            reply_chunk: message.reply_chunk.as_ref().map(segments).unwrap_or_default(),
        }
    }
}

fn segment(one: &rpcrdma::Segment) -> Segment {
    Segment { length: one.length, offset: one.offset, handle: one.handle.0 }
}

/// The transactions of a capture.
#[derive(Debug, Default)]
pub(super) struct Wires {
    pub(super) all: Vec<Wire>,
    operations: Vec<Key>,
    numbers: HashMap<Key, u32, FixedState>,
    /// Transactions beyond [`Wires::MOST`].
    pub(super) beyond: u64,
}

impl Wires {
    /// The most transactions that are kept.
    const MOST: usize = 1 << 19;
    /// The most operations that are distinguished. All further ones count as the last one.
    const MOST_OPERATIONS: usize = 256;

    /// Adds a transaction.
    pub(super) fn add(&mut self, transaction: &Transaction) {
        if self.all.len() >= Wires::MOST {
            self.beyond += 1;
            return;
        }
        let operation = self.operation(Key::of(transaction));
        self.all.push(Wire {
            connection: transaction.connection.0,
            backward: transaction.direction == Direction::Backward,
            xid: transaction.xid.0,
            operation,
            has_error: transaction.error.is_some(),
            call: transaction.call.as_ref().map(Shown::new),
            reply: transaction.reply.as_ref().map(Shown::new),
        });
    }

    fn operation(&mut self, key: Key) -> u32 {
        if let Some(number) = self.numbers.get(&key) {
            return *number;
        }
        let last = Wires::MOST_OPERATIONS - 1;
        if self.operations.len() > last {
            return last as u32;
        }
        let number = self.operations.len() as u32;
        self.operations.push(key);
        self.numbers.insert(key, number);
        number
    }

    /// The names of the operations: `NFSv3 READ`.
    pub(super) fn names(&self) -> Vec<String> {
        self.operations.iter().map(Key::to_string).collect()
    }
}
