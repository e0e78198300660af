//! Matching of replies to calls, and of RDMA operations to memory.

use crate::report::*;
use rdmascope_dissector::connection::{ConnectionId, State};
use rdmascope_dissector::transaction::{Message, Missing, Outcome, Part, Security, Transaction};
use rdmascope_testkit::messages::*;
use rdmascope_testkit::world::*;
use rdmascope_wire::{Xid, rpc};

fn outcomes(report: &Report) -> Vec<(u32, Outcome)> {
    report.transactions.iter().map(|each| (each.xid.0, each.outcome)).collect()
}

/// A READ of `length` bytes, always into the same memory.
fn read(world: &mut World, xid: u32, length: usize) {
    let mut call = msg(xid);
    call.writes = vec![vec![segment(7, 1000, 0x1000)]];
    world.send(CLIENT, &message(&call, &nfs3(xid, 6, "'handle' h0 1000")));
    world.ack(SERVER);
    world.write(SERVER, segment(7, 1000, 0x1000), &data(length));
    let mut answer = msg(xid);
    answer.writes = vec![vec![segment(7, length as u32, 0x1000)]];
    let results = format!("0 0 {length} 1 {length}");
    world.send(SERVER, &message(&answer, &reply(xid, &results)));
    world.ack(CLIENT);
}

#[test]
fn rkey_and_offset_may_be_reused_by_next_call() {
    let mut world = World::connected();
    for (xid, length) in [(1, 1000), (2, 300), (3, 700)] {
        read(&mut world, xid, length);
    }
    let report = world.run();
    for (xid, length) in [(1, 1000), (2, 300), (3, 700)] {
        assert_complete(report.xid(xid));
        assert_eq!(report.xid(xid).timing.written_bytes, length);
    }
    assert_eq!(report.connections[0].responder.sent.unmatched_placements, 0);
}

#[test]
fn writes_to_memory_of_ended_call_are_unmatched() {
    let mut world = World::connected();
    read(&mut world, 1, 1000);
    world.write(SERVER, segment(7, 1000, 0x1000), &data(1000));
    world.write(SERVER, segment(7, 1000, 0x1000), &data(10));
    let report = world.run();
    assert_complete(report.one());
    assert_eq!(report.one().timing.written_bytes, 1000);
    assert_eq!(report.connections[0].responder.sent.unmatched_placements, 2, "of four packets and of one");
}

/// Two Read segments of a call may name the same memory, in one chunk or in two. The server reads it
/// for each of them.
#[test]
fn segments_may_name_the_same_memory() {
    let memory = |length| segment(7, length, 0x1000);
    for lengths in [[1000, 1000], [1000, 600], [600, 1000]] {
        let mut world = World::connected();
        let total = lengths[0] + lengths[1];
        let mut call = msg(1);
        call.reads = lengths.map(|length| read_segment(WRITE_POSITION, memory(length))).to_vec();
        let arguments = format!("'handle' h0 {total} 2 {total}");
        world.send(CLIENT, &message(&call, &nfs3(1, 7, &arguments)));
        for length in lengths {
            world.read(SERVER, memory(length), &data(length as usize));
        }
        world.send(SERVER, &message(&msg(1), &reply(1, &format!("0 0 0 {total} 2 #8"))));
        let report = world.run();
        assert_complete(report.one());
        let timing = report.one().timing;
        assert_eq!((timing.requested_bytes, timing.read_bytes), (total.into(), total.into()), "{lengths:?}");
        assert_eq!(report.connections[0].requester.sent.unmatched_placements, 0);
    }
}

/// An operation of no bytes accesses no memory, so it needs none that was advertised.
#[test]
fn operations_without_bytes_are_not_unmatched() {
    let mut world = World::connected();
    let segments = [segment(7, 100, 0x1000), segment(0, 0, 0)];
    let mut call = msg(1);
    call.reads = segments.map(|part| read_segment(CALL_HEADER + 32, part)).to_vec();
    world.send(CLIENT, &message(&call, &nfs3(1, 7, "'handle' h0 100 2 100")));
    world.read(SERVER, segments[0], &data(100));
    world.read(SERVER, segments[1], &[]);
    world.send(SERVER, &message(&msg(1), &reply(1, "0 0 0 100 2 #8")));
    let report = world.run();
    let [connection] = &report.connections[..] else { panic!("one connection") };
    let sent = [connection.requester.sent, connection.responder.sent];
    assert_eq!(sent.map(|sent| sent.unmatched_placements), [0, 0]);
    assert_eq!(sent[1].read_requests, 2);
}

