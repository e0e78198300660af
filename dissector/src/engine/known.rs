//! Connections that are known before their packets: what the kernel of a host told of its queue pairs.
//!
//! That may be old by the time the packets come: a queue pair that is used again has another other end. So the first packet of each
//! half-flow has to carry a PSN that lies where the kernel said, and until the second half-flow has shown one, another half-flow that
//! fits by evidence is believed instead. A CM exchange always is. What is contradicted is counted, and its half-flows are paired as if
//! nothing had been told.

use crate::connection::{FlowKey, KnownConnection};
use crate::rpcrdma::BuildHasher;
use crate::session::Told;
use hashbrown::HashMap;

/// Connections that are remembered, by both of their half-flows; and how often packets contradicted them.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownConnections {
    by_flow: HashMap<FlowKey, Told, BuildHasher>,
    /// How many were told.
    pub(super) told: u64,
    /// How many of these packets contradicted.
    pub(super) contradicted: u64,
    /// The first packet that did.
    pub(super) first_contradiction: Option<u64>,
}

impl KnownConnections {
    /// Connections that are remembered; more are not.
    const MOST: usize = 65_536;

    /// Takes in a connection. One that was told before with the same half-flow is forgotten.
    pub(super) fn add(&mut self, connection: KnownConnection) {
        self.told += 1;
        let told = Told { connection, from_local: true };
        self.take(&told.flow());
        self.take(&told.other().flow());
        if self.by_flow.len() < 2 * KnownConnections::MOST {
            self.by_flow.insert(told.flow(), told);
            self.by_flow.insert(told.other().flow(), told.other());
        }
    }

    /// Whether a kernel listed this half-flow.
    pub(super) fn has(&self, flow: &FlowKey) -> bool {
        self.by_flow.contains_key(flow)
    }

    /// What was told of a half-flow, which is forgotten with the other one of its connection.
    #[inline]
    pub(super) fn take(&mut self, flow: &FlowKey) -> Option<Told> {
        if self.by_flow.is_empty() {
            return None;
        }
        let told = self.by_flow.remove(flow)?;
        self.by_flow.remove(&told.other().flow());
        Some(told)
    }

    /// Counts that a packet shows something else than was told.
    pub(super) fn contradict(&mut self, frame: u64) {
        self.contradicted += 1;
        self.first_contradiction.get_or_insert(frame);
    }

    /// Bytes of memory that a clone takes up beside itself.
    pub(super) fn footprint(&self) -> usize {
        self.by_flow.allocation_size()
    }
}

#[cfg(test)]
mod tests;
