//! Adds, removes and repeats requests, and adjusts the PSNs of later packets.

use super::{CLIENT, PSNS, SERVER, change_xids, each, opcode};
use crate::pcap::{Capture, Packet};
use core::net::Ipv4Addr;

/// The distance from PSN `from` to PSN `to`.
fn ahead(from: u32, to: u32) -> i32 {
    ((to.wrapping_sub(from) << 8) as i32) >> 8
}

/// Shifts by `by` the PSNs from `first` on of the requests of `sender` and of their responses.
pub fn shift_psn_from(capture: &mut Capture, sender: Ipv4Addr, first: u32, by: i32) {
    each(capture, |packet| {
        let whose = if packet.is_response() { packet.destination() } else { packet.source() };
        if packet.is_rc() && whose == sender && ahead(first, packet.psn()) >= 0 {
            packet.set_psn(packet.psn().wrapping_add_signed(by) % PSNS);
        }
    });
}

/// The next request of a host, from an index on.
fn next_request(capture: &Capture, sender: Ipv4Addr, from: usize) -> Option<&Packet> {
    let mut rest = capture.packets[from..].iter();
    rest.find(|packet| packet.is_rc() && !packet.is_response() && packet.source() == sender)
}

/// Inserts a request of one packet before the packet at `index`, in the sender's stream of
/// requests. It takes `psns` PSNs, and later PSNs are shifted. Returns its PSN.
///
/// # Panics
/// If the host sends no later request.
pub fn insert_request(capture: &mut Capture, index: usize, mut packet: Packet, psns: u32) -> u32 {
    let sender = packet.source();
    let psn = next_request(capture, sender, index).expect("a later request").psn();
    shift_psn_from(capture, sender, psn, psns as i32);
    packet.set_psn(psn);
    insert(capture, index, packet);
    psn
}

/// Inserts a packet before the one at `index` and renumbers the packets.
pub fn insert(capture: &mut Capture, index: usize, mut packet: Packet) {
    packet.time = capture.packets[index].time;
    packet.seal();
    capture.packets.insert(index, packet);
    capture.renumber();
}

/// Removes the request at `index`, which has one packet, and its responses, and closes the gap in
/// the PSNs.
///
/// # Panics
/// If the host sends no later request.
pub fn remove_request(capture: &mut Capture, index: usize) {
    let packet = capture.packets.remove(index);
    let (sender, psn) = (packet.source(), packet.psn());
    let next = next_request(capture, sender, index).expect("a later request").psn();
    let psns = ahead(psn, next);
    capture.packets.retain(|packet| {
        let answers = packet.is_rc() && packet.is_response() && packet.destination() == sender;
        !answers || !(0..psns).contains(&ahead(psn, packet.psn()))
    });
    shift_psn_from(capture, sender, next, -psns);
    capture.renumber();
}

/// Repeats the transaction of this XID `times` times, with XIDs that follow its own. No other
/// transaction may overlap it, and one must follow it.
///
/// # Panics
/// If the session has no such transaction.
pub fn again(capture: &mut Capture, xid: u32, times: u32) {
    let calls = |packet: &Packet| packet.source() == CLIENT && packet.starts_message();
    let position = |from: usize, wanted: &dyn Fn(&Packet) -> bool| {
        let found = capture.packets[from..].iter().position(wanted);
        from + found.expect("the transaction and a later one")
    };
    let start = position(0, &|packet| calls(packet) && packet.xid() == Some(xid));
    let next = position(start + 1, &|packet| calls(packet));
    let request = |packet: &Packet| packet.is_rc() && packet.source() == SERVER && !packet.is_response();
    let psn = |index: usize| capture.packets[index].psn();
    let length = |first: usize, after: usize| (psn(after).wrapping_sub(psn(first)) % PSNS, psn(after));
    let ends = [
        (CLIENT, length(start, next)),
        (SERVER, length(position(start, &request), position(next, &request))),
    ];
    let span = Capture { link: capture.link, packets: capture.packets[start..next].to_vec() };
    let lasts = capture.packets[next].time - capture.packets[start].time;

    let mut copies = Vec::new();
    for time in 1..=times {
        let mut copy = span.clone();
        change_xids(&mut copy, |old| if old == xid { old.wrapping_add(time) } else { old });
        each(&mut copy, |packet| {
            // A Long Call is in the response to one RDMA READ.
            let start = packet.payload().start;
            if packet.is_rc() && packet.opcode() == opcode::READ_RESPONSE_ONLY && packet.u32(start) == xid {
                packet.set_u32(start, xid.wrapping_add(time));
            }
            for (sender, (psns, _)) in ends {
                let whose = if packet.is_response() { packet.destination() } else { packet.source() };
                if whose == sender {
                    packet.set_psn(packet.psn() + psns * time);
                }
            }
        });
        copy.packets.iter_mut().for_each(|packet| packet.time += lasts * i64::from(time));
        copies.extend(copy.packets);
    }
    for (sender, (psns, from)) in ends {
        shift_psn_from(capture, sender, from, (psns * times) as i32);
    }
    capture.packets[next..].iter_mut().for_each(|packet| packet.time += lasts * i64::from(times));
    capture.packets.splice(next..next, copies);
    capture.renumber();
}
