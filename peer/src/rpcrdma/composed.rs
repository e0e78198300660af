//! A reply that is ready to be sent, in its parts.

use super::responder::{empty, fill};
use super::{Reply, Sent, Session, SessionError, reduce};
use crate::endpoint::Endpoint;
use alloc::vec::Vec;
use core::ops::Range;
use rdmascope_wire::rpcrdma::{Builder, MINIMUM_LENGTH, Procedure, Segment};
use rdmascope_wire::{Rkey, Xid};

/// A reply that is ready to be sent. Whoever sends it may change any part.
#[derive(Clone, Debug)]
pub struct Composed {
    /// The header, with the chunks of the call as they are returned.
    pub header: Builder,
    /// What stands behind it: the Payload stream; empty where that goes into the Reply chunk.
    pub payload: Vec<u8>,
    /// What is written into memory of the Requester first: where, and the bytes.
    pub writes: Vec<(Segment, Vec<u8>)>,
    /// The handle that the SEND invalidates, where both sides agreed on that.
    pub invalidate: Option<Rkey>,
    /// The Write list of the call, with the lengths that were offered.
    pub offered_writes: Vec<Vec<Segment>>,
    /// Its Reply chunk, likewise.
    pub offered_reply: Option<Vec<Segment>>,
}

impl Session {
    /// Takes a call of the remote side as answered, and composes its reply. `None`: it does not fit the chunks of the call, and
    /// ERR_CHUNK was sent.
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
        // Each item has the Write chunk at its place; where that is empty, or there is none, the item stays inline (section 4.3.2.3).
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
        // The Reply chunk comes back whether or not it is used, with what it holds (section 4.3.3).
        header.reply = incoming.reply.as_ref().map(|chunk| empty(chunk));
        let mut bytes = Vec::new();
        header.build(&mut bytes);
        debug_assert!(bytes.len() >= MINIMUM_LENGTH);
        let mut long = Vec::new();
        if bytes.len() + payload.len() > self.send_threshold as usize {
            let returned = incoming.reply.as_ref().and_then(|chunk| fill(chunk, 0..payload.len(), &mut long));
            let Some(returned) = returned else { return self.too_long(endpoint, xid).map(|_| None) };
            header.reply = Some(returned);
            header.procedure = Procedure::Nomsg;
        }
        let mut writes: Vec<(Segment, Vec<u8>)> =
            pushes.into_iter().map(|(segment, range)| (segment, reply.message[range].to_vec())).collect();
        writes.extend(long.into_iter().map(|(segment, range)| (segment, payload[range].to_vec())));
        if header.procedure == Procedure::Nomsg {
            payload.clear();
        }
        let may = self.negotiated.remote_invalidation && self.config.send_with_invalidate;
        let handle = incoming.handle();
        Ok(Some(Composed {
            header,
            payload,
            writes,
            invalidate: handle.filter(|_| may),
            offered_writes: incoming.writes,
            offered_reply: incoming.reply,
        }))
    }

    /// Sends a reply.
    pub fn send_composed(
        &mut self,
        endpoint: &mut Endpoint,
        composed: Composed,
    ) -> Result<Sent, SessionError> {
        let Composed { header, payload, writes, invalidate, .. } = composed;
        for (segment, bytes) in writes {
            endpoint.write(self.connection, segment.handle, segment.offset, bytes)?;
        }
        self.grants = header.credits;
        self.post_message(endpoint, &header, &payload, invalidate)?;
        Ok(Sent::Reply)
    }
}
