//! Filters for connections, transactions and packets.
//!
//! All options must match. An option with several values matches if one of them does.

mod people;
mod vocabulary;

pub use people::{AddressPattern, UserPattern};
pub use vocabulary::{operation_names, status_names};

use crate::names::{self, Failure};
use crate::paths::{self, FilePattern, TransactionRow};
use crate::time::{Moment, ParseError};
use core::fmt::Write as _;
use rdmascope_dissector::connection::{Connection, ConnectionId};
use rdmascope_dissector::event::Packet;
use rdmascope_dissector::frame::Address;
use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::{Direction, Outcome};
use rdmascope_dissector::ulb::Procedure;
use rdmascope_wire::bth::Opcode;
use rdmascope_wire::psn::Psn;
use rdmascope_wire::{Qpn, Xid, rdmap, rpc, rpcrdma};

/// A span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The start, inclusive.
    pub since: Option<Moment>,
    /// The end, exclusive.
    pub until: Option<Moment>,
}

impl Span {
    /// The times of both ends, in a capture that starts at `start`. An end with a plus sign counts
    /// from the start of the span.
    pub fn times(&self, start: Time) -> [Option<Time>; 2] {
        let since = self.since.map(|moment| moment.in_capture(start));
        let until = self.until.map(|moment| moment.relative_to(since.unwrap_or(start), start));
        [since, until]
    }

    /// Whether the span contains no time, in a capture that starts at `start`.
    pub fn is_empty(&self, start: Time) -> bool {
        let [since, until] = self.times(start);
        since.zip(until).is_some_and(|(since, until)| since >= until)
    }

    /// Whether something that lasted from `first` to `last` overlaps the span.
    pub fn overlaps(&self, first: Time, last: Time, start: Time) -> bool {
        if self.since.is_none() && self.until.is_none() {
            return true;
        }
        let [since, until] = self.times(start);
        since.is_none_or(|since| last >= since) && until.is_none_or(|until| first < until)
    }
}

/// A selection of connections.
#[derive(Clone, Debug, Default)]
pub struct ConnectionFilter {
    /// Connections with these numbers.
    pub connections: Vec<ConnectionId>,
    /// Connections with packets in this span.
    pub span: Span,
}

impl ConnectionFilter {
    /// Whether the filter selects `connection`, in a capture that starts at `start`.
    pub fn matches(&self, connection: &Connection, start: Time) -> bool {
        among(&self.connections, |id| *id == connection.id)
            && self.span.overlaps(connection.first, connection.last, start)
    }
}

/// A selection of transactions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransactionFilter {
    /// Transactions on connections with these numbers.
    pub connections: Vec<ConnectionId>,
    /// Transactions with these XIDs.
    pub xids: Vec<Xid>,
    /// Transactions with this procedure name, or an operation of this name in a COMPOUND. Case is
    /// ignored.
    pub operations: Vec<String>,
    /// Transactions that ended with one of these statuses.
    pub statuses: Vec<StatusFilter>,
    /// Transactions with one of these outcomes.
    pub outcomes: Vec<Outcome>,
    /// Transactions in this direction.
    pub direction: Option<Direction>,
    /// Transactions with a latency above this, in nanoseconds.
    pub latency_above: Option<u64>,
    /// Transactions whose principal operation concerns a file with a matching path.
    pub files: Vec<FilePattern>,
    /// Transactions of NFS clients with a matching address.
    pub clients: Vec<AddressPattern>,
    /// Transactions of NFS servers with a matching address.
    pub servers: Vec<AddressPattern>,
    /// Transactions with an AUTH_SYS credential of a matching user.
    pub users: Vec<UserPattern>,
    /// Transactions with their call in this span; if the call is unknown, with their reply.
    pub span: Span,
}

impl TransactionFilter {
    /// Whether the filter selects by connection only.
    pub fn is_of_connections(&self) -> bool {
        let TransactionFilter { connections, .. } = self;
        !connections.is_empty()
            && *self == TransactionFilter { connections: connections.clone(), ..TransactionFilter::default() }
    }

    /// Whether the filter selects by connection and time only.
    pub fn is_of_scope(&self) -> bool {
        let TransactionFilter { connections, span, .. } = self;
        let scope = TransactionFilter { connections: connections.clone(), span: *span, ..Default::default() };
        *self == scope
    }

