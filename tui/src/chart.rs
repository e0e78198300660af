//! Chart data computed from rows: figures over time, and the distribution of latencies.

use crate::rows::{Row, Rows};
use core::fmt::{self, Display, Formatter};
use foldhash::fast::FixedState;
use rdmascope_analysis::names::Label;
use rdmascope_dissector::connection::ConnectionId;
use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::Direction;
use std::collections::{BTreeMap, HashMap};

/// Counts of an event over time, in constant space: when the places run out, each place covers
/// twice the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    start: Time,
    /// Nanoseconds that a place covers.
    width: u64,
    counts: Vec<u64>,
}

impl Series {
    /// The number of places.
    const MOST: usize = 1024;

    /// Creates a series that begins at `start`.
    pub fn new(start: Time) -> Series {
        Series { start, width: 1, counts: Vec::new() }
    }

    /// Counts an event at `time`. Events before the start count as at the start.
    pub fn add(&mut self, time: Time) {
        let since = time.since(self.start);
        while since / self.width >= Series::MOST as u64 {
            self.counts = self.counts.chunks(2).map(|pair| pair.iter().sum()).collect();
            self.width *= 2;
        }
        let place = (since / self.width) as usize;
        if place >= self.counts.len() {
            self.counts.resize(place + 1, 0);
        }
        self.counts[place] += 1;
    }

    /// The counts in each of `columns` equal parts of a span of time.
    pub fn columns(&self, (start, end): (Time, Time), columns: usize) -> Vec<u64> {
        let mut sums = vec![0u64; columns];
        let length = u128::from(end.since(start)) + 1;
        for (place, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let since = u128::from(self.start.since(start)) + u128::from(self.width) * place as u128;
            let column = (since * columns as u128 / length) as usize;
            if let Some(sum) = sums.get_mut(column.min(columns.saturating_sub(1))) {
                *sum += count;
            }
        }
        sums
    }
}

/// The rows that charts are drawn from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Of {
    /// All rows.
    #[default]
    All,
    /// Those of an operation.
    Operation(Label),
    /// Those of a connection.
    Connection(ConnectionId),
}

impl Of {
    fn holds(self, row: &Row) -> bool {
        match self {
            Of::All => true,
            Of::Operation(label) => row.label == label,
            Of::Connection(connection) => row.connection == connection,
        }
    }
}

impl Display for Of {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Of::All => f.write_str("all operations"),
            Of::Operation(label) => label.fmt(f),
            Of::Connection(connection) => write!(f, "connection {}", connection.0),
        }
    }
}

/// A request for charts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The number of rows.
    pub rows: usize,
    /// The span of time that they show.
    pub span: (Time, Time),
    /// The index of the selected entry in [`Figures::names`].
    pub at: usize,
    /// The width in columns.
    pub columns: usize,
}

/// The data of the charts. It is computed from every row, so this is done on a separate thread.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// The request that it answers.
    pub wanted: Option<Wanted>,
    /// The entries that can be selected: all rows, an operation, or a connection if there are
    /// several; with the number of rows of each.
    pub names: Vec<(Of, u64)>,
    /// The selected entry.
    pub of: Of,
    /// Latencies over time, as distinct points of a grid: seconds from the start, and the decimal
    /// logarithm of nanoseconds.
    pub latencies: Vec<(f64, f64)>,
    /// Bytes moved, column by column.
    pub moved: Vec<u64>,
    /// Calls in flight.
    pub flight: InFlight,
    /// A histogram of latencies with rows that double: the lower bound in nanoseconds, and the
    /// count.
    pub histogram: Vec<(u64, u64)>,
}

impl Figures {
    /// Computes the requested figures from `rows`.
    pub fn new(wanted: Wanted, rows: &Rows) -> Figures {
        /// Lines for a factor of ten in latency.
        const LINES: usize = 8;
        let Wanted { span, at, columns, .. } = wanted;
        let names = names(rows);
        let of = names.get(at.min(names.len() - 1)).map_or(Of::All, |(of, _)| *of);
        let held = rows.iter().filter(|row| of.holds(row));
        Figures {
            wanted: Some(wanted),
            latencies: latencies(held.clone(), span, (columns * 2, LINES)),
            moved: moved(held.clone(), span, columns),
            flight: in_flight(held.clone(), span, columns),
            histogram: histogram(held),
            names,
            of,
        }
    }
}

/// See [`Figures::names`]. Operations are in the order of the total time spent on them.
fn names(rows: &Rows) -> Vec<(Of, u64)> {
    let connections = connections(rows.iter());
    let connections = connections.into_iter().filter(|(_, count)| *count < rows.len() as u64);
    core::iter::once((Of::All, rows.len() as u64))
        .chain(operations(rows.iter()).into_iter().map(|(label, count)| (Of::Operation(label), count)))
        .chain(connections.map(|(connection, count)| (Of::Connection(connection), count)))
        .collect()
}

