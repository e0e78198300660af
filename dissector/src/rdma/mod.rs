//! The words that a transport speaks upward: what RPC-over-RDMA sees of it.
//!
//! A transport takes the packets of both [`End`]s of a connection and hands up [`Delivery`]s. Nothing above it knows the headers of
//! its packets. Each transport provides:
//!
//! - Sends, RDMA Writes and RDMA Read requests of each end in the order in which that end sent them, each once. A [`Send`] comes whole,
//!   or with what the capture has of it.
//! - The bytes of RDMA Writes and Read responses as [`Placement`]s, packet by packet, with the address where they belong. Bytes whose
//!   place is not known are [`Delivery::Unplaced`].
//! - What the capture lacks ([`Delivery::Missing`]), once it is clear that it will not turn up behind what came after it.
//! - What is repeated or refused, and each [`Fault`]; of responses that is reported only where somebody watches.
//! - A [`Position`] for each, with an extent: how many of its sender's numbers it takes up.
//!
//! `rc` does so for the reliable connections of InfiniBand and RoCE (IBTA volume 1, chapter 9), `iwarp` for RDMA over TCP (RFC 5040). There
//! the same words stand for Send and Send with Invalidate (an untagged DDP message), RDMA Write (tagged: STag and tagged offset), RDMA Read
//! Request (which names source and sink) and RDMA Read Response (tagged, to the sink's STag).

mod end;
mod fault;
mod held;
mod operation;
mod position;

pub use end::End;
pub use fault::{Fault, StartFault};
pub use held::HeldDelivery;
pub use operation::{Failure, Operation, Part, Piece, Refusal};
pub use position::Position;

use crate::record::Seen;
use rdmascope_wire::Rkey;

/// Takes the deliveries of a connection, each with the end that sent it.
pub(crate) type Deliver<'a> = dyn FnMut(End, Delivery<'_>) + 'a;

/// What one end of a connection did, as a transport hands it up: in the order in which that end sent it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Delivery<'a> {
    /// A whole Send, or what the capture has of one.
    Send(Send<'a>),
    /// One packet of an RDMA Write.
    Write(Placement<'a>),
    /// An RDMA Read request.
    ReadRequest(ReadRequest),
    /// One packet of the response to an RDMA Read request of the other end.
    ReadResponse(Placement<'a>),
    /// Packets that the capture lacks, or that it holds damaged, so that nobody takes them.
    Missing {
        /// How many.
        packets: u32,
    },
    /// The numbers go on far from where they were: it is not known what the capture lacks.
    Restarted,
    /// A packet seen before.
    Repeated(Repetition),
    /// A packet that breaks a rule of the transport. Of responses it is reported only to those who watch.
    Faulty {
        /// The packet.
        seen: Seen,
        /// What it is.
        piece: Piece,
        /// Its position.
        position: Position,
        /// What is wrong.
        fault: Fault,
    },
    /// An end did not take a request.
    Refused {
        /// The packet that says so.
        seen: Seen,
        /// Where the request stands: the one refused, or, where one is missing, the one waited for.
        position: Position,
        /// Why.
        refusal: Refusal,
        /// The first packet seen of the request; `None` where it is too long ago, not in the capture, or nobody watches.
        request: Option<Seen>,
    },
    /// Payload that cannot be placed, because the packet that says where it goes is not in the capture.
    Unplaced {
        /// Its bytes.
        bytes: u32,
    },
    /// Packets ahead of a gap were given up because there were too many.
    Overflow,
}

impl Delivery<'_> {
    /// The packet that brought it, where one packet did.
    pub fn seen(&self) -> Option<Seen> {
        match self {
            Delivery::Send(send) => Some(send.seen),
            Delivery::Write(placement) | Delivery::ReadResponse(placement) => Some(placement.seen),
            Delivery::ReadRequest(request) => Some(request.seen),
            Delivery::Repeated(repetition) => Some(repetition.seen),
            Delivery::Faulty { seen, .. } | Delivery::Refused { seen, .. } => Some(*seen),
            Delivery::Missing { .. }
            | Delivery::Restarted
            | Delivery::Unplaced { .. }
            | Delivery::Overflow => None,
        }
    }

    /// Whether it is something that its sender asked the other end to do, or what the capture lacks of that: whoever stands above
    /// the transport has to take these in the order in which they come.
    #[inline]
    pub fn is_request(&self) -> bool {
        matches!(
            self,
            Delivery::Send(_) | Delivery::Write(_) | Delivery::ReadRequest(_) | Delivery::Missing { .. }
        )
    }
}

/// A Send.
#[derive(Clone, Copy, Debug)]
pub struct Send<'a> {
    /// Its first packet.
    pub first: Seen,
    /// The packet that completed it.
    pub seen: Seen,
    /// Where its first packet stands.
    pub position: Position,
    /// How many numbers it takes up, as far as it is known.
    pub extent: u32,
    /// Its bytes from the first on, up to its end or to the first that the capture lacks.
    pub bytes: &'a [u8],
    /// Bytes that it had on the wire; `None` where its end was not captured.
    pub length: Option<u32>,
    /// Bytes of packets that the capture lacks: from, to (`None`: it is not known how far).
    pub missing: Option<(u32, Option<u32>)>,
    /// The R_Key that it invalidates.
    pub invalidated: Option<Rkey>,
}

