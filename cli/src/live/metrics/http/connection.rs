//! A connection to the server: one request and one response.

use super::response::{Pages, Response};
use mio::net::TcpStream;
use std::io::{ErrorKind, Read as _, Result};
use std::net::Shutdown;
use std::time::Instant;

/// Maximum size of a request head, in bytes. Bodies are not read.
pub(super) const REQUEST: usize = 8 << 10;

/// Maximum number of bytes discarded after a response.
const DISCARDED: usize = 64 << 10;

/// An accepted connection.
pub(super) struct Connection {
    stream: TcpStream,
    /// The time at which it is closed in any state.
    pub(super) deadline: Instant,
    state: State,
}

enum State {
    /// The request is being read; holds its bytes so far.
    Reading(Vec<u8>),
    Writing(Response),
    /// The response is written; counts the bytes discarded since. Closing a socket with unread
    /// bytes resets the connection, and the client can lose the response (RFC 9112, section 9.6).
    Closing(usize),
}

impl Connection {
    pub(super) fn new(stream: TcpStream, deadline: Instant) -> Connection {
        Connection { stream, deadline, state: State::Reading(Vec::new()) }
    }

    /// Reads and writes until it would block. Returns whether the connection is still open.
    pub(super) fn advance(&mut self, pages: &mut impl Pages) -> bool {
        loop {
            match self.step(pages).map_err(|error| error.kind()) {
                Ok(()) | Err(ErrorKind::Interrupted) => {}
                Err(kind) => return kind == ErrorKind::WouldBlock,
            }
        }
    }

    /// Reads or writes once. [`REQUEST`], the response and [`DISCARDED`] bound the number of steps.
    fn step(&mut self, pages: &mut impl Pages) -> Result<()> {
        match &mut self.state {
            State::Reading(request) => {
                let mut piece = [0; 1024];
                let room = piece.len().min(REQUEST - request.len());
                let length = read(&mut self.stream, &mut piece[..room])?;
                request.extend_from_slice(&piece[..length]);
                if let Some(response) = Response::to(request, request.len() >= REQUEST, pages) {
                    self.state = State::Writing(response);
                }
            }
            State::Writing(response) => {
                if response.write(&mut self.stream)? {
                    self.stream.shutdown(Shutdown::Write)?;
                    self.state = State::Closing(0);
                }
            }
            State::Closing(discarded) => {
                *discarded += read(&mut self.stream, &mut [0; 4096])?;
                if *discarded > DISCARDED {
                    return Err(ErrorKind::ConnectionAborted.into());
                }
            }
        }
        Ok(())
    }

    /// Ends the connection. A client that sent a part of its request gets a response.
    pub(super) fn expire(mut self) {
        if let State::Reading(request) = &self.state
            && !request.is_empty()
        {
            let _gone = Response::timeout().write(&mut self.stream);
        }
    }
}

/// Reads at least one byte.
fn read(stream: &mut TcpStream, to: &mut [u8]) -> Result<usize> {
    match stream.read(to)? {
        0 => Err(ErrorKind::UnexpectedEof.into()),
        length => Ok(length),
    }
}
