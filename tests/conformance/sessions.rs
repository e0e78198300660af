//! Triggers and tests of sessions, slots and callbacks.

use crate::chunks::{arguments_at, change_call, change_reply, large, results_at, send_of};
use crate::header::{basic, exchanges, found, withhold};
use crate::{By, Trigger, shown};
use rdmascope_conformance::{Finding, Value, Verdict};
use rdmascope_tests::judged::line;
use rdmascope_tests::mutate::{self, CLIENT, Message, SERVER, opcode};
use rdmascope_tests::pcap::{Capture, Packet};
use rdmascope_tests::samples;

pub(crate) const TRIGGERS: &[Trigger] = &[
    Trigger {
        rule: "session-result",
        alteration: "the result of SEQUENCE is that for the next slot",
        control: basic,
        alter: |capture| add_to_result(capture, ACCESS, SLOT, 1),
        also: &[],
        shows: shown(By::Responder, &[974, 976], "1", "0"),
    },
    Trigger {
        rule: "session-result",
        alteration: "the result of SEQUENCE is that for the next sequence ID",
        control: basic,
        alter: |capture| add_to_result(capture, ACCESS, NUMBER, 1),
        also: &[],
        shows: shown(By::Responder, &[974, 976], "151", "150"),
    },
    Trigger {
        rule: "session-result",
        alteration: "the result of SEQUENCE is that for another session",
        control: basic,
        alter: |capture| add_to_result(capture, ACCESS, 0, 1),
        also: &[],
        shows: shown(By::Responder, &[974, 976], "", ""),
    },
    Trigger {
        rule: "session-slot",
        alteration: "a call uses slot 64 of a session with 30 slots",
        control: basic,
        alter: |capture| {
            set_call(capture, ACCESS, SLOT, 64);
            refuse(capture, ACCESS, 10053);
        },
        also: &[],
        shows: shown(By::Requester, &[22, 974], "64", "29"),
    },
    Trigger {
        rule: "session-slot",
        alteration: "a callback uses slot 64 of a backchannel with 16 slots",
        control: recall,
        alter: |capture| {
            set_callback(capture, RECALL, SLOT, 64);
            let answer = send_of(capture, CLIENT, RECALL);
            mutate::change_message(&mut capture.packets[answer], |reply| fail(reply, 11, 10053));
        },
        also: &[],
        shows: shown(By::Responder, &[22, 132], "64", "15"),
    },
    Trigger {
        rule: "session-sequence",
        alteration: "the sequence ID of a call is 100 more",
        control: basic,
        alter: |capture| add_to_call(capture, ACCESS, NUMBER, 100),
        also: &[],
        shows: shown(By::Requester, &[970, 974, 976, 982], "250", "150"),
    },
    Trigger {
        rule: "session-sequence",
        alteration: "the sequence ID of a call is 4 less",
        control: basic,
        alter: |capture| add_to_call(capture, ACCESS, NUMBER, u32::MAX - 3),
        also: &[],
        shows: shown(By::Requester, &[970, 974, 976], "146", "150"),
    },
    Trigger {
        rule: "session-sequence",
        alteration: "a call has the sequence ID of the one before it, and other operations",
        control: basic,
        alter: |capture| add_to_call(capture, ACCESS, NUMBER, u32::MAX),
        also: &[],
        shows: shown(By::Requester, &[970, 974, 976], "149", "150"),
    },
    Trigger {
        rule: "session-sequence",
        alteration: "the sequence IDs skip 3, and the server refuses the first with NFS4ERR_SEQ_MISORDERED",
        control: basic,
        alter: |capture| {
            let first = Message::of(&capture.packets[send_of(capture, CLIENT, ACCESS)]);
            let from = sequence_of(&first)[0];
            each_call(capture, |message, at| {
                if message.word(at + NUMBER) >= from {
                    message.set_word(at + NUMBER, message.word(at + NUMBER) + 3);
                }
            });
            refuse(capture, ACCESS, 10063);
        },
        also: &[],
        shows: shown(By::Requester, &[970, 974, 976], "153", "150"),
    },
    Trigger {
        rule: "session-sequence",
        alteration: "a call has the sequence ID of the one before it, and the server refuses it with NFS4ERR_SEQ_FALSE_RETRY",
        control: basic,
        alter: |capture| {
            add_to_call(capture, ACCESS, NUMBER, u32::MAX);
            refuse(capture, ACCESS, 10076);
        },
        also: &[],
        shows: shown(By::Requester, &[970, 974, 976], "149", "150"),
    },
    Trigger {
        rule: "session-sequence",
        alteration: "the second callback has a sequence ID that is one less than that of the first",
        control: recall,
        alter: |capture| add_to_callback(capture, SECOND_RECALL, NUMBER, u32::MAX - 1),
        also: &[],
        shows: shown(By::Responder, &[132, 140, 142], "0", "2"),
    },
    Trigger {
        rule: "session-sequence-first",
        alteration: "a COMPOUND with PUTFH and two other operations has no SEQUENCE",
        control: basic,
        alter: |capture| {
            // After tag, minor version and count: the number and 32 bytes of arguments.
            change_call(capture, ACCESS, |call| {
                let count = arguments_at(call) + 8;
                call.set_word(count, call.word(count) - 1);
                call.payload.drain(count + 4..count + 40);
            });
            // After status, tag and count: number, status and 36 bytes of results.
            change_reply(capture, ACCESS, |reply| {
                let count = results_at(reply) + 8;
                reply.set_word(count, reply.word(count) - 1);
                reply.payload.drain(count + 4..count + 48);
            });
        },
        also: &[],
        shows: None,
    },
    Trigger {
        rule: "session-slot-busy",
        alteration: "a READ uses the slot of the READ before it, which is answered later",
        control: large,
        alter: |capture| {
            let [number, slot] =
                sequence_of(&Message::of(&capture.packets[send_of(capture, CLIENT, SLOW_READ)]));
            set_call(capture, FAST_READ, SLOT, slot);
            set_call(capture, FAST_READ, NUMBER, number + 1);
        },
        // Another READ has the same sequence ID.
        also: &["session-sequence"],
        shows: shown(By::Requester, &[1330, 1332, 1405, 1486], "2", "1"),
    },
    Trigger {
        rule: "session-status-flags",
        alteration: "a reply sets SEQ4_STATUS_CB_PATH_DOWN",
        control: basic,
        alter: |capture| set_flags(capture, ACCESS, 1),
        also: &[],
        shows: shown(By::Responder, &[976], "1", ""),
    },
    Trigger {
        rule: "session-callback-unanswered",
        alteration: "the client does not answer the second callback",
        control: recall,
        alter: |capture| {
            let answer = send_of(capture, CLIENT, SECOND_RECALL);
            withhold(capture, answer);
        },
        also: &[],
        shows: shown(By::Requester, &[140], "", ""),
    },
    Trigger {
        rule: "session-offload-unreported",
        alteration: "the CB_OFFLOAD for an asynchronous COPY is not sent",
        control: large,
        alter: without_offload,
        also: &[],
        shows: shown(By::Responder, &[1993, 1995], "", ""),
    },
];

