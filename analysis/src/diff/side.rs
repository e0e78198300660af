//! The facts gathered about one of the two captures. Memory does not grow with its length.

use super::conveyance::Conveyance;
use super::difference::{Pair, SizeClass};
use crate::ending::Ending;
use crate::findings::Findings;
use crate::names::StateName;
use crate::observer::Observer;
use crate::report::{Count, Key, Operations, Problems, Stats, payload_bytes};
use core::fmt::Write as _;
use hdrhistogram::Histogram;
use rdmascope_conformance::Finding;
use rdmascope_dissector::connection::{Connection, Endpoint, Origin};
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::transaction::{Direction, Security, Transaction};

/// The facts about one capture.
#[derive(Debug, Default)]
pub struct Side {
    pub(super) operations: Operations<Counted>,
    pub(super) problems: Problems,
    /// The counts of findings.
    pub(super) findings: Findings,
    pub(super) connections: Connections,
    /// The security flavors of calls.
    pub(super) security: Values<Security>,
    /// The values of rdma_credit, by [`CREDITS`].
    pub(super) credits: [Extremes; CREDITS.len()],
    /// The ending of the capture, from the reader and the engine.
    pub ending: Ending,
}

/// The names of credit figures, in machine-readable output and for people.
pub(super) const CREDITS: [(&str, &str); 4] = [
    ("credits-requested-forward", "credits requested"),
    ("credits-granted-forward", "credits granted"),
    ("credits-requested-backward", "credits requested, backward"),
    ("credits-granted-backward", "credits granted, backward"),
];

impl Side {
    /// The number of connections.
    pub fn connections(&self) -> u64 {
        self.connections.count
    }

    /// The number of transactions.
    pub fn transactions(&self) -> u64 {
        self.operations.iter().map(|(_, counted)| counted.stats.count).sum()
    }

    /// Nanoseconds from the first packet to the last.
    pub fn length(&self) -> u64 {
        self.ending.totals.span.map_or(0, |(first, last)| last.since(first))
    }

    /// The latencies of the operation of side `index` (0 or 1) of a pair.
    pub fn latencies(&self, index: usize, pair: Pair) -> Option<&Histogram<u64>> {
        let key = Key { protocol: pair.protocols[index], backward: pair.backward, label: pair.label };
        let counted = self.operations.find(&key)?;
        let stats = match pair.size {
            Some(size) => counted.of_size(size)?,
            None => &counted.stats,
        };
        stats.latencies()
    }

    /// Judges the next event, and counts the wanted ones of its findings. The judge needs every
    /// event.
    pub fn judge(&mut self, event: &Event<'_>, is_wanted: impl Fn(&Finding) -> bool) {
        self.findings.handle_some(event, is_wanted);
    }

    /// Counts an event for the comparison.
    pub fn count(&mut self, event: &Event<'_>) {
        match event {
            Event::Transaction(transaction) => self.transaction(transaction),
            Event::Connection(connection) => {
                self.problems.connection(connection);
                self.connections.add(connection);
            }
            Event::Eviction(eviction) => self.problems.eviction(eviction),
            _ => {}
        }
    }

    fn transaction(&mut self, transaction: &Transaction) {
        self.operations.count(transaction);
        self.problems.transaction(transaction);
        if transaction.call.is_some() {
            self.security.add(transaction.security);
        }
        let direction = if transaction.direction == Direction::Backward { 2 } else { 0 };
        if let Some(call) = &transaction.call {
            self.credits[direction].add(call.credits);
        }
        if let Some(reply) = &transaction.reply {
            self.credits[direction + 1].add(reply.credits);
        }
    }
}

impl Observer for Side {
    fn needs(&self) -> Config {
        self.findings.needs()
    }

    fn handle(&mut self, event: &Event<'_>) {
        self.judge(event, |_| true);
        self.count(event);
    }
}

/// The counters of one operation.
#[derive(Debug, Default)]
pub(super) struct Counted {
    pub(super) stats: Stats,
    pub(super) conveyance: Conveyance,
    pub(super) compounds: Compounds,
    /// The statistics by size class.
    sizes: [Option<Box<Stats>>; SizeClass::COUNT],
}

impl Counted {
    /// The statistics of transactions of this size class; `None` if there are none.
    pub(super) fn of_size(&self, size: SizeClass) -> Option<&Stats> {
        self.sizes[size.index()].as_deref()
    }
}

impl Count for Counted {
    fn count(&mut self, transaction: &Transaction) {
        self.stats.count(transaction);
        let size = SizeClass::of(payload_bytes(transaction));
        self.sizes[size.index()].get_or_insert_default().count(transaction);
        self.conveyance.count(transaction);
        self.compounds.count(transaction);
    }
}

