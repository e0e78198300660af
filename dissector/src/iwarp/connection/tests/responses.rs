//! RDMA Read Responses and the requests that they answer (RFC 5040, sections 4.5 and 5.5).

use super::*;

/// RFC 5040, section 4.4: a response has the sink STag and sink TO of its request. Responses come
/// in the order of the requests (section 5.5).
#[test]
fn responses_match_their_requests_in_order() {
    let mut pair = Pair::connected();
    pair.feed(A, &[read(1, 5, 0x50, 8), read(2, 6, 0x60, 4), read(3, 5, 0x50, 0)].concat());
    pair.check(["A read 20+52, #3, 9:900+8", "A read 72+52, #3, 9:900+4", "A read 124+52, #3, 9:900+0"]);
    pair.feed(B, &tagged(2, 5, 0x50, b"abcd"));
    pair.feed(B, &tagged(0x82, 5, 0x54, b"efgh"));
    pair.feed(B, &tagged(0x82, 6, 0x60, b"ijkl"));
    pair.check([
        "B answer 20 of 20, #4, \"abcd\" 4, 900 in 9:900+8, asked at 20",
        "B answer 60 of 20, #5, \"efgh\" 4, 904 in 9:900+8, asked at 20",
        "B answer 68 of 68, #6, \"ijkl\" 4, 900 in 9:900+4, asked at 72",
    ]);
    // An empty response ends its request, and no request is left.
    pair.feed(B, &tagged(0x82, 5, 0x50, b""));
    let counts = pair.counts(B);
    assert_eq!((counts.read_response_bytes, counts.unmatched_responses), (12, 0));
    pair.feed(B, &tagged(0x82, 5, 0x50, b""));
    pair.feed(B, &tagged(2, 5, 0x50, b"abcd"));
    pair.feed(B, &tagged(0x82, 5, 0x54, b"efgh"));
    pair.check([]);
    pair.pass_reordering_window();
    pair.check([
        "B faulty RDMA Read Response 112, #8, Unasked",
        "B faulty RDMA Read Response 132, #9, Unasked",
        "B unplaced 4",
        "B unplaced 4",
    ]);
    let counts = pair.counts(B);
    assert_eq!((counts.read_response_bytes, counts.unmatched_responses), (20, 2));
}

/// A response to the second request ends the first one. A response must lie within its sink.
#[test]
fn responses_outside_any_sink_are_unmatched() {
    for (stag, offset, answer) in [
        (5, 0x4f, None),
        (5, 0x50, Some("900 in 9:900+8, asked at 72")),
        (5, 0x57, Some("907 in 9:900+8, asked at 72")),
        (5, 0x58, None),
        (6, 0x50, None),
        (4, 0x40, Some("900 in 9:900+8, asked at 20")),
    ] {
        let mut pair = Pair::connected();
        pair.feed(A, &[read(1, 4, 0x40, 8), read(2, 5, 0x50, 8)].concat());
        pair.events.clear();
        pair.feed(B, &tagged(2, stag, offset, b"abcd"));
        match answer {
            Some(answer) => {
                let answer = format!("B answer 20 of 20, #4, \"abcd\" 4, {answer}");
                // Its last three bytes are outside the sink.
                let too_long =
                    "B faulty RDMA Read Response 20, #4, Response { left: 1, index: 0, length: 4 }";
                let faults = if offset == 0x57 { &[too_long][..] } else { &[] };
                assert_eq!(pair.events, [faults, &[&answer]].concat());
            }
            None => {
                pair.pass_reordering_window();
                pair.check(["B faulty RDMA Read Response 20, #4, Unasked", "B unplaced 4"]);
            }
        }
        let unmatched = u64::from(answer.is_none());
        assert_eq!(pair.counts(B).unmatched_responses, unmatched, "{stag} {offset:x}");
        // The first request ends when the second is answered.
        pair.feed(B, &tagged(0x82, 4, 0x44, b"efgh"));
        pair.pass_reordering_window();
        let is_over = answer.is_some_and(|answer| answer.ends_with("72"));
        assert_eq!(
            pair.events.last().is_some_and(|event| event.contains("unplaced")),
            is_over,
            "{stag} {offset:x}"
        );
    }
}

