//! Totals of a capture, and packets with a bad ICRC: they are ignored if other packets show that
//! ICRCs were computed.

use crate::report::*;
use rdmascope_dissector::connection::State;
use rdmascope_dissector::engine::{Config, Engine, Totals};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::observation::{Observation, Observe, Observed};
use rdmascope_dissector::protocol::Traffic;
use rdmascope_dissector::record::{LinkType, Record, Time};
use rdmascope_dissector::transaction::Outcome;
use rdmascope_testkit::messages::*;
use rdmascope_testkit::world::*;
use rdmascope_wire::bth::Extensions;
use rdmascope_wire::psn::Psn;
use rdmascope_wire::rpcrdma::Segment;

/// The offsets of the IP header and of the BTH in a frame.
const IP: usize = 14;
const BTH: usize = IP + 20 + 8;

fn spoil(frame: &mut Frame) {
    let last = frame.data.len() - 1;
    frame.data[last] ^= 0xff;
}

fn totals(records: &[(LinkType, u32, Vec<u8>)]) -> Totals {
    let mut engine = Engine::new(Config::default());
    for (number, (link, cut, data)) in (1..).zip(records) {
        let record = Record {
            number,
            // Every second record has an earlier time stamp than the one before.
            time: Time(1_000 + (number as i64 ^ 1) * 10),
            link: *link,
            original_length: data.len() as u32 + cut,
            dropped: 0,
            tap: Default::default(),
            data,
        };
        engine.handle(&record, &mut |_| {});
    }
    engine.finish(&mut |_| {});
    *engine.totals()
}

#[test]
fn totals_count_each_kind_of_record() {
    let mut world = World::connected();
    let (call, answer) = getattr(1);
    world.send(CLIENT, &call);
    world.send(SERVER, &answer);
    let end = world.end(CLIENT).psn;
    let nothing = Extensions::default();
    // Two CNPs, and three packets of an unreliable connection.
    (0..2).for_each(|_| world.packet(SERVER, 0x81, end, nothing, &[0; 16]));
    (0..3).for_each(|_| world.packet(SERVER, 0x24, end, nothing, &call));
    for _ in 0..4 {
        world.send(CLIENT, &getattr(2).0);
        world.frames.last_mut().map(spoil);
    }
    let mut records: Vec<_> =
        world.frames.iter().map(|frame| (LinkType::ETHERNET, 0, frame.data.clone())).collect();
    let good = world.frames[3].data.clone();
    // A copy of the same packet.
    records.push((LinkType::ETHERNET, 0, good.clone()));
    let mut fragment = good.clone();
    fragment[IP + 6] |= 0x20;
    let mut arp = good.clone();
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    records.extend((0..5).map(|_| (LinkType::ETHERNET, 0, fragment.clone())));
    records.extend((0..6).map(|_| (LinkType::ETHERNET, 0, arp.clone())));
    records.extend((0..7).map(|_| (LinkType(147), 0, good.clone())));
    records.extend((0..8).map(|_| (LinkType::ETHERNET, 300, good[..BTH + 4].to_vec())));
    let found = totals(&records);

    let count = records.len() as u64;
    let bytes = records.iter().map(|(_, cut, data)| u64::from(*cut) + data.len() as u64);
    assert_eq!((found.records, found.bytes), (count, bytes.sum()));
    assert_eq!(found.span, Some((Time(1_000), Time(1_000 + (count as i64 | 1) * 10))));
    let packets = world.frames.len() as u64 + 1;
    assert_eq!((found.packets, found.native_packets, found.copies), (packets, 0, 1));
    assert_eq!(found.icrc, [packets - 4, 4, 0]);
    assert_eq!((found.fragments, found.others, found.unknown_link, found.stops), (5, 6, 7, 8));
    assert_eq!(found.cut_records, 8);
    assert_eq!((found.cm_messages, found.congestion_notifications, found.other_transports), (3, 2, 3));
    assert_eq!((found.connections, found.evictions), (1, 0));
    assert_eq!(found.transactions.iter().sum::<u64>(), 1);
}

