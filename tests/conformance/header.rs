//! Triggers and tests of the RPC-over-RDMA header.

use crate::chunks::reply::{getattr, read_directory, refuse, with_refused_callback};
use crate::chunks::{EXCHANGE_ID, change_call, large, plain_calls, send_of, version_3, write_to};
use crate::{By, Trigger, shown};
use core::net::Ipv4Addr;
use core::ops::Range;
use rdmascope_conformance::{Finding, Verdict};
use rdmascope_tests::judged::{findings, rule};
use rdmascope_tests::mutate::{self, CLIENT, PSNS, SERVER, attribute, opcode};
use rdmascope_tests::pcap::{Capture, Packet};
use rdmascope_tests::samples;

const MSG: u32 = 0;
const NOMSG: u32 = 1;
const MSGP: u32 = 2;
const DONE: u32 = 3;
const ERROR: u32 = 4;
const ERR_VERS: u32 = 1;
const ERR_CHUNK: u32 = 2;

pub(crate) const TRIGGERS: &[Trigger] = &[
    Trigger {
        rule: "header-version",
        alteration: "a call is of version 9, and the reply to it an RDMA_ERROR with ERR_VERS",
        control: basic,
        alter: |capture| spoil(capture, |call| set_word(call, 1, 9), Some(&[9, ERROR, ERR_VERS, 1, 1])),
        also: &[],
        shows: shown(By::Requester, &[382], "9", "1"),
    },
    Trigger {
        rule: "header-reply-version",
        alteration: "a reply is of version 9",
        control: basic,
        alter: |capture| {
            let (_, reply) = exchange(capture);
            set_word(&mut capture.packets[reply], 1, 9);
        },
        also: &[],
        shows: shown(By::Responder, &[382, 384], "9", "1"),
    },
    Trigger {
        rule: "header-xid",
        alteration: "the XID of an RPC call is one more than rdma_xid",
        control: basic,
        alter: |capture| {
            let (call, _) = exchange(capture);
            let xid = capture.packets[call].xid().expect("it is a message");
            set_word(&mut capture.packets[call], 7, xid + 1);
        },
        also: &[],
        shows: shown(By::Requester, &[382], "0x4dfc0517", "0x4dfc0516"),
    },
    Trigger {
        rule: "header-xid",
        alteration: "the XID of the RPC message in the Reply chunk of EXCHANGE_ID differs",
        control: large,
        alter: |capture| long_reply_of(capture, 0xe88a_5ddc),
        also: &[],
        shows: shown(By::Responder, &[12], "0xe88a5ddc", "0xdd8a5ddc"),
    },
    Trigger {
        rule: "header-too-short",
        alteration: "a call is cut to 24 bytes, and the reply to it is not sent",
        control: basic,
        alter: |capture| {
            let (call, reply) = exchange(capture);
            shorten(&mut capture.packets[call], 24);
            withhold(capture, reply);
        },
        also: &[],
        shows: shown(By::Requester, &[382], "24 bytes", "28 bytes"),
    },
    Trigger {
        rule: "header-short-answered",
        alteration: "a call is cut to 24 bytes, and answered with ERR_CHUNK",
        control: basic,
        alter: |capture| spoil(capture, |call| shorten(call, 24), Some(&[1, ERROR, ERR_CHUNK])),
        // The call itself is at fault.
        also: &["header-too-short"],
        shows: shown(By::Responder, &[382, 384], "24 bytes", "28 bytes"),
    },
    Trigger {
        rule: "header-unreadable",
        alteration: "the discriminant of a call's Write list is 2, and the call is answered with ERR_CHUNK",
        control: basic,
        alter: |capture| spoil(capture, |call| set_word(call, 5, 2), Some(&[1, ERROR, ERR_CHUNK])),
        also: &[],
        shows: shown(By::Requester, &[382], "", ""),
    },
    Trigger {
        rule: "header-unreadable",
        alteration: "a call with a segment in its Read list is cut to 28 bytes, and is answered with \
            ERR_CHUNK",
        control: basic,
        alter: |capture| {
            let cut = |call: &mut Packet| {
                set_word(call, 4, 1);
                shorten(call, 28);
            };
            spoil(capture, cut, Some(&[1, ERROR, ERR_CHUNK]));
        },
        also: &[],
        shows: shown(By::Requester, &[382], "", ""),
    },
    Trigger {
        rule: "header-unreadable",
        alteration: "a call is of version 9, and is answered with ERR_VERS without versions",
        control: basic,
        alter: |capture| spoil(capture, |call| set_word(call, 1, 9), Some(&[9, ERROR, ERR_VERS])),
        // The call itself is at fault.
        also: &["header-version"],
        shows: shown(By::Responder, &[384], "", ""),
    },
    Trigger {
        rule: "header-procedure",
        alteration: "rdma_proc of a call is 77, and the call is answered with ERR_CHUNK",
        control: basic,
        alter: |capture| spoil(capture, |call| set_word(call, 3, 77), Some(&[1, ERROR, ERR_CHUNK])),
        also: &[],
        shows: shown(By::Requester, &[382], "77", "0 to 4"),
    },
    Trigger {
        rule: "header-msgp",
        alteration: "a call is an RDMA_MSGP, and is answered with ERR_CHUNK",
        control: basic,
        alter: |capture| spoil(capture, pad, Some(&[1, ERROR, ERR_CHUNK])),
        also: &[],
        shows: shown(By::Requester, &[382], "RDMA_MSGP", ""),
    },
    Trigger {
        rule: "header-msgp-not-refused",
        alteration: "a call is an RDMA_MSGP, and is answered as before",
        control: basic,
        alter: |capture| spoil(capture, pad, None),
        // The call itself is at fault.
        also: &["header-msgp"],
        shows: shown(By::Responder, &[382, 384], "", ""),
    },
    Trigger {
        rule: "header-done",
        alteration: "the client sends RDMA_DONE after an inline reply",
        control: basic,
        alter: |capture| {
            let (_, reply) = exchange(capture);
            let xid = capture.packets[reply].xid().expect("it is a message");
            insert(capture, reply, CLIENT, opcode::SEND_ONLY, &words(&[xid, 1, 32, DONE]));
        },
        also: &[],
        shows: shown(By::Requester, &[385], "", ""),
    },
    Trigger {
        rule: "header-done",
        alteration: "the client sends RDMA_DONE with the XID of its own outstanding call",
        control: basic,
        alter: |capture| {
            let (call, _) = exchange(capture);
            let xid = capture.packets[call].xid().expect("it is a message");
            insert(capture, call, CLIENT, opcode::SEND_ONLY, &words(&[xid, 1, 32, DONE]));
        },
        also: &[],
        shows: shown(By::Requester, &[383], "", ""),
    },
    Trigger {
        rule: "header-done-missing",
        alteration: "a reply is in a Read chunk of the server, and the client reads it but sends no \
            RDMA_DONE",
        control: basic,
        alter: |capture| provide(capture, false),
        also: &[],
        shows: shown(By::Requester, &[384], "", ""),
    },
    Trigger {
        rule: "header-error-by-requester",
        alteration: "the client answers a reply with ERR_CHUNK",
        control: basic,
        alter: |capture| {
            let (_, reply) = exchange(capture);
            let xid = capture.packets[reply].xid().expect("it is a message");
            insert(capture, reply, CLIENT, opcode::SEND_ONLY, &words(&[xid, 1, 32, ERROR, ERR_CHUNK]));
        },
        also: &[],
        shows: shown(By::Requester, &[385], "", ""),
    },
    Trigger {
        rule: "header-error-by-requester",
        alteration: "the client sends ERR_CHUNK with the XID of its own outstanding call",
        control: basic,
        alter: |capture| {
            let (call, _) = exchange(capture);
            let xid = capture.packets[call].xid().expect("it is a message");
            insert(capture, call, CLIENT, opcode::SEND_ONLY, &words(&[xid, 1, 32, ERROR, ERR_CHUNK, 0, 0]));
        },
        also: &[],
        shows: shown(By::Requester, &[383], "", ""),
    },
    Trigger {
        rule: "header-error-unmatched",
        alteration: "the server sends ERR_CHUNK with an XID that no call has",
        control: basic,
        alter: |capture| {
            let (_, reply) = exchange(capture);
            insert(
                capture,
                reply,
                SERVER,
                opcode::SEND_ONLY,
                &words(&[0xdead_beef, 1, 64, ERROR, ERR_CHUNK]),
            );
        },
        also: &[],
        shows: shown(By::Responder, &[385], "", ""),
    },
    Trigger {
        rule: "header-error-version",
        alteration: "a call is of version 9, and the RDMA_ERROR that answers it of version 1",
        control: basic,
        alter: |capture| spoil(capture, |call| set_word(call, 1, 9), Some(&[1, ERROR, ERR_VERS, 1, 1])),
        // The call itself is at fault.
        also: &["header-version"],
        shows: shown(By::Responder, &[382, 384], "1", "9"),
    },
    Trigger {
        rule: "header-error-code",
        alteration: "rdma_proc of a call is 77, and the call is answered with rdma_err 3",
        control: basic,
        alter: |capture| spoil(capture, |call| set_word(call, 3, 77), Some(&[1, ERROR, 3])),
        // The call itself is at fault.
        also: &["header-procedure"],
        shows: shown(By::Responder, &[384], "3", "1 or 2"),
    },
    Trigger {
        rule: "header-error-kind",
        alteration: "a call is of version 9, and is answered with ERR_CHUNK",
        control: basic,
        alter: |capture| spoil(capture, |call| set_word(call, 1, 9), Some(&[9, ERROR, ERR_CHUNK])),
        // The call itself is at fault.
        also: &["header-version"],
        shows: shown(By::Responder, &[382, 384], "ERR_CHUNK", "ERR_VERS"),
    },
    Trigger {
        rule: "header-error-unfounded",
        alteration: "a call of version 1 is answered with ERR_VERS 1 to 1",
        control: basic,
        alter: |capture| spoil(capture, |_| {}, Some(&[1, ERROR, ERR_VERS, 1, 1])),
        also: &[],
        shows: shown(By::Responder, &[382, 384], "ERR_VERS 1 to 1", ""),
    },
    Trigger {
        rule: "header-error-range",
        alteration: "a server that replies in version 1 answers a call of version 9 with ERR_VERS 2 to 4",
        control: basic,
        alter: |capture| spoil(capture, |call| set_word(call, 1, 9), Some(&[9, ERROR, ERR_VERS, 2, 4])),
        // The call itself is at fault.
        also: &["header-version"],
        shows: shown(By::Responder, &[382, 384], "2 to 4", ""),
    },
    Trigger {
        rule: "header-error-chunk",
        alteration: "a GETATTR of NFS version 3 is answered with ERR_CHUNK",
        control: version_3,
        alter: |capture| refuse(capture, getattr(capture)),
        also: &[],
        shows: shown(By::Responder, &[874, 876], "", ""),
    },
    Trigger {
        rule: "header-trailing-bytes",
        alteration: "a call is answered with ERR_CHUNK followed by twelve bytes",
        control: basic,
        alter: |capture| spoil(capture, |_| {}, Some(&[1, ERROR, ERR_CHUNK, 0, 0, 0])),
        also: &[],
        shows: shown(By::Responder, &[384], "32 bytes", "20 bytes"),
    },
    Trigger {
        rule: "header-fault-accepted",
        alteration: "rdma_proc of a call is 77, and the call is answered as before",
        control: basic,
        alter: |capture| spoil(capture, |call| set_word(call, 3, 77), None),
        // The call itself is at fault.
        also: &["header-procedure"],
        shows: shown(By::Responder, &[382, 384], "", ""),
    },
    Trigger {
        rule: "header-fault-accepted",
        alteration: "the discriminant of a call's Write list is 2, and the call is answered as before",
        control: basic,
        alter: |capture| spoil(capture, |call| set_word(call, 5, 2), None),
        // The call itself is at fault.
        also: &["header-unreadable"],
        shows: shown(By::Responder, &[382, 384], "", ""),
    },
    Trigger {
        rule: "header-fault-accepted",
        alteration: "a call is an RDMA_NOMSG without chunks, and is answered as before",
        control: basic,
        alter: |capture| {
            let hollow = |call: &mut Packet| {
                set_word(call, 3, NOMSG);
                shorten(call, 28);
            };
            spoil(capture, hollow, None);
        },
        // The call itself is at fault.
        also: &["long-message-chunk"],
        shows: shown(By::Responder, &[382, 384], "", ""),
    },
    Trigger {
        rule: "header-fault-unanswered",
        alteration: "rdma_proc of a call is 77, and the reply to it is not sent",
        control: basic,
        alter: |capture| {
            let (call, reply) = exchange(capture);
            set_word(&mut capture.packets[call], 3, 77);
            withhold(capture, reply);
        },
        // The call itself is at fault.
        also: &["header-procedure"],
        shows: shown(By::Responder, &[382], "", ""),
    },
];

