use super::*;
use crate::iwarp::connection::tests::{A, B, Pair, send, start, tagged, untagged};
use crate::iwarp::framing::tests::send as send_with_crc;
use alloc::vec;

/// Checks the deliveries of FPDUs that A sends after its start frame, each in its own segment:
/// packets from 3 on, bytes from 20 on.
#[track_caller]
fn check<const N: usize>(fpdus: &[Vec<u8>], expected: [&str; N]) {
    let mut pair = Pair::connected();
    fpdus.iter().for_each(|fpdu| pair.feed(A, fpdu));
    pair.check(expected);
}

/// RFC 5040, section 5.1: four kinds of Send, two of them with Invalidate.
#[test]
fn send_variants_are_delivered() {
    let kinds: Vec<_> = [0x83, 0x84, 0x85, 0x86].into_iter().zip(1..).collect();
    let fpdus = kinds.iter().map(|(opcode, number)| untagged(*opcode, 0, *number, 0, b"abcd"));
    check(
        &fpdus.collect::<Vec<_>>(),
        [
            "A send 20+28, [3, 3], \"abcd\" of 4",
            "A send 48+28, [4, 4], \"abcd\" of 4, invalidates 7",
            "A send 76+28, [5, 5], \"abcd\" of 4",
            "A send 104+28, [6, 6], \"abcd\" of 4, invalidates 7",
        ],
    );
    check(
        &[
            untagged(3, 0, 1, 0, b"abcd"),
            untagged(3, 0, 1, 4, b"efgh"),
            untagged(0x83, 0, 1, 8, b"ijkl"),
            send(2, b""),
        ],
        ["A send 20+84, [3, 5], \"abcdefghijkl\" of 12", "A send 104+24, [6, 6], \"\" of 0"],
    );
}

/// RFC 5041, section 5.3: the numbers of each queue count from 1.
#[test]
fn message_numbers_are_consecutive_per_queue() {
    let fault = "MessageNumber { found";
    for (numbers, faulty) in [
        (vec![1, 2, 3], None),
        (vec![2, 3], Some((0, format_args(2, 1)))),
        (vec![1, 3, 4], Some((1, format_args(3, 2)))),
        (vec![1, 1, 2], Some((1, format_args(1, 2)))),
        // The sender counted correctly and sent one wrong number.
        (vec![1, 7, 3, 4], Some((1, format_args(7, 2)))),
        (vec![1, 1, 3, 4], Some((1, format_args(1, 2)))),
    ] {
        let mut pair = Pair::connected();
        for (index, number) in numbers.iter().enumerate() {
            pair.feed(A, &send(*number, b"abcd"));
            let place = 20 + 28 * index;
            let frame = 3 + index;
            let of = alloc::format!("A send {place}+28, [{frame}, {frame}], \"abcd\" of 4");
            match &faulty {
                Some((at, numbers)) if *at == index => {
                    pair.check([
                        &alloc::format!("A faulty Send {place}, #{frame}, {fault}: {numbers} }}"),
                        &of,
                    ]);
                }
                _ => pair.check([&of]),
            }
        }
    }
    // Each queue has its own numbers. After a gap the next number is unknown. 0 follows 2^32 - 1.
    let reading = untagged(0x81, 1, 1, 0, &[0; 28]);
    let terminate = untagged(0x87, 2, 1, 0, &[0x02, 0x06, 0, 0]);
    let mut pair = Pair::connected();
    pair.feed(A, &send(1, b"abcd"));
    pair.feed(A, &reading);
    pair.lose(A, 28);
    pair.feed(A, &send(u32::MAX, b"efgh"));
    pair.feed(A, &send(0, b"ijkl"));
    pair.feed(A, &terminate);
    pair.finish();
    pair.check([
        "A send 20+28, [3, 3], \"abcd\" of 4",
        "A read 48+52, #4, 0:0+0",
        "A missing 1",
        "A send 128+28, [5, 5], \"efgh\" of 4",
        "A send 156+28, [6, 6], \"ijkl\" of 4",
        "A refuses 4294962296, #7, RDMAP: remote operation error, unexpected opcode",
    ]);
}

fn format_args(found: u32, expected: u32) -> alloc::string::String {
    alloc::format!("{found}, expected: {expected}")
}

