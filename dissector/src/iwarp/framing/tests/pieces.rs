//! Pieces of FPDUs, verdicts on CRCs, and marker positions. Each bound is tested from both sides.

use super::*;
use rdmascope_wire::ddp::Tagged;

/// A unit, with positions counted from the start of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Start(u32),
    Piece {
        fpdu: u32,
        at: u32,
        offset: u32,
        length: u32,
        captured: usize,
        is_missing: bool,
        end: Option<Ended>,
    },
    Lost,
    Malformed(u32, [u8; 4]),
}

/// The position after the FPDU, and the verdict on its CRC.
type Ended = (u32, CrcVerdict);

fn event(unit: Unit<'_>) -> Event {
    let at = |sequence: u32| sequence.wrapping_sub(START);
    match unit {
        Unit::Start(_, _, _, next) => Event::Start(at(next)),
        Unit::Piece(it) => Event::Piece {
            fpdu: at(it.of.sequence),
            at: at(it.sequence),
            offset: it.offset,
            length: it.length,
            captured: it.bytes.len(),
            is_missing: it.is_missing,
            end: it.end.map(|end| (at(end.sequence), end.crc)),
        },
        Unit::Lost | Unit::Cut => Event::Lost,
        Unit::Indication(..) => panic!("no indication is expected"),
        Unit::Malformed(_, sequence, fields) => Event::Malformed(at(sequence), fields),
    }
}

/// A framing whose first FPDU starts with the next byte.
fn at_fpdu(crc: CrcUse) -> Framing {
    Framing { state: State::Fpdu(Fpdu::new(true)), crc, knows_markers: true, ..Framing::default() }
}

fn feed(framing: &mut Framing, run: Run<'_>) -> Vec<Event> {
    let mut events = Vec::new();
    framing.take(run, &mut |unit| events.push(event(unit)));
    events
}

fn skip(framing: &mut Framing, at: u32, count: u32) -> Vec<Event> {
    let mut events = Vec::new();
    framing.skip(START.wrapping_add(at), count, &mut |unit| events.push(event(unit)));
    events
}

/// 2 bytes of length, 18 of header, 5 of data, 3 of padding, 4 of CRC: 32.
fn first() -> Vec<u8> {
    send(1, b"first")
}

/// An FPDU cut at any byte yields its data in two adjacent pieces, and the second one ends it.
#[test]
fn fpdu_split_at_any_byte_yields_two_adjacent_pieces() {
    let stream = first();
    let data = |at: u32| at.clamp(20, 25) - 20;
    for cut in 1..32_u32 {
        let mut framing = at_fpdu(CrcUse::On);
        let mut events = feed(&mut framing, run(&stream[..cut as usize], 0));
        assert_eq!(framing.begun(), Some(START));
        let header = framing.unfinished().map(|(begin, of)| (begin, of.is_some()));
        assert_eq!(header, Some((START, cut >= 20)));
        events.extend(feed(&mut framing, run(&stream[cut as usize..], cut as usize)));
        let piece = |at: u32, from: u32, to: u32, end| Event::Piece {
            fpdu: 0,
            at,
            offset: from,
            length: to - from,
            captured: (to - from) as usize,
            is_missing: false,
            end,
        };
        let end = Some((32, CrcVerdict::Good));
        let expected = [piece(20, 0, data(cut), None), piece(cut.max(20), data(cut), 5, end)];
        // If the cut is before the data, only one piece has data.
        assert_eq!(events, expected[usize::from(cut <= 20)..], "{cut}");
        assert!(framing.begun().is_none() && framing.unfinished().is_none());
    }
}

/// Byte by byte: one piece for each byte of data, and an empty one at the end of the FPDU.
#[test]
fn fpdu_of_one_byte_runs_ends_with_an_empty_piece() {
    let stream = first();
    let mut framing = at_fpdu(CrcUse::On);
    let events: Vec<Event> =
        (0..32).flat_map(|at| feed(&mut framing, run(&stream[at..at + 1], at))).collect();
    let piece = |at: u32, offset, length: u32, end| Event::Piece {
        fpdu: 0,
        at,
        offset,
        length,
        captured: length as usize,
        is_missing: false,
        end,
    };
    let data = (20..25).map(|at| piece(at, at - 20, 1, None));
    let expected: Vec<Event> = data.chain([piece(31, 5, 0, Some((32, CrcVerdict::Good)))]).collect();
    assert_eq!(events, expected);
}

