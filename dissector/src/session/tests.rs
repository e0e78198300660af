//! Tests of sessions: memory bounds and other protocols.

use super::*;
use crate::connection::{CapturePoint, RoundTrips};
use crate::exchange::Keep;
use crate::observation::Observe;
use crate::protocol::Protocol;
use crate::rc::Extension;
use crate::role::Role;
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use rdmascope_wire::Rkey;
use rdmascope_wire::bth::{Aeth, Operation, Reth, Syndrome};

/// Creates a connection with two known half-flows.
fn paired() -> Session {
    let addresses = [1, 2].map(|host: u32| Address::V4(Ipv4Addr::from(host)));
    let mut session = Session::new(1, 0, addresses, Time(0), 0);
    session.peers.paired = true;
    session
}

fn packet(frame: u64, operation: Operation, psn: u32, extension: Extension, payload: &[u8]) -> Packet<'_> {
    let seen = Seen { frame, time: Time(0) };
    let payload_length = payload.len() as u32;
    Packet { seen, operation, psn: Psn::new(psn), extension, payload, payload_length }
}

/// XID, version 1, credits, RDMA_MSG, no chunks; XID, CALL.
fn call(xid: u32) -> Vec<u8> {
    [xid, 1, 32, 0, 0, 0, 0, xid, 0].into_iter().flat_map(u32::to_be_bytes).collect()
}

/// Up to 16 MiB for the steps of all connections, each connection keeps thousands of steps; above
/// that, 32 per end. Then the first of 40 calls is forgotten, and its ACK is not reported.
#[test]
fn steps_per_end_are_limited_above_total_budget() {
    for (attributed, remembered) in [(16 << 20, true), ((16 << 20) + 1, false)] {
        let mut session = paired();
        session.peers.speaks_rpc = Some(true);
        let mut transactions = Transactions::new(Keep::default(), Observe::Nothing, true);
        let mut acknowledgements = Vec::new();
        let mut report = |event: Event<'_>| {
            if let Event::Attributed(it) = event
                && let Some(Role::Acknowledgement(of)) = it.role
            {
                acknowledgements.push((it.seen.frame, of.begun));
            }
        };
        for number in 1..=40 {
            transactions.attributed = attributed;
            let bytes = call(number);
            let packet = packet(number.into(), Operation::SendOnly, 10 + number, Extension::None, &bytes);
            session.handle(End::First, &packet, &mut transactions, &mut report);
        }
        transactions.attributed = attributed;
        let aeth = Extension::Aeth(Aeth { syndrome: Syndrome(0x1f), message_sequence_number: 0 });
        let ack = packet(41, Operation::Acknowledge, 11, aeth, &[]);
        session.handle(End::Second, &ack, &mut transactions, &mut report);
        assert_eq!(acknowledgements, Vec::from_iter(remembered.then_some((41, 1))), "{attributed}");
    }
}

/// RDMA Writes of another protocol are bulk. While the protocol is unknown, they may be needed.
#[test]
fn rdma_writes_of_other_protocols_are_bulk() {
    for (protocol, bytes) in [(None, 0), (Some(Protocol::NvmeOf), 100)] {
        let mut session = paired();
        session.peers.protocol = protocol;
        let mut transactions = Transactions::default();
        let reth = Reth { virtual_address: 0x1000, rkey: Rkey(7), dma_length: 100 };
        // After the first 64 packets, in which the protocol may become known.
        session.ends[End::Second].counts.packets = 64;
        let write = packet(65, Operation::WriteOnly, 10, Extension::Reth(reth), &[7; 100]);
        session.handle(End::Second, &write, &mut transactions, &mut |_| {});
        assert_eq!(transactions.bulk_of(65), bytes, "{protocol:?}");
        assert_eq!(session.ends[End::Second].counts.unmatched_placements, 1);
    }
}

/// At most one packet in a hundred may be a retransmission, and each end needs 32 Sends with an ACK
/// of their own.
#[test]
fn capture_point_requires_many_sends_and_few_retransmissions() {
    let mut session = paired();
    Transactions::default().number(&mut session.peers);
    let mut connection = session.summary();
    let trips = |count, time| Some(RoundTrips { count, minimum: time, median: time });
    for (count, packets, repeated, found) in
        [(32, 500, [3, 2], true), (32, 500, [3, 3], false), (32, 0, [0, 0], true), (31, 500, [0, 0], false)]
    {
        connection.requester.round_trips = trips(count, 20_000);
        connection.responder.round_trips = trips(count + 1, 1_000);
        connection.requester.sent.packets = packets;
        connection.requester.sent.repeated_packets = repeated[0];
        connection.responder.sent.repeated_packets = repeated[1];
        // ACKs of the requester arrive sooner.
        assert_eq!(connection.capture_point(), found.then_some(CapturePoint::Requester), "{repeated:?}");
    }
}