/// RFC 5041, section 5.3: the MO of a segment is the end of the previous segment.
#[test]
fn wrong_message_offsets_are_faults() {
    let first = || untagged(3, 0, 1, 0, b"abcd");
    let of = |offset: u32| untagged(0x83, 0, 1, offset, b"efgh");
    // A lower offset: the bytes before it remain valid.
    check(
        &[first(), of(2)],
        [
            "A faulty Send 48, #4, MessageOffset { found: 2, expected: 4 }",
            "A send 20+56, [3, 4], \"ab\" of 6",
        ],
    );
    // A higher offset: bytes are missing.
    check(
        &[first(), of(8)],
        [
            "A faulty Send 48, #4, MessageOffset { found: 8, expected: 4 }",
            "A send 20+56, [3, 4], \"abcd\" of 12, lacks 4..8",
        ],
    );
    // A second gap is merged with the first and causes no fault.
    check(
        &[first(), untagged(3, 0, 1, 6, b"gh"), of(12)],
        [
            "A faulty Send 48, #4, MessageOffset { found: 6, expected: 4 }",
            "A send 20+84, [3, 5], \"abcd\" of 16, lacks 4..12",
        ],
    );
    // A message with a wrong first offset still counts.
    check(
        &[of(4), send(2, b"ijkl")],
        [
            "A faulty Send 20, #3, MessageOffset { found: 4, expected: 0 }",
            "A unplaced 4",
            "A send 48+28, [4, 4], \"ijkl\" of 4",
        ],
    );
    // After a Send to another queue, the next message number is unknown.
    check(
        &[untagged(0x83, 2, 1, 0, b"abcd"), send(2, b"ijkl")],
        [
            "A faulty Send 20, #3, Segment",
            "A send 20+28, [3, 3], \"abcd\" of 4",
            "A send 48+28, [4, 4], \"ijkl\" of 4",
        ],
    );
    // The first segment is missing. That is a fault if the message is the next one of its queue.
    check(&[of(4)], ["A faulty Send 20, #3, MessageOffset { found: 4, expected: 0 }", "A unplaced 4"]);
    check(&[untagged(0x83, 0, 5, 4, b"efgh")], ["A unplaced 4"]);
    check(&[untagged(0x83, 0, 5, 4, b"")], []);
    check(&[first(), untagged(0x83, 0, 9, 4, b"efgh")], ["A unplaced 4"]);
    check(
        &[first(), untagged(0x81, 1, 1, 4, b"efgh"), of(4)],
        [
            "A faulty RDMA Read Request 48, #4, MessageOffset { found: 4, expected: 0 }",
            "A unplaced 4",
            "A send 20+84, [3, 5], \"abcdefgh\" of 8",
        ],
    );
}

/// A message starts before the previous one has ended.
#[test]
fn unfinished_message_is_delivered_as_incomplete() {
    check(
        &[untagged(3, 0, 1, 0, b"abcd"), send(2, b"efgh")],
        [
            "A faulty Send 48, #4, Order",
            "A send 20+4, [3, 3], \"abcd\" of ?, lacks 4..",
            "A send 48+28, [4, 4], \"efgh\" of 4",
        ],
    );
    check(
        &[untagged(3, 0, 1, 0, b""), send(2, b"efgh")],
        [
            "A faulty Send 44, #4, Order",
            "A send 20+1, [3, 3], \"\" of ?, lacks 0..",
            "A send 44+28, [4, 4], \"efgh\" of 4",
        ],
    );
    // Only Sends are delivered.
    check(&[untagged(1, 1, 1, 0, &[0; 20]), send(1, b"efgh")], ["A send 64+28, [4, 4], \"efgh\" of 4"]);
    let mut pair = Pair::connected();
    pair.feed(A, &untagged(3, 0, 1, 0, b"abcd"));
    pair.finish();
    pair.check(["A send 20+4, [3, 3], \"abcd\" of ?, lacks 4.."]);
}

