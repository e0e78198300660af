//! The interface between a transport and RPC-over-RDMA.
//!
//! A transport takes the packets of both [`End`]s of a connection and emits [`Delivery`]s. Higher
//! layers do not see packet headers. Each transport provides:
//!
//! - The Sends, RDMA Writes and RDMA Read requests of each end, once each and in the order in which
//!   that end sent them. A [`Send`] is complete, or has the part of it that was captured.
//! - The bytes of RDMA Writes and Read responses as [`Placement`]s: one for each packet, with the
//!   target address. Bytes with an unknown address are [`Delivery::Unplaced`].
//! - Gaps in the capture ([`Delivery::Missing`]), once reordering can no longer fill them.
//! - Repetitions, refusals and [`Fault`]s. Faults of responses are reported only on request.
//! - The [`Position`] and extent of each delivery in the numbering of its sender.
//!
//! `rc` implements this for reliable connections of InfiniBand and RoCE (IBTA volume 1, chapter 9),
//! and `iwarp` for RDMA over TCP (RFC 5040). On iWARP a Send, with or without Invalidate, is an
//! untagged DDP message. An RDMA Write is tagged (STag and tagged offset). An RDMA Read Request
//! names source and sink, and an RDMA Read Response is tagged with the STag of the sink.

mod end;
mod fault;
mod flight;
mod held;
mod operation;
mod position;

pub use end::End;
pub use fault::{Fault, StartFault};
pub(crate) use flight::Flight;
pub use held::HeldDelivery;
pub use operation::{Failure, Operation, Part, Piece, Refusal};
pub use position::Position;

use crate::record::Seen;
use rdmascope_wire::Rkey;

/// A callback that takes the deliveries of a connection and the end that sent each.
pub(crate) type Deliver<'a> = dyn FnMut(End, Delivery<'_>) + 'a;