/// RFC 5040, section 4.5: a response is as long as requested.
#[test]
fn responses_of_wrong_length_are_faults() {
    let response = |last: u8, offset: u64, data: &[u8]| tagged(2 | last, 5, offset, data);
    // Bytes requested, pieces of the response, and the fault: bytes left, index of the piece,
    // length.
    type Case<'a> = (u32, &'a [&'a [u8]], Option<(u32, u32, u32)>);
    let cases: [Case<'_>; 6] = [
        (8, &[&response(0x80, 0x50, b"abcdefgh")], None),
        (8, &[&response(0, 0x50, b"abcd"), &response(0x80, 0x54, b"efgh")], None),
        (8, &[&response(0, 0x50, b"abcd"), &response(0x80, 0x54, b"ef")], Some((4, 1, 2))),
        (8, &[&response(0x80, 0x50, b"abcdefghi")], Some((8, 0, 9))),
        (0, &[&response(0x80, 0x50, b"")], None),
        (0, &[&response(0x80, 0x50, b"a")], Some((0, 0, 1))),
    ];
    for (asked, pieces, fault) in cases {
        let mut pair = Pair::connected();
        pair.feed(A, &read(1, 5, 0x50, asked));
        pair.events.clear();
        pair.feed(B, &pieces.concat());
        let faults: Vec<&String> = pair.events.iter().filter(|event| event.contains("faulty")).collect();
        match fault {
            None => assert_eq!(faults, [""; 0]),
            Some((left, index, length)) => {
                let found = format!("Response {{ left: {left}, index: {index}, length: {length} }}");
                let [fault] = faults[..] else { panic!("{faults:?}") };
                assert!(
                    fault.starts_with("B faulty RDMA Read Response ") && fault.ends_with(&found),
                    "{fault}"
                );
            }
        }
    }
}

/// TCP may divide an FPDU before its CRC, or within it (RFC 5044, section 5). The sinks of the two
/// requests are contiguous.
#[test]
fn crc_in_the_next_segment_ends_its_response() {
    let answers = [tagged(0x82, 5, 0x50, b"abcdefgh"), tagged(0x82, 5, 0x58, b"ijkl")].concat();
    // The FPDUs have 28 and 24 bytes, and their data begins at 16 and 44.
    for place in 16..52 {
        let mut pair = Pair::connected();
        pair.feed(A, &[read(1, 5, 0x50, 8), read(2, 5, 0x58, 4)].concat());
        pair.events.clear();
        pair.feed(B, &answers[..place]);
        pair.feed(B, &answers[place..]);
        pair.pass_reordering_window();
        let is_of = |begin: &str| pair.events.iter().filter(|event| event.starts_with(begin)).count();
        let divided = |data: core::ops::Range<usize>| usize::from(data.start < place && place < data.end);
        assert_eq!(is_of("B answer"), 2 + divided(16..24) + divided(44..48), "{place}: {:?}", pair.events);
        assert_eq!(pair.events.len(), is_of("B answer"), "{place}: {:?}", pair.events);
        assert!(pair.connection.halves[A].reads.is_empty(), "{place}: a request has not ended");
        let counts = pair.counts(B);
        assert_eq!((counts.read_response_bytes, counts.unmatched_responses), (12, 0), "{place}");
    }
}

/// A response that is too long or too short is one fault, wherever its CRC is.
#[test]
fn crc_in_the_next_segment_keeps_the_fault() {
    for (asked, data, fault) in
        [(0, &b"a"[..], (0, 0, 1)), (8, b"abcd", (4, 1, 0)), (8, b"abcdefghi", (8, 0, 9))]
    {
        let mut pair = Pair::connected();
        pair.feed(A, &read(1, 5, 0x50, asked));
        pair.events.clear();
        let answer = tagged(0x82, 5, 0x50, data);
        pair.feed(B, &answer[..answer.len() - 4]);
        pair.feed(B, &answer[answer.len() - 4..]);
        let (left, index, length) = fault;
        let fault = format!("Response {{ left: {left}, index: {index}, length: {length} }}");
        let faults: Vec<&String> = pair.events.iter().filter(|event| event.contains("faulty")).collect();
        let [found] = faults[..] else { panic!("{asked}: {faults:?}") };
        assert!(found.ends_with(&fault), "{asked}: {found}");
    }
}

/// The capture lacks a response, so the next response to the same sink may be that of a later request.
#[test]
fn response_after_missing_bytes_is_no_fault() {
    let [first, second] = [tagged(0x82, 5, 0x50, b"abcd"), tagged(0x82, 5, 0x50, b"abcdefgh")];
    let faults = |is_lost: bool| {
        let mut pair = Pair::connected();
        pair.feed(A, &[read(1, 5, 0x50, 4), read(2, 5, 0x50, 8)].concat());
        if is_lost {
            pair.lose(B, first.len() as u32);
        } else {
            pair.feed(B, &tagged(0x82, 5, 0x50, b"abcde"));
        }
        pair.feed(B, &second);
        pair.pass_reordering_window();
        pair.events.iter().filter(|event| event.contains("faulty")).count()
    };
    assert_eq!([true, false].map(faults), [0, 1]);
}

/// At most 2^14 unanswered requests are remembered, and the oldest is dropped.
#[test]
fn outstanding_requests_are_bounded() {
    for (more, is_known) in [(0, true), (1, false)] {
        let mut pair = Pair::connected();
        for number in 1..=(1 << 14) + more {
            pair.feed(A, &read(number, number, 0, 4));
        }
        pair.events.clear();
        assert!(pair.connection.buffered() >= 1 << 14);
        pair.feed(B, &tagged(0x82, 1, 0, b"abcd"));
        pair.pass_reordering_window();
        assert_eq!(pair.events[0].contains("asked at 20"), is_known, "{more}");
    }
}

/// A response precedes its request in the capture.
#[test]
fn early_response_waits_for_its_request() {
    let mut pair = Pair::connected();
    let missing = send(1, b"abcd");
    pair.lose(A, 28);
    pair.feed(A, &read(1, 5, 0x50, 8));
    pair.feed(B, &tagged(2, 5, 0x50, b"abcd"));
    pair.feed(B, &tagged(0x82, 5, 0x54, b"efgh"));
    pair.check([]);
    assert!(pair.connection.waits(A) && !pair.connection.waits(B));
    assert!(pair.connection.buffered() > 8 + 52);
    let before = pair.clone();
    pair.at(A, 20, &missing);
    let answers = [
        "B answer 20 of 20, #4, \"abcd\" 4, 900 in 9:900+8, asked at 48",
        "B answer 60 of 20, #5, \"efgh\" 4, 904 in 9:900+8, asked at 48",
    ];
    let [first, second] = answers;
    pair.check(["A send 20+28, [6, 6], \"abcd\" of 4", "A read 48+52, #3, 9:900+8", first, second]);
    assert_eq!((pair.connection.buffered(), pair.counts(B).unmatched_responses), (0, 0));
    assert_eq!((pair.counts(B).read_response_bytes, pair.counts(A).reordered_packets), (8, 1));
    assert_eq!(pair.connection.first_frames(A, FirstFrames::default()).reordered_packet, Some(6));
    assert_eq!(pair.connection.disturbed(A), 1);
    // The wait ends after two milliseconds or 64 packets.
    let deadline = 4 + 2_000_001;
    assert_eq!(before.connection.deadline(), Some(Time(deadline)));
    let mut pair = before.clone();
    pair.time(deadline - 1);
    pair.check([]);
    pair.time(deadline);
    pair.check(["B faulty RDMA Read Response 20, #4, Unasked", "B unplaced 4"]);
    pair.time(deadline + 1);
    pair.check(["B unplaced 4"]);
    assert_eq!(pair.counts(B).unmatched_responses, 1);
    let mut pair = before.clone();
    (0..63).for_each(|_| pair.acknowledge(B, 20));
    pair.check([]);
    pair.acknowledge(B, 20);
    pair.check(["B faulty RDMA Read Response 20, #4, Unasked", "B unplaced 4"]);
    // No more packets follow: the gap is given up, and the request is found.
    let mut pair = before.clone();
    pair.finish();
    pair.check(["A missing 1", "A read 48+52, #3, 9:900+8", first, second]);
    // Other messages fill the gap.
    let mut pair = before;
    pair.at(A, 20, &[send(1, b"abcd"), send(2, &[b'x'; 44])].concat());
    pair.check(["A send 20+28, [6, 6], \"abcd\" of 4", "A send 48+68, [6, 6], 44 bytes of 44"]);
    pair.pass_reordering_window();
    pair.check(["B faulty RDMA Read Response 20, #4, Unasked", "B unplaced 4", "B unplaced 4"]);
}

/// A capture may show the two ends shifted against each other, without any gap.
#[test]
fn early_response_waits_for_its_request_without_a_gap() {
    let mut pair = Pair::connected();
    pair.feed(B, &tagged(2, 5, 0x50, b"abcd"));
    pair.feed(B, &tagged(0x82, 5, 0x54, b"efgh"));
    pair.check([]);
    pair.feed(A, &read(1, 5, 0x50, 8));
    pair.check([
        "A read 20+52, #5, 9:900+8",
        "B answer 20 of 20, #3, \"abcd\" 4, 900 in 9:900+8, asked at 20",
        "B answer 60 of 20, #4, \"efgh\" 4, 904 in 9:900+8, asked at 20",
    ]);
    assert_eq!((pair.connection.buffered(), pair.counts(B).unmatched_responses), (0, 0));
}

/// RFC 5040, section 4.4: a request has 28 bytes after its header of 20.
#[test]
fn truncated_read_request_is_missing() {
    for kept in 20..48 {
        let mut pair = Pair::connected();
        pair.cut(A, 20, 0, None, &read(1, 5, 0x50, 8), kept);
        pair.check(["A missing 1"]);
    }
}

/// The header of the second FPDU is in the segment, but not in the capture.
#[test]
fn message_with_truncated_header_is_missing() {
    for kept in 28..48 {
        let mut pair = Pair::connected();
        pair.cut(A, 20, 0, None, &[send(1, b"abcd"), send(2, b"efgh")].concat(), kept);
        pair.check(["A send 20+28, [3, 3], \"abcd\" of 4", "A missing 1"]);
    }
}

/// At most 64 responses are held.
#[test]
fn held_responses_are_bounded() {
    let mut pair = Pair::connected();
    pair.lose(A, 28);
    pair.feed(A, &send(2, b"efgh"));
    (0..64).for_each(|_| pair.feed(B, &tagged(0x82, 5, 0x50, b"abcd")));
    pair.check([]);
    pair.feed(B, &tagged(0x82, 5, 0x50, b"abcd"));
    pair.check(["B faulty RDMA Read Response 20, #4, Unasked", "B unplaced 4"]);
    // Held responses count with their bytes.
    let mut pair = Pair::connected();
    pair.lose(A, 28);
    pair.feed(A, &send(2, b"efgh"));
    pair.feed(B, &tagged(0x82, 5, 0x50, &vec![7; 40_000]));
    assert!((40_000..80_000).contains(&pair.connection.buffered()));
}

/// RFC 6581, section 9.1: an end must not be asked for more RDMA Reads at once than it serves.
#[test]
fn reads_beyond_the_ird_are_a_fault() {
    // IRD of the Reply, the wait before the first response, and whether the fault is found.
    for (inbound, wait, is_found) in [
        // The second request came two packets earlier, at 1 ns each.
        (1, 2 * MILLISECOND - 1, true),
        (1, 2 * MILLISECOND - 2, false),
        (2, 3 * MILLISECOND, false),
        (0x3fff, 3 * MILLISECOND, false),
    ] {
        let mut pair = Pair::new();
        pair.feed(A, &start(A, 0x10, 2, &[0, 4, 0, 4]));
        pair.feed(B, &start(B, 0x10, 2, &[(inbound >> 8) as u8, inbound as u8, 0, 4]));
        pair.feed(A, &read(1, 5, 0x50, 4));
        pair.feed(A, &read(2, 6, 0x60, 4));
        pair.events.clear();
        pair.wait(wait);
        pair.feed(A, &read(3, 7, 0x70, 4));
        pair.events.clear();
        pair.feed(B, &[tagged(2, 5, 0x50, b"ab"), tagged(0x82, 5, 0x52, b"cd")].concat());
        let fault =
            "B faulty RDMA Read Response 24, #6, Reads { outstanding: 2, allowed: 1, first: 3, last: 4 }";
        assert_eq!(pair.events.contains(&fault.into()), is_found, "{inbound} {wait}: {:?}", pair.events);
        assert_eq!(pair.events.len(), 2 + usize::from(is_found));
        // Reported once.
        pair.events.clear();
        pair.feed(A, &read(4, 8, 0x80, 4));
        pair.wait(3 * MILLISECOND);
        pair.events.clear();
        pair.feed(B, &tagged(0x82, 6, 0x60, b"abcd"));
        let is_found_now = pair.events.iter().any(|event| event.contains("Reads"));
        assert_eq!(is_found_now, !is_found && inbound < 3, "{inbound} {wait}");
    }
}
