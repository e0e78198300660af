//! Commands of a program to an endpoint.

use super::management::{Argument, MOST_REQUEST_DATA};
use super::{ConnectionId, Endpoint, Link, MOST_CONNECTIONS, MOST_DATAGRAMS, MOST_LISTENERS, source_port};
use crate::cm::{Input, Machine, State};
use crate::memory::{Access, Memory, Region, RegisterError};
use crate::packet::{Datagram, Icrc};
use crate::rc::{Operation, PostError, QueuePair, Send, WorkId};
use crate::time::Instant;
use alloc::vec::Vec;
use core::net::IpAddr;
use rdmascope_wire::Rkey;
use rdmascope_wire::cm::ServiceId;
use rdmascope_wire::rdma_cm_ip::PortSpace;

/// Why a command failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The connection does not exist.
    #[error("no such connection")]
    UnknownConnection,
    /// The state of the connection does not allow it.
    #[error("not allowed in this state")]
    State,
    /// The endpoint has [`MOST_CONNECTIONS`] connections.
    #[error("too many connections")]
    TooMany,
    /// The private data exceed the room in the message.
    #[error("too much private data")]
    PrivateData,
    /// The two addresses differ in IP version.
    #[error("the addresses differ in IP version")]
    Addresses,
}

/// The parameters of a connection.
#[derive(Clone, Debug)]
pub struct Connect {
    /// The local address.
    pub local: IpAddr,
    /// The remote address.
    pub remote: IpAddr,
    /// The port of the service; 20049 is NFS/RDMA.
    pub port: u16,
    /// The local port in the header of the RDMA connection manager.
    pub local_port: u16,
    /// Private data for the remote consumer, at most 56 bytes.
    pub private_data: Vec<u8>,
}

impl Connect {
    /// Creates parameters without private data and with the local port 700.
    pub const fn new(local: IpAddr, remote: IpAddr, port: u16) -> Connect {
        Connect { local, remote, port, local_port: 700, private_data: Vec::new() }
    }
}

impl Endpoint {
    /// Listens on a port of the RDMA connection manager. Returns false if too many ports are open.
    pub fn listen(&mut self, port: u16) -> bool {
        let room = self.listeners.len() < MOST_LISTENERS;
        room && {
            self.listeners.insert(ServiceId::rdma_cm(PortSpace::Tcp, port));
            true
        }
    }

    /// Stops listening on a port.
    pub fn stop_listening(&mut self, port: u16) {
        self.listeners.remove(&ServiceId::rdma_cm(PortSpace::Tcp, port));
    }

    /// Requests a connection by a REQ.
    pub fn connect(&mut self, connect: Connect) -> Result<ConnectionId, CommandError> {
        if self.links.len() >= MOST_CONNECTIONS {
            return Err(CommandError::TooMany);
        }
        if connect.private_data.len() > MOST_REQUEST_DATA {
            return Err(CommandError::PrivateData);
        }
        if connect.local.is_ipv4() != connect.remote.is_ipv4() {
            return Err(CommandError::Addresses);
        }
        let id = self.new_link(connect.local, connect.remote, State::Idle);
        if let Some(link) = self.links.get_mut(&id) {
            link.machine.transaction_id = u64::from(id);
        }
        self.advance(id, Input::Connect, Some(Argument::Connect(&connect)));
        Ok(ConnectionId(id))
    }

    /// Creates a connection in its first state. The caller checks that there is room.
    pub(super) fn new_link(&mut self, local: IpAddr, remote: IpAddr, state: State) -> u32 {
        let id = loop {
            let id = self.random.word();
            if id != 0 && !self.links.contains_key(&id) {
                break id;
            }
        };
        let qpn = loop {
            // Numbers 0 and 1 are for management, the last one for multicast.
            let qpn = 2 + self.random.below(0x00ff_fffd) as u32;
            if !self.queue_pairs.contains_key(&qpn) {
                break qpn;
            }
        };
        let mut config = self.config.queue.clone();
        // A REQ can encode no other value.
        if rdmascope_wire::cm::mtu_encoding(config.path_mtu).is_none() {
            config.path_mtu = 1024;
        }
        let random_psn = rdmascope_wire::psn::Psn::new(self.random.word());
        self.queue_pairs.insert(qpn, id);
        let machine = Machine::new(state, rdmascope_wire::cm::CommunicationId(id), &self.config.cm);
        self.links.insert(
            id,
            Link {
                machine,
                local,
                remote,
                qpn: rdmascope_wire::Qpn(qpn),
                starting_psn: self.config.starting_psn.unwrap_or(random_psn),
                queue: None,
                config,
                requested: None,
                last_received: self.now,
            },
        );
        id
    }

