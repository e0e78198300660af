//! An endpoint with a session of RPC-over-RDMA on each of its connections: what a client or a server of NFS/RDMA stands on.

use crate::cm::Closed;
use crate::endpoint::{self, CommandError, Connect, ConnectionId, Endpoint};
use crate::packet::Datagram;
use crate::pair::End;
use crate::rc::{PostError, WorkId};
use crate::rpcrdma::{self, Call, Reply, Sent, Session, SessionError};
use crate::time::{Instant, earlier};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::IpAddr;
use rdmascope_wire::Xid;

/// How a peer behaves.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Its endpoint.
    pub endpoint: endpoint::Config,
    /// Its sessions.
    pub session: rpcrdma::Config,
    /// Leave it to the program to accept a requested connection: [`Peer::accept`].
    pub accept_by_hand: bool,
}

/// What a peer tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Something of the endpoint: connections, queue pairs, packets that were dropped.
    Endpoint(endpoint::Event),
    /// Something of a session.
    Rpc {
        /// On which connection.
        connection: ConnectionId,
        /// What.
        event: rpcrdma::Event,
    },
}

/// See the [module](self).
pub struct Peer {
    config: Config,
    endpoint: Endpoint,
    sessions: BTreeMap<ConnectionId, Session>,
    /// Private data of those who ask for a connection and wait for the answer.
    asked: BTreeMap<ConnectionId, Vec<u8>>,
    events: VecDeque<Event>,
}

impl Peer {
    /// A peer without connections. The same seed and the same calls give the same datagrams.
    pub fn new(config: Config, seed: u64) -> Peer {
        Peer {
            endpoint: Endpoint::new(config.endpoint.clone(), seed),
            config,
            sessions: BTreeMap::new(),
            asked: BTreeMap::new(),
            events: VecDeque::new(),
        }
    }

    /// Its endpoint.
    pub const fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Its endpoint, for all that goes below RPC-over-RDMA.
    pub fn endpoint_mut(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }

    /// The session of a connection; for a connection that is gone as long as it is in TimeWait.
    pub fn session(&self, connection: ConnectionId) -> Option<&Session> {
        self.sessions.get(&connection)
    }

    /// The session of a connection, with the endpoint that its functions want.
    pub fn session_mut(&mut self, connection: ConnectionId) -> Option<(&mut Session, &mut Endpoint)> {
        Some((self.sessions.get_mut(&connection)?, &mut self.endpoint))
    }

    /// Takes requests for a port. False where too many ports are listened on.
    pub fn listen(&mut self, port: u16) -> bool {
        self.endpoint.listen(port)
    }

    /// Asks for a connection, with the private data of the sessions' configuration.
    pub fn connect(
        &mut self,
        local: IpAddr,
        remote: IpAddr,
        port: u16,
    ) -> Result<ConnectionId, CommandError> {
        let private_data = self.config.session.private_data();
        self.endpoint.connect(Connect { private_data, ..Connect::new(local, remote, port) })
    }

    /// Takes a requested connection, with the private data of the sessions' configuration.
    pub fn accept(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        let private_data = self.config.session.private_data();
        self.accept_with(connection, &private_data)
    }

    /// Takes a requested connection, with any private data.
    pub fn accept_with(&mut self, connection: ConnectionId, private_data: &[u8]) -> Result<(), CommandError> {
        self.endpoint.accept(connection, private_data)?;
        let remote = self.asked.remove(&connection).unwrap_or_default();
        self.open(connection, &remote, false);
        Ok(())
    }

    /// Ends a connection.
    pub fn disconnect(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        let done = self.endpoint.disconnect(connection);
        self.process();
        done
    }

    /// Makes a call. Its reply is an event.
    pub fn call(&mut self, connection: ConnectionId, call: Call) -> Result<Xid, SessionError> {
        let session = self.sessions.get_mut(&connection).ok_or(SessionError::Post(PostError::NotReady))?;
        let sent = session.call(&mut self.endpoint, call);
        self.process();
        sent
    }

    /// Answers a call.
    pub fn reply(&mut self, connection: ConnectionId, xid: Xid, reply: Reply) -> Result<Sent, SessionError> {
        let session = self.sessions.get_mut(&connection).ok_or(SessionError::Post(PostError::NotReady))?;
        let sent = session.reply(&mut self.endpoint, xid, reply);
        self.process();
        sent
    }

