//! Recorded replies, whose items are already separate from the Payload stream.

use super::responder::{empty, fill};
use super::{Conveyance, Mechanism, Returned, Sent, Session, SessionError};
use crate::endpoint::Endpoint;
use alloc::vec::Vec;
use core::ops::Range;
use rdmascope_wire::Xid;
use rdmascope_wire::rpcrdma::{Builder, Procedure, Segment};

/// A recorded reply after reduction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedReply {
    /// The Payload stream, from the XID on.
    pub stream: Vec<u8>,
    /// The item of each Write chunk of the call, in order.
    pub items: Vec<Vec<u8>>,
    /// How to convey it, as far as the chunks of the call and the inline threshold allow. If the
    /// call has other segments than recorded, each chunk is filled in the order of its segments.
    pub conveyance: Conveyance,
}

impl Session {
    /// Answers a call of the remote side with a reduced reply. If the reply does not fit the
    /// chunks, the answer is ERR_CHUNK.
    ///
    /// Memory is invalidated if the remote side set the R flag, regardless of this side, because a
    /// recorded Responder may have done so.
    pub fn reply_recorded(
        &mut self,
        endpoint: &mut Endpoint,
        xid: Xid,
        reply: RecordedReply,
    ) -> Result<Sent, SessionError> {
        let incoming = self.incoming.remove(&xid).ok_or(SessionError::Xid)?;
        let RecordedReply { stream: mut payload, items, conveyance } = reply;
        let mut header = Builder::new(xid, self.config.credits.max(1), Procedure::Msg);
        let mut writes = Vec::new();
        let mut fits = items.len() <= incoming.writes.len();
        for (index, chunk) in incoming.writes.iter().enumerate() {
            let recorded = conveyance.writes.get(index);
            let item = items.get(index).map_or(&[][..], Vec::as_slice);
            if recorded == Some(&Returned::Absent) && item.is_empty() {
                continue;
            }
            let returned = lay(chunk, recorded, item, &mut writes);
            fits &= returned.is_some();
            header.writes.extend(returned);
        }
        let recorded = conveyance.reply.as_ref();
        header.reply = match (&incoming.reply, recorded) {
            (Some(_), Some(Returned::Absent)) | (None, _) => None,
            (Some(chunk), recorded) => as_recorded(chunk, recorded).or_else(|| Some(empty(chunk))),
        };
        let mut bytes = Vec::new();
        header.build(&mut bytes);
        let is_long = conveyance.mechanism == Mechanism::ReplyChunk;
        let mut mechanism = Mechanism::Send;
        if is_long || bytes.len() + payload.len() > self.send_threshold as usize {
            mechanism = Mechanism::ReplyChunk;
            let chunk = incoming.reply.as_ref();
            let returned = chunk.and_then(|chunk| lay(chunk, recorded, &payload, &mut writes));
            fits &= returned.is_some();
            header.reply = returned;
            header.procedure = Procedure::Nomsg;
        }
        if !fits {
            return self.too_long(endpoint, xid);
        }
        for (segment, bytes) in writes {
            endpoint.write(self.connection, segment.handle, segment.offset, bytes)?;
        }
        if header.procedure == Procedure::Nomsg {
            payload.clear();
        }
        let named = conveyance.invalidated.and_then(|memory| incoming.named(memory));
        self.grants = header.credits;
        self.post_message(endpoint, &header, &payload, named.filter(|_| self.takes_invalidation))?;
        Ok(Sent::Reply(mechanism))
    }
}

/// Returns the chunk with the recorded lengths; `None` if its segments differ from the recorded
/// ones.
fn as_recorded(chunk: &[Segment], recorded: Option<&Returned>) -> Option<Vec<Segment>> {
    let lengths = recorded?.lengths()?;
    let fits = |(segment, length): (&Segment, &u32)| *length <= segment.length;
    let is_like = lengths.len() == chunk.len() && chunk.iter().zip(lengths).all(fits);
    is_like
        .then(|| chunk.iter().zip(lengths).map(|(segment, length)| Segment { length: *length, ..*segment }))
        .map(Iterator::collect)
}

/// Distributes bytes over the segments of a chunk as recorded if possible, otherwise in order.
/// Returns the chunk with the used lengths, or `None` if it is too small.
fn lay(
    chunk: &[Segment],
    recorded: Option<&Returned>,
    bytes: &[u8],
    writes: &mut Vec<(Segment, Vec<u8>)>,
) -> Option<Vec<Segment>> {
    let recorded = as_recorded(chunk, recorded);
    if let Some(returned) = recorded.filter(|returned| Segment::total(returned) == bytes.len() as u64) {
        let mut rest = bytes;
        for segment in returned.iter().filter(|segment| segment.length > 0) {
            let (part, after) = rest.split_at_checked(segment.length as usize)?;
            writes.push((*segment, part.to_vec()));
            rest = after;
        }
        return Some(returned);
    }
    let mut parts: Vec<(Segment, Range<usize>)> = Vec::new();
    let returned = fill(chunk, 0..bytes.len(), &mut parts)?;
    let written = parts.into_iter().map(|(segment, range)| (segment, bytes[range].to_vec()));
    writes.extend(written);
    Some(returned)
}