/// An ACCESS in the basic session, which has one call at a time on slot 0.
const ACCESS: u32 = 0xcdfc_0516;
/// Concurrent READs: the first one is answered after the second.
const SLOW_READ: u32 = 0xfd8a_5ddc;
const FAST_READ: u32 = 0xfe8a_5ddc;
/// The callbacks of the recall session.
pub(crate) const RECALL: u32 = 0x9822_c050;
const SECOND_RECALL: u32 = 0x9922_c050;
/// The CB_OFFLOAD of the large session.
const OFFLOAD: u32 = 0x7314_2bc3;

/// Offsets in the arguments of SEQUENCE, after the session ID.
const NUMBER: usize = 16;
const SLOT: usize = 20;

pub(crate) fn recall() -> Capture {
    samples::capture("nfs4.1-backchannel-recall")
}

/// The offset of the arguments of SEQUENCE, after an empty tag, the minor version, the count and
/// the operation.
pub(crate) fn sequence_at(call: &Message) -> usize {
    let at = arguments_at(call);
    assert_eq!((call.word(at), call.word(at + 12)), (0, 53), "it begins with SEQUENCE");
    at + 16
}

/// Sequence ID and slot ID.
fn sequence_of(call: &Message) -> [u32; 2] {
    [NUMBER, SLOT].map(|field| call.word(sequence_at(call) + field))
}

