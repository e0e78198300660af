//! iWARP: reassembles Sends from TCP segments and places RDMA data in memory.
//!
//! The stream of each end passes three stages. `stream` puts its TCP segments in order (RFC 9293).
//! `framing` finds the FPDUs in it (RFC 5044); `search` finds one whose start is unknown.
//! `messages` turns their DDP segments into the deliveries of [`crate::rdma`] (RFC 5041, RFC 5040).
//! A Read Response names the memory of the end that asked, so `connection` looks up the request.
//! Positions are TCP sequence numbers.

mod connection;
mod contents;
mod framed;
mod framing;
mod messages;
mod search;
mod start;
mod stream;

pub(crate) use connection::IwarpConnection;
pub use contents::{Contents, Fpdu, Part};
pub use framed::{Framed, FramedFpdu, FramedKind};
pub(crate) use framing::CrcUse;
pub use framing::CrcVerdict;
pub(crate) use search::begins_with_fpdu;
pub(crate) use start::Started;

use crate::frame::Segment;
use crate::rdma::{self, Failure, Operation, Piece};
use crate::record::Seen;
use rdmascope_wire::rdmap::{Opcode, Terminate};

/// Consecutive bytes of an end's stream.
#[derive(Clone, Copy, Debug)]
struct Run<'a> {
    seen: Seen,
    /// Sequence number of the first byte.
    sequence: u32,
    /// Captured bytes.
    bytes: &'a [u8],
    /// Length on the wire in bytes.
    length: u32,
}

impl<'a> Run<'a> {
    /// Returns the payload of a segment.
    fn of(seen: Seen, segment: &Segment<'a>) -> Run<'a> {
        let Segment { payload: bytes, payload_length: length, .. } = *segment;
        // A SYN has a sequence number of its own (RFC 9293, section 3.4).
        Run { seen, sequence: segment.sequence.wrapping_add(segment.syn.into()), bytes, length }
    }

    /// Drops the first `count` bytes.
    fn skip(self, count: u32) -> Run<'a> {
        Run {
            sequence: self.sequence.wrapping_add(count),
            bytes: self.bytes.get(count as usize..).unwrap_or_default(),
            length: self.length.saturating_sub(count),
            ..self
        }
    }

    /// Keeps only the first `count` bytes.
    fn limit(self, count: u32) -> Run<'a> {
        let bytes = self.bytes.get(..count as usize).unwrap_or(self.bytes);
        Run { bytes, length: self.length.min(count), ..self }
    }
}

/// Describes a message, or a part of one, for observations.
fn piece(opcode: Opcode, part: rdma::Part) -> Piece {
    let operation = match opcode {
        opcode if opcode.is_send() => Operation::Send,
        Opcode::Write => Operation::Write,
        Opcode::ReadRequest => Operation::ReadRequest,
        Opcode::ReadResponse => Operation::ReadResponse,
        _ => Operation::Other,
    };
    Piece { operation, part, name: opcode.name() }
}

/// The failure that a Terminate reports.
pub fn failure(terminate: Terminate) -> Failure {
    let reason = terminate.reason();
    let exchanged = terminate.exchanged().reason().filter(|exchanged| reason != Some(*exchanged));
    Failure::Terminated { reason, exchanged }
}

/// A TCP segment without further detail.
const SEGMENT: Piece = Piece { operation: Operation::Other, part: rdma::Part::Only, name: "TCP segment" };
/// An FPDU without a ULPDU.
const INDICATION: Piece =
    Piece { operation: Operation::Other, part: rdma::Part::Only, name: "FPDU without a ULPDU" };
/// An MPA start frame.
const START: Piece = Piece { operation: Operation::Other, part: rdma::Part::Only, name: "MPA start frame" };
