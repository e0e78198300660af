//! Data that [`BulkCut`] omits, and copies of shortened packets.

use crate::report::*;
use rdmascope_dissector::bulk::BulkCut;
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::frame;
use rdmascope_dissector::record::{Record, Tap};
use rdmascope_testkit::messages::*;
use rdmascope_testkit::world::*;

/// The number of copies that an engine counts in these records.
fn copies<'a>(records: impl Iterator<Item = Record<'a>>) -> u64 {
    let mut engine = Engine::new(Config::default());
    records.for_each(|record| engine.handle(&record, &mut |_| {}));
    engine.totals().copies
}

/// Two responses to one READ have the same headers but different data, from a host that sets no
/// Identification. Two taps show both. Without their data the two look equal, so only one of them
/// may be shortened.
#[test]
fn only_one_of_two_similar_responses_is_shortened() {
    let mut world = World::connected();
    let chunk = segment(7, 100, 0x1000);
    let mut call = msg(1);
    call.reads.push(read_segment(CALL_HEADER + 32, chunk));
    world.send(CLIENT, &message(&call, &nfs3(1, 7, "'handle' h0 100 2 100")));
    let psn = world.read_request(SERVER, chunk, 100);
    let [one, other] = [1, 2].map(|byte| world.read_response(CLIENT, psn, &[byte; 100]).start);
    let mut frames: Vec<Frame> = world.frames.iter().map(|frame| frame.numbered(0, frame.time)).collect();
    let responses = frames.split_off(one);
    let mut taps = vec![Tap::default(); one];
    for (tap, of, later) in [(0, one, 0), (0, other, 20_000), (1, one, 25_000), (1, other, 45_000)] {
        frames.push(Frame { time: world.now + later, ..responses[of - one].clone() });
        taps.push(Tap { file: 0, interface: tap });
    }
    let records = (1..)
        .zip(frames.iter().zip(taps))
        .map(|(number, (frame, tap))| Record { tap, ..record(frame, number) });

    let mut bulk = BulkCut::new(frame::Config::default());
    let kept: Vec<usize> = records.clone().map(|record| bulk.kept(&record)).collect();
    let in_short = records.clone().zip(&kept).map(|(it, kept)| Record { data: &it.data[..*kept], ..it });
    assert_eq!((copies(records.clone()), copies(in_short)), (2, 2));
    let is_shortened = |(record, kept): (Record<'_>, &usize)| *kept < record.data.len();
    let shortened: Vec<bool> = records.clone().zip(&kept).map(is_shortened).collect();
    assert_eq!(shortened[one..], [true, false, true, false]);
    assert!(!shortened[..one].contains(&true));
}
