//! Correct sessions that had certain findings once.

use super::doubt::{SESSION, capture, certain, exchange, whole, with_backchannel};
use super::transport;
use rdmascope_testkit::messages::{
    WRITE_POSITION, compound, data, getattr, message, msg, nfs3, nomsg, read_segment, reply, segment,
};
use rdmascope_testkit::world::{CLIENT, Frame, SERVER, World};
use rdmascope_tests::judged::{findings, line, rule};
use rdmascope_tests::pcap::Capture;
use rdmascope_tests::samples;
use rdmascope_wire::rpcrdma::{Builder, Procedure, Segment};

/// The findings about memory in a capture, certain or not.
fn about_memory(capture: &Capture) -> Vec<String> {
    let found = findings(capture);
    found.iter().filter(|finding| rule(finding).id.starts_with("memory-")).map(line).collect()
}

/// An NFSv3 WRITE whose data is in this memory.
fn write_of(xid: u32, memory: Segment) -> Vec<u8> {
    let length = memory.length;
    let header = Builder { reads: vec![read_segment(WRITE_POSITION, memory)], ..msg(xid) };
    message(&header, &nfs3(xid, 7, &format!("'handle' h0 {length} 2 {length}")))
}

fn written(xid: u32, memory: Segment) -> Vec<u8> {
    message(&msg(xid), &reply(xid, &format!("0 0 0 {} 2 h0", memory.length)))
}

/// An NFSv3 READ into this memory, and its reply.
fn read_into(xid: u32, memory: Segment) -> [Vec<u8>; 2] {
    let length = memory.length;
    let header = || Builder { writes: vec![vec![memory]], ..msg(xid) };
    let results = format!("0 0 {length} 1 {length}");
    [
        message(&header(), &nfs3(xid, 6, &format!("'handle' h0 {length}"))),
        message(&header(), &reply(xid, &results)),
    ]
}

/// A READ whose data go to this memory.
fn read(world: &mut World, xid: u32, memory: Segment) {
    let [call, answer] = read_into(xid, memory);
    world.send(CLIENT, &call);
    world.ack(SERVER);
    world.write(SERVER, memory, &data(memory.length as usize));
    world.send(SERVER, &answer);
    world.ack(CLIENT);
}

/// The same capture with earlier times of the server's packets, by `shift` nanoseconds.
fn with_early_server(world: &World, shift: i64) -> World {
    let mut frames = world.frames.clone();
    // The source address of IPv4 is at byte 26.
    let of_server = |frame: &&mut Frame| frame.data[29] == 2;
    frames.iter_mut().filter(of_server).for_each(|frame| frame.time -= shift);
    frames.sort_by_key(|frame| frame.time);
    World { frames, ..world.clone() }
}

/// A session whose client offers one piece of memory for each reply: for the whole of it, or for its
/// data.
fn with_one_buffer() -> World {
    let mut world = World::connected();
    world.getattr(1);
    for (xid, size) in (2..).zip([2292, 492, 1000, 2000, 488, 848, 1212, 900, 100, 2292]) {
        let memory = |length| segment(7, length, 0x1000);
        if xid % 3 == 0 {
            world.wait(10_000);
            read(&mut world, xid, memory(size));
            continue;
        }
        let answer = reply(xid, &format!("0 0 {size} 1 *{size}"));
        let chunk = |length| Builder { reply: Some(vec![memory(length)]), ..nomsg(xid) };
        let call = nfs3(xid, 6, &format!("'handle' h0 {size}"));
        world.wait(10_000);
        world.send(CLIENT, &message(&Builder { procedure: Procedure::Msg, ..chunk(4000) }, &call));
        world.ack(SERVER);
        world.write(SERVER, memory(answer.len() as u32), &answer);
        world.send(SERVER, &message(&chunk(answer.len() as u32), &[]));
        world.ack(CLIENT);
    }
    world.disconnect(CLIENT);
    world
}

