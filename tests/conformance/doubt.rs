//! Correct sessions whose captures lack something that the other tests do not leave out: bytes,
//! repeated requests, the last packets. None gives a certain finding.

use rdmascope_conformance::{Level, Verdict};
use rdmascope_testkit::messages::{
    WRITE_POSITION, call_to, compound, data, getattr, header, message, msg, nfs3, nomsg, private_data,
    read_segment, reply, segment, xdr,
};
use rdmascope_testkit::world::{CLIENT, Frame, SERVER, World};
use rdmascope_tests::judged::{findings, line, rule};
use rdmascope_tests::pcap::{Capture, Packet};
use rdmascope_wire::rpcrdma::{Builder, Procedure, Segment};

/// The length of the headers before a message in a SEND Only: Ethernet, IPv4, UDP, BTH.
const HEADERS: usize = 14 + 20 + 8 + 12;

/// A capture of the frames for which `keep` returns a length, cut to that length.
pub(super) fn capture(world: &World, keep: impl Fn(usize, &Frame) -> Option<usize>) -> Capture {
    let packet = |(index, frame): (usize, &Frame)| {
        let length = keep(index, frame)?.min(frame.data.len());
        Some(Packet {
            number: 0,
            time: frame.time,
            original_length: frame.data.len() as u32,
            data: frame.data[..length].to_vec(),
        })
    };
    let packets = world.frames.iter().enumerate().filter_map(packet).collect();
    let mut capture = Capture { link: 1, packets };
    capture.renumber();
    capture
}

/// All frames of a session.
pub(super) fn whole(world: &World) -> Capture {
    capture(world, |_, frame| Some(frame.data.len()))
}

/// The certain violations and warnings in a capture.
pub(super) fn certain(capture: &Capture) -> Vec<String> {
    let accuses = |finding: &&rdmascope_conformance::Finding| {
        finding.verdict == Verdict::Certain && rule(finding).level != Level::Advice
    };
    findings(capture).iter().filter(accuses).map(line).collect()
}

/// The names of the rules that these findings belong to.
fn rules(found: &[String]) -> Vec<&str> {
    found.iter().map(|line| line.split([' ', ':']).nth(2).expect("level, verdict, rule")).collect()
}

const LENGTH: usize = 1000;
const MEMORY: Segment = segment(7, LENGTH as u32, 0x1000);

/// A WRITE of NFS version 3 with its data in a Read chunk.
fn write_call(xid: u32) -> Vec<u8> {
    let reads = vec![read_segment(WRITE_POSITION, MEMORY)];
    message(&Builder { reads, ..msg(xid) }, &nfs3(xid, 7, &format!("'handle' h0 {LENGTH} 2 {LENGTH}")))
}

/// A result of it that counts this number of bytes.
fn written(xid: u32, count: usize) -> Vec<u8> {
    message(&msg(xid), &reply(xid, &format!("0 0 0 {count} 2 h0")))
}

/// A session with one WRITE, whose data moves as in `transfer`.
fn write(count: usize, transfer: impl FnOnce(&mut World)) -> World {
    let mut world = World::connected();
    world.getattr(1);
    world.send(CLIENT, &write_call(2));
    world.ack(SERVER);
    transfer(&mut world);
    world.send(SERVER, &written(2, count));
    world.ack(CLIENT);
    world.getattr(3);
    world.disconnect(CLIENT);
    world
}

/// A duplicate RDMA READ may ask for a part of the data (IBTA volume 1, section 9.7.5). The response
/// to one that the capture lacks has fewer bytes than are left.
#[test]
fn short_response_may_answer_a_repeated_request() {
    let bytes = data(LENGTH);
    let session = |again: bool, until: usize| {
        write(LENGTH, |world| {
            let psn = world.read_request(SERVER, MEMORY, LENGTH);
            let first = world.read_response(CLIENT, psn, &bytes).start;
            world.frames.truncate(first + 1);
            let part = segment(7, LENGTH as u32 - 256, 0x1100);
            if again {
                world.ask_again(SERVER, psn.plus(1), part, until - 256);
            }
            world.read_response(CLIENT, psn.plus(1), &bytes[256..until]);
            world.ask_again(SERVER, psn.plus(1), part, LENGTH - 256);
            world.read_response(CLIENT, psn.plus(1), &bytes[256..]);
        })
    };
    for until in [512, 768] {
        assert_eq!(certain(&whole(&session(true, until))), [""; 0], "{until}");
        assert_eq!(
            certain(&whole(&session(false, until))),
            [""; 0],
            "{until}, the second request is missing"
        );
    }
}