/// The connections of rows, and the number of rows of each.
fn connections<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<(ConnectionId, u64)> {
    let mut counts: HashMap<ConnectionId, u64, FixedState> = HashMap::default();
    for row in rows {
        *counts.entry(row.connection).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_unstable_by_key(|(connection, _)| connection.0);
    counts
}

/// The answered calls of one connection's requester that are in flight, over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InFlight {
    /// The largest number in each column.
    pub most: Vec<u64>,
    /// Whether the calls in flight used up the granted credits, by column.
    pub is_used_up: Vec<bool>,
    /// The lowest and the highest number of credits granted.
    pub granted: Option<(u32, u32)>,
}

/// Counts the forward calls in flight in each of `columns` equal spans of time, of those with a
/// known reply. If the rows are not of one connection, credits are left out, because each
/// connection has its own (RFC 8166, section 3.3.1).
fn in_flight<'a>(
    rows: impl Iterator<Item = &'a Row>,
    (start, end): (Time, Time),
    columns: usize,
) -> InFlight {
    // Times of calls; times of replies, with the credits that they grant. Rows are in the order in
    // which they ended, so both are nearly sorted.
    let (mut calls, mut replies, mut of) = (Vec::new(), Vec::new(), None);
    let mut is_of_one = true;
    for row in rows.filter(|row| row.direction == Direction::Forward) {
        let Some(latency) = row.latency else { continue };
        let since = row.time.since(start);
        calls.push(since);
        replies.push((since.saturating_add(latency.max(1)), row.credits));
        is_of_one &= *of.get_or_insert(row.connection) == row.connection;
    }
    calls.sort();
    replies.sort_by_key(|(since, _)| *since);
    let mut flight = InFlight { most: vec![0; columns], is_used_up: vec![false; columns], granted: None };
    let Some(last) = columns.checked_sub(1) else { return flight };
    let length = u128::from(end.since(start)) + 1;
    let column = |since: u64| ((u128::from(since) * columns as u128 / length) as usize).min(last);
    let (mut now, mut at, mut granted) = (0u64, 0usize, None);
    let mut calls = calls.into_iter().peekable();
    // The number in flight at the end of a column carries over to the next.
    let mut reach = |to: usize, most: &mut [u64], now: u64| {
        while at < to {
            at += 1;
            most[at] = now;
        }
        at
    };
    for (since, credits) in replies {
        // A reply at the time of a call has returned its credit before.
        while let Some(sent) = calls.next_if(|sent| *sent < since) {
            let at = reach(column(sent), &mut flight.most, now);
            now += 1;
            flight.most[at] = flight.most[at].max(now);
            flight.is_used_up[at] |= granted.is_some_and(|granted| now >= u64::from(granted));
        }
        // A call is in flight until just before its reply.
        reach(column(since - 1), &mut flight.most, now);
        now = now.saturating_sub(1);
        if let Some(credits) = credits.filter(|_| is_of_one) {
            granted = Some(credits);
            let (least, most) = flight.granted.unwrap_or((credits, credits));
            flight.granted = Some((least.min(credits), most.max(credits)));
        }
    }
    flight
}

/// The operations, in descending order of the total time spent on them.
fn operations<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<(Label, u64)> {
    let mut sums: BTreeMap<Label, (u64, u64)> = BTreeMap::new();
    for row in rows {
        let (count, sum) = sums.entry(row.label).or_default();
        *count += 1;
        *sum = sum.saturating_add(row.latency.unwrap_or(0));
    }
    let mut listed: Vec<_> = sums.into_iter().collect();
    listed.sort_by_key(|(label, (_, sum))| (core::cmp::Reverse(*sum), *label));
    listed.into_iter().map(|(label, (count, _))| (label, count)).collect()
}

/// Latencies over time, as distinct points of a grid of `columns` by `lines`: seconds from `start`,
/// and the decimal logarithm of nanoseconds.
fn latencies<'a>(
    rows: impl Iterator<Item = &'a Row>,
    (start, end): (Time, Time),
    (columns, lines): (usize, usize),
) -> Vec<(f64, f64)> {
    /// More than a u64 of nanoseconds has.
    const DECADES: usize = 20;
    let length = end.since(start).max(1) as f64;
    let high = DECADES * lines;
    let mut cells = vec![false; (columns + 1) * high];
    for row in rows {
        let Some(latency) = row.latency else { continue };
        let x = row.time.since(start) as f64 / length;
        let y = (latency.max(1) as f64).log10();
        let cell = ((x * columns as f64) as usize).min(columns) * high + (y * lines as f64) as usize;
        if let Some(cell) = cells.get_mut(cell) {
            *cell = true;
        }
    }
    let point = |cell: usize| {
        let (x, y) = (cell / high, cell % high);
        (x as f64 / columns as f64 * length / 1e9, y as f64 / lines as f64)
    };
    cells.iter().enumerate().filter(|(_, is_set)| **is_set).map(|(cell, _)| point(cell)).collect()
}

/// Bytes moved in each of `columns` equal spans of time.
fn moved<'a>(rows: impl Iterator<Item = &'a Row>, (start, end): (Time, Time), columns: usize) -> Vec<u64> {
    let mut sums = vec![0u64; columns];
    let length = u128::from(end.since(start)) + 1;
    for row in rows {
        let place = (u128::from(row.time.since(start)) * columns as u128 / length) as usize;
        if let Some(sum) = sums.get_mut(place) {
            *sum = sum.saturating_add(row.bytes);
        }
    }
    sums
}

