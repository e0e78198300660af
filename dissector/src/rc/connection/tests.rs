//! Handmade packets of both ends: the deliveries, counters and state of each end.

use super::*;
use crate::rc::Extension;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;
use rdmascope_wire::Rkey;
use rdmascope_wire::bth::{Aeth, Reth, Syndrome};

/// The contents of a delivery, with its PSN.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Told {
    Send(u32),
    Read(u32),
    Response { psn: u32, address: u64, repeated: bool },
    Refused { psn: u32, refusal: Refusal, request: Option<u64> },
    Faulty(u32, Fault),
    Missing(u32),
    Other,
}

/// Feeds packets one microsecond apart.
struct Feed {
    connection: ReliableConnection,
    now: Seen,
    told: Vec<(End, Told)>,
}

/// The end that sends requests, and the end that responds.
const ASKER: End = End::First;
const RESPONDER: End = End::Second;

/// An ACK without end-to-end flow control.
const ACK: u8 = 0x1f;

fn tell(from: End, delivery: Delivery<'_>) -> (End, Told) {
    let told = match delivery {
        Delivery::Send(send) => Told::Send(send.position.number()),
        Delivery::ReadRequest(request) => Told::Read(request.position.number()),
        Delivery::ReadResponse(it) => {
            Told::Response { psn: it.position.number(), address: it.address, repeated: it.repeated }
        }
        Delivery::Refused { position, refusal, request, .. } => {
            Told::Refused { psn: position.number(), refusal, request: request.map(|request| request.frame) }
        }
        Delivery::Faulty { position, fault, .. } => Told::Faulty(position.number(), fault),
        Delivery::Missing { packets } => Told::Missing(packets),
        _ => Told::Other,
    };
    (from, told)
}

impl Feed {
    /// A connection with first PSN 10 at both ends and a path MTU of 256.
    fn begun() -> Feed {
        let mut feed = Feed::new();
        End::BOTH.iter().for_each(|end| feed.connection.begin(*end, Psn::new(10), Some(256)));
        feed
    }

    fn new() -> Feed {
        let now = Seen { frame: 0, time: Time(0) };
        Feed { connection: ReliableConnection::default(), now, told: Vec::new() }
    }

    fn take(&mut self, from: End, operation: Operation, psn: u32, extension: Extension, length: u32) {
        self.now = Seen { frame: self.now.frame + 1, time: self.now.time.plus(1_000) };
        let payload = vec![7; length as usize];
        let packet = packet(self.now, operation, psn, extension, &payload);
        let Feed { connection, told, .. } = self;
        connection.handle(from, &packet, &mut |from, delivery| told.push(tell(from, delivery)));
    }

    fn send(&mut self, from: End, psn: u32) {
        self.take(from, Operation::SendOnly, psn, Extension::None, 4);
    }

    /// An RDMA READ of `length` bytes at 0x1000.
    fn ask(&mut self, psn: u32, length: u32) {
        let reth = Reth { virtual_address: 0x1000, rkey: Rkey(1), dma_length: length };
        self.take(ASKER, Operation::ReadRequest, psn, Extension::Reth(reth), 0);
    }

    fn respond(&mut self, operation: Operation, psn: u32, length: u32) {
        self.take(RESPONDER, operation, psn, aeth(ACK), length);
    }

    fn acknowledge(&mut self, psn: u32, syndrome: u8) {
        self.take(RESPONDER, Operation::Acknowledge, psn, aeth(syndrome), 0);
    }

    fn handle_time(&mut self, now: Time) {
        let Feed { connection, told, .. } = self;
        connection.handle_time(now, &mut |from, delivery| told.push(tell(from, delivery)));
    }

    fn counted(&self) -> (Counts, FirstFrames) {
        let counts = self.connection.count(RESPONDER, Counts::default());
        (counts, self.connection.first_frames(RESPONDER, FirstFrames::default()))
    }
}

