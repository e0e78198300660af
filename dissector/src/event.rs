//! The events that the engine reports, in order.

use crate::connection::{Connection, ConnectionId, FlowKey};
use crate::frame::{Address, Frame, Other, Segment};
use crate::iwarp::{Contents, Framed, Part as SegmentPart};
use crate::observation::Observation;
use crate::record::{Record, Seen};
use crate::role::Attributed;
use crate::transaction::{Direction, Part, Transaction};
use rdmascope_wire::bth::{Bth, Extensions};
use rdmascope_wire::{Stop, Xid, cm, rdmap, rpcrdma};

/// One event of the engine. Borrowed data is valid only during the call that reports it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A record. Reported only if [`crate::engine::Config::report_packets`] is set.
    Packet(&'a Packet<'a>),
    /// The clock stepped back by this record. Times before it and from it on cannot be compared.
    ClockStep(Seen),
    /// The clocks of files that were captured at the same time differ, as this record shows. The order
    /// of packets in different files is unknown.
    ClocksDiffer(Seen),
    /// A transaction that ended, or was open at the end of the capture.
    Transaction(&'a Transaction),
    /// A connection that ended, was evicted, or was open at the end of the capture.
    Connection(&'a Connection),
    /// An entry that was evicted from a full table.
    Eviction(Eviction),
    /// An observation. Reported only if [`crate::engine::Config::observe`] requests it.
    Observation(&'a Observation<'a>),
    /// The role of a packet in a transaction. Reported only if [`crate::engine::Config::attribute`]
    /// is set, in capture order within a connection. Packets without a role are omitted.
    Attributed(&'a Attributed<'a>),
    /// A piece of the stream of an iWARP end. Reported only if
    /// [`crate::engine::Config::report_framed`] is set, in stream order for each end.
    Framed(&'a InStream<'a>),
}

/// A callback that receives the events of an [`Engine`](crate::engine::Engine). All callers use
/// this one type, so the engine is compiled once.
pub type Report<'a> = dyn FnMut(Event<'_>) + 'a;

/// A piece of the stream that an end of an iWARP connection sends.
#[derive(Clone, Copy, Debug)]
pub struct InStream<'a> {
    /// The connection.
    pub connection: ConnectionId,
    /// The sender.
    pub source: Address,
    /// The receiver.
    pub destination: Address,
    /// The TCP ports of the sender and the receiver.
    pub ports: [u16; 2],
    /// Whether the connection is known to carry RPC-over-RDMA.
    pub speaks_rpc: bool,
    /// The piece.
    pub framed: &'a Framed,
}

/// A record, as far as it was parsed.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The record.
    pub record: Record<'a>,
    /// The transport packet in the record, or the reason why it has none.
    pub frame: Result<Frame<'a>, Other<'a>>,
    /// Its transport headers, or the reason why they could not be parsed.
    pub headers: Option<Result<Headers<'a>, Stop>>,
    /// Whether it belongs to a connection.
    pub of_connection: bool,
    /// The number of its connection, if assigned: see [`ConnectionId`].
    pub connection: Option<ConnectionId>,
    /// The earlier record of the same packet, if this one is a copy. A copy does not count for its
    /// connection.
    pub copy_of: Option<Seen>,
    /// Whether its connection is known to carry RPC-over-RDMA.
    pub speaks_rpc: bool,
    /// The contents of the payload, for a TCP segment of an iWARP connection.
    pub contents: Option<&'a Contents>,
}

impl<'a> Packet<'a> {
    /// The headers, if they were parsed.
    pub fn readable_headers(&self) -> Option<&Headers<'a>> {
        self.headers.as_ref()?.as_ref().ok()
    }

    /// The TCP segment in the record, if it has one.
    pub fn segment(&self) -> Option<&Segment<'a>> {
        if let Err(Other::Tcp(segment)) = &self.frame { Some(segment) } else { None }
    }

    /// The parts of the payload, for a TCP segment of an iWARP connection.
    pub fn parts(&self) -> &[SegmentPart] {
        let of = self.contents.zip(self.segment());
        of.map_or(&[], |(contents, segment)| contents.parts(segment))
    }

    /// The RDMAP opcode of each FPDU in the TCP segment, in order.
    pub fn opcodes(&self) -> impl Iterator<Item = rdmap::Opcode> {
        self.parts().iter().filter_map(|part| match part {
            SegmentPart::Fpdu(fpdu) => Some(fpdu.header.control().opcode),
            _ => None,
        })
    }

    /// The place where parsing stopped.
    pub fn stop(&self) -> Option<Stop> {
        match (&self.frame, &self.headers) {
            (Err(Other::Stop(stop)), _) | (_, Some(Err(stop))) => Some(*stop),
            _ => None,
        }
    }

    /// The key of its half-flow.
    pub fn flow(&self) -> Option<FlowKey> {
        let (Ok(frame), Some(Ok(headers))) = (&self.frame, &self.headers) else { return None };
        let destination_qp = headers.bth.destination_qp;
        Some(FlowKey { source: frame.source, destination: frame.destination, destination_qp })
    }
}

/// The transport headers of a packet, and its payload.
#[derive(Clone, Copy, Debug)]
pub struct Headers<'a> {
    /// The base transport header.
    pub bth: Bth,
    /// Its extension headers.
    pub extensions: Extensions,
    /// The captured bytes after the headers, without padding.
    pub payload: &'a [u8],
    /// Bytes after the headers on the wire, without padding.
    pub payload_length: u32,
    /// The kind of payload.
    pub content: Content<'a>,
}

/// The payload of a packet, as far as the packet alone shows it.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// A CM message.
    Cm(cm::Message<'a>),
    /// The start of an RPC-over-RDMA message: SEND First or Only on a queue pair that carries
    /// RPC-over-RDMA.
    RpcRdma(rpcrdma::Header<'a>),
    /// Part of a message, or of memory.
    Other,
}

/// An eviction from a bounded table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Eviction {
    /// A connection with few packets, or else one without recent packets.
    Connection(ConnectionId),
    /// The transaction that was outstanding the longest.
    Transaction {
        /// Its connection.
        connection: ConnectionId,
        /// Its direction.
        direction: Direction,
        /// Its XID.
        xid: Xid,
    },
    /// Packets held after a gap, released before the gap was filled.
    HeldPackets {
        /// Their connection.
        connection: ConnectionId,
    },
    /// Bytes of a Long Call or Long Reply beyond the limit that is gathered.
    Gathered {
        /// The XID of the transaction.
        xid: Xid,
        /// The part of the message.
        part: Part,
    },
}
