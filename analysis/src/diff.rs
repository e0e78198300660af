//! What differs between two captures of the same workload: gathered in bounded memory, compared, and written for people and for
//! programs.

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

/// From where on something is a difference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// By what factor median latencies, or 90th percentiles, have to be apart; 1 or more.
    pub latency_ratio: f64,
    /// By what factor counts, or their shares, averages and credits have to be apart; 1 or more.
    pub count_ratio: f64,
    /// How probable it may be that chance alone makes what is shown as a difference; between 0 and 1.
    pub significance: f64,
}

impl Thresholds {
    /// Those that hold where nobody asks for others.
    pub const DEFAULT: Thresholds = Thresholds { latency_ratio: 1.1, count_ratio: 1.1, significance: 0.01 };
}

/// The names of differences that do not depend on the captures.
pub fn names() -> impl Iterator<Item = &'static str> {
    let ways = conveyance::Way::ALL.map(conveyance::Way::name);
    let segments = conveyance::ChunkKind::ALL.map(|kind| kind.segments().0);
    let values = side::PARAMETERS.iter().chain(&side::CREDITS).map(|(name, _)| *name);
    ways.into_iter().chain(segments).chain(values)
}

#[cfg(test)]
mod tests;
