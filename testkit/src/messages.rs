//! Builders of messages: headers, RPC messages, and XDR written as text.

use crate::world::CREDITS;
use rdmascope_wire::private_data::PrivateData;
use rdmascope_wire::rpcrdma::{Builder, Procedure, ReadSegment, Segment};
use rdmascope_wire::{Rkey, Xid, rpc};

/// RFC 8797 private data of a version 1 peer without remote invalidation.
///
/// # Panics
/// If RFC 8797 cannot express a size.
pub fn private_data(send: u32, receive: u32) -> Vec<u8> {
    let size = |bytes| rdmascope_wire::private_data::encode_size(bytes).unwrap();
    let mut out = Vec::new();
    let (send_size, receive_size) = (size(send), size(receive));
    PrivateData { version: 1, reserved: 0, remote_invalidation: false, send_size, receive_size }
        .build(&mut out);
    out
}

/// `length` bytes that vary with their position.
pub fn data(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 7 + index / 251) as u8).collect()
}

/// The memory of an R_Key, with its length in bytes and its address.
pub const fn segment(handle: u32, length: u32, offset: u64) -> Segment {
    Segment { handle: Rkey(handle), length, offset }
}

/// A segment of the Read list.
pub fn read_segment(position: u32, target: Segment) -> ReadSegment {
    ReadSegment { position, target }
}

/// A header without chunks.
pub fn header(xid: u32, procedure: Procedure) -> Builder {
    Builder::new(Xid(xid), CREDITS, procedure)
}

/// The header of an RDMA_MSG.
pub fn msg(xid: u32) -> Builder {
    header(xid, Procedure::Msg)
}

/// The header of an RDMA_NOMSG.
pub fn nomsg(xid: u32) -> Builder {
    header(xid, Procedure::Nomsg)
}

/// A header followed by the Payload stream.
pub fn message(header: &Builder, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    header.build(&mut out);
    out.extend_from_slice(payload);
    out
}

/// Length of the header of an RPC call with AUTH_NONE.
pub const CALL_HEADER: u32 = 40;
/// Length of the header of an accepted RPC reply with AUTH_NONE.
pub const REPLY_HEADER: u32 = 24;

/// The Position of the data of an NFS version 3 WRITE to a file handle of six bytes: file handle,
/// offset, count, stable, count of the data.
pub const WRITE_POSITION: u32 = CALL_HEADER + 12 + 8 + 4 + 4 + 4;

/// An RPC call of a program, version and procedure.
pub fn call_to(xid: u32, procedure: [u32; 3], arguments: &str) -> Vec<u8> {
    call_with(xid, procedure, &xdr(arguments))
}

/// The same with the bytes of the arguments.
pub fn call_with(xid: u32, [program, version, procedure]: [u32; 3], arguments: &[u8]) -> Vec<u8> {
    let none = rpc::Auth { flavor: rpc::flavor::NONE, body: &[] };
    let (credential, verifier) = (none, none);
    let mut out = Vec::new();
    rpc::Call { xid: Xid(xid), rpc_version: 2, program, version, procedure, credential, verifier }
        .build(&mut out);
    out.extend(arguments);
    out
}

/// A call of NFS version 3.
pub fn nfs3(xid: u32, procedure: u32, arguments: &str) -> Vec<u8> {
    call_to(xid, [100_003, 3, procedure], arguments)
}

/// A COMPOUND of NFS version 4.1 without a tag. `operations` is the count, then the operations.
pub fn compound(xid: u32, operations: &str) -> Vec<u8> {
    call_to(xid, [100_003, 4, 1], &format!("'' 1 {operations}"))
}

/// An accepted reply.
pub fn reply(xid: u32, results: &str) -> Vec<u8> {
    reply_with(xid, &xdr(results))
}

/// The same with the bytes of the results.
pub fn reply_with(xid: u32, results: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    rpc::Reply { xid: Xid(xid), status: rpc::Status::Success, verifier: None }.build(&mut out);
    out.extend(results);
    out
}

/// Converts XDR from text: `7` is a word, `h7` a hyper, `#16` sixteen bytes of fixed opaque data,
/// `'name'` counted opaque data with its padding, `*5` five bytes of counted opaque data.
///
/// # Panics
/// If a token is none of these.
pub fn xdr(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for token in text.split_whitespace() {
        if let Some(hyper) = token.strip_prefix('h') {
            out.extend(hyper.parse::<u64>().unwrap().to_be_bytes());
        } else if let Some(length) = token.strip_prefix('#') {
            out.resize(out.len() + length.parse::<usize>().unwrap(), 0x23);
        } else if let Some(length) = token.strip_prefix('*') {
            out.extend(opaque(&data(length.parse().unwrap())));
        } else if let Some(bytes) = token.strip_prefix('\'').and_then(|token| token.strip_suffix('\'')) {
            out.extend(opaque(bytes.as_bytes()));
        } else {
            out.extend(token.parse::<u32>().unwrap().to_be_bytes());
        }
    }
    out
}

/// Opaque data of variable length, with its count and padding.
pub fn opaque(bytes: &[u8]) -> Vec<u8> {
    let mut out = (bytes.len() as u32).to_be_bytes().to_vec();
    out.extend(bytes);
    out.resize(out.len().next_multiple_of(4), 0);
    out
}

/// GETATTR of NFS version 3: a short call and reply.
pub fn getattr(xid: u32) -> (Vec<u8>, Vec<u8>) {
    let call = message(&msg(xid), &nfs3(xid, 1, "'handle'"));
    let reply = message(&msg(xid), &reply(xid, "0 1 #80"));
    (call, reply)
}
