//! Connections over TCP: how they begin, end, and begin again between the same ports (RFC 5044,
//! section 7.1; RFC 6581; RFC 8267, section 9).

use rdmascope_dissector::connection::{Connection, Origin, RoundTrips, State};
use rdmascope_dissector::engine::{Config, Engine, Totals};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::exchange::StepKind;
use rdmascope_dissector::frame::Address;
use rdmascope_dissector::iwarp::FramedKind;
use rdmascope_dissector::observation::{Observe, Observed};
use rdmascope_dissector::rdma::{End, Position};
use rdmascope_dissector::record::{LinkType, Record, Time};
use rdmascope_dissector::role::Role;
use rdmascope_dissector::transaction::{Outcome, Transaction};
use rdmascope_testkit::messages::*;
use rdmascope_testkit::world::{CLIENT, SERVER};
use rdmascope_wire::mpa::Crc;
use std::net::Ipv4Addr;

const FIN: u8 = 0x01;
pub(super) const SYN: u8 = 0x02;
pub(super) const RST: u8 = 0x04;
pub(super) const ACK: u8 = 0x10;

/// Two hosts with one connection, and the capture: IPv4 packets, 1 us apart.
pub(super) struct Wire {
    packets: Vec<(i64, Vec<u8>)>,
    pub(super) now: i64,
    pub(super) ports: [u16; 2],
    /// The next sequence numbers.
    pub(super) next: [u32; 2],
    /// The numbers of the next Sends.
    numbers: [u32; 2],
    /// The snap length.
    snap: usize,
    /// The error of the TCP checksum.
    damage: u16,
}

/// The events of the engine.
#[derive(Default)]
struct Report {
    connections: Vec<Connection>,
    transactions: Vec<Transaction>,
    /// Start frames, each with the resulting state of the connection, and closing segments.
    announced: Vec<String>,
    framed: Vec<String>,
    /// Packets with a role in a step, or that acknowledge one.
    roles: Vec<String>,
    /// For each closing segment: whether it proves that the request was not answered.
    silences: Vec<bool>,
    /// The acknowledgement number of the first start frame.
    expects: Option<Position>,
    /// Packets with the position of their bytes.
    places: Vec<(u64, u32)>,
    totals: Totals,
}

const ADDRESSES: [[u8; 4]; 2] = [[10, 0, 0, 1], [10, 0, 0, 2]];

/// Sets the TCP checksum (RFC 9293, section 3.1), with an error of `damage`.
fn seal(packet: &mut [u8], damage: u16) {
    let length = (packet.len() - 20) as u32;
    let mut covered = packet[12..].to_vec();
    covered.resize(covered.len().next_multiple_of(2), 0);
    let words = covered.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let mut sum = words.sum::<u32>() + 6 + length;
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    packet[36..38].copy_from_slice(&(!(sum as u16)).wrapping_add(damage).to_be_bytes());
}

/// A start frame with the flags M, C, R, S.
pub(super) fn start(from: usize, flags: u8, revision: u8, data: &[u8]) -> Vec<u8> {
    let key = [b"MPA ID Req Frame", b"MPA ID Rep Frame"][from];
    [&key[..], &[flags, revision], &(data.len() as u16).to_be_bytes(), data].concat()
}

impl Wire {
    pub(super) fn new(ports: [u16; 2]) -> Wire {
        let next = [0u32.wrapping_sub(30), 7_000];
        Wire { packets: Vec::new(), now: 0, ports, next, numbers: [1; 2], snap: usize::MAX, damage: 0 }
    }

    /// The state after both start frames, packets 1 and 2.
    pub(super) fn connected(ports: [u16; 2], private_data: [&[u8]; 2]) -> Wire {
        let mut wire = Wire::new(ports);
        wire.segment(CLIENT, ACK, &start(CLIENT, 0, 1, private_data[CLIENT]));
        wire.segment(SERVER, ACK, &start(SERVER, 0, 1, private_data[SERVER]));
        wire
    }

