//! Events for conformance checks, in addition to transactions and connections.
//!
//! They are reported only if [`crate::engine::Config::observe`] requests them. An end of a
//! connection has the index 0 or 1 for as long as the connection keeps its number.
//! [`Observation::requester`] is the index of the end that opened the connection.

use crate::connection::{Connection, ConnectionId, Route};
use crate::rdma::{End, Fault, MemoryRange, Operation, Piece, Position, Refusal, Send};
use crate::transaction::Seen;
use crate::ulb::Procedure;
use rdmascope_wire::rpcrdma::Header;
use rdmascope_wire::{Rkey, Xid, cm};

/// The level of observations to report. Each level includes those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Observe {
    /// No observations.
    #[default]
    Nothing,
    /// All except those that only rules use: a connection's parameters, packet faults, unmatched
    /// operations, memory advertised twice or invalidated by another transaction, calls outstanding
    /// when the connection closes, and [`Sent::earlier`].
    Events,
    /// All observations.
    All,
}

/// Something observed on a connection.
#[derive(Clone, Copy, Debug)]
pub struct Observation<'a> {
    /// The connection.
    pub connection: ConnectionId,
    /// The connection's index in the engine: a small number that is reused only after the
    /// connection ends.
    pub place: u32,
    /// The end that opened it, or, if that is unknown, the end that called first.
    pub requester: End,
    /// Whether the end that opened it is known, from a CM message or from the program of a call.
    pub roles_known: bool,
    /// The completeness of each half-flow in the capture.
    pub half_flows: &'a [HalfFlow; 2],
    /// The observation.
    pub kind: Observed<'a>,
}

/// The kind of an observation.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Observed<'a> {
    /// A CM message or an MPA start frame that updated the connection.
    Established(&'a Connection),
    /// The program of a call revealed which end opened the connection.
    RolesKnown,
    /// Two half-flows were paired into this connection. The number is that of the other half-flow,
    /// if it had one.
    Joined(Option<ConnectionId>),
    /// A Send, in PSN order of its sender. It is reported before the transaction that it ends.
    Sent(&'a Sent<'a>),
    /// Packets of an end that the capture lacks. It may lack them if it reports drops without
    /// naming the packets.
    Missing(Missing),
    /// An RDMA operation on memory that no open transaction advertised for it.
    Unmatched(Unmatched),
    /// A CM message. If it changes the connection's parameters, [`Observed::Established`] follows.
    Managed(&'a Managed<'a>),
    /// A request for the connection, or its acceptance or rejection. It is reported before the
    /// [`Observed::Managed`] and [`Observed::Established`] of the same message.
    Announced(&'a Announced<'a>),
    /// A segment of a TCP handshake: of one that was refused or whose SYN was repeated, and of the
    /// client's later ones to that port.
    Handshake(Handshake),
    /// A message by which an end closes the connection.
    Closes(Closes),
    /// A repeated request packet.
    Repeated(Repeated),
    /// A NAK.
    Refused(Refused),
    /// A packet with a bad ICRC, which its receiver drops.
    Spoiled(Spoiled),
    /// A packet that breaks a rule of the reliable connection.
    Faulty(Faulty),
    /// A call without a reply when a CM message closes the connection.
    Outstanding(Outstanding),
    /// A Send with Invalidate that invalidated memory of another open transaction.
    Revoked(Revoked),
    /// A call that advertised memory which another open call has advertised too.
    Shared(Shared),
    /// A Send that was reported as a call is a reply: the RPC message that the other end pulled from
    /// its Read chunk shows that (reliable-reply draft).
    Corrected(Corrected),
    /// A call that offers its connection for callbacks. It is reported once the call has been
    /// parsed.
    Offered(Offered),
    /// The end of the connection or of the capture. The connection follows as the next event.
    Ending(Ending),
}

