//! Answers calls with the recorded replies, and makes the recorded backward calls.

use super::compare::{self, Comparison};
use super::directory::Listing;
use super::recording::{Answer, Recording};
use super::replayer::set_xid;
use super::{fields, fields::Called};
use crate::endpoint::{self, ConnectionId};
use crate::peer::{Event, Peer};
use crate::rpcrdma::{self, Mechanism, RecordedReply, Sent};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use rdmascope_wire::xdr::Reader;
use rdmascope_wire::{Layer, Xid, rpc};

/// The handling of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// Its connection.
    pub connection: ConnectionId,
    /// Its XID.
    pub xid: Xid,
    /// The index of the matching call in the recording; `None` if there is none.
    pub call: Option<usize>,
    /// The procedure, if it can be parsed.
    pub called: Option<Called>,
    /// The way in which it was answered.
    pub how: How,
}

/// The way in which a call was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// With the recorded reply or error.
    AsRecorded,
    /// With the reply to the last such call, because the client made the call more often than
    /// recorded.
    Again,
    /// Not at all: the recorded call has no reply, or the recording lacks it.
    NotAnswered,
    /// With ERR_CHUNK, because the recorded reply does not fit the chunks of this call.
    TooLong,
    /// With SYSTEM_ERR, because the recording has no such call.
    Unknown,
    /// A backward call, which the client answered; the reply compared with the recorded one.
    Backward(Comparison),
    /// The answer or the backward call could not be sent; the connection may be closed.
    Failed,
}

/// A connected client.
#[derive(Clone, Debug, Default)]
struct Client {
    /// The recorded connection that it is matched with.
    connection: usize,
    /// Recorded calls that it has made.
    used: BTreeSet<usize>,
    /// The number of calls that it has made from the start of each list in the index.
    made: BTreeMap<Key, usize>,
    /// The first recorded call that it has not made, if it calls in order.
    next: usize,
    /// Outstanding calls to the client.
    waiting: BTreeMap<Xid, usize>,
}

/// A recorded connection, and the hash of a [`Question`].
type Key = (usize, u64);

/// A Responder that replays recorded replies; see the [module](super).
///
/// Its peer must let the program accept connections.
pub struct Responder {
    recording: Arc<Recording>,
    /// Forward calls that are equal apart from XID and credential, by connection and a hash of the
    /// rest.
    index: BTreeMap<Key, Vec<usize>>,
    clients: BTreeMap<ConnectionId, Client>,
    /// The number of connection requests so far.
    requests: usize,
}

impl Responder {
    /// A Responder for this recording.
    pub fn new(recording: Arc<Recording>) -> Responder {
        let mut index: BTreeMap<Key, Vec<usize>> = BTreeMap::new();
        for (number, call) in recording.calls.iter().enumerate().filter(|(_, call)| !call.backward) {
            if let Some(question) = Question::of(&call.message) {
                index.entry((call.connection, question.hash())).or_default().push(number);
            }
        }
        Responder { recording, index, clients: BTreeMap::new(), requests: 0 }
    }