/// A response with more bytes than are left answers no part of the request.
#[test]
fn long_response_is_certain() {
    let bytes = data(1024);
    let world = write(LENGTH, |world| {
        let psn = world.read_request(SERVER, MEMORY, LENGTH);
        world.read_response(CLIENT, psn, &bytes);
    });
    assert_eq!(rules(&certain(&whole(&world))), ["read-response"]);
}

/// A server may write fewer bytes than it was asked to (RFC 1813, section 3.3.7).
#[test]
fn short_write_needs_only_its_bytes() {
    for (count, expected) in [(512, &[][..]), (516, &["memory-read"]), (LENGTH, &["memory-read"])] {
        let world = write(count, |world| {
            world.read(SERVER, MEMORY, &data(512));
        });
        assert_eq!(rules(&certain(&whole(&world))), expected, "{count}");
    }
}

/// A reply shows that its call arrived, even if the capture lacks the ACK.
#[test]
fn answer_shows_that_a_refused_call_arrived() {
    for (is_answered, expected) in [(true, false), (false, true)] {
        let mut world = World::connected();
        world.getattr(1);
        let psn = world.end(CLIENT).psn;
        let (call, answer) = getattr(2);
        let frames = world.send(CLIENT, &call);
        world.rnr_nak(SERVER, psn);
        world.again(frames);
        if is_answered {
            world.send(SERVER, &answer);
            world.ack(CLIENT);
        }
        world.disconnect(CLIENT);
        let found = certain(&whole(&world));
        assert_eq!(rules(&found).contains(&"connection-broken"), expected, "{found:#?}");
    }
}

/// Calls that were answered before the last RDMA operation for another call do not show that the
/// server gave that one up: its reply may be the last message, which the capture lacks.
#[test]
fn call_in_progress_may_be_answered_by_the_last_message() {
    let session = |is_followed: bool| {
        let mut world = World::connected();
        world.getattr(1);
        world.send(CLIENT, &write_call(2));
        world.ack(SERVER);
        world.getattr(3);
        world.getattr(4);
        world.read(SERVER, MEMORY, &data(LENGTH));
        if is_followed {
            world.getattr(5);
        }
        world.disconnect(CLIENT);
        certain(&whole(&world))
    };
    assert_eq!(session(false), [""; 0]);
    assert_eq!(rules(&session(true)), ["rpc-call-unanswered", "connection-broken"]);
}

/// Calls that are outstanding together may be answered in any order. The capture lacks the last reply
/// and its ACK.
#[test]
fn concurrent_call_may_be_answered_by_the_last_message() {
    let session = |is_followed: bool| {
        let mut world = World::connected();
        world.getattr(1);
        (2..=9).for_each(|xid| _ = world.send(CLIENT, &getattr(xid).0));
        world.ack(SERVER);
        (3..=9).rev().for_each(|xid| _ = world.send(SERVER, &getattr(xid).1));
        world.ack(CLIENT);
        if is_followed {
            world.wait(1_000_000);
            world.getattr(10);
        }
        world.disconnect(CLIENT);
        certain(&whole(&world))
    };
    assert_eq!(session(false), [""; 0]);
    assert_eq!(rules(&session(true)), ["rpc-call-unanswered", "connection-broken"]);
}

/// A READ and its reply with RPCSEC_GSS that protects neither arguments nor results.
fn authenticated_read(xid: u32) -> [Vec<u8>; 2] {
    let credential = xdr("6 24 1 0 1 1 'contexts'");
    let verifier = xdr("6 *28");
    let mut call = nfs3(xid, 6, &format!("'handle' h0 {LENGTH}"));
    call.splice(24..40, [credential, verifier.clone()].concat());
    let mut answer = reply(xid, &format!("0 0 {LENGTH} 1 {LENGTH}"));
    answer.splice(12..20, verifier);
    [call, answer]
}