pub(crate) fn basic() -> Capture {
    samples::capture("nfs4.1-basic")
}

/// Big-endian words.
pub(crate) fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// The indices of the client's inline calls with an inline reply, and of the replies.
pub(crate) fn exchanges(capture: &Capture) -> Vec<(usize, usize)> {
    let is_inline = |packet: &Packet, sender| {
        packet.starts_message()
            && packet.source() == sender
            && matches!(packet.opcode(), opcode::SEND_ONLY | opcode::SEND_ONLY_INVALIDATE)
            && packet.payload().len() >= 36
            && words(&[MSG, 0, 0, 0]) == packet.data[packet.payload().start + 12..packet.payload().start + 28]
    };
    let of = |sender| capture.packets.iter().enumerate().filter(move |(_, packet)| is_inline(packet, sender));
    let exchanges = of(CLIENT).filter_map(|(call, packet)| {
        let reply = of(SERVER).find(|(at, reply)| *at > call && reply.xid() == packet.xid())?;
        (reply.0 < connection(capture, call).end).then_some((call, reply.0))
    });
    exchanges.collect()
}

/// An inline call of the client and its reply, in the middle of the session.
pub(crate) fn exchange(capture: &Capture) -> (usize, usize) {
    exchanges(capture)[20]
}

/// The packets of the connection to which the packet at `index` belongs, if connections are
/// consecutive.
pub(crate) fn connection(capture: &Capture, index: usize) -> Range<usize> {
    let begins = |at: &usize| capture.packets[*at].cm_attribute() == Some(attribute::REQ);
    let start = (0..=index).rev().find(begins).unwrap_or(0);
    start..(index + 1..capture.packets.len()).find(begins).unwrap_or(capture.packets.len())
}

