//! Bounded tables: evictions are events, and no memory is sized by a length in a header.

use crate::report::*;
use rdmascope_dissector::connection::State;
use rdmascope_dissector::event::Eviction;
use rdmascope_dissector::transaction::{Direction, Outcome, Part};
use rdmascope_testkit::messages::*;
use rdmascope_testkit::world::*;
use rdmascope_wire::rpcrdma::Segment;
use rdmascope_wire::{Qpn, Xid};
use std::time::{Duration, Instant};

#[test]
fn oldest_outstanding_calls_are_evicted() {
    let mut world = World::connected();
    for xid in 0..20_000 {
        world.send(CLIENT, &getattr(xid).0);
    }
    for xid in 0..20_000 {
        world.send(SERVER, &getattr(xid).1);
    }
    let report = world.run();
    // The oldest calls are evicted, so their replies have no call.
    let given_up = report.evictions.len();
    assert!((1..20_000).contains(&given_up));
    for (xid, eviction) in report.evictions.iter().enumerate() {
        let expected = Eviction::Transaction {
            connection: report.connections[0].id,
            direction: Direction::Forward,
            xid: Xid(xid as u32),
        };
        assert_eq!(*eviction, expected);
    }
    assert_eq!(report.totals.evictions, given_up as u64);
    let count = |outcome| report.transactions.iter().filter(|each| each.outcome == outcome).count();
    assert_eq!(count(Outcome::NoReply), given_up);
    assert_eq!(count(Outcome::NoCall), given_up);
    assert_eq!(count(Outcome::Completed), 20_000 - given_up);
}

#[test]
fn half_flows_beyond_the_limit_are_evicted() {
    let mut world = World::new();
    for qpn in 0..80_000 {
        world.connections[0][CLIENT].qpn = Qpn(0x10_0000 + qpn);
        world.connections[0][SERVER].qpn = Qpn(0x20_0000 + qpn);
        world.send(CLIENT, &getattr(qpn).0);
    }
    let report = world.run();
    assert_eq!(report.transactions.len(), 80_000);
    assert_eq!(report.connections.len(), 80_000);
    let given_up = report.evictions.iter().filter(|each| matches!(each, Eviction::Connection(_))).count();
    // From 512 connections on, the first packets of flows are held, up to 65,536.
    assert_eq!(given_up, 80_000 - 512 - 65_536);
    assert_eq!(report.evictions.len(), given_up);
    assert_eq!(report.totals.connections, 80_000);
}

#[test]
fn closed_connections_cause_no_evictions() {
    let mut world = World::new();
    for qpn in 0..20_000 {
        for (side, end) in world.connections[0].iter_mut().enumerate() {
            end.qpn = Qpn(0x10_0000 * (side as u32 + 1) + qpn);
            end.communication_id.0 += 2;
        }
        world.connect();
        world.disconnect(CLIENT);
        world.wait(1_000_000_000);
    }
    let report = world.run();
    assert_eq!(report.connections.len(), 20_000);
    assert!(report.connections.is_sorted_by_key(|connection| connection.id));
    assert_eq!(report.evictions, [], "closed connections make room by themselves");
}

#[test]
fn closed_connection_ends_after_silence() {
    // Seconds of silence before another packet of the first connection, those before the next
    // connection, and the resulting number of connections.
    for (before, after, connections) in [(0, 1, 2), (0, 9, 2), (9, 9, 2), (0, 11, 3), (9, 11, 3)] {
        let mut world = World::connected();
        world.disconnect(CLIENT);
        let second = 1_000_000_000;
        if before > 0 {
            world.wait(before * second);
            world.ack(SERVER);
        }
        world.wait(after * second);
        world.add([0x33, 0x44], [9_000, 700_000]);
        world.connect();
        // This packet belongs to the first connection if that has not ended.
        world.on = 0;
        world.send(CLIENT, &getattr(7).0);
        let report = world.run();
        assert_eq!(report.connections.len(), connections, "{before} s, {after} s");
        assert_eq!(report.transactions.len(), 1);
    }
}

/// One CM message closes a connection, even if its answer is not in the capture. A repetition
/// changes nothing.
#[test]
fn dreq_alone_closes_connection() {
    for repeated in [0, 1, 2] {
        let mut world = World::connected();
        world.disconnect(CLIENT);
        world.frames.pop();
        let request = world.frames.len() - 1;
        (0..repeated).for_each(|_| world.again(request..request + 1));
        world.wait(11_000_000_000);
        world.add([0x33, 0x44], [9_000, 700_000]);
        world.connect();
        world.on = 0;
        // The first connection has ended, so this begins a third.
        world.send(CLIENT, &getattr(7).0);
        let report = world.run();
        let states: Vec<_> = report.connections.iter().map(|connection| connection.state).collect();
        assert_eq!(states, [State::Closed, State::Open, State::Open], "{repeated}");
    }
}

/// The table has room for 8,192 connections. Ended connections do not count.
#[test]
fn ended_connections_free_their_table_entries() {
    let mut world = World::connected();
    for qpn in 0..4_200 {
        world.add([0x10_0000 + qpn, 0x20_0000 + qpn], [1_000, 500_000]);
        world.connect();
        world.disconnect(CLIENT);
    }
    world.wait(11_000_000_000);
    for qpn in 0..2 {
        world.add([0x30_0000 + qpn, 0x40_0000 + qpn], [1_000, 500_000]);
        world.connect();
    }
    let report = world.run();
    assert_eq!(report.evictions, []);
    assert_eq!((report.connections.len(), report.totals.connections), (4_203, 4_203));
    let open = report.connections.iter().filter(|connection| connection.state == State::Open);
    assert_eq!(open.count(), 3, "the first, and those after the silence");
}

