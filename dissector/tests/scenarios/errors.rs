//! Unusable headers, and RDMA_ERROR (RFC 8166, section 4.5).

use crate::report::*;
use rdmascope_dissector::transaction::{Outcome, Transaction};
use rdmascope_testkit::messages::*;
use rdmascope_testkit::world::*;
use rdmascope_wire::rpcrdma::{Builder, Error, Procedure};
use rdmascope_wire::{Cause, Layer, Xid};

/// The transaction of one Send of the client and the RDMA_ERROR that answers it.
fn refused(call: &[u8], answer: &Builder) -> Transaction {
    let mut world = World::connected();
    world.send(CLIENT, call);
    world.ack(SERVER);
    world.send(SERVER, &message(answer, &[]));
    world.ack(CLIENT);
    let report = world.run();
    let refused = report.one().clone();
    assert_eq!((refused.outcome, refused.error), (Outcome::TransportError, answer.error));
    assert_eq!(refused.reply.as_ref().unwrap().procedure, Procedure::Error);
    assert_eq!(refused.reply.as_ref().unwrap().message_length, None);
    assert_eq!(refused.rpc_status, None);
    refused
}

fn error(xid: u32, error: Error) -> Builder {
    let mut answer = header(xid, Procedure::Error);
    answer.error = Some(error);
    answer
}

fn err_chunk(xid: u32) -> Builder {
    error(xid, Error::Chunk)
}

#[test]
fn err_vers_refuses_unknown_version() {
    let mut call = msg(1);
    call.version = 9;
    // "The rdma_vers field MUST contain the same version that was in the rdma_vers field in the
    // failing request."
    let mut answer = error(1, Error::Version { low: 1, high: 1 });
    answer.version = 9;
    let refused = refused(&message(&call, &nfs3(1, 1, "'handle'")), &answer);
    let call = refused.call.as_ref().unwrap();
    assert_eq!((call.version, call.procedure, call.credits), (9, Procedure::Msg, CREDITS));
    assert_eq!((call.header_length, call.message_length), (16, None));
    assert_eq!((refused.procedure, refused.stop), (None, None), "version 9 is otherwise unknown");
    assert_eq!(refused.reply.as_ref().unwrap().version, 9);
}

#[test]
fn err_vers_may_have_version_of_server() {
    let mut call = msg(1);
    call.version = 9;
    let refused = refused(&message(&call, &[]), &error(1, Error::Version { low: 1, high: 2 }));
    assert_eq!(refused.reply.as_ref().unwrap().version, 1);
}

#[test]
fn err_chunk_refuses_call() {
    let refused = refused(&getattr(1).0, &err_chunk(1));
    assert_eq!(names(&refused), ["GETATTR"]);
    assert_eq!(refused.stop, None);
}

#[test]
fn unknown_error_code_refuses_call() {
    refused(&getattr(1).0, &error(1, Error::Unknown(3)));
}

#[test]
fn err_chunk_may_name_call_of_earlier_connection() {
    // RFC 8166, section 4.5.3: the Responder reports the XID once the connection is reestablished.
    let mut world = World::connected();
    world.send(SERVER, &message(&err_chunk(5), &[]));
    let report = world.run();
    let lone = report.one();
    assert_eq!((lone.outcome, lone.error, lone.xid), (Outcome::NoCall, Some(Error::Chunk), Xid(5)));
}

#[test]
fn header_cut_in_its_chunk_lists_is_truncated() {
    // 20 bytes: the four fixed fields and an empty Read list. Section 4.5 requires 28.
    let call = &getattr(1).0[..20];
    let refused = refused(call, &err_chunk(1));
    let stop = refused.call.as_ref().unwrap().stop.unwrap();
    assert_eq!((stop.layer, stop.offset, stop.needed, stop.available), (Layer::RpcRdma, 20, 4, 0));
    assert_eq!(stop.cause, Cause::TruncatedPacket);
    assert_eq!((refused.stop, refused.procedure), (None, None), "parsing did not reach the RPC message");
}

#[test]
fn send_without_four_fixed_fields_is_only_counted() {
    let mut world = World::connected();
    world.send(CLIENT, &getattr(1).0[..12]);
    let report = world.run();
    assert!(report.transactions.is_empty());
    assert_eq!(report.connections[0].requester.sent.other_sends, 1);
}

