//! Connections and queue pairs of an RDMA device, by verbs and the kernel's RDMA connection manager
//! (cargo feature `verbs`).
//!
//! For a scenario [`Verbs`] replaces an [`Endpoint`](crate::endpoint::Endpoint). The kernel and the
//! device make packets, PSNs, acknowledgements and CM messages. So it can send any message, WRITE
//! or READ, but no packet that a device would not send: see [`Beyond`](crate::provider::Beyond).

mod address;
mod sys;

use crate::cm::Closed;
use crate::driver::{Ended, Waker};
use crate::endpoint::{CommandError, Connect, ConnectionId, Event};
use crate::interceptor::Interceptor;
use crate::memory::{Access, RegisterError};
use crate::provider::Provider;
use crate::rc::{Failure, Operation, PostError, QueueEvent, Received, WorkId};
use crate::scenario::Runner;
use crate::time::{Instant, earlier};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::ops::ControlFlow;
use core::time::Duration;
use rdmascope_wire::Rkey;
use rdmascope_wire::bth::NakCode;
use std::os::unix::net::UnixStream;
use sys::{Channel, CmEvent, CmEventKind, Completion, Id, Pinned, Post};

/// Capacity of a queue pair: operations and Receives.
const OPERATIONS: u32 = 64;
const RECEIVES: u32 = 64;
/// The longest message of a Receive. Longer lengths are reduced, because the kernel pins this
/// memory.
const MOST_RECEIVE: usize = 65_536;
/// Outstanding READs in each direction, supported by soft RoCE and most devices.
const DEPTH: u8 = 16;
/// Bytes of private data in the REQ of the connection manager.
const MOST_PRIVATE_DATA: usize = 56;
/// Most simultaneous connections.
const MOST_CONNECTIONS: usize = 64;
/// Longest time to resolve addresses and routes.
const RESOLVING: Duration = Duration::from_secs(2);

/// An error of the device or the libraries.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection manager is not available.
    #[error(
        "the RDMA connection manager is not available: {0}; it needs librdmacm, libibverbs with the provider of the device, and /dev/infiniband/rdma_cm (`modprobe rdma_ucm`) with permission to open it"
    )]
    NoManager(std::io::Error),
    /// Waiting or polling failed.
    #[error("the device failed: {0}")]
    Device(#[from] std::io::Error),
    /// No device has the local address or the route.
    #[error("no RDMA device from {local} to {remote}: {reason}; `rdma link` lists the devices")]
    NoDevice {
        /// The local address.
        local: core::net::IpAddr,
        /// The target.
        remote: core::net::IpAddr,
        /// The reason.
        reason: std::io::Error,
    },
    /// The route to the target uses another device.
    #[error("the route to {remote} uses the device {found}, not {requested}: `rdma link` lists the devices")]
    OtherDevice {
        /// The target.
        remote: core::net::IpAddr,
        /// The device of the route.
        found: String,
        /// The requested device.
        requested: String,
    },
}

/// A connection.
struct Link {
    /// Memory that the remote side may access. Dropped before the ID.
    memory: BTreeMap<Rkey, (Pinned, usize)>,
    /// Numbers of posted Receives.
    receives: BTreeSet<u64>,
    id: Id,
    /// The refusal of a request of the remote side, reported by the device and not yet passed on.
    refused: Option<NakCode>,
    request: Connect,
    state: State,
    /// READs that the target accepts at once. A device sends none if this is zero.
    depth: u8,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Connecting,
    Connected,
    /// The queue pair failed.
    Failed,
    /// This side requested the end.
    Disconnecting,
    Over,
}

/// Connections of an RDMA device. See the [module](self).
pub struct Verbs {
    links: BTreeMap<u32, Link>,
    events: VecDeque<Event>,
    /// The name of the requested device.
    device: String,
    next: u32,
    work: u64,
    /// The error that ends the run.
    error: Option<Error>,
    started: std::time::Instant,
    woken: UnixStream,
    waker: Waker,
    /// The last field, so that connections are dropped first.
    channel: Channel,
}

impl Verbs {
    /// Opens the connection manager. Connections use this device only.
    pub fn open(device: &str) -> Result<Verbs, Error> {
        let (woken, waker) = Waker::pair()?;
        Ok(Verbs {
            channel: Channel::new().map_err(Error::NoManager)?,
            woken,
            waker,
            links: BTreeMap::new(),
            events: VecDeque::new(),
            device: device.into(),
            next: 1,
            work: 0,
            error: None,
            started: std::time::Instant::now(),
        })
    }