/// The missing bytes of a message are reported as a range.
#[test]
fn missing_bytes_are_reported_as_a_range() {
    // Twelve bytes of data from 40 on: the lost range, and the delivery.
    let of_one = [
        (40, 44, "\"\" of 12, lacks 0..4"),
        (44, 48, "\"abcd\" of 12, lacks 4..8"),
        (44, 52, "\"abcd\" of 12, lacks 4..12"),
        (52, 56, "\"abcdefghijkl\" of 12"),
    ];
    for (from, to, expected) in of_one {
        let mut pair = Pair::connected();
        let stream = [send(1, b"abcdefghijkl"), send(2, b"mnop")].concat();
        pair.at(A, 20, &stream[..from - 20]);
        pair.at(A, to as u32, &stream[to - 20..]);
        pair.finish();
        // If the CRC is lost, no later packet has bytes of the FPDU.
        let frame = if to == 56 { 3 } else { 4 };
        let delivery = alloc::format!("A send 20+36, [3, {frame}], {expected}");
        pair.check(["A missing 1", &delivery, "A send 56+28, [4, 4], \"mnop\" of 4"]);
    }
    // The second of three FPDUs is lost, so the message is given up.
    let mut pair = Pair::connected();
    pair.feed(A, &untagged(3, 0, 1, 0, b"abcd"));
    pair.lose(A, 28);
    pair.feed(A, &untagged(0x83, 0, 1, 8, b"ijkl"));
    pair.finish();
    pair.check(["A missing 1", "A send 20+4, [3, 3], \"abcd\" of ?, lacks 4..", "A unplaced 4"]);
    // A gap within one FPDU of several.
    let mut pair = Pair::connected();
    let second = untagged(3, 0, 1, 4, b"efghijkl");
    pair.feed(A, &untagged(3, 0, 1, 0, b"abcd"));
    pair.feed(A, &second[..24]);
    pair.lose(A, 4);
    pair.feed(A, &second[28..]);
    pair.feed(A, &untagged(0x83, 0, 1, 12, b"mnop"));
    pair.finish();
    pair.check(["A missing 1", "A send 20+88, [3, 6], \"abcdefgh\" of 16, lacks 8..12"]);
    // A snap length cuts a message. Nothing is appended after the cut.
    for (message, expected) in [
        (vec![send(1, b"abcdefgh")], "A send 20+32, [3, 3], \"abcd\" of 8"),
        (
            vec![untagged(3, 0, 1, 0, b"abcdefgh"), untagged(0x83, 0, 1, 8, b"ijkl")],
            "A send 20+60, [3, 4], \"abcd\" of 12",
        ),
    ] {
        let mut pair = Pair::connected();
        pair.cut(A, 20, 0, None, &message[0], 24);
        message[1..].iter().for_each(|fpdu| pair.feed(A, fpdu));
        pair.check([expected]);
    }
}

/// 512 KiB of a message are kept. A longer one is reported with its length.
#[test]
fn message_bytes_are_kept_up_to_512_kib() {
    let of = |fpdus: &[(u32, u32)]| {
        let mut pair = Pair::connected();
        for (index, (offset, length)) in fpdus.iter().enumerate() {
            let last = if index + 1 == fpdus.len() { 0x80 } else { 0 };
            let fpdu = untagged(3 | last, 0, 1, *offset, &vec![7; *length as usize]);
            fpdu.chunks(40_000).for_each(|segment| pair.feed(A, segment));
        }
        assert!(pair.connection.buffered() >= 480_000);
        pair
    };
    let eight = |length: u32| (0..8).map(|index| (index * length, length)).collect::<Vec<_>>();
    let with = |mut fpdus: Vec<(u32, u32)>, last: &[u32]| {
        for length in last {
            let next = fpdus.last().map_or(0, |(offset, length)| offset + length);
            fpdus.push((next, *length));
        }
        fpdus
    };
    // Each FPDU has 24 bytes besides its data, and its length is a multiple of four.
    of(&with(eight(65_512), &[192])).check(["A send 20+524504, [3, 19], 524288 bytes of 524288"]);
    of(&with(eight(65_512), &[196])).check(["A send 20+524508, [3, 19], 524096 bytes of 524292"]);
    // Nothing is appended after a piece that did not fit.
    let expected = "A send 20+540272, [3, 22], 520000 bytes of 540008";
    of(&with(with(eight(60_000), &[40_000]), &[20_000, 8])).check([expected]);
}

/// RFC 5040, sections 5.2 and 4.4.
#[test]
fn complete_read_requests_are_delivered() {
    let header: Vec<u8> =
        [[0, 0, 0, 5], [0; 4], [0, 0, 0, 0x50], [0, 0, 0, 8], [0, 0, 0, 9], [0; 4], [0, 0, 9, 0]].concat();
    let parts =
        |at: usize| [untagged(1, 1, 1, 0, &header[..at]), untagged(0x81, 1, 1, at as u32, &header[at..])];
    check(&[untagged(0x81, 1, 1, 0, &header)], ["A read 20+52, #3, 9:900+8"]);
    check(&parts(20), ["A read 20+76, #4, 9:900+8"]);
    check(&[untagged(0x81, 1, 1, 0, &header[..27])], []);
}

