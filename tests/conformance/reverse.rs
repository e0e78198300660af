//! Triggers and tests of the reverse direction.

use crate::{By, Trigger, shown};
use rdmascope_conformance::{Finding, Verdict};
use rdmascope_dissector::transaction::Direction;
use rdmascope_tests::judged::{findings, rule};
use rdmascope_tests::mutate::{self, CLIENT, EXTENSION, SERVER};
use rdmascope_tests::pcap::{Capture, Packet};
use rdmascope_tests::samples;

pub(crate) const TRIGGERS: &[Trigger] = &[
    Trigger {
        rule: "session-create-sequence",
        alteration: "the result of CREATE_SESSION has the next sequence number",
        control: recall,
        alter: |capture| set_create_session(capture, Side::Reply, SEQUENCE, 2),
        also: &[],
        shows: shown(By::Responder, &[20, 22], "2", "1"),
    },
    Trigger {
        rule: "reverse-before-offer",
        alteration: "CREATE_SESSION asks for no backchannel, and is granted none",
        control: recall,
        alter: |capture| {
            set_create_session(capture, Side::Call, FLAGS, 0);
            set_create_session(capture, Side::Reply, FLAGS, 0);
        },
        also: &[],
        shows: shown(By::Responder, &[132, 140], "2", "0"),
    },
    Trigger {
        rule: "reverse-before-offer",
        alteration: "the callbacks are NULL calls of the NFS program, without an offer",
        control: recall_by_null,
        alter: |capture| {
            set_create_session(capture, Side::Call, FLAGS, 0);
            set_create_session(capture, Side::Reply, FLAGS, 0);
        },
        also: &[],
        shows: shown(By::Responder, &[132, 140], "2", "0"),
    },
    Trigger {
        rule: "reverse-after-refusal",
        alteration: "CREATE_SESSION is granted no backchannel",
        control: recall,
        alter: |capture| set_create_session(capture, Side::Reply, FLAGS, 0),
        also: &[],
        shows: shown(By::Responder, &[22, 132, 140], "", ""),
    },
    Trigger {
        rule: "reverse-not-offered",
        alteration: "CREATE_SESSION asks for no backchannel, in a session without callbacks",
        control: basic,
        alter: |capture| set_create_session(capture, Side::Call, FLAGS, 0),
        also: &[],
        shows: shown(By::Responder, &[20, 22], "", ""),
    },
    Trigger {
        rule: "reverse-attributes",
        alteration: "the result of CREATE_SESSION allows 3 operations in a callback",
        control: basic,
        alter: |capture| set_create_session(capture, Side::Reply, BACK + OPERATIONS, 3),
        also: &[],
        shows: shown(By::Responder, &[20, 22], "3", "2"),
    },
    Trigger {
        rule: "reverse-operations",
        alteration: "CREATE_SESSION asks for callbacks of one operation, which is granted",
        control: recall,
        alter: |capture| set_backchannel(capture, OPERATIONS, 1),
        also: &[],
        shows: None,
    },
    Trigger {
        rule: "reverse-size",
        alteration: "CREATE_SESSION asks for callbacks of 128 bytes, which is granted",
        control: recall,
        alter: |capture| set_backchannel(capture, REQUEST, 128),
        also: &[],
        shows: None,
    },
    Trigger {
        rule: "reverse-program",
        alteration: "CREATE_SESSION names another callback program",
        control: recall,
        alter: |capture| set_create_session(capture, Side::Call, CALLBACK_PROGRAM, 0x4000_0001),
        also: &[],
        shows: None,
    },
    Trigger {
        rule: "reverse-sequence",
        alteration: "the first callback lacks its CB_SEQUENCE",
        control: recall,
        alter: |capture| {
            let at = nth_callback(capture, 0);
            let callback = &mut capture.packets[at];
            let rpc = callback.payload().start + 28;
            let arguments = rpc + arguments_of(callback, rpc);
            // Tag, minor version, callback_ident, count, operation, CB_SEQUENCE4args without
            // referring calls.
            let operations = arguments + 12;
            callback.set_u32(operations, 1);
            let mut bytes = callback.data[EXTENSION..callback.payload().end].to_vec();
            let first = operations + 4 - EXTENSION;
            bytes.drain(first..first + 4 + 16 + 4 * 4 + 4);
            callback.set_after_bth(&bytes);
        },
        // The reply has a result for it.
        also: &["compound-results"],
        shows: shown(By::Responder, &[132], "CB_RECALL", "CB_SEQUENCE"),
    },
    Trigger {
        rule: "reverse-version",
        alteration: "the first callback has version 2",
        control: recall,
        alter: |capture| {
            let at = nth_callback(capture, 0);
            let callback = &mut capture.packets[at];
            callback.set_u32(callback.payload().start + 4, 2);
            callback.seal();
        },
        // No version 2 exists for an answer, and the client answered in version 1.
        also: &["header-version", "header-reply-version"],
        shows: shown(By::Responder, &[4, 132], "2", "1"),
    },
    Trigger {
        rule: "reverse-long-message",
        alteration: "the first callback is a Long Call, and the client reads it",
        control: recall,
        alter: |capture| make_long(capture, 0, true),
        also: &[],
        shows: None,
    },
    Trigger {
        rule: "reverse-chunks-unread",
        alteration: "the first callback is a Long Call, and the client answers it without reading it",
        control: with_long_calls,
        alter: |capture| make_long(capture, 0, false),
        also: &[],
        shows: shown(By::Requester, &[132, 134], "RDMA_MSG", "ERR_CHUNK"),
    },
    Trigger {
        rule: "reverse-chunks-refused",
        alteration: "both callbacks are Long Calls, and the client answers the first with ERR_CHUNK",
        control: with_long_calls,
        alter: |capture| {
            make_long(capture, 0, false);
            refuse(capture, 0);
            make_long(capture, 1, true);
        },
        also: &[],
        shows: shown(By::Responder, &[134, 140], "", ""),
    },
];

