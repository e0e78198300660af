//! A queue pair of a reliable connection, as requester and as responder (IBTA volume 1, section
//! 9.7).

pub(crate) mod requester;
pub(crate) mod responder;

use crate::memory::{Memory, Refusal};
use crate::packet::Packet;
use crate::time::{Instant, earlier};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;
use rdmascope_wire::bth::{Bth, NakCode, Transport};
use rdmascope_wire::psn::Psn;
use rdmascope_wire::{Qpn, Rkey, Stop};
use requester::Requester;
use responder::Responder;

/// Most bytes of one operation.
pub const MOST_OPERATION: usize = 64 << 20;
/// Most operations in a send queue.
pub const MOST_WORK: usize = 4096;
/// Most bytes of the operations in a send queue. It bounds the memory for a remote side that never
/// acknowledges.
pub const MOST_QUEUED: usize = 256 << 20;
/// Most Receives that can be posted.
pub const MOST_RECEIVES: usize = 65_536;
/// Longest message of a Receive.
pub const MOST_RECEIVE: usize = 1 << 20;

/// The configuration of a queue pair. The CM exchange sets the negotiated values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The path MTU: the largest payload of a packet, 256, 512, 1024, 2048 or 4096 bytes.
    pub path_mtu: u16,
    /// The partition key of every packet.
    pub partition_key: u16,
    /// Most READ requests of this side that may be outstanding.
    pub initiator_depth: u8,
    /// Most READ requests of the remote side that may be outstanding.
    pub responder_resources: u8,
    /// Time until unacknowledged packets are retransmitted; `None`: never.
    pub timeout: Option<Duration>,
    /// Retransmissions without progress before the queue pair fails: 0 to 7.
    pub retry_count: u8,
    /// Retries after an RNR NAK without progress: 0 to 6; 7: unlimited.
    pub rnr_retry_count: u8,
    /// The timer in RNR NAKs of this side, encoded in 5 bits (table 47).
    pub rnr_timer: u8,
    /// Number of packets between two acknowledge requests. The last packet of a message always has
    /// one.
    pub acknowledge_every: u32,
    /// Most PSNs that may be sent without acknowledgement.
    pub window: u32,
    /// Whether acknowledgements carry end-to-end credits, the number of posted Receives. Otherwise
    /// they carry 31.
    pub end_to_end_credits: bool,
}

impl Default for Config {
    /// Path MTU 1024, 128 READs in each direction, 7 retries, no end-to-end flow control, like
    /// Linux over rxe.
    fn default() -> Config {
        Config {
            path_mtu: 1024,
            partition_key: 0xffff,
            initiator_depth: 128,
            responder_resources: 128,
            timeout: Some(Duration::from_millis(67)),
            retry_count: 7,
            rnr_retry_count: 7,
            rnr_timer: 12,
            acknowledge_every: 16,
            window: 64,
            end_to_end_credits: false,
        }
    }
}

/// The identifier of a posted operation, unique in an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkId(pub u64);

/// An operation to post.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// SEND.
    Send(Send),
    /// RDMA WRITE.
    Write {
        /// The remote region.
        rkey: Rkey,
        /// The remote address.
        address: u64,
        /// The data to write.
        bytes: Vec<u8>,
        /// Immediate data, which consumes a Receive of the remote side.
        immediate: Option<u32>,
    },
    /// RDMA READ.
    Read {
        /// The remote region.
        rkey: Rkey,
        /// The remote address.
        address: u64,
        /// Bytes to read.
        length: u32,
    },
}

impl Operation {
    /// Returns the number of bytes that it moves.
    pub fn length(&self) -> usize {
        match self {
            Operation::Send(send) => send.bytes.len(),
            Operation::Write { bytes, .. } => bytes.len(),
            Operation::Read { length, .. } => *length as usize,
        }
    }

    /// Returns whether the remote side needs a Receive for it.
    const fn takes_receive(&self) -> bool {
        matches!(self, Operation::Send(_) | Operation::Write { immediate: Some(_), .. })
    }
}

