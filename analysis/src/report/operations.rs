//! Counts, payload bytes, latencies and phases for each operation.

use crate::names::{Failure, Label, Protocol};
use core::fmt;
use foldhash::fast::FixedState;
use hdrhistogram::Histogram;
use rdmascope_dissector::phases::Phases;
use rdmascope_dissector::transaction::{Direction, Transaction};
use std::collections::HashMap;

/// The key by which transactions are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The protocol, if the call is known.
    pub protocol: Option<Protocol>,
    /// Whether it runs backward.
    pub backward: bool,
    /// The principal operation.
    pub label: Label,
}

impl Key {
    /// The key for transactions that find the table full.
    pub const FURTHER: Key = Key { protocol: None, backward: false, label: Label::Named("(others)") };

    /// The key of a transaction.
    pub fn of(transaction: &Transaction) -> Key {
        Key {
            protocol: Protocol::of(transaction),
            backward: transaction.direction == Direction::Backward,
            label: Label::of(transaction),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(protocol) = self.protocol {
            write!(f, "{protocol} ")?;
        }
        write!(f, "{}{}", self.label, if self.backward { " (backward)" } else { "" })
    }
}

/// Counters of the transactions of one operation.
pub trait Count: Default {
    /// Adds a transaction.
    fn count(&mut self, transaction: &Transaction);
}

/// The operations of a capture.
#[derive(Debug, Default)]
pub struct Operations<T = Stats>(HashMap<Key, T, FixedState>);

impl<T: Default> Operations<T> {
    /// The most keys. Program and procedure numbers come from the wire, so the table needs a bound.
    const MOST: usize = 256;

    /// The counters of an operation, or those of [`Key::FURTHER`] if the table is full.
    pub fn of(&mut self, key: Key) -> &mut T {
        let has_room = self.0.len() < Self::MOST || self.0.contains_key(&key);
        self.0.entry(if has_room { key } else { Key::FURTHER }).or_default()
    }

    /// The counters of one operation.
    pub fn find(&self, key: &Key) -> Option<&T> {
        self.0.get(key)
    }

    /// All operations, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &T)> {
        self.0.iter()
    }
}

impl<T: Count> Operations<T> {
    /// Adds a transaction.
    pub fn count(&mut self, transaction: &Transaction) {
        self.of(Key::of(transaction)).count(transaction);
    }
}

impl<T> Operations<T> {
    /// All operations, sorted by key.
    pub fn in_order(&self) -> Vec<(&Key, &T)> {
        let mut all: Vec<_> = self.0.iter().collect();
        all.sort_unstable_by_key(|(key, _)| **key);
        all
    }
}

impl Operations {
    /// Whether no operation was counted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All operations by protocol; within a protocol, by total time, longest first.
    pub fn by_time(&self) -> Vec<(&Key, &Stats)> {
        let mut all: Vec<_> = self.0.iter().collect();
        let group = |key: &Key| (key.protocol.is_none(), key.protocol, key.backward);
        all.sort_by(|(a, a_stats), (b, b_stats)| {
            let by_time = b_stats.total_latency.cmp(&a_stats.total_latency);
            group(a).cmp(&group(b)).then(by_time).then(a.label.cmp(&b.label))
        });
        all
    }
}

/// The figures of one operation.
#[derive(Debug)]
pub struct Stats {
    /// Transactions.
    pub count: u64,
    /// Failed transactions.
    pub errors: u64,
    /// Payload bytes moved.
    pub bytes: u64,
    /// Sum of the latencies, in nanoseconds, with the time that calls without a reply waited.
    pub total_latency: u64,
    /// Calls that count with the time that they waited, because they have no reply.
    pub unanswered: u64,
    /// The shortest of these times.
    least_unanswered: u64,
    minimum: u64,
    maximum: u64,
    /// Allocated with the first latency, because a histogram takes at least 16 KiB.
    latencies: Option<Box<Histogram<u64>>>,
    /// Whether only the sum of latencies is kept.
    is_brief: bool,
    phases: Phases,
}

impl Default for Stats {
    fn default() -> Stats {
        Stats {
            count: 0,
            errors: 0,
            bytes: 0,
            total_latency: 0,
            unanswered: 0,
            least_unanswered: u64::MAX,
            minimum: u64::MAX,
            maximum: 0,
            latencies: None,
            is_brief: false,
            phases: Phases::default(),
        }
    }
}

/// Latency figures, in nanoseconds. A call without a reply counts with the time that it waited, at
/// least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    /// The shortest latency.
    pub minimum: u64,
    /// The median.
    pub median: u64,
    /// The 90th percentile.
    pub p90: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The longest latency.
    pub maximum: u64,
    /// Figures from this one on are lower bounds, because calls without a reply have waited so long.
    /// [`u64::MAX`] if all calls have replies.
    pub bound: u64,
}

impl Stats {
    /// Significant decimal digits of the percentiles.
    const DIGITS: u8 = 3;
    /// The longest recorded latency, one day. It bounds the histogram.
    const LONGEST: u64 = 86_400 * crate::time::SECOND;