/// Sets a word in the header of a Send.
pub(crate) fn set_word(packet: &mut Packet, index: usize, value: u32) {
    let at = packet.payload().start + 4 * index;
    packet.set_u32(at, value);
    packet.seal();
}

/// Alters a call. If `error` is given, replaces the reply by an RDMA_ERROR with these header words,
/// without XID and credits.
fn spoil(capture: &mut Capture, change: impl FnOnce(&mut Packet), error: Option<&[u32]>) {
    let (call, reply) = exchange(capture);
    change(&mut capture.packets[call]);
    let reply = &mut capture.packets[reply];
    if let Some([version, rest @ ..]) = error {
        let mut header = vec![reply.xid().expect("it is a message"), *version, 64];
        header.extend(rest);
        reply.set_opcode(opcode::SEND_ONLY);
        reply.set_after_bth(&words(&header));
    }
}

/// Cuts a Send to this length.
fn shorten(packet: &mut Packet, length: usize) {
    let payload = packet.payload();
    let bytes = packet.data[payload][..length].to_vec();
    packet.set_opcode(opcode::SEND_ONLY);
    packet.set_after_bth(&bytes);
}

/// Turns an RDMA_MSG into an RDMA_MSGP, with rdma_align and rdma_thresh before the lists.
fn pad(packet: &mut Packet) {
    let payload = packet.payload();
    let bytes = &packet.data[payload];
    let padded = [&bytes[..12], &words(&[MSGP, 0, 0]), &bytes[16..]].concat();
    packet.set_opcode(opcode::SEND_ONLY);
    packet.set_after_bth(&padded);
}

