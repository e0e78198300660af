//! Triggers and tests of iWARP.

use crate::transport::{found, slow_down};
use crate::{By, Trigger, shown};
use rdmascope_conformance::Verdict;
use rdmascope_tests::pcap::{Capture, Packet};
use rdmascope_tests::segments::{Form, made_and_closed};
use rdmascope_tests::{judged, mutate, samples};

pub(crate) const TRIGGERS: &[Trigger] = &[
    Trigger {
        rule: "iwarp-start-frame",
        alteration: "a reserved bit of the client's MPA Request is set",
        control: || samples::capture("iwarp-nfs3"),
        alter: |capture| start_frame(capture, CLIENT)[16] |= 0x08,
        also: &[],
        shows: shown(By::Requester, &[4], "reserved bits are set: 0x08", ""),
    },
    Trigger {
        rule: "private-data-reserved",
        alteration: "a reserved bit of the private data in the client's MPA Request is set",
        control: || samples::capture("iwarp-nfs3"),
        alter: |capture| start_frame(capture, CLIENT)[29] |= 0x02,
        also: &[],
        shows: shown(By::Requester, &[4], "0x00000001", "0x00000000"),
    },
    Trigger {
        rule: "private-data-version",
        alteration: "the private data in the server's MPA Reply has version 2",
        control: || samples::capture("iwarp-nfs3"),
        alter: |capture| start_frame(capture, SERVER)[28] = 2,
        also: &[],
        shows: shown(By::Responder, &[6], "2", "1"),
    },
    Trigger {
        rule: "private-data-one-sided",
        alteration: "the server's MPA Reply has no identifier of private data",
        control: || samples::capture("iwarp-nfs3"),
        alter: |capture| start_frame(capture, SERVER)[24] ^= 1,
        also: &[],
        shows: shown(By::Responder, &[4, 6], "", ""),
    },
    Trigger {
        rule: "private-data-sizes",
        alteration: "the client's MPA Request announces Sends of 8192 bytes",
        control: || samples::capture("iwarp-nfs3"),
        alter: |capture| start_frame(capture, CLIENT)[30] = 7,
        also: &[],
        shows: shown(By::Nobody, &[4, 6], "8192 bytes", "4096 bytes"),
    },
    Trigger {
        rule: "connection-rejected",
        alteration: "the server's MPA Reply has R set",
        control: || samples::capture("iwarp-nfs3"),
        alter: |capture| start_frame(capture, SERVER)[16] |= 0x20,
        also: &[],
        shows: shown(By::Responder, &[4, 6], "the MPA Reply has R set", ""),
    },
    Trigger {
        rule: "connection-unanswered",
        alteration: "the server sends no MPA Reply, and the client closes the connection",
        control: || made_and_closed(&samples::capture("iwarp-nfs3"), true),
        alter: |capture| *capture = made_and_closed(&samples::capture("iwarp-nfs3"), false),
        also: &[],
        shows: shown(By::Responder, &[4, 7], "", ""),
    },
    Trigger {
        rule: "iwarp-read-resources",
        alteration: "the server's MPA Reply has an ORD one above the client's IRD",
        control: || samples::capture("iwarp-nfs3"),
        alter: |capture| start_frame(capture, SERVER)[23] += 1,
        also: &[],
        shows: shown(By::Responder, &[6], "129", "128"),
    },
    Trigger {
        rule: "iwarp-first-message",
        alteration: "the segment with the first reply acknowledges only the MPA Request",
        control: || samples::capture("iwarp-nfs3"),
        alter: |capture| {
            const ACKNOWLEDGEMENT: usize = 14 + 20 + 8;
            let place = ACKNOWLEDGEMENT..ACKNOWLEDGEMENT + 4;
            let reply = capture.packets.iter().find(|packet| packet.number == 6).expect("the sample has it");
            let of_request = reply.data[place.clone()].to_vec();
            first_send(capture, SERVER).data[place].copy_from_slice(&of_request);
        },
        also: &[],
        shows: shown(By::Responder, &[10], "", ""),
    },
    Trigger {
        rule: "iwarp-markers",
        alteration: "the client's MPA Request asks for markers",
        control: || samples::capture("iwarp-nfs3"),
        alter: |capture| start_frame(capture, CLIENT)[16] |= 0x80,
        also: &[],
        shows: shown(By::Responder, &[10], "", ""),
    },
    Trigger {
        rule: "iwarp-crc",
        alteration: "two words of the last call are swapped, which the TCP checksum does not detect",
        control: || samples::capture("iwarp-crc-lossy"),
        alter: |capture| exchange_words(last_send(capture, CLIENT)),
        also: &[],
        shows: shown(By::Requester, &[1326], "", ""),
    },
    Trigger {
        rule: "iwarp-checksum",
        alteration: "the window of the server's first acknowledgement is changed, and its checksum is not",
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
        rule: "packet-order",
        alteration: "the only segment of the first call lacks L, so the next call begins within it",
        control: || samples::capture("iwarp-nfs3"),
        alter: |capture| {
            let call = first_send(capture, CLIENT);
            let at = payload(call) + 2;
            call.data[at] &= 0xbf;
        },
        also: &[],
        shows: shown(By::Requester, &[11], "", ""),
    },
    Trigger {
        rule: "iwarp-message-number",
        alteration: "the last call has a message sequence number that is one too high",
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
        rule: "iwarp-message-offset",
        alteration: "the last reply begins with message offset 4",
        control: || samples::capture("iwarp-nfs3"),
        alter: |capture| {
            let reply = last_send(capture, SERVER);
            let at = payload(reply) + 19;
            reply.data[at] = 4;
        },
        also: &[],
        shows: shown(By::Responder, &[1738], "4", "0"),
    },
    Trigger {
        rule: "iwarp-after-terminate",
        alteration: "the last reply but one is a Terminate, and the last one has its number",
        control: || samples::capture("iwarp-nfs3"),
        alter: |capture| {
            let mut replies = capture.packets.iter_mut().filter(|packet| is_send(packet, SERVER));
            let last = replies.next_back().expect("there is one");
            let before = replies.next_back().expect("there is another");
            let number = payload(last) + 12..payload(last) + 16;
            let of_before = payload(before) + 12..payload(before) + 16;
            last.data[number].copy_from_slice(&before.data[of_before]);
            terminate(before);
        },
        also: &[],
        shows: shown(By::Responder, &[1738], "", ""),
    },
    Trigger {
        rule: "iwarp-terminate",
        alteration: "the last reply is a Terminate for an invalid STag",
        control: || samples::capture("iwarp-nfs3"),
        alter: |capture| terminate(last_send(capture, SERVER)),
        also: &[],
        shows: shown(By::Nobody, &[1738], "DDP: tagged buffer error, invalid STag", ""),
    },
];