/// Offsets from csa_sequence or csr_sequence on: the sequence number; the flags; the attributes of
/// the backchannel, after those of the fore channel without ca_rdma_ird; within them
/// ca_maxrequestsize, ca_maxresponsesize, ca_maxoperations and ca_maxrequests; after those of a
/// call, csa_cb_program.
const SEQUENCE: usize = 0;
const FLAGS: usize = 4;
const BACK: usize = FLAGS + 4 + 7 * 4;
const REQUEST: usize = 4;
const RESPONSE: usize = 8;
const OPERATIONS: usize = 16;
const REQUESTS: usize = 20;
const CALLBACK_PROGRAM: usize = BACK + 7 * 4;

fn recall() -> Capture {
    samples::capture("nfs4.1-backchannel-recall")
}

fn basic() -> Capture {
    samples::capture("nfs4.1-basic")
}

/// The same session with NULL of NFSv4 instead of both callbacks. The client offered the
/// connection, so that is no fault.
fn recall_by_null() -> Capture {
    let mut capture = recall();
    for nth in 0..2 {
        let call = nth_callback(&capture, nth);
        let answer = answer_of(&capture, call);
        let call = &mut capture.packets[call];
        let (rdma, rpc) = (call.payload().start, call.payload().start + 28);
        let mut null = call.data[EXTENSION..rpc + 12].to_vec();
        // Program, version, procedure, AUTH_NONE twice.
        null.extend([100_003, 4, 0, 0, 0, 0, 0].map(u32::to_be_bytes).concat());
        assert_eq!((rdma, call.u32(rpc + 4)), (EXTENSION, 0), "a Send without extension headers, a call");
        call.set_after_bth(&null);
        let answer = &mut capture.packets[answer];
        // The header is followed by xid, msg_type, reply_stat, an empty verifier and accept_stat;
        // no results.
        let reply = answer.data[EXTENSION..EXTENSION + 28 + 24].to_vec();
        answer.set_after_bth(&reply);
    }
    capture
}

/// A session whose client accepts callbacks of one mebibyte.
fn with_long_calls() -> Capture {
    let mut capture = recall();
    set_backchannel(&mut capture, REQUEST, 1 << 20);
    capture
}

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Call,
    Reply,
}