/// A Send.
#[derive(Clone, Copy, Debug)]
pub struct Sent<'a> {
    /// The end that sent it.
    pub from: End,
    /// The kind of message.
    pub kind: Kind,
    /// Whether the message itself shows its kind. Otherwise the kind was inferred: a reply if a
    /// call with its XID is outstanding.
    pub is_explicit: bool,
    /// The Send.
    pub send: &'a Send<'a>,
    /// Its RPC-over-RDMA header. `None` if the Send is too short.
    pub header: Option<&'a Header<'a>>,
    /// For a call: another call with its XID is outstanding. For a reply or error: its call is
    /// outstanding. For RDMA_DONE: its reply waits to be pulled.
    pub outstanding: bool,
    /// For an error or RDMA_DONE: its sender has an outstanding call with this XID.
    pub of_own_call: bool,
    /// The number of packets of both ends known to be missing when the call was sent: the call that
    /// this message answers, or the outstanding call with the XID of this call. Sends whose header
    /// the capture lacks count too.
    pub missing_at_call: Option<u64>,
    /// The number of packets of both ends known to be missing now.
    pub missing_packets: u64,
    /// The first and the last packet of the outstanding call.
    pub call: Option<[Seen; 2]>,
    /// The identity of the outstanding call, if this is a call with the same XID.
    pub earlier: Option<CallIdentity>,
    /// Whether both half-flows are known.
    pub paired: bool,
}

/// The kind of message in a Send.
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
    /// Not an RPC-over-RDMA message.
    Other,
}

/// The identity of a call, to distinguish it from others, as far as the Send shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallIdentity {
    /// The procedure.
    pub procedure: Option<Procedure>,
    /// A hash of the arguments in the Send, unless RPCSEC_GSS protects them.
    pub(crate) arguments: Option<u64>,
    /// A hash of the Positions of its Read chunks. `None` if all arguments are in the Send.
    pub(crate) reduced: Option<u64>,
    /// A hash of the whole Send, if arguments are in chunks or RPCSEC_GSS protects them.
    pub(crate) send: Option<u64>,
}

/// The completeness of one end's packets in the capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HalfFlow {
    /// Whether requests of it wait for a gap to be filled, or for the message that they answer.
    pub waits: bool,
    /// Whether the other end acknowledged packets after the last one seen.
    pub lags: bool,
    /// How often the next position was unknown: after an RDMA Read while the path MTU is unknown,
    /// and where the PSNs jump. Packets missing at these places are not reported.
    pub unsure: u32,
    /// Its last acknowledged position, and the packet that acknowledged it first.
    pub acknowledged: Option<(Position, Seen)>,
}

/// Packets of an end that the capture lacks or may lack.
#[derive(Clone, Copy, Debug)]
pub struct Missing {
    /// The end.
    pub from: End,
    /// The number of packets; 1 if unknown because the PSNs jump.
    pub packets: u32,
    /// A packet of the other end that acknowledged them all, if the capture has one. They were sent
    /// before it.
    pub acknowledged: Option<Seen>,
}

/// An RDMA operation on memory that no open transaction advertised for it.
#[derive(Clone, Copy, Debug)]
pub struct Unmatched {
    /// The end that sent it.
    pub from: End,
    /// Its first packet.
    pub seen: Seen,
    /// The PSN of the first packet.
    pub position: Position,
    /// Whether it is an RDMA Read; otherwise an RDMA Write.
    pub reading: bool,
    /// The memory that the operation accesses.
    pub memory: MemoryRange,
    /// The first byte outside the advertised memory.
    pub address: u64,
    /// The reason why access to this byte is invalid.
    pub mismatch: Mismatch,
}

/// The reason why an RDMA operation is unmatched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// No open transaction advertised the memory at its start.
    Unadvertised,
    /// The transaction advertised the memory for RDMA Read but the operation is an RDMA Write, or
    /// the reverse.
    OtherWay(Advertiser),
    /// It begins in a segment and continues past the advertised memory.
    PastEnd(Advertiser),
    /// A Send other than the transaction's reply invalidated the memory.
    Invalidated(Revoked),
}

/// An open transaction that advertised memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advertiser {
    /// The end that called.
    pub caller: End,
    /// rdma_xid.
    pub xid: Xid,
}

/// A Send that was reported as a call, and is a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrected {
    /// The end that sent it.
    pub from: End,
    /// rdma_xid of the Send.
    pub xid: Xid,
}

