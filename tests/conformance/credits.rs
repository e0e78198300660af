//! Triggers and tests of credits.

use crate::{By, Trigger, shown};
use rdmascope_conformance::{Finding, Value, Verdict};
use rdmascope_tests::judged::{findings, line, rule};
use rdmascope_tests::mutate::{self, CLIENT, EXTENSION, SERVER, opcode};
use rdmascope_tests::pcap::{Capture, Packet};
use rdmascope_tests::samples;

pub(crate) const TRIGGERS: &[Trigger] = &[
    Trigger {
        rule: "credit-limit",
        alteration: "every reply grants one credit",
        control: large,
        alter: |capture| {
            mutate::each(capture, |packet| {
                if packet.source() == SERVER {
                    set_credits(packet, 1)
                }
            })
        },
        also: &[],
        shows: None,
    },
    Trigger {
        rule: "credit-first-reply",
        alteration: "the first reply comes after the second call and its acknowledgement",
        control: basic,
        alter: swap_first_reply,
        also: &[],
        shows: shown(By::Requester, &[6], "2", "1"),
    },
    Trigger {
        rule: "credit-grant-zero",
        alteration: "the third reply grants no credits",
        control: basic,
        alter: |capture| set_credits_of_nth(capture, SERVER, 2, 0),
        also: &[],
        shows: shown(By::Responder, &[17], "0", "1 or more"),
    },
    Trigger {
        rule: "credit-request-zero",
        alteration: "the third call asks for no credits",
        control: basic,
        alter: |capture| set_credits_of_nth(capture, CLIENT, 2, 0),
        also: &[],
        shows: shown(By::Requester, &[14], "0", "1 or more"),
    },
    Trigger {
        rule: "credit-beyond-request",
        alteration: "every call asks for one credit",
        control: large,
        alter: |capture| {
            mutate::each(capture, |packet| {
                if packet.source() == CLIENT {
                    set_credits(packet, 1)
                }
            })
        },
        also: &[],
        shows: None,
    },
    Trigger {
        rule: "credit-grant-lowered",
        alteration: "the third reply grants half of the second one's credits",
        control: basic,
        alter: |capture| set_credits_of_nth(capture, SERVER, 2, 32),
        also: &[],
        shows: shown(By::Responder, &[6, 17], "32", "64"),
    },
    Trigger {
        rule: "credit-starvation",
        alteration: "every reply grants one credit",
        control: basic,
        alter: |capture| {
            mutate::each(capture, |packet| {
                if packet.source() == SERVER {
                    set_credits(packet, 1)
                }
            })
        },
        also: &[],
        shows: shown(By::Responder, &[8], "827090000 ns", ""),
    },
    Trigger {
        rule: "credit-receive",
        alteration: "the server answers a call with an RNR NAK",
        control: basic,
        alter: |capture| refuse(capture, CLIENT, 9),
        also: &[],
        shows: shown(By::Responder, &[44, 45], "1", "64"),
    },
    Trigger {
        rule: "credit-receive",
        alteration: "the client answers a reply with an RNR NAK",
        control: basic,
        alter: |capture| refuse(capture, SERVER, 9),
        also: &[],
        shows: shown(By::Requester, &[46, 47], "1", ""),
    },
];

/// Turns the acknowledgement of a host's nth Send into an RNR NAK.
pub(crate) fn refuse(capture: &mut Capture, sender: core::net::Ipv4Addr, nth: usize) {
    let send = nth_message(capture, sender, nth);
    let psn = capture.packets[send].psn();
    let is_acknowledgement = |packet: &&mut Packet| {
        packet.is_rc()
            && packet.opcode() == opcode::ACKNOWLEDGE
            && packet.source() != sender
            && packet.psn() == psn
    };
    let packet = capture.packets[send..].iter_mut().find(is_acknowledgement).expect("it is acknowledged");
    packet.data[EXTENSION] = 0x21;
    packet.seal();
}

fn basic() -> Capture {
    samples::capture("nfs4.1-basic")
}