/// The capture shows the packets of the server late, after calls that offer the same memory again, or it
/// lacks such a call.
#[test]
fn operations_on_reused_memory_accuse_no_end() {
    let world = with_one_buffer();
    for microseconds in [0, 1, 2, 5, 8, 10, 11, 12, 13, 14, 20, 50] {
        let late = with_early_server(&world, -1_000 * microseconds);
        assert_eq!(certain(&whole(&late)), [""; 0], "{microseconds} us");
        for lost in 3..late.frames.len() - 4 {
            let capture = capture(&late, |index, frame| (index != lost).then_some(frame.data.len()));
            assert_eq!(certain(&capture), [""; 0], "{microseconds} us, without frame {lost}");
        }
    }
}

/// The capture lacks a call. The next one offers the same memory, with fewer bytes.
#[test]
fn operation_before_its_call_is_not_too_long_for_it() {
    let mut world = World::new();
    let [long, short] = [segment(7, 4000, 0x1000), segment(7, 40, 0x1000)];
    read(&mut world, 1, segment(9, 100, 0x9000));
    world.send(CLIENT, &write_of(2, segment(8, 100, 0x5000)));
    let from = world.frames.len();
    world.send(CLIENT, &read_into(3, long)[0]);
    let to = world.frames.len();
    world.write(SERVER, long, &data(4000));
    world.send(CLIENT, &read_into(4, short)[0]);
    world.wait(10_000);
    world.ack(CLIENT);
    for start in [0, from - 1] {
        let is_there = |index: usize| index >= start && !(from..to).contains(&index);
        let capture = capture(&world, |index, frame| is_there(index).then_some(frame.data.len()));
        assert_eq!(certain(&capture), [""; 0], "from frame {start} on");
    }
}

/// Several calls may offer the same memory to RDMA Reads.
#[test]
fn overlapping_read_chunks_accuse_no_end() {
    let [whole_buffer, part, other] =
        [segment(7, 0x4000, 0x10_0000), segment(7, 0x400, 0x10_0400), segment(8, 0x4000, 0x20_0000)];
    let mut world = World::connected();
    world.getattr(1);
    for (xid, memory) in [(2, whole_buffer), (3, part), (4, other)] {
        world.send(CLIENT, &write_of(xid, memory));
        world.ack(SERVER);
    }
    for offset in (0..0x4000_u32).step_by(0x1000) {
        for memory in [whole_buffer, other] {
            let piece = Segment { offset: memory.offset + u64::from(offset), ..memory };
            world.read(SERVER, piece, &data(0x1000));
            world.wait(3_000_000);
        }
    }
    world.read(SERVER, part, &data(0x400));
    for (xid, memory) in [(2, whole_buffer), (3, part), (4, other)] {
        world.send(SERVER, &written(xid, memory));
        world.ack(CLIENT);
    }
    world.disconnect(CLIENT);
    assert_eq!(about_memory(&whole(&world)), [""; 0]);
}

/// The capture lacks a reply, so memory that was advertised for it remains. The server writes to the
/// memory of two later calls in turns.
#[test]
fn memory_of_a_call_without_a_reply_accuses_no_end() {
    let mut world = World::connected();
    world.getattr(1);
    read(&mut world, 2, segment(7, 0x100, 0x10_0800));
    let lost = world.frames.len() - 2;
    world.wait(1_000_000_000);
    let memories = [segment(7, 0x2000, 0x10_0000), segment(8, 0x2000, 0x20_0000)];
    let [[first, first_answer], [second, second_answer]] =
        [3, 4].map(|xid| read_into(xid, memories[xid as usize - 3]));
    for call in [first, second] {
        world.send(CLIENT, &call);
        world.ack(SERVER);
    }
    for offset in (0..0x2000).step_by(0x400) {
        for memory in memories {
            world.write(SERVER, Segment { offset: memory.offset + offset, ..memory }, &data(0x400));
            world.wait(3_000_000);
        }
    }
    for answer in [first_answer, second_answer] {
        world.send(SERVER, &answer);
        world.ack(CLIENT);
    }
    world.disconnect(CLIENT);
    assert_eq!(about_memory(&whole(&world)), [""; 0]);
    let lacking = capture(&world, |index, frame| (index != lost).then_some(frame.data.len()));
    assert_eq!(about_memory(&lacking), [""; 0]);
}

