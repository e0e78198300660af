mod pieces;

use super::*;
use crate::iwarp::search::regular;
use crate::record::Time;
use alloc::vec;
use rdmascope_wire::rdmap::Opcode;

pub(in crate::iwarp) const START: u32 = u32::MAX - 100;

/// The units found in a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Found {
    /// For each FPDU, its sequence number, the captured bytes of its data, and whether its CRC is
    /// wrong.
    fpdus: Vec<(u32, Vec<u8>, bool)>,
    data: Vec<u8>,
    starts: Vec<(StartFrame, Vec<u8>)>,
    indications: usize,
    lost: usize,
    malformed: usize,
}

impl Found {
    fn take(&mut self, unit: Unit<'_>) {
        match unit {
            Unit::Start(_, frame, data, _) => self.starts.push((frame, data.to_vec())),
            Unit::Piece(piece) => {
                assert!(piece.bytes.len() <= piece.length as usize);
                self.data.extend_from_slice(piece.bytes);
                if let Some(end) = piece.end {
                    let data = core::mem::take(&mut self.data);
                    self.fpdus.push((
                        piece.of.sequence.wrapping_sub(START),
                        data,
                        end.crc == CrcVerdict::Bad,
                    ));
                }
            }
            Unit::Indication(..) => self.indications += 1,
            Unit::Lost | Unit::Cut => self.lost += 1,
            Unit::Malformed(..) => self.malformed += 1,
        }
    }
}

pub(in crate::iwarp) fn run(bytes: &[u8], at: usize) -> Run<'_> {
    let seen = Seen { frame: 1, time: Time(0) };
    Run { seen, sequence: START.wrapping_add(at as u32), bytes, length: bytes.len() as u32 }
}

/// Feeds a stream that starts with an FPDU in pieces of `size` bytes. `missing` is skipped as a
/// gap.
fn take(mut framing: Framing, stream: &[u8], size: usize, missing: Option<core::ops::Range<usize>>) -> Found {
    framing.state = State::Fpdu(Fpdu::new(true));
    let mut found = Found::default();
    let ranges = match missing.clone() {
        Some(missing) => [0..missing.start, missing.end..stream.len()],
        None => [0..stream.len(), stream.len()..stream.len()],
    };
    for (index, range) in ranges.into_iter().enumerate() {
        if let Some(missing) = missing.clone().filter(|_| index == 1) {
            let from = START.wrapping_add(missing.start as u32);
            framing.skip(from, missing.len() as u32, &mut |unit| found.take(unit));
        }
        for at in range.clone().step_by(size) {
            let bytes = &stream[at..range.end.min(at + size)];
            framing.take(run(bytes, at), &mut |unit| found.take(unit));
        }
    }
    found
}

pub(in crate::iwarp) fn send(number: u8, data: &[u8]) -> Vec<u8> {
    let length = (18 + data.len()) as u16;
    let mut fpdu = length.to_be_bytes().to_vec();
    fpdu.extend([0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, number, 0, 0, 0, 0]);
    fpdu.extend(data);
    fpdu.extend(&[0; 3][..padding(length)]);
    let mut crc = Crc::default();
    crc.update(&fpdu);
    fpdu.extend(crc.finish());
    fpdu
}