#[test]
fn misdirected_write_is_unmatched() {
    let mut world = World::connected();
    let mut call = msg(1);
    let chunk = segment(7, 100, 0x1000);
    call.writes = vec![vec![chunk]];
    world.send(CLIENT, &message(&call, &nfs3(1, 6, "'handle' h0 100")));
    world.write(SERVER, segment(8, 100, 0x1000), &data(100));
    world.write(SERVER, segment(7, 100, 0x0fff), &data(100));
    world.write(SERVER, segment(7, 100, 0x1064), &data(100));
    let mut answer = msg(1);
    answer.writes = vec![vec![chunk]];
    world.send(SERVER, &message(&answer, &reply(1, "0 0 100 1 100")));
    let report = world.run();
    let read = report.one();
    assert_eq!(read.timing.written_bytes, 0);
    let part = rdmascope_dissector::transaction::Part::WriteChunk(0);
    assert_eq!(read.reply.as_ref().unwrap().missing, [missing(part, 0, 100)]);
    assert!(!read.capture_gap, "there is no sign of a capture gap");
    assert_eq!(report.connections[0].responder.sent.unmatched_placements, 3);
}

#[test]
fn two_connections_may_use_the_same_xid() {
    let mut world = World::connected();
    world.add([0x33, 0x44], [70, 80]);
    world.connect();
    let (call, answer) = getattr(5);
    for (on, from, bytes) in
        [(0, CLIENT, &call), (1, CLIENT, &call), (0, SERVER, &answer), (1, SERVER, &answer)]
    {
        world.on = on;
        world.send(from, bytes);
    }
    let report = world.run();
    assert_eq!(outcomes(&report), [(5, Outcome::Completed); 2]);
    let connections: Vec<_> = report.transactions.iter().map(|each| each.connection).collect();
    assert_eq!(connections, [ConnectionId(1), ConnectionId(2)]);
}

#[test]
fn reused_outstanding_xid_ends_first_call() {
    let mut world = World::connected();
    let (call, answer) = getattr(5);
    world.send(CLIENT, &call);
    world.send(CLIENT, &call);
    world.send(SERVER, &answer);
    let report = world.run();
    assert_eq!(outcomes(&report), [(5, Outcome::NoReply), (5, Outcome::Completed)]);
    assert!(!report.transactions[0].capture_gap);
}

#[test]
fn outstanding_call_is_cut_off_unless_connection_closed() {
    let mut world = World::connected();
    world.send(CLIENT, &getattr(5).0);
    world.ack(SERVER);
    let cut_off = world.run();
    assert_eq!(outcomes(&cut_off), [(5, Outcome::CutOff)]);
    assert_eq!(cut_off.connections[0].state, State::Open);
    world.disconnect(SERVER);
    assert_eq!(outcomes(&world.run()), [(5, Outcome::NoReply)]);
}

#[test]
fn reply_without_call_is_a_transaction() {
    let mut world = World::connected();
    world.send(SERVER, &getattr(5).1);
    world.getattr_without_acks(6);
    let report = world.run();
    assert_eq!(outcomes(&report), [(5, Outcome::NoCall), (6, Outcome::Completed)]);
    let lone = &report.transactions[0];
    assert_eq!((lone.rpc_status, lone.status, lone.latency()), (Some(rpc::Status::Success), None, None));
    assert_eq!(lone.reply.as_ref().unwrap().rpc_xid, Some(Xid(5)));
}

#[test]
fn reply_without_call_belongs_to_paired_connection() {
    let mut world = World::new();
    world.send(SERVER, &getattr(5).1);
    world.getattr_without_acks(6);
    let report = world.run();
    assert_eq!(outcomes(&report), [(5, Outcome::NoCall), (6, Outcome::Completed)]);
    assert_eq!(report.connections.len(), 1);
    assert!(report.transactions.iter().all(|each| each.connection == report.connections[0].id));
}

#[test]
fn xids_may_be_replayed_on_next_connection() {
    // Addresses and queue pairs are the same; outstanding calls are repeated with the same XIDs and
    // memory.
    let mut world = World::connected();
    let mut call = msg(5);
    call.writes = vec![vec![segment(7, 1000, 0x1000)]];
    world.send(CLIENT, &message(&call, &nfs3(5, 6, "'handle' h0 1000")));
    world.write(SERVER, segment(7, 1000, 0x1000), &data(400));
    let [mut client, mut server] = world.connections[0];
    client.communication_id.0 += 0x100;
    server.communication_id.0 += 0x100;
    (client.psn, server.psn) = (client.psn.plus(5_000_000), server.psn.plus(3));
    world.connections[0] = [client, server];
    world.connect();
    read(&mut world, 5, 1000);
    let report = world.run();
    assert_eq!(outcomes(&report), [(5, Outcome::NoReply), (5, Outcome::Completed)]);
    assert_complete(&report.transactions[1]);
    assert_eq!(
        report.transactions.iter().map(|each| each.timing.written_bytes).collect::<Vec<_>>(),
        [400, 1000]
    );
    assert_eq!(report.connections.len(), 2);
    assert_eq!(report.connections[0].state, State::Closed);
}

