//! Captures of ERF records, written by hand.

use super::super::erf;
use super::*;

/// A timestamp in wire format: seconds, and a fraction in units of 2^-32 s.
fn stamp(seconds: u32, fraction: u32) -> [u8; 8] {
    let [a, b, c, d] = fraction.to_le_bytes();
    let [e, f, g, h] = seconds.to_le_bytes();
    [a, b, c, d, e, f, g, h]
}

/// timestamp | type | flags: records vary in length | record length | loss | wire length | the rest
fn record(stamp: [u8; 8], kind: u8, wire_length: u16, rest: &[u8]) -> Vec<u8> {
    let length = (16 + rest.len() as u16).to_be_bytes();
    [&stamp[..], &[kind, 4], &length, &[0, 0], &wire_length.to_be_bytes(), rest].concat()
}

const NOW: u32 = 1_700_000_000;

/// InfiniBand with two bytes of padding; padding; extended Ethernet with 4 of 60 bytes captured;
/// metadata.
fn capture() -> Vec<u8> {
    [
        record(stamp(NOW, 0x8000_0000), 21, 4, b"abcd\0\0"),
        record([0; 8], 48, 0, &[0; 8]),
        record(stamp(NOW, 0xffff_fffd), 0x82, 60, b"\x83-------\x03-------\0\0efgh"),
        record(stamp(NOW + 2, 1), 27, 2, b"me"),
    ]
    .concat()
}

#[test]
fn records_of_every_kind_are_read() {
    let bytes = capture();
    let expected = [
        (1, NOW as i64 * 1_000_000_000 + 500_000_000, 22, &bytes[..22]),
        // Rounded to the nearest nanosecond.
        (2, NOW as i64 * 1_000_000_000 + 999_999_999, 16 + 16 + 2 + 60, &bytes[46..84]),
        (3, (NOW + 2) as i64 * 1_000_000_000, 18, &bytes[84..]),
    ];
    let expected = expected.map(|(number, time, original_length, data)| Seen {
        number,
        time,
        link: LinkType::ERF.0,
        original_length,
        data: data.to_vec(),
    });
    assert_eq!(all_records(&bytes), expected);
}

#[test]
fn truncated_captures_keep_their_first_records() {
    let bytes = capture();
    let all = all_records(&bytes);
    let ends = [(0, 0), (22, 1), (46, 1), (84, 2), (102, 3)];
    for length in 0..bytes.len() {
        let (records, end) = framed(&bytes[..length]);
        let (start, count) = *ends.iter().rev().find(|(end, _)| *end <= length).unwrap();
        assert_eq!(records, all[..count], "{length}");
        let (needed, available) = end.unwrap();
        assert_eq!(available, length - start, "{length}");
        let next = ends.iter().map(|(end, _)| *end).find(|end| *end > length).unwrap();
        let expected = match available {
            0..4 if start == 0 => 4,
            0..16 => 16,
            _ => next - start,
        };
        assert_eq!(needed, expected, "{length}");
    }
}

#[test]
fn damage_is_located() {
    let damaged = |at: usize, to: &[u8]| {
        let mut bytes = capture();
        bytes[at..at + to.len()].copy_from_slice(to);
        let (records, end) = framed(&bytes);
        (records.len(), end.unwrap_err().to_string())
    };
    let kind = "expected the type of an ERF record, from 1 to 48, found";
    assert_eq!(damaged(46 + 8, &[0]), (1, format!("byte 54: {kind} 0")));
    assert_eq!(damaged(46 + 8, &[0x80 | 49]), (1, format!("byte 54: {kind} 49")));
    let length = |least: u8, found: u8| {
        format!("byte 56: expected an ERF record of at least {least} bytes, found a record length of {found}")
    };
    assert_eq!(damaged(46 + 10, &[0, 15]), (1, length(16, 15)));
    // Its extension headers, and the bytes before the Ethernet frame.
    assert_eq!(damaged(46 + 10, &[0, 31]), (1, length(32, 31)));
    assert_eq!(damaged(46 + 10, &[0, 33]), (1, length(34, 33)));
}