    /// Handles an event of the peer. The n-th connection is matched with the n-th recorded one;
    /// after the last, matching starts again at the first.
    pub fn handle(&mut self, peer: &mut Peer, event: &Event) -> Vec<Answered> {
        match event {
            Event::Endpoint(endpoint::Event::Requested { connection, .. }) => {
                self.requested(peer, *connection);
                Vec::new()
            }
            Event::Endpoint(endpoint::Event::Closed { connection, .. }) => {
                self.clients.remove(connection);
                Vec::new()
            }
            Event::Rpc { connection, event: rpcrdma::Event::Called(called) } => {
                let mut answered = alloc::vec![self.answer(peer, *connection, called)];
                self.call_back(peer, *connection, &mut answered);
                answered
            }
            Event::Rpc { connection, event: rpcrdma::Event::Replied(replied) } => {
                let found = self.called_back(*connection, replied.xid, |answer, called| match answer {
                    Answer::Reply { stream, items, .. } => {
                        let live = (&replied.message[..], &replied.items[..]);
                        How::Backward(compare::replies(
                            called,
                            (stream, items),
                            live,
                            (None, false),
                            &mut Listing::default(),
                            |_, _, _| {},
                        ))
                    }
                    _ => How::Backward(Comparison::default()),
                });
                found.into_iter().collect()
            }
            Event::Rpc {
                connection,
                event: rpcrdma::Event::Error { xid, .. } | rpcrdma::Event::Lost { xid },
            } => self.called_back(*connection, *xid, |_, _| How::Failed).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    fn requested(&mut self, peer: &mut Peer, connection: ConnectionId) {
        let count = self.recording.connections.len();
        let index = self.requests.checked_rem(count).unwrap_or(0);
        self.requests += 1;
        let rejected = self.recording.connections.get(index).and_then(|recorded| recorded.rejected);
        // An error means that the connection is closed already.
        let _ = match rejected {
            Some(reason) => peer.endpoint_mut().reject(connection, reason, &[]),
            None => {
                self.clients.insert(connection, Client { connection: index, ..Client::default() });
                peer.accept(connection)
            }
        };
    }

    fn answer(&mut self, peer: &mut Peer, id: ConnectionId, called: &rpcrdma::Called) -> Answered {
        let (call, again) = self.find(id, called);
        let question = Question::of(&called.message);
        let mut answered = Answered {
            connection: id,
            xid: called.xid,
            call,
            called: question.as_ref().map(|question| question.called),
            how: if again { How::Again } else { How::AsRecorded },
        };
        let Some((session, endpoint)) = peer.session_mut(id) else {
            answered.how = How::Failed;
            return answered;
        };
        let sent = match call.map(|call| &self.recording.calls[call].answer) {
            Some(Answer::Reply { stream, items, conveyance, .. }) => {
                let mut stream = stream.clone();
                set_xid(&mut stream, called.xid);
                let reply = RecordedReply { stream, items: items.clone(), conveyance: conveyance.clone() };
                session.reply_recorded(endpoint, called.xid, reply)
            }
            Some(Answer::Error { .. }) => {
                session.reply_error(endpoint, called.xid).map(|()| Sent::Reply(Mechanism::Send))
            }
            Some(Answer::Nothing | Answer::Unknown { .. }) => {
                session.forget(called.xid);
                answered.how = How::NotAnswered;
                Ok(Sent::Reply(Mechanism::Send))
            }
            None => {
                answered.how = How::Unknown;
                let mut message = Vec::new();
                rpc::Reply { xid: called.xid, status: rpc::Status::SystemError, verifier: None }
                    .build(&mut message);
                session.reply(endpoint, called.xid, rpcrdma::Reply::inline(message))
            }
        };
        match sent {
            Ok(Sent::Reply(_)) => {}
            Ok(Sent::ErrorChunk) => answered.how = How::TooLong,
            Err(_) => answered.how = How::Failed,
        }
        answered
    }

    /// Finds the first equal call that the client has not made yet, on its own recorded connection
    /// or else on another one. If it has made all of them, returns the last one and true.
    fn find(&mut self, id: ConnectionId, called: &rpcrdma::Called) -> (Option<usize>, bool) {
        let Some(question) = Question::of(&called.message) else { return (None, false) };
        let Some(client) = self.clients.get_mut(&id) else { return (None, false) };
        let (recording, hash) = (&self.recording, question.hash());
        let is_equal =
            |number: &usize| Question::of(&recording.calls[*number].message).as_ref() == Some(&question);
        let own = client.connection;
        let others = (0..recording.connections.len()).filter(|other| *other != own);
        let mut last = None;
        for connection in core::iter::once(own).chain(others) {
            let key = (connection, hash);
            let Some(list) = self.index.get(&key) else { continue };
            let made = client.made.entry(key).or_default();
            while list.get(*made).is_some_and(|number| client.used.contains(number)) {
                *made += 1;
            }
            let mut free = list[*made..].iter().copied().filter(|number| !client.used.contains(number));
            if let Some(number) = free.find(is_equal) {
                client.used.insert(number);
                return (Some(number), false);
            }
            last = last.or_else(|| list.iter().copied().rfind(is_equal));
        }
        (last, last.is_some())
    }

    /// Makes the recorded backward calls whose preceding calls have all arrived.
    fn call_back(&mut self, peer: &mut Peer, id: ConnectionId, answered: &mut Vec<Answered>) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        let (index, recording) = (client.connection, &self.recording);
        while let Some(call) = recording.calls.get(client.next) {
            let number = client.next;
            let is_own = call.connection == index;
            if is_own && !call.backward && !client.used.contains(&number) {
                return;
            }
            client.next += 1;
            if is_own && call.backward {
                client.used.insert(number);
                let made = rpcrdma::Call {
                    message: call.message.clone(),
                    reduce: call.items.clone(),
                    shape: Some(call.shape.clone()),
                    long: call.long,
                    ..rpcrdma::Call::default()
                };
                match peer.call(id, made) {
                    Ok(xid) => {
                        client.waiting.insert(xid, number);
                    }
                    Err(_) => answered.push(Answered {
                        connection: id,
                        xid: call.xid,
                        call: Some(number),
                        called: fields::of_call(&call.message).1,
                        how: How::Failed,
                    }),
                }
            }
        }
    }

    fn called_back(
        &mut self,
        id: ConnectionId,
        xid: Xid,
        how: impl FnOnce(&Answer, Option<Called>) -> How,
    ) -> Option<Answered> {
        let number = self.clients.get_mut(&id)?.waiting.remove(&xid)?;
        let call = &self.recording.calls[number];
        let called = fields::of_call(&call.message).1;
        let how = how(&call.answer, called);
        Some(Answered { connection: id, xid, call: Some(number), called, how })
    }
}

/// A call without its XID and its credential.
#[derive(PartialEq, Eq)]
struct Question<'m> {
    called: Called,
    arguments: &'m [u8],
}

impl<'m> Question<'m> {
    fn of(message: &'m [u8]) -> Option<Question<'m>> {
        let mut reader = Reader::new(message, Layer::Rpc);
        let call = rpc::Call::parse(&mut reader).ok()?;
        let called = (call.program, call.version, call.procedure);
        Some(Question { called, arguments: reader.rest() })
    }

    /// FNV-1a. Calls with equal hashes are compared in full.
    fn hash(&self) -> u64 {
        let (program, version, procedure) = self.called;
        let words = [program, version, procedure].into_iter().flat_map(u32::to_be_bytes);
        let bytes = words.chain(self.arguments.iter().copied());
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    }
}
