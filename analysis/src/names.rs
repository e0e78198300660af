//! Names from the dissector, joined into the labels that output shows.

use crate::units::is_hidden;
use core::fmt;
use rdmascope_dissector::connection::{Connection, State};
use rdmascope_dissector::transaction::{Direction, Outcome, Part, Security, Transaction};
use rdmascope_dissector::ulb::{self, Operation, OperationKind, Procedure};
use rdmascope_wire::nfs::{nfsstat3, nfsstat4};
use rdmascope_wire::{Cause, cm, private_data, rpc, rpcrdma};

/// The name of a procedure: `WRITE`, `COMPOUND`.
pub fn procedure_name(procedure: Procedure) -> Option<&'static str> {
    ulb::procedure_name(procedure)
}

/// The name of a status: `NFS4ERR_NOENT`.
pub fn status_name(program: u32, version: u32, status: u32) -> Option<&'static str> {
    ulb::status_name(program, version, status)
}

/// The name of a status in the results of `transaction`.
pub fn status_of(transaction: &Transaction, status: u32) -> Option<&'static str> {
    transaction.procedure?.status_name(status)
}

/// A status name without its protocol's prefix: `NOENT`.
pub fn short_status(name: &str) -> &str {
    name.split_once('_').map_or(name, |(_, short)| short)
}

/// Writes the fields of a CM message that distinguish it from others, each after a space.
pub fn cm_fields(message: &cm::Message<'_>, out: &mut dyn fmt::Write) -> fmt::Result {
    if let Some(id) = message.local_communication_id() {
        write!(out, " local {id}")?;
    }
    if let Some(id) = message.remote_communication_id() {
        write!(out, " remote {id}")?;
    }
    match message {
        cm::Message::Request(request) => {
            write!(out, " QP {} PSN {}", request.local_qpn, request.starting_psn)?;
            match request.service_id.rdma_cm_port() {
                Some((_, port)) => write!(out, " port {port}")?,
                None => write!(out, " service {}", request.service_id)?,
            }
            if let Some(mtu) = request.path_mtu_bytes() {
                write!(out, " MTU {mtu}")?;
            }
            private_data_fields(request.consumer_private_data(), out)
        }
        cm::Message::Reply(reply) => {
            write!(out, " QP {} PSN {}", reply.local_qpn, reply.starting_psn)?;
            private_data_fields(reply.private_data, out)
        }
        cm::Message::Reject(reject) => {
            write!(out, " {}", RejectReason(reject.reason))?;
            let name = cm::consumer_reason_name(reject.private_data, None);
            name.filter(|_| reject.reason == CONSUMER).map_or(Ok(()), |name| write!(out, " ({name})"))
        }
        cm::Message::DisconnectRequest(request) => write!(out, " remote QP {}", request.remote_qpn),
        cm::Message::ServiceIdResolutionRequest(request) => write!(out, " service {}", request.service_id),
        cm::Message::ServiceIdResolutionReply(reply) => write!(out, " QP {}", reply.qpn),
        cm::Message::Unknown { attribute, .. } => write!(out, " attribute 0x{attribute:04x}"),
        _ => Ok(()),
    }
}

/// The reason of a REJ with its text: `reason 8: invalid service ID` (IBTA volume 1, section
/// 12.6.7.2).
pub struct RejectReason(pub u16);

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "reason {}", self.0)?;
        cm::reject_reason_name(self.0).map_or(Ok(()), |name| write!(f, ": {name}"))
    }
}

/// The reason code of a REJ whose reason is in the private data.
const CONSUMER: u16 = 28;

/// The state of a connection as part of a sentence.
pub struct StateName<'a>(pub &'a Connection);

impl fmt::Display for StateName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.state {
            State::Requested => f.write_str("requested, not answered"),
            State::Open => f.write_str("open"),
            State::Rejected(reason) => write!(f, "rejected, {}", RejectReason(reason)),
            State::Refused if self.0.responder.start.is_some() => f.write_str("rejected by an MPA reply"),
            State::Refused => f.write_str("rejected by a RST"),
            State::Closed => f.write_str("closed"),
        }
    }
}

/// The message that rejected a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejecting {
    /// A REJ: its reason, and the first bytes of its private data.
    Rej(u16, [u8; 8]),
    /// An MPA Reply with R set.
    MpaReply,
    /// A RST that answers a SYN.
    Reset,
}

/// The reason why a connection was rejected; the port of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejection(pub Rejecting, pub Option<u16>);

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Rejecting::Rej(reason, data) => {
                RejectReason(reason).fmt(f)?;
                let name = cm::consumer_reason_name(&data, self.1).filter(|_| reason == CONSUMER);
                name.map_or(Ok(()), |name| write!(f, " ({name})"))
            }
            Rejecting::MpaReply => f.write_str("the MPA Reply has R set"),
            Rejecting::Reset => f.write_str("a RST answered the SYN"),
        }
    }
}