    /// Sends the next segment of an end. It acknowledges everything that the other end has sent.
    pub(super) fn segment(&mut self, from: usize, flags: u8, payload: &[u8]) {
        let to = 1 - from;
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6, 0, 0];
        packet[2..4].copy_from_slice(&(40 + payload.len() as u16).to_be_bytes());
        packet[4..6].copy_from_slice(&(self.packets.len() as u16).to_be_bytes());
        packet.extend([ADDRESSES[from], ADDRESSES[to]].concat());
        packet.extend([self.ports[from], self.ports[to]].map(u16::to_be_bytes).concat());
        packet.extend(self.next[from].to_be_bytes());
        packet.extend(self.next[to].to_be_bytes());
        packet.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
        packet.extend(payload);
        seal(&mut packet, self.damage);
        self.now += 1_000;
        self.packets.push((self.now, packet));
        self.next[from] = self.next[from]
            .wrapping_add(payload.len() as u32 + u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0));
    }

    /// Sends a message in one FPDU without CRC (RFC 5044, section 4.1; RFC 5041, section 4.3).
    fn send(&mut self, from: usize, message: &[u8]) {
        let fpdu = self.fpdu(from, message);
        self.segment(from, ACK, &fpdu);
    }

    /// The FPDU of the next Send of an end.
    fn fpdu(&mut self, from: usize, message: &[u8]) -> Vec<u8> {
        let mut fpdu = ((18 + message.len()) as u16).to_be_bytes().to_vec();
        fpdu.extend([0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0]);
        fpdu.extend(self.numbers[from].to_be_bytes());
        fpdu.extend([0; 4]);
        fpdu.extend(message);
        fpdu.resize(fpdu.len().next_multiple_of(4) + 4, 0);
        self.numbers[from] += 1;
        fpdu
    }

    fn run(&self) -> Report {
        let mut report = Report::default();
        let config =
            Config { report_framed: true, observe: Observe::All, attribute: true, ..Config::default() };
        let end = |end: End| ["first", "second"][end as usize];
        let mut take = |event: Event<'_>| match event {
            Event::Transaction(transaction) => report.transactions.push(transaction.clone()),
            Event::Connection(connection) => report.connections.push(connection.clone()),
            Event::Framed(it) => {
                let number =
                    |address| if address == Address::V4(Ipv4Addr::from(ADDRESSES[0])) { 1 } else { 2 };
                let kind = match &it.framed.kind {
                    FramedKind::Start(..) => "start",
                    FramedKind::Fpdu(_) => "FPDU",
                    FramedKind::Indication(_) => "indication",
                    FramedKind::Malformed(_) => "malformed",
                };
                let [source, destination] = [it.source, it.destination].map(number);
                let ports = it.ports;
                report.framed.push(format!("{kind} {source}>{destination} {ports:?} {}", it.speaks_rpc));
            }
            Event::Observation(observation) => match observation.kind {
                Observed::Announced(it) => {
                    let (from, frame, cut) =
                        (end(it.from), it.seen.frame, if it.is_cut { ", cut" } else { "" });
                    report.expects = report.expects.or(it.expects);
                    let data = it.private_data.len();
                    report
                        .announced
                        .push(format!("{from} #{frame} {}, {:?}, {data}{cut}", it.name, it.meaning));
                }
                Observed::Closes(it) => {
                    report.silences.push(it.shows_silence(observation.requester, report.expects));
                    report.announced.push(format!("{} #{} {}", end(it.from), it.seen.frame, it.how.name()));
                }
                Observed::Established(connection) => {
                    report.announced.push(format!(
                        "{:?} by {}",
                        connection.state,
                        end(observation.requester)
                    ));
                }
                _ => {}
            },
            Event::Attributed(it) => {
                let frame = it.seen.frame;
                let role = match it.role {
                    Some(Role::Part(_)) => "part",
                    Some(Role::Repetition(_)) => "again",
                    Some(Role::Acknowledgement(_)) => "ack",
                    _ => "other",
                };
                let late = if it.late { ", late" } else { "" };
                let only = if it.only_acknowledges { ", only acknowledges" } else { "" };
                report.roles.push(format!("#{frame} {role}{late}{only}"));
                report.places.push((frame, it.position.number()));
                if !it.acknowledged.is_empty() {
                    report.roles.push(format!("#{frame} acknowledges {}", it.acknowledged.len()));
                }
            }
            _ => {}
        };
        report.totals = self.handle(config, &mut take);
        report
    }

    /// Runs the capture through an engine and returns its totals.
    pub(super) fn handle(&self, config: Config, take: &mut impl FnMut(Event<'_>)) -> Totals {
        let mut engine = Engine::new(config);
        for (number, (time, packet)) in (1..).zip(&self.packets) {
            let record = Record {
                number,
                time: Time(*time),
                link: LinkType::IPV4,
                original_length: packet.len() as u32,
                dropped: 0,
                tap: Default::default(),
                data: &packet[..packet.len().min(self.snap)],
            };
            engine.handle(&record, take);
        }
        engine.finish(take);
        *engine.totals()
    }
}

impl Report {
    #[track_caller]
    fn one(&self) -> &Connection {
        let [connection] = &self.connections[..] else { panic!("{:?}", self.connections) };
        connection
    }
}

