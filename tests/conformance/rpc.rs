//! Triggers and tests of RPC.

use crate::body::getattr;
use crate::chunks::{EXCHANGE_ID, WRITE, change_call, change_reply, large, send_of, version_3};
use crate::header::{basic, connection, exchange, exchanges, found, insert, set_word, withhold, words};
use crate::samples::is_new_violation;
use crate::{By, Trigger, shown};
use rdmascope_conformance::{Finding, Verdict};
use rdmascope_tests::judged::{line, rule};
use rdmascope_tests::mutate::{self, CLIENT, SERVER, opcode};
use rdmascope_tests::pcap::{Capture, Packet};
use rdmascope_tests::samples;

pub(crate) const TRIGGERS: &[Trigger] = &[
    Trigger {
        rule: "rpc-xid-reused",
        alteration: "a call is sent again with another procedure before its reply comes",
        control: nfs3,
        alter: |capture| repeat_call(capture, |bytes| bytes[28 + 23] ^= 3),
        also: &[],
        shows: shown(By::Requester, &[370, 371], "", ""),
    },
    Trigger {
        rule: "rpc-xid-reused",
        alteration: "a WRITE with a Read chunk is sent again with another offset before its reply comes",
        control: large,
        alter: |capture| {
            let call = send_of(capture, CLIENT, WRITE);
            let packet = &capture.packets[call];
            let mut bytes = packet.data[packet.payload()].to_vec();
            // Stateid, offset, stable_how and count, then the data, whose bytes are not in the
            // Send.
            let count = bytes.len() - 20;
            bytes[count - 8] ^= 1;
            insert(capture, call, CLIENT, opcode::SEND_ONLY, &bytes);
        },
        also: &[],
        shows: shown(By::Requester, &[82, 83], "", ""),
    },
    Trigger {
        rule: "rpc-call-repeated",
        alteration: "an NFSv3 call is sent again before its reply comes",
        control: nfs3,
        alter: |capture| repeat_call(capture, |_| {}),
        also: &[],
        shows: shown(By::Requester, &[370, 371], "", ""),
    },
    Trigger {
        rule: "rpc-nfs4-call-repeated",
        alteration: "an NFSv4.1 COMPOUND is sent again before its reply comes",
        control: basic,
        alter: |capture| repeat_call(capture, |_| {}),
        also: &[],
        shows: shown(By::Requester, &[382, 383], "", ""),
    },
    Trigger {
        rule: "rpc-nfs4-call-repeated",
        alteration: "a WRITE with a Read chunk is sent again byte for byte before its reply comes",
        control: large,
        alter: |capture| {
            let call = send_of(capture, CLIENT, WRITE);
            let packet = &capture.packets[call];
            let bytes = packet.data[packet.payload()].to_vec();
            insert(capture, call, CLIENT, opcode::SEND_ONLY, &bytes);
        },
        also: &[],
        shows: shown(By::Requester, &[82, 83], "", ""),
    },
    Trigger {
        rule: "rpc-reply-without-call",
        alteration: "a reply has an XID that no call has",
        control: basic,
        alter: |capture| {
            let (_, reply) = exchange(capture);
            set_xid(&mut capture.packets[reply], 0xdead_beef);
        },
        also: &[],
        shows: shown(By::Responder, &[384], "", ""),
    },
    Trigger {
        rule: "rpc-reply-without-call",
        alteration: "a Long Reply is sent twice",
        control: large,
        alter: |capture| {
            let reply = send_of(capture, SERVER, EXCHANGE_ID);
            let packet = &capture.packets[reply];
            let bytes = packet.data[packet.payload()].to_vec();
            insert(capture, reply, SERVER, opcode::SEND_ONLY, &bytes);
        },
        also: &[],
        shows: shown(By::Responder, &[13], "", ""),
    },
    Trigger {
        rule: "rpc-reply-elsewhere",
        alteration: "a call has no reply when its connection is closed, and the reply comes on the next \
            connection",
        control: twice,
        alter: |capture| {
            let (left, reply) = last_of_first(capture);
            let xid = capture.packets[left].xid().expect("it is a message");
            withhold(capture, reply);
            let (call, reply) = of_second(capture)[20];
            let other = capture.packets[call].xid().expect("it is a message");
            let (last, last_reply) = last_of_second(capture);
            for (index, xid) in [(reply, xid), (last, other), (last_reply, other)] {
                set_xid(&mut capture.packets[index], xid);
            }
            withhold(capture, call);
        },
        also: &[],
        shows: shown(By::Responder, &[1617, 2002], "", ""),
    },
    Trigger {
        rule: "rpc-call-unanswered",
        alteration: "the reply to a call in the middle of the session is not sent",
        control: basic,
        alter: |capture| {
            let (_, reply) = exchange(capture);
            withhold(capture, reply);
        },
        also: &[],
        shows: shown(By::Nobody, &[382], "", ""),
    },
    Trigger {
        rule: "rpc-replay",
        alteration: "a call has no reply when its connection is closed, and is sent again on the next one",
        control: twice,
        alter: |capture| {
            let (_, reply) = last_of_first(capture);
            withhold(capture, reply);
        },
        also: &[],
        shows: shown(By::Requester, &[1617, 3237], "60000000000 ns", ""),
    },
    Trigger {
        rule: "rpc-replay",
        alteration: "a call has no reply on a connection whose start is not in the capture, and is sent \
            again on the next one",
        control: twice_from_the_middle,
        alter: |capture| {
            let (_, reply) = last_of_first(capture);
            withhold(capture, reply);
        },
        also: &[],
        shows: shown(By::Requester, &[1614, 3234], "60000000000 ns", ""),
    },
    Trigger {
        rule: "rpc-replay-differs",
        alteration: "a call has no reply when its connection is closed, and another one with its XID is \
            sent on the next",
        control: twice,
        alter: |capture| {
            let (_, reply) = exchange(capture);
            withhold(capture, reply);
            exchange_xids(capture);
        },
        also: &[],
        shows: shown(By::Requester, &[382, 1676], "", ""),
    },
    Trigger {
        rule: "rpc-message-type",
        alteration: "msg_type of a call is 7",
        control: basic,
        alter: |capture| {
            let (call, _) = exchange(capture);
            set_word(&mut capture.packets[call], 8, 7);
        },
        also: &[],
        shows: shown(By::Requester, &[382], "7", "0 or 1"),
    },
    Trigger {
        rule: "rpc-version",
        alteration: "rpcvers of a call is 3",
        control: basic,
        alter: |capture| {
            let (call, _) = exchange(capture);
            set_word(&mut capture.packets[call], 9, 3);
        },
        also: &[],
        shows: shown(By::Requester, &[382], "3", "2"),
    },
    Trigger {
        rule: "rpc-reply-status",
        alteration: "reply_stat of a reply is 2",
        control: basic,
        alter: |capture| {
            let (_, reply) = exchange(capture);
            set_word(&mut capture.packets[reply], 9, 2);
        },
        also: &[],
        shows: shown(By::Responder, &[382, 384], "", ""),
    },
    Trigger {
        rule: "rpc-reply-status",
        alteration: "a call is answered with AUTH_ERROR and auth_stat 15",
        control: basic,
        alter: |capture| set_denied(capture, &[1, 1, 15]),
        also: &[],
        shows: shown(By::Responder, &[382, 384], "15", ""),
    },
    Trigger {
        rule: "rpc-reply-status",
        alteration: "a call is answered with accept_stat 6",
        control: basic,
        alter: |capture| set_reply(capture, &[0, 0, 0, 6]),
        also: &[],
        shows: shown(By::Responder, &[382, 384], "6", ""),
    },
    Trigger {
        rule: "rpc-reply-status",
        alteration: "a call is denied with reject_stat 2",
        control: basic,
        alter: |capture| set_denied(capture, &[1, 2]),
        also: &[],
        shows: shown(By::Responder, &[382, 384], "2", ""),
    },
    Trigger {
        rule: "rpc-credential",
        alteration: "the AUTH_SYS credential of a GETATTR has 17 groups",
        control: version_3,
        alter: |capture| set_credential(capture, &auth_sys(0, 17)),
        also: &[],
        shows: shown(By::Requester, &[874], "17", "16"),
    },
    Trigger {
        rule: "rpc-credential",
        alteration: "the AUTH_SYS credential of a GETATTR has a machine name of 256 bytes",
        control: version_3,
        alter: |capture| set_credential(capture, &auth_sys(256, 16)),
        also: &[],
        shows: shown(By::Requester, &[874], "256 bytes", "255 bytes"),
    },
    Trigger {
        rule: "rpc-credential",
        alteration: "the credential of a GETATTR has 404 bytes",
        control: version_3,
        alter: |capture| set_credential(capture, &[&auth_sys(0, 0)[..], &[0; 384]].concat()),
        also: &[],
        shows: shown(By::Requester, &[874], "404 bytes", "400 bytes"),
    },
    Trigger {
        rule: "rpc-credential",
        alteration: "the verifier of the reply to a GETATTR has 404 bytes",
        control: version_3,
        alter: |capture| {
            let xid = getattr(capture);
            change_reply(capture, xid, |reply| {
                reply.set_word(16, 404);
                reply.payload.splice(20..20, [0; 404]);
            });
        },
        also: &[],
        shows: shown(By::Responder, &[876], "404 bytes", "400 bytes"),
    },
    Trigger {
        rule: "rpc-version-range",
        alteration: "a call is answered with PROG_MISMATCH, lowest version 4 and highest 3",
        control: basic,
        alter: |capture| set_reply(capture, &[0, 0, 0, 2, 4, 3]),
        also: &[],
        shows: shown(By::Responder, &[382, 384], "4 to 3", ""),
    },
];

