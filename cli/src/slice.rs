//! Restriction of a capture to the transactions that match a filter.
//!
//! The engine still reads the whole capture, so the part shows no gaps in place of other
//! transactions. Events that do not belong to the part are dropped.

use crate::filters::{RequestedScope, TransactionArguments};
use crate::input::{Input, listen};
use crate::paths;
use crate::table::expression_about;
use anyhow::{Context as _, Result, ensure};
use clap::Args;
use foldhash::fast::FixedState;
use rdmascope_analysis::ending::{Chosen, Ending};
use rdmascope_analysis::events::{EventFilter, Events};
use rdmascope_analysis::observer::Observer;
use rdmascope_analysis::paths::TransactionRow;
use rdmascope_conformance::Finding;
use rdmascope_dissector::connection::ConnectionId;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::{Event, Packet};
use rdmascope_dissector::iwarp::Part;
use rdmascope_dissector::transaction::Transaction;
use rdmascope_present::columns::TRANSACTION;
use rdmascope_present::expression::Where;
use rdmascope_wire::Qpn;
use std::collections::HashSet;

/// Filters for the transactions to show.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Filters")]
pub(crate) struct SliceArguments {
    /// Only transactions that match this expression: `op == READ && latency > 5ms && file ~
    /// '*.dat'`
    ///
    /// docs/tables.md describes expressions, and the related lines that are shown with the selected
    /// transactions.
    #[arg(long = "where", value_name = "EXPRESSION", value_parser = expression_about(&TRANSACTION))]
    condition: Option<String>,
    #[command(flatten)]
    filter: TransactionArguments,
}

impl SliceArguments {
    /// The filters for one connection.
    #[cfg(test)]
    pub(crate) fn of_connection(number: u32) -> SliceArguments {
        SliceArguments { condition: None, filter: TransactionArguments::of_connection(number) }
    }

    /// Returns the selected part, and the input to read from now on. If the part is not the whole
    /// capture, the input can be read more than once. `records` is the record information that the
    /// caller needs.
    pub(crate) fn of<'a>(&self, input: &'a Input, records: Records) -> Result<(Slice, Captured<'a>)> {
        of(input, self.condition.as_deref(), &self.filter, records)
    }
}

/// As [`SliceArguments::of`], for a command whose `--where` does not filter transactions.
pub(crate) fn of<'a>(
    input: &'a Input,
    condition: Option<&str>,
    filter: &TransactionArguments,
    records: Records,
) -> Result<(Slice, Captured<'a>)> {
    if condition.is_none() && filter.is_empty() {
        return Ok((Slice::default(), Captured::Once(input)));
    }
    let input = input.twice()?;
    let slice = Slice::of(&input, condition, filter, records)?;
    Ok((slice, Captured::Again(Box::new(input))))
}

/// An input, which may have been made readable more than once.
pub(crate) enum Captured<'a> {
    /// The input as given; it may be readable only once.
    Once(&'a Input),
    /// An input that can be read again.
    Again(Box<Input>),
}

impl Captured<'_> {
    /// The input to read.
    pub(crate) fn input(&self) -> &Input {
        match self {
            Captured::Once(input) => input,
            Captured::Again(input) => input,
        }
    }
}

/// The record information that a part must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Records {
    /// None.
    Unknown,
    /// The records that belong to the part.
    Known,
    /// The records that carry its transactions, even if the filter selects whole connections.
    OfTransactions,
}

/// A part of a capture. The default is all of it.
#[derive(Debug, Default)]
pub(crate) struct Slice {
    /// Its connections; `None` for all.
    connections: Option<HashSet<ConnectionId, FixedState>>,
    /// Its transactions; `None` for all on these connections.
    transactions: Option<Transactions>,
    chosen: Option<Chosen>,
    /// Whether events of other connections may be shown: those of an outage name several.
    follows_all: bool,
}

/// Transactions selected individually.
#[derive(Debug, Default)]
struct Transactions {
    /// The `begun` numbers of the transactions.
    begun: HashSet<u64, FixedState>,
    /// Bit set of the records that carry them.
    records: Vec<u64>,
}

impl Slice {
    /// Selects the transactions that match `condition` and `arguments`. Reads the capture once for
    /// the transactions, once more for file paths if needed, and once for records if needed. Fails
    /// if neither a transaction nor a loss of service matches.
    fn of(
        input: &Input,
        condition: Option<&str>,
        arguments: &TransactionArguments,
        records: Records,
    ) -> Result<Slice> {
        let condition = condition.map(|text| Where::parse(text, &TRANSACTION)).transpose();
        let condition: Option<Where<Transaction>> = condition.context("--where")?;
        let filter = arguments.filter();
        let mut scope = RequestedScope::new(&filter.connections, filter.span);
        let mut paths = match condition.as_ref().is_some_and(|condition| condition.uses_column("file")) {
            true => paths::follow(input),
            false => paths::for_filter(input, &filter),
        };
        let selects_connections =
            condition.is_none() && filter.is_of_connections() && records != Records::OfTransactions;
        let mut transactions = Transactions::default();
        let mut connections = HashSet::default();
        let mut count = 0;
        let follows_all = condition.is_none() && filter.is_of_scope() && records != Records::OfTransactions;
        let mut events = follows_all.then(Events::default);
        let ending = listen(input, Config::default().and(events.needs()), |event, start| {
            scope.handle(&event);
            events.handle(&event);
            match event {
                Event::Transaction(transaction) => {
                    count += 1;
                    let row = TransactionRow::follow(transaction, &mut paths);
                    let holds = |it: &Where<Transaction>| it.matches(row, start);
                    if filter.matches(&row, start) && condition.as_ref().is_none_or(holds) {
                        transactions.begun.insert(transaction.begun);
                        connections.insert(transaction.connection);
                    }
                }
                Event::Connection(connection)
                    if selects_connections && filter.connections.contains(&connection.id) =>
                {
                    connections.insert(connection.id);
                }
                _ => {}
            }
            Ok(())
        })?;
        scope.check(&ending)?;
        let chosen = Chosen {
            transactions: transactions.begun.len() as u64,
            of: count,
            connections: connections.len() as u64,
            events: EventFilter { connections: filter.connections, span: filter.span, kinds: Vec::new() },
        };
        let ending = Ending { chosen: Some(chosen), ..ending };
        let is_empty = transactions.begun.is_empty() && !selects_connections;
        ensure!(!is_empty || has_losses(&events, &ending), "no transaction matches the filter");
        let chosen = ending.chosen;
        let mut slice = Slice { connections: Some(connections), transactions: None, chosen, follows_all };
        if !selects_connections {
            if records != Records::Unknown {
                transactions.find(input)?;
            }
            slice.transactions = Some(transactions);
        }
        Ok(slice)
    }

