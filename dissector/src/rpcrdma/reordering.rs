//! Detection of deliveries that precede the call that they answer.

use super::{Kind, Peers, Transactions, certain_kind, payload_of, plausible, reply_xid};
use crate::protocol::Protocol;
use crate::rdma::{Delivery, End, Send};
use rdmascope_wire::Xid;
use rdmascope_wire::rpcrdma::{Header, MINIMUM_LENGTH, Procedure, Segment, VERSION};

impl Peers {
    /// Determines from the first conclusive Send whether the connection carries RPC-over-RDMA or
    /// another protocol.
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
            // A truncated Send is not conclusive.
            self.saw_other |= send.bytes.len() >= MINIMUM_LENGTH.min(length as usize);
            self.protocol = Protocol::of_first_send(send.bytes, length);
        }
    }
}

impl Transactions {
    /// Whether a delivery of end `from` answers a call that was not seen yet.
    ///
    /// That is an RDMA operation on memory that was not advertised, a reply without a call, or an
    /// RDMA_DONE without the reply. A reply or an RDMA_DONE ends its transaction, so it is also early
    /// while memory of the transaction is being read. A message in a Position Zero Read chunk counts
    /// as a reply if there was a reply in a Read chunk before.
    #[inline]
    pub(crate) fn is_early(&self, delivery: &Delivery<'_>, from: End, peers: &Peers) -> bool {
        if peers.speaks_rpc != Some(true) {
            return false;
        }
        let other = &peers.sides[from.other()];
        let memory = match delivery {
            Delivery::Send(send) => {
                // Most messages are replies to outstanding calls and need no further checks.
                let is_early = |xid: Xid| other.call(xid).is_none_or(|call| self.is_being_read(call));
                let xid = send.bytes.first_chunk().map(|word| Xid(u32::from_be_bytes(*word)));
                let own = &peers.sides[from];
                // A reply that counts as a call until its type has been pulled is pulled likewise.
                let is_pulling = |xid: Xid| {
                    let pulled = own.pulls.get(&xid).copied().or(other.call(xid));
                    own.awaits(xid) || pulled.is_some_and(|pull| self.is_being_read(pull))
                };
                let may_answer = || {
                    answered_xid(send.bytes).is_some()
                        || self.provides_replies && is_in_read_chunk(send.bytes)
                };
                return xid.is_some_and(is_early) && may_answer()
                    || xid.is_some_and(is_pulling) && is_done(send.bytes);
            }
            Delivery::Write(placement) if placement.position == placement.first => placement.memory,
            // A repetition shows nothing new.
            Delivery::ReadRequest(request) if !request.repeated => request.memory,
            _ => return false,
        };
        memory.length > 0 && !other.memory().advertises(memory.rkey, memory.address)
    }
}

/// The XID of a Send that is a call with the XID of an open one. The caller had the reply of that one
/// before.
pub(crate) fn reused_xid(send: &Send<'_>, from: End, peers: &Peers) -> Option<Xid> {
    let xid = Xid(u32::from_be_bytes(*send.bytes.first_chunk()?));
    if !peers.sides[from].awaits(xid) {
        return None;
    }
    let header = Header::parse(send.bytes).ok()?;
    (certain_kind(&header, payload_of(&header, send.bytes)) == Some(Kind::Call)).then_some(xid)
}

