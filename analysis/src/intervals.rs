//! The transactions of a capture by intervals of equal length, and within them by connection, host
//! and operation.
//!
//! Memory is linear in the number of rows, which is bounded. The latencies of an interval are kept
//! until the capture is well past it; afterwards only their figures are kept.

use crate::ending::Ending;
use crate::names::Failure;
use crate::paths;
use crate::report::{Key, Latency, payload_bytes};
use crate::time::SECOND;
use hdrhistogram::Histogram;
use rdmascope_dissector::connection::ConnectionId;
use rdmascope_dissector::frame::Address;
use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::Transaction;
use std::collections::BTreeMap;

/// The keys by which transactions of an interval are grouped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct By {
    /// The connection.
    pub connection: bool,
    /// The address of the NFS client.
    pub client: bool,
    /// The address of the NFS server.
    pub server: bool,
    /// The principal operation, with protocol and direction.
    pub operation: bool,
}

/// The values that the transactions of a row have in common. A value is `None` if it is not a key,
/// or if it is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// See [`By`].
    pub connection: Option<ConnectionId>,
    /// See [`By`].
    pub client: Option<Address>,
    /// See [`By`].
    pub server: Option<Address>,
    /// See [`By`].
    pub operation: Option<Key>,
}

impl By {
    fn group(self, transaction: &Transaction) -> Group {
        Group {
            connection: self.connection.then_some(transaction.connection),
            client: self.client.then(|| paths::client(transaction)).flatten(),
            server: self.server.then(|| paths::server(transaction)).flatten(),
            operation: self.operation.then(|| Key::of(transaction)),
        }
    }
}

/// The transactions of a capture by intervals. The first interval starts with the first packet.
#[derive(Debug)]
pub struct ByInterval {
    /// The length of an interval in nanoseconds; not 0.
    length: u64,
    by: By,
    /// The rows by the number of their interval, from 0.
    intervals: BTreeMap<u64, BTreeMap<Group, Row>>,
    rows: usize,
    /// The first interval whose latencies are still kept one by one.
    open: u64,
}

/// The transactions of one interval and group.
#[derive(Debug, Default)]
struct Row {
    count: u64,
    errors: u64,
    bytes: u64,
    total_latency: u64,
    latencies: Latencies,
}

/// A row with its figures.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// The start of the interval.
    pub start: Time,
    /// The length of the interval in nanoseconds, at least 1. The last interval ends with the
    /// capture.
    pub length: u64,
    /// The values that the transactions have in common.
    pub group: Group,
    /// Transactions.
    pub count: u64,
    /// Failed transactions.
    pub errors: u64,
    /// Payload bytes moved.
    pub bytes: u64,
    /// Their latency figures, if any transaction has a latency.
    pub latency: Option<Latency>,
    /// Sum of the latencies, in nanoseconds.
    pub total_latency: u64,
}

impl Figures {
    /// Converts a count in this interval to a rate per second.
    pub fn rate(&self, count: u64) -> f64 {
        count as f64 * 1e9 / self.length as f64
    }
}

/// The error for a capture with more rows than the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {} rows: choose a longer interval or fewer columns to group by", ByInterval::MOST_ROWS)]
pub struct TooMany;

impl ByInterval {
    /// The most rows.
    pub const MOST_ROWS: usize = 1 << 19;
    /// The time after the end of an interval in which its transactions may still be reported, in
    /// nanoseconds. Later transactions are counted, but their latencies are not part of the median
    /// and percentiles.
    const LATE: u64 = 60 * SECOND;

    /// Creates an empty table. `length` is the length of an interval in nanoseconds, and not 0.
    pub fn new(length: u64, by: By) -> ByInterval {
        ByInterval { length: length.max(1), by, intervals: BTreeMap::new(), rows: 0, open: 0 }
    }

    /// Takes the next transaction of a capture that starts at `start`. It counts at the time of its
    /// reply; without a reply, at the time of its call.
    pub fn take(&mut self, transaction: &Transaction, start: Time) -> Result<(), TooMany> {
        let message = transaction.reply.as_ref().or(transaction.call.as_ref());
        let Some(message) = message else { return Ok(()) };
        let number = message.seen.time.since(start) / self.length;
        let rows = self.intervals.entry(number).or_default();
        let before = rows.len();
        let row = rows.entry(self.by.group(transaction)).or_default();
        row.count(transaction);
        self.rows += rows.len() - before;
        self.close(number.saturating_sub(1 + ByInterval::LATE.div_ceil(self.length)));
        if self.rows > ByInterval::MOST_ROWS { Err(TooMany) } else { Ok(()) }
    }

    /// Closes the intervals before `open`.
    fn close(&mut self, open: u64) {
        if open > self.open {
            for row in self.intervals.range_mut(self.open..open).flat_map(|(_, rows)| rows.values_mut()) {
                row.latencies.close();
            }
            self.open = open;
        }
    }