/// A histogram of latencies with rows that double: the lower bound in nanoseconds and the count,
/// from the first nonempty row to the last.
fn histogram<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<(u64, u64)> {
    let mut counts = [0u64; 64];
    for latency in rows.filter_map(|row| row.latency) {
        counts[latency.max(1).ilog2() as usize] += 1;
    }
    let first = counts.iter().position(|count| *count > 0);
    let last = counts.iter().rposition(|count| *count > 0);
    let (Some(first), Some(last)) = (first, last) else { return Vec::new() };
    (first..=last).map(|power| (1 << power, counts[power])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::RowMaker;
    use rdmascope_tests::values;

    fn row(time: i64, latency: u64, moved: u64) -> Row {
        let mut row = RowMaker::default().row(&values::read(7, 10), Time(0), 10);
        (row.time, row.latency, row.bytes) = (Time(time), Some(latency), moved);
        row
    }

    #[test]
    fn latencies_are_binned_by_powers_of_two() {
        let rows = [row(0, 1000, 0), row(0, 1023, 0), row(0, 1024, 0), row(0, 5000, 0), row(0, 0, 0)];
        let counts = histogram(rows[..4].iter());
        assert_eq!(counts, [(512, 2), (1024, 1), (2048, 0), (4096, 1)]);
        assert_eq!(histogram(rows[4..].iter()), [(1, 1)]);
        assert_eq!(histogram([].iter()), []);
    }

    #[test]
    fn bytes_are_summed_over_time() {
        let rows = [row(0, 1, 10), row(49, 1, 5), row(50, 1, 7), row(99, 1, 1)];
        assert_eq!(moved(rows.iter(), (Time(0), Time(99)), 2), [15, 8]);
        assert_eq!(moved(rows.iter(), (Time(0), Time(0)), 3).iter().sum::<u64>(), 10);
    }

    /// Two calls at once from 10 to 20 and one of them until 30; the first reply grants two
    /// credits.
    #[test]
    fn calls_in_flight_are_compared_with_the_grant() {
        let mut rows = [row(0, 5, 0), row(10, 10, 0), row(10, 20, 0), row(60, 0, 0), row(99, 1, 0)];
        rows.iter_mut().for_each(|row| row.credits = None);
        rows[0].credits = Some(2);
        rows[4].latency = None;
        let flight = in_flight(rows.iter(), (Time(0), Time(99)), 10);
        assert_eq!(flight.most, [1, 2, 1, 0, 0, 0, 1, 0, 0, 0]);
        let used: Vec<_> = flight.is_used_up.iter().map(|used| u8::from(*used)).collect();
        assert_eq!(used, [0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(flight.granted, Some((2, 2)));
        // With two connections, credits are left out; callbacks have their own.
        rows[3].connection.0 += 1;
        let flight = in_flight(rows.iter(), (Time(0), Time(99)), 10);
        assert_eq!((flight.granted, flight.is_used_up.contains(&true)), (None, false));
        rows.iter_mut().for_each(|row| row.direction = Direction::Backward);
        assert_eq!(in_flight(rows.iter(), (Time(0), Time(99)), 3).most, [0, 0, 0]);
        assert_eq!(in_flight(rows.iter(), (Time(0), Time(0)), 0), InFlight::default());
    }

    /// A reply returns its credit before a call at the same time takes one.
    #[test]
    fn consecutive_calls_are_one_in_flight() {
        let rows: Vec<Row> = (0..10).map(|number| row(number * 10, 10, 0)).collect();
        let flight = in_flight(rows.iter(), (Time(0), Time(100)), 5);
        assert_eq!(flight.most, [1; 5]);
    }

    #[test]
    fn a_series_keeps_its_counts_as_it_grows() {
        let mut series = Series::new(Time(100));
        for time in [0, 100, 101, 5_000, 1_000_000, i64::MAX] {
            series.add(Time(time));
        }
        assert!(series.counts.len() <= Series::MOST);
        let columns = series.columns((Time(100), Time(i64::MAX)), 4);
        assert_eq!(columns, [5, 0, 0, 1]);
        let mut series = Series::new(Time(0));
        (0..10_000).for_each(|time| series.add(Time(time)));
        let columns = series.columns((Time(0), Time(9_999)), 10);
        assert!(columns.iter().all(|count| (980..=1020).contains(count)), "{columns:?}");
        assert_eq!(columns.iter().sum::<u64>(), 10_000);
        assert!(series.columns((Time(0), Time(9_999)), 0).is_empty());
    }

    #[test]
    fn duplicate_points_are_merged() {
        let rows: Vec<Row> = (0..1000).map(|time| row(time, 1000 + time as u64 % 3, 0)).collect();
        let points = latencies(rows.iter(), (Time(0), Time(999)), (50, 10));
        assert!(points.len() <= 51, "{}", points.len());
        assert!(points.iter().all(|(_, y)| (2.9..=3.0).contains(y)), "{points:?}");
    }
}
