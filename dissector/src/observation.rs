//! What the engine reports to a judge besides transactions and connections.
//!
//! Reported only where [`crate::engine::Config::observe`] asks for it. An end of a connection is named by its index, 0 or 1, which it keeps
//! for as long as the connection keeps its number; [`Observation::requester`] says which of them opened the connection.

use crate::connection::{Connection, ConnectionId, Route};
use crate::rdma::{End, Fault, MemoryRange, Operation, Piece, Position, Refusal, Send};
use crate::transaction::{Seen, Transaction};
use crate::ulb::Procedure;
use rdmascope_wire::rpcrdma::Header;
use rdmascope_wire::{Rkey, Xid, cm};

/// The observations that are reported. Each level includes those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Observe {
    /// Nothing.
    #[default]
    Nothing,
    /// All but that on which only rules rest: what a connection was established with, faults of packets, memory touched out of place,
    /// advertised twice or invalidated by another transaction, calls outstanding when the connection is closed, and [`Sent::earlier`].
    Events,
    /// All, for a judge.
    All,
}

/// Something seen on a connection.
#[derive(Clone, Copy, Debug)]
pub struct Observation<'a> {
    /// The connection.
    pub connection: ConnectionId,
    /// Where the engine keeps it: a small number that no other has before this one has ended.
    pub place: u32,
    /// The end that opened it; if that is not known, the end that was first seen to call.
    pub requester: End,
    /// Whether it is known which end opened it: from a CM message, or from the program that was called.
    pub roles_known: bool,
    /// How far the capture shows what each end sends.
    pub half_flows: &'a [HalfFlow; 2],
    /// What was seen.
    pub what: Observed<'a>,
}

/// What was seen.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Observed<'a> {
    /// A CM message, or an MPA start frame, added to what is known of the connection.
    Established(&'a Connection),
    /// The program of a call shows which end opened the connection.
    RolesKnown,
    /// Two half-flows were joined to this connection. Until now it was also known by this other number, if something was told of both.
    Joined(Option<ConnectionId>),
    /// A Send, in the order of its sender's PSNs. It is reported before the transaction that it ends.
    Sent(&'a Sent<'a>),
    /// Packets of an end that the capture lacks, or may lack: it says itself that it lost some, and not which.
    Missing(Missing),
    /// An RDMA operation on memory that no open transaction advertised for it.
    Stray(Stray),
    /// A CM message, before what it adds is reported as [`Observed::Established`].
    Managed(&'a Managed<'a>),
    /// An end asks for the connection, accepts it or rejects it, before the same is reported as [`Observed::Managed`] and
    /// [`Observed::Established`].
    Announced(&'a Announced<'a>),
    /// An end closes the connection.
    Closes(Closes),
    /// A request packet that was seen before.
    Repeated(Repeated),
    /// A NAK.
    Refused(Refused),
    /// A packet with a bad ICRC, which a receiver drops.
    Spoiled(Spoiled),
    /// A packet that breaks a rule of the reliable connection.
    Faulty(Faulty),
    /// A call that has no reply when a CM message closes the connection.
    Outstanding(Outstanding),
    /// A Send with Invalidate invalidated memory of another transaction that is still open.
    Revoked(Revoked),
    /// A call advertised memory that another open one has advertised too.
    Shared(Shared),
    /// A call that offers its connection for callbacks, once it was read.
    Offered(Offered),
    /// The end of the connection, or of the capture; the connection itself is reported next.
    Ending(Ending),
}

/// A Send.
#[derive(Clone, Copy, Debug)]
pub struct Sent<'a> {
    /// The end that sent it.
    pub from: End,
    /// What it is.
    pub kind: Kind,
    /// Whether the message itself shows its kind. If not, `kind` was inferred: it is a reply if a call with its XID is outstanding.
    pub told: bool,
    /// The Send.
    pub send: &'a Send<'a>,
    /// Its RPC-over-RDMA header; `None` where it is too short to have one.
    pub header: Option<&'a Header<'a>>,
    /// Of a call: one with its XID is outstanding. Of a reply or an error: its call is. Of RDMA_DONE: its reply waits to be pulled.
    pub outstanding: bool,
    /// Of an error or RDMA_DONE: a call of its own sender with its XID is outstanding.
    pub of_own_call: bool,
    /// How many packets of both ends the capture was known to lack when the call was sent that this answers,
    /// or that is outstanding under the XID of this call.
    pub missing_at_call: Option<u64>,
    /// The same now.
    pub missing_packets: u64,
    /// If [`Sent::outstanding`]: the transaction, as it was before this Send.
    pub transaction: Option<&'a Transaction>,
    /// Of a call whose XID is that of an outstanding call: what the outstanding call calls.
    pub earlier: Option<CallIdentity>,
    /// Both half-flows are known.
    pub paired: bool,
}

