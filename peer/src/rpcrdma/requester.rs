//! The Requester: calls and their replies.

use super::pull::Pull;
use super::responder::Incoming;
use super::{
    Conveyance, Discard, Edit, Event, Invalidated, Mechanism, Replied, Session, SessionError, handles, reduce,
};
use crate::endpoint::{ConnectionId, Endpoint};
use crate::memory::{Access, Memory, RegisterError};
use crate::rc::{Received, WorkId};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use rdmascope_wire::rpcrdma::{
    Builder, Chunk, Error, Header, MINIMUM_LENGTH, Procedure, ReadSegment, Segment,
};
use rdmascope_wire::{Rkey, Xid, rpc};

/// A call to be made.
#[derive(Default)]
pub struct Call {
    /// The whole RPC call, from its XID on.
    pub message: Vec<u8>,
    /// The items that Read chunks carry, where they are in the message, without padding; ascending.
    pub reduce: Vec<Range<usize>>,
    /// A Write chunk for each, with room for so many bytes. 0: an empty Write chunk.
    pub write_chunks: Vec<u32>,
    /// The longest Payload stream that the reply may have. If it does not fit inline, the call offers a
    /// Reply chunk; with [`Config::reliable_reply`](super::Config::reliable_reply) only if `least_reply`
    /// does not fit either.
    pub most_reply: u32,
    /// The shortest Payload stream that the reply may have.
    pub least_reply: u32,
    /// Send the Payload stream in a Position Zero Read chunk though it fits inline.
    pub long: bool,
    /// Divide its chunks so, instead of into segments of [`Config::segment`](super::Config::segment). Then `write_chunks` does not count.
    pub shape: Option<Shape>,
    /// Send it whatever the credits say.
    pub beyond_credits: bool,
    /// Change the header or the Payload stream before it is sent.
    pub edit: Option<Edit>,
}

/// The lengths of the segments of a call's chunks, in bytes. What is longer than they are together has further segments behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Those of the Position Zero Read chunk.
    pub position_zero: Vec<u32>,
    /// Those of the Read chunk of each item.
    pub reads: Vec<Vec<u32>>,
    /// Those of each Write chunk.
    pub writes: Vec<Vec<u32>>,
    /// Those of the Reply chunk, which is offered though the reply may fit inline; `None`: it is offered where it may not.
    pub reply: Option<Vec<u32>>,
}

impl Call {
    /// A call without chunks, whose reply needs none.
    pub fn inline(message: Vec<u8>) -> Call {
        Call { message, ..Call::default() }
    }

    /// Its XID.
    pub fn xid(&self) -> Option<Xid> {
        self.message.first_chunk().map(|word| Xid(u32::from_be_bytes(*word)))
    }

    /// Bytes of memory that its Write chunks and its Reply chunk take.
    fn room(&self) -> u64 {
        let of = |lengths: &[u32]| lengths.iter().copied().map(u64::from).sum::<u64>();
        let writes = match &self.shape {
            Some(shape) => shape.writes.iter().map(|lengths| of(lengths)).sum(),
            None => of(&self.write_chunks),
        };
        let reply = self.shape.as_ref().and_then(|shape| shape.reply.as_deref());
        writes + reply.map_or(u64::from(self.most_reply), of)
    }
}

/// A call that is sent and not answered.
#[derive(Clone, Debug, Default)]
pub(super) struct Transaction {
    /// All memory that was registered for it.
    memory: Vec<Rkey>,
    /// The handles of the Read list, by its chunks.
    reads: Vec<Vec<Rkey>>,
    writes: Vec<Vec<Segment>>,
    reply: Option<Vec<Segment>>,
    /// A reply in a Read chunk of the Responder, as it was received, and its RDMA Reads.
    pulled: Option<(Received, Pull)>,
    /// The call was cancelled while its reply was being pulled.
    pub(super) is_cancelled: bool,
}

