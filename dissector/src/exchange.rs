//! Steps and contents of a transaction, which the engine keeps on request.

use crate::connection::FlowKey;
use crate::interval::Intervals;
use crate::rdma::Position;
use crate::transaction::{Part, Seen};
use alloc::vec::Vec;

/// The details to keep of each transaction; none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// [`Exchange::steps`].
    pub steps: bool,
    /// [`Exchange::contents`].
    pub contents: bool,
}

/// The details kept of a transaction. All are bounded: excess steps are counted, and excess bytes
/// are absent from [`Content::captured`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// The Sends and RDMA operations of the transaction, in the order in which their first packets
    /// were delivered.
    pub steps: Vec<Step>,
    /// Steps beyond [`Exchange::MOST_STEPS`].
    pub steps_left_out: u64,
    /// The bytes of the Sends and chunks, those of the call before those of the reply, in the order
    /// of [`Part`]. Parts without captured bytes are omitted.
    pub contents: Vec<Content>,
    /// The half-flows of the caller and of the other end. `None` for an end without packets in the
    /// capture.
    pub flows: [Option<FlowKey>; 2],
}

/// A Send or an RDMA operation: packets of one sender with consecutive positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The kind of step.
    pub kind: StepKind,
    /// Whether the caller of the transaction sent it; otherwise the other end did.
    pub from_caller: bool,
    /// Its first packet in the capture.
    pub first: Seen,
    /// Its last packet in the capture.
    pub last: Seen,
    /// The position of its first packet. READ responses use positions of the end that sent the
    /// request (IBTA volume 1, section 9.7.5.1.9).
    pub position: Position,
    /// The number of positions that it covers, including packets missing from the capture.
    pub extent: u32,
    /// Whether `part` belongs to the reply; otherwise to the call.
    pub of_reply: bool,
    /// The part of the message that it moved a piece of.
    pub part: Part,
    /// The first byte of that piece in the part.
    pub offset: u64,
    /// The length of the piece in bytes; for a READ request, the number of bytes requested.
    pub length: u64,
}

/// The kind of a [`Step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StepKind {
    /// The Send of the call.
    Call,
    /// An RDMA READ request. Its responses are a separate step.
    ReadRequest,
    /// The responses to one RDMA READ request.
    ReadResponse,
    /// An RDMA WRITE.
    Write,
    /// The Send of the reply, or of the RDMA_ERROR that replaces it.
    Reply,
    /// RDMA_DONE. It belongs to the reply that it concludes.
    Done,
}

/// The bytes of a Send or of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// Whether it belongs to the reply; otherwise to the call. A chunk that the call offers and the
    /// reply returns belongs to the reply.
    pub of_reply: bool,
    /// The part. [`Part::Send`] begins with the RPC-over-RDMA header.
    pub part: Part,
    /// Its bytes up to the last captured one. The used bytes of the segments of a chunk are
    /// concatenated. Missing bytes are 0.
    pub bytes: Vec<u8>,
    /// The ranges that the capture has.
    pub captured: Intervals,
}

impl Step {
    /// Whether it covers this position.
    pub fn covers(&self, position: Position) -> bool {
        u32::try_from(self.position.distance(position)).is_ok_and(|index| index < self.extent)
    }
}

impl Content {
    /// Creates a part without missing bytes.
    pub fn complete(of_reply: bool, part: Part, bytes: Vec<u8>) -> Content {
        let mut captured = Intervals::default();
        captured.insert(0, bytes.len() as u64);
        Content { of_reply, part, bytes, captured }
    }
}

impl Exchange {
    /// Maximum number of steps kept of one transaction.
    pub const MOST_STEPS: usize = 4096;
    /// Maximum number of bytes kept of one part of a message.
    pub const LONGEST_CONTENT: u64 = 64 << 20;
    /// Maximum number of bytes kept of all open transactions together.
    pub const MOST_CONTENTS: usize = 256 << 20;

    /// The contents of one part of the call or of the reply.
    pub fn content(&self, of_reply: bool, part: Part) -> Option<&Content> {
        let key = |content: &Content| (content.of_reply, content.part);
        let index = self.contents.binary_search_by_key(&(of_reply, part), key).ok()?;
        self.contents.get(index)
    }
}
