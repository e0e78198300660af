//! One frame: the first byte selects the link type, the next ones how the capture truncated it.

use crate::bytes::Bytes;
use rdmascope_dissector::frame::{self, Config};
use rdmascope_dissector::record::{LinkType, Record, Time};
use rdmascope_wire::bth::Bth;

/// The supported link types, and an unsupported one.
pub(crate) const LINKS: [LinkType; 12] = [
    LinkType::ETHERNET,
    LinkType::RAW,
    LinkType::LINUX_SLL,
    LinkType::LINUX_SLL2,
    LinkType::INFINIBAND,
    LinkType::ERF,
    LinkType::NULL,
    LinkType::LOOP,
    LinkType::IPV4,
    LinkType::IPV6,
    LinkType(12),
    LinkType(105),
];

/// Finds the transport packet in a frame.
pub fn frame(data: &[u8]) {
    let mut bytes = Bytes(data);
    let link = bytes.choose(&LINKS);
    let (how, cut) = (bytes.u8(), usize::from(bytes.u8()));
    let complete = bytes.0;
    // Complete, cut to some length, or with a wrong original length.
    let (kept, original) = match how & 3 {
        0 | 1 => (complete.len(), complete.len() as u32),
        2 => (cut.min(complete.len()), complete.len() as u32),
        _ => (complete.len(), u32::from_be_bytes([0, how, cut as u8, 0])),
    };
    let config =
        Config { port: if how & 4 == 0 { 4791 } else { 0 }, vxlan_port: None, verify_icrc: how & 8 == 0 };
    let record = Record {
        number: 1,
        time: Time(0),
        link,
        original_length: original,
        dropped: 0,
        tap: Default::default(),
        data: &complete[..kept],
    };
    if let Ok(frame) = frame::dissect(&record, &config) {
        assert!(frame.transport.len() >= Bth::LENGTH);
        assert!(frame.transport.len() as u64 <= u64::from(frame.transport_length));
        let _ = (frame.source.to_string(), frame.destination.to_string());
    }
}