/// A session with correct checksums. The capturing host had left them to its adapter.
fn sealed() -> Capture {
    let mut capture = samples::capture("iwarp-nfs3");
    let segments = capture.packets.iter_mut().filter(|packet| packet.data[14 + 9] == 6);
    segments.for_each(|packet| mutate::seal_segment(&mut packet.data));
    capture
}

/// Selects the server's segments by source port.
pub(crate) const SERVER: fn(u16) -> bool = |port| port == 20_049;
/// Selects the client's segments by source port.
pub(crate) const CLIENT: fn(u16) -> bool = |port| port != 20_049;

/// The offset of the TCP payload.
pub(crate) fn payload(packet: &Packet) -> usize {
    const TCP: usize = 14 + 20;
    TCP + usize::from(packet.data[TCP + 12] >> 4) * 4
}

/// Whether an end sent a packet whose payload begins with a complete Send without Invalidate.
fn is_send(packet: &Packet, from: fn(u16) -> bool) -> bool {
    let at = payload(packet);
    from(u16::from_be_bytes([packet.data[34], packet.data[35]]))
        && packet.data.get(at + 2..at + 4) == Some(&[0x41, 0x43])
}

/// Swaps two words of a Send, which makes its CRC wrong but not the TCP checksum.
fn exchange_words(send: &mut Packet) {
    // In the RPC header, after those of DDP and RPC-over-RDMA: the XID and, in a call, the RPC
    // version.
    let at = payload(send) + 20 + 28;
    let words = [at + 2, at + 10];
    (0..2).for_each(|byte| send.data.swap(words[0] + byte, words[1] + byte));
}

fn first_send(capture: &mut Capture, from: fn(u16) -> bool) -> &mut Packet {
    capture.packets.iter_mut().find(|packet| is_send(packet, from)).expect("there is one")
}

pub(crate) fn last_send(capture: &mut Capture, from: fn(u16) -> bool) -> &mut Packet {
    capture.packets.iter_mut().rfind(|packet| is_send(packet, from)).expect("there is one")
}

/// Turns a Send into a Terminate for an invalid STag: queue 2, message 1, and the error.
fn terminate(send: &mut Packet) {
    let at = payload(send);
    send.data[at + 3] = 0x47;
    send.data[at + 11] = 2;
    send.data[at + 12..at + 16].copy_from_slice(&[0, 0, 0, 1]);
    send.data[at + 20..at + 24].copy_from_slice(&[0x11, 0, 0, 0]);
}

/// The MPA start frame of an end.
pub(crate) fn start_frame(capture: &mut Capture, from: fn(u16) -> bool) -> &mut [u8] {
    let is_start = |packet: &&mut Packet| {
        from(u16::from_be_bytes([packet.data[34], packet.data[35]]))
            && packet.data.get(payload(packet)..).is_some_and(|it| it.starts_with(b"MPA ID Re"))
    };
    let packet = capture.packets.iter_mut().find(is_start).expect("there is one");
    let at = payload(packet);
    &mut packet.data[at..]
}