    /// Accepts a requested connection by a REP with up to 196 bytes of private data. It creates the
    /// queue pair, so that Receives can be posted before anything is sent.
    pub fn accept(&mut self, connection: ConnectionId, private_data: &[u8]) -> Result<(), CommandError> {
        if private_data.len() > rdmascope_wire::cm::Reply::PRIVATE_DATA_LENGTH {
            return Err(CommandError::PrivateData);
        }
        self.command(connection, Input::Accept, Some(Argument::PrivateData(private_data)))
    }

    /// Sends an MRA: the answer to a REQ or REP takes longer.
    pub fn acknowledge(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        self.command(connection, Input::Acknowledge, None)
    }

    /// Sends the RTU, if the configuration leaves that to the program.
    pub fn confirm(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        self.command(connection, Input::Confirm, None)
    }

    /// Sends a REJ with a reason (28: consumer reject) and up to 148 bytes of private data.
    pub fn reject(
        &mut self,
        connection: ConnectionId,
        reason: u16,
        private_data: &[u8],
    ) -> Result<(), CommandError> {
        if private_data.len() > rdmascope_wire::cm::Reject::PRIVATE_DATA_LENGTH {
            return Err(CommandError::PrivateData);
        }
        self.command(connection, Input::Refuse, Some(Argument::Reject(reason, private_data)))
    }

    /// Ends a connection by a DREQ, or by a REJ before it is established. Outstanding operations
    /// are flushed.
    pub fn disconnect(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        self.command(connection, Input::Disconnect, None)
    }

    /// Drops a connection without notifying the remote side, like a host that crashes.
    pub fn abandon(&mut self, connection: ConnectionId) {
        if let Some(link) = self.links.remove(&connection.0) {
            self.queue_pairs.remove(&link.qpn.0);
        }
    }

    fn command(
        &mut self,
        connection: ConnectionId,
        input: Input,
        argument: Option<Argument<'_>>,
    ) -> Result<(), CommandError> {
        let link = self.links.get(&connection.0).ok_or(CommandError::UnknownConnection)?;
        if crate::cm::transition(link.machine.state, input).is_none() {
            return Err(CommandError::State);
        }
        self.advance(connection.0, input, argument);
        Ok(())
    }

    /// Returns the latest time from the driver.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Returns the state of a connection.
    pub fn state(&self, connection: ConnectionId) -> Option<State> {
        self.links.get(&connection.0).map(|link| link.machine.state)
    }

