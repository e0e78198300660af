//! Packet types and refusals, independent of the transport.

use core::fmt;
use core::time::Duration;

/// An RDMA operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// Send, with or without Invalidate.
    Send,
    /// RDMA Write.
    Write,
    /// RDMA Read request.
    ReadRequest,
    /// RDMA Read response.
    ReadResponse,
    /// A packet that only acknowledges or refuses.
    Acknowledgement,
    /// An operation that RPC-over-RDMA does not use, such as an atomic.
    Other,
}

impl Operation {
    /// Whether its packets carry data of the upper layer.
    pub const fn carries_payload(self) -> bool {
        matches!(self, Operation::Send | Operation::Write | Operation::ReadResponse)
    }
}

/// The part of a message that a packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// First packet of several.
    First,
    /// Neither the first nor the last packet.
    Middle,
    /// Last packet of several.
    Last,
    /// The only packet of its message.
    Only,
}

/// The operation of a packet, and its part of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Operation.
    pub operation: Operation,
    /// Part of the message.
    pub part: Part,
    /// Name of such a packet in the transport's specification, for display.
    pub name: &'static str,
}

/// The reason why a receiver refused a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No Receive was posted, or memory was paged out. The duration is the wait that the receiver
    /// asks for.
    ReceiverNotReady(Duration),
    /// An earlier packet is missing, and the receiver waits for its retransmission.
    OutOfSequence,
    /// The request failed, which ends the connection.
    Failed(Failure),
}

/// The reason why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// The receiver does not support or accept such a request.
    InvalidRequest,
    /// The request is not permitted to access the memory that it names.
    RemoteAccess,
    /// The receiver failed to carry out the request, for a reason of its own.
    RemoteOperation,
    /// An iWARP Terminate (RFC 5040, section 4.8).
    Terminated {
        /// Reason; `None` if the specification assigns none to these codes.
        reason: Option<&'static str>,
        /// Reason if the layer and type fields are swapped, as Linux soft-iWARP sends them. `None`
        /// if that gives no other reason.
        exchanged: Option<&'static str>,
    },
    /// Another reason, as the transport names it.
    Other {
        /// Name of the reason, or of the kind of code.
        name: &'static str,
        /// Code, if it has no name.
        code: Option<u8>,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Failure::InvalidRequest => "invalid request",
            Failure::RemoteAccess => "remote access error",
            Failure::RemoteOperation => "remote operational error",
            Failure::Terminated { reason, exchanged } => {
                const AS: &str = "layer and type swapped, as sent by Linux soft-iWARP";
                return match (reason, exchanged) {
                    (Some(reason), None) => f.write_str(reason),
                    (Some(reason), Some(exchanged)) => write!(f, "{reason}; or {exchanged} ({AS})"),
                    (None, Some(exchanged)) => write!(f, "{exchanged} ({AS})"),
                    (None, None) => f.write_str("unknown reason"),
                };
            }
            Failure::Other { name, code: None } => name,
            Failure::Other { name, code: Some(code) } => return write!(f, "{name} {code}"),
        })
    }
}
