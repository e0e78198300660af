//! The Remote Direct Memory Access Protocol (RFC 5040): message types, and the headers of RDMA Read
//! Request and Terminate, which follow the header of [`ddp`](crate::ddp).

use crate::Rkey;
use crate::table::{enumerations, header, wrappers};

/// The type of an RDMAP message (RFC 5040, section 4.1, figure 4; RFC 7306, section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Opcode {
    Write,
    ReadRequest,
    ReadResponse,
    Send,
    SendWithInvalidate,
    SendWithSolicitedEvent,
    SendWithSolicitedEventAndInvalidate,
    Terminate,
    ImmediateData,
    ImmediateDataWithSolicitedEvent,
    AtomicRequest,
    AtomicResponse,
    /// 12 to 15.
    Reserved(u8),
}

impl Opcode {
    /// Returns the four bits on the wire.
    #[inline]
    pub const fn bits(self) -> u8 {
        match self {
            Opcode::Write => 0,
            Opcode::ReadRequest => 1,
            Opcode::ReadResponse => 2,
            Opcode::Send => 3,
            Opcode::SendWithInvalidate => 4,
            Opcode::SendWithSolicitedEvent => 5,
            Opcode::SendWithSolicitedEventAndInvalidate => 6,
            Opcode::Terminate => 7,
            Opcode::ImmediateData => 8,
            Opcode::ImmediateDataWithSolicitedEvent => 9,
            Opcode::AtomicRequest => 10,
            Opcode::AtomicResponse => 11,
            Opcode::Reserved(bits) => bits & 15,
        }
    }

    /// Decodes the low four bits of `bits`.
    #[inline]
    pub const fn from_bits(bits: u8) -> Opcode {
        match bits & 15 {
            0 => Opcode::Write,
            1 => Opcode::ReadRequest,
            2 => Opcode::ReadResponse,
            3 => Opcode::Send,
            4 => Opcode::SendWithInvalidate,
            5 => Opcode::SendWithSolicitedEvent,
            6 => Opcode::SendWithSolicitedEventAndInvalidate,
            7 => Opcode::Terminate,
            8 => Opcode::ImmediateData,
            9 => Opcode::ImmediateDataWithSolicitedEvent,
            10 => Opcode::AtomicRequest,
            11 => Opcode::AtomicResponse,
            bits => Opcode::Reserved(bits),
        }
    }

    /// Returns the name in the specification.
    pub const fn name(self) -> &'static str {
        match self {
            Opcode::Write => "RDMA Write",
            Opcode::ReadRequest => "RDMA Read Request",
            Opcode::ReadResponse => "RDMA Read Response",
            Opcode::Send => "Send",
            Opcode::SendWithInvalidate => "Send with Invalidate",
            Opcode::SendWithSolicitedEvent => "Send with SE",
            Opcode::SendWithSolicitedEventAndInvalidate => "Send with SE and Invalidate",
            Opcode::Terminate => "Terminate",
            Opcode::ImmediateData => "Immediate Data",
            Opcode::ImmediateDataWithSolicitedEvent => "Immediate Data with SE",
            Opcode::AtomicRequest => "Atomic Request",
            Opcode::AtomicResponse => "Atomic Response",
            Opcode::Reserved(_) => "reserved opcode",
        }
    }

    /// Returns true for a Send of any kind.
    #[inline]
    pub const fn is_send(self) -> bool {
        matches!(
            self,
            Opcode::Send
                | Opcode::SendWithInvalidate
                | Opcode::SendWithSolicitedEvent
                | Opcode::SendWithSolicitedEventAndInvalidate
        )
    }

    /// Returns true if the message invalidates an STag.
    #[inline]
    pub const fn invalidates(self) -> bool {
        matches!(self, Opcode::SendWithInvalidate | Opcode::SendWithSolicitedEventAndInvalidate)
    }

    /// Returns true if its segments are tagged.
    #[inline]
    pub const fn is_tagged(self) -> bool {
        matches!(self, Opcode::Write | Opcode::ReadResponse)
    }

    /// Returns the queue number of its untagged segments (RFC 5040, figure 4; RFC 7306, figures 3
    /// and 13). `None` for tagged messages and reserved opcodes.
    #[inline]
    pub const fn queue(self) -> Option<u32> {
        match self {
            Opcode::Write | Opcode::ReadResponse | Opcode::Reserved(_) => None,
            Opcode::ReadRequest | Opcode::AtomicRequest => Some(1),
            Opcode::Terminate => Some(2),
            Opcode::AtomicResponse => Some(3),
            _ => Some(0),
        }
    }
}