/// RFC 5040, section 5.4: nothing follows a Terminate.
#[test]
fn terminate_ends_its_stream() {
    let terminate = untagged(0x87, 2, 1, 0, &[0x01, 0x01, 0, 0]);
    let mut pair = Pair::connected();
    pair.feed(B, &send(1, b"abcd"));
    pair.acknowledge(A, 48);
    pair.feed(A, &terminate);
    let refusal = "A refuses 47, #5, RDMAP: remote protection error, base or bounds violation";
    pair.check(["B send 20+28, [3, 3], \"abcd\" of 4", refusal]);
    pair.feed(A, &send(1, b"abcd"));
    pair.feed(A, &send(2, b"abcd"));
    pair.check([
        "A faulty Send 48, #6, Terminated",
        "A send 48+28, [6, 6], \"abcd\" of 4",
        "A send 76+28, [7, 7], \"abcd\" of 4",
    ]);
    let (counts, first) = (Default::default(), Default::default());
    assert_eq!(
        (pair.connection.count(A, counts).fatal_naks, pair.connection.count(B, counts).fatal_naks),
        (1, 0)
    );
    assert_eq!(pair.connection.first_frames(A, first).fatal_nak, Some(5));
    // A truncated Terminate has no reason, and still ends the stream.
    check(
        &[untagged(0x87, 2, 1, 0, &[1]), send(1, b"abcd")],
        ["A faulty Send 48, #4, Terminated", "A send 48+28, [4, 4], \"abcd\" of 4"],
    );
}

/// Messages that RPC-over-RDMA does not use (RFC 7306, sections 5 and 6), and those that RFC 5040,
/// figure 4, forbids.
#[test]
fn messages_unused_by_rpc_over_rdma_are_faults() {
    check(&[untagged(0x88, 0, 1, 0, b"abcdefgh")], ["A faulty Immediate Data 20, #3, Foreign"]);
    check(&[untagged(0x8a, 1, 1, 0, &[0; 52])], ["A faulty Atomic Request 20, #3, Foreign"]);
    // The responder has to answer.
    check(&[untagged(0x8b, 3, 1, 0, &[0; 12])], []);
    let fault = ["A faulty Send 20, #3, Segment", "A send 20+28, [3, 3], \"abcd\" of 4"];
    check(&[untagged(0x83, 1, 1, 0, b"abcd")], fault);
    let mut pair = Pair::connected();
    let fpdu = untagged(0x83, 1, 1, 0, b"abcd");
    pair.feed(A, &fpdu[..22]);
    pair.feed(A, &fpdu[22..]);
    pair.check([fault[0], "A send 20+28, [3, 4], \"abcd\" of 4"]);
    check(&[untagged(0x83, 9, 1, 0, b"abcd")], fault);
}