/// What a Send turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An RPC call.
    Call,
    /// An RPC reply.
    Reply,
    /// RDMA_ERROR.
    Error,
    /// RDMA_DONE.
    Done,
    /// No RPC-over-RDMA message.
    Other,
}

/// What tells one call from another, as far as the Send shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallIdentity {
    /// What is called.
    pub procedure: Option<Procedure>,
    /// A hash of the arguments in the Send, where RPCSEC_GSS does not protect them.
    pub(crate) arguments: Option<u64>,
    /// A hash of the Positions of its Read chunks; `None` where all arguments are in the Send.
    pub(crate) reduced: Option<u64>,
    /// A hash of the whole Send, where arguments are in chunks, or where RPCSEC_GSS protects them.
    pub(crate) send: Option<u64>,
}

/// How far the capture shows what an end sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HalfFlow {
    /// Requests of it wait behind a gap, or for what they answer.
    pub waits: bool,
    /// How often it was not known which position comes next: behind an RDMA READ, as long as the path MTU is not known, and where the PSNs go on
    /// elsewhere. What is missing there is not reported.
    pub unsure: u32,
    /// The last position of it that was acknowledged, with the packet that did so first.
    pub acknowledged: Option<(Position, Seen)>,
}

/// Packets of an end that the capture lacks, or may lack.
#[derive(Clone, Copy, Debug)]
pub struct Missing {
    /// The end.
    pub from: End,
    /// How many; 1 where nobody knows, because the PSNs go on elsewhere.
    pub packets: u32,
}

/// An RDMA operation on memory that no open transaction advertised for it.
#[derive(Clone, Copy, Debug)]
pub struct Stray {
    /// The end that sent it.
    pub from: End,
    /// Its first packet.
    pub seen: Seen,
    /// The PSN of that.
    pub position: Position,
    /// RDMA READ; else RDMA WRITE.
    pub reading: bool,
    /// What the operation names.
    pub memory: MemoryRange,
    /// The first byte outside of the advertised memory.
    pub address: u64,
    /// What is wrong with this byte.
    pub astray: Astray,
}

/// What is wrong with an RDMA operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Astray {
    /// No open transaction advertised the memory that it begins at.
    Unadvertised,
    /// The transaction advertised the memory for RDMA Read and the operation is an RDMA Write, or the reverse.
    OtherWay(Advertiser),
    /// It begins in a segment, and goes on where nothing is advertised.
    PastEnd(Advertiser),
    /// The transaction had it invalidated by a Send that was not its reply.
    Invalidated(Revoked),
}

/// A transaction that advertised memory, and is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advertiser {
    /// The end that called.
    pub caller: End,
    /// rdma_xid.
    pub xid: Xid,
}

/// A Send with Invalidate that invalidated memory of another transaction that is still open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revoked {
    /// The end that sent it.
    pub from: End,
    /// Its last packet.
    pub seen: Seen,
    /// rdma_xid of the Send.
    pub xid: Xid,
    /// The handle that it invalidates.
    pub rkey: Rkey,
    /// The transaction that advertised it.
    pub advertiser: Advertiser,
    /// When that transaction advertised it.
    pub since: Seen,
}

/// Two open transactions of an end advertise memory that overlaps.
#[derive(Clone, Copy, Debug)]
pub struct Shared {
    /// The end whose memory it is.
    pub owner: End,
    /// rdma_xid of the one that advertised it first, and of the other one.
    pub xids: [Xid; 2],
}

/// A CM message.
#[derive(Clone, Copy, Debug)]
pub struct Managed<'a> {
    /// The end that sent it.
    pub from: End,
    /// The packet.
    pub seen: Seen,
    /// The message.
    pub message: &'a cm::Message<'a>,
}

/// A message that asks for a connection, accepts it or rejects it: a REQ, REP or REJ, or an MPA Request or Reply. It may be one that is
/// sent again.
#[derive(Clone, Copy, Debug)]
pub struct Announced<'a> {
    /// The end that sent it.
    pub from: End,
    /// The packet.
    pub seen: Seen,
    /// The message's name.
    pub name: &'static str,
    /// What it says.
    pub says: Says,
    /// The captured bytes that its sender's consumer gave it.
    pub private_data: &'a [u8],
    /// Whether bytes that were sent are not in it.
    pub is_cut: bool,
    /// Over TCP the sequence number that its sender expects next.
    pub expects: Option<Position>,
}

/// What a message says to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    /// It asks for it.
    Asks,
    /// It accepts it.
    Accepts,
    /// It rejects it, for this reason of a REJ (IBTA volume 1, section 12.6.7.2); an MPA Reply has none.
    Rejects(Option<u16>),
}

