//! A queue pair of a reliable connection: what it sends as requester and what it answers as responder (IBTA volume 1,
//! section 9.7).

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

/// The most bytes that one operation moves.
pub const MOST_OPERATION: usize = 64 << 20;
/// Operations that can wait in a send queue.
pub const MOST_WORK: usize = 4096;
/// The most bytes that they move together: a remote side that acknowledges nothing takes no more memory.
pub const MOST_QUEUED: usize = 256 << 20;
/// Receives that can be posted.
pub const MOST_RECEIVES: usize = 65_536;
/// The longest message that a Receive can be posted for.
pub const MOST_RECEIVE: usize = 1 << 20;

/// How a queue pair behaves. What CM negotiates is filled in when the connection is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The largest payload of a packet in bytes: 256, 512, 1024, 2048 or 4096.
    pub path_mtu: u16,
    /// The partition key of every packet.
    pub partition_key: u16,
    /// READ requests that this side may have outstanding.
    pub initiator_depth: u8,
    /// READ requests that the remote side may have outstanding.
    pub responder_resources: u8,
    /// Time after which what is not acknowledged is sent again; `None`: never.
    pub timeout: Option<Duration>,
    /// Times to send again without any progress before the queue pair fails: 0 to 7.
    pub retry_count: u8,
    /// Times to try again after an RNR NAK, without progress: 0 to 6; 7: without end.
    pub rnr_retry_count: u8,
    /// The timer of the RNR NAKs that this side sends, encoded in 5 bits (table 47).
    pub rnr_timer: u8,
    /// An acknowledgement is asked for every so many packets, and with the last one of each message.
    pub acknowledge_every: u32,
    /// PSNs that may be sent without being acknowledged.
    pub window: u32,
    /// Whether acknowledgements tell end-to-end credits: how many Receives are posted. If not, they carry 31.
    pub end_to_end_credits: bool,
}

impl Default for Config {
    /// Path MTU 1024, 128 READs each way, 7 retries, no end-to-end flow control: what Linux does over rxe.
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

/// What a posted operation is called; unique in an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkId(pub u64);

/// An operation to be sent.
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
        /// What is written.
        bytes: Vec<u8>,
        /// Immediate data: takes a Receive of the remote side.
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
    /// Bytes that it moves.
    pub fn length(&self) -> usize {
        match self {
            Operation::Send(send) => send.bytes.len(),
            Operation::Write { bytes, .. } => bytes.len(),
            Operation::Read { length, .. } => *length as usize,
        }
    }

    /// Whether the remote side needs a Receive for it.
    const fn takes_receive(&self) -> bool {
        matches!(self, Operation::Send(_) | Operation::Write { immediate: Some(_), .. })
    }
}

/// A SEND.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Send {
    /// The message.
    pub bytes: Vec<u8>,
    /// Immediate data. Not with `invalidate`, which then is what is sent.
    pub immediate: Option<u32>,
    /// The remote region that it invalidates.
    pub invalidate: Option<Rkey>,
    /// Whether the remote side is to raise an event.
    pub solicited: bool,
}

/// Why an operation is refused before anything of it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// There is no such connection, or it is not ready, or it has failed.
    #[error("the connection is not ready")]
    NotReady,
    /// [`MOST_WORK`] operations wait, or they would move more than [`MOST_QUEUED`] bytes, or [`MOST_RECEIVES`] Receives are posted.
    #[error("the queue is full")]
    QueueFull,
    /// A READ, where the remote side said that it answers none: a device does not send it.
    #[error("the target answers no READ, so the device sends none")]
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
    /// Nothing was acknowledged, however often it was sent.
    #[error("not acknowledged, after all retries")]
    RetriesExceeded,
    /// The remote side had no Receive, however often it was tried.
    #[error("the remote side had no Receive, after all retries")]
    RnrRetriesExceeded,
    /// A READ response was not what was asked for.
    #[error("a READ response has the wrong opcode or length")]
    BadResponse,
    /// This side refused a request of the remote one with a NAK.
    #[error("a request was refused: {0}")]
    RefusedRequest(NakCode),
    /// The connection was closed first.
    #[error("the connection was closed")]
    Flushed,
}

/// What a queue pair tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueEvent {
    /// A SEND has come whole.
    Received(Received),
    /// An RDMA WRITE has come whole.
    Written {
        /// The region.
        rkey: Rkey,
        /// Where it begins.
        address: u64,
        /// Bytes.
        length: u32,
        /// Its Immediate data, which took a Receive.
        immediate: Option<u32>,
    },
    /// An RDMA READ request is being answered.
    ReadServed {
        /// The region.
        rkey: Rkey,
        /// Where it begins.
        address: u64,
        /// Bytes.
        length: u32,
    },
    /// A posted operation has come to its end.
    Completed {
        /// Which.
        work: WorkId,
        /// What a READ read (nothing for other operations), or why it failed.
        outcome: Result<Vec<u8>, Failure>,
    },
    /// The queue pair has failed; nothing more is sent or received with it.
    Failed(Failure),
    /// The remote side sent a negative acknowledgement.
    NakReceived {
        /// The PSN that it names.
        psn: Psn,
        /// The AETH syndrome.
        syndrome: u8,
    },
    /// This side sent one.
    NakSent {
        /// The PSN that it names.
        psn: Psn,
        /// The AETH syndrome.
        syndrome: u8,
    },
    /// What was not acknowledged is sent again, from this PSN on.
    Retransmission {
        /// From where on.
        from: Psn,
        /// Whether time ran out; otherwise the remote side asked for it.
        timeout: bool,
    },
    /// What came broke a rule.
    Fault(Fault),
}

