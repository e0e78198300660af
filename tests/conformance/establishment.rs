//! Triggers and tests of connection establishment.

use crate::inline::without_private_data;
use crate::transport::{basic, first, found, in_message};
use crate::{By, Trigger, shown};
use rdmascope_conformance::{Value, Verdict};
use rdmascope_tests::mutate::{self, CLIENT, SERVER, attribute, opcode};
use rdmascope_tests::pcap::{Capture, Packet};
use rdmascope_tests::samples;

/// The offset of the private data in the body of a REQ, after the RDMA-CM IP header.
pub(crate) const IN_REQ: usize = 140 + 36;
/// The offset of the private data in the body of a REP.
const IN_REP: usize = 36;

/// Private data: version 1, R clear, 4096 and 4096 bytes (RFC 8797, section 4).
const PRIVATE_DATA: [u8; 8] = [0xf6, 0xab, 0x0e, 0x18, 0x01, 0x00, 0x03, 0x03];

pub(crate) const TRIGGERS: &[Trigger] = &[
    Trigger {
        rule: "private-data-reserved",
        alteration: "the REQ has the lowest of the reserved bits set",
        control: basic,
        alter: |capture| in_message(capture, attribute::REQ, |body| body[IN_REQ + 5] |= 0x02),
        also: &[],
        shows: shown(By::Requester, &[1], "0x00000001", "0x00000000"),
    },
    Trigger {
        rule: "private-data-version",
        alteration: "only the REQ has private data, of version 2",
        control: without_private_data,
        alter: |capture| {
            in_message(capture, attribute::REQ, |body| {
                body[IN_REQ..IN_REQ + 8].copy_from_slice(&PRIVATE_DATA);
                body[IN_REQ + 4] = 2;
            })
        },
        also: &[],
        shows: shown(By::Requester, &[1], "2", "1"),
    },
    Trigger {
        rule: "private-data-offset",
        alteration: "the private data of the REQ begins one byte later",
        control: basic,
        alter: |capture| {
            in_message(capture, attribute::REQ, |body| {
                body.copy_within(IN_REQ..IN_REQ + 8, IN_REQ + 1);
                body[IN_REQ] = 0;
            })
        },
        also: &[],
        shows: shown(By::Requester, &[1], "1 byte", "0 bytes"),
    },
    Trigger {
        rule: "private-data-truncated",
        alteration: "the last seven bytes of the REQ's private data are an identifier and three bytes",
        control: without_private_data,
        alter: |capture| {
            in_message(capture, attribute::REQ, |body| {
                body[232 - 7..].copy_from_slice(&PRIVATE_DATA[..7]);
            })
        },
        also: &[],
        shows: shown(By::Requester, &[1], "7 bytes", "8 bytes"),
    },
    Trigger {
        rule: "private-data-twice",
        alteration: "a second identifier is 16 bytes after that of the REP",
        control: basic,
        alter: |capture| {
            in_message(capture, attribute::REP, |body| {
                body[IN_REP + 16..IN_REP + 24].copy_from_slice(&PRIVATE_DATA);
            })
        },
        also: &[],
        shows: shown(By::Responder, &[2], "2", "1"),
    },
    Trigger {
        rule: "private-data-one-sided",
        alteration: "only the REP has private data",
        control: without_private_data,
        alter: |capture| {
            in_message(capture, attribute::REP, |body| {
                body[IN_REP..IN_REP + 8].copy_from_slice(&PRIVATE_DATA);
            })
        },
        also: &[],
        shows: shown(By::Requester, &[1, 2], "", ""),
    },
    Trigger {
        rule: "private-data-one-sided",
        alteration: "only the REQ has private data",
        control: without_private_data,
        alter: |capture| {
            in_message(capture, attribute::REQ, |body| {
                body[IN_REQ..IN_REQ + 8].copy_from_slice(&PRIVATE_DATA);
            })
        },
        also: &[],
        shows: shown(By::Responder, &[1, 2], "", ""),
    },
    Trigger {
        rule: "private-data-sizes",
        alteration: "the REQ announces Sends of 8192 bytes",
        control: basic,
        alter: |capture| in_message(capture, attribute::REQ, |body| body[IN_REQ + 6] = 7),
        also: &[],
        shows: shown(By::Nobody, &[1, 2], "8192 bytes", "4096 bytes"),
    },
    Trigger {
        rule: "private-data-changed",
        alteration: "the same session follows on a new connection, with sizes of 8192 bytes",
        control: basic,
        alter: |capture| *capture = mutate::merge(capture, &later(8192)),
        also: &[],
        shows: shown(
            By::Nobody,
            &[2, 1624],
            "8192 and 8192 bytes, without remote invalidation",
            "4096 and 4096 bytes, without remote invalidation",
        ),
    },
    Trigger {
        rule: "connection-start",
        alteration: "the first request is preceded by one with the previous PSN",
        control: basic,
        alter: |capture| {
            let mut packet = first(capture, CLIENT, opcode::SEND_ONLY).clone();
            packet.set_psn(packet.psn() + mutate::PSNS - 1);
            packet.seal();
            let at = capture.packets.iter().position(Packet::is_rc).expect("the session has requests");
            capture.packets.insert(at, packet);
            capture.renumber();
        },
        also: &[],
        shows: shown(By::Requester, &[1, 2, 4], "10160626", "10160627"),
    },
    Trigger {
        rule: "connection-start",
        alteration: "the REP announces a Starting PSN that is one more than that of the first call",
        control: basic,
        alter: announce_another,
        also: &[],
        shows: shown(By::Responder, &[1, 2, 4], "10160627", "10160628"),
    },
    Trigger {
        rule: "connection-path-mtu",
        alteration: "the REQ names a path MTU of encoding 0",
        control: basic,
        alter: |capture| in_message(capture, attribute::REQ, |body| body[50] &= 0x0f),
        also: &[],
        shows: shown(By::Requester, &[1], "0", "1 to 5"),
    },
    Trigger {
        rule: "connection-rejected",
        alteration: "a REJ with reason 3 replaces the REP, and nothing follows",
        control: basic,
        alter: reject,
        also: &[],
        shows: shown(By::Responder, &[1, 2], "no resources available", ""),
    },
    Trigger {
        rule: "connection-unanswered",
        alteration: "a REQ after the end of a session is sent four times, and nothing else",
        control: basic,
        alter: |capture| repeat_req(capture, 4),
        also: &[],
        shows: shown(By::Responder, &[1623, 1626], "4", ""),
    },
];