/// Registered memory as an RDMA operation names it: for InfiniBand what a RETH says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRange {
    /// Its R_Key; for iWARP its STag.
    pub rkey: Rkey,
    /// The address of its first byte; for iWARP its tagged offset.
    pub address: u64,
    /// Bytes.
    pub length: u32,
}

/// Bytes on their way into registered memory, or out of it.
#[derive(Clone, Copy, Debug)]
pub struct Placement<'a> {
    /// The packet.
    pub seen: Seen,
    /// Where it stands.
    pub position: Position,
    /// Where the RDMA operation begins that it is part of: the first packet of an RDMA Write, or of a response to an RDMA Read. For InfiniBand
    /// that has the position of the request.
    pub first: Position,
    /// Of an RDMA Read response: where the request stands among what the other end sent. For InfiniBand that is `first`.
    pub request: Option<Position>,
    /// The registered memory that the whole operation is about: for an RDMA Read that of the responder.
    pub memory: MemoryRange,
    /// Where the bytes of this packet belong in it.
    pub address: u64,
    /// The bytes that were captured.
    pub bytes: &'a [u8],
    /// Bytes on the wire.
    pub length: u32,
    /// It is a response to an RDMA Read that came before.
    pub repeated: bool,
}

impl<'a> Placement<'a> {
    /// Its first `length` bytes, and the others. `length`: no more than it has. The capture may hold fewer.
    #[inline]
    pub fn split_at(self, length: u32) -> (Placement<'a>, Placement<'a>) {
        let (here, behind) = self.bytes.split_at(self.bytes.len().min(length as usize));
        let address = self.address.wrapping_add(u64::from(length));
        let rest = Placement { bytes: behind, length: self.length - length, address, ..self };
        (Placement { bytes: here, length, ..self }, rest)
    }
}

/// An RDMA Read request.
#[derive(Clone, Copy, Debug)]
pub struct ReadRequest {
    /// The packet.
    pub seen: Seen,
    /// Where it stands. For InfiniBand its first response stands there too.
    pub position: Position,
    /// How many numbers it takes up; for InfiniBand those of its responses. `None` where that is not known yet.
    pub extent: Option<u32>,
    /// The memory that it asks for.
    pub memory: MemoryRange,
    /// It was asked before.
    pub repeated: bool,
    /// It is certain that it asks for nothing that another one has asked for.
    pub is_new: bool,
}

/// A packet seen before: it was sent again, or the capture shows it twice.
#[derive(Clone, Copy, Debug)]
pub struct Repetition {
    /// The packet.
    pub seen: Seen,
    /// The one seen first; `None` where it is too long ago, or nobody watches.
    pub first: Option<Seen>,
    /// What it is.
    pub piece: Piece,
    /// Where it stands.
    pub position: Position,
    /// Bytes of its payload on the wire: none of an RDMA Read request.
    pub bytes: u32,
    /// Bytes that an RDMA Read request asks for.
    pub asked: u32,
}
