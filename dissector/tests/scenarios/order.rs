//! Reordering in the capture: swapped neighbours yield the same transactions.

use crate::loss::{assert_session, session};
use crate::report::*;
use rdmascope_dissector::transaction::Outcome;
use rdmascope_testkit::messages::*;
use rdmascope_testkit::world::*;

/// Runs the capture with frames `index` and `index + 1` swapped, for each index from `start` on.
fn swaps(world: &World, start: usize) -> impl Iterator<Item = (usize, Report)> + '_ {
    (start..world.frames.len() - 1).map(|index| {
        let mut frames = world.frames.clone();
        let (first, second) = (frames[index].time, frames[index + 1].time);
        frames.swap(index, index + 1);
        (frames[index].time, frames[index + 1].time) = (first, second);
        (index, run(&frames))
    })
}

/// The contents of the transactions, without their times.
fn gist(report: &Report) -> Vec<String> {
    let mut all: Vec<_> = report
        .transactions
        .iter()
        .map(|each| {
            let mut each = each.clone();
            each.number = 0;
            each.timing.reads = None;
            each.timing.writes = None;
            each.timing.acknowledged = None;
            each.timing.round_trip = 0;
            (each.timing.busy_before, each.timing.busy_after) = (0, 0);
            for message in [&mut each.call, &mut each.reply].into_iter().flatten() {
                message.seen.frame = 0;
                message.seen.time.0 = 0;
                message.first = message.seen;
            }
            if let Some(done) = &mut each.done {
                done.frame = 0;
                done.time.0 = 0;
            }
            format!("{each:?}")
        })
        .collect();
    all.sort();
    all
}

#[test]
fn swapped_neighbours_give_same_session() {
    let mut world = World::connected();
    session(&mut world);
    let straight = gist(&world.run());
    for (index, report) in swaps(&world, 0) {
        assert_session(&report);
        assert_eq!(gist(&report), straight, "frames {index} and its neighbour");
    }
}

#[test]
fn swapped_neighbours_without_acks_give_same_transactions() {
    // Every answer follows its request directly.
    let mut world = World::connected();
    let mut call = nomsg(1);
    let (pulled, pushed) = (segment(7, 500, 0x1000), segment(8, 500, 0x2000));
    call.reads = vec![read_segment(0, pulled)];
    call.writes = vec![vec![pushed]];
    let mut long = nfs3(1, 6, "'handle' h0 500");
    long.resize(500, 0);
    world.send(CLIENT, &message(&call, &[]));
    world.read(SERVER, pulled, &long);
    world.write(SERVER, pushed, &data(500));
    let mut answer = msg(1);
    answer.writes = vec![vec![pushed]];
    world.send(SERVER, &message(&answer, &reply(1, "0 0 500 1 500")));
    for xid in 2..6 {
        world.getattr_without_acks(xid);
    }
    let straight = world.run();
    straight.transactions.iter().for_each(assert_complete);
    let straight = gist(&straight);
    for (index, report) in swaps(&world, 3) {
        assert_eq!(gist(&report), straight, "frames {index} and its neighbour");
    }
}

/// The end of a call is captured after the RDMA READ that it permits and after the responses: all
/// of them wait for the call.
#[test]
fn call_may_end_after_its_rdma_read() {
    let mut world = World::connected();
    let target = segment(7, 600, 0x1000);
    let mut call = msg(1);
    call.reads = vec![read_segment(CALL_HEADER + 12 + 8 + 4 + 4 + 4, target)];
    let mut payload = nfs3(1, 7, "'handle' h0 600 2 600");
    payload.resize(400, 0);
    let frames = world.send(CLIENT, &message(&call, &payload));
    let read = world.read(SERVER, target, &data(600));
    let last = world.frames.remove(frames.end - 1);
    world.frames.insert(read.end - 1, Frame { time: world.now, ..last });
    world.wait(1_000);
    world.send(SERVER, &message(&msg(1), &reply(1, "0 0 0 600 2 #8")));
    let report = world.run();
    let write = report.one();
    assert_eq!((write.timing.requested_bytes, write.timing.read_bytes), (600, 600));
    assert_eq!(write.call.as_ref().unwrap().missing, []);
    let connection = &report.connections[0];
    assert_eq!(
        [connection.requester.sent, connection.responder.sent].map(|it| it.unmatched_placements),
        [0, 0]
    );
}

/// A reply proves that its call and all packets before it arrived, so missing packets before the
/// call are given up (IBTA volume 1, section 9.7.5: in order).
#[test]
fn reply_releases_call_held_after_gap() {
    let mut world = World::connected();
    world.send(CLIENT, &getattr(1).0);
    let lost = world.send(CLIENT, &getattr(2).0);
    world.send(CLIENT, &getattr(3).0);
    world.send(SERVER, &getattr(3).1);
    world.wait(3_000_000);
    world.send(CLIENT, &getattr(4).0);
    let report = world.run_without(lost);
    assert_complete(report.xid(3));
    assert_eq!((report.xid(3).outcome, report.xid(3).call.is_some()), (Outcome::Completed, true));
    assert_eq!(report.connections[0].requester.sent.missing_packets, 1);
    assert_eq!(report.xid(1).outcome, Outcome::CutOff);
}

#[test]
fn lagging_half_flow_gives_same_session() {
    // The capture has the client's packets 2 to 20 packets late, then the server's.
    let mut world = World::connected();
    session(&mut world);
    let straight = gist(&world.run());
    for late in [CLIENT, SERVER] {
        for lag in [2, 5, 20] {
            let mut order: Vec<(usize, &Frame)> = world.frames.iter().enumerate().collect();
            order.sort_by_key(|(index, frame)| {
                let shift = if frame.from == late && *index > 2 { lag } else { 0 };
                (index + shift, *index)
            });
            let mut now = world.frames[0].time;
            let frames: Vec<Frame> = order
                .into_iter()
                .map(|(_, frame)| {
                    now += 1_000;
                    Frame { time: now, ..frame.clone() }
                })
                .collect();
            let report = run(&frames);
            assert_session(&report);
            assert_eq!(gist(&report), straight, "end {late} lags {lag}");
        }
    }
}

#[test]
fn swapped_neighbours_in_midstream_give_same_transactions() {
    let mut world = World::new();
    world.getattr(9);
    let start = world.frames.len();
    session(&mut world);
    let straight = gist(&world.run());
    for (index, report) in swaps(&world, start) {
        assert_eq!(gist(&report), straight, "frames {index} and its neighbour");
    }
}

#[test]
fn same_capture_gives_same_events() {
    let mut world = World::connected();
    session(&mut world);
    assert_eq!(format!("{:?}", world.run()), format!("{:?}", world.run()));
}