fn large() -> Capture {
    samples::capture("nfs4.2-mtu4096-large-io")
}

/// Sets rdma_credit of a Send; other packets stay unchanged.
fn set_credits(packet: &mut Packet, credits: u32) {
    if packet.starts_message() {
        let start = packet.payload().start;
        packet.set_u32(start + 8, credits);
        packet.seal();
    }
}

fn set_credits_of_nth(capture: &mut Capture, sender: core::net::Ipv4Addr, nth: usize, credits: u32) {
    let packet = nth_message(capture, sender, nth);
    set_credits(&mut capture.packets[packet], credits);
}

/// The index of the packet that begins the nth Send of a host.
fn nth_message(capture: &Capture, sender: core::net::Ipv4Addr, nth: usize) -> usize {
    let mut messages = capture
        .packets
        .iter()
        .enumerate()
        .filter(|(_, packet)| packet.starts_message() && packet.source() == sender);
    messages.nth(nth).expect("the session has enough messages").0
}

/// Moves the first reply and its acknowledgement after the second call and its acknowledgement.
fn swap_first_reply(capture: &mut Capture) {
    let call = nth_message(capture, CLIENT, 1);
    let acknowledgement = &capture.packets[call + 1];
    assert_eq!((acknowledgement.source(), acknowledgement.opcode()), (SERVER, opcode::ACKNOWLEDGE));
    delay_first_reply(capture, call + 1);
}

/// Moves the first reply and its acknowledgement after the packet at this index.
fn delay_first_reply(capture: &mut Capture, after: usize) {
    let reply = nth_message(capture, SERVER, 0);
    assert_eq!(capture.packets[reply + 1].opcode(), opcode::ACKNOWLEDGE);
    mutate::reorder(capture, reply, after);
    mutate::reorder(capture, reply, after);
}

/// The server did not acknowledge the second call before the reply, so the capture may have
/// reordered the packets of the two ends by up to 2 ms.
#[test]
fn first_reply_shortly_after_the_second_call_may_be_reordered() {
    for (later, expected) in [(2_000_000, Verdict::Inconclusive), (2_000_001, Verdict::Certain)] {
        let mut capture = basic();
        let call = nth_message(&capture, CLIENT, 1);
        delay_first_reply(&mut capture, call);
        let called = capture.packets[call - 2].time;
        let by = called + later - capture.packets[call - 1].time;
        capture.packets[call - 1..].iter_mut().for_each(|packet| packet.time += by);
        let found = findings(&capture);
        let verdicts: Vec<Verdict> =
            of("credit-first-reply", &found).map(|finding| finding.verdict).collect();
        assert_eq!(verdicts, [expected], "{later} ns");
    }
}

/// The client acknowledged the first reply before its second call, so it had received it: the
/// capture shows the server's packets late.
#[test]
fn reply_captured_after_its_acknowledgement_is_inconclusive() {
    let mut capture = basic();
    let (reply, call) = (nth_message(&capture, SERVER, 0), nth_message(&capture, CLIENT, 1));
    mutate::reorder(&mut capture, reply, call);
    let found = findings(&capture);
    let verdicts: Vec<Verdict> = of("credit-first-reply", &found).map(|finding| finding.verdict).collect();
    assert_eq!(verdicts, [Verdict::Inconclusive]);
}

/// The most calls that the client had in flight, from the packets alone. For a session without
/// loss: each Send of the client with a new XID is a call, and the server's Send with that XID is
/// its reply.
fn most_in_flight(capture: &Capture) -> u32 {
    let (mut open, mut most) = (Vec::new(), 0);
    for packet in capture.packets.iter().filter(|packet| packet.starts_message()) {
        let xid = packet.xid();
        if packet.source() == CLIENT {
            open.push(xid);
        } else {
            open.retain(|open| *open != xid);
        }
        most = most.max(open.len());
    }
    most as u32
}

