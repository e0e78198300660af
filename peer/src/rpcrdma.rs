//! RPC-over-RDMA version 1 on a connection, in both directions (RFC 8166, RFC 8167).
//!
//! A [`Session`] is both Requester and Responder: it sends calls, matches replies by XID, receives
//! calls and answers them. It is independent of the upper layer: the caller specifies the items of
//! a message to convey in chunks, and gets the items of Write chunks separately from the reply.

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

/// Most calls that wait for credits or replies, and most calls that wait for an answer.
pub const MOST_CALLS: usize = 1024;
/// Most pending events; discarded messages beyond that are not reported.
const MOST_EVENTS: usize = 16_384;

/// The configuration of a session.
#[derive(Clone, Debug)]
pub struct Config {
    /// rdma_credit: requested in calls and granted in replies.
    pub credits: u32,
    /// The private data for the remote side (RFC 8797); `None`: none.
    pub private_data: Option<PrivateData>,
    /// The longest message in bytes that is read from Read chunks.
    pub most_message: u32,
    /// The longest segment in chunks of this side.
    pub segment: u32,
    /// As Responder, offers Read chunks for replies that fit nowhere else, within these limits. As
    /// Requester, reads such replies and provides fewer Reply chunks. `None`: a reply that does not
    /// fit is answered with ERR_CHUNK. Both ends need it (reliable-reply draft, section 6).
    pub reliable_reply: Option<OfferLimits>,
    /// As Responder, the preferred way to convey replies. `None`: inline, else the Reply chunk,
    /// else a Read chunk (draft, section 5.3.2).
    pub reply_mechanism: Option<Mechanism>,
    /// Number of Receives to keep posted; `None`: enough for the credits in both directions. 0: the
    /// program posts them.
    pub receives: Option<usize>,
}

impl Default for Config {
    /// 32 credits, inline thresholds of 4096 bytes and remote invalidation, like a Linux client.
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
            reliable_reply: None,
            reply_mechanism: None,
            receives: None,
        }
    }
}

impl Config {
    /// Encodes the private data.
    pub fn private_data(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Some(private_data) = &self.private_data {
            private_data.build(&mut bytes);
        }
        bytes
    }
}

/// Changes a header and its Payload stream before they are sent, so that tests can send any error.
pub type Edit = Box<dyn FnOnce(&mut Builder, &mut Vec<u8>) + core::marker::Send>;

/// An event of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The reply to a call.
    Replied(Replied),
    /// An RDMA_ERROR for a call.
    Error {
        /// The call.
        xid: Xid,
        /// rdma_vers of the error, which repeats that of the call.
        version: u32,
        /// The error.
        error: Error,
    },
    /// A call will get no reply, because the connection was lost.
    Lost {
        /// The call.
        xid: Xid,
    },
    /// A complete call of the remote side.
    Called(Called),
    /// A call of the remote side was answered with an RDMA_ERROR: by the session, by request of the
    /// program, or because the reply does not fit ([`Discard::ReplyTooLong`]).
    Refused {
        /// The rdma_xid of the call.
        xid: Xid,
        /// The error in the answer.
        error: Error,
        /// The reason.
        why: Discard,
    },
    /// A message was dropped without an answer.
    Discarded {
        /// Its rdma_xid, if it has one.
        xid: Option<Xid>,
        /// The reason.
        why: Discard,
        /// The message.
        bytes: Vec<u8>,
    },
    /// A reply grants no credit (RFC 8166, section 3.3.1). The session assumes one.
    NoCredit {
        /// The reply.
        xid: Xid,
    },
    /// The remote side has more calls outstanding than it was granted.
    CreditsExceeded {
        /// The call in excess.
        xid: Xid,
        /// The number of outstanding calls, including this one.
        outstanding: usize,
        /// The number of granted credits: one before the first reply.
        granted: u32,
    },
    /// A Read chunk of this side was freed.
    Freed {
        /// The reply in it.
        xid: Xid,
        /// The number of bytes.
        bytes: u64,
        /// Time since the reply.
        offered_for: Duration,
        /// The reason.
        why: Freed,
    },
    /// A SEND invalidated memory that does not belong to the call it answers, or without agreement
    /// of both sides.
    WrongInvalidation {
        /// The XID of the message.
        xid: Xid,
        /// The memory.
        rkey: Rkey,
    },
}

impl Event {
    /// Returns whether the remote side can cause any number of such events, which can be dropped
    /// without other consequences.
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
    /// The call that it answers.
    pub xid: Xid,
    /// The Payload stream: the RPC reply without the items of Write chunks.
    pub message: Vec<u8>,
    /// The item of each Write chunk of the call, in order.
    pub items: Vec<Vec<u8>>,
    /// How it was conveyed.
    pub conveyance: Conveyance,
    /// rdma_credit.
    pub credits: u32,
}

/// A call of the remote side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    /// The XID, a parameter of [`Session::reply`].
    pub xid: Xid,
    /// The complete RPC call, including the items of Read chunks.
    pub message: Vec<u8>,
    /// The ranges of these items in the message, without padding.
    pub items: Vec<Range<usize>>,
    /// Whether the Payload stream was in a Position Zero Read chunk.
    pub is_long: bool,
    /// The number of bytes in each Write chunk.
    pub write_chunks: Vec<u64>,
    /// The number of bytes in the Reply chunk, if there is one.
    pub reply_chunk: Option<u64>,
    /// rdma_credit.
    pub credits: u32,
}