impl QueueEvent {
    /// Whether the remote side can cause any number of it, and nothing is lost but the tale where it is not told.
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

/// A message that a SEND brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The message.
    pub bytes: Vec<u8>,
    /// Its Immediate data.
    pub immediate: Option<u32>,
    /// The region that it invalidated, as this side had it.
    pub invalidated: Option<Rkey>,
    /// Whether it asked for an event.
    pub solicited: bool,
}

/// What was wrong with a packet. It was dropped or refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A header could not be read.
    #[error("{0}")]
    Malformed(#[from] Stop),
    /// The ICRC was wrong.
    #[error("bad ICRC")]
    BadIcrc,
    /// TVer is not 0.
    #[error("transport version {0}")]
    TransportVersion(u8),
    /// The partition key is not the connection's.
    #[error("partition key 0x{0:04x}")]
    PartitionKey(u16),
    /// No queue pair has this number, or it is another host's.
    #[error("no queue pair {0} for the source")]
    UnknownQueuePair(Qpn),
    /// The opcode is none of a reliable connection, or one that is not supported.
    #[error("opcode 0x{0:02x}")]
    Opcode(u8),
    /// A packet of a message that was not begun, or a first one amid another message.
    #[error("opcode 0x{opcode:02x} at PSN {psn} is out of sequence")]
    OpcodeSequence {
        /// The opcode.
        opcode: u8,
        /// Where.
        psn: Psn,
    },
    /// The length of the payload is not what MTU, DMA length or Receive allow.
    #[error("a payload of {length} bytes at PSN {psn}")]
    Length {
        /// Bytes of payload.
        length: usize,
        /// Where.
        psn: Psn,
    },
    /// Memory was asked for that is not to be had.
    #[error("memory {rkey} address 0x{address:x} length {length}: {refusal}")]
    Access {
        /// The R_Key.
        rkey: Rkey,
        /// The address.
        address: u64,
        /// Bytes.
        length: u32,
        /// Why not.
        refusal: Refusal,
    },
    /// More READs are outstanding than were agreed on.
    #[error("more READs than responder resources at PSN {0}")]
    TooManyReads(Psn),
    /// Something was acknowledged that was not sent.
    #[error("acknowledgement of PSN {0}, which was not sent")]
    UnexpectedAcknowledgement(Psn),
    /// An AETH syndrome that the specification reserves.
    #[error("AETH syndrome 0x{0:02x}")]
    Syndrome(u8),
}

/// Whether a queue pair sends and receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Ready to receive: requests are answered, none is sent (RTR).
    ReadyToReceive,
    /// Ready to send as well (RTS).
    ReadyToSend,
    /// Failed or closed: what was under way in its responses is still sent, all else is not.
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
    /// What the remote side can read and write.
    pub(crate) memory: Memory,
    pub(crate) events: VecDeque<QueueEvent>,
}

impl QueuePair {
    /// A queue pair whose first request has the PSN `first`, and that expects its first one at `expected`.
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

    /// Its configuration, as negotiated.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// The remote queue pair.
    pub const fn destination(&self) -> Qpn {
        self.destination
    }

    /// Whether it sends and receives.
    pub const fn state(&self) -> State {
        self.state
    }

    /// The PSN of the next request that is sent for the first time.
    pub const fn next_psn(&self) -> Psn {
        self.requester.next
    }

    /// The PSN of the next request expected.
    pub const fn expected_psn(&self) -> Psn {
        self.responder.expected
    }

    /// Messages completed as responder, modulo 2^24.
    pub const fn message_sequence_number(&self) -> u32 {
        self.responder.message_sequence_number
    }

    /// Operations posted that have not come to their end.
    pub fn outstanding(&self) -> usize {
        self.requester.queue.len()
    }

    /// Receives posted that no message took.
    pub fn receives(&self) -> usize {
        self.responder.receives.len()
    }

    /// The regions that the remote side can use.
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

    /// Takes a packet that is for this queue pair.
    pub(crate) fn handle(&mut self, now: Instant, packet: &Packet<'_>) {
        if self.state == State::Error {
            return;
        }
        let bth = &packet.bth;
        if bth.transport_version != 0 {
            return self.fault(Fault::TransportVersion(bth.transport_version));
        }
        // Bit 15 is full membership; of two members one has to be full (section 10.9.1.1).
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

    /// The next packet to send.
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
        self.tell(QueueEvent::Fault(fault));
    }

    /// Faults beyond what anybody takes are dropped: a flood of them costs no memory.
    pub(crate) fn tell(&mut self, event: QueueEvent) {
        const MOST_DETAILS: usize = 4096;
        if !event.is_detail() || self.events.len() < MOST_DETAILS {
            self.events.push_back(event);
        }
    }

    /// Ends the queue pair: what is outstanding fails.
    pub(crate) fn fail(&mut self, failure: Failure) {
        if self.state == State::Error {
            return;
        }
        self.state = State::Error;
        let mut cause = failure;
        for work in self.requester.flush() {
            self.events.push_back(QueueEvent::Completed { work: work.id, outcome: Err(cause) });
            // The one at fault is the oldest; those behind it are flushed.
            cause = Failure::Flushed;
        }
        self.events.push_back(QueueEvent::Failed(failure));
    }

    /// What all packets to the remote queue pair have in common.
    ///
    /// For packets of one's own: [`Packet::build`] makes the bytes.
    pub fn header(&self) -> Bth {
        Bth { partition_key: self.config.partition_key, destination_qp: self.destination, ..Bth::default() }
    }
}

/// Packets that `length` bytes take: one at least.
pub(crate) fn packets(length: usize, path_mtu: u16) -> u32 {
    length.div_ceil(usize::from(path_mtu)).max(1) as u32
}