    /// The rows, in order of time. Without keys, intervals without transactions have a row too.
    pub fn rows(&self, ending: &Ending) -> Result<Vec<Figures>, TooMany> {
        let Some((start, end)) = ending.totals.span else { return Ok(Vec::new()) };
        let mut figures = Vec::with_capacity(self.rows);
        let figures_of = |number: u64, group: Group, row: &Row| {
            let begin = start.plus(number * self.length);
            Figures {
                start: begin,
                length: self.length.min(end.since(begin)).max(1),
                group,
                count: row.count,
                errors: row.errors,
                bytes: row.bytes,
                latency: row.latencies.figures(),
                total_latency: row.total_latency,
            }
        };
        if self.by != By::default() {
            let rows =
                self.intervals.iter().flat_map(|(number, rows)| rows.iter().map(move |row| (*number, row)));
            figures.extend(rows.map(|(number, (group, row))| figures_of(number, *group, row)));
            return Ok(figures);
        }
        let last = end.since(start) / self.length;
        if last >= ByInterval::MOST_ROWS as u64 {
            return Err(TooMany);
        }
        let nothing = Row::default();
        for number in 0..=last {
            let row = self.intervals.get(&number).and_then(|rows| rows.values().next());
            figures.push(figures_of(number, Group::default(), row.unwrap_or(&nothing)));
        }
        Ok(figures)
    }
}

impl Row {
    fn count(&mut self, transaction: &Transaction) {
        self.count += 1;
        self.errors += u64::from(Failure::of(transaction).is_some());
        self.bytes = self.bytes.saturating_add(payload_bytes(transaction));
        if let Some(latency) = transaction.latency() {
            self.total_latency = self.total_latency.saturating_add(latency);
            self.latencies.add(latency);
        }
    }
}

/// The latencies of a row, in nanoseconds.
#[derive(Debug)]
enum Latencies {
    /// A few latencies, one by one.
    Few(Vec<u64>),
    /// Many latencies to three significant digits, with the shortest and the longest.
    Many(Box<Histogram<u32>>, u64, u64),
    /// The figures of a closed interval.
    Closed(Option<Latency>),
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies::Few(Vec::new())
    }
}

impl Latencies {
    /// The most latencies kept one by one.
    const FEW: usize = 1024;
    /// The longest recorded latency, one day. It bounds the histogram.
    const LONGEST: u64 = 86_400 * SECOND;

    fn add(&mut self, latency: u64) {
        match self {
            Latencies::Few(few) if few.len() < Latencies::FEW => few.push(latency),
            Latencies::Few(few) => {
                let histogram = Histogram::new(3).expect("three significant digits are possible");
                let few = core::mem::take(few);
                *self = Latencies::Many(Box::new(histogram), u64::MAX, 0);
                few.into_iter().chain([latency]).for_each(|latency| self.add(latency));
            }
            Latencies::Many(histogram, shortest, longest) => {
                let bounded = latency.min(Latencies::LONGEST);
                histogram.record(bounded).expect("the histogram grows to hold any value");
                *shortest = latency.min(*shortest);
                *longest = latency.max(*longest);
            }
            Latencies::Closed(Some(closed)) => {
                closed.minimum = latency.min(closed.minimum);
                closed.maximum = latency.max(closed.maximum);
            }
            Latencies::Closed(closed) => {
                let [minimum, median, p90, p99, maximum] = [latency; 5];
                *closed = Some(Latency { minimum, median, p90, p99, maximum, bound: u64::MAX });
            }
        }
    }

    fn close(&mut self) {
        *self = Latencies::Closed(self.figures());
    }

