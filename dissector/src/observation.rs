//! What the engine sees on the way to its transactions, for those who judge it.
//!
//! Reported only where [`crate::engine::Config::observe`] asks for it. An end of a connection is named by its index, 0 or 1, which it keeps
//! for as long as the connection keeps its number; [`Observation::requester`] says which of them opened the connection.

use crate::connection::{Connection, ConnectionId};
use crate::rc::Send;
use crate::rpcrdma::Kind;
use crate::transaction::Seen;
use rdmascope_wire::bth::Reth;
use rdmascope_wire::psn::Psn;
use rdmascope_wire::rpcrdma::Header;

/// Something seen on a connection.
#[derive(Clone, Copy, Debug)]
pub struct Observation<'a> {
    /// The connection.
    pub connection: ConnectionId,
    /// The end that opened it, or that stands as the one that did.
    pub requester: usize,
    /// How far the capture shows what each end sends.
    pub half_flows: &'a [HalfFlow; 2],
    /// What was seen.
    pub what: Observed<'a>,
}

/// What was seen.
#[derive(Clone, Copy, Debug)]
pub enum Observed<'a> {
    /// A CM message added to what is known of the connection.
    Established(&'a Connection),
    /// Two half-flows turned out to be this connection; it was known by the other number too, up to now.
    Joined(ConnectionId),
    /// A Send, in the order of its sender's PSNs, before anything comes of it.
    Sent(&'a Sent<'a>),
    /// Packets of an end that the capture lacks.
    Missing(Missing),
    /// An RDMA operation on memory that no open transaction advertised for it.
    Stray(Stray),
    /// The end of the connection, or of the capture; the connection itself is reported next.
    Ending(Ending),
}

/// A Send.
#[derive(Clone, Copy, Debug)]
pub struct Sent<'a> {
    /// The end that sent it.
    pub from: usize,
    /// What it is.
    pub kind: Kind,
    /// Whether the message itself says what it is; where not, `kind` rests on an XID that is waited for, or on none that is.
    pub told: bool,
    /// The Send.
    pub send: &'a Send<'a>,
    /// Its RPC-over-RDMA header; `None` where it is too short to have one.
    pub header: Option<&'a Header<'a>>,
    /// Of a call: one with its XID is outstanding. Of a reply or an error: its call is. Of RDMA_DONE: its reply waits to be pulled.
    pub outstanding: bool,
    /// [`Peers::missing_packets`](crate::rpcrdma::Peers::missing_packets) when the call that this answers was sent.
    pub missing_at_call: Option<u64>,
    /// The same now.
    pub missing_packets: u64,
    /// Both half-flows are known.
    pub paired: bool,
}

/// How far the capture shows what an end sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HalfFlow {
    /// Packets of it wait behind a gap, or for what they answer.
    pub waits: bool,
    /// The highest PSN of it that was acknowledged, with the packet that did so first.
    pub acknowledged: Option<(Psn, Seen)>,
}

/// Packets of an end that the capture lacks.
#[derive(Clone, Copy, Debug)]
pub struct Missing {
    /// The end.
    pub from: usize,
    /// How many.
    pub packets: u32,
}

/// An RDMA operation on memory that no open transaction advertised for it.
#[derive(Clone, Copy, Debug)]
pub struct Stray {
    /// The end that sent it.
    pub from: usize,
    /// Its first packet, or that of it which leaves what was advertised.
    pub seen: Seen,
    /// RDMA READ; else RDMA WRITE.
    pub reading: bool,
    /// What the operation names.
    pub reth: Reth,
    /// The first byte that is out of place.
    pub address: u64,
}

/// What is known at the end of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Ending {
    /// Up to which frame nothing that each end sent is missing: the other end acknowledged there just what was seen.
    pub complete: [Option<u64>; 2],
}
