//! Which records are written where transactions are chosen: those that carry them, and the CM exchanges of their connections.

use crate::filters::TransactionArguments;
use crate::input::{Input, listen};
use crate::paths;
use anyhow::{Result, ensure};
use foldhash::fast::FixedState;
use rdmascope_dissector::connection::ConnectionId;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::{Event, Packet};
use rdmascope_dissector::transaction::Transaction;
use rdmascope_present::expression::Where;
use rdmascope_present::paths::TransactionRow;
use rdmascope_wire::Qpn;
use std::collections::HashSet;

/// Records by their numbers.
#[derive(Debug, Default)]
pub(super) struct Slice {
    records: Vec<u64>,
    /// How many transactions were chosen.
    pub(super) transactions: usize,
}

impl Slice {
    /// The records of the transactions that are asked for. The input is read twice, three times where names of files are asked for.
    pub(super) fn of(
        input: &Input,
        arguments: &TransactionArguments,
        condition: Option<&Where<Transaction>>,
    ) -> Result<Slice> {
        let (filter, mut asked) = (arguments.filter(), arguments.asked());
        let mut paths = match condition.is_some_and(|condition| condition.asks_for("file")) {
            true => paths::follow(input),
            false => paths::for_filter(input, &filter),
        };
        let mut chosen = Chosen::default();
        let ending = listen(input, Config::default(), |event, start| {
            asked.handle(&event);
            if let Event::Transaction(transaction) = event {
                let row = TransactionRow::follow(transaction, &mut paths);
                if filter.matches(&row, start) && condition.is_none_or(|it| it.matches(row, start)) {
                    chosen.begun.insert(transaction.begun);
                    chosen.connections.insert(transaction.connection);
                }
            }
            Ok(())
        })??;
        asked.check(&ending)?;
        ensure!(!chosen.begun.is_empty(), "no transaction is as asked for: there is nothing to write");
        let mut slice = Slice { records: Vec::new(), transactions: chosen.begun.len() };
        let config = Config { attribute: true, report_packets: true, ..Config::default() };
        listen(input, config, |event, _| {
            match event {
                Event::Attributed(attributed) => {
                    let role = attributed.role.map(|role| role.of());
                    let mut of = attributed.acknowledged.iter().copied().chain(role);
                    if of.any(|of| chosen.begun.contains(&of.begun)) {
                        slice.add(attributed.seen.frame);
                    }
                }
                Event::Packet(packet) if chosen.has(packet, &slice) => slice.add(packet.record.number),
                _ => {}
            }
            Ok(())
        })??;
        Ok(slice)
    }

    fn add(&mut self, number: u64) {
        let word = (number / 64) as usize;
        if self.records.len() <= word {
            self.records.resize(word + 1, 0);
        }
        self.records[word] |= 1 << (number % 64);
    }

    /// Whether the record with this number is of it.
    pub(super) fn has(&self, number: u64) -> bool {
        self.records.get((number / 64) as usize).is_some_and(|word| word & 1 << (number % 64) != 0)
    }
}

/// What was chosen.
#[derive(Default)]
struct Chosen {
    /// Transactions, by when they began.
    begun: HashSet<u64, FixedState>,
    connections: HashSet<ConnectionId, FixedState>,
}

impl Chosen {
    /// Whether a packet belongs to a CM exchange of a chosen connection, or shows a packet of the slice a second time.
    fn has(&self, packet: &Packet<'_>, slice: &Slice) -> bool {
        let is_cm = packet.readable_headers().is_some_and(|headers| headers.bth.destination_qp == Qpn(1));
        let is_of = packet.connection.is_some_and(|id| self.connections.contains(&id));
        is_cm && is_of || packet.copy_of.is_some_and(|first| slice.has(first.frame))
    }
}
