//! The Responder: calls of the remote side, their chunks, and their replies.

use super::pull::Pull;
use super::{Called, Discard, Edit, Event, Invalidated, Mechanism, Session, SessionError};
use crate::endpoint::Endpoint;
use crate::rc::{Received, WorkId};
use alloc::vec::Vec;
use core::ops::Range;
use rdmascope_wire::rpcrdma::{Builder, Error, Header, Procedure, Segment, VERSION};
use rdmascope_wire::{Rkey, Xid, rpc};

/// A reply to send.
#[derive(Default)]
pub struct Reply {
    /// The complete RPC reply, from its XID on.
    pub message: Vec<u8>,
    /// The ranges of the items for Write chunks, without padding, in ascending order. The first
    /// item goes into the first Write chunk of the call, and so on. An item without a chunk, or
    /// with an empty one, stays inline.
    pub reduce: Vec<Range<usize>>,
    /// Changes the header or the Payload stream before it is sent.
    pub edit: Option<Edit>,
}

impl Reply {
    /// Creates a reply without items for Write chunks.
    pub fn inline(message: Vec<u8>) -> Reply {
        Reply { message, ..Reply::default() }
    }
}

/// The answer that was sent for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The reply, with the mechanism that conveyed it.
    Reply(Mechanism),
    /// ERR_CHUNK, because the reply did not fit the chunks of its call.
    ErrorChunk,
}

/// A call that waits for an answer.
#[derive(Clone, Debug)]
pub(super) struct Incoming {
    credits: u32,
    pub(super) writes: Vec<Vec<Segment>>,
    pub(super) reply: Option<Vec<Segment>>,
    /// The handles in its Read list, by chunk.
    read_handles: Vec<Vec<Rkey>>,
    is_long: bool,
    /// `None` once the call was passed to the program.
    pull: Option<Pull>,
}

impl Incoming {
    pub(super) fn new(header: &Header<'_>, pull: Pull) -> Incoming {
        Incoming {
            credits: header.credits,
            writes: header.writes.map(|chunk| chunk.segments().collect()).collect(),
            reply: header.reply.map(|chunk| chunk.segments().collect()),
            read_handles: pull.handles(),
            is_long: header.procedure == Procedure::Nomsg,
            pull: Some(pull),
        }
    }

    /// Returns a handle for Send with Invalidate.
    pub(super) fn handle(&self) -> Option<Rkey> {
        let segments = self.writes.iter().chain(&self.reply).flatten();
        let read = self.read_handles.iter().flatten().next().copied();
        read.or_else(|| segments.map(|segment| segment.handle).next())
    }

    /// Returns the handle of this memory, if the call provides it.
    pub(super) fn named(&self, memory: Invalidated) -> Option<Rkey> {
        let segment = |chunk: Option<&Vec<Segment>>, segment: usize| Some(chunk?.get(segment)?.handle);
        match memory {
            Invalidated::Read(chunk, segment) => self.read_handles.get(chunk)?.get(segment).copied(),
            Invalidated::Write(chunk, place) => segment(self.writes.get(chunk), place),
            Invalidated::Reply(place) => segment(self.reply.as_ref(), place),
            Invalidated::Foreign => None,
        }
    }
}

impl Session {
    /// Handles a call with a valid header.
    pub(super) fn called(
        &mut self,
        endpoint: &mut Endpoint,
        header: &Header<'_>,
        payload: &[u8],
        received: &Received,
    ) {
        let xid = header.xid;
        if self.incoming.contains_key(&xid) {
            return self.discard(Some(xid), Discard::DuplicateXid, &received.bytes);
        }
        let outstanding = self.incoming.len() + 1;
        if outstanding > self.grants.max(1) as usize {
            let granted = self.grants;
            self.emit(Event::CreditsExceeded { xid, outstanding, granted });
        }
        let is_long = header.procedure == Procedure::Nomsg;
        let total: u64 = header.reads.map(|read| u64::from(read.target.length)).sum();
        let has_zero = header.reads.clone().any(|read| read.position == 0);
        let why_not = if outstanding > super::MOST_CALLS || total > u64::from(self.config.most_message) {
            Some(Discard::TooMuch)
        } else if is_long && !has_zero {
            Some(Discard::NoPayload)
        } else if !is_long && has_zero {
            Some(Discard::Chunks)
        } else {
            None
        };
        if let Some(why) = why_not {
            match is_long && !header.reads.is_empty() && self.transactions.contains_key(&xid) {
                // Its XID makes it a reply, which is never answered with RDMA_ERROR (RFC 8166,
                // section 4.5).
                true => self.discard(Some(xid), why, &received.bytes),
                false => self.refuse(endpoint, header, why),
            }
            if is_long && has_zero && self.config.reliable_reply.is_some() {
                // It may be a reply. A Requester silently drops this RDMA_DONE.
                self.notify(endpoint, xid, None);
            }
            return;
        }
        match self.start_pull(endpoint, header, payload) {
            Ok(pull) => self.take_call(endpoint, xid, Incoming::new(header, pull)),
            Err(_) => self.refuse(endpoint, header, Discard::TooMuch),
        }
    }

    /// Adds a call, whose Read chunks may still be incomplete.
    pub(super) fn take_call(&mut self, endpoint: &mut Endpoint, xid: Xid, incoming: Incoming) {
        let is_complete = incoming.pull.as_ref().is_some_and(Pull::is_complete);
        self.incoming.insert(xid, incoming);
        if is_complete {
            self.restore_call(endpoint, xid);
        }
    }