fn nfs3() -> Capture {
    samples::capture("nfs3-basic")
}

/// The basic session twice, the second time a minute later on another connection.
fn twice() -> Capture {
    let first = basic();
    mutate::merge(&first, &mutate::on_another_connection(&first, 60_000_000_000))
}

/// The same, captured from after the first connect on.
fn twice_from_the_middle() -> Capture {
    let mut capture = twice();
    let start = capture.packets.iter().position(Packet::is_rc).expect("it has requests");
    capture.packets.drain(..start);
    capture
}

/// The exchanges of the first connection of a capture.
fn of_first(capture: &Capture) -> Vec<(usize, usize)> {
    let first = connection(capture, 0);
    exchanges(capture).into_iter().filter(|(call, _)| first.contains(call)).collect()
}

fn last_of_first(capture: &Capture) -> (usize, usize) {
    *of_first(capture).last().expect("it has some")
}

/// The exchanges of the last connection of a capture.
fn of_second(capture: &Capture) -> Vec<(usize, usize)> {
    let second = connection(capture, capture.packets.len() - 1);
    exchanges(capture).into_iter().filter(|(call, _)| second.contains(call)).collect()
}

fn last_of_second(capture: &Capture) -> (usize, usize) {
    *of_second(capture).last().expect("it has some")
}

