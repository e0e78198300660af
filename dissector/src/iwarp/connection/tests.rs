mod responses;

use super::*;
use crate::frame::{self, Other};
use crate::record::{LinkType, Record, Tap};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use rdmascope_wire::mpa::padding;

pub(in crate::iwarp) const A: End = End::First;
pub(in crate::iwarp) const B: End = End::Second;
pub(in crate::iwarp) const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const MILLISECOND: i64 = 1_000_000;

/// An FPDU (RFC 5044, section 4.1) with an unused CRC.
pub(in crate::iwarp) fn fpdu(ulpdu: &[u8]) -> Vec<u8> {
    let mut fpdu = (ulpdu.len() as u16).to_be_bytes().to_vec();
    fpdu.extend(ulpdu);
    fpdu.resize(fpdu.len() + padding(ulpdu.len() as u16) + 4, 0);
    fpdu
}

/// An FPDU with an untagged segment (RFC 5041, section 4.3): 28 bytes with four of data. Bit 0x80
/// of `opcode` marks the last segment of its message.
pub(in crate::iwarp) fn untagged(opcode: u8, queue: u32, number: u32, offset: u32, data: &[u8]) -> Vec<u8> {
    let invalidate = if matches!(opcode & 15, 4 | 6) { 7u32 } else { 0 };
    let mut ulpdu = vec![1 | (opcode & 0x80) >> 1, 0x40 | opcode & 15];
    [invalidate, queue, number, offset].iter().for_each(|field| ulpdu.extend(field.to_be_bytes()));
    ulpdu.extend(data);
    fpdu(&ulpdu)
}

/// An FPDU with a tagged segment (RFC 5041, section 4.2): 24 bytes with four of data.
pub(in crate::iwarp) fn tagged(opcode: u8, stag: u32, offset: u64, data: &[u8]) -> Vec<u8> {
    let mut ulpdu = vec![0x81 | (opcode & 0x80) >> 1, 0x40 | opcode & 15];
    ulpdu.extend(stag.to_be_bytes());
    ulpdu.extend(offset.to_be_bytes());
    ulpdu.extend(data);
    fpdu(&ulpdu)
}

/// A Send of one segment: 28 bytes with four of data.
pub(in crate::iwarp) fn send(number: u32, data: &[u8]) -> Vec<u8> {
    untagged(0x83, 0, number, 0, data)
}

/// An RDMA Read Request (RFC 5040, section 4.4) of memory 9 from 0x900 on: 52 bytes.
fn read(number: u32, sink: u32, sink_offset: u64, size: u32) -> Vec<u8> {
    let mut header = sink.to_be_bytes().to_vec();
    header.extend(sink_offset.to_be_bytes());
    header.extend(size.to_be_bytes());
    header.extend([0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 9, 0]);
    untagged(0x81, 1, number, 0, &header)
}

/// A start frame (RFC 5044, section 7.1.1; RFC 6581, section 6): 20 bytes without private data.
/// `flags`: M, C, R, S.
pub(in crate::iwarp) fn start(of: End, flags: u8, revision: u8, data: &[u8]) -> Vec<u8> {
    let key = if of == A { b"MPA ID Req Frame" } else { b"MPA ID Rep Frame" };
    [&key[..], &[flags, revision], &(data.len() as u16).to_be_bytes(), data].concat()
}

/// A connection and its deliveries. Positions count from the first byte of each end. A initiated
/// it.
#[derive(Clone)]
pub(in crate::iwarp) struct Pair {
    pub(in crate::iwarp) connection: IwarpConnection,
    frame: u64,
    time: i64,
    /// Next position of each end.
    next: [u32; 2],
    events: Vec<String>,
}

const BEGINS: [u32; 2] = [0u32.wrapping_sub(40), 5_000];

