//! What a packet is to the transactions.

use crate::rdma::Position;
use crate::record::Seen;
use rdmascope_wire::bth::{Aeth, Reth};

/// A step of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StepOf {
    /// [`Transaction::begun`](crate::transaction::Transaction::begun), which names the transaction while it is open, too.
    pub begun: u64,
    /// Index in [`Exchange::steps`](crate::exchange::Exchange::steps).
    pub step: u32,
}

/// What a packet is to a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// A packet of the step, for the first time.
    Part(StepOf),
    /// The same once more: sent again, or captured twice. So is an RDMA READ request for what is left of an earlier one.
    Repetition(StepOf),
    /// An acknowledgement whose PSN lies in the step, or behind it and in none.
    Acknowledgement(StepOf),
    /// A NAK, or RNR NAK, of the step that its PSN lies in.
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

/// A packet that is something to a transaction. A TCP segment that is something to several steps is told of once for each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attributed<'a> {
    /// The packet.
    pub seen: Seen,
    /// Whether this is told after the record of the packet was [handled](crate::engine::Engine::handle): not before was it clear.
    pub late: bool,
    /// It acknowledges, or refuses, and does nothing else.
    pub only_acknowledges: bool,
    /// Where it stands: of a TCP segment the first byte that is of the step. Responses of InfiniBand have positions among those of the end
    /// that asked.
    pub position: Position,
    /// Its RETH, where it is a request with one.
    pub reth: Option<Reth>,
    /// Its AETH, where it is a response with one.
    pub aeth: Option<Aeth>,
    /// What it is; `None` where it only acknowledges, and its own position lies in no step.
    pub role: Option<Role>,
    /// The steps that it is the first packet to acknowledge to their ends, in the order of their positions. Responses to RDMA READs
    /// acknowledge too, and a refusal does what was before it.
    pub acknowledged: &'a [StepOf],
}