/// Swaps the XIDs of two exchanges of the last connection.
fn exchange_xids(capture: &mut Capture) {
    let second = of_second(capture);
    let ((call, reply), (same, same_reply)) = (second[10], second[20]);
    let xid = capture.packets[same].xid().expect("it is a message");
    let other = capture.packets[call].xid().expect("it is a message");
    for (index, xid) in [(call, xid), (reply, xid), (same, other), (same_reply, other)] {
        set_xid(&mut capture.packets[index], xid);
    }
}

/// Sets the words after the msg_type of a reply and drops the rest.
fn set_reply(capture: &mut Capture, status: &[u32]) {
    let (_, reply) = exchange(capture);
    let packet = &mut capture.packets[reply];
    let kept = packet.data[packet.payload()][..36].to_vec();
    packet.set_opcode(opcode::SEND_ONLY);
    packet.set_after_bth(&[kept, words(status)].concat());
}

/// Sets the words after the msg_type of a denied reply and drops the rest.
fn set_denied(capture: &mut Capture, denied: &[u32]) {
    let (_, reply) = exchange(capture);
    let packet = &mut capture.packets[reply];
    let kept = packet.data[packet.payload()][..36].to_vec();
    packet.set_opcode(opcode::SEND_ONLY);
    packet.set_after_bth(&[kept, words(denied)].concat());
}

/// Sets the XID of the header and of the RPC message.
fn set_xid(packet: &mut Packet, xid: u32) {
    set_word(packet, 0, xid);
    set_word(packet, 7, xid);
}

