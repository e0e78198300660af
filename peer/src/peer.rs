//! An endpoint with an RPC-over-RDMA session on each connection: the base of NFS/RDMA clients and
//! servers.

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

/// The configuration of a peer.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The configuration of the endpoint.
    pub endpoint: endpoint::Config,
    /// The configuration of the sessions.
    pub session: rpcrdma::Config,
    /// Leaves it to the program to accept requested connections: [`Peer::accept`].
    pub accept_by_hand: bool,
}

/// An event of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An event of the endpoint: of connections, queue pairs and dropped packets.
    Endpoint(endpoint::Event),
    /// An event of a session.
    Rpc {
        /// The connection.
        connection: ConnectionId,
        /// The event.
        event: rpcrdma::Event,
    },
}

/// An endpoint with sessions. See the [module](self).
pub struct Peer {
    config: Config,
    endpoint: Endpoint,
    sessions: BTreeMap<ConnectionId, Session>,
    /// The private data of connections that were requested and not yet accepted.
    requested: BTreeMap<ConnectionId, Vec<u8>>,
    events: VecDeque<Event>,
}

impl Peer {
    /// Creates a peer without connections. The same seed and calls give the same datagrams.
    pub fn new(config: Config, seed: u64) -> Peer {
        Peer {
            endpoint: Endpoint::new(config.endpoint.clone(), seed),
            config,
            sessions: BTreeMap::new(),
            requested: BTreeMap::new(),
            events: VecDeque::new(),
        }
    }

    /// Returns the endpoint.
    pub const fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns the endpoint for operations below RPC-over-RDMA.
    pub fn endpoint_mut(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }

    /// Returns the session of a connection. A closed connection keeps it during TimeWait.
    pub fn session(&self, connection: ConnectionId) -> Option<&Session> {
        self.sessions.get(&connection)
    }

    /// Returns the session of a connection, and the endpoint that its methods need.
    pub fn session_mut(&mut self, connection: ConnectionId) -> Option<(&mut Session, &mut Endpoint)> {
        Some((self.sessions.get_mut(&connection)?, &mut self.endpoint))
    }

    /// Listens on a port. Returns false if too many ports are open.
    pub fn listen(&mut self, port: u16) -> bool {
        self.endpoint.listen(port)
    }

    /// Requests a connection with the private data of the session configuration.
    pub fn connect(
        &mut self,
        local: IpAddr,
        remote: IpAddr,
        port: u16,
    ) -> Result<ConnectionId, CommandError> {
        let private_data = self.config.session.private_data();
        self.endpoint.connect(Connect { private_data, ..Connect::new(local, remote, port) })
    }

    /// Accepts a requested connection with the private data of the session configuration.
    pub fn accept(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        self.endpoint.accept(connection, &self.config.session.private_data())?;
        let remote = self.requested.remove(&connection).unwrap_or_default();
        self.open(connection, &remote, false);
        Ok(())
    }

    /// Ends a connection.
    pub fn disconnect(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        let done = self.endpoint.disconnect(connection);
        self.process();
        done
    }

    /// Sends a call. Its reply is an event.
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

    /// Sends arbitrary bytes in a SEND.
    pub fn send_raw(&mut self, connection: ConnectionId, bytes: Vec<u8>) -> Result<WorkId, PostError> {
        let session = self.sessions.get_mut(&connection).ok_or(PostError::NotReady)?;
        session.send_raw(&mut self.endpoint, bytes)
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.process();
        self.events.pop_front()
    }

    fn open(&mut self, connection: ConnectionId, remote: &[u8], active: bool) {
        let config = self.config.session.clone();
        let session = Session::new(&mut self.endpoint, connection, config, remote, active);
        self.sessions.insert(connection, session);
    }

    /// Passes events of the endpoint to the sessions, and events of both to the program.
    fn process(&mut self) {
        while let Some(event) = self.endpoint.poll_event() {
            let mut about = None;
            match &event {
                endpoint::Event::Requested { connection, private_data, .. } => {
                    // Requests that were never answered disappear with their connections.
                    let endpoint = &self.endpoint;
                    self.requested.retain(|connection, _| endpoint.state(*connection).is_some());
                    self.requested.insert(*connection, private_data.clone());
                    if !self.config.accept_by_hand {
                        // The state allows it, because the REQ has just arrived.
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
            // Session events follow the endpoint event that caused them, but losses precede the end
            // of the connection.
            if !is_end && (self.events.len() < endpoint::MOST_EVENTS || !event.is_detail()) {
                self.events.push_back(Event::Endpoint(event.clone()));
            }
            if let Some(connection) = about {
                self.emit(connection);
            }
            if is_end {
                self.events.push_back(Event::Endpoint(event));
            }
        }
        let ids: Vec<ConnectionId> = self.sessions.keys().copied().collect();
        for connection in ids {
            let is_gone = self.endpoint.state(connection).is_none();
            if is_gone && let Some(session) = self.sessions.get_mut(&connection) {
                // An abandoned connection had no event about its end.
                session.end(&mut self.endpoint);
            }
            self.emit(connection);
            if is_gone {
                self.sessions.remove(&connection);
            }
        }
    }

    fn emit(&mut self, connection: ConnectionId) {
        if let Some(session) = self.sessions.get_mut(&connection) {
            while let Some(event) = session.poll_event() {
                if !event.is_detail() || self.events.len() < endpoint::MOST_EVENTS {
                    self.events.push_back(Event::Rpc { connection, event });
                }
            }
        }
    }

    /// Returns the connection and the reason if the event is the end of a connection.
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