enumerations! { Opcode }

impl Default for Opcode {
    fn default() -> Opcode {
        Opcode::from_bits(0)
    }
}

/// The header of an RDMA Read Request (RFC 5040, section 4.4). The response names only the sink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadRequest {
    /// SinkSTag: memory of the requesting end, where the response is placed.
    pub sink_stag: Rkey,
    /// SinkTO: offset in the sink.
    pub sink_offset: u64,
    /// RDMARDSZ: number of bytes to read.
    pub size: u32,
    /// SrcSTag: memory of the other end, which is read.
    pub source_stag: Rkey,
    /// SrcTO: offset in the source.
    pub source_offset: u64,
}

header! {
    ReadRequest in Layer::Rdmap {
        32 "Data Sink STag" sink_stag;
        64 "Data Sink Tagged Offset" sink_offset;
        32 "RDMA Read Message Size" size;
        32 "Data Source STag" source_stag;
        64 "Data Source Tagged Offset" source_offset;
    }
}

/// The header of a Terminate: the reason why an end closes the connection (RFC 5040, section 4.8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terminate {
    /// Layer: 0 RDMAP, 1 DDP, 2 the lower layer (MPA).
    pub layer: u8,
    /// EType, 4 bits.
    pub error_type: u8,
    /// Error Code.
    pub code: ErrorCode,
    /// M: the length of the terminated segment follows.
    pub has_length: bool,
    /// D: the DDP header of the terminated segment follows.
    pub has_ddp_header: bool,
    /// R: the RDMAP header of the terminated segment follows.
    pub has_rdmap_header: bool,
}

header! {
    Terminate in Layer::Rdmap {
        4 "Layer" layer, 4 "EType" error_type, 8 "Error Code" code,
            1 "M" has_length, 1 "D" has_ddp_header, 1 "R" has_rdmap_header, 13 reserved;
    }
}

/// The error code of a Terminate. Its meaning depends on layer and error type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u8);
wrappers! { ErrorCode }

