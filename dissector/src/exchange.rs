//! Steps and contents of a transaction, which the engine keeps on request.

use crate::connection::FlowKey;
use crate::interval::Intervals;
use crate::rdma::Position;
use crate::transaction::{Part, Seen};
use alloc::vec::Vec;

/// What the engine is to keep of each transaction. Nothing, unless asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// [`Exchange::steps`].
    pub steps: bool,
    /// [`Exchange::contents`].
    pub contents: bool,
}

/// What was kept of a transaction. All of it is bounded; what did not fit is counted or left out of
/// [`Content::captured`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// The Sends and RDMA operations that the transaction consists of, in the order in which their first packets were delivered.
    pub steps: Vec<Step>,
    /// Steps beyond [`Exchange::MOST_STEPS`].
    pub steps_left_out: u64,
    /// The bytes of the Sends and chunks, those of the call before those of the reply, in the order of [`Part`]. What the
    /// capture holds nothing of is not listed.
    pub contents: Vec<Content>,
    /// What tells the packets of the caller from others, and those of the other end; `None` of an end whose packets are not in
    /// the capture.
    pub flows: [Option<FlowKey>; 2],
}

/// A Send or an RDMA operation: packets of one sender with consecutive positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it is.
    pub kind: StepKind,
    /// Whether the caller of the transaction sent it; else the other end did.
    pub from_caller: bool,
    /// Its first packet in the capture.
    pub first: Seen,
    /// Its last packet in the capture.
    pub last: Seen,
    /// Where its first packet stands. READ responses have positions among those of the end that asked (IBTA volume 1, section 9.7.5.1.9).
    pub position: Position,
    /// How many positions it takes up, with those of packets that the capture lacks.
    pub extent: u32,
    /// Whether `part` is one of the reply's message; else of the call's.
    pub of_reply: bool,
    /// What it moved a piece of.
    pub part: Part,
    /// The first byte of that piece in the part.
    pub offset: u64,
    /// Bytes of the piece; of a READ request, bytes asked for.
    pub length: u64,
}

/// What a [`Step`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StepKind {
    /// The Send of the call.
    Call,
    /// An RDMA READ request; its responses are a step of their own.
    ReadRequest,
    /// The responses to one RDMA READ request.
    ReadResponse,
    /// An RDMA WRITE.
    Write,
    /// The Send of the reply, or of the RDMA_ERROR in its place.
    Reply,
    /// RDMA_DONE, which stands with the reply that it concludes.
    Done,
}

/// The bytes of a Send or of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// Whether it is of the reply's message; else of the call's. A chunk that the call offers and the reply returns is the
    /// reply's.
    pub of_reply: bool,
    /// Which part: [`Part::Send`] begins with the RPC-over-RDMA header.
    pub part: Part,
    /// Its bytes up to the last that the capture holds, segments of a chunk one behind the other as far as each was used; 0 where
    /// the capture lacks them.
    pub bytes: Vec<u8>,
    /// Which of the bytes the capture holds.
    pub captured: Intervals,
}

impl Step {
    /// Whether it takes up this position.
    pub fn covers(&self, position: Position) -> bool {
        u32::try_from(self.position.distance(position)).is_ok_and(|index| index < self.extent)
    }
}

impl Content {
    /// Bytes of which none is missing.
    pub fn whole(of_reply: bool, part: Part, bytes: Vec<u8>) -> Content {
        let mut captured = Intervals::default();
        captured.insert(0, bytes.len() as u64);
        Content { of_reply, part, bytes, captured }
    }
}

impl Exchange {
    /// Steps kept of one transaction.
    pub const MOST_STEPS: usize = 4096;
    /// Bytes kept of one part of a message.
    pub const LONGEST_CONTENT: u64 = 64 << 20;
    /// Bytes kept of all open transactions together.
    pub const MOST_CONTENTS: usize = 256 << 20;

    /// The bytes of one part of the call's or the reply's message.
    pub fn content(&self, of_reply: bool, part: Part) -> Option<&Content> {
        let key = |content: &Content| (content.of_reply, content.part);
        let index = self.contents.binary_search_by_key(&(of_reply, part), key).ok()?;
        self.contents.get(index)
    }
}
