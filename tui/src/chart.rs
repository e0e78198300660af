//! Figures of rows over time and over latency, as charts want them.

use crate::rows::Row;
use rdmascope_dissector::connection::ConnectionId;
use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::Direction;
use rdmascope_present::names::Label;
use std::collections::{BTreeMap, BTreeSet};

/// How often something happened, over time. It takes the same room however long the session is: where it has no further place, each place stands for
/// twice the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    start: Time,
    /// Nanoseconds that a place stands for.
    width: u64,
    counts: Vec<u64>,
}

impl Series {
    /// Places.
    const MOST: usize = 1024;

    /// One that begins at `start`.
    pub fn new(start: Time) -> Series {
        Series { start, width: 1, counts: Vec::new() }
    }

    /// It happened at `time`; what is before the start counts as there.
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

    /// How often it happened in each of `columns` equal parts of a span of time.
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

/// The connections of rows, and how many rows each has.
pub fn connections(rows: &[Row]) -> Vec<(ConnectionId, u64)> {
    let mut counts: BTreeMap<ConnectionId, u64> = BTreeMap::new();
    for row in rows {
        *counts.entry(row.connection).or_default() += 1;
    }
    counts.into_iter().collect()
}

/// The calls of one connection's requester that are answered later, over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InFlight {
    /// The most in each column.
    pub most: Vec<u64>,
    /// Whether as many calls were in flight in it as credits were granted by then.
    pub is_used_up: Vec<bool>,
    /// The least and the most credits that were granted.
    pub granted: Option<(u32, u32)>,
}

/// How many forward calls are in flight in each of `columns` equal spans of time, of those whose replies are known. Where the rows are not of one connection,
/// nothing is said of credits: each connection has its own (RFC 8166, section 3.3.1).
pub fn in_flight<'a>(
    rows: impl Iterator<Item = &'a Row>,
    (start, end): (Time, Time),
    columns: usize,
) -> InFlight {
    // When, whether it is a call, and what a reply grants: a reply that comes when a call is sent has given its credit back before.
    let (mut steps, mut of) = (Vec::new(), BTreeSet::new());
    for row in rows.filter(|row| row.direction == Direction::Forward) {
        let Some(latency) = row.latency else { continue };
        let since = row.time.since(start);
        steps.push((since, true, None));
        steps.push((since.saturating_add(latency.max(1)), false, row.credits));
        of.insert(row.connection);
    }
    steps.sort_unstable();
    let mut flight = InFlight { most: vec![0; columns], is_used_up: vec![false; columns], granted: None };
    let Some(last) = columns.checked_sub(1) else { return flight };
    let length = u128::from(end.since(start)) + 1;
    let column = |since: u64| ((u128::from(since) * columns as u128 / length) as usize).min(last);
    let (mut now, mut at, mut granted) = (0u64, 0usize, None);
    for (since, is_call, credits) in steps {
        // What is in flight at the end of a column is so at the beginning of the next. A call is in flight until right before its reply.
        let to = column(if is_call { since } else { since - 1 });
        while at < to {
            at += 1;
            flight.most[at] = now;
        }
        if is_call {
            now += 1;
            flight.most[at] = flight.most[at].max(now);
            flight.is_used_up[at] |= granted.is_some_and(|granted| now >= u64::from(granted));
        } else {
            now = now.saturating_sub(1);
            if let Some(credits) = credits.filter(|_| of.len() == 1) {
                granted = Some(credits);
                let (least, most) = flight.granted.unwrap_or((credits, credits));
                flight.granted = Some((least.min(credits), most.max(credits)));
            }
        }
    }
    flight
}

