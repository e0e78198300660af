//! What in a packet, or in a run of them, breaks the rules of a transport.

use super::Position;

/// What is wrong with a packet, or with the message that it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Its payload is longer or shorter than its opcode allows at this path MTU; `None`: the path MTU is not known.
    Length {
        /// Bytes of payload.
        length: u32,
        /// The path MTU in bytes.
        path_mtu: Option<u32>,
    },
    /// The pad count is not what fills the payload up to a multiple of four.
    Padding {
        /// The pad count.
        pad_count: u8,
        /// What it should be.
        expected: u8,
    },
    /// TVer is not 0.
    Version(u8),
    /// The partition key is not that of the connection.
    PartitionKey {
        /// Of the packet.
        found: u16,
        /// Of the REQ.
        agreed: u16,
    },
    /// The syndrome of an AETH has a meaning that is reserved, or not for this packet.
    Syndrome(u8),
    /// The packet begins a message while another has not ended, or goes on with one that has not begun.
    Order,
    /// The payload of an RDMA WRITE is not as long as its RETH says.
    Written {
        /// Bytes that came.
        bytes: u64,
        /// Bytes that the RETH names.
        announced: u32,
    },
    /// The RETH names more bytes than a message may have.
    DmaLength(u32),
    /// The RETH names no bytes.
    Nothing,
    /// An operation that RPC-over-RDMA has no use for: one with Immediate data, or an atomic one.
    Foreign,
    /// A READ response is not what its place among the responses to the request calls for.
    Response {
        /// Bytes of the request that come with this response and those behind it.
        left: u32,
        /// Its place among the responses, from 0.
        index: u32,
        /// Bytes of its payload.
        length: u32,
    },
    /// It answers an RDMA READ where the capture shows that there was none.
    Unasked,
    /// Its PSN is far from any that the other end can have sent.
    Unsent,
    /// A request with a PSN other than those from the announced Starting PSN on.
    Start {
        /// The position announced.
        announced: Position,
    },
    /// It answers the first of more RDMA READs than its sender has resources for.
    Reads {
        /// How many are outstanding.
        outstanding: u32,
        /// How many may be.
        allowed: u32,
        /// The frame of the first of them.
        first: u64,
        /// The frame of the last of them.
        last: u64,
    },
    /// The CRC of an FPDU is wrong: its receiver ends the connection (RFC 5044, section 8).
    Crc,
    /// An FPDU carries no DDP segment that RFC 5041 and RFC 5040 allow.
    Segment,
    /// An untagged message is not the next one of its queue (RFC 5041, section 5.3).
    MessageNumber {
        /// Its number.
        found: u32,
        /// The one behind that of the message before it.
        expected: u32,
    },
    /// Where in its message a DDP segment belongs is not where the one before it ended (RFC 5041, section 5.3).
    MessageOffset {
        /// Its message offset or tagged offset.
        found: u64,
        /// The one behind the segment before it.
        expected: u64,
    },
    /// A message behind a Terminate (RFC 5040, section 5.4).
    Terminated,
    /// The receiver asked for markers and there are none, or it asked for none and there are some (RFC 5044, section 4.3).
    Markers {
        /// Whether there are markers.
        found: bool,
    },
    /// A start frame that RFC 5044, section 7.1.1, does not allow.
    StartFrame(StartFault),
    /// A Reply whose sender will have more RDMA Reads outstanding than the other end serves at once (RFC 6581, section 9.1).
    Depth {
        /// Its ORD.
        outbound: u16,
        /// The IRD of the Request.
        inbound: u16,
    },
    /// The first FPDU of the end that answered, sent before it had one of the other end (RFC 5044, section 7.1.2).
    Early,
}

/// What is wrong with a start frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartFault {
    /// R is set in a Request.
    Rejected,
    /// Reserved bits are set: the four of them, or, in revision 1, S.
    Reserved(u8),
    /// Its private data is longer than 512 bytes.
    PrivateData(u16),
}