/// Shifts the PSNs of the requests of `sender` from `first` on, and of the responses to them.
fn shift_from(packets: &mut [Packet], sender: Ipv4Addr, first: u32, by: u32) {
    for packet in packets.iter_mut().filter(|packet| packet.is_rc()) {
        let whose = if packet.is_response() { packet.destination() } else { packet.source() };
        let ahead = (packet.psn() + PSNS - first) % PSNS;
        if whose == sender && ahead < PSNS / 2 {
            packet.set_psn((packet.psn() + by) % PSNS);
            packet.seal();
        }
    }
}

/// Removes a Send of one packet and its acknowledgement from a session, as if it had never been
/// sent.
pub(crate) fn withhold(capture: &mut Capture, index: usize) {
    let gone = capture.packets[index].clone();
    let within = connection(capture, index);
    let mut at = 0;
    capture.packets.retain(|packet| {
        let is_acknowledgement = packet.opcode() == opcode::ACKNOWLEDGE
            && packet.destination() == gone.source()
            && packet.psn() == gone.psn();
        at += 1;
        !within.contains(&(at - 1)) || !(is_acknowledgement || at - 1 == index)
    });
    let within = connection(capture, index - 1);
    shift_from(&mut capture.packets[within], gone.source(), (gone.psn() + 1) % PSNS, PSNS - 1);
    capture.renumber();
}

