//! Performs the steps of a responder's scenario.

use super::{Serving, Subject, Waiting};
use crate::memory::Access;
use crate::peer::Peer;
use crate::rc;
use crate::scenario::message;
use crate::scenario::outcome::Verdict;
use crate::scenario::payload::shown;
use crate::scenario::response::{
    Invalidated, OtherXid, ReadChunk, ReplyChunk, Response, Returned, WriteBeyond,
};
use crate::scenario::step::{Handle, Send, Step};
use crate::time::Instant;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;
use rdmascope_wire::rpcrdma::{Procedure, ReadSegment, Segment};
use rdmascope_wire::{Rkey, Xid};

/// A handle that calls probably do not advertise; the next number replaces one that they do.
const NO_HANDLE: u32 = 0x0bad_0bad;
/// Distance from an XID of the client to those of the scenario: millions of calls, whether the
/// client increments in big-endian or little-endian order.
const FAR: u32 = 0x0080_8000;

impl Serving {
    pub(super) fn perform(&mut self, peer: &mut Peer, now: Instant, step: &Step) {
        let milliseconds = |number: u32| now.plus(Duration::from_millis(u64::from(number)));
        match step {
            Step::Reply(response) => self.respond(peer, response),
            Step::Send(send) => self.send(peer, send),
            Step::WriteBeyond(write) => self.write_beyond(peer, *write),
            Step::Disconnect(_) => {
                self.record.note("DREQ");
                if let Some(subject) = &self.subject {
                    // An error means that the connection is already closed.
                    let _ = peer.disconnect(subject.connection);
                }
            }
            Step::Wait(time) => {
                self.waiting = Waiting::Time;
                self.deadline = Some(milliseconds(*time));
            }
            Step::Observe(observe) => {
                self.waiting = Waiting::Observe(observe.until);
                self.deadline = Some(milliseconds(observe.within));
            }
            // The parser rejects other steps in a responder's scenario.
            _ => self.stop(Verdict::NotApplicable, "a step of the requester's side".to_string()),
        }
    }

    fn respond(&mut self, peer: &mut Peer, response: &Response) {
        let Some(subject) = &mut self.subject else { return };
        let connection = subject.connection;
        if response.is_right() && subject.is_repeated {
            return self.record.note("no reply: the call was repeated and answered");
        }
        if response.is_right() && subject.is_done {
            return self.record.note("no reply: RDMA_DONE ended the call");
        }
        let invalidate = match response.invalidate {
            // A client that may have its reply has ended the registration. Invalidating it again
            // would end the connection.
            None if response.is_right() && !subject.is_answered && subject.calls == 0 => {
                subject.right.invalidate.take()
            }
            None => None,
            Some(Invalidated::Unknown) => Some(unknown_handle(subject)),
            Some(Invalidated::Earlier) => match self.earlier.get(&connection) {
                Some(handle) => Some(*handle),
                None => {
                    let why = "no earlier call on the connection provided memory";
                    return self.stop(Verdict::NotApplicable, why.to_string());
                }
            },
        };
        let writes = core::mem::take(&mut subject.right.writes);
        let room = room(peer, subject);
        let reads = match response.read_chunk.map(|chunk| expose(peer, subject, chunk, room)) {
            Some(None) => {
                return self.stop(Verdict::NotApplicable, "cannot offer a Read chunk".to_string());
            }
            Some(Some(reads)) => reads,
            None => Vec::new(),
        };
        let bytes = build(subject, response, reads);
        let description = format!("reply to {}, XID 0x{:08x}", subject.name, subject.xid.0);
        if let Some((_, endpoint)) = peer.session_mut(connection) {
            for (segment, bytes) in writes {
                // If the connection is closed, the SEND reports that.
                let _ = endpoint.write(connection, segment.handle, segment.offset, bytes);
            }
        }
        for _ in 0..response.times.unwrap_or(1) {
            let is_sent = self.post(peer, bytes.clone(), invalidate, &description);
            if let Some(subject) = &mut self.subject {
                subject.is_answered |= is_sent && response.completes();
            }
        }
    }

