//! Reliable connections: from packets to whole Sends and to placements in memory (IBTA volume 1, section 9.7).
//!
//! A half-flow is what one end sends. Its requests (SEND, RDMA WRITE, RDMA READ request) carry PSNs of its own; the
//! responses to them (RDMA READ response, acknowledgement) come the other way and carry PSNs of the same numbering. So
//! each end has one [`Requests`] that puts its requests in order, and one [`Reads`] that says where responses to its
//! RDMA READs belong.

pub mod fault;
mod reads;
mod recent_requests;
mod requests;

pub use fault::Fault;
pub use reads::Reads;
pub use recent_requests::RecentRequests;
pub use requests::Requests;

use crate::transaction::Seen;
use rdmascope_wire::bth::{Aeth, Operation, Reth};
use rdmascope_wire::psn::Psn;
use rdmascope_wire::{Rkey, bth};

/// How long a packet may yet turn up in the capture behind what came after it, in nanoseconds and in packets.
pub const REORDERING: (u64, u32) = (2_000_000, 64);

/// A packet of a reliable connection.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Where it stands in the capture.
    pub seen: Seen,
    /// What it is.
    pub operation: Operation,
    /// Its PSN.
    pub psn: Psn,
    /// Its extension header.
    pub extension: Extension,
    /// The bytes of its payload that were captured.
    pub payload: &'a [u8],
    /// Bytes of payload on the wire.
    pub payload_length: u32,
}

/// The extension header of a packet, as far as it matters to a reliable connection: none has more than one of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extension {
    /// No header, or another.
    #[default]
    None,
    /// RDMA WRITE and READ requests.
    Reth(Reth),
    /// Acknowledgements and the first, last or only READ response.
    Aeth(Aeth),
    /// The R_Key that a SEND with Invalidate invalidates.
    Ieth(Rkey),
}

impl Extension {
    /// Reads the header that `operation` calls for from the bytes behind the BTH.
    #[inline]
    pub fn parse(operation: Operation, bytes: &[u8]) -> Extension {
        use Operation::*;
        let header = match operation {
            WriteFirst | WriteOnly | WriteOnlyWithImmediate | ReadRequest => {
                bytes.first_chunk().map(|bytes| Extension::Reth(Reth::from_bytes(bytes)))
            }
            ReadResponseFirst | ReadResponseLast | ReadResponseOnly | Acknowledge | AtomicAcknowledge => {
                bytes.first_chunk().map(|bytes| Extension::Aeth(Aeth::from_bytes(bytes)))
            }
            SendLastWithInvalidate | SendOnlyWithInvalidate => {
                bytes.first_chunk().map(|bytes| Extension::Ieth(Rkey(u32::from_be_bytes(*bytes))))
            }
            _ => None,
        };
        header.unwrap_or_default()
    }

    /// The RETH, where it is one.
    #[inline]
    pub fn reth(&self) -> Option<Reth> {
        if let Extension::Reth(reth) = self { Some(*reth) } else { None }
    }

    /// The AETH, where it is one.
    #[inline]
    pub fn aeth(&self) -> Option<Aeth> {
        if let Extension::Aeth(aeth) = self { Some(*aeth) } else { None }
    }

    /// The R_Key of an IETH, where it is one.
    #[inline]
    pub fn ieth(&self) -> Option<Rkey> {
        if let Extension::Ieth(rkey) = self { Some(*rkey) } else { None }
    }
}

/// What the requests of one end come to, in the order of their PSNs.
#[derive(Clone, Copy, Debug)]
pub enum Delivery<'a> {
    /// A whole Send, or what the capture has of one.
    Send(Send<'a>),
    /// One packet of an RDMA WRITE.
    Write(Placement<'a>),
    /// An RDMA READ request.
    Read {
        /// The packet.
        seen: Seen,
        /// Its PSN, which is that of the first response.
        psn: Psn,
        /// PSNs that its responses take up; `None` where the path MTU is not known.
        packets: Option<u32>,
        /// What it asks for.
        reth: Reth,
        /// It was asked before.
        repeated: bool,
        /// The packet before it was seen, so that it cannot ask for the rest of another one.
        follows: bool,
    },
    /// A request packet whose PSN was seen before. Reported only where [`Requests::watch`] asks for it.
    Repeated {
        /// The packet.
        seen: Seen,
        /// The one seen first, where it is remembered.
        first: Option<Seen>,
        /// What it is.
        operation: Operation,
        /// Its PSN.
        psn: Psn,
        /// Bytes of its payload, or that it asks for.
        bytes: u32,
    },
    /// The PSNs go on far from where they were: nobody knows what the capture lacks. Reported only where [`Requests::watch`] asks for it.
    Restarted,
    /// A packet that breaks a rule. Reported only where [`Requests::watch`] asks for it.
    Faulty {
        /// The packet.
        seen: Seen,
        /// What it is.
        operation: Operation,
        /// Its PSN.
        psn: Psn,
        /// What is wrong.
        fault: Fault,
    },
    /// Packets that the capture lacks.
    Missing {
        /// How many.
        packets: u32,
    },
    /// Payload that cannot be placed, because the packet that says where it goes is not in the capture.
    Unplaced {
        /// Its bytes.
        bytes: u32,
    },
    /// Packets ahead of a gap were given up because there were too many.
    Overflow,
}

/// A Send.
#[derive(Clone, Copy, Debug)]
pub struct Send<'a> {
    /// Its first packet.
    pub first: Seen,
    /// The packet that completed it.
    pub seen: Seen,
    /// The PSN of its first packet.
    pub psn: Psn,
    /// PSNs that it takes up, as far as it is known.
    pub packets: u32,
    /// Its bytes from the first on, up to its end or to the first that the capture lacks.
    pub bytes: &'a [u8],
    /// Bytes that it had on the wire; `None` where its end was not captured.
    pub length: Option<u32>,
    /// Bytes of packets that the capture lacks: from, to (`None`: it is not known how far).
    pub missing: Option<(u32, Option<u32>)>,
    /// The R_Key that it invalidates.
    pub invalidated: Option<Rkey>,
}

/// Bytes on their way into registered memory.
#[derive(Clone, Copy, Debug)]
pub struct Placement<'a> {
    /// The packet.
    pub seen: Seen,
    /// Its PSN.
    pub psn: Psn,
    /// The PSN of the RDMA operation that it is part of: of its first packet, or of the RDMA READ request that it answers.
    pub first: Psn,
    /// The registered memory that the whole operation is about.
    pub reth: Reth,
    /// Where the bytes of this packet belong.
    pub address: u64,
    /// The bytes that were captured.
    pub bytes: &'a [u8],
    /// Bytes on the wire.
    pub length: u32,
}

/// What a response packet says besides the data that it brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response {
    /// Everything up to its PSN is received.
    Acknowledged,
    /// The receiver had no Receive posted.
    ReceiverNotReady,
    /// The request at its PSN failed.
    Failed(bth::NakCode),
}

impl Packet<'_> {
    /// What its AETH says; an RDMA READ response without one acknowledges all the same (section 9.7.5.1.1).
    #[inline]
    pub fn response(&self) -> Response {
        response(self.extension.aeth())
    }
}

/// What the AETH of a response says.
#[inline]
pub fn response(aeth: Option<Aeth>) -> Response {
    match aeth.map(|aeth| aeth.syndrome.kind()) {
        Some(bth::Acknowledgement::RnrNak { .. }) => Response::ReceiverNotReady,
        Some(bth::Acknowledgement::Nak(code)) => Response::Failed(code),
        _ => Response::Acknowledged,
    }
}