/// The offset of the arguments in an RPC call, after credential and verifier.
fn arguments_of(packet: &Packet, rpc: usize) -> usize {
    let credential = packet.u32(rpc + 28).next_multiple_of(4) as usize;
    let verifier = packet.u32(rpc + 32 + credential + 4).next_multiple_of(4) as usize;
    32 + credential + 8 + verifier
}

/// The offset of csa_sequence or csr_sequence in a message without chunks, after an empty tag and
/// operation 43.
fn sequence_of(packet: &Packet, side: Side) -> Option<usize> {
    if !packet.starts_message() || packet.payload().len() < 28 + 80 {
        return None;
    }
    let rpc = packet.payload().start + 28;
    // RDMA_MSG without chunks.
    if packet.data[rpc - 16..rpc].iter().any(|byte| *byte != 0) {
        return None;
    }
    let at = match side {
        Side::Call if packet.source() == CLIENT => rpc + arguments_of(packet, rpc),
        // After xid, msg_type, reply_stat, an empty verifier and accept_stat.
        Side::Reply if packet.source() == SERVER => rpc + 24,
        _ => return None,
    };
    // Tag and minor version, or status and tag; the count; the operation; in a result its status.
    let words: Vec<u32> = (0..4).map(|word| packet.u32(at + 4 * word)).collect();
    match side {
        Side::Call => (words == [0, 1, 1, 43]).then_some(at + 16 + 8),
        Side::Reply => (words == [0, 0, 1, 43]).then_some(at + 20 + 16),
    }
}

fn set_create_session(capture: &mut Capture, side: Side, offset: usize, value: u32) {
    let found =
        capture.packets.iter_mut().find_map(|packet| sequence_of(packet, side).map(|at| (packet, at)));
    let (packet, at) = found.expect("the session is created");
    packet.set_u32(at + offset, value);
    packet.seal();
}

/// Sets an attribute of the backchannel in call and reply.
fn set_backchannel(capture: &mut Capture, attribute: usize, value: u32) {
    set_create_session(capture, Side::Call, BACK + attribute, value);
    set_create_session(capture, Side::Reply, BACK + attribute, value);
}

/// The index of the packet with the server's nth call.
fn nth_callback(capture: &Capture, nth: usize) -> usize {
    let calls = capture.packets.iter().enumerate().filter(|(_, packet)| {
        // RDMA_MSG with CALL, or RDMA_NOMSG with a Read chunk.
        let word = |at: usize| packet.u32(packet.payload().start + at);
        packet.source() == SERVER
            && packet.starts_message()
            && if word(12) == 0 { word(28 + 4) == 0 && word(16) == 0 } else { word(16) == 1 }
    });
    let mut calls = calls.map(|(index, _)| index);
    calls.nth(nth).expect("the server calls back")
}

/// The index of the packet that answers a callback.
fn answer_of(capture: &Capture, callback: usize) -> usize {
    let xid = capture.packets[callback].xid();
    let answers = |packet: &Packet| packet.source() == CLIENT && packet.xid() == xid;
    callback + capture.packets[callback..].iter().position(answers).expect("the client answers")
}

/// Turns the nth callback into a Long Call. With `read`, the client reads it.
fn make_long(capture: &mut Capture, nth: usize, read: bool) {
    let at = nth_callback(capture, nth);
    mutate::make_long_call(capture, at, read);
}

/// Answers the nth callback with ERR_CHUNK.
fn refuse(capture: &mut Capture, nth: usize) {
    let answer = answer_of(capture, nth_callback(capture, nth));
    let answer = &mut capture.packets[answer];
    let mut error = answer.data[EXTENSION..EXTENSION + 12].to_vec();
    error.extend([4, 2].map(u32::to_be_bytes).concat());
    answer.set_after_bth(&error);
}

/// The findings of one rule.
fn found(capture: &Capture, id: &str) -> Vec<Finding> {
    findings(capture).into_iter().filter(|finding| rule(finding).id == id).collect()
}