/// The capture has two requests on a slot in the wrong order.
#[test]
fn reordered_requests_on_a_slot_accuse_no_end() {
    let mut world = with_backchannel();
    let operations = |number: u32| {
        let call = compound(number + 1, &format!("1 53 {SESSION} {number} 0 0 0"));
        let answer = reply(number + 1, &format!("0 '' 1 53 0 {SESSION} {number} 0 0 0 0"));
        [message(&msg(number + 1), &call), message(&msg(number + 1), &answer)]
    };
    let mut calls = Vec::new();
    for number in 1..80 {
        let [call, answer] = operations(number);
        calls.push(world.frames.len());
        exchange(&mut world, CLIENT, (&call, &answer));
    }
    world.disconnect(CLIENT);
    assert_eq!(certain(&whole(&world)), [""; 0]);
    for pair in calls.windows(2) {
        let mut reordered = world.clone();
        let [early, late] = [pair[0], pair[1]].map(|at| reordered.frames[at].time);
        reordered.frames[pair[0]].time = late;
        reordered.frames[pair[1]].time = early;
        let reordered = with_early_server(&reordered, 0);
        assert_eq!(certain(&whole(&reordered)), [""; 0], "{pair:?}");
    }
}

/// A client uses one XID and one piece of memory for all of its calls, with this time in nanoseconds
/// between them.
fn with_one_xid(pause: i64) -> World {
    let mut world = World::connected();
    let memory = segment(7, 0x400, 0x10_0000);
    for round in 0..6 {
        if round % 2 == 0 {
            read(&mut world, 7, memory);
        } else {
            world.getattr(7);
        }
        world.wait(pause);
    }
    world.disconnect(CLIENT);
    world
}

/// A reply whose call the capture lacks is not that of the next call with its XID.
#[test]
fn reused_xid_after_a_lost_call_accuses_no_end() {
    for pause in [0, 10_000, 1_000_000, 200_000_000] {
        let world = with_one_xid(pause);
        assert_eq!(certain(&whole(&world)), [""; 0]);
        for lost in 0..world.frames.len() {
            let lacking = capture(&world, |index, frame| (index != lost).then_some(frame.data.len()));
            assert_eq!(certain(&lacking), [""; 0], "{pause} ns, without frame {lost}");
        }
        for start in 0..world.frames.len() {
            let late = capture(&world, |index, frame| (index >= start).then_some(frame.data.len()));
            assert_eq!(certain(&late), [""; 0], "{pause} ns, from frame {start} on");
        }
    }
}

/// The packets of the server have earlier times than those of the client. A capture that starts with
/// a reply has its call after it, and lacks the RDMA Writes before it.
#[test]
fn start_with_shifted_directions_accuses_no_end() {
    let mut world = World::connected();
    for xid in 2..40 {
        let memory = segment(xid, 0x400, 0x10_0000);
        read(&mut world, xid, memory);
        world.wait(3_000_000);
    }
    world.disconnect(CLIENT);
    for shift in [5_000, 100_000, 300_000, 1_000_000] {
        let shifted = with_early_server(&world, shift);
        for start in 0..shifted.frames.len() {
            let late = capture(&shifted, |index, frame| (index >= start).then_some(frame.data.len()));
            assert_eq!(certain(&late), [""; 0], "{shift} ns, from frame {start} on");
        }
    }
}

/// The directions are shifted by more packets than wait for their calls.
#[test]
fn shift_beyond_64_packets_accuses_no_end() {
    let mut world = World::connected();
    world.getattr(1);
    world.wait(10_000_000);
    for batch in 0..20 {
        let xids = 2 + batch * 16..18 + batch * 16;
        for xid in xids.clone() {
            world.send(CLIENT, &getattr(xid).0);
        }
        world.ack(SERVER);
        for xid in xids {
            world.send(SERVER, &getattr(xid).1);
        }
        world.ack(CLIENT);
    }
    assert_eq!(certain(&whole(&world)), [""; 0]);
    assert_eq!(certain(&whole(&with_early_server(&world, 150_000))), [""; 0]);
}