/// Writes RFC 8797 private data, if present.
fn private_data_fields(bytes: &[u8], out: &mut dyn fmt::Write) -> fmt::Result {
    match private_data::find(bytes) {
        Some(private_data::Found { fields: Ok(data), .. }) => {
            let invalidation = if data.remote_invalidation { " R" } else { "" };
            write!(out, " send {} receive {}{invalidation}", data.send_bytes(), data.receive_bytes())
        }
        Some(private_data::Found { fields: Err(stop), .. }) => write!(out, " private data: {stop}"),
        None => Ok(()),
    }
}

/// Whether the ends of a connection agreed on remote invalidation, and which end uses it without
/// agreement: `not agreed; used by the server`.
#[derive(Clone, Copy, Debug)]
pub struct Invalidation<'a>(pub &'a Connection);

impl fmt::Display for Invalidation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Invalidation(connection) = self;
        let users = match [&connection.requester, &connection.responder].map(|end| end.sent.invalidations > 0)
        {
            [true, true] => Some("both ends"),
            [true, false] => Some("the client"),
            [false, true] => Some("the server"),
            [false, false] => None,
        };
        f.write_str(match (connection.remote_invalidation, users) {
            (Some(true), _) => return f.write_str("on"),
            (Some(false), None) => "off",
            (Some(false), Some(_)) => "not agreed",
            (None, _) => "unknown",
        })?;
        users.map_or(Ok(()), |users| write!(f, "; used by {users}"))
    }
}

/// An RPC program with its version, and for NFSv4 the minor version: `NFSv4.1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Protocol {
    /// The RPC program number.
    pub program: u32,
    /// The program's version.
    pub version: u32,
    /// The minor version, if a COMPOUND named one.
    pub minor: Option<u32>,
}

impl Protocol {
    /// The protocol of a transaction; `None` if the call is unknown.
    pub fn of(transaction: &Transaction) -> Option<Protocol> {
        let Procedure { program, version, .. } = transaction.procedure?;
        Some(Protocol { program, version, minor: transaction.details.minor_version })
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.program, self.minor) {
            (rpc::program::NFS, Some(minor)) => write!(f, "NFSv{}.{minor}", self.version),
            // The callback program has version 1 for every minor version; it is known as part of
            // NFSv4.
            (rpc::program::CALLBACK, Some(minor)) => write!(f, "NFSv4.{minor}"),
            (rpc::program::CALLBACK, None) => f.write_str("NFSv4"),
            (program, _) => match ulb::program_name(program) {
                Some(name) => write!(f, "{name}v{}", self.version),
                None => write!(f, "{program}v{}", self.version),
            },
        }
    }
}

/// The label of a transaction: its principal operation, or else its procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Label {
    /// A name from the specification.
    Named(&'static str),
    /// A COMPOUND that the capture cuts off after this auxiliary operation, so its principal
    /// operation is unknown.
    CutAfter(&'static str),
    /// A COMPOUND operation without a name.
    Operation(u32),
    /// A procedure without a name.
    Procedure(u32),
    /// No call was captured, or too little of it.
    Unknown,
}

impl Label {
    /// The label of a transaction.
    pub fn of(transaction: &Transaction) -> Label {
        if let Some(operation) = ulb::principal_operation(&transaction.details) {
            let unread = transaction.call.as_ref().and_then(|call| call.unread);
            let is_cut = unread.is_some_and(|stop| stop.cause == Cause::TruncatedCapture);
            if is_cut && operation.kind.is_auxiliary() {
                let last = transaction.details.operations.last().unwrap_or(operation);
                return Label::CutAfter(last.kind.name());
            }
            return Label::of_operation(operation);
        }
        // A call that controls a context has the procedure number 0 (RFC 2203, section 5.2.2), but is
        // no NULL.
        if let Some(Security::GssControl(procedure)) = transaction.security
            && let Some(name) = procedure.name()
        {
            return Label::Named(name);
        }
        let Some(procedure) = transaction.procedure else { return Label::Unknown };
        procedure_name(procedure).map_or(Label::Procedure(procedure.number), Label::Named)
    }

    /// The label of one operation.
    pub fn of_operation(operation: &Operation) -> Label {
        match operation.kind {
            OperationKind::Unknown(number) => Label::Operation(number),
            OperationKind::UnknownProcedure(number) => Label::Procedure(number),
            kind => Label::Named(kind.name()),
        }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Label::Named(name) => f.write_str(name),
            Label::CutAfter(name) => write!(f, "cut after {name}"),
            Label::Operation(number) => write!(f, "operation {number}"),
            Label::Procedure(number) => write!(f, "procedure {number}"),
            Label::Unknown => f.write_str("?"),
        }
    }
}

