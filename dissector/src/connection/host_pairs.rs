//! Pairs of hosts with packets in the capture.

use super::Contexts;
use crate::frame::Address;
use foldhash::quality::FixedState;
use hashbrown::HashMap;

/// Pairs of hosts (source, destination) with packets in the capture, and the contexts of these
/// packets.
///
/// If the capture has no packets from one host to another, the silence of that host is no evidence.
#[derive(Clone, Debug, Default)]
pub struct HostPairs(HashMap<(Address, Address), Contexts, FixedState>);

impl HostPairs {
    /// Maximum number of pairs. Further pairs are ignored.
    const MOST: usize = 8192;

    /// Notes packets.
    pub fn note(&mut self, source: Address, destination: Address, contexts: &Contexts) {
        if self.0.len() < HostPairs::MOST || self.0.contains_key(&(source, destination)) {
            self.0.entry((source, destination)).or_default().note_all(contexts);
        }
    }

    /// Whether the capture has a packet from the source to the destination in the network in which
    /// the destination sends in these contexts.
    ///
    /// The two directions of a network may have different contexts. So the contexts matter only if
    /// the destination sends in several.
    pub fn holds(&self, source: Address, destination: Address, contexts: &Contexts) -> bool {
        let is_alone = || self.0.get(&(destination, source)).is_none_or(|back| !back.is_several());
        let known = self.0.get(&(source, destination));
        known.is_some_and(|known| !known.is_apart(contexts) || is_alone())
    }

    /// Bytes of memory on the heap that a clone uses.
    pub(crate) fn footprint(&self) -> usize {
        self.0.allocation_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;

    fn host(number: u32) -> Address {
        Address::V4(Ipv4Addr::from(number))
    }

    #[test]
    fn host_pairs_are_directional_and_bounded() {
        let mut pairs = HostPairs::default();
        let any = Contexts::from(0);
        pairs.note(host(1), host(2), &any);
        assert!(pairs.holds(host(1), host(2), &any));
        assert!(!pairs.holds(host(2), host(1), &any));
        // 8192 pairs fit.
        for number in 2..=8193 {
            pairs.note(host(number), host(0), &any);
        }
        assert!(pairs.holds(host(8192), host(0), &any) && !pairs.holds(host(8193), host(0), &any));
    }

    #[test]
    fn equal_hosts_of_another_network_do_not_count() {
        let [client, server] = [host(1), host(2)];
        let [one, other] = [10, 20].map(Contexts::from);
        let mut pairs = HostPairs::default();
        pairs.note(client, server, &one);
        pairs.note(server, client, &other);
        // The two directions have different contexts.
        assert!(pairs.holds(server, client, &one));
        // There are two networks.
        pairs.note(client, server, &other);
        assert!(!pairs.holds(server, client, &one) && pairs.holds(server, client, &other));
        pairs.note(server, client, &one);
        assert!(pairs.holds(server, client, &one));
    }
}