/// A delivery as text: the end, the kind, and the position in the stream that it concerns.
fn text(from: End, delivery: Delivery<'_>) -> String {
    let place = |of: End, position: Position| position.number().wrapping_sub(BEGINS[of]);
    let placed = |placement: Placement<'_>| {
        let Placement { seen, position, first, memory, address, bytes, length, .. } = placement;
        let (position, first, text) =
            (place(from, position), place(from, first), String::from_utf8_lossy(bytes));
        let MemoryRange { rkey, address: begins, length: all } = memory;
        format!(
            "{position} of {first}, #{}, {text:?} {length}, {address:x} in {}:{begins:x}+{all}",
            seen.frame, rkey.0
        )
    };
    let end = if from == A { "A" } else { "B" };
    match delivery {
        Delivery::Send(send) => {
            let text = if send.bytes.len() > 20 {
                format!("{} bytes", send.bytes.len())
            } else {
                format!("{:?}", String::from_utf8_lossy(send.bytes))
            };
            let of = send.length.map_or("?".into(), |length| format!("{length}"));
            let missing = match send.missing {
                Some((from, Some(to))) => format!(", lacks {from}..{to}"),
                Some((from, None)) => format!(", lacks {from}.."),
                None => String::new(),
            };
            let invalidates = send.invalidated.map_or(String::new(), |it| format!(", invalidates {}", it.0));
            let (place, extent, frames) =
                (place(from, send.position), send.extent, [send.first, send.seen].map(|it| it.frame));
            format!("{end} send {place}+{extent}, {frames:?}, {text} of {of}{missing}{invalidates}")
        }
        Delivery::Write(placement) => format!("{end} write {}", placed(placement)),
        Delivery::ReadResponse(placement) => {
            let request = placement.request.map_or(u32::MAX, |request| place(from.other(), request));
            format!("{end} answer {}, asked at {request}", placed(placement))
        }
        Delivery::ReadRequest(request) => {
            let MemoryRange { rkey, address, length } = request.memory;
            let (place, extent) = (place(from, request.position), request.extent.unwrap_or_default());
            format!("{end} read {place}+{extent}, #{}, {}:{address:x}+{length}", request.seen.frame, rkey.0)
        }
        Delivery::Damaged { seen } => format!("{end} damaged #{}", seen.frame),
        Delivery::Missing { packets, .. } => format!("{end} missing {packets}"),
        Delivery::Repeated(it) => {
            format!("{end} repeated {}+{}, #{}", place(from, it.position), it.bytes, it.seen.frame)
        }
        Delivery::Faulty { seen, piece, position, fault } => {
            format!("{end} faulty {} {}, #{}, {fault:?}", piece.name, place(from, position), seen.frame)
        }
        Delivery::Refused { seen, position, refusal: Refusal::Failed(failure), .. } => {
            let crate::rdma::Failure::Terminated { reason, .. } = failure else { panic!("{failure:?}") };
            let place = place(from.other(), position);
            format!("{end} refuses {place}, #{}, {}", seen.frame, reason.unwrap_or_default())
        }
        Delivery::Unplaced { bytes } => format!("{end} unplaced {bytes}"),
        other => panic!("{other:?}"),
    }
}

impl Pair {
    pub(in crate::iwarp) fn new() -> Pair {
        let connection = IwarpConnection::new(true, true);
        Pair { connection, frame: 0, time: 0, next: [0; 2], events: Vec::new() }
    }

    /// A connection after start frames of revision 1 without CRCs, markers and private data, in
    /// packets 1 and 2. FPDUs start at 20.
    pub(in crate::iwarp) fn connected() -> Pair {
        let mut pair = Pair::new();
        pair.feed(A, &start(A, 0, 1, b""));
        pair.feed(B, &start(B, 0, 1, b""));
        pair
    }