fn packet(seen: Seen, operation: Operation, psn: u32, extension: Extension, payload: &[u8]) -> Packet<'_> {
    let payload_length = payload.len() as u32;
    Packet { seen, operation, psn: Psn::new(psn), extension, payload, payload_length }
}

fn aeth(syndrome: u8) -> Extension {
    Extension::Aeth(Aeth { syndrome: Syndrome(syndrome), message_sequence_number: 0 })
}

fn response(psn: u32, address: u64, repeated: bool) -> (End, Told) {
    (RESPONDER, Told::Response { psn, address, repeated })
}

/// IBTA volume 1, tables 43 to 47: the refusal that each syndrome means, and the PSN that it
/// acknowledges.
#[test]
fn what_refuses_a_request() {
    let failed = |failure| Some(Refusal::Failed(failure));
    let other = |name, code| failed(Failure::Other { name, code });
    for (syndrome, refusal, acknowledged) in [
        (ACK, None, 12),
        // Timer 12 is 0.64 ms.
        (0x2c, Some(Refusal::ReceiverNotReady(Duration::from_micros(640))), 11),
        (0x60, Some(Refusal::OutOfSequence), 11),
        (0x61, failed(Failure::InvalidRequest), 11),
        (0x62, failed(Failure::RemoteAccess), 11),
        (0x63, failed(Failure::RemoteOperation), 11),
        (0x64, other("invalid RD request", None), 11),
        (0x65, other("reserved NAK code", Some(5)), 11),
    ] {
        let mut feed = Feed::begun();
        feed.connection.watch();
        feed.connection.judge(true);
        (10..13).for_each(|psn| feed.send(ASKER, psn));
        feed.told.clear();
        feed.acknowledge(12, syndrome);
        let refused = |refusal| (RESPONDER, Told::Refused { psn: 12, refusal, request: Some(3) });
        assert_eq!(feed.told, refusal.map(refused).into_iter().collect::<Vec<_>>(), "{syndrome:#x}");
        let (position, seen) = feed.connection.acknowledged(ASKER).unwrap();
        assert_eq!((position.number(), seen.frame), (acknowledged, 4), "{syndrome:#x}");
        assert_eq!(feed.connection.acknowledged(RESPONDER), None);
    }
}

/// Each counter counts its own responses. The first NAK of each kind is recorded.
#[test]
fn what_is_counted_of_responses() {
    let mut feed = Feed::begun();
    feed.connection.watch();
    feed.connection.judge(true);
    (10..14).for_each(|psn| feed.send(ASKER, psn));
    feed.ask(14, 600);
    // Frames 6 to 13.
    [ACK, 0x2c, 0x60, 0x61, 0x62, 0x60, 0x2c, ACK].iter().for_each(|it| feed.acknowledge(13, *it));
    feed.respond(Operation::ReadResponseFirst, 14, 256);
    feed.respond(Operation::ReadResponseLast, 16, 88);
    // The response to an atomic operation is not an ACK.
    feed.respond(Operation::AtomicAcknowledge, 13, 0);
    let (counts, first_frames) = feed.counted();
    let expected = Counts {
        acknowledgements: 2,
        rnr_naks: 2,
        sequence_naks: 2,
        fatal_naks: 2,
        read_response_bytes: 344,
        ..Counts::default()
    };
    assert_eq!(counts, expected);
    let first = |frame| Some(frame);
    let expected = FirstFrames {
        rnr_nak: first(7),
        sequence_nak: first(8),
        fatal_nak: first(9),
        ..FirstFrames::default()
    };
    assert_eq!(first_frames, expected);
    assert_eq!(feed.connection.count(ASKER, Counts::default()), Counts::default());
}

