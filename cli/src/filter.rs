//! Which connections, transactions and packets are wanted.
//!
//! Different options must all hold; of an option given more than once, one value has to match.

use crate::names::{self, Failure};
use crate::time::{Moment, parse_duration};
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use core::fmt::Write as _;
use rdmascope_dissector::connection::{Connection, ConnectionId};
use rdmascope_dissector::event::Packet;
use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::{Direction, Outcome, Transaction};
use rdmascope_wire::bth::Opcode;
use rdmascope_wire::psn::Psn;
use rdmascope_wire::{Qpn, Xid, rpc, rpcrdma};

/// A span of time.
#[derive(Args, Debug, Default)]
pub(crate) struct Span {
    /// From this time on: seconds from the first packet, or RFC 3339
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    since: Option<Moment>,
    /// Up to, and not including, this time
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    until: Option<Moment>,
}

impl Span {
    /// Whether something that lasted from `first` to `last` reaches into the span.
    fn overlaps(&self, first: Time, last: Time, start: Time) -> bool {
        self.since.is_none_or(|since| last >= since.in_capture(start))
            && self.until.is_none_or(|until| first < until.in_capture(start))
    }
}

/// Which connections are listed.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Filters")]
pub(crate) struct ConnectionFilter {
    /// The connection of this number
    #[arg(long = "connection", value_name = "N")]
    connections: Vec<u32>,
    #[command(flatten)]
    span: Span,
}

impl ConnectionFilter {
    /// Whether `connection` is wanted, in a capture that starts at `start`.
    pub(crate) fn matches(&self, connection: &Connection, start: Time) -> bool {
        among(&self.connections, |number| ConnectionId(*number) == connection.id)
            && self.span.overlaps(connection.first, connection.last, start)
    }
}

/// Which transactions are listed.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Filters")]
pub(crate) struct TransactionFilter {
    /// On the connection of this number
    #[arg(long = "connection", value_name = "N")]
    connections: Vec<u32>,
    /// With this XID: decimal, or hexadecimal after 0x
    #[arg(long = "xid", value_name = "XID", value_parser = parse_number)]
    xids: Vec<u32>,
    /// With this procedure, or this operation in a COMPOUND
    #[arg(long = "operation", value_name = "NAME")]
    operations: Vec<String>,
    /// That ended with this status: a number, a name with or without its NFS4ERR_, or `error` for anything but OK
    #[arg(long = "status", value_name = "STATUS", value_parser = StatusFilter::parse)]
    statuses: Vec<StatusFilter>,
    /// That ended so
    #[arg(long = "outcome", value_name = "OUTCOME", value_enum)]
    outcomes: Vec<OutcomeFilter>,
    /// That run this way: forward is from the side that opened the connection
    #[arg(long, value_enum)]
    direction: Option<DirectionFilter>,
    /// That took longer than this: 250us, 5ms, 1.5s
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    latency_above: Option<u64>,
    #[command(flatten)]
    span: Span,
}

impl TransactionFilter {
    /// Whether `transaction` is wanted, in a capture that starts at `start`.
    pub(crate) fn matches(&self, transaction: &Transaction, start: Time) -> bool {
        among(&self.connections, |number| ConnectionId(*number) == transaction.connection)
            && among(&self.xids, |xid| Xid(*xid) == transaction.xid)
            && among(&self.outcomes, |outcome| outcome.outcome() == transaction.outcome)
            && self.direction.is_none_or(|direction| direction.direction() == transaction.direction)
            && among(&self.operations, |name| is_named(transaction, name))
            && among(&self.statuses, |status| status.matches(transaction))
            && self.latency_above.is_none_or(|limit| transaction.latency().is_some_and(|l| l > limit))
            && began(transaction).is_none_or(|time| self.span.overlaps(time, time, start))
    }
}

/// When a transaction counts as having been: when its call was there, else its reply.
fn began(transaction: &Transaction) -> Option<Time> {
    transaction.call.as_ref().or(transaction.reply.as_ref()).map(|message| message.seen.time)
}

fn is_named(transaction: &Transaction, name: &str) -> bool {
    let procedure = transaction.procedure.and_then(names::procedure_name);
    procedure.is_some_and(|procedure| procedure.eq_ignore_ascii_case(name))
        || transaction.details.operations.iter().any(|operation| operation.name.eq_ignore_ascii_case(name))
}

/// Which packets are listed.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Filters")]
pub(crate) struct PacketFilter {
    /// On the connection of this number
    #[arg(long = "connection", value_name = "N")]
    connections: Vec<u32>,
    /// To this queue pair: decimal, or hexadecimal after 0x
    #[arg(long = "qp", value_name = "QPN", value_parser = parse_number)]
    queue_pairs: Vec<u32>,
    /// With this opcode: its number after 0x, or part of its name as in `read response`
    #[arg(long = "opcode", value_name = "NAME", value_parser = OpcodeFilter::parse)]
    opcodes: Vec<OpcodeFilter>,
    /// With this PSN, or one of FIRST-LAST, which may wrap
    #[arg(long = "psn", value_name = "PSN", value_parser = PsnRange::parse)]
    psns: Vec<PsnRange>,
    #[command(flatten)]
    span: Span,
    /// Also records that hold no transport packet
    #[arg(long)]
    all: bool,
}