    /// A packet with a TCP segment (RFC 9293, section 3.1) over IPv4.
    fn packet(from: End, place: u32, flags: u8, next: Option<u32>, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6, 0, 0];
        let (ends, ports) = ([[10, 0, 0, 1], [10, 0, 0, 2]], [[0x80, 0], [0x4e, 0x51]]);
        packet.extend([ends[from], ends[from.other()]].concat());
        packet.extend([ports[from], ports[from.other()]].concat());
        packet.extend(BEGINS[from].wrapping_add(place).to_be_bytes());
        packet.extend(next.map_or(0, |next| BEGINS[from.other()].wrapping_add(next)).to_be_bytes());
        packet.extend([0x50, flags | if next.is_some() { 0x10 } else { 0 }, 0, 0, 0, 0, 0, 0]);
        packet.extend(payload);
        let length = packet.len() as u16;
        packet[2..4].copy_from_slice(&length.to_be_bytes());
        packet
    }

    fn on_segment<T>(packet: &[u8], length: usize, then: impl FnOnce(&Segment<'_>) -> T) -> T {
        let (link, tap) = (LinkType::IPV4, Tap::default());
        let record = Record {
            number: 1,
            time: Time(0),
            link,
            original_length: length as u32,
            dropped: 0,
            tap,
            data: packet,
        };
        match frame::dissect(&record, &frame::Config::default()) {
            Err(Other::Tcp(segment)) => then(&segment),
            other => panic!("{other:?}"),
        }
    }

    /// Feeds a packet that was cut to `kept` bytes of payload.
    pub(in crate::iwarp) fn cut(
        &mut self,
        from: End,
        place: u32,
        flags: u8,
        next: Option<u32>,
        payload: &[u8],
        kept: usize,
    ) {
        (self.frame, self.time) = (self.frame + 1, self.time + 1);
        let seen = Seen { frame: self.frame, time: Time(self.time) };
        let packet = Pair::packet(from, place, flags, next, payload);
        let Pair { connection, events, .. } = self;
        Pair::on_segment(&packet[..40 + kept], packet.len(), |segment| {
            connection.handle(from, seen, segment, &mut |from, delivery| events.push(text(from, delivery)));
        });
        self.next[from] = place + payload.len() as u32;
    }

    /// Feeds a packet with payload at a position.
    pub(in crate::iwarp) fn at(&mut self, from: End, place: u32, payload: &[u8]) {
        self.cut(from, place, 0, None, payload, payload.len());
    }

    /// Feeds a packet with the next bytes of an end.
    pub(in crate::iwarp) fn feed(&mut self, from: End, payload: &[u8]) {
        self.at(from, self.next[from], payload);
    }

    /// Skips the next bytes of an end, which are missing from the capture.
    pub(in crate::iwarp) fn lose(&mut self, from: End, bytes: u32) {
        self.next[from] += bytes;
    }

    /// Feeds a packet without payload that acknowledges everything before a position.
    pub(in crate::iwarp) fn acknowledge(&mut self, from: End, next: u32) {
        self.cut(from, self.next[from], 0, Some(next), b"", 0);
    }

    pub(in crate::iwarp) fn finish(&mut self) {
        let Pair { connection, events, .. } = self;
        connection.finish(&mut |from, delivery| events.push(text(from, delivery)));
    }

    fn wait(&mut self, nanoseconds: i64) {
        self.time += nanoseconds;
    }

    /// Advances the time without a packet.
    fn time(&mut self, time: i64) {
        let Pair { connection, events, .. } = self;
        connection.handle_time(Time(time), &mut |from, delivery| events.push(text(from, delivery)));
    }

    /// Advances the time past the reordering window of captures.
    pub(in crate::iwarp) fn pass_reordering_window(&mut self) {
        self.time(self.time + 2 * MILLISECOND + 1);
    }

    /// Checks the deliveries since the last check.
    #[track_caller]
    pub(in crate::iwarp) fn check<const N: usize>(&mut self, expected: [&str; N]) {
        assert_eq!(core::mem::take(&mut self.events), expected);
    }

    fn counts(&self, end: End) -> Counts {
        self.connection.count(end, Counts::default())
    }
}

