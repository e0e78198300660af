//! Triggers and tests of remote invalidation.

use crate::memory::{
    PROVIDED, SLOW, basic, handle_of, index_of, is_done, middle_reply, pulled, send, side_by_side,
};
use crate::{By, Trigger, shown};
use rdmascope_conformance::{Value, Verdict};
use rdmascope_tests::judged::{findings, rule};
use rdmascope_tests::mutate::{self, CLIENT, attribute, opcode};
use rdmascope_tests::pcap::Capture;
use rdmascope_tests::samples;

pub(crate) const TRIGGERS: &[Trigger] = &[
    Trigger {
        rule: "invalidation-receiver-flag",
        alteration: "the client's private data has R clear",
        control: both_set_r,
        alter: |capture| set_r(capture, [false, true]),
        also: &[],
        shows: shown(By::Responder, &[11], "12", ""),
    },
    Trigger {
        rule: "invalidation-sender-flag",
        alteration: "the server's private data has R clear",
        control: both_set_r,
        alter: |capture| set_r(capture, [true, false]),
        also: &[],
        shows: shown(By::Responder, &[11], "12", ""),
    },
    Trigger {
        rule: "invalidation-call",
        alteration: "a call invalidates a handle",
        control: both_set_r,
        alter: |capture| {
            let call =
                index_of(capture, |packet| packet.opcode() == opcode::SEND_ONLY && packet.source() == CLIENT);
            let like = capture.packets[call].clone();
            capture.packets[call] = send(&like, Some(0x1234), &like.data[like.payload()]);
        },
        also: &[],
        shows: shown(By::Requester, &[4], "Send with Invalidate", "Send"),
    },
    Trigger {
        rule: "invalidation-handle",
        alteration: "a reply invalidates a handle that was not advertised",
        control: both_set_r,
        alter: |capture| {
            let reply = index_of(capture, |packet| packet.ieth().is_some());
            let packet = &mut capture.packets[reply];
            packet.set_ieth(packet.ieth().expect("it has one") + 0x10_0000);
            packet.seal();
        },
        also: &[],
        shows: shown(By::Responder, &[8, 11], "0x00103240", ""),
    },
    Trigger {
        rule: "invalidation-shared",
        alteration: "a slow call advertises the handle of a later call, whose reply invalidates it",
        control: side_by_side,
        alter: |capture| {
            let slow = handle_of(capture, SLOW);
            let handle = capture.packets[middle_reply(capture)].ieth().expect("it has one");
            mutate::rename_memory(capture, |found, offset| {
                (if found == slow { handle } else { found }, offset)
            });
        },
        // The Reply chunk is written afterwards.
        also: &["memory-after-invalidation"],
        shows: shown(By::Responder, &[9, 104], "0x00003246", ""),
    },
    Trigger {
        rule: "invalidation-done",
        alteration: "RDMA_DONE goes in a plain Send",
        control: pulled,
        alter: |capture| {
            let done = index_of(capture, is_done);
            let like = capture.packets[done].clone();
            capture.packets[done] = send(&like, None, &like.data[like.payload()]);
        },
        also: &[],
        shows: shown(By::Requester, &[13], "Send", "Send with Invalidate"),
    },
];

/// Sets or clears R in the private data of client and server.
pub(crate) fn set_r(capture: &mut Capture, [client, server]: [bool; 2]) {
    mutate::each(capture, |packet| match packet.cm_attribute() {
        // After the RDMA-CM IP header of 36 bytes, the Format Identifier and Version.
        Some(attribute::REQ) => packet.cm_body()[140 + 36 + 5] = u8::from(client),
        Some(attribute::REP) => packet.cm_body()[36 + 5] = u8::from(server),
        _ => {}
    });
}

fn both_set_r() -> Capture {
    let mut capture = basic();
    set_r(&mut capture, [true, true]);
    capture
}

fn verdicts(id: &str, capture: &Capture) -> Vec<Verdict> {
    findings(capture).iter().filter(|finding| rule(finding).id == id).map(|finding| finding.verdict).collect()
}

