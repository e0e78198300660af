//! Triggers and tests of inline thresholds.

use crate::{By, Trigger, iwarp, shown};
use rdmascope_tests::mutate::{self, CLIENT, EXTENSION, attribute, opcode};
use rdmascope_tests::pcap::Capture;
use rdmascope_tests::samples;
use rdmascope_tests::segments::Segment;
use rdmascope_wire::ddp::Untagged;
use rdmascope_wire::mpa;

pub(crate) const TRIGGERS: &[Trigger] = &[OF_CM, OF_START_FRAMES];

const OF_CM: Trigger = Trigger {
    rule: "inline-threshold",
    alteration: "neither end sends private data, and a call is made 1028 bytes long",
    control: without_private_data,
    alter: |capture| {
        let call = capture.packets.iter_mut().find(|packet| {
            packet.is_rc() && packet.opcode() == opcode::SEND_ONLY && packet.source() == CLIENT
        });
        let call = call.expect("the client calls");
        let payload = call.payload();
        let mut longer = call.data[EXTENSION..payload.end].to_vec();
        longer.resize(1028, 0);
        call.set_after_bth(&longer);
    },
    // The added bytes follow the arguments.
    also: &["rpc-arguments"],
    shows: shown(By::Requester, &[4], "1028 bytes", "1024 bytes"),
};

const OF_START_FRAMES: Trigger = Trigger {
    rule: "inline-threshold",
    alteration: "both MPA start frames name sizes of 1024 bytes, and a call is made 1028 bytes long",
    control: of_small_sizes,
    alter: |capture| {
        const HEADERS: usize = mpa::LENGTH_FIELD + Untagged::LENGTH;
        let call = iwarp::last_send(capture, iwarp::CLIENT);
        let mut segment = Segment::of(call).expect("it is complete");
        segment.payload.truncate(segment.payload.len() - mpa::CRC_LENGTH);
        segment.payload.resize(HEADERS + 1028 + mpa::CRC_LENGTH, 0);
        segment.payload[..mpa::LENGTH_FIELD].copy_from_slice(&(1028 + Untagged::LENGTH as u16).to_be_bytes());
        segment.put(call);
    },
    // The added bytes follow the arguments.
    also: &["rpc-arguments"],
    shows: shown(By::Requester, &[1737], "1028 bytes", "1024 bytes"),
};

/// A session over iWARP whose private data sets inline thresholds of 1024 bytes.
fn of_small_sizes() -> Capture {
    let mut capture = samples::capture("iwarp-nfs3");
    for end in [iwarp::CLIENT, iwarp::SERVER] {
        // The private data ends with two sizes; 0 means 1024 bytes (RFC 8797, section 4.2).
        let [.., send, receive] = iwarp::start_frame(&mut capture, end) else {
            panic!("it has private data")
        };
        (*send, *receive) = (0, 0);
    }
    capture
}

/// A session at a path MTU of 4096 without private data, so that the inline thresholds are 1024
/// bytes.
pub(crate) fn without_private_data() -> Capture {
    let mut capture = samples::capture("nfs4.2-mtu4096-large-io");
    mutate::each(&mut capture, |packet| match packet.cm_attribute() {
        // In a REQ it follows the RDMA-CM IP header of 36 bytes.
        Some(attribute::REQ) => packet.cm_body()[140 + 36..140 + 44].fill(0),
        Some(attribute::REP) => packet.cm_body()[36..44].fill(0),
        // An end without private data has not set R, so remote invalidation is not allowed either.
        _ => mutate::invalidate_nothing(packet),
    });
    capture
}
