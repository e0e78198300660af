use super::*;
use crate::iwarp::framing::tests::{START, run, send, with_markers};
use alloc::vec;
use alloc::vec::Vec;

/// A framing after a start frame without private data, so that the start of the first FPDU is
/// known.
fn started(markers: bool) -> Framing {
    let mut framing = Framing::default();
    let frame = StartFrame { key: StartFrame::REQUEST, revision: 1, crc: true, ..StartFrame::default() };
    framing.take(run(&frame.to_bytes(), 0usize.wrapping_sub(StartFrame::LENGTH)), &mut |_| {});
    framing.insert_markers(markers.then_some(START));
    framing
}

/// The parts of each segment of a stream that is cut at these positions.
fn cut(framing: &mut Framing, stream: &[u8], cuts: &[usize]) -> Vec<Vec<Part>> {
    let mut begin = 0;
    let ends = cuts.iter().copied().chain([stream.len()]);
    let segment = |end: usize| {
        let segment = run(&stream[begin..end], begin);
        begin = end;
        let parts = Contents::new(framing, Some(segment.sequence), &segment).parts_of(segment);
        framing.take(segment, &mut |_| {});
        parts
    };
    ends.map(segment).collect()
}

fn fpdu(part: &Part) -> &Fpdu {
    let Part::Fpdu(fpdu) = part else { panic!("{part:?}") };
    fpdu
}

#[test]
fn segment_of_two_fpdus_has_two_parts() {
    let stream = [send(1, b"first"), send(2, &[7; 300])].concat();
    let parts = cut(&mut started(false), &stream, &[]).remove(0);
    // Two bytes of length, 18 of header, 5 of data, 3 of padding, 4 of CRC.
    let [first, second] = [fpdu(&parts[0]), fpdu(&parts[1])];
    assert_eq!((parts.len(), &first.place, &first.data), (2, &(0..32), &(20..25)));
    assert_eq!((first.begins, first.length, first.data_offset), (true, 5, 0));
    assert_eq!((first.crc, first.is_inferred), (Some(CrcVerdict::Good), false));
    // 2 + 18 + 300 is a multiple of four.
    assert_eq!((&second.place, &second.data), (&(32..32 + 324), &(52..352)));
    let Header::Untagged(header) = second.header else { panic!("a Send") };
    assert_eq!(header.message_number, 2);
}

/// The parts of all segments together cover the stream, wherever it is cut.
#[test]
fn parts_cover_the_stream_wherever_it_is_cut() {
    let stream = [send(1, b"first"), send(2, &[7; 300]), send(3, b"third")].concat();
    for from in 1..stream.len() - 1 {
        for to in [from + 1, stream.len().min(from + 40), stream.len()] {
            let segments = cut(&mut started(false), &stream, &[from, to]);
            let mut verdicts = Vec::new();
            let mut data: [Vec<u8>; 4] = Default::default();
            for (parts, begin) in segments.iter().zip([0, from, to]) {
                for (index, part) in parts.iter().enumerate() {
                    if index > 0 {
                        assert_eq!(parts[index - 1].place().end, part.place().start, "{from} {to}");
                    }
                    let Part::Fpdu(fpdu) = part else { continue };
                    let Header::Untagged(header) = fpdu.header else { panic!("a Send") };
                    let data = &mut data[header.message_number as usize];
                    if !fpdu.data.is_empty() {
                        assert_eq!(data.len(), fpdu.data_offset as usize, "{from} {to}");
                    }
                    data.extend(&stream[begin..][fpdu.data.clone()]);
                    verdicts.extend(fpdu.crc);
                }
            }
            assert_eq!(data[1..], [b"first".to_vec(), vec![7; 300], b"third".to_vec()], "{from} {to}");
            assert_eq!(verdicts, [CrcVerdict::Good; 3], "{from} {to}");
        }
    }
}

#[test]
fn header_may_span_segments() {
    let stream = send(1, b"first");
    let segments = cut(&mut started(false), &stream, &[19, 20]);
    assert_eq!(segments[0], [Part::Begun(0..19)]);
    // The last byte of the header.
    let second = fpdu(&segments[1][0]);
    assert_eq!((second.begins, &second.place, &second.data), (false, &(0..1), &(1..1)));
    let third = fpdu(&segments[2][0]);
    assert_eq!((third.begins, &third.place, &third.data), (false, &(0..12), &(0..5)));
}

/// RFC 5044, section 4.4: a marker at every 512th byte.
#[test]
fn markers_are_separate_parts() {
    let stream = with_markers();
    let parts = cut(&mut started(true), &stream, &[]).remove(0);
    let places: Vec<&Range<usize>> = parts.iter().map(Part::place).collect();
    assert_eq!(places, [&(0..4), &(4..0x1ec), &(0x1ec..0x220), &(512..516)]);
    assert_eq!((&parts[0], &parts[3]), (&Part::Marker(0..4), &Part::Marker(512..516)));
    assert_eq!(fpdu(&parts[2]).data, 0x204..0x21c);
    let split = cut(&mut started(true), &stream, &[514]);
    assert_eq!(split[0].last(), Some(&Part::Marker(512..514)));
    assert_eq!(split[1][0], Part::Marker(0..2));
    assert_eq!(fpdu(&split[1][1]).crc, Some(CrcVerdict::Good));
}

