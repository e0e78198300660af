//! Triggers and tests of Read chunks.

use super::{FOREIGN, NOMSG, WRITE, change_call, change_reply, found, is_conclusive, large, make_unknown};
use crate::{By, Trigger, shown};
use rdmascope_tests::mutate::Message;
use rdmascope_tests::pcap::Capture;

pub(crate) const TRIGGERS: &[Trigger] = &[
    Trigger {
        rule: "read-chunk-alignment",
        alteration: "the Read chunk of a WRITE is at Position 178",
        control: large,
        alter: |capture| set_positions(capture, [178; 4]),
        also: &[],
        shows: shown(By::Requester, &[82], "178 bytes", "a multiple of 4"),
    },
    Trigger {
        rule: "read-chunk-overlap",
        alteration: "a Read chunk of 262144 bytes is at Position 176, another one at 131248",
        control: unknown,
        alter: |capture| set_positions(capture, [176, 176, 131_248, 131_248]),
        also: &[],
        shows: shown(By::Requester, &[82], "131248 bytes", "262320 or more"),
    },
    Trigger {
        rule: "read-chunk-inside",
        alteration: "the last Read chunk is four bytes after the end of the Payload stream",
        control: unknown,
        alter: |capture| set_positions(capture, [176, 176, 176, 176 + 3 * 131_072 + 16 + 4]),
        also: &[],
        shows: shown(By::Requester, &[82], "393412 bytes", "393408 or less"),
    },
    Trigger {
        rule: "read-chunk-order",
        alteration: "the Read chunk with the higher Position comes first",
        control: unknown,
        alter: |capture| set_positions(capture, [262_320, 262_320, 176, 176]),
        also: &[],
        shows: shown(By::Requester, &[82], "262320, 176", ""),
    },
    Trigger {
        rule: "read-chunk-length",
        alteration: "the count of a WRITE's data is four less than the length of its Read chunk",
        control: large,
        alter: |capture| set_count(capture, 4 * 131_072 - 4),
        also: &[],
        shows: shown(By::Requester, &[82], "524288 bytes", "524284 bytes"),
    },
    Trigger {
        rule: "read-chunk-padding",
        alteration: "the count of a WRITE's data is two less than the length of its Read chunk",
        control: large,
        alter: |capture| set_count(capture, 4 * 131_072 - 2),
        also: &[],
        shows: shown(By::Requester, &[82], "524288 bytes", "524286 bytes"),
    },
    Trigger {
        rule: "read-chunk-position-zero",
        alteration: "the Read chunk of a WRITE is at Position 0",
        control: large,
        alter: |capture| set_positions(capture, [0; 4]),
        also: &[],
        shows: shown(By::Requester, &[82], "RDMA_MSG", "RDMA_NOMSG"),
    },
    Trigger {
        rule: "read-chunk-in-reply",
        alteration: "the reply to a WRITE lists a read segment",
        control: large,
        alter: |capture| change_reply(capture, WRITE, |reply| reply.reads.push((8, FOREIGN))),
        also: &[],
        shows: shown(By::Responder, &[987], "1", "0"),
    },
];

/// The session with an unknown program in one WRITE, so that its items are unknown.
pub(super) fn unknown() -> Capture {
    let mut capture = large();
    change_call(&mut capture, WRITE, make_unknown);
    capture
}

/// Changes the Positions of the four read segments of a WRITE.
pub(super) fn set_positions(capture: &mut Capture, positions: [u32; 4]) {
    change_call(capture, WRITE, |call| {
        for ((position, _), new) in call.reads.iter_mut().zip(positions) {
            *position = new;
        }
    });
}

/// Sets the count before a WRITE's data.
fn set_count(capture: &mut Capture, count: u32) {
    change_call(capture, WRITE, |call| {
        assert_eq!(call.word(172), 4 * 131_072, "the count is at this offset");
        call.set_word(172, count);
    });
}

#[test]
fn segments_of_one_position_are_consecutive() {
    let interleaved = |capture: &mut Capture| set_positions(capture, [176, 262_320, 176, 262_320]);
    assert!(is_conclusive(&found(unknown, interleaved, "read-chunk-order")));
    let together = |capture: &mut Capture| set_positions(capture, [176, 176, 262_320, 262_320]);
    assert!(found(unknown, together, "read-chunk-order").is_empty());
}

#[test]
fn read_chunks_may_be_adjacent_or_at_the_end_of_the_stream() {
    for (last, overlaps, is_outside) in [
        (176 + 3 * 131_072 - 4, true, false),
        (176 + 3 * 131_072, false, false),
        (176 + 3 * 131_072 + 16, false, false),
        (176 + 3 * 131_072 + 20, false, true),
    ] {
        let alter = |capture: &mut Capture| set_positions(capture, [176, 176, 176, last]);
        assert_eq!(is_conclusive(&found(unknown, alter, "read-chunk-overlap")), overlaps, "{last}");
        assert_eq!(is_conclusive(&found(unknown, alter, "read-chunk-inside")), is_outside, "{last}");
    }
}

#[test]
fn overlap_is_judged_in_the_order_of_positions() {
    let alter = |capture: &mut Capture| set_positions(capture, [131_248, 131_248, 176, 176]);
    let finding = found(unknown, alter, "read-chunk-overlap");
    assert!(is_conclusive(&finding) && finding[0].message.contains("at Position 131248"), "{finding:?}");
}

#[test]
fn responder_may_provide_a_position_zero_read_chunk() {
    let provide = |reply: &mut Message| {
        reply.reads.push((0, FOREIGN));
        reply.payload.clear();
        reply.procedure = NOMSG;
    };
    let provided = |capture: &mut Capture| change_reply(capture, WRITE, provide);
    for id in ["read-chunk-in-reply", "long-message-chunk", "long-message-inline"] {
        assert!(found(large, provided, id).is_empty(), "{id}");
    }
    // Another Position proves that it is no reply of the draft, but not that it is a reply at all.
    let at_other_position = |capture: &mut Capture| {
        change_reply(capture, WRITE, |reply| {
            provide(reply);
            reply.reads.push((8, FOREIGN));
        })
    };
    let finding = found(large, at_other_position, "read-chunk-in-reply");
    assert!(!finding.is_empty() && !is_conclusive(&finding), "{finding:?}");
}
