//! Outages as `rdmascope live` reports them.

use super::{Kind, SECOND, testkit, with_repeated_reply};
use rdmascope_analysis::events::Open;
use rdmascope_analysis::live::{Happening, Happenings};
use rdmascope_analysis::observer::Observer as _;
use rdmascope_dissector::engine::Engine;
use rdmascope_dissector::record::{LinkType, Record, Tap, Time};
use rdmascope_testkit::world::World;

/// The outages reported at the end of each second, and at the end.
fn reported(world: &World) -> Vec<Happening> {
    let mut all = all_reported(world);
    all.retain(|happening| happening.event.kind == Kind::ServiceLost);
    all
}

fn all_reported(world: &World) -> Vec<Happening> {
    let mut happenings = Happenings::default();
    let mut engine = Engine::new(happenings.needs());
    let mut all = Vec::new();
    let mut due = world.frames[0].time + SECOND;
    for (number, frame) in (1..).zip(&world.frames) {
        while frame.time >= due {
            let open = Open::new(engine.connections(), engine.open_transactions());
            all.extend(happenings.take(&open, Time(due), false));
            due += SECOND;
        }
        let (time, link, data) = (Time(frame.time), LinkType::ETHERNET, frame.data.as_slice());
        let original_length = data.len() as u32;
        let record = Record { number, time, link, original_length, dropped: 0, tap: Tap::default(), data };
        engine.handle(&record, &mut |event| happenings.handle(&event));
    }
    engine.finish(&mut |event| happenings.handle(&event));
    all.extend(happenings.take(&Open::default(), Time(due), true));
    all
}

/// The next connection shows that a reply, before the server closed the connection, was lost.
#[test]
fn an_outage_that_began_earlier_is_the_same_one() {
    let (mut world, since) = with_repeated_reply(4, SECOND);
    world.disconnect(testkit::SERVER);
    world.add([0x1000, 0], [7, 0]);
    world.req();
    world.wait(8 * SECOND);
    world.add([0x2000, 0x2001], [9, 9]);
    world.connect();
    world.getattr(2);
    for round in 0..2 {
        let reports = reported(&world);
        let [first, .., last] = reports.as_slice() else { panic!("{reports:#?}") };
        assert!(!first.is_again && reports[1..].iter().all(|one| one.is_again), "{reports:#?}");
        assert!(first.event.time.0 > since + 3 * SECOND, "{reports:#?}");
        let length = last.event.duration.expect("it is known") as i64;
        assert!((last.event.time.0 - since).abs() < SECOND / 100, "round {round}: {reports:#?}");
        assert!((length - 12 * SECOND).abs() < SECOND / 10, "{reports:#?}");
        // It is also reported if the capture continues.
        world.wait(3 * SECOND);
        world.getattr(3);
    }
}

/// The answers to the REQs are lost. How often they were sent is reported when the connection is made.
#[test]
fn repeated_requests_are_reported_once() {
    let mut world = World::new();
    for _ in 0..4 {
        world.req();
        world.rep();
        world.wait(4 * SECOND);
    }
    world.rtu();
    world.getattr(1);
    world.wait(3 * SECOND);
    world.getattr(2);
    let reports = all_reported(&world);
    let of_setup = |one: &&Happening| one.event.kind != Kind::ServiceLost;
    let texts: Vec<&str> = reports.iter().filter(of_setup).map(|one| one.event.text.as_str()).collect();
    assert_eq!(
        texts,
        ["connected, in 16.0s", "client sent its REQ 4 times in 12.0s, answered before the last one"]
    );
}
