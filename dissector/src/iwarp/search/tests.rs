//! Recognition of an FPDU by its header, its length, its CRC and the bytes after it.

use super::*;
use crate::iwarp::framing::tests::{run, send};
use alloc::vec;
use alloc::vec::Vec;
use rdmascope_wire::mpa::padding;

/// An RDMA Write with this number of bytes and this CRC, or the correct one. The length is 2 + 14 +
/// data + padding + 4.
fn write(data: usize, crc: Option<[u8; CRC_LENGTH]>) -> Vec<u8> {
    let length = (14 + data) as u16;
    let mut fpdu = length.to_be_bytes().to_vec();
    fpdu.extend([0xc1, 0x40, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0x10, 0]);
    fpdu.extend(vec![0xab; data + padding(length)]);
    let mut right = Crc::default();
    right.update(&fpdu);
    fpdu.extend(crc.unwrap_or_else(|| right.finish()));
    fpdu
}

const WRONG: Option<[u8; CRC_LENGTH]> = Some([1, 2, 3, 4]);

fn followed(fpdu: &[u8], rest: &[u8]) -> Vec<u8> {
    [fpdu, rest].concat()
}

/// The header of a Send is enough. A Write must be complete, with a correct CRC or none, and may
/// only be followed by an FPDU.
#[test]
fn only_valid_fpdus_are_recognized_at_segment_start() {
    let (send, write_of) = (send(1, b"first"), |data| write(data, None));
    let full = write_of(5);
    let other_crc = |crc| write(5, Some(crc));
    for (name, payload, begins) in [
        ("a Send", send.clone(), true),
        ("its header", send[..20].to_vec(), true),
        ("the header without its last byte", send[..19].to_vec(), false),
        ("a Send and other bytes", followed(&send, &[0xff; 40]), true),
        ("a Write", full.clone(), true),
        ("a Write of no bytes", write_of(0), true),
        ("a Write without its last byte", full[..full.len() - 1].to_vec(), false),
        ("a Write without CRC", other_crc([0; 4]), true),
        ("a Write with a wrong CRC", other_crc([1, 2, 3, 4]), false),
        // The header of a Send has 20 bytes with the length. Fewer bytes may be the start of one.
        ("a Write and 19 bytes", followed(&full, &[0xff; 19]), true),
        ("a Write and 20 bytes", followed(&full, &[0xff; 20]), false),
        ("a Write and a Send", followed(&full, &send), true),
        ("nothing", vec![], false),
        ("two bytes", vec![0, 20], false),
    ] {
        assert_eq!(begins_with_fpdu(&payload, payload.len() as u32), begins, "{name}");
        // After a marker whose pointer is 0 (RFC 5044, section 4.3).
        for (marker, is_one) in [([0; 4], true), ([0, 0, 0, 4], false)] {
            let payload = followed(&marker, &payload);
            assert_eq!(begins_with_fpdu(&payload, payload.len() as u32), begins && is_one, "{name}");
        }
    }
}

/// One byte changed in a Send of five bytes, or in a Write of four.
#[test]
fn irregular_headers_are_rejected() {
    let is_regular = |fpdu: &[u8], at: usize, value: u8| {
        let mut fpdu = fpdu.to_vec();
        fpdu[at] = value;
        regular(&fpdu).map(|(length, _)| length)
    };
    let (send, write) = (send(1, b"first"), write(4, None));
    for (at, value, length) in [
        (0, 0, Some(23)),
        // A length of 18: the header alone.
        (1, 18, Some(18)),
        (1, 17, None),
        (1, 13, None),
        // An unknown DDP version, a reserved bit, an unknown RDMAP version.
        (2, 0x42, None),
        (2, 0x45, None),
        (3, 0x83, None),
        // Number 0 only follows 2^32 - 1 and is unlikely. Sends do not use queue 1.
        (15, 0, None),
        (15, 255, Some(23)),
        (11, 1, None),
    ] {
        assert_eq!(is_regular(&send, at, value), length, "byte {at} of a Send: {value:#x}");
    }
    for (length, regular) in [(18, Some(18)), (14, Some(14)), (13, None), (0, None)] {
        assert_eq!(is_regular(&write, 1, length), regular, "a Write of length {length}");
    }
    assert_eq!(regular(&send[..19]), None);
    assert_eq!(regular(&write[..15]), None);
    assert!(regular(&write[..16]).is_some());
}

