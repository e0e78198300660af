//! Connections over TCP: how they begin, end, and begin again between the same ports (RFC 5044,
//! section 7.1; RFC 6581; RFC 8267, section 9).

use crate::speech::*;
use crate::world::{CLIENT, SERVER};
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
use std::net::Ipv4Addr;

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

/// Two hosts with one connection, and the capture: IPv4 packets, 1 us apart.
struct Wire {
    packets: Vec<(i64, Vec<u8>)>,
    now: i64,
    ports: [u16; 2],
    /// The next sequence numbers.
    next: [u32; 2],
    /// The numbers of the next Sends.
    numbers: [u32; 2],
    /// The snap length.
    snap: usize,
    /// The error of the TCP checksum.
    damage: u16,
}

/// The events of the engine.
#[derive(Default)]
struct Heard {
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
fn start(from: usize, flags: u8, revision: u8, data: &[u8]) -> Vec<u8> {
    let key = [b"MPA ID Req Frame", b"MPA ID Rep Frame"][from];
    [&key[..], &[flags, revision], &(data.len() as u16).to_be_bytes(), data].concat()
}

impl Wire {
    fn new(ports: [u16; 2]) -> Wire {
        let next = [0u32.wrapping_sub(30), 7_000];
        Wire { packets: Vec::new(), now: 0, ports, next, numbers: [1; 2], snap: usize::MAX, damage: 0 }
    }

    /// The state after both start frames, packets 1 and 2.
    fn connected(ports: [u16; 2], private_data: [&[u8]; 2]) -> Wire {
        let mut wire = Wire::new(ports);
        wire.say(CLIENT, ACK, &start(CLIENT, 0, 1, private_data[CLIENT]));
        wire.say(SERVER, ACK, &start(SERVER, 0, 1, private_data[SERVER]));
        wire
    }

