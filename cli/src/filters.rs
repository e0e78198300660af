//! The options that say which connections, transactions and packets are wanted.

use clap::{Args, ValueEnum};
use rdmascope_dissector::connection::ConnectionId;
use rdmascope_dissector::transaction::{Direction, Outcome};
use rdmascope_present::filter::{
    ConnectionFilter, OpcodeFilter, PacketFilter, PsnRange, Span, StatusFilter, TransactionFilter,
    parse_number,
};
use rdmascope_present::time::{Moment, parse_duration};
use rdmascope_wire::{Qpn, Xid};

/// A span of time.
#[derive(Args, Debug, Default)]
pub(crate) struct SpanArguments {
    /// From this time on: seconds from the first packet, or RFC 3339
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    since: Option<Moment>,
    /// Up to, and not including, this time
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    until: Option<Moment>,
}

impl SpanArguments {
    fn span(&self) -> Span {
        Span { since: self.since, until: self.until }
    }
}

/// Which connections are listed.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Filters")]
pub(crate) struct ConnectionArguments {
    /// The connection of this number
    #[arg(long = "connection", value_name = "N")]
    connections: Vec<u32>,
    #[command(flatten)]
    span: SpanArguments,
}

impl ConnectionArguments {
    /// What they ask for.
    pub(crate) fn filter(&self) -> ConnectionFilter {
        ConnectionFilter { connections: ids(&self.connections), span: self.span.span() }
    }
}

/// Which transactions are listed.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Filters")]
pub(crate) struct TransactionArguments {
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
    /// With this outcome
    #[arg(long = "outcome", value_name = "OUTCOME", value_enum)]
    outcomes: Vec<OutcomeArgument>,
    /// That run this way: forward is from the side that opened the connection
    #[arg(long, value_enum)]
    direction: Option<DirectionArgument>,
    /// That took longer than this: 250us, 5ms, 1.5s
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    latency_above: Option<u64>,
    #[command(flatten)]
    span: SpanArguments,
}

impl TransactionArguments {
    /// What they ask for.
    pub(crate) fn filter(&self) -> TransactionFilter {
        TransactionFilter {
            connections: ids(&self.connections),
            xids: self.xids.iter().copied().map(Xid).collect(),
            operations: self.operations.clone(),
            statuses: self.statuses.clone(),
            outcomes: self.outcomes.iter().map(|outcome| outcome.outcome()).collect(),
            direction: self.direction.map(DirectionArgument::direction),
            latency_above: self.latency_above,
            span: self.span.span(),
        }
    }
}

/// Which packets are listed.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Filters")]
pub(crate) struct PacketArguments {
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
    span: SpanArguments,
    /// Also records that hold no transport packet
    #[arg(long)]
    all: bool,
}

impl PacketArguments {
    /// What they ask for.
    pub(crate) fn filter(&self) -> PacketFilter {
        PacketFilter {
            connections: ids(&self.connections),
            queue_pairs: self.queue_pairs.iter().copied().map(Qpn).collect(),
            opcodes: self.opcodes.clone(),
            psns: self.psns.clone(),
            span: self.span.span(),
            all: self.all,
        }
    }
}

fn ids(numbers: &[u32]) -> Vec<ConnectionId> {
    numbers.iter().copied().map(ConnectionId).collect()
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum OutcomeArgument {
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

impl OutcomeArgument {
    fn outcome(self) -> Outcome {
        match self {
            OutcomeArgument::Completed => Outcome::Completed,
            OutcomeArgument::NoReply => Outcome::NoReply,
            OutcomeArgument::NoCall => Outcome::NoCall,
            OutcomeArgument::TransportError => Outcome::TransportError,
            OutcomeArgument::CutOff => Outcome::CutOff,
        }
    }
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum DirectionArgument {
    Forward,
    Backward,
}

impl DirectionArgument {
    fn direction(self) -> Direction {
        match self {
            DirectionArgument::Forward => Direction::Forward,
            DirectionArgument::Backward => Direction::Backward,
        }
    }
}

#[cfg(test)]
mod tests;