/// Repeated segments, keep-alives and FINs (RFC 9293, sections 3.8.4 and 3.6).
#[test]
fn repeated_segments_and_fins_are_recognized() {
    let mut pair = Pair::new();
    pair.cut(A, 0, SYN, None, b"", 0);
    pair.cut(B, 0, SYN, Some(1), b"", 0);
    pair.at(A, 1, &start(A, 0, 1, b""));
    pair.at(B, 1, &start(B, 0, 1, b""));
    assert_eq!(pair.connection.started(A).map(|it| (it.seen.frame, it.begins())), Some((3, BEGINS[0] + 1)));
    pair.at(A, 21, &send(1, b"abcd"));
    pair.at(A, 21, &send(1, b"abcd"));
    pair.cut(A, 48, 0, Some(21), b"\0", 1);
    pair.check(["A send 21+28, [5, 5], \"abcd\" of 4", "A repeated 21+28, #6"]);
    pair.at(A, 22, b"gone");
    pair.check(["A repeated 22+4, #8"]);
    pair.acknowledge(B, 49);
    let (of_a, of_b) = (pair.counts(A), pair.counts(B));
    assert_eq!((of_a.repeated_packets, of_a.acknowledgements, of_b.acknowledgements), (2, 0, 2));
    assert_eq!(pair.connection.first_frames(A, FirstFrames::default()).repeated_packet, Some(6));
    assert_eq!((pair.connection.disturbed(A), pair.connection.disturbed(B)), (2, 0));
    let mut reset = pair.clone();
    pair.cut(A, 49, FIN, None, b"", 0);
    assert!(!pair.connection.is_finished());
    pair.cut(B, 21, 0, Some(50), b"", 0);
    assert!(!pair.connection.is_finished());
    // The FIN has a sequence number of its own (section 3.4).
    assert_eq!(pair.connection.missing_at_the_end(A), Some(0));
    pair.cut(B, 21, FIN, Some(50), b"", 0);
    assert!(pair.connection.is_finished());
    // A repeated FIN changes nothing.
    pair.cut(B, 21, FIN, Some(50), b"", 0);
    assert!(pair.connection.is_finished());
    // B has received this byte before, so it ignores the RST (section 3.10.7.4).
    reset.cut(A, 48, RST, None, b"", 0);
    assert!(!reset.connection.is_finished());
    for _ in 0..2 {
        reset.cut(B, 21, RST, None, b"", 0);
        assert!(reset.connection.is_finished());
    }
}

/// An acknowledgement by B shows the bytes of A that the capture lacks.
#[test]
fn acknowledgement_shows_missing_bytes() {
    let mut pair = Pair::connected();
    pair.feed(A, &send(1, b"abcd"));
    pair.check(["A send 20+28, [3, 3], \"abcd\" of 4"]);
    let of = |pair: &Pair| {
        let (position, seen) = pair.connection.acknowledged(A)?;
        let missing = pair.connection.missing_at_the_end(A);
        Some((position.number().wrapping_sub(BEGINS[0]), seen.frame, missing, pair.connection.complete(A)))
    };
    assert_eq!((of(&pair), pair.connection.missing_at_the_end(A)), (None, None));
    for (next, expected) in [
        (20, (19, 4, Some(-28), None)),
        (48, (47, 5, Some(0), Some(5))),
        (48, (47, 5, Some(0), Some(6))),
        (30, (47, 5, Some(0), Some(6))),
        // One byte is a FIN.
        (49, (48, 8, Some(0), Some(8))),
        (76, (75, 9, Some(1), None)),
        (77, (76, 10, Some(2), None)),
    ] {
        pair.acknowledge(B, next);
        assert_eq!(of(&pair), Some(expected), "{next}");
    }
    assert_eq!(pair.counts(B).acknowledgements, 7);
}

