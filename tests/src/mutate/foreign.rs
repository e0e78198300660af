//! Sessions of protocols other than RPC-over-RDMA.

use super::opcode;
use crate::pcap::Capture;
use core::net::Ipv4Addr;
use std::collections::BTreeMap;

/// Replaces the messages in the Sends of a session by others of the same length. `message` gets the
/// length. Sends with Invalidate become plain ones.
pub fn carry(capture: &mut Capture, message: impl Fn(usize) -> Vec<u8>) {
    const SEND_MIDDLE: u8 = 0x01;
    let mut open: BTreeMap<(Ipv4Addr, u32), Vec<usize>> = BTreeMap::new();
    for index in 0..capture.packets.len() {
        let packet = &mut capture.packets[index];
        if !packet.is_rc() {
            continue;
        }
        let ends = match packet.opcode() {
            opcode::SEND_FIRST | SEND_MIDDLE => false,
            opcode::SEND_LAST | opcode::SEND_LAST_INVALIDATE => {
                packet.set_opcode(opcode::SEND_LAST);
                true
            }
            opcode::SEND_ONLY | opcode::SEND_ONLY_INVALIDATE => {
                packet.set_opcode(opcode::SEND_ONLY);
                true
            }
            _ => continue,
        };
        let sender = (packet.source(), packet.destination_qp());
        open.entry(sender).or_default().push(index);
        if !ends {
            continue;
        }
        let parts = open.remove(&sender).unwrap_or_default();
        let lengths = parts.iter().map(|part| capture.packets[*part].payload().len());
        let mut rest = message(lengths.sum());
        for part in parts {
            let packet = &mut capture.packets[part];
            let place = packet.payload();
            let tail = rest.split_off(place.len());
            packet.data[place].copy_from_slice(&rest);
            packet.seal();
            rest = tail;
        }
    }
}

/// Makes a message of the given length.
pub type Compose = fn(usize) -> Vec<u8>;

/// Messages for [`carry`] that do not look like RPC-over-RDMA, with their names.
pub const FOREIGN: [(&str, Compose); 5] = [
    // perftest sends its buffer as allocated, or filled by rand().
    ("perftest, zeros", |length| vec![0; length]),
    ("perftest, random bytes", |length| {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        (0..length).map(|_| next()).collect()
    }),
    // The IPoIB encapsulation header, a type and zeros (RFC 4391, section 6), and the encapsulated
    // packet.
    ("IPoIB-CM, IPv4", |length| {
        let total = (length as u16 - 4).to_be_bytes();
        message(length, &[8, 0, 0, 0, 0x45, 0, total[0], total[1], 0, 1, 0x40, 0, 64, 6])
    }),
    ("IPoIB-CM, IPv6", |length| {
        let payload = (length as u16 - 44).to_be_bytes();
        message(length, &[0x86, 0xdd, 0, 0, 0x60, 0, 0, 0, payload[0], payload[1], 6, 64])
    }),
    // An ARP packet has hardware type 32 (InfiniBand) and addresses of 20 bytes.
    ("IPoIB-CM, ARP", |length| message(length, &[8, 6, 0, 0, 0, 32, 8, 0, 20, 4, 0, 2])),
];

/// The given bytes followed by zeros.
fn message(length: usize, first: &[u8]) -> Vec<u8> {
    let mut bytes = first.to_vec();
    bytes.resize(length, 0);
    bytes
}