#[test]
fn discriminator_other_than_0_or_1_is_malformed() {
    // The Write list begins at byte 20, and the word of the Reply chunk at byte 24.
    for offset in [16, 20, 24] {
        let mut call = getattr(1).0;
        call[offset..offset + 4].copy_from_slice(&[0, 0, 0, 2]);
        let refused = refused(&call, &err_chunk(1));
        let stop = refused.call.as_ref().unwrap().stop.unwrap();
        assert_eq!((stop.layer, stop.offset, stop.cause), (Layer::RpcRdma, offset, Cause::Malformed));
        assert_eq!(refused.stop, None, "parsing did not reach the RPC message");
    }
}

#[test]
fn write_chunk_past_end_of_message_is_truncated() {
    let mut call = msg(1);
    call.writes = vec![vec![segment(1, 100, 0)]];
    let mut call = message(&call, &[]);
    // The count of segments, at byte 24, is set to 1000.
    call[24..28].copy_from_slice(&1000u32.to_be_bytes());
    let refused = refused(&call, &err_chunk(1));
    let stop = refused.call.as_ref().unwrap().stop.unwrap();
    assert_eq!((stop.offset, stop.needed, stop.cause), (28, 16_000, Cause::TruncatedPacket));
}

#[test]
fn unknown_procedure_is_malformed() {
    let refused = refused(&message(&header(1, Procedure::Unknown(9)), &[]), &err_chunk(1));
    let call = refused.call.as_ref().unwrap();
    assert_eq!(call.procedure, Procedure::Unknown(9));
    let stop = call.stop.unwrap();
    assert_eq!((stop.layer, stop.offset, stop.cause), (Layer::RpcRdma, 12, Cause::Malformed));
    assert_eq!(refused.stop, None);
}

#[test]
fn nomsg_without_chunk_has_no_message_length() {
    // Section 4.5.2 lists this among the XDR errors. Neither a chunk at another Position nor the
    // Reply chunk gives the length of the call.
    let mut with_others = nomsg(1);
    with_others.reads = vec![read_segment(64, segment(6, 512, 0x100))];
    with_others.reply = Some(vec![segment(7, 4096, 0x1000)]);
    for header in [nomsg(1), with_others] {
        let refused = refused(&message(&header, &[]), &err_chunk(1));
        let call = refused.call.as_ref().unwrap();
        assert_eq!((call.procedure, call.message_length), (Procedure::Nomsg, None));
    }
}

#[test]
fn msgp_is_parsed() {
    let mut call = header(1, Procedure::Msgp);
    call.padding = Some((64, 1024));
    let refused = refused(&message(&call, &nfs3(1, 1, "'handle'")), &err_chunk(1));
    assert_eq!(names(&refused), ["GETATTR"]);
    assert_eq!(refused.call.as_ref().unwrap().header_length, 36);
}

#[test]
fn header_xid_may_differ_from_rpc_xid() {
    let mut world = World::connected();
    world.send(CLIENT, &message(&msg(1), &nfs3(99, 1, "'handle'")));
    world.send(SERVER, &message(&msg(1), &reply(98, "0 1 #80")));
    let report = world.run();
    let getattr = report.one();
    assert_eq!((getattr.xid, getattr.outcome), (Xid(1), Outcome::Completed));
    assert_eq!(getattr.call.as_ref().unwrap().rpc_xid, Some(Xid(99)));
    assert_eq!(getattr.reply.as_ref().unwrap().rpc_xid, Some(Xid(98)));
}

#[test]
fn short_arguments_stop_in_upper_layer() {
    let call = message(&msg(1), &nfs3(1, 6, "'handle' h0"));
    let mut world = World::connected();
    world.send(CLIENT, &call);
    let mut garbage = Vec::new();
    let status = rdmascope_wire::rpc::Status::GarbageArguments;
    rdmascope_wire::rpc::Reply { xid: Xid(1), status, verifier: None }.build(&mut garbage);
    world.send(SERVER, &message(&msg(1), &garbage));
    let report = world.run();
    let read = report.one();
    assert_eq!((read.outcome, read.rpc_status), (Outcome::Completed, Some(status)));
    let stop = read.stop.unwrap();
    assert_eq!((stop.layer, stop.offset, stop.available), (Layer::UpperLayer, 60, 0));
    assert_eq!(stop.cause, Cause::TruncatedPacket);
}
