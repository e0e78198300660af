//! Assigns the packets of a session to transactions.

use crate::mutate::{self, opcode};
use crate::pcap::Capture;
use rdmascope_wire::Xid;
use std::collections::HashMap;

/// The XID of each packet of a session without loss, by frame.
///
/// It is derived from the packets alone. A Send begins with its XID. An RDMA operation belongs to the
/// last Send that named its handle. Without one, its address has the XID of the Linux client in the
/// upper half (witnesses.rs). A packet without a RETH continues its predecessor, and a READ response
/// belongs to the request with its PSNs. Acknowledgements and CM messages have none.
pub fn owners(capture: &Capture) -> HashMap<u64, Xid> {
    let mut owners = HashMap::new();
    // The current WRITE by sender, the XIDs by owner and handle of memory, and the requested READs by
    // requester and PSN.
    let mut writing = HashMap::new();
    let mut named = HashMap::new();
    let mut reads: Vec<(core::net::Ipv4Addr, u32, u32, Xid)> = Vec::new();
    for packet in capture.packets.iter().filter(|packet| packet.is_rc()) {
        let by_address = packet.reth().map(|(address, rkey, _)| {
            let in_address = Xid((address >> 32) as u32);
            named.get(&(packet.destination(), rkey)).copied().unwrap_or(in_address)
        });
        for handle in mutate::segments(packet) {
            let owner = packet.xid().expect("a Send with segments has one");
            named.insert((packet.source(), packet.u32(handle)), Xid(owner));
        }
        let owner = match packet.opcode() {
            opcode::WRITE_FIRST | opcode::WRITE_ONLY => {
                writing.insert(packet.source(), by_address);
                by_address
            }
            opcode::WRITE_MIDDLE | opcode::WRITE_LAST => writing.get(&packet.source()).copied().flatten(),
            opcode::READ_REQUEST => {
                let (_, _, length) = packet.reth().expect("a READ request has one");
                let xid = by_address.expect("a READ request has an address");
                // The path MTU is at least 256, so a response has at most this many PSNs. The
                // latest request at or before a PSN owns it.
                reads.push((packet.source(), packet.psn(), length.div_ceil(256), xid));
                by_address
            }
            opcode::READ_RESPONSE_FIRST..=opcode::READ_RESPONSE_ONLY => reads
                .iter()
                .rev()
                .find(|(requester, start, count, _)| {
                    *requester == packet.destination()
                        && packet.psn().wrapping_sub(*start) % mutate::PSNS < *count
                })
                .map(|(_, _, _, xid)| *xid),
            _ => packet.xid().map(Xid),
        };
        owners.extend(owner.map(|owner| (packet.number, owner)));
    }
    owners
}
