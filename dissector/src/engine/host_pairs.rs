//! Pairs of hosts with packets in the capture.
//!
//! If the capture has no packets from one host to another, the silence of that host is no evidence.

use crate::frame::Address;
use crate::rpcrdma::BuildHasher;
use hashbrown::HashSet;

/// Source and destination of packets, each pair once.
#[derive(Clone, Debug, Default)]
pub(super) struct HostPairs(HashSet<(Address, Address), BuildHasher>);

impl HostPairs {
    /// Maximum number of pairs. Further pairs are ignored.
    const MOST: usize = 8192;

    /// Notes a packet.
    pub(super) fn note(&mut self, source: Address, destination: Address) {
        if self.0.len() < HostPairs::MOST {
            self.0.insert((source, destination));
        }
    }

    /// Whether the capture has a packet from the source to the destination.
    pub(super) fn holds(&self, source: Address, destination: Address) -> bool {
        self.0.contains(&(source, destination))
    }

    /// Bytes of memory on the heap that a clone uses.
    pub(super) fn footprint(&self) -> usize {
        self.0.allocation_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;

    #[test]
    fn host_pairs_are_directional_and_bounded() {
        let host = |number: u32| Address::V4(Ipv4Addr::from(number));
        let mut pairs = HostPairs::default();
        pairs.note(host(1), host(2));
        assert!(pairs.holds(host(1), host(2)));
        assert!(!pairs.holds(host(2), host(1)));
        // 8192 pairs fit.
        for number in 2..=8193 {
            pairs.note(host(number), host(0));
        }
        assert!(pairs.holds(host(8192), host(0)) && !pairs.holds(host(8193), host(0)));
    }
}
