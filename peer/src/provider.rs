//! The abilities that a scenario needs: connections, queue pairs and memory.
//!
//! An [`Endpoint`] makes every packet itself. An RDMA device (module `verbs`, feature `verbs`)
//! sends only packets of its own state machines; the abilities that it lacks are listed in
//! [`Beyond`].

use crate::endpoint::{CommandError, Connect, ConnectionId, Endpoint};
use crate::interceptor::Interceptor;
use crate::memory::{Access, RegisterError};
use crate::rc::{Operation, PostError, WorkId};
use alloc::boxed::Box;
use alloc::vec::Vec;
use rdmascope_wire::Rkey;

/// An ability of a provider that makes its packets itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Beyond {
    /// Drop, duplicate, delay or change single packets, for example their ICRC, P_Key or queue pair
    /// number.
    #[error("dropping, duplicating, delaying or changing packets")]
    Packets,
    /// Skip PSNs.
    #[error("skipping PSNs")]
    Psn,
    /// Drop a connection without a DREQ.
    #[error("abandoning a connection without a DREQ")]
    Silence,
    /// Advertise memory that the remote side can invalidate. Devices do not allow this for memory
    /// that a program registers.
    #[error("memory that the remote side can invalidate")]
    RemoteInvalidation,
}

/// A provider of connections. See the [module](self). The methods work like those of [`Endpoint`].
pub trait Provider {
    /// Returns whether it makes its packets itself, and so has the abilities of [`Beyond`].
    fn makes_packets(&self) -> bool;
    /// Requests a connection.
    fn connect(&mut self, connect: Connect) -> Result<ConnectionId, CommandError>;
    /// Ends a connection.
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
    /// Returns the address and the current bytes of a region.
    fn region(&self, connection: ConnectionId, rkey: Rkey) -> Option<(u64, Vec<u8>)>;
    /// Copies bytes to the start of a region, as far as they fit.
    fn fill(&mut self, connection: ConnectionId, rkey: Rkey, bytes: &[u8]);
    /// Installs an interceptor ([`Beyond::Packets`]). No effect without that ability.
    fn intercept(&mut self, interceptor: Option<Box<dyn Interceptor>>);
    /// Skips PSNs ([`Beyond::Psn`]). No effect without that ability.
    fn skip_psn(&mut self, connection: ConnectionId, packets: u32);
    /// Drops a connection ([`Beyond::Silence`]). No effect without that ability.
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