/// Inserts a request of one packet from `sender` after the packet at `index`, and returns its
/// index.
pub(crate) fn insert(
    capture: &mut Capture,
    index: usize,
    sender: Ipv4Addr,
    opcode: u8,
    bytes: &[u8],
) -> usize {
    let is_request = |packet: &&Packet| packet.is_rc() && !packet.is_response() && packet.source() == sender;
    let next = capture.packets[index + 1..].iter().find(is_request);
    let mut new = next.expect("the session goes on").clone();
    let within = connection(capture, index);
    shift_from(&mut capture.packets[within], sender, new.psn(), 1);
    new.set_opcode(opcode);
    new.set_after_bth(bytes);
    new.time = capture.packets[index].time + 1_000;
    capture.packets.insert(index + 1, new);
    capture.renumber();
    index + 1
}

/// Moves a reply into a Read chunk of the server, which the client reads. With `done`, the client
/// sends RDMA_DONE.
fn provide(capture: &mut Capture, done: bool) {
    const HANDLE: u32 = 0x4242;
    const OFFSET: u64 = 0x1_0000;
    let (_, reply) = exchange(capture);
    let packet = &mut capture.packets[reply];
    let xid = packet.xid().expect("it is a message");
    let stream = packet.data[packet.payload()][28..].to_vec();
    let length = stream.len() as u32;
    packet.set_opcode(opcode::SEND_ONLY);
    packet.set_after_bth(&words(&[xid, 1, 64, NOMSG, 1, 0, HANDLE, length, 0, OFFSET as u32, 0, 0, 0]));
    let reth = words(&[0, OFFSET as u32, HANDLE, length]);
    let request = insert(capture, reply, CLIENT, opcode::READ_REQUEST, &reth);
    let psn = capture.packets[request].psn();
    let mut response = capture.packets[reply].clone();
    response.time = capture.packets[request].time + 1_000;
    response.set_opcode(opcode::READ_RESPONSE_ONLY);
    response.set_psn(psn);
    response.set_after_bth(&[&words(&[0x1f00_0001])[..], &stream].concat());
    capture.packets.insert(request + 1, response);
    capture.renumber();
    if done {
        insert(capture, request + 1, CLIENT, opcode::SEND_ONLY, &words(&[xid, 1, 32, DONE]));
    }
}