impl PacketFilter {
    /// Whether `packet` is wanted, in a capture that starts at `start`.
    pub(crate) fn matches(&self, packet: &Packet<'_>, start: Time) -> bool {
        let time = packet.record.time;
        if !self.span.overlaps(time, time, start)
            || !among(&self.connections, |number| packet.connection == Some(ConnectionId(*number)))
        {
            return false;
        }
        match &packet.headers {
            Some(Ok(headers)) => {
                among(&self.queue_pairs, |qpn| headers.bth.destination_qp == Qpn(*qpn))
                    && among(&self.opcodes, |opcode| opcode.matches(headers.bth.opcode))
                    && among(&self.psns, |range| range.contains(headers.bth.psn))
            }
            _ => {
                let asks_for_headers =
                    !(self.queue_pairs.is_empty() && self.opcodes.is_empty() && self.psns.is_empty());
                !asks_for_headers && (self.all || packet.frame.is_ok())
            }
        }
    }
}

/// Whether one of `values` matches; nothing asked for matches everything.
fn among<T>(values: &[T], matches: impl FnMut(&T) -> bool) -> bool {
    values.is_empty() || values.iter().any(matches)
}

/// A number of 32 bits: decimal, or hexadecimal after `0x`.
pub(crate) fn parse_number(text: &str) -> Result<u32> {
    let hexadecimal = text.strip_prefix("0x").or(text.strip_prefix("0X"));
    match hexadecimal {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    }
    .context("a number of 32 bits is expected: decimal, or hexadecimal after 0x")
}

/// How a transaction is to have ended, according to its reply.
#[derive(Clone, Debug, PartialEq, Eq)]
enum StatusFilter {
    /// In some way that is not success.
    Error,
    /// With this status of its procedure.
    Number(u32),
    /// With a status of this name: of the procedure, of the RPC, or an RDMA_ERROR.
    Name(String),
}

impl StatusFilter {
    fn parse(text: &str) -> Result<StatusFilter> {
        if text.eq_ignore_ascii_case("error") {
            Ok(StatusFilter::Error)
        } else if text.starts_with(|c: char| c.is_ascii_digit()) {
            Ok(StatusFilter::Number(parse_number(text)?))
        } else if text.is_empty() {
            bail!("a name or a number is expected")
        } else {
            Ok(StatusFilter::Name(text.to_owned()))
        }
    }

    fn matches(&self, transaction: &Transaction) -> bool {
        match self {
            StatusFilter::Error => Failure::of(transaction).is_some(),
            StatusFilter::Number(number) => transaction.status == Some(*number),
            StatusFilter::Name(name) => match Failure::of(transaction) {
                Some(Failure::Transport(error)) => {
                    name.eq_ignore_ascii_case("RDMA_ERROR")
                        || error.is_some_and(|error| name.eq_ignore_ascii_case(error_name(error)))
                }
                Some(Failure::Rpc(status)) => name.eq_ignore_ascii_case(rpc_status_name(status)),
                Some(Failure::Status(_)) | None => {
                    let full =
                        transaction.procedure.zip(transaction.status).and_then(|(procedure, status)| {
                            names::status_name(procedure.program, procedure.version, status)
                        });
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

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum OutcomeFilter {
    /// Call and reply are there
    Completed,
    /// The connection ended, or the XID was used again
    NoReply,
    /// The call was not captured
    NoCall,
    /// RDMA_ERROR in place of a reply
    TransportError,
    /// The capture ended first
    CutOff,
}

impl OutcomeFilter {
    fn outcome(self) -> Outcome {
        match self {
            OutcomeFilter::Completed => Outcome::Completed,
            OutcomeFilter::NoReply => Outcome::NoReply,
            OutcomeFilter::NoCall => Outcome::NoCall,
            OutcomeFilter::TransportError => Outcome::TransportError,
            OutcomeFilter::CutOff => Outcome::CutOff,
        }
    }
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum DirectionFilter {
    Forward,
    Backward,
}

impl DirectionFilter {
    fn direction(self) -> Direction {
        match self {
            DirectionFilter::Forward => Direction::Forward,
            DirectionFilter::Backward => Direction::Backward,
        }
    }
}

/// Opcodes, by number or by part of the name.
#[derive(Clone, Copy, Debug)]
struct OpcodeFilter([bool; 256]);

impl OpcodeFilter {
    fn parse(text: &str) -> Result<OpcodeFilter> {
        let mut wanted = [false; 256];
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            let number = u8::try_from(parse_number(text)?).context("an opcode has 8 bits")?;
            wanted[usize::from(number)] = true;
            return Ok(OpcodeFilter(wanted));
        }
        let part = text.to_ascii_lowercase();
        let mut name = String::new();
        for number in 0..=u8::MAX {
            let opcode = Opcode(number);
            // An opcode without a name shows its number, which is no part of a name.
            if opcode.operation().is_none() && opcode != Opcode::CNP {
                continue;
            }
            name.clear();
            write!(name, "{opcode}").context("a string takes all")?;
            wanted[usize::from(number)] = name.to_ascii_lowercase().contains(&part);
        }
        if !wanted.contains(&true) {
            bail!("no opcode has this in its name");
        }
        Ok(OpcodeFilter(wanted))
    }

    fn matches(&self, opcode: Opcode) -> bool {
        self.0[usize::from(opcode.0)]
    }
}

/// PSNs from one to another, both included; it may wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PsnRange {
    first: Psn,
    last: Psn,
}

impl PsnRange {
    fn parse(text: &str) -> Result<PsnRange> {
        let psn = |text: &str| -> Result<Psn> {
            let number = parse_number(text)?;
            if number >= Psn::MODULUS {
                bail!("a PSN has 24 bits");
            }
            Ok(Psn::new(number))
        };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Ok(PsnRange { first: psn(first)?, last: psn(last)? })
    }

    fn contains(self, psn: Psn) -> bool {
        psn.minus(self.first.value()).value() <= self.last.minus(self.first.value()).value()
    }
}

#[cfg(test)]
mod tests;