/// An action of one end of a connection, emitted in the order in which that end sent it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Delivery<'a> {
    /// A Send, or the part of it that was captured.
    Send(Send<'a>),
    /// One packet of an RDMA Write.
    Write(Placement<'a>),
    /// An RDMA Read request.
    ReadRequest(ReadRequest),
    /// One packet of the response to an RDMA Read request of the other end.
    ReadResponse(Placement<'a>),
    /// Packets that are not in the capture, or that are damaged in it and therefore ignored.
    Missing {
        /// Number of packets.
        packets: u32,
        /// The position of the last of them, if known.
        last: Option<Position>,
    },
    /// Data with a wrong CRC, which their receiver drops.
    Damaged {
        /// The packet with the CRC.
        seen: Seen,
    },
    /// The numbering jumped by more than the window, so the number of missing packets is unknown.
    Restarted,
    /// A packet that was seen before.
    Repeated(Repetition),
    /// A packet that breaks a rule of the transport. Faults of responses are reported only on
    /// request.
    Faulty {
        /// The packet.
        seen: Seen,
        /// Its operation, and its part of the message.
        piece: Piece,
        /// Its position.
        position: Position,
        /// The rule that it breaks.
        fault: Fault,
    },
    /// An end refused a request.
    Refused {
        /// The packet that carries the refusal.
        seen: Seen,
        /// Position of the refused request. For a sequence error, the position that the receiver
        /// expects.
        position: Position,
        /// Reason for the refusal.
        refusal: Refusal,
        /// The first packet seen of the request; `None` if it is too old, not in the capture, or
        /// observations are disabled.
        request: Option<Seen>,
        /// The refused RDMA operation and its memory, if the refusal names them.
        operation: Option<(Operation, MemoryRange)>,
    },
    /// Payload whose address is unknown, because the packet that names it is not in the capture.
    Unplaced {
        /// Number of bytes.
        bytes: u32,
    },
    /// A gap was given up because too many packets waited after it.
    Overflow,
}

impl Delivery<'_> {
    /// The packet that caused the delivery, if there is a single one.
    pub fn seen(&self) -> Option<Seen> {
        match self {
            Delivery::Send(send) => Some(send.seen),
            Delivery::Write(placement) | Delivery::ReadResponse(placement) => Some(placement.seen),
            Delivery::ReadRequest(request) => Some(request.seen),
            Delivery::Repeated(repetition) => Some(repetition.seen),
            Delivery::Damaged { seen } | Delivery::Faulty { seen, .. } | Delivery::Refused { seen, .. } => {
                Some(*seen)
            }
            Delivery::Missing { .. }
            | Delivery::Restarted
            | Delivery::Unplaced { .. }
            | Delivery::Overflow => None,
        }
    }

    /// Whether it is a request to the other end, or a gap or damaged data that may contain one.
    ///
    /// The layer above must process these in the order in which they are delivered.
    #[inline]
    pub fn is_request(&self) -> bool {
        matches!(
            self,
            Delivery::Send(_)
                | Delivery::Write(_)
                | Delivery::ReadRequest(_)
                | Delivery::Missing { .. }
                | Delivery::Damaged { .. }
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
    /// Position of its first packet.
    pub position: Position,
    /// Extent in its sender's numbers, as far as it is known.
    pub extent: u32,
    /// The bytes from its start up to its end, or up to the first byte that was not captured.
    pub bytes: &'a [u8],
    /// Length on the wire in bytes; `None` if its end was not captured.
    pub length: Option<u32>,
    /// Byte range of the packets that were not captured; the end is `None` if it is unknown.
    pub missing: Option<(u32, Option<u32>)>,
    /// The R_Key that it invalidates.
    pub invalidated: Option<Rkey>,
}

impl Send<'_> {
    /// Position of its last packet, as far as its extent is known.
    #[inline]
    pub const fn last(&self) -> Position {
        self.position.plus(self.extent.saturating_sub(1))
    }
}

/// A range of registered memory, as named by an RDMA operation. On InfiniBand these are the fields
/// of a RETH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRange {
    /// R_Key, or STag on iWARP.
    pub rkey: Rkey,
    /// Address of the first byte, or its tagged offset on iWARP.
    pub address: u64,
    /// Length in bytes.
    pub length: u32,
}

/// Bytes of one packet that are written to registered memory or read from it.
#[derive(Clone, Copy, Debug)]
pub struct Placement<'a> {
    /// The packet.
    pub seen: Seen,
    /// Position of the packet.
    pub position: Position,
    /// Position of the first packet of the RDMA Write or of the response to the RDMA Read.
    ///
    /// On InfiniBand, a response has the position of its request.
    pub first: Position,
    /// Position of the RDMA Read request among the packets of the other end, for a Read response.
    /// On InfiniBand it is `first`.
    pub request: Option<Position>,
    /// Memory range of the whole operation. For an RDMA Read it is in the responder's memory.
    pub memory: MemoryRange,
    /// Address of this packet's bytes in that memory.
    pub address: u64,
    /// Captured bytes.
    pub bytes: &'a [u8],
    /// Length on the wire in bytes.
    pub length: u32,
    /// Whether this Read response was seen before.
    pub repeated: bool,
}

impl<'a> Placement<'a> {
    /// Splits it into its first `length` bytes and the rest.
    ///
    /// `length` is at most the length on the wire. The capture may have fewer bytes.
    #[inline]
    pub fn split_at(self, length: u32) -> (Placement<'a>, Placement<'a>) {
        let (front, back) = self.bytes.split_at(self.bytes.len().min(length as usize));
        let address = self.address.wrapping_add(u64::from(length));
        let rest = Placement { bytes: back, length: self.length - length, address, ..self };
        (Placement { bytes: front, length, ..self }, rest)
    }
}

/// An RDMA Read request.
#[derive(Clone, Copy, Debug)]
pub struct ReadRequest {
    /// The packet.
    pub seen: Seen,
    /// Position of the packet. On InfiniBand its first response has the same position.
    pub position: Position,
    /// Extent in its sender's numbers; on InfiniBand that of its responses. `None` while it is
    /// unknown.
    pub extent: Option<u32>,
    /// The memory that it reads.
    pub memory: MemoryRange,
    /// Whether this request was seen before.
    pub repeated: bool,
    /// Whether it certainly asks for nothing that an earlier request asked for.
    pub is_new: bool,
}

/// A packet that was seen before: it was retransmitted, or captured twice.
#[derive(Clone, Copy, Debug)]
pub struct Repetition {
    /// The packet.
    pub seen: Seen,
    /// The first sighting; `None` if it is too old or observations are disabled.
    pub first: Option<Seen>,
    /// Its operation, and its part of the message.
    pub piece: Piece,
    /// Its position.
    pub position: Position,
    /// Length of its payload on the wire in bytes; 0 for an RDMA Read request.
    pub bytes: u32,
    /// Number of bytes that an RDMA Read request asks for.
    pub read_length: u32,
}
