//! Packets lost on the wire and retransmitted, packets missing from the capture, and PSNs that
//! wrap.

use crate::report::*;
use rdmascope_dissector::transaction::Outcome;
use rdmascope_testkit::messages::*;
use rdmascope_testkit::world::*;
use rdmascope_wire::psn::Psn;
use rdmascope_wire::rpcrdma::Segment;
use std::ops::Range;

const SYMLINK: &str = "'dir' 'name' 0 0 0 0 0 0 *990";
const ARGUMENTS: Segment = segment(7, 2000, 0x1000);
const RESULTS: Segment = segment(8, 2000, 0x1000);

/// One call of each kind: a long Send, data pulled, data pushed.
pub(crate) fn session(world: &mut World) {
    world.send(CLIENT, &message(&msg(1), &nfs3(1, 10, SYMLINK)));
    world.ack(SERVER);
    world.send(SERVER, &message(&msg(1), &reply(1, "0 0 0 0 0")));
    world.ack(CLIENT);

    let mut call = msg(2);
    call.reads = vec![read_segment(WRITE_POSITION, ARGUMENTS)];
    world.send(CLIENT, &message(&call, &nfs3(2, 7, "'handle' h0 2000 2 2000")));
    world.ack(SERVER);
    world.read(SERVER, ARGUMENTS, &data(2000));
    world.send(SERVER, &message(&msg(2), &reply(2, "0 0 0 2000 2 #8")));
    world.ack(CLIENT);

    let mut call = msg(3);
    call.writes = vec![vec![RESULTS]];
    world.send(CLIENT, &message(&call, &nfs3(3, 6, "'handle' h0 2000")));
    world.ack(SERVER);
    world.write(SERVER, RESULTS, &data(2000));
    let mut answer = msg(3);
    answer.writes = vec![vec![RESULTS]];
    world.send(SERVER, &message(&answer, &reply(3, "0 0 2000 1 2000")));
    world.ack(CLIENT);
}

/// Checks that the three transactions of [`session`] are complete.
#[track_caller]
pub(crate) fn assert_session(report: &Report) {
    assert_eq!(report.transactions.len(), 3);
    for (xid, name, read_bytes, written_bytes) in
        [(1, "SYMLINK", 0, 0), (2, "WRITE", 2000, 0), (3, "READ", 0, 2000)]
    {
        let transaction = report.xid(xid);
        assert_complete(transaction);
        assert_eq!((transaction.outcome, transaction.status), (Outcome::Completed, Some(0)));
        assert_eq!(names(transaction), [name]);
        let timing = transaction.timing;
        assert_eq!((timing.read_bytes, timing.written_bytes), (read_bytes, written_bytes));
    }
    assert_eq!(report.connections.len(), 1);
    assert_eq!(report.evictions, []);
}

fn with_psns(client: u32, server: u32) -> World {
    let mut world = World::new();
    world.end(CLIENT).psn = Psn::new(client);
    world.end(SERVER).psn = Psn::new(server);
    world
}

#[test]
fn psns_may_wrap_within_any_message() {
    for before in 0..32 {
        for connected in [true, false] {
            let mut world = with_psns(0x100_0000 - before, 0x100_0000 - before);
            if connected {
                world.connect();
            }
            session(&mut world);
            let report = world.run();
            assert_session(&report);
            for end in [report.connections[0].requester, report.connections[0].responder] {
                let sent = end.sent;
                assert_eq!((sent.repeated_packets, sent.reordered_packets, sent.missing_packets), (0, 0, 0));
                assert_eq!((sent.unmatched_responses, sent.unmatched_placements), (0, 0));
            }
        }
    }
}

/// The request of an RDMA Read is one packet, and its responses have the PSNs after it.
#[test]
fn a_missing_read_request_is_one_packet() {
    let mut world = World::connected();
    session(&mut world);
    // RDMA READ Request.
    let request = world.frames.iter().position(|frame| frame.data[42] == 0x0c).expect("it reads");
    world.frames.remove(request);
    let report = world.run();
    let [requester, responder] = [report.connections[0].requester, report.connections[0].responder];
    assert_eq!(responder.sent.missing_packets, 1);
    assert_eq!(requester.sent.unmatched_responses, 8);
}