fn set_call(capture: &mut Capture, xid: u32, field: usize, value: u32) {
    change_call(capture, xid, |call| call.set_word(sequence_at(call) + field, value));
}

fn add_to_call(capture: &mut Capture, xid: u32, field: usize, value: u32) {
    change_call(capture, xid, |call| {
        let at = sequence_at(call) + field;
        call.set_word(at, call.word(at).wrapping_add(value));
    });
}

/// The same for a callback, which has callback_ident before the count.
fn add_to_callback(capture: &mut Capture, xid: u32, field: usize, value: u32) {
    let index = send_of(capture, SERVER, xid);
    mutate::change_message(&mut capture.packets[index], |call| {
        let at = arguments_at(call);
        assert_eq!(call.word(at + 16), 11, "it begins with CB_SEQUENCE");
        call.set_word(at + 20 + field, call.word(at + 20 + field).wrapping_add(value));
    });
}

fn set_callback(capture: &mut Capture, xid: u32, field: usize, value: u32) {
    let index = send_of(capture, SERVER, xid);
    mutate::change_message(&mut capture.packets[index], |call| {
        let at = arguments_at(call);
        call.set_word(at + 20 + field, value);
    });
}

/// Changes every inline call that begins with SEQUENCE. `change` gets the offset of its arguments.
fn each_call(capture: &mut Capture, mut change: impl FnMut(&mut Message, usize)) {
    let calls = capture.packets.iter().enumerate().filter(|(_, packet)| {
        packet.starts_message() && packet.source() == CLIENT && packet.data.len() > 200
    });
    let calls: Vec<usize> = calls.map(|(index, _)| index).collect();
    for index in calls {
        let call = Message::of(&capture.packets[index]);
        if call.payload.len() < 80 || call.word(4) != 0 || call.word(20) != 1 {
            continue;
        }
        let at = arguments_at(&call);
        if (call.word(at), call.word(at + 12)) == (0, 53) {
            mutate::change_message(&mut capture.packets[index], |call| change(call, at + 16));
        }
    }
}

/// Makes SEQUENCE fail with a status.
fn refuse(capture: &mut Capture, xid: u32, status: u32) {
    change_reply(capture, xid, |reply| fail(reply, 53, status));
}

/// Replaces the results by status, tag and one result: `operation` and its status.
fn fail(reply: &mut Message, operation: u32, status: u32) {
    let at = results_at(reply);
    reply.payload.truncate(at);
    reply.payload.extend([status, 0, 1, operation, status].map(u32::to_be_bytes).concat());
}

/// Changes a field in the result of SEQUENCE, which follows status, tag, count, operation and its
/// status.
fn add_to_result(capture: &mut Capture, xid: u32, field: usize, value: u32) {
    change_reply(capture, xid, |reply| {
        let at = results_at(reply) + 20 + field;
        reply.set_word(at, reply.word(at).wrapping_add(value));
    });
}

/// Sets sr_status_flags, after status, tag, count, operation and its status, session ID, and four
/// words.
fn set_flags(capture: &mut Capture, xid: u32, flags: u32) {
    change_reply(capture, xid, |reply| reply.set_word(results_at(reply) + 20 + 16 + 16, flags));
}

fn without_offload(capture: &mut Capture) {
    let answer = send_of(capture, CLIENT, OFFLOAD);
    withhold(capture, answer);
    let call = send_of(capture, SERVER, OFFLOAD);
    withhold(capture, call);
}

/// The verdicts of the findings of these rules.
fn verdicts(capture: &Capture, prefix: &str) -> Vec<Verdict> {
    found(capture, prefix).iter().map(|finding| finding.verdict).collect()
}