/// Segments count as cut records if the capture lacks data that a result depends on.
#[test]
fn truncated_segments_count_as_cut_records() {
    let mut wire = Wire::connected([40_000, 20_049], [&[], &[]]);
    wire.send(CLIENT, &getattr(1).0);
    wire.send(SERVER, &getattr(1).1);
    wire.segment(CLIENT, ACK, b"");
    let shorter = wire.packets.iter().filter(|(_, packet)| packet.len() <= 64).count();
    assert_eq!((wire.packets.len(), shorter), (5, 3), "start frames and the ACK are short");
    assert_eq!(wire.run().totals.cut_records, 0);
    let cut = Wire { snap: 64, ..wire }.run();
    assert_eq!((cut.totals.cut_records, cut.totals.records_without_payload), (2, 0));
}

/// Segments of other connections are not recorded, so they cannot replace a segment whose copy is
/// yet to come.
#[test]
fn copy_is_recognized_after_other_traffic() {
    let mut wire = Wire::connected([40_000, 20_049], [&[], &[]]);
    let (call, answer) = getattr(1);
    wire.send(CLIENT, &call);
    // One port for each entry of a set, with the same destination port and sequence number.
    for port in 50_000..50_008 {
        let mut other = Wire { next: wire.next, ..Wire::new([port, 20_049]) };
        other.next[CLIENT] = other.next[CLIENT].wrapping_sub(wire.packets[2].1.len() as u32 - 40);
        other.now = wire.now;
        other.segment(CLIENT, ACK, b"something else");
        wire.packets.append(&mut other.packets);
        wire.now = other.now;
    }
    let copy = wire.packets[2].1.clone();
    wire.packets.push((wire.now + 1_000, copy));
    wire.send(SERVER, &answer);
    let report = wire.run();
    assert_eq!((report.totals.copies, report.totals.segments, report.totals.others), (1, 5, 8));
    assert_eq!(report.one().requester.sent.repeated_packets, 0);
    assert_eq!(report.transactions[0].outcome, Outcome::Completed);
}

/// A FIN gives its connection a number whether or not observations are enabled, so the numbers do
/// not depend on them.
#[test]
fn fin_assigns_a_connection_number() {
    let mut first = Wire::new([40_000, 7_777]);
    let fpdu = first.fpdu(CLIENT, &getattr(1).0);
    first.segment(CLIENT, ACK, &fpdu[..40]);
    first.segment(CLIENT, ACK | FIN, b"");
    let mut second = Wire::new([40_001, 20_049]);
    second.send(CLIENT, &getattr(2).0);
    first.packets.append(&mut second.packets);
    for observe in [Observe::Nothing, Observe::Events, Observe::All] {
        let mut numbers = Vec::new();
        first.handle(Config { observe, ..Config::default() }, &mut |event| {
            if let Event::Connection(connection) = event {
                numbers.push((connection.id.0, connection.requester.tcp_port));
            }
        });
        assert_eq!(numbers, [(1, Some(40_000)), (2, Some(40_001))], "{observe:?}");
    }
}