/// In the middle of a segment an FPDU must be complete, with a correct CRC if CRCs are used.
#[test]
fn fpdu_in_mid_segment_must_be_complete() {
    let (right, wrong, without) = (write(5, None), write(5, WRONG), write(5, Some([0; 4])));
    let found = |fpdu: &[u8], crc_use| {
        let bytes = followed(&[0xff; 7], fpdu);
        find(&run(&bytes, 0), crc_use)
    };
    for (crc_use, expected) in [
        (CrcUse::On, [Some(7), None, None]),
        (CrcUse::Off, [Some(7), Some(7), Some(7)]),
        (CrcUse::Unknown, [Some(7), None, Some(7)]),
    ] {
        assert_eq!([&right, &wrong, &without].map(|fpdu| found(fpdu, crc_use)), expected, "{crc_use:?}");
    }
    assert_eq!(found(&right[..right.len() - 1], CrcUse::Off), None);
    // The same holds for a Send.
    let send = send(1, b"first");
    assert_eq!(found(&send, CrcUse::On), Some(7));
    assert_eq!(found(&send[..send.len() - 1], CrcUse::On), None);
}

/// At the start of a segment, a Write that continues in the next one is accepted. A complete one is
/// verified.
#[test]
fn write_at_segment_start_may_be_incomplete() {
    let wrong = write(5, WRONG);
    let found = |bytes: &[u8]| find(&run(bytes, 0), CrcUse::On);
    assert_eq!(found(&write(5, None)), Some(0));
    assert_eq!(found(&wrong), None);
    assert_eq!(found(&wrong[..wrong.len() - 1]), Some(0));
    assert_eq!(found(&followed(&wrong, &write(9, None))), Some(wrong.len() as u32));
    assert_eq!(found(&[]), None);
}

/// Inserts a marker at `at` and at every 512th byte from there on.
fn marked(fpdu: &[u8], at: usize) -> Vec<u8> {
    let mut stream = Vec::new();
    for (index, byte) in fpdu.iter().enumerate() {
        if index >= at && (index - at).is_multiple_of(508) {
            stream.extend((stream.len() as u32).to_be_bytes());
        }
        stream.push(*byte);
    }
    stream
}

/// The first marker is found by its pointer, and by the end of the FPDU when all markers are
/// skipped.
#[test]
fn first_marker_position_is_found() {
    // FPDUs with one to three markers.
    for length in [36, 512, 516, 1024, 1028, 1100] {
        let fpdu = write(length - 20, None);
        assert_eq!(fpdu.len(), length);
        for at in (4..length.min(512)).step_by(4) {
            let stream = marked(&fpdu, at);
            assert_eq!(stream.len(), length + 4 * (1 + (length - at - 1) / 508));
            assert_eq!(find_marker(&stream), Some(at as u32), "{at} in {length}");
            assert_eq!(find_marker(&followed(&stream, &send(1, b"first"))), Some(at as u32));
            // Bytes are missing, or there are too many.
            for other in [&stream[..stream.len() - 1], &followed(&stream, &[0xff; 24])] {
                assert_eq!(find_marker(other), None, "{at} in {length}");
            }
        }
        // A marker before the FPDU.
        assert_eq!(find_marker(&followed(&[0; 4], &fpdu)), Some(0));
        assert_eq!(find_marker(&followed(&[0; 3], &fpdu)), None);
        // If another FPDU or nothing follows, the FPDU has no marker.
        assert_eq!(find_marker(&fpdu), None);
        assert_eq!(find_marker(&followed(&fpdu, &send(1, b"first"))), None);
        assert_eq!(find_marker(&followed(&fpdu, &[0xff; 24])), None);
    }
}