/// The same two ends a minute later, with other names for everything and these sizes.
fn later(bytes: u32) -> Capture {
    let mut capture = basic();
    mutate::change_communication_ids(&mut capture, 0x0101_0000);
    mutate::renumber_qp(&mut capture, CLIENT, 0x77);
    mutate::renumber_qp(&mut capture, SERVER, 0x88);
    mutate::change_xids(&mut capture, |xid| xid ^ 0x5a00_0000);
    let size = (bytes / 1024 - 1) as u8;
    in_message(&mut capture, attribute::REQ, |body| body[IN_REQ + 6..IN_REQ + 8].fill(size));
    in_message(&mut capture, attribute::REP, |body| body[IN_REP + 6..IN_REP + 8].fill(size));
    capture.packets.iter_mut().for_each(|packet| packet.time += 60_000_000_000);
    capture
}

/// Changes the REP to announce a PSN that is one too high.
fn announce_another(capture: &mut Capture) {
    in_message(capture, attribute::REP, |body| {
        let field = [0, body[20], body[21], body[22]];
        let psn = u32::from_be_bytes(field) + 1;
        body[20..23].copy_from_slice(&psn.to_be_bytes()[1..]);
    });
}

/// Sends a REQ for another connection `times` times, a second apart, at the end.
fn repeat_req(capture: &mut Capture, times: i64) {
    let mut later = basic();
    mutate::change_communication_ids(&mut later, 0x0101_0000);
    mutate::renumber_qp(&mut later, CLIENT, 0x77);
    let last = capture.packets.last().expect("it has packets").time;
    for nth in 0..times {
        let mut request = later.packets[0].clone();
        assert_eq!(request.cm_attribute(), Some(attribute::REQ));
        request.time = last + 1_000_000_000 * (nth + 1);
        capture.packets.push(request);
    }
    capture.renumber();
}

