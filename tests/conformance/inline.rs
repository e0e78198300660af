//! Inline thresholds.

use crate::{By, Trigger, shown};
use rdmascope_tests::mutate::{self, CLIENT, EXTENSION, attribute, opcode};
use rdmascope_tests::pcap::Capture;
use rdmascope_tests::samples;

pub(crate) const TRIGGERS: &[Trigger] = &[Trigger {
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
        call.set_behind_bth(&longer);
    },
    // What makes it longer follows its arguments.
    also: &["rpc-arguments"],
    shows: shown(By::Requester, &[4], "1028 bytes", "1024 bytes"),
}];

/// A session at a path MTU of 4096 whose inline thresholds are 1024 bytes.
pub(crate) fn without_private_data() -> Capture {
    let mut capture = samples::capture("nfs4.2-mtu4096-large-io");
    mutate::each(&mut capture, |packet| match packet.cm_attribute() {
        // In a REQ it is behind the 36 bytes of the RDMA-CM IP header.
        Some(attribute::REQ) => packet.cm_body()[140 + 36..140 + 44].fill(0),
        Some(attribute::REP) => packet.cm_body()[36..44].fill(0),
        // Who says nothing has not set R, so nobody may invalidate remotely either.
        _ => mutate::invalidate_nothing(packet),
    });
    capture
}
