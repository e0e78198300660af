//! RPC-over-RDMA version 1 on a connection, in both directions (RFC 8166, RFC 8167).
//!
//! A [`Session`] is Requester and Responder at once: it sends calls, matches replies with them by XID, takes calls, and answers
//! them. It knows no upper layer: whoever calls names the items of a message that chunks are to carry, and whoever takes a reply
//! gets those that Write chunks brought beside the message.

mod composed;
mod conveyance;
mod message;
mod notice;
mod offers;
mod pull;
mod recorded;
mod requester;
mod responder;

pub use composed::Composed;
pub use conveyance::{Conveyance, Invalidated, Mechanism, Returned, handles};
pub use message::{RestoreError, reduce, restore};
pub use offers::{Freed, OfferLimits};
pub use recorded::RecordedReply;
pub use requester::{Call, Shape};
pub use responder::{Reply, Sent};

use crate::endpoint::{ConnectionId, Endpoint};
use crate::rc::{PostError, QueueEvent, Received, Send, WorkId};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::ops::Range;
use core::time::Duration;
use notice::Notices;
use offers::Offers;
use pull::Pull;
use rdmascope_wire::private_data::{Negotiated, PrivateData};
use rdmascope_wire::rpc;
use rdmascope_wire::rpcrdma::{Builder, Error, Header, MINIMUM_LENGTH, Procedure, VERSION};
use rdmascope_wire::{Layer, Rkey, Stop, Xid};
use requester::Transaction;
use responder::Incoming;

/// Calls that wait for credits or for their reply; calls that wait to be answered.
pub const MOST_CALLS: usize = 1024;
/// Events that nobody polled; beyond that discarded messages are not told.
const MOST_EVENTS: usize = 16_384;

/// How a session behaves.
#[derive(Clone, Debug)]
pub struct Config {
    /// rdma_credit: asked for in calls, granted in replies.
    pub credits: u32,
    /// What the remote side is told when the connection is made (RFC 8797); `None`: nothing.
    pub private_data: Option<PrivateData>,
    /// The longest message, in bytes, that is pulled by Read chunks.
    pub most_message: u32,
    /// The longest segment of a chunk that this side offers.
    pub segment: u32,
    /// As Responder, send replies with invalidate, where both sides agreed on it.
    pub send_with_invalidate: bool,
    /// Take chunks in calls of the remote side. Without, a call with a chunk is answered with ERR_CHUNK (RFC 8167, section 5.3).
    pub chunks: bool,
    /// As Responder, offer Read chunks for replies that fit nothing else, within these limits; as
    /// Requester, pull such replies and offer fewer Reply chunks. `None`: a reply that does not fit is
    /// answered with ERR_CHUNK. Both ends need it (reliable-reply draft, section 6).
    pub reliable_reply: Option<OfferLimits>,
    /// As Responder, how replies are conveyed where that is possible. `None`: as section 5.3.2 of the
    /// draft describes, inline before the Reply chunk before a Read chunk.
    pub reply_mechanism: Option<Mechanism>,
    /// Receives that are kept posted; `None`: as many as credits say, in both directions. 0: the program posts them.
    pub receives: Option<usize>,
    /// Bytes of a Receive; `None`: what the private data say.
    pub receive_length: Option<usize>,
}

impl Default for Config {
    /// 32 credits, 4096 bytes inline each way, remote invalidation: as a Linux client.
    fn default() -> Config {
        Config {
            credits: 32,
            private_data: Some(PrivateData {
                remote_invalidation: true,
                send_size: 3,
                receive_size: 3,
                ..PrivateData::DEFAULT
            }),
            most_message: 4 << 20,
            segment: 1 << 20,
            send_with_invalidate: true,
            chunks: true,
            reliable_reply: None,
            reply_mechanism: None,
            receives: None,
            receive_length: None,
        }
    }
}

impl Config {
    /// The private data as bytes.
    pub fn private_data(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Some(private_data) = &self.private_data {
            private_data.build(&mut bytes);
        }
        bytes
    }
}

/// Changes a header and the Payload stream behind it, right before they are sent: every field can be made wrong.
pub type Edit = Box<dyn FnOnce(&mut Builder, &mut Vec<u8>) + core::marker::Send>;