/// The session with this grant in every reply.
fn granting(mut capture: Capture, credits: u32) -> Capture {
    mutate::each(&mut capture, |packet| {
        if packet.source() == SERVER {
            set_credits(packet, credits);
        }
    });
    capture
}

fn of<'a>(id: &'a str, found: &'a [Finding]) -> impl Iterator<Item = &'a Finding> {
    found.iter().filter(move |finding| rule(finding).id == id)
}

#[test]
fn calls_up_to_the_credit_limit_are_allowed() {
    let most = most_in_flight(&large());
    assert!(most > 2, "the session has calls side by side: {most}");
    assert_eq!(of("credit-limit", &findings(&granting(large(), most))).count(), 0);
    let found = findings(&granting(large(), most - 1));
    let conclusive = of("credit-limit", &found).filter(|finding| finding.verdict == Verdict::Certain);
    assert!(conclusive.count() > 0, "{:?}", found.iter().map(line).collect::<Vec<_>>());
}

/// After the last captured call, no Send proves that no reply is missing; an acknowledgement of
/// everything that the server sent does.
#[test]
fn last_call_over_the_limit_needs_all_packets_of_the_server() {
    let original = granting(large(), 1);
    let found = findings(&original);
    let over = of("credit-limit", &found).next().expect("the limit is exceeded");
    let call = original.packets.iter().position(|packet| Some(&packet.number) == over.frames.last());
    let until = call.expect("it is there") + 1;
    let mut begun = Capture { link: original.link, packets: original.packets[..until].to_vec() };
    let verdict = |capture: &Capture| {
        let found = findings(capture);
        let [finding] = of("credit-limit", &found).collect::<Vec<_>>()[..] else { panic!("one finding") };
        assert_eq!((&finding.frames, &finding.observed), (&over.frames, &over.observed));
        finding.verdict
    };
    assert_eq!(verdict(&begun), Verdict::Inconclusive);
    // The client acknowledges the server's last packets once more.
    let is_acknowledgement = |packet: &&Packet| {
        packet.source() == CLIENT && packet.is_rc() && packet.opcode() == opcode::ACKNOWLEDGE
    };
    let mut again = begun.packets.iter().rfind(is_acknowledgement).expect("it acknowledges").clone();
    let responds = |packet: &&Packet| packet.source() == CLIENT && packet.is_response();
    again.set_psn(begun.packets.iter().rfind(responds).expect("it responds").psn());
    again.seal();
    let last = begun.packets.last().expect("there is one");
    (again.number, again.time) = (last.number + 1, last.time + 50_000_000);
    begun.packets.push(again);
    assert_eq!(verdict(&begun), Verdict::Certain);
    // Now one packet of the server that it acknowledges is missing.
    let is_request = |packet: &&Packet| packet.source() == SERVER && packet.is_rc() && !packet.is_response();
    let lost = begun.packets.iter().rfind(is_request).expect("the server reads").number;
    assert_eq!(verdict(&mutate::keep(&begun, |packet| packet.number != lost)), Verdict::Inconclusive);
}

#[test]
fn lost_reply_does_not_exceed_the_limit() {
    // One call at a time and one credit: without one of the replies, there seems to be one call too
    // many.
    assert_eq!(most_in_flight(&basic()), 1);
    let capture = granting(basic(), 1);
    let mut inconclusive = 0;
    for lost in capture.packets.iter().filter(|packet| packet.is_rc() && packet.source() == SERVER) {
        let rest = mutate::keep(&capture, |packet| packet.number != lost.number);
        let found = findings(&rest);
        for finding in of("credit-limit", &found) {
            assert_eq!(finding.verdict, Verdict::Inconclusive, "without {}: {}", lost.number, line(finding));
            inconclusive += 1;
        }
    }
    assert!(inconclusive > 0, "the loss of no reply affects the limit");
}