/// Repeated and late packets are counted for the end that sent them. `disturbed` is their sum.
#[test]
fn what_is_counted_of_requests() {
    let mut feed = Feed::begun();
    [10, 11, 11, 13, 12, 10].iter().for_each(|psn| feed.send(ASKER, *psn));
    let counts = feed.connection.count(ASKER, Counts { sends: 5, ..Counts::default() });
    let expected = Counts { sends: 5, repeated_packets: 2, reordered_packets: 1, ..Counts::default() };
    assert_eq!((counts, feed.connection.disturbed(ASKER)), (expected, 3));
    let first_frames = feed.connection.first_frames(ASKER, FirstFrames::default());
    assert_eq!((first_frames.repeated_packet, first_frames.reordered_packet), (Some(3), Some(5)));
    assert_eq!(feed.connection.disturbed(RESPONDER), 0);
}

/// The highest PSN is kept with the first packet that acknowledged it. The frame in `complete` is
/// that of the last one.
#[test]
fn what_was_acknowledged_first_and_last() {
    let mut feed = Feed::begun();
    assert_eq!((feed.connection.missing_at_the_end(ASKER), feed.connection.complete(ASKER)), (None, None));
    (10..15).for_each(|psn| feed.send(ASKER, psn));
    // Frames from 6 on.
    for (psn, known, complete) in
        [(12, (12, 6), None), (12, (12, 6), None), (14, (14, 8), Some(8)), (14, (14, 8), Some(9))]
    {
        feed.acknowledge(psn, ACK);
        let (position, seen) = feed.connection.acknowledged(ASKER).unwrap();
        assert_eq!((position.number(), seen.frame), known);
        assert_eq!(feed.connection.complete(ASKER), complete);
    }
    // An older acknowledgement changes nothing. One for PSN 16 shows that two packets are missing
    // at the end.
    feed.acknowledge(11, ACK);
    assert_eq!(feed.connection.complete(ASKER), Some(9));
    assert_eq!(feed.connection.missing_at_the_end(ASKER), Some(0));
    feed.acknowledge(16, ACK);
    assert_eq!(feed.connection.missing_at_the_end(ASKER), Some(2));
    assert_eq!(feed.connection.complete(ASKER), None);
    // Three packets were not acknowledged.
    let mut feed = Feed::begun();
    (10..15).for_each(|psn| feed.send(ASKER, psn));
    feed.acknowledge(11, ACK);
    assert_eq!(feed.connection.missing_at_the_end(ASKER), Some(-3));
}

/// An acknowledgement fits up to 512 PSNs before the next one, or from the announced first PSN on.
/// A READ response must fit its request.
#[test]
fn what_a_response_fits() {
    let fits = |feed: &Feed, operation, psn: u32, is_new| {
        feed.connection.fits(ASKER, &packet(feed.now, operation, psn, aeth(ACK), &[]), is_new)
    };
    let mut feed = Feed::begun();
    // It answers the first request, or one of the next 511, which were not seen.
    let found: Vec<u32> = (0..2000).filter(|psn| fits(&feed, Operation::Acknowledge, *psn, true)).collect();
    assert_eq!(found, (10..522).collect::<Vec<_>>());
    feed.ask(10, 600);
    feed.send(ASKER, 13);
    for is_new in [false, true] {
        let found =
            |operation| (0..2000).filter(|psn| fits(&feed, operation, *psn, is_new)).collect::<Vec<u32>>();
        assert_eq!(found(Operation::Acknowledge), (0..14).collect::<Vec<_>>());
        assert_eq!(found(Operation::ReadResponseMiddle), [10, 11, 12]);
    }
    let mut feed = Feed::new();
    assert!(!fits(&feed, Operation::Acknowledge, 0, false) && !fits(&feed, Operation::Acknowledge, 0, true));
    feed.send(ASKER, 1000);
    let found: Vec<u32> = (0..2000).filter(|psn| fits(&feed, Operation::Acknowledge, *psn, false)).collect();
    assert_eq!(found, (489..1001).collect::<Vec<_>>());
}

