//! Builders for messages: headers, RPC messages, and XDR written as text.

use crate::world::CREDITS;
use rdmascope_dissector::transaction::{Missing, Part, Transaction};
use rdmascope_wire::private_data::PrivateData;
use rdmascope_wire::rpcrdma::{Builder, Procedure, ReadSegment, Segment};
use rdmascope_wire::{Rkey, Xid, rpc};

/// RFC 8797 private data of a version 1 peer without remote invalidation.
pub(crate) fn private_data(send: u32, receive: u32) -> Vec<u8> {
    let size = |bytes| rdmascope_wire::private_data::encode_size(bytes).unwrap();
    let mut out = Vec::new();
    let (send_size, receive_size) = (size(send), size(receive));
    PrivateData { version: 1, reserved: 0, remote_invalidation: false, send_size, receive_size }
        .build(&mut out);
    out
}

/// `length` bytes that vary with their position.
pub(crate) fn data(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 7 + index / 251) as u8).collect()
}

pub(crate) const fn segment(handle: u32, length: u32, offset: u64) -> Segment {
    Segment { handle: Rkey(handle), length, offset }
}

pub(crate) fn read_segment(position: u32, target: Segment) -> ReadSegment {
    ReadSegment { position, target }
}

pub(crate) fn missing(part: Part, start: u64, end: u64) -> Missing {
    Missing { part, start, end: Some(end) }
}

/// A header without chunks.
pub(crate) fn header(xid: u32, procedure: Procedure) -> Builder {
    Builder::new(Xid(xid), CREDITS, procedure)
}

/// The header of an RDMA_MSG.
pub(crate) fn msg(xid: u32) -> Builder {
    header(xid, Procedure::Msg)
}

/// The header of an RDMA_NOMSG.
pub(crate) fn nomsg(xid: u32) -> Builder {
    header(xid, Procedure::Nomsg)
}

/// A header followed by the Payload stream.
pub(crate) fn message(header: &Builder, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    header.build(&mut out);
    out.extend_from_slice(payload);
    out
}

/// Length of the header of an RPC call with AUTH_NONE.
pub(crate) const CALL_HEADER: u32 = 40;
/// Length of the header of an accepted RPC reply with AUTH_NONE.
pub(crate) const REPLY_HEADER: u32 = 24;

/// An RPC call of a program, version and procedure.
pub(crate) fn call_to(xid: u32, [program, version, procedure]: [u32; 3], arguments: &str) -> Vec<u8> {
    let none = rpc::Auth { flavor: rpc::flavor::NONE, body: &[] };
    let (credential, verifier) = (none, none);
    let mut out = Vec::new();
    rpc::Call { xid: Xid(xid), rpc_version: 2, program, version, procedure, credential, verifier }
        .build(&mut out);
    out.extend(xdr(arguments));
    out
}

/// A call of NFS version 3.
pub(crate) fn nfs3(xid: u32, procedure: u32, arguments: &str) -> Vec<u8> {
    call_to(xid, [100_003, 3, procedure], arguments)
}

/// A COMPOUND of NFS version 4.1 without a tag. `operations` is the count, then the operations.
pub(crate) fn compound(xid: u32, operations: &str) -> Vec<u8> {
    call_to(xid, [100_003, 4, 1], &format!("'' 1 {operations}"))
}

/// An accepted reply.
pub(crate) fn reply(xid: u32, results: &str) -> Vec<u8> {
    let mut out = Vec::new();
    rpc::Reply { xid: Xid(xid), status: rpc::Status::Success, verifier: None }.build(&mut out);
    out.extend(xdr(results));
    out
}

/// Converts XDR from text: `7` is a word, `h7` a hyper, `#16` sixteen bytes of fixed opaque data,
/// `'name'` counted opaque data with its padding, `*5` five bytes of counted opaque data.
pub(crate) fn xdr(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let opaque = |out: &mut Vec<u8>, bytes: &[u8]| {
        out.extend((bytes.len() as u32).to_be_bytes());
        out.extend(bytes);
        out.resize(out.len().next_multiple_of(4), 0);
    };
    for token in text.split_whitespace() {
        if let Some(hyper) = token.strip_prefix('h') {
            out.extend(hyper.parse::<u64>().unwrap().to_be_bytes());
        } else if let Some(length) = token.strip_prefix('#') {
            out.resize(out.len() + length.parse::<usize>().unwrap(), 0x23);
        } else if let Some(length) = token.strip_prefix('*') {
            opaque(&mut out, &data(length.parse().unwrap()));
        } else if let Some(bytes) = token.strip_prefix('\'').and_then(|token| token.strip_suffix('\'')) {
            opaque(&mut out, bytes.as_bytes());
        } else {
            out.extend(token.parse::<u32>().unwrap().to_be_bytes());
        }
    }
    out
}

/// GETATTR of NFS version 3: a short call and reply.
pub(crate) fn getattr(xid: u32) -> (Vec<u8>, Vec<u8>) {
    let call = message(&msg(xid), &nfs3(xid, 1, "'handle'"));
    let reply = message(&msg(xid), &reply(xid, "0 1 #80"));
    (call, reply)
}

/// The names of the operations.
pub(crate) fn names(transaction: &Transaction) -> Vec<&'static str> {
    transaction.details.operations.iter().map(|operation| operation.name()).collect()
}

/// Checks that neither message of a transaction has missing bytes.
#[track_caller]
pub(crate) fn assert_complete(transaction: &Transaction) {
    for message in transaction.messages() {
        assert_eq!(message.missing, []);
        assert_eq!(message.stop, None);
    }
    assert_eq!(transaction.stop, None);
    assert!(!transaction.capture_gap);
}
