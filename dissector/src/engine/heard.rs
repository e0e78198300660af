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

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;

    #[test]
    fn who_sends_to_whom() {
        let host = |number: u32| Address::V4(Ipv4Addr::from(number));
        let mut heard = Heard::default();
        heard.note(host(1), host(2));
        assert!(heard.holds(host(1), host(2)));
        assert!(!heard.holds(host(2), host(1)));
        // 8192 pairs are remembered.
        for number in 2..=8193 {
            heard.note(host(number), host(0));
        }
        assert!(heard.holds(host(8192), host(0)) && !heard.holds(host(8193), host(0)));
    }
}
