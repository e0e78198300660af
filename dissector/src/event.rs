//! What the engine reports, in the order in which it happens.

use crate::connection::{Connection, ConnectionId, FlowKey};
use crate::frame::{Address, Frame, Other, Segment};
use crate::iwarp::{Contents, Framed, Part as SegmentPart};
use crate::observation::Observation;
use crate::record::{Record, Seen};
use crate::role::Attributed;
use crate::transaction::{Direction, Part, Transaction};
use alloc::vec::Vec;
use rdmascope_wire::bth::{Bth, Extensions};
use rdmascope_wire::{Stop, Xid, cm, rpcrdma};

/// One thing that the engine found. What it borrows is gone after the call that reports it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A record was looked at. Reported only where [`crate::engine::Config::report_packets`] asks for it.
    Packet(&'a Packet<'a>),
    /// A transaction ended, or the capture did.
    Transaction(&'a Transaction),
    /// A connection ended, was forgotten, or the capture ended.
    Connection(&'a Connection),
    /// A table was full, and what it held longest was given up.
    Eviction(Eviction),
    /// Something was seen on the way. Reported only where [`crate::engine::Config::observe`] asks for it.
    Observation(&'a Observation<'a>),
    /// It is clear what a packet is to which transaction. Reported only where [`crate::engine::Config::attribute`] asks for it, in the order
    /// of the capture within a connection, and not of packets that are nothing to any transaction.
    Attributed(&'a Attributed<'a>),
    /// A piece of what an end of an iWARP connection sends. Reported only where [`crate::engine::Config::report_framed`] asks for it, for
    /// each end in the order of its stream.
    Framed(&'a InStream<'a>),
}

/// Takes the events of an [`Engine`](crate::engine::Engine). It is one type for all callers, so that the engine is
/// compiled once.
pub type Report<'a> = dyn FnMut(Event<'_>) + 'a;

/// A piece of what an end of an iWARP connection sends.
#[derive(Clone, Copy, Debug)]
pub struct InStream<'a> {
    /// The connection.
    pub connection: ConnectionId,
    /// Who sends it.
    pub source: Address,
    /// Who receives it.
    pub destination: Address,
    /// The TCP ports of both.
    pub ports: [u16; 2],
    /// Whether the connection is known to carry RPC-over-RDMA.
    pub speaks_rpc: bool,
    /// The piece.
    pub framed: &'a Framed,
}

/// A record, as far as it could be understood.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The record.
    pub record: Record<'a>,
    /// The transport packet in it, or why there is none.
    pub frame: Result<Frame<'a>, Other<'a>>,
    /// Its headers; where they could not be read, why.
    pub headers: Option<Result<Headers<'a>, Stop>>,
    /// Whether it is of a connection.
    pub of_connection: bool,
    /// The number of that, if it has one by now: see [`ConnectionId`].
    pub connection: Option<ConnectionId>,
    /// The record that showed the same packet before: then this one says nothing new, and is counted for no connection.
    pub copy_of: Option<Seen>,
    /// Whether its connection is known to carry RPC-over-RDMA.
    pub speaks_rpc: bool,
    /// What the payload holds, of a TCP segment of an iWARP connection.
    pub contents: Option<&'a Contents>,
}

impl<'a> Packet<'a> {
    /// The headers, where they could be read.
    pub fn readable_headers(&self) -> Option<&Headers<'a>> {
        self.headers.as_ref()?.as_ref().ok()
    }

    /// The TCP segment that it is.
    pub fn segment(&self) -> Option<&Segment<'a>> {
        if let Err(Other::Tcp(segment)) = &self.frame { Some(segment) } else { None }
    }

    /// What the payload of a TCP segment of an iWARP connection holds.
    pub fn parts(&self) -> Vec<SegmentPart> {
        let of = self.contents.zip(self.segment());
        of.map_or_else(Vec::new, |(contents, segment)| contents.parts(segment))
    }

    /// Where the packet could not be read on.
    pub fn stop(&self) -> Option<Stop> {
        match (&self.frame, &self.headers) {
            (Err(Other::Stop(stop)), _) | (_, Some(Err(stop))) => Some(*stop),
            _ => None,
        }
    }

    /// What tells the half-flow that it is of from others.
    pub fn flow(&self) -> Option<FlowKey> {
        let (Ok(frame), Some(Ok(headers))) = (&self.frame, &self.headers) else { return None };
        let destination_qp = headers.bth.destination_qp;
        Some(FlowKey { source: frame.source, destination: frame.destination, destination_qp })
    }
}

/// The transport headers of a packet and what they carry.
#[derive(Clone, Copy, Debug)]
pub struct Headers<'a> {
    /// The base transport header.
    pub bth: Bth,
    /// Its extension headers.
    pub extensions: Extensions,
    /// The captured bytes behind the headers, without padding.
    pub payload: &'a [u8],
    /// Bytes behind the headers on the wire, without padding.
    pub payload_length: u32,
    /// What the payload is.
    pub content: Content<'a>,
}

/// What a packet carries, where that can be said of the packet alone.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// A CM message.
    Cm(cm::Message<'a>),
    /// The front of an RPC-over-RDMA message: SEND First or Only on a queue pair that speaks it.
    RpcRdma(rpcrdma::Header<'a>),
    /// Part of a message, or of memory.
    Other,
}

/// A bounded table that gave something up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Eviction {
    /// A connection that was silent longest.
    Connection(ConnectionId),
    /// The transaction that was outstanding longest.
    Transaction {
        /// Of this connection.
        connection: ConnectionId,
        /// Its direction.
        direction: Direction,
        /// Its XID.
        xid: Xid,
    },
    /// Packets ahead of a gap, given up before the gap was filled.
    HeldPackets {
        /// Of this connection.
        connection: ConnectionId,
    },
    /// Bytes of a Long Call or Long Reply beyond what is gathered.
    Gathered {
        /// Of this transaction.
        xid: Xid,
        /// In this part.
        part: Part,
    },
}
