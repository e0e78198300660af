//! Whether the capture shows what a host sends to another: where it does not, silence of that host is no evidence.

use crate::speech::*;
use crate::world::*;
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::observation::{Observation, Observe, Observed};
use rdmascope_dissector::record::{LinkType, Record, Time};

/// By connection: which of its hosts were heard.
fn heard(frames: &[Frame]) -> Vec<[bool; 2]> {
    let mut engine = Engine::new(Config { observe: Observe::All, ..Config::default() });
    let mut heard = Vec::new();
    let mut take = |event: Event<'_>| {
        if let Event::Observation(Observation { what: Observed::Ending(ending), .. }) = event {
            heard.push(ending.heard);
        }
    };
    for (number, frame) in (1..).zip(frames) {
        let record = Record {
            number,
            time: Time(frame.time),
            link: LinkType::ETHERNET,
            original_length: frame.data.len() as u32,
            dropped: 0,
            tap: Default::default(),
            data: &frame.data,
        };
        engine.handle(&record, &mut take);
    }
    engine.finish(&mut take);
    heard
}

#[test]
fn a_cm_message_is_heard() {
    let mut world = World::connected();
    world.send(CLIENT, &getattr(1).0);
    assert_eq!(heard(&world.frames), [[true, true]], "the server sent a REP");
    // Without it, the calls and the REQ are told of apart: nothing shows that they belong together.
    world.frames.retain(|frame| frame.from == CLIENT);
    assert_eq!(heard(&world.frames), [[true, false]; 2]);
}
