//! Filter options for connections, transactions, packets, events and NFSv4 state.

use anyhow::{Result, bail, ensure};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Arg, Args, Command, ValueEnum};
use rdmascope_analysis::ending::Ending;
use rdmascope_analysis::events::{EventFilter, Kind};
use rdmascope_analysis::filter::{
    AddressPattern, ConnectionFilter, OpcodeFilter, PacketFilter, PsnRange, Span, StatusFilter,
    TransactionFilter, UserPattern, operation_names, parse_24_bits, parse_number, status_names,
};
use rdmascope_analysis::observer::Observer;
use rdmascope_analysis::paths::FilePattern;
use rdmascope_analysis::state::{End, Kind as State, StateFilter};
use rdmascope_analysis::time::{Moment, Rfc3339, parse_duration};
use rdmascope_dissector::connection::ConnectionId;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::transaction::{Direction, Outcome};
use rdmascope_present::did_you_mean::known;
pub(crate) use rdmascope_present::did_you_mean::similar;
use rdmascope_wire::{Qpn, Xid};
use std::collections::BTreeSet;
use std::ffi::OsStr;

/// The --since and --until options.
#[derive(Args, Debug, Default)]
pub(crate) struct SpanArguments {
    /// Start of the time span: seconds after the first packet (12.5), a time of day (09:41,
    /// 09:41:06.5), a date, a date and time, or an RFC 3339 time
    ///
    /// Dates and times without an offset are in local time; the environment variable TZ selects
    /// another zone. A time of day is on the day of the first packet, or on the next day if that is
    /// more than twelve hours before the first packet.
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    since: Option<Moment>,
    /// End of the time span (exclusive), as for --since; `+3s` is three seconds after --since
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    until: Option<Moment>,
}

impl SpanArguments {
    fn span(&self) -> Span {
        Span { since: self.since, until: self.until }
    }
}

/// Filters for connections.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Filters")]
pub(crate) struct ConnectionArguments {
    /// Only the connection with this number
    #[arg(long = "connection", value_name = "N", value_delimiter = ',')]
    connections: Vec<u32>,
    #[command(flatten)]
    span: SpanArguments,
}

impl ConnectionArguments {
    /// Returns the filter for these options.
    pub(crate) fn filter(&self) -> ConnectionFilter {
        ConnectionFilter { connections: ids(&self.connections), span: self.span.span() }
    }
}

/// Filters for events.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Filters")]
pub(crate) struct EventArguments {
    /// Only events on the connection with this number
    #[arg(long = "connection", value_name = "N", value_delimiter = ',')]
    connections: Vec<u32>,
    /// Only events of this kind, such as `service-lost`; docs/json.md lists the kinds
    #[arg(long = "kind", value_name = "NAME", value_parser = KIND, value_delimiter = ',', hide_possible_values = true)]
    kinds: Vec<String>,
    #[command(flatten)]
    span: SpanArguments,
}

impl EventArguments {
    /// Returns the filter for these options.
    pub(crate) fn filter(&self) -> EventFilter {
        let is_selected = |kind: &Kind| self.kinds.iter().any(|name| name.eq_ignore_ascii_case(kind.word()));
        EventFilter {
            connections: ids(&self.connections),
            kinds: Kind::ALL.into_iter().filter(is_selected).collect(),
            span: self.span.span(),
        }
    }
}

const KIND: Named =
    Named { kind: "event", names: || Kind::ALL.map(Kind::word).to_vec(), is_other: |_| false };

/// Filters for lifetimes of NFSv4 state.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Filters")]
pub(crate) struct StateArguments {
    /// Only state that was seen first or last on the connection with this number
    #[arg(long = "connection", value_name = "N", value_delimiter = ',')]
    connections: Vec<u32>,
    /// Only state of this kind
    #[arg(long = "kind", value_name = "KIND", value_parser = words(State::ALL.map(State::word)), value_delimiter = ',', ignore_case = true)]
    kinds: Vec<String>,
    /// Only state that ended in this way; docs/json.md explains the values
    #[arg(long = "end", value_name = "WORD", value_parser = words(End::ALL.map(End::word)), value_delimiter = ',', ignore_case = true)]
    ends: Vec<String>,
    /// Only state that was open at the end of the capture; same as --end open
    #[arg(long, conflicts_with = "ends")]
    open: bool,
    /// Only state that the server recalled
    #[arg(long)]
    recalled: bool,
    #[command(flatten)]
    span: SpanArguments,
}