/// Everything before the current message was delivered.
#[test]
fn positions_before_current_message_are_settled() {
    let settled = |pair: &Pair, places: [u32; 4]| {
        let position = |place: u32| Position::of_sequence(BEGINS[0].wrapping_add(place));
        places.map(|place| pair.connection.is_settled(A, position(place)))
    };
    let mut pair = Pair::connected();
    assert_eq!(settled(&pair, [18, 19, 20, 48]), [true, true, false, false]);
    pair.feed(A, &send(1, b"abcd"));
    assert_eq!(settled(&pair, [20, 47, 48, 49]), [true, true, false, false]);
    let idle = Pair::new();
    assert_eq!(settled(&idle, [0, 1, 2, 3]), [true; 4]);
    // An FPDU is incomplete.
    pair.feed(A, &send(2, b"efgh")[..10]);
    assert_eq!(settled(&pair, [47, 48, 57, 58]), [true, false, false, false]);
    pair.feed(A, &send(2, b"efgh")[10..]);
    // A message continues in another FPDU.
    pair.feed(A, &untagged(3, 0, 3, 0, b"abcd"));
    pair.feed(A, &untagged(3, 0, 3, 4, b"efgh"));
    assert_eq!(settled(&pair, [75, 76, 104, 131]), [true, false, false, false]);
}

/// Gaps are given up by a packet, by time, after an acknowledgement, and when memory runs short.
#[test]
fn gaps_are_given_up() {
    let mut pair = Pair::connected();
    pair.lose(A, 57);
    pair.feed(A, &send(3, b"ijkl"));
    let (waiting, released) = (pair.clone(), ["A missing 3", "A send 77+28, [3, 3], \"ijkl\" of 4"]);
    pair.check([]);
    assert_eq!(pair.connection.deadline(), Some(Time(3 + 4_000_000_001)));
    assert!(!pair.connection.skip_acknowledged_gaps(A, &mut |_, _| panic!("nothing was acknowledged")));
    pair.acknowledge(B, 105);
    assert_eq!(pair.connection.deadline(), Some(Time(4 + 2_000_001)));
    let mut later = pair.clone();
    later.wait(1_999_999);
    later.acknowledge(B, 105);
    later.check([]);
    later.acknowledge(B, 105);
    later.check(released);
    let Pair { connection, events, .. } = &mut pair;
    assert!(!connection.skip_acknowledged_gaps(B, &mut |_, _| panic!("B lacks nothing")));
    assert!(connection.skip_acknowledged_gaps(A, &mut |from, delivery| events.push(text(from, delivery))));
    pair.check(released);
    assert!(!pair.connection.waits(A));
    let mut by_time = waiting.clone();
    by_time.time(4_000_000_003);
    by_time.check([]);
    by_time.time(4_000_000_004);
    by_time.check(released);
    let mut full = waiting;
    // B has an open Send, whose bytes are given up too.
    full.feed(B, &untagged(3, 0, 1, 0, b"abcd"));
    assert!(full.connection.buffered() >= 28 + 4);
    let Pair { connection, events, .. } = &mut full;
    connection.release_buffered(&mut |from, delivery| events.push(text(from, delivery)));
    full.check(released);
    assert_eq!(full.connection.buffered(), 0);
    full.feed(B, &untagged(0x83, 0, 1, 4, b"efgh"));
    full.check(["B send 20+56, [4, 5], \"\" of 8"]);
}