/// A client that does not know Read chunks of the server looks the same as one that has not read
/// the chunk yet.
#[test]
fn unread_reply_chunk_needs_no_rdma_done() {
    let mut capture = basic();
    provide(&mut capture, false);
    let is_read = |packet: &Packet| {
        packet.is_rc() && packet.opcode() == opcode::READ_REQUEST && packet.source() == CLIENT
    };
    let read = capture.packets.iter().position(is_read).expect("the client pulls");
    capture.packets.remove(read + 1);
    withhold(&mut capture, read);
    assert!(found(&capture, "header-done-missing").is_empty());
}

/// The findings of the rules with this prefix.
pub(crate) fn found(capture: &Capture, prefix: &str) -> Vec<Finding> {
    findings(capture).into_iter().filter(|finding| rule(finding).id.starts_with(prefix)).collect()
}

#[test]
fn pulled_reply_with_rdma_done_gives_no_finding() {
    let mut capture = basic();
    provide(&mut capture, true);
    assert!(found(&capture, "header").is_empty());
}

/// Without its call, a reply in a Read chunk looks like a Long Call of the server.
#[test]
fn pulled_reply_without_its_call_explains_the_rdma_done() {
    let mut capture = basic();
    let (call, _) = exchange(&capture);
    provide(&mut capture, true);
    capture.packets.remove(call);
    capture.renumber();
    assert_eq!(found(&capture, "header-done"), []);
}

/// The client reads the chunk and is done with it, although its Position is wrong.
#[test]
fn wrong_position_in_a_reply_accuses_only_the_responder() {
    let mut capture = basic();
    let (_, reply) = exchange(&capture);
    provide(&mut capture, true);
    let position = capture.packets[reply].payload().start + 20;
    capture.packets[reply].set_u32(position, 8);
    capture.packets[reply].seal();
    let found = findings(&capture);
    let violations = found.iter().filter(|finding| crate::samples::is_new_violation(finding));
    assert_eq!(violations.map(|finding| rule(finding).id).collect::<Vec<_>>(), ["read-chunk-in-reply"]);
}

#[test]
fn inserted_and_withheld_packets_leave_no_gap() {
    let mut capture = basic();
    provide(&mut capture, true);
    let (_, reply) = exchanges(&capture)[30];
    withhold(&mut capture, reply);
    let session = rdmascope_tests::session::run(&capture);
    for end in [&session.connections[0].requester, &session.connections[0].responder] {
        assert_eq!((end.sent.missing_packets, end.sent.repeated_packets), (0, 0));
    }
}

/// The rules of this subject with conclusive findings, and those with inconclusive ones.
fn verdicts(capture: &Capture) -> (Vec<&'static str>, Vec<&'static str>) {
    let of = |verdict| {
        let found = found(capture, "header");
        found.iter().filter(|finding| finding.verdict == verdict).map(|finding| rule(finding).id).collect()
    };
    (of(Verdict::Certain), of(Verdict::Inconclusive))
}

/// A capture without one of its packets.
fn without(capture: &Capture, index: usize) -> Capture {
    mutate::keep(capture, |packet| packet.number != capture.packets[index].number)
}

#[test]
fn rdma_done_without_its_reply_is_inconclusive() {
    let mut capture = basic();
    let (_, reply) = exchange(&capture);
    provide(&mut capture, true);
    let (conclusive, inconclusive) = verdicts(&without(&capture, reply));
    assert!(conclusive.is_empty());
    assert_eq!(inconclusive, ["header-done"]);
}

#[test]
fn error_without_its_call_is_inconclusive() {
    let mut capture = basic();
    let (call, _) = exchange(&capture);
    spoil(&mut capture, |call| set_word(call, 3, 77), Some(&[1, ERROR, ERR_CHUNK]));
    let (conclusive, inconclusive) = verdicts(&without(&capture, call));
    assert!(conclusive.is_empty());
    assert_eq!(inconclusive, ["header-error-unmatched"]);
}

