//! One fault gives one finding, without findings for its consequences.

use crate::By;
use crate::header::set_word;
use crate::iwarp;
use crate::memory::{SLOW, index_of};
use rdmascope_conformance::{Finding, Level, Verdict};
use rdmascope_tests::judged::{findings, line, rule};
use rdmascope_tests::mutate::{self, CLIENT, SERVER, opcode};
use rdmascope_tests::pcap::{Capture, Packet};
use rdmascope_tests::samples;

/// The indices of header words: rdma_xid, rdma_vers and rdma_proc.
const XID: usize = 0;
const VERSION: usize = 1;
const PROCEDURE: usize = 3;
const MSGP: u32 = 2;

/// A session whose NFS WRITE of 256 KiB has a Read chunk of two segments, fetched by thirteen RDMA
/// Reads.
const SAMPLE: &str = "nfs3-basic";

/// The rules whose conclusive findings appear only after an alteration, with the accused ends.
/// Advice is excluded.
fn faults(sample: &str, alter: impl FnOnce(&mut Capture)) -> Vec<(&'static str, Option<By>)> {
    let capture = samples::capture(sample);
    let is_fault =
        |finding: &&Finding| finding.verdict == Verdict::Certain && rule(finding).level < Level::Advice;
    let mut usual: Vec<String> = findings(&capture).iter().filter(is_fault).map(line).collect();
    let mut altered = capture;
    alter(&mut altered);
    let is_new = |finding: &&Finding| match usual.iter().position(|usual| *usual == line(finding)) {
        Some(at) => {
            usual.swap_remove(at);
            false
        }
        None => true,
    };
    let found = findings(&altered);
    let new = found.iter().filter(is_fault).filter(is_new);
    let by = |requester| if requester { By::Requester } else { By::Responder };
    let mut faults: Vec<_> = new.map(|finding| (rule(finding).id, finding.by_requester.map(by))).collect();
    faults.sort_unstable_by_key(|(id, _)| *id);
    faults
}

/// The first packet with this opcode.
fn first(capture: &mut Capture, opcode: u8) -> &mut Packet {
    let index = index_of(capture, |packet| packet.opcode() == opcode);
    &mut capture.packets[index]
}

/// Changes the RETH of a READ request or an RDMA Write.
fn name(packet: &mut Packet, change: impl FnOnce((u64, u32, u32)) -> (u64, u32, u32)) {
    let (address, rkey, length) = change(packet.reth().expect("it has a RETH"));
    packet.set_reth(address, rkey, length);
    packet.seal();
}

/// The first call with a Read chunk, or the reply to it.
fn with_read_chunk(capture: &Capture, is_wanted: impl Fn(&Packet) -> bool) -> usize {
    let has_reads = |packet: &Packet| {
        packet.starts_message() && packet.source() == CLIENT && packet.u32(packet.payload().start + 16) == 1
    };
    let xid = capture.packets[index_of(capture, has_reads)].xid();
    index_of(capture, |packet| packet.starts_message() && packet.xid() == xid && is_wanted(packet))
}

fn call(capture: &mut Capture) -> &mut Packet {
    let index = with_read_chunk(capture, |packet| packet.source() == CLIENT);
    &mut capture.packets[index]
}

fn reply(capture: &mut Capture) -> &mut Packet {
    let index = with_read_chunk(capture, |packet| packet.source() == SERVER);
    &mut capture.packets[index]
}

/// Changes the Position of the first Read segment of the call.
fn set_position(capture: &mut Capture, change: impl FnOnce(u32) -> u32) {
    let call = call(capture);
    let at = call.payload().start + 20;
    call.set_u32(at, change(call.u32(at)));
    call.seal();
}

#[test]
fn misdirected_operation_is_one_fault() {
    let expected = [("memory-advertised", Some(By::Responder))];
    for kind in [opcode::READ_REQUEST, opcode::WRITE_ONLY, opcode::WRITE_FIRST] {
        for far in [(0, 0x4400), (1 << 32, 0)] {
            let found = faults(SAMPLE, |capture| {
                name(first(capture, kind), |(address, rkey, length)| (address + far.0, rkey ^ far.1, length));
            });
            assert_eq!(found, expected, "opcode {kind:#04x}, {far:x?}");
        }
    }
}

