//! A reply whose items are beside it already, as it was recorded.

use super::{Sent, Session, SessionError};
use crate::endpoint::Endpoint;
use alloc::vec::Vec;
use rdmascope_wire::Xid;
use rdmascope_wire::rpcrdma::{Builder, Procedure};

/// A reply after reduction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedReply {
    /// The Payload stream, from the XID on.
    pub stream: Vec<u8>,
    /// What goes into each Write chunk of the call, in order.
    pub items: Vec<Vec<u8>>,
    /// Put the Payload stream into the Reply chunk though it fits inline.
    pub in_reply_chunk: bool,
}

impl Session {
    /// Answers a call of the remote side with a reply that is reduced already. What does not fit its chunks is answered with ERR_CHUNK.
    pub fn reply_recorded(
        &mut self,
        endpoint: &mut Endpoint,
        xid: Xid,
        reply: RecordedReply,
    ) -> Result<Sent, SessionError> {
        let incoming = self.incoming.remove(&xid).ok_or(SessionError::Xid)?;
        let mut header = Builder::new(xid, self.config.credits.max(1), Procedure::Msg);
        let (mut items, mut long) = (Vec::new(), Vec::new());
        let mut payload = reply.stream;
        let mut fits = reply.items.len() <= incoming.writes.len();
        for (index, chunk) in incoming.writes.iter().enumerate() {
            let length = reply.items.get(index).map_or(0, Vec::len);
            let mut pushes = Vec::new();
            let returned = super::responder::fill(chunk, 0..length, &mut pushes);
            fits &= returned.is_some();
            header.writes.extend(returned);
            items.extend(pushes.into_iter().map(|push| (index, push)));
        }
        header.reply = incoming.reply.as_ref().map(|chunk| super::responder::empty(chunk));
        let mut bytes = Vec::new();
        header.build(&mut bytes);
        if reply.in_reply_chunk || bytes.len() + payload.len() > self.send_threshold as usize {
            let chunk = incoming.reply.as_ref();
            let returned = chunk.and_then(|chunk| super::responder::fill(chunk, 0..payload.len(), &mut long));
            fits &= returned.is_some();
            header.reply = returned;
            header.procedure = Procedure::Nomsg;
        }
        if !fits {
            return self.too_long(endpoint, xid);
        }
        let written =
            items.iter().map(|(index, (segment, range))| (segment, &reply.items[*index][range.clone()]));
        for (segment, part) in
            written.chain(long.iter().map(|(segment, range)| (segment, &payload[range.clone()])))
        {
            endpoint.write(self.connection, segment.handle, segment.offset, part.to_vec())?;
        }
        if header.procedure == Procedure::Nomsg {
            payload.clear();
        }
        let may = self.negotiated.remote_invalidation && self.config.send_with_invalidate;
        self.grants = header.credits;
        self.post_message(endpoint, &header, &payload, incoming.handle.filter(|_| may))?;
        Ok(Sent::Reply)
    }
}