impl StateArguments {
    /// Returns the filter for these options.
    pub(crate) fn filter(&self) -> StateFilter {
        let is_selected =
            |names: &[String], word: &str| names.iter().any(|name| name.eq_ignore_ascii_case(word));
        let ends = End::ALL
            .into_iter()
            .filter(|end| is_selected(&self.ends, end.word()) || (self.open && *end == End::Open));
        StateFilter {
            connections: ids(&self.connections),
            kinds: State::ALL.into_iter().filter(|kind| is_selected(&self.kinds, kind.word())).collect(),
            ends: ends.collect(),
            recalled: self.recalled,
            span: self.span.span(),
        }
    }
}

/// A parser that accepts exactly these words.
fn words<const N: usize>(words: [&'static str; N]) -> PossibleValuesParser {
    PossibleValuesParser::new(words)
}

/// Filters for transactions.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Filters")]
pub(crate) struct TransactionArguments {
    /// Only transactions on the connection with this number
    #[arg(long = "connection", value_name = "N", value_delimiter = ',')]
    connections: Vec<u32>,
    /// Only transactions with this XID: decimal, or hexadecimal after 0x
    #[arg(long = "xid", value_name = "XID", value_parser = parse_number, value_delimiter = ',')]
    xids: Vec<u32>,
    /// Only transactions with this procedure, or with this operation in a COMPOUND
    #[arg(long = "operation", value_name = "NAME", value_parser = OPERATION, value_delimiter = ',', hide_possible_values = true)]
    operations: Vec<String>,
    /// Only transactions with this status: a number, a name with or without its prefix (NFS4ERR_),
    /// or `error` for every status but OK
    #[arg(long = "status", value_name = "STATUS", value_parser = STATUS, value_delimiter = ',', hide_possible_values = true)]
    statuses: Vec<String>,
    /// Only transactions with this outcome
    #[arg(long = "outcome", value_name = "OUTCOME", value_enum, value_delimiter = ',')]
    outcomes: Vec<OutcomeArgument>,
    /// Only transactions in this direction; forward calls come from the end that opened the
    /// connection
    #[arg(long, value_enum)]
    direction: Option<DirectionArgument>,
    /// Only transactions with a latency above this: 250us, 5ms, 1.5s
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    latency_above: Option<u64>,
    /// Only transactions on a file with this path: a name, the end of a path, or a whole path; `*`,
    /// `?`, `[...]` and `**` work as in a shell
    ///
    /// A pattern that begins with / is compared with the whole path. Any other pattern is compared
    /// with the end of the path, starting at a name. docs/names.md describes where paths come from.
    #[arg(long = "file", value_name = "PATTERN", value_parser = FilePattern::parse)]
    paths: Vec<FilePattern>,
    /// Only transactions of the NFS client with this address, such as 10.0.0.7 or 10.0.0.*
    #[arg(long = "client", value_name = "ADDRESS", value_parser = AddressPattern::parse, value_delimiter = ',')]
    clients: Vec<AddressPattern>,
    /// Only transactions of the NFS server with this address
    #[arg(long = "server", value_name = "ADDRESS", value_parser = AddressPattern::parse, value_delimiter = ',')]
    servers: Vec<AddressPattern>,
    /// Only transactions with an AUTH_SYS credential of this user: a uid, a client machine name, or
    /// both as 1000@node7
    #[arg(long = "user", value_name = "USER", value_parser = UserPattern::parse, value_delimiter = ',')]
    users: Vec<UserPattern>,
    #[command(flatten)]
    span: SpanArguments,
}

impl TransactionArguments {
    /// The filters for one connection.
    #[cfg(test)]
    pub(crate) fn of_connection(number: u32) -> TransactionArguments {
        TransactionArguments { connections: vec![number], ..TransactionArguments::default() }
    }

    /// Whether no filter is set.
    pub(crate) fn is_empty(&self) -> bool {
        self.filter() == TransactionFilter::default()
    }

    /// Returns the filter for these options.
    pub(crate) fn filter(&self) -> TransactionFilter {
        TransactionFilter {
            connections: ids(&self.connections),
            xids: self.xids.iter().copied().map(Xid).collect(),
            operations: self.operations.clone(),
            statuses: self.statuses.iter().filter_map(|status| StatusFilter::parse(status).ok()).collect(),
            outcomes: self.outcomes.iter().map(|outcome| outcome.outcome()).collect(),
            direction: self.direction.map(DirectionArgument::direction),
            latency_above: self.latency_above,
            files: self.paths.clone(),
            clients: self.clients.clone(),
            servers: self.servers.clone(),
            users: self.users.clone(),
            span: self.span.span(),
        }
    }
}

/// Filters for packets.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Filters")]
pub(crate) struct PacketArguments {
    /// Only packets on the connection with this number
    #[arg(long = "connection", value_name = "N", value_delimiter = ',')]
    connections: Vec<u32>,
    /// Only packets to this destination queue pair: decimal, or hexadecimal after 0x
    #[arg(long = "qp", value_name = "QPN", value_parser = parse_24_bits, value_delimiter = ',')]
    queue_pairs: Vec<u32>,
    /// Only packets with this opcode: a number after 0x, or part of the name, such as `read
    /// response`. Names include those of RDMAP, for the FPDUs of iWARP
    #[arg(long = "opcode", value_name = "NAME", value_parser = OpcodeFilter::parse, value_delimiter = ',')]
    opcodes: Vec<OpcodeFilter>,
    /// Only packets with this PSN, or with a PSN in the range FIRST-LAST, which may wrap
    #[arg(long = "psn", value_name = "PSN", value_parser = PsnRange::parse, value_delimiter = ',')]
    psns: Vec<PsnRange>,
    #[command(flatten)]
    span: SpanArguments,
    /// Include records that contain neither a transport packet nor a segment of an iWARP connection
    #[arg(long)]
    all: bool,
}

impl PacketArguments {
    /// Returns the filter for these options.
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

const OPERATION: Named = Named { kind: "operation", names: operation_names, is_other: |_| false };

const STATUS: Named = Named {
    kind: "status",
    names: status_names,
    is_other: |text| text.starts_with(|first: char| first.is_ascii_digit()) && parse_number(text).is_ok(),
};

/// A value parser for names from a list that is too long for a help text. Completion scripts list
/// the names. Case is ignored.
#[derive(Clone, Copy)]
pub(crate) struct Named {
    pub(crate) kind: &'static str,
    pub(crate) names: fn() -> Vec<&'static str>,
    /// Accepts a value that is not in the list.
    pub(crate) is_other: fn(&str) -> bool,
}

impl TypedValueParser for Named {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        option: Option<&Arg>,
        value: &OsStr,
    ) -> core::result::Result<String, clap::Error> {
        let Named { kind, names, is_other } = *self;
        let known = move |text: &str| -> core::result::Result<String, String> {
            let checked = if is_other(text) { Ok(()) } else { known(&format!("{kind} name"), text, names()) };
            checked.map(|()| text.to_owned())
        };
        known.parse_ref(command, option, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.names)().into_iter().map(PossibleValue::new)))
    }
}