    fn send(&mut self, peer: &mut Peer, send: &Send) {
        let Some(subject) = &self.subject else { return };
        let first = subject.xid.0 ^ FAR;
        for number in 0..send.times.unwrap_or(1) {
            let count = send.xid.map_or(self.next_xid, |xid| xid.wrapping_add(number));
            self.next_xid = self.next_xid.max(count.wrapping_add(1));
            let xid = first.wrapping_add(count);
            let payload_xid = send.payload_xid.map_or(xid, |xid| first.wrapping_add(xid));
            let invalidate = match send.invalidate {
                Some(Handle::Number(number)) => Some(Rkey(number)),
                _ => None,
            };
            let (message, bytes, _) = message::build(send, xid, payload_xid, &[], &BTreeMap::new());
            let vers = message.vers.map(|vers| format!(", rdma_vers {vers}")).unwrap_or_default();
            let description = format!("SEND of XID 0x{xid:08x}{vers}");
            self.messages.insert(xid, message);
            self.post(peer, bytes, invalidate, &description);
        }
    }

    fn write_beyond(&mut self, peer: &mut Peer, write: WriteBeyond) {
        let Some(subject) = &self.subject else { return };
        let (connection, right) = (subject.connection, &subject.right);
        let chunk = match write.chunk {
            ReplyChunk::Write => right.offered_writes.iter().flatten().next_back(),
            ReplyChunk::Reply => right.offered_reply.iter().flatten().next_back(),
        };
        let Some(segment) = chunk.copied() else {
            return self.stop(Verdict::NotApplicable, "the call provides no such chunk".to_string());
        };
        let address = segment.offset.wrapping_add(u64::from(segment.length));
        let (handle, length) = (segment.handle, write.length);
        self.record.note(format!("WRITE of {length} bytes past the memory of handle 0x{:08x}", handle.0));
        if let Some((_, endpoint)) = peer.session_mut(connection) {
            let posted = endpoint.write(connection, handle, address, vec![0; length as usize]);
            self.operations.extend(posted);
        }
    }

    /// Posts a SEND. Returns whether a connection accepted it.
    fn post(&mut self, peer: &mut Peer, bytes: Vec<u8>, invalidate: Option<Rkey>, description: &str) -> bool {
        let shown = shown(&bytes);
        let with =
            invalidate.map(|handle| format!(", with invalidate of 0x{:08x}", handle.0)).unwrap_or_default();
        let length = bytes.len();
        let connection = self.subject.as_ref().map(|subject| subject.connection);
        let posted = connection.and_then(|connection| {
            let (_, endpoint) = peer.session_mut(connection)?;
            endpoint.send(connection, rc::Send { bytes, invalidate, ..rc::Send::default() }).ok()
        });
        let note = if posted.is_some() { "" } else { "; not sent: the connection is closed" };
        self.record.note(format!("{description}{with}, {length} bytes: {shown}{note}"));
        posted.is_some()
    }
}

/// Returns the number of Read list entries that fit the reply.
fn room(peer: &Peer, subject: &Subject) -> usize {
    let threshold =
        peer.session(subject.connection).map(|session| session.negotiated().reply_inline_threshold);
    let mut header = Vec::new();
    subject.right.header.build(&mut header);
    let room = (threshold.unwrap_or_default() as usize).saturating_sub(header.len());
    (room / (8 + Segment::LENGTH)).max(1)
}

/// Registers the Payload stream of the correct reply as a Read chunk. `None`: the SEND of the
/// correct reply does not hold the stream, or no memory can be registered.
fn expose(peer: &mut Peer, subject: &Subject, chunk: ReadChunk, room: usize) -> Option<Vec<ReadSegment>> {
    let stream = &subject.right.payload;
    let (_, endpoint) = peer.session_mut(subject.connection)?;
    let mut reads = Vec::new();
    for part in parts(stream, chunk, room) {
        let (handle, offset) = endpoint.register(subject.connection, part.to_vec(), Access::READ).ok()?;
        let length = if chunk.empty { 0 } else { u32::try_from(part.len()).ok()? };
        reads.push(ReadSegment { position: chunk.position, target: Segment { handle, length, offset } });
    }
    (!reads.is_empty()).then_some(reads)
}