/// A SEND.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Send {
    /// The message.
    pub bytes: Vec<u8>,
    /// Immediate data. Ignored if `invalidate` is set.
    pub immediate: Option<u32>,
    /// The remote region to invalidate.
    pub invalidate: Option<Rkey>,
    /// Whether it requests an event on the remote side.
    pub solicited: bool,
}

/// Why an operation cannot be posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// The connection does not exist, is not ready, or has failed.
    #[error("the connection is not ready")]
    NotReady,
    /// [`MOST_WORK`] operations are queued, their data exceed [`MOST_QUEUED`] bytes, or
    /// [`MOST_RECEIVES`] Receives are posted.
    #[error("the queue is full")]
    QueueFull,
    /// A READ to a remote side without responder resources: a device does not send it.
    #[error("the target accepts no READs, so the device sends none")]
    NoReads,
    /// It moves more than [`MOST_OPERATION`] bytes.
    #[error("the operation is too long")]
    TooLong,
}

/// Why a queue pair failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Failure {
    /// The remote side refused a request with a NAK.
    #[error("the remote side refused a request: {0}")]
    Refused(NakCode),
    /// No acknowledgement despite all retries.
    #[error("not acknowledged after all retries")]
    RetriesExceeded,
    /// The remote side had no Receive despite all retries.
    #[error("the remote side had no Receive after all retries")]
    RnrRetriesExceeded,
    /// A READ response had a wrong opcode or length.
    #[error("a READ response has the wrong opcode or length")]
    BadResponse,
    /// This side refused a request of the remote side with a NAK.
    #[error("a request was refused: {0}")]
    RefusedRequest(NakCode),
    /// The connection was closed first.
    #[error("the connection was closed")]
    Flushed,
}

/// An event of a queue pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueEvent {
    /// A SEND was received completely.
    Received(Received),
    /// An RDMA WRITE was received completely.
    Written {
        /// The region.
        rkey: Rkey,
        /// The start address.
        address: u64,
        /// The number of bytes.
        length: u32,
        /// Its immediate data, which consumed a Receive.
        immediate: Option<u32>,
    },
    /// An RDMA READ request is being answered.
    ReadServed {
        /// The region.
        rkey: Rkey,
        /// The start address.
        address: u64,
        /// The number of bytes.
        length: u32,
    },
    /// A posted operation has ended.
    Completed {
        /// The operation.
        work: WorkId,
        /// The data of a READ (empty for other operations), or the reason of the failure.
        outcome: Result<Vec<u8>, Failure>,
    },
    /// The queue pair failed. It sends and receives no more.
    Failed(Failure),
    /// The remote side sent a negative acknowledgement.
    NakReceived {
        /// The PSN in it.
        psn: Psn,
        /// The AETH syndrome.
        syndrome: u8,
    },
    /// This side sent a negative acknowledgement.
    NakSent {
        /// The PSN in it.
        psn: Psn,
        /// The AETH syndrome.
        syndrome: u8,
    },
    /// Unacknowledged packets are retransmitted, starting at this PSN.
    Retransmission {
        /// The first PSN.
        from: Psn,
        /// Whether a timeout caused it, rather than the remote side.
        timeout: bool,
    },
    /// A packet broke a rule.
    Fault(Fault),
}

impl QueueEvent {
    /// Returns whether the remote side can cause any number of such events, which can be dropped
    /// without other consequences.
    pub const fn is_detail(&self) -> bool {
        matches!(
            self,
            QueueEvent::Fault(_)
                | QueueEvent::NakReceived { .. }
                | QueueEvent::NakSent { .. }
                | QueueEvent::Retransmission { .. }
                | QueueEvent::ReadServed { .. }
                | QueueEvent::Written { immediate: None, .. }
        )
    }
}