/// Why a message was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Discard {
    /// Too short for a header to be trusted (RFC 8166, section 4.5).
    #[error("{0} bytes, too short for a header")]
    Short(usize),
    /// The header is malformed.
    #[error("{0}")]
    Malformed(#[from] Stop),
    /// rdma_vers is not 1.
    #[error("version {0}")]
    Version(u32),
    /// rdma_proc is not acceptable.
    #[error("{0}")]
    Procedure(Procedure),
    /// No outstanding call has this XID.
    #[error("no call has this XID")]
    UnknownXid,
    /// A call with this XID is outstanding.
    #[error("a call with this XID is outstanding")]
    DuplicateXid,
    /// The XIDs of the RPC message and the header differ.
    #[error("the RPC message has XID {0}")]
    OtherXid(Xid),
    /// RDMA_NOMSG without the chunk of the Payload stream.
    #[error("RDMA_NOMSG without a chunk")]
    NoPayload,
    /// The chunks contradict the message.
    #[error("the chunks do not fit the message")]
    Chunks,
    /// A limit is exceeded: the bytes of a message, or the number of calls.
    #[error("too many bytes or calls")]
    TooMuch,
    /// A reply does not fit the chunks of its call, or the program used [`Session::reply_error`].
    #[error("the reply does not fit the chunks of its call")]
    ReplyTooLong,
}

/// Why a call or reply was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// [`MOST_CALLS`] calls are outstanding.
    #[error("too many calls")]
    TooMany,
    /// The message has no XID, its XID is in use, or no such call waits for an answer.
    #[error("the XID is unknown or in use")]
    Xid,
    /// An item is outside the message, at an offset that is not a multiple of four, or overlaps
    /// another.
    #[error("an item cannot be reduced")]
    Item,
    /// Memory could not be registered.
    #[error("cannot register memory: {0}")]
    Register(#[from] crate::memory::RegisterError),
    /// The queue pair rejects the operation.
    #[error(transparent)]
    Post(#[from] PostError),
}

/// An RPC-over-RDMA session on one connection. See the [module](self).
pub struct Session {
    connection: ConnectionId,
    config: Config,
    negotiated: Negotiated,
    /// Whether the remote side set the R flag, regardless of this side.
    takes_invalidation: bool,
    /// Most bytes in a SEND of this side, and in a SEND of the remote side.
    send_threshold: u32,
    receive_threshold: u32,
    /// As Requester: outstanding calls, calls that wait for credits, and the credits.
    transactions: BTreeMap<Xid, Transaction>,
    waiting: VecDeque<Call>,
    granted: u32,
    /// As Responder: calls that are being read or wait for an answer, and the call of each READ.
    incoming: BTreeMap<Xid, Incoming>,
    pulls: BTreeMap<WorkId, Xid>,
    offers: Offers,
    notices: Notices,
    /// Credits granted to the remote side: one before the first reply.
    grants: u32,
    events: VecDeque<Event>,
    over: bool,
}

impl Session {
    /// Creates a session on a connection with a queue pair, and posts its Receives. `remote` is the
    /// complete private data of the remote side. `active`: this side sent the REQ, so it is the
    /// client of RFC 8797.
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

    /// Returns the result of the private data of both sides (RFC 8797).
    pub const fn negotiated(&self) -> &Negotiated {
        &self.negotiated
    }

    /// Returns the credits granted by the remote side: 1 before its first reply.
    pub const fn granted(&self) -> u32 {
        self.granted
    }

    /// Returns the number of outstanding calls, and of calls that wait for credits.
    pub fn outstanding(&self) -> (usize, usize) {
        (self.transactions.len(), self.waiting.len())
    }

    /// Returns the calls of the remote side that wait for an answer.
    pub fn unanswered(&self) -> impl Iterator<Item = Xid> {
        self.incoming.keys().copied()
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Sends arbitrary bytes and expects no answer; see [`expect`](Session::expect).
    pub fn send_raw(&mut self, endpoint: &mut Endpoint, bytes: Vec<u8>) -> Result<WorkId, PostError> {
        endpoint.send(self.connection, Send { bytes, ..Send::default() })
    }

    /// Accepts a reply or error with this XID, for a call sent by [`send_raw`](Session::send_raw).
    pub fn expect(&mut self, xid: Xid) {
        if self.transactions.len() < MOST_CALLS {
            self.transactions.entry(xid).or_default();
        }
    }

    /// Stops waiting for the reply to a call, and ends the registration of its memory. A reply that
    /// is being read keeps its credit until the read ends.
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

    /// Handles an event of the connection's queue pair.
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

    /// Ends the session when the connection is lost; outstanding calls are lost.
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
        let length = self.config.private_data.unwrap_or_default().receive_bytes() as usize;
        let Some(queue) = endpoint.queue_pair(self.connection) else { return };
        for _ in queue.receives()..wanted {
            if endpoint.post_receive(self.connection, length).is_err() {
                return;
            }
        }
    }

    /// Handles a received message. Calls and replies of both directions share the Receives; the
    /// message itself determines its kind (RFC 8167, section 4.1).
    fn receive(&mut self, endpoint: &mut Endpoint, received: &Received) {
        let bytes = &received.bytes;
        let header = match Header::parse(bytes) {
            // ERR_CHUNK and RDMA_DONE are shorter than the header of a call or reply.
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
                // An unknown error cannot be decoded (RFC 8166, section 4.5).
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
            // Only calls have a Read list, except with the reliable-reply draft.
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
        self.emit(Event::Discarded { xid, why, bytes: bytes.to_vec() });
    }

    fn emit(&mut self, event: Event) {
        if !event.is_detail() || self.events.len() < MOST_EVENTS {
            self.events.push_back(event);
        }
    }

    /// Posts RDMA Reads for the Read list of a message.
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