/// Whether the Send that starts with these bytes asked for a delivery: it is the call of a reply or
/// an error, or it advertises the memory of an RDMA operation.
pub(crate) fn is_request_for(send: &[u8], delivery: &Delivery<'_>) -> bool {
    let Ok(header) = Header::parse(send) else { return false };
    let memory = match delivery {
        Delivery::Send(reply) => return reply_xid(reply.bytes) == Some(header.xid),
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

/// The XID that a Send answers, if it is certainly a reply or an error.
#[inline]
fn answered_xid(message: &[u8]) -> Option<Xid> {
    if is_bare_call(message) {
        debug_assert_eq!(answered_xid_of(message), None);
        return None;
    }
    answered_xid_of(message)
}

/// Whether the RPC message of a Send is in a Position Zero Read chunk: it is a Long Call, or a reply
/// by the reliable-reply draft.
fn is_in_read_chunk(message: &[u8]) -> bool {
    Header::parse(message).is_ok_and(|header| {
        header.version == VERSION && header.procedure == Procedure::Nomsg && !header.reads.is_empty()
    })
}

/// Whether a Send is an RDMA_DONE.
fn is_done(message: &[u8]) -> bool {
    Header::parse(message)
        .is_ok_and(|header| header.version == VERSION && header.procedure == Procedure::Done)
}

/// Whether a Send is a call without chunks, as most calls are.
///
/// ```text
///  0 XID  4 version 1  8 credits  12 RDMA_MSG
/// 16 no Read list  20 no Write list  24 no Reply chunk  28 XID  32 CALL
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdma::{MemoryRange, Placement, Position, ReadRequest};
    use crate::record::{Seen, Time};
    use alloc::vec::Vec;
    use rdmascope_wire::Rkey;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    /// XID, version 1, credits, RDMA_MSG and lists, then an RPC message: XID, and 0 for a call or 1
    /// for a reply.
    fn message(xid: u32, lists: &[u32], kind: u32) -> Vec<u8> {
        words(&[&[xid, 1, 32, 0], lists, &[xid, kind, 0, 0, 0, 0, 0, 0, 0, 0]].concat())
    }

    const NO_LISTS: [u32; 3] = [0; 3];
    /// A Read segment at position 40: handle 7, 100 bytes at 0x1000; a Write chunk: handle 8, 100
    /// bytes at 0x2000; a Reply chunk: handle 9.
    const LISTS: [u32; 18] = [1, 40, 7, 100, 0, 0x1000, 0, 1, 1, 8, 100, 0, 0x2000, 0, 1, 1, 9, 100];
    /// Address of the Reply chunk.
    const REPLY_CHUNK: [u32; 2] = [0, 0x3000];

    #[test]
    fn reply_answers_call_with_same_xid() {
        let replies = message(5, &NO_LISTS, 1);
        let reply = send(&replies);
        assert!(is_request_for(&message(5, &NO_LISTS, 0), &reply));
        assert!(!is_request_for(&message(6, &NO_LISTS, 0), &reply));
        assert!(!is_request_for(&message(5, &NO_LISTS, 0)[..8], &reply), "a truncated header");
        let calls = message(5, &NO_LISTS, 0);
        assert!(!is_request_for(&message(5, &NO_LISTS, 0), &send(&calls)), "a call answers nothing");
    }

    fn send(bytes: &[u8]) -> Delivery<'_> {
        let seen = Seen { frame: 1, time: Time(0) };
        Delivery::Send(Send {
            first: seen,
            seen,
            position: position(),
            extent: 1,
            bytes,
            length: Some(bytes.len() as u32),
            missing: None,
            invalidated: None,
        })
    }

    fn position() -> Position {
        Position::of_sequence(1)
    }

    #[test]
    fn operation_answers_call_that_advertises_its_memory() {
        let call = message(5, &[&LISTS[..], &REPLY_CHUNK].concat(), 0);
        for (rkey, address, is_asked) in [
            (7, 0x1000, true),
            (7, 0x1063, true),
            (7, 0x1064, false),
            (7, 0x0fff, false),
            (7, 0x2000, false),
            (8, 0x2000, true),
            (8, 0x2063, true),
            (8, 0x2064, false),
            (9, 0x3000, true),
            (9, 0x3064, false),
            (10, 0x1000, false),
        ] {
            let memory = MemoryRange { rkey: Rkey(rkey), address, length: 1 };
            let seen = Seen { frame: 1, time: Time(0) };
            let placement = Placement {
                seen,
                position: position(),
                first: position(),
                request: None,
                memory,
                address,
                bytes: &[],
                length: 1,
                repeated: false,
            };
            let request = ReadRequest {
                seen,
                position: position(),
                extent: Some(1),
                memory,
                repeated: false,
                is_new: true,
            };
            for delivery in [
                Delivery::Write(placement),
                Delivery::ReadResponse(placement),
                Delivery::ReadRequest(request),
            ] {
                assert_eq!(is_request_for(&call, &delivery), is_asked, "{rkey} {address:#x}");
            }
            assert!(!is_request_for(&call, &Delivery::Missing { packets: 1, last: None }));
        }
    }

    /// The first packet of an operation names the memory and decides whether it is early. An
    /// operation of no bytes accesses no memory (IBTA volume 1, section 9.7.4.1.5), and a
    /// repetition shows nothing new.
    #[test]
    fn first_packet_to_unadvertised_memory_is_early() {
        let mut peers = Peers::new(0);
        peers.speaks_rpc = Some(true);
        let seen = Seen { frame: 1, time: Time(0) };
        let early = |delivery: Delivery<'_>| Transactions::default().is_early(&delivery, End::Second, &peers);
        for (length, offset, repeated, is_early) in
            [(100, 0, false, true), (100, 1, true, false), (0, 0, false, false), (1, 0, false, true)]
        {
            let memory = MemoryRange { rkey: Rkey(7), address: 0x1000, length };
            let write = Placement {
                seen,
                position: position().plus(offset),
                first: position(),
                request: None,
                memory,
                address: 0x1000,
                bytes: &[],
                length,
                repeated: false,
            };
            assert_eq!(early(Delivery::Write(write)), is_early, "{length} {offset}");
            let position = position();
            let request =
                ReadRequest { seen, position, extent: Some(1), memory, repeated, is_new: !repeated };
            assert_eq!(early(Delivery::ReadRequest(request)), is_early, "{length} {repeated}");
        }
    }

    /// A message in a Read chunk may answer a call that was not seen yet if there was a reply in
    /// a Read chunk before.
    #[test]
    fn reply_in_read_chunk_is_early_only_after_another() {
        // XID 5, version 1, RDMA_NOMSG, and a Read chunk of 100 bytes at Position 0.
        let read = words(&[5, 1, 32, 1, 1, 0, 7, 100, 0, 0x1000, 0, 0, 0]);
        for (provides_replies, is_early) in [(false, false), (true, true)] {
            let mut peers = Peers::new(0);
            peers.speaks_rpc = Some(true);
            let transactions = Transactions { provides_replies, ..Transactions::default() };
            let early = transactions.is_early(&send(&read), End::Second, &peers);
            assert_eq!(early, is_early);
        }
        assert!(is_request_for(&message(5, &NO_LISTS, 0), &send(&read)));
        assert!(!is_request_for(&message(6, &NO_LISTS, 0), &send(&read)));
    }

    /// The fast check agrees with the full one.
    #[test]
    fn only_replies_and_errors_answer() {
        let with_chunks = [&LISTS[..], &REPLY_CHUNK].concat();
        for (bytes, is_bare, answers) in [
            (message(5, &NO_LISTS, 0), true, false),
            (message(5, &NO_LISTS, 1), false, true),
            (message(5, &with_chunks, 0), false, false),
            (message(5, &with_chunks, 1), false, true),
            // ERR_VERS: versions 1 to 1; ERR_CHUNK.
            (words(&[5, 1, 32, 4, 1, 1, 1]), false, true),
            (words(&[5, 1, 32, 4, 2]), false, true),
            // RDMA_DONE, and an unknown version.
            (words(&[5, 1, 32, 3]), false, false),
            (words(&[5, 2, 32, 0, 0, 0, 0, 5, 0]), false, false),
        ] {
            assert_eq!(is_bare_call(&bytes), is_bare, "{bytes:?}");
            assert_eq!(answered_xid(&bytes), answers.then_some(Xid(5)), "{bytes:?}");
        }
    }
}
