//! Which transaction each packet of a session is of.

use crate::mutate::{self, opcode};
use crate::pcap::Capture;
use rdmascope_wire::Xid;
use std::collections::HashMap;

/// The XIDs that each packet of a session without loss is of, by frame. Told from the packets alone: a Send has its XID in
/// front; memory of the Linux client has the XID in the upper half of its addresses (witnesses.rs); what has no RETH goes on
/// with what precedes it, a READ response with the request whose PSNs it has. None for acknowledgements and CM.
pub fn owners(capture: &Capture) -> HashMap<u64, Xid> {
    let mut owners = HashMap::new();
    // Per sender: whose WRITE is going on. Per requester: the READs asked for, by PSN.
    let mut writing = HashMap::new();
    let mut reads: Vec<(core::net::Ipv4Addr, u32, u32, Xid)> = Vec::new();
    for packet in capture.packets.iter().filter(|packet| packet.is_rc()) {
        let by_address = packet.reth().map(|(address, _, _)| Xid((address >> 32) as u32));
        let owner = match packet.opcode() {
            opcode::WRITE_FIRST | opcode::WRITE_ONLY => {
                writing.insert(packet.source(), by_address);
                by_address
            }
            opcode::WRITE_MIDDLE | opcode::WRITE_LAST => writing.get(&packet.source()).copied().flatten(),
            opcode::READ_REQUEST => {
                let (_, _, length) = packet.reth().expect("a READ request has one");
                let xid = by_address.expect("a READ request has an address");
                // No path MTU is below 256, so this many PSNs at most; the latest request at or before a PSN is the one.
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