/// Sends an altered call again, right after the original.
fn repeat_call(capture: &mut Capture, change: impl FnOnce(&mut [u8])) {
    let (call, _) = exchange(capture);
    let packet = &capture.packets[call];
    let mut bytes = packet.data[packet.payload()].to_vec();
    change(&mut bytes);
    insert(capture, call, CLIENT, opcode::SEND_ONLY, &bytes);
}

/// The rules of this subject with conclusive findings.
fn conclusive(capture: &Capture) -> Vec<&'static str> {
    let is_conclusive = |finding: &&Finding| finding.verdict == Verdict::Certain;
    found(capture, "rpc").iter().filter(is_conclusive).map(|finding| rule(finding).id).collect()
}

/// The rules of this subject with an inconclusive finding.
fn inconclusive(capture: &Capture) -> Vec<&'static str> {
    let open = |finding: &&Finding| finding.verdict == Verdict::Inconclusive;
    found(capture, "rpc").iter().filter(open).map(|finding| rule(finding).id).collect()
}

/// The body of an AUTH_SYS credential with a machine name of `machine` bytes (RFC 5531, appendix A).
fn auth_sys(machine: u32, groups: u32) -> Vec<u8> {
    let word = |value: u32| value.to_be_bytes();
    let ids = [0, 0, groups].into_iter().chain(0..groups);
    [word(0).to_vec(), word(machine).to_vec(), vec![b'm'; machine as usize]]
        .into_iter()
        .chain(ids.map(|id| word(id).to_vec()))
        .flatten()
        .collect()
}

/// Replaces the credential of a GETATTR.
fn set_credential(capture: &mut Capture, body: &[u8]) {
    let xid = getattr(capture);
    change_call(capture, xid, |call| {
        let length = call.word(28) as usize;
        call.set_word(28, body.len() as u32);
        call.payload.splice(32..32 + length, body.iter().copied());
    });
}

/// The largest number of groups, the longest machine name and the longest credential of RFC 5531.
#[test]
fn largest_credentials_are_allowed() {
    for body in [auth_sys(0, 16), auth_sys(255, 16), [&auth_sys(0, 0)[..], &[0; 380]].concat()] {
        let mut capture = version_3();
        // XDR pads the name.
        let mut body = body;
        if body.len() % 4 != 0 {
            body.insert(8 + 255, 0);
        }
        set_credential(&mut capture, &body);
        assert!(found(&capture, "rpc-credential").is_empty());
    }
}

#[test]
fn call_sent_twice_may_have_two_replies() {
    let mut capture = nfs3();
    let (_, reply) = exchange(&capture);
    let bytes = capture.packets[reply].data[capture.packets[reply].payload()].to_vec();
    repeat_call(&mut capture, |_| {});
    insert(&mut capture, reply + 1, SERVER, opcode::SEND_ONLY, &bytes);
    assert_eq!(conclusive(&capture), ["rpc-call-repeated"]);
    assert!(inconclusive(&capture).is_empty());
}

#[test]
fn second_reply_to_a_call_sent_once_is_found() {
    let mut capture = nfs3();
    let (_, reply) = exchange(&capture);
    let bytes = capture.packets[reply].data[capture.packets[reply].payload()].to_vec();
    insert(&mut capture, reply, SERVER, opcode::SEND_ONLY, &bytes);
    assert_eq!(conclusive(&capture), ["rpc-reply-without-call"]);
}

#[test]
fn reply_without_its_call_is_inconclusive() {
    let mut capture = basic();
    let (call, _) = exchange(&capture);
    capture.packets.remove(call);
    assert!(conclusive(&capture).is_empty());
    assert_eq!(inconclusive(&capture), ["rpc-reply-without-call"]);
}

#[test]
fn call_with_other_arguments_is_another_call() {
    let mut capture = nfs3();
    // The last word of the arguments.
    repeat_call(&mut capture, |bytes| *bytes.last_mut().expect("it has some") ^= 1);
    assert_eq!(conclusive(&capture), ["rpc-xid-reused"]);
}

#[test]
fn call_with_another_credential_is_the_same_call() {
    let mut capture = nfs3();
    // The stamp of AUTH_SYS, the first word of its body.
    repeat_call(&mut capture, |bytes| bytes[28 + 35] ^= 1);
    assert_eq!(conclusive(&capture), ["rpc-call-repeated"]);
}

