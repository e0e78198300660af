//! A session seen at two capture points: the bytes select the packets, the points that see each
//! packet, the times, and the clocks.

use crate::bytes::Bytes;
use crate::driver;
use crate::engine::{Frame, frames};
use rdmascope_analysis::capture_points::{CapturePoints, EndToEnd, Sample, Tally};
use rdmascope_analysis::observer::Observer;
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::exchange::Keep;
use rdmascope_dissector::frame::{self, Other};
use rdmascope_dissector::observation::Observe;
use rdmascope_dissector::record::{Record, Tap, Time};
use rdmascope_present::json;
use rdmascope_present::page;
use rdmascope_present::text::Style;

/// Reads the first bytes as choices for the capture points, and the others as the session. Each
/// transaction is split, or counted as one that cannot be split.
pub fn places(data: &[u8]) {
    const CHOICES: usize = 96;
    let (choices, session) = data.split_at(data.len().min(CHOICES));
    let frames = frames(session);
    let shown = shown(choices, &frames);
    let samples = shown.iter().zip(["first", "second"]).map(|(shown, name)| (name.to_owned(), sample(shown)));
    let Ok(places) = CapturePoints::tie(samples.collect()) else { return };
    let mut records: Vec<(Time, u32, &Frame)> = Vec::new();
    for (place, shown) in shown.iter().enumerate() {
        let clock = places.places[place].tie.as_ref().map(|tie| tie.clock());
        records.extend(shown.iter().map(|(time, frame)| {
            (clock.as_ref().map_or(*time, |clock| clock.convert(*time)), place as u32, *frame)
        }));
    }
    records.sort_by_key(|(time, place, _)| (*time, *place));

    let config = Config {
        observe: Observe::Events,
        report_packets: true,
        keep: Keep { steps: true, contents: false },
        capture_points_apart: Some(places.apart()),
        ..Config::default()
    };
    let mut engine = Engine::new(config);
    let mut end_to_end = EndToEnd::new(Tally::new(places, vec![0, 1]));
    let mut transactions = 0;
    let mut take = |event: Event<'_>| {
        transactions += u64::from(matches!(event, Event::Transaction(_)));
        end_to_end.handle(&event);
    };
    for (number, (time, place, frame)) in (1..).zip(&records) {
        let record = frame.record(number);
        let record = Record { time: *time, tap: Tap { file: *place, ..record.tap }, ..record };
        driver::handle(&mut engine, &record, &mut take);
    }
    driver::finish(&mut engine, &mut take);
    end_to_end.finish();

    let counted: u64 = end_to_end.splits.by_time().iter().map(|(_, sum)| sum.count + sum.unknown).sum();
    assert_eq!(counted, transactions, "each transaction is split or counted");
    for way in end_to_end.tally.ways() {
        let times = way.times();
        assert_eq!(times.is_some(), way.packets > 0);
        assert!(times.is_none_or(|times| times.is_sorted()), "{times:?}");
        for located in [&way.lost, &way.damaged, &way.doubled, &way.reordered, &way.unseen] {
            assert!(located.frames.len() as u64 <= located.count);
        }
    }
    page::capture_points::Text(&end_to_end)
        .write(Style::new(false), &mut Vec::new())
        .expect("a vector takes it");
    json::write_places(&end_to_end, &mut Vec::new()).expect("a vector takes it");
}

/// The packets of each capture point, in the order of its clock.
fn shown<'a>(choices: &[u8], frames: &'a [Frame]) -> [Vec<(Time, &'a Frame)>; 2] {
    let mut bytes = Bytes(choices);
    let offset = bytes.choose(&[0, 1_000, 7_200_000_000_000, -3_600_000_000_000, i64::MAX / 2, i64::MIN / 2]);
    // In parts of a million.
    let rate = i64::from(bytes.u8() as i8);
    let ways = [bytes.u8(), bytes.u8()].map(|way| i64::from(way) * 1_000);
    let mut places = [Vec::new(), Vec::new()];
    for (index, frame) in frames.iter().enumerate() {
        let Time(sent) = frame.record(0).time;
        let choice =
            choices.get(4 + index % choices.len().max(5).saturating_sub(4)).copied().unwrap_or_default();
        let way = ways[usize::from(choice & 1)] + i64::from(choice >> 4) * 500;
        let arrival = sent.saturating_add(way);
        let second = arrival.saturating_add(offset).saturating_add(arrival / 1_000_000 * rate);
        // One in four is seen at only one point.
        let lacks = (choice & 0b110 == 0b110).then_some(choice >> 3 & 1);
        for (place, at) in [(0, sent), (1, second)] {
            if lacks != Some(place) {
                places[usize::from(place)].push((Time(at), frame));
            }
        }
    }
    places.iter_mut().for_each(|shown| shown.sort_by_key(|(time, _)| *time));
    places
}

fn sample(shown: &[(Time, &Frame)]) -> Sample {
    let mut sample = Sample::default();
    for (time, frame) in shown {
        match frame::dissect(&frame.record(0), &frame::Config::default()) {
            Ok(frame) => sample.frame(&frame, *time),
            Err(Other::Tcp(segment)) => sample.segment(&segment, *time),
            Err(_) => {}
        }
    }
    sample
}
