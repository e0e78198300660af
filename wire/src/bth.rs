//! The base transport header and its extension headers (IBTA volume 1, sections 9.2 and 9.3).

mod extensions;

pub use extensions::*;

use crate::Qpn;
use crate::psn::Psn;
use crate::table::{header, wrappers};

/// The base transport header. Fields are in host order.
///
/// ```
/// use rdmascope_wire::bth::{Bth, Extensions};
///
/// // RC SEND Only with Invalidate to queue pair 0x16.
/// let packet = [0x17, 0, 0xff, 0xff, 0, 0, 0, 0x16, 0x80, 0, 0, 0x2a, 0xca, 0xfe, 0, 1];
/// let bth = Bth::parse(&packet)?;
/// let (extensions, length) = Extensions::parse(bth.opcode, &packet[Bth::LENGTH..])?;
/// assert_eq!(bth.opcode.to_string(), "RC SEND Only with Invalidate");
/// assert_eq!((bth.destination_qp.0, bth.psn.value()), (0x16, 42));
/// assert_eq!(extensions.ieth.map(|rkey| rkey.0), Some(0xcafe_0001));
/// assert_eq!(Bth::LENGTH + length, packet.len());
/// # Ok::<(), rdmascope_wire::Stop>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bth {
    /// The packet type, which determines the extension headers.
    pub opcode: Opcode,
    /// SE: the responder has to raise an event.
    pub solicited_event: bool,
    /// M: migration state.
    pub migration_request: bool,
    /// Number of bytes, 0 to 3, that pad the payload to a multiple of four.
    pub pad_count: u8,
    /// TVer: version of the transport header, 0.
    pub transport_version: u8,
    /// The partition key.
    pub partition_key: u16,
    /// FECN: the packet met congestion (bit 7 of the byte before the destination QP).
    pub fecn: bool,
    /// BECN: the destination caused congestion.
    pub becn: bool,
    /// The destination queue pair. The header does not name the source queue pair.
    pub destination_qp: Qpn,
    /// A: the responder has to acknowledge this packet.
    pub acknowledge_request: bool,
    /// The packet sequence number.
    pub psn: Psn,
}

header! {
    Bth in Layer::Bth {
        8 "OpCode" opcode, 1 "SE" solicited_event, 1 "M" migration_request, 2 "Pad" pad_count,
            4 "TVer" transport_version, 16 "Partition Key" partition_key;
        1 "FECN" fecn, 1 "BECN" becn, 6 reserved, 24 "Destination QP" destination_qp;
        1 "A" acknowledge_request, 7 reserved, 24 "PSN" psn;
    }
}
wrappers! { Opcode }

/// An opcode: three bits of transport service, five of operation (IBTA volume 1, table 38).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Opcode(pub u8);

impl Opcode {
    /// Reliable Connection, SEND Only.
    pub const RC_SEND_ONLY: Opcode = Opcode(0x04);
    /// Reliable Connection, RDMA READ Request.
    pub const RC_READ_REQUEST: Opcode = Opcode(0x0c);
    /// Reliable Connection, Acknowledge.
    pub const RC_ACKNOWLEDGE: Opcode = Opcode(0x11);
    /// Unreliable Datagram, SEND Only: the opcode of packets that carry a MAD.
    pub const UD_SEND_ONLY: Opcode = Opcode(0x64);
    /// Congestion notification packet of RoCEv2 (Annex A17.9).
    pub const CNP: Opcode = Opcode(0x81);

    /// Returns the transport service in the upper three bits.
    #[inline]
    pub const fn transport(self) -> Transport {
        match self.0 >> 5 {
            0 => Transport::ReliableConnection,
            1 => Transport::UnreliableConnection,
            2 => Transport::ReliableDatagram,
            3 => Transport::UnreliableDatagram,
            4 => Transport::CongestionNotification,
            5 => Transport::ExtendedReliableConnection,
            _ => Transport::Reserved,
        }
    }