    /// Whether the filter selects `transaction`, in a capture that starts at `start`.
    pub fn matches(&self, transaction: &impl Filtered, start: Time) -> bool {
        among(&self.connections, |id| *id == transaction.connection())
            && among(&self.xids, |xid| *xid == transaction.xid())
            && among(&self.outcomes, |outcome| *outcome == transaction.outcome())
            && self.direction.is_none_or(|direction| direction == transaction.direction())
            && among(&self.operations, |name| is_named(transaction, name))
            && among(&self.statuses, |status| status.matches(transaction))
            && among(&self.clients, |pattern| transaction.client().is_some_and(|it| pattern.matches(it)))
            && among(&self.servers, |pattern| transaction.server().is_some_and(|it| pattern.matches(it)))
            && among(&self.users, |pattern| {
                let mut found = false;
                transaction.user(&mut |uid, machine| found = pattern.matches(uid, machine));
                found
            })
            && among(&self.files, |pattern| {
                let mut found = false;
                transaction.files(&mut |path| found |= pattern.matches(path));
                found
            })
            && self
                .latency_above
                .is_none_or(|limit| transaction.waited().is_some_and(|waited| waited > limit))
            && transaction.began().is_none_or(|time| self.span.overlaps(time, time, start))
    }
}

/// The facts of a transaction that a [`TransactionFilter`] needs. A whole transaction has them, and
/// so does a row that represents it.
pub trait Filtered {
    /// Its connection.
    fn connection(&self) -> ConnectionId;
    /// Its XID (rdma_xid).
    fn xid(&self) -> Xid;
    /// Its outcome.
    fn outcome(&self) -> Outcome;
    /// Its direction.
    fn direction(&self) -> Direction;
    /// Its procedure.
    fn procedure(&self) -> Option<Procedure>;
    /// Whether it has an operation with this name, ignoring case.
    fn has_operation(&self, name: &str) -> bool;
    /// The status at the start of its results.
    fn status(&self) -> Option<u32>;
    /// Its failure, if any.
    fn failure(&self) -> Option<Failure>;
    /// How long its caller waited, in nanoseconds: the latency, or, without a reply, at least this.
    fn waited(&self) -> Option<u64>;
    /// The time that decides whether it is in a span: that of its call, or else of its reply.
    fn began(&self) -> Option<Time>;
    /// The address of the NFS client.
    fn client(&self) -> Option<Address>;
    /// The address of the NFS server.
    fn server(&self) -> Option<Address>;
    /// Lends the uid and machine name of an AUTH_SYS credential.
    fn user(&self, see: &mut dyn FnMut(u32, &[u8]));
    /// Lends the known paths of the files that the principal operation concerns.
    fn files(&self, see: &mut dyn FnMut(&[u8]));
}

impl Filtered for TransactionRow<'_> {
    fn connection(&self) -> ConnectionId {
        self.connection
    }

    fn xid(&self) -> Xid {
        self.xid
    }

    fn outcome(&self) -> Outcome {
        self.outcome
    }

    fn direction(&self) -> Direction {
        self.direction
    }

    fn procedure(&self) -> Option<Procedure> {
        self.procedure
    }

    fn has_operation(&self, name: &str) -> bool {
        self.details.operations.iter().any(|operation| operation.name().eq_ignore_ascii_case(name))
    }

    fn status(&self) -> Option<u32> {
        self.status
    }

    fn failure(&self) -> Option<Failure> {
        Failure::of(self.transaction)
    }

    fn waited(&self) -> Option<u64> {
        self.transaction.waited()
    }

    fn began(&self) -> Option<Time> {
        self.call.as_ref().or(self.reply.as_ref()).map(|message| message.seen.time)
    }

    fn client(&self) -> Option<Address> {
        paths::client(self.transaction)
    }

    fn server(&self) -> Option<Address> {
        paths::server(self.transaction)
    }

    fn user(&self, see: &mut dyn FnMut(u32, &[u8])) {
        if let Some(user) = self.transaction.user {
            see(user.uid, self.details.bytes(user.machine));
        }
    }

    fn files(&self, see: &mut dyn FnMut(&[u8])) {
        self.file(see);
        self.other_file(see);
    }
}