/// The message of a received SEND.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The message.
    pub bytes: Vec<u8>,
    /// Its immediate data.
    pub immediate: Option<u32>,
    /// The local region that it invalidated.
    pub invalidated: Option<Rkey>,
    /// Whether it requested an event.
    pub solicited: bool,
}

/// The fault of a packet that was dropped or refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A header is malformed.
    #[error("{0}")]
    Malformed(#[from] Stop),
    /// The ICRC is bad.
    #[error("bad ICRC")]
    BadIcrc,
    /// TVer is not 0.
    #[error("transport version {0}")]
    TransportVersion(u8),
    /// The partition key is not the connection's.
    #[error("partition key 0x{0:04x}")]
    PartitionKey(u16),
    /// No queue pair has this number, or it belongs to another host.
    #[error("no queue pair {0} for the source")]
    UnknownQueuePair(Qpn),
    /// The opcode is not one of a reliable connection, or is not supported.
    #[error("opcode 0x{0:02x}")]
    Opcode(u8),
    /// A packet of a message that has not begun, or a first packet inside another message.
    #[error("opcode 0x{opcode:02x} at PSN {psn} is out of sequence")]
    OpcodeSequence {
        /// The opcode.
        opcode: u8,
        /// The PSN.
        psn: Psn,
    },
    /// The payload length contradicts the MTU, the DMA length or the Receive.
    #[error("a payload of {length} bytes at PSN {psn}")]
    Length {
        /// Bytes of payload.
        length: usize,
        /// The PSN.
        psn: Psn,
    },
    /// The requested memory is not accessible.
    #[error("memory {rkey} address 0x{address:x} length {length}: {refusal}")]
    Access {
        /// The R_Key.
        rkey: Rkey,
        /// The address.
        address: u64,
        /// The number of bytes.
        length: u32,
        /// The reason.
        refusal: Refusal,
    },
    /// More READs are outstanding than negotiated.
    #[error("more READs than responder resources at PSN {0}")]
    TooManyReads(Psn),
    /// A PSN was acknowledged that was never sent.
    #[error("acknowledgement of PSN {0}, which was not sent")]
    UnexpectedAcknowledgement(Psn),
    /// A reserved AETH syndrome.
    #[error("AETH syndrome 0x{0:02x}")]
    Syndrome(u8),
}

/// The state of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Ready to receive (RTR): it answers requests and sends none.
    ReadyToReceive,
    /// Ready to send (RTS): it also sends requests.
    ReadyToSend,
    /// Failed or closed: it only sends the responses already queued.
    Error,
}

/// A queue pair.
#[derive(Clone, Debug)]
pub struct QueuePair {
    pub(crate) config: Config,
    /// The remote queue pair.
    pub(crate) destination: Qpn,
    pub(crate) state: State,
    pub(crate) requester: Requester,
    pub(crate) responder: Responder,
    /// The memory that the remote side can access.
    pub(crate) memory: Memory,
    pub(crate) events: VecDeque<QueueEvent>,
}

impl QueuePair {
    /// Creates a queue pair. Its first request has the PSN `first`, and it expects the first
    /// request at `expected`.
    pub(crate) fn new(config: Config, destination: Qpn, first: Psn, expected: Psn) -> QueuePair {
        QueuePair {
            requester: Requester::new(first),
            responder: Responder::new(expected),
            config,
            destination,
            state: State::ReadyToReceive,
            memory: Memory::default(),
            events: VecDeque::new(),
        }
    }

    /// Returns the negotiated configuration.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the remote queue pair.
    pub const fn destination(&self) -> Qpn {
        self.destination
    }

    /// Returns the state.
    pub const fn state(&self) -> State {
        self.state
    }

    /// Returns the PSN of the next new request.
    pub const fn next_psn(&self) -> Psn {
        self.requester.next
    }

    /// Returns the PSN of the next expected request.
    pub const fn expected_psn(&self) -> Psn {
        self.responder.expected
    }

    /// Returns the number of messages completed as responder, modulo 2^24.
    pub const fn message_sequence_number(&self) -> u32 {
        self.responder.message_sequence_number
    }