#[test]
fn each_end_with_a_clear_flag_is_reported_once() {
    for (flags, [receiver, sender]) in
        [([true, true], [0, 0]), ([false, true], [1, 0]), ([true, false], [0, 1]), ([false, false], [1, 1])]
    {
        let mut capture = basic();
        set_r(&mut capture, flags);
        for (id, expected) in [("invalidation-receiver-flag", receiver), ("invalidation-sender-flag", sender)]
        {
            assert_eq!(verdicts(id, &capture), vec![Verdict::Certain; expected], "{id}, {flags:?}");
            let unknown = mutate::without_cm(&capture);
            assert_eq!(verdicts(id, &unknown), [Verdict::Inconclusive], "{id}, {flags:?}, without CM");
            let found = findings(&unknown);
            let finding = found.iter().find(|finding| rule(finding).id == id).expect("it was just counted");
            assert!(finding.message.contains("it is unknown whether"), "{}", finding.message);
        }
    }
}

#[test]
fn capture_of_one_direction_gives_one_finding_for_unknown_flags() {
    let judged = |capture: &Capture| {
        let found = findings(capture).into_iter().filter(|finding| rule(finding).id.ends_with("-flag"));
        found.map(|finding| (rule(&finding).id, finding.verdict)).collect::<Vec<_>>()
    };
    let (receiver, sender) = ("invalidation-receiver-flag", "invalidation-sender-flag");
    for sample in samples::MOUNTS {
        let capture = samples::capture(sample);
        let half = mutate::keep(&capture, |packet| packet.source() == mutate::SERVER);
        // The REP shows that the server left R clear. The client's flag is unknown.
        let expected = [(receiver, Verdict::Inconclusive), (sender, Verdict::Certain)];
        assert_eq!(judged(&half), expected, "{sample}");
        let unknown = mutate::without_cm(&half);
        assert_eq!(judged(&unknown), [(receiver, Verdict::Inconclusive)], "{sample}");
        let found = findings(&unknown);
        let finding = found.iter().find(|finding| rule(finding).id == receiver).expect("it was just judged");
        assert!(finding.message.contains("contains nothing from their receiver"), "{}", finding.message);
        let other = mutate::keep(&capture, |packet| packet.source() == CLIENT);
        assert_eq!(judged(&other), [], "{sample}");
        assert_eq!(judged(&capture), [(sender, Verdict::Certain)], "{sample}");
    }
}

#[test]
fn private_data_of_an_unknown_version_set_no_flag() {
    let mut capture = basic();
    set_r(&mut capture, [true, true]);
    mutate::each(&mut capture, |packet| {
        if packet.cm_attribute() == Some(attribute::REQ) {
            packet.cm_body()[140 + 36 + 4] = 2;
        }
    });
    assert_eq!(verdicts("invalidation-receiver-flag", &capture), [Verdict::Certain]);
    assert_eq!(verdicts("invalidation-sender-flag", &capture), [Verdict::Certain; 0]);
}

#[test]
fn repeated_call_may_have_advertised_the_handle() {
    // The client sends its first call with a Reply chunk twice, the second time with another
    // handle, which is then invalidated. The capture has or lacks the second call.
    let mut capture = both_set_r();
    let call =
        index_of(&capture, |packet| packet.source() == CLIENT && mutate::reply_chunk(packet).is_some());
    let reply = index_of(&capture, |packet| packet.ieth().is_some());
    let mut again = capture.packets[call].clone();
    let at = mutate::reply_chunk(&again).expect("it has one");
    let handle = again.u32(at) + 0x10_0000;
    again.set_u32(at, handle);
    capture.packets[reply].set_ieth(handle);
    capture.packets[reply].seal();
    mutate::insert_request(&mut capture, call + 1, again, 1);
    assert_eq!(verdicts("invalidation-handle", &capture), [Verdict::Certain; 0]);
    let lost = capture.packets[call + 1].number;
    let rest = mutate::keep(&capture, |packet| packet.number != lost);
    assert_eq!(verdicts("invalidation-handle", &rest), [Verdict::Inconclusive]);
}