/// Framing continues after a gap that lies within the FPDU.
#[test]
fn framing_continues_after_gap_within_fpdu() {
    let stream = first();
    let data = |at: u32| at.clamp(20, 25) - 20;
    for crc in [CrcUse::On, CrcUse::Off, CrcUse::Unknown] {
        let verdict = if crc == CrcUse::Off { CrcVerdict::Unused } else { CrcVerdict::Unverifiable };
        for from in 20..32_u32 {
            for to in from + 1..=33 {
                let mut framing = at_fpdu(crc);
                feed(&mut framing, run(&stream[..from as usize], 0));
                let events = skip(&mut framing, from, to - from);
                if to == 33 {
                    assert_eq!(events, [Event::Lost], "the next FPDU started in the gap");
                    assert!(matches!(framing.state, State::Searching));
                    continue;
                }
                let (offset, length) = (data(from), data(to) - data(from));
                let end = (to == 32).then_some((32, verdict));
                let gap =
                    Event::Piece { fpdu: 0, at: from, offset, length, captured: 0, is_missing: true, end };
                assert_eq!(events, [gap], "{from}..{to}");
                let events = feed(&mut framing, run(&stream[to as usize..], to as usize));
                let ended = events.last().map(|event| match event {
                    Event::Piece { end, is_missing: false, .. } => *end,
                    other => panic!("{other:?}"),
                });
                assert_eq!(ended, (to < 32).then_some(Some((32, verdict))), "{from}..{to}");
            }
        }
    }
    // Before the end of its header, its length is unknown.
    for from in 1..20 {
        let mut framing = at_fpdu(CrcUse::On);
        feed(&mut framing, run(&stream[..from], 0));
        assert_eq!(skip(&mut framing, from as u32, 1), [Event::Lost]);
    }
    // A gap changes nothing during a search. It makes a start frame invalid.
    let mut framing = Framing { state: State::Searching, ..Framing::default() };
    assert_eq!(skip(&mut framing, 0, 9), []);
    let mut framing = Framing::default();
    feed(&mut framing, run(b"MPA ID R", 0));
    assert!(framing.footprint() >= 8);
    assert_eq!(skip(&mut framing, 8, 9), []);
    assert!(matches!(framing.state, State::Searching) && framing.footprint() == 0);
}

/// A snap length cuts an FPDU. In the header it loses the FPDU; after the header only its CRC
/// cannot be verified.
#[test]
fn truncated_fpdu_is_lost_only_within_its_header() {
    let stream = [first(), send(2, b"second")].concat();
    for captured in 0..32 {
        let mut framing = at_fpdu(CrcUse::On);
        let events = feed(&mut framing, Run { bytes: &stream[..captured], length: 32, ..run(&stream, 0) });
        if captured < 20 {
            assert_eq!(events, [Event::Lost], "{captured}");
            assert!(matches!(framing.state, State::Searching));
            continue;
        }
        let end = Some((32, CrcVerdict::Unverifiable));
        let (length, captured) = (5, captured.min(25) - 20);
        let piece = Event::Piece { fpdu: 0, at: 20, offset: 0, length, captured, is_missing: false, end };
        assert_eq!(events, [piece], "{captured}");
        let events = feed(&mut framing, run(&stream[32..], 32));
        assert!(matches!(events[..], [Event::Piece { end: Some((64, CrcVerdict::Good)), .. }]), "{events:?}");
    }
}

/// The bits in which a CRC differs. The first byte of the field is the lowest.
#[test]
fn bad_crc_reports_differing_bits() {
    let mut stream = first();
    stream.iter_mut().skip(28).zip([1, 2, 4, 8]).for_each(|(byte, bit)| *byte ^= bit);
    let mut found = Vec::new();
    at_fpdu(CrcUse::On).take(run(&stream, 0), &mut |unit| {
        let Unit::Piece(Piece { end: Some(end), .. }) = unit else { panic!("{unit:?}") };
        found.push((end.crc, end.difference));
    });
    assert_eq!(found, [(CrcVerdict::Bad, 0x0804_0201)]);
}