/// What a session tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The reply to a call.
    Replied(Replied),
    /// An RDMA_ERROR for a call.
    Error {
        /// Of which call.
        xid: Xid,
        /// rdma_vers of the error: that of the call.
        version: u32,
        /// What it says.
        error: Error,
    },
    /// A call will have no reply: the connection is gone.
    Lost {
        /// Which.
        xid: Xid,
    },
    /// A call of the remote side, whole.
    Called(Called),
    /// A call of the remote side was answered with an RDMA_ERROR: by the session, or because the program asked for it, or for a reply that
    /// does not fit ([`Discard::ReplyTooLong`]).
    Refused {
        /// Which call, as its rdma_xid says.
        xid: Xid,
        /// With what.
        error: Error,
        /// Why.
        why: Discard,
    },
    /// A message that was dropped without an answer.
    Discarded {
        /// Its rdma_xid, where it has one.
        xid: Option<Xid>,
        /// Why.
        why: Discard,
        /// The message.
        bytes: Vec<u8>,
    },
    /// A reply grants no credit (RFC 8166, section 3.3.1); one is assumed.
    NoCredit {
        /// Which reply.
        xid: Xid,
    },
    /// The remote side has more calls outstanding than were granted to it.
    CreditsExceeded {
        /// The call beyond.
        xid: Xid,
        /// Calls outstanding, with this one.
        outstanding: usize,
        /// What was granted: one before the first reply.
        granted: u32,
    },
    /// A Read chunk of this side is no longer offered.
    Freed {
        /// The reply that was in it.
        xid: Xid,
        /// Its bytes.
        bytes: u64,
        /// From the reply until now.
        offered_for: Duration,
        /// Why.
        why: Freed,
    },
    /// A SEND invalidated memory that is none of the call's that it answers, or without both sides having agreed on it.
    WrongInvalidation {
        /// The message's XID.
        xid: Xid,
        /// The memory.
        rkey: Rkey,
    },
}