/// RFC 8881, section 2.10.6.1.3.1: a replier that does not recognize a false retry returns the reply
/// that it keeps.
#[test]
fn kept_reply_to_another_request_is_no_fault_of_the_server() {
    let mut capture = basic();
    // Status, empty tag, count, and SEQUENCE with 44 bytes precede the result of PUTFH, which becomes
    // one of PUTROOTFH.
    change_reply(&mut capture, ACCESS, |reply| reply.set_word(results_at(reply) + 12 + 44, 24));
    assert_eq!(verdicts(&capture, "compound-results"), [Verdict::Certain]);
    add_to_call(&mut capture, ACCESS, NUMBER, u32::MAX);
    assert_eq!(verdicts(&capture, "compound-results"), []);
}

/// If one packet of the client is missing as well, the requests in between are unknown.
#[test]
fn missing_call_skips_no_sequence_id() {
    let original = basic();
    let exchanges = exchanges(&original).into_iter().enumerate();
    for (_, (call, _)) in exchanges.filter(|(index, _)| *index < 9 || index % 9 == 0) {
        let number = original.packets[call].number;
        let rest = mutate::keep(&original, |packet| packet.number != number);
        let found = found(&rest, "session-s");
        assert!(found.is_empty(), "without {number}: {:?}", found.iter().map(line).collect::<Vec<_>>());
    }
}

/// A call that the snap length cut may have the sequence ID in between.
#[test]
fn truncated_call_skips_no_sequence_id() {
    let original = basic();
    let call = send_of(&original, CLIENT, ACCESS);
    let message = Message::of(&original.packets[call]);
    let start = original.packets[call].payload().end - message.payload.len();
    // Within the procedure; before the minor version; before the operations; before the end of
    // SEQUENCE.
    for kept in [20, arguments_at(&message) + 4, arguments_at(&message) + 8, sequence_at(&message) + 20] {
        let mut capture = original.clone();
        capture.packets[call].data.truncate(start + kept);
        let found = found(&capture, "session-s");
        assert!(found.is_empty(), "{kept} bytes: {:?}", found.iter().map(line).collect::<Vec<_>>());
    }
}

/// Requests in between may have been sent over another connection of the session that was not
/// captured.
#[test]
fn skipped_sequence_ids_are_inconclusive() {
    let mut capture = basic();
    let first = Message::of(&capture.packets[send_of(&capture, CLIENT, ACCESS)]);
    let from = sequence_of(&first)[0];
    each_call(&mut capture, |message, at| {
        if message.word(at + NUMBER) >= from {
            message.set_word(at + NUMBER, message.word(at + NUMBER) + 3);
        }
    });
    assert_eq!(verdicts(&capture, "session-sequence"), [Verdict::Inconclusive]);
}

/// Without replies, requests may have been refused. A client may then try lower sequence IDs.
#[test]
fn lower_sequence_ids_without_replies_are_inconclusive() {
    let mut capture = basic();
    add_to_call(&mut capture, ACCESS, NUMBER, u32::MAX - 3);
    assert_eq!(verdicts(&capture, "session-sequence"), [Verdict::Certain]);
    let one_way = mutate::keep(&capture, |packet| packet.source() == CLIENT);
    let verdicts = verdicts(&one_way, "session-sequence");
    assert!(!verdicts.is_empty(), "it is reported");
    assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Inconclusive), "{verdicts:?}");
}

/// Two connections take turns and only one was captured; and a session with more slots than the
/// capture shows.
#[test]
fn requests_on_another_connection_are_inconclusive() {
    let mut capture = basic();
    each_call(&mut capture, |message, at| {
        message.set_word(at + NUMBER, message.word(at + NUMBER) * 2 - 1);
    });
    let verdicts = verdicts(&capture, "session-sequence");
    assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Inconclusive), "{verdicts:?}");
    assert_eq!(verdicts.len(), 1, "one per slot");
    // A refusal by the replier proves that the order is wrong.
    refuse(&mut capture, ACCESS, 10063);
    assert!(self::verdicts(&capture, "session-sequence").contains(&Verdict::Certain));
    let mut capture = basic();
    set_call(&mut capture, ACCESS, SLOT, 64);
    assert_eq!(self::verdicts(&capture, "session-slot"), [Verdict::Inconclusive]);
}