/// Verdicts by RFC 5044, section 4.4. Without start frames, the first FPDU shows whether CRCs are
/// used.
#[test]
fn crc_verdicts_follow_rfc_5044() {
    use CrcUse::*;
    use CrcVerdict::*;
    let (right, wrong, zero) = ([1, 2, 3, 4], [1, 2, 3, 5], [0; 4]);
    for (crc, computed, field, verdict, known) in [
        (On, Some(right), right, Good, On),
        (On, Some(right), wrong, Bad, On),
        (On, Some(right), zero, Bad, Off),
        (On, None, wrong, Unverifiable, On),
        (Off, None, wrong, Unused, Off),
        (Off, Some(right), right, Unused, Off),
        (Unknown, Some(right), right, Good, On),
        (Unknown, Some(right), wrong, Unverifiable, Unknown),
        (Unknown, Some(right), zero, Unused, Off),
        (Unknown, Some(zero), zero, Good, On),
        (Unknown, None, zero, Unverifiable, Unknown),
    ] {
        for (overlooks_crc, knows_markers) in [(false, true), (true, true), (false, false)] {
            let mut framing = Framing { crc, overlooks_crc, knows_markers, ..Framing::default() };
            // The CRC may differ because of an unknown marker.
            let is_verifiable = !overlooks_crc && knows_markers;
            let (verdict, known) =
                if verdict == Bad && !is_verifiable { (Unverifiable, crc) } else { (verdict, known) };
            assert_eq!(framing.judge_crc(computed, field), verdict, "{crc:?} {computed:?} {field:?}");
            assert_eq!(framing.crc, known, "{crc:?} {computed:?} {field:?}");
        }
    }
}

/// A length shorter than the header is malformed if an FPDU certainly starts there.
#[test]
fn length_shorter_than_header_is_malformed() {
    let tagged = |length: u8| [&[0, length, 0xc1, 0x40][..], &[0; Tagged::LENGTH - 2]].concat();
    let untagged = |length: u8| [&[0, length, 0x41, 0x43][..], &[0; Untagged::LENGTH - 2]].concat();
    for (stream, fields) in [
        (tagged(13), Some([0, 13, 0xc1, 0x40])),
        (tagged(14), None),
        (untagged(17), Some([0, 17, 0x41, 0x43])),
        (untagged(18), None),
    ] {
        let mut framing = at_fpdu(CrcUse::Off);
        let events = feed(&mut framing, run(&stream, 0));
        assert_eq!(events, fields.map(|fields| Event::Malformed(0, fields)).into_iter().collect::<Vec<_>>());
        assert_eq!(matches!(framing.state, State::Searching), fields.is_some());
        // If a marker may be there, or the start was inferred, a new search begins.
        for (certain, knows_markers) in [(true, false), (false, true)] {
            let state = State::Fpdu(Fpdu::new(certain));
            let mut framing = Framing { state, knows_markers, ..Framing::default() };
            let expected: &[Event] = if fields.is_some() { &[Event::Lost] } else { &[] };
            let events = feed(&mut framing, run(&stream, 0));
            assert_eq!(events, expected, "{stream:?} {certain} {knows_markers}");
        }
    }
    // An irregular header is accepted if its place is certain, because the receiver accepts it too.
    let irregular = [&[0, 18, 0x45, 0x43][..], &[0; Untagged::LENGTH - 2]].concat();
    for (certain, knows_markers, expected) in
        [(true, true, &[][..]), (true, false, &[Event::Lost]), (false, true, &[Event::Lost])]
    {
        let state = State::Fpdu(Fpdu::new(certain));
        let mut framing = Framing { state, knows_markers, ..Framing::default() };
        assert_eq!(feed(&mut framing, run(&irregular, 0)), expected, "{certain} {knows_markers}");
    }
}

/// Byte by byte: 4 bytes of a marker, 508 of FPDUs (RFC 5044, section 4.3).
#[test]
fn marker_positions_match_byte_by_byte_simulation() {
    for (left, ahead) in
        (0..=4).map(|left| (left, 508 + left)).chain([0, 1, 3, 4, 100, 511].map(|it| (0, it)))
    {
        let begun = Markers { next: START.wrapping_add(ahead), left };
        let (mut simulated, mut plain) = (begun, 0);
        for count in 0..1600_u32 {
            let mut markers = begun;
            assert_eq!(markers.skip(START, count), plain, "{count} bytes, {left} left, next {ahead}");
            assert_eq!((markers.next, markers.left), (simulated.next, simulated.left), "{count} bytes");
            let framing = Framing { markers: Some(begun), ..Framing::default() };
            let of_markers: u32 = framing.markers(START, count).map(|(_, length)| length).sum();
            assert_eq!(of_markers, count - plain, "{count} bytes");
            // The next byte.
            if simulated.left == 0 && simulated.next == START.wrapping_add(count) {
                simulated = Markers { next: simulated.next.wrapping_add(512), left: 4 };
            }
            if simulated.left > 0 {
                simulated.left -= 1;
            } else {
                plain += 1;
            }
        }
    }
    let framing =
        Framing { markers: Some(Markers { next: START.wrapping_add(3), left: 0 }), ..Framing::default() };
    let places: Vec<_> =
        framing.markers(START, 1030).map(|(at, length)| (at.wrapping_sub(START), length)).collect();
    assert_eq!(places, [(3, 4), (515, 4), (1027, 3)]);
    assert_eq!(Framing::default().markers(START, 1030).count(), 0);
}

