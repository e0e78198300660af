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
    /// From this time on: seconds after the first packet, or an RFC 3339 time
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    since: Option<Moment>,
    /// Before this time: seconds after the first packet, or an RFC 3339 time
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
    /// Only the connection with this number
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
    /// Only on the connection with this number
    #[arg(long = "connection", value_name = "N")]
    connections: Vec<u32>,
    /// Only with this XID: decimal, or hexadecimal after 0x
    #[arg(long = "xid", value_name = "XID", value_parser = parse_number)]
    xids: Vec<u32>,
    /// Only with this procedure, or with this operation in a COMPOUND
    #[arg(long = "operation", value_name = "NAME")]
    operations: Vec<String>,
    /// Only with this status: a number, a name with or without its prefix (NFS4ERR_), or `error` for every status but OK
    #[arg(long = "status", value_name = "STATUS", value_parser = StatusFilter::parse)]
    statuses: Vec<StatusFilter>,
    /// Only with this outcome
    #[arg(long = "outcome", value_name = "OUTCOME", value_enum)]
    outcomes: Vec<OutcomeArgument>,
    /// Only in this direction; forward calls come from the end that opened the connection
    #[arg(long, value_enum)]
    direction: Option<DirectionArgument>,
    /// Only with a longer latency than this: 250us, 5ms, 1.5s
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
    /// Only on the connection with this number
    #[arg(long = "connection", value_name = "N")]
    connections: Vec<u32>,
    /// Only to this destination queue pair: decimal, or hexadecimal after 0x
    #[arg(long = "qp", value_name = "QPN", value_parser = parse_number)]
    queue_pairs: Vec<u32>,
    /// Only with this opcode: a number after 0x, or part of the name, as in `read response`
    #[arg(long = "opcode", value_name = "NAME", value_parser = OpcodeFilter::parse)]
    opcodes: Vec<OpcodeFilter>,
    /// Only with this PSN, or with a PSN in the range FIRST-LAST, which may wrap
    #[arg(long = "psn", value_name = "PSN", value_parser = PsnRange::parse)]
    psns: Vec<PsnRange>,
    #[command(flatten)]
    span: SpanArguments,
    /// Include records that hold no transport packet
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
    /// Both call and reply were captured
    Completed,
    /// No reply came before the connection ended or the XID was reused
    NoReply,
    /// The call was not captured
    NoCall,
    /// An RDMA_ERROR came in place of a reply
    TransportError,
    /// The capture ended before the reply
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