/// The example of RFC 5044, section 4.4: the FPDU of figure 6 starts 492 bytes after the first
/// marker and contains the second one. An FPDU of 488 bytes precedes it.
pub(in crate::iwarp) fn with_markers() -> Vec<u8> {
    let mut first = vec![0; 4];
    first.extend((488u16 - 2 - 4).to_be_bytes());
    first.extend([0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
    first.resize(488, 0xab);
    let mut crc = Crc::default();
    crc.update(&first);
    first.extend(crc.finish());
    assert_eq!(first.len(), 0x1ec);
    let mut second = [0; 0x34];
    (second[1], second[2], second[3], second[0xf], second[0x17]) = (0x2a, 0x41, 0x43, 2, 0x14);
    second[0x30..].copy_from_slice(&[0x84, 0x92, 0x58, 0x98]);
    first.extend(second);
    first
}

#[test]
fn markers_of_rfc_5044_example_are_removed() {
    let stream = with_markers();
    for size in [1, 3, 7, 100, 492, stream.len()] {
        let mut framing = Framing { crc: CrcUse::On, ..Framing::default() };
        framing.insert_markers(Some(START));
        let found = take(framing, &stream, size, None);
        let expected = [(4, vec![0xab; 464], false), (0x1ec, vec![0; 24], false)];
        assert_eq!(found.fpdus, expected, "{size}");
    }
}

/// The next FPDU is found after any gap that lies within one FPDU.
#[test]
fn fpdu_after_gap_with_marker_is_found() {
    let mut stream = with_markers();
    // A third FPDU after the second. The next marker is further away.
    stream.extend(send(3, b"third"));
    for from in 0x1ec + 20..0x214 {
        for to in from + 1..=0x220 {
            let mut framing = Framing { crc: CrcUse::On, ..Framing::default() };
            framing.insert_markers(Some(START));
            let found = take(framing, &stream, 64, Some(from..to));
            let third = found.fpdus.last().map(|(sequence, data, bad)| (*sequence, &data[..], *bad));
            assert_eq!(third, Some((0x220, &b"third"[..], false)), "{from:#x}..{to:#x}");
            assert_eq!((found.lost, found.malformed), (0, 0));
        }
    }
}

#[test]
fn bad_crc_is_reported_if_crcs_are_in_use() {
    let mut stream = [send(1, b"first"), send(2, b"second")].concat();
    stream[22] ^= 1;
    let mut framing = Framing { crc: CrcUse::On, ..Framing::default() };
    framing.insert_markers(None);
    let found = take(framing, &stream, 9, None);
    let bad: Vec<bool> = found.fpdus.iter().map(|(_, _, is_bad)| *is_bad).collect();
    assert_eq!(bad, [true, false]);
    let off = take(Framing { crc: CrcUse::Off, ..Framing::default() }, &stream, 9, None);
    assert!(off.fpdus.iter().all(|(_, _, is_bad)| !is_bad));
}

/// The capture starts in mid-connection. The first FPDU found is at the start of a segment, or
/// complete within one.
#[test]
fn first_fpdu_is_found_in_mid_connection() {
    let stream = [send(1, b"first"), send(2, &[7; 300]), send(3, b"third")].concat();
    let (second, third) = (send(1, b"first").len(), send(1, b"first").len() + send(2, &[7; 300]).len());
    for begins in 1..third {
        let mut framing = Framing { state: State::Searching, ..Framing::default() };
        let mut found = Found::default();
        framing.take(run(&stream[begins..], begins), &mut |unit| found.take(unit));
        let expected = if begins <= second { second } else { third } as u32;
        assert_eq!(found.fpdus.first().map(|(sequence, ..)| *sequence), Some(expected), "{begins}");
        assert_eq!(found.fpdus.last().map(|(_, data, _)| &data[..]), Some(&b"third"[..]));
        assert_eq!((framing.inferred, framing.crc), (1, CrcUse::On));
    }
    assert_eq!(regular(&stream).map(|(_, header)| header.control().opcode), Some(Opcode::Send));
}

#[test]
fn start_frame_split_at_any_size_is_reassembled() {
    let mut stream = b"MPA ID Req Frame\x40\x02\0\x03abc".to_vec();
    stream.extend(send(1, b"first"));
    for size in 1..stream.len() {
        let (mut framing, mut found) = (Framing::default(), Found::default());
        for (index, bytes) in stream.chunks(size).enumerate() {
            framing.take(run(bytes, index * size), &mut |unit| found.take(unit));
        }
        let [(frame, data)] = &found.starts[..] else { panic!("{size}: one start frame") };
        assert!(frame.is_request() && frame.crc && data == b"abc");
        assert_eq!(found.fpdus, [(23, b"first".to_vec(), false)], "{size}");
    }
}

/// Bytes that are not MPA are ignored. Bytes cut by a snap length are a gap.
#[test]
fn non_mpa_bytes_are_ignored_and_cut_bytes_are_a_gap() {
    let (mut framing, mut found) = (Framing::default(), Found::default());
    framing.take(run(b"GET / HTTP/1.1\r\nHost: example\r\n\r\n", 0), &mut |unit| found.take(unit));
    assert_eq!(found, Found::default());
    let stream = [send(1, &[1; 100]), send(2, b"second")].concat();
    let mut framing = Framing { state: State::Fpdu(Fpdu::new(true)), crc: CrcUse::On, ..Framing::default() };
    let length = stream.len() as u32;
    let full = run(&stream, 0);
    framing.take(Run { bytes: &stream[..60], length: 100, ..full }, &mut |unit| found.take(unit));
    framing.take(Run { length: length - 100, ..full.skip(100) }, &mut |unit| found.take(unit));
    assert_eq!(
        found.fpdus,
        [(0, [&[1; 40][..], &[1; 20]].concat(), false), (124, b"second".to_vec(), false)]
    );
}

/// Markers are found in mid-connection, at any place but the header of the FPDU.
#[test]
fn first_marker_is_found_in_mid_connection() {
    let send = send(7, &[0xab; 600]);
    for at in (0..512).step_by(4).filter(|at| *at == 0 || *at >= Fpdu::HEAD) {
        // The first marker and those after it, each before 508 bytes of FPDUs.
        let mut stream = Vec::new();
        for (index, byte) in send.iter().enumerate() {
            if index >= at && (index - at).is_multiple_of(508) {
                stream.extend((stream.len() as u32).to_be_bytes());
            }
            stream.push(*byte);
        }
        let mut framing = Framing { state: State::Searching, ..Framing::default() };
        let mut found = Found::default();
        framing.take(run(&stream, 0), &mut |unit| found.take(unit));
        let [(_, data, false)] = &found.fpdus[..] else { panic!("{at}: {found:?}") };
        assert_eq!(*data, [0xab; 600], "{at}");
        assert!(framing.markers.is_some(), "{at}");
    }
}

/// No fault is reported where a marker may be in the place of an FPDU. Two FPDUs that are far apart
/// show that the stream has no markers.
#[test]
fn possible_marker_is_not_a_malformed_fpdu() {
    let outcome = |length: usize| {
        let mut framing = Framing { state: State::Searching, ..Framing::default() };
        let mut found = Found::default();
        let segments = [send(1, &vec![7; length]), send(2, b"second"), vec![0xff; 40]];
        let mut at = 0;
        for segment in segments {
            framing.take(run(&segment, at), &mut |unit| found.take(unit));
            at += segment.len();
        }
        (found.fpdus.len(), found.lost, framing.unfinished().is_some())
    };
    assert_eq!(outcome(100), (2, 1, false), "a new search begins");
    assert_eq!(outcome(600), (2, 0, true), "it is an invalid FPDU");
}