#[test]
fn handle_advertised_just_before_may_be_reused() {
    let mut capture = side_by_side();
    let (slow, middle) = (handle_of(&capture, SLOW), middle_reply(&capture));
    let handle = capture.packets[middle].ieth().expect("it has one");
    mutate::rename_memory(&mut capture, |found, offset| (if found == slow { handle } else { found }, offset));
    assert_eq!(verdicts("invalidation-shared", &capture), [Verdict::Certain]);
    // A missing packet of either end may have ended the slow call earlier.
    for host in [CLIENT, mutate::SERVER] {
        let mut sent =
            capture.packets.iter().filter(|packet| packet.starts_message() && packet.source() == host);
        let lost = sent.nth(1).expect("each end sends several").number;
        let rest = mutate::keep(&capture, |packet| packet.number != lost);
        assert_eq!(verdicts("invalidation-shared", &rest), [Verdict::Inconclusive], "without {lost}");
    }
    // All within two milliseconds: the capture may show the slow call before a reply that it
    // followed.
    let first = capture.packets[0].time;
    (0..).zip(&mut capture.packets).for_each(|(index, packet)| packet.time = first + 10_000 * index);
    assert_eq!(verdicts("invalidation-shared", &capture), [Verdict::Inconclusive]);
}

#[test]
fn done_invalidates_the_provided_handle() {
    let capture = pulled();
    for id in ["invalidation-handle", "invalidation-done"] {
        assert_eq!(verdicts(id, &capture), [Verdict::Certain; 0], "{id}");
    }
    let mut other = capture.clone();
    let done = index_of(&other, is_done);
    assert_eq!(other.packets[done].ieth(), Some(PROVIDED.1));
    other.packets[done].set_ieth(PROVIDED.1 + 1);
    other.packets[done].seal();
    assert_eq!(verdicts("invalidation-handle", &other), [Verdict::Certain]);
    // A missing reply may have provided the handle.
    let lost = index_of(&other, |packet| packet.starts_message() && packet.source() == mutate::SERVER);
    let number = other.packets[lost].number;
    let rest = mutate::keep(&other, |packet| packet.number != number);
    assert_eq!(verdicts("invalidation-handle", &rest), [Verdict::Inconclusive]);
    // Unless both ends set R, a plain Send is required.
    set_r(&mut other, [true, false]);
    assert_eq!(verdicts("invalidation-sender-flag", &other), [Verdict::Certain], "the server's own replies");
    assert_eq!(verdicts("invalidation-receiver-flag", &other), [Verdict::Certain], "RDMA_DONE of the client");
}

/// RFC 8797, section 4.1: remote invalidation is allowed only if both ends set R.
#[test]
fn done_is_a_plain_send_unless_both_ends_set_r() {
    for (flags, count) in [([true, true], 1), ([true, false], 0), ([false, true], 0)] {
        let mut capture = pulled();
        set_r(&mut capture, flags);
        let done = index_of(&capture, is_done);
        let like = capture.packets[done].clone();
        capture.packets[done] = send(&like, None, &like.data[like.payload()]);
        assert_eq!(verdicts("invalidation-done", &capture), vec![Verdict::Certain; count], "{flags:?}");
    }
}

#[test]
fn client_trace_confirms_the_invalidations() {
    // Confirms KNOWN: the client's trace has every remote invalidation, and the server's private
    // data has R clear.
    for sample in samples::MOUNTS {
        let sent: Vec<u32> = {
            let capture = samples::capture(sample);
            let sent = capture.packets.iter().filter(|packet| packet.is_rc());
            let mut psns = std::collections::HashSet::new();
            sent.filter_map(|packet| packet.ieth().filter(|_| psns.insert(packet.psn()))).collect()
        };
        let text = samples::text(sample, "client.trace");
        let seen: Vec<u32> = text
            .lines()
            .filter(|line| line.contains("xprtrdma_mr_reminv:"))
            .map(|line| {
                let handle = line.rsplit_once(":0x").expect("a handle").1.split(' ').next().expect("a word");
                u32::from_str_radix(handle, 16).expect("hexadecimal digits")
            })
            .collect();
        assert!(!sent.is_empty() && sent == seen, "{sample}: {sent:x?} {seen:x?}");
        // The finding has their number.
        let found = findings(&samples::capture(sample));
        let finding = found.iter().find(|finding| rule(finding).id == "invalidation-sender-flag");
        let counted = finding.and_then(|finding| finding.observed.clone());
        assert_eq!(counted, Some(Value::Count(seen.len() as u64)), "{sample}");
    }
}
