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
enum Event {
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
    events: Vec<(End, Event)>,
}

/// The end that sends requests, and the end that responds.
const REQUESTER: End = End::First;
const RESPONDER: End = End::Second;

/// An ACK without end-to-end flow control.
const ACK: u8 = 0x1f;

fn event(from: End, delivery: Delivery<'_>) -> (End, Event) {
    let event = match delivery {
        Delivery::Send(send) => Event::Send(send.position.number()),
        Delivery::ReadRequest(request) => Event::Read(request.position.number()),
        Delivery::ReadResponse(it) => {
            Event::Response { psn: it.position.number(), address: it.address, repeated: it.repeated }
        }
        Delivery::Refused { position, refusal, request, .. } => {
            Event::Refused { psn: position.number(), refusal, request: request.map(|request| request.frame) }
        }
        Delivery::Faulty { position, fault, .. } => Event::Faulty(position.number(), fault),
        Delivery::Missing { packets, .. } => Event::Missing(packets),
        _ => Event::Other,
    };
    (from, event)
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
        Feed { connection: ReliableConnection::default(), now, events: Vec::new() }
    }

    fn take(&mut self, from: End, operation: Operation, psn: u32, extension: Extension, length: u32) {
        self.now = Seen { frame: self.now.frame + 1, time: self.now.time.plus(1_000) };
        let payload = vec![7; length as usize];
        let packet = packet(self.now, operation, psn, extension, &payload);
        let Feed { connection, events, .. } = self;
        connection.handle(from, &packet, &mut |from, delivery| events.push(event(from, delivery)));
    }

    fn send(&mut self, from: End, psn: u32) {
        self.take(from, Operation::SendOnly, psn, Extension::None, 4);
    }

    /// An RDMA READ of `length` bytes at 0x1000.
    fn ask(&mut self, psn: u32, length: u32) {
        let reth = Reth { virtual_address: 0x1000, rkey: Rkey(1), dma_length: length };
        self.take(REQUESTER, Operation::ReadRequest, psn, Extension::Reth(reth), 0);
    }

    fn respond(&mut self, operation: Operation, psn: u32, length: u32) {
        self.take(RESPONDER, operation, psn, aeth(ACK), length);
    }

    fn acknowledge(&mut self, psn: u32, syndrome: u8) {
        self.take(RESPONDER, Operation::Acknowledge, psn, aeth(syndrome), 0);
    }

    fn handle_time(&mut self, now: Time) {
        let Feed { connection, events, .. } = self;
        connection.handle_time(now, &mut |from, delivery| events.push(event(from, delivery)));
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

fn response(psn: u32, address: u64, repeated: bool) -> (End, Event) {
    (RESPONDER, Event::Response { psn, address, repeated })
}

/// IBTA volume 1, tables 43 to 47: the refusal that each syndrome means, and the PSN that it
/// acknowledges.
#[test]
fn refusal_depends_on_the_syndrome() {
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
        (10..13).for_each(|psn| feed.send(REQUESTER, psn));
        feed.events.clear();
        feed.acknowledge(12, syndrome);
        let refused = |refusal| (RESPONDER, Event::Refused { psn: 12, refusal, request: Some(3) });
        assert_eq!(feed.events, refusal.map(refused).into_iter().collect::<Vec<_>>(), "{syndrome:#x}");
        let (position, seen) = feed.connection.acknowledged(REQUESTER).unwrap();
        assert_eq!((position.number(), seen.frame), (acknowledged, 4), "{syndrome:#x}");
        assert_eq!(feed.connection.acknowledged(RESPONDER), None);
    }
}

/// Each counter counts its own responses. The first NAK of each kind is recorded.
#[test]
fn responses_are_counted_by_kind() {
    let mut feed = Feed::begun();
    feed.connection.watch();
    feed.connection.judge(true);
    (10..14).for_each(|psn| feed.send(REQUESTER, psn));
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
    assert_eq!(feed.connection.count(REQUESTER, Counts::default()), Counts::default());
}