    fn figures(&self) -> Option<Latency> {
        match self {
            Latencies::Few(few) => {
                let mut sorted = few.clone();
                sorted.sort_unstable();
                let (minimum, maximum) = (*sorted.first()?, *sorted.last()?);
                // The least value that this percentage does not exceed, as in the histogram.
                let percentile = |percent: usize| sorted[(sorted.len() * percent).div_ceil(100).max(1) - 1];
                let [median, p90, p99] = [50, 90, 99].map(percentile);
                Some(Latency { minimum, median, p90, p99, maximum, bound: u64::MAX })
            }
            Latencies::Many(histogram, minimum, maximum) => {
                let (minimum, maximum) = (*minimum, *maximum);
                let percentile = |q| histogram.value_at_quantile(q).clamp(minimum, maximum);
                let [median, p90, p99] = [0.5, 0.9, 0.99].map(percentile);
                Some(Latency { minimum, median, p90, p99, maximum, bound: u64::MAX })
            }
            Latencies::Closed(closed) => *closed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_dissector::engine::Totals;
    use rdmascope_tests::values;

    const START: Time = Time(1_000_000_000);

    /// A READ whose reply comes `end` nanoseconds after the start and `latency` after its call.
    fn read(end: u64, latency: u64) -> Transaction {
        let mut transaction = values::read(7, 100);
        let end = START.plus(end);
        let call = transaction.call.as_mut().expect("it has a call");
        call.seen.time = Time(end.0 - latency as i64);
        transaction.reply.as_mut().expect("it has a reply").seen.time = end;
        transaction
    }

    fn ending(length: u64) -> Ending {
        let totals = Totals { span: Some((START, START.plus(length))), ..Totals::default() };
        Ending { totals, ..Ending::default() }
    }

    #[test]
    fn replies_set_the_interval_and_silence_has_rows() {
        let mut table = ByInterval::new(SECOND, By::default());
        for (end, latency) in [(0, 5), (SECOND - 1, 7), (SECOND, 9), (4 * SECOND + 1, 11)] {
            table.take(&read(end, latency), START).unwrap();
        }
        let rows = table.rows(&ending(4 * SECOND + SECOND / 2)).unwrap();
        assert_eq!(rows.iter().map(|row| row.count).collect::<Vec<_>>(), [2, 1, 0, 0, 1]);
        assert_eq!(rows[1].start, START.plus(SECOND));
        let (first, last) = (&rows[0], &rows[4]);
        assert_eq!((first.length, first.total_latency), (SECOND, 12));
        assert_eq!(
            first.latency.map(|latency| (latency.minimum, latency.median, latency.maximum)),
            Some((5, 5, 7))
        );
        // The capture ends in the middle of the interval.
        assert_eq!((last.length, last.rate(last.count)), (SECOND / 2, 2.0));
        assert!(rows[2].latency.is_none());
    }

    #[test]
    fn groups_have_rows_only_where_they_have_calls() {
        let by = By { connection: true, operation: true, ..By::default() };
        let mut table = ByInterval::new(SECOND, by);
        let mut other = read(2 * SECOND, 3);
        other.connection = ConnectionId(9);
        for transaction in [&read(2 * SECOND, 5), &other, &read(7 * SECOND, 5)] {
            table.take(transaction, START).unwrap();
        }
        let rows = table.rows(&ending(8 * SECOND)).unwrap();
        let found: Vec<_> =
            rows.iter().map(|row| (row.start.since(START) / SECOND, row.group.connection)).collect();
        let (of, nine) = (Some(read(0, 1).connection), Some(ConnectionId(9)));
        assert_eq!(found, [(2, of), (2, nine), (7, of)]);
        assert!(rows.iter().all(|row| row.group.operation.is_some() && row.group.client.is_none()));
    }

    #[test]
    fn few_latencies_are_exact_and_many_have_three_digits() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.figures(), None);
        for latency in 1..=100 {
            latencies.add(latency);
        }
        let exact = Latency { minimum: 1, median: 50, p90: 90, p99: 99, maximum: 100, bound: u64::MAX };
        assert_eq!(latencies.figures(), Some(exact));
        for latency in 101..=100_000 {
            latencies.add(latency);
        }
        let many = latencies.figures().unwrap();
        let near = |found: u64, expected: u64| found.abs_diff(expected) * 1000 <= expected;
        assert!(near(many.median, 50_000) && near(many.p90, 90_000) && near(many.p99, 99_000), "{many:?}");
        assert_eq!((many.minimum, many.maximum), (1, 100_000));
        latencies.close();
        assert_eq!(latencies.figures(), Some(many));
        latencies.add(200_000);
        assert_eq!(latencies.figures(), Some(Latency { maximum: 200_000, ..many }));
    }

    #[test]
    fn old_intervals_keep_only_their_figures() {
        let mut table = ByInterval::new(SECOND, By::default());
        for second in 0..200 {
            table.take(&read(second * SECOND, 5), START).unwrap();
        }
        let is_closed = |number| {
            let row = table.intervals[&number].values().next().unwrap();
            matches!(row.latencies, Latencies::Closed(Some(_)))
        };
        assert!((0..138).all(is_closed) && (138..200).all(|number| !is_closed(number)));
        assert!(table.rows(&ending(200 * SECOND)).unwrap()[..200].iter().all(|row| row.latency.is_some()));
    }

    #[test]
    fn rows_are_bounded() {
        let mut table = ByInterval::new(1, By { connection: true, ..By::default() });
        let count = ByInterval::MOST_ROWS as u64 + 1;
        let taken = (0..count).map(|end| table.take(&read(end, 0), START));
        assert_eq!(taken.filter(Result::is_err).count(), 1);
        let silent = ByInterval::new(1, By::default());
        assert_eq!(silent.rows(&ending(SECOND)).err(), Some(TooMany));
    }
}
