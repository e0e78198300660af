//! Reliable connections: reassembles Sends and places RDMA data in memory (IBTA volume 1, section
//! 9.7).
//!
//! A half-flow has the packets that one end sends. Its requests (SEND, RDMA WRITE, RDMA READ
//! request) have PSNs of their own. The responses to them (RDMA READ response, acknowledgement)
//! come from the other end and have PSNs of the same numbering. So each end has a `Requests`, which
//! puts its requests in order, and a `Reads`, which finds the memory of responses to its RDMA
//! READs.

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
    /// Frame number and time in the capture.
    pub seen: Seen,
    /// The operation in its opcode.
    pub operation: Operation,
    /// Its PSN.
    pub psn: Psn,
    /// Its extension header.
    pub extension: Extension,
    /// The captured bytes of its payload.
    pub payload: &'a [u8],
    /// Payload length on the wire in bytes.
    pub payload_length: u32,
}

/// A packet that is held until others arrive, with its own copy of the payload.
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
    /// Copies a packet.
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

    /// Borrows it as a packet.
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

/// The extension header of a packet, if reliable connections need it. No packet has more than one
/// of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Extension {
    /// No header, or one that is not needed.
    #[default]
    None,
    /// In RDMA WRITE and READ requests.
    Reth(Reth),
    /// In acknowledgements, and in the first, last or only READ response.
    Aeth(Aeth),
    /// The R_Key that a SEND with Invalidate invalidates.
    Ieth(Rkey),
}

impl Extension {
    /// Parses the header that `opcode` requires from the bytes after the BTH.
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

    /// The RETH, if it is one.
    #[inline]
    pub(crate) fn reth(&self) -> Option<Reth> {
        if let Extension::Reth(reth) = self { Some(*reth) } else { None }
    }

    /// The AETH, if it is one.
    #[inline]
    pub(crate) fn aeth(&self) -> Option<Aeth> {
        if let Extension::Aeth(aeth) = self { Some(*aeth) } else { None }
    }

    /// The R_Key of the IETH, if it is one.
    #[inline]
    pub(crate) fn ieth(&self) -> Option<Rkey> {
        if let Extension::Ieth(rkey) = self { Some(*rkey) } else { None }
    }
}

/// The memory range in a RETH.
#[inline]
fn memory(reth: Reth) -> MemoryRange {
    MemoryRange { rkey: reth.rkey, address: reth.virtual_address, length: reth.dma_length }
}

/// The acknowledgement in a response packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Response {
    /// Everything up to its PSN was received.
    Acknowledged,
    /// The receiver had no Receive posted, or its memory was paged out.
    ReceiverNotReady,
    /// The request at its PSN failed.
    Failed(bth::NakCode),
}

impl Packet<'_> {
    /// The operation of this packet, and its part of the message.
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

    /// The acknowledgement in its AETH. An RDMA READ response without an AETH is an ACK too
    /// (section 9.7.5.1.1).
    #[inline]
    pub(crate) fn response(&self) -> Response {
        response(self.extension.aeth())
    }
}

/// The acknowledgement in the AETH of a response.
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

    /// IBTA volume 1, table 38: opcodes of reliable connections and their displayed names.
    #[test]
    fn opcode_gives_operation_and_part() {
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