/// The client refuses an RDMA Read of memory that it advertised. The capture may lack a packet of
/// the WRITE before it.
#[test]
fn refusal_of_advertised_memory_accuses_the_refusing_end() {
    let mut world = World::connected();
    let [finished, refused] = [segment(7, 0xc00, 0x1000), segment(8, 0xc00, 0x1000)];
    for (xid, memory) in [(1, finished), (2, refused)] {
        world.getattr(10 + xid);
        world.send(CLIENT, &write_of(xid, memory));
        world.ack(SERVER);
        if xid == 1 {
            world.read(SERVER, memory, &data(0xc00));
            world.send(SERVER, &written(xid, memory));
            world.ack(CLIENT);
        }
    }
    let psn = world.read_request(SERVER, refused, 0xc00);
    let request = world.frames.len() - 1;
    // A NAK for a remote access error.
    world.respond(CLIENT, psn, 0x62);
    world.disconnect(CLIENT);
    let nothing_before = 3..request;
    for lost in (3..request).map(|at| at..at + 1).chain([nothing_before]) {
        let lacking = capture(&world, |index, frame| (!lost.contains(&index)).then_some(frame.data.len()));
        let refusals = findings(&lacking).into_iter().filter(|finding| rule(finding).id == "refusal-fatal");
        let by: Vec<_> = refusals.map(|finding| finding.by_requester).collect();
        assert!(matches!(by[..], [None | Some(true)]), "without frames {lost:?}: {by:?}");
    }
    // The capture has a packet after others that followed it.
    let last = world.frames.len() - 1;
    for (moved, to) in
        (3..last).flat_map(|moved| (moved + 1..=last.min(moved + 6)).map(move |to| (moved, to)))
    {
        let mut late = world.clone();
        late.frames[moved].time = late.frames[to].time;
        late.frames[moved..=to].rotate_left(1);
        let by = transport::found(&whole(&late), "refusal-fatal")[0].by_requester;
        assert!(matches!(by, None | Some(true)), "frame {moved} at {to}: {by:?}");
    }
    let by = transport::found(&whole(&world), "refusal-fatal")[0].by_requester;
    assert_eq!(by, Some(true));
}

/// The reply of the sample that offers the memory may look like a Long Call until it is read.
#[test]
fn refusal_of_offered_memory_accuses_no_end() {
    let whole = samples::capture("reliable-reply");
    for lost in 0..whole.packets.len() {
        let mut capture = whole.clone();
        capture.packets.remove(lost);
        capture.renumber();
        let by: Vec<_> =
            transport::found(&capture, "refusal-fatal").iter().map(|finding| finding.by).collect();
        assert!(matches!(by[..], [] | [None]), "without frame {}: {by:?}", lost + 1);
    }
}

/// The server acknowledges a call when the client has closed the connection.
#[test]
fn an_acknowledgement_after_the_close_is_too_late() {
    let missing = |closes: bool| {
        let mut world = World::connected();
        world.getattr(1);
        let call = world.send(CLIENT, &getattr(2).0);
        for _ in 0..6 {
            world.wait(500_000_000);
            world.again(call.clone());
        }
        if closes {
            world.disconnect(CLIENT);
        }
        world.wait(1_000_000_000);
        world.ack(SERVER);
        let found = findings(&whole(&world));
        let found: Vec<String> =
            found.iter().filter(|one| rule(one).id == "acknowledgement-missing").map(line).collect();
        found
    };
    let [found] = &missing(true)[..] else { panic!("one finding") };
    assert!(found.contains("not acknowledged before the connection was closed"), "{found}");
    assert_eq!(missing(false), [""; 0]);
}