/// The requests overlap: together they are as long as the chunk, but do not cover its first four
/// bytes.
#[test]
fn bytes_without_a_request_were_not_read() {
    let mut capture = samples::capture(SAMPLE);
    name(first(&mut capture, opcode::READ_REQUEST), |(address, rkey, length)| (address + 4, rkey, length));
    let [call, reply] = [call(&mut capture).number, reply(&mut capture).number];
    let found = findings(&capture);
    let found: Vec<&Finding> = found.iter().filter(|finding| rule(finding).id == "memory-read").collect();
    let [finding] = found[..] else { panic!("{found:?}") };
    assert_eq!((finding.verdict, finding.by_requester), (Verdict::Certain, Some(false)));
    assert_eq!(finding.message, "success, but only 262140 of 262144 bytes in Read chunks were requested");
    assert_eq!(finding.frames, [call, reply]);
}

#[test]
fn wrong_position_is_one_fault() {
    let by = Some(By::Requester);
    type Case = (fn(u32) -> u32, &'static str);
    let cases: [Case; 3] = [
        (|position| position + 2, "read-chunk-alignment"),
        (|position| position + 0x1_0000, "read-chunk-overlap"),
        (|_| 0, "read-chunk-position-zero"),
    ];
    for sample in [SAMPLE, "nfs4.2-basic"] {
        for (change, expected) in cases {
            let found = faults(sample, |capture| set_position(capture, change));
            assert_eq!(found, [(expected, by)], "{sample}");
        }
    }
}

/// The Responder reads the item, not the rest of the chunk.
#[test]
fn read_chunk_longer_than_its_item_is_one_fault() {
    let found = faults(SAMPLE, |capture| {
        let call = call(capture);
        let length = call.payload().start + 28;
        call.set_u32(length, call.u32(length) + 64);
        call.seal();
    });
    assert_eq!(found, [("read-chunk-length", Some(By::Requester))]);
}

#[test]
fn swapped_returned_segments_are_one_fault() {
    /// A READ with a Write chunk of two segments.
    const READ_OF_TWO: u32 = 0xfa8a_5ddc;
    let found = faults("nfs4.2-mtu4096-large-io", |capture| {
        let is_wanted = |packet: &Packet| packet.source() == SERVER && packet.xid() == Some(READ_OF_TWO);
        let index = index_of(capture, is_wanted);
        mutate::change_message(&mut capture.packets[index], |reply| reply.writes[0].swap(0, 1));
    });
    assert_eq!(found, [("returned-chunk-segments", Some(By::Responder))]);
}

/// The bytes after a First packet that is too short are not where they should be.
#[test]
fn too_short_rdma_write_is_one_fault() {
    for sample in [SAMPLE, "nfs4.2-basic", "nfs4.2-mtu4096-large-io"] {
        for lacking in [4, 512] {
            let found = faults(sample, |capture| {
                let write = first(capture, opcode::WRITE_FIRST);
                let bytes = write.data[write.payload().start - 16..write.payload().end - lacking].to_vec();
                write.set_after_bth(&bytes);
            });
            assert_eq!(found, [("packet-length", Some(By::Responder))], "{sample} {lacking}");
        }
    }
}

/// The path MTU of the REQ is wrong, or the packets of both ends are: the capture does not show
/// which.
#[test]
fn wrong_path_mtu_gives_only_packet_lengths() {
    for encoding in [1, 2, 4, 5] {
        let found = faults("nfs4.1-basic", |capture| {
            let is_request = |packet: &Packet| packet.cm_attribute() == Some(mutate::attribute::REQ);
            let index = capture.packets.iter().position(is_request).expect("it has a REQ");
            let request = &mut capture.packets[index];
            request.cm_body()[50] = request.cm_body()[50] & 0x0f | encoding << 4;
            request.seal();
        });
        let lengths = found.iter().filter(|(id, _)| *id == "packet-length").count();
        // The count in this finding changes.
        let others =
            found.iter().filter(|(id, _)| !["packet-length", "invalidation-sender-flag"].contains(id));
        assert!((1..8).contains(&lengths), "{encoding}: {lengths}");
        assert_eq!(others.collect::<Vec<_>>(), Vec::<&(&str, Option<By>)>::new(), "{encoding}");
    }
}

#[test]
fn wrong_xid_is_the_fault_of_its_sender() {
    for (of_reply, by) in [(false, By::Requester), (true, By::Responder)] {
        let found = faults(SAMPLE, |capture| {
            let packet = if of_reply { reply(capture) } else { call(capture) };
            let xid = packet.xid().expect("it is a message");
            set_word(packet, XID, xid ^ 0x5a5a);
        });
        assert_eq!(found, [("header-xid", Some(by))]);
    }
}

/// A reply with the XID of another outstanding call. The reply that this call gets later then
/// matches no call.
#[test]
fn reply_with_the_xid_of_another_call_is_one_fault() {
    let capture = crate::memory::side_by_side();
    let count = |capture: &Capture| -> Vec<&str> {
        let found = findings(capture);
        let conclusive = found.iter().filter(|finding| finding.verdict == Verdict::Certain);
        conclusive
            .map(|finding| rule(finding).id)
            .filter(|id| id.starts_with("rpc-") || *id == "header-xid")
            .collect()
    };
    assert_eq!(count(&capture), [""; 0]);
    let mut altered = capture;
    let call = index_of(&altered, |packet| packet.xid() == Some(SLOW));
    let early = index_of(&altered, |packet| {
        packet.number > call as u64 + 60
            && packet.starts_message()
            && packet.source() == SERVER
            && packet.u32(packet.payload().start + 12) == 0
    });
    assert_ne!(altered.packets[early].xid(), Some(SLOW), "the slow call is outstanding");
    set_word(&mut altered.packets[early], XID, SLOW);
    assert_eq!(count(&altered), ["header-xid"]);
}

#[test]
fn unreadable_header_and_its_acceptance_are_two_faults() {
    for (word, value, expected) in [
        (
            PROCEDURE,
            MSGP,
            [("header-msgp", Some(By::Requester)), ("header-msgp-not-refused", Some(By::Responder))],
        ),
        (
            VERSION,
            2,
            [("header-reply-version", Some(By::Responder)), ("header-version", Some(By::Requester))],
        ),
    ] {
        let found = faults("nfs4.1-backchannel-recall", |capture| {
            // The reply to the first call with a Reply chunk invalidates its handle.
            let index = index_of(capture, |packet| {
                packet.source() == CLIENT && mutate::reply_chunk(packet).is_some()
            });
            set_word(&mut capture.packets[index], word, value);
        });
        assert_eq!(found, expected);
    }
}

/// GARBAGE_ARGS instead of SUCCESS, followed by the results.
#[test]
fn error_status_followed_by_results_is_one_fault() {
    let found = faults(SAMPLE, |capture| {
        let reply = reply(capture);
        let accept_stat = mutate::header_length(reply) / 4 + 5;
        set_word(reply, accept_stat, 4);
    });
    assert_eq!(found, [("rpc-results", Some(By::Responder))]);
}

/// MSG_DENIED with RPC_MISMATCH instead of the verifier and accept_stat, followed by results.
#[test]
fn denied_reply_has_no_results() {
    let mut capture = samples::capture(SAMPLE);
    let reply = reply(&mut capture);
    let reply_stat = mutate::header_length(reply) / 4 + 2;
    set_word(reply, reply_stat, 1);
    let (frame, trailing) = (reply.number, reply.payload().len() - 4 * reply_stat - 16);
    let found = findings(&capture);
    let found: Vec<&Finding> = found.iter().filter(|finding| rule(finding).id == "rpc-results").collect();
    let [finding] = found[..] else { panic!("{found:?}") };
    assert_eq!((finding.verdict, finding.by_requester), (Verdict::Certain, Some(false)));
    assert_eq!(finding.message, format!("{trailing} bytes after a reply that has no results"));
    assert!(finding.frames.contains(&frame), "{finding:?}");
}

/// Changes the first FPDU after the first tenth of the session that begins a segment and has these
/// DDP and RDMAP control fields. Offsets count from the start of the FPDU; DDP fields begin at 4.
fn change_fpdu(
    capture: &mut Capture,
    from: fn(u16) -> bool,
    control: [u8; 2],
    change: impl FnOnce(&mut [u8]),
) {
    let begin = capture.packets.len() / 10;
    let is_wanted = |packet: &&mut Packet| {
        let at = iwarp::payload(packet);
        from(u16::from_be_bytes([packet.data[34], packet.data[35]]))
            && packet.data.get(at + 2..at + 4) == Some(&control)
            && usize::from(u16::from_be_bytes([packet.data[at], packet.data[at + 1]])) + 6
                <= packet.data.len() - at
    };
    let packet = capture.packets[begin..].iter_mut().find(is_wanted).expect("the session has such an FPDU");
    let at = iwarp::payload(packet);
    change(&mut packet.data[at..]);
}

/// A Send with L set; an RDMA Write with and without L; a Read Request and a Read Response with L
/// (RFC 5041, section 4.1; RFC 5040, section 4.1).
const SEND: [u8; 2] = [0x41, 0x43];
const WRITE: [u8; 2] = [0xc1, 0x40];
const WRITE_ON: [u8; 2] = [0x81, 0x40];
const READ_REQUEST: [u8; 2] = [0x41, 0x41];
const READ_RESPONSE: [u8; 2] = [0xc1, 0x42];

#[test]
fn wrong_ddp_or_rdmap_field_is_one_fault() {
    use iwarp::{CLIENT, SERVER};
    type Case = (&'static str, [u8; 2], fn(&mut [u8]), &'static [&'static str]);
    let of_server: [Case; 11] = [
        ("message number", SEND, |fpdu| fpdu[15] ^= 0x40, &["iwarp-message-number"]),
        ("message offset", SEND, |fpdu| fpdu[19] = 64, &["iwarp-message-offset"]),
        ("queue", SEND, |fpdu| fpdu[11] = 2, &["iwarp-segment"]),
        ("no L", SEND, |fpdu| fpdu[2] &= 0xbf, &["packet-order"]),
        ("Immediate Data", SEND, |fpdu| fpdu[3] = 0x49, &["operation-foreign"]),
        ("STag", WRITE, |fpdu| fpdu[6] ^= 0x44, &["memory-advertised"]),
        ("offset within a message", WRITE_ON, |fpdu| fpdu[15] ^= 4, &["iwarp-message-offset"]),
        ("source STag", READ_REQUEST, |fpdu| fpdu[38] ^= 0x44, &["memory-advertised"]),
        ("source offset past the end", READ_REQUEST, |fpdu| fpdu[47] ^= 4, &["memory-segment-end"]),
        ("number of a Read Request", READ_REQUEST, |fpdu| fpdu[14] ^= 1, &["iwarp-message-number"]),
        ("L of a Write", WRITE, |fpdu| fpdu[2] &= 0xbf, &["packet-order"]),
    ];
    let of_client: [Case; 3] = [
        ("message number", SEND, |fpdu| fpdu[15] ^= 0x40, &["iwarp-message-number"]),
        ("message offset", SEND, |fpdu| fpdu[19] = 64, &["iwarp-message-offset"]),
        ("STag of a response", READ_RESPONSE, |fpdu| fpdu[6] ^= 0x44, &["read-response-unasked"]),
    ];
    for (cases, from, by) in
        [(&of_server[..], SERVER, By::Responder), (&of_client[..], CLIENT, By::Requester)]
    {
        for (label, control, change, expected) in cases {
            let found = faults("iwarp-nfs3", |capture| change_fpdu(capture, from, *control, change));
            let expected: Vec<_> = expected.iter().map(|id| (*id, Some(by))).collect();
            assert_eq!(found, expected, "{label}");
        }
    }
}
