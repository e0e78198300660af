//! Tests of the table: evictions, and the bound on bytes held back.

use super::*;
use crate::frame::{self, Checksum, Other};
use crate::rc::Extension;
use crate::record::{LinkType, Record, Seen};
use crate::transport::Dissected;
use alloc::vec;
use core::net::Ipv4Addr;
use rdmascope_wire::Qpn;
use rdmascope_wire::bth::Operation;
use rdmascope_wire::psn::Psn;

/// The table and its evictions.
#[derive(Default)]
struct Table {
    sessions: Sessions,
    transactions: Transactions,
    given_up: Vec<Eviction>,
    frame: u64,
}

fn host(number: u32) -> Address {
    Address::V4(Ipv4Addr::from(number))
}

impl Table {
    /// Begins a connection with the half-flow from its first end to this queue pair. It receives
    /// the next number.
    fn begin(&mut self, qpn: u32) -> EndRef {
        let Table { sessions, transactions, given_up, .. } = self;
        let mut report = |event: Event<'_>| {
            if let Event::Eviction(eviction) = event {
                given_up.push(eviction);
            }
        };
        let key = FlowKey { source: host(1), destination: host(2), destination_qp: Qpn(qpn) };
        let session = sessions.add([key.source, key.destination], Time(0), transactions, &mut report);
        let place = EndRef { session, end: End::First };
        sessions.claim(key, place, transactions, &mut report);
        transactions.number(&mut sessions.session(session).peers);
        place
    }

    /// Handles a SEND Only with `length` bytes, as the engine does.
    fn take(&mut self, place: EndRef, psn: u32, length: usize) {
        self.frame += 1;
        let payload = vec![7; length];
        let packet = Packet {
            seen: Seen { frame: self.frame, time: Time(0) },
            operation: Operation::SendOnly,
            psn: Psn::new(psn),
            extension: Extension::None,
            payload: &payload,
            payload_length: length as u32,
        };
        let Table { sessions, transactions, given_up, .. } = self;
        let mut report = |event: Event<'_>| {
            if let Event::Eviction(eviction) = event {
                given_up.push(eviction);
            }
        };
        sessions.session(place.session).handle(place.end, &packet, transactions, &mut report);
        sessions.settle(place.session, transactions, &mut report);
    }

    /// Begins a connection over TCP between ports that do not identify a protocol.
    fn begin_tcp(&mut self) -> EndRef {
        let Table { sessions, transactions, .. } = self;
        let session = sessions.add([host(1), host(2)], Time(0), transactions, &mut |_| {});
        sessions.session(session).use_tcp([40_000, 40_001], false, false);
        EndRef { session, end: End::First }
    }

    /// Handles a segment of an end, at this offset in its stream.
    fn take_segment(&mut self, place: EndRef, from: End, offset: u32, payload: &[u8]) {
        self.frame += 1;
        let (hosts, ports) = ([1u32, 2], [40_000u16, 40_001]);
        let (to, length) = (from.other(), 40 + payload.len() as u16);
        let mut packet = vec![0x45, 0];
        packet.extend(length.to_be_bytes());
        packet.extend([0, 0, 0, 0, 64, 6, 0, 0]);
        packet.extend([hosts[from], hosts[to]].map(u32::to_be_bytes).concat());
        packet.extend([ports[from], ports[to]].map(u16::to_be_bytes).concat());
        packet.extend([offset, 0].map(u32::to_be_bytes).concat());
        packet.extend([0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
        packet.extend(payload);
        let record = Record {
            number: self.frame,
            time: Time(0),
            link: LinkType::IPV4,
            original_length: packet.len() as u32,
            dropped: 0,
            tap: Default::default(),
            data: &packet,
        };
        let frame = Dissected::new(&record, &frame::Config::default()).frame;
        let Err(Other::Tcp(segment)) = frame else { panic!("{frame:?}") };
        let seen = Seen { frame: self.frame, time: Time(0) };
        let Table { sessions, transactions, given_up, .. } = self;
        let mut report = |event: Event<'_>| {
            if let Event::Eviction(eviction) = event {
                given_up.push(eviction);
            }
        };
        let session = sessions.session(place.session);
        session.handle_segment(from, seen, &segment, Checksum::Good, transactions, &mut report);
        sessions.settle(place.session, transactions, &mut report);
    }

    /// Packets of an end known to be missing from the capture.
    fn missing(&mut self, place: EndRef) -> u64 {
        let connection = self.sessions.session(place.session).summary();
        connection.requester.sent.missing_packets
    }
}

/// Up to 16 MiB are held. One byte more, and its connection gives up its gap; the others keep
/// waiting.
#[test]
fn held_bytes_of_all_connections_are_limited_to_16_mib() {
    for (more, gives_up) in [(0, false), (1, true)] {
        let mut table = Table::default();
        let [first, second] = [0x11, 0x12].map(|qpn| table.begin(qpn));
        for place in [first, second] {
            // PSN 11 is missing.
            [10, 12, 13, 14].into_iter().for_each(|psn| table.take(place, psn, 1000));
        }
        let held = [first, second].map(|place| table.sessions.session(place.session).buffered);
        assert!(held.iter().all(|bytes| (3000..4000).contains(bytes)), "3 packets of each: {held:?}");
        assert_eq!(table.sessions.buffered, held[0] + held[1]);
        // Other connections hold the rest, except 500 bytes.
        let others = MOST_BUFFERED - 500 - held[0] - held[1];
        table.sessions.buffered += others;
        table.take(second, 15, 500 + more);
        let id = table.sessions.session(second.session).peers.connection();
        let expected = gives_up.then_some(Eviction::HeldPackets { connection: id });
        assert_eq!(table.given_up, Vec::from_iter(expected), "{more}");
        let waits = if gives_up { held[0] + others } else { MOST_BUFFERED };
        assert_eq!(table.sessions.buffered, waits, "{more}");
        assert_eq!([first, second].map(|place| table.missing(place)), [0, u64::from(gives_up)]);
    }
}