/// The first two bytes after the start frame are a marker or a length. They decide, regardless of
/// the request for markers.
#[test]
fn first_bytes_override_requested_markers() {
    let frame = b"MPA ID Rep Frame\x40\x01\0\0";
    let marked = [&[0; 4][..], &first()].concat();
    for wanted in [Some(START), None] {
        for (bytes, shown) in [(&marked[..], Some(true)), (&first()[..], Some(false)), (&marked[..1], None)] {
            let mut framing = Framing::default();
            let begin = 0_usize.wrapping_sub(frame.len());
            assert_eq!(feed(&mut framing, run(frame, begin)), [Event::Start(0)]);
            framing.insert_markers(wanted);
            feed(&mut framing, run(bytes, 0));
            assert_eq!(framing.shown.map(|(_, has_markers)| has_markers), shown);
            let has_markers = shown.unwrap_or(wanted.is_some());
            assert_eq!(framing.markers.is_some(), has_markers, "{wanted:?} {shown:?}");
            // Markers seen in the stream take precedence over the request.
            framing.insert_markers(if has_markers { None } else { Some(START) });
            assert_eq!(framing.markers.is_some(), has_markers == shown.is_some(), "{wanted:?} {shown:?}");
        }
    }
    // The first bytes are missing.
    let mut framing = Framing::default();
    feed(&mut framing, run(frame, 0_usize.wrapping_sub(frame.len())));
    skip(&mut framing, 0, 4);
    feed(&mut framing, run(&marked, 4));
    assert_eq!(framing.shown, None);
}

/// A search keeps the properties of the stream, and nothing else.
#[test]
fn search_keeps_only_stream_properties() {
    let mut framing = at_fpdu(CrcUse::On);
    framing.overlooks_crc = true;
    framing.insert_markers(Some(START));
    framing.inferred = 3;
    let found = framing.searching();
    assert!(matches!(found.state, State::Searching) && found.knows_markers && found.overlooks_crc);
    assert_eq!((found.crc, found.inferred, found.markers.is_none()), (CrcUse::On, 0, true));
}

/// A marker whose pointer is 0 precedes an FPDU, whose start is then known.
#[test]
fn marker_with_pointer_zero_locates_next_fpdu() {
    let stream = [&[0; 4][..], &first()].concat();
    for state in [State::Untouched, State::Searching] {
        let mut framing = Framing { state, crc: CrcUse::On, ..Framing::default() };
        framing.insert_markers(Some(START));
        let events = feed(&mut framing, run(&stream, 0));
        let [Event::Piece { fpdu: 4, end: Some((36, _)), .. }] = events[..] else { panic!("{events:?}") };
        assert_eq!(framing.inferred, 1);
    }
    // A marker that points back is within an FPDU. Nothing is inferred if the start is known.
    let within = [&[0, 0, 0, 8][..], &[0xff; 8]].concat();
    let mut framing = Framing { state: State::Searching, ..Framing::default() };
    framing.insert_markers(Some(START));
    assert_eq!((feed(&mut framing, run(&within, 0)), framing.inferred), (vec![], 0));
    let mut framing = at_fpdu(CrcUse::On);
    framing.insert_markers(Some(START));
    assert_eq!((feed(&mut framing, run(&stream, 0)).len(), framing.inferred), (1, 0));
}

/// Two FPDUs that start at least 512 bytes apart show that the stream has no markers. Closer ones
/// do not.
#[test]
fn fpdus_512_bytes_apart_rule_out_markers() {
    // 24 bytes are not data: 2 of length, 18 of header, 4 of CRC.
    for (length, knows) in [(504, false), (508, false), (512, true), (516, true)] {
        let fpdu = send(1, &vec![7; length - 24]);
        assert_eq!(fpdu.len(), length);
        let mut framing = Framing { state: State::Searching, ..Framing::default() };
        feed(&mut framing, run(&fpdu, 0));
        assert!(!framing.knows_markers, "it is the first one");
        feed(&mut framing, run(&send(2, b"second"), length));
        assert_eq!(framing.knows_markers, knows, "{length}");
        // 32 bytes further.
        feed(&mut framing, run(&send(3, b"third"), length + 32));
        assert!(framing.knows_markers, "{length}");
    }
}