/// RFC 8167, section 2.4.1: each direction has its own XIDs.
#[test]
fn both_directions_may_use_the_same_xid() {
    let mut capture = samples::capture("nfs4.1-backchannel-recall");
    let is_callback = |packet: &&Packet| {
        packet.starts_message() && packet.source() == SERVER && packet.u32(packet.payload().start + 32) == 0
    };
    let callback = capture.packets.iter().find(is_callback).expect("the server recalls").clone();
    let before = |packet: &&Packet| {
        packet.starts_message() && packet.source() == CLIENT && packet.number < callback.number
    };
    let call = capture.packets.iter().rev().find(before).expect("the client calls").xid();
    let (own, forward) = (callback.xid(), call.expect("it is a message"));
    let mut changed = 0;
    for packet in &mut capture.packets {
        if packet.xid() == own {
            set_xid(packet, forward);
            changed += 1;
        }
    }
    assert_eq!(changed, 2);
    assert!(found(&capture, "").iter().all(|finding| !is_new_violation(finding)));
}

/// The same calls on two concurrent connections, and on one between other hosts: no call is
/// unanswered on either.
#[test]
fn connections_have_separate_xids() {
    let first = basic();
    let mut second = mutate::on_another_connection(&first, 0);
    assert!(found(&mutate::merge(&first, &second), "rpc").is_empty());

    // A call is unanswered, and other hosts use its XID.
    let mut capture = first;
    let (_, reply) = exchange(&capture);
    withhold(&mut capture, reply);
    mutate::readdress(&mut second, CLIENT, core::net::Ipv4Addr::new(10, 77, 0, 9));
    second.packets.iter_mut().for_each(|packet| packet.time += 60_000_000_000);
    assert_eq!(conclusive(&mutate::merge(&capture, &second)), ["rpc-call-unanswered"]);
}

/// If the capture lacks packets, a missing reply may be among them, so it is uncertain that the
/// call was not answered.
#[test]
fn missing_reply_is_inconclusive() {
    let mut capture = twice();
    let (_, reply) = last_of_first(&capture);
    let number = capture.packets[reply].number;
    capture.packets.retain(|packet| packet.number != number);
    assert_eq!(inconclusive(&capture), ["rpc-call-unanswered"]);
    // The call is sent again in any case.
    assert_eq!(conclusive(&capture), ["rpc-replay"]);
}

/// Only a complete capture of the connection proves that a call was not answered. Then no other
/// call may have its XID.
#[test]
fn xid_of_a_possibly_answered_call_may_be_reused() {
    let verdicts = |capture: &Capture| -> Vec<Verdict> {
        found(capture, "rpc-replay-differs").iter().map(|finding| finding.verdict).collect()
    };
    let mut original = twice();
    let (_, reply) = exchange(&original);
    let number = original.packets[reply].number;
    let lost = {
        let mut capture = original.clone();
        exchange_xids(&mut capture);
        mutate::keep(&capture, |packet| packet.number != number)
    };
    assert_eq!(verdicts(&lost), [Verdict::Inconclusive], "the capture lacks the reply");
    withhold(&mut original, reply);
    exchange_xids(&mut original);
    assert_eq!(verdicts(&original), [Verdict::Certain]);
    let start = original.packets.iter().position(Packet::is_rc).expect("it has requests");
    original.packets.drain(..start);
    assert_eq!(verdicts(&original), [Verdict::Inconclusive], "the capture lacks the beginning");
}

/// All unanswered calls may be sent again, including those of the server.
#[test]
fn each_unanswered_call_is_recognized_when_repeated() {
    let mut capture = twice();
    for nth in [20, 30] {
        let (_, reply) = of_first(&capture)[nth];
        withhold(&mut capture, reply);
    }
    assert_eq!(found(&capture, "rpc-replay").len(), 2);

    let first = samples::capture("nfs4.1-backchannel-recall");
    let mut capture = mutate::merge(&first, &mutate::on_another_connection(&first, 60_000_000_000));
    let is_callback = |packet: &&Packet| {
        packet.starts_message() && packet.source() == SERVER && packet.u32(packet.payload().start + 32) == 0
    };
    let callback = capture.packets.iter().find(is_callback).expect("the server recalls").xid();
    let is_answer = |packet: &Packet| packet.source() == CLIENT && packet.xid() == callback;
    let answer = capture.packets.iter().position(is_answer).expect("it is answered");
    withhold(&mut capture, answer);
    let by: Vec<By> = found(&capture, "rpc-replay").iter().map(By::of).collect();
    assert_eq!(by, [By::Responder]);
}