/// RFC 8797, section 4.1: an inline threshold is the smaller of one end's send size and the other's
/// receive size.
#[test]
fn private_data_sets_inline_thresholds() {
    let [request, reply] = [private_data(4096, 8192), private_data(2048, 1024)];
    let wire = Wire::connected([40_000, 20_049], [&request, &reply]);
    let report = wire.run();
    let connection = report.one();
    assert!(connection.is_iwarp && connection.roles_known);
    assert_eq!(
        (connection.origin, connection.state, connection.port),
        (Origin::Cm, State::Open, Some(20_049))
    );
    assert_eq!(
        (connection.call_inline_threshold, connection.reply_inline_threshold),
        (Some(1024), Some(2048))
    );
    let ends = [&connection.requester, &connection.responder];
    assert_eq!(ends.map(|end| end.tcp_port), [Some(40_000), Some(20_049)]);
    assert_eq!(
        ends.map(|end| end.start.map(|it| (it.frame_number, it.depths))),
        [Some((1, None)), Some((2, None))]
    );
    assert_eq!(ends.map(|end| end.first_frames.cm_message), [Some(1), Some(2)]);
    assert_eq!(ends.map(|end| end.first_frames.reject), [None; 2]);
    assert_eq!(ends.map(|end| end.private_data.map(|data| data.send_size)), [Some(4096), Some(2048)]);
    assert_eq!(
        report.announced,
        [
            "first #1 MPA Request, Asks, 8",
            "Requested by first",
            "second #2 MPA Reply, Accepts, 8",
            "Open by first"
        ]
    );
    assert_eq!(report.framed, ["start 1>2 [40000, 20049] true", "start 2>1 [20049, 40000] true"]);
    // The capture has four bytes of the Reply's private data.
    let report = Wire { snap: 40 + 20 + 4, ..wire }.run();
    assert_eq!(report.one().call_inline_threshold, None);
    assert_eq!(report.announced[2], "second #2 MPA Reply, Accepts, 4, cut");
    // IRD and ORD precede the private data (RFC 6581, section 9).
    let mut wire = Wire::new([40_000, 20_049]);
    wire.segment(CLIENT, ACK, &start(CLIENT, 0x10, 2, &[&[0, 5, 0, 6], &request[..]].concat()));
    wire.segment(SERVER, ACK, &start(SERVER, 0x10, 2, &[&[0, 7, 0, 4], &reply[..]].concat()));
    let report = wire.run();
    let depths = |end: &rdmascope_dissector::connection::Endpoint| {
        end.start.and_then(|it| it.depths).map(|it| (it.inbound, it.outbound))
    };
    assert_eq!(
        (depths(&report.one().requester), depths(&report.one().responder)),
        (Some((5, 6)), Some((7, 4)))
    );
    assert_eq!(report.one().call_inline_threshold, Some(1024));
    assert_eq!(report.announced[0], "first #1 MPA Request, Asks, 8");
}

/// A Reply with the R bit (RFC 5044, section 7.1.1): its private data negotiates nothing.
#[test]
fn rejected_request_negotiates_nothing() {
    let [request, reply] = [private_data(4096, 8192), private_data(2048, 1024)];
    let mut wire = Wire::new([40_000, 20_049]);
    wire.segment(CLIENT, ACK, &start(CLIENT, 0, 1, &request));
    let requested = wire.run();
    assert_eq!((requested.one().state, requested.one().port), (State::Requested, Some(20_049)));
    wire.segment(SERVER, ACK, &start(SERVER, 0x20, 1, &reply));
    let report = wire.run();
    let connection = report.one();
    assert_eq!((connection.state, connection.call_inline_threshold), (State::Refused, None));
    assert!(connection.requester.private_data.is_some() && connection.responder.private_data.is_some());
    let [requester, responder] =
        [connection.requester, connection.responder].map(|end| end.first_frames.reject);
    assert_eq!((requester, responder), (None, Some(2)));
    assert_eq!(report.announced[2..], ["second #2 MPA Reply, Rejects(None), 8", "Refused by first"]);
}

/// The sender of the Request opened the connection, and the port is that of the other end, even if
/// the capture has only the Reply.
#[test]
fn sender_of_mpa_request_is_the_requester() {
    let data = private_data(4096, 4096);
    for (client, server, private_data, reply_is_rpc) in
        [(40_000, 20_049, &b""[..], true), (40_000, 7_777, b"", false), (40_000, 7_777, &data, true)]
    {
        let wire = Wire::connected([client, server], [b"", private_data]);
        let report = wire.run();
        let connection = report.one();
        assert_eq!((connection.port, connection.requester.tcp_port), (Some(server), Some(client)));
        let is_rpc = report.framed.iter().map(|framed| framed.ends_with("true")).collect::<Vec<_>>();
        assert_eq!(is_rpc, [server == 20_049, reply_is_rpc], "{client} {server}");
    }
    // The Request overrides the port.
    let report = Wire::connected([20_049, 40_000], [b"", b""]).run();
    assert_eq!((report.one().port, report.one().requester.tcp_port), (Some(40_000), Some(20_049)));
    assert!(report.framed.iter().all(|framed| framed.ends_with("false")), "{:?}", report.framed);
    let mut wire = Wire::new([40_000, 7_777]);
    wire.segment(SERVER, ACK, &start(SERVER, 0, 1, b""));
    let report = wire.run();
    assert_eq!((report.one().port, report.one().requester.tcp_port), (Some(7_777), Some(40_000)));
    assert_eq!(report.announced, ["first #1 MPA Reply, Accepts, 0", "Open by second"]);
}