    /// The histogram of latencies, in nanoseconds; `None` if there are none.
    pub fn latencies(&self) -> Option<&Histogram<u64>> {
        self.latencies.as_deref()
    }

    /// Memory of the histogram, in bytes.
    pub(crate) fn footprint(&self) -> usize {
        self.latencies().map_or(0, |latencies| latencies.distinct_values() * size_of::<u64>())
    }

    /// Drops the histogram, and keeps only the sum of latencies from now on.
    pub(crate) fn become_brief(&mut self) {
        (self.latencies, self.is_brief) = (None, true);
    }

    /// Latencies to three significant digits, shortest first, each with its number of transactions.
    pub fn latency_steps(&self) -> impl Iterator<Item = (u64, u64)> {
        let recorded = self.latencies().into_iter().flat_map(Histogram::iter_recorded);
        recorded.map(|step| {
            (step.value_iterated_to().clamp(self.minimum, self.maximum), step.count_since_last_iteration())
        })
    }

    /// The mean length of each phase, in nanoseconds.
    pub fn mean_phases(&self) -> Option<Phases> {
        // Phases need both call and reply.
        let count = self.latencies().map_or(0, Histogram::len).saturating_sub(self.unanswered);
        (count > 0).then(|| Phases { times: self.phases.times.map(|time| time / count), ..self.phases })
    }

    /// The latency figures; `None` if no transaction has a latency.
    pub fn latency(&self) -> Option<Latency> {
        let latencies = self.latencies()?;
        let quantile = |q| latencies.value_at_quantile(q).clamp(self.minimum, self.maximum);
        Some(Latency {
            minimum: self.minimum,
            median: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            maximum: self.maximum,
            bound: self.least_unanswered,
        })
    }

    /// The share of each phase in the total time, in the order of [`Phases::NAMES`]. The sum is 1.
    pub fn shares(&self) -> Option<[f64; Phases::COUNT]> {
        Stats::shares_of([self].into_iter())
    }

    /// The share of each phase in the total time of several operations.
    pub(super) fn shares_of<'a>(operations: impl Iterator<Item = &'a Stats>) -> Option<[f64; Phases::COUNT]> {
        let mut sums = [0.0; Phases::COUNT];
        for stats in operations {
            sums.iter_mut().zip(stats.phases.times).for_each(|(sum, time)| *sum += time as f64);
        }
        let total: f64 = sums.iter().sum();
        (total > 0.0).then(|| sums.map(|sum| sum / total))
    }

    /// The share of the server's time after RDMA Reads in the total time of several operations.
    pub(super) fn after_reads<'a>(operations: impl Iterator<Item = &'a Stats>) -> f64 {
        let (mut after, mut total) = (0, 0);
        for Stats { phases, .. } in operations {
            let [.., reads, _, server_after, _, _] = phases.times;
            total += phases.times.iter().sum::<u64>();
            after += if reads > 0 { server_after } else { 0 };
        }
        after as f64 / total.max(1) as f64
    }
}

impl Count for Stats {
    fn count(&mut self, transaction: &Transaction) {
        self.count += 1;
        self.errors += u64::from(Failure::of(transaction).is_some());
        self.bytes = self.bytes.saturating_add(payload_bytes(transaction));
        if let Some(latency) = transaction.waited() {
            if transaction.reply.is_none() {
                self.unanswered += 1;
                self.least_unanswered = self.least_unanswered.min(latency);
            }
            self.total_latency = self.total_latency.saturating_add(latency);
            self.minimum = self.minimum.min(latency);
            self.maximum = self.maximum.max(latency);
            if !self.is_brief {
                let latencies = self.latencies.get_or_insert_with(|| {
                    Box::new(Histogram::new(Stats::DIGITS).expect("three significant digits are possible"))
                });
                let bounded = latency.min(Stats::LONGEST);
                latencies.record(bounded).expect("the histogram grows to hold any value");
            }
        }
        if let Some(phases) = Phases::of(transaction) {
            for (sum, time) in self.phases.times.iter_mut().zip(phases.times) {
                *sum = sum.saturating_add(time);
            }
            self.phases.acknowledged |= phases.acknowledged;
        }
    }
}

/// The payload bytes of a transaction in both directions: those of DDP-eligible items, or, if there
/// are none, those that RDMA Reads and RDMA Writes moved.
pub fn payload_bytes(transaction: &Transaction) -> u64 {
    let [arguments, results] = payload(transaction);
    arguments.saturating_add(results)
}

/// The bytes of DDP-eligible items in arguments and in results; if there are none, the bytes that
/// RDMA Reads and RDMA Writes moved.
pub(crate) fn payload(transaction: &Transaction) -> [u64; 2] {
    let mut sums = [0, 0];
    for operation in &transaction.details.operations {
        for (sum, item) in sums.iter_mut().zip([operation.argument_item, operation.result_item]) {
            *sum += item.map_or(0, |item| u64::from(item.length));
        }
    }
    match sums {
        [0, 0] => [transaction.timing.read_bytes, transaction.timing.written_bytes],
        sums => sums,
    }
}
