//! Replies that the requester pulls (reliable-reply draft, section 4).
//!
//! ```text
//! Requester                                   Responder
//!   Send: RDMA_MSG (call)                       ->
//!                                            <- Send: RDMA_NOMSG, Position Zero Read chunk
//!   RDMA READ of each segment                   ->, responses <-
//!   Send: RDMA_DONE                             ->
//! ```

use crate::report::*;
use rdmascope_dissector::event::Eviction;
use rdmascope_dissector::transaction::{Direction, Outcome, Part};
use rdmascope_testkit::messages::*;
use rdmascope_testkit::world::*;
use rdmascope_wire::Xid;
use rdmascope_wire::rpcrdma::{Procedure, Segment};

const READDIR: &str = "0 1 1 #80 #8 1 h5 'name' h1 1 h6 'other' h2 1 h7 *255 h3 0 1";

/// The call, the header of the reply, and the data to be pulled with its memory.
fn call_and_reply(world: &mut World, xid: u32) -> Vec<(Segment, Vec<u8>)> {
    let stream = reply(xid, READDIR);
    let (front, back) = stream.split_at(301);
    let base = u64::from(xid) << 20;
    let pulls = vec![
        (segment(100 + xid, front.len() as u32, base), front.to_vec()),
        (segment(200 + xid, back.len() as u32, base), back.to_vec()),
    ];
    world.send(CLIENT, &message(&msg(xid), &nfs3(xid, 16, "'dir' h0 #8 4096")));
    let mut answer = nomsg(xid);
    answer.reads = pulls.iter().map(|(target, _)| read_segment(0, *target)).collect();
    world.send(SERVER, &message(&answer, &[]));
    pulls
}

fn pull(world: &mut World, pulls: &[(Segment, Vec<u8>)]) {
    for (target, bytes) in pulls {
        world.read(CLIENT, *target, bytes);
    }
}

fn done(world: &mut World, xid: u32) {
    world.send(CLIENT, &message(&header(xid, Procedure::Done), &[]));
}

#[test]
fn done_completes_pulled_reply() {
    let mut world = World::connected();
    let pulls = call_and_reply(&mut world, 1);
    pull(&mut world, &pulls);
    done(&mut world, 1);
    let frames = world.frames.len() as u64;
    let report = world.run();
    let readdir = report.one();
    assert_complete(readdir);
    assert_eq!((readdir.outcome, readdir.status), (Outcome::Completed, Some(0)));
    assert_eq!(names(readdir), ["READDIR"]);
    assert_eq!(readdir.done.map(|seen| seen.frame), Some(frames));
    let length: usize = pulls.iter().map(|(_, bytes)| bytes.len()).sum();
    assert_eq!(readdir.reply.as_ref().unwrap().message_length, Some(length as u64));
    assert_eq!(readdir.timing.read_bytes, length as u64);
    assert_eq!(report.connections[0].requester.sent.other_sends, 0);
}

#[test]
fn pulled_reply_completes_without_done() {
    let mut world = World::connected();
    let pulls = call_and_reply(&mut world, 1);
    pull(&mut world, &pulls);
    world.getattr_without_acks(2);
    let report = world.run();
    let readdir = report.xid(1);
    assert_complete(readdir);
    assert_eq!((readdir.outcome, readdir.done), (Outcome::Completed, None));
    assert_eq!(names(readdir), ["READDIR"]);
    assert_eq!(report.xid(2).outcome, Outcome::Completed);
}

#[test]
fn unsolicited_and_repeated_done_is_ignored() {
    // "… the responder MUST silently drop the notification."
    let mut world = World::connected();
    done(&mut world, 1);
    let pulls = call_and_reply(&mut world, 1);
    pull(&mut world, &pulls);
    done(&mut world, 1);
    let first = world.frames.len() as u64;
    done(&mut world, 1);
    done(&mut world, 77);
    let report = world.run();
    assert_complete(report.one());
    assert_eq!(report.one().done.map(|seen| seen.frame), Some(first));
}

#[test]
fn reply_that_is_not_pulled_lists_missing_bytes() {
    let mut world = World::connected();
    let pulls = call_and_reply(&mut world, 1);
    let report = world.run();
    let readdir = report.one();
    assert_eq!((readdir.outcome, readdir.done, readdir.status), (Outcome::Completed, None, None));
    let length: usize = pulls.iter().map(|(_, bytes)| bytes.len()).sum();
    let reply = readdir.reply.as_ref().unwrap();
    assert_eq!(reply.missing, [missing(Part::ReadChunk(0), 0, length as u64)]);
    assert_eq!(reply.message_length, Some(length as u64));
    assert_eq!(names(readdir), ["READDIR"], "the call names the operation");
}

#[test]
fn xid_may_be_reused_before_done() {
    let mut world = World::connected();
    let first = call_and_reply(&mut world, 1);
    pull(&mut world, &first);
    let second = call_and_reply(&mut world, 1);
    pull(&mut world, &second);
    done(&mut world, 1);
    let report = world.run();
    assert_eq!(report.transactions.len(), 2);
    report.transactions.iter().for_each(assert_complete);
    assert_eq!(report.transactions.iter().map(|each| each.done.is_some()).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn replies_without_done_are_evicted_as_completed() {
    let mut world = World::connected();
    let count = 17_000;
    for xid in 0..count {
        world.send(CLIENT, &getattr(xid).0);
        let mut answer = nomsg(xid);
        answer.reads = vec![read_segment(0, segment(xid, 100, 0))];
        world.send(SERVER, &message(&answer, &[]));
    }
    let report = world.run();
    assert_eq!(report.transactions.len(), count as usize);
    assert!(report.transactions.iter().all(|each| each.outcome == Outcome::Completed));
    assert!(
        report.evictions.iter().any(|each| matches!(each, Eviction::Transaction { xid: Xid(0), .. })),
        "the oldest is evicted first"
    );
}

/// The capture lacks the call, or shows it only after the reply. The pulled message is a reply, so it is
/// no Long Call of the server.
#[test]
fn pulled_message_shows_that_it_is_a_reply() {
    for shift in [None, Some(0), Some(3_000_000)] {
        let mut world = World::connected();
        world.getattr(7);
        let call = world.frames.len();
        let pulls = call_and_reply(&mut world, 1);
        let frame = world.frames.remove(call);
        world.frames.last_mut().expect("the reply").time -= 5_000;
        if let Some(after) = shift {
            let time = world.now + after;
            world.frames.push(Frame { time, ..frame });
            world.now = time;
        }
        pull(&mut world, &pulls);
        done(&mut world, 1);
        world.getattr(8);
        let report = world.run();
        let readdir = report.xid(1);
        assert_eq!(report.transactions.len(), 3, "{shift:?}");
        let outcome = if shift.is_some() { Outcome::Completed } else { Outcome::NoCall };
        assert_eq!((readdir.outcome, readdir.direction), (outcome, Direction::Forward), "{shift:?}");
        assert!(readdir.done.is_some() && readdir.reply.is_some(), "{shift:?}");
        if shift.is_some() {
            assert_complete(readdir);
            assert_eq!(names(readdir), ["READDIR"]);
        }
        let bytes: usize = pulls.iter().map(|(_, bytes)| bytes.len()).sum();
        assert_eq!(readdir.timing.read_bytes, bytes as u64, "{shift:?}");
    }
}
