//! Captures with a snap length.

use super::{Kind, SECOND, SessionEvent, events, events_of, events_within, testkit};
use rdmascope_dissector::record::Time;
use rdmascope_testkit::messages::getattr;
use rdmascope_testkit::world::World;
use rdmascope_tests::samples;

/// A snap length of 96 cuts the program of calls, but not their type. The capture lacks the setup of the
/// connection.
#[test]
fn snap_length_hides_no_outage() {
    let mut world = World::new();
    for xid in 1..4 {
        world.getattr(xid);
    }
    world.send(testkit::CLIENT, &getattr(4).0);
    world.ack(testkit::SERVER);
    world.wait(10 * SECOND);
    let mut back = world.clone();
    world.ack(testkit::SERVER);
    back.send(testkit::SERVER, &getattr(4).1);
    for (world, kind) in [(&world, "end"), (&back, "reply")] {
        let whole = events_of(world);
        let cut = events_within(world, 96);
        let lost = |events: &[SessionEvent]| -> Vec<_> {
            let lost = events.iter().filter(|event| event.kind == Kind::ServiceLost);
            lost.map(|event| (event.time, event.duration, event.frames)).collect()
        };
        assert_eq!(lost(&whole).len(), 1, "{kind}");
        assert_eq!(lost(&cut), lost(&whole), "{kind}: {cut:#?}");
    }
}

/// The first captured call may be a callback. Its wait is no loss of service.
#[test]
fn snap_length_makes_no_callback_an_outage() {
    let mut world = World::new();
    world.send(testkit::SERVER, &getattr(900).0);
    world.ack(testkit::CLIENT);
    for xid in 1..4 {
        world.getattr(xid);
        world.wait(2 * SECOND);
    }
    world.ack(testkit::CLIENT);
    let cut = events_within(&world, 96);
    assert!(cut.iter().all(|event| event.kind != Kind::ServiceLost), "{cut:#?}");
}

/// A snap length may cut the headers of all messages. An outage needs more than connections that are
/// closed and made again. A refused SYN shows a part of one.
#[test]
fn unreadable_replies_are_replies() {
    for sample in ["iwarp-reconnect", "iwarp-scripted"] {
        let capture = samples::capture(sample);
        let whole: Vec<_> = lost_in(&events(&capture));
        for snap_length in 54..160 {
            let mut cut = capture.clone();
            cut.packets.iter_mut().for_each(|packet| packet.data.truncate(snap_length));
            let found = events(&cut);
            let lost = lost_in(&found);
            let is_known = |lost: &Lost| whole.iter().any(|known| known.0 <= lost.0 && lost.1 <= known.1);
            assert!(lost.iter().all(is_known), "{sample} {snap_length}: {found:#?}");
        }
    }
}

/// The start and the end of a time without service.
type Lost = (Time, Time);

fn lost_in(events: &[SessionEvent]) -> Vec<Lost> {
    let lost = events.iter().filter(|event| event.kind == Kind::ServiceLost);
    lost.map(|event| (event.time, event.time.plus(event.duration.unwrap_or(0)))).collect()
}