#[test]
fn start_frame_part_includes_private_data() {
    let frame = StartFrame {
        key: StartFrame::REQUEST,
        revision: 1,
        crc: true,
        private_data_length: 4,
        ..StartFrame::default()
    };
    let stream = [&frame.to_bytes()[..], &[1, 2, 3, 4], &send(1, b"first")].concat();
    let parts = cut(&mut Framing::default(), &stream, &[]).remove(0);
    assert_eq!(parts[0], Part::Start(0..24, frame));
    assert_eq!((parts.len(), &fpdu(&parts[1]).place), (2, &(24..56)));
}

/// Data continues after a marker. 508 bytes of the stream are between two markers.
#[test]
fn fpdu_data_continues_after_a_marker() {
    let fpdu_of_624 = send(1, &[7; 600]);
    let stream = [&[0; 4][..], &fpdu_of_624[..508], &[0, 0, 1, 0xfc], &fpdu_of_624[508..]].concat();
    let parts = cut(&mut started(true), &stream, &[]).remove(0);
    let places: Vec<&Range<usize>> = parts.iter().map(Part::place).collect();
    assert_eq!(places, [&(0..4), &(4..632), &(512..516)]);
    let part = fpdu(&parts[1]);
    assert_eq!((&part.data, part.data_offset, part.length), (&(24..628), 0, 600));
}

#[test]
fn start_frame_without_private_data_has_20_bytes() {
    let frame = StartFrame { key: StartFrame::REPLY, revision: 1, ..StartFrame::default() };
    let stream = [&frame.to_bytes()[..], &send(1, b"first")].concat();
    let parts = cut(&mut Framing::default(), &stream, &[]).remove(0);
    assert_eq!((&parts[0], fpdu(&parts[1]).place.clone()), (&Part::Start(0..20, frame), 20..52));
}

/// A captured segment with IPv4 and TCP headers of 20 bytes each and an FPDU.
#[test]
fn captured_segment_is_divided_into_parts() {
    use crate::frame::{Config, Other, dissect};
    use crate::record::{LinkType, Record};
    let payload = send(1, b"first");
    let mut data = vec![0x45, 0, 0, 40 + payload.len() as u8, 0, 1, 0, 0, 64, 6, 0, 0];
    data.extend([192, 0, 2, 1, 192, 0, 2, 2]);
    data.extend([0x4e, 0x51, 0x4e, 0x51]);
    data.extend(START.to_be_bytes());
    data.extend([0, 0, 0, 0, 0x50, 0x18, 0, 0, 0, 0, 0, 0]);
    data.extend(payload);
    let record = Record {
        number: 1,
        time: Time(0),
        link: LinkType::RAW,
        original_length: data.len() as u32,
        dropped: 0,
        tap: Default::default(),
        data: &data,
    };
    let Err(Other::Tcp(segment)) = dissect(&record, &Config::default()) else { panic!("a segment") };
    let mut framing = started(false);
    framing.crc = CrcUse::On;
    let contents = Contents { framing, expected: Some(START), ..Contents::default() };
    assert_eq!(contents.crc(), CrcUse::On);
    let parts = contents.parts(&segment);
    assert_eq!((parts.len(), &fpdu(&parts[0]).data), (1, &(20..25)));
}

/// Bytes that were seen before are in no part. FPDUs are searched for in a repeated segment and in
/// one after a gap.
#[test]
fn repeated_bytes_are_in_no_part() {
    let stream = [send(1, b"first"), send(2, b"second")].concat();
    let mut framing = started(false);
    framing.take(run(&stream[..32], 0), &mut |_| {});
    let expected = Some(START.wrapping_add(32));
    let overlapping = Contents::new(&framing, expected, &run(&stream, 0)).parts_of(run(&stream, 0));
    assert_eq!((overlapping.len(), fpdu(&overlapping[0]).is_inferred), (1, false));
    assert_eq!(fpdu(&overlapping[0]).place, 32..64);
    let repeated = run(&stream[..32], 0);
    let repeated = Contents::new(&framing, expected, &repeated).parts_of(repeated);
    assert_eq!((repeated.len(), fpdu(&repeated[0]).is_inferred), (1, true));
    let ahead = run(&stream[32..], 1000);
    let ahead = Contents::new(&framing, expected, &ahead).parts_of(ahead);
    assert_eq!((ahead.len(), fpdu(&ahead[0]).is_inferred), (1, true));
    let empty = run(&[], 32);
    assert_eq!(Contents::new(&framing, expected, &empty).parts_of(empty), []);
}

/// RFC 6581, section 9: an FPDU without a ULPDU, then a Send.
#[test]
fn indication_without_ulpdu_is_a_part() {
    let mut framing = started(false);
    framing.expect_indication();
    let stream = [&[0; 8][..], &send(1, b"first")].concat();
    let parts = cut(&mut framing, &stream, &[]).remove(0);
    assert_eq!(parts[0], Part::Indication(0..8, CrcVerdict::Unused));
    assert_eq!((parts.len(), &fpdu(&parts[1]).place), (2, &(8..40)));
}