fn reject(capture: &mut Capture) {
    capture.packets.truncate(2);
    mutate::each(capture, |packet| {
        if packet.cm_attribute() == Some(attribute::REP) {
            packet.set_cm_attribute(attribute::REJ);
            // Message REJected is 0: the REQ. The reason is at offset 10.
            packet.cm_body()[8..].fill(0);
            packet.cm_body()[11] = 3;
        }
    });
}

#[test]
fn reserved_bit_in_a_repeated_message_is_one_finding() {
    let mut capture = basic();
    in_message(&mut capture, attribute::REQ, |body| body[IN_REQ + 5] |= 0xfe);
    let again = mutate::repeat(&capture, |packet| packet.cm_attribute() == Some(attribute::REQ));
    let found = found(&again, "private-data-reserved");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].observed, Some(Value::Hexadecimal(0x7f)));
    assert_eq!((found[0].frames.as_slice(), found[0].by_requester), ([1].as_slice(), Some(true)));
}

#[test]
fn truncated_private_data_are_no_fault() {
    // The snap length ends in the private data of the REQ, after its identifier, which begins at
    // byte 262 of the frame.
    let start = basic().packets[0].data.len() - 4 - 232 + IN_REQ;
    for snap_length in start..start + 8 {
        let cut = mutate::cut(&basic(), snap_length);
        for id in [
            "private-data-truncated",
            "private-data-one-sided",
            "private-data-version",
            "private-data-offset",
        ] {
            assert_eq!(found(&cut, id).len(), 0, "{id} at {snap_length}");
        }
    }
}

#[test]
fn identifier_may_be_in_the_last_eight_bytes() {
    // Eight bytes are enough room.
    let mut capture = without_private_data();
    in_message(&mut capture, attribute::REQ, |body| body[232 - 8..].copy_from_slice(&PRIVATE_DATA));
    assert_eq!(found(&capture, "private-data-truncated").len(), 0);
    assert_eq!(found(&capture, "private-data-offset").len(), 1);
}

#[test]
fn equal_private_data_on_reconnect_give_no_finding() {
    let twice = mutate::merge(&basic(), &later(4096));
    assert_eq!(found(&twice, "private-data-changed").len(), 0);
    let changed = mutate::merge(&basic(), &later(8192));
    let found = found(&changed, "private-data-changed");
    assert_eq!(found.len(), 1, "{found:?}");
    // The REP is the second packet of each session.
    assert_eq!(found[0].frames, [2, basic().packets.len() as u64 + 2]);
}

#[test]
fn reject_is_reported_with_its_request() {
    // tshark (infiniband.mad) on this sample: REQ, REJ with reason 8, twice.
    let capture = samples::capture(samples::REJECTED);
    let found = found(&capture, "connection-rejected");
    assert_eq!(found.iter().map(|finding| finding.frames.clone()).collect::<Vec<_>>(), [[1, 2], [3, 4]]);
    assert!(found.iter().all(|finding| finding.verdict == Verdict::Certain));
}

/// The capture may lack the answer to the last of a few requests.
#[test]
fn the_last_of_a_few_requests_may_lack_its_answer() {
    let mut once = basic();
    once.packets.truncate(1);
    let mut thrice = basic();
    repeat_req(&mut thrice, 3);
    for capture in [once, thrice] {
        let found = found(&capture, "connection-unanswered");
        assert_eq!(found.iter().map(|finding| finding.verdict).collect::<Vec<_>>(), [Verdict::Inconclusive]);
    }
}