/// A capture that begins in the middle: the end with port 20049 accepted the connection (RFC 8267,
/// section 9).
#[test]
fn port_20049_identifies_the_responder_in_mid_connection() {
    let (call, answer) = getattr(1);
    for (ports, port) in
        [([40_000, 20_049], Some(20_049)), ([20_049, 20_049], None), ([40_000, 40_001], None)]
    {
        let mut wire = Wire::new(ports);
        wire.send(CLIENT, &call);
        wire.send(SERVER, &answer);
        let report = wire.run();
        let connection = report.one();
        assert_eq!((connection.port, connection.requester.tcp_port), (port, Some(ports[0])), "{ports:?}");
        assert!(matches!(connection.origin, Origin::Inferred(_)));
        assert_eq!(report.transactions.len(), 1);
        assert_eq!(report.transactions[0].outcome, Outcome::Completed);
    }
    // The reply comes first.
    let mut wire = Wire::new([40_000, 20_049]);
    wire.send(SERVER, &answer);
    let report = wire.run();
    assert_eq!((report.one().port, report.one().requester.tcp_port), (Some(20_049), Some(40_000)));
    assert_eq!(report.framed, ["FPDU 2>1 [20049, 40000] true"]);
}

/// Segments are counted, Sends wait for their ACKs, and the role of a segment follows from its
/// bytes and its acknowledgement number.
#[test]
fn calls_and_replies_have_roles_and_round_trips() {
    let (call, answer) = getattr(1);
    let mut wire = Wire::connected([40_000, 20_049], [b"", b""]);
    wire.send(CLIENT, &call);
    wire.now += 29_000;
    wire.segment(SERVER, ACK, b"");
    wire.send(SERVER, &answer);
    wire.now += 6_000;
    wire.segment(CLIENT, ACK, b"");
    let report = wire.run();
    let [transaction] = &report.transactions[..] else { panic!("one transaction") };
    assert_eq!(transaction.outcome, Outcome::Completed);
    assert_eq!(transaction.timing.acknowledged.map(|seen| seen.frame), Some(4));
    // Start frames without private data leave the default (RFC 8166, section 3.3.3).
    assert_eq!(report.one().call_inline_threshold, Some(1024));
    let [to_responder, to_requester] =
        [report.one().requester, report.one().responder].map(|end| (end.round_trips, end.sent.packets));
    assert_eq!(to_responder, (Some(RoundTrips { count: 1, minimum: 30_000, median: 30_000 }), 3));
    assert_eq!(to_requester, (Some(RoundTrips { count: 1, minimum: 7_000, median: 7_000 }), 3));
    let bytes = |message: &[u8]| (20 + 20 + message.len().next_multiple_of(4) + 4) as u64;
    assert_eq!(
        (report.one().requester.sent.bytes, report.one().responder.sent.bytes),
        (bytes(&call), bytes(&answer))
    );
    assert_eq!((report.one().requester.sent.sends, report.one().requester.sent.acknowledgements), (1, 1));
    assert_eq!(
        report.roles,
        [
            "#3 part",
            "#4 ack, only acknowledges",
            "#4 acknowledges 1",
            "#5 part",
            "#6 ack, only acknowledges",
            "#6 acknowledges 1"
        ]
    );
    let kinds: Vec<_> = transaction.exchange.iter().flat_map(|it| &it.steps).map(|step| step.kind).collect();
    assert_eq!(kinds, [StepKind::Call, StepKind::Reply]);
    // A reply that acknowledges is not a separate ACK. The transaction that it ends is over before
    // the acknowledgement counts.
    let mut wire = Wire::connected([40_000, 20_049], [b"", b""]);
    wire.send(CLIENT, &call);
    wire.send(CLIENT, &getattr(2).0);
    wire.send(SERVER, &answer);
    wire.send(SERVER, &getattr(2).1);
    let report = wire.run();
    let acknowledged = |it: &Transaction| (it.xid.0, it.timing.acknowledged.map(|seen| seen.frame));
    assert_eq!(report.transactions.iter().map(acknowledged).collect::<Vec<_>>(), [(1, None), (2, Some(5))]);
    assert_eq!(report.one().requester.round_trips, None);
}