/// If a call was cut inside its credential or verifier, the results of its reply cannot be read.
#[test]
fn results_without_a_credential_are_unknown() {
    let header = Builder { writes: vec![vec![MEMORY]], ..msg(2) };
    let [call, answer] = authenticated_read(2).map(|payload| message(&header, &payload));
    let mut world = World::connected();
    world.send(CLIENT, &call);
    world.ack(SERVER);
    world.write(SERVER, MEMORY, &data(LENGTH));
    world.send(SERVER, &answer);
    world.ack(CLIENT);
    world.disconnect(CLIENT);
    assert_eq!(certain(&whole(&world)), [""; 0]);
    for length in (HEADERS..HEADERS + call.len()).step_by(4) {
        let cut =
            capture(&world, |_, frame| Some(if frame.from == CLIENT { length } else { frame.data.len() }));
        assert_eq!(certain(&cut), [""; 0], "{length}");
    }
}

pub(super) const SESSION: &str = "0 0 0 115";

/// A connection with a session whose backchannel accepts Long Calls.
pub(super) fn with_backchannel() -> World {
    let mut world = World::connected();
    let channels = "0 100000 100000 4096 8 8 0 0 100000 100000 4096 8 8 0";
    let call = compound(1, &format!("1 43 h1 1 2 {channels} 1073741824 1 0"));
    let answer = reply(1, &format!("0 '' 1 43 0 {SESSION} 1 2 {channels}"));
    exchange(&mut world, CLIENT, (&message(&msg(1), &call), &message(&msg(1), &answer)));
    world
}

/// A message and its answer, both acknowledged.
pub(super) fn exchange(world: &mut World, caller: usize, (call, answer): (&[u8], &[u8])) {
    world.send(caller, call);
    world.ack(1 - caller);
    world.wait(20_000);
    world.send(1 - caller, answer);
    world.ack(caller);
    world.wait(20_000);
}

/// A callback and its reply.
fn callback(xid: u32, number: u32) -> [Vec<u8>; 2] {
    let arguments = format!("'' 1 0 1 11 {SESSION} {number} 0 7 0 0");
    let results = format!("0 '' 1 11 0 {SESSION} {number} 0 7 7");
    [call_to(xid, [0x4000_0000, 1, 1], &arguments), reply(xid, &results)]
}

/// READs with Write chunks, and during each a callback with the same XID. `exchange_callback` sends
/// the callback and its reply.
fn both_ways(exchange_callback: impl Fn(&mut World, u32, [Vec<u8>; 2])) -> World {
    let mut world = with_backchannel();
    for number in 1..=2 {
        let xid = 6 + number;
        let writes = vec![vec![segment(0x99, 512, 0x10)]];
        let header = Builder { writes, ..msg(xid) };
        let read = "25 0 0 0 0 h0 512";
        let call = compound(xid, &format!("3 53 {SESSION} {number} 0 7 0 22 'handle' {read}"));
        let results = format!("0 '' 3 53 0 {SESSION} {number} 0 7 7 0 22 0 25 0 1 512");
        world.send(CLIENT, &message(&header, &call));
        world.ack(SERVER);
        world.wait(20_000);
        exchange_callback(&mut world, xid, callback(xid, number));
        world.write(SERVER, segment(0x99, 512, 0x10), &data(512));
        world.send(SERVER, &message(&header, &reply(xid, &results)));
        world.ack(CLIENT);
        world.wait(20_000);
    }
    world.getattr(20);
    world.disconnect(CLIENT);
    world
}

/// The same with a Reply chunk in each callback that is not needed.
fn with_reply_chunks() -> World {
    both_ways(|world, xid, [call, answer]| {
        let header = |length| Builder { reply: Some(vec![segment(0x99, length, 0x10)]), ..msg(xid) };
        exchange(world, SERVER, (&message(&header(1000), &call), &message(&header(0), &answer)));
    })
}

/// The XIDs of the two directions are independent. If the capture cut messages before their
/// msg_type, a call may look like a reply to a call of the other direction with the same XID.
#[test]
fn no_snap_length_gives_certain_findings() {
    let session = with_reply_chunks();
    assert_eq!(certain(&whole(&session)), [""; 0]);
    for length in (HEADERS..HEADERS + 200).step_by(2) {
        for (sender, of) in [("client", &[CLIENT][..]), ("server", &[SERVER]), ("both", &[CLIENT, SERVER])] {
            let cut = capture(&session, |_, frame| {
                Some(if of.contains(&frame.from) { length } else { frame.data.len() })
            });
            assert_eq!(certain(&cut), [""; 0], "{sender} {length}");
        }
    }
}

