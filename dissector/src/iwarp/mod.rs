//! iWARP: RDMA over TCP, from segments to whole Sends and to placements in memory.
//!
//! The stream of each end goes through three stages: `stream` puts its TCP segments in order (RFC 9293), `framing` finds the FPDUs in it
//! (RFC 5044; `search` where nothing tells of them), and `messages` makes of their DDP segments what the words of [`crate::rdma`] say (RFC 5041, RFC 5040). A read
//! response names the memory of the end that asked, so `connection` looks up what was asked. Positions are sequence numbers of TCP.

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

/// Bytes that go on where the stream of an end was.
#[derive(Clone, Copy, Debug)]
struct Run<'a> {
    /// The packet.
    seen: Seen,
    /// The sequence number of the first byte.
    sequence: u32,
    /// The bytes that were captured.
    bytes: &'a [u8],
    /// How many there were on the wire.
    length: u32,
}

impl<'a> Run<'a> {
    /// The payload of a segment.
    fn of(seen: Seen, segment: &Segment<'a>) -> Run<'a> {
        let Segment { payload: bytes, payload_length: length, .. } = *segment;
        // A SYN takes up a sequence number (RFC 9293, section 3.4).
        Run { seen, sequence: segment.sequence.wrapping_add(segment.syn.into()), bytes, length }
    }

    /// What is behind the first `count` bytes.
    fn skip(self, count: u32) -> Run<'a> {
        Run {
            sequence: self.sequence.wrapping_add(count),
            bytes: self.bytes.get(count as usize..).unwrap_or_default(),
            length: self.length.saturating_sub(count),
            ..self
        }
    }

    /// The first `count` bytes.
    fn limit(self, count: u32) -> Run<'a> {
        let bytes = self.bytes.get(..count as usize).unwrap_or(self.bytes);
        Run { bytes, length: self.length.min(count), ..self }
    }
}

/// A message, or a part of one, as it is named to whoever watches.
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

/// What a Terminate says.
pub fn failure(terminate: Terminate) -> Failure {
    let reason = terminate.reason();
    let exchanged = terminate.exchanged().reason().filter(|exchanged| reason != Some(*exchanged));
    Failure::Terminated { reason, exchanged }
}

/// A TCP segment of which nothing more is said.
const SEGMENT: Piece = Piece { operation: Operation::Other, part: rdma::Part::Only, name: "TCP segment" };
/// An MPA start frame.
const START: Piece = Piece { operation: Operation::Other, part: rdma::Part::Only, name: "MPA start frame" };
