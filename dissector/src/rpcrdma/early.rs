//! What answers something that was not seen yet.

use super::{Kind, Peers, Transactions, certain_kind, payload_of, plausible};
use crate::protocol::Protocol;
use crate::rdma::{Delivery, End, Send};
use rdmascope_wire::Xid;
use rdmascope_wire::rpcrdma::{Header, MINIMUM_LENGTH, Segment, VERSION};

impl Peers {
    /// Notes what the connection speaks, RPC-over-RDMA or another protocol, where a Send is the first to say so.
    #[inline]
    pub(crate) fn recognize(&mut self, send: &Send<'_>) {
        if self.speaks_rpc != Some(true) && self.protocol.is_none() {
            self.recognize_in(send);
        }
    }

    fn recognize_in(&mut self, send: &Send<'_>) {
        if let Ok(header) = Header::parse(send.bytes)
            && plausible(&header, payload_of(&header, send.bytes))
        {
            self.speaks_rpc = Some(true);
        } else if let Some(length) = send.length {
            // Of what the capture cut, that cannot be said.
            self.saw_other |= send.bytes.len() >= MINIMUM_LENGTH.min(length as usize);
            self.protocol = Protocol::of_first_send(send.bytes, length);
        }
    }
}

impl Transactions {
    /// Whether what end `from` did answers what the other end was not seen to do: an RDMA operation on memory that it was not seen to
    /// advertise, a reply without a call. A reply ends its transaction; so it is early too while memory of the call is being read.
    #[inline]
    pub(crate) fn is_early(&self, delivery: &Delivery<'_>, from: End, peers: &Peers) -> bool {
        if peers.speaks_rpc != Some(true) {
            return false;
        }
        let other = &peers.sides[from.other()];
        let memory = match delivery {
            Delivery::Send(send) => {
                // Most messages are replies to what is waited for, and need no closer look.
                let is_early = |xid: Xid| other.call(xid).is_none_or(|call| self.is_being_read(call));
                let xid = send.bytes.first_chunk().map(|word| Xid(u32::from_be_bytes(*word)));
                return xid.is_some_and(is_early) && answered_xid(send.bytes).is_some();
            }
            Delivery::Write(placement) if placement.position == placement.first => placement.memory,
            // What is repeated says nothing new.
            Delivery::ReadRequest(request) if !request.repeated => request.memory,
            _ => return false,
        };
        memory.length > 0 && !other.memory().advertises(memory.rkey, memory.address)
    }
}

/// Whether the Send that begins with these bytes asks for what was delivered: it is the call that a reply or an error answers, or it
/// advertises the memory that an RDMA operation is about.
pub(crate) fn asks_for(send: &[u8], delivery: &Delivery<'_>) -> bool {
    let Ok(header) = Header::parse(send) else { return false };
    let memory = match delivery {
        Delivery::Send(reply) => return answered_xid(reply.bytes) == Some(header.xid),
        Delivery::Write(placement) | Delivery::ReadResponse(placement) => placement.memory,
        Delivery::ReadRequest(request) => request.memory,
        _ => return false,
    };
    let holds = |segment: Segment| {
        let offset = memory.address.wrapping_sub(segment.offset);
        segment.handle == memory.rkey && offset < u64::from(segment.length)
    };
    let Header { reads, writes, reply, .. } = header;
    reads.map(|read| read.target).any(holds) || writes.chain(reply).any(|chunk| chunk.segments().any(holds))
}

/// The XID that a Send answers, where it can be nothing but a reply or an error.
#[inline]
fn answered_xid(message: &[u8]) -> Option<Xid> {
    if is_bare_call(message) {
        debug_assert_eq!(answered_xid_of(message), None);
        return None;
    }
    answered_xid_of(message)
}

/// Whether a Send is a call without chunks, as most calls are.
///
/// ```text
///  0 XID  4 version 1  8 credits  12 RDMA_MSG  16 no Read list  20 no Write list  24 no Reply chunk  28 XID  32 CALL
/// ```
#[inline]
fn is_bare_call(message: &[u8]) -> bool {
    let Some(front) = message.first_chunk::<36>() else { return false };
    front[4..8] == VERSION.to_be_bytes() && front[12..28] == [0; 16] && front[32..] == [0; 4]
}

fn answered_xid_of(message: &[u8]) -> Option<Xid> {
    let header = Header::parse(message).ok()?;
    let kind = certain_kind(&header, payload_of(&header, message));
    matches!(kind, Some(Kind::Reply | Kind::Error)).then_some(header.xid)
}