    /// Returns the operation, or `None` if the transport service does not define it.
    #[inline]
    pub const fn operation(self) -> Option<Operation> {
        use Operation::*;
        let operation = match self.0 & 0x1f {
            0x00 => SendFirst,
            0x01 => SendMiddle,
            0x02 => SendLast,
            0x03 => SendLastWithImmediate,
            0x04 => SendOnly,
            0x05 => SendOnlyWithImmediate,
            0x06 => WriteFirst,
            0x07 => WriteMiddle,
            0x08 => WriteLast,
            0x09 => WriteLastWithImmediate,
            0x0a => WriteOnly,
            0x0b => WriteOnlyWithImmediate,
            0x0c => ReadRequest,
            0x0d => ReadResponseFirst,
            0x0e => ReadResponseMiddle,
            0x0f => ReadResponseLast,
            0x10 => ReadResponseOnly,
            0x11 => Acknowledge,
            0x12 => AtomicAcknowledge,
            0x13 => CompareSwap,
            0x14 => FetchAdd,
            0x15 => Resync,
            0x16 => SendLastWithInvalidate,
            0x17 => SendOnlyWithInvalidate,
            _ => return None,
        };
        let is_valid = match self.transport() {
            Transport::ReliableConnection | Transport::ExtendedReliableConnection => {
                !matches!(operation, Resync)
            }
            Transport::UnreliableConnection => self.0 & 0x1f <= 0x0b,
            Transport::ReliableDatagram => self.0 & 0x1f <= 0x15,
            Transport::UnreliableDatagram => matches!(operation, SendOnly | SendOnlyWithImmediate),
            Transport::CongestionNotification | Transport::Reserved => false,
        };
        if is_valid { Some(operation) } else { None }
    }
}

impl core::fmt::Debug for Opcode {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Opcode(0x{:02x} {self})", self.0)
    }
}

impl core::fmt::Display for Opcode {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if *self == Opcode::CNP {
            return f.write_str("CNP");
        }
        match (self.transport().abbreviation(), self.operation()) {
            (Some(transport), Some(operation)) => write!(f, "{transport} {}", operation.name()),
            _ => write!(f, "opcode 0x{:02x}", self.0),
        }
    }
}

/// The transport services in the order of their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Transport {
    ReliableConnection,
    UnreliableConnection,
    ReliableDatagram,
    UnreliableDatagram,
    CongestionNotification,
    ExtendedReliableConnection,
    Reserved,
}

impl Transport {
    /// Returns the specification's abbreviation: RC, UC, RD, UD, XRC.
    pub const fn abbreviation(self) -> Option<&'static str> {
        match self {
            Transport::ReliableConnection => Some("RC"),
            Transport::UnreliableConnection => Some("UC"),
            Transport::ReliableDatagram => Some("RD"),
            Transport::UnreliableDatagram => Some("UD"),
            Transport::ExtendedReliableConnection => Some("XRC"),
            Transport::CongestionNotification | Transport::Reserved => None,
        }
    }
}

/// The operations in the order of their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Operation {
    SendFirst,
    SendMiddle,
    SendLast,
    SendLastWithImmediate,
    SendOnly,
    SendOnlyWithImmediate,
    WriteFirst,
    WriteMiddle,
    WriteLast,
    WriteLastWithImmediate,
    WriteOnly,
    WriteOnlyWithImmediate,
    ReadRequest,
    ReadResponseFirst,
    ReadResponseMiddle,
    ReadResponseLast,
    ReadResponseOnly,
    Acknowledge,
    AtomicAcknowledge,
    CompareSwap,
    FetchAdd,
    Resync,
    SendLastWithInvalidate,
    SendOnlyWithInvalidate,
}