    /// Returns the time since it was opened.
    pub fn now(&self) -> Instant {
        Instant::default().plus(self.started.elapsed())
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns the waker of [`run`](Verbs::run).
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Runs until `done` breaks, or until the time limit. After every turn `done` returns the
    /// latest time to wake up.
    pub fn run(
        &mut self,
        until: Option<Instant>,
        mut done: impl FnMut(&mut Verbs, Instant) -> ControlFlow<(), Option<Instant>>,
    ) -> Result<Ended, Error> {
        loop {
            self.take()?;
            let now = self.now();
            let ControlFlow::Continue(deadline) = done(self, now) else { return Ok(Ended::Done) };
            if until.is_some_and(|until| until <= now) {
                return Ok(Ended::Deadline);
            }
            // The event that `done` waits for may have happened already.
            if self.events.is_empty() && self.error.is_none() {
                let wait = earlier(deadline, until).map(|deadline| deadline.since(self.now()));
                self.channel.wait(self.links.values().map(|link| &link.id), &self.woken, wait)?;
            }
            if Waker::was_used(&self.woken) {
                return Ok(Ended::Woken);
            }
        }
    }

    /// Runs a scenario to its end.
    pub fn run_scenario(&mut self, runner: &mut Runner, until: Option<Instant>) -> Result<Ended, Error> {
        self.run(until, |verbs, now| {
            while let Some(event) = verbs.poll_event() {
                runner.handle(verbs, &event);
                runner.advance(now, verbs);
            }
            runner.advance(now, verbs);
            if runner.is_over() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(runner.next_deadline())
            }
        })
    }

    /// Takes all pending events.
    fn take(&mut self) -> Result<(), Error> {
        let ids: Vec<u32> = self.links.keys().copied().collect();
        for id in &ids {
            // One connection may take events of the device about another one.
            let events = self.links.get(id).map(|link| link.id.device_events()).transpose()?;
            for (queue_pair, event) in events.into_iter().flatten() {
                if let Some(code) = refusal(event)
                    && let Some(link) = self.links.values_mut().find(|link| link.id.has(queue_pair))
                {
                    link.refused.get_or_insert(code);
                }
            }
        }
        for id in ids {
            // Completions precede events of the connection manager: a remote side whose request was
            // refused disconnects, and its DREQ must not hide the refusal.
            self.complete(id)?;
        }
        while let Some(event) = self.channel.poll()? {
            self.managed(event);
        }
        self.error.take().map_or(Ok(()), Err)
    }

    fn close(&mut self, id: u32, why: Closed) {
        if let Some(link) = self.links.get_mut(&id)
            && core::mem::replace(&mut link.state, State::Over) != State::Over
        {
            self.events.push_back(Event::Closed { connection: ConnectionId(id), why });
        }
    }

    /// Handles an event of the connection manager.
    fn managed(&mut self, event: CmEvent) {
        let (number, connection) = (event.number, ConnectionId(event.number));
        let Some(link) = self.links.get_mut(&number) else { return };
        let step = match event.kind {
            CmEventKind::AddressResolved => {
                let found = link.id.device().unwrap_or_default();
                if found != self.device {
                    let (remote, requested) = (link.request.remote, self.device.clone());
                    self.error = Some(Error::OtherDevice { remote, found, requested });
                }
                link.id.resolve_route(RESOLVING)
            }
            CmEventKind::RouteResolved => link
                .id
                .create_queue_pair(OPERATIONS, RECEIVES)
                .and_then(|()| link.id.connect(&link.request.private_data, DEPTH)),
            CmEventKind::Established => {
                (link.state, link.depth) = (State::Connected, event.depth);
                let private_data = event.private_data;
                self.events.push_back(Event::Replied { connection, reply: None, private_data });
                self.events.push_back(Event::Connected { connection });
                Ok(())
            }
            CmEventKind::Rejected => {
                let reason = u16::try_from(event.status).unwrap_or_default();
                self.close(number, Closed::Rejected { reason, private_data: event.private_data });
                Ok(())
            }
            CmEventKind::Unresolved | CmEventKind::Unreachable => {
                self.close(number, Closed::NoAnswer);
                Ok(())
            }
            CmEventKind::Disconnected => {
                let local = matches!(link.state, State::Disconnecting | State::Failed);
                // Answers a DREQ. If this side sent the DREQ, the connection is already closed.
                let _ = link.id.disconnect();
                self.close(number, if local { Closed::Local } else { Closed::Remote });
                Ok(())
            }
            CmEventKind::Other => Ok(()),
        };
        if let Err(error) = step {
            self.error.get_or_insert(Error::Device(error));
        }
    }