/// Without the CM exchange, the path MTU is unknown at first, and with it the PSN after an RDMA
/// READ; so a packet lost there is not noticed.
#[test]
fn loss_after_a_read_of_unknown_length_accuses_no_end() {
    let mut inconclusive = 0;
    for sample in samples::MOUNTS {
        let original = granting(mutate::without_cm(&samples::capture(sample)), 1);
        let is_message = |packet: &Packet, host| packet.starts_message() && packet.source() == host;
        let is_read =
            |packet: &Packet| packet.is_rc() && packet.reth().is_some_and(|(_, _, length)| length > 256);
        let read = |packet: &Packet| {
            packet.source() == SERVER && packet.opcode() == opcode::READ_REQUEST && is_read(packet)
        };
        for at in (0..original.packets.len()).filter(|at| read(&original.packets[*at])).step_by(7) {
            // The capture begins two exchanges before the call whose arguments are read, so it has
            // a grant; it lacks the reply to that call.
            let mut calls = (0..at).rev().filter(|index| is_message(&original.packets[*index], CLIENT));
            let Some(start) = calls.nth(2) else { continue };
            let reply =
                (at..original.packets.len()).find(|index| is_message(&original.packets[*index], SERVER));
            let Some(lost) = reply.map(|index| original.packets[index].number) else { continue };
            let later = Capture { link: original.link, packets: original.packets[start..].to_vec() };
            let rest = mutate::keep(&later, |packet| packet.number != lost);
            for finding in of("credit-limit", &findings(&rest)) {
                assert_eq!(
                    finding.verdict,
                    Verdict::Inconclusive,
                    "{sample} from {start}: {}",
                    line(finding)
                );
                inconclusive += 1;
            }
        }
    }
    assert!(inconclusive > 0, "the loss of no reply affects the limit");
}

/// A session that reaches its grant, in which the last reply before that grants only one credit;
/// and the index of the call that reaches it.
fn lowered_before_burst() -> (Capture, usize) {
    // The client has not received that reply in time.
    let most = most_in_flight(&large());
    let mut capture = granting(large(), most);
    let burst = (0..capture.packets.len()).find(|end| {
        let begun = Capture { link: capture.link, packets: capture.packets[..=*end].to_vec() };
        most_in_flight(&begun) == most
    });
    let burst = burst.expect("it comes to that");
    let reply = (0..burst).rfind(|index| {
        let packet = &capture.packets[*index];
        packet.starts_message() && packet.source() == SERVER
    });
    let reply = reply.expect("a reply is before it");
    set_credits(&mut capture.packets[reply], 1);
    let late = capture.packets[burst].time - 1_000_000;
    capture.packets[reply..burst].iter_mut().for_each(|packet| packet.time = packet.time.max(late));
    (capture, burst)
}

#[test]
fn lowered_grant_counts_once_the_client_knows_it() {
    let (mut capture, burst) = lowered_before_burst();
    assert_eq!(of("credit-limit", &findings(&capture)).count(), 0, "the client did not know it yet");
    // The same a second later, when the client knows it.
    capture.packets[burst..].iter_mut().for_each(|packet| packet.time += 1_000_000_000);
    assert!(of("credit-limit", &findings(&capture)).any(|finding| finding.verdict == Verdict::Certain));
}

#[test]
fn directions_have_separate_credits() {
    // The client grants the server one credit for callbacks, which must not limit the client's own
    // calls.
    let mut capture = samples::capture("nfs4.1-backchannel-recall");
    let calls: Vec<Option<u32>> =
        samples::client_trace("nfs4.1-backchannel-recall").callbacks.iter().map(|xid| Some(*xid)).collect();
    assert!(!calls.is_empty());
    mutate::each(&mut capture, |packet| {
        if packet.starts_message() && calls.contains(&packet.xid()) {
            set_credits(packet, 1);
        }
    });
    let found = findings(&capture);
    let lines: Vec<String> = found
        .iter()
        .filter(|finding| rule(finding).id.starts_with("credit") && rule(finding).id != "credit-starvation")
        .map(line)
        .collect();
    assert_eq!(lines, [""; 0]);
}