    /// Sends the next segment of an end. It acknowledges everything that the other end has sent.
    fn say(&mut self, from: usize, flags: u8, payload: &[u8]) {
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
        self.say(from, ACK, &fpdu);
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

    fn run(&self) -> Heard {
        let mut heard = Heard::default();
        let config =
            Config { report_framed: true, observe: Observe::All, attribute: true, ..Config::default() };
        let end = |end: End| ["first", "second"][end as usize];
        let mut take = |event: Event<'_>| match event {
            Event::Transaction(transaction) => heard.transactions.push(transaction.clone()),
            Event::Connection(connection) => heard.connections.push(connection.clone()),
            Event::Framed(it) => {
                let number =
                    |address| if address == Address::V4(Ipv4Addr::from(ADDRESSES[0])) { 1 } else { 2 };
                let kind = match &it.framed.kind {
                    FramedKind::Start(..) => "start",
                    FramedKind::Fpdu(_) => "FPDU",
                    FramedKind::Malformed(_) => "malformed",
                };
                let [source, destination] = [it.source, it.destination].map(number);
                let ports = it.ports;
                heard.framed.push(format!("{kind} {source}>{destination} {ports:?} {}", it.speaks_rpc));
            }
            Event::Observation(observation) => match observation.what {
                Observed::Announced(it) => {
                    let (from, frame, cut) =
                        (end(it.from), it.seen.frame, if it.is_cut { ", cut" } else { "" });
                    heard.expects = heard.expects.or(it.expects);
                    let data = it.private_data.len();
                    heard.announced.push(format!("{from} #{frame} {}, {:?}, {data}{cut}", it.name, it.says));
                }
                Observed::Closes(it) => {
                    heard.silences.push(it.shows_silence(observation.requester, heard.expects));
                    heard.announced.push(format!("{} #{} {}", end(it.from), it.seen.frame, it.how.name()));
                }
                Observed::Established(connection) => {
                    heard.announced.push(format!("{:?} by {}", connection.state, end(observation.requester)));
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
                heard.roles.push(format!("#{frame} {role}{late}{only}"));
                heard.places.push((frame, it.position.number()));
                if !it.acknowledged.is_empty() {
                    heard.roles.push(format!("#{frame} acknowledges {}", it.acknowledged.len()));
                }
            }
            _ => {}
        };
        heard.totals = self.handle(config, &mut take);
        heard
    }

    /// Runs the capture through an engine and returns its totals.
    fn handle(&self, config: Config, take: &mut impl FnMut(Event<'_>)) -> Totals {
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

impl Heard {
    #[track_caller]
    fn one(&self) -> &Connection {
        let [connection] = &self.connections[..] else { panic!("{:?}", self.connections) };
        connection
    }
}

/// Segments count as cut records if the capture lacks data that a result depends on.
#[test]
fn segments_that_were_cut() {
    let mut wire = Wire::connected([40_000, 20_049], [&[], &[]]);
    wire.send(CLIENT, &getattr(1).0);
    wire.send(SERVER, &getattr(1).1);
    wire.say(CLIENT, ACK, b"");
    let shorter = wire.packets.iter().filter(|(_, packet)| packet.len() <= 64).count();
    assert_eq!((wire.packets.len(), shorter), (5, 3), "start frames and the ACK are short");
    assert_eq!(wire.run().totals.cut_records, 0);
    let cut = Wire { snap: 64, ..wire }.run();
    assert_eq!((cut.totals.cut_records, cut.totals.records_without_payload), (2, 0));
}

/// Segments of other connections are not noted, so they cannot replace a segment whose copy is yet
/// to come.
#[test]
fn a_copy_behind_much_other_traffic() {
    let mut wire = Wire::connected([40_000, 20_049], [&[], &[]]);
    let (call, answer) = getattr(1);
    wire.send(CLIENT, &call);
    // One port for each entry of a set, with the same destination port and sequence number.
    for port in 50_000..50_008 {
        let mut other = Wire { next: wire.next, ..Wire::new([port, 20_049]) };
        other.next[CLIENT] = other.next[CLIENT].wrapping_sub(wire.packets[2].1.len() as u32 - 40);
        other.now = wire.now;
        other.say(CLIENT, ACK, b"something else");
        wire.packets.append(&mut other.packets);
        wire.now = other.now;
    }
    let copy = wire.packets[2].1.clone();
    wire.packets.push((wire.now + 1_000, copy));
    wire.send(SERVER, &answer);
    let heard = wire.run();
    assert_eq!((heard.totals.copies, heard.totals.segments, heard.totals.others), (1, 5, 8));
    assert_eq!(heard.one().requester.sent.repeated_packets, 0);
    assert_eq!(heard.transactions[0].outcome, Outcome::Completed);
}

/// A FIN gives its connection a number whether or not observations are enabled, so the numbers do
/// not depend on them.
#[test]
fn a_fin_numbers_its_connection() {
    let mut first = Wire::new([40_000, 7_777]);
    let fpdu = first.fpdu(CLIENT, &getattr(1).0);
    first.say(CLIENT, ACK, &fpdu[..40]);
    first.say(CLIENT, ACK | FIN, b"");
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
fn private_data_of_start_frames() {
    let [request, reply] = [private_data(4096, 8192), private_data(2048, 1024)];
    let wire = Wire::connected([40_000, 20_049], [&request, &reply]);
    let heard = wire.run();
    let connection = heard.one();
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
        heard.announced,
        [
            "first #1 MPA Request, Asks, 8",
            "Requested by first",
            "second #2 MPA Reply, Accepts, 8",
            "Open by first"
        ]
    );
    assert_eq!(heard.framed, ["start 1>2 [40000, 20049] true", "start 2>1 [20049, 40000] true"]);
    // The capture has four bytes of the Reply's private data.
    let heard = Wire { snap: 40 + 20 + 4, ..wire }.run();
    assert_eq!(heard.one().call_inline_threshold, None);
    assert_eq!(heard.announced[2], "second #2 MPA Reply, Accepts, 4, cut");
    // IRD and ORD precede the private data (RFC 6581, section 9).
    let mut wire = Wire::new([40_000, 20_049]);
    wire.say(CLIENT, ACK, &start(CLIENT, 0x10, 2, &[&[0, 5, 0, 6], &request[..]].concat()));
    wire.say(SERVER, ACK, &start(SERVER, 0x10, 2, &[&[0, 7, 0, 4], &reply[..]].concat()));
    let heard = wire.run();
    let depths = |end: &rdmascope_dissector::connection::Endpoint| {
        end.start.and_then(|it| it.depths).map(|it| (it.inbound, it.outbound))
    };
    assert_eq!(
        (depths(&heard.one().requester), depths(&heard.one().responder)),
        (Some((5, 6)), Some((7, 4)))
    );
    assert_eq!(heard.one().call_inline_threshold, Some(1024));
    assert_eq!(heard.announced[0], "first #1 MPA Request, Asks, 8");
}

/// A Reply with the R bit (RFC 5044, section 7.1.1): its private data negotiates nothing.
#[test]
fn a_rejected_request() {
    let [request, reply] = [private_data(4096, 8192), private_data(2048, 1024)];
    let mut wire = Wire::new([40_000, 20_049]);
    wire.say(CLIENT, ACK, &start(CLIENT, 0, 1, &request));
    let asked = wire.run();
    assert_eq!((asked.one().state, asked.one().port), (State::Requested, Some(20_049)));
    wire.say(SERVER, ACK, &start(SERVER, 0x20, 1, &reply));
    let heard = wire.run();
    let connection = heard.one();
    assert_eq!((connection.state, connection.call_inline_threshold), (State::Refused, None));
    assert!(connection.requester.private_data.is_some() && connection.responder.private_data.is_some());
    let [requester, responder] =
        [connection.requester, connection.responder].map(|end| end.first_frames.reject);
    assert_eq!((requester, responder), (None, Some(2)));
    assert_eq!(heard.announced[2..], ["second #2 MPA Reply, Rejects(None), 8", "Refused by first"]);
}

/// The sender of the Request opened the connection, and the port is that of the other end, even if
/// the capture has only the Reply.
#[test]
fn who_opened_it() {
    let data = private_data(4096, 4096);
    for (client, server, private_data, speaks) in
        [(40_000, 20_049, &b""[..], true), (40_000, 7_777, b"", false), (40_000, 7_777, &data, true)]
    {
        let wire = Wire::connected([client, server], [b"", private_data]);
        let heard = wire.run();
        let connection = heard.one();
        assert_eq!((connection.port, connection.requester.tcp_port), (Some(server), Some(client)));
        let is_rpc = heard.framed.iter().map(|framed| framed.ends_with("true")).collect::<Vec<_>>();
        assert_eq!(is_rpc, [server == 20_049, speaks], "{client} {server}");
    }
    // The Request overrides the port.
    let heard = Wire::connected([20_049, 40_000], [b"", b""]).run();
    assert_eq!((heard.one().port, heard.one().requester.tcp_port), (Some(40_000), Some(20_049)));
    assert!(heard.framed.iter().all(|framed| framed.ends_with("false")), "{:?}", heard.framed);
    let mut wire = Wire::new([40_000, 7_777]);
    wire.say(SERVER, ACK, &start(SERVER, 0, 1, b""));
    let heard = wire.run();
    assert_eq!((heard.one().port, heard.one().requester.tcp_port), (Some(7_777), Some(40_000)));
    assert_eq!(heard.announced, ["first #1 MPA Reply, Accepts, 0", "Open by second"]);
}

/// A capture that begins in the middle: the end with port 20049 accepted the connection (RFC 8267,
/// section 9).
#[test]
fn from_the_middle_on() {
    let (call, answer) = getattr(1);
    for (ports, port) in
        [([40_000, 20_049], Some(20_049)), ([20_049, 20_049], None), ([40_000, 40_001], None)]
    {
        let mut wire = Wire::new(ports);
        wire.send(CLIENT, &call);
        wire.send(SERVER, &answer);
        let heard = wire.run();
        let connection = heard.one();
        assert_eq!((connection.port, connection.requester.tcp_port), (port, Some(ports[0])), "{ports:?}");
        assert!(matches!(connection.origin, Origin::Inferred(_)));
        assert_eq!(heard.transactions.len(), 1);
        assert_eq!(heard.transactions[0].outcome, Outcome::Completed);
    }
    // The reply comes first.
    let mut wire = Wire::new([40_000, 20_049]);
    wire.send(SERVER, &answer);
    let heard = wire.run();
    assert_eq!((heard.one().port, heard.one().requester.tcp_port), (Some(20_049), Some(40_000)));
    assert_eq!(heard.framed, ["FPDU 2>1 [20049, 40000] true"]);
}

/// Segments are counted, Sends wait for their ACKs, and the role of a segment follows from its
/// bytes and its acknowledgement number.
#[test]
fn calls_and_replies() {
    let (call, answer) = getattr(1);
    let mut wire = Wire::connected([40_000, 20_049], [b"", b""]);
    wire.send(CLIENT, &call);
    wire.now += 29_000;
    wire.say(SERVER, ACK, b"");
    wire.send(SERVER, &answer);
    wire.now += 6_000;
    wire.say(CLIENT, ACK, b"");
    let heard = wire.run();
    let [transaction] = &heard.transactions[..] else { panic!("one transaction") };
    assert_eq!(transaction.outcome, Outcome::Completed);
    assert_eq!(transaction.timing.acknowledged.map(|seen| seen.frame), Some(4));
    // Start frames without private data leave the default (RFC 8166, section 3.3.3).
    assert_eq!(heard.one().call_inline_threshold, Some(1024));
    let [to_responder, to_requester] =
        [heard.one().requester, heard.one().responder].map(|end| (end.round_trips, end.sent.packets));
    assert_eq!(to_responder, (Some(RoundTrips { count: 1, minimum: 30_000, median: 30_000 }), 3));
    assert_eq!(to_requester, (Some(RoundTrips { count: 1, minimum: 7_000, median: 7_000 }), 3));
    let bytes = |message: &[u8]| (20 + 20 + message.len().next_multiple_of(4) + 4) as u64;
    assert_eq!(
        (heard.one().requester.sent.bytes, heard.one().responder.sent.bytes),
        (bytes(&call), bytes(&answer))
    );
    assert_eq!((heard.one().requester.sent.sends, heard.one().requester.sent.acknowledgements), (1, 1));
    assert_eq!(
        heard.roles,
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
    let heard = wire.run();
    let acknowledged = |it: &Transaction| (it.xid.0, it.timing.acknowledged.map(|seen| seen.frame));
    assert_eq!(heard.transactions.iter().map(acknowledged).collect::<Vec<_>>(), [(1, None), (2, Some(5))]);
    assert_eq!(heard.one().requester.round_trips, None);
}

/// A segment may have the end of one message and the beginning of the next. It is reported once for
/// each.
#[test]
fn segments_of_several_messages() {
    let mut wire = Wire::connected([40_000, 20_049], [b"", b""]);
    let [first, second] = [1, 2].map(|xid| wire.fpdu(CLIENT, &getattr(xid).0));
    let begins = wire.next;
    let (front, rest) = second.split_at(20);
    wire.say(CLIENT, ACK, &[&first, front].concat());
    wire.say(CLIENT, ACK, rest);
    wire.say(SERVER, ACK, b"");
    let replies = [1, 2].map(|xid| wire.fpdu(SERVER, &getattr(xid).1));
    wire.say(SERVER, ACK, &replies.concat());
    wire.say(CLIENT, ACK, b"");
    // The second half again: it belongs only to the second message.
    wire.next[CLIENT] = wire.next[CLIENT].wrapping_sub(rest.len() as u32);
    wire.say(CLIENT, ACK, rest);
    let heard = wire.run();
    assert_eq!(
        heard.roles,
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
    assert_eq!(heard.places[..3], places);
    let of_replies = heard.places.iter().filter(|(frame, _)| *frame == 6).map(|(_, place)| *place);
    assert_eq!(of_replies.collect::<Vec<_>>(), [7_000 + 20, 7_000 + 20 + replies[0].len() as u32]);
}

/// If other checksums are correct, a wrong one is meaningful: the receiver drops the segment.
#[test]
fn damaged_segments() {
    let (call, answer) = getattr(1);
    let mut wire = Wire::connected([40_000, 20_049], [b"", b""]);
    wire.damage = 1;
    wire.send(CLIENT, &call);
    (wire.damage, wire.numbers[CLIENT]) = (0, 1);
    wire.next[CLIENT] = wire.next[CLIENT].wrapping_sub(24 + call.len().next_multiple_of(4) as u32);
    wire.send(CLIENT, &call);
    wire.send(SERVER, &answer);
    let heard = wire.run();
    let requester = heard.one().requester;
    assert_eq!((requester.sent.bad_icrc, requester.sent.packets, requester.sent.repeated_packets), (1, 2, 0));
    assert_eq!((requester.first_frames.bad_icrc, requester.first_frames.sound), (Some(3), Some(1)));
    assert_eq!(heard.transactions[0].outcome, Outcome::Completed);
    // If no checksum is correct, wrong ones are meaningless.
    let mut wire = Wire::new([40_000, 20_049]);
    wire.damage = 1;
    wire.send(CLIENT, &call);
    wire.send(SERVER, &answer);
    let heard = wire.run();
    assert_eq!((heard.one().requester.sent.packets, heard.one().requester.first_frames.sound), (1, None));
    assert_eq!(heard.transactions.len(), 1);
}

/// RFC 9293, section 3.6: a connection is closed by FINs of both ends, or by a RST.
#[test]
fn how_it_ends() {
    for (segments, is_closed) in [
        (&[(CLIENT, FIN | ACK)][..], false),
        (&[(CLIENT, FIN | ACK), (SERVER, ACK)], false),
        (&[(CLIENT, FIN | ACK), (SERVER, FIN | ACK)], true),
        (&[(SERVER, FIN | ACK), (SERVER, ACK), (CLIENT, FIN | ACK), (SERVER, ACK)], true),
        (&[(SERVER, RST)], true),
    ] {
        let mut wire = Wire::connected([40_000, 20_049], [b"", b""]);
        segments.iter().for_each(|(from, flags)| wire.say(*from, *flags, b""));
        let heard = wire.run();
        assert_eq!(heard.one().state == State::Closed, is_closed, "{segments:?}");
        // A closing segment is reported once for each end; a reset is reported once.
        let told = heard.announced.iter().filter(|line| line.ends_with("FIN") || line.ends_with("RST"));
        let expected = segments.iter().zip(3..).filter(|((_, flags), _)| flags & (FIN | RST) != 0);
        let line = |((from, flags), frame): (&(usize, u8), u64)| {
            let name = if flags & RST != 0 { "RST" } else { "FIN" };
            format!("{} #{frame} {name}", ["first", "second"][*from])
        };
        assert!(told.eq(&expected.map(line).collect::<Vec<_>>()), "{:?}", heard.announced);
    }
}

/// Segments of iWARP, of another connection, and copies.
#[test]
fn segments_are_counted() {
    let mut wire = Wire::new([40_000, 20_049]);
    wire.say(CLIENT, SYN, b"");
    wire.say(SERVER, SYN | ACK, b"");
    wire.say(CLIENT, ACK, &start(CLIENT, 0, 1, b""));
    wire.say(SERVER, ACK, &start(SERVER, 0, 1, b""));
    wire.send(CLIENT, &getattr(1).0);
    // The same packet again at once: a copy.
    wire.packets.push(wire.packets[4].clone());
    wire.damage = 1;
    wire.say(SERVER, ACK, b"");
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
fn a_request_without_a_reply() {
    let asks = || {
        let mut wire = Wire::new([40_000, 20_049]);
        wire.say(CLIENT, ACK, &start(CLIENT, 0, 1, b""));
        wire.say(SERVER, ACK, b"");
        wire
    };
    let closed = |mut wire: Wire, flags: u8| {
        wire.say(CLIENT, flags | ACK, b"");
        wire.say(SERVER, FIN | ACK, b"");
        wire.run().one().state
    };
    assert_eq!(asks().run().one().state, State::Requested);
    assert_eq!(closed(asks(), FIN), State::Requested);
    assert_eq!(closed(asks(), RST), State::Requested);
    // The closing segments show whether the other end had sent anything, even if the capture lacks
    // it.
    let silences = |lacks: u32, closes: &[(usize, u8, &[u8])]| {
        let mut wire = asks();
        wire.next[SERVER] += lacks;
        closes.iter().for_each(|(from, flags, payload)| wire.say(*from, flags | ACK, payload));
        wire.run().silences
    };
    assert_eq!(silences(0, &[(CLIENT, FIN, b""), (SERVER, FIN, b"")]), [true, true]);
    assert_eq!(silences(0, &[(SERVER, FIN, b""), (CLIENT, FIN, b"")]), [true, true]);
    assert_eq!(silences(0, &[(SERVER, RST, b"")]), [true]);
    assert_eq!(silences(20, &[(CLIENT, FIN, b""), (SERVER, FIN, b"")]), [false, false]);
    assert_eq!(silences(20, &[(SERVER, RST, b"")]), [false]);
    assert_eq!(silences(0, &[(SERVER, FIN, b"no start frame")]), [false]);
    let used_again = |mut wire: Wire| {
        wire.say(CLIENT, SYN, b"");
        wire.run().one().state
    };
    assert_eq!(used_again(asks()), State::Requested);
    for from in [CLIENT, SERVER] {
        let mut wire = asks();
        // The capture lacks the reply.
        wire.next[SERVER] += 20;
        wire.send(from, &getattr(1).0);
        assert_eq!(wire.run().one().state, State::Open);
        assert_eq!(closed(wire, FIN), State::Closed);
    }
    let mut rejected = asks();
    rejected.say(SERVER, ACK, &start(SERVER, 0x20, 1, b""));
    assert_eq!(used_again(rejected), State::Refused);
}

/// The ports are reused, after a SYN, or, if the capture lacks it, with start frames at other
/// positions.
#[test]
fn ports_that_were_used_before() {
    let (call, answer) = getattr(1);
    let both = |wire: &mut Wire| {
        wire.numbers = [1; 2];
        wire.say(CLIENT, ACK, &start(CLIENT, 0, 1, b""));
        wire.say(SERVER, ACK, &start(SERVER, 0, 1, b""));
        wire.send(CLIENT, &call);
        wire.send(SERVER, &answer);
    };
    for with_syn in [false, true] {
        for from in [[900, 90_000], [4_000_000_000, 9]] {
            let mut wire = Wire::new([40_000, 20_049]);
            both(&mut wire);
            wire.next = from;
            if with_syn {
                wire.say(CLIENT, SYN, b"");
                wire.say(SERVER, SYN | ACK, b"");
            }
            both(&mut wire);
            let heard = wire.run();
            let states: Vec<_> =
                heard.connections.iter().map(|it| (it.state, it.requester.sent.sends)).collect();
            assert_eq!(states, [(State::Closed, 1), (State::Open, 1)], "{with_syn} {from:?}");
            assert_eq!(
                heard.connections[1].requester.start.map(|it| it.frame_number),
                Some(if with_syn { 7 } else { 5 })
            );
            assert_eq!(heard.transactions.len(), 2);
            // A SYN belongs to no iWARP connection: neither to the one that it ends, nor to the
            // next, which begins with its start frame.
            let others = if with_syn { 2 } else { 0 };
            assert_eq!((heard.totals.segments, heard.totals.others), (8, others));
        }
    }
    // Retransmitted start frames begin no connection.
    let mut wire = Wire::connected([40_000, 20_049], [b"", b""]);
    let next = wire.next;
    wire.next = next.map(|next| next.wrapping_sub(20));
    wire.say(CLIENT, ACK, &start(CLIENT, 0, 1, b""));
    wire.say(SERVER, ACK, &start(SERVER, 0, 1, b""));
    assert_eq!(wire.next, next);
    let heard = wire.run();
    let repeated = [heard.one().requester, heard.one().responder].map(|end| end.sent.repeated_packets);
    assert_eq!(repeated, [1, 1]);
    assert_eq!(heard.announced.len(), 4);
}