/// A READ response that precedes its request is held as long as captures reorder packets.
#[test]
fn a_response_may_come_before_its_request() {
    let early = || {
        let mut feed = Feed::begun();
        feed.connection.watch();
        feed.connection.judge(true);
        feed.send(ASKER, 10);
        feed.respond(Operation::ReadResponseOnly, 11, 88);
        feed.told.clear();
        feed
    };
    let mut feed = early();
    feed.ask(11, 88);
    assert_eq!(feed.told, [(ASKER, Told::Read(11)), response(11, 0x1000, false)]);
    assert_eq!(feed.counted().0.unmatched_responses, 0);
    // Two milliseconds after frame 2, at 2 us, and not before.
    let mut feed = early();
    assert_eq!(feed.connection.deadline(), Some(Time(2_002_001)));
    feed.handle_time(Time(2_002_000));
    assert_eq!(feed.counted().0.unmatched_responses, 0);
    feed.handle_time(Time(2_002_001));
    assert_eq!((feed.counted().0.unmatched_responses, feed.connection.deadline()), (1, None));
    assert_eq!(feed.told, [], "its request may be missing from the capture");
    // The wait also ends with the connection, or when memory runs short.
    let mut feed = early();
    feed.connection.finish(&mut |_, _| {});
    assert_eq!(feed.counted().0.unmatched_responses, 1);
    let mut feed = early();
    feed.ask(20, 10);
    feed.connection.give_up_buffered(&mut |_, _| {});
    assert_eq!((feed.counted().0.unmatched_responses, feed.connection.buffered()), (1, 0));
    assert!(!feed.connection.waits(ASKER));
}

/// The wait ends when the request can no longer arrive: a Send has its PSN. It also ends with a
/// READ of unknown path MTU.
#[test]
fn what_ends_the_wait_for_a_request() {
    let mut feed = Feed::begun();
    feed.connection.watch();
    feed.connection.judge(true);
    feed.send(ASKER, 10);
    feed.respond(Operation::ReadResponseOnly, 11, 88);
    feed.told.clear();
    feed.send(ASKER, 11);
    let expected = [(ASKER, Told::Send(11)), (RESPONDER, Told::Faulty(11, Fault::Unasked))];
    assert_eq!((&feed.told[..], feed.counted().0.unmatched_responses), (&expected[..], 1));
    let mut feed = Feed::new();
    feed.connection.begin(ASKER, Psn::new(10), None);
    feed.send(ASKER, 10);
    feed.respond(Operation::ReadResponseLast, 12, 88);
    feed.told.clear();
    feed.ask(11, 600);
    assert_eq!(feed.told, [(ASKER, Told::Read(11)), response(12, 0x1000 + 512, false)]);
    // With responses of both ends held.
    let mut feed = Feed::begun();
    End::BOTH.iter().for_each(|end| feed.send(*end, 10));
    End::BOTH.iter().for_each(|end| {
        feed.take(*end, Operation::ReadResponseOnly, 11, aeth(ACK), 88);
    });
    feed.told.clear();
    feed.ask(11, 88);
    assert_eq!(feed.told, [(ASKER, Told::Read(11)), response(11, 0x1000, false)]);
}

/// The request may be held because of a gap. The gap is given up once the responder has
/// acknowledged its packets.
#[test]
fn a_response_to_what_waits_behind_a_gap() {
    let mut feed = Feed::begun();
    feed.send(ASKER, 10);
    feed.ask(12, 88);
    assert!(feed.connection.waits(ASKER) && !feed.connection.waits(RESPONDER));
    feed.respond(Operation::ReadResponseOnly, 12, 88);
    assert!(feed.connection.waits(ASKER));
    feed.told.clear();
    feed.handle_time(feed.now.time.plus(2_000_001));
    let expected = [(ASKER, Told::Missing(1)), (ASKER, Told::Read(12)), response(12, 0x1000, false)];
    assert_eq!(feed.told, expected);
    assert_eq!(feed.counted().0.unmatched_responses, 0);
}