/// Loses each packet of end `from` in turn. The receiver answers with a NAK, and everything from
/// there on is retransmitted.
fn go_back(from: usize, is_request: impl Fn(u8) -> bool) {
    let mut world = World::connected();
    session(&mut world);
    let opcode = |frame: &Frame| frame.data[42];
    let psn =
        |frame: &Frame| Psn::new(u32::from_be_bytes([0, frame.data[51], frame.data[52], frame.data[53]]));
    for lost in 3..world.frames.len() {
        let frame = &world.frames[lost];
        if frame.from != from || !is_request(opcode(frame)) {
            continue;
        }
        // The packets that the sender sent before the NAK arrived: the following requests up to the
        // next answer.
        let burst = world.frames[lost..].iter().take_while(|frame| frame.from == from).count();
        let mut again = World::connected();
        again.frames = world.frames[..lost].to_vec();
        again.frames.extend_from_slice(&world.frames[lost + 1..lost + burst]);
        again.now = again.frames.last().unwrap().time;
        if burst > 1 {
            again.nak(1 - from, psn(frame));
        } else {
            // No later packet reveals the loss, so the timeout does.
            again.wait(500_000_000);
        }
        let shift = again.now + 1_000 - frame.time;
        let rest = world.frames[lost..].iter();
        again.frames.extend(rest.map(|frame| frame.sent_again(frame.time + shift)));
        let report = again.run();
        assert_session(&report);
        let sent = [report.connections[0].requester.sent, report.connections[0].responder.sent];
        assert_eq!(sent[from].missing_packets, 0, "packet {lost}");
        assert_eq!(sent[from].repeated_packets, burst as u64 - 1, "packet {lost}");
        assert_eq!(sent[1 - from].sequence_naks, u64::from(burst > 1));
        let first =
            [report.connections[0].requester.first_frames, report.connections[0].responder.first_frames];
        // Frames are numbered from 1. The lost packet is not in the capture; the NAK comes after
        // the burst.
        let nak = (lost + burst) as u64;
        assert_eq!(first[1 - from].sequence_nak, (burst > 1).then_some(nak), "packet {lost}");
        assert_eq!(first[from].repeated_packet, (burst > 1).then_some(nak + 2), "packet {lost}");
        assert_eq!(
            (sent[from].reordered_packets, first[from].reordered_packet.is_some()),
            (u64::from(burst > 1), burst > 1)
        );
    }
}

#[test]
fn client_retransmits_after_nak() {
    go_back(CLIENT, |opcode| opcode <= 0x0c);
}

#[test]
fn server_retransmits_after_nak() {
    go_back(SERVER, |opcode| opcode <= 0x0b);
}

#[test]
fn send_is_retransmitted_after_rnr_nak() {
    let mut world = World::connected();
    let first = world.end(CLIENT).psn;
    let frames = world.send(CLIENT, &message(&msg(1), &nfs3(1, 10, SYMLINK)));
    world.rnr_nak(SERVER, first);
    world.wait(10_000_000);
    world.again(frames.clone());
    world.ack(SERVER);
    world.send(SERVER, &message(&msg(1), &reply(1, "0 0 0 0 0")));
    let report = world.run();
    assert_complete(report.one());
    let connection = &report.connections[0];
    assert_eq!(connection.responder.sent.rnr_naks, 1);
    let nak = frames.end as u64 + 1;
    assert_eq!(connection.responder.first_frames.rnr_nak, Some(nak));
    assert_eq!(connection.requester.first_frames.repeated_packet, Some(nak + 1));
    assert_eq!(connection.requester.sent.repeated_packets, frames.len() as u64);
    assert_eq!(connection.requester.sent.sends, 1);
}

#[test]
fn repeated_packets_change_no_transaction() {
    let mut world = World::connected();
    session(&mut world);
    let frames = world.frames.len();
    for twice in 0..frames {
        // Repeated immediately, and at the end.
        for place in [twice + 1, frames] {
            let mut captured = world.frames.clone();
            let time = captured[place - 1].time;
            captured.insert(place, captured[twice].sent_again(time));
            assert_session(&run(&captured));
            // The capture shows it twice.
            captured[place] = Frame { time, ..captured[twice].clone() };
            assert_session(&run(&captured));
        }
    }
}

#[test]
fn packet_with_bad_icrc_is_ignored() {
    let mut world = World::connected();
    session(&mut world);
    for bad in 3..world.frames.len() {
        // The last byte of the payload or of a header is changed; the good packet follows.
        let mut captured = world.frames.clone();
        let mut broken = captured[bad].clone();
        let at = broken.data.len() - 5;
        broken.data[at] ^= 0x55;
        captured.insert(bad, broken);
        let report = run(&captured);
        assert_session(&report);
        let sent = [report.connections[0].requester.sent, report.connections[0].responder.sent];
        assert_eq!(sent[0].bad_icrc + sent[1].bad_icrc, 1);
        assert_eq!(sent[0].repeated_packets + sent[1].repeated_packets, 0);
        assert_eq!(report.totals.icrc[1], 1);
    }
}