/// Repeated and late packets are counted for the end that sent them. `disturbed` is their sum.
#[test]
fn repeated_and_late_requests_are_counted() {
    let mut feed = Feed::begun();
    [10, 11, 11, 13, 12, 10].iter().for_each(|psn| feed.send(REQUESTER, *psn));
    let counts = feed.connection.count(REQUESTER, Counts { sends: 5, ..Counts::default() });
    let expected = Counts { sends: 5, repeated_packets: 2, reordered_packets: 1, ..Counts::default() };
    assert_eq!((counts, feed.connection.disturbed(REQUESTER)), (expected, 3));
    let first_frames = feed.connection.first_frames(REQUESTER, FirstFrames::default());
    assert_eq!((first_frames.repeated_packet, first_frames.reordered_packet), (Some(3), Some(5)));
    assert_eq!(feed.connection.disturbed(RESPONDER), 0);
}

/// The highest PSN is kept with the first packet that acknowledged it. The frame in `complete` is
/// that of the last one.
#[test]
fn first_and_last_acknowledgements_are_recorded() {
    let mut feed = Feed::begun();
    assert_eq!(
        (feed.connection.missing_at_the_end(REQUESTER), feed.connection.complete(REQUESTER)),
        (None, None)
    );
    (10..15).for_each(|psn| feed.send(REQUESTER, psn));
    // Frames from 6 on.
    for (psn, known, complete) in
        [(12, (12, 6), None), (12, (12, 6), None), (14, (14, 8), Some(8)), (14, (14, 8), Some(9))]
    {
        feed.acknowledge(psn, ACK);
        let (position, seen) = feed.connection.acknowledged(REQUESTER).unwrap();
        assert_eq!((position.number(), seen.frame), known);
        assert_eq!(feed.connection.complete(REQUESTER), complete);
    }
    // An older acknowledgement changes nothing. One for PSN 16 shows that two packets are missing
    // at the end.
    feed.acknowledge(11, ACK);
    assert_eq!(feed.connection.complete(REQUESTER), Some(9));
    assert_eq!(feed.connection.missing_at_the_end(REQUESTER), Some(0));
    feed.acknowledge(16, ACK);
    assert_eq!(feed.connection.missing_at_the_end(REQUESTER), Some(2));
    assert_eq!(feed.connection.complete(REQUESTER), None);
    // Three packets were not acknowledged.
    let mut feed = Feed::begun();
    (10..15).for_each(|psn| feed.send(REQUESTER, psn));
    feed.acknowledge(11, ACK);
    assert_eq!(feed.connection.missing_at_the_end(REQUESTER), Some(-3));
}

/// An acknowledgement fits up to 512 PSNs before the next one, or from the announced first PSN on.
/// A READ response must fit its request.
#[test]
fn responses_fit_within_their_psn_window() {
    let fits = |feed: &Feed, operation, psn: u32, is_new| {
        feed.connection.fits(REQUESTER, &packet(feed.now, operation, psn, aeth(ACK), &[]), is_new)
    };
    let mut feed = Feed::begun();
    // It answers the first request, or one of the next 511, which were not seen.
    let found: Vec<u32> = (0..2000).filter(|psn| fits(&feed, Operation::Acknowledge, *psn, true)).collect();
    assert_eq!(found, (10..522).collect::<Vec<_>>());
    feed.ask(10, 600);
    feed.send(REQUESTER, 13);
    for is_new in [false, true] {
        let found =
            |operation| (0..2000).filter(|psn| fits(&feed, operation, *psn, is_new)).collect::<Vec<u32>>();
        assert_eq!(found(Operation::Acknowledge), (0..14).collect::<Vec<_>>());
        assert_eq!(found(Operation::ReadResponseMiddle), [10, 11, 12]);
    }
    let mut feed = Feed::new();
    assert!(!fits(&feed, Operation::Acknowledge, 0, false) && !fits(&feed, Operation::Acknowledge, 0, true));
    feed.send(REQUESTER, 1000);
    let found: Vec<u32> = (0..2000).filter(|psn| fits(&feed, Operation::Acknowledge, *psn, false)).collect();
    assert_eq!(found, (489..1001).collect::<Vec<_>>());
}