    /// Returns the number of posted operations that have not ended.
    pub fn outstanding(&self) -> usize {
        self.requester.queue.len()
    }

    /// Returns the number of posted Receives that are not consumed.
    pub fn receives(&self) -> usize {
        self.responder.receives.len()
    }

    /// Returns the regions that the remote side can access.
    pub const fn memory(&self) -> &Memory {
        &self.memory
    }

    pub(crate) fn post(&mut self, id: WorkId, operation: Operation) -> Result<(), PostError> {
        if self.state == State::Error {
            return Err(PostError::NotReady);
        }
        if operation.length() > MOST_OPERATION {
            return Err(PostError::TooLong);
        }
        let queued = self.requester.queued + operation.length();
        if self.requester.queue.len() >= MOST_WORK || queued > MOST_QUEUED {
            return Err(PostError::QueueFull);
        }
        self.requester.post(id, operation, self.config.path_mtu);
        Ok(())
    }

    /// Handles a packet for this queue pair.
    pub(crate) fn handle(&mut self, now: Instant, packet: &Packet<'_>) {
        if self.state == State::Error {
            return;
        }
        let bth = &packet.bth;
        if bth.transport_version != 0 {
            return self.fault(Fault::TransportVersion(bth.transport_version));
        }
        // Bit 15 is full membership; at least one of two members must be full (section 10.9.1.1).
        let (theirs, ours) = (bth.partition_key, self.config.partition_key);
        if (theirs ^ ours) & 0x7fff != 0 || (theirs | ours) & 0x8000 == 0 {
            return self.fault(Fault::PartitionKey(theirs));
        }
        match (bth.opcode.transport(), bth.opcode.operation()) {
            (Transport::ReliableConnection, Some(operation)) if operation.is_response() => {
                self.handle_response(now, packet, operation);
            }
            (Transport::ReliableConnection, Some(operation)) => self.handle_request(packet, operation),
            _ => self.fault(Fault::Opcode(bth.opcode.0)),
        }
    }

    /// Returns the next packet to send.
    pub(crate) fn poll_transmit(&mut self, now: Instant) -> Option<Vec<u8>> {
        if let Some(packet) = self.next_response() {
            return Some(packet);
        }
        if self.state == State::ReadyToSend { self.next_request(now) } else { None }
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        if self.state != State::ReadyToSend {
            return None;
        }
        earlier(self.requester.deadline, self.requester.rnr_until)
    }

    pub(crate) fn fault(&mut self, fault: Fault) {
        self.emit(QueueEvent::Fault(fault));
    }

    /// Queues an event. Details beyond the bound are dropped, so that a flood of them uses no
    /// memory.
    pub(crate) fn emit(&mut self, event: QueueEvent) {
        const MOST_DETAILS: usize = 4096;
        if !event.is_detail() || self.events.len() < MOST_DETAILS {
            self.events.push_back(event);
        }
    }

    /// Fails the queue pair and its outstanding operations.
    pub(crate) fn fail(&mut self, failure: Failure) {
        if self.state == State::Error {
            return;
        }
        self.state = State::Error;
        let mut cause = failure;
        for work in self.requester.flush() {
            self.events.push_back(QueueEvent::Completed { work: work.id, outcome: Err(cause) });
            // The oldest operation failed; the later ones are flushed.
            cause = Failure::Flushed;
        }
        self.events.push_back(QueueEvent::Failed(failure));
    }

    /// Returns the common BTH fields of packets to the remote queue pair.
    ///
    /// Use it for custom packets: [`Packet::build`] makes their bytes.
    pub fn header(&self) -> Bth {
        Bth { partition_key: self.config.partition_key, destination_qp: self.destination, ..Bth::default() }
    }
}

/// Returns the number of packets for `length` bytes, at least one.
pub(crate) fn packets(length: usize, path_mtu: u16) -> u32 {
    length.div_ceil(usize::from(path_mtu)).max(1) as u32
}