#[test]
fn acknowledged_capture_gap_is_given_up() {
    // The call of XID 2 was received but is missing from the capture; later calls are processed.
    let mut world = World::connected();
    let mut lost = 0..0;
    for xid in 1..100 {
        let (call, answer) = getattr(xid);
        let frames = world.send(CLIENT, &call);
        if xid == 2 {
            lost = frames;
        }
        world.ack(SERVER);
        world.send(SERVER, &answer);
        world.ack(CLIENT);
    }
    let report = world.run_without(lost);
    assert_eq!(report.transactions.len(), 99);
    for transaction in &report.transactions {
        if transaction.xid.0 == 2 {
            assert_eq!(transaction.outcome, Outcome::NoCall);
            assert!(transaction.capture_gap);
        } else {
            assert_complete(transaction);
            assert_eq!(transaction.outcome, Outcome::Completed);
        }
    }
    assert_eq!(report.connections[0].requester.sent.missing_packets, 1);
}

/// Nine calls with replies, and the frame of the second reply.
fn nine_calls() -> (World, usize) {
    let mut world = World::connected();
    let mut replies = Vec::new();
    for xid in 1..10 {
        let (call, answer) = getattr(xid);
        world.send(CLIENT, &call);
        world.ack(SERVER);
        replies.push(world.send(SERVER, &answer).start);
        world.ack(CLIENT);
    }
    world.disconnect(CLIENT);
    (world, replies[1])
}

#[test]
fn missing_reply_is_a_capture_gap() {
    let (world, second) = nine_calls();
    let report = world.run_without([second]);
    assert_eq!(report.xid(2).outcome, Outcome::NoReply);
    assert!(report.xid(2).capture_gap);
    assert!(report.transactions.iter().filter(|each| each.xid.0 != 2).all(|each| !each.capture_gap));
}

/// A reply cut within its header, which has 16 bytes before the chunk lists, may be any reply.
#[test]
fn reply_with_truncated_header_is_a_capture_gap() {
    let (world, second) = nine_calls();
    // Ethernet, IPv4, UDP and BTH.
    let headers = 14 + 20 + 8 + 12;
    for (left, outcome) in [(16, Outcome::Completed), (15, Outcome::NoReply)] {
        let report = run_cutting(&world.frames, second, headers + left);
        let cut = report.xid(2);
        assert_eq!((cut.outcome, cut.capture_gap), (outcome, left == 15), "{left} bytes");
        assert_eq!(cut.unanswered_until, None, "{left} bytes");
        let mut others = report.transactions.iter().filter(|each| each.xid.0 != 2);
        assert!(others.all(|each| each.outcome == Outcome::Completed));
    }
}

/// Frames of two RDMA READs of 2000 bytes each that are outstanding at the same time.
fn two_reads(world: &mut World) -> Range<usize> {
    let start = world.frames.len();
    let mut call = msg(1);
    let targets = [segment(7, 2000, 0x1000), segment(8, 2000, 0x9000)];
    call.reads = targets.map(|target| read_segment(WRITE_POSITION, target)).to_vec();
    world.send(CLIENT, &message(&call, &nfs3(1, 7, "'handle' h0 4000 2 4000")));
    world.ack(SERVER);
    let psns = targets.map(|target| world.read_request(SERVER, target, 2000));
    for psn in psns {
        world.read_response(CLIENT, psn, &data(2000));
    }
    world.send(SERVER, &message(&msg(1), &reply(1, "0 0 0 4000 2 #8")));
    start..world.frames.len()
}

#[test]
fn concurrent_reads_are_matched_without_path_mtu() {
    let mut world = World::new();
    two_reads(&mut world);
    let report = world.run();
    assert_complete(report.one());
    assert_eq!(report.one().timing.read_bytes, 4000);
}

#[test]
fn truncated_capture_still_places_all_data() {
    let mut world = World::connected();
    session(&mut world);
    let report = run_cut(&world.frames, 160);
    assert_eq!(report.transactions.len(), 3);
    for transaction in &report.transactions {
        assert_eq!(transaction.outcome, Outcome::Completed);
        for stop in [transaction.stop, transaction.call.as_ref().unwrap().stop].into_iter().flatten() {
            assert_eq!(stop.cause, rdmascope_wire::Cause::TruncatedCapture);
        }
    }
    assert_eq!(report.xid(2).timing.read_bytes, 2000);
    assert_eq!(report.xid(3).timing.written_bytes, 2000);
    assert_eq!(names(report.xid(2)), ["WRITE"]);
}
