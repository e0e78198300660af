//! What a packet is, and why it is not taken, in words that each transport has.

use core::fmt;
use core::time::Duration;

/// The operations of RDMA.
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
    /// What says only that something was received, or refused.
    Acknowledgement,
    /// One that RPC-over-RDMA does not use, such as an atomic operation.
    Other,
}

impl Operation {
    /// Whether its packets carry data of the upper layer.
    pub const fn carries_payload(self) -> bool {
        matches!(self, Operation::Send | Operation::Write | Operation::ReadResponse)
    }
}

/// Where a packet stands in its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// It begins a message of several packets.
    First,
    /// It neither begins nor ends one.
    Middle,
    /// It ends one.
    Last,
    /// It is a message by itself.
    Only,
}

/// Which part of which operation a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The operation.
    pub operation: Operation,
    /// The part of the message.
    pub part: Part,
    /// What the specification of the transport calls such a packet: to be shown.
    pub name: &'static str,
}

/// Why a receiver did not take a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It had no Receive ready; the time is what it asks the sender to wait.
    ReceiverNotReady(Duration),
    /// It lacks what comes before, and waits for that to be sent again.
    OutOfSequence,
    /// The request failed, which ends the connection.
    Failed(Failure),
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// The receiver does not take such a request.
    InvalidRequest,
    /// The memory that it names may not be touched so.
    RemoteAccess,
    /// The receiver could not do what it was to do: its own fault.
    RemoteOperation,
    /// A Terminate of iWARP (RFC 5040, section 4.8).
    Terminated {
        /// Its reason; `None` where its specification has none for its numbers.
        reason: Option<&'static str>,
        /// The reason where layer and type are exchanged, as the soft-iWARP of Linux writes them: where that is another one.
        exchanged: Option<&'static str>,
    },
    /// Another reason, as the transport names it.
    Other {
        /// Its name, or what its code is.
        name: &'static str,
        /// The code, where it has no name.
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
                const AS: &str = "where layer and type are exchanged, as soft-iWARP of Linux does";
                return match (reason, exchanged) {
                    (Some(reason), None) => f.write_str(reason),
                    (Some(reason), Some(exchanged)) => write!(f, "{reason}; or {exchanged}, {AS}"),
                    (None, Some(exchanged)) => write!(f, "{exchanged}, {AS}"),
                    (None, None) => f.write_str("a reason that has no name"),
                };
            }
            Failure::Other { name, code: None } => name,
            Failure::Other { name, code: Some(code) } => return write!(f, "{name} {code}"),
        })
    }
}