fn is_named(transaction: &impl Filtered, name: &str) -> bool {
    let procedure = transaction.procedure().and_then(names::procedure_name);
    procedure.is_some_and(|procedure| procedure.eq_ignore_ascii_case(name)) || transaction.has_operation(name)
}

/// A selection of packets.
#[derive(Clone, Debug, Default)]
pub struct PacketFilter {
    /// Packets on connections with these numbers.
    pub connections: Vec<ConnectionId>,
    /// Packets to these queue pairs.
    pub queue_pairs: Vec<Qpn>,
    /// Packets with these opcodes.
    pub opcodes: Vec<OpcodeFilter>,
    /// Packets with PSNs in one of these ranges.
    pub psns: Vec<PsnRange>,
    /// Packets captured in this span.
    pub span: Span,
    /// Whether to include records that contain neither a transport packet nor a segment of an iWARP
    /// connection.
    pub all: bool,
}

impl PacketFilter {
    /// Whether the filter selects `packet`, in a capture that starts at `start`.
    pub fn matches(&self, packet: &Packet<'_>, start: Time) -> bool {
        let time = packet.record.time;
        if !self.span.overlaps(time, time, start)
            || !among(&self.connections, |id| packet.connection == Some(*id))
        {
            return false;
        }
        match &packet.headers {
            Some(Ok(headers)) => {
                among(&self.queue_pairs, |qpn| headers.bth.destination_qp == *qpn)
                    && among(&self.opcodes, |opcode| opcode.matches(headers.bth.opcode))
                    && among(&self.psns, |range| range.contains(headers.bth.psn))
            }
            _ => {
                self.queue_pairs.is_empty()
                    && self.psns.is_empty()
                    && among(&self.opcodes, |opcode| packet.opcodes().any(|of| opcode.matches_rdmap(of)))
                    && (self.all || packet.frame.is_ok() || packet.contents.is_some())
            }
        }
    }
}

/// Whether one of `values` matches, or there are none.
pub(crate) fn among<T>(values: &[T], matches: impl FnMut(&T) -> bool) -> bool {
    values.is_empty() || values.iter().any(matches)
}

/// Parses a 32-bit number: decimal, or hexadecimal after `0x`.
pub fn parse_number(text: &str) -> Result<u32, ParseError> {
    let hexadecimal = text.strip_prefix("0x").or(text.strip_prefix("0X"));
    match hexadecimal {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    }
    .map_err(|_| ParseError("expected a 32-bit number, decimal or hexadecimal after 0x"))
}

/// Parses a PSN or a queue pair number, which have 24 bits, in the same forms.
pub fn parse_24_bits(text: &str) -> Result<u32, ParseError> {
    let number = parse_number(text).ok().filter(|number| *number < Psn::MODULUS);
    number.ok_or(ParseError("expected a number of 24 bits, decimal or hexadecimal after 0x"))
}

/// A filter on the status of a transaction's reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatusFilter {
    /// Any failure.
    Error,
    /// This status of the procedure.
    Number(u32),
    /// A status with this name: of the procedure, of the RPC, or an RDMA_ERROR.
    Name(String),
}

impl StatusFilter {
    /// Parses `error` (any failure), a number, or a name.
    pub fn parse(text: &str) -> Result<StatusFilter, ParseError> {
        if text.eq_ignore_ascii_case("error") {
            Ok(StatusFilter::Error)
        } else if text.starts_with(|c: char| c.is_ascii_digit()) {
            Ok(StatusFilter::Number(parse_number(text)?))
        } else if text.is_empty() {
            Err(ParseError("expected a name or a number"))
        } else {
            Ok(StatusFilter::Name(text.to_owned()))
        }
    }

    fn matches(&self, transaction: &impl Filtered) -> bool {
        match self {
            StatusFilter::Error => transaction.failure().is_some(),
            StatusFilter::Number(number) => transaction.status() == Some(*number),
            StatusFilter::Name(name) => match transaction.failure() {
                Some(Failure::Transport(error)) => {
                    name.eq_ignore_ascii_case("RDMA_ERROR")
                        || error.is_some_and(|error| name.eq_ignore_ascii_case(error_name(error)))
                }
                Some(Failure::Rpc(status)) => name.eq_ignore_ascii_case(rpc_status_name(status)),
                Some(Failure::Status(_)) | None => {
                    let full = transaction
                        .procedure()
                        .zip(transaction.status())
                        .and_then(|(procedure, status)| procedure.status_name(status));
                    full.is_some_and(|full| {
                        full.eq_ignore_ascii_case(name)
                            || names::short_status(full).eq_ignore_ascii_case(name)
                    })
                }
            },
        }
    }
}