/// A READ response that precedes its request is held as long as captures reorder packets.
#[test]
fn early_response_is_held_for_its_request() {
    let early = || {
        let mut feed = Feed::begun();
        feed.connection.watch();
        feed.connection.judge(true);
        feed.send(REQUESTER, 10);
        feed.respond(Operation::ReadResponseOnly, 11, 88);
        feed.events.clear();
        feed
    };
    let mut feed = early();
    feed.ask(11, 88);
    assert_eq!(feed.events, [(REQUESTER, Event::Read(11)), response(11, 0x1000, false)]);
    assert_eq!(feed.counted().0.unmatched_responses, 0);
    // Two milliseconds after frame 2, at 2 us, and not before.
    let mut feed = early();
    assert_eq!(feed.connection.deadline(), Some(Time(2_002_001)));
    feed.handle_time(Time(2_002_000));
    assert_eq!(feed.counted().0.unmatched_responses, 0);
    feed.handle_time(Time(2_002_001));
    assert_eq!((feed.counted().0.unmatched_responses, feed.connection.deadline()), (1, None));
    assert_eq!(feed.events, [], "its request may be missing from the capture");
    // The wait also ends with the connection, or when memory runs short.
    let mut feed = early();
    feed.connection.finish(&mut |_, _| {});
    assert_eq!(feed.counted().0.unmatched_responses, 1);
    let mut feed = early();
    feed.ask(20, 10);
    feed.connection.release_buffered(&mut |_, _| {});
    assert_eq!((feed.counted().0.unmatched_responses, feed.connection.buffered()), (1, 0));
    assert!(!feed.connection.waits(REQUESTER));
}

/// The wait ends when the request can no longer arrive: a Send has its PSN. It also ends with a
/// READ of unknown path MTU.
#[test]
fn request_at_its_psn_releases_an_early_response() {
    let mut feed = Feed::begun();
    feed.connection.watch();
    feed.connection.judge(true);
    feed.send(REQUESTER, 10);
    feed.respond(Operation::ReadResponseOnly, 11, 88);
    feed.events.clear();
    feed.send(REQUESTER, 11);
    let expected = [(REQUESTER, Event::Send(11)), (RESPONDER, Event::Faulty(11, Fault::Unasked))];
    assert_eq!((&feed.events[..], feed.counted().0.unmatched_responses), (&expected[..], 1));
    let mut feed = Feed::new();
    feed.connection.begin(REQUESTER, Psn::new(10), None);
    feed.send(REQUESTER, 10);
    feed.respond(Operation::ReadResponseLast, 12, 88);
    feed.events.clear();
    feed.ask(11, 600);
    assert_eq!(feed.events, [(REQUESTER, Event::Read(11)), response(12, 0x1000 + 512, false)]);
    // With responses of both ends held.
    let mut feed = Feed::begun();
    End::BOTH.iter().for_each(|end| feed.send(*end, 10));
    End::BOTH.iter().for_each(|end| {
        feed.take(*end, Operation::ReadResponseOnly, 11, aeth(ACK), 88);
    });
    feed.events.clear();
    feed.ask(11, 88);
    assert_eq!(feed.events, [(REQUESTER, Event::Read(11)), response(11, 0x1000, false)]);
}

/// The request may be held because of a gap. The gap is given up once the responder has
/// acknowledged its packets.
#[test]
fn response_to_a_request_held_after_a_gap_is_matched() {
    let mut feed = Feed::begun();
    feed.send(REQUESTER, 10);
    feed.ask(12, 88);
    assert!(feed.connection.waits(REQUESTER) && !feed.connection.waits(RESPONDER));
    feed.respond(Operation::ReadResponseOnly, 12, 88);
    assert!(feed.connection.waits(REQUESTER));
    feed.events.clear();
    feed.handle_time(feed.now.time.plus(2_000_001));
    let expected =
        [(REQUESTER, Event::Missing(1)), (REQUESTER, Event::Read(12)), response(12, 0x1000, false)];
    assert_eq!(feed.events, expected);
    assert_eq!(feed.counted().0.unmatched_responses, 0);
}