/// A retransmitted call has the sequence ID of the original.
#[test]
fn retransmitted_call_keeps_its_sequence_id() {
    let mut capture = basic();
    mutate::again(&mut capture, ACCESS, 2);
    assert!(found(&capture, "session-sequence").is_empty());
}

/// If SEQUENCE fails, the slot does not change.
#[test]
fn refused_request_does_not_use_its_sequence_id() {
    let mut capture = basic();
    let first = Message::of(&capture.packets[send_of(&capture, CLIENT, ACCESS)]);
    let from = sequence_of(&first)[0];
    // NFS4ERR_DELAY; the sequence IDs of all later calls are one lower.
    refuse(&mut capture, ACCESS, 10008);
    each_call(&mut capture, |message, at| {
        if message.word(at + NUMBER) > from {
            message.set_word(at + NUMBER, message.word(at + NUMBER) - 1);
        }
    });
    assert!(found(&capture, "session-sequence").is_empty());
}

/// Each flag is reported once, with the number of replies that set it, the first and the last of
/// them.
#[test]
fn status_flags_are_counted() {
    let mut capture = basic();
    let [first, between, last] = [ACCESS, ACCESS + 0x0100_0000, ACCESS + 0x0200_0000];
    set_flags(&mut capture, first, 1);
    set_flags(&mut capture, between, 1 | 1 << 6);
    set_flags(&mut capture, last, 1 | 1 << 31);
    let [first, between, last] =
        [first, between, last].map(|xid| capture.packets[send_of(&capture, SERVER, xid)].number);
    let found = found(&capture, "session-status-flags");
    let reported: Vec<_> = found.iter().map(|finding| (&finding.message[..], &finding.frames[..])).collect();
    assert_eq!(
        reported,
        [
            ("3 SEQUENCE results have SEQ4_STATUS_CB_PATH_DOWN", &[first, last][..]),
            ("a SEQUENCE result has SEQ4_STATUS_RECALLABLE_STATE_REVOKED", &[between]),
            ("a SEQUENCE result has the unknown flag 0x80000000", &[last]),
        ]
    );
    assert_eq!(found[0].observed, Some(Value::Count(3)));
}

/// A call that begins with SEQUENCE: its XID, and the indices of the call and its reply.
type Sequenced = (u32, usize, usize);

fn sequenced(capture: &Capture) -> Vec<Sequenced> {
    let mut calls = Vec::new();
    for (call, packet) in capture.packets.iter().enumerate() {
        if !packet.starts_message() || packet.source() != CLIENT || packet.opcode() != opcode::SEND_ONLY {
            continue;
        }
        let message = Message::of(packet);
        let is_compound = message.procedure == 0 && message.payload.len() > 80 && message.word(20) == 1;
        let at = if is_compound { arguments_at(&message) } else { continue };
        let answers = |packet: &Packet| packet.source() == SERVER && packet.xid() == Some(message.xid);
        if let Some(reply) = capture.packets.iter().position(answers)
            && (message.word(at), message.word(at + 12)) == (0, 53)
        {
            calls.push((message.xid, call, reply));
        }
    }
    calls
}

/// Two calls: the second was sent before the first was answered, and was answered later.
fn side_by_side(capture: &Capture) -> Option<[Sequenced; 2]> {
    let calls = sequenced(capture);
    let is_pair = |[first, second]: &[Sequenced; 2]| {
        first.1 < second.1 && second.1 + 64 < first.2 && first.2 < second.2
    };
    calls.iter().flat_map(|first| calls.iter().map(|second| [*first, *second])).find(is_pair)
}

