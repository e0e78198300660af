//! A reply that is ready to send, in parts.

use super::responder::{Incoming, empty, fill};
use super::{Mechanism, Reply, Sent, Session, SessionError, reduce};
use crate::endpoint::Endpoint;
use alloc::vec::Vec;
use core::ops::Range;
use rdmascope_wire::rpcrdma::{Builder, Procedure, Segment};
use rdmascope_wire::{Rkey, Xid};

/// A reply that is ready to send. The caller may change any part.
#[derive(Clone, Debug)]
pub struct Composed {
    /// The header, with the returned chunks of the call.
    pub header: Builder,
    /// The inline part of the Payload stream: all of it, or nothing if a chunk holds it.
    pub payload: Vec<u8>,
    /// How the Payload stream is conveyed.
    pub mechanism: Mechanism,
    /// The RDMA Writes that precede the reply: segments and bytes.
    pub writes: Vec<(Segment, Vec<u8>)>,
    /// The handle that the SEND invalidates, if both sides support that.
    pub invalidate: Option<Rkey>,
    /// The Write list of the call.
    pub offered_writes: Vec<Vec<Segment>>,
    /// The Reply chunk of the call.
    pub offered_reply: Option<Vec<Segment>>,
}

/// RDMA Writes: segments and ranges of bytes.
type Pushes = Vec<(Segment, Range<usize>)>;

impl Session {
    /// Composes the reply to a call of the remote side, which then counts as answered. `None`: the
    /// reply does not fit the chunks of the call, and ERR_CHUNK was sent.
    pub fn compose(
        &mut self,
        endpoint: &mut Endpoint,
        xid: Xid,
        reply: &Reply,
    ) -> Result<Option<Composed>, SessionError> {
        if reduce(&reply.message, &reply.reduce).is_none() {
            return Err(SessionError::Item);
        }
        let incoming = self.incoming.remove(&xid).ok_or(SessionError::Xid)?;
        let mut header = Builder::new(xid, self.config.credits.max(1), Procedure::Msg);
        // Each item belongs to the Write chunk at its index. Without a chunk, or with an empty one,
        // the item stays inline (section 4.3.2.3).
        let mut reduced: Vec<Range<usize>> = Vec::new();
        let mut pushes: Vec<(Segment, Range<usize>)> = Vec::new();
        let mut items = reply.reduce.iter();
        for chunk in &incoming.writes {
            let item = items.next().cloned();
            let item = item.filter(|_| !chunk.is_empty());
            let Some(returned) = fill(chunk, item.clone().unwrap_or(0..0), &mut pushes) else {
                return self.too_long(endpoint, xid).map(|_| None);
            };
            reduced.extend(item);
            header.writes.push(returned);
        }
        let mut payload = reduce(&reply.message, &reduced).ok_or(SessionError::Item)?;
        // The Reply chunk is returned even if it is unused, with the number of bytes in it (section
        // 4.3.3).
        header.reply = incoming.reply.as_ref().map(|chunk| empty(chunk));
        let Some((mechanism, long)) = self.convey(endpoint, &incoming, &mut header, &payload) else {
            return self.too_long(endpoint, xid).map(|_| None);
        };
        let mut writes: Vec<(Segment, Vec<u8>)> =
            pushes.into_iter().map(|(segment, range)| (segment, reply.message[range].to_vec())).collect();
        writes.extend(long.into_iter().map(|(segment, range)| (segment, payload[range].to_vec())));
        if mechanism != Mechanism::Send {
            payload.clear();
        }
        let invalidate = incoming.handle().filter(|_| self.negotiated.remote_invalidation);
        Ok(Some(Composed {
            header,
            payload,
            writes,
            mechanism,
            invalidate,
            offered_writes: incoming.writes,
            offered_reply: incoming.reply,
        }))
    }

    /// Chooses the place of the Payload stream and completes the header. Returns the RDMA Writes to
    /// the Reply chunk; `None` if the stream fits nowhere.
    fn convey(
        &mut self,
        endpoint: &mut Endpoint,
        incoming: &Incoming,
        header: &mut Builder,
        payload: &[u8],
    ) -> Option<(Mechanism, Pushes)> {
        let mut bytes = Vec::new();
        header.build(&mut bytes);
        let fits_inline = bytes.len() + payload.len() <= self.send_threshold as usize;
        let mut long = Vec::new();
        let filled = incoming.reply.as_ref().and_then(|chunk| fill(chunk, 0..payload.len(), &mut long));
        let mechanism = self.mechanism(fits_inline, filled.is_some())?;
        match mechanism {
            Mechanism::Send => long.clear(),
            Mechanism::ReplyChunk => header.reply = filled,
            Mechanism::ReadChunk => {
                long.clear();
                let room = (self.send_threshold as usize).saturating_sub(bytes.len());
                header.reads = self.offer(endpoint, header.xid, payload, room)?;
            }
        }
        if mechanism != Mechanism::Send {
            header.procedure = Procedure::Nomsg;
        }
        Some((mechanism, long))
    }

    /// Returns the first possible mechanism in the configured order.
    fn mechanism(&self, fits_inline: bool, fits_reply_chunk: bool) -> Option<Mechanism> {
        use Mechanism::{ReadChunk, ReplyChunk, Send};
        let order: &[Mechanism] = match self.config.reply_mechanism {
            None => &[Send, ReplyChunk, ReadChunk],
            Some(Send) => &[Send],
            Some(ReplyChunk) => &[ReplyChunk, Send, ReadChunk],
            Some(ReadChunk) => &[ReadChunk, Send, ReplyChunk],
        };
        let is_possible = |mechanism: &&Mechanism| match mechanism {
            Send => fits_inline,
            ReplyChunk => fits_reply_chunk,
            ReadChunk => self.config.reliable_reply.is_some(),
        };
        order.iter().find(is_possible).copied()
    }

    /// Sends a composed reply.
    pub fn send_composed(
        &mut self,
        endpoint: &mut Endpoint,
        composed: Composed,
    ) -> Result<Sent, SessionError> {
        let Composed { header, payload, mechanism, writes, invalidate, .. } = composed;
        for (segment, bytes) in writes {
            endpoint.write(self.connection, segment.handle, segment.offset, bytes)?;
        }
        self.grants = header.credits;
        self.post_message(endpoint, &header, &payload, invalidate)?;
        Ok(Sent::Reply(mechanism))
    }
}