/// The sequences of operation names in COMPOUNDs, with their counts.
#[derive(Debug, Default)]
pub(super) struct Compounds(pub(super) Vec<(Vec<&'static str>, u64)>);

impl Compounds {
    /// The most sequences kept for one principal operation. They come from the wire, so the list
    /// needs a bound.
    const MOST: usize = 32;
    /// The most operations of a COMPOUND that are kept.
    const LONGEST: usize = 24;

    fn count(&mut self, transaction: &Transaction) {
        if transaction.call.is_none() || transaction.details.minor_version.is_none() {
            return;
        }
        let operations = &transaction.details.operations;
        let names = || operations.iter().take(Compounds::LONGEST).map(|operation| operation.name());
        if let Some((_, count)) = self.0.iter_mut().find(|(known, _)| names().eq(known.iter().copied())) {
            *count += 1;
        } else if self.0.len() < Compounds::MOST {
            self.0.push((names().collect(), 1));
        }
    }

    /// The count of one sequence; `None` if the list is full and may lack it.
    pub(super) fn find(&self, names: &[&'static str]) -> Option<u64> {
        match self.0.iter().find(|(known, _)| known == names) {
            Some((_, count)) => Some(*count),
            None if self.0.len() < Compounds::MOST => Some(0),
            None => None,
        }
    }
}

/// Distinct values, with their number of occurrences.
#[derive(Debug)]
pub(super) struct Values<T>(pub Vec<(T, u64)>);

impl<T> Default for Values<T> {
    fn default() -> Values<T> {
        Values(Vec::new())
    }
}

impl<T: PartialEq> Values<T> {
    /// The most distinct values. They come from the wire, so the list needs a bound.
    const MOST: usize = 16;

    /// Adds a value, if it is known.
    fn add(&mut self, value: Option<T>) {
        let Some(value) = value else { return };
        if let Some((_, count)) = self.0.iter_mut().find(|(known, _)| *known == value) {
            *count += 1;
        } else if self.0.len() < Values::<T>::MOST {
            self.0.push((value, 1));
        }
    }
}

/// The least, the greatest and the last of many values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extremes {
    pub(super) count: u64,
    pub(super) least: u32,
    pub(super) greatest: u32,
    pub(super) last: u32,
}

impl Extremes {
    fn add(&mut self, value: u32) {
        self.least = if self.count == 0 { value } else { self.least.min(value) };
        self.greatest = self.greatest.max(value);
        self.last = value;
        self.count += 1;
    }
}

/// The parameters of all connections.
#[derive(Debug, Default)]
pub(super) struct Connections {
    pub(super) count: u64,
    /// The values by [`PARAMETERS`].
    pub(super) parameters: [Values<String>; PARAMETERS.len()],
}

/// The names of connection parameters, in machine-readable output and for people.
pub(super) const PARAMETERS: [(&str, &str); 10] = [
    ("path-mtu", "path MTU"),
    ("call-inline-threshold", "inline threshold of calls"),
    ("reply-inline-threshold", "inline threshold of replies"),
    ("remote-invalidation", "remote invalidation"),
    ("requester-private-data", "private data of the requester: R, send/receive size"),
    ("responder-private-data", "private data of the responder: R, send/receive size"),
    ("port", "port"),
    ("backchannel", "calls by the responder (backchannel)"),
    ("state", "state of the connection at the end"),
    ("origin", "origin of the connection"),
];

impl Connections {
    fn add(&mut self, connection: &Connection) {
        self.count += 1;
        let number = |number: Option<u32>| number.map(|number| number.to_string());
        let switch = |on: bool, words: [&str; 2]| words[usize::from(on)].to_owned();
        let cm = connection.origin == Origin::Cm;
        // The inline thresholds are known only if the private data of both ends is known, or known
        // to be absent.
        let known = connection.call_inline_threshold.is_some();
        let values = [
            number(connection.path_mtu.map(u32::from)),
            number(connection.call_inline_threshold),
            number(connection.reply_inline_threshold),
            connection.remote_invalidation.map(|on| switch(on, ["off", "on"])),
            private_data(&connection.requester, known),
            private_data(&connection.responder, known),
            number(connection.port.map(u32::from)),
            Some(switch(connection.transactions[1] > 0, ["none", "used"])),
            Some(StateName(connection).to_string()),
            Some(switch(cm, ["from its traffic", "by CM"])),
        ];
        self.parameters.iter_mut().zip(values).for_each(|(parameter, value)| parameter.add(value));
    }
}

/// The private data of an end as text; `None` if it is unknown whether the end sent any.
fn private_data(end: &Endpoint, known: bool) -> Option<String> {
    let Some(data) = end.private_data else { return known.then(|| "none".to_owned()) };
    let flag = if data.remote_invalidation { "set" } else { "clear" };
    let mut text = format!("{flag}, {}/{}", data.send_size, data.receive_size);
    if data.version != 1 {
        let _ = write!(text, ", version {}", data.version);
    }
    if data.reserved != 0 {
        let _ = write!(text, ", reserved 0x{:02x}", data.reserved);
    }
    if data.offset != 0 {
        let _ = write!(text, ", at byte {}", data.offset);
    }
    Some(text)
}