/// A segment may have the end of one message and the beginning of the next. It is reported once for
/// each.
#[test]
fn segment_is_attributed_to_each_of_its_messages() {
    let mut wire = Wire::connected([40_000, 20_049], [b"", b""]);
    let [first, second] = [1, 2].map(|xid| wire.fpdu(CLIENT, &getattr(xid).0));
    let begins = wire.next;
    let (front, rest) = second.split_at(20);
    wire.segment(CLIENT, ACK, &[&first, front].concat());
    wire.segment(CLIENT, ACK, rest);
    wire.segment(SERVER, ACK, b"");
    let replies = [1, 2].map(|xid| wire.fpdu(SERVER, &getattr(xid).1));
    wire.segment(SERVER, ACK, &replies.concat());
    wire.segment(CLIENT, ACK, b"");
    // The second half again: it belongs only to the second message.
    wire.next[CLIENT] = wire.next[CLIENT].wrapping_sub(rest.len() as u32);
    wire.segment(CLIENT, ACK, rest);
    let report = wire.run();
    assert_eq!(
        report.roles,
        [
            "#3 part, late",
            "#3 part, late",
            "#4 part",
            "#5 ack, only acknowledges",
            "#5 acknowledges 2",
            "#6 part",
            "#6 part",
            "#7 ack, only acknowledges",
            "#7 acknowledges 2",
            "#8 again",
        ]
    );
    let places = [
        (3, begins[CLIENT]),
        (3, begins[CLIENT].wrapping_add(first.len() as u32)),
        (4, begins[CLIENT].wrapping_add((first.len() + front.len()) as u32)),
    ];
    assert_eq!(report.places[..3], places);
    let of_replies = report.places.iter().filter(|(frame, _)| *frame == 6).map(|(_, place)| *place);
    assert_eq!(of_replies.collect::<Vec<_>>(), [7_000 + 20, 7_000 + 20 + replies[0].len() as u32]);
}

/// If other checksums are correct, a wrong one is meaningful: the receiver drops the segment.
#[test]
fn segment_with_bad_tcp_checksum_is_dropped() {
    let (call, answer) = getattr(1);
    let mut wire = Wire::connected([40_000, 20_049], [b"", b""]);
    wire.damage = 1;
    wire.send(CLIENT, &call);
    (wire.damage, wire.numbers[CLIENT]) = (0, 1);
    wire.next[CLIENT] = wire.next[CLIENT].wrapping_sub(24 + call.len().next_multiple_of(4) as u32);
    wire.send(CLIENT, &call);
    wire.send(SERVER, &answer);
    let report = wire.run();
    let requester = report.one().requester;
    assert_eq!((requester.sent.bad_icrc, requester.sent.packets, requester.sent.repeated_packets), (1, 2, 0));
    assert_eq!((requester.first_frames.bad_icrc, requester.first_frames.sound), (Some(3), Some(1)));
    assert_eq!(report.transactions[0].outcome, Outcome::Completed);
    // If no checksum is correct, wrong ones are meaningless.
    let mut wire = Wire::new([40_000, 20_049]);
    wire.damage = 1;
    wire.send(CLIENT, &call);
    wire.send(SERVER, &answer);
    let report = wire.run();
    assert_eq!((report.one().requester.sent.packets, report.one().requester.first_frames.sound), (1, None));
    assert_eq!(report.transactions.len(), 1);
}

/// RFC 9293, section 3.6: a connection is closed by FINs of both ends, or by a RST.
#[test]
fn connection_closes_by_fins_of_both_ends_or_rst() {
    for (segments, is_closed) in [
        (&[(CLIENT, FIN | ACK)][..], false),
        (&[(CLIENT, FIN | ACK), (SERVER, ACK)], false),
        (&[(CLIENT, FIN | ACK), (SERVER, FIN | ACK)], true),
        (&[(SERVER, FIN | ACK), (SERVER, ACK), (CLIENT, FIN | ACK), (SERVER, ACK)], true),
        (&[(SERVER, RST)], true),
    ] {
        let mut wire = Wire::connected([40_000, 20_049], [b"", b""]);
        segments.iter().for_each(|(from, flags)| wire.segment(*from, *flags, b""));
        let report = wire.run();
        assert_eq!(report.one().state == State::Closed, is_closed, "{segments:?}");
        // A closing segment is reported once for each end; a reset is reported once.
        let reported = report.announced.iter().filter(|line| line.ends_with("FIN") || line.ends_with("RST"));
        let expected = segments.iter().zip(3..).filter(|((_, flags), _)| flags & (FIN | RST) != 0);
        let line = |((from, flags), frame): (&(usize, u8), u64)| {
            let name = if flags & RST != 0 { "RST" } else { "FIN" };
            format!("{} #{frame} {name}", ["first", "second"][*from])
        };
        assert!(reported.eq(&expected.map(line).collect::<Vec<_>>()), "{:?}", report.announced);
    }
}