/// RFC 5041, section 5.2: the segments of a tagged message have one STag and consecutive TOs.
#[test]
fn tagged_segments_continue_by_stag_and_offset() {
    let write = |offset: u64, data: &[u8]| tagged(0, 7, offset, data);
    let last = |offset: u64, data: &[u8]| tagged(0x80, 7, offset, data);
    let first = "A write 20 of 20, #3, \"abcd\" 4, 100 in 7:100+4";
    let begins_anew = "A write 44 of 44, #4, \"efgh\" 4, 108 in 7:108+4";
    check(
        &[write(0x100, b"abcd"), write(0x104, b"efgh"), last(0x108, b"ijkl"), last(0x200, b"mnop")],
        [
            first,
            "A write 60 of 20, #4, \"efgh\" 4, 104 in 7:100+8",
            "A write 84 of 20, #5, \"ijkl\" 4, 108 in 7:100+12",
            "A write 92 of 92, #6, \"mnop\" 4, 200 in 7:200+4",
        ],
    );
    let fault = "A faulty RDMA Write 44, #4, MessageOffset { found: 264, expected: 260 }";
    check(&[write(0x100, b"abcd"), last(0x108, b"efgh")], [first, fault, begins_anew]);
    // After a last segment, or with another STag, a new message starts.
    check(&[last(0x100, b"abcd"), last(0x108, b"efgh")], [first, begins_anew]);
    check(
        &[last(0x100, b"abcd"), last(0x104, b"efgh")],
        [first, "A write 44 of 44, #4, \"efgh\" 4, 104 in 7:104+4"],
    );
    for other in [tagged(0x80, 8, 0x108, b"efgh"), tagged(0x80, 8, 0x104, b"efgh")] {
        let offset = u16::from(other[15]);
        let second = alloc::format!("A write 44 of 44, #4, \"efgh\" 4, 1{offset:02x} in 8:1{offset:02x}+4");
        check(&[write(0x100, b"abcd"), other], [first, &second]);
    }
    let mut pair = Pair::connected();
    [write(0x100, b"abcd"), tagged(0x82, 7, 0x104, b"efgh")].iter().for_each(|fpdu| pair.feed(A, fpdu));
    pair.pass_reordering_window();
    pair.check([first, "A faulty RDMA Read Response 44, #4, Unasked", "A unplaced 4"]);
    // One offset is wrong: the next segment continues at the expected offset.
    check(
        &[write(0x100, b"abcd"), write(0x108, b"efgh"), last(0x108, b"ijkl")],
        [first, fault, begins_anew, "A write 84 of 20, #5, \"ijkl\" 4, 108 in 7:100+12"],
    );
    // Or at the actual one.
    check(
        &[write(0x100, b"abcd"), write(0x108, b"efgh"), last(0x10c, b"ijkl")],
        [first, fault, begins_anew, "A write 84 of 44, #5, \"ijkl\" 4, 10c in 7:108+8"],
    );
    // A Send starts before the last segment of an RDMA Write.
    check(
        &[write(0x100, b"abcd"), send(1, b"efgh"), last(0x104, b"ijkl")],
        [
            first,
            "A faulty Send 44, #4, Order",
            "A send 44+28, [4, 4], \"efgh\" of 4",
            "A write 72 of 72, #5, \"ijkl\" 4, 104 in 7:104+4",
        ],
    );
    // An RDMA Write of no bytes places nothing.
    check(&[last(0x100, b"")], []);
    // An FPDU in two segments.
    let mut pair = Pair::connected();
    let fpdu = write(0x100, b"abcdefgh");
    pair.feed(A, &fpdu[..20]);
    pair.feed(A, &fpdu[20..]);
    pair.check([
        "A write 20 of 20, #3, \"abcd\" 4, 100 in 7:100+8",
        "A write 40 of 20, #4, \"efgh\" 4, 104 in 7:100+8",
    ]);
    // The middle of an FPDU is lost. The rest still has its address.
    let mut pair = Pair::connected();
    let fpdu = write(0x100, b"abcdefghijkl");
    pair.feed(A, &fpdu[..20]);
    pair.lose(A, 4);
    pair.feed(A, &fpdu[24..]);
    pair.feed(A, &last(0x10c, b"mnop"));
    pair.finish();
    pair.check([
        "A write 20 of 20, #3, \"abcd\" 4, 100 in 7:100+12",
        "A missing 1",
        "A write 44 of 20, #4, \"ijkl\" 4, 108 in 7:100+12",
        "A write 68 of 20, #5, \"mnop\" 4, 10c in 7:100+16",
    ]);
}

/// RFC 5044, section 8: an FPDU with a wrong CRC is dropped.
#[test]
fn fpdu_with_wrong_crc_is_dropped() {
    let mut pair = Pair::new();
    pair.feed(A, &start(A, 0x40, 1, b""));
    pair.feed(B, &start(B, 0x40, 1, b""));
    pair.feed(A, &send_with_crc(1, b"abcd"));
    let mut wrong = send_with_crc(2, b"efgh");
    wrong[20] ^= 1;
    pair.feed(A, &wrong);
    pair.feed(A, &send_with_crc(4, b"ijkl"));
    pair.check([
        "A send 20+28, [3, 3], \"abcd\" of 4",
        "A faulty Send 48, #4, Crc",
        "A damaged #4",
        "A send 76+28, [5, 5], \"ijkl\" of 4",
    ]);
    // Its length may be wrong: the next start is inside another FPDU, so the one after that is
    // searched for.
    let mut pair = Pair::new();
    pair.feed(A, &start(A, 0x40, 1, b""));
    pair.feed(B, &start(B, 0x40, 1, b""));
    let mut longer = send_with_crc(1, b"abcd");
    longer[1] += 4;
    pair.feed(A, &[longer, send_with_crc(2, b"efgh"), send_with_crc(3, b"ijkl")].concat());
    pair.check(["A faulty Send 20, #3, Crc", "A damaged #3", "A send 76+28, [3, 3], \"ijkl\" of 4"]);
    // The same after a gap. By the start frames, no marker can be in the place of an FPDU.
    let mut pair = Pair::new();
    pair.feed(A, &start(A, 0x40, 1, b""));
    pair.feed(B, &start(B, 0x40, 1, b""));
    pair.lose(A, 28);
    pair.feed(A, &send_with_crc(2, b"abcd"));
    pair.feed(A, &wrong);
    pair.finish();
    pair.check([
        "A missing 1",
        "A send 48+28, [3, 3], \"abcd\" of 4",
        "A faulty Send 76, #4, Crc",
        "A damaged #4",
    ]);
}