impl Terminate {
    /// Returns the length of the terminated segment and the bytes of its headers from `after`, the
    /// bytes after this header, as far as they are present.
    pub fn terminated<'a>(&self, after: &'a [u8]) -> (Option<u16>, &'a [u8]) {
        let Some((length, rest)) = after.split_first_chunk() else { return (None, &[]) };
        let length = (self.has_length || self.has_ddp_header).then_some(u16::from_be_bytes(*length));
        (length, if self.has_ddp_header { rest } else { &[] })
    }

    /// Returns the same header with layer and error type exchanged.
    ///
    /// Linux soft-iWARP sends them exchanged on little-endian machines, where the bit field of its
    /// header puts the layer into the low half of the byte.
    #[must_use]
    pub const fn exchanged(&self) -> Terminate {
        Terminate { layer: self.error_type, error_type: self.layer, ..*self }
    }

    /// Describes the reason in the words of its specification. `None` for unassigned numbers.
    pub const fn reason(&self) -> Option<&'static str> {
        Some(match (self.layer, self.error_type, self.code.0) {
            // RFC 5040, section 4.8, figure 9.
            (0, 0, _) => "RDMAP: local catastrophic error",
            (0, 1, 0x00) => "RDMAP: remote protection error, invalid STag",
            (0, 1, 0x01) => "RDMAP: remote protection error, base or bounds violation",
            (0, 1, 0x02) => "RDMAP: remote protection error, access rights violation",
            (0, 1, 0x03) => "RDMAP: remote protection error, STag not associated with RDMAP stream",
            (0, 1, 0x04) => "RDMAP: remote protection error, TO wrap",
            (0, 1, 0x09) => "RDMAP: remote protection error, STag cannot be invalidated",
            (0, 1, 0xff) => "RDMAP: remote protection error, unspecified",
            (0, 2, 0x05) => "RDMAP: remote operation error, invalid RDMAP version",
            (0, 2, 0x06) => "RDMAP: remote operation error, unexpected opcode",
            (0, 2, 0x07) => "RDMAP: remote operation error, catastrophic, localized to the stream",
            (0, 2, 0x08) => "RDMAP: remote operation error, catastrophic, global",
            (0, 2, 0x09) => "RDMAP: remote operation error, STag cannot be invalidated",
            (0, 2, 0xff) => "RDMAP: remote operation error, unspecified",
            // RFC 5041, section 7.2.
            (1, 0, _) => "DDP: local catastrophic error",
            (1, 1, 0x00) => "DDP: tagged buffer error, invalid STag",
            (1, 1, 0x01) => "DDP: tagged buffer error, base or bounds violation",
            (1, 1, 0x02) => "DDP: tagged buffer error, STag not associated with DDP stream",
            (1, 1, 0x03) => "DDP: tagged buffer error, TO wrap",
            (1, 1, 0x04) => "DDP: tagged buffer error, invalid DDP version",
            (1, 2, 0x01) => "DDP: untagged buffer error, invalid QN",
            (1, 2, 0x02) => "DDP: untagged buffer error, invalid MSN, no buffer available",
            (1, 2, 0x03) => "DDP: untagged buffer error, invalid MSN, range not valid",
            (1, 2, 0x04) => "DDP: untagged buffer error, invalid MO",
            (1, 2, 0x05) => "DDP: untagged buffer error, message too long for available buffer",
            (1, 2, 0x06) => "DDP: untagged buffer error, invalid DDP version",
            // RFC 5044, section 8; RFC 6581, section 11.
            (2, 0, 0x01) => "MPA: TCP connection closed, terminated, or lost",
            (2, 0, 0x02) => "MPA: CRC does not match",
            (2, 0, 0x03) => "MPA: marker and length fields do not match",
            (2, 0, 0x04) => "MPA: invalid request or reply frame",
            (2, 0, 0x05) => "MPA: local catastrophic error",
            (2, 0, 0x06) => "MPA: insufficient IRD resources",
            (2, 0, 0x07) => "MPA: no matching RTR option",
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opcodes_are_four_bits() {
        for bits in 0..16 {
            assert_eq!(Opcode::from_bits(bits).bits(), bits);
        }
        assert_eq!(Opcode::from_bits(0x43), Opcode::Send);
    }

    /// RFC 5040, figure 4.
    #[test]
    fn queues_and_tags() {
        let rows = [0, 1, 2, 3, 4, 5, 6, 7].map(|bits| {
            let opcode = Opcode::from_bits(bits);
            (opcode.is_tagged(), opcode.queue(), opcode.invalidates())
        });
        let untagged = |queue, invalidates| (false, Some(queue), invalidates);
        let tagged = (true, None, false);
        let sends = [untagged(0, false), untagged(0, true), untagged(0, false), untagged(0, true)];
        assert_eq!(rows[..3], [tagged, untagged(1, false), tagged]);
        assert_eq!(rows[3..7], sends);
        assert_eq!(rows[7], untagged(2, false));
    }

    #[test]
    fn hand_written_read_request_is_parsed() {
        let bytes = [
            0xca, 0xfe, 0, 1, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0x20, 0, 0xbe, 0xef, 0, 2, 0, 0, 0, 1, 0, 0,
            0, 4,
        ];
        let request = ReadRequest::parse(&bytes).unwrap();
        let expected = ReadRequest {
            sink_stag: Rkey(0xcafe_0001),
            sink_offset: 0x1000,
            size: 0x2000,
            source_stag: Rkey(0xbeef_0002),
            source_offset: 0x1_0000_0004,
        };
        assert_eq!((request, request.to_bytes()), (expected, bytes));
    }

    #[test]
    fn hand_written_terminate_is_parsed() {
        // DDP, tagged buffer error, invalid STag, with length and DDP header.
        let bytes = [0x11, 0x00, 0xc0, 0x00, 0x00, 0x2e, 0xc1, 0x40];
        let terminate = Terminate::parse(&bytes).unwrap();
        assert_eq!(terminate.reason(), Some("DDP: tagged buffer error, invalid STag"));
        assert_eq!(terminate.terminated(&bytes[4..]), (Some(0x2e), &bytes[6..]));
        assert_eq!(terminate.to_bytes(), bytes[..4]);
        // Length only.
        let length = Terminate { has_ddp_header: false, ..terminate };
        assert_eq!(length.terminated(&bytes[4..]), (Some(0x2e), &[][..]));
        let crc = Terminate::parse(&[0x20, 0x02, 0, 0]).unwrap();
        assert_eq!(crc.reason(), Some("MPA: CRC does not match"));
        assert_eq!(crc.terminated(&[0, 0, 1]), (None, &[][..]));
        assert_eq!(Terminate { layer: 7, ..crc }.reason(), None);
    }
}
