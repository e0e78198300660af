//! iWARP.

use crate::{By, Trigger, shown};
use rdmascope_tests::pcap::{Capture, Packet};
use rdmascope_tests::samples;

pub(crate) const TRIGGERS: &[Trigger] = &[
    Trigger {
        rule: "iwarp-crc",
        alteration: "two words of the last call are exchanged, which TCP's checksum does not notice",
        control: || samples::capture("iwarp-crc-lossy"),
        alter: |capture| {
            let call = last_send(capture, CLIENT);
            // In the header of RPC, behind those of DDP and RPC-over-RDMA: the XID and the version of RPC.
            let at = payload(call) + 20 + 28;
            let words = [at + 2, at + 10];
            (0..2).for_each(|byte| call.data.swap(words[0] + byte, words[1] + byte));
        },
        also: &[],
        shows: shown(By::Requester, &[1326], "", ""),
    },
    Trigger {
        rule: "iwarp-segment",
        alteration: "a reserved bit of the first call's DDP header is set",
        control: || samples::capture("iwarp-nfs3"),
        alter: |capture| {
            let call = first_send(capture, CLIENT);
            let at = payload(call) + 2;
            call.data[at] |= 0x04;
        },
        also: &[],
        shows: shown(By::Requester, &[8], "", ""),
    },
    Trigger {
        rule: "iwarp-message-number",
        alteration: "the last call has the message sequence number behind its own",
        control: || samples::capture("iwarp-nfs3"),
        alter: |capture| {
            let call = last_send(capture, CLIENT);
            let at = payload(call) + 15;
            call.data[at] += 1;
        },
        also: &[],
        shows: shown(By::Requester, &[1737], "247", "246"),
    },
    Trigger {
        rule: "iwarp-terminate",
        alteration: "the last reply is a Terminate for an invalid STag",
        control: || samples::capture("iwarp-nfs3"),
        alter: |capture| {
            let reply = last_send(capture, SERVER);
            let at = payload(reply);
            reply.data[at + 3] = 0x47;
            // Queue 2, message 1, and what it says.
            reply.data[at + 11] = 2;
            reply.data[at + 12..at + 16].copy_from_slice(&[0, 0, 0, 1]);
            reply.data[at + 20..at + 24].copy_from_slice(&[0x11, 0, 0, 0]);
        },
        also: &[],
        shows: shown(By::Requester, &[1738], "DDP: tagged buffer error, invalid STag", ""),
    },
];

/// The source port of the server's segments.
const SERVER: fn(u16) -> bool = |port| port == 20_049;
/// That of the client's.
const CLIENT: fn(u16) -> bool = |port| port != 20_049;

/// Where the payload of TCP begins.
fn payload(packet: &Packet) -> usize {
    const TCP: usize = 14 + 20;
    TCP + usize::from(packet.data[TCP + 12] >> 4) * 4
}

/// Whether an end sent a packet whose payload begins with a whole Send without Invalidate.
fn is_send(packet: &Packet, from: fn(u16) -> bool) -> bool {
    let at = payload(packet);
    from(u16::from_be_bytes([packet.data[34], packet.data[35]]))
        && packet.data.get(at + 2..at + 4) == Some(&[0x41, 0x43])
}

fn first_send(capture: &mut Capture, from: fn(u16) -> bool) -> &mut Packet {
    capture.packets.iter_mut().find(|packet| is_send(packet, from)).expect("there is one")
}

fn last_send(capture: &mut Capture, from: fn(u16) -> bool) -> &mut Packet {
    capture.packets.iter_mut().rfind(|packet| is_send(packet, from)).expect("there is one")
}