#[test]
fn erf_is_detected_by_its_first_two_headers() {
    let bytes = capture();
    // The first two headers end at byte 38.
    for length in 0..bytes.len() {
        let needed = match length {
            0..16 => Err(16),
            16..38 => Err(38),
            _ => Ok(true),
        };
        assert_eq!(erf::begins(&bytes[..length], false), needed, "{length}");
        assert_eq!(erf::begins(&bytes[..length], true), Ok(length >= 16), "{length}");
    }
    let changed = |at: usize, to: &[u8]| {
        let mut bytes = capture();
        bytes[at..at + to.len()].copy_from_slice(to);
        erf::begins(&bytes, true)
    };
    // Unassigned types, invalid lengths, errors of the card, no timestamp.
    for (at, to) in [(8, &[0][..]), (8, &[30]), (8, &[127]), (10, &[0, 15]), (9, &[0x24]), (9, &[0x84])] {
        assert_eq!(changed(at, to), Ok(false), "{at} {to:?}");
    }
    assert_eq!(changed(4, &[0; 4]), Ok(false));
    // The second record is checked too. Padding needs no timestamp, Ethernet does. A second record
    // is at most a week after the first.
    assert_eq!(changed(22 + 8, &[49]), Ok(false));
    assert_eq!(changed(22 + 8, &[2]), Ok(false));
    let of = |later: u32| [record(stamp(NOW, 0), 21, 1, b"a"), record(stamp(NOW + later, 0), 21, 1, b"b")];
    assert_eq!(erf::begins(&of(7 * 24 * 3600).concat(), true), Ok(true));
    assert_eq!(erf::begins(&of(7 * 24 * 3600 + 1).concat(), true), Ok(false));
    // A single record of an irrelevant type is not sufficient.
    assert_eq!(erf::begins(&record(stamp(NOW, 0), 10, 1, b"a"), true), Ok(false));
    // Text whose ninth byte looks like a type.
    assert_eq!(erf::begins(b"# A text\nANOTHER LINE of some text, and more of it", true), Ok(false));
}

/// A record in a pcap or pcapng capture has its own, finer timestamp.
#[test]
fn erf_timestamp_refines_the_time_of_pcap_records() {
    let data = record(stamp(NOW, 0x2000_0001), 21, 4, b"abcd");
    let times = |seconds: u32, microseconds: u32| {
        let in_pcap = LITTLE.pcap(0xa1b2_c3d4, 197, &[(seconds, microseconds, 20, &data)]);
        let ticks = u64::from(seconds) * 1_000_000 + u64::from(microseconds);
        let in_pcapng =
            [LITTLE.section(), LITTLE.interface(197, 0, &[]), LITTLE.enhanced(0, ticks, 20, &data)].concat();
        let times = [in_pcap, in_pcapng].map(|bytes| all_records(&bytes)[0].time);
        assert_eq!(times[0], times[1]);
        times[0]
    };
    let own = i64::from(NOW) * 1_000_000_000 + 125_000_000;
    assert_eq!(times(NOW, 125_000), own);
    assert_eq!(times(NOW, 0), own);
    assert_eq!(times(0, 0), own);
    // The pcap time differs, because the capture's times were shifted.
    assert_eq!(times(NOW + 3600, 125_000), own + 3_600_000_000_000);
    // With another link type, the bytes are not an ERF header.
    let ethernet = LITTLE.pcap(0xa1b2_c3d4, 1, &[(7, 0, 20, &data)]);
    assert_eq!(all_records(&ethernet)[0].time, 7_000_000_000);
    // The ERF timestamp is zero, or the header is too short.
    let none = record([0; 8], 21, 4, b"abcd");
    for data in [&none[..], &none[..15]] {
        let bytes = LITTLE.pcap(0xa1b2_c3d4, 197, &[(7, 5, 20, data)]);
        assert_eq!(all_records(&bytes)[0].time, 7_000_005_000);
    }
}