/// Splits a Payload stream into at most `room` parts.
fn parts(stream: &[u8], chunk: ReadChunk, room: usize) -> Vec<&[u8]> {
    let each = chunk.bytes_each.filter(|_| !chunk.empty).map_or(stream.len(), |bytes| bytes as usize).max(1);
    let first = stream.len().min(each.saturating_mul(room - 1));
    let (first, rest) = stream.split_at(first);
    let parts = first.chunks(each).chain([rest]);
    parts.filter(|part| !part.is_empty()).collect()
}

fn unknown_handle(subject: &Subject) -> Rkey {
    let right = &subject.right;
    let offered = || right.offered_writes.iter().chain(&right.offered_reply).flatten();
    let mut handle = NO_HANDLE;
    while offered().any(|segment| segment.handle.0 == handle) {
        handle += 1;
    }
    Rkey(handle)
}

/// Builds the message of a reply.
fn build(subject: &Subject, response: &Response, reads: Vec<ReadSegment>) -> Vec<u8> {
    let right = &subject.right;
    let (mut header, mut payload) = (right.header.clone(), right.payload.clone());
    let other = Xid(!subject.xid.0);
    if matches!(response.xid, Some(OtherXid::Both | OtherXid::Header)) {
        header.xid = other;
    }
    if matches!(response.xid, Some(OtherXid::Both | OtherXid::Payload))
        && let Some(word) = payload.first_chunk_mut()
    {
        *word = other.0.to_be_bytes();
    }
    header.version = response.vers.unwrap_or(header.version);
    header.credits = response.credits.unwrap_or(header.credits);
    if response.read_chunk.is_some_and(|chunk| !chunk.beside_message) {
        header.procedure = Procedure::Nomsg;
        payload.clear();
    }
    header.reads.extend(reads);
    if let Some(procedure) = response.proc {
        header.procedure = message::procedure(procedure);
        if matches!(header.procedure, Procedure::Done | Procedure::Error) {
            payload.clear();
        }
        if header.procedure == Procedure::Msgp {
            header.padding = Some((0, 0));
        }
    }
    header.error = response.error.map(message::error);
    let entry =
        ReadSegment { position: 0, target: Segment { handle: Rkey(NO_HANDLE), length: 4, offset: 0 } };
    header.reads.extend(vec![entry; response.reads]);
    header.writes = returned(header.writes, &right.offered_writes, response.writes);
    let offered: Vec<Vec<Segment>> = right.offered_reply.iter().cloned().collect();
    let chunks: Vec<Vec<Segment>> = header.reply.take().into_iter().collect();
    header.reply = returned(chunks, &offered, response.reply_chunk).pop();
    if response.without_payload {
        payload.clear();
    }
    let mut bytes = Vec::new();
    header.build(&mut bytes);
    bytes.extend(payload);
    let Response { patch, truncate, append, pad_to, .. } = response;
    message::modify(&mut bytes, patch, *truncate, append.as_deref(), *pad_to);
    bytes
}

/// Applies the errors to the chunks of a reply.
fn returned(mut chunks: Vec<Vec<Segment>>, offered: &[Vec<Segment>], change: Returned) -> Vec<Vec<Segment>> {
    if change.absent {
        return Vec::new();
    }
    for (chunk, offered) in chunks.iter_mut().zip(offered) {
        for (segment, offered) in chunk.iter_mut().zip(offered) {
            if change.other_handle {
                segment.handle = Rkey(!segment.handle.0);
            }
            if let Some(longer) = change.longer {
                segment.length = offered.length.saturating_add(longer);
            }
        }
        chunk.truncate(chunk.len().saturating_sub(change.without));
        let last = chunk.last().copied();
        chunk.extend(last.into_iter().flat_map(|last| vec![last; change.more]));
    }
    chunks
}
