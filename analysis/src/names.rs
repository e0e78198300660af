//! What things are called: the dissector's names, joined into the labels that output shows.

use crate::units::is_hidden;
use core::fmt;
use rdmascope_dissector::connection::Connection;
use rdmascope_dissector::transaction::{Direction, Outcome, Part, Security, Transaction};
use rdmascope_dissector::ulb::{self, Operation, OperationKind, Procedure};
use rdmascope_wire::{Cause, cm, private_data, rpc, rpcrdma};

/// The name of a procedure: `WRITE`, `COMPOUND`.
pub fn procedure_name(procedure: Procedure) -> Option<&'static str> {
    ulb::procedure_name(procedure)
}

/// The name of a status: `NFS4ERR_NOENT`.
pub fn status_name(program: u32, version: u32, status: u32) -> Option<&'static str> {
    ulb::status_name(program, version, status)
}

/// The name without what all names of its protocol begin with: `NOENT`.
pub fn short_status(name: &str) -> &str {
    name.split_once('_').map_or(name, |(_, short)| short)
}

/// The fields of a CM message that tell one from another, each behind a space.
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
            write!(out, " {}", RejectReason(reject.reason))
        }
        cm::Message::DisconnectRequest(request) => write!(out, " remote QP {}", request.remote_qpn),
        cm::Message::ServiceIdResolutionRequest(request) => write!(out, " service {}", request.service_id),
        cm::Message::ServiceIdResolutionReply(reply) => write!(out, " QP {}", reply.qpn),
        cm::Message::Unknown { attribute, .. } => write!(out, " attribute 0x{attribute:04x}"),
        _ => Ok(()),
    }
}

/// The reason of a REJ with its words: `reason 8: invalid service ID` (IBTA volume 1, section 12.6.7.2).
pub struct RejectReason(pub u16);

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "reason {}", self.0)?;
        cm::reject_reason_name(self.0).map_or(Ok(()), |name| write!(f, ": {name}"))
    }
}

/// Why a connection was rejected; `None`: an MPA Reply gives no reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejection(pub Option<u16>);

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(reason) => RejectReason(reason).fmt(f),
            None => f.write_str("the MPA Reply has R set"),
        }
    }
}

/// RFC 8797 private data, where there is any.
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

/// Whether the ends of a connection agreed on remote invalidation, and which end uses it though
/// they did not: `not agreed; used by the server`.
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
    /// The minor version, where a COMPOUND named one.
    pub minor: Option<u32>,
}

impl Protocol {
    /// The protocol of a transaction whose call is known.
    pub fn of(transaction: &Transaction) -> Option<Protocol> {
        let Procedure { program, version, .. } = transaction.procedure?;
        Some(Protocol { program, version, minor: transaction.details.minor_version })
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.program, self.minor) {
            (rpc::program::NFS, Some(minor)) => write!(f, "NFSv{}.{minor}", self.version),
            // The callback program has version 1 whatever the minor version; people know it as part of NFSv4.
            (rpc::program::CALLBACK, Some(minor)) => write!(f, "NFSv4.{minor}"),
            (rpc::program::CALLBACK, None) => f.write_str("NFSv4"),
            (program, _) => match ulb::program_name(program) {
                Some(name) => write!(f, "{name}v{}", self.version),
                None => write!(f, "{program}v{}", self.version),
            },
        }
    }
}

/// What a transaction is about: its principal operation, else its procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Label {
    /// A name of the specification.
    Named(&'static str),
    /// A COMPOUND whose call the capture cuts off behind this auxiliary operation: what it is about is not known.
    CutAfter(&'static str),
    /// An operation of a COMPOUND that has no name.
    Operation(u32),
    /// A procedure that has no name.
    Procedure(u32),
    /// No call was captured, or not enough of it.
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

/// What is wrong with a transaction, from the transport up; `None` where its reply says that all is well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// RDMA_ERROR.
    Transport(Option<rpcrdma::Error>),
    /// The RPC was not carried out.
    Rpc(rpc::Status),
    /// The procedure failed.
    Status(u32),
}

impl Failure {
    /// What is wrong with `transaction`.
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
}

/// What is wrong, for people: `NFS4ERR_NOENT (2)`. The protocol, where it is known, has the names of statuses.
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
            Security::GssControl => "gss-control",
            Security::Other(flavor) => return write!(f, "flavor-{flavor}"),
        })
    }
}

/// A name in quotes, with whatever a terminal must not see escaped.
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

/// A part of a message, in the words of RFC 8166.
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

    /// A number without a row stands for itself, whichever kind it is of.
    #[test]
    fn labels_of_numbers_without_a_name() {
        for (kind, label) in [
            (OperationKind::Unknown(10_044), "operation 10044"),
            (OperationKind::UnknownProcedure(99), "procedure 99"),
            (ulb::Nfs4::Read.into(), "READ"),
        ] {
            assert_eq!(Label::of_operation(&Operation::new(kind)).to_string(), label);
        }
    }
}