/// RFC 8881, section 18.36.3: the attributes of the backchannel that a server may change, and those
/// that it may only lower.
#[test]
fn server_may_only_lower_sizes_of_the_backchannel() {
    // Requested value, granted value, and finding.
    let cases = [
        (OPERATIONS, 4, 2, Some("ca_maxoperations of the backchannel went from 4 to 2")),
        (REQUESTS, 4, 2, Some("ca_maxrequests of the backchannel went from 4 to 2")),
        (REQUESTS, 4, 5, Some("ca_maxrequests of the backchannel went from 4 to 5")),
        (REQUEST, 4096, 2048, None),
        (REQUEST, 4096, 8192, Some("ca_maxrequestsize of the backchannel went from 4096 to 8192")),
        (RESPONSE, 4096, 2048, None),
        (RESPONSE, 4096, 4097, Some("ca_maxresponsesize of the backchannel went from 4096 to 4097")),
        (RESPONSE, 4096, 4096, None),
    ];
    for (attribute, requested, granted, expected) in cases {
        let mut capture = basic();
        set_create_session(&mut capture, Side::Call, BACK + attribute, requested);
        set_create_session(&mut capture, Side::Reply, BACK + attribute, granted);
        let found = found(&capture, "reverse-attributes");
        let messages: Vec<&str> = found.iter().map(|finding| finding.message.as_str()).collect();
        assert_eq!(messages, expected.as_slice());
        assert!(found.iter().all(|finding| finding.by_requester == Some(false)));
    }
}

#[test]
fn callbacks_without_an_offer_are_one_finding() {
    let mut capture = recall();
    set_create_session(&mut capture, Side::Call, FLAGS, 0);
    set_create_session(&mut capture, Side::Reply, FLAGS, 0);
    let found = found(&capture, "reverse-before-offer");
    let [finding] = &found[..] else { panic!("{found:#?}") };
    assert_eq!(
        finding.message,
        "2 callbacks over a connection that a client of NFS version 4.1 never offered for them"
    );
    // The frames of the two calls, from the sample's manifest and the server's trace.
    assert_eq!(finding.frames, [132, 140]);
    assert_eq!(finding.by_requester, Some(false));
}

#[test]
fn null_call_of_the_nfs_program_needs_an_offer() {
    let mut capture = recall_by_null();
    assert!(found(&capture, "reverse-before-offer").is_empty(), "it was offered");
    set_create_session(&mut capture, Side::Call, FLAGS, 0);
    set_create_session(&mut capture, Side::Reply, FLAGS, 0);
    let messages =
        |capture| found(capture, "reverse-before-offer").into_iter().map(|finding| finding.message);
    let expected = "2 calls in the reverse direction over a connection that a client of NFS version 4.1 never offered for them";
    assert!(messages(&capture).eq([expected]));
    // Calls of an unknown program are not judged.
    for nth in 0..2 {
        let call = nth_callback(&capture, nth);
        let call = &mut capture.packets[call];
        call.set_u32(call.payload().start + 28 + 12, 100_001);
        call.seal();
    }
    assert!(found(&capture, "reverse-before-offer").is_empty());
}

#[test]
fn missing_offer_is_conclusive_only_without_loss() {
    let mut capture = recall();
    set_create_session(&mut capture, Side::Call, FLAGS, 0);
    set_create_session(&mut capture, Side::Reply, FLAGS, 0);
    let callback = nth_callback(&capture, 0);
    let calls = capture.packets[..callback]
        .iter()
        .filter(|packet| packet.source() == CLIENT && packet.starts_message());
    let lost: Vec<u64> = calls.map(|packet| packet.number).collect();
    assert!(lost.len() > 8);
    for lost in lost {
        let rest = mutate::keep(&capture, |packet| packet.number != lost);
        let found = found(&rest, "reverse-before-offer");
        assert!(
            found.iter().all(|finding| finding.verdict == Verdict::Inconclusive),
            "without {lost}: {found:#?}"
        );
    }
    let half = mutate::keep(&capture, |packet| packet.source() == SERVER || packet.cm_attribute().is_some());
    let found_in_half = found(&half, "reverse-before-offer");
    assert!(
        found_in_half.iter().all(|finding| finding.verdict == Verdict::Inconclusive),
        "{found_in_half:#?}"
    );
    let later = mutate::without_cm(&capture);
    assert!(found(&later, "reverse-before-offer").is_empty(), "the start of the connection is unknown");
}