/// A Long Call in a Position Zero Read chunk looks like a reply in a Read chunk of the Responder. The
/// bytes that are pulled show that it is a call.
#[test]
fn long_callback_with_an_outstanding_xid_is_no_reply() {
    for reply_chunk in [None, Some(segment(0x56, 1000, 0))] {
        let session = both_ways(|world, xid, [call, answer]| {
            let memory = segment(0x55, call.len() as u32, 0x2000);
            let reply = reply_chunk.map(|chunk| vec![chunk]);
            let header = Builder { reads: vec![read_segment(0, memory)], reply, ..nomsg(xid) };
            world.send(SERVER, &message(&header, &[]));
            world.ack(CLIENT);
            world.read(CLIENT, memory, &call);
            let length = answer.len() as u32;
            if let Some(chunk) = reply_chunk {
                world.write(CLIENT, chunk, &answer);
                let reply = Some(vec![Segment { length, ..chunk }]);
                world.send(CLIENT, &message(&Builder { reply, ..nomsg(xid) }, &[]));
            } else {
                world.send(CLIENT, &message(&msg(xid), &answer));
            }
            world.ack(SERVER);
        });
        assert_eq!(certain(&whole(&session)), [""; 0], "{reply_chunk:?}");
    }
}

/// A callback of NFSv4.0 on a connection whose setup was not captured.
#[test]
fn callback_of_minor_version_0_needs_no_sequence() {
    let mut world = World::new();
    for xid in 1..4 {
        let call = call_to(xid, [0x4000_0000, 1, 1], "'' 0 7 1 4 #16 0 'handle'");
        let answer = reply(xid, "0 '' 1 4 0");
        exchange(&mut world, SERVER, (&message(&msg(xid), &call), &message(&msg(xid), &answer)));
    }
    world.disconnect(SERVER);
    assert_eq!(certain(&whole(&world)), [""; 0]);
}

/// A NAK for an invalid request to memory that its sender advertised. A limit that is not on the wire
/// may be the reason.
#[test]
fn invalid_request_to_advertised_memory_accuses_no_end() {
    for (syndrome, by) in [(0x61, None), (0x62, Some(true))] {
        let mut world = World::connected();
        world.getattr(1);
        let memory = segment(0x77, 100, 0x3000);
        let header = Builder { reads: vec![read_segment(WRITE_POSITION, memory)], ..msg(2) };
        world.send(CLIENT, &message(&header, &nfs3(2, 7, "'handle' h0 100 2 100")));
        world.ack(SERVER);
        let psn = world.read_request(SERVER, memory, 100);
        world.respond(CLIENT, psn, syndrome);
        let found = findings(&whole(&world));
        let fatal: Vec<_> = found.iter().filter(|finding| rule(finding).id == "refusal-fatal").collect();
        let [finding] = fatal[..] else { panic!("{found:?}") };
        assert_eq!(finding.by_requester, by, "{finding:?}");
    }
}

/// A burst right after the first reply, which grants fewer requests. No earlier grant can apply.
#[test]
fn first_grant_limits_the_next_calls() {
    let mut world = World::connected();
    world.getattr(1);
    for xid in 2..40 {
        world.send(CLIENT, &getattr(xid).0);
        world.ack(SERVER);
    }
    for xid in 2..40 {
        world.send(SERVER, &getattr(xid).1);
        world.ack(CLIENT);
    }
    world.getattr(40);
    let found = certain(&whole(&world));
    assert_eq!(rules(&found).iter().filter(|id| **id == "credit-limit").count(), 6, "{found:?}");
}

/// An RDMA_DONE has 16 bytes, fewer than any other message. If the capture cut it before rdma_proc,
/// its length shows no fault.
#[test]
fn cut_message_of_16_bytes_is_not_too_short() {
    for (length, expected) in [(16, &[][..]), (12, &["header-too-short"])] {
        let mut world = World::connected();
        world.getattr(1);
        let done = message(&header(2, Procedure::Done), &[]);
        let at = world.send(CLIENT, &done[..length]).start;
        world.ack(SERVER);
        world.getattr(3);
        world.disconnect(CLIENT);
        let cut =
            capture(&world, |index, frame| Some(if index == at { HEADERS + 8 } else { frame.data.len() }));
        assert_eq!(rules(&certain(&cut)), expected, "{length}");
    }
}

