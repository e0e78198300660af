//! RDMA Read Responses and the requests that they answer (RFC 5040, sections 4.5 and 5.5).

use super::*;

/// RFC 5040, section 4.4: a response has the sink STag and sink TO of its request. Responses come
/// in the order of the requests (section 5.5).
#[test]
fn responses_belong_to_their_requests() {
    let mut talk = Talk::connected();
    talk.say(A, &[read(1, 5, 0x50, 8), read(2, 6, 0x60, 4), read(3, 5, 0x50, 0)].concat());
    talk.tells(["A read 20+52, #3, 9:900+8", "A read 72+52, #3, 9:900+4", "A read 124+52, #3, 9:900+0"]);
    talk.say(B, &tagged(2, 5, 0x50, b"abcd"));
    talk.say(B, &tagged(0x82, 5, 0x54, b"efgh"));
    talk.say(B, &tagged(0x82, 6, 0x60, b"ijkl"));
    talk.tells([
        "B answer 20 of 20, #4, \"abcd\" 4, 900 in 9:900+8, asked at 20",
        "B answer 60 of 20, #5, \"efgh\" 4, 904 in 9:900+8, asked at 20",
        "B answer 68 of 68, #6, \"ijkl\" 4, 900 in 9:900+4, asked at 72",
    ]);
    // An empty response ends its request, and no request is left.
    talk.say(B, &tagged(0x82, 5, 0x50, b""));
    let counts = talk.counts(B);
    assert_eq!((counts.read_response_bytes, counts.unmatched_responses), (12, 0));
    talk.say(B, &tagged(0x82, 5, 0x50, b""));
    talk.say(B, &tagged(2, 5, 0x50, b"abcd"));
    talk.say(B, &tagged(0x82, 5, 0x54, b"efgh"));
    talk.tells([]);
    talk.late();
    talk.tells([
        "B faulty RDMA Read Response 112, #8, Unasked",
        "B faulty RDMA Read Response 132, #9, Unasked",
        "B unplaced 4",
        "B unplaced 4",
    ]);
    let counts = talk.counts(B);
    assert_eq!((counts.read_response_bytes, counts.unmatched_responses), (20, 2));
}

/// A response to the second request ends the first one. A response must lie within its sink.
#[test]
fn responses_that_fit_no_request() {
    for (stag, offset, answer) in [
        (5, 0x4f, None),
        (5, 0x50, Some("900 in 9:900+8, asked at 72")),
        (5, 0x57, Some("907 in 9:900+8, asked at 72")),
        (5, 0x58, None),
        (6, 0x50, None),
        (4, 0x40, Some("900 in 9:900+8, asked at 20")),
    ] {
        let mut talk = Talk::connected();
        talk.say(A, &[read(1, 4, 0x40, 8), read(2, 5, 0x50, 8)].concat());
        talk.told.clear();
        talk.say(B, &tagged(2, stag, offset, b"abcd"));
        match answer {
            Some(answer) => {
                let answer = format!("B answer 20 of 20, #4, \"abcd\" 4, {answer}");
                // Its last three bytes are outside the sink.
                let too_long =
                    "B faulty RDMA Read Response 20, #4, Response { left: 1, index: 0, length: 4 }";
                let faults = if offset == 0x57 { &[too_long][..] } else { &[] };
                assert_eq!(talk.told, [faults, &[&answer]].concat());
            }
            None => {
                talk.late();
                talk.tells(["B faulty RDMA Read Response 20, #4, Unasked", "B unplaced 4"]);
            }
        }
        let unmatched = u64::from(answer.is_none());
        assert_eq!(talk.counts(B).unmatched_responses, unmatched, "{stag} {offset:x}");
        // The first request ends when the second is answered.
        talk.say(B, &tagged(0x82, 4, 0x44, b"efgh"));
        talk.late();
        let is_over = answer.is_some_and(|answer| answer.ends_with("72"));
        assert_eq!(
            talk.told.last().is_some_and(|told| told.contains("unplaced")),
            is_over,
            "{stag} {offset:x}"
        );
    }
}