fn error_name(error: rpcrdma::Error) -> &'static str {
    match error {
        rpcrdma::Error::Version { .. } => "ERR_VERS",
        rpcrdma::Error::Chunk => "ERR_CHUNK",
        rpcrdma::Error::Unknown(_) => "",
    }
}

fn rpc_status_name(status: rpc::Status) -> &'static str {
    match status {
        rpc::Status::Success => "SUCCESS",
        rpc::Status::ProgramUnavailable => "PROG_UNAVAIL",
        rpc::Status::ProgramMismatch { .. } => "PROG_MISMATCH",
        rpc::Status::ProcedureUnavailable => "PROC_UNAVAIL",
        rpc::Status::GarbageArguments => "GARBAGE_ARGS",
        rpc::Status::SystemError => "SYSTEM_ERR",
        rpc::Status::RpcMismatch { .. } => "RPC_MISMATCH",
        rpc::Status::AuthError(_) => "AUTH_ERROR",
        rpc::Status::UnknownAccepted(_) | rpc::Status::UnknownDenied(_) => "",
    }
}

/// Opcodes, by number or by part of the name.
#[derive(Clone, Copy, Debug)]
pub struct OpcodeFilter {
    of_bth: [bool; 256],
    of_rdmap: [bool; 16],
}

impl OpcodeFilter {
    /// Parses the number of an opcode of a BTH, or a text that selects all opcodes with it in their
    /// names, of a BTH and of RDMAP. Case is ignored.
    pub fn parse(text: &str) -> Result<OpcodeFilter, ParseError> {
        let mut wanted = [false; 256];
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            let number = u8::try_from(parse_number(text)?).map_err(|_| ParseError("an opcode has 8 bits"))?;
            wanted[usize::from(number)] = true;
            return Ok(OpcodeFilter { of_bth: wanted, of_rdmap: [false; 16] });
        }
        let part = text.to_ascii_lowercase();
        let mut name = String::new();
        for number in 0..=u8::MAX {
            let opcode = Opcode(number);
            // An opcode without a name is displayed as a number, which is not part of a name.
            if opcode.operation().is_none() && opcode != Opcode::CNP {
                continue;
            }
            name.clear();
            write!(name, "{opcode}").expect("a string takes all");
            wanted[usize::from(number)] = name.to_ascii_lowercase().contains(&part);
        }
        let of_rdmap = core::array::from_fn(|bits| {
            let opcode = rdmap::Opcode::from_bits(bits as u8);
            !matches!(opcode, rdmap::Opcode::Reserved(_))
                && opcode.name().to_ascii_lowercase().contains(&part)
        });
        if !wanted.contains(&true) && !of_rdmap.contains(&true) {
            return Err(ParseError("no opcode has this text in its name"));
        }
        Ok(OpcodeFilter { of_bth: wanted, of_rdmap })
    }

    fn matches(&self, opcode: Opcode) -> bool {
        self.of_bth[usize::from(opcode.0)]
    }

    fn matches_rdmap(&self, opcode: rdmap::Opcode) -> bool {
        self.of_rdmap[usize::from(opcode.bits())]
    }
}

/// An inclusive range of PSNs, which may wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PsnRange {
    /// The first PSN.
    pub first: Psn,
    /// The last PSN.
    pub last: Psn,
}

impl PsnRange {
    /// Parses `FIRST-LAST`, or one PSN.
    pub fn parse(text: &str) -> Result<PsnRange, ParseError> {
        let psn = |text| parse_24_bits(text).map(Psn::new);
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Ok(PsnRange { first: psn(first)?, last: psn(last)? })
    }

    fn contains(self, psn: Psn) -> bool {
        psn.minus(self.first.value()).value() <= self.last.minus(self.first.value()).value()
    }
}

#[cfg(test)]
mod tests;