/// RFC 5044, section 7.1.1: both ends use CRCs if either asks for them. Each end decides whether it
/// receives markers.
#[test]
fn start_frames_negotiate_crcs_and_markers() {
    for (request, reply, has_crc) in [
        (0, None, None),
        (0x40, None, Some(true)),
        (0, Some(0), Some(false)),
        (0x40, Some(0), Some(true)),
        (0, Some(0x40), Some(true)),
    ] {
        let mut pair = Pair::new();
        assert_eq!(pair.connection.has_crc(), None);
        pair.feed(A, &start(A, request, 1, b"hello"));
        if let Some(reply) = reply {
            pair.feed(B, &start(B, reply, 1, b""));
        }
        assert_eq!(pair.connection.has_crc(), has_crc, "{request} {reply:?}");
        let started = pair.connection.started(A).expect("a Request");
        assert_eq!(
            (&started.data[..], started.frame.crc, started.begins()),
            (&b"hello"[..], request != 0, BEGINS[0])
        );
        assert_eq!(pair.connection.started(B).is_some(), reply.is_some());
        pair.check([]);
    }
    // An incomplete start frame waits for the rest.
    let mut pair = Pair::new();
    pair.feed(A, &start(A, 0, 1, b"")[..10]);
    assert!((10..100).contains(&pair.connection.buffered()) && pair.connection.started(A).is_none());
    pair.feed(A, &start(A, 0, 1, b"")[10..]);
    assert_eq!(
        (pair.connection.buffered(), pair.connection.started(A).map(|it| it.seen.frame)),
        (0, Some(1))
    );
    // The first FPDU is missing. The markers that B requested are still found, at 20 and 532 (RFC
    // 5044, section 4.3).
    let mut pair = Pair::new();
    pair.feed(A, &start(A, 0, 1, b""));
    pair.feed(B, &start(B, 0x80, 1, b""));
    pair.lose(A, 32);
    let fpdu = send(2, &[b'x'; 600]);
    let stream = [&fpdu[..480], &[0, 0, 1, 0xe0], &fpdu[480..]].concat();
    stream.chunks(100).for_each(|segment| pair.feed(A, segment));
    pair.finish();
    pair.check(["A missing 1", "A send 52+628, [3, 9], 600 bytes of 600"]);
    // With CRCs, a wrong one invalidates the FPDU and its message number.
    for verify in [true, false] {
        let mut pair = Pair { connection: IwarpConnection::new(verify, false), ..Pair::new() };
        pair.feed(A, &start(A, 0x40, 1, b""));
        pair.feed(B, &start(B, 0, 1, b""));
        pair.feed(A, &send(1, b"abcd"));
        if verify {
            pair.check(["A faulty Send 20, #3, Crc", "A damaged #3"]);
        } else {
            pair.check(["A send 20+28, [3, 3], \"abcd\" of 4"]);
        }
    }
}