    /// Sends any bytes at all.
    pub fn send_raw(&mut self, connection: ConnectionId, bytes: Vec<u8>) -> Result<WorkId, PostError> {
        let session = self.sessions.get_mut(&connection).ok_or(PostError::NotReady)?;
        session.send_raw(&mut self.endpoint, bytes)
    }

    /// What has happened, in order.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.process();
        self.events.pop_front()
    }

    fn open(&mut self, connection: ConnectionId, remote: &[u8], active: bool) {
        let config = self.config.session.clone();
        let session = Session::new(&mut self.endpoint, connection, config, remote, active);
        self.sessions.insert(connection, session);
    }

    /// Hands what the endpoint tells to the sessions, and what these tell to the program.
    fn process(&mut self) {
        while let Some(event) = self.endpoint.poll_event() {
            let mut about = None;
            match &event {
                endpoint::Event::Requested { connection, private_data, .. } => {
                    // Those that were never answered are gone with their connections.
                    let endpoint = &self.endpoint;
                    self.asked.retain(|asked, _| endpoint.state(*asked).is_some());
                    self.asked.insert(*connection, private_data.clone());
                    if !self.config.accept_by_hand {
                        // Its state allows it: the REQ has just come.
                        let _ = self.accept(*connection);
                    }
                }
                endpoint::Event::Replied { connection, private_data, .. } => {
                    self.open(*connection, private_data, true);
                }
                endpoint::Event::Queue { connection, event } => {
                    about = Some(*connection);
                    if let Some(session) = self.sessions.get_mut(connection) {
                        session.handle(&mut self.endpoint, event);
                    }
                }
                endpoint::Event::Closed { connection, .. } => {
                    about = Some(*connection);
                    if let Some(session) = self.sessions.get_mut(connection) {
                        session.end(&mut self.endpoint);
                    }
                }
                _ => {}
            }
            let is_end = matches!(event, endpoint::Event::Closed { .. });
            // What a session says of an event goes behind it, but losses before the end of the connection.
            if !is_end && (self.events.len() < endpoint::MOST_EVENTS || !event.is_detail()) {
                self.events.push_back(Event::Endpoint(event.clone()));
            }
            if let Some(connection) = about {
                self.tell(connection);
            }
            if is_end {
                self.events.push_back(Event::Endpoint(event));
            }
        }
        let ids: Vec<ConnectionId> = self.sessions.keys().copied().collect();
        for connection in ids {
            let is_gone = self.endpoint.state(connection).is_none();
            if is_gone && let Some(session) = self.sessions.get_mut(&connection) {
                // Abandoned: there was no event of its end.
                session.end(&mut self.endpoint);
            }
            self.tell(connection);
            if is_gone {
                self.sessions.remove(&connection);
            }
        }
    }

    fn tell(&mut self, connection: ConnectionId) {
        if let Some(session) = self.sessions.get_mut(&connection) {
            while let Some(event) = session.poll_event() {
                if !event.is_detail() || self.events.len() < endpoint::MOST_EVENTS {
                    self.events.push_back(Event::Rpc { connection, event });
                }
            }
        }
    }

    /// Why a connection closed, where an event says that it did.
    pub fn closed(event: &Event) -> Option<(ConnectionId, &Closed)> {
        match event {
            Event::Endpoint(endpoint::Event::Closed { connection, why }) => Some((*connection, why)),
            _ => None,
        }
    }
}

impl End for Peer {
    fn handle(&mut self, now: Instant, datagram: &Datagram) {
        self.endpoint.handle(now, datagram);
        self.process();
    }

    fn handle_time(&mut self, now: Instant) {
        self.endpoint.handle_time(now);
        for session in self.sessions.values_mut() {
            session.handle_time(&mut self.endpoint, now);
        }
        self.process();
    }

    fn next_deadline(&self) -> Option<Instant> {
        let sessions = self.sessions.values().filter_map(Session::next_deadline).min();
        earlier(self.endpoint.next_deadline(), sessions)
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram> {
        self.endpoint.poll_transmit(now)
    }
}