/// A client that gets no answer gives up with a REJ, which names only its own communication ID.
#[test]
fn a_client_that_gives_up_rejects_nothing() {
    let mut capture = basic();
    repeat_req(&mut capture, 2);
    let mut withdrawal = capture.packets.last().expect("it has packets").clone();
    withdrawal.time += 1_000_000_000;
    withdrawal.set_cm_attribute(attribute::REJ);
    let body = withdrawal.cm_body();
    body[4..].fill(0);
    // Message REJected 2: no message. Reason 4: timeout.
    (body[8], body[11]) = (2 << 6, 4);
    withdrawal.seal();
    capture.packets.push(withdrawal);
    capture.renumber();
    assert_eq!(found(&capture, "connection-rejected").len(), 0);
    let unanswered = found(&capture, "connection-unanswered");
    let [finding] = unanswered.as_slice() else { panic!("{unanswered:?}") };
    assert_eq!((finding.by_requester, finding.verdict), (Some(false), Verdict::Certain));
}

/// If the capture has no packet of the other host, its silence is no evidence.
#[test]
fn one_sided_capture_shows_no_unanswered_request() {
    let mut capture = basic();
    repeat_req(&mut capture, 5);
    let half = mutate::keep(&capture, |packet| packet.source() == CLIENT);
    let found = found(&half, "connection-unanswered");
    assert_eq!(found.iter().map(|finding| finding.verdict).collect::<Vec<_>>(), [Verdict::Inconclusive]);
}

/// An RTU proves that there was a REP. It names the client's own communication ID, which the REQ
/// has.
#[test]
fn request_with_an_rtu_was_answered() {
    let mut capture = basic();
    repeat_req(&mut capture, 2);
    let mut ready = basic().packets.into_iter().find(|packet| packet.cm_attribute() == Some(attribute::RTU));
    let mut ready = Capture { link: capture.link, packets: ready.take().into_iter().collect() };
    mutate::change_communication_ids(&mut ready, 0x0101_0000);
    let mut packet = ready.packets.pop().expect("it has an RTU");
    packet.time = capture.packets.last().expect("it has packets").time + 1_000_000;
    capture.packets.push(packet);
    capture.renumber();
    assert_eq!(found(&capture, "connection-unanswered").len(), 0);
}

/// The sizes in private data of another version are unknown.
#[test]
fn sizes_are_compared_only_in_private_data_of_version_1() {
    for invalid in [attribute::REQ, attribute::REP] {
        let mut capture = basic();
        in_message(&mut capture, attribute::REQ, |body| body[IN_REQ + 6] = 7);
        assert_eq!(found(&capture, "private-data-sizes").len(), 1);
        let at = if invalid == attribute::REQ { IN_REQ } else { IN_REP };
        in_message(&mut capture, invalid, |body| body[at + 4] = 2);
        assert_eq!(found(&capture, "private-data-sizes").len(), 0, "{invalid:#x}");
    }
}

/// One fault, one finding: the server is not accused of requests that the engine takes for
/// repetitions.
#[test]
fn wrong_starting_psn_accuses_no_other_end() {
    let mut capture = basic();
    announce_another(&mut capture);
    let found = rdmascope_tests::judged::findings(&capture);
    let violations: Vec<String> = found
        .iter()
        .filter(|finding| crate::samples::is_new_violation(finding))
        .map(rdmascope_tests::judged::line)
        .collect();
    assert!(violations.len() == 1 && violations[0].contains("connection-start"), "{violations:#?}");

    // The first Send is still parsed as a call and gets its reply.
    let decoded = |capture: &Capture| {
        let session = rdmascope_tests::session::run(capture);
        session.transactions.iter().map(|one| (one.xid, one.outcome)).collect::<Vec<_>>()
    };
    assert_eq!(decoded(&capture), decoded(&basic()));
}