/// The order in a capture shows that a request preceded the reply to another one only if they are
/// far apart.
#[test]
fn busy_slot_is_conclusive_only_for_distant_packets() {
    let original = large();
    let [first, second] = side_by_side(&original).expect("it has calls side by side");
    let [number, slot] = sequence_of(&Message::of(&original.packets[first.1]));
    for (is_close, verdict) in [(true, Verdict::Inconclusive), (false, Verdict::Certain)] {
        // The packets after the second call follow at once, or 3 ms later than before.
        let mut capture = original.clone();
        set_call(&mut capture, second.0, SLOT, slot);
        set_call(&mut capture, second.0, NUMBER, number + 1);
        let time = capture.packets[second.1].time;
        for packet in &mut capture.packets[second.1 + 1..] {
            packet.time = if is_close { time + 1 } else { packet.time + 3_000_000 };
        }
        let frames = [first.1, second.1, first.2].map(|index| capture.packets[index].number);
        let found = found(&capture, "session-slot-busy");
        let of_both = |finding: &&Finding| frames.iter().all(|frame| finding.frames.contains(frame));
        let busy = found.iter().find(of_both).unwrap_or_else(|| panic!("{frames:?} in {found:?}"));
        assert_eq!(busy.verdict, verdict, "{}", line(busy));
    }
}

/// The highest slot may be used. So may a slot above a limit that the server lowered for a while.
#[test]
fn slot_dropped_by_the_server_starts_again() {
    let mut highest = basic();
    set_call(&mut highest, ACCESS, SLOT, 29);
    assert!(found(&highest, "session-slot").is_empty());

    let original = large();
    let calls = sequenced(&original);
    let is_on_slot = |call: &&Sequenced| sequence_of(&Message::of(&original.packets[call.1]))[1] == 1;
    let on_slot: Vec<u32> = calls.iter().filter(is_on_slot).map(|call| call.0).collect();
    let (_, later) = on_slot.split_at(on_slot.len() / 2);
    let [.., last] = later else { panic!("slot 1 is used") };
    let mut capture = original.clone();
    (1..).zip(later).for_each(|(number, xid)| set_call(&mut capture, *xid, NUMBER, number));
    assert!(verdicts(&capture, "session-sequence").contains(&Verdict::Certain), "its sequence IDs go back");
    // sr_highest_slotid and sr_target_highest_slotid of the first reply.
    change_reply(&mut capture, calls[0].0, |reply| {
        [8, 12].into_iter().for_each(|field| reply.set_word(results_at(reply) + 36 + field, 0));
    });
    assert!(found(&capture, "session-s").is_empty());
    // From then on the slot is tracked as before.
    set_call(&mut capture, *last, NUMBER, 100);
    refuse(&mut capture, *last, 10063);
    assert_eq!(verdicts(&capture, "session-sequence"), [Verdict::Certain]);
}

/// Sets csr_fore_chan_attrs.ca_maxrequests in the result of CREATE_SESSION.
fn set_most_requests(capture: &mut Capture, most: u32) {
    let creates = |packet: &Packet| {
        packet.source() == SERVER && packet.starts_message() && {
            let reply = Message::of(packet);
            // REPLY, no verifier, SUCCESS, NFS4_OK, no tag, one operation.
            let fields = [(4, 1), (24, 0), (28, 0), (32, 1), (36, 43)];
            reply.payload.len() > 100 && fields.into_iter().all(|(at, word)| reply.word(at) == word)
        }
    };
    let at = capture.packets.iter().position(creates).expect("it creates a session");
    mutate::change_message(&mut capture.packets[at], |reply| {
        reply.set_word(results_at(reply) + 64, most);
    });
}

