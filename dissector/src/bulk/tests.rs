use super::*;
use crate::record::{LinkType, Time};
use alloc::vec::Vec;
use rdmascope_wire::mpa::StartFrame;

/// The table of copies also has the first segment of a connection, as in an engine that reads the
/// kept records.
#[test]
fn first_segment_is_in_table_of_copies() {
    let mut packet: Vec<u8> = vec![0x45, 0, 0, 60, 0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    // Ports 700 and 20049, sequence number 1, ACK of 1, no options.
    packet.extend([0x02, 0xbc, 0x4e, 0x51, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
    packet.extend(StartFrame::REQUEST);
    packet.extend([0, 1, 0, 0]);
    let record = Record {
        number: 1,
        time: Time(0),
        link: LinkType::IPV4,
        original_length: 60,
        dropped: 0,
        tap: Default::default(),
        data: &packet,
    };
    let mut bulk = BulkCut::new(frame::Config::default());
    assert_eq!(bulk.kept(&record), packet.len());
    let Err(Other::Tcp(segment)) = frame::dissect(&record, &bulk.config) else { panic!("a segment") };
    let seen = Seen { frame: 2, time: Time(1_000) };
    assert!(bulk.copies.holds(Sighting::of_segment(&segment, seen, record.tap())));
}
