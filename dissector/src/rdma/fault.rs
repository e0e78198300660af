//! Violations of a transport's rules.

use super::Position;
use crate::record::{REORDERING, Seen};

/// A violation of the transport's rules by a packet, or by the message that the packet ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The payload is longer or shorter than the opcode allows at this path MTU.
    Length {
        /// Length of the payload in bytes.
        length: u32,
        /// Path MTU in bytes; `None` if unknown.
        path_mtu: Option<u32>,
    },
    /// The pad count does not round the payload up to a multiple of four bytes.
    Padding {
        /// Pad count of the packet.
        pad_count: u8,
        /// Pad count that the payload length requires.
        expected: u8,
    },
    /// TVer is not 0.
    Version(u8),
    /// The partition key is not that of the connection.
    PartitionKey {
        /// Partition key of the packet.
        found: u16,
        /// Partition key of the REQ.
        agreed: u16,
    },
    /// The syndrome of the AETH is reserved or not valid in this kind of packet.
    Syndrome(u8),
    /// The packet starts a message before the previous one ended, or continues one that never
    /// started.
    Order,
    /// The payload of an RDMA WRITE is not as long as its RETH announced.
    Written {
        /// Bytes received.
        bytes: u64,
        /// Length in the RETH.
        announced: u32,
    },
    /// The length in the RETH exceeds the longest message allowed.
    DmaLength(u32),
    /// The length in the RETH is zero.
    Nothing,
    /// The operation is not one that RPC-over-RDMA uses: it has Immediate data, or it is atomic.
    Foreign,
    /// The opcode is reserved for reliable connections.
    Opcode(u8),
    /// A READ response does not fit its index among the responses to its request.
    Response {
        /// Bytes of the request still outstanding, including those of this response.
        left: u32,
        /// Index among the responses, from 0.
        index: u32,
        /// Length of its payload in bytes.
        length: u32,
    },
    /// A READ response to a PSN at which the capture has no gap and no RDMA READ.
    Unasked,
    /// The PSN is too far from the requests of the other end to belong to one.
    Unsent,
    /// The first request's PSN is not in the range that begins at the announced Starting PSN.
    Start {
        /// Announced position.
        announced: Position,
    },
    /// More RDMA READs were outstanding than the responder has resources for.
    ///
    /// The packet is the response to the first of them.
    Reads {
        /// Number of outstanding READs.
        outstanding: u32,
        /// Number of READs that the responder has resources for.
        allowed: u32,
        /// Frame of the first outstanding READ.
        first: u64,
        /// Frame of the last outstanding READ.
        last: u64,
    },
    /// The CRC of an FPDU is wrong. The receiver ends the connection (RFC 5044, section 8).
    Crc,
    /// The FPDU does not contain a DDP segment that RFC 5041 and RFC 5040 allow.
    Segment,
    /// An untagged message is not the next one of its queue (RFC 5041, section 5.3).
    MessageNumber {
        /// Message sequence number of the message.
        found: u32,
        /// Sequence number that follows the previous message.
        expected: u32,
    },
    /// A DDP segment does not begin where the previous segment of its message ended (RFC 5041,
    /// section 5.3).
    MessageOffset {
        /// Message offset or tagged offset of the segment.
        found: u64,
        /// Offset at which the previous segment ended.
        expected: u64,
    },
    /// A message follows a Terminate (RFC 5040, section 5.4).
    Terminated,
    /// Markers are present although the receiver did not ask for them, or absent although it did
    /// (RFC 5044, section 4.3).
    Markers {
        /// Whether markers are present.
        found: bool,
    },
    /// The start frame violates RFC 5044, section 7.1.1.
    StartFrame(StartFault),
    /// The sender of a Reply will have more RDMA Reads outstanding than the other end serves at
    /// once (RFC 6581, section 9.1).
    Depth {
        /// ORD of the Reply.
        outbound: u16,
        /// IRD of the Request.
        inbound: u16,
    },
    /// The MPA responder sent its first FPDU before it received one from the initiator (RFC 5044,
    /// section 7.1.2).
    Early,
}

impl Fault {
    /// Detects more than `allowed` outstanding RDMA READs. Only those count whose request was seen
    /// longer ago than a capture reorders packets.
    pub(crate) fn of_reads(requests: impl Iterator<Item = Seen>, allowed: u32, now: Seen) -> Option<Fault> {
        let mut waiting = requests.filter(|request| now.time.since(request.time) > REORDERING.0);
        let first = waiting.next()?.frame;
        let (outstanding, last) = waiting.fold((1, first), |(count, _), request| (count + 1, request.frame));
        (outstanding > allowed).then_some(Fault::Reads { outstanding, allowed, first, last })
    }
}

/// A violation in a start frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartFault {
    /// R is set in a Request.
    Rejected,
    /// Reserved bits are set: the four reserved bits, or S in revision 1.
    Reserved(u8),
    /// The private data is longer than 512 bytes; the value is its length.
    PrivateData(u16),
}