impl Transaction {
    /// Ends the registration of its memory.
    pub(super) fn release(&self, endpoint: &mut Endpoint, connection: ConnectionId) {
        for rkey in &self.memory {
            endpoint.invalidate(connection, *rkey);
        }
    }

    /// Whether RDMA Reads of its reply are under way.
    pub(super) const fn is_pulling(&self) -> bool {
        self.pulled.is_some()
    }

    /// How its reply was conveyed.
    fn conveyance(&self, header: &Header<'_>, invalidated: Option<Rkey>) -> Conveyance {
        let lengths = |chunk: Chunk<'_>| chunk.segments().map(|segment| segment.length).collect();
        let offered = (self.writes.len(), self.reply.is_some());
        let writes: Vec<Vec<Rkey>> = self.writes.iter().map(|chunk| handles(chunk)).collect();
        let reply = self.reply.as_deref().map(handles);
        Conveyance {
            mechanism: Mechanism::of(header.procedure, !header.reads.is_empty()),
            invalidated: invalidated
                .map(|rkey| Invalidated::find(rkey, &self.reads, &writes, reply.as_deref())),
            ..Conveyance::of_chunks(offered, header.writes.map(lengths), header.reply.map(lengths))
        }
    }

    /// Registers `bytes` in segments of these lengths, and what is left in segments of `most` bytes.
    fn register(
        &mut self,
        endpoint: &mut Endpoint,
        connection: ConnectionId,
        bytes: &[u8],
        (lengths, most): (&[u32], u32),
        access: Access,
    ) -> Result<Vec<Segment>, RegisterError> {
        let mut segments = Vec::new();
        let mut rest = bytes;
        let first = lengths.iter().map_while(|length| {
            let part;
            (part, rest) = rest.split_at_checked(*length as usize)?;
            Some(part)
        });
        let mut parts: Vec<&[u8]> = first.collect();
        parts.extend(rest.chunks(most.max(1) as usize));
        for part in parts {
            let (handle, offset) = endpoint.register(connection, part.to_vec(), access)?;
            self.memory.push(handle);
            segments.push(Segment { handle, length: part.len() as u32, offset });
        }
        Ok(segments)
    }
}

impl Session {
    /// Makes a call. It waits where the credits are used up.
    pub fn call(&mut self, endpoint: &mut Endpoint, call: Call) -> Result<Xid, SessionError> {
        let xid = call.xid().ok_or(SessionError::Xid)?;
        let is_used =
            self.transactions.contains_key(&xid) || self.waiting.iter().any(|call| call.xid() == Some(xid));
        if is_used || self.over {
            return Err(SessionError::Xid);
        }
        if self.transactions.len() + self.waiting.len() >= super::MOST_CALLS {
            return Err(SessionError::TooMany);
        }
        if reduce(&call.message, &call.reduce).is_none() || call.message.len() > u32::MAX as usize {
            return Err(SessionError::Item);
        }
        // Before any of it is allocated: a shape may come from a capture.
        if call.room() > Memory::MOST_BYTES as u64 {
            return Err(RegisterError::TooMuch.into());
        }
        if call.beyond_credits {
            self.start_call(endpoint, xid, call)?;
        } else {
            self.waiting.push_back(call);
            self.start_calls(endpoint);
        }
        Ok(xid)
    }

    /// Sends what waits, as far as credits go (RFC 8166, section 3.3.1).
    pub(super) fn start_calls(&mut self, endpoint: &mut Endpoint) {
        let limit = self.granted.min(self.config.credits).max(1) as usize;
        self.send_done(endpoint, limit);
        while self.in_use() < limit
            && let Some(call) = self.waiting.pop_front()
        {
            let Some(xid) = call.xid() else { continue };
            if self.start_call(endpoint, xid, call).is_err() {
                // Whoever made the call is told in the only way that is left.
                self.events.push_back(Event::Lost { xid });
            }
        }
    }

    fn start_call(&mut self, endpoint: &mut Endpoint, xid: Xid, call: Call) -> Result<(), SessionError> {
        let mut transaction = Transaction::default();
        let sent = self.send_call(endpoint, &mut transaction, xid, call);
        match sent {
            Ok(()) => {
                self.transactions.insert(xid, transaction);
            }
            Err(_) => transaction.release(endpoint, self.connection),
        }
        sent
    }