/// A reply and its acknowledgement may both be missing: after the last exchange no packet shows
/// that.
#[test]
fn last_reply_may_be_lost_with_its_acknowledgement() {
    let mut capture = basic();
    let (_, reply) = last_of_first(&capture);
    withhold(&mut capture, reply);
    assert!(conclusive(&capture).is_empty());
    assert_eq!(inconclusive(&capture), ["rpc-call-unanswered"]);
}

/// If all packets of an end have a bad ICRC, one finding names the end, and none names the calls.
#[test]
fn bad_icrcs_of_an_end_are_one_finding() {
    let mut capture = basic();
    for packet in &mut capture.packets {
        if packet.is_roce() && packet.source() == SERVER {
            let icrc = packet.data.len() - 4;
            packet.data[icrc..].fill(0);
        }
    }
    let found = rdmascope_tests::judged::findings(&capture);
    assert_eq!(found.iter().map(|finding| rule(finding).id).collect::<Vec<_>>(), ["packet-icrc"]);
}

/// If the capture shows one direction too late, replies precede their calls.
#[test]
fn shifted_half_flows_give_no_finding() {
    let original = basic();
    for (sender, by) in [(CLIENT, 3_000_000), (SERVER, 3_000_000), (CLIENT, 50_000_000), (SERVER, 50_000_000)]
    {
        let mut late = mutate::keep(&original, |packet| packet.source() == sender);
        late.packets.iter_mut().for_each(|packet| packet.time += by);
        let other = mutate::keep(&original, |packet| packet.source() != sender);
        assert!(conclusive(&mutate::merge(&late, &other)).is_empty(), "{sender} by {by}");
    }
}

/// The last auth_stat that RFC 5531 defines, for RPCSEC_GSS.
#[test]
fn last_defined_auth_stat_is_allowed() {
    let mut capture = basic();
    set_denied(&mut capture, &[1, 1, 14]);
    assert!(conclusive(&capture).is_empty(), "{:?}", conclusive(&capture));
}

/// A reply to the first of two calls with the same XID is no fault of the Responder, regardless of
/// its chunks and handles.
#[test]
fn reused_xid_accuses_only_the_requester() {
    let mut capture = large();
    let call = send_of(&capture, CLIENT, EXCHANGE_ID);
    let packet = &capture.packets[call];
    let mut message = mutate::Message::of(packet);
    // Another call, with its Reply chunk at another place.
    message.set_word(20, 0);
    message.reply.iter_mut().flatten().for_each(|segment| segment.handle ^= 0x10_0000);
    insert(&mut capture, call, CLIENT, opcode::SEND_ONLY, &message.build());
    let found = rdmascope_tests::judged::findings(&capture);
    let violations: Vec<&str> =
        found.iter().filter(|finding| is_new_violation(finding)).map(|finding| rule(finding).id).collect();
    assert_eq!(violations, ["rpc-xid-reused"], "{:#?}", found.iter().map(line).collect::<Vec<_>>());
}

#[test]
fn reply_to_the_first_of_two_calls_may_invalidate_its_handle() {
    let mut capture = basic();
    let reply = capture.packets.iter().position(|packet| packet.ieth().is_some()).expect("one invalidates");
    let xid = capture.packets[reply].xid().expect("it is a message");
    let call = send_of(&capture, CLIENT, xid);
    let mut message = mutate::Message::of(&capture.packets[call]);
    message.set_word(20, 0);
    let chunks = message.writes.iter_mut().flatten().chain(message.reply.iter_mut().flatten());
    chunks.for_each(|segment| segment.handle ^= 0x10_0000);
    insert(&mut capture, call, CLIENT, opcode::SEND_ONLY, &message.build());
    let found = rdmascope_tests::judged::findings(&capture);
    let accused: Vec<String> = found
        .iter()
        .filter(|finding| is_new_violation(finding) && rule(finding).id != "rpc-xid-reused")
        .map(line)
        .collect();
    assert!(accused.is_empty(), "{accused:#?}");
}