/// Sessions may have more slots than are tracked. Of slots with equal remainders, only the last one
/// used is tracked.
#[test]
fn slots_of_large_tables_are_tracked() {
    let mut capture = basic();
    set_most_requests(&mut capture, 2000);
    // 2000 is not the highest slot ID, which counts from 0.
    set_call(&mut capture, ACCESS, SLOT, 2000);
    assert_eq!(verdicts(&capture, "session-slot"), [Verdict::Inconclusive]);
    set_call(&mut capture, ACCESS, SLOT, 0);
    each_call(&mut capture, |call, at| call.set_word(at + SLOT, call.word(at + SLOT) + 1900));
    assert!(found(&capture, "session-s").is_empty());
    let mut wrong = capture.clone();
    add_to_call(&mut wrong, ACCESS, NUMBER, u32::MAX - 3);
    let found = found(&wrong, "session-s");
    let [finding] = &found[..] else { panic!("{found:?}") };
    assert_eq!((finding.verdict, &finding.frames[..]), (Verdict::Certain, &[970, 974, 976][..]));
    assert_eq!(finding.message, "sequence ID 146 on slot 1900 after 149");
    // Slots 1900 and 364 take turns with separate sequence IDs. Only the last one used is tracked.
    let mut calls = 0;
    each_call(&mut capture, |call, at| {
        if call.word(at + SLOT) == 1900 {
            call.set_word(at + SLOT, if calls % 2 == 0 { 1900 } else { 364 });
            call.set_word(at + NUMBER, calls / 2 + 1);
            calls += 1;
        }
    });
    assert!(self::found(&capture, "session-s").is_empty());
}

/// The first request on a slot has sequence ID 1.
#[test]
fn first_request_of_a_session_has_sequence_id_1() {
    let mut capture = basic();
    let mut first = None;
    each_call(&mut capture, |call, at| {
        if first.is_none() {
            call.set_word(at + NUMBER, 5);
            first = Some(call.xid);
        }
    });
    let xid = first.expect("it has SEQUENCE");
    refuse(&mut capture, xid, 10063);
    // It did not use the slot, so the next request skips the first sequence ID, which may have been
    // used elsewhere.
    let found = found(&capture, "session-sequence");
    let mut conclusive = found.iter().filter(|finding| finding.verdict == Verdict::Certain);
    let finding = conclusive.next().expect("it is found");
    assert_eq!(conclusive.count(), 0);
    let frames = [CLIENT, SERVER].map(|host| capture.packets[send_of(&capture, host, xid)].number);
    assert_eq!(finding.frames, frames);
    assert_eq!(finding.message, "sequence ID 5 on slot 0 after 0");
    assert_eq!((&finding.observed, &finding.allowed), (&Some(Value::Count(5)), &Some(Value::Count(1))));
}

#[test]
fn reported_or_abandoned_offload_gives_no_finding() {
    assert!(found(&large(), "session-offload").is_empty());
    // Any missing packet may be the one that reports, cancels or asks for it.
    let mut altered = large();
    without_offload(&mut altered);
    let copy = send_of(&altered, SERVER, 0x0c8b_5ddc);
    for lost in copy + 1..altered.packets.len() - 4 {
        let number = altered.packets[lost].number;
        if altered.packets[lost].is_response() {
            continue;
        }
        let rest = mutate::keep(&altered, |packet| packet.number != number);
        assert!(!verdicts(&rest, "session-offload").contains(&Verdict::Certain), "without {number}");
    }
    // If the session continues, CB_OFFLOAD may come over the next connection.
    let destroy = send_of(&altered, CLIENT, 0x158b_5ddc);
    let mut alive = altered.clone();
    mutate::change_message(&mut alive.packets[destroy], |call| {
        let at = arguments_at(call);
        call.set_word(at + 12, 45);
    });
    change_reply(&mut alive, 0x158b_5ddc, |reply| reply.set_word(results_at(reply) + 12, 45));
    assert_eq!(verdicts(&alive, "session-offload"), [Verdict::Inconclusive]);
}

/// The snap length cuts the stateid in CB_OFFLOAD.
#[test]
fn truncated_offload_report_gives_no_violation() {
    let session = samples::capture("nfs4.2-directories");
    for length in (240..320).step_by(8) {
        let found = verdicts(&mutate::cut(&session, length), "session-offload");
        assert!(!found.contains(&Verdict::Certain), "{length}");
    }
}