    fn send_call(
        &mut self,
        endpoint: &mut Endpoint,
        transaction: &mut Transaction,
        xid: Xid,
        call: Call,
    ) -> Result<(), SessionError> {
        let (connection, most) = (self.connection, self.config.segment);
        let mut header = Builder::new(xid, self.config.credits, Procedure::Msg);
        let shape = call.shape.unwrap_or_else(|| Shape {
            writes: call.write_chunks.iter().map(|room| whole(*room, most)).collect(),
            ..Shape::default()
        });
        for (index, item) in call.reduce.iter().enumerate() {
            let bytes = &call.message[item.clone()];
            let lengths = shape.reads.get(index).map_or(&[][..], Vec::as_slice);
            let segments =
                transaction.register(endpoint, connection, bytes, (lengths, most), Access::READ)?;
            let position = item.start as u32;
            transaction.reads.push(handles(&segments));
            header.reads.extend(segments.into_iter().map(|target| ReadSegment { position, target }));
        }
        let mut room = |lengths: &[u32], transaction: &mut Transaction| {
            let room = vec![0; lengths.iter().map(|length| *length as usize).sum()];
            transaction.register(endpoint, connection, &room, (lengths, most), Access::WRITE)
        };
        for lengths in &shape.writes {
            header.writes.push(room(lengths, transaction)?);
        }
        transaction.writes.clone_from(&header.writes);
        let lists: usize = header.writes.iter().map(|chunk| 8 + chunk.len() * Segment::LENGTH).sum();
        // A Responder with Read chunks of its own needs no Reply chunk for a reply that may be short
        // (draft, section 5.3.1).
        let least = if self.config.reliable_reply.is_some() { call.least_reply } else { call.most_reply };
        let is_long = MINIMUM_LENGTH + lists + least as usize > self.receive_threshold as usize;
        if let Some(lengths) = shape.reply.or_else(|| is_long.then(|| whole(call.most_reply, most))) {
            let segments = room(&lengths, transaction)?;
            transaction.reply = Some(segments.clone());
            header.reply = Some(segments);
        }
        let mut payload = reduce(&call.message, &call.reduce).ok_or(SessionError::Item)?;
        let mut length = Vec::new();
        header.build(&mut length);
        if call.long || length.len() + payload.len() > self.send_threshold as usize {
            let lengths = (&shape.position_zero[..], most);
            let segments = transaction.register(endpoint, connection, &payload, lengths, Access::READ)?;
            transaction.reads.insert(0, handles(&segments));
            header.reads.splice(0..0, segments.into_iter().map(|target| ReadSegment { position: 0, target }));
            header.procedure = Procedure::Nomsg;
            payload.clear();
        }
        if let Some(edit) = call.edit {
            edit(&mut header, &mut payload);
        }
        self.post_message(endpoint, &header, &payload, None)?;
        Ok(())
    }

    /// An RDMA_ERROR completes its call (RFC 8166, section 4.5).
    pub(super) fn failed(&mut self, endpoint: &mut Endpoint, header: &Header<'_>, error: Error) {
        let xid = header.xid;
        if let Some(transaction) = self.transactions.remove(&xid) {
            transaction.release(endpoint, self.connection);
        }
        self.events.push_back(Event::Error { xid, version: header.version, error });
        self.take_credits(xid, header.credits);
        self.start_calls(endpoint);
    }

    fn take_credits(&mut self, xid: Xid, credits: u32) {
        if credits == 0 {
            self.tell(Event::NoCredit { xid });
        }
        self.granted = credits.max(1);
    }