/// A READ response is a fault if the capture has another request at its PSN, or if its PSN is far
/// outside the window.
#[test]
fn unrequested_responses_are_faults() {
    for judged in [true, false] {
        let mut feed = Feed::begun();
        feed.connection.watch();
        feed.connection.judge(judged);
        (10..13).for_each(|psn| feed.send(REQUESTER, psn));
        feed.events.clear();
        feed.respond(Operation::ReadResponseOnly, 11, 88);
        // This one is before the first PSN in the capture, so its request is unknown.
        feed.respond(Operation::ReadResponseOnly, 9, 88);
        feed.acknowledge(0x7f_0000, ACK);
        let unasked = (RESPONDER, Event::Faulty(11, Fault::Unasked));
        let unsent = (RESPONDER, Event::Faulty(0x7f_0000, Fault::Unsent));
        assert_eq!(feed.events, if judged { vec![unasked, unsent] } else { vec![] });
        assert_eq!(feed.counted().0.unmatched_responses, 2);
    }
}

/// 600 bytes at a path MTU of 256: 256, 256 and 88.
#[test]
fn response_of_wrong_length_is_a_fault() {
    let mut feed = Feed::begun();
    feed.connection.watch();
    feed.connection.judge(true);
    feed.ask(10, 600);
    feed.events.clear();
    feed.respond(Operation::ReadResponseFirst, 10, 256);
    feed.respond(Operation::ReadResponseLast, 11, 256);
    let fault = Fault::Response { left: 344, index: 1, length: 256 };
    let expected =
        [response(10, 0x1000, false), (RESPONDER, Event::Faulty(11, fault)), response(11, 0x1100, false)];
    assert_eq!(feed.events, expected);
}

/// The path MTU is the payload length of packets that are not the last of their message, both
/// requests of an end and responses to them.
#[test]
fn path_mtu_is_learned_from_first_and_middle_packets() {
    let mut feed = Feed::new();
    feed.ask(10, 3000);
    for (operation, psn, length, path_mtu) in [
        (Operation::ReadResponseOnly, 10, 512, None),
        (Operation::ReadResponseLast, 10, 512, None),
        (Operation::ReadResponseMiddle, 11, 1024, Some(1024)),
        (Operation::ReadResponseFirst, 10, 2048, Some(1024)),
    ] {
        feed.respond(operation, psn, length);
        assert_eq!(feed.connection.path_mtu(REQUESTER), path_mtu, "{operation:?}");
    }
    assert_eq!(feed.connection.path_mtu(RESPONDER), None);
    let mut feed = Feed::new();
    feed.ask(10, 3000);
    feed.respond(Operation::ReadResponseFirst, 10, 512);
    assert_eq!(feed.connection.path_mtu(REQUESTER), Some(512));
    feed.connection.agree_on_path_mtu(Some(1024));
    assert_eq!(End::BOTH.map(|end| feed.connection.path_mtu(end)), [Some(1024); 2]);
}