    /// Handles the completion of an RDMA Read for a call.
    pub(super) fn call_pulled(&mut self, endpoint: &mut Endpoint, xid: Xid, work: WorkId, bytes: &[u8]) {
        let Some(pull) = self.incoming.get_mut(&xid).and_then(|incoming| incoming.pull.as_mut()) else {
            return;
        };
        pull.take(work, bytes);
        if pull.is_complete() {
            self.restore_call(endpoint, xid);
        }
    }

    /// Restores a call and reports it. A reply with a Position Zero Read chunk also arrives here if
    /// no call has its XID.
    fn restore_call(&mut self, endpoint: &mut Endpoint, xid: Xid) {
        let Some(incoming) = self.incoming.get_mut(&xid) else { return };
        let Some(pull) = incoming.pull.take() else { return };
        let (credits, is_long) = (incoming.credits, incoming.is_long);
        let write_chunks = incoming.writes.iter().map(|chunk| Segment::total(chunk)).collect();
        let reply_chunk = incoming.reply.as_ref().map(|chunk| Segment::total(chunk));
        let handle = incoming.handle();
        let restored = pull.message().map_err(|_| Discard::Chunks);
        let restored = restored.and_then(|(message, items)| match rpc::peek(&message) {
            Ok((other, rpc::Kind::Call)) if other == xid => Ok((message, items)),
            Ok((other, rpc::Kind::Call)) => Err(Discard::OtherXid(other)),
            Ok(_) => Err(Discard::NoPayload),
            Err(stop) => Err(Discard::Malformed(stop)),
        });
        match restored {
            Ok((message, items)) => self.events.push_back(Event::Called(Called {
                xid,
                message,
                items,
                is_long,
                write_chunks,
                reply_chunk,
                credits,
            })),
            Err(why @ Discard::Malformed(_)) if self.transactions.contains_key(&xid) => {
                self.incoming.remove(&xid);
                self.discard(Some(xid), why, &[]);
            }
            // A reply is never answered with an error (RFC 8166, section 4.5).
            Err(Discard::NoPayload) => {
                self.incoming.remove(&xid);
                self.discard(Some(xid), Discard::UnknownXid, &[]);
                if self.config.reliable_reply.is_some() {
                    self.notify(endpoint, xid, handle);
                }
            }
            Err(why) => {
                self.incoming.remove(&xid);
                self.send_error(endpoint, xid, VERSION, Error::Chunk, why);
            }
        }
    }

    /// Answers a call with an RDMA_ERROR (RFC 8166, section 4.5).
    pub(super) fn refuse(&mut self, endpoint: &mut Endpoint, header: &Header<'_>, why: Discard) {
        let error = match why {
            Discard::Version(_) => Error::Version { low: VERSION, high: VERSION },
            _ => Error::Chunk,
        };
        self.send_error(endpoint, header.xid, header.version, error, why);
    }

    pub(super) fn send_error(
        &mut self,
        endpoint: &mut Endpoint,
        xid: Xid,
        version: u32,
        error: Error,
        why: Discard,
    ) {
        let mut header = Builder::new(xid, self.config.credits.max(1), Procedure::Error);
        header.version = version;
        header.error = Some(error);
        self.grants = header.credits;
        // If it cannot be sent, the connection is closed.
        let _ = self.post_message(endpoint, &header, &[], None);
        self.emit(Event::Refused { xid, error, why });
    }

    /// Answers a call of the remote side with ERR_CHUNK, because no reply is possible.
    pub fn reply_error(&mut self, endpoint: &mut Endpoint, xid: Xid) -> Result<(), SessionError> {
        self.incoming.remove(&xid).ok_or(SessionError::Xid)?;
        self.send_error(endpoint, xid, VERSION, Error::Chunk, Discard::ReplyTooLong);
        Ok(())
    }

    /// Drops a call of the remote side without an answer.
    pub fn forget(&mut self, xid: Xid) {
        self.incoming.remove(&xid);
    }

    /// Answers a call of the remote side. If the reply does not fit its chunks, the answer is
    /// ERR_CHUNK.
    pub fn reply(
        &mut self,
        endpoint: &mut Endpoint,
        xid: Xid,
        mut reply: Reply,
    ) -> Result<Sent, SessionError> {
        let edit = reply.edit.take();
        let Some(mut composed) = self.compose(endpoint, xid, &reply)? else { return Ok(Sent::ErrorChunk) };
        if let Some(edit) = edit {
            edit(&mut composed.header, &mut composed.payload);
        }
        self.send_composed(endpoint, composed)
    }

    pub(super) fn too_long(&mut self, endpoint: &mut Endpoint, xid: Xid) -> Result<Sent, SessionError> {
        self.send_error(endpoint, xid, VERSION, Error::Chunk, Discard::ReplyTooLong);
        Ok(Sent::ErrorChunk)
    }
}

/// Distributes `range` over the segments of a chunk. Returns the chunk with the used lengths, or
/// `None` if it is too small.
pub(super) fn fill(
    chunk: &[Segment],
    range: Range<usize>,
    pushes: &mut Vec<(Segment, Range<usize>)>,
) -> Option<Vec<Segment>> {
    let mut at = range.start;
    let returned = chunk
        .iter()
        .map(|segment| {
            let length = (range.end - at).min(segment.length as usize);
            if length > 0 {
                pushes.push((*segment, at..at + length));
            }
            at += length;
            Segment { length: length as u32, ..*segment }
        })
        .collect();
    (at == range.end).then_some(returned)
}

pub(super) fn empty(chunk: &[Segment]) -> Vec<Segment> {
    chunk.iter().map(|segment| Segment { length: 0, ..*segment }).collect()
}