impl Event {
    /// Whether the remote side can cause any number of it, and nothing is lost but the tale where it is not told.
    pub const fn is_detail(&self) -> bool {
        matches!(
            self,
            Event::Discarded { .. }
                | Event::Refused { .. }
                | Event::NoCredit { .. }
                | Event::CreditsExceeded { .. }
                | Event::WrongInvalidation { .. }
                | Event::Freed { .. }
        )
    }
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replied {
    /// Which call it answers.
    pub xid: Xid,
    /// The Payload stream: the RPC reply without what Write chunks carried.
    pub message: Vec<u8>,
    /// What each Write chunk of the call brought, in order.
    pub items: Vec<Vec<u8>>,
    /// How it was conveyed.
    pub conveyance: Conveyance,
    /// rdma_credit.
    pub credits: u32,
}

/// A call of the remote side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    /// Its XID. [`Session::reply`] wants it.
    pub xid: Xid,
    /// The whole RPC call, with what Read chunks carried put back.
    pub message: Vec<u8>,
    /// Where in it that is, without padding.
    pub items: Vec<Range<usize>>,
    /// Whether the Payload stream came in a Position Zero Read chunk.
    pub is_long: bool,
    /// How many bytes each Write chunk has room for.
    pub write_chunks: Vec<u64>,
    /// How many the Reply chunk has, where there is one.
    pub reply_chunk: Option<u64>,
    /// rdma_credit.
    pub credits: u32,
}

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Discard {
    /// Too short for a header to be trusted (RFC 8166, section 4.5).
    #[error("{0} bytes are no header")]
    Short(usize),
    /// The header could not be read.
    #[error("{0}")]
    Malformed(#[from] Stop),
    /// rdma_vers is not 1.
    #[error("version {0}")]
    Version(u32),
    /// rdma_proc is none that is taken.
    #[error("{0}")]
    Procedure(Procedure),
    /// No call has this XID.
    #[error("no call has this XID")]
    UnknownXid,
    /// A call with this XID is not answered yet.
    #[error("a call with this XID is not answered yet")]
    DuplicateXid,
    /// The XID of the RPC message is another one than that of the header.
    #[error("the RPC message has XID {0}")]
    OtherXid(Xid),
    /// RDMA_NOMSG without the chunk that would hold the Payload stream.
    #[error("RDMA_NOMSG without a chunk")]
    NoPayload,
    /// The chunks cannot be what they say.
    #[error("the chunks do not fit the message")]
    Chunks,
    /// More than is taken: bytes of a message, or calls at once.
    #[error("too much")]
    TooMuch,
    /// Chunks are not taken in this direction.
    #[error("chunks are not taken")]
    ChunksNotTaken,
    /// A reply does not fit the chunks of its call, or the program said so: [`Session::reply_error`].
    #[error("the reply does not fit the chunks of its call")]
    ReplyTooLong,
}

/// Why a call or a reply is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// [`MOST_CALLS`] are outstanding.
    #[error("too many calls")]
    TooMany,
    /// The message has no XID, or a call with it is outstanding, or there is no such call to answer.
    #[error("no such XID, or one that is in use")]
    Xid,
    /// An item is not within the message, at an offset that is no multiple of four, or overlaps another.
    #[error("an item that cannot be reduced")]
    Item,
    /// Memory cannot be registered.
    #[error("memory cannot be registered: {0}")]
    Register(#[from] crate::memory::RegisterError),
    /// The queue pair does not take it.
    #[error(transparent)]
    Post(#[from] PostError),
}

/// RPC-over-RDMA on one connection. See the [module](self).
pub struct Session {
    connection: ConnectionId,
    config: Config,
    negotiated: Negotiated,
    /// Whether the remote side set the R flag, whatever this one did.
    takes_invalidation: bool,
    /// Bytes that a SEND of this side may have, and those that one of the remote side may have.
    send_threshold: u32,
    receive_threshold: u32,
    /// As Requester: calls in flight, calls that wait for credits, and the credits.
    transactions: BTreeMap<Xid, Transaction>,
    waiting: VecDeque<Call>,
    granted: u32,
    /// As Responder: calls that are pulled or wait to be answered, and which call each READ is for.
    incoming: BTreeMap<Xid, Incoming>,
    pulls: BTreeMap<WorkId, Xid>,
    offers: Offers,
    notices: Notices,
    /// What was granted to the remote side: one call until the first reply says more.
    grants: u32,
    events: VecDeque<Event>,
    over: bool,
}

impl Session {
    /// A session on a connection whose queue pair is there, and posts its Receives. `remote` is the private data of the remote
    /// side, whole; `active`: this side sent the REQ, so it is the client of RFC 8797.
    pub fn new(
        endpoint: &mut Endpoint,
        connection: ConnectionId,
        config: Config,
        remote: &[u8],
        active: bool,
    ) -> Session {
        let theirs = rdmascope_wire::private_data::find(remote).and_then(|found| found.valid());
        let ours = config.private_data;
        let negotiated = if active { Negotiated::new(ours, theirs) } else { Negotiated::new(theirs, ours) };
        let (call, reply) = (negotiated.call_inline_threshold, negotiated.reply_inline_threshold);
        let (send_threshold, receive_threshold) = if active { (call, reply) } else { (reply, call) };
        let mut session = Session {
            connection,
            config,
            negotiated,
            takes_invalidation: theirs.is_some_and(|theirs| theirs.remote_invalidation),
            send_threshold,
            receive_threshold,
            transactions: BTreeMap::new(),
            waiting: VecDeque::new(),
            granted: 1,
            incoming: BTreeMap::new(),
            pulls: BTreeMap::new(),
            offers: Offers::default(),
            notices: Notices::default(),
            grants: 1,
            events: VecDeque::new(),
            over: false,
        };
        session.post_receives(endpoint);
        session
    }

    /// The connection that it is on.
    pub const fn connection(&self) -> ConnectionId {
        self.connection
    }

    /// What RFC 8797 made of the private data of both sides.
    pub const fn negotiated(&self) -> &Negotiated {
        &self.negotiated
    }

    /// Credits that the remote side granted: 1 before its first reply.
    pub const fn granted(&self) -> u32 {
        self.granted
    }

    /// Calls sent and not answered; calls that wait for credits.
    pub fn outstanding(&self) -> (usize, usize) {
        (self.transactions.len(), self.waiting.len())
    }

    /// Calls of the remote side that are not answered.
    pub fn unanswered(&self) -> impl Iterator<Item = Xid> {
        self.incoming.keys().copied()
    }

    /// What has happened, in order.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Sends any bytes at all. Nothing is expected to come of it; see [`expect`](Session::expect).
    pub fn send_raw(&mut self, endpoint: &mut Endpoint, bytes: Vec<u8>) -> Result<WorkId, PostError> {
        endpoint.send(self.connection, Send { bytes, ..Send::default() })
    }

    /// Takes a reply or an error with this XID as that of a call, for a call that [`send_raw`](Session::send_raw) sends.
    pub fn expect(&mut self, xid: Xid) {
        if self.transactions.len() < MOST_CALLS {
            self.transactions.entry(xid).or_default();
        }
    }

    /// Expects no reply to a call any longer, and ends the registration of its memory. A reply that is
    /// being pulled keeps its credit until the pull ends.
    pub fn cancel(&mut self, endpoint: &mut Endpoint, xid: Xid) {
        if let Some(transaction) = self.transactions.get_mut(&xid) {
            transaction.release(endpoint, self.connection);
            transaction.is_cancelled = true;
            if !transaction.is_pulling() {
                self.transactions.remove(&xid);
            }
        }
        self.waiting.retain(|call| call.xid() != Some(xid));
        self.start_calls(endpoint);
    }

    /// Sends calls as if so many credits had been granted, until a reply says otherwise.
    pub fn assume_credits(&mut self, endpoint: &mut Endpoint, credits: u32) {
        self.granted = credits;
        self.start_calls(endpoint);
    }

    /// Takes what the queue pair of its connection tells.
    pub fn handle(&mut self, endpoint: &mut Endpoint, event: &QueueEvent) {
        match event {
            QueueEvent::Received(received) => {
                self.post_receives(endpoint);
                self.receive(endpoint, received);
            }
            QueueEvent::Completed { work, outcome: Ok(bytes) } => {
                self.notified(endpoint, *work);
                self.pulled(endpoint, *work, bytes);
            }
            QueueEvent::Failed(_) => self.end(endpoint),
            _ => {}
        }
    }

    /// The connection is gone: calls are lost.
    pub fn end(&mut self, endpoint: &mut Endpoint) {
        if core::mem::replace(&mut self.over, true) {
            return;
        }
        let waiting = self.waiting.drain(..).filter_map(|call| call.xid());
        let lost: BTreeSet<Xid> = self.transactions.keys().copied().chain(waiting).collect();
        for transaction in core::mem::take(&mut self.transactions).into_values() {
            transaction.release(endpoint, self.connection);
        }
        self.incoming.clear();
        self.pulls.clear();
        self.free_all(endpoint);
        self.events.extend(lost.into_iter().map(|xid| Event::Lost { xid }));
    }

    fn post_receives(&mut self, endpoint: &mut Endpoint) {
        let credits = 2 * self.config.credits.clamp(1, 1 << 14) as usize + 8;
        let wanted = self.config.receives.unwrap_or(credits + self.offers.len());
        let threshold = self.config.private_data.unwrap_or_default().receive_bytes() as usize;
        let length = self.config.receive_length.unwrap_or(threshold);
        let Some(queue) = endpoint.queue_pair(self.connection) else { return };
        for _ in queue.receives()..wanted {
            if endpoint.post_receive(self.connection, length).is_err() {
                return;
            }
        }
    }

    /// A message has come. Calls and replies of both directions share the Receives; what it is follows from the message (RFC
    /// 8167, section 4.1).
    fn receive(&mut self, endpoint: &mut Endpoint, received: &Received) {
        let bytes = &received.bytes;
        let header = match Header::parse(bytes) {
            // An ERR_CHUNK and an RDMA_DONE are shorter than any header of a call or reply.
            Ok(header)
                if bytes.len() >= MINIMUM_LENGTH || header.error.is_some() || self.takes_done(&header) =>
            {
                header
            }
            _ => return self.discard(None, Discard::Short(bytes.len()), bytes),
        };
        let xid = header.xid;
        let is_known = self.transactions.contains_key(&xid);
        if header.procedure == Procedure::Error {
            return match header.error {
                // An error that has no name cannot be decoded (RFC 8166, section 4.5).
                Some(Error::Unknown(_)) => {
                    self.discard(Some(xid), Discard::Procedure(Procedure::Error), bytes)
                }
                Some(error) if is_known => self.failed(endpoint, &header, error),
                Some(_) => self.discard(Some(xid), Discard::UnknownXid, bytes),
                None => {
                    let why = header.stop.map_or(Discard::Procedure(Procedure::Error), Discard::Malformed);
                    self.discard(Some(xid), why, bytes)
                }
            };
        }
        if header.procedure == Procedure::Done && self.config.reliable_reply.is_some() {
            return self.done(endpoint, xid, received.invalidated);
        }
        if header.procedure == Procedure::Done {
            return self.discard(Some(xid), Discard::Procedure(Procedure::Done), bytes);
        }
        let payload = bytes.get(header.length..).unwrap_or_default();
        let kind = match header.procedure {
            Procedure::Msg if header.stop.is_none() && header.version == VERSION => rpc::peek(payload).ok(),
            _ => None,
        };
        let is_reply = match kind {
            Some((_, kind)) => kind == rpc::Kind::Reply,
            // Only a call has a Read list, unless both ends have agreed on the draft.
            None => is_known && (header.reads.is_empty() || self.config.reliable_reply.is_some()),
        };
        let fault = if header.version != VERSION {
            Some(Discard::Version(header.version))
        } else if let Some(stop) = header.stop {
            Some(match header.procedure {
                Procedure::Unknown(_) => Discard::Procedure(header.procedure),
                _ => Discard::Malformed(stop),
            })
        } else if header.procedure == Procedure::Msgp {
            Some(Discard::Procedure(Procedure::Msgp))
        } else {
            match (header.procedure, kind) {
                (Procedure::Msg, None) => Some(Discard::Malformed(Stop::malformed(Layer::Rpc, 0))),
                (_, Some((other, _))) if other != xid => Some(Discard::OtherXid(other)),
                _ => None,
            }
        };
        match (is_reply, fault) {
            (true, Some(why)) => self.discard(Some(xid), why, bytes),
            (true, None) if !is_known => self.discard(Some(xid), Discard::UnknownXid, bytes),
            (true, None) if header.reads.is_empty() => self.replied(endpoint, &header, payload, received),
            (true, None) if self.config.reliable_reply.is_some() => {
                self.pull_reply(endpoint, &header, received)
            }
            (true, None) => self.discard(Some(xid), Discard::Chunks, bytes),
            (false, Some(why)) => self.refuse(endpoint, &header, why),
            (false, None) => self.called(endpoint, &header, payload, received),
        }
    }

    fn discard(&mut self, xid: Option<Xid>, why: Discard, bytes: &[u8]) {
        self.tell(Event::Discarded { xid, why, bytes: bytes.to_vec() });
    }

    fn tell(&mut self, event: Event) {
        if !event.is_detail() || self.events.len() < MOST_EVENTS {
            self.events.push_back(event);
        }
    }

    /// RDMA Reads for the Read list of a message.
    fn start_pull(
        &mut self,
        endpoint: &mut Endpoint,
        header: &Header<'_>,
        inline: &[u8],
    ) -> Result<Pull, PostError> {
        let pull = Pull::start(endpoint, self.connection, header, inline)?;
        self.pulls.extend(pull.works().map(|work| (work, header.xid)));
        Ok(pull)
    }

    /// Builds a message and posts its SEND.
    fn post_message(
        &self,
        endpoint: &mut Endpoint,
        header: &Builder,
        payload: &[u8],
        invalidate: Option<Rkey>,
    ) -> Result<WorkId, PostError> {
        let mut bytes = Vec::with_capacity(MINIMUM_LENGTH + payload.len());
        header.build(&mut bytes);
        bytes.extend_from_slice(payload);
        endpoint.send(self.connection, Send { bytes, invalidate, ..Send::default() })
    }
}
