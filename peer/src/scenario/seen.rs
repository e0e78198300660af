//! Converts received messages into observed reactions.

use super::message::Message;
use super::reaction::{CallbackSeen, Observed, PrivateDataSeen, ReplyChunks, ReplySeen};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use rdmascope_wire::rpc::{self, Kind, Reply};
use rdmascope_wire::rpcrdma::{Header, MINIMUM_LENGTH, Procedure, Segment, VERSION};
use rdmascope_wire::xdr::Reader;
use rdmascope_wire::{Layer, Rkey, Xid, private_data};

/// Classifies the private data of a REP.
pub(super) fn private_data(bytes: &[u8]) -> PrivateDataSeen {
    match private_data::find(bytes) {
        None => PrivateDataSeen::Absent,
        Some(found) => found.valid().map_or(PrivateDataSeen::Invalid, PrivateDataSeen::Valid),
    }
}

/// Classifies a received message. Returns its XID if it answers a message of the scenario.
pub(super) fn message(
    bytes: &[u8],
    invalidated: bool,
    retransmitted: bool,
    messages: &BTreeMap<u32, Message>,
    memory: impl Fn(Rkey, u64, u32) -> Option<Vec<u8>>,
) -> (Option<u32>, Observed) {
    let other = |text: &dyn core::fmt::Display| (None, Observed::Message(format!("{text}")));
    let Ok(header) = Header::parse(bytes) else {
        return other(&format_args!("a message of {} bytes", bytes.len()));
    };
    if let Some(xid) = called(&header, bytes) {
        let seen = CallbackSeen {
            same_version: header.version == VERSION,
            same_xid: xid == header.xid,
            chunks: header.reads.count() > 0 || header.writes.count() > 0 || header.reply.is_some(),
            credits: header.credits,
        };
        return (None, Observed::Callback(seen));
    }
    let Some(call) = messages.get(&header.xid.0) else {
        return other(&format_args!("{} with another XID", header.procedure));
    };
    if let Some(error) = header.error {
        let same_version = call.vers.map(|vers| vers == header.version);
        return (Some(call.xid), Observed::Error { error, same_version, credits: header.credits });
    }
    if header.stop.is_some() || header.version != VERSION {
        return other(&format_args!("unreadable {} of version {}", header.procedure, header.version));
    }
    let read_chunk = has_read_chunk(&header);
    let segments: Vec<Segment> = header.reply.iter().flat_map(|chunk| chunk.segments()).collect();
    let stream = match header.procedure {
        Procedure::Msg => Some(bytes[header.length..].to_vec()),
        // The Payload stream is still in the target's memory.
        Procedure::Nomsg if read_chunk => None,
        Procedure::Nomsg => segments
            .iter()
            .map(|segment| memory(segment.handle, segment.offset, segment.length))
            .collect::<Option<Vec<_>>>()
            .map(|parts| parts.concat()),
        procedure => return other(&procedure),
    };
    let reply = stream.as_deref().and_then(|stream| Reply::parse(&mut Reader::new(stream, Layer::Rpc)).ok());
    let status = reply.filter(|reply| reply.xid == header.xid).map(|reply| reply.status);
    let writes: Vec<(usize, u64)> =
        header.writes.map(|chunk| (chunk.segment_count(), chunk.length())).collect();
    let offered: Vec<usize> = call.reply.into_iter().collect();
    let returned: Vec<(usize, u64)> =
        header.reply.iter().map(|chunk| (chunk.segment_count(), chunk.length())).collect();
    let seen = ReplySeen {
        status,
        credits: header.credits,
        long: header.procedure == Procedure::Nomsg && !read_chunk,
        read_chunk,
        length: bytes.len(),
        invalidated,
        writes: chunks(&call.writes, &writes),
        reply_chunk: chunks(&offered, &returned),
        retransmitted,
    };
    (Some(call.xid), Observed::Reply(seen))
}

/// Returns whether the Payload stream of a reply is in a Position Zero Read chunk (reliable-reply
/// draft, section 4.1).
fn has_read_chunk(header: &Header<'_>) -> bool {
    let mut reads = header.reads;
    header.procedure == Procedure::Nomsg && !reads.is_empty() && reads.all(|read| read.position == 0)
}

/// Returns the XID of the RPC call in an RDMA_MSG, if there is one.
fn called(header: &Header<'_>, bytes: &[u8]) -> Option<Xid> {
    // For an unknown version, assume a header without chunks.
    let length = if header.version == VERSION { header.length } else { MINIMUM_LENGTH };
    let stream =
        bytes.get(length..).filter(|_| header.procedure == Procedure::Msg && header.error.is_none())?;
    match rpc::peek(stream) {
        Ok((xid, Kind::Call)) => Some(xid),
        _ => None,
    }
}

fn chunks(offered: &[usize], returned: &[(usize, u64)]) -> ReplyChunks {
    let same = offered.len() == returned.len()
        && offered.iter().zip(returned).all(|(offered, returned)| *offered == returned.0);
    if offered.is_empty() == returned.is_empty() && same {
        let unused = returned.iter().all(|chunk| chunk.1 == 0);
        if unused { ReplyChunks::Unused } else { ReplyChunks::Used }
    } else if returned.is_empty() {
        ReplyChunks::Missing
    } else {
        ReplyChunks::Different
    }
}