/// Start frames without private data, with up to the allowed 512 bytes, and with more. After one
/// with more, a search begins.
#[test]
fn start_frames_are_found_with_any_private_data_length() {
    for (length, is_followed) in [(0, true), (1, true), (512, true), (513, false)] {
        let (high, low) = ((length >> 8) as u8, length as u8);
        let mut stream = [&b"MPA ID Req Frame\x40\x01"[..], &[high, low]].concat();
        stream.resize(20 + length, 9);
        for size in [1, 7, 20, 21, 600] {
            let mut framing = Framing::default();
            let mut events = Vec::new();
            for (index, bytes) in stream.chunks(size).enumerate() {
                assert_eq!(events, [], "{length} {size}");
                events.extend(feed(&mut framing, run(bytes, index * size)));
            }
            assert_eq!(events, [Event::Start(20 + length as u32)], "{length} {size}");
            assert_eq!(matches!(framing.state, State::Fpdu(_)), is_followed, "{length} {size}");
            assert!(framing.begun().is_none());
        }
        // The snap length cuts the private data, or the frame itself.
        for captured in [19, 20, 20 + length / 2] {
            let (mut framing, bytes) = (Framing::default(), &stream[..captured]);
            let events = feed(&mut framing, Run { bytes, length: 20 + length as u32, ..run(&stream, 0) });
            let expected = [Event::Start(20 + length as u32)];
            assert_eq!(events, expected[usize::from(captured == 19)..], "{length} {captured}");
        }
    }
}

/// Bytes that start like a key and continue differently are no start frame. FPDUs are found after
/// them.
#[test]
fn partial_key_is_not_a_start_frame() {
    for (begun, rest) in
        [(&b"M"[..], &b"AIL FROM:<a@example.com>"[..]), (b"MPA ID R", b"ex Frame\x40\x01\0\0")]
    {
        let mut framing = Framing::default();
        assert_eq!(feed(&mut framing, run(begun, 0)), []);
        assert_eq!(feed(&mut framing, run(rest, begun.len())), [], "no start frame");
        let at = begun.len() + rest.len();
        let events = feed(&mut framing, run(&first(), at));
        assert!(matches!(events[..], [Event::Piece { end: Some((_, CrcVerdict::Good)), .. }]), "{events:?}");
    }
}

/// Bytes that look like a marker and an FPDU are not a marker within the data of another FPDU.
#[test]
fn marker_like_bytes_in_fpdu_data_are_data() {
    let within = [&[0; 4][..], &first()].concat();
    let stream = send(1, &within);
    let mut framing = Framing { state: State::Searching, ..Framing::default() };
    feed(&mut framing, run(&stream[..20], 0));
    let events = feed(&mut framing, run(&stream[20..], 20));
    assert!(
        matches!(events[..], [Event::Piece { length: 36, end: Some((60, CrcVerdict::Good)), .. }]),
        "{events:?}"
    );
    assert!(framing.markers.is_none());
    // Between two FPDUs the same bytes are a marker.
    feed(&mut framing, run(&within, 60));
    assert!(framing.markers.is_some());
}

/// The first marker is found in any FPDU of a segment, also within a header.
#[test]
fn first_marker_is_found_in_second_fpdu_of_a_segment() {
    let second = send(2, b"second");
    let crc_start = second.len() - CRC_LENGTH;
    for at in (4..=crc_start).step_by(4) {
        let mut marked = [&second[..at], &(at as u32).to_be_bytes(), &second[at..crc_start]].concat();
        let mut crc = Crc::default();
        crc.update(&marked);
        marked.extend(crc.finish());
        let mut framing = Framing { state: State::Searching, ..Framing::default() };
        let stream = [first(), marked].concat();
        let mut found = Found::default();
        framing.take(run(&stream, 0), &mut |unit| found.take(unit));
        let begins = first().len() as u32;
        let expected = [(0, b"first".to_vec(), false), (begins, b"second".to_vec(), false)];
        assert_eq!(found.fpdus[..], expected, "{at}");
        assert_eq!((found.lost, framing.inferred), (0, 1), "{at}");
    }
}