#[test]
fn missing_answer_is_inconclusive() {
    let mut capture = basic();
    let (_, reply) = exchange(&capture);
    spoil(&mut capture, |call| set_word(call, 3, 77), Some(&[1, ERROR, ERR_CHUNK]));
    let (conclusive, inconclusive) = verdicts(&without(&capture, reply));
    assert_eq!(conclusive, ["header-procedure"]);
    assert_eq!(inconclusive, ["header-fault-unanswered"]);
}

/// A second RDMA_DONE has no effect and is reported.
#[test]
fn second_rdma_done_is_found() {
    let mut capture = basic();
    provide(&mut capture, true);
    let is_done =
        |packet: &Packet| packet.starts_message() && packet.u32(packet.payload().start + 12) == DONE;
    let done = capture.packets.iter().position(is_done).expect("it was inserted");
    let bytes = capture.packets[done].data[capture.packets[done].payload()].to_vec();
    insert(&mut capture, done, CLIENT, opcode::SEND_ONLY, &bytes);
    assert_eq!(verdicts(&capture), (vec!["header-done"], vec![]));
}

/// ERR_CHUNK needs only 20 bytes; padding to 28 is allowed.
#[test]
fn error_may_be_padded_to_the_smallest_header() {
    for fill in [&[][..], &[0, 0]] {
        let mut capture = basic();
        let error = [&[1, ERROR, ERR_CHUNK], fill].concat();
        spoil(&mut capture, |call| set_word(call, 3, 77), Some(&error));
        assert_eq!(verdicts(&capture), (vec!["header-procedure"], vec![]), "{fill:?}");
    }
}

/// The answer of Linux to an unknown version (field notes of an injection): it copies the version
/// and offers 1 to 1.
#[test]
fn err_vers_needs_a_valid_range() {
    let mut capture = basic();
    spoil(&mut capture, |call| set_word(call, 1, 9), Some(&[9, ERROR, ERR_VERS, 1, 1]));
    assert_eq!(verdicts(&capture), (vec!["header-version"], vec![]));
    for (range, wrong) in [([3, 2], true), ([1, 9], true), ([1, 8], false), ([0, 1], false), ([9, 9], true)] {
        let mut capture = basic();
        let error = [&[9, ERROR, ERR_VERS][..], &range].concat();
        spoil(&mut capture, |call| set_word(call, 1, 9), Some(&error));
        assert_eq!(verdicts(&capture).0.contains(&"header-error-range"), wrong, "{range:?}");
    }
}

/// If the capture cut a header, its rest cannot be judged.
#[test]
fn truncated_header_is_no_violation() {
    for snap_length in 54..200 {
        let cut = mutate::cut(&basic(), snap_length);
        assert!(verdicts(&cut).0.is_empty(), "{snap_length}: {:?}", verdicts(&cut));
    }
}

/// Changes the XID of the RPC message in the Reply chunk of EXCHANGE_ID.
fn long_reply_of(capture: &mut Capture, xid: u32) {
    let call = &capture.packets[send_of(capture, CLIENT, EXCHANGE_ID)];
    let chunk = mutate::Message::of(call).reply.expect("it has a Reply chunk");
    let written = write_to(capture, chunk[0].handle);
    let at = capture.packets[written].payload().start;
    capture.packets[written].set_u32(at, xid);
    capture.packets[written].seal();
}

/// A wrong XID in a call does not hide one in its reply.
#[test]
fn wrong_xids_in_call_and_reply_are_both_found() {
    let mut capture = basic();
    let (call, reply) = exchange(&capture);
    for index in [call, reply] {
        set_word(&mut capture.packets[index], 7, 0xe88a_5ddc);
    }
    let found: Vec<(By, String)> = found(&capture, "header-xid")
        .iter()
        .map(|finding| (By::of(finding), finding.message.clone()))
        .collect();
    let text = |kind| format!("a {kind} with rdma_xid 0x4dfc0516 conveys an RPC message with XID 0xe88a5ddc");
    assert_eq!(found, [(By::Requester, text("call")), (By::Responder, text("reply"))]);
}