/// A Send with Invalidate that invalidated memory of another open transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revoked {
    /// The end that sent it.
    pub from: End,
    /// Its last packet.
    pub seen: Seen,
    /// rdma_xid of the Send.
    pub xid: Xid,
    /// The invalidated handle.
    pub rkey: Rkey,
    /// The transaction that advertised it.
    pub advertiser: Advertiser,
    /// The packet by which the transaction advertised it.
    pub since: Seen,
}

/// Two open transactions of one end that advertise overlapping memory.
#[derive(Clone, Copy, Debug)]
pub struct Shared {
    /// The end whose memory it is.
    pub owner: End,
    /// rdma_xid of the transaction that advertised it first, and of the other.
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
    /// The MAD with the message, as far as it was captured.
    pub mad: &'a [u8],
}

/// A message that requests, accepts or rejects a connection: a REQ, REP or REJ, or an MPA Request
/// or Reply. It may be a retransmission.
#[derive(Clone, Copy, Debug)]
pub struct Announced<'a> {
    /// The end that sent it.
    pub from: End,
    /// The packet.
    pub seen: Seen,
    /// The name of the message.
    pub name: &'static str,
    /// The meaning of the message.
    pub meaning: Meaning,
    /// The captured private data.
    pub private_data: &'a [u8],
    /// Whether the captured private data is incomplete.
    pub is_cut: bool,
    /// Over TCP: its sequence number.
    pub position: Option<Position>,
    /// Over TCP: the sequence number that its sender expects next.
    pub expects: Option<Position>,
}

/// The meaning of a connection message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Requests the connection.
    Asks,
    /// Accepts the connection.
    Accepts,
    /// Rejects the connection, with the reason of a REJ (IBTA volume 1, section 12.6.7.2). An MPA
    /// Reply has no reason.
    Rejects(Option<u16>),
    /// Withdraws the request, because no answer came: a REJ of the requester.
    GivesUp,
}

/// A segment of the TCP handshake of an iWARP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// The end that sent it.
    pub from: End,
    /// The packet.
    pub seen: Seen,
    /// The kind of segment.
    pub step: HandshakeStep,
}

/// The kind of segment in a TCP handshake (RFC 9293, section 3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeStep {
    /// Asks for the connection.
    Syn,
    /// Confirms the answer: the client has it.
    Ack,
    /// A RST that refuses it.
    Reset,
}

/// A DREQ, or the first FIN or RST of an end.
#[derive(Clone, Copy, Debug)]
pub struct Closes {
    /// The end that sent it.
    pub from: End,
    /// The packet. If the capture did not show the FIN, the FIN or RST of the other end that
    /// acknowledges it.
    pub seen: Seen,
    /// The kind of message.
    pub how: Closing,
    /// Over TCP: the sequence number after its payload, and the one that its sender expects next.
    pub numbers: Option<(Position, Option<Position>)>,
}

impl Closes {
    /// Over TCP: whether the message proves that the request of end `from` was not answered.
    /// `expected` is the number that `from` expected at that time; the other end has sent nothing
    /// from it on, except a FIN.
    pub fn shows_silence(&self, from: End, expected: Option<Position>) -> bool {
        let (Some((sent, received)), Some(expected)) = (self.numbers, expected) else { return false };
        if self.from == from {
            received.is_some_and(|received| received == expected || received == expected.plus(1))
        } else {
            sent == expected
        }
    }
}

/// The kind of message that closes a connection.
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
    /// The name in the headers.
    pub const fn name(self) -> &'static str {
        match self {
            Closing::DisconnectRequest => "DREQ",
            Closing::Fin => "FIN",
            Closing::Reset => "RST",
        }
    }
}

/// A request packet with a PSN that was seen before: a retransmission, or a duplicate in the
/// capture.
#[derive(Clone, Copy, Debug)]
pub struct Repeated {
    /// The end that sent it.
    pub from: End,
    /// The packet.
    pub seen: Seen,
    /// The packet seen first. `None` if it is too old.
    pub first: Option<Seen>,
    /// The part of an operation that it carries.
    pub piece: Piece,
    /// Its PSN.
    pub position: Position,
    /// Payload bytes on the wire; 0 for an RDMA Read request.
    pub bytes: u32,
    /// Bytes that an RDMA Read request asks for.
    pub read_length: u32,
}