impl Operation {
    /// Returns the name that the specification uses.
    pub const fn name(self) -> &'static str {
        use Operation::*;
        match self {
            SendFirst => "SEND First",
            SendMiddle => "SEND Middle",
            SendLast => "SEND Last",
            SendLastWithImmediate => "SEND Last with Immediate",
            SendOnly => "SEND Only",
            SendOnlyWithImmediate => "SEND Only with Immediate",
            WriteFirst => "RDMA WRITE First",
            WriteMiddle => "RDMA WRITE Middle",
            WriteLast => "RDMA WRITE Last",
            WriteLastWithImmediate => "RDMA WRITE Last with Immediate",
            WriteOnly => "RDMA WRITE Only",
            WriteOnlyWithImmediate => "RDMA WRITE Only with Immediate",
            ReadRequest => "RDMA READ Request",
            ReadResponseFirst => "RDMA READ Response First",
            ReadResponseMiddle => "RDMA READ Response Middle",
            ReadResponseLast => "RDMA READ Response Last",
            ReadResponseOnly => "RDMA READ Response Only",
            Acknowledge => "Acknowledge",
            AtomicAcknowledge => "ATOMIC Acknowledge",
            CompareSwap => "CmpSwap",
            FetchAdd => "FetchAdd",
            Resync => "RESYNC",
            SendLastWithInvalidate => "SEND Last with Invalidate",
            SendOnlyWithInvalidate => "SEND Only with Invalidate",
        }
    }

    /// Returns the position of the packet in its message.
    #[inline]
    pub const fn position(self) -> PacketPosition {
        use Operation::*;
        match self {
            SendFirst | WriteFirst | ReadResponseFirst => PacketPosition::First,
            SendMiddle | WriteMiddle | ReadResponseMiddle => PacketPosition::Middle,
            SendLast
            | SendLastWithImmediate
            | SendLastWithInvalidate
            | WriteLast
            | WriteLastWithImmediate
            | ReadResponseLast => PacketPosition::Last,
            _ => PacketPosition::Only,
        }
    }

    /// Returns true for the first packet of a message.
    #[inline]
    pub const fn begins_message(self) -> bool {
        matches!(self.position(), PacketPosition::First | PacketPosition::Only)
    }

    /// Returns true for the last packet of a message.
    #[inline]
    pub const fn ends_message(self) -> bool {
        matches!(self.position(), PacketPosition::Last | PacketPosition::Only)
    }

    /// Returns true for responses, whose PSNs belong to the requests of the other half-flow.
    #[inline]
    pub const fn is_response(self) -> bool {
        use Operation::*;
        matches!(
            self,
            ReadResponseFirst
                | ReadResponseMiddle
                | ReadResponseLast
                | ReadResponseOnly
                | Acknowledge
                | AtomicAcknowledge
        )
    }

    /// Returns true for a packet of a SEND.
    #[inline]
    pub const fn is_send(self) -> bool {
        use Operation::*;
        matches!(
            self,
            SendFirst
                | SendMiddle
                | SendLast
                | SendLastWithImmediate
                | SendOnly
                | SendOnlyWithImmediate
                | SendLastWithInvalidate
                | SendOnlyWithInvalidate
        )
    }

    /// Returns true for a packet of an RDMA WRITE.
    #[inline]
    pub const fn is_write(self) -> bool {
        use Operation::*;
        matches!(
            self,
            WriteFirst
                | WriteMiddle
                | WriteLast
                | WriteLastWithImmediate
                | WriteOnly
                | WriteOnlyWithImmediate
        )
    }

    /// Returns true for a packet with Immediate data.
    #[inline]
    pub const fn has_immediate(self) -> bool {
        use Operation::*;
        matches!(
            self,
            SendLastWithImmediate | SendOnlyWithImmediate | WriteLastWithImmediate | WriteOnlyWithImmediate
        )
    }

    /// Returns true for an atomic request.
    #[inline]
    pub const fn is_atomic(self) -> bool {
        matches!(self, Operation::CompareSwap | Operation::FetchAdd)
    }

    /// Returns true for a packet of an RDMA READ response.
    #[inline]
    pub const fn is_read_response(self) -> bool {
        use Operation::*;
        matches!(self, ReadResponseFirst | ReadResponseMiddle | ReadResponseLast | ReadResponseOnly)
    }
}

/// The position of a packet in its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum PacketPosition {
    First,
    Middle,
    Last,
    Only,
}

#[cfg(test)]
mod tests;
