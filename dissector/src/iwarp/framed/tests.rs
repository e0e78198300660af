use super::*;
use crate::iwarp::connection::tests::{A, B, Pair, send, start, tagged, untagged};
use crate::iwarp::framing::tests::send as send_with_crc;
use alloc::format;
use alloc::string::String;
use alloc::vec;

/// The reported units of both streams: end, sequence number, packet, contents.
fn units(pair: &mut Pair, begins: [u32; 2]) -> Vec<String> {
    let of = |(from, framed): (End, Framed)| {
        let Framed { first, sequence, kind } = framed;
        let contents = match kind {
            FramedKind::Start(frame, data) => {
                format!("start, request {}, {:?}", frame.is_request(), String::from_utf8_lossy(&data))
            }
            FramedKind::Fpdu(FramedFpdu { header, length, front, marker, crc }) => {
                assert_eq!(marker, None);
                let front = String::from_utf8_lossy(&front);
                format!("{} {front:?} of {length}, {crc:?}", header.control().opcode.name())
            }
            FramedKind::Indication(bytes) => format!("indication {bytes:x?}"),
            FramedKind::Malformed(fields) => format!("malformed {fields:x?}"),
        };
        format!("{from:?} {} #{}, {contents}", sequence.wrapping_sub(begins[from]), first.frame)
    };
    pair.connection.take_framed().into_iter().map(of).collect()
}

/// Sequence numbers at which the ends of a [`Pair`] start.
const BEGINS: [u32; 2] = [0u32.wrapping_sub(40), 5_000];

#[test]
fn units_of_both_streams_are_reported() {
    let unused = "Some((Unused, 0))";
    let mut pair = Pair::new();
    pair.feed(A, &start(A, 0, 1, b"private"));
    pair.feed(B, &start(B, 0, 1, b""));
    pair.feed(A, &send(1, b"abcd"));
    let fpdu = untagged(0x83, 0, 2, 0, b"efghijkl");
    pair.feed(A, &fpdu[..30]);
    // A segment of B between two segments of an FPDU of A.
    pair.feed(B, &tagged(0x80, 7, 0x100, b"abcd"));
    assert_eq!(
        units(&mut pair, BEGINS),
        [
            "First 0 #1, start, request true, \"private\"".into(),
            "Second 0 #2, start, request false, \"\"".into(),
            format!("First 27 #3, Send \"abcd\" of 4, {unused}"),
            format!("Second 20 #5, RDMA Write \"\" of 4, {unused}"),
        ]
    );
    assert!(units(&mut pair, BEGINS).is_empty(), "reported once");
    pair.feed(
        A,
        &[&fpdu[30..], &[0, 9, 0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0]].concat(),
    );
    pair.finish();
    assert_eq!(
        units(&mut pair, BEGINS),
        [
            format!("First 55 #4, Send \"efghijkl\" of 8, {unused}"),
            "First 87 #6, malformed [0, 9, 41, 43]".into()
        ]
    );
    let mut other = Pair::new();
    other.connection = super::super::IwarpConnection::new(true, false);
    other.feed(A, &start(A, 0, 1, b""));
    assert!(units(&mut other, BEGINS).is_empty(), "not requested");
}

/// A unit that cannot be followed is reported as far as it was seen.
#[test]
fn incomplete_units_are_reported_as_far_as_seen() {
    let fpdu = send(1, b"abcdefghijkl");
    // Bytes fed, and the unit reported at the end. With fewer than 20 bytes the header is
    // incomplete.
    for (bytes, expected) in [
        (19, None),
        (20, Some("First 20 #3, Send \"\" of 12, None")),
        (24, Some("First 20 #3, Send \"abcd\" of 12, None")),
        (36, Some("First 20 #3, Send \"abcdefghijkl\" of 12, Some((Unused, 0))")),
    ] {
        let mut pair = Pair::connected();
        pair.feed(A, &fpdu[..bytes]);
        pair.finish();
        assert_eq!(
            units(&mut pair, BEGINS)[2..],
            expected.map(String::from).into_iter().collect::<Vec<_>>(),
            "{bytes}"
        );
    }
    // A gap within it, and one that extends beyond it.
    let mut pair = Pair::connected();
    pair.feed(A, &fpdu[..24]);
    pair.lose(A, 4);
    pair.feed(A, &fpdu[28..]);
    pair.finish();
    assert_eq!(units(&mut pair, BEGINS)[2..], ["First 20 #3, Send \"abcd\" of 12, Some((Unused, 0))"]);
    let mut pair = Pair::connected();
    pair.feed(A, &fpdu[..24]);
    pair.lose(A, 12 + 28);
    pair.feed(A, &send(3, b"mnop"));
    pair.finish();
    assert_eq!(
        units(&mut pair, BEGINS)[2..],
        ["First 20 #3, Send \"abcd\" of 12, None", "First 84 #4, Send \"mnop\" of 4, Some((Unused, 0))"]
    );
}

/// The first 1,024 bytes of a long message are kept. A wrong CRC is reported with its differing
/// bits.
#[test]
fn front_is_limited_and_crc_difference_is_reported() {
    for (lengths, kept) in
        [(vec![1024], 1024), (vec![1025], 1024), (vec![1000, 1000], 1024), (vec![1000, 24, 9], 1024)]
    {
        let mut pair = Pair::connected();
        let data = vec![b'x'; lengths.iter().sum()];
        let fpdu = untagged(0x83, 0, 1, 0, &data);
        let mut rest = &fpdu[..];
        for (index, length) in lengths.iter().enumerate() {
            let (segment, remaining) = rest.split_at(if index == 0 { length + 20 } else { *length });
            pair.feed(A, segment);
            rest = remaining;
        }
        pair.feed(A, rest);
        let all = pair.connection.take_framed();
        let FramedKind::Fpdu(fpdu) = &all[2].1.kind else { panic!("{all:?}") };
        assert_eq!((fpdu.front.len(), fpdu.length as usize), (kept, data.len()));
    }
    let mut pair = Pair::new();
    pair.feed(A, &start(A, 0x40, 1, b""));
    let mut wrong = send_with_crc(2, b"efgh");
    wrong[24] ^= 0x10;
    wrong[27] ^= 0x80;
    pair.feed(A, &[send_with_crc(1, b"abcd"), wrong].concat());
    assert_eq!(
        units(&mut pair, BEGINS)[1..],
        [
            "First 20 #2, Send \"abcd\" of 4, Some((Good, 0))",
            "First 48 #2, Send \"efgh\" of 4, Some((Bad, 2147483664))"
        ]
    );
}

/// At most 2^16 units are held.
#[test]
fn held_units_are_bounded() {
    let mut pair = Pair::connected();
    let fpdus: Vec<u8> = (1..=1000).flat_map(|number| untagged(0x83, 0, number, 0, b"")).collect();
    (0..66).for_each(|_| pair.feed(A, &fpdus));
    assert_eq!(pair.connection.take_framed().len(), 1 << 16);
    pair.feed(A, &fpdus);
    assert_eq!(pair.connection.take_framed().len(), 1000);
}

#[test]
fn indication_without_ulpdu_is_a_unit() {
    let mut pair = Pair::new();
    for end in [A, B] {
        pair.feed(end, &start(end, 0x10, 2, &[0xc0, 1, 0, 1]));
    }
    pair.feed(A, &[0, 0, 0, 0, 1, 2, 3, 4]);
    assert_eq!(units(&mut pair, BEGINS)[2], "First 24 #3, indication [0, 0, 0, 0, 1, 2, 3, 4]");
}
