//! Figures of rows over time and over latency, as charts want them.

use crate::rows::Row;
use rdmascope_dissector::record::Time;
use rdmascope_present::names::Label;
use std::collections::{BTreeMap, BTreeSet};

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

    #[test]
    fn a_point_stands_once() {
        let rows: Vec<Row> = (0..1000).map(|time| row(time, 1000 + time as u64 % 3, 0)).collect();
        let points = latencies(rows.iter(), (Time(0), Time(999)), (50, 10));
        assert!(points.len() <= 51, "{}", points.len());
        assert!(points.iter().all(|(_, y)| (2.9..=3.0).contains(y)), "{points:?}");
    }
}
