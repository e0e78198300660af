//! Which hosts the capture shows to send to which: where it shows nothing that one sends to another, silence of that one is no evidence.

use crate::frame::Address;
use crate::rpcrdma::BuildHasher;
use hashbrown::HashSet;

/// Source and destination of packets, each pair once.
#[derive(Clone, Debug, Default)]
pub(super) struct Heard(HashSet<(Address, Address), BuildHasher>);

impl Heard {
    /// Pairs that are remembered; of those that find no room nothing is known.
    const MOST: usize = 8192;

    /// Notes a packet.
    pub(super) fn note(&mut self, source: Address, destination: Address) {
        if self.0.len() < Heard::MOST {
            self.0.insert((source, destination));
        }
    }

    /// Whether the capture holds a packet that this host sent to that one.
    pub(super) fn holds(&self, source: Address, destination: Address) -> bool {
        self.0.contains(&(source, destination))
    }

    /// Bytes of memory that a clone takes up beside itself.
    pub(super) fn footprint(&self) -> usize {
        self.0.allocation_size()
    }
}