#[test]
fn limit_applies_in_dense_traffic() {
    // Ten packets per millisecond: each has an acknowledgement shortly before it.
    let mut capture = granting(large(), most_in_flight(&large()) - 1);
    let start = capture.packets[0].time;
    (0..).zip(&mut capture.packets).for_each(|(index, packet)| packet.time = start + 100_000 * index);
    assert!(of("credit-limit", &findings(&capture)).any(|finding| finding.verdict == Verdict::Certain));
}

/// A repeated grant is judged as well.
#[test]
fn every_grant_of_zero_is_reported() {
    let mut capture = basic();
    let numbers = [2, 3].map(|nth| {
        set_credits_of_nth(&mut capture, SERVER, nth, 0);
        capture.packets[nth_message(&capture, SERVER, nth)].number
    });
    let found = findings(&capture);
    let zero: Vec<&Finding> = of("credit-grant-zero", &found).collect();
    assert_eq!(zero.iter().map(|finding| finding.frames[0]).collect::<Vec<_>>(), numbers);
    for finding in zero {
        assert_eq!(finding.message, "a reply that grants no credits");
        assert_eq!((finding.by_requester, &finding.observed), (Some(false), &Some(Value::Count(0))));
    }
    let lowered: Vec<&str> = of("credit-grant-lowered", &found).map(|finding| &finding.message[..]).collect();
    assert_eq!(lowered, ["the grant went from 64 to 0"], "once");
}

/// A call that requests no credits is one fault.
#[test]
fn request_for_zero_credits_is_one_fault() {
    let mut capture = basic();
    set_credits_of_nth(&mut capture, CLIENT, 2, 0);
    let found = findings(&capture);
    let [zero, beyond] =
        ["credit-request-zero", "credit-beyond-request"].map(|rule| of(rule, &found).count());
    assert_eq!([zero, beyond], [1, 0]);
    // A call that requests one credit stays within it.
    set_credits_of_nth(&mut capture, CLIENT, 2, 1);
    let found = findings(&capture);
    assert!(of("credit-request", &found).chain(of("credit-beyond-request", &found)).next().is_none());
}

#[test]
fn briefly_exhausted_credits_are_no_starvation() {
    // One reply grants one credit, so the next call uses all of them, for much less than a
    // hundredth of the session.
    let mut capture = basic();
    set_credits_of_nth(&mut capture, SERVER, 5, 1);
    assert_eq!(of("credit-starvation", &findings(&capture)).count(), 0);
}

/// A reply of another version is one fault, of the server; the client has its reply.
#[test]
fn reply_of_another_version_is_one_fault() {
    for nth in [0, 5] {
        let mut capture = basic();
        let reply = nth_message(&capture, SERVER, nth);
        crate::header::set_word(&mut capture.packets[reply], 1, 2);
        let found = findings(&capture);
        let lines: Vec<String> =
            found.iter().filter(|finding| crate::samples::is_new_violation(finding)).map(line).collect();
        assert!(lines.len() == 1 && lines[0].contains("header-reply-version"), "{lines:#?}");
    }
}

/// A message of 27 bytes is no call: receivers discard it and send no reply.
#[test]
fn too_short_message_is_not_in_flight() {
    let mut capture = basic();
    let second = nth_message(&capture, CLIENT, 1);
    let header = capture.packets[second].data[capture.packets[second].payload()][..24].to_vec();
    let short = [&0x0bad_0bad_u32.to_be_bytes(), &header[4..], &[0; 3]].concat();
    let first = nth_message(&capture, CLIENT, 0);
    crate::header::insert(&mut capture, first, CLIENT, opcode::SEND_ONLY, &short);
    let found = findings(&capture);
    let lines: Vec<String> = found
        .iter()
        .filter(|finding| finding.verdict == Verdict::Certain && !crate::samples::is_known(finding))
        .map(line)
        .filter(|line| !line.starts_with("advice"))
        .collect();
    assert!(lines.len() == 1 && lines[0].contains("header-too-short"), "{lines:#?}");
}

