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

/// A call to send.
#[derive(Default)]
pub struct Call {
    /// The complete RPC call, from its XID on.
    pub message: Vec<u8>,
    /// The ranges of the items for Read chunks, without padding, in ascending order.
    pub reduce: Vec<Range<usize>>,
    /// The sizes of the Write chunks. 0 means an empty Write chunk.
    pub write_chunks: Vec<u32>,
    /// The maximum length of the reply's Payload stream. If it does not fit inline, the call
    /// provides a Reply chunk; with [`Config::reliable_reply`](super::Config::reliable_reply) only
    /// if `least_reply` does not fit either.
    pub most_reply: u32,
    /// The minimum length of the reply's Payload stream.
    pub least_reply: u32,
    /// Sends the Payload stream in a Position Zero Read chunk even if it fits inline.
    pub long: bool,
    /// The division of the chunks into segments, instead of
    /// [`Config::segment`](super::Config::segment). It overrides `write_chunks`.
    pub shape: Option<Shape>,
    /// Sends the call regardless of credits.
    pub beyond_credits: bool,
    /// Changes the header or the Payload stream before it is sent.
    pub edit: Option<Edit>,
}

/// The segment lengths of a call's chunks in bytes. A longer chunk has additional segments at the
/// end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// The Position Zero Read chunk.
    pub position_zero: Vec<u32>,
    /// The Read chunk of each item.
    pub reads: Vec<Vec<u32>>,
    /// Each Write chunk.
    pub writes: Vec<Vec<u32>>,
    /// The Reply chunk, which is provided even if the reply fits inline; `None`: only if it may not
    /// fit.
    pub reply: Option<Vec<u32>>,
}

impl Call {
    /// Creates a call without chunks, whose reply needs none.
    pub fn inline(message: Vec<u8>) -> Call {
        Call { message, ..Call::default() }
    }

    /// Returns the XID.
    pub fn xid(&self) -> Option<Xid> {
        self.message.first_chunk().map(|word| Xid(u32::from_be_bytes(*word)))
    }

    /// Returns the number of bytes in its Write chunks and Reply chunk.
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

/// An outstanding call.
#[derive(Clone, Debug, Default)]
pub(super) struct Transaction {
    /// All memory registered for it.
    memory: Vec<Rkey>,
    /// The handles in the Read list, by chunk.
    reads: Vec<Vec<Rkey>>,
    writes: Vec<Vec<Segment>>,
    reply: Option<Vec<Segment>>,
    /// The received reply with a Read chunk of the Responder, and its RDMA Reads.
    pulled: Option<(Received, Pull)>,
    /// Whether the call was cancelled while its reply was being read.
    pub(super) is_cancelled: bool,
}

impl Transaction {
    /// Ends the registration of its memory.
    pub(super) fn release(&self, endpoint: &mut Endpoint, connection: ConnectionId) {
        for rkey in &self.memory {
            endpoint.invalidate(connection, *rkey);
        }
    }

    /// Returns whether RDMA Reads of its reply are in progress.
    pub(super) const fn is_pulling(&self) -> bool {
        self.pulled.is_some()
    }

    /// Returns how its reply was conveyed.
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

    /// Registers `bytes` in segments of these lengths, and the rest in segments of `most` bytes.
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
    /// Sends a call, or queues it if no credit is available.
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
        // Checked before any allocation, because a shape may come from a capture.
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