/// RFC 5040, section 4.5: a response is as long as requested.
#[test]
fn responses_of_another_length() {
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
        let mut talk = Talk::connected();
        talk.say(A, &read(1, 5, 0x50, asked));
        talk.told.clear();
        talk.say(B, &pieces.concat());
        let faults: Vec<&String> = talk.told.iter().filter(|told| told.contains("faulty")).collect();
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

/// At most 2^14 unanswered requests are remembered, and the oldest is dropped.
#[test]
fn requests_that_are_remembered() {
    for (more, is_known) in [(0, true), (1, false)] {
        let mut talk = Talk::connected();
        for number in 1..=(1 << 14) + more {
            talk.say(A, &read(number, number, 0, 4));
        }
        talk.told.clear();
        assert!(talk.connection.buffered() >= 1 << 14);
        talk.say(B, &tagged(0x82, 1, 0, b"abcd"));
        talk.late();
        assert_eq!(talk.told[0].contains("asked at 20"), is_known, "{more}");
    }
}

/// A response precedes its request in the capture.
#[test]
fn a_response_before_its_request() {
    let mut talk = Talk::connected();
    let missing = send(1, b"abcd");
    talk.lose(A, 28);
    talk.say(A, &read(1, 5, 0x50, 8));
    talk.say(B, &tagged(2, 5, 0x50, b"abcd"));
    talk.say(B, &tagged(0x82, 5, 0x54, b"efgh"));
    talk.tells([]);
    assert!(talk.connection.waits(A) && !talk.connection.waits(B));
    assert!(talk.connection.buffered() > 8 + 52);
    let before = talk.clone();
    talk.at(A, 20, &missing);
    let answers = [
        "B answer 20 of 20, #4, \"abcd\" 4, 900 in 9:900+8, asked at 48",
        "B answer 60 of 20, #5, \"efgh\" 4, 904 in 9:900+8, asked at 48",
    ];
    let [first, second] = answers;
    talk.tells(["A send 20+28, [6, 6], \"abcd\" of 4", "A read 48+52, #3, 9:900+8", first, second]);
    assert_eq!((talk.connection.buffered(), talk.counts(B).unmatched_responses), (0, 0));
    assert_eq!((talk.counts(B).read_response_bytes, talk.counts(A).reordered_packets), (8, 1));
    assert_eq!(talk.connection.first_frames(A, FirstFrames::default()).reordered_packet, Some(6));
    assert_eq!(talk.connection.disturbed(A), 1);
    // The wait ends after two milliseconds or 64 packets.
    let deadline = 4 + 2_000_001;
    assert_eq!(before.connection.deadline(), Some(Time(deadline)));
    let mut talk = before.clone();
    talk.time(deadline - 1);
    talk.tells([]);
    talk.time(deadline);
    talk.tells(["B faulty RDMA Read Response 20, #4, Unasked", "B unplaced 4"]);
    talk.time(deadline + 1);
    talk.tells(["B unplaced 4"]);
    assert_eq!(talk.counts(B).unmatched_responses, 1);
    let mut talk = before.clone();
    (0..63).for_each(|_| talk.acknowledge(B, 20));
    talk.tells([]);
    talk.acknowledge(B, 20);
    talk.tells(["B faulty RDMA Read Response 20, #4, Unasked", "B unplaced 4"]);
    // No more packets follow: the gap is given up, and the request is found.
    let mut talk = before.clone();
    talk.finish();
    talk.tells(["A missing 1", "A read 48+52, #3, 9:900+8", first, second]);
    // Other messages fill the gap.
    let mut talk = before;
    talk.at(A, 20, &[send(1, b"abcd"), send(2, &[b'x'; 44])].concat());
    talk.tells(["A send 20+28, [6, 6], \"abcd\" of 4", "A send 48+68, [6, 6], 44 bytes of 44"]);
    talk.late();
    talk.tells(["B faulty RDMA Read Response 20, #4, Unasked", "B unplaced 4", "B unplaced 4"]);
}

/// A capture may show the two ends shifted against each other, without any gap.
#[test]
fn a_response_before_its_request_without_a_gap() {
    let mut talk = Talk::connected();
    talk.say(B, &tagged(2, 5, 0x50, b"abcd"));
    talk.say(B, &tagged(0x82, 5, 0x54, b"efgh"));
    talk.tells([]);
    talk.say(A, &read(1, 5, 0x50, 8));
    talk.tells([
        "A read 20+52, #5, 9:900+8",
        "B answer 20 of 20, #3, \"abcd\" 4, 900 in 9:900+8, asked at 20",
        "B answer 60 of 20, #4, \"efgh\" 4, 904 in 9:900+8, asked at 20",
    ]);
    assert_eq!((talk.connection.buffered(), talk.counts(B).unmatched_responses), (0, 0));
}

/// RFC 5040, section 4.4: a request has 28 bytes after its header of 20.
#[test]
fn a_request_that_a_snap_length_cut() {
    for kept in 20..48 {
        let mut talk = Talk::connected();
        talk.cut(A, 20, 0, None, &read(1, 5, 0x50, 8), kept);
        talk.tells(["A missing 1"]);
    }
}

/// The header of the second FPDU is in the segment, but not in the capture.
#[test]
fn a_message_that_a_snap_length_cut() {
    for kept in 28..48 {
        let mut talk = Talk::connected();
        talk.cut(A, 20, 0, None, &[send(1, b"abcd"), send(2, b"efgh")].concat(), kept);
        talk.tells(["A send 20+28, [3, 3], \"abcd\" of 4", "A missing 1"]);
    }
}

/// At most 64 responses are held.
#[test]
fn responses_that_wait_are_bounded() {
    let mut talk = Talk::connected();
    talk.lose(A, 28);
    talk.say(A, &send(2, b"efgh"));
    (0..64).for_each(|_| talk.say(B, &tagged(0x82, 5, 0x50, b"abcd")));
    talk.tells([]);
    talk.say(B, &tagged(0x82, 5, 0x50, b"abcd"));
    talk.tells(["B faulty RDMA Read Response 20, #4, Unasked", "B unplaced 4"]);
    // Held responses count with their bytes.
    let mut talk = Talk::connected();
    talk.lose(A, 28);
    talk.say(A, &send(2, b"efgh"));
    talk.say(B, &tagged(0x82, 5, 0x50, &vec![7; 40_000]));
    assert!((40_000..80_000).contains(&talk.connection.buffered()));
}

/// RFC 6581, section 9.1: an end must not be asked for more RDMA Reads at once than it serves.
#[test]
fn reads_beyond_the_depth() {
    // IRD of the Reply, the wait before the first response, and whether the fault is found.
    for (inbound, wait, is_found) in [
        // The second request came two packets earlier, at 1 ns each.
        (1, 2 * MILLISECOND - 1, true),
        (1, 2 * MILLISECOND - 2, false),
        (2, 3 * MILLISECOND, false),
        (0x3fff, 3 * MILLISECOND, false),
    ] {
        let mut talk = Talk::new();
        talk.say(A, &start(A, 0x10, 2, &[0, 4, 0, 4]));
        talk.say(B, &start(B, 0x10, 2, &[(inbound >> 8) as u8, inbound as u8, 0, 4]));
        talk.say(A, &read(1, 5, 0x50, 4));
        talk.say(A, &read(2, 6, 0x60, 4));
        talk.told.clear();
        talk.wait(wait);
        talk.say(A, &read(3, 7, 0x70, 4));
        talk.told.clear();
        talk.say(B, &[tagged(2, 5, 0x50, b"ab"), tagged(0x82, 5, 0x52, b"cd")].concat());
        let fault =
            "B faulty RDMA Read Response 24, #6, Reads { outstanding: 2, allowed: 1, first: 3, last: 4 }";
        assert_eq!(talk.told.contains(&fault.into()), is_found, "{inbound} {wait}: {:?}", talk.told);
        assert_eq!(talk.told.len(), 2 + usize::from(is_found));
        // Reported once.
        talk.told.clear();
        talk.say(A, &read(4, 8, 0x80, 4));
        talk.wait(3 * MILLISECOND);
        talk.told.clear();
        talk.say(B, &tagged(0x82, 6, 0x60, b"abcd"));
        let is_found_now = talk.told.iter().any(|told| told.contains("Reads"));
        assert_eq!(is_found_now, !is_found && inbound < 3, "{inbound} {wait}");
    }
}