/// Sets the IRD in the client's MPA Request (RFC 6581, section 9).
fn set_inbound_reads(capture: &mut Capture, inbound: u16) {
    start_frame(capture, CLIENT)[20..22].copy_from_slice(&inbound.to_be_bytes());
}

#[test]
fn reads_within_the_limit_give_no_finding() {
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

/// The server cannot answer a request that it has not acknowledged.
#[test]
fn a_lost_mpa_request_has_no_answer() {
    let mut capture = made_and_closed(&samples::capture("iwarp-nfs3"), false);
    let verdicts = |capture: &Capture| -> Vec<Verdict> {
        found(capture, "connection-unanswered").iter().map(|finding| finding.verdict).collect()
    };
    assert_eq!(verdicts(&capture), [Verdict::Certain]);
    let answer = capture.packets[1].clone();
    let first = u32::from_be_bytes(answer.data[42..46].try_into().expect("an acknowledgement number"));
    for packet in capture.packets.iter_mut().filter(|packet| packet.source() == answer.source()) {
        packet.data[42..46].copy_from_slice(&first.to_be_bytes());
        mutate::seal_segment(&mut packet.data);
    }
    assert_eq!(verdicts(&capture), [Verdict::Inconclusive]);
}

/// A Terminate with the headers of an RDMA operation on memory that its sender advertised for it, or
/// on other memory.
#[test]
fn refusal_of_advertised_memory_is_its_owners_fault() {
    let capture = samples::capture("iwarp-nfs3");
    let is_write = |packet: &Packet| {
        let at = payload(packet);
        SERVER(u16::from_be_bytes([packet.data[34], packet.data[35]]))
            && packet.data.get(at + 2..at + 4) == Some(&[0xc1, 0x40])
    };
    let at = capture.packets.iter().position(is_write).expect("a Write of one FPDU");
    let written = capture.packets[at].data[payload(&capture.packets[at])..][2..16].to_vec();
    let mut elsewhere = written.clone();
    elsewhere[2] ^= 1;
    let untagged = [&[0x41, 0x41, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1][..], &[0; 20]].concat();
    let read = [&untagged[..], &[0, 0, 0, 4], &written[2..]].concat();
    let unanswered = mutate::keep(&capture, |packet| {
        packet.number <= at as u64 + 1 || CLIENT(u16::from_be_bytes([packet.data[34], packet.data[35]]))
    });
    for (length, headers, by_requester) in [
        (0, &written, Some(true)),
        (0, &elsewhere, None),
        (4, &written, Some(true)),
        // It is longer than the memory.
        (u16::MAX, &written, None),
        // The memory is for writing.
        (0, &read, None),
    ] {
        let mut refused = unanswered.clone();
        let send = refused.packets[at + 1..].iter_mut().find(|packet| is_send(packet, CLIENT));
        let send = send.expect("the client continues");
        terminate(send);
        let at = payload(send) + 22;
        send.data[at] = 0xc0;
        send.data[at + 2..at + 4].copy_from_slice(&u16::to_be_bytes(length));
        send.data[at + 4..at + 4 + headers.len()].copy_from_slice(headers);
        let found = found(&refused, "iwarp-terminate");
        assert_eq!((found.len(), found[0].by_requester), (1, by_requester), "{found:?}");
    }
}

/// An end that asks for markers gets them; markers that were not asked for are reported.
#[test]
fn markers_without_a_request_are_found() {
    let mut capture = Form::Markers.apply(&samples::capture("iwarp-nfs3"));
    assert_eq!(found(&capture, "iwarp-markers").len(), 0);
    start_frame(&mut capture, SERVER)[16] &= 0x7f;
    let unasked = found(&capture, "iwarp-markers");
    assert_eq!(unasked.len(), 1, "{unasked:?}");
    assert_eq!(unasked[0].by_requester, Some(true), "the server did not ask for markers");
}

/// The contents of an FPDU with a wrong CRC are ignored, including its message number.
#[test]
fn wrong_crc_gives_no_other_finding() {
    let capture = samples::capture("iwarp-crc-lossy");
    for (from, by_requester) in [(CLIENT, true), (SERVER, false)] {
        let of_end = capture.packets.iter().enumerate().filter(|(_, packet)| is_send(packet, from));
        let sends: Vec<usize> = of_end.map(|(index, _)| index).collect();
        for index in sends.into_iter().step_by(23) {
            let mut altered = capture.clone();
            exchange_words(&mut altered.packets[index]);
            let found = judged::findings(&altered);
            let accused: Vec<_> = found
                .iter()
                .filter(|finding| crate::samples::is_new_violation(finding))
                .map(|finding| (judged::rule(finding).id, finding.by_requester))
                .collect();
            assert_eq!(accused, [("iwarp-crc", Some(by_requester))], "frame {}", index + 1);
        }
    }
}
