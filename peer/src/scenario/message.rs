//! Builds the messages of `send` steps.

use super::payload;
use super::step::{ErrorFields, Fraction, Kind, MessageError, NamedError, Payload, Procedure, Segment, Send};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use rdmascope_wire::rpcrdma::{self, Builder, Error, ReadSegment};
use rdmascope_wire::{Rkey, Xid};

/// Registered memory: handle, address, length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Registered {
    pub(super) rkey: Rkey,
    pub(super) address: u64,
    pub(super) length: u32,
}

/// The parts of a sent message that its answer is compared with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Message {
    /// Its XID.
    pub(super) xid: u32,
    /// The rdma_vers that is sent; `None` if fewer than eight bytes are sent.
    pub(super) vers: Option<u32>,
    /// Number of segments in each Write chunk.
    pub(super) writes: Vec<usize>,
    /// Number of segments in the Reply chunk, if there is one.
    pub(super) reply: Option<usize>,
}

/// Bytes to store in named memory before the message is sent.
pub(super) type Stores = Vec<(String, Vec<u8>)>;

fn segments(chunk: &[Segment], memory: &BTreeMap<String, Registered>) -> Vec<rpcrdma::Segment> {
    let mut out = Vec::new();
    for segment in chunk {
        let registered = segment.memory.as_ref().and_then(|name| memory.get(name));
        let address = registered.map_or(0, |memory| memory.address).wrapping_add(segment.at);
        let rest = registered.map_or(0, |memory| u64::from(memory.length).saturating_sub(segment.at));
        let length = segment.length.unwrap_or(u32::try_from(rest).unwrap_or(u32::MAX));
        let handle = segment.handle.map_or(registered.map_or(Rkey(0), |memory| memory.rkey), Rkey);
        for number in 0..u64::from(segment.times.unwrap_or(1)) {
            let offset = segment.address.unwrap_or(address);
            let offset = offset.wrapping_add(number.wrapping_mul(u64::from(length)));
            out.push(rpcrdma::Segment { handle, length, offset });
        }
    }
    out
}

/// Returns the rdma_vers of a message: its second word.
pub(super) fn version(bytes: &[u8]) -> Option<u32> {
    bytes.get(4..)?.first_chunk().map(|word| u32::from_be_bytes(*word))
}

/// Converts rdma_proc.
pub(super) fn procedure(procedure: Procedure) -> rpcrdma::Procedure {
    match procedure {
        Procedure::Known(Kind::Msg) => rpcrdma::Procedure::Msg,
        Procedure::Known(Kind::Nomsg) => rpcrdma::Procedure::Nomsg,
        Procedure::Known(Kind::Msgp) => rpcrdma::Procedure::Msgp,
        Procedure::Known(Kind::Done) => rpcrdma::Procedure::Done,
        Procedure::Known(Kind::Error) => rpcrdma::Procedure::Error,
        Procedure::Number(number) => rpcrdma::Procedure::from(number),
    }
}

/// Converts the error of an RDMA_ERROR.
pub(super) const fn error(error: ErrorFields) -> Error {
    match error.code {
        MessageError::Named(NamedError::Vers) => Error::Version { low: error.low, high: error.high },
        MessageError::Named(NamedError::Chunk) => Error::Chunk,
        MessageError::Number(number) => Error::Unknown(number),
    }
}

/// Changes a message: replaces bytes, truncates it, appends bytes, and pads it with zeros.
pub(super) fn modify(
    bytes: &mut Vec<u8>,
    patch: &[Fraction],
    truncate: Option<usize>,
    append: Option<&str>,
    pad_to: Option<usize>,
) {
    for patch in patch {
        let new = payload::from_digits(&patch.bytes).unwrap_or_default();
        let end = patch.at + new.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[patch.at..end].copy_from_slice(&new);
    }
    bytes.truncate(truncate.unwrap_or(usize::MAX));
    bytes.extend(append.and_then(payload::from_digits).unwrap_or_default());
    if let Some(length) = pad_to.filter(|length| *length > bytes.len()) {
        bytes.resize(length, 0);
    }
}

/// Builds the message of a step and its bytes, with these XIDs in header and Payload stream.
/// `results` belong to the callback that it answers.
pub(super) fn build(
    send: &Send,
    xid: u32,
    payload_xid: u32,
    results: &[u8],
    memory: &BTreeMap<String, Registered>,
) -> (Message, Vec<u8>, Stores) {
    let procedure = procedure(send.proc.unwrap_or(Procedure::Known(Kind::Msg)));
    let mut header = Builder::new(Xid(xid), send.credits.unwrap_or(32), procedure);
    header.version = send.vers.unwrap_or(rpcrdma::VERSION);
    if procedure == rpcrdma::Procedure::Msgp {
        header.padding = Some((send.align.unwrap_or(0), send.threshold.unwrap_or(0)));
    }
    header.error = send.error.map(error);
    for entry in &send.reads {
        let targets = segments(core::slice::from_ref(&entry.segment), memory);
        header
            .reads
            .extend(targets.into_iter().map(|target| ReadSegment { position: entry.position, target }));
    }
    header.writes = send.writes.iter().map(|chunk| segments(chunk, memory)).collect();
    header.reply = send.reply.as_ref().map(|chunk| segments(chunk, memory));

    let built = payload::build(&send.payload, payload_xid, results);
    let mut stores = Stores::new();
    if let (Some(item), Payload::Write(arguments)) = (built.item, &send.payload) {
        stores.extend(arguments.into.clone().map(|name| (name, item)));
    }
    let mut bytes = Vec::new();
    header.build(&mut bytes);
    match &send.into {
        Some(name) => stores.push((name.clone(), built.stream)),
        None => bytes.extend(built.stream),
    }
    modify(&mut bytes, &send.patch, send.truncate, send.append.as_deref(), send.pad_to);
    let message = Message {
        xid,
        vers: version(&bytes),
        writes: header.writes.iter().map(Vec::len).collect(),
        reply: header.reply.as_ref().map(Vec::len),
    };
    (message, bytes, stores)
}
