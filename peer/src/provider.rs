//! What a scenario runs on: connections, queue pairs and memory, whoever provides them.
//!
//! [`Endpoint`] makes every packet itself. A device (the module `verbs`, with the feature of that name) makes them by itself, and sends only those that its state
//! machines send: what it cannot do is a [`Beyond`].

use crate::endpoint::{CommandError, Connect, ConnectionId, Endpoint};
use crate::interceptor::Interceptor;
use crate::memory::{Access, RegisterError};
use crate::rc::{Operation, PostError, WorkId};
use alloc::boxed::Box;
use alloc::vec::Vec;
use rdmascope_wire::Rkey;

/// What only a provider can do that makes its packets itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Beyond {
    /// Drop, repeat, delay or change single packets: a wrong ICRC, P_Key or queue pair number among them.
    #[error("packets that are dropped, repeated, delayed or changed")]
    Packets,
    /// Leave out PSNs.
    #[error("PSNs that are left out")]
    Psn,
    /// Forget a connection without a DREQ.
    #[error("a connection that is forgotten without a DREQ")]
    Silence,
    /// Offer memory that the remote side can invalidate: devices refuse that for memory that a program registers.
    #[error("memory that a SEND of the remote side invalidates")]
    RemoteInvalidation,
}

/// See the [module](self). The methods do what those of [`Endpoint`] do.
pub trait Provider {
    /// Whether it makes its packets itself, and so can do whatever is [`Beyond`] others.
    fn makes_packets(&self) -> bool;
    /// Asks for a connection.
    fn connect(&mut self, connect: Connect) -> Result<ConnectionId, CommandError>;
    /// Ends it.
    fn disconnect(&mut self, connection: ConnectionId) -> Result<(), CommandError>;
    /// Posts an operation.
    fn post(&mut self, connection: ConnectionId, operation: Operation) -> Result<WorkId, PostError>;
    /// Posts a Receive.
    fn post_receive(&mut self, connection: ConnectionId, length: usize) -> Result<(), PostError>;
    /// Registers memory.
    fn register(
        &mut self,
        connection: ConnectionId,
        bytes: Vec<u8>,
        access: Access,
    ) -> Result<(Rkey, u64), RegisterError>;
    /// Ends a registration.
    fn invalidate(&mut self, connection: ConnectionId, rkey: Rkey);
    /// Where a region begins, and its bytes as they are now.
    fn region(&self, connection: ConnectionId, rkey: Rkey) -> Option<(u64, Vec<u8>)>;
    /// Puts bytes at the beginning of a region, as many as it has room for.
    fn fill(&mut self, connection: ConnectionId, rkey: Rkey, bytes: &[u8]);
    /// [`Beyond::Packets`]; nothing where that cannot be done.
    fn intercept(&mut self, interceptor: Option<Box<dyn Interceptor>>);
    /// [`Beyond::Psn`]; likewise.
    fn skip_psn(&mut self, connection: ConnectionId, packets: u32);
    /// [`Beyond::Silence`]; likewise.
    fn abandon(&mut self, connection: ConnectionId);
}

impl Provider for Endpoint {
    fn makes_packets(&self) -> bool {
        true
    }

    fn connect(&mut self, connect: Connect) -> Result<ConnectionId, CommandError> {
        Endpoint::connect(self, connect)
    }

    fn disconnect(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        Endpoint::disconnect(self, connection)
    }

    fn post(&mut self, connection: ConnectionId, operation: Operation) -> Result<WorkId, PostError> {
        Endpoint::post(self, connection, operation)
    }

    fn post_receive(&mut self, connection: ConnectionId, length: usize) -> Result<(), PostError> {
        Endpoint::post_receive(self, connection, length)
    }

    fn register(
        &mut self,
        connection: ConnectionId,
        bytes: Vec<u8>,
        access: Access,
    ) -> Result<(Rkey, u64), RegisterError> {
        Endpoint::register(self, connection, bytes, access)
    }

    fn invalidate(&mut self, connection: ConnectionId, rkey: Rkey) {
        Endpoint::invalidate(self, connection, rkey);
    }

    fn region(&self, connection: ConnectionId, rkey: Rkey) -> Option<(u64, Vec<u8>)> {
        let region = self.memory(connection)?.region(rkey)?;
        Some((region.address, region.bytes.clone()))
    }

    fn fill(&mut self, connection: ConnectionId, rkey: Rkey, bytes: &[u8]) {
        if let Some(memory) = self.memory_mut(connection, rkey) {
            let length = memory.len().min(bytes.len());
            memory[..length].copy_from_slice(&bytes[..length]);
        }
    }

    fn intercept(&mut self, interceptor: Option<Box<dyn Interceptor>>) {
        Endpoint::intercept(self, interceptor);
    }

    fn skip_psn(&mut self, connection: ConnectionId, packets: u32) {
        Endpoint::skip_psn(self, connection, packets);
    }

    fn abandon(&mut self, connection: ConnectionId) {
        Endpoint::abandon(self, connection);
    }
}