#[test]
fn connection_requests_beyond_the_limit_are_evicted() {
    let mut world = World::new();
    for qpn in 0..80_000 {
        let [client, _] = &mut world.connections[0];
        client.qpn = Qpn(0x10_0000 + qpn);
        client.communication_id.0 += 1;
        world.req();
    }
    let report = world.run();
    assert_eq!(report.connections.len(), 80_000);
    assert_eq!(report.evictions.len(), 80_000 - 512 - 65_536);
}

#[test]
fn message_may_have_2000_segments() {
    let targets: Vec<Segment> = (0..2_000).map(|index| segment(index, 3, u64::from(index) << 12)).collect();
    for as_one_chunk in [true, false] {
        let mut world = World::connected();
        let mut call = msg(1);
        let position = CALL_HEADER + 32;
        let each = |index: usize| if as_one_chunk { position } else { position + 4 * index as u32 };
        call.reads =
            targets.iter().enumerate().map(|(index, target)| read_segment(each(index), *target)).collect();
        world.send(CLIENT, &message(&call, &nfs3(1, 7, "'handle' h0 6000 2 6000")));
        for target in &targets[..1_999] {
            world.read(SERVER, *target, &data(3));
        }
        world.send(SERVER, &message(&msg(1), &reply(1, "0 0 0 6000 2 #8")));
        let report = world.run();
        let write = report.one();
        assert_eq!((write.outcome, write.timing.read_bytes), (Outcome::Completed, 5_997));
        let call = write.call.as_ref().unwrap();
        assert_eq!(call.read_chunks.len(), if as_one_chunk { 1 } else { 2_000 });
        let expected = if as_one_chunk {
            missing(Part::ReadChunk(0), 5_997, 6_000)
        } else {
            missing(Part::ReadChunk(1_999), 0, 3)
        };
        assert_eq!(call.missing, [expected]);
    }
}

#[test]
fn message_full_of_chunks_is_handled_quickly() {
    // 200,000 bytes of Write list: 25,000 chunks without a segment, or 8,000 with one.
    let began = Instant::now();
    for chunk in [vec![], vec![segment(1, 1, 0)]] {
        let mut call = msg(1);
        call.writes = (0..200_000 / (8 + 16 * chunk.len())).map(|_| chunk.clone()).collect();
        let mut world = World::connected();
        let bytes = message(&call, &nfs3(1, 6, "'handle' h0 1"));
        world.send(CLIENT, &bytes);
        let bytes = message(&call, &reply(1, "0 0 1 1 1"));
        world.send(SERVER, &bytes);
        assert_eq!(world.run().one().outcome, Outcome::Completed);
    }
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[test]
fn placement_outside_its_segment_is_unmatched() {
    let mut world = World::connected();
    let mut call = msg(1);
    let chunk = segment(7, 100, 0x1000);
    call.writes = vec![vec![chunk]];
    world.send(CLIENT, &message(&call, &nfs3(1, 6, "'handle' h0 100")));
    for offset in [u64::MAX, u64::MAX - 50, 0, 1 << 63] {
        world.write(SERVER, segment(7, 100, offset), &data(100));
    }
    // Begins inside and continues past the end: the first packet counts up to the end, the others
    // match no memory. They are one RDMA Write.
    world.write(SERVER, chunk, &data(1_000));
    let report = world.run();
    assert_eq!(report.one().timing.written_bytes, 100);
    assert_eq!(report.connections[0].responder.sent.unmatched_placements, 4 + 1);
}

#[test]
fn bytes_at_end_of_4_gib_reply_chunk_are_evicted() {
    let chunk = segment(7, u32::MAX, 0x1000);
    let mut world = World::connected();
    let mut call = msg(1);
    call.reply = Some(vec![chunk, segment(8, u32::MAX, 0), segment(9, u32::MAX, u64::MAX - 10)]);
    world.send(CLIENT, &message(&call, &nfs3(1, 16, "'dir' h0 #8 4096")));
    world.write(SERVER, segment(7, 0, 0x1000 + u64::from(u32::MAX) - 300), &data(300));
    world.write(SERVER, segment(8, 0, 0), &data(300));
    world.write(SERVER, segment(9, 0, u64::MAX - 10), &data(300));
    let mut answer = nomsg(1);
    answer.reply = call.reply.clone();
    world.send(SERVER, &message(&answer, &[]));
    let report = world.run();
    let readdir = report.one();
    assert_eq!(readdir.outcome, Outcome::Completed);
    let reply = readdir.reply.as_ref().unwrap();
    assert_eq!(reply.message_length, Some(3 * u64::from(u32::MAX)));
    assert_eq!(reply.missing[0], missing(Part::ReplyChunk, 0, u64::from(u32::MAX) - 300));
    let gathered = Eviction::Gathered { xid: Xid(1), part: Part::ReplyChunk };
    assert!(!report.evictions.is_empty());
    assert!(report.evictions.iter().all(|each| *each == gathered), "omitted bytes are reported");
}

#[test]
fn many_long_replies_stay_within_budget() {
    let mut world = World::connected();
    let count = 40;
    for xid in 0..count {
        let mut call = msg(xid);
        call.reply = Some(vec![segment(xid, 2 << 20, 0)]);
        world.send(CLIENT, &message(&call, &nfs3(xid, 16, "'dir' h0 #8 4096")));
        world.write(SERVER, segment(xid, 0, (2 << 20) - 100), &data(100));
    }
    let report = world.run();
    let given_up = report.evictions.len();
    assert!((1..count as usize).contains(&given_up), "{given_up}");
    assert!(report.transactions.iter().all(|each| each.timing.written_bytes == 100));
}