#[test]
fn packets_with_bad_icrc_are_ignored() {
    let mut world = World::connected();
    world.getattr_without_acks(1);
    world.frames.last_mut().map(spoil);
    world.disconnect(CLIENT);
    world.frames.iter_mut().rev().take(2).for_each(spoil);
    world.add([0x33, 0x44], [700_000, 9_000]);
    world.send(CLIENT, &getattr(2).0);
    world.frames.last_mut().map(spoil);
    let report = world.run();
    let [connection] = &report.connections[..] else { panic!("{:?}", report.connections) };
    assert_eq!(connection.state, State::Open, "a dropped DREQ must not close the connection");
    assert_eq!(report.one().outcome, Outcome::CutOff, "a dropped reply must not complete the call");
    let ends = [&connection.requester, &connection.responder];
    assert_eq!(ends.map(|end| end.sent.bad_icrc), [0, 1]);
    assert_eq!(ends.map(|end| end.first_frames.bad_icrc), [None, Some(5)]);
    assert_eq!(ends.map(|end| end.first_frames.sound), [Some(4), None]);
}

#[test]
fn icrcs_are_ignored_if_none_is_good() {
    let mut world = World::connected();
    world.getattr_without_acks(1);
    world.frames.iter_mut().for_each(spoil);
    let report = world.run();
    assert_complete(report.one());
    let [connection] = &report.connections[..] else { panic!("{:?}", report.connections) };
    let ends = [&connection.requester, &connection.responder];
    assert_eq!(ends.map(|end| end.sent.bad_icrc), [0, 0]);
    assert_eq!(ends.map(|end| end.first_frames.sound), [None, None]);
    assert_eq!(report.totals.icrc, [0, 5, 0]);
}

/// Payload padded to words, packets of one message, RDMA Writes and their bytes.
#[test]
fn bytes_are_counted_per_end() {
    let mut world = World::connected();
    let segment = segment(7, 700, 0x1000);
    let mut call = msg(1);
    call.writes = vec![vec![segment]];
    let call = message(&call, &nfs3(1, 6, "'handle' h0 700"));
    let answer = message(&msg(1), &reply(1, "0 0 700 1 700"));
    world.send(CLIENT, &call);
    world.write(SERVER, Segment { length: 300, ..segment }, &data(300));
    world.write(SERVER, Segment { offset: 0x112c, length: 400, ..segment }, &data(400));
    world.send(SERVER, &answer);
    world.ack(CLIENT);
    let connection = world.run().connections[0].clone();
    let [client, server] = [connection.requester.sent, connection.responder.sent];
    assert_eq!((client.bytes, client.packets, client.written_bytes), (call.len() as u64, 2, 0));
    assert_eq!((server.bytes, server.packets), (700 + answer.len() as u64, 5));
    assert_eq!((server.writes, server.written_bytes), (2, 700));
}

/// Packets that the capture dropped may belong to any connection and to either end. Each connection
/// notes them with its next packet.
#[test]
fn dropped_packets_are_reported_for_both_ends() {
    let mut world = World::connected();
    world.getattr_without_acks(1);
    let lost = |dropped: [u32; 5]| {
        let mut engine = Engine::new(Config { observe: Observe::All, ..Config::default() });
        let mut reports = Vec::new();
        let mut take = |event: Event<'_>| {
            if let Event::Observation(Observation { kind: Observed::Missing(missing), .. }) = event {
                reports.push((missing.from as usize, missing.packets));
            }
        };
        for ((number, frame), dropped) in (1..).zip(&world.frames).zip(dropped) {
            let record = Record {
                number,
                time: Time(frame.time),
                link: LinkType::ETHERNET,
                original_length: frame.data.len() as u32,
                dropped,
                tap: Default::default(),
                data: &frame.data,
            };
            engine.handle(&record, &mut take);
        }
        engine.finish(&mut take);
        reports
    };
    assert_eq!(lost([0; 5]), []);
    // Drops before its first packet do not affect a connection.
    assert_eq!(lost([9, 0, 0, 0, 0]), []);
    assert_eq!(lost([0, 0, 0, 3, 0]), [(0, 3), (1, 3)]);
    assert_eq!(lost([0, 0, 0, 3, 2]), [(0, 3), (1, 3), (0, 2), (1, 2)]);
}

/// A call without a reply has a capture gap if the capture may have dropped the reply.
#[test]
fn dropped_packets_give_unanswered_call_a_capture_gap() {
    let mut world = World::connected();
    world.send(CLIENT, &getattr(1).0);
    world.ack(SERVER);
    for dropped in [0, 3] {
        let mut engine = Engine::new(Config::default());
        let mut gaps = Vec::new();
        let mut take = |event: Event<'_>| {
            if let Event::Transaction(transaction) = event {
                gaps.push((transaction.outcome, transaction.capture_gap));
            }
        };
        for (number, frame) in (1..).zip(&world.frames) {
            let record = Record { dropped: if number == 5 { dropped } else { 0 }, ..record(frame, number) };
            engine.handle(&record, &mut take);
        }
        engine.finish(&mut take);
        assert_eq!(gaps, [(Outcome::CutOff, dropped > 0)]);
    }
}