/// A Send whose header was cut may be the reply to a call, whose XID is free then.
#[test]
fn cut_message_may_be_the_reply_to_an_earlier_call() {
    let mut world = World::connected();
    world.getattr(1);
    let (call, answer) = getattr(2);
    exchange(&mut world, CLIENT, (&call, &answer));
    exchange(&mut world, CLIENT, (&call, &answer));
    world.getattr(3);
    world.disconnect(CLIENT);
    let cut =
        capture(&world, |_, frame| Some(if frame.from == SERVER { HEADERS + 8 } else { frame.data.len() }));
    assert_eq!(certain(&cut), [""; 0]);
}

/// An offer of the backchannel that was cut is no missing offer, even if the result shows that it was
/// accepted.
#[test]
fn cut_offer_is_not_missing() {
    let session = with_reply_chunks();
    let offer = session.frames.iter().position(|frame| frame.data[42] == 0x04).expect("a SEND Only");
    for length in (HEADERS..session.frames[offer].data.len()).step_by(4) {
        let cut =
            capture(&session, |index, frame| Some(if index == offer { length } else { frame.data.len() }));
        assert_eq!(certain(&cut), [""; 0], "{length}");
    }
}

/// Networks may have equal addresses. What a client of one of them left open or negotiated concerns no
/// client of another.
#[test]
fn tenants_with_equal_addresses_are_judged_apart() {
    for (vlan, expected) in [(10, &["private-data-changed", "rpc-replay-differs"][..]), (20, &[])] {
        let mut world = World::connected();
        world.getattr(1);
        world.send(CLIENT, &getattr(2).0);
        world.ack(SERVER);
        world.disconnect(CLIENT);
        let other = world.frames.len();
        world.add([0x31, 0x42], [7_000, 900_000]);
        world.private_data = [private_data(8192, 8192), private_data(8192, 8192)];
        world.connect();
        exchange(&mut world, CLIENT, (&write_call(2), &written(2, 0)));
        world.disconnect(CLIENT);
        for (index, frame) in world.frames.iter_mut().enumerate() {
            drop(frame.data.splice(12..12, [0x81, 0, 0, if index < other { 10 } else { vlan }]));
        }
        let found: Vec<_> = findings(&whole(&world)).iter().map(|finding| rule(finding).id).collect();
        let between = ["rpc-replay", "rpc-replay-differs", "private-data-changed"];
        let found: Vec<_> = found.into_iter().filter(|id| between.contains(id)).collect();
        assert_eq!(found, expected, "{vlan}");
    }
}

/// A reply in a Read chunk of its sender, which the other end pulls.
fn provide(world: &mut World, from: usize, (xid, answer): (u32, &[u8])) {
    let memory = segment(0x4000 + xid, answer.len() as u32, 0x9000);
    world.send(from, &message(&Builder { reads: vec![read_segment(0, memory)], ..nomsg(xid) }, &[]));
    world.ack(1 - from);
    world.read(1 - from, memory, answer);
    world.send(1 - from, &message(&header(xid, Procedure::Done), &[]));
    world.ack(from);
}

/// A session in which one end provides the reply to a call in a Read chunk.
fn with_provided_reply(caller: usize) -> (World, usize) {
    let mut world = with_backchannel();
    world.wait(5_000_000);
    let sequence = format!("1 53 {SESSION} 1 0 7 0");
    let [call, answer] = match caller {
        CLIENT => [compound(40, &sequence), reply(40, &format!("0 '' 1 53 0 {SESSION} 1 0 7 7 0"))],
        _ => callback(40, 1),
    };
    let at = world.send(caller, &message(&msg(40), &call)).start;
    provide(&mut world, 1 - caller, (40, &answer));
    world.wait(5_000_000);
    for number in 2..5 {
        let [call, answer] = callback(50 + number, number);
        let [call, answer] = [call, answer].map(|body| message(&msg(50 + number), &body));
        exchange(&mut world, SERVER, (&call, &answer));
        world.getattr(60 + number);
    }
    world.disconnect(CLIENT);
    (world, at)
}