/// The failure of a transaction, from the transport up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// RDMA_ERROR.
    Transport(Option<rpcrdma::Error>),
    /// The RPC was rejected or not carried out.
    Rpc(rpc::Status),
    /// The procedure failed.
    Status(u32),
}

impl Failure {
    /// The failure of `transaction`; `None` if its reply reports success.
    pub fn of(transaction: &Transaction) -> Option<Failure> {
        if transaction.error.is_some() || transaction.outcome == Outcome::TransportError {
            return Some(Failure::Transport(transaction.error));
        }
        match (transaction.rpc_status, transaction.status) {
            (Some(status), _) if status != rpc::Status::Success => Some(Failure::Rpc(status)),
            (_, Some(status)) if status != 0 => Some(Failure::Status(status)),
            _ => None,
        }
    }

    /// Whether it tells the client to send the request again later (RFC 1813, section 2.6; RFC 8881,
    /// section 15.1).
    pub fn is_delay(self, protocol: Option<Protocol>) -> bool {
        let (Failure::Status(status), Some(protocol)) = (self, protocol) else { return false };
        match (protocol.program, protocol.version) {
            (rpc::program::NFS | rpc::program::NFSACL, 3) => status == nfsstat3::JUKEBOX,
            (rpc::program::NFS, 4) => {
                use nfsstat4::{DELAY, GRACE, LAYOUTTRYLATER, RECALLCONFLICT};
                [DELAY, GRACE, LAYOUTTRYLATER, RECALLCONFLICT].contains(&status)
            }
            _ => false,
        }
    }
}

/// A failure for people: `NFS4ERR_NOENT (2)`. The protocol, if known, provides the status names.
pub struct FailureName(pub Failure, pub Option<Protocol>);

impl fmt::Display for FailureName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Failure::Transport(Some(error)) => write!(f, "RDMA_ERROR {error}"),
            Failure::Transport(None) => f.write_str("RDMA_ERROR"),
            Failure::Rpc(status) => status.fmt(f),
            Failure::Status(status) => match self.1.and_then(|p| status_name(p.program, p.version, status)) {
                Some(name) => write!(f, "{name} ({status})"),
                None => write!(f, "status {status}"),
            },
        }
    }
}

/// The word for an outcome, in every format.
pub const fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Completed => "completed",
        Outcome::NoReply => "no-reply",
        Outcome::NoCall => "no-call",
        Outcome::TransportError => "transport-error",
        Outcome::CutOff => "cut-off",
    }
}

/// The word for a direction, in every format.
pub const fn direction(direction: Direction) -> &'static str {
    match direction {
        Direction::Forward => "forward",
        Direction::Backward => "backward",
    }
}

/// A security flavor, in every format.
pub struct SecurityName(pub Security);

impl fmt::Display for SecurityName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Security::None => "none",
            Security::Sys => "sys",
            Security::Gss => "gss",
            Security::GssIntegrity => "gss-integrity",
            Security::GssPrivacy => "gss-privacy",
            Security::GssControl(_) => "gss-control",
            Security::GssUnknown => "gss-unknown",
            Security::Other(flavor) => return write!(f, "flavor-{flavor}"),
        })
    }
}

/// A name in quotes, with characters escaped that are unsafe on a terminal.
pub struct Quoted<'a>(pub &'a [u8]);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                match character {
                    '"' | '\\' => write!(f, "\\{character}")?,
                    character if is_hidden(character) => write!(f, "{}", character.escape_unicode())?,
                    character => write!(f, "{character}")?,
                }
            }
            chunk.invalid().iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
        }
        f.write_str("\"")
    }
}

/// A part of a message, in the terms of RFC 8166.
pub struct PartName(pub Part);

impl fmt::Display for PartName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Part::Send => f.write_str("Send"),
            Part::ReadChunk(index) => write!(f, "Read chunk {index}"),
            Part::WriteChunk(index) => write!(f, "Write chunk {index}"),
            Part::ReplyChunk => f.write_str("Reply chunk"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number without a name is its own label, for operations and procedures.
    #[test]
    fn unnamed_numbers_are_their_own_label() {
        for (kind, label) in [
            (OperationKind::Unknown(10_044), "operation 10044"),
            (OperationKind::UnknownProcedure(99), "procedure 99"),
            (ulb::Nfs4::Read.into(), "READ"),
        ] {
            assert_eq!(Label::of_operation(&Operation::new(kind)).to_string(), label);
        }
    }
}