/// READs of memory that was not advertised are counted, however many packets their responses have.
#[test]
fn reads_of_unadvertised_memory_are_unmatched() {
    let mut world = World::connected();
    world.send(CLIENT, &getattr(1).0);
    world.send(SERVER, &getattr(1).1);
    world.read(SERVER, segment(9, 600, 0x1000), &data(600));
    world.read(SERVER, segment(9, 10, 0x1000), &data(10));
    world.wait(3_000_000);
    world.send(CLIENT, &getattr(2).0);
    world.send(SERVER, &getattr(2).1);
    let connection = world.run().connections[0].clone();
    let ends = [&connection.requester, &connection.responder];
    assert_eq!(ends.map(|end| end.sent.unmatched_placements), [2, 0]);
    assert_eq!(ends.map(|end| (end.sent.read_requests, end.sent.read_response_bytes)), [(0, 610), (2, 0)]);
}

/// The same packet after an LRH (IBTA volume 1, section 7.7), with a variant CRC at its end; and
/// UDP to the port of NFS.
#[test]
fn native_packets_and_named_traffic_are_counted() {
    let mut world = World::connected();
    world.send(CLIENT, &getattr(1).0);
    let roce = &world.frames[3].data;
    let transport = &roce[BTH..];
    let words = ((8 + transport.len()) / 4) as u16;
    // Virtual lane 0; service level 0, IBA local; from LID 6 to LID 5.
    let lrh = [&[0x00, 0x02, 0, 5][..], &words.to_be_bytes(), &[0, 6]].concat();
    let native = [&lrh[..], transport, &[0; 2]].concat();
    let mut nfs = roce.clone();
    nfs[IP + 22..IP + 24].copy_from_slice(&2049u16.to_be_bytes());
    let mut records = vec![(LinkType::ETHERNET, 0, roce.clone()), (LinkType::INFINIBAND, 0, native)];
    records.extend((0..3).map(|_| (LinkType::ETHERNET, 0, nfs.clone())));
    let found = totals(&records);
    assert_eq!((found.packets, found.native_packets, found.others), (2, 1, 3));
    assert_eq!(found.traffic.iter().collect::<Vec<_>>(), [(Traffic::Nfs, 3)]);
}

/// Fields of each packet event: connection, protocol, and no stream contents, which only TCP has.
#[test]
fn packet_events_show_connection_and_protocol() {
    let mut world = World::connected();
    world.send(CLIENT, &getattr(1).0);
    world.add([0x33, 0x44], [700_000, 9_000]);
    world.packet(CLIENT, 0x04, Psn::new(700_000), Extensions::default(), &[0xaa; 64]);
    world.packet(CLIENT, 0x81, Psn::new(0), Extensions::default(), &[0; 16]);
    let mut engine = Engine::new(Config { report_packets: true, ..Config::default() });
    let mut packets = Vec::new();
    for (number, frame) in (1..).zip(&world.frames) {
        let record = record(frame, number);
        engine.handle(&record, &mut |event| {
            if let Event::Packet(packet) = event {
                packets.push((packet.of_connection, packet.speaks_rpc, packet.contents.is_some()));
            }
        });
    }
    // REQ, REP, RTU and call; a Send of another protocol; a CNP.
    let rpc = (true, true, false);
    assert_eq!(packets, [rpc, rpc, rpc, rpc, (true, false, false), (false, false, false)]);
}

#[test]
fn each_congestion_mark_is_counted() {
    let mut world = World::new();
    world.getattr_without_acks(1);
    let bare = world.run().connections[0].clone();
    assert_eq!([&bare.requester, &bare.responder].map(|end| end.sent.congestion_marks), [0, 0]);
    // ECT(0) is no mark, "congestion experienced" is. FECN and BECN are the highest bits after the
    // partition key.
    for (at, bits, marks) in [(IP + 1, 2, 0), (IP + 1, 3, 1), (BTH + 4, 0x80, 1), (BTH + 4, 0x40, 1)] {
        let mut marked = world.frames.clone();
        marked[0].data[at] |= bits;
        let connection = run(&marked).connections[0].clone();
        let ends = [&connection.requester, &connection.responder];
        assert_eq!(ends.map(|end| end.sent.congestion_marks), [marks, 0], "{at} {bits:#x}");
        assert_eq!(connection.requester.sent.bad_icrc, 0, "the ICRC does not cover these bits");
    }
}