/// If the capture lacks packets, the content of a chunk may be left over from an earlier call. The
/// content of the Send belongs to this call.
#[test]
fn only_an_xid_in_a_chunk_may_be_left_over() {
    let verdicts = |mut capture: Capture, lost: u64| -> Vec<Verdict> {
        capture.packets.retain(|packet| packet.number != lost);
        found(&capture, "header-xid").iter().map(|finding| finding.verdict).collect()
    };
    let mut long = large();
    long_reply_of(&mut long, 0xe88a_5ddc);
    let first = send_of(&long, CLIENT, long.packets.iter().find_map(|packet| packet.xid()).expect("a call"));
    let first = long.packets[first].number;
    assert_eq!(verdicts(long.clone(), 0), [Verdict::Certain]);
    assert_eq!(verdicts(long, first), [Verdict::Inconclusive]);
    let mut inline = large();
    let xid = plain_calls(&inline, 1)[8];
    change_call(&mut inline, xid, |call| call.set_word(0, xid ^ 1));
    assert_eq!(verdicts(inline, first), [Verdict::Certain]);
}

/// If there may be no room for the reply, the fault cannot be attributed: reply-chunk-too-small
/// accuses the Requester in the forward direction.
#[test]
fn accused_end_of_err_chunk_depends_on_room_for_the_reply() {
    let by =
        |capture: &Capture| -> Vec<By> { found(capture, "header-error-chunk").iter().map(By::of).collect() };
    let refused = |change: fn(&mut Capture, u32)| {
        let mut capture = version_3();
        let xid = getattr(&capture);
        change(&mut capture, xid);
        refuse(&mut capture, xid);
        by(&capture)
    };
    assert_eq!(refused(|_, _| {}), [By::Responder]);
    assert_eq!(
        refused(|capture, _| read_directory(capture, 4097)),
        [],
        "the Requester is accused by another rule"
    );
    let unknown = |capture: &mut Capture, xid| change_call(capture, xid, |call| call.set_word(12, 300_000));
    assert_eq!(refused(unknown), [By::Nobody], "a program without a binding");
    assert_eq!(by(&with_refused_callback()), [By::Nobody], "a callback");
}

/// ERR_CHUNK is right for a chunk list that is itself a finding, and RFC 8166, section 4.5.3,
/// recommends it for a call whose reply broke the connection.
#[test]
fn err_chunk_is_right_for_a_faulty_chunk_list() {
    /// A WRITE of NFS version 3.
    const WRITE_3: u32 = 0x1b39_6a62;
    let rules = |change: fn(&mut mutate::Message)| {
        let mut capture = version_3();
        change_call(&mut capture, WRITE_3, change);
        refuse(&mut capture, WRITE_3);
        let is_wanted = |finding: &&Finding| {
            finding.verdict == Verdict::Certain
                && rule(finding).id.contains("chunk")
                && !rule(finding).id.starts_with("advice")
        };
        found(&capture, "").iter().filter(is_wanted).map(|finding| rule(finding).id).collect::<Vec<_>>()
    };
    assert_eq!(rules(|_| {}), ["header-error-chunk"]);
    assert_eq!(rules(|call| call.reads[0].1.length += 64), ["read-chunk-length"]);
    assert_eq!(rules(|call| call.writes = vec![vec![]]), ["write-chunk-only-empty"]);
}

/// 28 bytes are enough, 27 are not.
#[test]
fn smallest_header_has_28_bytes() {
    for (length, wrong) in [(27, true), (28, false)] {
        let mut capture = basic();
        spoil(&mut capture, |call| shorten(call, length), Some(&[1, ERROR, ERR_CHUNK]));
        assert_eq!(verdicts(&capture).0.contains(&"header-too-short"), wrong, "{length}");
        assert_eq!(verdicts(&capture).0.contains(&"header-short-answered"), wrong, "{length}");
    }
}
