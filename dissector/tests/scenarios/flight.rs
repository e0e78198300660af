//! The time in which a reply may have waited for the network: data of the responder was in flight,
//! or data of the requester had to be sent again.

use crate::report::*;
use rdmascope_testkit::messages::*;
use rdmascope_testkit::world::*;
use rdmascope_wire::rpcrdma::Segment;
use std::ops::Range;

/// The round trip to each end, in nanoseconds: each ACK follows at once.
const ROUND_TRIP: u64 = 1_000;

const ARGUMENTS: Segment = segment(7, 4_000, 0x1000);

/// A WRITE whose data the server reads.
fn write_call(xid: u32) -> Vec<u8> {
    let mut header = msg(xid);
    header.reads.push(read_segment(144, ARGUMENTS));
    message(&header, &nfs3(xid, 7, "'handle' h0 4000 2 4000"))
}

/// Nanoseconds from one frame to another.
fn between(world: &World, from: usize, to: usize) -> u64 {
    u64::try_from(world.frames[to].time - world.frames[from].time).unwrap()
}

fn busy(world: &World, xid: u32) -> [u64; 2] {
    let timing = world.run().xid(xid).timing;
    [timing.busy_before, timing.busy_after]
}

/// Calls 1 and 2, an acknowledgement of both, and the reply to call 2. Returns the frames of the
/// reply.
fn two_calls(world: &mut World) -> Range<usize> {
    world.send(CLIENT, &getattr(1).0);
    world.send(CLIENT, &getattr(2).0);
    world.ack(SERVER);
    world.wait(10_000);
    let reply = world.send(SERVER, &getattr(2).1);
    world.wait(100_000);
    reply
}

fn reply_to_the_first(world: &mut World) {
    world.wait(50_000);
    world.send(SERVER, &getattr(1).1);
}

#[test]
fn reply_may_wait_for_data_of_another_call() {
    let mut world = World::connected();
    let other = two_calls(&mut world);
    let ack = world.frames.len();
    world.ack(CLIENT);
    reply_to_the_first(&mut world);
    assert_eq!(busy(&world, 1), [between(&world, other.start, ack) + ROUND_TRIP, 0]);
    assert_eq!(busy(&world, 2), [0, 0], "its own packets are no wait");
    // Without the packets of the other reply, nothing was in flight.
    let alone = world.run_without(other);
    assert_eq!(alone.xid(1).timing.busy_before, 0);
}

#[test]
fn reply_may_wait_for_rdma_reads_of_another_call() {
    let mut world = World::connected();
    world.send(CLIENT, &getattr(1).0);
    world.send(CLIENT, &write_call(2));
    world.ack(SERVER);
    world.wait(10_000);
    let asked = world.frames.len();
    let psn = world.read_request(SERVER, ARGUMENTS, 4_000);
    world.wait(100_000);
    let answers = world.read_response(CLIENT, psn, &data(4_000));
    reply_to_the_first(&mut world);
    assert_eq!(busy(&world, 1), [between(&world, asked, answers.end - 1) + ROUND_TRIP, 0]);
}

#[test]
fn busy_time_after_rdma_operations_is_separate() {
    let mut world = World::connected();
    world.send(CLIENT, &getattr(1).0);
    world.send(CLIENT, &write_call(2));
    world.ack(SERVER);
    world.read(SERVER, ARGUMENTS, &data(4_000));
    world.wait(10_000);
    let other = world.send(SERVER, &getattr(1).1);
    world.wait(100_000);
    let ack = world.frames.len();
    world.ack(CLIENT);
    world.wait(10_000);
    world.send(SERVER, &message(&msg(2), &reply(2, "0 0 0 4000 2 h0")));
    // After the RDMA Reads, and after the ACK.
    assert_eq!(busy(&world, 2), [0, between(&world, other.start, ack) + 2 * ROUND_TRIP]);
}

/// The ACK was lost after the capture point, so the responder waited for it.
#[test]
fn retransmission_shows_that_responder_waited() {
    let mut world = World::connected();
    let other = two_calls(&mut world);
    world.ack(CLIENT);
    world.wait(500_000);
    let again = world.frames.len();
    world.again(other.clone());
    reply_to_the_first(&mut world);
    assert_eq!(busy(&world, 1), [between(&world, other.start, again) + ROUND_TRIP, 0]);
}

/// The call was lost after the capture point, so the responder cannot have worked on it.
#[test]
fn time_until_call_is_retransmitted_counts_as_busy() {
    let mut world = World::connected();
    let call = world.send(CLIENT, &getattr(1).0);
    world.wait(500_000);
    let again = world.frames.len();
    world.again(call.clone());
    reply_to_the_first(&mut world);
    assert_eq!(busy(&world, 1), [between(&world, call.start, again), 0]);
}

/// Packets that the capture lacks may have been in flight since the last acknowledgement.
#[test]
fn missing_packets_count_as_in_flight_since_last_ack() {
    let mut world = World::connected();
    world.send(CLIENT, &getattr(7).0);
    world.send(SERVER, &getattr(7).1);
    let idle = world.frames.len();
    world.ack(CLIENT);
    world.send(CLIENT, &getattr(3).0);
    let other = two_calls(&mut world);
    let next = world.send(SERVER, &getattr(3).1);
    let ack = world.frames.len();
    world.ack(CLIENT);
    // Reordering can no longer fill the gap.
    world.wait(3_000_000);
    world.ack(CLIENT);
    let released = world.frames.len() - 1;
    reply_to_the_first(&mut world);
    let found = world.run_without(other);
    let shown = found.xid(1).timing.busy_before;
    assert!(shown >= between(&world, next.start, ack), "{shown}");
    assert_eq!(shown, between(&world, idle, released) + ROUND_TRIP);
}

/// The receiver dropped the packet, so its data had to be sent again.
#[test]
fn damaged_packet_is_in_flight_until_retransmission_is_acked() {
    let mut world = World::connected();
    let other = two_calls(&mut world);
    let again = world.frames.len();
    world.again(other.clone());
    let ack = world.frames.len();
    world.ack(CLIENT);
    reply_to_the_first(&mut world);
    assert!(again < ack);
    let last = world.frames[other.start].data.len() - 1;
    world.frames[other.start].data[last] ^= 1;
    assert_eq!(busy(&world, 1), [between(&world, other.start, ack) + ROUND_TRIP, 0]);
}
