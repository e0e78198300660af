//! Reliable connections: from packets to whole Sends and to placements in memory (IBTA volume 1, section 9.7).
//!
//! A half-flow is what one end sends. Its requests (SEND, RDMA WRITE, RDMA READ request) carry PSNs of its own; the
//! responses to them (RDMA READ response, acknowledgement) come the other way and carry PSNs of the same numbering. So
//! each end has one `Requests` that puts its requests in order, and one `Reads` that says where responses to its
//! RDMA READs belong.

mod connection;
mod fault;
pub use fault::LONGEST_MESSAGE;
mod messages;
mod reads;
mod recent_requests;
mod requests;

pub(crate) use connection::ReliableConnection;
use reads::Reads;
use recent_requests::RecentRequests;
use requests::Requests;

use crate::rdma::{self, MemoryRange, Part, Piece};
use crate::record::Seen;
use crate::waiting::Held;
use alloc::vec::Vec;
use rdmascope_wire::bth::{Aeth, ExtensionHeader, Opcode, Operation, PacketPosition, Reth};
use rdmascope_wire::psn::Psn;
use rdmascope_wire::{Rkey, bth};

/// A packet of a reliable connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet<'a> {
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

/// A packet that waits for others, with its own copy of the payload.
#[derive(Clone, Debug)]
struct HeldPacket {
    seen: Seen,
    operation: Operation,
    psn: Psn,
    extension: Extension,
    payload: Vec<u8>,
    payload_length: u32,
}

impl HeldPacket {
    /// Keeps a packet.
    fn new(packet: &Packet<'_>) -> HeldPacket {
        HeldPacket {
            seen: packet.seen,
            operation: packet.operation,
            psn: packet.psn,
            extension: packet.extension,
            payload: packet.payload.to_vec(),
            payload_length: packet.payload_length,
        }
    }

    /// The packet as it came.
    #[inline]
    fn packet(&self) -> Packet<'_> {
        Packet {
            seen: self.seen,
            operation: self.operation,
            psn: self.psn,
            extension: self.extension,
            payload: &self.payload,
            payload_length: self.payload_length,
        }
    }
}

impl Held for HeldPacket {
    fn seen(&self) -> Option<Seen> {
        Some(self.seen)
    }

    fn bytes(&self) -> usize {
        self.payload.len()
    }
}

/// The extension header of a packet, as far as it matters to a reliable connection: none has more than one of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Extension {
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
    /// Reads the header that `opcode` calls for from the bytes behind the BTH.
    #[inline]
    pub(crate) fn parse(opcode: Opcode, bytes: &[u8]) -> Extension {
        let header = if ExtensionHeader::Reth.is_of(opcode) {
            bytes.first_chunk().map(|bytes| Extension::Reth(Reth::from_bytes(bytes)))
        } else if ExtensionHeader::Aeth.is_of(opcode) {
            bytes.first_chunk().map(|bytes| Extension::Aeth(Aeth::from_bytes(bytes)))
        } else if ExtensionHeader::Ieth.is_of(opcode) {
            bytes.first_chunk().map(|bytes| Extension::Ieth(Rkey(u32::from_be_bytes(*bytes))))
        } else {
            None
        };
        header.unwrap_or_default()
    }

    /// The RETH, where it is one.
    #[inline]
    pub(crate) fn reth(&self) -> Option<Reth> {
        if let Extension::Reth(reth) = self { Some(*reth) } else { None }
    }

    /// The AETH, where it is one.
    #[inline]
    pub(crate) fn aeth(&self) -> Option<Aeth> {
        if let Extension::Aeth(aeth) = self { Some(*aeth) } else { None }
    }

    /// The R_Key of an IETH, where it is one.
    #[inline]
    pub(crate) fn ieth(&self) -> Option<Rkey> {
        if let Extension::Ieth(rkey) = self { Some(*rkey) } else { None }
    }
}

/// The memory that a RETH names.
#[inline]
fn memory(reth: Reth) -> MemoryRange {
    MemoryRange { rkey: reth.rkey, address: reth.virtual_address, length: reth.dma_length }
}

/// What a response packet says besides the data that it brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Response {
    /// Everything up to its PSN is received.
    Acknowledged,
    /// The receiver had no Receive posted.
    ReceiverNotReady,
    /// The request at its PSN failed.
    Failed(bth::NakCode),
}

impl Packet<'_> {
    /// Which part of which operation it is.
    pub(crate) fn piece(&self) -> Piece {
        use Operation::*;
        let operation = match self.operation {
            operation if operation.is_send() => rdma::Operation::Send,
            operation if operation.is_write() => rdma::Operation::Write,
            operation if operation.is_read_response() => rdma::Operation::ReadResponse,
            ReadRequest => rdma::Operation::ReadRequest,
            Acknowledge => rdma::Operation::Acknowledgement,
            _ => rdma::Operation::Other,
        };
        let part = match self.operation.position() {
            PacketPosition::First => Part::First,
            PacketPosition::Middle => Part::Middle,
            PacketPosition::Last => Part::Last,
            PacketPosition::Only => Part::Only,
        };
        Piece { operation, part, name: self.operation.name() }
    }

    /// What its AETH says; an RDMA READ response without one acknowledges all the same (section 9.7.5.1.1).
    #[inline]
    pub(crate) fn response(&self) -> Response {
        response(self.extension.aeth())
    }
}

/// What the AETH of a response says.
#[inline]
pub(crate) fn response(aeth: Option<Aeth>) -> Response {
    match aeth.map(|aeth| aeth.syndrome.kind()) {
        Some(bth::Acknowledgement::RnrNak { .. }) => Response::ReceiverNotReady,
        Some(bth::Acknowledgement::Nak(code)) => Response::Failed(code),
        _ => Response::Acknowledged,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Time;

    fn packet(operation: Operation) -> Packet<'static> {
        let seen = Seen { frame: 1, time: Time(0) };
        let (psn, extension) = (Psn::new(0), Extension::None);
        Packet { seen, operation, psn, extension, payload: &[], payload_length: 0 }
    }

    /// IBTA volume 1, table 38: each opcode of a reliable connection, and what it is called where packets are named.
    #[test]
    fn which_part_of_which_operation_a_packet_is() {
        use Part::*;
        use rdma::Operation as Of;
        for (operation, of, part, name) in [
            (Operation::SendFirst, Of::Send, First, "SEND First"),
            (Operation::SendMiddle, Of::Send, Middle, "SEND Middle"),
            (Operation::SendLastWithInvalidate, Of::Send, Last, "SEND Last with Invalidate"),
            (Operation::SendOnly, Of::Send, Only, "SEND Only"),
            (Operation::WriteFirst, Of::Write, First, "RDMA WRITE First"),
            (Operation::WriteLastWithImmediate, Of::Write, Last, "RDMA WRITE Last with Immediate"),
            (Operation::ReadRequest, Of::ReadRequest, Only, "RDMA READ Request"),
            (Operation::ReadResponseMiddle, Of::ReadResponse, Middle, "RDMA READ Response Middle"),
            (Operation::ReadResponseOnly, Of::ReadResponse, Only, "RDMA READ Response Only"),
            (Operation::Acknowledge, Of::Acknowledgement, Only, "Acknowledge"),
            (Operation::AtomicAcknowledge, Of::Other, Only, "ATOMIC Acknowledge"),
            (Operation::FetchAdd, Of::Other, Only, "FetchAdd"),
        ] {
            assert_eq!(packet(operation).piece(), Piece { operation: of, part, name });
        }
    }
}