/// The transaction of a GETATTR with RPCSEC_GSS. Arguments and results are given as they follow the
/// RPC headers.
fn gss(service: u32, arguments: &str, results: &str) -> Transaction {
    // RFC 2203, section 5.3.1: version 1, RPCSEC_GSS_DATA, sequence 9, service, a handle.
    let verifier = rpc::Auth { flavor: rpc::flavor::RPCSEC_GSS, body: b"mic." };
    with_credential(&format!("1 0 9 {service} 'ctx'"), verifier, arguments, results)
}

const NO_VERIFIER: rpc::Auth<'_> = rpc::Auth { flavor: rpc::flavor::NONE, body: &[] };

/// A GETATTR of NFSv3 with an RPCSEC_GSS credential.
fn with_credential(body: &str, verifier: rpc::Auth<'_>, arguments: &str, results: &str) -> Transaction {
    let body = xdr(body);
    let credential = rpc::Auth { flavor: rpc::flavor::RPCSEC_GSS, body: &body };
    let mut call = Vec::new();
    rpc::Call {
        xid: Xid(1),
        rpc_version: 2,
        program: 100_003,
        version: 3,
        procedure: 1,
        credential,
        verifier,
    }
    .build(&mut call);
    call.extend(xdr(arguments));
    let mut answer = Vec::new();
    rpc::Reply { xid: Xid(1), status: rpc::Status::Success, verifier: Some(verifier) }.build(&mut answer);
    answer.extend(xdr(results));
    let mut world = World::connected();
    world.send(CLIENT, &message(&msg(1), &call));
    world.send(SERVER, &message(&msg(1), &answer));
    let report = world.run();
    assert_complete(report.one());
    report.one().clone()
}

#[test]
fn krb5_is_parsed_like_any_call() {
    let getattr = gss(1, "'handle'", "2");
    assert_eq!((getattr.security, getattr.status), (Some(Security::Gss), Some(2)));
    assert!(getattr.details.operations[0].file_handle.is_some());
}

/// RFC 5403, section 3.4: version 2, rpc_gss_svc_channel_prot, and verifiers of AUTH_NONE.
#[test]
fn call_protected_by_its_channel_is_parsed_like_any_call() {
    let getattr = with_credential("2 0 9 4 'ctx'", NO_VERIFIER, "'handle'", "2");
    assert_eq!((getattr.security, getattr.status), (Some(Security::Gss), Some(2)));
    assert!(getattr.details.operations[0].file_handle.is_some());
}

#[test]
fn unknown_service_and_procedure_are_not_read() {
    for credential in ["2 0 9 5 'ctx'", "1 0 9 4 'ctx'", "1 9 9 1 'ctx'"] {
        let getattr = with_credential(credential, NO_VERIFIER, "'handle'", "2");
        assert_eq!((getattr.security, getattr.status), (Some(Security::GssUnknown), None), "{credential}");
        assert!(getattr.details.operations.is_empty());
    }
}

#[test]
fn krb5i_databody_is_parsed() {
    // RFC 2203, section 5.3.2.2: length, sequence number, arguments; then the checksum.
    let getattr = gss(2, "16 9 'handle' *28", "8 9 2 *28");
    assert_eq!((getattr.security, getattr.status), (Some(Security::GssIntegrity), Some(2)));
    assert!(getattr.details.operations[0].file_handle.is_some());
}

#[test]
fn krb5p_is_reported_as_opaque() {
    let getattr = gss(3, "*100", "*200");
    assert_eq!((getattr.security, getattr.status), (Some(Security::GssPrivacy), None));
    assert_eq!(getattr.procedure.map(|procedure| procedure.number), Some(1));
    assert_eq!(getattr.rpc_status, Some(rpc::Status::Success));
    assert!(getattr.details.operations.is_empty());
}

/// A Long Reply with this XID and its own handle: bytes written in two operations, and the reply
/// that returns the Reply chunk. `length` is that of the results after the reply header.
fn long_reply(world: &mut World, xid: u32, length: usize) -> usize {
    let payload = reply(xid, &format!("0 #{length}"));
    let half = payload.len() / 2;
    let handle = 0x100 + xid;
    for (offset, part) in [(0, &payload[..half]), (half, &payload[half..])] {
        world.write(SERVER, segment(handle, part.len() as u32, 0x4000 + offset as u64), part);
    }
    let mut answer = nomsg(xid);
    answer.reply = Some(vec![segment(handle, payload.len() as u32, 0x4000)]);
    world.send(SERVER, &message(&answer, &[]));
    payload.len()
}

