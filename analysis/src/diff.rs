//! Differences between two captures of the same workload, gathered in bounded memory.

mod compare;
mod conveyance;
mod difference;
mod pairing;
mod side;
mod statistics;

pub use compare::Comparison;
pub use difference::{Area, Difference, Latencies, Measure, Pair, SizeClass, Verdict};
pub use side::Side;
pub use statistics::counts;

/// The thresholds for differences.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// The least factor between median latencies, or between 90th percentiles; 1 or more.
    pub latency_ratio: f64,
    /// The least factor between counts, shares, averages or credits; 1 or more.
    pub count_ratio: f64,
    /// The greatest probability that a reported difference is due to chance; between 0 and 1.
    pub significance: f64,
}

impl Thresholds {
    /// The default thresholds.
    pub const DEFAULT: Thresholds = Thresholds { latency_ratio: 1.1, count_ratio: 1.1, significance: 0.01 };
}

/// The names of differences that do not depend on the captures.
pub fn names() -> impl Iterator<Item = &'static str> {
    let ways = conveyance::Way::ALL.map(|(_, name, _)| name);
    let segments = conveyance::ChunkKind::ALL.map(|kind| kind.segments().0);
    let values = side::PARAMETERS.iter().chain(&side::CREDITS).map(|(name, _)| *name);
    ways.into_iter().chain(segments).chain(values)
}

#[cfg(test)]
mod tests;
