//! The role of a packet in a transaction.

use crate::rdma::Position;
use crate::record::Seen;
use rdmascope_wire::bth::{Aeth, Reth};

/// A step of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StepOf {
    /// [`Transaction::begun`](crate::transaction::Transaction::begun), which identifies the
    /// transaction even while it is open.
    pub begun: u64,
    /// Index in [`Exchange::steps`](crate::exchange::Exchange::steps).
    pub step: u32,
}

/// The role of a packet in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// The first occurrence of a packet of the step.
    Part(StepOf),
    /// A repetition: retransmitted, or captured twice. An RDMA READ request for the rest of an
    /// earlier one is a repetition too.
    Repetition(StepOf),
    /// An acknowledgement whose PSN is in the step, or after it and in no other step.
    Acknowledgement(StepOf),
    /// A NAK or RNR NAK whose PSN is in the step.
    Refusal(StepOf),
}

impl Role {
    /// The step.
    pub fn of(self) -> StepOf {
        match self {
            Role::Part(of) | Role::Repetition(of) | Role::Acknowledgement(of) | Role::Refusal(of) => of,
        }
    }
}

/// A packet with a role in a transaction. A TCP segment with roles in several steps is reported
/// once for each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attributed<'a> {
    /// The packet.
    pub seen: Seen,
    /// Whether the role became known only after the record of the packet was
    /// [handled](crate::engine::Engine::handle).
    pub late: bool,
    /// Whether it is only an acknowledgement or a NAK.
    pub only_acknowledges: bool,
    /// Its position; for a TCP segment, that of its first byte in the step. InfiniBand responses
    /// use positions of the end that sent the request.
    pub position: Position,
    /// Its RETH, if it is a request with one.
    pub reth: Option<Reth>,
    /// Its AETH, if it is a response with one.
    pub aeth: Option<Aeth>,
    /// Its role. `None` if it only acknowledges steps and its own position is in none.
    pub role: Option<Role>,
    /// The steps that it is the first to acknowledge completely, in the order of their positions.
    /// Responses to RDMA READs acknowledge too. A NAK acknowledges the packets before it.
    pub acknowledged: &'a [StepOf],
}