/// Only a connection that holds more than before gives up its gap. Packets in order, and packets
/// that fill a gap, are not affected by the bytes that others hold.
#[test]
fn packets_that_hold_no_more_bytes_cause_no_evictions() {
    let mut table = Table::default();
    let [first, second] = [0x11, 0x12].map(|qpn| table.begin(qpn));
    [10, 12].into_iter().for_each(|psn| table.take(first, psn, 1000));
    table.sessions.buffered += MOST_BUFFERED;
    (10..13).for_each(|psn| table.take(second, psn, 1000));
    table.take(first, 12, 1000);
    table.take(first, 11, 1000);
    assert_eq!(table.given_up, []);
    assert_eq!([first, second].map(|place| table.missing(place)), [0, 0]);
}

/// When a TCP connection gives up its held packets, an unanswered RDMA Read Request remains, and
/// still counts.
#[test]
fn unanswered_read_request_counts_after_eviction() {
    let mut table = Table::default();
    let place = table.begin_tcp();
    // A start frame of each end (RFC 5044, section 7.1.1), and an FPDU with a Read Request: 16
    // bytes from 7:0x700 to 9:0x900.
    table.take_segment(place, End::First, 0, b"MPA ID Req Frame\0\x01\0\0");
    table.take_segment(place, End::Second, 0, b"MPA ID Rep Frame\0\x01\0\0");
    let mut request = vec![0, 46, 0x41, 0x41];
    let words = [0, 1, 1, 0, 9, 0, 0x900, 16, 7, 0, 0x700];
    request.extend(words.into_iter().flat_map(u32::to_be_bytes));
    request.extend([0; 4]);
    table.take_segment(place, End::First, 20, &request);
    let left = table.sessions.buffered;
    assert!((1..200).contains(&left), "one request: {left}");
    // Other connections hold all but 10 bytes. The next segment comes after a gap.
    table.sessions.buffered = MOST_BUFFERED - 10;
    table.take_segment(place, End::First, 20 + request.len() as u32 + 100, &[7; 500]);
    let id = table.sessions.session(place.session).peers.connection();
    assert_eq!(table.given_up, [Eviction::HeldPackets { connection: id }]);
    assert_eq!(table.sessions.session(place.session).buffered, left);
    assert_eq!(table.sessions.buffered, MOST_BUFFERED - 10);
}

/// A connection that ends releases its bytes.
#[test]
fn ended_connection_releases_held_bytes() {
    let mut table = Table::default();
    let [first, second] = [0x11, 0x12].map(|qpn| table.begin(qpn));
    for place in [first, second] {
        [10, 12].into_iter().for_each(|psn| table.take(place, psn, 1000));
    }
    let left = table.sessions.session(second.session).buffered;
    table.sessions.end(first.session, &mut table.transactions, &mut |_| {});
    assert_eq!(table.sessions.buffered, left);
    table.sessions.end(second.session, &mut table.transactions, &mut |_| {});
    assert_eq!(table.sessions.buffered, 0);
}

/// In a full table, connections with packets since the last search have a second chance.
#[test]
fn full_table_evicts_idle_connections_first() {
    let mut table = Table::default();
    let places: Vec<EndRef> = (0..MOST as u32).map(|number| table.begin(number)).collect();
    assert_eq!(table.given_up, []);
    let ids: Vec<_> =
        places.iter().map(|place| table.sessions.session(place.session).peers.connection()).collect();
    // All are new: the first search goes around once and takes the connection that it started with.
    table.begin(0x1_0000);
    // The third connection has a packet, the fourth has none.
    table.take(places[2], 1, 8);
    table.begin(0x1_0001);
    table.begin(0x1_0002);
    let given_up = [0, 1, 3].map(|at: usize| Eviction::Connection(ids[at]));
    assert_eq!(table.given_up, given_up);
}

/// In a full table, connections with few packets are evicted first, the oldest before the others.
/// Connections with more packets stay, even if they are silent.
#[test]
fn full_table_evicts_connections_with_few_packets_first() {
    let mut table = Table::default();
    let places: Vec<EndRef> = (0..MOST as u32).map(|number| table.begin(number)).collect();
    let ids: Vec<_> =
        places.iter().map(|place| table.sessions.session(place.session).peers.connection()).collect();
    // Seven packets are few, eight are not.
    for place in &places[..MOST - 2] {
        (0..8).for_each(|psn| table.take(*place, psn, 8));
    }
    (0..7).for_each(|psn| table.take(places[MOST - 1], psn, 8));
    for number in 0..100 {
        table.begin(0x1_0000 + number);
    }
    let given_up = [MOST - 2, MOST - 1].map(|at: usize| Eviction::Connection(ids[at]));
    assert_eq!(table.given_up[..2], given_up);
    assert_eq!(table.given_up.len(), 100);
    let stays = |id: &&ConnectionId| !table.given_up.contains(&Eviction::Connection(**id));
    assert_eq!(ids.iter().filter(stays).count(), MOST - 2);
}