/// A response must match the path MTU of the end that sent the request.
#[test]
fn packets_are_checked_against_requester_path_mtu() {
    let mut connection = ReliableConnection::default();
    connection.begin(REQUESTER, Psn::new(10), Some(256));
    connection.begin(RESPONDER, Psn::new(10), Some(512));
    let seen = Seen { frame: 1, time: Time(0) };
    for (from, operation, right) in [
        (REQUESTER, Operation::SendFirst, 256),
        (RESPONDER, Operation::SendFirst, 512),
        (REQUESTER, Operation::ReadResponseMiddle, 512),
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
fn half_flow_is_moved_with_its_reads() {
    let mut other = Feed::begun();
    other.ask(10, 88);
    other.send(REQUESTER, 11);
    let mut feed = Feed::new();
    feed.connection.take(REQUESTER, &mut other.connection, REQUESTER);
    feed.respond(Operation::ReadResponseOnly, 10, 88);
    assert_eq!(feed.events, [response(10, 0x1000, false)]);
    assert!(feed.connection.is_settled(REQUESTER, Psn::new(11).into()));
    assert!(!feed.connection.is_settled(REQUESTER, Psn::new(12).into()));
}

/// Only the end that sent a READ without a path MTU has an unknown next PSN.
#[test]
fn read_without_path_mtu_makes_next_psn_unknown() {
    let mut feed = Feed::new();
    feed.ask(10, 3000);
    assert_eq!(End::BOTH.map(|end| feed.connection.unsure(end)), [1, 0]);
}

/// After a connection is closed, a NAK has no frame of its request.
#[test]
fn closed_connection_forgets_recent_requests() {
    let mut feed = Feed::begun();
    feed.connection.watch();
    feed.connection.judge(false);
    feed.send(REQUESTER, 10);
    feed.connection.forget_recent_requests();
    feed.events.clear();
    feed.acknowledge(10, 0x60);
    let refused = Event::Refused { psn: 10, refusal: Refusal::OutOfSequence, request: None };
    assert_eq!(feed.events, [(RESPONDER, refused)]);
}

/// Three READs are outstanding and the responder serves two. The fault is reported with the
/// response to the first.
#[test]
fn reads_beyond_the_limit_are_a_fault() {
    for (allowed, is_fault) in [(3, false), (2, true)] {
        let mut feed = Feed::begun();
        feed.connection.watch();
        feed.connection.judge(true);
        feed.connection.limit_reads(REQUESTER, allowed);
        (10..13).for_each(|psn| feed.ask(psn, 88));
        feed.now.time = feed.now.time.plus(3_000_000);
        feed.events.clear();
        feed.respond(Operation::ReadResponseOnly, 10, 88);
        let fault = Fault::Reads { outstanding: 3, allowed: 2, first: 1, last: 3 };
        let expected = [(RESPONDER, Event::Faulty(10, fault)), response(10, 0x1000, false)];
        assert_eq!(feed.events, expected[usize::from(!is_fault)..], "{allowed}");
    }
}

/// An open Send, outstanding READs and early responses each count as memory.
#[test]
fn footprint_counts_sends_reads_and_early_responses() {
    let empty = Feed::begun();
    assert_eq!((empty.connection.buffered(), empty.connection.footprint()), (0, 0));
    let takes_memory: [fn(&mut Feed); 3] = [
        |feed| feed.take(REQUESTER, Operation::SendFirst, 10, Extension::None, 256),
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
    // The sum of both ends.
    let mut feed = Feed::begun();
    feed.take(RESPONDER, Operation::SendFirst, 10, Extension::None, 256);
    feed.take(REQUESTER, Operation::SendFirst, 10, Extension::None, 256);
    assert_eq!(feed.connection.buffered(), 2 * each[0]);
}

/// A held Send is found at its own end, and the gap before it can be given up.
#[test]
fn held_send_is_found_at_its_own_end() {
    let mut feed = Feed::begun();
    feed.send(REQUESTER, 12);
    assert_eq!(feed.connection.find_held_send(REQUESTER, |bytes| bytes == [7; 4]), Some(Psn::new(12)));
    assert_eq!(feed.connection.find_held_send(REQUESTER, |bytes| bytes == [8; 4]), None);
    assert_eq!(feed.connection.find_held_send(RESPONDER, |_| true), None);
    let Feed { connection, events, .. } = &mut feed;
    connection
        .skip_gaps_before(REQUESTER, Psn::new(12), &mut |from, delivery| events.push(event(from, delivery)));
    assert_eq!(feed.events, [(REQUESTER, Event::Missing(2)), (REQUESTER, Event::Send(12))]);
}