    /// The number of selected transactions and connections; `None` if all are selected.
    pub(crate) fn chosen(&self) -> Option<Chosen> {
        self.chosen.clone()
    }

    fn has_connection(&self, id: ConnectionId) -> bool {
        self.connections.as_ref().is_none_or(|connections| connections.contains(&id))
    }

    /// Whether the list of the part's events needs an event: it belongs to one of the connections,
    /// regardless of its transaction.
    pub(crate) fn concerns(&self, event: &Event<'_>) -> bool {
        self.follows_all || self.is_of_connection(event)
    }

    fn is_of_connection(&self, event: &Event<'_>) -> bool {
        match event {
            Event::Transaction(transaction) => self.has_connection(transaction.connection),
            Event::Connection(connection) => self.has_connection(connection.id),
            Event::Observation(observation) => self.has_connection(observation.connection),
            _ => true,
        }
    }

    /// Whether an event belongs to the part.
    pub(crate) fn has(&self, event: &Event<'_>) -> bool {
        match (event, &self.transactions) {
            (Event::Transaction(transaction), Some(chosen)) => chosen.begun.contains(&transaction.begun),
            (Event::Packet(packet), _) => self.has_packet(packet),
            _ => self.is_of_connection(event),
        }
    }

    /// Whether a packet carries one of the transactions, belongs to the CM exchange or the iWARP
    /// setup and teardown of one of the connections, or is a copy of such a packet.
    pub(crate) fn has_packet(&self, packet: &Packet<'_>) -> bool {
        let is_near = || match &self.connections {
            Some(connections) => packet.connection.is_some_and(|id| connections.contains(&id)),
            None => true,
        };
        let Some(chosen) = &self.transactions else { return is_near() };
        chosen.has(packet.record.number)
            || packet.copy_of.is_some_and(|first| chosen.has(first.frame))
            || is_near() && is_of_exchange(packet)
    }

    /// Whether a finding belongs to the part: it is about one of the connections, and cites a
    /// packet that carries one of the transactions.
    pub(crate) fn has_finding(&self, finding: &Finding) -> bool {
        finding.connection.is_none_or(|id| self.has_connection(id))
            && self
                .transactions
                .as_ref()
                .is_none_or(|chosen| finding.frames.iter().any(|frame| chosen.has(*frame)))
    }
}

/// Whether a loss of service is selected, if the events were followed.
fn has_losses(events: &Option<Events>, ending: &Ending) -> bool {
    let last = ending.totals.span.map(|(_, last)| last);
    let mut losses = events.iter().flat_map(|events| events.list(last)).filter(|event| event.kind.is_loss());
    losses.any(|event| ending.has_event(&event))
}

/// Whether a packet opens or closes a connection: a CM message, an MPA start frame, a TCP FIN or
/// RST.
fn is_of_exchange(packet: &Packet<'_>) -> bool {
    match packet.segment() {
        Some(segment) => {
            let starts = || packet.parts().iter().any(|part| matches!(part, Part::Start(..)));
            segment.fin || segment.rst || starts()
        }
        None => packet.readable_headers().is_some_and(|headers| headers.bth.destination_qp == Qpn(1)),
    }
}

impl Transactions {
    /// Finds the records that carry the transactions.
    fn find(&mut self, input: &Input) -> Result<()> {
        let config = Config { attribute: true, ..Config::default() };
        listen(input, config, |event, _| {
            if let Event::Attributed(attributed) = event {
                let role = attributed.role.map(|role| role.of());
                let mut of = attributed.acknowledged.iter().copied().chain(role);
                if of.any(|of| self.begun.contains(&of.begun)) {
                    self.add(attributed.seen.frame);
                }
            }
            Ok(())
        })?;
        Ok(())
    }

    fn add(&mut self, number: u64) {
        let word = (number / 64) as usize;
        if self.records.len() <= word {
            self.records.resize(word + 1, 0);
        }
        self.records[word] |= 1 << (number % 64);
    }

    /// Whether the record with this number carries one of the transactions.
    fn has(&self, number: u64) -> bool {
        self.records.get((number / 64) as usize).is_some_and(|word| word & 1 << (number % 64) != 0)
    }
}