/// A READ response is a fault if the capture has another request at its PSN, or if its PSN is far
/// outside the window.
#[test]
fn responses_that_nobody_asked_for() {
    for judged in [true, false] {
        let mut feed = Feed::begun();
        feed.connection.watch();
        feed.connection.judge(judged);
        (10..13).for_each(|psn| feed.send(ASKER, psn));
        feed.told.clear();
        feed.respond(Operation::ReadResponseOnly, 11, 88);
        // This one is before the first PSN in the capture, so its request is unknown.
        feed.respond(Operation::ReadResponseOnly, 9, 88);
        feed.acknowledge(0x7f_0000, ACK);
        let unasked = (RESPONDER, Told::Faulty(11, Fault::Unasked));
        let unsent = (RESPONDER, Told::Faulty(0x7f_0000, Fault::Unsent));
        assert_eq!(feed.told, if judged { vec![unasked, unsent] } else { vec![] });
        assert_eq!(feed.counted().0.unmatched_responses, 2);
    }
}

/// 600 bytes at a path MTU of 256: 256, 256 and 88.
#[test]
fn responses_that_are_not_as_they_were_asked_for() {
    let mut feed = Feed::begun();
    feed.connection.watch();
    feed.connection.judge(true);
    feed.ask(10, 600);
    feed.told.clear();
    feed.respond(Operation::ReadResponseFirst, 10, 256);
    feed.respond(Operation::ReadResponseLast, 11, 256);
    let fault = Fault::Response { left: 344, index: 1, length: 256 };
    let expected =
        [response(10, 0x1000, false), (RESPONDER, Told::Faulty(11, fault)), response(11, 0x1100, false)];
    assert_eq!(feed.told, expected);
}

/// The path MTU is the payload length of packets that are not the last of their message, both
/// requests of an end and responses to them.
#[test]
fn where_the_path_mtu_shows() {
    let mut feed = Feed::new();
    feed.ask(10, 3000);
    for (operation, psn, length, path_mtu) in [
        (Operation::ReadResponseOnly, 10, 512, None),
        (Operation::ReadResponseLast, 10, 512, None),
        (Operation::ReadResponseMiddle, 11, 1024, Some(1024)),
        (Operation::ReadResponseFirst, 10, 2048, Some(1024)),
    ] {
        feed.respond(operation, psn, length);
        assert_eq!(feed.connection.path_mtu(ASKER), path_mtu, "{operation:?}");
    }
    assert_eq!(feed.connection.path_mtu(RESPONDER), None);
    let mut feed = Feed::new();
    feed.ask(10, 3000);
    feed.respond(Operation::ReadResponseFirst, 10, 512);
    assert_eq!(feed.connection.path_mtu(ASKER), Some(512));
    feed.connection.agree_on_path_mtu(Some(1024));
    assert_eq!(End::BOTH.map(|end| feed.connection.path_mtu(end)), [Some(1024); 2]);
}

/// A response must match the path MTU of the end that sent the request.
#[test]
fn packets_are_inspected_with_the_path_mtu_of_their_requests() {
    let mut connection = ReliableConnection::default();
    connection.begin(ASKER, Psn::new(10), Some(256));
    connection.begin(RESPONDER, Psn::new(10), Some(512));
    let seen = Seen { frame: 1, time: Time(0) };
    for (from, operation, right) in [
        (ASKER, Operation::SendFirst, 256),
        (RESPONDER, Operation::SendFirst, 512),
        (ASKER, Operation::ReadResponseMiddle, 512),
        (RESPONDER, Operation::ReadResponseMiddle, 256),
    ] {
        for length in [256, 512] {
            let payload = vec![0; length];
            let packet = packet(seen, operation, 10, Extension::None, &payload);
            let fault = connection.inspect(from, &Bth::default(), &packet, None);
            assert_eq!(fault.is_none(), length == right, "{from:?} {operation:?} {length}");
        }
    }
}

/// A half-flow of another connection is moved with its READs and the responses seen.
#[test]
fn a_half_flow_is_taken_over() {
    let mut other = Feed::begun();
    other.ask(10, 88);
    other.send(ASKER, 11);
    let mut feed = Feed::new();
    feed.connection.take(ASKER, &mut other.connection, ASKER);
    feed.respond(Operation::ReadResponseOnly, 10, 88);
    assert_eq!(feed.told, [response(10, 0x1000, false)]);
    assert!(feed.connection.is_settled(ASKER, Psn::new(11).into()));
    assert!(!feed.connection.is_settled(ASKER, Psn::new(12).into()));
}