/// The first two exchanges, captured in another order than they have by their times.
#[test]
fn calls_that_the_capture_swaps_exceed_no_credits() {
    let mut world = World::connected();
    let begins = world.frames.len();
    world.getattr(1);
    world.getattr(2);
    let order = [4, 0, 5, 1, 2, 3, 6, 7].map(|at| world.frames[begins + at].clone());
    world.frames.splice(begins.., order);
    world.getattr(3);
    assert_eq!(certain(&whole(&world)), [""; 0]);
}

/// 40 WRITEs whose replies come 100 ms after the RDMA Reads. The other end of each Send acknowledges it
/// after this time.
fn slow_writes(to_server: i64, to_client: i64) -> Capture {
    let mut world = World::connected();
    let memory = segment(7, 4096, 0x1000);
    for xid in 1..=40 {
        world.send(CLIENT, &write_of(xid, memory));
        world.wait(to_server);
        world.ack(SERVER);
        world.read(SERVER, memory, &data(4096));
        world.wait(100_000_000);
        world.send(SERVER, &written(xid, memory));
        world.wait(to_client);
        world.ack(CLIENT);
    }
    whole(&world)
}

/// At the client, data that waits in the network looks like a server that works.
#[test]
fn a_slow_network_beyond_the_capture_point_accuses_no_server() {
    let is_accused =
        |capture: &Capture| findings(capture).iter().any(|finding| rule(finding).id == "advice-slow-server");
    assert!(!is_accused(&slow_writes(100_000, 5_000)), "at the client");
    assert!(!is_accused(&slow_writes(20_000, 20_000)), "between the ends");
    assert!(is_accused(&slow_writes(5_000, 100_000)), "at the server");
}

/// Larger WRITEs save more calls than a larger inline threshold does.
#[test]
fn small_writes_are_not_blamed_on_the_inline_threshold() {
    let advice = |step: u64| {
        let mut world = World::connected();
        for xid in 1..=64 {
            let memory = segment(xid, 4096, 0x1000);
            let header = Builder { reads: vec![read_segment(WRITE_POSITION, memory)], ..msg(xid) };
            let arguments = format!("'handle' h{} 4096 2 4096", step * u64::from(xid));
            world.send(CLIENT, &message(&header, &nfs3(xid, 7, &arguments)));
            let psn = world.read_request(SERVER, memory, 4096);
            world.read_response(CLIENT, psn, &data(4096));
            world.send(SERVER, &written(xid, memory));
            world.ack(CLIENT);
        }
        let found = findings(&whole(&world));
        found
            .iter()
            .map(|finding| rule(finding).id)
            .filter(|id| id.starts_with("advice-"))
            .collect::<Vec<_>>()
    };
    assert_eq!(advice(4096), ["advice-small-transfers"]);
    assert_eq!(advice(100_000), ["advice-call-over-threshold"]);
}

/// A server need not read all of the memory that a call offers (RFC 8166, section 8.1.4). Its error
/// reply ends the call at once.
#[test]
fn calls_after_a_partial_read_exceed_no_credits() {
    let stale = |xid| message(&Builder { credits: 1, ..msg(xid) }, &reply(xid, "70 0 0"));
    let parts = [segment(7, 1000, 0x1000), segment(8, 1000, 0x9000)];
    let part_of_a_segment = Segment { length: 400, ..parts[0] };
    for pulled in [parts[0], parts[1], part_of_a_segment] {
        let mut world = World::connected();
        exchange(&mut world, CLIENT, (&getattr(1).0, &stale(1)));
        for xid in 2..6 {
            let reads = parts.map(|part| read_segment(WRITE_POSITION, part)).to_vec();
            let call = message(&Builder { reads, ..msg(xid) }, &nfs3(xid, 7, "'handle' h0 2000 2 2000"));
            world.send(CLIENT, &call);
            world.read(SERVER, pulled, &data(pulled.length as usize));
            world.send(SERVER, &stale(xid));
            world.ack(CLIENT);
        }
        let found = findings(&whole(&world));
        let of_credits = found.iter().filter(|finding| rule(finding).id == "credit-limit");
        let of_credits: Vec<_> = of_credits.map(line).collect();
        assert_eq!(of_credits, [""; 0], "{pulled:?}");
    }
}