/// CB_OFFLOAD may come over another connection of the session.
#[test]
fn offload_may_be_reported_over_another_connection() {
    let mut altered = large();
    without_offload(&mut altered);
    assert_eq!(verdicts(&altered, "session-offload"), [Verdict::Certain]);
    let mut other = large();
    [(SERVER, 0x701), (CLIENT, 0x702)]
        .into_iter()
        .for_each(|(host, qp)| mutate::renumber_qp(&mut other, host, qp));
    mutate::change_communication_ids(&mut other, 0x5a00_0000);
    let both = mutate::merge(&altered, &other);
    assert!(found(&both, "session-offload").is_empty());
    // The capture lacks its answer, so the callback is incomplete when the first connection ends.
    let is_answer = |packet: &&Packet| {
        packet.source() == CLIENT && packet.starts_message() && packet.xid() == Some(OFFLOAD)
    };
    let answer = both.packets.iter().find(is_answer).expect("the other connection has it").number;
    let lacking = mutate::keep(&both, |packet| packet.number != answer);
    assert!(!verdicts(&lacking, "session-offload").contains(&Verdict::Certain));
    // It only reports the operation that it names.
    let mut unlike = both.clone();
    let is_callback = |packet: &Packet| {
        packet.source() == SERVER && packet.starts_message() && packet.xid() == Some(OFFLOAD)
    };
    for packet in unlike.packets.iter_mut().filter(|packet| is_callback(packet)) {
        mutate::change_message(packet, |call| {
            // CB_OFFLOAD with a file handle and the stateid (seqid and other).
            let mut words = (arguments_at(call)..call.payload.len() - 4).step_by(4);
            let is_offload = |at: &usize| call.word(*at) == 15 && matches!(call.word(at + 4), 1..=128);
            let at = words.find(is_offload).expect("it has CB_OFFLOAD");
            let other = at + 8 + call.word(at + 4) as usize + 4;
            call.set_word(other, !call.word(other));
        });
    }
    let verdicts = verdicts(&unlike, "session-offload");
    assert!(verdicts.contains(&Verdict::Certain), "{verdicts:?}");
}

/// If packets of either host before or after the callback are missing, it is uncertain that the
/// callback was unanswered.
#[test]
fn unanswered_callback_is_conclusive_only_without_loss() {
    let mut original = recall();
    let answer = send_of(&original, CLIENT, SECOND_RECALL);
    withhold(&mut original, answer);
    assert_eq!(verdicts(&original, "session-callback"), [Verdict::Certain]);
    let callback = send_of(&original, SERVER, SECOND_RECALL);
    let is_call = |packet: &Packet, host| packet.source() == host && packet.starts_message();
    let before = original.packets[..callback].iter().rfind(|packet| is_call(packet, CLIENT));
    let after = original.packets[callback + 1..].iter().find(|packet| is_call(packet, SERVER));
    for lost in [before, after].map(|packet| packet.expect("the session goes on").number) {
        let found = found(&mutate::keep(&original, |packet| packet.number != lost), "session-callback");
        let [finding] = &found[..] else { panic!("without {lost}: {found:?}") };
        assert_eq!(finding.verdict, Verdict::Inconclusive, "without {lost}: {}", line(finding));
        assert_eq!(finding.message, "the connection was closed while a callback was outstanding");
        assert_eq!(
            (finding.by_requester, &finding.frames[..]),
            (Some(true), &[original.packets[callback].number][..])
        );
    }
}

#[test]
fn missing_answer_to_a_callback_is_no_violation() {
    let original = recall();
    let answer = original.packets[send_of(&original, CLIENT, SECOND_RECALL)].number;
    let rest = mutate::keep(&original, |packet| packet.number != answer);
    assert!(!verdicts(&rest, "session-callback").contains(&Verdict::Certain));
}

/// CB_NULL and the callbacks of minor version 0 belong to no session (RFC 7531).
#[test]
fn callback_without_a_session_is_judged_as_a_call() {
    let mut capture = recall();
    crate::chunks::change(&mut capture, SERVER, SECOND_RECALL, |call| {
        let arguments = crate::chunks::arguments_at(call);
        call.payload.truncate(arguments);
        call.set_word(20, 0);
    });
    let answer = send_of(&capture, CLIENT, SECOND_RECALL);
    withhold(&mut capture, answer);
    let rules = |prefix| crate::header::found(&capture, prefix).len();
    assert_eq!([rules("session-callback"), rules("rpc-call-unanswered")], [0, 1]);
}