/// The operations, those first on which most time was spent.
pub fn operations(rows: &[Row]) -> Vec<(Label, u64)> {
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

/// Latencies over time, as points of a grid of `columns` by `lines`, each once: seconds from `start`, and the decimal logarithm of nanoseconds.
pub fn latencies<'a>(
    rows: impl Iterator<Item = &'a Row>,
    (start, end): (Time, Time),
    (columns, lines): (usize, usize),
) -> Vec<(f64, f64)> {
    const DECADES: f64 = 12.0;
    let length = end.since(start).max(1) as f64;
    let mut cells = BTreeSet::new();
    for row in rows {
        let Some(latency) = row.latency else { continue };
        let x = row.time.since(start) as f64 / length;
        let y = (latency.max(1) as f64).log10() / DECADES;
        cells.insert(((x * columns as f64) as u64, (y * DECADES * lines as f64) as u64));
    }
    let point = |(x, y): (u64, u64)| (x as f64 / columns as f64 * length / 1e9, y as f64 / lines as f64);
    cells.into_iter().map(point).collect()
}

/// Bytes moved in each of `columns` equal spans of time.
pub fn moved<'a>(
    rows: impl Iterator<Item = &'a Row>,
    (start, end): (Time, Time),
    columns: usize,
) -> Vec<u64> {
    let mut sums = vec![0u64; columns];
    let length = u128::from(end.since(start)) + 1;
    for row in rows {
        let place = (u128::from(row.time.since(start)) * columns as u128 / length) as usize;
        if let Some(sum) = sums.get_mut(place) {
            *sum = sum.saturating_add(row.moved);
        }
    }
    sums
}

/// How many latencies lie from one power of two, in nanoseconds, to the next: the lower bound and the count, from the first to the last that
/// has some.
pub fn histogram<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<(u64, u64)> {
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
        (row.time, row.latency, row.moved) = (Time(time), Some(latency), moved);
        row
    }

    #[test]
    fn latencies_fall_into_powers_of_two() {
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

    /// Two calls at once from 10 to 20 and one of them until 30; the first reply grants two credits.
    #[test]
    fn calls_in_flight_under_the_grant() {
        let mut rows = [row(0, 5, 0), row(10, 10, 0), row(10, 20, 0), row(60, 0, 0), row(99, 1, 0)];
        rows.iter_mut().for_each(|row| row.credits = None);
        rows[0].credits = Some(2);
        rows[4].latency = None;
        let flight = in_flight(rows.iter(), (Time(0), Time(99)), 10);
        assert_eq!(flight.most, [1, 2, 1, 0, 0, 0, 1, 0, 0, 0]);
        let used: Vec<_> = flight.is_used_up.iter().map(|used| u8::from(*used)).collect();
        assert_eq!(used, [0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(flight.granted, Some((2, 2)));
        // Of two connections nothing is said of credits, and callbacks have their own.
        rows[3].connection.0 += 1;
        let flight = in_flight(rows.iter(), (Time(0), Time(99)), 10);
        assert_eq!((flight.granted, flight.is_used_up.contains(&true)), (None, false));
        rows.iter_mut().for_each(|row| row.direction = Direction::Backward);
        assert_eq!(in_flight(rows.iter(), (Time(0), Time(99)), 3).most, [0, 0, 0]);
        assert_eq!(in_flight(rows.iter(), (Time(0), Time(0)), 0), InFlight::default());
    }

    /// Replies give their credits back before a call of the same time takes one.
    #[test]
    fn one_call_behind_the_other_is_one_in_flight() {
        let rows: Vec<Row> = (0..10).map(|number| row(number * 10, 10, 0)).collect();
        let flight = in_flight(rows.iter(), (Time(0), Time(100)), 5);
        assert_eq!(flight.most, [1; 5]);
    }

    #[test]
    fn a_series_keeps_its_counts_however_long_it_grows() {
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
    fn a_point_stands_once() {
        let rows: Vec<Row> = (0..1000).map(|time| row(time, 1000 + time as u64 % 3, 0)).collect();
        let points = latencies(rows.iter(), (Time(0), Time(999)), (50, 10));
        assert!(points.len() <= 51, "{}", points.len());
        assert!(points.iter().all(|(_, y)| (2.9..=3.0).contains(y)), "{points:?}");
    }
}