/// The connections and the span that a command named. Naming one that is not in the capture is an
/// error, so an empty output means that nothing matched.
#[derive(Debug, Default)]
pub(crate) struct RequestedScope {
    connections: Vec<ConnectionId>,
    span: Span,
    /// The named connections that are in the capture.
    found: BTreeSet<ConnectionId>,
    /// The highest connection number.
    last: u32,
}

impl Observer for RequestedScope {
    fn needs(&self) -> Config {
        Config::default()
    }

    #[inline]
    fn handle(&mut self, event: &Event<'_>) {
        if let Event::Connection(connection) = event {
            self.last = self.last.max(connection.id.0);
            if self.connections.contains(&connection.id) {
                self.found.insert(connection.id);
            }
        }
    }
}

impl RequestedScope {
    /// The connections and the span of a filter.
    pub(crate) fn new(connections: &[ConnectionId], span: Span) -> RequestedScope {
        RequestedScope { connections: connections.to_vec(), span, ..RequestedScope::default() }
    }

    /// Whether the capture has no connections. Valid at the end of the capture.
    pub(crate) fn is_empty(&self) -> bool {
        self.last == 0
    }

    /// Fails if a named connection or the span is not in the capture. Valid at the end of the
    /// capture.
    pub(crate) fn check(&self, ending: &Ending) -> Result<()> {
        if let Some((first, last)) = ending.totals.span {
            let covered = || format!("{} to {}", Rfc3339::from(first), Rfc3339::from(last));
            ensure!(!self.span.is_empty(first), "the span is empty: --until must be after --since");
            ensure!(
                self.span.overlaps(first, last, first),
                "the capture has no packets in that span: it covers {}",
                covered()
            );
        }
        match self.connections.iter().find(|id| !self.found.contains(id)) {
            Some(ConnectionId(number)) if self.is_empty() => {
                bail!("no connection {number}: the capture has no connections")
            }
            Some(ConnectionId(number)) => {
                bail!("no connection {number}: the highest number is {}", self.last)
            }
            None => Ok(()),
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
    /// No reply arrived before the connection ended or the XID was reused
    NoReply,
    /// The call was not captured
    NoCall,
    /// An RDMA_ERROR arrived instead of a reply
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