/// Faults of start frames, and of the FPDUs after them (RFC 5044, sections 4.3 and 7.1).
#[test]
fn start_frame_violations_are_faults() {
    let mut pair = Pair::new();
    pair.feed(A, &start(A, 0x81, 1, b""));
    pair.feed(B, &start(B, 0, 1, b""));
    pair.check(["A faulty MPA start frame 20, #1, StartFrame(Reserved(1))"]);
    // A requested markers. B sends none, and sends before it has seen an FPDU. Its acknowledgement
    // of the Request covers no FPDU.
    pair.acknowledge(B, 20);
    pair.check([]);
    pair.cut(B, 20, 0, Some(20), &send(1, b"abcd"), 28);
    pair.check([
        "B faulty TCP segment 20, #4, Early",
        "B send 20+28, [4, 4], \"abcd\" of 4",
        "B faulty TCP segment 20, #4, Markers { found: false }",
    ]);
    pair.feed(B, &send(2, b"abcd"));
    pair.check(["B send 48+28, [5, 5], \"abcd\" of 4"]);
    // The Reply exceeds the Request's IRD. Its request for markers is honoured.
    let mut pair = Pair::new();
    pair.feed(A, &start(A, 0x10, 2, &[0, 4, 0, 4]));
    pair.feed(B, &start(B, 0x90, 2, &[0, 4, 0, 5]));
    pair.check(["B faulty MPA start frame 24, #2, Depth { outbound: 5, inbound: 4 }"]);
    pair.feed(A, &[&[0; 4][..], &send(1, b"abcd")].concat());
    pair.cut(B, 24, 0, Some(56), &send(1, b"abcd"), 28);
    pair.check(["A send 28+28, [3, 3], \"abcd\" of 4", "B send 24+28, [4, 4], \"abcd\" of 4"]);
    // An invalid FPDU at a certain start.
    let mut pair = Pair::connected();
    pair.feed(A, &[0, 1, 0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
    pair.check(["A faulty TCP segment 20, #3, Segment"]);
}

/// A start frame between ports that were used before, without a SYN.
#[test]
fn start_frame_at_new_position_begins_a_new_connection() {
    let anew = |pair: &Pair, from: End, place: u32| {
        let packet = Pair::packet(from, place, 0, None, &start(from, 0, 1, b"abc"));
        Pair::on_segment(&packet, packet.len(), |segment| {
            pair.connection.begins_new_connection(from, segment)
        })
    };
    let pair = Pair::connected();
    assert!(!anew(&pair, A, 0) && !anew(&pair, B, 0), "it is repeated");
    assert!(anew(&pair, A, 20) && anew(&pair, B, 1));
    // In mid-connection.
    let mut pair = Pair::new();
    assert!(!anew(&pair, A, 0));
    pair.feed(A, &send(7, b"abcd"));
    assert!(anew(&pair, A, 0) && !anew(&pair, A, 28) && anew(&pair, A, 29));
    assert!(!anew(&pair, B, 0), "its first");
    pair.feed(B, &send(7, b"abcd"));
    assert!(!anew(&pair, B, 0), "no Request");
    // The start of the FPDUs was unknown.
    assert_eq!((pair.connection.unsure(A), Pair::connected().connection.unsure(A)), (1, 0));
    pair.lose(A, 4);
    pair.feed(A, &send(9, b"abcd"));
    pair.finish();
    assert_eq!(pair.connection.unsure(A), 2);
}

/// A connection after start frames of revision 2 in packets 1 and 2, with these flags and control
/// flags (RFC 6581, section 9). FPDUs start at 24.
fn enhanced(flags: [u8; 2], control: [u8; 2]) -> Pair {
    let mut pair = Pair::new();
    for (end, of) in [A, B].into_iter().zip(0..) {
        pair.feed(end, &start(end, 0x10 | flags[of], 2, &[control[of], 1, 0, 1]));
    }
    pair
}

/// The control flags A and B.
const BY_SEND: u8 = 0xc0;

/// RFC 6581, section 9: if both ends set A and B, the initiator may begin with a Send of no bytes.
/// It has a message number, but it is no message.
#[test]
fn send_without_data_indicates_readiness() {
    let mut pair = enhanced([0; 2], [BY_SEND; 2]);
    pair.feed(A, &send(1, b""));
    pair.feed(A, &send(2, b"abcd"));
    pair.feed(A, &send(3, b""));
    pair.feed(B, &send(1, b""));
    pair.check([
        "A send 48+28, [4, 4], \"abcd\" of 4",
        "A send 76+24, [5, 5], \"\" of 0",
        "B send 24+24, [6, 6], \"\" of 0",
    ]);
    // Only if both ends agree to it, and only at the beginning.
    for control in [[BY_SEND, 0x80], [0x80, BY_SEND], [0x40, BY_SEND]] {
        let mut pair = enhanced([0; 2], control);
        pair.feed(A, &send(1, b""));
        pair.check(["A send 24+24, [3, 3], \"\" of 0"]);
    }
    let mut pair = enhanced([0; 2], [BY_SEND; 2]);
    pair.lose(A, 24);
    pair.feed(A, &send(2, b""));
    pair.finish();
    pair.check(["A missing 1", "A send 48+24, [3, 3], \"\" of 0"]);
}

/// The capture lacks a start frame, or has it after the indication. Only the first Send of an end that
/// may be an initiator can be one.
#[test]
fn first_send_without_data_may_indicate_readiness() {
    let begin = |end: End| start(end, 0x10, 2, &[BY_SEND, 1, 0, 1]);
    for starts in [&[][..], &[A], &[B]] {
        let mut pair = Pair::new();
        starts.iter().for_each(|end| pair.feed(*end, &begin(*end)));
        pair.feed(A, &send(1, b""));
        pair.feed(A, &send(2, b""));
        let at = if starts == [A] { "48+24" } else { "24+24" };
        let frame = starts.len() + 2;
        pair.check([&format!("A send {at}, [{frame}, {frame}], \"\" of 0")]);
    }
    for (sender, starts) in [(B, B), (B, A)] {
        let mut pair = Pair::new();
        pair.feed(starts, &begin(starts));
        pair.feed(sender, &send(1, b""));
        let at = if starts == sender { "24+24" } else { "0+24" };
        pair.check([&format!("B send {at}, [2, 2], \"\" of 0")]);
    }
    // Its start frame does not offer it.
    let mut pair = Pair::new();
    pair.feed(A, &start(A, 0x10, 2, &[0x80, 1, 0, 1]));
    pair.feed(A, &send(1, b""));
    pair.check(["A send 24+24, [2, 2], \"\" of 0"]);
}

/// The length field of the indication without a ULPDU is no marker.
#[test]
fn fpdu_without_ulpdu_indicates_readiness() {
    for size in [1, 2, 3, 4, 5, 8, 9, 36] {
        let mut pair = enhanced([0; 2], [BY_SEND; 2]);
        let stream = [fpdu(b""), send(1, b"abcd")].concat();
        stream.chunks(size).for_each(|piece| pair.feed(A, piece));
        let frames = [3 + 8 / size, 2 + stream.len().div_ceil(size)];
        pair.check([&format!("A send 32+28, {frames:?}, \"abcd\" of 4")]);
    }
    // A marker precedes it.
    let mut pair = enhanced([0, 0x80], [BY_SEND; 2]);
    pair.feed(A, &[&[0; 4][..], &fpdu(b"")].concat());
    pair.feed(A, &send(1, b"abcd"));
    pair.check(["A send 36+28, [4, 4], \"abcd\" of 4"]);
    // Markers that B did not ask for are found all the same.
    let mut pair = enhanced([0; 2], [BY_SEND; 2]);
    pair.feed(A, &[&[0; 4][..], &send(1, b"abcd")].concat());
    pair.check([
        "A send 28+28, [3, 3], \"abcd\" of 4",
        "A faulty TCP segment 24, #3, Markers { found: true }",
    ]);
}

/// An FPDU without a ULPDU is invalid in any other place.
#[test]
fn fpdu_without_ulpdu_is_invalid_without_an_agreement() {
    let mut later = enhanced([0; 2], [BY_SEND; 2]);
    later.feed(A, &send(1, b"abcd"));
    later.feed(A, &[fpdu(b""), send(2, b"efgh")].concat());
    later.check(["A send 24+28, [3, 3], \"abcd\" of 4", "A faulty TCP segment 52, #4, Segment"]);
    let mut of_responder = enhanced([0; 2], [BY_SEND; 2]);
    of_responder.feed(B, &[fpdu(b""), send(1, b"efgh")].concat());
    of_responder.check([
        "B faulty TCP segment 28, #3, Segment",
        "B faulty TCP segment 24, #3, Markers { found: true }",
    ]);
}

#[test]
fn crc_of_fpdu_without_ulpdu_is_checked() {
    let faulty: [&str; 2] = ["A faulty FPDU without a ULPDU 24, #3, Crc", "A damaged #3"];
    for (crc, expected) in [(0x48u8, &faulty[..0]), (0x49, &faulty)] {
        let mut pair = enhanced([0x40; 2], [BY_SEND; 2]);
        // The CRC32C of four zero bytes.
        pair.feed(A, &[0, 0, 0, 0, 0xc7, 0x4b, 0x67, crc]);
        assert_eq!(pair.events, expected);
    }
}