    pub(super) fn replied(
        &mut self,
        endpoint: &mut Endpoint,
        header: &Header<'_>,
        payload: &[u8],
        received: &Received,
    ) {
        let xid = header.xid;
        let Some(transaction) = self.transactions.get(&xid) else { return };
        if let Some(rkey) = received.invalidated
            && !(transaction.memory.contains(&rkey) && self.negotiated.remote_invalidation)
        {
            self.events.push_back(Event::WrongInvalidation { xid, rkey });
        }
        let contents = self.contents(endpoint, transaction, header, payload);
        let (message, items) = match contents {
            Ok(contents) => contents,
            Err(why) => return self.discard(Some(xid), why, &received.bytes),
        };
        let conveyance = transaction.conveyance(header, received.invalidated);
        let is_cancelled = transaction.is_cancelled;
        self.transactions.remove(&xid);
        if !is_cancelled {
            self.events.push_back(Event::Replied(Replied {
                xid,
                message,
                items,
                conveyance,
                credits: header.credits,
            }));
        }
        self.take_credits(xid, header.credits);
        self.start_calls(endpoint);
    }

    /// A reply in a Read chunk of the Responder: its Payload stream is pulled first (draft, section
    /// 4.1.2).
    pub(super) fn pull_reply(&mut self, endpoint: &mut Endpoint, header: &Header<'_>, received: &Received) {
        let xid = header.xid;
        if self.transactions.get(&xid).is_some_and(|transaction| transaction.pulled.is_some()) {
            return self.discard(Some(xid), Discard::DuplicateXid, &received.bytes);
        }
        let total: u64 = header.reads.map(|read| u64::from(read.target.length)).sum();
        let is_right =
            header.procedure == Procedure::Nomsg && header.reads.clone().all(|read| read.position == 0);
        let pull = match is_right {
            false => Err(Discard::Chunks),
            true if total > u64::from(self.config.most_message) => Err(Discard::TooMuch),
            true => self.start_pull(endpoint, header, &[]).map_err(|_| Discard::TooMuch),
        };
        match pull {
            Err(why) => self.give_up(endpoint, header, why, received),
            Ok(pull) => {
                let is_whole = pull.is_whole();
                if let Some(transaction) = self.transactions.get_mut(&xid) {
                    transaction.pulled = Some((received.clone(), pull));
                }
                if is_whole {
                    self.end_pull(endpoint, xid);
                }
            }
        }
    }

    /// An RDMA Read completed. Where one failed, the connection has too.
    pub(super) fn pulled(&mut self, endpoint: &mut Endpoint, work: WorkId, bytes: &[u8]) {
        let Some(xid) = self.pulls.remove(&work) else { return };
        let pulled = self.transactions.get_mut(&xid).and_then(|transaction| transaction.pulled.as_mut());
        let Some((_, pull)) = pulled.filter(|(_, pull)| pull.works().any(|one| one == work)) else {
            return self.call_pulled(endpoint, xid, work, bytes);
        };
        pull.take(work, bytes);
        if pull.is_whole() {
            self.end_pull(endpoint, xid);
        }
    }

    /// The Payload stream of a reply, or of a call with the XID of one, is here.
    fn end_pull(&mut self, endpoint: &mut Endpoint, xid: Xid) {
        let pulled = self.transactions.get_mut(&xid).and_then(|transaction| transaction.pulled.take());
        let Some((received, pull)) = pulled else { return };
        let Ok(header) = Header::parse(&received.bytes) else { return };
        let stream = match pull.clone().message() {
            Ok((stream, _)) => stream,
            Err(_) => return self.give_up(endpoint, &header, Discard::Chunks, &received),
        };
        match rpc::peek(&stream) {
            Ok((other, rpc::Kind::Reply)) if other == xid => {
                self.replied(endpoint, &header, &stream, &received);
                if self.transactions.contains_key(&xid) {
                    self.forget_call(endpoint, xid);
                }
                self.notify(endpoint, xid, first_handle(&header));
            }
            // XIDs of the two directions are independent (RFC 8167, section 4.2).
            Ok((other, rpc::Kind::Call)) if other == xid => {
                self.take_call(endpoint, xid, Incoming::new(&header, pull));
            }
            Ok((other, _)) => self.give_up(endpoint, &header, Discard::OtherXid(other), &received),
            Err(stop) => self.give_up(endpoint, &header, Discard::Malformed(stop), &received),
        }
    }

