//! Connections reported by a host's kernel before their packets.
//!
//! A report may be outdated when the packets come: a reused queue pair has another peer. So the
//! first packet of each half-flow must have a PSN near the reported one. Until the second half-flow
//! has confirmed the report, another half-flow with evidence takes precedence, and a CM exchange
//! always does. Contradicted reports are counted, and their half-flows are paired without them.

use crate::connection::{FlowKey, KnownConnection};
use crate::rpcrdma::BuildHasher;
use crate::session::Hint;
use hashbrown::HashMap;

/// The reported connections, by both of their half-flows, and the number of contradictions.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownConnections {
    by_flow: HashMap<FlowKey, Hint, BuildHasher>,
    /// The number of reports.
    pub(super) hint: u64,
    /// The number of reports that packets contradicted.
    pub(super) contradicted: u64,
    /// The first packet that contradicted a report.
    pub(super) first_contradiction: Option<u64>,
}

impl KnownConnections {
    /// Maximum number of connections. Further reports are only counted.
    const MOST: usize = 65_536;

    /// Adds a report. It replaces an earlier report of the same half-flow.
    pub(super) fn add(&mut self, connection: KnownConnection) {
        self.hint += 1;
        let hint = Hint { connection, from_local: true };
        self.take(&hint.flow());
        self.take(&hint.other().flow());
        if self.by_flow.len() < 2 * KnownConnections::MOST {
            self.by_flow.insert(hint.flow(), hint);
            self.by_flow.insert(hint.other().flow(), hint.other());
        }
    }

    /// Whether a kernel reported this half-flow.
    pub(super) fn has(&self, flow: &FlowKey) -> bool {
        self.by_flow.contains_key(flow)
    }

    /// Removes the report of a half-flow and of its counterpart.
    #[inline]
    pub(super) fn take(&mut self, flow: &FlowKey) -> Option<Hint> {
        if self.by_flow.is_empty() {
            return None;
        }
        let hint = self.by_flow.remove(flow)?;
        self.by_flow.remove(&hint.other().flow());
        Some(hint)
    }

    /// Counts a report that a packet contradicts.
    pub(super) fn contradict(&mut self, frame: u64) {
        self.contradicted += 1;
        self.first_contradiction.get_or_insert(frame);
    }

    /// Bytes of memory on the heap that a clone uses.
    pub(super) fn footprint(&self) -> usize {
        self.by_flow.allocation_size()
    }
}

#[cfg(test)]
mod tests;
