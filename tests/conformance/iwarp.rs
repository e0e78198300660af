//! iWARP.

use crate::transport::{found, slow_down};
use crate::{By, Trigger, shown};
use rdmascope_tests::pcap::{Capture, Packet};
use rdmascope_tests::{mutate, samples};

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
        rule: "iwarp-checksum",
        alteration: "the window of the server's first acknowledgement is another one, and its checksum is not",
        control: sealed,
        alter: |capture| {
            let acknowledgement = capture.packets.iter_mut().find(|packet| packet.number == 9);
            acknowledgement.expect("the sample has it").data[14 + 20 + 14] ^= 1;
        },
        also: &[],
        shows: shown(By::Responder, &[9], "1", ""),
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

/// A session whose checksums are right: the host that captured it left them to its adapter.
fn sealed() -> Capture {
    let mut capture = samples::capture("iwarp-nfs3");
    let segments = capture.packets.iter_mut().filter(|packet| packet.data[14 + 9] == 6);
    segments.for_each(|packet| mutate::seal_segment(&mut packet.data));
    capture
}

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

/// Of the client's MPA Request: how many RDMA Reads it serves at once (RFC 6581, section 9).
fn set_inbound_reads(capture: &mut Capture, inbound: u16) {
    let start = |packet: &&mut Packet| {
        packet.data.get(payload(packet)..).is_some_and(|it| it.starts_with(b"MPA ID Req"))
    };
    let request = capture.packets.iter_mut().find(start).expect("there is one");
    let at = payload(request) + 20;
    request.data[at..at + 2].copy_from_slice(&inbound.to_be_bytes());
}

#[test]
fn reads_within_the_limit_are_no_excess() {
    let mut capture = samples::capture("iwarp-nfs3");
    slow_down(&mut capture);
    let with = |inbound: u16| {
        let mut capture = capture.clone();
        set_inbound_reads(&mut capture, inbound);
        found(&capture, "read-depth")
    };
    assert_eq!(found(&capture, "read-depth").len(), 0, "128 are allowed");
    let one = with(1);
    assert_eq!(one.len(), 1, "once for each end: {one:?}");
    assert_eq!(one[0].by_requester, Some(false), "{one:?}");
    let most = (2..=128).find(|inbound| with(*inbound).is_empty()).expect("128 are enough");
    assert_eq!(with(most - 1).len(), 1);
    assert_eq!(with(0x3fff).len(), 0, "the ends agreed elsewhere");
}