/// The session without an offer, in which the client does not answer the callbacks.
#[test]
fn unanswered_callbacks_need_an_offer() {
    let mut capture = recall();
    set_create_session(&mut capture, Side::Call, FLAGS, 0);
    set_create_session(&mut capture, Side::Reply, FLAGS, 0);
    for nth in 0..2 {
        let answer = answer_of(&capture, nth_callback(&capture, nth));
        crate::header::withhold(&mut capture, answer);
    }
    let found = found(&capture, "reverse-before-offer");
    // Later packets of the client prove that no earlier ones are missing.
    assert_eq!(found.iter().map(|finding| finding.verdict).collect::<Vec<_>>(), [Verdict::Certain]);
}

/// A missing call may have been an offer, even if its reply is missing too.
#[test]
fn lost_exchange_may_have_been_an_offer() {
    let refused = TRIGGERS.iter().find(|trigger| trigger.rule == "reverse-after-refusal").unwrap();
    let mut declined = (refused.control)();
    (refused.alter)(&mut declined);
    let mut capture = recall();
    set_create_session(&mut capture, Side::Call, FLAGS, 0);
    set_create_session(&mut capture, Side::Reply, FLAGS, 0);
    for (capture, id) in [(capture, "reverse-before-offer"), (declined, "reverse-after-refusal")] {
        let (call, reply) = crate::header::exchanges(&capture)[6];
        let lost = [call, reply].map(|index| capture.packets[index].number);
        let rest = mutate::keep(&capture, |packet| !lost.contains(&packet.number));
        let verdicts: Vec<Verdict> = found(&rest, id).iter().map(|finding| finding.verdict).collect();
        assert_eq!(verdicts, [Verdict::Inconclusive], "{id}");
        assert!(
            found(&mutate::without_cm(&capture), id).is_empty(),
            "{id}: the start of the connection is unknown"
        );
    }
}

/// Callbacks up to the inline threshold fit inline; only longer ones need a chunk.
#[test]
fn long_callback_is_needed_above_the_inline_threshold() {
    let long = |size: u32| {
        let mut capture = recall();
        set_backchannel(&mut capture, REQUEST, size);
        make_long(&mut capture, 0, true);
        found(&capture, "reverse-long-message").len()
    };
    assert_eq!([4096, 4097].map(long), [1, 0]);
}

#[test]
fn offer_counts_from_its_call_on() {
    // The first callback comes before the reply to CREATE_SESSION, which is late enough.
    let mut capture = recall();
    let create = |capture: &Capture, side| {
        capture.packets.iter().position(|packet| sequence_of(packet, side).is_some())
    };
    let callback = nth_callback(&capture, 0);
    let reply = create(&capture, Side::Reply).unwrap();
    let psn = capture.packets[reply].psn();
    let moved = capture.packets[callback].psn();
    // The server's Sends stay in PSN order: the callback takes the PSN of the reply, and those in
    // between move up.
    mutate::each(&mut capture, |packet| {
        let of_server = (packet.source() == SERVER) != packet.is_response();
        if packet.is_rc() && of_server {
            let at = packet.psn();
            if at == moved {
                packet.set_psn(psn);
            } else if at.wrapping_sub(psn) % mutate::PSNS < moved.wrapping_sub(psn) % mutate::PSNS {
                packet.set_psn(at + 1);
            }
        }
    });
    mutate::reorder(&mut capture, callback, reply);
    assert!(nth_callback(&capture, 0) < create(&capture, Side::Reply).unwrap());
    assert_eq!(found(&capture, "reverse-before-offer").len(), 0);
    set_create_session(&mut capture, Side::Call, FLAGS, 0);
    assert_eq!(found(&capture, "reverse-before-offer").len(), 1);
}