/// Only the end that sent a READ without a path MTU has an unknown next PSN.
#[test]
fn what_is_not_known_of_an_end() {
    let mut feed = Feed::new();
    feed.ask(10, 3000);
    assert_eq!(End::BOTH.map(|end| feed.connection.unsure(end)), [1, 0]);
}

/// After a connection is closed, a NAK has no frame of its request.
#[test]
fn what_a_closed_connection_forgets() {
    let mut feed = Feed::begun();
    feed.connection.watch();
    feed.connection.judge(false);
    feed.send(ASKER, 10);
    feed.connection.forget_recent_requests();
    feed.told.clear();
    feed.acknowledge(10, 0x60);
    let refused = Told::Refused { psn: 10, refusal: Refusal::OutOfSequence, request: None };
    assert_eq!(feed.told, [(RESPONDER, refused)]);
}

/// Three READs are outstanding and the responder serves two. The fault is reported with the
/// response to the first.
#[test]
fn more_reads_than_are_served() {
    for (allowed, is_told) in [(3, false), (2, true)] {
        let mut feed = Feed::begun();
        feed.connection.watch();
        feed.connection.judge(true);
        feed.connection.limit_reads(ASKER, allowed);
        (10..13).for_each(|psn| feed.ask(psn, 88));
        feed.now.time = feed.now.time.plus(3_000_000);
        feed.told.clear();
        feed.respond(Operation::ReadResponseOnly, 10, 88);
        let fault = Fault::Reads { outstanding: 3, allowed: 2, first: 1, last: 3 };
        let expected = [(RESPONDER, Told::Faulty(10, fault)), response(10, 0x1000, false)];
        assert_eq!(feed.told, expected[usize::from(!is_told)..], "{allowed}");
    }
}

/// An open Send, outstanding READs and early responses each count as memory.
#[test]
fn what_takes_up_memory() {
    let empty = Feed::begun();
    assert_eq!((empty.connection.buffered(), empty.connection.footprint()), (0, 0));
    let takes_memory: [fn(&mut Feed); 3] = [
        |feed| feed.take(ASKER, Operation::SendFirst, 10, Extension::None, 256),
        |feed| feed.ask(10, 88),
        |feed| feed.respond(Operation::ReadResponseOnly, 10, 4096),
    ];
    let each = takes_memory.map(|change| {
        let mut feed = Feed::begun();
        change(&mut feed);
        let Feed { connection, .. } = feed;
        assert_eq!(connection.buffered(), connection.footprint());
        connection.buffered()
    });
    let least = [256, 64, 4096];
    assert!(each.iter().zip(least).all(|(bytes, least)| *bytes >= least), "{each:?}");
    // Both ends together.
    let mut feed = Feed::begun();
    feed.take(RESPONDER, Operation::SendFirst, 10, Extension::None, 256);
    feed.take(ASKER, Operation::SendFirst, 10, Extension::None, 256);
    assert_eq!(feed.connection.buffered(), 2 * each[0]);
}

/// A held Send is found at its own end, and the gap before it can be given up.
#[test]
fn a_send_that_waits() {
    let mut feed = Feed::begun();
    feed.send(ASKER, 12);
    assert_eq!(feed.connection.find_held_send(ASKER, |bytes| bytes == [7; 4]), Some(Psn::new(12)));
    assert_eq!(feed.connection.find_held_send(ASKER, |bytes| bytes == [8; 4]), None);
    assert_eq!(feed.connection.find_held_send(RESPONDER, |_| true), None);
    let Feed { connection, told, .. } = &mut feed;
    connection.give_up_before(ASKER, Psn::new(12), &mut |from, delivery| told.push(tell(from, delivery)));
    assert_eq!(feed.told, [(ASKER, Told::Missing(2)), (ASKER, Told::Send(12))]);
}