    /// Takes the completions of a connection.
    fn complete(&mut self, id: u32) -> Result<(), Error> {
        let connection = ConnectionId(id);
        let Some(link) = self.links.get_mut(&id) else { return Ok(()) };
        link.id.acknowledge()?;
        let mut failure = link.refused.take().map(Failure::RefusedRequest);
        let mut flushed = false;
        while let Some(completion) = link.id.poll() {
            let Completion { work, status, bytes, is_write, immediate, invalidated } = completion;
            let is_receive = link.receives.remove(&work);
            let outcome = outcome(status);
            if let Err(why) = outcome
                && why != Failure::Flushed
            {
                failure.get_or_insert(why);
            }
            let event = match (is_receive, outcome) {
                // No device reports the address of a WRITE with immediate data.
                (true, Ok(())) if is_write => continue,
                (true, Ok(())) => {
                    let invalidated = invalidated.map(Rkey);
                    QueueEvent::Received(Received { bytes, immediate, invalidated, solicited: false })
                }
                (true, Err(_)) => {
                    flushed = true;
                    continue;
                }
                (false, outcome) => {
                    QueueEvent::Completed { work: WorkId(work), outcome: outcome.map(|()| bytes) }
                }
            };
            self.events.push_back(Event::Queue { connection, event });
        }
        // The device flushed the Receives although the connection was not ended and no operation
        // failed: it refused a request of the remote side. Soft RoCE reports no more; other devices
        // report the reason.
        if flushed && link.state == State::Connected {
            failure.get_or_insert(Failure::RefusedRequest(NakCode::RemoteAccessError));
        }
        if let Some(failure) = failure
            && link.state == State::Connected
        {
            link.state = State::Failed;
            self.events.push_back(Event::Queue { connection, event: QueueEvent::Failed(failure) });
            // As in an endpoint, the failure of a queue pair ends its connection.
            let _ = link.id.disconnect();
        }
        Ok(())
    }

    fn ready(&mut self, connection: ConnectionId) -> Result<&mut Link, PostError> {
        let link = self.links.get_mut(&connection.0);
        link.filter(|link| link.state == State::Connected).ok_or(PostError::NotReady)
    }
}

/// Converts an event of the device (`ibv_event_type`) to the refusal of a remote request:
/// IBV_EVENT_QP_ACCESS_ERR, or IBV_EVENT_QP_REQ_ERR and IBV_EVENT_QP_FATAL.
const fn refusal(event: u32) -> Option<NakCode> {
    match event {
        3 => Some(NakCode::RemoteAccessError),
        1 | 2 => Some(NakCode::InvalidRequest),
        _ => None,
    }
}

/// Converts the status of a completion (`ibv_wc_status`).
fn outcome(status: u32) -> Result<(), Failure> {
    Err(match status {
        0 => return Ok(()),
        5 => Failure::Flushed,
        9 => Failure::Refused(NakCode::InvalidRequest),
        10 => Failure::Refused(NakCode::RemoteAccessError),
        11 => Failure::Refused(NakCode::RemoteOperationalError),
        12 => Failure::RetriesExceeded,
        13 => Failure::RnrRetriesExceeded,
        7 => Failure::BadResponse,
        // The message did not fit a Receive, or the memory is not registered here.
        1 | 8 => Failure::RefusedRequest(NakCode::InvalidRequest),
        _ => Failure::RefusedRequest(NakCode::RemoteOperationalError),
    })
}

impl Provider for Verbs {
    fn makes_packets(&self) -> bool {
        false
    }