#[test]
fn offer_after_the_callbacks_is_too_late() {
    let mut capture = recall();
    set_create_session(&mut capture, Side::Call, FLAGS, 0);
    set_create_session(&mut capture, Side::Reply, FLAGS, 0);
    // DESTROY_SESSION becomes BIND_CONN_TO_SESSION with CDFC4_FORE_OR_BOTH.
    let operation = |packet: &Packet| {
        let rpc = packet.payload().start + 28;
        rpc + arguments_of(packet, rpc) + 12
    };
    let destroys = |packet: &&mut Packet| {
        packet.source() == CLIENT
            && packet.starts_message()
            && packet.u32(packet.payload().start + 12 + 4) == 0
            && packet.u32(packet.payload().start + 28 + 4) == 0
            && packet.data.len() > operation(packet) + 20
            && packet.u32(operation(packet)) == 44
    };
    let destroy = capture.packets.iter_mut().find(destroys).expect("the session is destroyed");
    let frame = destroy.number;
    destroy.set_u32(operation(destroy), 41);
    let mut bytes = destroy.data[EXTENSION..destroy.payload().end].to_vec();
    bytes.extend([3, 0].map(u32::to_be_bytes).concat());
    destroy.set_after_bth(&bytes);
    let found = found(&capture, "reverse-before-offer");
    let [finding] = &found[..] else { panic!("{found:#?}") };
    assert_eq!(finding.message, "2 callbacks over a connection before the client offered it for them");
    assert_eq!((finding.verdict, &finding.frames[..]), (Verdict::Certain, &[132, 140, frame][..]));
}

#[test]
fn limits_of_the_backchannel_are_exact() {
    let mut capture = recall();
    let callback = &capture.packets[nth_callback(&capture, 0)];
    let length = callback.payload().len() as u32 - 28;
    set_backchannel(&mut capture, REQUEST, length);
    set_backchannel(&mut capture, OPERATIONS, 2);
    assert!(found(&capture, "reverse-size").is_empty() && found(&capture, "reverse-operations").is_empty());
    set_backchannel(&mut capture, REQUEST, length - 1);
    assert!(!found(&capture, "reverse-size").is_empty());
    set_backchannel(&mut capture, REQUEST, 4096);
    set_backchannel(&mut capture, RESPONSE, 64);
    let found = found(&capture, "reverse-size");
    assert!(found.iter().all(|finding| finding.by_requester == Some(true)) && found.len() == 2, "{found:#?}");
}

#[test]
fn session_of_another_connection_has_no_known_limits() {
    let mut capture = recall();
    set_backchannel(&mut capture, OPERATIONS, 1);
    // An unreadable call may have bound the connection to another session.
    assert!(!found(&capture, "reverse-operations").is_empty());
    let create = capture.packets.iter().position(|packet| sequence_of(packet, Side::Call).is_some()).unwrap();
    let next = capture.packets[create + 1..]
        .iter_mut()
        .find(|packet| packet.source() == CLIENT && packet.starts_message());
    let next = next.unwrap();
    let rpc = next.payload().start + 28;
    let count = rpc + arguments_of(next, rpc) + 8;
    next.set_u32(count, 40);
    next.seal();
    assert!(found(&capture, "reverse-operations").is_empty());
}

#[test]
fn long_callback_that_the_client_reads_is_no_fault() {
    let mut capture = with_long_calls();
    make_long(&mut capture, 0, true);
    let found: Vec<Finding> =
        findings(&capture).into_iter().filter(|finding| rule(finding).id.starts_with("reverse")).collect();
    assert!(found.is_empty(), "{found:#?}");
    // If the capture lacks the READ request, it is unknown whether the client read the call.
    let callback = nth_callback(&capture, 0);
    let lost = [capture.packets[callback + 1].number, capture.packets[callback + 2].number];
    let rest = mutate::keep(&capture, |packet| !lost.contains(&packet.number));
    let found = self::found(&rest, "reverse-chunks-unread");
    let verdicts: Vec<Verdict> = found.iter().map(|finding| finding.verdict).collect();
    assert_eq!(verdicts, [Verdict::Inconclusive], "{found:#?}");
}

#[test]
fn credits_of_the_reverse_direction_are_judged_separately() {
    let mut capture = recall();
    let answer = answer_of(&capture, nth_callback(&capture, 0));
    let answer = &mut capture.packets[answer];
    answer.set_u32(answer.payload().start + 8, 0);
    answer.seal();
    let found = found(&capture, "credit-grant-zero");
    let [finding] = &found[..] else { panic!("{found:#?}") };
    assert_eq!((finding.direction, finding.by_requester), (Some(Direction::Backward), Some(true)));
}
