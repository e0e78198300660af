//! The latencies of one operation in two captures, side by side on one logarithmic scale.

use crate::text::Style;
use hdrhistogram::Histogram;
use rdmascope_analysis::diff::counts;
use rdmascope_analysis::units::{Duration, Number};
use std::io::{self, Write};

/// Greatest width of the longest bar.
const WIDTH: usize = 34;
/// Width of a share, with spaces around it.
const SHARE: usize = 9;
/// Width of the column of lower edges.
const EDGES: usize = 12;
/// The most rows of a histogram.
const MOST_ROWS: usize = 16;

/// Writes both histograms.
pub(super) fn write(
    title: &str,
    sides: [&Histogram<u64>; 2],
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let bins = Bins::of(sides);
    let room = style.width().map_or(WIDTH, |width| (width.saturating_sub(EDGES) / 2).saturating_sub(SHARE));
    let width = room.clamp(1, WIDTH);
    let [a, b] = sides.map(|side| bins.shares(side));
    let most = a.iter().chain(&b).copied().fold(0.0, f64::max);
    let [count_a, count_b] = sides.map(|side| Number(side.len()));
    let heading = format!("{count_a} in A");
    writeln!(out, "  {}", style.bold(title))?;
    writeln!(out, "  {:>8}  {heading:1$}{count_b} in B", "from", width + SHARE)?;
    for ((edge, a), b) in bins.edges.iter().zip(a).zip(b) {
        let [left, right] = [a, b].map(|share| bar(share, most, width));
        let row = format!("  {:>8}  {left:1$}{right}", Duration(*edge), width + SHARE);
        writeln!(out, "{}", row.trim_end())?;
    }
    Ok(())
}

/// A bar of at most `width` characters with its share in percent; empty for a share of zero.
fn bar(share: f64, most: f64, width: usize) -> String {
    if share == 0.0 {
        return String::new();
    }
    // A share above zero is always visible.
    let length = ((share / most * width as f64).round() as usize).max(1);
    format!("{} {:.1}%", "#".repeat(length), share * 100.0)
}

/// Latency intervals of roughly equal ratio.
#[derive(Debug)]
struct Bins {
    /// The lower edge of each bin, in nanoseconds. A bin ends where the next one begins.
    edges: Vec<u64>,
}

impl Bins {
    /// Series of preferred numbers (ISO 3), rounded, from fine to coarse, in tenths.
    const SERIES: [&[u64]; 4] =
        [&[10, 12, 15, 20, 25, 30, 40, 50, 60, 80], &[10, 15, 25, 40, 60], &[10, 20, 50], &[10]];

    /// Chooses the finest series that covers all values of both sides in at most [`MOST_ROWS`]
    /// rows.
    fn of(sides: [&Histogram<u64>; 2]) -> Bins {
        let values = || sides.into_iter().flat_map(counts).map(|(value, _)| value);
        let least = values().min().unwrap_or(0);
        let greatest = values().max().unwrap_or(0);
        let edges = Bins::SERIES.map(|series| Bins::edges(series, least, greatest));
        let coarsest = Bins::SERIES.len() - 1;
        let chosen = edges.iter().position(|edges| edges.len() <= MOST_ROWS).unwrap_or(coarsest);
        let mut edges = edges.into_iter().nth(chosen).unwrap_or_default();
        edges.truncate(MOST_ROWS);
        Bins { edges }
    }

    /// The edges from the last one at or below `least` to the last one at or below `greatest`.
    fn edges(series: &[u64], least: u64, greatest: u64) -> Vec<u64> {
        let decades = core::iter::successors(Some(1_u64), |decade| decade.checked_mul(10));
        let all =
            decades.flat_map(|decade| series.iter().filter_map(move |tenths| tenths.checked_mul(decade)));
        let mut edges: Vec<u64> =
            core::iter::once(0).chain(all).take_while(|edge| *edge <= greatest).collect();
        let below = edges.partition_point(|edge| *edge <= least);
        edges.drain(..below.saturating_sub(1));
        edges
    }

    /// The share of values in each bin.
    fn shares(&self, histogram: &Histogram<u64>) -> Vec<f64> {
        let mut shares = vec![0.0; self.edges.len()];
        for (value, count) in counts(histogram) {
            let bin = self.edges.partition_point(|edge| *edge <= value).saturating_sub(1);
            shares[bin] += count as f64 / histogram.len() as f64;
        }
        shares
    }
}