/// Segments of iWARP, of another connection, and copies.
#[test]
fn segments_are_counted() {
    let mut wire = Wire::new([40_000, 20_049]);
    wire.segment(CLIENT, SYN, b"");
    wire.segment(SERVER, SYN | ACK, b"");
    wire.segment(CLIENT, ACK, &start(CLIENT, 0, 1, b""));
    wire.segment(SERVER, ACK, &start(SERVER, 0, 1, b""));
    wire.send(CLIENT, &getattr(1).0);
    // The same packet again at once: a copy.
    wire.packets.push(wire.packets[4].clone());
    wire.damage = 1;
    wire.segment(SERVER, ACK, b"");
    let totals = wire.run().totals;
    assert_eq!((totals.records, totals.segments, totals.sound_segments), (7, 5, 3));
    assert_eq!((totals.copies, totals.connections, totals.packets), (1, 1, 0));
    // Segments before the start frames count as other traffic, named by the port.
    let named: u64 = totals.traffic.iter().map(|(_, packets)| packets).sum();
    assert_eq!((totals.others, named), (2, 2));
    assert_eq!((totals.cut_records, totals.records_without_payload), (0, 0));
}

/// A request without a reply keeps its state when the connection is closed. A Send proves that
/// there was a reply.
#[test]
fn unanswered_request_keeps_its_state_at_close() {
    let unanswered = || {
        let mut wire = Wire::new([40_000, 20_049]);
        wire.segment(CLIENT, ACK, &start(CLIENT, 0, 1, b""));
        wire.segment(SERVER, ACK, b"");
        wire
    };
    let closed = |mut wire: Wire, flags: u8| {
        wire.segment(CLIENT, flags | ACK, b"");
        wire.segment(SERVER, FIN | ACK, b"");
        wire.run().one().state
    };
    assert_eq!(unanswered().run().one().state, State::Requested);
    assert_eq!(closed(unanswered(), FIN), State::Requested);
    assert_eq!(closed(unanswered(), RST), State::Requested);
    // The closing segments show whether the other end had sent anything, even if the capture lacks
    // it.
    let silences = |missing: u32, closing: &[(usize, u8, &[u8])]| {
        let mut wire = unanswered();
        wire.next[SERVER] += missing;
        closing.iter().for_each(|(from, flags, payload)| wire.segment(*from, flags | ACK, payload));
        wire.run().silences
    };
    assert_eq!(silences(0, &[(CLIENT, FIN, b""), (SERVER, FIN, b"")]), [true, true]);
    assert_eq!(silences(0, &[(SERVER, FIN, b""), (CLIENT, FIN, b"")]), [true, true]);
    assert_eq!(silences(0, &[(SERVER, RST, b"")]), [true]);
    assert_eq!(silences(20, &[(CLIENT, FIN, b""), (SERVER, FIN, b"")]), [false, false]);
    assert_eq!(silences(20, &[(SERVER, RST, b"")]), [false]);
    assert_eq!(silences(0, &[(SERVER, FIN, b"no start frame")]), [false]);
    let reused = |mut wire: Wire| {
        wire.segment(CLIENT, SYN, b"");
        wire.run().one().state
    };
    assert_eq!(reused(unanswered()), State::Requested);
    for from in [CLIENT, SERVER] {
        let mut wire = unanswered();
        // The capture lacks the reply.
        wire.next[SERVER] += 20;
        wire.send(from, &getattr(1).0);
        assert_eq!(wire.run().one().state, State::Open);
        assert_eq!(closed(wire, FIN), State::Closed);
    }
    let mut rejected = unanswered();
    rejected.segment(SERVER, ACK, &start(SERVER, 0x20, 1, b""));
    assert_eq!(reused(rejected), State::Refused);
}

/// The ports are reused, after a SYN, or, if the capture lacks it, with start frames at other
/// positions.
#[test]
fn reused_ports_begin_a_new_connection() {
    let (call, answer) = getattr(1);
    let both = |wire: &mut Wire| {
        wire.numbers = [1; 2];
        wire.segment(CLIENT, ACK, &start(CLIENT, 0, 1, b""));
        wire.segment(SERVER, ACK, &start(SERVER, 0, 1, b""));
        wire.send(CLIENT, &call);
        wire.send(SERVER, &answer);
    };
    for with_syn in [false, true] {
        for from in [[900, 90_000], [4_000_000_000, 9]] {
            let mut wire = Wire::new([40_000, 20_049]);
            both(&mut wire);
            wire.next = from;
            if with_syn {
                wire.segment(CLIENT, SYN, b"");
                wire.segment(SERVER, SYN | ACK, b"");
            }
            both(&mut wire);
            let report = wire.run();
            let states: Vec<_> =
                report.connections.iter().map(|it| (it.state, it.requester.sent.sends)).collect();
            assert_eq!(states, [(State::Closed, 1), (State::Open, 1)], "{with_syn} {from:?}");
            assert_eq!(
                report.connections[1].requester.start.map(|it| it.frame_number),
                Some(if with_syn { 7 } else { 5 })
            );
            assert_eq!(report.transactions.len(), 2);
            // A SYN belongs to no iWARP connection: neither to the one that it ends, nor to the
            // next, which begins with its start frame.
            let others = if with_syn { 2 } else { 0 };
            assert_eq!((report.totals.segments, report.totals.others), (8, others));
        }
    }
    // Retransmitted start frames begin no connection.
    let mut wire = Wire::connected([40_000, 20_049], [b"", b""]);
    let next = wire.next;
    wire.next = next.map(|next| next.wrapping_sub(20));
    wire.segment(CLIENT, ACK, &start(CLIENT, 0, 1, b""));
    wire.segment(SERVER, ACK, &start(SERVER, 0, 1, b""));
    assert_eq!(wire.next, next);
    let report = wire.run();
    let repeated = [report.one().requester, report.one().responder].map(|end| end.sent.repeated_packets);
    assert_eq!(repeated, [1, 1]);
    assert_eq!(report.announced.len(), 4);
}