/// The reply names the memory that was written for it, so the captured bytes are neither missing
/// nor unmatched.
#[test]
fn long_reply_without_call_has_its_written_bytes() {
    let mut world = World::connected();
    let length = long_reply(&mut world, 5, 40);
    world.getattr_without_acks(6);
    let report = world.run();
    assert_eq!(outcomes(&report), [(5, Outcome::NoCall), (6, Outcome::Completed)]);
    let lone = report.xid(5);
    assert_eq!(lone.rpc_status, Some(rpc::Status::Success));
    let answer = lone.reply.as_ref().unwrap();
    assert_eq!((answer.rpc_xid, answer.missing.len()), (Some(Xid(5)), 0));
    assert_eq!(lone.timing.written_bytes, length as u64);
    assert_eq!(report.connections[0].responder.sent.unmatched_placements, 0);
}

/// If a packet of it is missing too, only its bytes are missing.
#[test]
fn long_reply_without_call_lists_its_missing_bytes() {
    let mut world = World::connected();
    let first = world.frames.len();
    let length = long_reply(&mut world, 5, 40);
    let report = world.run_without([first]);
    let lone = report.xid(5);
    assert_eq!(lone.outcome, Outcome::NoCall);
    let missing = &lone.reply.as_ref().unwrap().missing;
    let half = length as u64 / 2;
    assert_eq!(missing[..], [Missing { part: Part::ReplyChunk, start: 0, end: Some(half) }]);
    // If no packet of it was captured, it may have been written before the capture began.
    let report = world.run_without([first, first + 1]);
    assert_eq!(report.xid(5).reply.as_ref().unwrap().missing[..], []);
}

/// A handle that a later call advertises belongs to that call, even after the reply to an earlier
/// call.
#[test]
fn readvertised_handle_belongs_to_later_call() {
    let mut world = World::connected();
    let payload = reply(5, "0 #40");
    let chunk = segment(0x105, payload.len() as u32, 0x4000);
    world.write(SERVER, chunk, &payload);
    // By the next packet it has waited long enough for the call.
    world.wait(10_000_000);
    world.ack(CLIENT);
    let mut call = msg(6);
    call.reply = Some(vec![chunk]);
    world.send(CLIENT, &message(&call, &nfs3(6, 1, "'handle'")));
    let mut answer = nomsg(5);
    answer.reply = Some(vec![chunk]);
    world.send(SERVER, &message(&answer, &[]));
    let later = reply(6, "0 #40");
    world.write(SERVER, chunk, &later);
    answer = nomsg(6);
    answer.reply = Some(vec![chunk]);
    world.send(SERVER, &message(&answer, &[]));
    world.ack(CLIENT);
    let report = world.run();
    assert_eq!(outcomes(&report), [(5, Outcome::NoCall), (6, Outcome::Completed)]);
    for xid in [5, 6] {
        assert_eq!(report.xid(xid).reply.as_ref().unwrap().rpc_xid, Some(Xid(xid)), "{xid}");
    }
}

/// A client uses one XID for all calls, one after the other. The frames of each call and its reply, by
/// index.
fn with_one_xid() -> (World, Vec<[usize; 2]>) {
    let mut world = World::connected();
    let pairs = (0..6).map(|_| {
        let call = world.frames.len();
        world.getattr(7);
        [call, call + 2]
    });
    let pairs = pairs.collect();
    (world, pairs)
}

/// The client acknowledges each reply before its next call, so a reply whose call the capture lacks is
/// not that of the next one. A reply that the capture lacks leaves one call without a reply.
#[test]
fn acknowledged_reply_is_not_that_of_a_later_call() {
    let (world, pairs) = with_one_xid();
    let ranges = (3..world.frames.len()).flat_map(|at| [0..at, at..at + 1]);
    for lost in ranges {
        let kept: Vec<usize> = (0..world.frames.len()).filter(|index| !lost.contains(index)).collect();
        let report = world.run_without(lost.clone());
        let found = |pair: &[usize; 2]| {
            let frames = pair.map(|index| kept.iter().position(|kept| *kept == index));
            frames.map(|at| at.map(|at| at as u64 + 1))
        };
        let expected: Vec<_> = pairs.iter().map(found).filter(|pair| *pair != [None; 2]).collect();
        let frame = |message: &Option<Message>| message.as_ref().map(|message| message.seen.frame);
        let paired: Vec<_> =
            report.transactions.iter().map(|each| [frame(&each.call), frame(&each.reply)]).collect();
        assert_eq!(paired, expected, "without frames {lost:?}");
    }
}