    /// Ends a transaction whose reply cannot be taken. RDMA_DONE frees the Read chunk (draft,
    /// section 4.1.3).
    fn give_up(&mut self, endpoint: &mut Endpoint, header: &Header<'_>, why: Discard, received: &Received) {
        self.discard(Some(header.xid), why, &received.bytes);
        self.forget_call(endpoint, header.xid);
        self.notify(endpoint, header.xid, first_handle(header));
    }

    fn forget_call(&mut self, endpoint: &mut Endpoint, xid: Xid) {
        if let Some(transaction) = self.transactions.remove(&xid) {
            transaction.release(endpoint, self.connection);
        }
    }

    /// The Payload stream of a reply and what each Write chunk brought. Their memory is not registered afterwards.
    fn contents(
        &self,
        endpoint: &mut Endpoint,
        transaction: &Transaction,
        header: &Header<'_>,
        payload: &[u8],
    ) -> Result<(Vec<u8>, Vec<Vec<u8>>), Discard> {
        if header.writes.count() > transaction.writes.len() {
            return Err(Discard::Chunks);
        }
        let mechanism = Mechanism::of(header.procedure, !header.reads.is_empty());
        // Whatever the header says, it must be what was offered, and no longer.
        for (offered, returned) in transaction.writes.iter().zip(header.writes) {
            fits(offered, &returned)?;
        }
        match (&transaction.reply, &header.reply) {
            (Some(offered), Some(returned)) => fits(offered, returned)?,
            (None, Some(_)) => return Err(Discard::Chunks),
            (_, None) if mechanism == Mechanism::ReplyChunk => return Err(Discard::NoPayload),
            (_, None) => {}
        }
        if mechanism == Mechanism::ReplyChunk
            && let Some(reply) = &header.reply
            && reply.length() == 0
        {
            return Err(Discard::NoPayload);
        }
        let mut gathered = |offered: &[Segment], returned: &Chunk<'_>| {
            let mut bytes = Vec::new();
            for (offered, returned) in offered.iter().zip(returned.segments()) {
                let region = endpoint.invalidate(self.connection, offered.handle);
                let written = region.as_ref().and_then(|region| region.bytes.get(..returned.length as usize));
                bytes.extend_from_slice(written.unwrap_or_default());
            }
            bytes
        };
        let pairs = transaction.writes.iter().zip(header.writes);
        let items = pairs.map(|(offered, returned)| gathered(offered, &returned)).collect();
        let message = match (&transaction.reply, &header.reply) {
            (Some(offered), Some(returned)) if mechanism == Mechanism::ReplyChunk => {
                gathered(offered, returned)
            }
            _ => payload.to_vec(),
        };
        transaction.release(endpoint, self.connection);
        Ok((message, items))
    }
}

/// The handle that RDMA_DONE invalidates: that of the first segment (RFC 8797 leaves the choice to
/// the sender).
fn first_handle(header: &Header<'_>) -> Option<Rkey> {
    header.reads.map(|read| read.target.handle).next()
}

/// The lengths of segments of `most` bytes that hold so many together.
fn whole(length: u32, most: u32) -> Vec<u32> {
    let most = most.max(1);
    (0..length.div_ceil(most)).map(|index| (length - index * most).min(most)).collect()
}

/// The returned chunk has the segments of the offered one, each at most as long.
fn fits(offered: &[Segment], returned: &Chunk<'_>) -> Result<(), Discard> {
    let same = offered.len() == returned.segment_count()
        && offered.iter().zip(returned.segments()).all(|(offered, returned)| {
            // Some Responders clear handle and offset of what they did not use.
            (returned.length == 0 || offered.handle == returned.handle && offered.offset == returned.offset)
                && returned.length <= offered.length
        });
    if same { Ok(()) } else { Err(Discard::Chunks) }
}