/// A DREQ, or the first FIN or RST of an end.
#[derive(Clone, Copy, Debug)]
pub struct Closes {
    /// The end that sent it.
    pub from: End,
    /// The packet.
    pub seen: Seen,
    /// What it is.
    pub how: Closing,
    /// Over TCP the sequence number behind its payload, and the one that its sender expects next.
    pub numbers: Option<(Position, Option<Position>)>,
}

impl Closes {
    /// Whether it shows that what end `from` asked for over TCP was not answered: the other end has sent nothing from the number on that
    /// `from` expected then, but for a FIN.
    pub fn shows_silence(&self, from: End, expected: Option<Position>) -> bool {
        let (Some((sent, received)), Some(expected)) = (self.numbers, expected) else { return false };
        if self.from == from {
            received.is_some_and(|received| received == expected || received == expected.plus(1))
        } else {
            sent == expected
        }
    }
}

/// What closes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// A DREQ.
    DisconnectRequest,
    /// The end of a TCP stream.
    Fin,
    /// The reset of a TCP connection.
    Reset,
}

impl Closing {
    /// Its name in the headers.
    pub const fn name(self) -> &'static str {
        match self {
            Closing::DisconnectRequest => "DREQ",
            Closing::Fin => "FIN",
            Closing::Reset => "RST",
        }
    }
}

/// A request packet whose PSN was seen before: it was sent again, or the capture shows it twice.
#[derive(Clone, Copy, Debug)]
pub struct Repeated {
    /// The end that sent it.
    pub from: End,
    /// The packet.
    pub seen: Seen,
    /// The one seen first; `None` where it is too long ago.
    pub first: Option<Seen>,
    /// What it is.
    pub piece: Piece,
    /// Its PSN.
    pub position: Position,
    /// Bytes of its payload on the wire: none of an RDMA READ request.
    pub bytes: u32,
    /// Bytes that an RDMA READ request asks for.
    pub asked: u32,
}

/// A NAK.
#[derive(Clone, Copy, Debug)]
pub struct Refused {
    /// The end that sent it: the receiver of the request.
    pub from: End,
    /// The packet.
    pub seen: Seen,
    /// The PSN of the request that it is about: the one refused, or, for a PSN sequence error, the one waited for.
    pub position: Position,
    /// Why.
    pub refusal: Refusal,
    /// The first packet seen of the request; `None` where it is too long ago, or not in the capture.
    pub request: Option<Seen>,
}

/// A packet with a bad ICRC.
#[derive(Clone, Copy, Debug)]
pub struct Spoiled {
    /// The end that sent it.
    pub from: End,
    /// The packet.
    pub seen: Seen,
}

/// A packet that breaks a rule of the reliable connection, or that ends a message which does.
#[derive(Clone, Copy, Debug)]
pub struct Faulty {
    /// The end that sent it.
    pub from: End,
    /// The packet.
    pub seen: Seen,
    /// What it is.
    pub piece: Piece,
    /// Its PSN.
    pub position: Position,
    /// What is wrong.
    pub fault: Fault,
}

impl Faulty {
    /// Over TCP: whether it is not known what message the segment is of, or how long that is (RFC 5041, section 4). What the message says counts
    /// no more than if the capture lacked it.
    pub fn hides_a_message(&self) -> bool {
        let is_untagged = !matches!(self.piece.operation, Operation::Write | Operation::ReadResponse);
        self.position.counts_bytes()
            && match self.fault {
                Fault::Segment | Fault::Foreign | Fault::Order => true,
                Fault::MessageOffset { .. } => is_untagged,
                _ => false,
            }
    }
}

/// A call that has no reply when a CM message closes the connection.
#[derive(Clone, Copy, Debug)]
pub struct Outstanding {
    /// The end that called.
    pub caller: End,
    /// From whose host to whose the call went.
    pub route: Route,
    /// rdma_xid.
    pub xid: Xid,
    /// What it calls.
    pub identity: CallIdentity,
    /// The packet that completed its Send.
    pub seen: Seen,
    /// The capture may lack the reply.
    pub lacks: bool,
}

/// A call that offers its connection for callbacks: CREATE_SESSION or BIND_CONN_TO_SESSION (RFC 8881, sections 18.36 and 18.34).
#[derive(Clone, Copy, Debug)]
pub struct Offered {
    /// The end that sent it.
    pub from: End,
    /// The packet that completed it.
    pub seen: Seen,
}

/// What is known at the end of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Ending {
    /// By end: the frame up to which the capture holds all that the end sent. The other end acknowledged there exactly what was seen.
    pub complete: [Option<u64>; 2],
    /// By end: the capture holds a packet that its host sent to the other end's, on whatever connection; and, where the other end answered
    /// packets on this one, some of this one.
    pub heard: [bool; 2],
}
