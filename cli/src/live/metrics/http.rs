//! A small HTTP server. One thread serves all connections.
//!
//! Every resource is bounded: [`CONNECTIONS`] at once (a new one closes the oldest),
//! [`connection::REQUEST`] bytes for a request, and [`TIME`] for a connection in total.

mod connection;
mod response;

use connection::Connection;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
pub(super) use response::{Page, Pages};
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// Maximum number of open connections.
const CONNECTIONS: usize = 16;

/// The longest time from accepting a connection to closing it.
const TIME: Duration = Duration::from_secs(5);

/// The pause after an error that can last, such as a lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// The token of the listener. The token of a connection is its index.
const LISTENER: Token = Token(CONNECTIONS);

/// The server.
pub(super) struct Server<P> {
    poll: Poll,
    listener: TcpListener,
    connections: [Option<Connection>; CONNECTIONS],
    /// When to accept again without an event of the listener.
    accept_at: Option<Instant>,
    pages: P,
}

impl<P: Pages> Server<P> {
    /// Creates a server of `pages`. Fails if the system has no file descriptor or memory left.
    pub(super) fn new(listener: std::net::TcpListener, pages: P) -> io::Result<Server<P>> {
        listener.set_nonblocking(true)?;
        let poll = Poll::new()?;
        let mut listener = TcpListener::from_std(listener);
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let connections = [const { None }; CONNECTIONS];
        Ok(Server { poll, listener, connections, accept_at: None, pages })
    }

    /// Serves forever.
    pub(super) fn serve(mut self) {
        let mut events = Events::with_capacity(CONNECTIONS + 1);
        loop {
            if self.poll.poll(&mut events, self.timeout()).is_err() {
                std::thread::sleep(PAUSE);
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.accept_at = Some(Instant::now()),
                    Token(place) => self.advance(place),
                }
            }
            self.expire(Instant::now());
            if self.accept_at.is_some_and(|at| at <= Instant::now()) {
                self.accept();
            }
        }
    }

    /// The time until the next deadline.
    fn timeout(&self) -> Option<Duration> {
        let deadlines = self.connections.iter().flatten().map(|connection| connection.deadline);
        let next = deadlines.chain(self.accept_at).min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    /// Accepts at most [`CONNECTIONS`] at once, so that each of them gets a turn.
    fn accept(&mut self) {
        self.accept_at = Some(Instant::now());
        for _ in 0..CONNECTIONS {
            match self.listener.accept().map_err(|error| error.kind()) {
                Ok((stream, _)) => self.admit(stream),
                Err(ErrorKind::WouldBlock) => return self.accept_at = None,
                Err(ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {}
                Err(_) => return self.accept_at = Some(Instant::now() + PAUSE),
            }
        }
    }

    /// Gives a connection a free slot, or the slot of the oldest connection.
    fn admit(&mut self, mut stream: TcpStream) {
        let age = |place: &usize| self.connections[*place].as_ref().map(|one| one.deadline);
        let Some(place) = (0..CONNECTIONS).min_by_key(age) else { return };
        let interest = Interest::READABLE | Interest::WRITABLE;
        if self.poll.registry().register(&mut stream, Token(place), interest).is_ok() {
            self.connections[place] = Some(Connection::new(stream, Instant::now() + TIME));
            self.advance(place);
        }
    }

    fn advance(&mut self, place: usize) {
        let Some(connection) = &mut self.connections[place] else { return };
        if !connection.advance(&mut self.pages) {
            self.connections[place] = None;
        }
    }

    /// Closes the connections whose time is over.
    fn expire(&mut self, now: Instant) {
        for place in &mut self.connections {
            if let Some(connection) = place.take_if(|connection| connection.deadline <= now) {
                connection.expire();
            }
        }
    }
}
