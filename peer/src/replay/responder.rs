//! Answers calls as the recorded Responder did, and makes the calls that it made.

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

/// What became of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// Its connection.
    pub connection: ConnectionId,
    /// Its XID.
    pub xid: Xid,
    /// Which call of the recording it is, as an index; `None`: the recording has no such call.
    pub call: Option<usize>,
    /// What it calls, where that can be read.
    pub called: Option<Called>,
    /// How it was answered.
    pub how: How,
}

/// How a call was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// With the recorded reply or error.
    AsRecorded,
    /// The same, though the recording has fewer calls like this: with the last one's reply.
    Again,
    /// Not at all, as in the recording, or because the recording lacks the reply.
    NotAnswered,
    /// With ERR_CHUNK: the recorded reply does not fit the chunks of this call.
    TooLong,
    /// The recording has no such call: SYSTEM_ERR.
    Unknown,
    /// A call of the recorded Responder; this came of it.
    Backward(Comparison),
    /// It could not be answered, or a call of the recorded Responder was not: the connection may be gone.
    Failed,
}

/// A client that is connected.
#[derive(Clone, Debug, Default)]
struct Client {
    /// Which connection of the recording it is taken for.
    connection: usize,
    /// Calls of the recording that it made.
    used: BTreeSet<usize>,
    /// How many of the equal calls at the front of a list of the index it has made.
    made: BTreeMap<Key, usize>,
    /// The first call of the recording that it has not made, if it makes them in order.
    next: usize,
    /// Calls that were made to it, and are not answered.
    waiting: BTreeMap<Xid, usize>,
}

/// A connection of the recording, and the hash of a [`Question`].
type Key = (usize, u64);

/// See the [module](super). Its peer must be one that leaves it to the program to accept connections.
pub struct Responder {
    recording: Arc<Recording>,
    /// Forward calls that are equal but for XID and credential: by their connection and a hash of the rest.
    index: BTreeMap<Key, Vec<usize>>,
    clients: BTreeMap<ConnectionId, Client>,
    /// Connections that were asked for.
    asked: usize,
}

impl Responder {
    /// Answers as this recording has it.
    pub fn new(recording: Arc<Recording>) -> Responder {
        let mut index: BTreeMap<Key, Vec<usize>> = BTreeMap::new();
        for (number, call) in recording.calls.iter().enumerate().filter(|(_, call)| !call.backward) {
            if let Some(question) = Question::of(&call.message) {
                index.entry((call.connection, question.hash())).or_default().push(number);
            }
        }
        Responder { recording, index, clients: BTreeMap::new(), asked: 0 }
    }

    /// Takes what the peer tells. The n-th connection is taken for the n-th of the recording; behind the last one the first comes again.
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
        let index = self.asked.checked_rem(count).unwrap_or(0);
        self.asked += 1;
        let rejected = self.recording.connections.get(index).and_then(|recorded| recorded.rejected);
        // Where it cannot be said, the connection is gone.
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

    /// The first equal call that was not made yet, of the connection that this one is taken for, else of another one. Where all were, the
    /// last one, and true.
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

    /// Makes the calls of the recorded Responder for which all calls that came before have come.
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

    /// FNV-1a. Equal hashes are looked at again.
    fn hash(&self) -> u64 {
        let (program, version, procedure) = self.called;
        let words = [program, version, procedure].into_iter().flat_map(u32::to_be_bytes);
        let bytes = words.chain(self.arguments.iter().copied());
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    }
}
