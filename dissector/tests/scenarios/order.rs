//! Captures reorder: neighbours change places, and the transactions are the same.

use crate::loss::{assert_session, session};
use crate::speech::*;
use crate::world::*;

/// Runs the capture with frames `index` and `index + 1` in each other's place, for each index from `start` on.
fn swaps(world: &World, start: usize) -> impl Iterator<Item = (usize, Report)> + '_ {
    (start..world.frames.len() - 1).map(|index| {
        let mut frames = world.frames.clone();
        let (first, second) = (frames[index].time, frames[index + 1].time);
        frames.swap(index, index + 1);
        (frames[index].time, frames[index + 1].time) = (first, second);
        (index, run(&frames))
    })
}

/// What a transaction says, apart from when.
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
fn neighbours_of_a_session_change_places() {
    let mut world = World::connected();
    session(&mut world);
    let straight = gist(&world.run());
    for (index, report) in swaps(&world, 0) {
        assert_session(&report);
        assert_eq!(gist(&report), straight, "frames {index} and its neighbour");
    }
}

#[test]
fn neighbours_change_places_where_nothing_is_acknowledged() {
    // Every answer stands right behind what it answers.
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
        let (call, answer) = getattr(xid);
        world.send(CLIENT, &call);
        world.send(SERVER, &answer);
    }
    let straight = world.run();
    straight.transactions.iter().for_each(assert_whole);
    let straight = gist(&straight);
    for (index, report) in swaps(&world, 3) {
        assert_eq!(gist(&report), straight, "frames {index} and its neighbour");
    }
}

#[test]
fn one_half_flow_lags_behind_the_other() {
    // The capture shows what the client sent 20 packets late, then what the server sent.
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
fn a_session_captured_from_the_middle_on_changes_places() {
    let mut world = World::new();
    let (call, answer) = getattr(9);
    world.send(CLIENT, &call);
    world.ack(SERVER);
    world.send(SERVER, &answer);
    world.ack(CLIENT);
    let start = world.frames.len();
    session(&mut world);
    let straight = gist(&world.run());
    for (index, report) in swaps(&world, start) {
        assert_eq!(gist(&report), straight, "frames {index} and its neighbour");
    }
}

#[test]
fn the_same_capture_gives_the_same_events() {
    let mut world = World::connected();
    session(&mut world);
    assert_eq!(format!("{:?}", world.run()), format!("{:?}", world.run()));
}