    /// Sends queued calls as far as credits allow (RFC 8166, section 3.3.1).
    pub(super) fn start_calls(&mut self, endpoint: &mut Endpoint) {
        let limit = self.granted.min(self.config.credits).max(1) as usize;
        self.send_done(endpoint, limit);
        while self.in_use() < limit
            && let Some(call) = self.waiting.pop_front()
        {
            let Some(xid) = call.xid() else { continue };
            if self.start_call(endpoint, xid, call).is_err() {
                // The call has already returned, so only this event can report the failure.
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
            writes: call.write_chunks.iter().map(|room| divide(*room, most)).collect(),
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
        // A Responder with its own Read chunks needs no Reply chunk for a reply that may be short
        // (draft, section 5.3.1).
        let least = if self.config.reliable_reply.is_some() { call.least_reply } else { call.most_reply };
        let is_long = MINIMUM_LENGTH + lists + least as usize > self.receive_threshold as usize;
        if let Some(lengths) = shape.reply.or_else(|| is_long.then(|| divide(call.most_reply, most))) {
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

    /// Completes a call by an RDMA_ERROR (RFC 8166, section 4.5).
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
            self.emit(Event::NoCredit { xid });
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

    /// Starts to read a reply in a Read chunk of the Responder (draft, section 4.1.2).
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
            Err(why) => self.reject_reply(endpoint, header, why, received),
            Ok(pull) => {
                let is_complete = pull.is_complete();
                if let Some(transaction) = self.transactions.get_mut(&xid) {
                    transaction.pulled = Some((received.clone(), pull));
                }
                if is_complete {
                    self.end_pull(endpoint, xid);
                }
            }
        }
    }

    /// Handles the completion of an RDMA Read. A failed one has failed the connection too.
    pub(super) fn pulled(&mut self, endpoint: &mut Endpoint, work: WorkId, bytes: &[u8]) {
        let Some(xid) = self.pulls.remove(&work) else { return };
        let pulled = self.transactions.get_mut(&xid).and_then(|transaction| transaction.pulled.as_mut());
        let Some((_, pull)) = pulled.filter(|(_, pull)| pull.works().any(|one| one == work)) else {
            return self.call_pulled(endpoint, xid, work, bytes);
        };
        pull.take(work, bytes);
        if pull.is_complete() {
            self.end_pull(endpoint, xid);
        }
    }

    /// Handles the complete Payload stream of a reply, or of a call with the same XID.
    fn end_pull(&mut self, endpoint: &mut Endpoint, xid: Xid) {
        let pulled = self.transactions.get_mut(&xid).and_then(|transaction| transaction.pulled.take());
        let Some((received, pull)) = pulled else { return };
        let Ok(header) = Header::parse(&received.bytes) else { return };
        let stream = match pull.clone().message() {
            Ok((stream, _)) => stream,
            Err(_) => return self.reject_reply(endpoint, &header, Discard::Chunks, &received),
        };
        match rpc::peek(&stream) {
            Ok((other, rpc::Kind::Reply)) if other == xid => {
                self.replied(endpoint, &header, &stream, &received);
                if self.transactions.contains_key(&xid) {
                    self.forget_call(endpoint, xid);
                }
                self.notify(endpoint, xid, first_handle(&header));
            }
            // XIDs of the two directions are independent (RFC 8167, section 2.4.1).
            Ok((other, rpc::Kind::Call)) if other == xid => {
                self.take_call(endpoint, xid, Incoming::new(&header, pull));
            }
            Ok((other, _)) => self.reject_reply(endpoint, &header, Discard::OtherXid(other), &received),
            Err(stop) => self.reject_reply(endpoint, &header, Discard::Malformed(stop), &received),
        }
    }

    /// Ends a transaction with an unacceptable reply. RDMA_DONE frees the Read chunk (draft,
    /// section 4.1.3).
    fn reject_reply(
        &mut self,
        endpoint: &mut Endpoint,
        header: &Header<'_>,
        why: Discard,
        received: &Received,
    ) {
        self.discard(Some(header.xid), why, &received.bytes);
        self.forget_call(endpoint, header.xid);
        self.notify(endpoint, header.xid, first_handle(header));
    }

    fn forget_call(&mut self, endpoint: &mut Endpoint, xid: Xid) {
        if let Some(transaction) = self.transactions.remove(&xid) {
            transaction.release(endpoint, self.connection);
        }
    }

    /// Returns the Payload stream of a reply and the items of its Write chunks, and ends the
    /// registration of their memory.
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
        // The returned chunks must be those of the call, and no longer.
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

/// Returns the handle that RDMA_DONE invalidates: that of the first segment (RFC 8797 leaves the
/// choice to the sender).
fn first_handle(header: &Header<'_>) -> Option<Rkey> {
    header.reads.map(|read| read.target.handle).next()
}

/// Divides `length` bytes into segments of `most` bytes.
fn divide(length: u32, most: u32) -> Vec<u32> {
    let most = most.max(1);
    (0..length.div_ceil(most)).map(|index| (length - index * most).min(most)).collect()
}

/// Checks that the returned chunk has the segments of the offered one, each at most as long.
fn fits(offered: &[Segment], returned: &Chunk<'_>) -> Result<(), Discard> {
    let same = offered.len() == returned.segment_count()
        && offered.iter().zip(returned.segments()).all(|(offered, returned)| {
            // Some Responders clear handle and offset of unused segments.
            (returned.length == 0 || offered.handle == returned.handle && offered.offset == returned.offset)
                && returned.length <= offered.length
        });
    if same { Ok(()) } else { Err(Discard::Chunks) }
}