impl Repeated {
    /// Whether the receiver needs it before it can use the packet that ends at this position. A TCP
    /// sender may repeat one segment of several that were lost.
    pub fn is_needed_for(&self, position: Position) -> bool {
        let ahead = self.position.distance(position);
        if position.counts_bytes() { (0..=position.window()).contains(&ahead) } else { ahead == 0 }
    }

    /// Whether an acknowledgement up to this position covers it.
    pub fn is_acknowledged(&self, position: Position) -> bool {
        let more = if position.counts_bytes() { self.bytes.saturating_sub(1) } else { 0 };
        self.position.plus(more).distance(position) >= 0
    }
}

/// A NAK.
#[derive(Clone, Copy, Debug)]
pub struct Refused {
    /// The end that sent it: the receiver of the request.
    pub from: End,
    /// The packet.
    pub seen: Seen,
    /// The PSN of the refused request, or, for a PSN sequence error, the expected PSN.
    pub position: Position,
    /// The cause.
    pub refusal: Refusal,
    /// The first packet of the request. `None` if it is too old or not in the capture.
    pub request: Option<Seen>,
    /// Whether the request is known to be an RDMA operation. It is unknown if the operation is too
    /// old, and unless all observations are enabled.
    pub is_operation: bool,
    /// For an RDMA operation on memory that the refusing end advertised: the packet that completed
    /// the message with that memory, and whether that message may be a reply, as in the reliable-reply
    /// draft. `None` for other requests, if the operation is too old, and unless all observations are
    /// enabled.
    pub advertised: Option<(Seen, bool)>,
}

/// A packet with a bad ICRC.
#[derive(Clone, Copy, Debug)]
pub struct Spoiled {
    /// The end that sent it.
    pub from: End,
    /// The packet.
    pub seen: Seen,
}

/// A packet that breaks a rule of the reliable connection, or the last packet of a message that
/// does.
#[derive(Clone, Copy, Debug)]
pub struct Faulty {
    /// The end that sent it.
    pub from: End,
    /// The packet.
    pub seen: Seen,
    /// The part of an operation that it carries.
    pub piece: Piece,
    /// Its PSN.
    pub position: Position,
    /// The fault.
    pub fault: Fault,
}

impl Faulty {
    /// Over TCP: whether the segment's message, or the length of that message, is unknown (RFC
    /// 5041, section 4). Such a message is treated as missing from the capture.
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

/// A call without a reply when a CM message closes the connection.
#[derive(Clone, Copy, Debug)]
pub struct Outstanding {
    /// The end that called.
    pub caller: End,
    /// The hosts of the caller and of the called end.
    pub route: Route,
    /// rdma_xid.
    pub xid: Xid,
    /// The identity of the call.
    pub identity: CallIdentity,
    /// The packet that completed its Send.
    pub seen: Seen,
    /// Whether the capture may lack the reply.
    pub lacks: bool,
}

/// A call that offers its connection for callbacks: CREATE_SESSION or BIND_CONN_TO_SESSION (RFC
/// 8881, sections 18.36 and 18.34).
#[derive(Clone, Copy, Debug)]
pub struct Offered {
    /// The end that sent it.
    pub from: End,
    /// The packet that completed it.
    pub seen: Seen,
}

/// The state of the half-flows at the end of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Ending {
    /// By end: the last frame up to which the capture has everything that the end sent. There, the
    /// other end acknowledged exactly the packets seen.
    pub complete: [Option<u64>; 2],
    /// By end: whether the capture has a packet from its host to the other host, on any connection.
    /// If the other end acknowledged packets on this connection, only packets of this connection
    /// count.
    pub captured: [bool; 2],
    /// Whether the connection was closed. Otherwise the capture ended, or the connection was evicted.
    pub is_closed: bool,
}