/// The capture lacks the call of a reply in a Read chunk, or shows it 10 us or 3 ms late.
#[test]
fn provided_reply_before_its_call_accuses_no_end() {
    for caller in [CLIENT, SERVER] {
        let (world, at) = with_provided_reply(caller);
        assert_eq!(certain(&whole(&world)), [""; 0], "{caller}");
        let lost = capture(&world, |index, frame| (index != at).then_some(frame.data.len()));
        assert_eq!(certain(&lost), [""; 0], "{caller}: the call is missing");
        for late in [2, 3, 4] {
            let mut world = world.clone();
            let frame = world.frames.remove(at);
            world.frames.insert(at + late, frame);
            let times: Vec<_> = world.frames.iter().map(|frame| frame.time).collect();
            world.frames[at + late].time = times[at + late - 1] + 1;
            assert_eq!(certain(&whole(&world)), [""; 0], "{caller}: the call comes {late} packets late");
        }
    }
}

/// A session whose client advertises one piece of memory for each Long Call and each Long Reply.
fn with_one_memory() -> World {
    let mut world = World::connected();
    world.getattr(1);
    for xid in 2..10 {
        let size = 600 + xid;
        let bytes = "x".repeat(size as usize);
        let call = nfs3(xid, 7, &format!("'handle' h0 {size} 2 '{bytes}'"));
        let memory = segment(7, call.len() as u32, 0x1000);
        world.send(CLIENT, &message(&Builder { reads: vec![read_segment(0, memory)], ..nomsg(xid) }, &[]));
        world.ack(SERVER);
        world.read(SERVER, memory, &call);
        world.send(SERVER, &written(xid, size as usize));
        world.ack(CLIENT);

        let answer = reply(20 + xid, &format!("0 0 {size} 1 '{bytes}'"));
        let chunk = |length| Builder { reply: Some(vec![segment(7, length, 0x1000)]), ..nomsg(20 + xid) };
        let call = nfs3(20 + xid, 6, &format!("'handle' h0 {size}"));
        world.send(CLIENT, &message(&Builder { procedure: Procedure::Msg, ..chunk(2000) }, &call));
        world.ack(SERVER);
        world.write(SERVER, segment(7, 2000, 0x1000), &answer);
        world.send(SERVER, &message(&chunk(answer.len() as u32), &[]));
        world.ack(CLIENT);
    }
    world.disconnect(CLIENT);
    world
}

/// Operations wait for a packet that the capture lacks, while later calls advertise the same memory.
#[test]
fn reused_memory_is_not_mixed_up_after_a_gap() {
    let world = with_one_memory();
    assert_eq!(certain(&whole(&world)), [""; 0]);
    for lost in 0..world.frames.len() - 4 {
        let capture = capture(&world, |index, frame| (index != lost).then_some(frame.data.len()));
        assert_eq!(certain(&capture), [""; 0], "without frame {lost}");
    }
    for start in 3..world.frames.len() - 4 {
        let capture = capture(&world, |index, frame| (index >= start).then_some(frame.data.len()));
        assert_eq!(certain(&capture), [""; 0], "from frame {start} on");
    }
}

/// The first call beyond a lowered grant is judged. An acknowledgement does not show that the software
/// of the client took the reply, so only a long time after it makes the finding certain.
#[test]
fn first_call_beyond_a_lowered_grant_is_counted() {
    let verdicts = |wait: i64| {
        let granting = |xid, credits| message(&Builder { credits, ..msg(xid) }, &reply(xid, "0 #21"));
        let mut world = World::connected();
        world.send(CLIENT, &getattr(1).0);
        world.send(SERVER, &granting(1, 32));
        world.ack(CLIENT);
        (2..=5).for_each(|xid| _ = world.send(CLIENT, &getattr(xid).0));
        world.send(SERVER, &granting(2, 3));
        world.ack(CLIENT);
        world.wait(wait);
        world.send(CLIENT, &getattr(6).0);
        world.ack(SERVER);
        (3..=6).for_each(|xid| _ = world.send(SERVER, &granting(xid, 3)));
        world.ack(CLIENT);
        let found = findings(&whole(&world));
        let of_limit = found.iter().filter(|finding| rule(finding).id == "credit-limit");
        of_limit.map(|finding| finding.verdict).collect::<Vec<_>>()
    };
    assert_eq!(verdicts(1_000_000), []);
    assert_eq!(verdicts(20_000_000), [Verdict::Inconclusive]);
    assert_eq!(verdicts(1_100_000_000), [Verdict::Certain]);
}