    /// Returns all connections, including those in TimeWait.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionId> {
        self.links.keys().map(|id| ConnectionId(*id))
    }

    /// Returns the remote address.
    pub fn remote(&self, connection: ConnectionId) -> Option<IpAddr> {
        self.links.get(&connection.0).map(|link| link.remote)
    }

    /// Returns the number of a connection's local queue pair.
    pub fn queue_pair_number(&self, connection: ConnectionId) -> Option<rdmascope_wire::Qpn> {
        self.links.get(&connection.0).map(|link| link.qpn)
    }

    /// Returns the queue pair of a connection, once it exists.
    pub fn queue_pair(&self, connection: ConnectionId) -> Option<&QueuePair> {
        self.links.get(&connection.0)?.queue.as_ref()
    }

    fn queue(&mut self, connection: ConnectionId) -> Option<&mut QueuePair> {
        self.links.get_mut(&connection.0)?.queue.as_mut()
    }

    /// Posts an operation. [`QueueEvent::Completed`](crate::rc::QueueEvent::Completed) reports its
    /// end.
    pub fn post(&mut self, connection: ConnectionId, operation: Operation) -> Result<WorkId, PostError> {
        let work = WorkId(self.works + 1);
        self.queue(connection).ok_or(PostError::NotReady)?.post(work, operation)?;
        self.works = work.0;
        Ok(work)
    }

    /// Posts a SEND.
    pub fn send(&mut self, connection: ConnectionId, send: Send) -> Result<WorkId, PostError> {
        self.post(connection, Operation::Send(send))
    }

    /// Posts an RDMA WRITE.
    pub fn write(
        &mut self,
        connection: ConnectionId,
        rkey: Rkey,
        address: u64,
        bytes: Vec<u8>,
    ) -> Result<WorkId, PostError> {
        self.post(connection, Operation::Write { rkey, address, bytes, immediate: None })
    }

    /// Posts an RDMA READ.
    pub fn read(
        &mut self,
        connection: ConnectionId,
        rkey: Rkey,
        address: u64,
        length: u32,
    ) -> Result<WorkId, PostError> {
        self.post(connection, Operation::Read { rkey, address, length })
    }

    /// Posts a Receive for a message of at most `length` bytes, limited by
    /// [`MOST_RECEIVE`](crate::rc::MOST_RECEIVE).
    pub fn post_receive(&mut self, connection: ConnectionId, length: usize) -> Result<(), PostError> {
        self.queue(connection).ok_or(PostError::NotReady)?.post_receive(length)
    }

    /// Registers memory. R_Key and address follow from the seed.
    pub fn register(
        &mut self,
        connection: ConnectionId,
        bytes: Vec<u8>,
        access: Access,
    ) -> Result<(Rkey, u64), RegisterError> {
        let address = self.random.number() >> 16 & !0xfff;
        loop {
            let rkey = Rkey(self.random.word());
            if self.memory(connection).is_none_or(|memory| memory.is_fresh(rkey)) {
                self.register_at(connection, rkey, Region { address, bytes, access })?;
                return Ok((rkey, address));
            }
        }
    }

    /// Registers memory under a given R_Key.
    pub fn register_at(
        &mut self,
        connection: ConnectionId,
        rkey: Rkey,
        region: Region,
    ) -> Result<(), RegisterError> {
        match self.queue(connection) {
            Some(queue) => queue.memory.register(rkey, region),
            None => Err(RegisterError::NotReady),
        }
    }

    /// Ends a registration. Returns the region, or `None` if it does not exist. A region that the
    /// remote side invalidated exists until then.
    pub fn invalidate(&mut self, connection: ConnectionId, rkey: Rkey) -> Option<Region> {
        self.queue(connection)?.memory.invalidate(rkey)
    }

    /// Returns the memory of a connection.
    pub fn memory(&self, connection: ConnectionId) -> Option<&Memory> {
        Some(&self.links.get(&connection.0)?.queue.as_ref()?.memory)
    }

    /// Returns the bytes of a region for changes.
    pub fn memory_mut(&mut self, connection: ConnectionId, rkey: Rkey) -> Option<&mut [u8]> {
        self.queue(connection)?.memory.bytes_mut(rkey)
    }

    /// Skips `packets` PSNs before the next operation of a connection.
    pub fn skip_psn(&mut self, connection: ConnectionId, packets: u32) {
        if let Some(queue) = self.queue(connection) {
            queue.requester.skip(packets);
        }
    }

    /// Refuses the next expected request, whatever it is, with a NAK of this code (table 48). The
    /// queue pair fails.
    pub fn refuse(&mut self, connection: ConnectionId, code: u8) {
        if let Some(queue) = self.queue(connection) {
            let psn = queue.responder.expected;
            queue.refuse(psn, code & 0x1f);
            self.collect(connection.0);
        }
    }

    /// Builds a datagram from the local to the remote side of a connection with arbitrary transport
    /// bytes.
    pub fn datagram(&self, connection: ConnectionId, transport: Vec<u8>) -> Option<Datagram> {
        let link = self.links.get(&connection.0)?;
        let source_port = source_port(&self.config);
        let (source, destination) = (link.local, link.remote);
        Some(Datagram { source, destination, source_port, transport, icrc: Icrc::Good })
    }

    /// Sends an arbitrary datagram, bypassing all state machines. Returns false if
    /// [`MOST_DATAGRAMS`] are queued.
    pub fn transmit_raw(&mut self, datagram: Datagram) -> bool {
        let room = self.outgoing.len() < MOST_DATAGRAMS;
        if room {
            self.outgoing.push_back((None, datagram));
        }
        room
    }

    /// Sends a MAD with arbitrary content from queue pair 1 to queue pair 1.
    pub fn transmit_raw_mad(&mut self, local: IpAddr, remote: IpAddr, mad: &[u8]) -> bool {
        let datagram = self.management_datagram(local, remote, mad);
        self.transmit_raw(datagram)
    }
}
