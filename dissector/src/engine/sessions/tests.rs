//! The table by hand: what gives way, and what all connections hold back together.

use super::*;
use crate::rc::Extension;
use crate::record::Seen;
use alloc::vec;
use core::net::Ipv4Addr;
use rdmascope_wire::Qpn;
use rdmascope_wire::bth::Operation;
use rdmascope_wire::psn::Psn;

/// The table, and what it gave up.
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
    /// Begins a connection, with the half-flow of its first end to this queue pair. It gets the next number.
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

    /// Takes a SEND Only of so many bytes, as the engine does.
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

    /// Packets of an end that the capture lacks, as far as that is certain.
    fn missing(&mut self, place: EndRef) -> u64 {
        let connection = self.sessions.session(place.session).summary();
        connection.requester.sent.missing_packets
    }
}

/// Up to 16 MiB wait. One byte more, and the connection that it came on goes on behind its gap; others go on waiting for what fills theirs.
#[test]
fn all_connections_together_hold_back_16_mib() {
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
        // Others hold back the rest, but for 500 bytes.
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

/// Only what grows gives way: packets in order, and those that fill a gap, come to no harm because others wait.
#[test]
fn what_holds_back_no_more_than_before_gives_up_nothing() {
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

/// A connection that ends holds back nothing any more.
#[test]
fn what_ends_makes_room() {
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

/// Where the table is full, connections that spoke since the search last came by have a second chance.
#[test]
fn what_was_silent_longest_gives_way() {
    let mut table = Table::default();
    let places: Vec<EndRef> = (0..MOST as u32).map(|number| table.begin(number)).collect();
    assert_eq!(table.given_up, []);
    let ids: Vec<_> =
        places.iter().map(|place| table.sessions.session(place.session).peers.connection()).collect();
    // All are new: the first search goes round once, and takes the one that it began with.
    table.begin(0x1_0000);
    // The third one speaks, the fourth one does not.
    table.take(places[2], 1, 8);
    table.begin(0x1_0001);
    table.begin(0x1_0002);
    let given_up = [1, 3, 4].map(|at: usize| Eviction::Connection(ids[at]));
    assert_eq!(table.given_up, given_up);
}