    fn connect(&mut self, connect: Connect) -> Result<ConnectionId, CommandError> {
        // Closed connections are kept until the next one, because a scenario may read their memory.
        self.links.retain(|_, link| link.state != State::Over);
        if self.links.len() >= MOST_CONNECTIONS {
            return Err(CommandError::TooMany);
        }
        if connect.private_data.len() > MOST_PRIVATE_DATA {
            return Err(CommandError::PrivateData);
        }
        if connect.local.is_ipv4() != connect.remote.is_ipv4() {
            return Err(CommandError::Addresses);
        }
        let number = self.next;
        self.next += 1;
        let local = SocketAddr::new(connect.local, 0);
        let remote = SocketAddr::new(connect.remote, connect.port);
        let made = Id::new(&self.channel, number)
            .and_then(|id| id.resolve_address(local, remote, RESOLVING).map(|()| id));
        match made {
            Ok(id) => {
                let (memory, receives, state) = (BTreeMap::new(), BTreeSet::new(), State::Connecting);
                let link = Link { memory, receives, id, refused: None, request: connect, state, depth: 0 };
                self.links.insert(number, link);
            }
            // The next turn reports the error.
            Err(reason) => {
                let (local, remote) = (connect.local, connect.remote);
                self.error.get_or_insert(Error::NoDevice { local, remote, reason });
            }
        }
        Ok(ConnectionId(number))
    }

    fn disconnect(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        let link = self.links.get_mut(&connection.0).ok_or(CommandError::UnknownConnection)?;
        if link.state != State::Connected {
            return Err(CommandError::State);
        }
        link.state = State::Disconnecting;
        link.id.disconnect().map_err(|_| CommandError::State)
    }

    fn post(&mut self, connection: ConnectionId, operation: Operation) -> Result<WorkId, PostError> {
        self.work += 1;
        let work = self.work;
        let post = match operation {
            Operation::Send(send) => Post::Send {
                bytes: send.bytes,
                invalidate: send.invalidate.map(|rkey| rkey.0),
                immediate: send.immediate,
                solicited: send.solicited,
            },
            Operation::Write { rkey, address, bytes, immediate } => {
                Post::Write { bytes, rkey: rkey.0, address, immediate }
            }
            Operation::Read { rkey, address, length } => {
                Post::Read { length: length as usize, rkey: rkey.0, address }
            }
        };
        let link = self.ready(connection)?;
        if matches!(post, Post::Read { .. }) && link.depth == 0 {
            return Err(PostError::NoReads);
        }
        link.id.post(work, post).map_err(|_| PostError::QueueFull)?;
        Ok(WorkId(work))
    }

    fn post_receive(&mut self, connection: ConnectionId, length: usize) -> Result<(), PostError> {
        self.work += 1;
        let work = self.work;
        let link = self.ready(connection)?;
        if link.receives.len() >= RECEIVES as usize {
            return Err(PostError::QueueFull);
        }
        link.id.post_receive(work, length.min(MOST_RECEIVE)).map_err(|_| PostError::QueueFull)?;
        link.receives.insert(work);
        Ok(())
    }

    fn register(
        &mut self,
        connection: ConnectionId,
        bytes: Vec<u8>,
        access: Access,
    ) -> Result<(Rkey, u64), RegisterError> {
        let link = self.ready(connection).map_err(|_| RegisterError::NotReady)?;
        let length = bytes.len();
        let pinned = link.id.register(bytes, access.remote_read, access.remote_write);
        let pinned = pinned.map_err(|_| RegisterError::TooMuch)?;
        let (rkey, address) = (Rkey(pinned.rkey()), pinned.address());
        link.memory.insert(rkey, (pinned, length));
        Ok((rkey, address))
    }

    fn invalidate(&mut self, connection: ConnectionId, rkey: Rkey) {
        if let Some(link) = self.links.get_mut(&connection.0) {
            link.memory.remove(&rkey);
        }
    }

    fn region(&self, connection: ConnectionId, rkey: Rkey) -> Option<(u64, Vec<u8>)> {
        let (pinned, length) = self.links.get(&connection.0)?.memory.get(&rkey)?;
        Some((pinned.address(), pinned.copy(*length)))
    }

    fn fill(&mut self, connection: ConnectionId, rkey: Rkey, bytes: &[u8]) {
        let memory = self.links.get_mut(&connection.0).and_then(|link| link.memory.get_mut(&rkey));
        if let Some((pinned, length)) = memory {
            pinned.fill(&bytes[..bytes.len().min(*length)]);
        }
    }

    fn intercept(&mut self, _: Option<Box<dyn Interceptor>>) {}

    fn skip_psn(&mut self, _: ConnectionId, _: u32) {}

    fn abandon(&mut self, _: ConnectionId) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_events_map_to_nak_codes() {
        let codes = [3, 2, 1, 0, 4, 18, 99, u32::MAX].map(refusal);
        let (access, request) = (Some(NakCode::RemoteAccessError), Some(NakCode::InvalidRequest));
        assert_eq!(codes, [access, request, request, None, None, None, None, None]);
    }
}
