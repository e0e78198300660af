//! A complete capture, anonymized.

use crate::capture_engine::records;
use crate::driver;
use rdmascope_dissector::engine::Engine;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::frame::{self, IcrcVerdict};
use rdmascope_dissector::record::Record;
use rdmascope_present::anonymize::{Anonymizer, Key};

/// Anonymizes the bytes as a classic pcap file. Each record is replaced by one of the same length,
/// with the same headers and the same ICRC verdict.
pub fn anonymize(data: &[u8]) {
    let key = Key::new(b"a key for the fuzzer").expect("it is long enough");
    let config = frame::Config::default();
    let mut anonymizer = Anonymizer::new(key, config);
    let mut engine = Engine::new(Anonymizer::first_pass());
    for record in records(data) {
        driver::handle(&mut engine, &record, &mut |event| anonymizer.learn(&event));
    }
    driver::finish(&mut engine, &mut |event| anonymizer.learn(&event));
    let mut engine = Engine::new(Anonymizer::second_pass());
    for record in records(data) {
        let mut count = 0;
        driver::handle(&mut engine, &record, &mut |event| {
            let is_packet = matches!(event, Event::Packet(_));
            let replaced = anonymizer.handle(&event);
            assert_eq!(replaced.is_some(), is_packet);
            if let Some(replaced) = replaced {
                count += 1;
                assert_eq!(replaced.data.len(), record.data.len());
                compare(&record, &replaced, &config);
            }
        });
        assert_eq!(count, 1);
    }
}

fn compare(old: &Record<'_>, new: &Record<'_>, config: &frame::Config) {
    let headers = |record: &Record<'_>| {
        let mut headers = Vec::new();
        let frame =
            frame::dissect_reporting(record, config, &mut |header, range| headers.push((header, range)));
        let of = frame
            .ok()
            .map(|frame| (frame.icrc == IcrcVerdict::Bad, frame.transport.len(), frame.transport_length));
        (headers, of)
    };
    let ((old, one), (new, other)) = (headers(old), headers(new));
    // The zeros that replace an incomplete header may form a complete one.
    match one {
        Some(_) => assert_eq!((old, one), (new, other)),
        None => assert!(new.starts_with(&old)),
    }
}