/// A copy of the SYN, which was delayed in the network, does not end the connection. RFC 9293, section
/// 3.4.1: a new connection has another initial sequence number.
#[test]
fn late_copy_of_the_syn_changes_nothing() {
    for (shift, connections) in [(0, 1), (1, 2)] {
        let mut wire = Wire::new([40_000, 20_049]);
        let first = wire.next[CLIENT];
        wire.segment(CLIENT, SYN, b"");
        wire.segment(SERVER, SYN | ACK, b"");
        wire.segment(CLIENT, ACK, &start(CLIENT, 0, 1, b""));
        wire.segment(SERVER, ACK, &start(SERVER, 0, 1, b""));
        let (call, answer) = getattr(1);
        wire.send(CLIENT, &call);
        let next = core::mem::replace(&mut wire.next[CLIENT], first.wrapping_add(shift));
        wire.segment(CLIENT, SYN, b"");
        wire.next[CLIENT] = next;
        wire.send(SERVER, &answer);
        let report = wire.run();
        assert_eq!(report.connections.len(), connections, "{shift}");
        let outcomes: Vec<_> = report.transactions.iter().map(|it| it.outcome).collect();
        assert_eq!(outcomes == [Outcome::Completed], shift == 0, "{outcomes:?}");
    }
}

/// The acknowledgements of the client show that the server sent something after a call.
#[test]
fn reply_is_in_the_direction_that_was_not_captured() {
    let mut wire = Wire::connected([40_000, 20_049], [b"", b""]);
    for xid in [1, 2, 3] {
        let (call, answer) = getattr(xid);
        wire.send(CLIENT, &call);
        wire.send(SERVER, &answer);
    }
    wire.packets.retain(|(_, packet)| packet[12..16] == ADDRESSES[CLIENT]);
    let gaps: Vec<_> =
        wire.run().transactions.iter().map(|it| (it.reply.is_some(), it.capture_gap)).collect();
    // Nothing acknowledges the last reply.
    assert_eq!(gaps, [(false, true), (false, true), (false, false)]);
}

/// An FPDU with a wrong CRC is in the capture, but its receiver drops it (RFC 5044, section 8).
#[test]
fn fpdu_with_wrong_crc_is_not_missing() {
    let mut wire = Wire::new([40_000, 20_049]);
    for from in [CLIENT, SERVER] {
        wire.segment(from, ACK, &start(from, 0x40, 1, &[]));
    }
    for (xid, damage) in [(1, 0), (2, 1)] {
        let (call, answer) = getattr(xid);
        for (from, message, damage) in [(CLIENT, call, 0), (SERVER, answer, damage)] {
            let mut fpdu = wire.fpdu(from, &message);
            let (covered, field) = fpdu.split_at_mut(message.len().next_multiple_of(4) + 20);
            let mut crc = Crc::default();
            crc.update(covered);
            field.copy_from_slice(&crc.finish());
            field[0] ^= damage;
            wire.segment(from, ACK, &fpdu);
        }
    }
    let report = wire.run();
    let responder = &report.one().responder;
    assert_eq!((responder.sent.bad_icrc, responder.sent.missing_packets), (1, 0));
    assert_eq!(responder.first_frames.bad_icrc, Some(6));
    assert_eq!(report.one().requester.sent.bad_icrc, 0);
    // The damaged data may be the reply, so its absence proves nothing.
    let outcomes: Vec<_> = report.transactions.iter().map(|it| (it.outcome, it.capture_gap)).collect();
    assert_eq!(outcomes, [(Outcome::Completed, false), (Outcome::CutOff, true)]);
}