/// If a packet of either end is missing before it, the number of calls in flight is uncertain.
#[test]
fn missing_receive_is_conclusive_only_without_loss() {
    for host in [CLIENT, SERVER] {
        let mut capture = basic();
        refuse(&mut capture, CLIENT, 9);
        let lost = capture.packets[nth_message(&capture, host, 2)].number;
        let found = findings(&mutate::keep(&capture, |packet| packet.number != lost));
        let verdicts: Vec<Verdict> = of("credit-receive", &found).map(|finding| finding.verdict).collect();
        assert_eq!(verdicts, [Verdict::Inconclusive], "without a packet of {host}");
    }
}

/// Turns the acknowledgement of the packet at `call` into an RNR NAK.
fn refuse_at(capture: &mut Capture, call: usize) {
    let psn = capture.packets[call].psn();
    let mut responses = capture.packets[call..].iter_mut();
    let acknowledgement = responses.find(|packet| {
        packet.source() == SERVER && packet.opcode() == opcode::ACKNOWLEDGE && packet.psn() >= psn
    });
    let packet = acknowledgement.expect("it is acknowledged");
    packet.set_psn(psn);
    packet.data[EXTENSION] = 0x21;
    packet.seal();
}

/// A session with one credit, in which the first call beyond it is refused.
fn overrun() -> Capture {
    let mut capture = granting(large(), 1);
    let found = findings(&capture);
    let mut over = of("credit-limit", &found).filter(|finding| finding.verdict == Verdict::Certain);
    let frame = *over.next().and_then(|finding| finding.frames.last()).expect("the limit is exceeded");
    let call = capture.packets.iter().position(|packet| packet.number == frame).expect("it is there");
    refuse_at(&mut capture, call);
    capture
}

/// The ends accused of RNR NAKs, and the number of findings about missing Receives.
fn not_ready(capture: &Capture) -> (Vec<Option<bool>>, usize) {
    let found = findings(capture);
    let by = of("refusal-not-ready", &found).map(|finding| finding.by_requester).collect();
    (by, of("credit-receive", &found).count())
}

/// If more calls were in flight than granted, the receiver is not at fault.
#[test]
fn rnr_nak_beyond_the_grant_is_the_fault_of_the_sender() {
    assert_eq!(not_ready(&overrun()), (vec![Some(true)], 0), "the sender of too many calls");
}

/// If a call within the credits was refused as well, the receiver is at fault.
#[test]
fn rnr_nak_within_the_grant_is_the_fault_of_the_receiver() {
    let mut capture = overrun();
    refuse(&mut capture, CLIENT, 9);
    assert_eq!(not_ready(&capture), (vec![Some(false)], 1), "{:?}", findings(&capture));
    let found = findings(&capture);
    let receive = of("credit-receive", &found).next().expect("it is found");
    assert_eq!(receive.message, "an RNR NAK to a call with 1 request in flight where 1 was granted");
    assert_eq!((receive.by_requester, receive.verdict), (Some(false), Verdict::Certain));
}

/// A NAK that comes long after its call does not show which call it refuses, so no end is accused.
#[test]
fn nak_long_after_its_call_accuses_no_end() {
    let mut capture = overrun();
    let early = capture.packets[nth_message(&capture, CLIENT, 3)].psn();
    let late = nth_message(&capture, CLIENT, 45);
    refuse_at(&mut capture, late);
    let is_nak = |packet: &&mut Packet| {
        packet.source() == SERVER && packet.opcode() == opcode::ACKNOWLEDGE && packet.data[EXTENSION] == 0x21
    };
    let nak = capture.packets[late..].iter_mut().find(is_nak).expect("it is refused");
    nak.set_psn(early);
    nak.seal();
    assert_eq!(not_ready(&capture), (vec![None], 0));
}

/// No end is accused if the grant was lowered and the Requester could not know that yet.
#[test]
fn call_within_the_previous_grant_accuses_no_end() {
    let (mut capture, burst) = lowered_before_burst();
    refuse_at(&mut capture, burst);
    assert_eq!(not_ready(&capture), (vec![None], 0));
}
